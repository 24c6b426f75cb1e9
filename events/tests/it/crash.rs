//! Recorded sessions, cut after every event and resumed.

use crate::common::*;
use leftfold_events::event::{Answer::*, Class, EndReason, FailureClass, Finish, Session};
use leftfold_events::request::{RequestMessage, ToolResult};
use leftfold_events::{Fact, State, Time, TurnConfig, request_builder, settle, verify};

fn sessions() -> Vec<Vec<Step>> {
    let read = |id| Resolve(id, Class::Read, ("read", "x"), "/p/x");
    let edit = |id| Resolve(id, Class::Write, ("edit", "x"), "/p/x");
    let bash = |id| Resolve(id, Class::Command, ("bash", "ls"), "");
    let asks = |id| Resolve(id, Class::Command, ("ask", "x"), "");
    vec![
        vec![Prompt("hi"), Text("a"), Text("b"), Reply(Finish::Stop)],
        vec![
            Prompt("fix it"),
            Think(Some("sig")),
            Text("I look"),
            Call("a", "read"),
            Call("b", "bash"),
            read("a"),
            bash("b"),
            Reply(Finish::ToolCalls),
            Progress("b", "half"),
            Done("a", "text"),
            Done("b", "ok"),
            Text("now I edit"),
            Call("a", "edit"),
            Call("c", "edit"),
            edit("a"),
            Prompt("and hurry"),
            edit("c"),
            Done("a", "ok"),
            Done("c", "ok"),
            Reply(Finish::ToolCalls),
            Text("done"),
            Reply(Finish::Stop),
        ],
        vec![
            Prompt("hi"),
            Fail(FailureClass::Overloaded, true),
            Elapse,
            Text("half"),
            Call("a", "bash"),
            Fail(FailureClass::Network, true),
            asks("a"),
            Answer("a", Always, None),
            Elapse,
            Elapse,
            Reply(Finish::Stop),
        ],
        vec![
            Prompt("hi"),
            Call("a", "x"),
            Full(9_900),
            asks("a"),
            Answer("a", Once, None),
            Done("a", "ok"),
            Summary("so far"),
            Text("done"),
            Reply(Finish::Stop),
        ],
        vec![Prompt("hi"), Call("a", "x"), bash("a"), Interrupt, Prompt("go on"), Text("ok")],
        vec![Prompt("hi"), Call("a", "x"), asks("a"), Answer("a", Reject, None), Prompt("so")],
    ]
}

/// Compaction by count, by the provider's word and by request; children; a batch.
fn longer_sessions() -> Vec<Vec<Step>> {
    let read = |id| Resolve(id, Class::Read, ("read", "x"), "");
    vec![
        vec![
            Prompt("hi"),
            Call("a", "x"),
            Unresolved("a"),
            Full(9_900),
            Fail(FailureClass::Overloaded, true),
            Elapse,
            Fail(FailureClass::Overflow, false),
            Summary("so far"),
            Text("done"),
            Compact,
            Reply(Finish::Stop),
            Fail(FailureClass::Network, true),
            Elapse,
            Summary("all of it"),
            Prompt("more"),
            Reply(Finish::Stop),
            Compact,
            Summary("all of it and more"),
        ],
        vec![
            Prompt("hi"),
            Call("a", "task"),
            Call("b", "batch"),
            Reply(Finish::ToolCalls),
            Task("a"),
            Batch("b", 2),
            read("b_1"),
            Done("b_1", "ok"),
            ChildEnds("a"),
            Done("a", "found"),
            read("b_2"),
            Done("b_2", "ok"),
            Done("b", "both"),
            Reply(Finish::Stop),
        ],
        vec![Prompt("hi"), Call("a", "task"), Task("a"), Interrupt, ChildEnds("a"), Prompt("so")],
    ]
}

/// Agents that take over, and subtasks of prompts.
fn sessions_of_many_agents() -> Vec<Vec<Step>> {
    vec![
        vec![
            Subtask("look"),
            Task("task_4"),
            ChildEnds("task_4"),
            Done("task_4", "ok"),
            Text("so"),
            Subtask("and there"),
            Reply(Finish::Stop),
        ],
        vec![
            Equip("plan"),
            Prompt("plan it"),
            Call("a", "edit"),
            Call("b", "plan_exit"),
            Exit("b"),
            Resolve("a", Class::Write, ("edit", ".leftfold/plans/x.md"), ""),
            Reply(Finish::ToolCalls),
            Answer("b", Once, Some("Yes")),
            Equip("build"),
            Done("b", "ok"),
            Text("built"),
            Reply(Finish::Stop),
            Equip("plan"),
            Prompt("once more"),
            Full(9_900),
            Compact,
            Summary("so far"),
        ],
    ]
}

/// Two turns with snapshots, the second interrupted; a revert, its undoing, and a final revert.
fn reverted() -> Vec<Step> {
    let edit = |id| Resolve(id, Class::Write, ("edit", "x"), "/p/x");
    vec![
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        edit("a"),
        Snap("t0", &[]),
        Done("a", "ok"),
        Snap("t1", &["x"]),
        Reply(Finish::Stop),
        Prompt("more"),
        Call("b", "x"),
        edit("b"),
        Snap("t2", &[]),
        Interrupt,
        Revert(3),
        Snap("t3", &["y"]),
        Restored("t0"),
        Unrevert,
        Snap("t0", &[]),
        Restored("t3"),
        Revert(3),
        Snap("t3", &[]),
        Restored("t0"),
        Prompt("so"),
        Reply(Finish::Stop),
    ]
}

fn all_sessions() -> impl Iterator<Item = (TurnConfig, Vec<Step>)> {
    let all = [sessions(), longer_sessions(), sessions_of_many_agents()].concat();
    all.into_iter().map(|steps| (config(), steps)).chain([(snapshotting(), reverted())])
}

#[test]
fn every_cut_is_forked_to_rest() {
    for (config, steps) in all_sessions() {
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| drop(run.step(step)));
        for at in 2..=run.log.len() {
            let mut fork = Run::folded(&run.log[..at]);
            let of = fork.state.session;
            let session = of.child(at as u64, fork.state.at);
            let forked = Fact::new(Session::Forked { from: of, at: at as u64 });
            let batch = settle(&mut fork.state, session, forked, Time::default());
            assert!(batch.iter().all(|event| event.session == session));
            fork.log.extend(batch);
            assert_eq!(fork.state.open(), [], "forked at {at} of {steps:?}");
            assert_eq!((fork.state.turn.as_ref(), fork.state.cost), (None, 0.0), "{at}: {steps:?}");
            assert_prefixes_valid(&fork.log);
            assert_eq!(verify(&fork.log), vec![], "forked at {at} of {steps:?}");
        }
    }
}

/// The number of calls that a crash interrupted. Each is reported to the model as failed.
fn lost_calls_told(state: &State) -> usize {
    let words = ["The outcome of this call is unknown", "This call was not started: the program"];
    let request = request_builder::request(state);
    let results = request.messages.iter().filter_map(|message| match message {
        RequestMessage::Tool { results } => Some(results.iter()),
        RequestMessage::User { .. } | RequestMessage::Assistant { .. } => None,
    });
    let lost = |result: &&ToolResult| words.iter().any(|words| result.output.starts_with(words));
    let lost: Vec<_> = results.flatten().filter(lost).collect();
    assert!(lost.iter().all(|result| result.is_error), "{lost:?}");
    lost.len()
}

#[test]
fn every_cut_is_resumed_to_an_end() {
    let mut lost = 0;
    for (config, steps) in all_sessions() {
        let mut run = Run::new(&config);
        for step in &steps {
            assert!(!run.step(step).is_empty(), "{step:?} means nothing in {steps:?}");
        }
        assert_prefixes_valid(&run.log);
        for cut in 2..=run.log.len() {
            for close in [false, true] {
                let mut survivor = Run::folded(&run.log[..cut]);
                let turn = survivor.state.turn.clone();
                survivor.step(&Resume { close });
                if let Some(turn) = turn.filter(|_| close) {
                    let ended = survivor.state.ended.as_ref().expect("closed at once");
                    let reason = turn.stop.unwrap_or(EndReason::Aborted);
                    assert_eq!(ended.reason, reason, "cut at {cut}");
                }
                survivor.finish();
                assert_prefixes_valid(&survivor.log);
                assert_started_once(&survivor.log);
                lost += lost_calls_told(&survivor.state);
                assert_eq!(verify(&survivor.log), vec![], "cut at {cut} of {steps:?}");
                assert_eq!(leftfold_events::fold(&survivor.log), survivor.state);
            }
        }
    }
    assert!(lost > 100, "{lost} calls were lost");
}

#[test]
fn every_cut_is_imported_and_its_calls_are_resolved_and_ruled_anew() {
    let mut again = 0;
    for (config, steps) in all_sessions() {
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| drop(run.step(step)));
        for cut in 2..=run.log.len() {
            for close in [false, true] {
                let mut imported = Run::folded(&run.log[..cut]);
                imported.step(&ResumeImported { close });
                imported.finish();
                assert_prefixes_valid(&imported.log);
                assert_started_once(&imported.log);
                assert_eq!(verify(&imported.log), vec![], "cut at {cut} of {steps:?}");
                assert_eq!(leftfold_events::fold(&imported.log), imported.state);
                let own = &imported.log[cut..];
                for started in own.iter().filter(|e| describe(e).starts_with("tool.started")) {
                    let of = |kind: &str| {
                        own.iter().any(|e| e.of == started.of && describe(e).starts_with(kind))
                    };
                    assert!(
                        of("tool.resolve_started") && of("permission.ruled"),
                        "{cut}: {steps:?}"
                    );
                    again += 1;
                }
            }
        }
    }
    assert!(again > 20, "{again} calls were judged again");
}
