use super::*;
use crate::event::{
    CallSpec, Exchange, Fact, Finished, Model, NoteMembers, Owner, PartKind, PromptKind,
    PromptPart, Session, SlashCommand, StreamedPart, Tool, Turn, TurnConfigPayloads,
};
use crate::json::Json;
use crate::payload::Payload;

const TOKEN: &str = "hunter2-hunter2";
const QUOTED: &str = "pass\"word\\1 ä/+";

fn secret(name: &str, value: &str, usable: bool) -> Secret {
    Secret { name: name.into(), value: value.into(), usable }
}

fn secrets() -> Secrets {
    Secrets::new([
        secret("TOKEN", TOKEN, true),
        secret("LONGER", "hunter2-hunter2-more", true),
        secret("QUOTED", QUOTED, true),
        secret("KEY", "own-key-of-leftfold", false),
        secret("SHELL", "$\"in-quotes-0123456789'", true),
        secret("PEM", "-----BEGIN X-----\nline-one-is-0123456789\nshort\n-----END X-----\n", true),
    ])
    .unwrap()
}

fn hidden(text: &str) -> String {
    secrets().hide(text).unwrap_or_else(|| text.to_owned())
}

#[test]
fn values_are_replaced_by_their_names() {
    for (text, found) in [
        ("", ""),
        ("hunter2", "hunter2"),
        ("hunter2-hunter2", "{{secret:TOKEN}}"),
        ("a hunter2-hunter2\nb", "a {{secret:TOKEN}}\nb"),
        // the longest of the values that begin at one place, and the first of those that overlap
        ("hunter2-hunter2-more", "{{secret:LONGER}}"),
        ("hunter2-hunter2-hunter2", "{{secret:TOKEN}}-hunter2"),
        ("hunter2-hunter2hunter2-hunter2", "{{secret:TOKEN}}{{secret:TOKEN}}"),
        ("äown-key-of-leftfoldä", "ä{{secret:KEY}}ä"),
        // forms
        (QUOTED, "{{secret:QUOTED}}"),
        (r#"pass\"word\\1 ä/+"#, "{{secret:QUOTED:json}}"),
        ("pass%22word%5C1%20%C3%A4%2F%2B", "{{secret:QUOTED:url}}"),
        ("pass%22word%5c1%20%c3%a4%2f%2b", "{{secret:QUOTED:url}}"),
        ("00001| line-one-is-0123456789", "00001| {{secret:PEM:line}}"),
        ("-----BEGIN X-----", "-----BEGIN X-----"),
        (r#"a="$"in-quotes-0123456789""#, r#"a="$"{{secret:SHELL:part}}""#),
        // as other libraries write them
        (r#"pass\"word\\1 \u00e4/+"#, "{{secret:QUOTED:json}}"),
        (r#"pass\"word\\1 \u00e4\/+"#, "{{secret:QUOTED:json}}"),
        (r"pass\u0022word\\1 \u00e4/\u002b", "{{secret:QUOTED:json}}"),
        ("pass%22word%5C1%20%C3%A4/+", "{{secret:QUOTED:url}}"),
        ("pass%22word%5C1+%C3%A4%2F%2B", "{{secret:QUOTED:url}}"),
        // what was cut
        ("a hunter2-hun…", "a …"),
        ("hunter2-hunter2 own-key-of...", "{{secret:TOKEN}} ..."),
        ("a hunter2…", "a hunter2…"),
        ("a hunter2-hun… own-key-of-left… b", "a … … b"),
        ("... a hunter2-hun... b", "... a ... b"),
        ("{{secret:TOK…", "{{secret:TOK…"),
        // a name is left alone
        ("{{secret:TOKEN}} {{secret:NONE}}", "{{secret:TOKEN}} {{secret:NONE}}"),
    ] {
        assert_eq!(hidden(text), found, "{text}");
        assert_eq!(hidden(found), found, "twice is once");
    }
}

#[test]
fn a_value_in_numbers_is_recognised_whatever_its_length() {
    let long = "the-quick-brown-fox-jümps-over-the-lazy-dog-".repeat(8);
    for value in [TOKEN, "8-bytes!", long.as_str()] {
        let secrets = Secrets::new([secret("A", value, true)]).unwrap();
        let each = |form: &dyn Fn(u8) -> String| value.bytes().map(form).collect::<String>();
        let units =
            |form: &dyn Fn(u16) -> String| value.encode_utf16().map(form).collect::<String>();
        for text in [
            each(&|byte| format!("{byte:02x}")),
            each(&|byte| format!("{byte:02X}")),
            each(&|byte| format!("%{byte:02x}")),
            each(&|byte| format!("%{byte:02X}")),
            each(&|byte| format!("\\x{byte:02x}")),
            units(&|unit| format!("\\u{unit:04x}")),
            units(&|unit| format!("\\u{unit:04X}")),
            each(&|byte| format!("{byte:02x} ")),
            each(&|byte| format!("{byte:02X}:")),
        ] {
            let found = secrets.hide(&format!("key={text}&")).unwrap();
            let left = found.replace("{{secret:A:bytes}}", "");
            assert!(left.len() < "key=&".len() + 8, "{text}: {found}");
            // a call cannot write it again
            let input = Json::from_value(&serde_json::json!({ "command": found }));
            assert!(matches!(secrets.put_back(&input), Err(UnknownSecret::Form { .. })), "{found}");
        }
    }
    for text in ["68756e746572", "%68%75%6e%74%65%72", "0123456789abcdef0123456789abcdef01234567"] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn base64_is_recognised_wherever_it_begins() {
    // of "hunter2-hunter2", alone and behind one and two bytes
    for coded in ["aHVudGVyMi1odW50ZXIy", "eGh1bnRlcjItaHVudGVyMg==", "eHhodW50ZXIyLWh1bnRlcjI="] {
        let found = hidden(coded);
        assert!(found.contains("{{secret:TOKEN:base64}}"), "{found}");
        assert!(found.len() < "{{secret:TOKEN:base64}}".len() + 6, "{found}");
    }
}

#[test]
fn a_value_that_is_part_of_its_own_name_is_replaced_once() {
    let secrets = Secrets::new([secret("password", "password", true)]).unwrap();
    let once = secrets.hide("my password").unwrap();
    assert_eq!(once, "my {{secret:password}}");
    assert_eq!(secrets.hide(&once), None);
}

#[test]
fn short_values_are_left_and_names_are_made_distinct() {
    let secrets = Secrets::new([
        secret("A", "1234567", true),
        secret("a b", "12345678", true),
        secret("a/b", " 87654321\n", true),
        secret("again", "12345678", true),
    ])
    .unwrap();
    assert_eq!(format!("{secrets:?}"), r#"["a_b", "a_b_2"]"#);
    assert_eq!(secrets.hide("1234567"), None);
    assert_eq!(secrets.hide("87654321").unwrap(), "{{secret:a_b_2}}");
}

#[test]
fn a_value_in_two_pieces_is_found_wherever_it_is_cut() {
    let texts = [
        "a hunter2-hunter2 b".to_owned(),
        "hunter2-hunter2-mor".to_owned(),
        "hunter2-hunter2-more".to_owned(),
        "hunter2-hunter2-hunter2-hunter2-more".to_owned(),
        format!("ä{QUOTED}ä{{{{secret:TOKEN}}}}"),
        "own-key-of-leftfold{{secret:{{secret:TO".to_owned(),
    ];
    for text in &texts {
        let whole = hidden(text);
        for size in 1..=text.len() {
            let mut redactor = Redactor::new(secrets());
            let pieces =
                text.as_bytes().chunks(size).flat_map(|piece| redactor.push(piece).into_owned());
            let mut out: Vec<u8> = pieces.collect();
            out.extend(redactor.finish());
            assert_eq!(String::from_utf8(out).unwrap(), whole, "{text} in pieces of {size}");
        }
    }
}

#[test]
fn only_what_may_begin_a_value_is_held_back() {
    for (text, rest) in [
        ("", ""),
        ("done.", ""),
        ("a hunt", "hunt"),
        ("a hunter2-hunter2", "hunter2-hunter2"),
        ("a hunter2-hunter2-x", ""),
        ("own-key-of-leftfold", ""),
        ("ä{", "{"),
    ] {
        assert_eq!(&text[secrets().settled(text)..], rest, "{text}");
    }
    assert_eq!(Secrets::default().settled("anything"), 8);
    // the end of a whole value does not begin another one
    let around = Secrets::new([secret("A", "abc-----abc", true)]).unwrap();
    assert_eq!(around.settled("abc-----abc"), 11);
}

#[test]
fn names_are_filled_in_where_calls_may_use_them() {
    let input = Json::parse(
        r#"{"a":"x {{secret:TOKEN}}{{secret:QUOTED}}","b":[1,{"c":"{{secret:QUOTED:json}}"}],"{{secret:TOKEN}}":"{{secret:}} {{secret: TOKEN}} {{secret:"}"#,
    )
    .unwrap();
    let filled = secrets().put_back(&input).unwrap().value();
    assert_eq!(filled["a"], format!("x {TOKEN}{QUOTED}"));
    assert_eq!(filled["b"][1]["c"], r#"pass\"word\\1 ä/+"#);
    assert_eq!(filled["{{secret:TOKEN}}"], "{{secret:}} {{secret: TOKEN}} {{secret:");
}

#[test]
fn names_that_cannot_be_filled_in_are_told_with_those_that_can() {
    for (text, said) in [
        (
            "{{secret:NONE}}",
            "no secret named `NONE`. Calls may use: TOKEN, LONGER, QUOTED, SHELL, PEM.",
        ),
        ("{{secret:TOKEN:odd}}", "no secret named `TOKEN:odd`"),
        ("{{secret:KEY}}", "the secret `KEY` is a key of Leftfold's own"),
        ("{{secret:TOKEN:base64}}", "only a part of the secret `TOKEN`"),
    ] {
        let input = Json::from_value(&serde_json::json!({ "a": [text] }));
        let error = secrets().put_back(&input).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        let error = Secrets::default().put_back(&input).unwrap_err().to_string();
        assert!(error.ends_with("There are no secrets that calls may use."), "{error}");
    }
}

#[test]
fn what_is_hidden_in_arguments_comes_back_as_it_was() {
    for value in [TOKEN, QUOTED, "hunter2-hunter2-more", "pass%22word%5C1%20%C3%A4%2F%2B"] {
        let input = Json::from_value(&serde_json::json!({ "a": format!("<{value}>"), value: 1 }));
        let mut event = Tool::Called { call: call(input.clone()) }.into();
        secrets().redact(&mut event);
        let Event::Tool(Tool::Called { call }) = event else { panic!() };
        assert!(!call.input.as_str().contains("hunter2"), "{}", call.input);
        let back = secrets().put_back(&call.input).unwrap();
        assert_eq!(back.value()["a"], input.value()["a"]);
    }
}

fn call(input: Json) -> CallSpec {
    CallSpec { id: "c".into(), name: "n".into(), input }
}

#[test]
fn what_must_come_back_unchanged_is_not_touched() {
    let media = PromptPart { kind: PromptKind::Media, ..PromptPart::text(TOKEN) };
    let sealed = StreamedPart {
        id: TOKEN.into(),
        kind: PartKind::Reasoning,
        text: TOKEN.into(),
        signature: Some(TOKEN.into()),
        redacted: true,
    };
    for event in [
        Event::from(Turn::Prompted {
            parts: vec![media],
            agent: TOKEN.into(),
            model: crate::event::ModelRef::default(),
            by: String::new(),
        }),
        Model::Streamed { parts: vec![sealed.clone()] }.into(),
    ] {
        let mut redacted = event.clone();
        secrets().redact(&mut redacted);
        assert_eq!(redacted, event);
    }
    let thought = StreamedPart { redacted: false, ..sealed };
    let mut event = Model::Streamed { parts: vec![thought.clone()] }.into();
    secrets().redact(&mut event);
    let parts = vec![StreamedPart { text: "{{secret:TOKEN}}".into(), ..thought }];
    assert_eq!(event, Model::Streamed { parts }.into());
}

#[test]
fn contents_behind_a_hash_are_replaced_with_their_hash() {
    let system = Payload::new(serde_json::to_string(&[QUOTED, TOKEN]).unwrap());
    let mut event =
        Turn::Configured(TurnConfigPayloads { system, ..TurnConfigPayloads::default() }).into();
    secrets().redact(&mut event);
    let payload = event.payloads()[0];
    assert_eq!(&**payload.text(), r#"["{{secret:QUOTED}}","{{secret:TOKEN}}"]"#);
    assert_eq!(payload.sha256(), crate::Sha256::digest(payload.text().as_bytes()));
}

#[test]
fn every_text_of_a_result_is_visited() {
    let finished = Finished {
        call: "c".into(),
        title: TOKEN.into(),
        output: format!("{TOKEN}\n{QUOTED}").into(),
        is_error: true,
        metadata: Json::from_value(&serde_json::json!({ TOKEN: [{ "a": QUOTED }] })),
        spill: None,
        attachments: Vec::new(),
    };
    let mut event = Tool::Finished(Box::new(finished)).into();
    secrets().redact(&mut event);
    let text = format!("{event:?}");
    assert!(!text.contains("hunter2") && !text.contains("word"), "{text}");
}

#[test]
fn every_text_of_notes_is_visited() {
    let json = Json::from_value(&serde_json::json!([{ TOKEN: QUOTED }]));
    let members = NoteMembers {
        recovered: true,
        client: Some(TOKEN.into()),
        parts: Some(json.clone()),
        command: Some(SlashCommand { name: TOKEN.into(), arguments: TOKEN.into() }),
        owner: Some(Owner { node: Some(TOKEN.into()), ..Owner::default() }),
        executor: Some(TOKEN.into()),
        exchange: Some(Exchange { request_id: Some(TOKEN.into()), ..Exchange::default() }),
        reason: Some(TOKEN.into()),
        denials: vec![TOKEN.into()],
        structured: Some(json.clone()),
        other: [("later".to_owned(), json)].into(),
    };
    let mut fact = Fact::new(Session::DeadlinePassed {}).with_notes(members.into());
    secrets().redact_fact(&mut fact);
    let text = format!("{:?}", fact.notes);
    assert!(!text.contains("hunter2") && !text.contains("word"), "{text}");
    assert_eq!(text.matches("{{secret:TOKEN}}").count(), 11, "{text}");
}

#[test]
fn a_range_cuts_no_value_in_two() {
    let text = format!("ab{TOKEN}cd");
    let end = 2 + TOKEN.len();
    for (range, uncut) in [
        (0..text.len(), 0..text.len()),
        (0..end, 0..end),
        (0..end - 1, 0..2),
        (3..text.len(), end..text.len()),
        (5..9, 2..2),
        (2..end, 2..end),
    ] {
        assert_eq!(secrets().uncut(text.as_bytes(), range.clone()), uncut, "{range:?}");
        assert_eq!(Secrets::default().uncut(text.as_bytes(), range.clone()), range);
    }
}

#[test]
fn earlier_values_stay_secret_beside_new_ones() {
    let of = |pairs: &[(&str, &str)]| {
        let secret = |(name, value): &(&str, &str)| Secret {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            usable: true,
        };
        Secrets::new(pairs.iter().map(secret)).unwrap()
    };
    let (old, new) = (
        of(&[("KEY", "first-value"), ("B", "other-value")]),
        of(&[("KEY", "second-value"), ("C", "other-value")]),
    );
    let all = new.with_all_of(&old).unwrap();
    let hidden = all.hide("first-value second-value other-value").unwrap();
    assert_eq!(hidden, "{{secret:KEY_2}} {{secret:KEY}} {{secret:C}}");
    assert_eq!(all.with_all_of(&old).unwrap(), all);
    assert_eq!(Secrets::default().with_all_of(&new).unwrap(), new);
}
