//! Passes this process's client on to the node that has the store, and takes over when it ends.
//!
//! ```text
//! stdin ─► lines ─► PassedOn ─► the node's socket, or a pipe to this process's own node
//! stdout ◄───────── PassedOn ◄─
//! ```
//!
//! Invariant: a request of the client is answered once, whichever node answers it.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leftfold_framing::{Line, next_line};
use leftfold_runtime::note;
use leftfold_runtime::socket::{RpcError, speak};
use leftfold_store::Store;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::passed_on::PassedOn;
use super::shared::Caller;
use super::wire::LONGEST;
use super::{OwnNode, PROTOCOL, Register, STEP, serve_client};

/// Lines of the client that may wait for a node.
const QUEUE: usize = 8;
/// Bytes in the pipe to this process's own node, each way.
const PIPE: usize = 256 << 10;
/// How long to wait before the next attempt to get the store, or its node.
const BREATH: Duration = Duration::from_millis(25);
/// After this time a person is told what the wait is for.
const NOTICE: Duration = Duration::from_secs(1);

/// The way in which this process takes part in a store.
pub(super) enum Joined {
    /// As its node.
    Own(Store),
    /// As a client of another node.
    Node(BufReader<UnixStream>),
    /// The store cannot be opened.
    Broken,
}

impl Joined {
    pub(super) fn store(self) -> Option<Store> {
        match self {
            Self::Own(store) => Some(store),
            Self::Node(_) | Self::Broken => None,
        }
    }
}

/// Opens the store, or connects to the node that has it. While a process has the store that speaks
/// no protocols, such as `leftfold run` with a session of the store, this waits for its end.
///
/// # Errors
/// The node refuses this client.
pub(super) async fn join(folder: &Path) -> anyhow::Result<Joined> {
    let began = Instant::now();
    let mut is_told = false;
    let directory = std::env::current_dir().unwrap_or_default();
    loop {
        if leftfold_store::in_use(folder) {
            match speak(folder, PROTOCOL, &directory).await {
                Ok(stream) => return Ok(Joined::Node(stream)),
                Err(error) => match error.downcast_ref::<RpcError>() {
                    Some(refused) if !refused.is_leaving() => return Err(error),
                    Some(_) | None => tracing::debug!("no node to speak with: {error:#}"),
                },
            }
        } else {
            let opened = folder.to_owned();
            match tokio::task::spawn_blocking(move || Store::open(&opened)).await? {
                Ok(store) => return Ok(Joined::Own(store)),
                Err(leftfold_store::Error::Locked { .. }) => {}
                Err(error) => {
                    note(&format!("leftfold: {error}"));
                    return Ok(Joined::Broken);
                }
            }
        }
        if began.elapsed() >= NOTICE && !std::mem::replace(&mut is_told, true) {
            note(&format!(
                "leftfold: another process has the store {} for one turn: waiting for its end",
                folder.display()
            ));
        }
        tokio::time::sleep(BREATH).await;
    }
}

/// The end of a connection to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Node,
    Client,
}

/// Passes the client on until it leaves. A node that this process becomes is put into `own`.
///
/// # Errors
/// The next node refuses this client, or the node cannot be started.
pub(super) async fn serve(
    folder: &Path,
    register: Register,
    first: BufReader<UnixStream>,
    own: &mut Option<OwnNode>,
) -> anyhow::Result<()> {
    let (sender, mut lines) = mpsc::channel(QUEUE);
    tokio::spawn(read(sender));
    let (passed_on, mut stdout) = (Mutex::new(PassedOn::default()), tokio::io::stdout());
    let mut joined = Joined::Node(first);
    loop {
        let end = match joined {
            Joined::Node(stream) => {
                let (input, output) = tokio::io::split(stream);
                relay(&passed_on, &mut lines, &mut stdout, input, output).await
            }
            Joined::Own(_) | Joined::Broken => {
                let node = OwnNode::start(Some(folder), joined.store(), register).await?;
                let OwnNode { node, sessions } = own.insert(node).clone();
                let (ours, theirs) = tokio::io::duplex(PIPE);
                let (input, output) = tokio::io::split(theirs);
                let caller = Caller::new(i32::try_from(std::process::id()).ok());
                let served = serve_client(sessions, node, caller, BufReader::new(input), output);
                let served = tokio::spawn(served);
                let (input, output) = tokio::io::split(ours);
                relay(&passed_on, &mut lines, &mut stdout, input, output).await;
                return served.await?;
            }
        };
        if end == End::Client {
            return Ok(());
        }
        tracing::info!("the node of {} has ended", folder.display());
        let lost = lock(&passed_on).lose();
        for line in lost {
            stdout.write_all(&line).await?;
        }
        stdout.flush().await?;
        joined = join(folder).await?;
    }
}

fn lock(passed_on: &Mutex<PassedOn>) -> MutexGuard<'_, PassedOn> {
    passed_on.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the client's lines until its input ends. A line that is too long goes on as it was begun, and
/// the node refuses it.
async fn read(lines: mpsc::Sender<Vec<u8>>) {
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        let line = match next_line(&mut input, LONGEST + 1).await {
            Ok(Some(Line::Whole(line) | Line::Unfinished(line))) => line,
            Ok(Some(Line::TooLong { first, .. })) => first,
            Ok(None) => return,
            Err(error) => {
                tracing::error!("cannot read standard input: {error}");
                return;
            }
        };
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

/// Copies lines between the client and a node, until one of them ends.
async fn relay(
    passed_on: &Mutex<PassedOn>,
    lines: &mut mpsc::Receiver<Vec<u8>>,
    stdout: &mut (impl AsyncWrite + Unpin),
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> End {
    let mut input = BufReader::with_capacity(64 << 10, input);
    match begin(passed_on, &mut input, &mut output, stdout).await {
        Ok(None) => {}
        Ok(Some(end)) => return end,
        Err(error) => {
            tracing::debug!("the node has ended: {error}");
            return End::Node;
        }
    }
    let up = async {
        while let Some(line) = lines.recv().await {
            let line = lock(passed_on).pass_to_node(line);
            if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
                // The other direction learns that the node has ended.
                return std::future::pending().await;
            }
            lock(passed_on).sent();
        }
        // The node answers what it has, and ends the connection.
        let _ = output.shutdown().await;
    };
    let down = async {
        while let Some(line) = node_line(&mut input).await {
            let Some(line) = lock(passed_on).pass_to_client(line) else { continue };
            if stdout.write_all(&line).await.is_err() || stdout.flush().await.is_err() {
                return End::Client;
            }
        }
        End::Node
    };
    tokio::pin!(up, down);
    tokio::select! {
        end = &mut down => end,
        () = &mut up => {
            let _ = tokio::time::timeout(STEP, down).await;
            End::Client
        }
    }
}

/// Tells a node what the last one knew: the client, its open sessions, and its requests that have no
/// answer. Some: the connection has ended meanwhile.
async fn begin(
    passed_on: &Mutex<PassedOn>,
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
    stdout: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<Option<End>> {
    lock(passed_on).begin();
    loop {
        let Some(line) = lock(passed_on).next_again() else { break };
        output.write_all(&line).await?;
        output.flush().await?;
        while lock(passed_on).awaits() {
            let Some(line) = node_line(input).await else { return Ok(Some(End::Node)) };
            let Some(line) = lock(passed_on).pass_to_client(line) else { continue };
            if stdout.write_all(&line).await.is_err() || stdout.flush().await.is_err() {
                return Ok(Some(End::Client));
            }
        }
    }
    let unanswered = lock(passed_on).unanswered();
    for line in unanswered {
        output.write_all(&line).await?;
    }
    output.flush().await?;
    Ok(None)
}

/// The next line of a node; `None` at its end.
async fn node_line(input: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    match next_line(input, usize::MAX).await {
        Ok(Some(Line::Whole(line))) => Some(line),
        // A node that dies may leave half a line.
        Ok(Some(Line::Unfinished(_) | Line::TooLong { .. }) | None) => None,
        Err(error) => {
            tracing::debug!("the node has ended: {error}");
            None
        }
    }
}
