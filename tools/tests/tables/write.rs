//! `write`: writes the content exactly as given, whatever the file had before.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::site::{Site, kind, meta};

/// Old content, new content; whether the file is new, whether anything changes, lines added, lines
/// removed.
type Row = (Option<&'static [u8]>, &'static str, bool, bool, u32, u32);

const CONTENTS: &[Row] = &[
    (None, "", true, true, 0, 0),
    (None, "a", true, true, 1, 0),
    (None, "a\n", true, true, 1, 0),
    (None, "a\nb\n", true, true, 2, 0),
    (None, "\n", true, true, 1, 0),
    (None, "\u{feff}a\r\n", true, true, 1, 0),
    (None, "日本語\t👍\u{7}", true, true, 1, 0),
    (Some(b""), "", false, false, 0, 0),
    (Some(b""), "a\n", false, true, 1, 0),
    (Some(b"a\n"), "a\n", false, false, 0, 0),
    (Some(b"a\n"), "", false, true, 0, 1),
    (Some(b"a\nb\nc\n"), "a\nB\nc\n", false, true, 1, 1),
    (Some(b"a\n"), "a\nb\n", false, true, 1, 0),
    (Some(b"a\nb\n"), "b\n", false, true, 0, 1),
    // the ending of the last line is part of it
    (Some(b"a\n"), "a", false, true, 1, 1),
    // line endings and a byte order mark of the new content
    (Some(b"a\nb\n"), "a\r\nb\r\n", false, true, 2, 2),
    (Some(b"\xef\xbb\xbfa\n"), "\u{feff}a\n", false, false, 0, 0),
    (Some(b"a\n"), "\u{feff}a\n", false, true, 1, 1),
    (Some(b"a\r\n"), "a\r\n", false, false, 0, 0),
    // a file that is not text is replaced without a diff
    (Some(b"\0\x01\x02"), "a\n", false, true, 1, 0),
    (Some(b"caf\xe9\n"), "a\n", false, true, 1, 0),
    (Some(b"\xff\xfea\0"), "a\n", false, true, 1, 0),
];

#[tokio::test]
async fn contents() {
    for (before, content, created, changed, more, less) in CONTENTS {
        let site = Site::new();
        if let Some(before) = before {
            site.file("f", before);
        }
        let output = site.run("write", &json!({ "filePath": "f", "content": content })).await;
        assert_eq!(site.text("f"), *content, "{before:?}");
        let told = ["created", "changed", "additions", "deletions"].map(|key| meta(&output, key));
        let expected = [json!(created), json!(changed), json!(more), json!(less)];
        assert_eq!((told, output.is_error), (expected, false), "{before:?} {content:?}");
        assert_eq!((output.title.as_str(), &site.tree()[..]), ("f", &["f".to_owned()][..]));
        let diff = meta(&output, "diff").as_str().unwrap().to_owned();
        let signs = |sign| diff.lines().skip(2).filter(|line| line.starts_with(sign)).count();
        assert_eq!((signs('+'), signs('-')), (*more as usize, *less as usize), "{diff}");
    }
}

#[tokio::test]
async fn a_new_file_brings_its_folders() {
    for (path, made) in [
        ("a/b/c.txt", &["a", "a/b", "a/b/c.txt"][..]),
        ("./x//y", &["x", "x/y"]),
        ("a/../b", &["b"]),
        ("sp ace/ü", &["sp ace", "sp ace/ü"]),
        ("-rf", &["-rf"]),
        ("new\nline", &["new\nline"]),
        ("~tilde", &["~tilde"]),
    ] {
        let site = Site::new();
        let output = site.run("write", &json!({ "filePath": path, "content": "x" })).await;
        assert_eq!((kind(&output).as_str(), &site.tree()[..]), ("", &owned(made)[..]), "{path}");
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn what_is_refused_leaves_everything_as_it_was() {
    let site = Site::with(&[("file", b"old"), ("dir/x", b""), ("ro/x", b"")]);
    symlink("loop", site.path("loop")).unwrap();
    site.fifo("pipe");
    let _socket = UnixListener::bind(site.path("socket")).unwrap();
    let before = site.tree();
    for (args, expected) in [
        (json!({ "filePath": "dir", "content": "x" }), "is_directory"),
        (json!({ "filePath": ".", "content": "x" }), "is_directory"),
        (json!({ "filePath": "/", "content": "x" }), "is_directory"),
        (json!({ "filePath": "file/below", "content": "x" }), "not_directory"),
        (json!({ "filePath": "file/be/low", "content": "x" }), "not_directory"),
        (json!({ "filePath": "pipe", "content": "x" }), "special_file"),
        (json!({ "filePath": "socket", "content": "x" }), "special_file"),
        (json!({ "filePath": "/dev/null", "content": "x" }), "special_file"),
        (json!({ "filePath": "loop", "content": "x" }), "symlink_loop"),
        (json!({ "filePath": "", "content": "x" }), "not_found"),
        (json!({ "filePath": "a\0b", "content": "x" }), "not_found"),
        (json!({ "filePath": "x".repeat(300), "content": "x" }), "not_found"),
        (json!({ "filePath": "x/".repeat(3_000), "content": "x" }), "not_found"),
        (json!({ "filePath": "new" }), "invalid_arguments"),
        (json!({ "content": "x" }), "invalid_arguments"),
        (json!({ "filePath": "new", "content": null }), "invalid_arguments"),
        (json!({ "filePath": "new", "content": ["x"] }), "invalid_arguments"),
        (json!({ "filePath": "new", "content": { "a": 1 } }), "invalid_arguments"),
    ] {
        let output = site.run("write", &args).await;
        assert_eq!(kind(&output), expected, "{args}: {}", output.output);
    }
    assert_eq!(site.tree(), before);
    assert_eq!(site.text("file"), "old");
}

#[tokio::test]
async fn the_mode_is_kept_and_a_read_only_file_is_not_replaced() {
    let site = Site::new();
    for mode in [0o644, 0o755, 0o600, 0o4_755] {
        let path = site.file("f", "old");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        site.run("write", &json!({ "filePath": "f", "content": "new" })).await;
        assert_eq!(
            (path.metadata().unwrap().mode() & 0o7777, site.text("f")),
            (mode, "new".into())
        );
    }
    let path = site.file("read-only", "old");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    // root may write everything
    let allowed = std::fs::OpenOptions::new().write(true).open(&path).is_ok();
    let output = site.run("write", &json!({ "filePath": "read-only", "content": "new" })).await;
    assert_eq!(kind(&output), if allowed { "" } else { "permission_denied" });
    assert_eq!(site.text("read-only"), if allowed { "new" } else { "old" });
}

#[tokio::test]
async fn links_are_written_through_where_that_is_allowed() {
    let site = Site::with(&[("real", b"old")]);
    symlink("real", site.path("link")).unwrap();
    symlink("to/come", site.path("dangling")).unwrap();
    symlink(site.outside("f"), site.path("away")).unwrap();
    for (path, lands) in [("link", "real"), ("dangling", "to/come")] {
        let output = site.run("write", &json!({ "filePath": path, "content": "new" })).await;
        assert_eq!((kind(&output).as_str(), site.text(lands).as_str()), ("", "new"), "{path}");
        assert!(site.path(path).is_symlink(), "{path}");
    }
    // a path outside needs a permission, and nobody is there to give it
    for path in ["away", "../outside/f", "away/../g"] {
        let args = json!({ "filePath": path, "content": "x" });
        let resolved = site.resolve("write", &args);
        let folder = site.outside("*").to_string_lossy().into_owned();
        let asked = resolved.access.iter().find(|a| a.permission == "external_directory");
        assert_eq!(asked.map(|access| &access.patterns), Some(&vec![folder]), "{path}");
        let error = leftfold_tools::run_alone("write", &args.to_string(), site.workspace()).await;
        assert_eq!(error.unwrap_err().kind(), "outside_workspace", "{path}");
    }
    assert_eq!(std::fs::read_dir(site.outside("")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_was_read_and_has_changed_is_not_replaced() {
    let site = Site::with(&[("f", b"mine\n")]);
    let seen = |output: &leftfold_tools::Output| -> leftfold_tools::Seen {
        serde_json::from_value(meta(output, "seen")).unwrap()
    };
    let read = site.run("read", &json!({ "filePath": "f" })).await;
    // another size, so that the stamp does not depend on the clock
    site.file("f", "theirs, and longer\n");
    let write = site.resolve("write", &json!({ "filePath": "f", "content": "new" }));
    let mut cx = site.context();
    cx.seen = seen(&read);
    assert_eq!(kind(&leftfold_tools::run(&write, cx).await), "changed_on_disk");
    assert_eq!(site.text("f"), "theirs, and longer\n");
    let mut cx = site.context();
    cx.seen = seen(&site.run("read", &json!({ "filePath": "f" })).await);
    assert_eq!(meta(&leftfold_tools::run(&write, cx).await, "changed"), Value::Bool(true));
}
