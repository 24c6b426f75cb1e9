//! The seam between a store and what keeps its bytes. [`Log`](crate::Log), [`Reader`](crate::Reader)
//! and everything else above it is one code for all engines: encoding, the checksum chain, forks,
//! summaries, verification. An engine knows neither events nor tokio: it keeps encoded events in
//! order, contents under their hashes, and one head per session.
//!
//! `store/tests/conformance/` holds what every engine must do. An engine of another crate runs these
//! tests too.

use std::fmt;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::{MessageId, Seq, SessionId, Sha256};

use crate::chain::Link;
use crate::day::Day;
use crate::error::{ContentFault, Damage, Error};
use crate::head::Head;
use crate::usage::{DayUse, Used};

/// Reads what an engine keeps. A reader's own copy or connection implements it, and so does the
/// reading half of an [`Engine`].
pub trait ReadEngine: fmt::Debug + Send + Sync {
    /// The session's own events from seq `from` on, in order, and each fault in the place of its
    /// event. It reads as it is asked for more, and goes on after a fault where it can. While an
    /// append is under way, it may yield events that are not acknowledged yet.
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_>;

    /// The session's first own event with seq `from` or greater, without its contents if these are
    /// kept elsewhere: `body` is the whole event only if that is smaller than [`PEEK`] bytes.
    ///
    /// # Errors
    /// Why the event cannot be read.
    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault>;

    /// The sessions that have events of their own, sorted.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault>;

    /// The contents that were appended under this hash. The caller compares the hash.
    ///
    /// # Errors
    /// Why contents that are there cannot be read.
    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault>;

    /// How far the session's log was acknowledged. It is a lower bound: a log is never shorter.
    ///
    /// # Errors
    /// The head cannot be read.
    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage>;

    /// The heads, sorted by session, without those that are damaged.
    ///
    /// # Errors
    /// None of them can be read.
    fn heads(&self) -> Result<Vec<Head>, ContentFault>;

    /// The use of a project's quota on a day, by all its sessions. Those that were removed may count.
    ///
    /// # Errors
    /// It cannot be read.
    fn used(&self, worktree: &str, day: Day) -> Result<Used, ContentFault> {
        Ok(Used::by(&self.heads()?, worktree, day))
    }

    /// Damage that belongs to no event: heads that cannot be read, and what the engine has found in
    /// its own files.
    fn damage(&self) -> Vec<Damage>;

    /// The owner of the session, and its place, for people. Both are unknown if the engine has one node at a time.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn owner(&self, session: SessionId) -> Result<Owner, ContentFault>;

    /// About how many bytes the engine keeps.
    ///
    /// # Errors
    /// They cannot be counted.
    fn size(&self) -> Result<u64, ContentFault>;

    /// The notes that [`Engine::note_imports`] was given, in any order.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn import_notes(&self) -> Result<Vec<u8>, ContentFault>;
}

/// The owner of a session of a shared engine, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The node that owns it. `None`: nobody does, or the owner's lease has run out.
    pub node: Option<String>,
    /// The place that it is bound to: `host:NAME` or `executor:NAME`.
    pub place: Option<String>,
    /// How many messages wait in its inbox.
    pub messages: u64,
    /// Why the last node that wanted to go on with it could not, and how long ago, if nobody owns it since.
    pub trouble: Option<(String, Duration)>,
}

/// Messages to the owners of sessions, which a shared engine keeps. Any node may put one there, and the owner settles it
/// with an append ([`Append::settles`]) or concludes it without one. So each has its effect once, whichever node dies.
///
/// Every call waits for the database.
pub trait Inboxes: Send + Sync {
    /// Puts a message into the inbox of a session. To put the same one there again does nothing, also after it was
    /// settled.
    ///
    /// # Errors
    /// Too many messages wait there, the message is too large, or the database is away.
    fn post(&self, to: SessionId, message: MessageId, body: Vec<u8>) -> Result<(), Error>;

    /// Up to `most` messages for sessions of this node, and (`may_claim`) for those without an owner that it may go on
    /// with. Oldest first, without those for the sessions in `except` and those that were settled.
    ///
    /// # Errors
    /// The database is away.
    fn waiting(
        &self,
        may_claim: bool,
        except: &[SessionId],
        most: usize,
    ) -> Result<Vec<WaitingMessage>, Error>;

    /// The text of a message. `None`: it is gone, or larger than [`MAX_BYTES`].
    ///
    /// # Errors
    /// The database is away.
    fn body(&self, message: MessageId) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes a message and keeps what became of it for its sender. A message that was `refused` has had no effect: if
    /// an append has settled it all the same, that counts.
    ///
    /// # Errors
    /// The database is away.
    fn conclude(&self, message: MessageId, outcome: Vec<u8>, refused: bool) -> Result<(), Error>;

    /// The state of a message.
    ///
    /// # Errors
    /// The database is away.
    fn progress(&self, message: MessageId) -> Result<Progress, Error>;

    /// Takes a message back. False: it was settled or concluded before.
    ///
    /// # Errors
    /// The database is away.
    fn withdraw(&self, message: MessageId) -> Result<bool, Error>;

    /// Forgets what became of a message, which its sender knows.
    ///
    /// # Errors
    /// The database is away.
    fn forget(&self, message: MessageId) -> Result<(), Error>;

    /// The owner and the place of a session, if messages are the way to it: another node owns it, or nobody does and it
    /// is bound to another place.
    ///
    /// # Errors
    /// The database is away.
    fn elsewhere(&self, session: SessionId) -> Result<Option<Owner>, Error>;

    /// Notes for people why this node cannot go on with a session of nobody. A session that somebody owns stays as it
    /// is.
    ///
    /// # Errors
    /// The database is away.
    fn note_trouble(&self, session: SessionId, why: String) -> Result<(), Error>;

    /// From now on, calls `wake` when a message was posted or concluded. A call may be lost. It is called no more once it
    /// answers `false`.
    fn on_message(&self, wake: Wake);

    /// Where the logs of sessions end that this node does not own: of those that another one owns and of those whose id
    /// is not below `since` the newest, at most `most` of each, and of all that are `known`.
    ///
    /// # Errors
    /// The database is away.
    fn ends_elsewhere(
        &self,
        since: SessionId,
        known: &[SessionId],
        most: usize,
    ) -> Result<Vec<EndElsewhere>, Error>;

    /// Those of the sessions that another node owns now.
    ///
    /// # Errors
    /// The database is away.
    fn lost(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Error>;

    /// From now on, calls `grown` with each session whose log has grown, by any node. A call may be lost. It is called no
    /// more once it answers `false`.
    fn on_any_growth(&self, grown: Box<dyn Fn(SessionId) -> bool + Send + Sync>);

    /// Waits until all other living nodes have told that their clients were sent what the log of the session has, for
    /// `patience` at most: whoever gets the answer to a request from this node may hear of events from another one.
    ///
    /// # Errors
    /// The database is away.
    fn wait_for_others(&self, session: SessionId, patience: Duration) -> Result<(), Error>;

    /// From now on, calls `show` when another node waits so. It returns at once, and calls [`Self::shown`] when clients
    /// of this process have what the log has.
    fn on_show(&self, show: Box<dyn Fn(SessionId) + Send + Sync>);

    /// See [`Self::on_show`].
    fn shown(&self, session: SessionId);

    /// Calls `wake` when the log of the session has grown, also if notifications are lost: then within about a second. A
    /// call may come for nothing. Ends when the result is dropped.
    fn on_growth(
        &self,
        session: SessionId,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Box<dyn Send + Sync>;
}

/// The end of a log that this node does not own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndElsewhere {
    pub session: SessionId,
    /// The last event of its log.
    pub seq: Seq,
}

/// The beginning of the place of sessions whose workspace is beside an executor. The rest is its name in settings.
pub const EXECUTOR: &str = "executor:";

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// A message that a node may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingMessage {
    pub message: MessageId,
    pub session: SessionId,
    /// Whether the session is this node's; otherwise it is nobody's.
    pub is_mine: bool,
}

/// The state of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nobody has taken it.
    Waits,
    /// It has had its effect, which is in the log, this long ago.
    Settled(Duration),
    /// The text that it was concluded with.
    Concluded(Vec<u8>),
    /// It is gone, as with a session that was removed.
    Gone,
}

/// A time that no effect waits for.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// Events of one session, as [`ReadEngine::events`] reads them.
pub type EventsOf<'a> = Box<dyn Iterator<Item = Result<StoredEvent, EventFault>> + 'a>;

/// Up to this size an event is whole in [`ReadEngine::peek`].
pub const PEEK: usize = 2 << 10;

/// Keeps the logs of one node. Dropping it waits until everything is durable.
pub trait Engine: fmt::Debug + Send + Sync {
    fn reader(&self) -> &dyn ReadEngine;

    /// Takes the right to append to the session, which may be new: then it belongs to the family of `from`, the
    /// session that it comes from. What its earlier owners have appended is then durable or has failed. The answer is
    /// the epoch of this right. A shared engine claims whole families.
    ///
    /// # Errors
    /// [`Error::Taken`] while somebody has the right, and what made an earlier append fail.
    fn claim(&self, session: SessionId, from: Option<SessionId>) -> Result<Epoch, Error>;

    /// The family of a session that is claimed: the session from which all of the family come.
    fn family(&self, session: SessionId) -> SessionId {
        session
    }

    /// Binds the family of a session that is claimed in that epoch to a place, for instance `executor:NAME`. Only nodes at
    /// this place take it over then. Later claims do not change a place that begins with [`EXECUTOR`].
    ///
    /// # Errors
    /// The epoch is over, or the database is away.
    fn bind(&self, session: SessionId, epoch: Epoch, place: &str) -> Result<(), Error> {
        let _ = (session, epoch, place);
        Ok(())
    }

    /// Until when an effect of the session may begin, because the session is still this node's in that epoch. `None`:
    /// none may begin. A shared engine asks its database if it is not sure, and may wait for it.
    fn holds(&self, session: SessionId, epoch: Epoch) -> Option<Instant> {
        let _ = (session, epoch);
        Some(Instant::now() + FAR)
    }

    /// Gives the right back. Appends that are under way go on. An epoch that is over is ignored.
    fn release(&self, session: SessionId, epoch: Epoch);

    /// Makes a batch durable, entirely or not at all, and then its head, and then calls `done`. It
    /// does not wait for that. It refuses a batch whose epoch is over or whose `expected` is not the
    /// session's last event ([`Error::Fenced`]). Batches of one session are acknowledged in order.
    /// Once a batch has failed, later ones of its epoch fail too.
    fn append(&self, append: Append);

    /// Removes the sessions' own events and heads. The caller has claimed them, and appends nothing
    /// more under these epochs. Contents stay, because other sessions may name them.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Database`]. Some of the events may then be gone: call it again.
    fn remove(&self, sessions: &[SessionId]) -> Result<(), Error>;

    /// Makes notes about imported sessions durable: a line each. Notes of other sessions stay.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Database`]
    fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error>;

    /// Whether other nodes append to other sessions of these logs at the same time.
    fn is_shared(&self) -> bool;

    /// From now on, sends each session whose log has grown. A hint may be lost or come twice; its
    /// events can be read before it comes.
    fn hints(&self, to: SyncSender<SessionId>);

    /// The sessions that want a node and that this one may go on with: those that nobody owns, and those that this node
    /// owns and that are not `at_work` in it. But not more than that as many as `most` are open here then. One that
    /// comes from another session is among them only if it wants a node of its own.
    ///
    /// # Errors
    /// The database is away.
    fn unowned(&self, at_work: &[SessionId], most: usize) -> Result<Vec<SessionId>, Error> {
        let _ = (at_work, most);
        Ok(Vec::new())
    }

    /// From now on, calls `wake` when a node has given back sessions that want another one. A call may be lost. It is
    /// called no more once it answers `false`.
    fn on_release(&self, wake: Wake) {
        drop(wake);
    }

    /// The inboxes of its sessions, if nodes share them.
    fn inboxes(&self) -> Option<&dyn Inboxes> {
        None
    }

    /// Gives all sessions back and claims no more, so that other nodes go on at once. Appends that are under way are
    /// waited for.
    fn leave(&self) {}

    /// Distinguishes these logs from all others, also from their copies. All nodes of a shared engine have the
    /// same.
    fn identity(&self) -> String;
}

/// See [`Engine::on_release`].
pub type Wake = Box<dyn Fn() -> bool + Send + Sync>;

/// Counts the owners of a session's log.
pub type Epoch = u64;

/// Receives what became of an append. It runs on a thread of the engine and is quick.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// An encoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: Seq,
    /// The schema of `body`.
    pub schema: u8,
    /// Its link in the session's checksum chain.
    pub link: Link,
    pub body: Vec<u8>,
}

/// Why an event cannot be read.
#[derive(Debug)]
pub enum EventFault {
    Damage {
        seq: Seq,
        /// Its link, if only its contents cannot be read.
        link: Option<Link>,
        what: ContentFault,
    },
    OtherSchema {
        seq: Seq,
        found: u8,
    },
    /// Something is wrong at the place that reading has come to, and the engine cannot tell with
    /// which event.
    Unplaced(ContentFault),
}

/// One batch of a session's log.
pub struct Append {
    pub session: SessionId,
    pub epoch: Epoch,
    /// The session's last own event before the batch. `None`: the batch is the session's first, and
    /// may continue the chain of the session that it was forked from.
    pub expected: Option<Seq>,
    /// At least one, in order.
    pub events: Vec<StoredEvent>,
    /// Contents that the events name. The engine may have some of them.
    pub payloads: Vec<(Sha256, Arc<str>)>,
    /// The session's new head, as [`Head::decode`] reads it.
    pub head: Vec<u8>,
    /// The session's use of its project's quota. It is kept with the head. `None`: the engine reads it from heads.
    pub usage: Option<DayUse>,
    /// Whether the session wants a node after this batch. It is kept with the head.
    pub wants: bool,
    /// The messages that it settles. They are deleted with it. If one is gone, the batch is refused: it was settled
    /// before.
    pub settles: Vec<MessageId>,
    pub done: Done,
}

impl fmt::Debug for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seqs = self.events.iter().map(|event| event.seq).collect::<Vec<_>>();
        let mut append = f.debug_struct("Append");
        append.field("session", &self.session).field("epoch", &self.epoch);
        append.field("expected", &self.expected).field("seqs", &seqs).finish_non_exhaustive()
    }
}

/// Runs a caller's callback. A panic in it must not take the engine down.
pub fn call(done: Done, result: Result<(), Error>) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("the receiver of a flush panicked");
    }
}

/// Why a log takes no more events: an append to it has failed, so a later one would leave a gap.
#[derive(Debug)]
pub struct Poison {
    session: SessionId,
    why: Mutex<Option<String>>,
}

impl Poison {
    pub fn new(session: SessionId) -> Self {
        Self { session, why: Mutex::new(None) }
    }

    /// Stores the first reason; later ones are ignored.
    pub fn set(&self, error: &Error) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert_with(|| error.to_string());
    }

    /// # Errors
    /// [`Error::Poisoned`]
    pub fn check(&self) -> Result<(), Error> {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        match &*why {
            Some(why) => Err(Error::Poisoned { session: self.session, why: why.clone() }),
            None => Ok(()),
        }
    }
}
