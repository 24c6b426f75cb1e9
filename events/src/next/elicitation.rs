//! What a running call asks people: one field after the other, each as a question of its own.

use super::about;
use crate::event::{Access, Consent, Envelope, Permission, Tool};
use crate::form;
use crate::rules::Action;
use crate::state::{Call, State};

/// What the first elicitation of a running call needs next: a question, or its end. `None` while a
/// person is asked.
pub(super) fn elicit(s: &State, c: &Call) -> Option<Envelope> {
    let elicitation = c.elicitations.first()?;
    let over = |consent, values: &[_]| {
        let (call, content) = (c.id.clone(), form::content(values));
        let elicitation = elicitation.id;
        about(s, c, None, Tool::ElicitationAnswered { call, elicitation, consent, content })
    };
    if elicitation.wait.is_some() {
        return None;
    }
    if let Some(consent) = elicitation.end {
        return Some(over(consent, &[]));
    }
    if form::fields(&elicitation.message, &elicitation.wanted).is_err() {
        return Some(over(Consent::Cancelled, &[]));
    }
    let Some((_, access)) = elicitation.access() else {
        return Some(over(Consent::Accepted, &elicitation.values));
    };
    if s.rules_in_force().access(&access).0 == Action::Deny {
        return Some(over(Consent::Declined, &[]));
    }
    let (call, Access { permission, patterns, always }) = (c.id.clone(), access);
    let asked = Permission::Asked { call, permission, patterns, always };
    Some(about(s, c, Some(s.config.options.ask_for), asked))
}
