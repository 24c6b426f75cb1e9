//! The vendors and their models, as data: how a vendor is recognized, its defaults, its differences
//! from others on the same wire format, and its known models.
//!
//! A vendor is one entry of [`VENDORS`]. Answers of all vendors are decoded alike, with usage and
//! reasoning from wherever they are, so the table lists only facts that an answer does not show.
//! Nothing here builds a request or knows more of a wire format than its name.

mod models;
mod sign_ins;
mod table;

use leftfold_events::Request;
use leftfold_events::event::PromptKind;
use leftfold_events::providers::Builtin;
use leftfold_events::request::RequestMessage;
use leftfold_events::turn_config::{Abilities, Limit, ModelSpec, Prices};
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::{CallIds, Compatible};
use reqwest::Url;
#[cfg(any(debug_assertions, test))]
use serde_json::Value;

use crate::ids::{IdForm, SHORT};
use crate::shape;
pub(crate) use models::{ANTHROPIC as CLAUDES, GEMINI as GEMINIS, OPENAI as GPTS};
pub(crate) use models::{
    bedrock as bedrock_models, bedrock_model, claude_of_bedrock, vertex_claudes,
};
pub(crate) use sign_ins::SIGN_INS;
pub(crate) use table::{ANTHROPIC, BEDROCK, GENERIC, GOOGLE, OPENAI, VENDORS};

/// One vendor, or one server that people run themselves.
#[derive(Debug, PartialEq)]
pub(crate) struct Vendor {
    /// Names in the `vendor` setting, the preferred one first.
    pub(crate) names: &'static [&'static str],
    /// Suffixes of the names of its hosts.
    pub(crate) hosts: &'static [&'static str],
    /// The name of the wire format that this entry is for.
    pub(crate) wire: &'static str,
    /// How it is used without settings, if that is possible.
    pub(crate) builtin: Option<Builtin>,
    /// Its models, newest first.
    pub(crate) models: &'static [Model],
    /// The address without `baseURL`; `None`: only the user knows it. Names in braces are replaced:
    /// see `address.rs`.
    pub(crate) base: Option<&'static str>,
    /// The address without `baseURL` if there is a key, if that is another one.
    pub(crate) base_with_key: Option<&'static str>,
    /// Whether the address `base` requires a key.
    pub(crate) needs_key: bool,
    /// The header of the key, if it is not `authorization: Bearer`.
    pub(crate) key_header: Option<&'static str>,
    /// Whether it accepts `stream_options`.
    pub(crate) stream_options: bool,
    pub(crate) limit: LimitName,
    pub(crate) ids: IdForm,
    /// Whether an assistant message must stand between tool results and a user message, whatever the model.
    pub(crate) needs_answer_after_results: bool,
    /// Whether user and assistant must alternate, as some chat templates require.
    pub(crate) alternates: bool,
    /// Whether assistant messages with calls must carry `reasoning_content`, even if there was none.
    pub(crate) returns_reasoning: bool,
    pub(crate) images: bool,
    /// Whether user messages accept PDF files.
    pub(crate) files: bool,
    pub(crate) marks: Marks,
    pub(crate) mark_place: MarkPlace,
    /// Whether the effort option is `reasoning.effort` rather than `reasoning_effort`.
    pub(crate) nests_effort: bool,
    /// The version that bodies of Anthropic's wire name at vendors who want the model in the address
    /// instead of the body; `None`: as Anthropic itself.
    pub(crate) anthropic_version: Option<&'static str>,
    /// The prefix of models that refuse sampling options, if there are any.
    pub(crate) fixed: Option<&'static str>,
    /// Whether `completion_tokens` excludes reasoning, if the total does not show it.
    pub(crate) excludes_reasoning: bool,
    /// Whether every stream ends in `[DONE]`, so that a stream without it was cut off. Otherwise a
    /// stream may also end after its finish reason.
    pub(crate) ends_in_done: bool,
    /// Whether a key groups requests that share a prefix.
    pub(crate) cache_key: bool,
    /// Whether it sometimes answers 404 for models that exist.
    pub(crate) retries_not_found: bool,
    /// Whether requests may limit the reply. If not, it refuses requests that do.
    pub(crate) limits_output: bool,
    /// Whether Responses need the system prompt in `instructions` and not in the conversation.
    pub(crate) instructions: bool,
    /// Headers that say what a request is about.
    pub(crate) headers: &'static [Header],
    /// Whether it answers a request that is too long with status 400 or 413 and an empty body.
    pub(crate) overflows_silently: bool,
}

/// A header of the requests that it applies to.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    pub(crate) when: When,
}

/// The requests that a header applies to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    Always,
    /// The first one after a person's prompt.
    ByUser,
    /// All others: after calls, of subagents, for titles and summaries.
    ByAgent,
    /// Requests with an image.
    Images,
    /// Requests to Anthropic's models, some of which think between calls.
    Claude,
}

impl When {
    pub(crate) fn applies(self, request: &Request, is_by_user: bool) -> bool {
        match self {
            Self::Always => true,
            Self::ByUser => is_by_user,
            Self::ByAgent => !is_by_user,
            Self::Images => has_image(request),
            Self::Claude => is_claude(&request.model.id),
        }
    }
}

fn has_image(request: &Request) -> bool {
    let is_image = |mime: &str| mime.starts_with("image/");
    request.messages.iter().any(|message| match message {
        RequestMessage::User { parts } => parts
            .iter()
            .any(|part| part.kind == PromptKind::Media && is_image(shape::file_of(part).0)),
        RequestMessage::Tool { results } => {
            let mut attached = results.iter().flat_map(|result| &result.attachments);
            attached.any(|attachment| is_image(&attachment.mime))
        }
        RequestMessage::Assistant { .. } => false,
    })
}

/// The body's name for the limit on output tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LimitName {
    MaxTokens,
    MaxCompletionTokens,
    /// The new name for OpenAI's reasoning models, which refuse the old one; the old name for
    /// others.
    ByModel,
}

/// Whether messages get cache marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Marks {
    Never,
    /// Only for Anthropic's models.
    Claude,
    Always,
}

/// The place and name of a cache mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MarkPlace {
    /// `cache_control` in a part of a message's content.
    Part,
    /// `copilot_cache_control` in the message.
    Message,
}

/// The providers that need no settings, in the order in which lists show them.
pub(crate) fn builtin() -> impl Iterator<Item = &'static Builtin> {
    VENDORS.iter().filter_map(|vendor| vendor.builtin.as_ref())
}

/// The environment variable with the key of a built-in provider.
pub(crate) fn key_variable(provider: &str) -> Option<&'static str> {
    builtin().find(|builtin| builtin.name == provider)?.keys.first().copied()
}

/// Whether a built-in provider finds the vendor's credentials by itself.
pub(crate) fn finds_credentials(provider: &str) -> bool {
    builtin().any(|builtin| builtin.name == provider && builtin.finds_credentials)
}

/// The vendor of an OpenAI-compatible provider: the one that settings name, else the one whose
/// address it is, else the one with the provider's name; OpenAI if there is no address.
pub(crate) fn find_compatible(
    provider: &str,
    vendor: Option<&str>,
    base_url: Option<&str>,
) -> &'static Vendor {
    if let Some(name) = vendor {
        return compatible_vendors().find(|vendor| vendor.is_called(name)).unwrap_or_else(|| {
            let known: Vec<&str> = compatible_vendors().map(|vendor| vendor.names[0]).collect();
            tracing::warn!(vendor = name, ?known, "a vendor without known quirks");
            &GENERIC
        });
    }
    let named = compatible_vendors().find(|vendor| vendor.is_called(provider));
    let Some(base) = base_url else { return named.unwrap_or(&OPENAI) };
    let url = Url::parse(base.trim()).ok();
    let hosted = |host| compatible_vendors().find(|vendor| vendor.is_at(host));
    if let Some(found) = url.as_ref().and_then(Url::host_str).and_then(hosted) {
        return found;
    }
    // the name `openai` says nothing about the server at another address
    named.filter(|vendor| **vendor != OPENAI).unwrap_or(&GENERIC)
}

/// The vendor on a wire of one maker's models: the one that settings name, else the one with the
/// provider's name, else `maker`.
pub(crate) fn find_on(
    maker: &'static Vendor,
    provider: &str,
    vendor: Option<&str>,
) -> &'static Vendor {
    let mut on_wire = VENDORS.iter().filter(|known| known.wire == maker.wire);
    on_wire.find(|known| known.is_called(vendor.unwrap_or(provider))).unwrap_or(maker)
}

fn compatible_vendors() -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().filter(|vendor| vendor.wire.starts_with("openai"))
}

/// The vendor with this name.
pub(crate) fn named(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.is_called(name))
}

impl Vendor {
    fn is_called(&self, name: &str) -> bool {
        let name = name.trim().to_lowercase();
        self.names.contains(&name.as_str())
    }

    fn is_at(&self, host: &str) -> bool {
        self.hosts.iter().any(|end| {
            host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    /// Whether it is OpenAI itself, at one of its own addresses or at Azure.
    pub(crate) fn is_openai(&self) -> bool {
        matches!(self.names[0], "openai" | "azure" | "chatgpt")
    }

    /// The name of the limit on output tokens for `model`.
    pub(crate) fn limit_name(&self, model: &str) -> &'static str {
        match self.limit {
            LimitName::MaxTokens => "max_tokens",
            LimitName::MaxCompletionTokens => "max_completion_tokens",
            LimitName::ByModel if is_openai_reasoner(model) => "max_completion_tokens",
            LimitName::ByModel => "max_tokens",
        }
    }

    /// The form of call ids for `model`.
    pub(crate) fn ids(&self, model: &str) -> IdForm {
        match self.ids {
            IdForm::Short if is_claude(model) => IdForm::Plain(SHORT),
            IdForm::Short if is_mistral(model) => IdForm::Nine,
            form => form,
        }
    }

    /// Whether an assistant message must stand between tool results and a user message.
    pub(crate) fn needs_answer_after_results(&self, model: &str) -> bool {
        self.needs_answer_after_results || is_mistral(model)
    }

    /// The vendor's differences as far as the rules for a body depend on them.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn compatible(&self, body: &Value) -> Compatible {
        let model = body["model"].as_str().unwrap_or_default();
        let ids = match self.ids(model) {
            IdForm::Short => CallIds::Short,
            IdForm::Plain(longest) => CallIds::Plain(longest),
            IdForm::Nine => CallIds::Nine,
        };
        Compatible {
            is_openai: self.is_openai(),
            takes_reasoning: *self != OPENAI,
            ids,
            marks_messages: self.mark_place == MarkPlace::Message,
            alternates: self.alternates,
            needs_answer_after_results: self.needs_answer_after_results(model),
            returns_reasoning: self.returns_reasoning,
            images: self.images,
            files: self.files,
        }
    }

    /// Whether `model` accepts sampling options. If not, it refuses requests that have them.
    pub(crate) fn samples(&self, model: &str) -> bool {
        let is_fixed = self.fixed.is_some_and(|start| model.to_lowercase().starts_with(start));
        !is_fixed && !is_openai_reasoner(model)
    }

    /// Where messages for `model` get cache marks, if they get any.
    pub(crate) fn marks(&self, model: &str) -> Option<MarkPlace> {
        let is_marked = match self.marks {
            Marks::Never => false,
            Marks::Claude => is_claude(model),
            Marks::Always => true,
        };
        is_marked.then_some(self.mark_place)
    }
}

/// Whether `model` is one of Anthropic's. They keep Anthropic's rules for ids and tools at every
/// reseller.
pub(crate) fn is_claude(model: &str) -> bool {
    let model = model.to_lowercase();
    model.contains("claude") || model.starts_with("anthropic/")
}

/// Whether `model` is one of Mistral's. Their chat templates check the order of roles and the form of ids at every
/// server.
pub(crate) fn is_mistral(model: &str) -> bool {
    const FAMILIES: [&str; 7] =
        ["mistral", "ministral", "magistral", "devstral", "codestral", "pixtral", "mixtral"];
    let model = model.to_lowercase();
    FAMILIES.iter().any(|family| model.contains(family))
}

/// Whether `model`, once it reasons, must get back some reasoning with each of its calls, at every server that passes
/// requests on to its maker.
pub(crate) fn needs_reasoning(model: &str) -> bool {
    let model = model.to_lowercase();
    model.contains("deepseek") || model.contains("kimi")
}

/// Whether `model` is one of OpenAI's reasoning models: o1 and its successors, and GPT from 5 on.
pub(crate) fn is_openai_reasoner(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default().to_lowercase();
    let number = |rest: &str| -> u32 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().unwrap_or_default()
    };
    match (name.strip_prefix("gpt-"), name.strip_prefix('o')) {
        (Some(rest), _) => number(rest) >= 5,
        (None, Some(rest)) => number(rest) >= 1,
        (None, None) => false,
    }
}

/// A listed model. All of them accept tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Also the id of dated snapshots (`ID-20251001`) and of `ID-latest`.
    pub id: &'static str,
    pub family: &'static str,
    /// Context limit. All limits are in tokens.
    pub context: u64,
    /// Limit of the input within the context; 0: all of it.
    pub input: u64,
    pub output: u64,
    pub prices: Prices,
    pub images: bool,
    pub thinking: Thinking,
    /// Whether requests may set temperature, top-p and top-k.
    pub samples: bool,
}

/// Whether a model reasons before it answers, and how its effort is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    Never,
    /// Always; the effort cannot be set.
    Always,
    /// A budget in tokens.
    Budget,
    /// One of these words.
    Efforts(&'static [&'static str]),
}

impl Model {
    /// The model's description for a session, under the requested name; `provider` is left empty.
    pub(crate) fn spec(&self, id: &str) -> ModelSpec {
        let limit = Limit { context: self.context, input: self.input, output: self.output };
        // the name alone does not decide about the temperature: the wire format does
        let abilities = Abilities { media: self.images, ..Abilities::default() };
        ModelSpec { id: id.to_owned(), limit, cost: self.prices, abilities, ..ModelSpec::default() }
    }
}

/// Whether the Anthropic model `id` may accept temperature, top-p and top-k. Only settings give them to an unlisted model.
pub(crate) fn takes_sampling(id: &str) -> bool {
    listed(CLAUDES, id).is_none_or(|model| model.samples)
}

/// Finds a model by name, with or without a date (or `latest`) at its end. Anthropic's dates are
/// digits (after an `@` at Google), OpenAI's have hyphens.
pub(crate) fn listed(models: &'static [Model], id: &str) -> Option<&'static Model> {
    let is_version = |rest: &str| {
        if let Some(version) = rest.strip_prefix('@') {
            return !version.is_empty();
        }
        let Some(date) = rest.strip_prefix('-') else { return false };
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        let hyphens = date.bytes().filter(|byte| *byte == b'-').count();
        date == "latest" || digits == 8 && matches!((hyphens, date.len()), (0, 8) | (2, 10))
    };
    models.iter().find(|model| {
        id.strip_prefix(model.id).is_some_and(|rest| rest.is_empty() || is_version(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendor_follows_from_settings_address_and_name() {
        let local = Some("http://127.0.0.1:9/v1");
        for (name, vendor, base, expected) in [
            ("openai", None, None, "openai"),
            ("mine", None, None, "openai"),
            ("mine", None, local, "generic"),
            ("openai", None, local, "generic"),
            ("openai", Some("openai"), local, "openai"),
            ("groq", None, None, "groq"),
            ("mistral", None, local, "mistral"),
            ("mine", Some("DeepSeek"), local, "deepseek"),
            ("mine", Some("moonshotai"), local, "moonshot"),
            ("mine", Some("unheard-of"), local, "generic"),
            ("deepseek", Some("xai"), local, "xai"),
            ("mine", None, Some("https://api.x.ai/v1"), "xai"),
            ("mine", None, Some("https://my.openai.azure.com/openai/v1"), "azure"),
            ("mine", None, Some("https://fakeapi.x.ai.example.com/v1"), "generic"),
            ("mine", None, Some("https://notapi.x.ai/v1"), "generic"),
            ("mine", None, Some("nonsense"), "generic"),
        ] {
            let found = find_compatible(name, vendor, base);
            assert_eq!(found.names[0], expected, "{name} {vendor:?} {base:?}");
        }
    }

    #[test]
    fn names_and_hosts_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for name in VENDORS.iter().flat_map(|vendor| vendor.names.iter().chain(vendor.hosts)) {
            assert!(seen.insert(name), "{name} stands there twice");
        }
    }

    #[test]
    fn models_that_take_the_new_limit_only() {
        for (model, expected) in [
            ("o1", "max_completion_tokens"),
            ("o3-mini", "max_completion_tokens"),
            ("openai/o4-mini", "max_completion_tokens"),
            ("gpt-5-nano", "max_completion_tokens"),
            ("gpt-5.1", "max_completion_tokens"),
            ("gpt-10", "max_completion_tokens"),
            ("gpt-4o", "max_tokens"),
            ("gpt-oss-120b", "max_tokens"),
            ("olmo-2", "max_tokens"),
            ("orca", "max_tokens"),
            ("qwen3", "max_tokens"),
            ("", "max_tokens"),
        ] {
            assert_eq!(GENERIC.limit_name(model), expected, "{model}");
        }
        assert_eq!(OPENAI.limit_name("gpt-4o"), "max_completion_tokens");
    }

    #[test]
    fn models_without_sampling_options() {
        let moonshot = named("moonshot").unwrap();
        for (vendor, model, samples) in [
            (moonshot, "kimi-k3", false),
            (moonshot, "moonshot-v1-128k", true),
            (&GENERIC, "kimi-k3", true),
            (&GENERIC, "gpt-5.1", false),
            (&OPENAI, "gpt-4.1", true),
        ] {
            assert_eq!(vendor.samples(model), samples, "{model}");
        }
    }

    #[test]
    fn listed_models_make_sense() {
        for Vendor { models: table, .. } in VENDORS {
            for (at, model) in table.iter().enumerate() {
                let Prices { input, output, cache_read, cache_write } = model.prices;
                assert!(model.output > 0 && model.output < model.context, "{}", model.id);
                assert!(model.input < model.context, "{}", model.id);
                // a subscription covers all of a vendor's models, or none
                let is_covered = table[0].prices == Prices::default();
                assert_eq!(input == 0.0, is_covered, "{}", model.id);
                assert!(output >= input && cache_read <= input, "{}", model.id);
                assert!(cache_write == 0.0 || cache_write >= input, "{}", model.id);
                let others = table[..at].iter();
                assert!(others.clone().all(|other| other.id != model.id), "{} twice", model.id);
                assert!(!model.family.is_empty() && !model.id.contains(char::is_whitespace));
            }
        }
    }

    #[test]
    fn sampling_is_for_older_and_other_models() {
        for (id, takes) in [
            ("claude-sonnet-4-5", true),
            ("claude-opus-5-5", false),
            // only settings can want it
            ("claude-next", true),
            ("qwen3", true),
        ] {
            assert_eq!(takes_sampling(id), takes, "{id}");
        }
    }
}
