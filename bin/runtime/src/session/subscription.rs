//! A subscription to the events of a session, for a task that is not an actor.

use leftfold_actors::{Listener, Observation, WatchScope};
use leftfold_events::Seq;
use ractor::ActorRef;
use tokio::sync::mpsc;

use crate::client::Client;

/// Events of a session from a seq on. Only one observation is sent at a time: the next follows once
/// this one is `done`.
#[derive(Debug)]
pub struct Subscription {
    observations: mpsc::UnboundedReceiver<Observation>,
    sink: ActorRef<Observation>,
}

impl Subscription {
    pub async fn open(client: &Client, from: Seq) -> anyhow::Result<Self> {
        Self::open_as(client, from, WatchScope::Alone).await
    }

    /// Subscribes with a scope, which may include children.
    pub async fn open_as(client: &Client, from: Seq, scope: WatchScope) -> anyhow::Result<Self> {
        let (sender, observations) = mpsc::unbounded_channel();
        let sink = Listener::start(move |observation| {
            // If the listener is gone, `done` is dropped, which counts as an answer.
            let _ = sender.send(observation);
        });
        let sink = sink.await?;
        client.send_events(from, sink.clone(), scope, true).await?;
        Ok(Self { observations, sink })
    }

    /// `None` when the node is gone.
    pub async fn next(&mut self) -> Option<Observation> {
        self.observations.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The hub notices at the next event.
        self.sink.stop(None);
    }
}
