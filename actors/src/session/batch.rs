//! The facts that wait to be settled, and the batch that is being written.

use std::sync::Arc;

use leftfold_events::event::{Event, Model};
use leftfold_events::{Envelope, Fact, TurnConfig};
use ractor::RpcReplyPort;
use tokio::sync::OwnedSemaphorePermit;

use crate::hook_secrets::HookSecrets;
use crate::messages::Answered;
use crate::world::World;

/// An item that waits to be settled.
pub(super) enum Item {
    Fact(Fact),
    /// Parts of a reply, and the room that they take up while they wait.
    Streamed(Vec<Fact>, OwnedSemaphorePermit),
    /// A fact with its turn configuration. The configuration is written before the fact if it has
    /// changed.
    Configured(Box<TurnConfig>, Fact),
    /// The world and the configuration with which an interrupted turn continues or ends.
    Resume(Option<Box<World>>, Box<TurnConfig>, Fact),
    Prompt(Box<Prompt>),
    /// Facts that a new session begins with, and the port for the reply once they are durable.
    Begin(Vec<Fact>, RpcReplyPort<Answered>),
    /// A plugin's answer, and its values that must not be in the log.
    HookPoint(Fact, HookSecrets),
    /// A fact whose sender gets a reply.
    Answer(Fact, RpcReplyPort<Answered>),
}

pub(super) struct Prompt {
    pub(super) config: Box<TurnConfig>,
    pub(super) world: Option<Box<World>>,
    pub(super) prompted: Fact,
    pub(super) joins: bool,
    pub(super) reply_to: Option<RpcReplyPort<Answered>>,
}

/// The most events in one batch. The events that follow from one fact may exceed it.
const BATCH: usize = 1_024;

/// Settled events on their way to the disk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Envelope>,
    /// Whether it contains a model request, which ends it.
    requests: bool,
    /// The ports that get a reply once it is durable.
    pub(super) reply_to: Replies,
}

/// Ports, and the replies that they get.
type Replies = Vec<(RpcReplyPort<Answered>, Answered)>;

impl Batch {
    /// Answers a client once the batch is durable.
    pub(super) fn answer(&mut self, reply_to: Option<RpcReplyPort<Answered>>, answered: Answered) {
        self.reply_to.extend(reply_to.map(|reply_to| (reply_to, answered)));
    }

    pub(super) fn reply(reply_to: Replies) {
        for (reply_to, answered) in reply_to {
            // the client may be gone
            let _ = reply_to.send(answered);
        }
    }

    pub(super) fn add(&mut self, events: Vec<Envelope>) {
        let request = |e: &Envelope| matches!(e.event, Event::Model(Model::Requested { .. }));
        self.requests |= events.iter().any(request);
        self.events.extend(events);
    }

    pub(super) fn requests(&self) -> bool {
        self.requests
    }

    pub(super) fn has_room(&self) -> bool {
        !self.requests && self.events.len() < BATCH
    }
}

/// A batch that is being written.
pub(super) struct InFlight {
    pub(super) events: Arc<[Envelope]>,
    pub(super) reply_to: Replies,
}
