//! Whatever has happened in a session: the requests of each prefix of its log are taken by every
//! API, and each begins as the one before.
#![cfg(debug_assertions)]

use crate::common::{Site, begins, conversation, sites};
use crate::deeds::{Deed, config, deeds, session};
use crate::harness::Step;
use leftfold_events::event::{Class, FailureClass, Finish};
use leftfold_events::request::RequestMessage;
use leftfold_events::state::ModelStatus;
use leftfold_events::{Envelope, Request, State, context};
use proptest::prelude::*;
use serde_json::Value;

/// The different requests that could be made after each event, in order.
fn requests(log: &[Envelope]) -> Vec<Request> {
    let mut state = State::default();
    let mut requests: Vec<Request> = Vec::new();
    for event in log {
        state.apply(event);
        if state.messages.is_empty() {
            continue;
        }
        let mut made = vec![context::request(&state), context::title_request(&state)];
        if let Some(ModelStatus::Compacting(compacting)) =
            state.turn.as_ref().map(|turn| &turn.model_status)
        {
            made.push(context::summary_request(&state, compacting));
        }
        for request in made {
            if !requests.iter().rev().take(6).any(|known| *known == request) {
                requests.push(request);
            }
        }
    }
    requests
}

/// Each request is taken. One that says more than another does not say the rest otherwise; only
/// servers whose roles have to alternate get two messages of the user's as one.
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
    fn every_request_is_taken(deeds in deeds(), steps in prop_oneof![3 => Just(20), 1 => 1..4_u32]) {
        let requests = requests(&session(&config(steps), &deeds));
        for site in sites() {
            assert_accepted(&site, &requests);
        }
    }
}

fn said(text: &'static str) -> [Deed; 2] {
    [Deed::Said(text), Deed::Step(Step::Reply(Finish::Stop))]
}

fn resolve(id: &'static str) -> Deed {
    Deed::Step(Step::Resolve(id, Class::Read, crate::harness::READ, ""))
}

fn done(id: &'static str) -> Deed {
    Deed::Step(Step::Done(id, "ok"))
}

/// Two turns with thought, parallel calls and ids that repeat, and a prompt that comes meanwhile.
fn work(signature: &'static str) -> Vec<Deed> {
    use Deed::{Attach, Call, Round, Think};
    let calls = Deed::Step(Step::Reply(Finish::ToolCalls));
    let mut deeds = vec![
        Deed::Step(Step::Prompt("go")),
        Deed::Step(Step::Title("going")),
        Think("hm", Some(signature), false),
        Deed::Said("I look."),
        Call("a", "read", r#"{"path":"x"}"#),
        Call("b", "list", "{}"),
        calls.clone(),
        resolve("b"),
        resolve("a"),
        done("b"),
        Deed::Step(Step::Prompt("and hurry")),
        Attach("image/png", "iVBORw0KGgo="),
        Think("", Some(signature), false),
        Call("a", "read", "[1]"),
        calls,
        resolve("a"),
        done("a"),
        Round("functions.read:0"),
    ];
    deeds.extend(said("Done."));
    deeds.push(Deed::Step(Step::Prompt("more")));
    deeds.push(Round("a"));
    deeds.extend(said("Done again."));
    deeds.push(Deed::Step(Step::Prompt("thanks")));
    deeds
}

/// A session that is broken off in every way.
fn trouble() -> Vec<Deed> {
    use Deed::{Call, Media, Round, Switch, Think};
    let sealed = crate::deeds::SIGNATURES[0];
    let fail = |class| Deed::Step(Step::Fail(class, true));
    vec![
        Media("application/pdf", "JVBERi0="),
        Think("hm", None, false),
        Call("a", "we.ird name", "\"{broken\""),
        Deed::Step(Step::Interrupt),
        Deed::Step(Step::Prompt("")),
        Think("hm", Some(sealed), true),
        fail(FailureClass::Overloaded),
        Deed::Step(Step::Elapse),
        Call("", "", "null"),
        Deed::Step(Step::Resume { close: false }),
        Deed::Step(Step::Unresolved("")),
        Deed::Step(Step::Reply(Finish::Stop)),
        Switch(1),
        Deed::Step(Step::Prompt("go on")),
        Think("hm", Some(sealed), false),
        Call("a", "batch", "{}"),
        Deed::Step(Step::Reply(Finish::ToolCalls)),
        Deed::Step(Step::Batch("a", 2)),
        Deed::Step(Step::Elapse),
        Deed::Step(Step::Interrupt),
        Deed::Step(Step::Prompt("again")),
        Round("a"),
        Call("t", "task", "{}"),
        Deed::Step(Step::Reply(Finish::ToolCalls)),
        Deed::Step(Step::Task("t")),
        Deed::Step(Step::ChildEnds("t")),
        Deed::Said(" "),
        Deed::Step(Step::Full(9_900)),
        Deed::Step(Step::Prompt("still there?")),
        Deed::Step(Step::Summary("so far")),
        Deed::Step(Step::Resume { close: true }),
        Deed::Step(Step::Prompt("well")),
        Deed::Said("half"),
        Deed::Step(Step::Reply(Finish::Pause)),
        Deed::Said("whole"),
        Deed::Step(Step::Reply(Finish::Length)),
        Deed::Step(Step::Prompt("end")),
    ]
}

#[test]
fn every_prefix_of_these_sessions_is_taken() {
    let mut sessions = vec![session(&config(20), &trouble())];
    sessions
        .extend(crate::deeds::SIGNATURES.map(|signature| session(&config(20), &work(signature))));
    sessions.push(session(&config(2), &work(crate::deeds::SIGNATURES[0])));
    for log in sessions {
        let requests = requests(&log);
        assert!(requests.len() > 8, "too little happens: {}", requests.len());
        for site in sites() {
            assert_accepted(&site, &requests);
        }
    }
}

/// The requests that were made, one after the other: tools, two turns, and the step that is the
/// last of its turn, with its words.
#[test]
fn each_request_begins_as_the_one_before() {
    for (steps, count) in [(20, 7), (3, 6)] {
        let log = session(&config(steps), &work(crate::deeds::SIGNATURES[0]));
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
            made.push(context::request(&state));
        }
        state.apply(event);
    }
    made
}
