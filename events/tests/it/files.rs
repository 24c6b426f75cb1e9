//! Snapshots for steps that may change files; reverts, and undoing them.

use crate::common::*;
use leftfold_events::event::{Class, Finish};
use leftfold_events::state::{Figures, NoRevert};
use leftfold_events::{Seq, request_builder};

const SNAP: [&str; 1] = ["files.snapshot_started"];
const EDIT: (&str, &str) = ("edit", "x");

fn after(given: &[Step], then: &[&str]) -> Run {
    check_with(&snapshotting(), given, then);
    driven(given)
}

fn driven(given: &[Step]) -> Run {
    let mut run = Run::new(&snapshotting());
    for step in given {
        assert!(!run.step(step).is_empty(), "{step:?} means nothing in {given:?}");
    }
    run
}

fn edit(id: &'static str) -> Step {
    Resolve(id, Class::Write, EDIT, "/p/x")
}

/// Two turns, each with an edit: seq 3 and 18 are their prompts.
fn two_turns() -> Vec<Step> {
    vec![
        Prompt("one"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        edit("a"),
        Snap("t0", &[]),
        Done("a", "ok"),
        Snap("t1", &["x", "y"]),
        Reply(Finish::Stop),
        Prompt("two"),
        Call("b", "x"),
        Reply(Finish::ToolCalls),
        edit("b"),
        Snap("t2", &[]),
        Done("b", "ok"),
        Snap("t3", &["x", "z"]),
        Reply(Finish::Stop),
    ]
}

fn seq_of(run: &Run, kind: &str, nth: usize) -> Seq {
    let mut found = run.log.iter().filter(|event| describe(event).starts_with(kind));
    found.nth(nth).map_or(0, |event| event.seq)
}

fn messages(run: &Run) -> usize {
    run.state.messages.len()
}

#[test]
fn a_snapshot_comes_before_the_first_call_that_may_change_files_and_after_each_step() {
    let turn = two_turns();
    for (steps, then) in [
        (4, &["permission.ruled a allow", SNAP[0]][..]),
        (5, &["tool.started a 1"]),
        (6, &SNAP),
        (7, &["model.requested 2.1"]),
        (8, &["turn.ended completed"]),
        (12, &["permission.ruled b allow", SNAP[0]]),
    ] {
        after(&turn[..steps], then);
    }
    // what the user changes between two steps counts for neither
    let mut more = turn[..7].to_vec();
    more.extend([Call("b", "x"), Reply(Finish::ToolCalls), edit("b")]);
    after(&more, &["permission.ruled b allow", SNAP[0]]);
    more.extend([Snap("t2", &[]), Done("b", "ok"), Snap("t3", &["z"]), Reply(Finish::Stop)]);
    let run = driven(&more);
    let changes = run.state.files.changes.iter();
    let changes = changes.map(|changed| (changed.before.as_str(), changed.files.len()));
    assert_eq!(changes.collect::<Vec<_>>(), [("t0", 2), ("t2", 1)]);
}

#[test]
fn calls_that_change_nothing_and_sessions_without_snapshots_have_none() {
    let read =
        |class| [Prompt("hi"), Call("a", "x"), Reply(Finish::Stop), Resolve("a", class, READ, "")];
    let started = ["permission.ruled a allow", "tool.started a 1"];
    let run = after(&read(Class::Read), &started);
    assert_eq!(run.state.files.dirty, None);
    check(&read(Class::Command), &started);
    check(&[&read(Class::Command)[..], &[Done("a", "ok")]].concat(), &["model.requested 2.1"]);
    for class in [Class::Write, Class::Command] {
        after(&read(class), &["permission.ruled a allow", SNAP[0]]);
    }
}

#[test]
fn what_a_child_may_change_is_its_parents() {
    let task = [Prompt("hi"), Call("a", "task"), Reply(Finish::ToolCalls), Task("a")];
    after(&task, &["permission.ruled a allow", SNAP[0]]);
    let started = [&task[..], &[Snap("t0", &[])]].concat();
    after(&started, &["tool.started a 1", "subagent.spawned a"]);
    after(&[&started[..], &[ChildEnds("a"), Done("a", "ok")]].concat(), &SNAP);
}

#[test]
fn calls_of_one_reply_share_one_snapshot_before_and_one_after() {
    let both = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, READ, ""),
        Resolve("b", Class::Command, READ, ""),
    ];
    after(&both, &["permission.ruled b allow"]);
    let started = [&both[..], &[Snap("t0", &[])]].concat();
    after(&started, &["tool.started a 1", "tool.started b 1"]);
    let one = [&started[..], &[Done("a", "ok")]].concat();
    after(&one, &[]);
    after(&[&one[..], &[Done("b", "ok")]].concat(), &SNAP);
}

#[test]
fn a_turn_goes_on_without_a_snapshot_that_fails_or_takes_too_long() {
    for missing in [NoSnap, Elapse] {
        let mut turn = two_turns();
        turn.truncate(4);
        turn.push(missing);
        after(&turn, &["tool.started a 1"]);
        turn.push(Done("a", "ok"));
        let run = after(&turn, &["model.requested 2.1"]);
        assert_eq!(run.state.files.changes, []);
        // the next turn tries again
        turn.extend([Reply(Finish::Stop), Prompt("two"), Call("b", "x"), Reply(Finish::Stop)]);
        turn.push(edit("b"));
        after(&turn, &["permission.ruled b allow", SNAP[0]]);
    }
}

#[test]
fn what_an_interrupted_step_has_changed_is_told_by_the_next_snapshot() {
    let mut turn = two_turns();
    turn.truncate(5);
    turn.extend([Interrupt, Prompt("two"), Call("b", "x"), Reply(Finish::Stop), edit("b")]);
    turn.push(Snap("t1", &["x"]));
    let run = after(&turn, &["tool.started b 1"]);
    let changes = &run.state.files.changes;
    assert_eq!((changes[0].turn, changes[0].before.as_str()), (3, "t0"));
    assert_eq!(run.state.figures(Some(3)), Figures { additions: 2, deletions: 1, files: 1 });
}

#[test]
fn figures_count_lines_of_every_step_and_each_file_once() {
    let run = driven(&two_turns());
    let two = seq_of(&run, "turn.prompted", 1);
    assert_eq!(run.state.figures(Some(3)), Figures { additions: 4, deletions: 2, files: 2 });
    assert_eq!(run.state.figures(Some(two)), Figures { additions: 4, deletions: 2, files: 2 });
    assert_eq!(run.state.figures(None), Figures { additions: 8, deletions: 4, files: 3 });
}

#[test]
fn a_revert_keeps_the_files_and_then_puts_back_what_each_was_before_its_first_change() {
    let run = driven(&two_turns());
    let two = seq_of(&run, "turn.prompted", 1);
    let second = [&two_turns()[..], &[Revert(two)]].concat();
    after(&second, &SNAP);
    let second = [&second[..], &[Snap("t4", &[])]].concat();
    after(&second, &["files.restore_started x=t2 z=t2"]);
    let run = after(&[&second[..], &[Restored("t5")]].concat(), &[]);
    assert_eq!((messages(&run), run.state.figures(None).files), (3, 2));
    let all = [&two_turns()[..], &[Revert(3), Snap("t4", &[])]].concat();
    after(&all, &["files.restore_started x=t0 y=t0 z=t2"]);
}

#[test]
fn messages_go_when_the_files_are_back_and_not_before() {
    let mut steps = two_turns();
    steps.extend([Revert(3), Snap("t4", &[])]);
    assert_eq!(messages(&driven(&steps)), 6);
    let failed = [&steps[..], &[NotRestored]].concat();
    assert_eq!(messages(&after(&failed, &[])), 6);
    let late = [&steps[..], &[Elapse]].concat();
    assert_eq!(messages(&after(&late, &[])), 6);
    steps.push(Restored("t5"));
    assert_eq!(messages(&after(&steps, &[])), 0);
}

#[test]
fn an_unrevert_brings_everything_back_and_the_next_prompt_forbids_it() {
    let mut steps = two_turns();
    steps.extend([Revert(3), Snap("t4", &[]), Restored("t5")]);
    let mut back = steps.clone();
    back.extend([Unrevert, Snap("t5", &[])]);
    after(&back, &["files.restore_started x=t4 y=t4 z=t4"]);
    back.push(Restored("t4"));
    let run = after(&back, &[]);
    let before = driven(&two_turns());
    assert_eq!(run.state.messages, before.state.messages);
    assert_eq!(run.state.files.changes, before.state.files.changes);
    assert_eq!(run.state.may_unrevert(), Err(NoRevert::NotReverted));

    steps.push(Prompt("three"));
    let run = after(&steps, &["model.requested 1.1"]);
    assert_eq!(request_builder::request(&run.state).messages.len(), 1);
    assert_eq!(run.state.files.revert, None);
}

#[test]
fn a_revert_of_a_step_leaves_the_turn_before_it() {
    let run = driven(&two_turns());
    let asked = seq_of(&run, "model.requested 2.1", 1);
    // the step without calls changed nothing, and the snapshot confirms it
    let steps = [&two_turns()[..], &[Revert(asked)]].concat();
    let run = after(&steps, &["files.restore_started"]);
    assert_eq!(run.state.files.restore.as_ref().map(|restore| restore.to), Some(Some(asked)));
    let run = driven(&[&steps[..], &[Restored("")]].concat());
    assert_eq!(messages(&run), 5);
}

#[test]
fn every_event_of_a_step_means_the_step_and_what_stands_between_turns_the_next() {
    let run = driven(&two_turns());
    let two = seq_of(&run, "turn.prompted", 1);
    let asked: Vec<Seq> = (0..2).map(|n| seq_of(&run, "model.requested 1.1", n)).collect();
    let last = seq_of(&run, "model.requested 2.1", 1);
    let head = run.state.seq;
    for (to, found) in [
        (1, Ok(3)),
        (3, Ok(3)),
        (asked[0], Ok(asked[0])),
        (seq_of(&run, "tool.finished", 0), Ok(asked[0])),
        (seq_of(&run, "files.snapshotted", 1), Ok(asked[0])),
        (seq_of(&run, "turn.ended", 0), Ok(two)),
        (two, Ok(two)),
        (seq_of(&run, "tool.called", 1), Ok(asked[1])),
        (last, Ok(last)),
        (head - 1, Ok(last)),
        (head, Err(NoRevert::Nothing(head))),
        (head + 9, Err(NoRevert::Nothing(head + 9))),
    ] {
        assert_eq!(run.state.revert_to(to), found, "{to}");
    }
}

#[test]
fn a_second_revert_starts_from_the_files_of_before_the_first() {
    let run = driven(&two_turns());
    let two = seq_of(&run, "turn.prompted", 1);
    let steps = |from: Seq, to: Seq| {
        let more = [Revert(from), Snap("t4", &[]), Restored("t5"), Revert(to), Snap("t5", &[])];
        [&two_turns()[..], &more].concat()
    };
    // further back, and then less far
    after(&steps(two, 3), &["files.restore_started x=t0 y=t0 z=t2"]);
    after(&steps(3, two), &["files.restore_started x=t2 y=t4 z=t2"]);
    for (from, to, left) in [(two, 3, 0), (3, two, 3)] {
        let mut steps = steps(from, to);
        steps.push(Restored("t6"));
        let run = driven(&steps);
        assert_eq!(messages(&run), left);
        assert_eq!(run.state.files.revert.as_ref().map(|r| r.before.as_str()), Some("t4"));
        steps.extend([Unrevert, Snap("t6", &[]), Restored("t4")]);
        let back = driven(&steps);
        assert_eq!(back.state.messages, driven(&two_turns()).state.messages);
        assert_eq!(back.state.figures(None).files, 3);
    }
}

#[test]
fn nobody_reverts_what_is_busy_and_what_a_summary_stands_for() {
    let busy = driven(&[Prompt("hi")]);
    assert_eq!(busy.state.revert_to(3), Err(NoRevert::Busy));
    assert_eq!(busy.state.may_unrevert(), Err(NoRevert::Busy));
    let mut steps = two_turns();
    steps.push(Revert(3));
    assert_eq!(driven(&steps).state.revert_to(3), Err(NoRevert::Restoring));
    let mut steps = two_turns();
    steps.extend([Compact, Summary("so far")]);
    let run = driven(&steps);
    assert!(matches!(run.state.revert_to(3), Err(NoRevert::Summarised(_))));
    assert!(check_refused(&run, &Revert(3)));
}

fn check_refused(run: &Run, step: &Step) -> bool {
    let mut again = Run::folded(&run.log);
    again.step(step).is_empty()
}

#[test]
fn a_prompt_that_comes_while_files_are_put_back_waits_and_stays() {
    let mut steps = two_turns();
    steps.extend([Revert(3), Snap("t4", &[]), Prompt("three")]);
    after(&steps, &[]);
    steps.push(Restored("t5"));
    let run = after(&steps, &["model.requested 1.1"]);
    assert_eq!(request_builder::request(&run.state).messages.len(), 1);
    assert_eq!(run.state.files.revert, None);
}

#[test]
fn a_checkout_keeps_the_files_puts_back_those_it_names_and_hides_nothing() {
    const FILES: [(&str, &str); 2] = [("x", "t0"), ("y", "t2")];
    let mut steps = two_turns();
    steps.push(Checkout(&FILES));
    after(&steps, &SNAP);
    steps.push(Snap("t4", &[]));
    after(&steps, &["files.restore_started x=t0 y=t2"]);
    let failed = after(&[&steps[..], &[NotRestored]].concat(), &[]);
    assert_eq!((messages(&failed), failed.state.files.revert.clone()), (6, None));
    steps.push(Restored("t5"));
    let run = after(&steps, &[]);
    assert_eq!((messages(&run), run.state.figures(None).files), (6, 3));
    // undone, with nothing but the files
    let back = [&steps[..], &[Unrevert, Snap("t5", &[])]].concat();
    after(&back, &["files.restore_started x=t4 y=t4"]);
    let run = after(&[&back[..], &[Restored("t4")]].concat(), &[]);
    assert_eq!(run.state.messages, driven(&two_turns()).state.messages);
    assert_eq!(run.state.may_unrevert(), Err(NoRevert::NotReverted));
    // never within a turn
    assert!(check_refused(&driven(&[Prompt("hi")]), &Checkout(&FILES)));
}

#[test]
fn a_new_node_puts_files_back_once_more_from_the_same_point() {
    let mut steps = two_turns();
    steps.extend([Revert(3), Resume { close: false }]);
    after(&steps, &SNAP);
    steps.extend([Snap("t4", &[]), Resume { close: true }]);
    let run = after(&steps, &["files.restore_started x=t0 y=t0 z=t2"]);
    assert_eq!(run.state.files.restore.and_then(|r| r.before).as_deref(), Some("t4"));
}
