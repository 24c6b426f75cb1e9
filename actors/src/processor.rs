//! Reads a model's reply from its provider's stream and sends it to the session, in pieces that are
//! large enough to be worth a flush and small enough to be read while they stream.

use std::sync::Arc;
use std::task::Poll;

use futures::{StreamExt, poll};
use leftfold_events::event::{Exchange, Model, Purpose, Session, Tool};
use leftfold_events::{Fact, Secrets, title};
use leftfold_providers::{Provider, StreamEvent};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::coalesce::{Coalescer, InputSizes};
use crate::collect_reply;
use crate::messages::{AskModel, ProcessorMessage, SessionMessage};
use crate::report::{Heartbeat, broken, failed, hide, noted, tell, unknown_provider};
use crate::tasks::Tasks;
use crate::world::Models;

pub(crate) struct Processor;

/// Messages with pieces of a reply that may wait to be settled. More are not read from the provider.
const MAX_UNSETTLED: usize = 64;

/// The session that receives the pieces of a reply, with back-pressure.
struct Listener {
    session: ActorRef<SessionMessage>,
    room: Arc<Semaphore>,
}

impl Listener {
    /// Waits until the session has settled enough of what it was told before.
    async fn tell(&self, facts: Vec<Fact>) {
        if facts.is_empty() {
            return;
        }
        // nobody closes it
        let Ok(room) = Arc::clone(&self.room).acquire_owned().await else { return };
        if self.session.cast(SessionMessage::Streamed { facts, room }).is_err() {
            tracing::debug!("the session is gone: pieces of a reply were dropped");
        }
    }
}

pub(crate) struct Reading {
    owner: ActorRef<SessionMessage>,
    models: Models,
    secrets: Secrets,
    task: Option<AbortHandle>,
    /// The requests for the title and the summary.
    beside: Vec<AbortHandle>,
    tasks: Tasks,
}

impl Actor for Processor {
    type Msg = ProcessorMessage;
    type State = Reading;
    type Arguments = (ActorRef<SessionMessage>, Models, Secrets);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (owner, models, secrets): Self::Arguments,
    ) -> Result<Reading, ActorProcessingErr> {
        Ok(Reading {
            owner,
            models,
            secrets,
            task: None,
            beside: Vec::new(),
            tasks: Tasks::default(),
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: ProcessorMessage,
        reading: &mut Reading,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ProcessorMessage::Ask(ask) => {
                reading.cancel();
                reading.start(*ask);
            }
            ProcessorMessage::Use(models, secrets) => {
                (reading.models, reading.secrets) = (models, secrets);
            }
            ProcessorMessage::Cancel => reading.cancel(),
            ProcessorMessage::Title(ask) => reading.entitle(*ask),
            ProcessorMessage::CancelAll => reading.cancel_all(),
        }
        Ok(())
    }
}

impl Reading {
    fn start(&mut self, ask: AskModel) {
        let (of, span) = (ask.of, ask.span.clone());
        let (owner, pieces) = (self.owner.clone(), Coalescer::new(self.secrets.clone()));
        let provider = self.models.get(&ask.request.model.provider, &ask.extra);
        let Some(provider) = provider else {
            return tell(&owner, vec![failed(of, unknown_provider(&ask.request))]);
        };
        let listener =
            Listener { session: owner.clone(), room: Arc::new(Semaphore::new(MAX_UNSETTLED)) };
        let reading = async move { read(&listener, provider, ask, pieces).await };
        let task = self.tasks.spawn(reading.instrument(span), move |read| {
            if read.is_none() {
                tell(&owner, vec![failed(of, broken("reading the reply failed unexpectedly"))]);
            }
        });
        self.task = Some(task);
    }

    fn entitle(&mut self, ask: AskModel) {
        let (of, owner, models) = (ask.of, self.owner.clone(), self.models.clone());
        let session = owner.clone();
        let writing = async move { text_about_session(&session, &models, ask).await };
        let task = self.tasks.spawn(writing, move |text| {
            let failed_itself =
                || vec![failed(of, broken("writing the title failed unexpectedly"))];
            tell(&owner, text.unwrap_or_else(failed_itself));
        });
        self.beside.push(task);
    }

    /// Dropping the stream closes the connection.
    fn cancel(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    fn cancel_all(&mut self) {
        self.cancel();
        self.beside.drain(..).for_each(|task| task.abort());
    }
}

/// The title or the summary, if the model wrote one, and the outcome of the request.
async fn text_about_session(
    session: &ActorRef<SessionMessage>,
    models: &Models,
    ask: AskModel,
) -> Vec<Fact> {
    let (of, prices, purpose) = (ask.of, ask.prices, ask.request.purpose);
    match collect_reply::read(session, models, ask, |_| {}).await {
        Ok(written) => {
            let event = if purpose == Purpose::SessionSummary {
                title::clean_summary(&written.text).map(|summary| Session::Summarised { summary })
            } else {
                title::clean(&written.text).map(|title| Session::Titled { title })
            };
            let fact = event.map(|event| Fact::for_intent(of, event));
            fact.into_iter().chain([written.replied(of, prices)]).collect()
        }
        Err(lost) => vec![lost.failed(of)],
    }
}

/// Reads one reply to its end. The last fact is exactly one `model.finished` or `model.failed`.
async fn read(
    listener: &Listener,
    provider: Arc<dyn Provider>,
    ask: AskModel,
    mut pieces: Coalescer,
) {
    let of = ask.of;
    let mut stream = collect_reply::start(&*provider, ask.request, ask.record.is_some());
    let (mut record, mut exchange) = (ask.record, Exchange::default());
    let mut alive = Heartbeat::new(ask.patience);
    let mut inputs = InputSizes::default();
    let mut facts = Vec::new();
    loop {
        // events that came together are told together, so that they share a flush
        let came = if facts.len() < MAX_UNSETTLED { poll!(stream.next()) } else { Poll::Pending };
        let event = if let Poll::Ready(event) = came {
            event
        } else {
            if pieces.is_first() {
                facts.extend(pieces.take(of));
            }
            if !facts.is_empty() {
                alive.told();
                listener.tell(std::mem::take(&mut facts)).await;
            }
            tokio::select! {
                event = stream.next() => event,
                () = pieces.due() => {
                    facts.extend(pieces.take(of));
                    continue;
                }
            }
        };
        if let Some(event) = &event {
            inputs.push(event, Instant::now());
        }
        let over = match event {
            Some(StreamEvent::Start { body_sha256 }) => {
                exchange.body_sha256 = Some(body_sha256);
                false
            }
            Some(StreamEvent::Credentials(credentials)) => {
                hide(&listener.session, credentials);
                false
            }
            Some(StreamEvent::RequestId(id)) => {
                exchange.request_id = Some(id);
                false
            }
            Some(StreamEvent::Exchanged(exchanged)) => {
                if let Some(record) = record.take() {
                    exchange.record = record.keep(*exchanged).await;
                }
                false
            }
            Some(StreamEvent::ToolCall(call)) => {
                facts.extend(pieces.take(of));
                facts.push(Fact::for_intent(of, Tool::Called { call }));
                false
            }
            Some(StreamEvent::Finish { finish, usage }) => {
                tracing::debug!(?finish, "the reply is complete");
                facts.extend(pieces.take_all(of));
                let cost = ask.prices.cost(&usage);
                let body_sha256 = exchange.body_sha256.take().unwrap_or_default();
                let finished = Model::Finished { finish, usage, cost, body_sha256 };
                facts.push(noted(Fact::for_intent(of, finished), std::mem::take(&mut exchange)));
                true
            }
            Some(StreamEvent::Failed(failure)) => {
                tracing::debug!("the request failed: {}", failure.message);
                facts.extend(pieces.take_all(of));
                facts.push(noted(failed(of, failure), std::mem::take(&mut exchange)));
                true
            }
            None => {
                facts.extend(pieces.take_all(of));
                let failed = failed(of, broken("the reply broke off before its end"));
                facts.push(noted(failed, std::mem::take(&mut exchange)));
                true
            }
            Some(event) => {
                pieces.push(event);
                if pieces.is_full() {
                    facts.extend(pieces.take(of));
                } else if let Some(grown) = inputs.take(of, Instant::now()) {
                    facts.push(grown);
                } else if alive.is_due() {
                    facts.push(alive.fact(of));
                }
                false
            }
        };
        if over {
            return listener.tell(facts).await;
        }
    }
}
