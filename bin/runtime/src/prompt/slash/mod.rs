//! Slash commands: prompts from settings or Markdown files, called as `/NAME ARGUMENTS`. Also
//! resolves the files, agents and resources that a prompt mentions.

mod builtin;
pub(crate) mod mention;
mod remote;
mod resource;
mod skill;
mod subtask;
mod template;

use std::path::Path;

use leftfold_events::event::{Access, CallSpec, PromptKind, PromptPart, Resolution};
use leftfold_events::rules::{Action, LEFTFOLD, host};
use leftfold_events::turn_config::{AskMode, TurnConfig};
use leftfold_events::{Json, judge};
use leftfold_files::texts::INSTRUCTIONS;
use leftfold_tools::Output;

use crate::Usage;
use crate::agents::Agents;
use crate::project::Project;
use crate::resolved_settings::{self, ResolvedSettings};
use crate::session_paths::SessionPlace;
use crate::session_setup::SessionSetup;
use crate::turn_config::Extensions;
use crate::turn_config::{Overrides, PromptOptions};
use leftfold_config::{self as settings, At, Hint, Settings};
use mention::Mentions;
use template::Piece;

pub use mention::{agent_part, with_agents};

/// A prompt, and the agent and model that answer it; a command may name its own.
#[derive(Debug)]
pub struct Prepared {
    pub project: Project,
    pub overrides: Overrides,
    /// The agent and model that the command names, for the node of another process.
    of_command: PromptOptions,
    call: Option<Call>,
}

/// The scope of `--agent` and `--model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsFor {
    /// This prompt only: the options win over the command's own.
    ForPrompt,
    /// The whole conversation: the command's own win over the options.
    ForAll,
}

/// A command, and the arguments typed after it.
#[derive(Debug)]
struct Call {
    name: String,
    template: String,
    arguments: String,
    /// The agent that runs it in a session of its own.
    subtask: Option<String>,
    /// The server that supplies the prompt, and the prompt's name there.
    remote: Option<(String, String)>,
    /// Whether it is a skill.
    skill: bool,
}

impl Prepared {
    /// Finds the command that `text` calls, if any; a text that begins with a path calls none.
    /// `store` is the folder of the project's sessions. Waits for plugins, so it may block.
    ///
    /// # Errors
    /// There is no such command, or the agent that it names does not exist.
    pub fn new(
        (project, store): (&Project, &Path),
        overrides: &Overrides,
        text: &str,
        given: OptionsFor,
    ) -> anyhow::Result<Self> {
        let mut prepared = Self {
            project: project.clone(),
            overrides: overrides.clone(),
            of_command: PromptOptions::default(),
            call: None,
        };
        let Some(word) = called(text) else { return Ok(prepared) };
        let settings = ResolvedSettings::for_project(project, store)?.settings;
        let (said, builtin) = (settings.commands.get(word), builtin::find(word));
        if said.is_none() && builtin.is_none() {
            let rest = &text[1 + word.len()..];
            let skill = || skill::call(word, rest, &settings, project);
            if let Some(call) = remote::call(word, rest, &settings, project).or_else(skill) {
                prepared.call = Some(call);
                return Ok(prepared);
            }
            return match is_path(word, &project.directory) {
                true => Ok(prepared),
                false => Err(unknown(word, &settings).into()),
            };
        }
        let subtask = subtask::agent(word, said, builtin, &settings)?;
        let own = builtin.map(|builtin| builtin.template.trim().to_owned());
        let mut template = own.unwrap_or_default();
        if let Some(command) = said {
            prepared.take_over(word, command, (&settings, given), subtask.is_some())?;
            template = command.template.clone().unwrap_or(template);
            if template.is_empty() {
                let place = command.key_place();
                return Err(Usage(format!(
                    "{place}: the command `/{word}` has no template: add the text of its prompt"
                ))
                .into());
            }
        }
        let arguments = text[1 + word.len()..].to_owned();
        let name = word.to_owned();
        prepared.call =
            Some(Call { name, template, arguments, subtask, remote: None, skill: false });
        Ok(prepared)
    }

    /// Whether the text calls a command.
    pub fn is_command(&self) -> bool {
        self.call.is_some()
    }

    fn take_over(
        &mut self,
        name: &str,
        command: &At<settings::Command>,
        (settings, given): (&Settings, OptionsFor),
        subtask: bool,
    ) -> Result<(), Usage> {
        let mut models = command.model.is_some();
        if let Some(wanted) = command.agent.as_ref().filter(|_| !subtask) {
            let agents = Agents::from_settings(settings);
            let agent = agents.find(wanted).map_err(|Usage(why)| {
                Usage(format!("{}: the command `/{name}`: {why}", command.key_place()))
            })?;
            models |= agent.model.is_some();
            self.of_command.model.clone_from(&agent.model);
            self.of_command.agent = Some(wanted.clone());
            self.project.agent = Some(wanted.clone());
            self.project.choices.agent = None;
            if given == OptionsFor::ForAll {
                self.overrides.agent = None;
            }
        }
        if models {
            (self.project.choices.model, self.project.choices.variant) = (None, None);
        }
        if given == OptionsFor::ForAll && models {
            self.overrides.model = None;
        }
        let said = || command.model.as_ref().map(|model| model.to_string());
        self.of_command.model = said().or(self.of_command.model.take());
        self.overrides.model = self.overrides.model.take().or_else(said);
        Ok(())
    }

    /// The setup for the prompt's session. Waits for plugins, so it may block.
    ///
    /// # Errors
    /// [`Usage`]: settings, agent, model or variant are wrong.
    pub fn setup(&self, place: SessionPlace) -> anyhow::Result<SessionSetup> {
        let setup = SessionSetup::new(place, &self.project, &self.overrides, false)?;
        Ok(SessionSetup { of_command: self.of_command.clone(), ..setup })
    }

    /// The prompt's parts. `parts` is the prompt as it was typed. Shell lines of a template become
    /// parts that the session runs as calls; mentioned files and resources are read here.
    ///
    /// # Errors
    /// The rules do not allow a file or resource, or it cannot be read.
    pub async fn parts(
        &self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
    ) -> anyhow::Result<Vec<PromptPart>> {
        self.ask_for_texts(setup, &parts);
        let Some(call) = &self.call else { return mention::attached(setup, parts).await };
        let mut parts = Self::parts_of_command(call, setup, parts).await?;
        // only hosts that the person has typed count as named
        let typed: Vec<String> = host::named(&call.arguments).collect();
        for part in parts.iter_mut().filter(|part| part.is_typed()) {
            if host::named(&part.text).any(|host| !typed.contains(&host)) {
                *part = PromptPart::quoted(std::mem::take(&mut part.text));
            }
        }
        Ok(parts)
    }

    async fn parts_of_command(
        call: &Call,
        setup: &SessionSetup,
        mut parts: Vec<PromptPart>,
    ) -> anyhow::Result<Vec<PromptPart>> {
        if let Some(prompt) = &call.remote {
            return remote::parts(call, prompt, setup, parts).await;
        }
        if call.skill {
            return skill::parts(call, setup, parts).await;
        }
        let reader = PartReader::of(call, setup);
        let mentions = Mentions { setup, is_command: true };
        let (mut text, mut files) = (Vec::new(), Vec::new());
        for piece in template::fill(&call.template, &call.arguments) {
            let kind = match &piece {
                Piece::Text(piece) => {
                    for mention in mentions.find(piece) {
                        files.extend(mentions.parts(mention, &reader).await?);
                    }
                    PromptKind::Text
                }
                Piece::Shell(_) => PromptKind::Command,
            };
            let (Piece::Text(piece) | Piece::Shell(piece)) = piece;
            text.push(PromptPart { kind, ..PromptPart::text(piece) });
        }
        if text.iter().all(|part| part.text.trim().is_empty()) {
            return Err(
                Usage(format!("the prompt of the command `/{}` is empty", call.name)).into()
            );
        }
        if let Some(agent) = &call.subtask {
            return Ok(subtask::parts(agent, text, files, parts));
        }
        let rest = parts.split_off(1.min(parts.len()));
        Ok([text, files, rest].concat())
    }
}

impl Prepared {
    /// A person who asks for a text by its name sees to it. Words of templates are not the person's.
    fn ask_for_texts(&self, setup: &SessionSetup, parts: &[PromptPart]) {
        let texts = parts.iter().filter(|part| part.kind == PromptKind::Text);
        let typed: Vec<&str> = match &self.call {
            None => texts.map(|part| part.text.as_str()).collect(),
            Some(call) if builtin::is_init(&call.name, &call.template) => {
                vec![INSTRUCTIONS[0], &call.arguments]
            }
            Some(call) => vec![&call.arguments],
        };
        crate::texts::asked_for(setup.place.session, &typed.join("\n"));
    }
}

/// Names and descriptions of the commands in `directory`, of its skills, and of the prompts of
/// connected servers.
pub fn list(directory: &Path, extensions: &Extensions) -> anyhow::Result<Vec<(String, String)>> {
    let settings = resolved_settings::settings(directory, &extensions.plugins)?;
    let described = |name: &str| {
        let said = settings.commands.get(name);
        let builtin = builtin::find(name).map(|builtin| builtin.description.to_owned());
        let said = said.and_then(|command| command.description.clone());
        (name.to_owned(), said.or(builtin).unwrap_or_default())
    };
    let worktree = settings::worktree_of(directory);
    let skills = skill::list(directory, &worktree, &settings);
    let skills = skills.filter(|(skill, _)| names(&settings).all(|name| name != skill));
    Ok(names(&settings).map(described).chain(skills).chain(extensions.mcp.prompts()).collect())
}

/// The text of a command's prompt, with its placeholders.
pub fn template<'a>(name: &str, settings: &'a Settings) -> Option<&'a str> {
    let said = settings.commands.get(name).and_then(|command| command.template.as_deref());
    said.or_else(|| builtin::find(name).map(|builtin| builtin.template))
}

/// Says, for each prompt anew, that what it mentions does not go with it.
fn not_attached(mention: &str, why: &str) {
    crate::note(&format!("leftfold: `@{mention}` is not attached: {why}"));
}

/// The built-in ones first.
fn names(settings: &Settings) -> impl Iterator<Item = &str> {
    let said = settings.commands.keys().map(String::as_str);
    let others = said.filter(|name| builtin::find(name).is_none());
    builtin::ALL.iter().map(|builtin| builtin.name).chain(others)
}

/// The name in `/NAME …`. With a character that names never have, it is ordinary text.
fn called(text: &str) -> Option<&str> {
    let word = text.strip_prefix('/')?.split_whitespace().next()?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | ':' | '.');
    (text[1..].starts_with(word) && word.chars().all(is_name)).then_some(word)
}

fn is_path(word: &str, directory: &Path) -> bool {
    word.contains(['/', '.']) || directory.join(format!("/{word}")).exists()
}

fn unknown(word: &str, settings: &Settings) -> Usage {
    let names: Vec<String> = names(settings).map(|name| format!("/{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = match settings.commands.is_empty() {
        true => format!(
            "; the commands are {}, and those in `.leftfold/commands/NAME.md`",
            names.join(", ")
        ),
        false => Hint::toward(&format!("/{word}"), &names).to_string(),
    };
    Usage(format!(
        "there is no command `/{word}`{hint}. To send it as a prompt, put a space before it"
    ))
}

/// Runs the tools that a command's template or a prompt needs.
struct PartReader<'a> {
    /// The name of the command or prompt in errors.
    whose: String,
    setup: &'a SessionSetup,
    config: TurnConfig,
}

impl<'a> PartReader<'a> {
    fn of(call: &Call, setup: &'a SessionSetup) -> Self {
        Self { whose: format!("the command `/{}`", call.name), setup, config: setup.config() }
    }

    /// Runs a tool if the rules allow it. Nothing can be asked, because there is no call yet.
    async fn run(&self, tool: &str, input: &serde_json::Value) -> anyhow::Result<Output> {
        let mut workspace = self.setup.workspace.clone();
        workspace.sandbox.clone_from(&self.config.options.sandbox);
        let spec =
            CallSpec { id: String::new(), name: tool.to_owned(), input: Json::from_value(input) };
        self.judged(&leftfold_tools::resolve(&spec, &workspace))?;
        let ran = leftfold_tools::run_alone(tool, &input.to_string(), workspace).await;
        ran.map_err(|error| self.refused(&error.to_string()))
    }

    /// # Errors
    /// The rules do not allow it.
    fn judged(&self, resolved: &Resolution) -> anyhow::Result<()> {
        let Some(access) = resolved.access.iter().find(|access| !self.allows(access, resolved))
        else {
            return Ok(());
        };
        let (permission, patterns) = (&access.permission, access.patterns.join(", "));
        Err(self.refused(&format!("the rules do not allow {permission} `{patterns}`")))
    }

    fn allows(&self, access: &Access, resolved: &Resolution) -> bool {
        let options = &self.config.options;
        let (action, _) = judge(&self.config, access, &resolved.access);
        let auto = options.ask == AskMode::Allow && access.permission != LEFTFOLD;
        action == Action::Allow || (action == Action::Ask && auto)
    }

    fn refused(&self, why: &str) -> anyhow::Error {
        Usage(format!("{}: {why}", self.whose)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        for (text, expected) in [
            ("/review a", Some("review")),
            ("/git/log", Some("git/log")),
            ("/a:b\nmore", Some("a:b")),
            (" /review", None),
            ("/ review", None),
            ("/", None),
            ("/* a comment */", None),
            ("// another", None),
            ("review", None),
        ] {
            let expected = expected.filter(|name| !name.is_empty());
            assert_eq!(called(text).filter(|word| *word != "/"), expected, "{text:?}");
        }
        for (word, expected) in
            [("etc/hosts", true), ("tmp", true), ("a.txt", true), ("nothing-like-it", false)]
        {
            assert_eq!(is_path(word, Path::new("/")), expected, "{word}");
        }
    }
}
