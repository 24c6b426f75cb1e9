//! Decides whether a process acts for a person or for a call. Everything that lets another process
//! answer, prompt, approve or change a session asks here first.
//!
//! The evidence is the kernel's process table: the chain of parents, and the marks in the
//! environments of its members. The process itself is never asked, and nothing is written.

use crate::system;

/// The one a process acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A person started it: no ancestor is a node or belongs to a call.
    Person,
    /// A call, an MCP server or a plugin started it, directly or through other processes. The model
    /// may control it. A process that cannot be judged counts as one of these.
    Call,
}

impl Origin {
    /// The origin of the process `pid`. A process that has ended, or that runs in another PID
    /// namespace (`pid` is 0), counts as a call. Reads `/proc`, for at most some milliseconds.
    ///
    /// Only Linux tells: elsewhere every other process counts as a person's.
    pub fn of(pid: i32) -> Self {
        system::origin(pid)
    }

    /// The origin of this process.
    pub fn of_this_process() -> Self {
        system::origin(rustix::process::getpid().as_raw_nonzero().get())
    }

    pub fn is_person(self) -> bool {
        self == Self::Person
    }
}

/// The process at the other end of a connection. It is identified when the connection is accepted,
/// so that a later process with its PID is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    pid: i32,
    /// `None` if the process could not be found.
    start: Option<u64>,
}

impl PeerProcess {
    /// The process that has the PID `pid` now. `None` is an unknown process.
    pub fn now(pid: Option<i32>) -> Self {
        let pid = pid.unwrap_or_default();
        Self { pid, start: system::start_of(pid) }
    }

    /// Its origin. Once the process has ended it counts as a call.
    pub fn origin(&self) -> Origin {
        let Some(start) = self.start else { return Origin::Call };
        let origin = Origin::of(self.pid);
        if system::start_of(self.pid) == Some(start) { origin } else { Origin::Call }
    }
}
