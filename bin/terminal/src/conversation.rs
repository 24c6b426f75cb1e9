//! The conversation: performs what the keys ask for, feeds observed events to the [`App`], and draws it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leftfold_actors::{Answered, Observation, QuestionReply, Recorded};
use leftfold_config::Notify;
use leftfold_events::event::{Event, PromptKind, Session, SessionChoices, Turn};
use leftfold_events::{Envelope, Time};
use leftfold_mcp::ServerStatus;
use leftfold_runtime::attach;
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::redact_output;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::texts;
use leftfold_runtime::trust;
use leftfold_runtime::turn_config::Overrides;
use leftfold_store::Reader;
use leftfold_view::clean::clean_line;
use leftfold_view::{QuestionId, SessionView, words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustix::process::{Signal, getpid, kill_process};

use super::app::{Action, App, Leaving};
use super::attachments::Attachments;
use super::calls;
use super::choices::{self, Choices, PromptsFor};
use super::entered::Entered;
use super::events::{Background, InputEvent, InputEvents};
use super::file_search::FileSearch;
use super::jobs::{self, Done, Job};
use super::keys::Keys;
use super::link::NewClient;
use super::plain_screen::PlainScreen;
use super::restorer;
use super::surface::Surface;
use super::terminal_mode::{TerminalMode, size};
use super::theme::{self, Theme, ThemeName};
use super::{BY, last_turn};

/// The shortest time from one frame to the next.
const FRAME_INTERVAL: Duration = Duration::from_millis(16);
/// How often the screen is drawn while something runs.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// After a change of the terminal's size, others follow within this time: somebody drags its edge.
const RESIZE_SETTLE_DELAY: Duration = Duration::from_millis(600);

/// How long the choices that were read are used.
const CHOICES_LIFETIME: Duration = Duration::from_secs(5);

/// Why a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The user has left it.
    Done,
    Signal(&'static str),
    /// The terminal is gone.
    Gone,
}

#[derive(Debug)]
pub(super) enum Screen {
    Inline(Surface),
    Plain(PlainScreen),
}

impl Screen {
    /// Prints a line, with nothing below it.
    pub(super) fn say(&mut self, line: Line<'static>) -> io::Result<()> {
        match self {
            Self::Inline(surface) => surface.draw(&[line], &Buffer::empty(Rect::ZERO), None),
            Self::Plain(screen) => screen.lines(&[line]),
        }
    }
}

pub(super) struct Conversation {
    pub(super) app: App,
    pub(super) job: Job,
    pub(super) events: InputEvents,
    pub(super) screen: Screen,
    pub(super) mode: TerminalMode,
    pub(super) notify: Notify,
    /// The command line that the user has entered with `!`, until its call was asked about.
    shell: Option<String>,
    /// Finds the files that a prompt can mention, once one is being written.
    files: Option<FileSearch>,
    attachments: Attachments,
    /// When the choices were read.
    choices_read: Option<Instant>,
    pub(super) theme: ThemeName,
    /// The terminal's background, as far as it is known.
    pub(super) background: Option<theme::Background>,
    /// The agent that had the prompts before the mode `plan`.
    pub(super) planned_for: Option<String>,
    /// It has suspended itself and has taken the terminal again.
    is_back: bool,
    /// Whether the screen has to be drawn, and from when on it may be.
    is_stale: bool,
    next_frame: Instant,
}

impl Conversation {
    pub(super) fn new(
        app: App,
        job: Job,
        events: InputEvents,
        screen: Screen,
        mode: TerminalMode,
        notify: Notify,
    ) -> Self {
        let next_frame = Instant::now();
        Self {
            app,
            job,
            events,
            screen,
            mode,
            notify,
            shell: None,
            files: None,
            attachments: Attachments::default(),
            choices_read: None,
            theme: ThemeName::Auto,
            background: theme::Background::of_environment(|name| std::env::var(name).ok()),
            planned_for: None,
            is_back: false,
            is_stale: true,
            next_frame,
        }
    }

    /// Continues a session with these events, and shows its last turn.
    pub(super) fn continue_session(&mut self, past: &[Envelope]) {
        let Some((from, head)) = last_turn(past).zip(past.last().map(|event| event.seq)) else {
            return;
        };
        self.app.show_past(head);
        // a fork has a cost of its own
        let own = |event: &&Envelope| event.seq < from && event.session == self.job.place.session;
        self.app.before = SessionView::from_events(past.iter().filter(own));
        let job = self.job.clone();
        self.start(
            "opening the session",
            Box::pin(async move {
                match job.open(from).await {
                    Ok(_) => Done::Accepted,
                    Err(error) => Done::Failed(error),
                }
            }),
        );
    }

    /// Handles input events until the user leaves.
    pub(super) async fn run(&mut self) -> anyhow::Result<ExitReason> {
        if let Some(leave) = self.catch_up()? {
            return Ok(leave);
        }
        // not before the first frame, because it takes time
        if matches!(self.screen, Screen::Inline(_)) {
            restorer::start();
        }
        loop {
            if let Some(leave) = self.catch_up()? {
                return Ok(leave);
            }
            let event = self.events.next(self.alarm()).await;
            self.is_stale = true;
            if let Some(leave) = self.handle(event).await? {
                return Ok(leave);
            }
        }
    }

    async fn handle(&mut self, event: InputEvent) -> anyhow::Result<Option<ExitReason>> {
        match event {
            InputEvent::Observed(observation) => self.observe(observation),
            InputEvent::Keys(batch) => {
                let now = Instant::now();
                // what is typed waits for no frame
                self.next_frame = now;
                let actions = self.app.input(batch, now);
                for action in actions {
                    if let Some(leave) = self.perform(action).await? {
                        return Ok(Some(leave));
                    }
                }
            }
            InputEvent::Gone => return Ok(Some(ExitReason::Gone)),
            InputEvent::Signal("SIGINT") => {
                for action in self.app.interrupted() {
                    if let Some(leave) = self.perform(action).await? {
                        return Ok(Some(leave));
                    }
                }
            }
            InputEvent::Signal(name) => return Ok(Some(ExitReason::Signal(name))),
            InputEvent::Continued => self.continued()?,
            InputEvent::Resized => self.resized()?,
            InputEvent::Opened(new) => self.opened(*new),
            InputEvent::Done(done) => return self.done(done).await,
            InputEvent::Background(Background::Files(found)) => self.app.files_found(found),
            InputEvent::Background(Background::Choices(choices)) => self.app.take_choices(*choices),
            InputEvent::Note(note) => self.app.warn(&note),
            InputEvent::Tick => {}
            InputEvent::Closed(reason) => anyhow::bail!("the session is closed: {reason}"),
        }
        Ok(None)
    }

    /// Shows the next question, sends the next prompt, and draws.
    fn catch_up(&mut self) -> anyhow::Result<Option<ExitReason>> {
        let now = Instant::now();
        if self.app.wants_to_resume() && self.events.job.is_none() {
            self.app.ask_to_resume(now);
        }
        while let Some(question) = self.app.next_question() {
            if self.is_own_shell(&question) {
                self.app.answered_by_typing(question.id);
                let reply = QuestionReply {
                    answer: leftfold_events::event::Answer::Once,
                    feedback: None,
                    always: None,
                    by: BY.to_owned(),
                };
                self.answer_later(question.id, reply);
                break;
            }
            let change = question.change.as_ref();
            let files =
                change.and_then(|call| leftfold_tools::preview(call, &self.job.setup.workspace));
            self.app.ask(&question, &files.unwrap_or_default(), now);
        }
        if self.events.job.is_none()
            && let Some(Action::Submit(text)) = self.app.next_prompt()
        {
            if Entered::from_line(&text).is_exit() {
                return Ok(Some(ExitReason::Done));
            }
            self.submit(text)?;
        }
        // another theme would cut a text that streams
        if !self.app.is_working()
            && let Some(background) = self.app.background.take()
        {
            self.background = Some(background);
            if self.theme == ThemeName::Auto {
                self.use_theme(ThemeName::Auto);
            }
        }
        self.find_choices(now);
        if std::mem::take(&mut self.app.calls_for_attention) && !self.app.status.focused {
            self.call_for_attention();
        }
        if self.is_stale && now >= self.next_frame {
            self.is_stale = false;
            self.next_frame = now + FRAME_INTERVAL;
            return Ok(is_gone(self.draw()));
        }
        Ok(None)
    }

    /// Uses these colours from now on.
    pub(super) fn use_theme(&mut self, name: ThemeName) {
        let theme = self.theme_of(name);
        self.app.blocks.take_theme(theme);
    }

    /// The colours of a theme on this terminal.
    pub(super) fn theme_of(&self, name: ThemeName) -> Theme {
        let before = &self.app.blocks.look.theme;
        let hyperlinks = before.hyperlinks.clone();
        Theme { hyperlinks, ..Theme::new(name, before.depth, self.background) }
    }

    /// Looks for what the text can be completed to, on other threads.
    fn find_choices(&mut self, now: Instant) {
        if let Some(query) = self.app.wanted_files.take() {
            let directory = &self.job.setup.turn_settings.directory;
            if self.files.is_none() {
                let finder = self.events.finder.clone();
                let started = FileSearch::start(directory.clone(), move |found| {
                    // the conversation may be over
                    let _ = finder.send(Background::Files(found));
                });
                self.files = started
                    .inspect_err(|error| tracing::warn!("files cannot be searched: {error}"))
                    .ok();
            }
            if let Some(files) = &self.files {
                files.search(&query);
            }
        }
        let is_fresh =
            self.choices_read.is_some_and(|read| now.duration_since(read) < CHOICES_LIFETIME);
        if std::mem::take(&mut self.app.wants_choices) && !is_fresh {
            self.choices_read = Some(now);
            let (setup, finder) = (self.job.setup.clone(), self.events.finder.clone());
            tokio::spawn(async move {
                let found = |choices| Background::Choices(Box::new(choices));
                let of = setup.clone();
                let read = tokio::task::spawn_blocking(move || Choices::read(&of)).await;
                let mut choices = match read.map_err(Into::into).flatten() {
                    Ok(choices) => choices,
                    Err(error) => {
                        return tracing::warn!("there is nothing to complete to: {error:#}");
                    }
                };
                // the conversation may be over
                let _ = finder.send(found(choices.clone()));
                let resources = choices::resources(&setup).await;
                if !resources.is_empty() {
                    choices.mentions.extend(resources);
                    let _ = finder.send(found(choices));
                }
            });
        }
    }

    /// When the screen changes by itself.
    fn alarm(&self) -> Option<Instant> {
        let now = Instant::now();
        let frame = self.is_stale.then_some(self.next_frame);
        let tick = (self.app.is_busy() && matches!(self.screen, Screen::Inline(_)))
            .then(|| now + TICK_INTERVAL);
        [frame, tick, self.app.alarm(now)].into_iter().flatten().min()
    }

    fn draw(&mut self) -> io::Result<()> {
        // The signal may come later than the new size, and movements are by the rows that the terminal has now.
        self.fit()?;
        let finished = self.app.take();
        let now = Instant::now();
        self.app.status.starting = self.starting_servers();
        match &mut self.screen {
            Screen::Plain(screen) => screen.draw(&finished, &self.app, now),
            Screen::Inline(surface) => {
                let live = self.app.live(surface.height(), now, Time::from(SystemTime::now()));
                surface.draw(&finished, &live.rows, live.cursor)
            }
        }
    }

    /// The MCP servers that the current job may be waiting for. Those of another process are its own.
    fn starting_servers(&self) -> Vec<String> {
        let is_remote =
            self.job.link.client.as_ref().is_some_and(|client| client.remote().is_some());
        if self.app.job.is_none() || is_remote {
            return Vec::new();
        }
        let reports = self.job.setup.extensions.mcp.reports().into_iter();
        let starting = reports.filter(|report| report.status == ServerStatus::Idle);
        starting.map(|report| report.name).collect()
    }

    fn observe(&mut self, Observation { events, done }: Observation) {
        for event in events.iter().map(Recorded::masked) {
            let own = self.app.blocks.transcript.is_root(event);
            let is_new = own && event.seq > self.app.seen();
            self.app.observe(event);
            if is_new {
                self.follow(event);
            }
        }
        self.job.link.seen = self.app.seen();
        // The hub may have ended with the node.
        let _ = done.send(());
    }

    /// Takes what an event says of the next prompts.
    fn follow(&mut self, event: &Envelope) {
        if let Event::Turn(Turn::Ended(_)) = event.event {
            self.shell = None;
        }
        let taken = match &event.event {
            // The next prompts go to the agent that has taken over.
            Event::Turn(Turn::Switched { agent, .. }) => self.switched(agent),
            // By this terminal or another client.
            Event::Session(Session::Configured { choices, .. })
                if *choices != self.job.project.choices =>
            {
                self.take_choices(choices.clone())
            }
            _ => Ok(()),
        };
        if let Err(error) = taken {
            tracing::warn!("the choice cannot be taken: {error:#}");
        }
    }

    fn opened(&mut self, NewClient { client, opened, known }: NewClient) {
        self.app.unfinished = opened.unfinished;
        self.app.blocks.me = client.name(BY);
        self.job.link.client = Some(client);
        self.events.watch_close(opened);
        // the job may have been given up
        let _ = known.send(());
    }

    async fn perform(&mut self, action: Action) -> anyhow::Result<Option<ExitReason>> {
        match action {
            Action::Submit(text) => {
                if Entered::from_line(&text).is_exit() {
                    self.app.settle(false);
                    return Ok(Some(ExitReason::Done));
                }
                self.submit(text)?;
            }
            Action::Interrupt => {
                if let Some(client) = &self.job.link.client {
                    client.interrupt("SIGINT").await?;
                }
            }
            Action::Answer(of, reply) => self.answer(of, reply).await?,
            Action::Resume => self.job.link.client()?.resume(&self.job.setup)?,
            Action::ListPrompts => self.list_prompts(PromptsFor::Any),
            Action::Forget(id) => {
                self.begin("taking the approval back", |job| Box::pin(job.forget(id)));
            }
            Action::NextAgent => self.next_agent(),
            Action::NextMode => self.next_mode(),
            Action::Attach { path, pasted } => self.attach(path, &pasted),
            Action::AttachClipboard if self.events.job.is_some() => {
                self.app.hint = Some("Something else is being done: try again.".to_owned());
            }
            Action::AttachClipboard => {
                self.begin("reading the clipboard", |_| Box::pin(jobs::clipboard()));
            }
            Action::Edit(text) => self.edit(&text)?,
            Action::Suspend => self.suspend()?,
            Action::Redraw => self.redraw()?,
            Action::Leave(Leaving::Done) => return Ok(Some(ExitReason::Done)),
            Action::Leave(Leaving::Interrupted) => return Ok(Some(ExitReason::Signal("SIGINT"))),
        }
        Ok(None)
    }

    /// Carries out a line that the user has entered.
    fn submit(&mut self, text: String) -> anyhow::Result<()> {
        match Entered::from_line(&text) {
            Entered::Prompt => self.prompt(text)?,
            Entered::Shell(line) => {
                let line = line.to_owned();
                self.shell = Some(line.clone());
                self.begin("sending the command", |job| Box::pin(job.shell(line)));
            }
            Entered::Builtin(builtin, argument, word)
                if !builtin.yields_to(word) || !self.has_project_command(word) =>
            {
                self.run_builtin(builtin, argument);
            }
            Entered::Builtin(..) => self.prompt(text)?,
            Entered::Other(command) if self.has_project_command(command) => self.prompt(text)?,
            Entered::Other(command) => {
                let command = command.to_owned();
                self.app.settle(false);
                self.unknown(&command);
            }
        }
        Ok(())
    }

    /// Asks about texts that calls have changed before the prompt has them. Ctrl-C takes the prompt back.
    fn prompt(&mut self, text: String) -> anyhow::Result<()> {
        let directory = self.job.setup.turn_settings.directory.clone();
        if texts::held(&directory)?.iter().any(|text| !text.is_refused)
            && !self.ask_on_terminal(|| super::trust::ask_about_texts(&directory))?
        {
            self.app.settle(true);
            return Ok(());
        }
        let files = self.attachments.for_text(&text);
        self.begin("sending the prompt", |job| Box::pin(job.prompt(text, files)));
        Ok(())
    }

    /// Whether a question without a session was answered, and not cut off by Ctrl-C.
    fn ask_on_terminal(
        &mut self,
        ask: impl FnOnce() -> anyhow::Result<(Option<bool>, String)>,
    ) -> anyhow::Result<bool> {
        self.release_terminal();
        let asked = tokio::task::block_in_place(ask);
        self.take_terminal()?;
        let (answer, typed) = asked?;
        self.app.keep(&typed);
        Ok(answer.is_some())
    }

    /// A path was pasted. If an image or PDF is there, a marker stands for it.
    fn attach(&mut self, path: PathBuf, pasted: &str) {
        let is_file = path.is_file();
        match attach::files(&[path]) {
            Ok(mut parts) => match parts.pop().filter(|part| part.kind == PromptKind::Media) {
                Some(part) => {
                    let marker = self.attachments.add(part);
                    self.app.insert_marker(&marker);
                }
                None => self.app.insert_pasted(pasted),
            },
            Err(error) => {
                self.app.insert_pasted(pasted);
                if is_file {
                    self.app.hint = Some(clean_line(&format!("Not attached: {error}")));
                }
            }
        }
    }

    pub(super) fn begin(
        &mut self,
        what: &str,
        work: impl FnOnce(Job) -> futures::future::LocalBoxFuture<'static, Done>,
    ) {
        let work = work(self.job.clone());
        self.start(what, work);
    }

    fn start(&mut self, what: &str, work: futures::future::LocalBoxFuture<'static, Done>) {
        self.app.job = Some((what.to_owned(), Instant::now()));
        self.events.job = Some(work);
    }

    async fn done(&mut self, done: Done) -> anyhow::Result<Option<ExitReason>> {
        self.app.job = None;
        match done {
            Done::Prompted => {
                self.job.unlogged = None;
                if self.shell.is_none() {
                    self.job.files.clear();
                }
                self.app.settle(false);
            }
            Done::Attached(part) => {
                let marker = self.attachments.add(*part);
                self.app.insert_marker(&marker);
            }
            Done::NotAttached(why) => {
                self.app.hint = Some(clean_line(&format!("Nothing is pasted: {why}.")));
            }
            Done::Configured => self.job.unlogged = None,
            Done::Accepted => self.app.settle(false),
            Done::Prompts(prompts, wanted) => {
                self.app.settle(false);
                self.choose_prompt(&prompts, wanted);
            }
            Done::Pick(picker) => {
                self.app.settle(false);
                self.pick(*picker);
            }
            Done::Said(text) => {
                self.app.settle(false);
                self.show_text(&text);
            }
            Done::Context(used) => {
                self.app.settle(false);
                self.show_context(&used);
            }
            Done::Copy(text) => {
                self.app.settle(false);
                self.copy(&text);
            }
            Done::Switched(place) => {
                self.app.settle(false);
                self.switch(place).await?;
            }
            Done::Left => {
                self.app.settle(false);
                self.begin_session().await?;
            }
            Done::TakenBack(text) => {
                self.app.settle(false);
                self.app.note(&format!("  took back: {} (/redo brings it back)", first(&text)));
                self.app.take_back(&text);
            }
            Done::BroughtBack(text) => {
                self.app.settle(false);
                self.app.note(&format!("  brought back: {}", first(&text)));
                self.app.bring_back();
            }
            Done::Diff(diff, options) => {
                self.app.settle(false);
                let lines = calls::diff(&diff, options, &self.app.blocks.look);
                self.app.blocks.add(lines);
            }
            Done::Forked { place, draft } => {
                self.app.settle(false);
                self.app.keep(&draft);
                let before = self.job.place.session;
                self.switch(place).await?;
                self.app
                    .note(&format!("[a fork; `leftfold --session {before}` continues the other]"));
            }
            Done::Refused(why) => {
                self.app.settle(false);
                self.app.warn(&format!("  {}", redact_output::clean(&why)));
            }
            Done::NotSent(error) => {
                self.shell = None;
                self.app.settle(true);
                let style = self.app.blocks.look.theme.error;
                let text = format!("not sent: {error:#}");
                self.app.blocks.note(style, &redact_output::clean(&text));
            }
            Done::Failed(error) => return Err(error),
        }
        Ok(None)
    }

    /// Continues in another session.
    async fn switch(&mut self, place: SessionPlace) -> anyhow::Result<()> {
        let past = Reader::open(&place.store)?.read(place.session, 1)?;
        let project = Project::for_session(&place)?;
        if !self.may_use_settings(&project.directory)? {
            self.app.note("[not switched: the session is the same]");
            return Ok(());
        }
        self.enter_session(place, project).await?;
        self.continue_session(&past);
        Ok(())
    }

    /// Asks whether the settings of another project are trusted. No: they are left out. Answers whether the user goes
    /// there at all.
    fn may_use_settings(&mut self, directory: &Path) -> anyhow::Result<bool> {
        if *directory == self.job.setup.turn_settings.directory || !trust::is_pending(directory) {
            return Ok(true);
        }
        self.ask_on_terminal(|| super::trust::ask_once(directory))
    }

    /// Begins a new session of the same project, with the same choices.
    async fn begin_session(&mut self) -> anyhow::Result<()> {
        let before = self.job.link.client.is_some().then_some(self.job.place.session);
        let choices = self.job.project.choices.clone();
        let project = Project { choices: choices.clone(), ..self.job.project.anew() };
        let place = session_paths::new_place(project::new_id())?;
        self.enter_session(place, project).await?;
        self.job.unlogged = Some(choices).filter(|choices| !choices.is_empty());
        let other =
            before.map(|before| format!("; `leftfold --session {before}` continues the other"));
        self.app.note(&format!("[a new session{}]", other.unwrap_or_default()));
        Ok(())
    }

    /// The next prompts go to this session, which may have no log yet.
    async fn enter_session(&mut self, place: SessionPlace, project: Project) -> anyhow::Result<()> {
        let setup = SessionSetup::new(place.clone(), &project, &self.job.overrides, false)?;
        let sink = self.events.listen_anew().await?;
        let job = &mut self.job;
        job.setup = setup;
        let known = Arc::new(project.clone());
        job.link.sessions.learn(place.clone(), known, job.overrides.clone());
        job.link.sink = sink;
        (job.link.session, job.link.client, job.link.seen) = (place.session, None, 0);
        (job.place, job.project, job.unlogged) = (place, project, None);
        (self.files, self.choices_read) = (None, None);
        self.app.switch(self.job.link.session);
        self.app.take_setup(&self.job.setup);
        self.app.status.take(&self.job.setup, self.job.project.choices.variant.clone());
        Ok(())
    }

    /// Whether it is about the command line that the user has just entered: entering it was the answer.
    fn is_own_shell(&self, question: &leftfold_view::OpenQuestion) -> bool {
        let (session, _) = question.id;
        let Some(line) = self.shell.as_ref().filter(|_| session == self.job.place.session) else {
            return false;
        };
        let view = self.app.blocks.transcript.root();
        let call = view.and_then(|view| view.call(question.call));
        question.question.is_none()
            && question.by.is_none()
            && call.is_some_and(|call| {
                call.known && call.parent.is_some() && call.input["command"].as_str() == Some(line)
            })
    }

    fn answer_later(&mut self, of: QuestionId, reply: QuestionReply) {
        let Some(client) = self.job.link.client.clone() else { return };
        tokio::spawn(async move {
            if let Err(error) = client.answer(of, reply).await {
                tracing::warn!("the command line cannot be allowed: {error:#}");
            }
        });
    }

    async fn answer(&mut self, of: QuestionId, reply: QuestionReply) -> anyhow::Result<()> {
        let patterns = reply.always.clone();
        let answered = self.job.link.client()?.answer(of, reply).await?;
        match answered {
            Answered::Accepted => {}
            Answered::Refused { why } => {
                self.app.refused(of, &patterns.unwrap_or_default(), &why);
            }
            Answered::Already { .. } | Answered::NotOpen | Answered::Repeated { .. } => {
                self.app.warn(&format!("  {answered}"));
            }
        }
        Ok(())
    }

    /// Another agent has taken over and gets the next prompts.
    fn switched(&mut self, agent: &str) -> anyhow::Result<()> {
        let mut choices = self.job.project.choices.clone();
        choices.agent = choices.agent.map(|_| agent.to_owned());
        self.job.project.agent = Some(agent.to_owned());
        self.job.overrides.agent = None;
        self.take_choices(choices)
    }

    /// Applies the choices to the next prompts.
    pub(super) fn take_choices(&mut self, choices: SessionChoices) -> anyhow::Result<()> {
        let job = &mut self.job;
        // a choice in the conversation is newer than the command line
        let agent = job.overrides.agent.clone().filter(|_| choices.agent.is_none());
        let model = job.overrides.model.clone().filter(|_| choices.model.is_none());
        let overrides = Overrides { agent, model, ..job.overrides.clone() };
        let project = Project { choices, ..job.project.clone() };
        job.setup = SessionSetup::new(job.place.clone(), &project, &overrides, false)?;
        let session = job.place.session;
        job.link.sessions.configure(session, project.choices.clone());
        job.link.sessions.set_overrides(session, overrides.clone());
        (job.project, job.overrides) = (project, overrides);
        self.app.take_setup(&job.setup);
        self.app.status.take(&job.setup, job.project.choices.variant.clone());
        Ok(())
    }

    /// Reads no keys, and leaves the terminal as it was found, with the cursor below the finished lines.
    pub(super) fn release_terminal(&mut self) {
        self.events.keys = None;
        self.app.blocks.group_ends();
        let finished = self.app.take();
        // If the terminal is gone, there is nothing to restore.
        let _ = match &mut self.screen {
            Screen::Inline(surface) => surface.draw(&finished, &Buffer::empty(Rect::ZERO), None),
            Screen::Plain(screen) => screen.lines(&finished),
        };
        self.mode.off();
    }

    /// Takes the terminal again, after another program had it.
    fn take_terminal(&mut self) -> anyhow::Result<()> {
        self.mode.on()?;
        if let Screen::Inline(surface) = &mut self.screen {
            surface.forget();
        }
        if self.events.keys.is_none() {
            self.events.keys = Some(Keys::start()?);
        }
        self.resized()
    }

    /// Another process has stopped the program and continued it.
    fn continued(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_back) {
            return Ok(());
        }
        self.take_terminal()
    }

    fn resized(&mut self) -> anyhow::Result<()> {
        let _ = is_gone(self.fit());
        Ok(())
    }

    /// Takes the size of the terminal.
    fn fit(&mut self) -> io::Result<()> {
        let Screen::Inline(surface) = &mut self.screen else { return Ok(()) };
        if surface.resize(size())? {
            self.app.resizes_until = Some(Instant::now() + RESIZE_SETTLE_DELAY);
        }
        self.app.blocks.resize(usize::from(surface.width()));
        Ok(())
    }

    fn redraw(&mut self) -> anyhow::Result<()> {
        if let Screen::Inline(surface) = &mut self.screen {
            let _ = is_gone(surface.clear());
        }
        Ok(())
    }

    /// Stops the program, as Ctrl-Z does in other programs. It goes on when the shell continues it.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.release_terminal();
        kill_process(getpid(), Signal::TSTP)?;
        self.is_back = true;
        self.take_terminal()
    }

    /// Lets the user write the prompt in an editor.
    fn edit(&mut self, text: &str) -> anyhow::Result<()> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let Some(editor) = variable("VISUAL").or_else(|| variable("EDITOR")) else {
            self.app.hint = Some("Set VISUAL or EDITOR to the editor to start.".to_owned());
            return Ok(());
        };
        let (_folder, file) = jobs::draft_file(text)?;
        self.release_terminal();
        // the variable may have arguments, as for other programs
        let line = format!("{editor} \"$1\"");
        let run =
            || leftfold_programs::for_person("sh")?.args(["-c", &line, "sh"]).arg(&file).status();
        let ran = tokio::task::block_in_place(run);
        self.take_terminal()?;
        match ran {
            Ok(status) if status.success() => {
                let edited = std::fs::read(&file)?;
                self.app.edited(&String::from_utf8_lossy(&edited));
            }
            Ok(status) => {
                let hint = format!("The editor has failed: {status}. The text is as it was.");
                self.app.hint = Some(hint);
            }
            Err(error) => self.app.hint = Some(format!("The editor cannot be started: {error}.")),
        }
        Ok(())
    }

    /// Runs this program on the terminal itself, so that the conversation sees nothing that is typed there. Whether it
    /// has succeeded.
    pub(super) fn run_on_terminal(&mut self, arguments: &[&str]) -> anyhow::Result<bool> {
        let directory = &self.job.setup.turn_settings.directory;
        let mut command = jobs::own_program(arguments, directory)?;
        self.release_terminal();
        let ran = tokio::task::block_in_place(|| command.status());
        self.take_terminal()?;
        self.choices_read = None;
        Ok(ran?.success())
    }

    fn call_for_attention(&mut self) {
        let why = match self.app.asked {
            Some(_) => "Leftfold has a question",
            None => "Leftfold has finished",
        };
        let code = match self.notify {
            Notify::Off => return,
            Notify::Bell => "\x07".to_owned(),
            Notify::Osc9 => format!("\x1b]9;{why}\x07"),
            Notify::Osc777 => format!("\x1b]777;notify;Leftfold;{why}\x07"),
        };
        if let Screen::Inline(surface) = &mut self.screen {
            let _ = surface.code(&code);
        }
    }
}

/// The start of a prompt, in one line.
fn first(text: &str) -> String {
    clean_line(&words::shorten(words::first_line(text), 60))
}

/// A terminal that cannot be written to is gone.
fn is_gone(painted: io::Result<()>) -> Option<ExitReason> {
    let error = painted.err()?;
    tracing::debug!("cannot write to the terminal: {error}");
    Some(ExitReason::Gone)
}
