//! What the sessions that calls start are to work with: their agent's rules, prompt and model, as
//! settings have them at that moment.

use std::path::PathBuf;
use std::time::SystemTime;

use leftfold_actors::equip::agent::Mode;
use leftfold_actors::equip::{self, Agent, Setup};
use leftfold_actors::{ChildConfig, Models, TurnConfigs};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::state::switch::{PLAN_ENTER, PLAN_EXIT};
use leftfold_events::{Kit, Time};
use leftfold_tools::Workspace;
use leftfold_tools::mcp::Servers;
use leftfold_tools::plugins::Plugins;

use crate::agents::{self, Agents};
use crate::commands::run::sources;
use crate::model::Model;
use crate::settings::Settings;
use crate::{approvals, configured, demo, model, switch, warnings};

/// Tools that a child has only if its own rules speak of them: the list of what is to be done is
/// its parent's, and children of children are for agents that are made for it.
const OF_PARENTS: [&str; 5] = ["todowrite", "todoread", "task", PLAN_ENTER, PLAN_EXIT];

#[derive(Debug)]
pub(crate) struct Wardrobe {
    pub(crate) directory: PathBuf,
    pub(crate) worktree: PathBuf,
    /// The file for the session's plan.
    pub(crate) plan: Option<PathBuf>,
    /// Those of the project.
    pub(crate) mcp: Servers,
    pub(crate) plugins: Plugins,
}

/// The kit in force now, with the tools of those servers that can be started. Tells of what it has to do
/// without. Waits for servers, so it may block.
pub(crate) fn gather(setup: Setup<'_>, servers: &Servers, plugins: &Plugins) -> Kit {
    let (mut kit, problems) = equip::gather(setup, Time::from(SystemTime::now()));
    warnings::tell(&problems);
    servers.wait();
    plugins.wait();
    equip::extend(&mut kit, servers.tools());
    equip::extend(&mut kit, plugins.tools());
    kit.options.plugins = plugins.specs();
    warnings::tell(&servers.problems());
    warnings::tell(&plugins.problems());
    kit
}

/// Starts servers and plugins, and waits for them.
pub(crate) async fn ready(workspace: &Workspace) {
    tokio::join!(workspace.mcp.ready(), workspace.plugins.ready());
}

impl TurnConfigs for Wardrobe {
    fn for_child(&self, name: &str, parent: &Kit) -> Result<ChildConfig, String> {
        let settings = configured::settings(&self.directory, &self.plugins);
        let settings = settings.map_err(|error| error.to_string())?;
        let agents = Agents::of(&settings);
        let agent = agents.find(name).map_err(|error| error.0)?;
        if agent.mode == Mode::Primary {
            return Err(format!("The agent `{name}` takes prompts of people only."));
        }
        let model = chosen(&settings, agent, parent).map_err(|error| format!("{error:#}"))?;
        let options = model::options(&settings, &model);
        let mut options = options.map_err(|error| format!("{error:#}"))?;
        model::tune(agent, &model, &mut options);
        // whoever is asked for the parent is asked for the child
        options.ask = parent.options.ask;
        options.max_cost = parent.options.max_cost;
        options.title_prompt.clear();
        options.approved = approvals::of(&self.worktree);
        options.max_steps = agent.steps.unwrap_or(options.max_steps);
        let setup = Setup {
            directory: &self.directory,
            worktree: &self.worktree,
            model: model.spec,
            rules: child_rules(&settings, agent),
            options,
            agent: agent.clone(),
            subagents: agents.to_call(agent, &settings),
            sources: sources(&settings),
            plan: None,
        };
        let kit = gather(setup, &self.mcp, &self.plugins);
        let others = model::others(&settings);
        Ok(ChildConfig { kit, models: Models::new(others.into_iter().chain([model.provider])) })
    }

    fn for_switch(&self, name: &str, before: &Kit) -> Result<Kit, String> {
        switch::kit(self, name, before).map_err(|error| format!("{error:#}"))
    }
}

/// The agent's own model, or the one of `parent`.
pub(crate) fn chosen(settings: &Settings, agent: &Agent, parent: &Kit) -> anyhow::Result<Model> {
    let last = parent.model.name().to_string();
    if demo::is_model(agent.model.as_deref().unwrap_or(&last)) {
        return demo::model();
    }
    let parents = || model::choose(settings, Some(&last));
    model::of_agent(settings, agent).unwrap_or_else(parents)
}

/// The user's rules, and then what a child is not given unless somebody says so.
fn child_rules(settings: &Settings, agent: &Agent) -> Vec<Rule> {
    let mut rules = agents::rules(settings, agent, &[]);
    let own = |tool: &str| {
        let said = settings.rules_of(&agent.name).iter().chain(&agent.rules);
        said.clone().any(|rule| rule.permission == tool && rule.action != Action::Deny)
    };
    let kept = OF_PARENTS.iter().filter(|tool| !own(tool));
    rules.extend(kept.map(|tool| Rule::new(*tool, "*", Action::Deny)));
    rules
}

/// Whether an agent with these rules may have `name` do something, asked or not.
pub(crate) fn may_call(rules: &[Rule], name: &str) -> bool {
    rules::evaluate(rules, "task", name).is_none_or(|rule| rule.action != Action::Deny)
}
