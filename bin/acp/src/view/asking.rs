//! Questions about calls, as a client is asked them.

use agent_client_protocol::v1::schema::{ToolCallStatus, ToolCallUpdate};
use leftfold_events::event::{Answer, Permission};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq};

use super::{Question, Told, View, options};
use crate::{calls, inquiry};
use leftfold_view::question;

impl View {
    pub(super) fn permission(&mut self, event: &Permission, envelope: &Envelope) -> Vec<Told> {
        let of = envelope.of.unwrap_or_default();
        match event {
            Permission::Ruled { action: Action::Deny, .. } => {
                self.fail(of, "Denied by the permission rules.")
            }
            Permission::Ruled { .. } => Vec::new(),
            Permission::Asked { permission, patterns, always, .. } => {
                self.of_call.insert(envelope.seq, of);
                let (what, answers, options) = match self.inquiries.asked(envelope.seq) {
                    Some(asked) => {
                        let answers = inquiry::answers(asked);
                        let options = inquiry::options(&answers);
                        (inquiry::text(asked), answers, options)
                    }
                    None => {
                        let what = format!("{permission}: {}", patterns.join(", "));
                        (what, Vec::new(), options(permission, always))
                    }
                };
                let call = self.question(of, &what);
                let asked = (envelope.session, envelope.seq);
                let change = self.inquiries.change(envelope.seq);
                let inquiry = self.inquiries.asked(envelope.seq).cloned();
                let question = Question { asked, call, options, inquiry, answers, change };
                vec![Told::Ask(Box::new(question))]
            }
            Permission::Answered { reply, feedback, by } => {
                let mut told = vec![Told::Settled((envelope.session, of))];
                if *reply == Answer::Reject {
                    let why = feedback.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                    told.extend(self.refused(of, &format!("Rejected by {by}{why}")));
                }
                told
            }
        }
    }

    /// The call that a question is about, with all that was said of it.
    fn question(&self, call: Seq, what: &str) -> ToolCallUpdate {
        let known = self.calls.get(&call).map(|shown| shown.fields.clone()).unwrap_or_default();
        let mut fields = known.status(ToolCallStatus::Pending).content(calls::text(what));
        if let Some((_, agent)) = &self.child {
            fields.title = fields.title.map(|title| format!("{agent}: {title}"));
        }
        ToolCallUpdate::new(self.id(call), fields)
    }

    /// A question has found no yes, which ends its call unless that runs already.
    pub(super) fn refused(&self, of: Seq, why: &str) -> Vec<Told> {
        if self.inquiries.asked(of).is_some_and(question::Question::in_run) {
            return Vec::new();
        }
        self.fail(self.call_of(of), why)
    }
}
