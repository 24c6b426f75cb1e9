//! Everything that a conversation waits for, as one stream of events.

use std::time::Instant;

use futures::future::LocalBoxFuture;
use leftfold_actors::{Listener, Observation, Opened};
use leftfold_runtime::client;
use leftfold_runtime::signals::Signals;
use ractor::ActorRef;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::jobs::Done;
use super::keys::{Batch, Keys};
use super::link::NewClient;

#[derive(Debug)]
pub(super) enum InputEvent {
    Observed(Observation),
    Keys(Batch),
    /// The terminal cannot be read any more.
    Gone,
    /// The signal's name.
    Signal(&'static str),
    /// The program was stopped and continued; the terminal may have another mode now.
    Continued,
    Resized,
    Opened(Box<NewClient>),
    Done(Done),
    Tick,
    /// The session is closed for good, for this reason.
    Closed(String),
}

pub(super) struct InputEvents {
    observed: mpsc::UnboundedReceiver<Observation>,
    pub(super) keys: Option<Keys>,
    signals: Signals,
    continued: Signal,
    resized: Signal,
    clients: mpsc::UnboundedReceiver<NewClient>,
    opened: Option<Opened>,
    /// The work under way.
    pub(super) job: Option<LocalBoxFuture<'static, Done>>,
}

impl InputEvents {
    /// Also answers where the events of the session and new clients go.
    pub(super) async fn new()
    -> anyhow::Result<(Self, ActorRef<Observation>, mpsc::UnboundedSender<NewClient>)> {
        let (observed, sink) = listen().await?;
        let (new_client, clients) = mpsc::unbounded_channel();
        // The portable enum of signals has no name for SIGCONT.
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        let (signals, resized) = (Signals::new()?, signal(SignalKind::window_change())?);
        let keys = Some(Keys::start()?);
        let events =
            Self { observed, keys, signals, continued, resized, clients, opened: None, job: None };
        Ok((events, sink, new_client))
    }

    /// Reports the events of another session from now on; answers where they go.
    pub(super) async fn listen_anew(&mut self) -> anyhow::Result<ActorRef<Observation>> {
        let (observed, sink) = listen().await?;
        (self.observed, self.opened) = (observed, None);
        Ok(sink)
    }

    /// Also reports when this session is closed.
    pub(super) fn watch_close(&mut self, opened: Opened) {
        self.opened = Some(opened);
    }

    /// The next event; a tick at `alarm`.
    pub(super) async fn next(&mut self, alarm: Option<Instant>) -> InputEvent {
        let Self { observed, keys, signals, continued, resized, clients, opened, job } = self;
        let event = tokio::select! {
            biased;
            name = signals.next() => InputEvent::Signal(name),
            Some(()) = continued.recv() => InputEvent::Continued,
            Some(()) = resized.recv() => InputEvent::Resized,
            batch = pressed(keys) => batch.map_or(InputEvent::Gone, InputEvent::Keys),
            Some(client) = clients.recv() => InputEvent::Opened(Box::new(client)),
            () = ring(alarm) => InputEvent::Tick,
            Some(observation) = observed.recv() => InputEvent::Observed(observation),
            done = finished(job) => InputEvent::Done(done),
            reason = closed(opened) => InputEvent::Closed(reason),
        };
        if matches!(event, InputEvent::Done(_)) {
            self.job = None;
        }
        event
    }
}

async fn listen() -> anyhow::Result<(mpsc::UnboundedReceiver<Observation>, ActorRef<Observation>)> {
    let (sender, observed) = mpsc::unbounded_channel();
    let sink = Listener::start(move |observation| {
        // The conversation may be over; the hub is then about to end too.
        let _ = sender.send(observation);
    });
    Ok((observed, sink.await?))
}

async fn ring(alarm: Option<Instant>) {
    match alarm {
        Some(alarm) => tokio::time::sleep_until(alarm.into()).await,
        None => std::future::pending().await,
    }
}

async fn pressed(keys: &mut Option<Keys>) -> Option<Batch> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

async fn finished(job: &mut Option<LocalBoxFuture<'static, Done>>) -> Done {
    match job {
        Some(job) => job.await,
        None => std::future::pending().await,
    }
}

async fn closed(opened: &mut Option<Opened>) -> String {
    match opened {
        Some(opened) => client::closed(opened).await,
        None => std::future::pending().await,
    }
}
