//! One session of the connection. It takes what the client wants of it one after the other, so that
//! a cancel never overtakes the prompt it is for.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::LoadSessionResponse;
use leftfold_actors::{NodeMessage, Observation, Opened};
use leftfold_events::Seq;
use leftfold_events::event::PromptPart;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::updates::{self, BY, Shared, Updates};
use crate::cli::{PermissionMode, Turn};
use crate::client::{self, Client, Job};
use crate::commands::run::{self, Project};
use crate::home::Place;

pub(super) enum Wish {
    /// Already among the prompts that wait, as `ticket`.
    Prompt {
        ticket: u64,
        parts: Vec<PromptPart>,
    },
    /// Everything that waits is already marked.
    Cancel,
    Load(Responder<LoadSessionResponse>),
}

pub(super) struct Conversation;

pub(super) struct Talk {
    node: ActorRef<NodeMessage>,
    shared: Arc<Shared>,
    place: Place,
    project: Arc<Project>,
    client: Option<(Client, ActorRef<Observation>)>,
}

pub(super) struct Arguments {
    pub(super) node: ActorRef<NodeMessage>,
    pub(super) shared: Arc<Shared>,
    pub(super) place: Place,
    pub(super) project: Project,
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
        let Arguments { node, shared, place, project } = arguments;
        Ok(Talk { node, shared, place, project: Arc::new(project), client: None })
    }

    async fn handle(
        &self,
        _: ActorRef<Wish>,
        wish: Wish,
        talk: &mut Talk,
    ) -> Result<(), ActorProcessingErr> {
        match wish {
            Wish::Prompt { ticket, .. } if talk.shared.prompts.answer_cancelled(ticket) => {}
            Wish::Prompt { ticket, parts } => {
                if let Err(error) = talk.prompt(parts).await {
                    talk.shared.prompts.fail(ticket, &to_error(&error));
                }
            }
            Wish::Cancel => talk.cancel(),
            Wish::Load(responder) => talk.load(responder).await,
        }
        Ok(())
    }
}

/// What settings say right now; the client is there to be asked.
pub(super) fn job(place: Place, project: &Project) -> anyhow::Result<Job<'_>> {
    let turn = Turn { permission_mode: Some(PermissionMode::Ask), ..Turn::default() };
    run::job(place, project, &turn, false)
}

/// A usage error is the client's to repair.
pub(super) fn to_error(error: &anyhow::Error) -> Error {
    let standard =
        if error.is::<crate::Usage>() { Error::invalid_params() } else { Error::internal_error() };
    Error::new(standard.code, format!("{error:#}"))
}

impl Talk {
    async fn prompt(&mut self, parts: Vec<PromptPart>) -> anyhow::Result<()> {
        let project = Arc::clone(&self.project);
        let job = job(self.place.clone(), &project)?;
        let (client, opened) = Client::open(self.node.clone(), &job).await?;
        let unfinished = opened.unfinished;
        let client = match &self.client {
            Some((client, _)) => client.clone(),
            None => {
                let from = opened.head + 1;
                self.watch(client, opened, from, None).await?
            }
        };
        if unfinished {
            client.resume(&job, true)?;
        }
        client.prompt_parts(&job, parts, BY)
    }

    /// Has the client told of every event from `from` on.
    async fn watch(
        &mut self,
        client: Client,
        mut opened: Opened,
        from: Seq,
        load: Option<Responder<LoadSessionResponse>>,
    ) -> anyhow::Result<Client> {
        let arguments = updates::Arguments {
            shared: Arc::clone(&self.shared),
            client: client.clone(),
            history: opened.head,
            load,
        };
        let (sink, _) = Actor::spawn(None, Updates, arguments).await?;
        client.watch(from, sink.clone())?;
        if let Some((_, before)) = self.client.replace((client.clone(), sink)) {
            before.stop(None);
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let why = client::closed(&mut opened).await;
            shared.prompts.fail_all(&to_error(&anyhow::anyhow!(why)));
        });
        Ok(client)
    }

    fn cancel(&self) {
        let Some((client, _)) = self.client.as_ref().filter(|_| self.shared.prompts.cancelled())
        else {
            return;
        };
        if let Err(error) = client.interrupt(BY) {
            tracing::warn!("{error:#}");
        }
    }

    async fn load(&mut self, responder: Responder<LoadSessionResponse>) {
        if self.shared.prompts.any() {
            let error = Error::invalid_request().data("a turn is under way in this session");
            let _ = responder.respond_with_error(error);
            return;
        }
        let project = Arc::clone(&self.project);
        let opened = match job(self.place.clone(), &project) {
            Ok(job) => Client::open(self.node.clone(), &job).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok((client, opened)) => {
                if let Err(error) = self.watch(client, opened, 1, Some(responder)).await {
                    tracing::error!("a session can not be watched: {error:#}");
                }
            }
            Err(error) => {
                let _ = responder.respond_with_error(to_error(&error));
            }
        }
    }
}

/// Where the session `id` is: in the one store of the node, or in its own.
pub(super) fn place(
    store: Option<&PathBuf>,
    session: leftfold_events::SessionId,
) -> anyhow::Result<Place> {
    match store {
        Some(store) => Ok(Place { store: store.clone(), session }),
        None => crate::home::new_place(session),
    }
}
