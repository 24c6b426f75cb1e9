//! Runs formatters: programs that put a file into its project's form after a call has written it.
//!
//! They run while the call holds the file, in the sandbox of commands and without network, so their change is a part of
//! the call. A formatter never makes a call fail: if it fails, takes too long or leaves no text file, the file gets the
//! text back that the call has written.

#[cfg(test)]
mod tests;

use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leftfold_events::Json;
use leftfold_events::event::{Access, CallKind, Class, Resolution};
use leftfold_events::rules::PROTECTED_FILE;
use leftfold_events::sandbox::{Backend, SandboxOptions};
use tokio::runtime::Handle;

use crate::command::{self, CommandResult};
use crate::formatter::{Invocation, ProjectFolders};
use crate::tool::{OutputLimits, Sandbox, Workspace};
use crate::{Context, confined, diff, quoted, text};

/// How long one formatter may take.
const FORMATTER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time of a call that formatters leave for everything else.
const RESERVED: Duration = Duration::from_secs(10);

/// How much of a formatter's output is kept, to quote the start of it.
const KEPT: OutputLimits = OutputLimits { max_lines: 50, max_bytes: 4_000 };
const QUOTED: usize = 200;

/// Most bytes of the difference between the written and the formatted text that the model gets.
const MAX_DIFF: usize = 4_000;

/// Folders of settings and plans, whose files stay as they are.
const OWN_FOLDERS: [&str; 3] = [".leftfold", ".opencode", ".git"];

/// A written file after its formatters.
#[derive(Debug)]
pub(crate) struct Formatted {
    pub(crate) text: String,
    pub(crate) file: Metadata,
    /// The formatters that have changed the text.
    pub(crate) by: Vec<String>,
    /// Sentences for the model.
    pub(crate) notes: Vec<String>,
}

/// The sandbox for a program that changes the file at `path`.
fn sandbox(options: &SandboxOptions, path: &Path, cx: &Workspace) -> Option<Sandbox> {
    let access = |permission: &str| Access {
        permission: permission.to_owned(),
        patterns: vec![path.to_string_lossy().into_owned()],
        always: Vec::new(),
    };
    let call = Resolution {
        name: "format".to_owned(),
        input: Json::object(),
        class: Class::Write,
        access: vec![access("edit"), access(PROTECTED_FILE)],
        paths: Vec::new(),
        timeout: 0,
        error: None,
        kind: CallKind::Shell,
    };
    let cx = Workspace { sandbox: Some(options.clone()), ..cx.clone() };
    Sandbox::alone(&cx, &call)
}

/// Formats the file at `path`, into which a call has just written `written`. Blocks the thread.
pub(crate) fn format(cx: &Context, path: &Path, written: &str, file: Metadata) -> Formatted {
    let mut now = Formatted { text: written.to_owned(), file, by: Vec::new(), notes: Vec::new() };
    let Workspace { formatting: Some(formatting), directory, worktree, .. } = &*cx.workspace else {
        return now;
    };
    let inside = path.strip_prefix(worktree).unwrap_or(path);
    let is_own =
        inside.components().any(|part| OWN_FOLDERS.iter().any(|own| part.as_os_str() == *own));
    // without any sandbox on this machine, every command would ask
    if written.trim().is_empty() || is_own || formatting.sandbox.backend == Backend::None {
        return now;
    }
    let Ok(runtime) = Handle::try_current() else { return now };
    let end = cx.deadline.and_then(|deadline| deadline.checked_sub(RESERVED));
    for formatter in formatting.formatters.iter().filter(|formatter| formatter.takes(path)) {
        let project = ProjectFolders { directory, worktree };
        let found = formatter.invocation(path, formatting.trusted, project);
        let Some(invocation) = found else { continue };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let limit = left.unwrap_or(FORMATTER_TIMEOUT).min(FORMATTER_TIMEOUT);
        let cx = Context {
            sandbox: sandbox(&formatting.sandbox, path, &cx.workspace),
            variables: [cx.variables.as_slice(), &formatter.environment].concat(),
            ..cx.clone()
        };
        let ended = match limit.is_zero() {
            true => Err("the call has no time left for it".to_owned()),
            false => runtime.block_on(run(&invocation, cx, limit)),
        };
        let ended = ended.and_then(|traces| {
            now.notes.extend(traces);
            changed(path, &now.file)
        });
        match ended {
            Ok((text, file)) => {
                now.file = file;
                if let Some(text) = text.filter(|text| *text != now.text) {
                    now.text = text;
                    now.by.push(formatter.name.clone());
                }
            }
            Err(why) => {
                let failed =
                    format!("{} did not format {}: {why}.", formatter.name, path.display());
                now.notes.push(match confined::put_back(path, &now.file, now.text.as_bytes()) {
                    Ok(file) => {
                        now.file = file;
                        format!("({failed})")
                    }
                    Err(error) => format!(
                        "({failed} The text of this call could not be put back, so read the file: {error})"
                    ),
                });
            }
        }
    }
    if now.text != written {
        now.notes.push(difference(&now.by.join(" and "), path, written, &now.text));
    }
    now
}

/// Tells the model how the file differs from what it has written.
fn difference(by: &str, path: &Path, written: &str, formatted: &str) -> String {
    let fields = diff::describe("", Some(written), formatted);
    let diff = fields["diff"].as_str().unwrap_or_default();
    let hunks = diff.find("@@").map_or("", |start| &diff[start..]);
    let path = path.display();
    if hunks.len() > MAX_DIFF {
        return format!(
            "{by} has formatted {path}, so much of it differs from what you wrote: read it before you change it again."
        );
    }
    format!("{by} has formatted {path}. It differs from what you wrote:\n{}", hunks.trim_end())
}

/// Runs a formatter for at most `limit`, and waits until its processes are gone. Returns a note about files that decide
/// what later runs do, if it has changed any. The error says what went wrong.
async fn run(
    invocation: &Invocation,
    cx: Context,
    limit: Duration,
) -> Result<Option<String>, String> {
    let cancel = cx.cancel.child_token();
    let workspace = Workspace { limits: KEPT, ..(*cx.workspace).clone() };
    let cx = Context {
        workspace: Arc::new(workspace),
        cancel: cancel.clone(),
        progress: Arc::new(|_| {}),
        deadline: None,
        ..cx
    };
    let Some((program, arguments)) = invocation.command.split_first() else { return Ok(None) };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut running =
        std::pin::pin!(command::run_program(program, &arguments, &invocation.folder, &cx));
    let mut is_late = false;
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = tokio::time::sleep(limit) => {
            is_late = true;
            cancel.cancel();
            running.await
        }
    };
    let CommandResult { status, output, traces, .. } = ended.map_err(|error| {
        let said = error.to_string();
        quoted::line(said.trim_end_matches('.'), QUOTED)
    })?;
    if let Some(spill) = &output.spill {
        // nobody reads more of it than is quoted
        let _ = std::fs::remove_file(&spill.path);
    }
    match status {
        Some(status) if status.success() => Ok(traces.note()),
        Some(status) => {
            let said = quoted::line(&output.text, QUOTED);
            let said = if said.is_empty() { said } else { format!(", and says: {said}") };
            Err(format!("it failed ({status}){said}"))
        }
        None => {
            // it could still write
            leftfold_process::settled().await;
            let seconds = limit.as_secs();
            Err(match is_late {
                true => format!("it did not end within {seconds} s"),
                false => "the call was cancelled".to_owned(),
            })
        }
    }
}

/// The state of the file, and its text if it may have changed since it was `before`.
fn changed(path: &Path, before: &Metadata) -> Result<(Option<String>, Metadata), String> {
    let found = confined::lookup(path).map_err(|error| error.to_string())?;
    let found = found.ok_or("it has removed the file")?;
    if confined::same(before, &found) {
        return Ok((None, found));
    }
    if !found.is_file() {
        return Err("it has put something else in the place of the file".to_owned());
    }
    let text = text::load(path, &found);
    let text = text.map_err(|error| error.to_string().trim_end_matches('.').to_owned())?;
    match text.trim().is_empty() {
        true => Err("it has emptied the file".to_owned()),
        false => Ok((Some(text), found)),
    }
}
