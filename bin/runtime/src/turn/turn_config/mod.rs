//! Computes a turn's configuration from settings, project and overrides. This is the only place
//! that does so, for prompts, resumed turns, children, and switches of agents within a turn.

mod base;
mod option_sources;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use indexmap::IndexMap;
use leftfold_actors::{ChildConfig, Models, TurnConfigs};
use leftfold_config::Settings;
use leftfold_events::event::SessionChoices;
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::sandbox::SandboxOptions;
use leftfold_events::turn_config::{
    AskMode, ModelSpec, Options, RuleSource, STRUCTURED_OUTPUT, StructuredOutput,
};
use leftfold_events::{Time, TurnConfig};
use leftfold_mcp::{ServerReport, Servers};
use leftfold_plugins::{PluginReport, Plugins};
use leftfold_providers::Provider;
use leftfold_tools::ToolSource;
use leftfold_tools::{LSP_TOOL, PLAN_ENTER, PLAN_EXIT};
use serde::{Deserialize, Serialize};

use crate::agents::{self, Agents};
use crate::approvals::{self, Approvals};
use crate::gather::{self, Agent, TurnSettings};
use crate::model::{self, Model};
use crate::project::{Project, sources};
use crate::resolved_settings;
use crate::workplace::Workplace;
use crate::{
    Usage, auxiliary_agents, demo, executors, language_servers, sandbox, search, warnings,
};

use self::base::Base;
pub(crate) use self::base::Inherited;
use self::option_sources::Deciding;

/// Tools that a child has only if its own rules name them. The to-do list belongs to the parent,
/// and only agents made for it start children of their own.
const PARENT_ONLY: [&str; 5] = ["todowrite", "todoread", "task", PLAN_ENTER, PLAN_EXIT];

/// Tells the model that a program reads its answer.
const OUTPUT_PROMPT: &str = include_str!("../../../../../prompts/structured_output.md");

/// A caller's options, which win over settings and session.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `PROVIDER/MODEL`.
    pub model: Option<String>,
    pub agent: Option<String>,
    pub variant: Option<String>,
    /// The limit of model requests.
    pub max_steps: Option<u32>,
    /// US dollars.
    pub max_cost: Option<f64>,
    /// Milliseconds from the prompt on.
    pub timeout: Option<u64>,
    /// Added to the system prompt.
    pub system: Option<String>,
    /// How permission questions are treated.
    pub ask: AskMode,
    /// Makes edits inside the worktree without a question.
    pub accept_edits: bool,
    /// Runs commands that stay in the sandbox without a question, as the setting `sandbox.allow` does.
    pub allow_in_sandbox: bool,
    /// Tools that the prompt leaves out (`false`), and exceptions (`true`), by names with wildcards as in the
    /// setting `tools`. The last match decides. No rule of the settings is lifted.
    pub tools: IndexMap<String, bool>,
    /// The form of the answer; `None`: text.
    pub output: Option<StructuredOutput>,
}

/// The options of one prompt. They win over those of the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptOptions {
    /// The client's id of the prompt, unique in the session, of at most 256 bytes. A prompt with an id that the
    /// log has is a repetition, and does nothing.
    #[serde(alias = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `PROVIDER/MODEL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Added to the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// As in [`Overrides::tools`].
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub tools: IndexMap<String, bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// Milliseconds from the prompt on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// The form of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<StructuredOutput>,
}

impl PromptOptions {
    /// Whether it says how the turn is run.
    pub fn changes_turn(&self) -> bool {
        let id = self.message_id.clone();
        *self != Self { message_id: id, ..Self::default() }
    }

    /// The overrides for this prompt of a session with these.
    pub fn over(&self, session: &Overrides) -> Overrides {
        let Self {
            message_id: _,
            agent,
            model,
            variant,
            system,
            tools,
            max_steps,
            max_cost,
            timeout,
            output,
        } = self.clone();
        let session = session.clone();
        Overrides {
            agent: agent.or(session.agent),
            model: model.or(session.model),
            variant: variant.or(session.variant),
            system: system.or(session.system),
            tools: session.tools.into_iter().chain(tools).collect(),
            max_steps: max_steps.or(session.max_steps),
            max_cost: max_cost.or(session.max_cost),
            timeout: timeout.or(session.timeout),
            output: output.or(session.output),
            ..session
        }
    }
}

impl Overrides {
    /// Overrides for a client that answers permission questions.
    pub fn interactive() -> Self {
        Self { ask: AskMode::Ask, ..Self::default() }
    }

    /// The options of the command line that say this. A mode that asks is none: a client of any node
    /// can answer.
    pub fn options(&self) -> Vec<&'static str> {
        let Self { model, agent, variant, max_steps, max_cost, timeout, system, output, .. } = self;
        let given = [
            (model.is_some(), "--model"),
            (agent.is_some(), "--agent"),
            (variant.is_some(), "--variant"),
            (system.is_some(), "--system"),
            (max_steps.is_some(), "--max-steps"),
            (max_cost.is_some(), "--max-cost"),
            (timeout.is_some(), "--timeout"),
            (output.is_some(), "--output-schema"),
            (self.ask == AskMode::Allow, "--yes"),
            (self.ask == AskMode::Deny, "--permission-mode deny"),
            (self.accept_edits, "--permission-mode accept-edits"),
            (self.allow_in_sandbox, "--permission-mode sandbox"),
        ];
        given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option).collect()
    }
}

/// Everything except the parts that [`gather`] reads from the project at the time of a prompt.
pub(crate) struct Resolved {
    pub(crate) turn_settings: TurnSettings,
    pub(crate) provider: (String, Arc<dyn Provider>),
    /// Providers that later prompts may need.
    pub(crate) others: Vec<(String, Arc<dyn Provider>)>,
}

/// Resolves agent, model, options, rules and sandbox, in this order. `plan` is the file for the session's plan.
pub(crate) fn resolve(
    settings: &Settings,
    project: &Project,
    overrides: &Overrides,
    inherited: Inherited<'_>,
    plan: Option<PathBuf>,
) -> anyhow::Result<Resolved> {
    let base = Base::new(inherited, project);
    let workplace = project.executor.as_deref().map(|name| {
        executors::for_project(settings, name, (&project.directory, &project.worktree))
    });
    let workplace = workplace.transpose()?;
    // a plan is a file of this machine
    let plan = plan.filter(|_| workplace.is_none());
    let agents = Agents::from_settings(settings);
    let agent = match base.parent {
        // which agents a call may name was judged when it was resolved
        Some(_) => agents.find(overrides.agent.as_deref().unwrap_or_default())?.clone(),
        None => prompted(&agents, settings, project, overrides, &base.choices)?,
    };

    let ChosenModel { model, mut options, last } =
        model_and_options(settings, project, overrides, &base, &agent)?;
    limit(&mut options, &agents, &agent, overrides, &base);
    if let Some(output) = &options.output {
        check_output(output, &model.spec)?;
    }
    options.request.clone_from(&model.request);

    let (rules, rule_sources) = rules_of(settings, project, &base, &agent, plan.as_deref());
    restrict(&mut options, agents.placed_restrictions(settings, &agent), &base);
    options.session_rules.clone_from(&base.session_rules);
    options.prompt_rules.clone_from(&base.prompt_rules);
    options.prompt_rules.extend(overrides.tools.iter().map(tool_rule));
    options.named_hosts.clone_from(&base.named_hosts);
    options.max_depth = settings.task.max_depth;
    options.depth = base.depth;

    options.sandbox = sandbox_of(settings, project, overrides, &base, workplace.as_ref());
    options.executor.clone_from(&project.executor);
    options.snapshot = match &workplace {
        Some(workplace) => settings.snapshot() && workplace.there.snapshots,
        None => options.snapshot && sandbox::has_snapshots(&project.worktree),
    };

    let by = Deciding { settings, overrides, base: &base, agent: &agent };
    options.sources.model = by.model(&model.spec, last.is_some());
    options.sources.options = by.options(&model, &options);
    warnings::print_once(&model::left_out(&model.spec, &options));
    let turn_settings = TurnSettings {
        directory: project.directory.clone(),
        worktree: project.worktree.clone(),
        model: model.spec,
        rules,
        options,
        rule_sources,
        subagents: agents.to_call(&agent, settings),
        agent_place: agents.place(&agent.name).cloned(),
        agent,
        sources: sources(settings),
        missing_tools: match workplace {
            None => missing_tools(settings, &project.directory),
            Some(_) => missing_at_executor(settings),
        },
        shell: settings.shell_program.clone(),
        plan,
        reminds: base.depth == 0,
        workplace,
    };
    Ok(Resolved { turn_settings, provider: model.provider, others: model::others(settings) })
}

struct ChosenModel {
    model: Model,
    options: Options,
    /// The model of the last turn, or of the parent's.
    last: Option<String>,
}

/// The model, its variant, and the options that settings and agent give it.
fn model_and_options(
    settings: &Settings,
    project: &Project,
    overrides: &Overrides,
    base: &Base<'_>,
    agent: &Agent,
) -> anyhow::Result<ChosenModel> {
    let last = base.config().map(|config| config.model.name().to_string());
    let last = last.or_else(|| project.model.clone());
    let wanted = overrides.model.as_deref().or(last.as_deref().filter(|_| base.resumes));
    let of_choice = match (wanted, &base.choices.model) {
        (None, Some(name)) => chosen_model(settings, agent, &name.to_string()),
        _ => None,
    };
    let variant = base.choices.variant.clone();
    let variant = variant.filter(|_| of_choice.is_some() || base.choices.model.is_none());
    let variant = variant.filter(|_| overrides.model.is_none());
    let mut model = match of_choice {
        Some(model) => model,
        None => choose_model(settings, agent, wanted, last.as_deref())?,
    };
    let mut options = model::options(settings, &model);
    auxiliary_agents::lay_over(&mut options, settings, &model)?;
    model::tune(agent, &model, &mut options);
    model.request.clone_from(&options.request);
    // Another model may not have this variant.
    let same_model = base.config().is_none_or(|config| config.model.name() == model.spec.name());
    let given = base.options.filter(|_| same_model && overrides.model.is_none());
    options.variant = match (&overrides.variant, variant) {
        (None, Some(chosen)) => model::chosen_variant(&mut model, &chosen),
        (wanted, _) => model::choose_variant(&mut model, wanted.as_deref(), given)?,
    };
    Ok(ChosenModel { model, options, last })
}

/// The rules about the agent, each with its source.
fn rules_of(
    settings: &Settings,
    project: &Project,
    base: &Base<'_>,
    agent: &Agent,
    plan: Option<&Path>,
) -> (Vec<Rule>, Vec<String>) {
    let planned = gather::plan::rules(agent, plan, &project.worktree);
    let mut rules = agents::rules(settings, agent, &planned);
    let mut sources = agents::rule_sources(settings, agent, &planned);
    sources.resize(rules.len(), String::new());
    let of_child = base.parent.map(|_| denied_to_children(settings, agent)).unwrap_or_default();
    let of_child = of_child.into_iter().map(|rule| (rule, "denied to subagents".to_owned()));
    for (rule, source) in of_child.chain(left_out(settings, base)) {
        rules.push(rule);
        sources.push(source);
    }
    (rules, sources)
}

/// Sets the lists of rules of which each can only make a verdict stricter: those of the agent, and those of the parent.
fn restrict(options: &mut Options, mut lists: Vec<Vec<(Rule, String)>>, base: &Base<'_>) {
    let placed = |rules: Vec<Rule>, source: &str| -> Vec<(Rule, String)> {
        rules.into_iter().map(|rule| (rule, source.to_owned())).collect()
    };
    lists.extend(base.denied().into_iter().map(|list| placed(list, "denied to the parent")));
    lists.push(placed(base.asked(), "asked of the parent"));
    lists.retain(|list| !list.is_empty());
    let sources = lists.iter().flatten().map(|(_, source)| (1, source.clone()));
    options.sources.restrictions = RuleSource::all(sources.collect::<Vec<_>>());
    options.restrictions =
        lists.into_iter().map(|list| list.into_iter().map(|(rule, _)| rule).collect()).collect();
}

fn sandbox_of(
    settings: &Settings,
    project: &Project,
    overrides: &Overrides,
    base: &Base<'_>,
    workplace: Option<&Workplace>,
) -> Option<SandboxOptions> {
    let switched = base.before.and_then(|config| config.options.sandbox.as_ref());
    let allow = overrides.allow_in_sandbox || switched.is_some_and(|sandbox| sandbox.allow);
    // a subagent's turn that goes on
    let before = base.options.filter(|_| base.depth > 0);
    let before = before.and_then(|options| options.sandbox.as_ref());
    sandbox::of_turn(settings, &project.worktree, workplace, base.parent, before, allow)
}

/// The tools that need something which settings or this machine do not have.
pub fn missing_tools(settings: &Settings, directory: &Path) -> Vec<&'static str> {
    let mut missing = search::missing(settings);
    if language_servers::is_missing(settings, directory) {
        missing.push(LSP_TOOL);
    }
    missing
}

/// The tools that need something which settings or executors do not have.
fn missing_at_executor(settings: &Settings) -> Vec<&'static str> {
    let mut missing = search::missing(settings);
    missing.push(LSP_TOOL);
    missing
}

/// Sets limits, and who answers questions.
fn limit(
    options: &mut Options,
    agents: &Agents,
    agent: &Agent,
    overrides: &Overrides,
    base: &Base<'_>,
) {
    let unlimited = options.max_steps;
    options.max_steps = agent.steps.unwrap_or(unlimited);
    options.ask = overrides.ask;
    options.accept_edits = overrides.accept_edits;
    if let Some(parent) = base.parent {
        // A child's questions go to the people who answer its parent's.
        options.ask = parent.options.ask;
        options.accept_edits = parent.options.accept_edits;
        options.max_cost = parent.options.max_cost;
        options.title_prompt.clear();
        options.session_summary_prompt.clear();
        return;
    }
    let given = base.options;
    let steps = overrides.max_steps.or(given.map(|given| given.max_steps));
    options.max_steps = steps.unwrap_or(options.max_steps);
    options.max_cost = overrides.max_cost.or(given.and_then(|given| given.max_cost));
    options.max_time = overrides.timeout.or(given.and_then(|given| given.max_time));
    options.output =
        overrides.output.clone().or_else(|| given.and_then(|given| given.output.clone()));
    let system = overrides.system.clone().filter(|text| !text.trim().is_empty());
    options.system = system.or_else(|| given.and_then(|given| given.system.clone()));
    if let Some(TurnConfig { options: before, .. }) = base.before {
        // A limit that comes from an agent does not apply to another agent.
        let of_agent = agents.iter().any(|known| known.agent.steps == Some(before.max_steps));
        if let Some(steps) = agent.steps.or(of_agent.then_some(unlimited)) {
            options.max_steps = steps;
        }
        options.ask = before.ask;
        options.accept_edits = before.accept_edits;
        options.ask_for = before.ask_for;
    }
}

/// Checks that `model` can be asked for this answer.
fn check_output(output: &StructuredOutput, model: &ModelSpec) -> Result<(), Usage> {
    leftfold_tools::check_output_schema(&output.schema).map_err(Usage)?;
    if !model.abilities.tools {
        let name = model.name();
        return Err(Usage(format!(
            "{name} calls no tools, so it cannot give an answer that fits a schema"
        )));
    }
    Ok(())
}

/// The named agent, or the session's choice, or the session's last, or the default.
fn prompted(
    agents: &Agents,
    settings: &Settings,
    project: &Project,
    overrides: &Overrides,
    chosen: &SessionChoices,
) -> Result<Agent, Usage> {
    if let (None, Some(name)) = (&overrides.agent, &chosen.agent) {
        match agents.to_prompt(name) {
            Ok(agent) => return Ok(agent.clone()),
            Err(Usage(why)) => gone(&why),
        }
    }
    let agent = match (&overrides.agent, &project.agent) {
        (Some(name), _) => agents.to_prompt(name)?,
        // The last agent may be that of a subagent's own session.
        (None, Some(last)) => agents.find(last).map_err(|Usage(why)| {
            Usage(format!(
                "the session's last agent cannot be used: {why}; name another with --agent"
            ))
        })?,
        (None, None) => agents.default(settings)?,
    };
    Ok(agent.clone())
}

/// The model that is `wanted`, or the agent's own, or the `last` one, or the one in settings.
fn choose_model(
    settings: &Settings,
    agent: &Agent,
    wanted: Option<&str>,
    last: Option<&str>,
) -> anyhow::Result<Model> {
    if let Some(name) = wanted.or(agent.model.as_deref()).or(last)
        && demo::is_model(name)
    {
        return demo::model();
    }
    if let Some(name) = wanted {
        return model::choose(settings, Some(name));
    }
    model::of_agent(settings, agent).unwrap_or_else(|| model::choose(settings, last))
}

/// The model chosen for the session, if it still exists.
fn chosen_model(settings: &Settings, agent: &Agent, name: &str) -> Option<Model> {
    let chosen = choose_model(settings, agent, Some(name), None);
    chosen.inspect_err(|error| gone(&format!("{error:#}"))).ok()
}

/// Warns that a choice for the session no longer exists, so prompts are taken without it.
fn gone(why: &str) {
    warnings::print_once(&[format!("a choice of this session is ignored: {why}")]);
}

/// The rule by which a prompt leaves a tool out, or makes an exception.
fn tool_rule((tool, is_on): (&String, &bool)) -> Rule {
    let action = if *is_on { Action::Allow } else { Action::Deny };
    Rule::new(leftfold_tools::permission_of(tool), "*", action)
}

/// Rules for the tools that `experimental` takes from every agent or from subagents, with their places.
fn left_out(settings: &Settings, base: &Base<'_>) -> Vec<(Rule, String)> {
    let leftfold_config::Experimental { batch_tool, primary_tools, .. } = &settings.experimental;
    let batch = batch_tool.as_ref().filter(|is_on| !***is_on);
    let batch = batch.map(|is_on| ("batch", is_on.place()));
    let of_child = primary_tools.iter().filter(|_| base.parent.is_some());
    let of_child = of_child.map(|tool| (tool.as_str(), tool.place()));
    let denied = batch.into_iter().chain(of_child);
    denied.map(|(tool, place)| (tool_rule((&tool.to_owned(), &false)), place.to_string())).collect()
}

/// Rules that deny a child its parent's tools, unless rules about the agent say otherwise.
fn denied_to_children(settings: &Settings, agent: &Agent) -> Vec<Rule> {
    let own = |tool: &str| {
        let own = settings.rules_of(&agent.name);
        let mut said = own.iter().chain(&agent.rules);
        said.any(|rule| rule.permission == tool && rule.action != Action::Deny)
    };
    let denied = PARENT_ONLY.iter().filter(|tool| !own(tool));
    denied.map(|tool| Rule::new(*tool, "*", Action::Deny)).collect()
}

/// The configuration in force now: the project's current instructions, skills and approvals, with
/// the tools of the servers and plugins that could be started. Warnings go to standard error. Waits
/// for servers, so it may block.
pub(crate) fn gather(mut turn_settings: TurnSettings, extensions: &Extensions) -> TurnConfig {
    let Extensions { mcp: servers, plugins } = extensions;
    let agent = turn_settings.agent.clone();
    let said = turn_settings.rules.clone();
    let Approvals { approved, revoked } = approvals::for_worktree(&turn_settings.approvals_of());
    turn_settings.options.approved = approved;
    turn_settings.options.revoked = revoked;
    let (mut config, problems) = gather::gather(turn_settings, Time::from(SystemTime::now()));
    warnings::print_once(&problems);
    servers.wait();
    plugins.wait();
    let (of_servers, of_plugins) = (servers.reports(), plugins.reports());
    gather::extend(&mut config, servers.tools(), |name| {
        let has = |report: &&ServerReport| report.tools.iter().any(|tool| tool.name == name);
        Some(format!("MCP server {}", of_servers.iter().find(has)?.name))
    });
    gather::extend(&mut config, plugins.tools(), |name| {
        let has = |report: &&PluginReport| report.tools.iter().any(|(tool, _)| tool == name);
        Some(format!("plugin {}", of_plugins.iter().find(has)?.name))
    });
    if agents::changes_nothing(&agent) {
        ask_about_tools(&mut config, &said, &servers.resource_tools(), &agent.name);
    }
    if let Some(output) = &config.options.output {
        config.tools.retain(|tool| tool.name != STRUCTURED_OUTPUT);
        config.tools.push(leftfold_tools::structured_output_tool(&output.schema));
        config.system.push(OUTPUT_PROMPT.trim_end().to_owned());
    }
    config.options.plugins = plugins.specs();
    warnings::print_once(&servers.problems());
    warnings::print_once(&plugins.problems());
    config
}

/// Tools of servers and plugins may change things, whatever they say of themselves. An agent that changes nothing calls
/// them after a question, unless a rule in `said` names them. Leftfold's own tools that read resources are exempt.
fn ask_about_tools(config: &mut TurnConfig, said: &[Rule], exempt: &[String], agent: &str) {
    let sources = &mut config.options.sources;
    let tools = sources.tools.keys().filter(|tool| !exempt.contains(tool));
    let asked: Vec<Rule> = tools.filter_map(|tool| rules::asking(said, tool)).collect();
    if !asked.is_empty() {
        let source = format!("built-in agent {agent}");
        let from = config.options.restrictions.iter().flatten().count();
        sources.restrictions.push(RuleSource { from, to: from + asked.len(), source });
        config.options.restrictions.push(asked);
    }
}

/// A project's MCP servers and plugins. Clones share them.
#[derive(Clone, Debug)]
pub struct Extensions {
    pub mcp: Servers,
    pub plugins: Plugins,
}

impl Extensions {
    /// Starts servers and plugins, and waits for them.
    pub async fn ready(&self) {
        tokio::join!(self.mcp.ready(), self.plugins.ready());
    }

    /// The sources that run calls of their tools.
    pub(crate) fn sources(&self) -> Vec<Arc<dyn ToolSource>> {
        vec![Arc::new(self.plugins.clone()), Arc::new(self.mcp.clone())]
    }
}

/// Builds the configurations that calls of a session need: for children, and for an agent that
/// takes over.
#[derive(Debug)]
pub(crate) struct SessionConfigs {
    pub(crate) project: Project,
    /// The file for the session's plan.
    pub(crate) plan: Option<PathBuf>,
    pub(crate) extensions: Extensions,
}

impl SessionConfigs {
    fn resolve(
        &self,
        agent: &str,
        inherited: Inherited<'_>,
    ) -> anyhow::Result<(TurnConfig, Models)> {
        let settings = resolved_settings::settings(
            self.project.settings_directory(),
            &self.extensions.plugins,
        )?;
        let overrides = Overrides { agent: Some(agent.to_owned()), ..Overrides::default() };
        let is_child = matches!(inherited, Inherited::Parent(_));
        let plan = self.plan.clone().filter(|_| !is_child);
        let Resolved { turn_settings, provider, others } =
            resolve(&settings, &self.project, &overrides, inherited, plan)?;
        let config = gather(turn_settings, &self.extensions);
        Ok((config, Models::new(others.into_iter().chain([provider]))))
    }
}

impl TurnConfigs for SessionConfigs {
    fn for_child(&self, agent: &str, parent: &TurnConfig) -> Result<ChildConfig, String> {
        let resolved = self.resolve(agent, Inherited::Parent(parent));
        let (config, models) = resolved.map_err(|error| format!("{error:#}"))?;
        Ok(ChildConfig { config, models })
    }

    fn for_switch(&self, agent: &str, before: &TurnConfig) -> Result<TurnConfig, String> {
        let resolved = self.resolve(agent, Inherited::Before(before));
        Ok(resolved.map_err(|error| format!("{error:#}"))?.0)
    }
}
