use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use leftfold_events::Secrets;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Site, eventually, kind};

/// The matches as `path:number:text`, in order, paths relative to the worktree.
async fn found(site: &Site, input: &Value) -> Vec<String> {
    let output = site.run("grep", input).await;
    assert!(!output.is_error, "{input}: {}", output.output);
    let lines = listed(site, &output);
    assert_eq!(output.meta()["matches"], lines.len(), "{}", output.output);
    lines
}

fn listed(site: &Site, output: &Output) -> Vec<String> {
    let top = site.path("").display().to_string();
    let mut path = "";
    let mut lines = Vec::new();
    for line in output.output.lines() {
        if let Some(rest) = line.strip_prefix("  Line ") {
            let (number, text) = rest.split_once(": ").unwrap();
            lines.push(format!("{path}:{number}:{text}"));
        } else if let Some(rest) = line.strip_prefix(&top) {
            path = rest.strip_suffix(':').unwrap();
        }
    }
    lines
}

fn aged(site: &Site, name: &str, content: impl AsRef<[u8]>, seconds: u64) {
    let file = File::options().write(true).open(site.file(name, content)).unwrap();
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(epoch - Duration::from_secs(seconds)).unwrap();
}

#[tokio::test]
async fn expressions() {
    let site = Site::new();
    site.file("t", "use a;\n  use b;\nfn main() {}\r\nGrüße, ΣΑΣ\n\ncaf\u{e9}\ta.b\nlast; \r\nend");
    for (pattern, ignore_case, numbers) in [
        ("use", false, &[1, 2][..]),
        ("^use", false, &[1]),
        (";$", false, &[1, 2]),
        (r"\{\}$", false, &[3]),
        ("^fn main\\(\\) \\{\\}$", false, &[3]),
        ("MAIN", false, &[]),
        ("MAIN", true, &[3]),
        ("(?i)MAIN", false, &[3]),
        ("grüsse|GRÜßE", true, &[4]),
        ("σας", true, &[4]),
        (r"\bü", false, &[]),
        (r"Gr\wße", false, &[4]),
        (r"\p{Greek}{3}", false, &[4]),
        ("^$", false, &[5]),
        (r"a\.b", false, &[6]),
        (r"\t", false, &[6]),
        (r"a.*b|^end$", false, &[6, 8]),
        (r"last;\s", false, &[7]),
        ("use|fn", false, &[1, 2, 3]),
        (r"\bGrüße\b", false, &[4]),
        ("absent", false, &[]),
    ] {
        let input = json!({ "pattern": pattern, "ignoreCase": ignore_case });
        let lines: Vec<u64> = found(&site, &input)
            .await
            .iter()
            .map(|line| line.split(':').nth(1).unwrap().parse().unwrap())
            .collect();
        assert_eq!(lines, numbers, "{pattern}");
    }
    assert_eq!(found(&site, &json!({ "pattern": "main" })).await, ["t:3:fn main() {}"]);
}

#[tokio::test]
async fn encodings() {
    let site = Site::new();
    site.file("bom", "\u{feff}needle");
    site.file("latin1", b"caf\xe9 needle\n");
    site.file("utf16", b"\xff\xfen\0e\0e\0d\0l\0e\0");
    site.file("long.min.js", format!("{}needle{}", "ä".repeat(4_000), "ö".repeat(4_000)));
    let lines = found(&site, &json!({ "pattern": "needle" })).await;
    for expected in ["bom:1:needle", "latin1:1:café needle", "utf16:1:needle"] {
        assert!(lines.contains(&expected.to_owned()), "{lines:?}");
    }
    let long = lines.iter().find(|line| line.starts_with("long")).unwrap();
    assert!(long.contains("ääneedleöö") && !long.contains('\u{fffd}'), "{long}");
    assert!(long.ends_with("… (a line of 16006 bytes)") && long.chars().count() < 600, "{long}");
    assert_eq!(found(&site, &json!({ "pattern": "^needle" })).await.len(), 2);
}

#[tokio::test]
async fn accented_letters_are_found_in_either_form() {
    let site = Site::new();
    site.file(
        "t",
        "Caf\u{e9}\nCafe\u{301}\nCafe\n한\n\u{1112}\u{1161}\u{11ab}\nééé\ne\u{301}e\u{301}\n",
    );
    for (pattern, numbers) in [
        ("Caf\u{e9}", &["1", "2"][..]),
        ("^Cafe\u{301}$", &["1", "2"]),
        ("(?i)CAF\u{c9}", &["1", "2"]),
        ("한", &["4", "5"]),
        ("^\u{e9}+$", &["6", "7"]),
        ("^[\u{e9}]+$", &["6"]),
        (r"(?<né>^Cafe$)", &["3"]),
    ] {
        let lines = found(&site, &json!({ "pattern": pattern })).await;
        let found: Vec<&str> = lines.iter().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(found, numbers, "{pattern}");
    }
}

#[tokio::test]
async fn which_files() {
    let site = Site::new();
    site.file(".git/config", "x");
    site.file(".gitignore", "*.gen\nnode/\n");
    for name in
        ["a.rs", "a.gen", "src/b.rs", "src/c.ts", "src/deep/d.rs", ".hidden", "node/m.rs", "x.lock"]
    {
        site.file(name, "x\n");
    }
    site.file("binary.rs", "x\n\0x\n");
    site.file("late-binary.rs", format!("x\n{}\0", "y\n".repeat(100_000)));
    site.fifo("pipe.rs");
    std::fs::write(site.outside("o.rs"), "x").unwrap();
    symlink(site.outside("o.rs"), site.path("away.rs")).unwrap();
    symlink(site.outside(""), site.path("away")).unwrap();
    symlink("a.rs", site.path("link.rs")).unwrap();
    site.file("[x]/{y}.rs", "x\n");
    let all = ["a.rs", "src/b.rs", "src/c.ts", "src/deep/d.rs", ".hidden", "x.lock", "[x]/{y}.rs"];
    for (input, expected) in [
        (json!({}), &all[..]),
        (json!({ "include": "*.rs" }), &["a.rs", "src/b.rs", "src/deep/d.rs", "[x]/{y}.rs"]),
        (json!({ "include": "src/*.rs" }), &["src/b.rs"]),
        (json!({ "include": "*.{ts,lock}" }), &["src/c.ts", "x.lock"]),
        (json!({ "include": "!*.rs" }), &["src/c.ts", ".hidden", "x.lock"]),
        (json!({ "glob": "*.rs", "path": "src" }), &["src/b.rs", "src/deep/d.rs"]),
        (json!({ "path": "src/deep" }), &["src/deep/d.rs"]),
        (json!({ "path": "src/b.rs" }), &["src/b.rs"]),
        (json!({ "path": site.path("a.gen") }), &["a.gen"]),
        (json!({ "path": "node" }), &["node/m.rs"]),
        (json!({ "path": "link.rs", "include": "*.ts" }), &["a.rs"]),
        (json!({ "path": "", "include": "" }), &all),
        (json!({ "include": "src" }), &["src/b.rs", "src/c.ts", "src/deep/d.rs"]),
        (json!({ "include": ".rs" }), &["a.rs", "src/b.rs", "src/deep/d.rs", "[x]/{y}.rs"]),
        (json!({ "include": "*.ts, *.lock" }), &["src/c.ts", "x.lock"]),
        (json!({ "include": site.path("src/*.rs") }), &["src/b.rs"]),
        (
            json!({ "include": site.path("src"), "path": "src" }),
            &["src/b.rs", "src/c.ts", "src/deep/d.rs"],
        ),
        (json!({ "include": "[x]/{y}.rs" }), &["[x]/{y}.rs"]),
        (json!({ "include": "./a.gen" }), &["a.gen"]),
        (json!({ "include": "node/*.rs" }), &["node/m.rs"]),
        (json!({ "include": site.path("node/m.rs") }), &["node/m.rs"]),
    ] {
        let mut input = input;
        input["pattern"] = "^x".into();
        let mut names: Vec<String> =
            found(&site, &input).await.iter().map(|l| l.replace(":1:x", "")).collect();
        let mut expected: Vec<&str> = expected.to_vec();
        names.sort();
        expected.sort_unstable();
        assert_eq!(names, expected, "{input}");
    }
}

#[tokio::test]
async fn newest_files_first_and_lines_in_order() {
    let site = Site::new();
    aged(&site, "old", "hit 1\nhit 2\n", 30);
    aged(&site, "z/new", "hit 1\nmiss\nhit 3\n", 10);
    aged(&site, "b", "hit 1\n", 20);
    aged(&site, "a", "hit 1\n", 20);
    aged(&site, "newest", "miss\n", 0);
    let output = site.run("grep", &json!({ "pattern": "hit" })).await;
    let top = site.path("").display().to_string();
    assert_eq!(
        output.output.replace(&top, ""),
        "Found 6 matches\n\nz/new:\n  Line 1: hit 1\n  Line 3: hit 3\n\na:\n  Line 1: hit 1\n\nb:\n  Line 1: hit 1\n\nold:\n  Line 1: hit 1\n  Line 2: hit 2"
    );
    assert_eq!(output.meta()["truncated"], false);
    assert_eq!(output.title, "hit");
    let output = site.run("grep", &json!({ "pattern": "hit", "path": "a" })).await;
    assert!(output.output.starts_with("Found 1 match\n"), "{}", output.output);
}

#[tokio::test]
async fn the_hundred_lines_of_the_newest_files() {
    let site = Site::new();
    // the threads visit the files in any order
    for n in 0..300 {
        aged(&site, &format!("{}/f{n:03}", n % 9), "hit\n".repeat(n % 5), (n * 31 % 300) as u64);
    }
    let mut order: Vec<usize> = (0..300).collect();
    order.sort_by_key(|n| n * 31 % 300);
    let all = order
        .iter()
        .flat_map(|n| (1..=n % 5).map(move |line| format!("{}/f{n:03}:{line}:hit", n % 9)));
    let expected: Vec<String> = all.take(100).collect();
    for _ in 0..5 {
        assert_eq!(found(&site, &json!({ "pattern": "hit" })).await, expected);
    }
    let output = site.run("grep", &json!({ "pattern": "hit" })).await;
    assert!(output.output.starts_with("Found more than 100 matches"), "{}", output.output);
    assert!(output.output.ends_with("shows them.)"), "{}", output.output);
    assert_eq!(output.meta()["truncated"], true);
}

#[tokio::test]
async fn exactly_as_many_as_are_shown_is_not_truncated() {
    let site = Site::new();
    for (lines, truncated) in [(99, false), (100, false), (101, true), (100_000, true)] {
        site.file("f", "hit\n".repeat(lines));
        let output = site.run("grep", &json!({ "pattern": "hit" })).await;
        assert_eq!(output.meta()["truncated"], truncated, "{lines}");
        assert_eq!(output.meta()["matches"], lines.min(100));
    }
    site.file("g", "hit\n");
    site.file("f", "hit\n".repeat(100));
    let output = site.run("grep", &json!({ "pattern": "hit" })).await;
    assert_eq!(output.meta()["truncated"], true);
    // bytes are limited as well, as for every tool
    let mut cx = site.workspace();
    cx.limits.max_bytes = 300;
    let output = crate::run_alone("grep", r#"{"pattern":"hit"}"#, cx).await.unwrap();
    assert_eq!(output.meta()["truncated"], true);
    assert_eq!(output.meta()["matches"], listed(&site, &output).len());
    assert!(output.output.len() < 600, "{}", output.output);
}

#[tokio::test]
async fn nothing_found_is_no_error_and_what_is_wrong_is() {
    let site = Site::new();
    site.file("src/a.rs", "x\n");
    site.file("blob", "x\0");
    let run = |input: Value| async { (site.run("grep", &input).await, input) };
    for (input, text) in [
        (json!({ "pattern": "zzz" }), "No files found (2 searched)."),
        (
            json!({ "pattern": "x", "include": "*.zig" }),
            "No files found: no file there matches include \"*.zig\".",
        ),
    ] {
        let (output, input) = run(input).await;
        assert_eq!((output.output.as_str(), output.is_error), (text, false), "{input}");
        assert_eq!(
            (&output.meta()["matches"], &output.meta()["truncated"]),
            (&json!(0), &json!(false))
        );
    }
    for (input, expected, said) in [
        (json!({ "pattern": "x", "path": "scr" }), "not_found", "src"),
        (json!({ "pattern": "x", "path": "src/b.rs" }), "not_found", "a.rs"),
        (json!({ "pattern": "x", "path": "blob" }), "binary", "binary"),
        (json!({ "pattern": "x", "path": "/dev/zero" }), "special_file", "device"),
        (
            json!({ "pattern": "foo(bar" }),
            "invalid_arguments",
            "    foo(bar\n       ^\nerror: unclosed group",
        ),
        (json!({ "pattern": "a)|(b" }), "invalid_arguments", "unopened group"),
        (json!({ "pattern": "(?=x)" }), "invalid_arguments", "look-ahead"),
        (json!({ "pattern": "a\nb" }), "invalid_arguments", "one at a time"),
        (json!({ "pattern": r"(\w{1000}){1000}" }), "invalid_arguments", "size limit"),
        (json!({ "pattern": "" }), "invalid_arguments", "empty"),
        (
            json!({ "pattern": "x", "include": "[" }),
            "invalid_arguments",
            "`include`: \"[\" is not a glob",
        ),
        (
            json!({ "pattern": "x", "ignoreCase": 3 }),
            "invalid_arguments",
            "`ignoreCase`: expected true",
        ),
        (json!({ "path": "x" }), "invalid_arguments", "missing field `pattern`"),
    ] {
        let (output, input) = run(input).await;
        assert_eq!(kind(&output), expected, "{input}: {}", output.output);
        assert!(output.output.contains(said), "{}", output.output);
    }
}

#[tokio::test]
async fn what_cannot_be_searched_is_counted() {
    let site = Site::new();
    site.file("one-line", vec![b'x'; 40 * 1024 * 1024]);
    site.file("other", "x\n");
    let output = site.run("grep", &json!({ "pattern": "^x$" })).await;
    assert_eq!(listed(&site, &output), ["other:1:x"]);
    assert!(output.output.ends_with("(1 file or folder could not be read.)"), "{}", output.output);
    let output = site.run("grep", &json!({ "pattern": "^x$", "path": "one-line" })).await;
    assert_eq!(kind(&output), "too_large");
}

#[tokio::test]
async fn names_and_patterns_cannot_forge_an_answer() {
    let site = Site::new();
    site.file("a\n  Line 7: forged", "hit\n");
    let output = site.run("grep", &json!({ "pattern": "hit" })).await;
    assert!(output.output.contains("a\\n  Line 7: forged:\n  Line 1: hit"), "{}", output.output);
    assert_eq!(output.meta()["matches"], 1);
    for pattern in ["(".repeat(100_000), "[".repeat(10_000), "a{9}".repeat(10_000) + ")"] {
        for input in [json!({ "pattern": pattern }), json!({ "pattern": "x", "include": pattern })]
        {
            let error = site.resolve("grep", &input).error;
            assert!(error.is_none_or(|error| error.len() < 3_000));
        }
    }
}

#[test]
fn permissions() {
    let site = Site::new();
    let resolved = site.resolve("grep", &json!({ "pattern": "FIRST", "ignore_case": "true" }));
    let [access] = resolved.access.as_slice() else { panic!("{resolved:?}") };
    assert_eq!((access.permission.as_str(), resolved.class), ("grep", Class::Read));
    assert_eq!(
        (&access.patterns[..], &access.always[..]),
        (&["FIRST".into()][..], &["*".into()][..])
    );
    assert_eq!(resolved.input.as_str(), r#"{"pattern":"FIRST","ignoreCase":true}"#);
    let resolved = site.resolve("grep", &json!({ "pattern": "x", "path": "../outside" }));
    let [outside, own] = resolved.access.as_slice() else { panic!("{resolved:?}") };
    assert_eq!(outside.permission, "external_directory");
    assert_eq!(outside.patterns, [site.outside("*").to_string_lossy()]);
    assert_eq!(own.permission, "grep");
    // the model may read the rest of its own cut output
    let spilled = site.root().join("spill/c.txt");
    let resolved = site.resolve("grep", &json!({ "pattern": "x", "path": spilled }));
    assert_eq!(resolved.access.len(), 1);
}

#[tokio::test]
async fn what_read_asks_about_is_not_shown_without_asking() {
    let site = Site::new();
    for name in [".env", "a/.env.local", "prod.env", ".env.example", "env.rs", "x.environment"] {
        site.file(name, "KEY=1\n");
    }
    symlink(".env", site.path("harmless")).unwrap();
    for input in [json!({ "pattern": "KEY" }), json!({ "pattern": "KEY", "include": "*env*" })] {
        let mut lines = found(&site, &input).await;
        lines.sort();
        assert_eq!(lines, [".env.example:1:KEY=1", "env.rs:1:KEY=1", "x.environment:1:KEY=1"]);
    }
    for (path, asks) in [
        (".env", Some(".env")),
        ("harmless", Some(".env")),
        ("a/.env.local", Some("a/.env.local")),
        (".env.example", None),
        ("a", None),
    ] {
        let input = json!({ "pattern": "KEY", "path": path });
        let access = site.resolve("grep", &input).access;
        let read = access.iter().find(|access| access.permission == "read");
        assert_eq!(read.map(|access| access.patterns[0].as_str()), asks, "{path}");
    }
    let named = found(&site, &json!({ "pattern": "KEY", "path": "harmless" })).await;
    assert_eq!(named, [".env:1:KEY=1"]);
}

#[tokio::test]
async fn cancelled_in_the_middle_of_a_file() {
    let site = Site::new();
    // an endless stream of lines without a match
    let cx = site.context();
    let cancel = cx.cancel.clone();
    let matcher = search::matcher("needle", false).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(reader));
    let searching = std::thread::spawn(move || {
        Searching::new(Secrets::default()).file(&matcher, file, u64::MAX, 1, &cx.cancel)
    });
    for _ in 0..100 {
        writer.write_all(&b"hay\n".repeat(1_000)).unwrap();
    }
    cancel.cancel();
    let begun = Instant::now();
    // the reader may wait for more input; the next line is the last it reads
    while writer.write_all(b"hay\n").is_ok() {}
    let hits = searching.join().unwrap();
    assert!(hits.ended.is_err() && hits.lines.is_empty());
    // normally it takes a tenth of this; a busy machine may need more
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_cancelled_call_answers_at_once() {
    let site = Site::new();
    for n in 0..200 {
        site.file(&format!("{}/{n}", n % 10), "hay\n".repeat(50_000));
    }
    let cx = site.context();
    let cancel = cx.cancel.clone();
    let resolved = site.resolve("grep", &json!({ "pattern": r"(\w+\s){40}needle" }));
    let running = tokio::spawn(async move { crate::run(&resolved, cx).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    let begun = Instant::now();
    eventually("the call has ended", || running.is_finished()).await;
    // normally it takes a tenth of this; a busy machine may need more
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(kind(&running.await.unwrap()), "cancelled");
}
