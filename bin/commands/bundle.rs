//! The file of `leftfold export --bundle`: the lines of an export, the full texts of outputs and the
//! snapshots that its events name, between a first line that says so and a last line with the hash of everything before it.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use leftfold_events::event::{Files, Spill, Tool};
use leftfold_events::{Envelope, Event, Sha256, line};
use leftfold_runtime::{Usage, redact_output};
use leftfold_snapshots::{FileMode, Piece, Snapshots, Version};
use leftfold_tools::{MAX_SPILL, base64, decode, is_spill_name};
use serde::{Deserialize, Serialize};

pub(super) const FIRST: &str = "{\"v\":1,\"bundle\":true}\n";

const SNAPSHOT: &str = "{\"v\":1,\"snapshot\":";
const OUTPUT: &str = "{\"v\":1,\"output\":";

/// The line of the full text of an output.
#[derive(Serialize, Deserialize)]
struct OutputLine {
    v: u64,
    output: FullText,
}

#[derive(Serialize, Deserialize)]
struct FullText {
    sha256: Sha256,
    base64: String,
}

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

/// Makes a bundle of the lines of an export. `outputs` are full texts.
///
/// # Errors
/// A snapshot cannot be read, or the bundle is larger than `most`, which `import` reads.
pub(super) fn make(
    lines: &str,
    outputs: impl Iterator<Item = Vec<u8>>,
    events: &[Envelope],
    snapshots: &Snapshots,
    most: usize,
) -> anyhow::Result<String> {
    let mut bundle = format!("{FIRST}{lines}");
    for bytes in outputs {
        let output = FullText { sha256: Sha256::digest(&bytes), base64: base64(&bytes) };
        let line = serde_json::to_string(&OutputLine { v: line::VERSION, output })?;
        bundle.push_str(&(line + "\n"));
        if bundle.len() > most {
            bail!(too_large(most));
        }
    }
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
            bail!(too_large(most));
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

fn too_large(most: usize) -> String {
    format!("the bundle would have more than {} MiB: export without --bundle", most >> 20)
}

/// The full texts that events of the store in `folder` name, each once, one at a time. Unless `unmasked`,
/// texts with tokens are left out: masked they would not be what the events say. Says how many are
/// missing.
pub(super) fn outputs<'a>(
    events: &'a [Envelope],
    folder: &'a Path,
    unmasked: bool,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut known = HashSet::new();
    let named: Vec<&Spill> = events
        .iter()
        .filter_map(|event| spill(&event.event))
        .filter(|spill| known.insert(spill.sha256))
        .collect();
    let (all, mut gone, mut hidden) = (named.len(), 0, 0);
    let note = move |count: usize, why: &str| {
        if count > 0 {
            leftfold_runtime::note(&format!(
                "leftfold: {count} of {all} full texts of outputs {why}, so they are not in the bundle"
            ));
        }
    };
    let mut named = named.into_iter();
    std::iter::from_fn(move || {
        for spill in named.by_ref() {
            let Ok(bytes) = leftfold_store::full_text(folder, spill) else {
                gone += 1;
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            if !unmasked && redact_output::masked(&text) != text {
                hidden += 1;
                continue;
            }
            drop(text);
            return Some(bytes);
        }
        note(std::mem::take(&mut gone), "are not kept any more");
        note(std::mem::take(&mut hidden), "have tokens, which only --unmasked exports");
        None
    })
}

fn spill(event: &Event) -> Option<&Spill> {
    let Event::Tool(Tool::Finished(finished)) = event else { return None };
    finished.spill.as_ref()
}

/// The full texts of a bundle on their way into a new store, in a folder of their own.
pub(super) struct Outputs {
    folder: tempfile::TempDir,
    /// Each with its length.
    kept: HashMap<Sha256, u64>,
}

impl Outputs {
    /// Begins in the folder of sessions.
    pub(super) fn new(sessions: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(sessions).with_context(|| sessions.display().to_string())?;
        let folder = tempfile::Builder::new().prefix(".import-").tempdir_in(sessions)?;
        Ok(Self { folder, kept: HashMap::new() })
    }

    fn add(&mut self, FullText { sha256, base64 }: &FullText) -> anyhow::Result<()> {
        let bytes = decode(base64).context("`base64` is not base64")?;
        if bytes.len() as u64 > MAX_SPILL {
            bail!("the full text of an output has more than {} MiB", MAX_SPILL >> 20);
        }
        if Sha256::digest(&bytes) != *sha256 {
            bail!("the hash of the output is not {sha256}");
        }
        write_new(&self.folder.path().join(sha256.to_string()), &bytes)?;
        self.kept.insert(*sha256, bytes.len() as u64);
        Ok(())
    }

    /// Puts the texts into the store `folder` under the names that events have for them.
    ///
    /// # Errors
    /// No output of this program has such a name or length, two texts have one name, or no event names a
    /// text.
    pub(super) fn keep<'a>(
        self,
        folder: &Path,
        events: impl Iterator<Item = &'a Envelope>,
    ) -> anyhow::Result<()> {
        let (mut names, mut used) = (HashMap::new(), HashSet::new());
        for event in events {
            let Some(Spill { path, sha256, bytes }) = spill(&event.event) else { continue };
            let Some(length) = self.kept.get(sha256) else { continue };
            let name = Path::new(path).file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| is_spill_name(name) && length == bytes) else {
                bail!(Usage(format!(
                    "event {} of {} has an output that has no name or length of one",
                    event.seq, event.session
                )));
            };
            used.insert(*sha256);
            match names.insert(name.to_owned(), *sha256) {
                None => {
                    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                    fs::copy(self.folder.path().join(sha256.to_string()), folder.join(name))?;
                }
                Some(known) if known == *sha256 => {}
                Some(_) => bail!(Usage(format!("two outputs have the name {name}"))),
            }
        }
        match self.kept.keys().find(|sha256| !used.contains(*sha256)) {
            Some(unnamed) => bail!(Usage(format!("no event has the output {unnamed}"))),
            None => Ok(()),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => Ok(file.write_all(bytes)?),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("the output is there twice")
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes the full text in a line, if it has one.
///
/// # Errors
/// The line is damaged, or the folder of sessions cannot be written.
pub(super) fn take_output(
    line: &str,
    outputs: &mut Option<Outputs>,
    sessions: &Path,
) -> anyhow::Result<bool> {
    if !line.starts_with(OUTPUT) {
        return Ok(false);
    }
    let OutputLine { output, .. } = serde_json::from_str(line)?;
    let into = match outputs {
        Some(into) => into,
        None => outputs.insert(Outputs::new(sessions)?),
    };
    into.add(&output)?;
    Ok(true)
}

fn last(before: &[u8]) -> String {
    format!("{{\"v\":1,\"end\":\"{}\"}}\n", Sha256::digest(before))
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
            _ => {}
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
