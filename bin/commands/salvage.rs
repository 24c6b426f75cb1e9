//! `leftfold check --salvage`: writes a new store from everything that can still be read. Pieces
//! that form no log go to `lost+found/` beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use leftfold_events::{SessionId, line};
use leftfold_store::{Fragment, Rescued, Salvaged};
use serde_json::{Value, json};

use crate::cli::Format;
use leftfold_runtime::Usage;
use leftfold_runtime::lines::Lines;

/// The folder for pieces that form no log, in the new store's folder.
const LOST_AND_FOUND: &str = "lost+found";

/// Where new stores go: a single one into the folder itself, several into subfolders named after
/// their sessions.
pub(crate) struct Target {
    folder: PathBuf,
    several: bool,
}

impl Target {
    /// # Errors
    /// The folder is not empty.
    pub(crate) fn new(folder: &Path, stores: usize) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let found = match fs::read_dir(&folder) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => bail!(Usage(format!("--salvage {}: {error}", folder.display()))),
        };
        if found {
            bail!(Usage(format!(
                "{} is not empty: --salvage needs an empty folder or one that does not exist yet",
                folder.display()
            )));
        }
        Ok(Self { folder, several: stores > 1 })
    }

    fn of(&self, session: SessionId) -> PathBuf {
        if self.several { self.folder.join(session.to_string()) } else { self.folder.clone() }
    }

    /// Salvages a store, and answers the report, line by line.
    ///
    /// # Errors
    /// Nothing can be read, or the new store cannot be written. No part of it remains then.
    pub(crate) fn salvage(
        &self,
        store: &Path,
        session: SessionId,
        format: Format,
    ) -> anyhow::Result<Vec<String>> {
        let to = self.of(session);
        if to.starts_with(store) {
            bail!(Usage(format!(
                "{} is inside the damaged store, which must not change: name another folder",
                to.display()
            )));
        }
        let parent = to.parent().context("--salvage needs a folder whose parent exists")?;
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let nursery = tempfile::Builder::new().prefix(".salvage-").tempdir_in(parent)?;
        let new = nursery.path().join("store");
        let salvaged = leftfold_store::salvage(store, &new)?;
        let beside = write_beside(&new.join(LOST_AND_FOUND), &salvaged)
            .context("cannot write lost+found")?;
        // The rename makes the store appear complete or not at all; it may replace an empty folder.
        fs::rename(&new, &to).with_context(|| to.display().to_string())?;
        fs::File::open(parent)?.sync_all()?;
        Ok(report(&salvaged, &beside, &to, format))
    }
}

/// File names, and a description of each file's contents.
type Beside = Vec<(String, String)>;

fn write_beside(folder: &Path, salvaged: &Salvaged) -> std::io::Result<Beside> {
    let mut beside = Beside::new();
    let mut put = |name: String, bytes: &[u8], what: String| {
        fs::create_dir_all(folder)?;
        let mut file = fs::File::create(folder.join(&name))?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        beside.push((name, what));
        std::io::Result::Ok(())
    };
    for rescued in salvaged.sessions.iter().filter(|session| !session.beside.is_empty()) {
        let mut lines = Lines::default();
        let text: String = rescued
            .beside
            .iter()
            .flat_map(|event| lines.for_event(event))
            .map(|l| l + "\n")
            .collect();
        let what = format!("{} events of {}", rescued.beside.len(), rescued.session);
        put(format!("{}.jsonl", rescued.session), text.as_bytes(), what)?;
    }
    if !salvaged.payloads.is_empty() {
        let lines = salvaged.payloads.iter().map(|payload| line::write_payload(payload) + "\n");
        let what = format!("{} contents that no event names", salvaged.payloads.len());
        put("payloads.jsonl".into(), lines.collect::<String>().as_bytes(), what)?;
    }
    if !salvaged.fragments.is_empty() {
        let lines = salvaged.fragments.iter().map(|fragment| fragment_line(fragment) + "\n");
        let what = format!("{} records of what is not whole", salvaged.fragments.len());
        put("fragments.jsonl".into(), lines.collect::<String>().as_bytes(), what)?;
    }
    for path in &salvaged.files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        put(name, &fs::read(path)?, "contents that nothing names".into())?;
    }
    Ok(beside)
}

/// People get the readable text of a fragment; the raw bytes are included unchanged.
fn fragment_line(fragment: &Fragment) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({
        "session": fragment.session,
        "seq": fragment.seq,
        "part": fragment.key.last(),
        "key": hex(&fragment.key),
        "value": hex(&fragment.value),
        "text": String::from_utf8_lossy(&fragment.value),
    })
    .to_string()
}

fn report(salvaged: &Salvaged, beside: &Beside, to: &Path, format: Format) -> Vec<String> {
    if format == Format::Json {
        return salvaged
            .sessions
            .iter()
            .map(|session| described(session, to).to_string())
            .collect();
    }
    let mut lines: Vec<String> = salvaged.sessions.iter().map(sentence).collect();
    let place = to.join(LOST_AND_FOUND);
    lines.extend(
        beside.iter().map(|(name, what)| format!("{}: {what}", place.join(name).display())),
    );
    lines.push(format!("salvaged into {}", to.display()));
    lines
}

fn described(rescued: &Rescued, to: &Path) -> Value {
    let beside: Vec<u64> = rescued.beside.iter().map(|event| event.seq).collect();
    json!({
        "salvaged": rescued.session,
        "kept": rescued.kept.map(|(first, last)| [first, last]),
        "beside": beside,
        "lost": rescued.lost().iter().map(|(first, last)| [first, last]).collect::<Vec<_>>(),
        "why": rescued.why,
        "folder": to,
    })
}

fn sentence(rescued: &Rescued) -> String {
    let span = |first: u64, last: u64| match first == last {
        true => format!("event {first}"),
        false => format!("events {first} to {last}"),
    };
    let mut line = format!("{}: ", rescued.session);
    match rescued.kept {
        Some((first, last)) => line += &format!("{} kept", span(first, last)),
        None => line += "no log",
    }
    if !rescued.beside.is_empty() {
        let (count, session) = (rescued.beside.len(), rescued.session);
        line += &format!(", {count} more in {LOST_AND_FOUND}/{session}.jsonl");
    }
    let lost: Vec<String> = rescued.lost().into_iter().map(|(a, b)| span(a, b)).collect();
    if !lost.is_empty() {
        line += &format!(", lost: {}", lost.join(", "));
    }
    if let Some(why) = &rescued.why {
        line += &format!(" ({why})");
    }
    line
}
