//! Has a model write the summary that takes the place of older messages.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use leftfold_events::event::{Compaction as CompactionEvent, Model};
use leftfold_events::kit::Prices;
use leftfold_events::{Fact, Request, Seq, Sha256};
use leftfold_providers::{Failure, StreamEvent};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;

use crate::report::{Alive, broken, failed, tell, unknown_provider};
use crate::session::SessionMessage;
use crate::world::Models;

pub(crate) enum CompactionMessage {
    /// For the compaction `of`, with the request `requested`.
    Summarise {
        of: Seq,
        requested: Seq,
        request: Box<Request>,
        prices: Prices,
        patience: Duration,
    },
    Cancel,
}

pub(crate) struct Compaction;

pub(crate) struct Writing {
    owner: ActorRef<SessionMessage>,
    models: Models,
    task: Option<AbortHandle>,
}

impl Actor for Compaction {
    type Msg = CompactionMessage;
    type State = Writing;
    type Arguments = (ActorRef<SessionMessage>, Models);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (owner, models): Self::Arguments,
    ) -> Result<Writing, ActorProcessingErr> {
        Ok(Writing { owner, models, task: None })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: CompactionMessage,
        writing: &mut Writing,
    ) -> Result<(), ActorProcessingErr> {
        writing.cancel();
        if let CompactionMessage::Summarise { of, requested, request, prices, patience } = message {
            let (owner, models) = (writing.owner.clone(), writing.models.clone());
            let task = tokio::spawn(async move {
                let alive = Alive::new(patience);
                let written = summarise(
                    &models,
                    *request,
                    |alive| tell(&owner, vec![alive.fact(requested)]),
                    alive,
                );
                let written = AssertUnwindSafe(written).catch_unwind().await;
                let failed_itself = |_| Err(broken("writing the summary failed unexpectedly"));
                let facts = match written.unwrap_or_else(failed_itself) {
                    Ok(written) => written.facts(of, requested, prices),
                    Err(failure) => {
                        let message = format!("the summary failed: {}", failure.message);
                        let event = CompactionEvent::Failed { message };
                        vec![failed(requested, failure), Fact::of(of, event)]
                    }
                };
                tell(&owner, facts);
            });
            writing.task = Some(task.abort_handle());
        }
        Ok(())
    }
}

impl Writing {
    fn cancel(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.cancel();
    }
}

struct Written {
    summary: String,
    finish: leftfold_events::event::Finish,
    usage: leftfold_events::event::Usage,
    body_sha256: Sha256,
}

impl Written {
    fn facts(self, of: Seq, requested: Seq, prices: Prices) -> Vec<Fact> {
        let Self { summary, finish, usage, body_sha256 } = self;
        let cost = prices.of(&usage);
        let replied = Fact::of(requested, Model::Replied { finish, usage, cost, body_sha256 });
        let outcome = if summary.trim().is_empty() {
            CompactionEvent::Failed { message: "the model wrote an empty summary".to_owned() }
        } else {
            CompactionEvent::Finished { summary }
        };
        vec![replied, Fact::of(of, outcome)]
    }
}

/// Reads the whole summary; `busy` is told now and then that it is still coming.
async fn summarise(
    models: &Models,
    request: Request,
    busy: impl Fn(&Alive),
    mut alive: Alive,
) -> Result<Written, Failure> {
    let Some(provider) = models.get(&request.model.provider) else {
        return Err(unknown_provider(&request));
    };
    let mut stream = provider.stream(request);
    let (mut summary, mut body_sha256) = (String::new(), Sha256::default());
    while let Some(event) = stream.next().await {
        if alive.is_due() {
            busy(&alive);
            alive.told();
        }
        match event {
            StreamEvent::Start { body_sha256: sha256 } => body_sha256 = sha256,
            StreamEvent::TextDelta { text, .. } => summary.push_str(&text),
            StreamEvent::Finish { finish, usage } => {
                return Ok(Written { summary, finish, usage, body_sha256 });
            }
            StreamEvent::Failed(failure) => return Err(failure),
            StreamEvent::TextStart { .. }
            | StreamEvent::TextEnd { .. }
            | StreamEvent::ReasoningStart { .. }
            | StreamEvent::ReasoningDelta { .. }
            | StreamEvent::ReasoningEnd { .. }
            | StreamEvent::ToolInputStart { .. }
            | StreamEvent::ToolInputDelta { .. }
            | StreamEvent::ToolCall(_) => {}
        }
    }
    Err(broken("the summary broke off before its end"))
}
