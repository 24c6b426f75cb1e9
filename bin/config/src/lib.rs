//! Settings (the configuration files): finds, reads, checks and merges them, and resolves the model to use.
//!
//! Files are JSON with comments, Markdown for agents and commands, or those of Claude Code. Each source is checked by
//! itself, so that an overriding file hides no error, and then merged into the ones before: objects
//! are merged, `plugin` and `instructions` joined, permission rules put after the earlier ones, and
//! everything else replaced. [`load`](load()) reads files and the given variables, and changes
//! nothing.
//!
//! A key of settings is a field of [`Settings`] or of a type below it: serde reads these types from
//! the tree, and `leftfold config --schema` prints them as a JSON Schema. A new key needs its field
//! and nothing else: attributes of the field say whether a project's value needs trust, and how the value is shown
//! (`schema`).
//!
//! | module | content |
//! | --- | --- |
//! | `source`, `sources` | where settings come from, and in which order |
//! | `tree`, `markdown`, `legacy`, `claude_code` | a source as a tree of values with their places |
//! | `typed` | a tree read into Rust types by serde |
//! | `settings`, `provider`, `agent`, `extensions`, `permission` | these types |
//! | `keys` | the keys of the conversation |
//! | `schema` | the same types as a JSON Schema, and what fields say about themselves |
//! | `javascript` | plugins and tools that are written for OpenCode |
//! | `load` | all sources read and merged |
//! | `files` | notes which files were looked at, so that settings are not read again while none has changed |
//! | `models_dev` | the list of providers and models that are not built in |
//! | `resolve` | providers, models and keys |
//! | `auth` | stored keys and sign-ins |
//! | `redacted_view`, `plugin_layers`, `secrecy`, `credentials` | the parts that may be shown to people and plugins |
//! | `diagnosis` | every error |
//! | `fuzzing` | settings from texts instead of files, for `tests/fuzz` |
//! | `sandbox` | the sandbox of commands |
//! | `trust`, `trust_review`, `trust_files`, `private_file` | which settings of a project need the user's consent, and where it is stored |

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make and read files"))]

mod agent;
pub mod auth;
mod claude_code;
mod credentials;
mod error;
mod extensions;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod javascript;
mod keys;
mod legacy;
mod load;
mod markdown;
mod models_dev;
mod permission;
mod plugin_layers;
pub mod private_file;
mod provider;
mod quota;
mod redacted_view;

mod diagnosis;
mod resolve;
mod sandbox;
mod schema;
mod secrecy;
mod settings;
mod source;
mod sources;
mod tree;
mod trust;
mod trust_files;
mod trust_review;
mod typed;
mod worktree;

#[cfg(test)]
mod tests;

pub use agent::{Agent, BUILT_IN_AGENTS, Command, Mode};
pub use auth::token_store;
pub use credentials::{FoundCredentials, credentials_in};
pub use diagnosis::{Diagnosis, diagnose};
pub use error::{Error, Hint};
pub use extensions::{
    Client, Cwd, Formatter, Formatters, LanguageServer, LanguageServers, Mcp, McpKind, OAuth,
    Plugin, PluginCode, PluginProgram,
};
pub use javascript::JavaScript;
pub use keys::{Key, KeyAction, KeyName, KeySettings, Keymap};
pub use load::{Layers, load, load_shared, load_with, review};
pub use models_dev::ListedModel;
pub use provider::{Abilities, Costs, Limits, Model, NEVER, Provider, Script};
pub use quota::{Limit, ProjectQuota, Quota};
pub use redacted_view::{ListedValue, Origin, RedactedView, VisibleValue, redacted_view};
pub use resolve::{BaseUrl, Chosen, KeySource, KeyState, ProviderSummary};
pub use sandbox::{ProgramSandbox, SandboxMode, SandboxSettings};
pub use schema::{options_of_turns, schema};
pub use secrecy::{Secret, has_credential, masked};
pub use settings::{
    Compaction, Executor, Experimental, Notify, Retry, Search, SearchProvider, Settings, Share,
    SkillFolder, StatusItem, Task, Terminal, ThemeName, ToolOutput, WebFetch,
};
pub use source::{Env, SettingPlace, Source, SourceKind, environment, is_outside};
pub use tree::Reference;
pub use trust::{Standing, Trust, TrustItem};
pub use typed::At;
pub use worktree::{is_home, worktree_of};
