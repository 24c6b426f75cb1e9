//! A pool of shared services, such as MCP servers and plugins. A service starts when a caller needs
//! it, starts again some time after it has ended, and ends for good with this process, some time after
//! the last use of its pool, or when somebody disposes of the pool.
//!
//! The pool does not know what a service does or which protocol it speaks.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;

/// How long a service that could not start is not tried again.
const RESTART_DELAY: Duration = Duration::from_secs(60);

/// How long services outlive the last use of their pool, so that a client that opens one session after
/// another does not start them again.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a running service.
pub trait Connection: Send + Sync + 'static {
    /// Whether the service has ended or can no longer be reached.
    fn is_over(&self) -> bool;

    /// The reason why the connection is over, in words for people.
    fn why(&self) -> String;

    /// Closes the connection and ends the service with all its processes. Returns when they are
    /// gone.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A way to start one service.
pub trait Service: Send + Sync + 'static {
    type Connection: Connection;

    /// Least time from one start to the next, if the first succeeded.
    const BACK_OFF: Duration;

    /// Returns `false` for a service that is never started.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Starts the service. The start continues if the caller stops waiting.
    fn start(
        &self,
    ) -> impl Future<Output = Result<Self::Connection, Failure<Self::Connection>>> + Send;
}

/// The reason why a service could not start.
#[derive(Debug)]
pub struct Failure<C> {
    /// The reason, in words for people.
    pub why: String,
    /// A connection that is still being closed.
    pub closing: Option<Arc<C>>,
}

impl<C> From<String> for Failure<C> {
    fn from(why: String) -> Self {
        Self { why, closing: None }
    }
}

/// One service of a pool.
pub struct Supervised<S: Service> {
    service: S,
    state: watch::Sender<State<S::Connection>>,
}

enum State<C> {
    Idle,
    Starting,
    Up {
        connection: Arc<C>,
        since: Instant,
    },
    Failed {
        failure: Failure<C>,
        at: Instant,
    },
    /// Ended for good, because the process exits.
    Closed,
}

impl<C: Connection> State<C> {
    /// Whether the next caller that needs the service has to start it.
    fn is_due(&self, back_off: Duration) -> bool {
        match self {
            Self::Idle => true,
            Self::Up { connection, since } => connection.is_over() && since.elapsed() >= back_off,
            Self::Failed { at, .. } => at.elapsed() >= RESTART_DELAY,
            Self::Starting | Self::Closed => false,
        }
    }

    fn is_starting(&self) -> bool {
        matches!(self, Self::Starting)
    }
}

impl<S: Service> fmt::Debug for Supervised<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervised").finish_non_exhaustive()
    }
}

impl<S: Service> Supervised<S> {
    /// A service that is not started yet.
    pub fn new(service: S) -> Self {
        Self { service, state: watch::Sender::new(State::Idle) }
    }

    pub fn service(&self) -> &S {
        &self.service
    }

    /// Whether no start is needed or under way.
    pub fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        !self.service.is_enabled() || !(state.is_due(S::BACK_OFF) || state.is_starting())
    }

    /// Starts the service if needed, and waits until it runs or has failed.
    pub async fn ready(self: &Arc<Self>) {
        if !self.service.is_enabled() {
            return;
        }
        let mut state = self.state.subscribe();
        let begins = self.state.send_if_modified(|state| {
            let due = state.is_due(S::BACK_OFF);
            if due {
                *state = State::Starting;
            }
            due
        });
        if begins {
            // the start continues if the caller stops waiting
            tokio::spawn(Arc::clone(self).start());
        }
        // the sender lives as long as this value
        let _ = state.wait_for(|state| !state.is_starting()).await;
    }

    /// Has the next caller that needs a service that could not start try again at once.
    pub fn forget_failure(&self) {
        self.state.send_if_modified(|state| {
            let has_failed =
                matches!(state, State::Failed { failure: Failure { closing: None, .. }, .. });
            if has_failed {
                *state = State::Idle;
            }
            has_failed
        });
    }

    async fn start(self: Arc<Self>) {
        let started = self.service.start().await.map(Arc::new);
        let late = started.as_ref().ok().map(Arc::clone);
        let next = match started {
            Ok(connection) => State::Up { connection, since: Instant::now() },
            Err(failure) => State::Failed { failure, at: Instant::now() },
        };
        let wanted = self.state.send_if_modified(|state| {
            let wanted = state.is_starting();
            if wanted {
                *state = next;
            }
            wanted
        });
        if let (false, Some(connection)) = (wanted, late) {
            connection.close().await;
        }
    }

    /// The last connection, unless a new start is under way. It may be over.
    pub fn last_connection(&self) -> Option<Arc<S::Connection>> {
        match &*self.state.borrow() {
            State::Up { connection, .. } => Some(Arc::clone(connection)),
            State::Idle | State::Starting | State::Failed { .. } | State::Closed => None,
        }
    }

    /// The connection, if the service runs.
    pub fn connection(&self) -> Option<Arc<S::Connection>> {
        self.last_connection().filter(|connection| !connection.is_over())
    }

    /// The reason why the service cannot be used, or `None` if it can.
    pub fn failure(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Failed { failure, .. } => Some(failure.why.clone()),
            State::Up { connection, .. } if connection.is_over() => Some(connection.why()),
            State::Idle | State::Starting | State::Up { .. } | State::Closed => None,
        }
    }

    /// From now on calls `tell` when the service runs, has failed to start, or was ended.
    pub fn on_change(&self, tell: impl Fn() + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut state = self.state.subscribe();
        runtime.spawn(async move {
            // ends with the service
            while state.changed().await.is_ok() {
                let is_starting = state.borrow_and_update().is_starting();
                if !is_starting {
                    tell();
                }
            }
        });
    }

    /// Ends the service for good.
    pub async fn close(&self) {
        match self.state.send_replace(State::Closed) {
            State::Up { connection, .. } => connection.close().await,
            State::Failed { failure: Failure { closing: Some(connection), .. }, .. } => {
                connection.close().await;
            }
            State::Failed { .. } | State::Idle | State::Starting | State::Closed => {}
        }
    }
}

/// Services in the order of the settings.
pub struct Pool<S: Service>(Vec<Arc<Supervised<S>>>);

impl<S: Service> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.0.len()).finish()
    }
}

impl<S: Service> Default for Pool<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Service> Pool<S> {
    /// Makes a pool and starts nothing yet.
    pub fn new(services: impl IntoIterator<Item = S>) -> Self {
        let supervised = |service| Arc::new(Supervised::new(service));
        Self(services.into_iter().map(supervised).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Supervised<S>>> {
        self.0.iter()
    }

    /// Waits until every service runs or has failed.
    pub async fn ready(&self) {
        join_all(self.iter().map(|service| service.ready())).await;
    }

    /// [`Pool::ready`] for code that cannot await. Returns at once outside a multi-threaded
    /// runtime.
    pub fn wait(&self) {
        if !self.iter().all(|service| service.is_settled()) {
            wait_for(self.ready());
        }
    }
}

impl<S: Service> SharedServices for Pool<S> {
    async fn close(&self) {
        join_all(self.iter().map(|service| service.close())).await;
    }
}

/// Services that sessions share, and that end together.
pub trait SharedServices: Send + Sync + 'static {
    /// Ends every service for good. Returns when they are gone.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A use of a pool. [`LINGER_TIMEOUT`] after its last use ends, the pool's services end for good.
pub struct PoolUse<P: Send + Sync + 'static> {
    pool: Arc<P>,
    /// Ends the services once nobody else uses the pool; `None`: there are none.
    ends: Option<fn(Arc<P>) -> BoxFuture<'static, ()>>,
}

impl<P: Send + Sync + 'static> fmt::Debug for PoolUse<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolUse")
    }
}

impl<P: Default + Send + Sync + 'static> Default for PoolUse<P> {
    fn default() -> Self {
        Self { pool: Arc::new(P::default()), ends: None }
    }
}

impl<P: Send + Sync + 'static> Deref for PoolUse<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.pool
    }
}

impl<P: Send + Sync + 'static> Drop for PoolUse<P> {
    fn drop(&mut self) {
        let Some(ends) = self.ends.filter(|_| Arc::strong_count(&self.pool) == 1) else { return };
        // without a runtime nothing runs
        if let Ok(runtime) = Handle::try_current() {
            let pool = Arc::clone(&self.pool);
            runtime.spawn(async move {
                tokio::time::sleep(LINGER_TIMEOUT).await;
                ends(pool).await;
            });
        }
    }
}

/// All pools of one kind that are still in use in this process.
pub struct Pools<P>(Mutex<Vec<Weak<P>>>);

impl<P> fmt::Debug for Pools<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pools")
    }
}

impl<P: Send + Sync + 'static> Default for Pools<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Send + Sync + 'static> Pools<P> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A use of the pool that satisfies `is_same`, or else of a new pool made by `make`. `ends` calls
    /// [`Pools::end_unused`].
    pub fn shared(
        &self,
        is_same: impl Fn(&P) -> bool,
        make: impl FnOnce() -> P,
        ends: fn(Arc<P>) -> BoxFuture<'static, ()>,
    ) -> PoolUse<P> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        let known = pools.iter().filter_map(Weak::upgrade).find(|pool| is_same(pool));
        let pool = known.unwrap_or_else(|| {
            let pool = Arc::new(make());
            pools.push(Arc::downgrade(&pool));
            pool
        });
        PoolUse { pool, ends: Some(ends) }
    }

    /// Uses of the pools that satisfy `is_one`. `ends` calls [`Pools::end_unused`].
    pub fn uses(
        &self,
        is_one: impl Fn(&P) -> bool,
        ends: fn(Arc<P>) -> BoxFuture<'static, ()>,
    ) -> Vec<PoolUse<P>> {
        let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses =
            pools.iter().filter_map(Weak::upgrade).map(|pool| PoolUse { pool, ends: Some(ends) });
        uses.filter(|pool| is_one(pool)).collect()
    }

    /// Ends the services of a pool if this is its only use.
    pub async fn end_unused(&self, pool: Arc<P>)
    where
        P: SharedServices,
    {
        {
            let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if Arc::strong_count(&pool) > 1 {
                return;
            }
            // from here on nobody finds it
            pools.retain(|known| known.as_ptr() != Arc::as_ptr(&pool));
        }
        pool.close().await;
    }

    /// Ends the services of the pools that satisfy `is_one`, although they may be in use, and returns how many
    /// pools these are. The next use of such a pool makes a new one.
    pub async fn dispose(&self, is_one: impl Fn(&P) -> bool) -> usize
    where
        P: SharedServices,
    {
        let mut disposed = Vec::new();
        {
            let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pools.retain(|known| match known.upgrade().filter(|pool| is_one(pool)) {
                Some(pool) => {
                    disposed.push(pool);
                    false
                }
                None => true,
            });
        }
        join_all(disposed.iter().map(|pool| pool.close())).await;
        disposed.len()
    }

    /// Ends all services of these pools. Returns when they are gone, after about a second at most.
    /// No service starts after that.
    pub async fn close(&self)
    where
        P: SharedServices,
    {
        let pools: Vec<Arc<P>> = {
            let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        join_all(pools.iter().map(|pool| pool.close())).await;
    }
}

/// Runs `work` to its end from code that cannot await. `None` outside a multi-threaded runtime.
pub fn wait_for<T>(work: impl Future<Output = T>) -> Option<T> {
    let runtime = Handle::try_current().ok()?;
    let several = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    several.then(|| tokio::task::block_in_place(|| runtime.block_on(work)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[derive(Default)]
    struct Fake {
        starts: AtomicUsize,
        fails: bool,
        may_start: Option<Arc<Notify>>,
        closed: Arc<AtomicUsize>,
    }

    struct FakeConnection {
        over: AtomicBool,
        closed: Arc<AtomicUsize>,
    }

    impl Connection for FakeConnection {
        fn is_over(&self) -> bool {
            self.over.load(Ordering::SeqCst)
        }

        fn why(&self) -> String {
            "it has ended".to_owned()
        }

        async fn close(&self) {
            self.over.store(true, Ordering::SeqCst);
            self.closed.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Service for Fake {
        type Connection = FakeConnection;
        const BACK_OFF: Duration = Duration::ZERO;

        async fn start(&self) -> Result<FakeConnection, Failure<FakeConnection>> {
            self.starts.fetch_add(1, Ordering::SeqCst);
            if let Some(may_start) = &self.may_start {
                may_start.notified().await;
            }
            let open =
                FakeConnection { over: AtomicBool::new(false), closed: Arc::clone(&self.closed) };
            if self.fails {
                return Err(Failure { why: "no".to_owned(), closing: Some(Arc::new(open)) });
            }
            Ok(open)
        }
    }

    struct Fakes(Pool<Fake>);

    impl SharedServices for Fakes {
        async fn close(&self) {
            self.0.close().await;
        }
    }

    fn only(pool: &Pool<Fake>) -> &Arc<Supervised<Fake>> {
        pool.iter().next().unwrap()
    }

    #[tokio::test]
    async fn a_service_is_started_once_and_again_after_its_end() {
        let pool = Pool::new([Fake::default()]);
        let service = only(&pool);
        assert!(!service.is_settled() && service.connection().is_none());
        tokio::join!(pool.ready(), pool.ready());
        assert!(service.is_settled());
        assert_eq!(service.service().starts.load(Ordering::SeqCst), 1);
        let first = service.connection().unwrap();
        first.over.store(true, Ordering::SeqCst);
        assert_eq!(service.failure().as_deref(), Some("it has ended"));
        assert!(service.connection().is_none() && service.last_connection().is_some());
        pool.ready().await;
        assert_eq!(service.service().starts.load(Ordering::SeqCst), 2);
        assert!(service.connection().is_some() && service.failure().is_none());
    }

    #[tokio::test]
    async fn a_service_that_fails_is_left_alone_for_a_while() {
        let pool = Pool::new([Fake { fails: true, ..Fake::default() }]);
        pool.ready().await;
        pool.ready().await;
        assert_eq!(only(&pool).service().starts.load(Ordering::SeqCst), 1);
        assert_eq!(only(&pool).failure().as_deref(), Some("no"));
    }

    #[tokio::test]
    async fn whoever_closes_a_pool_ends_what_runs_what_fails_and_what_comes_too_late() {
        static POOLS: Pools<Fakes> = Pools::new();
        let closed = Arc::new(AtomicUsize::new(0));
        let may_start = Arc::new(Notify::new());
        let fake = || Fake { closed: Arc::clone(&closed), ..Fake::default() };
        let make = || {
            let failing = Fake { fails: true, ..fake() };
            let slow = Fake { may_start: Some(Arc::clone(&may_start)), ..fake() };
            Fakes(Pool::new([fake(), failing, slow]))
        };
        let ends = |pool| -> BoxFuture<'static, ()> { Box::pin(POOLS.end_unused(pool)) };
        let fakes = POOLS.shared(|_| true, make, ends);
        assert!(std::ptr::eq(&*fakes, &*POOLS.shared(|_| true, make, ends)));
        let all: Vec<_> = fakes.0.iter().cloned().collect();
        tokio::join!(all[0].ready(), all[1].ready());
        let waiting = tokio::spawn(async move { all[2].ready().await });
        tokio::task::yield_now().await;
        POOLS.close().await;
        assert_eq!(closed.load(Ordering::SeqCst), 2);
        waiting.await.unwrap();
        may_start.notify_one();
        while closed.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        fakes.0.ready().await;
        assert!(fakes.0.iter().all(|service| service.connection().is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn services_outlive_the_last_use_of_their_pool_for_a_while() {
        static POOLS: Pools<Fakes> = Pools::new();
        let closed = Arc::new(AtomicUsize::new(0));
        let take = || {
            let fake = || Fake { closed: Arc::clone(&closed), ..Fake::default() };
            POOLS.shared(
                |_| true,
                || Fakes(Pool::new([fake()])),
                |pool| Box::pin(POOLS.end_unused(pool)),
            )
        };
        let ended = || closed.load(Ordering::SeqCst);
        let (first, second) = (take(), take());
        first.0.ready().await;
        drop(first);
        tokio::time::sleep(LINGER_TIMEOUT * 2).await;
        assert_eq!(ended(), 0, "the second use goes on");
        drop(second);
        tokio::time::sleep(LINGER_TIMEOUT / 2).await;
        let third = take();
        assert!(only(&third.0).connection().is_some(), "it was not started again");
        tokio::time::sleep(LINGER_TIMEOUT * 2).await;
        assert_eq!(ended(), 0, "it is in use again");
        drop(third);
        tokio::time::sleep(LINGER_TIMEOUT * 2).await;
        assert_eq!(ended(), 1);
        let fourth = take();
        fourth.0.ready().await;
        assert_eq!((POOLS.dispose(|_| false).await, ended()), (0, 1));
        assert_eq!((POOLS.dispose(|_| true).await, ended()), (1, 2), "although it is in use");
        let fifth = take();
        fifth.0.ready().await;
        assert!(!std::ptr::eq(&*fourth, &*fifth) && only(&fifth.0).connection().is_some());
    }
}
