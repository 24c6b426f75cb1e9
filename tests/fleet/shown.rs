//! What servers show of sessions, in their messages and in their feeds.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use common::{STEP_TIMEOUT, Tally};
use serde_json::Value;

use crate::http_client::{Answered, SseReader};

pub(crate) const MESSAGES: &str = "servers that show other messages than the log has";
pub(crate) const FEEDS: &str = "feeds that sent other messages than the log has";

/// How long a server may take to answer: until after a takeover.
const LIMIT: Duration = Duration::from_secs(45);

/// `None`: the server was not there, or died before it had answered.
pub(crate) fn ask(
    port: u16,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<Option<Answered>> {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return Ok(None) };
    stream.set_read_timeout(Some(LIMIT))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    if stream.write_all(request.as_bytes()).is_err() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) if bytes.is_empty() => Ok(None),
        Ok(_) => Ok(Some(Answered::read(&bytes[..]))),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(error),
        Err(_) => Ok(None),
    }
}

pub(crate) fn get(port: u16, path: &str) -> Option<Value> {
    let answered = ask(port, "GET", path, "").ok()??;
    (answered.status < 300).then(|| answered.json())
}

/// The last state of each part that a feed has sent, by message and session.
pub(crate) type Sent = Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>;

/// Follows the feed of a server that may be killed, from its last frame on.
pub(crate) fn follow(port: u16, is_over: &Arc<AtomicBool>) -> Sent {
    let (sent, is_over) = (Sent::default(), Arc::clone(is_over));
    let parts = Arc::clone(&sent);
    thread::spawn(move || {
        let mut last = String::new();
        while !is_over.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(50));
            let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            let Ok(stream) = request_feed(stream, &last) else { continue };
            let mut feed = SseReader::new(stream);
            while let Some(frame) = feed.next() {
                if !frame.id.is_empty() {
                    last.clone_from(&frame.id);
                }
                let part = &frame.properties["part"];
                if frame.kind == "message.part.updated" {
                    let session = part["sessionID"].as_str().unwrap().to_owned();
                    let id = part["id"].as_str().unwrap().to_owned();
                    parts.lock().unwrap().entry(session).or_default().insert(id, part.clone());
                }
            }
        }
    });
    sent
}

fn request_feed(mut stream: TcpStream, last: &str) -> std::io::Result<BufReader<TcpStream>> {
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    let after = if last.is_empty() { String::new() } else { format!("last-event-id: {last}\r\n") };
    write!(stream, "GET /global/event HTTP/1.1\r\nhost: localhost\r\n{after}\r\n")?;
    Ok(BufReader::new(stream))
}

/// A server, and what its feed has sent.
pub(crate) struct Viewer {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) feed: Sent,
}

/// Waits until `so`, up to a time, and counts the case.
pub(crate) fn until(
    tally: &Tally,
    deadline: Instant,
    kind: &str,
    place: &str,
    so: impl Fn() -> Result<(), String>,
) {
    let mut why = so();
    while why.is_err() && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
        why = so();
    }
    tally.check(kind, why.is_ok(), || format!("{place}: {}", why.unwrap_err()));
}

/// Checks that the messages of a session have the prompts of its log, and that each viewer shows them, until `deadline`
/// at the latest. `fresh` is the port of a server that has just been started.
pub(crate) fn check(
    tally: &Tally,
    deadline: Instant,
    fresh: u16,
    viewers: &[Viewer],
    session: &str,
    prompts: &[String],
) {
    let path = format!("/session/{session}/message");
    let expected = get(fresh, &path).unwrap();
    let messages = expected.as_array().unwrap();
    let of_user = messages.iter().filter(|message| message["info"]["role"] == "user");
    let texts: Vec<&str> =
        of_user.map(|message| message["parts"][0]["text"].as_str().unwrap()).collect();
    tally.equal(MESSAGES, &texts, &prompts.iter().map(String::as_str).collect(), session);
    let parts: Vec<&Value> =
        messages.iter().flat_map(|message| message["parts"].as_array().unwrap()).collect();
    for viewer in viewers {
        let place = format!("{session} at {}", viewer.name);
        until(tally, deadline, MESSAGES, &place, || {
            let shown = get(viewer.port, &path).unwrap_or_default();
            let shown = shown.as_array().into_iter().flatten();
            let unlike = shown.clone().zip(messages).find(|(shown, message)| shown != message);
            same(&unlike, &None)?;
            same(&shown.count(), &messages.len())
        });
        until(tally, deadline, FEEDS, &place, || {
            let sent = viewer.feed.lock().unwrap();
            let sent = sent.get(messages[0]["info"]["sessionID"].as_str().unwrap());
            let of = |part: &Value| sent.and_then(|sent| sent.get(part["id"].as_str()?));
            parts.iter().try_for_each(|part| same(&of(part), &Some(*part)))
        });
    }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found:?} is not {expected:?}")) }
}
