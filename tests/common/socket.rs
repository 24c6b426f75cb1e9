//! A client of a node's socket, written independently of Leftfold's own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{STEP_TIMEOUT, wait_until};

pub struct Peer {
    stream: BufReader<UnixStream>,
    last: u64,
}

impl Peer {
    /// Connects to the node of a store, which must be running.
    pub fn connect(store: &Path) -> Self {
        Self::try_connect(store).unwrap()
    }

    /// Connects to the node of a store. `None` if no node is running.
    pub fn try_connect(store: &Path) -> Option<Self> {
        let folder = std::fs::File::open(store).ok()?;
        // a short path, however long the real one is
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder);
        let stream = UnixStream::connect(format!("/proc/self/fd/{fd}/socket")).ok()?;
        stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(STEP_TIMEOUT)).unwrap();
        Some(Self { stream: BufReader::new(stream), last: 0 })
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub fn ask(&mut self, method: &str, params: &Value) {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(format!("{request}\n"));
    }

    /// The next line as it came; `None` at the end.
    pub fn raw_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        (!line.is_empty()).then_some(line)
    }

    /// The next line; `None` at the end.
    pub fn line(&mut self) -> Option<Value> {
        self.raw_line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Sends a request and reads until its answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params);
        loop {
            let line = self.line().expect("an answer");
            if line["id"] == self.last {
                return line;
            }
        }
    }

    /// Sends a request and reads until its answer. `None` if the node ends first.
    pub fn try_call(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes()).ok()?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok()?;
            let line: Value = serde_json::from_str(&line).ok()?;
            if line["id"] == id {
                return Some(line);
            }
        }
    }

    /// Repeats a request, at most `most` times, until the node stops reading. Returns how often it
    /// was sent.
    pub fn flood(&mut self, method: &str, params: &Value, most: usize) -> usize {
        let request = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params });
        let request = format!("{request}\n");
        self.stream.get_ref().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut written = || self.stream.get_mut().write_all(request.as_bytes()).is_ok();
        (0..most).take_while(|_| written()).count()
    }

    /// The event in the next notification, as a line of an export.
    pub fn event(&mut self) -> Value {
        let mut line = self.line().expect("an event");
        assert_eq!(line["method"], "_leftfold/event", "{line}");
        line["params"].take()
    }

    /// Closes the sending side.
    pub fn shut(&self) {
        self.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    }
}

/// The lines of a whole export from seq `from` on.
pub fn from_on(export: &str, from: u64) -> String {
    let lines: Vec<(&str, Value)> =
        export.lines().map(|line| (line, serde_json::from_str(line).unwrap())).collect();
    let mut told: Vec<&str> = Vec::new();
    let mut text = String::new();
    for (line, event) in lines.iter().filter(|(_, line)| line["seq"].as_u64() >= Some(from)) {
        let named = ["system", "tools", "rules", "model", "options"];
        for hash in named.iter().filter(|_| event["type"] == "turn.configured") {
            let hash = event["data"][hash].as_str().unwrap();
            if !told.contains(&hash) {
                told.push(hash);
                let payload = lines.iter().find(|(_, line)| line["payload"] == hash).unwrap();
                text += &format!("{}\n", payload.0);
            }
        }
        text += &format!("{line}\n");
    }
    text
}

/// Waits until a node serves the store's socket.
pub fn wait_for_node(store: &Path) {
    wait_until("a node serves the socket", || {
        let Ok(folder) = std::fs::File::open(store) else { return false };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder);
        UnixStream::connect(format!("/proc/self/fd/{fd}/socket")).is_ok()
    });
}
