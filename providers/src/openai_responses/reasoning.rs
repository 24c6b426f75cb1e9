//! A reasoning item between two requests.
//!
//! With nothing kept at the server, an item of reasoning has to go back as it came: its id, what
//! the server has sealed of it, and its summary. All three travel as the signature of the neutral
//! part, compact JSON of exactly the members `id`, `encrypted_content` and `summary`. The text of
//! the part is for people and is not sent.

use serde_json::{Map, Value};

/// The members, in the order in which they are written.
const MEMBERS: [&str; 3] = ["id", "encrypted_content", "summary"];

/// The signature for an item; `None` for one that only its server could find again.
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

fn sealed(item: &Value) -> Option<&str> {
    item.get("encrypted_content")?.as_str().filter(|sealed| !sealed.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn what_nobody_sealed_is_not_sent() {
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
