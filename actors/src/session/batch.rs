//! From what waits to what is being written.

use std::sync::Arc;

use leftfold_events::event::{Event, Model};
use leftfold_events::{Envelope, Fact, TurnConfig};
use ractor::RpcReplyPort;

use crate::hook_secrets::HookSecrets;
use crate::messages::Answered;

/// What waits to be settled.
pub(super) enum Item {
    Fact(Fact),
    /// A fact that a turn configuration is to stand before, if it is not the one in force.
    Configured(Box<TurnConfig>, Fact),
    Prompt(Box<Prompt>),
    /// Facts that a new session begins with, and who is told once they are durable.
    Begin(Vec<Fact>, RpcReplyPort<Answered>),
    /// What a plugin has returned, and what of it must not stand in the log.
    HookPoint(Fact, HookSecrets),
    /// A fact that somebody wants to know the fate of.
    Answer(Fact, RpcReplyPort<Answered>),
}

pub(super) struct Prompt {
    pub(super) config: Box<TurnConfig>,
    pub(super) prompted: Fact,
    pub(super) joins: bool,
    pub(super) reply_to: Option<RpcReplyPort<Answered>>,
}

/// Events at most in one batch, give or take what one fact leads to.
const BATCH: usize = 1_024;

/// What is settled, on its way to the disk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Envelope>,
    /// Whether it has a request to a model, which ends it.
    requests: bool,
    /// Who is told once it is durable.
    pub(super) reply_to: Vec<RpcReplyPort<Answered>>,
}

impl Batch {
    pub(super) fn add(&mut self, events: Vec<Envelope>) {
        let request = |e: &Envelope| matches!(e.event, Event::Model(Model::Requested { .. }));
        self.requests |= events.iter().any(request);
        self.events.extend(events);
    }

    pub(super) fn has_room(&self) -> bool {
        !self.requests && self.events.len() < BATCH
    }
}

/// A batch that is being written.
pub(super) struct InFlight {
    pub(super) events: Arc<[Envelope]>,
    pub(super) reply_to: Vec<RpcReplyPort<Answered>>,
}
