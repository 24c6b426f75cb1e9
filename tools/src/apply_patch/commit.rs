//! Several files written as one change: all or, should anything fail, none.
//!
//! First every new text is written beside its place, where a full disk or a forbidden folder shows
//! before anything has changed. Then they are put in place by renames. What was there is kept beside
//! it under another name until the last is done, so that putting back takes no space.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, linkat, renameat, unlinkat};

use crate::{Error, confined};

/// A text for a path, or a path that is to be free.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) path: &'a Path,
    /// What is there now.
    pub(super) before: Option<&'a Metadata>,
    /// `None` removes what is there.
    pub(super) text: Option<&'a str>,
    /// The file whose mode the new one gets.
    pub(super) mode_of: Option<&'a Metadata>,
}

/// A path's folder, held open, and names in it.
struct Staged {
    path: PathBuf,
    folder: OwnedFd,
    name: OsString,
    /// The new text; nothing if the file is to go.
    new: Option<String>,
    before: Option<Metadata>,
    /// Whether the step was taken, and where what had been there is now.
    done: Option<Option<String>>,
}

/// Everything written beside its place. Dropped, it leaves nothing behind.
pub(super) struct Stage {
    steps: Vec<Staged>,
    /// Created on the way, outermost first.
    folders: Vec<PathBuf>,
    /// The new files, by the paths they are for.
    written: Vec<(PathBuf, Metadata)>,
    kept: bool,
}

impl Stage {
    /// # Errors
    /// [`Error::NotWritten`]: nothing has changed.
    pub(super) fn new(writes: &[Write<'_>]) -> Result<Self, Error> {
        let mut stage =
            Self { steps: Vec::new(), folders: Vec::new(), written: Vec::new(), kept: false };
        for write in writes {
            stage.add(write).map_err(|error| {
                Error::NotWritten(format!("{error} None of the files was changed."))
            })?;
        }
        // what goes, goes last
        stage.steps.sort_by_key(|step| step.new.is_none());
        Ok(stage)
    }

    fn add(&mut self, write: &Write<'_>) -> Result<(), Error> {
        let failed = |error: io::Error| Error::io("write", write.path, &error);
        let (Some(parent), Some(name)) = (write.path.parent(), write.path.file_name()) else {
            return Err(Error::IsDirectory(format!("{} is a directory.", write.path.display())));
        };
        if write.text.is_some() {
            self.create(parent).map_err(failed)?;
        }
        let mut staged = Staged {
            path: write.path.to_owned(),
            folder: confined::folder(parent).map_err(failed)?,
            name: name.to_owned(),
            new: None,
            before: write.before.cloned(),
            done: None,
        };
        let Some(text) = write.text else {
            self.steps.push(staged);
            return Ok(());
        };
        let new = unused_name();
        let beside = parent.join(&new);
        staged.new = Some(new);
        self.steps.push(staged);
        let written = confined::replace(&beside, None, text.as_bytes())
            .map_err(|error| not_beside(&error, &beside, write.path))?;
        self.written.push((write.path.to_owned(), written));
        if let Some(found) = write.mode_of {
            let (file, _) = confined::open_found(&beside)?;
            file.set_permissions(found.permissions()).map_err(failed)?;
        }
        Ok(())
    }

    fn create(&mut self, folder: &Path) -> io::Result<()> {
        let missing = folder.ancestors().take_while(|folder| !folder.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        for folder in missing.into_iter().rev() {
            std::fs::create_dir(&folder)?;
            self.folders.push(folder);
        }
        Ok(())
    }

    /// Puts everything in place, and answers what was written.
    ///
    /// # Errors
    /// [`Error::NotWritten`] if all is as it was, [`Error::HalfWritten`] if it could not be put back.
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

    /// Takes the next step, if there is one; should it fail, all before it are undone.
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
            let text = "What had been written before is put back; all files are as they were.";
            return Error::NotWritten(format!("{error} {text}"));
        }
        Error::HalfWritten(format!(
            "{error} Not all that had been written before could be put back:\n{}\nAll other files are as they were.",
            left.join("\n")
        ))
    }
}

/// Takes away what is no longer wanted, as far as that goes.
impl Drop for Stage {
    fn drop(&mut self) {
        for step in &self.steps {
            if let (Some(new), None) = (&step.new, &step.done) {
                step.unlink(new);
            }
        }
        if !self.kept {
            for folder in self.folders.iter().rev() {
                // one that somebody else has put something into stays
                let _ = std::fs::remove_dir(folder);
            }
        }
    }
}

impl Staged {
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

    /// Other programs know nothing of our locks.
    fn unchanged(&self) -> io::Result<()> {
        let known = |found: &Metadata| {
            (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec())
        };
        let found = std::fs::symlink_metadata(&self.path)?;
        if self.before.as_ref().is_some_and(|before| known(before) == known(&found)) {
            return Ok(());
        }
        Err(io::Error::other("another program has changed it at this moment"))
    }

    fn replace(&self, new: &str, old: &str) -> io::Result<()> {
        self.set_aside(old)?;
        let replaced = self.rename(new, &self.name);
        // between two names of one file a rename does nothing, so both ways of setting aside end here
        if replaced.is_err() && self.rename(old, &self.name).is_ok() {
            self.unlink(old);
        }
        replaced
    }

    /// Gives what is there a second name; where there are no hard links, another name.
    fn set_aside(&self, old: &str) -> io::Result<()> {
        match linkat(&self.folder, &self.name, &self.folder, old, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(_) => self.rename(&self.name, old),
        }
    }

    /// Moves the new file to its name, which nothing may have by now.
    fn place(&self, new: &str) -> io::Result<()> {
        match linkat(&self.folder, new, &self.folder, &self.name, AtFlags::empty()) {
            Ok(()) => {
                self.unlink(new);
                Ok(())
            }
            Err(rustix::io::Errno::EXIST) => Err(rustix::io::Errno::EXIST.into()),
            // no hard links here
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
                // its staged name is gone, so there is nothing to clean up but this
                self.new = None;
                Ok(gone?)
            }
        }
    }

    /// What a path looks like that could not be put back.
    fn state(&self, error: &io::Error) -> String {
        let path = self.path.display();
        match &self.done {
            Some(Some(old)) => {
                let old = self.path.with_file_name(old);
                format!("{path}: what was there is now {} ({error})", old.display())
            }
            Some(None) | None => format!("{path}: it is new and still there ({error})"),
        }
    }

    fn rename(&self, from: impl rustix::path::Arg, to: impl rustix::path::Arg) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    fn unlink(&self, name: &str) {
        // nothing more can be done if this fails
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

/// The error about the file beside as one about the file that is meant.
fn not_beside(error: &Error, beside: &Path, path: &Path) -> Error {
    let [beside, path] = [beside, path].map(|path| path.display().to_string());
    Error::NotWritten(error.to_string().replace(&beside, &path))
}

fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".leftfold-{}-{n}.patch", std::process::id())
}
