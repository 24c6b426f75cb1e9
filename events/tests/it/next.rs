//! The policy as tables: the steps, and the intents that follow.

use crate::common::*;
use base64::Engine as _;
use leftfold_events::event::{
    Answer::*, Attachment, Class, Event, FailureClass::*, Finish, Model, PromptKind, PromptPart,
    Tool, Turn,
};
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Fact, Request, Seq, TurnConfig, request_builder};

#[test]
fn a_prompt_is_asked_and_an_answer_ends_the_turn() {
    check(&[Prompt("hi")], &["model.requested 1.1"]);
    check(&[Prompt("hi"), Text("a")], &[]);
    check(&[Prompt("hi"), Text("a"), Reply(Finish::Stop)], &["turn.ended completed"]);
    check(&[Prompt("hi"), Reply(Finish::Stop), Prompt("more")], &["model.requested 1.1"]);
}

#[test]
fn a_prompt_during_a_turn_reaches_the_model_at_the_next_step() {
    check(&[Prompt("hi"), Prompt("and")], &[]);
    check(&[Prompt("hi"), Prompt("and"), Reply(Finish::Stop)], &["model.requested 2.1"]);
    check(
        &[Prompt("hi"), Prompt("and"), Reply(Finish::Stop), Reply(Finish::Stop)],
        &["turn.ended completed"],
    );
}

#[test]
fn a_call_is_checked_ruled_started_and_answered() {
    let called = [Prompt("hi"), Call("a", "read")];
    check(&called, &["tool.resolve_started a"]);
    let mut given = called.to_vec();
    given.push(Resolve("a", Class::Read, READ, "/p/x"));
    check(&given, &["permission.ruled a allow", "tool.started a 1"]);
    given.push(Reply(Finish::ToolCalls));
    check(&given, &[]);
    given.push(Done("a", "ok"));
    check(&given, &["model.requested 2.1"]);
    given.extend([Text("done"), Reply(Finish::Stop)]);
    check(&given, &["turn.ended completed"]);
}

#[test]
fn the_next_step_waits_for_reply_and_calls_whichever_comes_last() {
    let given =
        [Prompt("hi"), Call("a", "read"), Resolve("a", Class::Read, READ, "/p/x"), Done("a", "ok")];
    check(&given, &[]);
    check(&[&given[..], &[Reply(Finish::ToolCalls)]].concat(), &["model.requested 2.1"]);
}

#[test]
fn a_call_that_can_not_run_is_answered_at_once() {
    let given = [Prompt("hi"), Call("a", "read"), Unresolved("a"), Reply(Finish::ToolCalls)];
    check(&given, &["model.requested 2.1"]);
    let denied = [
        Prompt("hi"),
        Call("a", "x"),
        Reply(Finish::ToolCalls),
        Resolve("a", Class::Command, ("never", "x"), ""),
    ];
    check(&denied, &["permission.ruled a deny", "model.requested 2.1"]);
}

#[test]
fn calls_run_at_once_but_writers_of_one_path_take_turns() {
    let two = [Prompt("hi"), Call("a", "w"), Call("b", "w")];
    let edit = |id, path| Resolve(id, Class::Write, ("edit", "x"), path);
    let given = [&two[..], &[edit("a", "/p/x"), edit("b", "/p/x")]].concat();
    check(&given, &["permission.ruled b allow"]);
    check(&[&given[..], &[Done("a", "ok")]].concat(), &["tool.started b 1"]);
    let apart = [&two[..], &[edit("a", "/p/x"), edit("b", "/p/y")]].concat();
    check(&apart, &["permission.ruled b allow", "tool.started b 1"]);
    // the later call is ready first, and the earlier one may still write the path
    check(&[&two[..], &[edit("b", "/p/x")]].concat(), &["permission.ruled b allow"]);
    let late = [&two[..], &[edit("b", "/p/x"), edit("a", "/p/y")]].concat();
    check(&late, &["permission.ruled a allow", "tool.started a 1", "tool.started b 1"]);
}

#[test]
fn eight_calls_run_at_once() {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut given = vec![Prompt("hi")];
    given.extend(ids.map(|id| Call(id, id)));
    given.extend(ids.map(|id| Resolve(id, Class::Read, READ, "/p/x")));
    check(&given, &["permission.ruled i allow"]);
    given.push(Done("c", "ok"));
    check(&given, &["tool.started i 1"]);
}

#[test]
fn retries_wait_count_and_end() {
    let failed = [Prompt("hi"), Fail(Overloaded, true)];
    check(&failed, &["model.retry_scheduled 1"]);
    let mut given = failed.to_vec();
    given.push(Elapse);
    check(&given, &["model.requested 1.2"]);
    given.push(Fail(Overloaded, true));
    check(&given, &["model.retry_scheduled 2"]);
    given.extend([Elapse, Fail(Overloaded, true)]);
    check(&given, &["turn.ended error"]);
    check(&[Prompt("hi"), Fail(Auth, false)], &["turn.ended error"]);
    check(&[Prompt("hi"), Fail(Overloaded, true), Interrupt], &["turn.ended aborted"]);
    check(&[Prompt("hi"), Fail(Overloaded, true), Prompt("now")], &[]);
}

/// Without a person, a wait that is too long ends the turn, and the error says until when it would be.
#[test]
fn a_long_wait_is_for_people() {
    for (ask, max_wait, expected) in [
        (AskMode::Deny, Some(600_000), "turn.ended error"),
        (AskMode::Allow, Some(600_000), "turn.ended error"),
        (AskMode::Ask, Some(600_000), "model.retry_scheduled 1"),
        (AskMode::Deny, Some(86_400_000), "model.retry_scheduled 1"),
        (AskMode::Deny, None, "model.retry_scheduled 1"),
    ] {
        let mut config = config();
        (config.options.ask, config.options.max_wait) = (ask, max_wait);
        let mut run = Run::new(&config);
        run.step(&Prompt("hi"));
        let request = run.state.open().first().map_or(0, |(_, wait)| wait.intent);
        let failed = Model::Failed {
            class: RateLimit,
            message: "daily limit".into(),
            status: Some(429),
            retryable: true,
            retry_after: Some(86_400_000),
        };
        let intents = run.tell(Fact::for_intent(request, failed));
        let intents: Vec<_> =
            intents.iter().filter(|event| event.event.is_intent()).map(describe).collect();
        assert_eq!(intents, [expected], "{ask:?} {max_wait:?}");
        if let Some(ended) = &run.state.ended {
            let error = ended.error.as_deref().unwrap();
            let passes = run.state.at.plus(86_400_000).to_string();
            assert!(error.contains("daily limit") && error.contains(&passes[..16]), "{error}");
        }
    }
}

/// No image is sent again after a refused one, and the request is repeated at once.
#[test]
fn a_refused_image_is_left_out_from_there_on() {
    let image =
        || Attachment { mime: "image/png".into(), name: "a.png".into(), base64: "iVBORw0K".into() };
    let mut config = config();
    config.model.abilities.media = true;
    let mut run = Run::new(&config);
    for step in [Prompt("hi"), Call("a", "read"), Resolve("a", Class::Read, READ, "/p/x")] {
        run.step(&step);
    }
    let mut done = finished("a", "ok");
    done.attachments = vec![image()];
    let running = run.waiting("a").unwrap_or(0);
    run.tell(Fact::for_intent(running, Tool::Finished(Box::new(done))));
    run.step(&Reply(Finish::ToolCalls));
    let sent = |run: &Run| serde_json::to_string(&request_builder::request(&run.state)).unwrap();
    assert!(sent(&run).contains("iVBORw0K"));
    let intents = run.step(&Fail(Image, false));
    assert!(intents.iter().any(|event| describe(event) == "model.retry_scheduled 1"));
    run.step(&Elapse);
    assert!(!sent(&run).contains("iVBORw0K"));
    assert!(sent(&run).contains("a.png was attached here"));
    // without an image the refusal is about something else
    let intents = run.step(&Fail(Image, false));
    assert!(intents.iter().any(|event| describe(event) == "turn.ended error"));
}

/// An image that no API accepts is described instead. With more than 20 images the limit is lower.
#[test]
fn images_are_left_out_by_their_sides() {
    for (count, width, is_sent) in [
        (1, 8_000, true),
        (1, 8_001, false),
        (20, 8_000, true),
        (21, 2_000, true),
        (21, 2_001, false),
    ] {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend(u32::to_be_bytes(width));
        png.extend(u32::to_be_bytes(2));
        let base64 = base64::engine::general_purpose::STANDARD.encode(png);
        let image = PromptPart {
            kind: PromptKind::Media,
            mime: Some("image/png".into()),
            name: Some("a.png".into()),
            ..PromptPart::text(base64.clone())
        };
        let mut config = config();
        config.model.abilities.media = true;
        let mut run = Run::new(&config);
        run.tell(prompted(vec![image; count]));
        let sent = serde_json::to_string(&request_builder::request(&run.state)).unwrap();
        assert_eq!(sent.contains(&base64), is_sent, "{count} of {width}");
        assert_eq!(sent.contains(&format!("it is {width} × 2 pixels")), !is_sent, "{sent}");
    }
}

#[test]
fn reasoning_alone_is_no_answer() {
    let thought = [Prompt("hi"), Think(None), Reply(Finish::Stop)];
    check(&thought, &["turn.continued stop", "model.requested 2.1"]);
    let again = [&thought[..], &[Think(Some("sig")), Reply(Finish::Stop)]].concat();
    check(&again, &["turn.ended error"]);
    let answered = [&thought[..], &[Think(None), Text("yes"), Reply(Finish::Stop)]].concat();
    check(&answered, &["turn.ended completed"]);
}

#[test]
fn a_silent_provider_is_given_up_and_asked_again() {
    check(&[Prompt("hi"), Elapse], &["model.retry_scheduled 1"]);
    check(&[Prompt("hi"), Text("half"), Elapse, Elapse], &["model.requested 1.2"]);
}

#[test]
fn an_abandoned_attempt_leaves_no_trace_in_the_request() {
    let mut run = Run::new(&config());
    [Prompt("hi"), Text("half an ans")].iter().for_each(|step| {
        run.step(step);
    });
    let before = leftfold_events::request_builder::request(&run.state);
    [Fail(Network, true), Elapse].iter().for_each(|step| {
        run.step(step);
    });
    assert_eq!(leftfold_events::request_builder::request(&run.state), before);
    run.step(&Text("whole"));
    run.step(&Reply(Finish::Stop));
    assert_eq!(run.state.ended.expect("ended").text, "whole");
}

#[test]
fn once_a_call_is_logged_the_request_is_not_repeated() {
    let cut = [
        Prompt("hi"),
        Text("I look"),
        Think(None),
        Call("a", "read"),
        Text("and th"),
        Fail(Network, true),
    ];
    check(&cut, &[]);
    let mut given = cut.to_vec();
    given.push(Resolve("a", Class::Read, READ, "/p/x"));
    check(&given, &["permission.ruled a allow", "tool.started a 1"]);
    given.push(Done("a", "ok"));
    check(&given, &["model.retry_scheduled 1"]);
    given.push(Elapse);
    check(&given, &["model.requested 1.2"]);
}

#[test]
fn deadlines_of_calls() {
    let called = [Prompt("hi"), Call("a", "x"), Reply(Finish::ToolCalls)];
    check(&[&called[..], &[Elapse]].concat(), &["model.requested 2.1"]);
    let running = [&called[..], &[Resolve("a", Class::Command, READ, "")]].concat();
    let late = [&running[..], &[Progress("a", "half way"), Elapse]].concat();
    check(&late, &["tool.cancelled a 1", "model.requested 2.1"]);
    check(&[&late[..], &[Done("a", "too late")]].concat(), &[]);
}

#[test]
fn each_cancelled_call_has_a_reason() {
    use leftfold_events::rules::{Action, Rule};
    let called = [Prompt("hi"), Call("a", "x"), Call("b", "x"), Reply(Finish::ToolCalls)];
    let resolved = |access| Resolve("b", Class::Command, access, "");
    let mut stepping = config();
    stepping.options.max_steps = 1;
    let mut costing = config();
    costing.options.max_cost = Some(0.1);
    let mut asking = config();
    asking.rules = vec![Rule::new("*", "*", Action::Ask)];
    for (config, last, reasons) in [
        (config(), &[resolved(READ), Elapse, Elapse][..], &["deadline"][..]),
        (config(), &[resolved(READ), Interrupt], &["interrupt", "interrupt"]),
        (asking, &[resolved(ASK), Answer("b", Reject, None)], &["rejected"]),
        (costing, &[], &["limit", "limit"]),
        (stepping, &[], &["max_steps", "max_steps"]),
    ] {
        let mut run = Run::new(&config);
        called.iter().chain(last).for_each(|step| drop(run.step(step)));
        let cancelled = run.log.iter().filter(|event| describe(event).contains("cancelled"));
        let found: Vec<&str> =
            cancelled.map(|event| event.notes.reason.as_deref().unwrap_or_default()).collect();
        assert_eq!(found, reasons, "{:?}", run.log.iter().map(describe).collect::<Vec<_>>());
        assert_eq!(leftfold_events::verify(&run.log), []);
    }
}

#[test]
fn an_interrupt_ends_everything_at_once() {
    check(&[Prompt("hi"), Text("ha"), Interrupt], &["turn.ended aborted"]);
    let given = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "x"),
        Resolve("a", Class::Command, READ, ""),
        Interrupt,
    ];
    check(&given, &["tool.cancelled a 1", "tool.cancelled b 0", "turn.ended aborted"]);
    check(&[&given[..], &[Done("a", "late")]].concat(), &[]);
    check(&[&given[..], &[Interrupt]].concat(), &[]);
    check(&[&given[..], &[Prompt("again")]].concat(), &["model.requested 1.1"]);
    check(&[Prompt("hi"), Prompt("queued"), Interrupt], &["turn.ended aborted"]);
}

fn request_after(config: &TurnConfig, given: &[Step]) -> (Request, Run) {
    let mut run = Run::new(config);
    for step in given {
        run.step(step);
    }
    assert_prefixes_valid(&run.log);
    (request_builder::request(&run.state), run)
}

fn texts(request: &Request) -> Vec<String> {
    let texts = |message: &RequestMessage| match message {
        RequestMessage::User { parts } => {
            parts.iter().map(|part| format!("user: {}", part.text)).collect()
        }
        RequestMessage::Assistant { parts } => {
            parts.iter().map(|part| format!("{part:?}")).collect()
        }
        RequestMessage::Tool { .. } => vec!["results".to_owned()],
    };
    request.messages.iter().flat_map(texts).collect()
}

#[test]
fn the_text_of_an_interrupted_reply_stays_and_its_end_is_marked() {
    const NOTE: &str =
        "user: Your reply was interrupted here, before its end. The user has seen the text above.";
    let said = r#"Text { text: "I will first" }"#;
    let begun = [Prompt("hi"), Think(Some("sig")), Text("I will first")];
    for given in [&[Interrupt][..], &[Resume { close: true }], &[Elapse, Elapse, Interrupt]] {
        let given = [&begun[..], given, &[Prompt("more")]].concat();
        let (request, run) = request_after(&config(), &given);
        let expected: &[&str] = if given.len() > 5 {
            // the text of a failed attempt is not the model's answer
            &["user: hi", "user: more"]
        } else {
            &["user: hi", said, NOTE, "user: more"]
        };
        assert_eq!(texts(&request), expected, "{given:?}");
        assert_eq!(leftfold_events::fold(&run.log), run.state);
        assert_eq!(leftfold_events::verify(&run.log), vec![]);
    }
    // a prompt that came during the reply follows the note
    let joined = [&begun[..], &[Prompt("and"), Interrupt, Prompt("more")]].concat();
    let (request, _) = request_after(&config(), &joined);
    assert_eq!(texts(&request), ["user: hi", said, NOTE, "user: and", "user: more"]);
    // nothing was shown
    for nothing in [&[][..], &[Think(None)], &[Text("  \n")]] {
        let given = [&[Prompt("hi")][..], nothing, &[Interrupt, Prompt("more")]].concat();
        assert_eq!(texts(&request_after(&config(), &given).0), ["user: hi", "user: more"]);
    }
}

/// Each call has a result, whatever it waits for.
#[test]
fn a_call_without_an_outcome_is_answered_as_interrupted() {
    let open = [
        Prompt("hi"),
        Call("a", "x"),
        Call("b", "y"),
        Call("c", "z"),
        Call("d", "w"),
        Reply(Finish::ToolCalls),
        Resolve("b", Class::Command, ASK, ""),
        Resolve("c", Class::Read, READ, ""),
        Resolve("d", Class::Read, READ, ""),
        Done("d", "ok"),
    ];
    let (request, _) = request_after(&config(), &open);
    let Some(RequestMessage::Tool { results }) = request.messages.last() else {
        panic!("{request:?}")
    };
    let results: Vec<_> =
        results.iter().map(|it| (it.call.as_str(), &*it.output, it.is_error)).collect();
    let interrupted = |call| (call, "[Tool execution was interrupted]", true);
    let [checked, asked, running] = ["a", "b", "c"].map(interrupted);
    assert_eq!(results, [checked, asked, running, ("d", "ok", false)]);
}

#[test]
fn reasoning_goes_back_to_its_own_model_alone() {
    let given =
        [Prompt("hi"), Think(Some("sig")), Text("yes"), Reply(Finish::Stop), Prompt("more")];
    let (request, mut run) = request_after(&config(), &given);
    assert!(texts(&request)[1].contains(r#"signature: "sig""#), "{request:?}");
    let mut other = config();
    other.model.id = "other".into();
    run.step(&Reply(Finish::Stop));
    run.tell(Fact::new(Turn::Configured(other.payloads())));
    run.step(&Prompt("and now"));
    let request = request_builder::request(&run.state);
    assert_eq!(request.model.id, "other");
    assert!(!texts(&request).concat().contains("sig"), "{request:?}");
    assert!(texts(&request)[1].contains("yes"), "{request:?}");
}

#[test]
fn a_request_asks_for_no_more_output_than_the_model_and_the_settings_allow() {
    for (model, settings, expected) in
        [(1_000, 32_000, 1_000), (64_000, 32_000, 32_000), (64_000, 500, 500)]
    {
        let mut config = config();
        (config.model.limit.context, config.model.limit.output) = (200_000, model);
        config.options.max_output = settings;
        assert_eq!(request_after(&config, &[Prompt("hi")]).0.max_output, expected);
    }
    assert_eq!(config().options.max_output, 32_000);
}

#[test]
fn steps_are_limited() {
    let mut config = config();
    config.options.max_steps = 1;
    let given = [Prompt("hi"), Call("a", "read"), Reply(Finish::ToolCalls)];
    check_with(&config, &given[..2], &["tool.cancelled a 0"]);
    check_with(&config, &given, &["turn.ended maxsteps"]);
}

#[test]
fn resuming_after_a_crash() {
    let go_on = |given: &[Step], then: &[&str]| {
        check(&[given, &[Resume { close: false }]].concat(), then);
    };
    go_on(&[Prompt("hi")], &["model.requested 1.2"]);
    go_on(&[Prompt("hi"), Text("ha")], &["model.requested 1.2"]);
    go_on(&[Prompt("hi"), Reply(Finish::Stop)], &[]);
    go_on(&[Prompt("hi"), Fail(Overloaded, true)], &[]);
    let called = [Prompt("hi"), Call("a", "x")];
    go_on(&called, &["tool.resolve_started a"]);
    let run = |class| [&called[..], &[Resolve("a", class, READ, "/p/x")]].concat();
    go_on(&run(Class::Read), &["tool.started a 2"]);
    go_on(&run(Class::Write), &["tool.lost a 1", "model.requested 2.1"]);
    go_on(&run(Class::Command), &["tool.lost a 1", "model.requested 2.1"]);
    let twice = [&run(Class::Read)[..], &[Resume { close: false }]].concat();
    go_on(&twice, &["tool.lost a 2", "model.requested 2.1"]);
    let asked = [&called[..], &[Resolve("a", Class::Command, ASK, "")]].concat();
    go_on(&asked, &[]);
    let answered = [&asked[..], &[Resume { close: false }, Answer("a", Once, None)]].concat();
    check(&answered, &["tool.started a 1"]);
}

#[test]
fn resuming_for_a_new_prompt_closes_the_old_turn() {
    let close = |given: &[Step], then: &[&str]| {
        check(&[given, &[Resume { close: true }]].concat(), then);
    };
    close(&[Prompt("hi"), Text("ha")], &["turn.ended aborted"]);
    close(&[Prompt("hi"), Reply(Finish::Stop)], &[]);
    let given = [Prompt("hi"), Call("a", "x"), Call("b", "x"), Resolve("a", Class::Read, READ, "")];
    close(&given, &["tool.lost a 1", "tool.lost b 0", "turn.ended aborted"]);
}

#[test]
fn late_doubled_and_foreign_outcomes_are_not_admitted() {
    let mut run = Run::new(&config());
    run.step(&Prompt("hi"));
    let doubled = run.fact(&Reply(Finish::Stop));
    assert!(!run.tell(doubled.clone()).is_empty());
    assert!(run.tell(doubled).is_empty());
    for of in [0, 1, 99 as Seq] {
        let foreign = leftfold_events::Fact::for_intent(
            of,
            leftfold_events::event::Session::DeadlinePassed {},
        );
        assert!(run.tell(foreign).is_empty());
    }
}

#[test]
fn time_never_goes_backwards() {
    let mut run = Run::new(&config());
    run.step(&Prompt("hi"));
    run.now = 5;
    run.step(&Text("later"));
    assert!(run.log.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

#[test]
fn white_space_at_the_end_of_a_text_is_dropped() {
    let run = |policy: u16, steps: &[Step]| {
        let mut run = Run::under(&config(), policy);
        for step in steps {
            run.step(step);
        }
        run
    };
    let said = |run: &Run| {
        let request = request_builder::request(&run.state);
        request.messages.iter().find_map(|message| match message {
            RequestMessage::Assistant { parts } => Some(parts.to_vec()),
            RequestMessage::User { .. } | RequestMessage::Tool { .. } => None,
        })
    };
    let text = |text: &str| AssistantPart::Text { text: text.to_owned() };
    let answered = [Prompt("hi"), Text(" And then  \n "), Reply(Finish::Stop), Prompt("so?")];
    for (policy, ended, sent) in
        [(5, " And then  \n ", " And then  \n "), (6, " And then", " And then")]
    {
        let run = run(policy, &answered);
        let ends = run.log.iter().find_map(|event| {
            let Event::Turn(Turn::Ended(ended)) = &event.event else { return None };
            Some(ended.text.clone())
        });
        assert_eq!(ends.as_deref(), Some(ended), "{policy}");
        assert_eq!(said(&run), Some(vec![text(sent)]), "{policy}");
        assert_prefixes_valid(&run.log);
    }
    // a text that goes on keeps the space before its next word
    let cut = [
        Prompt("hi"),
        Text("half a "),
        Reply(Finish::Length),
        Text("word \n"),
        Reply(Finish::Stop),
    ];
    assert_eq!(run(6, &cut).state.ended.map(|ended| ended.text), Some("half a word".into()));
}

/// Reasoning goes back to the model that wrote it, with its signature, and to no other.
#[test]
fn another_models_reasoning_is_left_out() {
    let reasoning = |run: &Run| {
        let request = request_builder::request(&run.state);
        let parts = request.messages.iter().find_map(|message| match message {
            RequestMessage::Assistant { parts } => Some(parts.to_vec()),
            RequestMessage::User { .. } | RequestMessage::Tool { .. } => None,
        });
        let signed = |part: &AssistantPart| matches!(part, AssistantPart::Reasoning { signature, .. } if signature == "sig");
        parts.expect("an answer").iter().filter(|part| signed(part)).count()
    };
    let mut run = Run::new(&config());
    for step in [Prompt("hi"), Think(Some("sig")), Text("Hello."), Reply(Finish::Stop)] {
        run.step(&step);
    }
    run.step(&Prompt("again"));
    assert_eq!(reasoning(&run), 1);
    run.step(&Interrupt);
    let mut other = config();
    other.model.id = "other".into();
    run.tell(Fact::new(Turn::Configured(other.payloads())));
    run.step(&Prompt("and now?"));
    assert_eq!(reasoning(&run), 0);
    let request = request_builder::request(&run.state);
    let told = serde_json::to_string(&request.messages).unwrap_or_default();
    assert!(told.contains("Hello.") && !told.contains("sig"), "{told}");
}
