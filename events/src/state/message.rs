use std::collections::BTreeMap;

use serde::Serialize;

use super::call::Call;
use super::words;
use crate::event::{Finish, ModelRef, PromptKind, PromptPart, Usage, join_commands};
use crate::id::Seq;

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    User(Prompt),
    Assistant(Reply),
    /// Stands for everything before it.
    Summary {
        text: String,
        /// Nothing else was left to be said: the model is told to go on (SPEC C4).
        goes_on: bool,
        /// What the agent is to keep in mind that was said before.
        reminder: Option<String>,
        /// The `compaction.finished` that it is from.
        #[serde(skip)]
        of: Seq,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prompt {
    pub seq: Seq,
    pub parts: Vec<PromptPart>,
    /// What its commands have printed, by the index of the part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<usize, String>,
    /// What the model is told with it that nobody has written here (SPEC L17).
    pub reminder: Option<String>,
}

/// A call that a prompt makes before its model answers: the part that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PromptCall {
    /// The seq of the prompt.
    pub prompt: Seq,
    /// The index of the part.
    pub part: usize,
    /// [`PromptKind::Task`] or [`PromptKind::Command`].
    pub kind: PromptKind,
}

/// What a model answered to one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reply {
    /// The seq of its `model.requested`.
    pub asked: Seq,
    pub model: ModelRef,
    /// Whether the model was told that this is the last step of its turn.
    pub last: bool,
    /// In the order they began.
    pub parts: Vec<ReplyPart>,
    pub end: ReplyEnd,
    pub usage: Usage,
    /// No model has written it: a prompt made its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_prompt: Option<PromptCall>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPart {
    Text { id: String, text: String },
    Reasoning { id: String, text: String, signature: Option<String>, redacted: bool },
    Call(Box<Call>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEnd {
    /// Still streaming.
    Open,
    Whole(Finish),
    /// Broken off; what is left of it is complete.
    Cut,
}

impl Prompt {
    /// Its parts, with the output of commands in their places.
    pub fn filled(&self) -> Vec<PromptPart> {
        join_commands(&self.parts, |part, line| match self.outputs.get(&part) {
            Some(output) => output.clone(),
            None => words::not_run(line),
        })
    }
}

impl Message {
    pub fn reply(&self) -> Option<&Reply> {
        if let Self::Assistant(reply) = self { Some(reply) } else { None }
    }

    pub(super) fn reply_mut(&mut self) -> Option<&mut Reply> {
        if let Self::Assistant(reply) = self { Some(reply) } else { None }
    }

    pub(super) fn prompt_mut(&mut self) -> Option<&mut Prompt> {
        if let Self::User(prompt) = self { Some(prompt) } else { None }
    }

    pub fn prompt(&self) -> Option<&Prompt> {
        if let Self::User(prompt) = self { Some(prompt) } else { None }
    }
}

impl Reply {
    pub(super) fn new(asked: Seq, model: ModelRef, last: bool) -> Self {
        let (parts, usage) = (Vec::new(), Usage::default());
        Self { asked, model, last, parts, end: ReplyEnd::Open, usage, by_prompt: None }
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(&**call),
            ReplyPart::Text { .. } | ReplyPart::Reasoning { .. } => None,
        })
    }

    pub(super) fn calls_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        self.parts.iter_mut().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(&mut **call),
            ReplyPart::Text { .. } | ReplyPart::Reasoning { .. } => None,
        })
    }

    pub fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    /// All its text, blocks joined with nothing between them, as providers mean them.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                ReplyPart::Text { text, .. } => text.as_str(),
                ReplyPart::Reasoning { .. } | ReplyPart::Call(_) => "",
            })
            .collect()
    }
}
