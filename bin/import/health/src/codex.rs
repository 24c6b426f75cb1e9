//! Sessions of Codex: items in the order in which they are sent, each in a line.

use leftfold_import::{data_url, text};
use serde_json::{Value, json};

use crate::lines::{Lines, Record};
use crate::media::{self, OPENAI};
use crate::pairs::{self, Fault, Said, Step};
use crate::{
    DamageKind, FindingPlace, Notes, UNKNOWN, is_blank, is_plain, mend_input, plain, plain_id,
    uuid, word,
};

/// Characters of a call's id and of a tool's name.
const LONGEST: usize = 64;

/// Items of the model besides calls and reasoning.
const OF_MODEL: [&str; 4] =
    ["web_search_call", "file_search_call", "image_generation_call", "computer_call"];

pub(crate) fn is_record(value: &Value) -> bool {
    value["type"].is_string() && value["payload"].is_object()
}

/// One round of mending.
pub(crate) fn judge(lines: &mut Lines<'_>, notes: &mut Notes) {
    let head = head(lines, notes);
    compactions(lines, notes);
    lines.apply(head);
    items(lines, notes);
    lines.apply(Vec::new());
    reasoning(lines, notes);
    pictures(lines, notes);
    lines.apply(Vec::new());
    let inserts = results(lines, notes);
    lines.apply(inserts);
}

fn place<'a>(record: &'a Record, field: &str) -> FindingPlace<'a> {
    let item = item(&record.value).unwrap_or(&record.value);
    let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default();
    let within = if is_wrapped(&record.value) { "payload" } else { "" };
    let dot = if within.is_empty() || field.is_empty() { "" } else { "." };
    FindingPlace(record.line, id, format!("{within}{dot}{field}"))
}

fn is_wrapped(record: &Value) -> bool {
    record["payload"].is_object()
}

/// The item of a line, if it has one: older versions do not wrap it.
fn item(record: &Value) -> Option<&Value> {
    if is_wrapped(record) {
        return Some(&record["payload"]).filter(|_| text(record, "type") == "response_item");
    }
    Some(record).filter(|record| record["type"].is_string() && record.get("payload").is_none())
}

fn item_mut(record: &mut Record) -> &mut Value {
    let is_wrapped = is_wrapped(&record.value);
    let value = record.edit();
    if is_wrapped { &mut value["payload"] } else { value }
}

/// Codex finds a session by its first line: adds it if there is none.
fn head(lines: &Lines<'_>, notes: &mut Notes) -> Vec<(usize, Record)> {
    let is_head = |value: &Value| {
        let is_old = value["type"].is_null() && value["id"].is_string();
        text(value, "type") == "session_meta" && value["payload"]["id"].is_string() || is_old
    };
    let mut records = lines.records.iter().filter(|record| record.value.is_object());
    if lines.records.iter().any(|record| is_head(&record.value)) {
        return Vec::new();
    }
    let Some(first) = records.next() else { return Vec::new() };
    let mut contexts = records.filter(|record| text(&record.value, "type") == "turn_context");
    let folder = contexts.find_map(|record| record.value["payload"]["cwd"].as_str());
    let time = text(&first.value, "timestamp");
    let id = uuid(&["session", &first.value.to_string()]);
    let meta = json!({ "id": id, "timestamp": time, "cwd": folder.unwrap_or("/"), "originator": "codex_cli_rs",
        "cli_version": "0.0.0", "source": "cli", "model_provider": "openai" });
    let head = json!({ "timestamp": time, "type": "session_meta", "payload": meta });
    let what = "the line `session_meta` is missing, by which Codex finds the session";
    notes.add(
        DamageKind::BrokenTree,
        FindingPlace(first.line, "", String::new()),
        what,
        "one with a new id is added",
    );
    vec![(0, Record::new(first.line, head))]
}

/// Drops a compaction without a summary, so that the history before it counts again.
fn compactions(lines: &mut Lines<'_>, notes: &mut Notes) {
    for record in
        lines.records.iter_mut().filter(|record| text(&record.value, "type") == "compacted")
    {
        let payload = &record.value["payload"];
        let history = payload["replacement_history"].as_array();
        if is_blank(text(payload, "message")) && history.is_none_or(Vec::is_empty) {
            let what = "the compaction has no summary, so the history before it is lost";
            let place = FindingPlace(record.line, "", "payload.message".to_owned());
            notes.add(
                DamageKind::DanglingCompaction,
                place,
                what,
                "dropped: the history counts again",
            );
            record.is_dropped = true;
        }
    }
}

/// Judges each item by itself.
fn items(lines: &mut Lines<'_>, notes: &mut Notes) {
    let mut ids = Vec::new();
    for (at, record) in lines.records.iter().enumerate() {
        let Some(item) = item(&record.value) else { continue };
        if let Some(Step::Call(id)) = step(item)
            && !(1..=LONGEST).contains(&id.chars().count())
        {
            let new = plain_id(&id, &at.to_string());
            ids.push((id, new));
        }
    }
    let ids: std::collections::HashMap<String, String> = ids.into_iter().rev().collect();
    for record in &mut lines.records {
        let Some(old) = item(&record.value) else { continue };
        let mut new = old.clone();
        let before = notes.count;
        match text(old, "type") {
            "message" => {
                record.is_dropped = message(&mut new, |kind, field, what, mend| {
                    notes.add(kind, place(record, field), what, mend);
                });
            }
            "function_call" | "custom_tool_call" | "local_shell_call" => {
                call(&mut new, &ids, |kind, field, what, mend| {
                    notes.add(kind, place(record, field), what, mend);
                });
            }
            "function_call_output" | "custom_tool_call_output" => {
                output(&mut new, |kind, field, what, mend| {
                    notes.add(kind, place(record, field), what, mend);
                });
                if let Some(id) = ids.get(text(&new, "call_id")) {
                    new["call_id"] = id.clone().into();
                }
            }
            _ => continue,
        }
        if notes.count > before || item(&record.value) != Some(&new) {
            *item_mut(record) = new;
        }
    }
}

/// Mends a message. Answers whether nothing is left of it.
fn message(item: &mut Value, mut note: impl FnMut(DamageKind, &str, String, &str)) -> bool {
    if let Some(words) = item["content"].as_str() {
        if is_blank(words) {
            note(DamageKind::EmptyBlock, "content", "the message is empty".to_owned(), "dropped");
            return true;
        }
        return false;
    }
    let blocks = item.get_mut("content").and_then(Value::as_array_mut);
    let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) else {
        note(DamageKind::EmptyBlock, "content", "the message has no content".to_owned(), "dropped");
        return true;
    };
    *blocks = parts(std::mem::take(blocks), "content", &mut note);
    blocks.is_empty()
}

/// Mends the parts of a content.
fn parts(
    old: Vec<Value>,
    field: &str,
    note: &mut impl FnMut(DamageKind, &str, String, &str),
) -> Vec<Value> {
    let mut kept = Vec::new();
    for (index, mut part) in old.into_iter().enumerate() {
        match text(&part, "type") {
            "input_text" | "output_text" if is_blank(text(&part, "text")) => {
                let field = format!("{field}[{index}].text");
                note(DamageKind::EmptyBlock, &field, "the text is empty".to_owned(), "dropped");
                continue;
            }
            "" => {
                let field = format!("{field}[{index}]");
                note(
                    DamageKind::EmptyBlock,
                    &field,
                    "this is not a part of a message".to_owned(),
                    "dropped",
                );
                continue;
            }
            "input_image" => {
                let field = format!("{field}[{index}].image_url");
                image(&mut part, &field, note);
            }
            _ => {}
        }
        kept.push(part);
    }
    kept
}

fn image(part: &mut Value, field: &str, note: &mut impl FnMut(DamageKind, &str, String, &str)) {
    let url = text(part, "image_url");
    if !url.starts_with("data:") && !url.is_empty() {
        return;
    }
    let (mime, base64) = data_url(url).unwrap_or_default();
    match media::judge(mime, base64, &OPENAI) {
        Ok(_) => {}
        Err(media::Fault::Type(is)) if is != media::PDF => {
            let what = format!("the type is `{is}`, not `{}`", word(mime));
            part["image_url"] = format!("data:{is};base64,{base64}").into();
            note(DamageKind::BadMedia, field, what, "the type is corrected");
        }
        Err(fault) => {
            let why = match fault {
                media::Fault::Type(is) => format!("its type is {is}"),
                media::Fault::Unusable(why) => why,
            };
            *part = left_out(&why);
            note(
                DamageKind::BadMedia,
                field,
                format!("the image is unusable: {why}"),
                "a text takes its place",
            );
        }
    }
}

fn left_out(why: &str) -> Value {
    json!({ "type": "input_text", "text": format!("[image left out: {why}]") })
}

fn call(
    item: &mut Value,
    ids: &std::collections::HashMap<String, String>,
    mut note: impl FnMut(DamageKind, &str, String, &str),
) {
    let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default();
    if let Some(new) = ids.get(id) {
        let what = format!("`{}` is no id for a call", word(id));
        item["call_id"] = new.clone().into();
        note(DamageKind::BadCallId, "call_id", what, "the call and its result get another id");
    }
    let kind = text(item, "type");
    if kind == "local_shell_call" {
        return;
    }
    let name = text(item, "name");
    if !is_plain(name, LONGEST) {
        let what = format!("`{}` is no name for a tool", word(name));
        let name = plain(name, LONGEST);
        let mend = format!("the call gets the name `{}`", word(&name));
        item["name"] = name.into();
        note(DamageKind::BadName, "name", what, &mend);
    }
    if text(item, "type") != "function_call" {
        return;
    }
    let arguments = item["arguments"].as_str().map(serde_json::from_str::<Value>);
    if arguments.and_then(Result::ok).is_some_and(|arguments| arguments.is_object()) {
        return;
    }
    let mut input = item["arguments"].take();
    if input.as_str().is_some_and(is_blank) {
        input = Value::Null;
    }
    mend_input(&mut input);
    item["arguments"] = input.to_string().into();
    let what = "the call's arguments are not the text of a JSON object".to_owned();
    note(DamageKind::BadInput, "arguments", what, "they become an object");
}

fn output(item: &mut Value, mut note: impl FnMut(DamageKind, &str, String, &str)) {
    let Some(parts_) = item.get_mut("output").and_then(Value::as_array_mut) else { return };
    let old = std::mem::take(parts_);
    let kept = parts(old, "output", &mut note);
    item["output"] = if kept.is_empty() { "".into() } else { kept.into() };
}

/// Drops reasoning that the API does not take back.
fn reasoning(lines: &mut Lines<'_>, notes: &mut Notes) {
    let provider = lines.records.iter().find_map(|record| {
        record.value["payload"]["model_provider"].as_str().filter(|name| !name.is_empty())
    });
    let is_openai = provider.is_none_or(|provider| provider == "openai");
    let mut is_followed = false;
    for record in lines.records.iter_mut().rev() {
        if text(&record.value, "type") == "compacted" {
            is_followed = false;
        }
        let Some(item) = item(&record.value) else { continue };
        if text(item, "type") != "reasoning" {
            if let Some(step) = step(item) {
                is_followed = matches!(step, Step::Call(_) | Step::Model);
            }
            continue;
        }
        let (kind, field, what) = if is_openai && text(item, "encrypted_content").is_empty() {
            let what = "the reasoning has no `encrypted_content`";
            (DamageKind::UnsignedReasoning, "encrypted_content", what)
        } else if !is_followed {
            (DamageKind::ReasoningAlone, "", "no text or call follows the reasoning")
        } else {
            continue;
        };
        notes.add(kind, place(record, field), what, "dropped");
        record.is_dropped = true;
    }
}

/// The step of the conversation that an item is. Reasoning is none: it goes with the next item.
fn step(item: &Value) -> Option<Step> {
    let id =
        || item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default().to_owned();
    Some(match text(item, "type") {
        "message" if text(item, "role") == "assistant" => Step::Model,
        "message" => Step::User,
        "function_call" | "custom_tool_call" | "local_shell_call" => Step::Call(id()),
        "function_call_output" | "custom_tool_call_output" => {
            Step::Result(text(item, "call_id").to_owned())
        }
        other if OF_MODEL.contains(&other) => Step::Model,
        _ => return None,
    })
}

/// Replaces the oldest images if there are too many.
fn pictures(lines: &mut Lines<'_>, notes: &mut Notes) {
    let mut found: Vec<(usize, &'static str, usize)> = Vec::new();
    for (at, record) in lines.records.iter().enumerate() {
        if text(&record.value, "type") == "compacted" {
            // Images before a summary are not sent.
            found.clear();
        }
        let Some(item) = item(&record.value) else { continue };
        for key in ["content", "output"] {
            let parts = item[key].as_array().into_iter().flatten().enumerate();
            let images = parts.filter(|(_, part)| text(part, "type") == "input_image");
            found.extend(images.map(|(index, _)| (at, key, index)));
        }
    }
    let count = found.len();
    for (at, key, index) in found.into_iter().take(count.saturating_sub(OPENAI.most)) {
        let record = &mut lines.records[at];
        let why = format!("{count} images, limit {}", OPENAI.most);
        let field = format!("{key}[{index}]");
        let what = format!("the image is unusable: {why}");
        notes.add(DamageKind::BadMedia, place(record, &field), what, "a text takes its place");
        item_mut(record)[key][index] = left_out(&why);
    }
}

/// Matches calls with results. Returns the lines to add.
fn results(lines: &mut Lines<'_>, notes: &mut Notes) -> Vec<(usize, Record)> {
    let mut said = Vec::new();
    let mut places = Vec::new();
    for (at, record) in lines.records.iter().enumerate() {
        let step = match item(&record.value) {
            Some(item) => step(item),
            None => (text(&record.value, "type") == "compacted").then_some(Step::User),
        };
        if let Some(step) = step {
            said.push(Said { step, reply: String::new() });
            places.push(at);
        }
    }
    let mut inserts = Vec::new();
    for fault in pairs::faults(&said) {
        let (kind, at, what, mend) = match fault {
            Fault::ResultOf { result, to } => {
                item_mut(&mut lines.records[places[result]])["call_id"] = to.into();
                continue;
            }
            Fault::SameId { call, to } => {
                let at = places[call];
                let what = "an earlier call has this id";
                let mend = "the call and its result get another id";
                notes.add(
                    DamageKind::DoubledCallId,
                    place(&lines.records[at], "call_id"),
                    what,
                    mend,
                );
                item_mut(&mut lines.records[at])["call_id"] = to.into();
                continue;
            }
            Fault::Orphan { call } => {
                let at = places[call];
                inserts.push((at + 1, at, unknown(&lines.records[at])));
                (
                    DamageKind::OrphanCall,
                    at,
                    "the call has no result",
                    "a result is added: the outcome is unknown",
                )
            }
            Fault::Misplaced { result, call } => {
                let record = &mut lines.records[places[result]];
                record.is_dropped = true;
                let (line, value) = (record.line, record.value.clone());
                let at = places[call];
                inserts.push((at + 1, at, Record::new(line, value)));
                let what = "the output does not follow its call";
                (DamageKind::MisplacedResult, places[result], what, "it moves to its call")
            }
            Fault::Doubled { result } => {
                lines.records[places[result]].is_dropped = true;
                (
                    DamageKind::DoubledResult,
                    places[result],
                    "the call has an output already",
                    "dropped",
                )
            }
            Fault::Stray { result } => {
                lines.records[places[result]].is_dropped = true;
                (DamageKind::OrphanResult, places[result], "the output has no call", "dropped")
            }
        };
        let name = item(&lines.records[at].value).map(|item| word(text(item, "name")));
        let name = name.filter(|name| !name.is_empty()).map(|name| format!(" ({name})"));
        let what = format!("{what}{}", name.unwrap_or_default());
        notes.add(kind, place(&lines.records[at], "call_id"), what, mend);
    }
    inserts.into_iter().map(|(before, _, record)| (before, record)).collect()
}

/// A line with the unknown result of the call in this line.
fn unknown(call: &Record) -> Record {
    let item = item(&call.value).unwrap_or(&Value::Null);
    let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default();
    let kind = match text(item, "type") {
        "custom_tool_call" => "custom_tool_call_output",
        _ => "function_call_output",
    };
    let output = json!({ "type": kind, "call_id": id, "output": UNKNOWN });
    let value = if is_wrapped(&call.value) {
        let time = &call.value["timestamp"];
        json!({ "timestamp": time, "type": "response_item", "payload": output })
    } else {
        output
    };
    Record::new(call.line, value)
}
