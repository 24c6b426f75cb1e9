//! Feeds events in, and checks the terminal's text with and without colours, and the cursor's
//! movements.

mod log;

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use leftfold_events::SessionId;
use leftfold_events::event::{Answer, EndReason, Model, Permission, Session, StreamedInput, Tool};
use leftfold_events::rules::Action;
use serde_json::json;

use self::log::Log;
use super::render::Renderer;
use super::screen::Screen;
use super::style::{Look, Style};

/// A log with a reply in pieces of `chunk` characters.
fn reply(text: &str, chunk: usize) -> Log {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(chunk).for_each(|piece| log.streamed(asked, &piece.iter().collect::<String>()));
    log.ended(EndReason::Completed, None);
    log
}

const TEXT: &str = "\
# A *heading*

Some **bold text** and `code`, in a paragraph that is long enough to be wrapped at eighty columns, and 漢字 too.
- an item that is long enough to be wrapped as well, so that its second line is indented
  2. a nested one
> quoted

```rust
let not_wrapped = \"**no markup**, however long the line of code may be, it stays as it was written\";
```
| a | b |
|---|---|
***
the end";

const PLAIN_80: &str = "\
# A *heading*

Some **bold text** and `code`, in a paragraph that is long enough to be wrapped
at eighty columns, and 漢字 too.
- an item that is long enough to be wrapped as well, so that its second line is
  indented
  2. a nested one
> quoted

```rust
let not_wrapped = \"**no markup**, however long the line of code may be, it stays as it was written\";
```
| a | b |
|---|---|
***
the end
6,200 in (5,000 cached) · 30 out · $0.0123";

const COLOUR_200: &str = "\
<1;36>A<> <1;3;36>heading<>

Some <1>bold<> <1>text<> and <36>code<>, in a paragraph that is long enough to be wrapped at eighty columns, and 漢
字 too.
<2>• <>an item that is long enough to be wrapped as well, so that its second line is indented
<2>  2. <>a nested one
<2>│ <><2>quoted<>

<2>```rust<>
let not_wrapped = \"**no markup**, however long the line of code may be, it stays as it was written\";
<2>```<>
| a | b |
|---|---|
<2>────────────────────────────────────────<>
the end
<2>6,200 in (5,000 cached) · 30 out · $0.0123";

/// Makes colour codes readable.
fn legible(text: &str) -> String {
    let mut out = String::new();
    for (i, piece) in text.split("\x1b[").enumerate() {
        match piece.split_once('m').filter(|_| i > 0) {
            Some(("0", rest)) => out.extend(["<>", rest]),
            Some((code, rest)) => out.extend(["<", code, ">", rest]),
            None => out.push_str(piece),
        }
    }
    out
}

#[test]
fn markdown_is_the_same_however_it_streams() {
    for chunk in [1, 2, 3, 7, 40, 5_000] {
        let log = reply(TEXT, chunk);
        let plain = log.shown(false, 80);
        assert!(plain.starts_with(PLAIN_80), "{chunk}: {plain}");
        let coloured = legible(&log.shown(true, 200));
        assert!(coloured.starts_with(COLOUR_200), "{chunk}: {coloured}");
    }
}

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
    log.add(Some(ruled), Permission::Ruled { call, action: Action::Deny, rule });
    let lost = log.called(asked, "bash", &json!({ "command": "sleep 9" }), None);
    log.started(lost);
    log.add(Some(lost), Tool::Lost { call: "c".to_owned(), attempt: 1 });
    log.ended(EndReason::Error, Some("out of\nideas"));
    assert_eq!(
        legible(&log.shown(true, 80)),
        "\
I look
<31>✗<> bash cargo test …  <2>exit 3 · 2.0 s<>
    <2>a<>
    <2>b<>
<32>✓<> edit src/a.rs  <2>+1 -1 · 1.0 s<>
    <2> ctx<>
    <31>-old<>
    <32>+new<>
<31>✗<> read src/a.rs  <2>no such file<>
<31>✗<> read src/a.rs  <2>it broke · 1.0 s<>
<33>–<> bash rm -rf /  <2>denied by the rules<>
<33>–<> bash sleep 9  <2>outcome unknown after a crash<>
<31>error: out of ideas<>
<2>6,200 in (5,000 cached) · 30 out · $0.0123 · 31 s<>
"
    );
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
        log.shown(false, 80),
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
        let look = Look { style: Style::default(), columns: 80 };
        let mut renderer = Renderer::new(look, SessionId::default(), 0);
        log.events.iter().for_each(|event| drop(renderer.show(event)));
        let question = renderer.transcript.open_questions().next().cloned().unwrap();
        assert_eq!(renderer.question(&question, &[]), expected);
    }
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
        log.shown(false, 80),
        "[retrying in 30 s, attempt 2: busy]\nhalf\n[retrying in 30 s, attempt 2: busy; the text above is void]\n"
    );
}

/// Bytes on their way to a terminal.
#[derive(Clone, Default)]
struct Painted(Rc<RefCell<Vec<u8>>>);

impl Write for Painted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The screen of a terminal with `columns`, after each event was painted `after` that many
/// milliseconds.
fn screens(log: &Log, columns: u16, after: u64) -> Vec<String> {
    let size = |n| std::num::NonZero::new(n).unwrap();
    let mut parser = vt100::Parser::new(size(40), size(columns), 0);
    let look = Look { style: Style { colour: true }, columns: usize::from(columns) };
    let mut renderer = Renderer::new(look, SessionId::default(), 0);
    let painted = Painted::default();
    let mut screen = Screen::on(painted.clone(), true);
    let shown = log.events.iter().map(|event| {
        let text = renderer.show(event);
        let live = renderer.live(event.at.plus(after));
        screen.paint(&text, renderer.markdown.column(), live).unwrap();
        let bytes = String::from_utf8(painted.0.take()).unwrap();
        // As a terminal's driver does.
        parser.process(bytes.replace('\n', "\r\n").as_bytes());
        parser.screen().contents()
    });
    shown.collect()
}

#[test]
fn what_is_painted_in_place_leaves_nothing_behind() {
    for columns in [20, 80, 200] {
        for chunk in [1, 3, 11] {
            let log = reply(TEXT, chunk);
            let expected: String = legible(&log.shown(true, usize::from(columns)))
                .split_inclusive('>')
                .fold(String::new(), |out, piece| {
                    out + piece.split('<').next().unwrap_or_default()
                });
            let shown = screens(&log, columns, 2000).pop().unwrap();
            let flat = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(flat(&shown), flat(&expected), "{columns} {chunk}:\n{shown}");
        }
    }
}

#[test]
fn a_running_call_has_one_line_that_changes() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    log.streamed(asked, "I **lo");
    let bash = log.called(asked, "bash", &json!({ "command": "make" }), None);
    let run = log.started(bash);
    log.add(Some(run), Tool::Progressed { tail: format!("1\n{}\x1b[A", "2".repeat(100)) });
    log.finished(run, "done", &json!({ "exit": 0 }), false);
    let shown = screens(&log, 80, 0);
    assert_eq!(shown[1], "⠋ waiting for the model · 0 s");
    assert_eq!(shown[2], "I **lo");
    assert_eq!(shown[3].lines().next(), Some("I **lo"));
    let (text, status) = shown[7].split_once('\n').unwrap();
    assert_eq!(text, "I **lo");
    assert!(status.contains("bash make · 1 s · 222") && status.ends_with('…'), "{status}");
    assert_eq!(status.lines().count(), 1);
    assert!(shown[8].starts_with("I **lo\n✓ bash make  2.0 s\n    done\n"), "{}", shown[8]);
    assert!(!shown[8].contains("222"));
}

#[test]
fn a_call_that_the_model_writes_grows_in_the_status() {
    let mut log = Log::default();
    log.prompted("go", "terminal");
    let asked = log.requested();
    let written = |bytes| {
        let calls = vec![StreamedInput { id: "c".to_owned(), name: "write".to_owned(), bytes }];
        Tool::InputStreamed { calls }
    };
    log.add(Some(asked), written(900));
    log.add(Some(asked), written(12_340));
    let call = log.called(asked, "write", &json!({ "filePath": "a" }), None);
    log.started(call);
    let shown = screens(&log, 80, 0);
    assert!(shown[2].ends_with(" writing write (900 B) · 1 s"), "{}", shown[2]);
    assert!(shown[3].ends_with(" writing write (12.3 kB) · 2 s"), "{}", shown[3]);
    assert!(!shown.last().unwrap().contains("kB"), "{shown:?}");
}
