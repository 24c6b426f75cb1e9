//! Rules of Responses for request bodies without server-side state.

use std::collections::HashSet;

use serde_json::Value;

use crate::openai_chat::{arguments, options};
use crate::{
    BodyValue, Compatible, Faults, MemberType, Members, is_blank, is_plain, need, shape, tools,
};

const LONGEST_ID: usize = 64;
const LEAST_TOKENS: u64 = 16;
/// Members that refer to state at the server, which keeps none.
const KEPT: [&str; 2] = ["previous_response_id", "conversation"];

const ID: (&str, MemberType) = ("id", MemberType::Text);
const STATUS: (&str, MemberType) = ("status", MemberType::Text);

/// The required and the optional members of an item of this type, and the prefix of its ids.
fn members(kind: &str) -> Option<(Members<'static>, Members<'static>, &'static str)> {
    Some(match kind {
        "message" => (
            &[("role", MemberType::Text), ("content", MemberType::Content)],
            &[ID, STATUS, ("phase", MemberType::Text)],
            "msg",
        ),
        "function_call" => (
            &[
                ("call_id", MemberType::Text),
                ("name", MemberType::Text),
                ("arguments", MemberType::Text),
            ],
            &[ID, STATUS],
            "fc",
        ),
        "function_call_output" => {
            (&[("call_id", MemberType::Text), ("output", MemberType::Content)], &[ID, STATUS], "")
        }
        "reasoning" => (
            &[("summary", MemberType::List)],
            &[ID, STATUS, ("encrypted_content", MemberType::Text), ("content", MemberType::List)],
            "rs",
        ),
        _ => return None,
    })
}

pub(crate) fn check(body: &BodyValue<'_>, vendor: &Compatible, faults: &mut Faults) {
    need(faults, body, "model", MemberType::Filled);
    need(faults, body, "stream", MemberType::Flag);
    need(faults, body, "input", MemberType::List);
    tools::functions(faults, body, None);
    options(body, vendor, faults);
    let most = body.value.get("max_output_tokens").and_then(Value::as_u64);
    if most.is_some_and(|most| most < LEAST_TOKENS) {
        let limit = body.member("max_output_tokens");
        faults.add("max-tokens", &limit, format!("at least {LEAST_TOKENS}"));
    }
    if body.value.get("store") != Some(&Value::Bool(false)) {
        faults.add("kept", &body.member("store"), "the server must not keep anything");
    }
    for name in KEPT.iter().filter(|name| body.has(name)) {
        faults.add("kept", &body.member(name), "the server keeps nothing");
    }
    let items = body.member("input").items();
    if items.is_empty() {
        faults.add("no-messages", &body.member("input"), "expected at least one item");
    }
    let mut walk = Checker { faults, vendor, used: HashSet::new(), open: Vec::new() };
    for (at, item) in items.iter().enumerate() {
        walk.item(item, items.get(at + 1));
    }
    walk.ends(&items);
}

struct Checker<'f, 'a> {
    faults: &'f mut Faults,
    vendor: &'a Compatible,
    used: HashSet<&'a str>,
    /// Calls that have no result yet.
    open: Vec<(&'a str, BodyValue<'a>)>,
}

impl<'a> Checker<'_, 'a> {
    fn item(&mut self, item: &BodyValue<'a>, next: Option<&BodyValue<'a>>) {
        let kind = kind(item);
        let Some((needs, may, prefix)) = members(kind) else {
            let problem = format!("`{kind}` is not an item type");
            return self.faults.add("shape", &item.member("type"), problem);
        };
        shape(self.faults, item, needs, &[may, &[("type", MemberType::Text)]].concat());
        let id = item.text("id").filter(|id| !id.starts_with(prefix));
        // other servers use their own forms of ids
        if id.is_some() && self.vendor.is_openai {
            let problem = format!("it must begin with `{prefix}`");
            self.faults.add("item-id", &item.member("id"), problem);
        }
        match kind {
            "message" => self.message(item),
            "function_call" => self.call(item),
            "function_call_output" => self.result(item),
            _ => self.reasoning(item, next),
        }
    }

    fn message(&mut self, item: &BodyValue<'a>) {
        let role = item.text("role").unwrap_or_default();
        if role != "assistant" {
            // an answer may continue after its calls
            self.answered();
        }
        if !matches!(role, "user" | "assistant" | "system" | "developer") {
            self.faults.add("role", &item.member("role"), format!("`{role}` is not a role"));
        }
        if item.has("phase") && role != "assistant" {
            self.faults.add("shape", &item.member("phase"), "only the model's messages have one");
        }
        self.content(&item.member("content"), role == "assistant");
    }

    fn content(&mut self, content: &BodyValue<'a>, is_answer: bool) {
        if content.value.as_str().is_some_and(is_blank)
            || content.value.as_array().is_some_and(Vec::is_empty)
        {
            self.faults.add("empty", content, "the content is empty");
        }
        for part in content.items() {
            let kind = part.kind();
            let fits = match kind {
                "output_text" | "refusal" => is_answer,
                "input_text" => !is_answer,
                "input_image" => !is_answer && self.vendor.images,
                "input_file" => !is_answer && self.vendor.files,
                _ => false,
            };
            if !fits {
                self.faults.add("part-role", &part, format!("`{kind}` is not allowed here"));
            }
            let needs: Members<'_> = match kind {
                "output_text" => &[("text", MemberType::Text), ("annotations", MemberType::List)],
                "input_text" => &[("text", MemberType::Text)],
                "input_image" => &[("image_url", MemberType::Filled), ("detail", MemberType::Text)],
                "input_file" => {
                    &[("filename", MemberType::Text), ("file_data", MemberType::Filled)]
                }
                _ => continue,
            };
            shape(
                self.faults,
                &part,
                needs,
                &[("type", MemberType::Text), ("logprobs", MemberType::List)],
            );
            if part.text("text").is_some_and(is_blank) {
                self.faults.add("empty", &part, "the text is blank");
            }
        }
    }

    fn call(&mut self, item: &BodyValue<'a>) {
        let id = item.text("call_id").unwrap_or_default();
        if !(1..=LONGEST_ID).contains(&id.chars().count()) {
            self.faults.add("call-id", item, format!("1 to {LONGEST_ID} characters"));
        }
        if !self.used.insert(id) {
            self.faults.add("call-id-twice", item, format!("an earlier call has the id `{id}`"));
        }
        if !item.text("name").is_some_and(|name| is_plain(name, 64)) {
            self.faults.add("call-name", &item.member("name"), "not a valid tool name");
        }
        arguments(self.faults, item);
        self.open.push((id, item.clone()));
    }

    fn result(&mut self, item: &BodyValue<'a>) {
        let id = item.text("call_id").unwrap_or_default();
        match self.open.iter().position(|(open, _)| *open == id) {
            Some(at) => drop(self.open.remove(at)),
            None => self.faults.add(
                "result-without-call",
                item,
                format!("no call `{id}` waits for a result"),
            ),
        }
        self.content(&item.member("output"), false);
    }

    /// Checks reasoning: it must precede another item of the answer, and have `encrypted_content`.
    fn reasoning(&mut self, item: &BodyValue<'a>, next: Option<&BodyValue<'a>>) {
        let follows = next.is_some_and(|next| match kind(next) {
            "message" => next.text("role") == Some("assistant"),
            "function_call_output" => false,
            _ => true,
        });
        if !follows {
            self.faults.add("reasoning-alone", item, "no text or call follows it");
        }
        if item.text("encrypted_content").is_none_or(str::is_empty) {
            self.faults.add("reasoning-unsealed", item, "it has no `encrypted_content`");
        }
    }

    fn answered(&mut self) {
        for (id, call) in std::mem::take(&mut self.open) {
            self.faults.add("call-open", &call, format!("`{id}` has no result"));
        }
    }

    fn ends(&mut self, items: &[BodyValue<'a>]) {
        self.answered();
        let last = items.last().filter(|last| last.text("role") == Some("assistant"));
        if let Some(last) = last {
            self.faults.add("answer-last", last, "the last item must not be the model's");
        }
        for pair in items.windows(2).filter(|_| self.vendor.alternates) {
            let roles = [pair[0].text("role"), pair[1].text("role")];
            if roles[0] == roles[1] && matches!(roles[0], Some("user" | "assistant")) {
                self.faults
                    .add("roles-alternate", &pair[1], "this server requires alternating roles");
            }
        }
    }
}

fn kind<'a>(item: &BodyValue<'a>) -> &'a str {
    match item.kind() {
        "" if item.has("role") => "message",
        kind => kind,
    }
}
