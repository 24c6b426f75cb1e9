//! Resolves calls and runs them. Each call runs in a task of its own, so that the executor can
//! always handle `Cancel`.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use leftfold_events::event::{CallKind, CallSpec, Finished, Resolution, Todo, Tool};
use leftfold_events::{Fact, Json, Seq, TurnConfig};
use leftfold_tools::{Context, Output, Workspace};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::elicitations::Elicitations;
use crate::messages::{RunCall, SessionMessage, SwitchAgent, ToolExecutorMessage};
use crate::report::tell;
use crate::world::{Recording, TurnConfigs, World};

/// The result for the model of a call whose worker died.
pub(crate) const DIED: &str = "The tool worker died while this call was running. It may have taken \
    effect fully, partly or not at all. Look at the current state before you run it again.";

pub(crate) struct Arguments {
    pub(crate) owner: ActorRef<SessionMessage>,
    pub(crate) world: World,
    /// `STORE:SESSION`, the prefix of the marks of this session's processes.
    pub(crate) tag: String,
}

pub(crate) struct ToolExecutor;

pub(crate) struct Running {
    owner: ActorRef<SessionMessage>,
    workspace: Arc<Workspace>,
    turn_configs: Option<Arc<dyn TurnConfigs>>,
    /// Gives the outcomes in a rerun, instead of the tools.
    recording: Option<Arc<dyn Recording>>,
    tag: String,
    calls: HashMap<Seq, CancellationToken>,
    elicitations: Elicitations,
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
        let Arguments { owner, world, tag } = arguments;
        let World { workspace, turn_configs, recording, .. } = world;
        let (calls, elicitations) = (HashMap::new(), Elicitations::default());
        Ok(Running { owner, workspace, turn_configs, recording, tag, calls, elicitations })
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
            ToolExecutorMessage::Switch(switch) => running.switch(*switch),
            ToolExecutorMessage::Cancel { call } => {
                if let Some(token) = running.calls.remove(&call) {
                    token.cancel();
                }
            }
            ToolExecutorMessage::CancelAll => running.cancel_all(),
            ToolExecutorMessage::Reply { call, elicitation, reply } => {
                running.elicitations.reply(call, elicitation, reply);
            }
        }
        Ok(())
    }
}

impl Running {
    /// Resolves a call. It reads files, so it may block.
    fn check(&self, of: Seq, call: CallSpec) {
        let (owner, workspace) = (self.owner.clone(), Arc::clone(&self.workspace));
        if let Some(recording) = self.recording.clone() {
            tokio::spawn(async move {
                let resolution = Box::new(recording.resolve(of, call).await);
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

    fn run(&mut self, run: RunCall) {
        let RunCall {
            of,
            span,
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
        let elicitations = self.elicitations.clone();
        elicitations.forget(call);
        let elicit = elicitations.of_run(of, call, self.owner.clone(), secrets.clone());
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
            elicit,
        };
        let recording = self.recording.clone();
        let running = async move {
            let _done = cancel.drop_guard();
            let running = AssertUnwindSafe(async {
                match recording {
                    Some(recording) => recording.run(of, resolution).await,
                    None => leftfold_tools::run(&resolution, context).await,
                }
            });
            let facts = match running.catch_unwind().await {
                Ok(output) => outcome(of, id, output),
                Err(_) => vec![Fact::of(of, Tool::Finished(Box::new(panicked(id))))],
            };
            tracing::debug!("the call has ended");
            elicitations.forget(call);
            tell(&owner, facts);
        };
        tokio::spawn(running.instrument(span));
    }

    /// Builds the turn configuration of the agent that takes over. It reads files, so it may block.
    /// It changes nothing, so it may run to its end after a cancel.
    fn switch(&self, switch: SwitchAgent) {
        let owner = self.owner.clone();
        let SwitchAgent { of, call, agent, before } = switch;
        if let Some(recording) = self.recording.clone() {
            tokio::spawn(async move {
                let (output, config) = recording.switch(of).await;
                switched(&owner, of, finished(call, output), config);
            });
            return;
        }
        let configs = self.turn_configs.clone();
        tokio::task::spawn_blocking(move || {
            let build = || match configs {
                Some(configs) => configs.for_switch(&agent, &before),
                None => Err("There are no other agents here.".to_owned()),
            };
            let config = std::panic::catch_unwind(AssertUnwindSafe(build))
                .unwrap_or_else(|_| Err("Switching the agent failed unexpectedly.".to_owned()));
            let (output, config) = match config {
                Ok(config) => {
                    (format!("The user has agreed: the agent `{agent}` takes over."), Some(config))
                }
                Err(why) => (why, None),
            };
            let finished = Finished {
                call,
                title: format!("To the agent {agent}"),
                output,
                is_error: config.is_none(),
                metadata: Json::from_value(&serde_json::json!({ "agent": agent })),
                spill: None,
                attachments: Vec::new(),
            };
            switched(&owner, of, finished, config);
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

/// The workspace for a call with these variables. Values of variables with names of credentials are
/// hidden from its output.
fn hiding(workspace: &Arc<Workspace>, variables: &[(String, String)]) -> Arc<Workspace> {
    let secret = variables.iter().filter(|(name, _)| leftfold_events::secrets::is_credential(name));
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

fn outcome(of: Seq, call: String, mut output: Output) -> Vec<Fact> {
    let todos = output.todos.take().map(|todos| Fact::of(of, Todo::Updated { todos }));
    let finished = Fact::of(of, Tool::Finished(Box::new(finished(call, output))));
    todos.into_iter().chain([finished]).collect()
}

fn finished(call: String, output: Output) -> Finished {
    let Output { title, output, is_error, metadata, spill, attachments, todos: _ } = output;
    Finished { call, title, output, is_error, metadata, spill, attachments }
}

/// The outcome of a call that switches agents, with the new agent's configuration if there is one.
fn switched(
    owner: &ActorRef<SessionMessage>,
    of: Seq,
    finished: Finished,
    config: Option<TurnConfig>,
) {
    let finished = Fact::of(of, Tool::Finished(Box::new(finished)));
    let Some(config) = config else { return tell(owner, vec![finished]) };
    let outcome =
        SessionMessage::Outcome { config: Box::new(config), finished: Box::new(finished) };
    if owner.cast(outcome).is_err() {
        tracing::debug!("the session is gone: a switch of agents was dropped");
    }
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
        kind: CallKind::Plain,
    }
}
