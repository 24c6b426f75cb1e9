//! Restores files from a tree.
//!
//! Invariant: a restore only overwrites or deletes content that the snapshot taken before it holds.
//! So every restore can be undone, and is undone if it fails half-way.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use leftfold_events::event::Saved;
use leftfold_files::IgnoreFiles;
use tokio_util::sync::CancellationToken;

use super::git::{Contents, Git};
use super::stamp::Mode;
use super::{Error, LARGEST, Snapshot, Snapshots};

type Tree = HashMap<String, (Mode, String)>;

/// The target state of one file.
struct FileRestore<'a> {
    path: &'a str,
    /// `None`: the file is to be deleted.
    content: Option<(Mode, &'a str)>,
}

impl Snapshots {
    /// Restores each path from its tree, and deletes paths that their tree does not have. `before`
    /// is the tree of the files when the restore was first asked for; the result lists the changes
    /// against it. Restoring twice does no harm.
    ///
    /// # Errors
    /// A tree is missing, or a file cannot be written. The files are then as in `before`.
    pub fn restore(
        &self,
        before: &str,
        paths: &[Saved],
        stop: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        if paths.is_empty() {
            let (files, left_out) = (Vec::new(), Vec::new());
            return Ok(Snapshot { tree: before.to_owned(), files, left_out });
        }
        let _lock = self.lock(stop)?;
        let git = Git::new(&self.folder);
        let mut trees = HashMap::new();
        for tree in paths.iter().map(|saved| saved.tree.as_str()).chain([before]) {
            if !trees.contains_key(tree) {
                trees.insert(tree, git.list(tree)?);
            }
        }
        let held = trees.get(before).cloned().unwrap_or_default();
        let task = |saved: &'_ Saved| {
            let found = trees.get(saved.tree.as_str()).and_then(|tree| tree.get(&saved.path));
            found.map(|(mode, object)| (*mode, object.as_str()))
        };
        let tasks: Vec<FileRestore<'_>> = paths
            .iter()
            .map(|saved| FileRestore { path: &saved.path, content: task(saved) })
            .collect();
        let mut contents = git.contents()?;
        let done = self.perform(&tasks, &held, &mut contents);
        if let Err(error) = done {
            let undo = paths.iter().map(|saved| {
                let was = held.get(&saved.path);
                FileRestore {
                    path: &saved.path,
                    content: was.map(|(mode, object)| (*mode, object.as_str())),
                }
            });
            let undo: Vec<FileRestore<'_>> = undo.collect();
            if let Err(worse) = self.perform(&undo, &held, &mut contents) {
                tracing::warn!("the files could not be restored either: {worse}");
            }
            return Err(error);
        }
        drop(contents);
        self.take_locked(Some(before), stop)
    }

    fn perform(
        &self,
        tasks: &[FileRestore<'_>],
        held: &Tree,
        contents: &mut Contents,
    ) -> Result<(), Error> {
        let rules = |task: &&FileRestore<'_>| Path::new(task.path).ends_with(".gitignore");
        // ignore files first: they decide which files may be deleted
        for task in tasks.iter().filter(rules) {
            if let Some((mode, object)) = task.content {
                self.write(task.path, mode, &contents.for_object(object)?)?;
            }
        }
        let mut to_delete: Vec<&FileRestore<'_>> =
            tasks.iter().filter(|t| t.content.is_none()).collect();
        if tasks.iter().any(|task| rules(&task)) {
            let is_ignored = |path| IgnoreFiles::of_worktree(&self.worktree).is_ignored(path);
            to_delete.retain(|task| rules(task) || !is_ignored(task.path));
        }
        for task in to_delete.iter().filter(|task| held.contains_key(task.path)) {
            self.delete(task.path)?;
        }
        for task in tasks.iter().filter(|task| !rules(task)) {
            if let Some((mode, object)) = task.content {
                self.write(task.path, mode, &contents.for_object(object)?)?;
            }
        }
        Ok(())
    }

    /// The place of a path, if it lies in the worktree and no link leads out of it.
    fn checked_path(&self, path: &str) -> Result<PathBuf, Error> {
        let refused = |why| Error::Path { path: path.to_owned(), why };
        let mut place = self.worktree.clone();
        let mut parts = Path::new(path).components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                return Err(refused("it is outside the worktree"));
            };
            if name == ".git" {
                return Err(refused("it belongs to a git repository"));
            }
            place.push(name);
            let is_link = || fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink());
            if parts.peek().is_some() && is_link() {
                return Err(refused("a folder in its path has become a link"));
            }
        }
        Ok(place)
    }

    /// Deletes a file and the folders that become empty.
    fn delete(&self, path: &str) -> Result<(), Error> {
        let place = self.checked_path(path)?;
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() || found.len() > LARGEST => return Ok(()),
            Ok(_) => fs::remove_file(&place).map_err(Error::io("delete", &place))?,
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Error::io("look at", &place)(error)),
        }
        let parents = place.ancestors().skip(1).take_while(|parent| *parent != self.worktree);
        for parent in parents {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, mode: Mode, content: &[u8]) -> Result<(), Error> {
        let place = self.checked_path(path)?;
        let found = fs::symlink_metadata(&place).ok();
        if found.as_ref().is_some_and(|found| found.is_file() && found.len() > LARGEST) {
            return Ok(());
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        }
        let permissions = found.filter(fs::Metadata::is_file).map(|found| found.permissions());
        // a fixed name: a repeated restore after a crash overwrites what the crash left
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let beside = place.with_file_name(format!(".{name}.leftfold"));
        let _ = fs::remove_file(&beside);
        let made = make(&beside, mode, content, permissions);
        let put = made.and_then(|()| fs::rename(&beside, &place));
        put.inspect_err(|_| {
            // a leftover temporary file does no harm
            let _ = fs::remove_file(&beside);
        })
        .map_err(Error::io("write", &place))
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Creates a file with the content for `path`, which has or had `permissions`.
fn make(
    beside: &Path,
    mode: Mode,
    content: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<()> {
    if mode == Mode::Link {
        return symlink(std::ffi::OsString::from_vec(content.to_vec()), beside);
    }
    let wanted = if mode == Mode::Executable { 0o777 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(wanted).open(beside)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        let plain = permissions.mode() & 0o7666;
        let run = if mode == Mode::Executable { (plain & 0o444) >> 2 } else { 0 };
        file.set_permissions(Permissions::from_mode(plain | run))?;
    }
    Ok(())
}
