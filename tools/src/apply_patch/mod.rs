//! `apply_patch`: changes several files at once, in the patch format that OpenAI's models are
//! trained on.
//!
//! - `envelope` strips the text around the patch, and `parse` reads its sections.
//! - `find` locates hunks in a text, and `body` applies them.
//! - `files` computes in memory what every file will be.
//! - `commit` writes all files or none.
//! - `report` describes the result.
//!
//! The tool plans the whole patch in memory before it writes anything. New texts are written beside
//! their places and then renamed into place; if a rename fails, the earlier ones are undone.

mod body;
mod commit;
mod envelope;
mod files;
mod find;
mod parse;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use leftfold_events::event::{Access, Class};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::WrittenTo;
use crate::text_files::TextFiles;
use crate::tool::{ToolKind, Typed};
use crate::{Context, Error, FilePreview, Output, Plan, Seen, Workspace, locks, paths, seen};
use commit::{Stage, Write};
use files::{Base, File, FileState, Files};
use parse::{Change, Section};

#[derive(Debug)]
pub(crate) struct ApplyPatch;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`.
    #[serde(alias = "patch_text", alias = "patch", alias = "input")]
    patch_text: String,
}

impl Typed for ApplyPatch {
    type Args = Args;
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/apply_patch.md");
    const KIND: ToolKind = ToolKind::Edit;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        plan_of(&parse::parse(&args.patch_text)?, cx)
    }

    fn preview(
        args: &Args,
        paths: Vec<PathBuf>,
        cx: &Workspace,
    ) -> Result<Vec<FilePreview>, Error> {
        let base = Base { texts: &TextFiles::of_workspace(cx), seen: &Seen::new() };
        Ok(report::previews(&args.files(&paths, cx, &base)?))
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let applying = tokio::task::spawn_blocking(move || {
            locks::with_locks(&paths, || {
                if cx.cancel.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                apply(&args, &paths, &cx)
            })
        });
        applying.await.map_err(|error| Error::Io(format!("Writing failed: {error}.")))?
    }
}

/// Applies `patch` to a file with this text, without writing. Returns its sections, or the error as
/// text.
pub fn dry_run(before: &str, patch: &str) -> Result<Vec<String>, String> {
    let sections = parse::parse(patch).map_err(|error| error.to_string())?;
    let change = |section: &Section| match &section.change {
        Change::Add(text) => Ok(text.clone()),
        Change::Delete => Ok(String::new()),
        Change::Update { hunks, .. } => {
            body::apply(before, hunks).map(|(text, _)| text).map_err(|miss| format!("{miss:?}"))
        }
    };
    sections.iter().map(change).collect()
}

/// Every path in `sections`, as the patch spells it.
fn named(sections: &[Section]) -> impl Iterator<Item = &str> {
    sections.iter().flat_map(|section| {
        let to = match &section.change {
            Change::Update { move_to, .. } => move_to.as_deref(),
            Change::Add(_) | Change::Delete => None,
        };
        [Some(section.path.as_str()), to].into_iter().flatten()
    })
}

/// The plan: one permission for all files, and one for all folders outside the worktree.
fn plan_of(sections: &[Section], cx: &Workspace) -> Result<Plan, Error> {
    let mut edited = BTreeSet::new();
    let mut outside = BTreeSet::new();
    let mut all = BTreeSet::new();
    for path in named(sections) {
        let target = paths::resolve(path, cx)?;
        edited.insert(target.shown.clone());
        let plan = target.confined(Plan::new(Class::Write));
        outside.extend(plan.access.into_iter().flat_map(|access| access.patterns));
        all.extend(plan.paths);
    }
    let mut plan = Plan::new(Class::Write);
    let outside: Vec<String> = outside.into_iter().collect();
    if !outside.is_empty() {
        plan.access.push(paths::leaving(outside));
    }
    let edited: Vec<String> = edited.into_iter().collect();
    plan.access.push(Access {
        permission: "edit".to_owned(),
        always: paths::for_good(&edited),
        patterns: edited,
    });
    plan.paths = all.into_iter().collect();
    Ok(plan)
}

impl Args {
    /// The target state of every file. Only judged paths may be touched.
    fn files(&self, judged: &[PathBuf], cx: &Workspace, base: &Base<'_>) -> Result<Files, Error> {
        let sections = parse::parse(&self.patch_text)?;
        Files::plan(&sections, |given| within(given, judged, cx), base)
    }
}

/// Resolves a path of a patch. An error if the path was not judged.
fn within(given: &str, judged: &[PathBuf], cx: &Workspace) -> Result<PathBuf, Error> {
    let found = paths::resolve(given, cx)?.path;
    if judged.contains(&found) {
        return Ok(found);
    }
    let judged: Vec<_> = judged.iter().map(|path| path.to_string_lossy()).collect();
    let found = found.to_string_lossy().into_owned();
    Err(Error::PathsChanged { judged: judged.join(", "), found })
}

/// Applies the patch on disk, because a patch is all or nothing and no client can promise that.
/// Then tells the client, so that it shows the new texts.
fn apply(args: &Args, judged: &[PathBuf], cx: &Context) -> Result<Output, Error> {
    let texts = TextFiles::from_context(cx);
    let mut files = args.files(judged, &cx.workspace, &Base { texts: &texts, seen: &cx.seen })?;
    files.keep_texts();
    let writes: Vec<_> = files.all.iter().filter_map(|file| write_of(&files, file)).collect();
    let mut written = Stage::new(&writes)?.commit()?;
    drop(writes);
    let mut formatted = Vec::new();
    for (path, file) in &mut written {
        let Some(text) = files.text_of(path) else { continue };
        *file = texts.notify_host(path, text, file.clone());
        let now = texts.format(path, text, WrittenTo::Disk(file.clone()));
        text.clone_from(&now.text);
        if let WrittenTo::Disk(now) = &now.to {
            *file = now.clone();
        }
        formatted.push(now);
    }
    let mut output = report::report(&files);
    texts.report(&mut output, &formatted, &files.removed());
    Ok(seen::add_stamps(output, &written))
}

/// The write that `file` needs, if any.
fn write_of<'a>(files: &'a Files, file: &'a File) -> Option<Write<'a>> {
    let bytes = match (&file.now, &file.before) {
        (FileState::Untouched, _) | (FileState::Absent, None) => return None,
        (FileState::Absent, Some(_)) => None,
        (FileState::Text { text, .. }, _) => Some(text.as_bytes()),
        (FileState::Moved { bytes, .. }, _) => Some(bytes.as_slice()),
    };
    let from = file.now.from();
    let origin = from.and_then(|from| files.all.get(from)).unwrap_or(file);
    let mode_of = origin.before.as_ref();
    Some(Write { path: &file.path, before: file.before.as_ref(), bytes, mode_of })
}
