//! The sessions of a node, as its clients reach them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use leftfold_actors::{NodeMessage, Opened};
use leftfold_events::SessionId;
use leftfold_events::event::SessionChoices;
use leftfold_store::{Head, LiveReader};
use leftfold_tools::host::Host;
use ractor::ActorRef;

use super::descendants;
use crate::client::Client;
use crate::project::Project;
use crate::remote::Remote;
use crate::remote::wire::RpcError;
use crate::session_paths::{self, Place};
use crate::session_setup::{PromptConfig, SessionSetup};
use crate::turn_config::Overrides;

#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// A session, opened if need be. With `store`, it is to be in that folder.
    ///
    /// # Errors
    /// There is none, or it can not be opened.
    async fn client(&self, session: SessionId, store: Option<&Path>) -> Result<Client, RpcError>;

    /// What goes with a prompt to a session that is open.
    ///
    /// # Errors
    /// The settings are wrong.
    async fn prompt_config(&self, session: SessionId) -> anyhow::Result<PromptConfig>;

    /// Whether a prompt only joins a turn that is under way.
    fn only_joins(&self) -> bool;

    /// Who can write to the session's store; with `store`, to that one, which this node holds.
    ///
    /// # Errors
    /// Nobody, any more.
    async fn holder(&self, session: SessionId, store: Option<&Path>) -> Result<Holder, RpcError>;
}

/// Who can write to a session's store.
#[derive(Debug)]
pub enum Holder {
    /// This node; `busy` while a turn is under way there.
    Here {
        node: ActorRef<NodeMessage>,
        store: LiveReader,
        busy: bool,
    },
    There(Remote),
}

/// The store of a session that is open here, and whether its turn is under way.
async fn held(client: &Client) -> Result<Holder, RpcError> {
    if let Some(remote) = client.remote() {
        return Ok(Holder::There(remote.clone()));
    }
    let gone = |_| RpcError::leaving("the node has let go of the session");
    let busy = client.view().await.map_err(gone)?.turn.is_some();
    let (node, store) = (client.here().map_err(gone)?, client.reading().await.map_err(gone)?);
    Ok(Holder::Here { node: node.clone(), store, busy })
}

/// The one session of a node that drives a single turn.
#[derive(Debug)]
pub struct SingleSession {
    client: Client,
    prompt_config: PromptConfig,
}

impl SingleSession {
    pub fn new(client: Client, prompt_config: PromptConfig) -> Arc<Self> {
        Arc::new(Self { client, prompt_config })
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

    async fn prompt_config(&self, session: SessionId) -> anyhow::Result<PromptConfig> {
        // a child has its own, from its parent
        let ours = self.client.session == session;
        let prompt_config = ours.then(|| self.prompt_config.clone());
        prompt_config.ok_or_else(|| RpcError::not_open(session).into())
    }

    fn only_joins(&self) -> bool {
        true
    }

    async fn holder(&self, _: SessionId, _: Option<&Path>) -> Result<Holder, RpcError> {
        held(&self.client).await
    }
}

/// Whether a store has a fork of this id that belongs to nobody.
fn is_fork(store: &Path, session: SessionId) -> bool {
    let heads = leftfold_store::heads(store).into_iter();
    let summary = heads.filter(|head| head.session == session).find_map(|head| head.summary);
    summary.is_some_and(|summary| summary.fork_of.is_some() && summary.parent.is_none())
}

/// Whether there is such a session.
fn has(place: &Place) -> bool {
    let Place { store, session } = place;
    store.join("db").is_file() && store.join("heads").join(session.to_string()).is_file()
}

/// The sessions of a node that lives on.
pub struct SessionRegistry {
    node: ActorRef<NodeMessage>,
    /// The one store of all sessions, if there is to be one.
    store: Option<PathBuf>,
    known: Mutex<HashMap<SessionId, Known>>,
    hosts: OnceLock<Hosts>,
}

impl std::fmt::Debug for SessionRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionRegistry").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Who has files and terminals of its own for the calls of a session.
type Hosts = Box<dyn Fn(SessionId) -> Arc<dyn Host> + Send + Sync>;

/// How a session is driven.
#[derive(Clone)]
struct Known {
    place: Place,
    project: Arc<Project>,
    overrides: Overrides,
    client: Option<Client>,
}

impl Known {
    fn setup(&self) -> anyhow::Result<SessionSetup> {
        SessionSetup::new(self.place.clone(), &self.project, &self.overrides, false)
    }
}

impl SessionRegistry {
    pub fn new(node: ActorRef<NodeMessage>, store: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self { node, store, known: Mutex::default(), hosts: OnceLock::new() })
    }

    /// From now on these are asked, as long as nobody else was named before.
    pub fn hosted_by(&self, hosts: Hosts) {
        if self.hosts.set(hosts).is_err() {
            tracing::warn!("the sessions of a node have one client with files of its own");
        }
    }

    pub fn host(&self, session: SessionId) -> Option<Arc<dyn Host>> {
        self.hosts.get().map(|host| host(session))
    }

    /// Where the session `id` is: in the one store of the node, or in its own.
    pub fn place(&self, session: SessionId) -> anyhow::Result<Place> {
        match &self.store {
            Some(store) => Ok(Place { store: store.clone(), session }),
            None => session_paths::new_place(session),
        }
    }

    /// Where a session is that there is already: forks are with the one that they come from.
    pub fn existing(&self, session: SessionId) -> Option<Place> {
        if let Some(known) = self.known().get(&session) {
            return Some(known.place.clone()).filter(has);
        }
        let own = self.place(session).ok().filter(has);
        if own.is_some() || self.store.is_some() {
            return own;
        }
        let stores = session_paths::stores().unwrap_or_default().into_iter();
        let mut places = stores.map(|store| Place { store, session });
        places.find(|place| has(place) && is_fork(&place.store, session))
    }

    /// The heads of the sessions that this node can open, but for those that belong to another.
    pub fn listed(&self) -> anyhow::Result<Vec<Head>> {
        let Some(store) = &self.store else {
            return Ok(session_paths::listed()?.into_iter().map(|(_, head)| head).collect());
        };
        let mut heads = leftfold_store::heads(store);
        heads.retain(|head| head.summary.as_ref().is_none_or(|summary| summary.parent.is_none()));
        Ok(heads)
    }

    /// From now on the session is known, and how it is driven.
    pub fn learn(&self, place: Place, project: Arc<Project>, overrides: Overrides) {
        let session = place.session;
        self.known().insert(session, Known { place, project, overrides, client: None });
    }

    /// From now on the session's prompts are taken like this, as far as its log does not say otherwise.
    pub fn configure(&self, session: SessionId, choices: SessionChoices) {
        if let Some(known) = self.known().get_mut(&session) {
            known.project = Arc::new(Project { choices, ..(*known.project).clone() });
        }
    }

    /// From now on the session is driven like this.
    pub fn drive(&self, session: SessionId, overrides: Overrides) {
        if let Some(known) = self.known().get_mut(&session) {
            known.overrides = overrides;
        }
    }

    /// The way to a session that is known: `mine`, as long as it leads there. Otherwise the session
    /// is opened, and there is something to be known of it.
    pub async fn reach(
        &self,
        session: SessionId,
        mine: Option<&Client>,
    ) -> anyhow::Result<(Client, Option<Opened>)> {
        let client = self.knowledge(session)?.client;
        if let Some(client) = client
            && mine.is_none_or(|mine| mine.is(&client))
            && client.is_live().await
        {
            return Ok((client, None));
        }
        let (client, opened) = self.open(session).await?;
        Ok((client, Some(opened)))
    }

    /// Opens a session that is known.
    pub async fn open(&self, session: SessionId) -> anyhow::Result<(Client, Opened)> {
        let known = self.knowledge(session)?;
        let mut setup = known.setup()?;
        setup.workspace.host = self.host(session);
        let opened = Client::open_soon(self.node.clone(), &setup).await?;
        if let Some(known) = self.known().get_mut(&session) {
            known.client = Some(opened.0.clone());
        }
        Ok(opened)
    }

    fn knowledge(&self, session: SessionId) -> Result<Known, RpcError> {
        self.known().get(&session).cloned().ok_or_else(|| RpcError::not_open(session))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session that descends from one that is known, and is in its store.
    async fn descendant(&self, session: SessionId, store: Option<&Path>) -> Option<Client> {
        for client in self.clients_in(store) {
            if let Some(found) = descendants::descendant(&client, session).await {
                return Some(found);
            }
        }
        None
    }

    /// The sessions that are open here, in that store or in any.
    fn clients_in(&self, store: Option<&Path>) -> Vec<Client> {
        let here = |known: &&Known| store.is_none_or(|store| known.place.store == store);
        let known = self.known();
        known.values().filter(here).filter_map(|known| known.client.clone()).collect()
    }

    /// Knows a session of which there is nothing but its log.
    async fn find(&self, session: SessionId, store: Option<&Path>) -> anyhow::Result<Place> {
        let not_open = || RpcError::not_open(session);
        if let Some(known) = self.known().get(&session) {
            return Ok(known.place.clone());
        }
        let place = match store {
            Some(store) if is_fork(store, session) => Place { store: store.to_owned(), session },
            Some(_) => Some(self.place(session)?).filter(has).ok_or_else(not_open)?,
            None => self.existing(session).ok_or_else(not_open)?,
        };
        let looked = place.clone();
        let project = tokio::task::spawn_blocking(move || Project::of(&looked)).await??;
        let known = Known {
            place: place.clone(),
            project: Arc::new(project),
            overrides: Overrides::asking(),
            client: None,
        };
        self.known().entry(session).or_insert(known);
        Ok(place)
    }
}

#[async_trait]
impl Sessions for SessionRegistry {
    async fn client(&self, session: SessionId, store: Option<&Path>) -> Result<Client, RpcError> {
        let place = match self.find(session, store).await.map_err(RpcError::of) {
            Ok(place) => place,
            Err(error) => return self.descendant(session, store).await.ok_or(error),
        };
        if store.is_some_and(|store| place.store != store) {
            return Err(RpcError::not_open(session));
        }
        Ok(self.reach(session, None).await.map_err(RpcError::of)?.0)
    }

    async fn prompt_config(&self, session: SessionId) -> anyhow::Result<PromptConfig> {
        let mut known = self.knowledge(session)?;
        // whoever has chosen
        if let Some(client) = &known.client
            && let Ok(state) = client.view().await
            && state.origin.is_some()
        {
            let (choices, agent) = (state.choices, Some(state.agent));
            known.project = Arc::new(Project { choices, agent, ..(*known.project).clone() });
        }
        let setup = known.setup()?;
        setup.extensions.ready().await;
        Ok(setup.prompt_config())
    }

    fn only_joins(&self) -> bool {
        false
    }

    async fn holder(&self, session: SessionId, store: Option<&Path>) -> Result<Holder, RpcError> {
        let Some(folder) = store else {
            return held(&self.client(session, None).await?).await;
        };
        let (mut found, mut working) = (None, false);
        for client in self.clients_in(Some(folder)) {
            // one that rests is as good as none
            if let Ok(Holder::Here { store, busy, .. }) = held(&client).await {
                (found, working) = (Some(store), working || busy);
            }
        }
        let store = found.ok_or_else(|| RpcError::leaving("the node lets go of the store"))?;
        Ok(Holder::Here { node: self.node.clone(), store, busy: working })
    }
}
