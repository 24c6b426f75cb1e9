//! The observer that prints events to standard output.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{Compaction, Ended, Turn};
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Envelope, Event, SessionId};
use leftfold_view::clean;
use leftfold_view::text::{TextOutput, TextRenderer};
use leftfold_view::{Change, OpenQuestion, QuestionId, Transcript};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use super::live_line::LiveLine;
use super::verdicts::{self, Verdicts};
use crate::cli::Format;
use leftfold_runtime::session_tree::SessionTree;

/// Reports to the turn runner about printed events.
#[derive(Debug)]
pub(crate) enum Printed {
    Prompted {
        by: String,
    },
    Ended {
        ended: Box<Ended>,
        /// The text, or the JSON that fits the schema.
        answer: String,
    },
    Asked {
        question: Box<OpenQuestion>,
        /// The name of the subagent that asks, if it is one.
        agent: Option<String>,
        /// The rule because of which it is asked.
        why: Option<String>,
    },
    /// Questions of this session from before a crash, or before this event, are open again.
    Resumed(QuestionId),
    /// A wait has ended. If it was a question, nobody needs to answer it any more.
    Closed(QuestionId),
    /// The turn of a child has ended, and all its questions with it.
    ChildEnded(SessionId),
    /// Files were restored; or the reason why not.
    Restored(Result<(), String>),
    /// Standard output is closed.
    Broken,
}

pub(crate) struct Printer;

/// The settings of a printer.
pub(crate) struct Printing {
    pub(crate) format: Format,
    pub(crate) session: SessionId,
    pub(crate) driver: mpsc::UnboundedSender<Printed>,
    /// Whether questions are asked on the terminal that the text goes to.
    pub(crate) asks: bool,
    /// The names under which this client may prompt. A turn of the root that ends before such a prompt was closed for
    /// it: its end is no line of the output. `None`: every end is one.
    pub(crate) prompts_as: Option<[String; 2]>,
    /// Whether the text output is only the turn's structured answer.
    pub(crate) is_structured: bool,
    /// The permission rules of the root's next turn, with their sources.
    pub(crate) rules: (Vec<Rule>, Vec<RuleSource>),
    pub(crate) live: LiveLine,
}

pub(crate) struct Output {
    format: Format,
    transcript: Transcript,
    renderer: TextRenderer,
    driver: mpsc::UnboundedSender<Printed>,
    broken: bool,
    tree: SessionTree,
    /// The open questions, in the order in which they are shown; `None` if nobody is asked on this terminal.
    asking: Option<VecDeque<QuestionId>>,
    /// Text that waits until the question on the screen is closed.
    held: Vec<TextOutput>,
    /// The names of the prompt that has not come yet; `None`: it has come.
    awaited: Option<[String; 2]>,
    /// As in [`Printing`].
    is_structured: bool,
    verdicts: Verdicts,
    live: LiveLine,
    /// Whether the text on standard output ends within a line.
    open_line: bool,
}

/// How long to wait for the end of a child after its parent has recorded it.
const CHILD_END_TIMEOUT: Duration = Duration::from_secs(2);

impl Actor for Printer {
    type Msg = Observation;
    type State = Output;
    type Arguments = Printing;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        printing: Printing,
    ) -> Result<Output, ActorProcessingErr> {
        let Printing { format, session, driver, asks, prompts_as, is_structured, rules, live } =
            printing;
        let (mut transcript, renderer) = (Transcript::live(session), TextRenderer::default());
        transcript.set_rules(rules.0.clone(), rules.1.clone());
        let verdicts = Verdicts::new(session, rules);
        let tree = SessionTree::new(session);
        let (asking, held) = (asks.then(VecDeque::new), Vec::new());
        let awaited = prompts_as;
        Ok(Output {
            format,
            transcript,
            renderer,
            driver,
            broken: false,
            tree,
            asking,
            held,
            awaited,
            is_structured,
            verdicts,
            live,
            open_line: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Observation>,
        observation: Observation,
        output: &mut Output,
    ) -> Result<(), ActorProcessingErr> {
        let Observation { events, done } = observation;
        let held = output.tree.is_holding();
        let ready = match events.is_empty() {
            // True: the reminder below.
            true => output.tree.give_up(),
            false => output.tree.take(&events),
        };
        if !held && output.tree.is_holding() {
            myself.send_after(CHILD_END_TIMEOUT, reminder);
        }
        let mut reports = Vec::new();
        if output.print(&ready, &mut reports).is_err() && !output.broken {
            // Nobody reads any more; the turn runner still waits for the end.
            output.broken = true;
            output.send(Printed::Broken);
        }
        output.say_what_runs();
        reports.into_iter().for_each(|report| output.send(report));
        // The hub may have ended with the node.
        let _ = done.send(());
        Ok(())
    }
}

/// An empty observation: its arrival ends the waiting for held events.
fn reminder() -> Observation {
    let (done, _) = ractor::concurrency::oneshot();
    Observation { events: Arc::new([]), done: done.into() }
}

impl Output {
    /// Prints events and collects the reports. After a failed write it only collects.
    fn print(&mut self, events: &[Recorded], reports: &mut Vec<Printed>) -> io::Result<()> {
        let mut printed = Ok(());
        let mut text = String::new();
        for recorded in events {
            let event = recorded.masked();
            let changes = self.transcript.apply(event);
            if self.format == Format::Json {
                if !self.ends_another_turn(event) {
                    text.push_str(recorded.line());
                    text.push('\n');
                }
            } else if !self.broken && printed.is_ok() {
                let told = self.told(&changes);
                let mut output = self.renderer.render(&self.transcript, event.session, &told);
                for line in self.verdicts.follow(event) {
                    output.notes.push_str(&format!("    {}\n", clean::printable_line(&line)));
                }
                if self.is_structured {
                    output.text.clear();
                }
                if let Some(answer) =
                    event.notes.structured.as_ref().filter(|_| self.tree.is_root(event))
                {
                    output.text.push_str(answer.as_str());
                    output.text.push('\n');
                }
                self.held.push(output);
                let is_closed = self.follow_questions(event, &changes);
                if is_closed || self.asking.as_ref().is_none_or(VecDeque::is_empty) {
                    if self.held.iter().any(|output| !output.text.is_empty()) {
                        // the wait is over
                        self.live.rest();
                    }
                    let _aside = self.live.aside();
                    for output in std::mem::take(&mut self.held) {
                        self.open_line = ends_open(&output).unwrap_or(self.open_line);
                        printed = printed.and_then(|()| show(&output));
                    }
                }
                // the text of the event that asks comes before the question
                self.asking.iter_mut().for_each(|asking| asking.extend(asked(event, &changes)));
            }
            for change in changes {
                self.report(event, change, reports);
            }
        }
        if self.broken { Ok(()) } else { printed.and_then(|()| flush(&mut text)) }
    }

    /// The changes to print. A person who is asked on this terminal reads each question there.
    fn told<'a>(&self, changes: &'a [Change]) -> Cow<'a, [Change]> {
        let is_question = |change: &&Change| matches!(change, Change::Asked(_));
        if self.asking.is_none() || !changes.iter().any(|change| is_question(&change)) {
            return Cow::Borrowed(changes);
        }
        Cow::Owned(changes.iter().filter(|change| !is_question(change)).cloned().collect())
    }

    /// Whether a turn of the root ends that began before the awaited prompt.
    fn ends_another_turn(&mut self, event: &Envelope) -> bool {
        let Some(names) = self.awaited.as_ref().filter(|_| self.tree.is_root(event)) else {
            return false;
        };
        if let Event::Turn(Turn::Prompted { by, .. })
        | Event::Compaction(Compaction::Asked { by } | Compaction::AskedWith { by, .. }) =
            &event.event
            && names.contains(by)
        {
            self.awaited = None;
        }
        matches!(event.event, Event::Turn(Turn::Ended(_)))
    }

    /// Removes questions that are closed. Whether the first one, which is on the screen, is among them.
    fn follow_questions(&mut self, event: &Envelope, changes: &[Change]) -> bool {
        let is_end = changes.iter().any(|change| matches!(change, Change::TurnEnded { .. }));
        let of_root = self.tree.is_root(event);
        let Some(asking) = &mut self.asking else { return false };
        let first = asking.front().copied();
        asking.retain(|(session, of)| {
            let is_over = is_end && (of_root || *session == event.session);
            let is_closed = *session == event.session
                && changes.iter().any(|change| *change == Change::QuestionClosed(*of));
            !(is_over || is_closed)
        });
        first.is_some() && first != asking.front().copied()
    }

    fn report(&self, event: &Envelope, change: Change, reports: &mut Vec<Printed>) {
        let session = event.session;
        let of_root = self.tree.is_root(event);
        let report = if let Change::QuestionClosed(of) = change {
            Printed::Closed((session, of))
        } else if let Change::Asked(of) = change {
            let view = self.transcript.session(session);
            let Some(question) = view.and_then(|view| view.question(of)) else { return };
            let agent = self.transcript.subagent(session).map(|status| status.agent.clone());
            let why = question.question.is_none().then(|| verdicts::why_asked(question));
            Printed::Asked { question: Box::new(question.clone()), agent, why }
        } else if let Change::Resumed { .. } = change {
            Printed::Resumed((session, event.seq))
        } else if let Change::TurnEnded { ended, .. } = change {
            match of_root {
                true => {
                    let form = event.notes.structured.as_ref();
                    let answer = form.map_or(ended.text.as_str(), |answer| answer.as_str());
                    Printed::Ended { answer: answer.to_owned(), ended }
                }
                false => Printed::ChildEnded(session),
            }
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

    /// Shows on a terminal what the session waits for, unless a person is asked or text is streaming.
    fn say_what_runs(&self) {
        let is_asking = self.transcript.open_questions().next().is_some();
        let root = self.transcript.root();
        let Some(root) = root.filter(|_| self.format == Format::Text && !is_asking) else {
            return self.live.rest();
        };
        if self.open_line {
            return self.live.rest();
        }
        // files are being restored
        if root.turn.is_none() {
            return;
        }
        let mut running = root.calls().filter(|call| call.is_running());
        if let Some(call) = running.next() {
            let at_work = self.transcript.at_work().next();
            let detail = match at_work {
                Some(status) => format!("{}: {}", status.agent, status.last),
                None => call.tail.trim_end().lines().next_back().unwrap_or_default().to_owned(),
            };
            self.live.say(&call.heading(), &detail);
        } else if root.retry.is_some() {
            self.live.say("waiting for the next attempt", "");
        } else if root.compaction.is_some() {
            self.live.say("writing a summary", "");
        } else if root.request().is_some() {
            let writing = root.writing().last().map(leftfold_view::words::written);
            self.live.say("waiting for the model", &writing.unwrap_or_default());
        } else {
            self.live.rest();
        }
    }

    fn send(&self, printed: Printed) {
        // A turn runner that has stopped listening is about to exit.
        let _ = self.driver.send(printed);
    }
}

/// The questions that an event asks.
fn asked(event: &Envelope, changes: &[Change]) -> impl Iterator<Item = QuestionId> {
    let session = event.session;
    changes.iter().filter_map(move |change| {
        if let Change::Asked(of) = change { Some((session, *of)) } else { None }
    })
}

/// Whether the output leaves a line open; `None` if it is empty.
fn ends_open(output: &TextOutput) -> Option<bool> {
    if !output.notes.is_empty() {
        return Some(false);
    }
    (!output.text.is_empty()).then(|| !output.text.ends_with('\n'))
}

/// Prints text to standard output and notes to standard error.
pub(crate) fn show(output: &TextOutput) -> io::Result<()> {
    // Flushed before the notes, so that a terminal shows both in order.
    write(&clean::guarded(&output.text))?;
    io::stderr().write_all(clean::printable(&output.notes).as_bytes())
}

/// Writes events as JSON lines to standard output and empties `lines`.
pub(crate) fn flush(lines: &mut String) -> io::Result<()> {
    write(&super::on_terminal(lines))?;
    lines.clear();
    Ok(())
}

/// Writes lines for people to standard output and empties `lines`.
pub(crate) fn flush_text(lines: &mut String) -> io::Result<()> {
    write(&clean::printable(lines))?;
    lines.clear();
    Ok(())
}

fn write(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
