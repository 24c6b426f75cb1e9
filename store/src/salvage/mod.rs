//! Writes a new store from the readable parts of a damaged one.
//!
//! The database is read key by key from a copy. Where sled cannot read its own log, the broken
//! bytes are bridged (`frames` recognizes messages by their checksums), and sled reads on after
//! them.
//!
//! The new store has the longest sound beginning of each session's log: complete, in order and
//! chained. A fork is included only if all events that it shares are, and a child only if its
//! parent's log names it. So the new store can be used like any other, and its sessions can be
//! resumed. Everything else that can be read is returned beside the store: events with their
//! numbers, and parts of incomplete events. The caller writes the events after a gap to
//! `lost+found/SESSION.jsonl` as lines of an export, and the parts to `fragments.jsonl`, with the
//! unnamed contents beside them.

mod leftovers;
mod readable;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, Payload, Seq, SessionId, Sha256};

use crate::database;
use crate::engine::ReadEngine;
use crate::error::{Damage, Error};
use crate::head::Head;
use crate::lookup::{self, forked_from};
use crate::payloads::Cache;
use crate::scan::{Scan, Source};
use crate::sled_engine::{self, Records};
use crate::store::Store;

/// The result of [`salvage`].
#[derive(Debug, Default)]
pub struct Salvaged {
    /// Every session of which anything is known. Parents come before their children and forks.
    pub sessions: Vec<Rescued>,
    /// Readable contents that no event names.
    pub payloads: Vec<Payload>,
    /// Sound files in the old store's `payloads/` that no readable record names.
    pub files: Vec<PathBuf>,
    pub fragments: Vec<Fragment>,
}

/// The rescued parts of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescued {
    pub session: SessionId,
    /// First and last own event in the new store.
    pub kept: Option<(Seq, Seq)>,
    /// Readable events that are not in the new store, in order. Lost contents are empty in them.
    pub beside: Vec<Envelope>,
    /// The last own event that is known to have existed.
    pub last: Seq,
    /// Where the session's own events begin, if that is known.
    begins: Seq,
    /// Why the log ends where it does, if it does not end with the last event.
    pub why: Option<Damage>,
}

/// A record of an incomplete event or payload, as it is in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub session: Option<SessionId>,
    pub seq: Option<Seq>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Writes everything that can still be read from the store in `dir` into a new store in `to`, which
/// must not exist or must be empty. It works on copies and does not change `dir`.
///
/// # Errors
/// [`Error::Damaged`] if the database cannot be opened in any way, [`Error::Locked`] while a node
/// has it open, [`Error::NotAStore`], [`Error::Io`] and [`Error::Full`].
pub fn salvage(dir: &Path, to: &Path) -> Result<Salvaged, Error> {
    database::refuse(dir, "restore it from a backup or a standby, as any PostgreSQL database")?;
    if sled_engine::in_use(dir) {
        return Err(Error::Locked { dir: dir.to_owned() });
    }
    let copy = readable::copy_readable(dir)?;
    let heads = copy.heads().map_err(|fault| fault.into_error(dir))?;
    let new = Store::open(to)?;
    crate::imported::copy(dir, to)?;
    let cache = Cache::default();
    let mut salvage = Salvage {
        records: &copy,
        cache: &cache,
        heads,
        store: new,
        kept: HashMap::new(),
        announced: HashSet::new(),
        named: HashSet::new(),
    };
    let mut salvaged = Salvaged::default();
    for session in salvage.order()? {
        salvaged.sessions.push(salvage.session(session)?);
    }
    let Salvage { named, store, .. } = salvage;
    leftovers::collect(&copy, named, &mut salvaged)?;
    drop(store);
    Ok(salvaged)
}

struct Salvage<'a> {
    records: &'a Records,
    cache: &'a Cache,
    heads: Vec<Head>,
    store: Store,
    /// Sessions in the new store, and the last seq of each.
    kept: HashMap<SessionId, Seq>,
    /// Pairs of a parent in the new store and a child that its log names.
    announced: HashSet<(SessionId, SessionId)>,
    /// Contents that are in the new store.
    named: HashSet<Sha256>,
}

/// The session that a session's first event builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    None,
    Fork(SessionId, Seq),
    Child(SessionId),
}

impl Base {
    fn of(first: Option<&Envelope>) -> Self {
        let Some(first) = first else { return Self::None };
        if let Some((from, at)) = forked_from(first) {
            return Self::Fork(from, at);
        }
        if let Event::Session(Session::Created { parent: Some(parent), .. }) = &first.event {
            Self::Child(*parent)
        } else {
            Self::None
        }
    }

    fn session(self) -> Option<SessionId> {
        match self {
            Self::None => None,
            Self::Fork(session, _) | Self::Child(session) => Some(session),
        }
    }
}

impl Salvage<'_> {
    /// All sessions, each after the session that it builds on.
    fn order(&self) -> Result<Vec<SessionId>, Error> {
        let found =
            self.records.sessions().map_err(|what| Error::Database { what: what.to_string() })?;
        let mut known: BTreeMap<SessionId, Vec<SessionId>> =
            self.heads.iter().map(|head| (head.session, Vec::new())).collect();
        for session in found {
            known.insert(session, self.bases(session));
        }
        let mut order = Vec::with_capacity(known.len());
        while !known.is_empty() {
            let is_next = |bases: &[SessionId]| bases.iter().all(|base| !known.contains_key(base));
            let next = known.iter().find(|(_, base)| is_next(base)).or(known.iter().next());
            let Some(next) = next.map(|(session, _)| *session) else { break };
            known.remove(&next);
            order.push(next);
        }
        Ok(order)
    }

    /// The sessions that a session builds on, if its beginning can be read.
    fn bases(&self, session: SessionId) -> Vec<SessionId> {
        let mut events = self.scan(session).filter_map(Result::ok).map(|entry| entry.envelope);
        let Some(first) = events.next() else { return Vec::new() };
        let mut begins = vec![first];
        if forked_from(&begins[0]).is_some() {
            begins.extend(events.take(BEGINNING));
        }
        let base = Base::of(begins.first()).session();
        base.into_iter().chain(adopted(&begins)).collect()
    }

    fn head(&self, session: SessionId) -> Option<Head> {
        self.heads.iter().find(|head| head.session == session).cloned()
    }

    fn scan(&self, session: SessionId) -> Scan<'_> {
        let source = Source { engine: self.records, cache: self.cache };
        Scan::all(source, session, self.head(session), 1)
    }

    fn session(&mut self, session: SessionId) -> Result<Rescued, Error> {
        let (mut log, mut why) = (Vec::new(), None);
        for entry in self.scan(session) {
            match entry {
                Ok(entry) => log.push(entry.envelope),
                Err(wrong) => {
                    why = Some(wrong.into_damage());
                    break;
                }
            }
        }
        let orphaned = adopted(&log).and_then(|parent| self.missing_announcement(session, parent));
        if let Some(what) = self.missing_base(log.first()).or(orphaned) {
            let seq = log.first().map(|first| first.seq).unwrap_or(1);
            why = Some(Damage::event(session, seq, what));
            log.clear();
        }
        self.write(session, &log)?;
        let kept = log.first().zip(log.last()).map(|(first, last)| (first.seq, last.seq));
        let (beside, last) = leftovers::beside(self.records, session, kept);
        let last = last.max(self.head(session).map(|head| head.seq)).unwrap_or_default();
        let forked = beside.first().filter(|first| forked_from(first).is_some());
        let begins = forked.map_or(1, |first| first.seq);
        Ok(Rescued { session, kept, beside, last, begins, why })
    }

    /// Why an intact log cannot be in the new store: the session that it builds on is not complete
    /// there.
    fn missing_base(&self, first: Option<&Envelope>) -> Option<String> {
        let first = first?;
        match Base::of(Some(first)) {
            Base::None => None,
            Base::Fork(from, at) => {
                let reaches = self.kept.get(&from).is_some_and(|last| *last >= at);
                let what =
                    || format!("it shares {from} up to event {at}, and that log ends before");
                (!reaches).then(what)
            }
            Base::Child(parent) => self.missing_announcement(first.session, parent),
        }
    }

    /// Why a child cannot be in the new store although its parent is known.
    fn missing_announcement(&self, child: SessionId, parent: SessionId) -> Option<String> {
        let known =
            self.head(parent).is_some() || lookup::first_seq(self.records, parent).is_some();
        let named = self.announced.contains(&(parent, child));
        let what = || format!("its parent {parent} does not name it before its log ends");
        (known && !named).then(what)
    }

    fn write(&mut self, session: SessionId, log: &[Envelope]) -> Result<(), Error> {
        let Some(last) = log.last() else { return Ok(()) };
        self.store.import(session, log)?;
        self.kept.insert(session, last.seq);
        let payloads = log.iter().flat_map(|event| event.event.payloads());
        self.named.extend(payloads.map(|payload| payload.sha256()));
        self.announced
            .extend(log.iter().filter_map(Envelope::spawned).map(|child| (session, child)));
        Ok(())
    }
}

/// The number of events to search for the one that names the parent of a forked child.
const BEGINNING: usize = 1_024;

/// The parent of a forked child.
fn adopted(log: &[Envelope]) -> Option<SessionId> {
    forked_from(log.first()?)?;
    log.iter().take(BEGINNING).find_map(|event| {
        let Event::Session(Session::Adopted { parent }) = &event.event else { return None };
        Some(*parent)
    })
}
