//! Walks the files below a folder for `glob` and `grep`.
//!
//! - Skips files ignored by `.gitignore`, `.ignore` and git's own exclude files, and `.git`. Hidden
//!   files are included.
//! - In a repository, ignore files apply as in git. Elsewhere `.gitignore` applies too, because a
//!   project may have no commit yet. Those of parent folders then apply only when a part of the
//!   worktree is searched: a stray one in the home folder must not hide whole projects.
//! - Skips Leftfold's data folder, with its keys, approvals and logs of other sessions.
//! - A folder that the call names is searched even if it is ignored.
//! - Links to folders are not followed.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use crate::{Context, Error, Output, Workspace, paths, text};

/// Most bytes of a message that quotes a pattern.
const MAX_PROBLEM: usize = 2_000;

/// Threads of one walk.
const MAX_THREADS: usize = 12;

/// An entry that exists and could not be read.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// Runs a search on threads that may block. After a cancellation it returns at once, and the search
/// stops soon after.
pub(crate) async fn cancellable(
    cx: Context,
    search: impl FnOnce(&Context) -> Result<Output, Error> + Send + 'static,
) -> Result<Output, Error> {
    let cancel = cx.cancel.clone();
    let searching = tokio::task::spawn_blocking(move || search(&cx));
    tokio::select! {
        () = cancel.cancelled() => Err(Error::Cancelled),
        done = searching => {
            done.map_err(|error| Error::Io(format!("The search failed: {error}.")))?
        }
    }
}

/// Calls a visitor for every entry below `root` that is not a folder, on as many threads as there
/// are processors (at most 12), each with its own visitor. Returns how many entries could not be
/// read.
///
/// # Errors
/// Cancelled. The walk notices it at the next entry.
pub(crate) fn entries<V>(
    root: &Path,
    cx: &Workspace,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V,
) -> Result<usize, Error>
where
    V: FnMut(&DirEntry) -> Result<(), Unreadable> + Send,
{
    let unreadable = AtomicUsize::new(0);
    // the walk would wait for ever for a thread that does not start
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    leftfold_process::can_start(threads).map_err(|error| Error::Process(error.to_string()))?;
    builder(root, cx)?.threads(threads).build_parallel().run(|| {
        let mut visit = visitor();
        let unreadable = &unreadable;
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let visited = match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_dir()) => Ok(()),
                Ok(entry) => visit(&entry),
                Err(error) if vanished(&error) => Ok(()),
                Err(_) => Err(Unreadable),
            };
            if visited.is_err() {
                unreadable.fetch_add(1, Ordering::Relaxed);
            }
            WalkState::Continue
        })
    });
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(unreadable.into_inner()) }
}

/// Whether the entry has vanished: files come and go during a walk.
fn vanished(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn builder(root: &Path, cx: &Workspace) -> Result<WalkBuilder, Error> {
    let worktree = paths::real(&cx.worktree)?;
    let data = cx.data.as_deref().and_then(|data| paths::real(data).ok());
    let repository = root.ancestors().any(|folder| folder.join(".git").exists());
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .require_git(repository)
        .parents(repository || root != worktree)
        // the user's global ignore file applies to the project, wherever the node runs
        .current_dir(if root.starts_with(&worktree) { &worktree } else { root })
        .filter_entry(move |entry| {
            let is_left_out =
                || entry.file_name() == ".git" || data.as_deref() == Some(entry.path());
            entry.depth() == 0 || !is_left_out()
        });
    Ok(builder)
}

/// A path on one line, with unusual characters escaped.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    let escaped = |c: char| {
        if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
    };
    text.chars().map(escaped).collect()
}

/// The error for an argument of `tool` that a search cannot use.
pub(crate) fn invalid(tool: &'static str, field: &str, problem: String) -> Error {
    let problem = format!("`{field}`: {}", text::clip(problem, MAX_PROBLEM));
    Error::InvalidArguments { tool, problem }
}

/// A sentence about unreadable entries for the end of an output. Empty if there are none.
pub(crate) fn unreadable_note(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "\n(1 file or folder could not be read.)".to_owned(),
        _ => format!("\n({count} files or folders could not be read.)"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn the_data_folder_is_left_out_unless_it_is_the_root() {
        let site = Site::new();
        site.file("a.rs", "");
        site.file("share/leftfold/auth.json", "");
        site.file("share/leftfold/sessions/S/db", "");
        let mut workspace = site.workspace();
        workspace.data = Some(site.path("share/leftfold"));
        for (root, expected) in [
            ("", &["a.rs"][..]),
            ("share", &[]),
            ("share/leftfold", &["auth.json", "db"]),
            ("share/leftfold/sessions", &["db"]),
        ] {
            let found = Mutex::new(Vec::new());
            let root = paths::real(&site.path(root)).unwrap();
            let visit = || {
                |entry: &DirEntry| {
                    found.lock().unwrap().push(entry.file_name().to_string_lossy().into_owned());
                    Ok(())
                }
            };
            entries(&root, &workspace, &CancellationToken::new(), visit).unwrap();
            let mut found = found.into_inner().unwrap();
            found.sort();
            assert_eq!(found, expected, "{}", root.display());
        }
    }
}
