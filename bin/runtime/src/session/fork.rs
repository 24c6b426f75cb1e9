//! Makes forks: new sessions in the same store that share another session's events up to a point.
//!
//! The node of whichever process holds the store opens the fork, and `SessionMessage::Begin` tells
//! its Session to write the first events: `session.forked`, and `files.checkout_asked` if files are
//! wanted.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use leftfold_actors::{
    Answered, Listener, Models, NodeMessage, Observation, OpenSession, SessionMessage, Watch,
    WatchScope, World,
};
use leftfold_events::event::{Event, Files, Saved, Session, Turn};
use leftfold_events::state::Figures;
use leftfold_events::{Envelope, Fact, MessageId, POLICY, Seq, SessionId, fold};
use leftfold_store::Reader;
use leftfold_tools::Workspace;
use leftfold_view::file_changes;
use ractor::ActorRef;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::{self, closed};
use crate::remote::{self, RpcError};
use crate::session_paths::{self, SessionPlace};
use crate::{Usage, checkout, project};

/// The node's method that makes forks.
pub(crate) const FORK: &str = "_leftfold/fork";
/// The `by` of the request for files.
const BY: &str = "fork";

/// The point of the fork, and whether to restore files.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForkRequest {
    /// The last event to share; `None`: the session's last.
    pub at: Option<Seq>,
    /// Whether to restore the project's files to their state at that event.
    pub files: bool,
    /// The fork's id. `None`: a new one.
    pub id: Option<SessionId>,
    /// The message of another node that asks for it.
    pub settles: Option<MessageId>,
}

/// A new fork.
#[derive(Debug)]
pub struct Forked {
    pub session: SessionId,
    /// For people: the restored files, if they were requested.
    pub notice: Option<String>,
}

/// Makes a fork in the same store, by the store's node if there is one.
///
/// # Errors
/// As for [`make`]; or the store's nodes start and end too quickly to ask one.
pub fn begin(place: &SessionPlace, wanted: ForkRequest) -> anyhow::Result<SessionPlace> {
    let Forked { session, notice } = fork(place, wanted)?;
    if let Some(notice) = notice {
        crate::note(&format!("leftfold: {notice}"));
    }
    Ok(SessionPlace { session, ..place.clone() })
}

fn fork(place: &SessionPlace, wanted: ForkRequest) -> anyhow::Result<Forked> {
    let mut locked = None;
    for _ in 0..client::ATTEMPTS {
        match ask(place, wanted) {
            Ok(forked) => return Ok(forked),
            Err(AskError::Refused(error)) => return Err(error),
            // It will release the store shortly.
            Err(AskError::Leaving) => thread::sleep(client::RETRY_DELAY),
            Err(AskError::Nobody) => match (make_alone(place, wanted), locked.take()) {
                // Its node may not have made its socket yet at the first attempt.
                (Err(error), None) if client::is_locked(&error) => locked = Some(error),
                (Err(error), _) if client::is_owned_elsewhere(&error) => {
                    return ask_owner(place, wanted, error);
                }
                (made, _) => return made,
            },
        }
    }
    bail!("another node has the store of session {}, and does not answer", place.session)
}

/// The reason why a store's node has made no fork.
enum AskError {
    /// There is no node.
    Nobody,
    /// It is releasing the store, and did nothing.
    Leaving,
    Refused(anyhow::Error),
}

/// Asks the node of the store to make a fork.
fn ask(
    place: &SessionPlace,
    ForkRequest { at, files, .. }: ForkRequest,
) -> Result<Forked, AskError> {
    let Ok(mut node) = remote::client::connect(&place.store) else { return Err(AskError::Nobody) };
    let params = json!({ "session": place.session, "at": at, "files": files });
    let made = node.call(FORK, &params).map_err(|error| match error.downcast::<RpcError>() {
        Ok(error) if error.is_leaving() => AskError::Leaving,
        Ok(error) if error.is_params() => AskError::Refused(Usage(error.message).into()),
        Ok(error) => AskError::Refused(error.into()),
        Err(error) => AskError::Refused(error),
    })?;
    let session = made["session"].as_str().and_then(|id| id.parse().ok());
    let unknown = || AskError::Refused(anyhow::anyhow!("the node's answer names no fork: {made}"));
    let notice = made["notice"].as_str().map(str::to_owned);
    Ok(Forked { session: session.ok_or_else(unknown)?, notice })
}

/// Asks the owner of a session that another node of a shared store owns.
fn ask_owner(
    place: &SessionPlace,
    ForkRequest { at, files, .. }: ForkRequest,
    taken: anyhow::Error,
) -> anyhow::Result<Forked> {
    // so it is known even if the answer is lost
    let id = project::new_id();
    let params = json!({ "session": place.session, "at": at, "files": files, "id": id });
    let made = remote::client::ask_owner(place, FORK, params);
    let made = made.map_err(|error| match error.downcast::<RpcError>() {
        Ok(error) if error.is_params() => Usage(error.message).into(),
        Ok(error) => error.into(),
        Err(error) => error,
    })?;
    let made = made.ok_or(taken)?;
    Ok(Forked { session: id, notice: made["notice"].as_str().map(str::to_owned) })
}

/// Calls [`make`] in a node that is started for it and releases the store afterwards.
fn make_alone(of: &SessionPlace, wanted: ForkRequest) -> anyhow::Result<Forked> {
    let made = async {
        let events = Reader::open(&of.store)?.read(of.session, 1)?;
        let node = client::node().await?;
        let made = make(&node, of, events, wanted).await;
        client::stop_node(&node).await;
        made
    };
    crate::run_async(made)?
}

/// Makes a fork in the store of `of`, by a node of this process. The fork shares the `events` of
/// that session up to a point. Calls and questions open there are closed in the fork; they belong
/// to the other session.
///
/// # Errors
/// [`Usage`]: there is no such event, or nothing to share yet. The store cannot be opened or
/// written. Files cannot be restored: the error names the fork, which exists nevertheless.
pub async fn make(
    node: &ActorRef<NodeMessage>,
    of: &SessionPlace,
    events: Vec<Envelope>,
    wanted: ForkRequest,
) -> anyhow::Result<Forked> {
    let at = fork_point(of, &events, wanted.at)?;
    let imported = leftfold_store::imported(&of.store, &events)?;
    let accepted = leftfold_store::accepted_steps(&of.store, &events)?;
    let plan = || checkout::plan(&events, at, imported, &accepted);
    let paths = wanted.files.then(plan).transpose()?;
    let mut open = open(of, &events, at, imported)?;
    open.session = wanted.id.unwrap_or(open.session);
    let session = open.session;
    let made = write(node, open, at, paths, wanted.settles).await;
    // The next prompt opens the fork again, with a configuration.
    let closed = ractor::call!(node, |reply| NodeMessage::Close { session, reply });
    let notice = made?;
    closed.context("the node has died")?;
    Ok(Forked { session, notice })
}

/// The last event to share.
fn fork_point(of: &SessionPlace, events: &[Envelope], wanted: Option<Seq>) -> anyhow::Result<Seq> {
    let SessionPlace { store, session } = of;
    let Some(head) = events.last().map(|event| event.seq) else {
        bail!(Usage(format!("there is no session {session} in {}", store.display())));
    };
    let at = wanted.unwrap_or(head);
    if at == 0 || at > head {
        bail!(Usage(format!(
            "the log of {session} has events 1 to {head}: there is no {at} to fork at"
        )));
    }
    let mut shared = events.iter().filter(|event| event.seq <= at);
    if !shared.any(|event| matches!(event.event, Event::Turn(Turn::Prompted { .. }))) {
        bail!(Usage(format!(
            "event {at} is before the first prompt: there is nothing to share yet"
        )));
    }
    Ok(at)
}

/// Opens the fork without settings: before it is opened again it requests no model and runs no
/// call.
fn open(
    of: &SessionPlace,
    events: &[Envelope],
    at: Seq,
    imported: Seq,
) -> anyhow::Result<Box<OpenSession>> {
    let state = fold(events.iter().filter(|event| event.seq <= at));
    let origin = state.origin.context("the session has no beginning")?;
    let spill = of.store.join("spill");
    let worktree = origin.worktree.clone().into();
    let worktree = project::worktree(origin.directory.as_ref(), worktree, imported);
    let mut workspace = Workspace::new(&origin.directory, worktree, spill);
    workspace.data = session_paths::data_dir().ok();
    let created_event = Session::Created {
        directory: origin.directory,
        worktree: origin.worktree,
        parent: None,
        agent: state.agent,
        version: origin.version,
        policy: POLICY,
    };
    Ok(Box::new(OpenSession {
        store: of.store.clone(),
        session: project::new_id(),
        world: World::new(Models::default(), Arc::new(workspace), None),
        created_event,
        fork_of: Some((of.session, at)),
    }))
}

/// Tells the fork's Session to write its first events, waits for the files, and answers a notice
/// about them.
async fn write(
    node: &ActorRef<NodeMessage>,
    open: Box<OpenSession>,
    at: Seq,
    paths: Option<Vec<Saved>>,
    settles: Option<MessageId>,
) -> anyhow::Result<Option<String>> {
    let session = open.session;
    let mut opened = ractor::call!(node, |reply| NodeMessage::Open { open, reply })
        .context("the node has died")??;
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let sink = Listener::start(move |Observation { events, done }| {
        for event in events.iter() {
            let outcome = match &event.event {
                Event::Files(event) => event.clone(),
                // The fork has no turn yet, so only its files have a deadline.
                Event::Session(Session::DeadlinePassed {}) => {
                    Files::RestoreFailed { message: file_changes::TIMED_OUT.to_owned() }
                }
                _ => continue,
            };
            // The receiver may be gone.
            let _ = sender.send(outcome);
        }
        let _ = done.send(());
    });
    let watch = Watch { session, from: at + 1, sink: sink.await?, family: WatchScope::Alone };
    node.cast(NodeMessage::Watch(watch)).context("the node has died")?;
    let wanted = paths.as_ref().filter(|paths| !paths.is_empty());
    let asks =
        |paths: &Vec<Saved>| Files::CheckoutAsked { paths: paths.clone(), by: BY.to_owned() };
    let facts: Vec<Fact> = wanted.map(asks).into_iter().map(Fact::new).collect();
    let restores = !facts.is_empty();
    let begun = ractor::call!(node, |reply_to| NodeMessage::Tell {
        session,
        message: SessionMessage::Begin { facts, settles, reply_to },
    });
    match begun {
        Ok(Answered::Accepted) => {}
        Ok(
            Answered::NotOpen
            | Answered::Already { .. }
            | Answered::Refused { .. }
            | Answered::Repeated { .. },
        ) => {
            bail!("there is a session {session} already")
        }
        Err(_) => bail!(closed(&mut opened).await),
    }
    if !restores {
        return Ok(paths.map(|_| "no file had to be restored".to_owned()));
    }
    let restored = tokio::select! {
        restored = restored(&mut outcomes) => restored,
        why = closed(&mut opened) => Err(anyhow::anyhow!(why)),
    };
    let done = restored
        .with_context(|| format!("the fork {session} exists, but its files were not restored"))?;
    Ok(Some(format!("{done}; undo this with `leftfold unrevert {session}`")))
}

/// Describes the restored files, for people.
async fn restored(outcomes: &mut mpsc::UnboundedReceiver<Files>) -> anyhow::Result<String> {
    while let Some(outcome) = outcomes.recv().await {
        if let Files::Restored { files, .. } = &outcome {
            return Ok(file_changes::sum(&Figures::from_files(files.iter())));
        }
        if let Some(message) = outcome.failure() {
            bail!(message.to_owned());
        }
    }
    bail!("the node has died")
}
