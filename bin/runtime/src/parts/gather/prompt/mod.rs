//! Builds the two blocks of the system prompt. The first is the same in every project, so that a
//! provider can cache it; the second changes with project and day.

use leftfold_events::Time;
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::turn_config::{PromptPiece, ToolSpec};
use leftfold_tools::skills::{self, Skill};

use super::TurnSettings;
use super::instructions::Section;
use super::sources::{self, Block};

const CORE: &str = include_str!("../../../../../../prompts/system/core.md");
const THOROUGH: &str = include_str!("../../../../../../prompts/system/thorough.md");

/// Families of models that need prompts of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelFamily {
    /// OpenAI's models from GPT-5 on, which change files with patches.
    Codex,
    /// Earlier models of OpenAI, and its open ones.
    Gpt,
    Gemini,
    Anthropic,
    /// Arcee's models, which make one call in a reply.
    Trinity,
    /// Any other model, perhaps a small one on the user's own machine.
    Default,
}

impl ModelFamily {
    /// The family by the model's id, with or without its maker's name in front.
    fn of(id: &str) -> Self {
        let id = id.to_lowercase();
        let name = id.rsplit('/').next().unwrap_or_default();
        let numbered = |o: &str| {
            let rest = name.strip_prefix(o);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '.']))
        };
        let generation = id.split_once("gpt-").map_or(0, |(_, rest)| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest[..digits].parse().unwrap_or(0)
        });
        if id.contains("codex") || generation >= 5 {
            Self::Codex
        } else if id.contains("gpt-") || ["o1", "o3", "o4"].into_iter().any(numbered) {
            Self::Gpt
        } else if id.contains("gemini-") {
            Self::Gemini
        } else if id.contains("claude") {
            Self::Anthropic
        } else if id.contains("trinity") {
            Self::Trinity
        } else {
            Self::Default
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Gpt => "gpt",
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
            Self::Trinity => "trinity",
            Self::Default => "default",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Codex => include_str!("../../../../../../prompts/system/codex.md"),
            Self::Gpt => include_str!("../../../../../../prompts/system/gpt.md"),
            Self::Gemini => include_str!("../../../../../../prompts/system/gemini.md"),
            Self::Anthropic => include_str!("../../../../../../prompts/system/anthropic.md"),
            Self::Trinity => include_str!("../../../../../../prompts/system/trinity.md"),
            Self::Default => include_str!("../../../../../../prompts/system/default.md"),
        }
    }
}

/// The name and text of the first prompt: the agent's own, or the base prompt of the model's family.
pub(super) fn base(turn_settings: &TurnSettings, tools: &[ToolSpec]) -> (String, Block) {
    if let Some(prompt) = &turn_settings.agent.prompt {
        let (agent, place) = (&turn_settings.agent, turn_settings.agent_place.as_ref());
        let mut block = Block::default();
        block.push(prompt.trim(), sources::of_agent(&agent.name, prompt.trim(), place));
        return (format!("agent:{}", agent.name), block);
    }
    let family = ModelFamily::of(&turn_settings.model.id);
    let parts = match family {
        ModelFamily::Default | ModelFamily::Trinity => vec![CORE, family.text()],
        ModelFamily::Codex | ModelFamily::Gpt | ModelFamily::Gemini | ModelFamily::Anthropic => {
            vec![CORE, THOROUGH, family.text()]
        }
    };
    let parts: Vec<&str> = parts.into_iter().map(str::trim).collect();
    let name = Some(family.name().to_owned());
    let mut block = Block::default();
    let text = fitting(&parts.join("\n\n"), &|name| has(tools, name));
    block.push(&text, PromptPiece { name, ..PromptPiece::new("prompt") });
    (family.name().to_owned(), block)
}

pub(super) fn has(tools: &[ToolSpec], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}

/// The text without the list items that name, in backquotes, a tool that is not offered.
pub(super) fn fitting(text: &str, offered: &dyn Fn(&str) -> bool) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut item: Vec<&str> = Vec::new();
    let fits = |item: &[&str]| !item.iter().any(|line| names_missing(line, offered));
    for line in text.lines() {
        let goes_on = line.starts_with("  ") && !item.is_empty();
        if !goes_on && fits(&item) {
            kept.append(&mut item);
        }
        if !goes_on {
            item.clear();
        }
        if line.starts_with("- ") || goes_on {
            item.push(line);
        } else {
            kept.push(line);
        }
    }
    if fits(&item) {
        kept.append(&mut item);
    }
    kept.join("\n")
}

fn names_missing(line: &str, offered: &dyn Fn(&str) -> bool) -> bool {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.into_iter().any(|name| leftfold_tools::find(name).is_some() && !offered(name))
}

/// The place and date for the model.
pub(super) fn environment(turn_settings: &TurnSettings, now: Time) -> Block {
    let (git, platform) = match &turn_settings.workplace {
        Some(workplace) => (workplace.there.git, workplace.there.platform.as_str()),
        None => (turn_settings.worktree.join(".git").exists(), std::env::consts::OS),
    };
    let git = if git { "yes" } else { "no" };
    let date = now.to_string();
    let text = format!(
        "<environment>\nModel: {}\nWorking directory: {}\nProject root: {}\nGit repository: {git}\n\
         Platform: {platform}\nDate: {}\n</environment>",
        turn_settings.model.name(),
        turn_settings.directory.display(),
        turn_settings.worktree.display(),
        date.get(..10).unwrap_or(&date),
    );
    let mut block = Block::default();
    block.push(&text, PromptPiece::new("environment"));
    block
}

/// Appends the instruction texts, weakest first, if there are any.
pub(super) fn instructions(block: &mut Block, sections: &[Section]) {
    if sections.is_empty() {
        return;
    }
    let intro = include_str!("../../../../../../prompts/instructions.md").trim();
    block.frame(&format!("\n\n<instructions>\n{intro}"));
    for Section { text, place, origin } in sections {
        block.frame("\n\n");
        block.framed(text, vec![(place.clone(), origin.clone())]);
    }
    block.frame("\n</instructions>");
}

/// Appends the skills that the rules do not deny, if there are any, and a tool to load them.
pub(super) fn skills(block: &mut Block, found: Vec<Skill>, rules: &[Rule], tools: &[ToolSpec]) {
    let denied = |skill: &Skill| {
        let rule = rules::evaluate(rules, "skill", &skill.name);
        rule.is_some_and(|rule| rule.action == Action::Deny)
    };
    let listed: Vec<Skill> = found.into_iter().filter(|skill| !denied(skill)).collect();
    let Some(text) = skills::section(&listed).filter(|_| has(tools, "skill")) else { return };
    let (mut pieces, mut done) = (Vec::new(), 0);
    for Skill { name, path, .. } in &listed {
        // each has a line of its own, in this order
        let found = text[done..].find(&format!("\n- {name}: "));
        let Some(start) = found.map(|at| done + at + 1) else { continue };
        done = text[start..].find('\n').map_or(text.len(), |end| start + end);
        let (name, path) = (Some(name.clone()), Some(path.display().to_string()));
        pieces.push((start..done, PromptPiece { name, path, ..PromptPiece::new("skill") }));
    }
    block.frame("\n\n");
    block.framed(&text, pieces);
}

#[cfg(test)]
mod tests;
