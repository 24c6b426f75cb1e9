//! Feeds events and keys in, and checks the lines, the live rows and the actions.

mod log;
mod rewrapping;
mod screens;
mod typist;

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use leftfold_events::event::{
    Answer, EndReason, Model, Permission, Session, StreamedInput, Subagent, Tool, Usage,
};
use leftfold_events::rules::Action as RuleAction;
use leftfold_events::{Seq, SessionId, Time};
use leftfold_view::GateRow;
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Rect, Size};
use ratatui::style::{Color, Modifier};
use ratatui::text::Line;
use serde_json::json;

use self::log::{Log, look};
use super::app::{Action, App, Entry, Leaving};
use super::blocks::Blocks;
use super::choices::{self, Choices, EarlierPrompt, Pick, PromptsFor};
use super::completion;
use super::file_search::FoundFiles;
use super::key_parser::Input;
use super::keys::Batch;
use super::live::Live;
use super::picker::Picker;
use super::prompt_history::PromptHistory;
use super::surface::Surface;
use super::theme::{ColorDepth, Theme, ThemeName};

#[test]
fn calls_and_how_they_end() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    log.streamed(asked, "I look");
    let command = json!({ "command": "cargo test\necho" });
    let bash = log.called(asked, "bash", &command, None);
    let run = log.started(bash);
    log.add(Some(run), Tool::Progressed { tail: "one\ntwo".to_owned() });
    log.finished(run, "a\x1b[31m\nb\n", &json!({ "exit": 3 }), false);
    let path = json!({ "filePath": "src/a.rs" });
    let edit = log.called(asked, "edit", &path, None);
    let run = log.started(edit);
    let diff = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n ctx\n-old\n+new\n";
    let metadata = json!({ "additions": 1, "deletions": 1, "diff": diff });
    log.finished(run, "", &metadata, false);
    log.called(asked, "read", &path, Some("no such file\nmore"));
    let read = log.called(asked, "read", &path, None);
    let run = log.started(read);
    log.finished(run, "it broke", &json!({}), true);
    let ruled = log.called(asked, "bash", &json!({ "command": "rm -rf /" }), None);
    let (call, rule) = ("c".to_owned(), None);
    log.add(Some(ruled), Permission::Ruled { call, action: RuleAction::Deny, rule });
    let lost = log.called(asked, "bash", &json!({ "command": "sleep 9" }), None);
    log.started(lost);
    log.add(Some(lost), Tool::Lost { call: "c".to_owned(), attempt: 1 });
    log.ended(EndReason::Error, Some("out of\nideas"));
    assert_eq!(
        log.shown(79),
        "\
› go

I look

✗ bash cargo test …  exit 3 · 2.0 s
    a
    b
✓ edit src/a.rs  +1 -1 · 1.0 s
    1   ctx
    2 - old
    2 + new
✗ read src/a.rs  no such file
✗ read src/a.rs  it broke · 1.0 s
– bash rm -rf /  denied by the rules
– bash sleep 9  outcome unknown after a crash
error: out of ideas
6,200 in (5,000 cached) · 30 out · $0.0123 · 31 s
"
    );
}

#[test]
fn a_prompt_without_an_answer_goes_along_with_the_next_one() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    log.ended_after(Usage::default(), EndReason::Error, Some("no key"));
    assert!(log.shown(79).contains("error: no key\n  The prompt goes along with your next one"));
}

#[test]
fn questions_and_answers() {
    let mut log = Log::default();
    log.prompted("go", "cli");
    let asked = log.requested();
    let input = json!({ "filePath": "a", "oldString": "x", "newString": "y" });
    for (reply, feedback, by) in [
        (Answer::Once, None, "terminal"),
        (Answer::Always, None, "editor\x1b[2J"),
        (Answer::Reject, Some("too\nsoon"), "terminal"),
    ] {
        let edit = log.called(asked, "edit", &input, None);
        let question = log.asked(edit, "edit", &["a"]);
        log.answered(question, reply, feedback, by);
    }
    let edit = log.called(asked, "edit", &input, None);
    let question = log.asked(edit, "edit", &["a"]);
    log.add(Some(question), Session::DeadlinePassed {});
    log.ended(EndReason::Aborted, None);
    assert_eq!(
        log.shown(79),
        "\
› go  (by cli)
  allowed once
  allowed from now on by editor: git *
– edit a  rejected: too soon
– edit a  denied: nobody answered in time
interrupted
6,200 in (5,000 cached) · 30 out · $0.0123 · 22 s
"
    );
}

#[test]
fn a_question_shows_all_that_it_is_about() {
    let long = format!("echo {}", "word ".repeat(30));
    for (input, patterns, expected) in [
        (json!({ "command": "git push" }), vec!["git push"], "? bash git push\n"),
        (json!({ "command": "a && b" }), vec!["a", "b"], "? bash a && b\n  bash: a, b\n"),
        (
            json!({ "command": "a\nb" }),
            vec!["a", "b"],
            "? bash a …\n     a\n     b\n  bash: a, b\n",
        ),
        (
            json!({ "filePath": "f", "oldString": "x", "newString": "y\nz" }),
            vec!["f"],
            "? bash f\n    -x\n    +y\n    +z\n",
        ),
        (
            json!({ "command": long.trim() }),
            vec![long.trim()],
            &format!(
                "? bash echo{}\n↪ {}\n↪ {}\n",
                " word".repeat(13),
                " word".repeat(15),
                " word".repeat(2)
            ),
        ),
        (
            json!({ "command": "rm 'My  Docs' ", "workdir": "/x", "description": "y", "timeout": 9 }),
            vec!["rm 'My  Docs'"],
            "? bash rm 'My  Docs'\\x20\n     workdir: /x\n  bash: rm 'My  Docs'\n",
        ),
        (
            json!({ "description": "harmless", "script": "c\nd", "steps": ["a", "b"] }),
            vec!["x"],
            "? srv_x harmless\n     script:\n       c\n       d\n     steps: [\"a\",\"b\"]\n  \
             bash: x\n",
        ),
        (
            json!({ "command": format!("cat <<E\n{}E", "x\n".repeat(60)) }),
            vec!["cat"],
            &format!(
                "? bash cat <<E …\n     cat <<E\n{}     E\n  bash: cat\n",
                "     x\n".repeat(60)
            ),
        ),
    ] {
        let mut log = Log::default();
        log.prompted("go", "terminal");
        let asked = log.requested();
        let name = if input.get("script").is_some() { "srv_x" } else { "bash" };
        let called = log.called(asked, name, &input, None);
        log.asked(called, "bash", &patterns);
        let mut blocks = Blocks::new(look(79), SessionId::default());
        log.events.iter().for_each(|event| drop(blocks.apply(event)));
        drop(blocks.take());
        let question = blocks.transcript.open_questions().next().cloned().unwrap();
        blocks.question(&question, &[]);
        let shown: String = blocks.take().iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(shown, format!("\n{expected}"));
    }
}

/// Directly above the keys stands everything that the call needs.
#[test]
fn no_blanks_and_no_lines_push_a_command_off_the_screen() {
    let blank = "\u{2800}";
    for between in ["\n".repeat(10_000), " ".repeat(10_000), format!("\n{}", blank.repeat(9_000))] {
        let mut log = Log::default();
        log.prompted("go", "terminal");
        let asked = log.requested();
        let command = json!({ "command": format!("ls{between};rm -rf x"), "description": "Looks" });
        let called = log.called(asked, "bash", &command, None);
        log.asked(called, "bash", &["ls", "rm -rf x"]);
        let mut blocks = Blocks::new(look(79), SessionId::default());
        log.events.iter().for_each(|event| drop(blocks.apply(event)));
        drop(blocks.take());
        let question = blocks.transcript.open_questions().next().cloned().unwrap();
        blocks.question(&question, &[]);
        let lines: Vec<String> = blocks.take().iter().map(ToString::to_string).collect();
        assert_eq!(lines.last().map(String::as_str), Some("  bash: ls, rm -rf x"));
    }
}

#[test]
fn a_reason_for_which_there_is_no_room_stands_below_its_call() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let path = json!({ "filePath": "src/lexer/tokens.rs" });
    log.called(asked, "edit", &path, Some("the text to replace is not in the file"));
    let read = log.called(asked, "read", &path, None);
    let run = log.started(read);
    log.finished(run, "there is no such file", &json!({ "error_kind": "not_found" }), true);
    let edit = log.called(asked, "edit", &path, None);
    let question = log.asked(edit, "edit", &["src/lexer/tokens.rs"]);
    log.answered(question, Answer::Reject, Some("because the tests come first"), "terminal");
    assert_eq!(
        log.shown(39),
        "\
› go

✗ edit src/lexer/tokens.rs
    the text to replace is not in the
    file
✗ read src/lexer/tokens.rs
    there is no such file · 1.0 s
– edit src/lexer/tokens.rs
    rejected: because the tests come
    first
"
    );
}

#[test]
fn lines_that_were_cut_for_the_model_are_counted() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let bash = log.called(asked, "bash", &json!({ "command": "seq 5001" }), None);
    let run = log.started(bash);
    let numbers: String = (3002..=5001).map(|n| format!("{n}\n")).collect();
    let cut =
        format!("(Output cut: the last 2000 of 5001 lines, 23898 bytes in all.)\n\n{numbers}");
    log.finished(run, &cut, &json!({ "exit": 0, "truncated": true }), false);
    let shown = log.shown(39);
    let expected =
        "✓ bash seq 5001  1.0 s\n    … 4996 lines above, Ctrl-O shows\n    2000 lines\n    4997\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_question_that_was_asked_before_stands_above_its_answer() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let options = json!([{ "label": "a" }]);
    let questions = json!({ "questions": [{ "question": "Which?", "options": options }] });
    let call = log.called(asked, "question", &questions, None);
    let question = log.asked(call, "question", &["Which?"]);
    let (before, now) = (log.events.len(), Instant::now());
    log.answered(question, Answer::Once, Some("a"), "terminal");
    let mut app = App::new(look(79), SessionId::default(), PromptHistory::default());
    log.events[..before].iter().for_each(|event| app.observe(event));
    let shown = |app: &mut App| app.take().iter().map(Line::to_string).collect::<Vec<_>>();
    let mut past = App::new(look(79), SessionId::default(), PromptHistory::default());
    past.show_past(log.events.len() as Seq);
    log.events.iter().for_each(|event| past.observe(event));
    assert_eq!(shown(&mut past), ["› go", "", "? Which?", "  → a"]);
    // one that was shown is not shown again
    show(&mut app, now);
    assert!(shown(&mut app).contains(&"? Which?".to_owned()));
    press(&mut app, "1\n", now + Duration::from_secs(1));
    app.observe(&log.events[before]);
    assert_eq!(shown(&mut app), ["  → a"]);
}

#[test]
fn the_costs_of_subagents_count_for_good() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let task = log.called(asked, "task", &json!({ "description": "look" }), None);
    let session = log.spawned(SessionId::default(), task, "explore", |_| {});
    let ended = Subagent::Ended {
        session,
        answer: String::new(),
        reason: EndReason::Completed,
        usage: Usage::default(),
        cost: 0.5,
    };
    log.add(Some(task), ended);
    log.ended(EndReason::Completed, None);
    let mut app = app(&log, 79);
    let lines: Vec<String> = app.take().iter().map(Line::to_string).collect();
    let last = lines.last().unwrap();
    assert!(last.contains("$0.5123, of which subagents $0.5000"), "{last}");
    assert_eq!(app.cost(), Some(0.5));
    log.prompted("more", "terminal");
    app.observe(log.events.last().unwrap());
    assert_eq!(app.cost(), Some(0.5));
}

#[test]
fn a_retry_says_that_the_text_above_is_void() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let retry = || Model::RetryScheduled { attempt: 1, error: "busy".to_owned() };
    let asked = log.requested();
    log.add(Some(asked), retry());
    let asked = log.requested();
    log.streamed(asked, "half");
    log.add(Some(asked), retry());
    assert_eq!(
        log.shown(79),
        "› go\n[retrying in 30 s, attempt 2: busy]\n\nhalf\n[retrying in 30 s, attempt 2: busy; the text above is \
         void]\n"
    );
}

/// An app that has seen the events.
fn app(log: &Log, width: usize) -> App {
    let mut app = App::new(look(width), SessionId::default(), PromptHistory::default());
    log.events.iter().for_each(|event| app.observe(event));
    app
}

/// The live rows, without blanks at their ends, and without a blank one at the top.
fn live(app: &mut App, at: Time) -> Vec<String> {
    let Live { rows, .. } = app.live(40, Instant::now(), at);
    let width = usize::from(rows.area.width);
    let cells: Vec<&str> = rows.content().iter().map(|cell| cell.symbol()).collect();
    let rows = cells.chunks(width).map(|row| row.concat().trim_end().to_owned());
    rows.skip_while(String::is_empty).collect()
}

#[test]
fn a_running_call_has_one_row_that_changes() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let rows = |log: &Log| live(&mut app(log, 79), log.events.last().unwrap().at);
    assert_eq!(rows(&log)[0], "⠋ waiting for the model · 0 s");
    log.streamed(asked, "I look");
    // a blank row stands between the text and the others
    assert_eq!(rows(&log)[..2], ["I look", ""]);
    let bash = log.called(asked, "bash", &json!({ "command": "make" }), None);
    let run = log.started(bash);
    log.add(Some(run), Tool::Progressed { tail: format!("1\n{}\x1b[A", "2".repeat(100)) });
    let shown = rows(&log);
    assert_eq!(shown[0], "⠋ bash make · 1 s");
    assert!(shown[1].starts_with("  └ 222") && shown[1].ends_with('…'), "{shown:?}");
    log.finished(run, "done", &json!({ "exit": 0 }), false);
    assert!(!rows(&log).concat().contains("222"));
    assert!(log.shown(79).ends_with("I look\n\n✓ bash make  2.0 s\n    done\n"));
}

#[test]
fn a_call_that_the_model_writes_grows() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let written = |bytes| {
        let calls = vec![StreamedInput { id: "c".to_owned(), name: "write".to_owned(), bytes }];
        Tool::InputStreamed { calls }
    };
    let rows = |log: &Log| live(&mut app(log, 79), log.events.last().unwrap().at);
    log.add(Some(asked), written(900));
    assert!(rows(&log)[0].ends_with(" writing a file (900 B) · 1 s"), "{:?}", rows(&log));
    log.add(Some(asked), written(12_340));
    assert!(rows(&log)[0].ends_with(" writing a file (12.3 kB) · 2 s"), "{:?}", rows(&log));
    let call = log.called(asked, "write", &json!({ "filePath": "a" }), None);
    log.started(call);
    assert!(!rows(&log).concat().contains("kB"), "{:?}", rows(&log));
}

/// The inputs of these keys; `^x` is Ctrl-x, `⎋` Esc.
fn batch(keys: &str, at: Instant) -> Batch {
    let mut inputs = Vec::new();
    let mut chars = keys.chars();
    while let Some(c) = chars.next() {
        let (code, modifiers) = match c {
            '\n' => (KeyCode::Enter, KeyModifiers::NONE),
            '⎋' => (KeyCode::Esc, KeyModifiers::NONE),
            '⇧' => (KeyCode::Enter, KeyModifiers::SHIFT),
            '↑' => (KeyCode::Up, KeyModifiers::NONE),
            '↓' => (KeyCode::Down, KeyModifiers::NONE),
            '⇥' => (KeyCode::Tab, KeyModifiers::NONE),
            '⇤' => (KeyCode::BackTab, KeyModifiers::SHIFT),
            '^' => (KeyCode::Char(chars.next().unwrap()), KeyModifiers::CONTROL),
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        inputs.push(Input::Key(KeyEvent::new(code, modifiers)));
    }
    Batch { inputs, at }
}

/// Presses the keys one by one, or at once.
fn press(app: &mut App, keys: &str, now: Instant) -> Vec<Action> {
    let inputs = batch(keys, now).inputs.into_iter();
    inputs.flat_map(|input| app.input(Batch { inputs: vec![input], at: now }, now)).collect()
}

fn submitted(actions: &[Action]) -> Vec<&str> {
    let texts = actions.iter().filter_map(|action| match action {
        Action::Submit(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn prompts_wait_for_the_end_of_the_turn() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let mut app = app(&log, 79);
    assert!(press(&mut app, "one\ntwo\nthree", now).is_empty());
    assert_eq!(app.queue, ["one", "two"]);
    let rows = live(&mut app, Time::default());
    assert!(rows.contains(&"  queued: two".to_owned()), "{rows:?}");
    assert!(app.next_prompt().is_none());
    // the last one can be changed
    press(&mut app, "^u↑ more\n", now);
    assert_eq!(app.queue, ["one", "two more"]);
    log.ended(EndReason::Completed, None);
    app.observe(log.events.last().unwrap());
    let next = app.next_prompt().into_iter().collect::<Vec<_>>();
    assert_eq!(submitted(&next), ["one"]);
    // not before that one is in the log
    assert!(app.next_prompt().is_none());
    let rows = live(&mut app, Time::default());
    assert!(rows.contains(&"  sending: one".to_owned()), "{rows:?}");
}

#[test]
fn an_interrupt_gives_everything_back() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let mut app = app(&log, 79);
    press(&mut app, "one\ntwo\ndraft", now);
    assert!(matches!(press(&mut app, "⎋", now)[..], [Action::Interrupt]));
    log.ended(EndReason::Aborted, None);
    app.observe(log.events.last().unwrap());
    assert_eq!(app.composer.text(), "one\ntwo\ndraft");
    assert!(app.queue.is_empty() && app.next_prompt().is_none());
    // a prompt that was not sent comes back too
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["one\ntwo\ndraft"]);
    app.settle(true);
    assert_eq!(app.composer.text(), "one\ntwo\ndraft");
}

#[test]
fn control_c_clears_then_interrupts_then_leaves() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let mut app = app(&log, 79);
    assert!(press(&mut app, "text^c", now).is_empty());
    assert!(app.hint.as_ref().unwrap().contains("again interrupts"), "{:?}", app.hint);
    assert!(matches!(press(&mut app, "^c", now)[..], [Action::Interrupt]));
    assert!(app.hint.as_ref().unwrap().contains("again leaves"));
    assert!(matches!(press(&mut app, "^c", now)[..], [Action::Leave(Leaving::Interrupted)]));
    log.ended(EndReason::Aborted, None);
    app.observe(log.events.last().unwrap());
    assert!(press(&mut app, "^c", now).is_empty());
    assert!(matches!(press(&mut app, "^c", now)[..], [Action::Leave(Leaving::Done)]));
    assert!(press(&mut app, "^cx", now).is_empty());
    // the text that was cleared is the last entry of the history
    press(&mut app, "^u↑", now);
    assert_eq!(app.composer.text(), "text");
}

#[test]
fn escape_goes_back_only_if_it_is_pressed_twice_at_rest() {
    let now = Instant::now();
    let later = now + Duration::from_secs(2);
    let mut app = App::new(look(79), SessionId::default(), PromptHistory::default());
    assert!(press(&mut app, "⎋", now).is_empty());
    assert!(press(&mut app, "⎋", later).is_empty());
    assert!(matches!(press(&mut app, "⎋", later)[..], [Action::ListPrompts]));
    let prompt = |seq, text: &str, files: &[&str]| EarlierPrompt {
        seq,
        text: text.to_owned(),
        files: files.iter().map(|&file| file.to_owned()).collect(),
    };
    let prompts = [prompt(9, "second", &[]), prompt(2, "first", &["src/a.rs", "b.rs", "c.rs"])];
    app.choose_prompt(&prompts, PromptsFor::Any);
    let rows = live(&mut app, Time::default());
    assert!(rows.iter().any(|row| row.starts_with("> second  no files changed")), "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with("  first   a.rs and 2 more")), "{rows:?}");
    assert!(press(&mut app, "↓\n", now).is_empty());
    let rows = live(&mut app, Time::default());
    assert!(rows.iter().any(|row| row.starts_with("> take it back")), "{rows:?}");
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/revert 2"]);
    app.settle(false);
    app.choose_prompt(&prompts, PromptsFor::Any);
    press(&mut app, "\n↓↓", now);
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/fork 9 files"]);
    app.settle(false);
    app.choose_prompt(&prompts, PromptsFor::Any);
    press(&mut app, "⎋draft", now);
    assert_eq!(app.composer.text(), "draft");
}

fn themes() -> Picker<Pick> {
    choices::themes(ThemeName::Auto, |name| Theme::new(name, ColorDepth::TrueColor, None))
}

/// An app without a session.
fn fresh() -> App {
    App::new(look(79), SessionId::default(), PromptHistory::default())
}

#[test]
fn commands_are_completed_as_they_are_typed() {
    let now = Instant::now();
    let mut app = fresh();
    // `/rm` may be a command of the project, which has not been read yet
    assert_eq!(submitted(&press(&mut app, "/rm\n", now)), ["/rm"]);
    app.settle(false);
    app.take_choices(Choices { has_all: true, ..Choices::default() });
    press(&mut app, "/mo", now);
    let rows = live(&mut app, Time::default());
    assert!(rows[0] == "› /mo" && rows[1].starts_with("> /model"), "{rows:?}");
    assert!(rows[1].ends_with("use another model for the next prompts"), "{rows:?}");
    assert!(std::mem::take(&mut app.wants_choices));
    // Tab writes the name, Enter carries it out
    press(&mut app, "⇥", now);
    assert_eq!(app.composer.text(), "/model ");
    assert_eq!(submitted(&press(&mut app, "^u/mo\n", now)), ["/model "]);
    app.settle(false);
    // a command that needs an argument waits for it
    assert!(press(&mut app, "/ren\n", now).is_empty());
    assert_eq!(app.composer.text(), "/rename ");
    assert_eq!(submitted(&press(&mut app, "a title\n", now)), ["/rename a title"]);
    app.settle(false);
    // Esc closes the menu, and Enter sends the line as it is
    press(&mut app, "/mo⎋", now);
    assert!(!live(&mut app, Time::default()).concat().contains("/model"));
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/mo"]);
    app.settle(false);
    // an earlier command is no text that is being written
    press(&mut app, "↑", now);
    assert!(!live(&mut app, Time::default()).concat().contains("/model"));
    press(&mut app, "↑", now);
    assert_eq!(app.composer.text(), "/rename a title");
}

#[test]
fn events_and_formats_are_completed() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    log.called(asked, "bash", &json!({ "command": "ls" }), None);
    log.ended(EndReason::Completed, None);
    let mut app = app(&log, 79);
    press(&mut app, "/explain ", now);
    let rows = live(&mut app, Time::default());
    assert_eq!(
        rows[1..],
        [
            "> 6  turn.ended completed after 1 step, $0.0123",
            "  3  tool.called bash ls",
            "  2  model.requested /, step 1",
            "  1  turn.prompted \"go\" → /",
        ],
        "{rows:?}"
    );
    press(&mut app, "3", now);
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/explain 3"]);
    app.settle(false);
    press(&mut app, "/export h⇥", now);
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/export html"]);
}

#[test]
fn a_question_mark_shows_keys_and_stays() {
    let now = Instant::now();
    let mut app = fresh();
    press(&mut app, "?", now);
    let hint = app.hint.clone().unwrap();
    assert!(hint.starts_with("Enter sends · Alt-Enter begins a line · Esc interrupts"), "{hint}");
    let rows = live(&mut app, Time::default());
    assert!(rows[0] == "› ?" && rows.len() > 2, "{rows:?}");
    assert_eq!(submitted(&press(&mut app, " why\n", now)), ["? why"]);
    assert_eq!(app.hint, None);
}

#[test]
fn a_command_is_not_written_behind_a_prompt_that_was_taken_back() {
    let now = Instant::now();
    for (keys, sent) in [
        ("/redo\n", "/redo"),
        ("\n", "fix it"),
        (" now\n", "fix it now"),
        (" /redo\n", "fix it /redo"),
    ] {
        let mut app = fresh();
        app.take_back("fix it");
        assert_eq!(submitted(&press(&mut app, keys, now)), [sent], "{keys:?}");
    }
    let mut app = fresh();
    app.take_back("fix it");
    app.bring_back();
    assert!(app.composer.is_empty());
    press(&mut app, "↑", now);
    assert_eq!(app.composer.text(), "fix it");
    // a draft is not dropped
    let mut app = fresh();
    press(&mut app, "draft", now);
    app.take_back("fix it");
    press(&mut app, "/", now);
    assert_eq!(app.composer.text(), "fix it\ndraft/");
}

#[test]
fn hints_are_shown_whole_and_placeholders_lose_whole_parts() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let mut app = app(&log, 39);
    let rows = live(&mut app, Time::default());
    assert!(rows.contains(&"› Esc interrupts".to_owned()), "{rows:?}");
    app.blocks.look.width = 79;
    let rows = live(&mut app, Time::default());
    assert!(rows.contains(&"› Esc interrupts · Enter queues a prompt".to_owned()), "{rows:?}");
    app.blocks.look.width = 39;
    app.hint = Some("permissions: ask, for the next prompts of the agent build".to_owned());
    let rows = live(&mut app, Time::default());
    let hint = ["permissions: ask, for the next prompts", "of the agent build"];
    assert_eq!(rows[rows.len() - 2..], hint);
}

#[test]
fn files_and_agents_are_completed_after_an_at_sign() {
    let now = Instant::now();
    let mut app = fresh();
    let about = "Reads much".to_owned();
    let mentions = vec![completion::Entry { name: "explore".to_owned(), about }];
    app.take_choices(Choices { mentions, has_all: true, ..Choices::default() });
    press(&mut app, "see @", now);
    assert_eq!(app.wanted_files.take().as_deref(), Some(""));
    let rows = live(&mut app, Time::default());
    assert_eq!(rows[1], "> @explore  Reads much");
    press(&mut app, "ma", now);
    assert_eq!(app.wanted_files.take().as_deref(), Some("ma"));
    let found = |query: &str, paths: &[&str]| FoundFiles {
        query: query.to_owned(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        is_complete: true,
    };
    app.files_found(found("ma", &["src/main.rs", "src/mapping/", "Makefile"]));
    // an answer asks for nothing
    assert_eq!(app.wanted_files, None);
    assert_eq!(
        live(&mut app, Time::default())[1..],
        ["> @src/main.rs", "  @src/mapping/", "  @Makefile"]
    );
    // a folder can go on
    press(&mut app, "↓\n", now);
    assert_eq!(app.composer.text(), "see @src/mapping/");
    app.files_found(found("src/mapping/", &["src/mapping/a.rs"]));
    press(&mut app, "\n", now);
    assert_eq!(app.composer.text(), "see @src/mapping/a.rs ");
    assert_eq!(submitted(&press(&mut app, "please\n", now)), ["see @src/mapping/a.rs please"]);
    app.settle(false);
    // Enter right after text that was typed fast sends that text
    assert_eq!(submitted(&press(&mut app, "@src/lib.rs\n", now)), ["@src/lib.rs"]);
}

#[test]
fn a_list_closes_when_a_question_appears() {
    let now = Instant::now();
    let (_, mut app, _) = asking();
    app.pick(themes());
    assert!(live(&mut app, Time::default()).concat().contains("> auto"));
    show(&mut app, now);
    assert!(app.picker.is_none());
    let late = now + Duration::from_secs(1);
    // and none opens beside it
    app.pick(themes());
    assert!(app.picker.is_none());
    assert_eq!(answers(&press(&mut app, "o", late)), [Answer::Once]);
}

#[test]
fn a_theme_shows_itself_while_it_is_selected() {
    let now = Instant::now();
    let mut app = fresh();
    app.pick(themes());
    let shown = |app: &mut App, key: &str| {
        press(app, key, now);
        let live = app.live(24, now, Time::default());
        let text = live.rows.content.iter().map(Cell::symbol).collect::<String>();
        assert!(text.contains("radius.powi(2) * PI"), "{text}");
        let style = |cell: &Cell| cell.style().fg.filter(|fg| matches!(fg, Color::Rgb(..)));
        live.rows.content.iter().filter_map(style).collect::<HashSet<Color>>()
    };
    let light = shown(&mut app, "↓");
    let dark = shown(&mut app, "↓");
    assert!(light.len() > 4 && light.is_disjoint(&dark), "{light:?} {dark:?}");
    let bright = shown(&mut app, "↓");
    assert!(bright.is_disjoint(&light), "{bright:?}");
    assert_eq!(submitted(&press(&mut app, "\n", now)), ["/theme high-contrast-light"]);
}

#[test]
fn keys_choose_the_agent_and_the_mode() {
    let now = Instant::now();
    let mut app = fresh();
    assert!(matches!(press(&mut app, "⇥", now)[..], [Action::NextAgent]));
    assert!(matches!(press(&mut app, "⇤", now)[..], [Action::NextMode]));
    assert!(press(&mut app, "text⇥", now).is_empty());
}

#[test]
fn commands_run_beside_a_turn_unless_they_need_its_end() {
    let now = Instant::now();
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let mut app = app(&log, 79);
    assert_eq!(submitted(&press(&mut app, "/model x\n", now)), ["/model x"]);
    assert!(press(&mut app, "/new\n", now).is_empty());
    assert_eq!(app.queue, ["/new"]);
    app.job = Some(("something".to_owned(), now));
    assert!(press(&mut app, "/model y\n", now).is_empty());
    assert_eq!(submitted(&press(&mut app, "/help\n", now)), ["/help"]);
}

/// A turn that asks whether a command may run.
fn asking() -> (Log, App, Seq) {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let bash = log.called(asked, "bash", &json!({ "command": "git push" }), None);
    let question = log.asked(bash, "bash", &["git push"]);
    let app = app(&log, 79);
    (log, app, question)
}

fn show(app: &mut App, now: Instant) {
    let question = app.next_question().unwrap();
    app.ask(&question, &[], now);
}

fn answers(actions: &[Action]) -> Vec<Answer> {
    let answers = actions.iter().filter_map(|action| match action {
        Action::Answer(_, reply) => Some(reply.answer),
        _ => None,
    });
    answers.collect()
}

#[test]
fn text_goes_on_into_the_composer_and_answers_nothing() {
    let now = Instant::now();
    let after = now + Duration::from_secs(1);
    let (mut log, mut app, question) = asking();
    press(&mut app, "al", now);
    show(&mut app, now);
    assert!(answers(&press(&mut app, "so", after)).is_empty());
    assert_eq!(app.composer.text(), "also");
    assert!(live(&mut app, Time::default())[0].contains("keys do not answer while you write"));
    // put aside, and the question begins anew
    press(&mut app, "⎋", after);
    assert!(answers(&press(&mut app, "o", after + Duration::from_millis(699))).is_empty());
    press(&mut app, "⎋", after);
    let late = after + Duration::from_secs(3);
    assert_eq!(app.keys_text(late), "  allow? [o]nce  [a]lways  [n]o  no [b]ecause…");
    // keys at once are pasted or typed ahead
    assert!(answers(&app.input(batch("oo", late), late)).is_empty());
    press(&mut app, "⎋", late);
    let later = late + Duration::from_secs(1);
    assert_eq!(answers(&press(&mut app, "o", later)), [Answer::Once]);
    assert_eq!(app.composer.text(), "also\no\noo");
    // no other question until the answer is in the log
    assert!(app.next_question().is_none());
    log.answered(question, Answer::Once, None, "terminal");
    app.observe(log.events.last().unwrap());
    assert!(app.next_question().is_none() && app.asked.is_none());
}

#[test]
fn a_word_that_begins_with_a_is_kept_whole() {
    let now = Instant::now();
    let (_, mut app, _) = asking();
    show(&mut app, now);
    let after = now + Duration::from_secs(1);
    assert!(answers(&press(&mut app, "also", after)).is_empty());
    assert_eq!(app.composer.text(), "also");
}

#[test]
fn always_shows_what_it_allows_and_takes_a_second_key() {
    let now = Instant::now();
    let (_, mut app, _) = asking();
    show(&mut app, now);
    drop(app.take());
    let after = now + Duration::from_secs(1);
    assert!(answers(&press(&mut app, "a", after)).is_empty());
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    assert_eq!(shown, ["  always, in this project, without asking again:", "    bash: git *"]);
    assert_eq!(
        app.keys_text(after),
        "  [y] allows it from now on, [e] edits it first; any other key goes back"
    );
    assert_eq!(answers(&press(&mut app, "y", after)), [Answer::Always]);
}

#[test]
fn a_paste_is_a_draft_while_a_question_is_open() {
    let now = Instant::now();
    let after = now + Duration::from_secs(1);
    let (_, mut app, _) = asking();
    show(&mut app, now);
    for text in ["o", "\n", "o\ny"] {
        let inputs = vec![Input::Paste(text.to_owned())];
        assert!(answers(&app.input(Batch { inputs, at: after }, after)).is_empty());
        assert!(answers(&press(&mut app, "", after)).is_empty());
    }
    assert_eq!(app.composer.text(), "o\no\ny");
}

#[test]
fn a_reason_is_typed_after_because() {
    let now = Instant::now();
    let after = now + Duration::from_secs(1);
    let (_, mut app, _) = asking();
    show(&mut app, now);
    press(&mut app, "b", after);
    assert_eq!(app.sign(), "  because: ");
    let actions = press(&mut app, "too soon\n", after);
    assert!(
        matches!(&actions[..], [Action::Answer(_, reply)]
            if reply.answer == Answer::Reject && reply.feedback.as_deref() == Some("too soon")),
        "{actions:?}"
    );
}

#[test]
fn nothing_is_finished_between_a_question_and_its_keys() {
    let now = Instant::now();
    let (mut log, mut app, question) = asking();
    drop(app.take());
    show(&mut app, now);
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    assert_eq!(shown, ["", "? bash git push"]);
    let read = log.called(2, "read", &json!({ "filePath": "a" }), Some("gone"));
    log.events[usize::try_from(read).unwrap() - 1..].iter().for_each(|event| app.observe(event));
    assert!(app.take().is_empty());
    log.answered(question, Answer::Reject, None, "editor");
    app.observe(log.events.last().unwrap());
    let shown: Vec<String> = app.take().iter().map(Line::to_string).collect();
    assert_eq!(shown[0], "  → closed: answered elsewhere, or no longer asked");
    assert_eq!(shown[1..], ["✗ read a  gone", "– bash git push  rejected by editor"]);
}

#[test]
fn the_screen_fits_any_terminal() {
    for columns in [1, 2, 5, 30, 40, 80, 120] {
        for height in [1, 2, 3, 5, 10, 60] {
            let (_, mut app, _) = asking();
            press(
                &mut app,
                "some text that is longer than most of these terminals are wide",
                Instant::now(),
            );
            app.blocks.resize(columns);
            let live = app.live(height, Instant::now(), Time::default());
            assert!(
                live.rows.area.height <= height && usize::from(live.rows.area.width) == columns
            );
            // a turn is running, so the cursor is drawn
            assert_eq!(live.cursor, None);
            let is_cursor = |cell: &&Cell| cell.modifier.contains(Modifier::REVERSED);
            let drawn = live.rows.content().iter().filter(is_cursor).count();
            assert_eq!(drawn, 1, "{columns} {height}");
            show(&mut app, Instant::now());
            let live = app.live(height, Instant::now(), Time::default());
            assert!(live.rows.area.height <= height);
        }
    }
}

#[test]
fn earlier_prompts_are_searched_and_the_draft_comes_back() {
    let now = Instant::now();
    let mut app = fresh();
    for text in ["fix the lexer", "fix the parser", "explain"] {
        app.remember(text);
    }
    let text = |app: &App| app.composer.text();
    press(&mut app, "draft", now);
    press(&mut app, "^r", now);
    press(&mut app, "FIX", now);
    assert_eq!(text(&app), "fix the parser");
    press(&mut app, "^r", now);
    assert_eq!(text(&app), "fix the lexer");
    // there is no older one
    press(&mut app, "^r", now);
    assert_eq!(text(&app), "fix the lexer");
    press(&mut app, "⎋", now);
    assert_eq!(text(&app), "draft");
    press(&mut app, "^r", now);
    press(&mut app, "exp", now);
    assert!(press(&mut app, "\n", now).is_empty());
    assert_eq!((text(&app), app.search.is_none()), ("explain".to_owned(), true));
    press(&mut app, "^r", now);
    press(&mut app, "nothing has this", now);
    assert!(live(&mut app, Time::default()).join("\n").contains("no earlier prompt has it"));
}

#[test]
fn the_cursor_is_drawn_while_the_terminal_may_be_resized() {
    let now = Instant::now();
    let mut app = fresh();
    let cursor = |app: &mut App, at| app.live(20, at, Time::default()).cursor;
    assert!(cursor(&mut app, now).is_some());
    let until = now + Duration::from_millis(600);
    app.resizes_until = Some(until);
    assert_eq!((cursor(&mut app, now), app.alarm(now)), (None, Some(until)));
    assert!(cursor(&mut app, until).is_some());
    assert_eq!(app.alarm(until), None);
}

/// The output of a surface, as a terminal shows it.
struct Drawn {
    parser: vt100::Parser,
    surface: Surface<Shared>,
    written: Shared,
}

#[derive(Clone, Debug, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drawn {
    fn new(columns: u16, rows: u16) -> Self {
        let size = |n| std::num::NonZero::new(n).unwrap();
        let written = Shared::default();
        let surface = Surface::on(written.clone(), Size::new(columns, rows), false);
        Self { parser: vt100::Parser::new(size(rows), size(columns), 0), surface, written }
    }

    fn draw(&mut self, finished: &[Line<'_>], live: &[&str], cursor: (u16, u16)) -> String {
        let area = Rect::new(0, 0, self.surface.width(), u16::try_from(live.len()).unwrap());
        let mut rows = Buffer::empty(area);
        for (y, line) in (0..).zip(live) {
            rows.set_line(0, y, &Line::from(*line), area.width);
        }
        self.surface.draw(finished, &rows, Some(cursor.into())).unwrap();
        self.parser.process(&self.written.0.take());
        let (y, x) = self.parser.screen().cursor_position();
        format!("{}@{x},{y}", self.parser.screen().contents())
    }
}

#[test]
fn finished_lines_stay_above_rows_that_are_drawn_in_place() {
    let mut drawn = Drawn::new(20, 6);
    assert_eq!(drawn.draw(&[], &["› "], (2, 0)), "› @2,0".replace("› @", "›@"));
    assert_eq!(
        drawn.draw(&[Line::from("one")], &["working", "› x"], (3, 1)),
        "one\nworking\n› x@3,2"
    );
    assert_eq!(drawn.draw(&[], &["work", "› xy"], (4, 1)), "one\nwork\n› xy@4,2");
    assert_eq!(drawn.draw(&[Line::from("two")], &["›"], (2, 0)), "one\ntwo\n›@2,2");
    let long = Line::from("a line that the terminal wraps");
    let shown = drawn.draw(&[long], &["›"], (2, 0));
    assert_eq!(shown, "one\ntwo\na line that the terminal wraps\n›@2,4");
    // more than the screen has
    let many: Vec<Line<'_>> = (0..9).map(|n| Line::from(n.to_string())).collect();
    assert_eq!(drawn.draw(&many, &["a", "›"], (2, 1)), "5\n6\n7\n8\na\n›@2,5");
    // another size: the live rows are drawn again
    drawn.surface.resize(Size::new(30, 6)).unwrap();
    drawn.parser.process(&drawn.written.0.take());
    assert_eq!(drawn.draw(&[], &["b", "›"], (2, 1)), "5\n6\n7\n8\nb\n›@2,5");
}

#[test]
fn nothing_in_a_line_drives_the_terminal() {
    let mut drawn = Drawn::new(60, 6);
    let hostile = "a\x1b[2Jb\x1b]0;t\x07\u{202e}c\u{9b}31m";
    let shown = drawn.draw(&[Line::from(hostile)], &[hostile], (0, 0));
    assert!(shown.starts_with("a\\x1b[2Jb\\x1b]0;t\\x07\\u{202e}c\\u{9b}31m\n"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Keys, pastes, resizes, events and questions in any order.
    #[test]
    fn a_random_typist_loses_nothing_and_answers_no_question_unseen(
        steps in prop::collection::vec((0_u64..1_500, 0_usize..19, 1_u16..130), 1..120),
    ) {
        let mut now = Instant::now();
        let mut log = Log::default();
        let mut app = App::new(look(79), SessionId::default(), PromptHistory::default());
        let (mut typed, mut sent) = (Vec::new(), String::new());
        let (mut shown_at, mut open, mut request) = (now, None, 0);
        for (n, (wait, step, size)) in steps.into_iter().enumerate() {
            now += Duration::from_millis(wait);
            let had_draft = !app.composer.is_empty() && app.entry == Entry::Prompt;
            let word = format!("<{n}>");
            let actions = match step {
                0..=2 => {
                    // the key that leads back from "always" is no text
                    let leads_back = app.asked.is_some() && app.gate.row(now) == GateRow::Confirm;
                    // a list is searched for what is typed
                    if app.picker.is_none() {
                        typed.push(word[usize::from(leads_back)..].to_owned());
                    }
                    press(&mut app, &word, now)
                }
                3 => {
                    typed.extend(app.picker.is_none().then(|| word.clone()));
                    app.input(batch(&word, now), now)
                }
                4 => {
                    typed.extend(app.picker.is_none().then(|| word.clone()));
                    app.input(Batch { inputs: vec![Input::Paste(word)], at: now }, now)
                }
                5 | 6 => press(&mut app, "\n", now),
                7 => press(&mut app, "⎋", now),
                8 => press(&mut app, "^c", now),
                9 => press(&mut app, ["o", "y", "a", "n", "b"][usize::from(size) % 5], now),
                10 => {
                    app.blocks.resize(usize::from(size));
                    Vec::new()
                }
                11 if !app.is_working() => {
                    log.prompted("go", "terminal");
                    request = log.requested();
                    Vec::new()
                }
                12 if app.is_working() && open.is_none() => {
                    let call = log.called(request, "bash", &json!({ "command": "x" }), None);
                    open = Some(log.asked(call, "bash", &["x"]));
                    Vec::new()
                }
                13 if app.is_working() => {
                    log.ended([EndReason::Completed, EndReason::Aborted][usize::from(size) % 2], None);
                    open = None;
                    Vec::new()
                }
                14 => press(&mut app, "⇧", now),
                16 => press(&mut app, ["/", "@", "⇥", "↓", "⇤"][usize::from(size) % 5], now),
                17 => {
                    let paths = vec!["src/main.rs".to_owned()];
                    app.files_found(FoundFiles { paths, ..FoundFiles::default() });
                    app.take_choices(Choices::default());
                    Vec::new()
                }
                18 => {
                    app.pick(themes());
                    Vec::new()
                }
                _ => app.next_prompt().into_iter().collect(),
            };
            for action in actions {
                match action {
                    Action::Submit(text) => {
                        sent += &text;
                        app.settle(usize::from(size) % 3 == 0);
                    }
                    Action::Answer(_, reply) => {
                        let is_reason = reply.feedback.is_some();
                        sent += &reply.feedback.unwrap_or_default();
                        prop_assert!(app.asked.is_none());
                        prop_assert!(is_reason || (now >= shown_at + leftfold_view::QUIET_DELAY && !had_draft));
                        if let Some(question) = open.take() {
                            log.answered(question, reply.answer, None, "terminal");
                        }
                    }
                    _ => {}
                }
            }
            let seen = usize::try_from(app.seen()).unwrap();
            log.events[seen..].iter().for_each(|event| app.observe(event));
            if app.next_question().is_some() {
                show(&mut app, now);
                shown_at = now;
            }
            app.live(size, now, Time::default());
            drop(app.take());
        }
        let history = app.history_text();
        let rest = app.unsent().concat();
        for word in typed {
            prop_assert!(
                sent.contains(&word) || rest.contains(&word) || history.contains(&word),
                "{word} is in none of {sent:?}, {rest:?}, {history:?}"
            );
        }
    }
}
