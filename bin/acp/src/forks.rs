//! `session/fork`, which the protocol has not made stable yet: forks a session as `leftfold fork`
//! does. `_meta` may name the last shared event: `{"leftfold/at": SEQ}`.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ForkSessionRequest, ForkSessionResponse, McpServer, Meta, SessionId,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client as Editor, Error};
use leftfold_events::{Seq, SessionId as Session};

use super::agent::{AcpAgent, unknown};
use super::choices::AvailableChoices;
use super::content::invalid;
use super::errors::to_error;
use super::opening::directory;
use super::servers::{handed, ignored};
use super::shared::NAME;
use leftfold_runtime::client;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::socket::{self, RpcError};

/// The field of `_meta` with the last shared event.
const AT: &str = "leftfold/at";

impl AcpAgent {
    pub(super) async fn fork(
        self: &Arc<Self>,
        request: ForkSessionRequest,
        responder: Responder<ForkSessionResponse>,
        connection: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let ForkSessionRequest { session_id, cwd, mcp_servers, meta, .. } = request;
        directory(&cwd)?;
        let at = at(meta.as_ref())?;
        let of: Session = session_id.0.parse().map_err(|_| unknown(&session_id))?;
        let place = self.all.existing(of).ok_or_else(|| unknown(&session_id))?;
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            let forked = agent.forked(place, at, &mcp_servers, connection).await;
            responder.respond_with_result(forked)
        });
        Ok(())
    }

    async fn forked(
        &self,
        place: SessionPlace,
        at: Option<Seq>,
        servers: &[McpServer],
        connection: ConnectionTo<Editor>,
    ) -> Result<ForkSessionResponse, Error> {
        let session = self.make_fork(place.session, at).await.map_err(|error| refused(&error))?;
        let place = SessionPlace { session, ..place };
        let looked = place.clone();
        let project = tokio::task::spawn_blocking(move || Project::for_session(&looked)).await;
        let project = project.map_err(|died| to_error(&died.into()))?;
        let project =
            Project { servers: handed(servers), ..project.map_err(|error| to_error(&error))? };
        let id = SessionId::new(session.to_string());
        let entry = self.begin(id.clone(), place, project, connection).await?;
        let available = AvailableChoices::for_project(&entry.place, &entry.shared.project());
        let available = available.map_err(|error| to_error(&error))?;
        entry.shared.send_commands(available.commands());
        Ok(ForkSessionResponse::new(id)
            .modes(available.modes())
            .config_options(available.options())
            .meta(ignored(servers)))
    }
}

impl AcpAgent {
    /// Asks again if the node is releasing the session.
    async fn make_fork(&self, of: Session, at: Option<Seq>) -> Result<Session, RpcError> {
        let mut left = client::ATTEMPTS;
        loop {
            let all = Arc::clone(&self.all);
            match socket::fork_as(all, (NAME, self.caller.pid), of, at).await {
                Err(error) if error.is_leaving() && left > 0 => left -= 1,
                made => return made,
            }
            tokio::time::sleep(client::RETRY_DELAY).await;
        }
    }
}

fn at(meta: Option<&Meta>) -> Result<Option<Seq>, Error> {
    let Some(at) = meta.and_then(|meta| meta.get(AT)) else { return Ok(None) };
    let why = || invalid(&format!("_meta: `{AT}` is the seq of an event"));
    at.as_u64().map(Some).ok_or_else(why)
}

fn refused(error: &RpcError) -> Error {
    let standard = i32::try_from(error.code).ok().filter(|code| (-32700..=-32600).contains(code));
    let code = standard.unwrap_or_else(|| Error::internal_error().code.into());
    Error::new(code, error.message.clone())
}
