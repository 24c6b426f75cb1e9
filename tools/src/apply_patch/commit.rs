//! Writes several files as one change: all, or none if anything fails.
//!
//! First every new text is written beside its place. A full disk or a forbidden folder shows there,
//! before any file has changed. Then renames put the texts in place. The old file stays beside it
//! under another name until the last rename is done, so an undo needs no disk space.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, linkat, renameat, unlinkat};

use crate::{Error, confined};

/// Most files that are written at once.
const THREADS: usize = 8;

/// New content for a path, or the removal of a path.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) path: &'a Path,
    /// The file that exists at the path now.
    pub(super) before: Option<&'a Metadata>,
    /// `None` removes the file.
    pub(super) bytes: Option<&'a [u8]>,
    /// The file whose mode the new file gets.
    pub(super) mode_of: Option<&'a Metadata>,
}

/// A path's folder, held open, and file names in it.
struct Staged {
    path: PathBuf,
    folder: OwnedFd,
    name: OsString,
    /// Name of the new text. `None` if the file is to be removed.
    new: Option<String>,
    before: Option<Metadata>,
    /// Whether the step was taken, and the name that the old file has now.
    done: Option<Option<String>>,
}

/// All new texts, written beside their places. Dropping the value removes what is left of them.
pub(super) struct Stage {
    steps: Vec<Staged>,
    /// Folders created for new files, outermost first.
    folders: Vec<PathBuf>,
    /// The new files, by their target paths.
    written: Vec<(PathBuf, Metadata)>,
    kept: bool,
}

impl Stage {
    /// # Errors
    /// [`Error::NotWritten`]: nothing has changed.
    pub(super) fn new(writes: &[Write<'_>]) -> Result<Self, Error> {
        let mut stage =
            Self { steps: Vec::new(), folders: Vec::new(), written: Vec::new(), kept: false };
        let prepared = writes.iter().try_for_each(|write| stage.add(write));
        prepared.and_then(|()| stage.write(writes)).map_err(|error| {
            Error::NotWritten(format!("{error} None of the files was changed."))
        })?;
        // removals come last
        stage.steps.sort_by_key(|step| step.new.is_none());
        Ok(stage)
    }

    fn add(&mut self, write: &Write<'_>) -> Result<(), Error> {
        let failed = |error: io::Error| Error::io("write", write.path, &error);
        let (Some(parent), Some(name)) = (write.path.parent(), write.path.file_name()) else {
            return Err(Error::IsDirectory(format!("{} is a directory.", write.path.display())));
        };
        if write.bytes.is_some() {
            self.create(parent).map_err(failed)?;
        }
        self.steps.push(Staged {
            path: write.path.to_owned(),
            folder: confined::folder(parent).map_err(failed)?,
            name: name.to_owned(),
            new: write.bytes.map(|_| unused_name()),
            before: write.before.cloned(),
            done: None,
        });
        Ok(())
    }

    /// Writes the new texts on several threads: a disk flushes several files in hardly more time
    /// than one.
    fn write(&mut self, writes: &[Write<'_>]) -> Result<(), Error> {
        let tasks = Mutex::new(self.steps.iter().zip(writes).enumerate());
        let results = Mutex::new(BTreeMap::new());
        let work = || {
            loop {
                let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, (step, write))) = task else { break };
                let written = step.write(write);
                results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, written);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..writes.len().min(THREADS) {
                // a thread that does not start leaves its work to the others
                let thread = std::thread::Builder::new().name("leftfold-write".into());
                let _ = thread.spawn_scoped(scope, work);
            }
            work();
        });
        for result in results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
            self.written.extend(result?);
        }
        Ok(())
    }

    fn create(&mut self, folder: &Path) -> io::Result<()> {
        confined::make_folder(folder, &mut self.folders).map(drop)
    }

    /// Puts all files in place. Returns the files written.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if every file is unchanged, [`Error::HalfWritten`] if an undo failed.
    pub(super) fn commit(mut self) -> Result<Vec<(PathBuf, Metadata)>, Error> {
        while self.step()? {}
        self.kept = true;
        for step in &self.steps {
            if let Some(Some(old)) = &step.done {
                step.unlink(old);
            }
        }
        Ok(std::mem::take(&mut self.written))
    }

    /// Takes the next step, if there is one. If it fails, all earlier steps are undone.
    pub(super) fn step(&mut self) -> Result<bool, Error> {
        let Some(step) = self.steps.iter_mut().find(|step| step.done.is_none()) else {
            return Ok(false);
        };
        let taken = step.take().map_err(|error| Error::io("write", &step.path, &error));
        taken.map(|()| true).map_err(|error| self.undo(&error))
    }

    fn undo(&mut self, error: &Error) -> Error {
        let mut left = Vec::new();
        for step in self.steps.iter_mut().rev() {
            if let Err(error) = step.put_back() {
                left.push(step.state(&error));
            }
        }
        if left.is_empty() {
            let text = "The changes made before were undone; all files are unchanged.";
            return Error::NotWritten(format!("{error} {text}"));
        }
        Error::HalfWritten(format!(
            "{error} Some changes made before could not be undone:\n{}\nAll other files are unchanged.",
            left.join("\n")
        ))
    }
}

/// Removes files and folders that are no longer needed. Ignores errors.
impl Drop for Stage {
    fn drop(&mut self) {
        for step in &self.steps {
            if let (Some(new), None) = (&step.new, &step.done) {
                step.unlink(new);
            }
        }
        if !self.kept {
            for folder in self.folders.iter().rev() {
                // a folder that another program has put something into stays
                let _ = std::fs::remove_dir(folder);
            }
        }
    }
}

impl Staged {
    /// Writes the new text, if there is one, beside its place.
    fn write(&self, write: &Write<'_>) -> Result<Option<(PathBuf, Metadata)>, Error> {
        let (Some(new), Some(bytes)) = (&self.new, write.bytes) else { return Ok(None) };
        let beside = self.path.with_file_name(new);
        let written = confined::replace(&beside, None, bytes)
            .map_err(|error| not_beside(&error, &beside, &self.path))?;
        if let Some(found) = write.mode_of {
            let (file, _) = confined::open_found(&beside)?;
            let set = file.set_permissions(found.permissions());
            set.map_err(|error| Error::io("write", &self.path, &error))?;
        }
        Ok(Some((self.path.clone(), written)))
    }

    fn take(&mut self) -> io::Result<()> {
        let old = unused_name();
        match (&self.new, &self.before) {
            (Some(new), None) => self.place(new)?,
            (None, _) => {
                self.unchanged()?;
                self.rename(&self.name, &old)?;
            }
            (Some(new), Some(_)) => {
                self.unchanged()?;
                self.replace(new, &old)?;
            }
        }
        self.done = Some(self.before.is_some().then_some(old));
        Ok(())
    }

    /// Checks again for changes: other programs ignore our locks.
    fn unchanged(&self) -> io::Result<()> {
        let known = |found: &Metadata| {
            (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec())
        };
        let found = std::fs::symlink_metadata(&self.path)?;
        if self.before.as_ref().is_some_and(|before| known(before) == known(&found)) {
            return Ok(());
        }
        Err(io::Error::other("another program has just changed it"))
    }

    fn replace(&self, new: &str, old: &str) -> io::Result<()> {
        self.set_aside(old)?;
        let replaced = self.rename(new, &self.name);
        // a rename between two names of one file does nothing, so this works after either way of
        // setting aside
        if replaced.is_err() && self.rename(old, &self.name).is_ok() {
            self.unlink(old);
        }
        replaced
    }

    /// Gives the existing file a second name, or renames it where hard links do not exist.
    fn set_aside(&self, old: &str) -> io::Result<()> {
        match linkat(&self.folder, &self.name, &self.folder, old, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(_) => self.rename(&self.name, old),
        }
    }

    /// Moves the new file to its name, which must be free now.
    fn place(&self, new: &str) -> io::Result<()> {
        match linkat(&self.folder, new, &self.folder, &self.name, AtFlags::empty()) {
            Ok(()) => {
                self.unlink(new);
                Ok(())
            }
            Err(rustix::io::Errno::EXIST) => Err(rustix::io::Errno::EXIST.into()),
            // the file system has no hard links
            Err(_) => self.rename(new, &self.name),
        }
    }

    fn put_back(&mut self) -> io::Result<()> {
        match self.done.take() {
            None => Ok(()),
            Some(Some(old)) => {
                let back = self.rename(&old, &self.name);
                if back.is_err() {
                    self.done = Some(Some(old));
                }
                back
            }
            Some(None) => {
                let gone = unlinkat(&self.folder, &self.name, AtFlags::empty());
                // the staged name is gone, so only this remains to clean up
                self.new = None;
                Ok(gone?)
            }
        }
    }

    /// Describes the state of a path that could not be restored.
    fn state(&self, error: &io::Error) -> String {
        let path = self.path.display();
        match &self.done {
            Some(Some(old)) => {
                let old = self.path.with_file_name(old);
                format!("{path}: the old file is now {} ({error})", old.display())
            }
            Some(None) | None => format!("{path}: the new file is still there ({error})"),
        }
    }

    fn rename(&self, from: impl rustix::path::Arg, to: impl rustix::path::Arg) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    fn unlink(&self, name: &str) {
        // a failure leaves a temporary file behind; nothing more can be done
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

/// Rewords an error about the temporary file as an error about the target.
fn not_beside(error: &Error, beside: &Path, path: &Path) -> Error {
    let [beside, path] = [beside, path].map(|path| path.display().to_string());
    Error::NotWritten(error.to_string().replace(&beside, &path))
}

fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".leftfold-{}-{n}.patch", std::process::id())
}
