use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use leftfold_events::{Envelope, Sha256, line};

/// An event that stands in the log, as all share it who watch. Its public form is written when
/// the first of them wants it, and once.
#[derive(Clone, Debug)]
pub struct Recorded(Arc<Shared>);

/// A line with the contents behind a hash.
type PayloadLine = (Sha256, Box<str>);

#[derive(Debug)]
struct Shared {
    /// The events that became durable with it, and which of them it is.
    batch: Arc<[Envelope]>,
    at: usize,
    line: OnceLock<Box<str>>,
    payloads: OnceLock<Vec<PayloadLine>>,
}

impl Recorded {
    /// Those of a batch that is in a log.
    pub fn all(batch: &Arc<[Envelope]>) -> impl Iterator<Item = Self> {
        let recorded = |at| Shared {
            batch: Arc::clone(batch),
            at,
            line: OnceLock::new(),
            payloads: OnceLock::new(),
        };
        (0..batch.len()).map(move |at| Self(Arc::new(recorded(at))))
    }

    /// Its line in an export, without the end.
    pub fn line(&self) -> &str {
        self.0.line.get_or_init(|| line::write(self).into())
    }

    /// The lines with the contents behind its hashes, which stand before the first event of an
    /// export that names them.
    pub fn payloads(&self) -> &[PayloadLine] {
        self.0.payloads.get_or_init(|| {
            let payloads = self.event.payloads().into_iter();
            payloads
                .map(|payload| (payload.sha256(), line::write_payload(payload).into()))
                .collect()
        })
    }

    /// About how many bytes it takes up.
    pub(super) fn weight(&self) -> usize {
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
