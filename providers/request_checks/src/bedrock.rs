//! Rules of Converse for request bodies.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    BedrockModel, BodyValue, Faults, MemberType, Members, is_blank, is_plain, need, range, shape,
    tools,
};

const MAX_MARKS: usize = 4;
/// The longest id of a call, in characters.
const LONGEST_ID: usize = 64;
/// The smallest thinking budget, in tokens.
const LEAST_BUDGET: u64 = 1_024;
/// The longest name of a tool, in characters.
const LONGEST_NAME: usize = 64;
/// The longest name of a document, in characters.
const LONGEST_DOCUMENT: usize = 200;

/// The kinds of a block, each with the required and the optional members of its value.
const BLOCKS: &[(&str, Members<'static>, Members<'static>)] = &[
    ("text", &[], &[]),
    ("image", &[("format", MemberType::Filled), ("source", MemberType::Object)], &[]),
    (
        "document",
        &[
            ("format", MemberType::Filled),
            ("name", MemberType::Filled),
            ("source", MemberType::Object),
        ],
        &[],
    ),
    (
        "toolUse",
        &[
            ("toolUseId", MemberType::Filled),
            ("name", MemberType::Filled),
            ("input", MemberType::Object),
        ],
        &[],
    ),
    (
        "toolResult",
        &[("toolUseId", MemberType::Filled), ("content", MemberType::List)],
        &[("status", MemberType::Filled)],
    ),
    (
        "reasoningContent",
        &[],
        &[("reasoningText", MemberType::Object), ("redactedContent", MemberType::Filled)],
    ),
    ("cachePoint", &[("type", MemberType::Filled)], &[]),
];

pub(crate) fn check(body: &BodyValue<'_>, model: BedrockModel, faults: &mut Faults) {
    need(faults, body, "messages", MemberType::List);
    if body.has("modelId") {
        faults.add("shape", &body.member("modelId"), "the model is named in the address");
    }
    let config = body.member("inferenceConfig");
    if config.value.get("maxTokens").and_then(Value::as_u64) == Some(0) {
        faults.add("max-tokens", &config.member("maxTokens"), "at least 1");
    }
    range(faults, &config, "temperature", 0.0, 1.0);
    range(faults, &config, "topP", 0.0, 1.0);
    let mut walk = Checker {
        faults,
        model,
        marks: Vec::new(),
        ids: HashSet::new(),
        documents: HashSet::new(),
        uses: false,
    };
    let system = body.member("system").items();
    system.iter().for_each(|block| walk.block(block, "system"));
    let messages = body.member("messages").items();
    messages.iter().for_each(|message| walk.message(message));
    let (uses, marks) = (walk.uses, walk.marks);
    roles(&body.member("messages"), &messages, faults);
    (0..messages.len()).for_each(|at| pairs(&messages, at, faults));
    for (count, mark) in marks.iter().enumerate() {
        if count >= MAX_MARKS {
            faults.add("cache-marks", mark, format!("at most {MAX_MARKS} in a request"));
        }
        if !model.caches {
            faults.add("cache-mark", mark, "the model has no cache");
        }
    }
    offered(body, uses, faults);
    thinking(body, &messages, faults);
}

/// The kind of a block and its value.
fn kind<'a>(block: &BodyValue<'a>) -> (&'a str, BodyValue<'a>) {
    let name = block.value.as_object().and_then(|block| block.keys().next());
    let name = name.map_or("", String::as_str);
    (name, block.member(name))
}

struct Checker<'f, 'a> {
    faults: &'f mut Faults,
    model: BedrockModel,
    marks: Vec<BodyValue<'a>>,
    ids: HashSet<&'a str>,
    documents: HashSet<&'a str>,
    /// Whether the messages contain calls or results.
    uses: bool,
}

impl<'a> Checker<'_, 'a> {
    fn message(&mut self, message: &BodyValue<'a>) {
        shape(
            self.faults,
            message,
            &[("role", MemberType::Text), ("content", MemberType::List)],
            &[],
        );
        let role = message.text("role").unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            self.faults.add("role", &message.member("role"), "`user` or `assistant`");
        }
        let content = message.member("content");
        let blocks = content.items();
        let kinds: Vec<&str> = blocks.iter().map(|block| kind(block).0).collect();
        if kinds.iter().all(|kind| *kind == "cachePoint") {
            self.faults.add("empty", &content, "the content is empty");
        }
        if kinds.contains(&"document") && !kinds.contains(&"text") {
            self.faults.add("document-alone", &content, "a document needs a text beside it");
        }
        for (at, block) in blocks.iter().enumerate() {
            self.block(block, role);
            let is_last = kinds[at + 1..].iter().all(|kind| *kind == "cachePoint");
            if kinds[at] == "reasoningContent" && is_last {
                self.faults.add("thinking-last", block, "a message must not end in thinking");
            }
            if kinds[at] == "cachePoint" && at > 0 && kinds[at - 1] == "reasoningContent" {
                self.faults.add("cache-mark", block, "thinking must not be marked");
            }
        }
    }

    fn block(&mut self, block: &BodyValue<'a>, role: &str) {
        let (name, value) = kind(block);
        let known = BLOCKS.iter().find(|(known, ..)| *known == name);
        let is_one = block.value.as_object().is_some_and(|members| members.len() == 1);
        let Some((_, needs, may)) = known.filter(|_| is_one) else {
            return self.faults.add("shape", block, "expected one member that is a kind of block");
        };
        let fits = match name {
            "toolUse" | "reasoningContent" => role == "assistant",
            "toolResult" => role == "user",
            "image" | "document" => matches!(role, "user" | "result"),
            "cachePoint" => role != "result",
            _ => true,
        };
        if !fits {
            let problem = format!("`{name}` is not allowed in a message of {role}");
            self.faults.add("block-role", block, problem);
        }
        if name == "text" {
            if value.value.as_str().is_none_or(is_blank) {
                self.faults.add("empty", block, "the text is blank");
            }
            return;
        }
        shape(self.faults, &value, needs, may);
        match name {
            "cachePoint" => self.marks.push(value),
            "toolUse" => self.call(&value),
            "toolResult" => self.result(&value),
            "image" => self.format(&value, &["png", "jpeg", "gif", "webp"]),
            "document" => {
                self.format(&value, &["pdf", "doc", "docx", "xls", "xlsx"]);
                self.document(&value);
            }
            "reasoningContent" => self.reasoning(&value),
            _ => {}
        }
    }

    fn call(&mut self, call: &BodyValue<'a>) {
        self.uses = true;
        let id = call.text("toolUseId").unwrap_or_default();
        let is_nine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_plain(id, LONGEST_ID) || self.model.has_nine_characters && !is_nine {
            self.faults.add("call-id", call, format!("`{id}` is not a valid id"));
        }
        if !self.ids.insert(id) {
            self.faults.add("call-id-twice", call, format!("an earlier call has the id `{id}`"));
        }
        if call.text("name").is_none_or(|name| !is_plain(name, LONGEST_NAME)) {
            self.faults.add("call-name", &call.member("name"), "not a valid tool name");
        }
    }

    fn result(&mut self, result: &BodyValue<'a>) {
        self.uses = true;
        let content = result.member("content");
        if content.items().is_empty() {
            self.faults.add("empty", &content, "the content is empty");
        }
        for block in content.items() {
            let is_text = kind(&block).0 == "text";
            if !is_text && !self.model.has_rich_results {
                self.faults.add("block-role", &block, "this model reads only text in results");
            }
            self.block(&block, "result");
        }
        if result.has("status") && !self.model.has_rich_results {
            self.faults.add("shape", &result.member("status"), "this model does not know it");
        }
    }

    fn format(&mut self, file: &BodyValue<'a>, known: &[&str]) {
        let format = file.text("format").unwrap_or_default();
        if !known.contains(&format) {
            let problem = format!("`{format}` is not a format of such a file");
            self.faults.add("media-type", &file.member("format"), problem);
        }
        shape(self.faults, &file.member("source"), &[("bytes", MemberType::Filled)], &[]);
    }

    fn document(&mut self, document: &BodyValue<'a>) {
        let name = document.text("name").unwrap_or_default();
        let allowed = |c: char| c.is_ascii_alphanumeric() || " -()[]".contains(c);
        let is_valid = name.chars().all(allowed) && !name.contains("  ");
        if !is_valid || name.len() > LONGEST_DOCUMENT {
            self.faults.add("document-name", &document.member("name"), "not a valid name");
        }
        if !self.documents.insert(name) {
            self.faults.add("document-twice", document, "an earlier document has this name");
        }
    }

    fn reasoning(&mut self, reasoning: &BodyValue<'a>) {
        let text = reasoning.member("reasoningText");
        if text.value.is_null() {
            return need(self.faults, reasoning, "redactedContent", MemberType::Filled);
        }
        let needs: Members<'_> = &[("text", MemberType::Text), ("signature", MemberType::Filled)];
        shape(self.faults, &text, needs, &[]);
    }
}

/// Roles alternate. The first and the last message are the user's.
fn roles(list: &BodyValue<'_>, messages: &[BodyValue<'_>], faults: &mut Faults) {
    if messages.is_empty() {
        return faults.add("no-messages", list, "expected at least one message");
    }
    for (end, message) in [("first", messages.first()), ("last", messages.last())] {
        if let Some(message) = message.filter(|message| message.text("role") != Some("user")) {
            let problem = format!("the {end} message must be the user's");
            faults.add("user-at-both-ends", message, problem);
        }
    }
    for pair in messages.windows(2) {
        if pair[0].text("role") == pair[1].text("role") {
            faults.add("roles-alternate", &pair[1], "the message before has the same role");
        }
    }
}

/// Each call has one result in the next message, before any other block of that message.
fn pairs(messages: &[BodyValue<'_>], at: usize, faults: &mut Faults) {
    let of = |at: Option<usize>, name: &str| -> Vec<String> {
        let content = at.and_then(|at| messages.get(at)).map(|message| message.member("content"));
        let blocks = content.map(|content| content.items()).unwrap_or_default();
        let values = blocks.iter().map(kind).filter(|(kind, _)| *kind == name);
        values.map(|(_, value)| value.text("toolUseId").unwrap_or_default().to_owned()).collect()
    };
    let answers = of(Some(at + 1), "toolResult");
    let asked = of(at.checked_sub(1), "toolUse");
    let mut answered = HashSet::new();
    let mut is_past = false;
    for block in messages[at].member("content").items() {
        let (name, value) = kind(&block);
        let id = value.text("toolUseId").unwrap_or_default();
        match name {
            "toolUse" => {
                if !answers.iter().any(|answer| answer == id) {
                    faults.add("call-open", &block, format!("no result for `{id}` follows"));
                }
            }
            "toolResult" => {
                if !asked.iter().any(|call| call == id) {
                    faults.add("result-without-call", &block, format!("no call `{id}` before it"));
                }
                if !answered.insert(id.to_owned()) {
                    faults.add("result-twice", &block, format!("`{id}` already has a result"));
                }
                if is_past {
                    faults.add("result-late", &block, "results must come before other blocks");
                }
            }
            _ => is_past = true,
        }
    }
}

fn offered(body: &BodyValue<'_>, uses: bool, faults: &mut Faults) {
    let config = body.member("toolConfig");
    let specs: Vec<BodyValue<'_>> =
        config.member("tools").items().iter().map(|tool| tool.member("toolSpec")).collect();
    let names = tools::names(faults, &specs, |name| is_plain(name, LONGEST_NAME));
    for spec in &specs {
        let schema = spec.member("inputSchema").member("json");
        need(faults, &spec.member("inputSchema"), "json", MemberType::Object);
        tools::parameters(faults, &schema);
        tools::no_alternatives(faults, &schema);
    }
    if !config.value.is_null() && specs.is_empty() {
        faults.add("no-tools", &config, "a list of tools must not be empty");
    }
    if uses && specs.is_empty() {
        faults.add("no-tools", &config, "calls and results need tools to be defined");
    }
    let choice = config.member("toolChoice").member("tool");
    if choice.value.is_object() && !choice.text("name").is_some_and(|name| names.contains(name)) {
        faults.add("choice-unknown", &choice, "no tool has this name");
    }
}

fn thinking(body: &BodyValue<'_>, messages: &[BodyValue<'_>], faults: &mut Faults) {
    let thinking = body.member("additionalModelRequestFields").member("thinking");
    let is_budgeted = thinking.kind() == "enabled";
    if !is_budgeted && thinking.kind() != "adaptive" {
        return;
    }
    let config = body.member("inferenceConfig");
    let budget = thinking.value.get("budget_tokens").and_then(Value::as_u64);
    let most = config.value.get("maxTokens").and_then(Value::as_u64);
    if is_budgeted && budget.is_some_and(|budget| budget < LEAST_BUDGET) {
        faults.add("thinking-budget", &thinking, format!("at least {LEAST_BUDGET} tokens"));
    }
    if is_budgeted && budget.zip(most).is_some_and(|(budget, most)| budget >= most) {
        faults.add("thinking-budget", &thinking, "`maxTokens` must exceed the budget");
    }
    if config.has("temperature") {
        faults.add("thinking-sampling", &config.member("temperature"), "not allowed with thinking");
    }
    let [.., answer, user] = messages else { return };
    let first = |message: &BodyValue<'_>| {
        let content = message.member("content").items();
        content.first().map(|block| kind(block).0.to_owned()).unwrap_or_default()
    };
    if is_budgeted && first(user) == "toolResult" && first(answer) != "reasoningContent" {
        faults.add(
            "thinking-first",
            answer,
            "an answer within a tool loop must begin with thinking",
        );
    }
}
