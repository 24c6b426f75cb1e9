//! The shell around one session, modelled on its actor: waiting facts are settled into a batch, the
//! batch becomes durable, and only then is it acted upon. Repeatable effects alone begin earlier.

use std::collections::{HashMap, HashSet, VecDeque};

use leftfold_events::event::{Class, Event, Model, Permission, Session, Tool, Turn};
use leftfold_events::state::Phase;
use leftfold_events::{
    Envelope, Fact, POLICY, Repeatable, Seq, SessionId, State, Time, TurnConfig, fold, next, settle,
};

use super::Sabotage;
use super::ledger::{Held, Ledger};
use super::waits::Waits;

/// The receiver of the news that a child's turn is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent {
    pub(crate) sim_session: usize,
    pub(crate) spawned: Seq,
    pub(crate) started: Seq,
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Fact(Fact),
    /// A fact with its turn configuration. The configuration is written before the fact if it has
    /// changed.
    TurnConfigPayloads(Box<TurnConfig>, Fact),
    /// A person's answer to a question.
    Answer(Fact),
}

/// The system's clock, but never behind the log, never back and never slower than time passes.
#[derive(Clone, Copy, Debug)]
struct Clock {
    base: u64,
    since: u64,
}

/// Real time, and the time that the system reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) passed: u64,
    pub(crate) system: u64,
}

/// How long a batch waits for outcomes of effects that have begun, in milliseconds.
const HOLD: u64 = 20;

#[derive(Clone, Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Envelope>,
    /// The intents whose effects have begun before the batch is written.
    begun: Vec<Seq>,
    /// How many of the events were looked at for such intents.
    seen: usize,
    /// Until when the batch waits for their outcomes.
    until: Option<u64>,
    /// The person who answered, who gets a confirmation.
    pub(crate) answered: Vec<Fact>,
}

pub(crate) struct SimSession {
    pub(crate) id: SessionId,
    pub(crate) state: State,
    /// The durable events.
    pub(crate) log: Vec<Envelope>,
    pub(crate) ledger: Ledger,
    pub(crate) inbox: VecDeque<Item>,
    /// The settled batch that is not being written yet.
    pub(crate) held: Batch,
    pub(crate) in_flight: Option<Batch>,
    /// Open questions, and the first person to answer each.
    pub(crate) questions: HashMap<Seq, Option<String>>,
    /// Answers that were confirmed.
    pub(crate) accepted: Vec<(Seq, String)>,
    pub(crate) parent: Option<Parent>,
    /// Whether another node has left a turn or a restore here.
    pub(crate) cut_off: bool,
    /// Counts timers: only the last one counts.
    pub(crate) timer: u64,
    /// Every wait so far.
    pub(crate) waits: Waits,
    /// The intents whose effects have begun and are more than reading.
    acted: Vec<Envelope>,
    /// How many effects have begun before their intents were durable.
    pub(crate) early: u64,
    of: Option<SessionId>,
    clock: Clock,
    sabotage: Sabotage,
}

impl SimSession {
    pub(crate) fn new(id: SessionId, of: Option<SessionId>, now: Now, sabotage: Sabotage) -> Self {
        Self {
            id,
            state: State::default(),
            log: Vec::new(),
            ledger: Ledger::default(),
            inbox: VecDeque::new(),
            held: Batch::default(),
            in_flight: None,
            questions: HashMap::new(),
            accepted: Vec::new(),
            parent: None,
            cut_off: false,
            timer: 0,
            waits: Waits::default(),
            acted: Vec::new(),
            early: 0,
            of,
            clock: Clock { base: now.system, since: now.passed },
            sabotage,
        }
    }

    /// The node dies; this many of the events being written are already durable.
    pub(crate) fn die(&mut self, durable: usize) -> Held {
        let batch = self.in_flight.take().unwrap_or_default();
        self.log.extend(batch.events.into_iter().take(durable));
        self.held = Batch::default();
        let is_logged = |intent: &Envelope| self.log.iter().any(|event| event == intent);
        if let Some(lost) = self.acted.iter().find(|intent| !is_logged(intent)) {
            let lost = crate::common::describe(lost);
            return Err(format!("an effect whose intent is in no log: {lost}"));
        }
        self.inbox.clear();
        self.questions.clear();
        self.parent = None;
        self.timer += 1;
        self.state = fold(&self.log);
        self.waits.crashed(&self.state, &self.log);
        self.ledger = Ledger::from_log(&self.log)?;
        self.cut_off = self.state.turn.is_some() || self.state.files.restore.is_some();
        Ok(())
    }

    /// A new node begins.
    pub(crate) fn wake(&mut self, now: Now) {
        let base = now.system.max(self.state.at.millis());
        self.clock = Clock { base, since: now.passed };
    }

    pub(crate) fn time(&mut self, now: Now) -> Time {
        let steady = self.clock.base + (now.passed - self.clock.since);
        if now.system > steady {
            self.clock = Clock { base: now.system, since: now.passed };
        }
        Time::from_millis(now.system.max(steady))
    }

    pub(crate) fn prompt(&mut self, config: &TurnConfig, prompted: Fact) {
        self.inbox.push_back(Item::TurnConfigPayloads(Box::new(config.clone()), prompted));
    }

    pub(crate) fn resume(&mut self, config: &TurnConfig, close: bool) {
        let resumed = Fact::new(Session::Resumed { policy: POLICY, close });
        self.inbox.push_back(Item::TurnConfigPayloads(Box::new(config.clone()), resumed));
    }

    /// Settles the waiting facts, then the passed deadlines, into the held batch, which ends with the
    /// first model request.
    pub(crate) fn settle_waiting(&mut self, now: Now) -> Held {
        let at = self.time(now);
        let mut batch = std::mem::take(&mut self.held);
        while has_room(&batch)
            && let Some(item) = self.inbox.pop_front()
        {
            self.settle(item, at, &mut batch)?;
        }
        let overdue =
            if self.sabotage == Sabotage::NoTimer { Vec::new() } else { self.state.overdue(at) };
        for of in overdue {
            if has_room(&batch) {
                self.fact(Fact::for_intent(of, Session::DeadlinePassed {}), at, &mut batch)?;
            }
        }
        self.held = batch;
        Ok(())
    }

    /// The intents of the held batch whose effects begin now, before they are durable.
    pub(crate) fn begin_repeatable(&mut self, now: Now) -> Vec<Envelope> {
        let batch = &mut self.held;
        let is_end = |event: &Envelope| matches!(event.event, Event::Turn(Turn::Ended(_)));
        let is_over = batch.events[..batch.seen].iter().any(is_end);
        let new = batch.events[batch.seen..].iter().take_while(|event| !is_over && !is_end(event));
        let begins = |event: &&Envelope| match self.sabotage {
            Sabotage::Early => event.event.is_intent(),
            Sabotage::None | Sabotage::Late | Sabotage::NoTimer | Sabotage::Unsaid => {
                Repeatable::for_intent(event, &self.state).is_some()
            }
        };
        let begun: Vec<Envelope> = new.filter(begins).cloned().collect();
        batch.seen = batch.events.len();
        if !begun.is_empty() {
            batch.until.get_or_insert(now.passed + HOLD);
        }
        batch.begun.extend(begun.iter().map(|event| event.seq));
        self.early += begun.len() as u64;
        begun
    }

    /// How much longer the held batch waits for outcomes; `None`: it is written now.
    pub(crate) fn hold(&self, now: Now) -> Option<u64> {
        let left = self.held.until?.checked_sub(now.passed).filter(|left| *left > 0)?;
        let open = self.state.open();
        let is_open = |intent: &Seq| open.iter().any(|(_, wait)| wait.intent == *intent);
        (has_room(&self.held) && self.held.begun.iter().any(is_open)).then_some(left)
    }

    /// Hands the held batch to the disk. False: there is none.
    pub(crate) fn append(&mut self) -> bool {
        let batch = std::mem::take(&mut self.held);
        let any = !batch.events.is_empty();
        self.in_flight = any.then_some(batch);
        any
    }

    /// Notes an effect that begins, unless all that it does is to read.
    pub(crate) fn acts(&mut self, intent: &Envelope) {
        let reads = match &intent.event {
            Event::Tool(Tool::ResolveStarted { .. }) => true,
            Event::Tool(Tool::Started { name, class, .. }) => {
                name == "read" && *class == Class::Read
            }
            _ => false,
        };
        if intent.event.is_intent() && !reads {
            self.acted.push(intent.clone());
        }
    }

    fn settle(&mut self, item: Item, at: Time, batch: &mut Batch) -> Held {
        match item {
            Item::Fact(fact) => self.fact(fact, at, batch).map(drop),
            Item::Answer(fact) => {
                if self.fact(fact.clone(), at, batch)? {
                    batch.answered.push(fact);
                }
                Ok(())
            }
            Item::TurnConfigPayloads(config, fact) => {
                if self.state.origin.is_none() {
                    self.fact(self.created_event(), at, batch)?;
                }
                if !leftfold_events::admits(&self.state, &fact) {
                    return Ok(());
                }
                if let Some(configured) = self.state.changed_config(config.payloads()) {
                    self.fact(Fact::new(Turn::Configured(configured)), at, batch)?;
                }
                self.fact(fact, at, batch).map(drop)
            }
        }
    }

    fn created_event(&self) -> Fact {
        Fact::new(Session::Created {
            directory: "/p".into(),
            worktree: "/p".into(),
            parent: self.of,
            agent: "build".into(),
            version: "0".into(),
            policy: POLICY,
        })
    }

    fn fact(&mut self, fact: Fact, at: Time, batch: &mut Batch) -> Result<bool, String> {
        let admitted = leftfold_events::admits(&self.state, &fact);
        if !admitted && self.sabotage != Sabotage::Late {
            return Ok(false);
        }
        let equips = matches!(fact.event, Event::Turn(Turn::Configured(_)));
        let told = fact.clone();
        let mut events = settle(&mut self.state, self.id, fact, at);
        self.waits.follow(&self.state, &told, &events);
        if self.sabotage == Sabotage::Unsaid && events.len() > 2 {
            events.remove(1);
        }
        for event in &events {
            let told = self.ledger.see(event);
            told.map_err(|why| format!("{why}: {}", crate::common::describe(event)))?;
        }
        batch.events.extend(events);
        if !equips {
            self.rest()?;
        }
        Ok(true)
    }

    /// Checks for a session that has nothing left to decide.
    fn rest(&self) -> Held {
        let held = |so: bool, otherwise: &str| if so { Ok(()) } else { Err(otherwise.to_owned()) };
        let state = &self.state;
        let open = state.open();
        held(next(state).is_none(), "it does not come to rest")?;
        held(state.turn.is_none() || !open.is_empty(), "a turn that waits for nothing")?;
        held(state.due().is_some() || open.is_empty(), "it waits without a deadline")?;
        for (kind, wait) in open {
            if !self.ledger.awaits(wait.intent) {
                return Err(format!("it waits for {kind:?} of {}, which is over", wait.intent));
            }
        }
        let mut written = HashSet::new();
        let running = || state.calls().filter(|call| call.is_running());
        held(running().count() <= 8, "more than eight at once")?;
        for call in running().filter(|call| call.class() == Class::Write) {
            let mut paths = call.resolved.iter().flat_map(|resolved| &resolved.paths);
            held(paths.all(|path| written.insert(path)), "two write one path at once")?;
        }
        for call in state.calls() {
            let done = matches!(call.phase, Phase::Done(_));
            if done != self.ledger.has_ended(call.seq) {
                return Err(format!("call {} is done: {done}, and the log denies it", call.seq));
            }
        }
        Ok(())
    }

    /// A person's answer; only the first one counts.
    pub(crate) fn answer(&mut self, of: Seq, answer: Permission) {
        let Permission::Answered { by, .. } = &answer else { return };
        if let Some(first @ None) = self.questions.get_mut(&of) {
            *first = Some(by.clone());
            self.inbox.push_back(Item::Answer(Fact::for_intent(of, answer)));
        }
    }

    /// The batch is durable; people who answered get a confirmation. Returns the events that are acted upon now.
    pub(crate) fn flushed(&mut self) -> Vec<Envelope> {
        let Batch { mut events, begun, answered, .. } = self.in_flight.take().unwrap_or_default();
        self.log.extend(events.iter().cloned());
        events.retain(|event| !begun.contains(&event.seq));
        for fact in answered {
            if let (Some(of), Event::Permission(Permission::Answered { by, .. })) =
                (fact.of, fact.event)
            {
                self.accepted.push((of, by));
            }
        }
        events
    }

    /// Whether anything is in progress, or was left so by a node that has died.
    pub(crate) fn is_busy(&self) -> bool {
        let state = &self.state;
        state.turn.is_some() || state.files.restore.is_some() || !state.open().is_empty()
    }
}

fn has_room(batch: &Batch) -> bool {
    let request = |e: &Envelope| matches!(e.event, Event::Model(Model::Requested { .. }));
    !batch.events.iter().any(request)
}
