//! Files whose names a project chooses, and that are no files: devices without end, pipes that nobody writes to, links out of
//! the project. The program answers soon, with little memory, and reads none of them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Live, Ran, Site, call, says, script};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::json;

/// The limits of the program: addresses in KiB, and time. It needs far less of both.
const MEMORY: u32 = 8 << 20;
const TIME: Duration = Duration::from_secs(60);

/// Kinds of odd files. A kind that begins with `/` is the target of a link.
const KINDS: [&str; 11] = [
    "/dev/zero", "/dev/stdin", "/proc/kmsg", "/proc/self/environ", "loop", "outside", "pipe",
    "held pipe", "socket", "folder", "sparse",
];

/// Names that every part of the program looks for, and that only change what is shown.
const FOUND: [&str; 18] = [
    ".gitignore", ".ignore", "deep/er/.gitignore", "deep/.ignore", ".git/config",
    ".git/info/attributes", ".git/info/exclude", ".git/commondir", ".git/HEAD", "AGENTS.md",
    "deep/AGENTS.md", ".leftfold/skills/odd/SKILL.md", "agent/odd.md", ".env", "package.json",
    "Cargo.toml", "pyproject.toml", "rust-project.json",
];

/// Names of settings. What cannot be read at those of JSON is an error, or a warning; other names are passed over.
const SETTINGS: [&str; 5] = [
    "leftfold.json", ".leftfold/leftfold.json", ".leftfold/agents/odd.md",
    ".leftfold/command/odd.md", "opencode.jsonc",
];

/// Puts something of this kind at a path. What is answered keeps it as it is.
fn put(kind: &str, path: &Path, outside: &Path) -> Option<Box<dyn std::any::Any>> {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" | "held pipe" => {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            let open = || rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
            return (kind == "held pipe").then(|| Box::new(open().unwrap()) as _);
        }
        // the name of a socket is short
        "socket" => {
            let bound = outside.with_file_name("s");
            let socket = UnixListener::bind(&bound).unwrap();
            fs::rename(bound, path).unwrap();
            return Some(Box::new(socket));
        }
        "folder" => fs::create_dir(path).unwrap(),
        "sparse" => File::create(path).unwrap().set_len(1 << 30).unwrap(),
        "loop" => symlink(path.file_name().unwrap(), path).unwrap(),
        "outside" => symlink(outside, path).unwrap(),
        device => symlink(device, path).unwrap(),
    }
    None
}

/// Runs the program within its limits.
fn run(site: &Site, kind: &str, args: &[&str]) -> Ran {
    let limited = site.limited(args, &format!("-v {MEMORY}"));
    let start = Instant::now();
    let ran = Live::start(limited).wait();
    assert!(start.elapsed() < TIME, "{kind}: {args:?} took {:?}: {ran:?}", start.elapsed());
    // 0 to 3 are its own answers
    assert!((0..=3).contains(&ran.code), "{kind}: {args:?}: {ran:?}");
    assert!(!ran.stdout.contains("KEPT"), "{kind}: {args:?}: {ran:?}");
    ran
}

fn odd(
    kind: &str,
    names: &[&str],
    script: &serde_json::Value,
) -> (Site, Vec<Box<dyn std::any::Any>>) {
    let site = Site::scripted(script);
    fs::write(site.path("outside"), "KEPT\n*.txt\n").unwrap();
    site.file("a.txt", "needle\n");
    site.file("deep/er/b.txt", "needle\n");
    let put = |name: &&str| put(kind, &site.project().join(name), &site.path("outside"));
    let held = names.iter().filter_map(put).collect();
    (site, held)
}

#[test]
fn what_a_project_names_is_read_only_if_it_is_a_file() {
    let read = call("read", json!({ "filePath": "deep/er/b.txt" }));
    let write = call("write", json!({ "filePath": "deep/c.js", "content": "c\n" }));
    let script = script(json!([[read], [write], says("done")]));
    for kind in KINDS {
        let (site, _held) = odd(kind, &FOUND, &script);
        let grep = run(&site, kind, &["tool", "grep", "--args", r#"{"pattern":"needle"}"#]).ok();
        assert!(grep.stdout.contains("Found 2 matches"), "{kind}: {grep:?}");
        assert!(grep.stdout.contains(": its rules do not apply."), "{kind}: {grep:?}");
        let glob = run(&site, kind, &["tool", "glob", "--args", r#"{"pattern":"**/*.txt"}"#]).ok();
        assert!(glob.stdout.contains("b.txt"), "{kind}: {glob:?}");
        run(&site, kind, &["doctor"]);
        run(&site, kind, &["run", "--format", "json", "go"]);
        let (site, _held) = odd(kind, &[".git"], &script);
        let grep = run(&site, kind, &["tool", "grep", "--args", r#"{"pattern":"needle"}"#]).ok();
        assert!(grep.stdout.contains("Found 2 matches"), "{kind}: {grep:?}");
    }
}

#[test]
fn settings_that_are_no_files_are_told_at_once() {
    for kind in KINDS {
        for name in SETTINGS {
            let (site, _held) = odd(kind, &[name], &script(json!([says("done")])));
            run(&site, kind, &["config"]);
            let told = run(&site, kind, &["doctor"]);
            let is_told = format!("{told:?}").contains(name);
            assert!(is_told || name.ends_with(".md"), "{kind} {name}: {told:?}");
        }
    }
}
