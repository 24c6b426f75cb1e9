//! `leftfold node`: the long-lived node for editors, which speaks the Agent Client Protocol (ACP, version 1) over
//! standard input and output. If another process has the store, this one passes its client on to
//! that node, and becomes the node itself when that one ends. The protocol's types and JSON-RPC come from the crate
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
//! | `wire` | lines of a connection, with a limited length; the methods of the socket |
//! | `proxy`, `passed_on` | passes the client on to another process's node; what it remembers for the next one |
//! | `flow` | limits on queued input and output |
//! | `params` | rejects requests with wrong parameters |
//! | `agent` | the methods of the protocol, and the sessions of this connection |
//! | `opening`, `listing`, `forks` | sessions: new, loaded and resumed; listed, closed and deleted; forked |
//! | `choices` | the client's choices: agent, model, variant; commands |
//! | `authentication` | the ways for a person to store keys and to sign in |
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
mod host;
mod listing;
mod opening;
mod params;
mod passed_on;
mod prompts;
mod proxy;
mod question;
mod servers;
mod shared;
mod terminals;
mod trust;
mod updates;
mod view;
mod wire;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::NodeMessage;
use ractor::ActorRef;
use tokio::io::{AsyncBufRead, AsyncWrite, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use agent::AcpAgent;
use leftfold_runtime::only_people;
use leftfold_runtime::session_paths;
use leftfold_runtime::socket::{
    Joined, Register, SessionRegistry, Speaker, UpgradedConnection, join, start_node,
    take_over_unowned,
};
use leftfold_store::Store;
use serde_json::Value;
use shared::Caller;

// `tests/fuzz` reads lines with them
#[doc(hidden)]
pub use wire::{Incoming, next_frame};

/// How long each step of the shutdown may take; together they stay below a second.
const SHUTDOWN_STEP_TIMEOUT: Duration = Duration::from_millis(300);

/// The protocol's name for `_leftfold/speak`.
const PROTOCOL: &str = "acp";

/// Serves ACP on standard input and output until the input ends. Sessions are kept in `store`; by
/// default in the shared store of the data folder. `register` registers another protocol that the node
/// speaks.
///
/// # Errors
/// The node cannot be started, or the connection fails.
pub fn serve(store: Option<&Path>, register: Register) -> anyhow::Result<ExitCode> {
    let store = match store {
        Some(store) => Some(store.to_owned()),
        // a node that a call has started is nobody else's: each of its sessions has its own store
        None if only_people::require("leftfold node").is_err() => None,
        None => Some(session_paths::shared_store()?),
    };
    let runtime = leftfold_runtime::runtime()?;
    let outcome = runtime.block_on(run(store.as_deref(), register));
    // A read of standard input may never return and must not delay the end.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// From now on the node serves the clients that other processes pass on to it.
pub fn register(sessions: &Arc<SessionRegistry>, node: &ActorRef<NodeMessage>, _: &Store) {
    let registry = sessions;
    let (sessions, node): (Weak<SessionRegistry>, _) = (Arc::downgrade(sessions), node.clone());
    let speaker: Speaker = Arc::new(move |UpgradedConnection { input, output, pid, .. }| {
        let (sessions, node) = (sessions.upgrade(), node.clone());
        Box::pin(async move {
            let Some(sessions) = sessions else { return };
            let _speaking = sessions.speaking();
            let served = serve_client(sessions, node, Caller::new(pid), input, output).await;
            if let Err(error) = served {
                tracing::warn!("a client's connection failed: {error:#}");
            }
        })
    });
    registry.speaks(PROTOCOL, speaker);
}

/// Serves one client until its input ends, and closes its sessions. At the end of the node the
/// connection is cut.
async fn serve_client(
    sessions: Arc<SessionRegistry>,
    node: ActorRef<NodeMessage>,
    caller: Caller,
    input: impl AsyncBufRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<()> {
    let (channel, mut wire) = wire::connect(sessions.clone(), &caller, input, output);
    let agent = AcpAgent::new(sessions.clone(), node, caller, wire.flow());
    let spoken = tokio::select! {
        biased;
        () = sessions.cut() => {
            wire.cut().await;
            return Ok(());
        }
        ended = agent::serve(Arc::clone(&agent), channel) => ended.context("the connection failed"),
        gone = wire.broken() => {
            tracing::info!("the client does not read any more: {gone}");
            Ok(())
        }
    };
    wire.drain(SHUTDOWN_STEP_TIMEOUT).await;
    agent.hang_up().await;
    spoken
}

/// A node of this process.
#[derive(Clone)]
struct OwnNode {
    node: ActorRef<NodeMessage>,
    sessions: Arc<SessionRegistry>,
}

impl OwnNode {
    /// Starts a node that keeps its sessions in `folder`. Without a `store`, which could not be
    /// opened, each use of a session tries again and reports why.
    async fn start(
        folder: Option<&Path>,
        store: Option<Store>,
        register: Register,
    ) -> anyhow::Result<Self> {
        let protocols = [self::register, register];
        let (node, sessions) = start_node(folder, store, &protocols).await?;
        take_over_unowned(&sessions);
        Ok(Self { node, sessions })
    }
}

async fn run(folder: Option<&Path>, register: Register) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let mut own = None;
    let served = async {
        let joined = match folder {
            Some(folder) => Some((folder, join(folder, PROTOCOL, &Value::Null).await?)),
            None => None,
        };
        let store = match joined {
            Some((folder, Joined::Node(stream))) => {
                return proxy::serve(folder, register, stream, &mut own).await;
            }
            Some((_, joined)) => proxy::own_store(joined),
            None => None,
        };
        let OwnNode { node, sessions } =
            own.insert(OwnNode::start(folder, store, register).await?).clone();
        let (input, output) = (BufReader::new(tokio::io::stdin()), tokio::io::stdout());
        let caller = Caller::new(None);
        let (channel, mut wire) = wire::connect(sessions.clone(), &caller, input, output);
        let agent = agent::serve(AcpAgent::new(sessions, node, caller, wire.flow()), channel);
        let spoken = tokio::select! {
            ended = agent => ended.context("the connection failed"),
            gone = wire.broken() => {
                tracing::info!("nobody reads standard output any more: {gone}");
                Ok(())
            }
        };
        wire.drain(SHUTDOWN_STEP_TIMEOUT).await;
        spoken
    };
    let spoken = tokio::select! {
        spoken = served => spoken,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    };
    if let Some(OwnNode { node, sessions }) = own {
        sessions.cut_all().await;
        leave(node).await;
        sessions.hand_over().await;
    }
    spoken
}

/// Shuts down. Running turns stay interrupted in their logs, for `leftfold resume`. First the
/// actors are stopped, so that nothing of the end reaches a log; then processes are ended.
async fn leave(node: ActorRef<NodeMessage>) {
    if node.stop_and_wait(None, Some(SHUTDOWN_STEP_TIMEOUT)).await.is_err() {
        tracing::warn!("the node did not stop in time");
    }
    let ended = async {
        leftfold_runtime::close_programs().await;
        // Processes in the client's terminals descend from the client.
        let others = leftfold_process::settled();
        let ours = tokio::task::spawn_blocking(leftfold_process::end_descendants);
        tokio::join!(ours, others).0
    };
    if tokio::time::timeout(SHUTDOWN_STEP_TIMEOUT, ended).await.is_err() {
        tracing::warn!("processes of calls did not end in time");
    }
}
