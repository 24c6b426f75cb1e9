use super::*;
use crate::event::{Event, Notes, Session, Turn, TurnConfigPayloads};
use crate::id::SessionId;
use crate::json::Json;
use crate::payload::Payload;
use crate::time::Time;

/// Joined at run time, so that no source file contains a token of this shape.
fn tokens() -> Vec<(String, String)> {
    let long = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7";
    let capitals = "ABCDEFGH12345678";
    [
        ("sk-", long, "sk-a"),
        ("sk-ant-api03-", "abcdefghijkl", "sk-a"),
        ("ghp_", long, "ghp_"),
        ("github_pat_", long, "gith"),
        ("AKIA", capitals, "AKIA"),
        ("xoxb-", "12345-abcde-12", "xoxb"),
        ("AIza", &long[..35], "AIza"),
        ("glpat-", long, "glpa"),
        ("eyJhbGciOi", "JIUzI1NiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJh"),
    ]
    .into_iter()
    .map(|(begins, rest, shown)| (format!("{begins}{rest}"), format!("{shown}{MASKED}")))
    .collect()
}

#[test]
fn tokens_are_masked_wherever_they_stand_and_only_once() {
    for (token, masked) in tokens() {
        for frame in ["T", "x T y", "KEY=T", "\"T\"", "ä:T,\n", "T T", "(T)"] {
            let text = frame.replace('T', &token);
            let found = mask(&text).unwrap();
            assert_eq!(found, frame.replace('T', &masked), "{text}");
            assert_eq!(mask(&found), None, "{found}");
        }
        assert_eq!(mask(&format!("a{token}")), None, "within a word");
    }
}

#[test]
fn headers_and_private_keys_are_masked() {
    let key = |body: &str| format!("a -----BEGIN RSA {KEY}{body}-----END RSA {KEY} b");
    for (text, masked) in [
        (
            "authorization: Bearer abcdef0123456789xyz.",
            format!("authorization: Bearer abcd{MASKED}"),
        ),
        (&key("\nMIIabc\nxyz=\n"), key(MASKED)),
        (&format!("-----BEGIN {KEY}\nMIIabc"), format!("-----BEGIN {KEY}{MASKED}")),
    ] {
        assert_eq!(mask(text).unwrap(), masked);
        assert_eq!(mask(&masked), None, "{masked}");
    }
}

#[test]
fn words_are_left_alone() {
    for text in [
        "sk-estimator-doc-link-hovered",
        "the bearer authentication-scheme",
        "task-force, sk-1, ghp_short, AKIA, xoxb-1, eyJhbGciOiJ9, eyJhbGciOiJ9.e.x",
        "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----",
        "-----BEGIN ",
        "",
    ] {
        assert_eq!(mask(text), None, "{text}");
    }
}

#[test]
fn contents_behind_a_hash_are_masked_with_their_hash() {
    for (token, masked) in tokens() {
        let system = Payload::new(format!("[\"a\\n{token}\"]"));
        let configured = TurnConfigPayloads { system, ..TurnConfigPayloads::default() };
        let shown = shown(&envelope(Turn::Configured(configured).into()));
        let (hash, line) = &shown.payloads[0];
        assert!(line.contains(&masked) && !line.contains(&token), "{line}");
        assert!(shown.line.contains(&hash.to_string()), "{}", shown.line);
        let Ok(line::Line::Payload { sha256, text }) = line::read(line) else { panic!() };
        assert_eq!(sha256, Sha256::digest(text.as_bytes()));
    }
}

#[test]
fn an_event_without_tokens_is_shown_as_it_is() {
    let event = envelope(Session::Titled { title: "a \"title\"".into() }.into());
    assert_eq!(shown(&event), unmasked(&event));
    let token = &tokens()[0].0;
    let event = envelope(Session::Titled { title: format!("\n{token}") }.into());
    assert!(unmasked(&event).line.contains(token) && !shown(&event).line.contains(token));
}

#[test]
fn tokens_in_notes_are_masked() {
    let token = &tokens()[0].0;
    let mut event = envelope(Session::DeadlinePassed {}.into());
    event.notes.client = Some(token.clone());
    event.notes.parts = Some(Json::from_value(&serde_json::json!([{ "url": token }])));
    event.notes.other.insert("later".into(), Json::from_value(&serde_json::json!([token])));
    assert_eq!(unmasked(&event).line.matches(token).count(), 3);
    let shown = shown(&event);
    assert!(!shown.line.contains(token), "{}", shown.line);
    assert_eq!(line::write(&shown.masked.unwrap()), shown.line);
}

fn envelope(event: Event) -> Envelope {
    let (session, at) = (SessionId::default(), Time::from_millis(1));
    Envelope { session, seq: 1, at, of: None, until: None, event, notes: Notes::default() }
}

#[test]
fn what_is_masked_stays_json() {
    let key = format!("-----BEGIN {KEY}\nMIIabc\\");
    for (token, _) in tokens() {
        for frame in ["T", "a\nT\tb", "\u{1b}[32mT\u{1b}[0m", "\u{1}T", "say \"T\"", "T \\"] {
            let text = frame.replace('T', &token);
            for text in [text.clone(), serde_json::json!({ "inner": text, "k": key }).to_string()] {
                let json = serde_json::json!({ "t": text, "after": [1] }).to_string();
                let masked = mask(&json).unwrap();
                assert!(!masked.contains(&token) && !masked.contains("MIIabc"), "{masked}");
                let value: serde_json::Value = serde_json::from_str(&masked).unwrap();
                assert_eq!(value["after"], serde_json::json!([1]), "{masked}");
                assert_eq!(mask(&masked), None, "{masked}");
            }
        }
    }
}

#[test]
fn a_token_in_pieces_is_masked_wherever_it_is_cut() {
    let key = format!("-----BEGIN RSA {KEY}\nMIIabc\nxyz=\n-----END RSA {KEY}");
    let texts = tokens().into_iter().map(|(token, _)| format!("s ä {token}, be\n{token} -- es"));
    for text in texts.chain([format!("- {key} e"), "Authorization: Bearer 0123456789abcdef".into()])
    {
        for size in 1..=text.len() {
            let (mut held, mut out) = (String::new(), String::new());
            for c in text.chars() {
                held.push(c);
                if held.len() < size {
                    continue;
                }
                let rest = held.split_off(settled(&held));
                let piece = std::mem::replace(&mut held, rest);
                out += &mask(&piece).unwrap_or(piece);
            }
            out += &mask(&held).unwrap_or(held);
            assert_eq!(out, mask(&text).unwrap(), "{text} in pieces of {size}");
        }
    }
}

#[test]
fn only_what_may_become_a_token_waits() {
    for (text, rest) in [
        ("", ""),
        ("done. ", ""),
        ("wonders", ""),
        ("the e", "e"),
        ("task-2025", ""),
        ("see sk-2025-01", "sk-2025-01"),
        ("see sk-2025-01.", ""),
        ("a ghp_", "ghp_"),
        ("Bearer ab", "Bearer ab"),
        ("eyJh.eyJ", "eyJh.eyJ"),
        ("a --", "-- "),
        ("-----BEGIN CERTIFICATE-----\nMIIabcdefghijklmnop", ""),
    ] {
        assert_eq!(&text[settled(text)..], rest.trim_end(), "{text}");
    }
    let endless = "ghp_".to_owned() + &"a".repeat(2 * UNFINISHED);
    assert!(endless.len() - settled(&endless) <= UNFINISHED);
}
