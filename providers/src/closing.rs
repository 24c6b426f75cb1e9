//! Answers calls whose results are missing, because no API accepts a request with open calls.
//!
//! This is a safety net for release builds and logs a warning. Debug builds refuse such a request
//! (`request_checks/`).

use std::borrow::Cow;

use leftfold_events::Request;
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};

/// The result that stands in for a missing one.
const LOST: &str = "The result of this call is not known: it was lost. Look at how things are \
    before you call the tool again.";

/// The request with one result for each of its calls, in its place.
pub(crate) fn closed(request: &Request) -> Cow<'_, Request> {
    if is_closed(&request.messages) {
        return Cow::Borrowed(request);
    }
    tracing::warn!("a request had calls without their results, which were added");
    Cow::Owned(Request { messages: close(&request.messages), ..request.clone() })
}

pub(crate) fn is_closed(messages: &[RequestMessage]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if let RequestMessage::Tool { results } = message {
            let answered = results.iter().map(|result| result.call.as_str());
            if open.is_empty() || !answered.eq(open.drain(..)) {
                return false;
            }
            continue;
        }
        if !open.is_empty() {
            return false;
        }
        open = calls(message).map(|(id, _)| id).collect();
    }
    open.is_empty()
}

/// Moves each result to directly after its call. Drops results without a call, and adds [`LOST`]
/// for calls without a result.
fn close(messages: &[RequestMessage]) -> Vec<RequestMessage> {
    let mut closed = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let RequestMessage::Tool { .. } = message {
            continue;
        }
        closed.push(message.clone());
        let mut found = following(&messages[at + 1..]);
        let results: Vec<ToolResult> = calls(message)
            .map(|(id, name)| match found.iter().position(|result| result.call == id) {
                Some(at) => found.remove(at).clone(),
                None => lost(id, name),
            })
            .collect();
        if !results.is_empty() {
            closed.push(RequestMessage::Tool { results: results.into() });
        }
    }
    closed
}

/// All results up to the model's next answer.
fn following(messages: &[RequestMessage]) -> Vec<&ToolResult> {
    let mut found = Vec::new();
    for message in messages {
        match message {
            RequestMessage::Assistant { .. } => break,
            RequestMessage::Tool { results } => found.extend(results.iter()),
            RequestMessage::User { .. } => {}
        }
    }
    found
}

fn calls(message: &RequestMessage) -> impl Iterator<Item = (&str, &str)> {
    let parts = match message {
        RequestMessage::Assistant { parts } => &**parts,
        RequestMessage::User { .. } | RequestMessage::Tool { .. } => [].as_slice(),
    };
    parts.iter().filter_map(|part| match part {
        AssistantPart::Call { id, name, .. } => Some((id.as_str(), name.as_str())),
        AssistantPart::Text { .. } | AssistantPart::Reasoning { .. } => None,
    })
}

fn lost(id: &str, name: &str) -> ToolResult {
    ToolResult {
        call: id.to_owned(),
        name: name.to_owned(),
        output: LOST.into(),
        is_error: true,
        attachments: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(value: Value) -> Vec<RequestMessage> {
        serde_json::from_value(value).unwrap()
    }

    fn result(id: &str, output: &str) -> Value {
        json!({"call":id,"name":"t","output":output,"is_error":output == LOST,"attachments":[]})
    }

    #[test]
    fn each_call_is_answered_once_and_in_place() {
        let call = |id: &str| json!({"type":"call","id":id,"name":"t","input":{}});
        let user =
            json!({"role":"user","parts":[{"type":"text","text":"go","mime":null,"name":null}]});
        let two = json!({"role":"assistant","parts":[call("a"), call("b")]});
        let text = json!({"role":"assistant","parts":[{"type":"text","text":"done"}]});
        let tool = |results: &[&Value]| json!({"role":"tool","results":results});
        let (a, b) = (result("a", "1"), result("b", "2"));
        let good = json!([user, two, tool(&[&a, &b]), text, user]);
        assert!(is_closed(&messages(good.clone())));
        for bad in [
            json!([user, two, tool(&[&b, &a]), text, user]),
            json!([user, two, tool(&[&a]), tool(&[&b]), text, user]),
            json!([user, two, tool(&[&a, &b, &b]), text, user]),
            json!([user, tool(&[&a]), two, tool(&[&a, &b]), text, user]),
        ] {
            assert!(!is_closed(&messages(bad.clone())), "{bad}");
            assert_eq!(close(&messages(bad.clone())), messages(good.clone()), "{bad}");
        }
        for (bad, results) in [
            (json!([user, two, tool(&[&b])]), [result("a", LOST), b.clone()]),
            (json!([user, two]), [result("a", LOST), result("b", LOST)]),
        ] {
            assert!(!is_closed(&messages(bad.clone())), "{bad}");
            let expected = messages(json!([user, two, tool(&results.each_ref())]));
            assert_eq!(close(&messages(bad)), expected);
        }
        let queued = close(&messages(json!([user, two, user, tool(&[&b])])));
        let expected = json!([user, two, tool(&[&result("a", LOST), &b]), user]);
        assert_eq!(queued, messages(expected));
    }
}
