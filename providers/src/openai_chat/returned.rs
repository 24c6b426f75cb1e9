//! Carries members of an answer that must go back with it, unchanged, from one request to the next.
//!
//! Neutral messages have signatures only for reasoning. So these members travel as the signature of reasoning without
//! text: compact JSON with exactly one of the members `call_members` (of the next call) and `message_members`.

use serde_json::{Map, Value, json};

/// The members with the text of reasoning. Its signature is the name of the member that it came in, and takes it back
/// there.
pub(crate) const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The reasoning of OpenRouter and similar gateways: a list of entries, some of them sealed.
pub(super) const DETAILS: &str = "reasoning_details";

/// The sealed reasoning of GitHub Copilot.
pub(super) const OPAQUE: &str = "reasoning_opaque";

/// Members of the entries of [`DETAILS`] whose text comes in pieces.
const PIECES: [&str; 2] = ["text", "summary"];

/// The members, and what they belong to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Returned {
    /// The next call.
    Call(Map<String, Value>),
    /// The message.
    Message(Map<String, Value>),
}

impl Returned {
    pub(super) fn write(self) -> String {
        match self {
            Self::Call(members) => json!({ "call_members": members }),
            Self::Message(members) => json!({ "message_members": members }),
        }
        .to_string()
    }

    /// `None` for any other signature.
    pub(super) fn read(signature: &str) -> Option<Self> {
        let Value::Object(seal) = serde_json::from_str(signature).ok()? else { return None };
        let mut seal = seal.into_iter();
        let (name, Value::Object(members)) = seal.next().filter(|_| seal.len() == 0)? else {
            return None;
        };
        match name.as_str() {
            "call_members" => Some(Self::Call(members)),
            "message_members" => Some(Self::Message(members)),
            _ => None,
        }
    }
}

/// The member that a signature names.
pub(super) fn reasoning_member(signature: &str) -> Option<&'static str> {
    REASONING.into_iter().find(|member| *member == signature)
}

/// Adds members to those of a message. Lists continue each other.
pub(super) fn add(message: &mut Map<String, Value>, members: Map<String, Value>) {
    for (name, value) in members {
        match (message.get_mut(&name), value) {
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            (_, value) => drop(message.insert(name, value)),
        }
    }
}

/// Adds an entry of [`DETAILS`], or a piece that continues the last entry: its text is appended, and its other members,
/// such as a signature at the end, fill those that are still missing.
pub(super) fn add_detail(details: &mut Vec<Value>, piece: Value) {
    let Some(last) = details.last_mut().filter(|last| continues(last, &piece)) else {
        return details.push(piece);
    };
    let (Value::Object(last), Value::Object(piece)) = (last, piece) else { return };
    for (name, value) in piece {
        match (last.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more)) if PIECES.contains(&name.as_str()) => {
                text.push_str(&more);
            }
            (None | Some(Value::Null), value) => drop(last.insert(name, value)),
            (Some(_), _) => {}
        }
    }
}

fn continues(last: &Value, piece: &Value) -> bool {
    let is_same = |name: &str| match (&last[name], &piece[name]) {
        (Value::Null, _) | (_, Value::Null) => true,
        (last, piece) => last == piece,
    };
    let in_pieces = matches!(piece["type"].as_str(), Some("reasoning.text" | "reasoning.summary"));
    // after a signature, another block begins
    let is_whole = last["signature"].is_string();
    in_pieces && !is_whole && last["type"] == piece["type"] && is_same("index") && is_same("id")
}

/// The text of an entry, for people.
pub(super) fn text_of(detail: &Value) -> &str {
    PIECES.iter().find_map(|name| detail[*name].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_they_were_written() {
        let Value::Object(members) = json!({ "extra_content": { "google": { "x": "=" } } }) else {
            panic!("an object")
        };
        for returned in [Returned::Call(members.clone()), Returned::Message(members)] {
            assert_eq!(Returned::read(&returned.clone().write()), Some(returned));
        }
        for other in ["", "reasoning", "RXJ==", "{}", r#"{"call":"x"}"#, r#"{"call_members":7}"#] {
            assert_eq!(Returned::read(other), None, "{other}");
        }
    }

    #[test]
    fn pieces_of_details_become_whole_entries() {
        let text = |text: &str| json!({ "type": "reasoning.text", "text": text, "index": 0 });
        let sealed =
            |data: &str| json!({ "type": "reasoning.encrypted", "data": data, "index": 0 });
        let signature = json!({ "type": "reasoning.text", "signature": "s", "index": 0 });
        let whole = json!({ "type": "reasoning.text", "text": "ab", "index": 0, "signature": "s" });
        let other = json!({ "type": "reasoning.text", "text": "c", "index": 1 });
        for (pieces, entries) in [
            (vec![text("a"), text("b"), signature.clone()], vec![whole.clone()]),
            (vec![text("a"), text("b"), signature, text("d")], vec![whole, text("d")]),
            (vec![text("a"), other.clone()], vec![text("a"), other]),
            (vec![sealed("x"), sealed("y")], vec![sealed("x"), sealed("y")]),
            (vec![text("a"), sealed("x"), text("b")], vec![text("a"), sealed("x"), text("b")]),
        ] {
            let mut joined = Vec::new();
            pieces.iter().for_each(|piece| add_detail(&mut joined, piece.clone()));
            assert_eq!(joined, entries, "{pieces:?}");
        }
    }
}
