//! `leftfold fleet`: stores in PostgreSQL, for many nodes. Also chooses the store of this process.

mod operate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use leftfold_postgres::{Address, Databases, Error, FurtherPlaces, Metrics, Options};
use leftfold_runtime::{Usage, executors, session_paths};
use leftfold_store::engine::EXECUTOR;
use leftfold_store::{Copied, Reader, Store};
use leftfold_view::words::counted;
use serde_json::json;

use super::live_line::LiveLine;
use super::named_store;
pub(crate) use super::node_metrics::{NodeDatabase, send as send_metrics};
use crate::cli::{Fleet, FleetCommand, Format};

/// Makes the store that `--store` or the environment names the one of this process, and gives it the engine for databases.
/// Opens nothing. Answers the database, if one keeps that store.
///
/// # Errors
/// The URL is wrong, or the folder for it cannot be written.
pub(crate) fn choose_store(store: Option<&str>) -> anyhow::Result<Option<NodeDatabase>> {
    let address = named_store::url(store).as_deref().map(parse).transpose()?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let labels = vec![format!("host {host}"), format!("pid {}", std::process::id())];
    let beside = || executors::names().iter().map(|name| format!("{EXECUTOR}{name}")).collect();
    let metrics = Arc::new(Metrics::default());
    let options = Options {
        labels,
        place: format!("host:{host}"),
        further: FurtherPlaces::new(beside),
        drain: end_this_process,
        metrics: Arc::clone(&metrics),
        ..Options::default()
    };
    // also for a folder: another one, in an argument, may name a database
    if let Ok(folder) = session_paths::databases_folder() {
        leftfold_store::use_databases(folder, Box::new(Databases::new(options, address.clone())));
    }
    let Some(address) = address else {
        named_store::choose_folder(store)?;
        return Ok(None);
    };
    let name = address.without_password();
    let folder = session_paths::database_folder(&name)?;
    leftfold_store::name_database(&folder, &name)?;
    session_paths::choose_store(folder);
    Ok(Some(NodeDatabase { address, metrics }))
}

/// As a supervisor does it: each command knows what to do then.
fn end_this_process() {
    use rustix::process::{Signal, getpid, kill_process};
    leftfold_runtime::note(
        "leftfold: an operator drains this node: it hands its sessions over and ends",
    );
    if let Err(error) = kill_process(getpid(), Signal::TERM) {
        tracing::error!("this process cannot end itself: {error}");
    }
}

fn parse(url: &str) -> Result<Address, Usage> {
    Address::parse(url).map_err(|error| Usage(error.to_string()))
}

/// `store` is the argument of `--store`.
pub(crate) fn fleet(args: &Fleet, store: Option<&str>) -> anyhow::Result<ExitCode> {
    match &args.command {
        FleetCommand::Init { url } => init(&database(url.as_deref(), store)?),
        FleetCommand::Status(args) => status(&database(args.url.as_deref(), store)?, args.format),
        FleetCommand::Nodes(args) => nodes(&database(args.url.as_deref(), store)?, args.format),
        FleetCommand::Drain(args) => operate::drain(&database(args.url.as_deref(), store)?, args),
        FleetCommand::Move(args) => {
            operate::move_session(&database(args.url.as_deref(), store)?, args)
        }
        FleetCommand::Gc(args) => operate::gc(&database(args.url.as_deref(), store)?, args),
        FleetCommand::Import { folders } => import(folders),
    }
}

/// The database that an argument or else `--store` names.
fn database(url: Option<&str>, store: Option<&str>) -> anyhow::Result<Address> {
    let Some(url) = url.map(str::to_owned).or_else(|| named_store::named(store)) else {
        bail!(Usage("name the database: `postgresql://USER@HOST/DATABASE`, or --store URL".into()));
    };
    Ok(parse(&url)?)
}

fn init(address: &Address) -> anyhow::Result<ExitCode> {
    match leftfold_postgres::migrate(address) {
        Err(Error::Rights { user, why }) => bail!(
            "user {user} lacks a right: {why}; let the owner of the database run `create schema {} authorization \
             {user}`, or `grant create on database … to {user}`",
            address.schema()
        ),
        done => done?,
    }
    super::print(&format!("{address}: the tables in schema {} are up to date\n", address.schema()))
}

fn status(address: &Address, format: Format) -> anyhow::Result<ExitCode> {
    let reader = leftfold_postgres::PostgresReader::open(address)?;
    let (server, status) = (reader.server()?, reader.status()?);
    if format == Format::Json {
        let at: serde_json::Map<_, _> =
            status.waiting_at.iter().map(|(place, count)| (place.clone(), json!(count))).collect();
        let line = json!({
            "nodes": status.nodes, "sessions": status.sessions, "owned": status.owned,
            "waiting": status.waiting, "waiting_at": at, "messages": status.messages,
            "oldest_message_s": status.oldest_message, "bytes": status.bytes,
            "server": server.version, "standby": server.only_reads, "standbys": server.standbys,
            "synchronous_standbys": server.synchronous_standbys, "connections": server.connections,
            "max_connections": server.most_connections,
            "round_trip_ms": server.round_trip.as_secs_f64() * 1e3,
        });
        return super::print_json(&format!("{line}\n"));
    }
    let role = if server.only_reads { "standby" } else { "primary" };
    let at = status.waiting_at.iter().map(|(place, count)| format!("\n    {count} at {place}"));
    let oldest = status.oldest_message.map(|age| format!(", the oldest for {age:.0} s"));
    super::print(&format!(
        "{address}\n  {role}, PostgreSQL {}, {}, {} of {} connections, {}\n  {}\n  {}: {} owned, {} without an owner \
         that have work to do{}\n  {} for nodes{}\n",
        server.version,
        counted(server.standbys, "standby"),
        server.connections,
        server.most_connections,
        leftfold_view::words::bytes(status.bytes),
        counted(status.nodes, "live node"),
        counted(status.sessions, "session"),
        status.owned,
        status.waiting,
        at.collect::<String>(),
        counted(status.messages, "message"),
        oldest.unwrap_or_default(),
    ))
}

fn nodes(address: &Address, format: Format) -> anyhow::Result<ExitCode> {
    let nodes = leftfold_postgres::PostgresReader::open(address)?.nodes()?;
    // those whose lease has run out are the last ones
    let gone = nodes.iter().position(|node| node.lease < 0.0);
    let text = nodes.iter().enumerate().map(|(at, node)| match format {
        Format::Json => {
            let line = json!({
                "id": node.id, "labels": node.labels, "lease_s": node.lease, "age_s": node.age,
                "sessions": node.sessions, "draining": node.draining,
            });
            format!("{line}\n")
        }
        Format::Text => {
            let lease = match node.lease {
                left @ 0.0.. => format!("lease for {left:.0} s"),
                past => format!("lease ran out {:.0} s ago", -past),
            };
            let name = super::cell(&node.labels.join(", "), super::NAME);
            let sessions = counted(node.sessions, "session");
            let draining = if node.draining { ", draining" } else { "" };
            let title = if gone == Some(at) { "\nNo longer there:\n" } else { "" };
            let (id, age) = (&node.id, node.age);
            format!("{title}{id}  {name}  {lease}, since {age:.0} s, {sessions}{draining}\n")
        }
    });
    super::print_as(format, &text.collect::<String>())
}

fn import(folders: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let Some(to) = session_paths::chosen_store() else {
        bail!(Usage("name the store that gets the sessions: --store URL".into()));
    };
    let mut stores = Vec::new();
    for folder in folders {
        let found = stores_in(folder)?;
        if found.is_empty() {
            bail!(Usage(format!("{} holds no session", folder.display())));
        }
        stores.extend(found);
    }
    let live = LiveLine::about("copying sessions");
    let target = Store::open(to)?;
    let mut code = ExitCode::SUCCESS;
    for from in stores {
        live.say("copying", &from.display().to_string());
        match copy(&target, &from) {
            Ok(done) => drop(super::print(&done)?),
            // the others are copied all the same
            Err(error) => {
                leftfold_runtime::note(&format!("leftfold: {}: {error:#}", from.display()));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// The stores of sessions in a folder, which may be one itself.
fn stores_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = folder.canonicalize();
    let folder = folder.map_err(|error| Usage(format!("a folder of sessions: {error}")))?;
    if leftfold_store::exists(&folder) {
        return Ok(vec![folder]);
    }
    let mut stores = Vec::new();
    for below in [folder.join("sessions"), folder.clone()] {
        let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
        stores
            .extend(entries.map(|entry| entry.path()).filter(|path| leftfold_store::exists(path)));
    }
    stores.sort_unstable();
    stores.dedup();
    Ok(stores)
}

/// Copies all sessions of a store, and answers what to say about it, a line for each session.
fn copy(target: &Store, from: &Path) -> anyhow::Result<String> {
    let reader = Reader::open(from)?;
    let sessions = reader.sessions()?;
    // before the logs: a crash leaves no imported log without its note
    target.copy_notes(from, &sessions)?;
    copy_files(from, target.dir())?;
    let (mut left, mut lines) = (sessions, String::new());
    while !left.is_empty() {
        let (mut later, count) = (Vec::new(), left.len());
        for session in left {
            match target.copy_log(&reader, session) {
                Ok(Copied::Added(events)) => {
                    lines += &format!("{session}: {} copied\n", counted(events, "event"));
                }
                Ok(Copied::Known) => lines += &format!("{session}: there already\n"),
                Err(error) => later.push((session, error)),
            }
        }
        if later.len() == count {
            let (session, error) = later.swap_remove(0);
            return Err(error).with_context(|| format!("session {session}"));
        }
        left = later.into_iter().map(|(session, _)| session).collect();
    }
    Ok(lines)
}

/// Full texts of outputs and recorded exchanges. They stay on this machine.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in ["spill", "wire"] {
        let Ok(entries) = std::fs::read_dir(from.join(name)) else { continue };
        let folder = to.join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let copy = folder.join(entry.file_name());
            if !copy.exists() {
                std::fs::copy(entry.path(), &copy).with_context(|| copy.display().to_string())?;
            }
        }
    }
    Ok(())
}
