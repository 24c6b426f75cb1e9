//! The processes of a running call, and the end of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::mark::{CALL, NODE, SERVER, live};
use crate::system;

/// The variables that mark a process (and all it starts) as belonging to a call. Set both on
/// whatever is started for one, and start it in a process group of its own.
pub fn marks(call_env: &str) -> [(&'static str, String); 2] {
    let (session, group) = system::session_and_group();
    [(CALL, call_env.to_owned()), (NODE, format!("{session}:{group}"))]
}

/// For [`marks`]: a server of this process, unlike every other. It names the process as
/// `server:NAMESPACE:PID:START:NUMBER`, so that [`end_orphans`](crate::end_orphans) knows when that has ended.
pub fn server_mark() -> String {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let number = SERVERS.fetch_add(1, Ordering::Relaxed);
    format!("{SERVER}:{}:{number}", system::this_process())
}

/// Cancelled calls whose processes are not all gone yet.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// Waits until every process of every call that was cancelled is gone. To be awaited before the
/// process exits, because the end of a cancelled call is not waited for.
pub async fn settled() {
    while ENDING.load(Ordering::Acquire) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All processes of one running call. They end with this value at the latest.
#[derive(Debug)]
pub struct Running {
    leader: Pid,
    call_env: String,
    ended: bool,
}

impl Running {
    /// `leader`: the process that was started, in a group of its own, with [`marks`].
    pub fn new(leader: Pid, call_env: &str) -> Self {
        live(|live| live.push(leader));
        Self { leader, call_env: call_env.to_owned(), ended: false }
    }

    /// Ends what is left of the call, and answers when all of it is gone.
    pub async fn end(mut self) {
        self.ended = true;
        let (leader, call_env) = (self.leader, self.call_env.clone());
        // it cannot fail but by panicking, and then there is nothing to be done here
        let _ = tokio::task::spawn_blocking(move || end(leader, &call_env)).await;
    }
}

impl Drop for Running {
    /// Ends the call without waiting for it: SIGTERM at once, the rest in the background.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // an empty group is as good as ended
        let _ = rustix::process::kill_process_group(self.leader, Signal::TERM);
        let (leader, call_env) = (self.leader, self.call_env.clone());
        ENDING.fetch_add(1, Ordering::AcqRel);
        std::thread::spawn(move || {
            end(leader, &call_env);
            ENDING.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// Ends every process of a call that this process did not start itself, as far as they are marked and
/// on this machine, and answers when they are gone.
pub async fn end_marked(call_env: &str) {
    let call_env = call_env.to_owned();
    // it cannot fail but by panicking, and then there is nothing to be done here
    let _ = tokio::task::spawn_blocking(move || system::end_marked(&call_env)).await;
}

/// [`end_marked`] without waiting for it, but for [`settled`].
pub fn end_marked_later(call_env: &str) {
    let call_env = call_env.to_owned();
    ENDING.fetch_add(1, Ordering::AcqRel);
    std::thread::spawn(move || {
        system::end_marked(&call_env);
        ENDING.fetch_sub(1, Ordering::AcqRel);
    });
}

fn end(leader: Pid, call_env: &str) {
    system::end_call(leader, call_env);
    live(|live| live.retain(|other| *other != leader));
}
