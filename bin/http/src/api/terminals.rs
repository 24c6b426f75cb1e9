//! Terminals of the person who uses the server: a shell with the user's rights, outside of every
//! session, in no log. They end with the server.
//!
//! A program's output is kept up to a limit, and each client reads it from a place of its own, so a slow
//! client holds up nobody. Places count units of UTF-16, as clients in browsers count them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path as FsPath, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Json;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use leftfold_process::{CallProcesses, marks, server_mark, spawn_on_terminal};
use pty_process::{OwnedReadPty, OwnedWritePty};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::{Semaphore, watch};

use super::{Answer, Api, ApiState, Directory, JsonBody, Path, Query, yes};
use crate::error::ApiError;
use crate::shapes::catalog::{Pty, PtyTicketConnectToken, Shell};
use crate::shapes::{Shaped, shaped};

/// Terminals at a time.
const MAX_TERMINALS: usize = 32;
/// Clients of a terminal at a time.
const MAX_CLIENTS: usize = 16;
/// Output that is kept for clients that come later: units of two bytes, so 2 MiB.
const KEPT: usize = 1 << 20;
/// Units in a frame of output.
const CHUNK: usize = 32 << 10;
/// The largest frame of input, in bytes.
const MAX_INPUT: usize = 1 << 20;
/// How long a ticket is valid, in seconds, and how many there are at a time.
const TICKET: u64 = 60;
const MAX_TICKETS: usize = 256;
/// Rows and columns at most.
const MAX_SIZE: u16 = 2_000;
/// Characters of a title, and variables of the environment, at most.
const MAX_TITLE: usize = 256;
const MAX_VARIABLES: usize = 256;
/// How long the rest of the output is waited for when the shell has ended: others may hold the terminal.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);
/// Variables of the server that a terminal does not get begin so: passwords and marks of processes.
const PRIVATE: [&str; 2] = ["LEFTFOLD_", "OPENCODE_SERVER_"];
/// Shells that are looked for, after the user's own.
const SHELLS: [&str; 5] = ["/bin/bash", "/bin/zsh", "/usr/bin/fish", "/bin/dash", "/bin/sh"];

#[derive(Debug)]
struct Terminal {
    info: Mutex<Pty>,
    /// The directory of the request that has made it.
    directory: PathBuf,
    output: Mutex<Output>,
    /// How far the output is, for those who wait for more.
    length: watch::Sender<u64>,
    state: watch::Sender<Stage>,
    input: tokio::sync::Mutex<OwnedWritePty>,
    /// The terminal once more, to change its size while input waits.
    device: OwnedFd,
    clients: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// A client has asked for the end.
    Removed,
    Ended,
}

/// The end of the output.
#[derive(Debug, Default)]
struct Output {
    /// The place of the first unit that is kept.
    start: u64,
    units: VecDeque<u16>,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
}

impl Output {
    fn end(&self) -> u64 {
        self.start + self.units.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.partial);
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.units.extend(chunk.valid().encode_utf16());
            let invalid = chunk.invalid();
            let is_incomplete = chunks.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_incomplete {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.units.extend("\u{fffd}".encode_utf16());
            }
        }
        let excess = self.units.len().saturating_sub(KEPT);
        self.units.drain(..excess);
        self.start += excess as u64;
    }

    /// The next frame from a place, and the place after it. What is no longer kept is left out.
    fn read(&self, place: u64) -> (String, u64) {
        let from = usize::try_from(place.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let from = from.min(self.units.len());
        let mut until = (from + CHUNK).min(self.units.len());
        // characters of two units stay together
        let is_first_of_two = |unit: &u16| (0xd800..0xdc00).contains(unit);
        if until < self.units.len() && self.units.get(until - 1).is_some_and(is_first_of_two) {
            until += 1;
        }
        let units = self.units.range(from..until).copied();
        let text =
            char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        (text.collect(), self.start + until as u64)
    }
}

/// All terminals of a node, and the tickets to them.
#[derive(Debug, Default)]
pub(super) struct Terminals {
    running: Mutex<BTreeMap<String, Arc<Terminal>>>,
    tickets: Mutex<VecDeque<Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    hash: [u8; 32],
    terminal: String,
    until: Instant,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(ticket: &str) -> [u8; 32] {
    Sha256::digest(ticket).into()
}

impl Terminals {
    fn find(&self, id: &str) -> Result<Arc<Terminal>, ApiError> {
        lock(&self.running).get(id).cloned().ok_or_else(|| ApiError::no_terminal(id))
    }

    fn issue(&self, terminal: &str) -> anyhow::Result<String> {
        let ticket = random()?;
        let mut tickets = lock(&self.tickets);
        tickets.retain(|known| known.until > Instant::now());
        if tickets.len() >= MAX_TICKETS {
            tickets.pop_front();
        }
        let until = Instant::now() + Duration::from_secs(TICKET);
        tickets.push_back(Ticket { hash: hash(&ticket), terminal: terminal.to_owned(), until });
        Ok(ticket)
    }

    /// Whether the ticket is valid for the terminal. It is not valid again.
    fn redeem(&self, terminal: &str, ticket: &str) -> bool {
        let given = hash(ticket);
        let mut tickets = lock(&self.tickets);
        tickets.retain(|known| known.until > Instant::now());
        let fits =
            |known: &Ticket| bool::from(known.hash.ct_eq(&given)) && known.terminal == terminal;
        let found = tickets.iter().position(fits);
        found.and_then(|at| tickets.remove(at)).is_some()
    }
}

/// 128 bits that nobody can guess.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

/// Whether a request comes without the server's password, and has a ticket instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnlyTicket(pub(crate) bool);

impl OnlyTicket {
    /// Whether the ticket of this request may stand for the password: only a connection to a terminal.
    pub(crate) fn may_open(request: &Request) -> bool {
        let path = request.uri().path();
        let terminal = path.strip_prefix("/pty/").and_then(|rest| rest.strip_suffix("/connect"));
        let query = request.uri().query().unwrap_or_default();
        request.method() == Method::GET
            && terminal.is_some_and(|terminal| !terminal.contains('/'))
            && query.split('&').any(|pair| pair.starts_with("ticket="))
    }
}

impl FromRequestParts<Arc<Api>> for OnlyTicket {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(false)))
    }
}

/// Whether a request has the header that asks for a ticket. It makes a browser ask before a page of another origin can
/// send the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsksForTicket(bool);

impl AsksForTicket {
    pub(super) const HEADER: &str = "x-opencode-ticket";
}

impl FromRequestParts<Arc<Api>> for AsksForTicket {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        Ok(Self(parts.headers.get(Self::HEADER).is_some_and(|value| value == "1")))
    }
}

/// The answer that turns a connection into a WebSocket.
#[derive(Debug)]
pub(crate) struct Connected(Response);

impl IntoResponse for Connected {
    fn into_response(self) -> Response {
        self.0
    }
}

/// The way to a WebSocket, if the request asks for one.
#[derive(Debug)]
pub(crate) struct Upgrade(Result<WebSocketUpgrade, WebSocketUpgradeRejection>);

impl FromRequestParts<Arc<Api>> for Upgrade {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        Ok(Self(WebSocketUpgrade::from_request_parts(parts, api).await))
    }
}

pub(super) async fn shells() -> Json<Shaped<Vec<Shell>>> {
    let named = |path: String| {
        let name = FsPath::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        json!({ "path": path, "name": name, "acceptable": true })
    };
    shaped(usable_shells().map(named).collect())
}

/// The user's own shell, and the usual ones.
fn usable_shells() -> impl Iterator<Item = String> {
    let own = std::env::var("SHELL").ok();
    let others = SHELLS.iter().map(|shell| (*shell).to_owned());
    let mut all: Vec<String> = own.clone().into_iter().collect();
    all.extend(others.filter(|shell| own.as_ref() != Some(shell)));
    let is_program = |path: &String| {
        let metadata = std::fs::metadata(path);
        path.starts_with('/')
            && metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    all.into_iter().filter(is_program)
}

pub(super) async fn list(api: ApiState, Directory(directory): Directory) -> Json<Vec<Pty>> {
    let running = lock(&api.terminals.running);
    let here = running.values().filter(|terminal| terminal.directory == directory);
    Json(here.map(|terminal| lock(&terminal.info).clone()).collect())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PtyCreate")]
pub(super) struct Create {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    cwd: Option<String>,
    title: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Create {
    fn check(&self) -> Result<(), ApiError> {
        let texts = self.command.iter().chain(&self.args).chain(self.env.values());
        if texts.clone().any(|text| text.contains('\0')) || self.command.as_deref() == Some("") {
            let why =
                "command, args, env: expected text without NUL, and a command that is not empty";
            return Err(ApiError::bad_request(why));
        }
        if let Some(title) = &self.title {
            check_title(title)?;
        }
        if self.env.len() > MAX_VARIABLES {
            return Err(ApiError::bad_request("env: expected at most 256 variables"));
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        match self.env.keys().find(|name| !is_name(name) || is_private(name)) {
            Some(name) => Err(ApiError::bad_request(format!(
                "env: `{name}` cannot be set: expected a name without `=` that does not begin with \
                 LEFTFOLD_ or OPENCODE_SERVER_"
            ))),
            None => Ok(()),
        }
    }
}

fn check_title(title: &str) -> Result<(), ApiError> {
    if title.is_empty() || title.chars().count() > MAX_TITLE {
        return Err(ApiError::bad_request("title: expected 1 to 256 characters"));
    }
    Ok(())
}

fn is_private(name: &str) -> bool {
    PRIVATE.iter().any(|private| name.starts_with(private))
}

pub(super) async fn create(
    api: ApiState,
    Directory(directory): Directory,
    JsonBody(wanted): JsonBody<Create>,
) -> Answer<Pty> {
    wanted.check()?;
    let named = wanted.cwd.as_deref().unwrap_or_default();
    let cwd = directory.join(named).canonicalize().ok().filter(|cwd| cwd.is_dir());
    let cwd =
        cwd.ok_or_else(|| ApiError::bad_request(format!("cwd: `{named}` is not a directory")))?;
    let command = wanted.command.or_else(|| usable_shells().next());
    let command = command.ok_or_else(|| ApiError::bad_request("command: there is no shell"))?;
    let mut args = wanted.args;
    if args.is_empty() && command.ends_with("sh") {
        args.push("-l".to_owned());
    }
    let mark = server_mark();
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("command: cannot start `{command}`: {error}"))
    };
    let environment = std::env::vars_os().filter(|(name, _)| !is_private(&name.to_string_lossy()));
    let (pty, slave) = pty_process::open().map_err(|error| failed(&error))?;
    let device = rustix::io::fcntl_dupfd_cloexec(&pty, 0).map_err(anyhow::Error::from)?;
    let program = leftfold_programs::find(&command).map_err(|error| failed(&error))?;
    let program = pty_process::Command::new(program)
        .args(&args)
        .current_dir(&cwd)
        .env_clear()
        .envs(environment)
        .envs(wanted.env)
        .env("TERM", "xterm-256color")
        .env("PWD", &cwd)
        .envs(marks(&mark));
    let id = format!("pty_{}", random()?);
    // whoever comes meanwhile waits for the place in the list
    let (terminal, child, processes, output) = {
        let mut running = lock(&api.terminals.running);
        if running.len() >= MAX_TERMINALS {
            return Err(ApiError::bad_request("there are 32 terminals: close one first"));
        }
        let (child, processes) =
            spawn_on_terminal(program, slave, &mark).map_err(|error| failed(&error))?;
        let (output, input) = pty.into_split();
        let last = id.get(id.len() - 4..).unwrap_or_default();
        let info = Pty {
            title: wanted.title.unwrap_or_else(|| format!("Terminal {last}")),
            id: id.clone(),
            command,
            args,
            cwd,
            status: "running",
            pid: child.id().unwrap_or_default(),
        };
        let terminal = Arc::new(Terminal {
            info: Mutex::new(info),
            directory,
            output: Mutex::default(),
            length: watch::Sender::new(0),
            state: watch::Sender::new(Stage::Running),
            input: tokio::sync::Mutex::new(input),
            device,
            clients: Arc::new(Semaphore::new(MAX_CLIENTS)),
        });
        running.insert(id, Arc::clone(&terminal));
        (terminal, child, processes, output)
    };
    let shown = lock(&terminal.info).clone();
    announce(&api, &terminal, "pty.created", json!({ "info": shown }));
    tokio::spawn(supervise(api.0, terminal, child, processes, output));
    Ok(Json(shown))
}

fn announce(api: &Api, terminal: &Terminal, kind: &'static str, properties: Value) {
    api.feed.announce(&terminal.directory.to_string_lossy(), kind, properties);
}

/// Takes the output of a terminal until its program ends, a client removes it, or the node ends.
async fn supervise(
    api: Arc<Api>,
    terminal: Arc<Terminal>,
    mut child: Child,
    processes: CallProcesses,
    output: OwnedReadPty,
) {
    let _speaking = api.sessions.speaking();
    let reader = tokio::spawn(collect(Arc::clone(&terminal), output));
    let mut state = terminal.state.subscribe();
    let status = tokio::select! {
        status = child.wait() => Some(status),
        _ = state.wait_for(|stage| *stage != Stage::Running) => None,
        () = api.sessions.cut() => None,
    };
    processes.hang_up();
    processes.end().await;
    let status = match status {
        Some(status) => status,
        None => child.wait().await,
    };
    let abort = reader.abort_handle();
    // the rest of the output; an error means that there is none
    if tokio::time::timeout(LAST_OUTPUT_TIMEOUT, reader).await.is_err() {
        abort.abort();
    }
    let id = lock(&terminal.info).id.clone();
    lock(&api.terminals.running).remove(&id);
    let is_removed = terminal.state.send_replace(Stage::Ended) == Stage::Removed;
    if is_removed {
        announce(&api, &terminal, "pty.deleted", json!({ "id": id }));
    } else {
        let code = status.map(exit_code).unwrap_or_default();
        announce(&api, &terminal, "pty.exited", json!({ "id": id, "exitCode": code }));
    }
}

/// As shells say it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or_default()
}

async fn collect(terminal: Arc<Terminal>, mut pty: OwnedReadPty) {
    let mut buffer = vec![0; 16 << 10];
    // when no program has the terminal any more, reading it gives an error
    while let Ok(read @ 1..) = pty.read(&mut buffer).await {
        let end = {
            let mut output = lock(&terminal.output);
            output.push(buffer.get(..read).unwrap_or_default());
            output.end()
        };
        terminal.length.send_replace(end);
    }
}

pub(super) async fn one(api: ApiState, Path(id): Path<String>) -> Answer<Pty> {
    let terminal = api.terminals.find(&id)?;
    let shown = lock(&terminal.info).clone();
    Ok(Json(shown))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PtyChange")]
pub(super) struct Change {
    title: Option<String>,
    size: Option<Size>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct Size {
    rows: u16,
    cols: u16,
}

pub(super) async fn change(
    api: ApiState,
    Path(id): Path<String>,
    JsonBody(Change { title, size }): JsonBody<Change>,
) -> Answer<Pty> {
    let terminal = api.terminals.find(&id)?;
    if let Some(title) = &title {
        check_title(title)?;
    }
    if let Some(Size { rows, cols }) = size {
        let sizes = 1..=MAX_SIZE;
        if !sizes.contains(&rows) || !sizes.contains(&cols) {
            return Err(ApiError::bad_request("size: expected 1 to 2000 rows and columns"));
        }
        let size =
            rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal.device, size).map_err(anyhow::Error::from)?;
    }
    let shown = {
        let mut info = lock(&terminal.info);
        if let Some(title) = title {
            info.title = title;
        }
        info.clone()
    };
    announce(&api, &terminal, "pty.updated", json!({ "info": shown }));
    Ok(Json(shown))
}

/// Answers when the terminal's processes are gone.
pub(super) async fn remove(api: ApiState, Path(id): Path<String>) -> Answer<bool> {
    let terminal = api.terminals.find(&id)?;
    terminal.state.send_if_modified(|stage| {
        let is_running = *stage == Stage::Running;
        if is_running {
            *stage = Stage::Removed;
        }
        is_running
    });
    let mut state = terminal.state.subscribe();
    // the sender lives as long as the terminal
    let _ = state.wait_for(|stage| *stage == Stage::Ended).await;
    yes()
}

/// A ticket for a client that cannot send the password with its WebSocket.
pub(super) async fn ticket(
    api: ApiState,
    Path(id): Path<String>,
    AsksForTicket(asks): AsksForTicket,
) -> Answer<Shaped<PtyTicketConnectToken>> {
    api.terminals.find(&id)?;
    if !asks {
        let why = "a ticket needs the header `x-opencode-ticket: 1`";
        return Err(ApiError::terminal_forbidden(why));
    }
    Ok(shaped(json!({ "ticket": api.terminals.issue(&id)?, "expires_in": TICKET })))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Connect {
    /// From where the output is wanted; -1: only what comes from now on.
    cursor: Option<String>,
    ticket: Option<String>,
}

pub(super) async fn connect(
    api: ApiState,
    Path(id): Path<String>,
    Query(Connect { cursor, ticket }): Query<Connect>,
    OnlyTicket(needs_ticket): OnlyTicket,
    Upgrade(upgrade): Upgrade,
) -> Result<Connected, ApiError> {
    // before anything that tells whether there is such a terminal
    let is_valid = ticket.map(|ticket| api.terminals.redeem(&id, &ticket));
    if is_valid == Some(false) || (needs_ticket && is_valid.is_none()) {
        let why = "the ticket is not valid: each is for one terminal, once, within a minute";
        return Err(ApiError::terminal_forbidden(why));
    }
    let terminal = api.terminals.find(&id)?;
    let cursor = match cursor.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(cursor @ -1..)) => cursor,
        Some(_) => return Err(ApiError::bad_request("cursor: expected a number from -1")),
    };
    let upgrade = upgrade.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let permit = Arc::clone(&terminal.clients).try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::bad_request("the terminal has 16 clients"))?;
    let upgrade = upgrade.max_message_size(MAX_INPUT).max_frame_size(MAX_INPUT);
    Ok(Connected(upgrade.on_upgrade(move |socket| async move {
        let _permit = permit;
        if let Err(error) = talk(&terminal, socket, cursor).await {
            tracing::debug!("a client of a terminal has gone: {error:#}");
        }
    })))
}

/// Passes output and input on until the terminal ends or the client goes.
async fn talk(terminal: &Terminal, socket: WebSocket, cursor: i64) -> anyhow::Result<()> {
    let (mut sink, mut stream) = socket.split();
    let typed = async {
        while let Some(message) = stream.next().await {
            let bytes = match message? {
                Message::Text(text) => text.as_bytes().to_vec(),
                Message::Binary(bytes) => bytes.to_vec(),
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            terminal.input.lock().await.write_all(&bytes).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        shown = show(terminal, &mut sink, cursor) => shown,
        typed = typed => typed,
    }
}

async fn show(
    terminal: &Terminal,
    sink: &mut SplitSink<WebSocket, Message>,
    cursor: i64,
) -> anyhow::Result<()> {
    let mut length = terminal.length.subscribe();
    let mut state = terminal.state.subscribe();
    let end = lock(&terminal.output).end();
    let mut place = u64::try_from(cursor).unwrap_or(end).min(end);
    while place < end {
        place = send(terminal, sink, place).await?;
    }
    // a frame that begins with NUL is not output: it tells the client its cursor
    let cursor = format!("\0{}", json!({ "cursor": place }));
    sink.send(Message::Binary(cursor.into_bytes().into())).await?;
    loop {
        let has_ended = tokio::select! {
            biased;
            more = length.wait_for(|end| *end > place) => { more.context("it has ended")?; false }
            ended = state.wait_for(|stage| *stage == Stage::Ended) => { ended.context("it has ended")?; true }
        };
        if has_ended {
            let reason = "the terminal has ended".into();
            let frame = CloseFrame { code: axum::extract::ws::close_code::NORMAL, reason };
            return Ok(sink.send(Message::Close(Some(frame))).await?);
        }
        place = send(terminal, sink, place).await?;
    }
}

/// Sends the next frame. Returns the place after it.
async fn send(
    terminal: &Terminal,
    sink: &mut SplitSink<WebSocket, Message>,
    place: u64,
) -> anyhow::Result<u64> {
    let (text, place) = lock(&terminal.output).read(place);
    sink.send(Message::Text(text.into())).await?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded_and_read_by_place() {
        let mut output = Output::default();
        output.push("a\u{1f600}".as_bytes());
        assert_eq!(output.read(0), ("a\u{1f600}".to_owned(), 3));
        assert_eq!(output.read(1), ("\u{1f600}".to_owned(), 3));
        // a character in two pieces, and bytes that are none
        output.push(&[0xc3]);
        assert_eq!(output.read(3), (String::new(), 3));
        output.push(&[0xa9, 0xff, b'z']);
        assert_eq!(output.read(3), ("\u{e9}\u{fffd}z".to_owned(), 6));
        assert_eq!(output.read(u64::MAX), (String::new(), 6));
        output.push(&vec![b'x'; KEPT]);
        assert_eq!((output.units.len(), output.start), (KEPT, 6));
        let (text, place) = output.read(0);
        assert_eq!((text.len(), place), (CHUNK, 6 + CHUNK as u64));
    }

    #[test]
    fn tickets_are_for_one_terminal_once_and_expire() {
        let terminals = Terminals::default();
        let ticket = terminals.issue("pty_a").unwrap();
        assert!(!terminals.redeem("pty_b", &ticket));
        assert!(!terminals.redeem("pty_a", "other"));
        assert!(terminals.redeem("pty_a", &ticket));
        assert!(!terminals.redeem("pty_a", &ticket));
        let late = terminals.issue("pty_a").unwrap();
        lock(&terminals.tickets)[0].until = Instant::now();
        assert!(!terminals.redeem("pty_a", &late));
        for _ in 0..2 * MAX_TICKETS {
            terminals.issue("pty_a").unwrap();
        }
        assert_eq!(lock(&terminals.tickets).len(), MAX_TICKETS);
    }
}
