//! Properties that hold for every tool and any arguments.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::Site;
use crate::{Error, Output, model_tools, run_alone};

/// Valid arguments, for files that do not exist.
fn right(tool: &str) -> Value {
    match tool {
        "read" => json!({ "filePath": "f", "offset": 1, "limit": 1 }),
        "write" => json!({ "filePath": "f", "content": "x" }),
        "edit" => {
            json!({ "filePath": "f", "oldString": "a", "newString": "b", "replaceAll": false })
        }
        "multiedit" => {
            json!({ "filePath": "f", "edits": [{ "oldString": "a", "newString": "b" }] })
        }
        "apply_patch" => {
            json!({ "patchText": "*** Begin Patch\n*** Delete File: f\n*** End Patch" })
        }
        "glob" => json!({ "pattern": "*", "path": "." }),
        "grep" => json!({ "pattern": "a", "path": ".", "include": "*", "ignoreCase": false }),
        "bash" => {
            json!({ "command": "true", "timeout": 1000, "workdir": ".", "description": "none" })
        }
        "batch" => json!({ "toolCalls": [{ "tool": "read", "parameters": { "filePath": "f" } }] }),
        "todowrite" => json!({ "todos": [{ "content": "a", "status": "pending" }] }),
        "webfetch" => json!({ "url": "http://127.0.0.1:1/", "format": "text", "timeout": 1 }),
        "websearch" | "codesearch" => json!({ "query": "a", "numResults": 1 }),
        "lsp" => {
            json!({ "operation": "hover", "filePath": "f", "line": 1, "character": 1 })
        }
        "skill" => json!({ "name": "none" }),
        _ => json!({}),
    }
}

fn hostile(site: &Site) -> Vec<Value> {
    let mut deep = json!(0);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!(" \n"),
        json!("a\0b"),
        json!("/".repeat(10_000)),
        json!("x".repeat(1 << 20)),
        json!("{[(*\\".repeat(1 << 17)),
        json!("../../../outside/new"),
        json!(site.outside("new")),
        json!("away/new"),
        json!("loop"),
        json!("pipe"),
        json!("raw"),
        json!([]),
        json!({}),
        json!(["x", 1, null]),
        deep,
    ]
}

/// Checks that a failed call gives its reason with a stable word.
fn assert_told(done: Result<Output, Error>, what: &str) {
    match done {
        Ok(output) if output.is_error => {
            let kind = output.meta()["error_kind"].as_str().map(str::to_owned);
            assert!(kind.is_some_and(|kind| !kind.is_empty()), "{what}: {output:?}");
        }
        Ok(_) => {}
        Err(error) => assert!(!error.kind().is_empty() && !error.to_string().is_empty(), "{what}"),
    }
}

#[tokio::test]
async fn nothing_that_a_tool_is_called_with_does_harm() {
    let site = Site::new();
    symlink("loop", site.path("loop")).unwrap();
    symlink(site.outside(""), site.path("away")).unwrap();
    let raw = std::ffi::OsStr::from_bytes(b"not-\xff-utf8");
    symlink(raw, site.path("raw")).unwrap();
    site.fifo("pipe");
    let hostile = hostile(&site);
    for tool in model_tools() {
        let right = right(tool.name());
        let schema = tool.schema().value();
        let fields = schema["properties"].as_object().unwrap();
        for field in fields.keys() {
            for value in &hostile {
                site.file("f", "a\n");
                let mut args = right.clone();
                args[field] = value.clone();
                let mut what = format!("{} with {field} = {value}", tool.name());
                what.truncate(what.char_indices().nth(200).map_or(what.len(), |(at, _)| at));
                let text = args.to_string();
                let call = run_alone(tool.name(), &text, site.workspace());
                let done = tokio::time::timeout(Duration::from_secs(60), call).await;
                assert_told(done.unwrap_or_else(|_| panic!("{what} does not end")), &what);
                let outside: Vec<_> = std::fs::read_dir(site.outside("")).unwrap().collect();
                assert!(outside.is_empty(), "{what} left {outside:?}");
            }
        }
        let texts =
            [("", 1), ("null", 1), ("7", 1), ("\"x\"", 1), ("[", 100_000), ("{\"a\":", 100_000)];
        for (text, times) in texts {
            let done = run_alone(tool.name(), &text.repeat(times), site.workspace()).await;
            assert_told(done, tool.name());
        }
    }
}

type Trap = fn(&Site);

/// A command of the sandbox may change the worktree at any moment: here between the check of a call and its run.
#[tokio::test]
async fn a_link_that_a_command_has_made_leads_no_write_outside() {
    let patch =
        |text: &str| json!({ "patchText": format!("*** Begin Patch\n{text}\n*** End Patch") });
    let edits = json!([{ "oldString": "old", "newString": "new" }]);
    let calls = [
        ("write", json!({ "filePath": "sub/f", "content": "new" })),
        ("edit", json!({ "filePath": "sub/f", "oldString": "old", "newString": "new" })),
        ("multiedit", json!({ "filePath": "sub/f", "edits": edits })),
        ("apply_patch", patch("*** Update File: sub/f\n@@\n-old\n+new")),
        ("apply_patch", patch("*** Delete File: sub/f")),
        ("apply_patch", patch("*** Update File: sub/f\n*** Move to: moved\n@@\n-old\n+new")),
        ("write", json!({ "filePath": "sub/made/f", "content": "new" })),
        ("apply_patch", patch("*** Add File: sub/made/f\n+new")),
    ];
    let traps: [(&str, Trap); 4] = [
        ("hard link", |site| {
            std::fs::remove_file(site.path("sub/f")).unwrap();
            std::fs::hard_link(site.outside("f"), site.path("sub/f")).unwrap();
        }),
        ("link", |site| {
            std::fs::remove_file(site.path("sub/f")).unwrap();
            symlink(site.outside("f"), site.path("sub/f")).unwrap();
        }),
        ("link of the folder", |site| {
            std::fs::rename(site.path("sub"), site.path("gone")).unwrap();
            symlink(site.outside(""), site.path("sub")).unwrap();
        }),
        ("link of a folder to make", |site| {
            symlink(site.outside("made"), site.path("sub/made")).unwrap();
        }),
    ];
    for (tool, input) in &calls {
        for (name, trap) in &traps {
            for is_early in [true, false] {
                let site = Site::new();
                site.file("sub/f", "old\n");
                std::fs::write(site.outside("f"), "old\n").unwrap();
                let what = format!("{tool} {input}, {name}, before the check: {is_early}");
                if is_early {
                    trap(&site);
                }
                let resolved = site.resolve(tool, input);
                if is_early {
                    let outside = site.outside("").display().to_string();
                    let leads_out = resolved.paths.iter().any(|path| path.starts_with(&outside));
                    let is_asked =
                        resolved.access.iter().any(|it| it.permission == "external_directory");
                    assert!(!leads_out || is_asked, "{what}: {resolved:?}");
                    if leads_out {
                        continue;
                    }
                } else {
                    trap(&site);
                }
                let _ = crate::run(&resolved, site.context()).await;
                assert_eq!(std::fs::read_to_string(site.outside("f")).unwrap(), "old\n", "{what}");
                assert_eq!(std::fs::read_dir(site.outside("")).unwrap().count(), 1, "{what}");
            }
        }
    }
}
