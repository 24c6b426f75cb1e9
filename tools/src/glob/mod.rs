//! `glob`: finds files by a pattern for their path, newest first.

use std::cmp::Reverse;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ignore::DirEntry;
use leftfold_events::event::{Access, Class};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::newest::Newest;
use crate::pattern::{self, Pattern};
use crate::tool::{ToolKind, Typed};
use crate::walk::{self, Left, Unreadable};
use crate::{Context, Error, Output, Plan, Workspace, confined, nearby, paths, truncate};

#[cfg(test)]
mod tests;

/// Most files shown.
const LIMIT: usize = 100;

#[derive(Debug)]
pub(crate) struct Glob;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The glob, for example `**/*.rs`, `src/**/*.{ts,tsx}` or `Makefile`.
    #[serde(alias = "glob")]
    pattern: String,
    /// The folder to look in: absolute, or relative to the working directory, which is the default.
    #[serde(default, alias = "directory", skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl Args {
    /// The folder to search, and the pattern.
    fn parsed(&self) -> Result<(String, Pattern), Error> {
        let folder = self.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
        let parsed = match pattern::elsewhere(&self.pattern) {
            Some((start, rest)) => Pattern::from_top(&rest).map(|pattern| {
                let joined = match start.strip_prefix(['/', '~']) {
                    Some(_) => start,
                    None => format!("{folder}/{start}"),
                };
                (joined, pattern)
            }),
            None => Pattern::new(&self.pattern).map(|pattern| (folder.to_owned(), pattern)),
        };
        parsed.map_err(|problem| walk::invalid(Glob::NAME, "pattern", problem))
    }

    /// The patterns that "always" may allow. Rules see the glob and not the folder, so a search of a part of the
    /// project has none: as a rule, `src/*` would also match the glob `src/../lib/x`.
    fn for_good(&self, in_worktree: bool) -> Vec<String> {
        let wild = self.pattern.find(['*', '?']).unwrap_or(self.pattern.len());
        let is_whole = in_worktree && !self.pattern[..wild].contains('/');
        if is_whole { vec![self.pattern.clone()] } else { Vec::new() }
    }
}

impl Typed for Glob {
    type Args = Args;
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/glob.md");
    const KIND: ToolKind = ToolKind::Search;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let (folder, _) = args.parsed()?;
        let target = paths::resolve(&folder, cx)?;
        let always = args.for_good(target.is_worktree());
        let mut plan = target.confined(Plan::new(Class::Read));
        plan.access.push(Access {
            permission: Self::NAME.to_owned(),
            patterns: vec![args.pattern.clone()],
            always,
        });
        Ok(plan)
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        walk::cancellable(cx, move |cx| {
            let (_, pattern) = args.parsed()?;
            find(&args, &paths::only(paths)?, &pattern, cx)
        })
        .await
    }
}

fn find(args: &Args, root: &Path, pattern: &Pattern, cx: &Context) -> Result<Output, Error> {
    let Some(found) = confined::lookup(root)? else {
        return Err(Error::NotFound(nearby::missing(root)));
    };
    if !found.is_dir() {
        let text = format!("{} is not a folder. Give the folder to look in.", root.display());
        return Err(Error::NotDirectory(text));
    }
    let (newest, left) = newest(root, pattern, &cx.workspace, &cx.cancel)?;
    Ok(output(args, newest, &left, &cx.workspace))
}

fn newest(
    root: &Path,
    pattern: &Pattern,
    cx: &Workspace,
    cancel: &CancellationToken,
) -> Result<(Newest<()>, Left), Error> {
    let worktree = paths::real(&cx.worktree)?;
    let newest = Mutex::new(Newest::new(LIMIT));
    let visit = |entry: &DirEntry| {
        let Some(found) = file(entry, &[root, &worktree])? else { return Ok(()) };
        let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let place = (Reverse(modified), entry.path().to_owned());
        newest.lock().unwrap_or_else(PoisonError::into_inner).add(place, vec![()]);
        Ok(())
    };
    let left = walk::entries(root, Some(pattern), cx, cancel, || visit)?;
    Ok((newest.into_inner().unwrap_or_else(PoisonError::into_inner), left))
}

/// The metadata of an entry that is a file, or a link to a file in one of `folders`.
fn file(entry: &DirEntry, folders: &[&Path]) -> Result<Option<Metadata>, Unreadable> {
    if !entry.path_is_symlink() {
        let found = entry.metadata().map_err(|_| Unreadable)?;
        return Ok(found.is_file().then_some(found));
    }
    let Ok(target) = paths::real(entry.path()) else { return Ok(None) };
    if !folders.iter().any(|folder| target.starts_with(folder)) {
        return Ok(None);
    }
    Ok(std::fs::symlink_metadata(target).ok().filter(Metadata::is_file))
}

fn output(args: &Args, newest: Newest<()>, left: &Left, cx: &Workspace) -> Output {
    let total = newest.seen();
    let all: String =
        newest.into_first().iter().map(|(path, _)| format!("{}\n", walk::shown(path))).collect();
    let kept = truncate::whole_lines(&all, cx.limits);
    let count = kept.lines().count();
    let rest = if total == 0 {
        format!("No files found.\n{}", left.about_ignored())
    } else if count < total {
        format!(
            "\n(The newest {count} of {total} files. A narrower pattern or another path shows the others.)"
        )
    } else {
        String::new()
    };
    let text = format!("{kept}{}{}", rest.trim_end_matches('\n'), left.note());
    let meta = json!({ "count": count, "truncated": count < total });
    Output::new(title(&args.pattern, args.path.as_deref()), text.trim_end_matches('\n'), &meta)
}

/// The title of a search, for people.
pub(crate) fn title(pattern: &str, path: Option<&str>) -> String {
    match path {
        Some(path) => format!("{pattern} in {path}"),
        None => pattern.to_owned(),
    }
}
