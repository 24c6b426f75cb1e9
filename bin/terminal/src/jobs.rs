//! Work that may take a while: prompts, commands and shell lines. One job runs at a time, beside the keys and the
//! events, and tells the conversation what became of it.

use std::path::PathBuf;

use leftfold_actors::Answered;
use leftfold_events::event::{PromptKind, PromptPart, SessionChoices};
use leftfold_events::state::Message;
use leftfold_events::{Seq, State, fold};
use leftfold_runtime::client::Client;
use leftfold_runtime::fork::{self, ForkRequest};
use leftfold_runtime::project::Project;
use leftfold_runtime::session_diff::{DiffRange, SessionDiff};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::turn_config::{Overrides, PromptOptions};
use leftfold_runtime::user_message::UserMessage;
use leftfold_store::Reader;

use super::BY;
use super::link::Link;

/// Everything that a job takes with it.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) link: Link,
    pub(super) place: SessionPlace,
    pub(super) project: Project,
    pub(super) overrides: Overrides,
    pub(super) setup: SessionSetup,
    /// The choices that must be logged before a prompt.
    pub(super) unlogged: Option<SessionChoices>,
    /// Sent with the next prompt.
    pub(super) files: Vec<PromptPart>,
}

/// What became of a job.
#[derive(Debug)]
pub(super) enum Done {
    /// It is in the log; its effects are shown when they are observed.
    Prompted,
    /// The choices were logged.
    Configured,
    /// A turn has begun, or files are restored.
    Accepted,
    Prompts(Vec<(Seq, String)>),
    Diff(Box<SessionDiff>),
    Forked {
        place: SessionPlace,
        draft: String,
    },
    /// The command was refused, for this reason.
    Refused(String),
    /// The prompt was not sent.
    NotSent(anyhow::Error),
    /// The session cannot be opened at all.
    Failed(anyhow::Error),
}

/// What the session does for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionCommand {
    Compact,
    /// Revert the last prompt.
    Undo,
    Redo,
    Revert(Seq),
}

impl SessionCommand {
    fn name(self) -> &'static str {
        match self {
            Self::Compact => "/compact",
            Self::Undo => "/undo",
            Self::Redo => "/redo",
            Self::Revert(_) => "going back",
        }
    }
}

/// The start of the text for the model before a command line of the user.
const RAN: &str = "I ran this command:\n$ ";

/// The command line that a prompt consists of, if the user has run one.
pub(super) fn shell_line(parts: &[PromptPart]) -> Option<&str> {
    match parts {
        [said, command, ..]
            if command.kind == PromptKind::Command && said.text.starts_with(RAN) =>
        {
            Some(&command.text)
        }
        _ => None,
    }
}

const BEGUN: &str = "the session has only begun";

impl Job {
    pub(super) async fn prompt(mut self, text: String) -> Done {
        let project = self.project.clone();
        let (place, overrides) = (self.place.clone(), self.overrides.clone());
        let line = text.clone();
        // both wait for plugins
        let prepared = blocking(move || {
            let project = (&project, place.store.as_path());
            let prepared = Prepared::new(project, &overrides, &line, OptionsFor::ForAll)?;
            let setup = prepared.setup(place)?;
            Ok((prepared, setup))
        });
        let sent = async {
            let (prepared, setup) = prepared.await?;
            let mut parts = prepared.parts(&setup, vec![PromptPart::text(text)]).await?;
            parts.append(&mut self.files);
            self.send(&setup, parts, &PromptOptions::default()).await
        };
        let sent = sent.await;
        self.sent(sent)
    }

    /// Runs a command line. The model is not asked; it sees the command and its output with the next prompt.
    pub(super) async fn shell(mut self, line: String) -> Done {
        let (place, project) = (self.place.clone(), self.project.clone());
        let overrides = Overrides { max_steps: Some(0), ..self.overrides.clone() };
        let setup = blocking(move || SessionSetup::new(place, &project, &overrides, false));
        let said = format!("{RAN}{line}\nIts output:\n");
        let command = PromptPart { kind: PromptKind::Command, ..PromptPart::text(line) };
        let parts = vec![PromptPart::text(said), command];
        let options = PromptOptions { max_steps: Some(0), ..PromptOptions::default() };
        let sent = async {
            let setup = setup.await?;
            self.send(&setup, parts, &options).await
        };
        let sent = sent.await;
        self.sent(sent)
    }

    fn sent(&self, sent: anyhow::Result<()>) -> Done {
        match sent {
            Ok(()) => Done::Prompted,
            Err(error) if self.link.client.is_none() && is_fatal(&error) => Done::Failed(error),
            Err(error) => Done::NotSent(error),
        }
    }

    async fn send(
        &mut self,
        setup: &SessionSetup,
        parts: Vec<PromptPart>,
        options: &PromptOptions,
    ) -> anyhow::Result<()> {
        let (taken, unlogged) = (self.overrides.options(), self.unlogged.clone());
        let opened = self.link.with_client(async |client: &Client| {
            client.takes(&taken)?;
            if let Some(choices) = unlogged.clone() {
                client.configure(choices, BY).await?;
            }
            let message = UserMessage::prompt(parts.clone(), BY);
            client.send_message(setup, message, options).await
        });
        opened.await.map(drop)
    }

    /// Logs the choices.
    pub(super) async fn configure(mut self) -> Done {
        let Some(choices) = self.unlogged.take() else { return Done::Configured };
        let configured = self
            .link
            .with_client(async |client: &Client| client.configure(choices.clone(), BY).await);
        match configured.await {
            Ok(_) => Done::Configured,
            Err(error) => Done::Refused(format!("/agent: {error:#}")),
        }
    }

    pub(super) async fn command(mut self, command: SessionCommand) -> Done {
        let refused = |why: String| Done::Refused(format!("{}: {why}", command.name()));
        if self.link.client.is_none() {
            return refused(BEGUN.to_owned());
        }
        let (setup, place) = (self.setup.clone(), self.place.clone());
        let done = self.link.with_client(async |client: &Client| {
            if command == SessionCommand::Compact {
                let told = client.compact(setup.prompt_config(), BY, false).await?;
                let nothing = || "there is nothing to be summed up".to_owned();
                return Ok((told == Answered::Accepted).then_some(()).ok_or_else(nothing));
            }
            let back = match command {
                SessionCommand::Revert(seq) => Some(seq),
                SessionCommand::Undo => match prompts(&state(client, &place).await?).first() {
                    Some((prompt, _)) => Some(*prompt),
                    None => return Ok(Err("there is no prompt to go back to".to_owned())),
                },
                SessionCommand::Redo | SessionCommand::Compact => None,
            };
            client.revert(setup.prompt_config(), back, BY).await
        });
        match done.await {
            Ok(Ok(())) => Done::Accepted,
            Ok(Err(why)) => refused(why),
            Err(error) => refused(format!("{error:#}")),
        }
    }

    /// The prompts of the conversation, the last one first.
    pub(super) async fn prompts(mut self) -> Done {
        if self.link.client.is_none() {
            return Done::Prompts(Vec::new());
        }
        let place = self.place.clone();
        let state = self.link.with_client(async |client: &Client| state(client, &place).await);
        match state.await {
            Ok(state) => Done::Prompts(prompts(&state)),
            Err(error) => Done::Refused(format!("{error:#}")),
        }
    }

    /// The changes of a turn or of the session to files.
    pub(super) async fn diff(self, range: DiffRange) -> Done {
        if self.link.client.is_none() {
            return Done::Refused(BEGUN.to_owned());
        }
        let place = self.place;
        match blocking(move || SessionDiff::read(&place, range)).await {
            Ok(diff) => Done::Diff(Box::new(diff)),
            Err(error) => Done::Refused(format!("{error:#}")),
        }
    }

    /// A fork that ends before the prompt at this seq.
    pub(super) async fn fork(self, before: Seq, draft: String) -> Done {
        let place = self.place;
        let wanted = ForkRequest { at: before.checked_sub(1), files: false };
        match blocking(move || fork::begin(&place, wanted)).await {
            Ok(place) => Done::Forked { place, draft },
            Err(error) => Done::Refused(format!("the fork: {error:#}")),
        }
    }

    /// Opens an existing session, and shows it from `from` on.
    pub(super) async fn open(mut self, from: Seq) -> anyhow::Result<Seq> {
        let head = self.link.open(Some(from)).await?;
        self.link.client()?.takes(&self.overrides.options())?;
        Ok(head)
    }
}

/// Whether the session cannot be used at all, whatever the prompt is.
fn is_fatal(error: &anyhow::Error) -> bool {
    !error.is::<leftfold_runtime::Usage>()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(anyhow::anyhow!("it was cut off: {error}")),
    }
}

/// The session's current state; if another process is the node, the state in the log.
async fn state(client: &Client, place: &SessionPlace) -> anyhow::Result<State> {
    if client.remote().is_none() {
        return Ok(*client.view().await?);
    }
    Ok(fold(&Reader::open(&place.store)?.read(client.session, 1)?))
}

/// The prompts that were not reverted, the last one first.
fn prompts(state: &State) -> Vec<(Seq, String)> {
    let prompt = |message: &Message| match message {
        Message::User(prompt) => {
            let text = prompt.parts.iter().filter(|part| part.kind == PromptKind::Text);
            let text: Vec<&str> = text.map(|part| part.text.as_str()).collect();
            Some((prompt.seq, text.join("\n")))
        }
        Message::Assistant(_) | Message::Summary { .. } | Message::Note { .. } => None,
    };
    state.messages.iter().rev().filter_map(prompt).collect()
}

/// A place for the text of an editor, which only this user can read.
pub(super) fn draft_file(text: &str) -> std::io::Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("leftfold-draft").tempdir()?;
    let file = folder.path().join("prompt.md");
    std::fs::write(&file, text)?;
    Ok((folder, file))
}
