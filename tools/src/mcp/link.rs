//! A living connection to one server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leftfold_events::Json;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams,
    JsonObject, Prompt, PromptMessage, Resource, ServerResult, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use tokio::process::Child;
use tokio::task::JoinSet;

use super::connect::{self, Failure};
use super::desk::Desk;
use super::remote::{self, SIGN_IN};
use super::stdio::UNREADABLE;
use super::{content, lists, resources};
use crate::processes::Running;
use crate::{Context, Error, text};

/// How long a server is given to end by itself when its input has ended. Many do not.
const GRACE: Duration = Duration::from_millis(250);

/// How long the end of a connection waits for its server to have been told what was cancelled before.
const TELL: Duration = Duration::from_secs(1);

pub(super) struct Link {
    peer: Peer<RoleClient>,
    desk: Desk,
    life: Mutex<Option<Life>>,
    /// Cancellations on their way to the server; those who cancel do not wait for them.
    telling: Mutex<JoinSet<()>>,
}

/// What ends with the connection, in this order.
pub(super) struct Life {
    pub(super) service: RunningService<RoleClient, Desk>,
    /// The process of a local server, and all that it has started.
    pub(super) process: Option<(Child, Option<Running>)>,
}

impl Link {
    pub(super) fn new(life: Life, desk: Desk) -> Self {
        let peer = life.service.peer().clone();
        Self { peer, desk, life: Mutex::new(Some(life)), telling: Mutex::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Those of the server, and those that read what it has to be read.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let mut tools = self.desk.tools();
        if self.has_resources() {
            tools.extend(resources::tools(&tools));
        }
        tools
    }

    pub(super) fn own_tools(&self) -> Vec<Tool> {
        self.desk.tools()
    }

    fn has_resources(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Asks for the tools. A server that never said it had any need not answer.
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, Failure> {
        let info = self.peer.peer_info();
        lists::tools(&self.peer).await.or_else(|error| match remote::challenge(&error) {
            Some(wanted) => Err(Failure { why: SIGN_IN.to_owned(), challenge: Some(wanted) }),
            None if info.is_some_and(|info| info.capabilities.tools.is_none()) => Ok(Vec::new()),
            None => Err(format!("it does not tell its tools: {}", words(&error)).into()),
        })
    }

    /// As the server has told them last.
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        self.desk.prompts()
    }

    /// What a prompt says.
    pub(super) async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
    ) -> Result<Vec<PromptMessage>, String> {
        let asked = self.peer.get_prompt(params).await;
        asked.map(|prompt| prompt.messages).map_err(|error| failure(&error).to_string())
    }

    /// None, if it can not tell them.
    pub(super) async fn list_prompts(&self) -> Vec<Prompt> {
        let offered = self.peer.peer_info().is_some_and(|info| info.capabilities.prompts.is_some());
        if !offered {
            return Vec::new();
        }
        told("prompts", lists::prompts(&self.peer).await)
    }

    /// None, if it can not tell them.
    pub(super) async fn list_resources(&self) -> Vec<Resource> {
        if !self.has_resources() {
            return Vec::new();
        }
        told("resources", self.peer.list_all_resources().await)
    }

    /// The version of the protocol that was agreed upon.
    pub(super) fn protocol(&self) -> String {
        let info = self.peer.peer_info();
        info.map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    /// Makes a call outside any session. Why there is no result comes as such, unless the server wants
    /// something else first.
    pub(super) async fn ask(
        &self,
        params: CallToolRequestParams,
    ) -> Result<Result<CallToolResult, String>, Failure> {
        match self.peer.call_tool(params).await {
            Ok(result) => Ok(Ok(result)),
            Err(error) => match remote::challenge(&error) {
                Some(wanted) => Err(Failure { why: SIGN_IN.to_owned(), challenge: Some(wanted) }),
                None => Ok(Err(words(&error))),
            },
        }
    }

    /// What the server calls itself, and its version.
    pub(super) fn server(&self) -> Option<(String, String)> {
        let server = self.peer.peer_info()?.server_info.clone()?;
        Some((server.name, server.version))
    }

    /// Makes a call of the server's own tools, or reads what it has to be read.
    ///
    /// # Errors
    /// What the server says is wrong with the request; that it has gone; that the call was cancelled.
    pub(super) async fn call(
        &self,
        tool: &str,
        input: &Json,
        cx: &Context,
    ) -> Result<CallToolResult, Error> {
        if self.desk.tools().iter().all(|own| own.name != tool)
            && let Some(read) = resources::run(self, tool, input, cx).await
        {
            return read;
        }
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments(input));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let answer = self.send(request, cx).await?;
        if let ServerResult::CallToolResult(result) = answer {
            return Ok(result);
        }
        if let ServerResult::CustomResult(said) = answer {
            return Ok(content::lenient(said.0));
        }
        let nothing = matches!(answer, ServerResult::EmptyResult(_));
        let strange = || Error::Mcp("The server's answer is no result of a call.".to_owned());
        nothing.then(|| CallToolResult::success(Vec::new())).ok_or_else(strange)
    }

    /// Sends a request, and waits for its answer or for `cx.cancel`.
    ///
    /// # Errors
    /// As for a call.
    pub(super) async fn send(
        &self,
        request: ClientRequest,
        cx: &Context,
    ) -> Result<ServerResult, Error> {
        let _asking = self.desk.ask_by(cx.inquire.clone());
        let sending = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let token = |handle: &RequestHandle<RoleClient>| handle.progress_token.clone();
        let sent = self.desk.listen(cx.progress.clone(), token, sending).await;
        let mut handle = sent.map_err(|error| failure(&error))?;
        let token = handle.progress_token.clone();
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => None,
            answer = &mut handle.rx => Some(answer),
        };
        self.desk.forget(&token).await;
        let Some(answer) = answer else {
            self.tell_cancelled(handle);
            return Err(Error::Mcp(CANCELLED.to_owned()));
        };
        let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
        answer.map_err(|error| failure(&error))
    }

    fn tell_cancelled(&self, handle: RequestHandle<RoleClient>) {
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        // those that have been told
        while telling.try_join_next().is_some() {}
        telling.spawn(async move {
            let why = Some("the call was cancelled".to_owned());
            // a server that is gone needs not be told
            let _ = handle.cancel(why).await;
        });
    }

    /// Ends the connection, and with it the processes of a local server: end of input, SIGTERM,
    /// SIGKILL.
    pub(super) async fn close(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Life { service, process }) = life else { return };
        let telling =
            std::mem::take(&mut *self.telling.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::time::timeout(TELL, telling.join_all()).await;
        // one that does not end in time is dropped, and that ends it as well
        let _ = tokio::time::timeout(GRACE, service.cancel()).await;
        let Some((mut child, running)) = process else { return };
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
        if let Some(running) = running {
            running.end().await;
        }
    }
}

const CANCELLED: &str = "The call was cancelled, and its server told so. It may have taken effect fully, \
    partly or not at all.";

fn arguments(input: &Json) -> JsonObject {
    match input.value() {
        serde_json::Value::Object(arguments) => arguments,
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Array(_) => JsonObject::new(),
    }
}

fn told<T>(what: &str, listed: Result<Vec<T>, ServiceError>) -> Vec<T> {
    listed.unwrap_or_else(|error| {
        tracing::warn!("a server does not tell its {what}: {error}");
        Vec::new()
    })
}

/// The error of a server that wants an address opened before it does anything (MCP 2025-11-25).
const VISIT_FIRST: i32 = -32_042;

fn visits(data: &serde_json::Value) -> String {
    let wanted = data["elicitations"].as_array().into_iter().flatten();
    let visit = |wanted: &serde_json::Value| {
        let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
        format!("{} ({})", text("url"), text("message"))
    };
    text::clip(wanted.map(visit).collect::<Vec<_>>().join(", "), VISITS)
}

/// Bytes of what is told of addresses.
const VISITS: usize = 4 * 1_024;

/// For people.
fn words(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(failed) = error {
        return connect::innermost_of(failed.error.as_ref());
    }
    if let ServiceError::McpError(error) = error
        && error.code == UNREADABLE
    {
        return text::clip(format!("its answer can not be read: {}", error.message), WHY);
    }
    error.to_string()
}

fn failure(error: &ServiceError) -> Error {
    if let ServiceError::McpError(error) = error {
        if error.code == UNREADABLE {
            let why = text::clip(error.message.to_string(), WHY);
            return Error::Mcp(format!("The server's answer can not be read: {why}. {UNKNOWN}"));
        }
        let (said, code) = (&error.message, error.code.0);
        if let (VISIT_FIRST, Some(data)) = (code, &error.data) {
            return Error::Mcp(format!(
                "The server has done nothing: {said}. The user has to open an address first; ask them \
                 to, and make the call again when they have: {}",
                visits(data)
            ));
        }
        return Error::Mcp(format!("The server refused the call: {said} (code {code})."));
    }
    if remote::challenge(error).is_some() {
        return Error::Mcp(format!("The server has done nothing: {SIGN_IN}."));
    }
    if let ServiceError::TransportSend(failed) = error {
        let why = text::clip(connect::innermost_of(failed.error.as_ref()), WHY);
        return Error::Mcp(format!("There is no answer of the server: {why}. {UNKNOWN}"));
    }
    if matches!(error, ServiceError::TransportClosed) {
        return Error::Mcp(GONE.to_owned());
    }
    Error::Mcp(format!("The call failed: {error}."))
}

const GONE: &str = "The server ended before the call did. It may have taken effect fully, partly or not \
    at all. Look at the current state before you make it again.";

/// Bytes of what is wrong with an answer.
const WHY: usize = 300;

const UNKNOWN: &str =
    "The call may have taken effect: look at the current state before you make it again.";
