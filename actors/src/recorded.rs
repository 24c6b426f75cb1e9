//! An event of a log in the form that all its observers share. It knows no actor.

#![expect(
    clippy::disallowed_types,
    reason = "the form that people see follows from the event, and is worked out once"
)]

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use leftfold_events::mask::{PublicEvent, shown};
use leftfold_events::{Envelope, Sha256};

/// A durable event, shared by all observers. Its public form is written once, when an observer
/// first needs it.
#[derive(Clone, Debug)]
pub struct Recorded(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The batch that it became durable with, and its index in the batch.
    batch: Arc<[Envelope]>,
    at: usize,
    shown: OnceLock<PublicEvent>,
}

impl Recorded {
    /// All events of a durable batch.
    pub fn all(batch: &Arc<[Envelope]>) -> impl Iterator<Item = Self> {
        let recorded = |at| Shared { batch: Arc::clone(batch), at, shown: OnceLock::new() };
        (0..batch.len()).map(move |at| Self(Arc::new(recorded(at))))
    }

    /// Its line in an export, with tokens masked and without a newline.
    pub fn line(&self) -> &str {
        &self.shown().line
    }

    /// The event for display, with tokens masked.
    pub fn masked(&self) -> &Envelope {
        self.shown().masked.as_deref().unwrap_or(self)
    }

    fn shown(&self) -> &PublicEvent {
        self.0.shown.get_or_init(|| shown(self))
    }

    /// The lines with the contents behind its hashes. They come before the first event of an export
    /// that names them.
    pub fn payloads(&self) -> &[(Sha256, String)] {
        &self.shown().payloads
    }

    /// Its approximate size in bytes.
    pub(crate) fn weight(&self) -> usize {
        let payloads = self.event.payloads().into_iter().map(|payload| payload.text().len());
        self.line().len() + payloads.sum::<usize>()
    }
}

impl Deref for Recorded {
    type Target = Envelope;

    fn deref(&self) -> &Envelope {
        &self.0.batch[self.0.at]
    }
}
