//! Healthy sessions of Claude Code, Codex and OpenCode, grown from a seed.

use leftfold_import::Origin;
use serde_json::{Value, json};

use crate::random::{Random, base64, claude_image, png};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RecordKind {
    Head,
    Prompt,
    Reasoning,
    Text,
    Call,
    Result,
    /// A compaction.
    Boundary,
    Summary,
    /// A message of OpenCode's model, with all its parts.
    Answer,
    /// A line that is not sent.
    Other,
}

/// A line, or a message of OpenCode.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tag: usize,
    /// Damage is planted once a turn.
    pub(crate) turn: usize,
    pub(crate) what: RecordKind,
    pub(crate) value: Value,
    /// The line's text, if it is not the JSON of the value.
    pub(crate) raw: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) origin: Origin,
    pub(crate) entries: Vec<Entry>,
    pub(crate) turns: usize,
    /// Turns in which nothing more may be planted.
    pub(crate) taken: Vec<usize>,
    /// Whether lines of Codex have a wrapper; whether OpenCode's provider is Anthropic.
    pub(crate) variant: bool,
    /// The session of OpenCode.
    pub(crate) info: Value,
    /// The number of bytes at the end that are cut off.
    pub(crate) cut: usize,
    /// Text before the session.
    pub(crate) before: String,
    tags: usize,
    words: usize,
    last: String,
}

impl Session {
    pub(crate) fn grow(origin: Origin, random: &mut Random) -> Self {
        let mut session = Self {
            origin,
            entries: Vec::new(),
            turns: 1 + random.below(6),
            taken: Vec::new(),
            variant: !random.one_in(4),
            info: json!({ "id": "ses_1", "directory": "/x", "title": "t", "version": "1.2.0",
                "time": { "created": 1, "updated": 2 } }),
            cut: 0,
            before: String::new(),
            tags: 0,
            words: 0,
            last: String::new(),
        };
        session.head(random);
        let compacted = if random.one_in(2) { random.below(session.turns) } else { 0 };
        for turn in 0..session.turns {
            if turn > 0 && turn == compacted {
                session.compaction(turn, random);
            }
            session.turn(turn, random);
        }
        session
    }

    /// The file. Each entry is a line; OpenCode's is one JSON value.
    pub(crate) fn text(&self) -> String {
        let text = match self.origin {
            Origin::Opencode => {
                let messages: Vec<&Value> = self.entries.iter().map(|entry| &entry.value).collect();
                let export = json!({ "info": self.info, "messages": messages });
                format!("{}\n", serde_json::to_string_pretty(&export).unwrap())
            }
            Origin::Claude | Origin::Codex | Origin::Leftfold => {
                let line = |entry: &Entry| match &entry.raw {
                    Some(raw) => format!("{raw}\n"),
                    None => format!("{}\n", entry.value),
                };
                self.entries.iter().map(line).collect()
            }
        };
        let cut = text.len() - self.cut;
        let end = (0..=cut).rfind(|at| text.is_char_boundary(*at)).unwrap_or_default();
        format!("{}{}", self.before, &text[..end])
    }

    /// The first and the last line of an entry.
    pub(crate) fn lines(&self, tag: usize) -> (usize, usize) {
        let at = self.at(tag);
        if self.origin != Origin::Opencode {
            return (at + 1, at + 1);
        }
        let height = |value: &Value| serde_json::to_string_pretty(value).unwrap().lines().count();
        let before = self.before.matches('\n').count();
        // `{`, the session, `"messages": [`
        let first = before + 2 + height(&self.info);
        let start =
            first + self.entries[..at].iter().map(|entry| height(&entry.value)).sum::<usize>();
        (start + 1, start + height(&self.entries[at].value))
    }

    pub(crate) fn at(&self, tag: usize) -> usize {
        self.entries.iter().position(|entry| entry.tag == tag).expect("the entry is there")
    }

    /// Adds an entry before the one at `at`.
    pub(crate) fn insert(
        &mut self,
        at: usize,
        turn: usize,
        what: RecordKind,
        value: Value,
    ) -> usize {
        self.tags += 1;
        self.entries.insert(at, Entry { tag: self.tags, turn, what, value, raw: None });
        self.tags
    }

    fn push(&mut self, turn: usize, what: RecordKind, value: Value) -> usize {
        self.insert(self.entries.len(), turn, what, value)
    }

    pub(crate) fn word(&mut self) -> String {
        self.words += 1;
        format!("word-{} \u{1f600} \"quoted\"", self.words)
    }

    fn time(&self) -> String {
        format!(
            "2026-03-01T{:02}:{:02}:{:02}.000Z",
            self.tags / 3600 % 24,
            self.tags / 60 % 60,
            self.tags % 60
        )
    }

    fn head(&mut self, random: &mut Random) {
        match self.origin {
            Origin::Claude => {
                let elsewhere = random.uuid();
                self.push(
                    0,
                    RecordKind::Other,
                    json!({ "type": "summary", "summary": "s", "leafUuid": elsewhere }),
                );
                self.push(
                    0,
                    RecordKind::Other,
                    json!({ "type": "file-history-snapshot", "messageId": elsewhere,
                    "snapshot": {} }),
                );
            }
            Origin::Codex if self.variant => {
                let meta = json!({ "id": random.uuid(), "cwd": "/x", "originator": "codex_cli_rs",
                    "cli_version": "0.99.0", "model_provider": "openai" });
                self.push(
                    0,
                    RecordKind::Head,
                    json!({ "timestamp": self.time(), "type": "session_meta", "payload": meta }),
                );
            }
            Origin::Codex => {
                let head =
                    json!({ "id": random.uuid(), "timestamp": self.time(), "instructions": null });
                self.push(0, RecordKind::Head, head);
            }
            Origin::Opencode | Origin::Leftfold => {}
        }
    }

    fn turn(&mut self, turn: usize, random: &mut Random) {
        match self.origin {
            Origin::Claude => self.claude(turn, random),
            Origin::Codex => self.codex(turn, random),
            Origin::Opencode => self.opencode(turn, random),
            Origin::Leftfold => {}
        }
    }

    fn compaction(&mut self, turn: usize, random: &mut Random) {
        let words = self.word();
        match self.origin {
            Origin::Claude => {
                let last = std::mem::take(&mut self.last);
                let mut boundary = self.record("system", random);
                boundary["subtype"] = "compact_boundary".into();
                boundary["logicalParentUuid"] = last.into();
                boundary["parentUuid"] = Value::Null;
                self.push(turn, RecordKind::Boundary, boundary);
                let mut summary = self.record("user", random);
                summary["isCompactSummary"] = true.into();
                summary["message"] = json!({ "role": "user", "content": words });
                self.push(turn, RecordKind::Summary, summary);
            }
            Origin::Codex => {
                let payload = json!({ "message": words });
                let line =
                    json!({ "timestamp": self.time(), "type": "compacted", "payload": payload });
                self.push(turn, RecordKind::Boundary, line);
            }
            Origin::Opencode => {
                let ask = json!([{ "type": "compaction", "auto": true }]);
                self.message(turn, RecordKind::Other, "user", ask);
                let said = json!([{ "type": "text", "text": words }]);
                let tag = self.message(turn, RecordKind::Summary, "assistant", said);
                let at = self.at(tag);
                self.entries[at].value["info"]["summary"] = true.into();
            }
            Origin::Leftfold => {}
        }
    }

    /// A record of Claude Code after the last one.
    pub(crate) fn record(&mut self, kind: &str, random: &mut Random) -> Value {
        let id = random.uuid();
        let parent = std::mem::replace(&mut self.last, id.clone());
        let parent = if parent.is_empty() { Value::Null } else { parent.into() };
        json!({ "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/x",
            "sessionId": "5d1c", "version": "2.0.76", "type": kind, "uuid": id, "timestamp": self.time() })
    }

    fn says(&mut self, content: &Value, random: &mut Random) -> Value {
        let mut record = self.record("user", random);
        record["message"] = json!({ "role": "user", "content": content });
        record
    }

    fn block(&mut self, reply: &str, block: &Value, random: &mut Random) -> Value {
        let mut record = self.record("assistant", random);
        record["message"] = json!({ "id": reply, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 2 } });
        record
    }

    fn claude(&mut self, turn: usize, random: &mut Random) {
        let words = self.word();
        let content = match random.below(3) {
            0 => json!(words),
            1 => json!([{ "type": "text", "text": words }]),
            _ => {
                json!([{ "type": "text", "text": words }, claude_image("image/png", &png(640, 480, 9))])
            }
        };
        let record = self.says(&content, random);
        self.push(turn, RecordKind::Prompt, record);
        let steps = 1 + random.below(2);
        for _ in 0..steps {
            let reply = format!("msg_{}", random.uuid());
            self.thinks(turn, &reply, random);
            let words = self.word();
            let record = self.block(&reply, &json!({ "type": "text", "text": words }), random);
            self.push(turn, RecordKind::Text, record);
            let is_tree = random.one_in(2);
            let mut results = Vec::new();
            for _ in 0..=random.below(3) {
                let id = format!("toolu_{}", random.uuid());
                let input = json!({ "command": self.word() });
                let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": input });
                let record = self.block(&reply, &call, random);
                let parent = record["uuid"].clone();
                self.push(turn, RecordKind::Call, record);
                if is_tree && random.one_in(2) {
                    // Its result is a branch of its own.
                    let record = self.result(&id, random);
                    self.push(turn, RecordKind::Result, record);
                    self.last = parent.as_str().unwrap().to_owned();
                } else {
                    results.push(id);
                }
            }
            if random.one_in(4) {
                self.subagent(turn, random);
            }
            for id in results {
                let record = self.result(&id, random);
                self.push(turn, RecordKind::Result, record);
            }
        }
        let reply = format!("msg_{}", random.uuid());
        if random.one_in(2) {
            self.thinks(turn, &reply, random);
        }
        let words = self.word();
        if random.one_in(4) {
            self.abandoned(turn, random);
        }
        let record = self.block(&reply, &json!({ "type": "text", "text": words }), random);
        self.push(turn, RecordKind::Text, record);
    }

    fn thinks(&mut self, turn: usize, reply: &str, random: &mut Random) {
        let sealed = base64(&random.next().to_le_bytes());
        let block = if random.one_in(4) {
            json!({ "type": "redacted_thinking", "data": sealed })
        } else {
            json!({ "type": "thinking", "thinking": self.word(), "signature": sealed })
        };
        let record = self.block(reply, &block, random);
        self.push(turn, RecordKind::Reasoning, record);
    }

    fn result(&mut self, id: &str, random: &mut Random) -> Value {
        let words = self.word();
        let content = match random.below(4) {
            0 => json!([{ "type": "text", "text": words }]),
            1 => json!([claude_image("image/png", &png(64, 48, 3))]),
            2 => json!(""),
            _ => json!(words),
        };
        let block = json!({ "tool_use_id": id, "type": "tool_result", "content": content });
        let mut record = self.says(&json!([block]), random);
        record["toolUseResult"] = json!({ "stdout": words });
        record
    }

    /// A subagent's records, and a branch that was given up: neither is sent.
    fn subagent(&mut self, turn: usize, random: &mut Random) {
        let last = std::mem::take(&mut self.last);
        let agent = format!("a{}", random.below(1_000_000));
        let words = self.word();
        let mut asked = self.says(&json!(words), random);
        let words = self.word();
        let mut said =
            self.block("msg_of_agent", &json!({ "type": "text", "text": words }), random);
        for record in [&mut asked, &mut said] {
            record["isSidechain"] = true.into();
            record["agentId"] = agent.clone().into();
        }
        self.push(turn, RecordKind::Other, asked);
        self.push(turn, RecordKind::Other, said);
        self.last = last;
    }

    fn abandoned(&mut self, turn: usize, random: &mut Random) {
        let last = self.last.clone();
        let words = self.word();
        let record = self.says(&json!(words), random);
        self.push(turn, RecordKind::Other, record);
        let call =
            json!({ "type": "tool_use", "id": "toolu_given_up", "name": "Bash", "input": {} });
        let reply = random.uuid();
        let record = self.block(&reply, &call, random);
        self.push(turn, RecordKind::Other, record);
        self.last = last;
    }

    pub(crate) fn item(&self, payload: Value) -> Value {
        if self.variant {
            json!({ "timestamp": self.time(), "type": "response_item", "payload": payload })
        } else {
            payload
        }
    }

    fn codex(&mut self, turn: usize, random: &mut Random) {
        if self.variant {
            let context = json!({ "cwd": "/x", "model": "gpt-5-codex" });
            self.push(
                turn,
                RecordKind::Other,
                json!({ "timestamp": self.time(), "type": "turn_context", "payload": context }),
            );
        }
        let words = self.word();
        let mut content = vec![json!({ "type": "input_text", "text": words })];
        if random.one_in(3) {
            let url = format!("data:image/png;base64,{}", png(9, 9, 9));
            content.push(json!({ "type": "input_image", "image_url": url }));
        }
        let prompt = json!({ "type": "message", "role": "user", "content": content });
        self.push(turn, RecordKind::Prompt, self.item(prompt));
        for _ in 0..=random.below(2) {
            self.reasons(turn, random);
            self.speaks(turn);
            let mut results = Vec::new();
            for _ in 0..=random.below(3) {
                let id = format!("call_{}", random.uuid());
                let call = match random.below(4) {
                    0 => {
                        json!({ "type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": "*" })
                    }
                    1 if self.variant => {
                        json!({ "type": "local_shell_call", "call_id": id, "status": "completed",
                        "action": { "type": "exec", "command": ["ls"] } })
                    }
                    _ => json!({ "type": "function_call", "call_id": id, "name": "shell",
                        "arguments": json!({ "command": [self.word()] }).to_string() }),
                };
                let kind = if call["type"] == "custom_tool_call" {
                    "custom_tool_call_output"
                } else {
                    "function_call_output"
                };
                self.push(turn, RecordKind::Call, self.item(call));
                results.push(json!({ "type": kind, "call_id": id, "output": self.word() }));
            }
            for result in results {
                self.push(turn, RecordKind::Result, self.item(result));
            }
            if self.variant {
                let counted = json!({ "type": "token_count", "info": null });
                self.push(
                    turn,
                    RecordKind::Other,
                    json!({ "timestamp": self.time(), "type": "event_msg", "payload": counted }),
                );
            }
        }
        if random.one_in(2) {
            self.reasons(turn, random);
        }
        self.speaks(turn);
    }

    fn reasons(&mut self, turn: usize, random: &mut Random) {
        let sealed = base64(&random.next().to_le_bytes());
        let words = self.word();
        let summary = json!([{ "type": "summary_text", "text": words }]);
        let item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": sealed });
        self.push(turn, RecordKind::Reasoning, self.item(item));
    }

    fn speaks(&mut self, turn: usize) {
        let words = self.word();
        let content = json!([{ "type": "output_text", "text": words }]);
        let item = json!({ "type": "message", "role": "assistant", "content": content });
        self.push(turn, RecordKind::Text, self.item(item));
    }

    fn message(&mut self, turn: usize, what: RecordKind, role: &str, mut parts: Value) -> usize {
        let id = format!("msg_{:06}", self.tags + 1);
        for (index, part) in parts.as_array_mut().unwrap().iter_mut().enumerate() {
            part["id"] = format!("prt_{:06}_{index}", self.tags + 1).into();
            part["sessionID"] = "ses_1".into();
            part["messageID"] = id.clone().into();
        }
        let mut info = json!({ "id": id, "sessionID": "ses_1", "role": role, "time": { "created": 1000 + self.tags } });
        let (provider, model) =
            if self.variant { ("anthropic", "claude-sonnet-4-5") } else { ("openai", "gpt-5") };
        if role == "user" {
            self.last = id;
            info["agent"] = "build".into();
            info["model"] = json!({ "providerID": provider, "modelID": model });
        } else {
            info["time"]["completed"] = (2000 + self.tags).into();
            info["parentID"] = self.last.clone().into();
            info["providerID"] = provider.into();
            info["modelID"] = model.into();
            info["mode"] = "build".into();
            info["cost"] = 0.25.into();
        }
        self.push(turn, what, json!({ "info": info, "parts": parts }))
    }

    fn opencode(&mut self, turn: usize, random: &mut Random) {
        let words = self.word();
        let mut parts = vec![json!({ "type": "text", "text": words })];
        if random.one_in(3) {
            let url = format!("data:image/png;base64,{}", png(9, 9, 9));
            parts.push(
                json!({ "type": "file", "mime": "image/png", "filename": "a.png", "url": url }),
            );
        }
        self.message(turn, RecordKind::Prompt, "user", json!(parts));
        for _ in 0..=random.below(2) {
            let sealed = base64(&random.next().to_le_bytes());
            let metadata = if self.variant {
                json!({ "anthropic": { "signature": sealed } })
            } else {
                json!({ "openai": { "itemId": "rs_1", "reasoningEncryptedContent": sealed } })
            };
            let mut parts = vec![
                json!({ "type": "step-start" }),
                json!({ "type": "reasoning", "text": self.word(), "metadata": metadata, "time": { "start": 1, "end": 2 } }),
                json!({ "type": "text", "text": self.word() }),
            ];
            for _ in 0..=random.below(3) {
                let state = json!({ "status": "completed", "input": { "filePath": self.word() }, "output": self.word(),
                    "title": "t", "metadata": {}, "time": { "start": 1, "end": 2 } });
                let id = format!("toolu_{}", random.uuid());
                parts.push(json!({ "type": "tool", "callID": id, "tool": "read", "state": state }));
            }
            parts.push(
                json!({ "type": "step-finish", "reason": "tool-calls", "cost": 0, "tokens": {} }),
            );
            self.message(turn, RecordKind::Answer, "assistant", json!(parts));
        }
        let words = self.word();
        let parts = json!([{ "type": "step-start" }, { "type": "text", "text": words }]);
        self.message(turn, RecordKind::Text, "assistant", parts);
    }
}
