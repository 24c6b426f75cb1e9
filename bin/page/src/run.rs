//! All logs of a run as named blocks of JSON, which `web/source.js` reads: `run` at the start, the
//! others when they are needed. Events can be added, and what has changed since is told.

use std::mem;

use leftfold_events::{Envelope, SessionId};
use leftfold_view::ParallelWrites;
use leftfold_view::compare::{Pair, Side, aligned, parting};
use serde_json::{Value, json};

use crate::PageError;
use crate::log_data::LogData;
use crate::pool::{Pool, masked};

/// A run: a root session with its subagents.
#[derive(Debug, Default)]
pub struct Run {
    /// The first log is that of the root session.
    logs: Vec<LogData>,
    pool: Pool,
    writes: ParallelWrites,
    /// The names of event types so far; columns have their indices.
    types: Vec<String>,
    /// The other root session, if two are compared.
    other: Option<SessionId>,
}

impl Run {
    /// A run of these logs.
    ///
    /// # Errors
    /// A patch does not reproduce the state of the fold.
    pub fn from_logs(
        logs: impl IntoIterator<Item = (SessionId, Vec<Envelope>)>,
    ) -> Result<Self, PageError> {
        let mut run = Self::default();
        run.add_all(logs)?;
        Ok(run)
    }

    /// Adds another run, whose root session is compared with that of this one. It may be a fork of it.
    ///
    /// # Errors
    /// A patch does not reproduce the state of the fold.
    pub fn compare_with(
        &mut self,
        logs: impl IntoIterator<Item = (SessionId, Vec<Envelope>)>,
    ) -> Result<(), PageError> {
        let mut logs = logs.into_iter().peekable();
        self.other = logs.peek().map(|(session, _)| *session);
        self.add_all(logs)
    }

    /// The session to compare the root session with; its log is added like others.
    pub fn set_other(&mut self, session: SessionId) {
        self.other = Some(session);
    }

    fn add_all(
        &mut self,
        logs: impl IntoIterator<Item = (SessionId, Vec<Envelope>)>,
    ) -> Result<(), PageError> {
        for (session, events) in logs {
            if self.seq(session).is_some() {
                continue;
            }
            self.add_log(session)?;
            for event in events {
                self.push(session, event)?;
            }
        }
        self.check()
    }

    /// Begins the log of a session, unless it is known.
    ///
    /// # Errors
    /// The state cannot be written as JSON.
    pub fn add_log(&mut self, session: SessionId) -> Result<(), PageError> {
        if self.seq(session).is_none() {
            self.logs.push(LogData::new(session)?);
        }
        Ok(())
    }

    /// Adds the next event of a log. A fork's log begins with shared events of its parent.
    ///
    /// # Errors
    /// A patch does not reproduce the state of the fold. The run is of no use then.
    pub fn push(&mut self, log: SessionId, event: Envelope) -> Result<(), PageError> {
        let Some(log) = self.logs.iter_mut().find(|known| known.session == log) else {
            return Ok(());
        };
        let shared = log.push(event, &mut self.types, &mut self.pool, &mut self.writes)?;
        for (session, finding) in shared {
            if let Some(log) = self.logs.iter_mut().find(|log| log.session == session) {
                log.add_finding(finding);
            }
        }
        Ok(())
    }

    /// Compares the last state of each log with the fold.
    ///
    /// # Errors
    /// The patches lead to another state.
    pub fn check(&self) -> Result<(), PageError> {
        self.logs.iter().try_for_each(LogData::check)
    }

    /// The sessions whose logs the run has, parents before children.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.logs.iter().map(|log| log.session)
    }

    /// The last event of a session's log, or 0; `None`: the run has no such log.
    pub fn seq(&self, session: SessionId) -> Option<u64> {
        let log = self.logs.iter().find(|log| log.session == session)?;
        Some(log.events().last().map_or(0, |event| event.seq))
    }

    /// The events of a log.
    pub fn events(&self, session: SessionId) -> &[Envelope] {
        let log = self.logs.iter().find(|log| log.session == session);
        log.map_or(&[], LogData::events)
    }

    /// The number of events of each log.
    pub fn counts(&self) -> Vec<usize> {
        self.logs.iter().map(|log| log.events().len()).collect()
    }

    /// Everything that a page must know before it shows anything, apart from what it knows with these numbers of
    /// events. Without numbers this is the block `run`.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn since(&self, counts: &[usize]) -> Result<Value, PageError> {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        let logs = self.logs.iter().zip(counts).enumerate();
        let is_new = |(_, (log, count)): &(usize, (&LogData, usize))| {
            *count == 0 || log.events().len() > *count
        };
        let logs = logs.filter(is_new).map(|(at, (log, count))| log.since(at, count));
        Ok(json!({
            "types": self.types,
            "texts": self.pool.texts.starts,
            "values": self.pool.values.starts,
            "messages": self.pool.messages.starts,
            "logs": logs.collect::<Result<Vec<_>, _>>()?,
            "other": self.other,
        }))
    }

    /// The root sessions side by side: the indices of the events in both logs, or -1, and where they part.
    fn comparison(&self) -> Option<Value> {
        let root = self.sessions().next()?;
        let (a, b) = (Side::new(self.events(root)), Side::new(self.events(self.other?)));
        let index = |at: Option<usize>| at.map_or(json!(-1), |at| json!(at));
        let row = |pair: Pair| json!([index(pair.a), index(pair.b), u8::from(pair.is_same)]);
        let rows: Vec<Value> = aligned(&a, &b).into_iter().map(row).collect();
        masked(&json!({ "part": parting(&a, &b), "rows": rows })).ok()
    }

    /// The JSON of a block; `None`: there is none of this name.
    pub fn block(&self, name: &str) -> Option<String> {
        let mut parts = name.split('-');
        let (kind, mut numbers) = (parts.next()?, parts.map(|part| part.parse::<usize>().ok()));
        let first = numbers.next();
        let pooled = match (kind, first) {
            ("run", None) => return self.since(&[]).ok().map(|run| run.to_string()),
            ("compare", None) => return self.comparison().map(|compared| compared.to_string()),
            ("chunk", Some(log)) => {
                return self.logs.get(log?)?.chunk(numbers.next()??);
            }
            ("texts", Some(_)) => &self.pool.texts,
            ("values", Some(_)) => &self.pool.values,
            ("messages", Some(_)) => &self.pool.messages,
            _ => return None,
        };
        pooled.block(first??)
    }

    /// The names of all blocks.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec!["run".to_owned()];
        names.extend(self.other.map(|_| "compare".to_owned()));
        for (at, log) in self.logs.iter().enumerate() {
            names.extend((0..log.chunks()).map(|chunk| format!("chunk-{at}-{chunk}")));
        }
        let pool = &self.pool;
        for (kind, blocks) in
            [("texts", &pool.texts), ("values", &pool.values), ("messages", &pool.messages)]
        {
            names.extend((0..blocks.starts.len()).map(|block| format!("{kind}-{block}")));
        }
        names
    }

    /// The bytes of all chunks and texts so far, roughly what the run takes of memory.
    pub fn size(&self) -> usize {
        let pool = &self.pool;
        let pooled = [&pool.texts, &pool.values, &pool.messages].map(|blocks| blocks.size());
        let chunks = self.logs.iter().map(LogData::size);
        mem::size_of::<Self>() + pooled.iter().sum::<usize>() + chunks.sum::<usize>()
    }
}
