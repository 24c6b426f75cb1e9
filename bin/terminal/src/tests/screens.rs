//! Whole screens: what is finished, a rule, and the rows that change, with the styles of the finished
//! lines. Their golden files stand beside those of the renderers.

use leftfold_events::event::{
    Compaction, Event, Files, Finish, PartKind, Purpose, Todo, TodoItem, TodoPriority, TodoStatus,
    Turn, Usage,
};
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Envelope, Sha256, TurnConfig};
use leftfold_tools::FilePreview;

use super::*;
use crate::look::Look;
use crate::render::tests::{golden, marked, theme};
use crate::surface::Surface;
use crate::theme::{ColorDepth, Theme};

const WIDTHS: [u16; 3] = [40, 80, 120];

const ANSWER: &str = "\
## What I found

The lexer **loses** a line end; see [the manual](https://example.org/lexer) and `src/lexer.rs`.

1. `next` skips it
   - twice in ~~comments~~ strings
   - once at the end
2. the tests do not cover it

| file | lines | what changes |
|------|------:|--------------|
| src/lexer.rs | 3 | the loop counts every line end, also those in strings |
| src/lib.rs | 120 | nothing |

```rust
fn next(&mut self) -> Option<char> {
    self.chars.next() // the next one
}
```
";

const DIFF: &str = "\
--- a/src/lexer.rs
+++ b/src/lexer.rs
@@ -40,7 +40,8 @@ impl Lexer {
     fn next(&mut self) -> Option<char> {
-        let c = self.chars.next()?;
+        let c = self.chars.next_char()?;
         if c == '\\n' {
-            self.line += 1;
+            self.line = self.line.saturating_add(1);
+            self.column = 0;
         }
         Some(c)
     }
";

/// The finished lines, and the rows below a rule.
fn screen(log: &Log, width: u16, change: &[FilePreview]) -> Vec<Line<'static>> {
    let now = Instant::now();
    let look = Look { theme: theme().into(), ..look(usize::from(width)) };
    let mut app = App::new(look, SessionId::default(), PromptHistory::default());
    app.status.agent = "build".to_owned();
    app.status.model = "acme/large".to_owned();
    log.events.iter().for_each(|event| app.observe(event));
    if let Some(question) = app.next_question() {
        app.ask(&question, change, now);
    }
    let mut lines = app.take();
    lines.push(Line::from("─".repeat(usize::from(width))));
    let at = log.events.last().unwrap().at.plus(11_000);
    let later = now + Duration::from_secs(2);
    let live = app.live(40, later, at).rows;
    let cells: Vec<&str> = live.content().iter().map(|cell| cell.symbol()).collect();
    let rows = cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned());
    lines.extend(rows.map(Line::from));
    lines
}

fn check(name: &str, log: &Log, change: &[FilePreview]) {
    for width in WIDTHS {
        golden(&format!("screen-{name}-{width}.txt"), &screen(log, width, change));
    }
}

fn conversation() -> Log {
    let mut log = Log::default();
    log.prompted("Why does the lexer count wrong?\nPlease fix it.", "terminal");
    let asked = log.requested();
    log.streamed_as(asked, PartKind::Reasoning, "I should read the lexer.\n\nThen its tests.");
    log.streamed(asked, "I run the tests first.");
    let bash = log.called(asked, "bash", &json!({ "command": "cargo test --package lexer" }), None);
    let run = log.started(bash);
    let output: String = (1..=40).map(|n| format!("test lexer::case_{n} ... ok\n")).collect();
    let output = output + "test result: FAILED. 39 passed; 1 failed; finished in 0.02s\n";
    log.finished(run, &output, &json!({ "exit": 101 }), false);
    let read = log.called(asked, "read", &json!({ "filePath": "src/lexer.rs" }), None);
    let run = log.started(read);
    let metadata = json!({ "lines": 3, "total_lines": 3 });
    log.finished(run, "1: use std;\n2: mod x;\n3: fn a() {}\n", &metadata, false);
    let asked = log.requested();
    let edit = log.called(asked, "edit", &json!({ "filePath": "src/lexer.rs" }), None);
    let run = log.started(edit);
    let metadata = json!({ "additions": 3, "deletions": 2, "diff": DIFF });
    log.finished(run, "", &metadata, false);
    let asked = log.requested();
    log.streamed(asked, ANSWER);
    log
}

const UNITTEST: &str = "\
test_add (test_store.StoreTest) ... ok
test_done (test_cli.CliTest) ... FAIL
test_list (test_cli.CliTest) ... ok
test_load (test_store.StoreTest) ... ok
test_remove (test_cli.CliTest) ... FAIL
test_save (test_store.StoreTest) ... ok

======================================================================
FAIL: test_done (test_cli.CliTest)
----------------------------------------------------------------------
Traceback (most recent call last):
  File \"tests/test_cli.py\", line 21, in test_done
    self.assertEqual(store.load()[0].id, 1)
AssertionError: 2 != 1

----------------------------------------------------------------------
Ran 6 tests in 0.012s

FAILED (failures=1)
(exit code 1)";

const FIX: &str = "\
--- a/tasks/cli.py
+++ b/tasks/cli.py
@@ -18,7 +18,7 @@ def done(args):
     tasks = store.load()
\x20
-    tasks[args.id].done = True
+    tasks[args.id - 1].done = True
\x20
     store.save(tasks)
     return 0
";

/// A small repair: a plan with four tasks, tests that fail, calls that read, an edit, and the tests again.
fn repair() -> Log {
    let mut log = Log::default();
    log.prompted("The tests fail. Find out why, and repair it.", "terminal");
    let step = |log: &mut Log, calls: &[(&str, serde_json::Value, &str, serde_json::Value)]| {
        let asked = log.requested();
        let called = calls.iter().map(|(name, input, ..)| log.called(asked, name, input, None));
        let called: Vec<_> = called.collect();
        for (call, (_, _, output, metadata)) in called.into_iter().zip(calls) {
            let run = log.started(call);
            log.finished(run, output, metadata, false);
        }
    };
    let todos = |log: &mut Log, done: usize| {
        let texts = ["Reproduce the failing tests", "Find the cause", "Repair it", "Run all tests"];
        let todo = |(n, text): (usize, &&str)| {
            let status = match n {
                n if n < done => "completed",
                n if n == done => "in_progress",
                _ => "pending",
            };
            json!({ "content": text, "status": status, "priority": "medium" })
        };
        let todos: Vec<_> = texts.iter().enumerate().map(todo).collect();
        let list = serde_json::from_value(json!(todos)).unwrap();
        let metadata = json!({ "todos": todos, "open": 4 - done });
        step(log, &[("todowrite", json!({ "todos": todos }), "[…]", metadata)]);
        log.add(None, Todo::Updated { todos: list });
    };
    let bash = json!({ "command": "python3 -m unittest discover -s tests -t . -v" });
    let read = |path: &str, lines: usize| {
        let output: String = (1..=lines).map(|n| format!("{n}: code\n")).collect();
        let metadata = json!({ "lines": lines, "total_lines": lines });
        (json!({ "filePath": path }), output, metadata)
    };
    todos(&mut log, 0);
    step(&mut log, &[("bash", bash.clone(), UNITTEST, json!({ "exit": 1 }))]);
    todos(&mut log, 1);
    let [cli, store, test] =
        [("tasks/cli.py", 41), ("tasks/store.py", 30), ("tests/test_cli.py", 38)]
            .map(|(path, lines)| read(path, lines));
    let found = "tasks/cli.py\n  17: def done(args):\n";
    step(
        &mut log,
        &[
            ("read", cli.0, cli.1.as_str(), cli.2),
            ("read", store.0, store.1.as_str(), store.2),
            ("grep", json!({ "pattern": "def done" }), found, json!({ "matches": 1 })),
        ],
    );
    step(&mut log, &[("read", test.0, test.1.as_str(), test.2)]);
    todos(&mut log, 2);
    let asked = log.requested();
    log.streamed(asked, CAUSE);
    let edit = log.called(asked, "edit", &json!({ "filePath": "tasks/cli.py" }), None);
    let run = log.started(edit);
    log.finished(run, "", &json!({ "additions": 1, "deletions": 1, "diff": FIX }), false);
    todos(&mut log, 3);
    let passed = "test_done (test_cli.CliTest) ... ok\n\nRan 6 tests in 0.011s\n\nOK";
    step(&mut log, &[("bash", bash, passed, json!({ "exit": 0 }))]);
    todos(&mut log, 4);
    let asked = log.requested();
    log.streamed(asked, "All six tests pass: `done` now takes the id as the list has it.");
    log
}

const CAUSE: &str = "`done` in the CLI indexes the list by id, but ids begin at 1. I take one off.";

#[test]
fn a_repair_looks_as_recorded_and_takes_few_rows() {
    let mut log = repair();
    log.ended(EndReason::Completed, None);
    check("repair", &log, &[]);
    let shown = log.shown(119);
    let rows = |end: &str| shown.lines().position(|line| line.contains(end)).unwrap() + 1;
    assert!(rows("indexes the list by id") <= 20, "{shown}");
    assert!(rows("6,200 in") <= 40, "{shown}");
    // the line that matters is seen unopened, and nothing is there twice
    for once in ["AssertionError: 2 != 1", "exit 1", "▸ Repair it", "tests/test_cli.py"] {
        assert_eq!(shown.matches(once).count(), 1, "{once}: {shown}");
    }
}

#[test]
fn calls_that_read_share_a_row_that_grows_and_opens() {
    let log = repair();
    let has_ended = |event: &Envelope| matches!(event.event, Event::Tool(Tool::Finished(_)));
    let ended = log.events.iter().enumerate().filter(|(_, event)| has_ended(event));
    let ended: Vec<usize> = ended.map(|(at, _)| at).collect();
    // two of the three calls of a reply
    let mut some = Log { events: log.events[..=ended[4]].to_vec() };
    let mut now = app(&some, 79);
    let row = "✓ Explored: read 2  tasks/cli.py, tasks/store.py";
    assert_eq!(live(&mut now, some.events.last().unwrap().at)[0], row);
    assert!(!some.shown(79).contains("Explored: read 3"));
    some.ended(EndReason::Aborted, None);
    assert!(some.shown(79).contains(row), "{}", some.shown(79));
    let mut whole = app(&log, 79);
    drop(whole.take());
    let mut opened = String::new();
    while !opened.contains("▾ Explored: read 3, grep 1  ") {
        press(&mut whole, "^o", Instant::now());
        let lines = whole.take();
        assert!(!lines.is_empty(), "{opened}");
        opened = lines.iter().map(|line| format!("{line}\n")).collect();
    }
    for text in ["  read tasks/store.py\n    1: code\n", "  grep def done\n    tasks/cli.py\n"] {
        assert!(opened.contains(text), "{opened}");
    }
}

#[test]
fn open_tasks_are_listed_when_their_turn_ends() {
    let mut log = repair();
    let is_list = |event: &Envelope| matches!(event.event, Event::Todo(_));
    let lists = log.events.iter().enumerate().filter(|(_, event)| is_list(event));
    // three tasks are done then
    let fourth = lists.map(|(at, _)| at).nth(3).unwrap();
    log.events.truncate(fourth + 1);
    let working = live(&mut app(&log, 79), log.events.last().unwrap().at);
    assert!(working.contains(&"  ▸ Run all tests".to_owned()), "{working:?}");
    log.ended(EndReason::Aborted, None);
    let shown = log.shown(79);
    let expected = "    ✓ Repair it\n    ▸ Run all tests\ninterrupted\n";
    assert!(shown.contains(expected), "{shown}");
    // a screen without live rows lists them at once, and never again
    let plain = Theme::new(ThemeName::Auto, ColorDepth::Plain, None);
    let mut blocks = Blocks::new(Look { theme: plain.into(), ..look(79) }, SessionId::default());
    log.events.iter().for_each(|event| drop(blocks.apply(event)));
    let lines: Vec<String> = blocks.take().iter().map(Line::to_string).collect();
    assert_eq!(lines.iter().filter(|line| *line == "    · Repair it").count(), 1, "{lines:?}");
    assert!(!lines.contains(&"    ▸ Run all tests".to_owned()), "{lines:?}");
}

#[test]
fn a_conversation_looks_as_recorded() {
    let mut log = conversation();
    log.ended(EndReason::Completed, None);
    check("conversation", &log, &[]);
    // wide terminals too have one right edge
    for line in log.shown(200).lines() {
        assert!(Line::from(line).width() <= 120, "{line}");
    }
}

#[test]
fn the_reason_of_an_error_is_in_colour_and_the_advice_is_not() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    log.ended(EndReason::Error, Some("invalid x-api-key; check the key"));
    let look = Look { theme: theme().into(), ..look(79) };
    let mut blocks = Blocks::new(look, SessionId::default());
    log.events.iter().for_each(|event| drop(blocks.apply(event)));
    let lines = marked(&blocks.take());
    assert_eq!(lines[1], "{error:error: invalid x-api-key}; check the key");
}

/// A call of each built-in tool and of a server's, and what it answers.
fn results() -> Log {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let mut call =
        |name: &str, input: serde_json::Value, output: &str, metadata: serde_json::Value| {
            let call = log.called(asked, name, &input, None);
            let run = log.started(call);
            log.finished(run, output, &metadata, metadata["error_kind"].is_string());
        };
    let lines = |count: usize| (1..=count).map(|n| format!("line {n}\n")).collect::<String>();
    call("bash", json!({ "command": "make\ntest" }), &lines(20), json!({ "exit": 2 }));
    let path = json!({ "filePath": "src/lexer/of/the/language/tokens.rs", "offset": 1 });
    call("read", path, &lines(40), json!({ "lines": 40, "total_lines": 900 }));
    let entries = "lib.rs\nmain.rs\n\n(2 entries.)";
    call("read", json!({ "filePath": "src" }), entries, json!({ "entries": 2 }));
    call("glob", json!({ "pattern": "**/*.rs" }), "/p/a.rs\n/p/b.rs", json!({ "count": 2 }));
    let none = "No files found (2 searched).";
    call("grep", json!({ "pattern": "next", "path": "src" }), none, json!({ "matches": 0 }));
    let created = json!({ "additions": 2, "deletions": 0,
        "diff": "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n" });
    call("write", json!({ "filePath": "n.txt", "content": "a\nb\n" }), "Created", created);
    let edited = json!({ "additions": 3, "deletions": 2, "diff": DIFF });
    call("edit", json!({ "filePath": "src/lexer.rs" }), "Edited", edited);
    let patch =
        "*** Begin Patch\n*** Add File: z.txt\n+hello\n*** Update File: n.txt\n@@\n-c\n+d\n";
    let patched = json!({ "additions": 2, "deletions": 1, "diff": "--- /dev/null\n+++ b/z.txt\n\
        @@ -0,0 +1 @@\n+hello\n--- a/n.txt\n+++ b/n.txt\n@@ -1,2 +1,2 @@\n a\n-c\n+d\n" });
    call("apply_patch", json!({ "patchText": patch }), "Patch applied", patched);
    let page = json!({ "bytes": 48_200, "content_type": "text/html", "status": 200 });
    call("webfetch", json!({ "url": "https://example.org/manual/lexer" }), &lines(70), page);
    let found = json!({ "provider": "brave", "results": [{}, {}, {}] });
    call("websearch", json!({ "query": "unicode line ends" }), &lines(9), found.clone());
    call("codesearch", json!({ "query": "fn next_char" }), &lines(9), found);
    let answer = format!(
        "task_id: 01J\n\n<task_result>\n## Lexer\n\nIt has **two** loops.\n{}</task_result>",
        lines(9)
    );
    let task =
        json!({ "description": "explore the lexer", "prompt": "?", "subagentType": "explore" });
    call("task", task.clone(), &answer, json!({ "session": "01J" }));
    let failed = "task_id: 01J\n\nThe subagent came to no proper end: it used up its steps. This is \
        the last it said.\n<task_result>\nI was about to look.\n</task_result>";
    call("task", task, failed, json!({ "error_kind": "child" }));
    let todo = |content: &str, status: &str| json!({ "content": content, "status": status, "priority": "high" });
    let todos = json!([
        todo("read the lexer", "completed"),
        todo("find where the line end is lost, in strings and in comments alike", "in_progress"),
        todo("fix it", "pending"),
        todo("rewrite everything", "cancelled"),
    ]);
    let metadata = json!({ "todos": todos, "open": 2 });
    call("todowrite", json!({ "todos": todos }), &lines(17), metadata);
    let questions = json!({ "questions": [{ "question": "Which line end?" }] });
    let answered = "Question: Which line end?\nAnswer: both";
    call("question", questions, answered, json!({ "answers": ["both"] }));
    let skill = json!({ "name": "tidy", "directory": "/s/tidy", "files": [] });
    call("skill", json!({ "name": "tidy" }), &lines(30), skill);
    let place =
        json!({ "operation": "references", "filePath": "src/a.rs", "line": 3, "character": 7 });
    call("lsp", place, &lines(4), json!({ "operation": "references", "lines": 4 }));
    let calls = json!({ "tool_calls": [{}, {}] });
    call("batch", calls, &lines(4), json!({ "total": 2, "successful": 1, "failed": 1 }));
    call("files_stat", json!({ "path": "/srv/data", "deep": true }), &lines(30), json!({}));
    call("files_touch", json!({ "path": "/srv/data/new" }), "touched", json!({}));
    let missing = "There is no file /p/x.\nDid you mean /p/y?";
    call("read", json!({ "filePath": "x" }), missing, json!({ "error_kind": "not_found" }));
    log.ended(EndReason::Completed, None);
    log
}

#[test]
fn the_result_of_each_tool_looks_as_recorded() {
    check("results", &results(), &[]);
}

#[test]
fn a_question_looks_as_recorded() {
    let mut log = Log::default();
    let rules = vec![Rule::new("edit", "src/*", RuleAction::Ask)];
    let mut config = TurnConfig { rules, ..TurnConfig::default() };
    let source = RuleSource { from: 0, to: 1, source: "leftfold.json:7".to_owned() };
    config.options.sources.rules = vec![source];
    log.add(None, Turn::Configured(config.payloads()));
    log.prompted("go", "terminal");
    let asked = log.requested();
    let input = json!({ "filePath": "src/lexer.rs", "oldString": "a", "newString": "b" });
    let edit = log.called(asked, "edit", &input, None);
    log.asked(edit, "edit", &["src/lexer.rs"]);
    let bash = log.called(asked, "bash", &json!({ "command": "rm -rf target" }), None);
    log.asked(bash, "bash", &["rm -rf target"]);
    let change = FilePreview {
        name: "src/lexer.rs".to_owned(),
        path: "/p/src/lexer.rs".into(),
        additions: 3,
        deletions: 2,
        diff: DIFF.to_owned(),
        cut: false,
    };
    check("question", &log, &[change]);
}

#[test]
fn work_looks_as_recorded() {
    let root = SessionId::default();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    log.streamed(asked, "I look at it with others.");
    let todo = |content: &str, status| TodoItem {
        content: content.to_owned(),
        status,
        priority: TodoPriority::Medium,
    };
    let todos = vec![
        todo("read the lexer", TodoStatus::Completed),
        todo("find where the line end is lost", TodoStatus::InProgress),
        todo("fix it and add a test for every kind of string there is", TodoStatus::Pending),
    ];
    log.add(None, Todo::Updated { todos });
    let bash = log.called(asked, "bash", &json!({ "command": "cargo test" }), None);
    let run = log.started(bash);
    log.add(Some(run), Tool::Progressed { tail: "Compiling\n   Running tests".to_owned() });
    let task = log.called(asked, "task", &json!({ "description": "explore the lexer" }), None);
    log.started(task);
    let works = |log: &mut Log, calls: usize| {
        log.prompted("look", "leftfold");
        let asked = log.requested();
        for n in 0..calls {
            let path = json!({ "filePath": format!("src/file_{n}.rs") });
            log.called(asked, "read", &path, None);
        }
    };
    let first = log.spawned(root, task, "explore", |log| works(log, 2));
    log.spawned(first, 2, "search", |log| works(log, 1));
    log.spawned(root, task, "review", |log| works(log, 0));
    check("work", &log, &[]);
}

#[test]
fn a_key_shows_whole_what_was_folded() {
    let now = Instant::now();
    let mut log = conversation();
    log.ended(EndReason::Completed, None);
    let mut app = app(&log, 79);
    let before: Vec<String> = app.take().iter().map(Line::to_string).collect();
    let before = before.join("\n");
    assert!(before.contains("✻ thought for 1 s, about 11 tokens"), "{before}");
    assert!(before.contains("… 36 more lines, Ctrl-O shows all\n    test lexer::case_37"));
    assert!(before.contains("✓ read src/lexer.rs  3 lines"), "{before}");
    let mut unfold = || {
        press(&mut app, "^o", now);
        // a blank line comes first
        let lines: Vec<String> = app.take().iter().skip(1).map(Line::to_string).collect();
        (lines, app.hint.clone())
    };
    // the diff was shown whole, so the last one is what was read
    let (lines, hint) = unfold();
    assert_eq!(
        lines,
        ["▾ read src/lexer.rs  3 lines", "  1: use std;", "  2: mod x;", "  3: fn a() {}"]
    );
    assert_eq!(hint.as_deref(), Some("Ctrl-O again shows what was folded before."));
    let (lines, _) = unfold();
    assert_eq!(lines.len(), 42);
    assert_eq!(
        lines[..2],
        ["▾ bash cargo test --package lexer  41 lines", "  test lexer::case_1 ... ok"]
    );
    let (lines, hint) = unfold();
    let thoughts = ["▾ thought for 1 s, about 11 tokens  3 lines", "  I should read the lexer."];
    assert_eq!(lines[..2], thoughts);
    assert_eq!(hint, None);
    let (lines, hint) = unfold();
    assert!(lines.is_empty());
    assert_eq!(hint.as_deref(), Some("Nothing more is folded."));
}

#[test]
fn folded_output_is_clean_and_waits_for_the_answer_to_a_question() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let bash = log.called(asked, "bash", &json!({ "command": "x" }), None);
    let run = log.started(bash);
    let output = format!("\x1b]0;t\x07{}\n\x1b[2Jb\u{202e}\n", "a\n".repeat(20));
    log.finished(run, &output, &json!({ "exit": 0 }), false);
    let bash = log.called(asked, "bash", &json!({ "command": "y" }), None);
    let question = log.asked(bash, "bash", &["y"]);
    let mut app = app(&log, 79);
    show(&mut app, now);
    drop(app.take());
    press(&mut app, "^o", now + Duration::from_secs(2));
    assert!(app.take().is_empty());
    assert!(app.hint.as_ref().unwrap().contains("once the question is answered"));
    log.answered(question, Answer::Once, None, "terminal");
    app.observe(log.events.last().unwrap());
    drop(app.take());
    press(&mut app, "^o", now + Duration::from_secs(3));
    let text: String = app.take().iter().map(|line| format!("{line}\n")).collect();
    assert!(text.starts_with("\n▾ bash x") && text.ends_with("b\n"), "{text:?}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn questions_come_in_the_order_of_asking_and_are_counted() {
    let root = SessionId::default();
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let task = log.called(asked, "task", &json!({ "description": "look" }), None);
    log.started(task);
    let mut in_child = 0;
    let child = log.spawned(root, task, "explore", |log| {
        log.prompted("look", "leftfold");
        let asked = log.requested();
        let bash = log.called(asked, "bash", &json!({ "command": "first" }), None);
        in_child = log.asked(bash, "bash", &["first"]);
    });
    let bash = log.called(asked, "bash", &json!({ "command": "second" }), None);
    let second = log.asked(bash, "bash", &["second"]);
    let mut app = app(&log, 79);
    let keys = |app: &App, n: u64| app.keys_text(now + Duration::from_secs(n));
    show(&mut app, now);
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    assert!(
        shown.ends_with(&["  explore asks:".to_owned(), "? bash first".to_owned()]),
        "{shown:?}"
    );
    assert!(keys(&app, 1).ends_with("(1 of 2)"), "{}", keys(&app, 1));
    log.answered(in_child, Answer::Once, None, "terminal");
    log.events.last_mut().unwrap().session = child;
    app.observe(log.events.last().unwrap());
    show(&mut app, now + Duration::from_secs(2));
    assert!(keys(&app, 4).ends_with("(2 of 2)"), "{}", keys(&app, 4));
    // one more, while this one waits
    let bash = log.called(asked, "bash", &json!({ "command": "third" }), None);
    log.asked(bash, "bash", &["third"]);
    let new = log.events.len() - 4;
    log.events[new..].iter().for_each(|event| app.observe(event));
    assert!(keys(&app, 4).ends_with("(2 of 3)"), "{}", keys(&app, 4));
    log.answered(second, Answer::Once, None, "terminal");
    app.observe(log.events.last().unwrap());
    show(&mut app, now + Duration::from_secs(5));
    assert!(keys(&app, 7).ends_with("(3 of 3)"), "{}", keys(&app, 7));
}

#[test]
fn an_answer_stands_below_its_question() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let other = log.called(asked, "bash", &json!({ "command": "first" }), None);
    let run = log.started(other);
    let bash = log.called(asked, "bash", &json!({ "command": "second" }), None);
    let question = log.asked(bash, "bash", &["second"]);
    let mut app = app(&log, 79);
    show(&mut app, now);
    drop(app.take());
    // the first one ends while the second one asks
    log.finished(run, "", &json!({ "exit": 0 }), false);
    app.observe(log.events.last().unwrap());
    assert!(app.take().is_empty());
    assert_eq!(answers(&press(&mut app, "o", now + Duration::from_secs(1))), [Answer::Once]);
    assert!(app.take().is_empty());
    log.answered(question, Answer::Once, None, "terminal");
    app.observe(log.events.last().unwrap());
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    assert_eq!(shown, ["  allowed once", "✓ bash first  5.0 s"]);
}

#[test]
fn everything_over_a_second_shows_that_it_lives() {
    let rows = |log: &Log, after: u64| {
        let at = log.events.last().unwrap().at.plus(after);
        live(&mut app(log, 79), at).join("\n")
    };
    let mut log = Log::default();
    log.prompted("go", "terminal");
    assert!(rows(&log, 2_000).contains(" working · 2 s"), "{}", rows(&log, 2_000));
    let snapshot = log.add(None, Files::SnapshotStarted {});
    assert!(rows(&log, 900).contains(" working · "), "{}", rows(&log, 900));
    assert!(rows(&log, 3_000).contains(" taking a snapshot of the files · 3 s"));
    let (tree, files, left_out) = (String::new(), Vec::new(), Vec::new());
    log.add(Some(snapshot), Files::Snapshotted { tree, files, left_out });
    let asked = log.requested();
    assert!(rows(&log, 4_000).contains(" waiting for the model · 4 s"));
    log.streamed_as(asked, PartKind::Reasoning, &"thought ".repeat(100));
    let shown = rows(&log, 4_000);
    assert!(shown.contains(" thinking · 5 s · about 200 tokens"), "{shown}");
    assert!(shown.contains("\n  thought thought"), "{shown}");
    log.streamed(asked, &"word ".repeat(40));
    let shown = rows(&log, 4_000);
    assert!(shown.contains(" answering · 6 s · about 250 tokens"), "{shown}");
    let (model, request_sha256) = (Default::default(), Sha256::digest(b""));
    let purpose = Purpose::Compaction;
    log.add(None, Model::Requested { model, step: 1, attempt: 1, purpose, request_sha256 });
    assert!(rows(&log, 4_000).contains(" writing a summary · 4 s"), "{}", rows(&log, 4_000));
    // a summary that the user asks for is no turn
    let mut log = Log::default();
    let started = log.add(None, Compaction::Started { through: 0, auto: false });
    let model = Default::default();
    log.add(None, Model::Requested { model, step: 1, attempt: 1, purpose, request_sha256 });
    assert!(rows(&log, 4_000).contains(" writing a summary · 4 s"), "{}", rows(&log, 4_000));
    assert!(rows(&log, 4_000).contains("› Esc interrupts"), "{}", rows(&log, 4_000));
    log.add(Some(started), Compaction::Finished { summary: "all is well".to_owned() });
    assert!(!rows(&log, 4_000).contains("writing a summary"), "{}", rows(&log, 4_000));
    log.ended(EndReason::Completed, None);
    let lines: Vec<String> = app(&log, 79).take().iter().map(Line::to_string).collect();
    let last = lines.last().unwrap();
    assert!(last.ends_with("30 out · $0.0123"), "{last}");
}

#[test]
fn a_summary_says_how_full_the_context_was_and_is() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let usage = Usage { input: 92_000, output: 500, ..Usage::default() };
    let (finish, body_sha256) = (Finish::Stop, Sha256::digest(b""));
    log.add(Some(asked), Model::Finished { finish, usage, cost: 0.0, body_sha256 });
    let started = log.add(None, Compaction::Started { through: 2, auto: true });
    let summary = "The lexer is **fixed**. ".repeat(100);
    log.add(Some(started), Compaction::Finished { summary });
    let mut app = app(&log, 79);
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    let expected = [
        "[compacting: summarising 92.5k tokens]",
        "[context: 92.5k tokens -> about 600 tokens] (Ctrl-O shows it)",
    ];
    assert_eq!(shown[shown.len() - 2..], expected);
    press(&mut app, "^o", Instant::now());
    assert!(app.take()[2].to_string().starts_with("  The lexer is fixed. The lexer"));
}

#[test]
fn links_open_their_addresses_and_nothing_else() {
    let links = crate::hyperlink::Hyperlinks::default();
    let style = links.style(Default::default(), "https://a.b/c").unwrap();
    let written = Shared::default();
    let surface = Surface::on(written.clone(), Size::new(40, 9), false);
    let mut surface = surface.with_hyperlinks(links);
    let line = Line::from(vec![
        ratatui::text::Span::raw("see "),
        ratatui::text::Span::styled("here", style),
    ]);
    let mut rows = Buffer::empty(Rect::new(0, 0, 39, 1));
    rows.set_line(0, 0, &line, 39);
    surface.draw(&[line], &rows, None).unwrap();
    let bytes = String::from_utf8(written.0.take()).unwrap();
    let linked = "see \x1b]8;id=0;https://a.b/c\x1b\\here\x1b]8;;\x1b\\";
    assert_eq!(bytes.matches(linked).count(), 2, "{bytes:?}");
    assert_eq!(bytes.matches("\x1b]").count(), 4, "{bytes:?}");
}
