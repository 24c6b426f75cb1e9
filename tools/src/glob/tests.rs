use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::testing::{Site, kind};

/// The files found, relative to the worktree, sorted by name.
async fn found(site: &Site, input: &Value) -> Vec<String> {
    let output = site.run("glob", input).await;
    assert!(!output.is_error, "{input}: {}", output.output);
    let mut names = listed(site, &output);
    names.sort();
    names
}

fn listed(site: &Site, output: &Output) -> Vec<String> {
    let top = site.path("");
    let name = |line| Path::new(line).strip_prefix(&top).map(|path| path.display().to_string());
    output.output.lines().filter_map(|line| name(line).ok()).collect()
}

fn aged(site: &Site, name: &str, seconds: u64) {
    let file = std::fs::File::options().write(true).open(site.file(name, "x")).unwrap();
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(epoch - Duration::from_secs(seconds)).unwrap();
}

#[tokio::test]
async fn patterns_and_paths() {
    let site = Site::new();
    for name in
        ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", ".hidden/e.rs", ".f.rs", "x y/[g].rs"]
    {
        site.file(name, "");
    }
    let absolute = site.path("src").display().to_string();
    for (input, expected) in [
        (
            json!({ "pattern": "*.rs" }),
            &[".f.rs", ".hidden/e.rs", "a.rs", "src/b.rs", "src/deep/c.rs", "x y/[g].rs"][..],
        ),
        (json!({ "pattern": "src/*.rs" }), &["src/b.rs"]),
        (json!({ "pattern": "src/**" }), &["src/b.rs", "src/d.ts", "src/deep/c.rs"]),
        (json!({ "pattern": "*.rs", "path": "src" }), &["src/b.rs", "src/deep/c.rs"]),
        (json!({ "pattern": "deep/*", "path": absolute }), &["src/deep/c.rs"]),
        (
            json!({ "pattern": "*.{rs,ts}", "path": "./src/" }),
            &["src/b.rs", "src/d.ts", "src/deep/c.rs"],
        ),
        (json!({ "pattern": format!("{absolute}/*.rs") }), &["src/b.rs"]),
        (json!({ "pattern": format!("{absolute}/d.ts"), "path": "x y" }), &["src/d.ts"]),
        (json!({ "pattern": "../src/d*", "path": "x y" }), &["src/d.ts"]),
        (json!({ "pattern": r"\[g\].rs" }), &["x y/[g].rs"]),
        (json!({ "pattern": "x y/[g].rs" }), &["x y/[g].rs"]),
        (json!({ "pattern": site.path("x y/[g].rs") }), &["x y/[g].rs"]),
        (json!({ "pattern": site.path("x y/[g]*") }), &["x y/[g].rs"]),
        (json!({ "pattern": "A.RS" }), &[]),
        (json!({ "pattern": "deep" }), &[]),
        (json!({ "glob": "a.rs", "path": "" }), &["a.rs"]),
    ] {
        assert_eq!(found(&site, &input).await, expected, "{input}");
    }
}

#[tokio::test]
async fn ignore_files_count_with_and_without_a_repository() {
    for repository in [true, false] {
        let site = Site::new();
        if repository {
            site.file(".git/config", "");
            site.file(".git/info/exclude", "excluded\n");
        }
        site.file(".gitignore", "*.gen\n/out/\n!keep.gen\n");
        site.file("sub/.gitignore", "!wanted.gen\nlocal\n");
        site.file(".ignore", "secret/\n");
        for name in [
            "a.gen", "keep.gen", "out/x", "sub/out/x", "sub/b.gen", "sub/wanted.gen", "sub/local",
            "local", "secret/x", "sub/module/.git", "sub/module/m",
        ] {
            site.file(name, "");
        }
        let expected = [
            ".gitignore", ".ignore", "keep.gen", "local", "sub/.gitignore", "sub/module/m",
            "sub/out/x", "sub/wanted.gen",
        ];
        assert_eq!(found(&site, &json!({ "pattern": "**" })).await, expected, "{repository}");
        // ignore rules of parent folders apply within a part of the worktree
        let expected = ["sub/.gitignore", "sub/module/m", "sub/out/x", "sub/wanted.gen"];
        let part = json!({ "pattern": "**", "path": "sub" });
        assert_eq!(found(&site, &part).await, expected, "{repository}");
        // a folder named in the call is searched even if it is ignored
        assert_eq!(found(&site, &json!({ "pattern": "**", "path": "out" })).await, ["out/x"]);
        if repository {
            site.file("excluded", "");
            assert!(found(&site, &json!({ "pattern": "exclude?" })).await.is_empty());
            assert_eq!(found(&site, &json!({ "pattern": "excluded" })).await, ["excluded"]);
            let inside = json!({ "pattern": "**", "path": ".git/info" });
            assert_eq!(found(&site, &inside).await, [".git/info/exclude"]);
        }
    }
}

#[tokio::test]
async fn an_ignored_file_that_is_named_is_found_and_others_are_hinted_at() {
    let site = Site::new();
    site.file(".git/config", "");
    site.file(".gitignore", "node_modules/\n*.log\n");
    for name in ["node_modules/x/package.json", "node_modules/[y]/b.js", "debug.log", "a.js"] {
        site.file(name, "");
    }
    site.file("share/auth.log", "");
    let package = "node_modules/x/package.json";
    for (pattern, expected) in [
        (package.to_owned(), &[package][..]),
        (format!("./{package}"), &[package]),
        (site.path(package).display().to_string(), &[package]),
        ("node_modules/x/*.json".to_owned(), &[package]),
        ("node_modules/**/*.js".to_owned(), &["node_modules/[y]/b.js"]),
        ("node_modules/[y]/*".to_owned(), &["node_modules/[y]/b.js"]),
        ("node_modules/[y]/b.js".to_owned(), &["node_modules/[y]/b.js"]),
        ("debug.log".to_owned(), &["debug.log"]),
        (site.path("debug.log").display().to_string(), &["debug.log"]),
        // a file that is not ignored comes first
        ("*.js".to_owned(), &["a.js"]),
    ] {
        assert_eq!(found(&site, &json!({ "pattern": pattern })).await, expected, "{pattern}");
    }
    let ignored = "No files found.\n(Files that .gitignore or .ignore exclude were left out.";
    for (pattern, start) in [("**/package.json", ignored), ("*.log", ignored)] {
        let output = site.run("glob", &json!({ "pattern": pattern })).await;
        assert!(output.output.starts_with(start), "{pattern}: {}", output.output);
    }
    // a name does not open what is protected
    let cx = Workspace { data: Some(site.path("share")), ..site.workspace() };
    let output = crate::run_alone("glob", r#"{"pattern":"share/auth.log"}"#, cx).await.unwrap();
    assert!(output.output.starts_with("No files found."), "{}", output.output);
}

#[tokio::test]
async fn an_ignore_file_above_a_project_does_not_hide_it() {
    let site = Site::new();
    std::fs::write(site.root().join(".gitignore"), "*\n").unwrap();
    site.file("a", "");
    assert_eq!(found(&site, &json!({ "pattern": "*" })).await, ["a"]);
}

#[tokio::test]
async fn newest_first_and_at_most_a_hundred() {
    let site = Site::new();
    for n in 0..250 {
        aged(&site, &format!("{}/f{n}", n % 7), (n * 97) % 250);
    }
    let output = site.run("glob", &json!({ "pattern": "f*" })).await;
    let mut order: Vec<u64> = (0..250).collect();
    order.sort_by_key(|n| (n * 97) % 250);
    let expected: Vec<String> = order.iter().take(100).map(|n| format!("{}/f{n}", n % 7)).collect();
    assert_eq!(listed(&site, &output), expected);
    assert_eq!(output.meta()["count"], 100);
    assert_eq!(output.meta()["truncated"], true);
    assert!(output.output.contains("newest 100 of 250 files"), "{}", output.output);
    let output = site.run("glob", &json!({ "pattern": "f1*", "path": "3" })).await;
    assert_eq!((output.meta()["truncated"].clone(), output.is_error), (json!(false), false));
    let mut cx = site.workspace();
    cx.limits.max_bytes = 500;
    let output = crate::run_alone("glob", r#"{"pattern":"f*"}"#, cx).await.unwrap();
    let names = listed(&site, &output);
    assert!(!names.is_empty() && names == expected[..names.len()], "{names:?}");
    assert_eq!(output.meta()["count"], names.len());
    assert_eq!(output.meta()["truncated"], true);
}

#[tokio::test]
async fn nothing_found_is_no_error_and_what_is_wrong_is() {
    let site = Site::new();
    site.file("src/a.rs", "");
    let output = site.run("glob", &json!({ "pattern": "*.zig" })).await;
    assert_eq!((output.output.as_str(), output.is_error), ("No files found.", false));
    assert_eq!(output.meta()["count"], 0);
    for (input, expected, said) in [
        (json!({ "pattern": "*", "path": "scr" }), "not_found", "src"),
        (json!({ "pattern": "*", "path": "src/a.rs" }), "not_directory", "not a folder"),
        (
            json!({ "pattern": "a[" }),
            "invalid_arguments",
            "`pattern`: \"a[\" is not a glob: unclosed",
        ),
        (json!({ "pattern": "" }), "invalid_arguments", "empty"),
        (json!({}), "invalid_arguments", "missing field `pattern`"),
    ] {
        let output = site.run("glob", &input).await;
        assert_eq!(kind(&output), expected, "{input}");
        assert!(output.output.contains(said), "{}", output.output);
    }
}

#[tokio::test]
async fn links_and_special_files() {
    let site = Site::new();
    site.file("real/a.md", "");
    std::fs::write(site.outside("secret.md"), "").unwrap();
    symlink("real/a.md", site.path("link.md")).unwrap();
    symlink("real", site.path("folder.md")).unwrap();
    symlink("nowhere", site.path("dangling.md")).unwrap();
    symlink("loop.md", site.path("loop.md")).unwrap();
    symlink(site.outside("secret.md"), site.path("away.md")).unwrap();
    symlink(site.outside(""), site.path("away")).unwrap();
    site.fifo("pipe.md");
    assert_eq!(found(&site, &json!({ "pattern": "*.md" })).await, ["link.md", "real/a.md"]);
}

#[test]
fn permissions() {
    let site = Site::new();
    let resolved = site.resolve("glob", &json!({ "pattern": "src/*.rs" }));
    let [access] = resolved.access.as_slice() else { panic!("{resolved:?}") };
    assert_eq!((access.permission.as_str(), resolved.class), ("glob", Class::Read));
    assert_eq!((&access.patterns[..], &access.always[..]), (&["src/*.rs".into()][..], &[][..]));
    assert_eq!(resolved.paths, [site.path("").display().to_string().trim_end_matches('/')]);
    symlink(site.outside(""), site.path("away")).unwrap();
    for input in [
        json!({ "pattern": "*", "path": site.outside("") }),
        json!({ "pattern": "*", "path": "away" }),
        json!({ "pattern": "../outside/*" }),
        json!({ "pattern": site.outside("*") }),
        json!({ "pattern": site.outside("**/*.rs"), "path": "src" }),
    ] {
        let resolved = site.resolve("glob", &input);
        let [outside, own] = resolved.access.as_slice() else { panic!("{resolved:?}") };
        assert_eq!(outside.permission, "external_directory");
        assert_eq!(outside.patterns, [site.outside("*").to_string_lossy()], "{input}");
        assert_eq!(own.permission, "glob");
    }
}

#[tokio::test]
async fn cancelled_before_and_during_the_walk() {
    let site = Site::new();
    for n in 0..50 {
        site.file(&format!("{n}/{n}"), "");
    }
    let cx = site.context();
    cx.cancel.cancel();
    let resolved = site.resolve("glob", &json!({ "pattern": "*" }));
    assert_eq!(kind(&crate::run(&resolved, cx).await), "cancelled");

    let cx = site.context();
    let visited = std::sync::atomic::AtomicUsize::new(0);
    let walked = walk::entries(&site.path(""), None, &site.workspace(), &cx.cancel, || {
        |_: &DirEntry| {
            visited.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            cx.cancel.cancel();
            Ok(())
        }
    });
    assert!(matches!(walked, Err(Error::Cancelled)));
    // each thread sees at most its current entry
    assert!(visited.into_inner() <= 12);
}

#[tokio::test]
async fn the_whole_file_system_is_left_within_a_moment() {
    let site = Site::new();
    let cx = site.context();
    let (cancel, begun) = (cx.cancel.clone(), Instant::now());
    let resolved = site.resolve("glob", &json!({ "pattern": "no-such-name", "path": "/" }));
    let running = tokio::spawn(async move { crate::run(&resolved, cx).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    let cancelled = Instant::now();
    let output = running.await.unwrap();
    assert_eq!(kind(&output), "cancelled", "{:?}", begun.elapsed());
    // normally it takes a tenth of this; a busy machine may need more
    assert!(cancelled.elapsed() < Duration::from_secs(1), "{:?}", cancelled.elapsed());
}
