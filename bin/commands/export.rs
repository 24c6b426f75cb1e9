//! `leftfold export`: writes the log as JSON lines, with the contents behind hashes, as a page for a browser, or in a
//! format of other tools.
//! `leftfold share` writes the lines, masked, to a file for other people.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, SessionId, fold};
use leftfold_export::{Content, Database, Run};

use super::live_line::LiveLine;
use super::{bundle, import, otlp, whole_file};
use crate::cli::{Export, Share, Unshare};
use leftfold_runtime::Usage;
use leftfold_runtime::history::History;
use leftfold_runtime::lines::Lines;
use leftfold_runtime::redact_output;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_diff;
use leftfold_runtime::session_paths::{self, SessionPlace};

pub(crate) fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let content = args.format.content;
    if !matches!(content, Content::Log) && (args.unmasked || args.bundle) {
        anyhow::bail!(Usage(
            "this format is always masked and has no snapshots: use `--format jsonl`".to_owned()
        ));
    }
    let is_page = matches!(content, Content::Page);
    if !is_page && args.compare.is_some() {
        anyhow::bail!(Usage("only a page compares sessions: use `--format html`".to_owned()));
    }
    if matches!(content, Content::Telemetry) {
        return otlp::export(args);
    }
    if args.send || args.follow {
        anyhow::bail!(Usage("--send and --follow need `--format otlp`".to_owned()));
    }
    if matches!(content, Content::Database) {
        return database(args);
    }
    let [session] = args.sessions.as_slice() else {
        anyhow::bail!(Usage(
            "this format has one session: only `sqlite` and `otlp` take more".to_owned()
        ));
    };
    let place = super::place(session)?;
    let live = LiveLine::about(&format!("exporting {}", place.session));
    let (history, damage) = History::good(&place)?;
    if let Some(damage) = damage.as_ref().filter(|_| args.bundle) {
        anyhow::bail!("the log is damaged, so it makes no bundle: {damage}");
    }
    let exported = match content {
        Content::Log => json_lines(args, &place, history)?,
        Content::Page => page(&history, args.compare.as_deref())?,
        Content::Text(format) => as_text(&history, format),
        // written above
        Content::Database | Content::Telemetry => String::new(),
    };
    drop(live);
    // nobody reads a page on a terminal
    let is_page_for_person = is_page && std::io::stdout().is_terminal();
    match &args.output {
        Some(file) => whole_file::write(file, &exported, whole_file::FOR_OWNER)?,
        None if is_page_for_person => {
            let file = PathBuf::from(format!("leftfold-{}.html", place.session));
            whole_file::write(&file, &exported, whole_file::FOR_OWNER)?;
            leftfold_runtime::note(&format!("leftfold: open {} in a browser", file.display()));
        }
        None => drop(super::print_exact(&exported)?),
    }
    match damage {
        None => Ok(ExitCode::SUCCESS),
        Some(damage) => anyhow::bail!("the log is damaged after the last printed event: {damage}"),
    }
}

/// Writes sessions into a new database. A damaged log is there up to its damage.
fn database(args: &Export) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.output else {
        anyhow::bail!(Usage("a database is no text: name its file with `-o FILE`".to_owned()));
    };
    let live = LiveLine::about("exporting");
    let mut damaged = None;
    whole_file::fill(file, whole_file::FOR_OWNER, |part| {
        let mut database = Database::create(part.path())?;
        for place in super::places(&args.sessions, args.all)? {
            live.say("exporting", &place.session.to_string());
            let (history, damage) = History::good(&place)?;
            let damage =
                damage.map(|damage| format!("the log of {} is damaged: {damage}", place.session));
            damaged = damaged.take().or(damage);
            database.add(&Run::masked(history.sessions()))?;
        }
        Ok(database.finish()?)
    })?;
    drop(live);
    match damaged {
        None => Ok(ExitCode::SUCCESS),
        Some(damage) => anyhow::bail!("{damage}; the database has the events before"),
    }
}

/// The page of a session; with `other` of two.
pub(super) fn page(history: &History, other: Option<&str>) -> anyhow::Result<String> {
    let logs = |history: &History| -> Vec<(SessionId, Vec<Envelope>)> {
        history.sessions().map(|(session, events)| (session, events.to_vec())).collect()
    };
    let mut run = leftfold_page::Run::from_logs(logs(history))?;
    if let Some(other) = other {
        let (other, damage) = History::good(&super::place(other)?)?;
        if let Some(damage) = damage {
            anyhow::bail!(
                "the log of the other session is damaged, so they are not compared: {damage}"
            );
        }
        run.compare_with(logs(&other))?;
    }
    Ok(leftfold_page::page(&run))
}

pub(super) fn as_text(history: &History, format: fn(&Run) -> String) -> String {
    let text = format(&Run::masked(history.sessions()));
    // a token may stand in a text that no event has alone
    redact_output::masked(&text).into_owned()
}

fn json_lines(args: &Export, place: &SessionPlace, history: History) -> anyhow::Result<String> {
    let origin = fold(history.root()).origin;
    let imported = leftfold_store::imported(&place.store, history.root())?;
    let events = history.by_time();
    let lines = lines(&events, args.unmasked);
    if !args.bundle {
        return Ok(lines);
    }
    let origin = origin.context("the session has no beginning")?;
    let snapshots = session_diff::snapshots(&origin, imported)?;
    let outputs = bundle::outputs(&events, &place.store, args.unmasked);
    bundle::make(&lines, outputs, &events, &snapshots, import::LONGEST)
}

/// Prints the path of the file.
pub(crate) fn share(args: &Share) -> anyhow::Result<ExitCode> {
    let place = super::place_to_change(&args.session)?;
    let (history, damage) = History::good(&place)?;
    if let Some(damage) = damage {
        anyhow::bail!("the log is damaged, so it is not shared: {damage}");
    }
    may_be_shared(&history)?;
    let file = match &args.output {
        Some(file) => file.clone(),
        None => shared_file(place.session)?,
    };
    if let Some(folder) = file.parent().filter(|_| args.output.is_none()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    whole_file::write(&file, &lines(&history.by_time(), false), whole_file::FOR_OWNER)?;
    super::print(&format!("{}\n", file.display()))
}

/// Refuses if the settings here or in the session's project forbid to share sessions.
fn may_be_shared(history: &History) -> anyhow::Result<()> {
    let mut directories = vec![std::env::current_dir()?];
    if let Some(Event::Session(Session::Created { directory, .. })) =
        history.root().first().map(|event| &event.event)
        && Path::new(directory).is_dir()
    {
        directories.push(directory.into());
    }
    for directory in directories {
        if let Some(place) = resolved_settings::without_plugins(&directory)?.no_sharing() {
            anyhow::bail!("{place}: `share` is \"disabled\", so sessions are not shared");
        }
    }
    Ok(())
}

pub(crate) fn unshare(args: &Unshare) -> anyhow::Result<ExitCode> {
    let session = super::place_to_change(&args.session)?.session;
    if !remove_shared(session)? {
        anyhow::bail!("session {session} is not shared: the data directory has no file of it");
    }
    Ok(ExitCode::SUCCESS)
}

/// The file in the data directory that `share` writes.
pub(super) fn shared_file(session: SessionId) -> anyhow::Result<PathBuf> {
    Ok(session_paths::data_dir()?.join("shared").join(format!("{session}.jsonl")))
}

/// Removes that file. False: there is none.
pub(super) fn remove_shared(session: SessionId) -> anyhow::Result<bool> {
    let file = shared_file(session)?;
    match fs::remove_file(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => {
            removed.with_context(|| format!("{} cannot be removed", file.display()))?;
            Ok(true)
        }
    }
}

/// Events as lines. Each content is written once, before the first event that names it.
fn lines(events: &[Envelope], unmasked: bool) -> String {
    let mut lines = Lines::default();
    let mut of = |event| if unmasked { lines.unmasked(event) } else { lines.for_event(event) };
    events.iter().flat_map(&mut of).map(|line| line + "\n").collect()
}
