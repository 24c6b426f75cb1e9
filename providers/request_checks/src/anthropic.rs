//! Rules of Anthropic Messages for request bodies.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    BodyValue, Faults, MemberType, Members, is_blank, is_plain, need, range, shape, tools,
};

const MAX_MARKS: usize = 4;
const LONGEST_NAME: usize = 128;
/// The longest name of a called tool, in characters.
const LONGEST_CALLED: usize = 200;
/// The smallest thinking budget, in tokens.
const LEAST_BUDGET: u64 = 1_024;

const MARK: (&str, MemberType) = ("cache_control", MemberType::Object);

/// The required and the optional members of a block of this type.
fn members(kind: &str) -> Option<(Members<'static>, Members<'static>)> {
    Some(match kind {
        "text" => (&[("text", MemberType::Text)], &[MARK, ("citations", MemberType::List)]),
        "image" => (&[("source", MemberType::Object)], &[MARK]),
        "document" => (
            &[("source", MemberType::Object)],
            &[
                MARK,
                ("title", MemberType::Text),
                ("context", MemberType::Text),
                ("citations", MemberType::Object),
            ],
        ),
        "tool_use" => (
            &[
                ("id", MemberType::Filled),
                ("name", MemberType::Filled),
                ("input", MemberType::Object),
            ],
            &[MARK],
        ),
        "tool_result" => (
            &[("tool_use_id", MemberType::Filled)],
            &[MARK, ("content", MemberType::Content), ("is_error", MemberType::Flag)],
        ),
        "thinking" => (&[("thinking", MemberType::Text), ("signature", MemberType::Filled)], &[]),
        "redacted_thinking" => (&[("data", MemberType::Filled)], &[]),
        _ => return None,
    })
}

pub(crate) fn check(version: Option<&str>, body: &BodyValue<'_>, faults: &mut Faults) {
    if let Some(version) = version {
        if body.value.get("anthropic_version").and_then(Value::as_str) != Some(version) {
            faults.add("version", &body.member("anthropic_version"), version);
        }
        if body.value.get("model").is_some() {
            faults.add("unknown-member", &body.member("model"), "the address names the model");
        }
    } else {
        need(faults, body, "model", MemberType::Filled);
    }
    need(faults, body, "max_tokens", MemberType::Count);
    need(faults, body, "messages", MemberType::List);
    need(faults, body, "stream", MemberType::Flag);
    if body.value.get("max_tokens").and_then(Value::as_u64) == Some(0) {
        faults.add("max-tokens", &body.member("max_tokens"), "at least 1");
    }
    range(faults, body, "temperature", 0.0, 1.0);
    range(faults, body, "top_p", 0.0, 1.0);
    let mut walk = Checker { faults, marks: Vec::new(), ids: HashSet::new(), uses: false };
    let tools = body.member("tools").items();
    tools.iter().for_each(|tool| walk.mark(tool));
    walk.content(&body.member("system"), "system");
    let messages = body.member("messages").items();
    messages.iter().for_each(|message| walk.message(message));
    let (uses, marks) = (walk.uses, walk.marks);
    order(&body.member("messages"), &messages, faults);
    let turns = turns(&messages);
    turns.iter().enumerate().for_each(|(at, _)| pairs(&turns, at, faults));
    marked(&marks, faults);
    offered(body, &tools, uses, faults);
    thinking(body, &turns, faults);
}

struct Checker<'f, 'a> {
    faults: &'f mut Faults,
    marks: Vec<BodyValue<'a>>,
    ids: HashSet<&'a str>,
    /// Whether the messages contain calls or results.
    uses: bool,
}

impl<'a> Checker<'_, 'a> {
    fn mark(&mut self, block: &BodyValue<'a>) {
        if block.has(MARK.0) {
            self.marks.push(block.member(MARK.0));
        }
    }

    fn message(&mut self, message: &BodyValue<'a>) {
        shape(
            self.faults,
            message,
            &[("role", MemberType::Text), ("content", MemberType::Content)],
            &[],
        );
        let role = message.text("role").unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            self.faults.add("role", &message.member("role"), "`user` or `assistant`");
        }
        self.content(&message.member("content"), role);
    }

    fn content(&mut self, content: &BodyValue<'a>, role: &str) {
        let is_empty = content.value.as_array().is_some_and(Vec::is_empty)
            || content.value.as_str().is_some_and(is_blank);
        if is_empty {
            self.faults.add("empty", content, "the content is empty");
        }
        let blocks = content.items();
        for block in &blocks {
            self.block(block, role);
        }
        let last = blocks.last().filter(|block| is_thought(block) && role == "assistant");
        if let Some(last) = last {
            self.faults.add("thinking-last", last, "a message must not end in thinking");
        }
    }

    fn block(&mut self, block: &BodyValue<'a>, role: &str) {
        let kind = block.kind();
        let Some((needs, may)) = members(kind) else {
            let problem = format!("`{kind}` is not a block type");
            return self.faults.add("shape", &block.member("type"), problem);
        };
        shape(self.faults, block, needs, &[may, &[("type", MemberType::Text)]].concat());
        self.mark(block);
        let fits = match kind {
            "tool_use" | "thinking" | "redacted_thinking" => role == "assistant",
            "tool_result" => role == "user",
            "image" | "document" => matches!(role, "user" | "result"),
            _ => true,
        };
        if !fits {
            let problem = format!("`{kind}` is not allowed in a message of {role}");
            self.faults.add("block-role", block, problem);
        }
        match kind {
            "text" if block.text("text").is_some_and(is_blank) => {
                self.faults.add("empty", block, "the text is blank");
            }
            "image" | "document" => self.source(block, kind),
            "tool_use" => self.call(block),
            "tool_result" => {
                self.uses = true;
                self.content(&block.member("content"), "result");
            }
            _ => {}
        }
    }

    fn call(&mut self, block: &BodyValue<'a>) {
        self.uses = true;
        let id = block.text("id").unwrap_or_default();
        if !is_plain(id, usize::MAX) {
            self.faults.add("call-id", block, format!("`{id}`: letters, digits, `_` and `-` only"));
        }
        if !self.ids.insert(id) {
            self.faults.add("call-id-twice", block, format!("an earlier call has the id `{id}`"));
        }
        if block.text("name").is_none_or(|name| name.len() > LONGEST_CALLED) {
            self.faults.add(
                "call-name",
                &block.member("name"),
                format!("at most {LONGEST_CALLED} characters"),
            );
        }
    }

    fn source(&mut self, block: &BodyValue<'a>, kind: &str) {
        let source = block.member("source");
        if source.kind() != "base64" {
            return;
        }
        let fields: Members<'_> = &[
            ("type", MemberType::Text),
            ("media_type", MemberType::Text),
            ("data", MemberType::Filled),
        ];
        shape(self.faults, &source, fields, &[]);
        let mime = source.text("media_type").unwrap_or_default();
        let fits = match mime {
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => kind == "image",
            "application/pdf" => kind == "document",
            _ => false,
        };
        if !fits {
            let problem = format!("`{mime}` is not allowed in a block of type {kind}");
            self.faults.add("media-type", &source.member("media_type"), problem);
        }
    }
}

fn is_thought(block: &BodyValue<'_>) -> bool {
    matches!(block.kind(), "thinking" | "redacted_thinking")
}

/// The first and the last message are the user's.
fn order(list: &BodyValue<'_>, messages: &[BodyValue<'_>], faults: &mut Faults) {
    if messages.is_empty() {
        return faults.add("no-messages", list, "expected at least one message");
    }
    for (end, message) in [("first", messages.first()), ("last", messages.last())] {
        let other = message.filter(|message| message.text("role") != Some("user"));
        if let Some(message) = other {
            faults.add(
                "user-at-both-ends",
                message,
                format!("the {end} message must be the user's"),
            );
        }
    }
}

/// The role and all blocks of consecutive messages of one role, which count as one message.
type Turn<'a> = (&'a str, Vec<BodyValue<'a>>);

fn turns<'a>(messages: &[BodyValue<'a>]) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let role = message.text("role").unwrap_or_default();
        let content = message.member("content");
        // a string counts as one block
        let blocks = if content.value.is_string() { vec![content] } else { content.items() };
        match turns.last_mut() {
            Some((last, known)) if *last == role => known.extend(blocks),
            Some(_) | None => turns.push((role, blocks)),
        }
    }
    turns
}

/// Each call has one result in the next turn, before any other block of that turn.
fn pairs(turns: &[Turn<'_>], at: usize, faults: &mut Faults) {
    let of = |at: Option<usize>, kind: &str, id: &str| -> Vec<String> {
        let blocks = at.and_then(|at| turns.get(at)).map_or(&[][..], |(_, blocks)| blocks);
        let ids = blocks.iter().filter(|block| block.kind() == kind);
        ids.map(|block| block.text(id).unwrap_or_default().to_owned()).collect()
    };
    let (_, blocks) = &turns[at];
    let answers = of(Some(at + 1), "tool_result", "tool_use_id");
    let asked = of(at.checked_sub(1), "tool_use", "id");
    let mut answered = HashSet::new();
    let mut is_past = false;
    for block in blocks {
        match block.kind() {
            "tool_use" => {
                let id = block.text("id").unwrap_or_default();
                if !answers.iter().any(|answer| answer == id) {
                    faults.add("call-open", block, format!("no result for `{id}` follows"));
                }
            }
            "tool_result" => {
                let id = block.text("tool_use_id").unwrap_or_default();
                if !asked.iter().any(|call| call == id) {
                    faults.add("result-without-call", block, format!("no call `{id}` before it"));
                }
                if !answered.insert(id) {
                    faults.add("result-twice", block, format!("`{id}` already has a result"));
                }
                if is_past {
                    faults.add("result-late", block, "results must come before other blocks");
                }
            }
            _ => is_past = true,
        }
    }
}

/// Checks cache marks. `marks` are in the order of the prompt: tools, system, messages.
fn marked(marks: &[BodyValue<'_>], faults: &mut Faults) {
    let mut short = false;
    for (count, mark) in marks.iter().enumerate() {
        if mark.kind() != "ephemeral" {
            faults.add("cache-mark", mark, "expected the type `ephemeral`");
        }
        if count >= MAX_MARKS {
            faults.add("cache-marks", mark, format!("at most {MAX_MARKS} in a request"));
        }
        let long = mark.text("ttl") == Some("1h");
        if long && short {
            faults.add(
                "cache-order",
                mark,
                "a mark for an hour must come before marks for minutes",
            );
        }
        short |= !long;
    }
}

fn offered(body: &BodyValue<'_>, tools: &[BodyValue<'_>], uses: bool, faults: &mut Faults) {
    let names = tools::names(faults, tools, |name| is_plain(name, LONGEST_NAME));
    for tool in tools {
        let schema = tool.member("input_schema");
        need(faults, tool, "input_schema", MemberType::Object);
        tools::parameters(faults, &schema);
        tools::no_alternatives(faults, &schema);
    }
    if uses && tools.is_empty() {
        faults.add("no-tools", &body.member("tools"), "calls and results need tools to be defined");
    }
    let choice = body.member("tool_choice");
    if !choice.value.is_object() {
        return;
    }
    if tools.is_empty() && choice.kind() != "none" {
        faults.add("choice-without-tools", &choice, "there are no tools");
    }
    if choice.kind() == "tool" && !choice.text("name").is_some_and(|name| names.contains(name)) {
        faults.add("choice-unknown", &choice, "no tool has this name");
    }
}

fn thinking(body: &BodyValue<'_>, turns: &[Turn<'_>], faults: &mut Faults) {
    let thinking = body.member("thinking");
    let is_budgeted = thinking.kind() == "enabled";
    if !thinking.value.is_null() {
        need(faults, &thinking, "type", MemberType::Filled);
    }
    if !is_budgeted && thinking.kind() != "adaptive" {
        return;
    }
    let budget = thinking.value.get("budget_tokens").and_then(Value::as_u64);
    let most = body.value.get("max_tokens").and_then(Value::as_u64);
    if is_budgeted && budget.is_some_and(|budget| budget < LEAST_BUDGET) {
        faults.add("thinking-budget", &thinking, format!("at least {LEAST_BUDGET} tokens"));
    }
    if is_budgeted && budget.zip(most).is_some_and(|(budget, most)| budget >= most) {
        faults.add("thinking-budget", &thinking, "`max_tokens` must exceed the budget");
    }
    if body.number("temperature").is_some_and(|heat| (heat - 1.0).abs() > f64::EPSILON) {
        faults.add("thinking-sampling", &body.member("temperature"), "not allowed with thinking");
    }
    if body.has("top_k") {
        faults.add("thinking-sampling", &body.member("top_k"), "not allowed with thinking");
    }
    if matches!(body.member("tool_choice").kind(), "any" | "tool") {
        faults.add("thinking-choice", &body.member("tool_choice"), "not allowed with thinking");
    }
    let [.., (_, answer), (_, user)] = turns else { return };
    let in_loop = user.iter().any(|block| block.kind() == "tool_result");
    if let Some(first) = answer.first().filter(|first| !is_thought(first) && in_loop && is_budgeted)
    {
        faults.add(
            "thinking-first",
            first,
            "an answer within a tool loop must begin with thinking",
        );
    }
}
