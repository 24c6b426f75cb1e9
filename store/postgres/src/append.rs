//! Appends: what waits is committed together, over two connections, each group by one statement.
//!
//! - A row of `session` is locked before it is compared, in the order of ids. Without the order, rivals
//!   deadlock.
//! - The answer names appends by their number in the group, not by their session. Two rivals' appends
//!   to one session would otherwise both be told yes.
//! - A group holds one append of a session. Appends of one session that wait behind each other are
//!   joined to one.
//! - What became of a commit whose answer was lost is read from the session's row *with a lock*. The
//!   lock waits for a commit that the server still works on, and its own commit waits for the same
//!   standbys, so that what it saw is as durable as if the answer had come.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leftfold_events::{MessageId, Seq, SessionId, Sha256};
use leftfold_store::Link;
use leftfold_store::day::Day;
use leftfold_store::engine::StoredEvent;
use leftfold_store::usage::DayUse;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::batch;
use crate::columns::{get, link, message_uuid, seq, session, uuid};
use crate::connection::{Attempts, Open, Slot};
use crate::error::Error;
use crate::hints::Announcer;
use crate::metrics::Metrics;

/// Most bytes of a group. A larger append is a group of its own.
const MAX_GROUP: usize = 4 << 20;
const MAX_UNITS: usize = 1_024;

/// Most bytes of an append. PostgreSQL keeps up to 1 GB in a field.
const MAX_APPEND: usize = 256 << 20;

/// How often somebody looks who waits until appends are settled.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_millis(1);

const APPEND: &str = include_str!("append.sql");

/// The rows of sessions, locked.
const LOOK: &str =
    "select id, seq, link, epoch from session where id = any($1) order by id for update";

/// Receives what became of an append. It runs on the engine's thread and is quick.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Where a log ends: its last event's seq and link. For a log without events: 0 and zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub seq: Seq,
    pub link: Link,
}

/// One batch of a session's log.
pub struct Append {
    pub session: SessionId,
    /// The epoch of the claim by which this process owns the session.
    pub epoch: i64,
    /// The session's own last event before the batch.
    pub expected: End,
    /// At least one, in order. The first follows `expected`, unless the session has no event of its own
    /// yet: a fork's events go on after those of another session.
    pub events: Vec<StoredEvent>,
    /// Contents that the events name, under their hashes.
    pub payloads: Vec<(Sha256, Arc<[u8]>)>,
    /// The new head, for lists.
    pub head: Vec<u8>,
    /// The session's use of its project's quota.
    pub usage: Option<DayUse>,
    /// Whether the session wants a node after this.
    pub wants: bool,
    /// The messages of the inbox that the batch settles. They are deleted with it. If one is gone
    /// already, the batch is refused: it was settled before.
    pub settles: Vec<MessageId>,
    pub done: Done,
}

impl std::fmt::Debug for Append {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seqs: Vec<_> = self.events.iter().map(|event| event.seq).collect();
        let mut shown = f.debug_struct("Append");
        shown.field("session", &self.session).field("epoch", &self.epoch);
        shown.field("expected", &self.expected.seq).field("seqs", &seqs).finish_non_exhaustive()
    }
}

impl Append {
    fn check(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::Unstorable { session: self.session, why: why.into() });
        let seqs = self.events.iter().map(|event| event.seq);
        let Some(first) = self.events.first() else { return refuse("it has no event") };
        if self.expected.seq > 0 && first.seq != self.expected.seq + 1 {
            return refuse("it leaves a gap");
        }
        if first.seq == 0 || !seqs.eq((first.seq..).take(self.events.len())) {
            return refuse("its events are not in order");
        }
        let payloads: usize = self.payloads.iter().map(|(_, bytes)| bytes.len()).sum();
        if batch::size(&self.events) + payloads > MAX_APPEND {
            return refuse("it is larger than 256 MiB");
        }
        Ok(())
    }
}

/// The change of a group to one session: one append, or several joined.
struct Unit {
    session: SessionId,
    epoch: i64,
    expected: End,
    first: Seq,
    end: End,
    body: Vec<u8>,
    payloads: Vec<(Sha256, Arc<[u8]>)>,
    head: Vec<u8>,
    usage: Option<DayUse>,
    wants: bool,
    settles: Vec<MessageId>,
    /// Behind a lock only because callbacks cannot be shared between threads.
    done: Mutex<Vec<Done>>,
}

impl Unit {
    fn new(append: &Append) -> Self {
        Self {
            session: append.session,
            epoch: append.epoch,
            expected: append.expected,
            first: append.events.first().map_or(0, |event| event.seq),
            end: append.expected,
            body: Vec::new(),
            payloads: Vec::new(),
            head: Vec::new(),
            usage: None,
            wants: false,
            settles: Vec::new(),
            done: Mutex::default(),
        }
    }

    fn can_join(&self, append: &Append) -> bool {
        (append.epoch, append.expected) == (self.epoch, self.end)
    }

    fn join(&mut self, append: Append) {
        batch::encode(self.session, &append.events, &mut self.body);
        if let Some(last) = append.events.last() {
            self.end = End { seq: last.seq, link: last.link };
        }
        self.payloads.extend(append.payloads);
        self.settles.extend(append.settles);
        (self.head, self.usage, self.wants) = (append.head, append.usage, append.wants);
        self.done.get_mut().unwrap_or_else(PoisonError::into_inner).push(append.done);
    }

    fn events(&self) -> u64 {
        (self.end.seq + 1).saturating_sub(self.first)
    }

    fn size(&self) -> usize {
        self.body.len() + self.payloads.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }
}

/// The appends that wait to be committed.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    pub(crate) announcer: Arc<Announcer>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Append>,
    /// Sessions of which an append is being committed.
    busy: HashSet<SessionId>,
    /// Epochs in which an append has failed, and why. Later appends would leave a gap.
    poisoned: HashMap<SessionId, (i64, String)>,
    /// Why no append is taken any more.
    stopped: Option<Error>,
}

impl Queue {
    pub(crate) fn new(announcer: Arc<Announcer>, metrics: Arc<Metrics>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), announcer, metrics }
    }

    pub(crate) fn put(&self, append: Append) {
        let refused = append.check().err().or_else(|| self.state().refusal(&append));
        if let Some(error) = refused {
            self.state().poison(append.session, append.epoch, &error);
            self.metrics.failed(1);
            return call(append.done, Err(error));
        }
        self.state().waiting.push_back(append);
        self.changed.notify_one();
    }

    /// No more appends are taken.
    pub(crate) fn stop(&self, error: Error) {
        self.state().stopped.get_or_insert(error);
        self.changed.notify_waiters();
    }

    /// Waits until no append waits or is being committed: of these sessions, or of all.
    pub(crate) async fn settled(&self, sessions: Option<&HashSet<SessionId>>) {
        while !self.state().is_settled(sessions) {
            tokio::time::sleep(SETTLE_POLL_INTERVAL).await;
        }
    }

    /// Takes appends of a session again, although one has failed in its epoch. All of them are settled, and the
    /// caller has looked up where the log ends.
    pub(crate) fn forgive(&self, session: SessionId) {
        self.state().poisoned.remove(&session);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits what waits, for ever. Two of these run at a time.
    pub(crate) async fn work(self: Arc<Self>, slot: Slot, patience: Duration) {
        let worker = Worker { queue: Arc::clone(&self), slot, patience };
        loop {
            let (group, refused) = self.state().take_group();
            self.metrics.failed(refused.len());
            for (done, error) in refused {
                call(done, Err(error));
            }
            if group.is_empty() {
                self.changed.notified().await;
            } else {
                // there may be work for the other one
                self.changed.notify_one();
                worker.commit(group).await;
            }
        }
    }

    /// Tells what became of units.
    fn answer(&self, units: Vec<(Unit, Result<(), Error>)>) {
        {
            let mut state = self.state();
            for (unit, result) in &units {
                state.busy.remove(&unit.session);
                if let Err(error) = result {
                    state.poison(unit.session, unit.epoch, error);
                }
            }
        }
        let durable = units.iter().filter(|(_, result)| result.is_ok());
        self.announcer.announce(durable.map(|(unit, _)| unit.session));
        for (unit, result) in units {
            let events = unit.events();
            let appends = unit.done.into_inner().unwrap_or_else(PoisonError::into_inner);
            match &result {
                Ok(()) => self.metrics.appended(appends.len(), events),
                Err(_) => self.metrics.failed(appends.len()),
            }
            for done in appends {
                call(done, result.clone());
            }
        }
        self.changed.notify_one();
    }
}

/// A panic in a caller's callback must not take the engine down.
fn call(done: Done, result: Result<(), Error>) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("the receiver of an append's result panicked");
    }
}

impl State {
    fn is_settled(&self, sessions: Option<&HashSet<SessionId>>) -> bool {
        match sessions {
            Some(sessions) => {
                let waits = self.waiting.iter().any(|append| sessions.contains(&append.session));
                !waits && self.busy.is_disjoint(sessions)
            }
            None => self.waiting.is_empty() && self.busy.is_empty(),
        }
    }

    fn refusal(&self, append: &Append) -> Option<Error> {
        if let Some(error) = &self.stopped {
            return Some(error.clone());
        }
        let (epoch, why) = self.poisoned.get(&append.session)?;
        let (session, why) = (append.session, why.clone());
        (append.epoch <= *epoch).then_some(Error::Poisoned { session, why })
    }

    fn poison(&mut self, session: SessionId, epoch: i64, error: &Error) {
        let (known, why) = self.poisoned.entry(session).or_insert((epoch, error.to_string()));
        if *known < epoch {
            (*known, *why) = (epoch, error.to_string());
        }
    }

    /// The next group, and appends that are refused.
    fn take_group(&mut self) -> (Vec<Unit>, Vec<(Done, Error)>) {
        let mut units: Vec<Unit> = Vec::new();
        let mut places: HashMap<SessionId, usize> = HashMap::new();
        // sessions of which an append stays behind, so later ones have to
        let mut held: HashSet<SessionId> = HashSet::new();
        let mut size = 0;
        let mut refused = Vec::new();
        for append in std::mem::take(&mut self.waiting) {
            let session = append.session;
            if let Some(error) = self.refusal(&append) {
                refused.push((append.done, error));
                continue;
            }
            let place = places.get(&session).copied();
            let fits =
                size < MAX_GROUP && !self.busy.contains(&session) && !held.contains(&session);
            let unit = match place {
                Some(place) => units.get_mut(place).filter(|unit| unit.can_join(&append)),
                None if fits && units.len() < MAX_UNITS => {
                    places.insert(session, units.len());
                    units.push(Unit::new(&append));
                    units.last_mut()
                }
                None => None,
            };
            match unit.filter(|_| fits) {
                Some(unit) => {
                    let before = unit.size();
                    unit.join(append);
                    size += unit.size() - before;
                }
                None => {
                    held.insert(session);
                    self.waiting.push_back(append);
                }
            }
        }
        self.busy.extend(places.into_keys());
        (units, refused)
    }
}

struct Worker {
    queue: Arc<Queue>,
    slot: Slot,
    patience: Duration,
}

/// The outcome of an attempt to commit a group.
enum Attempt {
    /// Whether each unit was appended.
    Answered(Vec<bool>),
    /// Nothing was appended, and the same may succeed later.
    Again(Error),
    /// Nothing was appended.
    Refused(Error),
    /// Nobody knows.
    Unknown(Error),
}

impl Worker {
    async fn commit(&self, group: Vec<Unit>) {
        let end = Instant::now() + self.patience;
        let mut attempts = Attempts::until(end);
        let mut group = group;
        while !group.is_empty() {
            match self.attempt(&group, end).await {
                Attempt::Answered(appended) => return self.finish(group, appended, end).await,
                Attempt::Again(error) => {
                    if !attempts.wait().await {
                        return self.fail(group, &error);
                    }
                }
                Attempt::Refused(error) if group.len() > 1 && error != Error::Unsynced => {
                    tracing::warn!("a group of {} appends is refused: {error}", group.len());
                    for unit in group {
                        Box::pin(self.commit(vec![unit])).await;
                    }
                    return;
                }
                Attempt::Refused(error) => return self.fail(group, &error),
                Attempt::Unknown(error) => {
                    tracing::warn!("it is looked up what became of a commit: {error}");
                    self.slot.close().await;
                    group = self.resolve(group, end, error).await;
                }
            }
        }
    }

    async fn attempt(&self, group: &[Unit], end: Instant) -> Attempt {
        let open = match self.slot.get().await {
            Ok(open) => open,
            Err(error) => return Attempt::Again(error),
        };
        let began = Instant::now();
        let Ok(result) = timeout_at(end, append(&open, group)).await else {
            return Attempt::Unknown(self.slow("while it committed"));
        };
        if open.is_unsynced() {
            self.queue.stop(Error::Unsynced);
            return Attempt::Refused(Error::Unsynced);
        }
        match result {
            Ok(appended) => {
                let done = || group.iter().zip(&appended).filter(|(_, appended)| **appended);
                if done().next().is_some() {
                    let events = done().map(|(unit, _)| unit.events()).sum();
                    let bytes = done().map(|(unit, _)| unit.size()).sum();
                    self.queue.metrics.committed(events, bytes, began.elapsed());
                }
                Attempt::Answered(appended)
            }
            Err(error) => {
                let mapped = self.slot.error(&error);
                match error.code().map(tokio_postgres::error::SqlState::code) {
                    // serialisation, deadlock, connections or memory used up: rolled back
                    Some("40001" | "40P01" | "53300" | "53200" | "55P03") => Attempt::Again(mapped),
                    _ if matches!(mapped, Error::ReadOnly { .. }) => {
                        self.slot.close().await;
                        Attempt::Again(mapped)
                    }
                    _ if matches!(mapped, Error::Lost { .. }) => Attempt::Unknown(mapped),
                    None => Attempt::Unknown(mapped),
                    Some(_) => Attempt::Refused(mapped),
                }
            }
        }
    }

    /// Answers a group after the statement has answered. What was not appended may still be there: an
    /// attempt before this one, of which nobody knew what became of it, may have come through in the
    /// meantime.
    async fn finish(&self, group: Vec<Unit>, appended: Vec<bool>, end: Instant) {
        let (mut answers, mut refused) = (Vec::new(), Vec::new());
        for (unit, appended) in group.into_iter().zip(appended) {
            if appended {
                answers.push((unit, Ok(())));
            } else {
                refused.push(unit);
            }
        }
        self.queue.answer(answers);
        if refused.is_empty() {
            return;
        }
        match self.look(&refused, end).await {
            Ok(rows) => {
                let judge = |unit: Unit| {
                    let row = rows.get(&unit.session);
                    let result = match row {
                        Some(row) if row.end == unit.end => Ok(()),
                        Some(_) | None => Err(fenced(&unit, row)),
                    };
                    (unit, result)
                };
                self.queue.answer(refused.into_iter().map(judge).collect());
            }
            Err(error) => self.fail(refused, &error),
        }
    }

    /// Finds out what became of an unknown commit. Returns the units to append again.
    async fn resolve(&self, group: Vec<Unit>, end: Instant, lost: Error) -> Vec<Unit> {
        let rows = match self.look(&group, end).await {
            Ok(rows) => rows,
            Err(Error::Unsynced) => {
                self.fail(group, &Error::Unsynced);
                return Vec::new();
            }
            Err(error) => {
                let why = format!("{lost}; since then: {error}");
                self.fail(group, &Error::Slow { what: why, waited: self.patience });
                return Vec::new();
            }
        };
        let (mut answers, mut again) = (Vec::new(), Vec::new());
        for unit in group {
            match rows.get(&unit.session) {
                Some(row) if row.end == unit.end => answers.push((unit, Ok(()))),
                Some(row) if (row.end, row.epoch) == (unit.expected, unit.epoch) => {
                    again.push(unit);
                }
                row => {
                    let error = fenced(&unit, row);
                    answers.push((unit, Err(error)));
                }
            }
        }
        self.queue.answer(answers);
        again
    }

    async fn look(&self, units: &[Unit], end: Instant) -> Result<HashMap<SessionId, Row>, Error> {
        let ids: Vec<Uuid> = units.iter().map(|unit| uuid(unit.session)).collect();
        let mut attempts = Attempts::until(end);
        loop {
            let looked = timeout_at(end, self.look_once(&ids)).await;
            let slow = |_| self.slow("when the last event of a session was looked up");
            let looked = looked.unwrap_or_else(|elapsed| Err(slow(elapsed)));
            if let Some(result) = attempts.take(looked).await {
                return result;
            }
        }
    }

    async fn look_once(&self, ids: &[Uuid]) -> Result<HashMap<SessionId, Row>, Error> {
        let open = self.slot.get().await?;
        let rows = open.query(LOOK, &[&ids]).await.map_err(|error| self.slot.error(&error))?;
        if open.is_unsynced() {
            self.queue.stop(Error::Unsynced);
            return Err(Error::Unsynced);
        }
        let mut found = HashMap::new();
        for row in rows {
            let end = End { seq: seq(get(&row, 1)?), link: link(get(&row, 2)?)? };
            found.insert(session(get(&row, 0)?), Row { end, epoch: get(&row, 3)? });
        }
        Ok(found)
    }

    fn slow(&self, what: &str) -> Error {
        Error::Slow { what: what.into(), waited: self.patience }
    }

    fn fail(&self, group: Vec<Unit>, error: &Error) {
        self.queue.answer(group.into_iter().map(|unit| (unit, Err(error.clone()))).collect());
    }
}

/// A session's row.
struct Row {
    end: End,
    epoch: i64,
}

fn fenced(unit: &Unit, row: Option<&Row>) -> Error {
    let why = match row {
        None => "it is not in the database".to_owned(),
        Some(row) if row.epoch != unit.epoch => {
            format!("its epoch is {}, and the append is of {}", row.epoch, unit.epoch)
        }
        Some(row) if row.end != unit.expected => {
            format!("its last event is {}, not {}", row.end.seq, unit.expected.seq)
        }
        Some(_) => "a message that the append settles is settled already".to_owned(),
    };
    Error::Fenced { session: unit.session, why }
}

async fn append(open: &Open, group: &[Unit]) -> Result<Vec<bool>, tokio_postgres::Error> {
    let column = |seq: Seq| i64::try_from(seq).unwrap_or(i64::MAX);
    let sessions: Vec<Uuid> = group.iter().map(|unit| uuid(unit.session)).collect();
    let expected: Vec<i64> = group.iter().map(|unit| column(unit.expected.seq)).collect();
    let before: Vec<&[u8]> = group.iter().map(|unit| &unit.expected.link[..]).collect();
    let epochs: Vec<i64> = group.iter().map(|unit| unit.epoch).collect();
    let firsts: Vec<i64> = group.iter().map(|unit| column(unit.first)).collect();
    let lasts: Vec<i64> = group.iter().map(|unit| column(unit.end.seq)).collect();
    let links: Vec<&[u8]> = group.iter().map(|unit| &unit.end.link[..]).collect();
    let heads: Vec<&[u8]> = group.iter().map(|unit| unit.head.as_slice()).collect();
    let bodies: Vec<&[u8]> = group.iter().map(|unit| unit.body.as_slice()).collect();
    let (mut owners, mut hashes, mut contents) = (Vec::new(), Vec::new(), Vec::new());
    let (mut settlers, mut settled): (Vec<i64>, Vec<Uuid>) = (Vec::new(), Vec::new());
    for (unit, number) in group.iter().zip(1_i64..) {
        for (hash, bytes) in &unit.payloads {
            owners.push(number);
            hashes.push(&hash.as_bytes()[..]);
            contents.push(&bytes[..]);
        }
        settlers.extend(unit.settles.iter().map(|_| number));
        settled.extend(unit.settles.iter().copied().map(message_uuid));
    }
    let wants: Vec<bool> = group.iter().map(|unit| unit.wants).collect();
    let usage = || group.iter().map(|unit| unit.usage);
    let day = |day: Day| i32::try_from(day).unwrap_or(i32::MAX);
    let projects: Vec<Option<&[u8]>> =
        group.iter().map(|unit| Some(&unit.usage.as_ref()?.project.as_bytes()[..])).collect();
    let first_prompts: Vec<Option<i32>> = usage().map(|it| it?.first_prompt.map(day)).collect();
    let last_days: Vec<Option<i32>> = usage().map(|it| Some(day(it?.last))).collect();
    let last_costs: Vec<Option<f64>> = usage().map(|it| Some(it?.cost)).collect();
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 19] = [
        &sessions, &expected, &before, &epochs, &firsts, &lasts, &links, &heads, &bodies, &owners,
        &hashes, &contents, &settlers, &settled, &wants, &projects, &first_prompts, &last_days,
        &last_costs,
    ];
    let rows = open.query(APPEND, &parameters).await?;
    let mut appended = vec![false; group.len()];
    for row in rows {
        let number: i64 = row.try_get(0)?;
        let place = usize::try_from(number - 1).ok().and_then(|place| appended.get_mut(place));
        if let Some(appended) = place {
            *appended = true;
        }
    }
    Ok(appended)
}
