//! The commands of the conversation itself. Others are prompts of the project or of its servers.

use std::sync::Arc;

use leftfold_config::{KeyAction, Keymap, Settings};
use leftfold_events::Seq;
use leftfold_events::event::{ModelRef, SessionChoices};
use leftfold_events::turn_config::AskMode;
use leftfold_export::{FORMATS, Format};
use leftfold_mcp::ServerStatus;
use leftfold_runtime::agents::Agents;
use leftfold_runtime::session_diff::DiffRange;
use leftfold_runtime::turn_config::Overrides;
use leftfold_runtime::{Usage, model, resolved_settings, slash};
use leftfold_view::ContextUse;
use leftfold_view::clean::{clean, clean_line};
use leftfold_view::words::thousands;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::blocks::span;
use super::calls;
use super::choices::{self, EarlierPrompt, FILES, HERE, KEYS, Mode, PLAIN, Pick, PromptsFor, TREE};
use super::conversation::{Conversation, Screen};
use super::entered::{self, Argument, BUILTIN_COMMANDS, Builtin, BuiltinCommand, Group};
use super::jobs::{Back, Done, List};
use super::picker::Picker;
use super::render;
use super::render::wrap::{Break, Indent, clip, wrap};
use super::theme::ThemeName;

/// Shown between the commands and the keys of the help.
const TYPED: [(&str, &str); 4] = [
    ("/", "list all commands, also of the project, skills and prompts of MCP servers"),
    ("@PATH, @AGENT", "attach a file or folder; ask a subagent"),
    ("!COMMAND", "run a command line; the model sees its output with the next prompt"),
    ("Tab", "complete the command or name before the cursor"),
];

/// The columns that the second column of a table needs at least, to stand beside the first.
const MIN_SECOND_COLUMN: usize = 28;

/// The longest text that is copied to the clipboard, in bytes: terminals take no more.
const MAX_COPIED: usize = 70_000;

impl Conversation {
    /// Whether the project or a server may have this command.
    pub(super) fn has_project_command(&self, command: &str) -> bool {
        // A server may have the command even if it is not known here.
        command.contains(':')
            || self.project_commands().iter().any(|(name, _)| *name == command[1..])
    }

    pub(super) fn project_commands(&self) -> Vec<(String, String)> {
        let setup = &self.job.setup;
        slash::list(&setup.turn_settings.directory, &setup.extensions).unwrap_or_default()
    }

    /// Carries out a command of the conversation.
    pub(super) fn run_builtin(&mut self, builtin: &BuiltinCommand, argument: &str) {
        if builtin.argument == Argument::Required && argument.is_empty() {
            self.app.settle(false);
            return self
                .show_text(&format!("  /{} {}: {}", builtin.name, builtin.usage, builtin.about));
        }
        if builtin.reports {
            self.app.blocks.command(format!("/{} {argument}", builtin.name).trim_end());
        }
        let argument = argument.to_owned();
        match builtin.command {
            Builtin::Exit => {}
            Builtin::Help => self.at_once(|it| it.help(&argument)),
            Builtin::Status => self.at_once(Self::status),
            Builtin::Todo => self.at_once(Self::todos),
            Builtin::Mcp => self.at_once(Self::servers),
            Builtin::Agent if argument.is_empty() => self.list("reading the agents", List::Agents),
            Builtin::Model if argument.is_empty() => self.list("reading the models", List::Models),
            Builtin::Variant if argument.is_empty() => {
                self.list("reading variants", List::Variants);
            }
            Builtin::Sessions if argument.is_empty() => {
                self.list("reading sessions", List::Sessions);
            }
            Builtin::Permissions if argument.is_empty() => {
                self.list("reading approvals", List::Permissions);
            }
            Builtin::Theme if argument.is_empty() => {
                self.app.settle(false);
                self.pick(choices::themes(self.theme, |name| self.theme_of(name)));
            }
            Builtin::Login if argument.is_empty() => {
                self.list("looking for providers", List::Logins);
            }
            Builtin::Login => self.at_once(|it| it.login(&argument)),
            Builtin::Config => {
                let key = argument.split_whitespace().map(str::to_owned);
                let arguments =
                    ["config".to_owned(), "--".to_owned()].into_iter().chain(key).collect();
                let nothing = "  nothing is set".to_owned();
                self.begin("reading the settings", |job| Box::pin(job.program(arguments, nothing)));
            }
            Builtin::Agent => self.choose(|it| it.choose_agent(&argument)),
            Builtin::Model => self.choose(|it| it.choose_model(&argument)),
            Builtin::Variant => self.choose(|it| it.choose_variant(&argument)),
            Builtin::Permissions => self.choose(|it| it.choose_mode(&argument)),
            Builtin::Theme => self.choose(|it| it.choose_theme(&argument)),
            Builtin::Sessions => self.begin("opening it", |job| Box::pin(job.find(argument))),
            Builtin::New => self.begin("beginning a session", |_| Box::pin(async { Done::Left })),
            Builtin::Rename => self.begin("renaming", |job| Box::pin(job.rename(argument))),
            Builtin::Undo => self.begin("going back", |job| Box::pin(job.back(Back::Undo))),
            Builtin::Redo => self.begin("going forward", |job| Box::pin(job.back(Back::Redo))),
            Builtin::Revert if argument.is_empty() => self.list_prompts(PromptsFor::Revert),
            Builtin::Revert => match argument.parse() {
                Ok(seq) => {
                    self.begin("going back", move |job| Box::pin(job.back(Back::Revert(seq))));
                }
                Err(_) => self.wrong(builtin),
            },
            Builtin::Fork if argument.is_empty() => self.list_prompts(PromptsFor::Fork),
            Builtin::Fork => match fork_of(&argument) {
                Some((before, files)) => {
                    self.begin("making a fork", move |job| Box::pin(job.fork(before, files)));
                }
                None => self.wrong(builtin),
            },
            Builtin::Compact => {
                self.begin("asking the session", |job| Box::pin(job.compact(argument)));
            }
            Builtin::Context => self.begin("reading the session", |job| Box::pin(job.context())),
            Builtin::Cost => self.begin("reading the session", |job| Box::pin(job.cost())),
            Builtin::Copy => self.begin("reading the session", |job| Box::pin(job.last_answer())),
            Builtin::Why => self.begin("reading the session", |job| Box::pin(job.why())),
            Builtin::Diff if argument == TREE => {
                self.begin("comparing files", |job| Box::pin(job.tree_diff()));
            }
            Builtin::Diff => match diff_range(&argument) {
                Some(range) => self.begin("comparing files", move |job| Box::pin(job.diff(range))),
                None => self.wrong(builtin),
            },
            Builtin::Explain => match argument.parse::<Seq>() {
                Ok(seq) => {
                    let session = self.job.place.session.to_string();
                    let plain = ["--no-pager", "--color", "never"].map(str::to_owned);
                    let event = ["explain".to_owned(), session, seq.to_string()];
                    let arguments = event.into_iter().chain(plain).collect();
                    let nothing = "  there is nothing to explain".to_owned();
                    self.begin("explaining", |job| Box::pin(job.program_about(arguments, nothing)));
                }
                Err(_) => self.wrong(builtin),
            },
            Builtin::Export => self.export(&argument),
        }
    }

    /// Writes the session to a file, which must not exist.
    fn export(&mut self, argument: &str) {
        let session = self.job.place.session.to_string();
        let (format, file) = export_of(argument);
        let file = match file {
            "" => format!("leftfold-{session}.{}", format.extension),
            file => file.to_owned(),
        };
        let path = self.job.setup.turn_settings.directory.join(&file);
        if path.symlink_metadata().is_ok() {
            self.app.settle(false);
            return self.app.warn(&format!("  /export: {} exists", path.display()));
        }
        let written = format!("  written to {}", path.display());
        let arguments = ["export", &session, "--format", format.name, "--output", &file];
        let arguments = arguments.map(str::to_owned).to_vec();
        self.begin("exporting", |job| Box::pin(job.program_about(arguments, written)));
    }

    /// Does something that takes no time.
    fn at_once(&mut self, work: impl FnOnce(&mut Self)) {
        self.app.settle(false);
        work(self);
    }

    /// Lets the user sign in at a provider or store its key. `leftfold auth login` asks for it, so that no key is in the
    /// log, the history or the line.
    fn login(&mut self, argument: &str) {
        let words: Vec<&str> = argument.split_whitespace().collect();
        let method = match words.as_slice() {
            [_] => None,
            [_, method @ ("browser" | "code" | "key" | "plugin")] => Some(*method),
            _ => {
                let text = "  /login PROVIDER [browser|code|key|plugin]: a key is typed when you are asked for it. \
                            If you have typed one here, replace it.";
                return self.app.warn(text);
            }
        };
        let options = method.map(|method| ["--method", method]).unwrap_or_default();
        let options = options.into_iter().filter(|option| !option.is_empty());
        let arguments: Vec<&str> =
            ["auth", "login"].into_iter().chain(options).chain(["--", words[0]]).collect();
        let taken = self.run_on_terminal(&arguments).and_then(|is_done| {
            // the key counts from now on
            self.take_choices(self.job.project.choices.clone())?;
            Ok(is_done)
        });
        match taken {
            Ok(true) => self.list("reading the models", List::Models),
            Ok(false) => {}
            Err(error) => self.app.warn(&format!("  /login: {error:#}")),
        }
    }

    fn list(&mut self, what: &str, list: List) {
        self.begin(what, move |job| Box::pin(job.list(list)));
    }

    pub(super) fn list_prompts(&mut self, wanted: PromptsFor) {
        self.begin("reading the prompts", move |job| Box::pin(job.prompts(wanted)));
    }

    /// Says how a command is used.
    fn wrong(&mut self, builtin: &BuiltinCommand) {
        self.app.settle(false);
        self.app.warn(&format!("  /{} {}: {}", builtin.name, builtin.usage, builtin.about));
    }

    /// Shows a list to choose from. A screen that only adds lines gets it as text.
    pub(super) fn pick(&mut self, picker: Picker<Pick>) {
        match self.screen {
            Screen::Inline(_) => self.app.pick(picker),
            Screen::Plain(_) => {
                let look = &self.app.blocks.look;
                let columns = look.columns();
                let lines = picker.all_lines(columns, &look.theme, command_of);
                self.app.blocks.add(lines);
            }
        }
    }

    pub(super) fn choose_prompt(&mut self, prompts: &[EarlierPrompt], wanted: PromptsFor) {
        match self.screen {
            Screen::Plain(_) if !prompts.is_empty() => {
                self.pick(choices::prompts(prompts, wanted));
            }
            Screen::Plain(_) | Screen::Inline(_) => self.app.choose_prompt(prompts, wanted),
        }
    }

    /// Makes a choice for the next prompts, and says what it is.
    fn choose(&mut self, choose: impl FnOnce(&mut Self) -> anyhow::Result<String>) {
        self.app.settle(false);
        match choose(self) {
            Ok(said) => self.app.note(&format!("  {said}")),
            Err(error) => self.app.warn(&format!("  {error:#}")),
        }
        self.log_choices();
    }

    /// Logs what was chosen. A session without a log gets it with its first prompt.
    fn log_choices(&mut self) {
        let is_open = self.job.link.client.is_some();
        if self.job.unlogged.is_some() && is_open && self.events.job.is_none() {
            self.begin("logging the choice", |job| Box::pin(job.configure()));
        }
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let setup = &self.job.setup;
        resolved_settings::settings(&setup.turn_settings.directory, &setup.extensions.plugins)
    }

    /// The next prompts are run so, also those of other clients.
    fn apply(&mut self, choices: SessionChoices) -> anyhow::Result<()> {
        self.take_choices(choices.clone())?;
        self.job.unlogged = Some(choices);
        Ok(())
    }

    fn choose_agent(&mut self, name: &str) -> anyhow::Result<String> {
        Agents::from_settings(&self.settings()?).to_prompt(name).map_err(anyhow::Error::new)?;
        let agent = Some(name.to_owned());
        self.apply(SessionChoices { agent, ..self.job.project.choices.clone() })?;
        Ok(format!("agent: {name}, {}", self.job.setup.turn_settings.model.name()))
    }

    fn choose_model(&mut self, name: &str) -> anyhow::Result<String> {
        let chosen = model::choose(&self.settings()?, Some(name))?.spec.name();
        // another model may not have the variant
        let choices = self.job.project.choices.clone();
        let model = ModelRef { provider: chosen.provider, id: chosen.id };
        self.apply(SessionChoices { model: Some(model), variant: None, ..choices })?;
        Ok(format!("model: {}", self.job.setup.turn_settings.model.name()))
    }

    fn choose_variant(&mut self, name: &str) -> anyhow::Result<String> {
        let names = choices::variant_names(&self.job.setup)?;
        if !names.iter().any(|known| known == name) {
            let model = self.job.setup.turn_settings.model.name();
            let names = names.join(", ");
            let why = format!("{model} has no variant `{name}`: choose one of {names}");
            return Err(Usage(why).into());
        }
        let variant = Some(name.to_owned()).filter(|name| name != PLAIN);
        self.apply(SessionChoices { variant, ..self.job.project.choices.clone() })?;
        Ok(format!("variant: {name}"))
    }

    /// The agent that follows gets the next prompts.
    pub(super) fn next_agent(&mut self) {
        let next = self.settings().map(|settings| {
            let agents = Agents::from_settings(&settings);
            let names: Vec<String> = agents.visible().map(|agent| agent.name.clone()).collect();
            let current = &self.job.setup.turn_settings.agent.name;
            let place = names.iter().position(|name| name == current);
            names.get(place.map_or(0, |place| (place + 1) % names.len())).cloned()
        });
        let chosen = match next {
            Ok(Some(name)) => self.choose_agent(&name),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        self.hint_at(chosen);
    }

    /// The next way to treat permission questions.
    pub(super) fn next_mode(&mut self) {
        let agent = &self.job.setup.turn_settings.agent.name;
        let current = Mode::from_overrides(&self.job.overrides, agent);
        let chosen = self.set_mode(current.map_or(Mode::Ask, Mode::next));
        self.hint_at(chosen);
    }

    /// Says what a key has chosen, where the status stands.
    fn hint_at(&mut self, chosen: anyhow::Result<String>) {
        self.app.hint = Some(match chosen {
            Ok(said) => clean_line(&said),
            Err(error) => clean_line(&format!("{error:#}")),
        });
        self.log_choices();
    }

    fn choose_mode(&mut self, name: &str) -> anyhow::Result<String> {
        let Some(mode) = Mode::parse(name) else {
            let names = Mode::ALL.map(Mode::name).join(", ");
            return Err(Usage(format!("there is no mode `{name}`: choose one of {names}")).into());
        };
        self.set_mode(mode)
    }

    fn set_mode(&mut self, mode: Mode) -> anyhow::Result<String> {
        let settings = self.settings()?;
        let agents = Agents::from_settings(&settings);
        let plan = Mode::Plan.name();
        let current = self.job.setup.turn_settings.agent.name.clone();
        let agent = match mode {
            Mode::Plan => Some(agents.to_prompt(plan).map_err(anyhow::Error::new)?.name.clone()),
            Mode::Ask | Mode::AcceptEdits | Mode::Sandbox if current == plan => {
                // the one that had the prompts before, if it is still there
                let before = self.planned_for.take().filter(|name| agents.to_prompt(name).is_ok());
                let default = || agents.default(&settings).map(|agent| agent.name.clone());
                Some(before.map_or_else(default, Ok).map_err(anyhow::Error::new)?)
            }
            Mode::Ask | Mode::AcceptEdits | Mode::Sandbox => None,
        };
        if mode == Mode::Plan && current != plan {
            self.planned_for = Some(current);
        }
        let before = self.job.overrides.clone();
        self.job.overrides = Overrides {
            ask: AskMode::Ask,
            accept_edits: mode == Mode::AcceptEdits,
            allow_in_sandbox: mode == Mode::Sandbox,
            ..before.clone()
        };
        let choices = self.job.project.choices.clone();
        let taken = match agent {
            Some(agent) => self.apply(SessionChoices { agent: Some(agent), ..choices }),
            None => self.take_choices(choices),
        };
        if let Err(error) = taken {
            self.job.overrides = before;
            return Err(error);
        }
        let agent = &self.job.setup.turn_settings.agent.name;
        Ok(format!("permissions: {}, for the next prompts of the agent {agent}", mode.name()))
    }

    fn choose_theme(&mut self, name: &str) -> anyhow::Result<String> {
        let Some(theme) = ThemeName::parse(name) else {
            let names = ThemeName::ALL.map(ThemeName::name).join(", ");
            return Err(Usage(format!("there is no theme `{name}`: choose one of {names}")).into());
        };
        self.theme = theme;
        self.use_theme(theme);
        Ok(format!(
            "theme: {name}, for what comes from here on; the setting `terminal.theme` keeps it"
        ))
    }

    /// Shows the commands and keys, or with `keys` those that edit the text.
    fn help(&mut self, argument: &str) {
        let keys = Arc::clone(&self.app.blocks.look.keys);
        if argument == KEYS {
            return self.show_tables(&[("Keys in the text", key_rows(&keys, true))]);
        }
        let mut parts = Vec::new();
        for builtins in BUILTIN_COMMANDS.chunk_by(|one, other| one.group == other.group) {
            let row = |builtin: &BuiltinCommand| {
                let label = |key| labels(&keys, key);
                let key = builtin.key.map(label).filter(|label| !label.is_empty());
                let also = builtin.aliases.iter().map(|alias| format!("/{alias}"));
                HelpRow {
                    name: format!("/{} {}", builtin.name, builtin.usage),
                    about: builtin.about.to_owned(),
                    also: key.into_iter().chain(also).collect::<Vec<_>>().join(", "),
                }
            };
            parts.push((builtins[0].group.name(), builtins.iter().map(row).collect()));
        }
        let mut own = Vec::new();
        for (name, about) in self.project_commands() {
            if BUILTIN_COMMANDS.iter().all(|builtin| builtin.name != name || builtin.yields) {
                own.push(HelpRow::new(format!("/{name}"), about));
            }
        }
        if !own.is_empty() {
            parts.push((Group::Others.name(), own));
        }
        let typed = TYPED.map(|(key, about)| HelpRow::new(key, about)).into();
        parts.extend([("In a prompt", typed), ("Keys", key_rows(&keys, false))]);
        self.show_tables(&parts);
    }

    /// Shows rows of a name and a text, below each other if the screen is narrow.
    fn show_table(&mut self, rows: &[(String, String)]) {
        let rows = rows.iter().map(|(name, about)| HelpRow::new(name, about)).collect();
        self.show_tables(&[("", rows)]);
    }

    /// Shows tables with their headings.
    fn show_tables(&mut self, parts: &[(&str, Vec<HelpRow>)]) {
        let look = &self.app.blocks.look;
        let theme = &look.theme;
        let rows = || parts.iter().flat_map(|(_, rows)| rows);
        let names = rows().map(|row| clean_line(&row.name).width());
        let column = names.filter(|columns| *columns <= MIN_SECOND_COLUMN).max().unwrap_or(0);
        let is_narrow = look.width < column + 4 + MIN_SECOND_COLUMN;
        let mut lines = Vec::new();
        for (heading, rows) in parts {
            if !heading.is_empty() {
                lines.push(Line::default());
                let heading = span(theme.heading, format!("  {heading}"));
                lines.push(Line::from(clip(&[heading], look.width)));
            }
            for row in rows {
                let (name, about) = (clean_line(&row.name), clean_line(&row.about));
                let is_below = is_narrow || name.width() > column;
                let blank = " ".repeat(column.saturating_sub(name.width()));
                let also =
                    Some(format!(" · {}", clean_line(&row.also))).filter(|_| !row.also.is_empty());
                let text = |begin: [Span<'static>; 2]| {
                    let indent = Indent::hanging(begin.into());
                    let mut text = vec![span(theme.text, about.clone())];
                    text.extend(also.clone().map(|also| span(theme.dim, also)));
                    wrap(&text, look.width, &indent, Break::Words)
                };
                let name = span(theme.code, format!("  {name}"));
                if is_below {
                    lines.push(Line::from(clip(&[name], look.width)));
                    lines.extend(text([span(theme.text, "    "), span(theme.text, "")]));
                } else {
                    lines.extend(text([name, span(theme.text, format!("{blank}  "))]));
                }
            }
        }
        self.app.blocks.add(lines);
    }

    fn todos(&mut self) {
        let root = self.app.blocks.transcript.root();
        let todos = root.map(|root| root.todos.as_slice()).unwrap_or_default();
        let look = &self.app.blocks.look;
        let lines: Vec<_> =
            todos.iter().flat_map(|todo| calls::todo_lines("  ", todo, look)).collect();
        if lines.is_empty() {
            return self.show_text("  there are no tasks");
        }
        self.app.blocks.add(lines);
    }

    fn servers(&mut self) {
        let mut text = String::new();
        for report in self.job.setup.extensions.mcp.reports() {
            let status = match &report.status {
                ServerStatus::Connected => "connected".to_owned(),
                ServerStatus::Idle => "idle".to_owned(),
                ServerStatus::Disabled => "disabled".to_owned(),
                ServerStatus::NeedsSignIn(why) | ServerStatus::Failed(why) => {
                    format!("failed: {why}")
                }
            };
            let names: Vec<&str> = report.tools.iter().map(|tool| tool.name.as_str()).collect();
            text += &format!("  {}\n", clean_line(&format!("{}: {status}", report.name)));
            if !names.is_empty() {
                text += &format!("    {}\n", clean_line(&names.join(", ")));
            }
        }
        if text.is_empty() {
            text = "  no MCP servers are configured: add them under `mcp` in settings".to_owned();
        }
        self.show_text(&text);
    }

    /// Shows the use of the model's context, and the provider's own count.
    pub(super) fn show_context(&mut self, used: &ContextUse) {
        let measured = self.app.blocks.transcript.root().and_then(|root| root.context_used);
        let look = &self.app.blocks.look;
        let columns = look.columns();
        let lines = render::context(used, measured, columns, &look.theme);
        self.app.blocks.add(lines);
    }

    /// Puts a text into the clipboard of the terminal.
    pub(super) fn copy(&mut self, text: &str) {
        let text = clean(text);
        let what = format!("{} characters", text.chars().count());
        let Screen::Inline(surface) = &mut self.screen else {
            return self.app.warn("  /copy: this terminal takes no control codes");
        };
        if text.len() > MAX_COPIED {
            let why = format!("{what} are too many for the clipboard of a terminal");
            return self.app.warn(&format!("  /copy: {why}"));
        }
        // a terminal that is gone is noticed when the screen is drawn
        let _ = surface.copy(&text);
        self.app.note(&format!("  copied {what}, if the terminal allows it (OSC 52)"));
    }

    /// Shows text of several lines, which may hold anything.
    pub(super) fn show_text(&mut self, text: &str) {
        let look = &self.app.blocks.look;
        let style = look.theme.text;
        // columns stay in place, unless there is no room for the line
        let lines_of = |line: &str| match line.width() <= look.width {
            true => vec![Line::from(span(style, line.to_owned()))],
            false => look.note(style, line),
        };
        let lines: Vec<Line<'static>> = clean(text).lines().flat_map(lines_of).collect();
        self.app.blocks.add(lines);
    }

    pub(super) fn unknown(&mut self, command: &str) {
        let others = self.project_commands();
        let meant = entered::meant(&command[1..], others.iter().map(|(name, _)| name.as_str()));
        let meant = meant.map_or_else(
            || "see /help".to_owned(),
            |name| format!("did you mean /{}?", clean_line(&name)),
        );
        let end = if meant.ends_with('?') { "" } else { "." };
        let text = format!(
            "  There is no command {}: {meant}{end} To send it as a prompt, put a space before it.",
            clean_line(command)
        );
        self.show_text(&text);
    }

    /// The session, its model, its context and its cost.
    pub(super) fn status(&mut self) {
        let status = &self.app.status;
        let root = self.app.blocks.transcript.root();
        let before = &self.app.before;
        let title = root.and_then(|root| root.title.as_ref()).or(before.title.as_ref());
        let variant = status.variant.as_deref().map(|variant| format!(", variant {variant}"));
        let mut rows = vec![
            ("session", self.job.place.session.to_string()),
            ("title", title.cloned().unwrap_or_default()),
            ("directory", self.job.setup.turn_settings.directory.display().to_string()),
            ("agent", status.agent.clone()),
            ("model", format!("{}{}", status.model, variant.unwrap_or_default())),
            ("permissions", status.permissions.to_owned()),
        ];
        if let Some(root) = root {
            let used = root.context_used.unwrap_or_default();
            let size = if root.context_size > 0 { root.context_size } else { status.context };
            rows.push((
                "context",
                match used.saturating_mul(100).checked_div(size) {
                    Some(percent) => {
                        format!("{} of {} tokens ({percent} %)", thousands(used), thousands(size))
                    }
                    None => format!("{} tokens", thousands(used)),
                },
            ));
            let mut usage = before.usage;
            usage += root.usage;
            let cached = usage.cache_read.saturating_add(usage.cache_write);
            let (sent, received) =
                (usage.input.saturating_add(cached), usage.output.saturating_add(usage.reasoning));
            rows.push(("tokens", format!("{} in, {} out", thousands(sent), thousands(received))));
            let cost = self.app.cost().map(|cost| format!("${cost:.4}"));
            rows.push(("cost", cost.unwrap_or_default()));
        }
        let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
        let rows: Vec<(String, String)> =
            rows.map(|(name, value)| (name.to_owned(), value)).collect();
        self.show_table(&rows);
    }
}

/// A row of the help.
struct HelpRow {
    name: String,
    about: String,
    /// Its keys and other names, which stand dim behind it.
    also: String,
}

impl HelpRow {
    fn new(name: impl Into<String>, about: impl Into<String>) -> Self {
        Self { name: name.into(), about: about.into(), also: String::new() }
    }
}

/// The keys of an action, as people write them.
fn labels(keys: &Keymap, action: KeyAction) -> String {
    let labels = keys.keys(action).iter().map(|key| key.label());
    labels.collect::<Vec<_>>().join(", ")
}

/// The keys and what they do: those that edit the text, or the others.
fn key_rows(keys: &Keymap, edits: bool) -> Vec<HelpRow> {
    let all = KeyAction::ALL.iter().copied();
    let wanted = all.filter(|action| action.edits() == edits && !keys.keys(*action).is_empty());
    wanted.map(|action| HelpRow::new(labels(keys, action), action.about())).collect()
}

/// The command line that a row of a list stands for.
fn command_of(pick: &Pick) -> String {
    match pick {
        Pick::Run(line) => line.clone(),
        Pick::Prompt(seq) => format!("/revert {seq}, /fork {seq}"),
        Pick::Fork(seq) => format!("/fork {seq}"),
        Pick::Approval(id) => format!("`leftfold permission forget {id}` takes it back"),
        Pick::Theme(name, _) => format!("/theme {}", name.name()),
    }
}

/// The format that `/export` writes, and the name of the file, which may be left out. Without a format, the name
/// says it.
fn export_of(argument: &str) -> (&'static Format, &str) {
    let (first, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    if let Some(format) = FORMATS.iter().find(|format| format.name == first) {
        return (format, rest.trim_start());
    }
    let fits = |format: &&Format| argument.ends_with(&format!(".{}", format.extension));
    // a longer end says more than `.jsonl`
    let format = FORMATS.iter().filter(fits).max_by_key(|format| format.extension.len());
    (format.unwrap_or(&FORMATS[0]), argument)
}

/// The changes that `/diff` shows.
fn diff_range(argument: &str) -> Option<DiffRange> {
    match argument {
        "" => Some(DiffRange::LastTurn),
        "session" => Some(DiffRange::Session),
        number => number.parse().ok().map(DiffRange::Turn),
    }
}

/// The prompt before which `/fork` is to fork, if not of everything, and whether it restores files.
fn fork_of(argument: &str) -> Option<(Option<Seq>, bool)> {
    let mut words = argument.split_whitespace();
    let before = match words.next()? {
        HERE => None,
        seq => Some(seq.parse().ok()?),
    };
    match (words.next(), words.next()) {
        (None, _) => Some((before, false)),
        (Some(FILES), None) => Some((before, true)),
        (Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        for (argument, expected) in [
            ("here", Some((None, false))),
            ("12", Some((Some(12), false))),
            ("12 files", Some((Some(12), true))),
            ("12 fish", None),
            ("12 files more", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(fork_of(argument), expected, "{argument:?}");
        }
        for (argument, format, file) in [
            ("", "jsonl", ""),
            ("html", "html", ""),
            ("md  a b.md", "md", "a b.md"),
            ("page.html", "html", "page.html"),
            ("run.otlp.jsonl", "otlp", "run.otlp.jsonl"),
            ("run.jsonl", "jsonl", "run.jsonl"),
            ("notes.txt", "jsonl", "notes.txt"),
            ("./md", "jsonl", "./md"),
        ] {
            let (found, name) = export_of(argument);
            assert_eq!((found.name, name), (format, file), "{argument:?}");
        }
        assert_eq!(diff_range(""), Some(DiffRange::LastTurn));
        assert_eq!(diff_range("3"), Some(DiffRange::Turn(3)));
        assert_eq!(diff_range("x"), None);
    }
}
