//! Works out what calls would do, and runs them. Each runs as a task of its own, so that the
//! executor always has an ear for `Cancel`.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use leftfold_events::event::{CallSpec, Finished, Resolution, Todo, TodoItem, Tool};
use leftfold_events::state::batch::Part;
use leftfold_events::{Fact, Json, Seq};
use leftfold_tools::{Context, Instructed, Output, Reply, Seen, Workspace};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::CancellationToken;

use crate::inquiries::Inquiries;
use crate::report::tell;
use crate::rerun::Tape;
use crate::session::SessionMessage;

/// What the model is told of a call whose worker died.
pub(crate) const DIED: &str = "The tool worker died while this call was running. It may have taken \
    effect fully, partly or not at all. Look at the current state before you run it again.";

pub(crate) enum ToolExecutorMessage {
    Check {
        of: Seq,
        call: CallSpec,
    },
    Run(Box<Run>),
    /// Stop the call whose `model.called` is `call`.
    Cancel {
        call: Seq,
    },
    CancelAll,
    /// What a running call has asked is answered.
    Reply {
        call: Seq,
        inquiry: u32,
        reply: Reply,
    },
}

/// A call to run, for the intent `of`.
pub(crate) struct Run {
    pub(crate) of: Seq,
    /// The seq of its `model.called`.
    pub(crate) call: Seq,
    /// The model's id for it.
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) resolution: Box<Resolution>,
    /// More variables for what it starts.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) todos: Vec<TodoItem>,
    /// What people said to the questions about it.
    pub(crate) answers: Vec<String>,
    /// What came of the calls that it brought forth.
    pub(crate) parts: Vec<Part>,
    /// What the model knows of the call's files.
    pub(crate) seen: Seen,
    /// And of instructions.
    pub(crate) instructed: Instructed,
}

pub(crate) struct Arguments {
    pub(crate) owner: ActorRef<SessionMessage>,
    pub(crate) workspace: Arc<Workspace>,
    /// What answers in place of the tools.
    pub(crate) tape: Option<Arc<Tape>>,
    /// `STORE:SESSION`, the beginning of what marks this session's processes.
    pub(crate) tag: String,
}

pub(crate) struct ToolExecutor;

pub(crate) struct Running {
    owner: ActorRef<SessionMessage>,
    workspace: Arc<Workspace>,
    tape: Option<Arc<Tape>>,
    tag: String,
    calls: HashMap<Seq, CancellationToken>,
    inquiries: Inquiries,
}

impl Actor for ToolExecutor {
    type Msg = ToolExecutorMessage;
    type State = Running;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        arguments: Arguments,
    ) -> Result<Running, ActorProcessingErr> {
        let Arguments { owner, workspace, tape, tag } = arguments;
        let (calls, inquiries) = (HashMap::new(), Inquiries::default());
        Ok(Running { owner, workspace, tape, tag, calls, inquiries })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: ToolExecutorMessage,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ToolExecutorMessage::Check { of, call } => running.check(of, call),
            ToolExecutorMessage::Run(run) => running.run(*run),
            ToolExecutorMessage::Cancel { call } => {
                if let Some(token) = running.calls.remove(&call) {
                    token.cancel();
                }
            }
            ToolExecutorMessage::CancelAll => running.cancel_all(),
            ToolExecutorMessage::Reply { call, inquiry, reply } => {
                running.inquiries.reply(call, inquiry, reply);
            }
        }
        Ok(())
    }
}

impl Running {
    /// Looks at files, so it may block.
    fn check(&self, of: Seq, call: CallSpec) {
        let (owner, workspace) = (self.owner.clone(), Arc::clone(&self.workspace));
        if let Some(tape) = self.tape.clone() {
            tokio::spawn(async move {
                let resolution = Box::new(tape.resolve(of, call).await);
                tell(&owner, vec![Fact::of(of, Tool::Resolved(resolution))]);
            });
            return;
        }
        tokio::task::spawn_blocking(move || {
            let resolve = || leftfold_tools::resolve(&call, &workspace);
            let resolution = std::panic::catch_unwind(AssertUnwindSafe(resolve))
                .unwrap_or_else(|_| unresolved(&call));
            tell(&owner, vec![Fact::of(of, Tool::Resolved(Box::new(resolution)))]);
        });
    }

    fn run(&mut self, run: Run) {
        let Run {
            of,
            call,
            id,
            attempt,
            resolution,
            variables,
            todos,
            answers,
            parts,
            seen,
            instructed,
        } = run;
        let cancel = CancellationToken::new();
        self.calls.retain(|_, token| !token.is_cancelled());
        self.calls.insert(call, cancel.clone());
        let (owner, progress) = (self.owner.clone(), self.owner.clone());
        let workspace = hiding(&self.workspace, &variables);
        let secrets = workspace.secrets.clone();
        let inquiries = self.inquiries.clone();
        inquiries.forget(call);
        let inquire = inquiries.of_run(of, call, self.owner.clone(), secrets.clone());
        let context = Context {
            workspace,
            call: id.clone(),
            call_env: format!("{}:{call}:{attempt}", self.tag),
            variables,
            todos,
            answers,
            parts,
            seen,
            instructed,
            cancel: cancel.clone(),
            deadline: Some(Instant::now() + Duration::from_millis(resolution.timeout)),
            progress: Arc::new(move |tail| {
                let tail = secrets.hide(&tail).unwrap_or(tail);
                tell(&progress, vec![Fact::of(of, Tool::Progressed { tail })]);
            }),
            inquire,
        };
        let tape = self.tape.clone();
        tokio::spawn(async move {
            let _done = cancel.drop_guard();
            let running = AssertUnwindSafe(async {
                match tape {
                    Some(tape) => tape.run(of, resolution).await,
                    None => leftfold_tools::run(&resolution, context).await,
                }
            });
            let facts = match running.catch_unwind().await {
                Ok(output) => outcome(of, id, output),
                Err(_) => vec![Fact::of(of, Tool::Finished(Box::new(panicked(id))))],
            };
            inquiries.forget(call);
            tell(&owner, facts);
        });
    }

    fn cancel_all(&mut self) {
        self.calls.drain().for_each(|(_, token)| token.cancel());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

/// The workspace for a call with these variables: those that are credentials by their names are kept
/// out of what is said of it.
fn hiding(workspace: &Arc<Workspace>, variables: &[(String, String)]) -> Arc<Workspace> {
    let secret = variables.iter().filter(|(name, _)| leftfold_tools::is_credential(name));
    let mut secret = secret.cloned().peekable();
    if secret.peek().is_none() {
        return Arc::clone(workspace);
    }
    let mut hiding = Workspace::clone(workspace);
    match hiding.secrets.and(secret) {
        Ok(secrets) => hiding.secrets = secrets,
        Err(error) => tracing::warn!("variables of plugins: {error}"),
    }
    Arc::new(hiding)
}

fn outcome(of: Seq, call: String, output: Output) -> Vec<Fact> {
    let Output { title, output, is_error, metadata, spill, attachments, todos } = output;
    let finished = Finished { call, title, output, is_error, metadata, spill, attachments };
    let todos = todos.map(|todos| Fact::of(of, Todo::Updated { todos }));
    todos.into_iter().chain([Fact::of(of, Tool::Finished(Box::new(finished)))]).collect()
}

fn panicked(call: String) -> Finished {
    Finished {
        call,
        title: String::new(),
        output: "The tool failed unexpectedly. Its effect is unknown.".to_owned(),
        is_error: true,
        metadata: Json::object(),
        spill: None,
        attachments: Vec::new(),
    }
}

fn unresolved(call: &CallSpec) -> Resolution {
    Resolution {
        name: call.name.clone(),
        input: call.input.clone(),
        class: leftfold_events::event::Class::Command,
        access: Vec::new(),
        paths: Vec::new(),
        timeout: 0,
        error: Some("The call was not run: checking it failed unexpectedly.".to_owned()),
    }
}
