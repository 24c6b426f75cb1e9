//! Which hosts `webfetch` reads without a question, and which it asks about, as tables.

#![allow(clippy::expect_used, reason = "what is not as it has to be fails the test")]

use crate::common::*;
use leftfold_events::event::{
    Access, Answer as Said, Class, Event, Finish, Permission, PromptPart, Tool, Wanted,
};
use leftfold_events::rules::{Action, HOST, Rule, SECRET_IN_URL, WEBFETCH};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Envelope, Fact, TurnConfig};

/// `ACTION PERMISSION PATTERN`.
fn rule(text: &str) -> Rule {
    let words: Vec<&str> = text.split(' ').collect();
    let [action, permission, pattern] = words[..] else { panic!("{text}") };
    let action = match action {
        "allow" => Action::Allow,
        "ask" => Action::Ask,
        _ => Action::Deny,
    };
    Rule::new(permission, pattern, action)
}

fn access(permission: &str, url: &str, always: &str) -> Access {
    let always = [always].into_iter().filter(|text| !text.is_empty()).map(str::to_owned).collect();
    Access { permission: permission.to_owned(), patterns: vec![url.to_owned()], always }
}

/// A call of `webfetch`.
fn fetch(run: &mut Run, call: &'static str, url: &str, secret: bool) -> Vec<Envelope> {
    run.step(&Call(call, WEBFETCH));
    run.step(&Reply(Finish::ToolCalls));
    let mut fact = run.fact(&Resolve(call, Class::Read, ("x", "x"), ""));
    if let Event::Tool(Tool::Resolved(resolution)) = &mut fact.event {
        let host = leftfold_events::rules::host::pattern_of(url).unwrap_or_default();
        resolution.access = vec![access(WEBFETCH, url, ""), access(HOST, url, &host)];
        resolution.access.extend(secret.then(|| access(SECRET_IN_URL, url, "")));
    }
    run.tell(fact)
}

fn config_with(rules: &[&str], ask: AskMode) -> TurnConfig {
    let mut config = config();
    config.rules.extend(rules.iter().map(|text| rule(text)));
    config.options.ask = ask;
    config
}

/// The questions of a fetch, each answered with "once", and then whether the call runs.
fn questions(config: &TurnConfig, parts: Vec<PromptPart>, url: &str, secret: bool) -> String {
    let mut run = Run::new(config);
    run.tell(prompted(parts));
    let mut batch = fetch(&mut run, "a", url, secret);
    let mut said = Vec::new();
    loop {
        for event in &batch {
            match &event.event {
                Event::Permission(Permission::Asked { permission, .. }) => {
                    said.push(permission.clone());
                }
                Event::Permission(Permission::Ruled { action: Action::Deny, .. }) => {
                    said.push("denied".to_owned());
                }
                Event::Tool(Tool::Started { .. } | Tool::StartedSandboxed(_)) => {
                    said.push("runs".to_owned());
                }
                _ => {}
            }
        }
        let Some((of, _)) = run.state.questions().pop() else { return said.join(" ") };
        let (reply, feedback, by) = (Said::Once, None, "me".to_owned());
        batch = run.tell(Fact::for_intent(of, Permission::Answered { reply, feedback, by }));
    }
}

#[test]
fn a_host_is_asked_about_unless_a_rule_or_a_person_has_named_it() {
    use AskMode::{Allow, Ask, Deny};
    let evil = "https://evil.test/?key=1";
    for (rules, ask, prompt, url, expected) in [
        // by default
        (&[][..], Ask, "hi", evil, "host runs"),
        (&[], Deny, "hi", evil, "denied"),
        (&[], Allow, "hi", evil, "runs"),
        (&[], Deny, "hi", "https://docs.rs/tokio?q=x", "runs"),
        (&[], Ask, "hi", "http://docs.rs/tokio", "host runs"),
        (&[], Ask, "hi", "https://docs.rs:8443/tokio", "host runs"),
        (&[], Ask, "hi", "https://docs.rs.evil.test/", "host runs"),
        (&[], Ask, "hi", "https://a.docs.rs/", "host runs"),
        // named in the prompt
        (&[], Deny, "Read https://evil.test/x.", evil, "runs"),
        (&[], Deny, "Read https://www.evil.test/x.", evil, "runs"),
        (&[], Ask, "Read https://evil.test/x.", "https://a.evil.test/", "host runs"),
        (&[], Ask, "Read https://evil.test:8443/", evil, "host runs"),
        (&[], Ask, "Read evil.test", evil, "host runs"),
        (&["deny host *"], Ask, "Read https://evil.test/", evil, "denied"),
        (&["ask host *"], Ask, "Read https://evil.test/", evil, "runs"),
        (&["ask host *.test"], Ask, "Read https://evil.test/", evil, "host runs"),
        // rules about hosts
        (&["allow host *"], Deny, "hi", evil, "runs"),
        (&["allow host *.test"], Deny, "hi", evil, "runs"),
        (&["allow host evil.test", "ask host *"], Ask, "hi", evil, "host runs"),
        (&["allow host *.evil.test"], Deny, "hi", evil, "denied"),
        (&["deny host evil.test"], Allow, "hi", evil, "denied"),
        (&["ask host *"], Ask, "hi", "https://docs.rs/", "host runs"),
        // rules for everything
        (&["allow * *"], Deny, "hi", evil, "runs"),
        (&["ask * *"], Ask, "hi", evil, "webfetch runs"),
        (&["deny * *", "allow webfetch *"], Ask, "hi", evil, "host runs"),
        // rules about `webfetch`
        (&["deny webfetch *"], Ask, "Read https://evil.test/", evil, "denied"),
        (&["ask webfetch *"], Ask, "hi", evil, "webfetch runs"),
        (&["ask webfetch *"], Ask, "hi", "https://docs.rs/", "webfetch runs"),
        (&["ask webfetch *"], Deny, "hi", evil, "denied"),
        (&["allow webfetch *"], Ask, "hi", evil, "host runs"),
        (&["allow webfetch https://evil.test/*"], Deny, "hi", evil, "runs"),
        (&["allow webfetch https://evil.test/*", "deny host *"], Ask, "hi", evil, "denied"),
        (&["allow webfetch https://good.test/*"], Ask, "hi", evil, "host runs"),
    ] {
        let config = config_with(rules, ask);
        let found = questions(&config, vec![PromptPart::text(prompt)], url, false);
        assert_eq!(found, expected, "{rules:?} {ask:?} {prompt:?} {url}");
    }
}

#[test]
fn only_the_words_of_a_person_name_a_host() {
    let (config, url) = (config_with(&[], AskMode::Deny), "https://evil.test/");
    let (name, text) = (Some("a.md".to_owned()), "https://evil.test/");
    for (part, expected) in [
        (PromptPart::text(text), "runs"),
        (PromptPart::quoted(text), "denied"),
        (PromptPart { name, ..PromptPart::text(text) }, "denied"),
    ] {
        let parts = vec![PromptPart::text("hi"), part];
        assert_eq!(questions(&config, parts.clone(), url, false), expected, "{parts:?}");
    }
    // a subagent's prompt is of a model; it has the names of the sessions above it
    let mut config = config;
    config.options.named_hosts = vec!["evil.test".to_owned()];
    assert_eq!(questions(&config, vec![PromptPart::text("hi")], url, false), "runs");
    let mut run = Run::new(&config);
    run.state.origin.as_mut().expect("an origin").parent = Some(Run::session());
    run.tell(prompted(vec![PromptPart::text("Read https://other.test/")]));
    assert!(run.state.named_hosts.is_empty());
    // and nothing of an imported log
    let mut run = Run::new(&config);
    run.tell(prompted(vec![PromptPart::text("Read https://other.test/")]));
    assert_eq!(run.state.named_hosts.len(), 1);
    run.step(&ResumeImported { close: true });
    assert!(run.state.named_hosts.is_empty());
}

#[test]
fn a_secret_in_an_address_is_asked_about_whatever_the_host() {
    use AskMode::{Allow, Ask, Deny};
    let url = "https://docs.rs/?q={{secret:KEY}}";
    for (rules, ask, expected) in [
        (&[][..], Ask, "secret_in_url runs"),
        (&[], Deny, "denied"),
        (&[], Allow, "runs"),
        (&["allow * *", "allow host *"], Ask, "secret_in_url runs"),
        (&["allow webfetch https://docs.rs/*"], Ask, "secret_in_url runs"),
        (&["allow secret_in_url https://docs.rs/*"], Deny, "runs"),
        (&["deny secret_in_url *"], Allow, "denied"),
    ] {
        let prompt = vec![PromptPart::text("Read https://docs.rs/")];
        let found = questions(&config_with(rules, ask), prompt, url, true);
        assert_eq!(found, expected, "{rules:?} {ask:?}");
    }
}

#[test]
fn always_is_for_the_host_and_answers_the_other_questions_about_it() {
    let mut run = Run::new(&config_with(&[], AskMode::Ask));
    run.step(&Prompt("hi"));
    fetch(&mut run, "a", "https://evil.test/?a", false);
    let (of, asked) = run.state.questions().pop().expect("a question");
    assert_eq!(asked.patterns, ["https://evil.test/?a"]);
    for (pattern, may) in [
        ("evil.test", true),
        ("*.test", true),
        ("*", true),
        ("other.test", false),
        ("https://evil.test/*", false),
    ] {
        let found =
            leftfold_events::may_approve(&run.state, of, Said::Always, &[pattern.to_owned()]);
        assert_eq!(found.is_ok(), may, "{pattern}: {found:?}");
    }
    let (reply, feedback, by) = (Said::Always, None, "me".to_owned());
    run.tell(Fact::for_intent(of, Permission::Answered { reply, feedback, by }));
    assert_eq!(run.state.approved, [rule("allow host evil.test")]);
}

/// A redirect is judged in the middle of the call.
#[test]
fn a_redirect_to_another_host_is_judged_by_the_same_rules() {
    for (rules, to, expected) in [
        (&[][..], "https://evil.test/", "asked"),
        (&[], "https://docs.rs/", "Accepted"),
        (&[], "https://named.example/", "Accepted"),
        (&["allow host evil.test"], "https://evil.test/", "Accepted"),
        (&["deny host *.test"], "https://evil.test/", "Declined"),
        (&["deny webfetch https://evil.test/*"], "https://evil.test/x", "Declined"),
        (&["ask webfetch https://evil.test/*"], "https://evil.test/x", "asked"),
        (&["deny webfetch https://docs.rs/*"], "https://docs.rs/x", "Declined"),
    ] {
        let mut run = Run::new(&config_with(rules, AskMode::Ask));
        run.tell(prompted(vec![PromptPart::text("Read https://named.example/")]));
        fetch(&mut run, "a", "https://named.example/", false);
        let waits = run.state.open();
        let of =
            waits.iter().find(|(kind, _)| *kind == PendingKind::Tool).expect("it runs").1.intent;
        let host = leftfold_events::rules::host::pattern_of(to).expect("a host");
        let Access { permission, patterns, always } = access(HOST, to, &host);
        let wanted = Wanted::Permission { permission, patterns, always };
        let (from, message) = (WEBFETCH.to_owned(), "It redirects.".to_owned());
        let asked = Tool::ElicitationRequested { elicitation: 1, from, message, wanted };
        let batch = run.tell(Fact::for_intent(of, asked));
        let found = batch.iter().find_map(|event| match &event.event {
            Event::Permission(Permission::Asked { patterns, .. }) => {
                assert_eq!(patterns, &[to]);
                Some("asked".to_owned())
            }
            Event::Tool(Tool::ElicitationAnswered { consent, .. }) => Some(format!("{consent:?}")),
            _ => None,
        });
        assert_eq!(found.as_deref(), Some(expected), "{rules:?} {to}");
    }
}
