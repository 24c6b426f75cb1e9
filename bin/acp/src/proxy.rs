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

use leftfold_framing::{Line, next_line};
use leftfold_runtime::note;
use leftfold_runtime::socket::{Joined, Register, join};
use leftfold_store::Store;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::passed_on::PassedOn;
use super::shared::Caller;
use super::wire::LONGEST;
use super::{OwnNode, PROTOCOL, SHUTDOWN_STEP_TIMEOUT, serve_client};

/// Lines of the client that may wait for a node.
const QUEUE: usize = 8;
/// Bytes in the pipe to this process's own node, each way.
const PIPE: usize = 256 << 10;

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
            joined @ (Joined::Own(_) | Joined::Broken(_)) => {
                let node = OwnNode::start(Some(folder), own_store(joined), register).await?;
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
        joined = join(folder, PROTOCOL, &Value::Null).await?;
    }
}

/// The store of a process that is no client of another node.
pub(super) fn own_store(joined: Joined) -> Option<Store> {
    match joined {
        Joined::Own(store) => Some(store),
        Joined::Broken(error) => {
            note(&format!("leftfold: {error}"));
            None
        }
        Joined::Node(_) => None,
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
            let _ = tokio::time::timeout(SHUTDOWN_STEP_TIMEOUT, down).await;
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
