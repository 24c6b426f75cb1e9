//! Everything that a conversation waits for, as one stream of events.

use std::time::Instant;

use futures::future::LocalBoxFuture;
use leftfold_actors::{Listener, Observation, Opened};
use leftfold_runtime::client;
use leftfold_runtime::signals::Signals;
use ractor::ActorRef;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::choices::Choices;
use super::file_search::FoundFiles;
use super::jobs::Done;
use super::keys::{Batch, Keys};
use super::link::NewClient;

/// A result or a note of another thread.
#[derive(Debug)]
pub(super) enum Background {
    Files(FoundFiles),
    Choices(Box<Choices>),
}

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
    Background(Background),
    /// A note for people, from any part of the program.
    Note(String),
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
    found: mpsc::UnboundedReceiver<Background>,
    /// Where other threads send what they have found.
    pub(super) finder: mpsc::UnboundedSender<Background>,
    notes: mpsc::UnboundedReceiver<String>,
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
        let (finder, found) = mpsc::unbounded_channel();
        let (note, notes) = mpsc::unbounded_channel();
        leftfold_runtime::send_notes(Some(note));
        let events = Self {
            observed,
            keys,
            signals,
            continued,
            resized,
            clients,
            opened: None,
            found,
            finder,
            notes,
            job: None,
        };
        Ok((events, sink, new_client))
    }

    /// Reports the events of another session from now on; answers where they go.
    pub(super) async fn listen_anew(&mut self) -> anyhow::Result<ActorRef<Observation>> {
        let (observed, sink) = listen().await?;
        (self.observed, self.opened) = (observed, None);
        Ok(sink)
    }

    /// The notes that were not shown. Later ones go to standard error again.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        leftfold_runtime::send_notes(None);
        std::iter::from_fn(|| self.notes.try_recv().ok()).collect()
    }

    /// Also reports when this session is closed.
    pub(super) fn watch_close(&mut self, opened: Opened) {
        self.opened = Some(opened);
    }

    /// The next event; a tick at `alarm`.
    pub(super) async fn next(&mut self, alarm: Option<Instant>) -> InputEvent {
        let Self { observed, keys, signals, continued, resized, clients, opened, job, .. } = self;
        let (found, notes) = (&mut self.found, &mut self.notes);
        let event = tokio::select! {
            biased;
            name = signals.next() => InputEvent::Signal(name),
            Some(()) = continued.recv() => InputEvent::Continued,
            Some(()) = resized.recv() => InputEvent::Resized,
            batch = pressed(keys) => batch.map_or(InputEvent::Gone, InputEvent::Keys),
            Some(client) = clients.recv() => InputEvent::Opened(Box::new(client)),
            Some(background) = found.recv() => InputEvent::Background(background),
            Some(note) = notes.recv() => InputEvent::Note(note),
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

impl Drop for InputEvents {
    fn drop(&mut self) {
        leftfold_runtime::send_notes(None);
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
