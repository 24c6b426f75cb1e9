//! Questions to people: those of the `question` tool, and those that a running tool asks. The log has
//! the questions of the tool in the call's arguments, and asks them one by one as the permission
//! `question`.

use std::sync::Arc;

use leftfold_events::event::Resolution;
use leftfold_events::{Seq, SessionId, form};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The permission that a question is asked as.
pub(crate) const PERMISSION: &str = "question";
/// The option that is offered where a question names none and nothing can be typed.
pub const GO_ON: &str = "Go on as you think best";

/// Identifies a question: the session that asks, and the seq of its `permission.asked`.
pub type QuestionId = (SessionId, Seq);

/// One question to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Question {
    pub question: String,
    /// A word or two about it; may be empty.
    #[serde(default)]
    pub header: String,
    /// Answers to choose from; may be empty.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Whether more than one of them may be chosen.
    #[serde(default, deserialize_with = "or_false")]
    pub multiple: bool,
    /// Of one that a call asks while it runs, which of its questions it belongs to.
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
    /// A question of which no more is known than its text.
    pub(crate) fn bare(question: &str) -> Self {
        Self { question: question.to_owned(), ..Self::default() }
    }

    /// One that a running tool asks for somebody.
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

    /// Whether a call asks it while it runs: a dismissal does not end the call then.
    pub fn in_run(&self) -> bool {
        self.run.is_some()
    }

    /// What an answer without a word means: the model is to decide, and a running tool, which takes words
    /// for a value, gets none. `None`: it is a dismissal.
    pub fn unsaid(&self) -> Option<String> {
        if !self.in_run() {
            return Some(GO_ON.to_owned());
        }
        let leaves_out = self.options.iter().any(|option| option.label == form::LEFT_OUT);
        leaves_out.then(|| form::LEFT_OUT.to_owned())
    }

    /// The question with its header, in front of it.
    pub fn titled(&self) -> String {
        match self.header.trim() {
            "" => self.question.clone(),
            header => format!("[{header}] {}", self.question),
        }
    }

    /// The options as they are numbered for people, each with what it would mean.
    pub fn numbered(&self) -> impl Iterator<Item = String> {
        self.options.iter().zip(1..).map(
            |(Choice { label, description }, number)| match description.trim() {
                "" => format!("{number}. {label}"),
                description => format!("{number}. {label} – {description}"),
            },
        )
    }

    /// The answer that consists of the options at these places, which are counted from 0.
    pub fn chosen(&self, places: &[usize]) -> String {
        let labels = places.iter().filter_map(|place| self.options.get(*place));
        labels.map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// What a typed line says: the numbers of options, or an answer in its own words. `None`: it is
    /// empty.
    pub fn understood(&self, line: &str) -> Option<String> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        Some(self.numbers(line).map_or_else(|| line.to_owned(), |places| self.chosen(&places)))
    }

    /// The places that a line of numbers names, if it is one and all of them exist.
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

/// A question to a person: whether something is allowed, or one in words.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    pub id: QuestionId,
    /// The seq of the call that it is about, or that asks it.
    pub call: Seq,
    pub permission: String,
    pub patterns: Vec<String>,
    /// The patterns that an "always" would allow from now on.
    pub always: Vec<String>,
    /// The question, if it is one in words.
    pub question: Option<Question>,
    /// The call, if it would change files.
    pub change: Option<Arc<Resolution>>,
}

impl OpenQuestion {
    /// A question of which only its permission is known.
    pub fn of_access(id: QuestionId, permission: &str, patterns: &[String]) -> Self {
        Self {
            id,
            call: 0,
            permission: permission.to_owned(),
            patterns: patterns.to_vec(),
            always: Vec::new(),
            question: None,
            change: None,
        }
    }

    /// Whether a call asks it while it runs.
    pub fn is_in_run(&self) -> bool {
        self.question.as_ref().is_some_and(Question::in_run)
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
            assert_eq!(colours(false).understood(line).as_deref(), Some(one), "{line:?}");
            assert_eq!(colours(true).understood(line).as_deref(), Some(several), "{line:?}");
        }
        assert_eq!(colours(true).understood("  "), None);
        assert_eq!(Question::bare("How many?").understood("1").as_deref(), Some("1"));
    }
}
