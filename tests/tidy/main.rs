//! Rules about the code itself: what may be used where, and what must not be left behind.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Without the tests at its end, and without comments.
    fn code(&self) -> String {
        let code = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("tests/") || name == "tests.rs" || name == "testing.rs"
    }
}

/// All files of this kind that are in the repository, or that would be: without git, all there are.
fn files(extension: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = git.output().ok().filter(|output| output.status.success());
    let mut paths = match listed {
        Some(output) => {
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
        }
        None => walk(root, root),
    };
    paths.retain(|path| path.ends_with(extension) && root.join(path).is_file());
    assert!(paths.len() > 50 || extension != ".rs", "the sources were not found");
    paths
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let hidden = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with('.') || name == "target"
    };
    let mut files = Vec::new();
    for path in entries.into_iter().filter(|path| !hidden(path)) {
        if path.is_dir() {
            files.extend(walk(root, &path));
        } else {
            files.push(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
    files
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        Source { path, text }
    };
    files(".rs").into_iter().map(read).collect()
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Code that has one of the `words`, in the files that `concerns` picks.
fn users(words: &[&str], concerns: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| concerns(source)) {
        for (line, at) in source.code().lines().zip(1..) {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

#[test]
fn the_core_touches_nothing_of_the_world() {
    let words = [
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "std::io",
        "Instant",
        "SystemTime::now",
        "tokio",
        "rand::",
        "Ulid::new",
        "getrandom",
    ];
    let core = |source: &Source| {
        source.path.starts_with("events/src/") || source.path.starts_with("bin/view/src/")
    };
    assert_none("the core does I/O, reads a clock or rolls dice", &users(&words, core));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("events/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    for name in ["tokio", "rand", "reqwest", "sled", "ractor"] {
        assert!(!manifest.contains(&format!("\n{name}")), "events depends on {name}");
    }
}

#[test]
fn each_dependency_stays_where_it_belongs() {
    let is_me = |source: &Source| source.path.starts_with("tests/tidy/");
    for (words, at_home) in [
        (&["bincode"][..], &["store/src/codec.rs"][..]),
        (&["sled::"], &["store/"]),
        (&["reqwest"], &["providers/", "tools/src/webfetch", "tools/src/mcp/"]),
        (&["rmcp"], &["tools/src/mcp/"]),
        (&["clap"], &["bin/"]),
        (&["anyhow"], &["bin/"]),
    ] {
        let stray = |source: &Source| {
            !is_me(source) && at_home.iter().all(|home| !source.path.starts_with(home))
        };
        assert_none(&format!("{words:?} belongs to {at_home:?}"), &users(words, stray));
    }
}

#[test]
fn the_arrows_between_crates_point_one_way() {
    for (folder, forbidden) in [
        (
            "events/",
            &["leftfold_store", "leftfold_providers", "leftfold_tools", "leftfold_actors"][..],
        ),
        ("store/", &["leftfold_providers", "leftfold_tools", "leftfold_actors"]),
        ("providers/", &["leftfold_store", "leftfold_tools", "leftfold_actors"]),
        ("tools/", &["leftfold_store", "leftfold_providers", "leftfold_actors"]),
        (
            "bin/view/",
            &["leftfold_store", "leftfold_providers", "leftfold_tools", "leftfold_actors"],
        ),
    ] {
        let inside = |source: &Source| source.path.starts_with(folder);
        assert_none(&format!("{folder} knows too much"), &users(forbidden, inside));
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore", "#[allow(dead_code)]"];
    let all = |source: &Source| !source.path.starts_with("tests/tidy/");
    assert_none("left for later", &users(&words, all));
    let notes: Vec<String> = sources()
        .iter()
        .filter(|source| !source.path.starts_with("tests/tidy/"))
        .flat_map(|source| {
            let marks =
                |line: &&str| ["TODO", "FIXME", "XXX"].iter().any(|mark| line.contains(mark));
            let lines = source.text.lines().filter(marks);
            lines.map(|line| format!("{}: {}", source.path, line.trim())).collect::<Vec<_>>()
        })
        .collect();
    assert_none("notes of what is yet to do", &notes);
}

#[test]
fn only_tests_may_give_up() {
    let words = [".unwrap()", ".expect(", "panic!(", "unreachable!("];
    let shipped = |source: &Source| {
        let beside = source.path.contains("/examples/") || source.path.contains("/benches/");
        !source.is_test() && !beside && !source.path.starts_with("fuzz/")
    };
    assert_none("panics outside tests", &users(&words, shipped));
}
