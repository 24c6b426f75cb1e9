//! The judge of shell lines: it parses a bash command line and says which permissions a line needs before it runs.
//!
//! Rules judge each command of a line separately. They also judge the paths that it names. The judge looks up names of
//! files, but it reads no file, runs nothing and decides nothing.
//!
//! | module | task |
//! | --- | --- |
//! | `parse` | splits a line into steps; `check` compares the tree with the text |
//! | `cut` | splits a line that `parse` does not understand |
//! | `expansions`, `builtins` | find text that the shell evaluates again at run time |
//! | `assignments` | says which assignments rules judge |
//! | `wrappers`, `git` | find the commands in commands, as in `sudo rm x` |
//! | `commands`, `arity`, `globals` | make patterns for rules, and what "always" would allow |
//! | `scripts` | says whether programs of sed and awk, or options, run commands |
//! | `touched`, `files` | find the paths |
//! | `itself` | finds lines that run Leftfold |
//!
//! A step that is not known before the line runs has the pattern `<dynamic>`, which only a rule for `*`
//! allows, and needs the permission `unreadable`. The judge never looks into programs: `python x.py` may do anything.

// A new step of a line is considered everywhere in here.
#![warn(clippy::wildcard_enum_match_arm)]

mod arity;
mod assignments;
mod builtins;
mod check;
mod commands;
mod cut;
mod expansions;
mod files;
mod git;
mod globals;
mod inner;
mod itself;
mod parse;
mod scripts;
mod step;
#[cfg(test)]
mod tests;
mod touched;
mod word;
mod wrappers;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use leftfold_events::event::Access;
use leftfold_events::rules::{LEFTFOLD, PROTECTED_FILE, UNREADABLE};

use crate::commands::{DYNAMIC, Surroundings};
use crate::step::Step;

/// Tells the judge about the workspace in which a line runs.
pub trait View {
    /// The program that runs the line.
    fn shell(&self) -> &str;

    /// The variables that the shell inherits.
    fn environment(&self) -> Vec<(OsString, OsString)>;

    fn worktree(&self) -> &Path;

    /// Whether this folder is the worktree, by whatever name.
    fn is_worktree(&self, folder: &Path) -> bool;

    /// Resolves a path that is absolute, below `~`, or relative to the workspace's directory. `None` if it cannot be one.
    fn resolve(&self, path: &str) -> Option<Target>;

    /// Resolves a path as [`View::resolve`] does, but as a command of its own process sees `/proc/self`.
    fn resolve_for_command(&self, path: &str) -> Option<Target>;

    /// Whether a resolved path lies in the folder of long outputs, which commands may read.
    fn is_spilled(&self, path: &Path) -> bool;

    /// Whether a rule about `read` protects this path, as rules see it.
    fn is_guarded(&self, path: &str) -> bool;

    /// Whether the name of a path, as rules see it, makes it a protected file.
    fn is_protected_name(&self, path: &str) -> bool;

    /// Whether a path, as rules see it, is protected from changes: by its name, or because later programs of the user run it.
    fn is_protected(&self, path: &str) -> bool;

    /// Whether a resolved path holds keys or Leftfold's data.
    fn is_secret(&self, path: &Path) -> bool;
}

/// A resolved path.
#[derive(Debug)]
pub struct Target {
    /// Absolute, without links, `.` or `..`. It need not exist.
    pub path: PathBuf,
    /// The path that rules see: relative inside the worktree, else absolute.
    pub shown: String,
    /// The pattern that rules see of its folder. `None` inside the worktree.
    pub outside: Option<String>,
    /// Whether it is part of the process that opens it.
    pub is_own_process: bool,
}

/// What a line needs and touches.
#[derive(Debug)]
pub struct Judged {
    /// The permission `bash`, with a pattern for each command.
    pub commands: Access,
    /// The other permissions except `external_directory`.
    pub more: Vec<Access>,
    /// The folders outside the worktree, as patterns of `external_directory`.
    pub outside: Vec<String>,
    /// The paths that the line touches: resolved, in their order, at most 1,000.
    pub paths: Vec<PathBuf>,
    steps: Vec<Step>,
}

impl Judged {
    /// The patterns of "always" for a line that gets the network: its commands with these arguments. There are none if a
    /// file of the project may be what runs.
    pub fn always_with_network(&self, view: &dyn View) -> Vec<String> {
        let is_installed = |name: &str| itself::is_installed(name, view);
        commands::alone(&self.steps, &self.commands.patterns, is_installed)
    }
}

/// Judges `line`, which starts in `folder`. The judge reads it as bash does, so a line that the shell of `view` may read
/// otherwise has an unknown step.
pub fn judge(line: &str, folder: &Path, view: &dyn View) -> Judged {
    let mut steps = commands::steps(line);
    if !wrappers::is_read_alike(wrappers::base(view.shell()), line) {
        steps.push(Step::Unknown);
    }
    let touched = touched::from_steps(&steps, folder, view);
    let exported = view.environment().into_iter();
    let exported = exported.filter_map(|(name, _)| name.into_string().ok()).collect();
    let surroundings = Surroundings { exported, moves: touched.moves };
    let (patterns, always) = commands::judged(line, &steps, &surroundings);
    let commands = Access { permission: "bash".to_owned(), patterns, always };
    let needs = |permission: &str, patterns: Vec<String>| {
        let permission = permission.to_owned();
        (!patterns.is_empty()).then(|| Access { permission, patterns, always: Vec::new() })
    };
    let runs_leftfold = itself::is_run(line, &steps, folder, view);
    let leftfold = runs_leftfold.then(|| line.trim().to_owned());
    let more = [
        needs(UNREADABLE, commands::unreadable(&steps)),
        needs("read", touched.reads).map(offered),
        needs("edit", touched.edits).map(offered),
        needs(PROTECTED_FILE, touched.protected),
        needs(LEFTFOLD, leftfold.into_iter().collect()),
    ];
    let more = more.into_iter().flatten().collect();
    Judged { commands, more, outside: touched.outside, paths: touched.paths, steps }
}

/// "Always" allows the named files and no others. It is not offered if one of them is not known, or if its name has a `*` or
/// `?`: rules have no quoting, so it would match other files too.
fn offered(files: Access) -> Access {
    let is_one = |file: &String| file != DYNAMIC && !file.contains(['*', '?']);
    let always =
        if files.patterns.iter().all(is_one) { files.patterns.clone() } else { Vec::new() };
    Access { always, ..files }
}

/// The patterns that rules see of a line, and the patterns that "always" would allow, as far as they follow from the line
/// alone.
pub fn seen(line: &str) -> (Vec<String>, Vec<String>) {
    commands::judged(line, &commands::steps(line), &Surroundings::default())
}
