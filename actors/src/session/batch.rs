//! The facts that wait to be settled, and the batch that is being written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leftfold_events::event::{Event, Model, Turn};
use leftfold_events::{Envelope, Fact, MessageId, Repeatable, Seq, State, TurnConfig};
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
    /// Facts that a new session begins with, the message that asked for it, and the port for the reply once they are durable.
    Begin(Vec<Fact>, Option<MessageId>, RpcReplyPort<Answered>),
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

/// How long a batch waits for the outcomes of repeatable effects that have begun. It is about as long as a flush
/// takes, so whatever takes longer overlaps with the flush instead.
pub(super) const HOLD: Duration = Duration::from_millis(2);

/// Settled events on their way to the disk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Envelope>,
    /// Whether it contains a model request, which ends it.
    requests: bool,
    /// The intents whose effects have begun before the batch is written.
    begun: Vec<Seq>,
    /// How many of the events were looked at for such intents.
    seen: usize,
    /// When the first of these effects began.
    since: Option<Instant>,
    /// The ports that get a reply once it is durable.
    pub(super) reply_to: Replies,
    /// The messages of other nodes that asked for its facts.
    pub(super) settles: Vec<MessageId>,
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

    /// Begins the effects of its new repeatable intents. An effect that `begin` refuses waits for the flush. Behind
    /// the end of a turn none begins, because it would be cancelled with the turn's own work.
    pub(super) fn begin_repeatable(
        &mut self,
        state: &State,
        mut begin: impl FnMut(Repeatable<'_>) -> bool,
    ) {
        let is_end = |event: &Envelope| matches!(event.event, Event::Turn(Turn::Ended(_)));
        if self.events[..self.seen].iter().any(is_end) {
            return;
        }
        let new = self.events[self.seen..].iter().take_while(|event| !is_end(event));
        for intent in new.filter_map(|event| Repeatable::for_intent(event, state)) {
            if begin(intent) {
                self.begun.push(intent.intent().seq);
                self.since.get_or_insert_with(Instant::now);
            }
        }
        self.seen = self.events.len();
    }

    /// How much longer it waits for the outcomes of effects that have begun. `None`: it is written now.
    pub(super) fn hold(&self, state: &State) -> Option<Duration> {
        let left = HOLD.checked_sub(self.since?.elapsed())?;
        let open = state.open();
        let is_open = |intent: &Seq| open.iter().any(|(_, wait)| wait.intent == *intent);
        (self.has_room() && self.begun.iter().any(is_open)).then_some(left)
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
    /// The intents whose effects have already begun.
    pub(super) begun: Vec<Seq>,
    pub(super) reply_to: Replies,
}

impl Batch {
    pub(super) fn into_flight(self) -> InFlight {
        let Self { events, begun, reply_to, .. } = self;
        InFlight { events: events.into(), begun, reply_to }
    }
}
