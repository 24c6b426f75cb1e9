//! Prompts that have another agent do something before the model answers.

use crate::common::*;
use leftfold_events::event::{EndReason, Finish};
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::{State, context};

/// The call that the first prompt brings forth.
const CALL: &str = "task_4";
const DONE: [Step; 4] = [Commission("look"), Task(CALL), ChildEnds(CALL), Done(CALL, "found it")];

fn after(steps: &[Step]) -> State {
    let mut run = Run::new(&kit());
    steps.iter().for_each(|step| drop(run.step(step)));
    run.state
}

#[test]
fn the_task_comes_before_the_answer() {
    check(&DONE[..1], &["tool.batched task_4", "tool.checked task_4"]);
    let started =
        ["permission.ruled task_4 allow", "tool.started task_4 1", "subagent.spawned task_4"];
    check(&DONE[..2], &started);
    check(&DONE, &["model.requested 1.1"]);
    check(&[&DONE[..], &[Text("so"), Reply(Finish::Stop)]].concat(), &["turn.ended completed"]);
    let request = context::request(&after(&DONE));
    let [
        RequestMessage::User { parts },
        RequestMessage::Assistant { parts: call },
        RequestMessage::Tool { results },
        RequestMessage::User { parts: last },
    ] = &request.messages[..]
    else {
        unreachable!("{:#?}", request.messages)
    };
    assert_eq!(parts[0].text, "/do it");
    assert!(parts[1].text.contains("`general`") && last[0].text.contains("Tell what came of that"));
    assert_eq!(results[0].output, "found it");
    let [AssistantPart::Call { name, input, .. }] = &call[..] else { unreachable!("{call:?}") };
    let input = input.value();
    assert_eq!(
        (name.as_str(), &input["prompt"], &input["subagentType"], &input["description"]),
        ("tool_task_4", &"look".into(), &"general".into(), &"/do it".into())
    );
}

#[test]
fn one_that_joins_a_turn_waits_for_its_place() {
    let joined = [Prompt("hi"), Commission("look")];
    check(&joined, &[]);
    let answered = [&joined[..], &[Text("ok"), Reply(Finish::Stop)]].concat();
    check(&answered, &["tool.batched task_8", "tool.checked task_8"]);
    let two = [
        &[Commission("one"), Commission("two")][..],
        &[Task(CALL), ChildEnds(CALL), Done(CALL, "ok")],
    ]
    .concat();
    check(&two, &["tool.batched task_13", "tool.checked task_13"]);
}

#[test]
fn what_keeps_it_from_being_done_is_told_or_ends_the_turn() {
    check(&[Commission("look"), Unresolved(CALL)], &["model.requested 1.1"]);
    check(&[Commission("look"), Interrupt], &["tool.cancelled task_4 0", "turn.ended aborted"]);
    check(&[&DONE[..2], &[Interrupt, ChildEnds(CALL)]].concat(), &["turn.ended aborted"]);
    let failed = after(&[Commission("look"), Resume { close: true }]);
    assert_eq!(failed.ended.map(|ended| ended.reason), Some(EndReason::Aborted));
}
