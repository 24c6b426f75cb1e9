//! Quotas of projects: how many sessions may begin on a day, and what requests may cost. They are judged when a prompt is
//! given; a turn that runs is not cut off.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

use leftfold_config::ProjectQuota;
use leftfold_events::{SessionId, Time};
use leftfold_store::day::{self, Day};
use leftfold_store::usage::Used;

use crate::session_paths::{self, SessionPlace};

/// The quota that a prompt has to fit.
#[derive(Clone, Debug)]
pub struct PromptQuota {
    quota: ProjectQuota,
    worktree: PathBuf,
    place: SessionPlace,
}

impl PromptQuota {
    /// `None`: nothing limits the project.
    pub(crate) fn new(quota: ProjectQuota, worktree: PathBuf, place: SessionPlace) -> Option<Self> {
        (!quota.is_none()).then_some(Self { quota, worktree, place })
    }

    /// Judges a prompt by what the project has used today. Waits for the store. One that `asks` no model costs nothing.
    ///
    /// # Errors
    /// [`QuotaReached`], or the store cannot be read.
    pub(crate) async fn check(mut self, asks: bool) -> anyhow::Result<()> {
        if !asks {
            self.quota.cost = None;
        }
        tokio::task::spawn_blocking(move || self.judge(Time::from(SystemTime::now()))).await?
    }

    fn judge(&self, now: Time) -> anyhow::Result<()> {
        let used = self.used(day::day_of(now))?;
        let begins = !leftfold_store::has_begun(&self.place.store, self.place.session)?;
        Ok(judge(&self.quota, &used, begins, now).map_err(|why| self.refusal(&why))?)
    }

    /// By the sessions of all nodes if a database keeps them, and else by those of this machine.
    fn used(&self, day: Day) -> anyhow::Result<Used> {
        let (store, worktree) = (&self.place.store, self.worktree.to_string_lossy());
        let mut stores = BTreeSet::from([store.clone()]);
        if leftfold_store::database_of(store)?.is_none() {
            // a path may lead to the session's own folder in another way
            let real = |store: PathBuf| store.canonicalize().unwrap_or(store);
            stores.extend(session_paths::stores()?);
            stores = stores.into_iter().map(real).collect();
        }
        let mut used = Used::default();
        for store in stores {
            used.add(leftfold_store::used(&store, &worktree, day)?);
        }
        Ok(used)
    }

    fn refusal(&self, why: &str) -> QuotaReached {
        let project = self.worktree.display();
        QuotaReached { session: self.place.session, why: format!("{project}: {why}") }
    }
}

/// A prompt that a quota refuses. Nothing is in the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct QuotaReached {
    pub session: SessionId,
    why: String,
}

/// Why a prompt at that time is refused, after the project has used so much on that day; `begins`: it is the session's first.
fn judge(quota: &ProjectQuota, used: &Used, begins: bool, now: Time) -> Result<(), String> {
    let free = day::end_of(day::day_of(now));
    if let Some(limit) =
        quota.sessions.as_ref().filter(|limit| begins && used.sessions >= limit.most)
    {
        return Err(format!(
            "{} of {} sessions of today have begun ({limit}); a session that has begun goes on, and new ones may begin \
             at {free}",
            used.sessions, limit.most
        ));
    }
    if let Some(limit) = quota.cost.as_ref().filter(|limit| used.cost >= limit.most) {
        return Err(format!(
            "requests of today have cost ${:.2} of ${:.2} ({limit}); prompts are taken again at {free}",
            used.cost, limit.most
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use leftfold_config::{Limit, SettingPlace};
    use serde_json::json;

    use super::*;

    fn limit<T>(most: T, key: &str) -> Limit<T> {
        let source = json!({
            "name": "/ann/leftfold.json", "base": "/ann", "own": true, "kind": "File",
            "of_project": false, "home": null,
        });
        let place = json!({ "source": source, "line": 3, "column": 5 });
        let place: SettingPlace = serde_json::from_value(place).unwrap();
        Limit { most, setting: format!("quota.*.{key}"), place }
    }

    /// Limits and use, whether the prompt is the session's first, and the text of the refusal.
    struct Case {
        sessions: Option<u64>,
        cost: Option<f64>,
        used: Used,
        begins: bool,
        refused: Option<&'static str>,
    }

    #[test]
    fn prompts_are_judged_by_what_was_used() {
        let used = |sessions, cost| Used { sessions, cost };
        let case =
            |sessions, cost, used, begins, refused| Case { sessions, cost, used, begins, refused };
        let of_sessions = "2 of 2 sessions of today have begun (`quota.*.sessions_per_day` in /ann/leftfold.json:3:5)";
        let of_cost = "requests of today have cost $1.50 of $1.50 (`quota.*.cost_per_day` in /ann/leftfold.json:3:5)";
        for (number, case) in [
            case(None, None, used(900, 900.0), true, None),
            case(Some(2), None, used(0, 9.0), true, None),
            case(Some(2), None, used(1, 9.0), true, None),
            case(Some(2), None, used(2, 0.0), true, Some(of_sessions)),
            // one that has begun goes on
            case(Some(2), None, used(2, 0.0), false, None),
            case(Some(2), None, used(7, 0.0), false, None),
            case(Some(0), None, used(0, 0.0), true, Some("0 of 0 sessions")),
            case(None, Some(1.5), used(9, 1.49), true, None),
            case(None, Some(1.5), used(0, 1.5), true, Some(of_cost)),
            case(None, Some(1.5), used(0, 1.5), false, Some(of_cost)),
            case(None, Some(1.5), used(0, 20.0), false, Some("$20.00 of $1.50")),
            case(None, Some(0.0), used(0, 0.0), false, Some("$0.00 of $0.00")),
            case(Some(2), Some(1.5), used(2, 2.0), true, Some("sessions of today")),
            case(Some(2), Some(1.5), used(2, 2.0), false, Some("requests of today")),
            case(Some(2), Some(1.5), used(1, 1.0), true, None),
        ]
        .into_iter()
        .enumerate()
        {
            let quota = ProjectQuota {
                sessions: case.sessions.map(|most| limit(most, "sessions_per_day")),
                cost: case.cost.map(|most| limit(most, "cost_per_day")),
            };
            let now = Time::from_millis(1_795_291_762_123);
            let judged = judge(&quota, &case.used, case.begins, now);
            match (judged, case.refused) {
                (Ok(()), None) => {}
                (Err(why), Some(says)) => {
                    assert!(why.contains(says), "{number}: {why}");
                    assert!(why.contains("at 2026-11-22T00:00:00.000Z"), "{number}: {why}");
                }
                (judged, refused) => panic!("{number}: {judged:?}, not {refused:?}"),
            }
        }
    }
}
