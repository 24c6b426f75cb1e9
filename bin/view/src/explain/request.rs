use std::fmt::Write;

use leftfold_events::event::Purpose;
use leftfold_events::request::{AssistantPart, Request, RequestMessage};
use leftfold_events::request_builder::Built;
use leftfold_events::{Seq, Sha256, TurnConfig};
use serde::Serialize;
use serde_json::{Value, json};

use super::left_out::LeftOut;
use crate::clean::printable_line;
use crate::configuration;
use crate::words;

/// The explanation of one request: its pieces, the events that they come from, and what it leaves out.
#[derive(Debug)]
pub struct RequestReport<'a> {
    pub built: &'a Built,
    /// The turn configuration in force.
    pub config: &'a TurnConfig,
    /// Length of the request's canonical JSON in bytes.
    pub bytes: usize,
    pub recorded: Sha256,
    pub rebuilt: Sha256,
    /// The fact on which the request was decided, and the reason.
    pub decided: (Option<Seq>, Option<String>),
    pub left_out: Vec<LeftOut>,
}

impl RequestReport<'_> {
    pub fn json(&self, seq: Seq) -> Value {
        let Request { model, max_output, system, tools, purpose, .. } = &self.built.request;
        json!({
            "seq": seq,
            "purpose": purpose,
            "model": model,
            "bytes": self.bytes,
            "decided_on": self.decided.0,
            "reason": self.decided.1,
            "sha256": { "recorded": self.recorded, "rebuilt": self.rebuilt },
            "max_output": max_output,
            "system": system.iter().map(String::len).collect::<Vec<_>>(),
            "sources": system.iter().map(|block| self.sources(block)).collect::<Vec<_>>(),
            "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "messages": messages(self.built).collect::<Vec<_>>(),
            "left_out": self.left_out,
        })
    }

    pub fn text(&self, session: &str, seq: Seq) -> String {
        let Request { model, system, tools, purpose, .. } = &self.built.request;
        let same = if self.rebuilt == self.recorded { "as logged" } else { "NOT as logged" };
        let purpose = json!(purpose);
        let mut text = format!(
            "request {seq} of {session}: {} to {model}, {} bytes, sha256 {} ({same})\n",
            purpose.as_str().unwrap_or_default(),
            self.bytes,
            self.rebuilt
        );
        if let (Some(fact), reason) = &self.decided {
            let reason = reason.as_ref().map(|why| format!(": {}", printable_line(why)));
            let reason = reason.unwrap_or_default();
            let _ = writeln!(text, "decided on event {fact}{reason}");
        }
        for (index, block) in system.iter().enumerate() {
            let _ = writeln!(text, "system {}: {} bytes, {}", index + 1, block.len(), first(block));
            match self.block(block) {
                Some(at) => text += &configuration::block(self.config, at),
                None if self.built.request.purpose == Purpose::Turn => {
                    text += "  changed by a plugin\n";
                }
                None => {}
            }
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "tools: {}", printable_line(&names.join(", ")));
        text += &configuration::of_tools(self.config);
        for MessageReport { role, from, bytes, text: content } in messages(self.built) {
            let from = match from {
                [] => "written for this request".to_owned(),
                of => {
                    format!("from {}", of.iter().map(Seq::to_string).collect::<Vec<_>>().join(", "))
                }
            };
            let _ = writeln!(text, "{role}, {from}, {bytes} bytes: {}", first(&content));
        }
        match self.left_out.as_slice() {
            [] => text.push_str("left out: nothing\n"),
            left_out => {
                text.push_str("left out:\n");
                for LeftOut { seq, what } in left_out {
                    let _ = writeln!(text, "  {seq}: {}", printable_line(what));
                }
            }
        }
        text
    }

    /// The block of the configuration's system prompt with this text. A plugin may have written another
    /// one.
    fn block(&self, text: &str) -> Option<usize> {
        self.config.system.iter().position(|block| block == text)
    }

    /// The sources of a block of the system prompt; null for a block that is not the configuration's.
    fn sources(&self, text: &str) -> Value {
        self.block(text).map_or(Value::Null, |at| configuration::block_json(self.config, at))
    }
}

/// A message of a request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct MessageReport<'a> {
    pub role: &'static str,
    /// The events that it comes from; empty if it was written for the request.
    pub from: &'a [Seq],
    /// Length of its JSON.
    pub bytes: usize,
    pub text: String,
}

impl<'a> MessageReport<'a> {
    pub fn new(message: &RequestMessage, from: &'a [Seq]) -> Self {
        let bytes = serde_json::to_vec(message).map_or(0, |bytes| bytes.len());
        let (role, text) = role_and_text(message);
        Self { role, from, bytes, text }
    }
}

fn messages(built: &Built) -> impl Iterator<Item = MessageReport<'_>> {
    let messages = built.request.messages.iter().zip(&built.sources);
    messages.map(|(message, from)| MessageReport::new(message, from))
}

fn first(text: &str) -> String {
    words::quoted(text.trim())
}

fn role_and_text(message: &RequestMessage) -> (&'static str, String) {
    match message {
        RequestMessage::User { parts } => {
            ("user", parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n"))
        }
        RequestMessage::Assistant { parts } => {
            let part = |part: &AssistantPart| match part {
                AssistantPart::Text { text } => text.clone(),
                AssistantPart::Reasoning { .. } => "[reasoning]".to_owned(),
                AssistantPart::Call { name, input, .. } => {
                    format!("[{name} {}]", words::brief(&input.value()))
                }
            };
            ("assistant", parts.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
        RequestMessage::Tool { results } => {
            let result = results.iter().map(|result| &*result.output);
            ("tool", result.collect::<Vec<_>>().join("\n"))
        }
    }
}
