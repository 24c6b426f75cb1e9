//! Conversations as JSON lines of messages, in the shapes that vendors take for fine-tuning.
//!
//! A line is a conversation as the model had it: one for each session, and one more for each summary that replaced the
//! conversation so far. It ends with the last answer. Reasoning is left out: neither shape has it.
//!
//! - OpenAI: the input of a line for chat models (`messages`, `tools`). Texts and images only.
//! - Anthropic: `system` and `messages` and no other member; roles alternate, and the user begins.

use leftfold_events::event::{Attachment, Compaction, PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Event, Json, State, request_builder};
use serde_json::{Value, json};

use crate::Run;

/// The images that both vendors take.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// OpenAI's shape.
pub(crate) fn openai(run: &Run) -> String {
    lines(run, openai_line)
}

/// Anthropic's shape.
pub(crate) fn anthropic(run: &Run) -> String {
    lines(run, anthropic_line)
}

fn lines(run: &Run, line: fn(&State, &[RequestMessage]) -> Value) -> String {
    let mut out = String::new();
    let mut add = |state: &State| {
        let mut messages = request_builder::conversation(state);
        let is_answer =
            |message: &RequestMessage| matches!(message, RequestMessage::Assistant { .. });
        let Some(last) = messages.iter().rposition(is_answer) else { return };
        messages.truncate(last + 1);
        out.push_str(&(line(state, &messages).to_string() + "\n"));
    };
    for (_, events) in run.logs() {
        let mut state = State::default();
        for event in events {
            if let Event::Compaction(Compaction::Finished { .. }) = &event.event {
                add(&state);
            }
            state.apply(event);
        }
        add(&state);
    }
    out
}

fn system(state: &State) -> String {
    let blocks: Vec<&str> = state.config.system.iter().map(String::as_str).collect();
    blocks.into_iter().filter(|block| !block.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn openai_line(state: &State, messages: &[RequestMessage]) -> Value {
    let mut all = Vec::new();
    let system = system(state);
    if !system.is_empty() {
        all.push(json!({ "role": "system", "content": system }));
    }
    for message in messages {
        match message {
            RequestMessage::User { parts } => {
                all.push(json!({ "role": "user", "content": openai_content(parts) }));
            }
            RequestMessage::Assistant { parts } => all.push(openai_answer(parts)),
            RequestMessage::Tool { results } => all.extend(results.iter().map(|result| {
                json!({ "role": "tool", "tool_call_id": result.call, "content": in_words(result) })
            })),
        }
    }
    let tools = tools(state);
    let mut line = json!({ "messages": all });
    if !tools.is_empty() {
        line["tools"] = tools.into();
    }
    line
}

/// The tools of the last turn.
pub(crate) fn tools(state: &State) -> Vec<Value> {
    let tool = |tool: &ToolSpec| {
        let (name, description) = (&tool.name, &tool.description);
        let parameters = tool.schema.value();
        let function =
            json!({ "name": name, "description": description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    };
    state.config.tools.iter().map(tool).collect()
}

fn openai_content(parts: &[PromptPart]) -> Value {
    if parts.iter().all(|part| image(part).is_none()) {
        let texts: Vec<String> = parts.iter().map(text_of).collect();
        return texts.join("\n\n").into();
    }
    let part = |part: &PromptPart| match image(part) {
        Some(mime) => {
            let url = format!("data:{mime};base64,{}", part.text);
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        None => json!({ "type": "text", "text": text_of(part) }),
    };
    parts.iter().map(part).collect()
}

fn openai_answer(parts: &[AssistantPart]) -> Value {
    let (texts, calls) = answer(parts);
    let mut message = json!({ "role": "assistant" });
    if !texts.is_empty() || calls.is_empty() {
        message["content"] = texts.join("\n\n").into();
    }
    if !calls.is_empty() {
        let call = |(id, name, input): &(&str, &str, &Json)| {
            let function = json!({ "name": name, "arguments": object(input.value()).to_string() });
            json!({ "id": id, "type": "function", "function": function })
        };
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    message
}

fn anthropic_line(state: &State, messages: &[RequestMessage]) -> Value {
    let mut all: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            RequestMessage::User { parts } => ("user", parts.iter().map(anthropic_part).collect()),
            RequestMessage::Assistant { parts } => ("assistant", anthropic_answer(parts)),
            RequestMessage::Tool { results } => {
                ("user", results.iter().map(anthropic_result).collect())
            }
        };
        match all.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            Some(_) | None => all.push((role, blocks)),
        }
    }
    let message = |(role, blocks): (&str, Vec<Value>)| {
        let content = match blocks.as_slice() {
            [only] if only["type"] == "text" => only["text"].clone(),
            _ => blocks.into(),
        };
        json!({ "role": role, "content": content })
    };
    let messages: Vec<Value> = all.into_iter().map(message).collect();
    match system(state) {
        system if system.is_empty() => json!({ "messages": messages }),
        system => json!({ "system": system, "messages": messages }),
    }
}

fn anthropic_part(part: &PromptPart) -> Value {
    match image(part) {
        Some(mime) => anthropic_image(mime, &part.text),
        None => json!({ "type": "text", "text": text_of(part) }),
    }
}

fn anthropic_image(mime: &str, base64: &str) -> Value {
    let source = json!({ "type": "base64", "media_type": mime, "data": base64 });
    json!({ "type": "image", "source": source })
}

fn anthropic_answer(parts: &[AssistantPart]) -> Vec<Value> {
    let block = |part: &AssistantPart| match part {
        AssistantPart::Text { text } => Some(json!({ "type": "text", "text": text })),
        AssistantPart::Reasoning { .. } => None,
        AssistantPart::Call { id, name, input } => Some(
            json!({ "type": "tool_use", "id": plain_id(id), "name": name, "input": object(input.value()) }),
        ),
    };
    parts.iter().filter_map(block).collect()
}

fn anthropic_result(result: &ToolResult) -> Value {
    let mut block = json!({ "type": "tool_result", "tool_use_id": plain_id(&result.call) });
    let images = || result.attachments.iter().filter(|file| is_image(&file.mime));
    block["content"] = if images().next().is_none() {
        in_words(result).into()
    } else {
        let text = json!({ "type": "text", "text": result.output });
        let images = images().map(|file| anthropic_image(&file.mime, &file.base64));
        [text].into_iter().chain(images).collect()
    };
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

/// The id in the characters that Anthropic takes.
fn plain_id(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(plain).collect()
}

/// The texts and the calls of an answer.
fn answer(parts: &[AssistantPart]) -> (Vec<&str>, Vec<(&str, &str, &Json)>) {
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            AssistantPart::Text { text } => texts.push(text.as_str()),
            AssistantPart::Reasoning { .. } => {}
            AssistantPart::Call { id, name, input } => {
                calls.push((id.as_str(), name.as_str(), input));
            }
        }
    }
    (texts, calls)
}

/// The arguments of a call. Those that were no object are a member of one.
pub(crate) fn object(input: Value) -> Value {
    if input.is_object() { input } else { json!({ "input": input }) }
}

fn is_image(mime: &str) -> bool {
    IMAGES.contains(&mime)
}

/// The type of the image in a part, if it is one.
fn image(part: &PromptPart) -> Option<&str> {
    let mime = part.mime.as_deref().filter(|_| part.kind == PromptKind::Media)?;
    is_image(mime).then_some(mime)
}

/// The text of a part. Other files are named.
pub(crate) fn text_of(part: &PromptPart) -> String {
    match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => part.text.clone(),
        PromptKind::Media => {
            let name = part.name.as_deref().unwrap_or("file");
            format!("[{name}: {}]", part.mime.as_deref().unwrap_or("unknown type"))
        }
    }
}

/// A result as text alone.
fn in_words(result: &ToolResult) -> String {
    let files = result.attachments.iter();
    let files = files.map(|Attachment { mime, name, .. }| format!("\n[{name}: {mime}]"));
    result.output.to_string() + &files.collect::<String>()
}
