//! The note about imported logs: the file `imported` in a store's folder, or rows of the database that keeps
//! the store. It is outside the logs, because a log that somebody else wrote can claim anything about itself.
//!
//! The note has one JSON line for each imported session: its last imported event, and the schema and
//! the SHA-256 of that event as it is stored. If the note cannot be read, or that event is another one, the
//! whole log counts as imported.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use leftfold_events::{Envelope, Seq, SessionId, Sha256};
use serde::{Deserialize, Serialize};

use crate::codec::encode_as;
use crate::database;
use crate::error::Error;
use crate::{durable, fault};

pub(crate) const FILE: &str = "imported";

#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    session: SessionId,
    through: Seq,
    sha256: Sha256,
    #[serde(default = "schema_2", skip_serializing_if = "is_schema_2")]
    schema: u8,
    /// The steps whose snapshots came with the log, and show the changes that it claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<Seq>,
}

/// Notes from before schema 3 name no schema.
fn schema_2() -> u8 {
    2
}

fn is_schema_2(schema: &u8) -> bool {
    *schema == schema_2()
}

/// The notes that these logs are imported, each as a whole, and which steps of the first one have snapshots
/// that were checked.
///
/// # Errors
/// [`Error::Unstorable`] if an event is too large.
pub(crate) fn notes<'a>(
    logs: impl IntoIterator<Item = (SessionId, &'a [Envelope])>,
    mut accepted: Vec<Seq>,
) -> Result<Vec<(SessionId, String)>, Error> {
    let mut notes = Vec::new();
    for (session, events) in logs {
        let Some(last) = events.last() else { continue };
        let unstorable = |why| Error::Unstorable { session, seq: last.seq, why };
        let schema = fault::schema();
        let sha256 = hash(schema, last).map_err(unstorable)?;
        let accepted = std::mem::take(&mut accepted);
        let noted = Noted { session, through: last.seq, sha256, schema, accepted };
        notes.push((session, noted.line()));
    }
    Ok(notes)
}

/// Writes the notes of these sessions into the store's folder. What the file has about others stays.
///
/// # Errors
/// [`Error::Io`]
pub(crate) fn write_file(dir: &Path, notes: &[(SessionId, String)]) -> Result<(), Error> {
    let failed = |e| Error::io("cannot write the note in", dir, e);
    let mut lines = Vec::new();
    for line in read_file(dir).map_err(failed)?.split_inclusive(|byte| *byte == b'\n') {
        let of = serde_json::from_slice::<Noted>(line).map(|noted| noted.session);
        if !of.is_ok_and(|of| notes.iter().any(|(session, _)| *session == of)) {
            lines.extend_from_slice(line);
        }
    }
    for (_, line) in notes {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }
    write(dir, &lines).map_err(failed)
}

/// The notes in the store's folder. None: it has no such file.
pub(crate) fn read_file(dir: &Path) -> io::Result<Vec<u8>> {
    match fs::read(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Ok(note) if note.is_empty() => Err(io::Error::other("it is empty")),
        note => note,
    }
}

/// Copies the note of a store to a new store in `to`, as it is.
pub(crate) fn copy(dir: &Path, to: &Path) -> Result<(), Error> {
    let note = match fs::read(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // a note without a readable line makes every log count as imported
        note => note.unwrap_or_else(|_| b"?\n".to_vec()),
    };
    write(to, &note).map_err(|e| Error::io("cannot write the note in", to, e))
}

fn write(dir: &Path, note: &[u8]) -> io::Result<()> {
    let path = dir.join(FILE);
    let mut file = fs::File::create(&path)?;
    file.write_all(note)?;
    durable::contents(&file, &path)?;
    durable::folder(dir)
}

/// The last imported event in a log of the store in `dir`, with its shared events if it is a fork.
/// 0: none is.
///
/// # Errors
/// The database of the store is away.
pub fn imported(dir: &Path, log: &[Envelope]) -> Result<Seq, Error> {
    Ok(match Imports::for_store(dir)?.0 {
        Some(noted) => noted.iter().map(|noted| noted.reaches(log)).max().unwrap_or_default(),
        None => log.last().map_or(0, |event| event.seq),
    })
}

/// The steps of the imported part of a log whose changes count, because the import has compared them
/// with the snapshots that came with it.
///
/// # Errors
/// The database of the store is away.
pub fn accepted_steps(dir: &Path, log: &[Envelope]) -> Result<BTreeSet<Seq>, Error> {
    let imports = Imports::for_store(dir)?.0.unwrap_or_default();
    let of_log = imports.iter().filter(|noted| noted.fits(log));
    Ok(of_log.flat_map(|noted| noted.accepted.iter().copied()).collect())
}

/// The imported logs of a store. `None`: its note cannot be read.
#[derive(Debug)]
pub struct Imports(Option<Vec<Noted>>);

impl Imports {
    /// # Errors
    /// The database of the store is away.
    pub fn for_store(dir: &Path) -> Result<Self, Error> {
        let notes = match database::reader(dir)? {
            Some(engine) => Ok(engine.import_notes().map_err(|fault| fault.into_error(dir))?),
            None => read_file(dir).map_err(|error| error.to_string()),
        };
        let noted = notes.and_then(|notes| read(&notes).map_err(|error| error.to_string()));
        let warn = |error: &String| {
            let file = dir.join(FILE);
            tracing::warn!("{}: {error}: its sessions count as imported", file.display());
        };
        Ok(Self(noted.inspect_err(warn).ok()))
    }

    /// The notes of these sessions. If the note cannot be read, they are notes that nothing fits, so the
    /// sessions count as imported.
    pub(crate) fn lines(&self, sessions: &[SessionId]) -> Vec<(SessionId, String)> {
        match &self.0 {
            Some(noted) => {
                let of = noted.iter().filter(|noted| sessions.contains(&noted.session));
                of.map(|noted| (noted.session, noted.line())).collect()
            }
            None => {
                let nothing = |session: SessionId| Noted {
                    session,
                    through: Seq::MAX,
                    sha256: Sha256::default(),
                    schema: fault::schema(),
                    accepted: Vec::new(),
                };
                sessions.iter().map(|session| (*session, nothing(*session).line())).collect()
            }
        }
    }

    /// Whether the note covers the event. Unlike [`imported`], this does not compare the log with the
    /// note.
    pub fn covers(&self, event: &Envelope) -> bool {
        let is_noted = |noted: &Noted| noted.session == event.session && noted.through >= event.seq;
        self.0.as_ref().is_none_or(|noted| noted.iter().any(is_noted))
    }
}

fn read(note: &[u8]) -> serde_json::Result<Vec<Noted>> {
    let lines = note.strip_suffix(b"\n").unwrap_or(note);
    if lines.is_empty() && note.is_empty() {
        return Ok(Vec::new());
    }
    lines.split(|byte| *byte == b'\n').map(serde_json::from_slice).collect()
}

impl Noted {
    fn line(&self) -> String {
        // plain data: serialising it cannot fail
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The last event of the log that this note covers.
    fn reaches(&self, log: &[Envelope]) -> Seq {
        let last = self.own(log).next_back().map_or(0, |event| event.seq);
        match self.last(log) {
            Some(event) if self.is_of(event) => self.through,
            // the log is not the one that was imported, or ends earlier, as in a fork
            Some(_) | None => last,
        }
    }

    /// Whether the log is the one that was imported, or a part of it.
    fn fits(&self, log: &[Envelope]) -> bool {
        self.own(log).next().is_some() && self.last(log).is_none_or(|event| self.is_of(event))
    }

    fn own<'a>(&self, log: &'a [Envelope]) -> impl DoubleEndedIterator<Item = &'a Envelope> {
        log.iter().filter(|event| event.session == self.session)
    }

    fn last<'a>(&self, log: &'a [Envelope]) -> Option<&'a Envelope> {
        self.own(log).find(|event| event.seq == self.through)
    }

    fn is_of(&self, event: &Envelope) -> bool {
        hash(self.schema, event).as_ref() == Ok(&self.sha256)
    }
}

fn hash(schema: u8, event: &Envelope) -> Result<Sha256, String> {
    Ok(Sha256::digest(&encode_as(schema, event)?))
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::Session;
    use leftfold_events::{Event, Notes, Time};

    use super::*;

    fn log(session: SessionId, first: Seq, last: Seq) -> Vec<Envelope> {
        let event = |seq| Envelope {
            session,
            seq,
            at: Time::from_millis(seq),
            of: None,
            until: None,
            event: Event::from(Session::Titled { title: seq.to_string() }),
            notes: Notes::default(),
        };
        (first..=last).map(event).collect()
    }

    #[test]
    fn a_log_is_imported_up_to_the_noted_event() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (one, fork, other) = (id(1), id(2), id(3));
        assert_eq!(imported(dir, &log(one, 1, 9)).unwrap(), 0);
        note(dir, one, &log(one, 1, 5), vec![3]);
        let forked = |at: Seq| [log(one, 1, at), log(fork, at + 1, at + 3)].concat();
        let mut changed = log(one, 1, 9);
        changed[4].at = Time::from_millis(77);
        for (log, expected) in [
            (log(one, 1, 5), 5),
            (log(one, 1, 9), 5),
            // the end of the imported log is lost
            (log(one, 1, 4), 4),
            (log(other, 1, 9), 0),
            (forked(3), 3),
            (forked(5), 5),
            (forked(7), 5),
            (changed, 9),
            (Vec::new(), 0),
        ] {
            assert_eq!(imported(dir, &log).unwrap(), expected, "{log:?}");
            let accepted = accepted_steps(dir, &log).unwrap();
            let accepted = accepted.into_iter().collect::<Vec<_>>();
            let is_known = expected > 0 && log.iter().all(|event| event.at.millis() != 77);
            assert_eq!(accepted, if is_known { vec![3] } else { Vec::new() }, "{log:?}");
        }
    }

    #[test]
    fn everything_counts_as_imported_without_a_readable_note() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(&to).unwrap();
        copy(&dir, &to).unwrap();
        assert_eq!(imported(&to, &log(id(1), 1, 9)).unwrap(), 0);
        for note in ["", "{}\n", "\n", "nonsense"] {
            fs::write(dir.join(FILE), note).unwrap();
            copy(&dir, &to).unwrap();
            for store in [&dir, &to] {
                assert_eq!(imported(store, &log(id(1), 1, 9)).unwrap(), 9, "{note:?}");
            }
        }
        fs::remove_file(dir.join(FILE)).unwrap();
        fs::create_dir(dir.join(FILE)).unwrap();
        copy(&dir, &to).unwrap();
        assert_eq!(imported(&to, &log(id(1), 1, 9)).unwrap(), 9);
        assert!(Imports::for_store(&to).unwrap().covers(&log(id(1), 1, 1)[0]));
    }

    #[test]
    fn a_note_from_before_schema_3_counts_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let events = log(id(1), 1, 5);
        let noted = |schema, hashed| Noted {
            session: id(1),
            through: 5,
            sha256: hash(hashed, &events[4]).unwrap(),
            schema,
            accepted: Vec::new(),
        };
        let line = serde_json::to_string(&noted(2, 2)).unwrap();
        assert!(!line.contains("schema"), "{line}");
        fs::write(dir.path().join(FILE), line + "\n").unwrap();
        assert_eq!(imported(dir.path(), &log(id(1), 1, 9)).unwrap(), 5);
        // the hash of another schema, and a schema that this version does not write
        for noted in [noted(2, 3), noted(3, 2), noted(9, 3)] {
            let line = serde_json::to_string(&noted).unwrap();
            fs::write(dir.path().join(FILE), line + "\n").unwrap();
            assert_eq!(imported(dir.path(), &log(id(1), 1, 9)).unwrap(), 9, "{noted:?}");
        }
    }

    #[test]
    fn the_note_covers_the_imported_events_of_its_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(!Imports::for_store(dir).unwrap().covers(&log(id(1), 1, 1)[0]));
        note(dir, id(1), &log(id(1), 1, 5), Vec::new());
        let imports = Imports::for_store(dir).unwrap();
        for (session, seq, covered) in [(1, 5, true), (1, 6, false), (2, 5, false)] {
            assert_eq!(imports.covers(&log(id(session), seq, seq)[0]), covered);
        }
    }

    #[test]
    fn a_salvaged_store_keeps_the_note() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, to) = (dir.path().join("a"), dir.path().join("b"));
        let (session, events) = (id(1), log(id(1), 1, 3));
        let store = crate::Store::open(&dir).unwrap();
        store.import(session, &events).unwrap();
        store.note_imported([(session, events.as_slice())], Vec::new()).unwrap();
        drop(store);
        crate::salvage(&dir, &to).unwrap();
        assert_eq!(imported(&to, &events).unwrap(), 3);
    }

    #[test]
    fn notes_of_other_sessions_stay_and_move_with_their_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(&dir).unwrap();
        let store = crate::Store::open(&to).unwrap();
        for n in 1..=2 {
            note(&dir, id(n), &log(id(n), 1, 5), Vec::new());
        }
        note(&dir, id(2), &log(id(2), 1, 7), Vec::new());
        let reach = |dir: &Path, n| imported(dir, &log(id(n), 1, 9)).unwrap();
        assert_eq!([reach(&dir, 1), reach(&dir, 2)], [5, 7]);
        store.copy_notes(&dir, &[id(2)]).unwrap();
        assert_eq!([reach(&to, 1), reach(&to, 2)], [0, 7]);
        // an unreadable note makes the sessions that move count as imported
        fs::write(dir.join(FILE), "nonsense").unwrap();
        store.copy_notes(&dir, &[id(1)]).unwrap();
        assert_eq!([reach(&to, 1), reach(&to, 2), reach(&to, 3)], [9, 7, 0]);
    }

    fn note(dir: &Path, session: SessionId, events: &[Envelope], accepted: Vec<Seq>) {
        write_file(dir, &notes([(session, events)], accepted).unwrap()).unwrap();
    }

    fn id(n: u64) -> SessionId {
        SessionId::default().child(n, Time::from_millis(n))
    }
}
