//! Rules of Gemini for request bodies.

use crate::{BodyValue, Faults, MemberType, is_blank, need, shape, tools};

const LONGEST_NAME: usize = 128;
const SIGNATURE: &str = "thoughtSignature";
/// The kinds of data of a part, which has exactly one of them.
const KINDS: [(&str, MemberType); 5] = [
    ("text", MemberType::Text),
    ("inlineData", MemberType::Object),
    ("fileData", MemberType::Object),
    ("functionCall", MemberType::Object),
    ("functionResponse", MemberType::Object),
];

/// The known members of a schema.
const OF_SCHEMA: [(&str, MemberType); 20] = [
    ("type", MemberType::Text),
    ("format", MemberType::Text),
    ("title", MemberType::Text),
    ("description", MemberType::Text),
    ("nullable", MemberType::Flag),
    ("enum", MemberType::List),
    ("items", MemberType::Object),
    ("minItems", MemberType::Any),
    ("maxItems", MemberType::Any),
    ("properties", MemberType::Object),
    ("required", MemberType::List),
    ("minProperties", MemberType::Any),
    ("maxProperties", MemberType::Any),
    ("minLength", MemberType::Any),
    ("maxLength", MemberType::Any),
    ("pattern", MemberType::Text),
    ("example", MemberType::Any),
    ("anyOf", MemberType::List),
    ("propertyOrdering", MemberType::List),
    ("default", MemberType::Any),
];

const TYPES: [&str; 6] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"];

pub(crate) fn check(body: &BodyValue<'_>, signs_calls: bool, faults: &mut Faults) {
    need(faults, body, "contents", MemberType::List);
    let contents = body.member("contents").items();
    if contents.is_empty() {
        faults.add("no-messages", &body.member("contents"), "expected at least one content");
    }
    let mut before = None;
    for content in &contents {
        let turn = Turn::read(content, faults);
        turn.follows(before.as_ref(), faults);
        before = Some(turn);
    }
    if let Some(last) = &before {
        last.ends(faults);
    }
    if signs_calls {
        signed(&contents, faults);
    }
    if body.has("systemInstruction") {
        parts(&body.member("systemInstruction"), faults);
    }
    declared(body, faults);
}

/// A content with its calls and results.
struct Turn<'a> {
    content: BodyValue<'a>,
    is_model: bool,
    calls: Vec<BodyValue<'a>>,
    results: Vec<BodyValue<'a>>,
}

impl<'a> Turn<'a> {
    fn read(content: &BodyValue<'a>, faults: &mut Faults) -> Self {
        shape(faults, content, &[("role", MemberType::Text), ("parts", MemberType::List)], &[]);
        let role = content.text("role").unwrap_or_default();
        if !matches!(role, "user" | "model") {
            faults.add("role", &content.member("role"), "`user` or `model`");
        }
        let parts = parts(content, faults);
        let members = |name: &str| {
            let parts = parts.iter().filter(|part| part.has(name));
            parts.map(|part| part.member(name)).collect()
        };
        let (calls, results) = (members("functionCall"), members("functionResponse"));
        Self { content: content.clone(), is_model: role == "model", calls, results }
    }

    fn follows(&self, before: Option<&Self>, faults: &mut Faults) {
        if !self.calls.is_empty() {
            if !self.is_model {
                faults.add("call-role", &self.content, "only the model calls functions");
            }
            if before.is_none_or(|before| before.is_model) {
                faults.add("call-order", &self.content, "calls must come directly after the user");
            }
        }
        let asked = before.map_or(&[][..], |before| before.calls.as_slice());
        match (asked.is_empty(), self.results.is_empty()) {
            (true, true) => {}
            (false, true) => faults.add("call-open", &self.content, "the results are missing"),
            (true, false) => faults.add("result-without-call", &self.content, "nothing was called"),
            (false, false) => self.answers(asked, faults),
        }
        if self.is_model && !self.results.is_empty() {
            faults.add("result-role", &self.content, "only the user has results");
        }
    }

    /// Checks that there are as many results as calls, each with the name and id of one call.
    fn answers(&self, asked: &[BodyValue<'_>], faults: &mut Faults) {
        if asked.len() != self.results.len() {
            let (calls, results) = (asked.len(), self.results.len());
            let problem = format!("{results} results for {calls} calls");
            return faults.add("result-count", &self.content, problem);
        }
        let mut waiting: Vec<_> =
            asked.iter().map(|call| (call.text("name"), call.text("id"))).collect();
        for result in &self.results {
            shape(
                faults,
                result,
                &[("name", MemberType::Filled), ("response", MemberType::Object)],
                &[("id", MemberType::Filled), ("parts", MemberType::List)],
            );
            let of = (result.text("name"), result.text("id"));
            match waiting.iter().position(|call| *call == of) {
                Some(at) => drop(waiting.remove(at)),
                None => faults.add("result-without-call", result, "no call has its name and id"),
            }
        }
    }

    fn ends(&self, faults: &mut Faults) {
        if !self.calls.is_empty() {
            faults.add("call-open", &self.content, "the results are missing");
        } else if self.is_model {
            faults.add("answer-last", &self.content, "the last content must not be the model's");
        }
    }
}

fn parts<'a>(content: &BodyValue<'a>, faults: &mut Faults) -> Vec<BodyValue<'a>> {
    let list = content.member("parts");
    let parts = list.items();
    if parts.is_empty() {
        faults.add("empty", &list, "expected at least one part");
    }
    for part in &parts {
        let more = [("thought", MemberType::Flag), (SIGNATURE, MemberType::Filled)];
        shape(faults, part, &[], &[&KINDS[..], &more].concat());
        let kinds = KINDS.iter().filter(|(name, _)| part.has(name)).count();
        let is_signed = part.has(SIGNATURE);
        if kinds > 1 || kinds == 0 && !is_signed {
            faults.add("part-kind", part, format!("it holds {kinds} kinds of data, not one"));
        }
        let text = part.text("text");
        if !is_signed && text.is_some_and(is_blank) {
            faults.add("empty", part, "the text is blank");
        }
        let data = part.member("inlineData");
        if data.value.is_object() {
            let needs = [("mimeType", MemberType::Filled), ("data", MemberType::Filled)];
            shape(faults, &data, &needs, &[("displayName", MemberType::Text)]);
        }
        let call = part.member("functionCall");
        if call.value.is_object() {
            let may = [("id", MemberType::Filled), ("args", MemberType::Object)];
            shape(faults, &call, &[("name", MemberType::Filled)], &may);
        }
    }
    parts
}

/// In the current turn, the first call of each step has a signature.
fn signed(contents: &[BodyValue<'_>], faults: &mut Faults) {
    let asks = |content: &BodyValue<'_>| {
        let parts = content.member("parts").items();
        content.text("role") == Some("user") && parts.iter().any(|p| !p.has("functionResponse"))
    };
    let begin = contents.iter().rposition(asks).unwrap_or_default();
    for content in &contents[begin..] {
        let parts = content.member("parts").items();
        let first = parts.iter().find(|part| part.has("functionCall"));
        if let Some(first) = first.filter(|first| !first.has(SIGNATURE)) {
            faults.add("call-unsigned", first, "the first call of a step must have a signature");
        }
    }
}

fn declared(body: &BodyValue<'_>, faults: &mut Faults) {
    let tools = body.member("tools").items();
    let functions: Vec<BodyValue<'_>> =
        tools.iter().flat_map(|tool| tool.member("functionDeclarations").items()).collect();
    tools::names(faults, &functions, is_name);
    for function in &functions {
        let may = [
            ("description", MemberType::Text),
            ("parameters", MemberType::Object),
            ("parametersJsonSchema", MemberType::Object),
            ("behavior", MemberType::Text),
        ];
        shape(faults, function, &[("name", MemberType::Filled)], &may);
        let parameters = function.member("parameters");
        if parameters.value.is_null() {
            continue;
        }
        if function.has("parametersJsonSchema") {
            faults.add("tool-schema", function, "only one schema of parameters is allowed");
        }
        if parameters.text("type") != Some("OBJECT") {
            faults.add("tool-schema", &parameters, "parameters must have the type `OBJECT`");
        }
        schema(&parameters, faults);
    }
}

fn schema(at: &BodyValue<'_>, faults: &mut Faults) {
    let more = [("minimum", MemberType::Any), ("maximum", MemberType::Any)];
    shape(faults, at, &[], &[&OF_SCHEMA[..], &more].concat());
    let kind = at.kind();
    if !TYPES.contains(&kind) && !at.has("anyOf") {
        faults.add("tool-schema", at, format!("`{kind}` is not a type"));
    }
    let values = at.member("enum").items();
    if at.has("enum") {
        let filled =
            |value: &BodyValue<'_>| value.value.as_str().is_some_and(|text| !text.is_empty());
        if kind != "STRING" || values.is_empty() || !values.iter().all(filled) {
            faults.add("tool-schema", &at.member("enum"), "expected strings that are not empty");
        }
    }
    if kind == "ARRAY" && !at.has("items") {
        faults.add("tool-schema", at, "a list needs a schema of its items");
    }
    if at.has("items") {
        schema(&at.member("items"), faults);
    }
    let properties = at.member("properties");
    let all = properties.value.as_object();
    if all.is_some_and(serde_json::Map::is_empty) {
        faults.add("tool-schema", &properties, "expected at least one property");
    }
    for name in all.into_iter().flat_map(|all| all.keys()) {
        schema(&properties.member(name), faults);
    }
    for name in at.member("required").items() {
        let known = name.value.as_str().is_some_and(|name| properties.has(name));
        if !known {
            faults.add("tool-schema", &name, "no such property");
        }
    }
    at.member("anyOf").items().iter().for_each(|choice| schema(choice, faults));
}

fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= LONGEST_NAME && name.chars().all(inner)
}
