//! Plugins and their answers: in time, late, or never.

use leftfold_events::event::{Hook, HookOutcome, HookPoint};
use leftfold_events::turn_config::PluginSpec;
use leftfold_events::{Fact, Json, Seq};

use super::random::Random;
use super::session::Item;
use super::world::World;

/// Some plugins with all hooks, and some with few.
pub(crate) fn plugins(random: &mut Random) -> Vec<PluginSpec> {
    let count = random.choose(&[0, 0, 1, 2]);
    let spec = |at: usize| {
        let timeout = random.choose(&[500, 3_000]);
        let few = random.one_in(2);
        let hooks = HookPoint::ALL.into_iter().filter(|_| !few || random.one_in(3)).collect();
        PluginSpec { name: format!("p{at}"), hooks, timeout }
    };
    (0..count).map(spec).collect()
}

impl World {
    pub(crate) fn hear(&mut self, at: usize, of: Seq, hook: HookPoint) {
        if self.random.one_in(15) {
            return;
        }
        let outcome = match self.random.below(20) {
            0 => HookOutcome::TimedOut,
            1 => HookOutcome::Gone,
            2 => HookOutcome::Failed,
            _ => HookOutcome::Returned,
        };
        let said = self.random.choose(words(hook));
        let said = if outcome == HookOutcome::Returned { said } else { "{}" };
        let (output, message) = (Json::parse(said).unwrap_or_default(), None);
        let delay = self.random.below(400);
        let answered = Hook::Returned { outcome, output, message };
        self.say(at, delay, Item::Fact(Fact::for_intent(of, answered)));
    }
}

/// Random answers, some of an invalid form.
fn words(hook: HookPoint) -> &'static [&'static str] {
    match hook {
        HookPoint::ChatMessage => {
            &["{}", r#"{"append":"more"}"#, r#"{"parts":[]}"#, r#"{"parts":[{"text":" "}]}"#]
        }
        HookPoint::ChatParams => &["{}", r#"{"temperature":1,"options":{"a":null}}"#, "[]"],
        HookPoint::ToolBefore => &["{}", "{}", r#"{"args":{"y":2}}"#, r#"{"deny":"no"}"#],
        HookPoint::ToolAfter => &[
            "{}", r#"{"output":"other"}"#, r#"{"output":"","title":"t"}"#,
            r#"{"metadata":{"a":null,"b":{"c":1}}}"#,
        ],
        HookPoint::ToolDefinition => &["{}", r#"{"tools":{"read":{"description":"d"}}}"#],
        HookPoint::PermissionAsk => {
            &["{}", r#"{"status":"allow"}"#, r#"{"status":"deny"}"#, r#"{"status":"ask"}"#]
        }
        HookPoint::System => &["{}", r#"{"system":["a","b","c"]}"#, r#"{"system":[]}"#],
        HookPoint::Compacting => &["{}", r#"{"prompt":"p","context":["c"]}"#],
        HookPoint::ChatHeaders | HookPoint::ShellEnv | HookPoint::Auth => {
            &["{}", r#"{"headers":{"a":"h"}}"#]
        }
    }
}
