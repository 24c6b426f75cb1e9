//! The stdio transport: one message a line. An unreadable answer becomes an error of the request
//! that it answers, so the caller does not wait until the call's time limit.

use std::sync::Arc;

use leftfold_framing::{Line, MAX_VALUES, is_too_dense, next_line, surrogates};
use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex, mpsc};

/// Longest line in bytes that is read in full. Of a longer line only the beginning and the end are
/// examined.
const LONGEST: usize = 16 * 1_024 * 1_024;

/// Capacity of the queue of received messages.
const QUEUE: usize = 16;

/// Error code that stands for an unreadable answer. No server sends it.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(-32_098);

pub(super) struct Pipes {
    input: Arc<Mutex<Option<ChildStdin>>>,
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
}

impl Pipes {
    pub(super) fn new(stdout: ChildStdout, stdin: ChildStdin) -> Self {
        let (sender, messages) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let taken = sender.clone();
            tokio::select! {
                () = read(BufReader::new(stdout), sender) => {}
                () = taken.closed() => {}
            }
        });
        Self { input: Arc::new(Mutex::new(Some(stdin))), messages }
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), std::io::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let input = input.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
            input.write_all(&line).await?;
            input.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), std::io::Error> {
        self.messages.close();
        *self.input.lock().await = None;
        Ok(())
    }
}

/// Reads messages until the output ends or cannot be read any more.
async fn read(mut from: impl AsyncBufRead + Unpin, to: mpsc::Sender<ServerJsonRpcMessage>) {
    loop {
        let line = match next_line(&mut from, LONGEST).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!("a server's output cannot be read: {error}");
                return;
            }
        };
        let message = match &line {
            Line::Whole(line) => message(line),
            Line::TooLong { first, last, length } => too_long(first, last, *length),
            Line::Unfinished(_) => return,
        };
        if let Some(message) = message
            && to.send(message).await.is_err()
        {
            return;
        }
    }
}

/// Parses a line. `None` if it is not a message and answers no request.
pub(super) fn message(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let text = String::from_utf8_lossy(line.trim_ascii());
    let text = text.trim_start_matches('\u{feff}');
    if text.is_empty() {
        return None;
    }
    if is_too_dense(text.as_bytes()) {
        tracing::warn!("a server's message of too many values is ignored");
        let why = format!("it has more than {MAX_VALUES} values");
        return answered(text.as_bytes(), text.as_bytes()).map(|id| unreadable(id, why));
    }
    let text = surrogates::repair(text);
    let error = match serde_json::from_str(&text) {
        Ok(message) => return Some(message),
        Err(error) => error,
    };
    let answers = match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.get("method").is_some() => None,
        Ok(value) => value.get("id").and_then(id),
        Err(_) => answered(text.as_bytes(), text.as_bytes()),
    };
    tracing::debug!(answers = answers.is_some(), "a server's line is no message: {error}");
    answers.map(|id| unreadable(id, error.to_string()))
}

fn too_long(first: &[u8], last: &[u8], length: usize) -> Option<ServerJsonRpcMessage> {
    tracing::warn!("a server's line of {length} bytes is ignored");
    let why = format!("it has {length} bytes; at most {LONGEST} are read");
    answered(first, last).map(|id| unreadable(id, why))
}

fn unreadable(id: RequestId, why: String) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(UNREADABLE, why, None), Some(id))
}

fn id(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.clone()).ok()
}

/// Finds the request that an overlong line answers, from its beginning and its end. Some servers
/// write the id first, some last.
fn answered(first: &[u8], last: &[u8]) -> Option<RequestId> {
    let mut known = MessageHead::default();
    // this always ends in an error, at the latest where the text is cut
    let _ = serde_json::Deserializer::from_slice(first).deserialize_map(&mut known);
    if !known.is_answer {
        return None;
    }
    known.id.or_else(|| {
        let last = String::from_utf8_lossy(last);
        let object: Value =
            serde_json::from_str(&format!("{{{}", &last[last.rfind("\"id\"")?..])).ok()?;
        id(&object["id"])
    })
}

/// The fields found at the beginning of a message.
#[derive(Default)]
struct MessageHead {
    id: Option<RequestId>,
    is_answer: bool,
}

impl<'de> Visitor<'de> for &mut MessageHead {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => self.id = id(&map.next_value()?),
                "result" | "error" => {
                    self.is_answer = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;
    use rmcp::model::NumberOrString;

    use super::*;

    /// The id of the request that is told that its answer cannot be read.
    fn failed(message: Option<ServerJsonRpcMessage>) -> Option<String> {
        let JsonRpcMessage::Error(error) = message? else { panic!("it was read") };
        assert_eq!(error.error.code, UNREADABLE);
        Some(error.id.unwrap().to_string())
    }

    #[test]
    fn an_answer_that_can_not_be_read_fails_its_request() {
        let deep = format!("{{\"id\":8,\"result\":{}{}}}", "[".repeat(500), "]".repeat(500));
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#, Some("1")),
            (r#"{"result":{"x":NaN},"jsonrpc":"2.0","id":2}"#, Some("2")),
            (r#"{"result":{"x":NaN},"id":"a","jsonrpc":"2.0"}"#, Some("a")),
            (r#"{"id":3,"result":{}}"#, Some("3")),
            (r#"{"jsonrpc":"2.0","id":4,"error":"no object"}"#, Some("4")),
            (&deep, Some("8")),
            (r#"{"jsonrpc":"2.0","id":5,"method":"x","params":{"x":NaN}}"#, None),
            (r#"{"jsonrpc":"2.0","id":6,"method":"ping","result":7}"#, None),
            // keys count as they are written: another reader may take these for others
            (r#"{"jsonrpc":"2.0","ID":7,"RESULT":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":9,"Result":{"content":[]}}"#, Some("9")),
            ("Listening on stdio", None),
            ("", None),
            ("{", None),
        ] {
            assert_eq!(failed(message(line.as_bytes())).as_deref(), id, "{line}");
        }
    }

    #[test]
    fn what_can_be_read_is() {
        let text = |line: &[u8]| {
            let Some(JsonRpcMessage::Response(answer)) = message(line) else { panic!("{line:?}") };
            assert_eq!(answer.id, NumberOrString::Number(1));
            serde_json::to_value(answer.result).unwrap()["content"][0]["text"].clone()
        };
        for (said, read) in [
            (&br"a \ud83d b"[..], "a \u{fffd} b"),
            (b"a \xff b", "a \u{fffd} b"),
            ("größe".as_bytes(), "größe"),
        ] {
            let (first, last) = (
                br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":""#,
                br#""}]}}"#,
            );
            assert_eq!(text(&[first, said, last].concat()), read);
            assert_eq!(text(&[b"\xef\xbb\xbf", &first[..], said, last, b"\r"].concat()), read);
        }
    }

    #[tokio::test]
    async fn lines_that_are_too_long_are_passed_over_and_fail_their_request() {
        let long = "x".repeat(LONGEST + 1);
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}\n\
             {{\"result\":\"{long}\",\"jsonrpc\":\"2.0\",\"id\":2}}\n\
             {{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"{long}\"}}\n{long}\n{{}}\nno end"
        );
        for size in [1 << 16, (1 << 20) + 7] {
            let mut from = BufReader::with_capacity(size, text.as_bytes());
            for id in [Some("1"), Some("2"), None, None] {
                let line = next_line(&mut from, LONGEST).await.unwrap();
                let Some(Line::TooLong { first, last, length }) = line else {
                    panic!("it was read");
                };
                assert!(first.len() + last.len() < 10_000 && length >= LONGEST);
                assert_eq!(failed(too_long(&first, &last, length)).as_deref(), id);
            }
            let mut next = async || next_line(&mut from, LONGEST).await.unwrap();
            assert_eq!(next().await, Some(Line::Whole(b"{}".to_vec())));
            assert_eq!(next().await, Some(Line::Unfinished(b"no end".to_vec())));
            assert_eq!(next().await, None);
        }
    }
}
