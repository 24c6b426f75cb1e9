//! Rules for events beside turns, models and calls: files, and plugins' answers.

use leftfold_events::event::{Files, Hook, HookPoint};
use leftfold_events::{Envelope, Seq, Time};

use super::{Held, Ledger, Wait, held};

impl Ledger {
    /// The wait for a summary is as long as that for its request.
    pub(super) fn waits_as_long(&mut self, as_long: Time) {
        let waits = self.waits.values_mut().filter(|(wait, _)| *wait == Wait::Compaction);
        waits.for_each(|(_, until)| *until = as_long);
    }

    pub(super) fn files(&mut self, e: &Envelope, event: &Files) -> Held {
        match event {
            Files::SnapshotStarted {} => self.wait(e, Wait::Snapshot),
            Files::RestoreStarted { .. } => self.wait(e, Wait::Restore),
            Files::Snapshotted { .. }
            | Files::SnapshotFailed { .. }
            | Files::SnapshotFailedAs { .. } => {
                self.outcome(e, |wait| wait == Wait::Snapshot).map(drop)
            }
            Files::Restored { .. }
            | Files::RestoreFailed { .. }
            | Files::RestoreFailedAs { .. } => {
                self.outcome(e, |wait| wait == Wait::Restore).map(drop)
            }
            Files::RevertAsked { .. }
            | Files::UnrevertAsked { .. }
            | Files::CheckoutAsked { .. } => {
                held(self.turn.is_none(), "a revert in the middle of a turn")
            }
            Files::SnapshotsAccepted { .. } => held(false, "nothing is imported here"),
        }
    }

    pub(super) fn plugin(&mut self, e: &Envelope, event: &Hook) -> Held {
        match event {
            Hook::Called { hook, .. } => {
                let about = e.of.filter(|_| *hook == HookPoint::PermissionAsk);
                self.wait(e, Wait::Hook(about))
            }
            Hook::Returned { output, .. } => {
                let wait = self.outcome(e, |wait| matches!(wait, Wait::Hook(_)))?;
                let ruled_anew = e.of.is_some_and(|of| of < self.configured);
                let yes = ruled_anew || output.value()["status"] == "allow";
                let Wait::Hook(Some(call)) = wait else { return Ok(()) };
                if yes { self.answer(call) } else { Ok(()) }
            }
        }
    }

    /// A plugin has allowed the call, or rules that were configured since it was asked ask nobody.
    pub(super) fn answer(&mut self, call: Seq) -> Held {
        let call = self.calls.get_mut(&call).ok_or("about a call that nobody made")?;
        call.answered = true;
        Ok(())
    }
}
