//! A call's result as people read it: counts beside the call, and the part below it that says most. The model reads the
//! output itself.

use leftfold_events::event::{Finished, TodoItem, TodoStatus};
use serde_json::Value;

use crate::clean::{clean, clean_line};
use crate::diff::FileDiff;
use crate::words::{bytes, counted, first_line};

/// The lines to show of a text that nothing else is known of.
const HEAD: usize = 3;
/// The most lines that say why a command has failed.
const MAX_REASONS: usize = 3;
/// The last lines of an output that are searched for the reason.
const MAX_SEARCHED: usize = 20_000;

/// A result, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// The call failed, or its command has ended with another code than 0.
    pub is_failed: bool,
    /// Short texts that stand beside the call.
    pub notes: Vec<String>,
    pub body: ResultBody,
    /// The lines of a failed command's output that say why, by their places from 0 on.
    pub reasons: Vec<usize>,
}

/// The part of a result that stands below the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultBody {
    Changes(Vec<FileDiff>),
    /// Output of a command. Its end says most.
    Output(String),
    Todos(Vec<TodoItem>),
    /// The Markdown that a subagent has answered. Its start says most.
    Answer(String),
    /// Any other text, and how many of its first lines say something; the notes may say it all.
    Text(String, usize),
}

impl CallResult {
    pub fn from_finished(finished: &Finished) -> Self {
        let metadata = finished.metadata.value();
        let exit = metadata.get("exit").and_then(Value::as_i64);
        let output = clean(&finished.output);
        let output = match exit.filter(|exit| *exit != 0) {
            // the notes have it
            Some(exit) => output.trim_end().trim_end_matches(&format!("(exit code {exit})")),
            None => output.as_str(),
        };
        let body = body(finished, &metadata, output.trim_end());
        let mut notes = Vec::new();
        if finished.is_error {
            notes.push(clean_line(why(output)));
        } else {
            notes.extend(count(&metadata, &body));
        }
        notes.extend(exit.filter(|exit| *exit != 0).map(|exit| format!("exit {exit}")));
        notes.extend(changed_lines(&metadata));
        notes.retain(|note| !note.is_empty());
        let is_failed = finished.is_error || exit.is_some_and(|exit| exit != 0);
        let reasons = match &body {
            ResultBody::Output(text) if is_failed => reasons(text),
            _ => Vec::new(),
        };
        Self { is_failed, notes, body, reasons }
    }
}

/// The lines of a failed command's output that say why: first those of the kind that says most.
fn reasons(output: &str) -> Vec<usize> {
    let count = output.lines().count();
    let ranked = output.lines().enumerate().skip(count.saturating_sub(MAX_SEARCHED));
    let ranked: Vec<_> = ranked.filter_map(|(at, line)| Some((at, rank(line)?))).collect();
    let best = ranked.iter().map(|(_, rank)| *rank).min();
    let best = ranked.into_iter().filter(|(_, rank)| Some(*rank) == best);
    best.map(|(at, _)| at).take(MAX_REASONS).collect()
}

/// How much a line says of why a command has failed: 0 says most. `None`: nothing.
fn rank(line: &str) -> Option<u8> {
    const STARTS: [&str; 8] = [
        "error[", "error: ", "Error: ", "ERROR: ", "fatal: ", "panic: ", "assertion ", "npm error ",
    ];
    const PARTS: [&str; 5] =
        [": error: ", ": error TS", ": fatal error: ", "panicked at ", ": command not found"];
    const WEAK_STARTS: [&str; 8] = [
        "FAIL:", "FAIL ", "FAILED ", "--- FAIL", "not ok ", "make: ***", "ERROR ",
        "test result: FAILED",
    ];
    const WEAK_PARTS: [&str; 3] =
        [": No such file or directory", ": Permission denied", " ... FAILED"];
    // pytest begins such lines with an `E`
    let text = line.strip_prefix("E  ").unwrap_or(line).trim_start();
    let name = text.split([':', ' ']).next().unwrap_or_default();
    let is_exception = name.len() > 5
        && ["Error", "Exception"].iter().any(|end| name.ends_with(end))
        && (name.len() == text.trim_end().len() || text[name.len()..].starts_with(':'));
    let has = |starts: &[&str], parts: &[&str]| {
        starts.iter().any(|start| text.starts_with(start))
            || parts.iter().any(|part| text.contains(part))
    };
    if is_exception || has(&STARTS, &PARTS) {
        return Some(0);
    }
    has(&WEAK_STARTS, &WEAK_PARTS).then_some(1)
}

/// The places of at most `most` lines of an output that are not blank: those of `reasons`, and the last of the others.
pub fn excerpt(lines: &[&str], reasons: &[usize], most: usize) -> Vec<usize> {
    let is_blank = |at: &usize| lines[*at].trim().is_empty();
    let mut places: Vec<usize> = reasons.iter().copied().take(most).collect();
    let others = (0..lines.len()).rev().filter(|at| !reasons.contains(at) && !is_blank(at));
    places.extend(others.take(most - places.len()));
    places.sort_unstable();
    places
}

/// The tasks of a list that are new or have another state than before.
pub fn changed_todos<'a>(
    before: &'a [TodoItem],
    after: &'a [TodoItem],
) -> impl Iterator<Item = &'a TodoItem> {
    let is_same = |todo: &TodoItem, other: &TodoItem| {
        (&todo.content, todo.status) == (&other.content, other.status)
    };
    after.iter().filter(move |todo| !before.iter().any(|other| is_same(todo, other)))
}

fn body(finished: &Finished, metadata: &Value, output: &str) -> ResultBody {
    if let Some(files) = FileDiff::of_call(finished) {
        return ResultBody::Changes(files);
    }
    if let Ok(todos) = serde_json::from_value::<Vec<TodoItem>>(metadata["todos"].clone()) {
        return ResultBody::Todos(todos);
    }
    if let Some(answer) = answer_of(output) {
        return ResultBody::Answer(answer.trim().to_owned());
    }
    if metadata.get("exit").is_some() {
        return ResultBody::Output(output.to_owned());
    }
    let is_skill = metadata["directory"].is_string() && metadata["files"].is_array();
    let is_counted = finished.is_error || is_skill || counts(metadata).is_some();
    // one line alone stands beside the call
    let head = if is_counted || output.lines().count() < 2 { 0 } else { HEAD };
    ResultBody::Text(output.to_owned(), head)
}

/// How much there is.
fn count(metadata: &Value, body: &ResultBody) -> Option<String> {
    match body {
        ResultBody::Changes(_) | ResultBody::Output(_) => None,
        ResultBody::Todos(todos) => {
            let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
            Some(format!("{done} of {} done", todos.len()))
        }
        ResultBody::Answer(text) => Some(counted(text.lines().count(), "line")),
        ResultBody::Text(text, _) => {
            counts(metadata).or_else(|| match text.trim().lines().count() {
                0 => None,
                1 => Some(first_line(text).to_owned()),
                lines => Some(counted(lines, "line")),
            })
        }
    }
}

/// The counts that a built-in tool gives of its output.
fn counts(metadata: &Value) -> Option<String> {
    let number = |key: &str| metadata.get(key).and_then(Value::as_u64);
    let more = if metadata["truncated"] == true { ", and there are more" } else { "" };
    if let Some(lines) = number("lines") {
        return Some(match number("total_lines") {
            Some(total) if total > lines => format!("{lines} of {total} lines"),
            _ => counted(lines, "line"),
        });
    }
    if let Some(entries) = number("entries") {
        return Some(match entries {
            1 => format!("1 entry{more}"),
            entries => format!("{entries} entries{more}"),
        });
    }
    if let Some(files) = number("count") {
        return Some(format!("{}{more}", counted(files, "file")));
    }
    if let Some(matches) = number("matches") {
        return Some(match matches {
            1 => format!("1 match{more}"),
            matches => format!("{matches} matches{more}"),
        });
    }
    if let Some(answers) = metadata.get("answers").and_then(Value::as_array) {
        let texts = answers.iter().filter_map(Value::as_str).map(clean_line);
        return Some(texts.collect::<Vec<_>>().join(", "));
    }
    if let Some(results) = metadata.get("results").and_then(Value::as_array) {
        return Some(counted(results.len(), "result"));
    }
    if let Some(calls) = number("total") {
        return Some(match number("failed") {
            Some(failed @ 1..) => format!("{}, {failed} failed", counted(calls, "call")),
            _ => counted(calls, "call"),
        });
    }
    let size = bytes(number("bytes")?);
    let kind = metadata.get("content_type").and_then(Value::as_str).unwrap_or_default();
    let kind = clean_line(kind.split(';').next().unwrap_or_default().trim());
    Some(format!("{size} {kind}").trim_end().to_owned())
}

/// The numbers of added and removed lines.
fn changed_lines(metadata: &Value) -> Option<String> {
    let number = |key| metadata.get(key).and_then(Value::as_u64);
    let (additions, deletions) = (number("additions")?, number("deletions")?);
    Some(format!("+{additions} -{deletions}"))
}

/// The answer of a subagent in the output of its `task`, without the marks that are for the model.
pub(crate) fn answer_of(output: &str) -> Option<&str> {
    let (_, answer) = output.strip_prefix("task_id: ")?.split_once("<task_result>\n")?;
    Some(answer.trim_end().strip_suffix("</task_result>")?.trim_end_matches('\n'))
}

/// The reason in an error's first line; of a subagent that has failed without its answer, which stands below.
fn why(output: &str) -> &str {
    let failed = output.split_once("<task_result>").filter(|_| answer_of(output).is_some());
    let said = failed.and_then(|(before, _)| before.split_once('\n')).map(|(_, said)| said.trim());
    let said = said.and_then(|said| said.split_once(": ")).map(|(_, why)| why);
    said.and_then(|why| why.split('.').next()).unwrap_or_else(|| first_line(output))
}

#[cfg(test)]
mod tests {
    use leftfold_events::Json;
    use serde_json::json;

    use super::*;

    fn of(output: &str, metadata: &Value, is_error: bool) -> CallResult {
        CallResult::from_finished(&Finished {
            call: "c".to_owned(),
            title: String::new(),
            output: output.into(),
            is_error,
            metadata: Json::from_value(metadata),
            spill: None,
            attachments: Vec::new(),
        })
    }

    #[test]
    fn each_tool_says_how_much_it_has_found() {
        for (output, metadata, notes) in [
            ("1: a\n\n(End of file: 1 lines.)", json!({ "lines": 1, "total_lines": 1 }), "1 line"),
            ("1: a\n…", json!({ "lines": 20, "total_lines": 90 }), "20 of 90 lines"),
            ("a\n\n(1 entries.)", json!({ "entries": 1 }), "1 entry"),
            ("/a\n/b", json!({ "count": 2, "truncated": false }), "2 files"),
            ("/a", json!({ "count": 100, "truncated": true }), "100 files, and there are more"),
            ("No files found (2 searched).", json!({ "matches": 0 }), "0 matches"),
            ("Brave: …", json!({ "results": [{}, {}] }), "2 results"),
            ("Question: a\nAnswer: b", json!({ "answers": ["b", "c\nd"] }), "b, c d"),
            ("## 1 read\n", json!({ "total": 3, "failed": 1 }), "3 calls, 1 failed"),
            (
                "# Title\n\ntext",
                json!({ "bytes": 12_300, "content_type": "text/html; charset=utf-8" }),
                "12.3 kB text/html",
            ),
            ("one line", json!({}), "one line"),
            ("a\nb", json!({}), "2 lines"),
            ("", json!({}), ""),
            ("a\nb", json!({ "exit": 0 }), ""),
            ("a\nb", json!({ "exit": 3 }), "exit 3"),
            ("done", json!({ "diff": "", "additions": 2, "deletions": 1 }), "+2 -1"),
        ] {
            assert_eq!(of(output, &metadata, false).notes.join(" · "), notes, "{output:?}");
        }
        assert_eq!(of("a\x1b[2J\nb", &json!({ "lines": 3 }), true).notes, ["a"]);
    }

    #[test]
    fn the_lines_that_say_why_a_command_failed_are_found() {
        for (output, expected) in [
            (
                "test_done ... FAIL\n=====\nFAIL: test_done\nTraceback (most recent call last):\n  File \"t.py\", \
                 line 2\nAssertionError: 2 != 1\n\nRan 1 test\n\nFAILED (failures=1)\n(exit code 1)",
                &["AssertionError: 2 != 1"][..],
            ),
            (
                "   Compiling x\nerror[E0308]: mismatched types\n --> src/a.rs:1:2\nwarning: unused",
                &["error[E0308]: mismatched types"],
            ),
            (
                "running 2 tests\ntest a ... ok\nthread 'b' panicked at src/a.rs:3:5:\nassertion `left == right` \
                 failed\n  left: 2\n right: 1\ntest result: FAILED. 1 passed",
                &["thread 'b' panicked at src/a.rs:3:5:", "assertion `left == right` failed"],
            ),
            ("E       KeyError: 'x'\nFAILED tests/a.py::t", &["E       KeyError: 'x'"]),
            ("ok\nFAILED tests/a.py::t - x", &["FAILED tests/a.py::t - x"]),
            ("a.c:3:1: error: expected ‘;’", &["a.c:3:1: error: expected ‘;’"]),
            ("src/a.ts(1,2): error TS2322: no", &["src/a.ts(1,2): error TS2322: no"]),
            ("--- FAIL: TestA (0.00s)\nFAIL", &["--- FAIL: TestA (0.00s)"]),
            (
                "ls: cannot access 'x': No such file or directory",
                &["ls: cannot access 'x': No such file or directory"],
            ),
            ("the Error of my ways\n0 errors", &[]),
        ] {
            let result = of(output, &json!({ "exit": 1 }), false);
            let ResultBody::Output(text) = &result.body else { panic!("no output") };
            assert!(!text.contains("(exit code"), "{text}");
            let lines: Vec<&str> = text.lines().collect();
            let told: Vec<&str> = result.reasons.iter().map(|at| lines[*at]).collect();
            assert_eq!(told, expected);
            assert_eq!(of(output, &json!({ "exit": 0 }), false).reasons, [0; 0]);
        }
        let lines = ["a", "b", "", "c", "d"];
        assert_eq!(excerpt(&lines, &[0], 3), [0, 3, 4]);
        assert_eq!(excerpt(&lines, &[], 3), [1, 3, 4]);
        assert_eq!(excerpt(&lines, &[], 5), [0, 1, 3, 4]);
    }

    #[test]
    fn the_body_is_what_says_most() {
        let body = |output: &str, metadata| of(output, &metadata, false).body;
        let todo = json!({ "content": "a", "status": "completed", "priority": "low" });
        let ResultBody::Todos(todos) = body("[…]", json!({ "todos": [todo] })) else {
            panic!("no todos")
        };
        assert_eq!(todos[0].content, "a");
        assert_eq!(body("x\n", json!({ "exit": 0 })), ResultBody::Output("x".to_owned()));
        assert_eq!(body("a\nb", json!({})), ResultBody::Text("a\nb".to_owned(), 3));
        assert_eq!(body("a\nb", json!({ "lines": 2 })), ResultBody::Text("a\nb".to_owned(), 0));
        // todos of a server of others
        assert!(matches!(body("a", json!({ "todos": "x" })), ResultBody::Text(..)));
    }

    #[test]
    fn the_answer_of_a_subagent_has_no_marks() {
        let task = "task_id: 01J\n\n<task_result>\nIt is **so**.\n\nReally.\n</task_result>";
        let result = of(task, &json!({ "session": "01J" }), false);
        assert_eq!(result.body, ResultBody::Answer("It is **so**.\n\nReally.".to_owned()));
        assert_eq!(result.notes, ["3 lines"]);
        let failed = "task_id: 1\n\nThe subagent came to no proper end: it failed. This is the last it said.\n\
            <task_result>\nno key\n</task_result>";
        let result = of(failed, &json!({}), true);
        assert_eq!(result.notes, ["it failed"]);
        assert_eq!(result.body, ResultBody::Answer("no key".to_owned()));
        // marks in the answer itself
        let nested =
            "task_id: 1\n\n<task_result>\na </task_result> <task_result>\nb\n</task_result>";
        assert_eq!(answer_of(nested), Some("a </task_result> <task_result>\nb"));
        assert_eq!(answer_of("task_id: 1\n\n<task_result>\ncut off"), None);
        assert_eq!(answer_of("<task_result>\na\n</task_result>"), None);
    }
}
