//! The user's own folders, where skills and instructions may be.

use std::path::{Path, PathBuf};

use leftfold_files::texts::Texts;

/// The user's folders, as absolute paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFolders {
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or `.config` in `home`.
    pub config: Option<PathBuf>,
    /// Further folders of skills, named in settings.
    pub skills: Vec<SkillFolder>,
    /// The data folder, which remembers the texts of projects that are in force. `None`: all are as they are on disk.
    pub data: Option<PathBuf>,
}

impl UserFolders {
    pub fn of_environment() -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = absolute("HOME");
        let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        Self { home, config, skills: Vec::new(), data: None }
    }

    /// The texts of a project that are in force.
    pub fn texts(&self, worktree: &Path) -> Texts {
        Texts::load(self.data.as_deref(), worktree)
    }
}

/// A folder of skills that settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFolder {
    pub path: PathBuf,
    /// Whether the user's own settings name it. Then models may read its files without asking. A
    /// project's settings only add the folder to the search.
    pub own: bool,
}
