//! What the `question` tool asks, as those who answer it see it: the log has the questions in the
//! call's arguments, and asks them one by one as the permission `question`.

use std::collections::HashMap;
use std::sync::Arc;

use leftfold_actors::Reply;
use leftfold_events::event::{Answer, Event, Permission, Resolution, Tool, Turn};
use leftfold_events::{Envelope, Seq, SessionId, form};
use serde::{Deserialize, Deserializer};

/// The permission that a question is asked as.
const PERMISSION: &str = "question";
/// What a question offers that names no options, where nothing can be typed.
pub(crate) const GO_ON: &str = "Go on as you think best";

/// Which question is meant: the session that asks, and its `permission.asked`.
pub(crate) type Asked = (SessionId, Seq);

/// One question to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Inquiry {
    pub(crate) question: String,
    /// A word or two about it; may be empty.
    #[serde(default)]
    pub(crate) header: String,
    /// Answers to choose from; may be empty.
    #[serde(default)]
    pub(crate) options: Vec<Choice>,
    /// Whether more than one of them may be chosen.
    #[serde(default, deserialize_with = "or_false")]
    pub(crate) multiple: bool,
    /// Of one that a call asks while it runs, which of its inquiries it belongs to.
    #[serde(skip)]
    run: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Choice {
    pub(crate) label: String,
    /// May be empty.
    #[serde(default)]
    pub(crate) description: String,
}

#[derive(Deserialize)]
struct Input {
    questions: Vec<Inquiry>,
}

fn or_false<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Inquiry {
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
    pub(crate) fn in_run(&self) -> bool {
        self.run.is_some()
    }

    /// What an answer without a word means: the model is to decide, and a running tool, which takes words
    /// for a value, gets none. `None`: it is a dismissal.
    pub(crate) fn unsaid(&self) -> Option<String> {
        if !self.in_run() {
            return Some(GO_ON.to_owned());
        }
        let leaves_out = self.options.iter().any(|option| option.label == form::LEFT_OUT);
        leaves_out.then(|| form::LEFT_OUT.to_owned())
    }

    /// The question with its header, in front of it.
    pub(crate) fn titled(&self) -> String {
        match self.header.trim() {
            "" => self.question.clone(),
            header => format!("[{header}] {}", self.question),
        }
    }

    /// The options as they are numbered for people, each with what it would mean.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = String> {
        self.options.iter().zip(1..).map(
            |(Choice { label, description }, number)| match description.trim() {
                "" => format!("{number}. {label}"),
                description => format!("{number}. {label} – {description}"),
            },
        )
    }

    /// The answer that consists of the options at these places, which are counted from 0.
    pub(crate) fn chosen(&self, places: &[usize]) -> String {
        let labels = places.iter().filter_map(|place| self.options.get(*place));
        labels.map(|option| option.label.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// What a typed line says: the numbers of options, or an answer in its own words. `None`: it is
    /// empty.
    pub(crate) fn understood(&self, line: &str) -> Option<String> {
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

/// The answer in these words to a question; without any, it is dismissed.
pub(crate) fn reply(answer: Option<String>, by: &str) -> Reply {
    let reply = if answer.is_some() { Answer::Once } else { Answer::Reject };
    Reply { answer: reply, feedback: answer, by: by.to_owned() }
}

/// Follows a session's events, at least from the beginning of a turn.
#[derive(Debug, Default)]
pub(crate) struct Inquiries {
    /// From the intents to resolve calls to the calls.
    checked: HashMap<Seq, Seq>,
    /// Of each call, what it asks, and whether it has asked it already.
    calls: HashMap<Seq, Vec<(Inquiry, bool)>>,
    /// What each `permission.asked` asks.
    asked: HashMap<Seq, Inquiry>,
    /// The calls that would change files and have not begun.
    changes: HashMap<Seq, Arc<Resolution>>,
    /// From each other `permission.asked` to the call.
    about: HashMap<Seq, Seq>,
    /// From the intents that have started calls to the calls.
    runs: HashMap<Seq, Seq>,
    /// Of each running call, the question that it waits for.
    open: HashMap<Seq, Seq>,
}

impl Inquiries {
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut inquiries = Self::default();
        events.into_iter().for_each(|event| inquiries.follow(event));
        inquiries
    }

    pub(crate) fn follow(&mut self, event: &Envelope) {
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
            if leftfold_tools::previews(&resolution.name) {
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
                let asked = fields.map(|field| (Inquiry::of_field(*inquiry, from, field), false));
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
    pub(crate) fn closed_by(&self, event: &Envelope) -> Option<Seq> {
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
    pub(crate) fn change(&self, of: Seq) -> Option<Arc<Resolution>> {
        self.changes.get(self.about.get(&of)?).cloned()
    }

    /// What `permission.asked` at `of` asks of a person, if it is a question of that kind.
    pub(crate) fn asked(&self, of: Seq) -> Option<&Inquiry> {
        self.asked.get(&of)
    }

    /// What is asked as the first of `texts`; the others are what was wrong with the last answer.
    fn next(&mut self, call: Seq, texts: &[String]) -> Inquiry {
        let (text, wrong) = texts.split_first().map_or(("", texts), |(text, wrong)| (text, wrong));
        let known = self.calls.entry(call).or_default();
        let same = |asked: bool| {
            move |(inquiry, already): &(Inquiry, bool)| {
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
            None => Inquiry::bare(text),
        };
        for wrong in wrong {
            inquiry.question.push_str(&format!("\n{wrong}"));
        }
        inquiry
    }
}

#[cfg(test)]
mod tests;
