//! The user's own folders, where skills and instructions are looked for.

use std::path::PathBuf;

/// The user's folders; absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or `.config` in `home`.
    pub config: Option<PathBuf>,
    /// Where settings say that there are more skills.
    pub skills: Vec<Named>,
}

impl Homes {
    pub fn of_environment() -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = absolute("HOME");
        let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        Self { home, config, skills: Vec::new() }
    }
}

/// A folder of skills that settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub path: PathBuf,
    /// The user's own settings name it, so that what lies there is for models to read. A project may only
    /// point at a folder.
    pub own: bool,
}
