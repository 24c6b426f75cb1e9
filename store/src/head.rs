//! Head files: how far each log was acknowledged.
//!
//! A checksum chain cannot show that its end is missing, and sled drops damaged tails silently. So
//! after each flush, and before it acknowledges the flush, the writer overwrites `heads/SESSION`
//! with the place and link of the last event. It is a plain write, so the head is a *lower bound*:
//! a log may be longer than its head (after a crash between flush and head), but never shorter. A
//! missing or empty head is no damage: a crash before the first head leaves a log without one.
//!
//! Layout: `version (1) ‖ session (16) ‖ seq (8) ‖ link (16) ‖ time (8) ‖ length (2) ‖ crc32 (4)`,
//! then `length` bytes of JSON with the summary for lists, and their crc32 (4). Integers are
//! big-endian. The first part lies in one sector, so no crash can tear it; a torn second part is
//! rebuilt from the log.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leftfold_events::event::{
    Compaction, Cost, EndReason, Model, PromptKind, PromptPart, Session, Turn,
};
use leftfold_events::{Envelope, Event, Seq, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::error::Damage;
use crate::fault;
use crate::record::{self, Link};

pub(crate) const FOLDER: &str = "heads";

/// The version of the layout. Logs of schema 1 have heads of version 1, later logs of version 2.
const VERSION: u8 = 2;
const FIXED: usize = 55;
/// The length to which a summary cuts texts, in characters.
const MAX_TEXT: usize = 120;

/// The length to which it cuts the session's summary.
const MAX_SUMMARY: usize = 700;

/// The end of a log when its last append was acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub session: SessionId,
    pub seq: Seq,
    /// Link of the checksum chain at `seq`.
    pub chain: Link,
    /// Time of the event at `seq`.
    pub at: Time,
    /// `None` if a crash tore it. The caller can then fold it from the events.
    pub summary: Option<Summary>,
}

/// The data for lists of sessions, so that a list opens no log. It is derived from the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub created: Time,
    pub directory: String,
    pub worktree: String,
    pub parent: Option<SessionId>,
    /// The session that this one was forked from.
    pub fork_of: Option<SessionId>,
    /// For a fork: its number among the forks of the same original session, from 1.
    pub fork_number: u32,
    /// Whether a fork has got a title of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_retitled: bool,
    pub agent: String,
    pub title: Option<String>,
    /// A model's summary of the session; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Beginning of the first prompt's text.
    pub prompt: Option<String>,
    pub turns: u32,
    /// Cost of the session's own requests, in US dollars.
    pub cost: Cost,
    /// How the last turn ended, in a fork also a shared one; `None` while a turn is open.
    pub ended: Option<EndReason>,
}

impl Summary {
    /// Updates the summary with one more event.
    pub fn add(&mut self, envelope: &Envelope) {
        if self.created == Time::default() {
            self.created = envelope.at;
        }
        if let Some(ended) = turn_boundary(&envelope.event) {
            self.ended = ended;
        }
        if let Event::Session(event) = &envelope.event {
            self.add_session(event);
        } else if let Event::Turn(Turn::Prompted { parts, agent, .. }) = &envelope.event {
            self.agent.clone_from(agent);
            self.prompt = self.prompt.take().or_else(|| first_text(parts));
        } else if let Event::Turn(Turn::Switched { agent, .. }) = &envelope.event {
            self.agent.clone_from(agent);
        } else if let Event::Turn(Turn::Ended(_)) = &envelope.event {
            self.turns = self.turns.saturating_add(1);
        } else if let Event::Model(Model::Finished { cost, .. }) = &envelope.event {
            self.cost += cost;
        }
    }

    fn add_session(&mut self, event: &Session) {
        match event {
            Session::Created { directory, worktree, parent, agent, .. } => {
                self.directory.clone_from(directory);
                self.worktree.clone_from(worktree);
                self.parent = *parent;
                self.agent.clone_from(agent);
            }
            Session::Titled { title } => {
                self.title = Some(start_of(title));
                self.is_retitled = self.fork_of.is_some();
            }
            Session::Summarised { summary } => {
                self.summary = Some(summary.chars().take(MAX_SUMMARY).collect());
            }
            Session::Forked { from, .. } => (self.fork_of, self.parent) = (Some(*from), None),
            Session::Adopted { parent } => self.parent = Some(*parent),
            Session::Resumed { .. }
            | Session::ResumedImported { .. }
            | Session::DeadlinePassed {}
            | Session::Imported { .. }
            | Session::Configured { .. }
            | Session::RulesSet { .. } => {}
        }
    }
}

/// How a turn ends with this event; `Some(None)`: with this event a turn is open.
pub(crate) fn turn_boundary(event: &Event) -> Option<Option<EndReason>> {
    if let Event::Turn(Turn::Ended(ended)) = event {
        Some(Some(ended.reason))
    } else if let Event::Turn(Turn::Prompted { .. })
    | Event::Compaction(Compaction::Asked { .. } | Compaction::AskedWith { .. }) = event
    {
        Some(None)
    } else {
        None
    }
}

/// The number of the next fork of `of`: forks of forks count as forks of the original session.
pub(crate) fn next_fork(dir: &Path, of: SessionId) -> u32 {
    let heads = heads(dir);
    let fork_of = |session| {
        let head = heads.iter().find(|head| head.session == session)?;
        head.summary.as_ref()?.fork_of
    };
    // a cycle of forks exists only in a damaged store
    let original = |session: SessionId| {
        let line = std::iter::successors(Some(session), |session| fork_of(*session));
        line.take(heads.len() + 1).last().unwrap_or(session)
    };
    let family = original(of);
    let forks = heads.iter().filter(|head| original(head.session) == family);
    let numbers = forks.filter_map(|head| Some(head.summary.as_ref()?.fork_number));
    numbers.max().unwrap_or_default().saturating_add(1)
}

fn first_text(parts: &[PromptPart]) -> Option<String> {
    parts.iter().find(|part| part.kind == PromptKind::Text).map(|part| start_of(&part.text))
}

fn start_of(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

pub(crate) fn path(dir: &Path, session: SessionId) -> PathBuf {
    dir.join(FOLDER).join(session.to_string())
}

pub(crate) fn open(dir: &Path, session: SessionId) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path(dir, session))
}

/// Overwrites the head in place.
pub(crate) fn write(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)
}

pub(crate) fn encode(head: &Head) -> Vec<u8> {
    // plain data: serialising it to memory cannot fail
    let summary = serde_json::to_vec(&head.summary).unwrap_or_default();
    // only paths can be long; a summary that is too long is left out
    let length = u16::try_from(summary.len()).unwrap_or(0);
    let summary = if length == 0 { &[] } else { summary.as_slice() };
    let mut bytes = Vec::with_capacity(FIXED + summary.len() + 4);
    bytes.push(VERSION.min(fault::label()));
    bytes.extend(head.session.to_bytes());
    bytes.extend(head.seq.to_be_bytes());
    bytes.extend(head.chain);
    bytes.extend(head.at.millis().to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend(summary);
    bytes.extend(crc32fast::hash(summary).to_be_bytes());
    bytes
}

/// `Ok(None)`: the file is empty. A crash can leave a new file so.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Head>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
        return Err(format!("the head has {} of its {FIXED} bytes", bytes.len()));
    };
    if fixed[0] > VERSION {
        return Err(format!("head version {} is newer: use a newer leftfold", fixed[0]));
    }
    if fixed[0] == 0 || crc32fast::hash(&fixed[..51]).to_be_bytes() != fixed[51..] {
        return Err("the head's checksum does not match".into());
    }
    if fixed[0] < VERSION {
        return Err(record::other_schema(fixed[0]));
    }
    let mut fields = Fields(&fixed[1..]);
    let head = Head {
        session: SessionId::from_bytes(fields.take()),
        seq: Seq::from_be_bytes(fields.take()),
        chain: fields.take(),
        at: Time::from_millis(u64::from_be_bytes(fields.take())),
        summary: None,
    };
    let length = usize::from(u16::from_be_bytes(fields.take()));
    Ok(Some(Head { summary: summary(rest, length), ..head }))
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next field. Past the end of the input its bytes are zero.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        field.try_into().unwrap_or([0; N])
    }
}

fn summary(rest: &[u8], length: usize) -> Option<Summary> {
    let (json, crc) = (rest.get(..length)?, rest.get(length..length + 4)?);
    (crc32fast::hash(json).to_be_bytes() == crc).then_some(())?;
    serde_json::from_slice(json).ok()?
}

/// Reads the head of one session. A file that holds the head of another session is damage.
pub(crate) fn read(dir: &Path, session: SessionId) -> Result<Option<Head>, Damage> {
    let name = session.to_string();
    let damage = |what: String| Damage::head(Some(session), &name, what);
    let bytes = match fs::read(path(dir, session)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(damage(format!("cannot be read: {e}"))),
    };
    let cut = (bytes.len() < FIXED).then_some(bytes.len() as u64);
    match decode(&bytes).map_err(|what| Damage { offset: cut, ..damage(what) })? {
        Some(head) if head.session != session => {
            Err(Damage::head(Some(session), &name, format!("it is the head of {}", head.session)))
        }
        head => Ok(head),
    }
}

/// All heads of a store, sorted by session, and the damage of those that cannot be read.
pub(crate) fn read_all(dir: &Path) -> (Vec<Head>, Vec<Damage>) {
    let (mut heads, mut damage) = (Vec::new(), Vec::new());
    let Ok(entries) = fs::read_dir(dir.join(FOLDER)) else { return (heads, damage) };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.parse::<SessionId>() {
            Ok(session) => match read(dir, session) {
                Ok(head) => heads.extend(head),
                Err(wrong) => damage.push(wrong),
            },
            Err(not) => damage.push(Damage::head(None, &name, not.to_string())),
        }
    }
    heads.sort_by_key(|head| head.session);
    damage.sort_by(|a, b| a.file.cmp(&b.file));
    (heads, damage)
}

/// The heads of a store that this process holds, as its writer has written them. They are read from
/// the files when somebody asks for the first time.
#[derive(Debug, Default)]
pub(crate) struct HeldHeads(Mutex<Option<BTreeMap<SessionId, Head>>>);

impl HeldHeads {
    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<SessionId, Head>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self, dir: &Path) -> Vec<Head> {
        let mut held = self.lock();
        let read = || heads(dir).into_iter().map(|head| (head.session, head)).collect();
        held.get_or_insert_with(read).values().cloned().collect()
    }

    pub(crate) fn one(&self, dir: &Path, session: SessionId) -> Option<Head> {
        match &*self.lock() {
            Some(held) => held.get(&session).cloned(),
            None => read(dir, session).ok()?,
        }
    }

    /// Notes a head whose file was written.
    pub(crate) fn put(&self, bytes: &[u8]) {
        if let Some(held) = &mut *self.lock()
            && let Ok(Some(head)) = decode(bytes)
        {
            held.insert(head.session, head);
        }
    }

    pub(crate) fn remove(&self, sessions: &[SessionId]) {
        if let Some(held) = &mut *self.lock() {
            held.retain(|session, _| !sessions.contains(session));
        }
    }
}

/// The readable heads in a store's folder, sorted by session. It does not open the database. Empty
/// for a folder that is not a store.
///
/// A file that has not changed since this process read it is not read again, so lists of many stores are
/// cheap.
pub fn heads(dir: &Path) -> Vec<Head> {
    static READ: LazyLock<Mutex<HashMap<PathBuf, ReadHeads>>> = LazyLock::new(Mutex::default);
    let lock = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    // others do not wait while files are read
    let mut read = lock().remove(dir).unwrap_or_default();
    if !read.refresh(dir) {
        return Vec::new();
    }
    let heads = read.files.iter().filter_map(|file| file.head.clone()).collect();
    let mut all = lock();
    if all.len() >= MAX_STORES {
        all.clear();
    }
    all.insert(dir.to_owned(), read);
    heads
}

/// Stores whose heads are remembered.
const MAX_STORES: usize = 1 << 16;

/// A file that changed less than this ago, in seconds, may change again within the same tick of the file
/// system's clock.
const SETTLED: i64 = 3;

/// The heads of a store as they were read last.
#[derive(Debug, Default)]
struct ReadHeads {
    folder: Option<Stamp>,
    /// Sorted by session.
    files: Vec<ReadHead>,
}

#[derive(Debug)]
struct ReadHead {
    session: SessionId,
    path: PathBuf,
    stamp: Option<Stamp>,
    /// `None` if it cannot be read.
    head: Option<Head>,
}

impl ReadHeads {
    /// Reads what has changed. False: there is no such store.
    fn refresh(&mut self, dir: &Path) -> bool {
        let folder = dir.join(FOLDER);
        let stamp = Stamp::of(&folder);
        if stamp.is_none() || stamp != self.folder {
            let Ok(entries) = fs::read_dir(&folder) else { return false };
            let files = self.files.drain(..);
            let mut known: HashMap<_, _> = files.map(|file| (file.session, file)).collect();
            let names = entries.flatten().map(|entry| entry.file_name());
            let sessions = names.filter_map(|name| name.to_str()?.parse::<SessionId>().ok());
            self.files = sessions
                .map(|session| {
                    let path = folder.join(session.to_string());
                    let new = ReadHead { session, path, stamp: None, head: None };
                    known.remove(&session).unwrap_or(new)
                })
                .collect();
            self.files.sort_by_key(|file| file.session);
            self.folder = stamp;
        }
        for file in &mut self.files {
            // a change while it is read is newer than its stamp
            let stamp = Stamp::of(&file.path);
            if stamp.is_none() || stamp != file.stamp {
                file.head = read(dir, file.session).ok().flatten();
                file.stamp = stamp;
            }
        }
        true
    }
}

/// Tells two states of a file apart.
#[derive(Debug, PartialEq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// `None` if there is no such file, or if it changed a moment ago.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let is_settled = metadata.ctime().checked_add(SETTLED)? < i64::try_from(now).ok()?;
        is_settled.then(|| Self {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let session = SessionId::default().child(1, Time::from_millis(5));
        let summary = Summary { title: Some("A title".into()), ..Summary::default() };
        Head { session, seq: 9, chain: [3; 16], at: Time::from_millis(7), summary: Some(summary) }
    }

    #[test]
    fn round_trips_over_a_longer_one() {
        let mut bytes = encode(&head());
        bytes.extend(b"left over from a longer head");
        assert_eq!(decode(&bytes), Ok(Some(head())));
        assert_eq!(decode(&[]), Ok(None));
    }

    /// Other processes write, add and remove heads, and a listing has them all: while the files are new and are
    /// read each time, and when they have settled.
    #[test]
    fn listed_heads_are_those_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let other = Head { session: SessionId::default().child(2, Time::from_millis(9)), ..head() };
        assert_eq!(heads(dir), []);
        fs::create_dir(dir.join(FOLDER)).unwrap();
        let put = |head: &Head| fs::write(path(dir, head.session), encode(head)).unwrap();
        for pause in [0, SETTLED as u64 + 1] {
            let wait = || std::thread::sleep(std::time::Duration::from_secs(pause));
            put(&head());
            wait();
            assert_eq!(heads(dir), [head()]);
            assert_eq!(heads(dir), [head()]);
            // of the same length
            let later = Head { seq: 10, ..head() };
            put(&later);
            put(&other);
            let mut both = [later, other.clone()];
            both.sort_by_key(|head| head.session);
            assert_eq!(heads(dir), both);
            fs::write(path(dir, other.session), b"torn").unwrap();
            assert_eq!(heads(dir), [Head { seq: 10, ..head() }]);
            fs::remove_file(path(dir, other.session)).unwrap();
            fs::remove_file(path(dir, head().session)).unwrap();
            assert_eq!(heads(dir), []);
        }
        fs::remove_dir_all(dir.join(FOLDER)).unwrap();
        assert_eq!(heads(dir), []);
    }

    #[test]
    fn a_flipped_bit_is_found_or_costs_only_the_summary() {
        let good = encode(&head());
        for byte in 0..good.len() {
            let mut bytes = good.clone();
            bytes[byte] ^= 4;
            if byte < FIXED {
                assert!(decode(&bytes).is_err(), "byte {byte}");
            } else {
                assert_eq!(decode(&bytes), Ok(Some(Head { summary: None, ..head() })));
            }
        }
        for length in 1..FIXED {
            assert!(decode(&good[..length]).is_err());
        }
    }
}
