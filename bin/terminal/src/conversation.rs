//! The conversation: what is typed becomes prompts and answers, what is observed is shown.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

use leftfold_actors::{Observation, Recorded, WatchScope};
use leftfold_events::event::{Event, Session, Turn};
use leftfold_events::{Envelope, Seq, Time};
use ractor::ActorRef;

use super::BY;
use super::input::{Input, Read};
use super::input_events::{InputEvent, InputEvents};
use super::keys::Mode;
use super::render::Renderer;
use super::screen::{self, Screen};
use leftfold_runtime::client::Client;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::socket::SessionRegistry;
use leftfold_runtime::turn_config::Overrides;
use leftfold_view::QuestionId;

/// What the terminal is used for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The last turn is shown, up to this event.
    History(Seq),
    Prompt,
    /// A turn is under way; one of this terminal's once its prompt is `running`.
    Turn {
        running: bool,
    },
    /// A key is to answer the question of this intent.
    Question(QuestionId),
    /// The reason why that is not allowed, or the answer, is being typed.
    Reason(QuestionId),
    /// A key is to say whether the turn that was cut off goes on.
    Resume,
}

/// Why a conversation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// The user has said so.
    Done,
    Signal(&'static str),
    /// The terminal is gone.
    Gone,
}

pub(super) struct Conversation {
    pub(super) setup: SessionSetup,
    /// With what is chosen for its prompts.
    pub(super) project: Project,
    /// That is to be written into the log before the next prompt.
    pub(super) unlogged: bool,
    /// What goes for every prompt.
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
    /// A turn was cut off, and the next prompt closes it.
    pub(super) unfinished: bool,
    /// Ctrl-C has been pressed to no effect.
    pub(super) warned: bool,
    /// The questions that were answered here.
    pub(super) answered: HashSet<QuestionId>,
    /// The options, by their places, that are chosen for the question on the screen.
    pub(super) chosen: Vec<usize>,
    /// The questions that were shown above the line that is being typed.
    pub(super) announced: HashSet<QuestionId>,
    /// The last event that was observed.
    seen: Seq,
    /// Lines that wait until nobody types any more.
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
            chosen: Vec::new(),
            announced: HashSet::new(),
            seen: 0,
            held: String::new(),
        }
    }

    /// Goes on with a session that there is already: its last turn, which begins at `from`, is shown.
    pub(super) async fn go_on(&mut self, from: Seq) -> anyhow::Result<()> {
        let head = self.open(Some(from)).await?;
        self.stage = Stage::History(head);
        Ok(())
    }

    /// Listens and acts until somebody leaves.
    pub(super) async fn run(&mut self) -> anyhow::Result<Leave> {
        if self.stage == Stage::Prompt {
            self.take_prompt()?;
        }
        loop {
            let ticking = matches!(self.stage, Stage::Turn { .. });
            let heard = self.input_events.hear(ticking).await;
            let left = match heard {
                InputEvent::Observed(observation) => self.observe(observation)?,
                InputEvent::Typed(typed) => self.typed(typed).await?,
                InputEvent::Keys(keys) => self.keys(&keys).await?,
                InputEvent::Signal("SIGINT") => self.interrupt().await?,
                InputEvent::Signal(name) => Some(Leave::Signal(name)),
                InputEvent::Continued => self.continued()?,
                InputEvent::Tick => self.paint("")?,
                InputEvent::Closed(reason) => anyhow::bail!("the session is closed: {reason}"),
            };
            if let Some(leave) = left {
                return Ok(leave);
            }
        }
    }

    /// Has the session open, here or where it is open already, and watches it: from `from`, from
    /// where it was watched to, or from what comes next. Its head.
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
        self.input_events.attend(opened);
        Ok(head)
    }

    fn observe(&mut self, observation: Observation) -> anyhow::Result<Option<Leave>> {
        let Observation { events, done } = observation;
        self.renderer.resize(screen::columns());
        let mut text = String::new();
        let mut last = None;
        // a session that was opened again is watched once more
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
        let gone = self.paint(&text)?;
        // the hub may have gone with the node
        let _ = done.send(());
        match last {
            Some(Stage::Resume) => self.ask_to_resume()?,
            Some(Stage::Prompt) => self.take_prompt()?,
            Some(Stage::Turn { .. }) => self.join_turn()?,
            _ => self.see_to_questions()?,
        }
        Ok(gone)
    }

    /// What an event changes for this terminal; the stage that it is to go to.
    fn follow(&mut self, event: &Envelope) -> Option<Stage> {
        let resumed = matches!(event.event, Event::Session(Session::Resumed { .. }));
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
                // the next prompts are for the agent that has taken over
                if let Err(error) = self.switched(agent) {
                    tracing::warn!("the agent {agent} can not be prompted: {error:#}");
                }
                None
            }
            // by this terminal or another client
            Event::Session(Session::Configured { choices, .. }) => {
                if *choices != self.project.choices
                    && let Err(error) = self.take_choices(choices.clone())
                {
                    tracing::warn!("the choice can not be taken: {error:#}");
                }
                None
            }
            // somebody else goes on with what was cut off
            Event::Session(_) if resumed && self.stage == Stage::Resume => {
                Some(Stage::Turn { running: true })
            }
            Event::Turn(Turn::Ended(_)) => match self.stage {
                Stage::Turn { running: true } | Stage::Question(_) => Some(Stage::Prompt),
                // its line comes first
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

    /// Follows the turn that is under way, whoever began it.
    pub(super) fn join_turn(&mut self) -> anyhow::Result<()> {
        self.input_events.ignore_keys();
        self.renderer.asking = None;
        self.mode.watch();
        self.stage = Stage::Turn { running: true };
        if self.renderer.turn().is_none() {
            // it has ended in the same breath
            return self.take_prompt();
        }
        self.paint("")?;
        self.see_to_questions()
    }

    pub(super) fn client(&self) -> anyhow::Result<&Client> {
        self.client.as_ref().ok_or_else(|| anyhow::anyhow!("the session is not open"))
    }

    /// Ctrl-C while no line is read.
    async fn interrupt(&mut self) -> anyhow::Result<Option<Leave>> {
        match self.stage {
            Stage::Turn { .. } | Stage::Question(_) if self.warned => {
                return Ok(Some(Leave::Signal("SIGINT")));
            }
            Stage::Turn { .. } | Stage::Question(_) => {
                self.warned = true;
                self.client()?.interrupt("SIGINT").await?;
            }
            Stage::Resume | Stage::History(_) => return Ok(Some(Leave::Done)),
            // a terminal without line editing leaves the signal to the program
            Stage::Prompt | Stage::Reason(_) => return self.interrupted_prompt(true),
        }
        Ok(None)
    }

    /// The terminal as it was found, at the beginning of a line.
    pub(super) fn let_go_of_terminal(&mut self) {
        self.input_events.ignore_keys();
        if self.types() {
            self.input.abandon();
        }
        // a terminal that is gone needs nothing any more
        let column = self.renderer.markdown.column();
        let end = if column > 0 || self.types() { "\n" } else { "" };
        let _ = self.screen.paint(end, 0, Vec::new());
        self.mode.restore();
    }

    fn continued(&mut self) -> anyhow::Result<Option<Leave>> {
        if !self.types() {
            self.mode.watch();
        }
        self.paint("")
    }

    pub(super) fn take_prompt(&mut self) -> anyhow::Result<()> {
        self.input_events.ignore_keys();
        self.renderer.asking = None;
        self.stage = Stage::Turn { running: false };
        self.paint("")?;
        self.mode.restore();
        (self.stage, self.warned) = (Stage::Prompt, false);
        self.input.read(Read::Prompt);
        Ok(())
    }

    /// Whether a line is being edited: the screen is not ours then.
    pub(super) fn types(&self) -> bool {
        matches!(self.stage, Stage::Prompt | Stage::Reason(_))
    }

    /// Shows `text` and, below it, how things stand.
    pub(super) fn paint(&mut self, text: &str) -> anyhow::Result<Option<Leave>> {
        self.held.push_str(text);
        if self.types() {
            self.input.print_above(&mut self.held, self.stage == Stage::Prompt);
            return Ok(None);
        }
        let now = Time::from(SystemTime::now());
        let text = std::mem::take(&mut self.held);
        let column = self.renderer.markdown.column();
        match self.screen.paint(&text, column, self.renderer.live(now)) {
            Ok(()) => Ok(None),
            Err(error) => {
                tracing::debug!("the terminal can not be written: {error}");
                Ok(Some(Leave::Gone))
            }
        }
    }
}
