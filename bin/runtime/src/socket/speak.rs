//! `_leftfold/speak`: hands a connection over to another protocol. After the answer the connection
//! carries that protocol's bytes as they are.
//!
//! So a second process that wants a store which another one holds becomes a client of that one
//! ([`join`]): it copies bytes between its own clients and the node, and joins again when that ends. The programs that hold stores register a
//! [`Speaker`] for each protocol, since the crates of the protocols do not know each other.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use leftfold_framing::{Line, next_line};
use leftfold_store::Store;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::peer::Peer;
use super::sessions::Speaker;
use crate::remote::path;
use crate::remote::wire::{self, RpcError};

pub(super) const METHOD: &str = "_leftfold/speak";

/// How long a node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer, in bytes.
const ANSWER: usize = 64 << 10;
/// How long to wait before the next attempt to get a store, or its node.
pub const RETRY_DELAY: Duration = Duration::from_millis(25);
/// After this time a person is told what the wait is for.
const NOTICE_DELAY: Duration = Duration::from_secs(1);

/// A protocol that a client has chosen, and its options.
pub(super) type Speak = (Speaker, Value);

#[derive(Deserialize)]
struct SpeakParams {
    protocol: String,
    #[serde(default)]
    options: Value,
}

/// The speaker that a client asks for. Only people may ask.
pub(super) async fn find(peer: &Peer, params: Value) -> Result<Speak, RpcError> {
    peer.must_be_person(METHOD).await?;
    let SpeakParams { protocol, options } = wire::params(params)?;
    if !peer.is_at_socket() {
        return Err(RpcError::request("only a connection to the socket can carry a protocol"));
    }
    let speaker = peer.context.sessions.speaker(&protocol);
    let speaker = speaker.ok_or_else(|| {
        RpcError::leaving(format!(
            "this node does not speak `{protocol}`: it releases the store at its end"
        ))
    })?;
    Ok((speaker, options))
}

/// Connects to the node of a store, and chooses a protocol. The answer is read whole; everything
/// after it belongs to the protocol.
///
/// # Errors
/// There is no node, or it does not answer; [`RpcError`]: it refuses.
pub async fn speak(
    store: &Path,
    protocol: &str,
    options: &Value,
) -> anyhow::Result<BufReader<UnixStream>> {
    let stream = path::connect(store)?;
    stream.set_nonblocking(true)?;
    let mut stream = BufReader::with_capacity(64 << 10, UnixStream::from_std(stream)?);
    let params = json!({ "protocol": protocol, "options": options });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params });
    let asked = async {
        stream.get_mut().write_all(format!("{request}\n").as_bytes()).await?;
        anyhow::Ok(next_line(&mut stream, ANSWER).await?)
    };
    let answer =
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.context("the node does not answer")??;
    let Some(Line::Whole(line)) = answer else { bail!("the node ended before it answered") };
    let mut answer: Value = serde_json::from_slice(&line)?;
    if let Some(error) = answer.get_mut("error").map(Value::take) {
        return Err(serde_json::from_value::<RpcError>(error)?.into());
    }
    if answer["id"] != 1 {
        return Err(RpcError::leaving("the node is releasing the store").into());
    }
    Ok(stream)
}

/// The way in which this process takes part in a store.
#[derive(Debug)]
pub enum Joined {
    /// As its node.
    Own(Store),
    /// As a client of another node, which this connection speaks with.
    Node(BufReader<UnixStream>),
    /// The store cannot be opened.
    Broken(leftfold_store::Error),
}

/// Opens the store, or connects to the node that has it. While a process has the store that does not
/// speak the protocol, such as `leftfold run` with a session of the store, this waits for its end.
///
/// # Errors
/// The node refuses this client.
pub async fn join(folder: &Path, protocol: &str, options: &Value) -> anyhow::Result<Joined> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        let is_shared = leftfold_store::database_of(folder)?.is_some();
        let mut may_open = !leftfold_store::in_use(folder);
        if !may_open {
            match speak(folder, protocol, options).await {
                Ok(stream) => return Ok(Joined::Node(stream)),
                Err(error) if is_refused(&error) => return Err(error),
                Err(error) => tracing::debug!("no node to speak with: {error:#}"),
            }
            // a shared store takes another node beside one that runs a single turn
            may_open = is_shared;
        }
        if may_open {
            let opened = folder.to_owned();
            match tokio::task::spawn_blocking(move || Store::open(&opened)).await? {
                Ok(store) => return Ok(Joined::Own(store)),
                Err(leftfold_store::Error::Locked { .. }) => {}
                Err(error) => return Ok(Joined::Broken(error)),
            }
        }
        if began.elapsed() >= NOTICE_DELAY && !std::mem::replace(&mut is_told, true) {
            crate::note(&format!(
                "leftfold: another process has the store {} for one turn: waiting for its end",
                folder.display()
            ));
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Whether the node has answered, and will not speak with this client later either.
pub fn is_refused(error: &anyhow::Error) -> bool {
    error.downcast_ref::<RpcError>().is_some_and(|refused| !refused.is_leaving())
}
