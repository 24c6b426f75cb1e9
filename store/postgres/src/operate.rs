//! The work of an operator on a database, which is no node: it owns no sessions and appends to no log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::SessionId;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::Address;
use crate::columns::{get, session, uuid};
use crate::connection::{Connector, Purpose, Slot};
use crate::engine::EngineThread;
use crate::error::Error;
use crate::hints::{Announcer, Hint};
use crate::inspect::{self, NodeStatus};
use crate::retention::{self, Removed};

/// `$1` is the beginning of an id.
const NAMED: &str = "select id::text, until > clock_timestamp(), \
        coalesce(nullif(array_to_string(labels, ', '), ''), id::text) \
    from node where starts_with(id::text, $1) order by id limit 2";

const DRAIN: &str = "update node set draining = true \
    where id = $1::text::uuid and until > clock_timestamp() \
    returning (select count(*) from session where owner = node.id and seq > 0)";

/// The sessions whose ids lie between two.
const SESSIONS: &str =
    "select id, family from session where id between $1 and $2 and seq > 0 order by id limit 2";

/// In the order in which appends lock rows. What the next statement sees stays so: nobody claims the family in between.
const LOCK: &str = "select from session where family = $1 order by id for update";

/// The new epoch shuts out an owner that stands still.
const MOVE: &str = "with all_of as materialized ( \
        select s.id, s.epoch, s.place, \
            coalesce(n.until between clock_timestamp() \
                and clock_timestamp() + make_interval(secs => n.lease + 1), false) as lives, \
            coalesce(nullif(array_to_string(n.labels, ', '), ''), n.id::text) as node, n.lease \
        from session s left join node n on n.id = s.owner where s.family = $1 \
    ), moved as ( \
        update session set place = $2, owner = null, trouble = null, \
            epoch = (select max(epoch) from all_of) + 1 \
        where id in (select id from all_of) \
            and not exists (select from all_of where lives or starts_with(place, 'executor:')) \
        returning wants \
    ) select (select count(*) from moved), (select coalesce(bool_or(wants), false) from moved), \
        (select node from all_of where lives limit 1), \
        (select place from all_of where place is not null order by id limit 1), \
        (select lease from all_of where lives limit 1)";

const HOST_LIVES: &str =
    "select from node where until > clock_timestamp() and $1 = any(labels) limit 1";

/// A node that was asked to give its sessions back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draining {
    pub node: String,
    /// The sessions that it owned when it was asked.
    pub sessions: u64,
}

/// A family that was moved to another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub family: SessionId,
    pub sessions: u64,
    /// The place that it was bound to.
    pub from: Option<String>,
    /// Whether a turn of it is unfinished, so that a node goes on with it.
    pub wants: bool,
    /// Whether a node of the new host lives.
    pub is_awaited: bool,
}

/// Changes what nodes do, and what the database keeps.
pub struct Operator {
    thread: EngineThread,
    slot: Arc<Slot>,
    announcer: Arc<Announcer>,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operator").field(&self.slot.connector.address).finish()
    }
}

impl Operator {
    /// # Errors
    /// Everything that keeps it from the database or is wrong there. A standby is refused.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(address.clone())?);
        let thread = EngineThread::start()?;
        let slot = Arc::new(Slot::new(&connector, Purpose::Control));
        let first = Arc::clone(&slot);
        thread.run(async move { first.get().await.map(drop) })?;
        Ok(Self { thread, slot, announcer: Arc::new(Announcer::new()) })
    }

    /// Asks a living node to give its sessions back and end. `node` is the beginning of its id. To ask again is harmless.
    ///
    /// # Errors
    /// [`Error::NoNode`], [`Error::SeveralNodes`], [`Error::DeadNode`], or the database fails.
    pub fn drain(&self, node: &str) -> Result<Draining, Error> {
        let (slot, announcer, node) =
            (Arc::clone(&self.slot), Arc::clone(&self.announcer), node.to_lowercase());
        self.thread.run(async move {
            let found = query(&slot, NAMED, &[&node]).await?;
            let [row] = found.as_slice() else {
                return Err(if found.is_empty() {
                    Error::NoNode { node }
                } else {
                    Error::SeveralNodes { node }
                });
            };
            let (id, lives, name): (String, bool, String) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let asked = if lives { query(&slot, DRAIN, &[&id]).await? } else { Vec::new() };
            let Some(row) = asked.first() else { return Err(Error::DeadNode { node: name }) };
            let sessions = u64::try_from(get::<i64>(row, 0)?).unwrap_or_default();
            announcer.spread(&[Hint::Nodes]);
            announcer.send(&slot).await;
            Ok(Draining { node: id, sessions })
        })
    }

    /// Binds a session of a dead or absent node to another host, with its whole family. `named` is the session's id, or
    /// the beginning of it.
    ///
    /// # Errors
    /// [`Error::NoSession`], [`Error::SeveralSessions`]; [`Error::Taken`] if a living node owns it;
    /// [`Error::AtExecutor`] if its workspace is no host's; or the database fails.
    pub fn move_to(&self, named: &str, host: &str) -> Result<Moved, Error> {
        let (slot, announcer) = (Arc::clone(&self.slot), Arc::clone(&self.announcer));
        let (named, host) = (named.to_uppercase(), host.to_owned());
        self.thread.run(async move {
            let id = |fill: &str| {
                if named.len() > 26 {
                    return Err(Error::NoSession { named: named.clone() });
                }
                let padded: String = named.chars().chain(fill.chars().cycle()).take(26).collect();
                padded.parse::<SessionId>().map_err(|_| Error::NoSession { named: named.clone() })
            };
            let found = query(&slot, SESSIONS, &[&uuid(id("0")?), &uuid(id("Z")?)]).await?;
            let [row] = found.as_slice() else {
                return Err(match found.is_empty() {
                    true => Error::NoSession { named },
                    false => Error::SeveralSessions { named },
                });
            };
            let (asked, family) = (session(get(row, 0)?), session(get(row, 1)?));
            let open = slot.get().await?;
            open.run("begin").await.map_err(|error| slot.error(&error))?;
            let (place, uuid) = (format!("host:{host}"), uuid(family));
            let moved = match open.query(LOCK, &[&uuid]).await {
                Ok(_) => open.query(MOVE, &[&uuid, &place]).await,
                Err(error) => Err(error),
            };
            let end = if moved.is_ok() { "commit" } else { "rollback" };
            open.run(end).await.map_err(|error| slot.error(&error))?;
            let rows = moved.map_err(|error| slot.error(&error))?;
            let row =
                rows.first().ok_or_else(|| Error::Failed { why: "it answers nothing".into() })?;
            let (sessions, wants, node, from): (i64, bool, Option<String>, Option<String>) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
            if let Some(node) = node {
                let lease = get::<Option<f64>>(row, 4)?.unwrap_or_default();
                let lease = Duration::try_from_secs_f64(lease).unwrap_or_default();
                return Err(Error::Taken { session: asked, node, lease });
            }
            if sessions == 0 {
                return Err(Error::AtExecutor { session: asked, place: from.unwrap_or_default() });
            }
            announcer.spread(&[Hint::Released]);
            announcer.send(&slot).await;
            let is_awaited =
                !query(&slot, HOST_LIVES, &[&format!("host {host}")]).await?.is_empty();
            Ok(Moved { family, sessions: sessions.unsigned_abs(), from, wants, is_awaited })
        })
    }

    /// Removes families without an event for `older_than`, if that is given, and what nobody needs. With `dry` it only
    /// counts. What was removed before an error stays removed.
    ///
    /// # Errors
    /// The database fails.
    pub fn collect(&self, older_than: Option<Duration>, dry: bool) -> Result<Removed, Error> {
        let slot = Arc::clone(&self.slot);
        self.thread.run(async move { retention::collect(&slot, older_than, dry).await })
    }

    /// The node with this id; `None` once it has ended in good order.
    ///
    /// # Errors
    /// The database fails.
    pub fn node(&self, id: &str) -> Result<Option<NodeStatus>, Error> {
        let (slot, id) = (Arc::clone(&self.slot), id.to_owned());
        self.thread.run(async move {
            let nodes = inspect::nodes(&slot).await?;
            Ok(nodes.into_iter().find(|node| node.id == id))
        })
    }
}

async fn query(
    slot: &Slot,
    sql: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let open = slot.get().await?;
    open.query(sql, parameters).await.map_err(|error| slot.error(&error))
}
