//! Leftfold in a program of your own: open a project, prompt, watch, attach an observer actor. Settings,
//! providers, MCP servers, plugins and remembered approvals are those of the command line.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use leftfold_runtime::Leftfold;
//!
//! let leftfold = Leftfold::open(".").await?;
//! let mut session = leftfold.new_session().await?;
//! let ended = session.prompt("Which files are here?").await?;
//! println!("{}", ended.text);
//! leftfold.close().await
//! # }
//! ```
//!
//! It needs a tokio runtime with more than one thread, the default of `#[tokio::main]`.
//!
//! The sandbox of commands starts this program again. Call [`become_helper`](crate::become_helper) first in `main` and
//! exit with its code if there is one. Without that call commands run without a sandbox, and a warning says so.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use leftfold_actors::{Answered, NodeMessage, Observation, QuestionReply, WatchScope};
use leftfold_events::event::{Ended, Event, PromptPart, Turn};
use leftfold_events::rules::Rule;
use leftfold_events::{Seq, SessionId};
use leftfold_view::QuestionId;
use ractor::ActorRef;

use crate::client::{self, Client};
use crate::project::{Project, new_id};
use crate::session_paths::{self, SessionPlace};
use crate::session_setup::SessionSetup;
use crate::slash::{OptionsFor, Prepared};
use crate::subscription::Subscription;
use crate::turn_config::{Overrides, PromptOptions};
use crate::user_message::UserMessage;

/// The prompt's author, as the log names this client.
const BY: &str = "program";

/// A project, and the node that runs this program's sessions of it.
#[derive(Debug)]
pub struct Leftfold {
    directory: PathBuf,
    node: ActorRef<NodeMessage>,
}

impl Leftfold {
    /// Opens the project that `directory` is in. Nothing is written before the first prompt.
    ///
    /// # Errors
    /// There is no such directory.
    pub async fn open(directory: impl AsRef<Path>) -> anyhow::Result<Self> {
        let directory = directory.as_ref();
        let directory = directory
            .canonicalize()
            .with_context(|| format!("{} cannot be opened", directory.display()))?;
        Ok(Self { directory, node: client::node().await? })
    }

    /// Begins a session. Nobody answers permission questions, so calls that need one are denied.
    ///
    /// # Errors
    /// The settings are wrong, or name no usable model.
    pub async fn new_session(&self) -> anyhow::Result<Session> {
        self.new_session_with(Overrides::default()).await
    }

    /// Begins a session with another agent, model or limits than settings say, or with
    /// [`Overrides::interactive`] for a program that answers permission questions itself.
    ///
    /// # Errors
    /// The settings are wrong, or there is no such agent, model or variant.
    pub async fn new_session_with(&self, overrides: Overrides) -> anyhow::Result<Session> {
        let worktree = leftfold_config::worktree_of(&self.directory);
        let project = Project::new(self.directory.clone(), worktree);
        Session::open(self.node.clone(), session_paths::new_place(new_id())?, project, overrides)
            .await
    }

    /// Opens an existing session: an id, a unique prefix of one, `last`, or a session's folder. If
    /// another process runs it, this one becomes its client through the node's socket.
    ///
    /// # Errors
    /// There is no such session, or its settings are wrong.
    pub async fn session(&self, name: &str) -> anyhow::Result<Session> {
        let place = session_paths::find(name, &leftfold_config::worktree_of(&self.directory))?;
        let project = Project::for_session(&place)?;
        Session::open(self.node.clone(), place, project, Overrides::default()).await
    }

    /// Ends the sessions of this program, and every server, plugin and process that they started. A turn
    /// that is under way stays interrupted in its log, and can be resumed.
    ///
    /// # Errors
    /// Processes cannot be ended.
    pub async fn close(self) -> anyhow::Result<()> {
        client::stop_node(&self.node).await;
        end_all(true).await
    }
}

/// Ends the servers and plugins of this process, and waits until their processes are gone. With
/// `interrupted`, also ends the processes of calls that may still be running.
///
/// # Errors
/// The thread that ends processes died.
pub async fn end_all(interrupted: bool) -> anyhow::Result<()> {
    crate::close_programs().await;
    if interrupted {
        tokio::task::spawn_blocking(leftfold_process::end_descendants).await?;
    }
    leftfold_process::settled().await;
    Ok(())
}

/// A session, in this program's node or in the one of another process.
#[derive(Debug)]
pub struct Session {
    place: SessionPlace,
    project: Project,
    overrides: Overrides,
    client: Client,
    /// The seq of the last event at the opening, or of the last one that a prompt has waited for.
    head: Seq,
}

impl Session {
    async fn open(
        node: ActorRef<NodeMessage>,
        place: SessionPlace,
        project: Project,
        overrides: Overrides,
    ) -> anyhow::Result<Self> {
        let setup = setup(place.clone(), project.clone(), overrides.clone()).await?;
        let (client, opened) = Client::open(node, &setup).await?;
        Ok(Self { place, project, overrides, client, head: opened.head })
    }

    pub fn id(&self) -> SessionId {
        self.client.session
    }

    /// Prompts, and waits for the end of the turn. `/NAME ARGUMENTS` runs a command of the project.
    /// An interrupted turn is closed first; a running turn is joined.
    ///
    /// # Errors
    /// The prompt is refused, or the session is closed before the turn ends.
    pub async fn prompt(&mut self, text: &str) -> anyhow::Result<Ended> {
        self.prompt_with(text, &PromptOptions::default()).await
    }

    /// Prompts as [`Session::prompt`] does, with another agent, model, system text, tools or limits for this prompt.
    /// If the log has a prompt with the options' `message_id`, the answer is the end of that prompt's turn.
    ///
    /// # Errors
    /// The prompt or its options are refused, or the session is closed before the turn ends.
    pub async fn prompt_with(
        &mut self,
        text: &str,
        options: &PromptOptions,
    ) -> anyhow::Result<Ended> {
        let mut events = self.watch(self.head + 1).await?;
        let answered = self.send(text, options, false).await?;
        let (by, mut prompted) = (self.client.name(BY), false);
        if let Answered::Repeated { seq } = answered {
            (events, prompted) = (self.watch(seq).await?, true);
        }
        while let Some(Observation { events, done }) = events.next().await {
            for event in events.iter().filter(|event| event.session == self.client.session) {
                self.head = self.head.max(event.seq);
                if let Event::Turn(Turn::Prompted { by: whose, .. }) = &event.event {
                    prompted |= *whose == by;
                } else if let Event::Turn(Turn::Ended(ended)) = &event.event
                    && prompted
                {
                    return Ok(Ended::clone(ended));
                }
            }
            // The node may have ended meanwhile.
            let _ = done.send(());
        }
        bail!("session {0} is closed: continue it with `leftfold resume {0}`", self.client.session)
    }

    /// Adds a message for the model that starts no turn. The next prompt's request has it.
    ///
    /// # Errors
    /// The message is refused, or the session is closed.
    pub async fn note(&mut self, text: &str) -> anyhow::Result<()> {
        self.send(text, &PromptOptions::default(), true).await.map(|_| ())
    }

    async fn send(
        &self,
        text: &str,
        options: &PromptOptions,
        quiet: bool,
    ) -> anyhow::Result<Answered> {
        let (project, store) = (self.project.clone(), self.place.store.clone());
        let (overrides, prompt) = (options.over(&self.overrides), text.to_owned());
        let prepared = tokio::task::spawn_blocking(move || {
            Prepared::new((&project, &store), &overrides, &prompt, OptionsFor::ForPrompt)
        });
        let prepared = prepared.await??;
        let place = self.place.clone();
        let (setup, prepared) =
            tokio::task::spawn_blocking(move || (prepared.setup(place), prepared)).await?;
        let setup = setup?;
        let mut parts = vec![PromptPart::text(text)];
        if !quiet {
            parts = prepared.parts(&setup, parts).await?;
        }
        let message = UserMessage { quiet, ..UserMessage::prompt(parts, BY) };
        self.client.send_message(&setup, message, options).await
    }

    /// Subscribes to the events from seq `from` on, including those of subagents: first the events
    /// in the log, then new ones as they become durable, each exactly once.
    ///
    /// # Errors
    /// The node has ended.
    pub async fn watch(&self, from: Seq) -> anyhow::Result<Subscription> {
        Subscription::open_as(&self.client, from, WatchScope::Live).await
    }

    /// Sends the events to an actor of your own, as [`Session::watch`] does. The actor receives the
    /// next ones once it has answered `done`, so a slow actor misses none.
    ///
    /// # Errors
    /// The node has ended.
    pub async fn observe(&self, from: Seq, actor: ActorRef<Observation>) -> anyhow::Result<()> {
        self.client.watch(from, actor, WatchScope::Live).await
    }

    /// Answers a permission question. Returns whether this was the first answer to it.
    ///
    /// # Errors
    /// The session is closed, or the patterns of an "always" are refused.
    pub async fn answer(&self, question: QuestionId, reply: QuestionReply) -> anyhow::Result<bool> {
        let answered = self.client.answer(question, reply).await?;
        if let Answered::Refused { why } = answered {
            anyhow::bail!(why);
        }
        Ok(answered == Answered::Accepted)
    }

    /// Replaces the session's own permission rules: a list in which the last match wins. They only make the
    /// verdicts of settings and agent stricter, at once and also for the subagents that start from then on.
    /// Returns whether anything has changed.
    ///
    /// # Errors
    /// The session is closed.
    pub async fn set_rules(&self, rules: Vec<Rule>) -> anyhow::Result<bool> {
        self.client.set_rules(rules, BY).await
    }

    /// Interrupts the running turn.
    ///
    /// # Errors
    /// The node has ended.
    pub async fn interrupt(&self) -> anyhow::Result<()> {
        self.client.interrupt(BY).await
    }
}

/// Reads settings and waits for plugins, off the threads of the runtime.
async fn setup(
    place: SessionPlace,
    project: Project,
    overrides: Overrides,
) -> anyhow::Result<SessionSetup> {
    let setup = move || SessionSetup::new(place, &project, &overrides, false);
    tokio::task::spawn_blocking(setup).await?
}
