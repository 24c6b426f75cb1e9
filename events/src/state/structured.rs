//! The structured answer of a turn: the arguments of a call that fits the schema which the turn asks for.

use super::{Call, Message, Phase, State};
use crate::event::CallKind;
use crate::json::Json;
use crate::turn_config::STRUCTURED_OUTPUT;

impl State {
    /// The first valid answer of the last reply.
    pub fn structured_output(&self) -> Option<&Json> {
        self.config.options.output.as_ref()?;
        let answers = |call: &&Call| {
            let is_done = matches!(&call.phase, Phase::Done(outcome) if !outcome.is_error);
            is_done && *call.kind() == CallKind::StructuredOutput
        };
        Some(&self.calls().find(answers)?.resolved.as_ref()?.input)
    }

    /// Whether the call gives the structured answer that the turn asks for.
    pub(crate) fn gives_output(&self, c: &Call) -> bool {
        self.config.options.output.is_some() && c.name == STRUCTURED_OUTPUT
    }

    /// The error of the last reply's answer, if it gives one and it is not valid.
    pub(crate) fn refused_output(&self) -> Option<&str> {
        let mut answers = self.calls().filter(|call| self.gives_output(call));
        answers.find_map(|call| {
            let Phase::Done(outcome) = &call.phase else { return None };
            outcome.is_error.then_some(&*outcome.output)
        })
    }

    /// Counts the last reply if its answer was not valid. Another request follows it.
    pub(super) fn count_refused_output(&mut self) {
        let is_refused = self.structured_output().is_none() && self.refused_output().is_some();
        if let Some(turn) = &mut self.turn
            && is_refused
            && self
                .messages
                .iter()
                .rev()
                .find_map(Message::reply)
                .is_some_and(|r| r.asked > turn.prompted)
        {
            turn.output_failures += 1;
        }
    }
}
