//! Servers as settings define them, and reports on them.

use std::path::{Path, PathBuf};

use leftfold_tools::ProgramSandbox;
use serde_json::Value;

/// Most bytes of a `Cargo.toml` that is searched for a workspace.
const MAX_MANIFEST: u64 = 1 << 20;

/// A server that can be started.
#[derive(Clone, PartialEq)]
pub struct ServerSpec {
    /// Its name in settings.
    pub id: String,
    /// The ends of the names of its files, such as `.rs`, or whole names.
    pub extensions: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Options that the server gets at its start, and as its settings. `Null`: none.
    pub initialization: Value,
    /// The language of its files. `None`: by their names.
    pub language: Option<String>,
    pub roots: Roots,
    /// `None`: it runs without a sandbox.
    pub sandbox: Option<Box<ProgramSandbox>>,
}

// Hides commands, variables and options: they may contain secrets.
leftfold_events::debug_fields!(ServerSpec { id });

/// Where servers are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchContext {
    /// The folder where the sessions work.
    pub directory: PathBuf,
    pub worktree: PathBuf,
    /// Variables that servers get in addition to the usual ones.
    pub environment: Vec<String>,
}

/// A report on a server that has been started, for one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    pub id: String,
    pub root: PathBuf,
    /// `None`: it is starting. The error says why it cannot be used.
    pub state: Option<Result<(), String>>,
}

/// How the workspace root of a file is found: the nearest folder above it, within the worktree, that has a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Lists of names, the better ones first. A name that begins with `*` stands for all that end like it.
    pub markers: &'static [&'static [&'static str]],
    /// With one of these above a file, the server is not for that file.
    pub unless: &'static [&'static str],
    /// Without a marker, the server is not for the file. Otherwise its root is then the folder of the session.
    pub needs_marker: bool,
    /// A folder above with a Cargo workspace is the root.
    pub is_cargo: bool,
}

impl Roots {
    /// The root of the file at `path`. `None`: the server is not for this file.
    pub(crate) fn for_file(&self, path: &Path, context: &LaunchContext) -> Option<PathBuf> {
        let LaunchContext { directory, worktree, .. } = context;
        if !path.starts_with(worktree) {
            return None;
        }
        let folders: Vec<&Path> =
            path.ancestors().skip(1).take_while(|folder| folder.starts_with(worktree)).collect();
        let nearest = |names: &[&str]| {
            folders.iter().find(|folder| names.iter().any(|name| has(folder, name)))
        };
        if nearest(self.unless).is_some() {
            return None;
        }
        let found = self.markers.iter().find_map(|names| nearest(names));
        let workspace = || {
            let above = folders.iter().skip_while(|folder| Some(*folder) != found);
            above.into_iter().find(|folder| has_cargo_workspace(folder, worktree))
        };
        let found = found.map(|found| match self.is_cargo {
            true => workspace().unwrap_or(found),
            false => found,
        });
        match found {
            Some(found) => Some((*found).to_owned()),
            None if self.needs_marker => None,
            None if path.starts_with(directory) => Some(directory.clone()),
            None => Some(worktree.clone()),
        }
    }
}

fn has(folder: &Path, name: &str) -> bool {
    let Some(end) = name.strip_prefix('*') else { return folder.join(name).exists() };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(|name| name.ends_with(end)))
}

fn has_cargo_workspace(folder: &Path, worktree: &Path) -> bool {
    let manifest = folder.join("Cargo.toml");
    let text = leftfold_files::text(&manifest, Some(worktree), MAX_MANIFEST).unwrap_or_default();
    text.lines().any(|line| line.trim_start().starts_with("[workspace]"))
}

impl ServerSpec {
    /// Whether it is for files of this name.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.extensions.iter().any(|end| match end.starts_with('.') {
            true => name.len() > end.len() && name.ends_with(end.as_str()),
            false => name == end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_nearest_folder_with_a_marker_within_the_worktree() {
        let site = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = site.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("go.mod", "");
        file("w/Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
        file("w/a/Cargo.toml", "[package]\n");
        file("w/go/go.mod", "");
        file("w/go.work", "");
        file("w/web/package-lock.json", "");
        file("w/web/deno/deno.json", "");
        file("w/x/main.tf", "");
        let worktree = site.path().join("w");
        let directory = worktree.join("sub");
        let context =
            LaunchContext { directory, worktree: worktree.clone(), environment: Vec::new() };
        let cargo = Roots { markers: &[&["Cargo.toml"]], is_cargo: true, ..Roots::default() };
        let go = Roots { markers: &[&["go.work"], &["go.mod"]], ..Roots::default() };
        let web = Roots {
            markers: &[&["package-lock.json"]],
            unless: &["deno.json"],
            ..Roots::default()
        };
        let deno = Roots { markers: &[&["deno.json"]], needs_marker: true, ..Roots::default() };
        let glob = Roots { markers: &[&["*.tf"]], ..Roots::default() };
        for (roots, name, root) in [
            (cargo, "a/src/lib.rs", Some("")),
            (cargo, "b.rs", Some("")),
            (go, "go/x.go", Some("")),
            (web, "web/x.ts", Some("web")),
            (web, "web/deno/x.ts", None),
            (web, "sub/x.ts", Some("sub")),
            (web, "other/x.ts", Some("")),
            (deno, "web/deno/x.ts", Some("web/deno")),
            (deno, "web/x.ts", None),
            (glob, "x/y/main.tf", Some("x")),
            (go, "../x.go", None),
        ] {
            let path = worktree.join(name);
            // as rules resolve it
            let path = if name.starts_with("..") { site.path().join("x.go") } else { path };
            let root = root.map(|root| worktree.join(root));
            let found = roots.for_file(&path, &context);
            let same = found.as_ref().map(|it| it.components().collect::<PathBuf>())
                == root.as_ref().map(|it| it.components().collect::<PathBuf>());
            assert!(same, "{name}: {found:?}");
        }
    }
}
