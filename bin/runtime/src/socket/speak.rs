//! `_leftfold/speak`: hands a connection over to another protocol. After the answer the connection
//! carries that protocol's bytes as they are.
//!
//! So a second process that wants a store which another one holds becomes a client of that one: it
//! copies bytes between its own client and the node. The programs that hold stores register a
//! [`Speaker`] for each protocol, since the crates of the protocols do not know each other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use leftfold_framing::{Line, next_line};
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
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer, in bytes.
const ANSWER: usize = 64 << 10;

/// A protocol that a client has chosen, and its directory.
pub(super) type Speak = (Speaker, PathBuf);

#[derive(Deserialize)]
struct SpeakParams {
    protocol: String,
    directory: PathBuf,
}

/// The speaker that a client asks for. Only people may ask.
pub(super) async fn find(peer: &Peer, params: Value) -> Result<Speak, RpcError> {
    peer.must_be_person(METHOD).await?;
    let SpeakParams { protocol, directory } = wire::params(params)?;
    if !peer.is_at_socket() {
        return Err(RpcError::request("only a connection to the socket can carry a protocol"));
    }
    let speaker = peer.context.sessions.speaker(&protocol);
    let speaker = speaker.ok_or_else(|| {
        RpcError::leaving(format!(
            "this node does not speak `{protocol}`: it releases the store at its end"
        ))
    })?;
    Ok((speaker, directory))
}

/// Connects to the node of a store, and chooses a protocol. The answer is read whole; everything
/// behind it belongs to the protocol.
///
/// # Errors
/// There is no node, or it does not answer; [`RpcError`]: it refuses.
pub async fn speak(
    store: &Path,
    protocol: &str,
    directory: &Path,
) -> anyhow::Result<BufReader<UnixStream>> {
    let stream = path::connect(store)?;
    stream.set_nonblocking(true)?;
    let mut stream = BufReader::with_capacity(64 << 10, UnixStream::from_std(stream)?);
    let params = json!({ "protocol": protocol, "directory": directory });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params });
    let asked = async {
        stream.get_mut().write_all(format!("{request}\n").as_bytes()).await?;
        anyhow::Ok(next_line(&mut stream, ANSWER).await?)
    };
    let answer =
        tokio::time::timeout(PATIENCE, asked).await.context("the node does not answer")??;
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
