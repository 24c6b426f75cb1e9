use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};

use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Seq, State, fold};

/// The events of one log, and which of them are about which other, so that explaining an event does not search
/// the log. Events can be added.
#[derive(Debug, Default)]
pub struct Links {
    pub events: Vec<Envelope>,
    /// The indices of the events whose `of` is this seq, in order.
    about: HashMap<Seq, Vec<usize>>,
    approvals: RefCell<Approvals>,
    /// The intents that wait after the last event.
    open: OnceCell<BTreeSet<Seq>>,
}

/// The rules that answers in this session have created, with the answers' seqs.
#[derive(Debug, Default)]
struct Approvals {
    /// The fold of the events that were searched.
    state: State,
    searched: usize,
    found: Vec<(Rule, Seq)>,
}

impl Links {
    pub fn new(events: Vec<Envelope>) -> Self {
        let mut links = Self::default();
        events.into_iter().for_each(|event| links.push(event));
        links
    }

    pub fn push(&mut self, event: Envelope) {
        if let Some(of) = event.of {
            self.about.entry(of).or_default().push(self.events.len());
        }
        self.open.take();
        self.events.push(event);
    }

    pub fn event(&self, seq: Seq) -> Option<&Envelope> {
        let at = self.events.partition_point(|event| event.seq < seq);
        self.events.get(at).filter(|event| event.seq == seq)
    }

    /// The events whose `of` is `seq`, in order.
    pub fn about(&self, seq: Seq) -> impl Iterator<Item = &Envelope> {
        let indices = self.about.get(&seq).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|at| &self.events[*at])
    }

    /// The answer before `seq` that created the rule, if one did.
    pub(super) fn approval(&self, rule: &Rule, seq: Seq) -> Option<Seq> {
        let mut approvals = self.approvals.borrow_mut();
        let Approvals { state, searched, found } = &mut *approvals;
        let later = self.events.iter().skip(*searched).take_while(|event| event.seq < seq);
        for event in later {
            state.apply(event);
            *searched += 1;
            let new = state.approved.get(found.len()..).unwrap_or_default();
            found.extend(new.iter().map(|rule| (rule.clone(), event.seq)));
        }
        let mut approvals = found.iter();
        approvals.find(|(made, by)| made == rule && *by < seq).map(|(_, by)| *by)
    }

    /// Whether the intent still waits for its outcome.
    pub(super) fn is_open(&self, seq: Seq) -> bool {
        let open = || fold(&self.events).open().iter().map(|(_, wait)| wait.intent).collect();
        self.open.get_or_init(open).contains(&seq)
    }
}
