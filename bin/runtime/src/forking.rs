//! The making of a fork: a session in the same store that shares another one's events up to a point. The
//! node opens it, and its Session writes what it is told: that it is a fork, and which files are wanted.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use leftfold_actors::{
    Answered, Listener, Models, NodeMessage, Observation, OpenSession, SessionMessage, Watch,
    WatchScope, World,
};
use leftfold_events::event::{Event, Files, Saved, Session, Turn};
use leftfold_events::state::Figures;
use leftfold_events::{Envelope, Fact, POLICY, Seq, SessionId, fold};
use leftfold_store::Reader;
use leftfold_tools::Workspace;
use leftfold_view::file_changes;
use ractor::ActorRef;
use serde_json::json;
use tokio::sync::mpsc;

use crate::client::{self, closed};
use crate::remote::{self, RpcError};
use crate::session_paths::{self, Place};
use crate::{Usage, checkout, project};

/// The method of a node that makes forks.
pub(crate) const FORK: &str = "_leftfold/fork";
/// Who asks for the files.
const BY: &str = "fork";
/// How long a node that was started for a fork may take to stop.
const STOP: Duration = Duration::from_secs(2);

/// Where a fork leaves a session, and with what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The last event that is shared; `None`: the last one there is.
    pub at: Option<Seq>,
    /// Put the project's files back as they were there.
    pub files: bool,
}

/// A fork that was made.
#[derive(Debug)]
pub struct Forked {
    pub session: SessionId,
    /// For people: what became of the files, if they were to be put back.
    pub notice: Option<String>,
}

/// A new session in the same store, made by the store's node if there is one.
///
/// # Errors
/// Those of [`make`]; nodes come and go.
pub fn begin(place: &Place, wanted: Wanted) -> anyhow::Result<Place> {
    let Forked { session, notice } = fork(place, wanted)?;
    if let Some(notice) = notice {
        crate::note(&format!("leftfold: {notice}"));
    }
    Ok(Place { session, ..place.clone() })
}

fn fork(place: &Place, wanted: Wanted) -> anyhow::Result<Forked> {
    let mut locked = None;
    for _ in 0..client::ATTEMPTS {
        match ask(place, wanted) {
            Ok(forked) => return Ok(forked),
            Err(Fault::Refused(error)) => return Err(error),
            // it lets go of the store in a moment
            Err(Fault::Leaving) => thread::sleep(client::BREATH),
            Err(Fault::Nobody) => match (make_alone(place, wanted), locked.take()) {
                // its node may not have made its socket yet when it was looked for
                (Err(error), None) if client::is_locked(&error) => locked = Some(error),
                (made, _) => return made,
            },
        }
    }
    bail!("another node has the store of session {}, and can not be reached", place.session)
}

/// Why a store's node has made no fork.
enum Fault {
    /// There is no node.
    Nobody,
    /// It lets go of the store; nothing was done.
    Leaving,
    Refused(anyhow::Error),
}

/// Has the node of the store make a fork.
fn ask(place: &Place, Wanted { at, files }: Wanted) -> Result<Forked, Fault> {
    let Ok(mut node) = remote::client::connect(&place.store) else { return Err(Fault::Nobody) };
    let params = json!({ "session": place.session, "at": at, "files": files });
    let made = node.call(FORK, &params).map_err(|error| match error.downcast::<RpcError>() {
        Ok(error) if error.is_leaving() => Fault::Leaving,
        Ok(error) if error.is_params() => Fault::Refused(Usage(error.message).into()),
        Ok(error) => Fault::Refused(error.into()),
        Err(error) => Fault::Refused(error),
    })?;
    let session = made["session"].as_str().and_then(|id| id.parse().ok());
    let unknown = || Fault::Refused(anyhow::anyhow!("the node's answer names no fork: {made}"));
    let notice = made["notice"].as_str().map(str::to_owned);
    Ok(Forked { session: session.ok_or_else(unknown)?, notice })
}

/// [`make`] in a node that is started for it and lets go of the store afterwards.
fn make_alone(of: &Place, wanted: Wanted) -> anyhow::Result<Forked> {
    let made = async {
        let events = Reader::open(&of.store)?.read(of.session, 1)?;
        let node = client::node().await?;
        let made = make(&node, of, events, wanted).await;
        if node.stop_and_wait(None, Some(STOP)).await.is_err() {
            tracing::warn!("the node did not stop in time");
        }
        made
    };
    crate::run_async(made)?
}

/// A new session in the store of `of`, made by a node of this process, which shares the `events` of that
/// session up to a point. What was open there is closed: it is the other session's.
///
/// # Errors
/// [`Usage`]: there is no such event, or nothing to share yet. The store can not be opened or written;
/// files can not be put back, and the error names the fork, which is made all the same.
pub async fn make(
    node: &ActorRef<NodeMessage>,
    of: &Place,
    events: Vec<Envelope>,
    wanted: Wanted,
) -> anyhow::Result<Forked> {
    let at = fork_point(of, &events, wanted.at)?;
    let paths = wanted.files.then(|| checkout::plan(&events, at)).transpose()?;
    let open = open(of, &events, at)?;
    let session = open.session;
    let made = write(node, open, at, paths).await;
    // whoever goes on with it opens it with a configuration
    let closed = ractor::call!(node, |reply| NodeMessage::Close { session, reply });
    let notice = made?;
    closed.context("the node has died")?;
    Ok(Forked { session, notice })
}

/// The last event that is shared.
fn fork_point(of: &Place, events: &[Envelope], wanted: Option<Seq>) -> anyhow::Result<Seq> {
    let Place { store, session } = of;
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

/// A fork asks no model and runs no call before it is opened again, so nothing of the settings is read.
fn open(of: &Place, events: &[Envelope], at: Seq) -> anyhow::Result<Box<OpenSession>> {
    let state = fold(events.iter().filter(|event| event.seq <= at));
    let origin = state.origin.context("the session has no beginning")?;
    let spill = of.store.join("spill");
    let mut workspace = Workspace::new(&origin.directory, &origin.worktree, spill);
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

/// Has its Session write the fork, and then waits for the files. Gives what became of these.
async fn write(
    node: &ActorRef<NodeMessage>,
    open: Box<OpenSession>,
    at: Seq,
    paths: Option<Vec<Saved>>,
) -> anyhow::Result<Option<String>> {
    let session = open.session;
    let mut opened = ractor::call!(node, |reply| NodeMessage::Open { open, reply })
        .context("the node has died")??;
    let (sender, mut outcomes) = mpsc::unbounded_channel();
    let sink = Listener::start(move |Observation { events, done }| {
        for event in events.iter() {
            if let Event::Files(event) = &event.event {
                // whoever waited may have gone
                let _ = sender.send(event.clone());
            }
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
        message: SessionMessage::Begin { facts, reply_to },
    });
    match begun {
        Ok(Answered::Accepted) => {}
        Ok(Answered::NotOpen | Answered::Already { .. }) => {
            bail!("there is a session {session} already")
        }
        Err(_) => bail!(closed(&mut opened).await),
    }
    if !restores {
        return Ok(paths.map(|_| "the files are as they were there".to_owned()));
    }
    let restored = tokio::select! {
        restored = restored(&mut outcomes) => restored,
        why = closed(&mut opened) => Err(anyhow::anyhow!(why)),
    };
    let done = restored
        .with_context(|| format!("the fork {session} is made, and the files are as they were"))?;
    Ok(Some(format!("{done}; `leftfold unrevert {session}` takes that back")))
}

/// The files that were put back, for people.
async fn restored(outcomes: &mut mpsc::UnboundedReceiver<Files>) -> anyhow::Result<String> {
    while let Some(outcome) = outcomes.recv().await {
        match outcome {
            Files::Restored { files, .. } => {
                return Ok(file_changes::sum(&Figures::of(files.iter())));
            }
            Files::RestoreFailed { message } | Files::SnapshotFailed { message } => bail!(message),
            Files::SnapshotStarted {}
            | Files::Snapshotted { .. }
            | Files::RevertAsked { .. }
            | Files::UnrevertAsked { .. }
            | Files::RestoreStarted { .. }
            | Files::CheckoutAsked { .. } => {}
        }
    }
    bail!("the node has died")
}
