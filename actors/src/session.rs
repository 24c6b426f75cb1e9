//! The session: takes facts, settles them, makes the batch durable, and only then publishes and
//! dispatches it. The one place that appends.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{Answer, Event, Model, Session as SessionEvent, Turn};
use leftfold_events::{Envelope, Fact, Kit, POLICY, Seq, State, settle};
use leftfold_store::Log;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::task::AbortHandle;

use crate::World;
use crate::clock::Clock;
use crate::dispatch::Workers;
use crate::observers::ObserversMessage;
use crate::permission::Answered;

/// What a session is told. Everything that matters becomes a fact.
#[derive(Debug)]
pub enum SessionMessage {
    /// A client's prompt, with the kit that was gathered for it.
    Prompt {
        kit: Box<Kit>,
        prompted: Box<Fact>,
    },
    /// Go on with a log that somebody else left, or (`close`) bring its turn to an end.
    Resume {
        kit: Box<Kit>,
        close: bool,
    },
    /// Facts: outcomes from workers, an interrupt.
    Told(Vec<Fact>),
    /// An answer to the question asked by the intent `of`.
    Answer {
        of: Seq,
        reply: Reply,
        told: RpcReplyPort<Answered>,
    },
    /// The batch in flight is durable, or is not.
    Flushed(Result<(), leftfold_store::Error>),
    /// The timer has run out.
    Due,
    View(RpcReplyPort<Box<State>>),
    /// Whether nothing is under way here.
    AtRest(RpcReplyPort<bool>),
}

/// What somebody answers to a permission question.
#[derive(Clone, Debug)]
pub struct Reply {
    pub answer: Answer,
    pub feedback: Option<String>,
    /// Who, and where.
    pub by: String,
}

pub(crate) struct Arguments {
    pub(crate) log: Log,
    /// The fold of `log`.
    pub(crate) state: State,
    /// For a new session: what stands before its first prompt.
    pub(crate) birth: Option<SessionEvent>,
    pub(crate) world: World,
    /// Names the store in the environment of commands.
    pub(crate) store: String,
    pub(crate) observers: ActorRef<ObserversMessage>,
}

/// What waits to be settled.
enum Item {
    Fact(Fact),
    /// A fact that a kit is to stand before, if it is not the one in force.
    Equipped(Box<Kit>, Fact),
}

pub(crate) struct Desk {
    log: Log,
    state: State,
    clock: Clock,
    birth: Option<SessionEvent>,
    inbox: VecDeque<Item>,
    /// The batch that is being written. While there is one, nothing is folded.
    in_flight: Option<Arc<[Envelope]>>,
    workers: Workers,
    observers: ActorRef<ObserversMessage>,
    timer: Option<AbortHandle>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Desk({} at {})", self.state.session, self.state.seq)
    }
}

pub(crate) struct Session;

impl Actor for Session {
    type Msg = SessionMessage;
    type State = Desk;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Arguments,
    ) -> Result<Desk, ActorProcessingErr> {
        let Arguments { log, state, birth, world, store, observers } = arguments;
        let session = log.session();
        let workers = Workers::start(&myself, session, world, store).await?;
        let inbox = VecDeque::new();
        let clock = Clock::after(state.at);
        Ok(Desk {
            log,
            state,
            clock,
            birth,
            inbox,
            in_flight: None,
            workers,
            observers,
            timer: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: SessionMessage,
        desk: &mut Desk,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionMessage::Prompt { kit, prompted } => {
                let birth = desk.birth.take().map(|event| Item::Fact(Fact::new(event)));
                desk.inbox.extend(birth);
                desk.inbox.push_back(Item::Equipped(kit, *prompted));
            }
            SessionMessage::Resume { kit, close } => {
                let resumed = SessionEvent::Resumed { policy: POLICY, close };
                desk.inbox.push_back(Item::Equipped(kit, Fact::new(resumed)));
            }
            SessionMessage::Told(facts) => desk.inbox.extend(facts.into_iter().map(Item::Fact)),
            SessionMessage::Answer { of, reply, told } => desk.workers.answer(of, reply, told),
            SessionMessage::Flushed(outcome) => {
                outcome?;
                desk.flushed(&myself);
            }
            SessionMessage::Due => {
                let elapsed = |of| Item::Fact(Fact::of(of, SessionEvent::Elapsed {}));
                desk.inbox.extend(desk.state.overdue(desk.clock.now()).into_iter().map(elapsed));
                desk.set_timer(&myself);
            }
            SessionMessage::View(reply) => {
                // whoever asked may have gone
                let _ = reply.send(Box::new(desk.state.clone()));
            }
            SessionMessage::AtRest(reply) => {
                let _ = reply.send(desk.at_rest());
            }
        }
        desk.write(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        desk: &mut Desk,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(who, _) | SupervisionEvent::ActorTerminated(who, ..)) =
            &event
        else {
            return Ok(());
        };
        tracing::warn!(session = %desk.state.session, "a worker died: {event}");
        let lost = desk.workers.restart(&myself, who.get_id(), &desk.state).await?;
        desk.inbox.extend(lost.into_iter().map(Item::Fact));
        desk.write(&myself);
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        desk: &mut Desk,
    ) -> Result<(), ActorProcessingErr> {
        desk.stop_timer();
        Ok(())
    }
}

impl Desk {
    fn at_rest(&self) -> bool {
        let quiet = self.inbox.is_empty() && self.in_flight.is_none();
        quiet && self.state.turn.is_none() && self.state.open().is_empty()
    }

    /// Settles what waits into one batch, which ends with the first request to a model, and hands
    /// it to the writer. One batch at a time: what comes meanwhile shares the next flush.
    fn write(&mut self, myself: &ActorRef<SessionMessage>) {
        if self.in_flight.is_some() {
            return;
        }
        let mut batch: Vec<Envelope> = Vec::new();
        while let Some(item) = self.inbox.pop_front() {
            self.settle(item, &mut batch);
            if batch.iter().any(|e| matches!(e.event, Event::Model(Model::Requested { .. }))) {
                break;
            }
        }
        if batch.is_empty() {
            return;
        }
        let batch: Arc<[Envelope]> = batch.into();
        self.in_flight = Some(Arc::clone(&batch));
        let myself = myself.clone();
        self.log.append(&batch, move |outcome| {
            // a session that is gone has no use for the answer
            let _ = myself.cast(SessionMessage::Flushed(outcome));
        });
    }

    fn settle(&mut self, item: Item, batch: &mut Vec<Envelope>) {
        let fact = match item {
            Item::Fact(fact) => fact,
            Item::Equipped(kit, fact) => {
                if let Some(equipped) = self.state.changed_kit(&kit) {
                    let equipped = Fact::new(Turn::Equipped(equipped));
                    batch.extend(settle(
                        &mut self.state,
                        self.log.session(),
                        equipped,
                        self.clock.now(),
                    ));
                }
                fact
            }
        };
        if self.state.admits(&fact) {
            batch.extend(settle(&mut self.state, self.log.session(), fact, self.clock.now()));
        } else {
            tracing::debug!(session = %self.state.session, of = fact.of, "too late: {:?}", fact.event);
        }
    }

    /// The batch is durable: now it may be seen, and its intents may have their effects.
    fn flushed(&mut self, myself: &ActorRef<SessionMessage>) {
        let Some(batch) = self.in_flight.take() else { return };
        if let Err(gone) = self.observers.cast(ObserversMessage::Happened(Arc::clone(&batch))) {
            tracing::warn!("nobody hands events to observers: {gone}");
        }
        for event in batch.iter() {
            self.workers.dispatch(event, &self.state);
        }
        self.set_timer(myself);
    }

    /// One timer, for whatever is due first.
    fn set_timer(&mut self, myself: &ActorRef<SessionMessage>) {
        self.stop_timer();
        let Some(due) = self.state.due() else { return };
        let wait = Duration::from_millis(due.since(self.clock.now()));
        let myself = myself.clone();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let _ = myself.cast(SessionMessage::Due);
        });
        self.timer = Some(timer.abort_handle());
    }

    fn stop_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop_timer();
    }
}
