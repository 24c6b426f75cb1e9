//! Clients for the APIs of language models (LLM providers): neutral requests go out, stream events of one vocabulary
//! come in.
//!
//! The folder of each wire format builds the body from a neutral [`Request`] and decodes the
//! answer; [`WIRES`] is the table of wire formats. `vendors/` has a table of the vendors and their
//! models. The other modules are shared by all wire formats: server-sent events, the HTTP exchange,
//! the classification of failures. [`scripted`] plays a script instead of calling a model.
//!
//! Invariant: nothing here knows sessions or the meaning of tools, nothing is retried here, and
//! every stream ends in exactly one [`StreamEvent::Finish`] or [`StreamEvent::Failed`].
//! Requests go through [`Codec`] alone, so that a log is enough to make their bodies again.
//!
//! # How to add a provider
//!
//! A **sign-in** at a vendor is one entry of the table in `vendors/sign_ins.rs`, and the headers that its API
//! needs are in `vendors/table.rs`.
//!
//! A **vendor with an API like OpenAI's** is one entry of the table in `vendors/table.rs`: its
//! names, its address, and the differences from the vendor that it is based on (`..CLOUD`,
//! `..LOCAL`). With `builtin` it needs no settings but a key, and with `models` (a list in
//! `vendors/models.rs`) limits and prices are known. Settings, key look-up, `leftfold models`,
//! `leftfold auth` and error messages read the table.
//!
//! A **wire format** is a folder and a line:
//!
//! 1. The folder has a struct that implements `Protocol` and `Http` of `config.rs`: its names in
//!    settings, the path, the header of the key, the body of a request, the decoder of its stream,
//!    and what the rules of `request_checks/` depend on. It makes the struct a [`Wire`] in an
//!    `impl Wire` of its own.
//! 2. [`WIRES`] lists that constant, and `mod` declares the folder.
//! 3. If it has a vendor of its own, that is an entry of `vendors/table.rs` as above.
//!
//! Bodies are tested by cases in `tests/`, one folder of JSON files for each wire format.

mod address;
mod anthropic;
mod authorization;
mod aws;
mod bedrock;
mod caps;
pub mod catalog;
mod client;
mod closing;
mod codec;
mod config;
mod encoded;
mod endpoint;
mod errors;
mod exchange;
mod exchanged;
mod gemini;
mod google_cloud;
mod gzip;
mod history;
mod http;
mod ids;
mod openai_chat;
mod openai_responses;
mod options;
mod parts;
mod reading;
mod regions;
pub mod scripted;
mod served;
mod shape;
mod short_lived;
mod spans;
mod stream;
#[cfg(test)]
mod testing;
mod turns;
pub mod variants;
mod vendors;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use leftfold_events::providers::{KnownProviders, KnownSignIn, KnownWire};
use serde_json::Value;

pub use authorization::{Authorization, Authorize, Credentials, Outgoing};
pub use codec::Codec;
use config::Transport;
pub use config::{Config, DEFAULT_STALL, Error, OnFault, ScriptSource, Wire};
pub use errors::{Failure, LONGEST_WAIT_MS};
pub use exchanged::{
    Answer, End, Exchanged, LARGEST_RECORD, read as read_record, write as write_record,
};
pub use http::warm;
pub use leftfold_events::Request;
pub use leftfold_oauth::SignIn;
#[cfg(any(debug_assertions, test))]
pub use leftfold_request_checks::Fault;
pub use served::{AccountModel, account_models, served};
pub use spans::{RequestPlace, Span};
pub use stream::{Extra, Provider, StreamEvent};

/// Every wire format, in the order in which lists show them.
pub const WIRES: [Wire; 6] = [
    Wire::ANTHROPIC,
    Wire::OPENAI_CHAT,
    Wire::OPENAI_RESPONSES,
    Wire::GEMINI,
    Wire::BEDROCK,
    Wire::SCRIPTED,
];

/// Accepts either name of a wire format.
impl FromStr for Wire {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = WIRES.into_iter().find(|wire| wire.name() == text || wire.npm() == Some(text));
        found.ok_or_else(|| Error::UnknownWire {
            wire: text.to_owned(),
            known: WIRES.map(|wire| format!("`{wire}`")).join(" or "),
        })
    }
}

/// The options among `options` that requests to `model` leave out, because they are those of other APIs than the one of
/// `wire`.
pub fn left_out(wire: Wire, model: &str, options: &Value) -> Vec<String> {
    let all = options.as_object().into_iter().flatten();
    let left_out = all.filter(|(name, value)| wire.protocol().leaves_out(model, name, value));
    left_out.map(|(name, _)| name.clone()).collect()
}

/// The tables of wire formats and vendors, for settings.
pub fn known() -> &'static KnownProviders {
    static KNOWN: LazyLock<KnownProviders> = LazyLock::new(|| {
        let wire = |wire: Wire| KnownWire {
            name: wire.name(),
            npm: wire.npm(),
            is_remote: wire.is_remote(),
        };
        let wires = WIRES.map(wire).to_vec();
        let usual_wire = wires.iter().copied().find(|wire| wire.name == vendors::GENERIC.wire);
        let sign_in = |row: &SignIn| KnownSignIn {
            provider: row.provider,
            label: row.label,
            vendor: row.vendor,
        };
        KnownProviders {
            wires,
            builtin: vendors::builtin().copied().collect(),
            usual_wire,
            sign_ins: vendors::SIGN_INS.iter().map(sign_in).collect(),
        }
    });
    &KNOWN
}

/// The ways to sign in instead of storing a key.
pub fn sign_ins() -> &'static [SignIn] {
    vendors::SIGN_INS
}

/// The way to sign in for a provider, if there is one.
pub fn sign_in(provider: &str) -> Option<&'static SignIn> {
    vendors::SIGN_INS.iter().find(|row| row.provider == provider)
}

/// Makes a provider from its settings. A scripted provider reads its script here; no other I/O is
/// done before the first request.
///
/// # Errors
/// Wrong settings, with advice: see [`Error`].
pub fn build(config: Config) -> Result<Arc<dyn Provider>, Error> {
    match config.wire.protocol().transport() {
        Transport::Http(http) => Ok(Arc::new(client::Client::new(config, http)?)),
        Transport::Own(build) => build(config),
    }
}

/// Decodes the body of an answer that is already there, given in the pieces in which it arrived.
/// The events are those of a request to the provider of `config`, without [`StreamEvent::Start`].
pub fn decode<'a>(config: &Config, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamEvent> {
    let protocol = config.wire.protocol();
    let Some(http) = protocol.http() else { return Vec::new() };
    let decoder = http.decoder(&config.name, protocol.vendor(config));
    let mut events = reading::decode(http.framing(), decoder, pieces);
    if !events.last().is_some_and(StreamEvent::is_last) {
        events.push(StreamEvent::Failed(Failure::cut_off()));
    }
    events
}

/// The vendor whose quirks and models to expect of a provider: the one that settings name, or the
/// one that address and name suggest. `generic` is an unknown vendor.
pub fn vendor(config: &Config) -> &'static str {
    config.wire.protocol().vendor(config).names[0]
}

/// Where the requests of a vendor find credentials if there is no key; `None`: they do not look for any. Uses no network.
///
/// # Errors
/// There are no credentials, or they cannot be used: what to do.
pub fn credentials(
    vendor: &str,
    parameters: &[(String, String)],
) -> Option<Result<String, String>> {
    let vendor = vendors::named(vendor)?;
    vendor.builtin.filter(|builtin| builtin.finds_credentials)?;
    let is_amazon = vendor.wire == vendors::BEDROCK.wire;
    Some(if is_amazon { aws::describe(parameters) } else { google_cloud::describe() })
}

/// The files that vendors' variables name as those of credentials, which no command needs to see.
pub fn credential_files() -> Vec<PathBuf> {
    let files = [google_cloud::files(), aws::files()].concat();
    files.into_iter().filter(|path| path.exists()).collect()
}

/// The base URL for the value of a vendor's environment variable (such as `ANTHROPIC_BASE_URL`).
/// Some vendors' own clients expect it without the version that settings' `baseURL` includes.
pub fn base_from_env(wire: Wire, value: &str) -> String {
    wire.protocol().base_from_env(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wires_are_known_by_both_their_names() {
        assert_eq!("anthropic".parse(), Ok(Wire::ANTHROPIC));
        assert_eq!("@ai-sdk/anthropic".parse(), Ok(Wire::ANTHROPIC));
        assert_eq!("openai-chat".parse(), Ok(Wire::OPENAI_CHAT));
        assert_eq!("@ai-sdk/openai-compatible".parse(), Ok(Wire::OPENAI_CHAT));
        assert_eq!("openai-responses".parse(), Ok(Wire::OPENAI_RESPONSES));
        assert_eq!("@ai-sdk/openai".parse(), Ok(Wire::OPENAI_RESPONSES));
        assert_eq!("gemini".parse(), Ok(Wire::GEMINI));
        assert_eq!("@ai-sdk/google".parse(), Ok(Wire::GEMINI));
        assert_eq!("bedrock".parse(), Ok(Wire::BEDROCK));
        assert_eq!("@ai-sdk/amazon-bedrock".parse(), Ok(Wire::BEDROCK));
        assert_eq!("scripted".parse(), Ok(Wire::SCRIPTED));
    }

    #[test]
    fn an_unknown_wire_is_told_what_there_is() {
        let error = "smoke-signals".parse::<Wire>().unwrap_err().to_string();
        assert!(error.contains("`smoke-signals`"), "{error}");
        let known = WIRES.map(|wire| format!("`{}`", wire.name())).join(" or ");
        assert!(error.contains(&known), "{error}");
    }

    /// A row of the table is all that a vendor with an API like OpenAI's needs.
    #[test]
    fn a_row_makes_a_provider_that_needs_only_a_key() {
        let over_chat = vendors::VENDORS.iter().filter(|vendor| vendor.wire == "openai-chat");
        let mut rows = 0;
        for vendor in over_chat {
            let (Some(builtin), Some(base)) = (vendor.builtin, vendor.base) else { continue };
            if !builtin.parameters.is_empty() {
                continue;
            }
            let mut config = Config::new(builtin.name, Wire::OPENAI_CHAT);
            config.api_key = Some("key".into());
            assert_eq!(self::vendor(&config), vendor.names[0], "{}", builtin.name);
            assert_eq!(known().builtin(builtin.name), Some(&builtin));
            let client = testing::client(config).unwrap();
            assert_eq!(client.endpoint.url.as_str(), format!("{base}/chat/completions"));
            let described = catalog::describe(Wire::OPENAI_CHAT, vendor.names[0], builtin.model);
            let is_listed = vendor.models.iter().any(|model| model.id == builtin.model);
            assert_eq!(described.limit.context > 0, is_listed, "{}", builtin.name);
            rows += 1;
        }
        assert!(rows > 5, "{rows}");
    }

    #[test]
    fn every_vendor_and_built_in_provider_has_a_wire_of_the_table() {
        for vendor in vendors::VENDORS {
            assert!(vendor.wire.parse::<Wire>().is_ok(), "{}", vendor.names[0]);
        }
        for builtin in vendors::builtin() {
            assert!(builtin.wire.parse::<Wire>().is_ok(), "{}", builtin.name);
        }
        for sign_in in sign_ins() {
            let vendor = vendors::named(sign_in.vendor).unwrap();
            assert_eq!(vendor.base, Some(sign_in.api), "{}", sign_in.provider);
            assert!(known().builtin(sign_in.provider).is_some(), "{}", sign_in.provider);
        }
        assert_eq!(known().usual_wire.map(KnownWire::name), Some("openai-chat"));
    }
}
