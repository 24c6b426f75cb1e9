//! Takes what servers say on their own: progress, and that their tools have changed.
#![allow(deprecated, reason = "servers log like this until a version of the protocol to come")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, Prompt,
    ProtocolVersion, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData as McpError, RoleClient};

use super::lists::{self, Changes};
use super::probe;
use crate::text;
use crate::tool::Progress;

/// Least time between two reports of a call's progress, and bytes in one and in all of them: each is
/// an event in a log.
const REPORT_EVERY: Duration = Duration::from_millis(500);
const REPORT: usize = 1_024;
const REPORTS: usize = 64 * 1_024;

/// Bytes of one thing that a server logs.
const LOGGED: usize = 4 * 1_024;

/// Shared by a connection and whoever makes calls through it.
#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tools: Mutex<Vec<Tool>>,
    prompts: Mutex<Vec<Prompt>>,
    tools_change: Changes,
    prompts_change: Changes,
    /// Held while a request is sent, so that no progress comes before there is somebody to hear of it.
    listeners: tokio::sync::Mutex<HashMap<ProgressToken, Listener>>,
    /// Whether questions are answered with their own defaults, instead of being declined.
    of_defaults: bool,
}

struct Listener {
    progress: Progress,
    last: Option<Instant>,
    left: usize,
}

impl Desk {
    /// For nobody who could be asked, and nothing that could be harmed.
    pub(super) fn of_defaults() -> Self {
        Self(Arc::new(Shared { of_defaults: true, ..Shared::default() }))
    }

    pub(super) fn tools(&self) -> Vec<Tool> {
        self.0.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_tools(&self, tools: Vec<Tool>) {
        *self.0.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    pub(super) fn prompts(&self) -> Vec<Prompt> {
        self.0.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_prompts(&self, prompts: Vec<Prompt>) {
        *self.0.prompts.lock().unwrap_or_else(PoisonError::into_inner) = prompts;
    }

    /// Sends a request by `send`, whose progress is told to `progress` from now on.
    pub(super) async fn listen<T, E>(
        &self,
        progress: Progress,
        token: impl Fn(&T) -> ProgressToken,
        send: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut listeners = self.0.listeners.lock().await;
        let sent = send.await?;
        listeners.insert(token(&sent), Listener { progress, last: None, left: REPORTS });
        Ok(sent)
    }

    pub(super) async fn forget(&self, token: &ProgressToken) {
        self.0.listeners.lock().await.remove(token);
    }
}

impl Listener {
    fn hear(&mut self, said: String) {
        let early = self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY);
        if early || said.is_empty() || said.len() > self.left {
            return;
        }
        self.last = Some(Instant::now());
        self.left -= said.len();
        (self.progress)(said);
    }
}

fn words(said: ProgressNotificationParam) -> String {
    let words = said.message.unwrap_or_else(|| match said.total {
        Some(total) => format!("{} of {total}", said.progress),
        None => said.progress.to_string(),
    });
    text::clip(words, REPORT)
}

impl ClientHandler for Desk {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("leftfold", env!("CARGO_PKG_VERSION"));
        let mut able = ClientCapabilities::default();
        // who would only decline does not say that it can be asked
        able.elicitation = self
            .0
            .of_defaults
            .then(|| ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(able, name).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, McpError> {
        let answers = match request {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. }
                if self.0.of_defaults =>
            {
                probe::defaults(&requested_schema)
            }
            ElicitRequestParams::FormElicitationParams { .. }
            | ElicitRequestParams::UrlElicitationParams { .. }
            | _ => None,
        };
        let declined = ElicitResult::new(ElicitationAction::Decline);
        Ok(answers.map_or(declined, |answers| {
            ElicitResult::new(ElicitationAction::Accept).with_content(answers)
        }))
    }

    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        context: NotificationContext<RoleClient>,
    ) {
        let server = context.peer.peer_info().and_then(|info| info.server_info.clone());
        let server = server.map(|server| server.name).unwrap_or_default();
        let logger = said.logger.unwrap_or_default();
        let data = text::clip(said.data.to_string(), LOGGED);
        match said.level {
            LoggingLevel::Debug => tracing::debug!(%server, %logger, "{data}"),
            LoggingLevel::Info | LoggingLevel::Notice => tracing::info!(%server, %logger, "{data}"),
            LoggingLevel::Warning => tracing::warn!(%server, %logger, "{data}"),
            LoggingLevel::Error
            | LoggingLevel::Critical
            | LoggingLevel::Alert
            | LoggingLevel::Emergency => tracing::error!(%server, %logger, "{data}"),
        }
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut listeners = self.0.listeners.lock().await;
        if let Some(listener) = listeners.get_mut(&said.progress_token) {
            listener.hear(words(said));
        }
    }

    async fn on_prompt_list_changed(&self, context: NotificationContext<RoleClient>) {
        let desk = self.clone();
        self.0.prompts_change.follow(move || {
            let (desk, peer) = (desk.clone(), context.peer.clone());
            async move { lists::prompts(&peer).await.map(|prompts| desk.set_prompts(prompts)) }
        });
    }

    /// Asks for them beside everything else: what answers is the connection that told of it.
    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        let desk = self.clone();
        self.0.tools_change.follow(move || {
            let (desk, peer) = (desk.clone(), context.peer.clone());
            async move { lists::tools(&peer).await.map(|tools| desk.set_tools(tools)) }
        });
    }
}
