//! The limits of a turn: cost, time, and its last step.

use crate::common::*;
use leftfold_events::event::{Answer::*, Class, EndReason, Event, FailureClass, Finish, Model};
use leftfold_events::request::RequestMessage;
use leftfold_events::{Envelope, State, TurnConfig, request_builder, verify};

/// Every reply of the harness costs 0.5.
fn costing(max: f64) -> TurnConfig {
    let mut config = config();
    config.options.max_cost = Some(max);
    config
}

fn lasting(millis: u64) -> TurnConfig {
    let mut config = config();
    config.options.max_time = Some(millis);
    config
}

fn stepping(max: u32) -> TurnConfig {
    let mut config = config();
    config.options.max_steps = max;
    config
}

fn called(class: Class) -> Vec<Step> {
    vec![Prompt("hi"), Call("a", "x"), Resolve("a", class, READ, "/p/x")]
}

fn ended(config: &TurnConfig, given: &[Step]) -> (EndReason, String) {
    let mut run = Run::new(config);
    given.iter().for_each(|step| drop(run.step(step)));
    let Some(ended) = run.state.ended else { unreachable!("the turn is over") };
    (ended.reason, ended.error.unwrap_or_default())
}

#[test]
fn a_turn_that_is_too_dear_asks_no_more() {
    let config = costing(0.4);
    let replied = [&called(Class::Read)[..], &[Reply(Finish::ToolCalls)]].concat();
    check_with(&config, &replied, &["tool.cancelled a 1", "turn.ended limit"]);
    let done = [&called(Class::Read)[..], &[Done("a", "ok"), Reply(Finish::ToolCalls)]].concat();
    check_with(&config, &done, &["turn.ended limit"]);
    let queued = [Prompt("hi"), Prompt("and"), Reply(Finish::Stop)];
    check_with(&config, &queued, &["turn.ended limit"]);
    let (reason, error) = ended(&config, &replied);
    assert_eq!(reason, EndReason::Limit);
    assert_eq!(error, "the limit of cost is $0.4, and the turn has cost $0.5");
}

#[test]
fn an_answer_is_whole_whatever_it_cost() {
    check_with(&costing(0.0), &[Prompt("hi"), Reply(Finish::Stop)], &["turn.ended completed"]);
}

#[test]
fn a_limit_that_is_just_reached_is_not_passed_and_holds_for_one_turn() {
    let config = costing(0.5);
    let one = [&called(Class::Read)[..], &[Reply(Finish::ToolCalls), Done("a", "ok")]].concat();
    check_with(&config, &one, &["model.requested 2.1"]);
    let again = [&one[..], &[Reply(Finish::Stop), Prompt("more"), Call("b", "x")]].concat();
    check_with(&config, &again, &["tool.resolve_started b"]);
    let again = [&again[..], &[Reply(Finish::ToolCalls)]].concat();
    check_with(&config, &again, &[]);
}

#[test]
fn titles_count_and_never_cut_a_reply_short() {
    let mut config = titled();
    config.options.max_cost = Some(0.4);
    let title = [Prompt("hi"), Text("ha"), Title("t")];
    check_with(&config, &title, &[]);
    let answered = [&title[..], &[Reply(Finish::Stop)]].concat();
    check_with(&config, &answered, &["turn.ended completed"]);
    let failed = [&title[..], &[Fail(FailureClass::Overloaded, true)]].concat();
    check_with(&config, &failed, &["turn.ended limit"]);
    let mut config = titled();
    config.options.max_cost = Some(0.6);
    let running = [&called(Class::Command)[..], &[Reply(Finish::ToolCalls), Title("t")]].concat();
    check_with(&config, &running, &["tool.cancelled a 1", "turn.ended limit"]);
}

#[test]
fn time_that_only_the_title_takes_is_not_held_against_the_answer() {
    let mut config = titled();
    config.options.max_time = Some(100);
    let answered = [Prompt("hi"), Text("ha"), Reply(Finish::Stop)];
    check_with(&config, &answered, &[]);
    check_with(&config, &[&answered[..], &[Elapse]].concat(), &["turn.ended completed"]);
    let mut run = Run::new(&config);
    answered.iter().for_each(|step| drop(run.step(step)));
    run.now += 5_000;
    run.step(&Resume { close: false });
    assert_eq!(run.state.ended.expect("over").reason, EndReason::Completed);
}

#[test]
fn a_summary_that_was_paid_for_is_kept() {
    let config = costing(0.6);
    let given = [&called(Class::Read)[..], &[Full(9_900), Done("a", "ok")]].concat();
    check_with(&config, &given, &["compaction.started", "model.requested 1.1"]);
    check_with(&config, &[&given[..], &[Summary("so far")]].concat(), &["turn.ended limit"]);
}

#[test]
fn time_is_over_whatever_is_open() {
    let open: [(&[Step], &[&str]); 6] = [
        (&[], &["turn.ended limit"]),
        (&[Text("half")], &["turn.ended limit"]),
        (&[Fail(FailureClass::Overloaded, true)], &["turn.ended limit"]),
        (&[Call("a", "x")], &["tool.cancelled a 0", "turn.ended limit"]),
        (
            &[Call("a", "x"), Resolve("a", Class::Command, READ, ""), Reply(Finish::ToolCalls)],
            &["tool.cancelled a 1", "turn.ended limit"],
        ),
        (
            &[Call("a", "x"), Resolve("a", Class::Command, ASK, ""), Reply(Finish::ToolCalls)],
            &["tool.cancelled a 0", "turn.ended limit"],
        ),
    ];
    for (steps, then) in open {
        let given = [&[Prompt("hi")], steps, &[Elapse]].concat();
        check_with(&lasting(100), &given, then);
        let (reason, error) = ended(&lasting(100), &given);
        assert_eq!(reason, EndReason::Limit);
        assert_eq!(error, "the limit of time is 100ms, and the turn has taken 110ms");
    }
}

#[test]
fn what_is_due_before_the_time_is_over_comes_first() {
    let called = [&called(Class::Command)[..], &[Reply(Finish::ToolCalls), Elapse]].concat();
    check_with(&lasting(60_000), &called, &["tool.cancelled a 1", "model.requested 2.1"]);
    check_with(&lasting(60_000), &[&called[..], &[Elapse]].concat(), &["turn.ended limit"]);
}

#[test]
fn a_turn_in_time_is_left_alone_and_the_next_has_its_own_time() {
    let given = [Prompt("hi"), Reply(Finish::Stop), Prompt("more"), Elapse];
    check_with(&lasting(100), &given[..2], &["turn.ended completed"]);
    check_with(&lasting(100), &given[..3], &["model.requested 1.1"]);
    check_with(&lasting(100), &given, &["turn.ended limit"]);
    check_with(&lasting(100), &[&given[..2], &[Elapse]].concat(), &[]);
}

#[test]
fn time_goes_on_while_no_node_is_there() {
    let config = lasting(1_000);
    let mut run = Run::new(&config);
    called(Class::Read).iter().for_each(|step| drop(run.step(step)));
    for (pause, then) in
        [(100, &["tool.started a 2"][..]), (5_000, &["tool.lost a 1", "turn.ended limit"])]
    {
        let mut next = Run::folded(&run.log);
        next.now += pause;
        let batch = next.step(&Resume { close: false });
        let intents: Vec<_> = batch.iter().skip(1).map(describe).collect();
        assert_eq!(intents, then, "after {pause} ms");
        assert_eq!(verify(&next.log), vec![]);
        assert_prefixes_valid(&next.log);
    }
    let mut closed = Run::folded(&run.log);
    closed.now += 5_000;
    closed.step(&Resume { close: true });
    assert_eq!(closed.state.ended.expect("closed").reason, EndReason::Aborted);
}

#[test]
fn nothing_late_counts_after_the_limit() {
    let given = [&called(Class::Read)[..], &[Elapse, Done("a", "late"), Reply(Finish::Stop)]];
    check_with(&lasting(100), &given.concat(), &[]);
}

/// The requests of the turn's steps, each as decided and as dispatched.
fn requests(log: &[Envelope]) -> Vec<leftfold_events::Request> {
    let mut state = State::default();
    let mut requests = Vec::new();
    for event in log {
        let before = request_builder::request(&state);
        state.apply(event);
        if let Event::Model(Model::Requested { request_sha256, .. }) = &event.event {
            assert_eq!(before.sha256(), *request_sha256);
            assert_eq!(
                request_builder::request(&state),
                before,
                "what is sent is what was decided"
            );
            requests.push(before);
        }
    }
    requests
}

fn wraps_up(request: &leftfold_events::Request) -> bool {
    match request.messages.last() {
        Some(RequestMessage::User { parts }) => parts
            .iter()
            .any(|part| part.text.contains("last step") && part.text.contains("no tools")),
        Some(RequestMessage::Tool { .. } | RequestMessage::Assistant { .. }) | None => false,
    }
}

#[test]
fn the_last_step_is_told_to_wrap_up_and_no_other() {
    let one = [&called(Class::Read)[..], &[Reply(Finish::ToolCalls), Done("a", "ok")]].concat();
    let retried = [&one[..], &[Fail(FailureClass::Overloaded, true), Elapse]].concat();
    for (max, told) in [(1, vec![true]), (2, vec![false, true, true]), (3, vec![false; 3])] {
        let mut run = Run::new(&stepping(max));
        retried.iter().for_each(|step| drop(run.step(step)));
        let requests = requests(&run.log);
        assert_eq!(requests.iter().map(wraps_up).collect::<Vec<_>>(), told, "{max} steps");
        // the messages before it are those that the next step of a longer turn would send
        assert!(requests.windows(2).all(|pair| pair[0].tools == pair[1].tools));
    }
    check_with(
        &stepping(2),
        &[&one[..], &[Reply(Finish::Stop)]].concat(),
        &["turn.ended completed"],
    );
}

#[test]
fn calls_of_the_last_step_are_not_run_and_end_the_turn() {
    let config = stepping(2);
    let one = [&called(Class::Read)[..], &[Reply(Finish::ToolCalls), Done("a", "ok")]].concat();
    let last = [&one[..], &[Text("so"), Call("b", "x"), Call("c", "x")]].concat();
    check_with(&config, &one, &["model.requested 2.1"]);
    check_with(&config, &last[..last.len() - 1], &["tool.cancelled b 0"]);
    check_with(&config, &last, &["tool.cancelled c 0"]);
    let given = [&last[..], &[Reply(Finish::ToolCalls)]].concat();
    check_with(&config, &given, &["turn.ended maxsteps"]);
    let mut run = Run::new(&config);
    given.iter().for_each(|step| drop(run.step(step)));
    assert_eq!(run.state.ended.as_ref().map(|ended| ended.text.as_str()), Some("so"));
    let request = format!("{:?}", request_builder::request(&run.state).messages);
    assert_eq!(request.matches("in the last step of the turn").count(), 2);
    // the step after a prompt's call is the first and the last
    let only = [Prompt("hi"), Call("a", "x")];
    check_with(&stepping(1), &only, &["tool.cancelled a 0"]);
}

#[test]
fn a_log_with_limits_is_cut_anywhere_and_resumed() {
    let asked = Resolve("a", Class::Command, ASK, "");
    let steps = [
        Prompt("hi"),
        Text("I look"),
        Call("a", "x"),
        asked,
        Reply(Finish::ToolCalls),
        Answer("a", Once, None),
        Progress("a", "half"),
        Done("a", "ok"),
        Fail(FailureClass::Overloaded, true),
        Elapse,
        Call("b", "x"),
        Reply(Finish::ToolCalls),
        Elapse,
        Elapse,
    ];
    for config in [costing(0.4), costing(0.7), lasting(35), lasting(600_000), stepping(2)] {
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| drop(run.step(step)));
        run.finish();
        for cut in 2..=run.log.len() {
            for (close, pause) in [(false, 0), (false, 700_000), (true, 700_000)] {
                let mut survivor = Run::folded(&run.log[..cut]);
                survivor.now += pause;
                survivor.step(&Resume { close });
                survivor.finish();
                assert_prefixes_valid(&survivor.log);
                assert_started_once(&survivor.log);
                assert_eq!(verify(&survivor.log), vec![], "cut at {cut}");
                assert_eq!(leftfold_events::fold(&survivor.log), survivor.state);
            }
        }
    }
}
