//! Runs one turn of one session: prompts or resumes, prints events, handles signals, and turns the
//! turn's end into an exit code.

use std::time::Duration;

use anyhow::{anyhow, bail};
use leftfold_actors::{Answered, NodeMessage, Observation, Opened, QuestionReply, WatchScope};
use leftfold_events::event::{EndReason, Ended, PromptPart};
use leftfold_events::{Seq, SessionId, fold};
use leftfold_store::Reader;
use ractor::{Actor, ActorRef};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::line_question::{PendingQuestion, Questions};
use super::live_line::LiveLine;
use super::printer::{Printed, Printer, Printing};
use crate::cli::{Format, TurnArgs, somebody_there};
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::remote::Remote;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::signals::Signals;
use leftfold_runtime::socket;
use leftfold_runtime::{end_all, note};
use leftfold_view::{OpenQuestion, QuestionId, SessionView};
use serde_json::json;

/// How long the last events of an interrupted turn may take to be printed.
const PRINT_TIMEOUT: Duration = Duration::from_secs(5);
/// The `by` of prompts from the command line.
const BY: &str = "cli";
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The request to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Prompt(Vec<PromptPart>),
    /// Write a summary, if there is anything to summarize, that follows these instructions.
    Compact(Option<String>),
    /// Revert to before this event, or undo the last revert (`None`).
    Revert(Option<Seq>),
    /// Resume an interrupted turn, if there is one.
    Resume,
}

/// The outcome, which decides the exit code.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ended {
        ended: Box<Ended>,
        /// The text, or the JSON that fits the schema.
        answer: String,
    },
    /// There was nothing to resume.
    Nothing,
    /// Files and messages were restored as requested.
    Restored,
    /// The user did not wait for the turn's end.
    Interrupted,
}

impl Outcome {
    /// 0 completed, 1 error, 3 blocked, 4 a limit, 5 incomplete, 130 interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Nothing | Self::Restored => 0,
            Self::Interrupted => 130,
            Self::Ended { ended, .. } => match ended.reason {
                EndReason::Completed => 0,
                EndReason::Error | EndReason::InvalidOutput => 1,
                EndReason::Blocked => 3,
                EndReason::MaxSteps | EndReason::Limit => 4,
                EndReason::Incomplete => 5,
                EndReason::Aborted => 130,
            },
        }
    }

    /// How many calls of a completed turn were denied, if any.
    pub(crate) fn denied(&self) -> Option<usize> {
        match self {
            Self::Ended { ended, .. } if ended.reason == EndReason::Completed => {
                Some(ended.permission_denials.len()).filter(|count| *count > 0)
            }
            Self::Ended { .. } | Self::Nothing | Self::Restored | Self::Interrupted => None,
        }
    }

    /// The answer of a turn that was completed.
    pub(crate) fn answer(&self) -> Option<&str> {
        match self {
            Self::Ended { ended, answer } if ended.reason == EndReason::Completed => Some(answer),
            Self::Ended { .. } | Self::Nothing | Self::Restored | Self::Interrupted => None,
        }
    }
}

/// Runs the task to the end of its turn.
pub(crate) async fn run_turn(
    setup: SessionSetup,
    task: Task,
    turn: &TurnArgs,
) -> anyhow::Result<Outcome> {
    let (sender, printed) = mpsc::unbounded_channel();
    let asks = setup.asks() && somebody_there();
    let (resumes, reverts) = (task == Task::Resume, matches!(task, Task::Revert(_)));
    let (format, session) = (turn.format, setup.place.session);
    let prompts_as = (!resumes && !reverts).then(|| client::names(BY));
    let is_structured = turn.form.is_some();
    let live = LiveLine::start();
    if format == Format::Text {
        live.say(if reverts { "restoring files" } else { "starting" }, "");
    }
    let printing = Printing {
        format,
        session,
        driver: sender,
        asks,
        prompts_as,
        is_structured,
        rules: setup.rules(),
        live: live.clone(),
    };
    let (sink, _) = Actor::spawn(None, Printer, printing).await?;
    let mut signals = Signals::new()?;
    let node = client::node().await?;
    let options = turn.of_a_node();
    let begun = tokio::select! {
        biased;
        begun = begin(&setup, &node, task, sink, &options) => Some(begun),
        _ = signals.next() => None,
    };
    let Some(Ok(Some(Begun { client, opened, socket }))) = begun else {
        // Servers and plugins may have been started already; they must not keep running.
        client::stop_node(&node).await;
        end_all(true).await?;
        return begun.map_or(Ok(Outcome::Interrupted), |begun| begun.map(|_| Outcome::Nothing));
    };
    let (mut memory, here) = (client.clone(), client.remote().is_none());
    let reverts = reverts || resumes && here && client.view().await?.turn.is_none();
    // Served only now, so that no other client's prompt comes before this one.
    let sessions = socket::SingleSession::new(client.clone(), setup.clone());
    socket::take_messages_of_one(&sessions, &client).await;
    let socket = socket.map(|bound| bound.serve(sessions.clone()));
    let mut runner = TurnRunner {
        by: client.name(BY),
        asks: setup.asks(),
        prompted: resumes,
        reverts,
        client,
        place: setup.place.clone(),
        questions: Questions::new(setup.workspace.clone()),
    };
    let outcome = runner.finish(opened, printed, signals).await;
    live.rest();
    if let Some(socket) = socket {
        socket.close(!matches!(outcome, Ok(Outcome::Ended { .. } | Outcome::Restored))).await;
    }
    if outcome.is_ok() {
        memory.remembered().await?;
    }
    let completed = outcome.as_ref().is_ok_and(|outcome| outcome.answer().is_some());
    client::stop_node(&node).await;
    end_all(!completed).await?;
    outcome
}

/// A task that the session has accepted.
struct Begun {
    client: Client,
    opened: Opened,
    /// The socket of the session's store, if this process is its node.
    socket: Option<socket::Bound>,
}

/// Opens the session, subscribes `sink` to its events, and sends it the task. `None`: there is
/// nothing to do.
///
/// # Errors
/// Another process is the session's node, and there are `options` that only the node can apply.
async fn begin(
    setup: &SessionSetup,
    node: &ActorRef<NodeMessage>,
    task: Task,
    sink: ActorRef<Observation>,
    options: &[&str],
) -> anyhow::Result<Option<Begun>> {
    if task == Task::Resume {
        return begin_resuming(setup, node.clone(), sink).await;
    }
    for _ in 0..client::ATTEMPTS {
        let (client, opened) = Client::open(node.clone(), setup).await?;
        client.takes(options)?;
        let from = opened.head + 1;
        let socket = if client.remote().is_none() { bind(setup) } else { None };
        if let Task::Prompt(parts) = &task
            && client.remote().is_none()
        {
            client.watch(from, sink, WatchScope::Live).await?;
            client.cast_prompt(setup, parts.clone(), BY).await?;
            return Ok(Some(Begun { client, opened, socket }));
        }
        match ask(&client, setup, &task).await {
            Ok(true) => {
                client.watch(from, sink, WatchScope::Live).await?;
                return Ok(Some(Begun { client, opened, socket }));
            }
            Ok(false) => return Ok(None),
            Err(error) if client::is_leaving(&error) => {
                tokio::time::sleep(client::RETRY_DELAY).await;
            }
            Err(error) => return Err(error),
        }
    }
    bail!(
        "the nodes of session {} start and end too quickly to attach: try again",
        setup.place.session
    )
}

/// Waits until the session has accepted the task. False: there is nothing to do.
async fn ask(client: &Client, setup: &SessionSetup, task: &Task) -> anyhow::Result<bool> {
    match task {
        Task::Prompt(parts) => client.prompt(setup, parts.clone(), BY).await?,
        Task::Compact(instructions) => {
            let answered =
                client.compact(setup.prompt_config(), BY, instructions.as_deref(), false).await?;
            if answered != Answered::Accepted {
                note("leftfold: nothing to summarize, or a summary is already being written");
                return Ok(false);
            }
        }
        Task::Revert(back) => {
            let refused = client.revert(setup.prompt_config(), *back, BY).await?;
            refused.map_err(|why| anyhow!("session {}: {why}", setup.place.session))?;
        }
        Task::Resume => client.resume(setup)?,
    }
    Ok(true)
}

async fn begin_resuming(
    setup: &SessionSetup,
    node: ActorRef<NodeMessage>,
    sink: ActorRef<Observation>,
) -> anyhow::Result<Option<Begun>> {
    let (client, opened) = match Client::open_here(node, setup, setup.extensions.ready()).await {
        Err(error) if client::is_locked(&error) => return Err(held(&setup.place).unwrap_or(error)),
        opened => opened?,
    };
    let state = client.view().await?;
    if !opened.unfinished && state.files.restore.is_none() {
        let ended = state.ended.as_ref().map(|ended| json!(ended.reason));
        let ended = ended.and_then(|reason| Some(format!(" ({})", reason.as_str()?)));
        note(&format!(
            "leftfold: nothing to resume: no turn of session {} was interrupted{}",
            setup.place.session,
            ended.map(|reason| format!("; its last turn has ended{reason}")).unwrap_or_default()
        ));
        return Ok(None);
    }
    let socket = bind(setup);
    client.watch(opened.head + 1, sink, WatchScope::Live).await?;
    client.resume(setup)?;
    Ok(Some(Begun { client, opened, socket }))
}

/// The error for a session that another node runs, with the commands that can be used instead;
/// `None` if that node cannot be reached.
fn held(place: &SessionPlace) -> Option<anyhow::Error> {
    let (session, pid) = (place.session, Remote::holder(&place.store)?);
    Some(anyhow!(
        "session {session} is in use by another node (pid {pid}), which continues it: attach with `leftfold \
         run --session {session}` or `leftfold --session {session}`, watch with `leftfold observe \
         {session}`"
    ))
}

/// Creates the socket before anything is printed, so that readers of the output can connect. The
/// turn runs without a socket if that fails.
fn bind(setup: &SessionSetup) -> Option<socket::Bound> {
    let bound = socket::bind(&setup.place.store);
    bound.inspect_err(|error| note(&format!("leftfold: {error:#}"))).ok()
}

struct TurnRunner {
    client: Client,
    /// The `by` of this client's prompts.
    by: String,
    /// Whether the next end of a turn is the awaited one.
    prompted: bool,
    /// Whether the next end of a restore is the awaited one.
    reverts: bool,
    /// Whether questions are answered on standard input.
    asks: bool,
    place: SessionPlace,
    questions: Questions,
}

impl TurnRunner {
    /// Waits until the end of the turn is printed.
    async fn finish(
        &mut self,
        mut opened: Opened,
        mut printed: mpsc::UnboundedReceiver<Printed>,
        mut signals: Signals,
    ) -> anyhow::Result<Outcome> {
        let session = self.client.session;
        let give_up = tokio::time::sleep(A_YEAR);
        tokio::pin!(give_up);
        let mut interrupted = false;
        if self.asks && self.client.remote().is_some() {
            self.ask_all(&mut opened);
        }
        loop {
            tokio::select! {
                // what has been printed may close a question that would be shown
                biased;
                event = printed.recv() => match event {
                    Some(Printed::Prompted { by }) => self.prompted |= by == self.by,
                    Some(Printed::Ended { ended, answer }) if self.prompted => {
                        return Ok(Outcome::Ended { ended, answer });
                    }
                    // The end of a turn that was interrupted before.
                    Some(Printed::Ended { .. }) => {}
                    Some(Printed::Asked { question, agent, why }) if self.asks => {
                        self.ask(PendingQuestion { question: *question, agent, why });
                    }
                    Some(Printed::Resumed((child, before))) if self.asks && child != session => {
                        self.ask_all_of(child, before);
                    }
                    Some(Printed::Resumed(_)) if self.asks => self.ask_all(&mut opened),
                    Some(Printed::Asked { .. } | Printed::Resumed(_)) => {}
                    Some(Printed::Closed(asked)) => self.questions.close(asked),
                    Some(Printed::ChildEnded(child)) => self.questions.close_all(child),
                    Some(Printed::Restored(Ok(()))) if self.reverts => return Ok(Outcome::Restored),
                    Some(Printed::Restored(Err(why))) if self.reverts => {
                        bail!("nothing was reverted: {why}");
                    }
                    Some(Printed::Restored(_)) => {}
                    Some(Printed::Broken) => {
                        self.client.interrupt("standard output closed").await?;
                    }
                    None => bail!("printing has failed; continue with `leftfold resume {session}`"),
                },
                (asked, reply) = self.questions.answered() => self.answer(asked, reply).await?,
                by = signals.next() => {
                    if interrupted {
                        return Ok(Outcome::Interrupted);
                    }
                    interrupted = true;
                    give_up.as_mut().reset(Instant::now() + PRINT_TIMEOUT);
                    self.client.interrupt(by).await?;
                }
                () = &mut give_up => return Ok(Outcome::Interrupted),
                closed = client::closed(&mut opened) => bail!("{closed}"),
            }
        }
    }

    /// Asks the questions that were already open. The log has their contents.
    fn ask_all(&mut self, opened: &mut Opened) {
        let open = std::mem::take(&mut opened.questions);
        let read = || Reader::open(&self.place.store)?.read(self.place.session, 1);
        let view = match open.is_empty() {
            true => SessionView::default(),
            false => SessionView::from_events(&read().unwrap_or_default()),
        };
        for (of, access) in open {
            let id = (self.client.session, of);
            let bare = || OpenQuestion::of_access(id, &access.permission, &access.patterns);
            let question = view.question(of).cloned().unwrap_or_else(bare);
            let question = OpenQuestion { id, ..question };
            self.ask(PendingQuestion { question, agent: None, why: None });
        }
    }

    /// Asks the questions that were open in a child before its event at `resumed`.
    fn ask_all_of(&mut self, child: SessionId, resumed: Seq) {
        let read = || Reader::open(&self.place.store)?.read(child, 1);
        let Ok(events) = read().inspect_err(|error| tracing::warn!("{error}")) else { return };
        let (state, view) = (fold(&events), SessionView::from_events(&events));
        for (of, _) in state.questions().into_iter().filter(|(of, _)| *of < resumed) {
            if let Some(question) = view.question(of).cloned() {
                let question = OpenQuestion { id: (child, of), ..question };
                let agent = Some(state.agent.clone());
                self.ask(PendingQuestion { question, agent, why: None });
            }
        }
    }

    fn ask(&mut self, what: PendingQuestion) {
        if !somebody_there() {
            // Clients of the socket may answer too.
            let ((session, of), how) = (what.question.id, what.how());
            note(&format!("  to answer: leftfold permission answer {session} {of} {how}"));
        }
        self.questions.ask(what);
    }

    async fn answer(&mut self, asked: QuestionId, reply: QuestionReply) -> anyhow::Result<()> {
        let answered = self.client.answer(asked, reply).await?;
        if let Answered::Refused { why } = answered {
            note(&format!("  {why}"));
            self.questions.ask_again(asked);
            return Ok(());
        }
        if answered != Answered::Accepted {
            note(&format!("  {answered}"));
            self.questions.close(asked);
        }
        Ok(())
    }
}
