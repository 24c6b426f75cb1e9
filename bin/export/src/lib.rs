//! Exports runs in the formats of other tools, for `leftfold export` and `leftfold otlp`.
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

use leftfold_events::{Envelope, SessionId, mask};
use leftfold_view::Transcript;
use leftfold_view::clean::printable;

pub use junit::junit;
pub use markdown::markdown;
pub use measurements::{Measured, Measurement};
pub use otlp::{Signal, Telemetry, TelemetryOptions};
pub use sqlite::{Database, DatabaseError};

/// A format of `leftfold export` and `/export`.
#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    /// The end of the name of its files.
    pub extension: &'static str,
    /// A description for the menu of the conversation.
    pub about: &'static str,
    /// A description for `leftfold export --help`.
    pub help: &'static str,
    pub content: Content,
}

/// The content of an export. Only a log can be unmasked and have snapshots.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// The events of one session, which can be imported.
    Log,
    /// A page of one session, or of two that it compares.
    Page,
    /// A text about one session.
    Text(fn(&Run) -> String),
    /// A [`Database`] of any number of sessions.
    Database,
    /// The [`Telemetry`] of any number of sessions.
    Telemetry,
}

/// Every format, the usual one first. To add one that is a text, write its file, and add its `mod` line above and its
/// row here.
pub static FORMATS: [Format; 8] = [
    Format {
        name: "jsonl",
        extension: "jsonl",
        about: "events as JSON lines, which `leftfold import` reads",
        help: "Events as JSON lines, which `leftfold import` reads",
        content: Content::Log,
    },
    Format {
        name: "html",
        extension: "html",
        about: "a page that shows the run in a browser",
        help: "A page that shows the run in a browser, always masked, as one file",
        content: Content::Page,
    },
    Format {
        name: "md",
        extension: "md",
        about: "a transcript in Markdown",
        help: "A transcript in Markdown for an issue or a pull request, always masked",
        content: Content::Text(markdown),
    },
    Format {
        name: "openai",
        extension: "openai.jsonl",
        about: "conversations for fine-tuning at OpenAI",
        help: "Conversations as JSON lines for fine-tuning at OpenAI, always masked",
        content: Content::Text(messages::openai),
    },
    Format {
        name: "anthropic",
        extension: "anthropic.jsonl",
        about: "conversations for fine-tuning Anthropic's models",
        help: "Conversations as JSON lines for fine-tuning Anthropic's models, always masked",
        content: Content::Text(messages::anthropic),
    },
    Format {
        name: "atif",
        extension: "atif.json",
        about: "a trajectory in the Agent Trajectory Interchange Format",
        help: "A trajectory in the Agent Trajectory Interchange Format, always masked",
        content: Content::Text(atif::atif),
    },
    Format {
        name: "sqlite",
        extension: "db",
        about: "tables of a SQLite database",
        help: "Tables of events, turns, requests, calls and files in a SQLite database, always masked",
        content: Content::Database,
    },
    Format {
        name: "otlp",
        extension: "otlp.jsonl",
        about: "traces and metrics of OpenTelemetry",
        help: "Traces and metrics of OpenTelemetry, always masked; texts only if \
               OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `true`",
        content: Content::Telemetry,
    },
];

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
