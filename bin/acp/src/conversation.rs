//! One session of the connection. It takes what the client wants of it one after the other, so that
//! a cancel never overtakes the prompt it is for.

use leftfold_runtime::session_setup::SessionSetup;
use std::sync::Arc;

use agent_client_protocol::Error;
use leftfold_actors::{Observation, Opened, WatchScope};
use leftfold_events::Seq;
use leftfold_events::event::{PromptKind, PromptPart, SessionChoices};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::arrival::Arrival;
use super::choices::AvailableChoices;
use super::errors::to_error;
use super::shared::{BY, Shared};
use super::updates::{self, Updates};
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::project::Project;
use leftfold_runtime::secrets;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::socket::SessionRegistry;
use leftfold_runtime::turn_config::Overrides;

pub(super) enum Wish {
    /// Already among the prompts that wait, as `ticket`.
    Prompt {
        ticket: u64,
        parts: Vec<PromptPart>,
        /// With what is chosen when it comes in.
        project: Arc<Project>,
    },
    /// The client has chosen something, and is answered once that is in the log.
    Configure(Answer),
    /// Everything that waits is already marked.
    Cancel,
    Arrive(Arrival),
}

/// Answers a client.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

pub(super) struct Conversation;

pub(super) struct Talk {
    all: Arc<SessionRegistry>,
    shared: Arc<Shared>,
    place: SessionPlace,
    /// Whoever tells the client of the session.
    sink: Option<ActorRef<Observation>>,
}

pub(super) struct Arguments {
    pub(super) all: Arc<SessionRegistry>,
    pub(super) shared: Arc<Shared>,
    pub(super) place: SessionPlace,
}

impl Actor for Conversation {
    type Msg = Wish;
    type State = Talk;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Wish>,
        arguments: Arguments,
    ) -> Result<Talk, ActorProcessingErr> {
        let Arguments { all, shared, place } = arguments;
        Ok(Talk { all, shared, place, sink: None })
    }

    /// A session that was closed is told of no more, until it is opened again.
    async fn post_stop(
        &self,
        _: ActorRef<Wish>,
        talk: &mut Talk,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(sink) = talk.sink.take() {
            sink.stop(None);
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Wish>,
        wish: Wish,
        talk: &mut Talk,
    ) -> Result<(), ActorProcessingErr> {
        match wish {
            Wish::Prompt { ticket, .. } if talk.shared.prompts.answer_cancelled(ticket) => {}
            Wish::Prompt { ticket, parts, project } => {
                if let Err(error) = talk.prompt(ticket, parts, &project).await {
                    talk.shared.prompts.fail(ticket, &to_error(&error));
                }
            }
            Wish::Configure(answer) => {
                answer(talk.configure().await.map_err(|error| to_error(&error)));
            }
            Wish::Cancel => talk.cancel().await,
            Wish::Arrive(arrival) => talk.arrive(arrival).await,
        }
        Ok(())
    }
}

impl Talk {
    async fn prompt(
        &mut self,
        ticket: u64,
        parts: Vec<PromptPart>,
        project: &Project,
    ) -> anyhow::Result<()> {
        let first = parts.first().filter(|part| part.kind == PromptKind::Text);
        let text = first.map_or("", |part| part.text.as_str());
        self.tell_commands();
        let prepared = Prepared::new(
            (project, self.place.store.as_path()),
            &Overrides::interactive(),
            text,
            OptionsFor::ForAll,
        )?;
        let setup =
            SessionSetup::new(self.place.clone(), &prepared.project, &prepared.overrides, false)?;
        // servers may take long to start, and whoever takes the prompt back is not to wait for them
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
            match self.prompted(project, &setup, parts.clone()).await {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                prompted => return prompted,
            }
            tokio::time::sleep(client::BREATH).await;
        }
    }

    /// The choice comes first: a session that is new has no log for it before.
    async fn prompted(
        &mut self,
        project: &Project,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
    ) -> anyhow::Result<()> {
        let client = self.client().await?;
        if client.remote().is_none() {
            self.log_choice(&client, &project.choices).await?;
        }
        client.prompt(setup, parts, BY).await
    }

    /// Logs what is chosen. A session that is new is told with its first prompt.
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
            tokio::time::sleep(client::BREATH).await;
        }
    }

    async fn log_choice(&self, client: &Client, choices: &SessionChoices) -> anyhow::Result<()> {
        self.shared.chooses(choices.clone());
        let logged = client.configure(choices.clone(), BY).await;
        if !matches!(logged, Ok(true)) {
            // no event says so
            self.shared.has_chosen(choices);
        }
        logged.map(|_| ())
    }

    /// Commands come and go with settings and files.
    fn tell_commands(&self) {
        if let Ok(available) = AvailableChoices::of(&self.place, &self.shared.project()) {
            self.shared.tell_commands(available.commands());
        }
    }

    /// The way to the session, of which the client is told from now on.
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

    /// Has the client told of every event from `from` on.
    async fn watch(
        &mut self,
        client: Client,
        opened: Opened,
        from: Seq,
        arrival: Option<Arrival>,
    ) -> anyhow::Result<Client> {
        let project = self.shared.project();
        let Project { directory, worktree, .. } = &*project;
        let mut workspace = Workspace::new(directory, worktree, self.place.store.join("spill"));
        workspace.secrets = secrets::of(directory);
        workspace.host = self.all.host(self.place.session);
        let arguments = updates::Arguments {
            shared: Arc::clone(&self.shared),
            place: self.place.clone(),
            workspace: Arc::new(workspace),
            from,
            history: opened.head,
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

    /// From now on this is the way to the session; if it is closed for good, its prompts are over.
    fn attend(&self, client: &Client, mut opened: Opened) {
        self.shared.reach_by(client.clone());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let why = client::closed(&mut opened).await;
            shared.prompts.fail_all(&to_error(&anyhow::anyhow!(why)));
        });
    }

    async fn cancel(&self) {
        let wanted = self.shared.prompts.cancelled() || self.shared.is_under_way();
        let Some(client) = self.shared.client().filter(|_| wanted) else { return };
        if let Err(error) = client.interrupt(BY).await {
            tracing::warn!("{error:#}");
        }
    }

    /// Who resumes is told nothing of what was before, but asked what is still open.
    async fn arrive(&mut self, arrival: Arrival) {
        if self.shared.prompts.any() {
            let error = Error::invalid_request().data("a turn is under way in this session");
            let _ = arrival.failed(error);
            return;
        }
        match self.all.open(self.place.session).await {
            Ok((client, opened)) => {
                if let Err(error) = self.watch(client, opened, 1, Some(arrival)).await {
                    tracing::error!("a session can not be watched: {error:#}");
                }
            }
            Err(error) => {
                let _ = arrival.failed(to_error(&error));
            }
        }
    }
}
