//! Reads one session's events from first to last and verifies all of them.

use std::collections::VecDeque;
use std::path::Path;

use leftfold_events::{Envelope, Seq, SessionId};

use crate::chain::{self, Link, START};
use crate::codec;
use crate::engine::{EventFault, EventsOf, ReadEngine, StoredEvent};
use crate::error::{Damage, Error};
use crate::head::Head;
use crate::lookup::{first_seq, forked_from, lineage, stored_link};
use crate::payloads::{self, Cache};

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
                Damage::event(session, seq, chain::other_schema(found))
            }
        }
    }
}

/// Where events and contents are read from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) engine: &'a dyn ReadEngine,
    pub(crate) cache: &'a Cache,
}

/// An event whose place and link are verified, not decoded yet.
#[derive(Debug)]
pub(crate) struct EncodedEntry {
    session: SessionId,
    event: StoredEvent,
}

impl EncodedEntry {
    pub(crate) fn seq(&self) -> Seq {
        self.event.seq
    }

    pub(crate) fn decode(self, source: Source<'_>) -> Result<Entry, ScanFault> {
        let envelope = decode(source, self.session, &self.event).map_err(ScanFault::Damage)?;
        Ok(Entry { link: self.event.link, envelope })
    }
}

fn decode(source: Source<'_>, session: SessionId, event: &StoredEvent) -> Result<Envelope, Damage> {
    let seq = event.seq;
    let damage = |what: String| Damage::event(session, seq, what);
    let mut envelope = codec::decode(event.schema, &event.body)
        .map_err(|what| damage(format!("cannot be decoded: {what}")))?;
    if (envelope.session, envelope.seq) != (session, seq) {
        let (session, seq) = (envelope.session, envelope.seq);
        return Err(damage(format!("it is event {seq} of session {session}")));
    }
    let Source { engine, cache } = source;
    payloads::fill(cache, &mut envelope, |sha256| payloads::load(engine, sha256))?;
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

/// A [`Scan`] that leaves the decoding to its caller.
pub(crate) struct EncodedScan<'a> {
    source: Source<'a>,
    session: SessionId,
    head: Option<Head>,
    events: EventsOf<'a>,
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
        let lineage = match lineage(source.engine, session) {
            Ok(lineage) => lineage,
            Err(fault) => {
                let damage = fault.into_damage(session, 1);
                return Box::new(std::iter::once(Err(ScanFault::Damage(damage))));
            }
        };
        let mut head = head;
        let scans = lineage.into_iter().filter(move |(_, last)| *last >= from);
        Box::new(scans.flat_map(move |(of, last)| {
            let head = head.take_if(|_| of == session);
            let scan = match part {
                // a fork begins after its shared events
                true => {
                    let first = first_seq(source.engine, of).unwrap_or(from);
                    Self::part(source, of, from.max(first))
                }
                false => Self::all(source, of, head, from),
            };
            scan.take_while(move |entry| entry.as_ref().map_or(true, |entry| entry.seq() <= last))
        }))
    }

    fn start(
        source: Source<'a>,
        session: SessionId,
        head: Option<Head>,
        expected: Option<Seq>,
        from: Seq,
    ) -> Self {
        let events = source.engine.events(session, expected.unwrap_or(0));
        Self { source, session, head, events, expected, link: None, from, out: VecDeque::new() }
    }

    fn wrong(&mut self, seq: Seq, what: impl Into<String>) {
        self.out.push_back(Err(ScanFault::Damage(Damage::event(self.session, seq, what))));
    }

    fn step(&mut self) -> bool {
        let Some(event) = self.events.next() else { return false };
        let session = self.session;
        let (seq, link, fault) = match event {
            Ok(event) => {
                let seq = event.seq;
                self.event(event);
                self.expected = Some(seq.saturating_add(1));
                return true;
            }
            Err(EventFault::Unplaced(what)) => {
                let damage = what.into_damage(session, self.expected.unwrap_or(1));
                self.out.push_back(Err(ScanFault::Damage(damage)));
                return true;
            }
            Err(EventFault::OtherSchema { seq, found }) => {
                (seq, None, ScanFault::OtherSchema { session, seq, found })
            }
            Err(EventFault::Damage { seq, link, what }) => {
                (seq, link, ScanFault::Damage(what.into_damage(session, seq)))
            }
        };
        self.gap(seq);
        self.out.push_back(Err(fault));
        self.link = link;
        self.expected = Some(seq.saturating_add(1));
        true
    }

    /// Yields one event that the engine could read.
    fn event(&mut self, event: StoredEvent) {
        let (seq, link) = (event.seq, event.link);
        if self.expected.is_none() {
            // the first event decides where the log begins
            match decode(self.source, self.session, &event) {
                Ok(first) => self.begin(seq, &first),
                Err(damage) => {
                    self.out.push_back(Err(ScanFault::Damage(damage)));
                    self.link = Some(link);
                    return;
                }
            }
        }
        self.gap(seq);
        self.chained(&event);
        if seq >= self.from {
            self.out.push_back(Ok(EncodedEntry { session: self.session, event }));
        }
    }

    /// The first event decides where the log begins: a fork continues after its shared events.
    fn begin(&mut self, seq: Seq, first: &Envelope) {
        let forked = forked_from(first);
        if let Some((from, at)) = forked.filter(|(_, at)| at.checked_add(1) == Some(seq)) {
            self.expected = Some(seq);
            match stored_link(self.source.engine, from, at) {
                Ok(Some(link)) => self.link = Some(link),
                Ok(None) => {
                    self.wrong(seq, format!("it is a fork of {from} at {at}, which is missing"));
                }
                Err(fault) => {
                    let damage = fault.into_damage(self.session, seq);
                    let what = format!(
                        "it cannot be told which event it was forked from: {}",
                        damage.what
                    );
                    self.out.push_back(Err(ScanFault::Damage(Damage { what, ..damage })));
                }
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

    fn chained(&mut self, event: &StoredEvent) {
        let StoredEvent { seq, link, ref body, .. } = *event;
        let is_next = |before| chain::link(&before, self.session, seq, body) == link;
        if self.link.is_some_and(|before| !is_next(before)) {
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
