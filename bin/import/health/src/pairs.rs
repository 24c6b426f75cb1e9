//! Matches calls with their results, by the rule of the APIs: after a reply with calls comes one
//! result for each call, before anything else.

use std::collections::{HashMap, HashSet, VecDeque};

/// A step of a conversation.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The model calls a tool.
    Call(String),
    Result(String),
    /// The model says something else.
    Model,
    /// The user says something.
    User,
}

/// A step, and the id of the reply that it belongs to. Steps of one reply may be apart; empty: the
/// reply is known only by its place.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) step: Step,
    pub(crate) reply: String,
}

/// A fault, with indices of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An earlier call has the id of this one, which gets the id `to`.
    SameId { call: usize, to: String },
    /// The result of a call that got the id `to`.
    ResultOf { result: usize, to: String },
    /// The call has no result.
    Orphan { call: usize },
    /// The result belongs directly after its call.
    Misplaced { result: usize, call: usize },
    /// The call already has a result.
    Doubled { result: usize },
    /// The result has no call.
    Stray { result: usize },
}

/// All faults, in the order of the steps that show them.
pub(crate) fn faults(said: &[Said]) -> Vec<Fault> {
    let mut matcher = Matcher { ids: ids(said), ..Matcher::default() };
    for (at, Said { step, reply }) in said.iter().enumerate() {
        match step {
            Step::Model => matcher.model(reply),
            Step::Call(id) => {
                matcher.model(reply);
                matcher.call(at, id);
            }
            Step::Result(id) => matcher.result(at, id),
            Step::User => (matcher.is_users, matcher.is_late) = (true, true),
        }
    }
    matcher.end()
}

/// The number of calls with each id.
fn ids(said: &[Said]) -> HashMap<String, usize> {
    let mut ids = HashMap::new();
    for said in said {
        if let Step::Call(id) = &said.step {
            *ids.entry(id.clone()).or_default() += 1;
        }
    }
    ids
}

/// A call that waits for its result.
#[derive(Clone, Debug)]
struct Open {
    at: usize,
    /// Its new id, if it gets one.
    to: Option<String>,
}

type Waiting = HashMap<String, VecDeque<Open>>;

#[derive(Default)]
struct Matcher {
    faults: Vec<Fault>,
    /// The calls with each id that are still to come.
    ids: HashMap<String, usize>,
    /// Ids of calls so far.
    known: HashSet<String>,
    /// The number of calls renamed for an id.
    renamed: HashMap<String, usize>,
    /// Ids whose calls have a result.
    answered: HashSet<String>,
    /// Results that came before their calls.
    early: HashMap<String, usize>,
    /// Open calls of the current reply, and of earlier ones.
    current: Waiting,
    earlier: Waiting,
    reply: String,
    /// Whether the user has spoken since the reply, and not only with results.
    is_users: bool,
    is_late: bool,
}

impl Matcher {
    /// The model speaks: in the current reply or in a new one.
    fn model(&mut self, reply: &str) {
        let goes_on = !self.is_late && !reply.is_empty() && reply == self.reply;
        if self.is_users && !goes_on {
            for (id, calls) in self.current.drain() {
                self.earlier.entry(id).or_default().extend(calls);
            }
        }
        reply.clone_into(&mut self.reply);
        (self.is_users, self.is_late) = (false, false);
    }

    fn call(&mut self, at: usize, id: &str) {
        if let Some(left) = self.ids.get_mut(id) {
            *left = left.saturating_sub(1);
        }
        if let Some(result) = self.early.remove(id) {
            self.answered.insert(id.to_owned());
            self.known.insert(id.to_owned());
            return self.faults.push(Fault::Misplaced { result, call: at });
        }
        let mut to = None;
        if !self.known.insert(id.to_owned()) {
            let new = self.fresh(id);
            self.faults.push(Fault::SameId { call: at, to: new.clone() });
            to = Some(new);
        }
        self.current.entry(id.to_owned()).or_default().push_back(Open { at, to });
    }

    fn fresh(&mut self, id: &str) -> String {
        let start: String = id.chars().take(48).collect();
        let count = self.renamed.entry(id.to_owned()).or_insert(1);
        loop {
            *count += 1;
            let new = format!("{start}_{count}");
            if !self.ids.contains_key(&new) && self.known.insert(new.clone()) {
                return new;
            }
        }
    }

    fn result(&mut self, at: usize, id: &str) {
        self.is_users = true;
        let now = self.current.get_mut(id).and_then(VecDeque::pop_front);
        let is_in_place = now.is_some() && !self.is_late;
        let call = now.or_else(|| self.earlier.get_mut(id).and_then(VecDeque::pop_front));
        if let Some(call) = call {
            self.answered.insert(id.to_owned());
            if let Some(to) = call.to {
                self.faults.push(Fault::ResultOf { result: at, to });
            }
            if !is_in_place {
                self.faults.push(Fault::Misplaced { result: at, call: call.at });
            }
        } else if self.answered.contains(id) || self.early.contains_key(id) {
            self.faults.push(Fault::Doubled { result: at });
        } else if self.ids.get(id).is_some_and(|left| *left > 0) {
            self.early.insert(id.to_owned(), at);
        } else {
            self.faults.push(Fault::Stray { result: at });
        }
    }

    fn end(mut self) -> Vec<Fault> {
        let open = self.current.into_values().chain(self.earlier.into_values()).flatten();
        let mut open: Vec<usize> = open.map(|call| call.at).collect();
        open.sort_unstable();
        self.faults.extend(open.into_iter().map(|call| Fault::Orphan { call }));
        self.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps in short: `+a` a call, `=a` its result, `m` the model, `u` the user.
    fn said(steps: &str) -> Vec<Said> {
        let step = |word: &str| match word.split_at(1) {
            ("+", id) => Step::Call(id.to_owned()),
            ("=", id) => Step::Result(id.to_owned()),
            ("m", _) => Step::Model,
            _ => Step::User,
        };
        let said = |word: &str| {
            let (word, reply) = word.split_once('/').unwrap_or((word, ""));
            Said { step: step(word), reply: reply.to_owned() }
        };
        steps.split_whitespace().map(said).collect()
    }

    #[test]
    fn each_fault_is_found_at_its_step() {
        let to = || "a_2".to_owned();
        for (steps, expected) in [
            ("u m +a +b =b =a m", vec![]),
            ("u +a/1 =a +b/1 =b m/2", vec![]),
            ("u +a", vec![Fault::Orphan { call: 1 }]),
            ("u +a u m", vec![Fault::Orphan { call: 1 }]),
            ("u +a u =a", vec![Fault::Misplaced { result: 3, call: 1 }]),
            (
                "u +a =b +b =b",
                vec![
                    Fault::Misplaced { result: 2, call: 3 },
                    Fault::Doubled { result: 4 },
                    Fault::Orphan { call: 1 },
                ],
            ),
            ("u +a =a =a m", vec![Fault::Doubled { result: 3 }]),
            ("u =x m", vec![Fault::Stray { result: 1 }]),
            (
                "u +a =a +a =a",
                vec![Fault::SameId { call: 3, to: to() }, Fault::ResultOf { result: 4, to: to() }],
            ),
        ] {
            assert_eq!(faults(&said(steps)), expected, "{steps}");
        }
    }
}
