//! Handles the lines that the user types.

use leftfold_events::event::{Answer, PromptPart, SessionChoices};

use super::BY;
use super::conversation::{Conversation, ExitReason, Stage};
use super::input::Typed;
use super::style::Face;
use super::{calls, question, session_commands};
use leftfold_runtime::agents::Agents;
use leftfold_runtime::client;
use leftfold_runtime::project::Project;
use leftfold_runtime::redact_output;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_diff::{DiffRange, SessionDiff};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{self, OptionsFor, Prepared};
use leftfold_runtime::turn_config::Overrides;
use leftfold_view::QuestionId;
use leftfold_view::clean::clean_line;

impl Conversation {
    pub(super) async fn typed(&mut self, typed: Typed) -> anyhow::Result<Option<ExitReason>> {
        if let Stage::Reason(of) = self.stage {
            return self.reason(of, typed).await;
        }
        let line = match typed {
            Typed::Line(line) => line,
            Typed::Interrupted { empty } => return self.interrupted_prompt(empty),
            Typed::End => return Ok(Some(ExitReason::Done)),
            Typed::Gone(why) => {
                tracing::debug!("cannot read the terminal: {why}");
                return Ok(Some(ExitReason::Gone));
            }
        };
        self.warned = false;
        match command(&line) {
            Some("/exit") => return Ok(Some(ExitReason::Done)),
            Some(command) if session_commands::is_known(command) => self.carry_out(command).await?,
            Some(command) => match self.builtin(command, &line).await {
                Some(text) => {
                    self.screen.print(&text)?;
                    self.take_prompt()?;
                }
                None => self.prompt(line).await?,
            },
            None if line.trim().is_empty() => {
                if self.renderer.turn().is_some() && !self.unfinished {
                    self.join_turn()?;
                } else {
                    self.take_prompt()?;
                }
            }
            None => self.prompt(line).await?,
        }
        Ok(None)
    }

    async fn prompt(&mut self, text: String) -> anyhow::Result<()> {
        let project = (&self.project, self.setup.place.store.as_path());
        let prepared = Prepared::new(project, &self.overrides, &text, OptionsFor::ForAll);
        let prepared = match &prepared {
            Ok(prepared) => self.prepare(prepared, text).await,
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        let (setup, mut parts) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let note = self
                    .renderer
                    .note(Face::RED, &redact_output::clean(&format!("not sent: {error:#}")));
                self.screen.print(&note)?;
                return self.take_prompt();
            }
        };
        parts.append(&mut self.files);
        self.mode.watch();
        // An interrupted turn is closed first.
        self.stage = Stage::Turn { running: false };
        let prompted = self.send(&setup, parts).await;
        if prompted.is_err() && self.client.is_none() {
            return prompted;
        }
        if let Err(error) = prompted {
            let note = self
                .renderer
                .note(Face::RED, &redact_output::clean(&format!("not sent: {error:#}")));
            self.paint(&note)?;
            self.take_prompt()?;
        }
        Ok(())
    }

    /// Prepares a prompt, and the setup for it.
    async fn prepare(
        &self,
        prepared: &Prepared,
        text: String,
    ) -> anyhow::Result<(SessionSetup, Vec<PromptPart>)> {
        let place = self.setup.place.clone();
        let setup = prepared.setup(place)?;
        let parts = prepared.parts(&setup, vec![PromptPart::text(text)]).await?;
        Ok((setup, parts))
    }

    async fn send(&mut self, setup: &SessionSetup, parts: Vec<PromptPart>) -> anyhow::Result<()> {
        let mut left = client::ATTEMPTS;
        loop {
            self.open(None).await?;
            self.client()?.takes(&self.overrides.options())?;
            self.unfinished = false;
            let prompted = match self.log_choices().await {
                Ok(()) => self.client()?.prompt(setup, parts.clone(), BY).await,
                Err(error) => Err(error),
            };
            match prompted {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                prompted => return prompted,
            }
            tokio::time::sleep(client::BREATH).await;
        }
    }

    /// The output of a built-in command of the terminal; `None` if it is not one.
    async fn builtin(&mut self, command: &str, line: &str) -> Option<String> {
        let argument = line[command.len()..].trim();
        let listed = slash::list(&self.setup.turn_settings.directory, &self.setup.extensions);
        let of_project = listed.unwrap_or_default();
        match command {
            "/help" => {
                let line = |(name, about): (String, String)| {
                    format!("  {}\n", clean_line(&format!("/{name}: {about}")))
                };
                let rest: String = of_project.into_iter().map(line).collect();
                Some(format!("{HELP}{rest}"))
            }
            "/agent" => Some(match self.choose_agent(argument).await {
                Ok(said) => format!("  {said}\n"),
                Err(error) => format!("  {error:#}\n"),
            }),
            // A command of the project with this name comes first.
            "/diff" if !of_project.iter().any(|(name, _)| name == "diff") => {
                Some(self.diff(argument).await)
            }
            // A server may have the command even if it is not known here.
            _ if command.contains(':') => None,
            _ if of_project.iter().any(|(name, _)| *name == command[1..]) => None,
            _ => Some(unknown(command)),
        }
    }

    /// The changes of the last turn to files, of another turn, or of the whole session.
    async fn diff(&self, argument: &str) -> String {
        let turn = argument.parse().map(DiffRange::Turn);
        let range = match argument {
            "" => DiffRange::LastTurn,
            "session" => DiffRange::Session,
            _ => match turn {
                Ok(turn) => turn,
                Err(_) => return "  /diff takes `session`, or the number of a turn\n".to_owned(),
            },
        };
        if self.client.is_none() {
            return "  the session has only begun\n".to_owned();
        }
        let place = self.setup.place.clone();
        let read = move || SessionDiff::read(&place, range);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(diff)) => calls::diff(&diff, self.renderer.look),
            Ok(Err(error)) => format!("  {}\n", redact_output::clean(&format!("{error:#}"))),
            Err(error) => format!("  the changes cannot be shown: {error}\n"),
        }
    }

    /// Sets the agent for the next prompts (SPEC A5), also of other clients; without a name, lists the agents.
    async fn choose_agent(&mut self, name: &str) -> anyhow::Result<String> {
        let directory = &self.setup.turn_settings.directory;
        let settings = resolved_settings::settings(directory, &self.setup.extensions.plugins)?;
        let agents = Agents::of(&settings);
        if name.is_empty() {
            let current = &self.setup.turn_settings.agent.name;
            return Ok(format!("agent: {current}; there are {}", agents.primaries()));
        }
        agents.to_prompt(name).map_err(anyhow::Error::new)?;
        let agent = Some(name.to_owned());
        self.take_choices(SessionChoices { agent, ..self.project.choices.clone() })?;
        self.unlogged = true;
        if self.client.is_some() {
            self.log_choices().await?;
        }
        Ok(format!("agent: {name}, {}", self.setup.turn_settings.model.name()))
    }

    /// Logs the choices. A new session logs them with its first prompt.
    async fn log_choices(&mut self) -> anyhow::Result<()> {
        if self.unlogged {
            self.client()?.configure(self.project.choices.clone(), BY).await?;
            self.unlogged = false;
        }
        Ok(())
    }

    /// Another agent has taken over and gets the next prompts.
    pub(super) fn switched(&mut self, agent: &str) -> anyhow::Result<()> {
        let mut choices = self.project.choices.clone();
        choices.agent = choices.agent.map(|_| agent.to_owned());
        self.project.agent = Some(agent.to_owned());
        self.overrides.agent = None;
        self.take_choices(choices)
    }

    /// Applies the choices to the next prompts.
    pub(super) fn take_choices(&mut self, choices: SessionChoices) -> anyhow::Result<()> {
        let agent = self.overrides.agent.clone().filter(|_| choices.agent.is_none());
        let overrides = Overrides { agent, ..self.overrides.clone() };
        let project = Project { choices, ..self.project.clone() };
        self.setup = SessionSetup::new(self.setup.place.clone(), &project, &overrides, false)?;
        let session = self.setup.place.session;
        self.sessions.configure(session, project.choices.clone());
        self.sessions.set_overrides(session, overrides.clone());
        (self.project, self.overrides) = (project, overrides);
        Ok(())
    }

    async fn reason(&mut self, of: QuestionId, typed: Typed) -> anyhow::Result<Option<ExitReason>> {
        self.stage = Stage::Turn { running: true };
        self.mode.watch();
        self.paint("")?;
        match typed {
            Typed::Gone(_) => return Ok(Some(ExitReason::Gone)),
            Typed::Interrupted { .. } => self.client()?.interrupt("SIGINT").await?,
            Typed::Line(line) if !line.trim().is_empty() => {
                let answer = self.renderer.question_of(of);
                let answer = answer.and_then(|asked| question::typed(&asked, &line));
                let because = || question::reply(Answer::Reject, Some(line.trim().to_owned()));
                self.answer(of, answer.unwrap_or_else(because)).await?;
            }
            // An empty line leaves the question open.
            Typed::Line(_) | Typed::End => {}
        }
        if self.renderer.turn().is_none() {
            self.take_prompt()?;
        }
        self.update_question()?;
        Ok(None)
    }

    /// Handles Ctrl-C in a line: the line is dropped. In an empty line, a second one leaves.
    pub(super) fn interrupted_prompt(&mut self, empty: bool) -> anyhow::Result<Option<ExitReason>> {
        if empty && self.warned {
            return Ok(Some(ExitReason::Done));
        }
        self.warned = empty;
        if empty {
            let note = "To leave, press Ctrl-C again or Ctrl-D, or type /exit.";
            let note = self.renderer.look.style.paint(Face::DIM, note);
            self.screen.print(&format!("{note}\n"))?;
        }
        self.take_prompt()?;
        self.warned = empty;
        Ok(None)
    }
}

const HELP: &str = concat!(
    "  /exit, Ctrl-D   leave; the session is kept\n",
    "  /agent [NAME]   use another agent for the next prompts; without NAME list them\n",
    "  /undo, /redo    revert the last prompt and its file changes; undo that revert\n",
    "  /diff [N]       show the changes of the last turn to files, of turn N, or of the whole `session`\n",
    "  /compact        replace the conversation so far with a summary\n",
    "  Ctrl-C          interrupt the turn\n",
    "  Alt-Enter       start a new line (or end the line with \\); pasted lines stay together\n",
    "  up, Ctrl-R      recall earlier prompts\n",
);

fn unknown(command: &str) -> String {
    format!(
        "  There is no command {command}: see /help. To send it as a prompt, put a space before it.\n"
    )
}

/// The command in a line, if it is one. A path is not a command.
fn command(line: &str) -> Option<&str> {
    let word = line.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
    (!word.contains('/')).then(|| &line[..=word.len()])
}
