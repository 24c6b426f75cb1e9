//! Rules for questions to people: whether a call may run, and the questions of its run.

use leftfold_events::event::{Answer, Permission, Tool};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq};

use super::{Held, Ledger, Wait, held};

impl Ledger {
    pub(super) fn permission(&mut self, e: &Envelope, event: &Permission) -> Held {
        let of = e.of.unwrap_or_default();
        match event {
            Permission::Ruled { action, .. } => {
                self.about(e)?.ruled = Some(*action);
                if *action == Action::Deny { self.end(of) } else { Ok(()) }
            }
            Permission::Asked { .. } if self.runs(of) => {
                let call = self.calls.get(&of).ok_or("a question about no call")?;
                held(!call.elicitations.is_empty(), "a question in a run that has none")?;
                self.wait(e, Wait::Elicitation(of))
            }
            Permission::Asked { .. } => {
                self.about(e)?;
                self.wait(e, Wait::Question(of))
            }
            Permission::Answered { reply, feedback, .. }
            | Permission::AnsweredFor { reply, feedback, .. } => {
                let asked = |wait| matches!(wait, Wait::Question(_) | Wait::Elicitation(_));
                let wait = self.outcome(e, asked)?;
                let Wait::Question(seq) = wait else { return Ok(()) };
                let call = self.calls.get_mut(&seq).ok_or("an answer about no call")?;
                let yes = feedback.as_deref().is_none_or(|said| ["", "yes"].contains(&said));
                if *reply == Answer::Reject || call.switches && !yes {
                    return self.end(seq);
                }
                call.answered = true;
                self.always |= *reply == Answer::Always;
                Ok(())
            }
            Permission::RejectedWith { reply, .. } => {
                held(*reply == Answer::Reject, "a rejection that is none")?;
                let wait = self.outcome(e, |wait| matches!(wait, Wait::Question(_)))?;
                let Wait::Question(seq) = wait else { return Ok(()) };
                self.end(seq)
            }
        }
    }

    /// A run gets the answer once, and not while a person is still being asked.
    pub(super) fn elicitation(&mut self, e: &Envelope, event: &Tool) -> Held {
        if let Tool::ElicitationRequested { elicitation, .. } = event {
            let (_, wait) = self.find(e, |wait| matches!(wait, Wait::Run(_)))?;
            let Wait::Run(seq) = wait else { return Ok(()) };
            let call = self.calls.get_mut(&seq).ok_or("an elicitation about no call")?;
            held(call.elicited.insert(*elicitation), "asked twice")?;
            call.elicitations.push(*elicitation);
        } else if let Tool::ElicitationAnswered { elicitation, .. } = event {
            let of = e.of.unwrap_or_default();
            let open = self.waits.values().any(|(wait, _)| *wait == Wait::Elicitation(of));
            held(!open, "told before somebody has answered")?;
            held(self.runs(of), "told when it does not run")?;
            let call = self.calls.get_mut(&of).ok_or("a reply about no call")?;
            let first = call.elicitations.first() == Some(elicitation);
            held(first, "told what it did not want to know")?;
            call.elicitations.remove(0);
        }
        Ok(())
    }

    fn runs(&self, call: Seq) -> bool {
        self.waits.values().any(|(wait, _)| *wait == Wait::Run(call))
    }
}
