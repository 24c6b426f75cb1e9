//! The program on a server of PostgreSQL: every command, sessions that move there, operations, and trouble with the
//! database.
#![cfg(test)]
#![allow(clippy::print_stdout, reason = "a test says how long it took")]

mod balanced;
mod chaos;
mod commands;
mod containers;
mod executor;
#[path = "../http/client.rs"]
#[allow(dead_code, clippy::needless_pass_by_value, reason = "it is made for other tests")]
mod http_client;
mod import;
mod inbox;
mod many;
mod metrics;
mod old_server;
mod operations;
mod orders;
mod quota;
mod shown;
mod takeover;
mod trial;
mod trouble;
mod views;
mod watched;

use std::sync::atomic::{AtomicU32, Ordering};

use common::postgres::{Cluster, PASSWORD};
use common::{Ran, Site};

/// A URL of tables of its own, with the password.
fn url(cluster: &Cluster) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    cluster.url(cluster.port(), &format!("fleet_{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Runs the program with a store. Nothing that it says has the password.
fn on(url: &str, site: &Site, args: &[&str]) -> Ran {
    let ran = site.run(&[args, &["--store", url]].concat());
    assert!(!ran.stdout.contains(PASSWORD) && !ran.stderr.contains(PASSWORD), "{args:?}: {ran:?}");
    ran
}

/// The id of the session that the first event names.
fn session_of(ran: &Ran) -> String {
    ran.events()[0]["session"].as_str().unwrap().to_owned()
}
