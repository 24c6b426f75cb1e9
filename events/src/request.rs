//! The neutral request to a model, independent of any provider's wire format. `request_builder/` builds it.
//!
//! Its canonical JSON is its compact serde form, with fields in the order of declaration. The hash
//! in `model.requested` is over those bytes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Attachment, ModelRef, PromptPart, Purpose};
use crate::json::{Json, shared_text};
pub use crate::memo::Memo;
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
    /// For the provider: what it keeps of this body for the next request of the session. It is no part of the request.
    #[serde(skip)]
    pub encoded: Memo,
}

impl Request {
    /// Whether both are equal but for their messages.
    pub fn has_head_of(&self, other: &Self) -> bool {
        let Self {
            purpose,
            model,
            max_output,
            options,
            cache_key,
            system,
            tools,
            messages: _,
            encoded: _,
        } = self;
        (*purpose, *max_output) == (other.purpose, other.max_output)
            && *model == other.model
            && *options == other.options
            && *cache_key == other.cache_key
            && *system == other.system
            && *tools == other.tools
    }

    pub fn sha256(&self) -> Sha256 {
        // serialising these types to memory cannot fail
        Sha256::digest(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// Clones share their content: a request has most of its messages in common with the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum RequestMessage {
    User { parts: Arc<[PromptPart]> },
    Assistant { parts: Arc<[AssistantPart]> },
    Tool { results: Arc<[ToolResult]> },
}

impl RequestMessage {
    /// Whether both are clones of one message. Equal messages need not be.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User { parts }, Self::User { parts: other }) => Arc::ptr_eq(parts, other),
            (Self::Assistant { parts }, Self::Assistant { parts: other }) => {
                Arc::ptr_eq(parts, other)
            }
            (Self::Tool { results }, Self::Tool { results: other }) => Arc::ptr_eq(results, other),
            (Self::User { .. } | Self::Assistant { .. } | Self::Tool { .. }, _) => false,
        }
    }
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
    #[serde(deserialize_with = "shared_text")]
    pub output: Arc<str>,
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
}
