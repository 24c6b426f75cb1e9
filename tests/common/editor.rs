//! A client of the Agent Client Protocol that writes JSON-RPC lines like an editor.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use super::{Live, Site};

pub struct Editor {
    pub live: Live,
    input: Option<ChildStdin>,
    last: u64,
    /// Every received message, in order.
    pub got: Vec<Value>,
}

impl Editor {
    /// A node after `initialize`.
    pub fn start(site: &Site, args: &[&str]) -> Self {
        let mut editor = Self::raw(site, args);
        let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(editor.result(initialized)["protocolVersion"], 1);
        editor
    }

    /// A node after `initialize` by a client with files and terminals of its own.
    pub fn offering(site: &Site, args: &[&str]) -> Self {
        let mut editor = Self::raw(site, args);
        let fs = json!({ "readTextFile": true, "writeTextFile": true });
        let capabilities = json!({ "fs": fs, "terminal": true });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let initialized = editor.ask("initialize", params);
        editor.result(initialized);
        editor
    }

    /// A node before `initialize`.
    pub fn raw(site: &Site, args: &[&str]) -> Self {
        Self::from_command(site.command(&[&["node"], args].concat()))
    }

    /// A node before `initialize`, started by this command.
    pub fn from_command(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        let mut live = Live::start(command);
        let input = Some(live.input());
        Self { live, input, last: 0, got: Vec::new() }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request. Returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// A new session in the project.
    pub fn session(&mut self, site: &Site) -> String {
        let id = self.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
        self.result(id)["sessionId"].as_str().unwrap().to_owned()
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// The next unread message that satisfies the condition.
    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Some(line) = self.live.line() else { panic!("it never came:\n{}", self.live.seen) };
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            self.got.push(message.clone());
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        let answers = |message: &Value| message["id"] == id && message.get("method").is_none();
        let found = self.got.iter().find(|message| answers(message)).cloned();
        found.unwrap_or_else(|| self.until(answers))
    }

    pub fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    pub fn error(&mut self, id: u64) -> Value {
        let answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{answer}");
        answer["error"].clone()
    }

    pub fn stop_reason(&mut self, prompt: u64) -> String {
        self.result(prompt)["stopReason"].as_str().unwrap().to_owned()
    }

    /// The next question of a session, unanswered.
    pub fn question(&mut self, session: &str) -> Value {
        self.until(|message| {
            message["method"] == "session/request_permission"
                && message["params"]["sessionId"] == session
        })
    }

    /// Answers a question with the option of this kind.
    pub fn choose(&mut self, question: &Value, kind: &str) {
        let options = question["params"]["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["kind"] == kind).unwrap();
        let outcome = json!({ "outcome": "selected", "optionId": option["optionId"] });
        self.reply(question, json!({ "outcome": outcome }));
    }

    /// Answers a request of the node.
    pub fn reply(&mut self, request: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Refuses a request of the node.
    pub fn refuse(&mut self, request: &Value, message: &str) {
        let error = json!({ "code": -32603, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    }

    /// The next update of this kind.
    pub fn update(&mut self, kind: &str) -> Value {
        let message = self.until(|message| message["params"]["update"]["sessionUpdate"] == kind);
        message["params"]["update"].clone()
    }

    /// All updates of a session that came so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        let of = |message: &&Value| {
            message["method"] == "session/update" && message["params"]["sessionId"] == session
        };
        self.got.iter().filter(of).map(|message| message["params"]["update"].clone()).collect()
    }

    /// The received updates of these kinds, as `KIND` or `KIND STATUS`.
    pub fn received(&self, session: &str, kinds: &[&str]) -> Vec<String> {
        let updates = self.updates(session);
        let name = |update: &Value| {
            let kind = update["sessionUpdate"].as_str().unwrap().to_owned();
            let status = update["status"].as_str().map(|status| format!(" {status}"));
            kinds.contains(&kind.as_str()).then(|| kind + &status.unwrap_or_default())
        };
        updates.iter().filter_map(name).collect()
    }

    /// All text of one kind of chunk, joined.
    pub fn text(&self, session: &str, kind: &str) -> String {
        let updates = self.updates(session);
        let chunks = updates.iter().filter(|update| update["sessionUpdate"] == kind);
        chunks.map(|update| update["content"]["text"].as_str().unwrap()).collect()
    }

    /// The node's standard input, for another writer.
    pub fn input(&mut self) -> ChildStdin {
        self.input.take().unwrap()
    }

    /// Ends the input.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Ends the input, and waits for the program to exit cleanly.
    pub fn leave(mut self) {
        self.hang_up();
        self.live.wait().ok();
    }
}
