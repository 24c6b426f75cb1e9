//! Elicitations: questions that a running tool asks a person in the middle of a call.

use std::sync::Arc;

use futures::future::BoxFuture;
use leftfold_events::Json;
use leftfold_events::event::{Consent, Wanted};

/// One question of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// The tool or server that asks, by the name that people know.
    pub from: String,
    pub message: String,
    pub wanted: Wanted,
}

/// The person's answer: whether they consent and, if so, the values by field name.
pub type ElicitationReply = (Consent, Json);

/// Asks a person. The call's own time limit stands still until the answer.
pub type Elicit = Arc<dyn Fn(Elicitation) -> BoxFuture<'static, ElicitationReply> + Send + Sync>;

/// For contexts in which nobody can be asked.
pub(crate) fn nobody_to_ask() -> Elicit {
    Arc::new(|_| Box::pin(async { (Consent::Cancelled, Json::object()) }))
}

/// For a call that a person makes, who has allowed it by that.
pub(crate) fn allowed() -> Elicit {
    Arc::new(|elicitation| {
        let is_permission = matches!(elicitation.wanted, Wanted::Permission { .. });
        let consent = if is_permission { Consent::Accepted } else { Consent::Cancelled };
        Box::pin(async move { (consent, Json::object()) })
    })
}
