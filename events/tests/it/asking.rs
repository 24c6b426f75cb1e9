//! Questions to the user, which work like permission questions: an answer is an answer, a rejection
//! dismisses.

use crate::common::*;
use leftfold_events::TurnConfig;
use leftfold_events::event::{Answer as Reply_, Class, Finish};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::AskMode;

const ASKED: [Step; 4] = [
    Prompt("hi"),
    Call("a", "question"),
    Reply(Finish::ToolCalls),
    Resolve("a", Class::Ask, ("question", "Which one?"), ""),
];

fn with(ask: AskMode, action: Action) -> TurnConfig {
    let mut config = config();
    config.options.ask = ask;
    config.rules.push(Rule::new("question", "*", action));
    config
}

#[test]
fn a_question_is_put_however_permissive_the_rules() {
    let asks = ["permission.ruled a ask", "permission.asked a"];
    let denied = ["permission.ruled a deny", "model.requested 2.1"];
    check_with(&with(AskMode::Ask, Action::Allow), &ASKED, &asks);
    check_with(&with(AskMode::Ask, Action::Ask), &ASKED, &asks);
    check_with(&with(AskMode::Ask, Action::Deny), &ASKED, &denied);
    check_with(&with(AskMode::Deny, Action::Allow), &ASKED, &denied);
    check_with(&with(AskMode::Allow, Action::Allow), &ASKED, &denied);
}

#[test]
fn the_answer_reaches_the_tool_and_dismissal_ends_the_turn() {
    let config = with(AskMode::Ask, Action::Allow);
    let answered = [&ASKED[..], &[Answer("a", Reply_::Once, Some("the first"))]].concat();
    check_with(&config, &answered, &["tool.started a 1"]);
    let mut run = Run::new(&config);
    answered.iter().for_each(|step| {
        run.step(step);
    });
    let call = run.state.calls().next().expect("the call");
    assert_eq!(call.answers, ["the first"]);
    let dismissed = [&ASKED[..], &[Answer("a", Reply_::Reject, None)]].concat();
    check_with(&config, &dismissed, &["turn.ended blocked"]);
    check_with(&config, &[&ASKED[..], &[Elapse]].concat(), &["model.requested 2.1"]);
}
