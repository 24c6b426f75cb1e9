//! The agents: the built-in ones and those in settings, which change built-in ones or add new ones.
//!
//! `denials` makes the rules that a subagent inherits; `bin/runtime/src/turn/turn_config/base.rs` hands them down.

use std::num::NonZeroU32;

use crate::gather::Agent;
use crate::gather::agent::{self, merge};
use leftfold_config::Mode;
use leftfold_events::Json;
use leftfold_events::rules::{self, Action, PROTECTED_FILE, Rule};
use leftfold_tools::{PLAN_ENTER, PLAN_EXIT};
use serde_json::Value;

use crate::Usage;
use leftfold_config::{self as settings, Hint, SettingPlace, Settings};

/// The permission for every change of a file.
const EDIT: &str = "edit";

/// All agents, the built-in ones first.
#[derive(Debug)]
pub struct Agents(Vec<AgentEntry>);

/// An agent, and the place of the last source that sets something of it.
#[derive(Clone, Debug)]
pub struct AgentEntry {
    pub agent: Agent,
    pub place: Option<SettingPlace>,
}

impl Agents {
    pub fn from_settings(settings: &Settings) -> Self {
        let builtins = agent::builtins().into_iter();
        let mut all: Vec<AgentEntry> =
            builtins.map(|agent| AgentEntry { agent, place: None }).collect();
        for (name, said) in &settings.agents {
            if said.disable {
                all.retain(|known| known.agent.name != *name);
                continue;
            }
            let at = all.iter().position(|known| known.agent.name == *name).unwrap_or_else(|| {
                all.push(AgentEntry { agent: Agent::new(name), place: None });
                all.len() - 1
            });
            let known = &mut all[at];
            change(&mut known.agent, said);
            known.place = Some(said.key_place().clone());
        }
        Self(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = &AgentEntry> {
        self.0.iter()
    }

    /// The place of the last source that sets something of the agent.
    pub fn place(&self, name: &str) -> Option<&SettingPlace> {
        self.iter().find(|known| known.agent.name == name)?.place.as_ref()
    }

    /// # Errors
    /// No agent has this name; the error lists the names that exist.
    pub fn find(&self, name: &str) -> Result<&Agent, Usage> {
        let found = self.iter().map(|known| &known.agent).find(|agent| agent.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.iter().map(|known| known.agent.name.as_str()).collect();
            Usage(format!("there is no agent `{name}`{}", Hint::toward(name, &names)))
        })
    }

    /// An agent that a person names for a prompt.
    ///
    /// # Errors
    /// No agent has this name, or it takes prompts only from other agents.
    pub fn to_prompt(&self, name: &str) -> Result<&Agent, Usage> {
        let agent = self.find(name)?;
        if agent.mode.is_primary() {
            return Ok(agent);
        }
        Err(Usage(format!(
            "the agent `{name}` is a subagent, which only other agents can start: choose one of {}",
            self.primaries()
        )))
    }

    /// The agent that takes prompts that name no agent.
    ///
    /// # Errors
    /// `default_agent` in settings names no agent that a person can prompt, or all agents are
    /// turned off.
    pub fn default(&self, settings: &Settings) -> Result<&Agent, Usage> {
        let mut visible = self.visible();
        let Some(name) = &settings.default_agent else {
            let build = self.visible().find(|agent| agent.name == Agent::DEFAULT);
            // an untrusted project does not choose the agent
            let mut own = visible.filter(|agent| !settings.is_agent_of_stranger(&agent.name));
            return build.or_else(|| own.next()).ok_or_else(|| {
                Usage("every primary agent is turned off in settings: leave at least one on".into())
            });
        };
        if let Some(agent) = visible.find(|agent| agent.name == name.as_str()) {
            return Ok(agent);
        }
        let why = match self.find(name) {
            Ok(agent) if agent.hidden => "is hidden",
            Ok(_) => "is a subagent",
            Err(_) => "does not exist",
        };
        Err(Usage(format!(
            "{}: `default_agent`: the agent `{}` {why}: choose one of {}",
            name.place(),
            name.as_str(),
            self.primaries()
        )))
    }

    /// Lists of rules that can only make the verdicts on calls of `agent` stricter.
    pub fn restrictions(&self, settings: &Settings, agent: &Agent) -> Vec<Vec<Rule>> {
        let placed = self.placed_restrictions(settings, agent).into_iter();
        placed.map(|list| list.into_iter().map(|(rule, _)| rule).collect()).collect()
    }

    /// [`Self::restrictions`], each rule with its origin.
    pub fn placed_restrictions(
        &self,
        settings: &Settings,
        agent: &Agent,
    ) -> Vec<Vec<(Rule, String)>> {
        let built = |name: &str| {
            let agent = self.find(name).ok();
            agent.and_then(|agent| denials(&agent.rules)).unwrap_or_default()
        };
        settings.placed_restrictions(&agent.name, &built)
    }

    /// The agents that people can choose.
    pub fn visible(&self) -> impl Iterator<Item = &Agent> {
        let all = self.iter().map(|known| &known.agent);
        all.filter(|agent| agent.mode.is_primary() && !agent.hidden)
    }

    /// The agents that `caller` may start as subagents, each with its description.
    pub fn to_call(&self, caller: &Agent, settings: &Settings) -> Vec<(String, String)> {
        let mut all = rules::defaults();
        all.extend(caller.rules.iter().cloned());
        all.extend(rules(settings, caller, &[]));
        let agents = self.iter().map(|known| &known.agent);
        let subagents = agents.filter(|agent| agent.mode != Mode::Primary && !agent.hidden);
        let callable = subagents.filter(|agent| may_call(&all, &agent.name));
        callable.map(|agent| (agent.name.clone(), agent.description.clone())).collect()
    }

    pub fn primaries(&self) -> String {
        self.visible().map(|agent| format!("`{}`", agent.name)).collect::<Vec<_>>().join(", ")
    }
}

/// Applies the settings of an agent to it.
fn change(agent: &mut Agent, said: &settings::Agent) {
    let text = |value: &mut Option<String>, said: &Option<String>| {
        if said.is_some() {
            value.clone_from(said);
        }
    };
    text(&mut agent.prompt, &said.prompt);
    if let Some(model) = &said.model {
        agent.model = Some(model.to_string());
    }
    text(&mut agent.variant, &said.variant);
    text(&mut agent.color, &said.color);
    if let Some(description) = &said.description {
        agent.description.clone_from(description);
    }
    agent.mode = said.mode.unwrap_or(agent.mode);
    agent.hidden = said.hidden.unwrap_or(agent.hidden);
    agent.steps = said.steps.map(NonZeroU32::get).or(agent.steps);
    agent.temperature = said.temperature.or(agent.temperature);
    agent.top_p = said.top_p.or(agent.top_p);
    let mut options = agent.options.value();
    merge(&mut options, Value::Object(said.options()));
    agent.options = Json::from_value(&options);
}

/// The user's rules for an agent: rules for all agents, then its own. An agent that is
/// built to change no files stays so whatever the rules for all agents say; only rules of
/// its own let it edit. `planned` are the rules for the session's plan.
pub fn rules(settings: &Settings, agent: &Agent, planned: &[Rule]) -> Vec<Rule> {
    let mut rules = settings.rules.clone();
    rules.extend(reader(&settings.rules, &[&agent.rules, planned].concat()));
    rules.extend(settings.rules_of(&agent.name));
    rules
}

/// The origins of [`rules`], in their order.
pub fn rule_sources(settings: &Settings, agent: &Agent, planned: &[Rule]) -> Vec<String> {
    let reader = reader(&settings.rules, &[&agent.rules, planned].concat());
    let places = settings.places_of_rules().into_iter().map(ToString::to_string);
    let built = reader.iter().map(|_| format!("built-in agent {}", agent.name));
    let own = settings.places_of(&agent.name).into_iter().map(ToString::to_string);
    places.chain(built).chain(own).collect()
}

/// Rules that keep an agent with the rules `built` from editing, and let it edit the files it is
/// made for, unless the rules for all agents in `said` are stricter.
fn reader(said: &[Rule], built: &[Rule]) -> Vec<Rule> {
    let edits = |rule: &&Rule| rules::matches(&rule.permission, EDIT);
    let reads = denies_edits(built);
    let opens = said.iter().filter(edits).any(|rule| rule.action != Action::Deny);
    if !reads || !opens {
        return Vec::new();
    }
    let open = built.iter().filter(edits).filter(|rule| rule.action != Action::Deny);
    let open = open.map(|rule| {
        let said = rules::evaluate(said, EDIT, &rule.pattern);
        let action = said.map_or(rule.action, |said| said.action.max(rule.action));
        Rule::new(EDIT, rule.pattern.clone(), action)
    });
    [Rule::new(EDIT, "*", Action::Deny)].into_iter().chain(open).collect()
}

/// The question that an agent which changes nothing needs for a permission, if it is that of a tool which is not built in.
pub fn about_tool(agent: &Agent, said: &[Rule], permission: &str) -> Option<Rule> {
    const OTHERS: [&str; 3] = ["doom_loop", "external_directory", PROTECTED_FILE];
    let is_tool = permission.contains('_') && !OTHERS.contains(&permission);
    let is_built_in = leftfold_tools::find(permission).is_some();
    rules::asking(said, permission).filter(|_| changes_nothing(agent) && is_tool && !is_built_in)
}

/// Whether an agent is built to change nothing, as `plan` and `explore` are.
pub(crate) fn changes_nothing(agent: &Agent) -> bool {
    denies_edits(&agent.rules)
}

fn denies_edits(built: &[Rule]) -> bool {
    rules::evaluate(built, EDIT, "*").is_some_and(|rule| rule.action == Action::Deny)
}

/// The rules as a list of which only denials count; `None` if it denies nothing. Rules for tools that belong to one agent,
/// such as its to-do list and its questions, are left out.
pub(crate) fn denials(rules: &[Rule]) -> Option<Vec<Rule>> {
    const PERSONAL: [&str; 6] =
        ["question", "todowrite", "todoread", "task", PLAN_ENTER, PLAN_EXIT];
    let kept = rules.iter().filter(|rule| !PERSONAL.contains(&rule.permission.as_str()));
    let kept = kept.cloned().map(rules::only_denying);
    // a permission before the first denial lifts nothing
    let kept: Vec<Rule> = kept.skip_while(|rule| rule.action != Action::Deny).collect();
    (!kept.is_empty()).then_some(kept)
}

/// Whether these rules let an agent start the agent `name`, with or without a question.
fn may_call(rules: &[Rule], name: &str) -> bool {
    rules::evaluate(rules, "task", name).is_none_or(|rule| rule.action != Action::Deny)
}

#[cfg(test)]
mod tests;
