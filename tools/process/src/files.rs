//! The limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many open files as thousands of sessions need. Not more: programs that Leftfold starts inherit the
/// limit, and some close every file up to it.
const ENOUGH: u64 = 65_536;

/// Raises the soft limit of open files to the hard one, or to what is enough. Call it at the start of a
/// program: 1,024, the usual soft limit, suffices for some hundred sessions.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = raised(&limit);
    if raised != limit
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::debug!("the limit of open files stays: {error}");
    }
}

fn raised(limit: &Rlimit) -> Rlimit {
    let most = limit.maximum.map_or(ENOUGH, |hard| hard.min(ENOUGH));
    Rlimit { current: limit.current.map(|soft| soft.max(most)), maximum: limit.maximum }
}

/// How many files this process may have open; `None`: there is no limit.
pub fn open_files() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|soft| usize::try_from(soft).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_goes_up_and_never_down() {
        for (soft, hard, raised_to) in [
            (Some(1_024), Some(4_096), Some(4_096)),
            (Some(1_024), Some(1_024), Some(1_024)),
            (Some(1_024), Some(1_000_000), Some(65_536)),
            (Some(1_024), None, Some(65_536)),
            (Some(100_000), Some(1_000_000), Some(100_000)),
            (None, None, None),
        ] {
            let limit = Rlimit { current: soft, maximum: hard };
            assert_eq!(raised(&limit), Rlimit { current: raised_to, maximum: hard });
        }
        assert!(open_files().is_none_or(|files| files > 0));
    }
}
