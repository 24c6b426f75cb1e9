//! A session's title: requested beside the first step, awaited by the turn's end, required by
//! nothing else.

use crate::common::*;
use leftfold_events::event::{Class, FailureClass, Finish, Purpose};
use leftfold_events::request_builder;

const BOTH: [&str; 2] = ["model.requested 1.1", "model.requested title"];

fn after(given: &[Step], then: &[&str]) -> Run {
    check_with(&titled(), given, then);
    let mut run = Run::new(&titled());
    given.iter().for_each(|step| {
        run.step(step);
    });
    run
}

#[test]
fn a_title_is_asked_for_beside_the_first_step_and_once() {
    let run = after(&[Prompt("fix it")], &BOTH);
    let asked = run.log.iter().filter(|e| describe(e).starts_with("model.requested")).count();
    assert_eq!(asked, 2);
    after(&[Prompt("fix it"), Call("a", "x"), Reply(Finish::ToolCalls)], &[]);
    let second_step = [
        Prompt("fix it"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Read, READ, ""),
        Done("a", "ok"),
    ];
    after(&second_step, &["model.requested 2.1"]);
    let run = after(&[Prompt("a"), Title("A"), Reply(Finish::Stop), Prompt("b")], &BOTH[..1]);
    assert_eq!(run.state.title.as_deref(), Some("A"));
    check(&[Prompt("no title wanted")], &BOTH[..1]);
}

#[test]
fn the_end_waits_for_the_title_and_for_nothing_of_it() {
    let answered = [Prompt("hi"), Reply(Finish::Stop)];
    after(&answered, &[]);
    after(&[&answered[..], &[Title("T")]].concat(), &["turn.ended completed"]);
    after(&[&answered[..], &[NoTitle]].concat(), &["turn.ended completed"]);
    let late = after(&[&answered[..], &[Elapse]].concat(), &["turn.ended completed"]);
    assert_eq!(late.state.title, None);
    after(&[Prompt("hi"), Title("T"), Reply(Finish::Stop)], &["turn.ended completed"]);
    after(&[Prompt("hi"), NoTitle, Reply(Finish::Stop)], &["turn.ended completed"]);
    after(&[Prompt("hi"), Interrupt], &["turn.ended aborted"]);
    let fatal = [Prompt("hi"), Fail(FailureClass::Auth, false)];
    after(&fatal, &[]);
    after(&[&fatal[..], &[NoTitle]].concat(), &["turn.ended error"]);
}

#[test]
fn a_retry_does_not_wait_for_the_title() {
    let failed = [Prompt("hi"), Fail(FailureClass::Overloaded, true)];
    after(&failed, &["model.retry_scheduled 1"]);
}

#[test]
fn a_title_counts_in_what_the_turn_costs_and_not_in_its_context() {
    let run = after(&[Prompt("hi"), Title("T")], &[]);
    assert_eq!(run.state.usage.input, 10);
    assert!(run.state.turn.as_ref().is_some_and(|turn| turn.usage.input == 10));
    let request = request_builder::request(&run.state);
    assert_eq!(request.messages.len(), 1, "{request:?}");
}

#[test]
fn a_new_node_asks_again_where_the_first_step_was_cut_off() {
    let cut = [Prompt("hi"), Resume { close: false }];
    after(&cut, &["model.requested 1.2", "model.requested title"]);
    after(&[Prompt("hi"), Title("T"), Resume { close: false }], &["model.requested 1.2"]);
    after(&[Prompt("hi"), Resume { close: true }], &["turn.ended aborted"]);
}

#[test]
fn the_request_is_small_and_from_the_first_prompt() {
    let run = after(&[Prompt("fix the parser")], &BOTH);
    let request = request_builder::title_request(&run.state);
    assert_eq!((request.purpose, request.tools.len()), (Purpose::Title, 0));
    assert_eq!(request.system, ["Name it."]);
    assert!(request.max_output <= 2_000);
    let text = serde_json::to_string(&request.messages).expect("json");
    assert!(text.contains("fix the parser"), "{text}");
}

#[test]
fn children_have_no_titles() {
    use leftfold_events::event::Session;
    use leftfold_events::{Fact, POLICY, State};
    let mut run = Run { state: State::default(), log: Vec::new(), now: START };
    run.tell(Fact::new(Session::Created {
        directory: "/p".into(),
        worktree: "/p".into(),
        parent: Some(Run::session()),
        agent: "general".into(),
        version: "0".into(),
        policy: POLICY,
    }));
    run.tell(Fact::new(leftfold_events::event::Turn::Configured(titled().payloads())));
    assert_eq!(run.step(&Prompt("look")).len(), 2);
}

/// A turn configuration decides nothing; the prompt after it makes the further decisions.
#[test]
fn a_kit_that_comes_in_the_middle_of_a_turn_decides_nothing() {
    use leftfold_events::{Fact, event::Turn, verify};
    let mut run = Run::new(&config());
    run.step(&Prompt("hi"));
    assert_eq!(run.tell(Fact::new(Turn::Configured(titled().payloads()))).len(), 1);
    let prompted = run.step(&Prompt("and this"));
    assert_eq!(prompted.iter().map(describe).collect::<Vec<_>>(), ["turn.prompted", BOTH[1]]);
    assert_eq!(verify(&run.log), []);
    run.finish();
    assert_eq!(verify(&run.log), []);
    // the decisions come with that prompt
    run.log.remove(run.log.iter().position(|event| describe(event) == BOTH[1]).expect("a title"));
    assert_ne!(verify(&run.log), []);
}

#[test]
fn the_session_is_summed_up_once_after_an_answer() {
    let mut config = config();
    config.options.session_summary_prompt = "Sum it up.".into();
    let run = |steps: &[Step], then: &[&str]| {
        check_with(&config, steps, then);
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| {
            run.step(step);
        });
        run
    };
    let answered = [Prompt("fix it"), Text("Fixed."), Reply(Finish::Stop)];
    let asks = ["model.requested summary"];
    let waiting = run(&answered, &asks);
    let request = request_builder::session_summary_request(&waiting.state);
    let told = serde_json::to_string(&request.messages).unwrap_or_default();
    assert!(told.contains("fix it") && told.contains("Fixed."), "{told}");
    assert_eq!((request.purpose, request.tools.len()), (Purpose::SessionSummary, 0));
    let then = |steps: &[Step]| [&answered[..], steps].concat();
    let done = run(&then(&[About("It was fixed.")]), &["turn.ended completed"]);
    assert_eq!(done.state.summary.as_deref(), Some("It was fixed."));
    assert_eq!(done.state.ended.map(|ended| ended.text), Some("Fixed.".into()));
    // nothing depends on it
    for end in [NoTitle, Elapse] {
        let without = run(&then(&[end]), &["turn.ended completed"]);
        assert_eq!(without.state.summary, None);
    }
    run(&then(&[Interrupt]), &["turn.ended aborted"]);
    run(&then(&[Resume { close: false }]), &asks);
    // a later turn asks only if there is none yet
    let again = [Prompt("more"), Text("Done."), Reply(Finish::Stop)];
    run(&then(&[&[About("So.")], &again[..]].concat()), &["turn.ended completed"]);
    run(&then(&[&[NoTitle], &again[..]].concat()), &asks);
    // no answer, no summary
    run(&[Prompt("fix it"), Fail(FailureClass::Auth, false)], &["turn.ended error"]);
    // title and summary at once
    config.options.title_prompt = "Name it.".into();
    check_with(&config, &answered, &asks);
    check_with(&config, &then(&[NoTitle, NoTitle]), &["turn.ended completed"]);
}
