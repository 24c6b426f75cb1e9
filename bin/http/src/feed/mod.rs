//! The feed of server-sent events (SSE): every client sees all sessions in one order.
//!
//! A root session with its subagents is a tree. Each tree has a projection. The feed watches the tree as an observer
//! of the node ([`Subscription`]), applies its events to the projection, and sends the frames to all clients. A client that reads too slowly is
//! cut off, and goes on from its cursor.
//!
//! Every frame has a cursor: the journal's id, the position of its event in the journal, and its
//! number among the frames of that event. A cursor means: this frame and all before it were sent.

mod logs;
mod replay;
mod sent;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use leftfold_actors::{Observation, Recorded, WatchScope};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_runtime::client::Client;
use leftfold_runtime::session_list;
use leftfold_runtime::session_paths;
use leftfold_runtime::subscription::Subscription;
use leftfold_store::{Head, LiveReader};
use leftfold_view::QuestionId;
use serde_json::{Value, json};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Semaphore, watch};

use crate::error::ApiError;
use crate::journal::{self, Journal, Record, RecordKind, Records};
use crate::opencode::{EventPlace, Frame, Projection, SessionProjection, ids};

use logs::Logs;
use replay::Replay;
pub(crate) use sent::{Cursor, Filter, Sent};

/// Frames that wait for a client. With more it is cut off.
const QUEUE: usize = 4_096;
/// Of those, the frames that are ready to be written.
const MAX_READY: usize = 16;
/// Messages of a session in a snapshot, the newest.
const MESSAGES: usize = 100;
/// How long to wait until clients have taken their frames.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a frame that was taken may need to the client. An answer on another connection must not come first.
const DELIVERY_DELAY: Duration = Duration::from_millis(5);
/// Clients that get what they have missed at a time: each costs the memory of the sessions that have changed.
const REPLAYS: usize = 4;
/// How long such a client may take nothing before it makes room for the next. It begins again where it is.
const STUCK_CLIENT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the events of a quiet session of another node are waited for.
const QUIET_SESSION_TIMEOUT: Duration = Duration::from_secs(60);
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// How often it is looked whether another node that shares the store still has a session.
const OWNER_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is looked whether a session is still open in this node, where other nodes may go on with it.
const OPEN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// In a cursor: all frames of its event.
const ALL_FRAMES: usize = 999_999;
/// Sessions in a snapshot, the newest.
const RECENT: usize = 50;
/// How many records of the journal may follow a snapshot that clients share.
const SHARED: u64 = 4_096;
/// Trees in memory. Of more, those that rest are read from their logs when somebody asks for them.
const KEPT: usize = 200;

/// All trees that clients have asked for or that have changed, and the clients.
pub(crate) struct Feed {
    logs: Logs,
    state: Mutex<FeedState>,
    replays: Semaphore,
    /// Is told of trees whose events do not arrive any more, where nodes share the store.
    on_end: OnceLock<Box<dyn Fn(SessionId) + Send + Sync>>,
}

leftfold_events::debug_fields!(Feed {});

struct FeedState {
    journal: Journal,
    /// The last event of each session in the journal.
    last: HashMap<SessionId, Seq>,
    trees: HashMap<SessionId, Tree>,
    /// The root of every known session.
    roots: HashMap<SessionId, SessionId>,
    clients: Vec<FeedClient>,
    /// The last snapshot of everything, while a client waits for it. Clients that come meanwhile share it,
    /// and get what has changed since from the logs: so many slow clients cost the memory of one.
    snapshot: Weak<Snapshot>,
    /// Trees to keep in memory.
    kept: usize,
    /// Counts the uses of trees.
    uses: u64,
}

/// The state of the open turn of a session that is loaded.
#[derive(Clone, Copy, Debug)]
enum OpenTurn {
    Runs,
    /// Nobody runs it.
    CutOff,
    /// Nobody runs it, unless events follow this one.
    CutOffAt(Seq),
}

impl OpenTurn {
    fn of(is_running: bool) -> Self {
        if is_running { Self::Runs } else { Self::CutOff }
    }
}

struct Tree {
    projection: Projection,
    /// Whether the node's events arrive.
    is_live: bool,
    /// When it was used last, as a count of uses.
    used: u64,
    /// The frames of a snapshot, while a client waits for them: clients that read too slowly share them.
    snapshot: Weak<Vec<Arc<Sent>>>,
    /// Tells those who wait for a change of this tree. They also wake up when the tree is dropped.
    changed: watch::Sender<()>,
}

struct FeedClient {
    filter: Filter,
    queue: Sender<Arc<Sent>>,
    /// Frames that were put into the queue, and that were taken from it.
    sent: u64,
    taken: watch::Receiver<u64>,
}

impl Feed {
    /// The feed of a store that this process holds, alone or (`is_shared`) as one of several nodes. [`Feed::load_recent`]
    /// comes next.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub(crate) fn open(store: LiveReader, is_shared: bool) -> anyhow::Result<Arc<Self>> {
        let fresh = leftfold_runtime::project::new_id().to_bytes();
        let fresh = fresh.iter().skip(8).fold(0, |id, byte| (id << 8) | u64::from(*byte));
        let journal = Journal::open(store.dir(), is_shared, fresh)?;
        let last = journal::last_seqs(&journal.records().read()?);
        let state = FeedState {
            journal,
            last,
            trees: HashMap::new(),
            roots: HashMap::new(),
            clients: Vec::new(),
            snapshot: Weak::new(),
            kept: KEPT,
            uses: 0,
        };
        Ok(Arc::new(Self {
            logs: Logs::new(store),
            state: Mutex::new(state),
            replays: Semaphore::new(REPLAYS),
            on_end: OnceLock::new(),
        }))
    }

    /// From now on `on_end` is told of each tree whose events do not arrive any more: other nodes may go on with it.
    pub(crate) fn tells_of_ends(&self, on_end: Box<dyn Fn(SessionId) + Send + Sync>) {
        // the feed is followed once
        let _ = self.on_end.set(on_end);
    }

    /// Loads the sessions that have changed last, and all whose last events were not sent before a
    /// crash or that began since, which sends them.
    pub(crate) fn load_recent(&self) {
        let mut heads = self.logs.heads_now();
        heads.sort_by_key(|head| std::cmp::Reverse(head.at));
        let parents: HashMap<SessionId, SessionId> = heads
            .iter()
            .filter_map(|head| Some((head.session, head.summary.as_ref()?.parent?)))
            .collect();
        let last = self.lock().last.clone();
        let unsent = |head: &Head| last.get(&head.session).is_some_and(|last| *last < head.seq);
        let recent = heads.iter().enumerate();
        let is_new = |head: &Head| self.lock().is_new(head.session);
        let wanted = recent.filter(|(rank, head)| *rank < RECENT || unsent(head) || is_new(head));
        for (_, head) in wanted {
            self.load(root_of(&parents, head.session));
        }
        // of the sessions with a store of their own those that clients have as working
        let is_open = |head: &Head| head.summary.as_ref().is_none_or(|known| known.ended.is_none());
        for (_, head) in self.logs.other_heads() {
            if unsent(&head) || last.contains_key(&head.session) && is_open(&head) {
                self.load(self.logs.root_of(head.session).unwrap_or(head.session));
            }
        }
    }

    /// Loads a tree from its logs, unless it is there as the logs have it. False: there is no such session.
    pub(crate) fn load(&self, root: SessionId) -> bool {
        let Some(store) = self.logs.other_store(root) else {
            return self.load_of_store(root);
        };
        let is_running = leftfold_store::in_use(&store);
        let heads = session_paths::heads_now(&store);
        let is_current = |tree: &Tree| {
            let known = |head: &Head| tree.projection.seq(head.session) >= head.seq;
            let is_of_tree = |head: &&Head| tree.projection.session(head.session).is_some();
            let mut of_tree = heads.iter().filter(is_of_tree);
            let is_shown = |(_, known): (SessionId, &SessionProjection)| {
                known.is_cut_off() || known.status()["type"] == "idle"
            };
            let runs = is_running || tree.projection.sessions().all(is_shown);
            tree.is_live || runs && of_tree.all(known)
        };
        self.load_as(root, || OpenTurn::of(leftfold_store::in_use(&store)), is_current)
    }

    /// As [`Self::load`], from the process's own store.
    fn load_of_store(&self, root: SessionId) -> bool {
        if !self.logs.is_shared() {
            return self.load_as(root, || OpenTurn::CutOff, |_| true);
        }
        if self.is_live(root) {
            return self.lock().touch(root, &|_: &Tree| true);
        }
        let is_running = self.logs.runs_elsewhere(root);
        let known = {
            let state = self.lock();
            let tree = state.trees.get(&root);
            tree.map(|tree| {
                let seqs = tree.projection.sessions().map(|(id, _)| (id, tree.projection.seq(id)));
                let cut_off = tree.projection.sessions().any(|(_, known)| known.is_cut_off());
                (seqs.collect::<Vec<_>>(), cut_off)
            })
        };
        let is_current = known.is_some_and(|(seqs, cut_off)| {
            let has_all = |(session, seq): &(SessionId, Seq)| {
                self.logs.head(*session).is_none_or(|head| head.seq <= *seq)
            };
            !(cut_off && is_running) && seqs.iter().all(has_all)
        });
        let open = || OpenTurn::of(self.logs.runs_elsewhere(root));
        self.load_as(root, open, |tree| tree.is_live || is_current)
    }

    /// The last event of a session that clients were sent, or that is history for them.
    pub(crate) fn last_of(&self, session: SessionId) -> Seq {
        let state = self.lock();
        let root = state.roots.get(&session).copied().unwrap_or(session);
        let shown = state.trees.get(&root).map(|tree| tree.projection.seq(session));
        shown.or_else(|| state.last.get(&session).copied()).unwrap_or_default()
    }

    /// Loads a tree, unless it is there and `is_current`. `open` is asked after the logs were read: somebody may begin a
    /// turn before they are, and it must not be shown as cut off.
    fn load_as(
        &self,
        root: SessionId,
        open: impl FnOnce() -> OpenTurn,
        is_current: impl Fn(&Tree) -> bool,
    ) -> bool {
        if self.lock().touch(root, &is_current) {
            return true;
        }
        let events = match self.logs.events_of_tree(root) {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!("session {root} cannot be shown: {error:#}");
                return false;
            }
        };
        if events.is_empty() {
            return false;
        }
        let open = open();
        let projection = Projection::new(root, self.logs.fork_number(root));
        let mut state = self.lock();
        if !state.trees.get(&root).is_some_and(is_current) {
            state.load(root, projection, &events, open);
        }
        true
    }

    /// From now on the feed has the events of this open session and of its subagents. `interrupted_at`
    /// is the end of its log when it was opened, if its last turn was interrupted.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        client: &Client,
        interrupted_at: Option<Seq>,
    ) -> anyhow::Result<()> {
        let root = client.session;
        let open = || interrupted_at.map_or(OpenTurn::Runs, OpenTurn::CutOffAt);
        self.load_as(root, open, |_| true);
        let (from, cursors) = {
            let mut state = self.lock();
            state.touch(root, &|_: &Tree| true);
            let tree =
                state.trees.entry(root).or_insert_with(|| Tree::new(Projection::new(root, 0)));
            if std::mem::replace(&mut tree.is_live, true) {
                return Ok(());
            }
            let seqs = tree.projection.sessions().map(|(id, _)| (id, tree.projection.seq(id) + 1));
            let mut cursors: HashMap<SessionId, Seq> = seqs.collect();
            state.roots.insert(root, root);
            // the watch itself says from where on the root is
            let from = cursors.remove(&root).unwrap_or(1);
            (from, cursors)
        };
        let scope = WatchScope::Whole(Arc::new(cursors));
        let mut events = match Subscription::open_as(client, from, scope).await {
            Ok(events) => events,
            Err(error) => {
                self.ended(root);
                return Err(error);
            }
        };
        let feed = Arc::clone(self);
        let client = client.clone();
        tokio::spawn(async move {
            let gone = other_process_gone(&client);
            tokio::pin!(gone);
            // a node hears of it when a session that is quiet goes on elsewhere
            let is_here = client.remote().is_none();
            let quiet = match feed.logs.is_shared() {
                true if client.is_through_inbox() => QUIET_SESSION_TIMEOUT,
                true if is_here => OPEN_POLL_INTERVAL,
                _ => TEN_YEARS,
            };
            loop {
                let next = tokio::select! {
                    next = events.next() => next,
                    () = &mut gone => None,
                    () = tokio::time::sleep(quiet) => {
                        if is_here && client.is_live().await {
                            continue;
                        }
                        None
                    }
                };
                let Some(Observation { events, done }) = next else { break };
                feed.lock().send(root, events.iter().map(Recorded::masked));
                // the hub may have ended with the node
                let _ = done.send(());
            }
            feed.ended(root);
            if client.remote().is_some() {
                // its turn may have been cut off
                let loaded = tokio::task::spawn_blocking(move || feed.load(root)).await;
                tracing::debug!("the process of session {root} has ended: {loaded:?}");
            }
        });
        Ok(())
    }

    /// No more events arrive until the session is opened again.
    fn ended(&self, root: SessionId) {
        let mut state = self.lock();
        if let Some(tree) = state.trees.get_mut(&root) {
            tree.is_live = false;
        }
        state.evict();
        drop(state);
        if let Some(on_end) = self.on_end.get() {
            on_end(root);
        }
    }

    /// A new client. With a cursor it goes on exactly there; otherwise it begins with a snapshot.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        filter: Filter,
        after: Option<Cursor>,
    ) -> (Cursor, Receiver<Arc<Sent>>) {
        let (queue, frames) = mpsc::channel(MAX_READY);
        let mut state = self.lock();
        let end = state.end();
        let missed = match after {
            Some(Cursor::At { journal, position, frame })
                if journal == state.journal.id && state.journal.has(position) =>
            {
                Some((position, frame))
            }
            Some(_) | None => None,
        };
        let first = match missed {
            Some(place) => First::Missed(state.journal.records(), place),
            None => {
                let snapshot = state.snapshot(&filter);
                let changed = snapshot.end != end;
                First::State(snapshot, changed.then(|| state.journal.records()))
            }
        };
        // frames from now on wait after the first ones
        let (live, mut waiting) = mpsc::channel(QUEUE);
        let (take, taken) = watch::channel(0);
        state.clients.push(FeedClient { filter: filter.clone(), queue: live, sent: 0, taken });
        drop(state);
        let feed = Arc::clone(self);
        tokio::spawn(async move {
            let sent = match first {
                First::State(snapshot, changed) => {
                    let sent = snapshot.send(&filter, &queue).await;
                    let end = snapshot.end;
                    drop(snapshot);
                    match (sent, changed, end) {
                        (Some(()), Some(records), Cursor::At { position, frame, .. }) => {
                            feed.replay(records, (position, frame), &filter, &queue).await
                        }
                        (sent, _, _) => sent,
                    }
                }
                First::Missed(records, place) => feed.replay(records, place, &filter, &queue).await,
            };
            if sent.is_none() {
                return;
            }
            // the sender is dropped when this client is cut off
            while let Some(sent) = waiting.recv().await {
                if queue.send(sent).await.is_err() {
                    return;
                }
                // nothing follows: it counts as taken when the connection has all
                if waiting.is_empty() && queue.reserve_many(MAX_READY).await.is_err() {
                    return;
                }
                take.send_modify(|taken| *taken += 1);
            }
        });
        (end, frames)
    }

    /// Sends the frames after a place. `None`: the client has gone.
    async fn replay(
        self: Arc<Self>,
        records: Records,
        mut after: (u64, usize),
        filter: &Filter,
        queue: &Sender<Arc<Sent>>,
    ) -> Option<()> {
        'from_the_place: loop {
            let permit = self.replays.acquire().await.ok()?;
            let (logs, roots) = (self.logs.clone(), self.lock().roots.clone());
            let records = records.clone();
            let begin = move || Replay::new(logs, roots, &records, after);
            let mut replay = tokio::task::spawn_blocking(begin).await.ok()?.ok()?;
            loop {
                let next = tokio::task::spawn_blocking(move || (replay.next(), replay));
                let (frames, rest) = next.await.ok()?;
                let Some(frames) = frames else { return Some(()) };
                let mut frames = frames.into_iter();
                while let Some(sent) = frames.next() {
                    if let Cursor::At { position, frame, .. } = sent.cursor {
                        after = (position, frame);
                    }
                    if !filter.wants(&sent) {
                        continue;
                    }
                    match queue.send_timeout(Arc::new(sent), STUCK_CLIENT_TIMEOUT).await {
                        Ok(()) => {}
                        Err(SendTimeoutError::Closed(_)) => return None,
                        Err(SendTimeoutError::Timeout(sent)) => {
                            drop((frames, rest, permit));
                            queue.send(sent).await.ok()?;
                            continue 'from_the_place;
                        }
                    }
                }
                replay = rest;
            }
        }
    }

    /// The root of a session.
    pub(crate) fn root_of(&self, session: SessionId) -> Option<SessionId> {
        let known = self.lock().roots.get(&session).copied();
        known.or_else(|| self.logs.root_of(session))
    }

    /// Reads the tree of a session with `see`; `None` if there is no such session.
    pub(crate) fn with<T>(
        &self,
        session: SessionId,
        see: impl FnOnce(&Projection) -> T,
    ) -> Option<T> {
        let root = self.root_of(session)?;
        if !self.load(root) {
            return None;
        }
        let state = self.lock();
        Some(see(&state.trees.get(&root)?.projection))
    }

    /// Whether the events of a session arrive here, so that its tree is as its logs are.
    pub(crate) fn is_live(&self, session: SessionId) -> bool {
        let mut state = self.lock();
        let root = state.roots.get(&session).copied();
        root.is_some_and(|root| state.touch(root, &|tree: &Tree| tree.is_live))
    }

    /// The roots of loaded trees whose events do not arrive, up to `most`.
    pub(crate) fn resting(&self, most: usize) -> Vec<SessionId> {
        let state = self.lock();
        let resting = state.trees.iter().filter(|(_, tree)| !tree.is_live);
        resting.map(|(root, _)| *root).take(most).collect()
    }

    /// Reads a loaded session with `see`; `None` if it is not loaded.
    pub(crate) fn loaded<T>(
        &self,
        session: SessionId,
        see: impl FnOnce(&SessionProjection) -> T,
    ) -> Option<T> {
        let state = self.lock();
        let root = state.roots.get(&session)?;
        Some(see(state.trees.get(root)?.projection.session(session)?))
    }

    /// Waits until `see` finds something in the tree of a session.
    ///
    /// # Errors
    /// The session was removed.
    pub(crate) async fn when<T>(
        &self,
        session: SessionId,
        see: impl Fn(&Projection) -> Option<T>,
    ) -> Result<T, ApiError> {
        loop {
            let mut changed = {
                let state = self.lock();
                let root = state.roots.get(&session).copied().unwrap_or(session);
                let Some(tree) = state.trees.get(&root) else {
                    return Err(ApiError::not_found("the session was removed"));
                };
                if let Some(found) = see(&tree.projection) {
                    return Ok(found);
                }
                tree.changed.subscribe()
            };
            // an error: the tree was dropped
            let _ = changed.changed().await;
        }
    }

    /// The directories of the clients that read those of one, and of the loaded sessions.
    pub(crate) fn directories(&self) -> HashSet<PathBuf> {
        let state = self.lock();
        let of_clients = state.clients.iter().filter_map(|client| match &client.filter {
            Filter::Directory(directory) => Some(directory.as_str()),
            Filter::All => None,
        });
        let sessions = state.trees.values().flat_map(|tree| tree.projection.sessions());
        let of_sessions = sessions.map(|(_, known)| known.directory());
        of_clients.chain(of_sessions).map(PathBuf::from).collect()
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.lock().clients.is_empty()
    }

    /// The last event in the log of a session.
    pub(crate) fn end_of(&self, session: SessionId) -> Seq {
        self.logs.head(session).map(|head| head.seq).unwrap_or_default()
    }

    /// Waits until the clients have taken what was sent, for a second at most: who waits for the
    /// answer to a request has then seen the frames before it.
    pub(crate) async fn taken(&self) {
        let clients: Vec<(u64, watch::Receiver<u64>)> =
            self.lock().clients.iter().map(|client| (client.sent, client.taken.clone())).collect();
        if clients.is_empty() {
            return;
        }
        let waits = async {
            for (sent, mut taken) in clients {
                // an error: the client has gone
                let _ = taken.wait_for(|taken| *taken >= sent).await;
            }
        };
        // a slow client does not delay others for long
        let _ = tokio::time::timeout(CLIENT_TIMEOUT, waits).await;
        tokio::time::sleep(DELIVERY_DELAY).await;
    }

    /// The question with this id of a client.
    pub(crate) fn question(&self, id: &str) -> Option<QuestionId> {
        let state = self.lock();
        state.trees.values().find_map(|tree| {
            let mut sessions = tree.projection.sessions();
            sessions.find_map(|(session, known)| Some((session, known.question(id)?)))
        })
    }

    /// Reads every loaded tree with `see`.
    pub(crate) fn each<T>(&self, see: impl Fn(&Projection) -> Vec<T>) -> Vec<T> {
        self.lock().trees.values().flat_map(|tree| see(&tree.projection)).collect()
    }

    /// Sends a frame that is not about a session's log.
    pub(crate) fn announce(&self, directory: &str, kind: &'static str, properties: Value) {
        let worktree = match directory {
            "" => String::new(),
            directory => leftfold_config::worktree_of(Path::new(directory)).display().to_string(),
        };
        let place = EventPlace::from_folders(directory, &worktree);
        let mut state = self.lock();
        let frame = Frame::new(SessionId::default(), kind, properties);
        let cursor = state.end();
        let sent = Arc::new(Sent::of_moment(cursor, place, &frame));
        state.tell(&sent);
    }

    /// Forgets a session that was deleted. Clients that list it learn so, also if it was not in memory.
    pub(crate) fn forget(&self, session: SessionId) {
        let mut state = self.lock();
        state.snapshot = Weak::new();
        let tree = state.trees.remove(&session);
        state.roots.retain(|_, root| *root != session);
        let known = tree.as_ref().and_then(|tree| tree.projection.session(session));
        let id = ids::of_session(session);
        let info = known.map_or_else(|| json!({ "id": id }), |known| known.info().clone());
        let properties = json!({ "sessionID": id, "info": info });
        let place = known.map(|known| known.place().clone()).unwrap_or_default();
        let cursor = state.end();
        let frame = Frame::new(session, "session.deleted", properties);
        let sent = Arc::new(Sent::of_moment(cursor, place, &frame));
        state.tell(&sent);
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All events of a session as they are in the log: secrets are not masked.
    pub(crate) fn unmasked(&self, session: SessionId) -> anyhow::Result<Vec<Envelope>> {
        self.logs.unmasked(session)
    }

    /// Events of a session after `known`, not masked; some of them if there are many.
    pub(crate) fn events_after(
        &self,
        session: SessionId,
        known: Seq,
    ) -> anyhow::Result<Vec<Envelope>> {
        self.logs.after(session, known)
    }

    /// The folder of the store that has a session.
    pub(crate) fn store_of(&self, session: SessionId) -> PathBuf {
        self.logs.store_of(session)
    }

    /// Tells when the tree of a root session changes, as far as it is loaded and its events arrive here.
    pub(crate) fn changes(&self, root: SessionId) -> Option<watch::Receiver<()>> {
        Some(self.lock().trees.get(&root)?.changed.subscribe())
    }

    /// The heads of all sessions.
    ///
    /// # Errors
    /// The database of the store is away.
    pub(crate) fn heads(&self) -> anyhow::Result<Vec<Head>> {
        let others = self.other_heads().into_iter().map(|(_, head)| head);
        Ok(self.logs.heads()?.into_iter().chain(others).collect())
    }

    /// The status of every session that is not idle, whichever process runs it.
    pub(crate) fn statuses(&self) -> HashMap<SessionId, Value> {
        let others = self.other_heads();
        let state = self.lock();
        let loaded = state.trees.values().flat_map(|tree| tree.projection.sessions());
        let loaded = loaded.map(|(id, known)| (id, known.status().clone()));
        let mut statuses: HashMap<SessionId, Value> = loaded.collect();
        drop(state);
        for (store, head) in others {
            if !statuses.contains_key(&head.session) && session_list::is_running(&store, &head) {
                statuses.insert(head.session, json!({ "type": "busy" }));
            }
        }
        statuses.retain(|_, status| status["type"] != "idle");
        statuses
    }

    /// The heads of the sessions with a store of their own. Trees of them that are in memory are read again
    /// if another process has gone on with them, or has ended.
    fn other_heads(&self) -> Vec<(PathBuf, Head)> {
        let others = self.logs.other_heads();
        let state = self.lock();
        let stale = others.iter().filter_map(|(_, head)| {
            let root = state.roots.get(&head.session)?;
            let tree = state.trees.get(root).filter(|tree| !tree.is_live)?;
            let (id, known) = (head.session, tree.projection.session(head.session)?);
            let is_shown_busy = known.status()["type"] != "idle";
            (is_shown_busy || tree.projection.seq(id) < head.seq).then_some(*root)
        });
        let stale: HashSet<SessionId> = stale.collect();
        drop(state);
        for root in stale {
            self.load(root);
        }
        others
    }
}

/// Waits for the end of the process that runs the session, if that is not this one.
async fn other_process_gone(client: &Client) {
    if client.remote().is_none() {
        std::future::pending::<()>().await;
    }
    let pause = if client.is_through_inbox() { OWNER_POLL_INTERVAL } else { CLIENT_TIMEOUT };
    while client.is_live().await {
        tokio::time::sleep(pause).await;
    }
}

fn root_of(parents: &HashMap<SessionId, SessionId>, session: SessionId) -> SessionId {
    let mut root = session;
    // a damaged head could name a circle
    for _ in 0..parents.len() {
        let Some(parent) = parents.get(&root) else { break };
        root = *parent;
    }
    root
}

impl Tree {
    fn new(projection: Projection) -> Self {
        let changed = watch::Sender::new(());
        Self { projection, is_live: false, used: 0, snapshot: Weak::new(), changed }
    }

    fn apply(&mut self, event: &Envelope) -> Vec<Frame> {
        self.snapshot = Weak::new();
        self.projection.apply(event)
    }

    fn cut_off(&mut self) -> Vec<Frame> {
        self.snapshot = Weak::new();
        self.projection.cut_off()
    }

    fn snapshot(&mut self) -> Arc<Vec<Arc<Sent>>> {
        if let Some(snapshot) = self.snapshot.upgrade() {
            return snapshot;
        }
        let frames = self.sent(self.projection.snapshot(MESSAGES));
        let snapshot = Arc::new(frames.into_iter().map(Arc::new).collect());
        self.snapshot = Arc::downgrade(&snapshot);
        snapshot
    }

    /// Frames as a part of a snapshot.
    fn sent(&self, frames: Vec<Frame>) -> Vec<Sent> {
        let sent = |frame: Frame| {
            let known = self.projection.session(frame.session);
            let place = known.map(|known| known.place().clone()).unwrap_or_default();
            Sent::of_moment(Cursor::Snapshot, place, &frame)
        };
        frames.into_iter().map(sent).collect()
    }
}

impl FeedState {
    /// Notes that a tree is used. False: it is not in memory, or not `is_current`.
    fn touch(&mut self, root: SessionId, is_current: &impl Fn(&Tree) -> bool) -> bool {
        self.uses += 1;
        let tree = self.trees.get_mut(&root).filter(|tree| is_current(tree));
        tree.map(|tree| tree.used = self.uses).is_some()
    }

    /// Forgets the trees that have not been used for longest, but for those that are open in the node
    /// or have an open turn. Their frames are in the logs.
    fn evict(&mut self) {
        while self.trees.len() > self.kept {
            let rests = |(root, tree): &(&SessionId, &Tree)| {
                !tree.is_live && !tree.projection.is_working(**root)
            };
            let oldest = self.trees.iter().filter(rests).min_by_key(|(_, tree)| tree.used);
            let Some(root) = oldest.map(|(root, _)| *root) else { return };
            self.trees.remove(&root);
        }
    }

    /// Whether clients were sent nothing of a session that has begun since they have got everything.
    fn is_new(&self, session: SessionId) -> bool {
        self.journal.has_begun(session) && !self.last.contains_key(&session)
    }

    /// Folds the whole tree. Events after the journal and those of new sessions are sent; the others are history.
    fn load(
        &mut self,
        root: SessionId,
        projection: Projection,
        events: &[Envelope],
        open: OpenTurn,
    ) {
        self.trees.insert(root, Tree::new(projection));
        // the journal does not say so
        self.snapshot = Weak::new();
        self.touch(root, &|_: &Tree| true);
        let mut unknown: BTreeMap<SessionId, Seq> = BTreeMap::new();
        let mut missed = Vec::new();
        for event in events {
            let Some(tree) = self.trees.get_mut(&root) else { return };
            let session = tree.projection.session_of(event);
            self.roots.insert(session, root);
            match self.last.get(&session) {
                Some(last) if event.seq > *last => missed.push(event),
                Some(_) => drop(tree.apply(event)),
                // what a fork shares is history
                None if self.journal.has_begun(session) && event.session == session => {
                    missed.push(event);
                }
                None => {
                    tree.apply(event);
                    unknown.insert(session, event.seq);
                }
            }
        }
        let known = unknown.iter().map(|(session, seq)| Record {
            session: *session,
            seq: *seq,
            kind: RecordKind::Known,
        });
        self.write(&known.collect::<Vec<_>>());
        self.last.extend(unknown);
        self.send(root, missed.into_iter());
        let Some(tree) = self.trees.get_mut(&root) else { return };
        let seq = tree.projection.seq(root);
        let is_cut_off = match open {
            OpenTurn::Runs => false,
            OpenTurn::CutOff => true,
            OpenTurn::CutOffAt(end) => seq <= end,
        };
        if is_cut_off && tree.projection.is_working(root) {
            let frames = tree.cut_off();
            let (at, position) = (tree.projection.at(root), self.journal.end());
            self.write(&[Record { session: root, seq, kind: RecordKind::CutOff }]);
            self.publish(root, position, at, frames);
        }
        self.evict();
    }

    /// Applies events, and sends their frames.
    fn send<'a>(&mut self, root: SessionId, events: impl Iterator<Item = &'a Envelope>) {
        let (mut records, mut of_records) = (Vec::new(), Vec::new());
        for event in events {
            let Some(tree) = self.trees.get_mut(&root) else { return };
            let session = tree.projection.session_of(event);
            let frames = tree.apply(event);
            if self.last.get(&session).is_some_and(|last| event.seq <= *last) {
                continue;
            }
            self.roots.insert(session, root);
            self.last.insert(session, event.seq);
            records.push(Record { session, seq: event.seq, kind: RecordKind::Sent });
            of_records.push((event.at, frames));
        }
        let first = self.journal.end();
        self.write(&records);
        for (position, (at, frames)) in (first..).zip(of_records) {
            self.publish(root, position, at, frames);
        }
        if let Some(tree) = self.trees.get(&root) {
            tree.changed.send_replace(());
        }
    }

    /// Sends the frames of a record of the journal, whose event has this time.
    fn publish(&mut self, root: SessionId, position: u64, at: Time, frames: Vec<Frame>) {
        let journal = self.journal.id;
        for (number, frame) in frames.into_iter().enumerate() {
            let place = self.place(root, frame.session);
            let sent = Arc::new(Sent::of_event((journal, position, number), at, place, &frame));
            self.tell(&sent);
        }
    }

    fn tell(&mut self, sent: &Arc<Sent>) {
        self.clients.retain_mut(|client| {
            if client.queue.is_closed() {
                return false;
            }
            if !client.filter.wants(sent) {
                return true;
            }
            client.sent += 1;
            client.queue.try_send(Arc::clone(sent)).is_ok()
        });
    }

    fn write(&mut self, records: &[Record]) {
        if let Err(error) = self.journal.append(records) {
            tracing::warn!("the feed's journal cannot be written: {error}");
        }
    }

    fn place(&self, root: SessionId, session: SessionId) -> EventPlace {
        let tree = self.trees.get(&root);
        let known = tree.and_then(|tree| tree.projection.session(session));
        known.map(|known| known.place().clone()).unwrap_or_default()
    }

    /// The cursor of everything that was sent so far.
    fn end(&self) -> Cursor {
        match self.journal.end().checked_sub(1) {
            Some(position) => Cursor::At { journal: self.journal.id, position, frame: ALL_FRAMES },
            None => Cursor::At { journal: self.journal.id, position: 0, frame: 0 },
        }
    }

    /// The loaded sessions as frames. The last frame has the cursor of the end.
    fn snapshot(&mut self, filter: &Filter) -> Arc<Snapshot> {
        // a client of one directory takes an old message or an end for an answer to its own prompt
        let open_only = matches!(filter, Filter::Directory(_));
        if let Some(shared) = self.snapshot.upgrade().filter(|_| !open_only)
            && let Cursor::At { position, .. } = shared.end
            && self.journal.has(position)
            && self.journal.end() < position + SHARED
        {
            return shared;
        }
        let of_tree = |tree: &mut Tree| match open_only {
            true => Arc::new(tree.sent(tree.projection.open()).into_iter().map(Arc::new).collect()),
            false => tree.snapshot(),
        };
        let trees = self.trees.values_mut().map(of_tree).collect();
        let snapshot = Arc::new(Snapshot { trees, end: self.end() });
        if !open_only && self.journal.end() > 0 {
            self.snapshot = Arc::downgrade(&snapshot);
        }
        snapshot
    }
}

/// The first frames of a client.
enum First {
    /// With the journal if something has changed since the snapshot.
    State(Arc<Snapshot>, Option<Records>),
    /// The frames after the last one that it has: a record, and a frame's number.
    Missed(Records, (u64, usize)),
}

/// The state that a client gets first.
struct Snapshot {
    /// As long as a client holds them, others share them.
    trees: Vec<Arc<Vec<Arc<Sent>>>>,
    end: Cursor,
}

impl Snapshot {
    /// Sends the frames that a client wants. The last one has the cursor of the end. `None`: the client has
    /// gone.
    async fn send(&self, filter: &Filter, queue: &Sender<Arc<Sent>>) -> Option<()> {
        let mut next: Option<Arc<Sent>> = None;
        for tree in &self.trees {
            for sent in tree.iter() {
                if !filter.wants(sent) {
                    continue;
                }
                if let Some(sent) = next.replace(Arc::clone(sent)) {
                    queue.send(sent).await.ok()?;
                }
            }
        }
        if let Some(last) = next {
            queue.send(Arc::new(last.at(self.end))).await.ok()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{ModelRef, Session, Turn};
    use leftfold_events::{Event, Notes};
    use leftfold_runtime::project::new_id;

    use super::*;

    fn event(session: SessionId, seq: Seq, event: impl Into<Event>) -> Envelope {
        let (event, notes) = (event.into(), Notes::default());
        Envelope { session, seq, at: Time::from_millis(seq), of: None, until: None, event, notes }
    }

    fn created(session: SessionId) -> Envelope {
        let created = Session::Created {
            directory: "/p".to_owned(),
            worktree: "/p".to_owned(),
            parent: None,
            agent: "build".to_owned(),
            version: "1".to_owned(),
            policy: 1,
        };
        event(session, 1, created)
    }

    #[test]
    fn trees_that_rest_leave_memory_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = FeedState {
            journal: Journal::open(folder.path(), false, 1).unwrap(),
            last: HashMap::new(),
            trees: HashMap::new(),
            roots: HashMap::new(),
            clients: Vec::new(),
            snapshot: Weak::new(),
            kept: 3,
            uses: 0,
        };
        let [working, live, unused, used, fresh] = [(); 5].map(|()| new_id());
        let prompted = Turn::Prompted {
            parts: Vec::new(),
            agent: "build".to_owned(),
            model: ModelRef::default(),
            by: "test".to_owned(),
        };
        state.load(
            working,
            Projection::new(working, 0),
            &[created(working), event(working, 2, prompted)],
            OpenTurn::CutOff,
        );
        state.load(live, Projection::new(live, 0), &[created(live)], OpenTurn::CutOff);
        state.trees.get_mut(&live).unwrap().is_live = true;
        state.load(unused, Projection::new(unused, 0), &[created(unused)], OpenTurn::CutOff);
        let before = state.trees[&unused].projection.session(unused).unwrap().info().clone();
        state.load(used, Projection::new(used, 0), &[created(used)], OpenTurn::CutOff);
        let known = |state: &FeedState, wanted: &[SessionId]| {
            let loaded: HashSet<SessionId> = state.trees.keys().copied().collect();
            assert_eq!(loaded, wanted.iter().copied().collect());
        };
        known(&state, &[working, live, used]);
        state.load(fresh, Projection::new(fresh, 0), &[created(fresh)], OpenTurn::CutOff);
        known(&state, &[working, live, fresh]);
        // read again, it is the same, and nothing is sent a second time
        let end = state.journal.end();
        state.load(unused, Projection::new(unused, 0), &[created(unused)], OpenTurn::CutOff);
        assert_eq!(state.trees[&unused].projection.session(unused).unwrap().info(), &before);
        assert_eq!(state.journal.end(), end);
    }
}
