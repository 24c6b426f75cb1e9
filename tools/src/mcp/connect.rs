//! Getting in touch with servers.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use rmcp::serve_client;
use rmcp::service::ClientInitializeError;
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use super::desk::Desk;
use super::link::{Life, Link};
use super::stdio::Pipes;
use super::{Reach, STARTUP, Spec, lists, remote};
use crate::processes::{self, Running};
use crate::{environment, text};

/// Lines of a server's standard error that are kept, and bytes of one, to say why it failed.
const LINES: usize = 4;
const LINE: usize = 300;
const PART: u64 = 64 * 1_024;

/// How long the exit status and the last words of a server are waited for that has hung up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where servers are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) directory: PathBuf,
    /// Names of variables that are passed on besides the usual ones.
    pub(super) environment: Vec<String>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Failure {
    /// In words for people.
    pub(super) why: String,
    /// What the server wants first, as it says it itself.
    pub(super) challenge: Option<String>,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self { why, challenge: None }
    }
}

/// Connects, and asks for the tools.
///
/// # Errors
/// Why there is no connection; the limit of time is over.
pub(super) async fn connect(spec: &Spec, root: &Root, desk: Desk) -> Result<Link, Failure> {
    let limit = spec.timeout.unwrap_or(STARTUP);
    match tokio::time::timeout(limit, open(spec, root, desk, limit)).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("it did not start within {} ms", limit.as_millis()).into()),
    }
}

async fn open(spec: &Spec, root: &Root, desk: Desk, limit: Duration) -> Result<Link, Failure> {
    let life = match &spec.reach {
        Reach::Local { command, environment, cwd } => {
            local(&spec.name, command, environment, cwd.as_deref(), root, &desk).await?
        }
        Reach::Remote { url, headers, oauth } => {
            let service = remote::connect(url, headers, oauth, &desk).await?;
            Life { service, process: None }
        }
        Reach::Unusable(why) => return Err(why.clone().into()),
        Reach::Disabled => return Err("it is disabled".to_owned().into()),
    };
    let link = Link::new(life, desk.clone());
    match link.list_tools().await {
        Ok(tools) => {
            desk.set_tools(tools);
            // its tools are there, whether it tells its prompts or not
            let patience = lists::PATIENCE.min(limit / 2);
            let prompts = tokio::time::timeout(patience, link.list_prompts()).await;
            desk.set_prompts(prompts.unwrap_or_default());
        }
        Err(failure) => {
            link.close().await;
            return Err(failure);
        }
    }
    Ok(link)
}

async fn local(
    name: &str,
    command: &[String],
    variables: &[(String, String)],
    cwd: Option<&Path>,
    root: &Root,
    desk: &Desk,
) -> Result<Life, String> {
    end_orphans().await;
    let (program, arguments) = command.split_first().ok_or("its command is empty")?;
    let folder = cwd.unwrap_or(&root.directory);
    let mark = processes::server_mark();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment(&root.environment))
        .env("PWD", folder)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .envs(processes::marks(&mark))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| {
            format!("`{program}` can not be started in {}: {error}", folder.display())
        })?;
    let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let running = leader.map(|leader| Running::new(leader, &mark));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err("its pipes are gone".to_owned());
    };
    let words = LastWords::of(name, stderr);
    match serve_client(desk.clone(), Pipes::new(stdout, stdin)).await {
        Ok(service) => Ok(Life { service, process: Some((child, running)) }),
        Err(error @ ClientInitializeError::JsonRpcError(_)) => {
            Err(words.after(&format!("it refuses to begin: {}", innermost(&error))).await)
        }
        Err(ClientInitializeError::ExpectedInitResult(_)) => {
            Err(words.after("its answer to `initialize` is none that MCP knows").await)
        }
        Err(error) => {
            let ended = tokio::time::timeout(LAST_WORDS, child.wait()).await;
            let why = match ended {
                Ok(Ok(status)) => format!("it ended at once ({status})"),
                Ok(Err(_)) | Err(_) => innermost(&error),
            };
            Err(words.after(&why).await)
        }
    }
}

/// What servers of dead nodes left running is ended once by each process that starts some itself.
pub(crate) async fn end_orphans() {
    static ENDED: Once = Once::new();
    if ENDED.is_completed() {
        return;
    }
    let end = || {
        ENDED.call_once(|| {
            let ended = processes::end_orphans();
            tracing::debug!("{ended} processes of servers of dead nodes were ended");
        });
    };
    // it can fail only by panicking, and the servers start all the same
    let _ = tokio::task::spawn_blocking(end).await;
}

pub(super) fn innermost(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return "it closed the connection before it had answered".to_owned();
    }
    // it does not name what it stands for as its source
    if let ClientInitializeError::TransportError { error, .. } = error {
        return innermost_of(error.error.as_ref());
    }
    innermost_of(error)
}

/// What an error comes from in the end.
pub(super) fn innermost_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    text::clip(without_address(innermost.to_string()), LINE)
}

/// The same words without the address that was asked: there may be a key in it, and they come into logs.
fn without_address(said: String) -> String {
    const ADDRESS: &str = " for url (";
    let address = said.find(ADDRESS).zip(said.rfind(')')).filter(|(start, end)| start < end);
    let Some((start, end)) = address else { return said };
    format!("{}{}", &said[..start], &said[end + 1..])
}

/// The end of what a server has written to standard error, which is read as long as it writes.
pub(crate) struct LastWords {
    lines: Arc<Mutex<VecDeque<String>>>,
    reading: tokio::task::JoinHandle<()>,
}

impl LastWords {
    pub(crate) fn of(name: &str, stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, name) = (Arc::clone(&lines), name.to_owned());
        let reading = tokio::spawn(async move {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            // a line without an end is taken in parts
            while (&mut stderr).take(PART).read_until(b'\n', &mut line).await.is_ok_and(|n| n > 0) {
                let said = text::clip(String::from_utf8_lossy(&line).trim().to_owned(), LINE);
                line.clear();
                tracing::debug!(server = %name, "{said}");
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(said);
                if kept.len() > LINES {
                    kept.pop_front();
                }
            }
        });
        Self { lines, reading }
    }

    pub(crate) async fn after(self, why: &str) -> String {
        // a process that it has left behind may hold the pipe open
        let _ = tokio::time::timeout(LAST_WORDS, self.reading).await;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
        match said.as_slice() {
            [] => why.to_owned(),
            said => format!("{why}; it said: {}", said.join(" | ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_told() {
        for (said, told) in [
            (
                "no answer for url (https://host/mcp?key=canary(1)): timed out",
                "no answer: timed out",
            ),
            ("no answer for url (https://host/mcp?key=canary)", "no answer"),
            ("HTTP 500", "HTTP 500"),
            (") for url (", ") for url ("),
        ] {
            assert_eq!(without_address(said.to_owned()), told);
        }
    }
}
