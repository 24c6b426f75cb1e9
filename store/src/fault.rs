//! Crash injection for tests. Debug builds kill their own process at the boundary of the log's
//! writer that `LEFTFOLD_CRASH_AT=GROUP:BOUNDARY` names.
//!
//! `LEFTFOLD_CRASH_AT=7:synced` is SIGKILL at the seventh group of appends that this process makes
//! durable, counted from 1 over all its stores. No destructor runs and no append is acknowledged
//! after it. The boundaries are `before` (the group is not yet written), `synced` (its records are
//! on the disk) and `headed` (its heads are written, but it is not yet acknowledged).
//!
//! `LEFTFOLD_SLOW_COMMITS=MILLISECONDS` delays each group before it is written, so that whatever does
//! not wait for its flush is seen to come too early.
//!
//! `LEFTFOLD_COUNT_GROUPS=FILE` appends one byte to the file for each group, so that a test knows how
//! many there are.
//!
//! `LEFTFOLD_SCHEMA=2` writes logs as they were before schema 3. Other numbers than 2 and 3 write
//! stores that this version refuses. Release builds contain none of this code.

use crate::chain::{OLDEST, SCHEMA};

/// A boundary within the commit of one group of appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// No record of the group is written.
    Before,
    /// The group's records are on the disk. Its heads do not include it yet.
    Synced,
    /// The group's heads are written. It is not acknowledged.
    Headed,
}

#[cfg(not(debug_assertions))]
pub(crate) fn crash_if_planned(_: Boundary) {}

/// The schema that new records name.
#[cfg(not(debug_assertions))]
pub(crate) fn label() -> u8 {
    SCHEMA
}

/// The schema that new records name: `LEFTFOLD_SCHEMA`, if it is a number from 1.
#[cfg(debug_assertions)]
pub(crate) fn label() -> u8 {
    use std::sync::OnceLock;

    static WRITTEN: OnceLock<u8> = OnceLock::new();

    let wanted = || std::env::var("LEFTFOLD_SCHEMA").ok()?.parse().ok();
    *WRITTEN.get_or_init(|| wanted().filter(|schema| *schema > 0).unwrap_or(SCHEMA))
}

/// The schema of which new events have the form.
pub(crate) fn schema() -> u8 {
    label().clamp(OLDEST, SCHEMA)
}

/// Kills the process if `LEFTFOLD_CRASH_AT` names this boundary of this group.
#[cfg(debug_assertions)]
pub(crate) fn crash_if_planned(boundary: Boundary) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static DELAY: OnceLock<u64> = OnceLock::new();
    static PLAN: OnceLock<Option<(u64, Boundary)>> = OnceLock::new();
    static COUNT: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    static GROUPS: AtomicU64 = AtomicU64::new(0);

    let delay = || std::env::var("LEFTFOLD_SLOW_COMMITS").ok()?.parse().ok();
    let delay = *DELAY.get_or_init(|| delay().unwrap_or_default());
    if boundary == Boundary::Before && delay > 0 {
        std::thread::sleep(std::time::Duration::from_millis(delay));
    }
    let count = COUNT.get_or_init(|| std::env::var_os("LEFTFOLD_COUNT_GROUPS").map(Into::into));
    if let (Boundary::Before, Some(path)) = (boundary, count) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| std::io::Write::write_all(&mut file, b".")) {
            tracing::error!("a group is not counted: {error}");
        }
    }
    let plan = PLAN.get_or_init(|| plan(&std::env::var("LEFTFOLD_CRASH_AT").ok()?));
    let Some((group, wanted)) = *plan else { return };
    if boundary == Boundary::Before {
        GROUPS.fetch_add(1, Ordering::Relaxed);
    }
    if (GROUPS.load(Ordering::Relaxed), boundary) == (group, wanted) {
        let killed =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        tracing::error!("the process survives: {killed:?}");
    }
}

#[cfg(debug_assertions)]
fn plan(text: &str) -> Option<(u64, Boundary)> {
    let (group, boundary) = text.split_once(':')?;
    let boundary = match boundary {
        "before" => Boundary::Before,
        "synced" => Boundary::Synced,
        "headed" => Boundary::Headed,
        _ => return None,
    };
    Some((group.parse().ok()?, boundary))
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_group_and_a_boundary_of_it() {
        assert_eq!(plan("7:synced"), Some((7, Boundary::Synced)));
        assert_eq!(plan("1:before"), Some((1, Boundary::Before)));
        assert_eq!(plan("12:headed"), Some((12, Boundary::Headed)));
        for nonsense in ["", "7", "synced", "7:after", "x:synced"] {
            assert_eq!(plan(nonsense), None, "{nonsense}");
        }
    }
}
