//! The sessions of a node that its clients can reach.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use leftfold_actors::{ListedSession, NodeMessage, Opened};
use leftfold_events::event::SessionChoices;
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Seq, SessionId};
use leftfold_store::{Head, Inbox, LiveReader, Store, WeakInbox};
use leftfold_tools::BoxFuture;
use leftfold_tools::host::{Host, HostCommand, HostError, Starting};
use ractor::ActorRef;
use serde_json::Value;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, watch};

use super::descendants;
use crate::client::{self, Client};
use crate::project::Project;
use crate::remote::wire::RpcError;
use crate::remote::{self, Remote};
use crate::session_list;
use crate::session_paths::{self, SessionPlace};
use crate::session_setup::SessionSetup;
use crate::subscription::Subscription;
use crate::turn_config::{Overrides, PromptOptions};

/// A connection that carries another protocol from now on.
#[derive(Debug)]
pub struct UpgradedConnection {
    pub input: BufReader<OwnedReadHalf>,
    pub output: OwnedWriteHalf,
    /// The client's process.
    pub pid: Option<i32>,
    /// The client's description of its connection, in the protocol's own terms.
    pub options: Value,
}

/// Serves a connection until it ends.
pub type Speaker = Arc<dyn Fn(UpgradedConnection) -> BoxFuture<'static, ()> + Send + Sync>;

/// Registers a protocol that other processes may speak with a node that keeps a store.
pub type Register = fn(&Arc<SessionRegistry>, &ActorRef<NodeMessage>, &Store);

#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// A client of the session, which is opened if necessary. With `store`, the session must be in
    /// that folder.
    ///
    /// # Errors
    /// There is no such session, or it cannot be opened.
    async fn client(&self, session: SessionId, store: Option<&Path>) -> Result<Client, RpcError>;

    /// The setup for a prompt to an open session, with the options of that prompt.
    ///
    /// # Errors
    /// The settings or the options are wrong, or prompts here take no options.
    async fn setup(
        &self,
        session: SessionId,
        options: &PromptOptions,
    ) -> anyhow::Result<SessionSetup>;

    /// Whether prompts only join a running turn.
    fn only_joins(&self) -> bool;

    /// The writer of the session's store; with `store`, of that store, which this node holds.
    ///
    /// # Errors
    /// There is no writer any more.
    async fn holder(&self, session: SessionId, store: Option<&Path>) -> Result<Holder, RpcError>;

    /// Removes a session, with its subagents, from the store that this node keeps.
    ///
    /// # Errors
    /// The node keeps no store or another one, a turn is running, forks share the session's events,
    /// or it is a subagent.
    async fn remove(&self, session: SessionId) -> Result<(), RpcError>;

    /// The protocol of this name that connections to the socket can carry.
    fn speaker(&self, protocol: &str) -> Option<Speaker>;

    /// Takes a session of a shared store that has no owner, and goes on with its interrupted turn.
    ///
    /// # Errors
    /// This node takes none, or it cannot be opened.
    async fn take_over(&self, session: SessionId) -> anyhow::Result<()>;
}

/// The writer of a session's store.
#[derive(Debug)]
pub enum Holder {
    /// This node; `busy` while a turn is running there.
    Here {
        node: ActorRef<NodeMessage>,
        store: LiveReader,
        busy: bool,
    },
    There(Remote),
}

/// The store of a session that is open here, and whether its turn is running.
async fn held(client: &Client) -> Result<Holder, RpcError> {
    if let Some(remote) = client.remote() {
        return Ok(Holder::There(remote.clone()));
    }
    let gone = |_| RpcError::leaving("the node has released the session");
    let busy = client.view().await.map_err(gone)?.turn.is_some();
    let (node, store) = (client.here().map_err(gone)?, client.reading().await.map_err(gone)?);
    Ok(Holder::Here { node: node.clone(), store, busy })
}

/// The only session of a node that runs a single turn. Prompts can only join that turn: the Session
/// refuses a prompt after the turn's end before anything is appended.
#[derive(Debug)]
pub struct SingleSession {
    client: Client,
    setup: SessionSetup,
}

impl SingleSession {
    pub fn new(client: Client, setup: SessionSetup) -> Arc<Self> {
        Arc::new(Self { client, setup })
    }
}

#[async_trait]
impl Sessions for SingleSession {
    async fn client(&self, session: SessionId, _: Option<&Path>) -> Result<Client, RpcError> {
        if self.client.session == session {
            return Ok(self.client.clone());
        }
        let child = descendants::descendant(&self.client, session).await;
        child.ok_or_else(|| RpcError::not_open(session))
    }

    async fn setup(
        &self,
        session: SessionId,
        options: &PromptOptions,
    ) -> anyhow::Result<SessionSetup> {
        if options.changes_turn() {
            let why = "params: the node of this session runs one turn, whose agent, model, system text, tools and limits stay \
                       as they are: leave these options out, or prompt again once the turn has ended";
            return Err(RpcError::params(why).into());
        }
        // A child's configuration comes from its parent.
        let ours = self.client.session == session;
        let setup = ours.then(|| self.setup.clone());
        setup.ok_or_else(|| RpcError::not_open(session).into())
    }

    fn only_joins(&self) -> bool {
        true
    }

    async fn holder(&self, _: SessionId, _: Option<&Path>) -> Result<Holder, RpcError> {
        held(&self.client).await
    }

    async fn remove(&self, _: SessionId) -> Result<(), RpcError> {
        Err(RpcError::leaving("this node runs one turn, and releases the store at its end"))
    }

    fn speaker(&self, _: &str) -> Option<Speaker> {
        None
    }

    async fn take_over(&self, session: SessionId) -> anyhow::Result<()> {
        Err(RpcError::not_open(session).into())
    }
}

/// Whether a store has a root session or a fork of this id.
fn lists(store: &Path, session: SessionId) -> bool {
    let heads = session_paths::heads_now(store);
    let is_listed =
        |head: &Head| session_paths::is_root(store, head) || session_paths::is_fork(head);
    heads.iter().any(|head| head.session == session && is_listed(head))
}

/// Whether a store has a fork of this id that has no parent.
fn is_fork(store: &Path, session: SessionId) -> bool {
    let heads = session_paths::heads_now(store);
    heads.iter().any(|head| head.session == session && session_paths::is_fork(head))
}

/// Whether the folder of a project is there. Without it, each command of a turn would fail.
fn is_workable(project: &Project) -> bool {
    project.executor.is_some() || project.directory.is_dir()
}

/// Whether the session exists.
fn has(place: &SessionPlace) -> bool {
    leftfold_store::has_session(&place.store, place.session).unwrap_or_else(|error| {
        tracing::warn!("session {} is not looked for: {error}", place.session);
        false
    })
}

/// The sessions of a long-lived node, which are opened when a client names them.
pub struct SessionRegistry {
    me: Weak<Self>,
    node: ActorRef<NodeMessage>,
    /// The single store of all sessions, if one was requested.
    store: Option<PathBuf>,
    known: Mutex<HashMap<SessionId, RegisteredSession>>,
    hosts: Mutex<Vec<(u64, Hosts)>>,
    /// How many connections have each session open.
    users: Mutex<HashMap<SessionId, usize>>,
    speakers: Mutex<HashMap<&'static str, Speaker>>,
    /// How many connections carry another protocol, and whether they have to end.
    speaking: watch::Sender<Speaking>,
    follower: OnceLock<Follower>,
    removed: OnceLock<RemovalFollower>,
    /// The store that this node keeps as long as it runs.
    kept: OnceLock<Store>,
    /// Without such a store: the inboxes whose messages it takes.
    taking: Mutex<Option<WeakInbox>>,
    /// Taken by whoever takes a session that has no owner, until it is open.
    claiming: Semaphore,
}

/// Is told of every session that is removed.
type RemovalFollower = Box<dyn Fn(SessionId) + Send + Sync>;

/// Sessions without an owner that are being opened at the same time. The others wait, so that it is seen in time if another
/// node has taken them.
const CLAIMS: usize = 8;

/// How long a turn that goes on may take to begin.
const TURN_BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the connections that carry another protocol may take to end.
const CUT_TIMEOUT: Duration = Duration::from_millis(400);

#[derive(Debug, Default)]
struct Speaking {
    count: usize,
    ends: bool,
}

/// A connection that carries another protocol.
#[derive(Debug)]
pub struct SpeakingGuard(Weak<SessionRegistry>);

impl Drop for SpeakingGuard {
    fn drop(&mut self) {
        if let Some(sessions) = self.0.upgrade() {
            sessions.speaking.send_modify(|speaking| speaking.count -= 1);
        }
    }
}

/// Is told of every session that is opened, before its first prompt, and of the end of its log if its
/// last turn was interrupted.
type Follower = Box<dyn Fn(&Client, Option<Seq>) -> BoxFuture<'static, ()> + Send + Sync>;

leftfold_events::debug_fields!(SessionRegistry { store });

/// Supplies the files and terminals of one connection's client for a session's calls. They offer
/// nothing while that client does not have the session open.
type Hosts = Arc<dyn Fn(SessionId) -> Arc<dyn Host> + Send + Sync>;

/// A connection whose client supplies files and terminals, as long as this lives.
#[derive(Debug)]
pub struct Hosting {
    sessions: Weak<SessionRegistry>,
    id: u64,
}

impl Drop for Hosting {
    fn drop(&mut self) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.hosts().retain(|(id, _)| *id != self.id);
        }
    }
}

/// The host of a session in a node with several connections: the first client that has the session
/// open and offers the operation.
struct SessionHost {
    sessions: Weak<SessionRegistry>,
    session: SessionId,
}

leftfold_events::debug_fields!(SessionHost { session });

impl SessionHost {
    fn first<T>(&self, offer: impl Fn(&dyn Host) -> Option<T>) -> Option<T> {
        let hosts: Vec<Hosts> =
            self.sessions.upgrade()?.hosts().iter().map(|(_, hosts)| Arc::clone(hosts)).collect();
        hosts.iter().find_map(|hosts| offer(&*hosts(self.session)))
    }
}

impl Host for SessionHost {
    fn read(&self, path: &Path) -> Option<BoxFuture<'static, Result<String, HostError>>> {
        self.first(|host| host.read(path))
    }

    fn write(&self, path: &Path, text: &str) -> Option<BoxFuture<'static, Result<(), HostError>>> {
        self.first(|host| host.write(path, text))
    }

    fn start(&self, command: &HostCommand<'_>) -> Option<Starting> {
        self.first(|host| host.start(command))
    }
}

/// A known session, and the overrides for its prompts.
#[derive(Clone)]
struct RegisteredSession {
    place: SessionPlace,
    project: Arc<Project>,
    overrides: Overrides,
    client: Option<Client>,
    /// The end of its log when it was opened, if its last turn was interrupted.
    interrupted_at: Option<Seq>,
}

impl RegisteredSession {
    fn setup(&self) -> anyhow::Result<SessionSetup> {
        SessionSetup::new(self.place.clone(), &self.project, &self.overrides, false)
    }
}

impl SessionRegistry {
    pub fn new(node: ActorRef<NodeMessage>, store: Option<PathBuf>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            node,
            store,
            known: Mutex::default(),
            hosts: Mutex::default(),
            users: Mutex::default(),
            speakers: Mutex::default(),
            speaking: watch::Sender::default(),
            follower: OnceLock::new(),
            removed: OnceLock::new(),
            kept: OnceLock::new(),
            taking: Mutex::default(),
            claiming: Semaphore::new(CLAIMS),
        })
    }

    /// Keeps a store as long as the node runs, so that its sessions can be reached whether or not one
    /// is open. Processes that a dead node of the store has left are ended first.
    ///
    /// # Errors
    /// The node has died.
    pub async fn keep(&self, store: Store) -> anyhow::Result<()> {
        let identity = Some(store.identity()).filter(|_| !store.is_shared());
        let hunt = move || {
            let strays = identity.map_or(0, |identity| leftfold_process::end_strays(&identity));
            strays + leftfold_process::end_orphans()
        };
        let ended = tokio::task::spawn_blocking(hunt).await?;
        if ended > 0 {
            tracing::info!("{ended} processes of a dead node were ended");
        }
        self.node.cast(NodeMessage::Hold(store.clone())).context("the node has died")?;
        if self.kept.set(store).is_err() {
            tracing::warn!("a node can keep only one store");
        }
        Ok(())
    }

    /// The store that this node keeps.
    pub fn kept_store(&self) -> Option<Store> {
        self.kept.get().cloned()
    }

    /// Whether the node is about to stop.
    pub fn is_ending(&self) -> bool {
        self.speaking.borrow().ends
    }

    /// Takes a session that has no owner, and goes on with its interrupted turn. That has begun when this returns. Answers
    /// whether the session is this node's: another one may have been quicker.
    pub(super) async fn claim(&self, session: SessionId) -> anyhow::Result<bool> {
        let place = self.place(session)?;
        let turn = self.claiming.acquire().await?;
        if self.elsewhere(&place).await?.is_some() {
            return Ok(false);
        }
        let looked = place.clone();
        let project = tokio::task::spawn_blocking(move || Project::for_session(&looked)).await??;
        if !is_workable(&project) {
            bail!(
                "its project folder {} is not on this host: bring it there",
                project.directory.display()
            );
        }
        self.learn(place, Arc::new(project), Overrides::interactive());
        let (client, _) = self.open(session).await?;
        drop(turn);
        Ok(client.remote().is_none())
    }

    /// Resumes the interrupted turn of a session that was just opened here. False: it has none, or stays interrupted
    /// because its project is not here.
    async fn go_on(
        client: &Client,
        opened: &Opened,
        RegisteredSession { place, project, .. }: RegisteredSession,
    ) -> anyhow::Result<bool> {
        let is_cut_off = opened.unfinished || client.view().await?.files.restore.is_some();
        if !is_cut_off || !is_workable(&project) {
            return Ok(false);
        }
        // the permission mode of the turn stays, because nobody may be there who would choose one
        let given = project.given.as_ref();
        let overrides = Overrides {
            ask: given.map_or(AskMode::Ask, |given| given.ask),
            accept_edits: given.is_some_and(|given| given.accept_edits),
            ..Overrides::default()
        };
        let setup = move || SessionSetup::new(place, &project, &overrides, true);
        let resumed = crate::gathering(setup).await??;
        resumed.extensions.ready().await;
        let mut events = Subscription::open(client, opened.head + 1).await?;
        client.resume(&resumed)?;
        let _ = tokio::time::timeout(TURN_BEGIN_TIMEOUT, events.next()).await;
        Ok(true)
    }

    /// The sessions that are open in this node.
    ///
    /// # Errors
    /// The node has died.
    pub(super) async fn list_open(&self) -> anyhow::Result<Vec<ListedSession>> {
        Ok(ractor::call!(self.node, |reply| NodeMessage::ListOpen { reply })?)
    }

    /// Closes those of the `open` sessions that another node owns by now. Their next use is by way of that node.
    ///
    /// # Errors
    /// The node has died, or the database is away.
    pub(super) async fn close_lost(&self, open: &[ListedSession]) -> anyhow::Result<()> {
        let Some(inbox) = self.kept.get().and_then(Store::inbox) else { return Ok(()) };
        let open: Vec<SessionId> = open.iter().map(|listed| listed.session).collect();
        if open.is_empty() {
            return Ok(());
        }
        let look = move || inbox.with(|inboxes| inboxes.lost(&open));
        for session in tokio::task::spawn_blocking(look).await?? {
            tracing::warn!("session {session} belongs to another node now: this one closes it");
            ractor::call!(self.node, |reply| NodeMessage::Close { session, reply })?;
        }
        Ok(())
    }

    /// Whether its messages of other nodes are not taken yet. They are from now on.
    pub(super) fn begin_to_take(&self, inbox: &Inbox) -> bool {
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = taking.as_ref().and_then(WeakInbox::upgrade).is_none();
        if is_new {
            *taking = Some(inbox.downgrade());
        }
        is_new
    }

    /// A client of a session that is open here or that another node owns. `None`: neither.
    ///
    /// # Errors
    /// The database is away, or the session's log cannot be read.
    pub async fn running(&self, session: SessionId) -> anyhow::Result<Option<Client>> {
        let open = self.knowledge(session).ok().and_then(|known| known.client);
        if let Some(client) = open
            && client.is_live().await
        {
            return Ok(Some(client));
        }
        let owner = match self.kept.get().and_then(Store::inbox) {
            Some(inbox) => remote::inbox::elsewhere(&inbox, session).await?,
            None => None,
        };
        match owner.and_then(|owner| owner.node) {
            Some(_) => Ok(Some(self.client(session, None).await?)),
            None => Ok(None),
        }
    }

    /// The inboxes of the store that this node keeps, if the session is there and they are the way to it.
    async fn elsewhere(&self, place: &SessionPlace) -> anyhow::Result<Option<Inbox>> {
        let kept = self.kept.get().filter(|kept| kept.dir() == place.store);
        let Some(inbox) = kept.and_then(Store::inbox) else { return Ok(None) };
        let elsewhere = remote::inbox::elsewhere(&inbox, place.session).await?;
        Ok(elsewhere.map(|_| inbox))
    }

    /// Gives the sessions of a store that other nodes share back, so that they go on with them at once. The node has
    /// stopped.
    pub async fn hand_over(&self) {
        let Some(store) = self.kept.get().filter(|store| store.is_shared()).cloned() else {
            return;
        };
        if let Err(error) = tokio::task::spawn_blocking(move || store.leave()).await {
            tracing::error!("handing the sessions over failed unexpectedly: {error}");
        }
    }

    /// Whether this node keeps that store as long as it runs.
    pub fn keeps(&self, store: &Path) -> bool {
        self.kept.get().is_some_and(|kept| kept.dir() == store)
    }

    /// From now on `follower` is told of every session that is removed.
    pub fn removed_to(&self, follower: RemovalFollower) {
        if self.removed.set(follower).is_err() {
            tracing::warn!("removals can have only one follower");
        }
    }

    /// Tells `follower` of every session that is open, and from now on of every one that is opened.
    pub async fn opened_to(&self, follower: Follower) {
        let follower = self.follower.get_or_init(|| follower);
        let open: Vec<(Client, Option<Seq>)> = {
            let known = self.known();
            let open = known.values();
            open.filter_map(|known| Some((known.client.clone()?, known.interrupted_at))).collect()
        };
        for (client, interrupted_at) in open {
            follower(&client, interrupted_at).await;
        }
    }

    /// The place of a registered session, and its project.
    ///
    /// # Errors
    /// The session is not registered.
    pub fn registered(&self, session: SessionId) -> Result<(SessionPlace, Arc<Project>), RpcError> {
        let known = self.knowledge(session)?;
        Ok((known.place, known.project))
    }

    /// Adds a connection's hosts of sessions, until the answer is dropped.
    pub fn hosted_by(&self, hosts: Hosts) -> Hosting {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        self.hosts().push((id, hosts));
        Hosting { sessions: self.me.clone(), id }
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<(u64, Hosts)>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn host(&self, session: SessionId) -> Option<Arc<dyn Host>> {
        if self.hosts().is_empty() {
            return None;
        }
        Some(Arc::new(SessionHost { sessions: self.me.clone(), session }))
    }

    /// From now on connections to the socket can carry this protocol.
    pub fn speaks(&self, protocol: &'static str, speaker: Speaker) {
        self.speakers.lock().unwrap_or_else(PoisonError::into_inner).insert(protocol, speaker);
    }

    /// Counts a connection that carries another protocol, until the answer is dropped.
    pub fn speaking(&self) -> SpeakingGuard {
        self.speaking.send_modify(|speaking| speaking.count += 1);
        SpeakingGuard(self.me.clone())
    }

    /// Waits until connections that carry another protocol have to end.
    pub async fn cut(&self) {
        // the sender is held by this value, so waiting cannot fail
        let _ = self.speaking.subscribe().wait_for(|speaking| speaking.ends).await;
    }

    /// Cuts the connections that carry another protocol, before the node stops: their clients get no
    /// errors of its end, and go on with the next node.
    pub async fn cut_all(&self) {
        self.speaking.send_modify(|speaking| speaking.ends = true);
        let mut speaking = self.speaking.subscribe();
        let over = speaking.wait_for(|speaking| speaking.count == 0);
        if tokio::time::timeout(CUT_TIMEOUT, over).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }

    /// Counts a connection that has opened the session.
    pub fn enter(&self, session: SessionId) {
        *self.users.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default() += 1;
    }

    /// Counts a connection that has left the session. True: no other one has it open.
    pub fn leave(&self, session: SessionId) -> bool {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = users.get_mut(&session) else { return true };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        users.remove(&session);
        true
    }

    /// Whether several connections have the session open.
    pub fn is_used_by_others(&self, session: SessionId) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(&session).is_some_and(|count| *count > 1)
    }

    /// The place of the session `id`: in the node's single store, or in its own.
    pub fn place(&self, session: SessionId) -> anyhow::Result<SessionPlace> {
        match &self.store {
            Some(store) => Ok(SessionPlace { store: store.clone(), session }),
            None => session_paths::new_place(session),
        }
    }

    /// The place of an existing session; forks are in the store of their origin.
    pub fn existing(&self, session: SessionId) -> Option<SessionPlace> {
        if let Some(known) = self.known().get(&session) {
            return Some(known.place.clone()).filter(has);
        }
        let own = self.place(session).ok().filter(has);
        if own.is_some() || self.has_other_store() {
            return own;
        }
        let stores = session_paths::stores().unwrap_or_default().into_iter();
        let mut places = stores.map(|store| SessionPlace { store, session });
        places.find(|place| has(place) && lists(&place.store, session))
    }

    /// Whether the node's single store is outside the data folder. Then it has no other sessions.
    fn has_other_store(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !session_paths::is_shared(store))
    }

    /// The heads of the sessions that this node can open, except those of other sessions' children.
    pub fn listed(&self) -> anyhow::Result<Vec<Head>> {
        let Some(store) = self.store.as_ref().filter(|_| self.has_other_store()) else {
            return Ok(session_paths::listed()?.into_iter().map(|(_, head)| head).collect());
        };
        let mut heads = leftfold_store::heads(store)?;
        heads.retain(|head| head.summary.as_ref().is_none_or(|summary| summary.parent.is_none()));
        Ok(heads)
    }

    /// Removes a session in a store that this node does not keep, with its subagents. One that does not
    /// exist counts as removed.
    ///
    /// # Errors
    /// Another process has the store, or the session has forks.
    pub async fn remove_other(&self, place: SessionPlace) -> anyhow::Result<()> {
        let session = place.session;
        ractor::call!(self.node, |reply| NodeMessage::Close { session, reply })?;
        self.known().remove(&session);
        let mut left = client::ATTEMPTS;
        loop {
            let place = place.clone();
            let removed = tokio::task::spawn_blocking(move || match has(&place) {
                true => session_list::remove(&place).map(|_| ()),
                false => Ok(()),
            });
            match removed.await? {
                // a process that has just read the log may hold the store a moment longer
                Err(error) if is_locked(&error) && left > 0 => left -= 1,
                removed => return removed,
            }
            tokio::time::sleep(client::RETRY_DELAY).await;
        }
    }

    /// Registers a session with the overrides for its prompts.
    pub fn learn(&self, place: SessionPlace, project: Arc<Project>, overrides: Overrides) {
        let session = place.session;
        let mut known = self.known();
        // another connection may have opened it
        let before = known.remove(&session);
        let interrupted_at = before.as_ref().and_then(|before| before.interrupted_at);
        let client = before.and_then(|before| before.client);
        let learned = RegisteredSession { place, project, overrides, client, interrupted_at };
        known.insert(session, learned);
    }

    /// Sets the choices for the session's prompts, which its log may override.
    pub fn configure(&self, session: SessionId, choices: SessionChoices) {
        if let Some(known) = self.known().get_mut(&session) {
            known.project = Arc::new(Project { choices, ..(*known.project).clone() });
        }
    }

    /// The rules of a session that is open here, those included that wait for its first prompt.
    pub async fn rules(&self, session: SessionId) -> Option<Vec<Rule>> {
        let client = self.knowledge(session).ok()?.client?;
        Some(client.view().await.ok()?.rules)
    }

    /// Sets the overrides for the session's prompts.
    pub fn set_overrides(&self, session: SessionId, overrides: Overrides) {
        if let Some(known) = self.known().get_mut(&session) {
            known.overrides = overrides;
        }
    }

    /// A client of a registered session: `mine` if it is still valid. Otherwise the session is
    /// opened, and `Opened` says how it was found.
    pub async fn client_for(
        &self,
        session: SessionId,
        mine: Option<&Client>,
    ) -> anyhow::Result<(Client, Option<Opened>)> {
        let known = self.knowledge(session)?.client;
        if let Some(client) = mine.cloned().or(known)
            && client.is_live().await
        {
            return Ok((client, None));
        }
        let (client, opened) = self.open(session).await?;
        Ok((client, Some(opened)))
    }

    /// Opens a registered session. In a store that nodes share, whoever has a session goes on with its interrupted turn,
    /// which has begun when this returns: no other node would.
    pub async fn open(&self, session: SessionId) -> anyhow::Result<(Client, Opened)> {
        let known = self.knowledge(session)?;
        let opened = match self.elsewhere(&known.place).await? {
            Some(inbox) => Client::through_inbox(&known.place, inbox, true).await?,
            None => {
                let is_shared =
                    self.keeps(&known.place.store) && self.kept.get().is_some_and(Store::is_shared);
                let (client, mut opened) = self.open_here(session, known.clone()).await?;
                if is_shared && client.remote().is_none() {
                    opened.unfinished &= !Self::go_on(&client, &opened, known).await?;
                }
                (client, opened)
            }
        };
        let interrupted_at = opened.1.unfinished.then_some(opened.1.head);
        if let Some(known) = self.known().get_mut(&session) {
            (known.client, known.interrupted_at) = (Some(opened.0.clone()), interrupted_at);
        }
        if let Some(follower) = self.follower.get() {
            follower(&opened.0, interrupted_at).await;
        }
        Ok(opened)
    }

    async fn open_here(
        &self,
        session: SessionId,
        known: RegisteredSession,
    ) -> anyhow::Result<(Client, Opened)> {
        let mut setup = crate::gathering(move || known.setup()).await??;
        setup.workspace.host = self.host(session);
        let kept = self.kept.get().filter(|kept| kept.dir() == setup.place.store);
        Client::open_soon(self.node.clone(), &setup, kept.and_then(Store::inbox)).await
    }

    fn knowledge(&self, session: SessionId) -> Result<RegisteredSession, RpcError> {
        self.known().get(&session).cloned().ok_or_else(|| RpcError::not_open(session))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, RegisteredSession>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client of a descendant of a registered session in the same store.
    async fn descendant(&self, session: SessionId, store: Option<&Path>) -> Option<Client> {
        for client in self.clients_in(store) {
            if let Some(found) = descendants::descendant(&client, session).await {
                return Some(found);
            }
        }
        None
    }

    /// The sessions that are open here, in `store` or in any store.
    fn clients_in(&self, store: Option<&Path>) -> Vec<Client> {
        let here =
            |known: &&RegisteredSession| store.is_none_or(|store| known.place.store == store);
        let known = self.known();
        known.values().filter(here).filter_map(|known| known.client.clone()).collect()
    }

    /// Registers a session that is only known by its log.
    async fn find(&self, session: SessionId, store: Option<&Path>) -> anyhow::Result<SessionPlace> {
        let not_open = || RpcError::not_open(session);
        if let Some(known) = self.known().get(&session) {
            return Ok(known.place.clone());
        }
        let place = match store {
            Some(store) if is_fork(store, session) => {
                SessionPlace { store: store.to_owned(), session }
            }
            Some(_) => Some(self.place(session)?).filter(has).ok_or_else(not_open)?,
            None => self.existing(session).ok_or_else(not_open)?,
        };
        let (looked, kept) = (place.clone(), self.kept.get().map(Store::reader));
        let project =
            crate::gathering(move || match kept.filter(|kept| kept.dir() == looked.store) {
                Some(kept) => {
                    Project::of_events(&looked, &kept.read(looked.session, 1, usize::MAX)?)
                }
                None => Project::for_session(&looked),
            });
        let project = project.await??;
        let known = RegisteredSession {
            place: place.clone(),
            project: Arc::new(project),
            overrides: Overrides::interactive(),
            client: None,
            interrupted_at: None,
        };
        self.known().entry(session).or_insert(known);
        Ok(place)
    }
}

fn is_locked(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(leftfold_store::Error::Locked { .. }))
}

/// Removes closed sessions from a store. A log is released some time after its session has ended.
async fn forget(store: &Store, sessions: Vec<SessionId>) -> anyhow::Result<()> {
    let mut left = client::ATTEMPTS;
    loop {
        let (store, sessions) = (store.clone(), sessions.clone());
        match tokio::task::spawn_blocking(move || store.forget(&sessions)).await? {
            Err(leftfold_store::Error::Taken { .. }) if left > 0 => left -= 1,
            done => return Ok(done?),
        }
        tokio::time::sleep(client::RETRY_DELAY).await;
    }
}

#[async_trait]
impl Sessions for SessionRegistry {
    async fn client(&self, session: SessionId, store: Option<&Path>) -> Result<Client, RpcError> {
        let place = match self.find(session, store).await.map_err(RpcError::from_error) {
            Ok(place) => place,
            Err(error) => return self.descendant(session, store).await.ok_or(error),
        };
        if store.is_some_and(|store| place.store != store) {
            return Err(RpcError::not_open(session));
        }
        Ok(self.client_for(session, None).await.map_err(RpcError::from_error)?.0)
    }

    async fn setup(
        &self,
        session: SessionId,
        options: &PromptOptions,
    ) -> anyhow::Result<SessionSetup> {
        let mut known = self.knowledge(session)?;
        known.overrides = options.over(&known.overrides);
        // An open client has the choices of its log.
        if let Some(client) = &known.client
            && let Ok(state) = client.view().await
        {
            let project = Project { rules: state.rules.clone(), ..(*known.project).clone() };
            known.project = Arc::new(if state.origin.is_some() {
                let agent = state.last_agent().map(str::to_owned);
                Project { choices: state.choices, agent, ..project }
            } else {
                project
            });
        }
        let setup = known.setup()?;
        setup.extensions.ready().await;
        Ok(setup)
    }

    fn only_joins(&self) -> bool {
        false
    }

    async fn holder(&self, session: SessionId, store: Option<&Path>) -> Result<Holder, RpcError> {
        let Some(folder) = store else {
            return held(&self.client(session, None).await?).await;
        };
        let is_elsewhere = match self.place(session) {
            Ok(place) if place.store == folder => self.elsewhere(&place).await,
            Ok(_) | Err(_) => Ok(None),
        };
        if is_elsewhere.map_err(RpcError::from_error)?.is_some() {
            return held(&self.client(session, store).await?).await;
        }
        let kept = self.kept.get().filter(|kept| kept.dir() == folder);
        let (mut found, mut working) = (kept.map(Store::reader), false);
        for client in self.clients_in(Some(folder)) {
            // A resting session counts as not open.
            if let Ok(Holder::Here { store, busy, .. }) = held(&client).await {
                (found, working) = (Some(store), working || busy);
            }
        }
        let store = found.ok_or_else(|| RpcError::leaving("the node is releasing the store"))?;
        Ok(Holder::Here { node: self.node.clone(), store, busy: working })
    }

    async fn remove(&self, session: SessionId) -> Result<(), RpcError> {
        let kept = self.kept.get().filter(|store| {
            let store = store.dir().to_owned();
            has(&SessionPlace { store, session })
        });
        let Some(store) = kept.cloned() else {
            return Err(RpcError::leaving("this node does not keep the store of that session"));
        };
        let heads = leftfold_store::heads(store.dir()).map_err(RpcError::internal)?;
        let tree = session_list::removable(&heads, session)
            .map_err(|error| RpcError::params(format!("{error:#}")))?;
        for session in &tree {
            let open = self.known().get(session).and_then(|known| known.client.clone());
            if let Some(client) = open
                && client.view().await.is_ok_and(|state| state.turn.is_some())
            {
                let why = format!("a turn of session {session} is running: cancel it first");
                return Err(RpcError::request(why));
            }
        }
        for session in tree.iter().copied() {
            let closed = ractor::call!(self.node, |reply| NodeMessage::Close { session, reply });
            closed.map_err(RpcError::internal)?;
            self.known().remove(&session);
        }
        forget(&store, tree).await.map_err(RpcError::from_error)?;
        if let Some(removed) = self.removed.get() {
            removed(session);
        }
        Ok(())
    }

    fn speaker(&self, protocol: &str) -> Option<Speaker> {
        if self.speaking.borrow().ends {
            return None;
        }
        let speakers = self.speakers.lock().unwrap_or_else(PoisonError::into_inner);
        speakers.get(protocol).cloned()
    }

    async fn take_over(&self, session: SessionId) -> anyhow::Result<()> {
        let open = self.knowledge(session).ok().and_then(|known| known.client);
        match open {
            Some(client) if client.remote().is_none() && client.is_live().await => Ok(()),
            Some(_) | None => self.claim(session).await.map(drop),
        }
    }
}
