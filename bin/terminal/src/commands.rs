//! The commands of the conversation itself. Others are prompts of the project or of its servers.

use leftfold_runtime::agents::Agents;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_diff::DiffRange;
use leftfold_runtime::slash;
use leftfold_view::clean::clean_line;
use ratatui::text::Line;

use super::blocks::span;
use super::conversation::Conversation;
use leftfold_events::event::SessionChoices;

pub(super) const HELP: &str = "\
  /exit, Ctrl-D   leave; the session is kept
  /agent [NAME]   use another agent for the next prompts; without NAME list them
  /status         show the session, its model, its context and its cost
  /undo, /redo    revert the last prompt and its file changes; undo that revert
  /diff [N]       show the changes of the last turn to files, of turn N, or of the whole `session`
  /compact        replace the conversation so far with a summary
  !COMMAND        run a command line; the model sees its output with the next prompt
  Enter           send; while a turn is running, queue the prompt
  Alt-Enter       start a new line (Shift-Enter, Ctrl-J; or end the line with \\)
  Esc             interrupt the turn; twice on an empty line: go back to an earlier prompt
  Ctrl-C          clear the line; interrupt the turn; leave
  up, Ctrl-R      recall queued and earlier prompts; search them
  Ctrl-G          write the prompt in $VISUAL or $EDITOR
  Ctrl-Z          suspend
";

impl Conversation {
    /// Whether the project or a server may have this command.
    pub(super) fn has_own(&self, command: &str) -> bool {
        // A server may have the command even if it is not known here.
        command.contains(':') || self.own_commands().iter().any(|(name, _)| *name == command[1..])
    }

    pub(super) fn own_commands(&self) -> Vec<(String, String)> {
        let setup = &self.job.setup;
        slash::list(&setup.turn_settings.directory, &setup.extensions).unwrap_or_default()
    }

    pub(super) fn help(&mut self) {
        let mut text = HELP.to_owned();
        for (name, about) in self.own_commands() {
            text += &format!("  {}\n", clean_line(&format!("/{name}: {about}")));
        }
        self.show(&text);
    }

    /// Shows lines of text as they are.
    pub(super) fn show(&mut self, text: &str) {
        let style = self.app.blocks.look.theme.text;
        self.app.blocks.add(text.lines().map(|line| Line::from(span(style, line.to_owned()))));
    }

    pub(super) fn unknown(&mut self, command: &str) {
        let text = format!(
            "  There is no command {}: see /help. To send it as a prompt, put a space before it.",
            clean_line(command)
        );
        self.show(&text);
    }

    /// The session, its model, its context and its cost.
    pub(super) fn status(&mut self) {
        let status = &self.app.status;
        let root = self.app.blocks.transcript.root();
        let variant = status.variant.as_deref().map(|variant| format!(", variant {variant}"));
        let mut rows = vec![
            ("session", self.job.place.session.to_string()),
            ("title", root.and_then(|root| root.title.clone()).unwrap_or_default()),
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
                    Some(percent) => format!("{used} of {size} tokens ({percent} %)"),
                    None => format!("{used} tokens"),
                },
            ));
            let usage = &root.usage;
            rows.push((
                "tokens",
                format!(
                    "{} in, {} out",
                    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write),
                    usage.output.saturating_add(usage.reasoning)
                ),
            ));
            rows.push(("cost", format!("${:.4}", root.cost)));
        }
        let rows = rows.iter().filter(|(_, value)| !value.is_empty());
        let text: String =
            rows.map(|(name, value)| format!("  {name:<12} {}\n", clean_line(value))).collect();
        self.show(&text);
    }

    /// Sets the agent for the next prompts (SPEC A5), also of other clients; without a name, lists the agents.
    pub(super) fn choose_agent(&mut self, name: &str) -> anyhow::Result<String> {
        let setup = &self.job.setup;
        let directory = &setup.turn_settings.directory;
        let settings = resolved_settings::settings(directory, &setup.extensions.plugins)?;
        let agents = Agents::of(&settings);
        if name.is_empty() {
            let current = &setup.turn_settings.agent.name;
            return Ok(format!("agent: {current}; there are {}", agents.primaries()));
        }
        agents.to_prompt(name).map_err(anyhow::Error::new)?;
        let agent = Some(name.to_owned());
        let choices = SessionChoices { agent, ..self.job.project.choices.clone() };
        self.take_choices(choices.clone())?;
        self.job.unlogged = Some(choices);
        Ok(format!("agent: {name}, {}", self.job.setup.turn_settings.model.name()))
    }

    /// What `/diff` is to show.
    pub(super) fn diff_range(argument: &str) -> Option<DiffRange> {
        match argument {
            "" => Some(DiffRange::LastTurn),
            "session" => Some(DiffRange::Session),
            number => number.parse().ok().map(DiffRange::Turn),
        }
    }
}
