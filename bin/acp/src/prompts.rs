//! Prompts that a client waits for an answer to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use leftfold_events::event::{EndReason, Ended, Finish};
use tokio::sync::watch;

/// The prompts of one session, in the order in which they came.
#[derive(Default)]
pub(super) struct Prompts {
    waiting: Mutex<Waiting>,
    /// How often the client has taken prompts back.
    cancels: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    prompts: Vec<Prompt>,
}

struct Prompt {
    ticket: u64,
    responder: Responder<PromptResponse>,
    /// Its `turn.prompted` is in the log, so the next end of a turn is its answer.
    taken: bool,
    /// The client has taken it back, and is to be told so whatever the turn came to.
    cancelled: bool,
}

impl Prompts {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, responder: Responder<PromptResponse>) -> u64 {
        let mut waiting = self.lock();
        waiting.last += 1;
        let ticket = waiting.last;
        waiting.prompts.push(Prompt { ticket, responder, taken: false, cancelled: false });
        ticket
    }

    pub(super) fn cancel(&self) {
        self.lock().prompts.iter_mut().for_each(|prompt| prompt.cancelled = true);
        self.cancels.send_modify(|cancels| *cancels += 1);
    }

    /// Waits until the client takes this prompt back.
    pub(super) async fn taken_back(&self, ticket: u64) {
        let is = |prompt: &Prompt| prompt.ticket == ticket && prompt.cancelled;
        // this end holds the other one
        let _ = self.cancels.subscribe().wait_for(|_| self.lock().prompts.iter().any(is)).await;
    }

    /// Whether the client has taken back something that waits.
    pub(super) fn cancelled(&self) -> bool {
        self.lock().prompts.iter().any(|prompt| prompt.cancelled)
    }

    pub(super) fn any(&self) -> bool {
        !self.lock().prompts.is_empty()
    }

    /// Answers a prompt that was taken back before it was passed on. False: it was not.
    pub(super) fn answer_cancelled(&self, ticket: u64) -> bool {
        let found = self.remove(|prompt| prompt.ticket == ticket && prompt.cancelled);
        let cancelled = !found.is_empty();
        for prompt in found {
            answer(prompt, Ok(StopReason::Cancelled));
        }
        cancelled
    }

    /// A prompt of this client's has come into the log: the first that has not yet.
    pub(super) fn taken(&self) {
        if let Some(prompt) = self.lock().prompts.iter_mut().find(|prompt| !prompt.taken) {
            prompt.taken = true;
        }
    }

    /// A turn has ended: that is the answer to every prompt in it.
    pub(super) fn ended(&self, ended: &Ended, finish: Option<Finish>) {
        for prompt in self.remove(|prompt| prompt.taken) {
            let stop =
                if prompt.cancelled { Ok(StopReason::Cancelled) } else { stop(ended, finish) };
            answer(prompt, stop);
        }
    }

    pub(super) fn fail(&self, ticket: u64, error: &Error) {
        for prompt in self.remove(|prompt| prompt.ticket == ticket) {
            answer(prompt, Err(error.clone()));
        }
    }

    pub(super) fn fail_all(&self, error: &Error) {
        for prompt in self.remove(|_| true) {
            answer(prompt, Err(error.clone()));
        }
    }

    fn remove(&self, which: impl Fn(&Prompt) -> bool) -> Vec<Prompt> {
        self.lock().prompts.extract_if(.., |prompt| which(prompt)).collect()
    }
}

fn answer(prompt: Prompt, stop: Result<StopReason, Error>) {
    let answered = prompt.responder.respond_with_result(stop.map(PromptResponse::new));
    if let Err(error) = answered {
        tracing::debug!("the client is gone: {error}");
    }
}

/// What the end of a turn is to the protocol. A failure is an error.
fn stop(ended: &Ended, finish: Option<Finish>) -> Result<StopReason, Error> {
    match (ended.reason, finish) {
        (EndReason::Completed, Some(Finish::Length)) => Ok(StopReason::MaxTokens),
        (EndReason::Completed | EndReason::Error, Some(Finish::ContentFilter)) => {
            Ok(StopReason::Refusal)
        }
        // the person who rejected the call knows why the turn is over
        (EndReason::Completed | EndReason::Blocked, _) => Ok(StopReason::EndTurn),
        (EndReason::Aborted, _) => Ok(StopReason::Cancelled),
        (EndReason::MaxSteps | EndReason::Limit, _) => Ok(StopReason::MaxTurnRequests),
        (EndReason::Error, _) => {
            let what = ended.error.as_deref().unwrap_or("the turn failed");
            Err(Error::new(Error::internal_error().code, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_stop_reason() {
        let stop = |reason, finish| {
            let ended = Ended {
                reason,
                text: String::new(),
                usage: leftfold_events::event::Usage::default(),
                cost: 0.0,
                steps: 1,
                permission_denials: Vec::new(),
                error: Some("no such model".into()),
            };
            stop(&ended, finish).map_err(|error| error.message)
        };
        assert_eq!(stop(EndReason::Completed, Some(Finish::Stop)), Ok(StopReason::EndTurn));
        assert_eq!(stop(EndReason::Completed, Some(Finish::Length)), Ok(StopReason::MaxTokens));
        assert_eq!(stop(EndReason::Error, Some(Finish::ContentFilter)), Ok(StopReason::Refusal));
        assert_eq!(stop(EndReason::Blocked, None), Ok(StopReason::EndTurn));
        assert_eq!(stop(EndReason::Aborted, None), Ok(StopReason::Cancelled));
        assert_eq!(stop(EndReason::MaxSteps, None), Ok(StopReason::MaxTurnRequests));
        assert_eq!(stop(EndReason::Error, None), Err("no such model".to_owned()));
    }
}
