//! What an agent is to work with that takes over within a turn: as settings have it at that moment, with
//! what the turn was given.

use leftfold_actors::equip::{self, Setup};
use leftfold_events::Kit;

use crate::agents::{self, Agents};
use crate::cli::Turn;
use crate::commands::run::sources;
use crate::outfit::{self, Wardrobe, chosen};
use crate::{Usage, approvals, configured, limits, model, variant};

/// # Errors
/// There is no such agent for people, or its model can not be used.
pub(crate) fn kit(wardrobe: &Wardrobe, name: &str, before: &Kit) -> anyhow::Result<Kit> {
    let settings = configured::settings(&wardrobe.directory, &wardrobe.plugins);
    let settings = settings.map_err(model::usage)?;
    let agents = Agents::of(&settings);
    let agent = agents.to_prompt(name).map_err(|Usage(why)| model::usage(why))?;
    let mut model = chosen(&settings, agent, before)?;
    let mut options = model::options(&settings, &model)?;
    model::tune(agent, &model, &mut options);
    model.request.clone_from(&options.request);
    let same = model.spec.name() == before.model.name();
    let given = &before.options;
    options.variant = variant::choose(&mut model, &Turn::default(), same.then_some(given))?;
    options.request.clone_from(&model.request);
    let unlimited = options.max_steps;
    limits::lay_over(&mut options, &Turn::default(), Some(given));
    // a limit that an agent has is no other agent's
    let of_agent = agents.iter().any(|known| known.agent.steps == Some(given.max_steps));
    if let Some(steps) = agent.steps.or(of_agent.then_some(unlimited)) {
        options.max_steps = steps;
    }
    (options.ask, options.ask_for) = (given.ask, given.ask_for);
    options.approved = approvals::of(&wardrobe.worktree);
    let planned = equip::plan::rules(agent, wardrobe.plan.as_deref(), &wardrobe.worktree);
    let setup = Setup {
        directory: &wardrobe.directory,
        worktree: &wardrobe.worktree,
        model: model.spec,
        rules: agents::rules(&settings, agent, &planned),
        options,
        subagents: agents.to_call(agent, &settings),
        agent: agent.clone(),
        sources: sources(&settings),
        plan: wardrobe.plan.clone(),
    };
    Ok(outfit::gather(setup, &wardrobe.mcp, &wardrobe.plugins))
}

/// Whether there are both agents, so that one can take over from the other.
pub(crate) fn is_possible(agents: &Agents) -> bool {
    ["plan", "build"].into_iter().all(|name| agents.to_prompt(name).is_ok())
}
