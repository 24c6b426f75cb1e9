//! Formatters that work, fail and do harm, and the calls that they follow.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::*;
use crate::Output;
use crate::formatter::{FILE, Formatter, Formatting};
use crate::testing::Site;

/// A project whose files `*.x` are formatted by the shell script `script`, which gets the path as `$0`.
fn stub(script: &str) -> Formatter {
    let command = ["/bin/sh", "-c", script, FILE].map(str::to_owned);
    let mut formatter = Formatter::new("stub", command.to_vec());
    formatter.extensions = vec![".x".to_owned()];
    formatter
}

fn formatting(formatters: Vec<Formatter>) -> Formatting {
    let sandbox = SandboxOptions { backend: Backend::Off, ..SandboxOptions::default() };
    Formatting { formatters, trusted: true, sandbox }
}

async fn run(site: &Site, tool: &str, input: &Value, formatting: Formatting) -> Output {
    let mut cx = site.context();
    Arc::make_mut(&mut cx.workspace).formatting = Some(Arc::new(formatting));
    crate::run(&site.resolve(tool, input), cx).await
}

async fn write(site: &Site, text: &str, script: &str) -> Output {
    let input = json!({ "filePath": "a.x", "content": text });
    run(site, "write", &input, formatting(vec![stub(script)])).await
}

const UPPER: &str = r#"text=$(tr a-z A-Z < "$0") && printf '%s\n' "$text" > "$0""#;

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_that_writes_shows_what_the_formatter_has_made_of_it() {
    let site = Site::new();
    let input = json!({ "filePath": "a.x", "content": "one\n" });
    let patch =
        |text: &str| json!({ "patchText": format!("*** Begin Patch\n{text}\n*** End Patch") });
    for (tool, input, text, plus) in [
        ("write", input, "ONE\n", "+ONE"),
        (
            "edit",
            json!({ "filePath": "a.x", "oldString": "ONE", "newString": "two" }),
            "TWO\n",
            "+TWO",
        ),
        (
            "multiedit",
            json!({ "filePath": "a.x", "edits": [{ "oldString": "TWO", "newString": "three" }] }),
            "THREE\n",
            "+THREE",
        ),
        ("apply_patch", patch("*** Update File: a.x\n@@\n-THREE\n+four"), "FOUR\n", "+FOUR"),
        (
            "apply_patch",
            patch("*** Update File: a.x\n*** Move to: b.x\n@@\n-FOUR\n+five"),
            "FIVE\n",
            "+FIVE",
        ),
    ] {
        let output = run(&site, tool, &input, formatting(vec![stub(UPPER)])).await;
        assert!(!output.is_error, "{output:?}");
        let name = if text == "FIVE\n" { "b.x" } else { "a.x" };
        assert_eq!(site.text(name), text);
        let meta = output.meta();
        assert!(meta["diff"].as_str().unwrap().contains(plus), "{tool}: {meta:?}");
        let written = text.to_lowercase();
        let lower = format!("+{}", written.trim());
        assert!(!meta["diff"].as_str().unwrap().contains(&lower), "{tool}: {meta:?}");
        assert_eq!((&meta["additions"], &meta["formatted_by"]), (&json!(1), &json!(["stub"])));
        let path = site.path(name).display().to_string();
        let told = format!(
            "stub has formatted {path}. It differs from what you wrote:\n@@ -1 +1 @@\n-{written}+{}",
            text.trim()
        );
        assert!(output.output.contains(&told), "{tool}: {}", output.output);
        let stamp = &meta["seen"][site.path(name).to_str().unwrap()];
        assert_eq!(*stamp, crate::confined::stamp(&std::fs::metadata(site.path(name)).unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formatter_that_changes_nothing_is_not_mentioned() {
    let site = Site::new();
    for script in ["true", "cat \"$0\" >/dev/null", "touch \"$0\""] {
        let output = write(&site, "one\n", script).await;
        assert!(!output.output.contains("stub"), "{}", output.output);
        assert_eq!(site.text("a.x"), "one\n");
        std::fs::remove_file(site.path("a.x")).unwrap();
    }
    // other files, empty ones, and those of settings
    for name in ["a.y", ".x", "ax", ".leftfold/plans/a.x"] {
        let input = json!({ "filePath": name, "content": "one\n" });
        let output = run(&site, "write", &input, formatting(vec![stub("exit 1")])).await;
        assert!(!output.output.contains("stub"), "{name}: {}", output.output);
    }
    assert!(!write(&site, "\n", "exit 1").await.output.contains("stub"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formatter_that_fails_or_does_harm_leaves_the_text_of_the_call() {
    for (script, said) in [
        ("echo no such option >&2; exit 3", "it failed (exit status: 3), and says: no such option"),
        ("echo x > \"$0\"; exit 1", "it failed (exit status: 1)"),
        ("kill -9 $$", "it failed (signal: 9"),
        ("rm \"$0\"", "it has removed the file"),
        (": > \"$0\"", "it has emptied the file"),
        (
            "rm \"$0\"; ln -s /etc/hostname \"$0\"",
            "it has put something else in the place of the file",
        ),
        ("rm \"$0\"; mkfifo \"$0\"", "it has put something else in the place of the file"),
        ("printf 'a\\0b' > \"$0\"", "is a binary file"),
        ("printf 'caf\\351\\n' > \"$0\"", "only UTF-8"),
        ("truncate -s 40M \"$0\"", "bytes; files over"),
        ("printf '\\033[31mred\\033[0m\\n\\n[1] x\\n'; exit 1", "says: red [1] x"),
        ("yes | head -c 50000000; exit 1", "it failed (exit status: 1), and says: "),
    ] {
        let site = Site::new();
        site.file("a.x", "old\n");
        std::fs::set_permissions(site.path("a.x"), PermissionsExt::from_mode(0o751)).unwrap();
        let output = write(&site, "one\n", script).await;
        assert!(!output.is_error, "{script}: {output:?}");
        assert_eq!(site.text("a.x"), "one\n", "{script}");
        assert!(site.path("a.x").symlink_metadata().unwrap().is_file(), "{script}");
        let mode = std::fs::metadata(site.path("a.x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o751, "{script}");
        assert!(output.output.contains("(stub did not format "), "{script}: {}", output.output);
        assert!(output.output.contains(said), "{script}: {}", output.output);
        assert!(output.output.len() < 1_000, "{script}: {}", output.output.len());
        let stamp = crate::confined::stamp(&std::fs::metadata(site.path("a.x")).unwrap());
        assert_eq!(output.meta()["seen"][site.path("a.x").to_str().unwrap()], stamp, "{script}");
        assert_eq!(output.spill, None);
        let spilled = std::fs::read_dir(site.root().join("spill")).map_or(0, Iterator::count);
        assert_eq!(spilled, 0, "{script}");
    }
    // a folder cannot be replaced by a file
    let site = Site::new();
    let output = write(&site, "one\n", "rm \"$0\"; mkdir \"$0\"").await;
    assert!(!output.is_error && output.output.contains("could not be put back"), "{output:?}");
}

/// The folder of the file is replaced by a link to another one: nothing is written there.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_put_back_through_a_link() {
    let site = Site::new();
    let input = json!({ "filePath": "sub/a.x", "content": "one\n" });
    let away = site.outside("");
    let script = format!("rm -r {0}; ln -s {1} {0}", site.path("sub").display(), away.display());
    let output = run(&site, "write", &input, formatting(vec![stub(&script)])).await;
    assert!(!output.is_error && output.output.contains("could not be put back"), "{output:?}");
    assert_eq!(std::fs::read_dir(away).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formatter_that_hangs_is_ended_with_its_processes() {
    let site = Site::new();
    let script = "echo x > \"$0\"; (sleep 1000; echo late > \"$0\") & sleep 1000";
    let mut cx = site.context();
    Arc::make_mut(&mut cx.workspace).formatting = Some(Arc::new(formatting(vec![stub(script)])));
    // a second is left
    cx.deadline = Some(Instant::now() + RESERVED + Duration::from_secs(1));
    let input = json!({ "filePath": "a.x", "content": "one\n" });
    let output = crate::run(&site.resolve("write", &input), cx).await;
    assert!(!output.is_error && output.output.contains("it did not end within "), "{output:?}");
    assert_eq!(site.text("a.x"), "one\n");
    // no time at all
    let mut cx = site.context();
    Arc::make_mut(&mut cx.workspace).formatting = Some(Arc::new(formatting(vec![stub(UPPER)])));
    cx.deadline = Some(Instant::now() + RESERVED / 2);
    let input = json!({ "filePath": "a.x", "content": "two\n" });
    let output = crate::run(&site.resolve("write", &input), cx).await;
    assert!(output.output.contains("the call has no time left for it"), "{output:?}");
    assert_eq!(site.text("a.x"), "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_formatters_run_in_turn_and_long_differences_are_not_quoted() {
    let site = Site::new();
    let add = stub("echo more >> \"$0\"");
    let input = json!({ "filePath": "a.x", "content": "one\n" });
    let all = vec![stub(UPPER), stub("exit 1"), add.clone()];
    let output = run(&site, "write", &input, formatting(all)).await;
    assert_eq!(site.text("a.x"), "ONE\nmore\n");
    assert_eq!(output.meta()["formatted_by"], json!(["stub", "stub"]));
    assert!(
        output.output.contains("did not format") && output.output.contains("stub and stub has")
    );
    let input = json!({ "filePath": "a.x", "content": "line of text\n".repeat(1_000) });
    let output = run(&site, "write", &input, formatting(vec![stub(UPPER)])).await;
    assert!(output.output.contains("read it before you change it again"), "{}", output.output);
    assert!(output.output.len() < 1_000);
}

/// Rustfmt alone changes neither the files of modules nor text that is no Rust.
#[tokio::test(flavor = "multi_thread")]
async fn rustfmt_formats_this_file_in_its_edition() {
    let site = Site::new();
    site.file("Cargo.toml", "[package]\nname = \"a\"\nedition = \"2024\"\n");
    site.file("sub/Cargo.toml", "[package]\nname = \"b\"\nedition.workspace = true\n");
    site.file("sub/rustfmt.toml", "max_width = 40\n");
    site.file("sub/other.rs", "fn   other(){}\n");
    let all = || {
        let mut own = formatting(Formatter::built_in().collect());
        own.trusted = false;
        own
    };
    let content = "mod other;\nasync   fn a(){ let Some(x)=y else {return}; call(one_argument, another_longer_argument) }\n";
    let input = json!({ "filePath": "sub/lib.rs", "content": content });
    let output = run(&site, "write", &input, all()).await;
    let expected = "mod other;\nasync fn a() {\n    let Some(x) = y else { return };\n    call(\n        one_argument,\n        another_longer_argument,\n    )\n}\n";
    assert_eq!(site.text("sub/lib.rs"), expected, "{}", output.output);
    assert_eq!(output.meta()["formatted_by"], json!(["rustfmt"]));
    assert_eq!(site.text("sub/other.rs"), "fn   other(){}\n");
    let input = json!({ "filePath": "sub/lib.rs", "content": "fn a( {\n" });
    let output = run(&site, "write", &input, all()).await;
    assert_eq!(site.text("sub/lib.rs"), "fn a( {\n");
    assert!(output.output.contains("lib.rs: it failed"), "{}", output.output);
}
