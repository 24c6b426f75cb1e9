//! `bash`: exits, folders, limits. Tests beside the tool cover the end of its processes.

use serde_json::{Value, json};

use crate::site::{Site, kind, meta};

/// Arguments, output, exit code, kind of error.
const RUNS: &[(&str, &str, Option<i64>, &str)] = &[
    (r#"{"command":"echo a"}"#, "a\n", Some(0), ""),
    (r#"{"command":"echo a >&2; echo b"}"#, "a\nb\n", Some(0), ""),
    (r#"{"command":"printf a"}"#, "a", Some(0), ""),
    (r#"{"command":":"}"#, "(no output)", Some(0), ""),
    (r##"{"command":"# a comment"}"##, "(no output)", Some(0), ""),
    (r#"{"command":"false"}"#, "(exit code 1)", Some(1), ""),
    (r#"{"command":"exit 255"}"#, "(exit code 255)", Some(255), ""),
    (r#"{"command":"exit 256"}"#, "(no output)", Some(0), ""),
    (r#"{"command":"echo a; exit 2"}"#, "a\n(exit code 2)", Some(2), ""),
    (r#"{"command":"printf a; exit 2"}"#, "a\n(exit code 2)", Some(2), ""),
    (r#"{"command":"set -e; false; echo never"}"#, "(exit code 1)", Some(1), ""),
    (r#"{"command":"set -o pipefail; false | true"}"#, "(exit code 1)", Some(1), ""),
    (r#"{"command":"kill -TERM $$"}"#, "(killed by signal 15)", None, "killed"),
    (r#"{"command":"echo a; kill -9 $$"}"#, "a\n(killed by signal 9)", None, "killed"),
    // nobody types
    (r#"{"command":"cat"}"#, "(no output)", Some(0), ""),
    (r#"{"command":"read x; echo $?"}"#, "1\n", Some(0), ""),
    (r#"{"command":"[ -t 0 ] || [ -t 1 ] || echo no terminal"}"#, "no terminal\n", Some(0), ""),
    // bytes that are not text
    (r#"{"command":"printf '\\377\\376'"}"#, "\u{fffd}\u{fffd}", Some(0), ""),
    (r#"{"command":"printf 'a\\0b'"}"#, "a\0b", Some(0), ""),
    (r#"{"command":"printf 'a\\r\\n'"}"#, "a\n", Some(0), ""),
    // a line of several lines
    (r#"{"command":"for i in 1 2\ndo\n echo $i\ndone"}"#, "1\n2\n", Some(0), ""),
    (r#"{"command":"cat <<E\nhere\nE"}"#, "here\n", Some(0), ""),
    // places
    (r#"{"command":"basename \"$PWD\""}"#, "work\n", Some(0), ""),
    (r#"{"command":"basename \"$PWD\"; ls","workdir":"sub"}"#, "sub\nfile\n", Some(0), ""),
    (r#"{"command":"ls","workdir":"./sub/../sub/"}"#, "file\n", Some(0), ""),
    (r#"{"command":"ls","workdir":"none"}"#, "…", None, "not_found"),
    (r#"{"command":"ls","workdir":"sub/file"}"#, "…", None, "not_directory"),
    (r#"{"command":"ls","workdir":""}"#, "…", None, "not_found"),
    // arguments
    (r#"{"command":"echo a","timeout":"5000"}"#, "a\n", Some(0), ""),
    (r#"{"command":"echo a","timeout":0}"#, "a\n", Some(0), ""),
    (r#"{"command":""}"#, "…", None, "invalid_arguments"),
    (r#"{"command":" \n\t"}"#, "…", None, "invalid_arguments"),
    (r#"{"command":"a\u0000b"}"#, "…", None, "invalid_arguments"),
    (r#"{"command":"echo a","timeout":-5}"#, "…", None, "invalid_arguments"),
    (r#"{"command":"echo a","timeout":1.5}"#, "…", None, "invalid_arguments"),
    (r#"{"command":["echo","a"]}"#, "…", None, "invalid_arguments"),
];

#[tokio::test]
async fn runs() {
    let site = Site::with(&[("sub/file", b"")]);
    for (args, output, exit, error) in RUNS {
        let args: Value = serde_json::from_str(args).unwrap();
        let told = site.run("bash", &args).await;
        assert_eq!(
            (kind(&told).as_str(), meta(&told, "exit")),
            (*error, json!(exit)),
            "{args}: {told:?}"
        );
        if *output != "…" {
            assert_eq!(told.output, *output, "{args}");
        }
    }
}

#[test]
fn limits_of_time() {
    let site = Site::new();
    for (given, expected) in [
        (Value::Null, 120_000),
        (json!(1), 1),
        (json!(0), 120_000),
        (json!(599_999), 599_999),
        (json!(600_000), 600_000),
        (json!(600_001), 600_000),
        (json!(u64::MAX), 600_000),
    ] {
        let args = json!({ "command": "ls", "timeout": given });
        assert_eq!(site.resolve("bash", &args).timeout, expected, "{given}");
    }
}

/// If a call is described twice, people see the better description.
#[tokio::test]
async fn titles() {
    let site = Site::new();
    for (args, title) in [
        (json!({ "command": "echo a" }), "echo a"),
        (json!({ "command": "echo a", "description": "Says a" }), "Says a"),
    ] {
        assert_eq!(site.run("bash", &args).await.title, title);
    }
}

/// Of more output than is kept, the end is shown.
#[tokio::test]
async fn a_flood_has_its_end_shown() {
    let site = Site::new();
    let command = "head -c 41943040 /dev/zero | tr '\\0' x; echo; echo the end";
    let output = site.run("bash", &json!({ "command": command })).await;
    assert!(output.output.ends_with("\n\nthe end\n"), "{:.300}", output.output);
    assert!(output.output.contains("41943049 bytes in all"), "{:.300}", output.output);
    assert_eq!(output.spill.map(|spill| spill.bytes), Some(32 * 1024 * 1024));
}
