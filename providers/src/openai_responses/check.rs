//! Rules of Responses, with nothing kept at the server.

use std::collections::HashSet;

use serde_json::Value;

use crate::check::{Faults, Is, Members, Place, is_blank, is_plain, need, shape, tools};
use crate::openai_chat::check::{arguments, options};
use crate::vendors::Vendor;

const LONGEST_ID: usize = 64;
const LEAST_TOKENS: u64 = 16;
/// What only the server could know, since nothing is kept there.
const KEPT: [&str; 2] = ["previous_response_id", "conversation"];

const ID: (&str, Is) = ("id", Is::Text);
const STATUS: (&str, Is) = ("status", Is::Text);

/// Members that an item of this type needs, and others that it may have; and how ids of such begin.
fn members(kind: &str) -> Option<(Members<'static>, Members<'static>, &'static str)> {
    Some(match kind {
        "message" => (
            &[("role", Is::Text), ("content", Is::Content)],
            &[ID, STATUS, ("phase", Is::Text)],
            "msg",
        ),
        "function_call" => (
            &[("call_id", Is::Text), ("name", Is::Text), ("arguments", Is::Text)],
            &[ID, STATUS],
            "fc",
        ),
        "function_call_output" => {
            (&[("call_id", Is::Text), ("output", Is::Content)], &[ID, STATUS], "")
        }
        "reasoning" => (
            &[("summary", Is::List)],
            &[ID, STATUS, ("encrypted_content", Is::Text), ("content", Is::List)],
            "rs",
        ),
        _ => return None,
    })
}

pub(super) fn check(body: &Place<'_>, vendor: &Vendor, faults: &mut Faults) {
    need(faults, body, "model", Is::Filled);
    need(faults, body, "stream", Is::Flag);
    need(faults, body, "input", Is::List);
    tools::functions(faults, body, None);
    options(body, vendor, faults);
    let most = body.value.get("max_output_tokens").and_then(Value::as_u64);
    if most.is_some_and(|most| most < LEAST_TOKENS) {
        let limit = body.member("max_output_tokens");
        faults.add("max-tokens", &limit, format!("at least {LEAST_TOKENS}"));
    }
    if body.value.get("store") != Some(&Value::Bool(false)) {
        faults.add("kept", &body.member("store"), "nothing is kept at the server");
    }
    for name in KEPT.iter().filter(|name| body.has(name)) {
        faults.add("kept", &body.member(name), "nothing is kept at the server");
    }
    let items = body.member("input").items();
    if items.is_empty() {
        faults.add("no-messages", &body.member("input"), "at least one item");
    }
    let mut walk = Walk { faults, vendor, used: HashSet::new(), open: Vec::new() };
    for (at, item) in items.iter().enumerate() {
        walk.item(item, items.get(at + 1));
    }
    walk.ends(&items);
}

struct Walk<'f, 'a> {
    faults: &'f mut Faults,
    vendor: &'a Vendor,
    used: HashSet<&'a str>,
    /// Calls without a result so far.
    open: Vec<(&'a str, Place<'a>)>,
}

impl<'a> Walk<'_, 'a> {
    fn item(&mut self, item: &Place<'a>, next: Option<&Place<'a>>) {
        let kind = kind(item);
        let Some((needs, may, prefix)) = members(kind) else {
            let problem = format!("`{kind}` is no type of an item");
            return self.faults.add("shape", &item.member("type"), problem);
        };
        shape(self.faults, item, needs, &[may, &[("type", Is::Text)]].concat());
        let id = item.text("id").filter(|id| !id.starts_with(prefix));
        // ids of other servers are as they like
        if id.is_some() && self.vendor.is_openai() {
            let problem = format!("it begins with `{prefix}`");
            self.faults.add("item-id", &item.member("id"), problem);
        }
        match kind {
            "message" => self.message(item),
            "function_call" => self.call(item),
            "function_call_output" => self.result(item),
            _ => self.reasoning(item, next),
        }
    }

    fn message(&mut self, item: &Place<'a>) {
        let role = item.text("role").unwrap_or_default();
        if role != "assistant" {
            // an answer may go on after its calls
            self.answered();
        }
        if !matches!(role, "user" | "assistant" | "system" | "developer") {
            self.faults.add("role", &item.member("role"), format!("`{role}` is no role"));
        }
        if item.has("phase") && role != "assistant" {
            self.faults.add("shape", &item.member("phase"), "only the model's messages have one");
        }
        self.content(&item.member("content"), role == "assistant");
    }

    fn content(&mut self, content: &Place<'a>, is_answer: bool) {
        if content.value.as_str().is_some_and(is_blank)
            || content.value.as_array().is_some_and(Vec::is_empty)
        {
            self.faults.add("empty", content, "there is nothing in it");
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
                self.faults.add("part-role", &part, format!("`{kind}` does not belong here"));
            }
            let needs: Members<'_> = match kind {
                "output_text" => &[("text", Is::Text), ("annotations", Is::List)],
                "input_text" => &[("text", Is::Text)],
                "input_image" => &[("image_url", Is::Filled), ("detail", Is::Text)],
                "input_file" => &[("filename", Is::Text), ("file_data", Is::Filled)],
                _ => continue,
            };
            shape(self.faults, &part, needs, &[("type", Is::Text), ("logprobs", Is::List)]);
            if part.text("text").is_some_and(is_blank) {
                self.faults.add("empty", &part, "a text that is blank");
            }
        }
    }

    fn call(&mut self, item: &Place<'a>) {
        let id = item.text("call_id").unwrap_or_default();
        if !(1..=LONGEST_ID).contains(&id.chars().count()) {
            self.faults.add("call-id", item, format!("1 to {LONGEST_ID} characters"));
        }
        if !self.used.insert(id) {
            self.faults.add("call-id-twice", item, format!("an earlier call has the id `{id}`"));
        }
        if !item.text("name").is_some_and(|name| is_plain(name, 64)) {
            self.faults.add("call-name", &item.member("name"), "no name of a tool");
        }
        arguments(self.faults, item);
        self.open.push((id, item.clone()));
    }

    fn result(&mut self, item: &Place<'a>) {
        let id = item.text("call_id").unwrap_or_default();
        match self.open.iter().position(|(open, _)| *open == id) {
            Some(at) => drop(self.open.remove(at)),
            None => self.faults.add("result-without-call", item, format!("no call `{id}` waits")),
        }
        self.content(&item.member("output"), false);
    }

    /// Reasoning belongs to what follows it, and is known by its seal alone.
    fn reasoning(&mut self, item: &Place<'a>, next: Option<&Place<'a>>) {
        let follows = next.is_some_and(|next| match kind(next) {
            "message" => next.text("role") == Some("assistant"),
            "function_call_output" => false,
            _ => true,
        });
        if !follows {
            self.faults.add("reasoning-alone", item, "nothing that it led to follows");
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

    fn ends(&mut self, items: &[Place<'a>]) {
        self.answered();
        let last = items.last().filter(|last| last.text("role") == Some("assistant"));
        if let Some(last) = last {
            self.faults.add("answer-last", last, "the last item is not the model's");
        }
        for pair in items.windows(2).filter(|_| self.vendor.alternates) {
            let roles = [pair[0].text("role"), pair[1].text("role")];
            if roles[0] == roles[1] && matches!(roles[0], Some("user" | "assistant")) {
                self.faults.add(
                    "roles-alternate",
                    &pair[1],
                    "this server wants roles to alternate",
                );
            }
        }
    }
}

fn kind<'a>(item: &Place<'a>) -> &'a str {
    match item.kind() {
        "" if item.has("role") => "message",
        kind => kind,
    }
}
