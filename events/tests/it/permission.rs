//! Permissions within a turn: verdicts, questions, answers, and the intents that follow.

use crate::common::*;
use leftfold_events::event::Permission::{AnsweredFor, RejectedWith};
use leftfold_events::event::{Access, Answer::*, Class, EndReason, Event, Finish, Tool, Turn};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Fact, TurnConfig, admits, may_approve};

#[test]
fn questions_are_asked_and_answered() {
    let asked = [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
    ];
    let then = |step: Step| [&asked[..], &[step]].concat();
    check(&asked, &["permission.ruled a ask", "permission.asked a"]);
    check(&then(Answer("a", Once, None)), &["tool.started a 1"]);
    check(&then(Answer("a", Always, None)), &["tool.started a 1"]);
    check(&then(Answer("a", Reject, None)), &["turn.ended blocked"]);
    check(&then(Answer("a", Reject, Some("not so"))), &["model.requested 2.1"]);
    check(&then(Elapse), &["model.requested 2.1"]);
}

/// The rejection ends the turn although the context is full; the summary precedes the next prompt.
#[test]
fn a_rejection_in_a_full_context_ends_the_turn_and_the_next_prompt_makes_room() {
    let rejected = [
        Prompt("hi"),
        Call("a", "x"),
        Full(9_500),
        Resolve("a", Class::Command, ASK, ""),
        Answer("a", Reject, None),
    ];
    check(&rejected, &["turn.ended blocked"]);
    let next = [&rejected[..], &[Prompt("more")]].concat();
    check(&next, &["compaction.started", "model.requested 0.1"]);
    check(&[&next[..], &[Summary("so far")]].concat(), &["model.requested 1.1"]);
}

#[test]
fn always_is_remembered_in_the_session() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
        Answer("a", Always, None),
        Resolve("b", Class::Command, ASK, ""),
    ];
    check(&given, &["permission.ruled b allow", "tool.started b 1"]);
}

#[test]
fn an_always_that_was_taken_back_asks_again_until_the_next_one() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "y"),
        Call("c", "z"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
        Answer("a", Always, None),
    ];
    let mut run = Run::new(&config());
    given.iter().for_each(|step| drop(run.step(step)));
    let [rule] = &run.state.approved[..] else { panic!("{:?}", run.state.approved) };
    let mut changed = config();
    changed.options.revoked = vec![Rule { action: Action::Ask, ..rule.clone() }];
    run.tell(Fact::new(Turn::Configured(changed.payloads())));
    assert!(run.state.approved.is_empty());
    let mut intents = |step: &Step| -> Vec<String> {
        let batch = run.step(step);
        batch.iter().filter(|e| e.event.is_intent()).map(describe).collect()
    };
    let asks = intents(&Resolve("b", Class::Command, ASK, ""));
    assert_eq!(asks, ["permission.ruled b ask", "permission.asked b"]);
    assert_eq!(intents(&Answer("b", Always, None)), ["tool.started b 1"]);
    let allowed = intents(&Resolve("c", Class::Command, ASK, ""));
    assert_eq!(allowed, ["permission.ruled c allow", "tool.started c 1"]);
}

/// A turn that asks about `cargo test x`, and offers `cargo test *`.
fn asked_about_a_command(rules: &[(&str, &str, Action)]) -> Run {
    let mut config = config();
    config.rules = [("*", "*", Action::Ask)]
        .iter()
        .chain(rules)
        .map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action))
        .collect();
    let mut run = Run::new(&config);
    for step in [Prompt("hi"), Call("a", "x"), Call("b", "y"), Reply(Finish::ToolCalls)] {
        run.step(&step);
    }
    for call in ["a", "b"] {
        let mut resolved = resolution(call, Class::Command, ("bash", "cargo test x"), "");
        resolved.access[0].always = vec!["cargo test *".to_owned()];
        let of = run.waiting(call).unwrap();
        run.tell(Fact::for_intent(of, Tool::Resolved(Box::new(resolved))));
    }
    run
}

#[test]
fn an_always_may_allow_other_patterns_that_match_the_question_and_cover_no_denial() {
    use Action::{Allow, Deny};
    const PUBLISH: (&str, &str, Action) = ("bash", "cargo publish *", Deny);
    const TOO_LONG: &str = "over the limit";
    let long = "x".repeat(5_000);
    for (rules, patterns, refused) in [
        (&[][..], &["cargo *"][..], None),
        (&[], &["cargo test x", "*"], None),
        (&[], &["cargo test *"], None),
        (&[], &["cargo build *"], Some("does not match `cargo test x`")),
        (&[], &[], Some("no pattern")),
        (&[], &["  "], Some("no pattern")),
        (&[], &["cargo *\u{1b}[2J"], Some("`cargo *\\u{1b}[2J` has a line end or another")),
        (&[], &[&long], Some(TOO_LONG)),
        (&[], &["*"; 51], Some(TOO_LONG)),
        (&[PUBLISH], &["cargo test *"], None),
        (&[PUBLISH], &["cargo t*"], None),
        (&[PUBLISH], &["cargo *"], Some("would also allow `cargo publish *`, which a rule denies")),
        (&[PUBLISH], &["*"], Some("would also allow")),
        (&[("b*", "cargo publish *", Deny)], &["*"], Some("would also allow")),
        // another rule has lifted it, or it is about something else
        (&[PUBLISH, ("bash", "cargo *", Action::Ask)], &["*"], None),
        (&[PUBLISH, ("bash", "*", Allow), ("bash", "*", Action::Ask)], &["*"], None),
        (&[("edit", "*", Deny)], &["*"], None),
        // what the question offers may stay, and a denial still wins
        (&[("bash", "cargo test danger", Deny)], &["cargo test *"], None),
        (&[("bash", "cargo test danger", Deny)], &["cargo test* "], Some("does not match")),
        (&[("bash", "cargo test danger", Deny)], &["cargo test ??*"], Some("does not match")),
        (&[("bash", "cargo test danger", Deny)], &["cargo test?*"], Some("`cargo test danger`")),
    ] {
        let mut run = asked_about_a_command(rules);
        let (of, _) = run.state.questions()[0].clone();
        let always: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let found = may_approve(&run.state, of, Always, &always).map_err(|why| why.to_string());
        let answered =
            AnsweredFor { reply: Always, feedback: None, by: "me".into(), always: always.clone() };
        let fact = Fact::for_intent(of, answered);
        assert_eq!(admits(&run.state, &fact), refused.is_none(), "{patterns:?}");
        match (refused, found) {
            (Some(part), Err(why)) => assert!(why.contains(part), "{patterns:?}: {why}"),
            (None, Ok(())) => {
                run.tell(fact);
                let approved: Vec<&str> =
                    run.state.approved.iter().map(|rule| rule.pattern.as_str()).collect();
                assert_eq!(approved, always);
                // the other call asks no more
                assert_eq!(run.state.questions(), []);
            }
            (expected, found) => panic!("{patterns:?}: {expected:?} {found:?}"),
        }
    }
    let run = asked_about_a_command(&[]);
    let (of, _) = run.state.questions()[0].clone();
    let any = ["*".to_owned()];
    for (of, reply, part) in
        [(of, Once, "only an answer `always`"), (of, Reject, "only"), (1, Always, "no such")]
    {
        let why = may_approve(&run.state, of, reply, &any).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    }
    // a question that offers nothing
    let mut run = Run::new(&config());
    for step in [Prompt("hi"), Call("a", "x"), Reply(Finish::ToolCalls)] {
        run.step(&step);
    }
    let mut resolved = resolution("a", Class::Command, ASK, "");
    resolved.access[0].always.clear();
    run.tell(Fact::for_intent(run.waiting("a").unwrap(), Tool::Resolved(Box::new(resolved))));
    let (of, _) = run.state.questions()[0].clone();
    let why = may_approve(&run.state, of, Always, &any).unwrap_err().to_string();
    assert_eq!(why, "this question can be allowed once only");
}

#[test]
fn always_releases_what_waits_for_the_same_question() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "x"),
        Call("c", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
        Resolve("b", Class::Command, ASK, ""),
        Resolve("c", Class::Command, ("other", "x"), ""),
        Answer("b", Always, None),
    ];
    check(&given, &["tool.started a 1", "tool.started b 1"]);
}

#[test]
fn a_plain_rejection_cancels_the_other_calls() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "x"),
        Reply(Finish::ToolCalls),
        Resolve("b", Class::Command, READ, ""),
        Resolve("a", Class::Command, ASK, ""),
        Answer("a", Reject, None),
    ];
    check(&given, &["tool.cancelled b 1", "turn.ended blocked"]);
}

/// Four calls: `a` and `b` are asked about, `c` runs, `d` is not resolved yet.
fn asked_about_two() -> Vec<Step> {
    vec![
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "y"),
        Call("c", "z"),
        Call("d", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
        Resolve("b", Class::Command, ("ask", "y"), ""),
        Resolve("c", Class::Command, READ, ""),
    ]
}

#[test]
fn a_rejection_with_words_closes_the_other_questions_of_the_reply() {
    let mut given = asked_about_two();
    given.push(Answer("a", Reject, Some("use git")));
    check(&given, &["permission.answered"]);
    given.push(Resolve("d", Class::Command, ASK, ""));
    check(&given, &["permission.ruled d ask", "permission.ruled d deny"]);
    given.extend([Done("c", "ok"), Call("e", "x"), Reply(Finish::ToolCalls)]);
    // the next reply is judged by itself
    // the next reply is judged by itself
    given.push(Resolve("e", Class::Command, ASK, ""));
    check(&given, &["permission.ruled e ask", "permission.asked e"]);

    let mut run = Run::new(&config());
    for step in &given {
        run.step(step);
    }
    let answer = run.log.iter().find(|event| describe(event) == "permission.answered").unwrap().seq;
    let closed = run.log.iter().find(|e| matches!(e.event, Event::Permission(RejectedWith { .. })));
    let Event::Permission(RejectedWith { reply, feedback, by, with }) = &closed.unwrap().event
    else {
        panic!("{closed:?}");
    };
    assert_eq!((*reply, feedback.as_deref(), by.as_str()), (Reject, Some("use git"), "somebody"));
    assert_eq!(*with, answer);
    let request = format!("{:?}", leftfold_events::request_builder::request(&run.state));
    assert!(request.contains("The user rejected this call and said: use git"));
    let others = "rejected another call of this reply, so this one was not run either. The user \
                  said: use git";
    assert_eq!(request.matches(others).count(), 2, "{request}");
    let denials = run.state.turn.as_ref().unwrap().denials.iter().map(|denial| &*denial.call);
    assert_eq!(denials.collect::<Vec<_>>(), ["a", "b", "d"]);
    assert_eq!(leftfold_events::verify(&run.log), []);
}

#[test]
fn logs_of_earlier_policies_keep_the_other_questions() {
    let mut run = Run::new(&config());
    run.state.policy = 2;
    for step in &asked_about_two() {
        run.step(step);
    }
    let intents = run.step(&Answer("a", Reject, Some("use git")));
    assert_eq!(intents.len(), 1, "only the answer: {intents:?}");
    assert_eq!(run.state.questions().len(), 1);
    let mut log = run.log;
    if let Event::Session(leftfold_events::event::Session::Created { policy, .. }) =
        &mut log[0].event
    {
        *policy = 2;
    }
    assert_eq!(leftfold_events::verify(&log), []);
}

#[test]
fn with_nobody_to_ask_a_question_is_decided_beforehand() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
    ];
    let mut config = config();
    config.options.ask = AskMode::Deny;
    check_with(&config, &given, &["permission.ruled a deny", "model.requested 2.1"]);
    config.options.ask = AskMode::Allow;
    check_with(&config, &given, &["permission.ruled a allow", "tool.started a 1"]);
}

#[test]
fn denials_are_listed_at_the_end() {
    let mut run = Run::new(&config());
    for step in [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ("never", "x"), ""),
        Text("well"),
        Reply(Finish::Stop),
    ] {
        run.step(&step);
    }
    let ended = run.state.ended.expect("ended");
    assert_eq!(ended.reason, EndReason::Completed);
    assert_eq!(ended.text, "well");
    assert_eq!(ended.steps, 2);
    assert_eq!(ended.usage.input, 20);
    assert!((ended.cost - 1.0).abs() < 1e-9);
    let denial = &ended.permission_denials[0];
    assert_eq!((denial.call.as_str(), denial.permission.as_str()), ("a", "never"));
}

#[test]
fn a_question_that_nobody_is_asked_any_more_is_ruled_anew_on_resume() {
    let asked = [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ASK, ""),
    ];
    for (mode, then) in [
        (AskMode::Deny, ["permission.ruled a deny", "model.requested 2.1"]),
        (AskMode::Allow, ["permission.ruled a allow", "tool.started a 1"]),
    ] {
        let mut run = Run::new(&config());
        asked.iter().for_each(|step| {
            run.step(step);
        });
        let mut changed = config();
        changed.options.ask = mode;
        run.tell(Fact::new(Turn::Configured(changed.payloads())));
        let batch = run.step(&Resume { close: false });
        let intents = batch.iter().filter(|e| e.event.is_intent()).map(describe);
        assert_eq!(intents.collect::<Vec<_>>(), then);
    }
}

#[test]
fn the_denial_names_the_access_that_was_denied() {
    let mut config = config();
    config.rules =
        vec![Rule::new("*", "*", Action::Ask), Rule::new("external_directory", "*", Action::Allow)];
    config.options.ask = AskMode::Deny;
    let mut run = Run::new(&config);
    [Prompt("hi"), Call("a", "x"), Reply(Finish::ToolCalls)].iter().for_each(|step| {
        run.step(step);
    });
    let mut fact = run.fact(&Resolve("a", Class::Command, ("external_directory", "/tmp/*"), ""));
    if let Event::Tool(Tool::Resolved(resolution)) = &mut fact.event {
        resolution.access.push(Access {
            permission: "bash".into(),
            patterns: vec!["ls".into()],
            always: Vec::new(),
        });
    }
    run.tell(fact);
    let denials = &run.state.turn.as_ref().expect("a turn").denials;
    assert_eq!(denials[0].permission, "bash");
}

#[test]
fn with_no_rule_at_all_a_call_is_asked_about() {
    let access = Access {
        permission: "bash".into(),
        patterns: vec!["ls".into(), "pwd".into()],
        always: Vec::new(),
    };
    let judged = |rules: Vec<Rule>| {
        leftfold_events::judge(&TurnConfig { rules, ..TurnConfig::default() }, &access, &[]).0
    };
    assert_eq!(judged(Vec::new()), Action::Ask);
    assert_eq!(judged(vec![Rule::new("bash", "pwd", Action::Allow)]), Action::Ask);
}
