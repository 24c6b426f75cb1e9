//! Takes snapshots of the project's files, and restores them. git does the work, which may block,
//! so it runs beside the actor. An executor does it for files beside it.

use std::sync::Arc;

use leftfold_events::event::{Files, FilesFailure, Saved};
use leftfold_events::{Fact, Seq};
use leftfold_snapshots::{Error, Snapshot, Snapshots as Store};
use leftfold_tools::{RemoteFailure, RemoteSnapshot, RemoteWorkspace, SessionOwner};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::CancellationToken;

use crate::messages::{SessionMessage, SnapshotsMessage};
use crate::report::tell;
use crate::tasks::Tasks;
use crate::world::{Recording, World};

pub(crate) struct Snapshots;

/// Where the session's files are.
#[derive(Clone)]
enum SnapshotPlace {
    /// They are kept nowhere.
    Nowhere,
    Here(Arc<Store>),
    /// Beside an executor.
    There(Arc<dyn RemoteWorkspace>, SessionOwner),
}

pub(crate) struct Keeping {
    owner: ActorRef<SessionMessage>,
    place: SnapshotPlace,
    /// Gives the outcomes in a rerun, instead of the files.
    recording: Option<Arc<dyn Recording>>,
    taking: CancellationToken,
    tasks: Tasks,
}

impl Actor for Snapshots {
    type Msg = SnapshotsMessage;
    type State = Keeping;
    type Arguments = (ActorRef<SessionMessage>, World, SessionOwner);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (owner, world, right): Self::Arguments,
    ) -> Result<Keeping, ActorProcessingErr> {
        let World { workspace, recording, .. } = world;
        let home = workspace.user_folders.home.as_deref();
        let place = match (&workspace.remote, workspace.data.as_deref()) {
            (Some(remote), _) => SnapshotPlace::There(Arc::clone(remote), right),
            (None, Some(data)) => {
                SnapshotPlace::Here(Arc::new(Store::of_project(data, &workspace.worktree, home)))
            }
            (None, None) => SnapshotPlace::Nowhere,
        };
        Ok(Keeping {
            owner,
            place,
            recording,
            taking: CancellationToken::new(),
            tasks: Tasks::default(),
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: SnapshotsMessage,
        keeping: &mut Keeping,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SnapshotsMessage::Take { of, since } => keeping.take(of, since),
            SnapshotsMessage::Restore { of, before, paths } => keeping.restore(of, before, paths),
            SnapshotsMessage::Cancel => keeping.taking.cancel(),
        }
        Ok(())
    }
}

impl Keeping {
    fn take(&mut self, of: Seq, since: Option<String>) {
        self.taking.cancel();
        self.taking = CancellationToken::new();
        let stop = self.taking.clone();
        let taken = |snapshot| {
            let Snapshot { tree, files, left_out } = snapshot;
            Files::Snapshotted { tree, files, left_out }
        };
        if let SnapshotPlace::There(remote, right) = self.place.clone() {
            return self.work_there(of, failed, async move {
                tokio::select! {
                    asked = remote.snapshot(&right, since.as_deref()) => Ok(taken(there(asked)?)),
                    () = stop.cancelled() => Err(Failure::of(&Error::Cancelled)),
                }
            });
        }
        self.work(of, failed, move |store| {
            let snapshot = store.ok_or_else(nowhere)?.take(since.as_deref(), &stop);
            Ok(taken(snapshot.map_err(|error| Failure::of(&error))?))
        });
    }

    /// A restore is never aborted: half of it is worse than all or nothing.
    fn restore(&mut self, of: Seq, before: String, paths: Vec<Saved>) {
        if let SnapshotPlace::There(remote, right) = self.place.clone()
            && !paths.is_empty()
        {
            return self.work_there(of, not_restored, async move {
                let restored = there(remote.restore(&right, &before, &paths).await)?;
                Ok(Files::Restored { before, tree: restored.tree, files: restored.files })
            });
        }
        self.work(of, not_restored, move |store| {
            if paths.is_empty() {
                let tree = before.clone();
                return Ok(Files::Restored { before, tree, files: Vec::new() });
            }
            let store = store.ok_or_else(nowhere)?;
            let restored = store.restore(&before, &paths, &CancellationToken::new());
            let Snapshot { tree, files, .. } = restored.map_err(|error| Failure::of(&error))?;
            Ok(Files::Restored { before, tree, files })
        });
    }

    fn work(
        &mut self,
        of: Seq,
        failed: fn(Failure) -> Files,
        work: impl FnOnce(Option<&Store>) -> Result<Files, Failure> + Send + 'static,
    ) {
        let report = self.report(of, failed);
        if let Some(recording) = self.recording.clone() {
            self.tasks.spawn(async move { recording.files(of).await }, report);
            return;
        }
        let store = match &self.place {
            SnapshotPlace::Here(store) => Some(Arc::clone(store)),
            SnapshotPlace::There(..) | SnapshotPlace::Nowhere => None,
        };
        let tidied = store.clone();
        let work = move || done(work(store.as_deref()), failed);
        self.tasks.spawn_blocking(work, move |done| {
            report(done);
            tidied.map(|store| store.tidy());
        });
    }

    /// Lets an executor do it.
    fn work_there(
        &mut self,
        of: Seq,
        failed: fn(Failure) -> Files,
        work: impl Future<Output = Result<Files, Failure>> + Send + 'static,
    ) {
        let report = self.report(of, failed);
        let recording = self.recording.clone();
        let work = async move {
            match recording {
                Some(recording) => recording.files(of).await,
                None => done(work.await, failed),
            }
        };
        self.tasks.spawn(work, report);
    }

    /// Sends the session the outcome of the intent `of`.
    fn report(
        &self,
        of: Seq,
        failed: fn(Failure) -> Files,
    ) -> impl FnOnce(Option<Files>) + Send + 'static {
        let owner = self.owner.clone();
        move |done: Option<Files>| {
            let event = done.unwrap_or_else(|| failed(Failure::internal("it failed unexpectedly")));
            tell(&owner, vec![Fact::for_intent(of, event)]);
        }
    }
}

fn done(outcome: Result<Files, Failure>, failed: fn(Failure) -> Files) -> Files {
    outcome.unwrap_or_else(|failure| {
        tracing::warn!("files: {}", failure.message);
        failed(failure)
    })
}

/// The answer of an executor.
fn there(answer: Result<RemoteSnapshot, RemoteFailure>) -> Result<Snapshot, Failure> {
    match answer {
        Ok(RemoteSnapshot { tree, files, left_out }) => Ok(Snapshot { tree, files, left_out }),
        Err(RemoteFailure { class, message }) => Err(Failure { class, message }),
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.taking.cancel();
    }
}

/// Why a snapshot or a restore failed.
struct Failure {
    class: FilesFailure,
    message: String,
}

impl Failure {
    fn of(error: &Error) -> Self {
        Self { class: error.class(), message: error.to_string() }
    }

    fn internal(message: &str) -> Self {
        Self { class: FilesFailure::Internal, message: message.to_owned() }
    }
}

fn nowhere() -> Failure {
    let message = "there is no place for snapshots here".to_owned();
    Failure { class: FilesFailure::NoProject, message }
}

/// The outcome of an intent whose worker has died.
pub(crate) fn lost(of: Seq, restoring: bool) -> Fact {
    let failure = Failure::internal("the worker that keeps files died");
    Fact::for_intent(of, if restoring { not_restored(failure) } else { failed(failure) })
}

fn failed(Failure { class, message }: Failure) -> Files {
    Files::SnapshotFailedAs { class, message }
}

fn not_restored(Failure { class, message }: Failure) -> Files {
    Files::RestoreFailedAs { class, message }
}
