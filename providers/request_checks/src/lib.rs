//! Checks whether an API would accept the body of a request.
//!
//! The rules come from the vendors' public API references: each call has one result in its place, roles alternate where the
//! API requires it, no blocks are empty, ids have the required form, signatures are where they belong. Parameters from
//! settings are not checked, since vendors invent new ones.
//!
//! A body with a fault is a bug in Leftfold. Tests look for faults, and debug builds refuse to send such a body. Release
//! builds do not use this crate. It knows nothing of how bodies are made.

mod anthropic;
mod bedrock;
mod body_value;
mod gemini;
mod openai_chat;
mod openai_responses;
mod tools;

use std::fmt;

use serde_json::Value;

use crate::body_value::{
    BodyValue, Faults, MemberType, Members, is_blank, is_plain, need, range, shape,
};

/// The API that a body is for, with the differences of its vendor and its model.
#[derive(Clone, Copy, Debug)]
pub enum Api {
    Anthropic {
        /// The version that the body names, at vendors where the address names the model.
        version: Option<&'static str>,
    },
    OpenAiChat(Compatible),
    OpenAiResponses(Compatible),
    Gemini {
        /// Whether the first call of each step needs a signature.
        signs_calls: bool,
    },
    Bedrock(BedrockModel),
}

/// A vendor with an API of OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Compatible {
    /// Whether it is OpenAI itself, at one of its own addresses or at Azure.
    pub is_openai: bool,
    /// Whether messages may contain reasoning.
    pub takes_reasoning: bool,
    pub ids: CallIds,
    /// Whether cache marks are members of messages.
    pub marks_messages: bool,
    /// Whether roles alternate.
    pub alternates: bool,
    /// Whether an answer must stand between tool results and the next user message.
    pub needs_answer_after_results: bool,
    /// Whether answers with calls must contain their reasoning.
    pub returns_reasoning: bool,
    /// Whether user messages accept images.
    pub images: bool,
    /// Whether user messages accept PDF files.
    pub files: bool,
}

/// The required form of call ids.
#[derive(Clone, Copy, Debug)]
pub enum CallIds {
    /// 1 to 40 characters.
    Short,
    /// 1 to this many characters of `[A-Za-z0-9_-]`.
    Plain(usize),
    /// Nine letters and digits.
    Nine,
}

/// A model at Bedrock.
#[derive(Clone, Copy, Debug)]
pub struct BedrockModel {
    /// Whether it accepts cache marks.
    pub caches: bool,
    /// Whether results may contain files and say that they are errors.
    pub has_rich_results: bool,
    /// Whether call ids have exactly nine letters and digits.
    pub has_nine_characters: bool,
}

/// Returns each rule that `body` breaks.
pub fn faults(api: &Api, body: &Value) -> Vec<Fault> {
    let mut faults = Faults::default();
    let body = BodyValue::root(body);
    if !body.value.is_object() {
        faults.add("shape", &body, "the body is not a JSON object");
        return faults.into_vec();
    }
    match api {
        Api::Anthropic { version } => anthropic::check(*version, &body, &mut faults),
        Api::OpenAiChat(vendor) => openai_chat::check(&body, vendor, &mut faults),
        Api::OpenAiResponses(vendor) => openai_responses::check(&body, vendor, &mut faults),
        Api::Gemini { signs_calls } => gemini::check(&body, *signs_calls, &mut faults),
        Api::Bedrock(model) => bedrock::check(&body, *model, &mut faults),
    }
    faults.into_vec()
}

/// A rule that a body breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule's name.
    pub rule: &'static str,
    /// Path in the body, such as `messages[2].content[0]`.
    pub at: String,
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at `{}`: {}", self.rule, self.at, self.problem)
    }
}
