//! The agent's side of the protocol: its methods, and the sessions of this connection.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    self, AgentCapabilities, CancelNotification, Implementation, InitializeRequest,
    InitializeResponse, LoadSessionRequest, LoadSessionResponse, McpServer, NewSessionRequest,
    NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse, SessionId,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent as AgentRole, Channel, Client as Editor, Error, on_receive_notification,
    on_receive_request,
};
use ractor::{Actor, ActorRef};
use serde_json::json;

use super::content::{self, invalid};
use super::conversation::{self, Arguments, Conversation, Wish, to_error};
use super::flow::Flow;
use super::updates::Shared;
use crate::cli::Turn;
use crate::commands::run::{self, Project};
use crate::settings;
use crate::socket::Many;

/// Serves one client until its input ends.
pub(super) async fn serve(all: Arc<Many>, flow: Flow, channel: Channel) -> Result<(), Error> {
    let agent = Arc::new(Agent { all, flow, sessions: Mutex::default() });
    let [new, load, prompt, cancel] = [(); 4].map(|()| Arc::clone(&agent));
    AgentRole
        .v1()
        .name("leftfold")
        .on_receive_request(
            async |_: InitializeRequest, responder: Responder<InitializeResponse>, _| {
                responder.respond(introduction())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest,
                        responder: Responder<NewSessionResponse>,
                        connection: ConnectionTo<Editor>| {
                responder.respond_with_result(new.new_session(request, connection).await)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest,
                        responder: Responder<LoadSessionResponse>,
                        connection: ConnectionTo<Editor>| {
                Arc::clone(&load).load_session(request, responder, connection).await
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder: Responder<PromptResponse>, _| {
                prompt.prompt(request, responder)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |request: CancelNotification, _| {
                cancel.cancel(&request.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(channel)
        .await
}

/// Who this is, and what works.
fn introduction() -> InitializeResponse {
    let prompts = PromptCapabilities::new().image(true).embedded_context(true);
    let capabilities = AgentCapabilities::new().load_session(true).prompt_capabilities(prompts);
    let name =
        Implementation::new("leftfold", env!("CARGO_PKG_VERSION")).title("Leftfold".to_owned());
    InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(capabilities).agent_info(name)
}

struct Agent {
    /// The sessions of the node, those of other connections too.
    all: Arc<Many>,
    flow: Flow,
    sessions: Mutex<HashMap<SessionId, Entry>>,
}

#[derive(Clone)]
struct Entry {
    shared: Arc<Shared>,
    talk: ActorRef<Wish>,
}

impl Agent {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, id: &SessionId) -> Result<Entry, Error> {
        self.sessions().get(id).cloned().ok_or_else(|| unknown(id))
    }

    /// Nothing is written before the first prompt; but what keeps it from working is said now.
    async fn new_session(
        &self,
        request: NewSessionRequest,
        connection: ConnectionTo<Editor>,
    ) -> Result<NewSessionResponse, Error> {
        let directory = directory(&request.cwd)?;
        let worktree = settings::worktree_of(&directory);
        let project = Project { directory, worktree, model: None, agent: None, given: None };
        let place = self.all.place(run::new_id()).map_err(|error| to_error(&error))?;
        conversation::job(place.clone(), &project).map_err(|error| to_error(&error))?;
        let id = SessionId::new(place.session.to_string());
        self.begin(id.clone(), place, project, connection).await?;
        let response = NewSessionResponse::new(id);
        Ok(match ignored(&request.mcp_servers) {
            Some(meta) => response.meta(meta),
            None => response,
        })
    }

    /// The history is read from the log beside everything else.
    async fn load_session(
        self: Arc<Self>,
        request: LoadSessionRequest,
        responder: Responder<LoadSessionResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let id = request.session_id;
        directory(&request.cwd)?;
        // the answer has no place for it that a client would read
        ignored(&request.mcp_servers);
        if let Ok(known) = self.session(&id) {
            return wish(&known, Wish::Load(responder));
        }
        let session = id.0.parse().map_err(|_| unknown(&id))?;
        let place = self.all.place(session).map_err(|error| to_error(&error))?;
        if !place.store.join("db").is_file() {
            return Err(unknown(&id));
        }
        tokio::spawn(async move {
            let looked = place.clone();
            let project = tokio::task::spawn_blocking(move || Project::of(&looked)).await;
            let entry = match project {
                Ok(Ok(project)) => self.begin(id, place, project, connection).await,
                Ok(Err(error)) => Err(to_error(&error)),
                Err(died) => Err(to_error(&died.into())),
            };
            // a client that has gone needs no answer
            let _ = match entry {
                Ok(entry) => wish(&entry, Wish::Load(responder)),
                Err(error) => responder.respond_with_error(error),
            };
        });
        Ok(())
    }

    async fn begin(
        &self,
        id: SessionId,
        place: crate::home::Place,
        project: Project,
        connection: ConnectionTo<Editor>,
    ) -> Result<Entry, Error> {
        let flow = self.flow.clone();
        let shared = Arc::new(Shared::new(id.clone(), connection, flow));
        let project = Arc::new(project);
        self.all.learn(place.clone(), Arc::clone(&project), Turn::asking());
        let all = Arc::clone(&self.all);
        let arguments = Arguments { all, shared: Arc::clone(&shared), place, project };
        let (talk, _) =
            Actor::spawn(None, Conversation, arguments).await.map_err(|e| to_error(&e.into()))?;
        let entry = Entry { shared, talk };
        self.sessions().insert(id, entry.clone());
        Ok(entry)
    }

    fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
    ) -> Result<(), Error> {
        let session = self.session(&request.session_id)?;
        let parts = content::parts(request.prompt)?;
        let ticket = session.shared.prompts.add(responder);
        wish(&session, Wish::Prompt { ticket, parts })
    }

    /// A notification has no answer: one for an unknown session is only traced.
    fn cancel(&self, id: &SessionId) {
        match self.session(id) {
            Ok(session) => {
                session.shared.prompts.cancel();
                // if it is gone, so are its prompts
                let _ = wish(&session, Wish::Cancel);
            }
            Err(_) => tracing::warn!("session/cancel for a session that is not open: {id}"),
        }
    }
}

fn wish(session: &Entry, wish: Wish) -> Result<(), Error> {
    session.talk.cast(wish).map_err(|gone| to_error(&anyhow::anyhow!("the session died: {gone}")))
}

fn unknown(id: &SessionId) -> Error {
    schema::Error::session_not_found(id.clone()).into()
}

/// The session's directory, with links resolved.
fn directory(cwd: &Path) -> Result<PathBuf, Error> {
    if !cwd.is_absolute() {
        return Err(invalid(&format!("cwd: `{}` is not an absolute path", cwd.display())));
    }
    match cwd.canonicalize() {
        Ok(directory) if directory.is_dir() => Ok(directory),
        Ok(_) => Err(invalid(&format!("cwd: {} is not a directory", cwd.display()))),
        Err(error) => Err(invalid(&format!("cwd: {}: {error}", cwd.display()))),
    }
}

/// Says of servers that they are not used: to people on standard error, to programs in the answer.
/// An editor that has some configured is not to be refused for it.
fn ignored(servers: &[McpServer]) -> Option<schema::Meta> {
    let name = |server: &McpServer| match server {
        McpServer::Http(server) => server.name.clone(),
        McpServer::Sse(server) => server.name.clone(),
        McpServer::Stdio(server) => server.name.clone(),
        _ => "?".to_owned(),
    };
    let names: Vec<String> = servers.iter().map(name).collect();
    if names.is_empty() {
        return None;
    }
    crate::note(&format!(
        "leftfold: MCP servers are not supported yet, ignored: {}",
        names.join(", ")
    ));
    let mut meta = schema::Meta::new();
    meta.insert("leftfold/ignoredMcpServers".to_owned(), json!(names));
    Some(meta)
}
