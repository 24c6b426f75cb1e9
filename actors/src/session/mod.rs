//! The session actor, the event loop of one session: takes facts, replaces known secrets in them, settles them, makes
//! the batch durable, and only then publishes and dispatches it. The one place that appends.

mod batch;
mod open_log;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leftfold_events::event::{Event, Files, Owner, Session as SessionEvent, Tool, Turn};
use leftfold_events::{
    ApprovalRefused, Fact, MessageId, POLICY, Secrets, Seq, State, TurnConfig, accept, admits,
    may_approve, settle,
};
use leftfold_providers::Credentials;
use leftfold_store::Log;
use leftfold_tools::{LateOutcome, SessionOwner};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::task::AbortHandle;
use tracing::Span;

use crate::clock::Clock;
use crate::dispatch::Workers;
use crate::messages::{Answered, NodeMessage, ObserversMessage, ParentCall, Right, SessionMessage};
use crate::tasks::Tasks;
use crate::world::World;
use batch::{Batch, InFlight, Item, Prompt};
pub(crate) use open_log::OpenLog;

pub(crate) struct Arguments {
    pub(crate) log: OpenLog,
    pub(crate) world: World,
    /// The beginning of the marks of its processes.
    pub(crate) mark: String,
    /// Its right at an executor.
    pub(crate) owner: SessionOwner,
    pub(crate) observers: ActorRef<ObserversMessage>,
    pub(crate) node: ActorRef<NodeMessage>,
}

pub(crate) struct SessionState {
    log: Log,
    state: State,
    /// The secrets that are removed from everything before it is logged.
    secrets: Secrets,
    clock: Clock,
    /// For a new session: its first event.
    created_event: Option<Fact>,
    /// The last imported event, until the log says that it is not trusted. Nothing is settled before
    /// that: what an imported log asks for is not done.
    imported: Option<Seq>,
    /// The steps of the imported part whose changes count.
    accepted: Vec<Seq>,
    /// Outcomes of calls whose node was gone, which come into the log before `session.resumed`.
    recovered: Vec<LateOutcome>,
    /// For a new session: a client's choices and rules, to be written after the first event.
    choices: Vec<SessionEvent>,
    inbox: VecDeque<Item>,
    /// Whether the log has an interrupted turn that was not resumed yet. Its deadlines do not count
    /// until it is resumed.
    cut_off: bool,
    /// The settled batch that is not being written yet: it waits for outcomes of repeatable effects.
    held: Batch,
    /// The batch that is being written. Meanwhile nothing is folded.
    in_flight: Option<InFlight>,
    workers: Workers,
    /// Workers that have died and are not restarted yet.
    dead: Vec<ActorId>,
    observers: ActorRef<ObserversMessage>,
    timer: Option<Timer>,
    /// Ends the wait of the held batch.
    hold: Option<AbortHandle>,
    tasks: Tasks,
    parent: Option<ParentCall>,
    /// For the program's log: the current turn.
    turn_span: Span,
}

/// The one timer of a session. When it goes off, the session looks at its clock, so it may go off too early but not
/// too late.
struct Timer {
    at: Instant,
    task: AbortHandle,
}

impl fmt::Debug for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionState({} at {})", self.state.session, self.state.seq)
    }
}

pub(crate) struct Session;

impl Actor for Session {
    type Msg = SessionMessage;
    type State = SessionState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Arguments,
    ) -> Result<SessionState, ActorProcessingErr> {
        let Arguments { log, world, mark, owner, observers, node } = arguments;
        let cut_off = log.is_cut_off();
        let OpenLog { log, state, created_event, imported, accepted, recovered, .. } = log;
        let session = log.session();
        let secrets = world.workspace.secrets.clone();
        let clock = Clock::after(state.at, world.recording.clone());
        let created_event = created_event.map(|event| first(event, &world));
        let right = Right { mark, lease: log.lease(), owner };
        let workers = Workers::start(&myself, node, session, world, right).await?;
        let inbox = VecDeque::new();
        Ok(SessionState {
            log,
            state,
            secrets,
            clock,
            created_event,
            imported,
            accepted,
            recovered,
            choices: Vec::new(),
            inbox,
            cut_off,
            held: Batch::default(),
            in_flight: None,
            workers,
            dead: Vec::new(),
            observers,
            timer: None,
            hold: None,
            tasks: Tasks::default(),
            parent: None,
            turn_span: Span::none(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: SessionMessage,
        session: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionMessage::Prompt { config, world, prompted, joins, reply_to } => {
                let prompt = Prompt { config, world, prompted: *prompted, joins, reply_to };
                session.inbox.push_back(Item::Prompt(Box::new(prompt)));
            }
            SessionMessage::Begin { facts, settles, reply_to } => {
                session.inbox.push_back(Item::Begin(facts, settles, reply_to));
            }
            SessionMessage::Configure { configured, settles, reply_to } => {
                if session.created_event.is_some() {
                    session.choose(*configured);
                    // the client may be gone
                    let _ = reply_to.send(Answered::Accepted);
                } else {
                    let configured = Fact::new(*configured).settling(settles);
                    session.inbox.push_back(Item::Answer(configured, reply_to));
                }
            }
            SessionMessage::Resume { config, world, close } => {
                let resumed = Fact::new(SessionEvent::Resumed { policy: POLICY, close });
                session.inbox.push_back(Item::Resume(world, config, resumed));
            }
            SessionMessage::Facts(facts) => session.inbox.extend(facts.into_iter().map(Item::Fact)),
            SessionMessage::Streamed { facts, room } => {
                session.inbox.push_back(Item::Streamed(facts, room));
            }
            SessionMessage::Outcome { config, finished } => {
                session.inbox.push_back(Item::Configured(config, *finished));
            }
            SessionMessage::HookReturned { fact, secrets } => {
                session.inbox.push_back(Item::HookPoint(*fact, secrets));
            }
            SessionMessage::Hide(credentials) => session.hide(&credentials),
            SessionMessage::Answer { of, reply, settles, reply_to } => {
                let always = reply.always.as_deref();
                match always.map(|always| may_approve(&session.state, of, reply.answer, always)) {
                    // those that are not open have an answer of their own
                    Some(Err(why)) if why != ApprovalRefused::NotOpen => {
                        // the client may be gone
                        let _ = reply_to.send(Answered::Refused { why: why.to_string() });
                    }
                    Some(_) | None => session.workers.answer(of, reply, settles, reply_to),
                }
            }
            SessionMessage::Answered { fact, reply_to } => {
                session.inbox.push_back(Item::Answer(*fact, reply_to));
            }
            SessionMessage::Flushed(outcome) => {
                outcome?;
                session.flushed(&myself).await?;
            }
            SessionMessage::Adopt(parent) => session.parent = Some(parent),
            // `write` looks at the clock
            SessionMessage::Due => session.timer = None,
            SessionMessage::View(reply) => {
                // the client may be gone
                let _ = reply.send(Box::new(session.view()));
            }
            SessionMessage::AtRest(reply) => {
                let _ = reply.send(session.at_rest());
            }
        }
        session.write(&myself);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        session: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(who, _) | SupervisionEvent::ActorTerminated(who, ..)) =
            &event
        else {
            return Ok(());
        };
        tracing::warn!(session = %session.state.session, "a worker died: {event}");
        session.dead.push(who.get_id());
        // a batch that was held is written first: the worker may not have got all of it
        session.write(&myself);
        if session.in_flight.is_none() {
            session.revive(&myself, Seq::MAX).await?;
            session.write(&myself);
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        session: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        session.stop_timer();
        Ok(())
    }
}

impl SessionState {
    /// The state for clients. They see nothing of an imported log that will not count.
    fn view(&self) -> State {
        let mut state = self.state.clone();
        if let Some(imported) = self.imported {
            state.distrust(imported);
            state.accept_snapshots(&self.accepted);
        }
        for chosen in &self.choices {
            if let SessionEvent::RulesSet { rules, .. } = chosen {
                state.rules.clone_from(rules);
            }
        }
        state
    }

    /// Keeps a choice for the first prompt of a new session, in place of an earlier one of its kind.
    fn choose(&mut self, chosen: SessionEvent) {
        let kind = std::mem::discriminant(&chosen);
        self.choices.retain(|other| std::mem::discriminant(other) != kind);
        self.choices.push(chosen);
    }

    fn at_rest(&self) -> bool {
        // a choice of a session without a log is nowhere else
        let quiet = self.inbox.is_empty() && self.choices.is_empty();
        let written = self.held.events.is_empty() && self.in_flight.is_none();
        quiet && written && self.state.turn.is_none() && self.state.open().is_empty()
    }

    /// Settles the waiting facts, then the passed deadlines, into one batch and hands it to the
    /// writer. The batch ends with the first model request. Only one batch is written at a time:
    /// facts that come meanwhile share the next flush. Effects of repeatable intents begin before
    /// that, and the batch waits a moment for their outcomes.
    fn write(&mut self, myself: &ActorRef<SessionMessage>) {
        if self.in_flight.is_some() {
            return;
        }
        let mut batch = std::mem::take(&mut self.held);
        while batch.has_room()
            && let Some(item) = self.inbox.pop_front()
        {
            self.settle(item, &mut batch);
        }
        // only now: the facts just settled may have extended a deadline
        for of in self.overdue() {
            // even a full batch takes deadlines; otherwise a busy client could delay them for ever
            if batch.requests() {
                break;
            }
            self.fact(Fact::for_intent(of, SessionEvent::DeadlinePassed {}), &mut batch);
        }
        if batch.events.is_empty() {
            // all that they wait for is durable
            Batch::reply(batch.reply_to);
            return self.set_timer(myself);
        }
        // in a rerun, outcomes come when the log has them; those for a dead worker do not come
        if !self.clock.is_recorded() && self.dead.is_empty() {
            let (workers, state, span) = (&mut self.workers, &self.state, &self.turn_span);
            batch.begin_repeatable(state, |intent| span.in_scope(|| workers.begin(intent, state)));
            if let Some(left) = batch.hold(state) {
                self.held = batch;
                if self.hold.is_none() {
                    self.hold = Some(self.wake_in(left, myself));
                }
                return;
            }
        }
        if let Some(hold) = self.hold.take() {
            hold.abort();
        }
        self.log.settle(std::mem::take(&mut batch.settles));
        let batch = batch.into_flight();
        let events = Arc::clone(&batch.events);
        self.in_flight = Some(batch);
        self.log.set_wants(self.state.wants_node());
        let myself = myself.clone();
        self.log.append(&events, move |outcome| {
            // a session that is gone does not need the result
            let _ = myself.cast(SessionMessage::Flushed(outcome));
        });
    }

    /// Whether the state's waits belong to this node. Before a fork has begun, its waits are
    /// another session's; those of an interrupted turn are a dead node's.
    fn is_waiting(&self) -> bool {
        self.created_event.is_none() && !self.cut_off
    }

    /// The waits whose deadlines have passed.
    fn overdue(&mut self) -> Vec<Seq> {
        if self.is_waiting() { self.clock.overdue(&self.state) } else { Vec::new() }
    }

    fn settle(&mut self, item: Item, batch: &mut Batch) {
        if !matches!(&item, Item::Resume(..)) {
            self.distrust(batch);
        }
        match item {
            Item::Fact(fact) => {
                self.fact(fact, batch);
            }
            Item::Streamed(facts, _room) => {
                for fact in facts {
                    self.fact(fact, batch);
                }
            }
            Item::Configured(config, fact) => {
                if admits(&self.state, &fact) {
                    self.configured(&config, fact, batch);
                }
            }
            Item::Resume(world, config, resumed) => {
                if admits(&self.state, &resumed) {
                    self.renew(world);
                    self.recover(batch);
                    self.configured(&config, resumed, batch);
                }
            }
            Item::Prompt(prompt) => self.prompt(*prompt, batch),
            Item::Begin(facts, settles, reply_to) => self.begin(facts, settles, reply_to, batch),
            Item::HookPoint(fact, secrets) => {
                if self.fact(fact, batch) {
                    self.workers.keep(secrets);
                }
            }
            Item::Answer(fact, reply_to) => {
                if self.fact(fact, batch) {
                    batch.answer(Some(reply_to), Answered::Accepted);
                } else {
                    // the client may be gone
                    let _ = reply_to.send(Answered::NotOpen);
                }
            }
        }
    }

    /// Logs the outcomes that an executor had kept. Nothing is decided from them before `session.resumed`, which
    /// follows in the batch.
    fn recover(&mut self, batch: &mut Batch) {
        for LateOutcome { seq, output } in std::mem::take(&mut self.recovered) {
            let Some(finished) = self.workers.late_outcome(seq, output, &self.state) else {
                continue;
            };
            let mut fact = Fact::for_intent(seq, Tool::Finished(Box::new(finished)));
            fact.notes.recovered = true;
            self.secrets.redact_fact(&mut fact);
            if self.created_event.is_none() && admits(&self.state, &fact) {
                let now = self.clock.now(&self.state);
                batch.add(vec![accept(&mut self.state, self.log.session(), fact, now)]);
            }
        }
    }

    /// Says in an imported log that it is not trusted, and ends a turn that is under way in it.
    fn distrust(&mut self, batch: &mut Batch) {
        // a fork begins first
        if self.imported.is_some() && self.created_event.is_none() {
            let resumed = SessionEvent::Resumed { policy: POLICY, close: true };
            self.fact(Fact::new(resumed), batch);
        }
    }

    /// Adds credentials to the secrets, unless they are known.
    fn hide(&mut self, credentials: &Credentials) {
        let new = credentials.0.iter().filter(|(_, value)| !self.secrets.knows(value));
        let new: Vec<_> = new.cloned().collect();
        if new.is_empty() {
            return;
        }
        match self.secrets.and(new) {
            Ok(secrets) => {
                self.secrets = secrets;
                self.workers.hide(&self.secrets);
            }
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Uses the world of a configuration that comes into force. Credentials of earlier requests stay secret.
    fn renew(&mut self, world: Option<Box<World>>) {
        let Some(mut world) = world else { return };
        match world.workspace.secrets.with_all_of(&self.secrets) {
            Ok(secrets) => world.hide(&secrets),
            Err(error) => tracing::warn!("{error}"),
        }
        self.secrets = world.workspace.secrets.clone();
        self.workers.renew(*world);
    }

    fn configured(&mut self, config: &TurnConfig, fact: Fact, batch: &mut Batch) {
        let mut configured = config.payloads();
        self.secrets.redact_config(&mut configured);
        if let Some(configured) = self.state.changed_config(configured) {
            self.fact(Fact::new(Turn::Configured(configured)), batch);
        }
        self.fact(fact, batch);
    }

    /// Writes the first event, and a client's earlier choices. False: it is already in the log.
    fn write_birth(&mut self, batch: &mut Batch) -> bool {
        let Some(created_event) = self.created_event.take() else { return false };
        self.fact(created_event, batch);
        self.distrust(batch);
        for chosen in std::mem::take(&mut self.choices) {
            self.fact(Fact::new(chosen), batch);
        }
        true
    }

    /// Writes the first event of a fork, followed by facts.
    fn begin(
        &mut self,
        facts: Vec<Fact>,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
        batch: &mut Batch,
    ) {
        if !self.write_birth(batch) {
            // the client may be gone
            let _ = reply_to.send(Answered::NotOpen);
            return;
        }
        batch.settles.extend(settles);
        for fact in facts {
            self.fact(fact, batch);
        }
        batch.answer(Some(reply_to), Answered::Accepted);
    }

    fn prompt(&mut self, prompt: Prompt, batch: &mut Batch) {
        let Prompt { config, world, mut prompted, joins, reply_to } = prompt;
        if let Some(seq) = self.state.repeated_prompt(&prompted) {
            return batch.answer(reply_to, Answered::Repeated { seq });
        }
        let alone = joins && self.state.turn.is_none();
        if alone || self.created_event.is_none() && !admits(&self.state, &prompted) {
            // the client may be gone
            let _ = reply_to.map(|reply_to| reply_to.send(Answered::NotOpen));
            return;
        }
        let is_first = self.write_birth(batch);
        if !is_first && matches!(prompted.event, Event::Turn(Turn::Noted { .. })) {
            self.fact(prompted, batch);
            return batch.answer(reply_to, Answered::Accepted);
        }
        self.take_over(batch);
        if joins {
            // the prompt goes to the agent that is now at work
            self.readdress(&mut prompted);
            self.fact(prompted, batch);
        } else {
            self.renew(world);
            self.configured(&config, prompted, batch);
        }
        batch.answer(reply_to, Answered::Accepted);
    }

    /// Says in the log of an earlier version that this version decides from here on. Otherwise a
    /// session that ends each turn would keep the policy of the version that began it.
    fn take_over(&mut self, batch: &mut Batch) {
        let rests = self.state.turn.is_none() && self.state.open().is_empty();
        if rests && self.state.policy < POLICY && !self.clock.is_recorded() {
            let resumed = SessionEvent::Resumed { policy: POLICY, close: true };
            self.fact(Fact::new(resumed), batch);
        }
    }

    fn readdress(&self, prompted: &mut Fact) {
        if let Event::Turn(Turn::Prompted { agent, model, .. }) = &mut prompted.event {
            agent.clone_from(&self.state.agent);
            *model = self.state.config.model.name();
        }
    }

    /// Settles one fact; false if it no longer has a meaning.
    fn fact(&mut self, mut fact: Fact, batch: &mut Batch) -> bool {
        self.secrets.redact_fact(&mut fact);
        self.name_import(&mut fact.event);
        name_owner(&mut fact);
        // no event comes before the first one
        let admitted = self.created_event.is_none() && admits(&self.state, &fact);
        if admitted {
            let imported =
                matches!(fact.event, Event::Session(SessionEvent::ResumedImported { .. }));
            if imported {
                self.imported = None;
            }
            self.cut_off &=
                !imported && !matches!(fact.event, Event::Session(SessionEvent::Resumed { .. }));
            let now = self.clock.now(&self.state);
            batch.settles.extend(fact.settles);
            batch.add(settle(&mut self.state, self.log.session(), fact, now));
            if imported && !self.accepted.is_empty() {
                let steps = std::mem::take(&mut self.accepted);
                self.fact(Fact::new(Files::SnapshotsAccepted { steps }), batch);
            }
        } else {
            tracing::debug!(session = %self.state.session, of = fact.of, "too late: {:?}", fact.event);
        }
        admitted
    }

    /// Adds to the first `session.resumed` of an imported log up to where it was imported.
    fn name_import(&self, event: &mut Event) {
        if let (Event::Session(SessionEvent::Resumed { policy, close }), Some(imported)) =
            (&*event, self.imported)
        {
            let (policy, close) = (*policy, *close);
            *event = SessionEvent::ResumedImported { policy, close, imported }.into();
        }
    }

    /// The batch is durable: publish it and perform its intents.
    async fn flushed(
        &mut self,
        myself: &ActorRef<SessionMessage>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(InFlight { events, mut begun, reply_to }) = self.in_flight.take() else {
            return Ok(());
        };
        Batch::reply(reply_to);
        if let Err(gone) = self.observers.cast(ObserversMessage::Happened(Arc::clone(&events))) {
            tracing::warn!("the observer hub is gone: observers get no events: {gone}");
        }
        if !self.dead.is_empty() {
            // a worker may have died with the effects that had begun: they can be repeated
            begun.clear();
        }
        self.revive(myself, events.first().map_or(Seq::MAX, |event| event.seq)).await?;
        for event in events.iter() {
            if begun.contains(&event.seq) {
                continue;
            }
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

    /// Restarts dead workers. Their intents before seq `before` are lost; later ones have not been
    /// dispatched yet.
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

    /// Sets the one timer to the first deadline, unless it goes off earlier: most deadlines are never reached, and each
    /// new timer costs a task and a wake-up of the runtime.
    fn set_timer(&mut self, myself: &ActorRef<SessionMessage>) {
        let Some(wait) = self.clock.wait(&self.state).filter(|_| self.is_waiting()) else { return };
        let at = Instant::now() + wait;
        if self.timer.as_ref().is_none_or(|timer| timer.at > at) {
            self.stop_timer();
            self.timer = Some(Timer { at, task: self.wake_in(wait, myself) });
        }
    }

    fn wake_in(&mut self, wait: Duration, myself: &ActorRef<SessionMessage>) -> AbortHandle {
        let myself = myself.clone();
        self.tasks.spawn(tokio::time::sleep(wait), move |_| {
            let _ = myself.cast(SessionMessage::Due);
        })
    }

    fn stop_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.task.abort();
        }
    }
}

/// The first event of a session. Each node learns from it where the session works, also before its first turn.
fn first(created_event: SessionEvent, world: &World) -> Fact {
    let mut fact = Fact::new(created_event);
    if let Some(remote) = &world.workspace.remote {
        fact.notes.executor = Some(remote.name().to_owned());
    }
    fact
}

/// Adds this process to an event after which it writes the log.
fn name_owner(fact: &mut Fact) {
    if let Event::Session(
        SessionEvent::Created { .. }
        | SessionEvent::Forked { .. }
        | SessionEvent::Resumed { .. }
        | SessionEvent::ResumedImported { .. },
    ) = &fact.event
    {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let owner = || Owner { version, ..Owner::default() };
        fact.notes.owner.get_or_insert_with(owner);
    }
}
