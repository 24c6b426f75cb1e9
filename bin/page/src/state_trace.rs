//! The state after each event as JSON, as patches between key frames. The fold is the only source: a
//! key frame is compared with it, so a patch that misses a change is an error and not a wrong page.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use leftfold_events::state::{Files, Message};
use leftfold_events::{Envelope, SessionId, State, TurnConfig};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PageError;
use crate::patch::{self, Changed, Op, Step};
use crate::pool::{Pool, Runs, masked};

/// The parts of a state that seldom change and may be large. They are serialized only when they have
/// changed.
const CONFIG: &str = "config";
const FILES: &str = "files";
const SEEN: &str = "seen";
const MESSAGES: &str = "messages";

/// A session's state, folded event by event.
#[derive(Debug)]
pub(crate) struct StateTrace {
    session: SessionId,
    pub(crate) state: State,
    /// The state that the page computes from the patches so far.
    value: Value,
    /// The parts of the state that are not large, as they were last: not masked.
    small: Map<String, Value>,
    config: Large<TurnConfig>,
    files: Large<Files>,
    seen: Large<BTreeMap<String, String>>,
    messages: Vec<Arc<Message>>,
    /// For each message, its number in the pool, once a key frame has it.
    pooled: Vec<Option<usize>>,
}

/// A large part as it was last serialized.
#[derive(Debug, Default)]
struct Large<T> {
    last: T,
    /// Its number in the pool, once a key frame has it.
    pooled: Option<usize>,
}

impl<T: Clone + PartialEq + Serialize> Large<T> {
    /// The part as JSON, if it has changed.
    fn changed(&mut self, now: &T) -> Result<Option<Value>, PageError> {
        if self.last == *now {
            return Ok(None);
        }
        *self = Self { last: now.clone(), pooled: None };
        Ok(Some(masked(now)?))
    }
}

impl StateTrace {
    /// The state before the first event.
    pub(crate) fn new(session: SessionId) -> Result<Self, PageError> {
        let state = State::default();
        Ok(Self {
            session,
            value: masked(&state)?,
            small: Map::new(),
            state,
            config: Large::default(),
            files: Large::default(),
            seen: Large::default(),
            messages: Vec::new(),
            pooled: Vec::new(),
        })
    }

    /// Applies the next event. Answers the changes that it makes in the state.
    pub(crate) fn apply(&mut self, event: &Envelope) -> Result<Vec<Op>, PageError> {
        self.state.apply(event);
        let mut ops = Vec::new();
        self.diff_small(&mut ops)?;
        for (key, changed) in [
            (CONFIG, self.config.changed(&self.state.config)?),
            (FILES, self.files.changed(&self.state.files)?),
            (SEEN, self.seen.changed(&self.state.seen)?),
        ] {
            if let Some(new) = changed {
                patch::diff(&mut path(key), &self.value[key], &new, &mut ops);
            }
        }
        self.diff_messages(&mut ops)?;
        for op in &ops {
            patch::apply(&mut self.value, op)?;
        }
        Ok(ops)
    }

    /// Compares everything but the large parts.
    fn diff_small(&mut self, ops: &mut Vec<Op>) -> Result<(), PageError> {
        let state = &mut self.state;
        let messages = mem::take(&mut state.messages);
        let config = mem::take(&mut state.config);
        let files = mem::take(&mut state.files);
        let seen = mem::take(&mut state.seen);
        let small = serde_json::to_value(&*state);
        state.messages = messages;
        state.config = config;
        state.files = files;
        state.seen = seen;
        let Value::Object(mut small) = small? else { return Ok(()) };
        small.retain(|key, _| !matches!(key.as_str(), CONFIG | FILES | SEEN | MESSAGES));
        // masking is most of the work, and few parts change at a time
        let changed = small.iter().filter(|(key, new)| self.small.get(*key) != Some(*new));
        for (key, new) in changed {
            let new = masked(new)?;
            match self.value.get(key) {
                Some(old) => patch::diff(&mut path(key), old, &new, ops),
                None => ops.push(Op::Set(path(key), new)),
            }
        }
        let removed = self.small.keys().filter(|key| !small.contains_key(*key));
        ops.extend(removed.map(|key| Op::Remove(path(key))));
        self.small = small;
        Ok(())
    }

    /// Compares the messages that are not the same objects as before.
    fn diff_messages(&mut self, ops: &mut Vec<Op>) -> Result<(), PageError> {
        let now = self.state.messages.shared();
        let Changed { at, old, new } = Changed::between(&self.messages, now, Arc::ptr_eq);
        if old == 0 && new == 0 {
            return Ok(());
        }
        let values = now[at..at + new].iter().map(masked).collect::<Result<Vec<_>, _>>()?;
        let known = self.value[MESSAGES].as_array().map_or(&[][..], Vec::as_slice);
        if old == new {
            for (index, (old, new)) in known[at..at + old].iter().zip(&values).enumerate() {
                let mut path = vec![Step::Key(MESSAGES.to_owned()), Step::Index(at + index)];
                patch::diff(&mut path, old, new, ops);
            }
        } else {
            ops.push(Op::Splice(path(MESSAGES), at, old, values));
        }
        drop(self.messages.splice(at..at + old, now[at..at + new].iter().cloned()));
        drop(self.pooled.splice(at..at + old, std::iter::repeat_n(None, new)));
        Ok(())
    }

    /// The whole state, with its large parts in the pool.
    ///
    /// # Errors
    /// The patches so far lead to another state than the fold.
    pub(crate) fn key_frame(&mut self, pool: &mut Pool) -> Result<Value, PageError> {
        self.check_changed()?;
        let value = &self.value;
        let large = json!({
            CONFIG: *self.config.pooled.get_or_insert_with(|| pool.value(value[CONFIG].clone())),
            FILES: *self.files.pooled.get_or_insert_with(|| pool.value(value[FILES].clone())),
            SEEN: *self.seen.pooled.get_or_insert_with(|| pool.value(value[SEEN].clone())),
        });
        let messages = self.pooled.iter_mut().enumerate();
        let messages: Runs = messages
            .map(|(at, pooled)| {
                *pooled.get_or_insert_with(|| pool.value(value[MESSAGES][at].clone()))
            })
            .collect();
        let fields = value.as_object().into_iter().flatten();
        let small = fields.filter(|(key, _)| *key != MESSAGES && large.get(key).is_none());
        let small: Map<String, Value> =
            small.map(|(key, field)| (key.clone(), field.clone())).collect();
        let small = pool.encode(Value::Object(small));
        Ok(json!({ "small": small, "large": large, "messages": messages }))
    }

    /// Compares with the fold what can have changed since the last key frame.
    fn check_changed(&self) -> Result<(), PageError> {
        let state = &self.state;
        let now = state.messages.shared();
        let known = self.value[MESSAGES].as_array().map_or(&[][..], Vec::as_slice);
        let mut is_same = now.len() == known.len() && now.len() == self.pooled.len();
        let messages = now.iter().zip(known).zip(&self.pooled);
        for ((message, known), _) in messages.filter(|(_, pooled)| pooled.is_none()) {
            is_same &= masked(message)? == *known;
        }
        is_same &= masked(&state.config)? == self.value[CONFIG];
        is_same &= masked(&state.files)? == self.value[FILES];
        is_same &= masked(&state.seen)? == self.value[SEEN];
        self.same(is_same)
    }

    /// Compares everything with the fold.
    ///
    /// # Errors
    /// The patches so far lead to another state.
    pub(crate) fn check(&self) -> Result<(), PageError> {
        self.same(masked(&self.state)? == self.value)
    }

    fn same(&self, is_same: bool) -> Result<(), PageError> {
        let differs = PageError::Differs { session: self.session, seq: self.state.seq };
        if is_same { Ok(()) } else { Err(differs) }
    }
}

fn path(key: &str) -> Vec<Step> {
    vec![Step::Key(key.to_owned())]
}
