//! Feeds events in, and checks text, messages and questions.

use leftfold_events::event::Turn;
use leftfold_events::{Envelope, Event, Notes, Seq, SessionId, Time, TurnConfig, form};
use serde_json::{Value, json};

use crate::text::TextRenderer;
use crate::{CallStep, Change, Message, ReplyPart, SessionView, Transcript};

const ROOT: u8 = 1;
const CHILD: u8 = 2;
const PARENT: u8 = 9;

fn session(id: u8) -> SessionId {
    let mut bytes = [0; 16];
    bytes[15] = id;
    SessionId::from_bytes(bytes)
}

/// A log of several sessions, with one event a second.
#[derive(Default)]
struct Log {
    events: Vec<Envelope>,
    seqs: [Seq; 10],
}

impl Log {
    fn in_session(&mut self, id: u8, of: Seq, kind: &str, data: &Value) -> Seq {
        let seq = &mut self.seqs[usize::from(id)];
        *seq += 1;
        let (concern, name) = kind.split_once('.').unwrap();
        let event: Event = serde_json::from_value(json!({ concern: { name: data } })).unwrap();
        let at = Time::from_millis(self.events.len() as u64 * 1000);
        self.events.push(Envelope {
            session: session(id),
            seq: *seq,
            at,
            of: (of > 0).then_some(of),
            until: Some(at.plus(2_000)),
            event,
            notes: Notes::default(),
        });
        *seq
    }

    fn add(&mut self, of: Seq, kind: &str, data: &Value) -> Seq {
        self.in_session(ROOT, of, kind, data)
    }

    fn prompted(&mut self, text: &str) -> Seq {
        let parts = json!([{ "type": "text", "text": text }]);
        self.add(
            0,
            "turn.prompted",
            &json!({ "parts": parts, "agent": "build", "model": model(), "by": "cli" }),
        )
    }

    fn requested(&mut self, purpose: &str) -> Seq {
        let hash = "0".repeat(64);
        self.add(0, "model.requested", &json!({
            "model": model(), "step": 1, "attempt": 1, "purpose": purpose, "request_sha256": hash,
        }))
    }

    fn streamed(&mut self, of: Seq, kind: &str, text: &str) {
        let parts = json!([{ "id": "0", "kind": kind, "text": text }]);
        self.add(of, "model.streamed", &json!({ "parts": parts }));
    }

    fn replied(&mut self, of: Seq) {
        let usage =
            json!({ "input": 10, "output": 2, "reasoning": 0, "cache_read": 0, "cache_write": 0 });
        let hash = "0".repeat(64);
        self.add(
            of,
            "model.finished",
            &json!({
                "finish": "stop", "usage": usage, "cost": 0.5, "body_sha256": hash,
            }),
        );
    }

    fn called(&mut self, id: u8, of: Seq, name: &str, input: &Value) -> Seq {
        let call = json!({ "id": "c", "name": name, "input": input });
        let called = self.in_session(id, of, "tool.called", &json!({ "call": call }));
        self.in_session(id, called, "tool.resolve_started", &json!({ "call": "c" }));
        called
    }

    /// Adds the events up to `tool.resolved`; answers the seq of `tool.called`.
    fn resolved(&mut self, id: u8, name: &str, class: &str, input: &Value) -> Seq {
        let called = self.called(id, 0, name, input);
        let permission = if name == "question" { "question" } else { "bash" };
        let access = json!([{ "permission": permission, "patterns": [], "always": [] }]);
        self.in_session(
            id,
            called + 1,
            "tool.resolved",
            &json!({
                "name": name, "input": input, "class": class, "access": access, "paths": [],
                "timeout": 1000, "error": null,
            }),
        );
        called
    }

    fn started(&mut self, called: Seq) -> Seq {
        let data = json!({ "call": "c", "name": "bash", "class": "command", "attempt": 1 });
        self.add(called, "tool.started", &data)
    }

    fn finished(&mut self, started: Seq, output: &str, is_error: bool) {
        self.add(
            started,
            "tool.finished",
            &json!({
                "call": "c", "title": "", "output": output, "is_error": is_error, "metadata": {},
                "spill": null, "attachments": [],
            }),
        );
    }

    fn asked(&mut self, id: u8, called: Seq, permission: &str, patterns: &[&str]) -> Seq {
        self.in_session(
            id,
            called,
            "permission.asked",
            &json!({
                "call": "c", "permission": permission, "patterns": patterns, "always": ["git *"],
            }),
        )
    }

    fn answered(&mut self, of: Seq, reply: &str, feedback: Option<&str>) {
        let data = json!({ "reply": reply, "feedback": feedback, "by": "cli" });
        self.add(of, "permission.answered", &data);
    }

    fn ended(&mut self, id: u8, reason: &str) {
        let usage =
            json!({ "input": 0, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0 });
        self.in_session(
            id,
            0,
            "turn.ended",
            &json!({
                "reason": reason, "text": "", "usage": usage, "cost": 0.5, "steps": 1,
                "permission_denials": [], "error": null,
            }),
        );
    }

    fn spawned(&mut self, called: Seq) {
        let data = json!({ "call": "c", "session": session(CHILD), "agent": "explore" });
        self.add(called, "subagent.spawned", &data);
    }

    fn transcript(&self) -> Transcript {
        let mut transcript = Transcript::full(session(ROOT));
        self.events.iter().for_each(|event| drop(transcript.apply(event)));
        transcript
    }

    /// All of standard output and of standard error.
    fn text(&self) -> (String, String) {
        let (mut transcript, mut renderer) =
            (Transcript::live(session(ROOT)), TextRenderer::default());
        let (mut text, mut notes) = (String::new(), String::new());
        for event in &self.events {
            let changes = transcript.apply(event);
            let output = renderer.render(&transcript, event.session, &changes);
            text += &output.text;
            notes += &output.notes;
        }
        (text, notes)
    }

    /// The changes of the last event in a live transcript.
    fn last_changes(&self) -> Vec<Change> {
        let mut transcript = Transcript::live(session(ROOT));
        self.events.iter().map(|event| transcript.apply(event)).last().unwrap_or_default()
    }
}

fn model() -> Value {
    json!({ "provider": "p", "id": "m" })
}

/// The messages of the root, each in a word or two.
fn messages(transcript: &Transcript) -> Vec<String> {
    let root = transcript.root().unwrap();
    let part = |part: &ReplyPart| match part {
        ReplyPart::Text(part) => format!("text {:?}", part.text),
        ReplyPart::Reasoning(part) => format!("reasoning {:?}", part.text),
        ReplyPart::Call(call) => {
            let call = root.call(*call).unwrap();
            format!("{} {:?}", call.heading(), call.status()).to_lowercase()
        }
    };
    let message = |message: &Message| match message {
        Message::User(prompt) => format!("user {:?}", prompt.parts[0].text),
        Message::Assistant(reply) => {
            let void = if reply.void { "void " } else { "" };
            format!("{void}{}", reply.parts.iter().map(part).collect::<Vec<_>>().join(", "))
        }
        Message::Summary { text, .. } => format!("summary {text:?}"),
    };
    root.messages().map(message).collect()
}

#[test]
fn text_of_an_abandoned_attempt_is_void() {
    const NOTE: &str = "[retrying in 2 s, attempt 2: busy]\n";
    for (shown, text, notes) in
        [(None, String::new(), NOTE), (Some("half"), format!("half\n{NOTE}"), "")]
    {
        let mut log = Log::default();
        log.prompted("go");
        let asked = log.requested("turn");
        shown.iter().for_each(|text| log.streamed(asked, "text", text));
        log.add(asked, "model.retry_scheduled", &json!({ "attempt": 1, "error": "busy" }));
        assert_eq!(log.text(), (text, notes.to_owned()));
        let asked = log.requested("turn");
        log.streamed(asked, "reasoning", "hm");
        log.streamed(asked, "text", "whole");
        log.streamed(asked, "text", " reply");
        log.replied(asked);
        let all = messages(&log.transcript());
        let last = [r#"reasoning "hm", text "whole reply""#.to_owned()];
        assert!(all[1].starts_with("void ") && all[2..] == last, "{all:?}");
    }
}

#[test]
fn parts_have_a_beginning_and_an_end() {
    let mut log = Log::default();
    log.prompted("go");
    let asked = log.requested("turn");
    for (kind, text) in [("reasoning", "hm"), ("text", "An answer"), ("text", " with an end. \n")] {
        log.streamed(asked, kind, text);
    }
    log.called(ROOT, asked, "bash", &json!({ "command": "ls" }));
    log.replied(asked);
    let mut live = Transcript::live(session(ROOT));
    let changes = log.events.iter().flat_map(|event| live.apply(event));
    let ends = changes.filter_map(|change| {
        if let Change::PartStarted { kind, id, .. } = &change {
            return Some(format!("+ {kind:?} {id}"));
        }
        let Change::PartEnded { kind, id, .. } = change else { return None };
        Some(format!("- {kind:?} {id}"))
    });
    let changes: Vec<String> = ends.collect();
    let id = "0";
    assert_eq!(
        changes,
        [
            format!("+ Reasoning {id}"),
            format!("- Reasoning {id}"),
            format!("+ Text {id}"),
            format!("- Text {id}"),
        ]
    );
    let transcript = log.transcript();
    let reply = transcript.root().unwrap().messages().last().cloned();
    let Some(Message::Assistant(reply)) = reply else { panic!("{reply:?}") };
    let times = |part: &ReplyPart| match part {
        ReplyPart::Text(part) | ReplyPart::Reasoning(part) => {
            Some((part.text.clone(), part.since.millis(), part.until.map(Time::millis)))
        }
        ReplyPart::Call(_) => None,
    };
    assert_eq!(
        reply.parts.iter().filter_map(times).collect::<Vec<_>>(),
        [
            ("hm".to_owned(), 2_000, Some(3_000)),
            ("An answer with an end.".to_owned(), 3_000, Some(5_000)),
        ]
    );
}

#[test]
fn the_status_says_when_which_attempt_begins_and_why() {
    let mut log = Log::default();
    let expect = |log: &Log, status: Value| {
        assert_eq!(json!(log.transcript().root().unwrap().status()), status);
    };
    let time = |seconds: u64| json!(Time::from_millis(seconds * 1000));
    let busy = json!({ "status": "busy", "since": time(0) });
    log.prompted("go");
    expect(&log, busy.clone());
    for attempt in 1..3 {
        let asked = log.requested("turn");
        expect(&log, busy.clone());
        log.add(asked, "model.retry_scheduled", &json!({ "attempt": attempt, "error": "full" }));
        let now = log.events.len() as u64 - 1;
        expect(
            &log,
            json!({ "status": "retry", "since": time(0), "attempt": attempt + 1, "message": "full", "next": time(now + 2) }),
        );
    }
    let asked = log.requested("turn");
    expect(&log, busy.clone());
    log.replied(asked);
    expect(&log, busy);
    log.ended(ROOT, "completed");
    expect(&log, json!({ "status": "idle" }));
}

#[test]
fn notes_never_run_into_text_and_titles_are_no_text() {
    let mut log = Log::default();
    log.prompted("go");
    let (asked, title) = (log.requested("turn"), log.requested("title"));
    log.streamed(title, "text", "A title");
    log.streamed(asked, "text", "half");
    log.replied(title);
    log.add(9, "tool.lost", &json!({ "call": "c", "attempt": 1 }));
    let notes = "  ? outcome unknown after a crash\n";
    assert_eq!(log.text(), ("half\n".to_owned(), notes.to_owned()));
    let transcript = log.transcript();
    let root = transcript.root().unwrap();
    assert_eq!((root.cost, root.context_used), (0.5, None));
    assert_eq!(root.request().map(|request| request.seq), Some(asked));
}

#[test]
fn calls_have_phases_and_one_end() {
    let mut log = Log::default();
    log.prompted("go");
    let asked = log.requested("turn");
    let call = log.called(ROOT, asked, "bash", &json!({ "command": "ls" }));
    let phase = |log: &Log| messages(&log.transcript()).pop().unwrap();
    assert_eq!(phase(&log), "bash ls pending");
    let run = log.started(call);
    assert_eq!(phase(&log), "bash ls running");
    log.add(run, "tool.progressed", &json!({ "tail": "a\nb" }));
    assert_eq!(log.transcript().root().unwrap().call(call).unwrap().tail, "a\nb");
    log.add(run, "session.deadline_passed", &json!({}));
    let timed_out = log.last_changes();
    assert!(
        matches!(timed_out[1], Change::Call { step: CallStep::Ended { first: true, .. }, .. }),
        "{timed_out:?}"
    );
    log.add(call, "tool.cancelled", &json!({ "call": "c", "attempt": 1 }));
    let stopped = log.last_changes();
    assert!(
        matches!(stopped[0], Change::Call { step: CallStep::Ended { first: false, .. }, .. }),
        "{stopped:?}"
    );
    assert_eq!(phase(&log), "bash ls failed");
    let call = log.called(ROOT, asked, "bash", &json!({ "command": "ls" }));
    let run = log.started(call);
    log.finished(run, "a", false);
    assert_eq!(phase(&log), "bash ls failed, bash ls completed");
    assert_eq!(log.text().1, "  ✗ timed out\n  ✓ a\n");
    // Each event counts once.
    let mut transcript = log.transcript();
    assert_eq!(transcript.apply(&log.events[2]), []);
}

#[test]
fn every_question_of_a_call_is_found_by_its_event() {
    let mut log = Log::default();
    log.prompted("go");
    let call = log.resolved(
        ROOT,
        "question",
        "ask",
        &json!({ "questions": [
        { "question": "Which?", "header": "Colour", "multiple": true,
          "options": [{ "label": "red", "description": "like fire" }] },
        { "question": "Sure?", "multiple": null },
        { "question": "Sure?", "header": "Again" },
    ] }),
    );
    let asked = ["Which?", "Sure?", "Sure?"].map(|text| log.asked(ROOT, call, "question", &[text]));
    let unknown = log.asked(ROOT, 90, "question", &["Of an unknown call?"]);
    let permission = log.asked(ROOT, call, "bash", &["ls"]);
    let view = SessionView::from_events(&log.events);
    let question = |seq: Seq| view.question(seq).unwrap().question.clone();
    let first = question(asked[0]).unwrap();
    assert_eq!(first.titled(), "[Colour] Which?");
    assert_eq!(first.numbered().collect::<Vec<_>>(), ["1. red – like fire"]);
    assert!(first.multiple && !first.in_run());
    assert_eq!(question(asked[1]).unwrap().header, "");
    assert_eq!(question(asked[2]).unwrap().header, "Again");
    assert_eq!(question(unknown).unwrap().question, "Of an unknown call?");
    assert_eq!(question(permission), None);
    log.answered(asked[0], "once", Some("red"));
    log.answered(asked[1], "reject", None);
    // The rejection has ended the call and closed its other questions.
    let view = SessionView::from_events(&log.events);
    let open: Vec<Seq> = view.open_questions().map(|open| open.id.1).collect();
    assert_eq!(open, [unknown]);
    let notes = log.text().1;
    assert!(notes.contains("  ? [Colour] Which? → red\n  ? Sure? → (dismissed)\n"), "{notes}");
}

#[test]
fn each_question_of_a_call_has_its_own_rule_and_its_place() {
    use leftfold_events::rules::{Action, Rule};
    use leftfold_events::turn_config::RuleSource;
    let rule = |permission, pattern| Rule::new(permission, pattern, Action::Ask);
    let place = |line: usize| format!("leftfold.json:{line}:5");
    let rules = vec![
        Rule::new("*", "*", Action::Allow),
        rule("bash", "rm *"),
        rule("bash", "git *"),
        rule("external_directory", "*"),
    ];
    let sources = (0..rules.len())
        .map(|at| RuleSource { from: at, to: at + 1, source: place(at) })
        .collect::<Vec<_>>();
    let asked = |is_logged: bool, is_first_allowed: bool| {
        let mut log = Log::default();
        if is_logged {
            let mut config = TurnConfig { rules: rules.clone(), ..TurnConfig::default() };
            config.options.sources.rules = sources.clone();
            // a payload is only its hash as JSON
            let seq = log.prompted("");
            let configured = Turn::Configured(config.payloads());
            log.events[seq as usize - 1].event = configured.into();
        }
        log.prompted("go");
        let call = log.resolved(ROOT, "bash", "command", &json!({ "command": "rm a; git b" }));
        let both = log.asked(ROOT, call, "bash", &["git b", "rm a"]);
        if is_first_allowed {
            log.answered(both, "always", None);
        }
        log.asked(ROOT, call, "external_directory", &["/etc"]);
        log.asked(ROOT, call, "bash", &["git b", "rm a"]);
        log.asked(ROOT, call, "webfetch", &["https://a.b"]);
        let mut transcript = Transcript::live(session(ROOT));
        // what is logged is newer than these
        let known = if is_logged { Vec::new() } else { rules.clone() };
        transcript.set_rules(known, sources.clone());
        log.events.iter().for_each(|event| drop(transcript.apply(event)));
        let rules = transcript.open_questions().map(|open| open.rule.clone());
        rules.skip(usize::from(!is_first_allowed)).collect::<Vec<_>>()
    };
    let outside = Some((rule("external_directory", "*"), Some(place(3))));
    let git = Some((rule("bash", "git *"), Some(place(2))));
    // "always" allows `git *`, so that the other pattern asks
    let rm = Some((rule("bash", "rm *"), Some(place(1))));
    for is_logged in [true, false] {
        assert_eq!(asked(is_logged, false), [outside.clone(), git.clone(), None]);
        assert_eq!(asked(is_logged, true), [outside.clone(), rm.clone(), None]);
    }
}

#[test]
fn what_a_running_call_asks_goes_with_its_end() {
    let mut log = Log::default();
    log.prompted("go");
    let call = log.resolved(ROOT, "m_ask", "command", &json!({}));
    let run = log.started(call);
    let schema = json!({ "properties": { "side": { "enum": ["l", "r"] } } });
    let wanted = json!({ "form": { "schema": schema } });
    let elicited = json!({ "elicitation": 1, "from": "m", "message": "Which?", "wanted": wanted });
    log.add(run, "tool.elicitation_requested", &elicited);
    let first = log.asked(ROOT, call, "question", &["Which?\nside"]);
    log.answered(first, "once", Some("up"));
    let second = log.asked(ROOT, call, "question", &["Which?\nside", "no such side"]);
    let view = SessionView::from_events(&log.events);
    let question = |seq: Seq| view.question(seq).unwrap().question.clone().unwrap();
    assert_eq!(question(second).titled(), "[m] Which?\nside\nno such side");
    let labels: Vec<_> = question(first).options.into_iter().map(|option| option.label).collect();
    assert_eq!(labels, ["l", "r", form::LEFT_OUT]);
    assert!(question(first).in_run());
    let before = log.events.len();
    for (kind, data, closed, ended) in [
        ("tool.cancelled", json!({ "call": "c", "attempt": 1 }), true, true),
        ("tool.lost", json!({ "call": "c", "attempt": 1 }), true, true),
        (
            "tool.elicitation_answered",
            json!({ "call": "c", "elicitation": 1, "consent": "accepted", "content": {} }),
            false,
            false,
        ),
    ] {
        log.events.truncate(before);
        log.add(call, kind, &data);
        let changes = log.last_changes();
        assert_eq!(changes.contains(&Change::QuestionClosed(second)), closed, "{kind}");
        let ends =
            |change: &Change| matches!(change, Change::Call { step: CallStep::Ended { .. }, .. });
        assert_eq!(changes.iter().any(ends), ended, "{kind}");
        assert_eq!(SessionView::from_events(&log.events).open_questions().count(), 0, "{kind}");
    }
    log.events.truncate(before);
    // A dismissal, or no answer in time, leaves the call running.
    log.add(second, "session.deadline_passed", &json!({}));
    let expected = [Change::QuestionClosed(second), Change::QuestionTimedOut(second)];
    assert_eq!(log.last_changes(), expected);
}

#[test]
fn a_late_answer_closes_nothing_that_is_open() {
    let mut log = Log::default();
    log.prompted("go");
    let call = log.resolved(ROOT, "edit", "write", &json!({ "filePath": "a" }));
    let first = log.asked(ROOT, call, "edit", &["a"]);
    let view = SessionView::from_events(&log.events);
    assert!(view.question(first).unwrap().change.is_some());
    assert!(view.call(call).unwrap().asked);
    log.add(first, "session.deadline_passed", &json!({}));
    let changes = log.last_changes();
    assert!(matches!(changes[1], Change::Call { step: CallStep::Ended { .. }, .. }), "{changes:?}");
    let other = log.resolved(ROOT, "bash", "command", &json!({ "command": "ls" }));
    let second = log.asked(ROOT, other, "bash", &["ls"]);
    log.answered(first, "once", None);
    let open: Vec<Seq> =
        SessionView::from_events(&log.events).open_questions().map(|open| open.id.1).collect();
    assert_eq!(open, [second]);
    log.ended(ROOT, "aborted");
    assert_eq!(SessionView::from_events(&log.events).open_questions().count(), 0);
}

#[test]
fn subagents_are_a_tree_with_lines_and_costs() {
    let mut log = Log::default();
    log.prompted("go");
    let task = log.resolved(ROOT, "task", "child", &json!({ "description": "look" }));
    log.started(task);
    log.spawned(task);
    log.resolved(CHILD, "read", "read", &json!({ "filePath": "a" }));
    let call = log.resolved(CHILD, "bash", "command", &json!({ "command": "rm a" }));
    let ruled = json!({ "call": "c", "action": "deny", "rule": null });
    log.in_session(CHILD, call, "permission.ruled", &ruled);
    let call = log.resolved(CHILD, "bash", "command", &json!({ "command": "ls" }));
    let asked = log.asked(CHILD, call, "bash", &["ls"]);
    let transcript = log.transcript();
    let status = transcript.subagent(session(CHILD)).unwrap();
    assert_eq!((status.parent, status.under, status.depth), (Some(session(ROOT)), task, 1));
    assert_eq!((status.calls, status.last.as_str(), status.works), (3, "bash ls", true));
    let open: Vec<_> = transcript.open_questions().map(|open| open.id).collect();
    assert_eq!(open, [(session(CHILD), asked)]);
    assert_eq!(transcript.root().unwrap().call(task).unwrap().subagent, Some(session(CHILD)));
    log.ended(CHILD, "max_steps");
    let usage =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0 });
    log.add(task, "subagent.ended", &json!({
        "session": session(CHILD), "answer": "", "reason": "max_steps", "usage": usage, "cost": 0.25,
    }));
    log.ended(ROOT, "completed");
    let transcript = log.transcript();
    assert_eq!((transcript.at_work().count(), transcript.open_questions().count()), (0, 0));
    let expected = "\
● task look
  explore ● read a
  explore ● bash rm a
  explore ✗ bash rm a: denied
  explore ● bash ls
  explore asks for bash: ls
  explore has reached its step limit
$0.7500, of which subagents $0.2500
";
    assert_eq!(log.text().1, expected);
}

#[test]
fn files_that_a_subagent_has_made_for_later_runs_are_named() {
    let mut log = Log::default();
    log.prompted("go");
    let task = log.resolved(ROOT, "task", "child", &json!({ "description": "look" }));
    log.started(task);
    log.spawned(task);
    for metadata in
        [json!({ "exit": 0 }), json!({ "sandbox": { "made": ["AGENTS.md", "a\u{1b}b"] } })]
    {
        let call = log.resolved(CHILD, "bash", "command", &json!({ "command": "make" }));
        let started = json!({ "call": "c", "name": "bash", "class": "command", "attempt": 1 });
        let started = log.in_session(CHILD, call, "tool.started", &started);
        let finished = json!({ "call": "c", "title": "", "output": "", "is_error": false,
            "metadata": metadata, "spill": null, "attachments": [] });
        log.in_session(CHILD, started, "tool.finished", &finished);
    }
    let expected = "\
● task look
  explore ● bash make
  explore ● bash make
  explore ! bash make: made AGENTS.md, made a\\x1bb
";
    assert_eq!(log.text().1, expected);
}

#[test]
fn a_subagent_asks_after_a_crash_once_it_goes_on() {
    let mut log = Log::default();
    log.prompted("go");
    log.spawned(1);
    log.asked(CHILD, 1, "bash", &["ls"]);
    log.add(0, "session.resumed", &json!({ "policy": 1, "close": false }));
    assert_eq!(log.transcript().open_questions().count(), 0);
    log.in_session(CHILD, 0, "session.resumed", &json!({ "policy": 1, "close": false }));
    assert_eq!(log.transcript().open_questions().count(), 1);
}

#[test]
fn a_forks_prefix_is_its_own() {
    let mut log = Log::default();
    let parts = json!([{ "type": "text", "text": "before" }]);
    let prompted = json!({ "parts": parts, "agent": "build", "model": model(), "by": "cli" });
    log.in_session(PARENT, 0, "turn.prompted", &prompted);
    log.asked(PARENT, 1, "bash", &["ls"]);
    log.seqs[usize::from(ROOT)] = 2;
    log.add(0, "session.forked", &json!({ "from": session(PARENT), "at": 2 }));
    log.prompted("after");
    // Once the fork has begun, events of the other session are not its own.
    log.in_session(PARENT, 0, "turn.prompted", &prompted);
    let mut transcript = Transcript::full(session(ROOT)).from_start();
    log.events.iter().for_each(|event| drop(transcript.apply(event)));
    assert_eq!(messages(&transcript), [r#"user "before""#, r#"user "after""#]);
    assert_eq!(transcript.open_questions().count(), 0);
    let transcript = log.transcript();
    assert_eq!(messages(&transcript), [r#"user "after""#]);
}

#[test]
fn summaries_and_reverts_change_what_there_is_to_see() {
    let mut log = Log::default();
    log.prompted("one");
    let started = log.add(0, "compaction.started", &json!({ "through": 1, "auto": true }));
    let asked = log.requested("compaction");
    log.replied(asked);
    assert_eq!(log.transcript().root().unwrap().compaction, Some(started));
    log.add(started, "compaction.finished", &json!({ "summary": "so far" }));
    log.ended(ROOT, "completed");
    let second = log.prompted("two");
    log.ended(ROOT, "completed");
    let all = [r#"user "one""#, r#"summary "so far""#, r#"user "two""#];
    assert_eq!(messages(&log.transcript()), all);
    let restore = |to: Option<Seq>| json!({ "to": to, "before": "", "paths": [] });
    let restored = json!({ "before": "", "tree": "", "files": [] });
    let begun = log.add(0, "files.restore_started", &restore(Some(second)));
    assert_eq!(messages(&log.transcript()), all);
    log.add(begun, "files.restored", &restored);
    assert_eq!(messages(&log.transcript()), all[..2]);
    let begun = log.add(0, "files.restore_started", &restore(None));
    log.add(begun, "files.restored", &restored);
    assert_eq!(messages(&log.transcript()), all);
    let begun = log.add(0, "files.restore_started", &restore(Some(second)));
    log.add(begun, "files.restored", &restored);
    log.prompted("three");
    let last = [all[0], all[1], r#"user "three""#];
    assert_eq!(messages(&log.transcript()), last);
    let notes = log.text().1;
    assert!(notes.starts_with("[compacting: writing a summary]\n[summary of 6 characters]\n"));
    // A turn that ends before its summary cancels it.
    log.add(0, "compaction.started", &json!({ "through": 1, "auto": true }));
    log.ended(ROOT, "aborted");
    let cancelled = |change: &Change| matches!(change, Change::CompactionEnded { .. });
    assert!(log.last_changes().iter().any(cancelled));
}

#[test]
fn a_live_transcript_keeps_nothing_of_turns_that_are_over() {
    let mut log = Log::default();
    log.prompted("go");
    let asked = log.requested("turn");
    log.streamed(asked, "text", "hello");
    let call = log.called(ROOT, asked, "bash", &json!({}));
    let mut transcript = Transcript::live(session(ROOT));
    log.events.iter().for_each(|event| drop(transcript.apply(event)));
    let root = transcript.root().unwrap();
    assert!(root.call(call).is_some() && root.messages().next().is_none());
    log.ended(ROOT, "completed");
    transcript.apply(log.events.last().unwrap());
    let root = transcript.root().unwrap();
    assert!(root.calls().next().is_none() && root.turn.is_none());
}

#[test]
fn a_restore_whose_deadline_passed_has_failed() {
    let mut log = Log::default();
    let restore = log.add(0, "files.restore_started", &json!({ "before": "", "paths": [] }));
    log.add(restore, "session.deadline_passed", &json!({}));
    let mut view = SessionView::default();
    let changes: Vec<Change> = log.events.iter().flat_map(|event| view.apply(event)).collect();
    assert!(matches!(changes[..], [Change::Restored(Err(_))]), "{changes:?}");
}

#[test]
fn an_event_in_one_line_has_words_and_keeps_names_as_they_are() {
    let mut log = Log::default();
    let request = log.requested("turn");
    let usage =
        json!({ "input": 10, "output": 2, "reasoning": 0, "cache_read": 0, "cache_write": 0 });
    log.add(
        request,
        "model.finished",
        &json!({
            "finish": "tool_calls", "usage": usage, "cost": 0.0, "body_sha256": "0".repeat(64),
        }),
    );
    let rule = json!({ "permission": "edit", "pattern": "src/README.md", "action": "deny" });
    log.add(request, "permission.ruled", &json!({ "call": "c", "action": "deny", "rule": rule }));
    let lines = log.events[1..].iter().map(|event| crate::event_line::detail(&event.event));
    let lines: Vec<String> = lines.collect();
    assert_eq!(lines, ["tool calls, 10 tokens in, 2 out", "deny by edit `src/README.md`"]);
}

#[test]
fn a_revert_after_a_turn_full_of_findings_is_found_in_the_next_turn() {
    let mut log = Log::default();
    log.prompted("go");
    for _ in 0..60 {
        let failed =
            json!({ "class": "other", "message": "no", "retryable": false, "retry_after": null });
        log.add(0, "model.failed", &failed);
    }
    log.add(0, "turn.ended", &json!({
        "reason": "completed", "text": "", "usage": { "input": 0, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0 },
        "cost": 0.0, "steps": 1, "permission_denials": [], "error": null,
    }));
    let restored = log.add(0, "files.restored", &json!({ "before": "", "tree": "", "files": [] }));
    log.prompted("again");
    let found = crate::Findings::from_events(&log.events);
    let seqs: Vec<Seq> = found.all().iter().map(|finding| finding.seq).collect();
    assert_eq!(seqs, [restored]);
}
