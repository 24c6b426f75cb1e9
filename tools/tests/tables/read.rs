//! `read`.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::site::{Site, kind, meta};

const END: &str = "\n(End of file: ";

/// Content, further arguments, the whole output, whether it is cut.
const TEXTS: &[(&[u8], &str, &str, bool)] = &[
    (b"one\ntwo\nthree\n", "{}", "1: one\n2: two\n3: three\n\n(End of file: 3 lines.)", false),
    // the last line counts with or without a line ending
    (b"one\ntwo", "{}", "1: one\n2: two\n\n(End of file: 2 lines.)", false),
    (b"one", "{}", "1: one\n\n(End of file: 1 lines.)", false),
    (b"\n", "{}", "1: \n\n(End of file: 1 lines.)", false),
    (b"\n\n\n", "{}", "1: \n2: \n3: \n\n(End of file: 3 lines.)", false),
    (b"", "{}", "(The file is empty.)", false),
    (b"", r#"{"offset":1,"limit":1}"#, "(The file is empty.)", false),
    // windows, counted from 1
    (b"a\nb\nc\n", r#"{"offset":1}"#, "1: a\n2: b\n3: c\n\n(End of file: 3 lines.)", false),
    (b"a\nb\nc\n", r#"{"offset":2}"#, "2: b\n3: c\n\n(End of file: 3 lines.)", false),
    (b"a\nb\nc\n", r#"{"offset":3}"#, "3: c\n\n(End of file: 3 lines.)", false),
    (
        b"a\nb\nc\n",
        r#"{"limit":2}"#,
        "1: a\n2: b\n\n(Lines 1 to 2 of 3. To go on: offset=3.)",
        true,
    ),
    (b"a\nb\nc\n", r#"{"limit":3}"#, "1: a\n2: b\n3: c\n\n(End of file: 3 lines.)", false),
    (
        b"a\nb\nc\n",
        r#"{"offset":2,"limit":1}"#,
        "2: b\n\n(Lines 2 to 2 of 3. To go on: offset=3.)",
        true,
    ),
    (b"a\nb\nc\n", r#"{"offset":3,"limit":9}"#, "3: c\n\n(End of file: 3 lines.)", false),
    // a model that counts from 0 means the first line; a limit of 0 is never meant
    (
        b"a\nb\n",
        r#"{"offset":0,"limit":1}"#,
        "1: a\n\n(Lines 1 to 1 of 2. To go on: offset=2.)",
        true,
    ),
    (b"a\nb\n", r#"{"limit":0}"#, "1: a\n2: b\n\n(End of file: 2 lines.)", false),
    (b"a\n", r#"{"limit":18446744073709551615}"#, "1: a\n\n(End of file: 1 lines.)", false),
    (b"a\n", r#"{"offset":null,"limit":null}"#, "1: a\n\n(End of file: 1 lines.)", false),
    (
        b"a\nb\n",
        r#"{"offset":"1","limit":1.0}"#,
        "1: a\n\n(Lines 1 to 1 of 2. To go on: offset=2.)",
        true,
    ),
    // line endings and a byte order mark are not part of a line
    (b"a\r\nb\r\n", "{}", "1: a\n2: b\n\n(End of file: 2 lines.)", false),
    (b"a\r\nb\nc\r\n", "{}", "1: a\n2: b\n3: c\n\n(End of file: 3 lines.)", false),
    (b"a\rb\n", "{}", "1: a\rb\n\n(End of file: 1 lines.)", false),
    (b"\xef\xbb\xbfa\nb\n", "{}", "1: a\n2: b\n\n(End of file: 2 lines.)", false),
    (b"a\n\xef\xbb\xbfb\n", r#"{"offset":2}"#, "2: \u{feff}b\n\n(End of file: 2 lines.)", false),
    // text that is not UTF-8 is decoded; tabs and leading blanks stay
    (
        b"caf\xe9 is text, in the main\n",
        "{}",
        "1: café is text, in the main\n\n(End of file: 1 lines.)\n(The encoding of this file seems to be windows-1252; the text above is decoded. To change the file, run a command that knows this encoding and keeps it.)",
        false,
    ),
    (b"\t a \n", "{}", "1: \t a \n\n(End of file: 1 lines.)", false),
    ("日本語 👍\n".as_bytes(), "{}", "1: 日本語 👍\n\n(End of file: 1 lines.)", false),
    (b"1: a\n", "{}", "1: 1: a\n\n(End of file: 1 lines.)", false),
    (b"<svg xmlns=\"x\"/>\n", "{}", "1: <svg xmlns=\"x\"/>\n\n(End of file: 1 lines.)", false),
];

#[tokio::test]
async fn texts() {
    for (content, more, expected, cut) in TEXTS {
        let site = Site::with(&[("f.svg", content)]);
        let mut args: Value = serde_json::from_str(more).unwrap();
        args["filePath"] = json!("f.svg");
        let output = site.run("read", &args).await;
        assert_eq!((output.output.as_str(), output.is_error), (*expected, false), "{args}");
        assert_eq!((output.title.as_str(), meta(&output, "truncated")), ("f.svg", json!(cut)));
        assert!(output.spill.is_none() && output.attachments.is_empty(), "the file has it all");
        let ended = output.output.contains(END) || content.is_empty();
        assert_eq!(ended, !cut, "{args}: {}", output.output);
    }
}

/// Name, content, further arguments, kind of error, part of the message.
const REFUSED: &[(&str, &[u8], &str, &str, &str)] = &[
    ("f", b"a\nb\n", r#"{"offset":3}"#, "offset_past_end", "has 2 lines"),
    ("f", b"", r#"{"offset":2}"#, "offset_past_end", "has 0 lines"),
    ("f", b"a", r#"{"offset":18446744073709551615}"#, "offset_past_end", "has 1 lines"),
    ("f", b"a", r#"{"offset":-1}"#, "invalid_arguments", "`offset`"),
    ("f", b"a", r#"{"limit":-1}"#, "invalid_arguments", "`limit`"),
    ("f", b"a", r#"{"offset":1.5}"#, "invalid_arguments", "got 1.5"),
    ("f", b"a", r#"{"limit":"all"}"#, "invalid_arguments", "got \"all\""),
    ("f", b"a", r#"{"filePath":""}"#, "not_found", "cannot be a path"),
    ("f", b"a", r#"{"filePath":"a\u0000b"}"#, "not_found", "cannot be a path"),
    ("f", b"a", r#"{"filePath":"f/x"}"#, "not_directory", "not a directory"),
    ("f", b"a", r#"{"filePath":"no/f"}"#, "not_found", "there is no folder"),
    ("parser.rs", b"a", r#"{"filePath":"parsr.rs"}"#, "not_found", "Did you mean one of these?"),
    ("README.md", b"a", r#"{"filePath":"readme.md"}"#, "not_found", "README.md"),
    ("unlike", b"a", r#"{"filePath":"zzzzz"}"#, "not_found", "zzzzz does not exist."),
    // binary by content
    ("f", b"\x7fELF\x02\x01\x01\0\0\0", "{}", "binary", "binary"),
    ("f", b"text and then \0 in it", "{}", "binary", "binary"),
    ("f", b"\x01\x02\x03\x04\x05\x06\x07", "{}", "binary", "binary"),
    ("f", b"PK\x03\x04\0\0", "{}", "binary", "binary"),
    ("f.txt", b"h\0i\0", "{}", "binary", "binary"),
    ("f.png", b"\0\x01 no picture", "{}", "binary", "binary"),
];

#[tokio::test]
async fn what_is_refused() {
    for (name, content, more, expected, said) in REFUSED {
        let site = Site::with(&[(name, content)]);
        let mut args = json!({ "filePath": name });
        let more: Value = serde_json::from_str(more).unwrap();
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let output = site.run("read", &args).await;
        assert_eq!(kind(&output), *expected, "{args}: {}", output.output);
        assert!(output.output.contains(said), "{args}: {}", output.output);
    }
}

/// Content and media type. The file's name suggests another type.
const MEDIA: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n....", "image/png"),
    (b"\xff\xd8\xff\xe0....", "image/jpeg"),
    (b"GIF87a....", "image/gif"),
    (b"GIF89a....", "image/gif"),
    (b"RIFF....WEBPVP8 ", "image/webp"),
    (b"%PDF-1.7\n", "application/pdf"),
];

#[tokio::test]
async fn images_and_pdfs_are_attached_by_content() {
    for (content, mime) in MEDIA {
        let site = Site::with(&[("f.txt", content)]);
        let output = site.run("read", &json!({ "filePath": "f.txt" })).await;
        let [attached] = output.attachments.as_slice() else { panic!("{mime}: {output:?}") };
        assert_eq!((attached.mime.as_str(), attached.name.as_str()), (*mime, "f.txt"));
        assert_eq!(attached.base64, leftfold_tools::base64(content));
        assert_eq!(
            (meta(&output, "mime"), meta(&output, "truncated")),
            (json!(mime), json!(false))
        );
    }
    let site = Site::with(&[("a.wav", b"RIFF....WAVEfmt "), ("cut.webp", b"RIFF....WEB")]);
    for name in ["a.wav", "cut.webp"] {
        let output = site.run("read", &json!({ "filePath": name })).await;
        assert!(output.attachments.is_empty(), "{name}");
    }
}

/// The kind of file at `f`, and the kind of error.
#[tokio::test]
async fn what_is_no_file() {
    let site = Site::with(&[("real", b"x\n")]);
    symlink("loop", site.path("loop")).unwrap();
    symlink("two", site.path("one")).unwrap();
    symlink("one", site.path("two")).unwrap();
    symlink("gone", site.path("dangling")).unwrap();
    symlink("real", site.path("link")).unwrap();
    symlink("/dev/zero", site.path("zero")).unwrap();
    site.fifo("pipe");
    let _socket = UnixListener::bind(site.path("socket")).unwrap();
    for (path, expected) in [
        ("loop", "symlink_loop"),
        ("one", "symlink_loop"),
        ("one/x", "symlink_loop"),
        ("dangling", "not_found"),
        ("link", ""),
        ("./link/../real", ""),
        ("pipe", "special_file"),
        ("socket", "special_file"),
        ("zero", "special_file"),
        ("/dev/zero", "special_file"),
        ("/dev/null", "special_file"),
        ("/dev/stdin", "special_file"),
    ] {
        let output = site.run("read", &json!({ "filePath": path })).await;
        // where standard input is a file, `/dev/stdin` reads that file
        if path != "/dev/stdin" || output.is_error {
            assert!(
                [expected, "not_found"].contains(&kind(&output).as_str()),
                "{path}: {output:?}"
            );
        }
        assert!(expected.is_empty() != output.is_error || path == "/dev/stdin", "{path}");
    }
}

/// The kernel reports them as empty, and they are not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn files_of_the_kernel_have_their_content() {
    let output = Site::new().run("read", &json!({ "filePath": "/proc/self/status" })).await;
    assert!(
        output.output.contains("\tleftfold") || output.output.contains("Name:\t"),
        "{output:?}"
    );
    assert!(output.output.contains("(End of file: "), "{}", output.output);
}

#[tokio::test]
async fn what_may_not_be_read_says_so() {
    let site = Site::with(&[("secret", b"x"), ("locked/f", b"x")]);
    let mode = |name: &str, mode| {
        std::fs::set_permissions(site.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    mode("secret", 0o000);
    mode("locked", 0o000);
    // root may read everything
    let allowed = std::fs::read(site.path("secret")).is_ok();
    for path in ["secret", "locked/f", "locked"] {
        let output = site.run("read", &json!({ "filePath": path })).await;
        assert_eq!(kind(&output), if allowed { "" } else { "permission_denied" }, "{path}");
    }
    mode("locked", 0o700);
}

#[tokio::test]
async fn a_file_that_grows_is_read_as_it_was() {
    let site = Site::with(&[("log", b"first\n")]);
    let mut file = std::fs::OpenOptions::new().append(true).open(site.path("log")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        let block = "more\n".repeat(1_000);
        for _ in 0..2_000 {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            file.write_all(block.as_bytes()).unwrap();
        }
    });
    for offset in [1, 1_000_000_000] {
        let args = json!({ "filePath": "log", "offset": offset, "limit": 1 });
        let output = site.run("read", &args).await;
        let expected = if offset == 1 { "" } else { "offset_past_end" };
        assert_eq!(kind(&output), expected, "{}", output.output);
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn limits_of_lines_of_a_line_and_of_bytes() {
    let site = Site::new();
    let numbered = |count: usize| (1..=count).map(|n| format!("{n}\n")).collect::<String>();
    for (content, shown, next, cut) in [
        (numbered(1_999), 1_999, None, false),
        (numbered(2_000), 2_000, None, false),
        (numbered(2_001), 2_000, Some(2_001), true),
        // a limit above the maximum counts as the maximum
        (numbered(5_000), 2_000, Some(2_001), true),
        // 50 KiB of whole lines
        (format!("{}\n", "x".repeat(1_020)).repeat(100), 49, Some(50), true),
        // only the long line is cut
        (format!("a\n{}\nb\n", "x".repeat(2_000)), 3, None, false),
        (format!("a\n{}\nb\n", "x".repeat(2_001)), 3, None, true),
        (format!("a\n{}\nb\n", "é".repeat(2_001)), 3, None, true),
        (format!("{}\nb", "x".repeat(3_000_000)), 2, None, true),
    ] {
        site.file("f", &content);
        let args = json!({ "filePath": "f", "limit": 9_999 });
        let output = site.run("read", &args).await;
        assert_eq!(
            (meta(&output, "lines"), meta(&output, "truncated")),
            (json!(shown), json!(cut))
        );
        assert!(output.output.len() <= 51_400, "{}", output.output.len());
        let hint = next.map(|next| format!("To go on: offset={next}.)"));
        assert!(hint.is_none_or(|hint| output.output.ends_with(&hint)), "{shown}");
        assert!(
            !output.output.contains(&"x".repeat(2_001))
                && !output.output.contains(&"é".repeat(2_001))
        );
    }
}

#[tokio::test]
async fn folders() {
    let site = Site::with(&[("b.txt", b""), (".hidden", b""), ("a/x", b""), ("ü ö", b"")]);
    std::fs::create_dir(site.path("none")).unwrap();
    symlink("a", site.path("to-a")).unwrap();
    symlink("gone", site.path("to-gone")).unwrap();
    site.fifo("pipe");
    let all = ".hidden\na/\nb.txt\nnone/\npipe\nto-a/\nto-gone\nü ö\n\n(8 entries.)";
    for (args, expected, cut) in [
        (json!({ "filePath": "." }), all, false),
        (json!({ "filePath": site.path("") }), all, false),
        (json!({ "filePath": "a/.." }), all, false),
        (json!({ "filePath": "a/" }), "x\n\n(1 entries.)", false),
        (json!({ "filePath": "none" }), "(The folder is empty.)", false),
        (
            json!({ "filePath": ".", "limit": 2 }),
            ".hidden\na/\n\n(Entries 1 to 2 of 8. To go on: offset=3.)",
            true,
        ),
        (json!({ "filePath": ".", "offset": 8 }), "ü ö\n\n(8 entries.)", false),
    ] {
        let output = site.run("read", &args).await;
        assert_eq!((output.output.as_str(), meta(&output, "truncated")), (expected, json!(cut)));
    }
    let output = site.run("read", &json!({ "filePath": ".", "offset": 9 })).await;
    assert_eq!(kind(&output), "offset_past_end");
    for n in 0..2_100 {
        site.file(&format!("many/{n:04}"), "");
    }
    let output = site.run("read", &json!({ "filePath": "many" })).await;
    assert!(output.output.ends_with("1999\n\n(Entries 1 to 2000 of 2100. To go on: offset=2001.)"));
    let output = site.run("read", &json!({ "filePath": "many", "offset": 2_001 })).await;
    assert_eq!(
        (meta(&output, "truncated"), meta(&output, "entries")),
        (json!(false), json!(2_100))
    );
}

#[tokio::test]
async fn instructions_near_a_file_come_once() {
    let site = Site::with(&[("sub/AGENTS.md", b"Be kind."), ("sub/deep/f", b"x\n")]);
    let first = site.run("read", &json!({ "filePath": "sub/deep/f" })).await;
    assert!(first.output.contains("Be kind."), "{}", first.output);
    let mut cx = site.context();
    let files: Vec<String> = serde_json::from_value(meta(&first, "instructions")).unwrap();
    assert_eq!(files, [site.path("sub/AGENTS.md").to_string_lossy()]);
    cx.instructed.files.extend(files);
    let again = site.resolve("read", &json!({ "filePath": "sub/deep/f" }));
    assert_eq!(leftfold_tools::run(&again, cx).await.output, "1: x\n\n(End of file: 1 lines.)");
}
