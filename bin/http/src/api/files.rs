//! Files of a directory for a client to show. Paths outside the project are refused, and what
//! `.gitignore` names is left out of searches.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use leftfold_files::Unread;
use leftfold_runtime::session_diff::DiffRange;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, ApiState, Directory, Query, blocking};
use crate::branches;
use crate::error::ApiError;
use crate::shapes::catalog::{FileContent, FileNode, FileSystemEntry, FoundLine, Located, VcsInfo};
use crate::shapes::session::SnapshotFileDiff;
use crate::shapes::{Shaped, shaped};

/// The largest file that is shown, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Files that a search looks at.
const MAX_FOUND: usize = 50_000;
const LIMIT: usize = 100;
/// How long a search in files may take. It then answers with the lines that it has.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Search {
    query: Option<String>,
    limit: Option<usize>,
    /// Whether folders are found too.
    dirs: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

pub(super) async fn find_file(
    Directory(directory): Directory,
    Query(search): Query<Search>,
) -> Answer<Shaped<Vec<String>>> {
    let found = blocking(move || Ok(matching(&directory, &search))).await?;
    Ok(shaped(found.into_iter().map(|(path, _)| Value::from(path)).collect()))
}

/// The form of the second version of the API, which completes `@file`.
pub(super) async fn find_located(
    Directory(directory): Directory,
    Query(search): Query<Search>,
) -> Answer<Shaped<Located<FileSystemEntry>>> {
    let folder = directory.clone();
    let found = blocking(move || Ok(matching(&folder, &search))).await?;
    let entries: Vec<Value> = found
        .into_iter()
        .map(|(path, is_folder)| json!({ "path": path, "type": if is_folder { "directory" } else { "file" } }))
        .collect();
    let worktree = leftfold_config::worktree_of(&directory).display().to_string();
    let project = json!({ "id": crate::opencode::project_id(&worktree), "directory": worktree });
    Ok(shaped(
        json!({ "location": { "directory": directory, "project": project }, "data": entries }),
    ))
}

/// The files whose path has the letters of the query in their order, the best first.
fn matching(directory: &Path, search: &Search) -> Vec<(String, bool)> {
    let query = search.query.as_deref().unwrap_or_default().to_lowercase();
    let wants_folders =
        search.dirs.as_deref() != Some("false") && search.kind.as_deref() != Some("file");
    let wants_files = search.kind.as_deref() != Some("directory");
    let mut found: Vec<(usize, String, bool)> = Vec::new();
    let walk = walk(directory);
    for entry in walk.build().filter_map(Result::ok).take(MAX_FOUND) {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        if is_folder && !wants_folders || !is_folder && !wants_files {
            continue;
        }
        let Ok(path) = entry.path().strip_prefix(directory) else { continue };
        if path.as_os_str().is_empty() || path.starts_with(".git") {
            continue;
        }
        let mut path = path.display().to_string();
        if is_folder {
            path.push('/');
        }
        if let Some(score) = score(&path.to_lowercase(), &query) {
            found.push((score, path, is_folder));
        }
    }
    found.sort();
    let limit = search.limit.unwrap_or(LIMIT);
    found.into_iter().take(limit).map(|(_, path, is_folder)| (path, is_folder)).collect()
}

/// A walk over the files of a directory that are not ignored.
fn walk(directory: &Path) -> WalkBuilder {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let worktree = leftfold_config::worktree_of(&directory);
    leftfold_files::walk(&directory, &worktree, |_| false).0
}

/// How far the letters of the query are apart; less is better.
fn score(path: &str, query: &str) -> Option<usize> {
    if let Some(at) = path.rfind(query) {
        return Some(path.len() - at);
    }
    let (mut letters, mut spread) = (path.chars(), 1_000);
    for letter in query.chars() {
        spread += letters.by_ref().position(|known| known == letter)?;
    }
    Some(spread + path.len())
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Pattern {
    pattern: String,
}

/// Lines that match a regular expression, as the `grep` tool finds them.
pub(super) async fn find(
    Directory(directory): Directory,
    Query(Pattern { pattern }): Query<Pattern>,
) -> Answer<Shaped<Vec<FoundLine>>> {
    let matcher = grep_regex::RegexMatcher::new_line_matcher(&pattern)
        .map_err(|error| ApiError::bad_request(format!("pattern: {error}")))?;
    let found = blocking(move || {
        let mut found = Vec::new();
        let until = Instant::now() + SEARCH_TIMEOUT;
        let files = walk(&directory).hidden(true).max_filesize(Some(MAX_FILE)).build();
        for entry in files.filter_map(Result::ok).take_while(|_| Instant::now() < until) {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) || found.len() >= LIMIT {
                continue;
            }
            let path = entry.path().strip_prefix(&directory).unwrap_or(entry.path());
            let shown = path.display().to_string();
            let sink = grep_searcher::sinks::UTF8(|number, line| {
                found.push(json!({
                    "path": { "text": shown },
                    "lines": { "text": line },
                    "line_number": number,
                    "absolute_offset": 0,
                    "submatches": [],
                }));
                Ok(found.len() < LIMIT)
            });
            // files that cannot be read have no matches
            let Ok((file, _)) = leftfold_files::open_real(entry.path()) else { continue };
            let _ = grep_searcher::Searcher::new().search_file(&matcher, &file, sink);
        }
        Ok(found)
    });
    Ok(shaped(json!(found.await?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct At {
    #[serde(default)]
    path: String,
}

/// The absolute path of a file in the project.
fn inside(directory: &Path, path: &str) -> Result<PathBuf, ApiError> {
    let missing = || ApiError::not_found(format!("there is no file `{path}`"));
    let found = directory.join(path).canonicalize().map_err(|_| missing())?;
    let worktree = leftfold_config::worktree_of(directory);
    if found.starts_with(&worktree) || found.starts_with(directory) {
        Ok(found)
    } else {
        Err(missing())
    }
}

pub(super) async fn list(
    Directory(directory): Directory,
    Query(At { path }): Query<At>,
) -> Answer<Shaped<Vec<FileNode>>> {
    let folder = inside(&directory, &path)?;
    if !folder.is_dir() {
        return Err(ApiError::bad_request(format!("path: `{path}` is not a directory")));
    }
    let listed = blocking(move || {
        let mut shown: Vec<Value> = std::fs::read_dir(&folder)?
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name() != ".git")
            .map(|entry| {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let absolute = entry.path();
                let relative = absolute.strip_prefix(&directory).unwrap_or(&absolute);
                json!({
                    "name": entry.file_name().to_string_lossy(),
                    "path": relative,
                    "absolute": absolute,
                    "type": if is_folder { "directory" } else { "file" },
                    "ignored": false,
                })
            })
            .collect();
        shown.sort_by_key(|entry| (entry["type"] == "file", entry["name"].to_string()));
        Ok(shown)
    });
    Ok(shaped(json!(listed.await?)))
}

pub(super) async fn content(
    Directory(directory): Directory,
    Query(At { path }): Query<At>,
) -> Answer<Shaped<FileContent>> {
    let file = inside(&directory, &path)?;
    let shown = blocking(move || {
        let content = match leftfold_files::read_real(&file, MAX_FILE) {
            Err(Unread::Io(error)) => return Err(error.into()),
            Err(_) => return Ok(json!({ "type": "binary", "content": "" })),
            Ok(content) => content,
        };
        Ok(match String::from_utf8(content) {
            Ok(text) => json!({ "type": "text", "content": text }),
            Err(error) => json!({
                "type": "binary",
                "content": leftfold_tools::base64(error.as_bytes()),
                "encoding": "base64",
            }),
        })
    });
    Ok(shaped(shown.await?))
}

/// The branch that is checked out.
pub(super) async fn vcs(api: ApiState, Directory(directory): Directory) -> Answer<Shaped<VcsInfo>> {
    let branch = blocking(move || Ok(api.branches.for_directory(&directory))).await?;
    Ok(shaped(branches::shown(branch)))
}

/// The changes of the directory's last session that has changed files.
pub(super) async fn vcs_diff(
    api: ApiState,
    Directory(directory): Directory,
) -> Answer<Shaped<Vec<SnapshotFileDiff>>> {
    let mut changed = api.feed.each(|tree| {
        let known = tree.sessions().filter(|(_, known)| {
            directory == Path::new(known.directory()) && known.info()["summary"]["files"] != 0
        });
        let known = known.map(|(id, known)| (known.info()["time"]["updated"].as_u64(), id));
        known.collect()
    });
    changed.sort_unstable();
    match changed.last() {
        Some((_, session)) => {
            super::sessions::changed_files(&api, *session, DiffRange::Session).await
        }
        None => Ok(shaped(json!([]))),
    }
}
