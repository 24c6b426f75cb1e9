//! Reads sessions of OpenCode: a session with its messages and their parts, as `opencode export`
//! prints it or as its storage keeps it in separate files.

use std::fs;
use std::path::Path;

use leftfold_events::event::{Attachment, CallSpec, Finish, ModelRef, PromptPart, Usage};
use leftfold_events::{Json, Time};
use serde_json::Value;

use super::{
    Item, ItemKind, MessagePart, Outcome, Reply, Transcript, count, data_url, media, storage, text,
};
use crate::UnreadableFile;

/// The only JSON value in a file, after any text that a shell printed before it.
pub(super) fn json_value(file: &str) -> Option<Value> {
    let start = file.find('{')?;
    serde_json::from_str(file.get(start..)?).ok()
}

/// The deepest nesting of subagents that are read.
const DEEPEST: usize = 8;

pub(super) fn read(
    file: &str,
    name: &str,
    path: Option<&Path>,
) -> Result<Transcript, UnreadableFile> {
    read_at(file, name, path, 0)
}

fn read_at(
    file: &str,
    name: &str,
    path: Option<&Path>,
    depth: usize,
) -> Result<Transcript, UnreadableFile> {
    let Some(mut export) = json_value(file) else {
        let found = file.find('{').map_or(file, |start| &file[start..]);
        let why = serde_json::from_str::<Value>(found).err();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        return Err(UnreadableFile(format!("{name}: not what `opencode export` prints{why}")));
    };
    let (transcript, started) = Default::default();
    let mut reader = OpenCodeReader { transcript, at: Time::default(), started };
    if export["messages"].is_null() {
        let messages = storage::messages(&export, path, &mut reader.transcript.left_out)?;
        export = serde_json::json!({ "info": export, "messages": messages });
    }
    reader.about(&export["info"]);
    let hidden = export["info"]["revert"]["messageID"].as_str();
    for message in export["messages"].as_array().into_iter().flatten() {
        if hidden.is_some_and(|first| text(&message["info"], "id") >= first) {
            reader.transcript.left_out.one("message that was taken back");
            continue;
        }
        reader.message(&message["info"], message["parts"].as_array().map_or(&[], Vec::as_slice));
    }
    for (call, session) in std::mem::take(&mut reader.started) {
        reader.child(call, &session, path.filter(|_| depth < DEEPEST), depth);
    }
    Ok(reader.transcript)
}

struct OpenCodeReader {
    transcript: Transcript,
    at: Time,
    /// Calls, and the sessions that they have started.
    started: Vec<(String, String)>,
}

impl OpenCodeReader {
    fn about(&mut self, info: &Value) {
        let transcript = &mut self.transcript;
        text(info, "id").clone_into(&mut transcript.id);
        text(info, "version").clone_into(&mut transcript.version);
        transcript.directory = info["directory"].as_str().map(Into::into);
        transcript.title = info["title"].as_str().map(str::to_owned);
    }

    /// Reads a session that a call has started, if its file is beside this one's.
    fn child(&mut self, call: String, session: &str, path: Option<&Path>, depth: usize) {
        let is_plain = session.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let beside =
            path.filter(|_| is_plain).map(|path| path.with_file_name(format!("{session}.json")));
        let read = beside.and_then(|path| Some((fs::read_to_string(&path).ok()?, path)));
        let Some((file, path)) = read else {
            return self.transcript.left_out.one("session of a subagent");
        };
        match read_at(&file, &path.display().to_string(), Some(&path), depth + 1) {
            Ok(child) => drop(self.transcript.children.insert(call, child)),
            Err(UnreadableFile(why)) => self.transcript.left_out.bad.push(why),
        }
    }

    fn add(&mut self, what: ItemKind) {
        self.transcript.items.push(Item { at: self.at, what });
    }

    fn message(&mut self, info: &Value, parts: &[Value]) {
        if let Some(millis) = info["time"]["created"].as_u64() {
            self.at = Time::from_millis(millis);
        }
        match text(info, "role") {
            "user" => self.user(parts),
            "assistant" if info["summary"].as_bool().unwrap_or_default() => {
                self.add(ItemKind::Summary(texts(parts)));
            }
            "assistant" => self.assistant(info, parts),
            other => self.transcript.left_out.one(format!("message of `{other}`")),
        }
    }

    fn user(&mut self, parts: &[Value]) {
        let mut prompt = Vec::new();
        for part in parts {
            match text(part, "type") {
                "text" if part["ignored"].as_bool().unwrap_or_default() => {}
                "text" if text(part, "text").trim().is_empty() => {}
                "text" => prompt.push(PromptPart::text(text(part, "text"))),
                "file" => {
                    prompt.extend(file(part).map(|(mime, name, data)| media(mime, name, data)));
                }
                // The texts contain the named agent and its result.
                "agent" | "compaction" => {}
                other => self.transcript.left_out.one(format!("part `{other}`")),
            }
        }
        if !prompt.is_empty() {
            self.add(ItemKind::Prompt(prompt));
        }
    }

    /// Reads a message, which may be several exchanges; each begins with a `step-start`.
    fn assistant(&mut self, info: &Value, parts: &[Value]) {
        let is_start = |part: &&Value| text(part, "type") == "step-start";
        let starts = parts.iter().filter(is_start).count();
        let mut steps: Vec<&[Value]> = Vec::new();
        for part in parts.split_inclusive(|part| text(part, "type") == "step-finish") {
            steps.push(part);
        }
        let alone = steps.len() <= 1 || starts <= 1;
        if alone {
            steps = vec![parts];
        }
        for step in steps {
            self.step(info, step, alone);
        }
        let error = &info["error"];
        match text(error, "name") {
            "" => {}
            "MessageAbortedError" => self.add(ItemKind::Interrupted),
            name => {
                let message = error["data"]["message"].as_str().unwrap_or(name);
                self.add(ItemKind::Failed(message.to_owned()));
            }
        }
    }

    fn step(&mut self, info: &Value, parts: &[Value], alone: bool) {
        let mut reply = Reply {
            id: String::new(),
            model: ModelRef {
                provider: text(info, "providerID").to_owned(),
                id: text(info, "modelID").to_owned(),
            },
            parts: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
            cost: 0.0,
        };
        let mut outcomes = Vec::new();
        for part in parts {
            match text(part, "type") {
                "text" => reply.parts.push(MessagePart::Text(text(part, "text").to_owned())),
                "reasoning" => reply.parts.push(reasoning(info, part)),
                "tool" => {
                    reply.parts.push(MessagePart::Call(call(part)));
                    outcomes.extend(outcome(part));
                    self.started.extend(started(part));
                }
                "step-finish" => {
                    reply.usage += usage(&part["tokens"]);
                    reply.cost += part["cost"].as_f64().unwrap_or_default();
                }
                "step-start" | "snapshot" | "patch" | "retry" => {}
                other => self.transcript.left_out.one(format!("part `{other}`")),
            }
        }
        if alone && reply.usage == Usage::default() {
            reply.usage = usage(&info["tokens"]);
            reply.cost = info["cost"].as_f64().unwrap_or_default();
        }
        if text(info, "finish") == "length" {
            reply.finish = Finish::Length;
        }
        if reply.parts.is_empty() {
            return;
        }
        self.add(ItemKind::Reply(reply));
        outcomes.into_iter().for_each(|outcome| self.add(ItemKind::Outcome(outcome)));
    }
}

fn reasoning(info: &Value, part: &Value) -> MessagePart {
    // Other vendors encrypt reasoning for one account or by the id of a reply.
    let sealed = &part["metadata"]["anthropic"];
    let is_theirs = text(info, "providerID") == "anthropic";
    let signature = |key: &str| sealed[key].as_str().filter(|_| is_theirs).map(str::to_owned);
    let data = signature("redactedData");
    MessagePart::Reasoning {
        text: text(part, "text").to_owned(),
        redacted: data.is_some(),
        signature: data.or_else(|| signature("signature")),
    }
}

fn call(part: &Value) -> CallSpec {
    let input = &part["state"]["input"];
    CallSpec {
        id: text(part, "callID").to_owned(),
        name: text(part, "tool").to_owned(),
        input: if input.is_null() { Json::object() } else { Json::from_value(input) },
    }
}

/// The call, and the session that it has started.
fn started(part: &Value) -> Option<(String, String)> {
    let metadata = &part["state"]["metadata"];
    let session = metadata["sessionId"].as_str().or_else(|| metadata["sessionID"].as_str())?;
    Some((text(part, "callID").to_owned(), session.to_owned()))
}

/// The outcome of an ended call.
fn outcome(part: &Value) -> Option<Outcome> {
    let state = &part["state"];
    let is_error = match text(state, "status") {
        "completed" => false,
        "error" => true,
        _ => return None,
    };
    let files = state["attachments"].as_array().into_iter().flatten();
    Some(Outcome {
        call: text(part, "callID").to_owned(),
        title: text(state, "title").to_owned(),
        output: text(state, if is_error { "error" } else { "output" }).to_owned(),
        is_error,
        attachments: files
            .filter_map(file)
            .map(|(mime, name, data)| Attachment {
                mime: mime.to_owned(),
                name: name.to_owned(),
                base64: data.to_owned(),
            })
            .collect(),
    })
}

/// Media type, name and contents; text files are part of the conversation already.
fn file(part: &Value) -> Option<(&str, &str, &str)> {
    let mime = text(part, "mime");
    let (_, data) = data_url(text(part, "url"))?;
    (!mime.starts_with("text/")).then(|| (mime, text(part, "filename"), data))
}

fn texts(parts: &[Value]) -> String {
    let texts = parts.iter().filter(|part| text(part, "type") == "text");
    texts.map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
}

fn usage(tokens: &Value) -> Usage {
    Usage {
        input: count(&tokens["input"]),
        output: count(&tokens["output"]),
        reasoning: count(&tokens["reasoning"]),
        cache_read: count(&tokens["cache"]["read"]),
        cache_write: count(&tokens["cache"]["write"]),
    }
}
