//! The seam of the crate `store`, on PostgreSQL. Claiming a session claims its whole family, and the family is given
//! back when no session of it is claimed any more.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::{MessageId, Seq, SessionId, Sha256};
use leftfold_store::day::Day;
use leftfold_store::engine::{
    Append, EndElsewhere, Engine, Epoch, EventFault, EventsOf, Inboxes, Owner, Poison, Progress,
    ReadEngine, StoredEvent, WaitingMessage, Wake, call,
};
use leftfold_store::usage::{self, Used};
use leftfold_store::{ContentFault, Damage, Error, Head, SCHEMA};

use crate::append::{self, End};
use crate::batch::Fault;
use crate::engine::{Postgres, PostgresReader};
use crate::ownership::Claim;

/// Bytes of a read.
const PAGE: u32 = 1 << 20;

/// Heads of a read.
const HEADS: u32 = 10_000;

/// How long it waits between two attempts to take over from a node that is gone.
const FIRST_TAKEOVER_DELAY: Duration = Duration::from_millis(20);
const TAKEOVER_DELAY: Duration = Duration::from_secs(1);

/// How long an effect waits for a lease that has run out.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps the logs of a store in PostgreSQL.
#[derive(Debug)]
pub struct PostgresEngine {
    node: Postgres,
    claims: Mutex<Claims>,
    /// A family is claimed or joined no more.
    joined: Condvar,
}

/// The rights of this process.
#[derive(Debug, Default)]
struct Claims {
    /// `None`: the session is being claimed.
    logs: HashMap<SessionId, Option<Claimed>>,
    /// Those that were claimed here, also earlier.
    families: HashMap<SessionId, Family>,
    /// The families that somebody claims or joins now.
    busy: HashSet<SessionId>,
    /// Nothing is claimed any more.
    has_left: bool,
}

/// The right to append to a session.
#[derive(Debug)]
struct Claimed {
    family: SessionId,
    epoch: i64,
    /// The event that the next batch must follow.
    end: End,
    poison: Poison,
}

/// A family that this node owns as long as one of its sessions is claimed here.
#[derive(Debug)]
struct Family {
    epoch: i64,
    claimed: usize,
    /// The sessions that were claimed here, of which appends may be under way.
    sessions: HashSet<SessionId>,
    /// How often the lease had run out when it was last sure that the family is this node's.
    lapses: u64,
}

impl Claims {
    fn family(&mut self, family: SessionId, epoch: i64) -> Option<&mut Family> {
        self.families.get_mut(&family).filter(|held| held.epoch == epoch && held.claimed > 0)
    }
}

impl PostgresEngine {
    pub fn new(node: Postgres) -> Self {
        Self { node, claims: Mutex::default(), joined: Condvar::new() }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, session: SessionId, from: Option<SessionId>) -> Result<Claimed, crate::Error> {
        let family = match (self.node.family_of(session)?, from) {
            (Some(family), _) => family,
            (None, Some(from)) => self.node.family_of(from)?.unwrap_or(session),
            (None, None) => session,
        };
        let mut claims = self.claims();
        while !claims.busy.insert(family) {
            claims = self.joined.wait(claims).unwrap_or_else(PoisonError::into_inner);
        }
        drop(claims);
        let joined = self.join(family, session);
        self.claims().busy.remove(&family);
        self.joined.notify_all();
        let (epoch, end) = joined?;
        Ok(Claimed { family, epoch, end, poison: Poison::new(session) })
    }

    /// Joins a family that this node owns, or claims it. Answers its epoch, and where the session's log ends.
    fn join(&self, family: SessionId, session: SessionId) -> Result<(i64, End), crate::Error> {
        let held = self
            .claims()
            .families
            .get(&family)
            .filter(|held| held.claimed > 0)
            .map(|held| held.epoch);
        if let Some(epoch) = held {
            // earlier owners of this process may have appends under way
            self.node.settle(HashSet::from([session]))?;
            match self.node.add(family, epoch, session) {
                Err(crate::Error::Fenced { .. }) => {}
                joined => {
                    let end = joined?;
                    self.node.forgive(session);
                    return Ok((self.count(family, epoch, session), end));
                }
            }
        }
        // a new epoch would fence them
        let earlier = self.claims().families.get(&family).map(|family| family.sessions.clone());
        self.node.settle(earlier.unwrap_or_default())?;
        let lapses = self.node.lapses();
        let Claim { epoch, sessions, .. } = self.claim_when_due(family)?;
        let end = match sessions.iter().find(|head| head.session == session) {
            Some(head) => head.end,
            None => self.node.add(family, epoch, session)?,
        };
        let held = Family { epoch, claimed: 0, sessions: HashSet::new(), lapses };
        self.claims().families.insert(family, held);
        Ok((self.count(family, epoch, session), end))
    }

    /// Counts a session of a family that is claimed. Answers the epoch.
    fn count(&self, family: SessionId, epoch: i64, session: SessionId) -> i64 {
        let mut claims = self.claims();
        if let Some(held) = claims.families.get_mut(&family).filter(|held| held.epoch == epoch) {
            held.claimed += 1;
            held.sessions.insert(session);
        }
        epoch
    }

    /// Claims a family. If its owner is gone, it waits until this node may take it.
    fn claim_when_due(&self, family: SessionId) -> Result<Claim, crate::Error> {
        let mut is_told = false;
        loop {
            if self.claims().has_left {
                return Err(crate::Error::Closed);
            }
            match self.node.claim(family) {
                Err(crate::Error::TooEarly { node, wait, .. }) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(
                            "session {family} belonged to node {node}, which is gone: taking it over in {} s",
                            wait.as_secs() + 1
                        );
                    }
                    std::thread::sleep(wait.clamp(FIRST_TAKEOVER_DELAY, TAKEOVER_DELAY));
                }
                claimed => return claimed,
            }
        }
    }
}

pub(crate) fn engine_error(error: crate::Error) -> Error {
    if let crate::Error::Taken { session, node, lease } = error {
        let owner = format!(
            "another node ({node}); if that one is dead, its claim ends within its lease of {} s: try again then",
            lease.as_secs_f64().round()
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

    fn claim(&self, session: SessionId, from: Option<SessionId>) -> Result<Epoch, Error> {
        match self.claims().logs.entry(session) {
            Entry::Occupied(_) => return Err(Error::Taken { session, owner: None }),
            Entry::Vacant(entry) => entry.insert(None),
        };
        let claimed = self.take(session, from).map_err(|error| {
            self.claims().logs.remove(&session);
            engine_error(error)
        })?;
        let epoch = claimed.epoch;
        self.claims().logs.insert(session, Some(claimed));
        Ok(epoch_of(epoch))
    }

    fn family(&self, session: SessionId) -> SessionId {
        let claims = self.claims();
        let claimed = claims.logs.get(&session).and_then(Option::as_ref);
        claimed.map_or(session, |claimed| claimed.family)
    }

    fn bind(&self, session: SessionId, epoch: Epoch, place: &str) -> Result<(), Error> {
        let (family, epoch) = {
            let claims = self.claims();
            let claimed = claims.logs.get(&session).and_then(Option::as_ref);
            let Some(claimed) = claimed.filter(|claimed| epoch_of(claimed.epoch) == epoch) else {
                return Err(Error::Fenced { session, why: "its epoch is over".into() });
            };
            (claimed.family, claimed.epoch)
        };
        self.node.bind(family, epoch, place).map_err(engine_error)
    }

    fn holds(&self, session: SessionId, epoch: Epoch) -> Option<Instant> {
        let end = Instant::now() + LEASE_TIMEOUT;
        while Instant::now() < end {
            let Some((until, lapses)) = self.node.sure() else {
                // it is being renewed, or the database is away
                std::thread::sleep(FIRST_TAKEOVER_DELAY);
                continue;
            };
            let (family, epoch) = {
                let claims = &mut *self.claims();
                let claimed = claims.logs.get(&session).and_then(Option::as_ref);
                let claimed = claimed.filter(|claimed| epoch_of(claimed.epoch) == epoch)?;
                let (family, epoch) = (claimed.family, claimed.epoch);
                match claims.family(family, epoch) {
                    Some(held) if held.lapses == lapses => return Some(until),
                    Some(_) => (family, epoch),
                    None => return None,
                }
            };
            match self.node.holds(family, epoch) {
                Ok(true) => {
                    if let Some(held) = self.claims().family(family, epoch) {
                        held.lapses = lapses;
                    }
                }
                Ok(false) => return None,
                Err(error) => {
                    tracing::warn!("it is not known whose session {session} is: {error}");
                    return None;
                }
            }
        }
        None
    }

    fn unowned(&self, at_work: &[SessionId], most: usize) -> Result<Vec<SessionId>, Error> {
        let room = {
            let claims = self.claims();
            if claims.has_left || self.node.is_draining() {
                0
            } else {
                most.saturating_sub(claims.logs.len())
            }
        };
        if room == 0 {
            return Ok(Vec::new());
        }
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        self.node.unowned(at_work, room).map_err(engine_error)
    }

    fn on_release(&self, wake: Wake) {
        self.node.reader().on_release(wake);
    }

    fn inboxes(&self) -> Option<&dyn Inboxes> {
        Some(self)
    }

    fn leave(&self) {
        self.claims().has_left = true;
        self.node.leave();
    }

    fn release(&self, session: SessionId, epoch: Epoch) {
        let mut claims = self.claims();
        let claimed = claims.logs.get(&session).and_then(Option::as_ref);
        let Some(claimed) = claimed.filter(|claimed| epoch_of(claimed.epoch) == epoch) else {
            return;
        };
        let (family, epoch) = (claimed.family, claimed.epoch);
        claims.logs.remove(&session);
        let Some(held) = claims.family(family, epoch) else { return };
        held.claimed -= 1;
        if held.claimed == 0 {
            let sessions = held.sessions.clone();
            self.node.release_later(family, epoch, sessions);
        }
    }

    fn append(&self, append: Append) {
        let Append {
            session,
            epoch,
            expected,
            events,
            payloads,
            head,
            usage,
            wants,
            settles,
            done,
        } = append;
        // held until the batch is in the queue, so that batches of a session stay in order
        let mut claims = self.claims();
        let claimed = claims.logs.get_mut(&session).and_then(Option::as_mut);
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
        let payloads = payloads.collect();
        self.node.append(append::Append {
            session,
            epoch,
            expected,
            events,
            payloads,
            head,
            usage,
            wants,
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

impl Inboxes for PostgresEngine {
    fn post(&self, to: SessionId, message: MessageId, body: Vec<u8>) -> Result<(), Error> {
        self.node.post(to, message, body).map_err(engine_error)
    }

    fn waiting(
        &self,
        may_claim: bool,
        except: &[SessionId],
        most: usize,
    ) -> Result<Vec<WaitingMessage>, Error> {
        let may_claim = may_claim && !self.claims().has_left && !self.node.is_draining();
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.node.waiting(may_claim, except, most).map_err(engine_error)
    }

    fn body(&self, message: MessageId) -> Result<Option<Vec<u8>>, Error> {
        self.node.body(message).map_err(engine_error)
    }

    fn conclude(&self, message: MessageId, outcome: Vec<u8>, refused: bool) -> Result<(), Error> {
        self.node.conclude(message, outcome, refused).map_err(engine_error)
    }

    fn progress(&self, message: MessageId) -> Result<Progress, Error> {
        self.node.progress(message).map_err(engine_error)
    }

    fn withdraw(&self, message: MessageId) -> Result<bool, Error> {
        self.node.withdraw(message).map_err(engine_error)
    }

    fn forget(&self, message: MessageId) -> Result<(), Error> {
        self.node.forget(message).map_err(engine_error)
    }

    fn elsewhere(&self, session: SessionId) -> Result<Option<Owner>, Error> {
        self.node.elsewhere(session).map_err(engine_error)
    }

    fn note_trouble(&self, session: SessionId, why: String) -> Result<(), Error> {
        self.node.note_trouble(session, why).map_err(engine_error)
    }

    fn on_message(&self, wake: Wake) {
        self.node.reader().on_message(wake);
    }

    fn ends_elsewhere(
        &self,
        since: SessionId,
        known: &[SessionId],
        most: usize,
    ) -> Result<Vec<EndElsewhere>, Error> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.node.ends_elsewhere(since, known, most).map_err(engine_error)
    }

    fn lost(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Error> {
        self.node.lost(sessions).map_err(engine_error)
    }

    fn on_any_growth(&self, grown: Box<dyn Fn(SessionId) -> bool + Send + Sync>) {
        self.node.reader().on_any_growth(grown);
    }

    fn wait_for_others(&self, session: SessionId, patience: Duration) -> Result<(), Error> {
        self.node.wait_for_others(session, patience).map_err(engine_error)
    }

    fn on_show(&self, show: Box<dyn Fn(SessionId) + Send + Sync>) {
        self.node.on_show(show);
    }

    fn shown(&self, session: SessionId) {
        self.node.shown(session);
    }

    fn on_growth(
        &self,
        session: SessionId,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Box<dyn Send + Sync> {
        Box::new(self.node.reader().on_growth(session, wake))
    }
}

impl ReadEngine for PostgresReader {
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
        PostgresReader::payload(self, sha256).map_err(|error| away(&error))
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        match PostgresReader::head(self, session) {
            Ok(Some(head)) => decode(&head),
            Ok(None) => Ok(None),
            Err(error) => Err(Damage { is_away: true, ..damage(Some(session), error.to_string()) }),
        }
    }

    fn heads(&self) -> Result<Vec<Head>, ContentFault> {
        let heads = self.all_heads().map_err(|error| away(&error))?;
        Ok(heads.iter().filter_map(|head| decode(head).ok().flatten()).collect())
    }

    fn used(&self, worktree: &str, day: Day) -> Result<Used, ContentFault> {
        PostgresReader::used(self, usage::project(worktree), day).map_err(|error| away(&error))
    }

    fn damage(&self) -> Vec<Damage> {
        match self.all_heads() {
            Ok(heads) => heads.iter().filter_map(|head| decode(head).err()).collect(),
            Err(error) => vec![Damage { is_away: true, ..damage(None, error.to_string()) }],
        }
    }

    fn owner(&self, session: SessionId) -> Result<Owner, ContentFault> {
        PostgresReader::owner(self, session).map_err(|error| away(&error))
    }

    fn size(&self) -> Result<u64, ContentFault> {
        PostgresReader::size(self).map_err(|error| away(&error))
    }

    fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
        let notes = PostgresReader::import_notes(self).map_err(|error| away(&error))?;
        Ok(notes.into_iter().flat_map(|note| (note + "\n").into_bytes()).collect())
    }
}

impl PostgresReader {
    fn all_heads(&self) -> Result<Vec<crate::Head>, crate::Error> {
        let mut heads: Vec<crate::Head> = Vec::new();
        loop {
            let after = heads.last().map(|head| head.session);
            let page = PostgresReader::heads(self, after, HEADS)?;
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
    reader: &'a PostgresReader,
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
            match PostgresReader::events(self.reader, self.session, from, PAGE) {
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
