//! Turns the forms of running tools into questions with one field each, and people's answers into
//! values. The forms are those of the Model Context Protocol's elicitation (2025-11-25): an object
//! of text, numbers, booleans and choices, without nesting.

use serde_json::{Map, Value, json};

use crate::event::Wanted;
use crate::json::Json;

/// The answer that omits an optional value.
pub const LEFT_OUT: &str = "(leave it out)";
/// The answer to a question that needs no value.
pub const GO_ON: &str = "Go on";
/// The most fields in one form. People do not fill in longer forms one field at a time.
const FIELDS: usize = 50;

/// One question.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name in the answer; empty if no value is asked for.
    pub name: String,
    pub question: String,
    /// The options. A text or a number has only options that replace a value.
    pub options: Vec<Choice>,
    /// Whether several options may be chosen.
    pub multiple: bool,
    kind: FieldKind,
    required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub label: String,
    /// May be empty.
    pub description: String,
    /// The value that the option means; `None`: no value.
    value: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum FieldKind {
    Text {
        least: u64,
        most: u64,
    },
    Number {
        whole: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    /// One of the options.
    Chosen,
    /// Several of the options.
    Several {
        least: u64,
        most: u64,
    },
    /// No value.
    Nothing,
}

/// The questions for `wanted`, in order.
///
/// # Errors
/// The reason why it cannot be asked.
pub fn fields(message: &str, wanted: &Wanted) -> Result<Vec<Field>, String> {
    let schema = match wanted {
        Wanted::Form { schema } => schema.value(),
        Wanted::Permission { .. } => return Ok(Vec::new()),
        Wanted::Visit { url } => {
            let question =
                format!("{message}\nOpen this address, if you trust it, and then go on: {url}");
            return Ok(vec![Field::nothing(question)]);
        }
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    if properties.is_empty() {
        return Ok(vec![Field::nothing(message.to_owned())]);
    }
    if properties.len() > FIELDS {
        return Err(format!("a form of {} fields: at most {FIELDS} are asked", properties.len()));
    }
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let field = |(name, schema): (&String, &Value)| {
        let required = required.iter().any(|known| known == name);
        Field::read(message, name, schema, required)
    };
    properties.iter().map(field).collect()
}

impl Field {
    fn nothing(question: String) -> Self {
        let (label, description) = (GO_ON.to_owned(), String::new());
        let options = vec![Choice { label, description, value: None }];
        let (name, multiple, kind) = (String::new(), false, FieldKind::Nothing);
        Self { name, question, options, multiple, kind, required: false }
    }

    fn read(message: &str, name: &str, schema: &Value, required: bool) -> Result<Self, String> {
        let (kind, mut options) = kind(name, schema)?;
        propose(&kind, &mut options, &schema["default"]);
        if !required {
            let (label, description) = (LEFT_OUT.to_owned(), String::new());
            options.push(Choice { label, description, value: None });
        }
        let multiple = matches!(kind, FieldKind::Several { .. });
        let title = schema["title"].as_str().unwrap_or(name);
        let mut question = format!("{message}\n{title}");
        if let Some(more) = schema["description"].as_str() {
            question.push_str(&format!(": {more}"));
        }
        if let Some(format) = form_of(schema) {
            question.push_str(&format!(" ({format})"));
        }
        Ok(Self { name: name.to_owned(), question, options, multiple, kind, required })
    }

    /// The value of an answer; `None` if it omits the value.
    ///
    /// # Errors
    /// The expected form of the answer.
    pub fn understood(&self, words: &str) -> Result<Option<Value>, String> {
        let words = words.trim();
        let option = |label: &str| self.options.iter().find(|option| option.label == label);
        if let Some(chosen) = option(words).filter(|_| !self.multiple || words == LEFT_OUT) {
            return Ok(chosen.value.clone());
        }
        match &self.kind {
            FieldKind::Nothing => Ok(None),
            FieldKind::Chosen => Err(format!("one of these is expected: {}", self.labels())),
            FieldKind::Text { least, most } => {
                let long = u64::try_from(words.chars().count()).unwrap_or(u64::MAX);
                let fits = (*least..=*most).contains(&long);
                let told =
                    || format!("a text of {} is expected", span(*least, *most, "characters"));
                fits.then(|| Some(json!(words))).ok_or_else(told)
            }
            FieldKind::Number { whole, least, most } => number(words, *whole, *least, *most),
            FieldKind::Several { least, most } => {
                let said = words.split(',').map(str::trim).filter(|label| !label.is_empty());
                let values: Option<Vec<Value>> =
                    said.map(|label| option(label)?.value.clone()).collect();
                let expected = || {
                    format!("{} of these are expected: {}", span(*least, *most, ""), self.labels())
                };
                let values = values.ok_or_else(expected)?;
                let many = u64::try_from(values.len()).unwrap_or(u64::MAX);
                let fits = (*least..=*most).contains(&many);
                fits.then(|| Some(Value::Array(values))).ok_or_else(expected)
            }
        }
    }

    fn labels(&self) -> String {
        let labels = self.options.iter().map(|option| option.label.as_str());
        labels.collect::<Vec<_>>().join(", ")
    }
}

/// The values by the names of their fields.
pub fn content(answers: &[(String, Value)]) -> Json {
    let values: Map<String, Value> = answers.iter().cloned().collect();
    Json::from_value(&Value::Object(values))
}

fn kind(name: &str, schema: &Value) -> Result<(FieldKind, Vec<Choice>), String> {
    let at = |key: &str| schema[key].as_u64();
    let (options, several) = choices(schema);
    if !options.is_empty() {
        let limits = (at("minItems").unwrap_or(0), at("maxItems").unwrap_or(u64::MAX));
        let kind = FieldKind::Several { least: limits.0, most: limits.1 };
        return Ok((if several { kind } else { FieldKind::Chosen }, options));
    }
    let number = |whole| {
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        FieldKind::Number { whole, least, most }
    };
    match schema["type"].as_str() {
        Some("boolean") => {
            let option = |(label, value): (&str, bool)| choice(label, label, json!(value));
            Ok((FieldKind::Chosen, [("yes", true), ("no", false)].map(option).to_vec()))
        }
        Some("integer") => Ok((number(true), Vec::new())),
        Some("number") => Ok((number(false), Vec::new())),
        Some("string") => {
            let least = at("minLength").unwrap_or(0);
            let most = at("maxLength").unwrap_or(u64::MAX);
            Ok((FieldKind::Text { least, most }, Vec::new()))
        }
        _ => Err(format!("the field `{name}` is not text, a number, a boolean or a choice")),
    }
}

/// The options of a field, and whether several may be chosen.
fn choices(schema: &Value) -> (Vec<Choice>, bool) {
    let several = schema["type"] == "array";
    let of = if several { &schema["items"] } else { schema };
    let list = |key: &str| of[key].as_array().map_or(&[][..], Vec::as_slice);
    let named = |value: &Value, title: &Value| {
        let value = value.as_str()?;
        Some(choice(title.as_str().unwrap_or(value), value, json!(value)))
    };
    let titled = list("oneOf").iter().chain(list("anyOf"));
    let mut options: Vec<Choice> =
        titled.filter_map(|option| named(&option["const"], &option["title"])).collect();
    let names = of["enumNames"].as_array();
    for (at, value) in list("enum").iter().enumerate() {
        let name = names.and_then(|names| names.get(at)).unwrap_or(&Value::Null);
        options.extend(named(value, name));
    }
    (options, several)
}

/// An option. Its label has no comma, because commas separate several labels.
fn choice(label: &str, value: &str, stands_for: Value) -> Choice {
    let label = label.split_whitespace().collect::<Vec<_>>().join(" ").replace(',', ";");
    let description = if label == value { String::new() } else { value.to_owned() };
    let label = if label.is_empty() { value.to_owned() } else { label };
    Choice { label, description, value: Some(stands_for) }
}

/// Marks the default among the options, or adds it as an option.
fn propose(kind: &FieldKind, options: &mut Vec<Choice>, default: &Value) {
    let proposed = |option: &&mut Choice| option.value.as_ref() == Some(default);
    if let Some(option) = options.iter_mut().find(proposed) {
        "proposed".clone_into(&mut option.description);
        return;
    }
    let label = match (kind, default) {
        (FieldKind::Text { .. }, Value::String(text)) if !text.trim().is_empty() => text.clone(),
        (FieldKind::Number { .. }, Value::Number(number)) => number.to_string(),
        _ => return,
    };
    let description = "proposed".to_owned();
    options.push(Choice { label, description, value: Some(default.clone()) });
}

fn number(
    words: &str,
    whole: bool,
    least: Option<f64>,
    most: Option<f64>,
) -> Result<Option<Value>, String> {
    let value: Option<Value> = if whole {
        words.parse::<i64>().ok().map(|number| json!(number))
    } else {
        words.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| json!(number))
    };
    let fits = |value: &Value| {
        let number = value.as_f64().unwrap_or(f64::NAN);
        least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
    };
    let told = || {
        let kind = if whole { "a whole number" } else { "a number" };
        let from = least.map(|least| format!(" from {least}")).unwrap_or_default();
        let to = most.map(|most| format!(" up to {most}")).unwrap_or_default();
        format!("{kind}{from}{to} is expected")
    };
    value.filter(fits).map(Some).ok_or_else(told)
}

/// The format of a text.
fn form_of(schema: &Value) -> Option<&'static str> {
    match schema["format"].as_str()? {
        "email" => Some("an e-mail address"),
        "uri" => Some("an address such as https://example.com"),
        "date" => Some("a date such as 2026-01-31"),
        "date-time" => Some("a time such as 2026-01-31T12:00:00Z"),
        _ => None,
    }
}

fn span(least: u64, most: u64, of: &str) -> String {
    let told = match (least, most) {
        (0, u64::MAX) => "any number".to_owned(),
        (least, u64::MAX) => format!("at least {least}"),
        (0, most) => format!("at most {most}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    format!("{told} {of}").trim_end().to_owned()
}
