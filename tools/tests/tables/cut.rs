//! How much of an output the model sees: at most 2000 lines and 51 200 bytes. Commands
//! show their end, all other tools the beginning. The rest is in a file.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use leftfold_tools::{Context, Output, OutputLimits, Workspace};
use serde_json::{Value, json};

use crate::site::{Site, meta};

async fn limited(site: &Site, lines: usize, bytes: usize, name: &str, args: &Value) -> Output {
    let limits = OutputLimits { max_lines: lines, max_bytes: bytes };
    let workspace = Arc::new(Workspace { limits, ..site.workspace() });
    let resolved = site.resolve(name, args);
    leftfold_tools::run(&resolved, Context { workspace, ..site.context() }).await
}

/// Command, lines, bytes, the output below the hint; empty if nothing is cut.
const ENDS: &[(&str, usize, usize, &str)] = &[
    ("seq 3", 3, 100, ""),
    ("seq 4", 3, 100, "2\n3\n4\n"),
    ("printf '1\\n2\\n3\\n4'", 3, 100, "2\n3\n4"),
    ("printf '1\\n2\\n3'", 3, 100, ""),
    ("seq 100", 1, 100, "100\n"),
    ("printf 123456", 9, 6, ""),
    ("printf 1234567", 9, 6, "[the beginning of this line is left out] 234567"),
    ("printf '1234567\\n'", 9, 6, "[the beginning of this line is left out] 34567\n"),
    ("printf '1234567\\n8\\n'", 9, 6, "8\n"),
    // no character is cut in two
    ("printf 'aäöü'", 9, 5, "[the beginning of this line is left out] öü"),
    ("printf 'a\\xff\\xff\\xffb'", 9, 100, ""),
    ("printf '\\n\\n\\n\\n'", 2, 100, "\n\n"),
    // the end of the output is shown, also for a command that failed
    ("seq 100; echo bad >&2; exit 3", 2, 100, "100\nbad\n(exit code 3)"),
];

#[tokio::test]
async fn of_a_command_the_end_is_shown() {
    for (command, lines, bytes, expected) in ENDS {
        let site = Site::new();
        let args = json!({ "command": command });
        let output = limited(&site, *lines, *bytes, "bash", &args).await;
        let cut = !expected.is_empty();
        assert_eq!((meta(&output, "truncated"), output.spill.is_some()), (json!(cut), cut));
        let Some(spill) = output.spill else { continue };
        let (hint, shown) = output.output.split_once("\n\n").unwrap();
        assert_eq!(shown, *expected, "{command}");
        assert!(hint.starts_with("(Output cut: the last "), "{hint}");
        for word in [spill.path.as_str(), "grep", "read", "offset", "task"] {
            assert!(hint.contains(word), "{hint}");
        }
        let whole = std::fs::metadata(&spill.path).unwrap();
        assert_eq!((whole.len(), whole.mode() & 0o777), (spill.bytes, 0o600));
    }
}

/// The beginning is kept. All other outputs (errors, skills, pages) go through one function; a long
/// `skill` tests it.
#[tokio::test]
async fn of_everything_else_the_beginning() {
    let body: String = (1..=3_000).map(|n| format!("rule {n}\n")).collect();
    let skill = format!("---\nname: long\ndescription: Much to say.\n---\n{body}");
    let site = Site::with(&[(".leftfold/skills/long/SKILL.md", skill.as_bytes())]);
    let args = json!({ "name": "long" });
    for (lines, bytes) in [(2_000, 51_200), (10, 51_200), (2_000, 300)] {
        let output = limited(&site, lines, bytes, "skill", &args).await;
        let (shown, hint) = output.output.rsplit_once("\n\n").unwrap();
        assert!(shown.starts_with("Skill: long\n") && !shown.contains("rule 3000"), "{shown}");
        assert!(hint.starts_with("(Output cut: the first "), "{hint}");
        assert!(shown.len() <= bytes && shown.lines().count() <= lines, "{lines} {bytes}");
        assert_eq!(meta(&output, "truncated"), true);
        let spill = output.spill.unwrap();
        assert!(hint.contains(&spill.path), "{hint}");
        let whole = std::fs::read_to_string(&spill.path).unwrap();
        assert!(whole.ends_with("rule 3000\n") || whole.ends_with("rule 3000"), "{}", whole.len());
        assert!(whole.starts_with(shown.trim_end()));
    }
    let output = limited(&site, 9_000, 1 << 20, "skill", &args).await;
    assert!(output.spill.is_none() && output.output.contains("rule 3000"));
}

/// The hint suggests `task` only to agents that may use it.
#[tokio::test]
async fn the_hint_names_what_the_agent_has() {
    let site = Site::new();
    let limits = OutputLimits { max_lines: 5, max_bytes: 100 };
    let workspace = Workspace { limits, subagents: Vec::new(), ..site.workspace() };
    let args = json!({ "command": "seq 1000" }).to_string();
    let output = leftfold_tools::run_alone("bash", &args, workspace).await.unwrap();
    assert!(output.output.contains("with read and an offset.)"), "{}", output.output);
}

/// A tool that says where to continue needs no file in addition.
#[tokio::test]
async fn what_is_cut_by_the_tool_itself_is_not_cut_again() {
    let site = Site::new();
    for n in 0..30 {
        site.file(&format!("d/{n:02}"), "line\n".repeat(50));
    }
    for (name, args) in [
        ("read", json!({ "filePath": "d/00" })),
        ("read", json!({ "filePath": "d" })),
        ("glob", json!({ "pattern": "*" })),
        ("grep", json!({ "pattern": "line" })),
    ] {
        let output = limited(&site, 20, 400, name, &args).await;
        assert_eq!(
            (meta(&output, "truncated"), output.spill.is_none()),
            (json!(true), true),
            "{name}"
        );
        assert!(
            output.output.len() < 700 && !output.output.contains("Output cut"),
            "{}",
            output.output
        );
    }
}

/// The model may read and search the rest of its own cut output without asking.
#[tokio::test]
async fn the_rest_can_be_read_and_searched() {
    let site = Site::new();
    let output = limited(&site, 5, 100, "bash", &json!({ "command": "seq 1000" })).await;
    let path = output.spill.unwrap().path;
    for (name, args, said) in [
        ("read", json!({ "filePath": path, "offset": 500, "limit": 1 }), "500: 500\n"),
        ("grep", json!({ "pattern": "^777$", "path": path }), "Line 777: 777"),
    ] {
        let resolved = site.resolve(name, &args);
        let outside = resolved.access.iter().any(|a| a.permission == "external_directory");
        assert!(!outside, "{name}: {:?}", resolved.access);
        let output = site.run(name, &args).await;
        assert!(output.output.contains(said), "{}", output.output);
    }
}
