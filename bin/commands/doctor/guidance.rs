//! Checks agents, commands, skills, instruction files and approvals.

use std::path::Path;
use std::time::SystemTime;

use leftfold_events::Time;
use leftfold_events::turn_config::{ModelSpec, Options};
use leftfold_runtime::gather::{self, Agent, TurnSettings};
use leftfold_tools::skills;

use super::Findings;
use leftfold_config::{self as settings, Settings};
use leftfold_runtime::agents::Agents;
use leftfold_runtime::{project, session_paths};

pub(super) fn agents(found: &mut Findings, settings: &Settings) {
    found.area("agents");
    let agents = Agents::from_settings(settings);
    match agents.default(settings) {
        Ok(agent) => found.fine(format!("default agent: `{}`", agent.name)),
        Err(error) => {
            found.error(
                error.to_string(),
                "choose one that `leftfold agents` lists, with `--agent` or `default_agent`",
            );
        }
    }
    for known in agents.iter() {
        if let Some(place) = &known.place {
            found.fine(format!("`{}` from {place}", known.agent.name));
        }
    }
    for name in settings.commands.keys() {
        found.fine(format!("command /{name}"));
    }
}

/// Counts what "always" has allowed in the project.
pub(super) fn approvals(found: &mut Findings, directory: &Path) {
    found.area("approvals");
    match leftfold_runtime::approvals::stored(&settings::worktree_of(directory)) {
        Ok(known) if known.approved.is_empty() => {
            found.fine("none: `always` has allowed nothing in this project");
        }
        Ok(known) => {
            let count = known.approved.len();
            found.fine(format!("{count} in this project: `leftfold permission list` shows them"));
        }
        Err(error) => found.warning(format!("{error:#}"), "repair or remove the file"),
    }
}

/// Checks the files that go into the system prompt.
pub(super) fn texts(found: &mut Findings, settings: &Settings, directory: &Path, online: bool) {
    found.area("instructions");
    let worktree = settings::worktree_of(directory);
    let skills = skills::find(directory, &worktree, &session_paths::user_folders(settings)).skills;
    let mut sources = project::sources(settings);
    for page in sources.instructions.extract_if(.., |named| named.is_page() && !online) {
        found.note(format!("{}: not read (`--online` reads it)", settings::masked(&page.text)));
    }
    let turn_settings = TurnSettings {
        directory: directory.to_owned(),
        worktree: worktree.clone(),
        model: ModelSpec::default(),
        agent: Agent::new(Agent::DEFAULT),
        rules: Vec::new(),
        rule_sources: Vec::new(),
        agent_place: None,
        options: Options::default(),
        subagents: Vec::new(),
        sources,
        plan: None,
        reminds: false,
        workplace: None,
        missing_tools: Vec::new(),
        shell: None,
    };
    let (config, problems) = gather::gather(turn_settings, Time::from(SystemTime::now()));
    for path in &config.options.instructions {
        found.fine(path.as_str());
    }
    if config.options.instructions.is_empty() {
        found.note(
            "no instruction files; `/init` writes AGENTS.md, which goes into every system prompt",
        );
    }
    for skill in skills {
        found.fine(format!("skill `{}` from {}", skill.name, skill.path.display()));
    }
    for problem in problems {
        found.warning(problem, "it is left out until you fix this");
    }
    match leftfold_runtime::texts::held(directory) {
        Ok(held) => held.iter().for_each(|text| {
            let path = leftfold_view::clean::visible_line(&text.path);
            let what =
                format!("{path}: a call of the agent has changed it, and nobody has accepted that");
            found.warning(
                what,
                "the text from before is in force; `leftfold trust` shows the difference",
            );
        }),
        Err(error) => {
            found.warning(format!("{error:#}"), "no text of the project is in force until then");
        }
    }
}
