//! Compaction: requests the summary that replaces older messages.
//!
//! `events/src/next/compaction.rs` decides when, and `events/src/state/compacting.rs` puts the summary into the
//! conversation.

use leftfold_events::event::Compaction as CompactionEvent;
use leftfold_events::{Fact, Seq};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;

use crate::collect_reply;
use crate::messages::{AskModel, CompactionMessage, SessionMessage};
use crate::report::{Heartbeat, broken, tell};
use crate::tasks::Tasks;
use crate::world::Models;

pub(crate) struct Compaction;

pub(crate) struct Writing {
    owner: ActorRef<SessionMessage>,
    models: Models,
    task: Option<AbortHandle>,
    tasks: Tasks,
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
        Ok(Writing { owner, models, task: None, tasks: Tasks::default() })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: CompactionMessage,
        writing: &mut Writing,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CompactionMessage::Summarise { compaction, ask, whole } => {
                writing.summarise(compaction, *ask, whole);
            }
            CompactionMessage::Use(models) => writing.models = models,
            CompactionMessage::Cancel => writing.cancel(),
        }
        Ok(())
    }
}

impl Writing {
    fn summarise(&mut self, compaction: Seq, ask: AskModel, whole: bool) {
        self.cancel();
        let (requested, prices) = (ask.of, ask.prices);
        let (owner, models) = (self.owner.clone(), self.models.clone());
        let to = owner.clone();
        let written = async move {
            let busy = |alive: &Heartbeat| tell(&to, vec![alive.fact(requested)]);
            collect_reply::read(&to, &models, ask, busy).await
        };
        let task = self.tasks.spawn(written, move |written| {
            let failed_itself = || Err(broken("writing the summary failed unexpectedly").into());
            let facts = match written.unwrap_or_else(failed_itself) {
                Ok(written) if whole && written.finish.is_cut_off() => {
                    vec![written.replied(requested, prices)]
                }
                Ok(written) => {
                    vec![written.replied(requested, prices), outcome(compaction, written.text)]
                }
                // `next` decides from the log whether to retry
                Err(lost) => vec![lost.failed(requested)],
            };
            tell(&owner, facts);
        });
        self.task = Some(task);
    }

    fn cancel(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

fn outcome(of: Seq, summary: String) -> Fact {
    let event = if summary.trim().is_empty() {
        CompactionEvent::Failed { message: "the model wrote an empty summary".to_owned() }
    } else {
        CompactionEvent::Finished { summary }
    };
    Fact::for_intent(of, event)
}
