//! Takes back what an imported log claims. Its file may hold any event, so nothing in it grants a
//! permission, starts a call or names files to restore. The conversation remains.

use super::call::{Call, Phase};
use super::{Delegated, ModelStatus, State, Turn, words};
use crate::event::SessionChoices;
use crate::id::Seq;

/// Marks the name of a secret in a call's arguments.
const SECRET: &str = "{{secret:";

impl State {
    /// Takes back everything that the events so far may have granted. They were imported up to
    /// `through`. `session.resumed` does this to the log of an imported session, and a reader does
    /// it to a log that has no such event yet.
    ///
    /// Approvals, agent, choices, rules, snapshots and answers of plugins are forgotten. Calls that had
    /// not started are resolved and judged again. Calls that had started are lost, and children are
    /// given up. The turn's cost and time begin again.
    pub fn distrust(&mut self, through: Seq) {
        self.imported = self.imported.max(through);
        self.agent.clear();
        self.choices = SessionChoices::default();
        self.rules.clear();
        self.prompt_ids.clear();
        self.config.options.session_rules.clear();
        self.approved.clear();
        self.named_hosts.clear();
        self.seen.clear();
        self.instructed.clear();
        self.files.distrust();
        self.plugins.distrust();
        self.delegated = Delegated::default();
        for child in &mut self.children {
            (child.ended, child.counted, child.may_spend) = (true, true, None);
        }
        let last = self.last_reply().map(|reply| reply.asked).filter(|_| self.turn.is_some());
        let with_calls = self.messages.change(|message| {
            message.reply().is_some_and(|reply| reply.calls().any(Call::is_to_be_distrusted))
        });
        for reply in with_calls.filter_map(super::Message::reply_mut) {
            let closed = Some(reply.asked) != last;
            reply.rejection = None;
            reply.calls_mut().for_each(|call| call.distrust(closed));
        }
        let now = self.at;
        if let Some(turn) = &mut self.turn {
            turn.distrust(now);
        }
    }
}

impl Turn {
    fn distrust(&mut self, now: crate::time::Time) {
        (self.since, self.attempt, self.switch) = (now, 0, None);
        (self.usage, self.cost) = Default::default();
        self.prompt_calls.clear();
        match &self.model_status {
            ModelStatus::Backoff(_) => self.model_status = ModelStatus::Again,
            ModelStatus::Compacting(_) => self.model_status = ModelStatus::Due,
            ModelStatus::Due
            | ModelStatus::Waiting(_)
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => {}
        }
    }
}

impl Call {
    fn is_to_be_distrusted(&self) -> bool {
        self.ran || !self.is_done()
    }

    /// Takes the call back to its input. If `closed`, no turn performs it any more.
    fn distrust(&mut self, closed: bool) {
        // plugins do not change a result that they did not see
        self.ran = false;
        let started = match self.phase {
            Phase::Done(_) => return,
            Phase::Running { .. } | Phase::TimedOut { .. } | Phase::Unknown { .. } => true,
            Phase::Called
            | Phase::Checking(_)
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Asking { .. }
            | Phase::Allowed => false,
        };
        let attempt = self.attempt();
        // without a resolution, a call that had started counts as a command: it is not repeated
        (self.resolved, self.changed, self.vetoed) = (None, None, None);
        self.answers.clear();
        self.elicitations.clear();
        if closed {
            let told = if started { words::LOST } else { words::NEVER_STARTED };
            self.done(told.to_owned(), true);
        } else if started {
            self.phase = Phase::Unknown { attempt };
        } else if self.input.value().to_string().contains(SECRET) {
            self.done(words::IMPORTED_SECRET.to_owned(), true);
        } else {
            self.phase = Phase::Called;
        }
    }
}
