//! Properties of the socket's messages that hold for any line, checked by `tests/fuzz`.

use serde_json::Value;

use crate::remote::wire;

/// Input: one line of a client. It is a request, or an error whose answer has the request's id. The answer is one line
/// of JSON and does not repeat the line.
///
/// # Errors
/// The property that does not hold.
pub fn socket_line(line: &[u8]) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(line).into_owned();
    let sent = serde_json::from_slice::<Value>(line).ok();
    let is_object = sent.as_ref().is_some_and(Value::is_object);
    let id = sent.as_ref().and_then(|sent| sent.get("id")).cloned();
    let usable = id.clone().filter(|id| id.is_string() || id.is_number());
    let error = match wire::request(line) {
        Ok(request) if is_object && request.id == id => return Ok(()),
        Ok(request) => return Err(format!("{} became {request:?}", shown())),
        Err((answer_to, error)) => {
            let expected = usable.unwrap_or_default();
            if answer_to != expected {
                return Err(format!("{} is answered to {answer_to}: {error}", shown()));
            }
            wire::answer(&answer_to, Err(error))
        }
    };
    let answer: Value = serde_json::from_slice(&error)
        .map_err(|bad| format!("{} is answered with {error:?}: {bad}", shown()))?;
    let code = answer["error"]["code"].as_i64().unwrap_or_default();
    let ends = error.iter().filter(|byte| **byte == b'\n').count() == 1 && error.ends_with(b"\n");
    if !ends || !matches!(code, -32700 | -32600) || error.len() > line.len() * 6 + 1_000 {
        return Err(format!("{} is answered with {answer}", shown()));
    }
    Ok(())
}
