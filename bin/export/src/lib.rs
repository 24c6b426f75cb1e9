//! Runs in the formats of other tools. `leftfold export` writes them.
//!
//! | module | purpose |
//! |---|---|
//! | `markdown` | a transcript for an issue or a pull request |
//! | `messages` | JSON lines of messages for fine-tuning |
//! | `atif` | a trajectory for evaluations and training |
//! | `junit` | the last turn as a report for CI systems |
//! | `records` | turns, requests and calls with their beginnings and ends |
//! | `otlp` | traces and metrics of OpenTelemetry |
//! | `measurements` | measurements of a process as such metrics |
//! | `sqlite` | tables of a database |
//!
//! Every format but `measurements` is made of a [`Run`], whose events are masked as in every export.
//!
//! Invariant: nothing here reads a clock, a setting or the network, and only `sqlite` writes, to the file that it is given.

mod atif;
mod junit;
mod markdown;
mod measurements;
mod messages;
mod otlp;
mod records;
mod sqlite;
#[cfg(test)]
mod testing;

use leftfold_events::{Envelope, SessionId, mask};
use leftfold_view::Transcript;
use leftfold_view::clean::printable;

pub use atif::atif;
pub use junit::junit;
pub use markdown::markdown;
pub use measurements::{Measured, Measurement};
pub use messages::{anthropic, openai};
pub use otlp::{Signal, Telemetry, TelemetryOptions};
pub use sqlite::{Database, DatabaseError};

/// The masked logs of a session and of its subagents, parents first. The log of a fork begins with the events that it
/// shares.
#[derive(Clone, Debug, Default)]
pub struct Run {
    logs: Vec<(SessionId, Vec<Envelope>)>,
}

impl Run {
    /// Masks the events.
    pub fn masked<'a>(logs: impl IntoIterator<Item = (SessionId, &'a [Envelope])>) -> Self {
        let mask = |event: &Envelope| {
            mask::shown(event).masked.map_or_else(|| event.clone(), |masked| *masked)
        };
        let logs = logs.into_iter();
        Self { logs: logs.map(|(id, events)| (id, events.iter().map(mask).collect())).collect() }
    }

    fn logs(&self) -> impl Iterator<Item = (SessionId, &[Envelope])> {
        self.logs.iter().map(|(session, events)| (*session, events.as_slice()))
    }
}

/// Text in HTML and XML, without control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// The transcript of one log, and for each of its events the changes that people see.
fn transcript(session: SessionId) -> Transcript {
    Transcript::full(session).from_start()
}
