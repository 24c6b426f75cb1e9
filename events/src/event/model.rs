use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::payload::Sha256;

events! {
    /// Requests to a language model, and their outcomes.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Model {
        intent Requested {
            model: ModelRef,
            /// The number of the request among those of the turn that advanced it, from 1.
            step: u32,
            /// The number of the attempt at this step, from 1.
            attempt: u32,
            purpose: Purpose,
            /// Hash of the neutral request's canonical JSON.
            request_sha256: Sha256,
        },
        /// Coalesced pieces of the reply. Each is appended to the part with its id.
        fact Streamed { parts: Vec<StreamedPart> } texts [parts],
        fact Finished {
            finish: Finish,
            usage: Usage,
            cost: Cost,
            /// Hash of the body's bytes as sent over the wire.
            body_sha256: Sha256,
        },
        fact Failed {
            class: FailureClass,
            message: String,
            /// The HTTP status, if there was one.
            status: Option<u16>,
            retryable: bool,
            /// The wait that the server asked for, in milliseconds.
            retry_after: Option<u64>,
        } texts [message],
        /// The request is repeated at `until`; `attempt` is the attempt that failed.
        intent RetryScheduled { attempt: u32, error: String } texts [error],
    }
}

/// A model's name in settings and for users: `provider/id`.
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
    /// The summary of the session, for lists.
    SessionSummary,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedPart {
    pub id: String,
    pub kind: PartKind,
    pub text: String,
    /// Set on the last piece of a reasoning part. It must be sent back unchanged.
    #[serde(default)]
    pub signature: Option<String>,
    /// The provider withheld this reasoning; `signature` contains it in sealed form.
    #[serde(default)]
    pub redacted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Text,
    Reasoning,
}

/// A tool call as the model wrote it. If the input was not JSON, `input` is a JSON string with the
/// raw text.
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
    /// The provider paused its own work, such as a search that it runs itself.
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
    /// The provider reached its output limit before it had a reply that it could send.
    OutputLength,
    /// The provider refused an image.
    Image,
}

impl Finish {
    /// Whether the reply ended before the model had written all of it, or may have.
    pub fn is_cut_off(self) -> bool {
        match self {
            Self::Length | Self::ContentFilter | Self::Error | Self::Other => true,
            Self::Stop | Self::ToolCalls | Self::Pause => false,
        }
    }
}

/// Token counts. `input` excludes cache reads and writes; `output` excludes reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub reasoning: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Usage {
    /// All tokens that the exchange used in the model's context.
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
