//! Work that may take a while: prompts, commands and shell lines. One job runs at a time, beside the keys and the
//! events, and tells the conversation what became of it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use leftfold_actors::Answered;
use leftfold_events::event::{PromptKind, PromptPart, SessionChoices, as_typed};
use leftfold_events::state::{Message, NoRevert, ReplyPart};
use leftfold_events::{Seq, State, Time, fold};
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::fork::{self, ForkRequest};
use leftfold_runtime::local_servers;
use leftfold_runtime::project::Project;
use leftfold_runtime::remote::Remote;
use leftfold_runtime::session_diff::{DiffRange, SessionDiff};
use leftfold_runtime::session_list;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::turn_config::{Overrides, PromptOptions};
use leftfold_runtime::user_message::UserMessage;
use leftfold_runtime::{approvals, why};
use leftfold_store::Reader;
use leftfold_view::words::thousands;
use leftfold_view::{ContextUse, Transcript};

use super::BY;
use super::attachments;
use super::choices::{self, EarlierPrompt, Pick, PromptsFor};
use super::link::Link;
use super::picker::Picker;

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

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum Done {
    /// It is in the log; its effects are shown when they are observed.
    Prompted,
    /// The choices were logged.
    Configured,
    /// A turn has begun, or the session is open.
    Accepted,
    Prompts(Vec<EarlierPrompt>, PromptsFor),
    /// A list to choose from.
    Pick(Box<Picker<Pick>>),
    /// Text to show as it is.
    Said(String),
    Context(Box<ContextUse>),
    /// Text for the clipboard.
    Copy(String),
    /// And the options with which `leftfold diff` shows all of it.
    Diff(Box<SessionDiff>, &'static str),
    /// The image of the clipboard.
    Attached(Box<PromptPart>),
    NotAttached(String),
    Forked {
        place: SessionPlace,
        draft: String,
    },
    /// This session is to be continued.
    Switched(SessionPlace),
    /// A new session is to begin.
    Left,
    /// This prompt was taken back, with everything after it.
    TakenBack(String),
    /// This prompt was brought back.
    BroughtBack(String),
    /// The command was refused, for this reason.
    Refused(String),
    /// The prompt was not sent.
    NotSent(anyhow::Error),
    /// The session cannot be opened at all.
    Failed(anyhow::Error),
}

/// A step back or forward through the prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// The last prompt.
    Undo,
    /// The first prompt that was taken back is brought back.
    Redo,
    /// Everything from the prompt at this seq on.
    Revert(Seq),
}

impl Back {
    fn name(self) -> &'static str {
        match self {
            Self::Undo => "/undo",
            Self::Redo => "/redo",
            Self::Revert(_) => "/revert",
        }
    }
}

/// A list that is read for a picker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Agents,
    Models,
    Variants,
    Sessions,
    Permissions,
    Logins,
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

/// How often to look whether files are restored; together half a minute.
const RESTORING: usize = 600;

const BEGUN: &str = "the session has only begun";

impl Job {
    /// Sends a prompt, with files that go with it.
    pub(super) async fn prompt(mut self, text: String, files: Vec<PromptPart>) -> Done {
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
            parts.extend(files);
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
            ready(client, setup).await;
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
            Err(error) => Done::Refused(format!("the choice is not logged: {error:#}")),
        }
    }

    pub(super) async fn compact(mut self, instructions: String) -> Done {
        let refused = |why: String| Done::Refused(format!("/compact: {why}"));
        if self.link.client.is_none() {
            return refused(BEGUN.to_owned());
        }
        let setup = self.setup.clone();
        let compacted = self.link.with_client(async |client: &Client| {
            ready(client, &setup).await;
            client.compact(setup.prompt_config(), BY, Some(&instructions), false).await
        });
        match compacted.await {
            Ok(Answered::Accepted) => Done::Accepted,
            Ok(_) => refused("there is nothing to be summed up".to_owned()),
            Err(error) => refused(format!("{error:#}")),
        }
    }

    /// Takes prompts back, or brings one back.
    pub(super) async fn back(mut self, back: Back) -> Done {
        let refused = |why: String| Done::Refused(format!("{}: {why}", back.name()));
        if self.link.client.is_none() {
            return refused(BEGUN.to_owned());
        }
        let (setup, place) = (self.setup.clone(), self.place.clone());
        let done = self.link.with_client(async |client: &Client| {
            let state = rested(client, &place).await?;
            let (to, text) = match back {
                Back::Redo => {
                    let hidden = hidden_prompts(&place, state.seq).await?;
                    let text = hidden.first().map(|(_, text)| text.clone());
                    (hidden.get(1).map(|(seq, _)| *seq), text.unwrap_or_default())
                }
                Back::Undo => match prompts(&state).first() {
                    Some((seq, text)) => (Some(*seq), text.clone()),
                    None => return Ok(Err("there is no prompt to go back to".to_owned())),
                },
                Back::Revert(wanted) => {
                    let text = prompts(&state).into_iter().find(|(seq, _)| *seq == wanted);
                    (Some(wanted), text.map(|(_, text)| text).unwrap_or_default())
                }
            };
            ready(client, &setup).await;
            Ok(client.revert(setup.prompt_config(), to, BY).await?.map(|()| text))
        });
        match done.await {
            Ok(Ok(text)) if back == Back::Redo => Done::BroughtBack(text),
            Ok(Ok(text)) => Done::TakenBack(text),
            Ok(Err(why)) => refused(why),
            Err(error) => refused(format!("{error:#}")),
        }
    }

    /// The session's state.
    async fn state(&mut self) -> anyhow::Result<State> {
        anyhow::ensure!(self.link.client.is_some(), BEGUN);
        let place = self.place.clone();
        self.link.with_client(async |client: &Client| state(client, &place).await).await
    }

    /// The prompts of the conversation, the last one first.
    pub(super) async fn prompts(mut self, wanted: PromptsFor) -> Done {
        if self.link.client.is_none() {
            return Done::Prompts(Vec::new(), wanted);
        }
        match self.state().await {
            Ok(state) => Done::Prompts(earlier(&state), wanted),
            Err(error) => Done::Refused(format!("{error:#}")),
        }
    }

    /// Reads a list to choose from.
    pub(super) async fn list(self, list: List) -> Done {
        let Self { setup, overrides, place, .. } = self;
        let served = match list {
            List::Logins => local_servers::models().await,
            _ => Vec::new(),
        };
        let read = blocking(move || match list {
            List::Agents => choices::agents(&setup),
            List::Models => choices::models(&setup),
            List::Logins => choices::logins(&setup, &served),
            List::Variants => choices::variants(&setup),
            List::Permissions => choices::permissions(&setup, &overrides),
            List::Sessions => {
                let worktree = &setup.turn_settings.worktree;
                choices::sessions(worktree, place.session, Time::from(SystemTime::now()))
            }
        });
        match read.await {
            Ok(picker) => Done::Pick(Box::new(picker)),
            Err(error) => Done::Refused(format!("{error:#}")),
        }
    }

    /// The session of this id, or of a prefix of one.
    pub(super) async fn find(self, session: String) -> Done {
        let (worktree, current) = (self.project.worktree, self.place.session);
        match blocking(move || session_paths::find(&session, &worktree)).await {
            Ok(place) if place.session == current => {
                Done::Refused("/sessions: this is the session".to_owned())
            }
            Ok(place) => Done::Switched(place),
            Err(error) => Done::Refused(format!("/sessions: {error:#}")),
        }
    }

    /// Takes a remembered approval back, and lists the others.
    pub(super) async fn forget(self, id: String) -> Done {
        let worktree = leftfold_config::worktree_of(&self.setup.turn_settings.directory);
        let forget = move || approvals::forget(&worktree, |rule| approvals::id(rule) == id);
        match blocking(forget).await {
            Ok(_) => self.list(List::Permissions).await,
            Err(error) => Done::Refused(format!("/permissions: {error:#}")),
        }
    }

    pub(super) async fn rename(mut self, title: String) -> Done {
        if self.link.client.is_none() {
            return Done::Refused(format!("/rename: {BEGUN}"));
        }
        let renamed = self.link.with_client(async |client: &Client| client.rename(&title).await);
        match renamed.await {
            Ok(()) => Done::Said(format!("  title: {title}")),
            Err(error) => Done::Refused(format!("/rename: {error:#}")),
        }
    }

    /// Reads the use of the model's context.
    pub(super) async fn context(mut self) -> Done {
        match self.state().await {
            Ok(state) => Done::Context(Box::new(ContextUse::from_state(&state))),
            Err(error) => Done::Refused(format!("/context: {error:#}")),
        }
    }

    /// Adds up the cost of the session and its subagents.
    pub(super) async fn cost(mut self) -> Done {
        let state = match self.state().await {
            Ok(state) => state,
            Err(error) => return Done::Refused(format!("/cost: {error:#}")),
        };
        let place = self.place;
        let all = blocking(move || {
            let heads = leftfold_store::heads(&place.store)?;
            let own = heads.iter().find(|head| head.session == place.session);
            Ok(own.map_or(0.0, |head| session_list::cost(&heads, head)))
        });
        let usage = &state.usage;
        let cached = usage.cache_read;
        let sent = usage.input.saturating_add(cached).saturating_add(usage.cache_write);
        let received = usage.output.saturating_add(usage.reasoning);
        let mut text = format!(
            "  tokens       {} in ({} cached), {} out\n",
            thousands(sent),
            thousands(cached),
            thousands(received)
        );
        let all = all.await.unwrap_or_default().max(state.cost);
        if all > 0.0 {
            text += &format!("  cost         ${all:.4}");
            // in amounts below this, both look the same
            if all - state.cost >= 0.00005 {
                text += &format!(", of it ${:.4} for subagents", all - state.cost);
            }
        } else {
            text += "  cost         unknown: the model has no price";
        }
        Done::Said(text)
    }

    /// The text of the last answer.
    pub(super) async fn last_answer(mut self) -> Done {
        let state = match self.state().await {
            Ok(state) => state,
            Err(error) => return Done::Refused(format!("/copy: {error:#}")),
        };
        let text = |message: &Message| {
            let parts = message.reply()?.parts.iter().filter_map(|part| match part {
                ReplyPart::Text { text, .. } => Some(text.trim()),
                ReplyPart::Reasoning { .. } | ReplyPart::Call(_) => None,
            });
            let text: Vec<&str> = parts.filter(|text| !text.is_empty()).collect();
            (!text.is_empty()).then(|| text.join("\n\n"))
        };
        match state.messages.iter().rev().find_map(text) {
            Some(text) => Done::Copy(text),
            None => Done::Refused("/copy: there is no answer yet".to_owned()),
        }
    }

    /// Reads what the session waits for.
    pub(super) async fn why(self) -> Done {
        let Some(client) = self.link.client.clone() else {
            return Done::Refused(format!("/why: {BEGUN}"));
        };
        let holder = match client.remote() {
            Some(remote) => Remote::pid(remote),
            None => i32::try_from(std::process::id()).ok(),
        };
        let place = self.place;
        match blocking(move || why::text(&place, || holder)).await {
            Ok(text) => Done::Said(text),
            Err(error) => Done::Refused(format!("/why: {error:#}")),
        }
    }

    /// Runs a command of this program about the session, and shows its output or else `done`.
    pub(super) async fn program_about(self, arguments: Vec<String>, done: String) -> Done {
        match (&self.link.client, arguments.first()) {
            (None, Some(name)) => Done::Refused(format!("/{name}: {BEGUN}")),
            _ => self.program(arguments, done).await,
        }
    }

    /// Runs a command of this program, and shows its output or else `done`.
    pub(super) async fn program(self, arguments: Vec<String>, done: String) -> Done {
        let name = format!("/{}", arguments.first().map(String::as_str).unwrap_or_default());
        let directory = self.setup.turn_settings.directory.clone();
        let run = move || Ok(own_program(&arguments, &directory)?.stdin(Stdio::null()).output()?);
        match blocking(run).await {
            Ok(ran) if ran.status.success() => {
                let text = String::from_utf8_lossy(&ran.stdout).trim_end().to_owned();
                Done::Said(if text.is_empty() { done } else { text })
            }
            Ok(ran) => {
                let text = String::from_utf8_lossy(&ran.stderr);
                let text = text.trim().trim_start_matches("leftfold: ");
                Done::Refused(format!("{name}: {text}"))
            }
            Err(error) => Done::Refused(format!("{name}: {error:#}")),
        }
    }

    /// The changes of a turn or of the session to files.
    pub(super) async fn diff(self, range: DiffRange) -> Done {
        if self.link.client.is_none() {
            return Done::Refused(BEGUN.to_owned());
        }
        let place = self.place;
        let read = move || {
            let mut diff = SessionDiff::read(&place, range)?;
            if range == DiffRange::LastTurn && diff.files.is_empty() {
                let of_session = SessionDiff::read(&place, DiffRange::Session)?;
                if !of_session.files.is_empty() {
                    diff = of_session;
                    let said =
                        "the last turn has changed no file: these are the changes of the session";
                    diff.notes.insert(0, said.to_owned());
                }
            }
            Ok(diff)
        };
        match blocking(read).await {
            Ok(diff) => Done::Diff(Box::new(diff), ""),
            Err(error) => Done::Refused(format!("{error:#}")),
        }
    }

    /// The changes of the project's files, whoever made them.
    pub(super) async fn tree_diff(self) -> Done {
        let directory = &self.setup.turn_settings.directory;
        match SessionDiff::of_tree(&self.place, directory).await {
            Ok(diff) => Done::Diff(Box::new(diff), " --tree"),
            Err(error) => Done::Refused(format!("/diff: {error:#}")),
        }
    }

    /// A fork that ends before the prompt at this seq, which is the draft there; without one, of everything.
    pub(super) async fn fork(mut self, before: Option<Seq>, files: bool) -> Done {
        let refused = |error: anyhow::Error| Done::Refused(format!("/fork: {error:#}"));
        let known = match self.state().await {
            Ok(state) => prompts(&state),
            Err(error) => return refused(error),
        };
        let prompt = before.and_then(|before| known.into_iter().find(|(seq, _)| *seq == before));
        let draft = prompt.map(|(_, text)| text).unwrap_or_default();
        let wanted = ForkRequest {
            at: before.map(|before| before.saturating_sub(1)),
            files,
            ..ForkRequest::default()
        };
        let place = self.place;
        match blocking(move || fork::begin(&place, wanted)).await {
            Ok(place) => Done::Forked { place, draft },
            Err(error) => refused(error),
        }
    }

    /// Opens an existing session, and shows it from `from` on.
    pub(super) async fn open(mut self, from: Seq) -> anyhow::Result<Seq> {
        let head = self.link.open(Some(from)).await?;
        self.link.client()?.takes(&self.overrides.options())?;
        Ok(head)
    }
}

/// A call of this program itself.
pub(super) fn own_program<S: AsRef<OsStr>>(
    arguments: &[S],
    directory: &Path,
) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).current_dir(directory);
    Ok(command)
}

/// The image of the clipboard.
pub(super) async fn clipboard() -> Done {
    match attachments::of_clipboard().await {
        Ok(part) => Done::Attached(Box::new(part)),
        Err(error) => Done::NotAttached(format!("{error:#}")),
    }
}

/// Whether the session cannot be used at all, whatever the prompt is.
fn is_fatal(error: &anyhow::Error) -> bool {
    !error.is::<leftfold_runtime::Usage>()
}

/// Waits for servers and plugins. The configuration of a turn would wait for them too, but without letting the screen
/// be drawn meanwhile.
async fn ready(client: &Client, setup: &SessionSetup) {
    if client.remote().is_none() {
        setup.extensions.ready().await;
    }
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

/// The session's state once files are restored, so that one command can follow another.
async fn rested(client: &Client, place: &SessionPlace) -> anyhow::Result<State> {
    for _ in 0..RESTORING {
        let state = state(client, place).await?;
        if state.may_unrevert() != Err(NoRevert::Restoring) {
            return Ok(state);
        }
        tokio::time::sleep(client::RETRY_DELAY).await;
    }
    state(client, place).await
}

/// The prompts that were not reverted, the last one first.
fn prompts(state: &State) -> Vec<(Seq, String)> {
    let prompt = |message: &Message| match message {
        Message::User(prompt) => Some((prompt.seq, typed_text(&prompt.parts))),
        Message::Assistant(_) | Message::Summary { .. } | Message::Note { .. } => None,
    };
    state.messages.iter().rev().filter_map(prompt).collect()
}

/// These prompts with the files that were changed after each and before the next one.
fn earlier(state: &State) -> Vec<EarlierPrompt> {
    let mut end = Seq::MAX;
    let mut changed = |seq: Seq| {
        let steps = state.files.changes.iter().filter(|it| (seq..end).contains(&it.step));
        let files: BTreeSet<&String> =
            steps.flat_map(|step| &step.files).map(|file| &file.path).collect();
        end = seq;
        files.into_iter().cloned().collect()
    };
    let prompts = prompts(state).into_iter();
    prompts.map(|(seq, text)| EarlierPrompt { seq, text, files: changed(seq) }).collect()
}

/// The prompts that a revert hides, the first one first, once the event `end` is in the log: the state may be ahead of
/// the disk.
async fn hidden_prompts(place: &SessionPlace, end: Seq) -> anyhow::Result<Vec<(Seq, String)>> {
    let mut events = Vec::new();
    for _ in 0..RESTORING {
        let place = place.clone();
        events = blocking(move || Ok(Reader::open(&place.store)?.read(place.session, 1)?)).await?;
        if events.last().is_some_and(|last| last.seq >= end) {
            break;
        }
        tokio::time::sleep(client::RETRY_DELAY).await;
    }
    let mut transcript = Transcript::full(place.session).from_start();
    events.iter().for_each(|event| drop(transcript.apply(event)));
    let Some((root, first)) = transcript.root().and_then(|root| Some((root, root.reverted()?)))
    else {
        return Ok(Vec::new());
    };
    let prompt = |message: &leftfold_view::Message| match message {
        leftfold_view::Message::User(prompt) => Some((prompt.seq, typed_text(&prompt.parts))),
        leftfold_view::Message::Assistant(_) | leftfold_view::Message::Summary { .. } => None,
    };
    let prompts = root.all_messages().filter_map(prompt);
    Ok(prompts.filter(|(seq, _)| *seq >= first).collect())
}

/// The text that the user has typed, without what goes with it.
fn typed_text(parts: &[PromptPart]) -> String {
    let typed = as_typed(parts);
    let own = typed.iter().filter(|part| part.kind == PromptKind::Text && part.name.is_none());
    own.map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// A place for the text of an editor, which only this user can read.
pub(super) fn draft_file(text: &str) -> std::io::Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("leftfold-draft").tempdir()?;
    let file = folder.path().join("prompt.md");
    std::fs::write(&file, text)?;
    Ok((folder, file))
}
