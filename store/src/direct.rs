//! A long log, read from the bytes of sled's file: opening a copy of a large database and walking through
//! its pages takes several times as long as everything that is then done with the events.
//!
//! This asks sled nothing and trusts its file with nothing: the records are taken from wherever they
//! stand, old or new, and count only if they are one unbroken chain from the first event to the one that
//! the head names, link for link. A record is written once, so one that is there twice must be the same.
//! Wherever something is missing, broken, different or behind the head, the answer is `None`, and sled
//! is asked.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use leftfold_events::{Envelope, Seq, SessionId, Sha256};

use crate::frames::{self, CHANGE, PAGE, SEGMENT};
use crate::head::{self, Head};
use crate::payloads::{self, Cache};
use crate::record::{self, Body, EVENT_KEY, Link, START};
use crate::{codec, files, pages};

/// Logs of fewer events are read as fast by asking sled.
const LONG: Seq = 4_096;

/// Bytes of a database that are held in memory.
const MOST: u64 = 256 << 20;

/// The events up to `to` of a session that is no fork.
pub(crate) fn read(dir: &Path, session: SessionId, to: Seq) -> Option<Vec<Envelope>> {
    // the head first: it is a lower bound, and the log may grow meanwhile
    let head = head::read(dir, session).ok()?.filter(|head| head.seq > LONG)?;
    let bytes = bytes(&dir.join("db")).ok()??;
    let records = Records::of(&bytes, &head)?;
    let log = Log { dir, head, records, cache: Cache::default() };
    let threads = threads() as Seq;
    let share = log.head.seq.div_ceil(threads);
    let parts = (0..threads).map(|n| (n * share + 1, ((n + 1) * share).min(log.head.seq)));
    let parts = at_once(parts, |(first, last)| log.part(first, last, to));
    let mut parts = parts.into_iter();
    let mut events = parts.next()???;
    for part in parts {
        events.extend(part??);
    }
    Some(events)
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, |threads| threads.get().min(8))
}

/// Does each piece of work in a thread of its own. `None` for one that panicked.
fn at_once<W: Send, T: Send>(
    work: impl Iterator<Item = W>,
    run: impl Fn(W) -> T + Sync,
) -> Vec<Option<T>> {
    let run = &run;
    thread::scope(|threads| {
        let running: Vec<_> = work.map(|work| threads.spawn(move || run(work))).collect();
        running.into_iter().map(|thread| thread.join().ok()).collect()
    })
}

/// All that stands in the file, in stripes of whole segments.
fn bytes(db: &Path) -> io::Result<Option<Vec<Vec<u8>>>> {
    let file = File::open(db)?;
    let length = file.metadata()?.len();
    if length > MOST {
        return Ok(None);
    }
    let segment = SEGMENT as u64;
    let stripe = length.div_ceil(segment).div_ceil(threads() as u64).max(1) * segment;
    let starts = (0..length.div_ceil(stripe)).map(|n| n * stripe);
    let stripes = at_once(starts, |start| {
        let mut bytes = vec![0; usize::try_from(stripe.min(length - start)).unwrap_or_default()];
        file.read_exact_at(&mut bytes, start).map(|()| bytes)
    });
    stripes.into_iter().collect::<Option<io::Result<_>>>().transpose()
}

/// A part of an event.
#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    seq: Seq,
    part: u8,
    value: &'a [u8],
}

/// A record's key is known only with the page that it changes.
struct Change<'a> {
    page: u64,
    lsn: u64,
    key: &'a [u8],
    value: &'a [u8],
}

/// What a stripe of the file holds of a session.
struct Found<'a> {
    session: [u8; 16],
    events: Vec<Record<'a>>,
    payloads: Vec<(Sha256, u8, &'a [u8])>,
    changes: Vec<Change<'a>>,
    /// What the keys of a page begin with, since when.
    prefixes: HashMap<u64, Vec<(u64, &'a [u8])>>,
}

impl<'a> Found<'a> {
    fn new(session: SessionId) -> Self {
        let (events, payloads, changes) = Default::default();
        let prefixes = HashMap::new();
        Self { session: session.to_bytes(), events, payloads, changes, prefixes }
    }

    /// `None`: something that this crate does not make.
    fn look_through(mut self, stripe: &'a [u8]) -> Option<Self> {
        for segment in stripe.chunks(SEGMENT) {
            let Some((number, messages)) = frames::messages(segment) else { continue };
            for message in messages {
                let body = segment.get(message.body..message.end)?;
                let (page, lsn) = (message.page, number * SEGMENT as u64 + message.body as u64);
                if message.kind == PAGE {
                    self.page(page, lsn, body)?;
                } else if message.kind == CHANGE
                    && let Some((key, value)) = pages::set(body).ok()?
                {
                    self.changes.push(Change { page, lsn, key, value });
                } else if message.kind == PAGE + 1 || message.kind == CHANGE + 1 {
                    return None;
                }
            }
        }
        Some(self)
    }

    fn page(&mut self, page: u64, lsn: u64, body: &'a [u8]) -> Option<()> {
        let Some(leaf) = pages::leaf(body).ok()? else { return Some(()) };
        let prefix = leaf.prefix;
        self.prefixes.entry(page).or_default().push((lsn, prefix));
        for record in leaf {
            let (key, value) = record.ok()?;
            self.record(prefix, key, value);
        }
        Some(())
    }

    fn record(&mut self, prefix: &[u8], rest: &[u8], value: &'a [u8]) {
        let mut key = [0; 49];
        let length = prefix.len() + rest.len();
        let Some(key) = key.get_mut(..length) else { return };
        let (front, back) = key.split_at_mut(prefix.len());
        front.copy_from_slice(prefix);
        back.copy_from_slice(rest);
        let part = key.last().copied().unwrap_or_default();
        if key.starts_with(&self.session) {
            let seq = record::seq_of(key);
            self.events.extend(seq.map(|seq| Record { seq, part, value }));
        } else if let Some(sha256) = record::payload_of(key) {
            self.payloads.push((sha256, part, value));
        }
    }

    fn add(&mut self, other: Self) {
        self.events.extend(other.events);
        self.payloads.extend(other.payloads);
        self.changes.extend(other.changes);
        for (page, since) in other.prefixes {
            self.prefixes.entry(page).or_default().extend(since);
        }
    }

    /// Takes the changes for records, now that all pages are known.
    fn apply_changes(&mut self) {
        self.prefixes.values_mut().for_each(|since| since.sort_unstable());
        for change in std::mem::take(&mut self.changes) {
            // one whose page is gone is in a page that came after
            let Some(since) = self.prefixes.get(&change.page) else { continue };
            let known = since.partition_point(|(lsn, _)| *lsn < change.lsn);
            if let Some((_, prefix)) = known.checked_sub(1).and_then(|last| since.get(last)) {
                let prefix = *prefix;
                self.record(prefix, change.key, change.value);
            }
        }
    }
}

/// All records of a session, and the contents that its events may name.
struct Records<'a> {
    events: Vec<Record<'a>>,
    /// Where each event's records begin, and where the last one's end.
    starts: Vec<usize>,
    payloads: HashMap<Sha256, Vec<(u8, &'a [u8])>>,
}

impl<'a> Records<'a> {
    fn of(stripes: &'a [Vec<u8>], head: &Head) -> Option<Self> {
        let look = |stripe: &'a Vec<u8>| Found::new(head.session).look_through(stripe);
        let mut all = Found::new(head.session);
        for found in at_once(stripes.iter(), look) {
            all.add(found??);
        }
        all.apply_changes();
        let Found { mut events, payloads: contents, .. } = all;
        events.sort_unstable_by_key(|record| (record.seq, record.part));
        once(&mut events, |record| (record.seq, record.part), |record| record.value)?;
        let mut starts = Vec::with_capacity(events.len());
        for (index, record) in events.iter().enumerate() {
            let known = starts.len() as Seq;
            if record.seq == known + 1 {
                starts.push(index);
            } else if record.seq != known {
                return None;
            }
        }
        (starts.len() as Seq == head.seq).then(|| starts.push(events.len()))?;
        let mut payloads: HashMap<Sha256, Vec<(u8, &[u8])>> = HashMap::new();
        for (sha256, part, value) in contents {
            payloads.entry(sha256).or_default().push((part, value));
        }
        for parts in payloads.values_mut() {
            parts.sort_unstable_by_key(|(part, _)| *part);
            once(parts, |(part, _)| *part, |(_, value)| value)?;
        }
        Some(Self { events, starts, payloads })
    }

    /// The records of an event, with their keys.
    fn event(&self, session: SessionId, seq: Seq) -> Option<Vec<(Vec<u8>, &'a [u8])>> {
        let index = usize::try_from(seq).ok()?;
        let range = *self.starts.get(index.checked_sub(1)?)?..*self.starts.get(index)?;
        let key = record::event_key(session, seq);
        let records = self.events.get(range)?.iter();
        Some(records.map(|record| (record::part(&key, record.part), record.value)).collect())
    }

    /// The contents behind a hash.
    fn payload(&self, dir: &Path, sha256: Sha256) -> Result<Arc<str>, crate::error::Flaw> {
        let key = record::payload_key(sha256);
        let parts = self.payloads.get(&sha256).into_iter().flatten();
        let parts = parts.map(|(part, value)| (record::part(&key, *part), *value));
        payloads::whole(&parts.collect::<Vec<_>>(), dir, sha256)
    }
}

/// Leaves each of what is sorted there once. `None`: two of the same key differ.
fn once<T, K: PartialEq>(
    sorted: &mut Vec<T>,
    key: impl Fn(&T) -> K,
    value: impl for<'v> Fn(&'v T) -> &'v [u8],
) -> Option<()> {
    let mut same = true;
    sorted.dedup_by(|again, first| {
        let twice = key(again) == key(first);
        same &= !twice || value(again) == value(first);
        twice
    });
    same.then_some(())
}

struct Log<'a> {
    dir: &'a Path,
    head: Head,
    records: Records<'a>,
    cache: Cache,
}

impl Log<'_> {
    /// Verifies the events from `first` to `last`, and decodes those up to `to`.
    fn part(&self, first: Seq, last: Seq, to: Seq) -> Option<Vec<Envelope>> {
        let mut link = match first {
            1 => START,
            _ => self.stored_link(first - 1)?,
        };
        // the first part becomes the whole
        let room = if first == 1 { self.head.seq } else { last };
        let mut events =
            Vec::with_capacity(usize::try_from((room.min(to) + 1).saturating_sub(first)).ok()?);
        for seq in first..=last {
            let records = self.records.event(self.head.session, seq)?;
            let laid = record::gather(&records, START.len()).ok()?;
            let body = match laid.body {
                Body::Inline(bytes) => bytes,
                Body::File { sha256, length } => files::get(self.dir, sha256, length).ok()?,
            };
            let key = records.first()?.0.get(..EVENT_KEY)?;
            let before = std::mem::replace(&mut link, Link::try_from(laid.lead).ok()?);
            (record::link(&before, key, &body) == link).then_some(())?;
            if seq <= to {
                events.push(self.decode(seq, &body)?);
            }
        }
        (last != self.head.seq || link == self.head.chain).then_some(events)
    }

    fn stored_link(&self, seq: Seq) -> Option<Link> {
        let records = self.records.event(self.head.session, seq)?;
        let (key, value) = records.first()?;
        record::first(key, value, START.len()).ok()?.0.try_into().ok()
    }

    fn decode(&self, seq: Seq, body: &[u8]) -> Option<Envelope> {
        let mut envelope = codec::decode(body).ok()?;
        (envelope.session == self.head.session && envelope.seq == seq).then_some(())?;
        let load = |sha256| self.records.payload(self.dir, sha256);
        payloads::fill(&self.cache, &mut envelope, load).ok()?;
        Some(envelope)
    }
}

#[cfg(test)]
mod tests;
