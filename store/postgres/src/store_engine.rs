//! The seam of the crate `store`, on PostgreSQL. Each session is a family of its own here, until a node
//! claims whole families.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leftfold_events::{Seq, SessionId, Sha256};
use leftfold_store::engine::{
    Append, Engine, Epoch, EventFault, EventsOf, Poison, ReadEngine, StoredEvent, call,
};
use leftfold_store::{ContentFault, Damage, Error, Head, SCHEMA};

use crate::append::{self, End};
use crate::batch::Fault;
use crate::engine::{Postgres, Reader};
use crate::ownership::Claim;

/// Bytes of a read.
const PAGE: u32 = 1 << 20;

/// Heads of a read.
const HEADS: u32 = 10_000;

/// How long it waits between two attempts to take over from a node that is gone.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);

/// Keeps the logs of a store in PostgreSQL.
#[derive(Debug)]
pub struct PostgresEngine {
    node: Postgres,
    /// `None`: the session is being claimed.
    claims: Mutex<HashMap<SessionId, Option<Claimed>>>,
}

/// The right to append to a session.
#[derive(Debug)]
struct Claimed {
    epoch: i64,
    /// The event that the next batch must follow.
    end: End,
    poison: Poison,
}

impl PostgresEngine {
    pub fn new(node: Postgres) -> Self {
        Self { node, claims: Mutex::default() }
    }

    /// Claims a session. If its owner is gone, it waits until this node may take it.
    fn claim_when_due(&self, session: SessionId) -> Result<Claim, crate::Error> {
        let mut is_told = false;
        loop {
            match self.node.claim(session) {
                Err(crate::Error::TooEarly { node, wait, .. }) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            "session {session} belonged to node {node}, which is gone: taking it over in {} s",
                            wait.as_secs() + 1
                        );
                    }
                    std::thread::sleep(wait.clamp(SOON, LATER));
                }
                claimed => return claimed,
            }
        }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<SessionId, Option<Claimed>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn engine_error(error: crate::Error) -> Error {
    if let crate::Error::Taken { session, node } = error {
        let owner = format!(
            "another node ({node}); if that one is dead, its claim ends within a lease (15 s by default): try \
             again then"
        );
        Error::Taken { session, owner: Some(owner) }
    } else if let crate::Error::Fenced { session, why } = error {
        Error::Fenced { session, why }
    } else if let crate::Error::Poisoned { session, why } = error {
        Error::Poisoned { session, why }
    } else {
        Error::Engine { what: error.to_string() }
    }
}

fn epoch_of(epoch: i64) -> Epoch {
    Epoch::try_from(epoch).unwrap_or_default()
}

impl Engine for PostgresEngine {
    fn reader(&self) -> &dyn ReadEngine {
        self.node.reader()
    }

    fn claim(&self, session: SessionId) -> Result<Epoch, Error> {
        match self.claims().entry(session) {
            Entry::Occupied(_) => return Err(Error::Taken { session, owner: None }),
            Entry::Vacant(entry) => entry.insert(None),
        };
        // the earlier owner of this process may have appends under way, which a new epoch would fence
        let claim = self.node.settle(session).and_then(|()| self.claim_when_due(session));
        let claim = claim.map_err(|error| {
            self.claims().remove(&session);
            engine_error(error)
        })?;
        let end = claim.sessions.iter().find(|head| head.session == session).map(|head| head.end);
        let (end, poison) = (end.unwrap_or_default(), Poison::new(session));
        self.claims().insert(session, Some(Claimed { epoch: claim.epoch, end, poison }));
        Ok(epoch_of(claim.epoch))
    }

    fn release(&self, session: SessionId, epoch: Epoch) {
        let mut claims = self.claims();
        let claimed = claims.get(&session).and_then(Option::as_ref).map(|claimed| claimed.epoch);
        if let Some(claimed) = claimed.filter(|claimed| epoch_of(*claimed) == epoch) {
            self.node.release_later(session, claimed);
            claims.remove(&session);
        }
    }

    fn append(&self, append: Append) {
        let Append { session, epoch, expected, events, payloads, head, done } = append;
        // held until the batch is in the queue, so that batches of a session stay in order
        let mut claims = self.claims();
        let claimed = claims.get_mut(&session).and_then(Option::as_mut);
        let accepted = match claimed.filter(|claimed| epoch_of(claimed.epoch) == epoch) {
            None => Err(Error::Fenced { session, why: "its epoch is over".into() }),
            Some(claimed) => claimed.poison.check().and_then(|()| {
                let last = claimed.end;
                if last.seq != expected.unwrap_or(0) {
                    let why = format!("its last event is {}, not {expected:?}", last.seq);
                    let error = Error::Fenced { session, why };
                    claimed.poison.set(&error);
                    return Err(error);
                }
                if let Some(event) = events.last() {
                    claimed.end = End { seq: event.seq, link: event.link };
                }
                Ok((claimed.epoch, last))
            }),
        };
        let (epoch, expected) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                drop(claims);
                return call(done, Err(error));
            }
        };
        let payloads = payloads.into_iter().map(|(sha256, text)| (sha256, Arc::from(text)));
        let done = Box::new(move |result: Result<(), crate::Error>| {
            done(result.map_err(engine_error));
        });
        let (payloads, settles) = (payloads.collect(), Vec::new());
        self.node.append(append::Append {
            session,
            epoch,
            expected,
            events,
            payloads,
            head,
            settles,
            done,
        });
    }

    fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        self.node.remove(sessions).map_err(engine_error)
    }

    fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error> {
        self.node.note_imports(notes).map_err(engine_error)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn hints(&self, to: SyncSender<SessionId>) {
        self.node.reader().grown(to);
    }

    fn identity(&self) -> String {
        self.node.reader().identity()
    }
}

impl ReadEngine for Reader {
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_> {
        Box::new(Events { reader: self, session, next: Some(from), read: VecDeque::new() })
    }

    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
        match self.first(session, from).map_err(|error| away(&error))? {
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(fault)) => Err(ContentFault::db(fault.what)),
            None => Ok(None),
        }
    }

    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
        let heads = self.all_heads().map_err(|error| away(&error))?;
        Ok(heads.into_iter().map(|head| head.session).collect())
    }

    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
        Reader::payload(self, sha256).map_err(|error| away(&error))
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        match Reader::head(self, session) {
            Ok(Some(head)) => decode(&head),
            Ok(None) => Ok(None),
            Err(error) => Err(Damage { is_away: true, ..damage(Some(session), error.to_string()) }),
        }
    }

    fn heads(&self) -> Result<Vec<Head>, ContentFault> {
        let heads = self.all_heads().map_err(|error| away(&error))?;
        Ok(heads.iter().filter_map(|head| decode(head).ok().flatten()).collect())
    }

    fn damage(&self) -> Vec<Damage> {
        match self.all_heads() {
            Ok(heads) => heads.iter().filter_map(|head| decode(head).err()).collect(),
            Err(error) => vec![Damage { is_away: true, ..damage(None, error.to_string()) }],
        }
    }

    fn owner(&self, session: SessionId) -> Result<Option<String>, ContentFault> {
        Reader::owner(self, session).map_err(|error| away(&error))
    }

    fn size(&self) -> Result<u64, ContentFault> {
        Reader::size(self).map_err(|error| away(&error))
    }

    fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
        let notes = Reader::import_notes(self).map_err(|error| away(&error))?;
        Ok(notes.into_iter().flat_map(|note| (note + "\n").into_bytes()).collect())
    }
}

impl Reader {
    fn all_heads(&self) -> Result<Vec<crate::Head>, crate::Error> {
        let mut heads: Vec<crate::Head> = Vec::new();
        loop {
            let after = heads.last().map(|head| head.session);
            let page = Reader::heads(self, after, HEADS)?;
            if page.is_empty() {
                return Ok(heads);
            }
            heads.extend(page);
        }
    }
}

fn decode(head: &crate::Head) -> Result<Option<Head>, Damage> {
    Head::decode(&head.head).map_err(|what| damage(Some(head.session), what))
}

fn damage(session: Option<SessionId>, what: String) -> Damage {
    Damage { file: "session".into(), session, ..Damage::db(what) }
}

/// The fault that a reader reports if the database does not answer.
fn away(error: &crate::Error) -> ContentFault {
    ContentFault::away(error.to_string())
}

/// Reads a session's events page by page.
struct Events<'a> {
    reader: &'a Reader,
    session: SessionId,
    /// `None`: everything is read.
    next: Option<Seq>,
    read: VecDeque<Result<StoredEvent, Fault>>,
}

impl Iterator for Events<'_> {
    type Item = Result<StoredEvent, EventFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() {
            let from = self.next.take()?;
            match Reader::events(self.reader, self.session, from, PAGE) {
                Ok(page) => (self.read, self.next) = (page.events.into(), page.next),
                Err(error) => {
                    return Some(Err(EventFault::Unplaced(away(&error))));
                }
            }
        }
        match self.read.pop_front()? {
            Ok(event) if event.schema > SCHEMA => {
                Some(Err(EventFault::OtherSchema { seq: event.seq, found: event.schema }))
            }
            Ok(event) => Some(Ok(event)),
            Err(Fault { seq: Some(seq), what }) => {
                let what = ContentFault::db(what);
                Some(Err(EventFault::Damage { seq, link: None, what }))
            }
            Err(Fault { seq: None, what }) => {
                Some(Err(EventFault::Unplaced(ContentFault::db(what))))
            }
        }
    }
}
