//! Finds the accesses that the sandbox has denied to a command, by evidence: from the kernel's counters, or from an error in the
//! output that names a path which the sandbox closes and the user could open.
//!
//! Output alone is no evidence. The model could print anything, and many programs print such errors without a sandbox.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Lines at the end of the output that are searched.
const LINES: usize = 200;

/// Denials that are reported.
const MAX_DENIED: usize = 5;

/// The errors that a closed path causes, as the C library and Node.js name them, and the accesses that end like that.
const ERRORS: &[(&str, &str, &[Access])] = &[
    ("Read-only file system", "EROFS", &[Access::Write]),
    ("Device or resource busy", "EBUSY", &[Access::Write]),
    ("Invalid cross-device link", "EXDEV", &[Access::Write]),
    ("No such file or directory", "ENOENT", &[Access::Read]),
    ("No such device or address", "ENXIO", &[Access::Read]),
    ("Permission denied", "EACCES", &[Access::Read, Access::Write]),
    ERROR_OF_SEATBELT,
];

/// On Linux this error has other causes, for example a change of the owner. It only repeats the line above there.
const ERROR_OF_SEATBELT: (&str, &str, &[Access]) = if cfg!(target_os = "macos") {
    ("Operation not permitted", "EPERM", &[Access::Read, Access::Write])
} else {
    ("Permission denied", "EACCES", &[Access::Read, Access::Write])
};

/// Why a command in a home folder writes nothing, and what to do.
const IN_HOME: &str = " Commands only read this folder, because it is a home folder or holds one: change files with the \
    file tools, or tell the user to start Leftfold in a project's folder, or to name folders in the setting `sandbox.write`.";

/// The accesses that an error in the line means.
fn accesses(line: &str) -> impl Iterator<Item = Access> {
    let errors = ERRORS.iter().filter(move |(text, name, _)| {
        // some programs write the first letter small
        line.contains(&text[1..]) || line.contains(name)
    });
    errors.flat_map(|(_, _, accesses)| *accesses).copied()
}

/// One thing that the sandbox has denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Denied {
    pub(crate) what: Access,
    /// Empty for the network.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    Network,
    Read,
    Write,
}

impl Denied {
    /// The text for the model. `None` if nothing was denied. `in_home` says that commands only read the worktree, because
    /// it is a home folder.
    pub(crate) fn note(denied: &[Self], has_failed: bool, in_home: bool) -> Option<String> {
        let what = denied.iter().map(|it| match it.what {
            Access::Network => "the network".to_owned(),
            Access::Read => format!("reading {}", it.path),
            Access::Write => format!("writing {}", it.path),
        });
        let what: Vec<String> = what.collect();
        let argument = match denied {
            [] => return None,
            [only] if only.what == Access::Network => "network",
            _ => "unsandboxed",
        };
        let what = what.join(", ");
        let is_home = in_home && denied.iter().any(|it| it.what == Access::Write);
        let home = if is_home { IN_HOME } else { "" };
        if !has_failed {
            return Some(format!("(The sandbox denied a part of this: {what}.{home})"));
        }
        Some(format!(
            "(The sandbox denied: {what}.{home} The same command would fail again. If it is needed, call bash again with \
             `{argument}: true`, which the user may have to approve.)"
        ))
    }
}

/// The kernel's counters of the command's own network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// Packets without a route out.
    pub(crate) no_route: u64,
    /// Packets to ports that nobody reads.
    pub(crate) no_ports: u64,
    /// Whether names are resolved by a service of this machine, which the command's own network lacks.
    pub(crate) resolver_is_local: bool,
}

/// The accesses that were denied to a command that ran in `folder` and printed `output`. `closes` says whether the sandbox closes a path
/// that the user could open.
pub(super) fn denied(
    counters: Counters,
    output: &str,
    folder: &Path,
    closes: impl Fn(&Path, Access) -> bool,
) -> Vec<Denied> {
    let mut found = Vec::new();
    let asked_resolver = counters.resolver_is_local && counters.no_ports > 0;
    if counters.no_route > 0 || asked_resolver {
        found.push(Denied { what: Access::Network, path: String::new() });
    }
    for line in output.lines().rev().take(LINES) {
        let accesses: Vec<Access> = accesses(line).collect();
        if accesses.is_empty() {
            continue;
        }
        let denied = paths(line, folder).into_iter().find_map(|path| {
            let what = *accesses.iter().find(|what| closes(&path, **what))?;
            Some(Denied { what, path: path.to_string_lossy().into_owned() })
        });
        let new = denied.filter(|denied| found.len() < MAX_DENIED && !found.contains(denied));
        found.extend(new);
    }
    found
}

/// The words of a line that may be paths.
fn paths(line: &str, folder: &Path) -> Vec<PathBuf> {
    let quoted = line.split(['\'', '"', '`', '‘', '’', '“', '”']);
    let words = line.split_whitespace();
    let trimmed = quoted.chain(words).map(|word| {
        word.trim_matches(|c: char| c.is_whitespace() || "'\"`‘’“”:,;()[]<>".contains(c))
    });
    let named = trimmed.filter(|word| word.contains('/') || word.starts_with('.'));
    // a bare name stands before the error, or in quotes
    let before = line.rsplit(": ").nth(1).filter(|_| !line.ends_with(['\'', '"']));
    let bare = before.into_iter().chain(line.split(['\'', '"', '‘', '’']).skip(1).step_by(2));
    let bare = bare.filter(|word| !word.is_empty() && !word.contains(char::is_whitespace));
    let mut paths: Vec<PathBuf> = named.chain(bare).map(|word| folder.join(word)).collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closes(path: &Path, what: Access) -> bool {
        let within = |folder: &str| path.starts_with(folder);
        let is_open = within("/home/u/project") && !within("/home/u/project/.git/config");
        match what {
            Access::Read => within("/home/u/.ssh"),
            Access::Write => within("/home/u") && !is_open,
            Access::Network => false,
        }
    }

    /// Output, and what was denied.
    const TABLE: &[(&str, &[(Access, &str)])] = &[
        ("", &[]),
        ("sandbox-denied: all tests passed", &[]),
        ("bash: line 1: /home/u/x: Read-only file system", &[(Access::Write, "/home/u/x")]),
        ("bash: line 1: x.txt: Read-only file system", &[]),
        (
            "touch: cannot touch '/home/u/a b': Read-only file system",
            &[(Access::Write, "/home/u/a b")],
        ),
        ("OSError: [Errno 30] Read-only file system: '/home/u/x'", &[(Access::Write, "/home/u/x")]),
        ("Error: EROFS: read-only file system, open '/home/u/x'", &[(Access::Write, "/home/u/x")]),
        ("open /home/u/x: read-only file system", &[(Access::Write, "/home/u/x")]),
        (
            "error: failed to open `/home/u/.cargo/lock`: Read-only file system (os error 30)",
            &[(Access::Write, "/home/u/.cargo/lock")],
        ),
        (
            "error: could not lock config file .git/config: Read-only file system",
            &[(Access::Write, "/home/u/project/.git/config")],
        ),
        (
            "error: could not write config file .git/config: Device or resource busy",
            &[(Access::Write, "/home/u/project/.git/config")],
        ),
        (
            "cat: /home/u/.ssh/id_ed25519: No such file or directory",
            &[(Access::Read, "/home/u/.ssh/id_ed25519")],
        ),
        ("cat: /home/u/.ssh: Permission denied", &[(Access::Read, "/home/u/.ssh")]),
        (
            "ln: failed to create hard link '/home/u/l': Invalid cross-device link",
            &[(Access::Write, "/home/u/l")],
        ),
        // errors that the sandbox has not caused
        ("cat: /home/u/missing: No such file or directory", &[]),
        ("cat: src/missing.rs: No such file or directory", &[]),
        ("touch: cannot touch '/etc/x': Permission denied", &[]),
        ("make: *** No rule to make target '/home/u/x'.  Stop.", &[]),
        ("ls /home/u/.ssh", &[]),
        ("Permission denied (publickey).", &[]),
        ("error[E0308]: mismatched types\n --> src/lib.rs:1:1", &[]),
    ];

    #[test]
    fn errors_that_name_a_closed_path() {
        for (output, expected) in TABLE {
            let found = denied(Counters::default(), output, Path::new("/home/u/project"), closes);
            let found: Vec<_> = found.iter().map(|it| (it.what, it.path.as_str())).collect();
            assert_eq!(found, *expected, "{output}");
        }
    }

    #[test]
    fn bare_names_lie_in_the_folder_of_the_command() {
        for (output, expected) in [
            ("bash: line 1: x.txt: Read-only file system", Some("/home/u/x.txt")),
            ("OSError: [Errno 30] Read-only file system: 'x.txt'", Some("/home/u/x.txt")),
            ("touch: cannot touch 'x.txt': Read-only file system", Some("/home/u/x.txt")),
            ("error: failed to write: Read-only file system", None),
        ] {
            let found = denied(Counters::default(), output, Path::new("/home/u"), closes);
            assert_eq!(found.first().map(|it| it.path.as_str()), expected, "{output}");
        }
    }

    #[test]
    fn only_counters_tell_of_the_network() {
        for (no_route, no_ports, resolver_is_local, is_denied) in
            [(0, 0, true, false), (1, 0, false, true), (0, 1, true, true), (0, 1, false, false)]
        {
            let counters = Counters { no_route, no_ports, resolver_is_local };
            let text = "curl: (6) Could not resolve host: example.com";
            let found = denied(counters, text, Path::new("/"), closes);
            assert_eq!(!found.is_empty(), is_denied, "{counters:?}");
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        let lines: Vec<String> =
            (0..50).map(|n| format!("touch: '/home/u/{n}': Read-only file system")).collect();
        let output = lines.join("\n");
        let found = denied(Counters::default(), &output, Path::new("/"), closes);
        assert_eq!(found.len(), MAX_DENIED);
        assert_eq!(found[0].path, "/home/u/49");
    }
}
