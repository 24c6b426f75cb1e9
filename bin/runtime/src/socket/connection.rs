//! One client's connection, over the socket or over standard input and output. Requests are
//! answered one after the other; events of watches are sent between the answers. Everything goes
//! through one short queue, so a client that does not read delays only itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leftfold_actors::Observation;
use leftfold_framing::{Line, next_line};
use leftfold_process::PeerProcess;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::derived::DerivedFeed;
use super::methods;
use super::peer::{Peer, SocketContext, SocketState};
use super::sessions::{Sessions, UpgradedConnection};
use super::speak::{self, Speak};
use crate::lines::Lines;
use crate::remote::wire::{self, MAX_LINE, Request, RpcError};
use crate::subscription::Subscription;

/// Pieces that may wait for a client.
pub const QUEUE: usize = 8;
/// Bytes after which no further line is added to a piece.
const PIECE: usize = 64 << 10;
/// Sessions that one client may watch.
const WATCHES: usize = 64;
/// How long to wait for a client to read the notice that the node rests.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for watching clients to receive the last events.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request sent before the end may take to arrive.
const LAST_REQUEST_DELAY: Duration = Duration::from_millis(20);
/// The interval for each watcher, so that all together receive at most some 500 pieces a second.
/// Each piece wakes a process, and many would slow down the session that they watch.
const WATCHER_INTERVAL: Duration = Duration::from_millis(2);
/// The longest delay of an event, about as long as pieces of text are collected.
const MAX_WATCHER_INTERVAL: Duration = Duration::from_millis(100);

/// Serves a client until it leaves.
pub(super) async fn serve(stream: UnixStream, mut context: SocketContext) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (reading, writing) = stream.into_split();
    let (queue, waiting) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write(waiting, writing));
    let process = tokio::task::spawn_blocking(move || PeerProcess::now(pid)).await;
    let process = process.unwrap_or_else(|_| PeerProcess::now(None));
    let peer = Peer::at_socket(context.clone(), pid, process);
    let mut connection = Connection::new(peer, queue, Some(context.clone()));
    let mut reading = BufReader::with_capacity(64 << 10, reading);
    let spoken = loop {
        let line = tokio::select! {
            biased;
            line = next_line(&mut reading, MAX_LINE) => line,
            // Requests on their way are still accepted.
            () = quiet(&mut context) => break None,
        };
        let Ok(Some(line)) = line else { break None };
        match connection.take(line).await {
            Ok(None) => {}
            Ok(Some(spoken)) => break Some(spoken),
            Err(Gone) => break None,
        }
    };
    if let Some((speaker, options)) = spoken {
        connection.watches.shutdown().await;
        drop(connection);
        let Ok(Some(writing)) = writer.await else { return };
        let spoken = UpgradedConnection { input: reading, output: writing, pid, options };
        tokio::select! {
            () = speaker(spoken) => {}
            () = quiet(&mut context) => {}
        }
        return;
    }
    // Its answers are still sent; its watches end.
    connection.end(context.state()).await;
    let _ = writer.await;
}

/// Waits for the end of the connection's node; forever, if there is none.
async fn over(context: &mut Option<SocketContext>) {
    match context {
        Some(context) => quiet(context).await,
        None => std::future::pending().await,
    }
}

/// Waits until the node is about to end, and then as long as a request may be on its way.
async fn quiet(context: &mut SocketContext) {
    context.closing().await;
    tokio::time::sleep(LAST_REQUEST_DELAY).await;
}

/// Accepts the lines of a client that is not at the socket, as long as it sends any. `pid` is the
/// client's process, if that is another one.
pub async fn serve_lines(
    sessions: Arc<dyn Sessions>,
    (name, pid): (&'static str, Option<i32>),
    mut lines: mpsc::Receiver<Vec<u8>>,
    queue: mpsc::Sender<Vec<u8>>,
) {
    let peer = Peer::own(sessions, name, pid);
    let mut connection = Connection::new(peer, queue, None);
    while let Some(line) = lines.recv().await {
        if connection.take(Line::Whole(line)).await.is_err() {
            return;
        }
    }
}

struct Connection {
    peer: Peer,
    queue: mpsc::Sender<Vec<u8>>,
    watches: JoinSet<()>,
    /// Announces the end of the node, if that may come before the end of the process.
    context: Option<SocketContext>,
}

/// The client no longer reads.
struct Gone;

impl Connection {
    fn new(peer: Peer, queue: mpsc::Sender<Vec<u8>>, context: Option<SocketContext>) -> Self {
        Self { peer, queue, watches: JoinSet::new(), context }
    }

    /// Tells the client whether the node releases the store in good order; requests without an
    /// answer were then not accepted.
    async fn end(mut self, state: SocketState) {
        if state != SocketState::Gone {
            let told = async { while self.watches.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_EVENTS_TIMEOUT, told).await;
        }
        self.watches.shutdown().await;
        if matches!(state, SocketState::Ending | SocketState::Resting) {
            // A client that does not read takes it for a crash.
            let _ = tokio::time::timeout(NOTICE_TIMEOUT, self.queue.send(wire::rested())).await;
        }
    }

    /// Takes a line. The answer is the protocol that the connection carries from now on, if the client
    /// has asked for one.
    async fn take(&mut self, line: Line) -> Result<Option<Speak>, Gone> {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(None),
            Line::Whole(line) => line,
            Line::TooLong { .. } => {
                let mib = MAX_LINE >> 20;
                let why = format!("the line is longer than {mib} MiB and was skipped");
                self.answer(&Value::Null, Err(RpcError::request(why))).await?;
                return Ok(None);
            }
            Line::Unfinished(_) => {
                let error = RpcError::parse("the connection ended in the middle of the line");
                self.answer(&Value::Null, Err(error)).await?;
                return Ok(None);
            }
        };
        match wire::request(&line) {
            Ok(request) => self.request(request).await,
            Err((id, error)) => self.answer(&id, Err(error)).await.map(|()| None),
        }
    }

    async fn request(&mut self, request: Request) -> Result<Option<Speak>, Gone> {
        let Request { id, method, params } = request;
        if method == speak::METHOD {
            let (result, spoken) = match speak::find(&self.peer, params).await {
                Ok(spoken) => (Ok(json!({})), Some(spoken)),
                Err(error) => (Err(error), None),
            };
            if let Some(id) = id {
                self.answer(&id, result).await?;
            }
            return Ok(spoken);
        }
        let (result, watch) = match method.as_str() {
            methods::WATCH => match self.watch(params).await {
                Ok(watch) => (Ok(json!({})), Some(watch)),
                Err(error) => (Err(error), None),
            },
            method => (methods::call(&self.peer, method, params).await, None),
        };
        if let Some(id) = id {
            self.answer(&id, result).await?;
        }
        if let Some(watch) = watch {
            self.watches.spawn(follow(watch, self.queue.clone(), self.context.clone()));
        }
        Ok(None)
    }

    async fn watch(
        &mut self,
        params: Value,
    ) -> Result<(Subscription, Option<DerivedFeed>), RpcError> {
        while self.watches.try_join_next().is_some() {}
        if self.watches.len() >= WATCHES {
            let why = format!(
                "a connection can watch at most {WATCHES} sessions: open another connection"
            );
            return Err(RpcError::request(why));
        }
        methods::watch(&self.peer, params).await
    }

    async fn answer(&self, id: &Value, result: Result<Value, RpcError>) -> Result<(), Gone> {
        self.queue.send(wire::answer(id, result)).await.map_err(|_| Gone)
    }
}

/// Sends the events of a session, up to the last one when the node ends.
async fn follow(
    (mut subscription, mut feed): (Subscription, Option<DerivedFeed>),
    queue: mpsc::Sender<Vec<u8>>,
    mut context: Option<SocketContext>,
) {
    let (mut lines, throttle) = (Lines::default(), Throttle::new());
    let mut piece = Vec::new();
    if let Some(feed) = &mut feed {
        feed.begin(&mut piece);
        if queue.send(std::mem::take(&mut piece)).await.is_err() {
            return;
        }
    }
    loop {
        let next = tokio::select! {
            biased;
            next = subscription.next() => next,
            () = over(&mut context) => None,
        };
        let Some(Observation { events, done }) = next else { return };
        let began = Instant::now();
        for event in events.iter() {
            lines.each(event, |line| wire::event(line, &mut piece));
            if let Some(feed) = &mut feed {
                feed.apply(event.masked(), &mut piece);
            }
            if piece.len() >= PIECE && queue.send(std::mem::take(&mut piece)).await.is_err() {
                return;
            }
        }
        if !piece.is_empty() && queue.send(std::mem::take(&mut piece)).await.is_err() {
            return;
        }
        drop(events);
        tokio::select! {
            () = throttle.keep(began) => {}
            () = over(&mut context) => {}
        }
        // The hub may have ended with the node.
        let _ = done.send(());
    }
}

/// Writes until nothing more comes, and answers the stream; `None` if the client no longer reads.
async fn write(
    mut waiting: mpsc::Receiver<Vec<u8>>,
    mut to: OwnedWriteHalf,
) -> Option<OwnedWriteHalf> {
    while let Some(piece) = waiting.recv().await {
        to.write_all(&piece).await.ok()?;
    }
    Some(to)
}

/// The number of watchers, over all of this process's stores.
static WATCHING: AtomicU32 = AtomicU32::new(0);

/// A watcher, as long as it watches.
struct Throttle(());

impl Throttle {
    fn new() -> Self {
        WATCHING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Waits for this watcher's next turn after events were sent at `began`. Events after a pause
    /// are sent at once; events within the interval are sent in one piece.
    async fn keep(&self, began: Instant) {
        let share = WATCHER_INTERVAL.saturating_mul(WATCHING.load(Ordering::Relaxed));
        tokio::time::sleep_until(began + share.min(MAX_WATCHER_INTERVAL)).await;
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
    }
}
