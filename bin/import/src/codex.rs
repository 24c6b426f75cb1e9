//! Reads sessions of Codex: a rollout with one line for each item of the conversation, and for each
//! event of its own user interface. Older rollouts have the items without a wrapper.

use leftfold_events::event::{CallSpec, Finish, ModelRef, PromptPart, Usage};
use leftfold_events::{Json, Time};
use serde_json::{Value, json};

use super::{
    Item, ItemKind, MessagePart, Outcome, Reply, Transcript, count, data_url, media, objects, text,
    time,
};

/// The types of lines.
pub(super) const KINDS: [&str; 5] =
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// Beginnings of texts that Codex sends to models in the user's name.
const ASIDES: [&str; 7] = [
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<turn_aborted>",
    "<skills_instructions>", "<collaboration_mode>", "# AGENTS.md instructions for",
];

pub(super) fn read(file: &str, name: &str) -> Transcript {
    let mut transcript = Transcript::default();
    let records = objects(file, name, &mut transcript.left_out);
    let model = ModelRef { provider: "openai".to_owned(), id: "unknown".to_owned() };
    let mut reader =
        CodexReader { transcript, at: Time::default(), model, counted: 0, open: false };
    records.iter().for_each(|(_, record)| reader.record(record));
    reader.transcript
}

struct CodexReader {
    transcript: Transcript,
    at: Time,
    model: ModelRef,
    /// The session's tokens so far, by the last count.
    counted: u64,
    /// Whether the last reply may have more parts.
    open: bool,
}

impl CodexReader {
    fn record(&mut self, record: &Value) {
        self.at = time(&record["timestamp"], self.at);
        let payload = &record["payload"];
        match text(record, "type") {
            "session_meta" => self.meta(payload),
            "turn_context" => {
                if let Some(model) = payload["model"].as_str() {
                    model.clone_into(&mut self.model.id);
                }
            }
            "response_item" => self.item(payload),
            "event_msg" => self.event(payload),
            "compacted" => self.compacted(payload),
            // The first line of an older rollout.
            "" if record["id"].is_string() => self.meta(record),
            // All other lines of an older rollout.
            _ if payload.is_null() => self.item(record),
            other => self.transcript.left_out.one(format!("line `{other}`")),
        }
    }

    fn meta(&mut self, meta: &Value) {
        // A forked rollout has the first lines of its origins after its own.
        if !self.transcript.id.is_empty() {
            return;
        }
        self.transcript.id = text(meta, "id").to_owned();
        self.transcript.version = text(meta, "cli_version").to_owned();
        self.transcript.directory = meta["cwd"].as_str().map(Into::into);
        if let Some(provider) = meta["model_provider"].as_str() {
            provider.clone_into(&mut self.model.provider);
        }
    }

    fn add(&mut self, what: ItemKind) {
        self.open = false;
        self.transcript.items.push(Item { at: self.at, what });
    }

    fn item(&mut self, item: &Value) {
        match text(item, "type") {
            "message" => self.message(item),
            "reasoning" => {
                let summary = texts(&item["summary"]);
                let text = if summary.is_empty() { texts(&item["content"]) } else { summary };
                // Encrypted reasoning is only valid for the account that it was made for.
                self.part(MessagePart::Reasoning { text, signature: None, redacted: false });
            }
            "function_call" => {
                let arguments = text(item, "arguments");
                let input = Json::parse(arguments)
                    .unwrap_or_else(|_| Json::from_value(&Value::String(arguments.to_owned())));
                self.call(item, text(item, "name"), input);
            }
            "custom_tool_call" => {
                let input = Json::from_value(&json!({ "input": item["input"] }));
                self.call(item, text(item, "name"), input);
            }
            "local_shell_call" => {
                self.call(item, "local_shell", Json::from_value(&item["action"]));
            }
            "function_call_output" | "custom_tool_call_output" => {
                let outcome = outcome(item);
                self.add(ItemKind::Outcome(outcome));
            }
            "" if item["record_type"].is_string() => {}
            "ghost_snapshot" | "other" => {}
            other => self.transcript.left_out.one(format!("item `{other}`")),
        }
    }

    fn message(&mut self, item: &Value) {
        match text(item, "role") {
            "assistant" => self.part(MessagePart::Text(texts(&item["content"]))),
            "user" => self.prompt(item),
            // System and developer messages: a continued session has Leftfold's own.
            _ => {}
        }
    }

    fn prompt(&mut self, item: &Value) {
        let content = item["content"].as_array().map_or(&[][..], Vec::as_slice);
        let mut parts = Vec::new();
        for block in content {
            match text(block, "type") {
                "input_image" => {
                    let image = data_url(text(block, "image_url"));
                    parts.extend(image.map(|(mime, base64)| media(mime, "", base64)));
                }
                _ => parts.extend(self.user_text(text(block, "text"))),
            }
        }
        if !parts.is_empty() {
            self.add(ItemKind::Prompt(parts));
        }
    }

    fn user_text(&mut self, words: &str) -> Option<PromptPart> {
        if let Some((_, rest)) = words.split_once("<cwd>")
            && self.transcript.directory.is_none()
        {
            let folder = rest.split('<').next().unwrap_or_default();
            self.transcript.directory = Some(folder.into());
        }
        let is_aside = ASIDES.iter().any(|aside| words.trim_start().starts_with(aside));
        (!is_aside && !words.trim().is_empty()).then(|| PromptPart::text(words))
    }

    fn call(&mut self, item: &Value, name: &str, input: Json) {
        let id = item["call_id"].as_str().unwrap_or_else(|| text(item, "id"));
        self.part(MessagePart::Call(CallSpec { id: id.to_owned(), name: name.to_owned(), input }));
    }

    fn part(&mut self, part: MessagePart) {
        let last = self.transcript.items.last_mut().filter(|_| self.open);
        if let Some(Item { what: ItemKind::Reply(reply), .. }) = last {
            reply.parts.push(part);
            return;
        }
        let reply = Reply {
            id: String::new(),
            model: self.model.clone(),
            parts: vec![part],
            finish: Finish::Stop,
            usage: Usage::default(),
            cost: 0.0,
        };
        self.add(ItemKind::Reply(reply));
        self.open = true;
    }

    fn event(&mut self, event: &Value) {
        match text(event, "type") {
            "token_count" => self.tokens(&event["info"]),
            "turn_aborted" => self.add(ItemKind::Interrupted),
            "error" => self.add(ItemKind::Failed(text(event, "message").to_owned())),
            "thread_rolled_back" => self.roll_back(count(&event["num_turns"])),
            "thread_name_updated" => {
                self.transcript.title = event["thread_name"].as_str().map(str::to_owned);
            }
            _ => {}
        }
    }

    /// Counts the last exchange's tokens once, since Codex repeats the numbers.
    fn tokens(&mut self, info: &Value) {
        let total = count(&info["total_token_usage"]["total_tokens"]);
        if total == self.counted {
            return;
        }
        self.counted = total;
        self.open = false;
        let replies = self.transcript.items.iter_mut().rev();
        let last =
            replies.map(|item| &mut item.what).find(|what| matches!(what, ItemKind::Reply(_)));
        if let Some(ItemKind::Reply(reply)) = last {
            reply.usage += usage(&info["last_token_usage"]);
        }
    }

    fn roll_back(&mut self, turns: u64) {
        for _ in 0..turns {
            let items = &mut self.transcript.items;
            let last = items.iter().rposition(|item| matches!(item.what, ItemKind::Prompt(_)));
            items.truncate(last.unwrap_or(0));
        }
        self.open = false;
        self.transcript.left_out.one("turn that was taken back");
    }

    fn compacted(&mut self, compacted: &Value) {
        match text(compacted, "message") {
            // Without a readable summary, the conversation is kept in full.
            "" => self.transcript.left_out.one("sealed summary"),
            summary => self.add(ItemKind::Summary(summary.to_owned())),
        }
    }
}

fn texts(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

fn outcome(item: &Value) -> Outcome {
    let (output, success) = match &item["output"] {
        Value::String(text) => (shell(text).unwrap_or_else(|| text.clone()), None),
        Value::Object(output) => {
            let text = output.get("content").and_then(Value::as_str).unwrap_or_default();
            (text.to_owned(), output.get("success").and_then(Value::as_bool))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            (texts(&item["output"]), None)
        }
    };
    Outcome {
        call: text(item, "call_id").to_owned(),
        output,
        is_error: success == Some(false),
        ..Outcome::default()
    }
}

/// A command's output, without the JSON that older versions wrapped it in.
fn shell(text: &str) -> Option<String> {
    let wrapped: Value = serde_json::from_str(text).ok()?;
    wrapped.get("metadata")?;
    Some(wrapped["output"].as_str()?.to_owned())
}

fn usage(usage: &Value) -> Usage {
    let cached = count(&usage["cached_input_tokens"]);
    let reasoning = count(&usage["reasoning_output_tokens"]);
    Usage {
        input: count(&usage["input_tokens"]).saturating_sub(cached),
        output: count(&usage["output_tokens"]).saturating_sub(reasoning),
        reasoning,
        cache_read: cached,
        cache_write: 0,
    }
}
