//! The engine as its callers see it: synchronous, with callbacks. Everything happens on one thread.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leftfold_events::{MessageId, Seq, SessionId, Sha256};
use leftfold_store::Link;
use leftfold_store::day::Day;
use leftfold_store::engine::{EndElsewhere, Owner, Progress, StoredEvent, WaitingMessage};
use leftfold_store::usage::Used;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::address::Address;
use crate::append::{Append, End, Queue};
use crate::batch::Fault;
use crate::connection::{Connector, Purpose, Slot};
use crate::error::Error;
use crate::hints::{self, Announcer, Hint};
use crate::inspect::{self, NodeStatus, Server, Status};
use crate::metrics::Metrics;
use crate::ownership::{Claim, Node};
use crate::places::FurtherPlaces;
use crate::read::{self, Head, Page};

/// Groups that are committed at the same time. With one, the disk waits while the next group is put
/// together; with more, groups are smaller.
const WORKERS: usize = 2;

/// How long closing waits for appends that are under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a node uses the database.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the sessions of a node stay its own after it was last heard of. It renews five times as
    /// often.
    pub lease: Duration,
    /// How long an append waits while the database is away. A failover takes less than this.
    pub patience: Duration,
    /// The names by which people know the node.
    pub labels: Vec<String>,
    /// The place of the node, for instance `host:NAME` for the files of a host. Sessions that it claims are bound to
    /// this place, unless they are bound to another one ([`bind`](leftfold_store::engine::Engine::bind)). Only nodes at
    /// the place of a session take it over.
    pub place: String,
    /// The other places that it is at.
    pub further: FurtherPlaces,
    /// Called once when an operator asks this node to give its sessions back and end. It runs on the engine's thread
    /// and is quick. The engine itself only takes no more sessions of others.
    pub drain: fn(),
    /// The node adds its counts to these. Nodes of one process may share them.
    pub metrics: Arc<Metrics>,
}

impl Default for Options {
    fn default() -> Self {
        let (lease, patience) = (Duration::from_secs(15), Duration::from_secs(120));
        Self {
            lease,
            patience,
            labels: Vec::new(),
            place: String::new(),
            further: FurtherPlaces::default(),
            drain: || {},
            metrics: Arc::default(),
        }
    }
}

/// Reads the logs in a database. A standby will do.
pub struct PostgresReader {
    thread: EngineThread,
    slot: Arc<Slot>,
    announcer: Arc<Announcer>,
}

/// Owns sessions of a database, and appends to their logs. Dropping it waits until its appends are
/// durable or have failed, for up to 10 s, and gives its sessions back.
pub struct Postgres {
    reader: PostgresReader,
    queue: Arc<Queue>,
    node: Arc<Node>,
    /// Has this process's clients sent what a log has. Without it, this process has none.
    show: Arc<OnceLock<Show>>,
}

/// Begins to have clients sent what the log of a session has, and then calls [`Postgres::shown`].
pub(crate) type Show = Box<dyn Fn(SessionId) + Send + Sync>;

impl fmt::Debug for PostgresReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresReader").field(&self.slot.connector.address).finish()
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Postgres").field(&self.reader.slot.connector.address).finish()
    }
}

impl PostgresReader {
    /// # Errors
    /// Everything that keeps it from the database or is wrong there.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(address.clone())?);
        let thread = EngineThread::start()?;
        let slot = Arc::new(Slot::new(&connector, Purpose::Read));
        let first = Arc::clone(&slot);
        thread.run(async move { first.get().await.map(drop) })?;
        let announcer = Arc::new(Announcer::new());
        thread.spawn(Arc::clone(&announcer).poll(Arc::clone(&slot)));
        Ok(Self { thread, slot, announcer })
    }

    /// Also delivers what other nodes notify, and notifies them.
    fn listen(&self) -> Result<(), Error> {
        let (to, mut probes) = tokio::sync::mpsc::unbounded_channel();
        let connector = Arc::clone(&self.slot.connector);
        self.thread.spawn(Arc::clone(&self.announcer).listen(connector, to));
        self.thread.spawn(Arc::clone(&self.announcer).notify(Arc::clone(&self.slot)));
        self.read(async move |slot| hints::probe(&slot, &mut probes).await)
    }

    /// Events of a session from seq `from` on: about `bytes`, and at least one batch.
    ///
    /// # Errors
    /// The database does not answer for half a minute, or fails.
    pub fn events(&self, session: SessionId, from: Seq, bytes: u32) -> Result<Page, Error> {
        self.read(async move |slot| read::events(&slot, session, from, bytes).await)
    }

    /// The session's first event with seq `from` or greater.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn first(
        &self,
        session: SessionId,
        from: Seq,
    ) -> Result<Option<Result<StoredEvent, Fault>>, Error> {
        self.read(async move |slot| read::first(&slot, session, from).await)
    }

    /// The link of one event.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn link(&self, session: SessionId, seq: Seq) -> Result<Option<Link>, Error> {
        self.read(async move |slot| read::link_of(&slot, session, seq).await)
    }

    /// Contents that were appended under this hash. The caller compares the hash.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, Error> {
        self.read(async move |slot| read::payload(&slot, sha256).await)
    }

    /// Up to `most` sessions that have events, in the order of ids, after `after`.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn heads(&self, after: Option<SessionId>, most: u32) -> Result<Vec<Head>, Error> {
        self.read(async move |slot| read::heads(&slot, after, most).await)
    }

    /// One session, if it has events.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn head(&self, session: SessionId) -> Result<Option<Head>, Error> {
        self.read(async move |slot| read::head(&slot, session).await)
    }

    /// The use of a project's quota on a day, by all its sessions, also those that were removed since.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn used(&self, project: Sha256, day: Day) -> Result<Used, Error> {
        self.read(async move |slot| read::used(&slot, project, day).await)
    }

    /// How many bytes the tables take up.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn size(&self) -> Result<u64, Error> {
        self.read(async move |slot| read::size(&slot).await)
    }

    /// The node that owns a session, by its labels or else its id, and the session's place.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn owner(&self, session: SessionId) -> Result<Owner, Error> {
        self.read(async move |slot| read::owner(&slot, session).await)
    }

    /// How the server is set up.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn server(&self) -> Result<Server, Error> {
        self.read(async move |slot| inspect::server(&slot).await)
    }

    /// All nodes, by age, also those that died within a day.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn nodes(&self) -> Result<Vec<NodeStatus>, Error> {
        self.read(async move |slot| inspect::nodes(&slot).await)
    }

    /// The numbers of nodes, sessions and messages.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub fn status(&self) -> Result<Status, Error> {
        self.read(async move |slot| inspect::status(&slot).await)
    }

    /// Whether what one connection notifies reaches another, as nodes need it.
    ///
    /// # Errors
    /// [`Error::Pooler`] if it does not.
    pub fn check_notifications(&self) -> Result<(), Error> {
        self.listen()
    }

    /// The notes about imported sessions.
    ///
    /// # Errors
    /// As for [`Self::events`].
    pub(crate) fn import_notes(&self) -> Result<Vec<String>, Error> {
        self.read(async move |slot| read::import_notes(&slot).await)
    }

    /// Distinguishes these logs from all others: the server's system identifier, database and schema.
    pub fn identity(&self) -> String {
        format!("postgresql:{}", self.slot.connector.identity())
    }

    /// From now on, sends hints. A receiver that is full loses them.
    pub fn hints(&self, to: SyncSender<Hint>) {
        let is_there = |sent| !matches!(sent, Err(TrySendError::Disconnected(_)));
        self.announcer.subscribe(Box::new(move |hint| is_there(to.try_send(hint))));
    }

    /// As [`Self::hints`], for logs that have grown.
    pub(crate) fn grown(&self, to: SyncSender<SessionId>) {
        let is_there = |sent| !matches!(sent, Err(TrySendError::Disconnected(_)));
        self.on_any_growth(move |session| is_there(to.try_send(session)));
    }

    /// Calls `wake` when another node has given back sessions that want one, until it answers `false`.
    pub(crate) fn on_release(&self, wake: impl Fn() -> bool + Send + 'static) {
        self.announcer.subscribe(Box::new(move |hint| hint != Hint::Released || wake()));
    }

    /// Calls `wake` when a message was posted or concluded, until it answers `false`.
    pub(crate) fn on_message(&self, wake: impl Fn() -> bool + Send + 'static) {
        let is_one = |hint| matches!(hint, Hint::Message(_) | Hint::Concluded(_));
        self.announcer.subscribe(Box::new(move |hint| !is_one(hint) || wake()));
    }

    /// Calls `grown` with each session that may have grown, until it answers `false`.
    pub(crate) fn on_any_growth(&self, grown: impl Fn(SessionId) -> bool + Send + 'static) {
        self.announcer.subscribe(Box::new(move |hint| {
            let Hint::Grown(session) = hint else { return true };
            grown(session)
        }));
    }

    /// Calls `wake` when a session may have grown, as long as the result lives.
    pub(crate) fn on_growth(&self, of: SessionId, wake: Arc<dyn Fn() + Send + Sync>) -> Watch {
        let watch = self.watch(of);
        let wanted = Arc::downgrade(&watch.wanted);
        self.announcer.subscribe(Box::new(move |hint| {
            let is_wanted = wanted.strong_count() > 0;
            if is_wanted && hint == Hint::Grown(of) {
                wake();
            }
            is_wanted
        }));
        watch
    }

    /// While the result lives, a hint that this session has grown comes within about a second, even if
    /// notifications are lost. One comes at first.
    pub fn watch(&self, session: SessionId) -> Watch {
        self.announcer.watch(session);
        Watch { session, announcer: Arc::clone(&self.announcer), wanted: Arc::new(()) }
    }

    fn read<T, F>(&self, work: impl FnOnce(Arc<Slot>) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.thread.run(work(Arc::clone(&self.slot)))
    }
}

/// Somebody's interest in a session.
pub struct Watch {
    session: SessionId,
    announcer: Arc<Announcer>,
    wanted: Arc<()>,
}

leftfold_events::debug_fields!(Watch { session });

impl Drop for Watch {
    fn drop(&mut self) {
        self.announcer.unwatch(self.session);
    }
}

impl Postgres {
    /// Registers this process as a node.
    ///
    /// # Errors
    /// Everything that keeps it from the database or is wrong there. It does not wait for a database
    /// that is away.
    pub fn open(address: &Address, options: Options) -> Result<Self, Error> {
        let reader = PostgresReader::open(address)?;
        let connector = Arc::clone(&reader.slot.connector);
        reader.listen()?;
        let control = Arc::new(Slot::new(&connector, Purpose::Control));
        let lease = address.lease.unwrap_or(options.lease);
        let places = (options.place, options.further);
        let metrics = options.metrics;
        let node = Node::register(
            control,
            options.labels,
            lease,
            places,
            options.drain,
            Arc::clone(&metrics),
        );
        let node = Arc::new(reader.thread.run(node)?);
        let looking = Arc::downgrade(&node);
        reader.announcer.subscribe(Box::new(move |hint| {
            let Some(node) = looking.upgrade() else { return false };
            if hint == Hint::Nodes {
                node.look();
            }
            true
        }));
        let show = Arc::new(OnceLock::<Show>::new());
        let (shows, announcer) = (Arc::clone(&show), Arc::downgrade(&reader.announcer));
        reader.announcer.subscribe(Box::new(move |hint| {
            let (Hint::Show(session), Some(announcer)) = (hint, announcer.upgrade()) else {
                return true;
            };
            match shows.get() {
                Some(show) => show(session),
                None => announcer.tell(&[Hint::Shown(session)]),
            }
            true
        }));
        let queue = Arc::new(Queue::new(Arc::clone(&reader.announcer), metrics));
        let thread = &reader.thread;
        thread.spawn(Arc::clone(&node).renew());
        for _ in 0..WORKERS {
            let slot = Slot::new(&connector, Purpose::Append);
            thread.spawn(Arc::clone(&queue).work(slot, options.patience));
        }
        Ok(Self { reader, queue, node, show })
    }

    /// Waits until all other living nodes have told that their clients were sent what the log of the session has, for
    /// `patience` at most.
    pub(crate) fn wait_for_others(
        &self,
        session: SessionId,
        patience: Duration,
    ) -> Result<(), Error> {
        let others =
            self.reader.read(async move |slot| inspect::living(&slot).await)?.saturating_sub(1);
        if others == 0 {
            return Ok(());
        }
        let (to, told) = mpsc::channel();
        self.reader.announcer.subscribe(Box::new(move |hint| {
            // it is wanted no more when the receiver is gone
            hint != Hint::Shown(session) || to.send(()).is_ok()
        }));
        self.reader.announcer.tell(&[Hint::Show(session)]);
        let end = std::time::Instant::now() + patience;
        for _ in 0..others {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if told.recv_timeout(left).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// From now on, `show` has clients sent what logs have.
    pub(crate) fn on_show(&self, show: Show) {
        // a process has one feed
        let _ = self.show.set(show);
    }

    /// This process's clients have what the log of the session has.
    pub(crate) fn shown(&self, session: SessionId) {
        self.reader.announcer.tell(&[Hint::Shown(session)]);
    }

    /// The reading half. It also reads what other nodes append.
    pub fn reader(&self) -> &PostgresReader {
        &self.reader
    }

    /// Appends a batch, entirely or not at all, and then calls its `done`. It does not wait for that.
    /// Batches of one session are answered in order, and once one has failed, later ones of its epoch
    /// fail too.
    pub fn append(&self, append: Append) {
        self.queue.put(append);
    }

    /// Waits until every append of these sessions so far is durable or has failed.
    pub(crate) fn settle(&self, sessions: HashSet<SessionId>) -> Result<(), Error> {
        let queue = Arc::clone(&self.queue);
        self.reader.thread.run(async move {
            queue.settled(Some(&sessions)).await;
            Ok(())
        })
    }

    /// See [`Queue::forgive`].
    pub(crate) fn forgive(&self, session: SessionId) {
        self.queue.forgive(session);
    }

    /// Releases a family when the appends of its `sessions` are durable or have failed. Does not wait for that.
    pub(crate) fn release_later(
        &self,
        family: SessionId,
        epoch: i64,
        sessions: HashSet<SessionId>,
    ) {
        let (queue, node) = (Arc::clone(&self.queue), Arc::clone(&self.node));
        self.reader.thread.spawn(async move {
            queue.settled(Some(&sessions)).await;
            match node.release(family, epoch).await {
                Ok(true) => queue.announcer.spread(&[Hint::Released]),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!("session {family} stays this node's for now: {error}");
                }
            }
        });
    }

    /// The family of a session. `None`: there is no such session.
    pub(crate) fn family_of(&self, session: SessionId) -> Result<Option<SessionId>, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.family_of(session).await })
    }

    /// Up to `most` sessions that want a node, are bound to a place of this one, and that it may claim now, or that it
    /// owns and that are not `at_work` in it.
    ///
    /// # Errors
    /// The database is away.
    pub fn unowned(&self, at_work: &[SessionId], most: u32) -> Result<Vec<SessionId>, Error> {
        let (node, places) = (Arc::clone(&self.node), self.node.places());
        let at_work = at_work.to_vec();
        self.reader
            .thread
            .run(async move { node.unowned(&places, &at_work, i64::from(most)).await })
    }

    /// Binds a family that is this node's in that epoch to a place.
    pub(crate) fn bind(&self, family: SessionId, epoch: i64, place: &str) -> Result<(), Error> {
        let (node, place) = (Arc::clone(&self.node), place.to_owned());
        self.reader.thread.run(async move { node.bind(family, epoch, &place).await })
    }

    /// Whether an operator has asked this node to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    /// How often the lease may have run out. Others may then have taken sessions.
    pub(crate) fn lapses(&self) -> u64 {
        self.node.lapses()
    }

    /// If the lease holds now: until when, and as [`Self::lapses`].
    pub(crate) fn sure(&self) -> Option<(std::time::Instant, u64)> {
        self.node.sure()
    }

    /// Whether a family is this node's in that epoch, by the database.
    pub(crate) fn holds(&self, family: SessionId, epoch: i64) -> Result<bool, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.holds(family, epoch).await })
    }

    /// Gives everything back once appends under way are settled, and tells other nodes.
    pub(crate) fn leave(&self) {
        let (queue, node) = (Arc::clone(&self.queue), Arc::clone(&self.node));
        let slot = Arc::clone(&self.reader.slot);
        let leaving = async move {
            let left = tokio::time::timeout(CLOSE_TIMEOUT, async {
                queue.settled(None).await;
                let wanted = node.leave().await?;
                if wanted {
                    queue.announcer.spread(&[Hint::Released]);
                }
                queue.announcer.send(&slot).await;
                Ok::<_, Error>(())
            });
            match left.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!("this node's sessions wait for its lease: {error}");
                }
                Err(_) => tracing::warn!("appends were under way when the engine was closed"),
            }
            queue.stop(Error::Closed);
            Ok(())
        };
        if let Err(error) = self.reader.thread.run(leaving) {
            tracing::debug!("the engine was closed on its own thread: {error}");
        }
    }

    /// Removes the events and heads of sessions that this node owns. Their rows stay, so that epochs go
    /// on counting.
    ///
    /// # Errors
    /// The database is away or fails; nothing is removed then.
    pub fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        let (node, sessions) = (Arc::clone(&self.node), sessions.to_vec());
        self.reader.thread.run(async move { node.remove(&sessions).await })
    }

    /// Keeps notes about imported sessions, each instead of an earlier one.
    pub(crate) fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error> {
        let (node, notes) = (Arc::clone(&self.node), notes.to_vec());
        self.reader.thread.run(async move { node.note_imports(&notes).await })
    }

    /// Takes a family: a root session and all that came from it. It need not exist yet. This node's
    /// earlier claim of it is then over.
    ///
    /// # Errors
    /// [`Error::Taken`] while another node has it, [`Error::TooEarly`] if that node is gone and this
    /// one has to wait, [`Error::Fenced`] if the session belongs to another session's family.
    pub fn claim(&self, family: SessionId) -> Result<Claim, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.claim(family).await })
    }

    /// Adds a session to a family, unless it is in it: a child or a fork. It has the claim's epoch. Answers where its
    /// log ends.
    ///
    /// # Errors
    /// [`Error::Fenced`] if it belongs to another family, or this claim of the family is over.
    pub fn add(&self, family: SessionId, epoch: i64, session: SessionId) -> Result<End, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.add(family, epoch, session).await })
    }

    /// Gives a family back. A claim that is over is ignored.
    ///
    /// # Errors
    /// The database is away. The family then stays this node's until its lease has run out.
    pub fn release(&self, family: SessionId, epoch: i64) -> Result<(), Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.release(family, epoch).await.map(drop) })
    }

    /// How long no other node can take this one's sessions in any case. An effect that must not happen
    /// twice looks here right before it begins.
    pub fn lease_left(&self) -> Duration {
        self.node.until().saturating_duration_since(Instant::now())
    }

    /// Puts a message into a session's inbox. Putting the same one there again does nothing.
    ///
    /// # Errors
    /// [`Error::InboxFull`], [`Error::Unstorable`] if it is larger than
    /// [`MAX_BYTES`](leftfold_store::engine::MAX_BYTES).
    pub fn post(&self, to: SessionId, message: MessageId, body: Vec<u8>) -> Result<(), Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.post(to, message, &body).await })?;
        self.reader.announcer.spread(&[Hint::Message(to)]);
        Ok(())
    }

    /// As [`Inboxes::waiting`](leftfold_store::engine::Inboxes::waiting). Messages of appends under way are among them.
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn waiting(
        &self,
        may_claim: bool,
        except: &[SessionId],
        most: u32,
    ) -> Result<Vec<WaitingMessage>, Error> {
        let (node, except) = (Arc::clone(&self.node), except.to_vec());
        let places = self.node.places();
        let waiting = async move { node.waiting(places, may_claim, &except, most.into()).await };
        self.reader.thread.run(waiting)
    }

    /// The text of a message. `None`: it is gone, or too large.
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn body(&self, message: MessageId) -> Result<Option<Vec<u8>>, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.body(message).await })
    }

    /// As [`Inboxes::conclude`](leftfold_store::engine::Inboxes::conclude).
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn conclude(
        &self,
        message: MessageId,
        outcome: Vec<u8>,
        refused: bool,
    ) -> Result<(), Error> {
        let node = Arc::clone(&self.node);
        let conclude = async move { node.conclude(message, &outcome, refused).await };
        self.reader.thread.run(conclude)?;
        self.reader.announcer.spread(&[Hint::Concluded(message)]);
        Ok(())
    }

    /// The state of a message.
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn progress(&self, message: MessageId) -> Result<Progress, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.progress(message).await })
    }

    /// Takes a message back. False: it is too late.
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn withdraw(&self, message: MessageId) -> Result<bool, Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.withdraw(message).await })
    }

    /// Forgets what became of a message.
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn forget(&self, message: MessageId) -> Result<(), Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.forget(message).await })
    }

    /// As [`Inboxes::note_trouble`](leftfold_store::engine::Inboxes::note_trouble).
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn note_trouble(&self, session: SessionId, why: String) -> Result<(), Error> {
        let node = Arc::clone(&self.node);
        self.reader.thread.run(async move { node.note_trouble(session, &why).await })
    }

    /// As [`Inboxes::ends_elsewhere`](leftfold_store::engine::Inboxes::ends_elsewhere).
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn ends_elsewhere(
        &self,
        since: SessionId,
        known: &[SessionId],
        most: u32,
    ) -> Result<Vec<EndElsewhere>, Error> {
        let (node, known) = (Arc::clone(&self.node), known.to_vec());
        self.reader.thread.run(async move { node.ends_elsewhere(since, &known, most.into()).await })
    }

    /// As [`Inboxes::lost`](leftfold_store::engine::Inboxes::lost).
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn lost(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Error> {
        let (node, sessions) = (Arc::clone(&self.node), sessions.to_vec());
        self.reader.thread.run(async move { node.lost(&sessions).await })
    }

    /// As [`Inboxes::elsewhere`](leftfold_store::engine::Inboxes::elsewhere).
    ///
    /// # Errors
    /// The database is away or fails.
    pub fn elsewhere(&self, session: SessionId) -> Result<Option<Owner>, Error> {
        let (node, places) = (Arc::clone(&self.node), self.node.places());
        self.reader.thread.run(async move { node.elsewhere(places, session).await })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The thread on which an engine works. It ends when this is dropped.
pub(crate) struct EngineThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EngineThread {
    pub(crate) fn start() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::no_thread(&e))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("leftfold-postgres".into()).spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        let thread = thread.map_err(|e| Error::no_thread(&e))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Runs work on the thread and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        // a callback that waited here would wait for itself
        if self.is_current() {
            self.handle.spawn(async move { work.await.map(drop) });
            return Err(Error::Closed);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().unwrap_or(Err(Error::Closed))
    }

    fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| t.thread().id() == thread::current().id())
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        let is_current = self.is_current();
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take().filter(|_| !is_current) {
            let _ = thread.join();
        }
    }
}
