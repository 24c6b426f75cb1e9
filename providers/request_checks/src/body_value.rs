//! Locations in a body, and the expected members of its objects.

use serde_json::Value;

use super::Fault;

#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        at: &BodyValue<'_>,
        problem: impl Into<String>,
    ) {
        self.0.push(Fault { rule, at: at.path.clone(), problem: problem.into() });
    }

    pub(crate) fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

/// A value of a body and its path.
#[derive(Clone, Debug)]
pub(crate) struct BodyValue<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
}

impl<'a> BodyValue<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// The member, or `null` if there is none.
    pub(crate) fn member(&self, name: &str) -> Self {
        let value = self.value.get(name).unwrap_or(&Value::Null);
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { value, path: format!("{}{dot}{name}", self.path) }
    }

    /// The list's items. Empty if this is not a list.
    pub(crate) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate();
        items.map(|(at, value)| Self { value, path: format!("{}[{at}]", self.path) }).collect()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.value.get(name)?.as_str()
    }

    /// The member `type`, or an empty string.
    pub(crate) fn kind(&self) -> &'a str {
        self.text("type").unwrap_or_default()
    }

    /// Whether this member exists and is not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.value.get(name)?.as_f64()
    }
}

/// The expected type of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberType {
    Text,
    /// A string of at least one character.
    Filled,
    Flag,
    Count,
    Object,
    List,
    /// A string or a list.
    Content,
    Any,
}

impl MemberType {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Filled => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Flag => value.is_boolean(),
            Self::Count => value.is_u64(),
            Self::Object => value.is_object(),
            Self::List => value.is_array(),
            Self::Content => value.is_string() || value.is_array(),
            Self::Any => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Filled => "a string that is not empty",
            Self::Flag => "true or false",
            Self::Count => "a whole number",
            Self::Object => "an object",
            Self::List => "a list",
            Self::Content => "a string or a list",
            Self::Any => "anything",
        }
    }
}

/// Names of members, with their expected types.
pub(crate) type Members<'a> = &'a [(&'a str, MemberType)];

/// Checks that an object has all members in `needs`, and no others but those in `may`.
pub(crate) fn shape(faults: &mut Faults, at: &BodyValue<'_>, needs: Members<'_>, may: Members<'_>) {
    let Some(object) = at.value.as_object() else {
        return faults.add("shape", at, "expected an object");
    };
    for (name, is) in needs {
        let member = at.member(name);
        if !object.contains_key(*name) {
            faults.add("shape", &member, format!("it is missing; expected {}", is.words()));
        } else if !is.fits(member.value) {
            faults.add("shape", &member, format!("expected {}", is.words()));
        }
    }
    for (name, value) in object {
        if needs.iter().any(|(known, _)| known == name) {
            continue;
        }
        match may.iter().find(|(known, _)| known == name) {
            None => faults.add("shape", &at.member(name), "this member is unknown"),
            Some((_, is)) if value.is_null() || is.fits(value) => {}
            Some((_, is)) => {
                faults.add("shape", &at.member(name), format!("expected {}", is.words()));
            }
        }
    }
}

/// Checks that a member of the body exists and has the expected type.
pub(crate) fn need(faults: &mut Faults, body: &BodyValue<'_>, name: &str, is: MemberType) {
    let member = body.member(name);
    if !is.fits(member.value) {
        faults.add("shape", &member, format!("expected {}", is.words()));
    }
}

/// Checks that a number, if given, lies within its range.
pub(crate) fn range(faults: &mut Faults, body: &BodyValue<'_>, name: &str, from: f64, to: f64) {
    if body.number(name).is_some_and(|number| !(from..=to).contains(&number)) {
        faults.add("range", &body.member(name), format!("expected {from} to {to}"));
    }
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Whether the text is 1 to `longest` letters, digits, `_` and `-`.
pub(crate) fn is_plain(text: &str, longest: usize) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    (1..=longest).contains(&text.len()) && text.bytes().all(plain)
}
