//! Rules of Chat Completions, and additional rules of single vendors.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    BodyValue, CallIds, Compatible, Faults, MemberType, Members, is_blank, is_plain, need, range,
    shape, tools,
};

/// The longest id, unless the vendor requires another form.
const LONGEST_ID: usize = 40;

/// The members in which servers take the reasoning of an answer.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The cache mark of a message at Copilot.
const MESSAGE_MARK: &str = "copilot_cache_control";

pub(crate) fn check(body: &BodyValue<'_>, vendor: &Compatible, faults: &mut Faults) {
    need(faults, body, "model", MemberType::Filled);
    need(faults, body, "stream", MemberType::Flag);
    need(faults, body, "messages", MemberType::List);
    tools::functions(faults, body, Some("function"));
    options(body, vendor, faults);
    let messages = body.member("messages").items();
    if messages.is_empty() {
        faults.add("no-messages", &body.member("messages"), "at least one message");
    }
    let mut walk = Checker { faults, vendor, used: HashSet::new(), open: Vec::new() };
    messages.iter().enumerate().for_each(|(at, message)| {
        walk.message(message, at.checked_sub(1).map(|before| &messages[before]));
    });
    if let Some(message) = messages.last() {
        walk.answered(message);
        if message.text("role") == Some("assistant") {
            walk.faults.add("answer-last", message, "the last message must not be the model's");
        }
    }
}

/// Rules that OpenAI's two wire formats share.
pub(crate) fn options(body: &BodyValue<'_>, vendor: &Compatible, faults: &mut Faults) {
    if body.has("stream_options") && body.value.get("stream") != Some(&Value::Bool(true)) {
        faults.add("stream-options", &body.member("stream_options"), "only with a stream");
    }
    if body.has("max_tokens") && body.has("max_completion_tokens") {
        faults.add("two-limits", &body.member("max_tokens"), "only one limit of tokens is allowed");
    }
    if !vendor.is_openai {
        // other vendors' rules for these members are unknown
        return;
    }
    range(faults, body, "temperature", 0.0, 2.0);
    range(faults, body, "top_p", 0.0, 1.0);
    range(faults, body, "frequency_penalty", -2.0, 2.0);
    range(faults, body, "presence_penalty", -2.0, 2.0);
    if body.member("stop").items().len() > 4 {
        faults.add("stop", &body.member("stop"), "at most 4 sequences");
    }
    let format = body.member("response_format");
    let all = [body.member("messages"), body.member("input")];
    let told = all.iter().any(|all| all.value.to_string().to_lowercase().contains("json"));
    if format.kind() == "json_object" && !told {
        faults.add("json-untold", &format, "the messages must contain the word JSON");
    }
}

struct Checker<'f, 'a> {
    faults: &'f mut Faults,
    vendor: &'a Compatible,
    used: HashSet<&'a str>,
    /// Calls of the last answer that have no result yet.
    open: Vec<&'a str>,
}

impl<'a> Checker<'_, 'a> {
    fn message(&mut self, message: &BodyValue<'a>, before: Option<&BodyValue<'a>>) {
        let role = message.text("role").unwrap_or_default();
        let Some((needs, may)) = members(role) else {
            let problem = format!("`{role}` is not a role");
            return self.faults.add("role", &message.member("role"), problem);
        };
        let any = [("role", MemberType::Text), (MESSAGE_MARK, MemberType::Object)];
        shape(self.faults, message, needs, &[may, &any].concat());
        if message.has(MESSAGE_MARK) && !self.vendor.marks_messages {
            self.faults.add("shape", &message.member(MESSAGE_MARK), "this member is unknown");
        }
        if role == "tool" {
            return self.result(message);
        }
        if let Some(before) = before {
            self.answered(before);
            self.turn(message, before);
        }
        if role == "assistant" {
            self.answer(message);
        }
        self.content(message, role);
    }

    /// Checks which roles may follow each other.
    fn turn(&mut self, message: &BodyValue<'a>, before: &BodyValue<'a>) {
        let roles = [before.text("role"), message.text("role")];
        let twice = roles[0] == roles[1] && matches!(roles[0], Some("user" | "assistant"));
        if twice && self.vendor.alternates {
            self.faults.add("roles-alternate", message, "this server requires alternating roles");
        }
        if self.vendor.needs_answer_after_results && roles == [Some("tool"), Some("user")] {
            self.faults.add("loop-open", message, "this API requires an answer after results");
        }
    }

    fn answered(&mut self, before: &BodyValue<'a>) {
        for id in std::mem::take(&mut self.open) {
            self.faults.add("call-open", before, format!("`{id}` has no result"));
        }
    }

    fn result(&mut self, message: &BodyValue<'a>) {
        let id = message.text("tool_call_id").unwrap_or_default();
        match self.open.iter().position(|open| *open == id) {
            Some(at) => drop(self.open.remove(at)),
            None => {
                self.faults.add(
                    "result-without-call",
                    message,
                    format!("no call `{id}` waits for a result"),
                );
            }
        }
        self.content(message, "tool");
    }

    fn answer(&mut self, message: &BodyValue<'a>) {
        let list = message.member("tool_calls");
        let calls = list.items();
        if list.value.is_array() && calls.is_empty() {
            self.faults.add("empty", &list, "a list of calls must not be empty");
        }
        if calls.is_empty() && !message.has("content") && !message.has("refusal") {
            self.faults.add("empty", message, "neither text nor calls");
        }
        calls.iter().for_each(|call| self.call(call));
        let reasoning = message.text(REASONING[0]).unwrap_or_default();
        if self.vendor.returns_reasoning && !calls.is_empty() && reasoning.is_empty() {
            self.faults.add("reasoning-missing", message, "this API requires it with calls");
        }
        if !self.vendor.takes_reasoning && message.has(REASONING[0]) {
            self.faults.add("shape", &message.member(REASONING[0]), "this member is unknown");
        }
    }

    fn call(&mut self, call: &BodyValue<'a>) {
        let needs: Members<'_> = &[
            ("id", MemberType::Text),
            ("type", MemberType::Text),
            ("function", MemberType::Object),
        ];
        let may: Members<'_> = &[
            ("extra_content", MemberType::Object),
            ("provider_specific_fields", MemberType::Object),
        ];
        shape(self.faults, call, needs, may);
        let function = call.member("function");
        shape(
            self.faults,
            &function,
            &[("name", MemberType::Text), ("arguments", MemberType::Text)],
            &[],
        );
        let id = call.text("id").unwrap_or_default();
        if !is_formed(id, self.vendor.ids) {
            self.faults.add(
                "call-id",
                &call.member("id"),
                format!("`{id}` is not {:?}", self.vendor.ids),
            );
        }
        if !self.used.insert(id) {
            self.faults.add("call-id-twice", call, format!("an earlier call has the id `{id}`"));
        }
        self.open.push(id);
        if !function.text("name").is_some_and(|name| is_plain(name, 64)) {
            self.faults.add("call-name", &function.member("name"), "not a valid tool name");
        }
        arguments(self.faults, &function);
    }

    fn content(&mut self, message: &BodyValue<'a>, role: &str) {
        let content = message.member("content");
        if content.value.as_str().is_some_and(is_blank)
            || content.value.as_array().is_some_and(Vec::is_empty)
        {
            self.faults.add("empty", &content, "the content is empty");
        }
        for part in content.items() {
            let kind = part.kind();
            let fits = match kind {
                "text" => true,
                "image_url" => role == "user" && self.vendor.images,
                "file" => role == "user" && self.vendor.files,
                _ => false,
            };
            if !fits {
                let problem = format!("`{kind}` is not allowed in a message of {role}");
                self.faults.add("part-role", &part, problem);
            }
            let is = if kind == "text" { MemberType::Text } else { MemberType::Object };
            let may = [("type", MemberType::Text), ("cache_control", MemberType::Object)];
            shape(self.faults, &part, &[(kind, is)], &may);
            if part.text("text").is_some_and(is_blank) {
                self.faults.add("empty", &part, "the text is blank");
            }
        }
    }
}

/// The required and the optional members of a message of this role.
fn members(role: &str) -> Option<(Members<'static>, Members<'static>)> {
    const NAME: (&str, MemberType) = ("name", MemberType::Text);
    Some(match role {
        "system" | "developer" | "user" => (&[("content", MemberType::Content)], &[NAME]),
        "tool" => (&[("content", MemberType::Content), ("tool_call_id", MemberType::Filled)], &[]),
        "assistant" => (
            &[],
            &[
                ("content", MemberType::Content),
                ("tool_calls", MemberType::List),
                ("refusal", MemberType::Text),
                (REASONING[0], MemberType::Text),
                (REASONING[1], MemberType::Text),
                (REASONING[2], MemberType::Text),
                ("reasoning_details", MemberType::List),
                ("reasoning_opaque", MemberType::Text),
                NAME,
            ],
        ),
        _ => return None,
    })
}

fn is_formed(id: &str, form: CallIds) -> bool {
    match form {
        CallIds::Short => (1..=LONGEST_ID).contains(&id.chars().count()),
        CallIds::Plain(longest) => is_plain(id, longest),
        CallIds::Nine => id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()),
    }
}

/// OpenAI itself accepts any text; many other servers accept only an object.
pub(crate) fn arguments(faults: &mut Faults, function: &BodyValue<'_>) {
    let arguments = function.text("arguments").unwrap_or_default();
    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
        faults.add("arguments", &function.member("arguments"), "expected a JSON object as text");
    }
}
