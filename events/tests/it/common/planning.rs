//! The agents `plan` and `build`, and the calls that switch between them.

use leftfold_events::TurnConfig;
use leftfold_events::event::{Access, CallKind, Class, Resolution};
use leftfold_events::rules::{Action, Rule};

use super::{config, resolution};

/// The turn configuration of `build` or `plan`, each with permission to switch.
pub(crate) fn config_of(agent: &str) -> TurnConfig {
    let mut config = config();
    let plans = agent == "plan";
    let tool = if plans { "plan_exit" } else { "plan_enter" };
    config.rules.extend([tool, "question"].map(|tool| Rule::new(tool, "*", Action::Allow)));
    config.rules.push(Rule::new("edit", "*", if plans { Action::Deny } else { Action::Allow }));
    (config.options.plans, config.options.reminder) = (plans, format!("You are {agent}."));
    config
}

pub(crate) fn exit(id: &str) -> Resolution {
    let mut exit = resolution(id, Class::Read, ("plan_exit", "*"), "");
    exit.name = "plan_exit".into();
    exit.kind = CallKind::SwitchAgent { agent: "build".into() };
    let (permission, patterns, always) = ("question".into(), vec!["Now?".into()], Vec::new());
    exit.access.push(Access { permission, patterns, always });
    exit
}
