//! Sessions of Claude Code: a tree of records, of which the last branch is sent.
//!
//! A record of a reply holds one of its blocks, and a record of the user the results of calls. A
//! change that adds or drops a record relinks the records after it.

use std::collections::{HashMap, HashSet};

use leftfold_import::{LeftOut, text};
use serde_json::{Map, Value, json};

use crate::lines::{Lines, Record};
use crate::media::{self, ANTHROPIC};
use crate::pairs::{self, Fault, Said, Step};
use crate::{
    DamageKind, FindingPlace, LOST, Notes, UNKNOWN, is_blank, is_plain, mend_input, plain,
    plain_id, uuid, word,
};

/// Characters of a tool's name.
const LONGEST_NAME: usize = 128;

/// The members that an added record has from the record before it.
const COPIED: [&str; 10] = [
    "isSidechain", "agentId", "userType", "cwd", "sessionId", "version", "gitBranch", "slug",
    "timestamp", "entrypoint",
];

/// Members that name a record.
const LINKS: [&str; 3] = ["parentUuid", "logicalParentUuid", "leafUuid"];

pub(crate) fn is_record(value: &Value) -> bool {
    let ids = ["uuid", "sessionId", "leafUuid", "messageId"];
    value["type"].is_string() && ids.iter().any(|id| value[*id].is_string())
}

/// One round of mending.
pub(crate) fn judge(lines: &mut Lines<'_>, notes: &mut Notes) {
    same_ids(lines, notes);
    apply(lines, Vec::new());
    parents(lines, notes);
    cycles(lines, notes);
    boundaries(lines, notes);
    apply(lines, Vec::new());
    let mut inserts = Vec::new();
    for conversation in conversations(lines) {
        blocks(lines, &conversation, notes);
        pictures(lines, &conversation, notes);
        alone(lines, &conversation, notes);
        inserts.extend(results(lines, &conversation, notes));
        inserts.extend(beginning(lines, &conversation, notes));
    }
    apply(lines, inserts);
}

fn place<'a>(record: &'a Record, field: impl Into<String>) -> FindingPlace<'a> {
    FindingPlace(record.line, text(&record.value, "uuid"), field.into())
}

fn is_message(record: &Value) -> bool {
    matches!(text(record, "type"), "user" | "assistant") && record["message"].is_object()
}

fn is_aside(record: &Value) -> bool {
    record["isSidechain"].as_bool().unwrap_or_default()
}

/// A subagent's records, or the session's own.
fn group(record: &Value) -> (bool, String) {
    (is_aside(record), text(record, "agentId").to_owned())
}

/// Gives each record of the tree an id of its own.
fn same_ids(lines: &mut Lines<'_>, notes: &mut Notes) {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut renamed: HashMap<String, String> = HashMap::new();
    let mut before: HashMap<(bool, String), String> = HashMap::new();
    for at in 0..lines.records.len() {
        let value = &lines.records[at].value;
        let id = text(value, "uuid").to_owned();
        if id.is_empty() && !is_message(value) {
            continue;
        }
        let group = group(value);
        let now = if id.is_empty() {
            let what = "the message has no `uuid`";
            let mend = "it gets one, and follows the record before it";
            notes.add(DamageKind::BrokenTree, place(&lines.records[at], "uuid"), what, mend);
            let new = uuid(&["no uuid", &at.to_string(), &value.to_string()]);
            let parent = before.get(&group).cloned().map_or(Value::Null, Value::String);
            let value = lines.records[at].edit();
            value["uuid"] = new.clone().into();
            value["parentUuid"] = parent;
            new
        } else if let Some(known) = first.get(&id) {
            let known = &lines.records[*known].value;
            let is_same = known["type"] == value["type"] && known["message"] == value["message"];
            let what = "an earlier record has this `uuid`";
            let mend =
                if is_same { "this copy is dropped" } else { "this record gets another one" };
            notes.add(DamageKind::BrokenTree, place(&lines.records[at], "uuid"), what, mend);
            if is_same {
                // Records that name this id find the first one.
                lines.records[at].edit()["uuid"] = Value::Null;
                lines.records[at].is_dropped = true;
                continue;
            }
            relink(&mut lines.records[at], &renamed);
            let new = uuid(&["same uuid", &id, &at.to_string()]);
            lines.records[at].edit()["uuid"] = new.clone().into();
            renamed.insert(id, new.clone());
            new
        } else {
            relink(&mut lines.records[at], &renamed);
            id
        };
        first.insert(now.clone(), at);
        before.insert(group, now);
    }
}

fn relink(record: &mut Record, renamed: &HashMap<String, String>) {
    let parent = record.value["parentUuid"].as_str().and_then(|parent| renamed.get(parent));
    if let Some(parent) = parent.cloned() {
        record.edit()["parentUuid"] = parent.into();
    }
}

/// Lets a record whose parent is missing follow the record before it.
fn parents(lines: &mut Lines<'_>, notes: &mut Notes) {
    let known: HashSet<String> =
        lines.records.iter().map(|record| text(&record.value, "uuid").to_owned()).collect();
    let mut before: HashMap<(bool, String), String> = HashMap::new();
    for record in &mut lines.records {
        let id = text(&record.value, "uuid").to_owned();
        if id.is_empty() {
            continue;
        }
        let group = group(&record.value);
        let parent = record.value["parentUuid"].as_str();
        if let Some(parent) = parent.filter(|parent| parent.is_empty() || !known.contains(*parent))
        {
            let what = format!("its parent `{}` is missing", word(parent));
            let new = before.get(&group).cloned();
            let mend =
                if new.is_some() { "it follows the record before it" } else { "it is the first" };
            notes.add(DamageKind::BrokenTree, place(record, "parentUuid"), what, mend);
            record.edit()["parentUuid"] = new.map_or(Value::Null, Value::String);
        }
        before.insert(group, id);
    }
}

/// Breaks cycles of parents at their first record.
fn cycles(lines: &mut Lines<'_>, notes: &mut Notes) {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Rooted,
    }
    let by_id: HashMap<String, usize> = (0..lines.records.len())
        .rev()
        .map(|at| (text(&lines.records[at].value, "uuid").to_owned(), at))
        .filter(|(id, _)| !id.is_empty())
        .collect();
    let parent_of = |lines: &Lines<'_>, at: usize| {
        by_id.get(lines.records[at].value["parentUuid"].as_str()?).copied()
    };
    let mut seen = vec![Seen::No; lines.records.len()];
    let mut before: HashMap<(bool, String), String> = HashMap::new();
    for start in 0..lines.records.len() {
        if text(&lines.records[start].value, "uuid").is_empty() {
            continue;
        }
        let mut path = Vec::new();
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| seen[*at] == Seen::No) {
            seen[at] = Seen::OnPath;
            path.push(at);
            next = parent_of(lines, at);
        }
        if let Some(at) = next.filter(|at| seen[*at] == Seen::OnPath) {
            let from = path.iter().position(|step| *step == at).unwrap_or_default();
            let first = path[from..].iter().copied().min().unwrap_or(at);
            let record = &mut lines.records[first];
            let what = "its parents lead back to itself";
            let new = before.get(&group(&record.value)).cloned();
            let mend =
                if new.is_some() { "it follows the record before it" } else { "it is the first" };
            notes.add(DamageKind::BrokenTree, place(record, "parentUuid"), what, mend);
            record.edit()["parentUuid"] = new.map_or(Value::Null, Value::String);
        }
        path.into_iter().for_each(|at| seen[at] = Seen::Rooted);
        let value = &lines.records[start].value;
        before.insert(group(value), text(value, "uuid").to_owned());
    }
}

/// Drops a compaction without its summary, so that the history before it counts again.
fn boundaries(lines: &mut Lines<'_>, notes: &mut Notes) {
    let is_summary = |value: &Value| value["isCompactSummary"].as_bool().unwrap_or_default();
    let summarized: HashSet<String> = lines
        .records
        .iter()
        .filter(|record| is_summary(&record.value))
        .map(|record| text(&record.value, "parentUuid").to_owned())
        .collect();
    let known: HashSet<String> =
        lines.records.iter().map(|record| text(&record.value, "uuid").to_owned()).collect();
    // Whether the next message after each record is a summary.
    let mut is_before_summary = vec![false; lines.records.len()];
    let mut is_next = false;
    for (at, record) in lines.records.iter().enumerate().rev() {
        is_before_summary[at] = is_next;
        if is_message(&record.value) {
            is_next = is_summary(&record.value);
        }
    }
    let mut before: HashMap<(bool, String), String> = HashMap::new();
    for (at, is_before_summary) in is_before_summary.into_iter().enumerate() {
        let value = &lines.records[at].value;
        let id = text(value, "uuid").to_owned();
        if id.is_empty() {
            continue;
        }
        let group = group(value);
        let is_boundary = text(value, "subtype") == "compact_boundary";
        if !is_boundary || is_before_summary || summarized.contains(&id) {
            before.insert(group, id);
            continue;
        }
        let logical = value["logicalParentUuid"].as_str().filter(|parent| known.contains(*parent));
        let parent = logical.map(str::to_owned).or_else(|| before.get(&group).cloned());
        let record = &mut lines.records[at];
        let what = "the compaction has no summary, so the history before it is lost";
        notes.add(
            DamageKind::DanglingCompaction,
            place(record, ""),
            what,
            "dropped: the history counts again",
        );
        record.edit()["parentUuid"] = parent.map_or(Value::Null, Value::String);
        record.is_dropped = true;
    }
}

/// Removes dropped records, adds others, and relinks the records that follow them.
fn apply(lines: &mut Lines<'_>, inserts: Vec<(usize, Record)>) {
    let mut gone: HashMap<String, Value> = HashMap::new();
    for record in lines.records.iter().filter(|record| record.is_dropped) {
        let parent = &record.value["parentUuid"];
        let up = parent.as_str().and_then(|parent| gone.get(parent)).unwrap_or(parent).clone();
        if let Some(id) = record.value["uuid"].as_str() {
            gone.insert(id.to_owned(), up);
        }
    }
    let added = inserts.into_iter().map(|(at, mut record)| {
        follow(&mut record, &gone);
        (at, record)
    });
    let added: Vec<(usize, Record)> = added.collect();
    if !gone.is_empty() {
        lines.records.iter_mut().for_each(|record| follow(record, &gone));
    }
    lines.apply(added);
}

fn follow(record: &mut Record, gone: &HashMap<String, Value>) {
    for link in LINKS {
        let to = record.value[link].as_str().and_then(|id| gone.get(id));
        if let Some(to) = to.cloned() {
            record.edit()[link] = to;
        }
    }
}

/// The messages that are sent together, by index: the session's last branch, and each subagent's
/// messages.
fn conversations(lines: &mut Lines<'_>) -> Vec<Vec<usize>> {
    let values = lines.records.iter_mut().map(|record| record.value.take());
    let values: Vec<Value> = values.collect();
    let chosen =
        leftfold_import::chosen_by_claude(&values, &HashSet::new(), &mut LeftOut::default());
    let is_sent = |at: &usize| {
        let value = &values[*at];
        is_message(value) && !value["isApiErrorMessage"].as_bool().unwrap_or_default()
    };
    let mut main: Vec<usize> = chosen.into_iter().filter(is_sent).collect();
    main.sort_unstable();
    let mut asides: Vec<Vec<usize>> = Vec::new();
    if values.iter().any(|value| is_message(value) && !is_aside(value)) {
        let mut of_root: HashMap<String, usize> = HashMap::new();
        let mut root_of: HashMap<&str, String> = HashMap::new();
        for (at, value) in values.iter().enumerate().filter(|(_, value)| is_aside(value)) {
            let (id, agent) = (text(value, "uuid"), text(value, "agentId"));
            let parent = value["parentUuid"].as_str().and_then(|parent| root_of.get(parent));
            let root = parent.cloned().unwrap_or_else(|| id.to_owned());
            let root = if agent.is_empty() { root } else { format!("agent {agent}") };
            root_of.insert(id, root.clone());
            if is_sent(&at) {
                let index = *of_root.entry(root).or_insert(asides.len());
                asides.resize(asides.len().max(index + 1), Vec::new());
                asides[index].push(at);
            }
        }
    }
    for (record, value) in lines.records.iter_mut().zip(values) {
        record.value = value;
    }
    asides.insert(0, main);
    asides
}

/// Judges each block by itself.
fn blocks(lines: &mut Lines<'_>, conversation: &[usize], notes: &mut Notes) {
    let mut ids = HashMap::new();
    for at in conversation {
        let record = &lines.records[*at];
        for (index, block) in content(&record.value).iter().enumerate() {
            let id = text(block, "id");
            if text(block, "type") == "tool_use" && !is_plain(id, usize::MAX) {
                let salt = format!("{} {at} {index}", text(&record.value, "uuid"));
                ids.entry(id.to_owned()).or_insert_with(|| plain_id(id, &salt));
            }
        }
    }
    for at in conversation {
        let record = &mut lines.records[*at];
        let count = notes.count;
        let mut value = record.value.clone();
        let (line, id) = (record.line, text(&record.value, "uuid").to_owned());
        let content = &mut value["message"]["content"];
        let mut judge = Judge { notes, line, id: &id, ids: &ids, is_changed: false };
        let is_empty = judge.content(content);
        let is_changed = judge.is_changed;
        if is_changed || notes.count > count {
            *record.edit() = value;
            record.is_dropped = is_empty;
        }
    }
}

/// Judges the blocks of one record.
struct Judge<'a> {
    notes: &'a mut Notes,
    line: usize,
    id: &'a str,
    /// New ids of calls, by those that no API accepts.
    ids: &'a HashMap<String, String>,
    is_changed: bool,
}

impl Judge<'_> {
    fn note(&mut self, kind: DamageKind, field: String, what: impl Into<String>, mend: &str) {
        self.notes.add(kind, FindingPlace(self.line, self.id, field), what, mend);
    }

    /// Mends a message's content. Answers whether nothing is left of it.
    fn content(&mut self, content: &mut Value) -> bool {
        let field = "message.content";
        if let Some(words) = content.as_str() {
            if is_blank(words) {
                self.note(
                    DamageKind::EmptyBlock,
                    field.to_owned(),
                    "the message is empty",
                    "dropped",
                );
                return true;
            }
            return false;
        }
        let Some(blocks) = content.as_array_mut().filter(|blocks| !blocks.is_empty()) else {
            self.note(
                DamageKind::EmptyBlock,
                field.to_owned(),
                "the message has no content",
                "dropped",
            );
            return true;
        };
        let old = std::mem::take(blocks);
        for (index, mut block) in old.into_iter().enumerate() {
            if self.is_kept(&mut block, &format!("{field}[{index}]")) {
                blocks.push(block);
            }
        }
        blocks.is_empty()
    }

    /// Mends a block. Answers whether anything is left of it.
    fn is_kept(&mut self, block: &mut Value, field: &str) -> bool {
        match text(block, "type") {
            "text" if is_blank(text(block, "text")) => {
                self.note(
                    DamageKind::EmptyBlock,
                    format!("{field}.text"),
                    "the text is empty",
                    "dropped",
                );
                return false;
            }
            "thinking" => {
                let signature = text(block, "signature");
                if signature.is_empty() || !media::is_base64(signature) {
                    let what = if signature.is_empty() {
                        "the reasoning has no signature"
                    } else {
                        "the signature of the reasoning is not base64"
                    };
                    self.note(
                        DamageKind::UnsignedReasoning,
                        format!("{field}.signature"),
                        what,
                        "dropped",
                    );
                    return false;
                }
            }
            "redacted_thinking" if text(block, "data").is_empty() => {
                let what = "the hidden reasoning has no data";
                self.note(DamageKind::UnsignedReasoning, format!("{field}.data"), what, "dropped");
                return false;
            }
            "tool_use" => self.call(block, field),
            "tool_result" => {
                if let Some(id) = self.ids.get(text(block, "tool_use_id")) {
                    block["tool_use_id"] = id.clone().into();
                    self.is_changed = true;
                }
                self.result(block, field);
            }
            "image" | "document" => self.media(block, field),
            "" => {
                let what = "this is not a block";
                let words = block.as_str().filter(|words| !is_blank(words)).map(str::to_owned);
                let mend = if words.is_some() { "it becomes a block of text" } else { "dropped" };
                self.note(DamageKind::EmptyBlock, field.to_owned(), what, mend);
                let Some(words) = words else { return false };
                *block = json!({ "type": "text", "text": words });
            }
            _ => {}
        }
        true
    }

    fn call(&mut self, block: &mut Value, field: &str) {
        if let Some(id) = self.ids.get(text(block, "id")) {
            let what = format!("`{}` is no id for a call", word(text(block, "id")));
            let field = format!("{field}.id");
            self.note(DamageKind::BadCallId, field, what, "the call and its result get another id");
            block["id"] = id.clone().into();
        }
        let name = text(block, "name");
        if !is_plain(name, LONGEST_NAME) {
            let what = format!("`{}` is no name for a tool", word(name));
            let name = plain(name, LONGEST_NAME);
            let mend = format!("the call gets the name `{}`", word(&name));
            block["name"] = name.into();
            self.note(DamageKind::BadName, format!("{field}.name"), what, &mend);
        }
        if let Some(what) = mend_input(&mut block["input"]) {
            self.note(DamageKind::BadInput, format!("{field}.input"), what, "it becomes an object");
        }
    }

    fn result(&mut self, block: &mut Value, field: &str) {
        let parts = block.get_mut("content").and_then(Value::as_array_mut);
        let Some(parts) = parts else { return };
        let old = std::mem::take(parts);
        let was_empty = old.is_empty();
        let mut kept = Vec::new();
        for (index, mut part) in old.into_iter().enumerate() {
            if self.is_kept(&mut part, &format!("{field}.content[{index}]")) {
                kept.push(part);
            }
        }
        let is_empty = kept.is_empty() && !was_empty;
        block["content"] = if is_empty { "".into() } else { kept.into() };
    }

    fn media(&mut self, block: &mut Value, field: &str) {
        let source = &block["source"];
        if text(source, "type") != "base64" {
            return;
        }
        let is_image = text(block, "type") == "image";
        match media::judge(text(source, "media_type"), text(source, "data"), &ANTHROPIC) {
            Err(media::Fault::Type(mime)) if (mime != media::PDF) == is_image => {
                let what =
                    format!("the type is `{mime}`, not `{}`", word(text(source, "media_type")));
                block["source"]["media_type"] = mime.into();
                let field = format!("{field}.source.media_type");
                self.note(DamageKind::BadMedia, field, what, "the type is corrected");
            }
            Ok(_) => {}
            Err(fault) => {
                let why = match fault {
                    media::Fault::Type(mime) => format!("its type is {mime}"),
                    media::Fault::Unusable(why) => why,
                };
                let what = if is_image { "image" } else { "document" };
                self.note(
                    DamageKind::BadMedia,
                    format!("{field}.source.data"),
                    format!("the {what} is unusable: {why}"),
                    "a text takes its place",
                );
                *block = left_out(what, &why);
            }
        }
    }
}

fn left_out(what: &str, why: &str) -> Value {
    json!({ "type": "text", "text": format!("[{what} left out: {why}]") })
}

fn content(record: &Value) -> &[Value] {
    record["message"]["content"].as_array().map_or(&[], Vec::as_slice)
}

/// Replaces images that are too many together: the oldest ones, and large ones among many.
fn pictures(lines: &mut Lines<'_>, conversation: &[usize], notes: &mut Notes) {
    let mut found: Vec<(usize, String, u32)> = Vec::new();
    for at in conversation.iter().filter(|at| !lines.records[**at].is_dropped) {
        let record = &lines.records[*at];
        if record.value["isCompactSummary"].as_bool().unwrap_or_default() {
            // Images before a summary are not sent.
            found.clear();
        }
        for (index, block) in content(&record.value).iter().enumerate() {
            let own = std::iter::once((String::new(), block));
            let parts = block["content"].as_array().into_iter().flatten().enumerate();
            let parts = parts.map(|(part, block)| (format!("/content/{part}"), block));
            for (path, block) in
                own.chain(parts).filter(|(_, block)| text(block, "type") == "image")
            {
                let source = &block["source"];
                let side =
                    media::judge(text(source, "media_type"), text(source, "data"), &ANTHROPIC);
                found.push((
                    *at,
                    format!("/message/content/{index}{path}"),
                    side.unwrap_or_default(),
                ));
            }
        }
    }
    let count = found.len();
    let surplus = count.saturating_sub(ANTHROPIC.most);
    for (index, (at, path, side)) in found.into_iter().enumerate() {
        let is_large = count > ANTHROPIC.many && side > ANTHROPIC.many_side;
        let why = if index < surplus {
            format!("{count} images, limit {}", ANTHROPIC.most)
        } else if is_large {
            format!("{side} pixels among {count} images, limit {}", ANTHROPIC.many_side)
        } else {
            continue;
        };
        let record = &mut lines.records[at];
        let field = path[1..].replace('/', ".");
        let what = format!("the image is unusable: {why}");
        notes.add(DamageKind::BadMedia, place(record, field), what, "a text takes its place");
        if let Some(block) = record.edit().pointer_mut(&path) {
            *block = left_out("image", &why);
        }
    }
}

/// Drops reasoning at the end of a reply.
fn alone(lines: &mut Lines<'_>, conversation: &[usize], notes: &mut Notes) {
    let mut replies: Vec<(usize, usize)> = Vec::new();
    let (mut reply, mut key) = (0, String::new());
    for at in conversation.iter().filter(|at| !lines.records[**at].is_dropped) {
        let value = &lines.records[*at].value;
        if text(value, "type") == "assistant" {
            let id = text(&value["message"], "id");
            if id.is_empty() || id != key {
                reply += 1;
                id.clone_into(&mut key);
            }
            replies.push((*at, reply));
        } else if content(value).iter().any(|block| text(block, "type") != "tool_result")
            || value["message"]["content"].is_string()
        {
            key.clear();
        }
    }
    let mut done = HashSet::new();
    for (at, reply) in replies.into_iter().rev() {
        if done.contains(&reply) {
            continue;
        }
        let record = &mut lines.records[at];
        while let Some(last) = content(&record.value).last() {
            if !matches!(text(last, "type"), "thinking" | "redacted_thinking") {
                break;
            }
            let field = format!("message.content[{}]", content(&record.value).len() - 1);
            let what = "the reply ends in its reasoning";
            notes.add(DamageKind::ReasoningAlone, place(record, field), what, "dropped");
            record.edit()["message"]["content"].as_array_mut().and_then(Vec::pop);
        }
        record.is_dropped =
            content(&record.value).is_empty() && !record.value["message"]["content"].is_string();
        if !record.is_dropped {
            done.insert(reply);
        }
    }
}

/// Matches calls with results. Returns the records to add.
fn results(
    lines: &mut Lines<'_>,
    conversation: &[usize],
    notes: &mut Notes,
) -> Vec<(usize, Record)> {
    let (said, places) = said(lines, conversation);
    let faults = pairs::faults(&said);
    let mut gone: HashMap<usize, HashSet<usize>> = HashMap::new();
    let mut added: Vec<(usize, usize, Value)> = Vec::new();
    for fault in faults {
        let (kind, step, what, mend) = match fault {
            Fault::ResultOf { result, to } => {
                let (at, index) = places[result];
                lines.records[at].edit()["message"]["content"][index]["tool_use_id"] = to.into();
                continue;
            }
            Fault::SameId { call, to } => {
                let (at, index) = places[call];
                lines.records[at].edit()["message"]["content"][index]["id"] = to.into();
                let what = "an earlier call has this id";
                (DamageKind::DoubledCallId, call, what, "the call and its result get another id")
            }
            Fault::Orphan { call } => {
                added.push((call, call, Value::Null));
                let mend = "a result is added: the outcome is unknown";
                (DamageKind::OrphanCall, call, "the call has no result", mend)
            }
            Fault::Misplaced { result, call } => {
                let (at, index) = places[result];
                gone.entry(at).or_default().insert(index);
                added.push((call, result, Value::Null));
                let what = "the result does not follow its call";
                (DamageKind::MisplacedResult, result, what, "it moves to its call")
            }
            Fault::Doubled { result } => {
                let (at, index) = places[result];
                gone.entry(at).or_default().insert(index);
                (DamageKind::DoubledResult, result, "the call has a result already", "dropped")
            }
            Fault::Stray { result } => {
                let (at, index) = places[result];
                gone.entry(at).or_default().insert(index);
                (DamageKind::OrphanResult, result, "the result has no call", "dropped")
            }
        };
        let (at, index) = places[step];
        let block = &content(&lines.records[at].value)[index];
        let id =
            if block["id"].is_string() { text(block, "id") } else { text(block, "tool_use_id") };
        let named = match text(block, "name") {
            "" => word(id),
            name => format!("{} of {}", word(id), word(name)),
        };
        let (what, field) = (format!("{what} ({named})"), format!("message.content[{index}]"));
        notes.add(kind, place(&lines.records[at], field), what, mend);
    }
    for (call, from, block) in &mut added {
        let (at, index) = places[*from];
        let found = &content(&lines.records[at].value)[index];
        *block = if call == from {
            json!({ "type": "tool_result", "tool_use_id": found["id"], "content": UNKNOWN, "is_error": true })
        } else {
            found.clone()
        };
    }
    // In the order of their calls, so that they form a chain.
    added.sort_by_key(|(call, _, _)| *call);
    let mut tails: HashMap<String, String> = HashMap::new();
    let mut inserts = Vec::new();
    for (call, from, block) in added {
        let (at, _) = places[call];
        let old = (call != from).then_some(places[from].0);
        let uuid_of_call = text(&lines.records[at].value, "uuid").to_owned();
        let parent = tails.get(&uuid_of_call).unwrap_or(&uuid_of_call).clone();
        let record = answer(&lines.records, at, old, &parent, &block);
        tails.insert(uuid_of_call, text(&record.value, "uuid").to_owned());
        inserts.push((at + 1, record));
    }
    if !tails.is_empty() {
        for record in &mut lines.records {
            let parent = record.value["parentUuid"].as_str().and_then(|parent| tails.get(parent));
            if let Some(parent) = parent.cloned() {
                record.edit()["parentUuid"] = parent.into();
            }
        }
    }
    for (at, indices) in gone {
        let record = &mut lines.records[at];
        let blocks = record.edit()["message"]["content"].as_array_mut();
        let mut index = 0;
        let left = blocks.map_or(0, |blocks| {
            blocks.retain(|_| {
                index += 1;
                !indices.contains(&(index - 1))
            });
            blocks.len()
        });
        record.is_dropped |= left == 0;
    }
    inserts
}

/// The steps of a conversation, and the record and block of each.
fn said(lines: &Lines<'_>, conversation: &[usize]) -> (Vec<Said>, Vec<(usize, usize)>) {
    let mut said = Vec::new();
    let mut places = Vec::new();
    for at in conversation.iter().filter(|at| !lines.records[**at].is_dropped) {
        let value = &lines.records[*at].value;
        let is_model = text(value, "type") == "assistant";
        let reply = if is_model { text(&value["message"], "id") } else { "" };
        let mut add = |step: Step, index: usize| {
            said.push(Said { step, reply: reply.to_owned() });
            places.push((*at, index));
        };
        let speaks = || if is_model { Step::Model } else { Step::User };
        if value["message"]["content"].is_string() {
            add(speaks(), 0);
        }
        for (index, block) in content(value).iter().enumerate() {
            match text(block, "type") {
                "tool_use" if is_model => add(Step::Call(text(block, "id").to_owned()), index),
                "tool_result" if !is_model => {
                    add(Step::Result(text(block, "tool_use_id").to_owned()), index);
                }
                _ => add(speaks(), index),
            }
        }
    }
    (said, places)
}

/// A record with the result of a call in the record at `call`. `old` is the record that had it.
fn answer(
    records: &[Record],
    call: usize,
    old: Option<usize>,
    parent: &str,
    block: &Value,
) -> Record {
    let near = &records[old.unwrap_or(call)];
    let id = uuid(&["result", parent, text(block, "tool_use_id")]);
    let mut value = added(&near.value, &id, parent.into());
    if let Some(result) = near.value.get("toolUseResult").filter(|_| old.is_some()) {
        value["toolUseResult"] = result.clone();
    }
    value["message"] = json!({ "role": "user", "content": [block] });
    Record::new(records[call].line, value)
}

/// A record of the user like its neighbour, without a message.
fn added(near: &Value, id: &str, parent: Value) -> Value {
    let mut value = Map::new();
    value.insert("parentUuid".to_owned(), parent);
    for key in COPIED {
        if let Some(copied) = near.get(key) {
            value.insert(key.to_owned(), copied.clone());
        }
    }
    value.insert("type".to_owned(), "user".into());
    value.insert("uuid".to_owned(), id.into());
    Value::Object(value)
}

/// A prompt before a reply that begins the conversation.
fn beginning(
    lines: &mut Lines<'_>,
    conversation: &[usize],
    notes: &mut Notes,
) -> Option<(usize, Record)> {
    let mut left = conversation.iter().copied().filter(|at| !lines.records[*at].is_dropped);
    let first = left.next()?;
    let record = &lines.records[first];
    if text(&record.value, "type") != "assistant" {
        return None;
    }
    let (what, mend) = ("the conversation begins with an answer", "a prompt is added that says so");
    notes.add(DamageKind::LostBeginning, place(record, ""), what, mend);
    let id = uuid(&["beginning", text(&record.value, "uuid")]);
    // The first record of the file may be a side branch of the reply: the prompt precedes the root.
    let root = root(lines, left.next_back().unwrap_or(first));
    let mut value = added(&record.value, &id, lines.records[root].value["parentUuid"].clone());
    value["message"] = json!({ "role": "user", "content": LOST });
    let added = Record::new(record.line, value);
    lines.records[root].edit()["parentUuid"] = id.into();
    Some((first, added))
}

/// The first record above the one at `at`.
fn root(lines: &Lines<'_>, mut at: usize) -> usize {
    let by_id: HashMap<&str, usize> = lines
        .records
        .iter()
        .enumerate()
        .map(|(at, record)| (text(&record.value, "uuid"), at))
        .collect();
    // Cycles are broken by now, but a boundary may name any record.
    for _ in 0..lines.records.len() {
        let value = &lines.records[at].value;
        let parent = value["parentUuid"].as_str().or_else(|| value["logicalParentUuid"].as_str());
        let Some(parent) = parent.and_then(|parent| by_id.get(parent)) else { break };
        at = *parent;
    }
    at
}
