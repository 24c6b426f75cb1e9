use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::payload::Sha256;

/// Requests to a language model and what came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    Requested {
        model: ModelRef,
        /// Counts requests of the turn that moved it on, from 1.
        step: u32,
        /// Counts attempts at this step, from 1.
        attempt: u32,
        purpose: Purpose,
        /// Over the canonical JSON of the neutral request.
        request_sha256: Sha256,
    },
    /// Coalesced pieces of the reply, each to be appended to the part of its id.
    Streamed { parts: Vec<StreamedPart> },
    Finished {
        finish: Finish,
        usage: Usage,
        cost: Cost,
        /// Over the bytes of the body that went over the wire.
        body_sha256: Sha256,
    },
    Failed {
        class: FailureClass,
        message: String,
        /// The HTTP status, where there was one.
        status: Option<u16>,
        retryable: bool,
        /// How long the server asked to wait, in milliseconds.
        retry_after: Option<u64>,
    },
    /// The request is made again when `until` has come; `attempt` is the one that failed.
    RetryScheduled { attempt: u32, error: String },
}

/// A model as settings and users name it: `provider/id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ModelRef {
    pub provider: String,
    pub id: String,
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    #[default]
    Turn,
    Title,
    Compaction,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPart {
    pub id: String,
    pub kind: PartKind,
    pub text: String,
    /// Comes with the last piece of a reasoning part, to be sent back unchanged.
    #[serde(default)]
    pub signature: Option<String>,
    /// The provider withheld this reasoning; `signature` holds it whole, sealed.
    #[serde(default)]
    pub redacted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Text,
    Reasoning,
}

/// A tool call as the model wrote it. `input` is a JSON string holding the raw text where that
/// was not JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSpec {
    pub id: String,
    pub name: String,
    pub input: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
    /// The provider stopped in the middle of work of its own, such as a search it runs itself.
    Pause,
    Error,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    Overflow,
    RateLimit,
    Overloaded,
    Auth,
    Quota,
    Network,
    Stalled,
    Invalid,
    Aborted,
    Other,
}

/// Tokens. `input` counts neither cache reads nor writes, `output` no reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub reasoning: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Usage {
    /// All tokens that the exchange took up in the model's context.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.reasoning, self.cache_read, self.cache_write]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// US dollars.
pub type Cost = f64;
