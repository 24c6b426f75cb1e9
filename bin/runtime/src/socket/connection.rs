//! One client's connection, over the socket or over standard input and output. Its requests are answered one after the other; what it watches comes
//! between the answers. Everything goes through one short queue, so a client that does not read
//! holds up itself alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leftfold_actors::Observation;
use leftfold_framing::{Line, next_line};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::methods;
use super::peer::{Door, House, Peer};
use super::sessions::Sessions;
use crate::lines::Lines;
use crate::remote::wire::{self, MAX_LINE, Request, RpcError};
use crate::subscription::Subscription;

/// Pieces that wait for a client.
pub const QUEUE: usize = 8;
/// Bytes of lines after which no further one is added to a piece.
const PIECE: usize = 64 << 10;
/// Sessions that one client watches at most.
const WATCHES: usize = 64;
/// How long a client is waited for that is to know that the node rests.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long those who watch are waited for, to be told of the last that has happened.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a request that was sent before the end takes to be seen.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// For each that watches: all of them together are told some 500 times a second at most, since each piece of
/// news wakes a process, and many of them would take the machine away from the session that they watch.
const SHARE: Duration = Duration::from_millis(2);
/// Nobody waits longer for what has happened: about as long as pieces of text are gathered.
const LONGEST_SHARE: Duration = Duration::from_millis(100);

/// Serves a client until it goes.
pub(super) async fn serve(stream: UnixStream, mut house: House) {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (reading, writing) = stream.into_split();
    let (queue, waiting) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write(waiting, writing));
    let peer = Peer::at_socket(house.clone(), pid);
    let mut connection = Connection::new(peer, queue, Some(house.clone()));
    let mut reading = BufReader::with_capacity(64 << 10, reading);
    loop {
        let line = tokio::select! {
            biased;
            line = next_line(&mut reading, MAX_LINE) => line,
            // what is on its way is still taken
            () = quiet(&mut house) => break,
        };
        let Ok(Some(line)) = line else { break };
        if connection.take(line).await.is_err() {
            break;
        }
    }
    // what it was answered still goes out; what it watched ends
    connection.end(house.door()).await;
    let _ = writer.await;
}

/// The same where there is something that closes; never, where there is not.
async fn over(house: &mut Option<House>) {
    match house {
        Some(house) => quiet(house).await,
        None => std::future::pending().await,
    }
}

/// Waits until the node is about to end, and then for as long as a request may be on its way.
async fn quiet(house: &mut House) {
    house.closing().await;
    tokio::time::sleep(ON_ITS_WAY).await;
}

/// Takes the lines of a client that is not at the socket, for as long as it sends any.
pub async fn serve_lines(
    sessions: Arc<dyn Sessions>,
    name: &'static str,
    mut lines: mpsc::Receiver<Vec<u8>>,
    queue: mpsc::Sender<Vec<u8>>,
) {
    let peer = Peer::own(sessions, name);
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
    /// What closes before the process ends, if anything does.
    house: Option<House>,
}

/// The client no longer takes what it is sent.
struct Gone;

impl Connection {
    fn new(peer: Peer, queue: mpsc::Sender<Vec<u8>>, house: Option<House>) -> Self {
        Self { peer, queue, watches: JoinSet::new(), house }
    }

    /// The client is told whether this is no death: then what it has asked and was not answered was
    /// not taken either.
    async fn end(mut self, door: Door) {
        if door != Door::Gone {
            let told = async { while self.watches.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_WORDS, told).await;
        }
        self.watches.shutdown().await;
        if matches!(door, Door::Ending | Door::Resting) {
            // one that does not read takes it for a death
            let _ = tokio::time::timeout(PATIENCE, self.queue.send(wire::rested())).await;
        }
    }

    async fn take(&mut self, line: Line) -> Result<(), Gone> {
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(line) => line,
            Line::TooLong { .. } => {
                let mib = MAX_LINE >> 20;
                let why = format!("the line is longer than {mib} MiB and was passed over");
                return self.answer(&Value::Null, Err(RpcError::request(why))).await;
            }
            Line::Unfinished(_) => {
                let error = RpcError::parse("the connection ended in the middle of it");
                return self.answer(&Value::Null, Err(error)).await;
            }
        };
        match wire::request(&line) {
            Ok(request) => self.request(request).await,
            Err((id, error)) => self.answer(&id, Err(error)).await,
        }
    }

    async fn request(&mut self, request: Request) -> Result<(), Gone> {
        let Request { id, method, params } = request;
        let (result, tap) = match method.as_str() {
            methods::WATCH => match self.watch(params).await {
                Ok(tap) => (Ok(json!({})), Some(tap)),
                Err(error) => (Err(error), None),
            },
            method => (methods::call(&self.peer, method, params).await, None),
        };
        if let Some(id) = id {
            self.answer(&id, result).await?;
        }
        if let Some(tap) = tap {
            self.watches.spawn(follow(tap, self.queue.clone(), self.house.clone()));
        }
        Ok(())
    }

    async fn watch(&mut self, params: Value) -> Result<Subscription, RpcError> {
        while self.watches.try_join_next().is_some() {}
        if self.watches.len() >= WATCHES {
            let why = format!("a connection watches {WATCHES} sessions at most: open another one");
            return Err(RpcError::request(why));
        }
        methods::watch(&self.peer, params).await
    }

    async fn answer(&self, id: &Value, result: Result<Value, RpcError>) -> Result<(), Gone> {
        self.queue.send(wire::answer(id, result)).await.map_err(|_| Gone)
    }
}

/// Sends on what happens in a session, to the last of it when the node ends.
async fn follow(mut tap: Subscription, queue: mpsc::Sender<Vec<u8>>, mut house: Option<House>) {
    let (mut lines, throttle) = (Lines::default(), Throttle::new());
    loop {
        let next = tokio::select! {
            biased;
            next = tap.next() => next,
            () = over(&mut house) => None,
        };
        let Some(Observation { events, done }) = next else { return };
        let began = Instant::now();
        let mut piece = Vec::new();
        for event in events.iter() {
            lines.each(event, |line| wire::event(line, &mut piece));
            if piece.len() >= PIECE && queue.send(std::mem::take(&mut piece)).await.is_err() {
                return;
            }
        }
        if !piece.is_empty() && queue.send(piece).await.is_err() {
            return;
        }
        drop(events);
        tokio::select! {
            () = throttle.keep(began) => {}
            () = over(&mut house) => {}
        }
        // the hub may have gone with the node
        let _ = done.send(());
    }
}

async fn write(mut waiting: mpsc::Receiver<Vec<u8>>, mut to: OwnedWriteHalf) {
    while let Some(piece) = waiting.recv().await {
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

/// How many watch, in all of this process's stores.
static WATCHING: AtomicU32 = AtomicU32::new(0);

/// One that watches, while it does.
struct Throttle(());

impl Throttle {
    fn new() -> Self {
        WATCHING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Waits until it is this one's turn again, which was told something at `began`. What happens
    /// after a silence is told at once; what happens in this time goes out in one piece.
    async fn keep(&self, began: Instant) {
        let share = SHARE.saturating_mul(WATCHING.load(Ordering::Relaxed));
        tokio::time::sleep_until(began + share.min(LONGEST_SHARE)).await;
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
    }
}
