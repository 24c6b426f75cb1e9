//! Explains to the user of `run` why a call is denied: the rule, where it stands, and what would allow the call.

use std::collections::HashMap;

use leftfold_events::event::{Denial, DenialClass, Event, Permission};
use leftfold_events::rules::{Action, HOST, LEFTFOLD, Rule, host};
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Envelope, SessionId, State};
use leftfold_view::clean::printable_line;
use leftfold_view::configuration::{of_rule, shown};
use leftfold_view::{OpenQuestion, words};
use serde_json::json;

/// The sessions of a run, as far as their events have come.
#[derive(Debug)]
pub(crate) struct Verdicts {
    states: HashMap<SessionId, State>,
}

impl Verdicts {
    /// `rules` are those of the root's next turn, with their sources. Events before it need not come.
    pub(crate) fn new(root: SessionId, rules: (Vec<Rule>, Vec<RuleSource>)) -> Self {
        let mut state = State::default();
        state.session = root;
        (state.config.rules, state.config.options.sources.rules) = rules;
        Self { states: HashMap::from([(root, state)]) }
    }

    /// Takes the next event. Answers the lines that explain a denial.
    pub(crate) fn follow(&mut self, event: &Envelope) -> Vec<String> {
        let state = self.states.entry(event.session).or_default();
        let Event::Permission(Permission::Ruled { action, rule, .. }) = &event.event else {
            state.apply(event);
            return Vec::new();
        };
        let reason = leftfold_view::reason(state, event);
        state.apply(event);
        match action {
            Action::Deny => denial(state, rule.as_ref(), reason),
            Action::Ask | Action::Allow => Vec::new(),
        }
    }
}

/// Why the session asks a question about a call.
pub(crate) fn why_asked(question: &OpenQuestion) -> String {
    match &question.rule {
        Some((rule, source)) => {
            format!("asked because of the rule {}", with_source(rule, source.as_deref()))
        }
        None => "asked because no rule matches".to_owned(),
    }
}

fn with_source(rule: &Rule, source: Option<&str>) -> String {
    let source = source.map(|source| format!(" ({})", printable_line(source)));
    format!("{}{}", shown(rule), source.unwrap_or_default())
}

/// The last denial of the turn, in lines for people.
fn denial(state: &State, rule: Option<&Rule>, reason: Option<String>) -> Vec<String> {
    let turn = state.turn.as_ref();
    let last = turn.and_then(|turn| turn.denials.last().zip(turn.denial_classes.last()));
    let Some((denial, class)) = last else { return Vec::new() };
    let because = match rule {
        Some(rule) => {
            let source = of_rule(&state.config, rule);
            format!("the rule {}", with_source(rule, source.as_deref()))
        }
        None => reason.unwrap_or_else(|| denial.reason.clone()),
    };
    let nobody = match class {
        DenialClass::NoTerminal => ", and nobody can be asked here",
        _ => "",
    };
    std::iter::once(because + nobody).chain(remedy(denial, *class)).collect()
}

/// Says which option or setting would allow the call.
fn remedy(denial: &Denial, class: DenialClass) -> Option<String> {
    let pattern = denial.patterns.first()?;
    let host = (denial.permission == HOST).then(|| host::pattern_of(pattern)).flatten();
    let pattern = host.as_ref().unwrap_or(pattern);
    let setting = json!({ "permission": { &denial.permission: { pattern: "allow" } } });
    let setting = words::shorten(&setting.to_string(), 200);
    match class {
        DenialClass::NoTerminal if is_for_a_person(&denial.permission) => {
            Some("to allow it: run this on a terminal and answer".to_owned())
        }
        DenialClass::NoTerminal => {
            let edits =
                if denial.permission == "edit" { "`--permission-mode accept-edits`, " } else { "" };
            Some(format!(
                "to allow it: run this on a terminal and answer, or with {edits}`--yes`, or with the setting {setting}"
            ))
        }
        DenialClass::Rule => {
            Some(format!("to allow it: change that rule, or put after it the setting {setting}"))
        }
        _ => None,
    }
}

/// Whether neither `--yes` nor a setting answers it.
fn is_for_a_person(permission: &str) -> bool {
    [LEFTFOLD, "question"].contains(&permission)
}
