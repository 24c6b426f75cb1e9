//! Questions to people: those of the `question` tool, and those that a running tool asks. The log
//! has the tool's questions in the call's arguments, and asks them one by one as the permission
//! `question`.

use std::sync::Arc;

use leftfold_events::event::Resolution;
use leftfold_events::rules::{HOST, NETWORK, SECRET_IN_URL, UNREADABLE, UNSANDBOXED, host};
use leftfold_events::{Seq, SessionId, Time, form};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::turn_rules::AskingRule;

/// The permission that a question is asked as.
pub(crate) const PERMISSION: &str = "question";
/// The option for a question without options if no answer can be typed.
pub const CONTINUE: &str = "Go on as you think best";

/// Identifies a question by the session that asks and the seq of its `permission.asked`.
pub type QuestionId = (SessionId, Seq);

/// One question to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Question {
    pub question: String,
    /// A short title; may be empty.
    #[serde(default)]
    pub header: String,
    /// The options to choose from; may be empty.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Whether several options may be chosen.
    #[serde(default, deserialize_with = "or_false")]
    pub multiple: bool,
    /// For a question of a running call: its number among the call's questions.
    #[serde(skip)]
    run: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Choice {
    pub label: String,
    /// May be empty.
    #[serde(default)]
    pub description: String,
}

#[derive(Deserialize)]
struct Input {
    questions: Vec<Question>,
}

fn or_false<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Question {
    /// A question of which only the text is known.
    pub(crate) fn bare(question: &str) -> Self {
        Self { question: question.to_owned(), ..Self::default() }
    }

    /// A question that a running tool asks through a form.
    pub(crate) fn of_field(elicitation: u32, from: &str, field: form::Field) -> Self {
        let option = |form::Choice { label, description, .. }| Choice { label, description };
        Self {
            question: field.question,
            header: from.to_owned(),
            options: field.options.into_iter().map(option).collect(),
            multiple: field.multiple,
            run: Some(elicitation),
        }
    }

    pub(crate) fn belongs_to(&self, elicitation: u32) -> bool {
        self.run == Some(elicitation)
    }

    /// Whether a running call asks it. A dismissal then does not end the call.
    pub fn in_run(&self) -> bool {
        self.run.is_some()
    }

    /// The answer for "allow" without a text: the model decides; a running tool, which takes a text
    /// for a value, gets none. `None`: it counts as a dismissal.
    pub fn default_answer(&self) -> Option<String> {
        if !self.in_run() {
            return Some(CONTINUE.to_owned());
        }
        let leaves_out = self.options.iter().any(|option| option.label == form::LEFT_OUT);
        leaves_out.then(|| form::LEFT_OUT.to_owned())
    }

    /// The question after its header.
    pub fn titled(&self) -> String {
        match self.header.trim() {
            "" => self.question.clone(),
            header => format!("[{header}] {}", self.question),
        }
    }

    /// The numbered options, each with its description.
    pub fn numbered(&self) -> impl Iterator<Item = String> {
        self.options.iter().zip(1..).map(
            |(Choice { label, description }, number)| match description.trim() {
                "" => format!("{number}. {label}"),
                description => format!("{number}. {label} – {description}"),
            },
        )
    }

    /// The answer that consists of the options at these indices, counted from 0.
    pub fn chosen(&self, places: &[usize]) -> String {
        let labels = places.iter().filter_map(|place| self.options.get(*place));
        labels.map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Parses a typed line: numbers of options, or an answer in the user's own words. `None`: the
    /// line is empty.
    pub fn parse_answer(&self, line: &str) -> Option<String> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        Some(self.numbers(line).map_or_else(|| line.to_owned(), |places| self.chosen(&places)))
    }

    /// The indices in a line of numbers, if it is one and all options exist.
    fn numbers(&self, line: &str) -> Option<Vec<usize>> {
        let mut places = Vec::new();
        for number in line.split(',') {
            let place = number.trim().parse::<usize>().ok()?.checked_sub(1)?;
            if place >= self.options.len() {
                return None;
            }
            if !places.contains(&place) {
                places.push(place);
            }
        }
        (places.len() == 1 || self.multiple).then_some(places)
    }
}

/// A question to a person: a permission, or a question of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    pub id: QuestionId,
    /// When it was asked.
    pub at: Time,
    /// The seq of the call that it is about, or that asks it.
    pub call: Seq,
    pub permission: String,
    pub patterns: Vec<String>,
    /// The patterns that an "always" would allow from now on.
    pub always: Vec<String>,
    /// The question of a tool, if it is one.
    pub question: Option<Question>,
    /// The call, if it would change files.
    pub change: Option<Arc<Resolution>>,
    /// For a permission, all arguments of the call with their names. The main one is first and has no name.
    pub arguments: Vec<(String, String)>,
    /// For a permission that a running call asks for: the tool or plugin that asks.
    pub by: Option<String>,
    /// The rule that asks, and its file and line if they are known. `None`: no rule matches, or the rule is not known.
    pub rule: Option<AskingRule>,
}

impl OpenQuestion {
    /// A question of which only the permission is known.
    pub fn of_access(id: QuestionId, permission: &str, patterns: &[String]) -> Self {
        Self {
            id,
            at: Time::default(),
            call: 0,
            permission: permission.to_owned(),
            patterns: patterns.to_vec(),
            always: Vec::new(),
            question: None,
            change: None,
            arguments: Vec::new(),
            by: None,
            rule: None,
        }
    }

    /// Whether the patterns are the only argument of the call.
    pub fn is_all_in_patterns(&self) -> bool {
        match (self.arguments.as_slice(), self.patterns.as_slice()) {
            ([], _) => true,
            ([(name, main)], [pattern]) => name.is_empty() && main.trim() == pattern,
            _ => false,
        }
    }

    /// The permission in words for people. `show` makes a text safe for the place where it is shown. `None`: the
    /// permission has no words but its name and patterns.
    pub fn in_words(&self, show: impl Fn(&str) -> String) -> Option<String> {
        let to_host = |what: &str| {
            let host = host::pattern_of(self.patterns.first()?)?;
            Some(format!("{what} {}: {}", show(&host), show(&self.patterns.join(", "))))
        };
        let how = match self.permission.as_str() {
            HOST => return to_host("connect to"),
            SECRET_IN_URL => return to_host("send what looks like a secret to"),
            NETWORK => "with the network",
            UNREADABLE => return Some("run a line of which not every command is known".to_owned()),
            UNSANDBOXED => "outside the sandbox: it can read and write all your files",
            _ => return None,
        };
        let commands: Vec<String> =
            self.patterns.iter().map(|line| format!("`{}`", show(line))).collect();
        Some(format!("run {} {how}", commands.join(", ")))
    }

    /// Whether a running call asks it.
    pub fn is_in_run(&self) -> bool {
        self.by.is_some() || self.question.as_ref().is_some_and(Question::in_run)
    }
}

/// The questions in the arguments of a call of the `question` tool.
pub(crate) fn of_tool(input: &Value) -> Option<Vec<Question>> {
    Some(Input::deserialize(input).ok()?.questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(multiple: bool) -> Question {
        let option = |label: &str| Choice { label: label.to_owned(), ..Choice::default() };
        let options = ["red", "blue", "green"].map(option).to_vec();
        Question { options, multiple, ..Question::bare("Which?") }
    }

    #[test]
    fn leaving_the_sandbox_is_asked_in_words() {
        let patterns = ["cd web", "npm ci"].map(str::to_owned);
        let words = |permission: &str| {
            let open = OpenQuestion::of_access((SessionId::default(), 1), permission, &patterns);
            open.in_words(str::to_uppercase)
        };
        let network = words("network");
        assert_eq!(network.as_deref(), Some("run `CD WEB`, `NPM CI` with the network"));
        let outside =
            "run `CD WEB`, `NPM CI` outside the sandbox: it can read and write all your files";
        assert_eq!(words("unsandboxed").as_deref(), Some(outside));
        let unknown = "run a line of which not every command is known";
        assert_eq!(words("unreadable").as_deref(), Some(unknown));
        assert_eq!(words("bash"), None);
    }

    #[test]
    fn a_question_about_a_host_shows_the_address_with_its_query() {
        let address = "https://a.test:8443/x?key=1".to_owned();
        for (permission, text) in [
            ("host", "connect to A.TEST:8443: HTTPS://A.TEST:8443/X?KEY=1"),
            (
                "secret_in_url",
                "send what looks like a secret to A.TEST:8443: HTTPS://A.TEST:8443/X?KEY=1",
            ),
        ] {
            let patterns = std::slice::from_ref(&address);
            let open = OpenQuestion::of_access((SessionId::default(), 1), permission, patterns);
            assert_eq!(open.in_words(str::to_uppercase).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_line_is_numbers_or_words() {
        for (line, one, several) in [
            ("2", "blue", "blue"),
            (" 3 \n", "green", "green"),
            ("1, 3,1", "1, 3,1", "red, green"),
            ("4", "4", "4"),
            ("0", "0", "0"),
            ("1, 4", "1, 4", "1, 4"),
            ("neither, thanks", "neither, thanks", "neither, thanks"),
        ] {
            assert_eq!(colours(false).parse_answer(line).as_deref(), Some(one), "{line:?}");
            assert_eq!(colours(true).parse_answer(line).as_deref(), Some(several), "{line:?}");
        }
        assert_eq!(colours(true).parse_answer("  "), None);
        assert_eq!(Question::bare("How many?").parse_answer("1").as_deref(), Some("1"));
    }
}
