//! Mentions in a prompt: `@SERVER:URI` of an MCP server's resource, `@AGENT` of a subagent, `@PATH` of
//! a file or folder. Attached contents are not searched for mentions.
//!
//! A word that names none of these stays text. If it looks like the path of a file, the user is told.

use std::path::{Path, PathBuf};

use leftfold_events::event::{PromptKind, PromptPart};
use serde_json::json;

use super::{PartReader, not_attached, subtask, template};
use crate::session_setup::SessionSetup;

/// The most mentions of a prompt that are attached.
const MAX_MENTIONS: usize = 50;

/// The most mentions that are said to name no file.
const MAX_MISSING: usize = 5;
/// The longest extension of a file's name, in bytes.
const LONGEST_EXTENSION: usize = 8;

/// Tells the model which agent a prompt mentions.
const AGENT: &str = include_str!("../../../../../prompts/agent_mention.md");

/// A part of a prompt by which a client names an agent, instead of a mention in the text. [`with_agents`] fills it.
pub fn agent_part(agent: &str) -> PromptPart {
    named(format!("@{agent}"), PromptPart::text(""))
}

/// Fills the parts by which a client names agents. A name that no agent has becomes text.
pub fn with_agents(setup: &SessionSetup, mut parts: Vec<PromptPart>) -> Vec<PromptPart> {
    for part in parts.iter_mut().filter(|part| part.text.is_empty()) {
        let Some(name) = part.name.clone().filter(|name| name.starts_with('@')) else { continue };
        *part = match name.strip_prefix('@').filter(|agent| is_agent(agent, setup)) {
            Some(agent) => of_agent(agent),
            None => PromptPart::text(name),
        };
    }
    parts
}

fn of_agent(agent: &str) -> PromptPart {
    let text = AGENT.trim().replace("{agent}", agent);
    named(format!("@{agent}"), PromptPart::text(text))
}

/// The parts of a prompt, and the contents that its text mentions. A prompt that begins with `@AGENT`
/// becomes a task of that agent, unless a part names the agent. Only typed text is searched, no attachments.
///
/// # Errors
/// The rules do not allow a resource to be read.
pub(crate) async fn attached(
    setup: &SessionSetup,
    mut parts: Vec<PromptPart>,
) -> anyhow::Result<Vec<PromptPart>> {
    let is_typed = |part: &&PromptPart| part.kind == PromptKind::Text && part.name.is_none();
    let texts = || parts.iter().filter(is_typed).map(|part| part.text.as_str());
    let is_named = |agent: &str| {
        parts
            .iter()
            .any(|part| part.name.as_deref().and_then(|name| name.strip_prefix('@')) == Some(agent))
    };
    let first = parts.first().filter(is_typed).and_then(|part| task(&part.text, setup));
    let first = first.filter(|(agent, _)| !is_named(agent));
    let task = first.map(|(agent, task)| (agent.to_owned(), PromptPart::text(task)));
    let mut mentions: Vec<String> = Vec::new();
    let reader = Mentions { setup, is_command: false };
    for mention in texts().flat_map(|text| reader.find(text)) {
        if !mentions.iter().any(|known| known == mention) && !is_named(mention) {
            mentions.push(mention.to_owned());
        }
    }
    if let Some((agent, _)) = &task {
        mentions.retain(|mention| mention != agent);
    }
    let read = reader.read(&mentions).await?;
    if let Some((agent, task)) = task {
        return Ok(subtask::parts(&agent, vec![task], read, parts));
    }
    parts.extend(read);
    Ok(parts)
}

/// The contents that a text mentions.
///
/// # Errors
/// The rules do not allow a resource to be read.
pub(super) async fn of_text(setup: &SessionSetup, text: &str) -> anyhow::Result<Vec<PromptPart>> {
    let reader = Mentions { setup, is_command: false };
    let mentions: Vec<String> = reader.find(text).into_iter().map(str::to_owned).collect();
    reader.read(&mentions).await
}

/// The agent and its task in a text that begins with `@AGENT`.
fn task<'a>(text: &'a str, setup: &SessionSetup) -> Option<(&'a str, &'a str)> {
    let rest = text.trim_start().strip_prefix('@')?;
    let (word, task) = rest.split_once(char::is_whitespace)?;
    let name = word.trim_end_matches([',', ':']);
    (is_agent(name, setup) && !task.trim().is_empty()).then_some((name, task.trim()))
}

fn is_agent(name: &str, setup: &SessionSetup) -> bool {
    setup.turn_settings.subagents.iter().any(|(known, _)| known == name)
}

/// Reads what a text mentions.
pub(super) struct Mentions<'a> {
    pub(super) setup: &'a SessionSetup,
    /// Whether the text is a command's template. Its author is told by an error if the rules do not
    /// allow a file to be read; a prompt only loses the attachment.
    pub(super) is_command: bool,
}

impl Mentions<'_> {
    /// The mentions in a text.
    pub(super) fn find<'t>(&self, text: &'t str) -> Vec<&'t str> {
        template::mentions(text, |name| self.place(name).is_some())
    }

    /// The parts for mentions in a prompt.
    async fn read(&self, mentions: &[String]) -> anyhow::Result<Vec<PromptPart>> {
        let mut known: Vec<&String> =
            mentions.iter().filter(|mention| self.is_known(mention)).collect();
        let missing = mentions.iter().filter(|mention| !known.contains(mention));
        for mention in missing.filter(|mention| is_like_path(mention)).take(MAX_MISSING) {
            let path = ranged(mention).map_or(mention.as_str(), |(path, _)| path);
            let directory = self.setup.turn_settings.directory.display();
            let why = match self.setup.turn_settings.workplace {
                Some(_) => "the files are at an executor, where the model can read them".to_owned(),
                None => format!("there is no file `{path}` in {directory}"),
            };
            not_attached(mention, &why);
        }
        if known.is_empty() {
            return Ok(Vec::new());
        }
        if known.len() > MAX_MENTIONS {
            known.truncate(MAX_MENTIONS);
            let why = format!("only the first {MAX_MENTIONS} mentions of the prompt are attached");
            crate::note(&format!("leftfold: {why}"));
        }
        let config = self.setup.config();
        let reader = PartReader { whose: "the prompt".to_owned(), setup: self.setup, config };
        let mut read = Vec::new();
        for mention in known {
            read.extend(self.parts(mention, &reader).await?);
        }
        Ok(read)
    }

    fn is_known(&self, mention: &str) -> bool {
        self.setup.extensions.mcp.addressed(mention).is_some()
            || is_agent(mention, self.setup)
            || self.place(mention).is_some()
    }

    /// The parts for one mention; empty if it names nothing.
    pub(super) async fn parts(
        &self,
        mention: &str,
        reader: &PartReader<'_>,
    ) -> anyhow::Result<Vec<PromptPart>> {
        if self.setup.extensions.mcp.addressed(mention).is_some() {
            return reader.resource(mention).await;
        }
        if is_agent(mention, self.setup) {
            return Ok(vec![of_agent(mention)]);
        }
        let Some((path, range)) = self.place(mention) else { return Ok(Vec::new()) };
        match self.file(path, range, reader).await {
            Err(error) if !self.is_command => {
                not_attached(mention, &format!("{error:#}"));
                Ok(Vec::new())
            }
            read => read,
        }
    }

    /// The path of the file or folder, and the lines that are meant. A name that ends as a range does
    /// is a name if there is such a file.
    fn place<'a>(&self, mention: &'a str) -> Option<(&'a str, Option<LineRange>)> {
        if self.setup.turn_settings.workplace.is_some() {
            // the files are on another machine; the model can read them there
            return None;
        }
        let exists = |path: &str| {
            let place = self.absolute(path);
            place.is_file() || place.is_dir() || leftfold_tools::alike(&place).is_some()
        };
        if exists(mention) {
            return Some((mention, None));
        }
        let (path, range) = ranged(mention)?;
        exists(path).then_some((path, Some(range)))
    }

    fn absolute(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => Path::new(&home).join(rest),
            (Some(_) | None, _) => self.setup.turn_settings.directory.join(path),
        }
    }

    /// A file's lines, its image or PDF, or the entries of a folder.
    ///
    /// # Errors
    /// The rules do not allow it.
    async fn file(
        &self,
        path: &str,
        range: Option<LineRange>,
        reader: &PartReader<'_>,
    ) -> anyhow::Result<Vec<PromptPart>> {
        let mut input = json!({ "filePath": path });
        let mut name = path.to_owned();
        if let Some(LineRange { first, last }) = range {
            input["offset"] = first.into();
            name += &format!("#{first}-");
            if let Some(last) = last {
                input["limit"] = (last - first + 1).into();
                name += &last.to_string();
            }
        }
        let output = reader.run("read", &input).await?;
        if output.is_error {
            let why = output.output.trim_end();
            not_attached(&name, why);
            return Ok(Vec::new());
        }
        if !output.attachments.is_empty() {
            let media = output.attachments.into_iter().map(|media| {
                let part = PromptPart { mime: Some(media.mime), ..PromptPart::text(media.base64) };
                PromptPart { kind: PromptKind::Media, ..named(media.name, part) }
            });
            return Ok(media.collect());
        }
        if range.is_none() && output.metadata.value()["truncated"] == true {
            let rest = "the model can read the rest";
            crate::note(&format!("leftfold: only the beginning of `@{name}` is attached: {rest}"));
        }
        let lines = match range {
            Some(_) => format!(" lines=\"{}\"", &name[path.len() + 1..]),
            None => String::new(),
        };
        let tag = if self.absolute(path).is_dir() { "folder" } else { "file" };
        let text = output.output.trim_end();
        let text = format!("<{tag} path=\"{path}\"{lines}>\n{text}\n</{tag}>");
        Ok(vec![named(name, PromptPart::text(text))])
    }
}

fn named(name: String, part: PromptPart) -> PromptPart {
    PromptPart { name: Some(name), ..part }
}

/// Lines of a file, counted from 1. Without `last`, all from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineRange {
    first: u64,
    last: Option<u64>,
}

/// Whether a mention looks like the path of a file, and not like a name: it begins as a path does, or ends with an
/// extension.
fn is_like_path(mention: &str) -> bool {
    let path = ranged(mention).map_or(mention, |(path, _)| path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_extension = name.rsplit_once('.').is_some_and(|(_, extension)| {
        (1..=LONGEST_EXTENSION).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.contains(|c: char| c.is_ascii_alphabetic())
    });
    has_extension || ["/", "./", "../", "~/"].iter().any(|start| path.starts_with(start))
}

/// The path and the lines in `PATH#10-20`, `PATH#10-`, `PATH#10`, `PATH#L10-L20` and `PATH:10-20`.
fn ranged(mention: &str) -> Option<(&str, LineRange)> {
    let (path, range) = mention.rsplit_once(['#', ':'])?;
    let number = |text: &str| -> Option<u64> {
        let digits = text.strip_prefix(['L', 'l']).unwrap_or(text);
        digits.parse().ok().filter(|line| *line > 0)
    };
    let (first, last) = match range.split_once('-') {
        None => (number(range)?, Some(number(range)?)),
        Some((first, "")) => (number(first)?, None),
        Some((first, last)) => (number(first)?, Some(number(last)?)),
    };
    let is_range = !path.is_empty() && last.is_none_or(|last| first <= last);
    is_range.then_some((path, LineRange { first, last }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_names() {
        for (mention, expected) in [
            ("missing.txt", true),
            ("src/main.rs#3-4", true),
            ("./Makefile", true),
            ("~/notes", true),
            (".env", true),
            ("scope/package", false),
            ("param", false),
            ("1.2", false),
            ("a.notanextension", false),
            ("a.", false),
        ] {
            assert_eq!(is_like_path(mention), expected, "{mention}");
        }
    }

    #[test]
    fn ranges_of_lines() {
        let range = |first, last| Some(LineRange { first, last });
        for (mention, path, expected) in [
            ("a.rs#10-20", "a.rs", range(10, Some(20))),
            ("a.rs:10-20", "a.rs", range(10, Some(20))),
            ("a.rs#L10-L20", "a.rs", range(10, Some(20))),
            ("a.rs#7", "a.rs", range(7, Some(7))),
            ("a.rs:7-", "a.rs", range(7, None)),
            ("x/a#b#3", "x/a#b", range(3, Some(3))),
            ("a.rs#20-10", "", None),
            ("a.rs#0", "", None),
            ("a.rs#-3", "", None),
            ("a.rs#x", "", None),
            ("#3", "", None),
            ("a.rs", "", None),
        ] {
            let found = ranged(mention);
            assert_eq!(found.map(|(_, range)| range), expected, "{mention}");
            assert_eq!(found.map_or("", |(path, _)| path), path, "{mention}");
        }
    }
}
