use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::check::Faulty;

/// How long an answer may stay without a byte unless settings say otherwise.
pub const DEFAULT_STALL: Duration = Duration::from_secs(60);

/// One provider as settings give it.
#[derive(Clone)]
pub struct Config {
    /// The name under which settings and users know it.
    pub name: String,
    pub wire: Wire,
    /// Whose quirks to expect on that wire; `None`: as address and name suggest.
    pub vendor: Option<String>,
    /// The endpoint's path is appended to it; `None`: the vendor's own.
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    /// Sent with every request; they replace headers of the same name.
    pub headers: Vec<(String, String)>,
    /// The longest silence within an answer. It begins with the answer's head: how long a model
    /// may take before that, the caller decides by dropping the stream.
    pub stall: Duration,
    /// What becomes of requests that are not as they should be.
    pub faulty: Faulty,
    /// What a scripted provider plays.
    pub script: Option<ScriptSource>,
}

impl Config {
    /// A provider of which only name and wire are known.
    pub fn new(name: impl Into<String>, wire: Wire) -> Self {
        Self {
            name: name.into(),
            wire,
            vendor: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            stall: DEFAULT_STALL,
            faulty: Faulty::IN_THIS_BUILD,
            script: None,
        }
    }
}

/// Leaves out whatever may be a secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("vendor", &self.vendor)
            .field("has_key", &self.api_key.is_some())
            .field("headers", &names)
            .field("stall", &self.stall)
            .field("faulty", &self.faulty)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// A script for [`scripted`](crate::scripted).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    Path(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and whoever speaks it.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Google's Gemini.
    Gemini,
    /// No wire at all: plays a script.
    Scripted,
}

impl Wire {
    pub const ALL: [Self; 5] =
        [Self::Anthropic, Self::OpenaiChat, Self::OpenaiResponses, Self::Gemini, Self::Scripted];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Scripted => "scripted",
        }
    }

    /// The npm package by which OpenCode's settings name the same format.
    const fn npm(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("@ai-sdk/anthropic"),
            Self::OpenaiChat => Some("@ai-sdk/openai-compatible"),
            Self::OpenaiResponses => Some("@ai-sdk/openai"),
            Self::Gemini => Some("@ai-sdk/google"),
            Self::Scripted => None,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wire {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|wire| wire.name() == text || wire.npm() == Some(text))
            .ok_or_else(|| Error::UnknownWire { wire: text.to_owned() })
    }
}

/// Settings from which no provider can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "`{wire}` is no wire format that this build speaks: expected {}",
        Wire::ALL.map(|wire| format!("`{wire}`")).join(" or ")
    )]
    UnknownWire { wire: String },
    #[error(
        "provider `{provider}` has no API key: run `leftfold auth login {provider}`, or {variable}set `provider.{provider}.options.apiKey` in leftfold.json"
    )]
    /// `variable` is a clause that names one, or empty.
    MissingKey { provider: String, variable: String },
    #[error(
        "`provider.{provider}.options.baseURL` is `{url}`, which can not be used: {reason}; expected something like `https://api.example.com/v1`"
    )]
    BadBaseUrl { provider: String, url: String, reason: String },
    #[error(
        "provider `{provider}` has no address: set `provider.{provider}.options.baseURL` in leftfold.json, for example to `https://api.example.com/v1`"
    )]
    MissingBaseUrl { provider: String },
    #[error(
        "`provider.{provider}.options.apiKey` has characters that no HTTP header can carry: check for line breaks and quotation marks"
    )]
    BadKey { provider: String },
    #[error(
        "`provider.{provider}.options.headers` has a name or value that is no valid HTTP header: `{header}`"
    )]
    BadHeader { provider: String, header: String },
    #[error(
        "provider `{provider}` is scripted but has no script: give `provider.{provider}.options.script` the path of a script or the script itself"
    )]
    MissingScript { provider: String },
    #[error("the script {source_name} can not be read: {reason}")]
    UnreadableScript { source_name: String, reason: String },
    #[error("the script {source_name} is not right: {reason}")]
    BadScript { source_name: String, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wires_are_known_by_both_their_names() {
        assert_eq!("anthropic".parse(), Ok(Wire::Anthropic));
        assert_eq!("@ai-sdk/anthropic".parse(), Ok(Wire::Anthropic));
        assert_eq!("openai-chat".parse(), Ok(Wire::OpenaiChat));
        assert_eq!("@ai-sdk/openai-compatible".parse(), Ok(Wire::OpenaiChat));
        assert_eq!("openai-responses".parse(), Ok(Wire::OpenaiResponses));
        assert_eq!("@ai-sdk/openai".parse(), Ok(Wire::OpenaiResponses));
        assert_eq!("gemini".parse(), Ok(Wire::Gemini));
        assert_eq!("@ai-sdk/google".parse(), Ok(Wire::Gemini));
        assert_eq!("scripted".parse(), Ok(Wire::Scripted));
    }

    #[test]
    fn an_unknown_wire_is_told_what_there_is() {
        let error = "smoke-signals".parse::<Wire>().unwrap_err().to_string();
        assert!(error.contains("`smoke-signals`"), "{error}");
        let known = "`anthropic` or `openai-chat` or `openai-responses` or `gemini` or `scripted`";
        assert!(error.contains(known), "{error}");
    }

    #[test]
    fn debug_output_has_no_secrets() {
        let mut config = Config::new("a", Wire::Anthropic);
        config.api_key = Some("sk-secret".into());
        config.headers = vec![("authorization".into(), "Bearer hidden".into())];
        config.base_url = Some("https://user:pass@host/v1".into());
        let text = format!("{config:?}");
        for secret in ["sk-secret", "hidden", "pass"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
