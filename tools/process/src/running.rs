//! The processes of a running call, and how they are ended.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::mark::{CALL, NODE, SERVER, with_live};
use crate::system;

/// The variables that mark a process, and all processes it starts, as part of a call. Set both on
/// every process started for a call, and start it with [`spawn_isolated`](crate::spawn_isolated).
pub fn marks(call_env: &str) -> [(&'static str, String); 2] {
    let (session, group) = system::session_and_group();
    [(CALL, call_env.to_owned()), (NODE, format!("{session}:{group}"))]
}

/// A value for [`marks`] that names a server of this process: `server:NAMESPACE:PID:START:NUMBER`,
/// unique for each server. From it [`end_orphans`](crate::end_orphans) sees whether this process
/// has ended.
pub fn server_mark() -> String {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    format!("{SERVER}:{}:{number}", system::this_process())
}

/// Number of cancelled calls whose processes are not all gone yet.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// One of them. Dropping it counts down, whatever becomes of the thread.
struct Ending;

impl Ending {
    fn new() -> Self {
        ENDING.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs `work` on a thread of its own, or on this one if the system starts no more.
fn in_background(work: impl Fn() + Send + Sync + 'static) {
    let ending = Ending::new();
    let work = Arc::new(work);
    let ours = Arc::clone(&work);
    let started = std::thread::Builder::new().name("leftfold-end".into()).spawn(move || {
        let _ending = ending;
        ours();
    });
    if let Err(error) = started {
        tracing::warn!("processes are ended on a thread that has other work: {error}");
        work();
    }
}

/// Waits until every process of every cancelled call is gone. Await it before the process exits:
/// cancelling a call does not wait for its processes.
pub async fn settled() {
    while ENDING.load(Ordering::Acquire) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All processes of one running call. Dropping the value ends them.
#[derive(Debug)]
pub struct CallProcesses {
    leader: Pid,
    call_env: String,
    ended: bool,
    /// Open until the processes have ended.
    held: Option<OwnedFd>,
}

impl CallProcesses {
    /// `leader` is the started process. It leads a group of its own and has the [`marks`].
    pub(crate) fn new(leader: Pid, call_env: &str) -> Self {
        Self { leader, call_env: call_env.to_owned(), ended: false, held: None }
    }

    /// Keeps `descriptor` open until the processes have ended, although the call may have been cancelled before.
    pub fn hold(&mut self, descriptor: OwnedFd) {
        self.held = Some(descriptor);
    }

    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Tells the group that its terminal is gone. Shells then pass it on to their jobs, and save their
    /// history.
    pub fn hang_up(&self) {
        // an error means that the group is empty
        let _ = rustix::process::kill_process_group(self.leader, Signal::HUP);
    }

    /// Ends the remaining processes of the call. Returns when all are gone.
    pub async fn end(mut self) {
        self.ended = true;
        let (leader, call_env) = (self.leader, self.call_env.clone());
        // the task fails only by panicking, and then nothing can be done here
        let _ = tokio::task::spawn_blocking(move || end(leader, &call_env)).await;
    }
}

impl Drop for CallProcesses {
    /// Ends the call without waiting: SIGTERM now, the rest in the background.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // an error means that the group is empty
        let _ = rustix::process::kill_process_group(self.leader, Signal::TERM);
        let (leader, call_env) = (self.leader, self.call_env.clone());
        let held = self.held.take();
        in_background(move || {
            let _held = &held;
            end(leader, &call_env);
        });
    }
}

/// Ends every marked process on this machine of a call that another program has started. Returns
/// when they are gone.
pub async fn end_marked(call_env: &str) {
    let call_env = call_env.to_owned();
    // the task fails only by panicking, and then nothing can be done here
    let _ = tokio::task::spawn_blocking(move || system::end_marked(&call_env)).await;
}

/// Runs [`end_marked`] in the background. [`settled`] waits for it.
pub fn end_marked_later(call_env: &str) {
    let call_env = call_env.to_owned();
    in_background(move || {
        system::end_marked(&call_env);
    });
}

fn end(leader: Pid, call_env: &str) {
    system::end_call(leader, call_env);
    with_live(|live| live.retain(|other| other.leader != leader));
}
