//! Sessions as tables of a SQLite database. `schema.sql` describes them.
//!
//! A row belongs to the session that its first event belongs to. The events that a fork shares are its origin's.

use std::path::Path;

use leftfold_events::event::{Ended, Files, Session, Usage};
use leftfold_events::{Envelope, Event, Json, Seq, SessionId, Time, line};
use leftfold_view::{Call, Outcome, Request, TurnStart};
use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

use crate::Run;
use crate::records::{Record, Records, RequestEnd, outcome_text, outcome_word, word};

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
    for event in events {
        done.extend(records.apply(event));
        add_event(rows, event)?;
        if event.session == id {
            add_files(rows, event, records.turn())?;
        }
    }
    done.extend(records.rest());
    for record in done.iter().filter(|record| record.began().0 == id) {
        match record {
            Record::Turn(turn, ended) => add_turn(rows, turn, ended.as_ref())?,
            Record::Request(request, ended) => add_request(rows, request, ended.as_ref())?,
            Record::Call(call, ended) => add_call(rows, call, ended.as_ref())?,
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

fn add_turn(
    rows: &Transaction<'_>,
    turn: &TurnStart,
    ended: Option<&(Time, Box<Ended>)>,
) -> rusqlite::Result<()> {
    let TurnStart { session, seq, at, agent, model, prompt } = turn;
    let end = ended.map(|(_, ended)| ended);
    let [input, output, reasoning, cache_read, cache_write] = tokens(end.map(|end| &end.usage));
    rows.execute(
        "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            session.to_string(),
            number(*seq),
            at.to_string(),
            ended.map(|(end, _)| end.to_string()),
            ended.map(|(end, _)| millis(*end, *at)),
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

fn add_request(
    rows: &Transaction<'_>,
    request: &Request,
    ended: Option<&(Time, RequestEnd)>,
) -> rusqlite::Result<()> {
    let (mut usage, mut cost, mut finish, mut request_id) = (None, None, None, None);
    let (mut class, mut text, mut status_code) = (None, None, None);
    match ended.map(|(_, end)| end) {
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
            request.session.to_string(),
            number(request.seq),
            request.turn.map(number),
            request.since.to_string(),
            request.first.map(|first| millis(first, request.since)),
            ended.map(|(end, _)| millis(*end, request.since)),
            request.agent,
            request.model.provider,
            request.model.id,
            word(request.purpose),
            request.step,
            request.attempt,
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

fn add_call(
    rows: &Transaction<'_>,
    call: &Call,
    ended: Option<&(Time, Outcome)>,
) -> rusqlite::Result<()> {
    let outcome = ended.map(|(_, outcome)| outcome);
    let exit = outcome.and_then(|outcome| match outcome {
        Outcome::Finished(finished) => finished.metadata.value()["exit"].as_i64(),
        _ => None,
    });
    let rule = call.verdict.as_ref().and_then(|(_, rule)| rule.as_ref());
    let ran = call.started.zip(ended.map(|(end, _)| *end));
    rows.execute(
        "INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            call.session.to_string(),
            number(call.seq),
            call.turn.map(number),
            call.by.map(number),
            call.id,
            call.at.to_string(),
            ran.map(|(from, to)| millis(to, from)),
            call.name,
            call.class.map(word),
            Json::from_value(&call.input).as_str(),
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
