//! What a tool is, and what it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use leftfold_events::event::{Access, Attachment, CallSpec, Class, Resolution, Spill, TodoItem};
use leftfold_events::state::batch::Part;
use leftfold_events::{Json, Secrets};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::elicit::{self, Elicit};
use crate::homes::Homes;
use crate::host::Host;
use crate::{Error, args};

/// How long a call may run unless its tool says otherwise, in milliseconds.
pub(crate) const TIMEOUT: u64 = 60_000;

/// Takes the last part of what a running tool has printed so far.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// A tool, whatever its arguments are. Built-in ones implement [`Typed`] and get this for free.
pub trait Tool: Send + Sync {
    fn name(&self) -> &'static str;

    /// For the model.
    fn description(&self) -> &'static str;

    /// JSON Schema of the arguments.
    fn schema(&self) -> Json;

    /// Whether models are told of it.
    fn offered(&self) -> bool;

    /// Checks the arguments and resolves the paths. Never has an effect.
    ///
    /// # Errors
    /// Invalid arguments; paths that cannot be resolved.
    fn plan(&self, input: &Json, cx: &Workspace) -> Result<Plan, Error>;

    /// Does what `plan` says, on the paths that stand in it.
    fn run(&self, plan: Plan, cx: Context) -> BoxFuture<'static, Output>;

    /// `plan` as permission rules and the log see it, with any error inside.
    fn resolve(&self, input: &Json, cx: &Workspace) -> Resolution {
        match self.plan(input, cx) {
            Ok(plan) => plan.resolution(self.name()),
            Err(error) => refused(self.name(), input, &error),
        }
    }
}

/// Tools from outside this crate, such as those of MCP servers and of plugins. A built-in tool of the same
/// name comes first.
pub trait ToolSource: fmt::Debug + Send + Sync {
    /// Works out what a call would do; `None` if this source never has a tool of that name. Has no effect.
    /// May block until a source has started that is just being started.
    fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution>;

    /// Runs what [`ToolSource::resolve`] answered; `None` if that is no call of this source's.
    fn run<'a>(
        &'a self,
        resolved: &'a Resolution,
        cx: &'a Context,
    ) -> BoxFuture<'a, Option<Output>>;
}

/// A tool whose arguments are a Rust type, which gives the schema and the checks.
pub(crate) trait Typed: Send + Sync {
    type Args: DeserializeOwned + Serialize + JsonSchema + Send;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const OFFERED: bool = true;

    /// Fills in `class`, `access`, `paths` and `timeout` of a plan.
    fn plan(args: &Self::Args, cx: &Workspace) -> Result<Plan, Error>;

    fn run(
        args: Self::Args,
        paths: Vec<PathBuf>,
        cx: Context,
    ) -> impl Future<Output = Result<Output, Error>> + Send + 'static;
}

impl<T: Typed> Tool for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn description(&self) -> &'static str {
        T::DESCRIPTION.trim_ascii_end()
    }

    fn schema(&self) -> Json {
        args::schema::<T::Args>()
    }

    fn offered(&self) -> bool {
        T::OFFERED
    }

    fn plan(&self, input: &Json, cx: &Workspace) -> Result<Plan, Error> {
        let args: T::Args = args::parse(T::NAME, input)?;
        let plan = T::plan(&args, cx)?;
        Ok(Plan { input: args::normal(&args), ..plan })
    }

    fn run(&self, plan: Plan, cx: Context) -> BoxFuture<'static, Output> {
        match args::parse(T::NAME, &plan.input) {
            Ok(args) => {
                let run = T::run(args, plan.paths, cx);
                Box::pin(async move { run.await.unwrap_or_else(|error| Output::failed(&error)) })
            }
            Err(error) => Box::pin(std::future::ready(Output::failed(&error))),
        }
    }
}

/// What a call would do, with nothing done yet.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arguments under their own names, defaults left out.
    pub input: Json,
    pub class: Class,
    pub access: Vec<Access>,
    /// Absolute, with links resolved.
    pub paths: Vec<PathBuf>,
    /// Milliseconds.
    pub timeout: u64,
}

impl Plan {
    /// A plan that touches no path.
    pub fn new(class: Class) -> Self {
        let access = Vec::new();
        Self { input: Json::object(), class, access, paths: Vec::new(), timeout: TIMEOUT }
    }

    /// `permission` for anything.
    pub(crate) fn allowed_by(mut self, permission: &str) -> Self {
        self.access.push(Access {
            permission: permission.to_owned(),
            patterns: vec!["*".to_owned()],
            always: vec!["*".to_owned()],
        });
        self
    }

    pub(crate) fn resolution(self, name: &str) -> Resolution {
        Resolution {
            name: name.to_owned(),
            input: self.input,
            class: self.class,
            access: self.access,
            // the resolver refuses paths that are not UTF-8, so nothing is lost here
            paths: self.paths.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
            timeout: self.timeout,
            error: None,
        }
    }
}

/// The resolution of a call that cannot be run. `Read`, because it will have no effect.
pub(crate) fn refused(name: &str, input: &Json, error: &Error) -> Resolution {
    let mut refused = Plan { input: input.clone(), ..Plan::new(Class::Read) }.resolution(name);
    refused.error = Some(error.to_string());
    refused
}

/// How much of a tool's output a model is shown (SPEC T4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    pub max_lines: usize,
    pub max_bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { max_lines: 2_000, max_bytes: 51_200 }
    }
}

/// Where a session's tools work.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Relative paths start here; commands too.
    pub directory: PathBuf,
    /// What lies outside needs the permission `external_directory`.
    pub worktree: PathBuf,
    pub limits: OutputLimits,
    /// For full texts of outputs that were cut. Readable by `read` without further permission.
    pub spill_dir: PathBuf,
    /// Whether `webfetch` may reach addresses that are not public, such as this machine's own.
    pub private_addresses: bool,
    /// Where the user's own skills are.
    pub homes: Homes,
    /// Names of variables that commands are given besides the usual ones ([`leftfold_process::environment`]).
    pub environment: Vec<String>,
    /// The agents that `task` may name.
    pub subagents: Vec<String>,
    /// Milliseconds that a `task` may take.
    pub task_timeout: u64,
    /// The data folder, below which snapshots of the worktree are kept; none are without it.
    pub data: Option<PathBuf>,
    /// What stands nowhere but in arguments at the moment of running.
    pub secrets: Secrets,
    /// Where calls go that are of no built-in tool, in this order.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Whoever has files and terminals of its own.
    pub host: Option<Arc<dyn Host>>,
    /// The socket of the session's node, for plugins.
    pub socket: Option<PathBuf>,
}

impl Workspace {
    pub fn new(
        directory: impl Into<PathBuf>,
        worktree: impl Into<PathBuf>,
        spill_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            directory: directory.into(),
            worktree: worktree.into(),
            limits: OutputLimits::default(),
            spill_dir: spill_dir.into(),
            private_addresses: false,
            homes: Homes::of_environment(),
            environment: Vec::new(),
            subagents: Vec::new(),
            task_timeout: leftfold_events::turn_config::TASK_TIMEOUT,
            data: None,
            secrets: Secrets::default(),
            sources: Vec::new(),
            host: None,
            socket: None,
        }
    }
}

/// For the absolute path of a file, its stamp as the model was last told of it.
pub type Seen = BTreeMap<String, String>;

/// What a model has been told of a project's instructions. Paths are absolute, with links resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructed {
    /// Files that it knows: those in its system prompt, and the metadata field `instructions` of
    /// earlier results.
    pub files: BTreeSet<String>,
    /// What calls are reading now that were started before: they tell of what lies on their way.
    pub reading: Vec<PathBuf>,
}

/// What one run of a tool is given.
#[derive(Clone)]
pub struct Context {
    pub workspace: Arc<Workspace>,
    /// The model's id of the call.
    pub call: String,
    /// The value of `LEFTFOLD_CALL` in the environment of what the tool starts.
    pub call_env: String,
    /// More variables for the environment of commands.
    pub variables: Vec<(String, String)>,
    pub todos: Vec<TodoItem>,
    /// What the user said to each question that was asked about the call.
    pub answers: Vec<String>,
    /// What came of the calls that this one brought forth.
    pub parts: Vec<Part>,
    /// From the metadata field `seen` of earlier results. A file that is not in it is not checked.
    pub seen: Seen,
    pub instructed: Instructed,
    pub cancel: CancellationToken,
    /// When the caller will cancel, if it knows: what a tool has to show should be told before.
    pub deadline: Option<Instant>,
    pub progress: Progress,
    pub elicit: Elicit,
}

impl Context {
    /// A call that nobody watches, with an empty list of todos.
    pub fn new(workspace: Arc<Workspace>, call: &str, call_env: &str) -> Self {
        Self {
            workspace,
            call: call.to_owned(),
            call_env: call_env.to_owned(),
            variables: Vec::new(),
            todos: Vec::new(),
            answers: Vec::new(),
            parts: Vec::new(),
            seen: Seen::new(),
            instructed: Instructed::default(),
            cancel: CancellationToken::new(),
            deadline: None,
            progress: Arc::new(|_| {}),
            elicit: elicit::nobody(),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("call", &self.call).finish_non_exhaustive()
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Output {
    /// For people, in one line.
    pub title: String,
    /// For the model.
    pub output: String,
    pub is_error: bool,
    /// An object; `error_kind` is in it when `is_error`.
    pub metadata: Json,
    pub spill: Option<Spill>,
    pub attachments: Vec<Attachment>,
    /// A new list of todos, to replace the old one.
    pub todos: Option<Vec<TodoItem>>,
}

impl Output {
    /// A successful output, with `meta` (an object) for programs.
    pub fn new(title: impl Into<String>, output: impl Into<String>, meta: &Value) -> Self {
        Self {
            title: title.into(),
            output: output.into(),
            metadata: Json::from_value(meta),
            ..Self::default()
        }
    }

    /// An output that tells the model of `error`.
    pub fn failed(error: &Error) -> Self {
        let meta = serde_json::json!({ "error_kind": error.kind() });
        Self { is_error: true, ..Self::new("", error.to_string(), &meta) }
    }

    /// The fields of the metadata.
    pub fn meta(&self) -> Map<String, Value> {
        if let Value::Object(map) = self.metadata.value() { map } else { Map::new() }
    }

    /// Sets one field of the metadata.
    pub fn mark(&mut self, key: &str, value: impl Into<Value>) {
        let mut meta = self.meta();
        meta.insert(key.to_owned(), value.into());
        self.metadata = Json::from_value(&Value::Object(meta));
    }
}
