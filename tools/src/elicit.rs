//! What a running tool asks people, in the middle of a call.

use std::sync::Arc;

use futures::future::BoxFuture;
use leftfold_events::Json;
use leftfold_events::event::{Consent, Wanted};

/// One thing that a tool wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Who wants to know, as people know it.
    pub from: String,
    pub message: String,
    pub wanted: Wanted,
}

/// What was said to it: with a consent the values, by the names of their fields.
pub type Reply = (Consent, Json);

/// Has people asked. While they think, the call's own time stands still.
pub type Elicit = Arc<dyn Fn(Elicitation) -> BoxFuture<'static, Reply> + Send + Sync>;

/// Where there is nobody who could be asked.
pub(crate) fn nobody() -> Elicit {
    Arc::new(|_| Box::pin(async { (Consent::Cancelled, Json::object()) }))
}
