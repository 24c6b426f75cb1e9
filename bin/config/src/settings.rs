//! The settings: a field for each top-level key of a file, and the result of merging all sources.

use std::fmt;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use leftfold_events::providers::KnownProviders;
use leftfold_events::rules::{Rule, only_denying};
use leftfold_events::secrets::is_credential;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::SettingPlace;
use crate::agent::{Agent, BUILT_IN_AGENTS, Command, GENERAL, Mode, PRIMARY_AGENTS};
use crate::auth::Keys;
use crate::error::{Error, in_quotes};
use crate::extensions::{Formatters, LanguageServers, Mcp, Plugin, Skills};
use crate::files;
use crate::keys::KeySettings;
use crate::models_dev::ListSource;
use crate::permission::{self, Permission, PlacedRule};
use crate::provider::{NEVER, Provider};
use crate::quota::{ProjectQuota, Quotas};
use crate::sandbox::{Sandbox, SandboxSettings};
use crate::secrecy::Secret;
use crate::source::{Env, Source};
use crate::tree::Node;
use crate::trust::Trust;
use crate::typed::{At, Idle, filled, model_name, positive};

/// Lists that are joined across files instead of being replaced.
pub(crate) const JOINED: [&str; 3] = ["plugin", "instructions", "sandbox.hide"];

type Object = Map<String, Value>;

/// Settings of Leftfold, a coding agent.
// the order of the fields is that of `leftfold config`
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Settings {
    /// `PROVIDER/MODEL`.
    #[serde(deserialize_with = "model_name")]
    #[schemars(extend("x-name" = true, "x-effect" = "chooses the model that gets your prompts"))]
    pub model: Option<At<String>>,
    /// `PROVIDER/MODEL` for titles and the like.
    #[serde(deserialize_with = "model_name")]
    #[schemars(extend(
        "x-name" = true,
        "x-effect" = "chooses the model that gets your prompts",
        "x-option" = "small_model"
    ))]
    pub small_model: Option<At<String>>,
    /// The agent that takes prompts.
    #[serde(deserialize_with = "filled")]
    #[schemars(extend("x-name" = true, "x-effect" = "chooses the agent that gets your prompts"))]
    pub default_agent: Option<At<String>>,
    #[serde(rename = "provider")]
    #[schemars(extend("x-named" = true))]
    pub providers: IndexMap<String, Provider>,
    /// If given, no others may be used.
    #[schemars(extend("x-name" = true))]
    pub enabled_providers: Option<Vec<String>>,
    #[schemars(extend("x-name" = true))]
    pub disabled_providers: Vec<String>,
    /// A list of providers and models as models.dev has it, in the place of Leftfold's own. It counts only in the user's own
    /// settings.
    #[serde(deserialize_with = "filled")]
    #[schemars(extend("x-free" = true))]
    pub(crate) models_file: Option<At<String>>,
    /// `allow`, `ask` or `deny`, by tool and pattern; the last match wins.
    #[schemars(extend("x-rules" = true))]
    permission: Option<At<Permission>>,
    /// The older form of `permission`.
    #[schemars(extend("x-rules" = true))]
    tools: IndexMap<String, At<bool>>,
    /// Whether a model is asked for a title.
    #[schemars(extend("x-default" = Self::default().title(), "x-option" = "title_prompt"))]
    title: Option<bool>,
    /// Whether a model is asked for a summary of the session.
    #[schemars(extend("x-option" = "session_summary_prompt"))]
    summary: Option<bool>,
    /// Whether files are snapshotted.
    #[schemars(extend("x-default" = Self::default().snapshot(), "x-option" = "snapshot"))]
    snapshot: Option<bool>,
    /// Whether the bytes of every exchange with a provider are kept beside the log.
    #[schemars(extend("x-default" = "none", "x-option" = "record"))]
    record: Option<Record>,
    pub tool_output: ToolOutput,
    #[schemars(extend("x-effect" = "may let tools read pages of your own network"))]
    pub webfetch: WebFetch,
    /// The service that searches the web; without it there is no such tool.
    pub websearch: Option<At<Search>>,
    /// The service that searches code; without it there is no such tool.
    pub codesearch: Option<At<Search>>,
    pub task: Task,
    /// Names of variables that commands are given besides the usual ones.
    #[schemars(extend("x-effect" = "hands variables of yours to commands"))]
    environment: Vec<At<String>>,
    #[schemars(extend("x-option" = "sandbox"))]
    sandbox: Option<Sandbox>,
    /// Processes beside workspaces on other machines, which run calls there.
    #[schemars(extend("x-effect" = "names machines that run calls; only your own settings count"))]
    pub executors: IndexMap<String, At<Executor>>,
    /// The most that projects may use on a day, by folder or pattern. It counts only in the user's own settings.
    #[schemars(extend("x-free" = true))]
    pub(crate) quota: Quotas,
    pub compaction: Compaction,
    pub retry: Retry,
    pub terminal: Terminal,
    /// Values that must not come into a log, by name.
    #[serde(deserialize_with = "set_secrets")]
    #[schemars(extend("x-effect" = "names values that calls can use"))]
    pub secrets: IndexMap<String, Secret>,
    /// Files and pages whose text goes into every system prompt.
    pub instructions: Vec<At<String>>,
    #[serde(rename = "plugin")]
    pub plugins: Vec<At<Plugin>>,
    /// Folders of skills besides the usual ones.
    pub(crate) skills: Option<Skills>,
    /// Where this schema is.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    #[serde(rename = "agent")]
    #[schemars(extend("x-named" = true))]
    pub agents: IndexMap<String, At<Agent>>,
    pub attachment: Idle<Object>,
    pub autoshare: Idle<bool>,
    pub autoupdate: Idle<TextOrBoolean>,
    #[serde(rename = "command")]
    #[schemars(extend("x-named" = true))]
    pub commands: IndexMap<String, At<Command>>,
    pub enterprise: Idle<Object>,
    pub experimental: Experimental,
    /// Programs that format files after calls have written them; by default there are none.
    #[schemars(extend(
        "x-named" = true,
        "x-effect" = "runs programs, also the project's own, on files that calls write"
    ))]
    pub formatter: Option<At<Formatters>>,
    // OpenCode's look
    #[schemars(extend("x-free" = true))]
    pub keybinds: Idle<Object>,
    #[schemars(extend("x-free" = true))]
    pub layout: Idle<String>,
    #[serde(rename = "logLevel")]
    pub log_level: Idle<String>,
    /// Programs that check files after calls have written them; by default there are none.
    #[schemars(extend(
        "x-named" = true,
        "x-effect" = "starts language servers, which run the project's build scripts and macros"
    ))]
    pub lsp: Option<At<LanguageServers>>,
    /// Servers of tools.
    #[schemars(extend("x-named" = true))]
    pub mcp: IndexMap<String, At<Mcp>>,
    /// The older form of `agent`.
    #[schemars(extend("x-named" = true))]
    pub mode: Idle<Object>,
    pub reference: Idle<Value>,
    pub server: Idle<Object>,
    /// Whether `leftfold share` writes files. Nothing is shared without that command.
    pub share: Option<At<Share>>,
    /// The program that runs command lines: a path, or a name that is searched in `PATH`.
    #[serde(deserialize_with = "filled")]
    #[schemars(extend("x-effect" = "is the program that runs commands"))]
    pub(crate) shell: Option<At<String>>,
    #[schemars(extend("x-free" = true))]
    pub theme: Idle<String>,
    #[schemars(extend("x-free" = true))]
    pub tui: Idle<Object>,
    pub username: Idle<String>,
    pub watcher: Idle<Object>,
    pub web: Idle<Value>,

    /// In merge order: the last match wins. Rules of a project count only if the user trusts them.
    #[serde(skip)]
    pub rules: Vec<Rule>,
    /// The settings that came with the project and need the user's consent.
    #[serde(skip)]
    pub trust: Trust,
    /// These rules with their places.
    #[serde(skip)]
    pub(crate) placed_rules: Vec<PlacedRule>,
    /// The rules of each agent, with their places.
    #[serde(skip)]
    pub(crate) agent_placed_rules: IndexMap<String, Vec<PlacedRule>>,
    /// The agents in the user's own sources, without what a project says of them.
    #[serde(skip)]
    pub(crate) own_agents: IndexMap<String, At<Agent>>,
    /// `default_agent` in the user's own sources.
    #[serde(skip)]
    pub(crate) own_default_agent: Option<At<String>>,
    /// The folders in `skills` that exist.
    #[serde(skip)]
    pub skill_folders: Vec<SkillFolder>,
    /// The program that `shell` names; `None`: bash.
    #[serde(skip)]
    pub shell_program: Option<String>,
    /// Keys stored by `leftfold auth login`.
    #[serde(skip)]
    pub stored: Keys,
    /// Providers and models besides the built-in ones.
    #[serde(skip)]
    pub(crate) list: ListSource,
    #[serde(skip)]
    pub(crate) known: Option<&'static KnownProviders>,
    /// The sources that were read, weakest first.
    #[serde(skip)]
    pub sources: Vec<Arc<Source>>,
    /// The merged sources; `None` if there are none.
    #[serde(skip)]
    pub(crate) tree: Option<Node>,
    /// Warnings about parts without an effect, for people.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// Whether the path leads to a file that may be executed.
fn is_program(path: &Path) -> bool {
    files::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

/// A folder of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFolder {
    pub path: PathBuf,
    /// Whether the user's own settings name it, not those of a project.
    pub own: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@a string or a boolean")]
#[schemars(untagged, inline)]
pub enum TextOrBoolean {
    #[serde(rename = "a string")]
    Text(String),
    #[serde(rename = "a boolean")]
    Boolean(bool),
}

/// How much of a tool's output a model gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct ToolOutput {
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1), extend("x-default" = Self::default().max_lines))]
    pub max_lines: u64,
    #[serde(deserialize_with = "positive")]
    #[schemars(range(min = 1), extend("x-default" = Self::default().max_bytes))]
    pub max_bytes: u64,
}

impl Default for ToolOutput {
    fn default() -> Self {
        Self { max_lines: 2_000, max_bytes: 51_200 }
    }
}

/// Which addresses the web tool may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct WebFetch {
    /// Addresses that are not public, too: this machine and the networks it is in.
    pub private: bool,
}

/// A search service.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Search {
    /// By default `searxng`.
    pub provider: SearchProvider,
    /// The base address; by default the provider's own.
    url: Option<At<String>>,
    #[serde(rename = "apiKey")]
    api_key: Option<At<Secret>>,
    /// The usual number of results, at most 20.
    #[schemars(range(min = 1))]
    pub results: Option<NonZeroU64>,
}

leftfold_events::debug_fields!(Search {});

/// A process beside a workspace: `leftfold executor`.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Executor {
    /// `HOST:PORT`.
    address: Option<At<String>>,
    /// The text that it wants from nodes.
    token: Option<At<Secret>>,
    /// A file with the certificates of the authority that has signed its own, in PEM; by default those of the system.
    ca: Option<At<String>>,
}

leftfold_events::debug_fields!(Executor {});

impl Executor {
    pub fn address(&self) -> Option<&str> {
        self.address.as_ref().map(|address| address.as_str()).filter(|it| !it.trim().is_empty())
    }

    pub fn token(&self) -> Option<&Secret> {
        self.token.as_deref().filter(|token| !token.is_blank())
    }

    /// The file of the authority. A relative path starts in the folder of the settings file.
    pub fn ca(&self) -> Option<PathBuf> {
        self.ca.as_ref().map(|ca| ca.place().source.path(ca))
    }

    /// An error for each variable that address or token refer to and that is not set.
    pub fn unset(&self) -> impl Iterator<Item = Error> {
        let texts = [&self.address, &self.ca];
        let texts = texts.into_iter().flatten().flat_map(At::unset);
        texts.chain(self.token.iter().flat_map(At::unset))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SearchProvider {
    #[default]
    Searxng,
    Brave,
    Tavily,
    Exa,
}

impl Search {
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.as_str()).filter(|url| !url.trim().is_empty())
    }

    pub fn api_key(&self) -> Option<&Secret> {
        self.api_key.as_deref().filter(|key| !key.is_blank())
    }

    /// An error for each variable that address or key refer to and that is not set.
    pub fn unset(&self) -> impl Iterator<Item = Error> {
        let url = self.url.iter().flat_map(At::unset);
        url.chain(self.api_key.iter().flat_map(At::unset))
    }
}

/// Limits of a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Task {
    /// Milliseconds until it is interrupted.
    #[serde(deserialize_with = "time")]
    #[schemars(range(min = 1), extend("x-default" = Self::default().timeout))]
    pub timeout: u64,
    /// How deeply subagents may be nested; 0: no session may start one.
    #[schemars(extend("x-default" = Self::default().max_depth, "x-option" = "max_depth"))]
    pub max_depth: u32,
}

impl Default for Task {
    fn default() -> Self {
        use leftfold_events::turn_config::{MAX_DEPTH, TASK_TIMEOUT};
        Self { timeout: TASK_TIMEOUT, max_depth: MAX_DEPTH }
    }
}

/// When a long conversation is shortened. Numbers but turns are tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Compaction {
    #[schemars(extend("x-default" = Self::default().auto, "x-option" = "compact"))]
    pub auto: bool,
    #[schemars(extend("x-default" = Self::default().prune, "x-option" = "prune"))]
    pub prune: bool,
    /// By default as much as the model's longest reply, and 20 000 at most.
    #[schemars(extend(
        "x-default" = null,
        "x-note" = "the model's longest reply, 20000 tokens at most",
        "x-option" = "reserved"
    ))]
    pub reserved: Option<u64>,
    #[schemars(extend("x-option" = "tail"))]
    pub tail_turns: Option<u64>,
    #[schemars(extend("x-option" = "tail"))]
    pub preserve_recent_tokens: Option<u64>,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            auto: true,
            prune: true,
            reserved: None,
            tail_turns: None,
            preserve_recent_tokens: None,
        }
    }
}

/// OpenCode's experiments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Experimental {
    /// Whether there is a tool that makes several calls at once.
    pub batch_tool: Option<At<bool>>,
    /// Whether the turn goes on after a person rejected a call without words.
    #[schemars(extend("x-option" = "goes_on_after_rejection"))]
    pub continue_loop_on_deny: bool,
    /// Milliseconds that an MCP server without a `timeout` of its own may take.
    mcp_timeout: Option<NonZeroU64>,
    /// Tools that subagents do not get.
    pub primary_tools: Vec<At<String>>,
    #[serde(rename = "chatMaxRetries")]
    chat_max_retries: Idle<u64>,
    disable_paste_summary: Idle<bool>,
    hook: Idle<Object>,
    #[serde(rename = "openTelemetry")]
    open_telemetry: Idle<bool>,
    policies: Idle<Value>,
}

impl Experimental {
    /// In milliseconds.
    pub fn mcp_timeout(&self) -> Option<u64> {
        self.mcp_timeout.map(|time| time.get().min(NEVER))
    }
}

/// Whether sessions may be written to files for other people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Share {
    /// With `leftfold share`.
    Manual,
    /// As `manual`: nothing is shared by itself.
    Auto,
    /// Never.
    Disabled,
}

/// How often a failed request is tried again, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Retry {
    #[schemars(extend("x-default" = Self::default().attempts, "x-option" = "retries"))]
    pub attempts: u32,
    /// The longest wait that a provider may ask for, in milliseconds, if no person is there.
    #[schemars(extend("x-default" = Self::default().max_wait, "x-option" = "max_wait"))]
    pub max_wait: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 10, max_wait: 600_000 }
    }
}

/// The conversation on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Terminal {
    /// The parts of the status line, in this order. An empty list: there is no status line.
    pub status: Option<Vec<StatusItem>>,
    /// How to call a user whose terminal has not the focus, when a turn has ended or a question waits.
    pub notify: Notify,
    /// Whether lines are only added, and nothing is drawn in place: for screen readers.
    pub plain: bool,
    pub theme: ThemeName,
    pub keys: KeySettings,
}

leftfold_events::named! {
    /// The colours of the conversation.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ThemeName {
        /// Light or dark by the terminal's background. If that is unknown, the sixteen colours of the terminal's own
        /// palette, which suit both.
        #[default]
        Auto = "auto",
        Light = "light",
        Dark = "dark",
        HighContrastLight = "high-contrast-light",
        HighContrastDark = "high-contrast-dark",
    }
}

impl ThemeName {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }
}

/// A part of the status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StatusItem {
    Agent,
    /// Also the variant.
    Model,
    /// How much of the model's context is used.
    Context,
    /// US dollars.
    Cost,
    /// Of the turn.
    Time,
    /// How many prompts wait.
    Queue,
    /// How permission questions are treated.
    Permissions,
    /// The branch that is checked out.
    Branch,
}

impl StatusItem {
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::Model,
        Self::Context,
        Self::Cost,
        Self::Time,
        Self::Queue,
        Self::Permissions,
        Self::Branch,
    ];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notify {
    /// The terminal's bell.
    #[default]
    Bell,
    /// A notification of the desktop, by OSC 9.
    Osc9,
    /// A desktop notification by OSC 777.
    Osc777,
    Off,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    positive(deserializer).map(|time| time.min(NEVER))
}

/// Leaves out entries whose variable is not set.
fn set_secrets<'de, D>(deserializer: D) -> Result<IndexMap<String, Secret>, D::Error>
where
    D: Deserializer<'de>,
{
    let mut secrets = IndexMap::<String, Secret>::deserialize(deserializer)?;
    secrets.retain(|_, secret| !secret.is_blank());
    Ok(secrets)
}

/// Prints the sources, and none of the values, which may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("model", &self.model_name())
            .field("providers", &self.providers.keys().collect::<Vec<_>>())
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

/// The records of requests that are kept beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Record {
    None,
    /// The bytes of body and answer.
    Wire,
}

impl Settings {
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name)
    }

    pub fn model_name(&self) -> Option<&str> {
        self.model.as_ref().map(|model| model.as_str())
    }

    pub fn title(&self) -> bool {
        self.title.unwrap_or(true)
    }

    /// Without a setting, only a small model is asked.
    pub fn summary(&self) -> bool {
        self.summary.unwrap_or(self.small_model.is_some())
    }

    pub fn snapshot(&self) -> bool {
        self.snapshot.unwrap_or(true)
    }

    /// Whether the bytes of every exchange with a provider are kept beside the log.
    pub fn is_recorded(&self) -> bool {
        self.record == Some(Record::Wire)
    }

    /// The place that forbids to share sessions.
    pub fn no_sharing(&self) -> Option<&SettingPlace> {
        self.share.as_ref().filter(|share| ***share == Share::Disabled).map(At::place)
    }

    /// Names of further variables that commands get.
    pub fn environment(&self) -> Vec<String> {
        self.environment.iter().map(|name| name.to_string()).collect()
    }

    /// The sandbox of commands.
    pub fn sandbox(&self) -> SandboxSettings {
        self.sandbox.as_ref().map(Sandbox::settings).unwrap_or_default()
    }

    /// The limits of the project with this worktree.
    pub fn quota_of(&self, worktree: &Path) -> ProjectQuota {
        ProjectQuota::for_project(&self.quota, &self.sources, worktree)
    }

    /// The rules that settings give to one agent. Rules of a project count only if the user trusts them.
    pub fn rules_of(&self, agent: &str) -> Vec<Rule> {
        let said = self.agent_placed_rules.get(agent).map(Vec::as_slice).unwrap_or_default();
        said.iter().filter(|said| self.counts(said)).map(|said| said.rule.clone()).collect()
    }

    /// The place of the value at this path in the merged settings.
    pub fn place_of(&self, path: &[&str]) -> Option<&SettingPlace> {
        let node = path.iter().try_fold(self.tree.as_ref()?, |node, key| node.get(key))?;
        Some(&node.at)
    }

    /// The places of `rules`, in their order.
    pub fn places_of_rules(&self) -> Vec<&SettingPlace> {
        let counting = self.placed_rules.iter().filter(|said| self.counts(said));
        counting.map(|said| &said.place).collect()
    }

    /// The places of the rules that [`Self::rules_of`] gives for an agent, in their order.
    pub fn places_of(&self, agent: &str) -> Vec<&SettingPlace> {
        let said = self.agent_placed_rules.get(agent).map(Vec::as_slice).unwrap_or_default();
        said.iter().filter(|said| self.counts(said)).map(|said| &said.place).collect()
    }

    /// Whether a rule counts like the user's own.
    fn counts(&self, said: &PlacedRule) -> bool {
        !said.is_of_project() || self.trust.covers(said)
    }

    /// Lists of rules that can only make the verdicts on an agent's calls stricter. Rules of a project tighten the user's
    /// rules, unless a later rule of the user says otherwise. Rules that the user has trusted can loosen others, but
    /// never lift a `deny` of the user. An agent that only the project defines has the user's rules for the default agent
    /// and for `general`, too. `built` are the denials that an agent is built with; they restrict it as well, unless the
    /// user trusts rules of that agent.
    pub fn restrictions(&self, agent: &str, built: &dyn Fn(&str) -> Vec<Rule>) -> Vec<Vec<Rule>> {
        let placed = self.placed_restrictions(agent, built).into_iter();
        placed.map(|list| list.into_iter().map(|(rule, _)| rule).collect()).collect()
    }

    /// [`Self::restrictions`], each rule with its origin.
    pub fn placed_restrictions(
        &self,
        agent: &str,
        built: &dyn Fn(&str) -> Vec<Rule>,
    ) -> Vec<Vec<(Rule, String)>> {
        let placed = |said: &PlacedRule| (said.rule.clone(), said.place.to_string());
        let denying = |said: &PlacedRule| (only_denying(said.rule.clone()), said.place.to_string());
        let of_agent = self.agent_placed_rules.get(agent).map(Vec::as_slice).unwrap_or_default();
        let all: Vec<&PlacedRule> = self.placed_rules.iter().chain(of_agent).collect();
        let mut lists = Vec::new();
        if let Some(first) = all.iter().position(|said| !self.counts(said)) {
            lists.push(all.iter().skip(first).map(|said| placed(said)).collect());
        }
        if all.iter().any(|said| said.is_of_project() && self.counts(said)) {
            let own = all.iter().filter(|said| !said.is_of_project());
            lists.push(own.map(|said| denying(said)).collect());
        }
        if self.is_only_of_project(agent) {
            let is_trusted = of_agent.iter().any(|said| said.is_of_project() && self.counts(said));
            for name in [self.users_default_agent(), GENERAL] {
                let said = self.agent_placed_rules.get(name).into_iter().flatten();
                let own = said.filter(|said| !said.is_of_project());
                let built_in = || {
                    let source = format!("built-in agent {name}");
                    built(name).into_iter().map(move |rule| (rule, source.clone()))
                };
                let list: Vec<(Rule, String)> = match is_trusted {
                    true => own.map(denying).collect(),
                    false => built_in().chain(own.map(placed)).collect(),
                };
                if !list.is_empty() {
                    lists.push(list);
                }
            }
        }
        lists
    }

    /// Whether no source of the user mentions this agent, and it is not built in.
    fn is_only_of_project(&self, agent: &str) -> bool {
        !self.own_agents.contains_key(agent) && !BUILT_IN_AGENTS.contains(&agent)
    }

    /// Whether only the project defines this agent, and the user has not trusted the project. Such an agent takes
    /// prompts only if the user names it.
    pub fn is_agent_of_stranger(&self, agent: &str) -> bool {
        self.is_only_of_project(agent) && !self.trust.is_given()
    }

    /// The agent that takes prompts without the project's agents.
    fn users_default_agent(&self) -> &str {
        let named = self.own_default_agent.as_ref().map(|name| name.as_str());
        let named = named.filter(|name| !self.is_only_of_project(name));
        let own = self.own_agents.keys().map(String::as_str);
        let takes_prompts = |name: &&str| match self.own_agents.get(*name) {
            Some(said) => {
                let is_hidden = said.disable || said.hidden == Some(true);
                let built = if BUILT_IN_AGENTS.contains(name) && !PRIMARY_AGENTS.contains(name) {
                    Mode::Subagent
                } else {
                    Mode::All
                };
                !is_hidden && said.mode.unwrap_or(built).is_primary()
            }
            None => true,
        };
        let first = || PRIMARY_AGENTS.into_iter().chain(own).find(takes_prompts);
        named.or_else(first).unwrap_or(PRIMARY_AGENTS[0])
    }

    /// Decides which rules count, when the trust is known.
    pub(crate) fn choose_rules(&mut self) {
        let counting = self.placed_rules.iter().filter(|said| self.counts(said));
        self.rules = counting.map(|said| said.rule.clone()).collect();
    }

    /// The wire formats and providers that this build knows.
    pub(crate) fn known(&self) -> &'static KnownProviders {
        static NONE: LazyLock<KnownProviders> = LazyLock::new(KnownProviders::default);
        self.known.unwrap_or_else(|| &NONE)
    }

    /// Checks conditions across several values, which the types alone cannot.
    pub(crate) fn check(&self, known: &KnownProviders) -> Result<(), Error> {
        self.providers.values().try_for_each(|provider| provider.check(known))?;
        self.agents.values().try_for_each(|agent| agent.check())?;
        self.commands.values().try_for_each(|command| command.check())?;
        self.mcp.values().try_for_each(|server| server.check())?;
        self.plugins.iter().try_for_each(At::<Plugin>::check)?;
        self.sandbox.iter().try_for_each(Sandbox::check)?;
        self.formatter.iter().try_for_each(|formatters| formatters.check())?;
        self.lsp.iter().try_for_each(|servers| servers.check())?;
        self.terminal.keys.keymap()?;
        match self.environment.iter().find(|name| is_credential(name)) {
            Some(name) => Err(name.wrong(
                "a variable that is not a key, token or password (commands never get those)",
                &in_quotes(name),
            )),
            None => Ok(()),
        }
    }

    /// Puts the rules of one source after those of earlier sources; merging objects would lose
    /// their order.
    pub(crate) fn append_rules(&mut self, source: &Self) {
        let network = source.sandbox.as_ref().and_then(Sandbox::network);
        self.placed_rules.extend(network.map(permission::of_network));
        self.placed_rules.extend(permission::rules(&[], &source.tools, source.permission.as_ref()));
        for (name, agent) in &source.agents {
            let holder = ["agent", name];
            let rules = permission::rules(&holder, &agent.tools, agent.permission.as_ref());
            self.agent_placed_rules.entry(name.clone()).or_default().extend(rules);
        }
    }

    /// Finds the program that `shell` names, and warns if there is none. A relative path starts at the settings file.
    pub(crate) fn find_shell(&mut self, env: Env<'_>) {
        let Some(shell) = &self.shell else { return };
        let named = shell.trim();
        let places = match named.contains('/') {
            true => vec![shell.place().source.path(named)],
            false => std::env::split_paths(&env("PATH").unwrap_or_default())
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(named))
                .collect(),
        };
        let may_run = |path: &&PathBuf| {
            is_program(path) && (named.contains('/') || leftfold_programs::counts(path))
        };
        let found = places.iter().find(may_run);
        self.shell_program = found.and_then(|path| Some(path.to_str()?.to_owned()));
        if self.shell_program.is_none() {
            let place = shell.place();
            self.warnings.push(format!(
                "{place}: `shell`: there is no program {named:?}, so commands run in bash"
            ));
        }
    }

    /// Finds the folders of skills, and warns of missing ones.
    pub(crate) fn find_skills(&mut self, directory: &Path) {
        let Some(skills) = &self.skills else { return };
        let worktree = self.trust.worktree.clone();
        for text in skills.paths() {
            let source = &text.place().source;
            let (mut path, here) = (source.path(text), directory.join(text.as_str()));
            if !files::is_dir(&path) && files::is_dir(&here) {
                path = here;
            }
            let path: PathBuf = path.components().collect();
            if !source.reaches(&path, text, &worktree) {
                let (place, path) = (text.place(), path.display());
                self.warnings
                    .push(format!("{place}: {path} is left out: it is outside the project"));
                continue;
            }
            if !files::is_dir(&path) {
                let (place, path) = (text.place(), path.display());
                self.warnings.push(format!("{place}: the skills folder {path} does not exist"));
            }
            self.skill_folders.push(SkillFolder { path, own: !source.of_project });
        }
        if let Some(place) = skills.urls() {
            let what = "`skills.urls` has no effect: skills are read from folders (`skills.paths`)";
            self.warnings.push(format!("{place}: {what}"));
        }
    }
}
