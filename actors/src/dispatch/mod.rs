//! Hands durable intents to the workers that perform them, and reports the work that is lost when a
//! worker dies.

// A new event or effect is considered here.
#![warn(clippy::wildcard_enum_match_arm)]

mod lost;

use std::time::Duration;

use leftfold_events::event::{
    CallKind, CallSpec, Class, Compaction as CompactionEvent, Ended, Event, Files, Finished, Hook,
    Model, Permission as PermissionEvent, Purpose, Session as SessionEvent, Started, Subagent,
    Todo, Tool, Turn,
};
use leftfold_events::sandbox::shows_env_files;
use leftfold_events::state::{Call, ModelStatus, PendingKind, Phase};
use leftfold_events::{
    Envelope, Fact, MessageId, Repeatable, Secrets, Seq, SessionId, State, request_builder,
};
use leftfold_providers::Extra;
use leftfold_tools::{Caller, Instructed, Output, Sandbox, Seen};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort};

use self::lost::{check_lost, request_lost, run_lost};
use crate::children::Children;
use crate::compaction::Compaction;
use crate::hook_secrets::HookSecrets;
use crate::hooks::{self, Hooks};
use crate::messages::{
    Answered, AskModel, CallHook, CheckCall, CompactionMessage, HooksMessage, NodeMessage,
    ParentCall, PermissionMessage, ProcessorMessage, QuestionReply, Right, RunCall, SessionMessage,
    SnapshotsMessage, SwitchAgent, ToolExecutorMessage,
};
use crate::permission::Permission;
use crate::processor::Processor;
use crate::snapshots::{self, Snapshots};
use crate::tool_executor::{self, ToolExecutor};
use crate::wire_record::WireRecord;
use crate::world::World;

/// A session's workers. Those that most turns do not need start with their first work.
pub(crate) struct Workers {
    owner: Owner,
    session: SessionId,
    world: World,
    right: Right,
    processor: ActorRef<ProcessorMessage>,
    executor: ActorRef<ToolExecutorMessage>,
    permission: Option<ActorRef<PermissionMessage>>,
    compaction: Option<ActorRef<CompactionMessage>>,
    snapshots: Option<ActorRef<SnapshotsMessage>>,
    hooks: Option<ActorRef<HooksMessage>>,
    /// Opens children and passes messages to them.
    node: ActorRef<NodeMessage>,
    /// Values that plugins' hooks have returned in this turn, kept until their request or call.
    hook_secrets: HookSecrets,
}

type Owner = ActorRef<SessionMessage>;

impl Workers {
    pub(crate) async fn start(
        owner: &Owner,
        node: ActorRef<NodeMessage>,
        session: SessionId,
        world: World,
        right: Right,
    ) -> Result<Self, ActorProcessingErr> {
        Ok(Self {
            processor: start_processor(owner, &world).await?,
            executor: start_executor(owner, &world, &right).await?,
            permission: None,
            compaction: None,
            snapshots: None,
            hooks: None,
            owner: owner.clone(),
            session,
            world,
            right,
            node,
            hook_secrets: HookSecrets::default(),
        })
    }

    /// Performs an intent before it is durable. False: in this world the call reaches further than the files of this
    /// machine, so it has to wait.
    pub(crate) fn begin(&mut self, intent: Repeatable<'_>, state: &State) -> bool {
        let may_begin = !intent.runs() || self.world.workspace.reads_files_alone();
        if may_begin {
            self.dispatch(intent.intent(), state);
        }
        may_begin
    }

    /// Performs the intent `event`. Facts have no effect, except those that end a wait of a worker.
    /// Every variant is named here, so that a new one does not compile before its worker is
    /// decided.
    pub(crate) fn dispatch(&mut self, envelope: &Envelope, state: &State) {
        let seq = envelope.seq;
        let of = envelope.concerned();
        match &envelope.event {
            Event::Session(event) => match event {
                SessionEvent::Resumed { close, .. }
                | SessionEvent::ResumedImported { close, .. } => {
                    self.ask_again(seq, state);
                    self.children().spawn_again(seq, *close, state);
                }
                SessionEvent::DeadlinePassed {} => {
                    tell_started(self.permission.as_ref(), PermissionMessage::Withdraw { of });
                    self.children().give_up(of, state);
                }
                SessionEvent::Created { .. }
                | SessionEvent::Titled { .. }
                | SessionEvent::Summarised { .. }
                | SessionEvent::Forked { .. }
                | SessionEvent::Adopted { .. }
                | SessionEvent::Imported { .. }
                | SessionEvent::Configured { .. }
                | SessionEvent::RulesSet { .. }
                | SessionEvent::Archived { .. } => {}
            },
            Event::Turn(event) => match event {
                Turn::Ended(_) => self.cancel(),
                Turn::Prompted { .. }
                | Turn::Noted { .. }
                | Turn::Configured(_)
                | Turn::Interrupted { .. }
                | Turn::Switched { .. }
                | Turn::Continued { .. } => {}
            },
            Event::Model(event) => match event {
                Model::Requested { purpose, .. } => self.request(seq, *purpose, state),
                Model::RetryScheduled { .. } => self.to_processor(ProcessorMessage::Cancel),
                Model::Streamed { .. } | Model::Finished { .. } | Model::Failed { .. } => {}
            },
            Event::Tool(event) => match event {
                Tool::ResolveStarted { .. } => self.check(envelope, state),
                Tool::Started { .. } | Tool::StartedSandboxed(_) => {
                    if let Some(started) = event.started() {
                        self.run(envelope, started, state);
                    }
                }
                Tool::Cancelled { .. } => {
                    self.to_executor(ToolExecutorMessage::Cancel { call: of });
                    self.children().interrupt(of, state);
                }
                Tool::Finished(_) => self.to_executor(ToolExecutorMessage::Acknowledge { of }),
                Tool::ElicitationAnswered { elicitation, consent, content, .. } => {
                    let reply = (*consent, content.clone());
                    let reply = ToolExecutorMessage::QuestionReply {
                        call: of,
                        elicitation: *elicitation,
                        reply,
                    };
                    self.to_executor(reply);
                }
                Tool::Called { .. }
                | Tool::InputStreamed { .. }
                | Tool::Resolved(_)
                | Tool::Progressed { .. }
                | Tool::ElicitationRequested { .. }
                | Tool::Lost { .. }
                | Tool::Batched { .. } => {}
            },
            Event::Permission(event) => match event {
                PermissionEvent::Asked { .. } => {
                    self.tell_permission(PermissionMessage::Ask { of: seq });
                }
                PermissionEvent::RejectedWith { .. } => {
                    tell_started(self.permission.as_ref(), PermissionMessage::Withdraw { of });
                }
                PermissionEvent::Ruled { .. }
                | PermissionEvent::Answered { .. }
                | PermissionEvent::AnsweredFor { .. } => {}
            },
            // a `model.requested` follows, which is performed
            Event::Compaction(event) => match event {
                CompactionEvent::Started { .. }
                | CompactionEvent::Finished { .. }
                | CompactionEvent::Failed { .. }
                | CompactionEvent::Pruned { .. }
                | CompactionEvent::Asked { .. }
                | CompactionEvent::AskedWith { .. } => {}
            },
            Event::Subagent(event) => match event {
                Subagent::Spawned { .. } => self.children().spawn(seq, state),
                Subagent::EndedUncounted { .. } | Subagent::Ended { .. } => {}
            },
            Event::Todo(event) => match event {
                Todo::Updated { .. } => {}
            },
            Event::Files(event) => match event {
                Files::SnapshotStarted {} => {
                    // changes are reported only if calls may be their cause
                    let since = state.files.tree.clone().filter(|_| state.files.dirty.is_some());
                    self.tell_snapshots(SnapshotsMessage::Take { of: seq, since });
                }
                Files::RestoreStarted { before, paths, .. } => {
                    let (before, paths) = (before.clone(), paths.clone());
                    self.tell_snapshots(SnapshotsMessage::Restore { of: seq, before, paths });
                }
                Files::Snapshotted { .. }
                | Files::SnapshotFailed { .. }
                | Files::SnapshotFailedAs { .. }
                | Files::RevertAsked { .. }
                | Files::UnrevertAsked { .. }
                | Files::Restored { .. }
                | Files::RestoreFailed { .. }
                | Files::RestoreFailedAs { .. }
                | Files::CheckoutAsked { .. }
                | Files::SnapshotsAccepted { .. } => {}
            },
            Event::Hook(event) => match event {
                Hook::Called { .. } => self.call_hook(seq, state),
                Hook::Returned { .. } => {}
            },
        }
    }

    fn request(&mut self, of: Seq, purpose: Purpose, state: &State) {
        let request = match purpose {
            Purpose::Turn => request_builder::turn_request(state),
            Purpose::Title | Purpose::SessionSummary | Purpose::Compaction => {
                request_builder::asked(state, purpose).request
            }
        };
        let span = tracing::warn_span!("request", seq = of, ?purpose, model = %request.model.id);
        // a prompt in a session of a person's own is answered by the first request of its turn
        let is_first = state.turn.as_ref().is_some_and(|turn| turn.step <= 1);
        let is_own = state.origin.as_ref().is_some_and(|origin| origin.parent.is_none());
        let is_by_user = is_first && is_own && purpose == Purpose::Turn;
        let extra = Extra { is_by_user, ..self.hook_secrets.for_provider(&request.model.provider) };
        let ask = AskModel {
            of,
            span,
            extra,
            request,
            record: self.record(of, state),
            prices: request_builder::model_of(state, purpose).cost,
            patience: Duration::from_millis(state.config.options.timeout),
        };
        match (purpose, state.turn.as_ref().map(|turn| &turn.model_status)) {
            (Purpose::Compaction, Some(ModelStatus::Compacting(compacting))) => {
                let (compaction, ask) = (compacting.started.intent, Box::new(ask));
                let whole = state.wants_whole_summary();
                self.tell_compaction(CompactionMessage::Summarise { compaction, ask, whole });
            }
            (Purpose::Title | Purpose::SessionSummary, _) => {
                self.to_processor(ProcessorMessage::Title(Box::new(ask)));
            }
            _ => self.to_processor(ProcessorMessage::Ask(Box::new(ask))),
        }
    }

    /// Where the exchange of the request `of` is recorded, if the turn configuration says so.
    fn record(&self, of: Seq, state: &State) -> Option<WireRecord> {
        if !state.config.options.record {
            return None;
        }
        let workspace = &self.world.workspace;
        let store = workspace.spill_dir.parent()?;
        Some(WireRecord::new(store, self.session, of, workspace.secrets.clone()))
    }

    fn check(&self, envelope: &Envelope, state: &State) {
        let Some(call) = call(state, envelope.of) else { return };
        let spec = CallSpec {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.arguments().clone(),
        };
        let sandbox = state.config.options.sandbox.clone();
        // a prompt may name any agent, a model only those that take tasks
        let subagents = match state.has_prompt_made(call) {
            true => spec.input.value()["subagentType"].as_str().map(|agent| vec![agent.to_owned()]),
            false => leftfold_tools::subagents(&state.config.tools),
        };
        let offered = state.config.tools.iter().map(|tool| tool.name.clone()).collect();
        let output = state.config.options.output.as_ref();
        let output = output.map(|output| output.schema.clone());
        let of = envelope.seq;
        let check = CheckCall { of, call: spec, sandbox, subagents, offered, output };
        self.to_executor(ToolExecutorMessage::Check(Box::new(check)));
    }

    fn run(&mut self, envelope: &Envelope, started: Started<'_>, state: &State) {
        let attempt = started.attempt;
        let Some(call) = call(state, envelope.of) else { return };
        let Some(resolution) = call.resolved.clone() else { return };
        if !call.is_running() || resolution.class == Class::Child {
            // stopped within the same batch, or run by a session of its own
            return;
        }
        if let Some(agent) = call.switches_to() {
            let agent = agent.to_owned();
            let (of, call, before) = (envelope.seq, call.id.clone(), state.config.clone());
            let switch = SwitchAgent { of, call, agent, before };
            return self.to_executor(ToolExecutorMessage::Switch(Box::new(switch)));
        }
        let span = tracing::warn_span!("call", seq = call.seq, tool = %resolution.name, attempt);
        let run = RunCall {
            of: envelope.seq,
            span,
            call: call.seq,
            id: call.id.clone(),
            caller: Caller {
                session: state.session.to_string(),
                message: state.last_reply().map_or(0, |reply| reply.asked),
                agent: state.agent.clone(),
            },
            attempt,
            resolution,
            variables: self.hook_secrets.take_variables(call.seq),
            sandbox: sandbox(started, state),
            subagents: leftfold_tools::subagents(&state.config.tools),
            todos: state.todos.clone(),
            answers: call.answers.clone(),
            parts: state.parts(call),
            seen: seen(call, state),
            instructed: instructed(envelope.seq, state),
        };
        self.to_executor(ToolExecutorMessage::Run(Box::new(run)));
    }

    /// The outcome of the run `of` that an executor had kept. `None`: the log does not wait for it.
    pub(crate) fn late_outcome(&self, of: Seq, output: Output, state: &State) -> Option<Finished> {
        let call = state.calls().find(|call| call.run() == Some(of))?.id.clone();
        let output = leftfold_tools::received(output, &self.world.workspace, &call);
        Some(tool_executor::finished(call, output))
    }

    fn call_hook(&mut self, of: Seq, state: &State) {
        let Some(asked) = state.plugins.waiting(of).cloned() else { return };
        let question = request_builder::hook_parameters(state, &asked);
        let provider = state.config.model.provider.clone();
        let call = CallHook { of, asked, question, provider };
        self.tell_hooks(HooksMessage::Call(Box::new(call)));
    }

    /// Keeps the values of a hook until their request or call.
    pub(crate) fn keep(&mut self, secrets: HookSecrets) {
        self.hook_secrets.add(secrets);
    }

    /// Asks the questions again that were open before the restart.
    fn ask_again(&mut self, resumed: Seq, state: &State) {
        for (_, wait) in state.open().into_iter().filter(|(kind, _)| *kind == PendingKind::Question)
        {
            if wait.intent < resumed {
                self.tell_permission(PermissionMessage::Ask { of: wait.intent });
            }
        }
    }

    /// Has the workers use this world from now on. Their requests and calls under way keep the old one.
    pub(crate) fn renew(&mut self, world: World) {
        let (models, secrets) = (world.models.clone(), world.workspace.secrets.clone());
        self.to_processor(ProcessorMessage::Use(models.clone(), secrets));
        tell_started(self.compaction.as_ref(), CompactionMessage::Use(models));
        self.to_executor(ToolExecutorMessage::Use(Box::new(world.clone())));
        tell_started(self.hooks.as_ref(), HooksMessage::Use(Box::new(world.clone())));
        self.world = world;
    }

    /// Has the workers hide these secrets from now on.
    pub(crate) fn hide(&mut self, secrets: &Secrets) {
        let mut world = self.world.clone();
        world.hide(secrets);
        self.renew(world);
    }

    fn children(&self) -> Children<'_> {
        Children { session: self.session, node: &self.node }
    }

    /// Reports the end of the turn to the parent's waiting call.
    pub(crate) fn report(&self, parent: ParentCall, ended: &Ended, state: &State) {
        self.children().report(parent, ended, state);
    }

    fn cancel(&mut self) {
        self.hook_secrets = HookSecrets::default();
        self.to_processor(ProcessorMessage::CancelAll);
        self.to_executor(ToolExecutorMessage::CancelAll);
        tell_started(self.permission.as_ref(), PermissionMessage::WithdrawAll);
        tell_started(self.compaction.as_ref(), CompactionMessage::Cancel);
        tell_started(self.snapshots.as_ref(), SnapshotsMessage::Cancel);
        tell_started(self.hooks.as_ref(), HooksMessage::CancelAll);
    }

    pub(crate) fn answer(
        &mut self,
        of: Seq,
        reply: QuestionReply,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
    ) {
        self.tell_permission(PermissionMessage::Answer { of, reply, settles, reply_to });
    }

    fn to_processor(&self, message: ProcessorMessage) {
        tell(&self.processor, message);
    }

    fn to_executor(&self, message: ToolExecutorMessage) {
        tell(&self.executor, message);
    }

    fn tell_permission(&mut self, message: PermissionMessage) {
        tell_lazily(&mut self.permission, message, &self.owner, || {
            (Permission, self.owner.clone())
        });
    }

    fn tell_compaction(&mut self, message: CompactionMessage) {
        tell_lazily(&mut self.compaction, message, &self.owner, || {
            (Compaction, (self.owner.clone(), self.world.models.clone()))
        });
    }

    fn tell_snapshots(&mut self, message: SnapshotsMessage) {
        tell_lazily(&mut self.snapshots, message, &self.owner, || {
            (Snapshots, (self.owner.clone(), self.world.clone(), self.right.owner.clone()))
        });
    }

    fn tell_hooks(&mut self, message: HooksMessage) {
        tell_lazily(&mut self.hooks, message, &self.owner, || {
            (Hooks, (self.owner.clone(), self.world.clone()))
        });
    }

    /// Restarts the dead worker, and reports the outcomes of its intents before seq `before`.
    pub(crate) async fn restart(
        &mut self,
        owner: &Owner,
        who: ActorId,
        state: &State,
        before: Seq,
    ) -> Result<Vec<Fact>, ActorProcessingErr> {
        let mut open = state.open();
        open.retain(|(_, wait)| wait.intent < before);
        let of = |kind| open.iter().filter(move |(k, _)| *k == kind).map(|(_, wait)| wait.intent);
        if who == self.processor.get_id() {
            self.processor = start_processor(owner, &self.world).await?;
            return Ok(of(PendingKind::Request)
                .chain(of(PendingKind::Title))
                .map(request_lost)
                .collect());
        }
        if who == self.executor.get_id() {
            self.executor = start_executor(owner, &self.world, &self.right).await?;
            let checks = state.calls().filter_map(check_lost);
            let lost = checks.chain(state.calls().filter_map(run_lost));
            return Ok(lost.filter(|fact| fact.of < Some(before)).collect());
        }
        if is(self.permission.as_ref(), who) {
            self.permission = None;
            of(PendingKind::Question)
                .for_each(|of| self.tell_permission(PermissionMessage::Ask { of }));
        } else if is(self.compaction.as_ref(), who) {
            self.compaction = None;
            // no other request waits meanwhile
            let compacting = of(PendingKind::Compaction).next().is_some();
            return Ok(of(PendingKind::Request).filter(|_| compacting).map(request_lost).collect());
        } else if is(self.snapshots.as_ref(), who) {
            self.snapshots = None;
            let taking = of(PendingKind::Snapshot).map(|of| snapshots::lost(of, false));
            return Ok(taking
                .chain(of(PendingKind::Restore).map(|of| snapshots::lost(of, true)))
                .collect());
        } else if is(self.hooks.as_ref(), who) {
            self.hooks = None;
            let asked =
                of(PendingKind::Hook).filter_map(|of| Some((of, state.plugins.waiting(of)?)));
            return Ok(asked.map(|(of, asked)| hooks::lost(of, &asked.plugin)).collect());
        }
        Ok(Vec::new())
    }
}

/// Sends a message to a worker. If the worker has died, its supervisor restarts it and reports its
/// work as lost, so the message may be dropped.
fn tell<M: ractor::Message>(worker: &ActorRef<M>, message: M) {
    if worker.cast(message).is_err() {
        tracing::warn!("a worker is gone: a message to it was dropped");
    }
}

/// Sends a message to a worker that has nothing to do with it unless it has started.
fn tell_started<M: ractor::Message>(worker: Option<&ActorRef<M>>, message: M) {
    if let Some(worker) = worker {
        tell(worker, message);
    }
}

/// Sends a message to a worker, which is started if it has not been. What it is given is this session's world as it is
/// now.
fn tell_lazily<A: Actor>(
    worker: &mut Option<ActorRef<A::Msg>>,
    message: A::Msg,
    owner: &Owner,
    start: impl FnOnce() -> (A, A::Arguments),
) {
    if worker.is_none() {
        let (actor, arguments) = start();
        // a worker that fails at its start is one that has died
        match ActorRuntime::spawn_linked_instant(None, actor, arguments, owner.get_cell()) {
            Ok((started, _)) => *worker = Some(started),
            Err(error) => tracing::warn!("a worker cannot be started: {error}"),
        }
    }
    tell_started(worker.as_ref(), message);
}

fn is<M>(worker: Option<&ActorRef<M>>, who: ActorId) -> bool {
    worker.is_some_and(|worker| worker.get_id() == who)
}

fn call(state: &State, of: Option<Seq>) -> Option<&Call> {
    state.calls().find(|call| Some(call.seq) == of)
}

/// How the command that has `started` is confined.
fn sandbox(started: Started<'_>, state: &State) -> Option<Sandbox> {
    let profile = started.sandbox?.clone();
    let options = state.config.options.sandbox.clone()?;
    Some(Sandbox { profile, options, env_files: shows_env_files(&state.config) })
}

/// The versions of the files of `call` that the model was last shown.
fn seen(call: &Call, state: &State) -> Seen {
    let paths = call.resolved.iter().flat_map(|resolved| &resolved.paths);
    paths.filter_map(|path| Some((path.clone(), state.seen.get(path)?.clone()))).collect()
}

/// The instruction files that the model has when the run of seq `started` begins.
fn instructed(started: Seq, state: &State) -> Instructed {
    let files =
        state.config.options.instructions.iter().chain(&state.instructed).cloned().collect();
    let before = |call: &&Call| match &call.phase {
        Phase::Running { wait, .. } => wait.intent < started,
        Phase::Called
        | Phase::Checking(_)
        | Phase::Resolved
        | Phase::MustAsk { .. }
        | Phase::Asking { .. }
        | Phase::Allowed
        | Phase::TimedOut { .. }
        | Phase::Unknown { .. }
        | Phase::Done(_) => false,
    };
    let resolved = state.calls().filter(before).filter_map(|call| call.resolved.as_ref());
    let reading = resolved.filter(|resolved| resolved.kind == CallKind::ShowsFiles);
    Instructed { files, reading: reading.flat_map(|read| &read.paths).map(Into::into).collect() }
}

async fn start_processor(
    owner: &Owner,
    world: &World,
) -> Result<ActorRef<ProcessorMessage>, ActorProcessingErr> {
    let arguments = (owner.clone(), world.models.clone(), world.workspace.secrets.clone());
    Ok(Actor::spawn_linked(None, Processor, arguments, owner.get_cell()).await?.0)
}

async fn start_executor(
    owner: &Owner,
    world: &World,
    right: &Right,
) -> Result<ActorRef<ToolExecutorMessage>, ActorProcessingErr> {
    let arguments = tool_executor::Arguments {
        owner: owner.clone(),
        world: world.clone(),
        right: right.clone(),
    };
    Ok(Actor::spawn_linked(None, ToolExecutor, arguments, owner.get_cell()).await?.0)
}
