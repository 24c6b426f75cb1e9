//! A node, its sessions, their workers and the people around it: time advances from one delivery to
//! the next.

use std::collections::BTreeMap;

use leftfold_events::event::{Event, Hook, Model, Permission, Session, Tool, Turn};
use leftfold_events::{Envelope, Seq, SessionId, Time, TurnConfig, request_builder};

use super::people::Deed;
use super::random::Random;
use super::session::{Item, Now, SimSession};
use super::session_tree::Spawn;
use super::{Sabotage, ledger::Held};
use crate::common::{START, describe, fault};

/// The number of deliveries after which a world must have come to rest.
const BOUND: usize = 6_000;

/// An event at a point in time.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// A worker sends facts to a session.
    Tell(usize, Box<Item>),
    Flushed(usize),
    /// The timer with this number of a session.
    Due(usize, u64),
    Spawn(Box<Spawn>),
    /// A person answers a question.
    Answer(usize, Seq, Permission),
    Deed(Deed),
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) passed: u64,
    /// How far the system's clock has been set ahead, or back.
    pub(crate) ahead: i64,
    /// Deliveries belong to the life of a node, except those of people.
    queue: BTreeMap<(u64, u64), (Option<u32>, Delivery)>,
    order: u64,
    pub(crate) life: u32,
    pub(crate) up: bool,
    /// The first is the root.
    pub(crate) sessions: Vec<SimSession>,
    pub(crate) config: TurnConfig,
    /// People's actions when all participants are at rest.
    pub(crate) afterwards: Vec<Deed>,
    pub(crate) sabotage: Sabotage,
}

impl World {
    pub(crate) fn new(seed: u64, sabotage: Sabotage) -> Self {
        let mut random = Random::new(seed);
        let root = SessionId::default().child(random.below(1 << 40), Time::from_millis(START));
        let config = super::people::config(&mut random);
        let mut world = Self {
            random,
            passed: 0,
            ahead: 0,
            queue: BTreeMap::new(),
            order: 0,
            life: 0,
            up: true,
            sessions: Vec::new(),
            config,
            afterwards: Vec::new(),
            sabotage,
        };
        world.sessions.push(SimSession::new(root, None, world.now(), sabotage));
        world
    }

    pub(crate) fn now(&self) -> Now {
        let system = (START + self.passed).saturating_add_signed(self.ahead);
        Now { passed: self.passed, system }
    }

    /// Schedules a delivery in this many milliseconds, unless this node dies before.
    pub(crate) fn later(&mut self, delay: u64, delivery: Delivery) {
        self.at(delay, Some(self.life), delivery);
    }

    pub(crate) fn at(&mut self, delay: u64, life: Option<u32>, delivery: Delivery) {
        self.order += 1;
        self.queue.insert((self.passed + delay, self.order), (life, delivery));
    }

    /// Schedules facts of workers: they may get lost, come twice, or overtake earlier ones.
    pub(crate) fn say(&mut self, sim_session: usize, delay: u64, item: Item) {
        if self.random.one_in(50) {
            return;
        }
        let late = if self.random.one_in(20) { self.random.below(30_000) } else { 0 };
        if self.random.one_in(25) {
            let again = delay + self.random.below(2_000);
            self.later(again, Delivery::Tell(sim_session, Box::new(item.clone())));
        }
        self.later(delay + late, Delivery::Tell(sim_session, Box::new(item)));
    }

    /// Runs from the first prompt until all participants are at rest.
    pub(crate) fn run(&mut self) -> Held {
        self.plan();
        for _ in 0..BOUND {
            let Some(((at, _), (life, delivery))) = self.queue.pop_first() else {
                if self
                    .sessions
                    .iter()
                    .any(|sim_session| sim_session.is_busy() && !self.is_left(sim_session))
                {
                    return Err("nothing will ever happen, and it is not over".into());
                }
                if self.go_on() {
                    continue;
                }
                return Ok(());
            };
            self.passed = at;
            if life.is_none_or(|life| life == self.life && self.up) {
                self.deliver(delivery)?;
            }
        }
        Err(format!("no rest after {BOUND} deliveries"))
    }

    /// A child that was to be closed when another crash came, in a turn that is over: no call waits
    /// for it, and it has no effect.
    pub(crate) fn is_left(&self, sim_session: &SimSession) -> bool {
        self.life > 1 && sim_session.id != self.sessions[0].id && sim_session.cut_off
    }

    fn deliver(&mut self, delivery: Delivery) -> Held {
        match delivery {
            Delivery::Tell(at, item) => {
                self.sessions[at].inbox.push_back(*item);
                self.write(at)
            }
            Delivery::Flushed(at) => {
                let events = self.sessions[at].flushed();
                events.iter().try_for_each(|event| self.dispatch(at, event))?;
                self.write(at)
            }
            Delivery::Due(at, timer) if self.sessions[at].timer == timer => self.write(at),
            Delivery::Due(..) => Ok(()),
            Delivery::Spawn(spawn) => self.open_child(&spawn),
            Delivery::Answer(..) if !self.up => Ok(()),
            Delivery::Answer(at, of, answer) => {
                self.sessions[at].answer(of, answer);
                self.write(at)
            }
            Delivery::Deed(deed) => self.perform(&deed),
        }
    }

    pub(crate) fn write(&mut self, at: usize) -> Held {
        let now = self.now();
        let sim_session = &mut self.sessions[at];
        if sim_session.in_flight.is_some() {
            return Ok(());
        }
        sim_session.timer += 1;
        sim_session.settle_waiting(now)?;
        for intent in self.sessions[at].begin_repeatable(now) {
            self.dispatch(at, &intent)?;
        }
        let sim_session = &mut self.sessions[at];
        if let Some(left) = sim_session.hold(now) {
            let timer = sim_session.timer;
            self.later(left, Delivery::Due(at, timer));
        } else if sim_session.append() {
            let flush = self.random.below(8);
            self.later(flush, Delivery::Flushed(at));
        } else if let Some(due) = sim_session.state.due() {
            let (wait, timer) = (due.since(sim_session.time(now)), sim_session.timer);
            if self.sabotage != Sabotage::NoTimer {
                self.later(wait, Delivery::Due(at, timer));
            }
        }
        Ok(())
    }

    /// Performs an event with the session's workers: a durable one, or one whose effect is repeatable.
    fn dispatch(&mut self, at: usize, event: &Envelope) -> Held {
        self.sessions[at].acts(event);
        let of = event.of.unwrap_or_default();
        match &event.event {
            Event::Model(Model::Requested { .. }) => self.requested(at, event)?,
            Event::Tool(Tool::ResolveStarted { .. }) => self.check(at, event.seq, of),
            Event::Tool(Tool::Started { .. } | Tool::StartedSandboxed(_)) => {
                self.run_call(at, event.seq, of);
            }
            Event::Tool(Tool::Cancelled { .. }) => self.interrupt_children(at, of)?,
            Event::Subagent(_) if event.event.is_intent() => self.spawn(at, event.seq),
            Event::Permission(Permission::Asked { .. }) => self.ask(at, event.seq),
            Event::Permission(Permission::RejectedWith { .. }) => {
                self.sessions[at].questions.remove(&of);
            }
            Event::Turn(Turn::Ended(ended)) => {
                self.sessions[at].questions.clear();
                self.report(at, ended);
            }
            Event::Session(
                Session::Resumed { close, .. } | Session::ResumedImported { close, .. },
            ) => {
                self.ask_again(at, event.seq);
                self.spawn_again(at, event.seq, *close);
            }
            Event::Session(Session::DeadlinePassed {}) => {
                self.sessions[at].questions.remove(&of);
                self.give_up(at, of);
            }
            Event::Files(files) if event.event.is_intent() => {
                self.keep_files(at, event.seq, files);
            }
            Event::Hook(Hook::Called { hook, .. }) => self.hear(at, event.seq, *hook),
            _ => {}
        }
        Ok(())
    }

    /// The sent request follows from the log, and any API would accept it.
    fn requested(&mut self, at: usize, event: &Envelope) -> Held {
        let Event::Model(Model::Requested { purpose, request_sha256, step, .. }) = &event.event
        else {
            return Ok(());
        };
        let request = request_builder::asked(&self.sessions[at].state, *purpose).request;
        if request.sha256() != *request_sha256 {
            return Err(format!("another request than logged: {}", describe(event)));
        }
        if let Some(fault) = fault(&request) {
            return Err(format!("{fault}: {}", describe(event)));
        }
        self.reply(at, event.seq, *purpose, *step);
        Ok(())
    }
}
