//! Creating the tables, and bringing them up to date.

use std::collections::HashMap;

use leftfold_events::SessionId;
use leftfold_store::Head;
use tokio::runtime::Builder;

use crate::address::Address;
use crate::columns::uuid;
use crate::connection::{Connector, Open, Purpose};
use crate::diagnosis;
use crate::error::Error;
use crate::schema::{MIGRATIONS, NEEDED, PARTITIONS};

/// Any number, the same in all versions.
const MIGRATION_LOCK: i64 = 0x6c66_7466_6c6f_6c64;

/// The first version with families.
const FAMILIES: i32 = 3;

/// How many months after this one get their partition now.
const MONTHS_AHEAD: i32 = 3;

/// Creates the tables, or brings them up to date. Does nothing if they are.
///
/// # Errors
/// [`Error::NewerSchema`], and everything that keeps it from the database.
pub fn migrate(address: &Address) -> Result<(), Error> {
    let connector = Connector::new(address.clone())?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::no_thread(&error))?;
    runtime.block_on(run(&connector))
}

async fn run(connector: &Connector) -> Result<(), Error> {
    let address = &connector.address;
    let open = connector.open(Purpose::Migrate, None).await?;
    let failed = |error| diagnosis::statement(address, &error);
    // without this, a user who may not create schemas could not use one that is there
    let exists = "select from pg_namespace where nspname = $1";
    let exists = open.once(exists, &[&address.schema]).await.map_err(failed)?;
    let create = if exists.is_empty() {
        format!("create schema if not exists \"{}\";", address.schema)
    } else {
        String::new()
    };
    open.run(&format!(
        "begin; select pg_advisory_xact_lock({MIGRATION_LOCK}); {create} \
         create table if not exists version (number int not null)"
    ))
    .await
    .map_err(failed)?;
    let found = connector.version(&open).await?;
    if found > NEEDED {
        let schema = address.schema.clone();
        return Err(Error::NewerSchema { schema, found, known: NEEDED });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or_default()) {
        open.run(migration).await.map_err(failed)?;
    }
    if (1..FAMILIES).contains(&found) {
        join_families(&open).await.map_err(failed)?;
    }
    if found < NEEDED {
        let note = format!("delete from version; insert into version values ({NEEDED})");
        open.run(&note).await.map_err(failed)?;
    }
    open.run("commit").await.map_err(failed)?;
    make_partitions(address, &open).await
}

/// Puts the sessions of earlier versions into families, by what their heads say. Their logs stay as they are.
async fn join_families(open: &Open) -> Result<(), tokio_postgres::Error> {
    let mut origins: HashMap<SessionId, SessionId> = HashMap::new();
    for row in open.once("select head from session where head is not null", &[]).await? {
        let Ok(Some(head)) = Head::decode(row.try_get(0)?) else { continue };
        let summary = head.summary.unwrap_or_default();
        let origin = summary.parent.or(summary.fork_of);
        origins.extend(origin.map(|origin| (head.session, origin)));
    }
    let (mut sessions, mut families) = (Vec::new(), Vec::new());
    for session in origins.keys() {
        // a cycle exists only in damaged heads
        let line = std::iter::successors(Some(session), |session| origins.get(session));
        let root = line.take(origins.len() + 1).last().unwrap_or(session);
        sessions.push(uuid(*session));
        families.push(uuid(*root));
    }
    let join = "update session set family = a.family from unnest($1::uuid[], $2::uuid[]) as a(id, family) \
        where session.id = a.id and exists (select from session as root where root.id = a.family)";
    open.once(join, &[&sessions, &families]).await.map(drop)
}

/// Makes the partitions of this month and of some after it.
pub(crate) async fn make_partitions(address: &Address, open: &Open) -> Result<(), Error> {
    let made = open.run(&PARTITIONS.replace("MONTHS", &MONTHS_AHEAD.to_string())).await;
    made.map_err(|error| diagnosis::statement(address, &error))
}
