//! Calls within a call: each entry of a `batch` goes the way of a call of its own, and the batch
//! runs, to gather what came of them, when all are done.

use serde_json::Value;

use super::{Call, Phase, State, switch};
use crate::event::CallSpec;
use crate::json::Json;

pub const NAME: &str = "batch";
/// Entries that are run; more are reported as failed.
pub const MOST: usize = 25;
const BARRED: [&str; 5] = [NAME, "patch", "invalid", switch::PLAN_ENTER, switch::PLAN_EXIT];

/// One entry of a batch's arguments, as its tool has put them into order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub tool: String,
    pub input: Json,
    /// Why it is not run.
    pub refused: Option<String>,
}

/// What came of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub tool: String,
    pub outcome: super::Outcome,
}

/// The entries of `{"toolCalls":[{"tool","parameters"}]}`; what has another form counts as none.
pub fn entries(input: &Json) -> Vec<Entry> {
    let value = input.value();
    let calls = value["toolCalls"].as_array().map_or(&[][..], Vec::as_slice);
    calls.iter().enumerate().map(|(at, call)| entry(at, call)).collect()
}

fn entry(at: usize, call: &Value) -> Entry {
    let tool = call["tool"].as_str().unwrap_or_default().to_owned();
    let barred = BARRED.contains(&tool.trim().to_lowercase().as_str());
    let refused = if barred {
        Some(format!("`{tool}` cannot be called from within a batch."))
    } else if at >= MOST {
        Some(format!("A batch runs {MOST} calls at most. Make this one in another batch."))
    } else {
        None
    };
    Entry { tool, input: Json::from_value(&call["parameters"]), refused }
}

impl State {
    /// The calls that the batch `c` has brought forth so far, in order.
    pub(crate) fn parts_of(&self, c: &Call) -> impl Iterator<Item = &Call> {
        let batch = c.seq;
        self.calls().filter(move |call| call.within == Some(batch))
    }

    /// The next call that `c` is to bring forth; `None` where it is no batch or has them all.
    pub(crate) fn next_part(&self, c: &Call) -> Option<CallSpec> {
        let resolved = c.resolved.as_ref().filter(|resolved| resolved.name == NAME)?;
        let known = self.parts_of(c).count();
        let mut run = entries(&resolved.input).into_iter().filter(|e| e.refused.is_none());
        let Entry { tool: name, input, .. } = run.nth(known)?;
        Some(CallSpec { id: format!("{}_{}", c.id, known + 1), name, input })
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
