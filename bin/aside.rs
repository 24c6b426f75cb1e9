//! What goes on beside the conversation: the request for a title has a reply that is no part of it.

use leftfold_events::event::{Event, Model, Purpose};
use leftfold_events::{Envelope, Seq};

/// Follows a session.
#[derive(Debug, Default)]
pub(crate) struct Titles {
    asked: Option<Seq>,
}

impl Titles {
    /// Whether `event` is about a title.
    pub(crate) fn has(&mut self, event: &Envelope) -> bool {
        let Event::Model(model) = &event.event else { return false };
        if matches!(model, Model::Requested { purpose: Purpose::Title, .. }) {
            self.asked = Some(event.seq);
            return true;
        }
        self.asked.is_some() && self.asked == event.of
    }
}
