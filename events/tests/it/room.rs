//! Running out of the model's context, and making room.

use crate::common::*;
use leftfold_events::event::{Class, FailureClass, Finish, Model, Turn, Usage};
use leftfold_events::turn_config::Limit;
use leftfold_events::{Fact, POLICY, Sha256, TurnConfig};

#[test]
fn a_request_that_did_not_fit_is_asked_again_as_the_same_step() {
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Unresolved("a"),
        Fail(FailureClass::Overflow, false),
        Summary("so far"),
    ];
    check(&given, &["model.requested 2.2"]);
}

#[test]
fn a_full_context_is_summarised_and_the_turn_goes_on() {
    let full = [Prompt("hi"), Call("a", "read"), Full(9_500)];
    check(&full, &[]);
    let compacting = [&full[..], &[Resolve("a", Class::Read, READ, ""), Done("a", "ok")]].concat();
    check(&compacting, &["compaction.started", "model.requested 1.1"]);
    check(&[&compacting[..], &[Summary("so far")]].concat(), &["model.requested 2.1"]);
    check(&[&compacting[..], &[NoSummary]].concat(), &["turn.ended error"]);
    check(&[&compacting[..], &[Elapse]].concat(), &["model.retry_scheduled 1"]);
    check(&[&compacting[..], &[Interrupt]].concat(), &["turn.ended aborted"]);
    let crashed = [&compacting[..], &[Resume { close: false }]].concat();
    check(&crashed, &["model.requested 1.2"]);
}

#[test]
fn cached_tokens_fill_the_context_too() {
    for (cache_read, cache_write, then) in [
        (9_000, 0, &["compaction.started", "model.requested 0.1"][..]),
        (0, 9_000, &["compaction.started", "model.requested 0.1"]),
        (4_000, 4_000, &["model.requested 1.1"]),
    ] {
        let mut run = Run::new(&config());
        run.step(&Prompt("hi"));
        let request = run.state.open().first().map_or(0, |(_, wait)| wait.intent);
        let usage = Usage { input: 500, cache_read, cache_write, ..Usage::default() };
        let (finish, body_sha256) = (Finish::Stop, Sha256::default());
        run.tell(Fact::for_intent(
            request,
            Model::Finished { finish, usage, cost: 0.0, body_sha256 },
        ));
        let intents = run.step(&Prompt("more"));
        let intents: Vec<_> =
            intents.iter().filter(|event| event.event.is_intent()).map(describe).collect();
        assert_eq!(intents, then, "{usage:?}");
    }
}

/// With a limit of the input, `reserved` or 20,000 at most is kept free of it; else the
/// output, or `reserved` if that is more, is kept free of the context.
#[test]
fn the_room_for_the_history_follows_from_the_limits() {
    for (context, input, output, max_output, reserved, usable) in [
        (200_000, 0, 64_000, 32_000, None, Some(168_000)),
        (200_000, 0, 8_000, 32_000, None, Some(192_000)),
        (200_000, 0, 8_000, 32_000, Some(50_000), Some(150_000)),
        (200_000, 0, 64_000, 32_000, Some(1_000), Some(168_000)),
        (400_000, 272_000, 128_000, 32_000, None, Some(252_000)),
        (400_000, 272_000, 8_000, 32_000, None, Some(264_000)),
        (400_000, 272_000, 128_000, 32_000, Some(50_000), Some(222_000)),
        (8_000, 0, 8_000, 32_000, None, Some(0)),
        (0, 0, 64_000, 32_000, None, None),
    ] {
        let mut config = config();
        config.model.limit = Limit { context, input, output };
        (config.options.max_output, config.options.reserved) = (max_output, reserved);
        let found = Run::new(&config).state.usable();
        assert_eq!(found, usable, "{context} {input} {output} {max_output} {reserved:?}");
    }
}

#[test]
fn a_prompt_that_no_model_has_seen_outlives_the_summary() {
    let mut run = Run::new(&config());
    for step in [Prompt("first"), Full(9_500), Prompt("second"), Summary("so far")] {
        run.step(&step);
    }
    let request = leftfold_events::request_builder::request(&run.state);
    let text = serde_json::to_string(&request.messages).expect("json");
    assert!(
        !text.contains("first") && text.contains("so far") && text.contains("second"),
        "{text}"
    );
    assert_prefixes_valid(&run.log);
}

#[test]
fn overflow_that_nothing_helps_ends_the_turn_with_a_reason() {
    let ended = |config: &TurnConfig, given: &[Step]| {
        let mut run = Run::new(config);
        given.iter().for_each(|step| {
            run.step(step);
        });
        run.state.ended.and_then(|ended| ended.error).unwrap_or_default()
    };
    let overflow = Fail(FailureClass::Overflow, false);
    assert!(ended(&config(), &[Prompt("long"), overflow.clone()]).contains("shorter"));
    let mut off = config();
    off.options.compact = false;
    let full = [Prompt("a"), Full(9_500), Prompt("b")];
    let refused = [&full[..], &[overflow]].concat();
    assert!(ended(&off, &refused).contains("compaction is off"));
    let mut given = full.to_vec();
    for _ in 0..3 {
        given.extend([Summary("s"), Call("c", "x"), Full(9_500), Unresolved("c")]);
    }
    assert!(ended(&config(), &given).contains("leave no room"));
}

/// Without compaction the provider decides what is too long, so the session can still be prompted.
#[test]
fn a_full_context_is_sent_if_it_may_not_be_summarised() {
    let mut off = config();
    off.options.compact = false;
    let full = [Prompt("a"), Full(9_500), Prompt("b")];
    check_with(&off, &full, &["model.requested 1.1"]);
    let called = [Prompt("a"), Call("c", "x"), Unresolved("c"), Full(9_500)];
    check_with(&off, &called, &["model.requested 2.1"]);
    let refused = [&full[..], &[Fail(FailureClass::Overflow, false), Prompt("c")]].concat();
    check_with(&off, &refused, &["model.requested 1.1"]);
    let mut earlier = Run::new(&off);
    earlier.state.policy = 4;
    full.iter().for_each(|step| {
        earlier.step(step);
    });
    assert!(earlier.state.turn.is_none());
}

/// The size of the context is that of the last finished reply. One that was cut off has none.
#[test]
fn a_reply_that_was_cut_off_does_not_hide_a_full_context() {
    let mut off = config();
    off.options.compact = false;
    let cut = [Prompt("a"), Full(9_500), Prompt("b"), Text("I wi"), Interrupt];
    for (policy, then) in [
        (POLICY, &["compaction.started", "model.requested 0.1"][..]),
        (5, &["model.requested 1.1"]),
    ] {
        let mut run = Run::new(&off);
        run.state.policy = policy;
        cut.iter().for_each(|step| drop(run.step(step)));
        run.tell(Fact::new(Turn::Configured(config().payloads())));
        let intents = run.step(&Prompt("c"));
        let intents: Vec<_> =
            intents.iter().filter(|event| event.event.is_intent()).map(describe).collect();
        assert_eq!(intents, then, "policy {policy}");
    }
}
