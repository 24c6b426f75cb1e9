//! Reads OpenCode's storage: `session/PROJECT/SESSION.json`, `message/SESSION/*.json` and
//! `part/MESSAGE/*.json`. The names sort by time.

use std::fs;
use std::path::{Component, Path, PathBuf};

use leftfold_framing::surrogates::repair;
use serde_json::{Value, json};

use super::{LeftOut, text};
use crate::UnreadableFile;

/// The messages of the session `info` with the file `path`, in the form of an export.
pub(super) fn messages(
    info: &Value,
    path: Option<&Path>,
    left_out: &mut LeftOut,
) -> Result<Vec<Value>, UnreadableFile> {
    let storage = path.and_then(|path| path.ancestors().nth(3)).map(Path::to_owned);
    let session = text(info, "id");
    let storage = storage.filter(|_| is_name(session));
    let storage = storage.filter(|storage| storage.join("message").join(session).is_dir());
    let storage = storage.ok_or_else(|| {
        UnreadableFile(format!(
            "the messages of {session} are missing beside it: newer versions of OpenCode keep sessions in a \
             database, so run `opencode export {session} > FILE` and import that"
        ))
    })?;
    let mut messages = Vec::new();
    for message in files(&storage.join("message").join(session), left_out) {
        let id = text(&message, "id");
        let parts = match is_name(id) {
            true => files(&storage.join("part").join(id), left_out),
            false => Vec::new(),
        };
        messages.push(json!({ "info": message, "parts": parts }));
    }
    Ok(messages)
}

/// Whether an id names a folder in the storage, and leads nowhere else.
fn is_name(id: &str) -> bool {
    let mut parts = Path::new(id).components();
    matches!(parts.next(), Some(Component::Normal(name)) if name == id) && parts.next().is_none()
}

fn files(folder: &Path, left_out: &mut LeftOut) -> Vec<Value> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort_unstable();
    let mut values = Vec::new();
    for path in paths {
        let read = fs::read(&path).map_err(|error| error.to_string());
        let parsed = read.and_then(|bytes| {
            let text = String::from_utf8_lossy(&bytes);
            serde_json::from_str(&repair(&text)).map_err(|error| error.to_string())
        });
        match parsed {
            Ok(value) => values.push(value),
            Err(why) => left_out.bad.push(format!("{}: {why}", path.display())),
        }
    }
    values
}
