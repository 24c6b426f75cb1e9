//! Handles what servers send unasked: progress, elicitations, log messages, changed lists of tools
//! and prompts.
#![allow(deprecated, reason = "servers log like this until a version of the protocol to come")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::Json;
use leftfold_events::event::{Consent, Wanted};
use leftfold_framing::clip;
use leftfold_tools::{Elicit, Elicitation, Progress};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ElicitationSchema, FormElicitationCapability, Implementation,
    ListRootsResult, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken, Prompt, ProtocolVersion, Root, RootsCapabilities, Tool,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData as McpError, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::lists::{self, Changes};

/// Least time between two progress reports of a call. Each report is an event in a log, so `REPORT`
/// limits the bytes of one report and `REPORTS` the bytes of all reports of a call.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
const REPORT: usize = 1_024;
const REPORTS: usize = 64 * 1_024;

/// Bytes kept of one log message of a server.
const LOGGED: usize = 4 * 1_024;

/// Bytes kept of the message of an elicitation.
const MESSAGE: usize = 4 * 1_024;

/// The directories of projects, and the servers whose tools have changed.
static TOOL_CHANGES: LazyLock<broadcast::Sender<(PathBuf, String)>> =
    LazyLock::new(|| broadcast::channel(64).0);

/// Receives from now on the directory of a project and the name of one of its servers whenever the server has other tools
/// than before, also after its start.
pub fn tool_changes() -> broadcast::Receiver<(PathBuf, String)> {
    TOOL_CHANGES.subscribe()
}

/// Shared by a connection and the calls made through it.
#[derive(Clone, Default)]
pub(super) struct ClientHandler(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tools: Mutex<Vec<Tool>>,
    prompts: Mutex<Vec<Prompt>>,
    tools_change: Changes,
    prompts_change: Changes,
    /// Locked while a request is sent, so that no progress arrives before its listener is
    /// registered.
    listeners: tokio::sync::Mutex<HashMap<ProgressToken, Listener>>,
    /// Answers elicitations with the defaults in their schemas instead of asking a person.
    of_defaults: bool,
    /// The server's name in settings, and the directory of its project.
    server: String,
    directory: PathBuf,
    /// The address of the project's folder, for a server on this machine.
    root: OnceLock<String>,
    /// The calls under way, each with a way to ask the person it is made for.
    askers: Mutex<Vec<(u64, Elicit)>>,
    last_asker: AtomicU64,
}

/// Registers a call under way. While the value lives, the server's elicitations may go to this
/// call.
pub(super) struct ActiveCall {
    handler: ClientHandler,
    asker: u64,
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.handler.askers().retain(|(asker, _)| *asker != self.asker);
    }
}

struct Listener {
    progress: Progress,
    last: Option<Instant>,
    left: usize,
}

impl ClientHandler {
    /// A handler for a server that sessions use.
    pub(super) fn for_server(server: &str, directory: &Path) -> Self {
        let (server, directory) = (server.to_owned(), directory.to_owned());
        Self(Arc::new(Shared { server, directory, ..Shared::default() }))
    }

    /// A handler for `mcp probe`: no session exists, so elicitations get the defaults of their
    /// schemas.
    pub(super) fn of_defaults() -> Self {
        Self(Arc::new(Shared { of_defaults: true, ..Shared::default() }))
    }

    /// Tells the server the project's folder if it asks for roots: it need not have been started there.
    pub(super) fn set_project(&self, folder: &Path) {
        let address = reqwest::Url::from_file_path(folder).ok();
        let _ = address.map(|address| self.0.root.set(address.into()));
    }

    /// Says that the server has other tools than before. Perhaps nobody listens.
    pub(super) fn tools_changed(&self) {
        let _ = TOOL_CHANGES.send((self.0.directory.clone(), self.0.server.clone()));
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

    /// Sends a request with `send`. Its progress goes to `progress` from now on.
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

    /// Registers a call: elicitations may go to `elicit` until the returned value is dropped.
    pub(super) fn ask_by(&self, elicit: Elicit) -> ActiveCall {
        let asker = self.0.last_asker.fetch_add(1, Ordering::Relaxed);
        self.askers().push((asker, elicit));
        ActiveCall { handler: self.clone(), asker }
    }

    fn askers(&self) -> MutexGuard<'_, Vec<(u64, Elicit)>> {
        self.0.askers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a person. The protocol does not say which call an elicitation belongs to, so the latest
    /// call under way gets it. Without a call under way nobody can be asked.
    async fn ask_person(&self, message: String, wanted: Wanted) -> ElicitResult {
        let latest = self.askers().last().map(|(_, elicit)| Arc::clone(elicit));
        let Some(elicit) = latest else {
            return ElicitResult::new(ElicitationAction::Cancel);
        };
        let (from, message) = (self.0.server.clone(), clip(message, MESSAGE));
        match elicit(Elicitation { from, message, wanted }).await {
            (Consent::Accepted, content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(content.value())
            }
            (Consent::Declined, _) => ElicitResult::new(ElicitationAction::Decline),
            (Consent::Cancelled, _) => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    pub(super) async fn forget(&self, token: &ProgressToken) {
        self.0.listeners.lock().await.remove(token);
    }
}

impl Listener {
    fn report(&mut self, said: String) {
        let early = self.last.is_some_and(|last| last.elapsed() < REPORT_INTERVAL);
        if early || said.is_empty() || said.len() > self.left {
            return;
        }
        self.last = Some(Instant::now());
        self.left -= said.len();
        (self.progress)(said);
    }
}

fn progress_text(said: ProgressNotificationParam) -> String {
    let words = said.message.unwrap_or_else(|| match said.total {
        Some(total) => format!("{} of {total}", said.progress),
        None => said.progress.to_string(),
    });
    clip(words, REPORT)
}

/// The fields of the schema in the server's order.
fn in_order(schema: &ElicitationSchema) -> Json {
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    if let (Some(order), Some(fields)) =
        (&schema.property_order, value["properties"].as_object_mut())
    {
        let mut sorted: Vec<_> = std::mem::take(fields).into_iter().collect();
        let place = |name: &String| order.iter().position(|known| known == name);
        sorted.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        fields.extend(sorted);
    }
    Json::from_value(&value)
}

/// Answers an elicitation with the defaults in its schema, if every required field has one.
fn defaults(schema: &ElicitationSchema) -> Option<Value> {
    let schema = serde_json::to_value(schema).ok()?;
    let fields = schema["properties"].as_object()?;
    let default =
        |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
    let answers: Map<String, Value> = fields.iter().filter_map(default).collect();
    let mut required =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| answers.contains_key(name)).then_some(Value::Object(answers))
}

impl rmcp::ClientHandler for ClientHandler {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("leftfold", env!("CARGO_PKG_VERSION"));
        let mut able = ClientCapabilities::default();
        let mut elicitation =
            ElicitationCapability::new().with_form(FormElicitationCapability::new());
        if !self.0.of_defaults {
            elicitation = elicitation.with_url(UrlElicitationCapability::new());
        }
        able.elicitation = Some(elicitation);
        able.roots = self.0.root.get().map(|_| RootsCapabilities::default());
        ClientConfig::new(able, name).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, McpError> {
        Ok(ListRootsResult::new(self.0.root.get().map(Root::new).into_iter().collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, McpError> {
        let (message, wanted) = match request {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. }
                if self.0.of_defaults =>
            {
                let answers = defaults(&requested_schema);
                let declined = ElicitResult::new(ElicitationAction::Decline);
                return Ok(answers.map_or(declined, |answers| {
                    ElicitResult::new(ElicitationAction::Accept).with_content(answers)
                }));
            }
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, Wanted::Form { schema: in_order(&requested_schema) })
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. }
                if !self.0.of_defaults && is_page(&url) =>
            {
                (message, Wanted::Visit { url })
            }
            ElicitRequestParams::UrlElicitationParams { .. } | _ => {
                return Ok(ElicitResult::new(ElicitationAction::Decline));
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            result = self.ask_person(message, wanted) => Ok(result),
        }
    }

    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        context: NotificationContext<RoleClient>,
    ) {
        let server = context.peer.peer_info().and_then(|info| info.server_info.clone());
        let server = server.map(|server| server.name).unwrap_or_default();
        let logger = said.logger.unwrap_or_default();
        let data = clip(said.data.to_string(), LOGGED);
        match said.level {
            LoggingLevel::Debug => tracing::debug!(%server, %logger, "{data}"),
            _ => {
                // a server's warning is not one of Leftfold's: the terminal shows only Leftfold's
                // own by default
                tracing::info!(%server, %logger, level = ?said.level, "{data}");
            }
        }
    }

    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut listeners = self.0.listeners.lock().await;
        if let Some(listener) = listeners.get_mut(&said.progress_token) {
            listener.report(progress_text(said));
        }
    }

    async fn on_prompt_list_changed(&self, context: NotificationContext<RoleClient>) {
        let handler = self.clone();
        self.0.prompts_change.follow(move || {
            let (handler, peer) = (handler.clone(), context.peer.clone());
            async move { lists::prompts(&peer).await.map(|prompts| handler.set_prompts(prompts)) }
        });
    }

    /// Asks for the tools in a background task, because the connection that reported the change
    /// also delivers the answer.
    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        let handler = self.clone();
        self.0.tools_change.follow(move || {
            let (handler, peer) = (handler.clone(), context.peer.clone());
            async move {
                let tools = lists::tools(&peer).await?;
                handler.set_tools(tools);
                handler.tools_changed();
                Ok(())
            }
        });
    }
}

/// Whether a person may be asked to open the address: no file, and nothing that starts a program.
fn is_page(url: &str) -> bool {
    let start = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    start.is_some_and(|scheme| scheme == "https" || scheme == "http")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_are_asked_to_open_pages_only() {
        for (url, expected) in [
            ("https://a.example/x", true),
            ("HTTP://a.example", true),
            ("file:///etc/passwd", false),
            ("javascript:alert(1)", false),
            ("ssh://https://x", false),
            ("x", false),
        ] {
            assert_eq!(is_page(url), expected, "{url}");
        }
    }

    #[test]
    fn questions_are_answered_with_their_defaults_if_these_are_enough() {
        let schema = |required: Value| -> ElicitationSchema {
            let fields = json!({
                "name": { "type": "string", "default": "x" }, "age": { "type": "integer" },
            });
            let schema = json!({ "type": "object", "properties": fields, "required": required });
            serde_json::from_value(schema).unwrap()
        };
        assert_eq!(defaults(&schema(json!(["name"]))), Some(json!({ "name": "x" })));
        assert_eq!(defaults(&schema(json!(["age"]))), None);
    }
}
