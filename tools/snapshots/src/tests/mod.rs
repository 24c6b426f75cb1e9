mod changes;
mod store;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use leftfold_events::event::{Change, FileChange, Saved};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Error, Snapshot, Snapshots};

struct TestProject {
    dir: TempDir,
}

impl TestProject {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work")
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::new(&self.dir.path().join("data"), &self.work())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work().join(name)).ok()
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.work().join(name)).unwrap();
    }

    fn take(&self, since: Option<&str>) -> Snapshot {
        self.snapshots().take(since, &CancellationToken::new()).unwrap()
    }

    fn restore(&self, before: &str, paths: &[Saved]) -> Result<Snapshot, Error> {
        self.snapshots().restore(before, paths, &CancellationToken::new())
    }

    /// The changes since, as `A name +1 -0`.
    fn changed(&self, since: &str) -> Vec<String> {
        self.take(Some(since)).files.iter().map(brief).collect()
    }

    /// Restores everything that differs from `tree`. Returns the tree from before.
    fn back_to(&self, tree: &str) -> String {
        let now = self.take(Some(tree));
        let saved = |file: &FileChange| Saved { path: file.path.clone(), tree: tree.to_owned() };
        let paths: Vec<Saved> = now.files.iter().map(saved).collect();
        self.restore(&now.tree, &paths).unwrap();
        now.tree
    }

    fn git(&self, folder: &str, args: &[&str]) {
        let git = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(self.work().join(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(git.status.success(), "{args:?}: {}", String::from_utf8_lossy(&git.stderr));
    }
}

fn brief(file: &FileChange) -> String {
    let letter = match file.change {
        Change::Added => 'A',
        Change::Modified => 'M',
        Change::Deleted => 'D',
    };
    format!("{letter} {} +{} -{}", file.path, file.additions, file.deletions)
}

fn saved(path: &str, tree: &str) -> Saved {
    Saved { path: path.to_owned(), tree: tree.to_owned() }
}

/// Every file below a folder with its content.
fn content_of(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(content_of(&entry.path()));
        } else {
            found.push((entry.path(), fs::read(entry.path()).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_added_changed_and_deleted_is_told_with_its_lines() {
    let place = TestProject::new();
    place.write("a", "1\n2\n3\n");
    place.write("b/c", "1\n");
    let before = place.take(None);
    assert_eq!(before.files, []);
    assert_eq!(place.take(Some(&before.tree)), before);
    place.write("a", "1\nzwei\n3\n4\n");
    place.remove("b/c");
    place.write("new \"ü\\ name", "1\n2\n");
    place.write("bin", b"\0\xff");
    assert_eq!(
        place.changed(&before.tree),
        ["M a +2 -1", "D b/c +0 -1", "A bin +0 -0", "A new \"ü\\ name +2 -0"]
    );
}

#[test]
fn a_change_that_keeps_size_and_is_as_fast_as_can_be_is_seen() {
    let place = TestProject::new();
    for round in 0..5 {
        place.write("a", format!("{round}\n"));
        let before = place.take(None).tree;
        place.write("a", format!("{}\n", round + 1));
        assert_eq!(place.changed(&before), ["M a +1 -1"], "round {round}");
    }
}

#[test]
fn files_go_back_and_forth() {
    let place = TestProject::new();
    place.write("a", "a\n");
    place.write("gone/deep/b", "b\n");
    place.write("stays", "mine\n");
    let before = place.take(None).tree;
    place.write("a", "changed\n");
    fs::remove_dir_all(place.work().join("gone")).unwrap();
    place.write("made/here/c", "c\n");
    let after = place.back_to(&before);
    assert_eq!(place.take(None).tree, before);
    assert_eq!(
        (place.text("a").as_deref(), place.text("gone/deep/b").as_deref()),
        (Some("a\n"), Some("b\n"))
    );
    assert!(!place.work().join("made").exists(), "empty folders go too");
    place.back_to(&after);
    assert_eq!(place.take(None).tree, after);
    assert_eq!(place.text("made/here/c").as_deref(), Some("c\n"));
    assert_eq!(place.text("stays").as_deref(), Some("mine\n"));
}

#[test]
fn a_restore_is_the_same_when_it_is_done_twice() {
    let place = TestProject::new();
    place.write("a", "a\n");
    let old = place.take(None).tree;
    place.write("a", "b\n");
    place.write("b", "b\n");
    let before = place.take(None).tree;
    let paths = [saved("a", &old), saved("b", &old)];
    let once = place.restore(&before, &paths).unwrap();
    assert_eq!(place.restore(&before, &paths).unwrap(), once);
    assert_eq!(once.files.iter().map(brief).collect::<Vec<_>>(), ["M a +1 -1", "D b +0 -1"]);
    // the file may vanish while it is restored
    place.remove("a");
    assert_eq!(place.restore(&before, &paths).unwrap(), once);
}

#[test]
fn modes_and_links_go_back_and_what_was_a_folder_may_become_a_file() {
    let place = TestProject::new();
    place.write("run", "#!/bin/sh\n");
    let mode =
        |mode| fs::set_permissions(place.work().join("run"), fs::Permissions::from_mode(mode));
    mode(0o755).unwrap();
    symlink("run", place.work().join("link")).unwrap();
    place.write("folder/a", "a\n");
    place.write("file", "f\n");
    let before = place.take(None).tree;
    mode(0o644).unwrap();
    place.remove("link");
    place.write("link", "no link\n");
    fs::remove_dir_all(place.work().join("folder")).unwrap();
    place.write("folder", "a file now\n");
    place.remove("file");
    place.write("file/a", "a folder now\n");
    let after = place.back_to(&before);
    assert_eq!(place.take(None).tree, before);
    let run = fs::metadata(place.work().join("run")).unwrap();
    assert_eq!(run.permissions().mode() & 0o111, 0o111);
    assert_eq!(fs::read_link(place.work().join("link")).unwrap(), Path::new("run"));
    place.back_to(&after);
    assert_eq!(place.take(None).tree, after);
}

#[test]
fn ignored_and_large_files_are_neither_kept_nor_touched() {
    let place = TestProject::new();
    let large = vec![b'x'; (2 << 20) + 1];
    place.write(".gitignore", "*.log\n/target/\n");
    place.write("sub/.gitignore", "secret\n");
    place.write("a.log", "log\n");
    place.write("target/out", "out\n");
    place.write("sub/secret", "s\n");
    place.write("large", &large);
    place.write("whole", &large[1..]);
    let before = place.take(None);
    assert_eq!(before.left_out, ["large"]);
    place.write("a.log", "more\n");
    place.write("large", [&large[..], b"y"].concat());
    assert_eq!(place.changed(&before.tree), [""; 0]);
    // a restore must not delete files that were ignored before
    place.write(".gitignore", "nothing\n");
    assert_eq!(place.changed(&before.tree).len(), 3);
    let after = place.back_to(&before.tree);
    assert_eq!(place.text("a.log").as_deref(), Some("more\n"));
    assert_eq!(place.text("target/out").as_deref(), Some("out\n"));
    place.back_to(&after);
    assert_eq!(place.text(".gitignore").as_deref(), Some("nothing\n"));
}

#[test]
fn a_file_that_is_kept_goes_on_to_be_when_it_is_ignored_or_grows() {
    let place = TestProject::new();
    place.write("a", "a\n");
    place.write("grows", "small\n");
    let before = place.take(None).tree;
    place.write(".gitignore", "a\n");
    place.write("a", "b\n");
    place.write("grows", vec![b'x'; 3 << 20]);
    assert_eq!(place.changed(&before), ["A .gitignore +1 -0", "M a +1 -1"]);
    let after = place.back_to(&before);
    assert_eq!(place.text("a").as_deref(), Some("a\n"));
    assert_eq!(fs::metadata(place.work().join("grows")).unwrap().len(), 3 << 20);
    place.back_to(&after);
    assert_eq!(place.text("a").as_deref(), Some("b\n"));
}

#[test]
fn what_stands_in_the_way_leaves_everything_as_it_was() {
    let place = TestProject::new();
    place.write("a", "old\n");
    place.write("z/b", "old\n");
    let old = place.take(None).tree;
    place.write("a", "new\n");
    fs::remove_dir_all(place.work().join("z")).unwrap();
    let before = place.take(None).tree;
    fs::create_dir(place.dir.path().join("elsewhere")).unwrap();
    symlink("../elsewhere", place.work().join("z")).unwrap();
    let refused = place.restore(&before, &[saved("a", &old), saved("z/b", &old)]);
    assert!(matches!(&refused, Err(Error::Path { path, .. }) if path == "z/b"), "{refused:?}");
    assert_eq!(place.text("a").as_deref(), Some("new\n"));
    assert_eq!(fs::read_dir(place.dir.path().join("elsewhere")).unwrap().count(), 0);
    for outside in ["../x", "/etc/x", ".git/config", "a/../../x"] {
        let refused = place.restore(&before, &[saved(outside, &before)]);
        // a path that the tree before does not hold is never deleted
        assert!(refused.is_ok(), "{outside}: {refused:?}");
    }
    let gone = place.restore(&before, &[saved("a", "0123456789012345678901234567890123456789")]);
    assert!(matches!(&gone, Err(Error::Git { command: "ls-tree", .. })), "{gone:?}");
    assert_eq!(place.text("a").as_deref(), Some("new\n"));
}
