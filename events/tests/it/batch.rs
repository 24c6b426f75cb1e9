//! Calls within a call.

use crate::common::*;
use leftfold_events::event::{Answer as Reply_, Class, Finish};
use leftfold_events::request_builder;

fn read(id: &'static str) -> Step {
    Resolve(id, Class::Read, READ, "")
}

const TWO: [Step; 4] = [Prompt("hi"), Call("a", "batch"), Reply(Finish::ToolCalls), Batch("a", 2)];

fn after(given: &[Step]) -> Run {
    let mut run = Run::new(&config());
    given.iter().for_each(|step| {
        run.step(step);
    });
    run
}

#[test]
fn each_entry_goes_its_own_way_and_the_batch_gathers() {
    check(
        &TWO,
        &[
            "tool.batched a_1", "tool.batched a_2", "tool.resolve_started a_1",
            "tool.resolve_started a_2",
        ],
    );
    let one = [&TWO[..], &[read("a_1")]].concat();
    check(&one, &["permission.ruled a_1 allow", "tool.started a_1 1"]);
    let denied = [&one[..], &[Resolve("a_2", Class::Command, ("never", "x"), "")]].concat();
    check(&denied, &["permission.ruled a_2 deny"]);
    let gathered = [&denied[..], &[Done("a_1", "text")]].concat();
    check(&gathered, &["permission.ruled a allow", "tool.started a 1"]);
    check(&[&gathered[..], &[Done("a", "both")]].concat(), &["model.requested 2.1"]);
}

#[test]
fn the_model_is_told_of_the_batch_alone() {
    let run = after(&[&TWO[..], &[read("a_1"), read("a_2")]].concat());
    let parts = [Done("a_1", "one"), Done("a_2", "two")];
    let mut run = Run::folded(&run.log);
    parts.iter().for_each(|step| {
        run.step(step);
    });
    let call = run.state.calls().find(|call| call.id == "a").expect("the batch").clone();
    let outputs: Vec<_> =
        run.state.parts(&call).into_iter().map(|part| part.outcome.output).collect();
    assert_eq!(outputs, ["one".into(), "two".into()]);
    run.step(&Done("a", "both"));
    let text = serde_json::to_string(&request_builder::request(&run.state).messages).expect("json");
    assert!(text.contains("both") && !text.contains("a_1") && !text.contains("one"), "{text}");
}

#[test]
fn an_empty_batch_and_a_stopped_one_come_to_an_end() {
    let empty = [Prompt("hi"), Call("a", "batch"), Reply(Finish::ToolCalls), Batch("a", 0)];
    check(&empty, &["permission.ruled a allow", "tool.started a 1"]);
    let asks = [&TWO[..], &[Resolve("a_1", Class::Command, ("ask", "x"), "")]].concat();
    let rejected = [&asks[..], &[Answer("a_1", Reply_::Reject, None)]].concat();
    check(&rejected, &["tool.cancelled a 0", "tool.cancelled a_2 0", "turn.ended blocked"]);
    let cut = [&asks[..], &[Resume { close: true }]].concat();
    check(&cut, &["tool.lost a 0", "tool.lost a_1 0", "tool.lost a_2 0", "turn.ended aborted"]);
}
