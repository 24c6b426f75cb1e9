//! The limits of a turn: cost, time, and its last step.

use super::open::PendingKind;
use super::{Call, ModelStatus, Phase, State, Titling, Wait, words};
use crate::event::{Cost, EndReason, Ended};
use crate::id::Seq;

impl State {
    /// The end of the turn's time, if it is limited and has not passed. It waits for no intent, so
    /// the prompt that began the turn names it.
    pub fn deadline(&self) -> Option<Wait> {
        let turn = self.turn.as_ref().filter(|turn| turn.stop.is_none())?;
        let until = turn.since.plus(self.config.options.max_time?);
        Some(Wait { intent: turn.prompted, since: turn.since, until })
    }

    /// Whether the turn's time had passed at the last event.
    pub(super) fn is_late(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline.until <= self.at)
    }

    /// The turn's time has passed. An answer that waits only for the title is complete.
    pub(super) fn run_out(&mut self) {
        let open = self.open();
        let whole = !open.is_empty() && open.iter().all(|(kind, _)| *kind == PendingKind::Title);
        match &mut self.turn {
            Some(turn) if whole => {
                (turn.title, turn.session_summary) = (Titling::Over, Titling::Over);
            }
            Some(_) | None => self.stop(EndReason::Limit),
        }
    }

    /// Whether the turn has exceeded its cost: no further model request is made.
    pub(crate) fn is_overspent(&self) -> bool {
        let max = self.config.options.max_cost;
        self.spent().zip(max).is_some_and(|(spent, max)| spent > max)
    }

    /// The cost of the turn so far, including its ended children.
    pub(crate) fn spent(&self) -> Option<Cost> {
        Some(self.turn.as_ref()?.cost + self.delegated.cost)
    }

    /// The part of the turn's cost limit that is neither spent nor promised to a child; `None`: no
    /// limit.
    pub fn left_to_spend(&self) -> Option<Cost> {
        let max = self.config.options.max_cost?;
        Some((max - self.spent().unwrap_or_default() - self.promised()).max(0.0))
    }

    /// The cost that this turn's children may still cause without having reported it: of working
    /// children, and of children that were given up.
    fn promised(&self) -> Cost {
        let since = self.turn.as_ref().map_or(Seq::MAX, |turn| turn.prompted);
        let children = self.children.iter().filter(|child| child.wait.intent > since);
        children.filter(|child| !child.counted).filter_map(|child| child.may_spend).sum()
    }

    /// A reply has come, or a child has ended. If the cost limit is exceeded, calls are stopped,
    /// because no model will see their results. A reply that is still being written is already paid
    /// for.
    pub(super) fn heed_cost(&mut self) {
        let writes = self
            .turn
            .as_ref()
            .is_some_and(|turn| matches!(turn.model_status, ModelStatus::Waiting(_)));
        if !writes && self.is_overspent() && self.calls().any(|call| !call.is_done()) {
            self.stop(EndReason::Limit);
        }
    }

    /// Whether the current or next requested step is the last allowed one, and its request says so. A request that
    /// asks for a structured answer offers no other tool instead.
    pub(crate) fn on_last_step(&self) -> bool {
        self.config.options.output.is_none() && self.is_last_step()
    }

    /// Whether the current or next requested step is the last allowed one.
    pub(crate) fn is_last_step(&self) -> bool {
        let max = self.config.options.max_steps;
        let Some(turn) = self.turn.as_ref().filter(|_| max < u32::MAX) else { return false };
        let after = if let ModelStatus::Compacting(summing) = &turn.model_status {
            Some(&*summing.then)
        } else {
            None
        };
        let ask = after.unwrap_or(&turn.model_status);
        let next = match ask {
            ModelStatus::Waiting(_)
            | ModelStatus::Failed(_)
            | ModelStatus::Backoff(_)
            | ModelStatus::Again => turn.step.max(1),
            ModelStatus::Due
            | ModelStatus::Answered { .. }
            | ModelStatus::Compacting(_)
            | ModelStatus::CompactionFailed { .. } => turn.step.saturating_add(1),
        };
        next >= max
    }
}

impl Call {
    /// Why the call did not end by itself.
    pub(super) fn cancelled(&self, stopped: bool) -> String {
        if let Phase::TimedOut { .. } = self.phase {
            self.timed_out()
        } else if self.phase == Phase::Called && !stopped {
            words::NO_STEP_LEFT.to_owned()
        } else {
            words::ABORTED.to_owned()
        }
    }

    fn timed_out(&self) -> String {
        let limit = self.resolved.as_ref().map_or(0, |resolved| resolved.timeout);
        words::timed_out(limit, &self.tail)
    }
}

impl Ended {
    /// Whether the turn ended because its time was over.
    pub fn is_timeout(&self) -> bool {
        let says_so = |error: &String| error.contains(words::OF_TIME);
        self.reason == EndReason::Limit && self.error.as_ref().is_some_and(says_so)
    }
}
