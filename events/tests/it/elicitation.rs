//! Elicitations as tables: the questions, the meaning of answers, the answers for tools.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "what is not as it has to be fails the test"
)]

use crate::common::*;
use leftfold_events::event::{
    Answer as Said, Class, Consent, Event, Finish, Permission, Session, Tool, Wanted,
};
use leftfold_events::form::{self, GO_ON, LEFT_OUT};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::{PendingKind, Phase};
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Envelope, Fact, Json, Seq, TurnConfig};
use serde_json::{Value, json};

const FORM: &str = r#"{"type":"object","required":["day","count"],"properties":{
    "day":{"type":"string","enum":["mon","tue"],"enumNames":["Monday","Tuesday"]},
    "count":{"type":"integer","minimum":1,"maximum":4,"title":"Seats"},
    "note":{"type":"string","maxLength":5,"default":"none"}}}"#;

/// The steps before a running call `a`.
const RUNNING: [Step; 3] =
    [Prompt("hi"), Call("a", "mcp"), Resolve("a", Class::Command, ("free", "x"), "")];

fn running(config: &TurnConfig) -> Run {
    check_with(config, &RUNNING, &["permission.ruled a allow", "tool.started a 1"]);
    let mut run = Run::new(config);
    RUNNING.iter().for_each(|step| drop(run.step(step)));
    run.step(&Reply(Finish::ToolCalls));
    run
}

fn free(ask: AskMode) -> TurnConfig {
    let mut config = config();
    config.rules.extend(["free", "question"].map(|what| Rule::new(what, "*", Action::Allow)));
    config.options.ask = ask;
    config
}

fn run_of(run: &Run) -> Seq {
    let wait = run.state.open().into_iter().find(|(kind, _)| *kind == PendingKind::Tool);
    wait.expect("a running call").1.intent
}

fn elicit(run: &mut Run, elicitation: u32, wanted: Wanted) -> Vec<Envelope> {
    let (from, message) = ("tickets".to_owned(), "For when?".to_owned());
    let of = run_of(run);
    run.tell(Fact::for_intent(
        of,
        Tool::ElicitationRequested { elicitation, from, message, wanted },
    ))
}

fn wanted(schema: &str) -> Wanted {
    Wanted::Form { schema: Json::parse(schema).unwrap() }
}

fn question(run: &Run) -> (Seq, Vec<String>) {
    let (of, access) = run.state.questions().pop().expect("an open question");
    assert_eq!(access.permission, "question");
    (of, access.patterns)
}

fn say(run: &mut Run, reply: Said, words: Option<&str>) -> Vec<Envelope> {
    let of = question(run).0;
    let feedback = words.map(str::to_owned);
    run.tell(Fact::for_intent(of, Permission::Answered { reply, feedback, by: "me".into() }))
}

/// The answer for the tool after these events.
fn told(events: &[Envelope]) -> Option<(u32, Consent, Value)> {
    events.iter().find_map(|envelope| match &envelope.event {
        Event::Tool(Tool::ElicitationAnswered { elicitation, consent, content, .. }) => {
            Some((*elicitation, *consent, content.value()))
        }
        _ => None,
    })
}

fn sound(run: &Run) {
    assert_eq!(leftfold_events::verify(&run.log), vec![]);
    assert_eq!(leftfold_events::fold(&run.log), run.state);
}

#[test]
fn fields_are_asked_one_by_one_until_each_has_a_value() {
    let mut run = running(&free(AskMode::Ask));
    elicit(&mut run, 1, wanted(FORM));
    assert_eq!(question(&run).1, ["For when?\nday"]);
    say(&mut run, Said::Once, Some("Tuesday"));
    assert_eq!(question(&run).1, ["For when?\nSeats"]);
    for wrong in ["many", "0", "5", "1.5", ""] {
        assert_eq!(told(&say(&mut run, Said::Once, Some(wrong))), None);
        let again = ["For when?\nSeats", "a whole number from 1 up to 4 is expected"];
        assert_eq!(question(&run).1, again, "{wrong}");
    }
    say(&mut run, Said::Once, Some(" 2 "));
    assert_eq!(question(&run).1, ["For when?\nnote"]);
    let end = say(&mut run, Said::Once, Some(LEFT_OUT));
    let content = json!({ "day": "tue", "count": 2 });
    assert_eq!(told(&end), Some((1, Consent::Accepted, content)));
    assert!(run.state.questions().is_empty());
    sound(&run);
    // the call continues as if it had not asked
    run.step(&Done("a", "booked"));
    assert!(run.state.calls().all(|call| call.is_done()));
    sound(&run);
}

#[test]
fn no_is_no_to_the_tool_alone() {
    let mut run = running(&free(AskMode::Ask));
    elicit(&mut run, 1, wanted(FORM));
    let end = say(&mut run, Said::Reject, None);
    assert_eq!(told(&end), Some((1, Consent::Declined, json!({}))));
    let turn = run.state.turn.as_ref().unwrap();
    assert!(turn.stop.is_none() && turn.denials.is_empty());
    assert!(run.state.calls().all(|call| call.is_running()));
    sound(&run);
}

#[test]
fn where_nobody_is_asked_the_tool_is_told_so_at_once() {
    for (ask, rule, consent) in [
        (AskMode::Deny, None, Consent::Declined),
        (AskMode::Allow, None, Consent::Declined),
        (AskMode::Ask, Some(Rule::new("question", "*", Action::Deny)), Consent::Declined),
    ] {
        let mut config = free(ask);
        config.rules.extend(rule);
        let mut run = running(&config);
        let end = elicit(&mut run, 1, wanted(FORM));
        assert_eq!(told(&end), Some((1, consent, json!({}))), "{ask:?}");
        sound(&run);
    }
    for schema in [r#"{"properties":{"a":{"type":"object"}}}"#, r#"{"properties":{"a":7}}"#] {
        let mut run = running(&free(AskMode::Ask));
        let end = elicit(&mut run, 1, wanted(schema));
        assert_eq!(told(&end), Some((1, Consent::Cancelled, json!({}))), "{schema}");
    }
}

#[test]
fn while_a_person_thinks_the_call_s_time_stands_still() {
    let mut run = running(&free(AskMode::Ask));
    let until = |run: &Run| {
        run.state.calls().find_map(|call| match &call.phase {
            Phase::Running { wait, .. } => Some(wait.until),
            _ => None,
        })
    };
    elicit(&mut run, 1, wanted("{}"));
    let left = until(&run).unwrap().since(run.state.due().unwrap());
    run.now += 500_000;
    let end = say(&mut run, Said::Once, Some(GO_ON));
    assert_eq!(told(&end), Some((1, Consent::Accepted, json!({}))));
    assert_eq!(until(&run).unwrap().since(run.state.at), left);
    sound(&run);
    // a question without an answer only ends itself
    elicit(&mut run, 2, wanted("{}"));
    let end = run.step(&Elapse);
    assert_eq!(told(&end), Some((2, Consent::Cancelled, json!({}))));
    assert_eq!(until(&run).unwrap().since(run.state.at), left - 10);
    sound(&run);
    let end = run.step(&Elapse);
    assert!(end.iter().any(|e| matches!(e.event, Event::Tool(Tool::Cancelled { .. }))));
    sound(&run);
}

#[test]
fn several_wait_for_each_other_and_end_with_the_call() {
    let mut run = running(&free(AskMode::Ask));
    elicit(&mut run, 1, wanted("{}"));
    elicit(&mut run, 2, Wanted::Visit { url: "https://pay.example".into() });
    assert_eq!(run.state.questions().len(), 1);
    let end = say(&mut run, Said::Once, Some(GO_ON));
    assert_eq!(told(&end), Some((1, Consent::Accepted, json!({}))));
    assert!(question(&run).1[0].ends_with("https://pay.example"));
    run.step(&Done("a", "never mind"));
    assert!(run.state.questions().is_empty());
    sound(&run);
}

#[test]
fn a_crash_ends_them_and_a_second_attempt_begins_without() {
    let mut run = Run::new(&free(AskMode::Ask));
    let steps = [Prompt("hi"), Call("a", "mcp"), Resolve("a", Class::Read, ("free", "x"), "")];
    steps.iter().for_each(|step| drop(run.step(step)));
    elicit(&mut run, 1, wanted("{}"));
    run.step(&Resume { close: false });
    assert!(run.state.questions().is_empty());
    let call = run.state.calls().next().unwrap();
    assert_eq!((call.attempt(), call.elicitations.len()), (2, 0));
    sound(&run);
}

#[test]
fn what_is_late_is_not_taken() {
    let mut run = running(&free(AskMode::Ask));
    let of = run_of(&run);
    elicit(&mut run, 1, wanted("{}"));
    let asked = question(&run).0;
    run.step(&Interrupt);
    let (from, message, wanted) = ("t".to_owned(), "?".to_owned(), wanted("{}"));
    let late = Tool::ElicitationRequested { elicitation: 2, from, message, wanted };
    assert!(!leftfold_events::admits(&run.state, &Fact::for_intent(of, late)));
    let (reply, feedback, by) = (Said::Once, None, "me".to_owned());
    let answered = Permission::Answered { reply, feedback, by };
    assert!(!leftfold_events::admits(&run.state, &Fact::for_intent(asked, answered)));
    assert!(!leftfold_events::admits(
        &run.state,
        &Fact::for_intent(asked, Session::DeadlinePassed {})
    ));
    sound(&run);
}

#[test]
fn words_are_understood_as_the_field_wants_them() {
    for (schema, words, expected) in [
        (json!({ "type": "boolean" }), "yes", Ok(json!(true))),
        (json!({ "type": "boolean" }), "perhaps", Err("one of these is expected: yes, no")),
        (json!({ "type": "number" }), "-1.5", Ok(json!(-1.5))),
        (json!({ "type": "number", "minimum": 0 }), "-1", Err("a number from 0 is expected")),
        (json!({ "type": "number" }), "NaN", Err("a number is expected")),
        (json!({ "type": "string", "minLength": 2 }), "ä", Err("a text of at least 2 characters")),
        (json!({ "type": "string" }), " words ", Ok(json!("words"))),
        (
            json!({ "type": "string", "oneOf": [{ "const": "r", "title": "Red, or so" }] }),
            "Red; or so",
            Ok(json!("r")),
        ),
        (
            json!({ "type": "array", "items": { "enum": ["a", "b"] }, "maxItems": 1 }),
            "a, b",
            Err("at most 1 of these are expected: a, b"),
        ),
        (
            json!({ "type": "array", "items": { "anyOf": [{ "const": "a", "title": "A" },
                                                          { "const": "b", "title": "B" }] } }),
            "B, A",
            Ok(json!(["b", "a"])),
        ),
    ] {
        let form = json!({ "properties": { "f": schema }, "required": ["f"] });
        let fields = form::fields("?", &wanted(&form.to_string())).unwrap();
        let understood = fields[0].understood(words);
        match expected {
            Ok(value) => assert_eq!(understood, Ok(Some(value)), "{schema} {words}"),
            Err(told) => {
                let error = understood.unwrap_err();
                assert!(error.starts_with(told), "{schema} {words}: {error}");
            }
        }
    }
}

#[test]
fn what_is_proposed_is_an_option() {
    let form = json!({ "properties": {
        "a": { "type": "integer", "default": 3 },
        "b": { "type": "boolean", "default": false },
        "c": { "type": "string", "format": "email", "description": "Where to" },
    } });
    let fields = form::fields("M", &wanted(&form.to_string())).unwrap();
    let options = |at: usize| -> Vec<(&str, &str)> {
        let options = fields[at].options.iter();
        options.map(|o| (o.label.as_str(), o.description.as_str())).collect()
    };
    assert_eq!(options(0), [("3", "proposed"), (LEFT_OUT, "")]);
    assert_eq!(options(1), [("yes", ""), ("no", "proposed"), (LEFT_OUT, "")]);
    assert_eq!(fields[0].understood("3"), Ok(Some(json!(3))));
    assert_eq!(fields[2].question, "M\nc: Where to (an e-mail address)");
    let many: Value = (0..51).map(|n| (n.to_string(), json!({ "type": "string" }))).collect();
    let error = form::fields("?", &wanted(&json!({ "properties": many }).to_string()));
    assert!(error.unwrap_err().contains("51 fields"));
}
