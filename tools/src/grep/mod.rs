//! `grep`: finds lines that match a regular expression, in the newest files first.

mod search;

use std::cmp::Reverse;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use grep_regex::RegexMatcher;
use ignore::DirEntry;
use leftfold_events::event::{Access, Class};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::search::{Line, Searching};
use crate::newest::Newest;
use crate::pattern::Pattern;
use crate::tool::{ToolKind, Typed};
use crate::walk::{self, Left, Unreadable};
use crate::{
    Context, Error, Output, Plan, Workspace, args, confined, glob, nearby, paths, spill, text,
    truncate,
};

#[cfg(test)]
mod tests;

/// Most lines shown.
const LIMIT: usize = 100;

#[derive(Debug)]
pub(crate) struct Grep;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// The regular expression, in the syntax of Rust and ripgrep. It is matched line by line.
    #[serde(alias = "regex", alias = "query")]
    pattern: String,
    /// The folder or file to search: absolute, or relative to the working directory, which is the default.
    #[serde(default, alias = "directory", skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Search only files that match this glob, for example `*.rs` or `*.{ts,tsx}`; a leading `!` excludes them instead.
    #[serde(default, alias = "glob", skip_serializing_if = "Option::is_none")]
    include: Option<String>,
    /// Whether to ignore case. Default: false.
    #[serde(
        default,
        alias = "ignore_case",
        alias = "caseInsensitive",
        alias = "case_insensitive",
        alias = "-i",
        deserialize_with = "args::boolean",
        skip_serializing_if = "Option::is_none"
    )]
    ignore_case: Option<bool>,
}

impl Args {
    fn folder(&self) -> &str {
        self.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".")
    }

    fn include(&self) -> Option<&str> {
        self.include.as_deref().filter(|include| !include.is_empty())
    }

    /// The expression, and the filter for files below `root`.
    fn parsed(&self, root: &Path) -> Result<(RegexMatcher, Option<Pattern>), Error> {
        let invalid = |field, problem| walk::invalid(Grep::NAME, field, problem);
        let matcher = search::matcher(&self.pattern, self.ignore_case == Some(true))
            .map_err(|problem| invalid("pattern", problem))?;
        let include = self.include().map(|include| Pattern::filter(include, root)).transpose();
        Ok((matcher, include.map_err(|problem| invalid("include", problem))?))
    }
}

impl Typed for Grep {
    type Args = Args;
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/grep.md");
    const KIND: ToolKind = ToolKind::Search;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let moved = spill::moved(args.folder(), &cx.spill_dir);
        let mut target = paths::resolve(moved.as_deref().unwrap_or(args.folder()), cx)?;
        args.parsed(&target.path)?;
        // the hint under a cut output sends the model to this folder
        target.inside |= paths::real(&cx.spill_dir).is_ok_and(|dir| target.path.starts_with(dir));
        // a named file is shown as by `read`, so it needs the permissions of `read`
        // rules see the expression and not the folder, so a search of a part of the project is allowed once only
        let always = if target.is_worktree() { vec!["*".to_owned()] } else { Vec::new() };
        let mut plan = if secret(&target.shown) {
            target.judged(Plan::new(Class::Read), "read")
        } else {
            target.confined(Plan::new(Class::Read))
        };
        plan.access.push(Access {
            permission: Self::NAME.to_owned(),
            patterns: vec![args.pattern.clone()],
            always,
        });
        Ok(plan)
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        walk::cancellable(cx, move |cx| search_all(&args, &paths::only(paths)?, cx)).await
    }
}

fn search_all(args: &Args, root: &Path, cx: &Context) -> Result<Output, Error> {
    let (matcher, include) = args.parsed(root)?;
    let Some(found) = confined::lookup(root)? else {
        return Err(Error::NotFound(nearby::missing(root)));
    };
    let search = Search {
        matcher,
        root,
        cx,
        newest: Mutex::new(Newest::new(LIMIT)),
        searched: AtomicUsize::new(0),
    };
    let left = if found.is_dir() {
        walk::entries(root, include.as_ref(), &cx.workspace, &cx.cancel, || {
            let mut searching = Searching::new(cx.workspace.secrets.clone());
            let search = &search;
            move |entry: &DirEntry| search.entry(&mut searching, entry)
        })?
    } else {
        confined::regular(root, &found)?;
        search.only(root)?;
        Left::default()
    };
    Ok(search.output(args, &left))
}

/// One call, shared by the threads that search for it.
struct Search<'a> {
    matcher: RegexMatcher,
    root: &'a Path,
    cx: &'a Context,
    newest: Mutex<Newest<Line>>,
    /// Number of files that `include` let through.
    searched: AtomicUsize,
}

impl Search<'_> {
    fn entry(&self, searching: &mut Searching, entry: &DirEntry) -> Result<(), Unreadable> {
        // links are skipped: their target is searched under its own name, or lies elsewhere
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            return Ok(());
        }
        let path = entry.path();
        let Ok(below) = path.strip_prefix(self.root) else { return Ok(()) };
        if secret(&below.to_string_lossy()) {
            return Ok(());
        }
        self.searched.fetch_add(1, Ordering::Relaxed);
        match self.file(searching, path) {
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(_) => Err(Unreadable),
        }
    }

    /// Searches a file. Returns whether it is binary.
    fn file(&self, searching: &mut Searching, path: &Path) -> Result<bool, Error> {
        let (file, found) = confined::open_found(path)?;
        let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let place = (Reverse(modified), path.to_owned());
        let newest = || self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if !newest().wants(&place) {
            return Ok(false);
        }
        let mut hits = searching.file(&self.matcher, file, found.len(), LIMIT + 1, &self.cx.cancel);
        let lines = std::mem::take(&mut hits.lines);
        if !hits.binary && !lines.is_empty() {
            newest().add(place, lines);
        }
        hits.ended.map_err(|error| match error.raw_os_error() {
            Some(_) => Error::io("read", path, &error),
            None => Error::TooLarge(format!(
                "{} has a line of over {} MiB, too long to search.",
                path.display(),
                search::MAX_LINE / (1024 * 1024)
            )),
        })?;
        Ok(hits.binary)
    }

    /// Searches the one file that the call names. Any failure is the call's error, and the whole
    /// file is read.
    fn only(&self, path: &Path) -> Result<(), Error> {
        self.searched.fetch_add(1, Ordering::Relaxed);
        let mut searching = Searching::new(self.cx.workspace.secrets.clone());
        let searched = self.file(&mut searching, path);
        if self.cx.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if searched? {
            return Err(Error::Binary(format!("{} is a binary file, not text.", path.display())));
        }
        Ok(())
    }

    fn output(self, args: &Args, left: &Left) -> Output {
        let newest = self.newest.into_inner().unwrap_or_else(PoisonError::into_inner);
        let more = newest.more();
        let all = listed(&newest.into_first());
        let kept = truncate::whole_lines(&all, self.cx.workspace.limits);
        let matches = kept.lines().filter(|line| line.starts_with(LINE)).count();
        let truncated = more || kept.len() < all.len();
        let head = match (matches, truncated) {
            (0, false) => nothing(args, self.searched.into_inner()) + left.about_ignored(),
            (1, false) => "Found 1 match\n".to_owned(),
            (_, false) => format!("Found {matches} matches\n"),
            (_, true) => format!(
                "Found more than {matches} matches; these are the {matches} in the newest files\n"
            ),
        };
        let rest = if truncated {
            "\n(There are more. A narrower pattern, path or include shows them.)"
        } else {
            ""
        };
        let text = format!("{head}{kept}{rest}{}", left.note());
        let meta = json!({ "matches": matches, "truncated": truncated });
        Output::new(
            glob::title(&args.pattern, args.path.as_deref()),
            text.trim_end_matches('\n'),
            &meta,
        )
    }
}

/// Whether `read` asks before it shows the file. A search of many files cannot ask for each of them, so it skips these; they
/// are searched only if the call names them in `path`.
fn secret(shown: &str) -> bool {
    (shown.ends_with(".env") || shown.contains(".env.")) && !shown.ends_with(".env.example")
}

/// The beginning of a line with a match. Lines with a path begin differently.
const LINE: &str = "  Line ";

fn listed(files: &[(PathBuf, Vec<Line>)]) -> String {
    let mut text = String::new();
    for (path, lines) in files {
        // writing to a string cannot fail
        let _ = writeln!(text, "\n{}:", walk::shown(path));
        for Line { number, text: line } in lines {
            let _ = writeln!(text, "{LINE}{number}: {line}");
        }
    }
    text
}

/// The output if nothing was found. It distinguishes "no match" from "no file was searched".
fn nothing(args: &Args, searched: usize) -> String {
    match args.include() {
        Some(include) if searched == 0 => {
            let include = text::clip(include.to_owned(), 200);
            format!("No files found: no file there matches include {include:?}.\n")
        }
        _ => format!("No files found ({searched} searched).\n"),
    }
}
