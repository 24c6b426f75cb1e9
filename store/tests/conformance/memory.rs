//! A small engine in memory. It shows that the suite asks for what [`Engine`] promises, and for
//! nothing that only sled has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};

use leftfold_events::{Seq, SessionId, Sha256};
use leftfold_store::engine::{
    Append, Engine, Epoch, EventsOf, Owner, ReadEngine, StoredEvent, call,
};
use leftfold_store::{ContentFault, Damage, Error, Head};

use super::EnginePlace;

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    events: BTreeMap<(SessionId, Seq), StoredEvent>,
    payloads: BTreeMap<Sha256, Vec<u8>>,
    heads: BTreeMap<SessionId, Vec<u8>>,
    notes: BTreeMap<SessionId, String>,
    /// Epoch of each owned session, and why it is of no use any more.
    owners: BTreeMap<SessionId, (Epoch, Option<Error>)>,
    epochs: Epoch,
    hints: Vec<SyncSender<SessionId>>,
}

#[derive(Clone, Debug, Default)]
struct Logs(Arc<Mutex<State>>);

struct Memory(Logs, PathBuf);

fn memory() -> Memory {
    Memory(Logs::default(), std::env::temp_dir())
}

impl EnginePlace for Memory {
    fn open(&self) -> Result<Box<dyn Engine>, Error> {
        let mut state = self.0.lock();
        if state.is_open {
            return Err(Error::Locked { dir: self.1.clone() });
        }
        state.is_open = true;
        Ok(Box::new(Node(self.0.clone())))
    }

    fn read(&self) -> Box<dyn ReadEngine> {
        Box::new(self.0.clone())
    }

    fn dir(&self) -> &Path {
        &self.1
    }
}

impl Logs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl ReadEngine for Logs {
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_> {
        let state = self.lock();
        let range = state.events.range((session, from)..=(session, Seq::MAX));
        let events: Vec<StoredEvent> = range.map(|(_, event)| event.clone()).collect();
        Box::new(events.into_iter().map(Ok))
    }

    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
        Ok(self.events(session, from).next().transpose().unwrap())
    }

    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
        let mut sessions: Vec<_> = self.lock().events.keys().map(|(session, _)| *session).collect();
        sessions.dedup();
        Ok(sessions)
    }

    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
        Ok(self.lock().payloads.get(&sha256).cloned())
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        Ok(self.lock().heads.get(&session).and_then(|head| Head::decode(head).unwrap()))
    }

    fn heads(&self) -> Result<Vec<Head>, ContentFault> {
        Ok(self.lock().heads.values().filter_map(|head| Head::decode(head).unwrap()).collect())
    }

    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    fn owner(&self, _: SessionId) -> Result<Owner, ContentFault> {
        Ok(Owner::default())
    }

    fn size(&self) -> Result<u64, ContentFault> {
        Ok(self.lock().events.values().map(|event| event.body.len() as u64).sum())
    }

    fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
        Ok(self.lock().notes.values().flat_map(|note| format!("{note}\n").into_bytes()).collect())
    }
}

#[derive(Debug)]
struct Node(Logs);

impl Drop for Node {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_open = false;
        state.owners.clear();
    }
}

impl State {
    fn append(&mut self, append: &Append) -> Result<(), Error> {
        let fenced = |why: &str| Error::Fenced { session: append.session, why: why.into() };
        let range = (append.session, 0)..=(append.session, Seq::MAX);
        let last = self.events.range(range).next_back().map(|((_, seq), _)| *seq);
        match self.owners.get_mut(&append.session) {
            Some((epoch, failed)) if *epoch == append.epoch => {
                if let Some(error) = failed {
                    return Err(error.clone());
                }
                if last != append.expected {
                    return Err(failed.insert(fenced("another event is the last")).clone());
                }
            }
            Some(_) | None => return Err(fenced("the epoch is over")),
        }
        let events = append.events.iter().cloned();
        self.events.extend(events.map(|event| ((append.session, event.seq), event)));
        let payloads = append.payloads.iter();
        self.payloads.extend(payloads.map(|(sha256, text)| (*sha256, text.as_bytes().to_vec())));
        self.heads.insert(append.session, append.head.clone());
        self.hints.retain(|to| {
            !matches!(to.try_send(append.session), Err(TrySendError::Disconnected(_)))
        });
        Ok(())
    }
}

impl Engine for Node {
    fn reader(&self) -> &dyn ReadEngine {
        &self.0
    }

    fn claim(&self, session: SessionId, _: Option<SessionId>) -> Result<Epoch, Error> {
        let mut state = self.0.lock();
        if state.owners.contains_key(&session) {
            return Err(Error::Taken { session, owner: None });
        }
        state.epochs += 1;
        let epoch = state.epochs;
        state.owners.insert(session, (epoch, None));
        Ok(epoch)
    }

    fn release(&self, session: SessionId, epoch: Epoch) {
        let mut state = self.0.lock();
        if state.owners.get(&session).is_some_and(|(owner, _)| *owner == epoch) {
            state.owners.remove(&session);
        }
    }

    fn append(&self, append: Append) {
        let result = self.0.lock().append(&append);
        call(append.done, result);
    }

    fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        let mut state = self.0.lock();
        state.events.retain(|(session, _), _| !sessions.contains(session));
        state.heads.retain(|session, _| !sessions.contains(session));
        Ok(())
    }

    fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error> {
        self.0.lock().notes.extend(notes.iter().cloned());
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn hints(&self, to: SyncSender<SessionId>) {
        self.0.lock().hints.push(to);
    }

    fn identity(&self) -> String {
        format!("{:p}", Arc::as_ptr(&self.0.0))
    }
}

super::conformance!(memory());
