//! A session's own permission rules, which a client sets.

use crate::common::*;
use leftfold_events::event::{Answer, Class, Event, Finish, Permission, Session};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::{Envelope, Fact, State, admits, fold, settle, verify};

fn set(rules: &[Rule]) -> Fact {
    Fact::new(Session::RulesSet { rules: rules.to_vec(), by: "acp".into() })
}

fn bash(pattern: &str, action: Action) -> Rule {
    Rule::new("bash", pattern, action)
}

/// The verdict on a command, and what follows it, in a session with the configured rules and its own.
fn ruled(configured: Rule, own: &[Rule], command: &'static str) -> (Action, Option<Rule>) {
    let mut config = config();
    config.rules = vec![configured];
    let mut run = Run::new(&config);
    run.tell(set(own));
    run.step(&Prompt("go"));
    run.step(&Call("a", "bash"));
    run.step(&Reply(Finish::ToolCalls));
    let events = run.step(&Resolve("a", Class::Command, ("bash", command), "/p/x"));
    let verdict = events.iter().find_map(|event| {
        let Event::Permission(Permission::Ruled { action, rule, .. }) = &event.event else {
            return None;
        };
        Some((*action, rule.clone()))
    });
    assert_eq!((verify(&run.log), fold(&run.log)), (vec![], run.state));
    verdict.expect("a verdict")
}

#[test]
fn they_only_make_verdicts_stricter() {
    use Action::{Allow, Ask, Deny};
    for (configured, own, expected) in [
        (Allow, vec![], Allow),
        (Allow, vec![bash("*", Deny)], Deny),
        (Allow, vec![bash("*", Ask)], Ask),
        (Allow, vec![bash("ls *", Deny)], Allow),
        (Allow, vec![bash("*", Deny), bash("git *", Allow)], Allow),
        (Ask, vec![bash("*", Allow)], Ask),
        (Ask, vec![bash("*", Deny)], Deny),
        (Deny, vec![bash("*", Allow)], Deny),
        (Deny, vec![Rule::new("*", "*", Allow)], Deny),
    ] {
        let found = ruled(bash("*", configured), &own, "git log").0;
        assert_eq!(found, expected, "{configured:?} and {own:?}");
    }
    let own = bash("git *", Deny);
    let rule = ruled(bash("*", Allow), std::slice::from_ref(&own), "git log").1;
    assert_eq!(rule, Some(own), "the rule that decides is named");
}

#[test]
fn an_approval_answers_their_questions_and_beats_no_denial() {
    let mut config = config();
    config.rules = vec![bash("*", Action::Allow)];
    config.options.ask = leftfold_events::turn_config::AskMode::Ask;
    let mut run = Run::new(&config);
    run.tell(set(&[bash("*", Action::Ask)]));
    run.step(&Prompt("go"));
    run.step(&Call("a", "bash"));
    run.step(&Reply(Finish::ToolCalls));
    run.step(&Resolve("a", Class::Command, ("bash", "git log"), "/p/x"));
    run.step(&Answer("a", Answer::Always, None));
    assert!(!run.state.approved.is_empty());
    run.tell(set(&[bash("*", Action::Deny)]));
    run.step(&Done("a", "ok"));
    run.step(&Call("b", "bash"));
    run.step(&Reply(Finish::ToolCalls));
    let events = run.step(&Resolve("b", Class::Command, ("bash", "git log"), "/p/x"));
    let denies = |e: &Envelope| {
        matches!(e.event, Event::Permission(Permission::Ruled { action: Action::Deny, .. }))
    };
    assert!(events.iter().any(denies), "{events:?}");
}

#[test]
fn the_last_list_holds_also_in_a_fork_and_not_after_an_import() {
    let mut run = Run::new(&config());
    assert_eq!(serde_json::to_value(&run.state).expect("JSON").get("rules"), None);
    let (deny, ask) = ([bash("*", Action::Deny)], [bash("*", Action::Ask)]);
    for rules in [&deny[..], &ask, &[], &deny] {
        assert_eq!(run.tell(set(rules)).len(), 1, "nothing is decided from it");
        assert_eq!(run.state.rules, rules);
        assert_eq!(run.state.config.options.session_rules, rules);
        assert!(!admits(&run.state, &set(rules)), "the same once more is no news");
    }
    // a configuration that was built before does not bring older ones back
    run.step(&Prompt("hi"));
    assert_eq!(run.state.config.options.session_rules, deny);
    let mut fork = run.state.clone();
    let (from, at, now) = (fork.session, fork.seq, fork.at);
    settle(&mut fork, from.child(at, now), Fact::new(Session::Forked { from, at }), now);
    assert_eq!(fork.rules, deny);
    run.step(&ResumeImported { close: true });
    assert!(run.state.rules.is_empty() && run.state.config.options.session_rules.is_empty());
    assert!(!admits(&State::default(), &set(&deny)), "there is no session yet");
    assert_eq!(verify(&run.log), []);
}
