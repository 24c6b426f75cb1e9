//! The file of `leftfold export --bundle`: the lines of an export and the snapshots that its events
//! name, between a first line that says so and a last line with the hash of everything before it.

use std::collections::HashSet;

use anyhow::{Context, bail};
use leftfold_events::event::Files;
use leftfold_events::{Envelope, Event, Sha256, line};
use leftfold_runtime::Usage;
use leftfold_snapshots::{FileMode, Piece, Snapshots, Version};
use leftfold_tools::{base64, decode};
use serde::{Deserialize, Serialize};

pub(super) const FIRST: &str = "{\"v\":1,\"bundle\":true}\n";

const SNAPSHOT: &str = "{\"v\":1,\"snapshot\":";

/// The line of a [`Piece`].
#[derive(Serialize, Deserialize)]
struct SnapshotLine {
    v: u64,
    snapshot: Snapshot,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Snapshot {
    Content { object: String, base64: String },
    Tree { name: String, changes: Vec<Change> },
}

/// A file that is new, changed or, without `content`, deleted.
#[derive(Serialize, Deserialize)]
struct Change {
    path: String,
    content: Option<Content>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    mode: String,
    object: String,
}

/// Makes a bundle of the lines of an export.
///
/// # Errors
/// A snapshot cannot be read, or the bundle is larger than `most`, which `import` reads.
pub(super) fn make(
    lines: &str,
    events: &[Envelope],
    snapshots: &Snapshots,
    most: usize,
) -> anyhow::Result<String> {
    let mut bundle = format!("{FIRST}{lines}");
    let trees = trees(events);
    if !trees.is_empty() {
        let mut is_full = false;
        let gone = snapshots.pieces(&trees, &mut |piece| {
            is_full |= bundle.len() > most;
            if !is_full {
                bundle.push_str(&write(piece));
            }
        })?;
        if is_full {
            bail!("the bundle would have more than {} MiB: export without --bundle", most >> 20);
        }
        if !gone.is_empty() {
            leftfold_runtime::note(&format!(
                "leftfold: {} of {} snapshots are not kept any more, so they are not in the bundle",
                gone.len(),
                trees.len()
            ));
        }
    }
    let last = last(bundle.as_bytes());
    Ok(bundle + &last)
}

fn last(before: &[u8]) -> String {
    format!("{{\"v\":1,\"end\":\"{}\"}}\n", Sha256::of(before))
}

/// The lines of a file without its last one, if the file is a bundle.
///
/// # Errors
/// It is a bundle, and damaged.
pub(super) fn checked<'a>(bytes: &'a [u8], name: &str) -> anyhow::Result<&'a [u8]> {
    if !bytes.starts_with(FIRST.as_bytes()) {
        return Ok(bytes);
    }
    let whole = bytes.strip_suffix(b"\n").unwrap_or_default();
    let end = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (lines, rest) = bytes.split_at(end);
    if rest != last(lines).as_bytes() {
        bail!(Usage(format!(
            "{name}: the bundle is cut off or damaged: its last line is not the hash of the lines before it"
        )));
    }
    Ok(lines)
}

/// The trees of snapshots that events name, each once.
fn trees(events: &[Envelope]) -> Vec<&str> {
    let mut trees: Vec<&str> = Vec::new();
    for event in events {
        let Event::Files(files) = &event.event else { continue };
        match files {
            Files::Snapshotted { tree, .. } => trees.push(tree),
            Files::RestoreStarted { before, paths, .. } => {
                trees.push(before);
                trees.extend(paths.iter().map(|saved| saved.tree.as_str()));
            }
            Files::Restored { before, tree, .. } => trees.extend([before.as_str(), tree]),
            Files::CheckoutAsked { paths, .. } => {
                trees.extend(paths.iter().map(|saved| saved.tree.as_str()));
            }
            Files::SnapshotStarted {}
            | Files::SnapshotFailed { .. }
            | Files::SnapshotFailedAs { .. }
            | Files::RevertAsked { .. }
            | Files::UnrevertAsked { .. }
            | Files::RestoreFailed { .. }
            | Files::RestoreFailedAs { .. }
            | Files::SnapshotsAccepted { .. } => {}
        }
    }
    let mut known = HashSet::new();
    trees.retain(|tree| !tree.is_empty() && known.insert(*tree));
    trees
}

fn write(piece: Piece) -> String {
    let change = |(path, version): (String, Option<Version>)| {
        let content = |Version { mode, object }| Content { mode: mode.git().to_owned(), object };
        Change { path, content: version.map(content) }
    };
    let snapshot = match piece {
        Piece::Content { object, bytes } => Snapshot::Content { object, base64: base64(&bytes) },
        Piece::Tree { name, changes } => {
            Snapshot::Tree { name, changes: changes.into_iter().map(change).collect() }
        }
    };
    // plain data: serialising it cannot fail
    let line = serde_json::to_string(&SnapshotLine { v: line::VERSION, snapshot });
    line.unwrap_or_default() + "\n"
}

/// The piece of a snapshot in a line, if it has one.
///
/// # Errors
/// The line is damaged.
pub(super) fn read(line: &str) -> anyhow::Result<Option<Piece>> {
    if !line.starts_with(SNAPSHOT) {
        return Ok(None);
    }
    let SnapshotLine { snapshot, .. } = serde_json::from_str(line)?;
    let version = |Content { mode, object }: Content| {
        let known = FileMode::of_git(&mode);
        let mode = known.context("the mode of a file is not 100644, 100755 or 120000")?;
        anyhow::Ok(Version { mode, object })
    };
    let change = |Change { path, content }| Ok((path, content.map(version).transpose()?));
    Ok(Some(match snapshot {
        Snapshot::Content { object, base64 } => {
            let bytes = decode(&base64).context("`base64` is not base64")?;
            Piece::Content { object, bytes }
        }
        Snapshot::Tree { name, changes } => {
            let changes = changes.into_iter().map(change).collect::<anyhow::Result<_>>()?;
            Piece::Tree { name, changes }
        }
    }))
}
