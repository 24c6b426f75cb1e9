//! Every message of every actor: the protocol of this crate on one page.
//!
//! | actor | message | sent by |
//! |---|---|---|
//! | Node | [`NodeMessage`] | clients; sessions, about their children; its own tasks |
//! | Session | [`SessionMessage`] | clients, through Node; its workers, with outcomes |
//! | Processor | [`ProcessorMessage`] | its session |
//! | ToolExecutor | [`ToolExecutorMessage`] | its session |
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
    Access, Answer, CallSpec, Ended, Resolution, Saved, Session as SessionEvent, SessionChoices,
    TodoItem,
};
use leftfold_events::state::PendingHook;
use leftfold_events::state::batch::Part;
use leftfold_events::turn_config::Prices;
use leftfold_events::{Envelope, Fact, Request, Seq, SessionId, State, Time, TurnConfig};
use leftfold_providers::Extra;
use leftfold_store::{LiveReader, Store};
use leftfold_tools::{Instructed, Reply as InquiryReply, Seen};
use ractor::{ActorRef, RpcReplyPort};
use serde_json::Value;
use tokio::sync::watch;
use tracing::Span;

use crate::hook_secrets::{HookSecrets, Values};
use crate::recorded::Recorded;
use crate::world::World;

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
    /// From a client: tell `listener` from now on which stores this node holds.
    Keep(Arc<dyn StoreListener>),
    /// From a session: one of its calls has started a child. Its end comes back to the session as the
    /// facts `subagent.ended` and `tool.finished`.
    Spawn(Box<SpawnChild>),
    /// From Node's own task: the child's configuration is built.
    OpenChild(Box<ReadyChild>),
    /// From Node's own timer: start a session that died again.
    Reopen { session: SessionId },
    /// From Node's own task: a store has been opened (or not) for the sessions that wait for it.
    StoreOpened { store: PathBuf, outcome: Result<Store, Error> },
    /// From Node's own timer: close the sessions without a turn that nobody has used for so long. They
    /// are opened again when somebody wants something of them.
    Sweep { idle: Duration },
    /// From a client: close a session as it is; a turn under way stays cut off in its log. Answered
    /// when its store was let go of.
    Close { session: SessionId, reply: RpcReplyPort<()> },
    /// From Node's own task: a session had no turn when it was asked, after `sent` messages to it. It
    /// is closed unless it was sent another one since.
    Rest { session: SessionId, sent: u64 },
}

/// A session to open.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// The folder of its store; made if there is none.
    pub store: PathBuf,
    pub session: SessionId,
    pub world: World,
    /// The first event of a log that is new and no fork. It is written with the first prompt.
    pub created_event: SessionEvent,
    /// The session that a new log begins as a fork of, and the last event that is shared. The
    /// `session.forked` is written at [`SessionMessage::Begin`].
    pub fork_of: Option<(SessionId, Seq)>,
}

/// A session that was opened, as its client is told of it.
#[derive(Debug)]
pub struct Opened {
    /// The last seq in its log.
    pub head: Seq,
    /// Whether a turn was cut off in it.
    pub unfinished: bool,
    /// How its last turn ended.
    pub ended: Option<Box<Ended>>,
    /// Questions that still wait for an answer: the intents that asked, and what about.
    pub questions: Vec<(Seq, Access)>,
    /// Becomes `Some` with the reason when the session is closed for good.
    pub closed: watch::Receiver<Option<String>>,
}

/// Makes a node reachable in the stores that it holds. Whatever it does in a store's folder it does
/// while the node has the store's lock.
pub trait StoreListener: Debug + Send + Sync {
    /// The node holds the store in this folder.
    fn hold(&self, store: &Path) -> Box<dyn StoreGuard>;
}

/// A store that is held. It is dropped, while the lock is still there, when the node ends.
pub trait StoreGuard: Debug + Send {
    /// Every session in it rests, so that the node lets go of it in a moment.
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

/// A child to open, or to go on with.
#[derive(Debug)]
pub struct SpawnChild {
    pub(crate) parent: ParentCall,
    pub(crate) session: SessionId,
    pub(crate) agent: String,
    /// The session that it is made a fork of before it is told anything.
    pub(crate) fork_of: Option<SessionId>,
    pub(crate) title: String,
    pub(crate) prompt: String,
    /// The parent's, with the child's share of its limit of cost.
    pub(crate) config: TurnConfig,
    /// It may have been spawned before, by a node that is gone.
    pub(crate) again: bool,
    /// Its turn is only to be brought to its end.
    pub(crate) close: bool,
}

/// A child whose turn configuration is built.
#[derive(Debug)]
pub struct ReadyChild {
    pub(crate) open: Box<OpenSession>,
    pub(crate) spawn: Box<SpawnChild>,
    pub(crate) config: Box<TurnConfig>,
}

/// Why a node can not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] leftfold_store::Error),
    #[error("session {0} is not open in this node")]
    NotOpen(leftfold_events::SessionId),
    #[error("the session died before it could answer: {0}")]
    Gone(String),
    #[error("an actor could not be started: {0}")]
    Spawn(#[from] ractor::SpawnErr),
    #[error("opening a session failed unexpectedly: {0}")]
    Blocking(#[from] tokio::task::JoinError),
}

// ---- Session ----

/// To a session, the one actor that appends to its log. Everything that matters in these becomes a
/// fact, and is checked against the state first: a fact that means nothing any more is dropped.
#[derive(Debug)]
pub enum SessionMessage {
    /// From a client: a prompt, with the turn configuration that was built for it.
    Prompt {
        config: Box<TurnConfig>,
        prompted: Box<Fact>,
        /// Whether it is only taken into a turn that is under way, and begins none.
        joins: bool,
        /// Sent `Accepted` once it is durable, and `NotOpen` if there is no turn to join, or (for a
        /// wish for a summary, which comes the same way) nothing to sum up.
        reply_to: Option<RpcReplyPort<Answered>>,
    },
    /// From Node or a client: write the first event of a new session, a fork, and these facts behind
    /// it, in one batch. `reply_to` is sent `Accepted` once they are durable, and `NotOpen` if the session
    /// has begun already; then nothing is written.
    Begin { facts: Vec<Fact>, reply_to: RpcReplyPort<Answered> },
    /// From a client: how prompts are taken from now on. `reply_to` is sent `Accepted` once that is
    /// durable, and `NotOpen` if nothing has changed. A session that has no log yet keeps the choice
    /// for its first prompt, and accepts it at once.
    Configure { choices: Box<SessionChoices>, by: String, reply_to: RpcReplyPort<Answered> },
    /// From a client, or from Node when a session died: go on with the log that somebody else left,
    /// or (`close`) bring its turn to an end.
    Resume { config: Box<TurnConfig>, close: bool },
    /// From workers: outcomes and pieces of them. From clients: an interrupt and the like.
    Facts(Vec<Fact>),
    /// From ToolExecutor: the outcome of a call that switches agents, and the turn configuration that
    /// is in force from then on.
    Outcome { config: Box<TurnConfig>, finished: Box<Fact> },
    /// From Hooks: what a plugin has returned. The session keeps the `secrets` out of the log and
    /// sends them with the requests and calls of this turn that they are for.
    HookReturned { fact: Box<Fact>, secrets: HookSecrets },
    /// From a client: an answer to the question of the intent `of`.
    Answer { of: Seq, reply: Reply, reply_to: RpcReplyPort<Answered> },
    /// From Permission: the first answer to a question. `reply_to` is sent `Accepted` once it is durable.
    Answered { fact: Box<Fact>, reply_to: RpcReplyPort<Answered> },
    /// From the store's writer: the batch in flight is durable, or is not.
    Flushed(Result<(), leftfold_store::Error>),
    /// From the session's own timer: a wait is over.
    Due,
    /// From Node: the call that waits for the end of the next turn here, in another session.
    Adopt(ParentCall),
    /// From a client or Node: the state as it is.
    View(RpcReplyPort<Box<State>>),
    /// From Node: whether nothing is under way here.
    AtRest(RpcReplyPort<bool>),
}

/// A client's answer to a permission question.
#[derive(Clone, Debug)]
pub struct Reply {
    pub answer: Answer,
    pub feedback: Option<String>,
    /// The client that answers, and where it runs.
    pub by: String,
}

/// How a session took an answer or a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    Accepted,
    /// Somebody else was first.
    Already {
        by: String,
    },
    /// No such question is open.
    NotOpen,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Already { by } => write!(f, "already answered by {by}"),
            Self::NotOpen => f.write_str("no such question is open"),
        }
    }
}

// ---- Processor and Compaction: requests to models ----

/// To the worker that reads a model's reply.
pub(crate) enum ProcessorMessage {
    /// Perform `model.requested`. Comes back as `model.streamed` and `tool.called`, and in the end
    /// `model.finished` or `model.failed`.
    Ask(Box<AskModel>),
    /// Ask the model for the session's title, beside the reply. Comes back as `session.titled` and
    /// `model.finished`, or `model.failed`.
    Title(Box<AskModel>),
    /// Stop reading the reply, but go on with a title.
    Cancel,
    CancelAll,
}

/// To the worker that has a model write the summary of older messages.
pub(crate) enum CompactionMessage {
    /// Perform a request for the intent `compaction`. Comes back as `model.finished` and
    /// `compaction.finished` or `compaction.failed`, or as `model.failed`.
    Summarise {
        compaction: Seq,
        ask: Box<AskModel>,
    },
    Cancel,
}

/// A request to perform, for the intent `of`.
pub(crate) struct AskModel {
    pub(crate) of: Seq,
    /// For the program's log: the request, within its turn.
    pub(crate) span: Span,
    pub(crate) request: Request,
    pub(crate) prices: Prices,
    /// How long the log lets the provider be silent.
    pub(crate) patience: Duration,
    /// Values that plugins' hooks have returned for this provider.
    pub(crate) extra: Extra,
}

// ---- ToolExecutor ----

/// To the worker that performs calls.
pub(crate) enum ToolExecutorMessage {
    /// Work out what a call would do, for the intent `of`. Comes back as `tool.resolved`.
    Check {
        of: Seq,
        call: CallSpec,
    },
    /// Run a call. Comes back as `tool.progressed` and `tool.elicitation_requested`, and in the end
    /// `tool.finished`.
    Run(Box<RunCall>),
    /// Perform a call that switches agents. Comes back as [`SessionMessage::Outcome`], or as
    /// `tool.finished` if the agent cannot take over.
    Switch(Box<SwitchAgent>),
    /// Hand a running call the answer to its question.
    Reply {
        call: Seq,
        elicitation: u32,
        reply: InquiryReply,
    },
    /// Stop the call whose `tool.called` is `call`.
    Cancel {
        call: Seq,
    },
    CancelAll,
}

/// A call to run, for the intent `of`.
pub(crate) struct RunCall {
    pub(crate) of: Seq,
    /// For the program's log: the call, within its turn.
    pub(crate) span: Span,
    /// The seq of its `tool.called`.
    pub(crate) call: Seq,
    /// The model's id for it.
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) resolution: Box<Resolution>,
    /// Variables that plugins' hooks have returned for its commands.
    pub(crate) variables: Values,
    pub(crate) todos: Vec<TodoItem>,
    /// Answers that people gave to the questions about the call.
    pub(crate) answers: Vec<String>,
    /// Results of the calls that this call started (a batch).
    pub(crate) parts: Vec<Part>,
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
    /// Somebody answers. The first answer goes back as [`SessionMessage::Answered`]; later ones are
    /// sent `Already` or `NotOpen` at once.
    Answer {
        of: Seq,
        reply: Reply,
        reply_to: RpcReplyPort<Answered>,
    },
    /// The time of the question is up.
    Withdraw {
        of: Seq,
    },
    WithdrawAll,
}

// ---- Snapshots ----

/// To the worker that keeps the project's files and puts them back.
pub(crate) enum SnapshotsMessage {
    /// Keep the files for the intent `of`, and tell what is different from the tree `since`. Comes
    /// back as `files.snapshotted` or `files.snapshot_failed`.
    Take { of: Seq, since: Option<String> },
    /// Put these files back for the intent `of`; `before` is the tree of all as they are. Comes back
    /// as `files.restored` or `files.restore_failed`.
    Restore { of: Seq, before: String, paths: Vec<Saved> },
    /// Nobody waits for the snapshot any longer.
    Cancel,
}

// ---- Hooks ----

/// To the worker that calls plugins' hooks.
pub(crate) enum HooksMessage {
    /// Call one hook. Comes back as [`SessionMessage::HookReturned`].
    Call(Box<CallHook>),
    CancelAll,
}

/// A hook to put to a plugin, for the intent `of`.
pub(crate) struct CallHook {
    pub(crate) of: Seq,
    pub(crate) asked: PendingHook,
    /// The hook's parameters.
    pub(crate) question: Value,
    /// The session's provider, which keys and headers are for.
    pub(crate) provider: String,
}

// ---- Observers ----

/// To the hub, which tells sinks of events.
pub(crate) enum ObserversMessage {
    /// From Node: a sink watches the session whose log is in `store`.
    Watch { watch: Watch, store: LiveReader },
    /// From the task that serves a sink: it has handed over the event by which `parent` spawned the
    /// session that the sink watches from now on.
    Descend { parent: SessionId, watch: Watch },
    /// From Node: the intent at `spawned` of `parent` has begun the session `child` (if it is its
    /// `first`), or goes on with it. Sinks have what is before `from` already.
    Woken { parent: SessionId, spawned: Seq, child: SessionId, from: Seq, first: bool },
    /// From a session: these events are durable.
    Happened(Arc<[Envelope]>),
    /// From Node: the session's store is open, again or for the first time.
    Opened { session: SessionId, store: LiveReader },
    /// From Node: the store is let go. Nothing happens in the session until it is opened again.
    Closed { session: SessionId },
}

/// A sink and where it begins.
#[derive(Clone, Debug)]
pub struct Watch {
    pub session: SessionId,
    /// The first seq wanted.
    pub from: Seq,
    pub sink: ActorRef<Observation>,
    pub family: WatchScope,
}

/// Whether a sink is told of the sessions that calls start, too. It is told of a child's first event
/// only after it was told of the event that spawned it.
#[derive(Clone, Debug, Default)]
pub enum WatchScope {
    #[default]
    Alone,
    /// Of those that the events which it is told spawn, and from then on of those that are gone on
    /// with.
    Live,
    /// Of those that are named, each from this seq on, and of all that the events which it is told
    /// spawn or go on with, from their first event on if they are not named.
    Whole(Arc<HashMap<SessionId, Seq>>),
}

/// To a client's own actor, the sink of a [`Watch`]: events that are durable, in order, each once. It
/// answers `done` when it is ready for the next, which is then all that has happened meanwhile.
#[derive(Debug)]
pub struct Observation {
    pub events: Arc<[Recorded]>,
    pub done: RpcReplyPort<()>,
}
