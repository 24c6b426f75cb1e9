//! Exports of a log that no program has written: hostile texts in a transcript, and a call without end in a database.

use leftfold_events::event::{
    CallSpec, Class, EndReason, Ended, Event, Finish, Finished, Model, ModelRef, PartKind,
    PromptPart, Purpose, Resolution, Session, StreamedPart, Tool, Turn, Usage,
};
use leftfold_events::turn_config::TurnConfig;
use leftfold_events::{Envelope, Json, Notes, Seq, SessionId, Sha256, Time};
use leftfold_export::{Database, Run, markdown};
use leftfold_view::clean::printable;
use proptest::prelude::*;
use pulldown_cmark::{Event as Markup, Options, Parser, Tag, TagEnd};
use rusqlite::Connection;
use serde_json::json;

/// A turn that is prompted with `text`, answers with it, and calls a tool named so; `output` is the call's output, the
/// turn's error and the session's title.
fn log(text: &str, output: &str) -> Vec<Envelope> {
    let (session, model) =
        (SessionId::default(), ModelRef { provider: "p".into(), id: text.into() });
    let mut events: Vec<Envelope> = Vec::new();
    let mut add = |of: Option<Seq>, event: Event| {
        let seq = events.len() as Seq + 1;
        let (at, notes) = (Time::from_millis(1_000 * seq), Notes::default());
        events.push(Envelope { session, seq, at, of, until: None, event, notes });
    };
    let input = Json::from_value(&json!({ "command": text, "more": output }));
    let reasoning = StreamedPart {
        id: "r".into(),
        kind: PartKind::Reasoning,
        text: text.into(),
        signature: None,
        redacted: false,
    };
    let said = StreamedPart { id: "t".into(), kind: PartKind::Text, ..reasoning.clone() };
    let call = CallSpec { id: "c".into(), name: text.into(), input: input.clone() };
    let created = Session::Created {
        directory: "/p".into(),
        worktree: "/p".into(),
        parent: None,
        agent: text.into(),
        version: "0.1.0".into(),
        policy: 1,
    };
    let usage = Usage { input: 10, output: 5, reasoning: 1, cache_read: 3, cache_write: 2 };
    add(None, created.into());
    add(None, Turn::Configured(TurnConfig::default().payloads()).into());
    let prompted = Turn::Prompted {
        parts: vec![PromptPart::text(text)],
        agent: text.into(),
        model: model.clone(),
        by: "cli".into(),
    };
    add(None, prompted.into());
    let requested = Model::Requested {
        model,
        step: 1,
        attempt: 1,
        purpose: Purpose::Turn,
        request_sha256: Sha256::digest(b""),
    };
    add(None, requested.into());
    add(Some(4), Model::Streamed { parts: vec![reasoning, said] }.into());
    add(Some(4), Tool::Called { call }.into());
    let finished = Model::Finished {
        finish: Finish::ToolCalls,
        usage,
        cost: 0.5,
        body_sha256: Sha256::digest(b""),
    };
    add(Some(4), finished.into());
    let resolution = Resolution {
        name: text.into(),
        input,
        class: Class::Command,
        access: Vec::new(),
        paths: Vec::new(),
        timeout: 1_000,
        error: None,
        kind: Default::default(),
    };
    add(Some(6), Tool::ResolveStarted { call: "c".into() }.into());
    add(Some(8), Tool::Resolved(Box::new(resolution)).into());
    let (name, class) = (text.into(), Class::Command);
    add(Some(6), Tool::Started { call: "c".into(), name, class, attempt: 1 }.into());
    let finished = Finished {
        call: "c".into(),
        title: String::new(),
        output: output.into(),
        is_error: false,
        metadata: Json::default(),
        spill: None,
        attachments: Vec::new(),
    };
    add(Some(10), Tool::Finished(Box::new(finished)).into());
    add(None, Session::Titled { title: output.into() }.into());
    let ended = Ended {
        reason: EndReason::Error,
        text: String::new(),
        usage,
        cost: 0.5,
        steps: 1,
        permission_denials: Vec::new(),
        error: Some(output.into()),
    };
    add(None, Turn::Ended(Box::new(ended)).into());
    events
}

/// Pieces that would be markup anywhere else.
const HOSTILE: [&str; 24] = [
    "```", "````", "~~~", "`", "\n", "\n\n", "    ", "</details>", "<script>", "</summary>", "-->",
    "<!--", "![x](http://x/)", "[x](javascript:x)", "@octocat", "Fixes #1", "# Title", "> ",
    "| a |", "&lt;", "\u{202e}", "\r", "\\", "<",
];

fn hostile() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&HOSTILE[..]), 0..12).prop_map(|all| all.concat())
}

/// Lines of HTML that the transcript has of its own.
fn is_ours(line: &str) -> bool {
    let text = |inner: &str| !inner.contains(['<', '>', '"']);
    let summary = |line: &str| {
        let inner = line.strip_prefix("<summary>")?.strip_suffix("</summary>")?;
        let (before, rest) = inner.split_once("<code>")?;
        let (inside, after) = rest.split_once("</code>")?;
        Some(text(before) && text(inside) && text(after))
    };
    ["", "<details>", "</details>"].contains(&line) || summary(line) == Some(true)
}

/// Elements that neither run nor load nor point anywhere.
fn is_plain(event: &Markup<'_>) -> bool {
    matches!(
        event,
        Markup::Start(
            Tag::Paragraph
                | Tag::Heading { .. }
                | Tag::List(_)
                | Tag::Item
                | Tag::HtmlBlock
                | Tag::Strong
                | Tag::Emphasis
        ) | Markup::End(_)
            | Markup::SoftBreak
            | Markup::Code(_)
    )
}

proptest! {
    #[test]
    fn no_text_of_a_run_is_markup(text in hostile(), other in hostile()) {
        let markdown = markdown(&Run::masked([(SessionId::default(), &*log(&text, &other))]));
        let (mut in_code, mut shown) = (false, String::new());
        for event in Parser::new_ext(&markdown, Options::all()) {
            if let Markup::Start(Tag::CodeBlock(_)) | Markup::End(TagEnd::CodeBlock) = event {
                in_code = matches!(event, Markup::Start(_));
            } else if let Markup::Text(text) = &event {
                prop_assert!(in_code || !text.contains(['@', '#', '<', '`']), "{text}\n{markdown}");
                shown.push_str(if in_code { text } else { "" });
            } else if let Markup::Html(html) = &event {
                prop_assert!(html.lines().all(is_ours), "{html}\n{markdown}");
            } else {
                prop_assert!(is_plain(&event), "{event:?}\n{markdown}");
            }
        }
        // and nothing of it is lost
        for text in [&text, &other] {
            prop_assert!(shown.contains(printable(text.trim_end()).as_ref()), "{text:?}\n{markdown}");
        }
    }
}

#[test]
fn a_call_without_end_has_all_that_is_known_of_it() {
    let site = tempfile::tempdir().unwrap();
    let file = site.path().join("run.db");
    let events = log("bash", "");
    let started =
        events.iter().position(|event| matches!(event.event, Event::Tool(Tool::Started { .. })));
    let mut database = Database::create(&file).unwrap();
    let run = Run::masked([(SessionId::default(), &events[..=started.unwrap()])]);
    database.add(&run).unwrap();
    database.finish().unwrap();
    let calls = "SELECT tool || ' ' || class || ' ' || coalesce(outcome, 'open') FROM calls";
    let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let call = Connection::open(&file).unwrap().query_row(calls, [], read).unwrap();
    assert_eq!(call, "bash command open");
}
