//! Reads and writes frames on a connection: one JSON-RPC message on a line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::CLIENT_METHOD_NAMES;
use agent_client_protocol::{Channel, Error, RawJsonRpcId, RawJsonRpcMessage, TransportFrame};
use futures::FutureExt;
use futures::channel::mpsc::UnboundedSender;
use futures::stream::{Stream, StreamExt, select, unfold};
use leftfold_framing::surrogates::repair;
use leftfold_framing::{Line, MAX_VALUES, is_too_dense, next_line};
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::flow::{Flow, ReadBudget, Written};
use super::params;
use super::shared::{Caller, NAME};
use leftfold_runtime::redact_output;
use leftfold_runtime::socket::{self, QUEUE, Sessions};

/// The longest line that is read, in bytes: a prompt with some images. The rest of a longer line is
/// skipped.
pub(super) const LONGEST: usize = 32 << 20;

/// The bytes that a skipped line counts for.
const HEAD: usize = 4 << 10;

/// The two tasks that read and write.
pub(super) struct Wire {
    flow: Flow,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    broken: oneshot::Receiver<io::Error>,
}

impl Wire {
    pub(super) fn flow(&self) -> Flow {
        self.flow.clone()
    }

    /// Waits until the output can no longer be written.
    pub(super) async fn broken(&mut self) -> String {
        match (&mut self.broken).await {
            Ok(error) => error.to_string(),
            // A writer that ends in good order is not broken.
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends the connection at once: what waits is not written.
    pub(super) async fn cut(self) {
        for task in [self.reader, self.writer] {
            task.abort();
            // it was aborted, or had ended
            let _ = task.await;
        }
    }

    /// Waits until the writer has written everything in its queue.
    pub(super) async fn drain(self, patience: Duration) {
        self.reader.abort();
        if tokio::time::timeout(patience, self.writer).await.is_err() {
            tracing::warn!("the client did not read all output");
        }
    }
}

/// The connection's end of two streams of bytes. `sessions` answers the node's methods besides the
/// protocol's.
pub(super) fn connect(
    sessions: Arc<dyn Sessions>,
    caller: &Caller,
    input: impl AsyncBufRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> (Channel, Wire) {
    let (ours, theirs) = Channel::duplex();
    let (incoming, outgoing) = (ours.tx, ours.rx);
    let (refuse, refusals) = futures::channel::mpsc::unbounded();
    let (ask, asked) = mpsc::channel(QUEUE);
    let (answers, answered) = mpsc::channel(QUEUE);
    let (count, written) = watch::channel(Written::default());
    let taken = ReadBudget::new(written.clone());
    let reader = tokio::spawn(read(input, incoming, refuse, ask, taken));
    tokio::spawn(socket::serve_lines(sessions, (NAME, caller.pid), asked, answers));
    let (breaks, broken) = oneshot::channel();
    let lines = unfold(answered, async |mut answered| Some((answered.recv().await?, answered)));
    let frames = select(outgoing, refusals).map(Outgoing::Frame);
    let out = select(frames, Box::pin(lines).map(Outgoing::Line));
    let writer = tokio::spawn(async move {
        if let Err(error) = write(output, out, &count).await {
            // The receiver may be gone already.
            let _ = breaks.send(error);
        }
    });
    let flow = Flow::new(written);
    (theirs, Wire { flow, reader, writer, broken })
}

async fn read(
    mut input: impl AsyncBufRead + Unpin,
    incoming: UnboundedSender<TransportFrame>,
    refuse: UnboundedSender<TransportFrame>,
    ask: mpsc::Sender<Vec<u8>>,
    mut taken: ReadBudget,
) {
    while let Some((read, bytes)) = next_frame(&mut input).await {
        let (to, request, frame) = match read {
            Incoming::Leftfold(line) => {
                if ask.send(line).await.is_err() {
                    return;
                }
                continue;
            }
            Incoming::Frame(frame) => (&incoming, is_request(&frame), frame),
            Incoming::Refused(answer) => (&refuse, is_answer(&answer), answer),
        };
        taken.take(request, bytes);
        if to.unbounded_send(frame).is_err() {
            return;
        }
        taken.room().await;
    }
}

/// The output.
enum Outgoing {
    Frame(TransportFrame),
    /// With its line end.
    Line(Vec<u8>),
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut out: impl Stream<Item = Outgoing> + Unpin,
    count: &watch::Sender<Written>,
) -> io::Result<()> {
    while let Some(first) = out.next().await {
        count.send_modify(|written| written.busy = true);
        let mut next = Some(first);
        let (mut updates, mut answers) = (0, 0);
        while let Some(line) = next {
            match line {
                Outgoing::Line(line) => output.write_all(&line).await?,
                Outgoing::Frame(frame) => {
                    updates += u64::from(is_update(&frame));
                    answers += u64::from(is_answer(&frame));
                    match frame.to_json() {
                        Ok(line) => {
                            let line = redact_output::masked(&line);
                            output.write_all(format!("{line}\n").as_bytes()).await?;
                        }
                        Err(error) => tracing::error!("cannot write a message: {error}"),
                    }
                }
            }
            next = out.next().now_or_never().flatten();
        }
        output.flush().await?;
        count.send_modify(|written| {
            written.updates += updates;
            written.answers += answers;
            written.busy = false;
        });
    }
    Ok(())
}

fn is_update(frame: &TransportFrame) -> bool {
    let TransportFrame::Single(RawJsonRpcMessage::Notification(notification)) = frame else {
        return false;
    };
    &*notification.method == CLIENT_METHOD_NAMES.session_update
}

/// Whether a frame is a request with an id.
fn is_request(frame: &TransportFrame) -> bool {
    let TransportFrame::Single(RawJsonRpcMessage::Request(request)) = frame else { return false };
    request.id != RawJsonRpcId::Null
}

/// Whether a frame answers a request with an id, or is an error for one.
fn is_answer(frame: &TransportFrame) -> bool {
    let TransportFrame::Single(RawJsonRpcMessage::Response(response)) = frame else {
        return false;
    };
    response.id() != &RawJsonRpcId::Null
}

/// The method of a request or a notification.
fn method(frame: &TransportFrame) -> Option<&str> {
    let TransportFrame::Single(message) = frame else { return None };
    if let RawJsonRpcMessage::Request(request) = message {
        return Some(&request.method);
    }
    let RawJsonRpcMessage::Notification(notification) = message else { return None };
    Some(&notification.method)
}

/// The content of an input line.
#[derive(Debug)]
pub enum Incoming {
    Frame(TransportFrame),
    /// A line with one of the node's methods besides the protocol's.
    Leftfold(Vec<u8>),
    /// Not passed on; this is the answer to it.
    Refused(TransportFrame),
}

/// The next line that is not empty, and its bytes; `None` at the end of input.
pub async fn next_frame(input: &mut (impl AsyncBufRead + Unpin)) -> Option<(Incoming, usize)> {
    loop {
        let line = match next_line(input, LONGEST).await {
            Ok(line) => line?,
            Err(error) => {
                tracing::error!("cannot read from the client: {error}");
                return None;
            }
        };
        let line = match line {
            Line::TooLong { first, length, .. } => {
                return Some((Incoming::Refused(too_long(&first, length)), HEAD));
            }
            Line::Whole(line) | Line::Unfinished(line) => line,
        };
        let text = match String::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                let what = format!("the line is not UTF-8: {}", error.utf8_error());
                let error = Error::parse_error().data(json!(what));
                let frame = TransportFrame::Malformed { raw: String::new(), error };
                return Some((Incoming::Frame(frame), HEAD));
            }
        };
        if text.trim().is_empty() {
            continue;
        }
        if is_too_dense(text.as_bytes()) {
            let what = format!("the line has more than {MAX_VALUES} values");
            let error = Error::invalid_request().data(json!(what));
            let answer = RawJsonRpcMessage::response(id_in(text.as_bytes()), Err(error));
            return Some((Incoming::Refused(TransportFrame::Single(answer)), HEAD));
        }
        let text = repair(&text);
        let (frame, bytes) = (parse(&text), text.len());
        let ours = method(&frame).is_some_and(socket::is_leftfold_method);
        let read = match params::refused(&frame) {
            _ if ours => Incoming::Leftfold(text.into_owned().into_bytes()),
            Some(answer) => Incoming::Refused(answer),
            None => Incoming::Frame(frame),
        };
        return Some((read, bytes));
    }
}

fn parse(text: &str) -> TransportFrame {
    let frame = TransportFrame::parse_json(text);
    let TransportFrame::Malformed { raw, error } = frame else { return frame };
    // The error says what is wrong and does not repeat the line.
    let error = match serde_json::from_str::<Value>(text) {
        Err(what) => Error::parse_error().data(json!(what.to_string())),
        Ok(_) => error,
    };
    TransportFrame::Malformed { raw, error }
}

fn too_long(head: &[u8], length: usize) -> TransportFrame {
    let what = format!("the line has {length} bytes; at most {LONGEST} are accepted");
    let error = Error::invalid_request().data(json!(what));
    TransportFrame::Single(RawJsonRpcMessage::response(id_in(head), Err(error)))
}

/// The id of a request of which only the beginning was read; null if the id comes later.
fn id_in(head: &[u8]) -> RawJsonRpcId {
    let mut id = RawJsonRpcId::Null;
    // The beginning always ends in an error, at its end.
    let _ = serde_json::Deserializer::from_slice(head).deserialize_map(IdOf(&mut id));
    id
}

struct IdOf<'a>(&'a mut RawJsonRpcId);

impl<'de> Visitor<'de> for IdOf<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "id" {
                *self.0 = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    #[tokio::test]
    async fn lines_end_with_a_newline_or_with_the_input() {
        let mut input = &b"{}\n\n{\"a\":"[..];
        for bytes in [2, 5] {
            assert_eq!(next_frame(&mut input).await.unwrap().1, bytes);
        }
        assert!(next_frame(&mut input).await.is_none());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let mut bytes = b"{\"method\":\"x\",\"id\":\"a\",\"params\":\"".to_vec();
        bytes.resize(LONGEST + 1, b'x');
        bytes.extend(b"\nnext\n");
        let mut input = BufReader::new(&bytes[..]);
        let Some((Incoming::Refused(answer), HEAD)) = next_frame(&mut input).await else {
            panic!("it was read");
        };
        let answer: Value = serde_json::from_str(&answer.to_json().unwrap()).unwrap();
        let what = format!("the line has {} bytes; at most {LONGEST} are accepted", LONGEST + 1);
        assert_eq!((&answer["id"], &answer["error"]["data"]), (&json!("a"), &json!(what)));
        assert_eq!(next_frame(&mut input).await.unwrap().1, "next".len());
    }

    #[tokio::test]
    async fn a_batch_of_very_many_requests_is_refused_before_it_is_parsed() {
        let batch = format!("[{}{{}}]\nnext\n", "{},".repeat(MAX_VALUES));
        let mut input = BufReader::new(batch.as_bytes());
        let Some((Incoming::Refused(answer), HEAD)) = next_frame(&mut input).await else {
            panic!("it was read");
        };
        let answer: Value = serde_json::from_str(&answer.to_json().unwrap()).unwrap();
        let what = format!("the line has more than {MAX_VALUES} values");
        assert_eq!((&answer["id"], &answer["error"]["data"]), (&Value::Null, &json!(what)));
        assert_eq!(next_frame(&mut input).await.unwrap().1, "next".len());
    }

    #[test]
    fn what_is_no_json_is_not_sent_back() {
        let deep = format!("{{\"secret\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
        for line in ["{\"secret\": ", &deep] {
            let TransportFrame::Malformed { error, .. } = parse(line) else { panic!() };
            assert_eq!(i32::from(error.code), -32700);
            assert!(!error.data.unwrap().to_string().contains("secret"));
        }
    }
}
