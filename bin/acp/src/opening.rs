//! Opens sessions of a connection: new ones and existing ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    LoadSessionRequest, LoadSessionResponse, McpServer, Meta, NewSessionRequest,
    NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse, SessionId,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client as Editor, Error};

use super::agent::{AcpAgent, SessionEntry, send_command, unknown};
use super::arrival::Arrival;
use super::choices::AvailableChoices;
use super::content::invalid;
use super::conversation::SessionCommand;
use super::errors::to_error;
use super::servers::{handed, ignored};
use leftfold_config as settings;
use leftfold_events::SessionId as Session;
use leftfold_events::rules::Rule;
use leftfold_runtime::only_people;
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::socket;
use leftfold_runtime::trust;

/// The field of `_meta` with the session's own permission rules.
const RULES: &str = "leftfold/rules";

/// The field of `_meta` with the id of a new session. A process that passes a connection on begins a
/// session again that has no log yet.
pub(super) const ID: &str = "leftfold/session";

/// The field of `_meta` with the last event of a resumed session that the client knows.
pub(super) const AFTER: &str = "leftfold/after";

impl AcpAgent {
    /// Writes nothing before the first prompt, but reports errors in settings now.
    pub(super) async fn new_session(
        &self,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let directory = directory(&request.cwd)?;
        let worktree = settings::worktree_of(&directory);
        let servers = handed(&request.mcp_servers);
        let rules = rules(request.meta.as_ref())?;
        let rules_given = !rules.is_empty();
        let project = Project { servers, rules, ..Project::new(directory, worktree) };
        let session = self.new_id(request.meta.as_ref())?;
        let place = self.all.place(session).map_err(|error| to_error(&error))?;
        let available = match AvailableChoices::for_project(&place, &project) {
            // a model may be among the settings that the user is asked to trust at the first prompt
            Err(_) if trust::is_pending(&project.directory) => None,
            available => Some(available.map_err(|error| to_error(&error))?),
        };
        let id = SessionId::new(place.session.to_string());
        let entry = self.begin(id.clone(), place, project, connection).await?;
        if rules_given {
            self.set_rules(&entry).await.map_err(|error| to_error(&error))?;
        }
        let mut response = NewSessionResponse::new(id).meta(ignored(&request.mcp_servers));
        if let Some(available) = &available {
            response = response.modes(available.modes()).config_options(available.options());
        }
        responder.respond(response)?;
        if let Some(available) = available {
            entry.shared.send_commands(available.commands());
        }
        Ok(())
    }

    /// Gives the rules of a new session to its node, which keeps them for the first prompt.
    async fn set_rules(&self, entry: &SessionEntry) -> anyhow::Result<()> {
        let (client, _) = self.all.open(entry.place.session).await?;
        client.set_rules(entry.shared.project().rules.clone(), &self.caller.by).await.map(|_| ())
    }

    pub(super) async fn load(
        self: &Arc<Self>,
        request: LoadSessionRequest,
        responder: Responder<LoadSessionResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let LoadSessionRequest { session_id, cwd, mcp_servers, .. } = request;
        self.open(session_id, &cwd, &mcp_servers, Arrival::Load(responder), connection)
    }

    pub(super) async fn resume(
        self: &Arc<Self>,
        request: ResumeSessionRequest,
        responder: Responder<ResumeSessionResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let ResumeSessionRequest { session_id, cwd, mcp_servers, meta, .. } = request;
        let after = meta.as_ref().and_then(|meta| meta.get(AFTER)?.as_u64());
        let arrival = Arrival::Resume(responder, after);
        self.open(session_id, &cwd, &mcp_servers, arrival, connection)
    }

    /// The id of a new session, which the client may choose.
    fn new_id(&self, meta: Option<&Meta>) -> Result<Session, Error> {
        let Some(id) = meta.and_then(|meta| meta.get(ID)) else { return Ok(project::new_id()) };
        let chosen = id.as_str().and_then(|id| id.parse().ok());
        let chosen = chosen.filter(|id| self.all.existing(*id).is_none());
        chosen.ok_or_else(|| {
            invalid(&format!("_meta: `{ID}` is the id of a session that does not exist yet"))
        })
    }

    /// Reads the history from the log, concurrently with other requests.
    fn open(
        self: &Arc<Self>,
        id: SessionId,
        cwd: &Path,
        servers: &[McpServer],
        arrival: Arrival,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        directory(cwd)?;
        // The answer has no field for it that clients read.
        ignored(servers);
        let servers = handed(servers);
        if let Ok(known) = self.session(&id) {
            return send_command(&known, SessionCommand::Arrive(arrival));
        }
        only_people::require("leftfold node").map_err(|error| to_error(&error.into()))?;
        let session = id.0.parse().map_err(|_| unknown(&id))?;
        let place = self.all.existing(session).ok_or_else(|| unknown(&id))?;
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            let looked = place.clone();
            let project = tokio::task::spawn_blocking(move || Project::for_session(&looked)).await;
            let entry: Result<SessionEntry, Error> = match project {
                Ok(Ok(project)) => {
                    let project = Project { servers, ..project };
                    agent.begin(id, place, project, connection).await
                }
                Ok(Err(error)) => Err(to_error(&error)),
                Err(died) => Err(to_error(&died.into())),
            };
            // A client that is gone needs no answer.
            let _ = match entry {
                Ok(entry) => send_command(&entry, SessionCommand::Arrive(arrival)),
                Err(error) => arrival.failed(error),
            };
        });
        Ok(())
    }
}

/// The rules in `_meta`, which the session has from its first prompt on.
fn rules(meta: Option<&Meta>) -> Result<Vec<Rule>, Error> {
    let Some(rules) = meta.and_then(|meta| meta.get(RULES)) else { return Ok(Vec::new()) };
    socket::rules(rules).map_err(|error| invalid(&format!("_meta: `{RULES}`: {}", error.message)))
}

/// The session's directory, with links resolved.
pub(super) fn directory(cwd: &Path) -> Result<PathBuf, Error> {
    if !cwd.is_absolute() {
        return Err(invalid(&format!("cwd: `{}` is not an absolute path", cwd.display())));
    }
    match cwd.canonicalize() {
        Ok(directory) if directory.is_dir() => Ok(directory),
        Ok(_) => Err(invalid(&format!("cwd: {} is not a directory", cwd.display()))),
        Err(error) => Err(invalid(&format!("cwd: {}: {error}", cwd.display()))),
    }
}
