//! Clients' choices for the prompts of a session.

use crate::common::*;
use leftfold_events::event::{Event, Finish, ModelRef, Session, SessionChoices, Turn};
use leftfold_events::{Fact, State, fold, settle, verify};

fn chosen(agent: Option<&str>, variant: Option<&str>) -> SessionChoices {
    let model = ModelRef { provider: "p".into(), id: "m".into() };
    let (agent, variant) = (agent.map(str::to_owned), variant.map(str::to_owned));
    SessionChoices { agent, model: Some(model), variant }
}

fn configured(choices: &SessionChoices) -> Fact {
    Fact::new(Session::Configured { choices: choices.clone(), by: "acp".into() })
}

#[test]
fn the_last_choice_holds_until_another_one() {
    let mut run = Run::new(&config());
    assert!(run.state.choices.is_empty());
    let rendered = serde_json::to_value(&run.state).expect("JSON");
    assert_eq!(rendered.get("choices"), None, "states without a choice are as they ever were");
    let (plan, high) = (chosen(Some("plan"), None), chosen(None, Some("high")));
    for choices in [&plan, &high, &SessionChoices::default(), &plan] {
        let batch = run.tell(configured(choices));
        assert_eq!((batch.len(), &run.state.choices), (1, choices), "nothing is decided from it");
        assert!(
            !leftfold_events::admits(&run.state, &configured(choices)),
            "the same once more is no news"
        );
    }
    // also in the middle of a turn, which it does not change
    run.step(&Prompt("hi"));
    let config = run.state.config.clone();
    assert_eq!(run.tell(configured(&high)).len(), 1);
    assert_eq!((&run.state.config, run.state.agent.as_str()), (&config, "build"));
    run.step(&Text("Hello."));
    run.step(&Reply(Finish::Stop));
    assert_eq!(run.state.choices, high);
    assert_eq!((verify(&run.log), fold(&run.log)), (vec![], run.state));
}

#[test]
fn a_fork_has_the_choice_that_it_shares_and_a_new_session_none() {
    let mut run = Run::new(&config());
    let plan = chosen(Some("plan"), None);
    run.tell(configured(&plan));
    run.step(&Prompt("hi"));
    let (from, at) = (run.state.session, run.state.seq);
    let (session, now) = (from.child(at, run.state.at), run.state.at);
    settle(&mut run.state, session, Fact::new(Session::Forked { from, at }), now);
    assert_eq!(run.state.choices, plan);
    assert!(
        !leftfold_events::admits(&State::default(), &configured(&plan)),
        "there is no session yet"
    );
}

#[test]
fn whoever_takes_over_within_a_turn_takes_the_next_prompts() {
    for (before, after) in [(Some("plan"), Some("build")), (None, None)] {
        let mut run = Run::new(&config_of("build"));
        run.tell(configured(&chosen(before, Some("high"))));
        let given = [
            Equip("plan"),
            Prompt("plan it"),
            Call("a", "plan_exit"),
            Exit("a"),
            Reply(Finish::ToolCalls),
            Answer("a", leftfold_events::event::Answer::Once, None),
            Equip("build"),
            Done("a", "yes"),
        ];
        given.iter().for_each(|step| drop(run.step(step)));
        let switched =
            |e: &leftfold_events::Envelope| matches!(e.event, Event::Turn(Turn::Switched { .. }));
        assert!(run.log.iter().any(switched), "{:?}", run.log.last());
        assert_eq!(run.state.choices, chosen(after, Some("high")));
    }
}
