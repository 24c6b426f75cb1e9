//! What becomes of the lines that the user types.

use leftfold_events::event::{Answer, PromptPart, SessionChoices};

use super::BY;
use super::conversation::{Conversation, Leave, Stage};
use super::input::Typed;
use super::style::Face;
use super::{back, question};
use leftfold_runtime::agents::Agents;
use leftfold_runtime::client;
use leftfold_runtime::project::Project;
use leftfold_runtime::redact_output;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{self, OptionsFor, Prepared};
use leftfold_runtime::turn_config::Overrides;
use leftfold_view::QuestionId;
use leftfold_view::clean::clean_line;

impl Conversation {
    pub(super) async fn typed(&mut self, typed: Typed) -> anyhow::Result<Option<Leave>> {
        if let Stage::Reason(of) = self.stage {
            return self.reason(of, typed).await;
        }
        let line = match typed {
            Typed::Line(line) => line,
            Typed::Interrupted { empty } => return self.interrupted_prompt(empty),
            Typed::End => return Ok(Some(Leave::Done)),
            Typed::Gone(why) => {
                tracing::debug!("the terminal can not be read: {why}");
                return Ok(Some(Leave::Gone));
            }
        };
        self.warned = false;
        match command(&line) {
            Some("/exit") => return Ok(Some(Leave::Done)),
            Some(command) if back::is_known(command) => self.carry_out(command).await?,
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
        let (setup, parts) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let note = self
                    .renderer
                    .note(Face::RED, &redact_output::clean(&format!("not taken: {error:#}")));
                self.screen.print(&note)?;
                return self.take_prompt();
            }
        };
        self.mode.watch();
        // a turn that was cut off has an end of its own, which comes first
        self.stage = Stage::Turn { running: false };
        let prompted = self.send(&setup, parts).await;
        if prompted.is_err() && self.client.is_none() {
            return prompted;
        }
        if let Err(error) = prompted {
            let note = self
                .renderer
                .note(Face::RED, &redact_output::clean(&format!("not taken: {error:#}")));
            self.paint(&note)?;
            self.take_prompt()?;
        }
        Ok(())
    }

    /// What a prompt comes to, and the setup that it is one of.
    async fn prepare(
        &self,
        prepared: &Prepared,
        text: String,
    ) -> anyhow::Result<(SessionSetup, Vec<PromptPart>)> {
        let place = self.setup.place.clone();
        let setup = SessionSetup::new(place, &prepared.project, &prepared.overrides, false)?;
        let parts = prepared.parts(&setup, vec![PromptPart::text(text)]).await?;
        Ok((setup, parts))
    }

    async fn send(&mut self, setup: &SessionSetup, parts: Vec<PromptPart>) -> anyhow::Result<()> {
        let mut left = client::ATTEMPTS;
        loop {
            self.open(None).await?;
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

    /// What a command of the terminal's own says; `None` if it is one of the project's.
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
            // one of a server that is not known yet is for the server to say
            _ if command.contains(':') => None,
            _ if of_project.iter().any(|(name, _)| *name == command[1..]) => None,
            _ => Some(unknown(command)),
        }
    }

    /// Has another agent take the prompts from now on (SPEC A5), those of other clients too; without a name
    /// tells which there are.
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

    /// Writes into the log what is chosen. A new session writes it with its first prompt.
    async fn log_choices(&mut self) -> anyhow::Result<()> {
        if self.unlogged {
            self.client()?.configure(self.project.choices.clone(), BY).await?;
            self.unlogged = false;
        }
        Ok(())
    }

    /// An agent has taken over, and the next prompts are for it.
    pub(super) fn switched(&mut self, agent: &str) -> anyhow::Result<()> {
        let mut choices = self.project.choices.clone();
        choices.agent = choices.agent.map(|_| agent.to_owned());
        self.project.agent = Some(agent.to_owned());
        self.overrides.agent = None;
        self.take_choices(choices)
    }

    /// Prompts are taken like this from now on.
    pub(super) fn take_choices(&mut self, choices: SessionChoices) -> anyhow::Result<()> {
        let agent = self.overrides.agent.clone().filter(|_| choices.agent.is_none());
        let overrides = Overrides { agent, ..self.overrides.clone() };
        let project = Project { choices, ..self.project.clone() };
        self.setup = SessionSetup::new(self.setup.place.clone(), &project, &overrides, false)?;
        let session = self.setup.place.session;
        self.sessions.configure(session, project.choices.clone());
        self.sessions.drive(session, overrides.clone());
        (self.project, self.overrides) = (project, overrides);
        Ok(())
    }

    async fn reason(&mut self, of: QuestionId, typed: Typed) -> anyhow::Result<Option<Leave>> {
        self.stage = Stage::Turn { running: true };
        self.mode.watch();
        self.paint("")?;
        match typed {
            Typed::Gone(_) => return Ok(Some(Leave::Gone)),
            Typed::Interrupted { .. } => self.client()?.interrupt("SIGINT").await?,
            Typed::Line(line) if !line.trim().is_empty() => {
                let answer = self.renderer.question_of(of);
                let answer = answer.and_then(|asked| question::typed(&asked, &line));
                let because = || question::reply(Answer::Reject, Some(line.trim().to_owned()));
                self.answer(of, answer.unwrap_or_else(because)).await?;
            }
            // without a word the question stands as it stood
            Typed::Line(_) | Typed::End => {}
        }
        if self.renderer.turn().is_none() {
            self.take_prompt()?;
        }
        self.see_to_questions()?;
        Ok(None)
    }

    /// Ctrl-C in a line: it is thrown away. In an empty one it is about to leave.
    pub(super) fn interrupted_prompt(&mut self, empty: bool) -> anyhow::Result<Option<Leave>> {
        if empty && self.warned {
            return Ok(Some(Leave::Done));
        }
        self.warned = empty;
        if empty {
            let note = "Ctrl-D or /exit leaves; so does another Ctrl-C.";
            let note = self.renderer.look.style.paint(Face::DIM, note);
            self.screen.print(&format!("{note}\n"))?;
        }
        self.take_prompt()?;
        self.warned = empty;
        Ok(None)
    }
}

const HELP: &str = concat!(
    "  /exit, Ctrl-D   leave; the session stays\n",
    "  /agent [NAME]   another agent for the next prompts\n",
    "  /undo, /redo    take back the last prompt and what it changed in files; and that again\n",
    "  /compact        replace what was said so far by a summary\n",
    "  Ctrl-C          interrupt the turn\n",
    "  Alt-Enter       another line; so does a \\ at the end; a paste stays together\n",
    "  up, Ctrl-R      earlier prompts\n",
);

fn unknown(command: &str) -> String {
    format!("  There is no {command}: see /help. A space before it makes it a prompt.\n")
}

/// The command that a line is, if it is one. A path is none.
fn command(line: &str) -> Option<&str> {
    let word = line.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
    (!word.contains('/')).then(|| &line[..=word.len()])
}
