//! Plugins, and what they say.

use leftfold_events::event::{Heard, Hook, Plugin};
use leftfold_events::kit::PluginSpec;
use leftfold_events::state::Open;
use leftfold_events::{Fact, Json, Kit};

use super::{Run, Step, Step::*, kit};

/// [`kit`] with a plugin for each of these lists of hooks: `p1`, `p2` and so on.
pub(crate) fn plugged(hooks: &[&[Hook]]) -> Kit {
    let mut kit = kit();
    let spec = |(at, hooks): (usize, &&[Hook])| PluginSpec {
        name: format!("p{}", at + 1),
        hooks: hooks.to_vec(),
        timeout: 1_000,
    };
    kit.options.plugins = hooks.iter().enumerate().map(spec).collect();
    kit
}

impl Run {
    /// What the plugin says that was asked first.
    pub(super) fn said(&self, step: &Step) -> Fact {
        let (outcome, output) = match step {
            Hear(output) => (Heard::Answered, *output),
            NotHeard(outcome) => (*outcome, "{}"),
            _ => panic!("{step:?} has nothing to do with plugins"),
        };
        let output = Json::parse(output).expect("JSON");
        let message = (outcome != Heard::Answered).then(|| "no".to_owned());
        let of = self.open(Open::Plugin).unwrap_or(0);
        Fact::of(of, Plugin::Answered { outcome, output, message })
    }
}
