//! Collects a reply that is not shown while it streams: a summary, a title.

use futures::StreamExt;
use leftfold_events::event::{Finish, Model, Usage};
use leftfold_events::turn_config::Prices;
use leftfold_events::{Fact, Seq, Sha256};
use leftfold_providers::{Failure, StreamEvent};
use tracing::Instrument;

use crate::messages::AskModel;
use crate::report::{Heartbeat, broken, unknown_provider};
use crate::world::Models;

/// A model's complete text.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    usage: Usage,
    body_sha256: Sha256,
}

impl Written {
    /// The outcome of the request.
    pub(crate) fn replied(&self, requested: Seq, prices: Prices) -> Fact {
        let Self { finish, usage, body_sha256, .. } = self;
        let event = Model::Finished {
            finish: *finish,
            usage: *usage,
            cost: prices.of(usage),
            body_sha256: *body_sha256,
        };
        Fact::of(requested, event)
    }
}

/// Reads a whole reply. It calls `busy` from time to time while the reply is still streaming.
pub(crate) async fn read(
    models: &Models,
    ask: AskModel,
    busy: impl Fn(&Heartbeat),
) -> Result<Written, Failure> {
    let span = ask.span.clone();
    collect(models, ask, busy).instrument(span).await
}

async fn collect(
    models: &Models,
    ask: AskModel,
    busy: impl Fn(&Heartbeat),
) -> Result<Written, Failure> {
    let AskModel { request, patience, extra, .. } = ask;
    let Some(provider) = models.get(&request.model.provider, &extra) else {
        return Err(unknown_provider(&request));
    };
    let mut alive = Heartbeat::new(patience);
    let mut stream = provider.stream(request);
    let (mut text, mut body_sha256) = (String::new(), Sha256::default());
    while let Some(event) = stream.next().await {
        if alive.is_due() {
            busy(&alive);
            alive.told();
        }
        match event {
            StreamEvent::Start { body_sha256: sha256 } => body_sha256 = sha256,
            StreamEvent::TextDelta { text: piece, .. } => text.push_str(&piece),
            StreamEvent::Finish { finish, usage } => {
                return Ok(Written { text, finish, usage, body_sha256 });
            }
            StreamEvent::Failed(failure) => return Err(failure),
            StreamEvent::RequestId(_)
            | StreamEvent::Exchanged(_)
            | StreamEvent::TextStart { .. }
            | StreamEvent::TextEnd { .. }
            | StreamEvent::ReasoningStart { .. }
            | StreamEvent::ReasoningDelta { .. }
            | StreamEvent::ReasoningEnd { .. }
            | StreamEvent::ToolInputStart { .. }
            | StreamEvent::ToolInputDelta { .. }
            | StreamEvent::ToolCall(_) => {}
        }
    }
    Err(broken("the reply broke off before its end"))
}
