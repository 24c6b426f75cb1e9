//! Walks the files below a folder for `glob` and `grep`.
//!
//! - Skips what ignore files leave out, and `.git`, as [`leftfold_files::walk`] says. An ignore file
//!   that is no regular file, is too large or leads out of the project has no effect, which the
//!   search says.
//! - Skips secret places: keys, and Leftfold's data folder with its approvals and logs of other sessions.
//! - A folder that the call names is searched even if it is ignored. So are the file and the folder that a pattern names, if
//!   it selects nothing else.
//! - Links to folders are not followed.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::{DirEntry, WalkState};
use tokio_util::sync::CancellationToken;

use crate::pattern::Pattern;
use crate::protected::ProtectedPlaces;
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

/// The entries that a walk could not use.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// The number of entries that could not be read.
    unreadable: usize,
    /// Ignore files without effect, each with the reason.
    ignore_files: Vec<(PathBuf, String)>,
    /// Whether ignore files have left out something.
    has_ignored: bool,
}

/// Calls a visitor for every entry below `root` that is not a folder and that `pattern` selects, on as many threads as there
/// are processors (at most 12), each with its own visitor. Returns what it could not use.
///
/// # Errors
/// Cancelled. The walk notices it at the next entry.
pub(crate) fn entries<V>(
    root: &Path,
    pattern: Option<&Pattern>,
    cx: &Workspace,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V,
) -> Result<Left, Error>
where
    V: FnMut(&DirEntry) -> Result<(), Unreadable> + Send,
{
    let is_chosen = |path: &Path| {
        path.strip_prefix(root)
            .is_ok_and(|path| pattern.is_none_or(|pattern| pattern.matches(path)))
    };
    let chosen = AtomicUsize::new(0);
    let choosing = || {
        let mut visit = visitor();
        let (is_chosen, chosen) = (&is_chosen, &chosen);
        move |entry: &DirEntry| {
            if !is_chosen(entry.path()) {
                return Ok(());
            }
            chosen.fetch_add(1, Ordering::Relaxed);
            visit(entry)
        }
    };
    let mut left = all_entries(root, cx, cancel, choosing)?;
    if let Some(pattern) =
        pattern.filter(|_| left.has_ignored && chosen.load(Ordering::Relaxed) == 0)
    {
        let places = ProtectedPlaces::for_workspace(cx);
        let is_open = |path: &PathBuf| {
            let mut above = path.ancestors().take_while(|path| *path != root);
            !above.any(|path| places.is_skipped(path))
        };
        for named in pattern.named(root).into_iter().filter(is_open) {
            left.unreadable += all_entries(&named, cx, cancel, choosing)?.unreadable;
        }
    }
    Ok(left)
}

fn all_entries<V>(
    root: &Path,
    cx: &Workspace,
    cancel: &CancellationToken,
    visitor: impl Fn() -> V,
) -> Result<Left, Error>
where
    V: FnMut(&DirEntry) -> Result<(), Unreadable> + Send,
{
    let unreadable = AtomicUsize::new(0);
    // the walk would wait for ever for a thread that does not start
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    leftfold_process::can_start(threads).map_err(|error| Error::Process(error.to_string()))?;
    let places = ProtectedPlaces::for_workspace(cx);
    let is_secret = move |entry: &DirEntry| places.is_skipped(entry.path());
    let (mut walk, files) = leftfold_files::walk(root, &paths::real(&cx.worktree)?, is_secret);
    walk.threads(threads).build_parallel().run(|| {
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
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    Ok(Left {
        unreadable: unreadable.into_inner(),
        ignore_files: files.unread(),
        has_ignored: files.has_ignored(),
    })
}

/// Whether the entry has vanished: files come and go during a walk.
fn vanished(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
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

impl Left {
    /// A sentence for a search that has found nothing, with a line end. Empty if no file was ignored.
    pub(crate) fn about_ignored(&self) -> &'static str {
        match self.has_ignored {
            true => {
                "(Files that .gitignore or .ignore exclude were left out. To search them, name their folder in path.)\n"
            }
            false => "",
        }
    }

    /// Sentences for the end of an output. Empty if everything could be used.
    pub(crate) fn note(&self) -> String {
        let mut note = match self.unreadable {
            0 => String::new(),
            1 => "\n(1 file or folder could not be read.)".to_owned(),
            count => format!("\n({count} files or folders could not be read.)"),
        };
        if let [(path, why), rest @ ..] = self.ignore_files.as_slice() {
            let more = if rest.is_empty() { "" } else { " The same goes for others." };
            note += &format!("\n({} {why}: its rules do not apply.{more})", shown(path));
        }
        note
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
            entries(&root, None, &workspace, &CancellationToken::new(), visit).unwrap();
            let mut found = found.into_inner().unwrap();
            found.sort();
            assert_eq!(found, expected, "{}", root.display());
        }
    }
}
