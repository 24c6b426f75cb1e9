//! Sessions of OpenCode, as `opencode export` prints them: one JSON value with the session, its
//! messages and their parts. A call and its result are one part.

use std::collections::{HashMap, HashSet};

use leftfold_framing::surrogates;
use leftfold_import::{UnreadableFile, data_url, text};
use serde_json::{Deserializer, Value, json};

use crate::media::{self, ANTHROPIC, Limits, OPENAI};
use crate::{
    DamageKind, FindingPlace, LOST, Notes, UNKNOWN, hash, is_blank, is_plain, mend_input, plain,
    plain_id, word,
};

/// Characters of a tool's name: Anthropic's limit, and everybody else's.
const LONGEST_NAMES: (usize, usize) = (128, 64);

struct Session {
    /// The export without its messages.
    export: Value,
    messages: Vec<Message>,
}

struct Message {
    line: usize,
    index: usize,
    /// The message without its parts.
    value: Value,
    parts: Vec<StoredPart>,
    is_dropped: bool,
}

struct StoredPart {
    line: usize,
    index: usize,
    value: Value,
    is_dropped: bool,
}

pub(crate) fn examine(bytes: &[u8], notes: &mut Notes) -> Result<Vec<u8>, UnreadableFile> {
    let (file, start) = whole(bytes, notes)?;
    let is_pretty = file.starts_with("{\n");
    let export: Value = serde_json::from_str(&file).map_err(|error| {
        UnreadableFile(format!("it is not what `opencode export` prints: {error}"))
    })?;
    if text(&export, "id").starts_with("ses_") && export["messages"].is_null() {
        let id = text(&export, "id");
        return Err(UnreadableFile(format!(
            "it names a session whose messages are in other files, which are not read: run `opencode export {} > \
             FILE` and examine that",
            word(id)
        )));
    }
    let mut session = Session::read(export, &lines(&file, start), notes)?;
    notes.rounds(|notes| session.judge(notes));
    let export = session.write();
    let text = if is_pretty { serde_json::to_string_pretty(&export).ok() } else { None };
    let mut text = text.unwrap_or_else(|| export.to_string());
    text.push('\n');
    Ok(text.into_bytes())
}

/// The text of the only JSON value of the file, and the line in which it starts. Text around it is
/// left out, and a value that is cut off is closed after its last whole part.
fn whole(bytes: &[u8], notes: &mut Notes) -> Result<(String, usize), UnreadableFile> {
    let lossy = String::from_utf8_lossy(bytes);
    if lossy.as_bytes() != bytes {
        notes.add(
            DamageKind::BrokenLine,
            FindingPlace(1, "", String::new()),
            "the file is not UTF-8",
            "its text is repaired",
        );
    }
    let Some(start) = lossy.find('{') else {
        return Err(UnreadableFile("it has no JSON".to_owned()));
    };
    let first = 1 + lossy[..start].matches('\n').count();
    if !is_blank(&lossy[..start]) {
        let place = FindingPlace(1, "", String::new());
        notes.add(DamageKind::BrokenLine, place, "text precedes the session", "dropped");
    }
    let text = &lossy[start..];
    let repaired = surrogates::repair(text);
    let mut values = Deserializer::from_str(&repaired).into_iter::<Value>();
    let error = match values.next() {
        Some(Ok(_)) => {
            let end = values.byte_offset();
            if matches!(repaired, std::borrow::Cow::Owned(_)) {
                let place = FindingPlace(first, "", String::new());
                notes.add(
                    DamageKind::BrokenLine,
                    place,
                    "half a character in a text",
                    "its text is repaired",
                );
            }
            if !is_blank(&repaired[end..]) {
                let line = first + repaired[..end].matches('\n').count();
                let place = FindingPlace(line, "", String::new());
                notes.add(DamageKind::BrokenLine, place, "text follows the session", "dropped");
            }
            return Ok((repaired[..end].to_owned(), first));
        }
        Some(Err(error)) => error.to_string(),
        None => "no value".to_owned(),
    };
    let Some(closed) = close(&repaired) else {
        return Err(UnreadableFile(format!("it is not what `opencode export` prints: {error}")));
    };
    let line = first + repaired.matches('\n').count();
    let what = format!("the session is cut off: {error}");
    let mend = "it ends after the last whole part";
    notes.add(DamageKind::BrokenLine, FindingPlace(line, "", String::new()), what, mend);
    Ok((closed, first))
}

/// A place in a JSON text where it could be closed.
struct Cut {
    end: usize,
    closers: String,
}

/// A text that is cut off, closed after the last whole element of `messages` or of `parts` whose
/// message has its head.
fn close(text: &str) -> Option<String> {
    let mut walk = Walk::new(text);
    let mut cut = None;
    while let Some(event) = walk.next() {
        if let Event::Element { depth: 2 | 4, .. } = event {
            cut = Some(Cut { end: walk.at, closers: walk.stack.iter().rev().collect() });
        }
    }
    let Cut { end, closers } = cut?;
    let closed = format!("{}{closers}", &text[..end]);
    serde_json::from_str::<Value>(&closed).is_ok().then_some(closed)
}

enum Event {
    /// A value inside an object or a list begins; `depth` values enclose it.
    Begins { depth: usize, line: usize },
    /// A value that is an element of a list has ended.
    Element { depth: usize },
}

/// Walks through the structure of a JSON text, without checking its grammar.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    /// The closing signs of the open values.
    stack: Vec<char>,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0, line: 0, stack: Vec::new() }
    }

    /// The next object that begins or ends as an element of a list.
    fn next(&mut self) -> Option<Event> {
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\n' => self.line += 1,
                b'"' => self.string(),
                b'{' | b'[' => {
                    let depth = self.stack.len();
                    let is_element = self.stack.last() == Some(&']');
                    self.stack.push(if *byte == b'{' { '}' } else { ']' });
                    if is_element {
                        return Some(Event::Begins { depth, line: self.line });
                    }
                }
                b'}' | b']' => {
                    self.stack.pop();
                    if self.stack.last() == Some(&']') {
                        return Some(Event::Element { depth: self.stack.len() });
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn string(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return,
                _ => {}
            }
        }
    }
}

/// The line of each message, and of each of its parts. `first` is the line of the value.
fn lines(text: &str, first: usize) -> Vec<(usize, Vec<usize>)> {
    let mut walk = Walk::new(text);
    let mut lines: Vec<(usize, Vec<usize>)> = Vec::new();
    while let Some(event) = walk.next() {
        match event {
            Event::Begins { depth: 2, line } => lines.push((first + line, Vec::new())),
            Event::Begins { depth: 4, line } => {
                if let Some((_, parts)) = lines.last_mut() {
                    parts.push(first + line);
                }
            }
            Event::Begins { .. } | Event::Element { .. } => {}
        }
    }
    lines
}

impl Session {
    fn read(
        mut export: Value,
        lines: &[(usize, Vec<usize>)],
        notes: &mut Notes,
    ) -> Result<Self, UnreadableFile> {
        let messages = export.get_mut("messages").map(Value::take);
        let (Some(Value::Array(values)), true) = (messages, export["info"].is_object()) else {
            return Err(UnreadableFile("it is not what `opencode export` prints".to_owned()));
        };
        let mut messages = Vec::new();
        for (index, mut value) in values.into_iter().enumerate() {
            let (line, of_parts) =
                lines.get(index).map_or((1, &[][..]), |(line, parts)| (*line, parts.as_slice()));
            let info = &value["info"];
            let is_whole =
                info["id"].is_string() && matches!(text(info, "role"), "user" | "assistant");
            let field = |name: &str| format!("messages[{index}]{name}");
            if !is_whole {
                let what = "the message has no id or no role";
                notes.add(
                    DamageKind::BrokenTree,
                    FindingPlace(line, "", field("")),
                    what,
                    "dropped",
                );
                continue;
            }
            let id = text(info, "id").to_owned();
            let parts = value.get_mut("parts").map(Value::take);
            let parts = if let Some(Value::Array(parts)) = parts {
                parts
            } else {
                let what = "the message has no list of parts";
                notes.add(
                    DamageKind::BrokenTree,
                    FindingPlace(line, &id, field(".parts")),
                    what,
                    "it gets an empty one",
                );
                Vec::new()
            };
            let mut kept = Vec::new();
            for (part, value) in parts.into_iter().enumerate() {
                let line = of_parts.get(part).copied().unwrap_or(line);
                if value["type"].is_string() {
                    kept.push(StoredPart { line, index: part, value, is_dropped: false });
                } else {
                    let place = FindingPlace(line, &id, field(&format!(".parts[{part}]")));
                    notes.add(DamageKind::BrokenTree, place, "the part has no type", "dropped");
                }
            }
            messages.push(Message { line, index, value, parts: kept, is_dropped: false });
        }
        Ok(Self { export, messages })
    }

    fn write(self) -> Value {
        let messages = self.messages.into_iter().map(|message| {
            let mut value = message.value;
            value["parts"] = message.parts.into_iter().map(|part| part.value).collect();
            value
        });
        let messages: Value = messages.collect();
        let mut export = self.export;
        export["messages"] = messages;
        export
    }

    /// One round of mending.
    fn judge(&mut self, notes: &mut Notes) {
        self.ids(notes);
        self.links(notes);
        let limits = self.limits();
        for message in &mut self.messages {
            message.judge(&limits, notes);
        }
        self.pictures(&limits, notes);
        self.calls(notes);
        for message in &mut self.messages {
            message.parts.retain(|part| !part.is_dropped);
        }
        self.messages.retain(|message| !message.is_dropped);
        self.beginning(notes);
    }

    /// Limits of the API that the last message of the model came from.
    fn limits(&self) -> Limits {
        let mut infos = self.messages.iter().rev().map(|message| &message.value["info"]);
        let last = infos.find(|info| text(info, "role") == "assistant");
        let is_claude = |info: &Value| {
            text(info, "providerID") == "anthropic" || text(info, "modelID").contains("claude")
        };
        if last.is_some_and(is_claude) { ANTHROPIC } else { OPENAI }
    }

    /// Gives each message and each part an id of its own.
    fn ids(&mut self, notes: &mut Notes) {
        let mut known: HashSet<String> = HashSet::new();
        // The call and the hash of the first part with each id.
        let mut firsts: HashMap<String, (Value, String)> = HashMap::new();
        for message in &mut self.messages {
            let id = message.id().to_owned();
            if !known.insert(id.clone()) {
                let what = "an earlier message has this id";
                let new = format!("{id}x{}", &hash(&[&id, &message.index.to_string()])[..4]);
                notes.add(
                    DamageKind::BrokenTree,
                    message.place(".info.id"),
                    what,
                    "it gets another one",
                );
                message.value["info"]["id"] = new.clone().into();
                known.insert(new);
            }
            for part in &mut message.parts {
                let id = text(&part.value, "id").to_owned();
                let place = || {
                    FindingPlace(
                        part.line,
                        &id,
                        format!("messages[{}].parts[{}]", message.index, part.index),
                    )
                };
                let call = part.value["callID"].clone();
                let content = hash(&[&part.value.to_string()]);
                let first = (!id.is_empty()).then(|| firsts.get(&id)).flatten();
                match first {
                    Some((first, _)) if call.is_string() && *first == call => {
                        let what = "the call is there already, with its result";
                        notes.add(DamageKind::DoubledResult, place(), what, "dropped");
                        part.is_dropped = true;
                    }
                    Some((_, first)) if *first == content => {
                        notes.add(
                            DamageKind::BrokenTree,
                            place(),
                            "the part is there already",
                            "dropped",
                        );
                        part.is_dropped = true;
                    }
                    Some(_) => {
                        notes.add(
                            DamageKind::BrokenTree,
                            place(),
                            "an earlier part has this id",
                            "it gets another one",
                        );
                        let salt = format!("{}.{}", message.index, part.index);
                        let new = format!("{id}x{}", &hash(&[&id, &salt])[..4]);
                        part.value["id"] = new.into();
                    }
                    None if !id.is_empty() => drop(firsts.insert(id, (call, content))),
                    None => {}
                }
            }
            message.parts.retain(|part| !part.is_dropped);
        }
    }

    /// Parts belong to their message, messages to their session, and answers to a prompt.
    fn links(&mut self, notes: &mut Notes) {
        let session = self.export["info"]["id"].as_str().map(str::to_owned);
        let mut prompt: Option<String> = None;
        let ids: HashSet<String> =
            self.messages.iter().map(|message| message.id().to_owned()).collect();
        for message in &mut self.messages {
            let id = message.id().to_owned();
            let info = &message.value["info"];
            if let (Some(session), Some(named)) = (&session, info["sessionID"].as_str())
                && session != named
            {
                let what = format!("the message names the session `{}`", word(named));
                notes.add(
                    DamageKind::BrokenTree,
                    message.place(".info.sessionID"),
                    what,
                    "it names its own",
                );
                message.value["info"]["sessionID"] = session.clone().into();
            }
            let parent = message.value["info"]["parentID"].as_str();
            if let Some(parent) = parent.filter(|parent| !ids.contains(*parent))
                && let Some(prompt) = &prompt
            {
                let what = format!("the prompt `{}` of this answer is missing", word(parent));
                let mend = "it belongs to the prompt before it";
                notes.add(DamageKind::BrokenTree, message.place(".info.parentID"), what, mend);
                message.value["info"]["parentID"] = prompt.clone().into();
            }
            if message.is("user") {
                prompt = Some(id.clone());
            }
            for part in &mut message.parts {
                let owners = [("sessionID", session.as_deref()), ("messageID", Some(id.as_str()))];
                for (key, owner) in owners {
                    let named = part.value[key].as_str();
                    if let (Some(owner), Some(named)) = (owner, named)
                        && owner != named
                    {
                        let field =
                            format!("messages[{}].parts[{}].{key}", message.index, part.index);
                        let what = format!("the part names `{}`", word(named));
                        let place = FindingPlace(part.line, text(&part.value, "id"), field);
                        notes.add(
                            DamageKind::BrokenTree,
                            place,
                            what,
                            "it names its own message and session",
                        );
                        part.value[key] = owner.into();
                    }
                }
            }
        }
    }

    /// Gives each call an id of its own.
    fn calls(&mut self, notes: &mut Notes) {
        let mut known: HashSet<String> = HashSet::new();
        for message in &mut self.messages {
            for part in message.parts.iter_mut().filter(|part| !part.is_dropped && part.is("tool"))
            {
                let id = text(&part.value, "callID").to_owned();
                let place = FindingPlace(
                    part.line,
                    text(&part.value, "id"),
                    format!("messages[{}].parts[{}].callID", message.index, part.index),
                );
                let salt = format!("{}.{}", message.index, part.index);
                let is_fine = is_plain(&id, usize::MAX);
                if !is_fine {
                    let what = format!("`{}` is no id for a call", word(&id));
                    notes.add(DamageKind::BadCallId, place, what, "the call gets another id");
                } else if known.insert(id.clone()) {
                    continue;
                } else {
                    let what = format!("an earlier call has the id `{}`", word(&id));
                    notes.add(DamageKind::DoubledCallId, place, what, "the call gets another id");
                }
                let new = plain_id(&id, &salt);
                known.insert(new.clone());
                part.value["callID"] = new.into();
            }
        }
    }

    /// Replaces images that are too many together: the oldest ones, and large ones among many.
    fn pictures(&mut self, limits: &Limits, notes: &mut Notes) {
        let mut found: Vec<(usize, usize, u32)> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if message.value["info"]["summary"].as_bool().unwrap_or_default() {
                // Images before a summary are not sent.
                found.clear();
            }
            for (index, part) in
                message.parts.iter().enumerate().filter(|(_, part)| part.is("file"))
            {
                let url = data_url(text(&part.value, "url"));
                if let Some((mime, base64)) = url.filter(|(mime, _)| mime.starts_with("image/")) {
                    found.push((at, index, media::judge(mime, base64, limits).unwrap_or_default()));
                }
            }
        }
        let count = found.len();
        let surplus = count.saturating_sub(limits.most);
        for (order, (at, index, side)) in found.into_iter().enumerate() {
            let why = if order < surplus {
                format!("{count} images, limit {}", limits.most)
            } else if count > limits.many && side > limits.many_side {
                format!("{side} pixels among {count} images, limit {}", limits.many_side)
            } else {
                continue;
            };
            let message = &mut self.messages[at];
            let index_of = message.index;
            let part = &mut message.parts[index];
            let field = format!("messages[{index_of}].parts[{}].url", part.index);
            let what = format!("the image is unusable: {why}");
            let place = FindingPlace(part.line, text(&part.value, "id"), field);
            notes.add(DamageKind::BadMedia, place, what, "a text takes its place");
            part.leave_out(&why);
        }
    }

    /// A prompt before an answer that begins the conversation.
    fn beginning(&mut self, notes: &mut Notes) {
        let Some(first) = self.messages.first().filter(|first| !first.is("user")) else { return };
        let (what, mend) =
            ("the conversation begins with an answer", "a prompt is added that says so");
        notes.add(DamageKind::LostBeginning, first.place(""), what, mend);
        let info = &first.value["info"];
        let (session, id) = (&info["sessionID"], first.id());
        // Ids sort by time: this one is directly before the answer's.
        let salt = hash(&["beginning", id]);
        let start = id.get(..id.len().saturating_sub(1)).unwrap_or("msg_");
        let (new, part) = (format!("{start}!{}", &salt[..6]), format!("prt_{}", &salt[..26]));
        let model = json!({ "providerID": info["providerID"], "modelID": info["modelID"] });
        let agent = info["agent"].as_str().or_else(|| info["mode"].as_str()).unwrap_or("build");
        let created = &info["time"]["created"];
        let own = json!({ "id": new, "sessionID": session, "role": "user", "time": { "created": created },
            "agent": agent, "model": model });
        let words = json!({ "id": part, "sessionID": session, "messageID": new, "type": "text", "text": LOST });
        let part = StoredPart { line: first.line, index: 0, value: words, is_dropped: false };
        let value = json!({ "info": own, "parts": [] });
        let (line, index) = (first.line, first.index);
        let added = Message { line, index, value, parts: vec![part], is_dropped: false };
        self.messages.insert(0, added);
    }
}

impl Message {
    fn id(&self) -> &str {
        text(&self.value["info"], "id")
    }

    fn is(&self, role: &str) -> bool {
        text(&self.value["info"], "role") == role
    }

    fn place(&self, field: &str) -> FindingPlace<'_> {
        FindingPlace(self.line, self.id(), format!("messages[{}]{field}", self.index))
    }

    fn judge(&mut self, limits: &Limits, notes: &mut Notes) {
        let info = &self.value["info"];
        let provider = text(info, "providerID").to_owned();
        let (is_prompt, is_error) = (self.is("user"), info["error"].is_object());
        let is_summary = info["summary"].as_bool().unwrap_or_default();
        let had_parts = !self.parts.is_empty();
        for part in &mut self.parts {
            part.judge(self.index, &provider, limits, notes);
        }
        self.parts.retain(|part| !part.is_dropped);
        if is_prompt && had_parts && self.parts.is_empty() {
            self.is_dropped = true;
            return;
        }
        if is_prompt || is_error {
            return;
        }
        if is_summary && !self.parts.iter().any(|part| part.is("text")) {
            let what = "the summary has no text, so the history before it is lost";
            let mend = "it is no summary any more: the history counts again";
            notes.add(DamageKind::DanglingCompaction, self.place(".info.summary"), what, mend);
            self.value["info"]["summary"] = false.into();
        }
        let created = &self.value["info"]["time"]["created"];
        if created.is_u64() && self.value["info"]["time"]["completed"].is_null() {
            let ends = self
                .parts
                .iter()
                .filter_map(|part| part.value.pointer("/state/time/end")?.as_u64());
            let end = ends.max().max(created.as_u64());
            let what = "the answer never ended";
            notes.add(
                DamageKind::UnfinishedReply,
                self.place(".info.time.completed"),
                what,
                "it ends with its last part",
            );
            self.value["info"]["time"]["completed"] = end.into();
        }
    }
}

impl StoredPart {
    fn is(&self, kind: &str) -> bool {
        text(&self.value, "type") == kind
    }

    fn judge(&mut self, message: usize, provider: &str, limits: &Limits, notes: &mut Notes) {
        let field = format!("messages[{message}].parts[{}]", self.index);
        let (line, id) = (self.line, text(&self.value, "id").to_owned());
        let mut note = |kind: DamageKind, name: &str, what: String, mend: &str| {
            notes.add(kind, FindingPlace(line, &id, format!("{field}{name}")), what, mend);
        };
        match text(&self.value, "type") {
            "text" if is_blank(text(&self.value, "text")) => {
                note(DamageKind::EmptyBlock, ".text", "the text is empty".to_owned(), "dropped");
                self.is_dropped = true;
            }
            "reasoning" => {
                let unsigned = unsigned(&self.value["metadata"], provider);
                if let Some((name, what)) = unsigned {
                    note(DamageKind::UnsignedReasoning, name, what.to_owned(), "dropped");
                    self.is_dropped = true;
                }
            }
            "tool" => self.call(provider, limits, &mut note),
            "file" => self.file(limits, &mut note),
            _ => {}
        }
    }

    fn call(
        &mut self,
        provider: &str,
        limits: &Limits,
        note: &mut impl FnMut(DamageKind, &str, String, &str),
    ) {
        let longest = if provider == "anthropic" { LONGEST_NAMES.0 } else { LONGEST_NAMES.1 };
        let name = text(&self.value, "tool");
        if !is_plain(name, longest) {
            let what = format!("`{}` is no name for a tool", word(name));
            let name = plain(name, longest);
            note(
                DamageKind::BadName,
                ".tool",
                what,
                &format!("the call gets the name `{}`", word(&name)),
            );
            self.value["tool"] = name.into();
        }
        if !self.value["state"].is_object() {
            self.value["state"] = json!({});
        }
        let state = &mut self.value["state"];
        if let Some(what) = mend_input(&mut state["input"]) {
            note(DamageKind::BadInput, ".state.input", what.to_owned(), "it becomes an object");
        }
        let is_ended = match text(state, "status") {
            "completed" => state["output"].is_string(),
            "error" => state["error"].is_string(),
            _ => false,
        };
        if !is_ended {
            let status = match text(state, "status") {
                "" => "no status".to_owned(),
                status => format!("the status `{}`", word(status)),
            };
            let what = format!("the call has no result, and {status}");
            note(
                DamageKind::OrphanCall,
                ".state",
                what,
                "it gets a result: the outcome is unknown",
            );
            let start = state["time"]["start"].as_u64().unwrap_or_default();
            let time = json!({ "start": start, "end": start });
            *state = json!({ "status": "error", "input": state["input"], "error": UNKNOWN, "time": time });
        }
        let files = state.get_mut("attachments").and_then(Value::as_array_mut);
        let Some(files) = files else { return };
        let mut notes = Vec::new();
        let old = std::mem::take(files);
        for (index, mut file) in old.into_iter().enumerate() {
            let name = format!(".state.attachments[{index}].url");
            match mend_file(&mut file, limits, &name, note) {
                Some(why) => notes.push(why),
                None => files.push(file),
            }
        }
        if !notes.is_empty() {
            let said = text(state, "output");
            let lines: Vec<String> =
                notes.iter().map(|why| format!("[file left out: {why}]")).collect();
            state["output"] = format!("{said}\n{}", lines.join("\n")).into();
        }
    }

    fn file(&mut self, limits: &Limits, note: &mut impl FnMut(DamageKind, &str, String, &str)) {
        if let Some(why) = mend_file(&mut self.value, limits, ".url", note) {
            self.leave_out(&why);
        }
    }

    /// Puts a text into the place of a file.
    fn leave_out(&mut self, why: &str) {
        let mut text = json!({ "type": "text", "text": format!("[file left out: {why}]") });
        for key in ["id", "sessionID", "messageID"] {
            if let Some(value) = self.value.get(key) {
                text[key] = value.clone();
            }
        }
        self.value = text;
    }
}

/// Corrects a file's type, or answers why no API takes it. Only files whose contents are here are
/// judged, and no texts.
fn mend_file(
    file: &mut Value,
    limits: &Limits,
    name: &str,
    note: &mut impl FnMut(DamageKind, &str, String, &str),
) -> Option<String> {
    let (mime, url) = (text(file, "mime"), text(file, "url"));
    let is_known = mime.starts_with("image/") || mime == media::PDF;
    if !is_known || !url.starts_with("data:") {
        return None;
    }
    let (_, base64) = data_url(url).unwrap_or_default();
    let why = match media::judge(mime, base64, limits) {
        Ok(_) => return None,
        Err(media::Fault::Type(is)) => {
            let what = format!("the type is `{is}`, not `{}`", word(mime));
            let url = format!("data:{is};base64,{base64}");
            file["mime"] = is.into();
            file["url"] = url.into();
            note(DamageKind::BadMedia, name, what, "the type is corrected");
            return None;
        }
        Err(media::Fault::Unusable(why)) => why,
    };
    note(
        DamageKind::BadMedia,
        name,
        format!("the file is unusable: {why}"),
        "a text takes its place",
    );
    Some(why)
}

/// The signature that reasoning of this provider lacks.
fn unsigned(metadata: &Value, provider: &str) -> Option<(&'static str, &'static str)> {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    match provider {
        "anthropic" => {
            let sealed = &metadata["anthropic"];
            let is_signed = is_text(&sealed["signature"]) || is_text(&sealed["redactedData"]);
            let what = "the reasoning has no signature";
            (!is_signed).then_some((".metadata.anthropic.signature", what))
        }
        "openai" => {
            let sealed = &metadata["openai"];
            let is_named =
                is_text(&sealed["itemId"]) && !is_text(&sealed["reasoningEncryptedContent"]);
            let what = "the reasoning is only a name for what the server no longer has";
            is_named.then_some((".metadata.openai.reasoningEncryptedContent", what))
        }
        _ => None,
    }
}
