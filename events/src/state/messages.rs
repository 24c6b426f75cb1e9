//! The conversation. All states that contain an entry share it: cloning a state copies no entry,
//! and changing an entry copies only that one.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use serde::Serialize;

use super::message::Message;

#[derive(Clone, Debug, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Messages(Vec<Arc<Message>>);

impl Messages {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator + Clone {
        self.0.iter().map(|message| &**message)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entries that are the same object (not only equal) have not changed.
    pub fn shared(&self) -> &[Arc<Message>] {
        &self.0
    }

    /// The entries that `which` accepts, to be changed.
    pub(super) fn change<'a>(
        &'a mut self,
        which: impl Fn(&Message) -> bool + 'a,
    ) -> impl DoubleEndedIterator<Item = &'a mut Message> {
        self.0.iter_mut().filter(move |message| which(message)).map(Arc::make_mut)
    }

    pub(super) fn push(&mut self, message: Message) {
        self.0.push(Arc::new(message));
    }

    pub(super) fn insert(&mut self, at: usize, message: Message) {
        self.0.insert(at, Arc::new(message));
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Message) -> bool) {
        self.0.retain(|message| keep(message));
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        Self(self.0.split_off(at))
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }
}

impl Index<usize> for Messages {
    type Output = Message;

    fn index(&self, at: usize) -> &Message {
        &self.0[at]
    }
}

impl IndexMut<usize> for Messages {
    fn index_mut(&mut self, at: usize) -> &mut Message {
        Arc::make_mut(&mut self.0[at])
    }
}
