//! The use of quotas: sessions and cost of a project on one day. It is kept with the heads, so no log
//! is folded for it.

use leftfold_events::Sha256;
use leftfold_events::event::Cost;

use crate::day::Day;
use crate::head::{Head, Summary};

/// The sessions and the cost of a project on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Sessions with their first prompt on this day, without subagents.
    pub sessions: u64,
    /// US dollars that requests of its sessions and their subagents cost.
    pub cost: Cost,
}

impl Used {
    /// By the sessions with these heads, of the project with this worktree.
    pub fn by<'a>(heads: impl IntoIterator<Item = &'a Head>, worktree: &str, day: Day) -> Self {
        let mut used = Self::default();
        let summaries = heads.into_iter().filter_map(|head| head.summary.as_ref());
        for summary in summaries.filter(|summary| summary.worktree == worktree) {
            used.add(DayUse::from_summary(summary).on(day));
        }
        used
    }

    pub fn add(&mut self, more: Self) {
        self.sessions += more.sessions;
        self.cost += more.cost;
    }
}

/// The share of one session. An engine can keep it so that it finds the sessions of a project and a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayUse {
    /// The hash of the project's worktree.
    pub project: Sha256,
    /// The day of its first prompt. `None` for a subagent, too.
    pub first_prompt: Option<Day>,
    /// The day of its last event, and the cost of its requests on that day.
    pub last: Day,
    pub cost: Cost,
}

impl DayUse {
    pub fn from_summary(summary: &Summary) -> Self {
        let is_subagent = summary.parent.is_some();
        // a wrong number in a log must not make every sum wrong
        let cost = if summary.last_cost.is_finite() { summary.last_cost.max(0.0) } else { 0.0 };
        Self {
            project: project(&summary.worktree),
            first_prompt: summary.first_prompt.filter(|_| !is_subagent),
            last: summary.last_day,
            cost,
        }
    }

    fn on(self, day: Day) -> Used {
        Used {
            sessions: u64::from(self.first_prompt == Some(day)),
            cost: if self.last == day { self.cost } else { 0.0 },
        }
    }
}

/// The hash by which engines know a project. Paths have no limit that a key of a database has.
pub fn project(worktree: &str) -> Sha256 {
    Sha256::digest(worktree.as_bytes())
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{Finish, Model, ModelRef, PromptPart, Session, Turn, Usage};
    use leftfold_events::{Envelope, Event, SessionId, Time};

    use super::*;
    use crate::day::MILLIS;

    const TODAY: Day = 20_000;

    fn at(day: Day, event: impl Into<Event>) -> Envelope {
        Envelope {
            seq: 1,
            session: SessionId::default(),
            at: Time::from_millis(u64::from(day) * MILLIS + 5),
            of: None,
            until: None,
            event: event.into(),
            notes: Default::default(),
        }
    }

    fn created(worktree: &str, parent: Option<SessionId>) -> Session {
        Session::Created {
            directory: format!("{worktree}/src"),
            worktree: worktree.into(),
            parent,
            agent: "build".into(),
            version: String::new(),
            policy: 1,
        }
    }

    fn prompted() -> Turn {
        let (parts, by) = (vec![PromptPart::text("go")], "cli".to_owned());
        Turn::Prompted { parts, agent: "build".into(), model: ModelRef::default(), by }
    }

    fn cost(cost: f64) -> Model {
        let (usage, body_sha256) = (Usage::default(), Sha256::digest(b""));
        Model::Finished { finish: Finish::Stop, usage, cost, body_sha256 }
    }

    fn head(events: &[Envelope]) -> Head {
        let mut summary = Summary::default();
        events.iter().for_each(|event| summary.add(event));
        let (session, at) = (SessionId::default(), Time::default());
        Head { session, seq: 1, chain: [0; 16], at, summary: Some(summary) }
    }

    fn used(heads: &[Head], day: Day) -> (u64, f64) {
        let used = Used::by(heads, "/p", day);
        (used.sessions, used.cost)
    }

    #[test]
    fn a_session_counts_on_the_day_of_its_first_prompt_and_costs_on_each_day_its_own() {
        let mut events = vec![at(TODAY - 1, created("/p", None))];
        assert_eq!(used(&[head(&events)], TODAY - 1), (0, 0.0), "it has no prompt");
        events.extend([at(TODAY - 1, prompted()), at(TODAY - 1, cost(1.0))]);
        events.push(at(TODAY - 1, cost(0.5)));
        assert_eq!(used(&[head(&events)], TODAY - 1), (1, 1.5));
        assert_eq!(used(&[head(&events)], TODAY), (0, 0.0));
        events.extend([at(TODAY, prompted()), at(TODAY, cost(0.25))]);
        let later = head(&events);
        assert_eq!(used(std::slice::from_ref(&later), TODAY), (0, 0.25));
        assert_eq!(later.summary.unwrap().cost, 1.75);
    }

    #[test]
    fn subagents_count_with_their_cost_alone_and_other_projects_not_at_all() {
        let with = |worktree, parent| {
            let events = vec![
                at(TODAY, created(worktree, parent)),
                at(TODAY, prompted()),
                at(TODAY, cost(1.0)),
            ];
            head(&events)
        };
        let parent = SessionId::from_bytes([1; 16]);
        let heads = [with("/p", None), with("/p", Some(parent)), with("/p2", None)];
        assert_eq!(used(&heads, TODAY), (1, 2.0));
        let wrong = head(&[
            at(TODAY, created("/p", None)),
            at(TODAY, prompted()),
            at(TODAY, cost(f64::NAN)),
        ]);
        assert_eq!(used(&[wrong, heads[0].clone()], TODAY), (2, 1.0));
    }

    #[test]
    fn a_session_of_an_earlier_version_has_begun_before() {
        let old = Summary { prompt: Some("go".into()), turns: 1, ..Summary::default() };
        assert!(old.has_begun() && !Summary::default().has_begun());
        let mut old = Summary { worktree: "/p".into(), ..old };
        old.add(&at(TODAY, prompted()));
        old.add(&at(TODAY, cost(2.0)));
        let head = Head { summary: Some(old), ..head(&[]) };
        assert_eq!(used(&[head], TODAY), (0, 2.0));
    }
}
