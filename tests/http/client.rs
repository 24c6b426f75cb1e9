//! A small HTTP client, independent of Leftfold's own.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Instant;

use common::openapi::{ApiAnswer, ApiDocument};
use common::{Live, STEP_TIMEOUT, Site, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The API's document, from a server of its own. Every answer and every frame is checked against it.
pub(crate) static DOCUMENT: LazyLock<ApiDocument> = LazyLock::new(|| {
    let site = Site::scripted(&script(json!([])));
    let server = Served::start(&site);
    let answer = Answered::read(server.send("GET", "/doc", &[], None));
    server.end();
    ApiDocument::new(answer.ok())
});

/// A running `leftfold serve`.
pub(crate) struct Served {
    live: Live,
    pub(crate) port: u16,
    pub(crate) login: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answered {
    /// The status of a request on a connection that the server may refuse.
    pub(crate) fn status_of(mut stream: TcpStream, path: &str) -> u16 {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut bytes = Vec::new();
        let sent = stream.write_all(request.as_bytes());
        let read = sent.and_then(|()| stream.read_to_end(&mut bytes));
        let status =
            read.ok().and_then(|_| std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok());
        status.unwrap_or(0)
    }

    /// Reads an answer to its end.
    pub(crate) fn read(mut stream: impl Read) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.unwrap_or(0), headers: headers.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of an answer with status 200.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }
}

impl Served {
    pub(crate) fn start(site: &Site) -> Self {
        Self::from_command(site.command(&["serve", "--port", "0"]))
    }

    pub(crate) fn from_command(command: Command) -> Self {
        let mut live = Live::start(command);
        let Some(line) = live.line() else {
            panic!("the server ended before it said where it listens: {:?}", live.wait())
        };
        let port = line.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let url = line.split_once(" server listening on ").map(|(_, url)| url);
        assert!(url.is_some_and(|url| url.starts_with("http://")), "{line}");
        Self { live, port: port.unwrap_or_else(|| panic!("{line}")), login: None }
    }

    pub(crate) fn id(&self) -> u32 {
        self.live.id()
    }

    /// A connection on which nothing was sent.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        stream
    }

    pub(crate) fn kill(self) {
        self.live.signal(Signal::KILL);
        self.live.wait();
    }

    /// Ends it in good order.
    pub(crate) fn end(self) {
        self.live.signal(Signal::TERM);
        let ran = self.live.wait();
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    pub(crate) fn get(&self, path: &str) -> Answered {
        self.request("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Answered {
        self.request("POST", path, &[("content-type", "application/json")], Some(&body.to_string()))
    }

    /// A new session.
    pub(crate) fn session(&self) -> String {
        self.post("/session", json!({})).ok()["id"].as_str().unwrap().to_owned()
    }

    /// The answer to a prompt.
    pub(crate) fn prompt(&self, session: &str, text: &str) -> Value {
        let parts = json!({ "parts": [{ "type": "text", "text": text }] });
        self.post(&format!("/session/{session}/message"), parts).ok()
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answered {
        let answer = Answered::read(self.send(method, path, headers, body));
        let checked = DOCUMENT.check(ApiAnswer {
            method,
            path,
            status: answer.status,
            is_json: answer.headers.contains("content-type: application/json"),
            body: &answer.body,
        });
        checked.unwrap_or_else(|why| panic!("{method} {path}: {answer:?}: {why}"));
        answer
    }

    /// Sends a request, whose answer is still to be read.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += &format!("host: 127.0.0.1:{}\r\n", self.port);
        }
        let login = self.login.iter().map(|login| ("authorization", login.as_str()));
        for (name, value) in headers.iter().copied().chain(login) {
            request += &format!("{name}: {value}\r\n");
        }
        let body = body.unwrap_or_default();
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// Starts a turn, and does not wait for its end.
    pub(crate) fn begin(&self, session: &str, text: &str) {
        let parts = json!({ "parts": [{ "type": "text", "text": text }] });
        assert_eq!(self.post(&format!("/session/{session}/prompt_async"), parts).status, 204);
    }

    /// The ids of all sessions.
    pub(crate) fn sessions(&self) -> BTreeSet<String> {
        let listed = self.get("/session").ok();
        let ids =
            listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect()
    }

    /// The feed of the server's directory.
    pub(crate) fn feed_of_directory(&self) -> SseReader {
        SseReader::new(self.send("GET", "/event", &[], None))
    }

    /// The feed of everything, from its beginning or after a cursor.
    pub(crate) fn feed(&self, after: Option<&str>) -> SseReader {
        let headers: Vec<(&str, &str)> =
            after.iter().map(|after| ("last-event-id", *after)).collect();
        SseReader::new(self.send("GET", "/global/event", &headers, None))
    }
}

/// Reads server-sent events.
pub(crate) struct SseReader {
    stream: BufReader<TcpStream>,
    /// Whether the server has ended the feed, and has not cut it off.
    pub(crate) is_whole: bool,
}

/// A frame of the feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SseFrame {
    pub(crate) id: String,
    /// The id of its event.
    pub(crate) event: String,
    pub(crate) kind: String,
    pub(crate) properties: Value,
}

impl SseReader {
    /// Reads the head of the answer: the feed has everything that happens from then on.
    pub(crate) fn new(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap_or(0) > "\r\n".len() {
            line.clear();
        }
        Self { stream, is_whole: false }
    }

    /// The next frame that is no heartbeat; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<SseFrame> {
        let mut id = String::new();
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < STEP_TIMEOUT, "nothing but heartbeats came");
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            // the chunk without bytes
            self.is_whole |= line == "0\r\n";
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.trim().to_owned();
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let data: Value = serde_json::from_str(data).unwrap();
            let checked = DOCUMENT.check_frame(&data);
            checked.unwrap_or_else(|why| panic!("{data}: {why}"));
            let payload = data.get("payload").unwrap_or(&data);
            let kind = payload["type"].as_str().unwrap().to_owned();
            if kind != "server.heartbeat" {
                let event = payload["id"].as_str().unwrap().to_owned();
                return Some(SseFrame {
                    id,
                    event,
                    kind,
                    properties: payload["properties"].clone(),
                });
            }
        }
    }

    /// All frames up to the first one that `is_last` accepts.
    pub(crate) fn until(&mut self, is_last: impl Fn(&SseFrame) -> bool) -> Vec<SseFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next() {
            let last = is_last(&frame);
            frames.push(frame);
            if last {
                return frames;
            }
        }
        panic!("the feed ended after {frames:#?}");
    }
}
