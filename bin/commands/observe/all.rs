//! `leftfold observe --all`: one feed of the sessions in the data folder, with a cursor for each.
//!
//! One thread looks for sessions and for changes of their stores, and reads logs that no node
//! sends. Each root session or fork that a node runs has a thread with a connection. Every source of
//! a session's events begins at or before the session's cursor and has no gaps, so the feed has none
//! either: the cursor drops events that another source has brought.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_runtime::Usage;
use leftfold_runtime::remote::client::{self, Connection, Identity};
use leftfold_runtime::session_paths::{self, Belongs};
use leftfold_store::{Head, Reader, StoreStamp};
use serde_json::json;

use super::output::{LineKey, Output, TextForm};
use super::{LOG_POLL_INTERVAL, NODE_RETRY_DELAY, spawns};
use crate::cli::{From, Observe};

/// How often to look for new sessions, and for changes of stores that have been quiet.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// How long a store counts as busy after a change.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node whose connection has ended may take to release its store, which is then read.
const STORE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// The most ancestors of a session that are looked at.
const DEPTH: usize = 64;

/// The cursors and the output, shared by the threads that bring events.
struct Feed {
    /// The next event wanted of each session; 1 for sessions that are not named.
    next: HashMap<SessionId, Seq>,
    /// The parents of the subagents whose start was printed.
    parents: HashMap<SessionId, SessionId>,
    output: Output,
}

impl Feed {
    fn cursor(&self, session: SessionId) -> Seq {
        self.next.get(&session).copied().unwrap_or(1)
    }

    /// Whether an event is still wanted. Marks it as printed.
    fn wants(&mut self, session: SessionId, seq: Seq) -> bool {
        let wanted = seq >= self.cursor(session);
        if wanted {
            self.next.insert(session, seq + 1);
        }
        wanted
    }

    fn learn(&mut self, event: &Envelope) {
        if let Some(child) = event.spawned() {
            self.parents.entry(child).or_insert(event.session);
        }
    }

    /// Takes a line from the node of `root`. `shared`: the sessions whose events `root` shares,
    /// which are printed with these sessions.
    fn take_line(&mut self, line: &str, shared: &[SessionId]) -> anyhow::Result<bool> {
        let LineKey { session, seq, payload } = LineKey::from_line(line);
        if let Some(hash) = payload {
            self.output.take_payload(&hash, line);
            return Ok(true);
        }
        let Some((session, seq)) = session.zip(seq) else { return Ok(true) };
        if shared.contains(&session) || !self.wants(session, seq) {
            return Ok(true);
        }
        if let Some(event) = spawns(line) {
            self.learn(&event);
        }
        self.output.take_line(line)
    }

    /// Takes events from a log.
    fn take(&mut self, events: &[Envelope]) -> anyhow::Result<bool> {
        for event in events {
            if self.wants(event.session, event.seq) {
                self.learn(event);
                if !self.output.take(event)? {
                    return Ok(false);
                }
            }
        }
        self.output.write()
    }
}

/// The sessions of a store as their heads, and the feed, describe them.
#[derive(Default)]
struct Family {
    heads: Vec<Head>,
    parents: HashMap<SessionId, SessionId>,
    fork_of: HashMap<SessionId, SessionId>,
}

impl Family {
    fn new(heads: Vec<Head>, feed: &Feed) -> Self {
        let mut family = Self { parents: feed.parents.clone(), ..Self::default() };
        for head in &heads {
            let summary = head.summary.as_ref();
            if let Some(parent) = summary.and_then(|summary| summary.parent) {
                family.parents.insert(head.session, parent);
            }
            if let Some(of) = summary.and_then(|summary| summary.fork_of) {
                family.fork_of.insert(head.session, of);
            }
        }
        Self { heads, ..family }
    }

    /// The root or fork that a session descends from; itself, if it is one.
    fn root(&self, session: SessionId) -> SessionId {
        let parent = |session: &SessionId| self.parents.get(session).copied();
        std::iter::successors(Some(session), parent).take(DEPTH).last().unwrap_or(session)
    }

    fn roots(&self) -> Vec<SessionId> {
        let is_root = |session: &SessionId| self.root(*session) == *session;
        self.heads.iter().map(|head| head.session).filter(is_root).collect()
    }

    /// The descendants of a root.
    fn descendants(&self, root: SessionId) -> Vec<SessionId> {
        let heads = self.heads.iter().map(|head| head.session);
        let known: HashSet<SessionId> = heads.chain(self.parents.keys().copied()).collect();
        let descends = |session: &SessionId| *session != root && self.root(*session) == root;
        known.into_iter().filter(descends).collect()
    }

    /// The sessions whose events a fork may share.
    fn shared_by(&self, fork: SessionId) -> Vec<SessionId> {
        let of = |session: &SessionId| self.fork_of.get(session).copied();
        std::iter::successors(Some(fork), of).skip(1).take(DEPTH).collect()
    }

    /// Whether the heads name an event of the session, or of a descendant, that is not printed.
    fn has_news(&self, root: SessionId, feed: &Feed) -> bool {
        let is_new = |head: &Head| head.seq >= feed.cursor(head.session);
        self.heads.iter().any(|head| is_new(head) && self.root(head.session) == root)
    }
}

#[derive(Default)]
struct Store {
    /// False until the first look.
    looked: bool,
    /// Whether everything before the start is left out.
    only_new: bool,
    /// A node has ended its connection: its log is read once it releases the store, at the latest
    /// at this time.
    released_by: Option<Instant>,
    stamp: Option<(StoreStamp, Option<Identity>)>,
    /// The last reading may have left out events that are in the files, and that no later change will announce.
    unsettled: bool,
    busy_until: Option<Instant>,
    /// The roots with a thread.
    followed: HashSet<SessionId>,
    /// The last attempt to connect for each root.
    tried: HashMap<SessionId, (Identity, Instant)>,
    /// The last problem printed on standard error.
    problem: Option<String>,
    /// The roots of which it is known whether they belong to the project.
    belongs: HashMap<SessionId, bool>,
}

/// A report of a thread with a connection.
enum Report {
    /// The node has ended, or does not have the session. `watched`: it had sent events.
    Left { store: PathBuf, root: SessionId, watched: bool },
    /// Nobody reads standard output any more, or writing failed.
    Ended(anyhow::Result<()>),
}

pub(super) struct AllSessions {
    /// The worktree of the project.
    project: Option<PathBuf>,
    /// The folder of the stores of single sessions, and the shared store.
    sessions: PathBuf,
    shared: PathBuf,
    feed: Arc<Mutex<Feed>>,
    /// The sessions with a cursor that no store shows. One may be a subagent whose head a crash has lost:
    /// its node knows whose it is.
    without_head: Vec<SessionId>,
    stores: BTreeMap<PathBuf, Store>,
    reporter: Sender<Report>,
    reports: Receiver<Report>,
}

impl AllSessions {
    pub(super) fn new(args: &Observe, writing: Arc<Mutex<()>>) -> anyhow::Result<Self> {
        let output = Output::new(args.format, TextForm::Lines, &args.kinds, writing);
        let mut feed = Feed { next: HashMap::new(), parents: HashMap::new(), output };
        let mut only_new = false;
        for from in &args.from {
            match *from {
                From::Now => only_new = true,
                From::Session(session, seq) => {
                    feed.next.insert(session, seq);
                }
                From::Seq(seq) => anyhow::bail!(Usage(format!(
                    "`--from {seq}` does not name a session: with --all, give SESSION:{seq} or `now`"
                ))),
            }
        }
        let project = args.project.as_deref().map(|folder| {
            let folder = std::path::absolute(folder);
            folder.map(|folder| leftfold_config::worktree_of(&folder))
        });
        let (reporter, reports) = mpsc::channel();
        let mut all = Self {
            project: project.transpose()?,
            sessions: session_paths::data_dir()?.join("sessions"),
            shared: session_paths::shared_store()?,
            feed: Arc::new(Mutex::new(feed)),
            without_head: Vec::new(),
            stores: BTreeMap::new(),
            reporter,
            reports,
        };
        all.scan()?;
        let heads = all.stores.keys().flat_map(|dir| session_paths::heads_now(dir));
        all.without_head = without_head(&args.from, heads.map(|head| head.session));
        if only_new {
            let mut feed = lock(&all.feed);
            for (dir, store) in &mut all.stores {
                store.only_new = true;
                for head in session_paths::heads_now(dir) {
                    feed.next.entry(head.session).or_insert(head.seq + 1);
                }
            }
        }
        Ok(all)
    }

    /// Runs until standard output is closed.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        let mut scanned: Option<Instant> = None;
        let mut folder = (None, None);
        loop {
            let all = scanned.is_none_or(|at| at.elapsed() >= SCAN_INTERVAL);
            let found = (look(&self.sessions), look(&self.shared));
            if all || folder != found {
                self.scan()?;
                folder = found;
            }
            if all {
                scanned = Some(Instant::now());
            }
            let is_due =
                |store: &Store| all || store.busy_until.is_some_and(|t| Instant::now() < t);
            let due = self.stores.iter().filter(|(_, store)| is_due(store));
            let due: Vec<PathBuf> = due.map(|(dir, _)| dir.clone()).collect();
            for dir in due {
                if !self.look(&dir)? {
                    return Ok(());
                }
            }
            let first = self.reports.recv_timeout(LOG_POLL_INTERVAL).ok();
            for report in first.into_iter().chain(self.reports.try_iter()) {
                match report {
                    Report::Ended(ended) => return ended,
                    Report::Left { store, root, watched } => {
                        if let Some(store) = self.stores.get_mut(&store) {
                            store.left(root, watched);
                        }
                    }
                }
            }
        }
    }

    /// Finds new stores, and forgets removed ones.
    fn scan(&mut self) -> anyhow::Result<()> {
        let found = session_paths::stores()?;
        self.stores.retain(|dir, _| found.binary_search(dir).is_ok());
        for dir in found {
            let new =
                || Store { busy_until: Some(Instant::now() + BUSY_TIMEOUT), ..Store::default() };
            self.stores.entry(dir).or_insert_with(new);
        }
        Ok(())
    }

    /// Follows or reads a store that has changed. False: nobody reads standard output any more.
    fn look(&mut self, dir: &Path) -> anyhow::Result<bool> {
        let Some(store) = self.stores.get_mut(dir) else { return Ok(true) };
        let socket = client::identity(dir);
        let stamp = (StoreStamp::of_all(dir, socket.is_some()), socket);
        let is_settled = !store.unsettled || leftfold_store::in_use(dir);
        if is_settled && store.stamp.as_ref() == Some(&stamp) {
            return Ok(true);
        }
        let first = !std::mem::replace(&mut store.looked, true);
        if !first || socket.is_some() {
            store.busy_until = Some(Instant::now() + BUSY_TIMEOUT);
        }
        store.stamp = Some(stamp);
        let family = Family::new(session_paths::heads_now(dir), &lock(&self.feed));
        let own = session_paths::name(dir);
        let mut roots = family.roots();
        if let Some(project) = &self.project {
            if own.is_some_and(|own| !store.is_of(project, dir, &family, own)) {
                return Ok(true);
            }
            roots.retain(|root| store.is_of(project, dir, &family, *root));
        }
        let mut to_read = false;
        for root in roots {
            if store.followed.contains(&root) || !family.has_news(root, &lock(&self.feed)) {
                continue;
            }
            // Watching a fork may open it, so that is done only once the fork goes on.
            let may_follow = Some(root) == own || !first;
            match socket.filter(|socket| may_follow && store.may_try(root, *socket)) {
                Some(socket) => {
                    store.tried.insert(root, (socket, Instant::now()));
                    store.followed.insert(root);
                    let follower = Follower {
                        store: dir.to_owned(),
                        root,
                        descendants: family
                            .descendants(root)
                            .into_iter()
                            .chain(self.without_head.iter().copied())
                            .collect(),
                        shared: family.shared_by(root),
                        feed: self.feed.clone(),
                    };
                    let reporter = self.reporter.clone();
                    thread::Builder::new().spawn(move || follower.run(&reporter))?;
                }
                None => to_read = true,
            }
        }
        // After a crash, a log may have more events than its head says.
        let may_have_more = store.released(dir) || socket.is_none() && !(first && store.only_new);
        if to_read || may_have_more {
            let project = self.project.as_deref();
            let (events, problem) = store.read(project, dir, &family, &lock(&self.feed));
            store.report(problem);
            return lock(&self.feed).take(&events);
        }
        Ok(true)
    }
}

impl Store {
    /// Whether a root belongs to the project with this worktree. One that does not say so yet is asked again.
    fn is_of(&mut self, project: &Path, dir: &Path, family: &Family, root: SessionId) -> bool {
        if let Some(belongs) = self.belongs.get(&root) {
            return *belongs;
        }
        let head = family.heads.iter().find(|head| head.session == root);
        let is_own = session_paths::name(dir) == Some(root);
        let may_come = self.is_begun() || is_own && leftfold_store::in_use(dir);
        let belongs = session_paths::belongs(root, head, dir, project);
        if may_come && matches!(belongs, Belongs::Silent | Belongs::Unreadable) {
            self.stamp = None;
            return false;
        }
        *self.belongs.entry(root).or_insert(belongs.is_here())
    }

    /// Whether it was found or has changed just now, so that its first events may be missing.
    fn is_begun(&self) -> bool {
        self.busy_until.is_some_and(|until| Instant::now() < until)
    }

    /// A thread has ended.
    fn left(&mut self, root: SessionId, watched: bool) {
        self.followed.remove(&root);
        self.stamp = None;
        self.busy_until = Some(Instant::now() + BUSY_TIMEOUT);
        if watched {
            self.released_by = Some(Instant::now() + STORE_RELEASE_TIMEOUT);
        }
    }

    /// Whether a node has just released the store, after it had sent events.
    fn released(&mut self, dir: &Path) -> bool {
        let Some(by) = self.released_by else { return false };
        if leftfold_store::in_use(dir) && Instant::now() < by {
            self.stamp = None;
            return false;
        }
        self.released_by = None;
        true
    }

    fn may_try(&self, root: SessionId, socket: Identity) -> bool {
        self.tried
            .get(&root)
            .is_none_or(|(last, at)| *last != socket || at.elapsed() > NODE_RETRY_DELAY)
    }

    /// Reads the events from the cursors on of the sessions that no thread follows: a child's
    /// events after its `subagent.spawned`, otherwise in the order of time. Also answers the first
    /// problem in reading.
    fn read(
        &mut self,
        project: Option<&Path>,
        dir: &Path,
        family: &Family,
        feed: &Feed,
    ) -> (Vec<Envelope>, Option<String>) {
        if !leftfold_store::exists(dir) {
            return (Vec::new(), None);
        }
        // A node's events count as durable once their head is written.
        let running = leftfold_store::in_use(dir);
        self.unsettled = running;
        if running && family.heads.is_empty() {
            return (Vec::new(), None);
        }
        let reader = match Reader::open(dir) {
            Ok(reader) => reader,
            Err(error) => return (Vec::new(), Some(error.to_string())),
        };
        let mut problem = None;
        let mut queues = Vec::new();
        let sessions = match reader.sessions() {
            Ok(sessions) => sessions,
            Err(error) => return (Vec::new(), Some(error.to_string())),
        };
        for session in sessions {
            let root = family.root(session);
            let is_followed = self.followed.contains(&root);
            if is_followed || project.is_some_and(|project| !self.is_of(project, dir, family, root))
            {
                continue;
            }
            let from = feed.cursor(session);
            let events = reader.read(session, from).unwrap_or_else(|error| {
                problem.get_or_insert(error.to_string());
                reader.read_good(session).0
            });
            let head = || reader.head(session).ok().flatten();
            let last = match running {
                true => head().map_or(0, |head| head.seq),
                false => Seq::MAX,
            };
            let wanted =
                |event: &Envelope| event.session == session && (from..=last).contains(&event.seq);
            queues.push(VecDeque::from_iter(events.into_iter().filter(wanted)));
        }
        (merged(queues), problem)
    }

    fn report(&mut self, problem: Option<String>) {
        if let Some(problem) = problem.filter(|problem| self.problem.as_ref() != Some(problem)) {
            leftfold_runtime::note(&format!("leftfold: {problem}"));
            self.problem = Some(problem);
        }
    }
}

/// The sessions that are named with a cursor, but for those that have a head.
fn without_head(from: &[From], heads: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
    let named = from.iter().filter_map(|from| match from {
        From::Session(session, _) => Some(*session),
        From::Seq(_) | From::Now => None,
    });
    let mut named: Vec<SessionId> = named.collect();
    if !named.is_empty() {
        let heads: HashSet<SessionId> = heads.collect();
        named.retain(|session| !heads.contains(session));
    }
    named
}

/// The events of several sessions, by time. A child's events come after the event that spawned it.
fn merged(mut queues: Vec<VecDeque<Envelope>>) -> Vec<Envelope> {
    let spawned = queues.iter().flatten().filter_map(Envelope::spawned);
    let mut unborn: HashSet<SessionId> = spawned.collect();
    let mut events = Vec::new();
    loop {
        queues.retain(|queue| !queue.is_empty());
        let is_born = |queue: &&mut VecDeque<Envelope>| {
            queue.front().is_some_and(|event| !unborn.contains(&event.session))
        };
        let at = |queue: &&mut VecDeque<Envelope>| queue.front().map(|event| event.at);
        let next = queues.iter_mut().filter(is_born).min_by_key(at);
        let Some(event) = next.and_then(VecDeque::pop_front) else { break };
        if let Some(child) = event.spawned() {
            unborn.remove(&child);
        }
        events.push(event);
    }
    // Only a damaged log has children that spawn each other.
    events.extend(queues.into_iter().flatten());
    events
}

/// Watches one root or fork, with its descendants, through its node's socket.
struct Follower {
    store: PathBuf,
    root: SessionId,
    descendants: Vec<SessionId>,
    shared: Vec<SessionId>,
    feed: Arc<Mutex<Feed>>,
}

impl Follower {
    fn run(self, reporter: &Sender<Report>) {
        let left = |watched| Report::Left { store: self.store.clone(), root: self.root, watched };
        let report = match self.connect() {
            None => left(false),
            Some(connection) => match self.follow(connection) {
                Ok(true) => left(true),
                Ok(false) => Report::Ended(Ok(())),
                Err(error) => Report::Ended(Err(error)),
            },
        };
        // The receiver is gone when the program ends.
        let _ = reporter.send(report);
    }

    /// Connects and watches from the cursors on, if the node has this session.
    fn connect(&self) -> Option<Connection> {
        let mut connection = client::connect(&self.store).ok()?;
        let params = {
            let feed = lock(&self.feed);
            let children = self.descendants.iter().map(|child| (*child, feed.cursor(*child)));
            let children: HashMap<SessionId, Seq> = children.collect();
            json!({ "session": self.root, "from": feed.cursor(self.root), "children": children })
        };
        let watching = connection.call("_leftfold/watch", &params);
        watching.inspect_err(|error| tracing::debug!("no node to watch: {error:#}")).ok()?;
        Some(connection)
    }

    /// Prints the lines of the node until it ends. False: nobody reads standard output any more.
    fn follow(&self, mut connection: Connection) -> anyhow::Result<bool> {
        let mut lines = String::new();
        // A killed node may end the connection in any way.
        while let Ok(true) = connection.events(&mut lines) {
            let mut feed = lock(&self.feed);
            for line in lines.lines().filter_map(client::carried) {
                if !feed.take_line(line, &self.shared)? {
                    return Ok(false);
                }
            }
            if !feed.output.write()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn lock(feed: &Mutex<Feed>) -> MutexGuard<'_, Feed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Differs whenever something in the folder was added or removed.
fn look(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subagent_whose_head_a_crash_has_lost_is_watched_from_its_cursor() {
        let [root, lost] = [1, 2].map(|id| SessionId::from_bytes([id; 16]));
        let from = [From::Session(root, 9), From::Session(lost, 1), From::Now];
        assert_eq!(without_head(&from, [root].into_iter()), [lost]);
        assert_eq!(without_head(&from, [root, lost].into_iter()), []);
    }
}
