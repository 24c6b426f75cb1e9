//! The agent's side of ACP: its methods, and the sessions of this connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    self, AgentCapabilities, AuthenticateRequest, AuthenticateResponse, CancelNotification,
    ClientCapabilities, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest,
    DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse,
    PromptCapabilities, PromptRequest, PromptResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities,
    SessionForkCapabilities, SessionId, SessionListCapabilities, SessionResumeCapabilities,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent as AgentRole, Channel, Client as Editor, Error, on_receive_notification,
    on_receive_request,
};
use leftfold_actors::NodeMessage;
use leftfold_tools::host::Host;
use ractor::{Actor, ActorRef};
use serde_json::json;

use super::authentication;
use super::choices::{self, AvailableChoices};
use super::content::{self, invalid};
use super::conversation::{Arguments, SessionActor, SessionCommand};
use super::errors::{report, to_error};
use super::flow::Flow;
use super::host::ClientHost;
use super::shared::{Caller, Shared};
use leftfold_runtime::Usage;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::socket::{self, Hosting, SessionRegistry};
use leftfold_runtime::turn_config::Overrides;

/// The field of `_meta` with a client's id of a prompt. A prompt whose id is in the log is not run
/// again: it is answered by the end of its turn.
pub(super) const MESSAGE: &str = "leftfold/message";

/// Wraps a method of the agent as a handler of requests.
macro_rules! on {
    ($agent:ident.$method:ident, $request:ty => $response:ty) => {{
        let agent = Arc::clone(&$agent);
        async move |request: $request,
                    responder: Responder<$response>,
                    connection: ConnectionTo<Editor>| {
            agent.$method(request, responder, connection).await
        }
    }};
}

/// Serves one client until its input ends.
pub(super) async fn serve(agent: Arc<AcpAgent>, channel: Channel) -> Result<(), Error> {
    let cancel = Arc::clone(&agent);
    AgentRole
        .v1()
        .name("leftfold")
        .on_receive_request(
            on!(agent.initialize, InitializeRequest => InitializeResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.authenticate, AuthenticateRequest => AuthenticateResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.new_session, NewSessionRequest => NewSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.load, LoadSessionRequest => LoadSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.resume, ResumeSessionRequest => ResumeSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.list, ListSessionsRequest => ListSessionsResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.fork, ForkSessionRequest => ForkSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.close, CloseSessionRequest => CloseSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.delete, DeleteSessionRequest => DeleteSessionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.set_mode, SetSessionModeRequest => SetSessionModeResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.set_option, SetSessionConfigOptionRequest => SetSessionConfigOptionResponse),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(agent.prompt, PromptRequest => PromptResponse),
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

/// The agent's name and capabilities.
fn introduction(request: &InitializeRequest) -> InitializeResponse {
    let prompts = PromptCapabilities::new().image(true).embedded_context(true);
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompts)
        .mcp_capabilities(schema::McpCapabilities::new().http(true).sse(true))
        .session_capabilities(sessions)
        .meta(methods());
    let name =
        Implementation::new("leftfold", env!("CARGO_PKG_VERSION")).title("Leftfold".to_owned());
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(name)
        .auth_methods(authentication::methods(&request.client_capabilities))
}

/// The methods besides the protocol's. Clients that call `_leftfold/watch` receive events as
/// notifications.
fn methods() -> schema::Meta {
    let methods = json!({ "methods": socket::METHODS });
    [("leftfold".to_owned(), methods)].into_iter().collect()
}

pub(super) struct AcpAgent {
    /// The sessions of the node, including those of other connections.
    pub(super) all: Arc<SessionRegistry>,
    pub(super) node: ActorRef<NodeMessage>,
    pub(super) caller: Caller,
    flow: Flow,
    hosting: OnceLock<Hosting>,
    /// The client's capabilities.
    abilities: Mutex<Arc<ClientCapabilities>>,
    sessions: Mutex<HashMap<SessionId, SessionEntry>>,
}

#[derive(Clone)]
pub(super) struct SessionEntry {
    pub(super) shared: Arc<Shared>,
    pub(super) actor: ActorRef<SessionCommand>,
    pub(super) place: SessionPlace,
}

impl AcpAgent {
    pub(super) fn new(
        all: Arc<SessionRegistry>,
        node: ActorRef<NodeMessage>,
        caller: Caller,
        flow: Flow,
    ) -> Arc<Self> {
        let (abilities, sessions, hosting) = Default::default();
        let agent = Arc::new(Self { all, node, caller, flow, hosting, abilities, sessions });
        let weak = Arc::downgrade(&agent);
        let host = move |session: leftfold_events::SessionId| {
            let agent = weak.clone();
            let open = move || {
                let id = SessionId::new(session.to_string());
                Some(agent.upgrade()?.session(&id).ok()?.shared)
            };
            Arc::new(ClientHost { session, open: Box::new(open) }) as Arc<dyn Host>
        };
        agent.hosting.get_or_init(|| agent.all.hosted_by(Arc::new(host)));
        agent
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionEntry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn session(&self, id: &SessionId) -> Result<SessionEntry, Error> {
        self.sessions().get(id).cloned().ok_or_else(|| unknown(id))
    }

    async fn initialize(
        &self,
        request: InitializeRequest,
        responder: Responder<InitializeResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let response = introduction(&request);
        let abilities = Arc::new(request.client_capabilities);
        *self.abilities.lock().unwrap_or_else(PoisonError::into_inner) = abilities;
        responder.respond(response)
    }

    /// Signs in, or checks whether settings and keys allow requests to a model.
    async fn authenticate(
        &self,
        request: AuthenticateRequest,
        responder: Responder<AuthenticateResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        // a person may take minutes
        connection.spawn(async move {
            let done = authentication::authenticate(&request.method_id.0).await;
            responder.respond_with_result(done)
        })
    }

    pub(super) async fn begin(
        &self,
        id: SessionId,
        place: SessionPlace,
        project: Project,
        connection: ConnectionTo<Editor>,
    ) -> Result<SessionEntry, Error> {
        let abilities = self.abilities.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (flow, project) = (self.flow.clone(), Arc::new(project));
        let connection = (connection, self.caller.by.clone());
        let shared = Shared::new(id.clone(), connection, flow, abilities, Arc::clone(&project));
        let shared = Arc::new(shared);
        let arguments = Arguments {
            all: Arc::clone(&self.all),
            shared: Arc::clone(&shared),
            place: place.clone(),
        };
        let (actor, _) =
            Actor::spawn(None, SessionActor, arguments).await.map_err(|e| to_error(&e.into()))?;
        let mut sessions = self.sessions();
        if let Some(first) = sessions.get(&id) {
            // Another request has opened it in the meantime; one observer is enough.
            actor.stop(None);
            return Ok(first.clone());
        }
        self.all.learn(place.clone(), project, Overrides::interactive());
        self.all.enter(place.session);
        let entry = SessionEntry { shared, actor, place };
        sessions.insert(id, entry.clone());
        Ok(entry)
    }

    /// Fixes the choices for this prompt now; later choices apply to later prompts.
    async fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let session = self.session(&request.session_id)?;
        let message = request.meta.as_ref().and_then(|meta| meta.get(MESSAGE)?.as_str());
        let message = message.map(str::to_owned);
        let parts = content::parts(request.prompt)?;
        let project = session.shared.project();
        let ticket = session.shared.prompts.add(responder);
        send_command(&session, SessionCommand::Prompt { ticket, parts, message, project })
    }

    /// A notification gets no answer, so an unknown session is only logged.
    fn cancel(&self, id: &SessionId) {
        match self.session(id) {
            Ok(session) => {
                session.shared.prompts.cancel();
                // If the session is gone, so are its prompts.
                let _ = send_command(&session, SessionCommand::Cancel);
            }
            Err(_) => tracing::warn!("session/cancel names a session that is not open: {id}"),
        }
    }

    async fn set_mode(
        &self,
        request: SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let session = self.session(&request.session_id)?;
        let available = self.choose(&session, choices::MODE, &request.mode_id.0)?;
        let shared = Arc::clone(&session.shared);
        let done = move |logged: Result<(), Error>| {
            report(responder.respond_with_result(logged.map(|()| SetSessionModeResponse::new())));
            shared.send_choices(available.updates());
        };
        send_command(&session, SessionCommand::Configure(Box::new(done)))
    }

    async fn set_option(
        &self,
        request: SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let session = self.session(&request.session_id)?;
        let Some(value) = request.value.as_value_id() else {
            return Err(invalid(&format!(
                "value: the values of the option `{}` are names",
                request.config_id
            )));
        };
        let available = self.choose(&session, &request.config_id.0, &value.0)?;
        let shared = Arc::clone(&session.shared);
        let is_mode = &*request.config_id.0 == choices::MODE;
        let done = move |logged: Result<(), Error>| {
            let response =
                logged.map(|()| SetSessionConfigOptionResponse::new(available.options()));
            report(responder.respond_with_result(response));
            if is_mode {
                shared.send_choices(available.updates());
            }
        };
        send_command(&session, SessionCommand::Configure(Box::new(done)))
    }

    /// Applies a choice to the prompts from now on, and answers all choices in force.
    fn choose(
        &self,
        session: &SessionEntry,
        id: &str,
        value: &str,
    ) -> Result<AvailableChoices, Error> {
        let SessionEntry { shared, place, .. } = session;
        let project = shared.project();
        let before =
            AvailableChoices::for_project(place, &project).map_err(|error| to_error(&error))?;
        let chosen = choices::choose(&project.choices, &before, id, value)
            .map_err(|Usage(why)| invalid(&why))?;
        let project = Project { choices: chosen.clone(), ..(*project).clone() };
        let available =
            AvailableChoices::for_project(place, &project).map_err(|error| to_error(&error))?;
        self.all.configure(place.session, chosen);
        shared.set_project(project);
        Ok(available)
    }
}

pub(super) fn send_command(
    session: &SessionEntry,
    send_command: SessionCommand,
) -> Result<(), Error> {
    session
        .actor
        .cast(send_command)
        .map_err(|gone| to_error(&anyhow::anyhow!("the session died: {gone}")))
}

pub(super) fn unknown(id: &SessionId) -> Error {
    schema::Error::session_not_found(id.clone()).into()
}
