//! JSON-RPC 2.0, one object on a line.

use leftfold_events::state::Figures;
use leftfold_events::{Seq, SessionId};
use leftfold_framing::{MAX_VALUES, is_too_dense};
use leftfold_view::Notification;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::quota::QuotaReached;
use crate::redact_output;

/// The longest line from a client, in bytes.
pub(crate) const MAX_LINE: usize = 16 << 20;

const LEAVING: i64 = -32001;
/// The request waits in an inbox, and nobody can take it now.
const WAITS: i64 = -32004;
/// Only a person may do this, and the client acts for a call.
const ONLY_PEOPLE: i64 = -32003;
/// A quota of the project is used up, and nothing was done.
const QUOTA: i64 = -32005;
const PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
}

impl RpcError {
    pub fn parse(why: impl std::fmt::Display) -> Self {
        Self { code: -32700, message: format!("this line is not a JSON object: {why}") }
    }

    pub fn request(why: impl Into<String>) -> Self {
        Self { code: -32600, message: why.into() }
    }

    pub fn method(method: &str, known: &[&str]) -> Self {
        let method: String = method.chars().take(100).collect();
        let message =
            format!("there is no method `{method}`: the methods are {}", known.join(", "));
        Self { code: -32601, message }
    }

    pub fn params(why: impl Into<String>) -> Self {
        Self { code: PARAMS, message: why.into() }
    }

    pub fn internal(why: impl std::fmt::Display) -> Self {
        Self { code: INTERNAL, message: redact_output::clean(&why.to_string()).into_owned() }
    }

    /// An internal error; an [`RpcError`] stays as it is.
    pub fn from_error(error: anyhow::Error) -> Self {
        if error.is::<QuotaReached>() {
            return Self { code: QUOTA, ..Self::internal(error) };
        }
        error.downcast::<Self>().unwrap_or_else(|error| Self::internal(format!("{error:#}")))
    }

    /// The session is not open here.
    pub fn not_open(session: impl std::fmt::Display) -> Self {
        Self { code: -32000, message: format!("session {session} is not open in this node") }
    }

    /// The node is about to release the session, and did nothing.
    pub fn leaving(why: impl Into<String>) -> Self {
        Self { code: LEAVING, message: why.into() }
    }

    /// The request waits for a node that can take it.
    pub fn waits(why: impl Into<String>) -> Self {
        Self { code: WAITS, message: why.into() }
    }

    /// The client acts for a call; nothing was done.
    pub fn only_people(method: &str) -> Self {
        Self { code: ONLY_PEOPLE, message: crate::only_people::refusal(method) }
    }

    /// Whether the parameters of the request are wrong.
    pub fn is_params(&self) -> bool {
        self.code == PARAMS
    }

    /// Whether a quota of the project is used up.
    pub fn is_quota(&self) -> bool {
        self.code == QUOTA
    }

    /// Whether the request could not be judged: it may succeed when it is made again.
    pub fn is_internal(&self) -> bool {
        self.code == INTERNAL
    }

    /// Whether the node refused because it is about to release the session.
    pub fn is_leaving(&self) -> bool {
        self.code == LEAVING
    }
}

/// A client's request.
#[derive(Debug)]
pub struct Request {
    /// `None`: a notification, which gets no answer.
    pub id: Option<Value>,
    pub method: String,
    pub params: Value,
}

/// Reads a request.
///
/// # Errors
/// The line is no request. The id for the answer comes with the error.
pub fn request(line: &[u8]) -> Result<Request, (Value, RpcError)> {
    if is_too_dense(line) {
        let why = format!("the line has more than {MAX_VALUES} values");
        return Err((Value::Null, RpcError::request(why)));
    }
    let value = serde_json::from_slice(line).map_err(|e| (Value::Null, RpcError::parse(e)))?;
    let Value::Object(mut object) = value else {
        let why = "a request is one JSON object; batches are not supported";
        return Err((Value::Null, RpcError::request(why)));
    };
    let id = object.remove("id");
    let answer_to = match &id {
        None | Some(Value::Null | Value::String(_) | Value::Number(_)) => {
            id.clone().unwrap_or_default()
        }
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            let why = "`id` must be a string or a number";
            return Err((Value::Null, RpcError::request(why)));
        }
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err((answer_to, RpcError::request(r#"`jsonrpc` must be "2.0""#)));
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return Err((answer_to, RpcError::request("`method` must be a string")));
    };
    let params = object.remove("params").unwrap_or_else(|| json!({}));
    Ok(Request { id, method, params })
}

/// Reads the parameters of a method; the error names the field.
pub(crate) fn params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { String::new() } else { format!("`{path}`: ") };
        RpcError::params(format!("params: {at}{}", error.into_inner()))
    })
}

/// Reads a field that tells `null` from its absence.
///
/// # Errors
/// It has another type.
pub fn nullable<'de, D, T>(field: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(field).map(Some)
}

/// The line of an answer, with its end.
pub fn answer(id: &Value, result: Result<Value, RpcError>) -> Vec<u8> {
    let answer = match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    };
    format!("{}\n", redact_output::masked(&answer.to_string())).into_bytes()
}

const EVENT: &str = r#"{"jsonrpc":"2.0","method":"_leftfold/event","params":"#;

/// Appends the notification for a line of an export, with its end.
pub(crate) fn event(line: &str, to: &mut Vec<u8>) {
    [EVENT, line, "}\n"].into_iter().for_each(|text| to.extend_from_slice(text.as_bytes()));
}

/// The line in such a notification, byte for byte.
pub fn carried(notification: &str) -> Option<&str> {
    notification.strip_prefix(EVENT)?.strip_suffix('}')
}

/// Appends a notification that follows from the event `seq`, with its end.
pub(crate) fn derived(session: SessionId, seq: Seq, news: &Notification, to: &mut Vec<u8>) {
    let (method, mut params) = match news {
        Notification::Status(status) => ("_leftfold/status", json!(status)),
        Notification::Diff(files) => {
            let Figures { additions, deletions, .. } = Figures::from_files(files.iter());
            let params = json!({ "additions": additions, "deletions": deletions, "files": files });
            ("_leftfold/diff", params)
        }
        Notification::Removed(messages) => ("_leftfold/removed", json!({ "messages": messages })),
        Notification::Returned(messages) => ("_leftfold/returned", json!({ "messages": messages })),
    };
    params["session"] = json!(session);
    params["seq"] = json!(seq);
    let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    to.extend_from_slice(format!("{line}\n").as_bytes());
}

pub(crate) const RESTED_METHOD: &str = "_leftfold/rested";
const RESTED: &str = r#"{"jsonrpc":"2.0","method":"_leftfold/rested","params":{}}"#;

/// The notification that the node releases the store because all its sessions rest, with its end.
pub(crate) fn rested() -> Vec<u8> {
    [RESTED, "\n"].concat().into_bytes()
}

pub(crate) fn is_rested(notification: &str) -> bool {
    notification == RESTED
}

/// Characters to keep of a client's own name.
const NAME: usize = 100;

/// The name in the log of the client `name` in process `pid`.
pub fn name_of(name: &str, pid: Option<i32>) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME).collect();
    match pid {
        Some(pid) => format!("{name} (pid {pid})"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_none_say_what_is_wrong() {
        for (line, id, code, part) in [
            (r#"{"jsonrpc":"2.0""#, json!(null), -32700, "not a JSON object"),
            ("\u{0}", json!(null), -32700, "not a JSON object"),
            ("[]", json!(null), -32600, "batches"),
            (r#"{"id":7,"method":"x"}"#, json!(7), -32600, "`jsonrpc`"),
            (r#"{"id":{},"jsonrpc":"2.0","method":"x"}"#, json!(null), -32600, "`id`"),
            (r#"{"id":"a","jsonrpc":"2.0","method":1}"#, json!("a"), -32600, "`method`"),
        ] {
            let (found, error) = request(line.as_bytes()).unwrap_err();
            assert_eq!((found, error.code), (id, code), "{line}");
            assert!(error.message.contains(part), "{error}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(request(deep.as_bytes()).unwrap_err().1.code, -32700);
    }

    #[test]
    fn params_errors_name_the_field() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its form counts")]
        struct ReadParams {
            from: u64,
        }
        let wrong = params::<ReadParams>(json!({ "from": "x" })).unwrap_err();
        assert!(wrong.message.contains("`from`"), "{wrong}");
        let missing = params::<ReadParams>(json!({})).unwrap_err();
        assert!(missing.message.contains("`from`"), "{missing}");
    }
}
