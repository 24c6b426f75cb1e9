//! Leases of nodes, claims of families, and the inbox.
//!
//! A node's lease is a row of `node` that it renews. A session belongs to the node that its row names,
//! as long as that node's lease has not run out by the database's clock. A claim gives each session of
//! a family a new epoch, and an append of an older epoch is refused.
//!
//! Nodes take over from each other only after a whole lease of their own, without a late renewal in it:
//! after the database was away, every lease has run out, and every owner gets the time to renew it. A
//! clock of the database that jumps looks like a late renewal too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leftfold_events::{MessageId, SessionId};
use leftfold_store::engine::{EndElsewhere, MAX_BYTES, Owner, Progress, WaitingMessage};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

use crate::append::End;
use crate::columns::{get, link, message, message_uuid, seq, session, uuid};
use crate::connection::{Attempts, Open, Slot};
use crate::error::Error;
use crate::metrics::Metrics;
use crate::migrate;
use crate::places::FurtherPlaces;
use crate::read::{Head, head_of};

/// Most messages that wait for one session.
pub const MAX_MESSAGES: i64 = 64;

/// How long a claim and the like wait while the database is away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often partitions are made ahead.
const PARTITIONS_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

const REGISTER: &str = "insert into node (id, until, since, labels, lease) \
    values (coalesce($1, gen_random_uuid()), clock_timestamp() + make_interval(secs => $2::float8), \
        clock_timestamp(), $3, $2) returning id";

/// A renewal is in time if at least half of the lease is left.
const RENEW: &str = "update node set until = clock_timestamp() + make_interval(secs => $2::float8), \
    since = case when until - clock_timestamp() \
            between make_interval(secs => $2::float8 / 2) and make_interval(secs => $2::float8 + 1) \
        then since else clock_timestamp() end \
    where id = $1 returning draining";

const FORGET: &str = "delete from node where until < clock_timestamp() - interval '1 day'";

const NEW: &str = "insert into session (id, family, link) values ($1, $1, decode(repeat('00', 16), 'hex')) \
    on conflict do nothing";

const FAMILY: &str = "select family from session where id = $1";

/// In the order in which appends lock rows.
const LOCK: &str = "select epoch, owner from session where family = $1 order by id for update";

/// Whether nodes live, how long it is since they began, and their leases.
const NODES: &str = "select id, until between clock_timestamp() \
        and clock_timestamp() + make_interval(secs => lease + 1), \
    extract(epoch from clock_timestamp() - since)::float8, lease, array_to_string(labels, ', ') \
    from node where id = any($1)";

/// A place that the session was bound to later ([`BIND`]) stays, whichever node has the session.
const TAKE: &str = "update session set owner = $2, epoch = $3, trouble = null, \
        place = case when starts_with(place, 'executor:') then place else $4 end where family = $1 \
    returning id, family, seq, link, epoch, owner::text, head";

/// Whether the lease of `n`, the owner of a session, holds.
macro_rules! owner_lives {
    () => {
        "coalesce(n.until between clock_timestamp() \
            and clock_timestamp() + make_interval(secs => n.lease + 1), false)"
    };
}

/// Whether `s` has no owner or one that is gone, as long as this node may take over. Sessions that are bound to other
/// places are not for this one.
macro_rules! may_take {
    () => {
        concat!(
            "s.place = any($1) and (s.owner is null or ( \
                s.owner <> $2 and not ",
            owner_lives!(),
            " and exists (select from node me where me.id = $2 \
                and me.until between clock_timestamp() \
                    and clock_timestamp() + make_interval(secs => me.lease + 1) \
                and me.since + make_interval(secs => greatest(me.lease, coalesce(n.lease, 0))) \
                    < clock_timestamp())))"
        )
    };
}

const UNOWNED: &str = concat!(
    "select s.id from session s left join node n on n.id = s.owner \
    where s.wants and (s.owner = $2 and s.id <> all($4) or ",
    may_take!(),
    ") order by s.id limit $3"
);

/// The owner and the place of a session that belongs to another node, or to nobody at another place.
const ELSEWHERE: &str = concat!(
    "select case when ",
    owner_lives!(),
    " then coalesce(nullif(array_to_string(n.labels, ', '), ''), n.id::text) end, s.place \
    from session s left join node n on n.id = s.owner \
    where s.id = $3 and s.owner is distinct from $2 and (s.seq > 0 or s.owner is not null) and (",
    owner_lives!(),
    " or not coalesce(s.place = any($1), false))"
);

/// In the order in which appends lock rows.
const BIND: &str = "with mine as materialized ( \
        select id from session where family = $1 and owner = $2 and epoch = $3 and place is distinct from $4 \
        order by id for update \
    ) update session set place = $4 where id in (select id from mine)";

const HOLDS: &str = "select from session where id = $1 and owner = $2 and epoch = $3";

/// The lock keeps a claim from taking the family before the new session can be seen in it. A session that is there
/// already stays as it is.
const ADD: &str = "insert into session (id, family, link, epoch, owner, place) \
    select $1, id, decode(repeat('00', 16), 'hex'), epoch, owner, place from session \
    where id = $2 and owner = $3 and epoch = $4 for share \
    on conflict (id) do update set id = excluded.id where session.family = excluded.family \
        and session.owner = excluded.owner and session.epoch = excluded.epoch \
    returning seq, link";

const RELEASE: &str = "update session set owner = null where family = $1 and owner = $2 and epoch = $3 returning wants";
const RELEASE_ALL: &str = "update session set owner = null where owner = $1 returning wants";
const LEAVE: &str = "delete from node where id = $1";

const REMOVE: &str = "with mine as materialized ( \
        select id from session where id = any($1) and owner = $2 order by id for update \
    ), events as (delete from batch where session in (select id from mine)), \
    messages as (delete from inbox where session in (select id from mine)), \
    mentions as (delete from mention where session in (select id from mine)) \
    update session set seq = 0, link = decode(repeat('00', 16), 'hex'), head = null \
    where id in (select id from mine)";

const NOTE: &str = "insert into imported (session, note) select * from unnest($1::uuid[], $2::text[]) \
    on conflict (session) do update set note = excluded.note";

/// Unless another node owns it. This one may not have given it back yet.
const TROUBLE: &str = concat!(
    "update session s set troubled = clock_timestamp(), \
        trouble = concat_ws(': ', (select array_to_string(labels, ', ') from node where id = $1), $3::text) \
    where s.id = $2 and not exists (select from node n where n.id = s.owner and n.id <> $1 and ",
    owner_lives!(),
    ")"
);

const ENDS_ELSEWHERE: &str = "\
    (select id, seq from session where owner <> $1 order by id desc limit $2) union \
    (select id, seq from session where id >= $3 and owner is distinct from $1 order by id desc limit $2) union \
    (select id, seq from session where id = any($4) and owner is distinct from $1)";

const LOST: &str = "select id from session where id = any($2) and owner <> $1";

const POST: &str = "insert into inbox (id, session, body) select $1, $2, $3 \
    where (select count(*) from inbox where session = $2) < $4 \
        and not exists (select from outcome where message = $1) \
    on conflict do nothing returning id";
const POSTED: &str =
    "select from inbox where id = $1 union all select from outcome where message = $1";

/// A message that has an outcome was put there again while it was settled.
const WAITING: &str = concat!(
    "select i.id, i.session, s.owner is not distinct from $2 from inbox i join session s on s.id = i.session left join node n on n.id = s.owner \
    where i.session <> all($4) and not exists (select from outcome where message = i.id) \
        and (s.owner = $2 or ($3 and ",
    may_take!(),
    ")) order by i.posted, i.id limit $5"
);

const BODY: &str = "select body from inbox where id = $1 and octet_length(body) <= $2";

const CONCLUDE: &str = "with gone as (delete from inbox where id = $1) \
    insert into outcome (message, body) values ($1, $2) on conflict (message) do update set body = excluded.body";

/// An append may have settled it all the same.
const REFUSE: &str = "with gone as (delete from inbox where id = $1 returning id) \
    insert into outcome (message, body) select id, $2 from gone on conflict do nothing";

const PROGRESS: &str = "select o.message is not null, o.body, \
        coalesce(extract(epoch from clock_timestamp() - o.at), 0)::float8, exists (select from inbox where id = $1) \
    from (select) as one left join outcome o on o.message = $1";

const WITHDRAW: &str = "delete from inbox where id = $1 and not exists (select from outcome where message = $1) \
    returning id";

const FORGET_MESSAGE: &str =
    "with gone as (delete from inbox where id = $1) delete from outcome where message = $1";

/// The senders have gone.
const FORGET_OUTCOMES: &str = "delete from outcome where at < clock_timestamp() - interval '1 day'";

/// Whether one of these sessions does.
fn wants(rows: &[tokio_postgres::Row]) -> Result<bool, Error> {
    rows.iter().try_fold(false, |wanted, row| Ok(wanted | get::<bool>(row, 0)?))
}

/// A family that this node owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub family: SessionId,
    pub epoch: i64,
    /// Its sessions, also those without events.
    pub sessions: Vec<Head>,
}

/// This process as a node.
pub(crate) struct Node {
    pub(crate) id: Uuid,
    labels: Vec<String>,
    lease: Duration,
    /// Its place, for instance the files of a host. Sessions that it claims are bound to that.
    place: String,
    further: FurtherPlaces,
    slot: Arc<Slot>,
    /// One transaction at a time is on the connection.
    transaction: tokio::sync::Mutex<()>,
    held: Mutex<Held>,
    /// Wakes [`Self::renew`].
    woken: Notify,
    is_draining: AtomicBool,
    drain: fn(),
    metrics: Arc<Metrics>,
}

/// The node's lease.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Until when it holds in any case.
    until: Instant,
    /// How often it may have run out before it was renewed. Others may have taken sessions then.
    lapses: u64,
}

impl Node {
    pub(crate) async fn register(
        slot: Arc<Slot>,
        labels: Vec<String>,
        lease: Duration,
        (place, further): (String, FurtherPlaces),
        drain: fn(),
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let open = slot.get().await?;
        let start = Instant::now();
        let none: Option<Uuid> = None;
        let rows = open.query(REGISTER, &[&none, &lease.as_secs_f64(), &labels]).await;
        let rows = rows.map_err(|error| slot.error(&error))?;
        let row = rows.first().ok_or_else(|| Error::Failed { why: "no node was made".into() })?;
        let id: Uuid = get(row, 0)?;
        metrics.renewed(id.to_string(), start.into_std());
        let held = Mutex::new(Held { until: start + lease, lapses: 0 });
        let transaction = tokio::sync::Mutex::default();
        Ok(Self {
            id,
            labels,
            lease,
            place,
            further,
            slot,
            transaction,
            held,
            woken: Notify::new(),
            is_draining: AtomicBool::new(false),
            drain,
            metrics,
        })
    }

    /// The node looks at its row soon.
    pub(crate) fn look(&self) {
        self.woken.notify_one();
    }

    /// Whether an operator has asked this node to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Until when the lease holds in any case.
    pub(crate) fn until(&self) -> Instant {
        self.held().until
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the lease may have run out so far.
    pub(crate) fn lapses(&self) -> u64 {
        self.held().lapses
    }

    /// If the lease holds now: until when, and as [`Self::lapses`].
    pub(crate) fn sure(&self) -> Option<(std::time::Instant, u64)> {
        let held = *self.held();
        (Instant::now() < held.until).then(|| (held.until.into_std(), held.lapses))
    }

    /// Whether a family is this node's in that epoch, by the database.
    pub(crate) async fn holds(&self, family: SessionId, epoch: i64) -> Result<bool, Error> {
        Ok(!self.query(HOLDS, &[&uuid(family), &self.id, &epoch]).await?.is_empty())
    }

    /// All places that this node is at now. It reads files.
    pub(crate) fn places(&self) -> Vec<String> {
        std::iter::once(self.place.clone()).chain(self.further.now()).collect()
    }

    /// Binds a family of this node to a place.
    pub(crate) async fn bind(
        &self,
        family: SessionId,
        epoch: i64,
        place: &str,
    ) -> Result<(), Error> {
        self.query(BIND, &[&uuid(family), &self.id, &epoch, &place]).await.map(drop)
    }

    /// Up to `most` sessions that want a node and that this one, which is at these `places`, may take, or that it owns
    /// and that are not `at_work` in it.
    pub(crate) async fn unowned(
        &self,
        places: &[String],
        at_work: &[SessionId],
        most: i64,
    ) -> Result<Vec<SessionId>, Error> {
        let at_work: Vec<Uuid> = at_work.iter().map(|session| uuid(*session)).collect();
        let rows = self.query(UNOWNED, &[&places, &self.id, &most, &at_work]).await?;
        rows.iter().map(|row| Ok(session(get(row, 0)?))).collect()
    }

    /// The family of a session, if that exists.
    pub(crate) async fn family_of(&self, of: SessionId) -> Result<Option<SessionId>, Error> {
        let rows = self.query(FAMILY, &[&uuid(of)]).await?;
        rows.first().map(|row| Ok(session(get(row, 0)?))).transpose()
    }

    /// Renews the lease, for ever.
    pub(crate) async fn renew(self: Arc<Self>) {
        let mut ticks = interval(self.lease / 5);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut partitions = Instant::now();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.woken.notified() => {}
            }
            if let Err(error) = self.renew_once().await {
                tracing::warn!("the lease of this node is not renewed: {error}");
            }
            if partitions <= Instant::now() {
                partitions = Instant::now() + PARTITIONS_INTERVAL;
                self.tidy().await;
            }
        }
    }

    async fn renew_once(&self) -> Result<(), Error> {
        let open = self.slot.get().await?;
        let _transaction = self.transaction.lock().await;
        let start = Instant::now();
        let lease = self.lease.as_secs_f64();
        let failed = |error| self.slot.error(&error);
        let renewed = open.query(RENEW, &[&self.id, &lease]).await.map_err(failed)?;
        match renewed.first() {
            Some(row) => {
                if get(row, 0)? && !self.is_draining.swap(true, Ordering::AcqRel) {
                    (self.drain)();
                }
            }
            // somebody has removed the row
            None => {
                let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&Some(self.id), &lease, &self.labels];
                open.query(REGISTER, &parameters).await.map_err(failed)?;
            }
        }
        let mut held = self.held();
        if held.until < Instant::now() {
            held.lapses += 1;
        }
        held.until = start + self.lease;
        drop(held);
        self.metrics.renewed(self.id.to_string(), start.into_std());
        Ok(())
    }

    /// The work that some node has to do now and then. Without the right to create tables, new months go to the
    /// partition for all others.
    async fn tidy(&self) {
        let Ok(open) = self.slot.get().await else { return };
        let _transaction = self.transaction.lock().await;
        if let Err(error) = migrate::make_partitions(&self.slot.connector.address, &open).await {
            tracing::warn!("no partitions are made ahead: {error}");
        }
        for forget in [FORGET, FORGET_OUTCOMES] {
            if let Err(error) = open.query(forget, &[]).await {
                tracing::debug!("nodes and outcomes that nobody needs stay: {error}");
            }
        }
    }

    /// Takes a family, or creates it, unless it belongs to another node.
    pub(crate) async fn claim(&self, family: SessionId) -> Result<Claim, Error> {
        let mut attempts = Attempts::until(Instant::now() + RECONNECT_TIMEOUT);
        loop {
            // a claim that came through without its answer is made again
            if let Some(result) = attempts.take(self.claim_once(family).await).await {
                return result;
            }
        }
    }

    async fn claim_once(&self, family: SessionId) -> Result<Claim, Error> {
        let open = self.slot.get().await?;
        let _transaction = self.transaction.lock().await;
        open.run("begin").await.map_err(|error| self.slot.error(&error))?;
        let claimed = self.claim_in_transaction(&open, family).await;
        let end = if claimed.is_ok() { "commit" } else { "rollback" };
        open.run(end).await.map_err(|error| self.slot.error(&error))?;
        if open.is_unsynced() {
            return Err(Error::Unsynced);
        }
        claimed
    }

    async fn claim_in_transaction(&self, open: &Open, family: SessionId) -> Result<Claim, Error> {
        let failed = |error| self.slot.error(&error);
        let id = uuid(family);
        open.query(NEW, &[&id]).await.map_err(failed)?;
        let root = open.query(FAMILY, &[&id]).await.map_err(failed)?;
        let gone = || Error::Failed { why: format!("session {family} was removed") };
        let root = session(get(root.first().ok_or_else(gone)?, 0)?);
        if root != family {
            let why = format!("it belongs to the family of {root}: claim that");
            return Err(Error::Fenced { session: family, why });
        }
        let mut epoch = 0;
        for row in open.query(LOCK, &[&id]).await.map_err(failed)? {
            let owner: Option<Uuid> = get(&row, 1)?;
            if let Some(owner) = owner.filter(|owner| *owner != self.id) {
                self.may_take_over(open, family, owner).await?;
            }
            epoch = epoch.max(get::<i64>(&row, 0)?);
        }
        epoch += 1;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&id, &self.id, &epoch, &self.place];
        let rows = open.query(TAKE, &parameters).await.map_err(failed)?;
        let sessions = rows.iter().map(head_of).collect::<Result<_, _>>()?;
        Ok(Claim { family, epoch, sessions })
    }

    async fn may_take_over(
        &self,
        open: &Open,
        family: SessionId,
        owner: Uuid,
    ) -> Result<(), Error> {
        let rows = open.query(NODES, &[&vec![owner, self.id]]).await;
        let rows = rows.map_err(|error| self.slot.error(&error))?;
        let mut node = owner.to_string();
        // how long this node lives without a late renewal, and how long it has to
        let (mut lived, mut needed) = (0.0, self.lease.as_secs_f64());
        for row in rows {
            let (id, lives): (Uuid, bool) = (get(&row, 0)?, get(&row, 1)?);
            let (since, lease): (f64, f64) = (get(&row, 2)?, get(&row, 3)?);
            let labels: String = get(&row, 4)?;
            if id == owner && !labels.is_empty() {
                node = labels;
            }
            if id == owner && lives {
                let lease = Duration::try_from_secs_f64(lease).unwrap_or_default();
                return Err(Error::Taken { session: family, node, lease });
            }
            if id == owner {
                needed = lease.max(needed);
            } else if lives {
                lived = since;
            }
        }
        let wait: f64 = needed - lived;
        if wait > 0.0 {
            let wait = Duration::from_secs_f64(wait);
            return Err(Error::TooEarly { session: family, node, wait });
        }
        Ok(())
    }

    /// Adds a session to a family that this node owns, unless it is in it, and answers where its log ends.
    pub(crate) async fn add(
        &self,
        family: SessionId,
        epoch: i64,
        added: SessionId,
    ) -> Result<End, Error> {
        let rows = self.query(ADD, &[&uuid(added), &uuid(family), &self.id, &epoch]).await?;
        let Some(row) = rows.first() else {
            let why = "it belongs to another family, or the family has another owner".to_owned();
            return Err(Error::Fenced { session: added, why });
        };
        Ok(End { seq: seq(get(row, 0)?), link: link(get(row, 1)?)? })
    }

    /// Gives a family back. Answers whether a session of it wants another node.
    pub(crate) async fn release(&self, family: SessionId, epoch: i64) -> Result<bool, Error> {
        wants(&self.query(RELEASE, &[&uuid(family), &self.id, &epoch]).await?)
    }

    pub(crate) async fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        let ids: Vec<Uuid> = sessions.iter().map(|session| uuid(*session)).collect();
        self.query(REMOVE, &[&ids, &self.id]).await.map(drop)
    }

    pub(crate) async fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error> {
        let ids: Vec<Uuid> = notes.iter().map(|(session, _)| uuid(*session)).collect();
        let notes: Vec<&str> = notes.iter().map(|(_, note)| note.as_str()).collect();
        self.query(NOTE, &[&ids, &notes]).await.map(drop)
    }

    /// Releases everything and ends the lease. Answers whether a session wants another node.
    pub(crate) async fn leave(&self) -> Result<bool, Error> {
        let wanted = wants(&self.query(RELEASE_ALL, &[&self.id]).await?)?;
        self.query(LEAVE, &[&self.id]).await?;
        Ok(wanted)
    }

    pub(crate) async fn post(
        &self,
        to: SessionId,
        message: MessageId,
        body: &[u8],
    ) -> Result<(), Error> {
        if body.len() > MAX_BYTES {
            let why = format!("the message has more than {} MiB", MAX_BYTES >> 20);
            return Err(Error::Unstorable { session: to, why });
        }
        let message = message_uuid(message);
        let posted = self.query(POST, &[&message, &uuid(to), &body, &MAX_MESSAGES]).await?;
        // the same message again is no error
        if posted.is_empty() && self.query(POSTED, &[&message]).await?.is_empty() {
            return Err(Error::InboxFull { session: to, most: MAX_MESSAGES });
        }
        Ok(())
    }

    pub(crate) async fn waiting(
        &self,
        places: Vec<String>,
        may_claim: bool,
        except: &[SessionId],
        most: i64,
    ) -> Result<Vec<WaitingMessage>, Error> {
        let except: Vec<Uuid> = except.iter().copied().map(uuid).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&places, &self.id, &may_claim, &except, &most];
        let rows = self.query(WAITING, &parameters).await?;
        let waiting = |row: &tokio_postgres::Row| {
            let (message, session) = (message(get(row, 0)?), session(get(row, 1)?));
            Ok(WaitingMessage { message, session, is_mine: get(row, 2)? })
        };
        rows.iter().map(waiting).collect()
    }

    pub(crate) async fn body(&self, of: MessageId) -> Result<Option<Vec<u8>>, Error> {
        let most = i32::try_from(MAX_BYTES).unwrap_or(i32::MAX);
        let rows = self.query(BODY, &[&message_uuid(of), &most]).await?;
        rows.first().map(|row| get(row, 0)).transpose()
    }

    pub(crate) async fn conclude(
        &self,
        message: MessageId,
        outcome: &[u8],
        refused: bool,
    ) -> Result<(), Error> {
        let conclude = if refused { REFUSE } else { CONCLUDE };
        self.query(conclude, &[&message_uuid(message), &outcome]).await.map(drop)
    }

    pub(crate) async fn progress(&self, of: MessageId) -> Result<Progress, Error> {
        let rows = self.query(PROGRESS, &[&message_uuid(of)]).await?;
        let row = rows.first().ok_or_else(|| Error::Failed { why: "it answers nothing".into() })?;
        let (is_settled, outcome): (bool, Option<Vec<u8>>) = (get(row, 0)?, get(row, 1)?);
        let since = Duration::try_from_secs_f64(get(row, 2)?).unwrap_or_default();
        Ok(match outcome {
            Some(outcome) => Progress::Concluded(outcome),
            None if is_settled => Progress::Settled(since),
            None if get(row, 3)? => Progress::Waits,
            None => Progress::Gone,
        })
    }

    pub(crate) async fn withdraw(&self, message: MessageId) -> Result<bool, Error> {
        let withdrawn = self.query(WITHDRAW, &[&message_uuid(message)]).await?;
        // the first answer may have been lost
        Ok(!withdrawn.is_empty() || self.progress(message).await? == Progress::Gone)
    }

    pub(crate) async fn forget(&self, message: MessageId) -> Result<(), Error> {
        self.query(FORGET_MESSAGE, &[&message_uuid(message)]).await.map(drop)
    }

    pub(crate) async fn note_trouble(&self, of: SessionId, why: &str) -> Result<(), Error> {
        self.query(TROUBLE, &[&self.id, &uuid(of), &why]).await.map(drop)
    }

    pub(crate) async fn ends_elsewhere(
        &self,
        since: SessionId,
        known: &[SessionId],
        most: i64,
    ) -> Result<Vec<EndElsewhere>, Error> {
        let known: Vec<Uuid> = known.iter().copied().map(uuid).collect();
        let rows = self.query(ENDS_ELSEWHERE, &[&self.id, &most, &uuid(since), &known]).await?;
        let end = |row| Ok(EndElsewhere { session: session(get(row, 0)?), seq: seq(get(row, 1)?) });
        rows.iter().map(end).collect()
    }

    pub(crate) async fn lost(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Error> {
        let ids: Vec<Uuid> = sessions.iter().map(|session| uuid(*session)).collect();
        let rows = self.query(LOST, &[&self.id, &ids]).await?;
        rows.iter().map(|row| Ok(session(get(row, 0)?))).collect()
    }

    pub(crate) async fn elsewhere(
        &self,
        places: Vec<String>,
        of: SessionId,
    ) -> Result<Option<Owner>, Error> {
        let rows = self.query(ELSEWHERE, &[&places, &self.id, &uuid(of)]).await?;
        let owner = |row| Ok(Owner { node: get(row, 0)?, place: get(row, 1)?, ..Owner::default() });
        rows.first().map(owner).transpose()
    }

    /// Runs a statement that is harmless to repeat.
    async fn query(
        &self,
        sql: &'static str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        let mut attempts = Attempts::until(Instant::now() + RECONNECT_TIMEOUT);
        loop {
            let result = self.query_once(sql, parameters).await;
            if let Some(result) = attempts.take(result).await {
                return result;
            }
        }
    }

    async fn query_once(
        &self,
        sql: &'static str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        let open = self.slot.get().await?;
        let _transaction = self.transaction.lock().await;
        open.query(sql, parameters).await.map_err(|error| self.slot.error(&error))
    }
}
