//! Which assignments rules judge beside the command.
//!
//! `NAME=value command` gives the command a variable, and a variable such as `GIT_SSH_COMMAND` or
//! `RUSTC_WRAPPER` runs a program. No list of such names is ever complete, so a leading assignment counts
//! as a command of its own, `NAME=value`, unless its name and value are known to be harmless. An
//! assignment that stands alone sets a variable of the shell; rules judge it only if the shell itself
//! acts on that variable or passes it on.

use crate::expansions;
use crate::word::Word;

/// Variables that say how a command prints, not what it does.
const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR", "CI", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "DEBIAN_FRONTEND",
    "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED", "RUST_BACKTRACE", "TZ",
];

/// Assigning to these decides what runs, or is evaluated by the shell. Those that commands inherit
/// (`leftfold_process::environment`) belong here too: the shell passes a new value on.
const DECISIVE: &[&str] = &[
    "BASHOPTS", "BASH_ALIASES", "BASH_CMDS", "BASH_COMPAT", "BASH_ENV", "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD", "CDPATH", "COMPREPLY", "DIRSTACK", "EDITOR", "ENV", "EXECIGNORE",
    "GLOBIGNORE", "HISTFILE", "HOME", "IFS", "LOGNAME", "MAILPATH", "NODE_OPTIONS", "OLDPWD",
    "PAGER", "PATH", "PERL5LIB", "PERL5OPT", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS0", "PS1",
    "PS2", "PS4", "PWD", "PYTHONPATH", "PYTHONSTARTUP", "RUBYOPT", "RUSTC_WRAPPER", "SHELL",
    "SHELLOPTS", "TEXTDOMAIN", "TEXTDOMAINDIR", "TMPDIR", "USER", "VISUAL",
];

/// Starts of names that are decisive.
const DECISIVE_STARTS: &[&str] =
    &["BASH_FUNC_", "CARGO_", "DYLD_", "GIT_", "LD_", "LEFTFOLD_", "SSH_", "XDG_"];

/// Whether rules judge an assignment to `name` that stands alone or that a builtin makes.
pub(crate) fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name)
        || expansions::is_integer(name)
        || DECISIVE_STARTS.iter().any(|start| name.starts_with(start))
}

/// Whether an assignment before a command changes nothing but what it prints.
pub(crate) fn is_harmless(assignment: &Word) -> bool {
    let Some((name, value)) = assignment.0.split_once('=') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.@+:-".contains(c);
    let named = HARMLESS.contains(&name) || name.starts_with("LC_");
    named
        && Word::new(value).literal().is_some_and(|value| match name {
            // `Europe/Paris`, and no path
            "TZ" => {
                !value.starts_with(['/', ':'])
                    && !value.contains("..")
                    && value.chars().all(|c| plain(c) || c == '/')
            }
            _ => value.chars().all(plain),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_assignments() {
        for (text, harmless) in [
            ("LANG=C.UTF-8", true),
            ("LC_ALL='C'", true),
            ("TZ=Europe/Paris", true),
            ("CI=1", true),
            ("CI=", true),
            ("LANG=$x", false),
            ("LANG=../x", false),
            ("TZ=:/etc/x", false),
            ("TZ=a/../b", false),
            ("A=1", false),
            ("PATH=x", false),
            ("LANG+=C", false),
        ] {
            assert_eq!(is_harmless(&Word::new(text)), harmless, "{text}");
        }
        assert!(is_decisive("GIT_PAGER") && is_decisive("RANDOM") && !is_decisive("x"));
    }
}
