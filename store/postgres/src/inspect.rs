//! The facts that an operator wants to see: how the server is set up, which nodes there are, and which sessions wait.

use std::time::{Duration, SystemTime};

use crate::columns::get;
use crate::connection::Slot;
use crate::error::Error;
use crate::read::rows;

/// How a server is set up, beyond what every connection demands of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub version: String,
    /// Whether it is a standby, or allows no writes for another reason.
    pub only_reads: bool,
    /// Whether this user may read and write all tables.
    pub may_write: bool,
    pub data_checksums: bool,
    /// `synchronous_standby_names`
    pub synchronous: String,
    pub standbys: u32,
    /// The standbys that commits wait for. `None`: this user may not see that (`pg_read_all_stats`).
    pub synchronous_standbys: Option<u32>,
    pub connections: u32,
    pub most_connections: u32,
    /// How long one answer took.
    pub round_trip: Duration,
    /// Seconds by which its clock is ahead of this machine's.
    pub clock_ahead: f64,
}

/// A node, alive or not.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    pub id: String,
    pub labels: Vec<String>,
    /// Seconds until its lease runs out, by the database's clock. Negative: it has run out.
    pub lease: f64,
    /// Seconds since its lease began, without a late renewal.
    pub age: f64,
    /// The sessions that it owns.
    pub sessions: u64,
    /// Whether it has been asked to give them back and end.
    pub draining: bool,
}

/// The numbers that an autoscaler watches.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Nodes whose lease holds.
    pub nodes: u64,
    pub sessions: u64,
    /// Sessions of these nodes.
    pub owned: u64,
    /// Sessions that have work to do and that no living node owns.
    pub waiting: u64,
    /// How many of these wait at each place (`host:NAME` or `executor:NAME`), the 100 places with the most of them.
    pub waiting_at: Vec<(String, u64)>,
    /// Messages that no node has taken yet.
    pub messages: u64,
    /// Seconds that the oldest of these messages waits.
    pub oldest_message: Option<f64>,
    pub bytes: u64,
}

const SERVER: &str = "select current_setting('server_version'), \
    pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', \
    (select coalesce(bool_and(has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert') \
        and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete')), false) \
        from pg_class where relkind in ('r', 'p') and relnamespace = to_regnamespace($1) \
        and relname in ('node', 'session', 'batch', 'content', 'mention', 'inbox', 'imported', 'outcome')), \
    current_setting('data_checksums') = 'on', current_setting('synchronous_standby_names'), \
    (select count(*) from pg_stat_replication), \
    (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')), \
    (select count(*) from pg_stat_replication where state is null), \
    (select count(*) from pg_stat_activity where backend_type = 'client backend' or backend_type is null), \
    current_setting('max_connections')::int8, extract(epoch from clock_timestamp())::float8";

const NODES: &str = "select node.id::text, labels, extract(epoch from until - clock_timestamp())::float8, \
    extract(epoch from clock_timestamp() - since)::float8, \
    (select count(*) from session where owner = node.id and seq > 0), draining from node \
    order by until < clock_timestamp(), since, node.id";

const LIVING: &str = "select count(*) from node where until > clock_timestamp()";

const STATUS: &str = "with living as (select id from node where until > clock_timestamp()), \
    counted as (select count(*) as all, \
        count(*) filter (where owner in (select id from living)) as owned, \
        count(*) filter (where (wants or id in (select session from inbox)) and (owner is null or owner not in (select id from living))) as waiting \
        from session where seq > 0) \
    select (select count(*) from living), counted.all, counted.owned, counted.waiting, \
        (select count(*) from inbox), \
        (select extract(epoch from clock_timestamp() - min(posted))::float8 from inbox) from counted";

const WAITING_AT: &str = "select coalesce(place, ''), count(*) from session \
    where seq > 0 and (wants or id in (select session from inbox)) \
        and (owner is null or owner not in (select id from node where until > clock_timestamp())) \
    group by 1 order by 2 desc, 1 limit 100";

pub(crate) async fn server(slot: &Slot) -> Result<Server, Error> {
    // the first may have to connect
    rows(slot, "select 1", &[]).await?;
    let schema = format!("\"{}\"", slot.connector.address.schema());
    let began = (SystemTime::now(), std::time::Instant::now());
    let found = rows(slot, SERVER, &[&schema]).await?;
    let round_trip = began.1.elapsed();
    let row = found.first().ok_or_else(|| Error::Failed { why: "it answers nothing".into() })?;
    let now = began.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + round_trip / 2;
    let hidden: i64 = get(row, 7)?;
    Ok(Server {
        version: get(row, 0)?,
        only_reads: get(row, 1)?,
        may_write: get(row, 2)?,
        data_checksums: get(row, 3)?,
        synchronous: get(row, 4)?,
        standbys: count(get(row, 5)?),
        synchronous_standbys: if hidden > 0 { None } else { Some(count(get(row, 6)?)) },
        connections: count(get(row, 8)?),
        most_connections: count(get(row, 9)?),
        round_trip,
        clock_ahead: get::<f64>(row, 10)? - now.as_secs_f64(),
    })
}

pub(crate) async fn nodes(slot: &Slot) -> Result<Vec<NodeStatus>, Error> {
    let node = |row: &tokio_postgres::Row| {
        Ok(NodeStatus {
            id: get(row, 0)?,
            labels: get(row, 1)?,
            lease: get(row, 2)?,
            age: get(row, 3)?,
            sessions: count(get(row, 4)?).into(),
            draining: get(row, 5)?,
        })
    };
    rows(slot, NODES, &[]).await?.iter().map(node).collect()
}

/// How many nodes are alive.
pub(crate) async fn living(slot: &Slot) -> Result<u64, Error> {
    let found = rows(slot, LIVING, &[]).await?;
    let living: Option<i64> = found.first().map(|row| get(row, 0)).transpose()?;
    Ok(living.unwrap_or_default().unsigned_abs())
}

pub(crate) async fn status(slot: &Slot) -> Result<Status, Error> {
    let found = rows(slot, STATUS, &[]).await?;
    let row = found.first().ok_or_else(|| Error::Failed { why: "it answers nothing".into() })?;
    let places = rows(slot, WAITING_AT, &[]).await?;
    let at = |row| Ok((get(row, 0)?, get::<i64>(row, 1)?.unsigned_abs()));
    let number = |column| get::<i64>(row, column).map(|number| number.unsigned_abs());
    Ok(Status {
        nodes: number(0)?,
        sessions: number(1)?,
        owned: number(2)?,
        waiting: number(3)?,
        waiting_at: places.iter().map(at).collect::<Result<_, Error>>()?,
        messages: number(4)?,
        oldest_message: get(row, 5)?,
        bytes: crate::read::size(slot).await?,
    })
}

fn count(column: i64) -> u32 {
    u32::try_from(column).unwrap_or_default()
}
