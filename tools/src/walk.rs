//! The files below a folder, as `glob` and `grep` see them.
//!
//! Left out is what `.gitignore`, `.ignore`, git's own exclude files say, and `.git`. Hidden files
//! are there. In a repository its ignore files count as git has it; elsewhere `.gitignore` counts
//! too (a project is one before its first commit), those of parent folders only when a part of the
//! worktree is searched: a stray one in the home folder must not hide whole projects. A folder that
//! was asked for by name is searched even if it is ignored. Links to folders are not followed.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use crate::{Context, Error, Output, Workspace, paths, text};

/// Bytes of a message that quotes a pattern.
const MAX_PROBLEM: usize = 2_000;

/// Something that was there and could not be looked at.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// Runs a search on threads that may block. When it is cancelled the answer comes at once, and the
/// search notices soon after.
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

/// Calls a visitor for every entry below `root` that is no folder, on as many threads as there are
/// processors (12 at most) with a visitor each. Answers how many entries could not be read.
///
/// # Errors
/// Cancelled, which is noticed at the next entry.
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
    builder(root, cx)?.build_parallel().run(|| {
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

/// Files come and go while others are looked at.
fn vanished(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn builder(root: &Path, cx: &Workspace) -> Result<WalkBuilder, Error> {
    let worktree = paths::real(&cx.worktree)?;
    let repository = root.ancestors().any(|folder| folder.join(".git").exists());
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .require_git(repository)
        .parents(repository || root != worktree)
        // what the user's global ignore file says is said of the project, wherever the node runs
        .current_dir(if root.starts_with(&worktree) { &worktree } else { root })
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    Ok(builder)
}

/// A path on one line, whatever is in its name.
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

/// The error for an argument of `tool` that says nothing a search could do.
pub(crate) fn invalid(tool: &'static str, field: &str, problem: String) -> Error {
    let problem = format!("`{field}`: {}", text::clip(problem, MAX_PROBLEM));
    Error::InvalidArguments { tool, problem }
}

/// A sentence on what could not be looked at, for the end of an output; empty if there is nothing.
pub(crate) fn unreadable_note(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "\n(1 file or folder could not be read.)".to_owned(),
        _ => format!("\n({count} files or folders could not be read.)"),
    }
}
