//! `leftfold sessions prune`: removes old idle sessions, and files that nothing refers to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use leftfold_events::Time;
use leftfold_store::{Head, Tidied};

use crate::cli::Prune;
use leftfold_runtime::session_list::tidy;
use leftfold_runtime::session_paths;

const DAY: u64 = 24 * 60 * 60 * 1_000;

pub(crate) fn prune(args: &Prune) -> anyhow::Result<ExitCode> {
    let mut roots = session_paths::roots()?;
    roots.retain(|(store, _)| !leftfold_store::in_use(store));
    let mut freed = 0;
    let mut kept: Vec<PathBuf> = roots.iter().map(|(store, _)| store.clone()).collect();
    for (store, head) in chosen(roots, args) {
        let size = size(&store);
        if !args.dry_run {
            // A session that was continued in the meantime stays.
            if let Err(error) = leftfold_store::remove(&store) {
                leftfold_runtime::note(&format!(
                    "leftfold: cannot remove {}: {error}",
                    head.session
                ));
                continue;
            }
        }
        freed += size;
        kept.retain(|other| *other != store);
        let done = if args.dry_run { "would be removed" } else { "removed" };
        super::print(&format!("{} {done}: {size} bytes, idle since {}\n", head.session, head.at))?;
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

/// The sessions to remove, the longest idle first.
fn chosen(mut roots: Vec<(PathBuf, Head)>, args: &Prune) -> Vec<(PathBuf, Head)> {
    roots.sort_by_key(|(_, head)| (head.at, head.session));
    let now = Time::from(SystemTime::now()).millis();
    let since = args.older_than.map(|days| now.saturating_sub(days.saturating_mul(DAY)));
    let old = |head: &Head| since.is_some_and(|since| head.at.millis() < since);
    let (mut gone, mut kept): (Vec<_>, Vec<_>) = roots.into_iter().partition(|(_, head)| old(head));
    if let Some(most) = args.max_size {
        let sizes: Vec<u64> = kept.iter().map(|(store, _)| size(store)).collect();
        let mut left: u64 = sizes.iter().sum();
        let surplus = sizes.iter().take_while(|size| {
            let over = left > most;
            left -= **size * u64::from(over);
            over
        });
        gone.extend(kept.drain(..surplus.count()));
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
