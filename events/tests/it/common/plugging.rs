//! Plugins and their answers.

use leftfold_events::event::{Hook, HookOutcome, HookPoint};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::PluginSpec;
use leftfold_events::{Fact, Json, TurnConfig};

use super::{Run, Step, Step::*, config};

/// [`turn configuration`] with a plugin for each of these lists of hooks: `p1`, `p2` and so on.
pub(crate) fn plugged(hooks: &[&[HookPoint]]) -> TurnConfig {
    let mut config = config();
    let spec = |(at, hooks): (usize, &&[HookPoint])| PluginSpec {
        name: format!("p{}", at + 1),
        hooks: hooks.to_vec(),
        timeout: 1_000,
    };
    config.options.plugins = hooks.iter().enumerate().map(spec).collect();
    config
}

impl Run {
    /// The answer of the plugin that was called first.
    pub(super) fn said(&self, step: &Step) -> Fact {
        let (outcome, output) = match step {
            Hear(output) => (HookOutcome::Returned, *output),
            NotHeard(outcome) => (*outcome, "{}"),
            _ => panic!("{step:?} has nothing to do with plugins"),
        };
        let output = Json::parse(output).expect("JSON");
        let message = (outcome != HookOutcome::Returned).then(|| "no".to_owned());
        let of = self.open(PendingKind::Hook).unwrap_or(0);
        Fact::for_intent(of, Hook::Returned { outcome, output, message })
    }
}
