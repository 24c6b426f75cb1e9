//! Everything that a conversation waits for, as one stream of events.

use std::io;
use std::time::{Duration, Instant};

use leftfold_actors::{Listener, Observation, Opened};
use ractor::ActorRef;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::input::Typed;
use super::keys::{Keys, Pressed};
use leftfold_runtime::client;
use leftfold_runtime::signals::Signals;

/// How often the status line is painted again.
const TICK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) enum InputEvent {
    Observed(Observation),
    Typed(Typed),
    Keys(Pressed),
    /// The signal's name.
    Signal(&'static str),
    /// The program was stopped and continued; the terminal may have another mode now.
    Continued,
    Tick,
    /// The session is closed for good, for this reason.
    Closed(String),
}

pub(super) struct InputEvents {
    observed: mpsc::UnboundedReceiver<Observation>,
    typed: mpsc::UnboundedReceiver<Typed>,
    keys: Option<Keys>,
    signals: Signals,
    continued: Signal,
    tick: Interval,
    opened: Option<Opened>,
}

impl InputEvents {
    pub(super) async fn new(
        typed: mpsc::UnboundedReceiver<Typed>,
    ) -> anyhow::Result<(Self, ActorRef<Observation>)> {
        let (sender, observed) = mpsc::unbounded_channel();
        let sink = Listener::start(move |observation| {
            // The conversation may be over; the hub is then about to end too.
            let _ = sender.send(observation);
        });
        let sink = sink.await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The portable enum of signals has no name for SIGCONT.
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        let signals = Signals::new()?;
        let input_events =
            Self { observed, typed, keys: None, signals, continued, tick, opened: None };
        Ok((input_events, sink))
    }

    /// Also reports when this session is closed.
    pub(super) fn watch_close(&mut self, opened: Opened) {
        self.opened = Some(opened);
    }

    pub(super) fn listen_to_keys(&mut self) -> io::Result<()> {
        if self.keys.is_none() {
            self.keys = Some(Keys::start()?);
        }
        Ok(())
    }

    /// Stops listening. Answers the keys that were read and not taken.
    pub(super) fn ignore_keys(&mut self) -> Option<Pressed> {
        self.keys.take()?.stop()
    }

    /// The next event. Ticks come only if `ticking`, and once at `alarm`.
    pub(super) async fn next(&mut self, ticking: bool, alarm: Option<Instant>) -> InputEvent {
        let Self { observed, typed, keys, signals, continued, tick, opened } = self;
        tokio::select! {
            biased;
            name = signals.next() => InputEvent::Signal(name),
            Some(()) = continued.recv() => InputEvent::Continued,
            Some(observation) = observed.recv() => InputEvent::Observed(observation),
            Some(typed) = typed.recv() => InputEvent::Typed(typed),
            Some(pressed) = pressed(keys) => InputEvent::Keys(pressed),
            reason = closed(opened) => InputEvent::Closed(reason),
            _ = tick.tick(), if ticking => InputEvent::Tick,
            () = ring(alarm) => InputEvent::Tick,
        }
    }
}

async fn ring(alarm: Option<Instant>) {
    match alarm {
        Some(alarm) => tokio::time::sleep_until(alarm.into()).await,
        None => std::future::pending().await,
    }
}

async fn pressed(keys: &mut Option<Keys>) -> Option<Pressed> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

async fn closed(opened: &mut Option<Opened>) -> String {
    match opened {
        Some(opened) => client::closed(opened).await,
        None => std::future::pending().await,
    }
}
