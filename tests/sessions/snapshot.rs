//! Snapshots of files: when they are taken, what they contain, and what they leave untouched.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Site, all, bash, call, kind, kinds, only, says, script};
use serde_json::{Value, json};

fn with(replies: Value) -> Site {
    Site::scripted(&script(replies)).setting("/snapshot", json!(true))
}

fn of_files(events: &[Value]) -> Vec<&str> {
    let mut kinds = kinds(events);
    kinds.retain(|kind| kind.starts_with("files.") || *kind == "tool.started");
    kinds
}

/// Runs git without any settings. Returns its output.
fn git(folder: &Path, args: &[&str]) -> String {
    let git = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(git.status.success(), "{args:?}: {}", String::from_utf8_lossy(&git.stderr));
    String::from_utf8(git.stdout).unwrap()
}

/// Every file below a folder with its content and the time of its last change.
fn content_of(folder: &Path) -> Vec<(PathBuf, std::time::SystemTime, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(content_of(&entry.path()));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            found.push((entry.path(), changed, std::fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_step_that_may_change_files_has_one_before_and_one_after() {
    let write = call("write", json!({ "filePath": "b", "content": "1\n2\n" }));
    let site = with(json!([bash("rm a"), write, says("Done.")]));
    site.file("a", "a\n");
    let events = site.prompt("go").ok().events();
    let (taken, done) = ("files.snapshot_started", "files.snapshotted");
    let started = "tool.started";
    let step = [taken, done, started, taken, done];
    assert_eq!(of_files(&events), [step, step].concat());
    let taken: Vec<&Value> =
        all(&events, done).into_iter().map(|event| &event["data"]["files"]).collect();
    let deleted = json!([{ "path": "a", "change": "deleted", "additions": 0, "deletions": 1 }]);
    let added = json!([{ "path": "b", "change": "added", "additions": 2, "deletions": 0 }]);
    assert_eq!(taken, [&json!([]), &deleted, &json!([]), &added]);
    let shown = site.run(&["sessions", "show", "last", "--format", "json"]).ok();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let figures = json!({ "additions": 2, "deletions": 1, "files": 2 });
    assert_eq!(shown["changes"], figures);
    let prompted = only(&events, "turn.prompted")["seq"].clone();
    let turn = json!({ "turn": prompted, "additions": 2, "deletions": 1, "files": 2 });
    assert_eq!(shown["changes_by_turn"], json!([turn]));
    let of = |path: &str, additions: u64, deletions: u64| json!({ "path": path, "additions": additions, "deletions": deletions });
    assert_eq!(shown["changes_by_file"], json!([of("a", 0, 1), of("b", 2, 0)]));
    site.assert_sound();
}

/// A folder for `PATH` with a git that logs its arguments, and the file of that log.
fn noting(site: &Site) -> (String, PathBuf) {
    let (tools, notes) = (site.path("tools"), site.path("notes"));
    std::fs::create_dir(&tools).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut real = std::env::split_paths(&path).map(|folder| folder.join("git"));
    let real = real.find(|file| file.is_file()).unwrap();
    let script =
        format!("#!/bin/sh\necho \"$3\" >> {}\nexec {} \"$@\"\n", notes.display(), real.display());
    let git = tools.join("git");
    std::fs::write(&git, script).unwrap();
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    (format!("{}:{path}", tools.display()), notes)
}

#[test]
fn a_step_that_changes_files_has_one_process_and_any_other_has_none() {
    let read = call("read", json!({ "filePath": "a" }));
    let site = with(json!([bash("cat a"), read, bash("echo b > b"), bash("ls"), says("Done.")]));
    site.file("a", "a\n");
    let (path, notes) = noting(&site);
    let site = site.env("PATH", path);
    site.prompt("go").ok();
    // for the only step that changed any
    let asked = std::fs::read_to_string(notes).unwrap();
    assert_eq!(asked.lines().collect::<Vec<_>>(), ["diff-tree"]);
    site.assert_sound();
}

#[test]
fn reading_has_none_and_settings_turn_them_off() {
    let read = || call("read", json!({ "filePath": "a" }));
    for (reply, on) in [(read(), true), (bash("echo b > b"), false)] {
        let site = with(json!([reply, says("Done.")])).setting("/snapshot", json!(on));
        site.file("a", "a\n");
        let events = site.prompt("go").ok().events();
        assert_eq!(of_files(&events), ["tool.started"]);
        assert!(!site.path("home/snapshots").exists());
    }
}

#[test]
fn without_git_everything_else_works_and_one_line_says_so() {
    let site = with(json!([bash("echo b > b"), says("Done.")]));
    let tools = site.path("tools");
    std::fs::create_dir(&tools).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for name in ["bash", "sh"] {
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(name));
        let found = found.find(|file| file.is_file()).unwrap();
        std::os::unix::fs::symlink(found, tools.join(name)).unwrap();
    }
    let site = site.env("PATH", tools.to_str().unwrap());
    let ran = site.run(&["run", "--format", "json", "go"]).ok();
    assert_eq!(ran.stderr.matches("`git` was not found").count(), 1, "{ran:?}");
    assert_eq!(of_files(&ran.events()), ["tool.started"]);
    assert_eq!(site.text("b"), "b\n");
}

/// Edits and runs a command in the folder `at` of the project, and reverts: files, and git's own
/// files in `gits`, are unchanged.
fn there_and_back(site: &Site, at: &str, gits: &[&str]) {
    let inside = site.project().join(at);
    let files = ["a", "sub/b"].map(|name| inside.join(name));
    let texts = || files.clone().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let own = || gits.iter().map(|git| content_of(&site.path("").join(git))).collect::<Vec<_>>();
    let (before, untouched) = (texts(), own());
    site.run(&["run", "go"]).ok().saying(&["2 files changed"]);
    assert_ne!(texts(), before);
    let events = site.exported();
    assert!(events.iter().all(|event| kind(event) != "files.snapshot_failed"), "{events:?}");
    site.run(&["revert", "last", "--to", "1"]).ok();
    assert_eq!(texts(), before);
    assert!(own() == untouched, "git's own files have changed");
    site.run(&["unrevert", "last"]).ok();
    assert_ne!(texts(), before);
    assert!(own() == untouched, "git's own files have changed");
}

/// A site whose turn changes `AT/a` with a tool and `AT/sub/b` with a command.
fn changing(at: &str) -> Site {
    let name = |file: &str| if at.is_empty() { file.to_owned() } else { format!("{at}/{file}") };
    let write = call("write", json!({ "filePath": name("a"), "content": "new\n" }));
    let command = bash(&format!("echo new > {}", name("sub/b")));
    let site = with(json!([write, command, says("Done.")]));
    site.file(&name("a"), "old\n");
    site.file(&name("sub/b"), "old\n");
    site
}

#[test]
fn a_folder_without_a_repository_and_one_without_commits_will_do() {
    there_and_back(&changing(""), "", &[]);
    let site = changing("");
    git(&site.project(), &["init", "-q"]);
    there_and_back(&site, "", &["project/.git"]);
}

#[test]
fn a_repository_with_changes_in_its_index_stays_as_it_is() {
    let site = changing("");
    let project = site.project();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "x"]);
    site.file("a", "staged\n");
    git(&project, &["add", "."]);
    site.file("a", "not staged\n");
    there_and_back(&site, "", &["project/.git"]);
}

#[test]
fn a_nested_repository_and_a_submodule_are_part_of_it() {
    let site = changing("nested");
    git(&site.project(), &["init", "-q"]);
    git(&site.project().join("nested"), &["init", "-q"]);
    there_and_back(&site, "nested", &["project/.git", "project/nested/.git"]);

    let site = changing("module");
    let elsewhere = site.path("elsewhere");
    std::fs::rename(site.project().join("module"), &elsewhere).unwrap();
    git(&elsewhere, &["init", "-q"]);
    git(&elsewhere, &["add", "."]);
    git(&elsewhere, &["commit", "-qm", "x"]);
    git(&site.project(), &["init", "-q"]);
    git(&site.project(), &["submodule", "--quiet", "add", elsewhere.to_str().unwrap(), "module"]);
    there_and_back(&site, "module", &["project/.git"]);
}

#[test]
fn a_linked_worktree_has_snapshots_of_its_own() {
    let site = changing("");
    let (project, main) = (site.project(), site.path("main"));
    std::fs::rename(&project, &main).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "x"]);
    git(&main, &["worktree", "add", "-q", project.to_str().unwrap()]);
    there_and_back(&site, "", &["main/.git"]);
    assert_eq!(std::fs::read_to_string(main.join("a")).unwrap(), "old\n");
}

#[test]
fn no_setting_of_the_users_reaches_them() {
    let site = changing("");
    let config = "[core]\n\tautocrlf = true\n\thooksPath = hooks\n\tfsmonitor = /bin/false\n\
        [commit]\n\tgpgSign = true\n[filter \"x\"]\n\tclean = false\n\trequired = true\n";
    std::fs::write(site.path("user/.gitconfig"), config).unwrap();
    site.file(".gitattributes", "* filter=x text=auto\n");
    let site = site
        .env("GIT_DIR", "/nowhere")
        .env("GIT_INDEX_FILE", "/nowhere/index")
        .env("GIT_WORK_TREE", "/nowhere")
        .env("GIT_OBJECT_DIRECTORY", "/nowhere/objects");
    there_and_back(&site, "", &[]);
}
