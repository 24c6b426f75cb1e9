//! Properties of a client's messages that hold for any input: those of the Agent Client Protocol, and those at the socket.

use agent_client_protocol::TransportFrame;
use futures::FutureExt;
use leftfold_acp::{Incoming, next_frame};
use leftfold_runtime::remote::{answer, request};
use leftfold_runtime::socket::is_leftfold_method;
use serde_json::{Value, json};

/// Input: lines of a client. Each line that is not empty comes out once: as its message, or refused with an error for
/// its id. A batch is malformed. The lines are also given to [`socket_line`].
///
/// # Errors
/// The property that does not hold.
pub fn json_rpc(data: &[u8]) -> Result<(), String> {
    let mut input = data;
    for line in data.split(|byte| *byte == b'\n') {
        socket_line(line)?;
        // the reader accepts a form feed as part of an empty line
        let is_empty = str::from_utf8(line).is_ok_and(|line| line.trim().is_empty());
        if is_empty {
            continue;
        }
        let read = next_frame(&mut input).now_or_never().flatten();
        let Some((read, _)) = read else {
            return Err(format!("{} was passed over", String::from_utf8_lossy(line)));
        };
        message(line, &read)
            .map_err(|wrong| format!("{}: {wrong}", String::from_utf8_lossy(line)))?;
    }
    match next_frame(&mut input).now_or_never() {
        Some(None) => Ok(()),
        Some(Some(_)) | None => Err("there is more than the lines".to_owned()),
    }
}

fn message(line: &[u8], read: &Incoming) -> Result<(), String> {
    // of a lone surrogate the reader makes a replacement
    let sent = serde_json::from_slice::<Value>(line).ok();
    let is_request = sent.as_ref().is_some_and(|sent| {
        let id = &sent["id"];
        sent["jsonrpc"] == "2.0"
            && sent["method"].is_string()
            && (id.is_string() || id.is_i64() || id.is_u64())
            && matches!(sent.get("params"), None | Some(Value::Object(_) | Value::Array(_)))
            && sent.get("result").is_none()
            && sent.get("error").is_none()
    });
    let id = sent.as_ref().map(|sent| sent["id"].clone()).unwrap_or_default();
    let method = sent.as_ref().and_then(|sent| sent["method"].as_str()).unwrap_or_default();
    let (frame, is_refused) = match read {
        Incoming::Leftfold(_) if is_leftfold_method(method) || sent.is_none() => return Ok(()),
        Incoming::Leftfold(_) => return Err("it is none of the node's methods".to_owned()),
        Incoming::Refused(answer) => (answer, true),
        Incoming::Frame(frame) => (frame, false),
    };
    let batch = sent.as_ref().is_some_and(Value::is_array);
    let TransportFrame::Single(message) = frame else {
        let TransportFrame::Malformed { error, .. } = frame else {
            return Err("it is a frame of another kind".to_owned());
        };
        let code = i32::from(error.code);
        if is_request || is_refused || !matches!(code, -32700 | -32600) {
            return Err(format!("it is malformed: {error:?}"));
        }
        if batch && !json!(error).to_string().contains("batch") {
            return Err(format!("the error does not name the batch: {error:?}"));
        }
        return Ok(());
    };
    let message = serde_json::to_value(message).unwrap_or_default();
    let Some(sent) = sent else { return Ok(()) };
    if is_refused {
        let is_error = message["error"]["message"].is_string() && message.get("result").is_none();
        if message["id"] != id || !is_error {
            return Err(format!("it is refused with {message}"));
        }
    } else if batch || message["id"] != id || message["method"] != sent["method"] {
        return Err(format!("it became {message}"));
    }
    Ok(())
}

/// Input: one line of a client. It is a request, or an error whose answer has the request's id. The answer is one line
/// of JSON and does not repeat the line.
fn socket_line(line: &[u8]) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(line).into_owned();
    let sent = serde_json::from_slice::<Value>(line).ok();
    let is_object = sent.as_ref().is_some_and(Value::is_object);
    let id = sent.as_ref().and_then(|sent| sent.get("id")).cloned();
    let usable = id.clone().filter(|id| id.is_string() || id.is_number());
    let error = match request(line) {
        Ok(request) if is_object && request.id == id => return Ok(()),
        Ok(request) => return Err(format!("{} became {request:?}", shown())),
        Err((answer_to, error)) => {
            let expected = usable.unwrap_or_default();
            if answer_to != expected {
                return Err(format!("{} is answered to {answer_to}: {error}", shown()));
            }
            answer(&answer_to, Err(error))
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
