//! The logs that the feed shows: those of the store, and those of sessions with a store of their own,
//! which `leftfold run` and the terminal make.
//!
//! The process has the store, so the logs in it change only here, unless nodes share it. A store of one session may be another
//! process's at any time. It is read as it is, and read again when a client asks.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use leftfold_actors::Recorded;
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_runtime::history::History;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_store::{Head, LiveReader};

/// Events that are read at a time.
const CHUNK: usize = 512;

#[derive(Clone, Debug)]
pub(super) struct Logs {
    store: LiveReader,
    /// Whether sessions with stores of their own are shown, too.
    has_others: bool,
}

impl Logs {
    pub(super) fn new(store: LiveReader) -> Self {
        let has_others = session_paths::is_shared(store.dir());
        Self { store, has_others }
    }

    /// The events of a root session and of all its subagents, by time.
    pub(super) fn events_of_tree(&self, root: SessionId) -> anyhow::Result<Vec<Envelope>> {
        if let Some(store) = self.other_store(root) {
            let (history, _) = History::good(&SessionPlace { store, session: root })?;
            return Ok(masked(history.by_time()));
        }
        let (mut events, mut known, mut next) = (Vec::new(), HashSet::new(), vec![root]);
        while let Some(session) = next.pop() {
            if !known.insert(session) {
                continue;
            }
            let own = self.read(session, 1)?;
            next.extend(own.iter().filter_map(Envelope::spawned));
            events.extend(own);
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// All events of a session as they are in the log: secrets are not masked.
    pub(super) fn unmasked(&self, session: SessionId) -> anyhow::Result<Vec<Envelope>> {
        if let Some(store) = self.other_store(session) {
            return Ok(leftfold_store::Reader::open(&store)?.read(session, 1)?);
        }
        let (mut events, mut from) = (Vec::new(), 1);
        loop {
            let chunk = self.store.read(session, from, CHUNK)?;
            let Some(last) = chunk.last() else { return Ok(events) };
            from = last.seq + 1;
            events.extend(chunk);
        }
    }

    /// Events after `known` as they are in the log; of this process's store at most a chunk.
    pub(super) fn after(&self, session: SessionId, known: Seq) -> anyhow::Result<Vec<Envelope>> {
        let Some(store) = self.other_store(session) else {
            return Ok(self.store.read(session, known + 1, CHUNK)?);
        };
        let heads = leftfold_store::heads(&store)?;
        let is_known = |head: &Head| head.session == session && head.seq <= known;
        if heads.iter().any(is_known) {
            return Ok(Vec::new());
        }
        Ok(leftfold_store::Reader::open(&store)?.read(session, known + 1)?)
    }

    /// Whether another node that shares the store owns the session.
    pub(super) fn runs_elsewhere(&self, session: SessionId) -> bool {
        let Some(inbox) = self.store.inbox() else { return false };
        let owner = inbox.with(|inboxes| inboxes.elsewhere(session));
        owner.ok().flatten().is_some_and(|owner| owner.node.is_some())
    }

    /// Whether other nodes append to the store's logs.
    pub(super) fn is_shared(&self) -> bool {
        self.store.inbox().is_some()
    }

    /// The head of a session of the store.
    pub(super) fn head(&self, session: SessionId) -> Option<Head> {
        self.store.head(session)
    }

    /// The folder of the store that has a session.
    pub(super) fn store_of(&self, session: SessionId) -> PathBuf {
        self.other_store(session).unwrap_or_else(|| self.store.dir().to_owned())
    }

    fn read(&self, session: SessionId, mut from: Seq) -> anyhow::Result<Vec<Envelope>> {
        let mut events = Vec::new();
        loop {
            let chunk = self.store.read(session, from, CHUNK)?;
            let Some(last) = chunk.last() else { return Ok(events) };
            from = last.seq + 1;
            events.extend(masked(chunk));
        }
    }

    /// The root of a session, by heads.
    pub(super) fn root_of(&self, session: SessionId) -> Option<SessionId> {
        let others = self.other_store(session).map(|store| session_paths::heads_now(&store));
        let head_of = |session: SessionId| match &others {
            Some(heads) => heads.iter().find(|head| head.session == session).cloned(),
            None => self.store.head(session),
        };
        let mut head = head_of(session)?;
        let mut seen = HashSet::new();
        // a damaged head could name a circle
        while seen.insert(head.session)
            && let Some(parent) = head.summary.as_ref().and_then(|summary| summary.parent)
        {
            match head_of(parent) {
                Some(above) => head = above,
                None => return Some(parent),
            }
        }
        Some(head.session)
    }

    /// The number of a session among the forks of another one; 0: it is no fork.
    pub(super) fn fork_number(&self, session: SessionId) -> u32 {
        let head = match self.other_store(session) {
            Some(store) => {
                let mut heads = session_paths::heads_now(&store).into_iter();
                heads.find(|head| head.session == session)
            }
            None => self.store.head(session),
        };
        head.and_then(|head| head.summary).map_or(0, |summary| summary.fork_number)
    }

    /// The heads of the store.
    ///
    /// # Errors
    /// Its database is away.
    pub(super) fn heads(&self) -> anyhow::Result<Vec<Head>> {
        Ok(self.store.heads()?)
    }

    /// The heads of the store; none, with a warning, while its database is away.
    pub(super) fn heads_now(&self) -> Vec<Head> {
        self.store.heads().unwrap_or_else(|error| {
            tracing::warn!("the list of sessions cannot be read: {error}");
            Vec::new()
        })
    }

    /// The heads of all sessions with a store of their own, of their subagents and their forks, with the
    /// folders of the stores.
    pub(super) fn other_heads(&self) -> Vec<(PathBuf, Head)> {
        let of = |store: PathBuf| {
            let heads = session_paths::heads_now(&store).into_iter();
            heads.map(move |head| (store.clone(), head))
        };
        self.other_stores().flat_map(of).collect()
    }

    /// The store of a session that is not in the store of this process.
    pub(super) fn other_store(&self, session: SessionId) -> Option<PathBuf> {
        if !self.has_others || self.store.head(session).is_some() {
            return None;
        }
        // another store is a folder, which can be read at any time
        let has = |store: &PathBuf| leftfold_store::has_session(store, session).unwrap_or_default();
        let own = session_paths::new_place(session).ok().map(|place| place.store).filter(has);
        own.or_else(|| self.other_stores().find(has))
    }

    fn other_stores(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let all = if self.has_others { session_paths::stores().ok() } else { None };
        // the shared store has no session's name
        all.unwrap_or_default().into_iter().filter(|store| session_paths::name(store).is_some())
    }
}

/// Secrets are masked as they are for every observer.
fn masked(events: Vec<Envelope>) -> Vec<Envelope> {
    let events: Arc<[Envelope]> = events.into();
    Recorded::all(&events).map(|event| event.masked().clone()).collect()
}
