//! Reads. Each is one statement, so it sees one moment.

use std::time::Duration;

use leftfold_events::{Seq, SessionId, Sha256};
use leftfold_store::Link;
use leftfold_store::day::Day;
use leftfold_store::engine::{Owner, StoredEvent};
use leftfold_store::usage::Used;
use tokio::time::Instant;
use uuid::Uuid;

use crate::append::End;
use crate::batch::{self, Fault};
use crate::columns::{get, link, seq, session, uuid};
use crate::connection::{Attempts, Slot};
use crate::error::Error;

/// How long a read waits while the database is away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Batches of a page.
const BATCHES: i64 = 256;

/// Batches from that with `$2` on, until they have `$4` bytes. At least one, if there is one.
const EVENTS: &str = "select last, body from ( \
        select first, last, body, \
            sum(octet_length(body)) over (order by first) - octet_length(body) as before \
        from (select first, last, body from batch where session = $1 and first >= coalesce( \
                (select first from batch where session = $1 and first <= $2 order by first desc limit 1), \
                0) \
            order by first limit $3) as found \
    ) as sized where before < $4 order by first";

const PAYLOAD: &str = "select body from content where sha256 = $1";

const HEADS: &str = "select id, family, seq, link, epoch, owner::text, head from session \
    where seq > 0 and id > $1 order by id limit $2";

const HEAD: &str = "select id, family, seq, link, epoch, owner::text, head from session \
    where seq > 0 and id = $1";

const OWNER: &str = "select case when until between clock_timestamp() \
            and clock_timestamp() + make_interval(secs => lease + 1) \
        then coalesce(nullif(array_to_string(labels, ', '), ''), node.id::text) end, place, \
    (select count(*) from inbox where inbox.session = $1 \
        and not exists (select from outcome where message = inbox.id)), \
    trouble, coalesce(extract(epoch from clock_timestamp() - troubled), 0)::float8 \
    from session left join node on node.id = owner where session.id = $1";

const NOTES: &str = "select note from imported order by session";

const USED: &str = "select count(*) filter (where first_prompt = $2), coalesce(sum(last_cost), 0) \
    from session where project = $1 and last_day = $2";

const SIZE: &str = "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 \
    from pg_class c where c.relkind = 'r' and c.relnamespace = to_regnamespace($1)";

/// Events of a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In order, and in the place of an event that cannot be read, why.
    pub events: Vec<Result<StoredEvent, Fault>>,
    /// Where to read on. `None`: there are no more events.
    pub next: Option<Seq>,
}

/// A session as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub session: SessionId,
    pub family: SessionId,
    pub end: End,
    pub epoch: i64,
    /// The node that it belongs to.
    pub owner: Option<String>,
    /// The bytes that the last append gave.
    pub head: Vec<u8>,
}

/// Reads events with seq `from` or greater: about `bytes`, at least one batch.
pub(crate) async fn events(
    slot: &Slot,
    session: SessionId,
    from: Seq,
    bytes: u32,
) -> Result<Page, Error> {
    let start = i64::try_from(from).unwrap_or(i64::MAX);
    // the window's sum is a decimal number for a sum of bigints, and a bigint for one of ints
    let rows = rows(slot, EVENTS, &[&uuid(session), &start, &BATCHES, &i64::from(bytes)]).await?;
    let mut page = Page::default();
    for row in &rows {
        let body: &[u8] = get(row, 1)?;
        let events = batch::decode(session, body).into_iter();
        page.events.extend(events.filter(|event| match event {
            Ok(event) => event.seq >= from,
            Err(fault) => fault.seq.is_none_or(|seq| seq >= from),
        }));
        page.next = Some(seq(get(row, 0)?) + 1);
    }
    if page.next.is_some_and(|next| next <= from) {
        // only the batch before `from` was there
        page = Page::default();
    }
    Ok(page)
}

/// The session's first event with seq `from` or greater.
pub(crate) async fn first(
    slot: &Slot,
    session: SessionId,
    from: Seq,
) -> Result<Option<Result<StoredEvent, Fault>>, Error> {
    let page = events(slot, session, from, 1).await?;
    if page.events.is_empty()
        && let Some(next) = page.next
    {
        let page = events(slot, session, next, 1).await?;
        return Ok(page.events.into_iter().next());
    }
    Ok(page.events.into_iter().next())
}

/// The link of the event with this seq.
pub(crate) async fn link_of(
    slot: &Slot,
    session: SessionId,
    seq: Seq,
) -> Result<Option<Link>, Error> {
    let found = first(slot, session, seq).await?.and_then(Result::ok);
    Ok(found.filter(|event| event.seq == seq).map(|event| event.link))
}

pub(crate) async fn payload(slot: &Slot, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
    let rows = rows(slot, PAYLOAD, &[&&sha256.as_bytes()[..]]).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}

pub(crate) async fn used(slot: &Slot, project: Sha256, day: Day) -> Result<Used, Error> {
    let day = i32::try_from(day).unwrap_or(i32::MAX);
    let rows = rows(slot, USED, &[&&project.as_bytes()[..], &day]).await?;
    let Some(row) = rows.first() else { return Ok(Used::default()) };
    Ok(Used { sessions: get::<i64>(row, 0)?.unsigned_abs(), cost: get(row, 1)? })
}

pub(crate) async fn heads(
    slot: &Slot,
    after: Option<SessionId>,
    most: u32,
) -> Result<Vec<Head>, Error> {
    let after = after.map_or(Uuid::nil(), uuid);
    rows(slot, HEADS, &[&after, &i64::from(most)]).await?.iter().map(head_of).collect()
}

pub(crate) async fn head(slot: &Slot, session: SessionId) -> Result<Option<Head>, Error> {
    rows(slot, HEAD, &[&uuid(session)]).await?.first().map(head_of).transpose()
}

pub(crate) fn head_of(row: &tokio_postgres::Row) -> Result<Head, Error> {
    Ok(Head {
        session: session(get(row, 0)?),
        family: session(get(row, 1)?),
        end: End { seq: seq(get(row, 2)?), link: link(get(row, 3)?)? },
        epoch: get(row, 4)?,
        owner: get(row, 5)?,
        head: get::<Option<Vec<u8>>>(row, 6)?.unwrap_or_default(),
    })
}

pub(crate) async fn size(slot: &Slot) -> Result<u64, Error> {
    let schema = &slot.connector.address.schema;
    let rows = rows(slot, SIZE, &[schema]).await?;
    let bytes: i64 = rows.first().map(|row| get(row, 0)).transpose()?.unwrap_or_default();
    Ok(u64::try_from(bytes).unwrap_or_default())
}

pub(crate) async fn owner(slot: &Slot, id: SessionId) -> Result<Owner, Error> {
    match rows(slot, OWNER, &[&uuid(id)]).await?.first() {
        Some(row) => {
            let messages = get::<i64>(row, 2)?.unsigned_abs();
            let (node, place, trouble): (Option<String>, _, Option<String>) =
                (get(row, 0)?, get(row, 1)?, get(row, 3)?);
            let since = Duration::try_from_secs_f64(get(row, 4)?).unwrap_or_default();
            let trouble = trouble.filter(|_| node.is_none()).map(|why| (why, since));
            Ok(Owner { node, place, messages, trouble })
        }
        None => Ok(Owner::default()),
    }
}

pub(crate) async fn import_notes(slot: &Slot) -> Result<Vec<String>, Error> {
    rows(slot, NOTES, &[]).await?.iter().map(|row| get(row, 0)).collect()
}

pub(crate) async fn rows(
    slot: &Slot,
    sql: &'static str,
    parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<Vec<tokio_postgres::Row>, Error> {
    let mut attempts = Attempts::until(Instant::now() + RECONNECT_TIMEOUT);
    loop {
        let result = match slot.get().await {
            Ok(open) => open.query(sql, parameters).await.map_err(|error| slot.error(&error)),
            Err(error) => Err(error),
        };
        if let Some(result) = attempts.take(result).await {
            return result;
        }
    }
}
