//! How a call and its child continue, decided from the states of both.

use crate::common::*;
use leftfold_events::children::{self, ChildIntent, Spawned};
use leftfold_events::event::{EndReason, Finish, Session};
use leftfold_events::{Envelope, Fact, SessionId, State, Time};

const ASKED: [Step; 4] = [Prompt("hi"), Call("a", "task"), Reply(Finish::ToolCalls), Task("a")];
const ENDED: [Step; 3] = [Prompt("look"), Text("I see."), Reply(Finish::Stop)];

fn after(steps: &[&[Step]]) -> State {
    let mut run = Run::new(&config());
    steps.concat().iter().for_each(|step| drop(run.step(step)));
    run.state
}

/// A parent whose call has spawned a child, and later events.
fn parent(more: &[Step]) -> State {
    after(&[&ASKED, more])
}

fn spawned(again: bool, cut_off: bool) -> Spawned {
    let parent = parent(&[]);
    let wait = parent.children[0].wait;
    Spawned { seq: wait.intent, at: wait.since, again, cut_off }
}

/// A child with these `steps`, after the parent's call or (`before`) before it.
fn child(steps: &[Step], before: bool) -> State {
    let mut state = after(&[steps]);
    state.at = spawned(false, false).at;
    if before {
        state.at = Time::from_millis(state.at.millis() - 1);
    }
    state
}

#[test]
fn what_a_child_is_told_follows_from_both_states() {
    let works = || child(&[Prompt("look")], false);
    let had_it = || child(&ENDED, false);
    let had_another = || child(&ENDED, true);
    let ended = had_it().ended.map(ChildIntent::Report).expect("an end");
    let prompt = ChildIntent::Prompt { title: true };
    let waits = || parent(&[]);
    let stopped = || parent(&[Interrupt]);
    let given_up = || parent(&[Elapse]);
    let closed = || parent(&[Resume { close: true }]);
    let gone_on = || parent(&[Resume { close: false }]);
    for (case, parent, child, (again, cut_off), intent) in [
        ("a new child", waits(), State::default(), (false, false), prompt.clone()),
        ("one that had another task", waits(), had_another(), (false, false), prompt.clone()),
        ("in the same millisecond", waits(), had_it(), (false, false), prompt.clone()),
        ("it was never begun", gone_on(), State::default(), (true, false), prompt.clone()),
        ("nor with this task", gone_on(), had_another(), (true, false), prompt),
        ("it ended meanwhile", gone_on(), had_it(), (true, false), ended),
        ("it is at work", gone_on(), works(), (true, false), ChildIntent::Wait),
        ("cut off", gone_on(), works(), (true, true), ChildIntent::Resume { close: false }),
        (
            "cut off, and closed",
            closed(),
            works(),
            (true, true),
            ChildIntent::Resume { close: true },
        ),
        (
            "cut off, and stopped",
            stopped(),
            works(),
            (true, true),
            ChildIntent::Resume { close: true },
        ),
        ("closed at work", closed(), works(), (true, false), ChildIntent::Interrupt),
        ("closed at rest", closed(), had_it(), (true, false), ChildIntent::Nothing),
        ("given up, then at work", given_up(), works(), (true, false), ChildIntent::CallOff),
        (
            "stopped before it began",
            stopped(),
            State::default(),
            (false, false),
            ChildIntent::CallOff,
        ),
        ("stopped, at work for somebody", stopped(), works(), (false, false), ChildIntent::CallOff),
        ("of nobody", State::default(), works(), (true, true), ChildIntent::Nothing),
    ] {
        assert_eq!(children::next(&parent, &child, &spawned(again, cut_off)), intent, "{case}");
    }
}

#[test]
fn a_child_with_a_title_keeps_it() {
    let mut run = Run::new(&config());
    run.tell(Fact::new(Session::Titled { title: "Look".into() }));
    let intent = children::next(&parent(&[]), &run.state, &spawned(false, false));
    assert_eq!(intent, ChildIntent::Prompt { title: false });
}

#[test]
fn a_call_waits_until_it_is_stopped_or_its_child_has_ended() {
    let seq = spawned(false, false).seq;
    for (steps, waits) in [
        (&[][..], true),
        (&[Resume { close: false }], true),
        (&[Resume { close: true }], false),
        (&[Interrupt], false),
        (&[Elapse], false),
        (&[ChildEnds("a")], false),
        (&[ChildEnds("a"), Done("a", "found it")], false),
    ] {
        assert_eq!(children::waits_for(&parent(steps), seq), waits, "{steps:?}");
        assert!(!children::waits_for(&parent(steps), seq + 1), "{steps:?}");
    }
}

/// One event a millisecond.
fn timed(mut log: Vec<Envelope>, from: u64) -> Vec<Envelope> {
    log.iter_mut().zip(from..).for_each(|(event, at)| event.at = Time::from_millis(at));
    log
}

#[test]
fn an_inherited_child_is_forked_where_its_parent_was() {
    let mut root = Run::new(&config());
    ASKED.iter().for_each(|step| drop(root.step(step)));
    let of = root.state.children[0].clone();
    let spawned = timed(root.log.clone(), 0);
    let until = spawned.last().expect("a spawn").at.millis();
    let mut ended = spawned.clone();
    let end = child_ended(of.session, "found it".into(), EndReason::Completed, 0.0);
    ended.extend(timed(root.tell(Fact::for_intent(of.wait.intent, end)), until + 100));
    let mut looks = Run::new(&config());
    ENDED.iter().for_each(|step| drop(looks.step(step)));
    let last = looks.state.seq;
    // the time when the child began, after the last shared event of its parent
    for (case, shared, began, at) in [
        ("it had been told nothing", &spawned, 1, None),
        ("it was at work", &spawned, -(last as i64) + 2, Some(last - 1)),
        ("it was done, and the call had not heard of it", &spawned, -(last as i64), Some(last)),
        ("the call had heard of its end", &ended, 1, Some(last)),
    ] {
        let log = timed(looks.log.clone(), until.saturating_add_signed(began));
        assert_eq!(children::fork_point(shared, &log, of.session), at, "{case}");
        assert_eq!(children::fork_point(shared, &log, SessionId::default()), None, "{case}");
    }
}
