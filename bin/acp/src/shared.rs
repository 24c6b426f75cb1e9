//! The state that all parts of one session of the connection share, and the updates that they send.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Client as Editor;
use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ElicitationCapabilities, SessionId, SessionNotification, SessionUpdate,
    TerminalId, ToolCallUpdate, ToolCallUpdateFields,
};
use leftfold_actors::QuestionReply;
use leftfold_events::Seq;
use leftfold_events::event::SessionChoices;
use serde_json::json;
use tokio::sync::watch;

use super::call_ids::CallIds;
use super::errors::report;
use super::flow::Flow;
use super::prompts::PendingPrompts;
use super::terminals::{self, Terminals};
use leftfold_runtime::client::Client;
use leftfold_runtime::project::Project;
use leftfold_view::QuestionId;

/// The name of these clients in the log.
pub(super) const NAME: &str = "acp";

/// The client of a connection, as the log names it.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// `acp`, with the pid of the process that passes the connection on.
    pub(super) by: String,
    pub(super) pid: Option<i32>,
}

impl Caller {
    /// The client of this process, or of the process `pid`, which passes the connection on.
    pub(super) fn new(pid: Option<i32>) -> Self {
        Self { by: leftfold_runtime::remote::name_of(NAME, pid), pid }
    }
}

/// The field of a client's `_meta` by which it asks for the seq of each event that it was sent. A
/// process that passes a connection on needs them to go on elsewhere.
pub(super) const SEEN: &str = "leftfold/seen";

/// The notification that answers [`SEEN`].
pub(super) const SEEN_METHOD: &str = "_leftfold/seen";

/// The state that all parts of one session of the connection share.
pub(super) struct Shared {
    pub(super) id: SessionId,
    pub(super) connection: ConnectionTo<Editor>,
    pub(super) by: String,
    pub(super) flow: Flow,
    pub(super) prompts: PendingPrompts,
    /// The client of the session, once it is open.
    client: Mutex<Option<Client>>,
    /// The last event sent to the client.
    seen: watch::Sender<Seq>,
    /// Whether a turn is running, whichever client started it.
    running: watch::Sender<bool>,
    /// The client's capabilities.
    pub(super) abilities: Arc<ClientCapabilities>,
    /// The client's terminals in which calls of the running turn run.
    terminals: Mutex<Terminals>,
    pub(super) call_ids: CallIds,
    /// The last list of commands sent to the client.
    commands: Mutex<Option<SessionUpdate>>,
    /// The session's project, with the choices for its next prompts.
    project: Mutex<Arc<Project>>,
    /// Choices of this client that the log has not confirmed yet.
    own_choices: Mutex<Vec<SessionChoices>>,
}

impl Shared {
    pub(super) fn new(
        id: SessionId,
        (connection, by): (ConnectionTo<Editor>, String),
        flow: Flow,
        abilities: Arc<ClientCapabilities>,
        project: Arc<Project>,
    ) -> Self {
        Self {
            id,
            connection,
            by,
            flow,
            prompts: PendingPrompts::default(),
            client: Mutex::default(),
            seen: watch::Sender::default(),
            running: watch::Sender::new(false),
            abilities,
            terminals: Mutex::default(),
            call_ids: CallIds::default(),
            commands: Mutex::default(),
            project: Mutex::new(project),
            own_choices: Mutex::default(),
        }
    }

    pub(super) fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn reach_by(&self, client: Client) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    pub(super) fn project(&self) -> Arc<Project> {
        self.project.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_project(&self, project: Project) {
        *self.project.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(project);
    }

    /// Notes a choice of this client that is about to be logged.
    pub(super) fn expect_choice(&self, choices: SessionChoices) {
        self.own_choices.lock().unwrap_or_else(PoisonError::into_inner).push(choices);
    }

    /// Removes a choice of this client, and answers whether it was one.
    pub(super) fn confirm_choice(&self, choices: &SessionChoices) -> bool {
        let mut own = self.own_choices.lock().unwrap_or_else(PoisonError::into_inner);
        let found = own.iter().position(|own| own == choices);
        found.map(|at| own.remove(at)).is_some()
    }

    pub(super) fn send_choices(&self, updates: impl IntoIterator<Item = SessionUpdate>) {
        updates.into_iter().for_each(|update| self.update(update));
    }

    /// Sends the list of commands even if it has not changed, for a client that loads the session.
    pub(super) fn resend_commands(&self, commands: SessionUpdate) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.send_commands(commands);
    }

    /// Sends the list of commands if it has changed.
    pub(super) fn send_commands(&self, commands: SessionUpdate) {
        let mut sent = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.as_ref() != Some(&commands) {
            *sent = Some(commands.clone());
            self.update(commands);
        }
    }

    pub(super) fn update(&self, update: SessionUpdate) {
        let update = SessionNotification::new(self.id.clone(), update);
        self.flow.hand();
        report(self.connection.send_notification(update));
    }

    /// Sends the client's answer to the session.
    pub(super) async fn answer(&self, asked: QuestionId, reply: Option<QuestionReply>) {
        let Some((reply, client)) = reply.zip(self.client()) else { return };
        let reply = QuestionReply { by: self.by.clone(), ..reply };
        match client.answer(asked, reply).await {
            Ok(answered) => tracing::debug!(of = asked.1, "{answered}"),
            Err(error) => tracing::warn!("{error:#}"),
        }
    }

    pub(super) fn seen(&self) -> Seq {
        *self.seen.borrow()
    }

    pub(super) fn has_forms(&self) -> bool {
        let elicits = self.abilities.elicitation.as_ref();
        elicits.is_some_and(ElicitationCapabilities::supports_form)
    }

    pub(super) fn terminals(&self) -> MutexGuard<'_, Terminals> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the call runs in this terminal of the client, and sends it once the client knows
    /// the call.
    pub(super) async fn shows(&self, call: Seq, terminal: TerminalId) {
        // The sender is held by this value, so waiting cannot fail.
        let _ = self.seen.subscribe().wait_for(|seen| *seen >= call).await;
        if !self.is_running() {
            return;
        }
        let id = self.call_ids.for_call(call);
        self.terminals().add(id.clone(), terminal.clone());
        let fields = ToolCallUpdateFields::new().content(vec![terminals::shown(terminal)]);
        let update = ToolCallUpdate::new(id, fields);
        self.update(SessionUpdate::ToolCallUpdate(update));
    }

    pub(super) fn has_seen(&self, seq: Seq) {
        self.seen.send_replace(seq);
    }

    /// Sends the seq of an event whose updates the client was sent, if it has asked for it.
    pub(super) fn report_seen(&self, seq: Seq) {
        if self.abilities.meta.as_ref().is_some_and(|meta| meta.contains_key(SEEN)) {
            let params = json!({ "sessionId": self.id, "seq": seq });
            let sent = UntypedMessage::new(SEEN_METHOD, params);
            report(sent.and_then(|seen| self.connection.send_notification(seen)));
        }
    }

    /// Sets whether a turn is running.
    pub(super) fn set_running(&self, running: bool) {
        self.running.send_replace(running);
    }

    pub(super) fn is_running(&self) -> bool {
        *self.running.borrow()
    }

    /// Waits until no turn is running.
    pub(super) async fn rested(&self) {
        // The sender is held by this value, so waiting cannot fail.
        let _ = self.running.subscribe().wait_for(|running| !running).await;
    }

    /// Whether `by` is this client.
    pub(super) fn is_this_client(&self, by: &str) -> bool {
        self.client().is_some_and(|client| client.name(&self.by) == by)
    }
}
