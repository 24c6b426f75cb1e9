//! Orders the events of a session and its children as one stream. The root's end comes last, even
//! if events of different sessions arrive by different routes.

use std::collections::HashMap;
use std::marker::PhantomData;

use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{Event, Subagent, Turn};
use leftfold_events::{Envelope, Seq, SessionId};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

/// Follows the events of a root and its children.
#[derive(Debug)]
pub struct SessionTree {
    root: SessionId,
    /// For each child, the number of ends that its parent has recorded but that have not arrived
    /// from the child.
    missing: HashMap<SessionId, i64>,
    /// The root's end, and the events after it.
    held: Vec<Recorded>,
}

impl SessionTree {
    pub fn new(root: SessionId) -> Self {
        Self { root, missing: HashMap::new(), held: Vec::new() }
    }

    pub fn is_root(&self, event: &Envelope) -> bool {
        event.session == self.root
    }

    /// Takes new `events`, and answers the ones to show now.
    pub fn take(&mut self, events: &[Recorded]) -> Vec<Recorded> {
        let mut ready = Vec::new();
        for event in events {
            self.count(event);
            let ends = self.is_root(event) && matches!(event.event, Event::Turn(Turn::Ended(_)));
            let waits = ends && self.missing.values().any(|count| *count > 0);
            if waits || self.is_root(event) && !self.held.is_empty() {
                self.held.push(event.clone());
            } else {
                ready.push(event.clone());
            }
        }
        if !self.missing.values().any(|count| *count > 0) {
            ready.append(&mut self.held);
        }
        ready
    }

    fn count(&mut self, event: &Envelope) {
        if let Event::Subagent(
            Subagent::Ended { session, .. } | Subagent::EndedUncounted { session, .. },
        ) = &event.event
        {
            *self.missing.entry(*session).or_default() += 1;
        } else if matches!(event.event, Event::Turn(Turn::Ended(_))) && !self.is_root(event) {
            *self.missing.entry(event.session).or_default() -= 1;
        } else if matches!(event.event, Event::Turn(Turn::Prompted { .. }))
            && self.is_root(event)
            && self.is_holding()
        {
            // A resumed session does not wait for ends of the turn before.
            self.missing.clear();
        }
    }

    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Stops waiting for missing ends: a child that failed to start has none.
    pub fn give_up(&mut self) -> Vec<Recorded> {
        self.missing.clear();
        std::mem::take(&mut self.held)
    }
}

/// Receives the events of a session and its children.
pub(crate) trait Follow: Send + 'static {
    fn take(&mut self, events: &[Recorded]) -> impl Future<Output = ()> + Send;
}

/// Starts an observer. The receiver holds the seq of the session's last own event for which all
/// events of its children up to then have been handled.
pub(crate) async fn follow<F: Follow + Sync>(
    session: SessionId,
    work: F,
) -> anyhow::Result<(ActorRef<Observation>, watch::Receiver<Seq>)> {
    let (through, taken) = watch::channel(0);
    let following = Following { work, tree: SessionTree::new(session), through };
    let (sink, _) = Actor::spawn(None, Follower(PhantomData), following).await?;
    Ok((sink, taken))
}

struct Follower<F>(PhantomData<F>);

struct Following<F> {
    work: F,
    tree: SessionTree,
    through: watch::Sender<Seq>,
}

impl<F: Follow + Sync> Actor for Follower<F> {
    type Msg = Observation;
    type State = Following<F>;
    type Arguments = Following<F>;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        following: Following<F>,
    ) -> Result<Following<F>, ActorProcessingErr> {
        Ok(following)
    }

    async fn handle(
        &self,
        _: ActorRef<Observation>,
        Observation { events, done }: Observation,
        following: &mut Following<F>,
    ) -> Result<(), ActorProcessingErr> {
        following.work.take(&events).await;
        // The session's end comes after those of its children.
        let taken = following.tree.take(&events);
        if let Some(last) = taken.iter().rfind(|event| following.tree.is_root(event)) {
            following.through.send_replace(last.seq);
        }
        // The hub may have ended with the node.
        let _ = done.send(());
        Ok(())
    }
}
