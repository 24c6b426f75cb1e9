//! The formatters of a project: which there are, and how each formats a file.
//!
//! `builtin` has those that Leftfold knows. Running them is the task of `formatting`.

mod builtin;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use leftfold_events::sandbox::SandboxOptions;

use self::builtin::BuiltIn;
pub use self::builtin::program as installed_program;

/// Stands for the path of the file in a command.
pub(crate) const FILE: &str = "$FILE";

/// The formatters of a project.
#[derive(Clone, Debug)]
pub struct Formatting {
    /// In the order in which they run.
    pub formatters: Vec<Formatter>,
    /// Whether the user has trusted the project's own formatters. Without that, no program or code of the project runs.
    pub trusted: bool,
    /// The sandbox of commands.
    pub sandbox: SandboxOptions,
}

/// A formatter, built in or from settings.
#[derive(Clone)]
pub struct Formatter {
    pub name: String,
    /// The ends of the names of its files: `.rs`.
    pub extensions: Vec<String>,
    pub environment: Vec<(String, String)>,
    command: FormatterCommand,
}

// Prints no variables, which may be secrets.
leftfold_events::debug_fields!(Formatter { name });

#[derive(Clone)]
enum FormatterCommand {
    BuiltIn(&'static BuiltIn),
    /// A program and its arguments.
    Own(Vec<String>),
}

/// The folders of a project: where its sessions work, and its root.
#[derive(Clone, Copy, Debug)]
pub struct ProjectFolders<'a> {
    pub directory: &'a Path,
    pub worktree: &'a Path,
}

/// A formatter that can run on a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    pub(crate) folder: PathBuf,
}

impl Formatter {
    /// The formatters that Leftfold knows.
    pub fn built_in() -> impl Iterator<Item = Self> {
        builtin::ALL.iter().map(|known| Self {
            name: known.name.to_owned(),
            extensions: known.extensions.iter().map(|end| (*end).to_owned()).collect(),
            environment: Vec::new(),
            command: FormatterCommand::BuiltIn(known),
        })
    }

    /// A formatter with a command of its own, in which `$FILE` stands for the file.
    pub fn new(name: &str, command: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            extensions: Vec::new(),
            environment: Vec::new(),
            command: FormatterCommand::Own(command),
        }
    }

    /// Gives the formatter another command.
    pub fn run_instead(&mut self, command: Vec<String>) {
        self.command = FormatterCommand::Own(command);
    }

    /// Whether it formats files of this name.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.extensions.iter().any(|end| name.len() > end.len() && name.ends_with(end.as_str()))
    }

    /// How it formats the file at `path`. `None`: it is not for this file or project, or not installed.
    pub(crate) fn invocation(
        &self,
        path: &Path,
        trusted: bool,
        project: ProjectFolders<'_>,
    ) -> Option<Invocation> {
        let file = path.to_str()?;
        let command = match &self.command {
            FormatterCommand::BuiltIn(known) => {
                if known.runs_project && !trusted {
                    return None;
                }
                known.command(path, trusted, project.worktree)?
            }
            FormatterCommand::Own(command) => {
                let (program, arguments) = command.split_first()?;
                let program =
                    builtin::program(program, project.directory, trusted, project.worktree)?;
                [vec![program], arguments.to_vec()].concat()
            }
        };
        let command = command.into_iter().map(|word| word.replace(FILE, file)).collect();
        // where a program starts decides which version of it a project chooses
        let is_own = matches!(self.command, FormatterCommand::Own(_));
        let folder =
            if trusted || is_own { project.directory.to_owned() } else { PathBuf::from("/") };
        Some(Invocation { command, folder })
    }
}

impl Formatting {
    /// For each formatter its name, the ends of its files' names, and whether it could format such a file in the
    /// project's folder.
    pub fn status(&self, project: ProjectFolders<'_>) -> Vec<(String, Vec<String>, bool)> {
        let status = |formatter: &Formatter| {
            let mut files =
                formatter.extensions.iter().map(|end| project.directory.join(format!("file{end}")));
            let is_ready =
                files.any(|path| formatter.invocation(&path, self.trusted, project).is_some());
            (formatter.name.clone(), formatter.extensions.clone(), is_ready)
        };
        self.formatters.iter().map(status).collect()
    }
}
