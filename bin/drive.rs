//! Drives one turn of one session: prompts or resumes, prints, listens to signals, and turns the
//! turn's end into an exit code.

use std::io::{IsTerminal, Write};

use anyhow::bail;
use leftfold_actors::{Answered, Opened, Reply};
use leftfold_events::Seq;
use leftfold_events::event::{Answer, EndReason, Ended};
use ractor::Actor;
use tokio::sync::mpsc;

use crate::cli::Format;
use crate::client::{self, Client, Job};
use crate::print::{Printed, Printer};
use crate::signals::Signals;
use crate::socket;

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

/// Runs the task to the end of its turn.
pub(crate) async fn drive(job: Job<'_>, task: Task, format: Format) -> anyhow::Result<Outcome> {
    let (client, opened) = Client::open(client::node().await?, &job).await?;
    let mut memory = client.clone();
    if task == Task::Resume && !opened.unfinished {
        return Ok(Outcome::Nothing);
    }
    let socket = socket(&client, &job);
    let (sender, printed) = mpsc::unbounded_channel();
    let (sink, _) = Actor::spawn(None, Printer, (format, sender)).await?;
    client.watch(opened.head + 1, sink)?;
    let mut ends = 1;
    match task {
        Task::Prompt(text) => {
            if opened.unfinished {
                // the turn that was cut off has an end of its own, which comes first
                client.resume(&job, true)?;
                ends += 1;
            }
            client.prompt(&job, text, "cli")?;
        }
        Task::Resume => client.resume(&job, false)?,
    }
    let driver = Driver { client, asks: job.asks() };
    let outcome = driver.finish(opened, printed, ends).await;
    if let Some(socket) = socket {
        socket.close().await;
    }
    if outcome.is_ok() {
        memory.remembered().await?;
    }
    if !matches!(&outcome, Ok(Outcome::Ended(ended)) if ended.reason == EndReason::Completed) {
        // calls were broken off, and this process may leave before their own clean-up is done
        tokio::task::spawn_blocking(leftfold_tools::processes::end_descendants).await?;
    }
    leftfold_tools::processes::settled().await;
    outcome
}

/// Lets other processes watch and answer. Without a socket the turn goes on all the same.
fn socket(client: &Client, job: &Job<'_>) -> Option<socket::Served> {
    let sessions = socket::One::new(client.clone(), job.equipment());
    let served = socket::serve(&job.place.store, sessions);
    served.inspect_err(|error| eprintln!("leftfold: {error:#}")).ok()
}

struct Driver {
    client: Client,
    /// Whether somebody sits at the terminal to answer questions.
    asks: bool,
}

impl Driver {
    /// Waits for the last of `ends` turn ends to be printed.
    async fn finish(
        &self,
        mut opened: Opened,
        mut printed: mpsc::UnboundedReceiver<Printed>,
        mut ends: usize,
    ) -> anyhow::Result<Outcome> {
        let session = self.client.session;
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
                    Some(Printed::Broken) => self.client.interrupt("standard output closed")?,
                    None => bail!("the printer has died; `leftfold resume {session}` goes on"),
                },
                by = signals.next() => {
                    if interrupted {
                        bail!("interrupted twice; `leftfold resume {session}` goes on");
                    }
                    interrupted = true;
                    self.client.interrupt(by)?;
                }
                closed = client::closed(&mut opened) => bail!("{closed}"),
            }
        }
    }

    /// Asks the person at the terminal, if there is one, on a thread of its own: reading a line blocks.
    fn ask(&self, of: Seq, permission: &str, patterns: &[String]) {
        if !somebody_there() {
            // those who can reach the socket may
            let session = self.client.session;
            eprintln!("  `leftfold permission answer {session} {of} once|always|reject` answers");
            return;
        }
        let question = format!(
            "  allow {permission} on {}? [o]nce, [a]lways, [n]o, or say why not: ",
            patterns.join(", ")
        );
        let client = self.client.clone();
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let reply = read_reply(&question);
            match runtime.block_on(client.answer(of, reply)) {
                Ok(answered @ (Answered::Already { .. } | Answered::NotOpen)) => {
                    eprintln!("  {answered}");
                }
                Ok(Answered::Accepted) => {}
                Err(error) => eprintln!("  {error:#}"),
            }
        });
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
