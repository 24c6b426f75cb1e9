//! Calls within a call: each entry of a `batch` becomes a call of its own, created by
//! `tool.batched`. The batch itself runs when all entries are done, and gathers their outcomes. The
//! model sees one call and one result.

use super::{Call, Outcome, Phase, State};

/// The outcome of one call of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPart {
    pub tool: String,
    pub outcome: Outcome,
}

impl State {
    /// The calls that the batch `c` has created so far, in order.
    pub(crate) fn parts_of(&self, c: &Call) -> impl Iterator<Item = &Call> {
        let batch = c.seq;
        self.calls().filter(move |call| call.within == Some(batch))
    }

    /// The outcomes of the entries of the batch `c`.
    pub fn parts(&self, c: &Call) -> Vec<BatchPart> {
        let done = self.parts_of(c).filter_map(|part| {
            let Phase::Done(outcome) = &part.phase else { return None };
            let tool = part.resolved.as_ref().map_or(&part.name, |resolved| &resolved.name);
            Some(BatchPart { tool: tool.clone(), outcome: (**outcome).clone() })
        });
        done.collect()
    }
}
