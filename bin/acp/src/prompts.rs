//! The prompts for which a client waits for an answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use leftfold_events::event::{EndReason, Ended, Finish};
use tokio::sync::watch;

/// The prompts of one session, in the order in which they came.
#[derive(Default)]
pub(super) struct PendingPrompts {
    waiting: Mutex<Waiting>,
    /// The number of the client's cancels.
    cancels: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    prompts: Vec<PendingPrompt>,
}

struct PendingPrompt {
    ticket: u64,
    responder: Responder<PromptResponse>,
    /// Its `turn.prompted` is in the log, so the next end of a turn is its answer.
    taken: bool,
    /// The client has cancelled it, and gets that answer however the turn ends.
    cancelled: bool,
}

impl PendingPrompts {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, responder: Responder<PromptResponse>) -> u64 {
        let mut waiting = self.lock();
        waiting.last += 1;
        let ticket = waiting.last;
        waiting.prompts.push(PendingPrompt { ticket, responder, taken: false, cancelled: false });
        ticket
    }

    pub(super) fn cancel(&self) {
        self.lock().prompts.iter_mut().for_each(|prompt| prompt.cancelled = true);
        self.cancels.send_modify(|cancels| *cancels += 1);
    }

    /// Waits until the client cancels this prompt.
    pub(super) async fn taken_back(&self, ticket: u64) {
        let is = |prompt: &PendingPrompt| prompt.ticket == ticket && prompt.cancelled;
        // The sender is held by this value, so waiting cannot fail.
        let _ = self.cancels.subscribe().wait_for(|_| self.lock().prompts.iter().any(is)).await;
    }

    /// Whether the client has cancelled a waiting prompt.
    pub(super) fn cancelled(&self) -> bool {
        self.lock().prompts.iter().any(|prompt| prompt.cancelled)
    }

    pub(super) fn any(&self) -> bool {
        !self.lock().prompts.is_empty()
    }

    /// Answers a prompt that was cancelled before it was sent to the session. False: it was not
    /// cancelled.
    pub(super) fn answer_cancelled(&self, ticket: u64) -> bool {
        let found = self.remove(|prompt| prompt.ticket == ticket && prompt.cancelled);
        let cancelled = !found.is_empty();
        for prompt in found {
            answer(prompt, Ok(StopReason::Cancelled));
        }
        cancelled
    }

    /// The next of this client's prompts is in the log.
    pub(super) fn taken(&self) {
        if let Some(prompt) = self.lock().prompts.iter_mut().find(|prompt| !prompt.taken) {
            prompt.taken = true;
        }
    }

    /// This prompt was in the log before the client sent it again.
    pub(super) fn take(&self, ticket: u64) {
        if let Some(prompt) = self.lock().prompts.iter_mut().find(|prompt| prompt.ticket == ticket)
        {
            prompt.taken = true;
        }
    }

    /// Answers this prompt, whose turn has ended.
    pub(super) fn end(&self, ticket: u64, ended: &Ended, finish: Option<Finish>) {
        for prompt in self.remove(|prompt| prompt.ticket == ticket) {
            answer(prompt, stop(ended, finish));
        }
    }

    /// Answers every prompt of a turn that has ended.
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

    fn remove(&self, which: impl Fn(&PendingPrompt) -> bool) -> Vec<PendingPrompt> {
        self.lock().prompts.extract_if(.., |prompt| which(prompt)).collect()
    }
}

fn answer(prompt: PendingPrompt, stop: Result<StopReason, Error>) {
    let answered = prompt.responder.respond_with_result(stop.map(PromptResponse::new));
    if let Err(error) = answered {
        tracing::debug!("the client is gone: {error}");
    }
}

/// Converts the end of a turn to the protocol's; a failure is an error.
fn stop(ended: &Ended, finish: Option<Finish>) -> Result<StopReason, Error> {
    match (ended.reason, finish) {
        (EndReason::Completed, Some(Finish::Length)) => Ok(StopReason::MaxTokens),
        (
            EndReason::Completed | EndReason::Error | EndReason::Incomplete,
            Some(Finish::ContentFilter),
        ) => Ok(StopReason::Refusal),
        (EndReason::Incomplete, _) => Ok(StopReason::MaxTokens),
        // The person who rejected the call knows why the turn ended.
        (EndReason::Completed | EndReason::Blocked, _) => Ok(StopReason::EndTurn),
        (EndReason::Aborted, _) => Ok(StopReason::Cancelled),
        (EndReason::MaxSteps | EndReason::Limit, _) => Ok(StopReason::MaxTurnRequests),
        (EndReason::Error | EndReason::InvalidOutput, _) => {
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
