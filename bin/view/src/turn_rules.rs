//! The permission rules of a turn: which of them asks a question, and where it stands.

use leftfold_events::event::{Access, TurnConfigPayloads};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Payload, TurnConfig, judge};

use crate::configuration;

/// The parts of a turn configuration that verdicts depend on. They are read once a question is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TurnRules {
    rules: Payload,
    options: Payload,
}

/// A rule that asks, and its file and line if they are known.
pub type AskingRule = (Rule, Option<String>);

impl TurnRules {
    pub(crate) fn from_config(configured: &TurnConfigPayloads) -> Self {
        Self { rules: configured.rules.clone(), options: configured.options.clone() }
    }

    /// Rules with the places where they stand, in the same order.
    pub(crate) fn with_sources(rules: Vec<Rule>, sources: Vec<RuleSource>) -> Self {
        let mut config = TurnConfig { rules, ..TurnConfig::default() };
        config.options.sources.rules = sources;
        Self::from_config(&config.payloads())
    }

    /// The rule that asks about `access` of a call that needs all of `call`. `None`: no rule does.
    pub(crate) fn asking(
        &self,
        access: &Access,
        call: &[Access],
        approved: &[Rule],
    ) -> Option<AskingRule> {
        let mut config = TurnConfig {
            rules: serde_json::from_str(self.rules.text()).ok()?,
            options: serde_json::from_str(self.options.text()).ok()?,
            ..TurnConfig::default()
        };
        config.options.approved.extend(approved.iter().cloned());
        let (action, rule) = judge(&config, access, call);
        let rule = rule.filter(|_| action == Action::Ask)?;
        let source = configuration::of_rule(&config, &rule);
        Some((rule, source))
    }
}
