//! Prints events as the lines of an export. The contents behind a hash are printed once, before the
//! first event that names them. Tokens are masked.

use std::collections::HashSet;

use leftfold_actors::Recorded;
use leftfold_events::mask::PublicEvent;
use leftfold_events::{Envelope, Sha256, mask};

#[derive(Debug, Default)]
pub struct Lines {
    printed: HashSet<Sha256>,
}

impl Lines {
    /// The lines for `event`, which must follow the earlier ones; without line ends.
    pub fn for_event(&mut self, event: &Envelope) -> Vec<String> {
        self.lines_of(mask::shown(event))
    }

    /// The lines for `event` with nothing masked.
    pub fn unmasked(&mut self, event: &Envelope) -> Vec<String> {
        self.lines_of(mask::unmasked(event))
    }

    fn lines_of(&mut self, PublicEvent { line, payloads, .. }: PublicEvent) -> Vec<String> {
        let new = payloads.into_iter().filter(|(hash, _)| self.is_new(*hash));
        new.map(|(_, line)| line).chain([line]).collect()
    }

    /// Passes the lines for `event` to `write`. Observers share the written lines of an event.
    pub fn each(&mut self, event: &Recorded, mut write: impl FnMut(&str)) {
        for (hash, line) in event.payloads() {
            if self.is_new(*hash) {
                write(line);
            }
        }
        write(event.line());
    }

    /// Whether the contents behind `hash` have not been printed yet. Marks them as printed.
    pub fn is_new(&mut self, hash: Sha256) -> bool {
        self.printed.insert(hash)
    }
}
