//! Every record that sled can still read, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use leftfold_events::{Seq, SessionId, Sha256};

use crate::database::{self, Copy, quiet};
use crate::head::Head;
use crate::record::{self, EVENT_KEY, PAYLOADS};
use crate::{Damage, Error, codec, payloads};

/// How a damaged database may still be opened; what one way does not give, another may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    AsItIs,
    /// By its log alone, without sled's shortcuts and settings.
    LogAlone,
    /// By its log, with what sled cannot read in it marked as to be skipped.
    Bridged,
}

/// Where sled may be asked to go on behind what it cannot read: a database cannot tell which keys
/// it has lost.
#[derive(Debug, Default)]
struct Hints {
    /// Sessions and the last seq that is known of each.
    sessions: BTreeMap<SessionId, Seq>,
    payloads: BTreeSet<Sha256>,
}

/// Puts all records that can be read into a new database, which holds nothing else. Those of
/// several ways to read agree, as a record is written once; one that does not is left out by its
/// checksum.
pub(super) fn harvest(dir: &Path, heads: &[Head]) -> Result<Copy, Error> {
    let harvest = database::empty().map_err(|e| Error::io("cannot make a copy of", dir, e))?;
    let Some(db) = harvest.db() else { return Ok(harvest) };
    let mut hints = Hints::default();
    hints.sessions.extend(heads.iter().map(|head| (head.session, head.seq)));
    let mut refused = Vec::new();
    for way in [Way::AsItIs, Way::LogAlone, Way::Bridged] {
        match open(dir, way)? {
            Some(Ok(copy)) => copy.db().into_iter().try_for_each(|from| {
                let reaped = quiet(|| reap(from, &mut hints, db));
                reaped.unwrap_or(Ok(())).map_err(|e| Error::sled("kept records", dir, e))
            })?,
            Some(Err(what)) => refused.push(what),
            None => {}
        }
    }
    if db.is_empty() && !refused.is_empty() {
        let what = format!("sled cannot open it in any way ({}): nothing to salvage", refused[0]);
        return Err(Error::damaged(dir, Damage::db(what)));
    }
    Ok(harvest)
}

/// `None` if this way is no other than the first.
fn open(dir: &Path, way: Way) -> Result<Option<Result<Copy, String>>, Error> {
    let mut files = database::copy(dir)?;
    let differs = match way {
        Way::AsItIs => true,
        Way::LogAlone => {
            let had = files.without_snapshot();
            files.without_settings() || had
        }
        Way::Bridged => {
            files.without_snapshot();
            files.without_settings();
            files.bridge().map_err(|e| Error::io("cannot look through a copy of", dir, e))?
        }
    };
    Ok(differs.then(|| files.open()))
}

fn reap(from: &sled::Db, hints: &mut Hints, to: &sled::Db) -> Result<(), sled::Error> {
    // events first: they tell of sessions and of payloads
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

type Found = Result<(sled::IVec, sled::IVec), ()>;

/// The first record from `low` on.
fn first(db: &sled::Db, low: &[u8], high: &[u8]) -> Option<Found> {
    if low >= high {
        return None;
    }
    match quiet(|| db.range(low.to_vec()..high.to_vec()).next()) {
        Ok(None) => None,
        Ok(Some(Ok(record))) => Some(Ok(record)),
        Ok(Some(Err(_))) | Err(_) => Some(Err(())),
    }
}

fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// A record that is what was written wins over one that is not.
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
        let body = record::first(key, value, record::START.len()).ok().map(|(_, body)| body);
        let event = body.and_then(|body| codec::decode(body).ok());
        let named = event.iter().flat_map(|event| event.event.payloads());
        let named = named.filter(|payload| !payloads::is_unset(payload));
        self.payloads.extend(named.map(|payload| payload.sha256()));
    }

    /// The next key at which an event may begin, seen from one where sled cannot read.
    fn behind(&mut self, db: &sled::Db, low: &[u8]) -> Option<Vec<u8>> {
        let mut padded = low.to_vec();
        padded.resize(EVENT_KEY + 1, 0);
        let (session, seq) = (record::session_of(&padded)?, record::seq_of(&padded)?);
        let last = self.sessions.get(&session).copied();
        let last = last.map(|last| last.max(last_seq(db, session).unwrap_or_default()));
        if last.is_some_and(|last| seq < last) {
            return Some(record::part(&record::event_key(session, seq + 1), 0));
        }
        let next = self.sessions.keys().find(|known| **known > session)?;
        Some(record::part(&record::event_key(*next, 0), 0))
    }

    fn payload_behind(&self, low: &[u8]) -> Option<Vec<u8>> {
        let keys = self.payloads.iter().map(|sha256| record::payload_key(*sha256));
        keys.map(|key| record::part(&key, 0)).find(|key| key.as_slice() > low)
    }
}

/// The last seq of a session, where its end can be read.
fn last_seq(db: &sled::Db, session: SessionId) -> Option<Seq> {
    let low = record::part(&record::event_key(session, 0), 0);
    let high = record::part(&record::event_key(session, Seq::MAX), u8::MAX);
    let last = quiet(|| db.range(low..=high).next_back()).ok()??;
    record::seq_of(&last.ok()?.0)
}
