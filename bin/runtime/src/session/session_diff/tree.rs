//! The changes of the working tree, whoever made them: since the last commit or, without a repository, since the
//! session's first snapshot.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use leftfold_events::event::{Event, FileChange, Files};
use leftfold_events::state::Origin;
use leftfold_events::{Envelope, SessionId, fold};
use leftfold_snapshots::{FileMode, Snapshots, Version};
use leftfold_store::Reader;
use tokio_util::sync::CancellationToken;

use super::changed_file::{self, Content, Pair, Side};
use super::kept::Kept;
use super::steps::LoggedDiff;
use super::{Chains, Reading, SessionDiff, learn_secrets};
use crate::session_paths::{self, SessionPlace};
use crate::working_tree::{self, ChangedPath, TreeDiff};
use crate::{Usage, project};

/// Untracked files whose contents are shown. Of the others only the names are.
const WHOLE: usize = 200;

impl SessionDiff {
    /// The changes of the project's files to the last commit. Without a repository they are compared with the first
    /// snapshot of the session, which may have no log yet.
    ///
    /// # Errors
    /// [`Usage`]: there is neither. Git is missing, or the changes are too large to read.
    pub async fn of_tree(place: &SessionPlace, directory: &Path) -> anyhow::Result<Self> {
        learn_secrets(directory)?;
        let worktree = leftfold_config::worktree_of(directory);
        if working_tree::is_repository(&worktree) {
            let found = working_tree::diff(&worktree).await?;
            return Ok(of_repository(place.session, &worktree, found));
        }
        let place = place.clone();
        tokio::task::spawn_blocking(move || since_first_snapshot(&place))
            .await
            .context("it was cut off")?
    }

    fn empty(session: SessionId) -> Self {
        Self { session, files: Vec::new(), notes: Vec::new(), gaps: Vec::new() }
    }
}

fn of_repository(session: SessionId, worktree: &Path, found: TreeDiff) -> SessionDiff {
    let TreeDiff { changed, unified, untracked } = found;
    let mut diff = SessionDiff::empty(session);
    diff.notes.push("compared with the last commit".to_owned());
    diff.files = changed_file::logged(&LoggedDiff { text: unified, cut: false });
    // files that are no text, or of which only the mode has changed
    let shown: HashSet<String> = diff.files.iter().map(|file| file.path.clone()).collect();
    let others = changed.iter().filter(|file| !shown.contains(&file.path));
    diff.files.extend(others.map(|file| changed_file::counted(&counts(file), NOT_TEXT)));
    for (n, path) in untracked.into_iter().enumerate() {
        let bytes = if n < WHOLE { working_tree::start_of(worktree, &path) } else { None };
        let content = bytes.map_or(Content::Gone, Content::from_bytes);
        let version = Version { mode: FileMode::File, object: String::new() };
        let after = Some(Side { version, content });
        diff.files.push(Pair { path, from: None, before: None, after }.into_change());
    }
    diff.files.sort_by(|a, b| a.path.cmp(&b.path));
    diff
}

const NOT_TEXT: &str = "Not shown: it is no text, or only its mode has changed.";

fn counts(file: &ChangedPath) -> FileChange {
    use leftfold_events::event::Change;
    FileChange {
        path: file.path.clone(),
        change: match file.status {
            "added" => Change::Added,
            "deleted" => Change::Deleted,
            _ => Change::Modified,
        },
        additions: file.added,
        deletions: file.removed,
    }
}

/// Takes a snapshot, and compares it with the session's first one.
fn since_first_snapshot(place: &SessionPlace) -> anyhow::Result<SessionDiff> {
    let none = || {
        Usage(
            "the project is no git repository, and the session has no snapshot yet to compare its \
             files with"
                .to_owned(),
        )
    };
    let heads = leftfold_store::heads(&place.store)?;
    let events = match heads.iter().any(|head| head.session == place.session) {
        true => Reader::open(&place.store)?.read(place.session, 1)?,
        false => Vec::new(),
    };
    let imported = leftfold_store::imported(&place.store, &events)?;
    // those that an imported log names may be anybody's
    let tree = |event: &Envelope| {
        let Event::Files(Files::Snapshotted { tree, .. }) = &event.event else { return None };
        (event.seq > imported).then(|| (event.seq, tree.clone()))
    };
    let (seq, first) = events.iter().find_map(tree).ok_or_else(none)?;
    let state = fold(&events);
    if let Some(name) = &state.config.options.executor {
        let why = format!(
            "the files are beside the executor `{name}`: only the changes of the session are known"
        );
        return Err(Usage(why).into());
    }
    let origin = state.origin.context("the session has no beginning")?;
    let snapshots = of_project(&origin, imported)?;
    let now = snapshots.take(None, &CancellationToken::new())?.tree;
    let mut reading = Reading {
        diff: SessionDiff::empty(place.session),
        read: &|_| Ok(Vec::new()),
        seen: HashSet::new(),
    };
    reading.diff.notes.push(format!("compared with the session's first snapshot, event {seq}"));
    match snapshots.compare(&[(&first, &now)])?.pop().flatten() {
        Some(files) => {
            let ends = files.into_iter().map(|file| (file.path, vec![(file.before, file.after)]));
            reading.snapshotted(Chains(ends.collect()), &Kept::Here(snapshots));
        }
        None if first == now => {}
        None => reading.diff.gaps.push("the session's first snapshot is not kept any more".into()),
    }
    Ok(reading.diff)
}

/// The snapshots of the project, which are not taken of a home folder.
fn of_project(origin: &Origin, imported: u64) -> anyhow::Result<Snapshots> {
    let worktree = Path::new(&origin.worktree).to_owned();
    let worktree = project::worktree(Path::new(&origin.directory), worktree, imported);
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    Ok(Snapshots::of_project(&session_paths::data_dir()?, &worktree, home.as_deref()))
}
