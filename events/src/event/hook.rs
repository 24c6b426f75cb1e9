use serde::{Deserialize, Serialize};

use crate::json::Json;

events! {
    /// Hooks: the user's programs are called before something is decided or sent, and return answers.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Hook {
        /// Call a hook of one plugin. `of` is the call, the prompt or the `compaction.started` that it
        /// concerns; it is absent if the hook concerns the next request. The parameters follow from the
        /// state.
        intent Called { plugin: String, hook: HookPoint },
        /// The outcome. `output` is the plugin's answer in the hook's own form, or an empty object. For
        /// headers and variables it contains names, each with a keyed hash of the value.
        fact Returned {
            outcome: HookOutcome,
            output: Json,
            /// The problem, for people.
            message: Option<String>,
        } texts [output, message],
    }
}

crate::named! {
    /// The points at which plugins are called, with the names that plugins use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum HookPoint {
        /// A prompt, before a model sees it.
        #[serde(rename = "chat.message")]
        ChatMessage = "chat.message",
        /// The parameters of a model request.
        #[serde(rename = "chat.params")]
        ChatParams = "chat.params",
        /// The headers of a request.
        #[serde(rename = "chat.headers")]
        ChatHeaders = "chat.headers",
        /// The variables of a command.
        #[serde(rename = "shell.env")]
        ShellEnv = "shell.env",
        /// A call before it is resolved: its arguments, or a veto.
        #[serde(rename = "tool.execute.before")]
        ToolBefore = "tool.execute.before",
        /// A call's output, before a model sees it.
        #[serde(rename = "tool.execute.after")]
        ToolAfter = "tool.execute.after",
        /// The definitions of tools in requests.
        #[serde(rename = "tool.definition")]
        ToolDefinition = "tool.definition",
        /// A question that would go to a person.
        #[serde(rename = "permission.ask")]
        PermissionAsk = "permission.ask",
        /// The system prompt.
        #[serde(rename = "chat.system.transform")]
        System = "chat.system.transform",
        /// The instructions for the model that writes a summary.
        #[serde(rename = "session.compacting")]
        Compacting = "session.compacting",
        /// Credentials for a provider.
        #[serde(rename = "auth")]
        Auth = "auth",
    }
}

impl HookPoint {
    /// The hook of this name. Hooks with the prefix `experimental` in OpenCode are known by that
    /// name too.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("experimental.").unwrap_or(name);
        let name = if name == "system.transform" { "chat.system.transform" } else { name };
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Whether its answer is kept in memory only, with only names in the log.
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::ChatHeaders | Self::ShellEnv | Self::Auth)
    }
}

/// The result of a hook call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOutcome {
    #[serde(alias = "answered")]
    Returned,
    /// The plugin returned an error or an unknown answer. The hook has no effect this time.
    Failed,
    /// The plugin did not answer in time. The turn continues without it.
    TimedOut,
    /// The plugin has ended. The turn continues without it.
    Gone,
}

impl HookOutcome {
    /// Whether the plugin's hooks are not called again in this turn.
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
