//! Settings that are used again because nothing has changed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::load::load_at;

impl World {
    /// The settings, a while after the last change.
    fn shared(&self) -> Arc<Settings> {
        let later = SystemTime::now() + Duration::from_secs(60);
        load_at(later, (&self.path(""), &self.env()), known()).unwrap()
    }
}

type Change = fn(&World);

/// Settings in a folder, in Markdown, and in one that a link names.
fn world() -> World {
    let world = World::new()
        .file("../.config/leftfold/leftfold.json", r#"{ "model": "anthropic/a" }"#)
        .file(".leftfold/agents/one.md", "---\ndescription: d\n---\nDo it.")
        .file("first/agents/two.md", "---\ndescription: d\n---\nDo it.")
        .file("second/agents/two.md", "---\ndescription: d\n---\nDo that.");
    std::os::unix::fs::symlink(world.path("first"), world.path(".opencode")).unwrap();
    world
}

#[test]
fn settings_are_read_again_only_after_a_change() {
    let changes: [(&str, Change); 9] = [
        ("a text of the same length", |world| {
            let file = world.home().join(".config/leftfold/leftfold.json");
            fs::write(file, r#"{ "model": "anthropic/b" }"#).unwrap();
        }),
        ("a file more", |world| {
            fs::write(world.path("leftfold.jsonc"), "{}").unwrap();
        }),
        ("a file of OpenCode more", |world| {
            fs::write(world.path(".opencode/opencode.json"), "{}").unwrap();
        }),
        ("an agent more", |world| {
            fs::write(world.path(".leftfold/agents/two.md"), "---\ndescription: d\n---\n").unwrap();
        }),
        ("an agent less", |world| fs::remove_file(world.path(".leftfold/agents/one.md")).unwrap()),
        ("a folder of the user's", |world| {
            fs::create_dir(world.home().join(".config/leftfold/agents")).unwrap();
        }),
        ("another folder behind a link", |world| {
            fs::remove_file(world.path(".opencode")).unwrap();
            std::os::unix::fs::symlink(world.path("second"), world.path(".opencode")).unwrap();
        }),
        ("no worktree", |world| fs::remove_dir(world.path(".git")).unwrap()),
        ("a stored key", |world| {
            let home = world.home().join(".local/share/leftfold");
            fs::create_dir_all(&home).unwrap();
            let keys = home.join("auth.json");
            fs::write(&keys, r#"{ "a": { "type": "api", "key": "k" } }"#).unwrap();
            // otherwise reading changes it
            fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
        }),
    ];
    for (what, change) in changes {
        let world = world();
        let first = world.shared();
        assert!(Arc::ptr_eq(&first, &world.shared()), "before {what}");
        change(&world);
        let second = world.shared();
        assert!(!Arc::ptr_eq(&first, &second), "{what}");
        assert!(*second == load(&world.path(""), &world.env(), known()).unwrap(), "{what}");
        assert!(Arc::ptr_eq(&second, &world.shared()), "after {what}");
    }
}

#[test]
fn settings_that_have_just_changed_or_that_need_trust_are_read_each_time() {
    let world = world();
    let now = || load_at(SystemTime::now(), (&world.path(""), &world.env()), known()).unwrap();
    assert!(!Arc::ptr_eq(&now(), &now()));
    let world = world.file("leftfold.json", r#"{ "plugin": ["./p.sh"] }"#).file("p.sh", "true");
    assert!(!Arc::ptr_eq(&world.shared(), &world.shared()));
}
