//! Random changes are found as a full walk of the worktree finds them.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use ignore::WalkBuilder;
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::TestProject;
use crate::git::{EMPTY, Git};
use crate::stamp::Mode;
use crate::{FileMode, Snapshots, Version};

/// Some are files at one time and folders at another.
const PATHS: [&str; 14] = [
    "x", "y.log", ".gitignore", "a", "a/x", "a/y.log", "a/.gitignore", "a/c", "a/c/x", "a/c/y.log",
    "d", "d/e", "d/e/x", "d/e/f/y.log",
];
const FOLDERS: [&str; 5] = ["", "a", "a/c", "d", "d/e"];
const RULES: [&str; 9] =
    ["", "x\n", "*.log\n", "/a/\n", "c/\n", "d/*\n", "!x\n", "*.log\n!y.log\n", "e\n!e/x\n"];
/// Longer than the time between two ticks of file times here, and much shorter than for users.
const TICK: Duration = Duration::from_millis(30);

#[derive(Clone, Debug)]
enum Change {
    Write(&'static str, u8),
    /// Writes as many bytes, and puts the times of the file and its folder back.
    Hide(&'static str, u8),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Link(&'static str, &'static str),
    Mode(&'static str, u32),
    Ignore(&'static str, &'static str),
    Exclude(&'static str, &'static str),
    /// Waits until stamps are trusted, and takes a snapshot.
    Settle,
}

impl Change {
    /// Failures, such as a file in the way, are fine: they change nothing.
    fn make(&self, root: &Path) {
        let place = |path: &str| root.join(path);
        let write = |path: &Path, text: &[u8]| {
            let _ = fs::create_dir_all(path.parent().unwrap());
            fs::write(path, text)
        };
        let _ = match *self {
            Self::Write(path, byte) => write(&place(path), &vec![byte; usize::from(byte) + 1]),
            Self::Hide(path, byte) => {
                let path = place(path);
                let folder = path.parent().unwrap();
                let times = |path: &Path| {
                    let times = fs::metadata(path).and_then(|found| found.modified());
                    FileTimes::new().set_modified(times.unwrap_or(SystemTime::UNIX_EPOCH))
                };
                let (of_file, of_folder) = (times(&path), times(folder));
                let length = fs::metadata(&path).map_or(1, |found| found.len());
                let _ = write(&path, &vec![byte; usize::try_from(length.min(9)).unwrap()]);
                let set = |path: &Path, times| File::open(path).and_then(|it| it.set_times(times));
                let _ = set(&path, of_file);
                set(folder, of_folder)
            }
            Self::Remove(path) => {
                fs::remove_file(place(path)).or_else(|_| fs::remove_dir_all(place(path)))
            }
            Self::Rename(from, to) => fs::rename(place(from), place(to)),
            Self::HardLink(from, to) => fs::hard_link(place(from), place(to)),
            Self::Link(to, path) => symlink(to, place(path)),
            Self::Mode(path, mode) => {
                fs::set_permissions(place(path), fs::Permissions::from_mode(mode))
            }
            Self::Ignore(folder, rules) => {
                write(&place(folder).join(".gitignore"), rules.as_bytes())
            }
            Self::Exclude(folder, rules) => {
                write(&place(folder).join(".git/info/exclude"), rules.as_bytes())
            }
            Self::Settle => Ok(()),
        };
    }
}

fn change() -> impl Strategy<Value = Change> {
    let path = || prop::sample::select(&PATHS[..]);
    let folder = || prop::sample::select(&FOLDERS[..]);
    let rules = || prop::sample::select(&RULES[..]);
    prop_oneof![
        4 => (path(), 0..4_u8).prop_map(|(path, byte)| Change::Write(path, byte)),
        2 => (path(), 4..9_u8).prop_map(|(path, byte)| Change::Hide(path, byte)),
        2 => path().prop_map(Change::Remove),
        2 => (path(), path()).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Change::HardLink(from, to)),
        1 => (path(), path()).prop_map(|(to, path)| Change::Link(to, path)),
        1 => (path(), prop::sample::select(&[0o644, 0o755][..]))
            .prop_map(|(path, mode)| Change::Mode(path, mode)),
        1 => (folder(), rules()).prop_map(|(folder, rules)| Change::Ignore(folder, rules)),
        1 => (folder(), rules()).prop_map(|(folder, rules)| Change::Exclude(folder, rules)),
        6 => Just(Change::Settle),
    ]
}

type Files = BTreeMap<String, (Mode, Vec<u8>)>;

/// The file or link at a path of the worktree. No link leads to it.
fn file_at(root: &Path, path: &str) -> Option<(Mode, Vec<u8>)> {
    let place = root.join(path);
    let parents = place.ancestors().skip(1).take_while(|parent| *parent != root);
    if parents.into_iter().any(|parent| parent.is_symlink()) {
        return None;
    }
    let found = fs::symlink_metadata(&place).ok()?;
    if found.is_symlink() {
        let target = fs::read_link(&place).unwrap();
        return Some((Mode::Link, target.into_os_string().into_encoded_bytes()));
    }
    let mode = if found.permissions().mode() & 0o100 == 0 { Mode::File } else { Mode::Executable };
    found.is_file().then(|| (mode, fs::read(&place).unwrap()))
}

/// The files of a full walk, and those of `before` that still exist.
fn walked(root: &Path, before: &Files) -> Files {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false).ignore(false).require_git(false).parents(false);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    let found = walk.build().filter_map(Result::ok);
    let found =
        found.filter_map(|entry| Some(entry.path().strip_prefix(root).ok()?.to_str()?.to_owned()));
    let paths = found.chain(before.keys().cloned());
    paths.filter_map(|path| file_at(root, &path).map(|file| (path, file))).collect()
}

/// The files of a snapshot.
fn taken(snapshots: &Snapshots) -> Files {
    let tree = snapshots.take(None, &CancellationToken::new()).unwrap().tree;
    if tree == EMPTY {
        return Files::new();
    }
    let mut objects = snapshots.objects().unwrap();
    let files = Git::new(&snapshots.folder).list(&tree).unwrap();
    let content = |(path, (mode, object)): (String, (FileMode, String))| {
        (path, (mode, objects.read(&Version { mode, object }).unwrap()))
    };
    files.into_iter().map(content).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_are_found_as_a_full_walk_finds_them(
        changes in prop::collection::vec(change(), 1..40),
    ) {
        let place = TestProject::new();
        let snapshots = || Snapshots { tick: TICK, ..place.snapshots() };
        // the one remembers the last index, and the other reads it
        let remembering = snapshots();
        let mut files = Files::new();
        for (n, change) in changes.iter().chain([&Change::Settle]).enumerate() {
            change.make(&place.work());
            if matches!(change, Change::Settle) {
                let now = walked(&place.work(), &files);
                // the first may not trust all stamps yet
                for snapshots in [&remembering, &snapshots(), &remembering] {
                    prop_assert_eq!(&taken(snapshots), &now, "after change {}", n);
                    std::thread::sleep(TICK + Duration::from_millis(15));
                }
                files = now;
            }
        }
        let git = Git::new(&place.snapshots().folder).command(&["fsck", "--strict"]).unwrap().output();
        let git = git.unwrap();
        prop_assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    }
}
