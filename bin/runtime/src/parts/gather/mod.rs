//! Gathers a [`TurnConfig`], the only look at the world before an intent. It only reads. Callers
//! that send a prompt run it, never a message handler.

pub mod agent;
mod instructions;
pub mod plan;
mod prompt;
mod sources;

use std::path::PathBuf;

use leftfold_config::SettingPlace;
use leftfold_events::rules::{self, Rule};
use leftfold_events::sandbox::{self, SandboxOptions};
use leftfold_events::turn_config::{
    AskMode, ModelSpec, Options, PromptPiece, RuleSource, ToolSpec, TurnConfig,
};
use leftfold_events::{Json, Time};

use crate::workplace::Workplace;

pub use agent::Agent;
pub(crate) use instructions::named;
pub use instructions::{Named, Sources};

/// The choices of settings and command line.
#[derive(Clone, Debug)]
pub struct TurnSettings {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    pub model: ModelSpec,
    pub agent: Agent,
    /// The place in settings of the agent.
    pub agent_place: Option<SettingPlace>,
    /// The user's rules, which come after the defaults and the agent's own.
    pub rules: Vec<Rule>,
    /// The origin of each of `rules`.
    pub rule_sources: Vec<String>,
    pub options: Options,
    /// The agents that calls may start as subagents, each with its description.
    pub subagents: Vec<(String, String)>,
    pub sources: Sources,
    /// Tools that settings do not set up.
    pub missing_tools: Vec<&'static str>,
    /// The program that runs command lines, if it is not the usual one.
    pub shell: Option<String>,
    /// The file for the session's plan; `None`: planning has no file, and the model cannot begin or end it.
    pub plan: Option<PathBuf>,
    /// Whether the model is told when planning begins and ends. A subagent is not.
    pub reminds: bool,
    /// The executor beside the directory; `None`: the directory is on this machine.
    pub workplace: Option<Workplace>,
}

impl TurnSettings {
    /// The worktree under which approvals are remembered. A folder of another machine is not the one of this machine
    /// with an equal path.
    pub(crate) fn approvals_of(&self) -> PathBuf {
        match &self.options.executor {
            Some(name) => PathBuf::from(format!("executor:{name}:{}", self.worktree.display())),
            None => self.worktree.clone(),
        }
    }
}

const SUMMARY: &str = include_str!("../../../../../prompts/compaction.md");

/// The prompt for a model that writes titles, for `Options::title_prompt`.
pub const TITLE: &str = include_str!("../../../../../prompts/title.md").trim_ascii();

/// The prompt for a model that sums up a session for lists, for `Options::session_summary_prompt`.
pub const SESSION_SUMMARY: &str =
    include_str!("../../../../../prompts/session_summary.md").trim_ascii();

/// The turn configuration in force at `now`, and the problems with files that were left out, for
/// people.
pub fn gather(turn_settings: TurnSettings, now: Time) -> (TurnConfig, Vec<String>) {
    let (rules, rule_sources) = merged(&turn_settings);
    let mut tools = tools(&turn_settings, &rules);
    offer_tasks(&mut tools, &turn_settings.subagents);
    name_shell(&mut tools, turn_settings.shell.as_deref());
    offer_sandbox(&mut tools, turn_settings.options.sandbox.as_ref());
    let (name, first) = prompt::base(&turn_settings, &tools);
    let found = instructions::find(&turn_settings);
    let Sources { user_folders, .. } = &turn_settings.sources;
    let mut problems = found.problems;
    let skills = match &turn_settings.workplace {
        Some(workplace) => workplace.skills(),
        None => {
            let TurnSettings { directory, worktree, .. } = &turn_settings;
            let skills = leftfold_tools::skills::find(directory, worktree, user_folders);
            problems.extend(skills.problems.iter().map(ToString::to_string));
            skills.skills
        }
    };
    let mut second = prompt::environment(&turn_settings, now);
    prompt::instructions(&mut second, &found.sections);
    prompt::skills(&mut second, skills, &rules, &tools);
    if let Some(text) = &turn_settings.options.system {
        second.frame("\n\n");
        let name = Some("system".to_owned());
        second.push(text.trim(), PromptPiece { name, ..PromptPiece::new("option") });
    }
    let mut options = turn_settings.options.clone();
    plan::remind(&turn_settings, &tools, &mut options);
    if options.summary_prompt.is_empty() {
        SUMMARY.trim().clone_into(&mut options.summary_prompt);
    }
    options.instructions = found.paths;
    let system = vec![first.text.clone(), second.text.clone()];
    let pieces = first.pieces(0).chain(second.pieces(1)).collect();
    options.sources.system = pieces;
    options.sources.rules = rule_sources;
    options.sources.held = found.held;
    let config =
        TurnConfig { system, tools, rules, model: turn_settings.model, options, prompt: name };
    (config, problems)
}

/// The instruction files that go with a prompt, as it names them. Pages are left out, because they take time, and files of
/// other machines.
pub(crate) fn instruction_files(turn_settings: &TurnSettings) -> Vec<String> {
    if turn_settings.workplace.is_some() {
        return Vec::new();
    }
    let mut turn_settings = turn_settings.clone();
    turn_settings.sources.instructions.retain(|named| !named.is_page());
    let sections = instructions::find(&turn_settings).sections;
    sections.into_iter().filter_map(|section| section.origin.path).collect()
}

/// The rules in merge order, and where they come from.
pub(crate) fn merged(turn_settings: &TurnSettings) -> (Vec<Rule>, Vec<RuleSource>) {
    let TurnSettings { agent, plan, worktree, options, .. } = turn_settings;
    let user = turn_settings.rules.iter().enumerate().map(|(at, rule)| {
        let source = turn_settings.rule_sources.get(at).filter(|source| !source.is_empty());
        (vec![rule.clone()], source.cloned().unwrap_or_else(|| "settings".to_owned()))
    });
    let parts = [
        (rules::defaults(), "default".to_owned()),
        (sandbox::default_rules(options.sandbox.as_ref()), "sandbox".to_owned()),
        (sandbox::home_rules(options.sandbox.as_ref()), "home folder".to_owned()),
        (agent.rules.clone(), format!("built-in agent {}", agent.name)),
        (plan::rules(agent, plan.as_deref(), worktree), "plan".to_owned()),
    ];
    let parts: Vec<(Vec<Rule>, String)> = parts.into_iter().chain(user).collect();
    let counted = parts.iter().map(|(rules, source)| (rules.len(), source.clone()));
    let sources = RuleSource::all(counted.collect::<Vec<_>>());
    (parts.into_iter().flat_map(|(rules, _)| rules).collect(), sources)
}

/// All tools that the model accepts and the rules do not hide. The `question` tool is left out if
/// nobody can answer. Descriptions name no tool that is left out.
fn tools(turn_settings: &TurnSettings, rules: &[Rule]) -> Vec<ToolSpec> {
    if !turn_settings.model.abilities.tools {
        return Vec::new();
    }
    let mut offered = leftfold_tools::tools_for_model(&turn_settings.model.id);
    let options = &turn_settings.options;
    offered.retain(|tool| !leftfold_tools::hides(rules, options.restricting(), tool.name()));
    offered.retain(|tool| tool.name() != "question" || turn_settings.options.ask == AskMode::Ask);
    offered.retain(|tool| plan::offers(turn_settings, tool.name()));
    offered.retain(|tool| !turn_settings.missing_tools.contains(&tool.name()));
    let is_offered = |name: &str| offered.iter().any(|tool| tool.name() == name);
    let spec = |tool: &&dyn leftfold_tools::Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: prompt::fitting(tool.description().trim(), &is_offered),
        schema: tool.schema(),
    };
    offered.iter().map(spec).collect()
}

/// Adds tools that are not built in, if the model accepts any: those that the rules do not hide. `source` names the
/// server or plugin of a tool.
pub fn extend(
    config: &mut TurnConfig,
    tools: Vec<ToolSpec>,
    source: impl Fn(&str) -> Option<String>,
) {
    if !config.model.abilities.tools {
        return;
    }
    for tool in tools {
        if leftfold_tools::hides(&config.rules, config.options.restricting(), &tool.name) {
            continue;
        }
        if let Some(source) = source(&tool.name) {
            config.options.sources.tools.insert(tool.name.clone(), source);
        }
        config.tools.push(tool);
    }
}

/// Tells the model which shell runs its lines, if it is not the usual one.
fn name_shell(tools: &mut [ToolSpec], shell: Option<&str>) {
    let Some(shell) = shell else { return };
    for bash in tools.iter_mut().filter(|tool| tool.name == "bash") {
        bash.description =
            format!("{}\n{}", bash.description.trim_end(), leftfold_tools::bash_about_shell(shell));
    }
}

/// Adds the arguments and a description of the sandbox to the `bash` tool, if commands are confined.
fn offer_sandbox(tools: &mut [ToolSpec], sandbox: Option<&SandboxOptions>) {
    if sandbox.is_some_and(|sandbox| sandbox.backend.confines()) {
        for bash in tools.iter_mut().filter(|tool| tool.name == "bash") {
            bash.schema = leftfold_tools::bash_schema_in_sandbox();
            bash.description =
                format!("{}\n{}", bash.description.trim_end(), leftfold_tools::BASH_IN_SANDBOX);
        }
    }
}

/// Adds the names of the subagents to the `task` tool; without subagents the tool is removed.
fn offer_tasks(tools: &mut Vec<ToolSpec>, subagents: &[(String, String)]) {
    if subagents.is_empty() {
        tools.retain(|tool| tool.name != "task");
    }
    if let Some(task) = tools.iter_mut().find(|tool| tool.name == "task") {
        let agents = subagents.iter().map(|(name, about)| format!("\n- {name}: {about}"));
        task.description += "\n\nThe agents are:";
        task.description.extend(agents);
        // Servers that enforce the schema restrict the model to these names.
        let mut schema = task.schema.value();
        if let Some(agent) = schema.pointer_mut("/properties/subagent_type") {
            agent["enum"] = subagents.iter().map(|(name, _)| name.as_str()).collect();
        }
        task.schema = Json::from_value(&schema);
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::rules::Action;
    use leftfold_events::turn_config::Abilities;

    use std::path::Path;

    use super::*;

    #[test]
    fn the_model_and_the_rules_decide_which_tools_there_are() {
        let deny = [Rule::new("edit", "*", Action::Deny)];
        for (model, rules, patch, edit) in [
            ("gpt-5", &[][..], true, false),
            ("claude-opus-4", &[], false, true),
            ("gpt-5", &deny, false, false),
            ("claude-opus-4", &deny, false, false),
        ] {
            let config = turn_settings(Path::new("/"), model, rules.to_vec());
            let has = |name: &str| config.tools.iter().any(|tool| tool.name == name);
            let found = (has("apply_patch"), has("edit"), has("write"), has("read"));
            assert_eq!(found, (patch, edit, edit, true), "{model} {rules:?}");
        }
    }

    const MODELS: [&str; 7] = [
        "gpt-5-codex", "gpt-5", "o3", "gemini-3-pro", "claude-opus-4-5", "arcee-ai/trinity-mini",
        "qwen3:8b",
    ];

    fn turn_settings(folder: &Path, model: &str, rules: Vec<Rule>) -> TurnConfig {
        configured(folder, ModelSpec { id: model.to_owned(), ..ModelSpec::default() }, rules)
    }

    fn configured(folder: &Path, model: ModelSpec, rules: Vec<Rule>) -> TurnConfig {
        with_options(folder, model, rules, Options::default())
    }

    fn with_options(
        folder: &Path,
        model: ModelSpec,
        rules: Vec<Rule>,
        options: Options,
    ) -> TurnConfig {
        let sources = Sources::default();
        let turn_settings = TurnSettings {
            directory: folder.to_owned(),
            worktree: folder.to_owned(),
            agent: Agent::build(),
            model,
            rules,
            rule_sources: Vec::new(),
            agent_place: None,
            options,
            subagents: Vec::new(),
            sources,
            missing_tools: Vec::new(),
            plan: None,
            reminds: true,
            shell: None,
            workplace: None,
        };
        let (config, problems) = gather(turn_settings, Time::from_millis(0));
        assert_eq!(problems, [""; 0]);
        config
    }

    #[test]
    fn a_model_that_can_not_call_tools_is_told_of_none() {
        let abilities = Abilities { tools: false, ..Abilities::default() };
        let model = ModelSpec { id: "m".into(), abilities, ..ModelSpec::default() };
        let config = configured(Path::new("/"), model, Vec::new());
        assert!(config.tools.is_empty());
        assert!(!config.system.concat().contains("`read`"), "{:?}", config.system);
    }

    #[test]
    fn only_confined_commands_have_rules_and_arguments_about_the_sandbox() {
        use leftfold_events::sandbox::Backend;
        let asks = Rule::new("network", "*", Action::Ask);
        let allows = Rule::new("network", "npm ci", Action::Allow);
        for (backend, confines) in [
            (None, false),
            (Some(Backend::Off), false),
            (Some(Backend::External), false),
            (Some(Backend::None), false),
            (Some(Backend::Namespaces), true),
            (Some(Backend::Bwrap), true),
            (Some(Backend::Landlock), true),
            (Some(Backend::Seatbelt), true),
        ] {
            let sandbox =
                backend.map(|backend| SandboxOptions { backend, ..SandboxOptions::default() });
            let options = Options { sandbox, ..Options::default() };
            let model = ModelSpec { id: "m".into(), ..ModelSpec::default() };
            let config = with_options(Path::new("/"), model, vec![allows.clone()], options);
            let bash = config.tools.iter().find(|tool| tool.name == "bash").unwrap();
            let has = |name: &str| !bash.schema.value()["properties"][name].is_null();
            assert_eq!((has("network"), has("unsandboxed")), (confines, confines), "{backend:?}");
            assert_eq!(config.rules.contains(&asks), confines, "{backend:?}");
            // the user's rules come later
            assert_eq!(config.rules.last(), Some(&allows));
        }
    }

    #[test]
    fn the_agents_for_tasks_are_named_to_the_model() {
        let tool = leftfold_tools::find("task").unwrap();
        let (name, description) = (tool.name().to_owned(), tool.description().to_owned());
        let mut tools = vec![ToolSpec { name, description, schema: tool.schema() }];
        let named = ["general", "reviewer"].map(|name| (name.to_owned(), "It works.".to_owned()));
        offer_tasks(&mut tools, &named);
        let task = &tools[0];
        assert!(task.description.ends_with("\n- general: It works.\n- reviewer: It works."));
        let agent = task.schema.value()["properties"]["subagent_type"].clone();
        assert_eq!(agent["enum"], serde_json::json!(["general", "reviewer"]));
        assert_eq!(agent["type"], "string");
        offer_tasks(&mut tools, &[]);
        assert!(tools.is_empty());
    }

    #[test]
    fn no_prompt_names_a_tool_that_is_not_there() {
        let site = tempfile::tempdir().unwrap();
        let deny = |name: &str| vec![Rule::new(name, "*", Action::Deny)];
        let denied = ["edit", "todowrite", "read", "skill", "*"].map(deny);
        for model in MODELS {
            for rules in denied.iter().chain([&Vec::new()]) {
                let config = turn_settings(site.path(), model, rules.clone());
                let descriptions = config.tools.iter().map(|tool| &tool.description);
                for text in config.system.iter().chain(descriptions) {
                    for name in text.split('`').skip(1).step_by(2) {
                        let known = leftfold_tools::find(name).is_some();
                        let offered = config.tools.iter().any(|tool| tool.name == name);
                        assert!(!known || offered, "{model} {rules:?}: {name} in {text}");
                    }
                }
                assert!(config.tools.iter().all(|tool| !tool.description.is_empty()), "{rules:?}");
            }
        }
    }

    #[test]
    fn each_family_has_a_prompt_of_its_own_and_the_same_core() {
        let site = tempfile::tempdir().unwrap();
        let configs = MODELS.map(|model| turn_settings(site.path(), model, Vec::new()));
        let names = configs.each_ref().map(|config| config.prompt.as_str());
        assert_eq!(names, ["codex", "codex", "gpt", "gemini", "anthropic", "trinity", "default"]);
        let least = configs.iter().map(|config| config.system[0].len()).min();
        for config in &configs {
            let base = &config.system[0];
            assert!(base.starts_with("You are Leftfold, a coding agent."), "{base}");
            assert_eq!(base.matches("\nHow to answer\n").count(), 1, "{base}");
            assert_eq!(Some(base.len()) == least, config.prompt == "default", "{base}");
            assert_eq!(base.contains("`apply_patch`"), config.prompt == "codex");
        }
    }

    #[test]
    fn a_summary_has_a_section_for_each_thing_that_must_not_be_lost() {
        let headings = SUMMARY.lines().filter_map(|line| line.strip_prefix("## "));
        let wanted =
            ["Goal", "Constraints", "Progress", "Decisions", "Next steps", "Context", "Files"];
        assert!(headings.eq(wanted), "{SUMMARY}");
        assert!(SUMMARY.contains("earlier summary"), "an earlier summary is updated: {SUMMARY}");
    }

    #[test]
    fn the_second_block_has_environment_instructions_and_skills() {
        let site = tempfile::tempdir().unwrap();
        let folder = site.path().canonicalize().unwrap();
        let bare = turn_settings(&folder, "m", Vec::new());
        let environment = format!(
            "<environment>\nModel: /m\nWorking directory: {0}\nProject root: {0}\n\
             Git repository: no\nPlatform: {1}\nDate: 1970-01-01\n</environment>",
            folder.display(),
            std::env::consts::OS
        );
        assert_eq!(bare.system[1..], std::slice::from_ref(&environment)[..]);
        std::fs::write(folder.join("AGENTS.md"), "Use tabs.\n").unwrap();
        for name in ["tidy", "risky"] {
            let skill = folder.join(".leftfold/skills").join(name);
            std::fs::create_dir_all(&skill).unwrap();
            std::fs::write(skill.join("SKILL.md"), "---\ndescription: d\n---\n").unwrap();
        }
        let rules = vec![Rule::new("skill", "risky", Action::Deny)];
        let config = turn_settings(&folder, "m", rules.clone());
        let (intro, skills) = (
            include_str!("../../../../../prompts/instructions.md").trim(),
            include_str!("../../../../../prompts/skills.md").trim(),
        );
        let expected = format!(
            "{environment}\n\n<instructions>\n{intro}\n\nInstructions from: {0}/AGENTS.md\n\
             Use tabs.\n</instructions>\n\n<skills>\n{skills}\n\n- tidy: d\n</skills>",
            folder.display()
        );
        assert_eq!(config.system[1..], [expected]);
        assert_eq!(config.options.instructions, [folder.join("AGENTS.md").display().to_string()]);
        // Cached entries are found again.
        assert_eq!(turn_settings(&folder, "m", rules), config);
        assert_eq!(bare.system[0], config.system[0]);
        let config = turn_settings(&folder, "m", vec![Rule::new("skill", "*", Action::Deny)]);
        assert!(!config.system[1].contains("<skills>"));
    }
}
