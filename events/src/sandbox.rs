//! The sandbox of commands, as far as rules and the log are concerned: the machine's facts in a turn configuration, and the
//! profile of each call that follows from them. Nothing here starts a process or looks at a file.

pub use crate::event::{Backend, Profile, WorktreeAccess};
pub use crate::turn_config::SandboxOptions;

use crate::event::{CallKind, Resolution};
use crate::rules::{self, Action, DYNAMIC, NETWORK, PROTECTED_FILE, Rule, UNSANDBOXED};
use crate::turn_config::{Options, TurnConfig, is_within};

/// The `error_kind` of a command that the sandbox stopped.
pub const DENIED: &str = "sandbox_denied";

/// The `error_kind` of a command that did not run because its sandbox could not be set up.
pub const FAILED: &str = "sandbox_failed";

impl SandboxOptions {
    /// The sandbox of a subagent: no wider than `own`, which its settings give, and than its parent's.
    pub fn of_child(own: Option<Self>, parent: &TurnConfig) -> Option<Self> {
        let options = &parent.options;
        let Some(theirs) = &options.sandbox else { return own };
        let mut theirs = theirs.clone();
        theirs.worktree = worktree(options, &theirs);
        theirs.offline |= rules::denies_all(&parent.rules, options.restricting(), NETWORK);
        Some(match own {
            Some(own) => own.meet(&theirs),
            None => theirs,
        })
    }
}

/// The rules of a sandbox that come directly after the [defaults](rules::defaults).
pub fn default_rules(sandbox: Option<&SandboxOptions>) -> Vec<Rule> {
    match sandbox {
        Some(sandbox) if sandbox.backend.confines() => vec![Rule::new(NETWORK, "*", Action::Ask)],
        Some(_) | None => Vec::new(),
    }
}

/// The rules for a worktree that is the user's home folder, or holds it. They come after those of the sandbox.
pub fn home_rules(sandbox: Option<&SandboxOptions>) -> Vec<Rule> {
    match sandbox {
        Some(sandbox) if sandbox.home => vec![Rule::new("edit", "*", Action::Ask)],
        Some(_) | None => Vec::new(),
    }
}

/// Whether commands may read the project's files of variables, such as `.env`, because the rules allow it.
pub fn shows_env_files(config: &TurnConfig) -> bool {
    let restrictions = config.options.restricting();
    rules::evaluate_restricted(&config.rules, restrictions, "read", ".env").0 == Action::Allow
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
    let mut worktree = worktree(options, sandbox);
    let (mut write, shown) = opened(worktree_path, call);
    // a session that may not change the worktree changes nothing else either
    let (write, shown) = match worktree {
        WorktreeAccess::Read => (Vec::new(), sorted([write, shown].concat())),
        WorktreeAccess::Write => {
            write.extend(sandbox.write.iter().cloned());
            if sandbox.home {
                worktree = WorktreeAccess::Read;
                write.extend(edited(worktree_path, call));
            }
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

/// The paths of the worktree that a line names and a call may change.
fn edited(worktree: &str, call: &Resolution) -> impl Iterator<Item = String> {
    let edits = call.access.iter().filter(|access| access.permission == "edit");
    let paths = edits.flat_map(|access| &access.patterns);
    let paths = paths.filter(|path| !path.starts_with('/') && *path != DYNAMIC);
    paths.map(|path| in_worktree(worktree, path))
}

/// A path as rules see it, as an absolute one.
fn in_worktree(worktree: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{}/{path}", worktree.trim_end_matches('/')),
    }
}

/// The paths that the accesses of a call open: for changes, and to be read.
fn opened(worktree: &str, call: &Resolution) -> (Vec<String>, Vec<String>) {
    let of = |permission: &'static str| {
        let accesses = call.access.iter().filter(move |access| access.permission == permission);
        accesses.flat_map(|access| &access.patterns)
    };
    let full = |path: &String| in_worktree(worktree, path);
    let is_dynamic = call.access.iter().any(|a| a.patterns.iter().any(|text| text == DYNAMIC));
    let (mut write, mut shown) = (Vec::new(), Vec::new());
    for pattern in of("external_directory") {
        // `<dynamic>/*` names no folder
        let Some(folder) = pattern.strip_suffix("/*").filter(|_| pattern.starts_with('/')) else {
            continue;
        };
        // nothing would be left of the sandbox if all could be changed
        if folder.is_empty() {
            shown.push("/".to_owned());
            continue;
        }
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
