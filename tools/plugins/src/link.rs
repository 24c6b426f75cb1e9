//! The connection to a running plugin, and the questions that a plugin asks while one of its tools runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leftfold_events::event::{Consent, Wanted};
use leftfold_events::rules::LEFTFOLD;
use leftfold_framing::clip;
use leftfold_json_rpc::{
    Framing, Handler, INVALID_PARAMS, METHOD_NOT_FOUND, Protocol, Reply, RequestError,
};
use leftfold_process::Program;
use leftfold_tools::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::credentials::Credentials;
use super::javascript;
use super::spec::{LaunchContext, PluginCode, PluginProgram};

/// Longest line in bytes that a plugin may write.
const LINE: usize = 4 * 1_024 * 1_024;
/// Messages that may wait for a plugin to read.
const QUEUE: usize = 64;
/// Bytes kept of a plugin's question.
const MAX_MESSAGE: usize = 1_000;

/// Asks for a permission while a plugin's tool runs: a message for people, and the permission.
pub(super) type PermissionAsker =
    Arc<dyn Fn(String, Wanted) -> BoxFuture<'static, Consent> + Send + Sync>;

pub(super) struct Link {
    rpc: Arc<leftfold_json_rpc::Link>,
    questions: Arc<Questions>,
}

impl Link {
    /// Starts the program in a process group of its own.
    ///
    /// # Errors
    /// The reason why it cannot start, in words for people.
    pub(super) async fn start(spec: &PluginProgram, root: &LaunchContext) -> Result<Self, String> {
        // the socket is there as soon as the session is open
        let store = root.socket.parent().filter(|store| store.is_absolute());
        let directory = spec.launch.folder(&root.directory)?;
        spec.launch.check().await?;
        let command = &match &spec.code {
            PluginCode::Command(command) => command.clone(),
            PluginCode::JavaScript(_) => javascript::command().await?,
        };
        let confinement = match &spec.sandbox {
            Some(sandbox) => sandbox.of_started(command, &directory, store).await?,
            None => None,
        };
        let program = Program {
            name: command.first().map_or("", String::as_str),
            command,
            directory: &directory,
            passed: &root.environment,
            variables: &spec.environment,
            is_guarded: spec.launch.is_of_user(),
            acts_for_user: true,
            profile: confinement.as_ref().map(|it| &it.profile),
        };
        let protocol = Protocol {
            framing: Framing::Lines,
            cancel: "cancel",
            longest: LINE,
            most_bytes: usize::MAX,
            queue: QUEUE,
            read_limit: spec.timeout,
        };
        let credentials = spec.credentials.clone();
        let questions = Arc::new(Questions { credentials, ..Questions::default() });
        let handler = Arc::clone(&questions) as Arc<dyn Handler>;
        let rpc = leftfold_json_rpc::Link::new(program.start().await?, protocol, handler);
        Ok(Self { rpc: Arc::new(rpc), questions })
    }

    pub(super) fn is_over(&self) -> bool {
        self.rpc.is_over()
    }

    pub(super) fn why(&self) -> String {
        self.rpc.why()
    }

    /// Sends a request and waits for the answer, at most `limit`. If the future is dropped, the plugin gets a
    /// cancellation.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, RequestError> {
        self.rpc.request(method, params).answer(Some(limit)).await
    }

    /// Sends a request during which the plugin may ask for permissions, and waits for the answer.
    pub(super) async fn call(
        &self,
        method: &str,
        params: Value,
        asks: PermissionAsker,
    ) -> Result<Value, RequestError> {
        let request = self.rpc.request(method, params);
        let _open = self.questions.open(request.id(), asks);
        request.answer(None).await
    }

    /// Lets the plugin, which has this name, renew its credential for the provider.
    pub(super) fn renews(&self, provider: &str, name: &str) {
        // a plugin has one handshake
        let _ = self.questions.signs_in.set((provider.to_owned(), name.to_owned()));
    }

    /// Sends a line. Waits while the queue to the plugin is full. Returns false if the connection
    /// has ended.
    pub(super) async fn send(&self, line: &str) -> bool {
        self.rpc.send(line).await
    }

    /// Ends the connection and its process at once.
    pub(super) fn cut_off(&self, why: &str) {
        self.rpc.cut_off(why);
    }

    /// The reason why a plugin is gone that has not answered yet, with its last lines on standard error.
    pub(super) async fn why_not_started(&self, why: String) -> String {
        self.rpc.why_not_started(why).await
    }

    /// Closes the connection and ends all processes of the plugin.
    pub(super) async fn close(&self) {
        self.rpc.close().await;
    }
}

/// The method by which a plugin asks for a permission.
const ASK: &str = "ask";
/// The method by which a plugin renews its credential.
const SET: &str = "auth.set";
/// The most patterns in a plugin's question.
const PATTERNS: usize = 100;

/// A plugin's question, while its tool runs.
#[derive(Deserialize)]
struct AskParams {
    /// The id of the request `tool` that it belongs to.
    request: u64,
    permission: String,
    patterns: Vec<String>,
    #[serde(default)]
    always: Vec<String>,
    #[serde(default)]
    message: String,
}

/// For each call of a tool: where its questions go. `None` while one is open.
type Askers = HashMap<u64, Option<PermissionAsker>>;

/// Answers a plugin's requests: `ask` once rules or people have answered, others with an error.
#[derive(Default)]
struct Questions {
    calls: Arc<Mutex<Askers>>,
    /// Keeps the plugin's credentials, if it may have any.
    credentials: Option<Credentials>,
    /// The provider that it has sign-ins for, and its name.
    signs_in: OnceLock<(String, String)>,
}

/// A call during which the plugin may ask.
struct OpenCall<'a> {
    questions: &'a Questions,
    request: u64,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.questions.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.request);
    }
}

impl Questions {
    fn open(&self, request: u64, asks: PermissionAsker) -> OpenCall<'_> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(request, Some(asks));
        OpenCall { questions: self, request }
    }
}

impl Questions {
    /// Stores a credential in the place of the one that the plugin has.
    fn renew(&self, mut params: Value, reply: Reply) {
        let (Some((provider, name)), Some(credentials)) =
            (self.signs_in.get().cloned(), self.credentials.clone())
        else {
            let why = "only a plugin of the user's own settings has credentials".to_owned();
            return reply.send(Err((METHOD_NOT_FOUND, why)));
        };
        if params["provider"] != *provider {
            let why = format!("`provider`: expected {provider:?}");
            return reply.send(Err((INVALID_PARAMS, why)));
        }
        let said = params["credential"].take();
        tokio::spawn(async move {
            let renewed = credentials.renew(provider, name, said).await;
            let refused = |why| (INVALID_PARAMS, format!("`credential`: {why}"));
            reply.send(renewed.map(|()| json!({})).map_err(refused));
        });
    }
}

impl Handler for Questions {
    fn notification(&self, _: &str, _: Value) {}

    fn request(&self, method: &str, params: Value, reply: Reply) {
        if method == SET {
            return self.renew(params, reply);
        }
        if method != ASK {
            let why = "plugins can send only the requests `ask` and `auth.set`".to_owned();
            return reply.send(Err((METHOD_NOT_FOUND, why)));
        }
        let params = match AskParams::deserialize(&params) {
            Ok(params) => params,
            Err(error) => return reply.send(Err((INVALID_PARAMS, format!("params: {error}")))),
        };
        let AskParams { request, permission, patterns, always, message } = params;
        let reserved = [LEFTFOLD, "question"].contains(&permission.as_str());
        if permission.trim().is_empty() || reserved {
            let why = "`permission`: give the name of a permission".to_owned();
            return reply.send(Err((INVALID_PARAMS, why)));
        }
        if patterns.is_empty() || patterns.len().max(always.len()) > PATTERNS {
            return reply.send(Err((INVALID_PARAMS, format!("`patterns`: give 1 to {PATTERNS}"))));
        }
        let taken = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.get_mut(&request).and_then(Option::take)
        };
        let Some(asks) = taken else {
            let why = "`request`: no call of a tool with this id runs, or a question of it is open";
            return reply.send(Err((INVALID_PARAMS, why.to_owned())));
        };
        let (calls, wanted) =
            (Arc::clone(&self.calls), Wanted::Permission { permission, patterns, always });
        tokio::spawn(async move {
            let consent = asks(clip(message, MAX_MESSAGE), wanted).await;
            // the next question may come from now on
            let mut open = calls.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(asker) = open.get_mut(&request) {
                *asker = Some(asks);
            }
            drop(open);
            let status = if consent == Consent::Accepted { "allow" } else { "deny" };
            reply.send(Ok(json!({ "status": status })));
        });
    }
}
