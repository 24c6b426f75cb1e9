//! Promise 9: every wait of a simulated session has a deadline in the log and names the party that
//! ends it, and that party or the deadline does end it.

use std::collections::BTreeMap;

use leftfold_events::event::{Event, Session, Tool};
use leftfold_events::state::{EndedBy, OpenWait, PendingKind};
use leftfold_events::{Envelope, Fact, Seq, State, Time};

/// No wait lasts longer, in milliseconds.
const LONGEST: u64 = 24 * 3_600 * 1_000;

/// The waits of a session or of several, by kind and by what has ended them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waits {
    open: Vec<OpenWait>,
    /// The deadlines in the log, by intent.
    logged: BTreeMap<Seq, Time>,
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) by_outcome: u64,
    pub(crate) by_deadline: u64,
    /// The turn, the call or the node that waited is over.
    pub(crate) otherwise: u64,
    pub(crate) without_deadline: Vec<String>,
    pub(crate) without_name: Vec<String>,
    /// Waits that another party has ended than the one they name.
    pub(crate) misnamed: Vec<String>,
}

impl Waits {
    /// A fact was settled, which gave `events`.
    pub(crate) fn follow(&mut self, state: &State, fact: &Fact, events: &[Envelope]) {
        for event in events {
            match event.until {
                Some(until) => self.logged.insert(event.seq, until),
                None => self.logged.remove(&event.seq),
            };
        }
        let open = state.waits();
        let before = std::mem::take(&mut self.open);
        for wait in open.iter().filter(|wait| !before.iter().any(|known| is_same(known, wait))) {
            self.begin(wait);
        }
        for wait in before.iter().filter(|wait| !open.iter().any(|known| is_same(known, wait))) {
            self.end(wait, fact);
        }
        self.open = open;
    }

    /// The node has died. Waits of events that were not durable are gone, and waits that such events
    /// had ended are open again.
    pub(crate) fn crashed(&mut self, state: &State, log: &[Envelope]) {
        let durable = log.iter().filter_map(|event| Some((event.seq, event.until?)));
        self.logged = durable.collect();
        let open = state.waits();
        let before = std::mem::take(&mut self.open);
        for wait in open.iter().filter(|wait| !before.iter().any(|known| is_same(known, wait))) {
            self.begin(wait);
        }
        let gone = |wait: &&OpenWait| !open.iter().any(|known| is_same(known, wait));
        self.otherwise += before.iter().filter(gone).count() as u64;
        self.open = open;
    }

    fn begin(&mut self, wait: &OpenWait) {
        *self.kinds.entry(name(wait)).or_default() += 1;
        let until = &wait.wait.until;
        let logged = match wait.kind {
            // it is in the configuration
            None => true,
            // each piece of the reply extends it, and each question of a tool to people; a crash can open it again after some
            Some(PendingKind::Request | PendingKind::Tool) => {
                self.logged.get(&wait.wait.intent).is_some_and(|known| known <= until)
            }
            // that of its last request, which its pieces extend as well
            Some(PendingKind::Compaction) => {
                self.logged.range(wait.wait.intent..).any(|(_, known)| known <= until)
            }
            Some(_) => self.logged.get(&wait.wait.intent) == Some(until),
        };
        let (since, until) = (wait.wait.since.millis(), wait.wait.until.millis());
        if !logged || until < since || until > since + LONGEST {
            self.without_deadline
                .push(format!("{wait:?}, logged {:?}", self.logged.get(&wait.wait.intent)));
        }
        if wait.ended_by.is_none() {
            self.without_name.push(format!("{wait:?}"));
        }
    }

    fn end(&mut self, wait: &OpenWait, fact: &Fact) {
        if fact.of != Some(wait.wait.intent) {
            self.otherwise += 1;
        } else if matches!(fact.event, Event::Session(Session::DeadlinePassed {})) {
            self.by_deadline += 1;
        } else {
            self.by_outcome += 1;
            if !wait.ended_by.as_ref().is_some_and(|by| may_end(by, &fact.event)) {
                self.misnamed.push(format!("{wait:?} by {fact:?}"));
            }
        }
    }

    /// Names the world of each violation, so that it can be run again.
    pub(crate) fn in_world(mut self, seed: u64) -> Self {
        let violations = [&mut self.without_deadline, &mut self.without_name, &mut self.misnamed];
        for violation in violations.into_iter().flatten() {
            *violation = format!("LEFTFOLD_SEED={seed} LEFTFOLD_SEEDS=1: {violation}");
        }
        self
    }

    /// Adds the waits of another session.
    pub(crate) fn add(&mut self, other: &Self) {
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        self.by_outcome += other.by_outcome;
        self.by_deadline += other.by_deadline;
        self.otherwise += other.otherwise;
        self.without_deadline.extend(other.without_deadline.iter().cloned());
        self.without_name.extend(other.without_name.iter().cloned());
        self.misnamed.extend(other.misnamed.iter().cloned());
    }
}

fn is_same(a: &OpenWait, b: &OpenWait) -> bool {
    (a.kind, a.wait.intent) == (b.kind, b.wait.intent)
}

fn name(wait: &OpenWait) -> String {
    let kind = wait.kind.map(|kind| format!("{kind:?}").to_lowercase());
    kind.unwrap_or_else(|| "turn".to_owned())
}

/// Whether an outcome comes from this party.
fn may_end(by: &EndedBy, event: &Event) -> bool {
    match by {
        EndedBy::Model(_) => matches!(event, Event::Model(_)),
        EndedBy::Tool => matches!(event, Event::Tool(_)),
        EndedBy::Person => {
            matches!(event, Event::Permission(_) | Event::Tool(Tool::ElicitationAnswered { .. }))
        }
        EndedBy::Plugin(_) => matches!(event, Event::Hook(_)),
        EndedBy::Session(_) => matches!(event, Event::Subagent(_)),
        EndedBy::Summary => matches!(event, Event::Compaction(_)),
        EndedBy::Snapshots => matches!(event, Event::Files(_)),
        EndedBy::Clock => false,
    }
}
