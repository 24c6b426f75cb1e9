use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use leftfold_events::event::{EndReason, Session, Spill, Subagent, Tool};
use leftfold_events::{Envelope, Event, Seq, SessionId, Sha256};
use serde::Serialize;

use crate::error::{Damage, Error};
use crate::files;
use crate::reader::Reader;
use crate::sled_engine::frames;

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The number of events that could be read.
    pub events: u64,
    pub damage: Vec<Damage>,
    /// Spill files and recorded exchanges that are gone or changed. They are not part of the log: the events hold the text
    /// that the model saw.
    pub spills: Vec<SpillFault>,
}

/// A spill file or a recorded exchange that differs from the one its event describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpillFault {
    pub session: SessionId,
    pub seq: Seq,
    pub path: String,
    /// `pruned` or `changed`.
    pub what: String,
    /// Whether it is a recorded exchange.
    pub is_record: bool,
}

/// Finds everything in the store that is not as it was written: checksums, chains, heads, order and
/// gaps, events that cannot be decoded or have a newer schema, payloads, and links between parents,
/// children and forks. It works on a copy and changes nothing. It does not fold the events.
///
/// A crash can leave a torn end that was never acknowledged, a missing head, and a child that was
/// announced but never begun. None of these is damage.
///
/// # Errors
/// [`Error::NotAStore`] or [`Error::Io`]. A database that cannot be opened is damage, not an error.
pub fn check(dir: &Path) -> Result<Report, Error> {
    run(dir, None)
}

/// As [`check`], but only of one session and its descendants: a database keeps the sessions of many people.
///
/// # Errors
/// As for [`check`].
pub fn check_tree(dir: &Path, root: SessionId) -> Result<Report, Error> {
    run(dir, Some(root))
}

fn run(dir: &Path, root: Option<SessionId>) -> Result<Report, Error> {
    match Reader::open(dir) {
        Ok(reader) => {
            let mut check = Check::new(&reader);
            match root {
                Some(root) => check.tree(root),
                None => check.all()?,
            }
            let report = check.run();
            match report.damage.iter().find(|damage| damage.is_away) {
                Some(away) => Err(Error::damaged(dir, away.clone())),
                None => Ok(report),
            }
        }
        Err(Error::Damaged { damage, .. }) => {
            let mut damage = vec![*damage];
            damage.extend(places(dir, &damage));
            Ok(Report { damage, ..Report::default() })
        }
        Err(error) => Err(error),
    }
}

/// The places in `db` that sled did not write as they are, if `damage` shows that something is
/// wrong. A tear that costs no event is not damage.
fn places(dir: &Path, damage: &[Damage]) -> Vec<Damage> {
    if !damage.iter().any(|damage| *damage.file == *"db" && damage.offset.is_none()) {
        return Vec::new();
    }
    let Ok(inspection) = File::open(dir.join("db")).and_then(|db| frames::inspect(&db)) else {
        return Vec::new();
    };
    let place = |offset, what| Damage { offset: Some(offset), ..Damage::db(what) };
    let torn = |tear: &frames::Tear| {
        place(tear.at, format!("the bytes up to {} are not as they were written", tear.until))
    };
    let mut places: Vec<_> = inspection.tears.iter().map(torn).collect();
    if inspection.cut {
        places.push(place(inspection.end, "nothing from here on can be read".into()));
    }
    places
}

struct Check<'a> {
    reader: &'a Reader,
    report: Report,
    /// Only this session and its descendants are read.
    root: Option<SessionId>,
    /// The sessions that have a head.
    heads: HashSet<SessionId>,
    /// Children and the parents that spawned them.
    spawned: HashSet<(SessionId, SessionId)>,
    /// Children that have completed, their parents, and the seqs of the parents' events that say
    /// so.
    ended: Vec<(SessionId, SessionId, Seq)>,
    /// Children, the parents that they name, and the seqs at which they name them.
    parents: Vec<(SessionId, Seq, SessionId)>,
    /// First and last seq of each session's own events.
    spans: HashMap<SessionId, (Seq, Seq)>,
}

impl<'a> Check<'a> {
    fn new(reader: &'a Reader) -> Self {
        let (report, root, heads, spawned, ended, parents, spans) = Default::default();
        Self { reader, report, root, heads, spawned, ended, parents, spans }
    }

    /// Reads all sessions, and looks for damage that belongs to none.
    fn all(&mut self) -> Result<(), Error> {
        self.report.damage = self.reader.engine().damage();
        self.heads = self.reader.heads()?.into_iter().map(|head| head.session).collect();
        let mut sessions = self.reader.sessions()?;
        let known: HashSet<_> = sessions.iter().copied().collect();
        // a head without any event: the whole log is lost
        sessions.extend(self.heads.iter().filter(|session| !known.contains(session)));
        sessions.into_iter().for_each(|session| self.session(session));
        Ok(())
    }

    fn tree(&mut self, root: SessionId) {
        self.root = Some(root);
        let (mut next, mut known) = (vec![root], HashSet::new());
        while let Some(session) = next.pop() {
            if !known.insert(session) {
                continue;
            }
            match self.reader.engine().head(session) {
                Ok(head) => self.heads.extend(head.map(|head| head.session)),
                Err(damage) => self.report.damage.push(damage),
            }
            self.session(session);
            let children = self.spawned.iter().filter(|(_, parent)| *parent == session);
            next.extend(children.map(|(child, _)| *child));
        }
    }

    fn session(&mut self, session: SessionId) {
        for event in self.reader.walk(session) {
            match event {
                Ok(envelope) => self.event(&envelope),
                Err(wrong) => self.report.damage.push(wrong.into_damage()),
            }
        }
    }

    fn run(mut self) -> Report {
        self.links();
        self.places();
        self.report
    }

    /// Adds the places of damage that sled reports without a place.
    fn places(&mut self) {
        self.report.damage.extend(places(self.reader.dir(), &self.report.damage));
    }

    fn event(&mut self, envelope: &Envelope) {
        let (session, seq) = (envelope.session, envelope.seq);
        self.report.events += 1;
        self.spans.entry(session).or_insert((seq, seq)).1 = seq;
        if let Event::Session(
            Session::Created { parent: Some(parent), .. } | Session::Adopted { parent },
        ) = &envelope.event
        {
            self.parents.push((session, seq, *parent));
        } else if let Some(child) = envelope.spawned() {
            self.spawned.insert((child, session));
        } else if let Some(child) = ended(&envelope.event) {
            self.ended.push((child, session, seq));
        } else if let Event::Model(_) = &envelope.event {
            self.report.spills.extend(record_fault(self.reader.dir(), envelope));
        } else if let Event::Tool(Tool::Finished(finished)) = &envelope.event {
            self.report.spills.extend(finished.spill.as_ref().and_then(|spill| {
                let what = full_text(self.reader.dir(), spill).err()?.to_owned();
                Some(SpillFault { session, seq, path: spill.path.clone(), what, is_record: false })
            }));
        }
    }

    /// Checks that each child's parent is in the store and names the child. Forks need no check
    /// here: their chain begins with the parent's link.
    fn links(&mut self) {
        for (child, seq, parent) in &self.parents {
            // the parent of the session that was asked for is not read
            if self.root == Some(*child) {
                continue;
            }
            let what = if !self.spans.contains_key(parent) {
                format!("its parent {parent} is not in the store")
            } else if !self.spawned.contains(&(*child, *parent)) {
                format!("its parent {parent} has no subagent.spawned that names it")
            } else {
                continue;
            };
            self.report.damage.push(Damage::event(*child, *seq, what));
        }
        for (child, parent, seq) in &self.ended {
            // a child that has a head is already reported as missing
            let missed = self.heads.contains(child);
            if !self.spans.contains_key(child) && !missed {
                let what = format!("its child {child} has completed and is not in the store");
                self.report.damage.push(Damage::event(*parent, *seq, what));
            }
        }
    }
}

/// The child whose end this event reports. A child that has ended must have a log.
fn ended(event: &Event) -> Option<SessionId> {
    let Event::Subagent(Subagent::Ended { session, reason, .. }) = event else { return None };
    (*reason == EndReason::Completed).then_some(*session)
}

/// The fault of a recorded exchange. Records are kept for some days, like spill files.
fn record_fault(dir: &Path, outcome: &Envelope) -> Option<SpillFault> {
    let record = outcome.notes.exchange.as_ref()?.record.as_ref()?;
    let path = files::wire_record(dir, outcome.session, outcome.of?);
    let what = match fs::read(&path) {
        Err(_) => "pruned",
        Ok(bytes) if Sha256::digest(&bytes) == record.sha256 => return None,
        Ok(_) => "changed",
    };
    let (session, seq) = (outcome.session, outcome.seq);
    let path = path.to_string_lossy().into_owned();
    Some(SpillFault { session, seq, path, what: what.to_owned(), is_record: true })
}

/// The full text of an output of a session in the store `dir`, as it was written.
///
/// # Errors
/// It is `pruned` or `changed`.
pub fn full_text(dir: &Path, spill: &Spill) -> Result<Vec<u8>, &'static str> {
    // only the name counts: the folder may have been moved
    let here = Path::new(&spill.path).file_name().map(|name| dir.join(files::SPILLS).join(name));
    let path = here.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(&spill.path));
    let found = fs::metadata(&path).map_err(|_| "pruned")?;
    // an imported event may name a device
    if !found.is_file() || found.len() != spill.bytes {
        return Err("changed");
    }
    let bytes = fs::read(path).map_err(|_| "pruned")?;
    if Sha256::digest(&bytes) == spill.sha256 { Ok(bytes) } else { Err("changed") }
}
