//! `leftfold` without a subcommand: a conversation on a terminal.

mod calls;
mod choosing;
#[allow(dead_code, reason = "the conversation is moved to it piece by piece")]
mod completion;
mod conversation;
#[allow(dead_code, reason = "the conversation is moved to it piece by piece")]
mod file_search;
#[allow(dead_code, reason = "the conversation is moved to it piece by piece")]
mod fuzzy;
mod inline;
mod input;
mod input_events;
mod keys;
mod markdown;
#[allow(dead_code, reason = "the conversation is moved to it piece by piece")]
mod picker;
mod question;
mod question_prompt;
#[allow(dead_code, unused_imports, reason = "the conversation is moved to it piece by piece")]
mod render;
mod renderer;
mod screen;
mod session_commands;
mod status;
mod style;
#[cfg(test)]
mod tests;
#[allow(dead_code, reason = "the conversation is moved to it piece by piece")]
mod theme;
pub mod trust;
mod typing;
mod wrap;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use leftfold_actors::NodeMessage;
use leftfold_events::event::{Event, PromptPart, Turn};
use leftfold_events::{Envelope, Seq};
use leftfold_store::Reader;

use self::conversation::{Conversation, ExitReason};
use self::input::Input;
use self::input_events::InputEvents;
use self::renderer::Renderer;
use self::screen::Screen;
pub use self::screen::columns;
use self::style::{Face, Look};
use leftfold_runtime::Usage;
use leftfold_runtime::client;
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::session_paths;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::socket::{SessionRegistry, Sockets};
use leftfold_runtime::turn_config::Overrides;

/// The `by` of prompts and answers from here.
const BY: &str = "terminal";

/// The start of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The session to continue: an id, a unique prefix of one, `last`, or a folder.
    pub session: Option<String>,
    pub overrides: Overrides,
    /// Sent at once. In a session that is continued it is a draft.
    pub prompt: Option<String>,
    /// Sent with the first prompt.
    pub files: Vec<PromptPart>,
}

/// Holds a conversation on this terminal until the user leaves it.
pub fn run_conversation(start: Start) -> anyhow::Result<ExitCode> {
    if !std::io::stdin().is_terminal() {
        return Err(Usage(
            "a conversation needs a terminal, but standard input is not one: \
             to run one prompt from a pipe, use `leftfold run -`"
                .into(),
        )
        .into());
    }
    let directory = std::env::current_dir()?;
    let worktree = leftfold_config::worktree_of(&directory);
    let found = start.session.as_deref();
    let found = found.map(|session| session_paths::find(session, &worktree)).transpose()?;
    let project = match &found {
        Some(place) => Project::of(place)?,
        None => Project::new(directory, worktree),
    };
    let history = match &found {
        Some(place) => Reader::open(&place.store)?.read(place.session, 1)?,
        None => Vec::new(),
    };
    let typed = trust::ask(&project.directory)?;
    let place = found.map_or_else(|| session_paths::new_place(project::new_id()), Ok)?;
    let project = Arc::new(project);
    leftfold_runtime::run_async(async {
        let setup = SessionSetup::new(place, &project, &start.overrides, false)?;
        converse(setup, &project, start, &history, typed).await
    })?
}

async fn converse(
    setup: SessionSetup,
    project: &Arc<Project>,
    start: Start,
    history: &[Envelope],
    typed_before: String,
) -> anyhow::Result<ExitCode> {
    let Start { overrides, mut prompt, files, .. } = start;
    let look = Look { style: screen::style(), columns: screen::columns() };
    let (typed, lines) = tokio::sync::mpsc::unbounded_channel();
    let home = session_paths::data_dir()?;
    std::fs::create_dir_all(&home)?;
    let input = Input::start(home.join("history"), look.style, typed)?;
    let mut screen = Screen::new();
    screen.print(&greeting(&setup, look))?;
    let head = history.last().map_or(0, |event| event.seq);
    let renderer = Renderer::new(look, setup.place.session, head);
    let (node, input_events) = (client::node().await?, InputEvents::new(lines).await?);
    let sessions = SessionRegistry::new(node.clone(), None);
    sessions.learn(setup.place.clone(), Arc::clone(project), overrides.clone());
    node.cast(NodeMessage::Keep(Arc::new(Sockets(sessions.clone()))))?;
    let mut conversation = Conversation::new(
        setup,
        (project.as_ref().clone(), overrides),
        sessions,
        input_events,
        input,
        renderer,
        screen,
    );
    conversation.gate.keep(typed_before);
    conversation.files = files;
    if let Some(from) = last_turn(history) {
        if let Some(draft) = prompt.take() {
            conversation.gate.keep(draft);
        }
        conversation.continue_session(from).await?;
    }
    let left = conversation.run(prompt).await;
    conversation.leave(left).await
}

fn greeting(setup: &SessionSetup, look: Look) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (model, directory) =
        (setup.turn_settings.model.name(), setup.turn_settings.directory.display());
    let line = format!("leftfold {version} · {model} · {directory} · /help");
    let line = leftfold_view::clean::clip(
        &leftfold_view::clean::clean_line(&line),
        look.columns.saturating_sub(1),
    );
    format!("{}\n", look.style.paint(Face::DIM, &line))
}

/// The seq at which the last turn begins.
fn last_turn(history: &[Envelope]) -> Option<Seq> {
    let mut begins = None;
    let mut over = true;
    for event in history {
        if matches!(event.event, Event::Turn(Turn::Prompted { .. })) && over {
            (begins, over) = (Some(event.seq), false);
        }
        over |= matches!(event.event, Event::Turn(Turn::Ended(_)));
    }
    begins
}

impl Conversation {
    /// Restores the terminal, ends servers and processes, and says how to continue the session.
    async fn leave(mut self, left: anyhow::Result<ExitReason>) -> anyhow::Result<ExitCode> {
        self.release_terminal();
        if let Some(client) = &self.client {
            // In the node of another process the turn continues.
            let cut = self.renderer.turn().is_some() || self.unfinished;
            let cut = cut && client.remote().is_none();
            // An interrupted call must not report an outcome: the node stops first, then its
            // processes.
            client.stop().await;
            leftfold_runtime::close_programs().await;
            tokio::task::spawn_blocking(leftfold_process::end_descendants).await?;
            leftfold_process::settled().await;
            let line = farewell(&client.session.to_string(), cut);
            let line = self.renderer.look.style.paint(Face::DIM, &line);
            // If the terminal is gone, the message is dropped.
            let _ = self.screen.print(&format!("{line}\n"));
        }
        Ok(ExitCode::from(match left? {
            ExitReason::Done => 0,
            ExitReason::Signal("SIGINT") => 130,
            ExitReason::Signal("SIGTERM") => 143,
            ExitReason::Signal(_) | ExitReason::Gone => 129,
        }))
    }
}

fn farewell(session: &str, cut: bool) -> String {
    let state = if cut { "the turn is interrupted; " } else { "" };
    format!("{state}`leftfold --session {session}` goes on")
}
