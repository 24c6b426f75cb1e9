//! The interface of tools: what a tool implements, what a call receives and what it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use futures::future::BoxFuture;
use leftfold_events::event::{
    Access, Attachment, CallKind, CallSpec, Class, FileChange, FilesFailure, Resolution, Saved,
    Spill, TodoItem,
};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::sandbox::{Profile, SandboxOptions};
use leftfold_events::state::batch::BatchPart;
use leftfold_events::{Json, Secrets};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::diff::FilePreview;
use crate::elicit::{self, Elicit};
use crate::formatter::Formatting;
use crate::host::Host;
use crate::language_servers::LanguageServers;
use crate::run_key::{RunKey, SessionOwner};
use crate::search_service::SearchService;
use crate::user_folders::UserFolders;
use crate::{Error, args};

/// Time limit of a call in milliseconds, unless its tool sets another.
pub(crate) const TIMEOUT: u64 = 60_000;

/// Receives the end of a running tool's output so far.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// What a tool does. Rules, previews and editors treat all tools of a kind alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    Read,
    /// Changes the text of files. Its permission is `edit`.
    Edit,
    Search,
    Execute,
    Fetch,
    Think,
    Other,
}

/// A tool with any type of arguments. Built-in tools implement [`Typed`] and get this for free.
pub trait Tool: Send + Sync {
    fn name(&self) -> &'static str;

    /// The description for the model.
    fn description(&self) -> &'static str;

    /// JSON Schema of the arguments.
    fn schema(&self) -> Json;

    fn kind(&self) -> ToolKind {
        ToolKind::Other
    }

    /// Whether models see it in their list of tools.
    fn is_listed(&self) -> bool;

    /// Whether it works in the workspace, wherever that is: with files, commands or pages.
    fn uses_workspace(&self) -> bool {
        false
    }

    /// Checks the arguments and resolves the paths. Never has an effect.
    ///
    /// # Errors
    /// Invalid arguments; paths that cannot be resolved.
    fn plan(&self, input: &Json, cx: &Workspace) -> Result<Plan, Error>;

    /// The files that `plan` would change, for the person who is asked. Reads files, writes nothing.
    ///
    /// # Errors
    /// As for the run; a file is too large to show.
    fn preview(&self, _: Plan, _: &Workspace) -> Result<Vec<FilePreview>, Error> {
        Ok(Vec::new())
    }

    /// Does what `plan` says, on the plan's paths.
    fn run(&self, plan: Plan, cx: Context) -> BoxFuture<'static, Output>;

    /// The resolution of a call: `plan` as permission rules and the log see it, or its error.
    fn resolve(&self, input: &Json, cx: &Workspace) -> Resolution {
        match self.plan(input, cx) {
            Ok(plan) => plan.resolution(self.name()),
            Err(error) => refused(self.name(), input, &error),
        }
    }
}

/// Tools from outside this crate, such as those of MCP servers and plugins. A built-in tool with an
/// equal name comes first.
pub trait ToolSource: fmt::Debug + Send + Sync {
    /// Determines what a call would do, without effect. `None` if this source has no tool of exactly
    /// that name. May block while the source is starting.
    fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution>;

    /// The names of its tools. May block while the source is starting.
    fn names(&self) -> Vec<String>;

    /// Refuses a call whose name belongs to this source, such as a call of a server that has failed.
    /// `None` if the name could belong to any source.
    fn refuse(&self, _: &CallSpec, _: &Workspace) -> Option<Resolution> {
        None
    }

    /// Runs the result of [`ToolSource::resolve`]. `None` if the call is not of this source.
    fn run<'a>(
        &'a self,
        resolved: &'a Resolution,
        cx: &'a Context,
    ) -> BoxFuture<'a, Option<Output>>;
}

/// A snapshot of the files beside an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSnapshot {
    /// The git tree.
    pub tree: String,
    pub files: Vec<FileChange>,
    /// Files that are missing from the snapshot though nothing ignores them.
    pub left_out: Vec<String>,
}

/// Why an executor has taken no snapshot, or has restored nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFailure {
    pub class: FilesFailure,
    pub message: String,
}

/// The outcome of a run whose node was gone when it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LateOutcome {
    /// The seq of the intent that started it.
    pub seq: u64,
    pub output: Output,
}

/// An executor: it runs calls beside a workspace.
pub trait RemoteWorkspace: fmt::Debug + Send + Sync {
    /// Its name in settings.
    fn name(&self) -> &str;

    /// Determines there what a call would do, without effect. Blocks, at most for as long as a call may be checked.
    fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Resolution;

    /// Runs the result of [`RemoteWorkspace::resolve`] there, once for each [`Context::run_key`].
    fn run<'a>(&'a self, resolved: &'a Resolution, cx: &'a Context) -> BoxFuture<'a, Output>;

    /// Ends the runs of earlier owners there and refuses them from now on. Answers the outcomes of the runs `waiting`
    /// (the seqs of their intents) that had ended before.
    ///
    /// # Errors
    /// It cannot be reached, or a later owner has been there. The text is for people.
    fn fence<'a>(
        &'a self,
        owner: &'a SessionOwner,
        waiting: Vec<u64>,
    ) -> BoxFuture<'a, Result<Vec<LateOutcome>, String>>;

    /// Takes a snapshot of the files there, and lists what has changed since the tree `since`. Asking twice does no harm.
    ///
    /// # Errors
    /// As for a snapshot of this machine, or it cannot be reached, or a later owner has been there.
    fn snapshot<'a>(
        &'a self,
        owner: &'a SessionOwner,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>>;

    /// Gives each file there the content that it has in its tree. The answer lists the changes since the tree `before`.
    /// Asking twice does no harm.
    ///
    /// # Errors
    /// As for [`Self::snapshot`]. If it cannot be reached, nobody knows what the files are.
    fn restore<'a>(
        &'a self,
        owner: &'a SessionOwner,
        before: &'a str,
        paths: &'a [Saved],
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>>;

    /// Says that the outcome of a run is in the log. If that does not arrive, the executor keeps the outcome for some
    /// days.
    fn acknowledge<'a>(&'a self, run: &'a RunKey) -> BoxFuture<'a, ()>;
}

/// A tool whose arguments are a Rust type. The type provides the schema and the checks.
pub(crate) trait Typed: Send + Sync {
    type Args: DeserializeOwned + Serialize + JsonSchema + Send + 'static;
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const KIND: ToolKind = ToolKind::Other;
    const LISTED: bool = true;
    const USES_WORKSPACE: bool = false;

    /// Drops arguments that this tool does not know in this workspace.
    fn known(args: Self::Args, _: &Workspace) -> Self::Args {
        args
    }

    /// Plans a call: `class`, `access`, `paths`, `timeout` and `kind`.
    fn plan(args: &Self::Args, cx: &Workspace) -> Result<Plan, Error>;

    /// The files that a call would change. Tools of the kind `Edit` have them.
    fn preview(_: &Self::Args, _: Vec<PathBuf>, _: &Workspace) -> Result<Vec<FilePreview>, Error> {
        Ok(Vec::new())
    }

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

    fn kind(&self) -> ToolKind {
        T::KIND
    }

    fn is_listed(&self) -> bool {
        T::LISTED
    }

    fn uses_workspace(&self) -> bool {
        T::USES_WORKSPACE
    }

    fn plan(&self, input: &Json, cx: &Workspace) -> Result<Plan, Error> {
        let args = T::known(args::parse(T::NAME, input)?, cx);
        let plan = T::plan(&args, cx)?;
        Ok(Plan { input: args::normal(&args), ..plan })
    }

    fn preview(&self, plan: Plan, cx: &Workspace) -> Result<Vec<FilePreview>, Error> {
        T::preview(&args::parse(T::NAME, &plan.input)?, plan.paths, cx)
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

/// The effects that a call would have. Making a plan has none.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arguments under their own names, without defaults.
    pub input: Json,
    pub class: Class,
    pub access: Vec<Access>,
    /// Absolute, with links resolved.
    pub paths: Vec<PathBuf>,
    /// Time limit in milliseconds.
    pub timeout: u64,
    /// Special handling of the call by the session, in addition to running it.
    pub kind: CallKind,
}

impl Plan {
    /// A plan that touches no path.
    pub fn new(class: Class) -> Self {
        Self {
            input: Json::object(),
            class,
            access: Vec::new(),
            paths: Vec::new(),
            timeout: TIMEOUT,
            kind: CallKind::Plain,
        }
    }

    /// Requires `permission` for the pattern `*`.
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
            kind: self.kind,
        }
    }
}

/// The resolution of a call that cannot be run. Its class is `Read`, because it has no effect.
pub(crate) fn refused(name: &str, input: &Json, error: &Error) -> Resolution {
    let mut refused = Plan { input: input.clone(), ..Plan::new(Class::Read) }.resolution(name);
    refused.error = Some(error.to_string());
    refused
}

/// The truncation limit: how much of a tool's output a model sees.
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

/// The place where a session's tools work, and its settings.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The folder where relative paths start and commands run.
    pub directory: PathBuf,
    /// Paths outside need the permission `external_directory`.
    pub worktree: PathBuf,
    pub limits: OutputLimits,
    /// Folder for the full texts of cut outputs. `read` may read it without further permission.
    pub spill_dir: PathBuf,
    /// Whether `webfetch` may reach addresses that are not public, such as this machine's own.
    pub private_addresses: bool,
    /// The services of the tools `websearch` and `codesearch`; `None`: there is no such tool.
    pub websearch: Option<SearchService>,
    pub codesearch: Option<SearchService>,
    /// The formatters of files that calls write; `None`: they stay as they are written.
    pub formatting: Option<Arc<Formatting>>,
    /// The language servers that check files which calls write; `None`: none is in force.
    pub language_servers: Option<Arc<dyn LanguageServers>>,
    /// The user's own folders, for skills.
    pub user_folders: UserFolders,
    /// Variables that commands get in addition to the usual ones
    /// ([`leftfold_process::environment`]).
    pub environment: Vec<String>,
    /// The program that runs command lines; `None`: `bash`, or `sh` where there is none.
    pub shell: Option<String>,
    /// The agents that `task` may name.
    pub subagents: Vec<String>,
    /// The names of the tools that the agent is offered, for errors. `None`: all built-in ones.
    pub offered: Option<Vec<String>>,
    /// The JSON Schema of the answer that the turn asks for.
    pub output: Option<Json>,
    /// Time limit of a `task` in milliseconds.
    pub task_timeout: u64,
    /// The data folder, below which snapshots of the worktree are kept. Without it there are none.
    pub data: Option<PathBuf>,
    /// Values of secrets. They are inserted into arguments only when a call runs.
    pub secrets: Secrets,
    /// Tools from outside this crate, asked in this order.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// A program with files and terminals of its own, such as an editor.
    pub host: Option<Arc<dyn Host>>,
    /// The executor beside the workspace. `None`: the workspace is on this machine.
    pub remote: Option<Arc<dyn RemoteWorkspace>>,
    /// The socket of the session's node, for plugins.
    pub socket: Option<PathBuf>,
    /// The sandbox of the turn's commands; `None`: the turn configuration knows none.
    pub sandbox: Option<SandboxOptions>,
    /// Patterns of the rules about `read` that ask or deny. If a shell line reads a folder or a file that is not
    /// known, rules see the files with these names.
    pub guarded: Vec<String>,
}

/// The patterns in `rules` that [`Workspace::guarded`] has.
pub fn guarded<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<String> {
    let is_strict = |rule: &&Rule| {
        rule.action != Action::Allow
            && rule.pattern != "*"
            && rule.permission != "*"
            && rules::matches(&rule.permission, "read")
    };
    let mut patterns: Vec<String> =
        rules.into_iter().filter(is_strict).map(|rule| rule.pattern.clone()).collect();
    patterns.sort();
    patterns.dedup();
    patterns
}

/// The shell: bash if it is installed.
static SHELL: LazyLock<&str> =
    LazyLock::new(|| if leftfold_programs::find("bash").is_ok() { "bash" } else { "sh" });

/// The program that runs command lines unless settings name another: `bash`, or `sh` where there is none.
pub fn shell() -> &'static str {
    &SHELL
}

impl Workspace {
    /// Whether a call that reads files reaches nothing else: no editor is asked for unsaved text, no language
    /// server is started for the file, and the files are on this machine.
    pub fn reads_files_alone(&self) -> bool {
        self.host.is_none() && self.language_servers.is_none() && self.remote.is_none()
    }

    /// The program that runs command lines.
    pub(crate) fn shell(&self) -> &str {
        self.shell.as_deref().unwrap_or(shell())
    }

    pub fn new(
        directory: impl Into<PathBuf>,
        worktree: impl Into<PathBuf>,
        spill_dir: impl Into<PathBuf>,
    ) -> Self {
        let worktree = worktree.into();
        leftfold_programs::distrust(&worktree);
        Self {
            directory: directory.into(),
            worktree,
            limits: OutputLimits::default(),
            spill_dir: spill_dir.into(),
            private_addresses: false,
            websearch: None,
            codesearch: None,
            formatting: None,
            language_servers: None,
            user_folders: UserFolders::of_environment(),
            environment: Vec::new(),
            shell: None,
            subagents: Vec::new(),
            offered: None,
            output: None,
            task_timeout: leftfold_events::turn_config::TASK_TIMEOUT,
            data: None,
            secrets: Secrets::default(),
            sources: Vec::new(),
            host: None,
            remote: None,
            socket: None,
            sandbox: None,
            guarded: guarded(&rules::defaults()),
        }
    }
}

/// The stamp of each file when the model last saw it, by absolute path.
pub type Seen = BTreeMap<String, String>;

/// The instructions that a model knows. Paths are absolute, with links resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructed {
    /// Files that it knows: those in its system prompt, and those in the metadata field
    /// `instructions` of earlier results.
    pub files: BTreeSet<String>,
    /// Files that earlier calls are reading now. Their results will bring the instructions on the
    /// way.
    pub reading: Vec<PathBuf>,
}

/// How a command is confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// The profile that `tool.started` records.
    pub profile: Profile,
    /// The session's options. Their paths `hide` and `show` count here.
    pub options: SandboxOptions,
    /// Whether it sees the project's files of variables, such as `.env`.
    pub env_files: bool,
}

/// The context of one run of a tool.
#[derive(Clone)]
pub struct Context {
    pub workspace: Arc<Workspace>,
    /// The model's id of the call.
    pub call: String,
    pub caller: Caller,
    /// Names this run to an executor. `None` outside a session.
    pub run_key: Option<RunKey>,
    /// The value of `LEFTFOLD_CALL` in the environment of the processes that the tool starts.
    pub call_env: String,
    /// Further variables for the environment of commands.
    pub variables: Vec<(String, String)>,
    /// How a command is confined. `None`: it is not.
    pub sandbox: Option<Sandbox>,
    pub todos: Vec<TodoItem>,
    /// The user's answer to each question of the call.
    pub answers: Vec<String>,
    /// The results of a batch's entries.
    pub parts: Vec<BatchPart>,
    /// The files that the model has seen, from the metadata field `seen` of earlier results. Other
    /// files are not checked.
    pub seen: Seen,
    pub instructed: Instructed,
    pub cancel: CancellationToken,
    /// Until when commands may begin. Later, another machine may do this work.
    pub begin_by: Option<Instant>,
    /// Time at which the caller will cancel, if known. A tool should report its output before.
    pub deadline: Option<Instant>,
    pub progress: Progress,
    pub elicit: Elicit,
}

/// The session that makes a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Empty outside a session.
    pub session: String,
    /// The seq of the request to the model whose reply has the call.
    pub message: u64,
    pub agent: String,
}

impl Context {
    /// A context that reports no progress, with an empty list of todos.
    pub fn new(workspace: Arc<Workspace>, call: &str, call_env: &str) -> Self {
        Self {
            workspace,
            call: call.to_owned(),
            caller: Caller::default(),
            run_key: None,
            call_env: call_env.to_owned(),
            variables: Vec::new(),
            sandbox: None,
            todos: Vec::new(),
            answers: Vec::new(),
            parts: Vec::new(),
            seen: Seen::new(),
            instructed: Instructed::default(),
            cancel: CancellationToken::new(),
            begin_by: None,
            deadline: None,
            progress: Arc::new(|_| {}),
            elicit: elicit::nobody_to_ask(),
        }
    }
}

leftfold_events::debug_fields!(Context { call });

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Output {
    /// A title for people, in one line.
    pub title: String,
    /// The output for the model.
    pub output: String,
    pub is_error: bool,
    /// An object. It has `error_kind` if `is_error`.
    pub metadata: Json,
    pub spill: Option<Spill>,
    pub attachments: Vec<Attachment>,
    /// A new list of todos that replaces the old one.
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

    /// An output that reports `error` to the model.
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
