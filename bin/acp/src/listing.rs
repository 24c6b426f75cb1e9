//! Lists, closes and deletes sessions on disk, including those that this connection has not opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    ListSessionsRequest, ListSessionsResponse, SessionId, SessionInfo,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client as Editor, Error};
use leftfold_actors::NodeMessage;
use leftfold_store::Head;

use super::agent::{AcpAgent, SessionEntry, send_command, unknown};
use super::content::invalid;
use super::conversation::SessionCommand;
use super::errors::to_error;
use leftfold_runtime::only_people;
use leftfold_runtime::session_list;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::socket::Sessions;

/// How long a session's actor may take to stop when its client is gone.
const SESSION_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Sessions in one answer.
const PAGE: usize = 100;

impl AcpAgent {
    /// The sessions of a directory, or all sessions, latest first. A cursor is the last session's
    /// time and id.
    pub(super) async fn list(
        self: &Arc<Self>,
        request: ListSessionsRequest,
        responder: Responder<ListSessionsResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let agent = Arc::clone(self);
        tokio::task::spawn_blocking(move || responder.respond_with_result(agent.page(&request)));
        Ok(())
    }

    fn page(&self, request: &ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        // A deleted directory may have sessions too.
        let here = request.cwd.as_deref().map(resolved);
        let mut heads = self.all.listed().map_err(|error| to_error(&error))?;
        heads.retain(|head| match (&here, &head.summary) {
            (Some(here), Some(summary)) => Path::new(&summary.directory) == here,
            (Some(_), None) => false,
            (None, summary) => summary.is_some(),
        });
        heads.sort_by_cached_key(|head| std::cmp::Reverse(place_of(head)));
        if let Some(cursor) = &request.cursor {
            let id = cursor.split_once(' ').map(|(_, id)| id.parse::<leftfold_events::SessionId>());
            if !matches!(id, Some(Ok(_))) {
                return Err(invalid("cursor: this agent did not issue it"));
            }
            heads.retain(|head| place_of(head) < *cursor);
        }
        let next = heads.get(PAGE).and_then(|_| heads.get(PAGE - 1)).map(place_of);
        let sessions = heads.iter().take(PAGE).map(info).collect();
        Ok(ListSessionsResponse::new(sessions).next_cursor(next))
    }

    /// Interrupts the running turn, and closes the session.
    pub(super) async fn close(
        self: &Arc<Self>,
        request: CloseSessionRequest,
        responder: Responder<CloseSessionResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let id = request.session_id;
        self.session(&id)?;
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            agent.close_session(&id).await;
            responder.respond(CloseSessionResponse::new())
        });
        Ok(())
    }

    /// A session that does not exist counts as deleted.
    pub(super) async fn delete(
        self: &Arc<Self>,
        request: DeleteSessionRequest,
        responder: Responder<DeleteSessionResponse>,
        _: ConnectionTo<Editor>,
    ) -> Result<(), Error> {
        let id = request.session_id;
        let session = id.0.parse().map_err(|_| unknown(&id))?;
        only_people::require("leftfold node").map_err(|error| to_error(&error.into()))?;
        let own = || self.all.place(session).map_err(|error| to_error(&error));
        let place = self.all.existing(session).map_or_else(own, Ok)?;
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            agent.close_session(&id).await;
            let removed = match agent.all.keeps(&place.store) {
                true => agent.remove_here(&place).await,
                false => agent.all.remove_other(place).await,
            };
            let removed = removed.map_err(|error| to_error(&error));
            responder.respond_with_result(removed.map(|()| DeleteSessionResponse::new()))
        });
        Ok(())
    }

    async fn remove_here(&self, place: &SessionPlace) -> anyhow::Result<()> {
        if self.all.existing(place.session).is_some() {
            Sessions::remove(&*self.all, place.session).await?;
        }
        Ok(())
    }

    /// The client is gone. Turns that it waits for stay interrupted in their logs, as at the end of a
    /// node.
    pub(super) async fn hang_up(&self) {
        let entries: Vec<SessionEntry> = self.sessions().drain().map(|(_, entry)| entry).collect();
        for entry in entries {
            let session = entry.place.session;
            // A prompt that is on its way must not start a turn later.
            entry.shared.prompts.cancel();
            if entry.actor.stop_and_wait(None, Some(SESSION_STOP_TIMEOUT)).await.is_err() {
                tracing::warn!("a session of a client that is gone did not stop in time");
            }
            let was_last = self.all.leave(session);
            if was_last && entry.shared.prompts.any() {
                let closed =
                    ractor::call!(self.node, |reply| NodeMessage::Close { session, reply });
                if let Err(died) = closed {
                    tracing::debug!("the node is gone: {died}");
                }
            }
        }
    }

    fn forget(&self, id: &SessionId) {
        if let Some(entry) = self.sessions().remove(id) {
            self.all.leave(entry.place.session);
        }
    }

    /// Interrupts the running turn, waits for its end, and closes the session.
    async fn close_session(&self, id: &SessionId) {
        let Ok(entry) = self.session(id) else { return };
        let session = entry.place.session;
        entry.shared.prompts.cancel();
        if self.all.is_used_by_others(session) {
            entry.actor.stop(None);
            self.forget(id);
            return;
        }
        // If the session is gone, so is its turn.
        let _ = send_command(&entry, SessionCommand::Cancel);
        entry.shared.rested().await;
        entry.actor.stop(None);
        self.forget(id);
        let closed = ractor::call!(self.node, |reply| NodeMessage::Close { session, reply });
        if let Err(died) = closed {
            tracing::debug!("the node is gone: {died}");
        }
    }
}

fn resolved(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned())
}

/// A session's position in the list.
fn place_of(head: &Head) -> String {
    format!("{} {}", head.at, head.session)
}

fn info(head: &Head) -> SessionInfo {
    let directory = head.summary.as_ref().map(|summary| summary.directory.clone());
    let mut info = SessionInfo::new(head.session.to_string(), directory.unwrap_or_default())
        .title(Some(session_list::title(head)).filter(|title| !title.is_empty()))
        .updated_at(head.at.to_string());
    if let Some(summary) = head.summary.as_ref().and_then(|summary| summary.summary.clone()) {
        let meta = serde_json::Map::from_iter([("leftfold/summary".to_owned(), summary.into())]);
        info = info.meta(meta);
    }
    info
}
