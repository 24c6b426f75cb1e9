//! The differences of the models behind the one API, by the vendor in the model's id.

#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::BedrockModel;

use crate::ids::IdForm;
use crate::regions::own_id;
use crate::vendors::{self, Thinking};

/// The longest id of a call, in characters.
const LONGEST_ID: usize = 64;

/// Claudes that have no cache for prompts.
const WITHOUT_CACHE: [&str; 6] = [
    "claude-instant", "claude-v2", "claude-3-haiku", "claude-3-sonnet", "claude-3-opus",
    "claude-3-5-sonnet-20240620",
];

/// Whose model it is, as far as requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Claude,
    Nova,
    Mistral,
    OpenAi,
    Other,
}

impl Family {
    pub(super) fn for_model(model: &str) -> Self {
        let id = own_id(model);
        if id.contains("claude") {
            Self::Claude
        } else if id.starts_with("amazon.nova") {
            Self::Nova
        } else if id.starts_with("mistral.") {
            Self::Mistral
        } else if id.starts_with("openai.") {
            Self::OpenAi
        } else {
            Self::Other
        }
    }

    pub(super) fn ids(self) -> IdForm {
        if self == Self::Mistral { IdForm::Nine } else { IdForm::Plain(LONGEST_ID) }
    }

    /// Whether results say that they are errors, and contain files.
    pub(super) fn has_rich_results(self) -> bool {
        matches!(self, Self::Claude | Self::Nova)
    }

    /// Whether an answer must stand between tool results and the next user message.
    pub(super) fn needs_answer_after_results(self) -> bool {
        self == Self::Mistral
    }
}

/// Whether parts of a prompt for this model can be kept in a cache. The API refuses marks for others.
pub(super) fn caches(model: &str) -> bool {
    match Family::for_model(model) {
        Family::Claude => !WITHOUT_CACHE.iter().any(|name| model.contains(name)),
        Family::Nova => true,
        Family::Mistral | Family::OpenAi | Family::Other => false,
    }
}

#[cfg(any(debug_assertions, test))]
pub(super) fn rules(model: &str) -> BedrockModel {
    let family = Family::for_model(model);
    BedrockModel {
        caches: caches(model),
        has_rich_results: family.has_rich_results(),
        has_nine_characters: family == Family::Mistral,
    }
}

/// Whether the model thinks between calls only if it is asked to. Others refuse the request.
pub(super) fn interleaves_on_request(model: &str) -> bool {
    let id = own_id(model);
    let is_of_fourth = id.contains("claude-opus-4") || id.contains("claude-sonnet-4");
    let known = vendors::bedrock_model(id);
    is_of_fourth && known.is_some_and(|model| model.thinking == Thinking::Budget)
}

/// Whether the model accepts sampling options.
pub(super) fn takes_sampling(model: &str) -> bool {
    match vendors::claude_of_bedrock(model) {
        Some(name) => vendors::takes_sampling(name),
        None => true,
    }
}
