//! The conversation: turns typed lines into prompts and answers, and shows observed events.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use leftfold_actors::{Observation, Recorded, WatchScope};
use leftfold_events::event::{Event, PromptPart, Session, Turn};
use leftfold_events::{Envelope, Seq, Time};
use ractor::ActorRef;

use super::BY;
use super::choosing::Choosing;
use super::input::{Input, LineKind, Typed};
use super::input_events::{InputEvent, InputEvents};
use super::keys::Mode;
use super::render::Renderer;
use super::screen::{self, Screen};
use leftfold_runtime::client::Client;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::socket::SessionRegistry;
use leftfold_runtime::turn_config::Overrides;
use leftfold_view::{AnswerGate, QuestionId};

/// Identifies a question for the gate. `None` is the question whether to resume the turn.
pub(super) type GateId = Option<QuestionId>;

/// The current use of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Showing the last turn, up to this event.
    History(Seq),
    Prompt,
    /// A turn is running. `running` is set once this terminal's own prompt is in it.
    Turn {
        running: bool,
    },
    /// A key answers the question of this intent.
    Question(QuestionId),
    /// The user types the reason of a rejection, or an answer.
    Reason(QuestionId),
    /// A key says whether to resume the interrupted turn.
    Resume,
}

/// Why a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The user has left it.
    Done,
    Signal(&'static str),
    /// The terminal is gone.
    Gone,
}

pub(super) struct Conversation {
    pub(super) setup: SessionSetup,
    /// Includes the choices for the next prompts.
    pub(super) project: Project,
    /// Whether the choices must be logged before the next prompt.
    pub(super) unlogged: bool,
    /// The options of every prompt.
    pub(super) overrides: Overrides,
    pub(super) sessions: Arc<SessionRegistry>,
    pub(super) sink: ActorRef<Observation>,
    pub(super) client: Option<Client>,
    pub(super) input_events: InputEvents,
    pub(super) input: Input,
    pub(super) renderer: Renderer,
    pub(super) screen: Screen,
    pub(super) mode: Mode,
    pub(super) stage: Stage,
    /// A turn was interrupted; the next prompt closes it.
    pub(super) unfinished: bool,
    /// The last Ctrl-C met an empty line.
    pub(super) warned: bool,
    /// The questions that were answered here.
    pub(super) answered: HashSet<QuestionId>,
    /// The options chosen for the current question.
    pub(super) choosing: Choosing,
    /// Decides which keys answer; has the text that was typed and is no answer.
    pub(super) gate: AnswerGate<GateId, Instant>,
    /// The questions that were shown above the line that is being typed.
    pub(super) announced: HashSet<QuestionId>,
    /// Sent with the next prompt.
    pub(super) files: Vec<PromptPart>,
    /// The last observed event.
    seen: Seq,
    /// Lines to print once no line is being typed.
    held: String,
}

impl Conversation {
    pub(super) fn new(
        setup: SessionSetup,
        (project, overrides): (Project, Overrides),
        sessions: Arc<SessionRegistry>,
        (input_events, sink): (InputEvents, ActorRef<Observation>),
        input: Input,
        renderer: Renderer,
        screen: Screen,
    ) -> Self {
        Self {
            setup,
            project,
            unlogged: false,
            overrides,
            sessions,
            sink,
            client: None,
            input_events,
            input,
            renderer,
            screen,
            mode: Mode::found(),
            stage: Stage::Prompt,
            unfinished: false,
            warned: false,
            answered: HashSet::new(),
            choosing: Choosing::default(),
            gate: AnswerGate::default(),
            announced: HashSet::new(),
            files: Vec::new(),
            seen: 0,
            held: String::new(),
        }
    }

    /// Continues an existing session, and shows its last turn, which begins at `from`.
    pub(super) async fn continue_session(&mut self, from: Seq) -> anyhow::Result<()> {
        let head = self.open(Some(from)).await?;
        self.client()?.takes(&self.overrides.options())?;
        self.stage = Stage::History(head);
        Ok(())
    }

    /// Sends the first prompt, if there is one, and handles input events until the user leaves.
    pub(super) async fn run(&mut self, first: Option<String>) -> anyhow::Result<ExitReason> {
        if let Some(prompt) = first {
            if let Some(leave) = self.typed(Typed::Line(prompt)).await? {
                return Ok(leave);
            }
        } else if self.stage == Stage::Prompt {
            self.take_prompt()?;
        }
        loop {
            let ticking = matches!(self.stage, Stage::Turn { .. });
            let alarm = self.gate.counts_from(Instant::now());
            let event = self.input_events.next(ticking, alarm).await;
            let left = match event {
                InputEvent::Observed(observation) => self.observe(observation)?,
                InputEvent::Typed(typed) => self.typed(typed).await?,
                InputEvent::Keys(pressed) => self.keys(&pressed).await?,
                InputEvent::Signal("SIGINT") => self.interrupt().await?,
                InputEvent::Signal(name) => Some(ExitReason::Signal(name)),
                InputEvent::Continued => self.continued()?,
                InputEvent::Tick if self.is_asking() => self.show_keys()?,
                InputEvent::Tick => self.paint("")?,
                InputEvent::Closed(reason) => anyhow::bail!("the session is closed: {reason}"),
            };
            if let Some(leave) = left {
                return Ok(leave);
            }
        }
    }

    /// Opens the session, here or through the node that has it, and watches it: from `from`, or
    /// from the last watched event, or from the next one. Answers the session's head.
    pub(super) async fn open(&mut self, from: Option<Seq>) -> anyhow::Result<Seq> {
        let session = self.setup.place.session;
        let (client, opened) = match &self.client {
            None => self.sessions.open(session).await?,
            mine => match self.sessions.client_for(session, mine.as_ref()).await? {
                (client, Some(opened)) => (client, opened),
                (_, None) => return Ok(self.seen),
            },
        };
        let head = opened.head;
        self.unfinished = opened.unfinished;
        self.renderer.me = client.name(BY);
        let next = if self.client.is_some() { self.seen } else { head } + 1;
        client.watch(from.unwrap_or(next), self.sink.clone(), WatchScope::Live).await?;
        self.seen = self.seen.max(from.unwrap_or(next) - 1);
        self.client = Some(client);
        self.input_events.watch_close(opened);
        Ok(head)
    }

    fn observe(&mut self, observation: Observation) -> anyhow::Result<Option<ExitReason>> {
        let Observation { events, done } = observation;
        self.renderer.resize(screen::columns());
        let mut text = String::new();
        let mut last = None;
        // A session that was opened again is watched again, so events may repeat.
        let seen = self.seen;
        for event in events.iter().map(Recorded::masked) {
            let own = self.renderer.transcript.is_root(event);
            if own && event.seq <= seen {
                continue;
            }
            text += &self.renderer.show(event);
            if own {
                last = self.follow(event).or(last);
                self.seen = self.seen.max(event.seq);
            }
        }
        self.held.push_str(&text);
        self.close_question()?;
        let gone = self.paint("")?;
        // The hub may have ended with the node.
        let _ = done.send(());
        match last {
            Some(Stage::Resume) => self.ask_to_resume()?,
            Some(Stage::Prompt) => self.take_prompt()?,
            Some(Stage::Turn { .. }) => self.join_turn()?,
            _ => self.update_question()?,
        }
        Ok(gone)
    }

    /// Shows an event; answers the stage that it leads to.
    fn follow(&mut self, event: &Envelope) -> Option<Stage> {
        let resumed = matches!(
            event.event,
            Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. })
        );
        if let Stage::History(head) = self.stage {
            let under_way = self.renderer.turn().is_some();
            return (event.seq >= head).then_some(match (self.unfinished, under_way) {
                (true, _) => Stage::Resume,
                (false, true) => Stage::Turn { running: true },
                (false, false) => Stage::Prompt,
            });
        }
        self.unfinished &= !resumed;
        match &event.event {
            Event::Turn(Turn::Prompted { by, .. }) if *by == self.renderer.me => {
                if self.stage == (Stage::Turn { running: false }) {
                    self.stage = Stage::Turn { running: true };
                }
                None
            }
            Event::Turn(Turn::Switched { agent, .. }) => {
                // The next prompts go to the agent that has taken over.
                if let Err(error) = self.switched(agent) {
                    tracing::warn!("the agent {agent} cannot be prompted: {error:#}");
                }
                None
            }
            // By this terminal or another client.
            Event::Session(Session::Configured { choices, .. }) => {
                if *choices != self.project.choices
                    && let Err(error) = self.take_choices(choices.clone())
                {
                    tracing::warn!("the choice cannot be taken: {error:#}");
                }
                None
            }
            // Another client has resumed the turn.
            Event::Session(_) if resumed && self.stage == Stage::Resume => {
                Some(Stage::Turn { running: true })
            }
            Event::Turn(Turn::Ended(_)) => match self.stage {
                Stage::Turn { running: true } | Stage::Question(_) => Some(Stage::Prompt),
                // The line comes first.
                Stage::Reason(_) => None,
                Stage::Turn { .. } | Stage::Prompt | Stage::Resume | Stage::History(_) => None,
            },
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Hook(_) => None,
        }
    }

    /// Follows the running turn, whichever client started it.
    pub(super) fn join_turn(&mut self) -> anyhow::Result<()> {
        self.stop_asking();
        self.mode.watch();
        if self.renderer.turn().is_none() {
            // It has ended in the meantime.
            return self.take_prompt();
        }
        self.paint("")?;
        self.update_question()
    }

    pub(super) fn client(&self) -> anyhow::Result<&Client> {
        self.client.as_ref().ok_or_else(|| anyhow::anyhow!("the session is not open"))
    }

    /// Handles Ctrl-C while no line is read.
    async fn interrupt(&mut self) -> anyhow::Result<Option<ExitReason>> {
        match self.stage {
            Stage::Turn { .. } | Stage::Question(_) if self.warned => {
                return Ok(Some(ExitReason::Signal("SIGINT")));
            }
            Stage::Turn { .. } | Stage::Question(_) => {
                self.warned = true;
                self.client()?.interrupt("SIGINT").await?;
            }
            Stage::Resume | Stage::History(_) => return Ok(Some(ExitReason::Done)),
            // Without line editing, the terminal sends the signal to the program.
            Stage::Prompt | Stage::Reason(_) => return self.interrupted_prompt(true),
        }
        Ok(None)
    }

    /// Restores the terminal's mode, with the cursor at the beginning of a line.
    pub(super) fn release_terminal(&mut self) {
        self.stop_asking_keys();
        if self.types() {
            self.input.abandon();
        }
        // If the terminal is gone, there is nothing to restore.
        let column = self.renderer.markdown.column();
        let mut text = if self.is_asking() { self.take_held() } else { String::new() };
        if column > 0 || self.types() {
            text.push('\n');
        }
        let _ = self.screen.paint(&text, 0, Vec::new());
        self.mode.restore();
    }

    fn continued(&mut self) -> anyhow::Result<Option<ExitReason>> {
        if !self.types() {
            self.mode.watch();
        }
        self.paint("")
    }

    pub(super) fn take_prompt(&mut self) -> anyhow::Result<()> {
        self.stop_asking_keys();
        self.stage = Stage::Turn { running: false };
        self.paint("")?;
        self.mode.restore();
        (self.stage, self.warned) = (Stage::Prompt, false);
        self.input.read(LineKind::Prompt(self.gate.take_text()));
        Ok(())
    }

    /// Whether a question with keys is on the screen.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Question(_) | Stage::Resume)
    }

    /// Whether a line is being edited; the line editor then owns the screen.
    pub(super) fn types(&self) -> bool {
        matches!(self.stage, Stage::Prompt | Stage::Reason(_))
    }

    /// Prints `text` and, below it, the status. Between a question and its keys nothing is printed:
    /// `text` then waits until the question is closed.
    pub(super) fn paint(&mut self, text: &str) -> anyhow::Result<Option<ExitReason>> {
        self.held.push_str(text);
        if self.types() {
            self.input.print_above(&mut self.held, self.stage == Stage::Prompt);
            return Ok(None);
        }
        if self.is_asking() {
            return self.show_keys();
        }
        let now = Time::from(SystemTime::now());
        let text = std::mem::take(&mut self.held);
        let column = self.renderer.markdown.column();
        Ok(is_gone(self.screen.paint(&text, column, self.renderer.live(now))))
    }

    /// The text that waits to be printed.
    pub(super) fn take_held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// A terminal that cannot be written to is gone.
pub(super) fn is_gone(painted: io::Result<()>) -> Option<ExitReason> {
    let error = painted.err()?;
    tracing::debug!("cannot write to the terminal: {error}");
    Some(ExitReason::Gone)
}
