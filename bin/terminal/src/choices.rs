//! The rows of menus and lists: commands, agents, models, variants, sessions, approvals. They are read from settings and
//! from the heads of sessions. That takes a while, so callers do it on another thread.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use leftfold_config::{KeySource, KeyState, ProviderSummary, environment, worktree_of};
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Envelope, Seq, SessionId, Time, line};
use leftfold_export::FORMATS;
use leftfold_runtime::agents::Agents;
use leftfold_runtime::approvals;
use leftfold_runtime::local_servers::ServedModel;
use leftfold_runtime::model_list::{self, Row as ModelRow};
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_list::{self, Costs};
use leftfold_runtime::session_paths;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::sign_in::{self, Method};
use leftfold_runtime::slash;
use leftfold_runtime::turn_config::Overrides;
use leftfold_store::Head;
use leftfold_view::event_line;
use leftfold_view::words::{self, first_line};

use super::completion::{Command, Entry};
use super::entered::{self, Argument, BUILTIN_COMMANDS, Builtin, BuiltinCommand};
use super::file_search::ends_mention;
use super::picker::{Picker, Row};
use super::theme::{Theme, ThemeName};

/// The name of no variant.
pub(super) const PLAIN: &str = "default";
/// The sessions that are offered, the newest first.
const MAX_SESSIONS: usize = 500;

/// The longest description of an event.
const LONGEST_ABOUT: usize = 100;

/// The effect of choosing a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// This command line does it.
    Run(String),
    /// An earlier prompt: ask what to do with it.
    Prompt(Seq),
    /// A place to fork at: ask for what becomes of the files.
    Fork(Seq),
    /// A remembered approval. Choosing it does nothing; it can be removed.
    Approval(String),
    /// Colours, which the list shows while they are selected.
    Theme(ThemeName, Arc<Theme>),
}

leftfold_events::named! {
    /// How permission questions are treated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Mode {
        Ask = "ask",
        AcceptEdits = "accept-edits",
        Sandbox = "sandbox",
        Plan = "plan",
    }
}

impl Mode {
    fn about(self) -> &'static str {
        match self {
            Self::Ask => "ask about each call that a rule asks about",
            Self::AcceptEdits => "make edits inside the project without asking",
            Self::Sandbox => "run commands that stay in the sandbox without asking",
            Self::Plan => "use the agent `plan`, which changes no files",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == text)
    }

    /// The mode in force. `None`: another one, which the command line has set.
    pub(super) fn from_overrides(overrides: &Overrides, agent: &str) -> Option<Self> {
        match overrides.ask {
            AskMode::Allow | AskMode::Deny => None,
            AskMode::Ask if agent == Self::Plan.name() => Some(Self::Plan),
            AskMode::Ask if overrides.accept_edits => Some(Self::AcceptEdits),
            AskMode::Ask if overrides.allow_in_sandbox => Some(Self::Sandbox),
            AskMode::Ask => Some(Self::Ask),
        }
    }

    /// The mode that follows.
    pub(super) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|mode| *mode == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }
}

/// The entries of the menu.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    pub(super) commands: Vec<Command>,
    /// Subagents, and resources of MCP servers.
    pub(super) mentions: Vec<Entry>,
    /// Whether the commands of the project, the skills and the prompts of servers have been read.
    pub(super) has_all: bool,
}

fn entry(name: &str, about: &str) -> Entry {
    Entry { name: name.to_owned(), about: about.to_owned() }
}

impl Default for Choices {
    /// The builtin commands, which are known without reading anything.
    fn default() -> Self {
        let themes = ThemeName::ALL.map(|name| entry(name.name(), ""));
        let modes = Mode::ALL.map(|mode| entry(mode.name(), mode.about()));
        let diffs = [
            entry("session", "the changes of the session"),
            entry(TREE, "all changes of the project's files, whoever made them"),
        ];
        let command = |builtin: &'static BuiltinCommand| Command {
            entry: entry(builtin.name, builtin.about),
            arguments: match builtin.command {
                Builtin::Help => vec![entry(KEYS, "the keys that edit the text")],
                Builtin::Theme => themes.to_vec(),
                Builtin::Permissions => modes.to_vec(),
                Builtin::Diff => diffs.to_vec(),
                Builtin::Export => {
                    FORMATS.iter().map(|format| entry(format.name, format.about)).collect()
                }
                Builtin::Fork => vec![entry(HERE, "everything so far, with the files as they are")],
                _ => Vec::new(),
            },
            argument: builtin.argument,
            builtin: Some(builtin),
        };
        Self {
            commands: BUILTIN_COMMANDS.iter().map(command).collect(),
            mentions: Vec::new(),
            has_all: false,
        }
    }
}

impl Choices {
    /// Sets what a command of the conversation can be completed to, if `name` is its name.
    pub(super) fn set_arguments(
        &mut self,
        command: Builtin,
        name: &str,
        arguments: &VecDeque<Entry>,
    ) {
        let named = entered::builtin(name).filter(|row| row.command == command);
        let mut commands = self.commands.iter_mut();
        if let Some(command) = commands.find(|command| named.is_some() && command.builtin == named)
        {
            command.arguments = arguments.iter().cloned().collect();
        }
    }

    /// Reads settings and the heads of sessions. Waits for plugins.
    ///
    /// # Errors
    /// The settings are wrong.
    pub(super) fn read(setup: &SessionSetup) -> anyhow::Result<Self> {
        let settings = &setup.turn_settings;
        let directory = &settings.directory;
        let mut choices = Self::default();
        let resolved = resolved_settings::settings(directory, &setup.extensions.plugins)?;
        let models: Vec<ModelRow> =
            model_list::usable(&resolved).into_iter().flat_map(|(_, rows)| rows).collect();
        let current = settings.model.name().to_string();
        let variants = models.iter().find(|row| row.name == current);
        let sessions = newest_sessions()?;
        for command in &mut choices.commands {
            command.arguments = match command.builtin.map(|builtin| builtin.command) {
                Some(Builtin::Model) => models.iter().map(model_entry).collect(),
                Some(Builtin::Agent) => {
                    let agents = Agents::from_settings(&resolved);
                    agents.visible().map(|agent| entry(&agent.name, &agent.description)).collect()
                }
                Some(Builtin::Variant) => {
                    let names = variants.into_iter().flat_map(|row| &row.variants);
                    names.map(|name| entry(name, "")).chain([entry(PLAIN, "")]).collect()
                }
                Some(Builtin::Sessions) => {
                    let about = |(_, head): &(_, Head)| {
                        entry(&head.session.to_string(), &session_list::title(head))
                    };
                    sessions.iter().map(about).collect()
                }
                Some(Builtin::Login) => {
                    resolved.provider_names().into_iter().map(|name| entry(name, "")).collect()
                }
                _ => continue,
            };
        }
        for (name, about) in slash::list(directory, &setup.extensions)? {
            let builtin = BUILTIN_COMMANDS.iter().find(|builtin| builtin.name == name);
            match builtin {
                Some(builtin) if !builtin.yields => continue,
                Some(_) => choices.commands.retain(|command| command.entry.name != name),
                None => {}
            }
            let (entry, arguments) = (entry(&name, first_line(&about)), Vec::new());
            let argument = Argument::Optional;
            choices.commands.push(Command { entry, arguments, argument, builtin: None });
        }
        let agents = settings.subagents.iter();
        choices.mentions = agents.map(|(name, about)| entry(name, first_line(about))).collect();
        choices.has_all = true;
        Ok(choices)
    }
}

/// The resources of connected MCP servers that a prompt can mention.
pub(super) async fn resources(setup: &SessionSetup) -> Vec<Entry> {
    let resources = setup.extensions.mcp.resources().await.into_iter();
    let resources = resources.filter(|(name, _)| !name.contains(ends_mention));
    resources.map(|(name, about)| entry(&name, first_line(&about))).collect()
}

fn model_entry(row: &ModelRow) -> Entry {
    entry(&row.name, &format!("{} · {}", row.limits(), row.price()))
}

/// An event that `/explain` can be asked about.
pub(super) fn event(event: &Envelope) -> Entry {
    let about = format!("{} {}", line::type_of(&event.event), event_line::detail(&event.event));
    entry(&event.seq.to_string(), &words::shorten(about.trim_end(), LONGEST_ABOUT))
}

type Sessions = Vec<(std::path::PathBuf, Head)>;

fn newest_sessions() -> anyhow::Result<Sessions> {
    let mut sessions = session_paths::listed()?;
    sessions.sort_by_key(|(_, head)| std::cmp::Reverse(head.at));
    sessions.truncate(MAX_SESSIONS);
    Ok(sessions)
}

fn run(command: &str, argument: &str) -> Pick {
    Pick::Run(format!("/{command} {argument}"))
}

fn place_of<T>(rows: &[T], is_current: impl Fn(&T) -> bool) -> usize {
    rows.iter().position(is_current).unwrap_or(0)
}

/// The models that can be used, with their context windows and prices.
///
/// # Errors
/// The settings are wrong.
pub(super) fn models(setup: &SessionSetup) -> anyhow::Result<Picker<Pick>> {
    let directory = &setup.turn_settings.directory;
    let settings = resolved_settings::settings(directory, &setup.extensions.plugins)?;
    let models: Vec<ModelRow> =
        model_list::usable(&settings).into_iter().flat_map(|(_, rows)| rows).collect();
    let current = setup.turn_settings.model.name().to_string();
    let row = |model: &ModelRow| {
        let abilities =
            [(!model.tools, "no tools"), (model.images, "images"), (model.reasoning, "reasoning")];
        let has = abilities.into_iter().filter(|(has, _)| *has).map(|(_, name)| name);
        let mut preview = vec![format!(
            "{}: context / longest answer {} tokens; ${} in, ${} out for a million tokens",
            model.name,
            model.limits(),
            model.cost.input,
            model.cost.output
        )];
        if model.cost.input == 0.0 && model.cost.output == 0.0 {
            preview = vec![format!("{}: no price is known", model.name)];
        }
        if !model.variants.is_empty() {
            preview.push(format!("variants: {}", model.variants.join(", ")));
        }
        Row {
            value: run("model", &model.name),
            cells: vec![
                model.name.clone(),
                model.limits(),
                model.price(),
                has.collect::<Vec<_>>().join(" "),
            ],
            preview,
        }
    };
    let place = place_of(&models, |model| model.name == current);
    let another = Row {
        value: Pick::Run("/login".to_owned()),
        cells: vec!["another…".to_owned()],
        preview: vec![
            "of another provider: sign in, store a key, or use a server on this machine".to_owned(),
        ],
    };
    let rows = models.iter().map(row).chain([another]).collect();
    let heads = ["", "context / answer", "in / out for 1M tokens", "abilities"];
    Ok(Picker::new("Model", rows, place).headed(heads))
}

/// The ways to get another model: servers on this machine, sign-ins, and keys of providers.
///
/// # Errors
/// The settings are wrong.
pub(super) fn logins(setup: &SessionSetup, served: &[ServedModel]) -> anyhow::Result<Picker<Pick>> {
    let directory = &setup.turn_settings.directory;
    let settings = resolved_settings::settings(directory, &setup.extensions.plugins)?;
    let summaries = settings.provider_summaries(&environment);
    let usable = summaries.iter().filter(|summary| summary.disabled.is_none());
    let usable: Vec<&ProviderSummary> = usable.collect();
    let named = |name: &str| usable.iter().find(|summary| summary.name == name);
    let row = |value: String, cells: [&str; 3], preview: &str| Row {
        value: Pick::Run(value),
        cells: cells.map(str::to_owned).into(),
        preview: Some(preview.to_owned()).filter(|text| !text.is_empty()).into_iter().collect(),
    };
    let mut rows = Vec::new();
    for ServedModel { server, model, .. } in served {
        if named(server.provider).is_none() {
            continue;
        }
        let name = format!("{}/{model}", server.provider);
        let place = format!("{} on this machine", server.title);
        rows.push(row(format!("/model {name}"), [&name, &place, "ready"], ""));
    }
    for (of, summary) in sign_in::sign_ins().iter().filter_map(|of| Some((of, named(of.provider)?)))
    {
        let is_signed_in = matches!(summary.key, KeyState::From(KeySource::SignIn(_)));
        let state = if is_signed_in { "signed in" } else { "" };
        for method in sign_in::methods(of) {
            let (name, way) = match method {
                Method::Browser => ("browser", "sign in with a browser here"),
                Method::Device => ("code", "sign in with a code, in a browser anywhere"),
            };
            let line = format!("/login {} {name}", of.provider);
            rows.push(row(line, [of.label, way, state], ""));
        }
    }
    for summary in usable.iter().filter(|summary| !summary.key_variables.is_empty()) {
        let state = match &summary.key {
            KeyState::From(_) | KeyState::Credentials => "has a key",
            KeyState::Unneeded => "needs no key",
            KeyState::Missing(_) => "",
        };
        let variables = format!("it is also read from {}", summary.key_variables.join(" or "));
        let line = format!("/login {} key", summary.name);
        rows.push(row(line, [&summary.name, "store an API key", state], &variables));
    }
    Ok(Picker::new("Add a provider", rows, 0))
}

/// The variants of the current model.
///
/// # Errors
/// The settings are wrong.
pub(super) fn variants(setup: &SessionSetup) -> anyhow::Result<Picker<Pick>> {
    let names = variant_names(setup)?;
    let current = setup.turn_settings.options.variant.as_deref().unwrap_or(PLAIN).to_owned();
    let row = |name: &String| Row {
        value: run("variant", name),
        cells: vec![name.clone()],
        preview: Vec::new(),
    };
    let place = place_of(&names, |name| *name == current);
    let title = format!("Variant of {}", setup.turn_settings.model.name());
    Ok(Picker::new(&title, names.iter().map(row).collect(), place))
}

/// The names of the current model's variants, and the one of none.
///
/// # Errors
/// The settings are wrong.
pub(super) fn variant_names(setup: &SessionSetup) -> anyhow::Result<Vec<String>> {
    let directory = &setup.turn_settings.directory;
    let settings = resolved_settings::settings(directory, &setup.extensions.plugins)?;
    let current = setup.turn_settings.model.name().to_string();
    let mut models = model_list::usable(&settings).into_iter().flat_map(|(_, rows)| rows);
    let variants = models.find(|row| row.name == current).map(|row| row.variants);
    Ok([PLAIN.to_owned()].into_iter().chain(variants.unwrap_or_default()).collect())
}

/// The agents that take prompts of people.
///
/// # Errors
/// The settings are wrong.
pub(super) fn agents(setup: &SessionSetup) -> anyhow::Result<Picker<Pick>> {
    let directory = &setup.turn_settings.directory;
    let settings = resolved_settings::settings(directory, &setup.extensions.plugins)?;
    let agents = Agents::from_settings(&settings);
    let row = |agent: &leftfold_runtime::gather::Agent| Row {
        value: run("agent", &agent.name),
        cells: vec![agent.name.clone(), first_line(&agent.description).to_owned()],
        preview: agent.model.iter().map(|model| format!("its model: {model}")).collect(),
    };
    let rows: Vec<Row<Pick>> = agents.visible().map(row).collect();
    let current = &setup.turn_settings.agent.name;
    let place = place_of(&rows, |row| row.cells[0] == *current);
    Ok(Picker::new("Agent", rows, place))
}

/// The sessions of all projects, those of this one first.
///
/// # Errors
/// The data folder cannot be read.
pub(super) fn sessions(
    worktree: &Path,
    current: SessionId,
    now: Time,
) -> anyhow::Result<Picker<Pick>> {
    let (own, others): (Sessions, Sessions) =
        newest_sessions()?.into_iter().partition(|(_, head)| {
            head.summary.as_ref().is_some_and(|summary| Path::new(&summary.worktree) == worktree)
        });
    let all: Sessions = own.into_iter().chain(others).collect();
    let mut costs = Costs::default();
    let rows = all
        .iter()
        .map(|(store, head)| session_row(store, costs.for_session(store, head), head, now));
    let rows = rows.collect();
    let place = place_of(&all, |(_, head)| head.session == current);
    Ok(Picker::new("Session", rows, place))
}

fn session_row(store: &Path, cost: f64, head: &Head, now: Time) -> Row<Pick> {
    let summary = head.summary.clone().unwrap_or_default();
    let project = Path::new(&summary.worktree).file_name().unwrap_or_default().to_string_lossy();
    // a model without a price
    let cost = if cost > 0.0 { format!("${cost:.4}") } else { String::new() };
    let fork = summary.fork_of.map(|_| "fork".to_owned()).unwrap_or_default();
    let mut preview = vec![format!("{} in {}", head.session, summary.directory)];
    // without a title, the prompt is the first cell
    let prompt = summary.prompt.filter(|_| summary.title.is_some());
    preview.extend(summary.summary.or(prompt).map(|text| first_line(&text).to_owned()));
    if let Some(of) = summary.fork_of {
        preview.push(format!("a fork of {of}"));
    }
    Row {
        value: run("sessions", &head.session.to_string()),
        cells: vec![
            session_list::title(head),
            project.into_owned(),
            age(now.since(head.at)),
            session_list::state(store, head).to_owned(),
            cost,
            fork,
        ],
        preview,
    }
}

/// How long ago something was.
fn age(millis: u64) -> String {
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match millis {
        0..MINUTE => "now".to_owned(),
        MINUTE..HOUR => format!("{} min", millis / MINUTE),
        HOUR..DAY => format!("{} h", millis / HOUR),
        _ => format!("{} d", millis / DAY),
    }
}

/// The ways to treat permission questions, and the remembered approvals of the project.
///
/// # Errors
/// The approvals cannot be read.
pub(super) fn permissions(
    setup: &SessionSetup,
    overrides: &Overrides,
) -> anyhow::Result<Picker<Pick>> {
    let worktree = worktree_of(&setup.turn_settings.directory);
    let current = Mode::from_overrides(overrides, &setup.turn_settings.agent.name);
    let mode = |mode: Mode| Row {
        value: run("permissions", mode.name()),
        cells: vec![mode.name().to_owned(), mode.about().to_owned()],
        preview: Vec::new(),
    };
    let approval = |rule: &Rule| {
        let id = approvals::id(rule);
        let said = format!("{} {}", rule.permission, rule.pattern);
        let preview = vec!["Delete takes it back: calls like it are asked about again".to_owned()];
        Row { value: Pick::Approval(id), cells: vec![said, "always allowed".to_owned()], preview }
    };
    let approved = approvals::stored(&worktree)?.approved;
    let has_approvals = !approved.is_empty();
    let rows = Mode::ALL.into_iter().map(mode).chain(approved.iter().map(approval)).collect();
    let place = place_of(&Mode::ALL, |mode| Some(*mode) == current);
    let picker = Picker::new("Permissions", rows, place);
    Ok(if has_approvals { picker.removing() } else { picker })
}

/// The themes, each with its colours.
pub(super) fn themes(current: ThemeName, colours: impl Fn(ThemeName) -> Theme) -> Picker<Pick> {
    let row = |name: ThemeName| Row {
        value: Pick::Theme(name, Arc::new(colours(name))),
        cells: vec![name.name().to_owned()],
        preview: Vec::new(),
    };
    let place = place_of(&ThemeName::ALL, |name| *name == current);
    Picker::new("Theme", ThemeName::ALL.map(row).into(), place)
}

/// The purpose of a list of earlier prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptsFor {
    /// To be said next.
    Any,
    Revert,
    Fork,
}

/// An earlier prompt of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EarlierPrompt {
    pub(super) seq: Seq,
    pub(super) text: String,
    /// The files that its turn has changed, relative to the worktree.
    pub(super) files: Vec<String>,
}

impl EarlierPrompt {
    /// Its changes in a few words.
    fn changes(&self) -> String {
        let name = |path: &String| path.rsplit('/').next().unwrap_or(path).to_owned();
        match self.files.as_slice() {
            [] => "no files changed".to_owned(),
            [only] => name(only),
            [one, other] => format!("{}, {}", name(one), name(other)),
            [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
        }
    }
}

/// The prompts of the session, the last one first.
pub(super) fn prompts(prompts: &[EarlierPrompt], wanted: PromptsFor) -> Picker<Pick> {
    let title = match wanted {
        PromptsFor::Any => "Go back to",
        PromptsFor::Revert => "Take back from",
        PromptsFor::Fork => "Fork before",
    };
    let row = |prompt: &EarlierPrompt| {
        let EarlierPrompt { seq, text, files } = prompt;
        let lines: Vec<&str> = text.trim().lines().collect();
        let mut more: Vec<String> =
            lines.iter().skip(1).take(3).map(|&line| line.to_owned()).collect();
        more.extend((!files.is_empty()).then(|| format!("changed {}", files.join(", "))));
        Row {
            value: match wanted {
                PromptsFor::Any => Pick::Prompt(*seq),
                PromptsFor::Revert => run("revert", &seq.to_string()),
                PromptsFor::Fork => Pick::Fork(*seq),
            },
            cells: vec![first_line(text).to_owned(), prompt.changes()],
            preview: more,
        }
    };
    let here = (wanted == PromptsFor::Fork).then(|| Row {
        value: run("fork", HERE),
        cells: vec!["everything so far".to_owned(), String::new()],
        preview: Vec::new(),
    });
    Picker::new(title, here.into_iter().chain(prompts.iter().map(row)).collect(), 0)
}

/// The argument of `/help` for the keys that edit text.
pub(super) const KEYS: &str = "keys";
/// The argument of `/diff` for all changes of the project's files.
pub(super) const TREE: &str = "tree";
/// The argument of `/fork` for a fork of the whole session.
pub(super) const HERE: &str = "here";
/// The argument of `/fork` that restores the files.
pub(super) const FILES: &str = "files";

/// The ways back to an earlier prompt.
pub(super) fn steps_back(seq: Seq) -> Picker<Pick> {
    let back = Row {
        value: run("revert", &seq.to_string()),
        cells: vec!["take it back".to_owned()],
        preview: vec!["with everything after it, and with its changes to files".to_owned()],
    };
    Picker::new("What to do", [back].into_iter().chain(fork_rows(seq)).collect(), 0)
}

/// Whether a fork restores the project's files.
pub(super) fn fork_at(seq: Seq) -> Picker<Pick> {
    Picker::new("Fork", fork_rows(seq).into(), 0)
}

fn fork_rows(seq: Seq) -> [Row<Pick>; 2] {
    let row = |argument: String, text: &str, preview: &str| Row {
        value: run("fork", &argument),
        cells: vec![text.to_owned()],
        preview: vec![preview.to_owned()],
    };
    [
        row(
            seq.to_string(),
            "fork before it, leave files",
            "the session up to there is continued in a new one; the files stay as they are",
        ),
        row(
            format!("{seq} {FILES}"),
            "fork before it, restore files",
            "the session up to there is continued in a new one, with the files as they were then",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, expected) in [
            (0, "now"),
            (59, "now"),
            (60, "1 min"),
            (3_600, "1 h"),
            (86_399, "23 h"),
            (86_400 * 9, "9 d"),
        ] {
            assert_eq!(age(seconds * 1_000), expected);
        }
    }

    #[test]
    fn modes_follow_each_other() {
        let mut mode = Mode::Ask;
        for expected in ["accept-edits", "sandbox", "plan", "ask"] {
            mode = mode.next();
            assert_eq!(mode.name(), expected);
            assert_eq!(Mode::parse(expected), Some(mode));
        }
        let overrides = |accept_edits, ask| Overrides { accept_edits, ask, ..Overrides::default() };
        assert_eq!(
            Mode::from_overrides(&overrides(true, AskMode::Ask), "build"),
            Some(Mode::AcceptEdits)
        );
        assert_eq!(Mode::from_overrides(&overrides(false, AskMode::Ask), "plan"), Some(Mode::Plan));
        assert_eq!(Mode::from_overrides(&overrides(false, AskMode::Allow), "build"), None);
    }
}
