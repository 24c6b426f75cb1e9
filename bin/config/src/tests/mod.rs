//! Tests of the settings. Each test has a project folder with files and variables of its own, and
//! reads nothing of the machine's environment.

mod claude_code;
mod errors;
mod known;
mod layers;
mod models;
mod models_dev;
mod quota;
mod reading;
mod sandbox;
mod shared;
mod slips;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Env, Error, Settings, load, review};
use known::known;

/// A home, and in it a project with a worktree.
struct World {
    root: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap().join("home");
        fs::create_dir_all(home.join("project/.git")).unwrap();
        let variables = vec![("HOME".to_owned(), home.display().to_string())];
        Self { root, variables }
    }

    /// A world with only `text` in `leftfold.json`.
    fn with(text: &str) -> Self {
        Self::new().file("leftfold.json", text)
    }

    /// Writes a file; the path is relative to the project.
    fn file(self, path: &str, text: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home().join("project").join(path)
    }

    fn home(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("home")
    }

    fn env(&self) -> impl Fn(&str) -> Option<String> {
        let variables = self.variables.clone();
        move |name| variables.iter().rev().find(|(known, _)| known == name).map(|(_, v)| v.clone())
    }

    /// Reads the settings in a folder, of a project that the user trusts.
    fn load_in(&self, folder: &str) -> Result<Settings, Error> {
        self.trust(folder);
        load(&self.path(folder), &self.env(), known())
    }

    /// Trusts the project's settings as they are now.
    fn trust(&self, folder: &str) {
        if let Ok(trust) = review(&self.path(folder), &self.env()) {
            trust.grant(&self.env()).unwrap();
        }
    }

    fn load(&self) -> Settings {
        self.load_in("").unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error about the settings, with paths relative to the project.
    fn error(&self) -> String {
        self.plain(&self.load_in("").expect_err("these settings are wrong"))
    }

    fn plain(&self, error: &Error) -> String {
        let home = format!("{}/", self.home().display());
        error.to_string().replace(&format!("{home}project/"), "").replace(&home, "~/")
    }
}

/// An environment without variables.
fn nothing() -> Env<'static> {
    &|_| None
}

/// All values of all sources, merged.
fn kept(settings: &Settings) -> Value {
    settings.tree.as_ref().map(|tree| tree.value()).unwrap_or_default()
}

/// Every rule in its order, of projects too.
fn rules(settings: &Settings) -> Vec<String> {
    let rules = settings.placed_rules.iter().map(|said| &said.rule);
    rules.map(|r| format!("{} {} {:?}", r.permission, r.pattern, r.action)).collect()
}

#[test]
fn the_worktree_is_the_nearest_folder_with_git() {
    let world = World::new().file("sub/deep/x", "").file("linked/.git", "gitdir: elsewhere");
    let project = world.path("").canonicalize().unwrap();
    for (from, expected) in [
        (world.path("sub/deep"), project.clone()),
        (world.path(""), project.clone()),
        (world.path("linked"), world.path("linked")),
        (world.home(), world.home()),
        (world.path("sub/../sub"), project),
        (Path::new("/no/such/place").to_owned(), PathBuf::from("/no/such/place")),
    ] {
        assert_eq!(super::worktree_of(&from), expected, "from {}", from.display());
    }
}
