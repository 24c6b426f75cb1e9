//! Values that plugins' hooks return and that must not be in a log: keys and headers for providers,
//! variables for commands. A session keeps them for one turn and sends each with its request or
//! call. They are never written, logged or shown. After a crash the hooks are called again.

use std::collections::BTreeMap;

use leftfold_events::Seq;
use leftfold_events::event::HookPoint;
use leftfold_events::state::PendingHook;
use leftfold_providers::Extra;

/// Names with their values. If a name occurs twice, the later value counts.
pub(crate) type Values = Vec<(String, String)>;

/// The values of one hook, or those that a turn has collected so far.
#[derive(Clone, Default)]
pub struct HookSecrets {
    /// The last values of each hook and plugin, with their provider.
    extra: BTreeMap<(HookPoint, String), (String, Extra)>,
    /// By the seq of their call.
    variables: BTreeMap<Seq, Values>,
}

// Shows no values.
leftfold_events::debug_fields!(HookSecrets {});

impl HookSecrets {
    /// The values that a hook returned while `provider` was the session's.
    pub(crate) fn for_hook(
        asked: &PendingHook,
        provider: String,
        values: Values,
        key: Option<String>,
    ) -> Self {
        let mut secrets = Self::default();
        match asked.hook {
            HookPoint::ShellEnv => {
                secrets.variables.insert(asked.about, values);
            }
            HookPoint::ChatHeaders | HookPoint::Auth => {
                let extra = Extra { key, headers: values, ..Extra::default() };
                secrets.extra.insert((asked.hook, asked.plugin.clone()), (provider, extra));
            }
            HookPoint::ChatMessage
            | HookPoint::ChatParams
            | HookPoint::ToolBefore
            | HookPoint::ToolAfter
            | HookPoint::ToolDefinition
            | HookPoint::PermissionAsk
            | HookPoint::System
            | HookPoint::Compacting => {}
        }
        secrets
    }

    /// Adds later values.
    pub(crate) fn add(&mut self, later: Self) {
        self.extra.extend(later.extra);
        for (call, values) in later.variables {
            self.variables.entry(call).or_default().extend(values);
        }
    }

    /// Takes the values for a request to `provider`. Values for one provider never go to another.
    pub(crate) fn for_provider(&self, provider: &str) -> Extra {
        let of = self.extra.values().filter(|(known, _)| known == provider);
        let mut all = Extra::default();
        for (_, Extra { key, headers, .. }) in of {
            all.key = key.clone().or(all.key);
            all.headers.extend(headers.iter().cloned());
        }
        all
    }

    /// Takes the variables for the command of the call at `call`.
    pub(crate) fn take_variables(&mut self, call: Seq) -> Values {
        self.variables.remove(&call).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(hook: HookPoint, plugin: &str, about: Seq) -> PendingHook {
        PendingHook { hook, about, plugin: plugin.to_owned(), wait: None, output: None }
    }

    fn value(name: &str, value: &str) -> Values {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn a_provider_gets_the_last_of_each_plugin_and_no_other_providers() {
        let of = |plugin, provider: &str, header| {
            let asked = asked(HookPoint::ChatHeaders, plugin, 1);
            HookSecrets::for_hook(&asked, provider.to_owned(), value("x", header), None)
        };
        let mut secrets = of("a", "p", "first");
        secrets.add(of("a", "p", "last"));
        secrets.add(of("b", "q", "other"));
        assert_eq!(secrets.for_provider("p").headers, value("x", "last"));
        assert_eq!(secrets.for_provider("q").headers, value("x", "other"));
        assert!(secrets.for_provider("r").is_empty());
    }

    #[test]
    fn a_call_takes_the_variables_of_all_plugins_once() {
        let of = |plugin, name| {
            HookSecrets::for_hook(
                &asked(HookPoint::ShellEnv, plugin, 7),
                "p".into(),
                value(name, "1"),
                None,
            )
        };
        let mut secrets = of("a", "A");
        secrets.add(of("b", "B"));
        assert_eq!(secrets.take_variables(7), [value("A", "1"), value("B", "1")].concat());
        assert!(secrets.take_variables(7).is_empty());
        assert!(secrets.take_variables(8).is_empty());
    }
}
