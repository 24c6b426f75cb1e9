//! The executor: accepts nodes that have the token, and runs their calls in its workspace.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leftfold_events::sandbox::Backend;
use leftfold_events::{SessionId, Sha256};
use leftfold_framing::{Line, next_line};
use leftfold_snapshots::{FileMode, Snapshot, Snapshots, Version};
use leftfold_tools::instructions::{self, Bounds};
use leftfold_tools::{
    Output, RemoteFailure, RemoteSnapshot, RunKey, SessionOwner, UserFolders, Workspace, skills,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::journal::{Journal, Known, RunId, short_hash};
use crate::protocol::{
    Compare, Contents, Described, FAILED, FENCED, Fence, Hello, INVALID, InstructionFile, Kept,
    LONGEST, LOST, Late, ListedSkill, OTHER, Outcome, Request, Resolve, Restore, RpcError, Run,
    TakeSnapshot, UNAUTHORIZED, UNKNOWN_METHOD, VERSION, answer, notification,
};
use crate::tls;

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 512;
/// How long a connection has for TLS and the token, and the longest message until then.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HELLO_BYTES: usize = 8 << 10;
/// How long a connection may wait with its request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long calls that are ended may take for that.
const CALL_END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a snapshot may take.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(120);
/// The bytes of contents in one answer, about.
const CONTENTS: usize = 16 << 20;
/// How much longer than its time limit a call may run whose node is gone.
const ABANDONED_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The settings of an executor.
#[derive(Debug)]
pub struct Options {
    /// The certificate and those that sign it, and the key; files in PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The text that nodes have to know.
    pub token: String,
    /// The file that it is from, which commands do not see.
    pub token_file: PathBuf,
    /// The folder where relative paths start and commands run, and the project around it.
    pub directory: PathBuf,
    pub worktree: PathBuf,
    /// Whether the worktree is a home folder, or holds one.
    pub home: bool,
    /// The folder for what has to survive a crash.
    pub state: PathBuf,
    /// The sandbox of commands, and why it is none of the stronger ones.
    pub backend: Backend,
    pub why: String,
}

/// An executor. Clones share it.
#[derive(Clone, Debug)]
pub struct Server(Arc<Executor>);

struct Executor {
    options: Options,
    tls: TlsAcceptor,
    journal: Journal,
    snapshots: Snapshots,
    /// Held while a run begins and while one owner takes over from another.
    admission: tokio::sync::Mutex<()>,
    /// Held while files are restored.
    restoring: tokio::sync::Mutex<()>,
    table: Mutex<Table>,
    is_ending: AtomicBool,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("options.directory", &self.options.directory).finish()
    }
}

#[derive(Default)]
struct Table {
    running: HashMap<RunId, Arc<Running>>,
    /// The opening of each session's log that may run calls.
    openings: HashMap<(String, SessionId), String>,
    /// Openings that others have followed.
    over: HashSet<String>,
}

/// A run under way.
struct Running {
    key: RunKey,
    call: String,
    cancel: CancellationToken,
    /// Whether another owner has taken over: nobody gets the outcome.
    is_fenced: AtomicBool,
    /// The end of its output so far.
    tail: watch::Receiver<String>,
    /// Its end.
    done: watch::Receiver<Option<Arc<Outcome>>>,
}

impl Server {
    /// Opens the state and ends the processes that an earlier life of this executor has left. Blocks.
    ///
    /// # Errors
    /// Certificate, key or state cannot be used.
    pub fn new(options: Options) -> io::Result<Self> {
        leftfold_process::hide_memory();
        if let Err(error) = leftfold_process::become_subreaper() {
            tracing::warn!("processes that commands leave behind cannot be ended: {error}");
        }
        let tls = tls::of_server(&options.certificate, &options.key).map_err(io::Error::other)?;
        let journal = Journal::open(&options.state).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", options.state.display()))
        })?;
        let ended = leftfold_process::end_strays(&journal.mark);
        if ended > 0 {
            tracing::info!("{ended} processes of an earlier executor were ended");
        }
        let home = UserFolders::of_environment().home;
        let snapshots = Snapshots::of_project(&options.state, &options.worktree, home.as_deref());
        Ok(Self(Arc::new(Executor {
            options,
            snapshots,
            restoring: tokio::sync::Mutex::default(),
            tls: TlsAcceptor::from(tls),
            journal,
            admission: tokio::sync::Mutex::default(),
            table: Mutex::default(),
            is_ending: AtomicBool::new(false),
        })))
    }

    /// Serves nodes until `end`, and ends all calls then.
    pub async fn serve(&self, listener: TcpListener, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                tracing::warn!("a connection is refused: there are {MAX_CONNECTIONS} already");
                continue;
            };
            let executor = Arc::clone(&self.0);
            tokio::spawn(async move {
                let _permit = permit;
                if let Err(error) = executor.connection(stream).await {
                    tracing::debug!("a connection has ended: {error}");
                }
            });
        }
        self.0.is_ending.store(true, Ordering::SeqCst);
        self.0.end(|_| true).await;
    }
}

impl Executor {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one request.
    async fn connection(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = timeout(HANDSHAKE_TIMEOUT, self.tls.accept(stream)).await??;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = BufReader::new(reader);
        let first = timeout(HANDSHAKE_TIMEOUT, message(&mut reader, HELLO_BYTES)).await??;
        if let Err(refused) = self.hello(&first) {
            tracing::warn!("a connection is refused: {}", refused.message);
            return send(&mut writer, &answer(Err(refused))).await;
        }
        send(&mut writer, &answer(Ok(json!({})))).await?;
        let Request { method, params } =
            timeout(IDLE_TIMEOUT, message(&mut reader, LONGEST)).await??;
        if method == "run" {
            return match parsed(params) {
                Ok(run) => self.run(run, &mut reader, &mut writer).await,
                Err(refused) => send(&mut writer, &answer(Err(refused))).await,
            };
        }
        let outcome = self.answer(&method, params).await;
        send(&mut writer, &answer(outcome)).await?;
        writer.shutdown().await
    }

    fn hello(&self, first: &Request) -> Result<(), RpcError> {
        let wrong = |what: &str| RpcError::new(UNAUTHORIZED, what);
        if first.method != "hello" {
            return Err(wrong("the first message is not `hello`"));
        }
        let hello: Hello = parsed(first.params.clone()).map_err(|_| wrong("`hello` is wrong"))?;
        // hashes, so that not even the length can be measured
        let [given, own] = [&hello.token, &self.options.token]
            .map(|token| Sha256::digest(token.as_bytes()).to_string());
        if !bool::from(given.as_bytes().ct_eq(own.as_bytes())) {
            return Err(wrong("the token is wrong"));
        }
        if hello.version != VERSION {
            let what = format!("the node speaks version {}, not {VERSION}", hello.version);
            return Err(RpcError::new(INVALID, what));
        }
        Ok(())
    }

    async fn answer(self: &Arc<Self>, method: &str, params: Value) -> Result<Value, RpcError> {
        match method {
            "describe" => {
                let executor = Arc::clone(self);
                encoded(&blocking(move || executor.describe()).await?)
            }
            "resolve" => {
                let Resolve { call, circumstances } = parsed(params)?;
                let mut workspace = self.workspace(&self.options.state.join("spill"));
                circumstances.apply(&mut workspace).map_err(|why| RpcError::new(INVALID, why))?;
                let resolve = move || leftfold_tools::resolve(&call, &workspace);
                encoded(&blocking(resolve).await?)
            }
            "fence" => {
                let Fence { owner, waiting } = parsed(params)?;
                encoded(&self.fence(&owner, &waiting).await?)
            }
            "acknowledge" => {
                let run = RunId::from_key(&parsed::<RunKey>(params)?);
                let executor = Arc::clone(self);
                blocking(move || executor.journal.forget(&run)).await?;
                Ok(json!({}))
            }
            "snapshot" => encoded(&self.snapshot(parsed(params)?).await?),
            "restore" => encoded(&self.restore(parsed(params)?).await?),
            "compare" => {
                let Compare { pairs } = parsed(params)?;
                let snapshots = self.snapshots.clone();
                let compare = move || {
                    let pairs: Vec<(&str, &str)> =
                        pairs.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
                    snapshots.compare(&pairs)
                };
                let compared = blocking(compare).await?;
                encoded(&compared.map_err(|error| RpcError::new(FAILED, error.to_string()))?)
            }
            "contents" => {
                let Contents { objects } = parsed(params)?;
                let snapshots = self.snapshots.clone();
                let read = blocking(move || contents(&snapshots, objects)).await?;
                encoded(&read.map_err(|error| RpcError::new(FAILED, error.to_string()))?)
            }
            _ => Err(RpcError::new(UNKNOWN_METHOD, format!("there is no method {method:?}"))),
        }
    }

    fn workspace(&self, spill: &Path) -> Workspace {
        let mut workspace = Workspace::new(&self.options.directory, &self.options.worktree, spill);
        workspace.data = Some(self.options.state.clone());
        workspace
    }

    fn describe(&self) -> Described {
        let Options { directory, worktree, home, backend, why, .. } = &self.options;
        let mut problems = Vec::new();
        let bounds = Bounds { worktree, is_readable: &instructions::is_readable_by_default };
        let inside = directory.ancestors().take_while(|folder| folder.starts_with(worktree));
        let mut folders: Vec<&Path> = inside.collect();
        folders.reverse();
        let mut files = Vec::new();
        let texts = UserFolders::default().texts(worktree);
        for file in folders.into_iter().filter_map(|folder| instructions::in_folder(folder, &texts))
        {
            match instructions::load(&file, Some(bounds), &texts) {
                Ok(Some(loaded)) => files.push(InstructionFile {
                    path: loaded.path.unwrap_or_else(|| file.clone()),
                    source: loaded.source,
                    text: loaded.text,
                    line: loaded.line,
                    cut: loaded.cut,
                }),
                Ok(None) => {}
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        let found = skills::find(directory, worktree, &UserFolders::of_environment());
        problems.extend(found.problems.iter().map(ToString::to_string));
        let listed = found.skills.into_iter();
        let listed = listed.map(|skills::Skill { name, description, path, .. }| ListedSkill {
            name,
            description,
            path,
        });
        Described {
            directory: directory.clone(),
            worktree: worktree.clone(),
            git: worktree.join(".git").exists(),
            platform: std::env::consts::OS.to_owned(),
            instructions: files,
            skills: listed.collect(),
            snapshots: leftfold_snapshots::is_possible(),
            problems,
            backend: *backend,
            why: why.clone(),
            home: *home,
        }
    }

    /// Refuses an owner that another has followed. A later one takes over: what runs for lower epochs is ended first.
    async fn admit(self: &Arc<Self>, owner: &SessionOwner) -> Result<(), RpcError> {
        let store = short_hash(&owner.store);
        let (executor, family, epoch) = (Arc::clone(self), owner.family, owner.epoch);
        let known = {
            let (executor, store) = (Arc::clone(&executor), store.clone());
            blocking(move || executor.journal.epoch(&store, family))
                .await?
                .map_err(|error| failed(&error))?
        };
        if epoch < known {
            let what = format!("a node with epoch {known} has been here after epoch {epoch}");
            return Err(RpcError::new(FENCED, what));
        }
        if epoch == known {
            return Ok(());
        }
        let set = {
            let (executor, store) = (Arc::clone(&executor), store.clone());
            move || executor.journal.set_epoch(&store, family, epoch)
        };
        blocking(set).await?.map_err(|error| failed(&error))?;
        let theirs = |key: &RunKey| {
            key.owner.store == owner.store && key.owner.family == family && key.owner.epoch < epoch
        };
        self.end(theirs).await;
        let mark = format!("{}:{store}-{family}", self.journal.mark);
        blocking(move || leftfold_process::end_earlier(&mark, epoch)).await?;
        Ok(())
    }

    /// Takes a session over.
    async fn fence(
        self: &Arc<Self>,
        owner: &SessionOwner,
        waiting: &[u64],
    ) -> Result<Vec<Late>, RpcError> {
        let late = self.take_session_over(owner, waiting).await?;
        // what an earlier owner restores ends before the next one begins
        drop(self.restoring.lock().await);
        Ok(late)
    }

    async fn take_session_over(
        self: &Arc<Self>,
        owner: &SessionOwner,
        waiting: &[u64],
    ) -> Result<Vec<Late>, RpcError> {
        let _admission = self.admission.lock().await;
        self.admit(owner).await?;
        let store = short_hash(&owner.store);
        let is_next = {
            let mut table = self.table();
            if table.over.contains(&owner.opening) {
                return Err(RpcError::new(FENCED, "the session was opened again since"));
            }
            let opening = owner.opening.clone();
            let before = table.openings.insert((store.clone(), owner.session), opening);
            let before = before.filter(|before| *before != owner.opening);
            let is_next = before.is_some();
            table.over.extend(before);
            is_next
        };
        self.end(|key| {
            key.owner.store == owner.store
                && key.owner.session == owner.session
                && key.owner.opening != owner.opening
        })
        .await;
        let run = |seq: &u64| RunId { store: store.clone(), session: owner.session, seq: *seq };
        let waiting: Vec<RunId> = waiting.iter().map(run).collect();
        let executor = Arc::clone(self);
        let session = owner.session;
        let look = move || -> Vec<Late> {
            if is_next {
                // the log has the others, although nobody has said so: their node has ended
                executor.journal.forget_others(&store, session, &waiting);
            }
            let late = waiting.iter().filter_map(|run| {
                let outcome = executor.journal.outcome(run);
                if outcome.is_none() {
                    // the log will say that it is lost
                    executor.journal.forget(run);
                }
                Some(Late { seq: run.seq, outcome: outcome? })
            });
            late.collect()
        };
        blocking(look).await
    }

    /// Ends the runs that `is_one` chooses, and waits for that. Nobody gets their outcomes.
    async fn end(&self, is_one: impl Fn(&RunKey) -> bool) {
        let runs: Vec<Arc<Running>> = {
            let table = self.table();
            table.running.values().filter(|running| is_one(&running.key)).cloned().collect()
        };
        for running in &runs {
            running.is_fenced.store(true, Ordering::SeqCst);
            running.cancel.cancel();
        }
        for running in runs {
            let mut done = running.done.clone();
            if timeout(CALL_END_TIMEOUT, done.wait_for(Option::is_some)).await.is_err() {
                tracing::error!("a call of {} does not end", running.key.owner.session);
            }
        }
    }

    /// Makes sure that nobody has followed an owner. The caller holds `admission`.
    async fn check_right(self: &Arc<Self>, owner: &SessionOwner) -> Result<(), RpcError> {
        self.admit(owner).await?;
        let mut table = self.table();
        let opening = table.openings.entry((short_hash(&owner.store), owner.session));
        // an executor that was started anew takes the first one that comes
        if *opening.or_insert_with(|| owner.opening.clone()) != owner.opening {
            return Err(RpcError::new(FENCED, "the session was opened again since"));
        }
        Ok(())
    }

    async fn snapshot(self: &Arc<Self>, asked: TakeSnapshot) -> Result<Kept, RpcError> {
        let TakeSnapshot { owner, since } = asked;
        trees_only(since.iter())?;
        {
            let _admission = self.admission.lock().await;
            self.check_right(&owner).await?;
        }
        let (snapshots, stop) = (self.snapshots.clone(), CancellationToken::new());
        let take = {
            let stop = stop.clone();
            move || {
                let taken = snapshots.take(since.as_deref(), &stop);
                // nobody waits for it
                let _ = snapshots.tidy();
                taken
            }
        };
        let taking = blocking(take);
        tokio::pin!(taking);
        let taken = tokio::select! {
            taken = &mut taking => taken,
            () = tokio::time::sleep(SNAPSHOT_TIMEOUT) => {
                stop.cancel();
                taking.await
            }
        };
        Ok(kept(taken?))
    }

    async fn restore(self: &Arc<Self>, asked: Restore) -> Result<Kept, RpcError> {
        let Restore { owner, before, paths } = asked;
        trees_only(paths.iter().map(|saved| &saved.tree).chain([&before]))?;
        let _restoring = self.restoring.lock().await;
        {
            let _admission = self.admission.lock().await;
            self.check_right(&owner).await?;
        }
        let snapshots = self.snapshots.clone();
        let restore = move || snapshots.restore(&before, &paths, &CancellationToken::new());
        Ok(kept(blocking(restore).await?))
    }

    /// Begins a run, or joins it, or answers its outcome.
    async fn begin(self: &Arc<Self>, run: Run) -> Result<Begun, RpcError> {
        let received = Instant::now();
        let _admission = self.admission.lock().await;
        if self.is_ending.load(Ordering::SeqCst) {
            return Err(RpcError::new(FAILED, "the executor is ending"));
        }
        self.check_right(&run.key.owner).await?;
        let id = RunId::from_key(&run.key);
        let call = encoded(&run.resolution)?.to_string();
        let call = Sha256::digest(call.as_bytes()).to_string();
        {
            let table = self.table();
            if let Some(running) = table.running.get(&id) {
                return match running.call == call {
                    true => Ok(Begun::Running(Arc::clone(running))),
                    false => Err(other()),
                };
            }
        }
        let known = {
            let (executor, id, call) = (Arc::clone(self), id.clone(), call.clone());
            blocking(move || executor.journal.look(&id, &call))
                .await?
                .map_err(|error| failed(&error))?
        };
        match known {
            Known::Nothing => {}
            Known::Ended(outcome) => return Ok(Begun::Ended(outcome)),
            Known::Other => return Err(other()),
            Known::Begun => {
                return Err(RpcError::new(
                    LOST,
                    "the executor was started again while the call ran",
                ));
            }
        }
        let (executor, begun, named) = (Arc::clone(self), id.clone(), call.clone());
        blocking(move || executor.journal.begin(&begun, &named))
            .await?
            .map_err(|error| failed(&error))?;
        self.start(run, id, call, received).map(Begun::Running)
    }

    fn start(
        self: &Arc<Self>,
        run: Run,
        id: RunId,
        call: String,
        received: Instant,
    ) -> Result<Arc<Running>, RpcError> {
        let key = run.key.clone();
        let limit = Duration::from_millis(run.resolution.timeout);
        let begin_by = run.begin_within.map(|left| received + Duration::from_millis(left));
        let spill = self.journal.session_folder(&id.store, id.session).join("spill");
        let owner = &key.owner;
        let mark = format!(
            "{}:{}-{}:{}:{}:{}:1",
            self.journal.mark, id.store, owner.family, owner.epoch, id.session, id.seq
        );
        let hide = [&self.options.token_file, &self.options.key];
        let hide: Vec<String> = hide.map(|file| file.to_string_lossy().into_owned()).into();
        let (resolution, mut context) = run
            .context(self.workspace(&spill), &mark, &hide)
            .map_err(|why| RpcError::new(INVALID, why))?;
        let (tell, tail) = watch::channel(String::new());
        let (finish, done) = watch::channel(None);
        let cancel = CancellationToken::new();
        context.cancel = cancel.clone();
        context.begin_by = begin_by;
        context.deadline = Some(Instant::now() + limit);
        context.progress = Arc::new(move |tail| {
            tell.send_replace(tail);
        });
        let running = Arc::new(Running {
            key,
            call,
            cancel: cancel.clone(),
            is_fenced: AtomicBool::new(false),
            tail,
            done,
        });
        self.table().running.insert(id.clone(), Arc::clone(&running));
        let (executor, kept) = (Arc::clone(self), Arc::clone(&running));
        tokio::spawn(async move {
            // a node that is there cancels it before
            let overdue = async {
                tokio::time::sleep(limit + ABANDONED_GRACE_PERIOD).await;
                cancel.cancel();
                std::future::pending::<()>().await;
            };
            let call = async move { leftfold_tools::run(&resolution, context).await };
            let call = tokio::spawn(call);
            let output = tokio::select! {
                output = call => output.unwrap_or_else(|_| panicked()),
                () = overdue => panicked(),
            };
            let outcome = Outcome::from(output);
            if !kept.is_fenced.load(Ordering::SeqCst) {
                let (executor, kept) = (Arc::clone(&executor), Arc::clone(&kept));
                let (id, outcome) = (id.clone(), outcome.clone());
                let end = move || executor.journal.end(&id, &kept.call, &outcome);
                if let Ok(Err(error)) = blocking(end).await {
                    tracing::error!("an outcome could not be kept: {error}");
                }
            }
            executor.table().running.remove(&id);
            finish.send_replace(Some(Arc::new(outcome)));
        });
        Ok(running)
    }

    /// Runs a call, and tells the node about it for as long as it listens.
    async fn run(
        self: &Arc<Self>,
        run: Run,
        reader: &mut (impl AsyncRead + Unpin + Send),
        writer: &mut (impl AsyncWrite + Unpin + Send),
    ) -> io::Result<()> {
        let running = match self.begin(run).await {
            Ok(Begun::Running(running)) => running,
            Ok(Begun::Ended(outcome)) => return send(writer, &answer(encoded(&*outcome))).await,
            Err(refused) => return send(writer, &answer(Err(refused))).await,
        };
        let (mut tail, mut done) = (running.tail.clone(), running.done.clone());
        let mut reader = BufReader::new(reader);
        let mut listening = std::pin::pin!(message(&mut reader, HELLO_BYTES));
        let mut may_cancel = true;
        let outcome = loop {
            tokio::select! {
                biased;
                ended = ended(&mut done) => break ended,
                said = &mut listening, if may_cancel => {
                    // the run goes on without a node that is gone
                    let Request { method, .. } = said?;
                    if method == "cancel" {
                        running.cancel.cancel();
                    }
                    may_cancel = false;
                }
                changed = tail.changed() => {
                    if changed.is_err() {
                        continue;
                    }
                    let said = json!({ "tail": *tail.borrow_and_update() });
                    send(writer, &notification("progress", &said)).await?;
                }
            }
        };
        if self.is_ending.load(Ordering::SeqCst) {
            // the node asks the next life of this executor
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let outcome = match outcome.filter(|_| !running.is_fenced.load(Ordering::SeqCst)) {
            Some(outcome) => encoded(&*outcome),
            None => Err(RpcError::new(FENCED, "another owner has taken the session over")),
        };
        send(writer, &answer(outcome)).await
    }
}

/// Nothing but names of trees may get to git.
fn trees_only<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), RpcError> {
    match names.all(|name| leftfold_snapshots::is_name(name)) {
        true => Ok(()),
        false => Err(RpcError::new(INVALID, "a tree is not the name of one")),
    }
}

fn kept(outcome: Result<Snapshot, leftfold_snapshots::Error>) -> Kept {
    match outcome {
        Ok(Snapshot { tree, files, left_out }) => Ok(RemoteSnapshot { tree, files, left_out }),
        Err(error) => Err(RemoteFailure { class: error.class(), message: error.to_string() }),
    }
}

/// The contents of the first objects, in Base64, as many as make about [`CONTENTS`] bytes.
fn contents(
    snapshots: &Snapshots,
    names: Vec<String>,
) -> Result<Vec<Option<String>>, leftfold_snapshots::Error> {
    let mut objects = snapshots.objects()?;
    let (mut read, mut bytes) = (Vec::new(), 0);
    for object in names {
        if bytes > CONTENTS {
            break;
        }
        let version = Version { mode: FileMode::File, object };
        let found = Some(&version).filter(|version| leftfold_snapshots::is_name(&version.object));
        let content = found.and_then(|version| objects.read(version).ok());
        bytes += content.as_ref().map_or(0, Vec::len);
        read.push(content.map(|content| STANDARD.encode(content)));
    }
    Ok(read)
}

async fn ended(done: &mut watch::Receiver<Option<Arc<Outcome>>>) -> Option<Arc<Outcome>> {
    done.wait_for(Option::is_some).await.ok()?.clone()
}

enum Begun {
    Running(Arc<Running>),
    Ended(Box<Outcome>),
}

fn other() -> RpcError {
    RpcError::new(OTHER, "another call has been run under this number")
}

fn panicked() -> Output {
    let text = "The tool failed unexpectedly. Its effect is unknown.";
    Output { is_error: true, ..Output::new("", text, &json!({})) }
}

fn failed(error: &io::Error) -> RpcError {
    RpcError::new(FAILED, format!("the executor's state: {error}"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RpcError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RpcError::new(FAILED, "the executor failed unexpectedly"))
}

fn encoded(result: &impl serde::Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(|error| RpcError::new(FAILED, error.to_string()))
}

fn parsed<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|error| RpcError::new(INVALID, error.to_string()))
}

async fn message(
    reader: &mut (impl tokio::io::AsyncBufRead + Unpin),
    longest: usize,
) -> io::Result<Request> {
    match next_line(reader, longest).await? {
        Some(Line::Whole(line)) => Ok(serde_json::from_slice(&line)?),
        Some(Line::TooLong { length, .. }) => {
            Err(io::Error::other(format!("a message has {length} bytes")))
        }
        Some(Line::Unfinished(_)) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let mut line = message.to_string();
    line.push('\n');
    writer.write_all(line.as_bytes()).await?;
    writer.flush().await
}
