//! What waits for a session that is slow to start, and what does not.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use leftfold_events::event::{CallSpec, Resolution, Saved};
use leftfold_tools::{
    Context, LateOutcome, Output, RemoteFailure, RemoteSnapshot, RemoteWorkspace, RunKey,
    SessionOwner,
};
use tokio::sync::Notify;

use super::*;
use crate::Error;

/// An executor that lets a session begin only when it is told to, or not at all.
#[derive(Debug, Default)]
struct Slow {
    asked: Notify,
    answer: Notify,
    refuses: AtomicBool,
}

impl RemoteWorkspace for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn resolve(&self, _: &CallSpec, _: &Workspace) -> Resolution {
        panic!("no call is resolved here")
    }

    fn run<'a>(&'a self, _: &'a Resolution, _: &'a Context) -> BoxFuture<'a, Output> {
        Box::pin(std::future::pending())
    }

    fn fence<'a>(
        &'a self,
        _: &'a SessionOwner,
        _: Vec<u64>,
    ) -> BoxFuture<'a, Result<Vec<LateOutcome>, String>> {
        Box::pin(async {
            self.asked.notify_one();
            self.answer.notified().await;
            match self.refuses.load(Ordering::Relaxed) {
                true => Err("a later owner has been there".to_owned()),
                false => Ok(Vec::new()),
            }
        })
    }

    fn snapshot<'a>(
        &'a self,
        _: &'a SessionOwner,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>> {
        Box::pin(std::future::pending())
    }

    fn restore<'a>(
        &'a self,
        _: &'a SessionOwner,
        _: &'a str,
        _: &'a [Saved],
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>> {
        Box::pin(std::future::pending())
    }

    fn acknowledge<'a>(&'a self, _: &'a RunKey) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A node in which a session waits for its slow executor.
struct Waiting {
    site: Site,
    live: Live,
    slow: Arc<Slow>,
    /// The session that waits.
    session: SessionId,
}

/// The answer to a request to open a session.
type Opening = tokio::task::JoinHandle<Result<Opened, Error>>;

impl Waiting {
    async fn new() -> (Self, Opening) {
        let site = Site::new(json!({ "replies": [text("one")] }));
        let live = site.start().await;
        let session = SessionId::default().child(7, Time::from_millis(1));
        let this = Self { site, live, slow: Arc::default(), session };
        let first = this.open_slow();
        this.slow.asked.notified().await;
        (this, first)
    }

    /// Opens the session at the slow executor.
    fn open_slow(&self) -> Opening {
        let mut world = self.site.world();
        let mut workspace = Workspace::clone(&world.workspace);
        workspace.remote = Some(Arc::clone(&self.slow) as Arc<dyn RemoteWorkspace>);
        world.workspace = Arc::new(workspace);
        self.open(self.session, world)
    }

    fn open(&self, session: SessionId, world: World) -> Opening {
        let open = Box::new(OpenSession {
            store: self.site.store(),
            session,
            world,
            created_event: self.site.created_event(),
            fork_of: None,
        });
        let node = self.live.node.clone();
        tokio::spawn(async move {
            ractor::call!(node, |reply| NodeMessage::Open { open, reply }).expect("an answer")
        })
    }

    async fn is_open(&self) -> bool {
        let session = self.session;
        let reading =
            ractor::call!(self.live.node, |reply| NodeMessage::Reading { session, reply });
        reading.expect("an answer").is_some()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_slow_to_start_keeps_no_other_one_waiting() {
    let (waiting, first) = Waiting::new().await;
    let other = SessionId::default().child(8, Time::from_millis(1));
    waiting.open(other, waiting.site.world()).await.expect("no panic").expect("it is open");
    // whoever wants the slow one meanwhile waits for the same start
    let second = waiting.open_slow();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!first.is_finished() && !second.is_finished());
    waiting.slow.answer.notify_one();
    first.await.expect("no panic").expect("it is open");
    second.await.expect("no panic").expect("it is open");
    assert!(waiting.is_open().await);
    waiting.live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_closed_while_it_starts_is_closed_after_that() {
    let (waiting, first) = Waiting::new().await;
    let (node, session) = (waiting.live.node.clone(), waiting.session);
    let closes = tokio::spawn(async move {
        ractor::call!(node, |reply| NodeMessage::Close { session, reply }).expect("an answer");
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!closes.is_finished());
    waiting.slow.answer.notify_one();
    closes.await.expect("no panic");
    assert!(!waiting.is_open().await);
    // it may have been closed before it could be described
    drop(first.await.expect("no panic"));
    waiting.live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_of_a_session_that_cannot_start_hears_why() {
    let (waiting, first) = Waiting::new().await;
    let second = waiting.open_slow();
    waiting.slow.refuses.store(true, Ordering::Relaxed);
    for client in [first, second] {
        waiting.slow.answer.notify_one();
        let error = client.await.expect("no panic").expect_err("it is refused");
        assert!(error.to_string().contains("a later owner"), "{error}");
    }
    assert!(!waiting.is_open().await);
    waiting.live.stop().await;
}
