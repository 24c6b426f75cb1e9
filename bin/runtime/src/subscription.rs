//! A subscription to the events of a session, for a task that is no actor.

use leftfold_actors::{Listener, Observation, WatchScope};
use leftfold_events::Seq;
use ractor::ActorRef;
use tokio::sync::mpsc;

use crate::client::Client;

/// Events of a session from a seq on. There is one observation at a time: the next comes when
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

    /// The same, of children too.
    pub async fn open_as(client: &Client, from: Seq, family: WatchScope) -> anyhow::Result<Self> {
        let (sender, observations) = mpsc::unbounded_channel();
        let sink = Listener::start(move |observation| {
            // whoever listened may have gone: then `done` is dropped, which is an answer too
            let _ = sender.send(observation);
        });
        let sink = sink.await?;
        client.watch(from, sink.clone(), family).await?;
        Ok(Self { observations, sink })
    }

    /// `None` when the node is gone.
    pub async fn next(&mut self) -> Option<Observation> {
        self.observations.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // the hub notices with the next event
        self.sink.stop(None);
    }
}
