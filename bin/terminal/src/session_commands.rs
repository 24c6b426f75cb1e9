//! Commands of the conversation that the session performs: `/undo`, `/redo` and `/compact`.

use leftfold_actors::Answered;
use leftfold_events::state::Message;
use leftfold_events::{Seq, State, fold};
use leftfold_store::Reader;

use super::BY;
use super::conversation::{Conversation, Stage};
use super::style::Face;
use leftfold_runtime::client;

const UNDO: &str = "/undo";
const REDO: &str = "/redo";
const COMPACT: &str = "/compact";

pub(super) fn is_known(command: &str) -> bool {
    [UNDO, REDO, COMPACT].contains(&command)
}

/// The outcome of a command.
enum CommandOutcome {
    /// It is in the log; its effects are shown when they are observed.
    Accepted,
    /// A turn has begun, which ends like any other.
    Turn,
    /// The reason of a refusal.
    Refused(String),
}

impl Conversation {
    pub(super) async fn carry_out(&mut self, command: &str) -> anyhow::Result<()> {
        let refused = match self.asked_of_session(command).await {
            Ok(CommandOutcome::Accepted) => None,
            Ok(CommandOutcome::Turn) => {
                self.mode.watch();
                self.stage = Stage::Turn { running: true };
                self.paint("")?;
                return Ok(());
            }
            Ok(CommandOutcome::Refused(why)) => Some(why),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(why) = refused {
            let note = self.renderer.note(Face::YELLOW, &format!("  {command}: {why}"));
            self.screen.print(&note)?;
        }
        self.take_prompt()
    }

    async fn asked_of_session(&mut self, command: &str) -> anyhow::Result<CommandOutcome> {
        if self.client.is_none() {
            return Ok(CommandOutcome::Refused("the session has only begun".to_owned()));
        }
        let mut left = client::ATTEMPTS;
        loop {
            self.open(None).await?;
            match self.attempt(command).await {
                Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
                done => return done,
            }
            tokio::time::sleep(client::BREATH).await;
        }
    }

    async fn attempt(&self, command: &str) -> anyhow::Result<CommandOutcome> {
        let client = self.client()?;
        if command == COMPACT {
            let told = client.compact(self.setup.prompt_config(), BY, false).await?;
            let refused = || CommandOutcome::Refused("there is nothing to be summed up".to_owned());
            return Ok(if told == Answered::Accepted { CommandOutcome::Turn } else { refused() });
        }
        let back = match command {
            UNDO => match last_prompt(&self.state().await?) {
                Some(prompt) => Some(prompt),
                None => {
                    return Ok(CommandOutcome::Refused(
                        "there is no prompt to go back to".to_owned(),
                    ));
                }
            },
            _ => None,
        };
        Ok(match client.revert(self.setup.prompt_config(), back, BY).await? {
            Ok(()) => CommandOutcome::Accepted,
            Err(why) => CommandOutcome::Refused(why),
        })
    }

    /// The session's current state; if another process is the node, the state in the log.
    async fn state(&self) -> anyhow::Result<State> {
        let client = self.client()?;
        if client.remote().is_none() {
            return Ok(*client.view().await?);
        }
        Ok(fold(&Reader::open(&self.setup.place.store)?.read(client.session, 1)?))
    }
}

/// The last prompt that was not reverted.
fn last_prompt(state: &State) -> Option<Seq> {
    state.messages.iter().rev().find_map(|message| match message {
        Message::User(prompt) => Some(prompt.seq),
        Message::Assistant(_) | Message::Summary { .. } | Message::Note { .. } => None,
    })
}
