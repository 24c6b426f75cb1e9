//! Times `grep` over 20,000 small files against ripgrep, or against a plain single-threaded walk if
//! ripgrep is missing. `cargo bench -p leftfold-tools --bench grep`.
//!
//! Both search one tree, and the bench checks that they find equal lines. Ours runs in this process
//! and sorts results by age; ripgrep's time includes its process start.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its figures, or stops"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leftfold_tools::{Workspace, run_alone};
use serde_json::json;

const FOLDERS: usize = 200;
const FILES: usize = 100;
const ROUNDS: usize = 15;

/// Patterns with fewer matches than `grep` shows, so that both report all of them.
const RARE: [(&str, &str); 4] = [
    ("literal", "needle_42"),
    ("expression", r"fn\s+needle_\d+\("),
    ("any case", "(?i)NEEDLE_4[0-9]"),
    ("nothing", "absent_from_all_files"),
];

type Lines = BTreeSet<(String, u64)>;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tree = folder.path().join("tree");
    grow(&tree);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ours = |pattern: &str| {
        let cx = Workspace::new(&tree, &tree, folder.path().join("spill"));
        let args = json!({ "pattern": pattern }).to_string();
        runtime.block_on(run_alone("grep", &args, cx)).expect("grep").output
    };
    let rg = Command::new("rg").arg("--version").output().is_ok();
    let name = if rg { "rg" } else { "plain walk" };
    for (what, pattern) in RARE {
        let other = || if rg { ripgrep(&tree, pattern) } else { plain(&tree, pattern) };
        assert_eq!(lines(&ours(pattern)), other(), "{what}: the results differ");
        let (own, theirs) = compare(|| drop(ours(pattern)), || drop(other()));
        report(what, name, own, theirs);
    }
    // every file matches, so searching the newest files is enough
    let other = || drop(if rg { ripgrep(&tree, "return") } else { plain(&tree, "return") });
    let (own, theirs) = compare(|| drop(ours("return")), other);
    report("in every file (newest 100 of all)", name, own, theirs);
}

fn report(what: &str, name: &str, own: Duration, theirs: Duration) {
    let ratio = own.as_secs_f64() / theirs.as_secs_f64();
    println!("{what}: grep {own:.1?}, {name} {theirs:.1?}, ratio {ratio:.2}");
}

/// Medians of both, measured in turns so that load hits both equally.
fn compare(own: impl Fn(), other: impl Fn()) -> (Duration, Duration) {
    let timed = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let (mut a, mut b): (Vec<_>, Vec<_>) =
        (0..ROUNDS).map(|_| (timed(&own), timed(&other))).unzip();
    a.sort();
    b.sort();
    (a[ROUNDS / 2], b[ROUNDS / 2])
}

fn grow(tree: &Path) {
    for folder in 0..FOLDERS {
        let path = tree.join(format!("crate{}/module{folder}", folder % 20));
        std::fs::create_dir_all(&path).expect("a folder");
        for file in 0..FILES {
            let n = folder * FILES + file;
            let body: String = (0..40 + n % 60)
                .map(|line| format!("    let value_{line} = compute({n}, {line}) + offset;\n"))
                .collect();
            let name =
                if n.is_multiple_of(400) { format!("needle_{}", n / 400) } else { format!("f{n}") };
            let text = format!("fn {name}(offset: u64) -> u64 {{\n{body}    return offset;\n}}\n");
            std::fs::write(path.join(format!("file{file}.rs")), text).expect("a file");
        }
    }
}

fn lines(output: &str) -> Lines {
    let mut path = String::new();
    let mut lines = Lines::new();
    for line in output.lines() {
        if let Some((number, _)) = line.strip_prefix("  Line ").and_then(|l| l.split_once(':')) {
            lines.insert((path.clone(), number.parse().expect("a number")));
        } else if let Some(shown) = line.strip_suffix(':') {
            path = shown.to_owned();
        }
    }
    lines
}

fn ripgrep(tree: &Path, pattern: &str) -> Lines {
    let output = Command::new("rg")
        .args(["--no-config", "--hidden", "--no-require-git", "--glob", "!.git"])
        .args(["--line-number", "--no-heading", "--color", "never", "--", pattern])
        .arg(tree)
        .output()
        .expect("rg");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let (path, rest) = line.split_once(':')?;
            Some((path.to_owned(), rest.split_once(':')?.0.parse().ok()?))
        })
        .collect()
}

fn plain(tree: &Path, pattern: &str) -> Lines {
    use grep_matcher::Matcher;
    let matcher = grep_regex::RegexMatcher::new(pattern).expect("a pattern");
    let mut found = Lines::new();
    for entry in ignore::WalkBuilder::new(tree).hidden(false).build().flatten() {
        let Ok(text) = std::fs::read(entry.path()) else { continue };
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            if matcher.is_match(line).expect("a match cannot fail") {
                found.insert((entry.path().display().to_string(), number));
            }
        }
    }
    found
}
