//! What all parts of one session of the connection know, and what they tell its client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Client as Editor;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ElicitationCapabilities, SessionId, SessionNotification, SessionUpdate,
    TerminalId, ToolCallUpdate, ToolCallUpdateFields,
};
use leftfold_actors::Reply;
use leftfold_events::Seq;
use leftfold_events::event::SessionChoices;
use tokio::sync::watch;

use super::errors::report;
use super::flow::Flow;
use super::prompts::Prompts;
use super::terminals::{self, Terminals};
use super::view;
use leftfold_runtime::client::Client;
use leftfold_runtime::project::Project;
use leftfold_view::QuestionId;

/// Who this client is in the log.
pub(super) const BY: &str = "acp";

/// What all parts of one session of the connection know.
pub(super) struct Shared {
    pub(super) id: SessionId,
    pub(super) connection: ConnectionTo<Editor>,
    pub(super) flow: Flow,
    pub(super) prompts: Prompts,
    /// The way to the session, once it was opened.
    client: Mutex<Option<Client>>,
    /// The last event that the client was told of.
    seen: watch::Sender<Seq>,
    /// Whether a turn is under way, whoever began it.
    under_way: watch::Sender<bool>,
    /// What the client has offered.
    pub(super) abilities: Arc<ClientCapabilities>,
    /// The client's terminals in which calls of the turn under way run.
    terminals: Mutex<Terminals>,
    /// What was said last of the commands that there are.
    commands: Mutex<Option<SessionUpdate>>,
    /// Where the session works, and how its next prompts are to be taken.
    project: Mutex<Arc<Project>>,
    /// What this client has chosen and its session has not been told of yet by the log.
    own_choices: Mutex<Vec<SessionChoices>>,
}

impl Shared {
    pub(super) fn new(
        id: SessionId,
        connection: ConnectionTo<Editor>,
        flow: Flow,
        abilities: Arc<ClientCapabilities>,
        project: Arc<Project>,
    ) -> Self {
        Self {
            id,
            connection,
            flow,
            prompts: Prompts::default(),
            client: Mutex::default(),
            seen: watch::Sender::default(),
            under_way: watch::Sender::new(false),
            abilities,
            terminals: Mutex::default(),
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

    /// This client has chosen, and the log is about to say so.
    pub(super) fn chooses(&self, choices: SessionChoices) {
        self.own_choices.lock().unwrap_or_else(PoisonError::into_inner).push(choices);
    }

    /// Takes a choice of this client's back, if it is one.
    pub(super) fn has_chosen(&self, choices: &SessionChoices) -> bool {
        let mut own = self.own_choices.lock().unwrap_or_else(PoisonError::into_inner);
        let found = own.iter().position(|own| own == choices);
        found.map(|at| own.remove(at)).is_some()
    }

    pub(super) fn tell_choices(&self, updates: impl IntoIterator<Item = SessionUpdate>) {
        updates.into_iter().for_each(|update| self.update(update));
    }

    /// For whoever begins anew.
    pub(super) fn tell_commands_again(&self, commands: SessionUpdate) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.tell_commands(commands);
    }

    /// Told where it is not what was told last.
    pub(super) fn tell_commands(&self, commands: SessionUpdate) {
        let mut told = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&commands) {
            *told = Some(commands.clone());
            self.update(commands);
        }
    }

    pub(super) fn update(&self, update: SessionUpdate) {
        let update = SessionNotification::new(self.id.clone(), update);
        self.flow.hand();
        report(self.connection.send_notification(update));
    }

    /// Tells the session an answer of the client's.
    pub(super) async fn answer(&self, asked: QuestionId, reply: Option<Reply>) {
        let Some((reply, client)) = reply.zip(self.client()) else { return };
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

    /// The call runs in this terminal of the client's, which is told so when it knows of the call.
    pub(super) async fn shows(&self, call: Seq, terminal: TerminalId) {
        // this end holds the other one
        let _ = self.seen.subscribe().wait_for(|seen| *seen >= call).await;
        if !self.is_under_way() {
            return;
        }
        self.terminals().add(call, terminal.clone());
        let fields = ToolCallUpdateFields::new().content(vec![terminals::shown(terminal)]);
        let update = ToolCallUpdate::new(view::id(call), fields);
        self.update(SessionUpdate::ToolCallUpdate(update));
    }

    pub(super) fn has_seen(&self, seq: Seq) {
        self.seen.send_replace(seq);
    }

    /// Whether a turn is under way from now on.
    pub(super) fn is_now(&self, under_way: bool) {
        self.under_way.send_replace(under_way);
    }

    pub(super) fn is_under_way(&self) -> bool {
        *self.under_way.borrow()
    }

    /// Waits until no turn is under way.
    pub(super) async fn rested(&self) {
        // this end holds the other one
        let _ = self.under_way.subscribe().wait_for(|under_way| !under_way).await;
    }

    /// Whether `by` is this client.
    pub(super) fn is_me(&self, by: &str) -> bool {
        self.client().is_some_and(|client| client.name(BY) == by)
    }
}
