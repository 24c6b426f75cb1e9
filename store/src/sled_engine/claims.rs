//! Which sessions' logs somebody of this process may append to. sled's lock keeps other processes
//! out.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leftfold_events::{Seq, SessionId};

use crate::engine::{Epoch, Poison};
use crate::error::Error;

/// The right to append to a session, shared with its batches on the way to the disk.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    pub(crate) epoch: Epoch,
    /// The head's file, once a head was written.
    pub(crate) head: OnceLock<File>,
    pub(crate) poison: Poison,
    end: Mutex<End>,
}

/// The event that the next batch under a claim must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nobody has asked for the session's last event yet.
    Unknown,
    /// This event, or none.
    After(Option<Seq>),
    /// The claim is over: no batch follows.
    Over,
}

impl Claim {
    pub(crate) fn new(session: SessionId, epoch: Epoch) -> Self {
        let (head, poison, end) = (OnceLock::new(), Poison::new(session), Mutex::new(End::Unknown));
        Self { session, epoch, head, poison, end }
    }

    /// Held while a batch is handed on, so that batches of one session stay in order.
    pub(crate) fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn over(&self) -> Error {
        fenced(self.session, self.epoch)
    }
}

fn fenced(session: SessionId, epoch: Epoch) -> Error {
    Error::Fenced { session, why: format!("epoch {epoch} is over") }
}

#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<HashMap<SessionId, Arc<Claim>>>,
    epochs: AtomicU64,
}

impl Claims {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Claim>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, session: SessionId) -> Result<Arc<Claim>, Error> {
        let mut held = self.held();
        if held.contains_key(&session) {
            return Err(Error::Taken { session, owner: None });
        }
        let epoch = self.epochs.fetch_add(1, Ordering::Relaxed) + 1;
        let claim = Arc::new(Claim::new(session, epoch));
        held.insert(session, Arc::clone(&claim));
        Ok(claim)
    }

    pub(crate) fn remove(&self, session: SessionId, epoch: Epoch) {
        let mut held = self.held();
        if held.get(&session).is_some_and(|claim| claim.epoch == epoch)
            && let Some(claim) = held.remove(&session)
        {
            // a batch that comes too late finds it over
            *claim.end() = End::Over;
        }
    }

    pub(crate) fn get(&self, session: SessionId, epoch: Epoch) -> Result<Arc<Claim>, Error> {
        let held = self.held();
        let claim = held.get(&session).filter(|claim| claim.epoch == epoch);
        claim.cloned().ok_or_else(|| fenced(session, epoch))
    }
}
