//! The first observer: standard output.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::Ended;
use leftfold_events::{Envelope, SessionId};
use leftfold_view::text::{TextOutput, TextRenderer};
use leftfold_view::{Change, OpenQuestion, QuestionId, Transcript};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use crate::cli::Format;
use leftfold_runtime::session_tree::SessionTree;

/// What the driver of a run must know of what was printed.
#[derive(Debug)]
pub(crate) enum Printed {
    Prompted {
        by: String,
    },
    Ended(Box<Ended>),
    Asked {
        question: Box<OpenQuestion>,
        /// Of the subagent that asks, if it is one.
        agent: Option<String>,
    },
    /// Questions of this session from before a crash, or before this event, are open again.
    Resumed(QuestionId),
    /// A wait is over: if it was a question's, nobody need answer it any more.
    Closed(QuestionId),
    /// The turn of a child is over, and with it all of its questions.
    ChildEnded(SessionId),
    /// Files were put back; or why not.
    Restored(Result<(), String>),
    /// Standard output is gone.
    Broken,
}

pub(crate) struct Printer;

pub(crate) struct Output {
    format: Format,
    transcript: Transcript,
    renderer: TextRenderer,
    driver: mpsc::UnboundedSender<Printed>,
    broken: bool,
    family: SessionTree,
}

/// How long the end of a child is waited for that its parent knows of.
const PATIENCE: Duration = Duration::from_secs(2);

impl Actor for Printer {
    type Msg = Observation;
    type State = Output;
    type Arguments = (Format, SessionId, mpsc::UnboundedSender<Printed>);

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        (format, session, driver): Self::Arguments,
    ) -> Result<Output, ActorProcessingErr> {
        let (transcript, renderer) = (Transcript::live(session), TextRenderer::default());
        let family = SessionTree::new(session);
        Ok(Output { format, transcript, renderer, driver, broken: false, family })
    }

    async fn handle(
        &self,
        myself: ActorRef<Observation>,
        observation: Observation,
        output: &mut Output,
    ) -> Result<(), ActorProcessingErr> {
        let Observation { events, done } = observation;
        let held = output.family.is_holding();
        let ready = match events.is_empty() {
            // the reminder below
            true => output.family.give_up(),
            false => output.family.take(&events),
        };
        if !held && output.family.is_holding() {
            myself.send_after(PATIENCE, reminder);
        }
        let mut reports = Vec::new();
        if output.print(&ready, &mut reports).is_err() && !output.broken {
            // nobody reads any more; the driver still waits for the end
            output.broken = true;
            output.tell(Printed::Broken);
        }
        reports.into_iter().for_each(|report| output.tell(report));
        // the hub may have gone with the node
        let _ = done.send(());
        Ok(())
    }
}

/// An observation of nothing: what is held is not waited for any longer.
fn reminder() -> Observation {
    let (done, _) = ractor::concurrency::oneshot();
    Observation { events: Arc::new([]), done: done.into() }
}

impl Output {
    /// Prints events, and gathers what the driver must know of them. After a failure it only gathers.
    fn print(&mut self, events: &[Recorded], reports: &mut Vec<Printed>) -> io::Result<()> {
        let mut printed = Ok(());
        let mut text = String::new();
        for recorded in events {
            let event = recorded.masked();
            let changes = self.transcript.apply(event);
            if self.format == Format::Json {
                text.push_str(recorded.line());
                text.push('\n');
            } else if !self.broken && printed.is_ok() {
                let output = self.renderer.render(&self.transcript, event.session, &changes);
                printed = show(&output);
            }
            for change in changes {
                self.report(event, change, reports);
            }
        }
        if self.broken { Ok(()) } else { printed.and_then(|()| flush(&mut text)) }
    }

    fn report(&self, event: &Envelope, change: Change, reports: &mut Vec<Printed>) {
        let session = event.session;
        let of_root = self.family.is_root(event);
        let report = if let Change::QuestionClosed(of) = change {
            Printed::Closed((session, of))
        } else if let Change::Asked(of) = change {
            let view = self.transcript.session(session);
            let Some(question) = view.and_then(|view| view.question(of)) else { return };
            let agent = self.transcript.subagent(session).map(|status| status.agent.clone());
            Printed::Asked { question: Box::new(question.clone()), agent }
        } else if let Change::Resumed { .. } = change {
            Printed::Resumed((session, event.seq))
        } else if let Change::TurnEnded { ended, .. } = change {
            if of_root { Printed::Ended(ended) } else { Printed::ChildEnded(session) }
        } else if !of_root {
            return;
        } else if let Change::Prompted { by, .. } | Change::CompactionAsked { by } = change {
            Printed::Prompted { by }
        } else if let Change::Restored(restored) = change {
            Printed::Restored(restored)
        } else {
            return;
        };
        reports.push(report);
    }

    fn tell(&self, printed: Printed) {
        // a driver that has stopped listening is on its way out
        let _ = self.driver.send(printed);
    }
}

/// Prints text to standard output and notes to standard error.
pub(crate) fn show(output: &TextOutput) -> io::Result<()> {
    // in the order in which they happened, for a terminal that shows both
    flush(&mut output.text.clone())?;
    io::stderr().write_all(output.notes.as_bytes())
}

/// Writes `text`, which is empty afterwards, to standard output.
pub(crate) fn flush(text: &mut String) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    text.clear();
    stdout.flush()
}
