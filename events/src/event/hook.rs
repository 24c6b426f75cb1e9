use serde::{Deserialize, Serialize};

use crate::json::Json;

/// What programs of the user's are asked before something is decided or sent, and what they say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// A hook is put to one plugin. `of` is the call, the prompt or the `compaction.started` that it is
    /// about; absent where it is about the request that comes next. What the plugin is told follows
    /// from the state.
    Called { plugin: String, hook: HookPoint },
    /// What came of it. `output` has what the plugin says, in the hook's own form, and an empty
    /// object if it says nothing; of headers and variables it has names, each with a keyed hash of the
    /// value.
    Returned {
        outcome: HookOutcome,
        output: Json,
        /// What is wrong, for people.
        message: Option<String>,
    },
}

/// Where plugins have a say (SPEC X1), by the names that they use themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookPoint {
    /// A prompt, before a model is shown it.
    #[serde(rename = "chat.message")]
    ChatMessage,
    /// How a model is asked.
    #[serde(rename = "chat.params")]
    ChatParams,
    /// Headers of the request.
    #[serde(rename = "chat.headers")]
    ChatHeaders,
    /// Variables for a command.
    #[serde(rename = "shell.env")]
    ShellEnv,
    /// A call, before it is looked into: its arguments, or that it is not to be.
    #[serde(rename = "tool.execute.before")]
    ToolBefore,
    /// A call's output, before a model is shown it.
    #[serde(rename = "tool.execute.after")]
    ToolAfter,
    /// What models are told of tools.
    #[serde(rename = "tool.definition")]
    ToolDefinition,
    /// A question that a person would be asked.
    #[serde(rename = "permission.ask")]
    PermissionAsk,
    /// The system prompt.
    #[serde(rename = "chat.system.transform")]
    System,
    /// What a model is told that is to write a summary.
    #[serde(rename = "session.compacting")]
    Compacting,
    /// Credentials for a provider.
    #[serde(rename = "auth")]
    Auth,
}

impl HookPoint {
    pub const ALL: [Self; 11] = [
        Self::ChatMessage,
        Self::ChatParams,
        Self::ChatHeaders,
        Self::ShellEnv,
        Self::ToolBefore,
        Self::ToolAfter,
        Self::ToolDefinition,
        Self::PermissionAsk,
        Self::System,
        Self::Compacting,
        Self::Auth,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ChatMessage => "chat.message",
            Self::ChatParams => "chat.params",
            Self::ChatHeaders => "chat.headers",
            Self::ShellEnv => "shell.env",
            Self::ToolBefore => "tool.execute.before",
            Self::ToolAfter => "tool.execute.after",
            Self::ToolDefinition => "tool.definition",
            Self::PermissionAsk => "permission.ask",
            Self::System => "chat.system.transform",
            Self::Compacting => "session.compacting",
            Self::Auth => "auth",
        }
    }

    /// The hook of this name. Those that are called experimental elsewhere are known by that name too.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("experimental.").unwrap_or(name);
        let name = if name == "system.transform" { "chat.system.transform" } else { name };
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Whether what it answers is kept in memory alone, and names of it in the log.
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::ChatHeaders | Self::ShellEnv | Self::Auth)
    }
}

/// How a plugin has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    #[serde(alias = "answered")]
    Returned,
    /// With an error, or with something that the hook does not know: it has no say this once.
    Failed,
    /// Not in time: the turn goes on without it.
    TimedOut,
    /// It has ended: likewise.
    Gone,
}

impl HookOutcome {
    /// Whether the plugin is not asked anything more in this turn.
    pub const fn cuts_off(self) -> bool {
        matches!(self, Self::TimedOut | Self::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_have_the_same_name_in_logs_and_on_the_wire() {
        for hook in HookPoint::ALL {
            assert_eq!(serde_json::to_value(hook).unwrap(), hook.name());
            assert_eq!(HookPoint::named(hook.name()), Some(hook));
        }
        for (name, hook) in [
            ("experimental.chat.system.transform", Some(HookPoint::System)),
            ("system.transform", Some(HookPoint::System)),
            ("experimental.session.compacting", Some(HookPoint::Compacting)),
            ("tool.execute", None),
            ("", None),
        ] {
            assert_eq!(HookPoint::named(name), hook, "{name}");
        }
    }
}
