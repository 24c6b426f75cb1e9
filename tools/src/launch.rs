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

/// Whose settings name a program, and what that means for its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// The user's own settings, an editor or the command line. It starts in `neutral`, a folder of Leftfold's data, or in
    /// the project if that is `None`, unless settings name another folder.
    OfUser { neutral: Option<PathBuf> },
    /// The settings of a project that the user has trusted.
    OfProject(TrustCheck),
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
    /// Whether the program is the user's, so that nothing of the project may take its place.
    pub fn is_of_user(&self) -> bool {
        matches!(self, Self::OfUser { .. })
    }

    /// The folder in which the program starts: the one that settings name, the neutral one, which is made if it does
    /// not exist, or the project's.
    ///
    /// # Errors
    /// The neutral folder cannot be made. In words for people.
    pub fn folder(&self, named: Option<&Path>, project: &Path) -> Result<PathBuf, String> {
        match (named, self) {
            (Some(named), _) => Ok(named.to_owned()),
            (None, Self::OfUser { neutral: Some(neutral) }) => {
                let failed = |error: io::Error| {
                    format!("its folder {} cannot be made: {error}", neutral.display())
                };
                private_folder(neutral).map_err(failed)?;
                Ok(neutral.clone())
            }
            (None, Self::OfUser { neutral: None } | Self::OfProject(_)) => Ok(project.to_owned()),
        }
    }

    /// Makes sure that a project's program is still the one that the user has trusted. Call it right before each start.
    ///
    /// # Errors
    /// It has changed. In words for people.
    pub async fn check(&self) -> Result<(), String> {
        let Self::OfProject(TrustCheck { directory, check }) = self else { return Ok(()) };
        let (directory, check) = (directory.clone(), *check);
        let checked = tokio::task::spawn_blocking(move || check(&directory)).await;
        checked.map_err(|error| error.to_string())?
    }

    /// Adds to the reason why a program failed that it was not started in the project, and the setting for that.
    pub fn explain(&self, why: String, named: Option<&Path>) -> String {
        match self {
            Self::OfUser { neutral: Some(neutral) } if named.is_none() => format!(
                "{why} (it was started in {}, because the project is not trusted; `\"cwd\": \"{PROJECT}\"` in its settings \
                 starts it in the project)",
                neutral.display()
            ),
            Self::OfUser { .. } | Self::OfProject(_) => why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_user_starts_outside_of_the_project() {
        let site = tempfile::tempdir().unwrap();
        let (neutral, project) = (site.path().join("data/programs"), Path::new("/project"));
        let named = Path::new("/named");
        let of_project = TrustCheck { directory: project.to_owned(), check: |_| Ok(()) };
        for (launch, cwd, expected) in [
            (Launch::OfUser { neutral: Some(neutral.clone()) }, None, neutral.as_path()),
            (Launch::OfUser { neutral: Some(neutral.clone()) }, Some(named), named),
            (Launch::OfUser { neutral: None }, None, project),
            (Launch::OfProject(of_project.clone()), None, project),
            (Launch::OfProject(of_project), Some(named), named),
        ] {
            assert_eq!(launch.folder(cwd, project).unwrap(), expected);
            let is_explained = launch.explain(String::new(), cwd).contains(PROJECT);
            assert_eq!(is_explained, expected == neutral);
        }
        assert!(neutral.is_dir());
    }
}
