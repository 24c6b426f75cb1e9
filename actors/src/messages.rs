//! Every message of every actor: the protocol of this crate on one page.
//!
//! | actor | message | sent by |
//! |---|---|---|
//! | Node | [`NodeMessage`] | clients; sessions, about their children; its own tasks |
//! | Session | [`SessionMessage`] | clients, through Node; its workers, with outcomes |
//! | Processor | [`ProcessorMessage`] | its session |
//! | ToolExecutor | [`ToolExecutorMessage`] | its session; running calls, with questions |
//! | Permission | [`PermissionMessage`] | its session |
//! | Compaction | [`CompactionMessage`] | its session |
//! | Snapshots | [`SnapshotsMessage`] | its session |
//! | Hooks | [`HooksMessage`] | its session |
//! | Observers | [`ObserversMessage`] | Node, sessions and the tasks that serve sinks |
//! | a client's own actor | [`Observation`] | the task that serves it |
//!
//! Messages go down by `cast`; outcomes come back up as facts in a [`SessionMessage`], each with the
//! `of` of the intent that it answers. Workers never talk to one another. Reply ports are for clients
//! alone: an actor that waits for another's answer in its handler would stop the tree.
//!
//! This module defines types and holds no behaviour. It knows no actor, so that each actor needs to
//! know only this page.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{
    Access, Answer, CallSpec, Ended, Resolution, Saved, Session as SessionEvent, TodoItem,
};
use leftfold_events::sandbox::SandboxOptions;
use leftfold_events::state::PendingHook;
use leftfold_events::state::batch::BatchPart;
use leftfold_events::turn_config::Prices;
use leftfold_events::{
    Envelope, Fact, Json, MessageId, Request, Secrets, Seq, SessionId, State, Time, TurnConfig,
};
use leftfold_providers::{Credentials, Extra};
use leftfold_store::{Lease, LiveReader, Store};
use leftfold_tools::{
    Caller, Elicitation, ElicitationReply, Instructed, Sandbox, Seen, SessionOwner,
};
use ractor::{ActorRef, RpcReplyPort};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::Span;

use crate::hook_secrets::{HookSecrets, Values};
use crate::recorded::Recorded;
use crate::wire_record::WireRecord;
use crate::world::{Models, World};

// ---- Node ----

/// To the root of the tree, which opens sessions and passes messages on to them.
#[derive(Debug)]
pub enum NodeMessage {
    /// From a client: open a session, or join one that is open.
    Open { open: Box<OpenSession>, reply: RpcReplyPort<Result<Opened, Error>> },
    /// From a client, or from Node's tasks: pass a message on to an open session. One that rests is
    /// opened again first.
    Tell { session: SessionId, message: SessionMessage },
    /// From a client: hand a session's events to a sink, as [`Observation`]s.
    Watch(Watch),
    /// From a client: a reader of the store of an open session.
    Reading { session: SessionId, reply: RpcReplyPort<Option<LiveReader>> },
    /// From Node's tasks: a session that was opened, or that died, has been started on its log.
    Started(Box<StartedSession>),
    /// From a client: the sessions that are open.
    ListOpen { reply: RpcReplyPort<Vec<ListedSession>> },
    /// From a client: keep a store that this process has opened until the node ends, and be
    /// reachable there, whether or not a session in it is open.
    Hold(Store),
    /// From a client: tell `listener` from now on which stores this node holds.
    Keep(Arc<dyn StoreListener>),
    /// From a session: one of its calls has started a child. Its end comes back to the session as the
    /// facts `subagent.ended` and `tool.finished`.
    Spawn(Box<SpawnChild>),
    /// From Node's own task: the child's configuration is built.
    OpenChild(Box<ReadyChild>),
    /// From Node's own timer: restart a session that died.
    Reopen { session: SessionId },
    /// From Node's own task: a store for waiting sessions was opened, or could not be opened.
    StoreOpened { store: PathBuf, outcome: Result<Store, Error> },
    /// From Node's own timer: close the sessions without a turn that were not used for the time
    /// `idle`. They are opened again when they are next used.
    Sweep { idle: Duration },
    /// From a client: close a session as it is; a turn in progress stays interrupted in its log.
    /// The reply comes when the store is released.
    Close { session: SessionId, reply: RpcReplyPort<()> },
    /// From Node's own timer: open the sessions that wait for room.
    Admit,
    /// From Node's own task: a session had no turn when it was asked, after `sent` messages to it.
    /// It is closed unless it was sent another one since.
    Rest { session: SessionId, sent: u64 },
}

/// The outcome of starting a session.
#[derive(Debug)]
pub struct StartedSession {
    pub(crate) open: Box<OpenSession>,
    pub(crate) store: Store,
    pub(crate) outcome: Result<Started, Error>,
}

/// A session that has just been started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) actor: ActorRef<SessionMessage>,
    /// The beginning of the marks of its processes.
    pub(crate) mark: String,
    /// The end of its log.
    pub(crate) head: Seq,
    /// Whether its last turn was interrupted.
    pub(crate) unfinished: bool,
    /// The turn configuration in force.
    pub(crate) config: Box<TurnConfig>,
}

/// An open session of a node.
#[derive(Clone, Copy, Debug)]
pub struct ListedSession {
    pub session: SessionId,
    /// Whether its turn, if it has one, is at work. Otherwise that was interrupted and not resumed yet, or the session
    /// has died.
    pub is_at_work: bool,
}

/// A session to open.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// The folder of its store; created if it does not exist.
    pub store: PathBuf,
    pub session: SessionId,
    pub world: World,
    /// The first event of a new log that is not a fork. It is written with the first prompt.
    pub created_event: SessionEvent,
    /// The session that a new log is a fork of, and the last shared event. `session.forked` is
    /// written at [`SessionMessage::Begin`].
    pub fork_of: Option<(SessionId, Seq)>,
}

/// The result of opening a session.
#[derive(Debug)]
pub struct Opened {
    /// The last seq in its log.
    pub head: Seq,
    /// Whether its last turn was interrupted.
    pub unfinished: bool,
    /// How its last turn ended.
    pub ended: Option<Box<Ended>>,
    /// Questions that still wait for an answer: their intents and accesses.
    pub questions: Vec<(Seq, Access)>,
    /// Becomes `Some` with the reason when the session is closed permanently.
    pub closed: watch::Receiver<Option<String>>,
}

/// Makes a node reachable in the stores that it holds. Its methods and guards use a store's folder
/// only while the node has the store's lock.
pub trait StoreListener: Debug + Send + Sync {
    /// The node holds the store in this folder.
    fn hold(&self, store: &Path) -> Box<dyn StoreGuard>;
}

/// A store that the node holds. The guard is dropped while the node still has the lock.
pub trait StoreGuard: Debug + Send {
    /// Every session in the store rests, so the node is about to release it.
    fn rest(self: Box<Self>);
}

/// A call of a session that waits for a child session.
#[derive(Clone, Debug)]
pub struct ParentCall {
    pub(crate) session: SessionId,
    /// The `subagent.spawned`, and its time.
    pub(crate) spawned: Seq,
    pub(crate) since: Time,
    /// The `tool.started`.
    pub(crate) started: Seq,
    /// The model's id of the call.
    pub(crate) call: String,
}

/// A child to open or to continue.
#[derive(Debug)]
pub struct SpawnChild {
    pub(crate) parent: ParentCall,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    /// The session that it is forked from before it gets anything.
    pub(crate) fork_of: Option<SessionId>,
    pub(crate) title: String,
    pub(crate) prompt: String,
    /// The parent's configuration, with the child's share of its cost limit.
    pub(crate) config: TurnConfig,
    /// Whether a node that has ended may already have spawned it.
    pub(crate) again: bool,
    /// Whether its turn is only to be ended.
    pub(crate) close: bool,
}

/// A child whose turn configuration is built.
#[derive(Debug)]
pub struct ReadyChild {
    pub(crate) open: Box<OpenSession>,
    pub(crate) spawn: Box<SpawnChild>,
    pub(crate) config: Box<TurnConfig>,
}

/// Why a node cannot do what a client requested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] leftfold_store::Error),
    #[error("session {0} is not open in this node")]
    NotOpen(leftfold_events::SessionId),
    #[error(
        "the node has {stores} stores open, as many as its limit of open files allows, and all of them are \
         in use: wait for a turn to end, or raise the limit (`ulimit -n`)"
    )]
    Crowded { stores: usize },
    #[error("the session died before it could answer: {0}")]
    Gone(String),
    #[error("an actor could not be started: {0}")]
    Spawn(#[from] ractor::SpawnErr),
    /// The executor beside the workspace has not let this node take the session over.
    #[error("{0}; nothing was run, and the session waits")]
    Executor(String),
    #[error("opening a session failed unexpectedly: {0}")]
    Blocking(#[from] tokio::task::JoinError),
}

// ---- Session ----

/// To a session, the only actor that appends to its log. Every message that matters becomes a fact.
/// The fact is checked against the state first and dropped if it no longer has a meaning.
#[derive(Debug)]
pub enum SessionMessage {
    /// From a client: a prompt, with the turn configuration that was built for it.
    Prompt {
        config: Box<TurnConfig>,
        /// The world that the configuration was built for: its model's provider, its servers, its
        /// secrets. `None`: the session's own.
        world: Option<Box<World>>,
        prompted: Box<Fact>,
        /// Whether it only joins a running turn and does not begin one.
        joins: bool,
        /// Sent `Accepted` once it is durable. Sent `NotOpen` if there is no turn to join, or (for
        /// a request for a summary, which uses this message too) if there is nothing to summarise.
        reply_to: Option<RpcReplyPort<Answered>>,
    },
    /// From Node or a client: write the first event of a new fork, followed by these facts, in one
    /// batch. `reply_to` is sent `Accepted` once they are durable, and `NotOpen` if the session has
    /// already begun; then nothing is written.
    /// `settles`: the message that asked for it.
    Begin { facts: Vec<Fact>, settles: Option<MessageId>, reply_to: RpcReplyPort<Answered> },
    /// From a client: the choices for later prompts. `reply_to` is sent `Accepted` once they are
    /// durable, and `NotOpen` if nothing has changed. A session that has no log yet keeps the
    /// choices for its first prompt and accepts them at once. `settles`: the message that asked for it.
    Configure {
        configured: Box<SessionEvent>,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
    },
    /// From a client, or from Node after a session died: continue the log that another node left,
    /// or (`close`) end its turn.
    Resume { config: Box<TurnConfig>, world: Option<Box<World>>, close: bool },
    /// From workers: outcomes and parts of outcomes. From clients: interrupts and similar facts.
    Facts(Vec<Fact>),
    /// From Processor: parts of a reply. The session drops `room` once it has settled them, and only
    /// then do more follow: a provider that is faster than the disk waits.
    Streamed { facts: Vec<Fact>, room: OwnedSemaphorePermit },
    /// From ToolExecutor: the outcome of a call that switches agents, and the turn configuration
    /// that is in force from then on.
    Outcome { config: Box<TurnConfig>, finished: Box<Fact> },
    /// From Hooks: a plugin's answer. The session keeps the `secrets` out of the log and sends them
    /// with their requests and calls of this turn.
    HookReturned { fact: Box<Fact>, secrets: HookSecrets },
    /// From Processor and Compaction: credentials that a request is about to be sent with. The session and its workers
    /// keep them out of everything from now on.
    Hide(Credentials),
    /// From a client: an answer to the question of the intent `of`. `settles`: the message that brought it.
    Answer {
        of: Seq,
        reply: QuestionReply,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
    },
    /// From Permission: the first answer to a question. From a client: an interrupt. `reply_to` is sent `Accepted` once
    /// it is durable, and `NotOpen` if it has no meaning any more.
    Answered { fact: Box<Fact>, reply_to: RpcReplyPort<Answered> },
    /// From the store's writer: the batch in flight is durable, or has failed.
    Flushed(Result<(), leftfold_store::Error>),
    /// From the session's own timer: a deadline has passed.
    Due,
    /// From Node: the call of another session that waits for the end of this session's next turn.
    Adopt(ParentCall),
    /// From a client or Node: the current state.
    View(RpcReplyPort<Box<State>>),
    /// From Node: whether the session is at rest.
    AtRest(RpcReplyPort<bool>),
}

/// A client's answer to a permission question.
#[derive(Clone, Debug)]
pub struct QuestionReply {
    pub answer: Answer,
    pub feedback: Option<String>,
    /// The patterns that an "always" allows instead of those that the question offers.
    pub always: Option<Vec<String>>,
    /// The client that answers, and its machine.
    pub by: String,
}

/// The result of an answer or a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    Accepted,
    /// Another client was first.
    Already {
        by: String,
    },
    /// No such question is open.
    NotOpen,
    /// The question stays open: its "always" may not allow these patterns.
    Refused {
        why: String,
    },
    /// The log has a prompt with this id of its client, at `seq`. Nothing was done.
    Repeated {
        seq: Seq,
    },
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Already { by } => write!(f, "already answered by {by}"),
            Self::NotOpen => f.write_str("no such question is open"),
            Self::Refused { why } => f.write_str(why),
            Self::Repeated { seq } => write!(f, "a repetition of the prompt at {seq}"),
        }
    }
}

// ---- Processor and Compaction: requests to models ----

/// To the worker that reads a model's reply.
pub(crate) enum ProcessorMessage {
    /// Perform `model.requested`. The outcomes are `model.streamed` and `tool.called`, and at the
    /// end `model.finished` or `model.failed`.
    Ask(Box<AskModel>),
    /// Request the session's title or its summary, beside the reply. The outcomes are `session.titled` or
    /// `session.summarised`, and `model.finished`; or `model.failed`.
    Title(Box<AskModel>),
    /// Send later requests to these models, and hide these secrets in their replies.
    Use(Models, Secrets),
    /// Stop reading the reply, but continue requests for the title and the summary.
    Cancel,
    CancelAll,
}

/// To the worker that requests the summary of older messages.
pub(crate) enum CompactionMessage {
    /// Perform a request for the intent `compaction`. The outcomes are `model.finished` and
    /// `compaction.finished` or `compaction.failed`, or `model.failed`. If `whole` and the summary was
    /// cut off, `model.finished` is the only one, and the session decides.
    Summarise {
        compaction: Seq,
        ask: Box<AskModel>,
        whole: bool,
    },
    /// Send later requests to these models.
    Use(Models),
    Cancel,
}

/// A request to perform, for the intent `of`.
pub(crate) struct AskModel {
    pub(crate) of: Seq,
    /// For the program's log: the request, within its turn.
    pub(crate) span: Span,
    pub(crate) request: Request,
    pub(crate) prices: Prices,
    /// How long the provider may send nothing.
    pub(crate) patience: Duration,
    /// Values of plugins' hooks for this provider.
    pub(crate) extra: Extra,
    /// Where the exchange is recorded, if it is.
    pub(crate) record: Option<WireRecord>,
}

// ---- ToolExecutor ----

/// This node's right to have effects for a session.
#[derive(Clone, Debug)]
pub(crate) struct Right {
    /// The beginning of the marks of its processes.
    pub(crate) mark: String,
    /// `None`: no other node can take the session.
    pub(crate) lease: Option<Lease>,
    /// The right to have effects at an executor.
    pub(crate) owner: SessionOwner,
}

/// A call to resolve, for the intent `of`.
pub(crate) struct CheckCall {
    pub(crate) of: Seq,
    pub(crate) call: CallSpec,
    /// The sandbox in force; `None`: the turn configuration knows none.
    pub(crate) sandbox: Option<SandboxOptions>,
    /// The agents that `task` may name; `None`: those of the workspace.
    pub(crate) subagents: Option<Vec<String>>,
    /// The names of the tools that the agent is offered.
    pub(crate) offered: Vec<String>,
    /// The JSON Schema of the answer that the turn asks for.
    pub(crate) output: Option<Json>,
}

/// To the worker that performs calls.
pub(crate) enum ToolExecutorMessage {
    /// Work out what a call would do. The outcome is `tool.resolved`.
    Check(Box<CheckCall>),
    /// Perform later calls in this world.
    Use(Box<World>),
    /// Run a call. The outcomes are `tool.progressed` and `tool.elicitation_requested`, and at the
    /// end `tool.finished`.
    Run(Box<RunCall>),
    /// Perform a call that switches agents. The outcome is [`SessionMessage::Outcome`], or
    /// `tool.finished` if the agent cannot take over.
    Switch(Box<SwitchAgent>),
    /// Pass the answer to its question to a running call.
    QuestionReply {
        call: Seq,
        elicitation: u32,
        reply: ElicitationReply,
    },
    /// From a running call: ask a person. Comes back as [`ToolExecutorMessage::QuestionReply`].
    Elicit(Box<Elicit>),
    /// Stop the call whose `tool.called` is `call`.
    Cancel {
        call: Seq,
    },
    CancelAll,
    /// The outcome of the run `of` is durable: an executor that keeps it may forget it.
    Acknowledge {
        of: Seq,
    },
}

/// A question of the tool run that the intent `of` has started.
pub(crate) struct Elicit {
    pub(crate) of: Seq,
    /// The seq of its `tool.called`.
    pub(crate) call: Seq,
    pub(crate) elicitation: Elicitation,
    pub(crate) reply_to: RpcReplyPort<ElicitationReply>,
}

/// A call to run, for the intent `of`.
pub(crate) struct RunCall {
    pub(crate) of: Seq,
    /// For the program's log: the call, within its turn.
    pub(crate) span: Span,
    /// The seq of its `tool.called`.
    pub(crate) call: Seq,
    /// The model's id of the call.
    pub(crate) id: String,
    pub(crate) caller: Caller,
    pub(crate) attempt: u32,
    pub(crate) resolution: Box<Resolution>,
    /// Variables of plugins' hooks for its commands.
    pub(crate) variables: Values,
    /// How a command is confined.
    pub(crate) sandbox: Option<Sandbox>,
    /// The agents that `task` may name; `None`: those of the workspace.
    pub(crate) subagents: Option<Vec<String>>,
    pub(crate) todos: Vec<TodoItem>,
    /// People's answers to the questions about the call.
    pub(crate) answers: Vec<String>,
    /// Results of the calls that this call started (a batch).
    pub(crate) parts: Vec<BatchPart>,
    /// The versions of the call's files that the model was last shown.
    pub(crate) seen: Seen,
    /// The instruction files that earlier results have attached.
    pub(crate) instructed: Instructed,
}

/// A call after which another agent takes over, for the intent `of`.
pub(crate) struct SwitchAgent {
    pub(crate) of: Seq,
    /// The model's id of the call.
    pub(crate) call: String,
    pub(crate) agent: String,
    /// The turn configuration in force.
    pub(crate) before: TurnConfig,
}

// ---- Permission ----

/// To the worker that takes answers to questions.
pub(crate) enum PermissionMessage {
    /// The question of the intent `of` is open.
    Ask {
        of: Seq,
    },
    /// An answer. The first one goes back as [`SessionMessage::Answered`]; later ones get `Already`
    /// or `NotOpen` at once.
    Answer {
        of: Seq,
        reply: QuestionReply,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
    },
    /// The deadline of the question has passed.
    Withdraw {
        of: Seq,
    },
    WithdrawAll,
}

// ---- Snapshots ----

/// To the worker that takes snapshots of the project's files and restores them.
pub(crate) enum SnapshotsMessage {
    /// Take a snapshot for the intent `of`, and report the differences from the tree `since`. The
    /// outcome is `files.snapshotted` or `files.snapshot_failed`.
    Take { of: Seq, since: Option<String> },
    /// Restore these files for the intent `of`; `before` is the tree of all current files. The
    /// outcome is `files.restored` or `files.restore_failed`.
    Restore { of: Seq, before: String, paths: Vec<Saved> },
    /// The snapshot is no longer needed.
    Cancel,
}

// ---- Hooks ----

/// To the worker that calls plugins' hooks.
pub(crate) enum HooksMessage {
    /// Call one hook. The outcome is [`SessionMessage::HookReturned`].
    Call(Box<CallHook>),
    /// Call the plugins of this world from now on.
    Use(Box<World>),
    CancelAll,
}

/// A hook to call, for the intent `of`.
pub(crate) struct CallHook {
    pub(crate) of: Seq,
    pub(crate) asked: PendingHook,
    /// The hook's parameters.
    pub(crate) question: Value,
    /// The session's provider, which keys and headers are for.
    pub(crate) provider: String,
}

// ---- Observers ----

/// To the hub, which sends events to sinks.
pub(crate) enum ObserversMessage {
    /// From Node: a sink watches the session whose log is in `store`.
    Watch { watch: Watch, store: LiveReader },
    /// From the task that serves a sink: the sink has received the event by which `parent` spawned
    /// the session that the sink watches from now on.
    Descend { parent: SessionId, watch: Watch },
    /// From Node: the intent at `spawned` of `parent` has begun the session `child` (if it is its
    /// `first`), or continues it. Sinks already have the events before `from`.
    Woken { parent: SessionId, spawned: Seq, child: SessionId, from: Seq, first: bool },
    /// From a session: these events are durable.
    Happened(Arc<[Envelope]>),
    /// From Node: the session's store is open, again or for the first time.
    Opened { session: SessionId, store: LiveReader },
    /// From Node: nothing happens in the session until it is opened again. Its store was released, unless the node
    /// keeps it.
    Closed { session: SessionId, is_kept: bool },
}

/// A sink and its start.
#[derive(Clone, Debug)]
pub struct Watch {
    pub session: SessionId,
    /// The first seq that the sink needs.
    pub from: Seq,
    pub sink: ActorRef<Observation>,
    pub family: WatchScope,
}

/// Whether a sink also gets the events of the sessions that calls start. It gets a child's first
/// event only after the event that spawned the child.
#[derive(Clone, Debug, Default)]
pub enum WatchScope {
    #[default]
    Alone,
    /// Events of the children that its events spawn, and of children that are continued from then
    /// on.
    Live,
    /// Events of the named sessions, each from this seq on, and of all sessions that its events
    /// spawn or continue. Sessions that are not named are sent from their first event on.
    Whole(Arc<HashMap<SessionId, Seq>>),
}

/// To a client's own actor, the sink of a [`Watch`]: durable events, in order, each once. The actor
/// answers `done` when it is ready for the next observation, which then has everything that has
/// happened since.
#[derive(Debug)]
pub struct Observation {
    pub events: Arc<[Recorded]>,
    pub done: RpcReplyPort<()>,
}
