//! Collects everything readable that is not part of a log.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use leftfold_events::{Envelope, Payload, Seq, SessionId, Sha256};

use super::{Fragment, Rescued, Salvaged};
use crate::chain::START;
use crate::error::Error;
use crate::sled_engine::record::{self, Body};
use crate::sled_engine::{Records, content_file, content_files};
use crate::{codec, payloads};

type Record = (sled::IVec, sled::IVec);

/// The readable events of a session that are not in its new log, and the last seq that any record
/// names.
pub(super) fn beside(
    from: &Records,
    session: SessionId,
    kept: Option<(Seq, Seq)>,
) -> (Vec<Envelope>, Option<Seq>) {
    let events = events(from, session);
    let is_kept = |seq: Seq| kept.is_some_and(|(first, last)| (first..=last).contains(&seq));
    let rest = events.iter().filter(|(seq, _)| !is_kept(**seq));
    let beside = rest.filter_map(|(_, records)| loose(from, records)).collect();
    (beside, events.last_key_value().map(|(seq, _)| *seq))
}

impl Rescued {
    fn is_read(&self, seq: Seq) -> bool {
        self.kept.is_some_and(|(first, last)| (first..=last).contains(&seq))
            || self.beside.binary_search_by_key(&seq, |event| event.seq).is_ok()
    }

    fn add(&mut self, event: Envelope) {
        let place = self.beside.partition_point(|other| other.seq < event.seq);
        self.last = self.last.max(event.seq);
        self.beside.insert(place, event);
    }

    /// The lost events as ranges of first and last seq, up to the last known event.
    pub fn lost(&self) -> Vec<(Seq, Seq)> {
        // a fork begins after its shared events, and only its first event says where that is
        let (mut next, mut lost) = (self.kept.map_or(self.begins, |(first, _)| first), Vec::new());
        let kept = self.kept.into_iter().flat_map(|(first, last)| first..=last);
        let there: BTreeSet<Seq> = kept.chain(self.beside.iter().map(|event| event.seq)).collect();
        for seq in there.into_iter().chain([self.last.saturating_add(1)]) {
            if next < seq {
                lost.push((next, seq - 1));
            }
            next = next.max(seq.saturating_add(1));
        }
        lost
    }
}

/// The records of a session's events.
fn events(from: &Records, session: SessionId) -> BTreeMap<Seq, Vec<Record>> {
    let mut events: BTreeMap<Seq, Vec<Record>> = BTreeMap::new();
    let records = from.db().into_iter().flat_map(|db| db.range(record::range(session, 0)));
    for (key, value) in records.flatten() {
        if let Some(seq) = record::seq_of(&key) {
            events.entry(seq).or_default().push((key, value));
        }
    }
    events
}

/// Decodes a single event. Its contents may be empty, and the event before it may be missing.
fn loose(from: &Records, records: &[Record]) -> Option<Envelope> {
    let key = &records.first()?.0;
    let decoded = record::from_records(records, START.len()).ok()?;
    let bytes = match decoded.body {
        Body::Inline(bytes) => bytes,
        Body::File { sha256, length } => content_file(&from.dir, sha256, length).ok()?,
    };
    let mut event = codec::decode(decoded.schema, &bytes).ok()?;
    let place = (record::session_of(key), record::seq_of(key));
    (place == (Some(event.session), Some(event.seq))).then_some(())?;
    fill(from, &mut event);
    Some(event)
}

/// Fills in the contents that can still be read.
fn fill(from: &Records, event: &mut Envelope) {
    for payload in event.event.payloads_mut() {
        if payloads::is_unset(payload) {
            continue;
        }
        if let Ok(text) = payloads::load(from, payload.sha256()) {
            payload.fill(text);
        }
    }
}

/// Collects everything else: events whose record is lost but whose file exists, contents that no
/// event names, and incomplete records. `named` are the contents in the new store.
pub(super) fn collect(
    from: &Records,
    mut named: HashSet<Sha256>,
    to: &mut Salvaged,
) -> Result<(), Error> {
    let read = |e: sled::Error| Error::sled("read what was found", &from.dir, e);
    let db = from.db().map_err(|what| Error::Database { what })?;
    let records = db.iter().collect::<Result<Vec<Record>, _>>().map_err(read)?;
    let by_id: HashMap<SessionId, usize> =
        to.sessions.iter().enumerate().map(|(n, session)| (session.session, n)).collect();
    for (path, bytes) in unnamed_files(from, &records) {
        let event = codec::decode_unlabelled(&bytes);
        let of = event.as_ref().and_then(|event| to.sessions.get_mut(*by_id.get(&event.session)?));
        match (event, of) {
            (Some(mut event), Some(session)) if !session.is_read(event.seq) => {
                fill(from, &mut event);
                session.add(event);
            }
            _ => to.files.push(path),
        }
    }
    named.extend(to.sessions.iter().flat_map(|session| &session.beside).flat_map(names));
    let mut known = HashMap::new();
    for (key, value) in &records {
        let (session, seq) = (record::session_of(key), record::seq_of(key));
        let fragment = || Fragment { session, seq, key: key.to_vec(), value: value.to_vec() };
        if let Some(sha256) = record::payload_of(key) {
            let text = known.entry(sha256).or_insert_with(|| payloads::load(from, sha256).ok());
            match text {
                Some(text) if named.insert(sha256) => to.payloads.push(Payload::new(text.clone())),
                Some(_) => {}
                None => to.fragments.push(fragment()),
            }
        } else {
            let of = session.and_then(|session| to.sessions.get(*by_id.get(&session)?));
            if !of.zip(seq).is_some_and(|(of, seq)| of.is_read(seq)) {
                to.fragments.push(fragment());
            }
        }
    }
    Ok(())
}

fn names(event: &Envelope) -> Vec<Sha256> {
    event.event.payloads().iter().map(|payload| payload.sha256()).collect()
}

/// Files whose contents match their names, and that no record names.
fn unnamed_files(from: &Records, records: &[Record]) -> Vec<(PathBuf, Vec<u8>)> {
    let named: HashSet<Sha256> =
        records.iter().filter_map(|(key, value)| record::file_of(key, value)).collect();
    let mut found: Vec<_> = content_files(&from.dir)
        .into_iter()
        .filter(|(sha256, _)| !named.contains(sha256))
        .filter_map(|(sha256, path)| {
            let bytes = fs::read(&path).ok()?;
            (Sha256::digest(&bytes) == sha256).then_some((path, bytes))
        })
        .collect();
    found.sort();
    found
}
