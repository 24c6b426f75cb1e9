//! MCP servers of a directory: their states, those that a client adds for this run, and signing in at them. Tokens come out
//! in no answer.
//!
//! A client adds no program: settings do that, where people and their trust decide on it.

use std::collections::{BTreeMap, HashMap};
use std::num::{NonZeroU16, NonZeroU64};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use axum::http::Uri;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use leftfold_events::Secrets;
use leftfold_events::secrets::Secret;
use leftfold_mcp::{Consent, Endpoint, OAuth, ServerReport, ServerSpec, ServerStatus, Servers};
use leftfold_runtime::{project, redact_output};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Answer, Api, ApiState, Directory, JsonBody, Path, blocking, config, yes};
use crate::error::ApiError;
use crate::shapes::catalog::{MCPStatus, McpAuthorization, McpSignedOut};
use crate::shapes::{MapOf, Shaped, shaped};

/// Bytes of the name of an added server.
const MAX_NAME: usize = 64;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewMcpServer")]
pub(super) struct NewServer {
    name: String,
    config: NewServerConfig,
}

/// As in settings.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schemars(inline)]
enum NewServerConfig {
    /// Refused: settings start programs.
    Local {},
    Remote(RemoteServer),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RemoteServer {
    url: String,
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    oauth: SignIn,
    /// Milliseconds.
    #[serde(default)]
    timeout: Option<NonZeroU64>,
}

/// `false`: there is no sign-in.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum SignIn {
    Off(bool),
    As(Client),
}

impl Default for SignIn {
    fn default() -> Self {
        Self::As(Client::default())
    }
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "McpOAuthConfig")]
struct Client {
    client_id: Option<String>,
    client_secret: Option<String>,
    scope: Option<String>,
    callback_port: Option<NonZeroU16>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "McpCode")]
pub(super) struct Code {
    code: String,
}

/// The MCP servers of the directory. None is started for the answer.
pub(super) async fn list(Directory(directory): Directory) -> Answer<Shaped<MapOf<MCPStatus>>> {
    let settings = config::settings(&directory).await?;
    // those that the sessions of the directory share
    let servers = project::servers(&directory, &settings, &[]);
    Ok(shaped(states(&servers)))
}

/// Starts an MCP server, also one that is disabled in settings or has failed. `GET /mcp` says whether it fails.
pub(super) async fn connect(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
) -> Answer<bool> {
    switch(&api, &directory, &name, true).await
}

/// Ends an MCP server, and starts it no more for prompts.
pub(super) async fn disconnect(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
) -> Answer<bool> {
    switch(&api, &directory, &name, false).await
}

async fn switch(api: &Api, directory: &FilePath, name: &str, on: bool) -> Answer<bool> {
    let settings = config::settings(directory).await?;
    if project::server(directory, &settings, name).is_none() {
        return Err(ApiError::no_server(name));
    }
    project::switch_server(directory, name, on);
    let servers = project::servers(directory, &settings, &[]);
    if on {
        servers.start(name).await;
    }
    api.hold_servers(directory, servers);
    yes()
}

/// The states of all servers of a directory.
fn states(servers: &Servers) -> Value {
    servers.reports().into_iter().map(|report| (report.name.clone(), state(report))).collect()
}

fn state(report: ServerReport) -> Value {
    match report.status {
        ServerStatus::Disabled => json!({ "status": "disabled" }),
        ServerStatus::NeedsSignIn(_) => json!({ "status": "needs_auth" }),
        ServerStatus::Failed(why) => {
            json!({ "status": "failed", "error": redact_output::clean(&why) })
        }
        ServerStatus::Connected => json!({ "status": "connected" }),
        // the first prompt starts it
        ServerStatus::Idle => json!({ "status": "pending" }),
    }
}

/// Adds a server on another machine to the directory until the node ends, and connects to it.
pub(super) async fn add(
    api: ApiState,
    Directory(directory): Directory,
    JsonBody(NewServer { name, config: wanted }): JsonBody<NewServer>,
) -> Answer<Shaped<MapOf<MCPStatus>>> {
    let NewServerConfig::Remote(remote) = wanted else {
        return Err(ApiError::bad_request(
            "body: `config.type`: the server starts no program that a client names: add a local MCP server to `mcp` in \
             leftfold.json, which every prompt reads",
        ));
    };
    if name.trim().is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!(
            "body: `name`: expected a name of at most {MAX_NAME} bytes"
        )));
    }
    let settings = config::settings(&directory).await?;
    // rules for its tools were written for that server
    if settings.mcp.contains_key(&name) {
        return Err(ApiError::bad_request(format!(
            "body: `name`: settings have an MCP server `{name}`: choose another name, or connect to that server"
        )));
    }
    let is_on_web =
        |uri: Uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"));
    if !remote.url.parse().is_ok_and(is_on_web) {
        return Err(ApiError::bad_request(
            "body: `config.url`: expected an address that begins with http:// or https://",
        ));
    }
    let secrets = secrets(&name, &remote)?;
    let is_enabled = remote.enabled != Some(false);
    project::add_server(&directory, remote.spec(&name), secrets).map_err(anyhow::Error::from)?;
    project::switch_server(&directory, &name, is_enabled);
    let servers = project::servers(&directory, &settings, &[]);
    if is_enabled {
        servers.start(&name).await;
    }
    let states = states(&servers);
    api.hold_servers(&directory, servers);
    Ok(shaped(states))
}

/// The credentials for an added server.
fn secrets(name: &str, remote: &RemoteServer) -> anyhow::Result<Secrets> {
    let mut settings = Map::new();
    settings.insert("mcp".to_owned(), json!({ name: remote }));
    let found = leftfold_config::credentials_in(&settings).into_iter();
    let secret = |(name, value)| Secret { name, value, usable: false };
    Ok(Secrets::new(found.map(secret))?)
}

impl RemoteServer {
    fn spec(self, name: &str) -> ServerSpec {
        let client = match self.oauth {
            SignIn::Off(false) => None,
            SignIn::Off(true) => Some(Client::default()),
            SignIn::As(client) => Some(client),
        };
        let oauth = client.map(|client| OAuth {
            token_store: leftfold_config::token_store(),
            client: client.client_id.map(|id| (id, client.client_secret)),
            client_metadata: None,
            scopes: client
                .scope
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            port: client.callback_port.map(u16::from),
        });
        let oauth = oauth.unwrap_or_default();
        let headers = self.headers.into_iter().collect();
        ServerSpec {
            name: name.to_owned(),
            endpoint: Endpoint::Remote { url: self.url, headers, oauth },
            timeout: self.timeout.map(|time| Duration::from_millis(time.get())),
        }
    }
}

/// Sign-ins that wait for a person, by directory and server. One that nobody asks for ends with its own time limit.
#[derive(Debug, Default)]
pub(super) struct PendingSignIns(Mutex<HashMap<(PathBuf, String), Pending>>);

type Ended = Shared<BoxFuture<'static, Result<(), String>>>;

/// A sign-in at an MCP server that waits for a person.
#[derive(Debug)]
struct Pending {
    task: AbortHandle,
    ended: Ended,
    /// Takes the code that the person has brought from the page.
    code: Option<oneshot::Sender<String>>,
}

/// The page is shown by the client. The person comes back by a browser of this machine, or the client sends the code.
struct ByClient {
    page: Mutex<Option<oneshot::Sender<String>>>,
    code: Mutex<Option<oneshot::Receiver<String>>>,
}

impl Consent for ByClient {
    async fn ask(&self, page: &str) -> Result<String, String> {
        let shows = self.page.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(shows) = shows {
            let _ = shows.send(page.to_owned());
        }
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner).take();
        match code {
            Some(code) => code.await.map_err(|_| ANOTHER.to_owned()),
            None => Err("it asks for consent once more".to_owned()),
        }
    }
}

const ANOTHER: &str = "another sign-in was begun";

impl PendingSignIns {
    fn with<T>(&self, see: impl FnOnce(&mut HashMap<(PathBuf, String), Pending>) -> T) -> T {
        see(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends a sign-in that waits. Its port is free then.
    async fn end(&self, directory: &FilePath, name: &str) {
        let key = (directory.to_owned(), name.to_owned());
        if let Some(earlier) = self.with(|all| all.remove(&key)) {
            earlier.task.abort();
            // the outcome is that of the one who waits for it
            let _ = earlier.ended.await;
        }
    }
}

/// The server of this name, on whatever settings say.
async fn named(directory: &FilePath, name: &str) -> Result<ServerSpec, ApiError> {
    let settings = config::settings(directory).await?;
    project::server(directory, &settings, name).ok_or_else(|| ApiError::no_server(name))
}

/// Begins a sign-in in the place of an earlier one. Returns the page for the person.
async fn begin(api: &Api, directory: &FilePath, name: &str) -> Result<(String, Ended), ApiError> {
    let spec = named(directory, name).await?;
    if !spec.has_sign_in() {
        return Err(ApiError::no_sign_in(
            "this MCP server has no sign-in: it is a program, or settings turn it off or set an `Authorization` header",
        ));
    }
    api.mcp_sign_ins.end(directory, name).await;
    let (shows, page) = oneshot::channel();
    let (code, comes) = oneshot::channel();
    let by = ByClient { page: Mutex::new(Some(shows)), code: Mutex::new(Some(comes)) };
    let place = directory.to_owned();
    let task =
        tokio::spawn(async move { leftfold_mcp::login(&spec, &place, &by).await.map(|_| ()) });
    let abort = task.abort_handle();
    let ended = task.map(|ended| ended.unwrap_or_else(|_| Err(ANOTHER.to_owned())));
    let ended = ended.boxed().shared();
    let pending = Pending { task: abort, ended: ended.clone(), code: Some(code) };
    let key = (directory.to_owned(), name.to_owned());
    let replaced = api.mcp_sign_ins.with(|all| {
        all.retain(|_, known| !known.task.is_finished());
        all.insert(key, pending)
    });
    if let Some(other) = replaced {
        other.task.abort();
    }
    match page.await {
        Ok(page) => Ok((page, ended)),
        // it has ended without a page
        Err(_) => {
            let why = ended.await.err().unwrap_or_default();
            Err(ApiError::no_sign_in(&redact_output::clean(&why)))
        }
    }
}

/// Waits for the end of a sign-in, and connects to the server.
async fn finish(
    api: &Api,
    directory: &FilePath,
    name: &str,
    ended: Ended,
) -> Answer<Shaped<MCPStatus>> {
    ended.await.map_err(|why| ApiError::bad_request(redact_output::clean(&why)))?;
    let settings = config::settings(directory).await?;
    let servers = project::servers(directory, &settings, &[]);
    servers.start(name).await;
    let report = servers.reports().into_iter().find(|report| report.name == name);
    let state = report.map(state).ok_or_else(|| ApiError::no_server(name))?;
    api.hold_servers(directory, servers);
    Ok(shaped(state))
}

/// Begins a sign-in. The client shows the page.
pub(super) async fn authorize(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
) -> Answer<Shaped<McpAuthorization>> {
    let (page, _) = begin(&api, &directory, &name).await?;
    let query = page.split_once('?').map_or("", |(_, query)| query);
    let pairs: Vec<(String, String)> =
        serde_urlencoded::from_str(query).map_err(anyhow::Error::from)?;
    let state = pairs.into_iter().find(|(key, _)| key == "state").map(|(_, value)| value);
    let state = state.ok_or_else(|| anyhow!("a page for consent without a state"))?;
    Ok(shaped(json!({ "authorizationUrl": page, "oauthState": state })))
}

/// Ends a sign-in with the code that the page has led to.
pub(super) async fn callback(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
    JsonBody(Code { code }): JsonBody<Code>,
) -> Answer<Shaped<MCPStatus>> {
    named(&directory, &name).await?;
    if code.trim().is_empty() {
        return Err(ApiError::bad_request("body: `code`: expected the code of the page"));
    }
    let key = (directory.clone(), name.clone());
    let waiting = api.mcp_sign_ins.with(|all| {
        let pending = all.get_mut(&key)?;
        Some((pending.code.take(), pending.ended.clone()))
    });
    let Some((takes, ended)) = waiting else {
        return Err(ApiError::bad_request(
            "no sign-in was begun: `POST /mcp/NAME/auth` begins one",
        ));
    };
    if let Some(takes) = takes {
        // a browser may have come back already
        let _ = takes.send(code);
    }
    finish(&api, &directory, &name, ended).await
}

/// Begins a sign-in and waits for the person. The feed has the page: the server opens no browser.
pub(super) async fn authenticate(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
) -> Answer<Shaped<MCPStatus>> {
    let (page, ended) = begin(&api, &directory, &name).await?;
    let shown = json!({ "mcpName": name, "url": page });
    api.feed.announce(&directory.display().to_string(), "mcp.browser.open.failed", shown);
    finish(&api, &directory, &name, ended).await
}

/// Removes the stored tokens of a server.
pub(super) async fn forget(
    api: ApiState,
    Directory(directory): Directory,
    Path(name): Path<String>,
) -> Answer<Shaped<McpSignedOut>> {
    let spec = named(&directory, &name).await?;
    api.mcp_sign_ins.end(&directory, &name).await;
    if let Endpoint::Remote { url, oauth, .. } = spec.endpoint {
        let signed_out =
            blocking(move || leftfold_mcp::sign_out(&url, &oauth).map_err(|why| anyhow!(why)));
        signed_out.await?;
    }
    Ok(shaped(json!({ "success": true })))
}
