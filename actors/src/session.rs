//! The session: takes facts, settles them, makes the batch durable, and only then publishes and
//! dispatches it. The one place that appends.

mod batch;
mod open_log;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use leftfold_events::event::{Event, Session as SessionEvent, Turn};
use leftfold_events::{Envelope, Fact, Kit, POLICY, Secrets, Seq, State, settle};
use leftfold_store::Log;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::task::AbortHandle;
use tracing::Span;

use crate::clock::Clock;
use crate::dispatch::Workers;
use crate::messages::{Answered, NodeMessage, ObserversMessage, ParentCall, SessionMessage};
use crate::world::World;
use batch::{Batch, InFlight, Item, Prompt};
pub(crate) use open_log::OpenLog;

pub(crate) struct Arguments {
    pub(crate) log: OpenLog,
    pub(crate) world: World,
    /// Names the store in the environment of commands.
    pub(crate) store: String,
    pub(crate) observers: ActorRef<ObserversMessage>,
    pub(crate) node: ActorRef<NodeMessage>,
}

pub(crate) struct Desk {
    log: Log,
    state: State,
    /// Nothing comes into the log with one of these in it.
    secrets: Secrets,
    clock: Clock,
    /// For a new session: the event that it begins with.
    birth: Option<SessionEvent>,
    /// For a new session: what a client has chosen, to be written behind that.
    config: Option<Fact>,
    inbox: VecDeque<Item>,
    /// A turn was cut off in the log, and nobody has gone on with it yet: its waits are over for
    /// nobody until somebody does.
    cut_off: bool,
    /// While there is one, nothing is folded.
    in_flight: Option<InFlight>,
    workers: Workers,
    /// Workers that have died and are not started again yet.
    dead: Vec<ActorId>,
    observers: ActorRef<ObserversMessage>,
    timer: Option<AbortHandle>,
    parent: Option<ParentCall>,
    /// For the program's log: the turn under way.
    turn_span: Span,
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
        let Arguments { log, world, store, observers, node } = arguments;
        let cut_off = log.is_cut_off();
        let OpenLog { log, state, birth } = log;
        let session = log.session();
        let secrets = world.workspace.secrets.clone();
        let clock = Clock::after(state.at, world.recording.clone());
        let workers = Workers::start(&myself, node, session, world, store).await?;
        let inbox = VecDeque::new();
        Ok(Desk {
            log,
            state,
            secrets,
            clock,
            birth,
            config: None,
            inbox,
            cut_off,
            in_flight: None,
            workers,
            dead: Vec::new(),
            observers,
            timer: None,
            parent: None,
            turn_span: Span::none(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: SessionMessage,
        desk: &mut Desk,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionMessage::Prompt { kit, prompted, joins, told } => {
                let prompt = Prompt { kit, prompted: *prompted, joins, told };
                desk.inbox.push_back(Item::Prompt(Box::new(prompt)));
            }
            SessionMessage::Begin { facts, told } => {
                desk.inbox.push_back(Item::Begin(facts, told));
            }
            SessionMessage::Configure { config, by, told } => {
                let configured = Fact::new(SessionEvent::Configured { config: *config, by });
                if desk.birth.is_some() {
                    desk.config = Some(configured);
                    // whoever asked may have gone
                    let _ = told.send(Answered::Accepted);
                } else {
                    desk.inbox.push_back(Item::Answer(configured, told));
                }
            }
            SessionMessage::Resume { kit, close } => {
                let resumed = SessionEvent::Resumed { policy: POLICY, close };
                desk.inbox.push_back(Item::Equipped(kit, Fact::new(resumed)));
            }
            SessionMessage::Told(facts) => desk.inbox.extend(facts.into_iter().map(Item::Fact)),
            SessionMessage::Outcome { kit, finished } => {
                desk.inbox.push_back(Item::Equipped(kit, *finished));
            }
            SessionMessage::HookReturned { fact, secrets } => {
                desk.inbox.push_back(Item::Hook(*fact, secrets));
            }
            SessionMessage::Answer { of, reply, told } => desk.workers.answer(of, reply, told),
            SessionMessage::Answered { fact, told } => {
                desk.inbox.push_back(Item::Answer(*fact, told));
            }
            SessionMessage::Flushed(outcome) => {
                outcome?;
                desk.flushed(&myself).await?;
            }
            SessionMessage::Adopt(parent) => desk.parent = Some(parent),
            // writing looks at the clock
            SessionMessage::Due => {}
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
        desk.dead.push(who.get_id());
        if desk.in_flight.is_none() {
            desk.revive(&myself, Seq::MAX).await?;
            desk.write(&myself);
        }
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

    /// Settles what waits, and then what is overdue, into one batch, which ends with the first
    /// request to a model, and hands it to the writer. One batch at a time: what comes meanwhile
    /// shares the next flush.
    fn write(&mut self, myself: &ActorRef<SessionMessage>) {
        if self.in_flight.is_some() {
            return;
        }
        let mut batch = Batch::default();
        while batch.has_room()
            && let Some(item) = self.inbox.pop_front()
        {
            self.settle(item, &mut batch);
        }
        // only now: what has just been settled may have moved a deadline on
        for of in self.overdue() {
            if !batch.has_room() {
                break;
            }
            self.fact(Fact::of(of, SessionEvent::Elapsed {}), &mut batch);
        }
        if batch.events.is_empty() {
            return self.set_timer(myself);
        }
        let events: Arc<[Envelope]> = batch.events.into();
        self.in_flight = Some(InFlight { events: Arc::clone(&events), told: batch.told });
        self.stop_timer();
        let myself = myself.clone();
        self.log.append(&events, move |outcome| {
            // a session that is gone has no use for the answer
            let _ = myself.cast(SessionMessage::Flushed(outcome));
        });
    }

    /// Whether what the state waits for is waited for here. Before a fork has begun, its waits are
    /// another session's; those of a turn that was cut off are a dead node's.
    fn is_waiting(&self) -> bool {
        self.birth.is_none() && !self.cut_off
    }

    /// The waits that are over.
    fn overdue(&mut self) -> Vec<Seq> {
        if self.is_waiting() { self.clock.overdue(&self.state) } else { Vec::new() }
    }

    fn settle(&mut self, item: Item, batch: &mut Batch) {
        match item {
            Item::Fact(fact) => {
                self.fact(fact, batch);
            }
            Item::Equipped(kit, fact) => {
                if self.state.admits(&fact) {
                    self.equipped(&kit, fact, batch);
                }
            }
            Item::Prompt(prompt) => self.prompt(*prompt, batch),
            Item::Begin(facts, told) => self.begin(facts, told, batch),
            Item::Hook(fact, secrets) => {
                if self.fact(fact, batch) {
                    self.workers.keep(secrets);
                }
            }
            Item::Answer(fact, told) => {
                if self.fact(fact, batch) {
                    batch.told.push(told);
                } else {
                    // whoever answered may have gone
                    let _ = told.send(Answered::NotOpen);
                }
            }
        }
    }

    fn equipped(&mut self, kit: &Kit, fact: Fact, batch: &mut Batch) {
        let mut equipped = kit.equipped();
        self.secrets.redact_kit(&mut equipped);
        if let Some(equipped) = self.state.changed_kit(equipped) {
            self.fact(Fact::new(Turn::Equipped(equipped)), batch);
        }
        self.fact(fact, batch);
    }

    /// The first event, and what a client has chosen before it. False: it is in the log already.
    fn write_birth(&mut self, batch: &mut Batch) -> bool {
        let Some(birth) = self.birth.take() else { return false };
        self.fact(Fact::new(birth), batch);
        if let Some(configured) = self.config.take() {
            self.fact(configured, batch);
        }
        true
    }

    /// The first event of a fork, and facts behind it.
    fn begin(&mut self, facts: Vec<Fact>, told: RpcReplyPort<Answered>, batch: &mut Batch) {
        if !self.write_birth(batch) {
            // whoever asked may have gone
            let _ = told.send(Answered::NotOpen);
            return;
        }
        for fact in facts {
            self.fact(fact, batch);
        }
        batch.told.push(told);
    }

    fn prompt(&mut self, prompt: Prompt, batch: &mut Batch) {
        let Prompt { kit, mut prompted, joins, told } = prompt;
        let alone = joins && self.state.turn.is_none();
        if alone || self.birth.is_none() && !self.state.admits(&prompted) {
            // whoever asked may have gone
            let _ = told.map(|told| told.send(Answered::NotOpen));
            return;
        }
        self.write_birth(batch);
        if joins {
            // it is for whoever is at work by now
            self.readdress(&mut prompted);
            self.fact(prompted, batch);
        } else {
            self.equipped(&kit, prompted, batch);
        }
        batch.told.extend(told);
    }

    fn readdress(&self, prompted: &mut Fact) {
        if let Event::Turn(Turn::Prompted { agent, model, .. }) = &mut prompted.event {
            agent.clone_from(&self.state.agent);
            *model = self.state.kit.model.name();
        }
    }

    /// Settles one fact; false if it means nothing any more.
    fn fact(&mut self, mut fact: Fact, batch: &mut Batch) -> bool {
        self.secrets.redact(&mut fact.event);
        // nothing comes before the first event
        let admitted = self.birth.is_none() && self.state.admits(&fact);
        if admitted {
            self.cut_off &= !matches!(fact.event, Event::Session(SessionEvent::Resumed { .. }));
            let now = self.clock.now(&self.state);
            batch.add(settle(&mut self.state, self.log.session(), fact, now));
        } else {
            tracing::debug!(session = %self.state.session, of = fact.of, "too late: {:?}", fact.event);
        }
        admitted
    }

    /// The batch is durable: now it may be seen, and its intents may have their effects.
    async fn flushed(
        &mut self,
        myself: &ActorRef<SessionMessage>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(InFlight { events, told }) = self.in_flight.take() else { return Ok(()) };
        for told in told {
            let _ = told.send(Answered::Accepted);
        }
        if let Err(gone) = self.observers.cast(ObserversMessage::Happened(Arc::clone(&events))) {
            tracing::warn!("nobody hands events to observers: {gone}");
        }
        self.revive(myself, events.first().map_or(Seq::MAX, |event| event.seq)).await?;
        for event in events.iter() {
            if self.turn_span.is_none()
                && let Some(turn) = &self.state.turn
            {
                let session = self.state.session;
                self.turn_span = tracing::warn_span!("turn", %session, seq = turn.prompted);
            }
            self.turn_span.in_scope(|| self.workers.dispatch(event, &self.state));
            if let Event::Turn(Turn::Ended(ended)) = &event.event {
                self.turn_span = Span::none();
                if let Some(parent) = self.parent.take() {
                    self.workers.report(parent, ended, &self.state);
                }
            }
        }
        self.set_timer(myself);
        Ok(())
    }

    /// Starts dead workers again. What they had in hand, intents before seq `before`, is lost;
    /// later ones have not been dispatched yet.
    async fn revive(
        &mut self,
        myself: &ActorRef<SessionMessage>,
        before: Seq,
    ) -> Result<(), ActorProcessingErr> {
        for who in std::mem::take(&mut self.dead) {
            let lost = self.workers.restart(myself, who, &self.state, before).await?;
            self.inbox.extend(lost.into_iter().map(Item::Fact));
        }
        Ok(())
    }

    /// One timer, for whatever is due first.
    fn set_timer(&mut self, myself: &ActorRef<SessionMessage>) {
        self.stop_timer();
        let Some(wait) = self.clock.wait(&self.state).filter(|_| self.is_waiting()) else { return };
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
