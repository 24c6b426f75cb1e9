//! The actor for one session of the connection. It handles the client's requests one after the
//! other, so that a cancel never overtakes its prompt.
//!
//! A prompt is answered by the `turn.ended` that follows its own `turn.prompted` in the log, so an
//! answer never overtakes the updates before it, and the end of an older turn answers nobody.
//! `session/load` is a watch from the first event on.

use leftfold_runtime::session_setup::SessionSetup;
use std::sync::Arc;

use agent_client_protocol::Error;
use leftfold_actors::{Observation, Opened, WatchScope};
use leftfold_config::Trust;
use leftfold_events::Seq;
use leftfold_events::event::{Event, Model, PromptKind, PromptPart, SessionChoices, Turn};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::arrival::Arrival;
use super::choices::AvailableChoices;
use super::errors::to_error;
use super::shared::Shared;
use super::trust;
use super::updates::{self, Updates};
use leftfold_runtime::PromptOptions;
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::project::Project;
use leftfold_runtime::secrets;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::socket::{SessionRegistry, Sessions};
use leftfold_runtime::turn_config::Overrides;
use leftfold_runtime::user_message::UserMessage;

pub(super) enum SessionCommand {
    /// The prompt already waits in the list, as `ticket`.
    Prompt {
        ticket: u64,
        parts: Vec<PromptPart>,
        /// The client's id of the prompt.
        message: Option<String>,
        /// The choices in force when it came in.
        project: Arc<Project>,
    },
    /// The client has made a choice, and is answered once it is in the log.
    Configure(Answer),
    /// The waiting prompts are already marked as cancelled.
    Cancel,
    Arrive(Arrival),
}

/// Answers a client.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

pub(super) struct SessionActor;

pub(super) struct SessionState {
    all: Arc<SessionRegistry>,
    shared: Arc<Shared>,
    place: SessionPlace,
    /// The observer that sends updates to the client.
    sink: Option<ActorRef<Observation>>,
    /// The settings that the client was asked to trust last.
    asked_trust: Option<Trust>,
}

pub(super) struct Arguments {
    pub(super) all: Arc<SessionRegistry>,
    pub(super) shared: Arc<Shared>,
    pub(super) place: SessionPlace,
}

impl Actor for SessionActor {
    type Msg = SessionCommand;
    type State = SessionState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<SessionCommand>,
        arguments: Arguments,
    ) -> Result<SessionState, ActorProcessingErr> {
        let Arguments { all, shared, place } = arguments;
        Ok(SessionState { all, shared, place, sink: None, asked_trust: None })
    }

    /// Stops the observer: a closed session sends no updates until it is opened again.
    async fn post_stop(
        &self,
        _: ActorRef<SessionCommand>,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(sink) = state.sink.take() {
            sink.stop(None);
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<SessionCommand>,
        wish: SessionCommand,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        match wish {
            SessionCommand::Prompt { ticket, .. }
                if state.shared.prompts.answer_cancelled(ticket) => {}
            SessionCommand::Prompt { ticket, parts, message, project } => {
                if let Err(error) = state.prompt(ticket, parts, message, &project).await {
                    state.shared.prompts.fail(ticket, &to_error(&error));
                }
            }
            SessionCommand::Configure(answer) => {
                answer(state.configure().await.map_err(|error| to_error(&error)));
            }
            SessionCommand::Cancel => state.cancel().await,
            SessionCommand::Arrive(arrival) => state.arrive(arrival).await,
        }
        Ok(())
    }
}

impl SessionState {
    async fn prompt(
        &mut self,
        ticket: u64,
        parts: Vec<PromptPart>,
        message: Option<String>,
        project: &Project,
    ) -> anyhow::Result<()> {
        if let Some(id) = &message
            && self.all.existing(self.place.session).is_some()
            && self.go_on(ticket, id).await?
        {
            return Ok(());
        }
        if let Some(mut client) = self.shared.client() {
            // so that what the turn before has changed is known. A client of a node that has ended says nothing
            let _ = client.remembered().await;
        }
        Box::pin(trust::ask(&self.shared, ticket, &mut self.asked_trust)).await?;
        if self.shared.prompts.answer_cancelled(ticket) {
            return Ok(());
        }
        let rules = self.all.rules(self.place.session).await;
        let rules = rules.unwrap_or_else(|| project.rules.clone());
        let project = &Project { rules, ..project.clone() };
        let first = parts.first().filter(|part| part.kind == PromptKind::Text);
        let text = first.map_or("", |part| part.text.as_str());
        self.send_commands();
        let prepared = Prepared::new(
            (project, self.place.store.as_path()),
            &Overrides::interactive(),
            text,
            OptionsFor::ForAll,
        )?;
        let setup = prepared.setup(self.place.clone())?;
        // Servers may start slowly; a cancel of the prompt must not wait for them.
        tokio::select! {
            () = setup.extensions.ready() => {}
            () = self.shared.prompts.taken_back(ticket) => {}
        }
        if self.shared.prompts.answer_cancelled(ticket) {
            return Ok(());
        }
        let parts = prepared.parts(&setup, parts).await?;
        let mut left = client::ATTEMPTS;
        loop {
            match self.prompted(project, &setup, parts.clone(), message.clone()).await {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                prompted => return prompted,
            }
            tokio::time::sleep(client::RETRY_DELAY).await;
        }
    }

    /// Logs the choices first. For a new session they go with its first prompt.
    async fn prompted(
        &mut self,
        project: &Project,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        message_id: Option<String>,
    ) -> anyhow::Result<()> {
        let client = self.client().await?;
        if client.remote().is_none() {
            self.log_choice(&client, &project.choices).await?;
        }
        let sent = UserMessage::prompt(parts, &self.shared.by);
        let options = PromptOptions { message_id, ..PromptOptions::default() };
        client.send_message(setup, sent, &options).await.map(|_| ())
    }

    /// Answers a prompt that is in the log already, because the node that took it has ended: by the
    /// end of its turn, which is resumed if it was cut off. False: the log does not have it.
    async fn go_on(&mut self, ticket: u64, id: &str) -> anyhow::Result<bool> {
        let client = self.client().await?;
        // Another process runs one turn of the session, and its node looks the id up.
        if client.remote().is_some() {
            return Ok(false);
        }
        let state = client.view().await?;
        let Some(seq) = state.prompt_ids.get(id).copied() else { return Ok(false) };
        self.shared.prompts.take(ticket);
        let store = client.reading().await?;
        let session = self.place.session;
        let events = tokio::task::spawn_blocking(move || store.read(session, seq, usize::MAX));
        let mut finish = None;
        for event in events.await?? {
            if let Event::Model(Model::Finished { finish: last, .. }) = &event.event {
                finish = Some(*last);
            } else if let Event::Turn(Turn::Ended(ended)) = &event.event {
                self.shared.prompts.end(ticket, ended, finish);
                return Ok(true);
            }
        }
        if let (None, Some(ended)) = (&state.turn, &state.ended) {
            // Its end was written just before a crash.
            self.shared.prompts.end(ticket, ended, finish);
            return Ok(true);
        }
        let setup = Sessions::setup(&*self.all, session, &PromptOptions::default()).await?;
        client.resume(&setup)?;
        Ok(true)
    }

    /// Logs the choices. For a new session they go with its first prompt.
    async fn configure(&mut self) -> anyhow::Result<()> {
        if self.all.existing(self.place.session).is_none() {
            return Ok(());
        }
        let choices = self.shared.project().choices.clone();
        let mut left = client::ATTEMPTS;
        loop {
            let client = self.client().await?;
            match self.log_choice(&client, &choices).await {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                configured => return configured,
            }
            tokio::time::sleep(client::RETRY_DELAY).await;
        }
    }

    async fn log_choice(&self, client: &Client, choices: &SessionChoices) -> anyhow::Result<()> {
        self.shared.expect_choice(choices.clone());
        let logged = client.configure(choices.clone(), &self.shared.by).await;
        if !matches!(logged, Ok(true)) {
            // No event announces it.
            self.shared.confirm_choice(choices);
        }
        logged.map(|_| ())
    }

    /// Sends the list of commands, which changes with settings and files.
    fn send_commands(&self) {
        if let Ok(available) = AvailableChoices::for_project(&self.place, &self.shared.project()) {
            self.shared.send_commands(available.commands());
        }
    }

    /// A client of the session; the ACP client receives its events from now on.
    async fn client(&mut self) -> anyhow::Result<Client> {
        let session = self.place.session;
        let Some(sink) = self.sink.clone() else {
            let (client, opened) = self.all.open(session).await?;
            let from = opened.head + 1;
            return self.watch(client, opened, from, None).await;
        };
        let (client, opened) = self.all.client_for(session, self.shared.client().as_ref()).await?;
        if let Some(opened) = opened {
            self.attend(&client, opened);
            client.watch(self.shared.seen() + 1, sink, WatchScope::Live).await?;
        }
        Ok(client)
    }

    /// Sends every event from `from` on to the client.
    async fn watch(
        &mut self,
        client: Client,
        opened: Opened,
        from: Seq,
        arrival: Option<Arrival>,
    ) -> anyhow::Result<Client> {
        let history = self.durable(&client, opened.head).await?;
        let project = self.shared.project();
        let Project { directory, worktree, .. } = &*project;
        let mut workspace = Workspace::new(directory, worktree, self.place.store.join("spill"));
        workspace.secrets = secrets::for_directory(directory);
        workspace.host = self.all.host(self.place.session);
        let arguments = updates::Arguments {
            shared: Arc::clone(&self.shared),
            place: self.place.clone(),
            workspace: Arc::new(workspace),
            from,
            history,
            cut_off: opened.unfinished,
            arrival,
        };
        let (sink, _) = Actor::spawn(None, Updates, arguments).await?;
        self.attend(&client, opened);
        client.watch(from, sink.clone(), WatchScope::Live).await?;
        if let Some(before) = self.sink.replace(sink) {
            before.stop(None);
        }
        Ok(client)
    }

    /// The last event up to `head` that observers get. After a crash a log may have more: these come
    /// with its next event.
    async fn durable(&self, client: &Client, head: Seq) -> anyhow::Result<Seq> {
        if client.remote().is_some() {
            return Ok(head);
        }
        let (store, session) = (client.reading().await?, self.place.session);
        let last =
            tokio::task::spawn_blocking(move || match store.read(session, head, 1)?.is_empty() {
                false => Ok(Some(head)),
                true => Ok(store.read(session, 1, usize::MAX)?.last().map(|event| event.seq)),
            });
        let last: Result<Option<Seq>, leftfold_store::Error> = last.await?;
        Ok(last?.unwrap_or_default())
    }

    /// Uses this client for the session from now on. If it is closed for good, its prompts fail.
    fn attend(&self, client: &Client, mut opened: Opened) {
        self.shared.reach_by(client.clone());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let why = client::closed(&mut opened).await;
            shared.prompts.fail_all(&to_error(&anyhow::anyhow!(why)));
        });
    }

    async fn cancel(&self) {
        let wanted = self.shared.prompts.cancelled() || self.shared.is_running();
        let Some(client) = self.shared.client().filter(|_| wanted) else { return };
        if let Err(error) = client.interrupt(&self.shared.by).await {
            tracing::warn!("{error:#}");
        }
    }

    /// Answers a load or resume. A resuming client gets no history, but gets the questions that are
    /// still open.
    async fn arrive(&mut self, arrival: Arrival) {
        if self.shared.prompts.any() {
            let error = Error::invalid_request().data("a turn is running in this session");
            let _ = arrival.failed(error);
            return;
        }
        match self.all.open(self.place.session).await {
            Ok((client, opened)) => {
                if let Err(error) = self.watch(client, opened, 1, Some(arrival)).await {
                    tracing::error!("cannot watch a session: {error:#}");
                }
            }
            Err(error) => {
                let _ = arrival.failed(to_error(&error));
            }
        }
    }
}
