//! Reads one session's records from first to last and verifies all of them.

use std::collections::VecDeque;
use std::path::Path;

use leftfold_events::{Envelope, Seq, SessionId};

use crate::database::catch_panic;
use crate::error::{ContentFault, Damage, Error};
use crate::head::Head;
use crate::lookup::{first_seq, forked_from, lineage, stored_link};
use crate::payloads::{self, Cache};
use crate::record::{self, Body, Decoded, EVENT_KEY, Link, RecordError, START};
use crate::{codec, files};

/// A verified event.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) link: Link,
    pub(crate) envelope: Envelope,
}

/// The fault at a place where an event should be.
#[derive(Debug)]
pub(crate) enum ScanFault {
    Damage(Damage),
    OtherSchema { session: SessionId, seq: Seq, found: u8 },
}

impl ScanFault {
    pub(crate) fn into_error(self, dir: &Path) -> Error {
        match self {
            Self::Damage(damage) => Error::damaged(dir, damage),
            Self::OtherSchema { session, seq, found } => Error::OtherSchema { session, seq, found },
        }
    }

    pub(crate) fn into_damage(self) -> Damage {
        match self {
            Self::Damage(damage) => damage,
            Self::OtherSchema { session, seq, found } => {
                Damage::event(session, seq, record::other_schema(found))
            }
        }
    }
}

/// Where records and contents are read from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) db: &'a sled::Db,
    /// The store's own folder, also if `db` is a copy.
    pub(crate) dir: &'a Path,
    pub(crate) cache: &'a Cache,
}

type Record = (sled::IVec, sled::IVec);

/// An event whose records, place and link are verified, not decoded yet.
#[derive(Debug)]
pub(crate) struct EncodedEntry {
    session: SessionId,
    pub(crate) seq: Seq,
    link: Link,
    schema: u8,
    body: Vec<u8>,
}

impl EncodedEntry {
    /// Bytes of the event.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn decode(self, source: Source<'_>) -> Result<Entry, ScanFault> {
        let Self { session, seq, link, schema, body } = self;
        let envelope = decode(source, session, seq, (schema, &body)).map_err(ScanFault::Damage)?;
        Ok(Entry { link, envelope })
    }
}

fn decode(
    source: Source<'_>,
    session: SessionId,
    seq: Seq,
    (schema, body): (u8, &[u8]),
) -> Result<Envelope, Damage> {
    let damage = |what: String| Damage::event(session, seq, what);
    let mut envelope =
        codec::decode(schema, body).map_err(|what| damage(format!("cannot be decoded: {what}")))?;
    if (envelope.session, envelope.seq) != (session, seq) {
        let (session, seq) = (envelope.session, envelope.seq);
        return Err(damage(format!("it is event {seq} of session {session}")));
    }
    let Source { db, dir, cache } = source;
    payloads::fill(cache, &mut envelope, |sha256| payloads::load(db, dir, sha256))?;
    Ok(envelope)
}

/// Yields a session's events in order, and each fault at its place. It continues after damage as
/// far as possible. Faults of the whole session come last.
pub(crate) struct Scan<'a>(EncodedScan<'a>);

impl<'a> Scan<'a> {
    /// Scans from the first event on, and yields the events from `from` on.
    pub(crate) fn all(
        source: Source<'a>,
        session: SessionId,
        head: Option<Head>,
        from: Seq,
    ) -> Self {
        Self(EncodedScan::all(source, session, head, from))
    }

    /// Scans from the head on: the event that it names, and events that a crash kept out of it.
    pub(crate) fn tail(source: Source<'a>, head: Head) -> Self {
        let seq = head.seq;
        Self(EncodedScan::start(source, head.session, Some(head), Some(seq), seq))
    }

    /// Yields the events that a session shares with the sessions it was forked from, and then its
    /// own, from `from` on. With `part` it does not read the events before `from`.
    pub(crate) fn history(
        source: Source<'a>,
        session: SessionId,
        head: Option<Head>,
        from: (Seq, bool),
    ) -> impl Iterator<Item = Result<Entry, ScanFault>> + 'a {
        let scan = EncodedScan::history(source, session, head, from);
        scan.map(move |entry| entry?.decode(source))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Entry, ScanFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.next()?;
        Some(entry.and_then(|entry| entry.decode(self.0.source)))
    }
}

/// A [`Scan`] that leaves the decoding to its caller, which may be another thread.
pub(crate) struct EncodedScan<'a> {
    source: Source<'a>,
    session: SessionId,
    head: Option<Head>,
    records: Option<sled::Iter>,
    ahead: Option<Record>,
    /// Seq of the next event; `None` before the first event if that one decides where the log
    /// begins.
    expected: Option<Seq>,
    /// Link of the previous event; `None` if it is unknown.
    link: Option<Link>,
    /// Events before this seq are verified but not yielded.
    from: Seq,
    out: VecDeque<Result<EncodedEntry, ScanFault>>,
}

impl<'a> EncodedScan<'a> {
    fn all(source: Source<'a>, session: SessionId, head: Option<Head>, from: Seq) -> Self {
        Self::start(source, session, head, None, from)
    }

    /// Scans from the event `from` on, and does not read the events before it.
    fn part(source: Source<'a>, session: SessionId, from: Seq) -> Self {
        Self::start(source, session, None, Some(from), from)
    }

    /// See [`Scan::history`].
    pub(crate) fn history(
        source: Source<'a>,
        session: SessionId,
        head: Option<Head>,
        (from, part): (Seq, bool),
    ) -> Box<dyn Iterator<Item = Result<EncodedEntry, ScanFault>> + 'a> {
        let lineage = match lineage(source.db, session) {
            Ok(lineage) => lineage,
            Err(what) => {
                let damage = Damage::event(session, 1, what);
                return Box::new(std::iter::once(Err(ScanFault::Damage(damage))));
            }
        };
        let mut head = head;
        let scans = lineage.into_iter().filter(move |(_, last)| *last >= from);
        Box::new(scans.flat_map(move |(of, last)| {
            let head = head.take_if(|_| of == session);
            let scan = match part {
                // a fork begins behind its shared events
                true => {
                    let first = first_seq(source.db, of).unwrap_or(from);
                    Self::part(source, of, from.max(first))
                }
                false => Self::all(source, of, head, from),
            };
            scan.take_while(move |entry| entry.as_ref().map_or(true, |entry| entry.seq <= last))
        }))
    }

    fn start(
        source: Source<'a>,
        session: SessionId,
        head: Option<Head>,
        expected: Option<Seq>,
        from: Seq,
    ) -> Self {
        let low = record::part(&record::event_key(session, expected.unwrap_or(0)), 0);
        let high = record::part(&record::event_key(session, Seq::MAX), u8::MAX);
        let mut scan = Self {
            source,
            session,
            head,
            records: None,
            ahead: None,
            expected,
            link: None,
            from,
            out: VecDeque::new(),
        };
        match catch_panic(|| source.db.range(low..=high)) {
            Ok(records) => scan.records = Some(records),
            Err(panic) => scan.lost(&panic),
        }
        scan
    }

    /// Ends the scan, because sled cannot read on.
    fn lost(&mut self, what: &str) {
        self.records = None;
        let what = format!("the database cannot be read from here on: {what}");
        self.wrong(self.expected.unwrap_or(1), what);
    }

    fn wrong(&mut self, seq: Seq, what: impl Into<String>) {
        self.out.push_back(Err(ScanFault::Damage(Damage::event(self.session, seq, what))));
    }

    fn record(&mut self) -> Option<Record> {
        if let Some(record) = self.ahead.take() {
            return Some(record);
        }
        let records = self.records.as_mut()?;
        match catch_panic(|| records.next()) {
            Ok(Some(Ok(record))) => return Some(record),
            Ok(None) => self.records = None,
            Ok(Some(Err(error))) => self.lost(&error.to_string()),
            Err(panic) => self.lost(&panic),
        }
        None
    }

    /// The records of the next event.
    fn event(&mut self) -> Option<Vec<Record>> {
        let first = self.record()?;
        let mut records = vec![first];
        while let Some(next) = self.record() {
            if next.0.get(..EVENT_KEY) != records[0].0.get(..EVENT_KEY) {
                self.ahead = Some(next);
                break;
            }
            records.push(next);
        }
        Some(records)
    }

    fn step(&mut self) -> bool {
        let Some(records) = self.event() else { return false };
        let key = &records[0].0;
        let Some(seq) = record::seq_of(key) else {
            self.wrong(self.expected.unwrap_or(1), "a key that does not belong to an event");
            return true;
        };
        match record::from_records(&records, START.len()) {
            Ok(decoded) => self.decoded(&records[0].0, seq, decoded),
            Err(fault) => {
                self.gap(seq);
                self.out.push_back(Err(match fault {
                    RecordError::Schema(found) => {
                        ScanFault::OtherSchema { session: self.session, seq, found }
                    }
                    RecordError::Bad(what) => {
                        ScanFault::Damage(Damage::event(self.session, seq, what))
                    }
                }));
                self.link = None;
            }
        }
        self.expected = Some(seq.saturating_add(1));
        true
    }

    /// Yields one event whose records are complete.
    fn decoded(&mut self, key: &[u8], seq: Seq, decoded: Decoded<'_>) {
        let key = key.get(..EVENT_KEY).unwrap_or_default();
        let link = Link::try_from(decoded.lead).unwrap_or_default();
        let schema = decoded.schema;
        let body = match self.body(decoded.body) {
            Ok(body) => body,
            Err(flaw) => {
                self.gap(seq);
                self.out.push_back(Err(ScanFault::Damage(flaw.of(self.session, seq))));
                self.link = Some(link);
                return;
            }
        };
        if self.expected.is_none() {
            // the first event decides where the log begins
            match decode(self.source, self.session, seq, (schema, &body)) {
                Ok(first) => self.begin(seq, &first),
                Err(damage) => {
                    self.out.push_back(Err(ScanFault::Damage(damage)));
                    self.link = Some(link);
                    return;
                }
            }
        }
        self.gap(seq);
        self.chained(link, (seq, key), &body);
        if seq >= self.from {
            let session = self.session;
            self.out.push_back(Ok(EncodedEntry { session, seq, link, schema, body }));
        }
    }

    fn body(&self, body: Body) -> Result<Vec<u8>, ContentFault> {
        match body {
            Body::Inline(bytes) => Ok(bytes),
            Body::File { sha256, length } => files::get(self.source.dir, sha256, length),
        }
    }

    /// The first event decides where the log begins: a fork continues behind its shared events.
    fn begin(&mut self, seq: Seq, first: &Envelope) {
        let forked = forked_from(first);
        if let Some((from, at)) = forked.filter(|(_, at)| at.checked_add(1) == Some(seq)) {
            self.expected = Some(seq);
            match stored_link(self.source.db, from, at) {
                Ok(Some(link)) => self.link = Some(link),
                Ok(None) => {
                    self.wrong(seq, format!("it is a fork of {from} at {at}, which is missing"));
                }
                Err(what) => self.wrong(
                    seq,
                    format!("it cannot be told which event it was forked from: {what}"),
                ),
            }
        } else {
            self.expected = Some(1);
            self.link = Some(START);
        }
    }

    fn gap(&mut self, seq: Seq) {
        let expected = self.expected.unwrap_or(1);
        if seq != expected {
            let last = seq.saturating_sub(1);
            self.wrong(expected, format!("events {expected} to {last} are missing"));
            self.link = None;
        }
    }

    fn chained(&mut self, link: Link, (seq, key): (Seq, &[u8]), body: &[u8]) {
        if self.link.is_some_and(|before| record::link(&before, key, body) != link) {
            self.wrong(seq, "the checksum chain breaks: this is not the event that was here");
        }
        self.link = Some(link);
        if self.head.as_ref().is_some_and(|head| head.seq == seq && head.chain != link) {
            self.wrong(seq, "this is not the event that was acknowledged: the head's link differs");
        }
    }

    /// Reports faults that show only after the last event.
    fn end(&mut self) {
        let Some(head) = self.head.take() else { return };
        let next = self.expected.unwrap_or(1);
        if next <= head.seq {
            let name = head.session.to_string();
            let mut damage = Damage::head(
                Some(head.session),
                &name,
                format!(
                    "the log ends before event {next}, but events up to {} were acknowledged",
                    head.seq
                ),
            );
            damage.file = "db".into();
            damage.seq = Some(next);
            self.out.push_back(Err(ScanFault::Damage(damage)));
        }
    }
}

impl Iterator for EncodedScan<'_> {
    type Item = Result<EncodedEntry, ScanFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.out.is_empty() && self.step() {}
        if self.out.is_empty() {
            self.end();
        }
        self.out.pop_front()
    }
}
