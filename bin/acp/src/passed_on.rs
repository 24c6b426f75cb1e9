//! The memory of a process that passes its client on to a node. When that node ends, the next one gets the client's
//! state from it. It does no I/O.
//!
//! It remembers the client's `initialize`, its open sessions with the last event of each, and its
//! requests that have no answer. A prompt gets an id, by which the next node knows whether the log
//! has it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent::MESSAGE;
use super::opening::{AFTER, ID};
use super::shared::{SEEN, SEEN_METHOD};
use leftfold_runtime::project;

/// The ids of this process's own requests to a node begin with this.
const OWN: &str = "leftfold-again-";
const WATCH: &str = "_leftfold/watch";
const EVENT: &str = "_leftfold/event";
const CANCEL_REQUEST: &str = "$/cancel_request";

/// The fields of a message that tell its kind.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<String>,
}

/// A session that the client has open.
#[derive(Debug, Default)]
struct OpenSession {
    /// The params of the request that opened it.
    params: Map<String, Value>,
    /// The last event whose updates the client has.
    seen: Option<u64>,
    /// The client's choices, by method and option: only a session without a log needs them.
    choices: BTreeMap<String, (String, Value)>,
}

/// A request without an answer.
#[derive(Debug)]
struct Unanswered {
    method: String,
    params: Value,
    line: Vec<u8>,
}

/// A request of this process itself to the next node.
#[derive(Debug)]
enum Again {
    Line(Value),
    Session(String),
}

#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Counts nodes. Part of the ids of their requests to the client, so that a late answer to one
    /// node is not taken for an answer to the next one.
    node: u64,
    initialize: Option<Value>,
    sessions: BTreeMap<String, OpenSession>,
    /// In the order in which they came: by a number, with their ids as JSON.
    unanswered: BTreeMap<u64, (String, Unanswered)>,
    last: u64,
    /// A line without an answer that may not have reached the node.
    unsent: Option<Vec<u8>>,
    /// The ids of the node's requests that the client has not answered.
    asked: Vec<Value>,
    /// The watched sessions, and the last event of each session.
    watches: Vec<Map<String, Value>>,
    events: HashMap<String, u64>,
    again: VecDeque<Again>,
    /// The id of the request of this process that has no answer, and its session.
    awaited: Option<(String, Option<String>)>,
    own: u64,
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// A message as a line.
fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// Sets a field of `_meta`.
fn set_meta(of: &mut Value, field: &str, value: Value) {
    let Some(of) = of.as_object_mut() else { return };
    let meta = of.entry("_meta").or_insert_with(|| json!({}));
    if !meta.is_object() {
        *meta = json!({});
    }
    meta[field] = value;
}

impl PassedOn {
    /// The line to send to the node for a line of the client.
    pub(super) fn pass_to_node(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let bytes = self.noted(bytes);
        self.unsent = Some(bytes.clone());
        bytes
    }

    /// The last line has reached the node.
    pub(super) fn sent(&mut self) {
        self.unsent = None;
    }

    fn noted(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.push(b'\n');
        let Ok(head) = serde_json::from_slice::<Head>(&bytes) else { return bytes };
        match (head.id, head.method) {
            (Some(id), None) => self.reply(&id, &bytes),
            (Some(id), Some(method)) => {
                let Ok(mut message) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
                let mut params = message.get_mut("params").map(Value::take).unwrap_or_default();
                if method == "initialize" && params.is_object() {
                    let abilities = &mut params["clientCapabilities"];
                    if !abilities.is_object() {
                        *abilities = json!({});
                    }
                    set_meta(abilities, SEEN, json!(true));
                } else if method == "session/prompt" && params["_meta"].get(MESSAGE).is_none() {
                    set_meta(&mut params, MESSAGE, json!(project::new_id().to_string()));
                }
                message["params"] = params.clone();
                let bytes = line(&message);
                self.last += 1;
                let unanswered = Unanswered { method, params, line: bytes.clone() };
                self.unanswered.insert(self.last, (id.to_string(), unanswered));
                bytes
            }
            (None, _) => bytes,
        }
    }

    /// The client's answer to a request of a node, under the node's own id; nothing if that node has
    /// ended.
    fn reply(&mut self, id: &Value, bytes: &[u8]) -> Vec<u8> {
        self.asked.retain(|asked| asked != id);
        let own = id.as_str().and_then(|id| id.split_once(':'));
        let Some((_, id)) = own.filter(|(node, _)| *node == self.node.to_string()) else {
            return Vec::new();
        };
        let (Ok(id), Ok(mut message)) =
            (serde_json::from_str::<Value>(id), serde_json::from_slice::<Value>(bytes))
        else {
            return Vec::new();
        };
        message["id"] = id;
        line(&message)
    }

    /// The line to send to the client for a line of the node, if any.
    pub(super) fn pass_to_client(&mut self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        bytes.push(b'\n');
        let Ok(head) = serde_json::from_slice::<Head>(&bytes) else { return Some(bytes) };
        match (head.id, head.method.as_deref()) {
            (Some(id), None) => self.answered(&id, &bytes).then_some(bytes),
            (Some(id), Some(_)) => {
                let mut message: Value = serde_json::from_slice(&bytes).ok()?;
                message["id"] = self.named(&id);
                self.asked.push(message["id"].clone());
                Some(line(&message))
            }
            (None, Some(SEEN_METHOD)) => {
                let message: Value = serde_json::from_slice(&bytes).ok()?;
                let params = &message["params"];
                let session = self.sessions.get_mut(text(params, "sessionId")?)?;
                session.seen = params["seq"].as_u64().or(session.seen);
                None
            }
            (None, Some(CANCEL_REQUEST)) => {
                let mut message: Value = serde_json::from_slice(&bytes).ok()?;
                let id = self.named(&message["params"]["requestId"]);
                self.asked.retain(|asked| *asked != id);
                message["params"]["requestId"] = id;
                Some(line(&message))
            }
            (None, Some(EVENT)) if !self.watches.is_empty() => {
                if let Ok(message) = serde_json::from_slice::<Value>(&bytes)
                    && let Some(session) = text(&message["params"], "session")
                    && let Some(seq) = message["params"]["seq"].as_u64()
                {
                    self.events.insert(session.to_owned(), seq);
                }
                Some(bytes)
            }
            (None, _) => Some(bytes),
        }
    }

    /// The id under which the client gets a request of this node.
    fn named(&self, id: &Value) -> Value {
        json!(format!("{}:{id}", self.node))
    }

    /// Notes the answer to a request. False: the request was this process's own.
    fn answered(&mut self, id: &Value, bytes: &[u8]) -> bool {
        if let Some((awaited, session)) = &self.awaited
            && id.as_str() == Some(awaited)
        {
            let failed = serde_json::from_slice::<Value>(bytes)
                .is_ok_and(|answer| answer.get("error").is_some());
            let session = session.clone();
            self.awaited = None;
            if let Some(session) = session.filter(|_| failed) {
                self.begin_anew(&session);
            }
            return false;
        }
        let id = id.to_string();
        let found = self.unanswered.iter().find(|(_, (unanswered, _))| *unanswered == id);
        let Some(number) = found.map(|(number, _)| *number) else { return true };
        let Some((_, Unanswered { method, params, .. })) = self.unanswered.remove(&number) else {
            return true;
        };
        let result = |field: &str| {
            let answer: Value = serde_json::from_slice(bytes).ok()?;
            let result = answer.get("result")?;
            Some(result.get(field).and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        self.learn(&method, params, result);
        true
    }

    /// Learns from a request that was answered. `result` gives a field of the result, if the request
    /// did not fail.
    fn learn(&mut self, method: &str, params: Value, result: impl Fn(&str) -> Option<String>) {
        let named = text(&params, "sessionId").map(str::to_owned);
        let succeeded = |named: Option<String>| result("").and(named);
        let opened = match method {
            "session/new" | "session/fork" => result("sessionId"),
            "session/load" | "session/resume" => succeeded(named.clone()),
            _ => None,
        };
        if let (Some(session), Value::Object(params)) = (opened, &params) {
            let before = self.sessions.remove(&session).unwrap_or_default();
            self.sessions.insert(session, OpenSession { params: params.clone(), ..before });
            return;
        }
        match method {
            "initialize" if result("").is_some() => self.initialize = Some(params),
            "session/close" | "session/delete" => {
                if let Some(session) = succeeded(named) {
                    self.sessions.remove(&session);
                }
            }
            "session/set_mode" | "session/set_config_option" => {
                let session = succeeded(named);
                if let Some(session) = session.and_then(|session| self.sessions.get_mut(&session)) {
                    let option = text(&params, "configId").unwrap_or_default();
                    let choice = (method.to_owned(), params.clone());
                    session.choices.insert(format!("{method} {option}"), choice);
                }
            }
            WATCH => {
                if let (Some(_), Value::Object(params)) = (result(""), params) {
                    self.watches.push(params);
                }
            }
            _ => {}
        }
    }

    /// The node has ended. Answers notifications that withdraw its requests from the client.
    pub(super) fn lose(&mut self) -> Vec<Vec<u8>> {
        self.awaited = None;
        self.again.clear();
        let withdrawn = self.asked.drain(..).map(|id| {
            line(&json!({ "jsonrpc": "2.0", "method": CANCEL_REQUEST, "params": { "requestId": id } }))
        });
        withdrawn.collect()
    }

    /// Begins with the next node.
    pub(super) fn begin(&mut self) {
        self.node += 1;
        let Some(initialize) = &self.initialize else { return };
        let request = json!({ "method": "initialize", "params": initialize });
        self.again.push_back(Again::Line(request));
        self.again.extend(self.sessions.keys().cloned().map(Again::Session));
        for watch in &self.watches {
            let mut params = watch.clone();
            let root = params.get("session").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(seq) = self.events.get(&root) {
                params.insert("from".to_owned(), json!(seq + 1));
            }
            if let Some(Value::Object(children)) = params.get_mut("children") {
                for (session, seq) in self.events.iter().filter(|(session, _)| **session != root) {
                    children.insert(session.clone(), json!(seq + 1));
                }
            }
            self.again.push_back(Again::Line(json!({ "method": WATCH, "params": params })));
        }
    }

    /// The next request of this process itself.
    pub(super) fn next_again(&mut self) -> Option<Vec<u8>> {
        let (mut request, session) = match self.again.pop_front()? {
            Again::Line(request) => (request, None),
            Again::Session(session) => {
                let OpenSession { params, seen, .. } = self.sessions.get(&session)?;
                let mut params = json!({
                    "sessionId": session,
                    "cwd": params.get("cwd"),
                    "mcpServers": params.get("mcpServers").cloned().unwrap_or_else(|| json!([])),
                });
                if let Some(seen) = seen {
                    set_meta(&mut params, AFTER, json!(seen));
                }
                (json!({ "method": "session/resume", "params": params }), Some(session))
            }
        };
        self.own += 1;
        let id = format!("{OWN}{}", self.own);
        request["jsonrpc"] = json!("2.0");
        request["id"] = json!(id);
        self.awaited = Some((id, session));
        Some(line(&request))
    }

    /// Whether a request of this process itself has no answer yet.
    pub(super) fn awaits(&self) -> bool {
        self.awaited.is_some()
    }

    /// A session that cannot be resumed has no log yet: it is begun again under its id, with the
    /// choices that were made for it.
    fn begin_anew(&mut self, id: &str) {
        let Some(OpenSession { params, choices, seen, .. }) = self.sessions.get(id) else { return };
        if seen.is_some() {
            return;
        }
        let mut params = Value::Object(params.clone());
        if let Some(params) = params.as_object_mut() {
            params.remove("sessionId");
        }
        set_meta(&mut params, ID, json!(id));
        let choices =
            choices.values().map(|(method, params)| json!({ "method": method, "params": params }));
        let requests =
            [json!({ "method": "session/new", "params": params })].into_iter().chain(choices);
        for request in requests.collect::<Vec<_>>().into_iter().rev() {
            self.again.push_front(Again::Line(request));
        }
    }

    /// The client's requests that have no answer, and the line that may not have reached a node.
    pub(super) fn unanswered(&mut self) -> Vec<Vec<u8>> {
        let mut lines: Vec<Vec<u8>> =
            self.unanswered.values().map(|(_, unanswered)| unanswered.line.clone()).collect();
        let unsent = self.unsent.take();
        let is_request = |line: &Vec<u8>| {
            serde_json::from_slice::<Head>(line).is_ok_and(|head| head.id.is_some())
        };
        lines.extend(unsent.filter(|line| !line.is_empty() && !is_request(line)));
        lines
    }
}
