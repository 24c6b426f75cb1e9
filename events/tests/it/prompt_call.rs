//! Calls that prompts make before the model answers: subtasks and command lines.

use crate::common::*;
use leftfold_events::event::{Class, EndReason, Finish, PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::{State, request_builder};

/// The call that the first prompt makes.
const CALL: &str = "task_4";
const DONE: [Step; 4] = [Subtask("look"), Task(CALL), ChildEnds(CALL), Done(CALL, "found it")];

fn after(steps: &[Step]) -> State {
    let mut run = Run::new(&config());
    steps.iter().for_each(|step| drop(run.step(step)));
    run.state
}

#[test]
fn the_task_comes_before_the_answer() {
    check(&DONE[..1], &["tool.batched task_4", "tool.resolve_started task_4"]);
    let started =
        ["permission.ruled task_4 allow", "tool.started task_4 1", "subagent.spawned task_4"];
    check(&DONE[..2], &started);
    check(&DONE, &["model.requested 1.1"]);
    check(&[&DONE[..], &[Text("so"), Reply(Finish::Stop)]].concat(), &["turn.ended completed"]);
    let request = request_builder::request(&after(&DONE));
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
    assert_eq!(&*results[0].output, "found it");
    let [AssistantPart::Call { name, input, .. }] = &call[..] else { unreachable!("{call:?}") };
    let input = input.value();
    assert_eq!(
        (name.as_str(), &input["prompt"], &input["subagentType"], &input["description"]),
        ("tool_task_4", &"look".into(), &"general".into(), &"/do it".into())
    );
}

#[test]
fn one_that_joins_a_turn_waits_for_its_place() {
    let joined = [Prompt("hi"), Subtask("look")];
    check(&joined, &[]);
    let answered = [&joined[..], &[Text("ok"), Reply(Finish::Stop)]].concat();
    check(&answered, &["tool.batched task_8", "tool.resolve_started task_8"]);
    let two =
        [&[Subtask("one"), Subtask("two")][..], &[Task(CALL), ChildEnds(CALL), Done(CALL, "ok")]]
            .concat();
    check(&two, &["tool.batched task_13", "tool.resolve_started task_13"]);
}

#[test]
fn what_keeps_it_from_being_done_is_told_or_ends_the_turn() {
    check(&[Subtask("look"), Unresolved(CALL)], &["model.requested 1.1"]);
    check(&[Subtask("look"), Interrupt], &["tool.cancelled task_4 0", "turn.ended aborted"]);
    check(&[&DONE[..2], &[Interrupt, ChildEnds(CALL)]].concat(), &["turn.ended aborted"]);
    let failed = after(&[Subtask("look"), Resume { close: true }]);
    assert_eq!(failed.ended.map(|ended| ended.reason), Some(EndReason::Aborted));
}

/// The call of a prompt's command.
const LINE: &str = "bash_4";
const READ: Step = Resolve(LINE, Class::Read, ("bash", "ls"), "");

/// The texts of prompts in the request.
fn prompts(state: &State) -> Vec<String> {
    let messages = request_builder::request(state).messages;
    let parts = messages.iter().filter_map(|message| match message {
        RequestMessage::User { parts } => Some(parts.iter()),
        RequestMessage::Assistant { .. } | RequestMessage::Tool { .. } => None,
    });
    parts.flatten().map(|part| part.text.clone()).collect()
}

#[test]
fn the_output_of_a_command_is_part_of_the_prompt() {
    check(&[Command("ls")], &["tool.batched bash_4", "tool.resolve_started bash_4"]);
    check(&[Command("ls"), READ], &["permission.ruled bash_4 allow", "tool.started bash_4 1"]);
    let done = [Command("ls"), READ, Done(LINE, "a.txt\n")];
    check(&done, &["model.requested 1.1"]);
    let state = after(&done);
    assert_eq!(prompts(&state), ["It says <a.txt>."]);
    // the model did not make the call and does not see it
    assert_eq!(request_builder::request(&state).messages.len(), 1);
    let nothing = after(&[Command("ls"), READ, Done(LINE, "(no output)")]);
    assert_eq!(prompts(&nothing), ["It says <>."]);
}

#[test]
fn the_model_is_told_of_a_command_that_did_not_run() {
    let never = Resolve(LINE, Class::Command, ("never", "rm"), "");
    let denied = after(&[Command("rm"), never]);
    assert!(prompts(&denied)[0].contains("never"), "{:?}", prompts(&denied));
    assert_eq!(denied.turn.unwrap().denials.len(), 1);
    let lost =
        [Command("ls"), Resolve(LINE, Class::Command, ("bash", "x"), ""), Resume { close: false }];
    check(&lost, &["tool.lost bash_4 1", "model.requested 1.1"]);
    assert!(prompts(&after(&lost))[0].contains("outcome of this call is unknown"));
    let interrupted = [Command("ls"), Interrupt, Prompt("go on")];
    assert_eq!(prompts(&after(&interrupted)), ["It says <Tool execution aborted>.", "go on"]);
}

#[test]
fn a_subtask_has_the_output_of_its_commands() {
    let mut run = Run::new(&config());
    let name = Some("general".to_owned());
    let part = |kind, text| PromptPart { kind, ..PromptPart::text(text) };
    let task = PromptPart { name, ..part(PromptKind::Task, "Review <") };
    let command = part(PromptKind::Command, "git diff");
    run.tell(prompted(vec![PromptPart::text("/review"), task, command, PromptPart::text(">.")]));
    run.step(&READ);
    run.step(&Done(LINE, "+x"));
    let call = run.state.calls().next().unwrap();
    assert_eq!(
        (call.name.as_str(), &call.input.value()["prompt"]),
        ("task", &"Review <+x>.".into())
    );
}
