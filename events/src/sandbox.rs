//! The sandbox of commands, as far as rules and the log are concerned: the machine's facts in a turn configuration, and the
//! profile of each call that follows from them. Nothing here starts a process or looks at a file.

use serde::{Deserialize, Serialize};

use crate::event::{CallKind, Resolution};
use crate::rules::{self, Action, DYNAMIC, NETWORK, PROTECTED_FILE, Rule, UNSANDBOXED};
use crate::turn_config::{Options, TurnConfig};

/// The `error_kind` of a command that the sandbox stopped.
pub const DENIED: &str = "sandbox_denied";

/// The `error_kind` of a command that did not run because its sandbox could not be set up.
pub const FAILED: &str = "sandbox_failed";

/// The means by which commands are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Leftfold's own namespaces, Landlock and seccomp.
    Namespaces,
    /// The program `bwrap`, Landlock and seccomp.
    Bwrap,
    /// Landlock and seccomp. Sockets of other programs and the metadata of files stay reachable.
    Landlock,
    /// The container around Leftfold is the sandbox, as the user says.
    External,
    /// The user wants none.
    Off,
    /// The user wants one, and this machine has none.
    #[default]
    None,
}

impl Backend {
    /// Whether Leftfold confines commands.
    pub fn confines(self) -> bool {
        match self {
            Self::Namespaces | Self::Bwrap | Self::Landlock => true,
            Self::External | Self::Off | Self::None => false,
        }
    }

    /// Whether a confined command reaches nothing but its profile, so that it may run without a question.
    fn is_tight(self) -> bool {
        match self {
            Self::Namespaces | Self::Bwrap => true,
            Self::Landlock | Self::External | Self::Off | Self::None => false,
        }
    }
}

/// Whether a command may change the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeAccess {
    #[default]
    Write,
    Read,
}

impl WorktreeAccess {
    fn is_write(&self) -> bool {
        *self == Self::Write
    }
}

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
}

impl SandboxOptions {
    /// The sandbox of a subagent: no wider than `own`, which its settings give, and than its parent's.
    pub fn of_child(own: Option<Self>, parent: &TurnConfig) -> Option<Self> {
        let options = &parent.options;
        let Some(theirs) = &options.sandbox else { return own };
        let mut theirs = theirs.clone();
        theirs.worktree = worktree(options, &theirs);
        theirs.offline |= rules::hides(&parent.rules, &options.restrictions, NETWORK);
        Some(match own {
            Some(own) => own.meet(&theirs),
            None => theirs,
        })
    }

    /// This sandbox with the limits that `before` has from a parent: the settings may have changed since.
    #[must_use]
    pub fn within(mut self, before: &Self) -> Self {
        self.offline |= before.offline;
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
    pub(crate) fn allows(&self) -> bool {
        self.allow && self.backend.is_tight()
    }
}

/// The rules of a sandbox that come directly after the [defaults](rules::defaults).
pub fn default_rules(sandbox: Option<&SandboxOptions>) -> Vec<Rule> {
    match sandbox {
        Some(sandbox) if sandbox.backend.confines() => vec![Rule::new(NETWORK, "*", Action::Ask)],
        Some(_) | None => Vec::new(),
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

fn is_within(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The confinement of one call, which `tool.started` records. Paths are absolute. The settings' own paths
/// (`hide`, `show`) stay in the turn configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// [`Backend::Off`] if a permission lets the call run outside the sandbox.
    pub backend: Backend,
    /// Whether the call reaches more than the addresses of its own sandbox.
    pub network: bool,
    pub worktree: WorktreeAccess,
    /// Files and folders that the call may change besides the worktree. Hidden paths below them stay hidden.
    pub write: Vec<String>,
    /// Files and folders that the call may read although a hidden folder contains them, or they are hidden
    /// themselves. Hidden paths below them stay hidden.
    pub shown: Vec<String>,
}

/// The profile of a call that may run: all of its accesses are granted. `worktree` is absolute. `None`: it runs no
/// command, or the turn configuration knows no sandbox.
pub fn profile(options: &Options, worktree_path: &str, call: &Resolution) -> Option<Profile> {
    let sandbox = options.sandbox.as_ref().filter(|_| call.kind == CallKind::Shell)?;
    let is_granted = |permission: &str| call.access.iter().any(|a| a.permission == permission);
    let leaves = is_granted(UNSANDBOXED);
    if leaves || !sandbox.backend.confines() {
        let backend = if sandbox.backend.confines() { Backend::Off } else { sandbox.backend };
        let worktree = WorktreeAccess::Write;
        return Some(Profile {
            backend,
            network: true,
            worktree,
            write: Vec::new(),
            shown: Vec::new(),
        });
    }
    let worktree = worktree(options, sandbox);
    let (mut write, shown) = opened(worktree_path, call);
    // a session that may not change the worktree changes nothing else either
    let (write, shown) = match worktree {
        WorktreeAccess::Read => (Vec::new(), sorted([write, shown].concat())),
        WorktreeAccess::Write => {
            write.extend(sandbox.write.iter().cloned());
            (sorted(write), sorted(shown))
        }
    };
    let network = is_granted(NETWORK) && !sandbox.offline;
    Some(Profile { backend: sandbox.backend, network, worktree, write, shown })
}

/// Whether calls may change the worktree: an agent that plans may not, nor may its subagents.
pub(crate) fn worktree(options: &Options, sandbox: &SandboxOptions) -> WorktreeAccess {
    if options.plans { WorktreeAccess::Read } else { sandbox.worktree }
}

/// The paths that the accesses of a call open: for changes, and to be read.
fn opened(worktree: &str, call: &Resolution) -> (Vec<String>, Vec<String>) {
    let of = |permission: &'static str| {
        let accesses = call.access.iter().filter(move |access| access.permission == permission);
        accesses.flat_map(|access| &access.patterns)
    };
    let full = |path: &String| match path.starts_with('/') {
        true => path.clone(),
        false => format!("{}/{path}", worktree.trim_end_matches('/')),
    };
    let is_dynamic = call.access.iter().any(|a| a.patterns.iter().any(|text| text == DYNAMIC));
    let (mut write, mut shown) = (Vec::new(), Vec::new());
    for pattern in of("external_directory") {
        // `<dynamic>/*` names no folder
        let Some(folder) = pattern.strip_suffix("/*").filter(|_| pattern.starts_with('/')) else {
            continue;
        };
        let folder = if folder.is_empty() { "/" } else { folder };
        let is_changed = is_dynamic || of("edit").any(|path| is_within(path, folder));
        if is_changed { &mut write } else { &mut shown }.push(folder.to_owned());
    }
    for path in of(PROTECTED_FILE).filter(|path| *path != DYNAMIC) {
        let is_changed = of("edit").any(|edited| edited == path);
        if is_changed { &mut write } else { &mut shown }.push(full(path));
    }
    let secret = |path: &&String| {
        let is = |pattern| rules::matches(pattern, path);
        (is("*.env") || is("*.env.*")) && !is("*.env.example")
    };
    shown.extend(of("read").chain(of("edit")).filter(secret).map(full));
    (write, shown)
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths.dedup();
    paths
}
