//! The limits of a turn: what it may cost, how long it may take, and its last step.

use super::open::PendingKind;
use super::{Call, ModelStatus, Phase, State, Titling, Wait, words};
use crate::event::{Cost, EndReason};
use crate::id::Seq;

impl State {
    /// The end of the turn's time, if it is limited and not stopped yet. It waits for no intent,
    /// so the prompt that began the turn names it.
    pub fn deadline(&self) -> Option<Wait> {
        let turn = self.turn.as_ref().filter(|turn| turn.stop.is_none())?;
        let until = turn.since.plus(self.config.options.max_time?);
        Some(Wait { intent: turn.prompted, since: turn.since, until })
    }

    /// Whether the turn's time was over by the last event.
    pub(super) fn is_late(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline.until <= self.at)
    }

    /// The turn's time is over. An answer that waits for nothing but the title is whole.
    pub(super) fn run_out(&mut self) {
        let open = self.open();
        let whole = !open.is_empty() && open.iter().all(|(kind, _)| *kind == PendingKind::Title);
        match &mut self.turn {
            Some(turn) if whole => turn.title = Titling::Over,
            Some(_) | None => self.stop(EndReason::Limit),
        }
    }

    /// Whether the turn has cost more than it may: no model is asked any more.
    pub(crate) fn is_overspent(&self) -> bool {
        let max = self.config.options.max_cost;
        self.spent().zip(max).is_some_and(|(spent, max)| spent > max)
    }

    /// What the turn has cost so far, with its children that have ended.
    pub(crate) fn spent(&self) -> Option<Cost> {
        Some(self.turn.as_ref()?.cost + self.delegated.cost)
    }

    /// What is left of what the turn may cost, and is not promised to a child; `None`: there is no
    /// limit.
    pub fn left_to_spend(&self) -> Option<Cost> {
        let max = self.config.options.max_cost?;
        Some((max - self.spent().unwrap_or_default() - self.promised()).max(0.0))
    }

    /// What this turn's children may still cost that have not told what they did: those at work, and
    /// those given up, which nobody has heard from.
    fn promised(&self) -> Cost {
        let since = self.turn.as_ref().map_or(Seq::MAX, |turn| turn.prompted);
        let children = self.children.iter().filter(|child| child.wait.intent > since);
        children.filter(|child| !child.counted).filter_map(|child| child.may_spend).sum()
    }

    /// A reply has come, or a child has ended. Where no model may be asked any more, calls have nobody to work for. One
    /// that is still being written is paid for already.
    pub(super) fn heed_cost(&mut self) {
        let writes = self
            .turn
            .as_ref()
            .is_some_and(|turn| matches!(turn.model_status, ModelStatus::Waiting(_)));
        if !writes && self.is_overspent() && self.calls().any(|call| !call.is_done()) {
            self.stop(EndReason::Limit);
        }
    }

    /// Whether the step that is being asked for, or is to be asked for next, is the last allowed.
    pub(crate) fn on_last_step(&self) -> bool {
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
    /// Why it came to no end of its own.
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
