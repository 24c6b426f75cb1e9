//! A second reader of each format, which shares no code with the crate: it makes the next request
//! that the agent would send, and asks the rules of the API about it.

use std::collections::{HashMap, HashSet};

use leftfold_import::Origin;
use leftfold_providers::{Config, WIRES};
use serde_json::{Value, json};

/// Everything for which an API would refuse the next request.
pub(crate) fn faults(origin: Origin, text: &str) -> Vec<String> {
    let body = match origin {
        Origin::Claude => anthropic(claude(&parsed(text))),
        Origin::Codex => responses(codex(&parsed(text))),
        Origin::Opencode => match serde_json::from_str(text) {
            Ok(export) => opencode(&export),
            Err(error) => return vec![format!("not JSON: {error}")],
        },
        Origin::Leftfold => panic!("not another agent"),
    };
    let name = if body.get("messages").is_some() { "anthropic" } else { "openai-responses" };
    let wire = WIRES.iter().find(|wire| wire.name() == name).unwrap();
    let faults = Config::new(name, *wire).faults("m", &body);
    let mut faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    more(&body, &mut faults);
    faults
}

/// Lines that are JSON; the agents skip others.
fn parsed(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Rules that depend on contents: media, signatures, names.
fn more(value: &Value, faults: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| more(value, faults)),
        Value::Object(object) => {
            object.values().for_each(|value| more(value, faults));
            let text = |key: &str| value[key].as_str().unwrap_or_default();
            match text("type") {
                "image" | "document" => {
                    let source = &value["source"];
                    let part = |key: &str| source[key].as_str().unwrap_or_default();
                    faults.extend(picture(part("media_type"), part("data"), 8_000, 5 << 20));
                }
                "input_image" => {
                    let url = text("image_url").strip_prefix("data:").unwrap_or_default();
                    let (mime, data) = url.split_once(";base64,").unwrap_or_default();
                    faults.extend(picture(mime, data, u32::MAX, 50 << 20));
                }
                "thinking" if text("signature").contains('!') => {
                    faults.push("signature".to_owned());
                }
                "tool_use" | "function_call" => {
                    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    if text("name").is_empty() || !text("name").chars().all(fits) {
                        faults.push("name".to_owned());
                    }
                }
                _ => {}
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The generator's images are PNGs, whose base64 has the sides at fixed digits.
fn picture(mime: &str, data: &str, most: u32, longest: usize) -> Option<String> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if data.len() > longest {
        return Some("too many bytes".to_owned());
    }
    if mime != "image/png" || !data.starts_with("iVBORw0KGgo") || !data.len().is_multiple_of(4) {
        return Some(format!("no {mime}"));
    }
    let mut bits = String::new();
    for digit in data.chars().take(40).filter(|digit| *digit != '=') {
        let Some(value) = DIGITS.find(digit) else { return Some("no base64".to_owned()) };
        bits.push_str(&format!("{value:06b}"));
    }
    let side = |from: usize| u32::from_str_radix(bits.get(from..from + 32)?, 2).ok();
    let sides = [side(16 * 8), side(20 * 8)];
    let fits = |side: &Option<u32>| side.is_some_and(|side| (1..=most).contains(&side));
    (!sides.iter().all(fits)).then(|| format!("sides {sides:?}"))
}

/// The last branch by its parents, with what belongs to its replies.
fn claude(records: &[Value]) -> Vec<Value> {
    let is_main = |record: &&Value| record["message"].is_object() && record["isSidechain"] == false;
    let by_id: HashMap<&str, &Value> =
        records.iter().filter_map(|record| Some((record["uuid"].as_str()?, record))).collect();
    let mut chain = HashSet::new();
    let mut next = records.iter().rfind(is_main);
    while let Some(record) =
        next.filter(|record| chain.insert(record["uuid"].as_str().unwrap_or_default()))
    {
        next = record["parentUuid"].as_str().and_then(|id| by_id.get(id)).copied();
    }
    let in_chain = |record: &Value| chain.contains(record["uuid"].as_str().unwrap_or_default());
    let replies: HashSet<&str> = records
        .iter()
        .filter(|r| in_chain(r))
        .filter_map(|r| r["message"]["id"].as_str())
        .collect();
    let of_reply =
        |record: &&Value| record["message"]["id"].as_str().is_some_and(|id| replies.contains(id));
    let blocks =
        |record: &Value| record["message"]["content"].as_array().cloned().unwrap_or_default();
    let calls: HashSet<String> = records
        .iter()
        .filter(of_reply)
        .flat_map(blocks)
        .filter_map(|block| Some(block["id"].as_str()?.to_owned()))
        .collect();
    let answers = |record: &&Value| {
        let is_call =
            |block: &Value| block["tool_use_id"].as_str().is_some_and(|id| calls.contains(id));
        record["message"]["role"] == "user" && blocks(record).iter().any(is_call)
    };
    let sent = records.iter().filter(is_main);
    let sent = sent.filter(|record| in_chain(record) || of_reply(record) || answers(record));
    let mut messages: Vec<(String, Value)> = Vec::new();
    for record in sent {
        let (role, id) =
            (&record["message"]["role"], record["message"]["id"].as_str().unwrap_or_default());
        let content = &record["message"]["content"];
        let mut content = match content.as_str() {
            Some(text) => vec![json!({ "type": "text", "text": text })],
            None => content.as_array().cloned().unwrap_or_default(),
        };
        for block in &mut content {
            // A command without output.
            if block["type"] == "tool_result"
                && (block["content"] == "" || block["content"].is_null())
            {
                block.as_object_mut().unwrap().remove("content");
            }
        }
        let is_result = |(_, message): &&mut (String, Value)| {
            let list = message["content"].as_array().unwrap();
            message["role"] == "user" && list.iter().all(|block| block["type"] == "tool_result")
        };
        let earlier = messages.iter_mut().rev().find(|message| !is_result(message));
        match earlier {
            Some((known, message)) if !id.is_empty() && known == id => {
                message["content"].as_array_mut().unwrap().extend(content);
            }
            _ => messages.push((id.to_owned(), json!({ "role": role, "content": content }))),
        }
    }
    messages.into_iter().map(|(_, message)| message).collect()
}

fn anthropic(mut messages: Vec<Value>) -> Value {
    if messages.last().is_none_or(|last| last["role"] == "assistant") {
        messages.push(json!({ "role": "user", "content": "Go on." }));
    }
    let tool = json!({ "name": "Bash", "input_schema": { "type": "object" } });
    json!({ "model": "m", "max_tokens": 9, "stream": true, "messages": messages, "tools": [tool] })
}

fn responses(mut input: Vec<Value>) -> Value {
    input.push(json!({ "type": "message", "role": "user", "content": "Go on." }));
    json!({ "model": "m", "stream": true, "store": false, "input": input })
}

fn codex(lines: &[Value]) -> Vec<Value> {
    let mut input = Vec::new();
    for line in lines {
        let item = match line["type"].as_str() {
            Some("response_item") => &line["payload"],
            Some("compacted") => {
                let message = &line["payload"]["message"];
                input = vec![json!({ "type": "message", "role": "user", "content": message })];
                continue;
            }
            _ => line,
        };
        let id = &item["call_id"];
        input.push(match item["type"].as_str() {
            Some("message") => {
                let mut message = item.clone();
                for part in message["content"].as_array_mut().into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("output_text") => part["annotations"] = json!([]),
                        Some("input_image") => part["detail"] = "auto".into(),
                        _ => {}
                    }
                }
                message
            }
            Some("reasoning") => item.clone(),
            Some("function_call") => {
                json!({ "type": "function_call", "call_id": id, "name": item["name"], "arguments": item["arguments"] })
            }
            Some("custom_tool_call") => {
                json!({ "type": "function_call", "call_id": id, "name": item["name"], "arguments": "{}" })
            }
            Some("local_shell_call") => {
                json!({ "type": "function_call", "call_id": id, "name": "shell", "arguments": "{}" })
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                json!({ "type": "function_call_output", "call_id": id, "output": item["output"] })
            }
            _ => continue,
        });
    }
    input
}

/// OpenCode sends every step as a message, and its results as the next one.
fn opencode(export: &Value) -> Value {
    let (mut messages, mut input) = (Vec::new(), Vec::new());
    let mut is_anthropic = false;
    for message in export["messages"].as_array().unwrap() {
        let info = &message["info"];
        is_anthropic |= info["providerID"] == "anthropic";
        if info["summary"] == true {
            messages = vec![json!({ "role": "user", "content": "So far?" })];
            input = vec![json!({ "type": "message", "role": "user", "content": "So far?" })];
        }
        let (mut content, mut results) = (Vec::new(), Vec::new());
        for part in message["parts"].as_array().unwrap() {
            let (text, id, state) = (&part["text"], &part["callID"], &part["state"]);
            let kind = if info["role"] == "user" { "input_text" } else { "output_text" };
            match part["type"].as_str().unwrap() {
                "text" => {
                    content.push(json!({ "type": "text", "text": text }));
                    let mut said = json!({ "type": kind, "text": text });
                    if kind == "output_text" {
                        said["annotations"] = json!([]);
                    }
                    input.push(
                        json!({ "type": "message", "role": info["role"], "content": [said] }),
                    );
                }
                "compaction" => content.push(json!({ "type": "text", "text": "So far?" })),
                "file" => {
                    let url = part["url"].as_str().unwrap();
                    let data = url.split_once(";base64,").map(|(_, data)| data);
                    let source =
                        json!({ "type": "base64", "media_type": part["mime"], "data": data });
                    content.push(json!({ "type": "image", "source": source }));
                    let image =
                        json!({ "type": "input_image", "image_url": url, "detail": "auto" });
                    input.push(json!({ "type": "message", "role": "user", "content": [image] }));
                }
                "reasoning" => {
                    let seal = &part["metadata"]["anthropic"]["signature"];
                    content
                        .push(json!({ "type": "thinking", "thinking": text, "signature": seal }));
                    let seal = &part["metadata"]["openai"]["reasoningEncryptedContent"];
                    input.push(
                        json!({ "type": "reasoning", "summary": [], "encrypted_content": seal }),
                    );
                }
                "tool" => {
                    let (name, input_) = (&part["tool"], &state["input"]);
                    content.push(
                        json!({ "type": "tool_use", "id": id, "name": name, "input": input_ }),
                    );
                    let arguments = input_.to_string();
                    input.push(json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments }));
                    let output = state["output"].as_str().or(state["error"].as_str());
                    if let Some(output) = output {
                        results.push(
                            json!({ "type": "tool_result", "tool_use_id": id, "content": output }),
                        );
                        input.push(json!({ "type": "function_call_output", "call_id": id, "output": output }));
                    }
                }
                _ => {}
            }
        }
        for (role, content) in [(&info["role"], content), (&json!("user"), results)] {
            if !content.is_empty() {
                messages.push(json!({ "role": role, "content": content }));
            }
        }
    }
    if is_anthropic { anthropic(messages) } else { responses(input) }
}
