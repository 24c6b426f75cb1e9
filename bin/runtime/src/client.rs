//! A session in this process's node, as those who drive it see it.

mod revert;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use leftfold_actors::{
    Answered, Node, NodeMessage, Observation, Opened, Reply, SessionMessage, Watch, WatchScope,
};
use leftfold_events::event::{Answer, Compaction, PromptPart, SessionChoices, Turn};
use leftfold_events::{Fact, Seq, SessionId, State, TurnConfig};
use leftfold_store::LiveReader;
use ractor::{Actor, ActorRef, RpcReplyPort};

use crate::approvals::Memory;
use crate::remote::{self, Remote, RpcError};
use crate::session_paths::Place;
use crate::session_setup::{PromptConfig, SessionSetup};
use leftfold_view::QuestionId;

/// Clones talk to the same session.
#[derive(Clone)]
pub struct Client {
    pub session: SessionId,
    /// Tells those that were opened apart.
    id: u64,
    link: Link,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Where the session is.
#[derive(Clone)]
enum Link {
    Here {
        node: ActorRef<NodeMessage>,
        memory: Memory,
    },
    /// In the node of another process.
    There(Remote),
}

/// Starts a node: one for a process.
pub async fn node() -> anyhow::Result<ActorRef<NodeMessage>> {
    Ok(Actor::spawn(None, Node, ()).await.context("the node can not be started")?.0)
}

const DIED: &str = "the session died before it was known whether that is in its log";

impl Client {
    /// Opens the setup's session in `node`, or where it is open already: if another process is the
    /// node of its store, through that one's socket. A turn configuration can be gathered then.
    pub async fn open(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
    ) -> anyhow::Result<(Self, Opened)> {
        Self::open_beside(node, setup, setup.extensions.ready()).await
    }

    /// The same without a wait for servers and plugins, which are being started.
    pub async fn open_soon(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
    ) -> anyhow::Result<(Self, Opened)> {
        let extensions = setup.extensions.clone();
        let starts = async {
            tokio::spawn(async move { extensions.ready().await });
        };
        Self::open_beside(node, setup, starts).await
    }

    async fn open_beside(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
        starts: impl Future<Output = ()>,
    ) -> anyhow::Result<(Self, Opened)> {
        if let Some(attached) = Self::attach(&setup.place).await {
            return Ok(attached);
        }
        match Self::open_here(node, setup, starts).await {
            // its node may not have served its socket yet when it was looked for
            Err(error) if is_locked(&error) => Self::attach(&setup.place).await.ok_or(error),
            opened => opened,
        }
    }

    /// Opens the setup's session in `node` and nowhere else, while something else `starts`.
    pub async fn open_here(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
        starts: impl Future<Output = ()>,
    ) -> anyhow::Result<(Self, Opened)> {
        leftfold_tools::prune(&setup.workspace.spill_dir, SystemTime::now());
        let open = Box::new(setup.open());
        let opening = async { ractor::call!(node, |reply| NodeMessage::Open { open, reply }) };
        let (opened, ()) = tokio::join!(opening, starts);
        let opened = opened.context("the node has died")??;
        let session = setup.place.session;
        let (memory, sink) = Memory::start(&setup.turn_settings.worktree, session).await?;
        let client = Self::new(session, Link::Here { node, memory });
        // what a crash kept from being remembered is remembered now
        let from = if opened.unfinished { 1 } else { opened.head + 1 };
        client.watch(from, sink, WatchScope::Live).await?;
        if let Some(sink) = crate::watchers::start(session, &setup.extensions.plugins).await? {
            client.watch(opened.head + 1, sink, WatchScope::Live).await?;
        }
        Ok((client, opened))
    }

    async fn attach(place: &Place) -> Option<(Self, Opened)> {
        let (remote, opened) = Remote::attach(place).await?;
        Some((Self::new(place.session, Link::There(remote)), opened))
    }

    fn new(session: SessionId, link: Link) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { session, id: LAST.fetch_add(1, Ordering::Relaxed), link }
    }

    /// Whether one is a clone of the other.
    pub fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// The way to the session, if it is in the node of another process.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.link {
            Link::Here { .. } => None,
            Link::There(remote) => Some(remote),
        }
    }

    /// Whether the session can be reached as it is, without being opened again.
    pub async fn is_live(&self) -> bool {
        match &self.link {
            Link::Here { .. } => self.reading().await.is_ok(),
            Link::There(remote) => !remote.is_over(),
        }
    }

    /// Who somebody of this name is in the log.
    pub fn name(&self, by: &str) -> String {
        match &self.link {
            Link::Here { .. } => by.to_owned(),
            Link::There(_) => remote::name_of(by, i32::try_from(std::process::id()).ok()),
        }
    }

    /// The way to a session that descends from this one.
    pub fn of(&self, session: SessionId) -> Self {
        Self { session, ..self.clone() }
    }

    /// Waits until every "always" in the log so far is remembered for the project.
    pub async fn remembered(&mut self) -> anyhow::Result<()> {
        let Link::Here { .. } = self.link else { return Ok(()) };
        let head = self.view().await?.seq;
        if let Link::Here { memory, .. } = &mut self.link {
            tokio::join!(memory.through(head), crate::watchers::through(self.session, head));
        }
        Ok(())
    }

    /// The session as it is now, what is being made durable included.
    pub async fn view(&self) -> anyhow::Result<Box<State>> {
        let session = self.session;
        let view = ractor::call!(self.here()?, |reply| NodeMessage::Tell {
            session,
            message: SessionMessage::View(reply),
        });
        view.context("the session is gone")
    }

    /// Reads what is durable.
    pub async fn reading(&self) -> anyhow::Result<LiveReader> {
        let session = self.session;
        let store = ractor::call!(self.here()?, |reply| NodeMessage::Reading { session, reply });
        store.context("the node has died")?.context("the session is closed")
    }

    /// This process's node, if the session is in it.
    pub(crate) fn here(&self) -> anyhow::Result<&ActorRef<NodeMessage>> {
        match &self.link {
            Link::Here { node, .. } => Ok(node),
            Link::There(_) => bail!("session {} is open in another node", self.session),
        }
    }

    /// Has `sink` told of every event from `from` on.
    pub async fn watch(
        &self,
        from: Seq,
        sink: ActorRef<Observation>,
        family: WatchScope,
    ) -> anyhow::Result<()> {
        match &self.link {
            Link::Here { node, .. } => {
                let watch = Watch { session: self.session, from, sink, family };
                node.cast(NodeMessage::Watch(watch)).context("the node has died")
            }
            Link::There(remote) => remote.watch(from, sink, &family).await,
        }
    }

    /// Prompts, and waits until that is in the log. A turn that was cut off is closed first.
    ///
    /// # Errors
    /// The session died before it was: it may be in the log or not.
    pub async fn prompt(
        &self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        match &self.link {
            Link::Here { .. } => {
                self.prompt_with(setup.prompt_config(), parts, by, false).await?;
                Ok(())
            }
            Link::There(remote) => remote.prompt(&parts, by).await,
        }
    }

    /// Prompts, if it `joins` only a turn that is under way. What became of it: accepted when it
    /// is in the log, not open if there is no turn to join.
    pub async fn prompt_with(
        &self,
        prompt_config: PromptConfig,
        parts: Vec<PromptPart>,
        by: &str,
        joins: bool,
    ) -> anyhow::Result<Answered> {
        let session = self.session;
        let reply_to = ractor::call!(self.here()?, |reply_to| NodeMessage::Tell {
            session,
            message: prompt(prompt_config, parts, by, joins, Some(reply_to)),
        });
        reply_to.context(DIED)
    }

    /// Chooses how the prompts from now on are taken, and waits until that is in the log. A session
    /// that has no log yet keeps it for its first prompt. False: nothing has changed.
    ///
    /// # Errors
    /// The session died before it was.
    pub async fn configure(&self, choices: SessionChoices, by: &str) -> anyhow::Result<bool> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.configure(&choices, by).await,
        };
        let (choices, by) = (Box::new(choices), by.to_owned());
        let reply_to = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Configure { choices, by, reply_to },
        });
        Ok(reply_to.context(DIED)? == Answered::Accepted)
    }

    /// Asks for a summary of what the model has seen, if it `joins` only in a turn that is under
    /// way. Not open: there is no such turn, nothing to sum up, or a summary on its way already.
    pub async fn compact(
        &self,
        config: TurnConfig,
        by: &str,
        joins: bool,
    ) -> anyhow::Result<Answered> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.compact(by).await,
        };
        let asked = Fact::new(Compaction::Asked { by: by.to_owned() });
        let (config, prompted) = (Box::new(config), Box::new(asked));
        let reply_to = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Prompt { config, prompted, joins, reply_to: Some(reply_to) },
        });
        reply_to.context(DIED)
    }

    /// Prompts without waiting for anything: whoever watches sees what becomes of it.
    pub fn cast_prompt(
        &self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        self.tell(prompt(setup.prompt_config(), parts, by, false, None))
    }

    /// Goes on with a turn that was cut off.
    pub fn resume(&self, setup: &SessionSetup) -> anyhow::Result<()> {
        self.tell(SessionMessage::Resume { config: Box::new(setup.config()), close: false })
    }

    pub async fn interrupt(&self, by: &str) -> anyhow::Result<()> {
        match &self.link {
            Link::Here { .. } => {
                let interrupted = Fact::new(Turn::Interrupted { by: by.to_owned() });
                self.tell(SessionMessage::Facts(vec![interrupted]))
            }
            Link::There(remote) => remote.interrupt(by).await,
        }
    }

    /// Answers a question of this session, or of one that descends from it.
    pub async fn answer(&self, asked: QuestionId, reply: Reply) -> anyhow::Result<Answered> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.answer(asked, reply).await,
        };
        let (session, of) = asked;
        let message = |reply_to| SessionMessage::Answer { of, reply, reply_to };
        match ractor::call!(node, |reply_to| NodeMessage::Tell {
            session,
            message: message(reply_to)
        }) {
            // a child is open no longer than somebody wants something of it
            Err(_) if session != self.session => Ok(Answered::NotOpen),
            answered => answered.context("the session is gone"),
        }
    }

    /// Takes a node of this process down where it stands; the log has what it takes to go on.
    pub async fn stop(&self) {
        if let Link::Here { node, .. } = &self.link {
            // one that is dead already is as good
            let _ = node.kill_and_wait(None).await;
        }
    }

    fn tell(&self, message: SessionMessage) -> anyhow::Result<()> {
        let tell = NodeMessage::Tell { session: self.session, message };
        self.here()?.cast(tell).context("the node has died")
    }
}

fn prompt(
    prompt_config: PromptConfig,
    parts: Vec<PromptPart>,
    by: &str,
    joins: bool,
    reply_to: Option<RpcReplyPort<Answered>>,
) -> SessionMessage {
    let PromptConfig { config, agent, model } = prompt_config;
    let prompted = Turn::Prompted { parts, agent, model, by: by.to_owned() };
    let (config, prompted) = (Box::new(config), Box::new(Fact::new(prompted)));
    SessionMessage::Prompt { config, prompted, joins, reply_to }
}

/// How often the next node of a session is looked for when the last one is about to let go of it,
/// and how long it is given each time: together as long as a node waits for a store.
pub const ATTEMPTS: usize = 40;
pub const BREATH: Duration = Duration::from_millis(50);

/// Whether a node refused because it is about to let go of the session: the next one will do.
pub fn is_leaving(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(RpcError::is_leaving)
}

/// Whether another node has the store.
pub fn is_locked(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<leftfold_actors::Error>();
    matches!(error, Some(leftfold_actors::Error::Store(leftfold_store::Error::Locked { .. })))
}

/// Waits until the session is closed for good; the reason.
pub async fn closed(opened: &mut Opened) -> String {
    match opened.closed.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the node has died".to_owned(),
    }
}

/// The answer in these words to a question; without any, it is dismissed.
pub fn reply(words: Option<String>, by: &str) -> Reply {
    let answer = if words.is_some() { Answer::Once } else { Answer::Reject };
    Reply { answer, feedback: words, by: by.to_owned() }
}
