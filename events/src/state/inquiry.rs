//! What a running call asks people, one field after the other. While they think, its own time stands still.

use serde::Serialize;
use serde_json::Value;

use super::call::{Call, Phase};
use super::open::Wait;
use super::{State, verdict};
use crate::event::{Access, Answer, Consent, Envelope, Tool, Wanted};
use crate::form::{self, Field};
use crate::id::Seq;
use crate::rules::Action;
use crate::time::Time;

/// One thing that a running tool wants to know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inquiry {
    /// Its number within the call.
    pub id: u32,
    pub from: String,
    pub message: String,
    pub wanted: Wanted,
    /// Fields that are answered.
    answered: usize,
    values: Vec<(String, Value)>,
    /// What was wrong with the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
    /// For an answer to the next field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Milliseconds that the call had left when it was asked.
    left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Consent>,
}

/// How it goes on with an inquiry.
#[derive(Debug)]
pub(crate) enum Inquired {
    Waiting,
    /// A person is to be asked this.
    Due(Access),
    Over(Tool),
}

impl Inquiry {
    pub(super) fn new(id: u32, from: &str, message: &str, wanted: &Wanted) -> Self {
        Self {
            id,
            from: from.to_owned(),
            message: message.to_owned(),
            wanted: wanted.clone(),
            answered: 0,
            values: Vec::new(),
            wrong: None,
            wait: None,
            left: 0,
            end: None,
        }
    }

    /// The field that is next, if there is one.
    fn field(&self) -> Option<Field> {
        form::fields(&self.message, &self.wanted).ok()?.into_iter().nth(self.answered)
    }

    /// The field that is next, and the question for it.
    fn access(&self) -> Option<(Field, Access)> {
        let field = self.field()?;
        let text = [Some(field.question.clone()), self.wrong.clone()];
        let access = Access {
            permission: verdict::QUESTION.to_owned(),
            patterns: text.into_iter().flatten().collect(),
            always: Vec::new(),
        };
        Some((field, access))
    }

    fn hear(&mut self, reply: Answer, words: Option<&str>) {
        self.wait = None;
        if reply == Answer::Reject {
            self.end = Some(Consent::Declined);
            return;
        }
        let Some(field) = self.field() else { return };
        match field.understood(words.unwrap_or_default()) {
            Ok(value) => {
                self.values.extend(value.map(|value| (field.name, value)));
                self.answered += 1;
                self.wrong = None;
            }
            Err(expected) => self.wrong = Some(expected),
        }
    }
}

impl Call {
    /// The question that its run waits for.
    pub fn inquiring(&self) -> Option<Wait> {
        self.inquiries.first().filter(|_| self.is_running())?.wait
    }

    /// The same, and what it asks.
    pub(super) fn inquires(&self) -> Option<(Seq, Access)> {
        let wait = self.inquiring()?;
        Some((wait.intent, self.inquiries.first()?.access()?.1))
    }

    /// Takes up a question that is one of its run.
    pub(super) fn asks(&mut self, asked: &Envelope) -> bool {
        let Phase::Running { wait, .. } = &mut self.phase else { return false };
        let Some(inquiry) = self.inquiries.first_mut() else { return false };
        let question = Wait::of(asked);
        inquiry.left = wait.until.since(asked.at);
        inquiry.wait = Some(question);
        wait.until = question.until.plus(inquiry.left);
        true
    }

    /// A person has said something to it.
    pub(super) fn told(&mut self, at: Time, reply: Answer, words: Option<&str>) {
        self.go_on(at, |inquiry| inquiry.hear(reply, words));
    }

    /// Nobody has.
    pub(super) fn unheard(&mut self, at: Time) {
        self.go_on(at, |inquiry| {
            inquiry.wait = None;
            inquiry.end = Some(Consent::Cancelled);
        });
    }

    fn go_on(&mut self, at: Time, heard: impl FnOnce(&mut Inquiry)) {
        let Phase::Running { wait, .. } = &mut self.phase else { return };
        if let Some(inquiry) = self.inquiries.first_mut() {
            wait.until = at.plus(inquiry.left);
            heard(inquiry);
        }
    }
}

impl State {
    /// The call whose run waits for an answer to the question `of`.
    pub(super) fn inquiring_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        if self.turn.as_ref().is_none_or(|turn| turn.stop.is_some()) {
            return None;
        }
        let asks = |call: &&mut Call| call.inquiring().is_some_and(|wait| Some(wait.intent) == of);
        self.last_reply_mut()?.calls_mut().find(asks)
    }

    /// How the first inquiry of a running call goes on.
    pub(crate) fn inquired(&self, c: &Call) -> Option<Inquired> {
        let inquiry = c.inquiries.first()?;
        let over = |consent, values: &[_]| {
            let (call, content) = (c.id.clone(), form::content(values));
            Some(Inquired::Over(Tool::Replied { call, inquiry: inquiry.id, consent, content }))
        };
        if inquiry.wait.is_some() {
            return Some(Inquired::Waiting);
        }
        if let Some(consent) = inquiry.end {
            return over(consent, &[]);
        }
        if form::fields(&inquiry.message, &inquiry.wanted).is_err() {
            return over(Consent::Cancelled, &[]);
        }
        let Some((_, access)) = inquiry.access() else {
            return over(Consent::Accepted, &inquiry.values);
        };
        match verdict::access(self, &access).0 {
            Action::Deny => over(Consent::Declined, &[]),
            Action::Allow | Action::Ask => Some(Inquired::Due(access)),
        }
    }
}
