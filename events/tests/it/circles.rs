//! A model that makes the same call again and again.

use crate::common::*;
use leftfold_events::event::{Answer as Reply_, CallSpec, Class, Finish, Session, Tool, Turn};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Fact, Json, POLICY, SessionId, State, TurnConfig};

fn round(id: &'static str, name: &'static str) -> Vec<Step> {
    vec![Call(id, name), Reply(Finish::ToolCalls), Resolve(id, Class::Read, READ, "")]
}

fn rounds(names: &[&'static str]) -> Vec<Step> {
    let ids = ["a", "b", "c", "d", "e"];
    let mut steps = vec![Prompt("hi")];
    for (at, (id, name)) in ids.iter().zip(names).enumerate() {
        if let Some(before) = at.checked_sub(1) {
            steps.push(Done(ids[before], "ok"));
        }
        steps.push(Text("again"));
        steps.extend(round(id, name));
    }
    steps
}

fn with(ask: AskMode, action: Option<Action>) -> TurnConfig {
    let mut config = config();
    config.options.ask = ask;
    config.rules.extend(action.map(|action| Rule::new("doom_loop", "*", action)));
    config
}

#[test]
fn the_third_equal_call_is_asked_about_before_it_runs() {
    let asks = ["permission.ruled c ask", "permission.asked c"];
    let runs = ["permission.ruled c allow", "tool.started c 1"];
    check(&rounds(&["x", "x"]), &["permission.ruled b allow", "tool.started b 1"]);
    check(&rounds(&["x", "x", "x"]), &asks);
    check(&rounds(&["x", "y", "x"]), &runs);
    check(&rounds(&["y", "x", "x"]), &runs);
    check(&rounds(&["x", "x", "y"]), &runs);
    let third = rounds(&["x", "x", "x"]);
    check(&[&third[..], &[Answer("c", Reply_::Once, None)]].concat(), &["tool.started c 1"]);
    let rejected = [&third[..], &[Answer("c", Reply_::Reject, None)]].concat();
    check(&rejected, &["turn.ended blocked"]);
    let told = [&third[..], &[Answer("c", Reply_::Reject, Some("try y"))]].concat();
    check(&told, &["model.requested 4.1"]);
    check(&[&third[..], &[Elapse]].concat(), &["turn.ended blocked"]);
}

/// Inputs are compared by value: the order of keys does not count.
#[test]
fn inputs_are_compared_by_value() {
    let first = r#"{"path": "a", "at": {"line": 1, "column": 2}}"#;
    let second = r#"{"at": {"column": 2, "line": 1}, "path": "a"}"#;
    let other = r#"{"path": "a", "at": {"line": 2, "column": 1}}"#;
    for (inputs, then) in [
        ([first, second, first], ["permission.ruled c ask", "permission.asked c"]),
        ([second, first, second], ["permission.ruled c ask", "permission.asked c"]),
        ([first, second, other], ["permission.ruled c allow", "tool.started c 1"]),
    ] {
        let mut run = Run::new(&config());
        let mut last = run.step(&Prompt("hi"));
        for (id, input) in ["a", "b", "c"].into_iter().zip(inputs) {
            let called = run.fact(&Call(id, "x"));
            let call =
                CallSpec { id: id.into(), name: "x".into(), input: Json::parse(input).unwrap() };
            run.tell(Fact { event: Tool::Called { call }.into(), ..called });
            run.step(&Reply(Finish::ToolCalls));
            last = run.step(&Resolve(id, Class::Read, READ, ""));
            if id != "c" {
                run.step(&Done(id, "ok"));
            }
        }
        let intents: Vec<_> = last.iter().skip(1).map(describe).collect();
        assert_eq!(intents, then, "{inputs:?}");
    }
}

#[test]
fn rules_and_absence_decide_too() {
    let third = rounds(&["x", "x", "x"]);
    let blocked = ["permission.ruled c deny", "turn.ended blocked"];
    let runs = ["permission.ruled c allow", "tool.started c 1"];
    check_with(&with(AskMode::Deny, None), &third, &blocked);
    check_with(&with(AskMode::Allow, None), &third, &runs);
    check_with(&with(AskMode::Ask, Some(Action::Deny)), &third, &blocked);
    check_with(&with(AskMode::Deny, Some(Action::Allow)), &third, &runs);
}

#[test]
fn always_and_a_new_prompt_begin_anew() {
    let third = rounds(&["x", "x", "x"]);
    let fourth =
        [&third[..], &[Answer("c", Reply_::Always, None), Done("c", "ok")], &round("d", "x")]
            .concat();
    // the harness names a tool after its call, and "always" allows the tool
    check(&fourth, &["permission.ruled d ask", "permission.asked d"]);
    let prompted =
        [&rounds(&["x", "x"])[..], &[Prompt("go on"), Done("b", "ok")], &round("c", "x")].concat();
    check(&prompted, &["permission.ruled c allow", "tool.started c 1"]);
}

/// The intents after the last of `steps` in a session that another one has started.
fn in_a_child(steps: &[Step]) -> Vec<String> {
    let mut run = Run { state: State::default(), log: Vec::new(), now: START };
    run.tell(Fact::new(Session::Created {
        directory: "/p".into(),
        worktree: "/p".into(),
        parent: Some(SessionId::default()),
        agent: "general".into(),
        version: "0".into(),
        policy: POLICY,
    }));
    run.tell(Fact::new(Turn::Configured(config().payloads())));
    let last = steps.iter().map(|step| run.step(step)).last().unwrap_or_default();
    last.iter().skip(1).map(describe).collect()
}

/// A model prompts a child again, so the prompt does not reset the count.
#[test]
fn a_child_is_counted_through_all_its_prompts() {
    let ended = |id| [Done(id, "ok"), Text("done"), Reply(Finish::Stop)];
    let again = |before: &[Step], id, next| {
        [before, &ended(id), &[Prompt("go on")], &round(next, "x")].concat()
    };
    let first = [&[Prompt("hi")][..], &round("a", "x")].concat();
    let second = again(&first, "a", "b");
    let third = again(&second, "b", "c");
    assert_eq!(in_a_child(&second), ["permission.ruled b allow", "tool.started b 1"]);
    assert_eq!(in_a_child(&third), ["permission.ruled c ask", "permission.asked c"]);
    check(&third, &["permission.ruled c allow", "tool.started c 1"]);
}
