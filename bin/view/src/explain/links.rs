use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Seq, State, fold};

/// The events of one log, and which of them are about which other. Made once, so that explaining an
/// event does not search the log.
#[derive(Debug)]
pub struct Links<'a> {
    pub events: &'a [Envelope],
    /// The indices of the events whose `of` is this seq, in order.
    about: HashMap<Seq, Vec<usize>>,
    /// The rules that answers in this session have created, with the answers' seqs.
    approvals: OnceCell<Vec<(Rule, Seq)>>,
    /// The intents that wait after the last event.
    open: OnceCell<BTreeSet<Seq>>,
}

impl<'a> Links<'a> {
    pub fn new(events: &'a [Envelope]) -> Self {
        let mut about: HashMap<Seq, Vec<usize>> = HashMap::new();
        for (at, event) in events.iter().enumerate() {
            if let Some(of) = event.of {
                about.entry(of).or_default().push(at);
            }
        }
        Self { events, about, approvals: OnceCell::new(), open: OnceCell::new() }
    }

    pub fn event(&self, seq: Seq) -> Option<&'a Envelope> {
        let at = self.events.partition_point(|event| event.seq < seq);
        self.events.get(at).filter(|event| event.seq == seq)
    }

    /// The events whose `of` is `seq`, in order.
    pub fn about(&self, seq: Seq) -> impl Iterator<Item = &'a Envelope> {
        let indices = self.about.get(&seq).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|at| &self.events[*at])
    }

    /// The answer before `seq` that created the rule, if one did.
    pub(super) fn approval(&self, rule: &Rule, seq: Seq) -> Option<Seq> {
        let approvals = self.approvals.get_or_init(|| {
            let (mut state, mut found) = (State::default(), Vec::new());
            for event in self.events {
                state.apply(event);
                let new = state.approved.get(found.len()..).unwrap_or_default();
                found.extend(new.iter().map(|rule| (rule.clone(), event.seq)));
            }
            found
        });
        let mut approvals = approvals.iter();
        approvals.find(|(made, by)| made == rule && *by < seq).map(|(_, by)| *by)
    }

    /// Whether the intent still waits for its outcome.
    pub(super) fn is_open(&self, seq: Seq) -> bool {
        let open = || fold(self.events).open().iter().map(|(_, wait)| wait.intent).collect();
        self.open.get_or_init(open).contains(&seq)
    }
}
