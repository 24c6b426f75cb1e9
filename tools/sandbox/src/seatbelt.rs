//! The text of a profile for `sandbox-exec` of macOS, in the language of Seatbelt. Compiled and
//! tested on all systems. Of the rules that match, the last one decides.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

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
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
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

const LOOPBACK: &str = r#"(allow network-bind network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
"#;

const NETWORK: &str = "(allow network*)
(allow system-socket)
";

/// The arguments for [`SANDBOX_EXEC`], before the program and its arguments.
///
/// The paths must have no links, so write `/private/tmp` for `/tmp`. They are passed as parameters:
/// a path cannot become a rule. `temp` is writable; set `TMPDIR` to it. The limits are not applied.
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
fn text(profile: &Profile) -> (String, Vec<(String, &Path)>) {
    let mut modes: BTreeMap<&Path, Mode> = BTreeMap::new();
    for path in profile.write.iter().chain(&profile.temp) {
        modes.insert(path, Mode::Write);
    }
    for path in &profile.read_only {
        modes.insert(path, Mode::ReadOnly);
    }
    for path in &profile.hidden {
        modes.insert(path, Mode::Hidden);
    }
    let mut text = ALWAYS.to_owned();
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
        let mut profile = Profile::new(Backend::Landlock);
        profile.read_only = vec!["/Users/u/w/.git/hooks".into()];
        profile.hidden = vec!["/Users/u/.ssh".into(), "/Users/u/w/.env".into()];
        profile.write = vec!["/Users/u/w".into()];
        profile.temp = Some("/private/tmp/leftfold-501/S".into());
        let arguments = arguments(&profile);
        let (text, parameters) = (arguments[1].to_str().unwrap(), &arguments[2..]);
        let own = text.strip_prefix(ALWAYS).unwrap().strip_suffix(LOOPBACK).unwrap();
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
                "-D",
                "P0=/Users/u/.ssh",
                "-D",
                "P1=/Users/u/w",
                "-D",
                "P2=/Users/u/w/.env",
                "-D",
                "P3=/Users/u/w/.git/hooks",
                "-D",
                "P4=/private/tmp/leftfold-501/S",
            ]
        );
    }

    #[test]
    fn the_network_is_all_or_the_loopback_interface() {
        let mut profile = Profile::new(Backend::Landlock);
        assert!(text(&profile).0.ends_with(LOOPBACK));
        profile.network = true;
        assert!(text(&profile).0.ends_with(NETWORK));
    }

    #[test]
    fn parentheses_are_balanced() {
        let (text, _) = text(&Profile::new(Backend::Landlock));
        let count = |wanted| text.chars().filter(|char| *char == wanted).count();
        assert_eq!(count('('), count(')'));
    }
}
