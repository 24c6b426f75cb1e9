//! `leftfold sessions prune`: removes old idle sessions, and files that nothing refers to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::bail;
use leftfold_events::Time;
use leftfold_store::{Head, Tidied};

use crate::cli::Prune;
use leftfold_runtime::Usage;
use leftfold_runtime::session_list::{self, tidy};
use leftfold_runtime::session_paths::{self, SessionPlace};

const DAY: u64 = 24 * 60 * 60 * 1_000;

pub(crate) fn prune(args: &Prune) -> anyhow::Result<ExitCode> {
    if args.older_than.is_none() && args.max_size.is_none() && !args.unused {
        bail!(Usage(
            "nothing says which sessions to remove: give --older-than DAYS or --max-size SIZE, or --unused for files \
             that no session refers to"
                .into()
        ));
    }
    let mut roots = session_paths::roots()?;
    let is_shared = |store: &Path| session_paths::is_shared(store);
    // the node of the shared store removes sessions that rest
    roots.retain(|(store, _)| is_shared(store) || !leftfold_store::in_use(store));
    let mut freed = 0;
    let mut kept: Vec<PathBuf> = roots.iter().map(|(store, _)| store.clone()).collect();
    kept.dedup();
    for Candidate { store, head, size } in chosen(Candidate::all(roots), args) {
        if !args.dry_run
            && let Err(error) = remove(&store, &head)
        {
            leftfold_runtime::note(&format!("leftfold: cannot remove {}: {error}", head.session));
            continue;
        }
        freed += size;
        kept.retain(|other| *other != store || is_shared(other));
        let done = if args.dry_run { "would be removed" } else { "removed" };
        super::print(&format!("{} {done}: {size} bytes, idle since {}\n", head.session, head.at))?;
    }
    let (held, kept): (Vec<PathBuf>, Vec<PathBuf>) =
        kept.into_iter().partition(|store| leftfold_store::in_use(store));
    for store in held {
        leftfold_runtime::note(&format!(
            "leftfold: a node has the store {}: files that nothing refers to stay until it ends",
            store.display()
        ));
    }
    for store in kept {
        freed += print_removed(&store, &tidy(&store, args.dry_run), args.dry_run)?;
    }
    freed += nurseries(args.dry_run)?;
    super::print(&format!("{freed} bytes {}\n", if args.dry_run { "in all" } else { "freed" }))
}

/// Prints which files were removed from a store, and answers their size in bytes.
pub(super) fn print_removed(store: &Path, tidied: &Tidied, dry: bool) -> anyhow::Result<u64> {
    if !tidied.is_empty() {
        let done = if dry { "would be removed" } else { "removed" };
        let Tidied { payloads, spills, records, temporary, bytes } = tidied;
        let recorded = match records {
            0 => String::new(),
            _ => format!(", {records} recorded requests"),
        };
        super::print(&format!(
            "{}: {payloads} contents and {spills} full texts{recorded} that nothing refers to, and {temporary} \
             half-written files {done}: {bytes} bytes\n",
            store.display()
        ))?;
    }
    Ok(tidied.bytes)
}

/// Removes the remains of interrupted imports beside the sessions, and answers their size in bytes.
fn nurseries(dry: bool) -> anyhow::Result<u64> {
    let entries = std::fs::read_dir(session_paths::data_dir()?.join("sessions"))
        .into_iter()
        .flatten()
        .flatten();
    let mut freed = 0;
    for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(".import-")) {
        let path = entry.path();
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|then| then.elapsed().ok()).unwrap_or_default();
        if age.as_millis() < u128::from(DAY) || leftfold_store::in_use(&path.join("store")) {
            continue;
        }
        let size = size(&path);
        if !dry && let Err(error) = std::fs::remove_dir_all(&path) {
            leftfold_runtime::note(&format!("leftfold: cannot remove {}: {error}", path.display()));
            continue;
        }
        freed += size;
        let done = if dry { "would be removed" } else { "removed" };
        super::print(&format!("{}: an interrupted import {done}: {size} bytes\n", path.display()))?;
    }
    Ok(freed)
}

/// Removes a session that was not continued in the meantime: its store, or its part of the shared
/// one, where a session with forks stays.
fn remove(store: &Path, head: &Head) -> anyhow::Result<()> {
    if !session_paths::is_shared(store) {
        return Ok(leftfold_store::remove(store)?);
    }
    let place = SessionPlace { store: store.to_owned(), session: head.session };
    session_list::remove(&place).map(|_| ())
}

/// A session that may be removed.
struct Candidate {
    store: PathBuf,
    head: Head,
    /// Bytes on the disk. In the shared store they are estimated by the session's number of events.
    size: u64,
}

impl Candidate {
    fn all(roots: Vec<(PathBuf, Head)>) -> Vec<Self> {
        let mut shared = None;
        let of = |(store, head): (PathBuf, Head)| {
            let size = match session_paths::is_shared(&store) {
                false => size(&store),
                true => {
                    let (bytes, events) = *shared.get_or_insert_with(|| {
                        let heads = session_paths::heads_now(&store);
                        (size(&store), heads.iter().map(|head| head.seq).sum::<u64>())
                    });
                    let part = u128::from(bytes) * u128::from(head.seq) / u128::from(events.max(1));
                    u64::try_from(part).unwrap_or(bytes)
                }
            };
            Self { store, head, size }
        };
        roots.into_iter().map(of).collect()
    }
}

/// The sessions to remove, the longest idle first.
fn chosen(mut all: Vec<Candidate>, args: &Prune) -> Vec<Candidate> {
    all.sort_by_key(|one| (one.head.at, one.head.session));
    let now = Time::from(SystemTime::now()).millis();
    let since = args.older_than.map(|days| now.saturating_sub(days.saturating_mul(DAY)));
    let old = |one: &Candidate| since.is_some_and(|since| one.head.at.millis() < since);
    let (mut gone, mut kept): (Vec<_>, Vec<_>) = all.into_iter().partition(old);
    if let Some(most) = args.max_size {
        let mut left: u64 = kept.iter().map(|one| one.size).sum();
        let surplus = kept.iter().take_while(|one| {
            let over = left > most;
            left -= one.size * u64::from(over);
            over
        });
        let surplus = surplus.count();
        gone.extend(kept.drain(..surplus));
    }
    gone
}

/// The disk space of a folder's files, in bytes.
fn size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(of).sum()
}
