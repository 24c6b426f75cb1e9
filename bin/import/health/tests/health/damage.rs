//! Damage of each kind, planted into a healthy session. Each is made as agents have made it: by a
//! crash, a full disk, a cut-off pipe, another provider.

use leftfold_import::Origin;
use leftfold_import_health::DamageKind;
use serde_json::{Value, json};

use crate::random::{Random, claude_image, png};
use crate::sessions::{Entry, RecordKind, Session};

/// Planted damage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted {
    pub(crate) kind: DamageKind,
    /// The entry in whose lines it must be found; `None`: anywhere.
    pub(crate) tag: Option<usize>,
    pub(crate) turn: usize,
}

/// Plants damage of this kind into a turn, if the turn has a place for it.
pub(crate) fn plant(
    session: &mut Session,
    kind: DamageKind,
    turn: usize,
    random: &mut Random,
) -> Option<Planted> {
    if session.taken.contains(&turn) {
        return None;
    }
    let tag = match session.origin {
        Origin::Claude => claude(session, kind, turn, random)?,
        Origin::Codex => codex(session, kind, turn, random)?,
        Origin::Opencode => opencode(session, kind, turn, random)?,
        Origin::Leftfold => return None,
    };
    session.taken.push(turn);
    Some(Planted { kind, tag: Some(tag).filter(|tag| *tag > 0), turn })
}

impl Session {
    /// The indices of a turn's entries.
    fn of(&self, turn: usize, what: RecordKind) -> Vec<usize> {
        let entries = self.entries.iter().enumerate();
        let found = entries.filter(|(_, entry)| entry.turn == turn && entry.what == what);
        found.map(|(at, _)| at).collect()
    }

    fn any(&self, turn: usize, what: RecordKind, random: &mut Random) -> Option<usize> {
        random.pick(&self.of(turn, what)).copied()
    }

    fn value(&mut self, at: usize) -> &mut Value {
        &mut self.entries[at].value
    }

    /// Removes a record of Claude Code as if it had never been there.
    fn remove(&mut self, at: usize) -> Value {
        let gone = self.entries.remove(at).value;
        for entry in &mut self.entries {
            for link in ["parentUuid", "logicalParentUuid"] {
                if gone["uuid"].is_string() && entry.value[link] == gone["uuid"] {
                    entry.value[link] = gone["parentUuid"].clone();
                }
            }
        }
        gone
    }

    /// Puts a record into the chain, directly after the one at `at`.
    fn chain(
        &mut self,
        at: usize,
        what: RecordKind,
        mut value: Value,
        random: &mut Random,
    ) -> usize {
        let (id, turn) = (random.uuid(), self.entries[at].turn);
        let before = self.entries[at].value["uuid"].clone();
        for entry in
            self.entries.iter_mut().skip(at + 1).filter(|entry| entry.what != RecordKind::Other)
        {
            if entry.value["parentUuid"] == before {
                entry.value["parentUuid"] = id.clone().into();
            }
        }
        value["uuid"] = id.into();
        value["parentUuid"] = before;
        self.insert(at + 1, turn, what, value)
    }

    /// The call at `at`, and its result.
    fn pair(&self, at: usize) -> (usize, usize) {
        let id = |value: &Value| {
            let block = &value["message"]["content"][0];
            let item = if value["payload"].is_object() { &value["payload"] } else { value };
            let ids = [&block["id"], &block["tool_use_id"], &item["call_id"]];
            ids.into_iter().find_map(|id| id.as_str().map(str::to_owned))
        };
        let call = id(&self.entries[at].value);
        let found = self
            .entries
            .iter()
            .position(|entry| entry.what == RecordKind::Result && id(&entry.value) == call);
        (at, found.expect("a result"))
    }
}

/// Breaks the text of a line.
fn broken_line(session: &mut Session, turn: usize, random: &mut Random) -> Option<usize> {
    let what = if random.one_in(2) { RecordKind::Result } else { RecordKind::Text };
    let at = session.any(turn, what, random)?;
    let entry = &mut session.entries[at];
    let text = entry.value.to_string();
    let tag = entry.tag;
    let raw = match random.below(6) {
        0 => text[..1 + random.below(text.len() / 2)].chars().filter(char::is_ascii).collect(),
        1 => format!("\0\0\0\0{text}"),
        2 => text.replacen("word-", "word-\\ud83d-", 1),
        3 => format!(
            "{text}{{\"type\":\"file-history-snapshot\",\"messageId\":\"m\",\"payload\":{{}}}}"
        ),
        4 => format!("{{\"parentUuid\":\"1\",\"isSi{text}"),
        _ => text.replacen("word-", "word-\u{1}-\t-", 1),
    };
    if raw == text {
        return None;
    }
    entry.raw = Some(raw);
    Some(tag)
}

fn claude(
    session: &mut Session,
    kind: DamageKind,
    turn: usize,
    random: &mut Random,
) -> Option<usize> {
    let call = session.any(turn, RecordKind::Call, random)?;
    let block = |session: &mut Session, at: usize, key: &str, value: Value| {
        session.value(at)["message"]["content"][0][key] = value;
        session.entries[at].tag
    };
    Some(match kind {
        DamageKind::BrokenLine => return broken_line(session, turn, random),
        DamageKind::BrokenTree => match random.below(3) {
            0 => {
                let at = session.any(turn, RecordKind::Text, random)?;
                session.value(at)["parentUuid"] = random.uuid().into();
                session.entries[at].tag
            }
            1 => {
                let at = session.any(turn, RecordKind::Text, random)?;
                let copy = session.entries[at].value.clone();
                session.insert(at + 1, turn, RecordKind::Other, copy)
            }
            _ => {
                let at = *session.of(turn, RecordKind::Prompt).first()?;
                let later = *session.of(turn, RecordKind::Text).last()?;
                session.value(at)["parentUuid"] = session.entries[later].value["uuid"].clone();
                session.entries[at].tag
            }
        },
        DamageKind::LostBeginning => {
            let at = *session.of(turn, RecordKind::Prompt).first().filter(|_| turn == 0)?;
            let first = session.of(turn, RecordKind::Reasoning);
            let tag = session.entries[*first.first()?].tag;
            session.remove(at);
            tag
        }
        DamageKind::DanglingCompaction => {
            let summary = *session.of(turn, RecordKind::Summary).first()?;
            session.remove(summary);
            session.entries[*session.of(turn, RecordKind::Boundary).first()?].tag
        }
        DamageKind::OrphanCall => {
            let tag = session.entries[call].tag;
            let (_, result) = session.pair(call);
            session.remove(result);
            tag
        }
        DamageKind::OrphanResult => {
            let (_, result) = session.pair(call);
            let Entry { tag, value, .. } = session.entries[result].clone();
            // Without its call, a branch of its own would not be sent.
            session.entries.iter().find(|entry| entry.value["parentUuid"] == value["uuid"])?;
            session.remove(call);
            tag
        }
        DamageKind::DoubledResult => {
            let (_, result) = session.pair(call);
            let copy = session.entries[result].value.clone();
            session.chain(result, RecordKind::Other, copy, random)
        }
        DamageKind::MisplacedResult => {
            let (_, result) = session.pair(call);
            let near = session.entries[result].value.clone();
            let tag = session.entries[result].tag;
            // On a branch of its own it would not be sent.
            session.entries.iter().find(|entry| entry.value["parentUuid"] == near["uuid"])?;
            let words = session.word();
            let mut said = near;
            said["message"]["content"] = words.into();
            let parent = session.entries[result].value["parentUuid"].clone();
            let id = random.uuid();
            said["uuid"] = id.clone().into();
            said["parentUuid"] = parent;
            session.value(result)["parentUuid"] = id.into();
            session.insert(result, turn, RecordKind::Other, said);
            tag
        }
        DamageKind::DoubledCallId => return doubled(session, turn, call, random),
        DamageKind::BadCallId => {
            let (_, result) = session.pair(call);
            block(session, result, "tool_use_id", "call 1!".into());
            block(session, call, "id", "call 1!".into())
        }
        DamageKind::BadInput => {
            let inputs = [json!("{\"a\":1}"), json!("text"), json!(5), json!(null), json!([1])];
            block(session, call, "input", random.pick(&inputs)?.clone())
        }
        DamageKind::BadName => {
            let names = ["my tool!", "", "\u{e9}"];
            block(session, call, "name", (*random.pick(&names)?).into())
        }
        DamageKind::EmptyBlock => {
            let at = session.any(turn, RecordKind::Text, random)?;
            match random.below(3) {
                0 => block(session, at, "text", " \n".into()),
                1 => {
                    let prompt = *session.of(turn, RecordKind::Prompt).first()?;
                    session.value(prompt)["message"]["content"] =
                        json!([{ "type": "text", "text": "" }, { "type": "text", "text": "x" }]);
                    session.entries[prompt].tag
                }
                _ => {
                    let (_, result) = session.pair(call);
                    block(session, result, "content", json!([{ "type": "text", "text": "" }]))
                }
            }
        }
        DamageKind::UnsignedReasoning => {
            let at = session.any(turn, RecordKind::Reasoning, random)?;
            let is_hidden =
                session.entries[at].value["message"]["content"][0]["type"] == "redacted_thinking";
            let values = [json!(""), json!(null), json!("not base64!")];
            let count = if is_hidden { 2 } else { 3 };
            let key = if is_hidden { "data" } else { "signature" };
            block(session, at, key, random.pick(&values[..count])?.clone())
        }
        DamageKind::ReasoningAlone => alone(session, turn)?,
        DamageKind::BadMedia => {
            let image = image(random);
            let prompt = *session.of(turn, RecordKind::Prompt).first()?;
            let image = claude_image(image.0, &image.1);
            session.value(prompt)["message"]["content"] =
                json!([{ "type": "text", "text": "Look." }, image]);
            session.entries[prompt].tag
        }
        DamageKind::UnfinishedReply => return None,
    })
}

/// The type and the data of an image that no API takes.
fn image(random: &mut Random) -> (&'static str, String) {
    match random.below(40) {
        0 => ("image/png", png(9, 9, 4 << 20)),
        1..10 => ("image/png", png(9_000, 10, 9)),
        10..20 => ("image/jpeg", png(9, 9, 9)),
        20..25 => ("image/png", String::new()),
        25..30 => ("image/png", "iVBORw0KGgo!".to_owned()),
        _ => ("image/tiff", "SUkqAAgAAAA=".to_owned()),
    }
}

/// Gives a call the id of an earlier turn's.
fn doubled(session: &mut Session, turn: usize, call: usize, random: &mut Random) -> Option<usize> {
    let earlier = random.below(turn);
    let other = session.any(earlier, RecordKind::Call, random);
    let other = other.filter(|_| earlier < turn && !session.taken.contains(&earlier))?;
    let (_, result) = session.pair(call);
    let tag = session.entries[call].tag;
    let value = session.entries[other].value.clone();
    if session.origin == Origin::Claude {
        let id = &value["message"]["content"][0]["id"];
        session.value(result)["message"]["content"][0]["tool_use_id"] = id.clone();
        session.value(call)["message"]["content"][0]["id"] = id.clone();
    } else {
        let id = if value["payload"].is_object() {
            &value["payload"]["call_id"]
        } else {
            &value["call_id"]
        };
        item(session, result)["call_id"] = id.clone();
        item(session, call)["call_id"] = id.clone();
    }
    session.taken.push(earlier);
    Some(tag)
}

/// Removes the text after the last reasoning of a turn.
fn alone(session: &mut Session, turn: usize) -> Option<usize> {
    let text = *session.of(turn, RecordKind::Text).last()?;
    let reasoning = *session.of(turn, RecordKind::Reasoning).last()?;
    if session.entries[text - 1].tag != session.entries[reasoning].tag {
        return None;
    }
    let tag = session.entries[reasoning].tag;
    session.remove(text);
    Some(tag)
}

fn item(session: &mut Session, at: usize) -> &mut Value {
    let value = session.value(at);
    if value["payload"].is_object() { &mut value["payload"] } else { value }
}

fn codex(
    session: &mut Session,
    kind: DamageKind,
    turn: usize,
    random: &mut Random,
) -> Option<usize> {
    let call = session.any(turn, RecordKind::Call, random)?;
    let tag = session.entries[call].tag;
    let (_, result) = session.pair(call);
    let tag_of_result = session.entries[result].tag;
    Some(match kind {
        DamageKind::BrokenLine => return broken_line(session, turn, random),
        DamageKind::BrokenTree => {
            session.entries.remove(*session.of(turn, RecordKind::Head).first()?);
            session.entries.first()?.tag
        }
        DamageKind::DanglingCompaction => {
            let at = *session.of(turn, RecordKind::Boundary).first()?;
            session.value(at)["payload"]["message"] = "".into();
            session.entries[at].tag
        }
        DamageKind::OrphanCall => {
            session.entries.remove(result);
            tag
        }
        DamageKind::OrphanResult => {
            session.entries.remove(call);
            tag_of_result
        }
        DamageKind::DoubledResult => {
            let copy = session.entries[result].value.clone();
            session.insert(result + 1, turn, RecordKind::Other, copy)
        }
        DamageKind::MisplacedResult => {
            let words = session.word();
            let content = json!([{ "type": "input_text", "text": words }]);
            let said =
                session.item(json!({ "type": "message", "role": "user", "content": content }));
            session.insert(result, turn, RecordKind::Other, said);
            tag_of_result
        }
        DamageKind::DoubledCallId => return doubled(session, turn, call, random),
        DamageKind::BadCallId => {
            let id = if random.one_in(2) { String::new() } else { "x".repeat(70) };
            item(session, result)["call_id"] = id.clone().into();
            item(session, call)["call_id"] = id.into();
            tag
        }
        DamageKind::BadInput => {
            let item = item(session, call);
            if item["type"] != "function_call" {
                return None;
            }
            let inputs =
                [json!("{\"command\":"), json!(""), json!("[1]"), json!({ "a": 1 }), json!(null)];
            item["arguments"] = random.pick(&inputs)?.clone();
            tag
        }
        DamageKind::BadName => {
            let item = item(session, call);
            if item["type"] == "local_shell_call" {
                return None;
            }
            item["name"] = (*random.pick(&["my tool", "", "\u{e9}"])?).into();
            tag
        }
        DamageKind::EmptyBlock => {
            let at = session.any(turn, RecordKind::Text, random)?;
            let content = if random.one_in(2) {
                json!([])
            } else {
                json!([{ "type": "output_text", "text": " " }])
            };
            item(session, at)["content"] = content;
            session.entries[at].tag
        }
        DamageKind::UnsignedReasoning => {
            let at = session.any(turn, RecordKind::Reasoning, random)?;
            item(session, at)["encrypted_content"] =
                if random.one_in(2) { Value::Null } else { "".into() };
            session.entries[at].tag
        }
        DamageKind::ReasoningAlone => alone(session, turn)?,
        DamageKind::BadMedia => {
            let at = *session.of(turn, RecordKind::Prompt).first()?;
            let url = match random.below(3) {
                0 => "data:image/png;base64,".to_owned(),
                1 => format!("data:image/webp;base64,{}", png(9, 9, 9)),
                _ => "data:image/png;base64,iVBORw0KGgo!".to_owned(),
            };
            item(session, at)["content"] = json!([{ "type": "input_image", "image_url": url }]);
            session.entries[at].tag
        }
        DamageKind::LostBeginning | DamageKind::UnfinishedReply => return None,
    })
}

fn opencode(
    session: &mut Session,
    kind: DamageKind,
    turn: usize,
    random: &mut Random,
) -> Option<usize> {
    let at = session.any(turn, RecordKind::Answer, random)?;
    let tag = session.entries[at].tag;
    let is_anthropic = session.variant;
    let calls = session.entries[at].value["parts"].as_array()?.iter().enumerate();
    let calls: Vec<usize> =
        calls.filter(|(_, part)| part["type"] == "tool").map(|(index, _)| index).collect();
    let call = *random.pick(&calls)?;
    let parts = session.value(at)["parts"].as_array_mut()?;
    match kind {
        DamageKind::BrokenLine => {
            if random.one_in(2) {
                session.before = "Exporting session: ses_1\n".to_owned();
                return Some(0);
            }
            if turn + 1 != session.turns {
                return None;
            }
            let last = session.entries.last()?.value.clone();
            session.cut = 3 + random.below(serde_json::to_string_pretty(&last).ok()?.len() / 2);
            let text = session.text();
            if String::from_utf8_lossy(text.as_bytes()).contains('\u{fffd}') {
                return None;
            }
            return Some(0);
        }
        DamageKind::BrokenTree => match random.below(3) {
            0 => parts[call]["messageID"] = "msg_other".into(),
            1 => session.value(at)["info"]["sessionID"] = "ses_other".into(),
            _ => session.value(at)["info"]["parentID"] = "msg_other".into(),
        },
        DamageKind::LostBeginning => {
            let prompt = *session.of(turn, RecordKind::Prompt).first().filter(|_| turn == 0)?;
            session.entries.remove(prompt);
            return Some(session.entries.first()?.tag);
        }
        DamageKind::DanglingCompaction => {
            let at = *session.of(turn, RecordKind::Summary).first()?;
            session.value(at)["parts"] = json!([]);
            return Some(session.entries[at].tag);
        }
        DamageKind::OrphanCall => {
            let status = if random.one_in(2) { "pending" } else { "running" };
            let input = parts[call]["state"]["input"].clone();
            parts[call]["state"] =
                json!({ "status": status, "input": input, "time": { "start": 1 } });
        }
        DamageKind::DoubledResult => {
            let copy = parts[call].clone();
            parts.insert(call + 1, copy);
        }
        DamageKind::DoubledCallId => {
            let earlier = random.below(turn);
            let other = session.any(earlier, RecordKind::Answer, random);
            let other = other.filter(|_| earlier < turn && !session.taken.contains(&earlier))?;
            let id = session.entries[other].value["parts"]
                .as_array()?
                .iter()
                .find(|part| part["type"] == "tool");
            let id = id?["callID"].clone();
            session.value(at)["parts"][call]["callID"] = id;
            session.taken.push(earlier);
        }
        DamageKind::BadCallId => parts[call]["callID"] = (*random.pick(&["call 1!", ""])?).into(),
        DamageKind::BadInput => {
            parts[call]["state"]["input"] =
                random.pick(&[json!("text"), json!(null), json!([1])])?.clone();
        }
        DamageKind::BadName => {
            parts[call]["tool"] = (*random.pick(&["my tool", "", "\u{e9}"])?).into();
        }
        DamageKind::EmptyBlock => {
            let text = parts.iter_mut().find(|part| part["type"] == "text")?;
            text["text"] = " \n".into();
        }
        DamageKind::UnsignedReasoning => {
            let metadata =
                if is_anthropic { json!({}) } else { json!({ "openai": { "itemId": "rs_1" } }) };
            parts.iter_mut().find(|part| part["type"] == "reasoning")?["metadata"] = metadata;
        }
        DamageKind::BadMedia => {
            let prompt = *session.of(turn, RecordKind::Prompt).first()?;
            let (mime, data) =
                if is_anthropic { image(random) } else { ("image/png", "iVBORw0KGgo!".to_owned()) };
            let url = format!("data:{mime};base64,{data}");
            let near = session.entries[prompt].value["parts"][0].clone();
            let file = json!({ "id": format!("prt_file_{turn}"), "sessionID": "ses_1", "messageID": near["messageID"],
                "type": "file", "mime": mime, "url": url });
            session.value(prompt)["parts"] = json!([near, file]);
            return Some(session.entries[prompt].tag);
        }
        DamageKind::UnfinishedReply => {
            session.value(at)["info"]["time"].as_object_mut()?.remove("completed");
        }
        DamageKind::OrphanResult | DamageKind::MisplacedResult | DamageKind::ReasoningAlone => {
            return None;
        }
    }
    Some(tag)
}
