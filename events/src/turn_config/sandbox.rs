use serde::{Deserialize, Serialize};

use crate::event::{Backend, WorktreeAccess};

/// The sandbox in a turn configuration: facts of the machine, and the user's settings. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxOptions {
    pub backend: Backend,
    /// The backends that come before this one, each with the reason why it cannot be used; empty if it is the first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Whether a command that rules ask about runs without a question, if it stays in the sandbox.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow: bool,
    /// Folders outside the worktree that commands may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Paths that are hidden besides the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// Paths that are shown although they are among the usual hidden ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub show: Vec<String>,
    /// The maximum number of processes; `None`: the default of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// `Read` for a subagent whose parent may not change the worktree.
    #[serde(skip_serializing_if = "WorktreeAccess::is_write")]
    pub worktree: WorktreeAccess,
    /// Whether no call gets the network: a rule denies it to the parent of this subagent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Whether the worktree is the user's home folder, or holds it. Commands then only read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub home: bool,
}

impl SandboxOptions {
    /// This sandbox with the limits that `before` has from a parent: the settings may have changed since.
    #[must_use]
    pub fn within(mut self, before: &Self) -> Self {
        self.offline |= before.offline;
        self.home |= before.home;
        if before.worktree == WorktreeAccess::Read {
            self.worktree = WorktreeAccess::Read;
        }
        self
    }

    /// The sandbox that allows only what both allow.
    #[must_use]
    pub fn meet(mut self, other: &Self) -> Self {
        if other.backend.confines() && !self.backend.confines() {
            (self.backend, self.why) = (other.backend, other.why.clone());
        }
        self.allow &= other.allow;
        self.write = shared(&self.write, &other.write);
        self.show = shared(&self.show, &other.show);
        for path in &other.hide {
            if !self.hide.contains(path) {
                self.hide.push(path.clone());
            }
        }
        self.processes = self.processes.into_iter().chain(other.processes).min();
        self.within(other)
    }

    /// Whether commands that rules ask about run without a question. Never under Landlock alone, which leaves
    /// sockets open.
    pub fn allows(&self) -> bool {
        self.allow && self.backend.is_tight()
    }
}

/// The paths that both lists contain, or that lie below a path of the other list.
fn shared(ours: &[String], theirs: &[String]) -> Vec<String> {
    let within = |path: &&String, list: &[String]| list.iter().any(|above| is_within(path, above));
    let mut paths: Vec<String> = ours.iter().filter(|path| within(path, theirs)).cloned().collect();
    let below = theirs.iter().filter(|path| within(path, ours) && !paths.contains(path));
    let below: Vec<String> = below.cloned().collect();
    paths.extend(below);
    paths
}

/// Whether `path` is `folder`, or lies below it. Both are absolute.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
