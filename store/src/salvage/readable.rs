//! Copies every record that sled can still read, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use leftfold_events::{Seq, SessionId, Sha256};

use crate::chain::{PLACE, START};
use crate::engine::ReadEngine;
use crate::error::{Damage, Error};
use crate::sled_engine::record::{self, PAYLOADS, event_key};
use crate::sled_engine::{self, Records, catch_panic, content_files};
use crate::{codec, payloads};

/// How a damaged database is opened. Each way may yield records that the other does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenMode {
    /// From sled's log alone, without its snapshot and settings. The parts of the log that sled
    /// cannot read are marked to be skipped.
    LogAlone,
    AsItIs,
}

/// Where to continue after a key that sled cannot read. A database cannot tell which keys it has
/// lost.
#[derive(Debug, Default)]
struct Hints {
    /// Sessions, and the last known seq of each.
    sessions: BTreeMap<SessionId, Seq>,
    payloads: BTreeSet<Sha256>,
    /// How many more failed reads are allowed.
    refusals: usize,
}

/// The limit of failed reads, for each way of opening.
const MAX_REFUSALS: usize = 40;

/// Puts all records that can be read into a new database, which holds nothing else. The ways of
/// opening agree with each other, because a record is written only once. A record that differs is
/// dropped because its checksum fails.
pub(super) fn copy_readable(dir: &Path) -> Result<Records, Error> {
    let failed = |what| Error::Database { what };
    let rescued =
        sled_engine::empty(dir).map_err(|e| Error::io("cannot make a copy of", dir, e))?;
    let db = rescued.db().map_err(failed)?;
    let mut hints = Hints::default();
    hints
        .sessions
        .extend(rescued.heads().unwrap_or_default().iter().map(|head| (head.session, head.seq)));
    let mut refused = Vec::new();
    for mode in [OpenMode::LogAlone, OpenMode::AsItIs] {
        let copy = match open(dir, mode)? {
            Ok(copy) => copy,
            Err(what) => {
                refused.push(what);
                continue;
            }
        };
        let from = copy.db().map_err(failed)?;
        hints.refusals = MAX_REFUSALS;
        let copied = catch_panic(|| copy_records(from, &mut hints, db)).unwrap_or(Ok(()));
        copied.map_err(|e| Error::sled("kept records", dir, e))?;
        // sled reaches all records that its log leads to without a hint
        if hints.refusals == MAX_REFUSALS {
            break;
        }
    }
    let nothing =
        |why: String| Error::damaged(dir, Damage::db(format!("nothing to salvage: {why}")));
    match refused.into_iter().next().filter(|_| db.is_empty()) {
        Some(what) => Err(nothing(format!("sled cannot open it in any way ({what})"))),
        None if db.is_empty() && content_files(dir).is_empty() => {
            Err(nothing("there is no record in it that can be read".into()))
        }
        None => Ok(rescued),
    }
}

fn open(dir: &Path, mode: OpenMode) -> Result<Result<Records, String>, Error> {
    let mut files = sled_engine::copy_files(dir)?;
    match mode {
        OpenMode::LogAlone => {
            files.without_snapshot();
            files.without_settings();
            files.bridge().map_err(|e| Error::io("cannot look through a copy of", dir, e))?;
        }
        OpenMode::AsItIs => {}
    }
    Ok(files.open(dir, Default::default()))
}

fn copy_records(from: &sled::Db, hints: &mut Hints, to: &sled::Db) -> Result<(), sled::Error> {
    // events first: they name the sessions and the payloads
    let mut low = Vec::new();
    while let Some(found) = first(from, &low, &PAYLOADS) {
        low = match found {
            Ok((key, value)) => {
                hints.learn(&key, &value);
                keep(to, &key, &value)?;
                after(&key)
            }
            Err(()) => match hints.behind(from, &low) {
                Some(next) => next,
                None => break,
            },
        };
    }
    let mut low = PAYLOADS.to_vec();
    while let Some(found) = first(from, &low, &[0xff; 64]) {
        low = match found {
            Ok((key, value)) => {
                keep(to, &key, &value)?;
                after(&key)
            }
            Err(()) => match hints.payload_behind(&low) {
                Some(next) => next,
                None => break,
            },
        };
    }
    Ok(())
}

type FoundEntry = Result<(sled::IVec, sled::IVec), ()>;

/// The first record from `low` on.
fn first(db: &sled::Db, low: &[u8], high: &[u8]) -> Option<FoundEntry> {
    if low >= high {
        return None;
    }
    match catch_panic(|| db.range(low.to_vec()..high.to_vec()).next()) {
        Ok(None) => None,
        Ok(Some(Ok(record))) => Some(Ok(record)),
        Ok(Some(Err(_))) | Err(_) => Some(Err(())),
    }
}

fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Keeps a record. A sound record replaces a broken one.
fn keep(to: &sled::Db, key: &[u8], value: &[u8]) -> Result<(), sled::Error> {
    if record::is_whole(key, value) || !to.contains_key(key)? {
        to.insert(key, value)?;
    }
    Ok(())
}

impl Hints {
    fn learn(&mut self, key: &[u8], value: &[u8]) {
        let (Some(session), Some(seq)) = (record::session_of(key), record::seq_of(key)) else {
            return;
        };
        let last = self.sessions.entry(session).or_default();
        *last = seq.max(*last);
        // most payloads are named by small events
        let first = record::first(key, value, START.len()).ok();
        let event = first.and_then(|first| codec::decode(first.schema, first.bytes).ok());
        let named = event.iter().flat_map(|event| event.event.payloads());
        let named = named.filter(|payload| !payloads::is_unset(payload));
        self.payloads.extend(named.map(|payload| payload.sha256()));
    }

    /// A readable key after one that sled cannot read. The step doubles until a key is readable,
    /// then halves, because sled can take seconds to fail. `None` if there is no such key or the
    /// limit of failed reads is used up.
    fn behind(&mut self, db: &sled::Db, low: &[u8]) -> Option<Vec<u8>> {
        let mut padded = low.to_vec();
        padded.resize(PLACE + 1, 0);
        let (session, bad) = (record::session_of(&padded)?, record::seq_of(&padded)?);
        if let Some(seq) = self.next_readable(db, session, bad) {
            return Some(event_key(session, seq));
        }
        self.refusals = self.refusals.checked_sub(1)?;
        let next = self.sessions.keys().find(|known| **known > session)?;
        Some(event_key(*next, 0))
    }

    fn next_readable(&mut self, db: &sled::Db, session: SessionId, bad: Seq) -> Option<Seq> {
        let last = self.sessions.get(&session).copied().filter(|last| *last > bad)?;
        let (mut bad, mut step, mut good) = (bad, 1, None);
        while good.is_none() && bad < last {
            let next = bad.saturating_add(step).min(last);
            if self.is_readable(db, session, next)? {
                good = Some(next);
            } else {
                (bad, step) = (next, step.saturating_mul(2));
            }
        }
        let mut good = good?;
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            let to = if self.is_readable(db, session, middle)? { &mut good } else { &mut bad };
            *to = middle;
        }
        Some(good)
    }

    /// `None`: the limit of failed reads is used up.
    fn is_readable(&mut self, db: &sled::Db, session: SessionId, seq: Seq) -> Option<bool> {
        let found = first(db, &event_key(session, seq), &PAYLOADS);
        if found.is_some_and(|found| found.is_err()) {
            self.refusals = self.refusals.checked_sub(1)?;
            return Some(false);
        }
        Some(true)
    }

    fn payload_behind(&mut self, low: &[u8]) -> Option<Vec<u8>> {
        self.refusals = self.refusals.checked_sub(1)?;
        let keys = self.payloads.iter().map(|sha256| record::payload_key(*sha256));
        keys.map(|key| record::part(&key, 0)).find(|key| key.as_slice() > low)
    }
}
