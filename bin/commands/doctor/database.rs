//! Checks the database that keeps the sessions, if one does.

use leftfold_postgres::{Address, Error, PostgresReader, Server};
use leftfold_view::words::counted;

use super::super::named_store;
use super::Findings;

/// Connections of a node.
const OF_A_NODE: u32 = 5;
/// Seconds that the clocks of a node and of the database may differ. Leases go by the database's clock alone, so this
/// only concerns the times of events.
const CLOCKS: f64 = 5.0;

/// The database that the user has chosen for sessions, if it is one.
pub(super) fn chosen(found: &mut Findings, store: Option<&str>) {
    if let Some(address) = named_store::url(store).and_then(|url| Address::parse(&url).ok()) {
        database(found, &address);
    }
}

fn database(found: &mut Findings, address: &Address) {
    found.area("database");
    let opened = PostgresReader::open(address).and_then(|reader| {
        let server = reader.server()?;
        Ok((reader, server))
    });
    match opened {
        // each error says what to do
        Err(error) => {
            found.error(error.to_string(), format!("see docs/fleet.md; the URL is {address}"));
        }
        Ok((reader, server)) => {
            set_up(found, address, &server);
            if !server.only_reads {
                match reader.check_notifications() {
                    Ok(()) => found.fine("notifications arrive"),
                    Err(error @ Error::Pooler { .. }) => found.error(
                        error.to_string(),
                        "without notifications, nodes hear of each other too late",
                    ),
                    Err(error) => found.error(error.to_string(), "see docs/fleet.md"),
                }
            }
        }
    }
}

fn set_up(found: &mut Findings, address: &Address, server: &Server) {
    let answer = server.round_trip.as_secs_f64() * 1e3;
    let version = &server.version;
    found.fine(format!(
        "{address}: PostgreSQL {version}, an answer takes {answer:.1} ms; fsync and full_page_writes are on"
    ));
    if server.only_reads {
        found.note("it only reads, as a standby does: no session can run on it");
    } else if !server.may_write {
        found.error(
            format!("this user may not write to all tables in schema {}", address.schema()),
            "let their owner `grant select, insert, update, delete on all tables in schema` to it",
        );
    }
    if !server.data_checksums {
        found.warning(
            "it has no data checksums: a changed byte on its disk is noticed only where Leftfold's own checksums are",
            "turn them on with `pg_checksums --enable` while the server is stopped",
        );
    }
    standbys(found, server);
    let free = server.most_connections.saturating_sub(server.connections);
    let connections =
        format!("{} of {} connections are in use", server.connections, server.most_connections);
    if free < 2 * OF_A_NODE {
        found.warning(connections, "raise max_connections: each node needs 5");
    } else {
        found.fine(connections);
    }
    let ahead = server.clock_ahead;
    if ahead.abs() > CLOCKS {
        let way = if ahead > 0.0 { "ahead of" } else { "behind" };
        found.warning(
            format!("its clock is {:.0} s {way} this machine's", ahead.abs()),
            "synchronise both clocks: the times of events come from nodes, leases from the database",
        );
    }
}

fn standbys(found: &mut Findings, server: &Server) {
    let standbys = counted(server.standbys, "standby");
    match (server.synchronous.is_empty(), server.standbys, server.synchronous_standbys) {
        _ if server.only_reads => {}
        (_, 0, _) => found.warning(
            "it has no standby: acknowledged events are on this server's disk only",
            "add two standbys, and name them in synchronous_standby_names",
        ),
        (true, ..) => found.warning(
            format!("it has {standbys}, but commits wait for none: a failover may lose acknowledged events"),
            "set synchronous_standby_names, for example to `ANY 1 (a, b)`",
        ),
        (false, _, Some(0)) => found.error(
            format!("none of its {standbys} is one that commits wait for: every append waits"),
            "compare synchronous_standby_names with the application_name of the standbys",
        ),
        (false, _, Some(waited_for)) => {
            found.fine(format!("{standbys}; commits wait for {waited_for} of them"));
        }
        (false, _, None) => found.note(format!(
            "{standbys}; this user may not see which of them commits wait for (`grant pg_read_all_stats`)"
        )),
    }
}
