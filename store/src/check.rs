use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use leftfold_events::event::{Session, Spill, Subagent, Tool};
use leftfold_events::{Envelope, Event, Seq, SessionId, Sha256};
use serde::Serialize;

use crate::{Damage, Error, Reader};

/// The state of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Events that could be read.
    pub events: u64,
    pub damage: Vec<Damage>,
    /// Spill files that are gone or changed. They are not log: the events hold what the model saw.
    pub spills: Vec<SpillFault>,
}

/// A spill file is not what the event says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpillFault {
    pub session: SessionId,
    pub seq: Seq,
    pub path: String,
    /// `pruned` or `changed`.
    pub what: String,
}

/// Everything in the store that is not as it was written: checksums, chains, heads, order and gaps,
/// what cannot be decoded or is of a newer schema, payloads, links between parents, children and
/// forks. Works on a copy and changes nothing. Whether the events fold is not the store's to say.
///
/// A torn end that nobody was told of, a missing head and a child that was announced but not begun
/// are what a crash leaves, and no damage.
///
/// # Errors
/// [`Error::NotAStore`] or [`Error::Io`]. A database that cannot be opened is damage.
pub fn check(dir: &Path) -> Result<Report, Error> {
    match Reader::open(dir) {
        Ok(reader) => Ok(Check::new(&reader).run()),
        Err(Error::Damaged { damage, .. }) => {
            Ok(Report { damage: vec![*damage], ..Report::default() })
        }
        Err(error) => Err(error),
    }
}

struct Check<'a> {
    reader: &'a Reader,
    report: Report,
    /// Children and the parents that spawned them.
    spawned: HashSet<(SessionId, SessionId)>,
    /// Children and the parents that they name, with the seq where they do.
    parents: Vec<(SessionId, Seq, SessionId)>,
    /// First and last seq of what each session has of its own.
    spans: HashMap<SessionId, (Seq, Seq)>,
}

impl<'a> Check<'a> {
    fn new(reader: &'a Reader) -> Self {
        let report = Report { damage: reader.damage().to_vec(), ..Report::default() };
        let (spawned, parents, spans) = Default::default();
        Self { reader, report, spawned, parents, spans }
    }

    fn run(mut self) -> Report {
        let mut sessions = self.reader.sessions();
        let known: HashSet<_> = sessions.iter().copied().collect();
        // a head without any event: everything is lost
        let heads = self.reader.heads().iter().map(|head| head.session);
        sessions.extend(heads.filter(|session| !known.contains(session)));
        for session in sessions {
            for event in self.reader.walk(session) {
                match event {
                    Ok(envelope) => self.event(&envelope),
                    Err(wrong) => self.report.damage.push(wrong.into_damage()),
                }
            }
        }
        self.links();
        self.report
    }

    fn event(&mut self, envelope: &Envelope) {
        let (session, seq) = (envelope.session, envelope.seq);
        self.report.events += 1;
        self.spans.entry(session).or_insert((seq, seq)).1 = seq;
        if let Event::Session(Session::Created { parent: Some(parent), .. }) = &envelope.event {
            self.parents.push((session, seq, *parent));
        } else if let Event::Subagent(Subagent::Spawned { session: child, .. }) = &envelope.event {
            self.spawned.insert((*child, session));
        } else if let Event::Tool(Tool::Finished(finished)) = &envelope.event {
            self.report.spills.extend(finished.spill.as_ref().and_then(|spill| {
                let what = spill_fault(spill)?.to_owned();
                Some(SpillFault { session, seq, path: spill.path.clone(), what })
            }));
        }
    }

    /// A child's parent is here and says so. (Forks: their chain begins with the parent's link.)
    fn links(&mut self) {
        for (child, seq, parent) in &self.parents {
            let what = if !self.spans.contains_key(parent) {
                format!("its parent {parent} is not in the store")
            } else if !self.spawned.contains(&(*child, *parent)) {
                format!("its parent {parent} has no subagent.spawned that names it")
            } else {
                continue;
            };
            self.report.damage.push(Damage::event(*child, *seq, what));
        }
    }
}

fn spill_fault(spill: &Spill) -> Option<&'static str> {
    match fs::read(&spill.path) {
        Err(_) => Some("pruned"),
        Ok(bytes) if Sha256::of(&bytes) == spill.sha256 => None,
        Ok(_) => Some("changed"),
    }
}
