//! `leftfold node`: the long-lived node, driven over standard input and output by the Agent Client
//! Protocol (version 1).
//!
//! | file | is |
//! |---|---|
//! | `wire` | lines on stdin and stdout, with a limit to their length; the methods of the socket |
//! | `flow` | how much may wait in either direction |
//! | `params` | requests that are not what their method takes |
//! | `agent` | the methods of the protocol, and the sessions of this connection |
//! | `opening`, `listing`, `forks` | sessions: new, loaded and resumed; listed, closed and deleted; forked |
//! | `choices` | what a client may choose: agent, model, variant; commands |
//! | `authentication` | how a person gives keys |
//! | `conversation` | one session: takes its prompts, loads and cancels one after the other |
//! | `shared` | what all parts of a session know |
//! | `updates` | an observer: turns durable events into updates, questions and answers |
//! | `view`, `calls`, `compaction` | what an event is to a client: pure |
//! | `content` | what a client's content is to a session: pure |
//! | `host` | the client's files and terminals, for calls |
//! | `terminals` | what a client is shown of calls that run in its terminals: pure |
//! | `servers` | servers of tools that come with a session |
//! | `question`, `form` | questions, as permissions or as forms, and what a client answers |
//! | `prompts` | prompts that wait for the end of their turn |
//!
//! Invariant: whatever a client is told of a session comes from its durable events, but for which of its
//! own terminals a call runs in.

mod agent;
mod arrival;
mod authentication;
mod calls;
mod choices;
mod compaction;
mod content;
mod conversation;
mod errors;
mod flow;
mod forks;
mod form;
mod host;
mod listing;
mod opening;
mod params;
mod prompts;
mod question;
mod servers;
mod shared;
mod terminals;
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

/// How long each step of leaving may take; together they stay below a second.
const STEP: Duration = Duration::from_millis(300);

/// Serves ACP on standard input and output until the input ends. With `store` all sessions are kept in that
/// one folder.
///
/// # Errors
/// The node cannot be started, or the connection fails.
pub fn serve(store: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let store = store.map(std::path::absolute).transpose().context("the store's folder")?;
    let runtime = leftfold_runtime::runtime()?;
    let outcome = runtime.block_on(run(store));
    // a read of standard input that never ends must not hold up the end
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

/// Turns under way are not ended: they stay cut off in their logs, and `leftfold resume` goes on.
/// First nobody may write any more, then their processes are ended.
async fn leave(node: ActorRef<NodeMessage>) {
    if node.stop_and_wait(None, Some(STEP)).await.is_err() {
        tracing::warn!("the node did not stop in time");
    }
    let ended = async {
        tokio::join!(leftfold_mcp::close(), leftfold_plugins::close());
        // what runs in the client's terminals descends from the client
        let others = leftfold_process::settled();
        let ours = tokio::task::spawn_blocking(leftfold_process::end_descendants);
        tokio::join!(ours, others).0
    };
    if tokio::time::timeout(STEP, ended).await.is_err() {
        tracing::warn!("processes of calls do not end in time");
    }
}
