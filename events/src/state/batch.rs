//! Calls within a call: each call of a batch goes the way of any other, and the batch runs, to gather
//! what came of them, when all are done.

use super::{Call, Outcome, Phase, State};

/// What came of one call of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub tool: String,
    pub outcome: Outcome,
}

impl State {
    /// The calls that the batch `c` has brought forth so far, in order.
    pub(crate) fn parts_of(&self, c: &Call) -> impl Iterator<Item = &Call> {
        let batch = c.seq;
        self.calls().filter(move |call| call.within == Some(batch))
    }

    /// What came of the parts of the batch `c`.
    pub fn parts(&self, c: &Call) -> Vec<Part> {
        let done = self.parts_of(c).filter_map(|part| {
            let Phase::Done(outcome) = &part.phase else { return None };
            let tool = part.resolved.as_ref().map_or(&part.name, |resolved| &resolved.name);
            Some(Part { tool: tool.clone(), outcome: (**outcome).clone() })
        });
        done.collect()
    }
}
