//! Resolves calls and runs them. Each call runs in a task of its own, so that the executor can
//! always handle `Cancel`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leftfold_events::event::{
    CallKind, CallSpec, Consent, Event, Finished, Resolution, Todo, Tool,
};
use leftfold_events::{Fact, Json, Secrets, Seq, TurnConfig};
use leftfold_tools::{Context, Elicitation, ElicitationReply, Output, RunKey, Seen, Workspace};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::messages::{
    CheckCall, Elicit, Right, RunCall, SessionMessage, SwitchAgent, ToolExecutorMessage,
};
use crate::report::tell;
use crate::tasks::{Tasks, blocking};
use crate::world::{Recording, TurnConfigs, World};

/// The result for the model of a call whose worker died.
pub(crate) const DIED: &str = "The tool worker died while this call was running. It may have taken \
    effect fully, partly or not at all. Look at the current state before you run it again.";

pub(crate) struct Arguments {
    pub(crate) owner: ActorRef<SessionMessage>,
    pub(crate) world: World,
    pub(crate) right: Right,
}

pub(crate) struct ToolExecutor;

pub(crate) struct Running {
    owner: ActorRef<SessionMessage>,
    workspace: Arc<Workspace>,
    turn_configs: Option<Arc<dyn TurnConfigs>>,
    /// Gives the outcomes in a rerun, instead of the tools.
    recording: Option<Arc<dyn Recording>>,
    right: Right,
    /// By the seq of the `tool.called`.
    calls: HashMap<Seq, RunningCall>,
    tasks: Tasks,
}

/// A call that runs, and what it asks people meanwhile.
struct RunningCall {
    /// The intent that started it.
    of: Seq,
    cancel: CancellationToken,
    secrets: Secrets,
    /// How many elicitations it has made: they are numbered from 1.
    asked: u32,
    replies: HashMap<u32, RpcReplyPort<ElicitationReply>>,
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
        let Arguments { owner, world, right } = arguments;
        let World { workspace, turn_configs, recording, .. } = world;
        let (calls, tasks) = (HashMap::new(), Tasks::default());
        Ok(Running { owner, workspace, turn_configs, recording, right, calls, tasks })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: ToolExecutorMessage,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ToolExecutorMessage::Check(check) => {
                let CheckCall { of, call, sandbox, subagents, offered, output } = *check;
                let mut workspace = calling(&running.workspace, subagents);
                let calling = Arc::make_mut(&mut workspace);
                (calling.sandbox, calling.offered) = (sandbox, Some(offered));
                calling.output = output;
                running.check(of, call, workspace);
            }
            ToolExecutorMessage::Use(world) => {
                let World { workspace, turn_configs, .. } = *world;
                (running.workspace, running.turn_configs) = (workspace, turn_configs);
            }
            ToolExecutorMessage::Run(run) => running.run(myself, *run),
            ToolExecutorMessage::Switch(switch) => running.switch(*switch),
            ToolExecutorMessage::Cancel { call } => {
                if let Some(call) = running.calls.remove(&call) {
                    call.cancel.cancel();
                }
            }
            ToolExecutorMessage::CancelAll => running.cancel_all(),
            ToolExecutorMessage::Acknowledge { of } => running.acknowledge(of),
            ToolExecutorMessage::QuestionReply { call, elicitation, reply } => {
                running.reply(call, elicitation, reply);
            }
            ToolExecutorMessage::Elicit(elicit) => running.elicit(*elicit),
        }
        Ok(())
    }
}

impl Running {
    /// Resolves a call. It reads files, so it may block.
    fn check(&mut self, of: Seq, call: CallSpec, workspace: Arc<Workspace>) {
        let owner = self.owner.clone();
        let failed = unresolved(&call);
        let report = move |resolution: Option<Resolution>| {
            let resolution = Box::new(resolution.unwrap_or(failed));
            tell(&owner, vec![Fact::for_intent(of, Tool::Resolved(resolution))]);
        };
        if let Some(recording) = self.recording.clone() {
            self.tasks.spawn(async move { recording.resolve(of, call).await }, report);
            return;
        }
        self.tasks.spawn_blocking(move || leftfold_tools::resolve(&call, &workspace), report);
    }

    fn run(&mut self, myself: ActorRef<ToolExecutorMessage>, run: RunCall) {
        let RunCall {
            of,
            span,
            call,
            id,
            caller,
            attempt,
            resolution,
            variables,
            sandbox,
            subagents,
            todos,
            answers,
            parts,
            seen,
            instructed,
        } = run;
        let cancel = CancellationToken::new();
        self.calls.retain(|_, call| !call.cancel.is_cancelled());
        let (owner, progress) = (self.owner.clone(), self.owner.clone());
        let workspace = hiding(&calling(&self.workspace, subagents), &variables);
        let secrets = workspace.secrets.clone();
        let run = RunningCall {
            of,
            cancel: cancel.clone(),
            secrets: secrets.clone(),
            asked: 0,
            replies: HashMap::new(),
        };
        self.calls.insert(call, run);
        let context = Context {
            workspace,
            call: id.clone(),
            caller,
            run_key: Some(RunKey { owner: self.right.owner.clone(), seq: of }),
            call_env: format!("{}:{call}:{attempt}", self.right.mark),
            variables,
            sandbox,
            todos,
            answers,
            parts,
            seen,
            instructed,
            cancel: cancel.clone(),
            begin_by: None,
            deadline: Some(Instant::now() + Duration::from_millis(resolution.timeout)),
            progress: Arc::new(move |tail| {
                let tail = secrets.hide(&tail).unwrap_or(tail);
                tell(&progress, vec![Fact::for_intent(of, Tool::Progressed { tail })]);
            }),
            elicit: elicit(myself, of, call),
        };
        let recording = self.recording.clone();
        let name = id.clone();
        let lease = self.right.lease.clone();
        let running = async move {
            let _done = cancel.drop_guard();
            // right before the effect: another node may have taken the session since the intent was durable
            let mut context = context;
            if let Some(lease) = lease {
                context.begin_by = blocking(move || lease.holds()).await.unwrap_or_default();
                if context.begin_by.is_none() {
                    return not_run();
                }
            }
            match recording {
                Some(recording) => recording.run(of, resolution).await,
                None if runs_twice() => {
                    let again = Context { seen: Seen::new(), ..context.clone() };
                    let output = leftfold_tools::run(&resolution, context).await;
                    leftfold_tools::run(&resolution, again).await;
                    output
                }
                None => leftfold_tools::run(&resolution, context).await,
            }
        };
        self.tasks.spawn(running.instrument(span.clone()), move |output| {
            span.in_scope(|| tracing::debug!("the call has ended"));
            let facts = match output {
                Some(output) => outcome(of, name, output),
                None => vec![Fact::for_intent(of, Tool::Finished(Box::new(panicked(name))))],
            };
            tell(&owner, facts);
        });
    }

    /// Numbers what a running call asks, and reports it. The reply comes back by `reply`.
    fn elicit(&mut self, elicit: Elicit) {
        let Elicit { of, call, elicitation: Elicitation { from, message, wanted }, reply_to } =
            elicit;
        // a run that is over is answered by the end of its port
        let Some(run) = self.calls.get_mut(&call).filter(|run| run.of == of) else { return };
        run.asked += 1;
        let elicitation = run.asked;
        run.replies.insert(elicitation, reply_to);
        let mut asked =
            Event::from(Tool::ElicitationRequested { elicitation, from, message, wanted });
        run.secrets.redact(&mut asked);
        tell(&self.owner, vec![Fact::for_intent(of, asked)]);
    }

    fn reply(&mut self, call: Seq, elicitation: u32, reply: ElicitationReply) {
        let run = self.calls.get_mut(&call);
        if let Some(reply_to) = run.and_then(|run| run.replies.remove(&elicitation)) {
            // the tool may have gone on without
            let _ = reply_to.send(reply);
        }
    }

    /// Builds the turn configuration of the agent that takes over. It reads files, so it may block.
    /// It changes nothing, so it may run to its end after a cancel.
    fn switch(&mut self, switch: SwitchAgent) {
        let owner = self.owner.clone();
        let SwitchAgent { of, call, agent, before } = switch;
        if let Some(recording) = self.recording.clone() {
            self.tasks.spawn(async move { recording.switch(of).await }, move |done| {
                let (output, config) = done.unwrap_or_default();
                switched(&owner, of, finished(call, output), config);
            });
            return;
        }
        let configs = self.turn_configs.clone();
        let wanted = agent.clone();
        let build = move || match configs {
            Some(configs) => configs.for_switch(&wanted, &before),
            None => Err("There are no other agents here.".to_owned()),
        };
        self.tasks.spawn_blocking(build, move |config| {
            let failed_itself = || Err("Switching the agent failed unexpectedly.".to_owned());
            let (output, config) = match config.unwrap_or_else(failed_itself) {
                Ok(config) => {
                    (format!("The user has agreed: the agent `{agent}` takes over."), Some(config))
                }
                Err(why) => (why, None),
            };
            let finished = Finished {
                call,
                title: format!("To the agent {agent}"),
                output: output.into(),
                is_error: config.is_none(),
                metadata: Json::from_value(&serde_json::json!({ "agent": agent })),
                spill: None,
                attachments: Vec::new(),
            };
            switched(&owner, of, finished, config);
        });
    }

    /// Tells the executor beside the workspace, if there is one, that the outcome of the run `of` is in the log.
    fn acknowledge(&mut self, of: Seq) {
        let Some(remote) = self.workspace.remote.clone() else { return };
        let run = RunKey { owner: self.right.owner.clone(), seq: of };
        self.tasks.spawn(async move { remote.acknowledge(&run).await }, |_| {});
    }

    fn cancel_all(&mut self) {
        self.calls.drain().for_each(|(_, call)| call.cancel.cancel());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel_all();
        // commands are ended by the task that runs them
        self.tasks.let_go();
    }
}

/// Whether this process runs each call a second time after the first run has ended. Debug builds do so with
/// `LEFTFOLD_SABOTAGE=twice`: the test of resumed sessions must notice the second effect.
fn runs_twice() -> bool {
    cfg!(debug_assertions) && std::env::var("LEFTFOLD_SABOTAGE").is_ok_and(|what| what == "twice")
}

/// The way of the run `of` to people who answer: by the executor, which knows what runs.
fn elicit(executor: ActorRef<ToolExecutorMessage>, of: Seq, call: Seq) -> leftfold_tools::Elicit {
    Arc::new(move |elicitation| {
        let (reply, replied) = ractor::concurrency::oneshot();
        let asked = Elicit { of, call, elicitation, reply_to: reply.into() };
        // an executor that is gone drops the port
        let _ = executor.cast(ToolExecutorMessage::Elicit(Box::new(asked)));
        Box::pin(async move {
            // nobody is asked for a run that is over
            replied.await.unwrap_or((Consent::Cancelled, Json::object()))
        })
    })
}

/// The workspace for a call that may start these `subagents`.
fn calling(workspace: &Arc<Workspace>, subagents: Option<Vec<String>>) -> Arc<Workspace> {
    match subagents.filter(|subagents| *subagents != workspace.subagents) {
        Some(subagents) => Arc::new(Workspace { subagents, ..Workspace::clone(workspace) }),
        None => Arc::clone(workspace),
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
    let todos = output.todos.take().map(|todos| Fact::for_intent(of, Todo::Updated { todos }));
    let finished = Fact::for_intent(of, Tool::Finished(Box::new(finished(call, output))));
    todos.into_iter().chain([finished]).collect()
}

pub(crate) fn finished(call: String, output: Output) -> Finished {
    let Output { title, output, is_error, metadata, spill, attachments, todos: _ } = output;
    let output = output.into();
    Finished { call, title, output, is_error, metadata, spill, attachments }
}

/// The outcome of a call that switches agents, with the new agent's configuration if there is one.
fn switched(
    owner: &ActorRef<SessionMessage>,
    of: Seq,
    finished: Finished,
    config: Option<TurnConfig>,
) {
    let finished = Fact::for_intent(of, Tool::Finished(Box::new(finished)));
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
        output: "The tool failed unexpectedly. Its effect is unknown.".into(),
        is_error: true,
        metadata: Json::object(),
        spill: None,
        attachments: Vec::new(),
    }
}

/// The outcome of a call whose session another node may have. That node's log has no place for it.
fn not_run() -> Output {
    let why = "The call was not run: this node does not own the session any more.";
    Output { is_error: true, ..Output::new("", why, &serde_json::json!({})) }
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
