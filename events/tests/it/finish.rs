//! How a turn goes on after a reply, by the way in which the provider ended it: finish reasons × what the reply has.

use crate::common::*;
use leftfold_events::event::{Class, FailureClass, Finish};
use leftfold_events::request::RequestMessage;
use leftfold_events::{request_builder, verify};

/// A reply of each kind: nothing, reasoning alone, text, a call that ran.
const NOTHING: &[Step] = &[];
const THOUGHT: &[Step] = &[Think(None)];
const TEXT: &[Step] = &[Text("a")];
const CALL: &[Step] =
    &[Call("a", "read"), Resolve("a", Class::Read, READ, "/p/x"), Done("a", "ok")];

#[test]
fn a_reply_counts_as_complete_only_if_the_provider_says_so() {
    let retry = "model.retry_scheduled 1";
    let on = |finish: &str| format!("turn.continued {finish}");
    let (stop, length, other) = (on("stop"), on("length"), on("other"));
    let again = "model.requested 2.1";
    let table: &[(Finish, &[Step], &[&str])] = &[
        (Finish::Stop, NOTHING, &["turn.ended completed"]),
        (Finish::Stop, THOUGHT, &[&stop, again]),
        (Finish::Stop, TEXT, &["turn.ended completed"]),
        (Finish::Stop, CALL, &[again]),
        (Finish::Length, NOTHING, &["turn.ended incomplete"]),
        (Finish::Length, THOUGHT, &["turn.ended incomplete"]),
        (Finish::Length, TEXT, &[&length, again]),
        (Finish::Length, CALL, &[&length, again]),
        (Finish::ToolCalls, NOTHING, &[retry]),
        (Finish::ToolCalls, THOUGHT, &[retry]),
        (Finish::ToolCalls, TEXT, &[retry]),
        (Finish::ToolCalls, CALL, &[again]),
        (Finish::ContentFilter, NOTHING, &["turn.ended error"]),
        (Finish::ContentFilter, THOUGHT, &["turn.ended error"]),
        (Finish::ContentFilter, TEXT, &["turn.ended incomplete"]),
        (Finish::ContentFilter, CALL, &[again]),
        (Finish::Pause, NOTHING, &["turn.ended error"]),
        (Finish::Pause, TEXT, &["turn.ended error"]),
        (Finish::Pause, CALL, &[again]),
        (Finish::Error, NOTHING, &["turn.ended error"]),
        (Finish::Error, TEXT, &["turn.ended error"]),
        (Finish::Error, CALL, &[again]),
        (Finish::Other, NOTHING, &[&other, again]),
        (Finish::Other, THOUGHT, &[&other, again]),
        (Finish::Other, TEXT, &[&other, again]),
        (Finish::Other, CALL, &[again]),
    ];
    for (finish, reply, expected) in table {
        let given = [&[Prompt("hi")], *reply, &[Reply(*finish)]].concat();
        check(&given, expected);
    }
}

/// Each is repeated as often as its bound allows, and one more reply of its kind ends the turn.
#[test]
fn a_turn_goes_on_by_itself_only_so_often() {
    let calls =
        |id| [Call(id, id), Resolve(id, Class::Read, READ, "/p/x"), Done(id, "ok")].to_vec();
    let mut cut_calls = vec![Prompt("hi")];
    for id in ["a", "b", "c", "d"] {
        cut_calls.extend(calls(id));
        cut_calls.push(Reply(Finish::Length));
    }
    let table: [(Vec<Step>, &str); 6] = [
        (
            vec![Prompt("hi"), Text("a"), Reply(Finish::Length), Text("b"), Reply(Finish::Length)],
            "turn.ended incomplete",
        ),
        (
            vec![Prompt("hi"), Reply(Finish::Other), Reply(Finish::Other), Reply(Finish::Other)],
            "turn.ended incomplete",
        ),
        (
            vec![Prompt("hi"), Reply(Finish::ToolCalls), Elapse, Reply(Finish::ToolCalls)],
            "turn.ended error",
        ),
        (
            vec![Prompt("hi"), Reply(Finish::ToolCalls), Elapse, Text("a"), Reply(Finish::Stop)],
            "turn.ended completed",
        ),
        (vec![Prompt("hi"), Fail(FailureClass::OutputLength, false)], "turn.ended incomplete"),
        (cut_calls, "turn.ended incomplete"),
    ];
    for (given, expected) in table {
        check(&given, &[expected]);
    }
    // a reply that was not cut off begins the count anew
    let mut given = vec![Prompt("hi"), Text("a"), Reply(Finish::Length)];
    given.extend(calls("x"));
    given.extend([Reply(Finish::ToolCalls), Text("b"), Reply(Finish::Length)]);
    check(&given, &["turn.continued length", "model.requested 4.1"]);
}

#[test]
fn a_last_step_that_is_cut_off_is_incomplete() {
    let mut config = config();
    config.options.max_steps = 1;
    for finish in [Finish::Length, Finish::Other] {
        let given = [Prompt("hi"), Text("a"), Reply(finish)];
        check_with(&config, &given, &["turn.ended incomplete"]);
    }
}

#[test]
fn the_model_reads_the_note_and_the_answer_is_the_whole_text() {
    let mut run = after_steps(&[Prompt("hi"), Text("one tw"), Reply(Finish::Length)]);
    let request = request_builder::request(&run.state);
    let [_, RequestMessage::Assistant { .. }, RequestMessage::User { parts }] =
        &request.messages[..]
    else {
        panic!("{:?}", request.messages)
    };
    assert!(parts[0].text.starts_with("Your reply was cut off"), "{parts:?}");
    // a failed attempt between the two leaves no trace
    for step in [Text("xx"), Fail(FailureClass::Network, true), Elapse, Text("o three")] {
        run.step(&step);
    }
    let ended = run.step(&Reply(Finish::Stop));
    assert_eq!(describe(&ended[1]), "turn.ended completed");
    assert_eq!(run.state.ended.as_ref().map(|ended| ended.text.as_str()), Some("one two three"));
    assert_eq!(verify(&run.log), []);
}

#[test]
fn a_reply_without_its_calls_is_in_no_request() {
    let run = after_steps(&[Prompt("hi"), Text("I call."), Reply(Finish::ToolCalls), Elapse]);
    assert_eq!(request_builder::request(&run.state).messages.len(), 1);
}

#[test]
fn logs_of_earlier_policies_verify_as_they_ended() {
    for (finish, reason) in [
        (Finish::Length, "completed"),
        (Finish::Other, "completed"),
        (Finish::ToolCalls, "completed"),
        (Finish::ContentFilter, "completed"),
    ] {
        let mut run = after_steps(&[Prompt("hi"), Text("a")]);
        run.state.policy = 4;
        let ended = run.step(&Reply(finish));
        assert_eq!(describe(&ended[1]), format!("turn.ended {reason}"));
    }
}

fn after_steps(steps: &[Step]) -> Run {
    let mut run = Run::new(&config());
    for step in steps {
        run.step(step);
    }
    run
}
