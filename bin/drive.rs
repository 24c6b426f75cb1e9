//! Drives one turn of one session: opens the node, prompts or resumes, prints, listens to
//! signals, and turns the turn's end into an exit code.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, bail};
use leftfold_actors::equip::{self, Setup};
use leftfold_actors::{
    Answered, Models, Node, NodeMessage, Observation, Open, Opened, Reply, SessionMessage, Watch,
    World,
};
use leftfold_events::event::{Answer, EndReason, Ended, PromptPart, Session, Turn};
use leftfold_events::kit::AskMode;
use leftfold_events::{Fact, Kit, POLICY, Seq, SessionId, Time};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;
use ractor::{Actor, ActorRef};
use tokio::sync::mpsc;

use crate::cli::Format;
use crate::home::Place;
use crate::print::{Printed, Printer};

/// All that a turn needs to know of the world.
pub(crate) struct Job<'a> {
    pub(crate) place: Place,
    pub(crate) setup: Setup<'a>,
    pub(crate) provider: (String, Arc<dyn Provider>),
    pub(crate) workspace: Workspace,
    pub(crate) agent: String,
    pub(crate) format: Format,
}

/// What is asked of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Prompt(String),
    /// Go on with a turn that was cut off, if there is one.
    Resume,
}

/// How it went, for the exit code.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ended(Box<Ended>),
    /// There was nothing to resume.
    Nothing,
}

impl Outcome {
    /// 0 completed, 1 error, 3 blocked, 4 a limit, 130 interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Ended(ended) => match ended.reason {
                EndReason::Completed => 0,
                EndReason::Error => 1,
                EndReason::Blocked => 3,
                EndReason::MaxSteps | EndReason::Limit => 4,
                EndReason::Aborted => 130,
            },
        }
    }
}

struct Driver {
    node: ActorRef<NodeMessage>,
    session: SessionId,
    /// Whether somebody sits at the terminal to answer questions.
    asks: bool,
}

/// Runs the task to the end of its turn.
pub(crate) async fn drive(job: Job<'_>, task: Task) -> anyhow::Result<Outcome> {
    let (node, _) = Actor::spawn(None, Node, ()).await.context("the node can not be started")?;
    let session = job.place.session;
    let asks = job.setup.options.ask == AskMode::Ask;
    let driver = Driver { node, session, asks };
    let opened = driver.open(&job).await?;
    if task == Task::Resume && !opened.unfinished {
        return Ok(Outcome::Nothing);
    }
    let (sender, printed) = mpsc::unbounded_channel();
    let (sink, _) = Actor::spawn(None, Printer, (job.format, sender)).await?;
    driver.watch(sink, opened.head + 1)?;
    let model = job.setup.model.name();
    let kit = equip::gather(job.setup, Time::from(SystemTime::now()));
    let mut ends = 1;
    match task {
        Task::Prompt(text) => {
            if opened.unfinished {
                // the turn that was cut off has an end of its own, which comes first
                driver.resume(kit.clone(), true)?;
                ends += 1;
            }
            let parts = vec![PromptPart::text(text)];
            let by = "cli".to_owned();
            let prompted = Turn::Prompted { parts, agent: job.agent, model, by };
            let prompted = Box::new(Fact::new(prompted));
            driver.tell(SessionMessage::Prompt { kit: Box::new(kit), prompted })?;
        }
        Task::Resume => driver.resume(kit, false)?,
    }
    let outcome = driver.finish(opened, printed, ends).await;
    if !matches!(&outcome, Ok(Outcome::Ended(ended)) if ended.reason == EndReason::Completed) {
        // calls were broken off, and this process may leave before their own clean-up is done
        tokio::task::spawn_blocking(leftfold_tools::processes::end_descendants).await?;
    }
    leftfold_tools::processes::settled().await;
    outcome
}

impl Driver {
    async fn open(&self, job: &Job<'_>) -> anyhow::Result<Opened> {
        let (name, provider) = &job.provider;
        let models = Models::new([(name.clone(), Arc::clone(provider))]);
        let birth = Session::Created {
            directory: job.setup.directory.display().to_string(),
            worktree: job.setup.worktree.display().to_string(),
            parent: None,
            agent: job.agent.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: POLICY,
        };
        let open = Box::new(Open {
            store: job.place.store.clone(),
            session: self.session,
            world: World { models, workspace: Arc::new(job.workspace.clone()) },
            birth,
        });
        let opened = ractor::call!(self.node, |reply| NodeMessage::Open { open, reply });
        Ok(opened.context("the node has died")??)
    }

    fn watch(&self, sink: ActorRef<Observation>, from: Seq) -> anyhow::Result<()> {
        let watch = Watch { session: self.session, from, sink };
        self.node.cast(NodeMessage::Watch(watch)).context("the node has died")
    }

    fn resume(&self, kit: Kit, close: bool) -> anyhow::Result<()> {
        self.tell(SessionMessage::Resume { kit: Box::new(kit), close })
    }

    fn tell(&self, message: SessionMessage) -> anyhow::Result<()> {
        let tell = NodeMessage::Tell { session: self.session, message };
        self.node.cast(tell).context("the node has died")
    }

    fn interrupt(&self, by: &str) -> anyhow::Result<()> {
        let interrupted = Fact::new(Turn::Interrupted { by: by.to_owned() });
        self.tell(SessionMessage::Told(vec![interrupted]))
    }

    /// Waits for the last of `ends` turn ends to be printed.
    async fn finish(
        &self,
        mut opened: Opened,
        mut printed: mpsc::UnboundedReceiver<Printed>,
        mut ends: usize,
    ) -> anyhow::Result<Outcome> {
        let mut signals = Signals::new()?;
        let mut interrupted = false;
        loop {
            tokio::select! {
                event = printed.recv() => match event {
                    Some(Printed::Ended(ended)) => {
                        ends -= 1;
                        if ends == 0 {
                            return Ok(Outcome::Ended(ended));
                        }
                    }
                    Some(Printed::Asked { of, permission, patterns }) if self.asks => {
                        self.ask(of, &permission, &patterns);
                    }
                    Some(Printed::Asked { .. }) => {}
                    Some(Printed::Broken) => self.interrupt("standard output closed")?,
                    None => bail!("the printer has died; `leftfold resume {}` goes on", self.session),
                },
                by = signals.next() => {
                    if interrupted {
                        bail!("interrupted twice; `leftfold resume {}` goes on", self.session);
                    }
                    interrupted = true;
                    self.interrupt(by)?;
                }
                closed = closed(&mut opened) => bail!("{closed}"),
            }
        }
    }

    /// Asks the person at the terminal, on a thread of its own: reading a line blocks.
    fn ask(&self, of: Seq, permission: &str, patterns: &[String]) {
        let question = format!(
            "  allow {permission} on {}? [o]nce, [a]lways, [n]o, or say why not: ",
            patterns.join(", ")
        );
        let (node, session) = (self.node.clone(), self.session);
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let reply = read_reply(&question);
            runtime.block_on(async move {
                let answered = ractor::call!(node, |told| NodeMessage::Tell {
                    session,
                    message: SessionMessage::Answer { of, reply, told },
                });
                if let Ok(answered @ (Answered::Already { .. } | Answered::NotOpen)) = answered {
                    eprintln!("  {answered}");
                }
            });
        });
    }
}

/// The reason why the session was closed for good.
async fn closed(opened: &mut Opened) -> String {
    match opened.closed.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the node has died".to_owned(),
    }
}

fn read_reply(question: &str) -> Reply {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{question}");
    let _ = stderr.flush();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    let by = "terminal".to_owned();
    let (answer, feedback) = match (read, line.trim()) {
        (Err(_) | Ok(0), _) | (_, "n" | "no" | "") => (Answer::Reject, None),
        (_, "o" | "once" | "y" | "yes") => (Answer::Once, None),
        (_, "a" | "always") => (Answer::Always, None),
        (_, why) => (Answer::Reject, Some(why.to_owned())),
    };
    Reply { answer, feedback, by }
}

/// Whether a person sits at this terminal.
pub(crate) fn somebody_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next signal.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
