use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use ignore::WalkBuilder;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const LIMIT: u64 = 1 << 20;

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn only_regular_files_of_the_project_up_to_a_size_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, "secret").unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join("folder")).unwrap();
    let at = |name: &str| root.join(name);
    fs::write(at("good"), "text").unwrap();
    fifo(&at("pipe"));
    fifo(&at("open-pipe"));
    // a pipe that somebody holds open would never end
    let flags = OFlags::RDWR | OFlags::NONBLOCK;
    let _held = rustix::fs::open(at("open-pipe"), flags, Mode::empty()).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    File::create(at("sparse")).unwrap().set_len(1 << 30).unwrap();
    fs::write(at("full"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(at("over"), vec![b'x'; (1 << 20) + 1]).unwrap();
    for (name, target) in [
        ("zero", "/dev/zero"),
        ("terminal", "/dev/tty"),
        ("input", "/dev/stdin"),
        ("messages", "/proc/kmsg"),
        ("of-proc", "/proc/self/environ"),
        ("of-sys", "/sys/kernel/notes"),
        ("out", "../outside"),
        ("out-folder", ".."),
        ("loop", "loop"),
        ("dangling", "nothing"),
        ("in", "folder/../good"),
        ("to-pipe", "pipe"),
    ] {
        symlink(target, at(name)).unwrap();
    }
    for (name, expected) in [
        ("good", "4"),
        ("in", "4"),
        ("full", "1048576"),
        ("over", "is larger than 1048576 bytes"),
        ("sparse", "is larger than 1048576 bytes"),
        ("pipe", "is a pipe, socket or device, not a regular file"),
        ("to-pipe", "is a pipe, socket or device, not a regular file"),
        ("open-pipe", "is a pipe, socket or device, not a regular file"),
        ("folder", "is a directory, not a file"),
        ("zero", "leads out of ROOT"),
        ("of-proc", "leads out of ROOT"),
        ("out", "leads out of ROOT"),
        ("out-folder/outside", "leads out of ROOT"),
        ("loop", "cannot be read: Too many levels of symbolic links (os error 40)"),
        ("dangling", "missing"),
        ("absent", "missing"),
        ("good/x", "missing"),
        ("socket", "cannot be read: No such device or address (os error 6)"),
    ] {
        let shown = match read(&at(name), Some(&root), LIMIT) {
            Ok(content) => content.len().to_string(),
            Err(why) if why.is_missing() => "missing".to_owned(),
            Err(why) => why.to_string(),
        };
        let real = root.canonicalize().unwrap();
        assert_eq!(shown.replace(real.to_str().unwrap(), "ROOT"), expected, "{name}");
    }
    for name in ["terminal", "input", "messages", "of-sys"] {
        assert!(read(&at(name), Some(&root), LIMIT).is_err(), "{name}");
    }
    // the user may choose what is elsewhere, but it never ends here either
    assert_eq!(read(&at("out"), None, LIMIT).unwrap(), b"secret");
    assert!(matches!(read(&at("zero"), None, LIMIT), Err(Unread::Special)));
    // a project cannot have its files read in the file systems of the kernel, wherever it says that it is
    assert!(read(Path::new("/proc/self/environ"), Some(Path::new("/proc")), LIMIT).is_err());
}

#[test]
fn files_of_git_say_the_branch_and_lead_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let (work, git) = (folder.path().join("work"), folder.path().join("main/.git/worktrees/w"));
    fs::create_dir_all(&work).unwrap();
    fs::create_dir_all(&git).unwrap();
    fs::write(work.join(".git"), format!("gitdir: {}\n", git.display())).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/topic/a\n").unwrap();
    assert_eq!(branch(&work).unwrap(), "topic/a");
    fs::write(folder.path().join("key"), "ref: refs/heads/key").unwrap();
    for (file, target) in [(git.join("HEAD"), "../../../../key"), (work.join(".git"), "/dev/zero")]
    {
        fs::remove_file(&file).unwrap();
        symlink(target, &file).unwrap();
        assert_eq!(branch(&work), None);
    }
}

const FOLDERS: [&str; 6] = ["", "a", "a/b", "a/c", "d", "d/.git"];
const NAMES: [&str; 6] = ["x", "y.log", ".z", "b", ".gitignore", ".ignore"];
const RULES: [&str; 9] = [
    "*.log\n", "!y.log\n", "/x\n", "x\n!a/x\n", "a/b\n", "b/\n", "**/c/\n.z\n", "*\n!*/\n",
    "\u{feff}x\n[\n",
];

/// The paths that a walk of the crate `ignore` with its own filters finds.
fn with_own_filters(root: &Path, worktree: &Path) -> BTreeSet<PathBuf> {
    let repository = root.ancestors().any(|folder| folder.join(".git").exists());
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false).require_git(repository).parents(repository || root != worktree);
    walk.current_dir(worktree).filter_entry(|entry| entry.file_name() != ".git");
    walk.build().map(|entry| entry.unwrap().into_path()).collect()
}

proptest! {
    #[test]
    fn ignore_files_apply_as_in_the_crate_that_would_read_them(
        files in prop::collection::vec(
            (prop::sample::select(&FOLDERS[..]), prop::sample::select(&NAMES[..]), prop::sample::select(&RULES[..])),
            0..20,
        ),
        exclude in prop::option::of(prop::sample::select(&RULES[..])),
        start in prop::sample::select(&["", "a", "a/b"][..]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap().join("top");
        for folder in FOLDERS.iter().filter(|folder| !folder.ends_with(".git")) {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        if let Some(rules) = exclude {
            fs::create_dir_all(top.join(".git/info")).unwrap();
            fs::write(top.join(".git/info/exclude"), rules).unwrap();
        }
        for (folder, name, rules) in files {
            // some folder is a repository of its own
            fs::create_dir_all(top.join(folder)).unwrap();
            let path = top.join(folder).join(name);
            if !path.is_dir() {
                fs::write(path, rules).unwrap();
            }
        }
        let root = top.join(start);
        let (mut walk, ignored) = walk(&root, &top, |_| false);
        let found: BTreeSet<PathBuf> =
            walk.build().map(|entry| entry.unwrap().into_path()).collect();
        prop_assert_eq!(&found, &with_own_filters(&root, &top));
        let (sender, parallel) = std::sync::mpsc::channel();
        walk.threads(2).build_parallel().run(|| {
            let sender = sender.clone();
            Box::new(move |entry| {
                sender.send(entry.unwrap().into_path()).unwrap();
                ignore::WalkState::Continue
            })
        });
        drop(sender);
        prop_assert_eq!(found, parallel.into_iter().collect::<BTreeSet<PathBuf>>());
        prop_assert!(ignored.unread().is_empty());
    }
}

#[test]
fn ignore_files_without_effect_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(root.join(".git/info")).unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(folder.path().join("rules"), "x\n").unwrap();
    fs::write(root.join("a/b/x"), "").unwrap();
    fs::write(root.join("a/rules"), "never\n").unwrap();
    symlink("../rules", root.join(".ignore")).unwrap();
    symlink("/dev/zero", root.join(".git/info/exclude")).unwrap();
    fifo(&root.join("a/.gitignore"));
    File::create(root.join("a/.ignore")).unwrap().set_len(1 << 30).unwrap();
    symlink("../rules", root.join("a/b/.gitignore")).unwrap();
    let (walk, files) = walk(&root, &root, |_| false);
    assert!(walk.build().any(|entry| entry.unwrap().file_name() == "x"));
    let told: Vec<(PathBuf, String)> = files.unread();
    let names: Vec<&str> =
        told.iter().map(|(path, _)| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, [".git/info/exclude", ".ignore", "a/.gitignore", "a/.ignore"]);
}
