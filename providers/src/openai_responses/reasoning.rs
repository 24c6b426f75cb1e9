//! Carries reasoning items and message phases from one request to the next.
//!
//! The server keeps no state, so a reasoning item must go back unchanged: its id, its sealed
//! content and its summary. All three travel as the signature of the neutral part, compact JSON
//! with exactly the members `id`, `encrypted_content` and `summary`. The text of the part is for
//! people and is not sent. Reasoning that its server did not seal (as with local servers) cannot go
//! back: the API refuses an item with only an id that the server has no record of.
//!
//! The phase of a message (`commentary`, `final_answer`) must go back on that message. It travels
//! as reasoning without text directly before the message's text: JSON with the one member `phase`.

use serde_json::{Map, Value, json};

/// The members, in the order of writing.
const MEMBERS: [&str; 3] = ["id", "encrypted_content", "summary"];

/// The signature for an item; `None` for an item without sealed content.
pub(super) fn seal(item: &Value) -> Option<String> {
    sealed(item)?;
    let mut kept = Map::new();
    for name in MEMBERS {
        if let Some(value) = item.get(name).filter(|value| !value.is_null()) {
            kept.insert(name.into(), value.clone());
        }
    }
    Some(Value::Object(kept).to_string())
}

/// The item of a signature; `None` for one that came over another wire.
pub(super) fn unseal(signature: &str) -> Option<Value> {
    let mut kept: Value = serde_json::from_str(signature).ok()?;
    sealed(&kept)?;
    let mut item = Map::new();
    item.insert("type".into(), "reasoning".into());
    for name in MEMBERS {
        if let Some(value) = kept.get_mut(name).map(Value::take) {
            item.insert(name.into(), value);
        }
    }
    item.entry("summary").or_insert_with(|| Value::Array(Vec::new()));
    Some(Value::Object(item))
}

/// The signature that carries the phase of a message, if it has one.
pub(super) fn seal_phase(message: &Value) -> Option<String> {
    let phase = message.get("phase")?.as_str().filter(|phase| !phase.is_empty())?;
    Some(json!({ "phase": phase }).to_string())
}

/// The phase that a signature carries; `None` for any other signature.
pub(super) fn unseal_phase(signature: &str) -> Option<String> {
    let Value::Object(members) = serde_json::from_str(signature).ok()? else { return None };
    let phase = members.get("phase")?.as_str().filter(|phase| !phase.is_empty())?;
    (members.len() == 1).then(|| phase.to_owned())
}

fn sealed(item: &Value) -> Option<&str> {
    item.get("encrypted_content")?.as_str().filter(|sealed| !sealed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_goes_back_as_it_came() {
        let signature = seal_phase(&json!({ "type": "message", "phase": "commentary" })).unwrap();
        assert_eq!(signature, r#"{"phase":"commentary"}"#);
        assert_eq!(unseal_phase(&signature).as_deref(), Some("commentary"));
        assert_eq!(unseal(&signature), None);
        for message in [json!({}), json!({ "phase": null }), json!({ "phase": "" })] {
            assert_eq!(seal_phase(&message), None, "{message}");
        }
        for other in ["", "RXJ==", "7", "{}", r#"{"phase":""}"#, r#"{"phase":"x","id":"rs_1"}"#] {
            assert_eq!(unseal_phase(other), None, "{other}");
        }
    }

    #[test]
    fn an_item_goes_back_as_it_came() {
        let summary = json!([{ "type": "summary_text", "text": "**Thinking** ä\n" }]);
        let item = json!({ "type": "reasoning", "id": "rs_1", "status": null, "content": [],
            "encrypted_content": "gAAA=", "summary": summary });
        let signature = seal(&item).unwrap();
        assert_eq!(
            signature,
            r#"{"id":"rs_1","encrypted_content":"gAAA=","summary":[{"type":"summary_text","text":"**Thinking** ä\n"}]}"#
        );
        let back = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA=",
            "summary": summary });
        assert_eq!(unseal(&signature).unwrap().to_string(), back.to_string());
        let bare = unseal(&seal(&json!({ "encrypted_content": "x", "id": null })).unwrap());
        let expected = json!({ "type": "reasoning", "encrypted_content": "x", "summary": [] });
        assert_eq!(bare, Some(expected));
    }

    #[test]
    fn unsealed_reasoning_is_not_sent() {
        for item in [
            json!({ "id": "rs_1", "summary": [] }),
            json!({ "id": "rs_1", "encrypted_content": "" }),
            json!({ "id": "rs_1", "encrypted_content": null }),
            json!(7),
        ] {
            assert_eq!(seal(&item), None, "{item}");
        }
        for signature in ["", "reasoning_content", "RXJ==", "7", "{}", r#"{"id":"rs_1"}"#] {
            assert_eq!(unseal(signature), None, "{signature}");
        }
    }
}
