//! The log that a session appends to, with its fold. This is the only place where a log is opened for
//! appending: the `Log` stays inside the session.

use std::thread;
use std::time::{Duration, Instant};

use leftfold_events::event::Session as SessionEvent;
use leftfold_events::{Envelope, Seq, SessionId, State, fold};
use leftfold_store::engine::EXECUTOR;
use leftfold_store::{Log, Store};
use leftfold_tools::{LateOutcome, SessionOwner};

use crate::messages::Error;
use crate::world::World;

/// How long a session that was just closed has to release its log, and how often it is asked.
const LOG_RELEASE_TIMEOUT: Duration = Duration::from_millis(20);
const LOG_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A log, opened for the Session that appends to it, and its fold.
pub(crate) struct OpenLog {
    pub(super) log: Log,
    /// The fold of the log; before a fork's first event, the fold of the shared events.
    pub(super) state: State,
    /// For a new session: its first event.
    pub(super) created_event: Option<SessionEvent>,
    /// The last imported event, if the log does not say yet that it is not trusted.
    pub(crate) imported: Option<Seq>,
    /// The steps of the imported part whose changes count.
    pub(super) accepted: Vec<Seq>,
    /// Tells this opening of the log from others.
    opening: String,
    /// Outcomes that an executor had kept for the next owner.
    pub(super) recovered: Vec<LateOutcome>,
}

impl OpenLog {
    /// Opens the log of `session`, which begins with `created_event` if it is new. It blocks on the
    /// disk.
    ///
    /// # Errors
    /// Another session has the log, or it cannot be read.
    pub(crate) fn open(
        store: &Store,
        session: SessionId,
        created_event: Option<SessionEvent>,
    ) -> Result<Self, Error> {
        let from = created_event.as_ref().and_then(SessionEvent::comes_from);
        let log = log(store, session, from)?;
        let created_event = created_event.filter(|_| log.head() == 0);
        let events = if let Some(SessionEvent::Forked { from, at }) = created_event {
            shared(store, from, at)?
        } else {
            log.read()?
        };
        let (state, imported) = (fold(&events), leftfold_store::imported(store.dir(), &events)?);
        let imported = Some(imported).filter(|imported| *imported > state.imported);
        let accepted = match imported {
            Some(_) => leftfold_store::accepted_steps(store.dir(), &events)?.into_iter().collect(),
            None => Vec::new(),
        };
        let (opening, recovered) = (SessionOwner::new_opening(), Vec::new());
        Ok(Self { log, state, created_event, imported, accepted, opening, recovered })
    }

    /// The right by which an executor runs the session's calls.
    pub(crate) fn owner(&self, store: &Store) -> SessionOwner {
        let (family, epoch) = self.log.family();
        SessionOwner {
            store: store.identity(),
            family,
            epoch,
            session: self.log.session(),
            opening: self.opening.clone(),
        }
    }

    /// Takes the session over at the executor beside its workspace, if it has one: what still runs there is ended, and
    /// what has ended since its node was gone is known.
    ///
    /// # Errors
    /// [`Error::Executor`].
    pub(crate) async fn fence(&mut self, world: &World, store: &Store) -> Result<(), Error> {
        let Some(remote) = &world.workspace.remote else { return Ok(()) };
        let waiting = self.state.calls().filter_map(leftfold_events::state::Call::run).collect();
        let late = remote.fence(&self.owner(store), waiting).await;
        self.recovered = late.map_err(Error::Executor)?;
        Ok(())
    }

    /// Binds the session to the executor beside its workspace, so that any node that knows the executor may go on with it.
    /// Call it once the executor has let this node take the session over. It waits for the database.
    ///
    /// # Errors
    /// Another node has the session, or the database is away.
    pub(crate) fn bind(self, executor: &str) -> Result<Self, Error> {
        self.log.bind(&format!("{EXECUTOR}{executor}"))?;
        Ok(self)
    }

    /// The last seq in the log; 0 before the first event of its own.
    pub(crate) fn head(&self) -> Seq {
        self.log.head()
    }

    /// The beginning of the marks of the session's processes: the store, in a shared one the family and its epoch, and
    /// the session.
    pub(crate) fn mark(&self, store: &Store) -> String {
        let (identity, session) = (store.identity(), self.log.session());
        if !store.is_shared() {
            return format!("{identity}:{session}");
        }
        let (family, epoch) = self.log.family();
        format!("{identity}:{family}:{epoch}:{session}")
    }

    /// Ends the processes that earlier owners of the family have left on this machine.
    pub(crate) fn end_strays(&self, store: &Store) -> usize {
        if !store.is_shared() {
            return 0;
        }
        let (family, epoch) = self.log.family();
        // the first owner of a family has none before it
        if epoch < 2 {
            return 0;
        }
        leftfold_process::end_earlier(&format!("{}:{family}", store.identity()), epoch)
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether a turn or a restore was interrupted in it.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.created_event.is_none() && self.state.has_work()
    }
}

/// The events of `from` up to `at`. A node that was killed may have left durable events that the head of
/// the session does not name yet; they are in the log itself, which no session has open then.
fn shared(store: &Store, from: SessionId, at: Seq) -> Result<Vec<Envelope>, Error> {
    let mut events = store.reader().read(from, 1, usize::try_from(at).unwrap_or(usize::MAX))?;
    if events.last().map_or(0, |event| event.seq) < at {
        events = log(store, from, None)?.read()?;
        events.retain(|event| event.seq <= at);
    }
    Ok(events)
}

#[expect(clippy::disallowed_methods, reason = "a log is opened for its session here")]
fn log(store: &Store, session: SessionId, from: Option<SessionId>) -> Result<Log, Error> {
    let start = Instant::now();
    loop {
        match store.log(session, from) {
            Err(leftfold_store::Error::Taken { .. }) if start.elapsed() < LOG_RELEASE_TIMEOUT => {
                thread::sleep(LOG_POLL_INTERVAL);
            }
            log => return Ok(log?),
        }
    }
}
