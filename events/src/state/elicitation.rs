//! Questions of a running call to people, one field at a time.

use serde::Serialize;
use serde_json::Value;

use super::Wait;
use crate::event::{Access, Answer, Consent, Wanted};
use crate::form::{self, Field};
use crate::verdict::QUESTION;

/// One request of a running tool for an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Elicitation {
    /// Its number within the call.
    pub id: u32,
    pub from: String,
    pub message: String,
    pub wanted: Wanted,
    /// The number of answered fields.
    answered: usize,
    pub(crate) values: Vec<(String, Value)>,
    /// The problem with the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
    /// The wait for an answer to the next field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// The time that the call had left when the question was asked, in milliseconds.
    pub(super) left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Consent>,
}

impl Elicitation {
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

    /// The next field, if there is one.
    fn field(&self) -> Option<Field> {
        form::fields(&self.message, &self.wanted).ok()?.into_iter().nth(self.answered)
    }

    /// The question for the next field, or for the permission.
    pub(crate) fn access(&self) -> Option<Access> {
        if let Some(access) = self.permission() {
            return Some(access).filter(|_| self.answered == 0);
        }
        let field = self.field()?;
        let text = [Some(field.question.clone()), self.wrong.clone()];
        Some(Access {
            permission: QUESTION.to_owned(),
            patterns: text.into_iter().flatten().collect(),
            always: Vec::new(),
        })
    }

    /// Whether it cannot be asked. Only tools of Leftfold ask questions as permissions.
    pub(crate) fn is_impossible(&self) -> bool {
        match &self.wanted {
            Wanted::Permission { permission, patterns, .. } => {
                permission == QUESTION || patterns.is_empty()
            }
            Wanted::Form { .. } | Wanted::Visit { .. } => {
                form::fields(&self.message, &self.wanted).is_err()
            }
        }
    }

    /// The permission that the tool asks for.
    pub(super) fn permission(&self) -> Option<Access> {
        let Wanted::Permission { permission, patterns, always } = &self.wanted else { return None };
        let (permission, patterns) = (permission.clone(), patterns.clone());
        Some(Access { permission, patterns, always: always.clone() })
    }

    pub(super) fn hear(&mut self, reply: Answer, words: Option<&str>) {
        self.wait = None;
        if reply == Answer::Reject {
            self.end = Some(Consent::Declined);
            return;
        }
        if let Wanted::Permission { .. } = self.wanted {
            self.answered = 1;
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
