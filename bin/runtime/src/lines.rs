//! Events as the lines of an export: the contents behind a hash stand once, before the first event
//! that names them. Tokens in them are masked.

use std::collections::HashSet;

use leftfold_actors::Recorded;
use leftfold_events::mask::Shown;
use leftfold_events::{Envelope, Sha256, mask};

#[derive(Debug, Default)]
pub struct Lines {
    told: HashSet<Sha256>,
}

impl Lines {
    /// The lines for `event`, which comes after those asked for before; without their ends.
    pub fn of(&mut self, event: &Envelope) -> Vec<String> {
        self.told(mask::shown(event))
    }

    /// The same with nothing masked.
    pub fn unmasked(&mut self, event: &Envelope) -> Vec<String> {
        self.told(mask::unmasked(event))
    }

    fn told(&mut self, Shown { line, payloads, .. }: Shown) -> Vec<String> {
        let new = payloads.into_iter().filter(|(hash, _)| self.is_new(*hash));
        new.map(|(_, line)| line).chain([line]).collect()
    }

    /// The same of an event that others watch too, whose lines are written already.
    pub fn each(&mut self, event: &Recorded, mut tell: impl FnMut(&str)) {
        for (hash, line) in event.payloads() {
            if self.is_new(*hash) {
                tell(line);
            }
        }
        tell(event.line());
    }

    /// Whether the contents behind `hash` have not been told yet; from now on they have.
    pub fn is_new(&mut self, hash: Sha256) -> bool {
        self.told.insert(hash)
    }
}
