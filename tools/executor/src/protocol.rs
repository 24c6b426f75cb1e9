//! The messages. Each is one line of JSON, as JSON-RPC 2.0.
//!
//! | method | parameters | result |
//! | --- | --- | --- |
//! | `hello` | [`Hello`] | `{}`; it comes first |
//! | `describe` | `{}` | [`Described`] |
//! | `resolve` | [`Resolve`] | a resolution, as in `tool.resolved` |
//! | `fence` | [`Fence`] | a list of [`Late`] |
//! | `run` | [`Run`] | an [`Outcome`]; before it, notifications `progress` with `tail` |
//! | `acknowledge` | [`RunKey`] | `{}` |
//! | `snapshot` | [`TakeSnapshot`] | a [`Kept`] |
//! | `restore` | [`Restore`] | a [`Kept`] |
//! | `compare` | [`Compare`] | for each pair of trees the files that differ, or `null` if one is not kept |
//! | `contents` | [`Contents`] | for each object its content in Base64, or `null` if it is not kept; only the first ones if they are large |
//!
//! After `run`, the node may send the notification `cancel`. A connection that ends cancels nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use leftfold_events::event::{Attachment, CallSpec, Resolution, Saved, Spill};
use leftfold_events::sandbox::{Backend, Profile, SandboxOptions};
use leftfold_events::secrets::Secret;
use leftfold_events::{Json, Secrets};
use leftfold_tools::{
    Caller, Context, Instructed, Output, OutputLimits, RemoteFailure, RemoteSnapshot, RunKey,
    Sandbox, Seen, SessionOwner, Workspace,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of the protocol. Both sides must have the same.
pub(crate) const VERSION: u32 = 1;

/// The longest message in bytes, once the token was right.
pub(crate) const LONGEST: usize = 64 << 20;

/// Error codes.
pub(crate) const UNAUTHORIZED: i64 = -32_001;
/// A later owner of the session has been here.
pub(crate) const FENCED: i64 = -32_002;
/// The run had begun before the executor was started anew.
pub(crate) const LOST: i64 = -32_003;
/// Another call has been run under this name.
pub(crate) const OTHER: i64 = -32_004;
pub(crate) const FAILED: i64 = -32_603;
pub(crate) const INVALID: i64 = -32_602;
pub(crate) const UNKNOWN_METHOD: i64 = -32_601;

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Value,
}

/// An answer or a notification of the executor.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) params: Value,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<RpcError>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

pub(crate) fn request(method: &str, params: &impl Serialize) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(crate) fn answer(outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": 1, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": 1, "error": error }),
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) token: String,
}

/// An executor's workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The folder where relative paths start and commands run.
    pub directory: PathBuf,
    pub worktree: PathBuf,
    /// Whether the worktree is a git repository.
    pub git: bool,
    /// The name of the operating system.
    pub platform: String,
    /// From the worktree down to the directory.
    pub instructions: Vec<InstructionFile>,
    pub skills: Vec<ListedSkill>,
    /// Whether it takes snapshots of files.
    #[serde(default)]
    pub snapshots: bool,
    /// Files that were left out, and why.
    pub problems: Vec<String>,
    /// The sandbox of commands.
    pub backend: Backend,
    /// Why it is none of the stronger ones.
    pub why: String,
    /// Whether the worktree is a home folder there, or holds one.
    #[serde(default)]
    pub home: bool,
}

/// A file with instructions of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionFile {
    pub source: String,
    /// With links resolved.
    pub path: PathBuf,
    pub text: String,
    pub line: usize,
    pub cut: bool,
}

/// A skill that the tool `skill` finds there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSkill {
    pub name: String,
    pub description: String,
    pub path: PathBuf,
}

/// The parts of a node's settings and turn configuration that matter to calls in a workspace.
#[derive(Serialize, Deserialize)]
pub(crate) struct Circumstances {
    max_lines: usize,
    max_bytes: usize,
    private_addresses: bool,
    guarded: Vec<String>,
    sandbox: Option<SandboxOptions>,
    subagents: Vec<String>,
    offered: Option<Vec<String>>,
    environment: Vec<String>,
    shell: Option<String>,
    /// Names and values of the secrets that the call names.
    secrets: Vec<(String, String)>,
}

impl Circumstances {
    pub(crate) fn from_workspace(cx: &Workspace, input: &Json) -> Self {
        let secrets = cx.secrets.named_in(input).into_iter();
        Self {
            max_lines: cx.limits.max_lines,
            max_bytes: cx.limits.max_bytes,
            private_addresses: cx.private_addresses,
            guarded: cx.guarded.clone(),
            sandbox: cx.sandbox.clone(),
            subagents: cx.subagents.clone(),
            offered: cx.offered.clone(),
            environment: cx.environment.clone(),
            shell: cx.shell.clone(),
            secrets: secrets.map(|secret| (secret.name, secret.value)).collect(),
        }
    }

    /// Applies them to the executor's own workspace.
    ///
    /// # Errors
    /// Gigabytes of secrets.
    pub(crate) fn apply(self, cx: &mut Workspace) -> Result<(), String> {
        let secret = |(name, value)| Secret { name, value, usable: true };
        let secrets = Secrets::new(self.secrets.into_iter().map(secret));
        cx.secrets = secrets.map_err(|error| error.to_string())?;
        cx.limits = OutputLimits { max_lines: self.max_lines, max_bytes: self.max_bytes };
        cx.private_addresses = self.private_addresses;
        cx.guarded = self.guarded;
        cx.sandbox = self.sandbox;
        cx.subagents = self.subagents;
        cx.offered = self.offered;
        cx.environment = self.environment;
        cx.shell = self.shell;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) call: CallSpec,
    pub(crate) circumstances: Circumstances,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Fence {
    pub(crate) owner: SessionOwner,
    /// The runs whose outcomes the log does not have.
    pub(crate) waiting: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TakeSnapshot {
    pub(crate) owner: SessionOwner,
    /// The tree to compare with.
    pub(crate) since: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Restore {
    pub(crate) owner: SessionOwner,
    /// The tree of the files before.
    pub(crate) before: String,
    pub(crate) paths: Vec<Saved>,
}

/// The outcome of `snapshot` and `restore`.
pub(crate) type Kept = Result<RemoteSnapshot, RemoteFailure>;

#[derive(Serialize, Deserialize)]
pub(crate) struct Compare {
    pub(crate) pairs: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) objects: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Late {
    pub(crate) seq: u64,
    pub(crate) outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Confined {
    profile: Profile,
    options: SandboxOptions,
    env_files: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) key: RunKey,
    pub(crate) resolution: Resolution,
    pub(crate) circumstances: Circumstances,
    /// The model's id of the call.
    call: String,
    message: u64,
    agent: String,
    variables: Vec<(String, String)>,
    confined: Option<Confined>,
    seen: Seen,
    instructed: BTreeSet<String>,
    reading: Vec<PathBuf>,
    /// How long a command may still begin, in milliseconds.
    pub(crate) begin_within: Option<u64>,
}

impl Run {
    pub(crate) fn from_key(key: &RunKey, resolution: &Resolution, cx: &Context) -> Self {
        let confined = cx.sandbox.clone().map(|Sandbox { profile, options, env_files }| Confined {
            profile,
            options,
            env_files,
        });
        Self {
            key: key.clone(),
            resolution: resolution.clone(),
            circumstances: Circumstances::from_workspace(&cx.workspace, &resolution.input),
            call: cx.call.clone(),
            message: cx.caller.message,
            agent: cx.caller.agent.clone(),
            variables: cx.variables.clone(),
            confined,
            seen: cx.seen.clone(),
            instructed: cx.instructed.files.clone(),
            reading: cx.instructed.reading.clone(),
            begin_within: None,
        }
    }

    /// The context of the run at the executor. `hide` are paths that commands do not see there.
    pub(crate) fn context(
        self,
        mut workspace: Workspace,
        call_env: &str,
        hide: &[String],
    ) -> Result<(Resolution, Context), String> {
        self.circumstances.apply(&mut workspace)?;
        let caller = Caller {
            session: self.key.owner.session.to_string(),
            message: self.message,
            agent: self.agent,
        };
        let sandbox = self.confined.map(|Confined { profile, mut options, env_files }| {
            options.hide.extend_from_slice(hide);
            Sandbox { profile, options, env_files }
        });
        let context = Context {
            caller,
            variables: self.variables,
            sandbox,
            seen: self.seen,
            instructed: Instructed { files: self.instructed, reading: self.reading },
            ..Context::new(std::sync::Arc::new(workspace), &self.call, call_env)
        };
        Ok((self.resolution, context))
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    title: String,
    output: String,
    is_error: bool,
    metadata: Json,
    spill: Option<Spill>,
    attachments: Vec<Attachment>,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        // tools that change the to-do list run on the node
        let Output { title, output, is_error, metadata, spill, attachments, todos: _ } = output;
        Self { title, output, is_error, metadata, spill, attachments }
    }
}

impl From<Outcome> for Output {
    fn from(outcome: Outcome) -> Self {
        let Outcome { title, output, is_error, metadata, spill, attachments } = outcome;
        Self { title, output, is_error, metadata, spill, attachments, todos: None }
    }
}
