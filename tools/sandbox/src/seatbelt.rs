//! macOS: the text of a profile for `sandbox-exec`, in the language of Seatbelt, and the helper that
//! starts the command with it. Of the rules that match, the last one decides. The text is compiled
//! and tested on all systems, but has never been applied on a Mac by its makers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
#[cfg(not(target_os = "linux"))]
use std::process::ExitCode;

use crate::profile::Profile;

/// The program that applies the text, as an absolute path: one of that name in the worktree must
/// not be found first.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Rights of every command: run programs, see and signal its own processes, read everything, and
/// use terminals and a few services that the C library needs.
const ALWAYS: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow sysctl-read)
(allow ipc-posix-sem)
(allow ipc-posix-shm*)
(allow pseudo-tty)
(allow file-ioctl (regex #"^/dev/tty.*"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.cfprefsd.daemon")
  (global-name "com.apple.logd"))
(allow file-read*)
(allow file-write*
  (literal "/dev/null")
  (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$"))
"#;

const OWN_PROCESSES: &str = "(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
";

const ALL_PROCESSES: &str = "(allow signal)
(allow process-info*)
(allow mach-lookup)
";

/// Before the rules of paths, which except some.
const EVERYTHING: &str = "(allow file-write*)
";

const LOOPBACK: &str = r#"(allow network-bind network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
"#;

/// The services check certificates and resolve names. None of them holds keys.
const NETWORK: &str = r#"(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent"))
"#;

/// Does the helper's work: starts the command through [`SANDBOX_EXEC`], which applies the profile to
/// itself and becomes the command.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(command: &[OsString]) -> ExitCode {
    use crate::channel::{Lines, Ready};
    use crate::facts::Facts;
    use crate::failure::Failure;
    use crate::{NOT_CONFINED, supervise};

    let Ok(mut node) = Lines::of_standard_input() else { return ExitCode::from(NOT_CONFINED) };
    let Ok(Some((line, mut files))) = node.receive_with() else {
        return ExitCode::from(NOT_CONFINED);
    };
    let Ok(profile) = Profile::parse(&line) else { return ExitCode::from(NOT_CONFINED) };
    // fails for a path that a command has exchanged for a link
    let checked = Facts::read(&profile).and_then(|_| supervise::limit(&profile));
    let mut confined = vec![OsString::from(SANDBOX_EXEC)];
    confined.extend(arguments(&profile));
    confined.extend(command.iter().cloned());
    let ready = checked.and_then(|()| match Path::new(SANDBOX_EXEC).exists() {
        true => Ok(Ready { backend: profile.backend, all_ids: false, landlock: 0 }),
        false => Err(Failure::new("sandbox-exec", "it is not there: this is no macOS")),
    });
    supervise::run(node, ready, &profile, (&confined, files.pop()))
}

/// The path without links. The part that does not exist stays as it is: a rule may name it.
fn resolved(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match existing {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

/// The arguments for [`SANDBOX_EXEC`], before the program and its arguments.
///
/// Links in paths are resolved: the kernel compares `/private/tmp`, not `/tmp`. Paths are passed as
/// parameters, so a path cannot become a rule. `temp` is writable; set `TMPDIR` to it.
pub fn arguments(profile: &Profile) -> Vec<OsString> {
    let (text, parameters) = text(profile);
    let mut arguments = vec!["-p".into(), text.into()];
    for (name, path) in parameters {
        let mut parameter = OsString::from(format!("{name}="));
        parameter.push(path);
        arguments.extend(["-D".into(), parameter]);
    }
    arguments
}

#[derive(Clone, Copy)]
enum Mode {
    Write,
    ReadOnly,
    Hidden,
}

/// The text and its parameters.
fn text(profile: &Profile) -> (String, Vec<(String, PathBuf)>) {
    let mut modes: BTreeMap<PathBuf, Mode> = BTreeMap::new();
    for path in profile.write.iter().chain(&profile.temp) {
        modes.insert(resolved(path), Mode::Write);
    }
    for path in &profile.read_only {
        modes.insert(resolved(path), Mode::ReadOnly);
    }
    for path in &profile.hidden {
        modes.insert(resolved(path), Mode::Hidden);
    }
    let mut text = ALWAYS.to_owned();
    text.push_str(if profile.shares_processes { ALL_PROCESSES } else { OWN_PROCESSES });
    text.push_str(if profile.everything { EVERYTHING } else { "" });
    let mut parameters = Vec::new();
    // parents come first, so a path below decides
    for (number, (path, mode)) in modes.into_iter().enumerate() {
        let name = format!("P{number}");
        let (read, write) = match mode {
            Mode::Write => ("allow", "allow"),
            Mode::ReadOnly => ("allow", "deny"),
            Mode::Hidden => ("deny", "deny"),
        };
        // writing to a string cannot fail
        let _ = write!(
            text,
            "({read} file-read* (subpath (param \"{name}\")))\n\
             ({write} file-write* (subpath (param \"{name}\")))\n"
        );
        parameters.push((name, path));
    }
    text.push_str(if profile.network { NETWORK } else { LOOPBACK });
    (text, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Backend;

    #[test]
    fn the_rules_of_a_folder_come_before_those_of_what_is_in_it() {
        let mut profile = Profile::new(Backend::Seatbelt);
        profile.read_only = vec!["/Users/u/w/.git/hooks".into()];
        profile.hidden = vec!["/Users/u/.ssh".into(), "/Users/u/w/.env".into()];
        profile.write = vec!["/Users/u/w".into()];
        profile.temp = Some("/private/tmp/leftfold-501/S".into());
        let arguments = arguments(&profile);
        let (text, parameters) = (arguments[1].to_str().unwrap(), &arguments[2..]);
        let own = text.strip_prefix(ALWAYS).unwrap().strip_suffix(LOOPBACK).unwrap();
        let own = own.strip_prefix(OWN_PROCESSES).unwrap();
        let expected = "\
            (deny file-read* (subpath (param \"P0\")))\n\
            (deny file-write* (subpath (param \"P0\")))\n\
            (allow file-read* (subpath (param \"P1\")))\n\
            (allow file-write* (subpath (param \"P1\")))\n\
            (deny file-read* (subpath (param \"P2\")))\n\
            (deny file-write* (subpath (param \"P2\")))\n\
            (allow file-read* (subpath (param \"P3\")))\n\
            (deny file-write* (subpath (param \"P3\")))\n\
            (allow file-read* (subpath (param \"P4\")))\n\
            (allow file-write* (subpath (param \"P4\")))\n";
        assert_eq!(own, expected);
        let parameters: Vec<&str> = parameters.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            parameters,
            [
                "-D", "P0=/Users/u/.ssh", "-D", "P1=/Users/u/w", "-D", "P2=/Users/u/w/.env", "-D",
                "P3=/Users/u/w/.git/hooks", "-D", "P4=/private/tmp/leftfold-501/S",
            ]
        );
    }

    #[test]
    fn the_network_is_all_or_the_loopback_interface() {
        let mut profile = Profile::new(Backend::Seatbelt);
        assert!(text(&profile).0.ends_with(LOOPBACK));
        profile.network = true;
        assert!(text(&profile).0.ends_with(NETWORK));
    }

    #[test]
    fn parentheses_are_balanced() {
        for all in [false, true] {
            let mut profile = Profile::new(Backend::Seatbelt);
            (profile.everything, profile.shares_processes, profile.network) = (all, all, all);
            let (text, _) = text(&profile);
            let count = |wanted| text.chars().filter(|char| *char == wanted).count();
            assert_eq!(count('('), count(')'));
        }
    }

    #[test]
    fn a_path_never_becomes_a_rule() {
        let mut profile = Profile::new(Backend::Seatbelt);
        let hostile = "/w\"))(allow default)(deny file-read* (literal \"x\n=";
        profile.write = vec![hostile.into()];
        let arguments = arguments(&profile);
        let (text, parameters) = (arguments[1].to_str().unwrap(), &arguments[2..]);
        assert!(!text.contains("allow default"), "{text}");
        assert_eq!(parameters, [OsString::from("-D"), format!("P0={hostile}").into()]);
    }

    #[test]
    fn a_program_that_may_change_everything_is_kept_from_what_is_named() {
        let mut profile = Profile::new(Backend::Seatbelt);
        (profile.everything, profile.shares_processes) = (true, true);
        profile.hidden = vec!["/Users/u/.ssh".into()];
        let (text, _) = text(&profile);
        let everything = text.find(EVERYTHING).unwrap();
        assert!(text.contains(ALL_PROCESSES) && !text.contains(OWN_PROCESSES), "{text}");
        assert!(everything < text.find("(deny file-write* (subpath (param \"P0\")))").unwrap());
    }

    #[test]
    fn links_in_paths_are_resolved_also_before_a_part_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        for (path, expected) in [("link", "real"), ("link/a/b", "real/a/b"), ("real", "real")] {
            assert_eq!(resolved(&root.join(path)), root.join(expected), "{path}");
        }
    }
}
