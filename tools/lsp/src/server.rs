//! One server for one workspace root: how its pool starts it, and how it is brought up to date with files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gen_lsp_types::{
    ClientCapabilities, ClientInfo, DiagnosticClientCapabilities, DocumentSymbolClientCapabilities,
    HoverClientCapabilities, InitializeParams, MarkupKind, PublishDiagnosticsClientCapabilities,
    TextDocumentClientCapabilities, TextDocumentSyncClientCapabilities, WindowClientCapabilities,
    WorkspaceClientCapabilities, WorkspaceFolder, WorkspaceFoldersInitializeParams,
};
use leftfold_json_rpc::{Framing, Handler, Link, Protocol, RequestError};
use leftfold_process::{Connection, Failure, Program, Service};
use serde_json::{Value, json};

use crate::notices::{Includes, Notices, Sent};
use crate::spec::{LaunchContext, ServerSpec};
use crate::{languages, places, tsserver};

/// How long a server may take to answer `initialize`.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may leave a message unread.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to answer `shutdown`.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest message in bytes, and most bytes in ten seconds.
const MAX_MESSAGE: usize = 16 << 20;
const MAX_BYTES: usize = 64 << 20;
/// Messages that may wait for a server to read. A call that writes many files sends many at once.
const QUEUE: usize = 1_024;
/// Most bytes of a text that a server is sent.
pub(crate) const MAX_TEXT: usize = 2 << 20;
/// The most files that a server has open.
const MAX_OPEN: usize = 64;
/// How long a server must be silent at least before its diagnostics count as complete. Some send those of the syntax first,
/// so one that has taken long must be silent for half of that time.
const SETTLE_DELAY: Duration = Duration::from_millis(120);
/// How long a server may take to answer for the diagnostics of a file.
const DIAGNOSTICS_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait before a request that the server has called off is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Error codes by which a server says that a request came too early or too late.
const CALLED_OFF: [i64; 3] = [-32_800, -32_801, -32_802];

pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    pub(crate) root: PathBuf,
    pub(crate) context: LaunchContext,
}

/// A file that the server has open.
#[derive(Clone, Debug)]
struct Open {
    sent: Sent,
    text: String,
    /// The file on disk when its text was sent.
    stamp: Option<(SystemTime, u64)>,
}

/// A running server.
pub(crate) struct Running {
    link: Arc<Link>,
    notices: Arc<Notices>,
    capabilities: Value,
    language: Option<String>,
    open: Mutex<BTreeMap<PathBuf, Open>>,
    /// The files for whose diagnostics it was asked.
    asked: Arc<Mutex<BTreeMap<PathBuf, Asked>>>,
}

/// A request for diagnostics of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    version: i64,
    /// Whether only those count that the server publishes.
    is_refused: bool,
}

impl Connection for Running {
    fn is_over(&self) -> bool {
        self.link.is_over()
    }

    fn why(&self) -> String {
        self.link.why()
    }

    async fn close(&self) {
        if !self.link.is_over() {
            let _ = self.link.request("shutdown", Value::Null).answer(Some(SHUTDOWN_TIMEOUT)).await;
            self.link.notify("exit", Value::Null);
        }
        self.link.close().await;
    }
}

impl Service for Server {
    type Connection = Running;

    const BACK_OFF: Duration = Duration::from_secs(60);

    async fn start(&self) -> Result<Running, Failure<Running>> {
        let Self { spec, root, context } = self;
        let confinement = match &spec.sandbox {
            Some(sandbox) => sandbox.of_started(&spec.command, root, None).await?,
            None => None,
        };
        let own = confinement.as_ref().map(|it| it.variables.as_slice()).unwrap_or_default();
        let program = Program {
            name: &spec.id,
            command: &spec.command,
            directory: root,
            passed: &context.environment,
            variables: &[own, &spec.environment].concat(),
            is_guarded: false,
            acts_for_user: false,
            profile: confinement.as_ref().map(|it| &it.profile),
        };
        let protocol = Protocol {
            framing: Framing::ContentLength,
            cancel: "$/cancelRequest",
            longest: MAX_MESSAGE,
            most_bytes: MAX_BYTES,
            queue: QUEUE,
            read_limit: READ_TIMEOUT,
        };
        let notices = Arc::new(Notices::new(&context.worktree, root, &spec.initialization));
        let handler = Arc::clone(&notices) as Arc<dyn Handler>;
        let link = Arc::new(Link::new(program.start().await?, protocol, handler));
        let running = |link, capabilities| Running {
            link,
            notices,
            capabilities,
            language: spec.language.clone(),
            open: Mutex::default(),
            asked: Arc::default(),
        };
        match initialize(&link, spec, root).await {
            Ok(capabilities) => Ok(running(link, capabilities)),
            Err(why) => {
                link.cut_off(&why);
                let closing = Some(Arc::new(running(link, Value::Null)));
                Err(Failure { why, closing })
            }
        }
    }
}

/// The first exchange. Returns what the server can do.
async fn initialize(link: &Arc<Link>, spec: &ServerSpec, root: &Path) -> Result<Value, String> {
    let params = serde_json::to_value(params(spec, root)).unwrap_or_default();
    let mut answer = match link.request("initialize", params).answer(Some(START_TIMEOUT)).await {
        Ok(answer) => answer,
        Err(RequestError::Refused { why, .. }) => {
            return Err(format!("it refused `initialize`: {why}"));
        }
        Err(RequestError::Gone(why)) => return Err(link.why_not_started(why).await),
        Err(RequestError::TimedOut) => {
            return Err(format!("it did not start within {} s", START_TIMEOUT.as_secs()));
        }
    };
    link.notify("initialized", json!({}));
    if !spec.initialization.is_null() {
        let settings = json!({ "settings": spec.initialization });
        link.notify("workspace/didChangeConfiguration", settings);
    }
    Ok(answer["capabilities"].take())
}

fn params(spec: &ServerSpec, root: &Path) -> InitializeParams {
    let folder = WorkspaceFolder { uri: places::uri(root).into(), name: "workspace".to_owned() };
    let text_document = TextDocumentClientCapabilities {
        synchronization: Some(TextDocumentSyncClientCapabilities {
            did_save: Some(true),
            ..TextDocumentSyncClientCapabilities::default()
        }),
        publish_diagnostics: Some(PublishDiagnosticsClientCapabilities {
            version_support: Some(true),
            ..PublishDiagnosticsClientCapabilities::default()
        }),
        diagnostic: Some(DiagnosticClientCapabilities {
            dynamic_registration: Some(true),
            ..DiagnosticClientCapabilities::default()
        }),
        hover: Some(HoverClientCapabilities {
            content_format: Some(vec![MarkupKind::Markdown, MarkupKind::PlainText]),
            ..HoverClientCapabilities::default()
        }),
        document_symbol: Some(DocumentSymbolClientCapabilities {
            hierarchical_document_symbol_support: Some(true),
            ..DocumentSymbolClientCapabilities::default()
        }),
        ..TextDocumentClientCapabilities::default()
    };
    #[expect(deprecated, reason = "some servers know no workspace folders")]
    InitializeParams {
        // the process of a server in its own namespace cannot be found by this number
        process_id: None,
        client_info: Some(ClientInfo {
            name: "leftfold".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        root_uri: Some(places::uri(root).into()),
        initialization_options: Some(spec.initialization.clone()).filter(|it| !it.is_null()),
        capabilities: ClientCapabilities {
            workspace: Some(WorkspaceClientCapabilities {
                configuration: Some(true),
                workspace_folders: Some(true),
                ..WorkspaceClientCapabilities::default()
            }),
            text_document: Some(text_document),
            window: Some(WindowClientCapabilities {
                work_done_progress: Some(true),
                ..WindowClientCapabilities::default()
            }),
            // rust-analyzer then says when it has read the project
            experimental: Some(json!({ "serverStatusNotification": true })),
            ..ClientCapabilities::default()
        },
        workspace_folders_initialize_params: WorkspaceFoldersInitializeParams {
            workspace_folders: Some(vec![folder].into()),
        },
        ..InitializeParams::default()
    }
}

impl Running {
    /// The reason why it can no longer be used.
    pub(crate) fn failure(&self) -> Option<String> {
        self.link.is_over().then(|| self.link.why())
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Whether the server says that it can do this.
    pub(crate) fn can(&self, capability: &str) -> bool {
        !matches!(self.capabilities[capability], Value::Null | Value::Bool(false))
    }

    /// How it can be asked for diagnostics. `None`: it publishes them.
    fn pull_method(&self) -> Option<PullMethod> {
        if self.can("diagnosticProvider") || self.notices.pulls() {
            return Some(PullMethod::Standard);
        }
        tsserver::is_behind(&self.capabilities).then_some(PullMethod::TypeScript)
    }

    fn with_asked<T>(&self, look: impl FnOnce(&mut BTreeMap<PathBuf, Asked>) -> T) -> T {
        look(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_open<T>(&self, look: impl FnOnce(&mut BTreeMap<PathBuf, Open>) -> T) -> T {
        look(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The text of a file that the server has, and its version.
    pub(crate) fn current(&self, path: &Path) -> Option<(Sent, String)> {
        self.with_open(|open| open.get(path).map(|open| (open.sent, open.text.clone())))
    }

    /// Sends the text of a file, which was just written. `None`: the file is gone. Sends nothing if the server has this
    /// text already.
    pub(crate) fn sync(&self, path: &Path, text: Option<&str>) {
        let Some(text) = text.filter(|text| text.len() <= MAX_TEXT) else {
            return self.close_file(path);
        };
        let uri = places::uri(path);
        let before = self.current(path);
        if before.as_ref().is_some_and(|(_, old)| old == text) {
            return;
        }
        let version = before.as_ref().map_or(1, |(sent, _)| sent.version + 1);
        let change_kind = if before.is_some() { 2 } else { 1 };
        let open = Open {
            sent: Sent { version, at: Instant::now() },
            text: text.to_owned(),
            stamp: stamp(path),
        };
        self.with_open(|all| all.insert(path.to_owned(), open));
        let sent = match before {
            Some(_) => self.link.notify(
                "textDocument/didChange",
                json!({
                    "textDocument": { "uri": uri, "version": version },
                    "contentChanges": [{ "text": text }],
                }),
            ),
            None => {
                let language = self.language.as_deref().unwrap_or(languages::for_path(path));
                self.link.notify(
                    "textDocument/didOpen",
                    json!({ "textDocument": {
                        "uri": uri, "languageId": language, "version": version, "text": text,
                    } }),
                )
            }
        };
        let changes = json!([{ "uri": uri, "type": change_kind }]);
        let sent = sent
            && self.link.notify("workspace/didChangeWatchedFiles", json!({ "changes": changes }))
            && self.link.notify("textDocument/didSave", self.saved(&uri, text));
        if !sent {
            self.link.cut_off("it does not read what it is sent");
        }
        self.close_oldest(path);
    }

    fn saved(&self, uri: &str, text: &str) -> Value {
        let mut params = json!({ "textDocument": { "uri": uri } });
        if self.capabilities["textDocumentSync"]["save"]["includeText"] == json!(true) {
            params["text"] = text.into();
        }
        params
    }

    fn close_file(&self, path: &Path) {
        let was_open = self.with_open(|open| open.remove(path)).is_some();
        self.with_asked(|asked| asked.remove(path));
        self.notices.forget(path);
        let uri = places::uri(path);
        if was_open {
            self.link.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
        }
        let changes = json!([{ "uri": uri, "type": if path.exists() { 2 } else { 3 } }]);
        self.link.notify("workspace/didChangeWatchedFiles", json!({ "changes": changes }));
    }

    /// Closes the file that was changed longest ago if too many are open.
    fn close_oldest(&self, but: &Path) {
        let oldest = self.with_open(|open| {
            let others = open.iter().filter(|(path, _)| *path != but);
            let oldest = others.min_by_key(|(_, open)| open.sent.at).map(|(path, _)| path.clone());
            let oldest = oldest.filter(|_| open.len() > MAX_OPEN);
            oldest.inspect(|path| drop(open.remove(path)))
        });
        if let Some(path) = oldest {
            self.with_asked(|asked| asked.remove(&path));
            self.notices.forget(&path);
            let uri = places::uri(&path);
            self.link.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
        }
    }

    /// Sends the texts of open files that others have changed on disk since.
    pub(crate) fn sync_others(&self) {
        let changed = self.with_open(|open| {
            let changed = open.iter().filter(|(path, open)| stamp(path) != open.stamp);
            changed.map(|(path, _)| path.clone()).collect::<Vec<PathBuf>>()
        });
        for path in changed {
            self.sync_from_disk(&path);
        }
    }

    /// Sends the text of the file on disk.
    pub(crate) fn sync_from_disk(&self, path: &Path) {
        let text = leftfold_files::text(path, None, MAX_TEXT as u64);
        self.sync(path, text.as_deref());
        self.with_open(|open| {
            if let Some(open) = open.get_mut(path) {
                open.stamp = stamp(path);
            }
        });
    }

    /// Asks for the diagnostics of the current versions of these files, unless it was asked before. The answers are kept
    /// whenever they come.
    fn pull<'a>(&self, method: PullMethod, paths: impl Iterator<Item = &'a PathBuf>) {
        for path in paths {
            let Some((Sent { version, .. }, _)) = self.current(path) else { continue };
            let is_new = self.with_asked(|asked| {
                let is_new = asked.get(path).is_none_or(|before| before.version != version);
                if is_new {
                    asked.insert(path.clone(), Asked { version, is_refused: false });
                }
                is_new
            });
            if !is_new {
                continue;
            }
            let (link, notices) = (Arc::clone(&self.link), Arc::clone(&self.notices));
            let (asked, path) = (Arc::clone(&self.asked), path.clone());
            tokio::spawn(async move {
                let end = Instant::now() + DIAGNOSTICS_TIMEOUT;
                match method.ask(&link, &path, end).await {
                    Ok(items) => notices.pulled(&path, version, &items, method.includes()),
                    Err(error) => {
                        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
                        let is_refused = matches!(error, RequestError::Refused { .. });
                        if is_refused && method == PullMethod::TypeScript {
                            asked.insert(path, Asked { version, is_refused });
                        } else {
                            // it may be asked again
                            asked.remove(&path);
                        }
                    }
                }
            });
        }
    }

    /// Waits until the server has diagnostics of the current versions of `paths` and does nothing more, until `end` at the
    /// latest. Also asks for those of `others`, without waiting for them. Returns whether it got so far.
    pub(crate) async fn settle(&self, paths: &[PathBuf], others: &[PathBuf], end: Instant) -> bool {
        let mut changes = self.notices.changes();
        let begun = Instant::now();
        loop {
            changes.borrow_and_update();
            // some servers say only after their start that they want to be asked
            let pull_method = self.pull_method();
            if let Some(method) = pull_method {
                self.pull(method, paths.iter().chain(others));
            }
            let open: Vec<(&PathBuf, Sent)> =
                paths.iter().filter_map(|path| Some((path, self.current(path)?.0))).collect();
            let refused = self.with_asked(|asked| {
                let refused = asked.iter().filter(|(_, asked)| asked.is_refused);
                refused.map(|(path, _)| path.clone()).collect::<Vec<PathBuf>>()
            });
            let is_ready = open.iter().all(|(path, sent)| {
                let is_pulled = pull_method.is_some() && !refused.contains(path);
                self.notices.has(path, *sent, is_pulled)
            });
            let last = self.notices.last().map_or(begun, |last| last.max(begun));
            // an answer that has all is complete
            let silence = match pull_method {
                Some(PullMethod::TypeScript) if refused.is_empty() => Duration::ZERO,
                _ => SETTLE_DELAY.max((last - begun) / 2),
            };
            let now = Instant::now();
            if is_ready && !self.notices.is_busy() && now >= last + silence || open.is_empty() {
                return true;
            }
            if now >= end || self.link.is_over() {
                return false;
            }
            let until = match is_ready {
                true => end.min((last + silence).max(now + Duration::from_millis(1))),
                // the end of the connection wakes nobody
                false => end.min(now + SETTLE_DELAY),
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Waits until the server has read the project, until `end` at the latest.
    pub(crate) async fn idle(&self, end: Instant) {
        let mut changes = self.notices.changes();
        let begun = Instant::now();
        loop {
            let last = self.notices.last().map_or(begun, |last| last.max(begun));
            let now = Instant::now();
            let is_idle = !self.notices.is_busy() && now >= last + SETTLE_DELAY;
            if is_idle || now >= end || self.link.is_over() {
                return;
            }
            let until = end.min(now + SETTLE_DELAY);
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Asks the server something. Asks again while it says that it is too early.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Value,
        end: Instant,
    ) -> Result<Value, RequestError> {
        ask(&self.link, method, params, end).await
    }
}

/// The ways of asking for the diagnostics of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PullMethod {
    /// `textDocument/diagnostic` of the protocol
    Standard,
    TypeScript,
}

impl PullMethod {
    async fn ask(self, link: &Arc<Link>, path: &Path, end: Instant) -> Result<Value, RequestError> {
        match self {
            Self::Standard => {
                let params = json!({ "textDocument": { "uri": places::uri(path) } });
                let mut report = ask(link, "textDocument/diagnostic", &params, end).await?;
                Ok(report["items"].take())
            }
            Self::TypeScript => {
                let requests = tsserver::requests(path);
                let [syntax, meaning] =
                    requests.each_ref().map(|it| ask(link, "workspace/executeCommand", it, end));
                let (syntax, meaning) = tokio::try_join!(syntax, meaning)?;
                let found = tsserver::diagnostics(&syntax).zip(tsserver::diagnostics(&meaning));
                let none = || RequestError::Refused { code: 0, why: "it has none".to_owned() };
                let (syntax, meaning) = found.ok_or_else(none)?;
                Ok([syntax, meaning].concat().into())
            }
        }
    }

    fn includes(self) -> Includes {
        match self {
            Self::Standard => Includes::Own,
            Self::TypeScript => Includes::Published,
        }
    }
}

async fn ask(
    link: &Arc<Link>,
    method: &str,
    params: &Value,
    end: Instant,
) -> Result<Value, RequestError> {
    loop {
        let limit = end.saturating_duration_since(Instant::now());
        match link.request(method, params.clone()).answer(Some(limit)).await {
            Err(RequestError::Refused { code, .. })
                if CALLED_OFF.contains(&code) && Instant::now() + RETRY_DELAY < end =>
            {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            answer => return answer,
        }
    }
}

/// By this a changed file is recognised.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((found.modified().ok()?, found.len()))
}
