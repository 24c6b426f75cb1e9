//! Restores files as they were at the point where a fork begins.

use std::collections::BTreeSet;

use super::State;
use super::files::{Restore, RestoreStep, Revert};
use super::messages::Messages;
use crate::event::Saved;
use crate::id::Seq;

impl State {
    pub(super) fn checks_out(&mut self, asked: Seq, paths: &[Saved]) {
        // later changes are not this session's
        self.files.dirty = None;
        let wanted = Some(paths.to_vec());
        self.files.restore = Some(Restore { wanted, ..Restore::new(asked, None) });
    }

    /// Until the next prompt, a checkout can be undone like a revert.
    pub(super) fn checked_out(&mut self, restore: Restore) {
        let Restore { asked, before, paths, .. } = restore;
        let (messages, changes) = (Messages::default(), Vec::new());
        let before = before.unwrap_or_default();
        let revert = Revert { to: asked, before, paths, messages, changes };
        self.files.revert = self.turn.is_none().then_some(revert);
    }
}

impl Restore {
    pub(super) fn new(asked: Seq, to: Option<Seq>) -> Self {
        let (step, paths) = (RestoreStep::Due, BTreeSet::new());
        Self { asked, to, wanted: None, before: None, step, paths }
    }
}
