//! Which formatters run in which project.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::testing::Site;

/// The names of the formatters that would run on a file.
fn ready(site: &Site, name: &str, trusted: bool, formatters: &[Formatter]) -> Vec<String> {
    let path = site.file(name, "x");
    let cx = site.workspace();
    let project = ProjectFolders { directory: &cx.directory, worktree: &cx.worktree };
    let is_ready =
        |it: &&Formatter| it.takes(&path) && it.invocation(&path, trusted, project).is_some();
    formatters.iter().filter(is_ready).map(|formatter| formatter.name.clone()).collect()
}

#[test]
fn nothing_of_a_project_runs_unless_it_is_trusted() {
    let site = Site::new();
    let script = |name: &str| {
        let path = site.file(name, "#!/bin/sh\n");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    let prettier = script("node_modules/.bin/prettier");
    script("vendor/bin/pint");
    script("node_modules/.bin/biome");
    site.file("package.json", r#"{ "devDependencies": { "prettier": "3" } }"#);
    site.file("composer.json", r#"{ "require-dev": { "laravel/pint": "1" } }"#);
    site.file("biome.json", "{}");
    let built_in = || Formatter::built_in().collect::<Vec<_>>();
    for (name, trusted) in [("web/a.ts", &["prettier", "biome"][..]), ("a.php", &["pint"])] {
        assert_eq!(ready(&site, name, false, &built_in()), [""; 0], "{name}");
        assert_eq!(ready(&site, name, true, &built_in()), trusted, "{name}");
    }
    let path = site.path("web/a.ts");
    let found = built_in().into_iter().find(|it| it.name == "prettier").unwrap();
    let cx = site.workspace();
    let project = ProjectFolders { directory: &cx.directory, worktree: &cx.worktree };
    let invocation = found.invocation(&path, true, project).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    assert_eq!(invocation.command, [text(&prettier), "--write".to_owned(), text(&path)]);
    // a command of the user that leads to a program of the project
    symlink(&prettier, site.outside("link")).unwrap();
    let link = text(&site.outside("link"));
    for program in ["./node_modules/.bin/prettier", &text(&prettier), &link] {
        let own = || {
            let mut own = Formatter::new("own", vec![program.to_owned(), FILE.to_owned()]);
            own.extensions = vec![".ts".to_owned()];
            vec![own]
        };
        assert_eq!(ready(&site, "web/a.ts", false, &own()), [""; 0], "{program}");
        assert_eq!(ready(&site, "web/a.ts", true, &own()), ["own"], "{program}");
    }
}

#[test]
fn a_project_says_which_formatters_it_uses() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |name: &str| std::env::split_paths(&path).any(|it| it.join(name).is_file());
    assert!(installed("rustfmt"));
    let site = Site::new();
    let built_in = || Formatter::built_in().collect::<Vec<_>>();
    assert_eq!(ready(&site, "a.rs", false, &built_in()), ["rustfmt"]);
    for name in ["a.ts", "a.c", "a.py", "a.R", "a.ml", "a.php"] {
        assert_eq!(ready(&site, name, true, &built_in()), [""; 0], "{name}");
    }
    // manifests that nobody should read, or that are none
    site.fifo("package.json");
    assert_eq!(ready(&site, "a.ts", true, &built_in()), [""; 0]);
    std::fs::remove_file(site.path("package.json")).unwrap();
    for text in ["", "[", "7", r#"{"dependencies": 7}"#, r#"{"dependencies": {"x": 1}}"#] {
        site.file("package.json", text);
        assert_eq!(ready(&site, "a.ts", true, &built_in()), [""; 0], "{text}");
    }
    let names: Vec<String> = built_in().into_iter().map(|it| it.name).collect();
    let mut unique = names.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(names.len(), unique.len());
}
