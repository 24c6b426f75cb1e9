//! A blocking client of the socket, for this program's own commands.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::Remote;
pub use super::path::{Identity, identity};
pub use super::wire::carried;
use super::wire::{self, RpcError};
use crate::session_paths::SessionPlace;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes to read from the socket at a time.
const BUFFER: usize = 64 << 10;

/// A connection to the node of a store.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

/// Connects to the node of the store. Fails if there is none.
pub fn connect(store: &Path) -> io::Result<Connection> {
    let stream = super::path::connect(store)?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(Connection { stream: BufReader::with_capacity(BUFFER, stream) })
}

/// Sends a request to the owner of a session, if that is another node of a shared store, and waits for the answer.
/// `None`: it is no such session.
///
/// # Errors
/// An error of the owner is an [`RpcError`].
pub fn ask_owner(
    place: &SessionPlace,
    method: &'static str,
    params: Value,
) -> anyhow::Result<Option<Value>> {
    crate::run_async(async {
        match Remote::elsewhere(place).await? {
            Some(remote) => remote.call(method, params).await.map(Some),
            None => Ok(None),
        }
    })?
}

impl Connection {
    /// Sends a request, and waits for the answer. An error of the node is an [`RpcError`].
    pub fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        self.stream.get_mut().set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut answer = loop {
            match self.line().context("the node does not answer")? {
                Some(line) if line.get("id").is_some() => break line,
                Some(line) if line["method"] == wire::RESTED_METHOD => {
                    return Err(RpcError::leaving("the node has released the session").into());
                }
                // A notification.
                Some(_) => {}
                None => bail!("the node died before it answered"),
            }
        };
        self.stream.get_mut().set_read_timeout(None)?;
        if let Some(error) = answer.get_mut("error").map(Value::take) {
            return Err(serde_json::from_value::<RpcError>(error)?.into());
        }
        Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())
    }

    /// Replaces `lines` with the next notifications of a watched session: at least one, and only
    /// whole lines; see [`carried`]. False when the node is gone.
    pub fn events(&mut self, lines: &mut String) -> io::Result<bool> {
        lines.clear();
        self.stream.read_line(lines)?;
        // A node that dies may leave half a line.
        if !lines.ends_with('\n') {
            return Ok(false);
        }
        let more = self.stream.buffer();
        let end = more.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        lines.push_str(std::str::from_utf8(&more[..end]).map_err(io::Error::other)?);
        self.stream.consume(end);
        Ok(true)
    }

    fn line(&mut self) -> io::Result<Option<Value>> {
        let line = self.raw()?;
        Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
    }

    fn raw(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        // A node that dies may leave half a line.
        Ok((line.pop() == Some('\n')).then_some(line))
    }
}
