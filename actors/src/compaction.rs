//! Requests the summary that replaces older messages.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use leftfold_events::event::Compaction as CompactionEvent;
use leftfold_events::{Fact, Seq};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;

use crate::collect_reply;
use crate::messages::{CompactionMessage, SessionMessage};
use crate::report::{Heartbeat, broken, failed, tell};
use crate::world::Models;

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
        if let CompactionMessage::Summarise { compaction, ask } = message {
            let (requested, prices) = (ask.of, ask.prices);
            let (owner, models) = (writing.owner.clone(), writing.models.clone());
            let task = tokio::spawn(async move {
                let busy = |alive: &Heartbeat| tell(&owner, vec![alive.fact(requested)]);
                let written = collect_reply::read(&models, *ask, busy);
                let written = AssertUnwindSafe(written).catch_unwind().await;
                let failed_itself = |_| Err(broken("writing the summary failed unexpectedly"));
                let facts = match written.unwrap_or_else(failed_itself) {
                    Ok(written) => {
                        vec![written.replied(requested, prices), outcome(compaction, written.text)]
                    }
                    // `next` decides from the log whether to retry
                    Err(failure) => vec![failed(requested, failure)],
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

fn outcome(of: Seq, summary: String) -> Fact {
    let event = if summary.trim().is_empty() {
        CompactionEvent::Failed { message: "the model wrote an empty summary".to_owned() }
    } else {
        CompactionEvent::Finished { summary }
    };
    Fact::of(of, event)
}
