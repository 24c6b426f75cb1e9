//! `leftfold node`: the long-lived node, which speaks the Agent Client Protocol (version 1) over
//! standard input and output. The protocol's types and JSON-RPC come from the crate
//! `agent-client-protocol`.
//!
//! ```text
//! stdin ─► wire ─► agent ─► conversation ─► Node      one actor for each session: prompts, loads
//!                              (in order)              and cancels in the order in which they came
//! stdout ◄─ wire ◄─ updates ◄─ view ◄─ Observers      an observer like any other
//! ```
//!
//! | file | purpose |
//! |---|---|
//! | `wire` | lines on stdin and stdout, with a limited length; the methods of the socket |
//! | `flow` | limits on queued input and output |
//! | `params` | rejects requests with wrong parameters |
//! | `agent` | the methods of the protocol, and the sessions of this connection |
//! | `opening`, `listing`, `forks` | sessions: new, loaded and resumed; listed, closed and deleted; forked |
//! | `choices` | the client's choices: agent, model, variant; commands |
//! | `authentication` | the ways for a person to store keys |
//! | `conversation` | one session: handles its prompts, loads and cancels one after the other |
//! | `shared` | state that all parts of a session share |
//! | `updates` | an observer: turns durable events into updates, questions and answers |
//! | `view`, `calls`, `compaction` | convert events for the client: pure |
//! | `content` | converts a client's content for the session: pure |
//! | `host` | the client's files and terminals, for calls |
//! | `terminals` | shows calls that run in the client's terminals: pure |
//! | `servers` | MCP servers that the client supplies for a session |
//! | `question`, `form` | questions as permissions or as forms, and the client's answers |
//! | `prompts` | prompts that wait for the end of their turn |
//! | `fuzzing` | properties that hold for any input, for `tests/fuzz` |
//!
//! Invariant: everything that a client receives about a session comes from durable events, except
//! which of its own terminals a call runs in.

mod agent;
mod arrival;
mod authentication;
mod call_ids;
mod calls;
mod choices;
mod compaction;
mod content;
mod conversation;
mod errors;
mod flow;
mod forks;
mod form;
pub mod fuzzing;
mod host;
mod listing;
mod opening;
mod params;
mod prompts;
mod question;
mod servers;
mod shared;
mod terminals;
mod trust;
mod updates;
mod view;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::NodeMessage;
use ractor::ActorRef;
use tokio::signal::unix::{SignalKind, signal};

use leftfold_runtime::client;
use leftfold_runtime::socket::{SessionRegistry, Sockets};
use std::path::PathBuf;

/// How long each step of the shutdown may take; together they stay below a second.
const STEP: Duration = Duration::from_millis(300);

/// Serves ACP on standard input and output until the input ends. With `store` all sessions are kept
/// in that folder.
///
/// # Errors
/// The node cannot be started, or the connection fails.
pub fn serve(store: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let store = store.map(std::path::absolute).transpose().context("the store's folder")?;
    let runtime = leftfold_runtime::runtime()?;
    let outcome = runtime.block_on(run(store));
    // A read of standard input may never return and must not delay the end.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn run(store: Option<std::path::PathBuf>) -> anyhow::Result<()> {
    let node = client::node().await?;
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let sessions = SessionRegistry::new(node.clone(), store);
    node.cast(NodeMessage::Keep(Arc::new(Sockets(sessions.clone()))))?;
    let (channel, mut wire) = wire::stdio(sessions.clone());
    let agent = agent::serve(sessions, node.clone(), wire.flow(), channel);
    let spoken = tokio::select! {
        ended = agent => ended.context("the connection failed"),
        gone = wire.broken() => {
            tracing::info!("nobody reads standard output any more: {gone}");
            Ok(())
        }
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    };
    wire.drain(STEP).await;
    leave(node).await;
    spoken
}

/// Shuts down. Running turns stay interrupted in their logs, for `leftfold resume`. First the
/// actors are stopped, so that nothing of the end reaches a log; then processes are ended.
async fn leave(node: ActorRef<NodeMessage>) {
    if node.stop_and_wait(None, Some(STEP)).await.is_err() {
        tracing::warn!("the node did not stop in time");
    }
    let ended = async {
        tokio::join!(leftfold_mcp::close(), leftfold_plugins::close());
        // Processes in the client's terminals descend from the client.
        let others = leftfold_process::settled();
        let ours = tokio::task::spawn_blocking(leftfold_process::end_descendants);
        tokio::join!(ours, others).0
    };
    if tokio::time::timeout(STEP, ended).await.is_err() {
        tracing::warn!("processes of calls did not end in time");
    }
}
