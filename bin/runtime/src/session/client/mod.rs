//! A client of one session. The session is in this process's node or, if another process is the
//! node of its store, reached through that node's socket.
//!
//! Callers see the same events, questions and ends either way. If the other node dies, clients end
//! and name `leftfold resume`. If it releases the store in good order, they stay, and the next
//! prompt opens the session wherever it is then.

mod revert;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use leftfold_actors::{
    Answered, Node, NodeMessage, Observation, Opened, QuestionReply, SessionMessage, Watch,
    WatchScope,
};
use leftfold_events::event::{Answer, Compaction, PromptPart, Session, SessionChoices, Turn};
use leftfold_events::rules::Rule;
use leftfold_events::{Fact, MessageId, Seq, SessionId, State, Time, fold};
use leftfold_store::{Inbox, LiveReader, Store};
use ractor::{Actor, ActorRef, RpcReplyPort};
use serde_json::{Value, json};

use crate::Usage;
use crate::approvals::Memory;
use crate::quota::QuotaReached;
use crate::remote::{self, Remote, RpcError};
use crate::session_paths::SessionPlace;
use crate::session_setup::{PromptConfig, SessionSetup};
use crate::turn_config::PromptOptions;
use crate::user_message::UserMessage;
use leftfold_view::QuestionId;

/// Clones talk to the same session.
#[derive(Clone)]
pub struct Client {
    pub session: SessionId,
    /// Distinguishes clients that were opened separately.
    id: u64,
    link: Link,
    /// The message of another node that this client acts for.
    settles: Option<MessageId>,
}

leftfold_events::debug_fields!(Client { session });

/// The place of the session.
#[derive(Clone)]
enum Link {
    Here {
        node: ActorRef<NodeMessage>,
        memory: Memory,
    },
    /// In the node of another process.
    There(Remote),
}

/// Starts a node; a process has one.
pub async fn node() -> anyhow::Result<ActorRef<NodeMessage>> {
    Ok(Actor::spawn(None, Node, ()).await.context("the node cannot be started")?.0)
}

/// How long the sessions of a node may take to stop.
const NODE_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Stops a node before its runtime ends. A session that still runs when its workers are cancelled takes them for dead,
/// warns, and starts new ones.
pub async fn stop_node(node: &ActorRef<NodeMessage>) {
    if node.stop_and_wait(None, Some(NODE_STOP_TIMEOUT)).await.is_err() {
        tracing::warn!("the node did not stop in time");
    }
}

const DIED: &str = "the session died; its log may or may not have the request";

/// The names in the log for a client that calls itself `by`: in the session's own process, and in another one.
pub fn names(by: &str) -> [String; 2] {
    [by.to_owned(), remote::name_of(by, i32::try_from(std::process::id()).ok())]
}

/// Another process runs the session, and this one cannot do so much with it from outside.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("session {0} is open in another node")]
pub struct InAnotherNode(pub SessionId);

impl Client {
    /// Opens the setup's session in `node` or, if another process is the node of its store,
    /// attaches through that node's socket. Waits for servers and plugins, so a turn configuration
    /// can be gathered afterwards.
    pub async fn open(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
    ) -> anyhow::Result<(Self, Opened)> {
        Self::open_beside(node, setup, setup.extensions.ready(), None).await
    }

    /// Opens the session as [`Client::open`] does, but does not wait for servers and plugins to
    /// start. With `kept`, the inboxes of a store that this process keeps, another node's session is reached through these.
    pub async fn open_soon(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
        kept: Option<Inbox>,
    ) -> anyhow::Result<(Self, Opened)> {
        let extensions = setup.extensions.clone();
        let starts = async {
            tokio::spawn(async move { extensions.ready().await });
        };
        Self::open_beside(node, setup, starts, kept).await
    }

    async fn open_beside(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
        starts: impl Future<Output = ()>,
        kept: Option<Inbox>,
    ) -> anyhow::Result<(Self, Opened)> {
        // A node that takes messages itself claims a session that nobody owns: another node of this machine would only open
        // it for its own clients.
        if kept.is_none()
            && let Some(attached) = Self::attach(&setup.place).await
        {
            return Ok(attached);
        }
        match Self::open_here(node.clone(), setup, starts).await {
            // The other node may not have served its socket yet at the first attempt.
            Err(error) if is_locked(&error) => Self::attach(&setup.place).await.ok_or(error),
            Err(error) if is_owned_elsewhere(&error) => {
                if let Some(inbox) = kept {
                    return Self::through_inbox(&setup.place, inbox, true).await;
                }
                let folder = setup.place.store.clone();
                let store = tokio::task::spawn_blocking(move || Store::open(&folder)).await??;
                match store.inbox() {
                    Some(inbox) => Self::through_inbox(&setup.place, inbox, false).await,
                    None => Err(error),
                }
            }
            opened => opened,
        }
    }

    /// A client of a session that another node of a shared store owns, or that is bound to another place. This process
    /// may be one that `takes_messages` itself.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn through_inbox(
        place: &SessionPlace,
        inbox: Inbox,
        takes_messages: bool,
    ) -> anyhow::Result<(Self, Opened)> {
        let (remote, opened) = Remote::through_inbox(place, inbox, takes_messages).await?;
        Ok((Self::new(place.session, Link::There(remote)), opened))
    }

    /// This client, which now acts for a message of another node: the message is deleted once it has its effect.
    pub(crate) fn settling(self, settles: Option<MessageId>) -> Self {
        Self { settles, ..self }
    }

    /// Opens the setup's session only in `node`, while `starts` runs.
    pub async fn open_here(
        node: ActorRef<NodeMessage>,
        setup: &SessionSetup,
        starts: impl Future<Output = ()>,
    ) -> anyhow::Result<(Self, Opened)> {
        let spills = setup.workspace.spill_dir.clone();
        let prune = move || leftfold_tools::prune(&spills, SystemTime::now());
        // what stays is removed the next time
        let _ = tokio::task::spawn_blocking(prune).await;
        let open = Box::new(setup.open());
        let opening = async { ractor::call!(node, |reply| NodeMessage::Open { open, reply }) };
        let (opened, ()) = tokio::join!(opening, starts);
        let opened = opened.context("the node has died")??;
        let session = setup.place.session;
        let (memory, sink) =
            Memory::start(setup.shared_settings(), &setup.place, opened.head).await?;
        let client = Self::new(session, Link::Here { node, memory });
        // After a crash, approvals may be missing from the project's file; they are remembered now.
        let from = if opened.unfinished { 1 } else { opened.head + 1 };
        client.watch(from, sink, WatchScope::Live).await?;
        if let Some(sink) = crate::watchers::start(session, &setup.extensions.plugins).await? {
            client.watch(opened.head + 1, sink, WatchScope::Live).await?;
        }
        Ok((client, opened))
    }

    async fn attach(place: &SessionPlace) -> Option<(Self, Opened)> {
        let (remote, opened) = Remote::attach(place).await?;
        Some((Self::new(place.session, Link::There(remote)), opened))
    }

    fn new(session: SessionId, link: Link) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { session, id: LAST.fetch_add(1, Ordering::Relaxed), link, settles: None }
    }

    /// Whether one client is a clone of the other.
    pub fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// The connection to the node of another process, if the session is there.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.link {
            Link::Here { .. } => None,
            Link::There(remote) => Some(remote),
        }
    }

    /// Whether another node of a shared store has the session, so that requests go through its inbox.
    pub fn is_through_inbox(&self) -> bool {
        self.remote().is_some_and(|remote| remote.inbox().is_some())
    }

    /// Refuses options that only the node of the session can apply.
    ///
    /// # Errors
    /// Another process is that node, and there is such an option.
    pub fn takes(&self, options: &[&str]) -> Result<(), Usage> {
        let Link::There(remote) = &self.link else { return Ok(()) };
        if options.is_empty() {
            return Ok(());
        }
        let pid = remote.pid().map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        Err(Usage(format!(
            "another node{pid} runs session {}, and cannot apply {}: leave these options out, or try again once \
             that node has ended",
            self.session,
            options.join(", ")
        )))
    }

    /// Whether the session can be reached without opening it again.
    pub async fn is_live(&self) -> bool {
        match &self.link {
            Link::Here { .. } => self.reading().await.is_ok(),
            Link::There(remote) => remote.is_live().await,
        }
    }

    /// The name in the log for a client that calls itself `by`.
    pub fn name(&self, by: &str) -> String {
        let [here, there] = names(by);
        match &self.link {
            Link::Here { .. } => here,
            Link::There(_) => there,
        }
    }

    /// A client of a session that descends from this one.
    pub fn for_session(&self, session: SessionId) -> Self {
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

    /// The session's current state, including events that are not durable yet. Of a session that is reached through an
    /// inbox: by its log.
    pub async fn view(&self) -> anyhow::Result<Box<State>> {
        if let Some(inbox) = self.remote().and_then(Remote::inbox) {
            let (reader, session) = (inbox.reader(), self.session);
            let fold = move || anyhow::Ok(fold(&reader.read(session, 1, usize::MAX)?));
            return Ok(Box::new(tokio::task::spawn_blocking(fold).await??));
        }
        let session = self.session;
        let view = ractor::call!(self.here()?, |reply| NodeMessage::Tell {
            session,
            message: SessionMessage::View(reply),
        });
        view.context("the session is gone")
    }

    /// A reader of the durable events.
    pub async fn reading(&self) -> anyhow::Result<LiveReader> {
        if let Some(inbox) = self.remote().and_then(Remote::inbox) {
            return Ok(inbox.reader());
        }
        let session = self.session;
        let store = ractor::call!(self.here()?, |reply| NodeMessage::Reading { session, reply });
        store.context("the node has died")?.context("the session is closed")
    }

    /// This process's node, if the session is in it.
    pub(crate) fn here(&self) -> anyhow::Result<&ActorRef<NodeMessage>> {
        match &self.link {
            Link::Here { node, .. } => Ok(node),
            Link::There(_) => bail!(InAnotherNode(self.session)),
        }
    }

    /// Sends every event from `from` on to `sink`. If another node has the session, only as long as [`Self::is_live`].
    pub async fn watch(
        &self,
        from: Seq,
        sink: ActorRef<Observation>,
        scope: WatchScope,
    ) -> anyhow::Result<()> {
        self.send_events(from, sink, scope, false).await
    }

    /// Sends every event from `from` on to `sink`, which nobody will watch with again. So it goes on where that is
    /// possible although the owner of the session changes.
    pub(crate) async fn send_events(
        &self,
        from: Seq,
        sink: ActorRef<Observation>,
        scope: WatchScope,
        beyond: bool,
    ) -> anyhow::Result<()> {
        match &self.link {
            Link::Here { node, .. } => {
                let watch = Watch { session: self.session, from, sink, family: scope };
                node.cast(NodeMessage::Watch(watch)).context("the node has died")
            }
            Link::There(remote) => remote.watch(from, sink, &scope, beyond).await,
        }
    }

    /// Prompts, and waits until the prompt is in the log. An interrupted turn is closed first.
    ///
    /// # Errors
    /// The session died first; the prompt may or may not be in the log.
    pub async fn prompt(
        &self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        let message = UserMessage::prompt(parts, by);
        self.send_message(setup, message, &PromptOptions::default()).await.map(|_| ())
    }

    /// Sends a message, and waits until it is in the log. `setup` is made with `options`, which the node of another
    /// process gets too. `Repeated`: the log has a prompt with its id.
    ///
    /// # Errors
    /// The id is too long, a quota is reached, the other node refuses the options, or the session died first.
    pub async fn send_message(
        &self,
        setup: &SessionSetup,
        message: UserMessage,
        options: &PromptOptions,
    ) -> anyhow::Result<Answered> {
        let message = message.with_id(options.message_id.clone())?;
        match &self.link {
            Link::Here { .. } => {
                let setup = Box::new(setup.clone());
                let config = crate::gathering(move || Box::new(setup.prompt_config())).await?;
                self.prompt_with(*config, message, false).await
            }
            Link::There(remote) => {
                let (options, of_command) = (options.clone(), &setup.of_command);
                let options = PromptOptions {
                    agent: options.agent.or_else(|| of_command.agent.clone()),
                    model: options.model.or_else(|| of_command.model.clone()),
                    ..options
                };
                let sent = remote.prompt(&message, &options).await;
                sent.map_err(|error| match error.downcast_ref::<RpcError>() {
                    Some(refused) if refused.is_params() && of_command.changes_turn() => {
                        let why = refused.message.trim_start_matches("params: ");
                        let what =
                            "the agent and the model that the command names cannot be used now";
                        Usage(format!("{what}: {why}")).into()
                    }
                    Some(_) | None => error,
                })
            }
        }
    }

    /// Sends a message; with `joins` only if a turn is running. Answers `Accepted` once it is in the log, and
    /// `NotOpen` if there is no turn to join.
    ///
    /// # Errors
    /// A quota refuses it, or the session died first.
    pub async fn prompt_with(
        &self,
        prompt_config: PromptConfig,
        message: UserMessage,
        joins: bool,
    ) -> anyhow::Result<Answered> {
        let session = self.session;
        self.within_quota(&prompt_config, &message).await?;
        let reply_to = ractor::call!(self.here()?, |reply_to| NodeMessage::Tell {
            session,
            message: self.prompt_message(prompt_config, message, joins, Some(reply_to)),
        });
        reply_to.context(DIED)
    }

    /// Sets the choices for prompts from now on, and waits until they are in the log. A session
    /// without a log keeps them for its first prompt. False: nothing has changed.
    ///
    /// # Errors
    /// The session died first.
    pub async fn configure(&self, choices: SessionChoices, by: &str) -> anyhow::Result<bool> {
        let value = json!(choices);
        self.set("choices", value, by, Session::Configured { choices, by: by.to_owned() }).await
    }

    /// Replaces the session's own permission rules, and waits until they are in the log. They only make verdicts
    /// stricter. They count for calls that are judged from then on, and for the subagents that these start. A
    /// session without a log keeps them for its first prompt. False: nothing has changed.
    ///
    /// # Errors
    /// The session died first.
    pub async fn set_rules(&self, rules: Vec<Rule>, by: &str) -> anyhow::Result<bool> {
        let value = json!(rules);
        self.set("rules", value, by, Session::RulesSet { rules, by: by.to_owned() }).await
    }

    /// Puts the session away, or takes it out again, and waits until that is in the log. False: nothing has changed.
    ///
    /// # Errors
    /// The session died first.
    pub async fn archive(&self, archived: Option<Time>, by: &str) -> anyhow::Result<bool> {
        let value = json!(archived.map(Time::millis));
        self.set("archived", value, by, Session::Archived { archived, by: by.to_owned() }).await
    }

    /// Appends `configured`, or has another node set its parameter `name` to `value`.
    async fn set(
        &self,
        name: &str,
        value: Value,
        by: &str,
        configured: Session,
    ) -> anyhow::Result<bool> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.configure(name, value, by).await,
        };
        let configured = Box::new(configured);
        let reply_to = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Configure { configured, settles: self.settles, reply_to },
        });
        Ok(reply_to.context(DIED)? == Answered::Accepted)
    }

    /// Writes the first events of a new session, which then exists without a prompt.
    ///
    /// # Errors
    /// The session died first, or is in another node.
    pub async fn begin(
        &self,
        choices: SessionChoices,
        title: Option<String>,
        by: &str,
    ) -> anyhow::Result<()> {
        let by = by.to_owned();
        let is_chosen = !choices.is_empty();
        let chosen = is_chosen.then_some(Session::Configured { choices, by });
        let titled = title.map(|title| Session::Titled { title });
        let facts = chosen.into_iter().chain(titled).map(Fact::new).collect();
        let begun = ractor::call!(self.here()?, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Begin { facts, settles: self.settles, reply_to },
        });
        begun.context(DIED).map(|_| ())
    }

    /// Gives the session another title.
    pub async fn rename(&self, title: &str) -> anyhow::Result<()> {
        let titled = Session::Titled { title: title.to_owned() };
        self.send(SessionMessage::Facts(vec![Fact::new(titled)]))
    }

    /// Requests a summary of the conversation, which is to follow the instructions; with `joins` only if a turn is running. `NotOpen`:
    /// there is no such turn, nothing to summarize, or a summary is already being written.
    pub async fn compact(
        &self,
        prompt_config: PromptConfig,
        by: &str,
        instructions: Option<&str>,
        joins: bool,
    ) -> anyhow::Result<Answered> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.compact(by, instructions).await,
        };
        let asked = Fact::new(Compaction::asked(by, instructions)).settling(self.settles);
        let reply_to = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: message(prompt_config, asked, joins, Some(reply_to)),
        });
        reply_to.context(DIED)
    }

    /// Prompts without waiting for the log; observers see the outcome.
    ///
    /// # Errors
    /// A quota refuses it.
    pub async fn cast_prompt(
        &self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        let (message, prompt_config) = (UserMessage::prompt(parts, by), setup.prompt_config());
        self.within_quota(&prompt_config, &message).await?;
        self.send(self.prompt_message(prompt_config, message, false, None))
    }

    /// Resumes an interrupted turn.
    pub fn resume(&self, setup: &SessionSetup) -> anyhow::Result<()> {
        let (config, world) = (Box::new(setup.config()), Some(Box::new(setup.world())));
        self.send(SessionMessage::Resume { config, world, close: false })
    }

    pub async fn interrupt(&self, by: &str) -> anyhow::Result<()> {
        match &self.link {
            Link::Here { node, .. } => {
                let interrupted = Fact::new(Turn::Interrupted { by: by.to_owned() });
                if self.settles.is_none() {
                    return self.send(SessionMessage::Facts(vec![interrupted]));
                }
                // its message must not be concluded before the session has judged it
                let fact = Box::new(interrupted.settling(self.settles));
                let judged = ractor::call!(node, |reply_to| NodeMessage::Tell {
                    session: self.session,
                    message: SessionMessage::Answered { fact, reply_to },
                });
                judged.context(DIED).map(|_| ())
            }
            Link::There(remote) => remote.interrupt(by).await,
        }
    }

    /// Answers a question of this session or of one that descends from it.
    pub async fn answer(
        &self,
        asked: QuestionId,
        reply: QuestionReply,
    ) -> anyhow::Result<Answered> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.answer(asked, reply).await,
        };
        let (session, of) = asked;
        let settles = self.settles;
        let message = |reply_to| SessionMessage::Answer { of, reply, settles, reply_to };
        match ractor::call!(node, |reply_to| NodeMessage::Tell {
            session,
            message: message(reply_to)
        }) {
            // A child is open only while something uses it.
            Err(_) if session != self.session => Ok(Answered::NotOpen),
            answered => answered.context("the session is gone"),
        }
    }

    /// Stops a node of this process immediately; its log has everything needed to resume.
    pub async fn stop(&self) {
        if let Link::Here { node, .. } = &self.link {
            // It may be dead already.
            let _ = node.kill_and_wait(None).await;
        }
    }

    /// Refuses a prompt that does not fit the quota. A message that starts no turn uses nothing.
    async fn within_quota(
        &self,
        prompt_config: &PromptConfig,
        message: &UserMessage,
    ) -> anyhow::Result<()> {
        let Some(quota) = prompt_config.quota.clone().filter(|_| !message.quiet) else {
            return Ok(());
        };
        // a command that a person runs asks no model
        let asks = prompt_config.config.options.max_steps != 0;
        let checked = quota.check(asks).await;
        // a client repeats what it got no answer to: it may have been taken before the quota was reached
        if checked.is_err()
            && let Some(id) = &message.notes.client
            && self.view().await?.prompt_ids.contains_key(id)
        {
            return Ok(());
        }
        checked
    }

    fn prompt_message(
        &self,
        prompt_config: PromptConfig,
        sent: UserMessage,
        joins: bool,
        reply_to: Option<RpcReplyPort<Answered>>,
    ) -> SessionMessage {
        let UserMessage { parts, by, quiet, notes } = sent;
        let (agent, model) = (prompt_config.agent.clone(), prompt_config.model.clone());
        let sent = match quiet {
            true => Turn::Noted { parts, by },
            false => Turn::Prompted { parts, agent, model, by },
        };
        let fact = Fact::new(sent).with_notes(notes).settling(self.settles);
        message(prompt_config, fact, joins, reply_to)
    }

    fn send(&self, message: SessionMessage) -> anyhow::Result<()> {
        let message = NodeMessage::Tell { session: self.session, message };
        self.here()?.cast(message).context("the node has died")
    }
}

/// The message by which `fact` reaches the session, with the configuration for it.
fn message(
    prompt_config: PromptConfig,
    fact: Fact,
    joins: bool,
    reply_to: Option<RpcReplyPort<Answered>>,
) -> SessionMessage {
    let PromptConfig { config, world, .. } = prompt_config;
    let (config, world) = (Box::new(config), Some(Box::new(world)));
    SessionMessage::Prompt { config, world, prompted: Box::new(fact), joins, reply_to }
}

/// How often, and how long each time, to look for the next node of a session while the last one
/// releases it; together as long as a node waits for a store.
pub const ATTEMPTS: usize = 40;
pub const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Whether a node refused because it is about to release the session; the next node will accept.
pub fn is_leaving(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(RpcError::is_leaving)
}

/// Whether a quota has refused a prompt, here or in the node that runs the session.
pub fn is_out_of_quota(error: &anyhow::Error) -> bool {
    let remote = error.downcast_ref::<RpcError>();
    error.is::<QuotaReached>() || remote.is_some_and(RpcError::is_quota)
}

/// Whether another node has the store.
pub fn is_locked(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<leftfold_actors::Error>();
    matches!(error, Some(leftfold_actors::Error::Store(leftfold_store::Error::Locked { .. })))
}

/// Whether another node of a shared store owns the session.
pub fn is_owned_elsewhere(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<leftfold_actors::Error>();
    let Some(leftfold_actors::Error::Store(error)) = error else { return false };
    matches!(error, leftfold_store::Error::Taken { owner: Some(_), .. })
}

/// Waits until the session is closed for good, and answers the reason.
pub async fn closed(opened: &mut Opened) -> String {
    match opened.closed.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the node has died".to_owned(),
    }
}

/// A reply with this text to a question; without text the question is dismissed.
pub fn reply(text: Option<String>, by: &str) -> QuestionReply {
    let answer = if text.is_some() { Answer::Once } else { Answer::Reject };
    QuestionReply { answer, feedback: text, always: None, by: by.to_owned() }
}
