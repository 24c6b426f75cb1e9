//! Questions to people: those of the `question` tool, and those that a running tool asks. The log has
//! the questions of the tool in the call's arguments, and asks them one by one as the permission
//! `question`.

use std::collections::HashMap;
use std::sync::Arc;

use leftfold_events::event::{Class, Event, Permission, Resolution, Tool, Turn};
use leftfold_events::{Envelope, Seq, SessionId, form};
use serde::{Deserialize, Deserializer};

/// The permission that a question is asked as.
const PERMISSION: &str = "question";
/// What a question offers that names no options, where nothing can be typed.
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
    fn bare(question: &str) -> Self {
        Self { question: question.to_owned(), ..Self::default() }
    }

    /// One that a running tool asks for somebody.
    fn of_field(inquiry: u32, from: &str, field: form::Field) -> Self {
        let option = |form::Choice { label, description, .. }| Choice { label, description };
        Self {
            question: field.question,
            header: from.to_owned(),
            options: field.options.into_iter().map(option).collect(),
            multiple: field.multiple,
            run: Some(inquiry),
        }
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

/// Follows a session's events, at least from the beginning of a turn.
#[derive(Debug, Default)]
pub struct OpenQuestions {
    /// From the intents to resolve calls to the calls.
    checked: HashMap<Seq, Seq>,
    /// Of each call, what it asks, and whether it has asked it already.
    calls: HashMap<Seq, Vec<(Question, bool)>>,
    /// What each `permission.asked` asks.
    asked: HashMap<Seq, Question>,
    /// The calls that would change files and have not begun.
    changes: HashMap<Seq, Arc<Resolution>>,
    /// From each other `permission.asked` to the call.
    about: HashMap<Seq, Seq>,
    /// From the intents that have started calls to the calls.
    runs: HashMap<Seq, Seq>,
    /// Of each running call, the question that it waits for.
    open: HashMap<Seq, Seq>,
}

impl OpenQuestions {
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut questions = Self::default();
        events.into_iter().for_each(|event| questions.follow(event));
        questions
    }

    pub fn follow(&mut self, event: &Envelope) {
        let of = event.of.unwrap_or_default();
        if let Event::Turn(Turn::Ended(_)) = &event.event {
            *self = Self::default();
        } else if let Event::Permission(Permission::Answered { .. }) = &event.event {
            self.open.retain(|_, asked| *asked != of);
        } else if let Event::Tool(Tool::Checked { .. }) = &event.event {
            self.checked.insert(event.seq, of);
        } else if let Event::Tool(Tool::Resolved(resolution)) = &event.event {
            let call = self.checked.remove(&of).unwrap_or(of);
            if resolution.access.iter().any(|access| access.permission == PERMISSION)
                && let Ok(input) = serde_json::from_value::<Input>(resolution.input.value())
            {
                let questions = input.questions.into_iter().map(|question| (question, false));
                self.calls.insert(call, questions.collect());
            }
            if resolution.class == Class::Write {
                self.changes.insert(call, Arc::new(Resolution::clone(resolution)));
            }
        } else if let Event::Tool(tool) = &event.event {
            self.run(event.seq, of, tool);
        } else if let Event::Permission(Permission::Asked { permission, patterns, .. }) =
            &event.event
        {
            if permission == PERMISSION {
                let inquiry = self.next(of, patterns);
                if inquiry.in_run() {
                    self.open.insert(of, event.seq);
                }
                self.asked.insert(event.seq, inquiry);
            } else if self.changes.contains_key(&of) {
                self.about.insert(event.seq, of);
            }
        }
    }

    /// What a call asks while it runs.
    fn run(&mut self, seq: Seq, of: Seq, tool: &Tool) {
        match tool {
            Tool::Started { .. } => {
                self.changes.remove(&of);
                self.runs.insert(seq, of);
            }
            Tool::Inquired { inquiry, from, message, wanted } => {
                let call = self.runs.get(&of).copied().unwrap_or_default();
                let fields = form::fields(message, wanted).unwrap_or_default().into_iter();
                let asked = fields.map(|field| (Question::of_field(*inquiry, from, field), false));
                self.calls.entry(call).or_default().extend(asked);
            }
            Tool::Replied { inquiry, .. } => {
                self.open.remove(&of);
                if let Some(asked) = self.calls.get_mut(&of) {
                    asked.retain(|(asked, _)| asked.run != Some(*inquiry));
                }
            }
            Tool::Checked { .. }
            | Tool::Resolved(_)
            | Tool::Progressed { .. }
            | Tool::Finished(_)
            | Tool::Lost { .. }
            | Tool::Cancelled { .. }
            | Tool::Batched { .. } => {}
        }
    }

    /// The question of a running call that the end of the call closes, if `event` is one.
    pub fn closed_by(&self, event: &Envelope) -> Option<Seq> {
        let of = event.of?;
        let call = match &event.event {
            Event::Tool(Tool::Finished(_)) => self.runs.get(&of)?,
            Event::Tool(Tool::Lost { .. } | Tool::Cancelled { .. }) => &of,
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Plugin(_) => return None,
        };
        self.open.get(call).copied()
    }

    /// The call that `permission.asked` at `of` is about, if it would change files.
    pub fn change(&self, of: Seq) -> Option<Arc<Resolution>> {
        self.changes.get(self.about.get(&of)?).cloned()
    }

    /// What `permission.asked` at `of` asks of a person, if it is a question of that kind.
    pub fn asked(&self, of: Seq) -> Option<&Question> {
        self.asked.get(&of)
    }

    /// What is asked as the first of `texts`; the others are what was wrong with the last answer.
    fn next(&mut self, call: Seq, texts: &[String]) -> Question {
        let (text, wrong) = texts.split_first().map_or(("", texts), |(text, wrong)| (text, wrong));
        let known = self.calls.entry(call).or_default();
        let same = |asked: bool| {
            move |(inquiry, already): &(Question, bool)| {
                inquiry.question == text && asked == *already
            }
        };
        let place = known.iter().position(same(false));
        let place = place.filter(|_| wrong.is_empty());
        let mut inquiry = match place.or_else(|| known.iter().rposition(same(true))) {
            Some(place) => {
                known[place].1 = true;
                known[place].0.clone()
            }
            None => Question::bare(text),
        };
        for wrong in wrong {
            inquiry.question.push_str(&format!("\n{wrong}"));
        }
        inquiry
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{Access, Answer, Class, Resolution, Wanted};
    use leftfold_events::{Json, SessionId, Time};
    use serde_json::{Value, json};

    use super::*;

    fn at(seq: Seq, of: Seq, event: impl Into<Event>) -> Envelope {
        Envelope {
            session: SessionId::default(),
            seq,
            at: Time::default(),
            of: Some(of),
            until: None,
            event: event.into(),
        }
    }

    fn asked(permission: &str, text: &str) -> Permission {
        Permission::Asked {
            call: "c".to_owned(),
            permission: permission.to_owned(),
            patterns: vec![text.to_owned()],
            always: Vec::new(),
        }
    }

    fn resolved(input: &Value) -> Tool {
        Tool::Resolved(Box::new(Resolution {
            name: "question".to_owned(),
            input: Json::from_value(input),
            class: Class::Ask,
            access: vec![Access {
                permission: PERMISSION.to_owned(),
                patterns: Vec::new(),
                always: Vec::new(),
            }],
            paths: Vec::new(),
            timeout: 1000,
            error: None,
        }))
    }

    fn colours(multiple: bool) -> Question {
        let option = |label: &str| Choice { label: label.to_owned(), ..Choice::default() };
        let options = ["red", "blue", "green"].map(option).to_vec();
        Question { options, multiple, ..Question::bare("Which?") }
    }

    #[test]
    fn every_question_of_a_call_is_found_by_what_asks_it() {
        let input = json!({ "questions": [
            { "question": "Which?", "header": "Colour", "multiple": true,
              "options": [{ "label": "red", "description": "like fire" }] },
            { "question": "Sure?", "multiple": null },
            { "question": "Sure?", "header": "Again" },
        ] });
        let questions = OpenQuestions::of(&[
            at(2, 1, Tool::Checked { call: "c".to_owned() }),
            at(3, 2, resolved(&input)),
            at(4, 1, asked("question", "Which?")),
            at(5, 1, asked("question", "Sure?")),
            at(6, 1, asked("question", "Sure?")),
            at(7, 9, asked("question", "Of an unknown call?")),
            at(8, 1, asked("bash", "ls")),
        ]);
        let first = questions.asked(4).unwrap();
        assert_eq!(first.titled(), "[Colour] Which?");
        assert_eq!(first.numbered().collect::<Vec<_>>(), ["1. red – like fire"]);
        assert!(first.multiple);
        assert_eq!(questions.asked(5), Some(&Question::bare("Sure?")));
        assert_eq!(questions.asked(6).unwrap().header, "Again");
        assert_eq!(questions.asked(7), Some(&Question::bare("Of an unknown call?")));
        assert_eq!(questions.asked(8), None);
    }

    #[test]
    fn what_a_running_call_asks_goes_with_its_end() {
        let started = Tool::Started {
            call: "c".to_owned(),
            name: "m_ask".to_owned(),
            class: Class::Command,
            attempt: 1,
        };
        let schema = json!({ "properties": { "side": { "enum": ["l", "r"] } } });
        let wanted = Wanted::Form { schema: Json::from_value(&schema) };
        let (from, message) = ("m".to_owned(), "Which?".to_owned());
        let inquired = Tool::Inquired { inquiry: 1, from, message, wanted };
        let mut again = asked("question", "Which?\nside");
        if let Permission::Asked { patterns, .. } = &mut again {
            patterns.push("no such side".to_owned());
        }
        let log = [
            at(2, 1, started),
            at(3, 2, inquired),
            at(4, 1, asked("question", "Which?\nside")),
            at(5, 1, again),
        ];
        let questions = OpenQuestions::of(&log);
        let (first, second) = (questions.asked(4).unwrap(), questions.asked(5).unwrap());
        assert_eq!(first.titled(), "[m] Which?\nside");
        assert_eq!(second.titled(), "[m] Which?\nside\nno such side");
        let labels: Vec<&str> = first.options.iter().map(|o| o.label.as_str()).collect();
        assert_eq!(labels, ["l", "r", form::LEFT_OUT]);
        assert!(first.in_run() && second.options == first.options);
        let cancelled = Tool::Cancelled { call: "c".to_owned(), attempt: 1 };
        assert_eq!(questions.closed_by(&at(6, 1, cancelled)), Some(5));
        let reply = (Answer::Once, None, "me".to_owned());
        let (reply, feedback, by) = reply;
        let answered = at(6, 5, Permission::Answered { reply, feedback, by });
        let questions = OpenQuestions::of(log.iter().chain([&answered]));
        let lost = Tool::Lost { call: "c".to_owned(), attempt: 1 };
        assert_eq!(questions.closed_by(&at(7, 1, lost)), None);
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
