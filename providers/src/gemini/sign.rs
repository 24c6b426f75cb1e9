//! Carries signatures of thoughts from one request to the next.
//!
//! The API puts a signature on a part of any kind, and it must go back on exactly that part. The
//! neutral vocabulary has signatures only for reasoning. So a signature travels as reasoning
//! without text, directly before the part that it belongs to. The seal says which kind of part that
//! is: compact JSON with exactly one of the members `call`, `text`, `thought` (each holds the
//! signature) and `part` (a part that is nothing else, unchanged).

use serde_json::{Value, json};

/// The kind of part that a signature came with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seal {
    /// The next call.
    Call(String),
    /// The next text.
    Text(String),
    /// The reasoning itself.
    Thought(String),
    /// A part without text of its own.
    Part(Value),
}

impl Seal {
    pub(super) fn write(&self) -> String {
        let (name, value) = match self {
            Self::Call(signature) => ("call", signature.as_str().into()),
            Self::Text(signature) => ("text", signature.as_str().into()),
            Self::Thought(signature) => ("thought", signature.as_str().into()),
            Self::Part(part) => ("part", part.clone()),
        };
        json!({ name: value }).to_string()
    }

    /// `None` for a signature that came over another wire.
    pub(super) fn read(text: &str) -> Option<Self> {
        let Value::Object(members) = serde_json::from_str(text).ok()? else { return None };
        let mut members = members.into_iter();
        let (name, value) = members.next().filter(|_| members.len() == 0)?;
        if name == "part" {
            return signature(&value).is_some().then_some(Self::Part(value));
        }
        let Value::String(signature) = value else { return None };
        match name.as_str() {
            _ if signature.is_empty() => None,
            "call" => Some(Self::Call(signature)),
            "text" => Some(Self::Text(signature)),
            "thought" => Some(Self::Thought(signature)),
            _ => None,
        }
    }
}

/// The signature of a part in the API's form.
pub(super) fn signature(part: &Value) -> Option<&str> {
    let signed = part.get("thoughtSignature").or_else(|| part.get("thought_signature"))?;
    signed.as_str().filter(|signature| !signature.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_read_as_it_was_written() {
        let part = json!({ "text": "", "thoughtSignature": "Cg==" });
        for (seal, text) in [
            (Seal::Call("Cg+/==".into()), r#"{"call":"Cg+/=="}"#),
            (Seal::Text("ä".into()), r#"{"text":"ä"}"#),
            (Seal::Thought("x".into()), r#"{"thought":"x"}"#),
            (Seal::Part(part), r#"{"part":{"text":"","thoughtSignature":"Cg=="}}"#),
        ] {
            assert_eq!(seal.write(), text);
            assert_eq!(Seal::read(text), Some(seal));
        }
    }

    #[test]
    fn signatures_of_other_wires_are_none() {
        for text in [
            "",
            "EqsFCqgF==",
            "7",
            "{}",
            r#"{"call":""}"#,
            r#"{"call":7}"#,
            r#"{"call":"x","text":"y"}"#,
            r#"{"part":{"text":"x"}}"#,
            r#"{"id":"rs_1","encrypted_content":"gAAA"}"#,
            r#"{"id":"rs_1"}"#,
        ] {
            assert_eq!(Seal::read(text), None, "{text}");
        }
    }
}
