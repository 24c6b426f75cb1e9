//! Sessions as tables of a SQLite database. `schema.sql` describes them.
//!
//! A row belongs to the session that its first event belongs to. The events that a fork shares are its origin's.

use std::path::Path;

use leftfold_events::event::{Files, Session, Turn, Usage};
use leftfold_events::{Envelope, Event, Seq, SessionId, Time, line};
use leftfold_view::Outcome;
use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

use crate::Run;
use crate::records::{
    CallRecord, Record, Records, RequestEnd, RequestRecord, TurnRecord, outcome_text, outcome_word,
    word,
};

const SCHEMA: &str = include_str!("schema.sql");

#[derive(Debug, thiserror::Error)]
#[error("the database cannot be written: {0}")]
pub struct DatabaseError(#[from] rusqlite::Error);

/// A new database.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Creates the tables in an empty file. Until [`Self::finish`], a crash may leave any contents in it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self, DatabaseError> {
        let connection = Connection::open(path)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection })
    }

    /// Adds the sessions of a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, run: &Run) -> Result<(), DatabaseError> {
        let rows = self.connection.transaction()?;
        for (session, events) in run.logs() {
            add_log(&rows, session, events)?;
        }
        rows.commit()?;
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), DatabaseError> {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

fn add_log(rows: &Transaction<'_>, id: SessionId, events: &[Envelope]) -> rusqlite::Result<()> {
    add_session(rows, id, events)?;
    let mut records = Records::default();
    let mut done = Vec::new();
    let mut turn = None;
    for event in events {
        if let Event::Turn(Turn::Prompted { .. }) = &event.event {
            turn = turn.or(Some(event.seq));
        }
        add_event(rows, event)?;
        if event.session == id {
            add_files(rows, event, turn)?;
        }
        if let Event::Turn(Turn::Ended(_)) = &event.event {
            turn = None;
        }
        done.extend(records.apply(event));
    }
    done.extend(records.rest());
    for record in done.iter().filter(|record| record.began().session == id) {
        match record {
            Record::Turn(turn) => add_turn(rows, turn)?,
            Record::Request(request) => add_request(rows, request)?,
            Record::Call(call) => add_call(rows, call)?,
        }
    }
    Ok(())
}

fn add_session(rows: &Transaction<'_>, id: SessionId, events: &[Envelope]) -> rusqlite::Result<()> {
    let own = || events.iter().filter(|event| event.session == id);
    let Some((first, last)) = own().next().zip(own().next_back()) else { return Ok(()) };
    let (mut parent, mut fork_of, mut title) = (None, None, None);
    let (mut directory, mut agent, mut version) = (None, None, None);
    for event in events {
        let Event::Session(session) = &event.event else { continue };
        match session {
            Session::Created { directory: of, agent: by, version: with, parent: from, .. } => {
                (directory, agent, version) = (Some(of), Some(by), Some(with));
                parent = from.map(|from| from.to_string());
            }
            Session::Forked { from, .. } => {
                (fork_of, parent) = (Some(from.to_string()), None);
            }
            Session::Adopted { parent: by } => parent = Some(by.to_string()),
            Session::Titled { title: named } => title = Some(named),
            _ => {}
        }
    }
    rows.execute(
        "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            id.to_string(),
            parent,
            fork_of,
            directory,
            title,
            agent,
            version,
            first.at.to_string(),
            last.at.to_string(),
        ],
    )?;
    Ok(())
}

fn add_event(rows: &Transaction<'_>, event: &Envelope) -> rusqlite::Result<()> {
    let written: Value = serde_json::from_str(&line::write(event)).unwrap_or_default();
    rows.prepare("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?)")?.execute(params![
        event.session.to_string(),
        number(event.seq),
        event.at.to_string(),
        line::type_of(&event.event),
        event.of.map(number),
        written["data"].to_string(),
    ])?;
    Ok(())
}

fn add_files(rows: &Transaction<'_>, event: &Envelope, turn: Option<Seq>) -> rusqlite::Result<()> {
    let Event::Files(Files::Snapshotted { files, .. }) = &event.event else { return Ok(()) };
    for file in files {
        rows.execute(
            "INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                event.session.to_string(),
                number(event.seq),
                turn.map(number),
                file.path,
                word(file.change),
                number(file.additions),
                number(file.deletions),
            ],
        )?;
    }
    Ok(())
}

fn add_turn(rows: &Transaction<'_>, turn: &TurnRecord) -> rusqlite::Result<()> {
    let TurnRecord { began, agent, model, prompt, ended } = turn;
    let end = ended.as_ref().map(|(_, ended)| ended);
    let [input, output, reasoning, cache_read, cache_write] = tokens(end.map(|end| &end.usage));
    rows.execute(
        "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            began.session.to_string(),
            number(began.seq),
            began.time.to_string(),
            ended.as_ref().map(|(at, _)| at.time.to_string()),
            ended.as_ref().map(|(at, _)| millis(at.time, began.time)),
            agent,
            model.provider,
            model.id,
            prompt,
            end.map(|end| &end.text),
            end.map(|end| word(end.reason)),
            end.and_then(|end| end.error.as_ref()),
            end.map(|end| end.steps),
            input,
            output,
            reasoning,
            cache_read,
            cache_write,
            end.map(|end| end.cost),
        ],
    )?;
    Ok(())
}

fn add_request(rows: &Transaction<'_>, request: &RequestRecord) -> rusqlite::Result<()> {
    let RequestRecord { began, turn, agent, model, purpose, step, attempt, first, ended } = request;
    let (mut usage, mut cost, mut finish, mut request_id) = (None, None, None, None);
    let (mut class, mut text, mut status_code) = (None, None, None);
    match ended.as_ref().map(|(_, end)| end) {
        Some(RequestEnd::Finished { finish: how, usage: used, cost: spent, id }) => {
            (usage, cost, finish, request_id) =
                (Some(used), Some(*spent), Some(word(how)), id.as_ref());
        }
        Some(RequestEnd::Failed { class: kind, message, status }) => {
            (class, text, status_code) = (Some(word(kind)), Some(message), *status);
        }
        None => {}
    }
    let [input, output, reasoning, cache_read, cache_write] = tokens(usage);
    rows.execute(
        "INSERT OR IGNORE INTO requests \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            began.session.to_string(),
            number(began.seq),
            turn.map(number),
            began.time.to_string(),
            first.map(|first| millis(first, began.time)),
            ended.as_ref().map(|(at, _)| millis(at.time, began.time)),
            agent,
            model.provider,
            model.id,
            word(purpose),
            step,
            attempt,
            finish,
            class,
            text,
            status_code,
            request_id,
            input,
            output,
            reasoning,
            cache_read,
            cache_write,
            cost,
        ],
    )?;
    Ok(())
}

fn add_call(rows: &Transaction<'_>, call: &CallRecord) -> rusqlite::Result<()> {
    let outcome = call.ended.as_ref().map(|(_, outcome)| outcome);
    let exit = outcome.and_then(|outcome| match outcome {
        Outcome::Finished(finished) => finished.metadata.value()["exit"].as_i64(),
        Outcome::Unresolved(_)
        | Outcome::Denied
        | Outcome::Rejected { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Lost
        | Outcome::Cancelled => None,
    });
    let rule = call.verdict.as_ref().and_then(|(_, rule)| rule.as_ref());
    let ran = call.started.zip(call.ended.as_ref().map(|(at, _)| at.time));
    rows.execute(
        "INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            call.began.session.to_string(),
            number(call.began.seq),
            call.turn.map(number),
            call.by.map(number),
            call.id,
            call.began.time.to_string(),
            ran.map(|(from, to)| millis(to, from)),
            call.tool,
            call.class.map(word),
            call.input.as_str(),
            call.verdict.as_ref().map(|(action, _)| word(action)),
            rule.map(|rule| &rule.permission),
            rule.map(|rule| &rule.pattern),
            call.asked,
            outcome.map(outcome_word),
            exit,
            outcome.map(outcome_text),
            call.subagent.map(|subagent| subagent.to_string()),
        ],
    )?;
    Ok(())
}

fn tokens(usage: Option<&Usage>) -> [Option<i64>; 5] {
    match usage {
        None => [None; 5],
        Some(Usage { input, output, reasoning, cache_read, cache_write }) => {
            [input, output, reasoning, cache_read, cache_write].map(|count| Some(number(*count)))
        }
    }
}

/// A number as SQLite stores it. An imported log may claim any.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn millis(to: Time, from: Time) -> i64 {
    number(to.since(from))
}
