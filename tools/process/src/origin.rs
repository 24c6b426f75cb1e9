//! Decides whether a process acts for a person or for a call. Everything that lets another process
//! answer, prompt, approve or change a session asks here first.
//!
//! The evidence is the kernel's process table: the chain of parents, and the marks in the
//! environments of its members. The process itself is never asked, and nothing is written.

use crate::system;

/// The one a process acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A person started it: no ancestor is a node or belongs to a call. Also the plugins of this
    /// node, which the user has made part of Leftfold.
    Person,
    /// A call or an MCP server started it, directly or through other processes: the model may
    /// control it. A process that cannot be judged counts as one of these, and so does a plugin of
    /// another node.
    Call,
}

impl Origin {
    /// The origin of the process `pid`. A process that has ended, or that runs in another PID
    /// namespace (`pid` is 0), counts as a call. Reads `/proc`, for at most some milliseconds.
    ///
    /// Only Linux tells: elsewhere every other process counts as a person's.
    pub fn for_process(pid: i32) -> Self {
        if system::belongs_to_call(pid) { Self::Call } else { Self::Person }
    }

    /// The origin of this process.
    pub fn of_this_process() -> Self {
        Self::for_process(rustix::process::getpid().as_raw_nonzero().get())
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
    /// Its origin when it connected. A process that a call leaves behind may lose its ancestors.
    first: Origin,
}

impl PeerProcess {
    /// The process that has the PID `pid` now. `None` is an unknown process. Reads `/proc`.
    pub fn now(pid: Option<i32>) -> Self {
        let pid = pid.unwrap_or_default();
        let start = system::start_of(pid);
        Self { pid, start, first: Origin::for_process(pid) }
    }

    /// Its origin. Once the process has ended it counts as a call.
    pub fn origin(&self) -> Origin {
        let Some(start) = self.start else { return Origin::Call };
        let now = Origin::for_process(self.pid);
        let lives = system::start_of(self.pid) == Some(start);
        if lives && self.first.is_person() { now } else { Origin::Call }
    }
}
