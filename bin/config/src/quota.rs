//! Limits of projects by day. Only the user's own settings count; the loader drops those that came with a project.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use leftfold_events::rules;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::source::{SettingPlace, Source};
use crate::typed::{AMOUNT, At};

/// The key in settings.
pub(crate) const KEY: &str = "quota";

/// The most that a project may use on a day (UTC).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Quota {
    /// Sessions that begin, without subagents.
    pub(crate) sessions_per_day: Option<At<u64>>,
    /// US dollars that requests to models cost.
    #[serde(deserialize_with = "cost")]
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(crate) cost_per_day: Option<At<f64>>,
}

fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<At<f64>>, D::Error> {
    let cost = Option::<At<f64>>::deserialize(deserializer)?;
    match cost.as_ref().is_some_and(|cost| **cost < 0.0) {
        true => Err(serde::de::Error::custom(AMOUNT)),
        false => Ok(cost),
    }
}

/// A limit, and the setting that gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit<T> {
    pub most: T,
    /// `quota.PATTERN.KEY`.
    pub setting: String,
    pub place: SettingPlace,
}

impl<T> fmt::Display for Limit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in {}", self.setting, self.place)
    }
}

/// The limits of one project.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectQuota {
    pub sessions: Option<Limit<u64>>,
    pub cost: Option<Limit<f64>>,
}

impl ProjectQuota {
    pub fn is_none(&self) -> bool {
        self.sessions.is_none() && self.cost.is_none()
    }
}

impl ProjectQuota {
    /// The limits of the project with this worktree. Of several that match, the last counts: that of the strongest
    /// source, and in a file the lowest one. `sources` are in order, weakest first.
    pub(crate) fn for_project(quotas: &Quotas, sources: &[Arc<Source>], worktree: &Path) -> Self {
        let of_project = OfProject { quotas, sources, worktree };
        Self {
            sessions: of_project.limit("sessions_per_day", |quota| quota.sessions_per_day.as_ref()),
            cost: of_project.limit("cost_per_day", |quota| quota.cost_per_day.as_ref()),
        }
    }
}

struct OfProject<'a> {
    quotas: &'a Quotas,
    sources: &'a [Arc<Source>],
    worktree: &'a Path,
}

impl OfProject<'_> {
    fn limit<T: Copy>(&self, key: &str, of: impl Fn(&Quota) -> Option<&At<T>>) -> Option<Limit<T>> {
        let strength =
            |place: &SettingPlace| self.sources.iter().position(|source| **source == *place.source);
        let all = self.quotas.iter().enumerate().filter_map(|(nth, (pattern, quota))| {
            let limit = of(quota)?;
            let matches = is_of(&limit.place().source.at_home(pattern), self.worktree);
            let order = (strength(limit.place()), nth);
            matches.then_some((order, pattern, limit))
        });
        let (_, pattern, limit) = all.max_by_key(|(order, ..)| *order)?;
        let setting = format!("{KEY}.{pattern}.{key}");
        Some(Limit { most: **limit, setting, place: limit.place().clone() })
    }
}

/// Whether a pattern is for the project: a folder that has it, or with wildcards a text that its whole path fits.
fn is_of(pattern: &str, worktree: &Path) -> bool {
    match pattern.contains(['*', '?']) {
        true => worktree.to_str().is_some_and(|path| rules::matches(pattern, path)),
        false => worktree.starts_with(pattern),
    }
}

/// The limits by pattern.
pub(crate) type Quotas = IndexMap<String, At<Quota>>;
