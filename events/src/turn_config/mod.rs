//! The decoded contents of `turn.configured`: the configuration of a session's turns. It includes the model's price of tokens
//! ([`Prices`]); [`Prices::cost`] computes the cost of a request.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::{Cost, ModelRef, TurnConfigPayloads, Usage};
use crate::json::Json;
use crate::payload::Payload;
use crate::rules::Rule;

mod plugin;
mod sandbox;
pub(crate) mod sources;

pub use plugin::PluginSpec;
pub use sandbox::SandboxOptions;
pub(crate) use sandbox::is_within;
pub use sources::{PromptPiece, RuleSource, Sources};

/// The system prompt, tools, rules, model and options in force.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnConfig {
    /// Blocks, the stable ones first.
    pub system: Vec<String>,
    pub tools: Vec<ToolSpec>,
    /// In merge order: the last match wins.
    pub rules: Vec<Rule>,
    pub model: ModelSpec,
    pub options: Options,
    /// Name of the base prompt.
    pub prompt: String,
}

/// A tool's definition for models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Json,
}

/// A model with its known properties.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSpec {
    pub provider: String,
    pub id: String,
    pub limit: Limit,
    pub cost: Prices,
    #[serde(skip_serializing_if = "Abilities::is_all")]
    pub abilities: Abilities,
    /// The name of the wire format of its requests; empty in logs of versions that did not log it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wire: String,
    /// The vendor whose quirks its requests follow; empty as for `wire`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
}

/// Optional features of a model. Servers refuse requests that use others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Abilities {
    /// Tool calls.
    pub tools: bool,
    /// Images and other files that are not text.
    pub media: bool,
    /// Sampling parameters: temperature and top-p.
    pub sampling: bool,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { tools: true, media: true, sampling: true }
    }
}

impl Abilities {
    fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

impl ModelSpec {
    pub fn name(&self) -> ModelRef {
        ModelRef { provider: self.provider.clone(), id: self.id.clone() }
    }
}

/// Tokens. 0 for `context` or `input` means unknown: overflow is then not predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    pub context: u64,
    pub input: u64,
    pub output: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self { context: 0, input: 0, output: 8_192 }
    }
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Prices {
    /// The cost of `usage`; reasoning counts as output. 0 if the prices are invalid.
    pub fn cost(&self, usage: &Usage) -> Cost {
        #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
        let price = |tokens: u64, per_million: f64| tokens as f64 * per_million / 1e6;
        let sum = price(usage.input, self.input)
            + price(usage.output.saturating_add(usage.reasoning), self.output)
            + price(usage.cache_read, self.cache_read)
            + price(usage.cache_write, self.cache_write);
        if sum.is_finite() { sum.max(0.0) } else { 0.0 }
    }
}

/// How to treat a call that requires a person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskMode {
    /// A person is there: ask.
    Ask,
    /// No person is there: deny.
    #[default]
    Deny,
    /// The user allowed everything in advance.
    Allow,
}

/// The name of the tool by which a model gives a [`StructuredOutput`].
pub const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// The form of a turn's answer: the arguments of a call of the tool [`STRUCTURED_OUTPUT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructuredOutput {
    /// JSON Schema of the answer, which is an object.
    pub schema: Json,
    /// How often the model may try again after a reply without a valid answer.
    #[serde(default = "StructuredOutput::retries")]
    pub retries: u32,
}

impl StructuredOutput {
    /// The default of `retries`.
    pub fn retries() -> u32 {
        2
    }
}

/// The default time limit of a child, in milliseconds: an hour. The child then ends and reports.
pub const TASK_TIMEOUT: u64 = 60 * 60 * 1_000;

/// The default of how deeply subagents may be nested.
pub const MAX_DEPTH: u32 = 5;

/// The end of a conversation that a summary leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tail {
    /// The most prompts in it, with all that follows them; `None`: any number.
    pub turns: Option<u64>,
    /// The most tokens in it, as estimated; `None`: a share of the model's context.
    pub tokens: Option<u64>,
}

/// Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// How long a provider may send nothing.
    pub timeout: u64,
    /// Retries of one step after the first attempt.
    pub retries: u32,
    /// The longest wait, in milliseconds, that a provider may ask for before a retry if no person is there; `None`: no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<u64>,
    pub max_steps: u32,
    /// The cost limit of a turn in US dollars; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Cost>,
    /// The time limit of a turn from its prompt on, including pauses between nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<u64>,
    /// The user's addition to the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The name of the model's variant. Its options are merged into `request`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    pub ask: AskMode,
    /// Whether the turn goes on after a person rejected a call without words.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goes_on_after_rejection: bool,
    /// Whether an edit inside the worktree that rules ask about is made without a question.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accept_edits: bool,
    /// How long a question waits for its answer.
    pub ask_for: u64,
    /// The maximum number of output tokens to request.
    pub max_output: u64,
    /// Tokens reserved for the reply; `None`: the smaller of 20 000 and `max_output`.
    pub reserved: Option<u64>,
    /// Whether overflow leads to compaction.
    pub compact: bool,
    /// How much of the latest conversation a summary does not replace; `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
    /// Whether old tool output is cleared at the end of a turn.
    pub prune: bool,
    /// The instructions for the model that writes a summary.
    pub summary_prompt: String,
    /// The instructions for the model that writes the title; empty: no title is requested.
    pub title_prompt: String,
    /// The instructions for the model that writes the session's summary; empty: none is requested.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_summary_prompt: String,
    /// The model that writes it; `None`: the small one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_summary_model: Option<ModelSpec>,
    /// Options for the body of that request, instead of the default for small requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_summary_request: Option<Json>,
    /// The model that writes titles; `None`: the session's own.
    pub small_model: Option<ModelSpec>,
    /// The provider's own options, passed on in the request body.
    pub request: Json,
    /// Rules from "always" answers in the project's other sessions; each rule allows.
    pub approved: Vec<Rule>,
    /// Rules from "always" answers that the user has taken back since; their actions are `ask`. The session
    /// drops those that its own answers have added so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<Rule>,
    /// For a subagent: the hosts that prompts of the sessions above it have named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_hosts: Vec<String>,
    /// Lists of rules that can only make a verdict stricter: those of a project that is not trusted, and
    /// the user's own denials, which no project lifts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restrictions: Vec<Vec<Rule>>,
    /// Rules of the prompt itself, or of the session that started this one, which are restrictions too. A
    /// resumed turn and an agent that takes over keep them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt_rules: Vec<Rule>,
    /// The session's own rules, which are restrictions too. Not in the configuration: `session.rules_set` logs
    /// them.
    #[serde(skip)]
    pub session_rules: Vec<Rule>,
    /// Instruction files in the system prompt; absolute paths with links resolved.
    pub instructions: Vec<String>,
    /// Whether the agent plans and may change only its plan.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plans: bool,
    /// The text for the model with the first prompt for which `plans` has changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reminder: String,
    /// Whether to take snapshots of the project's files before and after each step that may change
    /// them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    /// The model that writes summaries; `None`: the session's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_model: Option<ModelSpec>,
    /// Options for the body of a request for a summary, instead of `request`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_request: Option<Json>,
    /// Options for the body of a title request, instead of the default for small requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_request: Option<Json>,
    /// The plugins with hooks, in calling order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginSpec>,
    /// How many sessions above this one have started it and each other: 0 for a session that a
    /// person prompts.
    #[serde(skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// How deeply subagents may be nested; 0: there are none.
    #[serde(skip_serializing_if = "is_usual_depth")]
    pub max_depth: u32,
    /// Whether a reply counts as complete however its provider ended it. Only an imported log has this: the
    /// other agent decided how its turns went on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_finish: bool,
    /// The executor beside the workspace, by its name in settings; `None`: the workspace is on the node's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The sandbox of commands; `None`: the node that wrote the log knew none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxOptions>,
    /// Where the system prompt and the rules come from, for people.
    #[serde(skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    /// Whether the bytes of every exchange with a provider are kept beside the log.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
    /// The form of the turn's answer; `None`: text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<StructuredOutput>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: 300_000,
            retries: 10,
            max_wait: None,
            max_steps: u32::MAX,
            max_cost: None,
            max_time: None,
            system: None,
            variant: None,
            ask: AskMode::Deny,
            goes_on_after_rejection: false,
            accept_edits: false,
            ask_for: 600_000,
            max_output: 32_000,
            reserved: None,
            compact: true,
            tail: None,
            prune: true,
            summary_prompt: String::new(),
            title_prompt: String::new(),
            session_summary_prompt: String::new(),
            session_summary_model: None,
            session_summary_request: None,
            small_model: None,
            request: Json::object(),
            approved: Vec::new(),
            revoked: Vec::new(),
            named_hosts: Vec::new(),
            restrictions: Vec::new(),
            prompt_rules: Vec::new(),
            session_rules: Vec::new(),
            instructions: Vec::new(),
            plans: false,
            reminder: String::new(),
            snapshot: false,
            summary_model: None,
            summary_request: None,
            title_request: None,
            plugins: Vec::new(),
            depth: 0,
            max_depth: MAX_DEPTH,
            any_finish: false,
            executor: None,
            sandbox: None,
            sources: Sources::default(),
            record: false,
            output: None,
        }
    }
}

impl Options {
    /// Every list of rules that can only make a verdict stricter.
    pub fn restricting(&self) -> impl Iterator<Item = &[Rule]> {
        let own = [&self.session_rules, &self.prompt_rules];
        self.restrictions.iter().chain(own).map(Vec::as_slice)
    }

    /// Whether calls of this session may not start a subagent, because it is nested too deeply.
    pub(crate) fn is_deepest(&self) -> bool {
        self.depth >= self.max_depth
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(depth: &u32) -> bool {
    *depth == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_usual_depth(depth: &u32) -> bool {
    *depth == MAX_DEPTH
}

impl TurnConfig {
    /// The event that puts this turn configuration into a log.
    pub fn payloads(&self) -> TurnConfigPayloads {
        TurnConfigPayloads {
            system: payload(&self.system),
            tools: payload(&self.tools),
            rules: payload(&self.rules),
            model: payload(&self.model),
            options: payload(&self.options),
            prompt: self.prompt.clone(),
        }
    }

    /// Applies the differences between `before` and `now`. A payload that cannot be read (only a
    /// manipulated log has one) leaves its part unchanged.
    pub(crate) fn apply(&mut self, before: Option<&TurnConfigPayloads>, now: &TurnConfigPayloads) {
        replace(&mut self.system, before.map(|e| &e.system), &now.system);
        replace(&mut self.tools, before.map(|e| &e.tools), &now.tools);
        replace(&mut self.rules, before.map(|e| &e.rules), &now.rules);
        replace(&mut self.model, before.map(|e| &e.model), &now.model);
        replace(&mut self.options, before.map(|e| &e.options), &now.options);
        self.prompt.clone_from(&now.prompt);
    }
}

fn payload<T: Serialize>(part: &T) -> Payload {
    // serialising these types to memory cannot fail
    Payload::new(serde_json::to_string(part).unwrap_or_default())
}

fn replace<T: DeserializeOwned>(part: &mut T, before: Option<&Payload>, now: &Payload) {
    if before.is_some_and(|before| before.sha256() == now.sha256()) {
        return;
    }
    if let Ok(new) = serde_json::from_str(now.text()) {
        *part = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kit_survives_its_event() {
        let config = TurnConfig {
            system: vec!["a".into(), "b".into()],
            rules: crate::rules::defaults(),
            model: ModelSpec { provider: "p".into(), id: "m".into(), ..ModelSpec::default() },
            prompt: "default".into(),
            options: Options {
                approved: vec![Rule::new("bash", "git *", crate::rules::Action::Allow)],
                ..Options::default()
            },
            ..TurnConfig::default()
        };
        let mut back = TurnConfig::default();
        back.apply(None, &config.payloads());
        assert_eq!(back, config);
    }

    #[test]
    fn a_model_is_written_with_what_it_can_not_do_alone() {
        let spec = ModelSpec { id: "m".into(), ..ModelSpec::default() };
        let text = serde_json::to_string(&spec).unwrap();
        for field in ["abilities", "wire", "vendor"] {
            assert!(!text.contains(field), "{text}");
        }
        assert_eq!(serde_json::from_str::<ModelSpec>(&text).unwrap(), spec);
        let abilities = Abilities { media: false, ..Abilities::default() };
        let (wire, vendor) = ("openai-chat".to_owned(), "mistral".to_owned());
        let spec = ModelSpec { abilities, wire, vendor, ..spec };
        let back = serde_json::from_str::<ModelSpec>(&serde_json::to_string(&spec).unwrap());
        assert_eq!(back.unwrap(), spec);
    }

    #[test]
    fn options_of_an_older_log_remember_nothing() {
        let options: Options = serde_json::from_str(r#"{"retries":3}"#).unwrap();
        assert_eq!((options.retries, options.approved), (3, Vec::new()));
    }

    #[test]
    fn options_without_limits_are_written_as_before_there_were_any() {
        let text = serde_json::to_string(&Options::default()).unwrap();
        for field in [
            "goes_on_after_rejection", "accept_edits", "max_cost", "max_time", "system", "variant",
            "plans", "reminder", "summary_model", "summary_request", "title_request",
            "session_summary", "plugins", "sandbox", "record",
        ] {
            assert!(!text.contains(&format!("\"{field}\"")), "{text}");
        }
        let options = Options { max_cost: Some(0.1), max_time: Some(5), ..Options::default() };
        let back = serde_json::from_str(&serde_json::to_string(&options).unwrap());
        assert_eq!(back.ok(), Some(options));
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let usage = |input, output, reasoning, cache_read, cache_write| Usage {
            input,
            output,
            reasoning,
            cache_read,
            cache_write,
        };
        for (usage, cost) in [
            (usage(0, 0, 0, 0, 0), 0.0),
            (usage(1_000_000, 0, 0, 0, 0), 3.0),
            (usage(0, 1_000_000, 0, 0, 0), 15.0),
            (usage(0, 0, 1_000_000, 0, 0), 15.0),
            (usage(0, 0, 0, 1_000_000, 0), 0.3),
            (usage(0, 0, 0, 0, 1_000_000), 3.75),
            (usage(1_000_000, 100_000, 100_000, 1_000_000, 1_000_000), 10.05),
            // impossibly large counts saturate and stay a number
            (usage(0, u64::MAX, u64::MAX, 0, 0), 2_f64.powi(64) * 15.0 / 1e6),
        ] {
            let found = prices.cost(&usage);
            assert!((found - cost).abs() < 1e-9 * cost.max(1.0), "{usage:?}: {found}");
        }
    }

    #[test]
    fn prices_that_make_no_sense_cost_nothing() {
        let usage = Usage { input: 1, output: 1, cache_read: 1, ..Usage::default() };
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            for prices in [
                Prices { input: wrong, ..Prices::default() },
                Prices { output: wrong, ..Prices::default() },
                Prices { cache_read: wrong, ..Prices::default() },
            ] {
                assert!(prices.cost(&usage).abs() < f64::EPSILON, "{prices:?}");
            }
        }
    }
}
