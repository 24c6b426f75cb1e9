//! `leftfold` without a subcommand: a conversation on a terminal (the TUI).
//!
//! | module | purpose |
//! |---|---|
//! | `app` | the state: a function of events and keys, without I/O or clock |
//! | `blocks`, `calls`, `folds` | what is finished, as lines that never change again; what they leave out |
//! | `live`, `status_line` | the rows below: what runs, the open question, the queue, the composer, the status |
//! | `render`, `theme`, `look` | Markdown, changes and others as lines; styles and width |
//! | `hyperlink` | addresses that a click opens |
//! | `composer`, `prompt_history`, `choosing` | what the user writes; earlier prompts; the options of a question |
//! | `completion`, `picker`, `fuzzy` | the menu that completes the text; lists to choose from; their search |
//! | `attachments` | images and PDFs that go with a prompt |
//! | `choices`, `file_search` | what there is to choose from, read beside the keys |
//! | `surface`, `plain_screen` | draws on a terminal in place, or only adds lines |
//! | `restorer` | gives the terminal back after the program was killed |
//! | `terminal_mode`, `keys`, `key_parser`, `events` | the terminal's mode, its keys, and everything else that is waited for |
//! | `conversation`, `entered`, `commands`, `jobs`, `link` | performs what the user asks for |
//! | `trust` | the question whether to trust the project's settings |

mod app;
mod attachments;
mod blocks;
mod calls;
mod choices;
mod choosing;
mod commands;
mod completion;
mod composer;
mod conversation;
mod entered;
mod events;
mod file_search;
mod folds;
mod fuzzy;
mod hyperlink;
mod jobs;
mod key_parser;
mod keys;
mod link;
mod live;
mod look;
mod picker;
mod plain_screen;
mod prompt_history;
mod render;
mod restorer;
mod status_line;
mod surface;
mod terminal_mode;
#[cfg(test)]
mod tests;
mod theme;
pub mod trust;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use leftfold_actors::NodeMessage;
use leftfold_config::KeyAction;
use leftfold_events::event::{Event, PromptPart, Turn};
use leftfold_events::{Envelope, Seq};
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::socket::{SessionRegistry, Sockets};
use leftfold_runtime::turn_config::Overrides;
use leftfold_runtime::{Usage, client, resolved_settings, session_paths};
use leftfold_store::Reader;
use leftfold_view::clean::clean_line;
use ratatui::text::Line;

use self::app::App;
use self::conversation::{Conversation, ExitReason, Screen};
use self::events::InputEvents;
use self::jobs::Job;
use self::link::Link;
use self::look::Look;
use self::plain_screen::PlainScreen;
use self::prompt_history::PromptHistory;
use self::render::wrap::{Break, Indent, wrap};
pub use self::restorer::become_restorer;
use self::surface::Surface;
use self::terminal_mode::TerminalMode;
pub use self::terminal_mode::columns;
use self::theme::{Background, ColorDepth, Theme, ThemeName};

/// The `by` of prompts and answers from here.
const BY: &str = "terminal";

/// The start of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The session to continue: an id, a unique prefix of one, `last`, or a folder.
    pub session: Option<String>,
    pub overrides: Overrides,
    /// Sent at once; in a session with an interrupted turn once the user has said whether to resume it.
    pub prompt: Option<String>,
    /// Sent with the first prompt.
    pub files: Vec<PromptPart>,
}

/// Holds a conversation on this terminal until the user leaves it.
pub fn run_conversation(start: Start) -> anyhow::Result<ExitCode> {
    if !io::stdin().is_terminal() {
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
        Some(place) => Project::for_session(place)?,
        None => Project::new(directory, worktree),
    };
    let past = match &found {
        Some(place) => Reader::open(&place.store)?.read(place.session, 1)?,
        None => Vec::new(),
    };
    // the session reports wrong settings
    let settings = resolved_settings::without_plugins(&project.directory).ok();
    let typed = match &settings {
        Some(settings) if settings.trust.is_whole() => String::new(),
        Some(_) | None => trust::ask(&project.directory)?,
    };
    if let Some(settings) = &settings {
        leftfold_runtime::sandbox::try_early(settings);
    }
    let place = found.map_or_else(|| session_paths::new_place(project::new_id()), Ok)?;
    let project = Arc::new(project);
    leftfold_runtime::run_async(async {
        let setup = SessionSetup::new(place, &project, &start.overrides, false)?;
        converse(setup, &project, start, &past, &typed).await
    })?
}

async fn converse(
    setup: SessionSetup,
    project: &Arc<Project>,
    start: Start,
    past: &[Envelope],
    typed_before: &str,
) -> anyhow::Result<ExitCode> {
    let Start { overrides, prompt, files, .. } = start;
    let home = session_paths::data_dir()?;
    std::fs::create_dir_all(&home)?;
    let settings = setup.terminal.clone();
    let is_plain = settings.plain || !terminal_mode::has_codes();
    let size = terminal_mode::size();
    let env = |name: &str| std::env::var(name).ok();
    let theme = match is_plain {
        true => Theme::new(ThemeName::Auto, ColorDepth::Plain, None),
        false => Theme::detect(settings.theme, env),
    };
    let depth = theme.depth;
    // the last column stays empty, so that no row wraps by itself
    let width = usize::from(size.width.saturating_sub(1).max(1));
    let keys = Arc::new(settings.keys.keymap()?.0);
    let unicode = terminal_mode::has_unicode();
    let look = Look { theme: Arc::new(theme), width, unicode, keys };
    let mut screen = match is_plain {
        true => Screen::Plain(PlainScreen::new(look.unicode)),
        false => Screen::Inline(Surface::new(size, terminal_mode::rewraps(), &look)),
    };
    let history = PromptHistory::open(&home.join("history"), &project.worktree);
    let session = setup.place.session;
    let mut app = App::new(look, session, history);
    if let Some(items) = settings.status {
        app.status.items = items;
    }
    app.take_setup(&setup);
    app.status.take(&setup, project.choices.variant.clone());
    let greeting = greeting(&setup, &app, past.is_empty());
    app.blocks.add(greeting);
    app.is_plain = is_plain;
    app.home = std::env::var_os("HOME").map(Into::into);
    app.keep(typed_before);
    let node = client::node().await?;
    let sessions = SessionRegistry::new(node.clone(), None);
    sessions.learn(setup.place.clone(), Arc::clone(project), overrides.clone());
    node.cast(NodeMessage::Keep(Arc::new(Sockets(sessions.clone()))))?;
    let mode = TerminalMode::set(!is_plain)?;
    // the answer comes among the keys, whenever it comes
    let asks = settings.theme == ThemeName::Auto && depth >= ColorDepth::Ansi256;
    if let Screen::Inline(surface) = &mut screen
        && asks
    {
        surface.code(Background::QUESTION)?;
    }
    let (events, sink, opened) = InputEvents::new().await?;
    let link = Link { session, sessions, client: None, sink, seen: 0, opened };
    let (place, project) = (setup.place.clone(), project.as_ref().clone());
    let waiting: Vec<String> = files.iter().filter_map(|file| file.name.clone()).collect();
    let job = Job { link, place, project, overrides, setup, unlogged: None, files };
    let mut conversation = Conversation::new(app, job, events, screen, mode, settings.notify);
    conversation.theme = settings.theme;
    conversation.continue_session(past);
    if !waiting.is_empty() && prompt.is_none() {
        conversation.app.note(&format!("  with the first prompt: {}", waiting.join(", ")));
    }
    if let Some(prompt) = prompt {
        conversation.app.remember(&prompt);
        conversation.app.queue.push_back(prompt);
    }
    let left = conversation.run().await;
    conversation.leave(left).await
}

/// One of them stands on the screen of a new session.
const TIPS: [&str; 6] = [
    "`!git status` runs a command of yours; the model reads its output",
    "/revert takes back everything from an earlier prompt on",
    "`leftfold why last` says what went wrong in a run",
    "/undo takes back the last prompt with the files that it changed",
    "/context shows what fills the model's context",
    "drop an image into the terminal to attach it",
];

/// Says which session begins; in a new one also what was read, what is asked, and how to go on.
fn greeting(setup: &SessionSetup, app: &App, is_new: bool) -> Vec<Line<'static>> {
    let look = &app.blocks.look;
    let theme = &look.theme;
    let version = env!("CARGO_PKG_VERSION");
    let settings = &setup.turn_settings;
    let folder = format!("{}/", settings.directory.display());
    let (model, directory) = (settings.model.name(), settings.directory.display());
    let about = format!(" · {}", clean_line(&format!("{model} · {directory} · /help")));
    let name = blocks::span(theme.heading, format!("leftfold {version}"));
    let first = [name, blocks::span(theme.dim, about)];
    let mut lines = wrap(&first, look.measure(), &Indent::default(), Break::Words);
    if !is_new {
        return lines;
    }
    let files = setup.instruction_files();
    let files = files.iter().map(|file| file.strip_prefix(&folder).unwrap_or(file));
    let files = files.collect::<Vec<_>>().join(", ");
    let read = match files.as_str() {
        "" => "no AGENTS.md here: /init writes one".to_owned(),
        files => format!("instructions: {files}"),
    };
    let mode = format!("{} {}", settings.agent.name, app.status.permissions);
    let mode = match look.key(KeyAction::NextMode) {
        Some(key) => format!("{mode}; {key} changes that"),
        None => mode,
    };
    let send = look.key(KeyAction::Send).map(|key| format!("{key} sends · ")).unwrap_or_default();
    let tip = usize::try_from(setup.place.session.created().millis()).unwrap_or(0) % TIPS.len();
    for (style, line) in [
        (theme.dim, clean_line(&read)),
        (theme.text, clean_line(&mode)),
        (theme.text, format!("{send}/ lists commands · ? lists keys")),
        (theme.dim, format!("tip: {}", TIPS[tip])),
    ] {
        lines.extend(look.note(style, &format!("  {line}")));
    }
    lines
}

/// The seq at which the last turn begins.
fn last_turn(past: &[Envelope]) -> Option<Seq> {
    let mut begins = None;
    let mut over = true;
    for event in past {
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
        for text in self.app.unsent() {
            self.app.remember_unsent(&text);
        }
        self.release_terminal();
        let dim = self.app.blocks.look.theme.dim;
        for note in self.events.take_notes() {
            // If the terminal is gone, the message is dropped.
            let _ = self.screen.say(Line::from(blocks::span(dim, note)));
        }
        if let Some(client) = &self.job.link.client {
            // In the node of another process the turn continues.
            let cut = self.app.blocks.turn().is_some() || self.app.unfinished;
            let cut = cut && client.remote().is_none();
            // An interrupted call must not report an outcome: the node stops first, then its
            // processes.
            client.stop().await;
            leftfold_runtime::close_programs().await;
            tokio::task::spawn_blocking(leftfold_process::end_descendants).await?;
            leftfold_process::settled().await;
            let line = farewell(&client.session.to_string(), cut);
            let _ = self.screen.say(Line::from(blocks::span(dim, line)));
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
