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
    /// Replaces everything before it.
    Summary {
        text: String,
        /// Whether the model is told to continue, because no other message follows.
        goes_on: bool,
        /// The agent's reminder from the summarised messages.
        reminder: Option<String>,
        /// The `compaction.finished` that it comes from.
        #[serde(skip)]
        of: Seq,
    },
    /// A text for the model that nobody prompted.
    Note {
        text: String,
        /// The event that it comes from: a `turn.continued`, or the one that interrupted a reply.
        of: Seq,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prompt {
    pub seq: Seq,
    pub parts: Vec<PromptPart>,
    /// The output of its commands, by the index of the part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<usize, String>,
    /// The text for the model that was added to the prompt and that the user did not write.
    pub reminder: Option<String>,
    /// Whether it asks for no answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
}

/// A call that a prompt makes before its model answers: the part that requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PromptCall {
    /// The seq of the prompt.
    pub prompt: Seq,
    /// The index of the part.
    pub part: usize,
    /// [`PromptKind::Task`] or [`PromptKind::Command`].
    pub kind: PromptKind,
}

/// A model's answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reply {
    /// The seq of its `model.requested`.
    pub asked: Seq,
    pub model: ModelRef,
    /// Whether the model was told that this is the last step of its turn.
    pub last: bool,
    /// In the order in which they began.
    pub parts: Vec<ReplyPart>,
    pub end: ReplyEnd,
    pub usage: Usage,
    /// The text of the replies of this turn that it continues.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub continues: String,
    /// Set if a prompt made the call, and no model wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_prompt: Option<PromptCall>,
    /// Set if a person rejected one of its calls with words: nobody is asked about the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<Box<Rejection>>,
}

/// A person's rejection of a call, with words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The seq of the `permission.answered`.
    pub answer: Seq,
    pub feedback: String,
    pub by: String,
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
    /// Broken off; the remaining parts are complete.
    Cut,
    /// Broken off by a person or a limit. It has only text, which was shown, so later requests have
    /// it too.
    Interrupted,
}

impl Prompt {
    /// Its parts, with the output of commands in their places.
    pub fn filled(&self) -> Vec<PromptPart> {
        join_commands(&self.parts, |part, line| match self.outputs.get(&part) {
            Some(output) => output.clone(),
            None => words::not_run(line),
        })
    }

    /// With text in the place of files, and long text cut off.
    pub(super) fn without_files(mut self) -> Self {
        for part in &mut self.parts {
            let is_file = part.kind == PromptKind::Media
                || part.kind == PromptKind::Text && part.name.is_some();
            if is_file {
                *part = words::media_part(part);
            } else if part.kind == PromptKind::Text {
                part.text = words::cut_prompt(&part.text);
            }
        }
        self
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

    /// The number of its images.
    pub(crate) fn images(&self) -> usize {
        match self {
            Self::User(prompt) => prompt.parts.iter().filter(|part| is_image(part)).count(),
            Self::Assistant(reply) => reply.calls().flat_map(Call::images).count(),
            Self::Summary { .. } | Self::Note { .. } => 0,
        }
    }

    /// Replaces its images by text.
    pub(super) fn drop_images(&mut self) {
        match self {
            Self::User(prompt) => {
                for part in prompt.parts.iter_mut().filter(|part| is_image(part)) {
                    *part = words::media_part(part);
                }
            }
            Self::Assistant(reply) => reply.calls_mut().for_each(Call::drop_images),
            Self::Summary { .. } | Self::Note { .. } => {}
        }
    }
}

fn is_image(part: &PromptPart) -> bool {
    part.kind == PromptKind::Media
        && part.mime.as_ref().is_some_and(|mime| mime.starts_with("image/"))
}

impl Reply {
    pub(super) fn new(asked: Seq, model: ModelRef, last: bool) -> Self {
        let (parts, usage) = (Vec::new(), Usage::default());
        Self {
            asked,
            model,
            last,
            parts,
            end: ReplyEnd::Open,
            usage,
            continues: String::new(),
            by_prompt: None,
            rejection: None,
        }
    }

    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> {
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

    /// Whether it has reasoning and nothing else.
    pub fn is_reasoning_alone(&self) -> bool {
        let reasons = |part: &ReplyPart| matches!(part, ReplyPart::Reasoning { .. });
        self.parts.iter().any(reasons) && !self.has_calls() && self.text().trim().is_empty()
    }

    /// All its text. Blocks are joined without a separator, as providers intend.
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
