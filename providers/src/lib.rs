//! Language models: the neutral request out, one stream vocabulary in.
//!
//! One folder per wire format ([`Wire`]) builds the body from a neutral [`Request`] and decodes
//! the answer; what all of them share stands beside it: server-sent events, the HTTP exchange,
//! the classification of failures, the [`catalog`] of models. [`scripted`] plays a script instead
//! of asking a model.
//!
//! Invariant: nothing here knows of sessions or of what tools mean, nothing is retried here, and
//! every stream ends in exactly one [`StreamEvent::Finish`] or [`StreamEvent::Failed`].

mod anthropic;
pub mod catalog;
pub mod check;
mod config;
mod endpoint;
mod errors;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod gemini;
mod http;
mod ids;
mod openai_chat;
mod openai_responses;
pub mod scripted;
mod shape;
pub mod sse;
mod stream;
#[cfg(test)]
mod testing;
pub mod variants;

use std::sync::Arc;

pub use config::{Config, DEFAULT_STALL, Error, ScriptSource, Wire};
pub use errors::{Failure, LONGEST_WAIT_MS};
pub use http::warm;
pub use leftfold_events::Request;
pub use stream::{Extra, Provider, StreamEvent};

/// Makes a provider from its settings. A scripted provider reads its script here; no other I/O
/// is done before the first request.
///
/// # Errors
/// What is wrong with the settings and what would be right: see [`Error`].
pub fn build(config: Config) -> Result<Arc<dyn Provider>, Error> {
    match config.wire {
        Wire::Anthropic => Ok(Arc::new(anthropic::Anthropic::new(config)?)),
        Wire::OpenaiChat => Ok(Arc::new(openai_chat::OpenaiChat::new(config)?)),
        Wire::OpenaiResponses => Ok(Arc::new(openai_responses::OpenaiResponses::new(config)?)),
        Wire::Gemini => Ok(Arc::new(gemini::Gemini::new(config)?)),
        Wire::Scripted => Ok(Arc::new(scripted::Scripted::new(config)?)),
    }
}

/// What the body of an answer says that is at hand, given in the pieces in which it came. Like the
/// stream of a request to the provider of `config`, but for its [`StreamEvent::Start`].
pub fn decode<'a>(config: &Config, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamEvent> {
    match config.wire {
        Wire::Anthropic => exchange::decode(anthropic::decoder(&config.name), pieces),
        Wire::OpenaiChat => exchange::decode(openai_chat::decoder(config), pieces),
        Wire::OpenaiResponses => exchange::decode(openai_responses::decoder(&config.name), pieces),
        Wire::Gemini => exchange::decode(gemini::decoder(&config.name), pieces),
        Wire::Scripted => Vec::new(),
    }
}

/// Whose quirks and models to expect of a provider: as settings say, or as address and name
/// suggest. `generic` is nobody who is known.
pub fn vendor(config: &Config) -> &'static str {
    match config.wire {
        Wire::Anthropic => "anthropic",
        Wire::Gemini => "google",
        Wire::OpenaiChat | Wire::OpenaiResponses => openai_chat::quirks::of(config).names[0],
        Wire::Scripted => "scripted",
    }
}

/// The base URL that the value of a vendor's variable means (`ANTHROPIC_BASE_URL`, say). Some
/// vendors' own clients take it without the version that settings' `baseURL` has.
pub fn base_from_env(wire: Wire, value: &str) -> String {
    match wire {
        Wire::Anthropic => anthropic::base_from_env(value),
        Wire::Gemini => gemini::base_from_env(value),
        Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Scripted => value.trim().to_owned(),
    }
}
