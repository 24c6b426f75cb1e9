//! The way to the session: its client, which is opened anew when its node has left.

use std::sync::Arc;

use leftfold_actors::{Observation, Opened, WatchScope};
use leftfold_events::{Seq, SessionId};
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::socket::{self, SessionRegistry};
use ractor::ActorRef;
use tokio::sync::{mpsc, oneshot};

/// A client that was just opened. The one who opens it waits until the conversation knows it.
#[derive(Debug)]
pub(super) struct NewClient {
    pub(super) client: Client,
    pub(super) opened: Opened,
    pub(super) known: oneshot::Sender<()>,
}

/// Clones open the session independently; the conversation keeps the client that was opened last.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) session: SessionId,
    pub(super) sessions: Arc<SessionRegistry>,
    pub(super) client: Option<Client>,
    pub(super) sink: ActorRef<Observation>,
    /// The last event that was observed.
    pub(super) seen: Seq,
    pub(super) opened: mpsc::UnboundedSender<NewClient>,
}

impl Link {
    pub(super) fn client(&self) -> anyhow::Result<&Client> {
        self.client.as_ref().ok_or_else(|| anyhow::anyhow!("the session is not open"))
    }

    /// Opens the session, here or through the node that has it, and watches it: from `from`, or from the last
    /// observed event, or from the next one. Answers the session's head.
    pub(super) async fn open(&mut self, from: Option<Seq>) -> anyhow::Result<Seq> {
        let (client, opened) = match &self.client {
            None => self.sessions.open(self.session).await?,
            mine => match self.sessions.client_for(self.session, mine.as_ref()).await? {
                (client, Some(opened)) => (client, opened),
                (_, None) => return Ok(self.seen),
            },
        };
        socket::take_messages_of(&self.sessions, &client).await;
        let head = opened.head;
        let next = if self.client.is_some() { self.seen } else { head } + 1;
        let from = from.unwrap_or(next);
        let (known, is_known) = oneshot::channel();
        // the conversation may be over, and then needs no client
        let _ = self.opened.send(NewClient { client: client.clone(), opened, known });
        let _ = is_known.await;
        client.watch(from, self.sink.clone(), WatchScope::Live).await?;
        self.seen = self.seen.max(from - 1);
        self.client = Some(client);
        Ok(head)
    }

    /// Does something with the session's client, and again with the next one while its node leaves.
    pub(super) async fn with_client<T>(
        &mut self,
        mut work: impl AsyncFnMut(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut left = client::ATTEMPTS;
        loop {
            self.open(None).await?;
            match work(self.client()?).await {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                done => return done,
            }
            tokio::time::sleep(client::RETRY_DELAY).await;
        }
    }
}
