//! One open connection to a server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leftfold_events::Json;
use leftfold_process::{Connection, ServerProcess};
use leftfold_tools::{Context, Error};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams,
    JsonObject, Prompt, PromptMessage, Resource, ServerResult, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use tokio::task::JoinSet;

use super::client_handler::ClientHandler;
use super::failure::{self, Failure, challenge, reason};
use super::{content, lists};

/// How long a server may take to exit after its input has ended. Many never exit by themselves.
const EXIT_TIMEOUT: Duration = Duration::from_millis(250);

/// How long closing a connection waits until earlier cancellations have been sent.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Link {
    peer: Peer<RoleClient>,
    handler: ClientHandler,
    life: Mutex<Option<ConnectionParts>>,
    /// Tasks that send cancellations. The cancelling caller does not wait for them.
    cancellations: Mutex<JoinSet<()>>,
}

/// The parts that end with the connection, in this order.
pub(super) struct ConnectionParts {
    pub(super) service: RunningService<RoleClient, ClientHandler>,
    /// The process of a local server, with all processes it has started.
    pub(super) process: Option<ServerProcess>,
}

impl Link {
    pub(super) fn new(life: ConnectionParts, handler: ClientHandler) -> Self {
        let peer = life.service.peer().clone();
        Self { peer, handler, life: Mutex::new(Some(life)), cancellations: Mutex::default() }
    }

    /// The server's own tools, as last listed.
    pub(super) fn tools(&self) -> Vec<Tool> {
        self.handler.tools()
    }

    /// Whether the server offers resources.
    pub(super) fn has_resources(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Lists the tools. A server that did not announce tools may refuse.
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, Failure> {
        let info = self.peer.peer_info();
        lists::tools(&self.peer).await.or_else(|error| match challenge(&error) {
            Some(wanted) => Err(Failure::sign_in(Some(wanted))),
            None if info.is_some_and(|info| info.capabilities.tools.is_none()) => Ok(Vec::new()),
            None => Err(format!("it does not list its tools: {}", reason(&error)).into()),
        })
    }

    /// The server's prompts, as last listed.
    pub(super) fn prompts(&self) -> Vec<Prompt> {
        self.handler.prompts()
    }

    /// Gets the messages of a prompt.
    pub(super) async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
    ) -> Result<Vec<PromptMessage>, String> {
        let asked = self.peer.get_prompt(params).await;
        asked.map(|prompt| prompt.messages).map_err(|error| failure::of_request(&error).to_string())
    }

    /// Lists the prompts. Empty if the server cannot list them.
    pub(super) async fn list_prompts(&self) -> Vec<Prompt> {
        let offered = self.peer.peer_info().is_some_and(|info| info.capabilities.prompts.is_some());
        if !offered {
            return Vec::new();
        }
        list_or_empty("prompts", lists::prompts(&self.peer).await)
    }

    /// Lists the resources. Empty if the server cannot list them.
    pub(super) async fn list_resources(&self) -> Vec<Resource> {
        if !self.has_resources() {
            return Vec::new();
        }
        list_or_empty("resources", self.peer.list_all_resources().await)
    }

    /// The negotiated protocol version.
    pub(super) fn protocol(&self) -> String {
        let info = self.peer.peer_info();
        info.map(|info| info.protocol_version.to_string()).unwrap_or_default()
    }

    /// Makes a call outside any session. If the call fails, the reason is the `Ok` value; only a
    /// server that asks its user to sign in first is an error.
    pub(super) async fn ask(
        &self,
        params: CallToolRequestParams,
    ) -> Result<Result<CallToolResult, String>, Failure> {
        match self.peer.call_tool(params).await {
            Ok(result) => Ok(Ok(result)),
            Err(error) => match challenge(&error) {
                Some(wanted) => Err(Failure::sign_in(Some(wanted))),
                None => Ok(Err(reason(&error))),
            },
        }
    }

    /// The name and version that the server reports.
    pub(super) fn server(&self) -> Option<(String, String)> {
        let server = self.peer.peer_info()?.server_info.clone()?;
        Some((server.name, server.version))
    }

    /// Calls one of the server's own tools.
    ///
    /// # Errors
    /// The server rejected the request or has ended, or the call was cancelled.
    pub(super) async fn call(
        &self,
        tool: &str,
        input: &Json,
        cx: &Context,
    ) -> Result<CallToolResult, Error> {
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
        let strange =
            || content::error("The server's answer is not the result of a call.".to_owned());
        nothing.then(|| CallToolResult::success(Vec::new())).ok_or_else(strange)
    }

    /// Sends a request, and waits for its answer or for `cx.cancel`.
    ///
    /// # Errors
    /// As for [`Link::call`].
    pub(super) async fn send(
        &self,
        request: ClientRequest,
        cx: &Context,
    ) -> Result<ServerResult, Error> {
        let _asking = self.handler.ask_by(cx.elicit.clone());
        let sending = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let token = |handle: &RequestHandle<RoleClient>| handle.progress_token.clone();
        let sent = self.handler.listen(cx.progress.clone(), token, sending).await;
        let mut handle = sent.map_err(|error| failure::of_request(&error))?;
        let token = handle.progress_token.clone();
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => None,
            answer = &mut handle.rx => Some(answer),
        };
        self.handler.forget(&token).await;
        let Some(answer) = answer else {
            self.send_cancellation(handle);
            return Err(content::error(CANCELLED.to_owned()));
        };
        let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
        answer.map_err(|error| failure::of_request(&error))
    }

    fn send_cancellation(&self, handle: RequestHandle<RoleClient>) {
        let mut cancellations = self.cancellations.lock().unwrap_or_else(PoisonError::into_inner);
        // removes cancellations that have been sent
        while cancellations.try_join_next().is_some() {}
        cancellations.spawn(async move {
            let why = Some("the call was cancelled".to_owned());
            // a server that is gone need not be told
            let _ = handle.cancel(why).await;
        });
    }
}

impl Connection for Link {
    fn is_over(&self) -> bool {
        self.peer.is_transport_closed()
    }

    fn why(&self) -> String {
        "it has ended".to_owned()
    }

    /// Closes the connection and ends the processes of a local server: end of input, SIGTERM,
    /// SIGKILL.
    async fn close(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ConnectionParts { service, process }) = life else { return };
        let cancellations =
            std::mem::take(&mut *self.cancellations.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancellations.join_all()).await;
        // dropping a connection that does not close in time ends it as well
        let _ = tokio::time::timeout(EXIT_TIMEOUT, service.cancel()).await;
        let Some(mut process) = process else { return };
        process.wait(EXIT_TIMEOUT).await;
        process.end().await;
    }
}

const CANCELLED: &str = "The call was cancelled and its server was told. The call may have taken effect fully, partly or not at all.";

fn arguments(input: &Json) -> JsonObject {
    if let serde_json::Value::Object(arguments) = input.value() {
        arguments
    } else {
        JsonObject::new()
    }
}

fn list_or_empty<T>(what: &str, listed: Result<Vec<T>, ServiceError>) -> Vec<T> {
    listed.unwrap_or_else(|error| {
        tracing::warn!("a server does not list its {what}: {error}");
        Vec::new()
    })
}
