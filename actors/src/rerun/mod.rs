//! Runs a log again with the real actors. Each recorded fact is released when its place is reached,
//! through the actor or worker that reports such facts. The actors must make each recorded intent
//! themselves, and each effect must reach its worker. The workers have no access to models, tools,
//! files, processes, children or the clock, only to the log. Every session is run alone: a child's
//! recorded end is released, and the child's own log is run again as a session of its own.

#![allow(clippy::result_large_err, reason = "a divergence ends the rerun: it is made once")]

mod life;
mod recording;
mod release;
mod wire;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_events::event::{Class, Event, Files, Hook, Model, Subagent, Tool};
use leftfold_events::verify::{Divergence, difference, is_recovered};
use leftfold_events::{Envelope, Notes, Seq, SessionId, State, fold, line};
use serde::Serialize;
use serde_json::Value;

use crate::messages::Error;
use life::Life;
use recording::{Effect, event};
pub use wire::WireCounts;
use wire::{Wire, take_records};

/// The outcome of a rerun.
#[derive(Debug)]
pub struct Reran {
    /// `None`: the actors have made equal events.
    pub divergence: Option<Divergence>,
    /// `None`: the rerun did not go down to the wire.
    pub wire: Option<WireCounts>,
}

/// Runs the log of `session` (for a fork, including the shared events) again, in stores of its own
/// below `folder`. With `wire`, the store of the session, every request is encoded again and every
/// recorded answer is decoded again.
///
/// # Errors
/// A store in `folder` cannot be written or read, or an actor died.
pub async fn rerun(
    session: SessionId,
    mut log: Vec<Envelope>,
    folder: &Path,
    wire: Option<&Path>,
) -> Result<Reran, Error> {
    let records = take_records(&mut log);
    let wire = wire.map(|store| Wire::new(session, store, records));
    let log: Arc<[Envelope]> = log.into();
    let given = given(session, &log);
    let life = Life::begin(session, &log, given, &folder.join("0")).await?;
    let state = fold(&log[..given]);
    let mut rerun = Rerun {
        session,
        log,
        folder: folder.to_owned(),
        state,
        place: given,
        life,
        lives: 1,
        due: Vec::new(),
        bound: HashMap::new(),
        coming: HashSet::new(),
        wire,
    };
    let outcome = rerun.play().await?;
    let Rerun { life, log, place, mut wire, .. } = rerun;
    let written = life.end(session).await?;
    let divergence = outcome.err().or_else(|| read_back(session, &log[..place], &written));
    let changed = || wire.as_mut().and_then(Wire::changed);
    let divergence = divergence.or_else(changed);
    Ok(Reran { divergence, wire: wire.map(|wire| wire.counts) })
}

/// The number of events before the session's own: the shared events of a fork.
fn given(session: SessionId, log: &[Envelope]) -> usize {
    log.iter().take_while(|event| event.session != session).count()
}

/// Compares the store with the events that the actors have written.
fn read_back(session: SessionId, log: &[Envelope], written: &[Envelope]) -> Option<Divergence> {
    let own = log.iter().filter(|event| event.session == session);
    let mut written = written.iter().filter(|event| event.session == session);
    let differs =
        |event: &Envelope| compare(written.next(), Some(event), (session, event.seq)).err();
    own.map(differs).find_map(|divergence| divergence)
}

type Compared = Result<(), Divergence>;

fn compare(
    ours: Option<&Envelope>,
    recorded: Option<&Envelope>,
    (session, seq): (SessionId, Seq),
) -> Compared {
    // notes are not decided: they name the process that wrote the log, and its clients
    let place = |event: &Envelope| (event.session, event.seq, event.at, event.of, event.until);
    if ours.map(place) == recorded.map(place)
        && ours.map(|e| &e.event) == recorded.map(|e| &e.event)
    {
        return Ok(());
    }
    let json = |event: &Envelope| {
        let event = Envelope { notes: Notes::default(), ..event.clone() };
        serde_json::from_str::<Value>(&line::write(&event)).unwrap_or_default()
    };
    let kind =
        |event: Option<&Envelope>| event.map_or(Value::Null, |e| line::type_of(&e.event).into());
    let (field, expected, found) = match (ours, recorded) {
        (Some(ours), Some(recorded)) => difference(&json(ours), &json(recorded), "")
            .unwrap_or_else(|| ("data".to_owned(), Value::Null, Value::Null)),
        _ => ("type".to_owned(), kind(ours), kind(recorded)),
    };
    Err(Divergence { session, seq, field, expected, found })
}

/// The receiver of an outcome.
enum Bound {
    Effect(Effect),
    /// The outcome is already on its way.
    Reported,
}

struct Rerun {
    session: SessionId,
    log: Arc<[Envelope]>,
    folder: PathBuf,
    /// The fold of the log up to `place`.
    state: State,
    /// The number of processed events.
    place: usize,
    life: Life,
    lives: usize,
    /// Intents whose effects have not reached a worker yet.
    due: Vec<Seq>,
    /// The effects that have reached a worker, by their intents.
    bound: HashMap<Seq, Bound>,
    /// Facts that come together with others that were released.
    coming: HashSet<Seq>,
    wire: Option<Wire>,
}

impl Rerun {
    async fn play(&mut self) -> Result<Compared, Error> {
        loop {
            self.life.drain()?;
            if let Some(ours) = self.life.events.pop_front() {
                let recorded = self.log.get(self.place);
                let differs = compare(Some(&ours), recorded, (self.session, ours.seq));
                if differs.is_err() {
                    return Ok(differs);
                }
                self.accept(&ours);
                continue;
            }
            let Some(next) = self.log.get(self.place).cloned() else { break };
            let nothing = compare(None, Some(&next), (self.session, next.seq));
            if next.event.is_intent() {
                // it would have come with the fact that it follows from
                return Ok(nothing);
            }
            if let Err(divergence) = self.performed().await? {
                return Ok(Err(divergence));
            }
            if is_recovered(&next) {
                // the next life begins with it
                self.state.apply(&next);
                self.place += 1;
                continue;
            }
            if !self.coming.remove(&next.seq)
                && let Err(divergence) = self.release(&next).await?
            {
                return Ok(Err(divergence));
            }
            while self.life.events.is_empty() {
                if !self.life.listen().await? {
                    return Ok(nothing);
                }
            }
        }
        let performed = self.performed().await?;
        self.life.drain()?;
        let more = self.life.events.front();
        let more = more.map_or(Ok(()), |more| compare(Some(more), None, (self.session, more.seq)));
        Ok(performed.and(more))
    }

    /// Accepts an event that equals the recorded one.
    fn accept(&mut self, event: &Envelope) {
        self.state.apply(event);
        self.place += 1;
        if self.has_effect(event) {
            self.due.push(event.seq);
        }
    }

    /// Whether the intent is handed to a worker.
    fn has_effect(&self, event: &Envelope) -> bool {
        match &event.event {
            Event::Model(event) => matches!(event, Model::Requested { .. }),
            Event::Tool(event) => match event.started() {
                Some(started) => started.class != Class::Child,
                None => matches!(event, Tool::ResolveStarted { .. }),
            },
            Event::Subagent(event) => matches!(event, Subagent::Spawned { .. }),
            Event::Files(event) => {
                matches!(event, Files::SnapshotStarted {} | Files::RestoreStarted { .. })
            }
            Event::Hook(event) => matches!(event, Hook::Called { .. }),
            _ => false,
        }
    }

    /// Waits until the effects of all intents so far have reached their workers.
    async fn performed(&mut self) -> Result<Compared, Error> {
        for seq in std::mem::take(&mut self.due) {
            if let Err(divergence) = self.bind(seq).await? {
                return Ok(Err(divergence));
            }
        }
        Ok(Ok(()))
    }

    /// Finds the effect of the intent `seq`, and compares it with the decision.
    async fn bind(&mut self, seq: Seq) -> Result<Compared, Error> {
        loop {
            if let Some(at) = self.life.effects.iter().position(|effect| self.is_of(effect, seq)) {
                let effect = self.life.effects.remove(at);
                let compared =
                    self.is_as_decided(&effect, seq).and_then(|()| self.encoded(&effect, seq));
                self.bound.insert(seq, Bound::Effect(effect));
                return Ok(compared);
            }
            if !self.life.listen().await? {
                return Ok(Err(self.missed(seq, "effect")));
            }
        }
    }

    fn is_of(&self, effect: &Effect, seq: Seq) -> bool {
        let intent = event(&self.log, seq).map(|event| &event.event);
        match effect {
            Effect::Request { sha256, .. } => {
                let asked = |asked: &Event| {
                    matches!(asked, Event::Model(Model::Requested { request_sha256, .. })
                        if request_sha256 == sha256)
                };
                intent.is_some_and(asked)
            }
            Effect::Check { of, .. }
            | Effect::Run { of, .. }
            | Effect::Switch { of, .. }
            | Effect::Files { of, .. }
            | Effect::Plugin { of, .. } => *of == seq,
            Effect::Child(parent) => parent.spawned == seq,
        }
    }

    fn is_as_decided(&self, effect: &Effect, seq: Seq) -> Compared {
        let of = event(&self.log, seq).and_then(|intent| intent.of);
        let call = || self.state.calls().find(|call| Some(call.seq) == of);
        match effect {
            Effect::Check { call: ours, .. } => call().map_or(Ok(()), |call| {
                self.same(seq, "name", &ours.name, &call.name)?;
                self.same(seq, "input", &ours.input, call.arguments())
            }),
            Effect::Run { resolution, .. } => {
                let resolved = call().and_then(|call| call.resolved.as_ref());
                resolved.map_or(Ok(()), |resolved| self.same(seq, "resolved", resolution, resolved))
            }
            Effect::Request { .. } | Effect::Files { .. } | Effect::Child(_) => Ok(()),
            Effect::Switch { .. } | Effect::Plugin { .. } => Ok(()),
        }
    }

    /// Encodes a request again, if the rerun goes down to the wire.
    fn encoded(&mut self, effect: &Effect, seq: Seq) -> Compared {
        match (effect, &mut self.wire) {
            (Effect::Request { request, .. }, Some(wire)) => {
                wire.requested(seq, request, &self.state, &self.log)
            }
            _ => Ok(()),
        }
    }

    fn same<T: Serialize>(&self, seq: Seq, path: &str, ours: &T, recorded: &T) -> Compared {
        let json = |value| serde_json::to_value(value).unwrap_or_default();
        let differs = difference(&json(ours), &json(recorded), path);
        differs.map_or(Ok(()), |(field, expected, found)| {
            Err(Divergence { session: self.session, seq, field, expected, found })
        })
    }

    /// The divergence if the actors made nothing of the intent or fact `seq` where the log has an
    /// event.
    fn missed(&self, seq: Seq, field: &str) -> Divergence {
        let found = event(&self.log, seq).map(|event| line::type_of(&event.event).into());
        let (session, field) = (self.session, field.to_owned());
        Divergence { session, seq, field, expected: Value::Null, found: found.unwrap_or_default() }
    }

    /// A crash: the session continues with the log as it is.
    async fn begin_again(&mut self) -> Result<Compared, Error> {
        let folder = self.folder.join(self.lives.to_string());
        self.lives += 1;
        let life = Life::begin(self.session, &self.log, self.place, &folder).await?;
        let before = std::mem::replace(&mut self.life, life);
        // the effects that waited for outcomes are gone
        self.bound.clear();
        let written = before.end(self.session).await?;
        let own = &self.log[..self.place];
        let recovered = own.iter().rev().take_while(|event| is_recovered(event)).count();
        let differs = read_back(self.session, &own[..own.len() - recovered], &written);
        Ok(differs.map_or(Ok(()), Err))
    }
}
