//! Explains to the user of `run` why a call is denied or a question asked: the rule, where it stands, and what would
//! allow the call.

use std::collections::HashMap;

use leftfold_events::event::{Denial, DenialClass, Event, Permission};
use leftfold_events::rules::{Action, LEFTFOLD, Rule};
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Envelope, Seq, SessionId, State, TurnConfig};
use leftfold_view::clean::printable_line;
use leftfold_view::configuration::{of_rule, shown};
use leftfold_view::{QuestionId, words};
use serde_json::json;

/// The sessions of a run, as far as their events have come.
#[derive(Debug)]
pub(crate) struct Verdicts {
    states: HashMap<SessionId, State>,
    /// The rules because of which calls ask, by session and call.
    asking: HashMap<QuestionId, Option<Rule>>,
}

impl Verdicts {
    /// `rules` are those of the root's next turn, with their sources. Events before it need not come.
    pub(crate) fn new(root: SessionId, rules: (Vec<Rule>, Vec<RuleSource>)) -> Self {
        let mut state = State::default();
        state.session = root;
        (state.config.rules, state.config.options.sources.rules) = rules;
        Self { states: HashMap::from([(root, state)]), asking: HashMap::new() }
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
        match (action, event.of) {
            (Action::Deny, _) => denial(state, rule.as_ref(), reason),
            (Action::Ask, Some(call)) => {
                self.asking.insert((event.session, call), rule.clone());
                Vec::new()
            }
            (Action::Ask | Action::Allow, _) => Vec::new(),
        }
    }

    /// Why the session asks about this call.
    pub(crate) fn why_asked(&self, session: SessionId, call: Seq) -> Option<String> {
        let rule = self.asking.get(&(session, call))?;
        let config = &self.states.get(&session)?.config;
        Some(match rule {
            Some(rule) => format!("asked because of the rule {}", with_source(config, rule)),
            None => "asked because no rule matches".to_owned(),
        })
    }
}

fn with_source(config: &TurnConfig, rule: &Rule) -> String {
    let source = of_rule(config, rule).map(|source| format!(" ({})", printable_line(&source)));
    format!("{}{}", shown(rule), source.unwrap_or_default())
}

/// The last denial of the turn, in lines for people.
fn denial(state: &State, rule: Option<&Rule>, reason: Option<String>) -> Vec<String> {
    let turn = state.turn.as_ref();
    let last = turn.and_then(|turn| turn.denials.last().zip(turn.denial_classes.last()));
    let Some((denial, class)) = last else { return Vec::new() };
    let because = match rule {
        Some(rule) => format!("the rule {}", with_source(&state.config, rule)),
        None => reason.unwrap_or_else(|| denial.reason.clone()),
    };
    let nobody = match class {
        DenialClass::NoTerminal => ", and nobody can be asked here",
        DenialClass::Rule
        | DenialClass::Person
        | DenialClass::Unanswered
        | DenialClass::Plugin
        | DenialClass::DoomLoop
        | DenialClass::Depth => "",
    };
    std::iter::once(because + nobody).chain(remedy(denial, *class)).collect()
}

/// Says which option or setting would allow the call.
fn remedy(denial: &Denial, class: DenialClass) -> Option<String> {
    let pattern = denial.patterns.first()?;
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
        DenialClass::Person
        | DenialClass::Unanswered
        | DenialClass::Plugin
        | DenialClass::DoomLoop
        | DenialClass::Depth => None,
    }
}

/// Whether neither `--yes` nor a setting answers it.
fn is_for_a_person(permission: &str) -> bool {
    [LEFTFOLD, "question"].contains(&permission)
}
