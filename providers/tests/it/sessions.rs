//! Requests of every prefix of random sessions' logs: every API accepts them, and each begins with
//! the one before.
#![cfg(debug_assertions)]

use crate::actions::{Action, actions, config, session};
use crate::common::{Site, begins, conversation, sites};
use crate::harness::Step;
use leftfold_events::event::{Class, FailureClass, Finish};
use leftfold_events::request::RequestMessage;
use leftfold_events::state::ModelStatus;
use leftfold_events::{Envelope, Request, State, request_builder};
use proptest::prelude::*;
use serde_json::Value;

/// The distinct requests after each event, in order.
fn requests(log: &[Envelope]) -> Vec<Request> {
    let mut state = State::default();
    let mut requests: Vec<Request> = Vec::new();
    for event in log {
        state.apply(event);
        if state.messages.is_empty() {
            continue;
        }
        let mut made =
            vec![request_builder::request(&state), request_builder::title_request(&state)];
        if let Some(ModelStatus::Compacting(compacting)) =
            state.turn.as_ref().map(|turn| &turn.model_status)
        {
            made.push(request_builder::summary_request(&state, compacting));
        }
        for request in made {
            if !requests.iter().rev().take(6).any(|known| *known == request) {
                requests.push(request);
            }
        }
    }
    requests
}

/// Asserts that each request is accepted. If a request extends another, its beginning is unchanged;
/// only servers with alternating roles get two user messages merged into one.
fn assert_accepted(site: &Site, requests: &[Request]) {
    let mut all: Vec<Vec<Value>> = Vec::new();
    for (at, later) in requests.iter().enumerate() {
        let body = site.body(later);
        let faults = site.faults(&body);
        assert!(faults.is_empty(), "{}: {faults:?}\n{body}", site.name());
        let after = conversation(body);
        for (earlier, before) in requests[..at].iter().zip(&all).rev().take(3) {
            if grows(earlier, later) {
                assert!(begins(&after, before), "{}:\n{before:#?}\n{after:#?}", site.name());
            }
        }
        all.push(after);
    }
}

fn grows(earlier: &Request, later: &Request) -> bool {
    let is_user = |message: &RequestMessage| matches!(message, RequestMessage::User { .. });
    let seam = later.messages.iter().skip(earlier.messages.len() - 1).take(2);
    let joins = seam.filter(|message| is_user(message)).count() == 2;
    !joins && later.system == earlier.system && later.messages.starts_with(&earlier.messages)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_taken(actions in actions(), steps in prop_oneof![3 => Just(20), 1 => 1..4_u32]) {
        let requests = requests(&session(&config(steps), &actions));
        for site in sites() {
            assert_accepted(&site, &requests);
        }
    }
}

fn said(text: &'static str) -> [Action; 2] {
    [Action::PendingText(text), Action::Step(Step::Reply(Finish::Stop))]
}

fn resolve(id: &'static str) -> Action {
    Action::Step(Step::Resolve(id, Class::Read, crate::harness::READ, ""))
}

fn done(id: &'static str) -> Action {
    Action::Step(Step::Done(id, "ok"))
}

/// Two turns with reasoning, parallel calls and repeated ids, and a prompt that arrives meanwhile.
fn work(signature: &'static str) -> Vec<Action> {
    use Action::{Attach, Call, Round, Think};
    let calls = Action::Step(Step::Reply(Finish::ToolCalls));
    let mut actions = vec![
        Action::Step(Step::Prompt("go")),
        Action::Step(Step::Title("going")),
        Think("hm", Some(signature), false),
        Action::PendingText("I look."),
        Call("a", "read", r#"{"path":"x"}"#),
        Call("b", "list", "{}"),
        calls.clone(),
        resolve("b"),
        resolve("a"),
        done("b"),
        Action::Step(Step::Prompt("and hurry")),
        Attach("image/png", "iVBORw0KGgo="),
        Action::PendingText("I look"),
        Think("", Some(signature), false),
        Action::PendingText(" again."),
        Call("a", "read", "[1]"),
        calls,
        resolve("a"),
        done("a"),
        Round("functions.read:0"),
    ];
    actions.extend(said("Done."));
    actions.push(Action::Step(Step::Prompt("more")));
    actions.push(Round("a"));
    actions.extend(said("Done again."));
    actions.push(Action::Step(Step::Prompt("thanks")));
    actions
}

/// A session with every kind of interruption.
fn trouble() -> Vec<Action> {
    use Action::{Call, Media, Round, Switch, Think};
    let sealed = crate::actions::SIGNATURES[0];
    let fail = |class| Action::Step(Step::Fail(class, true));
    vec![
        Media("application/pdf", "JVBERi0="),
        Think("hm", None, false),
        Call("a", "we.ird name", "\"{broken\""),
        Action::Step(Step::Interrupt),
        Action::Step(Step::Prompt("")),
        Think("hm", Some(sealed), true),
        fail(FailureClass::Overloaded),
        Action::Step(Step::Elapse),
        Call("", "", "null"),
        Action::Step(Step::Resume { close: false }),
        Action::Step(Step::Unresolved("")),
        Action::Step(Step::Reply(Finish::Stop)),
        Switch(1),
        Action::Step(Step::Prompt("go on")),
        Think("hm", Some(sealed), false),
        Call("a", "batch", "{}"),
        Action::Step(Step::Reply(Finish::ToolCalls)),
        Action::Step(Step::Batch("a", 2)),
        Action::Step(Step::Elapse),
        Action::Step(Step::Interrupt),
        Action::Step(Step::Prompt("again")),
        Round("a"),
        Call("t", "task", "{}"),
        Action::Step(Step::Reply(Finish::ToolCalls)),
        Action::Step(Step::Task("t")),
        Action::Step(Step::ChildEnds("t")),
        Action::PendingText(" "),
        Action::Step(Step::Full(9_900)),
        Action::Step(Step::Prompt("still there?")),
        Action::Step(Step::Summary("so far")),
        Action::Step(Step::Resume { close: true }),
        Action::Step(Step::Prompt("well")),
        Action::PendingText("half"),
        Action::Step(Step::Reply(Finish::Pause)),
        Action::PendingText("whole"),
        Action::Step(Step::Reply(Finish::Length)),
        Action::Step(Step::Prompt("end")),
    ]
}

#[test]
fn every_prefix_of_these_sessions_is_taken() {
    let mut sessions = vec![session(&config(20), &trouble())];
    sessions
        .extend(crate::actions::SIGNATURES.map(|signature| session(&config(20), &work(signature))));
    sessions.push(session(&config(2), &work(crate::actions::SIGNATURES[0])));
    for log in sessions {
        let requests = requests(&log);
        assert!(requests.len() > 8, "too little happens: {}", requests.len());
        for site in sites() {
            assert_accepted(&site, &requests);
        }
    }
}

/// The requests that were made, in order: tools, two turns, and the last step of a turn with its
/// texts.
#[test]
fn each_request_begins_as_the_one_before() {
    for (steps, count) in [(20, 7), (3, 6)] {
        let log = session(&config(steps), &work(crate::actions::SIGNATURES[0]));
        let made = asked(&log);
        assert_eq!(made.len(), count, "{steps} steps");
        for site in sites() {
            let all: Vec<_> = made.iter().map(|r| conversation(site.body(r))).collect();
            for pair in all.windows(2) {
                let begins = pair[1].starts_with(&pair[0]);
                assert!(begins, "{}:\n{:#?}\n{:#?}", site.name(), pair[0], pair[1]);
            }
        }
    }
}

/// The requests for steps of turns, as they were made.
fn asked(log: &[Envelope]) -> Vec<Request> {
    use leftfold_events::event::{Event, Model, Purpose};
    let mut state = State::default();
    let mut made = Vec::new();
    for event in log {
        if let Event::Model(Model::Requested { purpose: Purpose::Turn, .. }) = &event.event {
            made.push(request_builder::request(&state));
        }
        state.apply(event);
    }
    made
}
