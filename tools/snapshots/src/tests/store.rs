//! The snapshot store itself, and how it treats repositories and folders.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio_util::sync::CancellationToken;

use super::{TestProject, content_of};
use crate::{Error, FileMode, FileVersions, Snapshots, TIDY_INTERVAL, Version};

#[test]
fn repositories_within_are_folders_and_nothing_of_git_is_touched() {
    let place = TestProject::new();
    place.git("", &["init", "-q"]);
    place.write("a", "a\n");
    place.write("lib/b", "b\n");
    place.git("lib", &["init", "-q"]);
    place.git("lib", &["add", "."]);
    place.git("lib", &["commit", "-qm", "x"]);
    place.git("", &["submodule", "-q", "add", "./lib", "mod"]);
    // a nested repository without any commit
    fs::create_dir(place.work().join("fresh")).unwrap();
    place.git("fresh", &["init", "-q"]);
    place.write("fresh/d", "d\n");
    let gits = || [".git", "lib/.git", "fresh/.git"].map(|git| content_of(&place.work().join(git)));
    let (untouched, before) = (gits(), place.take(None).tree);
    for name in ["a", "lib/b", "mod/b", "fresh/d"] {
        place.write(name, "changed\n");
    }
    assert_eq!(
        place.changed(&before),
        ["M a +1 -1", "M fresh/d +1 -1", "M lib/b +1 -1", "M mod/b +1 -1"]
    );
    place.back_to(&before);
    assert_eq!(place.text("mod/b").as_deref(), Some("b\n"));
    assert_eq!(place.take(None).tree, before);
    assert!(untouched == gits(), "a repository was touched");
}

#[test]
fn attributes_filters_and_settings_have_no_say() {
    let place = TestProject::new();
    place.git("", &["init", "-q"]);
    place.git("", &["config", "core.autocrlf", "true"]);
    place.git("", &["config", "filter.shout.clean", "tr a-z A-Z"]);
    place.write(
        ".gitattributes",
        "* text=auto eol=crlf filter=shout working-tree-encoding=UTF-16\n",
    );
    place.write("crlf", "a\r\nb\n");
    let before = place.take(None).tree;
    place.write("crlf", "c\n");
    assert_eq!(place.changed(&before), ["M crlf +1 -2"]);
    place.back_to(&before);
    assert_eq!(place.text("crlf").as_deref(), Some("a\r\nb\n"));
}

#[test]
fn an_index_or_objects_that_are_gone_are_made_anew() {
    let place = TestProject::new();
    place.write("a", "a\n");
    place.write("b", "b\n");
    let tree = place.take(None).tree;
    let folder = place.snapshots().folder;
    for text in ["", "garbage", "leftfold-index 2 0000\nend 0\n", "leftfold-index 2\n\0\0\0\0\0\0"]
    {
        fs::write(folder.join("leftfold-index"), text).unwrap();
        assert_eq!(place.take(None).tree, tree, "{text:?}");
    }
    let whole = fs::read(folder.join("leftfold-index")).unwrap();
    for length in [20, whole.len() / 2, whole.len() - 1] {
        fs::write(folder.join("leftfold-index"), &whole[..length]).unwrap();
        assert_eq!(place.take(None).tree, tree, "cut at {length}");
    }
    fs::remove_dir_all(folder.join("objects")).unwrap();
    fs::create_dir(folder.join("objects")).unwrap();
    place.write("a", "c\n");
    let anew = place.take(None).tree;
    place.write("b", "c\n");
    assert_eq!(place.changed(&anew), ["M b +1 -1"]);
}

#[test]
fn data_in_the_worktree_and_odd_files_are_left_out() {
    let place = TestProject::new();
    let inside = Snapshots::new(&place.work().join("data"), &place.work());
    place.write("data/sessions/x", "log\n");
    place.write("line\nend", "odd\n");
    let taken = inside.take(None, &CancellationToken::new()).unwrap();
    assert_eq!(taken.left_out, ["line\nend"]);
    place.write("data/sessions/x", "longer log\n");
    assert_eq!(inside.take(None, &CancellationToken::new()).unwrap(), taken);
    let empty = TestProject::new();
    let nothing = empty.take(None).tree;
    empty.write("a", "a\n");
    assert_eq!(empty.changed(&nothing), ["A a +1 -0"]);
    empty.back_to(&nothing);
    assert_eq!(empty.take(None).tree, nothing);
}

#[test]
fn once_an_hour_what_is_old_is_dropped_and_a_week_is_not_old() {
    let place = TestProject::new();
    place.write("a", "1\n");
    let old = place.take(None).tree;
    for n in 2..5 {
        place.write("a", format!("{n}\n"));
        place.take(None);
    }
    let (snapshots, now) = (place.snapshots(), std::time::SystemTime::now());
    assert!(snapshots.tidy().is_none(), "the first hour has just begun");
    assert!(snapshots.tidy().is_none());
    let stamp = fs::File::options().write(true).open(snapshots.folder.join("leftfold-tidied"));
    stamp.unwrap().set_modified(now - TIDY_INTERVAL * 2).unwrap();
    snapshots.tidy().expect("it is due").join().unwrap();
    assert!(snapshots.tidy().is_none());
    place.back_to(&old);
    assert_eq!(place.text("a").as_deref(), Some("1\n"));
}

#[test]
fn a_home_folder_is_kept_only_if_it_is_a_repository_and_others_can_read_nothing() {
    let place = TestProject::new();
    let data = place.dir.path().join("data");
    let home = || Snapshots::of_project(&data, &place.work(), Some(&place.work()));
    let stop = CancellationToken::new();
    assert!(matches!(home().take(None, &stop), Err(Error::NoProject(_))));
    place.git("", &["init", "-q"]);
    home().take(None, &stop).unwrap();
    let mode = fs::metadata(&home().folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn who_is_cancelled_or_comes_second_waits_for_nothing() {
    let place = TestProject::new();
    place.write("a", "a\n");
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(matches!(place.snapshots().take(None, &stop), Err(Error::Cancelled)));
    let lock = place.snapshots().lock(&CancellationToken::new()).unwrap();
    assert!(matches!(place.snapshots().take(None, &stop), Err(Error::Cancelled)));
    drop(lock);
    let trees = std::thread::scope(|scope| {
        let take = || scope.spawn(|| place.take(None).tree);
        [take(), take(), take()].map(|thread| thread.join().unwrap())
    });
    assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:?}");
}

#[test]
fn pairs_of_trees_are_compared_at_once() {
    let place = TestProject::new();
    let nowhere = "0123456789012345678901234567890123456789";
    let none = place.snapshots().compare(&[(nowhere, nowhere)]).unwrap();
    assert_eq!(none, [None], "there is no store yet");
    place.write("a", "1\n");
    place.write("link to", "");
    let one = place.take(None).tree;
    place.write("a", "2\n");
    place.remove("link to");
    let two = place.take(Some(&one)).tree;
    let pairs = [
        (one.as_str(), two.as_str()),
        (&two, nowhere),
        ("--output=x", &two),
        (&two, &one),
        (&two, &two),
    ];
    let found = place.snapshots().compare(&pairs).unwrap();
    let mut objects = place.snapshots().objects().unwrap();
    let mut text = |version: &Option<Version>| {
        let bytes = objects.read(version.as_ref()?).unwrap();
        Some(format!("{} {}", version.as_ref()?.mode.git(), String::from_utf8(bytes).unwrap()))
    };
    let mut brief = |files: &[FileVersions]| {
        let file = |file: &FileVersions| (file.path.clone(), text(&file.before), text(&file.after));
        files.iter().map(file).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(format!("100644 {text}"));
    let there =
        [("a".to_owned(), some("1\n"), some("2\n")), ("link to".to_owned(), some(""), None)];
    let back = there.clone().map(|(path, old, new)| (path, new, old));
    assert_eq!(brief(found[0].as_ref().unwrap()), there);
    assert_eq!(brief(found[3].as_ref().unwrap()), back);
    assert_eq!((&found[1], &found[2]), (&None, &None));
    let gone = Version { mode: FileMode::File, object: nowhere.to_owned() };
    assert!(objects.read(&gone).is_err());
    fs::remove_dir_all(place.dir.path().join("data")).unwrap();
    assert_eq!(place.snapshots().compare(&pairs).unwrap(), vec![None; 5]);
}
