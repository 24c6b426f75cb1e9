//! Takes snapshots of the project's files, and restores them. git does the work, which may block,
//! so it runs beside the actor.

use std::sync::Arc;

use leftfold_events::event::{Files, FilesFailure, Saved};
use leftfold_events::{Fact, Seq};
use leftfold_snapshots::{Error, Snapshot, Snapshots as Store};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio_util::sync::CancellationToken;

use crate::messages::{SessionMessage, SnapshotsMessage};
use crate::report::tell;
use crate::tasks::Tasks;
use crate::world::{Recording, World};

pub(crate) struct Snapshots;

pub(crate) struct Keeping {
    owner: ActorRef<SessionMessage>,
    store: Option<Arc<Store>>,
    /// Gives the outcomes in a rerun, instead of the files.
    recording: Option<Arc<dyn Recording>>,
    taking: CancellationToken,
    tasks: Tasks,
}

impl Actor for Snapshots {
    type Msg = SnapshotsMessage;
    type State = Keeping;
    type Arguments = (ActorRef<SessionMessage>, World);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (owner, world): Self::Arguments,
    ) -> Result<Keeping, ActorProcessingErr> {
        let World { workspace, recording, .. } = world;
        let home = workspace.user_folders.home.as_deref();
        let data = workspace.data.as_deref();
        let store = data.map(|data| Arc::new(Store::of_project(data, &workspace.worktree, home)));
        Ok(Keeping {
            owner,
            store,
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
        self.work(of, failed, move |store| {
            let taken = store.ok_or_else(nowhere)?.take(since.as_deref(), &stop);
            let Snapshot { tree, files, left_out } = taken.map_err(|error| Failure::of(&error))?;
            Ok(Files::Snapshotted { tree, files, left_out })
        });
    }

    /// A restore is never aborted: half of it is worse than all or nothing.
    fn restore(&mut self, of: Seq, before: String, paths: Vec<Saved>) {
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
        let (owner, store) = (self.owner.clone(), self.store.clone());
        let report = move |done: Option<Files>| {
            let event = done.unwrap_or_else(|| failed(Failure::internal("it failed unexpectedly")));
            tell(&owner, vec![Fact::of(of, event)]);
        };
        if let Some(recording) = self.recording.clone() {
            self.tasks.spawn(async move { recording.files(of).await }, report);
            return;
        }
        let tidied = store.clone();
        let work = move || {
            work(store.as_deref()).unwrap_or_else(|failure| {
                tracing::warn!("files: {}", failure.message);
                failed(failure)
            })
        };
        self.tasks.spawn_blocking(work, move |done| {
            report(done);
            tidied.map(|store| store.tidy());
        });
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
        let class = match error {
            Error::NoGit => FilesFailure::NoGit,
            Error::NoProject(_) => FilesFailure::NoProject,
            Error::TooMany(_) => FilesFailure::TooManyFiles,
            Error::TooLarge(_) => FilesFailure::TooLarge,
            Error::Io { .. } => FilesFailure::Io,
            Error::Git { .. } => FilesFailure::Git,
            Error::Path { .. } => FilesFailure::Path,
            Error::Cancelled => FilesFailure::Cancelled,
        };
        Self { class, message: error.to_string() }
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
    Fact::of(of, if restoring { not_restored(failure) } else { failed(failure) })
}

fn failed(Failure { class, message }: Failure) -> Files {
    Files::SnapshotFailedAs { class, message }
}

fn not_restored(Failure { class, message }: Failure) -> Files {
    Files::RestoreFailedAs { class, message }
}
