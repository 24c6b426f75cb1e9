//! Sessions that a call starts.

use crate::common::*;
use leftfold_events::event::{Class, EndReason, Event, Finish, Subagent};
use leftfold_events::{Envelope, Fact, SessionId, event};

const ASKED: [Step; 4] = [Prompt("hi"), Call("a", "task"), Reply(Finish::ToolCalls), Task("a")];

fn given(more: &[Step]) -> Vec<Step> {
    [&ASKED[..], more].concat()
}

fn spawned(log: &[Envelope]) -> Vec<SessionId> {
    let sessions = log.iter().filter_map(|event| {
        let Event::Subagent(Subagent::Spawned { session, .. }) = &event.event else { return None };
        Some(*session)
    });
    sessions.collect()
}

fn after(steps: &[Step]) -> Run {
    let mut run = Run::new(&config());
    steps.iter().for_each(|step| {
        run.step(step);
    });
    run
}

#[test]
fn a_call_spawns_its_child_and_ends_with_it() {
    check(&ASKED, &["permission.ruled a allow", "tool.started a 1", "subagent.spawned a"]);
    check(&given(&[ChildEnds("a")]), &[]);
    check(&given(&[ChildEnds("a"), Done("a", "found it")]), &["model.requested 2.1"]);
    // never the next step while a child may still work
    check(&given(&[Done("a", "found it")]), &[]);
    check(&given(&[Done("a", "found it"), ChildEnds("a")]), &["model.requested 2.1"]);
}

#[test]
fn the_end_of_a_turn_waits_for_its_children() {
    check(&given(&[Interrupt]), &["tool.cancelled a 1"]);
    check(&given(&[Interrupt, ChildEnds("a")]), &["turn.ended aborted"]);
    // a child that never reports is given up at last
    check(&given(&[Interrupt, Elapse]), &["turn.ended aborted"]);
    check(&given(&[Elapse]), &["tool.cancelled a 1"]);
    check(&given(&[Elapse, ChildEnds("a")]), &["model.requested 2.1"]);
}

#[test]
fn a_new_node_goes_on_with_the_same_child() {
    check(&given(&[Resume { close: false }]), &[]);
    let run = after(&given(&[Resume { close: false }]));
    assert_eq!(spawned(&run.log).len(), 1);
    assert_eq!(run.state.open_children().count(), 1);
    check(&given(&[Resume { close: true }]), &["tool.lost a 1", "turn.ended aborted"]);
    let log = after(&ASKED).log;
    let mut run = Run::folded(&log[..log.len() - 1]);
    let batch = run.step(&Resume { close: false });
    assert_eq!(spawned(&batch).len(), 1, "one that was decided on and not spawned is spawned now");
}

#[test]
fn the_id_of_a_child_follows_from_its_place() {
    let (one, other) = (after(&ASKED), after(&ASKED));
    assert_eq!(spawned(&one.log), spawned(&other.log));
    assert_ne!(spawned(&one.log)[0], Run::session());
    let child = one.state.children.first().expect("a child");
    assert!(!child.ended && child.wait.until > child.wait.since);
}

#[test]
fn what_children_cost_counts_towards_the_limit_and_not_as_the_sessions_own() {
    // every reply of the harness costs 0.5
    for (max, cost, reason) in [(0.9, 0.5, EndReason::Limit), (2.0, 0.5, EndReason::Completed)] {
        let mut config = config();
        config.options.max_cost = Some(max);
        let mut run = Run::new(&config);
        ASKED.iter().for_each(|step| drop(run.step(step)));
        let child = run.state.open_children().next().expect("a child").clone();
        assert_eq!((child.may_spend, run.state.left_to_spend()), (Some(max - 0.5), Some(0.0)));
        let ended = child_ended(child.session, "found it".into(), EndReason::Completed, cost);
        run.tell(Fact::for_intent(child.wait.intent, ended));
        assert_eq!(run.state.left_to_spend(), Some((max - 1.0).max(0.0)));
        run.step(&Done("a", "found it"));
        run.finish();
        let ended = run.state.ended.as_ref().expect("an end");
        assert_eq!(ended.reason, reason, "{max}");
        let replies = if reason == EndReason::Limit { 1.0 } else { 2.0 };
        assert!((ended.cost - 0.5 * replies).abs() < 1e-9, "{}", ended.cost);
        assert!((run.state.delegated.cost - cost).abs() < 1e-9);
        // the next turn begins with no cost
        run.step(&Prompt("more"));
        assert_eq!(run.state.left_to_spend(), Some(max));
    }
}

/// A reply that costs 0.5 and gives three tasks, in a turn with a limit of 2.
fn three_tasks(more: &[Step]) -> Run {
    let mut config = config();
    config.options.max_cost = Some(2.0);
    let mut run = Run::new(&config);
    let given = [
        Prompt("hi"),
        Call("a", "task"),
        Call("b", "task"),
        Task("a"),
        Call("c", "task"),
        Task("b"),
        Reply(Finish::ToolCalls),
    ];
    given.iter().chain(more).for_each(|step| drop(run.step(step)));
    run
}

const ALLOWED: [Step; 2] = [Task("c"), Answer("c", event::Answer::Once, None)];

#[test]
fn children_at_once_share_what_is_left() {
    let shares =
        |run: &Run| run.state.children.iter().filter_map(|c| c.may_spend).collect::<Vec<_>>();
    // no child is spawned before the number of children is known
    assert_eq!(shares(&three_tasks(&[])), [0.0; 0]);
    // the third equal call needs a question, and has its share nevertheless
    let run = three_tasks(&[Task("c")]);
    assert_eq!((shares(&run), run.state.left_to_spend()), (vec![0.5; 2], Some(0.5)));
    let run = three_tasks(&ALLOWED);
    assert_eq!((shares(&run), run.state.left_to_spend()), (vec![0.5; 3], Some(0.0)));
    // a child that never begins leaves its share to the others
    let run = three_tasks(&[Resolve("c", Class::Child, ("never", "x"), "")]);
    assert_eq!((shares(&run), run.state.left_to_spend()), (vec![0.75; 2], Some(0.0)));
}

#[test]
fn what_a_child_does_not_spend_comes_back() {
    let mut run = three_tasks(&ALLOWED);
    let child = run.state.children[0].clone();
    let ended = child_ended(child.session, "found it".into(), EndReason::Completed, 0.2);
    run.tell(Fact::for_intent(child.wait.intent, ended));
    let left = run.state.left_to_spend().expect("a limit");
    assert!((left - 0.3).abs() < 1e-9, "{left}");
    // a child that is given up may still cost something
    run.step(&Elapse);
    assert!(run.state.open_children().next().is_some());
    let left = run.state.left_to_spend().expect("a limit");
    assert!((left - 0.3).abs() < 1e-9, "{left}");
}

#[test]
fn without_a_limit_children_begin_at_once() {
    let given = [Prompt("hi"), Call("a", "task"), Call("b", "task"), Task("a")];
    check(&given, &["permission.ruled a allow", "tool.started a 1", "subagent.spawned a"]);
    assert_eq!(after(&given).state.children[0].may_spend, None);
}

#[test]
fn what_a_child_answers_is_not_what_the_turn_answers() {
    let steps = given(&[ChildEnds("a"), Done("a", "found it"), Text("done"), Reply(Finish::Stop)]);
    let ended = after(&steps).state.ended.expect("an end");
    assert_eq!((ended.text.as_str(), ended.reason), ("done", EndReason::Completed));
}

#[test]
fn a_session_that_is_nested_too_deeply_starts_no_subagent() {
    let given = [Prompt("hi"), Call("a", "task"), Reply(Finish::ToolCalls), Task("a")];
    let started = &["permission.ruled a allow", "tool.started a 1", "subagent.spawned a"][..];
    let denied = &["permission.ruled a deny", "model.requested 2.1"][..];
    for (depth, max_depth, expected) in
        [(0, 5, started), (4, 5, started), (5, 5, denied), (6, 5, denied), (0, 0, denied)]
    {
        let mut config = config();
        (config.options.depth, config.options.max_depth) = (depth, max_depth);
        check_with(&config, &given, expected);
    }
}
