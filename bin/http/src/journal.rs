//! The order in which the feed has sent events of many sessions: the file `feed` in the store's
//! folder. Positions in it are the cursors of clients, and stay valid when the process is killed. Several servers of one
//! machine may have a database in common, and so its folder: the second one writes `feed-2`.
//!
//! The file can be deleted at any time: it says nothing that the logs do not say, and clients with a
//! cursor of another file get a snapshot.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `LFFEED02` |
//! | 8 | a random number that tells two files apart |
//! | 8 | the time from which on it knows all sessions that began, in ms since 1970 |
//! | 8 | the position of the first record |
//! | 24 each | a session (16), and a seq with the kind of the record in its two highest bits |

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leftfold_events::{Seq, SessionId, Time};

const FILE: &str = "feed";
const MAGIC: &[u8; 8] = b"LFFEED02";
const HEADER: usize = 32;
const RECORD: usize = 24;
/// Servers of one machine with one database.
const MAX_SERVERS: usize = 64;
/// With more records than these, the older half is dropped at the next opening.
const MAX: usize = 1 << 20;
/// The clocks of nodes, which give sessions their ids, differ by less than this.
pub(crate) const SKEW: Duration = Duration::from_secs(60);
const KIND: u32 = 62;
const SEQ: u64 = (1 << KIND) - 1;

/// An entry: events of a session, in the order in which the feed had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) session: SessionId,
    pub(crate) seq: Seq,
    pub(crate) kind: RecordKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// The event was sent.
    Sent,
    /// The session had all events up to this one when the feed first met it; none was sent.
    Known,
    /// The open turn was shown as cut off.
    CutOff,
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Locked, so that no other process writes the file.
    _claim: Option<File>,
    pub(crate) id: u64,
    begun: Time,
    base: u64,
    /// The position after the last record.
    end: u64,
}

/// A journal as its file has it.
#[derive(Debug)]
struct Parsed {
    id: u64,
    begun: Time,
    /// The position of the first record.
    base: u64,
    /// Without one that was cut off.
    records: Vec<Record>,
}

impl Journal {
    /// Opens the journal of a store, or begins one. `fresh` names a new one. If other nodes may use the store
    /// (`is_shared`), it is the first journal that no other process has open.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(store: &Path, is_shared: bool, fresh: u64) -> io::Result<Self> {
        let (path, claim) = match is_shared {
            true => claim(store).map(|(path, claim)| (path, Some(claim)))?,
            false => (store.join(FILE), None),
        };
        let new = || {
            let begun = Time::from(SystemTime::now() - SKEW);
            Parsed { id: fresh, begun, base: 0, records: Vec::new() }
        };
        let Parsed { id, mut begun, base, mut records } = match fs::read(&path) {
            Ok(bytes) => parse(&bytes).unwrap_or_else(new),
            Err(error) if error.kind() == io::ErrorKind::NotFound => new(),
            Err(error) => return Err(error),
        };
        let dropped = if records.len() > MAX { records.len() - MAX / 2 } else { 0 };
        if dropped > 0 {
            // those that began earlier may have been among the records
            begun = Time::from(fs::metadata(&path)?.modified()? - SKEW);
        }
        records.drain(..dropped);
        let base = base + dropped as u64;
        let new = path.with_extension("new");
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        let numbers = [id, begun.millis(), base].map(u64::to_be_bytes).concat();
        file.write_all(&[MAGIC.as_slice(), &numbers].concat())?;
        file.write_all(&records.iter().flat_map(Record::bytes).collect::<Vec<u8>>())?;
        fs::rename(&new, &path)?;
        let end = base + records.len() as u64;
        Ok(Self { path, file, _claim: claim, id, begun, base, end })
    }

    /// The position after the last record.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds records. A kill of the process loses none of them.
    pub(crate) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        self.file.write_all(&records.iter().flat_map(Record::bytes).collect::<Vec<u8>>())?;
        self.end += records.len() as u64;
        Ok(())
    }

    /// All records up to now.
    pub(crate) fn records(&self) -> Records {
        Records { journal: self.id, path: self.path.clone(), end: self.end }
    }

    /// Whether a session has begun since, so that clients know it only by records.
    pub(crate) fn has_begun(&self, session: SessionId) -> bool {
        session.created() >= self.begun
    }

    /// Whether records from this position on are still there.
    pub(crate) fn has(&self, position: u64) -> bool {
        (self.base..=self.end).contains(&position)
    }
}

/// The first journal of a folder that no other process has open, and the file that says so while it is locked.
fn claim(store: &Path) -> io::Result<(PathBuf, File)> {
    for at in 1..=MAX_SERVERS {
        let name = if at == 1 { FILE.to_owned() } else { format!("{FILE}-{at}") };
        let lock = store.join(format!("{name}.lock"));
        let lock =
            OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(lock)?;
        match lock.try_lock() {
            Ok(()) => return Ok((store.join(name), lock)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{MAX_SERVERS} other servers use {}", store.display())))
}

/// The records of a journal up to a position. They are read when they are needed.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) journal: u64,
    path: PathBuf,
    end: u64,
}

impl Records {
    /// The records with their positions.
    pub(crate) fn read(&self) -> io::Result<Vec<(u64, Record)>> {
        let Some(Parsed { base, records, .. }) = parse(&fs::read(&self.path)?) else {
            return Ok(Vec::new());
        };
        Ok((base..).zip(records).take_while(|(at, _)| *at < self.end).collect())
    }
}

impl Record {
    fn bytes(&self) -> [u8; RECORD] {
        let kind: u64 = match self.kind {
            RecordKind::Sent => 0,
            RecordKind::Known => 1,
            RecordKind::CutOff => 2,
        };
        let mut bytes = [0; RECORD];
        bytes[..16].copy_from_slice(&self.session.to_bytes());
        bytes[16..].copy_from_slice(&((kind << KIND) | (self.seq & SEQ)).to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let session = SessionId::from_bytes(bytes.get(..16)?.try_into().ok()?);
        let packed = u64::from_be_bytes(bytes.get(16..)?.try_into().ok()?);
        let kind = match packed >> KIND {
            0 => RecordKind::Sent,
            1 => RecordKind::Known,
            2 => RecordKind::CutOff,
            _ => return None,
        };
        Some(Self { session, seq: packed & SEQ, kind })
    }
}

/// The last event of each session that the records name.
pub(crate) fn last_seqs(records: &[(u64, Record)]) -> HashMap<SessionId, Seq> {
    let mut last: HashMap<SessionId, Seq> = HashMap::new();
    for (_, record) in records {
        let seq = last.entry(record.session).or_default();
        *seq = record.seq.max(*seq);
    }
    last
}

fn parse(bytes: &[u8]) -> Option<Parsed> {
    let (header, records) = bytes.split_at_checked(HEADER)?;
    let numbers = header.strip_prefix(MAGIC)?;
    let number = |at: usize| {
        let bytes = numbers.get(8 * at..8 * at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    let records = records.chunks_exact(RECORD).map(Record::parse).collect::<Option<Vec<_>>>()?;
    let (id, begun, base) = (number(0)?, Time::from_millis(number(1)?), number(2)?);
    Some(Parsed { id, begun, base, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(session: u8, seq: Seq, kind: RecordKind) -> Record {
        Record { session: SessionId::from_bytes([session; 16]), seq, kind }
    }

    #[test]
    fn records_survive_and_a_cut_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), false, 7).unwrap();
        let records = [
            record(1, 1, RecordKind::Sent),
            record(2, 9, RecordKind::Known),
            record(1, 2, RecordKind::CutOff),
        ];
        journal.append(&records[..2]).unwrap();
        journal.append(&records[2..]).unwrap();
        let expected: Vec<(u64, Record)> = (0..).zip(records).collect();
        assert_eq!(journal.records().read().unwrap(), expected);
        let path = folder.path().join(FILE);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let again = Journal::open(folder.path(), false, 8).unwrap();
        assert_eq!((again.id, again.begun, again.end()), (7, journal.begun, 2));
        assert_eq!(again.records().read().unwrap(), expected[..2]);
        assert_eq!(last_seqs(&expected)[&SessionId::from_bytes([1; 16])], 2);
        fs::write(&path, b"something else").unwrap();
        let other = Journal::open(folder.path(), false, 9).unwrap();
        assert_eq!((other.id, other.end()), (9, 0));
    }

    #[test]
    fn two_servers_with_one_folder_have_two_journals() {
        let folder = tempfile::tempdir().unwrap();
        let open = |fresh| Journal::open(folder.path(), true, fresh).unwrap();
        let mut first = open(1);
        let mut second = open(2);
        first.append(&[record(1, 1, RecordKind::Sent)]).unwrap();
        second.append(&[record(2, 1, RecordKind::Sent)]).unwrap();
        assert_ne!(first.records().read().unwrap(), second.records().read().unwrap());
        drop(first);
        assert_eq!((open(3).id, second.id), (1, 2));
    }

    #[test]
    fn old_records_go_and_positions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path(), false, 7).unwrap();
        let many: Vec<Record> =
            (0..MAX as u64 + 1).map(|seq| record(1, seq, RecordKind::Sent)).collect();
        journal.append(&many).unwrap();
        let again = Journal::open(folder.path(), false, 8).unwrap();
        assert_eq!(again.end(), MAX as u64 + 1);
        let first = again.records().read().unwrap()[0];
        assert_eq!(first.0, first.1.seq);
        assert!(!again.has(first.0 - 1) && again.has(first.0) && again.has(again.end()));
    }
}
