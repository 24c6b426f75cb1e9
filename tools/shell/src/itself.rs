//! Lines that run Leftfold itself, or that reach processes which the call has not started.
//!
//! A command that runs `leftfold` could answer the question that it waits for, or allow itself more. So
//! the judge asks about such a line under a permission of its own, which only people answer. A program
//! that starts Leftfold without naming it is not found here; the node refuses its connection. It cannot
//! refuse a process of the person's own that a command controls: a terminal multiplexer, a window, a
//! scheduled job. So lines that run such programs ask too.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use leftfold_events::rules::LEFTFOLD;

use crate::View;
use crate::step::{Run, Step};
use crate::wrappers::base;

/// Programs that run a text that is given to them.
const INTERPRETERS: &[&str] = &[
    "awk", "bun", "deno", "expect", "gawk", "lua", "node", "nodejs", "perl", "php", "python",
    "ruby", "ssh", "tclsh",
];

/// Programs that type into the person's terminals and windows, or start processes that have no ancestor in
/// the call.
const REACH_OUT: &[&str] = &[
    "at", "batch", "busctl", "byobu", "crontab", "dbus-send", "dotool", "gdbus", "kitten", "kitty",
    "launchctl", "osascript", "qdbus", "screen", "systemd-run", "tmux", "wezterm", "wtype",
    "xdotool", "ydotool", "zellij",
];

/// Most programs of a line that are looked up.
const MAX_LOOKUPS: usize = 200;

/// Whether the steps of `line`, which starts in `folder`, may run Leftfold or reach processes outside.
pub(crate) fn is_run(line: &str, steps: &[Step], folder: &Path, view: &dyn View) -> bool {
    let mut unknown = false;
    let mut looked_up = std::collections::HashSet::new();
    for step in steps {
        match step {
            Step::Run(run) => match run.name() {
                Some(name) if base(&name) == LEFTFOLD => return true,
                Some(name) if REACH_OUT.contains(&base(&name)) => return true,
                Some(name) if base(&name) == "git" && schedules(run) => return true,
                Some(name) => {
                    unknown |= interprets(run, base(&name));
                    if looked_up.len() < MAX_LOOKUPS
                        && looked_up.insert(name.clone())
                        && leads_here(&name, folder, view)
                    {
                        return true;
                    }
                }
                None => unknown = true,
            },
            Step::Unreadable | Step::Unknown => unknown = true,
            Step::Assignment(_)
            | Step::Assign(..)
            | Step::Redirect { .. }
            | Step::Function
            | Step::Enter
            | Step::Leave
            | Step::Perhaps
            | Step::Joined => {}
        }
    }
    // a name that the line puts together at run time still stands in it
    unknown && names_it(line)
}

/// `git maintenance start` leaves jobs to the system's scheduler.
fn schedules(run: &Run) -> bool {
    ["maintenance", "start"].iter().all(|name| run.words.iter().any(|word| word.shown() == *name))
}

fn interprets(run: &Run, name: &str) -> bool {
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let given = names_it(&run.given) || run.words[1..].iter().any(|word| names_it(&word.shown()));
    INTERPRETERS.contains(&family) && given
}

/// Whether the program is a link to Leftfold, or the one that runs now.
fn leads_here(name: &str, folder: &Path, view: &dyn View) -> bool {
    if name.contains('/') {
        return folder.join(name).to_str().is_some_and(|path| is_leftfold(path, view));
    }
    found(name).is_some_and(|path| path.to_str().is_some_and(|path| is_leftfold(path, view)))
}

/// The file that `PATH` gives a name.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Whether a program is no file of the project, by a path or by `PATH`. Of one that is not there, it is not known.
pub(crate) fn is_installed(name: &str, view: &dyn View) -> bool {
    let path = if name.contains('/') { Some(PathBuf::from(name)) } else { found(name) };
    path.is_none_or(|path| path.is_absolute() && !path.starts_with(view.worktree()))
}

fn is_leftfold(path: &str, view: &dyn View) -> bool {
    let Some(target) = view.resolve(path) else { return false };
    let running = std::env::current_exe().and_then(std::fs::canonicalize);
    target.path.file_name() == Some(OsStr::new(LEFTFOLD))
        || running.is_ok_and(|running| running == target.path)
}

/// Whether `leftfold` is a word of the text: `leftfold-tools` and `leftfold.toml` are others.
fn names_it(text: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(LEFTFOLD).any(|(at, name)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|c| part(c) && c != '.') && !after.is_some_and(part)
    })
}
