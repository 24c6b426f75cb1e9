//! Settings, agents, models, commands, projects, files and terminals: what a client shows beside sessions.

use std::path::PathBuf;

use leftfold_events::rules::Rule;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::session::PermissionRule;
use super::{Free, MapOf};

shapes! {
    /// The settings in effect. `***` stands for a secret.
    Config {
        "$schema"?: String,
        model?: String,
        small_model?: String,
        default_agent?: String,
        username?: String,
        agent?: MapOf<Free>,
        mode?: MapOf<Free>,
        command?: MapOf<Free>,
        provider?: MapOf<Free>,
        mcp?: MapOf<Free>,
        permission?: Free,
        skills?: { paths?: Vec<String>, urls?: Vec<String> },
        theme?: String,
        keybinds?: Free,
        snapshot?: bool,
        compaction?: Free,
        instructions?: Vec<String>,
        plugin?: Vec<String>,
        disabled_providers?: Vec<String>,
        enabled_providers?: Vec<String>,
        ..
    }

    MCPStatusConnected { status = "connected" }
    MCPStatusDisabled { status = "disabled" }
    /// The first prompt starts it.
    MCPStatusPending { status = "pending" }
    MCPStatusFailed { status = "failed", error: String }
    MCPStatusNeedsAuth { status = "needs_auth" }
    MCPStatusNeedsClientRegistration { status = "needs_client_registration", error: String }

    /// A sign-in at an MCP server that was begun. Its page leads to a code, or back to this machine.
    McpAuthorization { authorizationUrl: String, oauthState: String }
    McpSignedOut { success: bool }

    Health { healthy: bool, version: String }
    ExperimentalCapabilities { backgroundSubagents: bool }
    ConsoleState { consoleManagedProviders: Vec<String>, switchableOrgCount: u64 }

    /// Providers that can be used, and the default model of each.
    ConfigProviders { providers: Vec<Provider>, default: MapOf<String> }

    ProviderList { all: Vec<Provider>, default: MapOf<String>, connected: Vec<String> }

    Provider {
        id: String,
        name: String,
        source = "env" | "config" | "custom" | "api",
        env: Vec<String>,
        options: Free,
        models: MapOf<Model>,
    }

    Model {
        id: String,
        providerID: String,
        api: { id: String, url: String, npm: String },
        name: String,
        family?: String,
        capabilities: {
            temperature: bool,
            reasoning: bool,
            attachment: bool,
            toolcall: bool,
            input: ModelMedia,
            output: ModelMedia,
            interleaved: bool,
        },
        cost: { input: f64, output: f64, cache: { read: f64, write: f64 } },
        limit: { context: u64, output: u64 },
        status = "alpha" | "beta" | "deprecated" | "active",
        options: Free,
        headers: MapOf<String>,
        release_date: String,
        variants?: MapOf<Free>,
    }

    /// The kinds of content that a model takes or gives.
    ModelMedia { text: bool, audio: bool, image: bool, video: bool, pdf: bool }

    /// A way to sign in at a provider.
    ProviderAuthMethod {
        type = "oauth" | "api",
        label: String,
        prompts?: Vec<ProviderAuthPrompt>,
    }

    ProviderAuthPrompt {
        type = "text" | "select",
        key: String,
        message: String,
        placeholder?: String,
        options?: Vec<ProviderAuthOption>,
        when?: { key: String, op = "eq" | "neq", value: String },
    }

    ProviderAuthOption { label: String, value: String, hint?: String }

    /// A sign-in that was begun.
    ProviderAuthAuthorization { url: String, method = "auto" | "code", instructions: String }

    Skill { name: String, description?: String, location: String, content: String }
    FormatterStatus { name: String, extensions: Vec<String>, enabled: bool }
    LSPStatus { id: String, name: String, root: String, status = "connected" | "error" }
    /// A tool, and the JSON schema of its arguments.
    ToolListItem { id: String, description: String, parameters: Value }

    /// Folders: of the user, of the data, of settings, and those of the request.
    Path { home: String, state: String, config: String, worktree: String, directory: String }

    Project {
        id: String,
        worktree: String,
        vcs? = "git",
        name?: String,
        icon?: Free,
        commands?: Free,
        time: { created: u64, updated: u64, initialized?: u64 },
        sandboxes: Vec<String>,
    }

    ProjectDirectory { directory: String, strategy?: String }

    LocationInfo { directory: String, project: { id: String, directory: String } }

    FileSystemEntry { path: String, type = "file" | "directory" }

    VcsInfo { branch?: String, default_branch?: String }
    VcsFileStatus {
        file: String,
        additions: u64,
        deletions: u64,
        status = "added" | "deleted" | "modified",
    }
    File { path: String, added: u64, removed: u64, status = "added" | "deleted" | "modified" }

    FileNode {
        name: String,
        path: String,
        absolute: String,
        type = "file" | "directory",
        ignored: bool,
    }

    FileContent { type = "text" | "binary", content: String, encoding? = "base64" }

    /// A line that matches a search.
    FoundLine {
        path: { text: String },
        lines: { text: String },
        line_number: u64,
        absolute_offset: u64,
        submatches: Vec<Value>,
    }

    Shell { path: String, name: String, acceptable: bool }
    /// A way to a terminal for a client that cannot send the password. It is valid for `expires_in` seconds.
    PtyTicketConnectToken { ticket: String, expires_in: u64 }

    /// A fork of a run, by Leftfold's id.
    RunFork { session: String }
    /// Data of Leftfold's page. Its members change with the page.
    RunBlock { .. }

    /// A control of a terminal: the path of the request, and its body.
    TuiControl { path: String, body: Value }

    /// The sessions for Leftfold's page, and their totals. Their members change with the page.
    Overview { sessions: Vec<Free>, totals: Free, is_all: bool }
}

unions! {
    MCPStatus = MCPStatusConnected | MCPStatusDisabled | MCPStatusPending | MCPStatusFailed | MCPStatusNeedsAuth
        | MCPStatusNeedsClientRegistration;
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) description: String,
    #[schemars(extend("enum" = ["subagent", "primary", "all"]))]
    pub(crate) mode: &'static str,
    pub(crate) native: bool,
    pub(crate) hidden: bool,
    /// The rules for its calls, the last of which counts.
    #[schemars(with = "Vec<PermissionRule>")]
    pub(crate) permission: Vec<Rule>,
    /// Its options for requests to models, without secrets.
    pub(crate) options: Free,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<AgentModel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) color: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
    #[serde(rename = "topP", skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct AgentModel {
    #[serde(rename = "providerID")]
    pub(crate) provider: String,
    #[serde(rename = "modelID")]
    pub(crate) id: String,
}

/// A slash command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Command {
    pub(crate) name: String,
    pub(crate) description: String,
    #[schemars(extend("enum" = ["command", "mcp", "skill"]))]
    pub(crate) source: &'static str,
    pub(crate) template: String,
    pub(crate) hints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subtask: Option<bool>,
}

/// A terminal of the person who uses the server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Pty {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: PathBuf,
    #[schemars(extend("enum" = ["running", "exited"]))]
    pub(crate) status: &'static str,
    pub(crate) pid: u32,
}

/// The shape of a list in the form of the second version of the API.
#[derive(Debug, JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "lists are built as JSON")]
pub(crate) struct Located<T> {
    location: LocationInfo,
    data: Vec<T>,
}
