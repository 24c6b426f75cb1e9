//! Recognises the model request for a session's title: its reply is no part of the conversation.

use leftfold_events::event::{Event, Model, Purpose};
use leftfold_events::{Envelope, Seq};

/// The last title request of a session.
#[derive(Debug, Default)]
pub struct TitleRequest {
    asked: Option<Seq>,
}

impl TitleRequest {
    /// Whether `event` is about a title.
    pub fn has(&mut self, event: &Envelope) -> bool {
        let Event::Model(model) = &event.event else { return false };
        if matches!(model, Model::Requested { purpose: Purpose::Title, .. }) {
            self.asked = Some(event.seq);
            return true;
        }
        self.asked.is_some() && self.asked == event.of
    }
}
