//! An event of a log in the form that all its observers share. It knows no actor.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use leftfold_events::mask::{Shown, shown};
use leftfold_events::{Envelope, Sha256};

/// An event that stands in the log, as all share it who watch. Its public form is written when
/// the first of them wants it, and once.
#[derive(Clone, Debug)]
pub struct Recorded(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The events that became durable with it, and which of them it is.
    batch: Arc<[Envelope]>,
    at: usize,
    shown: OnceLock<Shown>,
}

impl Recorded {
    /// Those of a batch that is in a log.
    pub fn all(batch: &Arc<[Envelope]>) -> impl Iterator<Item = Self> {
        let recorded = |at| Shared { batch: Arc::clone(batch), at, shown: OnceLock::new() };
        (0..batch.len()).map(move |at| Self(Arc::new(recorded(at))))
    }

    /// Its line in an export, tokens masked, without the end.
    pub fn line(&self) -> &str {
        &self.shown().line
    }

    /// The event for whoever shows it, tokens masked.
    pub fn masked(&self) -> &Envelope {
        self.shown().masked.as_deref().unwrap_or(self)
    }

    fn shown(&self) -> &Shown {
        self.0.shown.get_or_init(|| shown(self))
    }

    /// The lines with the contents behind its hashes, which stand before the first event of an
    /// export that names them.
    pub fn payloads(&self) -> &[(Sha256, String)] {
        &self.shown().payloads
    }

    /// About how many bytes it takes up.
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
