//! The servers of a project: which server checks which file, and how long a turn waits for them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use leftfold_json_rpc::RequestError;
use leftfold_process::{PoolUse, Pools, SharedServices, Supervised};
use leftfold_tools::{
    BoxFuture, CodeQuestion, FileDiagnostics, FoundDiagnostics, LanguageServers, WrittenFile,
};
use tokio::sync::broadcast;

use crate::questions;
use crate::server::{Running, Server};
use crate::spec::{LaunchContext, ServerReport, ServerSpec};

/// How long all calls of a turn together wait in vain.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// The most servers that run for a project: each root has its own.
const MAX_SERVERS: usize = 16;

/// The most files whose diagnostics were late and are still to come.
const MAX_LATE: usize = 100;

/// The most files of one call that servers are sent.
const MAX_FILES: usize = 200;

/// The servers of a project, for one turn.
pub struct Servers {
    project: PoolUse<Project>,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// How long calls may still wait in vain.
    patience: Duration,
    /// Files whose diagnostics were late.
    late: BTreeSet<PathBuf>,
    /// Problems that calls have named.
    named: BTreeSet<String>,
}

type Started = Arc<Supervised<Server>>;

#[derive(Default)]
struct Project {
    context: LaunchContext,
    specs: Vec<ServerSpec>,
    /// The servers that were started. `None`: the project's servers have ended for good.
    started: Mutex<Option<Vec<Started>>>,
}

static POOLS: Pools<Project> = Pools::new();

/// The directories of projects whose servers have changed their state.
static CHANGES: LazyLock<broadcast::Sender<PathBuf>> = LazyLock::new(|| broadcast::channel(64).0);

/// Gives from now on the directory of a project whenever one of its servers runs, has failed to start, or was ended.
pub fn changes() -> broadcast::Receiver<PathBuf> {
    CHANGES.subscribe()
}

fn ends(project: Arc<Project>) -> BoxFuture<'static, ()> {
    Box::pin(POOLS.end_unused(project))
}

/// Ends all servers of this process. Returns when they are gone, after about a second at most. No server starts after
/// that.
pub async fn close() {
    POOLS.close().await;
}

/// Ends the servers of the project in `directory`, also for calls that use them. Returns how many sets of servers these
/// were. The next prompt there starts servers again.
pub async fn dispose(directory: &Path) -> usize {
    POOLS.dispose(|project| project.context.directory == directory).await
}

/// A report on each server of this process that was started for the project in `directory`.
pub fn reports(directory: &Path) -> Vec<ServerReport> {
    let uses = POOLS.uses(|project| project.context.directory == directory, ends);
    uses.iter().flat_map(|project| project.reports()).collect()
}

impl SharedServices for Project {
    async fn close(&self) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        join_all(started.iter().flatten().map(|server| server.close())).await;
    }
}

impl Project {
    /// The servers for this file, which are not started yet if `Supervised::ready` was not called for them.
    fn servers_of(&self, path: &Path) -> Vec<Started> {
        let specs = self.specs.iter().filter(|spec| spec.takes(path));
        let wanted =
            specs.filter_map(|spec| Some((spec, spec.roots.for_file(path, &self.context)?)));
        let wanted: Vec<(&ServerSpec, PathBuf)> = wanted.collect();
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(started) = &mut *started else { return Vec::new() };
        let mut servers = Vec::new();
        for (spec, root) in wanted {
            let is_it = |server: &&Started| {
                let Server { spec: known, root: of, .. } = server.service();
                known.id == spec.id && *of == root
            };
            if let Some(server) = started.iter().find(is_it) {
                servers.push(Arc::clone(server));
            } else if started.len() < MAX_SERVERS {
                let context = self.context.clone();
                let server = Server { spec: spec.clone(), root, context };
                let server = Arc::new(Supervised::new(server));
                let directory = self.context.directory.clone();
                // there may be nobody who listens
                server.on_change(move || drop(CHANGES.send(directory.clone())));
                started.push(Arc::clone(&server));
                servers.push(server);
            }
        }
        servers
    }

    fn reports(&self) -> Vec<ServerReport> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let report = |server: &Started| {
            let Server { spec, root, .. } = server.service();
            let state = match server.failure() {
                Some(why) => Some(Err(why)),
                None => server.connection().map(|_| Ok(())),
            };
            ServerReport { id: spec.id.clone(), root: root.clone(), state }
        };
        started.iter().flatten().map(report).collect()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.project.specs).finish()
    }
}

/// The findings of one server.
#[derive(Default)]
struct ServerDiagnostics {
    files: Vec<FileDiagnostics>,
    /// Other files with errors.
    others: Vec<(PathBuf, usize)>,
    /// The files whose diagnostics did not come in time.
    late: Vec<PathBuf>,
    /// Why it cannot be used.
    failure: Option<String>,
}

impl Servers {
    /// The servers of the project for one turn. Starts none yet.
    pub fn from_specs(context: &LaunchContext, specs: &[ServerSpec]) -> Self {
        let is_same = |project: &Project| project.context == *context && project.specs == specs;
        let make = || Project {
            context: context.clone(),
            specs: specs.to_vec(),
            started: Mutex::new(Some(Vec::new())),
        };
        let turn = Turn { patience: TURN_TIMEOUT, late: BTreeSet::new(), named: BTreeSet::new() };
        Self { project: POOLS.shared(is_same, make, ends), turn: Mutex::new(turn) }
    }

    fn with_turn<T>(&self, look: impl FnOnce(&mut Turn) -> T) -> T {
        look(&mut self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// [`LanguageServers::check`] for a person, who waits as long as it takes until `end`.
    pub async fn check_patiently(&self, file: WrittenFile, end: Instant) -> FoundDiagnostics {
        self.check_within(&[file], end).await.0
    }

    /// Checks the files. Also returns whether a server did not answer in time.
    async fn check_within(&self, files: &[WrittenFile], end: Instant) -> (FoundDiagnostics, bool) {
        let files = &files[..files.len().min(MAX_FILES)];
        let late: Vec<PathBuf> = self.with_turn(|turn| turn.late.iter().cloned().collect());
        let late: Vec<PathBuf> =
            late.into_iter().filter(|path| files.iter().all(|file| file.path != *path)).collect();
        // each server, with its files
        let mut servers: Vec<(Started, Vec<&WrittenFile>, Vec<PathBuf>)> = Vec::new();
        for file in files {
            for server in self.project.servers_of(&file.path) {
                match servers.iter_mut().find(|(known, ..)| Arc::ptr_eq(known, &server)) {
                    Some((_, files, _)) => files.push(file),
                    None => servers.push((server, vec![file], Vec::new())),
                }
            }
        }
        for path in &late {
            for server in self.project.servers_of(path) {
                match servers.iter_mut().find(|(known, ..)| Arc::ptr_eq(known, &server)) {
                    Some((.., late)) => late.push(path.clone()),
                    None => servers.push((server, Vec::new(), vec![path.clone()])),
                }
            }
        }
        let checks = servers.iter().map(|(server, files, late)| check(server, files, late, end));
        let found = join_all(checks).await;
        let is_late = found.iter().any(|found| !found.late.is_empty());
        let ids = servers.iter().map(|(server, ..)| server.service().spec.id.as_str());
        let mut all = FoundDiagnostics::default();
        for (id, found) in ids.zip(found) {
            let late = !found.late.is_empty();
            let problem = match &found.failure {
                Some(why) => Some(format!("The language server {id:?} cannot be used: {why}.")),
                None if late => Some(format!(
                    "The language server {id:?} has not checked everything yet, so there may be errors that are not shown here."
                )),
                None => None,
            };
            self.with_turn(|turn| {
                for file in &found.files {
                    turn.late.remove(&file.path);
                }
                let room = MAX_LATE.saturating_sub(turn.late.len());
                turn.late.extend(found.late.iter().take(room).cloned());
                let is_new = |problem: &String| turn.named.insert(problem.clone());
                all.notes.extend(problem.filter(is_new));
            });
            for file in found.files {
                match all.files.iter_mut().find(|known| known.path == file.path) {
                    Some(known) => {
                        known.items.extend(file.items);
                        known.items.sort_by_key(|item| (item.severity, item.range));
                        known.errors += file.errors;
                        known.rest += file.rest;
                    }
                    None => all.files.push(file),
                }
            }
            for (path, errors) in found.others {
                let is_shown = all.files.iter().any(|file| file.path == path);
                if !is_shown && all.others.iter().all(|(known, _)| *known != path) {
                    all.others.push((path, errors));
                }
            }
        }
        (all, is_late)
    }
}

/// Checks files with one server. Of the files in `late` it also looks whether their diagnostics have come.
async fn check(
    server: &Started,
    files: &[&WrittenFile],
    late: &[PathBuf],
    end: Instant,
) -> ServerDiagnostics {
    let paths: Vec<PathBuf> =
        files.iter().filter(|file| file.text.is_some()).map(|file| file.path.clone()).collect();
    let failed =
        |why: String| ServerDiagnostics { failure: Some(why), ..ServerDiagnostics::default() };
    let running = match started(server, end).await {
        Ok(Some(running)) => running,
        Ok(None) => return ServerDiagnostics { late: paths, ..ServerDiagnostics::default() },
        Err(why) => return failed(why),
    };
    running.sync_others();
    for file in files {
        running.sync(&file.path, file.text.as_deref());
    }
    // written while the server started
    for path in late.iter().filter(|path| running.current(path).is_none()) {
        running.sync_from_disk(path);
    }
    let is_settled = running.settle(&paths, late, end).await;
    if let Some(why) = running.failure() {
        return failed(why);
    }
    let mut found = ServerDiagnostics::default();
    for path in &paths {
        // a file that is too long is not sent
        let Some((sent, text)) = running.current(path) else { continue };
        let diagnostics = running.notices().for_file(path, sent, &text);
        if !is_settled || diagnostics.is_none() {
            found.late.push(path.clone());
        }
        found.files.extend(diagnostics);
    }
    for path in late {
        let Some((sent, text)) = running.current(path) else { continue };
        // they are not complete while the server works
        let is_complete = !running.notices().is_busy();
        found.files.extend(running.notices().for_file(path, sent, &text).filter(|_| is_complete));
    }
    let is_written = |path: &PathBuf| files.iter().any(|file| file.path == *path);
    found.others = running.notices().with_errors();
    found.others.retain(|(path, _)| !is_written(path));
    found
}

/// The running server. `None`: it has not started yet.
async fn started(server: &Started, end: Instant) -> Result<Option<Arc<Running>>, String> {
    let is_ready = tokio::time::timeout_at(end.into(), server.ready()).await.is_ok();
    match (server.failure(), server.connection()) {
        (Some(why), _) => Err(why),
        (None, Some(running)) => Ok(Some(running)),
        (None, None) if is_ready => Err("it was ended".to_owned()),
        (None, None) => Ok(None),
    }
}

impl LanguageServers for Servers {
    fn prepare(&self, path: &Path) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for server in self.project.servers_of(path) {
            runtime.spawn(async move { server.ready().await });
        }
    }

    fn check<'a>(
        &'a self,
        files: &'a [WrittenFile],
        end: Instant,
    ) -> BoxFuture<'a, FoundDiagnostics> {
        Box::pin(async move {
            let begun = Instant::now();
            let patience = self.with_turn(|turn| turn.patience);
            let (found, is_late) = self.check_within(files, end.min(begun + patience)).await;
            if is_late {
                let waited = begun.elapsed();
                self.with_turn(|turn| turn.patience = turn.patience.saturating_sub(waited));
            }
            found
        })
    }

    fn ask<'a>(
        &'a self,
        question: &'a CodeQuestion,
        end: Instant,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        Box::pin(async move {
            let servers = self.project.servers_of(&question.path);
            if servers.is_empty() {
                return Err(format!(
                    "No language server is in force for {}.",
                    question.path.display()
                ));
            }
            let mut problems = Vec::new();
            let (mut lines, mut is_answered) = (Vec::new(), false);
            for server in servers {
                let id = &server.service().spec.id;
                let running = match started(&server, end).await {
                    Ok(Some(running)) => running,
                    Ok(None) => {
                        problems.push(format!("{id} is still starting"));
                        continue;
                    }
                    Err(why) => {
                        problems.push(format!("{id} cannot be used: {why}"));
                        continue;
                    }
                };
                let name = question.operation.name();
                if !running.can(questions::capability(question.operation)) {
                    problems.push(format!("{id} does not offer {name}"));
                    continue;
                }
                running.sync_others();
                if running.current(&question.path).is_none() {
                    running.sync_from_disk(&question.path);
                }
                running.idle(end).await;
                match questions::ask(&running, question, end).await {
                    Ok(found) => {
                        is_answered = true;
                        lines.extend(found);
                    }
                    Err(RequestError::Refused { why, .. }) => {
                        problems.push(format!("{id} refuses {name}: {why}"));
                    }
                    Err(RequestError::Gone(why)) => problems.push(format!("{id}: {why}")),
                    Err(RequestError::TimedOut) => {
                        problems.push(format!("{id} did not answer in time"));
                    }
                }
            }
            match is_answered {
                true => Ok(lines),
                false => Err(format!("There is no answer: {}.", problems.join("; "))),
            }
        })
    }
}
