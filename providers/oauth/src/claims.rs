//! Claims of tokens that are JSON Web Tokens. Their signature is not checked: they come from the authorization server
//! itself, over TLS, and decide nothing here.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

/// The claims of a token; `None` if it is no JSON Web Token.
pub(crate) fn from_token(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The text at one of these places, the first that has one.
pub(crate) fn text(claims: &Value, places: &[&[&str]]) -> Option<String> {
    let at = |place: &&[&str]| {
        let found = place.iter().try_fold(claims, |value, name| value.get(name))?;
        found.as_str().filter(|text| is_id(text)).map(str::to_owned)
    };
    places.iter().find_map(at)
}

/// Whether this may be sent as the id of an account.
fn is_id(text: &str) -> bool {
    (1..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_read_from_the_middle_of_a_token() {
        let claims = json!({ "a": { "b": "acc-1" }, "c": "bad\nid", "exp": 5 });
        let token = format!("h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
        let read = from_token(&token).unwrap();
        assert_eq!(read, claims);
        assert_eq!(text(&read, &[&["x"], &["a", "b"]]).as_deref(), Some("acc-1"));
        assert_eq!(text(&read, &[&["c"], &["a"], &["exp"]]), None);
        for no_token in ["", "a.b", "gho_opaque", "a.!.c", "a.bm8.c"] {
            assert_eq!(from_token(no_token), None, "{no_token}");
        }
    }
}
