//! Removes what nobody needs any more: families of sessions that have rested for long, contents that no session names,
//! rows of dead nodes, outcomes of messages, and partitions of past months without a batch.
//!
//! A family is removed whole or not at all, and only while nobody owns it, it wants no node and has no messages. Its rows
//! are locked and looked at again before that, so a node that takes it in the meantime keeps it.
//!
//! Contents are kept once for all sessions. Each append says which ones its session names (`mention`). One that nobody
//! has named for [`UNNAMED_RETENTION`], and that no session names now, is removed. An append that names it again at this moment
//! either sees that it is there and was named lately, or writes it: see `append.sql`.

use std::collections::HashMap;
use std::time::Duration;

use leftfold_events::SessionId;
use leftfold_store::Head;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::columns::{get, session};
use crate::connection::{Open, Slot};
use crate::error::Error;

/// How long contents stay that nobody names, in seconds. An append looks up what was named within half of this.
const UNNAMED_RETENTION: f64 = 2.0 * 24.0 * 60.0 * 60.0;

/// Sessions of a read, and about as many of a transaction.
const PAGE: i64 = 10_000;
const MAX_SESSIONS: usize = 500;

/// Contents of a transaction.
const CONTENTS: i64 = 2_000;

/// Whether somebody may still need session `s`, whose owner is `n`.
macro_rules! is_needed {
    () => {
        "s.wants or exists (select from inbox where inbox.session = s.id) or coalesce( \
            n.until between clock_timestamp() and clock_timestamp() + make_interval(secs => n.lease + 1), false)"
    };
}

const SESSIONS: &str = concat!(
    "select s.id, s.family, s.seq, ",
    is_needed!(),
    ", s.head, extract(epoch from clock_timestamp())::float8 \
    from session s left join node n on n.id = s.owner where s.id > $1 order by s.id limit $2"
);

/// In the order in which appends lock rows.
const LOCK: &str = concat!(
    "select s.id, s.family, s.seq, ",
    is_needed!(),
    " from session s left join node n on n.id = s.owner where s.family = any($1) order by s.id for update of s"
);

const BATCHES: &str = "select coalesce(sum(last - first + 1), 0)::int8, coalesce(sum(octet_length(body)), 0)::int8 \
    from batch where session = any($1)";

const REMOVE: [&str; 5] = [
    "delete from batch where session = any($1)",
    "delete from mention where session = any($1)",
    "delete from imported where session = any($1)",
    "delete from inbox where session = any($1)",
    "delete from session where id = any($1)",
];

const COUNT_CONTENTS: &str = "select count(*), coalesce(sum(octet_length(body)), 0)::int8 from content c \
    where named < clock_timestamp() - make_interval(secs => $1) \
        and not exists (select from mention m where m.sha256 = c.sha256 and m.session not in (select unnest($2::uuid[])))";

/// One that was named again while this waited for its row is looked at again, and stays.
const REMOVE_CONTENTS: &str = "with unnamed as ( \
        select sha256 from content c where named < clock_timestamp() - make_interval(secs => $1) \
            and not exists (select from mention m where m.sha256 = c.sha256) limit $2 \
    ), gone as ( \
        delete from content c using unnamed where c.sha256 = unnamed.sha256 \
            and c.named < clock_timestamp() - make_interval(secs => $1) returning octet_length(c.body) as size \
    ) select count(*), coalesce(sum(size), 0)::int8 from gone";

/// Rows that their users have left behind. Each is a condition of a table.
const LEFT: [(&str, &str); 3] = [
    ("node", "until < clock_timestamp() - interval '1 day'"),
    ("outcome", "at < clock_timestamp() - interval '1 day'"),
    (
        "inbox",
        "posted < clock_timestamp() - interval '1 hour' \
            and not exists (select from session where session.id = inbox.session)",
    ),
];

/// The partitions of months that are over.
const PAST: &str = "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid \
    where i.inhparent = 'batch'::regclass and c.relname ~ '^batch_[0-9]{4}_[0-9]{2}$' \
        and c.relname < 'batch_' || to_char(now() at time zone 'UTC', 'YYYY_MM') order by c.relname";

/// Counts of removed rows, or of those that would be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub families: u64,
    pub sessions: u64,
    pub events: u64,
    pub contents: u64,
    /// The bytes of events and contents.
    pub bytes: u64,
    /// Rows of nodes that have been dead for a day.
    pub nodes: u64,
    /// Outcomes of messages that nobody has asked for within a day.
    pub outcomes: u64,
    /// Messages to sessions that are gone.
    pub messages: u64,
    /// Empty partitions of past months.
    pub partitions: u64,
}

/// A family as it was before its rows were locked.
#[derive(Default)]
struct Family {
    /// Each session with its last seq.
    sessions: HashMap<Uuid, i64>,
    /// Milliseconds of its last event.
    newest: u64,
    needed: bool,
}

/// Removes families without an event for `older_than`, if that is given, and everything that nobody needs. With `dry`
/// it only counts.
pub(crate) async fn collect(
    slot: &Slot,
    older_than: Option<Duration>,
    dry: bool,
) -> Result<Removed, Error> {
    let work = Work { open: &*slot.get().await?, slot, dry };
    let mut removed = Removed::default();
    // large tables take their time
    work.run("set statement_timeout = 0").await?;
    let mut doomed: Vec<Uuid> = Vec::new();
    if let Some(older_than) = older_than {
        let families = work.resting(older_than).await?;
        let mut families = families.into_iter().peekable();
        while families.peek().is_some() {
            let (mut some, mut count) = (HashMap::new(), 0);
            while let Some((id, family)) = families.next_if(|_| count < MAX_SESSIONS) {
                count += family.sessions.len();
                some.insert(id, family);
            }
            doomed.extend(work.remove(&some, &mut removed).await?);
        }
    }
    work.contents(&doomed, &mut removed).await?;
    let [nodes, outcomes, messages] = work.left().await?;
    (removed.nodes, removed.outcomes, removed.messages) = (nodes, outcomes, messages);
    removed.partitions = work.partitions(&doomed).await?;
    Ok(removed)
}

struct Work<'a> {
    open: &'a Open,
    slot: &'a Slot,
    dry: bool,
}

impl Work<'_> {
    async fn run(&self, sql: &str) -> Result<(), Error> {
        self.open.run(sql).await.map_err(|error| self.slot.error(&error))
    }

    async fn rows(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.open.once(sql, parameters).await.map_err(|error| self.slot.error(&error))
    }

    /// Two numbers of a statement that answers one row.
    async fn two(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<[u64; 2], Error> {
        let rows = self.rows(sql, parameters).await?;
        let row = rows.first().ok_or_else(|| Error::Failed { why: "it answers nothing".into() })?;
        Ok([get::<i64>(row, 0)?.unsigned_abs(), get::<i64>(row, 1)?.unsigned_abs()])
    }

    /// The families that may be removed, as they are now.
    async fn resting(&self, older_than: Duration) -> Result<HashMap<Uuid, Family>, Error> {
        let mut families: HashMap<Uuid, Family> = HashMap::new();
        let (mut after, mut now) = (Uuid::nil(), 0.0);
        loop {
            let rows = self.rows(SESSIONS, &[&after, &PAGE]).await?;
            let Some(last) = rows.last() else { break };
            after = get(last, 0)?;
            for row in &rows {
                let (id, seq): (Uuid, i64) = (get(row, 0)?, get(row, 2)?);
                let head: Option<&[u8]> = get(row, 4)?;
                now = get(row, 5)?;
                let family = families.entry(get(row, 1)?).or_default();
                family.sessions.insert(id, seq);
                family.needed |= get::<bool>(row, 3)?;
                match Head::decode(head.unwrap_or_default()) {
                    Ok(Some(head)) => family.newest = family.newest.max(head.at.millis()),
                    Ok(None) if seq == 0 => family.newest = family.newest.max(began(session(id))),
                    // it is damaged: somebody may want to look at it
                    Ok(None) | Err(_) => family.needed = true,
                }
            }
        }
        let before =
            Duration::try_from_secs_f64(now).unwrap_or_default().saturating_sub(older_than);
        let before = u64::try_from(before.as_millis()).unwrap_or_default();
        families.retain(|_, family| !family.needed && family.newest < before);
        Ok(families)
    }

    /// Removes those of the families that are still as they were. Answers their sessions.
    async fn remove(
        &self,
        families: &HashMap<Uuid, Family>,
        removed: &mut Removed,
    ) -> Result<Vec<Uuid>, Error> {
        self.run("begin").await?;
        let done = self.remove_in_transaction(families, removed).await;
        self.run(if done.is_ok() && !self.dry { "commit" } else { "rollback" }).await?;
        done
    }

    async fn remove_in_transaction(
        &self,
        families: &HashMap<Uuid, Family>,
        removed: &mut Removed,
    ) -> Result<Vec<Uuid>, Error> {
        let ids: Vec<Uuid> = families.keys().copied().collect();
        let mut found: HashMap<Uuid, Family> = HashMap::new();
        for row in self.rows(LOCK, &[&ids]).await? {
            let family = found.entry(get(&row, 1)?).or_default();
            family.sessions.insert(get(&row, 0)?, get(&row, 2)?);
            family.needed |= get::<bool>(&row, 3)?;
        }
        found.retain(|id, family| {
            !family.needed && families.get(id).is_some_and(|seen| seen.sessions == family.sessions)
        });
        let events = |family: &Family| family.sessions.values().any(|seq| *seq > 0);
        let sessions = found.values().flat_map(|family| family.sessions.values());
        let sessions = sessions.filter(|seq| **seq > 0).count();
        let doomed: Vec<Uuid> =
            found.values().flat_map(|family| family.sessions.keys().copied()).collect();
        let [count, bytes] = self.two(BATCHES, &[&doomed]).await?;
        if !self.dry {
            for remove in REMOVE {
                self.rows(remove, &[&doomed]).await?;
            }
        }
        removed.families += found.values().filter(|family| events(family)).count() as u64;
        removed.sessions += sessions as u64;
        removed.events += count;
        removed.bytes += bytes;
        Ok(doomed)
    }

    /// Removes contents that no session names, without the `doomed` ones.
    async fn contents(&self, doomed: &[Uuid], removed: &mut Removed) -> Result<(), Error> {
        loop {
            let [count, bytes] = match self.dry {
                true => self.two(COUNT_CONTENTS, &[&UNNAMED_RETENTION, &doomed]).await?,
                false => self.two(REMOVE_CONTENTS, &[&UNNAMED_RETENTION, &CONTENTS]).await?,
            };
            removed.contents += count;
            removed.bytes += bytes;
            if self.dry || count == 0 {
                return Ok(());
            }
        }
    }

    /// Removes what nodes and senders have left behind, and counts it.
    async fn left(&self) -> Result<[u64; 3], Error> {
        let mut counts = [0; 3];
        for (count, (table, left)) in counts.iter_mut().zip(LEFT) {
            let sql = match self.dry {
                true => format!("select count(*), 0::int8 from {table} where {left}"),
                false => format!(
                    "with gone as (delete from {table} where {left} returning 1) select count(*), 0::int8 from gone"
                ),
            };
            [*count, _] = self.two(&sql, &[]).await?;
        }
        Ok(counts)
    }

    /// Drops the partitions of past months that hold no batches, without those of the `doomed` sessions.
    async fn partitions(&self, doomed: &[Uuid]) -> Result<u64, Error> {
        let mut dropped = 0;
        for row in self.rows(PAST, &[]).await? {
            // the pattern leaves nothing in it that would have to be quoted
            let name: String = get(&row, 0)?;
            let holds = format!(
                "select count(*), 0::int8 from (select from {name} where session <> all($1) limit 1) as held"
            );
            if self.two(&holds, &[&doomed]).await?[0] > 0 {
                continue;
            }
            if !self.dry {
                // appends wait for it, so it does not wait for long readers
                let drop = format!(
                    "begin; set local lock_timeout = '2s'; lock table batch in access exclusive mode; \
                     do $$ begin if not exists (select from {name}) then drop table {name}; end if; end $$; commit"
                );
                if let Err(error) = self.run(&drop).await {
                    self.run("rollback").await?;
                    tracing::warn!("partition {name} stays: {error}");
                    continue;
                }
            }
            dropped += 1;
        }
        Ok(dropped)
    }
}

/// Milliseconds of the moment that an id was made at.
fn began(session: SessionId) -> u64 {
    session.to_bytes().iter().take(6).fold(0, |time, byte| time << 8 | u64::from(*byte))
}
