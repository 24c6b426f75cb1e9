//! Messages that start no turn, and prompts to which a client gives an id.

use crate::common::*;
use leftfold_events::event::{Event, Finish, Model, PromptPart, Turn};
use leftfold_events::{Envelope, Fact, Notes, admits, fold, request_builder, verify};

fn noted(text: &str) -> Fact {
    Fact::new(Turn::Noted { parts: vec![PromptPart::text(text)], by: "socket".into() })
}

fn with_id(fact: Fact, id: &str) -> Fact {
    fact.with_notes(Notes::of_client(Some(id.into()), None).expect("a short id"))
}

fn requests(log: &[Envelope]) -> usize {
    let asks = |e: &&Envelope| matches!(e.event, Event::Model(Model::Requested { .. }));
    log.iter().filter(asks).count()
}

#[test]
fn the_next_request_has_a_message_that_starts_no_turn() {
    let mut config = config();
    config.options.title_prompt = "Name it.".into();
    let mut run = Run::new(&config);
    assert_eq!(run.tell(noted("by the way")).len(), 1, "nothing is decided from it");
    assert!(run.state.turn.is_none());
    run.step(&Prompt("hi"));
    let request = serde_json::to_string(&request_builder::request(&run.state)).expect("JSON");
    assert!(request.contains("by the way") && request.contains("hi"), "{request}");
    let title = serde_json::to_string(&request_builder::title_request(&run.state)).expect("JSON");
    assert!(title.contains("hi") && !title.contains("by the way"), "{title}");
    assert_eq!((verify(&run.log), fold(&run.log)), (vec![], run.state));
}

#[test]
fn a_turn_asks_for_no_answer_to_it() {
    let mut run = Run::new(&config());
    run.step(&Prompt("hi"));
    run.step(&Text("Hello."));
    assert_eq!(run.tell(noted("by the way")).len(), 1);
    run.step(&Reply(Finish::Stop));
    assert!(run.state.turn.is_none(), "the turn has ended");
    assert_eq!(requests(&run.log), 1);
    // a prompt at that place is answered
    let mut run = Run::new(&config());
    run.step(&Prompt("hi"));
    run.step(&Text("Hello."));
    run.step(&Prompt("and you"));
    run.step(&Reply(Finish::Stop));
    assert_eq!(requests(&run.log), 2);
    assert_eq!(verify(&run.log), []);
}

#[test]
fn the_id_of_a_prompt_counts_once() {
    let mut run = Run::new(&config());
    run.tell(with_id(noted("by the way"), "one"));
    let repeated = with_id(noted("by the way"), "one");
    assert_eq!(run.state.repeated_prompt(&repeated), Some(run.state.seq));
    assert!(!admits(&run.state, &repeated));
    let other = with_id(noted("by the way"), "two");
    assert!(admits(&run.state, &other) && admits(&run.state, &noted("by the way")));
    assert_eq!(fold(&run.log), run.state);
    run.step(&ResumeImported { close: true });
    assert!(admits(&run.state, &repeated), "an import claims no ids");
}
