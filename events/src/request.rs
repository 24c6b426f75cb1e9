//! The neutral request to a model, independent of any provider's wire format.
//!
//! Its canonical JSON is its compact serde form, with fields in the order of declaration. The hash
//! in `model.requested` is over those bytes.

use serde::{Deserialize, Serialize};

use crate::event::{Attachment, ModelRef, PromptPart, Purpose};
use crate::json::Json;
use crate::payload::Sha256;
use crate::turn_config::ToolSpec;

/// A complete request. It ends in a user or tool message. Each call has exactly one result,
/// directly after the message that made the call. No text is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The purpose of the reply. It is not sent to the API.
    #[serde(default)]
    pub purpose: Purpose,
    pub model: ModelRef,
    /// Tokens.
    pub max_output: u64,
    /// The provider's own options.
    pub options: Json,
    /// A key shared by requests that probably have a common prefix, for providers that cache
    /// prompts by such a key.
    #[serde(default)]
    pub cache_key: String,
    pub system: Vec<String>,
    pub tools: Vec<ToolSpec>,
    pub messages: Vec<RequestMessage>,
}

impl Request {
    pub fn sha256(&self) -> Sha256 {
        // serialising these types to memory cannot fail
        Sha256::of(&serde_json::to_vec(self).unwrap_or_default())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum RequestMessage {
    User { parts: Vec<PromptPart> },
    Assistant { parts: Vec<AssistantPart> },
    Tool { results: Vec<ToolResult> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    Text {
        text: String,
    },
    /// To be sent back unchanged, and only to the model that wrote it.
    Reasoning {
        text: String,
        signature: String,
        redacted: bool,
    },
    Call {
        id: String,
        name: String,
        input: Json,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that this result answers.
    pub call: String,
    pub name: String,
    pub output: String,
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
}
