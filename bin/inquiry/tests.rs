use leftfold_events::event::{Access, Class, Resolution, Wanted};
use leftfold_events::{Json, SessionId, Time};
use serde_json::{Value, json};

use super::*;

fn at(seq: Seq, of: Seq, event: impl Into<Event>) -> Envelope {
    Envelope {
        session: SessionId::default(),
        seq,
        at: Time::default(),
        of: Some(of),
        until: None,
        event: event.into(),
    }
}

fn asked(permission: &str, text: &str) -> Permission {
    Permission::Asked {
        call: "c".to_owned(),
        permission: permission.to_owned(),
        patterns: vec![text.to_owned()],
        always: Vec::new(),
    }
}

fn resolved(input: &Value) -> Tool {
    Tool::Resolved(Box::new(Resolution {
        name: "question".to_owned(),
        input: Json::from_value(input),
        class: Class::Ask,
        access: vec![Access {
            permission: PERMISSION.to_owned(),
            patterns: Vec::new(),
            always: Vec::new(),
        }],
        paths: Vec::new(),
        timeout: 1000,
        error: None,
    }))
}

fn colours(multiple: bool) -> Inquiry {
    let option = |label: &str| Choice { label: label.to_owned(), ..Choice::default() };
    let options = ["red", "blue", "green"].map(option).to_vec();
    Inquiry { options, multiple, ..Inquiry::bare("Which?") }
}

#[test]
fn every_question_of_a_call_is_found_by_what_asks_it() {
    let input = json!({ "questions": [
        { "question": "Which?", "header": "Colour", "multiple": true,
          "options": [{ "label": "red", "description": "like fire" }] },
        { "question": "Sure?", "multiple": null },
        { "question": "Sure?", "header": "Again" },
    ] });
    let inquiries = Inquiries::of(&[
        at(2, 1, Tool::Checked { call: "c".to_owned() }),
        at(3, 2, resolved(&input)),
        at(4, 1, asked("question", "Which?")),
        at(5, 1, asked("question", "Sure?")),
        at(6, 1, asked("question", "Sure?")),
        at(7, 9, asked("question", "Of an unknown call?")),
        at(8, 1, asked("bash", "ls")),
    ]);
    let first = inquiries.asked(4).unwrap();
    assert_eq!(first.titled(), "[Colour] Which?");
    assert_eq!(first.numbered().collect::<Vec<_>>(), ["1. red – like fire"]);
    assert!(first.multiple);
    assert_eq!(inquiries.asked(5), Some(&Inquiry::bare("Sure?")));
    assert_eq!(inquiries.asked(6).unwrap().header, "Again");
    assert_eq!(inquiries.asked(7), Some(&Inquiry::bare("Of an unknown call?")));
    assert_eq!(inquiries.asked(8), None);
}

#[test]
fn what_a_running_call_asks_goes_with_its_end() {
    let started = Tool::Started {
        call: "c".to_owned(),
        name: "m_ask".to_owned(),
        class: Class::Command,
        attempt: 1,
    };
    let schema = json!({ "properties": { "side": { "enum": ["l", "r"] } } });
    let wanted = Wanted::Form { schema: Json::from_value(&schema) };
    let (from, message) = ("m".to_owned(), "Which?".to_owned());
    let inquired = Tool::Inquired { inquiry: 1, from, message, wanted };
    let mut again = asked("question", "Which?\nside");
    if let Permission::Asked { patterns, .. } = &mut again {
        patterns.push("no such side".to_owned());
    }
    let log = [
        at(2, 1, started),
        at(3, 2, inquired),
        at(4, 1, asked("question", "Which?\nside")),
        at(5, 1, again),
    ];
    let inquiries = Inquiries::of(&log);
    let (first, second) = (inquiries.asked(4).unwrap(), inquiries.asked(5).unwrap());
    assert_eq!(first.titled(), "[m] Which?\nside");
    assert_eq!(second.titled(), "[m] Which?\nside\nno such side");
    let labels: Vec<&str> = first.options.iter().map(|o| o.label.as_str()).collect();
    assert_eq!(labels, ["l", "r", form::LEFT_OUT]);
    assert!(first.in_run() && second.options == first.options);
    let cancelled = Tool::Cancelled { call: "c".to_owned(), attempt: 1 };
    assert_eq!(inquiries.closed_by(&at(6, 1, cancelled)), Some(5));
    let reply = (Answer::Once, None, "me".to_owned());
    let (reply, feedback, by) = reply;
    let answered = at(6, 5, Permission::Answered { reply, feedback, by });
    let inquiries = Inquiries::of(log.iter().chain([&answered]));
    let lost = Tool::Lost { call: "c".to_owned(), attempt: 1 };
    assert_eq!(inquiries.closed_by(&at(7, 1, lost)), None);
}

#[test]
fn a_line_is_numbers_or_words() {
    for (line, one, several) in [
        ("2", "blue", "blue"),
        (" 3 \n", "green", "green"),
        ("1, 3,1", "1, 3,1", "red, green"),
        ("4", "4", "4"),
        ("0", "0", "0"),
        ("1, 4", "1, 4", "1, 4"),
        ("neither, thanks", "neither, thanks", "neither, thanks"),
    ] {
        assert_eq!(colours(false).understood(line).as_deref(), Some(one), "{line:?}");
        assert_eq!(colours(true).understood(line).as_deref(), Some(several), "{line:?}");
    }
    assert_eq!(colours(true).understood("  "), None);
    assert_eq!(Inquiry::bare("How many?").understood("1").as_deref(), Some("1"));
}

#[test]
fn words_answer_and_no_words_dismiss() {
    let reply = |words: Option<&str>| {
        let reply = reply(words.map(str::to_owned), "me");
        (reply.answer, reply.feedback)
    };
    assert_eq!(reply(Some("blue")), (Answer::Once, Some("blue".to_owned())));
    assert_eq!(reply(None), (Answer::Reject, None));
}
