//! Permissions of subagents, and whatever else a turn inherits: from its session, from the turn that it resumes, from its
//! parent's turn, or from the agent that hands over to it.
//!
//! The rules that deny something to a subagent's parent restrict the subagent, too.

use leftfold_events::TurnConfig;
use leftfold_events::event::SessionChoices;
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::{Options, Sources};

use crate::agents;
use crate::project::Project;

/// The turn that a configuration continues, if it continues one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inherited<'a> {
    Nothing,
    /// A resumed turn keeps its model and its options.
    Resumed(Option<&'a Options>),
    /// A child has its parent's model, cost limit, and people to ask.
    Parent(&'a TurnConfig),
    /// An agent that takes over within a turn keeps the turn's limits.
    Before(&'a TurnConfig),
}

/// The parts of a turn that are there before settings, agent and overrides are looked at. Only [`Base::new`] tells the kinds
/// of turns apart.
#[derive(Debug)]
pub(crate) struct Base<'a> {
    /// The configuration of the parent, for a child's turn.
    pub(super) parent: Option<&'a TurnConfig>,
    /// The configuration that another agent hands over within the turn.
    pub(super) before: Option<&'a TurnConfig>,
    /// The options of the turn that goes on.
    pub(super) options: Option<&'a Options>,
    /// Whether the turn keeps the session's last model, whatever the agent's own is.
    pub(super) resumes: bool,
    /// The choices of a client for prompts. They are not for other turns.
    pub(super) choices: SessionChoices,
    pub(super) session_rules: Vec<Rule>,
    /// Those of the prompt that the turn serves. A child has those of its parent, after its parent's session.
    pub(super) prompt_rules: Vec<Rule>,
    pub(super) named_hosts: Vec<String>,
    pub(super) depth: u32,
    /// The options with the restrictions that a child's turns have from its parent.
    restricting: Option<&'a Options>,
    /// The sources of the turn that model or options are taken from.
    pub(super) sources: Option<&'a Sources>,
}

impl<'a> Base<'a> {
    pub(super) fn new(inherited: Inherited<'a>, project: &'a Project) -> Self {
        let options = match inherited {
            Inherited::Nothing | Inherited::Parent(_) => None,
            Inherited::Resumed(options) => options,
            Inherited::Before(config) => Some(&config.options),
        };
        let base = Self {
            parent: None,
            before: None,
            options,
            resumes: false,
            choices: SessionChoices::default(),
            session_rules: project.rules.clone(),
            prompt_rules: options.map(|options| options.prompt_rules.clone()).unwrap_or_default(),
            named_hosts: options.map(|options| options.named_hosts.clone()).unwrap_or_default(),
            depth: options.map_or(0, |options| options.depth),
            restricting: options.filter(|options| options.depth > 0),
            sources: options.map(|options| &options.sources),
        };
        match inherited {
            Inherited::Nothing => Self {
                choices: project.choices.clone(),
                sources: project.sources.as_deref(),
                ..base
            },
            Inherited::Resumed(_) => Self { resumes: true, ..base },
            Inherited::Before(config) => Self {
                before: Some(config),
                session_rules: config.options.session_rules.clone(),
                ..base
            },
            Inherited::Parent(config) => Self {
                parent: Some(config),
                session_rules: Vec::new(),
                prompt_rules: [&*config.options.session_rules, &config.options.prompt_rules]
                    .concat(),
                named_hosts: config.options.named_hosts.clone(),
                depth: config.options.depth.saturating_add(1),
                restricting: Some(&config.options),
                ..base
            },
        }
    }

    /// The configuration that supplies the model if neither agent nor caller names one.
    pub(super) fn config(&self) -> Option<&'a TurnConfig> {
        self.parent.or(self.before)
    }

    /// The denials of a child's parent, so that no agent does through a child what it may not do itself. Its
    /// permissions for tools of its own say nothing about the child's.
    pub(super) fn denied(&self) -> Vec<Vec<Rule>> {
        let own = self.parent.map(|parent| &parent.rules);
        let handed_down = self.restricting.into_iter().flat_map(|options| &options.restrictions);
        own.into_iter().chain(handed_down).filter_map(|list| agents::denials(list)).collect()
    }

    /// The questions that a child's parent needs for tools of servers and plugins, because it changes nothing by itself.
    pub(super) fn asked(&self) -> Vec<Rule> {
        let Some(Options { restrictions, sources, .. }) = self.restricting else {
            return Vec::new();
        };
        let is_of_tool = |rule: &&Rule| {
            rule.action == Action::Ask && sources.tools.contains_key(&rule.permission)
        };
        restrictions.iter().flatten().filter(is_of_tool).cloned().collect()
    }
}
