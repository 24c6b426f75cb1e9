//! How an MCP server or a plugin is started: in which folder, and what must hold at that moment.
//!
//! A program that the user's own settings name has the user's rights, so nothing of a project may take its place. It is
//! found outside of projects ([`leftfold_programs`]), and starts in a neutral folder: in the project's, `npx NAME` would run
//! the project's package of that name, and `python3 -m NAME` its module.
//!
//! A project's own program starts in the project, and only as the user has trusted it.

use std::io;
use std::path::{Path, PathBuf};

use leftfold_programs::PROJECT;

use crate::sandbox::private_folder;

/// The start of a program that settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub folder: StartFolder,
    pub owner: ProgramOwner,
}

/// The folder in which a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFolder {
    /// The session's folder.
    Project,
    /// An empty folder of Leftfold's data, because nothing of the project may take part.
    Neutral(PathBuf),
    /// The folder that settings name.
    Named(PathBuf),
}

/// Whose settings name a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramOwner {
    /// The user's own settings, an editor or the command line.
    User,
    /// The settings of a project that the user has trusted.
    Project(TrustCheck),
}

/// Finds out whether a project is still as the user has trusted it.
#[derive(Clone, Debug)]
pub struct TrustCheck {
    pub directory: PathBuf,
    /// The error says what has changed, in words for people. Reads the project's files, so it may block.
    pub check: fn(&Path) -> Result<(), String>,
}

impl PartialEq for TrustCheck {
    fn eq(&self, other: &Self) -> bool {
        self.directory == other.directory
    }
}

impl Eq for TrustCheck {}

impl Launch {
    /// A program of the user that starts in the session's folder.
    pub fn in_project() -> Self {
        Self { folder: StartFolder::Project, owner: ProgramOwner::User }
    }

    /// Whether the program is the user's, so that nothing of the project may take its place.
    pub fn is_of_user(&self) -> bool {
        self.owner == ProgramOwner::User
    }

    /// The folder in which the program starts. A neutral one is made if it does not exist.
    ///
    /// # Errors
    /// The neutral folder cannot be made. In words for people.
    pub fn folder(&self, project: &Path) -> Result<PathBuf, String> {
        match &self.folder {
            StartFolder::Project => Ok(project.to_owned()),
            StartFolder::Named(named) => Ok(named.clone()),
            StartFolder::Neutral(neutral) => {
                let failed = |error: io::Error| {
                    format!("its folder {} cannot be made: {error}", neutral.display())
                };
                private_folder(neutral).map_err(failed)?;
                Ok(neutral.clone())
            }
        }
    }

    /// Makes sure that a project's program is still the one that the user has trusted. Call it right before each start.
    ///
    /// # Errors
    /// It has changed. In words for people.
    pub async fn check(&self) -> Result<(), String> {
        let ProgramOwner::Project(TrustCheck { directory, check }) = &self.owner else {
            return Ok(());
        };
        let (directory, check) = (directory.clone(), *check);
        let checked = tokio::task::spawn_blocking(move || check(&directory)).await;
        checked.map_err(|error| error.to_string())?
    }

    /// Adds to the reason why a program failed that it was not started in the project, and the setting for that.
    pub fn explain(&self, why: String) -> String {
        match &self.folder {
            StartFolder::Neutral(neutral) => format!(
                "{why} (it was started in {}, because the project is not trusted; `\"cwd\": \"{PROJECT}\"` in its settings \
                 starts it in the project)",
                neutral.display()
            ),
            StartFolder::Project | StartFolder::Named(_) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_where_its_launch_says() {
        let site = tempfile::tempdir().unwrap();
        let (neutral, project) = (site.path().join("data/programs"), Path::new("/project"));
        for (folder, expected) in [
            (StartFolder::Neutral(neutral.clone()), neutral.as_path()),
            (StartFolder::Named("/named".into()), Path::new("/named")),
            (StartFolder::Project, project),
        ] {
            let launch = Launch { folder, owner: ProgramOwner::User };
            assert_eq!(launch.folder(project).unwrap(), expected);
            assert_eq!(launch.explain(String::new()).contains(PROJECT), expected == neutral);
        }
        assert!(neutral.is_dir());
    }
}
