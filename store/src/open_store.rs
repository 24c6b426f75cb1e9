//! A store that this process holds open. A [`Store`](crate::Store) and its logs share one
//! `OpenStore`; the last of them to be dropped closes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leftfold_events::SessionId;

use crate::engine::{Engine, ReadEngine};
use crate::error::{ContentFault, Error};
use crate::head::Head;
use crate::payloads::Cache;
use crate::scan::Source;
use crate::usage::DayUse;

#[derive(Debug)]
pub(crate) struct OpenStore {
    dir: PathBuf,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) heads: Arc<HeldHeads>,
}

impl OpenStore {
    pub(crate) fn new(engine: Box<dyn Engine>, dir: &Path) -> Self {
        let (cache, heads) = (Arc::default(), Arc::default());
        Self { dir: dir.to_owned(), engine, cache, heads }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source { engine: self.engine.reader(), cache: &self.cache }
    }

    /// The heads as they were acknowledged. What only this process changes is read only once.
    pub(crate) fn heads(&self) -> Result<Vec<Head>, Error> {
        let reader = self.engine.reader();
        let heads = if self.engine.is_shared() { reader.heads() } else { self.heads.all(reader) };
        heads.map_err(|fault| fault.into_error(&self.dir))
    }

    pub(crate) fn head(&self, session: SessionId) -> Result<Option<Head>, Error> {
        self.engine.reader().head(session).map_err(|damage| Error::damaged(&self.dir, damage))
    }

    /// The part of a head that an engine of many nodes keeps for quotas.
    pub(crate) fn usage(&self, head: &Head) -> Option<DayUse> {
        head.summary.as_ref().filter(|_| self.engine.is_shared()).map(DayUse::from_summary)
    }

    /// Removes the own events of sessions whose logs are not in use.
    pub(crate) fn forget(&self, sessions: &[SessionId]) -> Result<(), Error> {
        let mut claimed = Vec::new();
        let removed = loop {
            match sessions.get(claimed.len()) {
                Some(session) => match self.engine.claim(*session, None) {
                    Ok(epoch) => claimed.push((*session, epoch)),
                    Err(error) => break Err(error),
                },
                None => {
                    let removed = self.engine.remove(sessions);
                    self.heads.remove(sessions);
                    break removed;
                }
            }
        };
        claimed.into_iter().for_each(|(session, epoch)| self.engine.release(session, epoch));
        removed
    }
}

/// The heads of a store that this process holds, as they were acknowledged. The engine reads them when
/// somebody asks for the first time.
#[derive(Debug, Default)]
pub(crate) struct HeldHeads(Mutex<Option<BTreeMap<SessionId, Head>>>);

impl HeldHeads {
    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<SessionId, Head>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self, engine: &dyn ReadEngine) -> Result<Vec<Head>, ContentFault> {
        let mut held = self.lock();
        let heads = match held.take() {
            Some(heads) => heads,
            None => engine.heads()?.into_iter().map(|head| (head.session, head)).collect(),
        };
        Ok(held.insert(heads).values().cloned().collect())
    }

    pub(crate) fn one(&self, engine: &dyn ReadEngine, session: SessionId) -> Option<Head> {
        let held = self.lock().as_ref().map(|held| held.get(&session).cloned());
        // without the lock: an engine may answer on the thread that is about to note a head
        held.unwrap_or_else(|| engine.head(session).ok().flatten())
    }

    /// Notes a head that was acknowledged.
    pub(crate) fn put(&self, head: Head) {
        if let Some(held) = &mut *self.lock() {
            held.insert(head.session, head);
        }
    }

    pub(crate) fn remove(&self, sessions: &[SessionId]) {
        if let Some(held) = &mut *self.lock() {
            held.retain(|session, _| !sessions.contains(session));
        }
    }
}
