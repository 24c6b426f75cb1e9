//! Plugins as tables: their calls, and the effects of their answers.

use crate::common::*;
use leftfold_events::event::{
    Answer as Reply_, CallKind, Class, EndReason, Finish, HookOutcome, HookPoint,
};
use leftfold_events::request::{Request, RequestMessage};
use leftfold_events::request_builder;
use leftfold_events::state::Phase;
use leftfold_events::turn_config::{AskMode, ToolSpec};
use leftfold_events::{Json, TurnConfig};

/// All intents, and the state that they lead to.
fn after(config: &TurnConfig, given: &[Step]) -> Run {
    let mut run = Run::new(config);
    given.iter().for_each(|step| drop(run.step(step)));
    assert_eq!(leftfold_events::verify(&run.log), vec![], "given {given:?}");
    assert_eq!(leftfold_events::fold(&run.log), run.state, "given {given:?}");
    run
}

/// The request that was made last.
fn request(run: &Run) -> Request {
    request_builder::asked(&run.state, leftfold_events::event::Purpose::Turn).request
}

fn results(run: &Run) -> Vec<String> {
    let tool = |message: &RequestMessage| match message {
        RequestMessage::Tool { results } => results.iter().map(|r| r.output.to_string()).collect(),
        RequestMessage::User { .. } | RequestMessage::Assistant { .. } => Vec::new(),
    };
    request(run).messages.iter().flat_map(tool).collect()
}

fn texts(run: &Run) -> Vec<String> {
    let user = |message: &RequestMessage| match message {
        RequestMessage::User { parts } => parts.iter().map(|part| part.text.clone()).collect(),
        RequestMessage::Tool { .. } | RequestMessage::Assistant { .. } => Vec::new(),
    };
    request(run).messages.iter().flat_map(user).collect()
}

#[test]
fn a_call_is_not_looked_into_before_everybody_was_heard() {
    let config = plugged(&[&[HookPoint::ToolBefore], &[], &[HookPoint::ToolBefore]]);
    let called = [Prompt("hi"), Call("a", "read")];
    check_with(&config, &called, &["hook.called p1 tool.execute.before"]);
    let first = [called.to_vec(), vec![Hear("{}")]].concat();
    check_with(&config, &first, &["hook.called p3 tool.execute.before"]);
    let second = [first, vec![Hear(r#"{"args":{"x":1}}"#)]].concat();
    check_with(&config, &second, &["tool.resolve_started a"]);
    let run = after(&config, &second);
    let call = run.state.calls().next().unwrap();
    assert_eq!((call.input.as_str(), call.arguments().as_str()), ("{}", r#"{"x":1}"#));
}

#[test]
fn a_call_that_a_plugin_will_not_have_is_denied_and_the_turn_goes_on() {
    let config = plugged(&[&[HookPoint::ToolBefore], &[HookPoint::ToolBefore]]);
    let denied = [Prompt("hi"), Call("a", "read"), Hear(r#"{"deny":"not that"}"#)];
    check_with(&config, &denied, &["permission.ruled a deny"]);
    let given = [denied.to_vec(), vec![Reply(Finish::ToolCalls)]].concat();
    check_with(&config, &given, &["model.requested 2.1"]);
    let run = after(&config, &given);
    assert!(results(&run)[0].contains("The plugin `p1` does not allow this call: not that"));
    let denials = &run.state.turn.as_ref().unwrap().denials;
    assert_eq!((denials.len(), denials[0].reason.as_str()), (1, "not that"));
}

#[test]
fn one_that_is_late_or_gone_is_not_asked_again_in_this_turn() {
    let config = plugged(&[&[HookPoint::ToolBefore]]);
    for lost in [NotHeard(HookOutcome::TimedOut), NotHeard(HookOutcome::Gone), Elapse] {
        let given = [Prompt("hi"), Call("a", "read"), lost, Call("b", "read")];
        check_with(&config, &given, &["tool.resolve_started b"]);
        let next = [Unresolved("a"), Unresolved("b"), Reply(Finish::Stop), Reply(Finish::Stop)];
        let given = [&given[..], &next, &[Prompt("more"), Call("c", "read")]].concat();
        check_with(&config, &given, &["hook.called p1 tool.execute.before"]);
    }
    let given = [Prompt("hi"), Call("a", "read"), NotHeard(HookOutcome::Failed), Call("b", "read")];
    check_with(&config, &given, &["hook.called p1 tool.execute.before"]);
    // a late answer does not count
    let given = [Prompt("hi"), Call("a", "read"), Elapse, Hear(r#"{"deny":"x"}"#)];
    check_with(&config, &given, &[]);
}

#[test]
fn what_came_of_a_call_is_told_as_plugins_have_it() {
    let config = plugged(&[&[HookPoint::ToolAfter], &[HookPoint::ToolAfter]]);
    let done = [
        Prompt("hi"),
        Call("a", "read"),
        Resolve("a", Class::Read, READ, "/p/x"),
        Reply(Finish::ToolCalls),
        Done("a", "raw"),
    ];
    check_with(&config, &done, &["hook.called p1 tool.execute.after"]);
    let said = r#"{"output":"cooked","title":"Cooked","metadata":{"a":{"b":1},"c":null}}"#;
    let given = [&done[..], &[Hear(said)]].concat();
    check_with(&config, &given, &["hook.called p2 tool.execute.after"]);
    let run = after(&config, &given);
    let Phase::Done(outcome) = &run.state.calls().next().unwrap().phase else { panic!() };
    let shown = outcome.shown.as_ref().unwrap();
    assert_eq!((shown.title.as_str(), shown.metadata.as_str()), ("Cooked", r#"{"a":{"b":1}}"#));
    let given = [&given[..], &[Hear("{}")]].concat();
    check_with(&config, &given, &["model.requested 2.1"]);
    assert_eq!(results(&after(&config, &given)), ["cooked"]);
    // a call that has not run has no output to change
    let given = [Prompt("hi"), Call("a", "read"), Reply(Finish::ToolCalls), Unresolved("a")];
    check_with(&config, &given, &["model.requested 2.1"]);
}

#[test]
fn a_batch_gathers_what_its_parts_have_become() {
    let config = plugged(&[&[HookPoint::ToolAfter]]);
    let given = [
        Prompt("hi"),
        Call("b", "batch"),
        Reply(Finish::ToolCalls),
        Batch("b", 1),
        Resolve("b_1", Class::Read, READ, "/p/x"),
        Done("b_1", "raw"),
    ];
    check_with(&config, &given, &["hook.called p1 tool.execute.after"]);
    let given = [&given[..], &[Hear(r#"{"output":"cooked"}"#)]].concat();
    check_with(&config, &given, &["permission.ruled b allow", "tool.started b 1"]);
    let run = after(&config, &given);
    let batch = run.state.calls().next().unwrap();
    assert_eq!(&*run.state.parts(batch)[0].outcome.output, "cooked");
}

#[test]
fn a_plugin_answers_before_a_person_is_asked() {
    let config = plugged(&[&[HookPoint::PermissionAsk]]);
    let given = [Prompt("hi"), Call("a", "edit"), Resolve("a", Class::Write, ASK, "/p/x")];
    let ruled = ["permission.ruled a ask", "hook.called p1 permission.ask"];
    check_with(&config, &given, &ruled);
    for (said, then) in [
        (Hear(r#"{"status":"allow"}"#), "tool.started a 1"),
        (Hear(r#"{"status":"deny","reason":"no"}"#), "permission.ruled a deny"),
        (Hear(r#"{"status":"ask"}"#), "permission.asked a"),
        (Hear("{}"), "permission.asked a"),
        (NotHeard(HookOutcome::TimedOut), "permission.asked a"),
    ] {
        check_with(&config, &[&given[..], &[said]].concat(), &[then]);
    }
    let asked = [&given[..], &[Hear("{}"), Answer("a", Reply_::Once, None)]].concat();
    check_with(&config, &asked, &["tool.started a 1"]);
    // a call that the rules allow or deny needs no answer
    let given = [Prompt("hi"), Call("a", "edit"), Resolve("a", Class::Read, READ, "/p/x")];
    check_with(&config, &given, &["permission.ruled a allow", "tool.started a 1"]);
    let never = Resolve("a", Class::Read, ("never", "x"), "/p/x");
    let given = [Prompt("hi"), Call("a", "edit"), never];
    check_with(&config, &given, &["permission.ruled a deny"]);
}

#[test]
fn where_nobody_is_there_a_plugin_still_is() {
    let mut config = plugged(&[&[HookPoint::PermissionAsk]]);
    config.options.ask = AskMode::Deny;
    let given = [Prompt("hi"), Call("a", "edit"), Resolve("a", Class::Write, ASK, "/p/x")];
    let ruled = ["permission.ruled a ask", "hook.called p1 permission.ask"];
    check_with(&config, &given, &ruled);
    for (said, then) in [
        (Hear(r#"{"status":"allow"}"#), "tool.started a 1"),
        (Hear("{}"), "permission.ruled a deny"),
        (NotHeard(HookOutcome::Gone), "permission.ruled a deny"),
    ] {
        check_with(&config, &[&given[..], &[said]].concat(), &[then]);
    }
    // only the user answers a question to the user
    let question = Resolve("a", Class::Ask, ("question", "x"), "");
    check_with(
        &config,
        &[Prompt("hi"), Call("a", "question"), question],
        &["permission.ruled a deny"],
    );
}

#[test]
fn prompts_are_reworded_before_a_model_is_shown_them() {
    let config = plugged(&[&[HookPoint::ChatMessage], &[HookPoint::ChatMessage]]);
    check_with(&config, &[Prompt("hi")], &["hook.called p1 chat.message"]);
    let given = [Prompt("hi"), Hear(r#"{"append":"and more"}"#)];
    check_with(&config, &given, &["hook.called p2 chat.message"]);
    let given = [&given[..], &[Hear("{}")]].concat();
    check_with(&config, &given, &["model.requested 1.1"]);
    assert_eq!(texts(&after(&config, &given)), ["hi", "and more"]);
    // once for each prompt, also for one that comes in the middle of a turn
    let more = [&given[..], &[Prompt("also"), Reply(Finish::Stop)]].concat();
    check_with(&config, &more, &["hook.called p1 chat.message"]);
    let replaced = Hear(r#"{"parts":[{"text":"instead"}]}"#);
    let more = [&more[..], &[replaced, NotHeard(HookOutcome::Failed)]].concat();
    check_with(&config, &more, &["model.requested 2.1"]);
    assert_eq!(texts(&after(&config, &more))[2..], ["instead"]);
    let ended = [&more[..], &[Reply(Finish::Stop)]].concat();
    check_with(&config, &ended, &["turn.ended completed"]);
}

#[test]
fn a_request_is_made_as_plugins_have_it() {
    let hooks = [
        HookPoint::ChatParams,
        HookPoint::System,
        HookPoint::ToolDefinition,
        HookPoint::ChatHeaders,
    ];
    let mut config = plugged(&[&hooks]);
    let (description, schema) = ("Old.".to_owned(), Json::object());
    config.tools.push(ToolSpec { name: "read".into(), description, schema });
    let mut given = vec![Prompt("hi")];
    for (said, next) in [
        (
            r#"{"tools":{"read":{"description":"New.","parameters":{"type":"object"}}}}"#,
            "chat.params",
        ),
        (
            r#"{"temperature":0.5,"topP":1,"maxOutputTokens":7,"options":{"a":{"b":1}}}"#,
            "chat.system.transform",
        ),
        (r#"{"system":["system","one","","two"]}"#, "chat.headers"),
    ] {
        given.push(Hear(said));
        check_with(&config, &given, &[&format!("hook.called p1 {next}")]);
    }
    given.push(Hear(r#"{"headers":{"x-a":"hmac"}}"#));
    check_with(&config, &given, &["model.requested 1.1"]);
    let asked = request(&after(&config, &given));
    let options = asked.options.as_str();
    assert_eq!(options, r#"{"temperature":0.5,"top_p":1,"a":{"b":1}}"#);
    assert_eq!(
        (asked.max_output, &asked.system[..]),
        (7, &["system".into(), "one\n\ntwo".into()][..])
    );
    let tool = &asked.tools[0];
    assert_eq!((tool.description.as_str(), tool.schema.as_str()), ("New.", r#"{"type":"object"}"#));
    // tools are defined once; other hooks run for each request, and answers to the previous one are
    // gone
    given.extend([Prompt("more"), Reply(Finish::Stop)]);
    check_with(&config, &given, &["hook.called p1 chat.params"]);
    given.extend([Hear("{}"), Hear("{}"), Hear("{}")]);
    check_with(&config, &given, &["model.requested 2.1"]);
    let asked = request(&after(&config, &given));
    assert_eq!((asked.options.as_str(), asked.max_output), ("{}", 1_000));
    assert_eq!(
        (&asked.system[..], asked.tools[0].description.as_str()),
        (&["system".into()][..], "New.")
    );
}

#[test]
fn a_retry_is_a_request_of_its_own() {
    let config = plugged(&[&[HookPoint::ChatHeaders]]);
    let failed = Fail(leftfold_events::event::FailureClass::Network, true);
    let given = [Prompt("hi"), Hear("{}"), failed, Elapse];
    check_with(&config, &given, &["hook.called p1 chat.headers"]);
    let given = [&given[..], &[Hear("{}")]].concat();
    check_with(&config, &given, &["model.requested 1.2"]);
}

#[test]
fn variables_are_for_commands_of_the_shell() {
    let config = plugged(&[&[HookPoint::ShellEnv]]);
    let mut run = after(&config, &[Prompt("hi"), Call("a", "bash"), Call("b", "edit")]);
    for (id, kind, then) in [
        ("a", CallKind::Shell, "hook.called p1 shell.env"),
        ("b", CallKind::Plain, "tool.started b 1"),
    ] {
        let mut fact = run.fact(&Resolve(id, Class::Command, READ, ""));
        let leftfold_events::Event::Tool(leftfold_events::event::Tool::Resolved(resolution)) =
            &mut fact.event
        else {
            panic!("a resolution")
        };
        resolution.kind = kind;
        let last = run.tell(fact).last().map(describe);
        assert_eq!(last.as_deref(), Some(then));
    }
    let last = run.step(&Hear(r#"{"env":{"A":"hmac"}}"#));
    assert_eq!(last.last().map(describe).as_deref(), Some("tool.started a 1"));
}

#[test]
fn a_summary_is_asked_for_as_plugins_have_it() {
    let config = plugged(&[&[HookPoint::Compacting]]);
    let given = [Prompt("hi"), Full(9_500), Prompt("more")];
    check_with(&config, &given, &["compaction.started", "hook.called p1 session.compacting"]);
    let said = Hear(r#"{"prompt":"Sum up.","context":["Mind the tests."]}"#);
    let given = [&given[..], &[said]].concat();
    check_with(&config, &given, &["model.requested 0.1"]);
    let run = after(&config, &given);
    let request =
        request_builder::asked(&run.state, leftfold_events::event::Purpose::Compaction).request;
    let last = serde_json::to_string(request.messages.last().unwrap()).unwrap();
    assert!(last.contains(r"Sum up.\n\nMind the tests."), "{last}");
    check_with(&config, &[&given[..], &[Summary("s")]].concat(), &["model.requested 1.1"]);
}

#[test]
fn a_crash_between_question_and_answer_asks_once_more() {
    for (hook, given, asked) in [
        (HookPoint::ToolBefore, &[Prompt("hi"), Call("a", "read")][..], "tool.execute.before"),
        (HookPoint::ChatMessage, &[Prompt("hi")], "chat.message"),
        (HookPoint::ChatHeaders, &[Prompt("hi")], "chat.headers"),
    ] {
        let config = plugged(&[&[hook]]);
        let resumed = [given, &[Resume { close: false }]].concat();
        check_with(&config, &resumed, &[&format!("hook.called p1 {asked}")]);
        let closed = [given, &[Resume { close: true }]].concat();
        let run = after(&config, &closed);
        let reason = run.state.ended.as_ref().map(|ended| ended.reason);
        assert_eq!((run.state.turn.is_none(), reason), (true, Some(EndReason::Aborted)));
    }
    // answers stay in force, except values that were never written down
    let config = plugged(&[&[HookPoint::ChatMessage, HookPoint::ChatHeaders]]);
    let given = [Prompt("hi"), Hear("{}"), Resume { close: false }];
    check_with(&config, &given, &["hook.called p1 chat.headers"]);
    let given = [&given[..], &[Hear("{}"), Resume { close: false }]].concat();
    check_with(&config, &given, &["hook.called p1 chat.headers"]);
}

#[test]
fn an_interrupt_waits_for_no_plugin() {
    let config = plugged(&[&[HookPoint::ToolBefore]]);
    let given = [Prompt("hi"), Call("a", "read"), Interrupt];
    check_with(&config, &given, &["tool.cancelled a 0", "turn.ended aborted"]);
    check_with(&config, &[&given[..], &[Hear("{}")]].concat(), &[]);
}
