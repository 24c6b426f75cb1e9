//! Another agent takes over: by a prompt, or with a person's agreement; and the texts for models.

use crate::common::*;
use leftfold_events::event::{Answer::*, Class, EndReason, Event, Finish, Model, Purpose, Turn};
use leftfold_events::request::RequestMessage;
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Request, State, request_builder};

const ASKED: [Step; 5] =
    [Equip("plan"), Prompt("plan it"), Call("a", "plan_exit"), Exit("a"), Reply(Finish::ToolCalls)];
const YES: Step = Answer("a", Once, Some("Yes"));

fn given(more: &[Step]) -> Vec<Step> {
    [&ASKED[..], more].concat()
}

fn after(steps: &[Step]) -> Run {
    let mut run = Run::new(&config_of("build"));
    steps.iter().for_each(|step| drop(run.step(step)));
    run
}

#[test]
fn a_yes_has_the_other_agent_take_over_in_the_same_turn() {
    check(&ASKED, &["permission.asked a"]);
    check(&given(&[YES]), &["tool.started a 1"]);
    check(&given(&[YES, Equip("build")]), &[]);
    let taken = given(&[YES, Equip("build"), Done("a", "ok")]);
    check(&taken, &["turn.switched", "model.requested 2.1"]);
    let run = after(&taken);
    assert_eq!((run.state.agent.as_str(), run.state.planning), ("build", false));
    let Some(Event::Turn(Turn::Switched { agent, model })) = run
        .log
        .iter()
        .map(|event| &event.event)
        .find(|e| matches!(e, Event::Turn(Turn::Switched { .. })))
    else {
        unreachable!("the switch is in the log")
    };
    assert_eq!((agent.as_str(), model.to_string()), ("build", "p/m".to_owned()));
    // an allow without text is a yes too
    check(&given(&[Answer("a", Once, None)]), &["tool.started a 1"]);
    check(&given(&[Answer("a", Once, Some(" y "))]), &["tool.started a 1"]);
}

#[test]
fn a_no_ends_the_turn_and_words_go_to_the_model() {
    for no in [Answer("a", Reject, None), Answer("a", Once, Some("No"))] {
        check(&given(std::slice::from_ref(&no)), &["turn.ended blocked"]);
        let run = after(&given(&[no]));
        let ended = run.state.ended.expect("an end");
        assert_eq!((ended.reason, ended.permission_denials.len()), (EndReason::Blocked, 1));
        assert!(run.state.agent == "build" && run.state.planning);
    }
    for words in [Answer("a", Once, Some("shorter")), Answer("a", Reject, Some("shorter"))] {
        check(&given(std::slice::from_ref(&words)), &["model.requested 2.1"]);
        let request = request_builder::request(&after(&given(&[words])).state);
        assert!(format!("{request:?}").contains("rejected this call and said: shorter"));
    }
    check(&given(&[Elapse]), &["model.requested 2.1"]);
    check(&given(&[Interrupt]), &["tool.cancelled a 0", "turn.ended aborted"]);
    check(&given(&[YES, Interrupt]), &["tool.cancelled a 1", "turn.ended aborted"]);
    check(&given(&[YES, Elapse]), &["tool.cancelled a 1", "model.requested 2.1"]);
}

#[test]
fn it_is_for_the_agent_that_may_and_where_somebody_is_there() {
    let asked = |config: &leftfold_events::TurnConfig, then: &[&str]| {
        check_with(config, &ASKED[1..4], then);
    };
    asked(&config_of("build"), &["permission.ruled a deny"]);
    asked(&config_of("plan"), &["permission.ruled a ask"]);
    for ask in [AskMode::Deny, AskMode::Allow] {
        let mut config = config_of("plan");
        config.options.ask = ask;
        asked(&config, &["permission.ruled a deny"]);
    }
}

#[test]
fn the_question_waits_for_the_other_calls() {
    let edit = |id| Resolve(id, Class::Write, ("read", "x"), "");
    let both = [&ASKED[..4], &[Call("b", "edit"), Call("c", "plan_exit")]].concat();
    check(&both, &["tool.resolve_started c"]);
    let resolved = [&both[..], &[Exit("c"), Reply(Finish::ToolCalls)]].concat();
    check(&resolved, &[]);
    let started = [&resolved[..], &[edit("b")]].concat();
    check(&started, &["permission.ruled b allow", "tool.started b 1"]);
    let done = [&started[..], &[Done("b", "ok")]].concat();
    check(&done, &["permission.asked a"]);
    // the new agent has no permission for the second of them
    let taken = [&done[..], &[YES, Equip("build"), Done("a", "ok")]].concat();
    check(&taken, &["permission.ruled c deny", "turn.switched", "model.requested 2.1"]);
}

#[test]
fn a_crash_at_any_moment_of_it_comes_to_the_same_end() {
    let taken = after(&given(&[YES, Equip("build"), Done("a", "ok")]));
    let run = after(&given(&[YES]));
    for (log, then) in [
        (&run.log[..], &["tool.started a 2"][..]),
        (&taken.log[..run.log.len() + 1], &["tool.started a 2"]),
        (&taken.log[..run.log.len() + 2], &["turn.switched", "model.requested 2.1"]),
        (&taken.log[..run.log.len() + 3], &["model.requested 2.1"]),
    ] {
        let mut survivor = Run::folded(log);
        let batch = survivor.step(&Resume { close: false });
        let intents: Vec<_> = batch.iter().skip(1).map(describe).collect();
        assert_eq!(intents, then);
        survivor.finish();
        assert_eq!(survivor.state.agent, "build");
        let switches = survivor.log.iter().filter(|e| describe(e) == "turn.switched").count();
        assert_eq!(switches, 1);
    }
}

/// The requests of the steps.
fn requests(run: &Run) -> Vec<Request> {
    let mut state = State::default();
    let mut requests = Vec::new();
    for event in &run.log {
        if let Event::Model(Model::Requested { request_sha256, purpose: Purpose::Turn, .. }) =
            &event.event
        {
            let request = request_builder::request(&state);
            assert_eq!(request.sha256(), *request_sha256);
            requests.push(request);
        }
        state.apply(event);
    }
    requests
}

/// The user texts in a request.
fn said(request: &Request) -> Vec<String> {
    let texts = request.messages.iter().filter_map(|message| match message {
        RequestMessage::User { parts } => {
            Some(parts.iter().map(|p| p.text.as_str()).collect::<Vec<_>>().join(" | "))
        }
        RequestMessage::Assistant { .. } | RequestMessage::Tool { .. } => None,
    });
    texts.collect()
}

#[test]
fn reminders_come_once_and_stay_where_they_came() {
    let turn = |text| [Prompt(text), Text("ok"), Reply(Finish::Stop)];
    let steps = [
        &turn("one")[..],
        &[Equip("plan")],
        &turn("two"),
        &turn("three"),
        &[Equip("build")],
        &turn("four"),
        &turn("five"),
        &ASKED,
        &[YES, Equip("build"), Done("a", "ok"), Text("ok"), Reply(Finish::Stop)],
    ];
    let run = after(&steps.concat());
    let requests = requests(&run);
    let last = requests.last().expect("requests");
    let approved = "The plan has been approved. You are the agent `build` now: carry it out.";
    assert_eq!(
        said(last),
        [
            "one",
            "two | You are plan.",
            "three",
            "four | You are build.",
            "five",
            "plan it | You are plan.",
            &format!("{approved} | You are build."),
        ]
    );
    for pair in requests.windows(2) {
        assert!(pair[1].messages.starts_with(&pair[0].messages));
    }
    let state = leftfold_events::fold(&run.log);
    assert!(!format!("{:?}", request_builder::title_request(&state)).contains("You are"));
}

#[test]
fn a_summary_does_not_forget_that_the_agent_plans() {
    let full = [Prompt("hi"), Text("ok"), Full(9_900), Prompt("more"), Summary("so far")];
    let summed = |agent| {
        let run = after(&[&[Equip(agent)][..], &full].concat());
        said(&request_builder::request(&run.state))[0].clone()
    };
    assert!(summed("plan").ends_with("so far | You are plan."), "{}", summed("plan"));
    assert!(summed("build").ends_with("so far"), "{}", summed("build"));
}
