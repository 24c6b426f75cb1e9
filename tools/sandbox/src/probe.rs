//! Finds the backend that works on this machine: tries each with the whole profile, from the
//! strongest to the weakest.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::channel::{Message, Ready, command};
use crate::failure::Failure;
use crate::profile::{Backend, Profile};

/// The backend that works on this machine, and the reasons against the stronger ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// `None` if no backend works.
    pub ready: Option<Ready>,
    /// How long that took.
    pub took: Duration,
    /// The backends that failed, the strongest first.
    pub rejected: Vec<Rejected>,
}

/// A backend that does not work here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub backend: Backend,
    pub why: Failure,
}

/// The backends of this system, the strongest first.
const BACKENDS: &[Backend] = if cfg!(target_os = "macos") {
    &[Backend::Seatbelt]
} else {
    &[Backend::Namespaces, Backend::NamespacesSharedProc, Backend::Bwrap, Backend::Landlock]
};

/// No start takes this long.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a shell that does nothing in `profile` with each backend until one works. Blocks the thread, about 10 ms if
/// the first one works. `helper` is as for [`command`].
pub fn probe(helper: &Path, profile: &Profile) -> Probe {
    let mut probe = Probe::default();
    for &backend in BACKENDS {
        let start = Instant::now();
        match try_once(helper, &Profile { backend, ..profile.clone() }) {
            Ok(ready) => {
                probe.ready = Some(ready);
                probe.took = start.elapsed();
                break;
            }
            Err(why) => probe.rejected.push(Rejected { backend, why }),
        }
    }
    probe
}

fn try_once(helper: &Path, profile: &Profile) -> Result<Ready, Failure> {
    let failed = |step: &str, error: &io::Error| Failure::of_system(step, None, error);
    let (mut command, channel) = command(helper, profile, "/bin/sh", ["-c", ":"])
        .map_err(|error| failed("sandbox", &error))?;
    // the private temporary folder may cover the folder of this process
    command.current_dir("/");
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    drop(command);
    let mut child = spawned.map_err(|error| failed("start helper", &error))?;
    let result = follow(channel);
    // the channel is closed, so the helper ends
    let _ = child.wait();
    result
}

fn follow(mut channel: crate::Channel) -> Result<Ready, Failure> {
    let failed = |error: io::Error| Failure::of_system("read report", None, &error);
    channel.set_patience(START_TIMEOUT).map_err(failed)?;
    let mut confined = None;
    loop {
        match channel.receive().map_err(failed)? {
            Some(Message::Ready(ready)) => confined = Some(ready),
            Some(Message::Failed(failure)) => return Err(failure),
            Some(Message::Report(report)) => {
                return match confined {
                    Some(ready) if report.code == Some(0) => Ok(ready),
                    _ => Err(Failure::new("run /bin/sh", format!("{report:?}"))),
                };
            }
            None => return Err(Failure::new("run /bin/sh", "the helper ended without a report")),
        }
    }
}
