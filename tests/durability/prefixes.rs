//! Every prefix of every log of the corpus makes requests that every API accepts. Each request
//! begins like the one before. A crash there leads to a valid end of the turn.
//!
//! `LEFTFOLD_BODIES=DIR` writes every body as `DIR/FORMAT-NAME-SEQ.json`.
#![cfg(debug_assertions)]
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use crate::harness::{Run, Step};
use crate::vendors::{Site, begins, conversation};
use common::Tally;
use common::corpus::{CORPUS, Logs, played};
use common::validator::{Body, Validator};
use leftfold_events::event::{
    Compaction, Event, Files, Model, ModelRef, PromptPart, Purpose, Session, Turn,
};
use leftfold_events::request::RequestMessage;
use leftfold_events::state::ModelStatus;
use leftfold_events::{
    Envelope, Fact, POLICY, Request, Seq, State, line, request_builder, settle, verify,
};
use leftfold_providers::Wire;
use serde_json::{Value, json};

/// The corpus, played without disturbance, once for all tests.
fn corpus() -> &'static [(&'static str, Logs)] {
    static PLAYED: OnceLock<Vec<(&'static str, Logs)>> = OnceLock::new();
    PLAYED.get_or_init(|| {
        let all = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (name, scenario) in CORPUS {
                let all = &all;
                scope.spawn(move || {
                    let logs = played(&scenario());
                    all.lock().unwrap().push((name, logs));
                });
            }
        });
        let mut all = all.into_inner().unwrap();
        all.sort_by_key(|(name, _)| *name);
        all
    })
}

const BEDROCK_MODEL: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

/// One model on each wire, with the name of its format.
fn wires() -> [(&'static str, Site); 5] {
    let thinks = json!({ "thinking": { "type": "enabled", "budget_tokens": 2_048 } });
    let bedrock_thinks = thinks.clone();
    let (low, high) = (json!({ "effort": "low" }), json!({ "reasoningEffort": "high" }));
    let chat = Site::new(Wire::OPENAI_CHAT, "openai", "gpt-4.1", json!({}));
    [
        ("anthropic", Site::new(Wire::ANTHROPIC, "", "claude-sonnet-4-5", thinks)),
        ("openai-chat", chat),
        ("openai-responses", Site::new(Wire::OPENAI_RESPONSES, "openai", "gpt-5.1", high)),
        ("gemini", Site::new(Wire::GEMINI, "", "gemini-2.5-flash", low)),
        ("bedrock", Site::new(Wire::BEDROCK, "", BEDROCK_MODEL, bedrock_thinks)),
    ]
}

/// A request that can be made after the event of this seq.
struct Made {
    seq: Seq,
    what: &'static str,
    request: Request,
}

/// The requests of all prefixes that hold a prompt, each once, and the number of prefixes.
fn requests(log: &[Envelope]) -> (Vec<Made>, usize) {
    let (mut state, mut made, mut prefixes) = (State::default(), Vec::<Made>::new(), 0);
    for event in log {
        state.apply(event);
        if state.messages.is_empty() {
            continue;
        }
        prefixes += 1;
        for (what, request) in possible(&state) {
            let known = |made: &Made| made.what == what && made.request == request;
            if !made.iter().rev().take(12).any(known) {
                made.push(Made { seq: event.seq, what, request });
            }
        }
    }
    (made, prefixes)
}

/// The requests of a log of the corpus.
struct MadeOfLog {
    name: String,
    made: Vec<Made>,
    prefixes: usize,
}

/// The requests of all logs of the corpus, made once for all tests.
fn all_requests() -> &'static [MadeOfLog] {
    static MADE: OnceLock<Vec<MadeOfLog>> = OnceLock::new();
    MADE.get_or_init(|| {
        let logs = corpus().iter().flat_map(|(name, logs)| {
            logs.iter().enumerate().map(move |(n, (_, log))| (format!("{name}.{n}"), log))
        });
        let of_log = |(name, log): (String, &Vec<Envelope>)| {
            let (made, prefixes) = requests(log);
            MadeOfLog { name, made, prefixes }
        };
        logs.map(of_log).collect()
    })
}

/// The requests possible in this state: the next one, a title and a summary, one after a crash, and
/// one after another prompt.
fn possible(state: &State) -> Vec<(&'static str, Request)> {
    let mut all = vec![
        ("now", request_builder::request(state)),
        ("title", request_builder::title_request(state)),
        ("resumed", request_builder::request(&resumed(state, false))),
    ];
    if let Some(ModelStatus::Compacting(compacting)) =
        state.turn.as_ref().map(|turn| &turn.model_status)
    {
        all.push(("summary", request_builder::summary_request(state, compacting)));
    }
    let mut prompted = resumed(state, true);
    let prompt = Turn::Prompted {
        parts: vec![PromptPart::text("And now?")],
        agent: state.agent.clone(),
        model: ModelRef::default(),
        by: "test".into(),
    };
    settle(&mut prompted, state.session, Fact::new(prompt), state.at);
    all.push(("prompted", request_builder::request(&prompted)));
    all
}

fn resumed(state: &State, close: bool) -> State {
    let mut state = state.clone();
    let (session, now) = (state.session, state.at);
    settle(&mut state, session, Fact::new(Session::Resumed { policy: POLICY, close }), now);
    state
}

#[test]
fn each_session_has_what_its_name_says() {
    for (name, kind, least) in [
        ("tools", "tool.finished", 4),
        ("parallel", "tool.started", 9),
        ("children", "subagent.ended", 2),
        ("compaction", "compaction.finished", 2),
        ("prune", "compaction.pruned", 1),
        ("permissions", "permission.answered", 3),
        ("retry", "model.retry_scheduled", 3),
        ("fork", "session.forked", 1),
        ("plan", "turn.switched", 1),
        ("queued", "turn.prompted", 2),
        ("revert", "files.restored", 3),
        ("cut", "session.resumed", 1),
        ("cut", "turn.interrupted", 1),
        ("incomplete", "turn.continued", 3),
        ("mixed", "tool.batched", 4),
        ("mixed", "session.titled", 1),
        ("plugins", "hook.returned", 6),
        ("mcp", "tool.finished", 6),
        ("elicitation", "tool.elicitation_answered", 2),
        ("snapshots", "files.snapshotted", 6),
        ("served", "model.retry_scheduled", 3),
    ] {
        let (_, logs) = corpus().iter().find(|(known, _)| *known == name).unwrap();
        let is = |event: &&Envelope| line::type_of(&event.event) == kind;
        let found = logs.iter().flat_map(|(_, log)| log).filter(is).count();
        assert!(found >= least, "{name} has {kind} {found} times");
    }
}

#[test]
fn every_prefix_makes_requests_that_every_api_takes() {
    let wires = wires();
    let folder = std::env::var("LEFTFOLD_BODIES").ok();
    let tally = Tally::promise(3, "prefixes")
        .counts(&["sessions", "prefixes", "wires", "bodies"])
        .never(&["refused", "that do not begin like the one before"]);
    tally.add("wires", wires.len());
    for MadeOfLog { name, made, prefixes } in all_requests() {
        tally.add("sessions", 1);
        tally.add("prefixes", *prefixes);
        for (format, site) in &wires {
            let said = look_at(&tally, site, made);
            tally.add("bodies", said.len());
            if let Some(folder) = &folder {
                for (made, body) in made.iter().zip(&said) {
                    let file = format!("{format}-{name}.{}-{}.json", made.what, made.seq);
                    std::fs::write(Path::new(folder).join(file), body.to_string()).unwrap();
                }
            }
        }
    }
    assert!(tally.get("prefixes") > 500, "too little happens");
    tally.finish();
}

/// The form of a body: two bodies with one form differ only in texts, numbers and how often an item comes. Words that
/// types name (roles, kinds of parts, media types) are part of the form.
fn skeleton(value: &Value, key: &str) -> Value {
    const WORDS: [&str; 9] =
        ["type", "role", "media_type", "mimeType", "effort", "status", "summary", "mode", "detail"];
    match value {
        Value::String(text) if WORDS.contains(&key) => json!(text),
        Value::String(_) => json!("x"),
        Value::Number(_) => json!(1),
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Array(items) => {
            let mut forms: Vec<Value> = Vec::new();
            for form in items.iter().map(|item| skeleton(item, key)) {
                if !forms.contains(&form) {
                    forms.push(form);
                }
            }
            forms.sort_by_cached_key(Value::to_string);
            Value::Array(forms)
        }
        // the vendors' types take any schema and any arguments
        Value::Object(_) if matches!(key, "input_schema" | "parameters" | "input" | "args") => {
            json!({})
        }
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), skeleton(value, key))).collect()
        }
    }
}

/// A part of each wire's bodies, and a member there that no vendor knows, or that is missing.
fn spoiled(format: &'static str, body: &Value) -> Vec<Body> {
    let path = match format {
        "openai-responses" => "/input/0",
        "gemini" => "/contents/0/parts/0",
        _ => "/messages/0",
    };
    let mut unknown = body.clone();
    unknown.pointer_mut(path).unwrap()["nobody_knows_this"] = json!(true);
    let mut wrong = body.clone();
    let part = wrong.pointer_mut(path).and_then(Value::as_object_mut).unwrap();
    for member in ["content", "text"] {
        if let Some(content) = part.get_mut(member) {
            *content = json!({ "a": 1 });
        }
    }
    [("an unknown member", unknown), ("a member of another type", wrong)]
        .map(|(what, body)| Body { format, name: format!("{format}, {what}"), body })
        .into()
}

/// Promise 3, by types that are not ours. They know shapes alone: which part may stand where is checked above.
#[test]
fn every_body_has_the_shape_that_the_vendors_sdks_name() {
    let Some(validator) = Validator::installed() else { return };
    let wires = wires();
    let tally = Tally::promise(3, "the vendors' types")
        .counts(&["bodies", "distinct shapes", "spoiled bodies"])
        .never(&["refused", "spoiled and accepted"]);
    let mut bodies: Vec<Body> = Vec::new();
    for MadeOfLog { name, made, .. } in all_requests() {
        for (format, site) in &wires {
            for made in made {
                let body = site.body(&made.request);
                tally.add("bodies", 1);
                let form = format!("{format} {}", skeleton(&body, ""));
                if tally.distinct("distinct shapes", form) {
                    let name = format!("{format}, {name} at {} ({})", made.seq, made.what);
                    bodies.push(Body { format, name, body });
                }
            }
        }
    }
    for (name, faults) in validator.refused(&bodies) {
        tally.check("refused", false, || format!("{name}: {faults}"));
    }
    tally.check("refused", true, String::new);
    let of = |format: &str| bodies.iter().find(|body| body.format == format).unwrap();
    let spoiled: Vec<Body> =
        wires.iter().flat_map(|(format, _)| spoiled(format, &of(format).body)).collect();
    let refused = validator.refused(&spoiled);
    tally.add("spoiled bodies", spoiled.len());
    for Body { name, .. } in &spoiled {
        let is_refused = refused.iter().any(|(refused, _)| refused == name);
        tally.check("spoiled and accepted", is_refused, || name.clone());
    }
    tally.finish();
}

/// Checks that each body is accepted, and that a longer body extends the shorter one.
fn look_at(tally: &Tally, site: &Site, made: &[Made]) -> Vec<Value> {
    let mut bodies = Vec::new();
    let mut conversations: Vec<Vec<Value>> = Vec::new();
    for (at, later) in made.iter().enumerate() {
        let body = site.body(&later.request);
        let faults = site.faults(&body);
        let place = format!("{} at {} ({})", site.name(), later.seq, later.what);
        tally.check("refused", faults.is_empty(), || format!("{place}: {faults:?}\n{body}"));
        let after = conversation(body.clone());
        for (earlier, before) in made[..at].iter().zip(&conversations).rev().take(4) {
            if grows(&earlier.request, &later.request) {
                tally.check(
                    "that do not begin like the one before",
                    begins(&after, before),
                    || format!("{place}:\n{before:#?}\n{after:#?}"),
                );
            }
        }
        conversations.push(after);
        bodies.push(body);
    }
    bodies
}

/// Servers with alternating roles get two user messages joined into one.
fn grows(earlier: &Request, later: &Request) -> bool {
    let is_user = |message: &RequestMessage| matches!(message, RequestMessage::User { .. });
    let seam = later.messages.iter().skip(earlier.messages.len() - 1).take(2);
    let joins = seam.filter(|message| is_user(message)).count() == 2;
    !joins && later.system == earlier.system && later.messages.starts_with(&earlier.messages)
}

#[test]
fn each_request_that_was_made_extends_the_one_before() {
    let wires = wires();
    let mut pairs = 0;
    for (name, logs) in corpus() {
        for (_, log) in logs {
            let asked = asked(log);
            for (_, site) in &wires {
                let all: Vec<_> = asked.iter().map(|a| conversation(site.body(&a.0))).collect();
                for (n, pair) in all.windows(2).enumerate().filter(|(n, _)| asked[n + 1].1) {
                    let place = format!("{name}, {} request {}", site.name(), n + 2);
                    assert!(begins(&pair[1], &pair[0]), "{place}:\n{:#?}\n{:#?}", pair[0], pair[1]);
                    pairs += 1;
                }
            }
        }
    }
    assert!(pairs > 100, "too few requests: {pairs}");
}

/// The requests for steps, each with whether it must extend the one before: no summary, pruning,
/// revert or other turn configuration came in between.
fn asked(log: &[Envelope]) -> Vec<(Request, bool)> {
    let (mut state, mut asked, mut extends) = (State::default(), Vec::new(), false);
    for event in log {
        match &event.event {
            Event::Model(Model::Requested { purpose: Purpose::Turn, .. }) => {
                asked.push((
                    request_builder::request(&state),
                    std::mem::replace(&mut extends, true),
                ));
            }
            Event::Compaction(Compaction::Finished { .. } | Compaction::Pruned { .. })
            | Event::Files(Files::Restored { .. })
            | Event::Turn(Turn::Configured(_) | Turn::Switched { .. }) => extends = false,
            _ => {}
        }
        state.apply(event);
    }
    asked
}

#[test]
fn a_crash_at_every_event_comes_to_a_valid_end() {
    let tally = Tally::promise(3, "crashes in prefixes")
        .counts(&["crashes"])
        .never(&["without a valid end of the turn"]);
    for (name, logs) in corpus() {
        for (session, log) in logs {
            // the prefix shared with the parent is tested with the parent
            let own = log.iter().position(|event| event.session == *session).unwrap_or_default();
            for cut in own.max(1) + 1..=log.len() {
                for close in [false, true] {
                    tally.add("crashes", 1);
                    let place = format!("{name} cut at {cut}, close {close}");
                    let ends = || assert_ends(&place, &log[..cut], close);
                    tally.attempt("without a valid end of the turn", &place, ends);
                }
            }
        }
    }
    tally.finish();
}

/// Resumes the rest of a log, with a model that only answers and tools that only succeed.
fn assert_ends(place: &str, left: &[Envelope], close: bool) {
    let mut survivor = Run::folded(left);
    survivor.step(&Step::Resume { close });
    survivor.finish();
    let mut state = leftfold_events::fold(left);
    for event in &survivor.log[left.len()..] {
        state.apply(event);
        if !state.messages.is_empty() {
            let fault = crate::harness::fault(&request_builder::request(&state));
            assert_eq!(fault, None, "{place}, after {}", event.seq);
        }
    }
    assert_eq!(state, survivor.state, "{place}");
    assert_eq!(state.open(), [], "{place}");
    crate::harness::assert_started_once(&survivor.log);
    assert_eq!(verify(&survivor.log), [], "{place}");
}
