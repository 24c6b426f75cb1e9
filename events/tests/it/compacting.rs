//! Summaries that are requested, fail, or do not fit.

use crate::common::*;
use leftfold_events::event::{CallKind, Class, Compaction, FailureClass::*, Finish, Tool};
use leftfold_events::event::{Event, Model, Purpose};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::{Limit, ModelSpec, Tail};
use leftfold_events::{Envelope, Fact, Json, Request, event::PromptPart, request_builder};

/// A turn whose summary is being written.
fn compacting() -> Vec<Step> {
    vec![
        Prompt("hi"),
        Call("a", "read"),
        Full(9_500),
        Resolve("a", Class::Read, READ, ""),
        Done("a", "ok"),
    ]
}

fn then(more: &[Step], intents: &[&str]) {
    check(&[&compacting()[..], more].concat(), intents);
}

fn text(request: &Request) -> String {
    serde_json::to_string(&request.messages).unwrap_or_default()
}

fn after(given: &[Step]) -> Run {
    let mut run = Run::new(&config());
    given.iter().for_each(|step| {
        run.step(step);
    });
    run
}

#[test]
fn a_summary_is_tried_again_like_any_request() {
    then(&[Fail(Overloaded, true)], &["model.retry_scheduled 1"]);
    let again = [Fail(Overloaded, true), Elapse];
    then(&again, &["model.requested 1.2"]);
    then(&[&again[..], &[Summary("s")]].concat(), &["model.requested 2.1"]);
    let twice = [&again[..], &again[..]].concat();
    then(&twice, &["model.requested 1.3"]);
    then(&[&twice[..], &[Fail(Overloaded, true)]].concat(), &["turn.ended error"]);
    then(&[Fail(Auth, false)], &["turn.ended error"]);
    then(&[Fail(Network, true), Interrupt], &["turn.ended aborted"]);
    then(&[Fail(Network, true), Resume { close: false }], &[]);
    then(&[Fail(Network, true), Resume { close: false }, Elapse], &["model.requested 1.2"]);
}

#[test]
fn a_summary_that_does_not_fit_is_asked_once_more_in_brief() {
    then(&[Fail(Overflow, false)], &["model.requested 1.2"]);
    then(&[Fail(Overflow, true), Fail(Overflow, true)], &["turn.ended error"]);
    then(&[Fail(Overflow, false), Summary("s")], &["model.requested 2.1"]);
}

#[test]
fn a_summary_that_was_cut_off_is_asked_once_more_and_never_taken() {
    for finish in [Finish::Length, Finish::ContentFilter, Finish::Error, Finish::Other] {
        let cut = CutSummary(finish);
        then(std::slice::from_ref(&cut), &["model.requested 1.2"]);
        then(&[cut.clone(), Summary("s")], &["model.requested 2.1"]);
        then(&[cut.clone(), cut.clone()], &["turn.ended error"]);
        // each fault has its own second request
        then(&[cut.clone(), Fail(Overflow, false)], &["model.requested 1.3"]);
        then(&[cut.clone(), Fail(Overloaded, true)], &["model.retry_scheduled 2"]);
        then(&[cut.clone(), Fail(Auth, false)], &["turn.ended error"]);
        then(&[cut.clone(), Resume { close: false }], &["model.requested 1.3"]);
        // without a summary that a person has asked for, the turn goes on
        let answered = [Prompt("hi"), Compact, Text("so"), Reply(Finish::Stop)];
        let ended = after(&[&answered[..], &[cut.clone(), cut.clone()]].concat()).state.ended;
        assert_eq!(ended.map(|ended| (ended.text, ended.error)), Some(("so".into(), None)));
    }
    let error = after(
        &[&compacting()[..], &[CutSummary(Finish::Length), CutSummary(Finish::Length)]].concat(),
    );
    let error = error.state.ended.and_then(|ended| ended.error).expect("an error");
    assert_eq!(error, "the summary failed: the output limit has cut it off (after 2 attempts)");
    // the second request names the limit
    let told = |steps: &[Step]| {
        let run = after(steps);
        let turn = run.state.turn.as_ref().expect("a turn");
        text(&request_builder::summary_request(&run.state, turn.compacting().expect("compacting")))
    };
    let cut = [&compacting()[..], &[CutSummary(Finish::Length)]].concat();
    assert!(told(&cut).contains("at most 250 words") && !told(&compacting()).contains("at most"));
    // servers that never name an end, and earlier policies
    let mut config = config();
    config.options.any_finish = true;
    let mut run = Run::new(&config);
    for step in [&compacting()[..], &[CutSummary(Finish::Other)]].concat() {
        run.step(&step);
    }
    assert!(run.state.open().iter().any(|(kind, _)| *kind == PendingKind::Compaction));
}

#[test]
fn a_model_of_its_own_writes_the_summary_with_options_of_its_own() {
    let mut config = config();
    let limit = Limit { output: 77, ..Limit::default() };
    let other = ModelSpec { provider: "q".into(), id: "s".into(), limit, ..ModelSpec::default() };
    config.options.summary_model = Some(other.clone());
    config.options.summary_request = Json::parse(r#"{"a":1}"#).ok();
    let mut run = Run::new(&config);
    compacting().iter().for_each(|step| drop(run.step(step)));
    let turn = run.state.turn.clone().expect("a turn");
    let request =
        request_builder::summary_request(&run.state, turn.compacting().expect("compacting"));
    assert_eq!((request.model, request.max_output), (other.name(), 77));
    assert_eq!(request.options.as_str(), r#"{"a":1}"#);
    // the turn itself continues as before
    let request = request_builder::request(&run.state);
    assert_eq!((request.model, request.options), (config.model.name(), config.options.request));
}

#[test]
fn a_summary_that_fails_leaves_the_conversation_as_it_was() {
    let mut run = after(&compacting());
    let before = run.state.messages.clone();
    run.step(&Fail(Auth, false));
    assert_eq!(run.state.messages, before);
}

#[test]
fn the_request_for_a_summary_holds_the_whole_conversation() {
    let given = [Prompt("first"), Text("an answer"), Reply(Finish::Stop), Compact];
    let mut run = after(&given);
    let compacting = |run: &Run| {
        let turn = run.state.turn.as_ref().expect("a turn");
        request_builder::summary_request(&run.state, turn.compacting().expect("compacting"))
    };
    let request = compacting(&run);
    assert!(request.tools.is_empty());
    let told = text(&request);
    assert!(["first", "an answer", "Summarise."].iter().all(|part| told.contains(part)), "{told}");
    for step in [Summary("so far"), Prompt("second"), Text("b"), Reply(Finish::Stop), Compact] {
        run.step(&step);
    }
    let told = text(&compacting(&run));
    assert!(
        told.contains("so far") && told.contains("second") && !told.contains("first"),
        "{told}"
    );
}

#[test]
fn only_a_model_with_nothing_else_to_answer_is_told_to_go_on() {
    let goes_on =
        |given: &[Step]| text(&request_builder::request(&after(given).state)).contains("Go on");
    let summed = [&compacting()[..], &[Summary("s")]].concat();
    assert!(goes_on(&summed));
    let answered = [Prompt("hi"), Reply(Finish::Stop), Compact, Summary("s")];
    assert!(!goes_on(&[&answered[..], &[Prompt("next")]].concat()));
    assert!(!goes_on(&[Prompt("a"), Full(9_500), Prompt("b"), Summary("s")]));
}

/// A summary loses details, so the prompt that the turn works on stays as it was written, but for its files.
#[test]
fn the_running_prompt_stays_as_it_was_written() {
    let file = PromptPart { name: Some("a.txt".into()), ..PromptPart::text("<file>much</file>") };
    let mut run = after(&[Prompt("before"), Text("yes"), Reply(Finish::Stop)]);
    run.tell(prompted(vec![PromptPart::text("use port 4711"), file]));
    for step in [Call("a", "x"), Full(9_500), Unresolved("a")] {
        run.step(&step);
    }
    run.step(&Summary("so far"));
    let told = text(&request_builder::request(&run.state));
    for there in ["so far", "use port 4711", "a.txt was attached here", "Go on"] {
        assert!(told.contains(there), "{there}: {told}");
    }
    for gone in ["before", "much"] {
        assert!(!told.contains(gone), "{gone}: {told}");
    }
    assert_prefixes_valid(&run.log);
    // what is longer than many summaries is cut
    let mut run = after(&[]);
    run.tell(prompted(vec![PromptPart::text("x".repeat(30_000))]));
    for step in [Call("a", "x"), Full(9_500), Unresolved("a"), Summary("so far")] {
        run.step(&step);
    }
    let told = text(&request_builder::request(&run.state));
    assert!((20_000..21_000).contains(&told.matches('x').count()));
}

#[test]
fn a_summary_that_is_asked_for_has_a_turn_of_its_own() {
    check(&[Compact], &[]);
    check(&[Prompt("hi"), Fail(Auth, false), Compact], &[]);
    let asked = [Prompt("hi"), Text("so"), Reply(Finish::Stop), Compact];
    check(&asked, &["compaction.started", "model.requested 0.1"]);
    check(&[&asked[..], &[Summary("s")]].concat(), &["turn.ended completed"]);
    check(&[&asked[..], &[Summary("s"), Compact]].concat(), &[]);
    check(&[&asked[..], &[Compact]].concat(), &[]);
    check(&[&asked[..], &[Fail(Auth, false)]].concat(), &["turn.ended error"]);
    check(&[&asked[..], &[NoSummary]].concat(), &["turn.ended error"]);
    check(&[&asked[..], &[Interrupt]].concat(), &["turn.ended aborted"]);
    check(&[&asked[..], &[Prompt("more"), Summary("s")]].concat(), &["model.requested 1.1"]);
}

#[test]
fn a_summary_that_is_asked_for_during_a_turn_waits_for_a_gap_and_costs_no_answer() {
    let asked = [Prompt("hi"), Compact];
    check(&asked, &[]);
    let answered = [&asked[..], &[Text("so"), Reply(Finish::Stop)]].concat();
    check(&answered, &["compaction.started", "model.requested 1.1"]);
    for end in [Summary("s"), NoSummary, Fail(Auth, false)] {
        let run = after(&[&answered[..], &[end]].concat());
        let ended = run.state.ended.expect("ended");
        assert_eq!((ended.text.as_str(), ended.error), ("so", None));
    }
    let called =
        [&asked[..], &[Call("a", "x"), Reply(Finish::ToolCalls), Unresolved("a")]].concat();
    check(&called, &["compaction.started", "model.requested 1.1"]);
    check(&[&called[..], &[Summary("s")]].concat(), &["model.requested 2.1"]);
    check(&[&called[..], &[Fail(Auth, false)]].concat(), &["model.requested 2.1"]);
}

#[test]
fn a_prompt_that_was_too_large_is_sent_again_in_words() {
    use leftfold_events::Fact;
    use leftfold_events::event::{ModelRef, PromptKind, Turn};
    let mut run = after(&[Prompt("hi"), Reply(Finish::Stop)]);
    let image = PromptPart {
        kind: PromptKind::Media,
        text: "aW1hZ2U=".into(),
        mime: Some("image/png".into()),
        name: Some("shot.png".into()),
    };
    run.tell(Fact::new(Turn::Prompted {
        parts: vec![PromptPart::text("look"), image],
        agent: "build".into(),
        model: ModelRef { provider: "p".into(), id: "m".into() },
        by: "test".into(),
    }));
    assert!(text(&request_builder::request(&run.state)).contains("aW1hZ2U="));
    run.step(&Fail(Overflow, false));
    run.step(&Summary("so far"));
    let told = text(&request_builder::request(&run.state));
    assert!(told.contains("look") && told.contains("image/png shot.png"), "{told}");
    assert!(!told.contains("aW1hZ2U="), "{told}");
    assert_prefixes_valid(&run.log);
}

#[test]
fn old_tool_output_is_cleared_at_the_end_of_a_turn() {
    let read = |tokens: usize| -> Vec<Step> {
        let output: &'static str = "abcd".repeat(tokens).leak();
        let call = [Prompt("go"), Call("a", "read"), Resolve("a", Class::Read, READ, "")];
        [&call[..], &[Done("a", output), Reply(Finish::ToolCalls), Reply(Finish::Stop)]].concat()
    };
    let turns = |sizes: &[usize]| sizes.iter().flat_map(|size| read(*size)).collect::<Vec<_>>();
    // three old turns that count, and two that are always kept
    check(&turns(&[21_000, 40_000, 0, 90_000]), &["compaction.pruned", "turn.ended completed"]);
    check(&turns(&[20_000, 40_000, 0, 90_000]), &["turn.ended completed"]);
    check(&turns(&[90_000, 90_000]), &["turn.ended completed"]);
    let mut off = config();
    off.options.prune = false;
    check_with(&off, &turns(&[21_000, 40_000, 0, 90_000]), &["turn.ended completed"]);
    // cleared output is not cleared again
    check(&turns(&[21_000, 40_000, 0, 0, 0]), &["turn.ended completed"]);
    let run = after(&turns(&[21_000, 40_000, 0, 0]));
    let told = text(&request_builder::request(&run.state));
    assert_eq!(told.matches("[Old tool result content cleared]").count(), 1);
}

/// The texts of the conversation after two finished turns and a summary, with this tail.
fn with_tail(tail: Option<Tail>, steps: &[Step]) -> Run {
    let mut config = config();
    config.options.tail = tail;
    let mut run = Run::new(&config);
    for step in steps {
        run.step(step);
    }
    run
}

const TWO_TURNS: [Step; 7] = [
    Prompt("alpha"),
    Text("beta"),
    Reply(Finish::Stop),
    Prompt("gamma"),
    Text("delta"),
    Reply(Finish::Stop),
    Compact,
];

#[test]
fn the_latest_turns_stay_out_of_the_summary() {
    let of = |turns, tokens| Some(Tail { turns, tokens });
    for (tail, kept) in [
        (None, &[][..]),
        (of(Some(1), None), &["gamma", "delta"]),
        // something is left to summarise
        (of(Some(2), None), &["gamma", "delta"]),
        (of(Some(1), Some(2)), &["gamma", "delta"]),
        (of(None, Some(2)), &["gamma", "delta"]),
        // without room for the prompt
        (of(None, Some(1)), &["delta"]),
        (of(None, Some(0)), &[]),
    ] {
        let mut run = with_tail(tail, &TWO_TURNS);
        let turn = run.state.turn.clone().expect("a turn");
        let asked =
            text(&request_builder::summary_request(&run.state, turn.compacting().expect("it")));
        run.step(&Summary("so far"));
        let after = text(&request_builder::request(&run.state));
        for word in ["alpha", "beta", "gamma", "delta"] {
            let stays = kept.contains(&word);
            assert_eq!(asked.contains(word), !stays, "{tail:?} {word}: {asked}");
            assert_eq!(
                run.state.messages.iter().any(|message| format!("{message:?}").contains(word)),
                stays,
                "{tail:?} {word}: {after}"
            );
        }
        assert!(after.contains("so far"), "{after}");
    }
}

#[test]
fn a_full_turn_goes_on_from_its_last_replies() {
    let tail = Some(Tail { turns: Some(1), tokens: None });
    let read = |id, output| {
        [
            Call(id, "read"),
            Reply(Finish::ToolCalls),
            Resolve(id, Class::Read, READ, ""),
            Done(id, output),
        ]
    };
    let mut steps = vec![Prompt("hi")];
    steps.extend(read("a", "old output"));
    steps.extend([
        Call("b", "read"),
        Full(9_500),
        Resolve("b", Class::Read, READ, ""),
        Done("b", "new output"),
    ]);
    let mut run = with_tail(tail, &steps);
    let made = run.step(&Summary("so far"));
    let asks = |event: &&Envelope| matches!(event.event, Event::Model(Model::Requested { .. }));
    assert_eq!(made.iter().filter(asks).count(), 1);
    let told = text(&request_builder::request(&run.state));
    assert!(told.contains("so far") && told.contains("new output"), "{told}");
    assert!(!told.contains("old output") && !told.contains("next steps"), "{told}");
    assert!(!run.state.overflows());
    // a tail that leaves too little room is not kept again
    for step in [
        Call("c", "read"),
        Full(9_500),
        Resolve("c", Class::Read, READ, ""),
        Done("c", "newest output"),
        Summary("all of it"),
    ] {
        run.step(&step);
    }
    let told = text(&request_builder::request(&run.state));
    assert!(told.contains("all of it") && !told.contains("output"), "{told}");
}

#[test]
fn skills_are_never_cleared_and_nothing_before_a_summary_is() {
    let big: &'static str = "abcd".repeat(90_000).leak();
    let turn = |kind: CallKind| {
        move |run: &mut Run| {
            for step in [Prompt("go"), Think(Some("sig")), Call("a", "x")] {
                run.step(&step);
            }
            let mut resolved = resolution("a", Class::Read, READ, "");
            resolved.kind = kind.clone();
            let open = run.state.open();
            let check = open.iter().find(|(kind, _)| *kind == PendingKind::Check).unwrap().1.intent;
            run.tell(Fact::for_intent(check, Tool::Resolved(Box::new(resolved))));
            for step in [Done("a", big), Reply(Finish::ToolCalls), Reply(Finish::Stop)] {
                run.step(&step);
            }
        }
    };
    let cleared = |run: &Run| run.log.iter().filter(|e| describe(e) == "compaction.pruned").count();
    for (kind, expected) in [(CallKind::Plain, 1), (CallKind::Lasting, 0)] {
        let mut run = Run::new(&config());
        (0..3).for_each(|_| turn(kind.clone())(&mut run));
        assert_eq!(cleared(&run), expected, "{kind:?}");
        // the reasoning of a reply outlives the output of its call
        let request = request_builder::request(&run.state);
        assert_eq!(text(&request).matches(r#""signature":"sig""#).count(), 3, "{kind:?}");
    }
    let mut run = Run::new(&config());
    (0..2).for_each(|_| turn(CallKind::Plain)(&mut run));
    run.step(&Compact);
    run.step(&Summary("so far"));
    (0..2).for_each(|_| turn(CallKind::Plain)(&mut run));
    assert_eq!(cleared(&run), 0, "only a summary is older than the last two turns");
}

#[test]
fn the_request_for_a_summary_has_the_instructions_of_the_person() {
    let instructions =
        |run: &Run| text(&request_builder::asked(&run.state, Purpose::Compaction).request);
    let answered = [Prompt("hi"), Text("so"), Reply(Finish::Stop)];
    for (given, expected) in [(Some("Keep the numbers."), true), (Some("  "), false), (None, false)]
    {
        let mut run = after(&answered);
        run.tell(Fact::new(Compaction::asked("me", given)));
        let said = "The user has asked for this summary and says about it:\\n\\nKeep the numbers.";
        assert_eq!(instructions(&run).contains(said), expected, "{given:?}");
        // and again after a failure
        run.step(&Fail(Overloaded, true));
        run.step(&Elapse);
        assert_eq!(instructions(&run).contains(said), expected, "{given:?}");
        run.step(&Summary("s"));
        // the next one has none
        for step in [Prompt("more"), Text("so"), Reply(Finish::Stop), Compact] {
            run.step(&step);
        }
        assert!(!instructions(&run).contains("Keep the numbers"), "{given:?}");
    }
}
