//! Loads and writes the text files of a call, on disk or through the host.
//!
//! The disk is read first, by the confined functions. It decides whether the file exists, which
//! kind it is and whether it is text. Only then the host is asked whether it shows another text.
//! Files that are not on disk are never asked for.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use leftfold_events::Secrets;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::formatting::{self, Formatted};
use crate::host::{Host, HostError, MAX_TEXT, READING, TimeLimit, WrittenTo};
use crate::language_servers::WrittenFile;
use crate::tool::Seen;
use crate::{Context, Error, Output, Workspace, confined, diagnostics, seen, text};

/// Time limit of a preview's read.
const PREVIEW_TIMEOUT: Duration = Duration::from_secs(2);

/// Access to texts for one call. All functions block the thread.
pub(crate) struct TextFiles {
    host: Option<Arc<dyn Host>>,
    secrets: Secrets,
    time_limit: TimeLimit,
    /// The call, whose files are formatted. `None` for a preview.
    call: Option<Context>,
}

/// A text that was written, after its formatters.
pub(crate) struct WrittenText {
    path: PathBuf,
    pub(crate) text: String,
    pub(crate) to: WrittenTo,
    /// The formatters that have changed it.
    by: Vec<String>,
    notes: Vec<String>,
}

impl WrittenText {
    /// Adds the work of formatters to the output of the call.
    fn add_to(&self, output: &mut Output) {
        for note in &self.notes {
            output.output += "\n";
            output.output += note;
        }
        if !self.by.is_empty() {
            let before = output.meta().remove("formatted_by");
            let before = before.and_then(|names| names.as_array().cloned()).unwrap_or_default();
            let names = self.by.iter().map(|name| name.as_str().into());
            output.mark("formatted_by", before.into_iter().chain(names).collect::<Vec<Value>>());
        }
    }
}

/// The text of a file that exists on disk.
#[derive(Debug)]
pub(crate) struct LoadedText {
    pub(crate) text: String,
    /// Whether this is the host's text and the disk has another.
    pub(crate) unsaved: bool,
}

impl TextFiles {
    pub(crate) fn from_context(cx: &Context) -> Self {
        let time_limit = TimeLimit::new(cx.deadline, &cx.cancel);
        Self { time_limit, call: Some(cx.clone()), ..Self::of_workspace(&cx.workspace) }
    }

    /// Access for a preview, outside a call. A person is waiting.
    pub(crate) fn of_workspace(workspace: &Workspace) -> Self {
        Self {
            host: workspace.host.clone(),
            secrets: workspace.secrets.clone(),
            time_limit: TimeLimit::new(None, &CancellationToken::new()).at_most(PREVIEW_TIMEOUT),
            call: None,
        }
    }

    /// The text of the file that was `found` at `path`, if the model has seen its current state.
    ///
    /// # Errors
    /// The errors of [`text::load`]; [`Error::ChangedOnDisk`].
    pub(crate) fn load(
        &self,
        path: &Path,
        found: &Metadata,
        seen: &Seen,
    ) -> Result<LoadedText, Error> {
        confined::regular(path, found)?;
        let disk = text::load(path, found);
        let unsaved = disk.as_ref().ok().and_then(|disk| self.unsaved(path, found, disk));
        let Some(text) = unsaved else {
            seen::check(path, found, seen)?;
            return Ok(LoadedText { text: disk?, unsaved: false });
        };
        seen::check_unsaved(path, &text, seen)?;
        Ok(LoadedText { text, unsaved: true })
    }

    /// The text that the host shows for the file that was `found`, if it differs from the disk's. A
    /// silent host counts as showing the disk's text, which does no harm.
    pub(crate) fn unsaved(&self, path: &Path, found: &Metadata, disk: &str) -> Option<String> {
        if disk.len() > MAX_TEXT {
            return None;
        }
        let asked = self.host.as_ref()?.read(path)?;
        let answer =
            Handle::try_current().ok()?.block_on(self.time_limit.at_most(READING).wait(asked));
        let text = match answer {
            Ok(text) if !same(&text, disk) && text.len() <= MAX_TEXT => text,
            Ok(_) => return None,
            Err(error) => {
                tracing::info!(path = %path.display(), "the disk instead of the client: {error}");
                return None;
            }
        };
        // a link put in place meanwhile would have misled the host
        let now = confined::lookup(path).ok()??;
        (!text.contains('\0') && confined::same(found, &now)).then_some(text)
    }

    /// Replaces the file that was `found` with `text`: through the host, which shows it to its user
    /// as a change, or on disk.
    ///
    /// # Errors
    /// The errors of [`confined::replace`]; [`Error::Client`] if it is unknown whether the text was
    /// written.
    pub(crate) fn write(
        &self,
        path: &Path,
        found: Option<&Metadata>,
        text: &str,
    ) -> Result<WrittenTo, Error> {
        let on_disk = || confined::replace(path, found, text.as_bytes()).map(WrittenTo::Disk);
        let Some(asked) = self.ask_host_to_write(path, text) else { return on_disk() };
        confined::ready(path, found)?;
        let Ok(runtime) = Handle::try_current() else { return on_disk() };
        match runtime.block_on(self.time_limit.wait(asked)) {
            Ok(()) => Ok(as_written(path, text)),
            Err(HostError::Refused(why)) => {
                tracing::info!(path = %path.display(), "written to disk and not by the client: {why}");
                on_disk()
            }
            Err(HostError::Silent(why)) => Err(Error::Client(format!(
                "The client did not confirm that it wrote {}: {why}. The file may have been written or not: read it before you continue.",
                path.display()
            ))),
        }
    }

    /// Runs the formatters of the file at `path`, into which the call has just written `text`. A text that only the host
    /// has stays as it is.
    pub(crate) fn format(&self, path: &Path, text: &str, to: WrittenTo) -> WrittenText {
        let (file, cx) = match (to, &self.call) {
            (WrittenTo::Disk(file), Some(cx)) => (file, cx),
            (to, _) => {
                let (path, text) = (path.to_owned(), text.to_owned());
                return WrittenText { path, text, to, by: Vec::new(), notes: Vec::new() };
            }
        };
        let Formatted { text, mut file, by, notes } = formatting::format(cx, path, text, file);
        if !by.is_empty() {
            file = self.notify_host(path, &text, file);
        }
        WrittenText { path: path.to_owned(), text, to: WrittenTo::Disk(file), by, notes }
    }

    /// Adds the work of formatters, and what language servers find, to the output of a call that has written these
    /// texts, and removed the files at these paths.
    pub(crate) fn report(&self, output: &mut Output, written: &[WrittenText], removed: &[PathBuf]) {
        written.iter().for_each(|text| text.add_to(output));
        let Some(cx) = self.call.as_ref().filter(|cx| cx.workspace.language_servers.is_some())
        else {
            return;
        };
        let changed = written
            .iter()
            .map(|file| WrittenFile { path: file.path.clone(), text: Some(file.text.clone()) });
        let removed = removed.iter().map(|path| WrittenFile { path: path.clone(), text: None });
        diagnostics::add(cx, &changed.chain(removed).collect::<Vec<WrittenFile>>(), output);
    }

    /// Notifies the host of a text that is on disk already, so that it shows it. Returns the file's
    /// metadata afterwards, if the file still has that text. A failure does not concern the call.
    pub(crate) fn notify_host(&self, path: &Path, text: &str, written: Metadata) -> Metadata {
        let Some(asked) = self.ask_host_to_write(path, text) else { return written };
        let Ok(runtime) = Handle::try_current() else { return written };
        if let Err(why) = runtime.block_on(self.time_limit.at_most(READING).wait(asked)) {
            tracing::info!(path = %path.display(), "the client does not know of a change: {why}");
        }
        match as_written(path, text) {
            WrittenTo::Disk(now) => now,
            WrittenTo::Host => written,
        }
    }

    /// Texts with secrets are not sent to a host.
    fn ask_host_to_write(
        &self,
        path: &Path,
        text: &str,
    ) -> Option<BoxFuture<'static, Result<(), HostError>>> {
        let host = self.host.as_ref()?;
        if text.len() > MAX_TEXT || self.secrets.hide(text).is_some() {
            return None;
        }
        host.write(path, text)
    }
}

fn as_written(path: &Path, text: &str) -> WrittenTo {
    let found = confined::lookup(path).ok().flatten();
    let now = found.filter(|found| text::load(path, found).is_ok_and(|disk| same(&disk, text)));
    now.map_or(WrittenTo::Host, WrittenTo::Disk)
}

/// Whether two texts are equal apart from byte order mark and line endings, which editors store
/// separately.
fn same(one: &str, other: &str) -> bool {
    let lines = |text: &str| text.trim_start_matches(text::BOM).replace("\r\n", "\n");
    one == other || lines(one) == lines(other)
}
