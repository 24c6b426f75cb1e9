//! Questions of running calls to people, and the channels for the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leftfold_events::event::{Consent, Event, Tool};
use leftfold_events::{Fact, Json, Secrets, Seq};
use leftfold_tools::{Elicit, Elicitation, ElicitationReply};
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::messages::SessionMessage;
use crate::report::tell;

/// By the seq of the call's `tool.called` and the number of the question.
type Open = HashMap<(Seq, u32), oneshot::Sender<ElicitationReply>>;

#[derive(Clone, Default)]
pub(crate) struct Elicitations(Arc<Mutex<Open>>);

impl Elicitations {
    /// The questions of the run of `call` that the intent `of` has started.
    pub(crate) fn of_run(
        &self,
        of: Seq,
        call: Seq,
        owner: ActorRef<SessionMessage>,
        secrets: Secrets,
    ) -> Elicit {
        let (open, last) = (self.clone(), AtomicU32::new(0));
        Arc::new(move |Elicitation { from, message, wanted }| {
            let elicitation = last.fetch_add(1, Ordering::Relaxed) + 1;
            let (reply, replied) = oneshot::channel();
            open.lock().insert((call, elicitation), reply);
            let mut asked =
                Event::from(Tool::ElicitationRequested { elicitation, from, message, wanted });
            secrets.redact(&mut asked);
            tell(&owner, vec![Fact::of(of, asked)]);
            Box::pin(async move {
                // the run is over, so its question is cancelled
                replied.await.unwrap_or((Consent::Cancelled, Json::object()))
            })
        })
    }

    pub(crate) fn reply(&self, call: Seq, elicitation: u32, reply: ElicitationReply) {
        if let Some(asked) = self.lock().remove(&(call, elicitation)) {
            // the tool may have continued without the answer
            let _ = asked.send(reply);
        }
    }

    /// Drops the questions of a call whose run has ended or is about to begin again.
    pub(crate) fn forget(&self, call: Seq) {
        self.lock().retain(|(of, _), _| *of != call);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
