//! Collects a reply that is not shown while it streams: a summary, a title.

use futures::StreamExt;
use futures::stream::BoxStream;
use leftfold_events::event::{Exchange, Finish, Model, Usage};
use leftfold_events::turn_config::Prices;
use leftfold_events::{Fact, Request, Seq};
use leftfold_providers::{Failure, Provider, StreamEvent};
use ractor::ActorRef;
use tracing::Instrument;

use crate::messages::{AskModel, SessionMessage};
use crate::report::{Heartbeat, broken, failed, hide, noted, unknown_provider};
use crate::world::Models;

/// A model's complete text.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) finish: Finish,
    usage: Usage,
    exchange: Box<Exchange>,
}

/// A text that was not written, and the exchange as far as it came.
pub(crate) struct Unwritten {
    failure: Failure,
    exchange: Box<Exchange>,
}

impl From<Failure> for Unwritten {
    fn from(failure: Failure) -> Self {
        Self { failure, exchange: Box::default() }
    }
}

impl Unwritten {
    /// The outcome of the request.
    pub(crate) fn failed(self, requested: Seq) -> Fact {
        noted(failed(requested, self.failure), *self.exchange)
    }
}

/// Starts a request, and has the provider hand out the exchange if it is to be recorded.
pub(crate) fn start(
    provider: &dyn Provider,
    request: Request,
    is_recorded: bool,
) -> BoxStream<'static, StreamEvent> {
    if is_recorded { provider.recorded(request) } else { provider.stream(request) }
}

impl Written {
    /// The outcome of the request.
    pub(crate) fn replied(&self, requested: Seq, prices: Prices) -> Fact {
        let Self { finish, usage, exchange, .. } = self;
        let mut exchange = exchange.clone();
        let event = Model::Finished {
            finish: *finish,
            usage: *usage,
            cost: prices.cost(usage),
            body_sha256: exchange.body_sha256.take().unwrap_or_default(),
        };
        noted(Fact::for_intent(requested, event), *exchange)
    }
}

/// Reads a whole reply. It calls `busy` from time to time while the reply is still streaming.
pub(crate) async fn read(
    session: &ActorRef<SessionMessage>,
    models: &Models,
    ask: AskModel,
    busy: impl Fn(&Heartbeat),
) -> Result<Written, Unwritten> {
    let span = ask.span.clone();
    collect(session, models, ask, busy).instrument(span).await
}

async fn collect(
    session: &ActorRef<SessionMessage>,
    models: &Models,
    ask: AskModel,
    busy: impl Fn(&Heartbeat),
) -> Result<Written, Unwritten> {
    let AskModel { request, patience, extra, mut record, .. } = ask;
    let Some(provider) = models.get(&request.model.provider, &extra) else {
        return Err(unknown_provider(&request).into());
    };
    let mut alive = Heartbeat::new(patience);
    let mut stream = start(&*provider, request, record.is_some());
    let (mut text, mut exchange) = (String::new(), Box::<Exchange>::default());
    while let Some(event) = stream.next().await {
        if alive.is_due() {
            busy(&alive);
            alive.told();
        }
        match event {
            StreamEvent::Start { body_sha256 } => exchange.body_sha256 = Some(body_sha256),
            StreamEvent::Credentials(credentials) => hide(session, credentials),
            StreamEvent::RequestId(id) => exchange.request_id = Some(id),
            StreamEvent::Exchanged(exchanged) => {
                if let Some(record) = record.take() {
                    exchange.record = record.keep(*exchanged).await;
                }
            }
            StreamEvent::TextDelta { text: piece, .. } => text.push_str(&piece),
            StreamEvent::Finish { finish, usage } => {
                return Ok(Written { text, finish, usage, exchange });
            }
            StreamEvent::Failed(failure) => return Err(Unwritten { failure, exchange }),
            _ => {}
        }
    }
    Err(Unwritten { failure: broken("the reply broke off before its end"), exchange })
}
