//! The first observer: standard output.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{
    Compaction, Ended, Event, Files, Permission, Resolution, Session, Turn,
};
use leftfold_events::{Envelope, SessionId};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use crate::cli::Format;
use leftfold_runtime::family::Family;
use leftfold_view::SessionTree;
use leftfold_view::text::{Live, Shown};
use leftfold_view::{OpenQuestions, Question, QuestionId};

/// What the driver of a run must know of what was printed.
#[derive(Debug)]
pub(crate) enum Printed {
    Prompted {
        by: String,
    },
    Ended(Box<Ended>),
    Asked {
        asked: QuestionId,
        /// Of the child that asks, if it is one.
        agent: Option<String>,
        permission: String,
        patterns: Vec<String>,
        /// If a question of the `question` tool is asked: that.
        inquiry: Option<Box<Question>>,
        /// If the call would change files: that.
        change: Option<Arc<Resolution>>,
    },
    /// Questions of this session from before a crash, or before this event, are open again.
    Resumed(QuestionId),
    /// A wait is over: if it was a question's, nobody need answer it any more.
    Closed(QuestionId),
    /// The turn of a child is over, and with it all of its questions.
    ChildEnded(SessionId),
    /// Files were put back; or why not.
    Restored(Option<String>),
    /// Standard output is gone.
    Broken,
}

pub(crate) struct Printer;

pub(crate) struct Output {
    format: Format,
    live: Live,
    inquiries: HashMap<SessionId, OpenQuestions>,
    kin: SessionTree,
    driver: mpsc::UnboundedSender<Printed>,
    broken: bool,
    family: Family,
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
        let (live, inquiries) = (Live::default(), HashMap::new());
        let (kin, family) = (SessionTree::new(session), Family::new(session));
        Ok(Output { format, live, inquiries, kin, driver, broken: false, family })
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
        if !output.broken && output.print(&ready).is_err() {
            // nobody reads any more; the driver still waits for the end
            output.broken = true;
            output.tell(Printed::Broken);
        }
        ready.iter().for_each(|event| output.report(event.masked()));
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
    fn print(&mut self, events: &[Recorded]) -> io::Result<()> {
        let mut text = String::new();
        for event in events {
            match self.format {
                Format::Json => {
                    text.push_str(event.line());
                    text.push('\n');
                }
                Format::Text => show(&mut self.live, &mut self.kin, event.masked())?,
            }
        }
        flush(&mut text)
    }

    fn report(&mut self, event: &Envelope) {
        self.inquiries.entry(event.session).or_default().follow(event);
        let closed = self.inquiries.get(&event.session).and_then(|known| known.closed_by(event));
        if let Some(of) = closed {
            self.tell(Printed::Closed((event.session, of)));
        }
        if self.format == Format::Json {
            // the other one does so as it shows them
            self.kin.follow(event);
        }
        if self.family.is_root(event) {
            self.report_turn(event);
        }
        let session = event.session;
        if let Event::Turn(Turn::Ended(_)) = &event.event {
            if !self.family.is_root(event) {
                self.inquiries.remove(&session);
                self.tell(Printed::ChildEnded(session));
            }
        } else if let Event::Permission(Permission::Asked { permission, patterns, .. }) =
            &event.event
        {
            let (permission, patterns) = (permission.clone(), patterns.clone());
            let inquiries = self.inquiries.get(&session);
            let inquiry = inquiries.and_then(|known| known.asked(event.seq));
            let inquiry = inquiry.cloned().map(Box::new);
            let change = inquiries.and_then(|known| known.change(event.seq));
            let agent = self.kin.member(session).map(|member| member.agent.clone());
            let asked = (session, event.seq);
            self.tell(Printed::Asked { asked, agent, permission, patterns, inquiry, change });
        } else if let Event::Session(Session::Resumed { .. }) = &event.event {
            self.tell(Printed::Resumed((session, event.seq)));
        } else if let Event::Permission(Permission::Answered { .. })
        | Event::Session(Session::Elapsed {}) = &event.event
        {
            self.tell(Printed::Closed((session, event.of.unwrap_or_default())));
        }
    }

    /// What the driver must know of the root's turn.
    fn report_turn(&self, event: &Envelope) {
        match &event.event {
            Event::Turn(Turn::Ended(ended)) => self.tell(Printed::Ended(ended.clone())),
            Event::Turn(Turn::Prompted { by, .. }) => {
                self.tell(Printed::Prompted { by: by.clone() });
            }
            Event::Compaction(Compaction::Asked { by }) => {
                self.tell(Printed::Prompted { by: by.clone() });
            }
            Event::Files(Files::Restored { .. }) => self.tell(Printed::Restored(None)),
            Event::Files(Files::SnapshotFailed { message } | Files::RestoreFailed { message }) => {
                self.tell(Printed::Restored(Some(message.clone())));
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Plugin(_) => {}
        }
    }

    fn tell(&self, printed: Printed) {
        // a driver that has stopped listening is on its way out
        let _ = self.driver.send(printed);
    }
}

/// Prints an event for people: text to standard output, notes to standard error. What a child says is
/// for its parent; of it there are notes of what it does.
pub(crate) fn show(live: &mut Live, kin: &mut SessionTree, event: &Envelope) -> io::Result<()> {
    let line = kin.follow(event);
    let mut shown = if kin.is_root(event) { live.show(event) } else { Shown::default() };
    if let Some(line) = line {
        live.note(&mut shown, &line);
    }
    if let Event::Turn(Turn::Ended(ended)) = &event.event
        && kin.is_root(event)
        && kin.cost > 0.0
    {
        let all = ended.cost + kin.cost;
        live.note(&mut shown, &format!("${all:.4}, of which subagents ${:.4}", kin.cost));
    }
    // in the order in which they happened, for a terminal that shows both
    flush(&mut shown.text)?;
    if shown.notes.is_empty() { Ok(()) } else { io::stderr().write_all(shown.notes.as_bytes()) }
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
