//! Stands in for models, tools, files, children and time in a rerun. A worker that is about to
//! perform an effect hands it in here, and gets the recorded outcome when that is released.

#![expect(
    clippy::disallowed_types,
    reason = "in place of the system's clock, which is no actor's either"
)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use leftfold_events::event::{CallSpec, Event, Files, Hook, Resolution, Session};
use leftfold_events::{Envelope, Request, Seq, Sha256, State, Time, TurnConfig};
use leftfold_providers::{Provider, StreamEvent};
use leftfold_tools::Output;
use tokio::sync::{mpsc, oneshot};

use crate::messages::ParentCall;
use crate::world::Recording;

/// An effect that a worker was about to perform, and the channel for its outcome.
pub(super) enum Effect {
    Request { sha256: Sha256, request: Box<Request>, reply: mpsc::UnboundedSender<StreamEvent> },
    Check { of: Seq, call: CallSpec, resolved: oneshot::Sender<Resolution> },
    Run { of: Seq, resolution: Box<Resolution>, output: oneshot::Sender<Output> },
    Files { of: Seq, done: oneshot::Sender<Files> },
    Plugin { of: Seq, said: oneshot::Sender<Hook> },
    Child(Box<ParentCall>),
    Switch { of: Seq, done: oneshot::Sender<(Output, Option<TurnConfig>)> },
}

/// An event or effect of the actors.
pub(super) enum Came {
    Events(Arc<[Envelope]>),
    Effect(Effect),
    Died(String),
}

/// The log of a rerun, as its workers see it.
pub(super) struct RecordedLog {
    log: Arc<[Envelope]>,
    came: mpsc::UnboundedSender<Came>,
    /// The seq of the `session.deadline_passed` whose place is reached.
    elapsed: AtomicU64,
}

impl fmt::Debug for RecordedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordedLog({} events)", self.log.len())
    }
}

impl RecordedLog {
    pub(super) fn new(log: Arc<[Envelope]>, came: mpsc::UnboundedSender<Came>) -> Self {
        Self { log, came, elapsed: AtomicU64::new(0) }
    }

    /// Releases the deadline whose `session.deadline_passed` is at `seq`.
    pub(super) fn elapse(&self, seq: Seq) {
        self.elapsed.store(seq, Ordering::Release);
    }

    /// Hands in an effect and waits for its outcome. Without a recorded outcome it never completes.
    async fn hand_in<T>(&self, effect: impl FnOnce(oneshot::Sender<T>) -> Effect) -> T {
        let (sender, outcome) = oneshot::channel();
        self.tell(effect(sender));
        match outcome.await {
            Ok(outcome) => outcome,
            Err(_) => std::future::pending().await,
        }
    }

    fn tell(&self, effect: Effect) {
        // a rerun that has ended needs no more effects
        let _ = self.came.send(Came::Effect(effect));
    }
}

impl Recording for RecordedLog {
    fn now(&self, state: &State) -> Time {
        event(&self.log, state.seq + 1).map_or(state.at, |event| event.at)
    }

    /// The intent whose deadline passes here in the log, if its deadline may have passed by then.
    fn overdue(&self, state: &State) -> Vec<Seq> {
        let next = state.seq + 1;
        let next = event(&self.log, next)
            .filter(|event| self.elapsed.load(Ordering::Acquire) == event.seq)
            .filter(|event| matches!(event.event, Event::Session(Session::DeadlinePassed {})));
        let overdue = next.map_or(Vec::new(), |event| state.overdue(event.at));
        overdue.into_iter().filter(|of| next.and_then(|event| event.of) == Some(*of)).collect()
    }

    fn resolve(&self, of: Seq, call: CallSpec) -> BoxFuture<'_, Resolution> {
        self.hand_in(move |resolved| Effect::Check { of, call, resolved }).boxed()
    }

    fn run(&self, of: Seq, resolution: Box<Resolution>) -> BoxFuture<'_, Output> {
        self.hand_in(move |output| Effect::Run { of, resolution, output }).boxed()
    }

    fn switch(&self, of: Seq) -> BoxFuture<'_, (Output, Option<TurnConfig>)> {
        self.hand_in(move |done| Effect::Switch { of, done }).boxed()
    }

    fn files(&self, of: Seq) -> BoxFuture<'_, Files> {
        self.hand_in(move |done| Effect::Files { of, done }).boxed()
    }

    fn hook(&self, of: Seq) -> BoxFuture<'_, Hook> {
        self.hand_in(move |said| Effect::Plugin { of, said }).boxed()
    }
}

/// The event with this seq.
pub(super) fn event(log: &[Envelope], seq: Seq) -> Option<&Envelope> {
    log.get(usize::try_from(seq.checked_sub(1)?).ok()?)
}

/// Stands in for every provider.
#[derive(Debug)]
pub(super) struct RecordedProvider(pub(super) Arc<RecordedLog>);

impl Provider for RecordedProvider {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn body(&self, _: &Request) -> Vec<u8> {
        Vec::new()
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let (reply, events) = mpsc::unbounded_channel();
        let (sha256, request) = (request.sha256(), Box::new(request));
        self.0.tell(Effect::Request { sha256, request, reply });
        let events = stream::unfold(events, |mut events| async {
            let event = events.recv().await?;
            Some((event, events))
        });
        // a request without a recorded outcome stays open
        events.chain(stream::pending()).boxed()
    }
}
