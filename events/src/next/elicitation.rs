//! Questions of a running call to people: one field at a time, each as a question of its own.

use super::about;
use crate::event::{Access, Consent, Envelope, Permission, Tool};
use crate::form;
use crate::rules::Action;
use crate::state::{Call, State};

/// The next intent of a running call's first elicitation: a question, or the answer for the tool.
/// `None` while a person is being asked.
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
    if elicitation.is_impossible() {
        return Some(over(Consent::Cancelled, &[]));
    }
    let Some(access) = elicitation.access() else {
        return Some(over(Consent::Accepted, &elicitation.values));
    };
    match s.rules_in_force().verdict_on_access(&access, &[]).0 {
        Action::Allow => return Some(over(Consent::Accepted, &[])),
        Action::Deny => return Some(over(Consent::Declined, &[])),
        Action::Ask => {}
    }
    let (call, Access { permission, patterns, always }) = (c.id.clone(), access);
    let asked = Permission::Asked { call, permission, patterns, always };
    Some(about(s, c, Some(s.config.options.ask_for), asked))
}
