//! `leftfold observe`: prints the events of a session and its children from a cursor on, then
//! follows them live, whichever process is its node. With `--all` it follows all sessions.
//!
//! While a node runs, events come through its socket once they are durable. Without a node they are
//! read from a copy of the log whenever it changes. The cursor, and the memory of printed contents
//! behind hashes, outlive both, so the output is that of an export.

mod all;
mod cursors;
mod output;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leftfold_events::event::{Event, Turn};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, Seq, fold};
use leftfold_store::{Reader, StoreStamp};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use super::printer;
use crate::cli::Observe;
use all::AllSessions;
use cursors::Cursors;
use leftfold_runtime::Usage;
use leftfold_runtime::remote::client::{self, Connection, Identity};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::signals::Signals;
use output::{LineKey, Output, TextForm, kind_of};

/// How often the log is checked for changes while there is no node.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait before asking a node again that does not know the session.
const NODE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// How long the end waits for a line that is being written.
const LAST_LINE_TIMEOUT: Duration = Duration::from_millis(500);

/// Marks the line of an event that spawns a child; such a line is at most `SHORT` bytes long.
const SPAWNED: &str = r#""type":"subagent.spawned""#;
const SHORT: usize = 64 << 10;

pub(crate) fn observe(args: &Observe) -> anyhow::Result<ExitCode> {
    if args.project.is_some() && !args.all {
        return Err(Usage("--project selects among all sessions: add --all".to_owned()).into());
    }
    let writing = Arc::new(Mutex::new(()));
    let observer: Box<dyn FnOnce() -> anyhow::Result<()> + Send> = if args.all {
        let mut all = AllSessions::new(args, writing.clone())?;
        Box::new(move || all.run())
    } else {
        let mut one = Observer::new(args, writing.clone())?;
        Box::new(move || one.run())
    };
    // Everything async here is listening for signals, so one thread is enough.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = tokio::task::spawn_blocking(observer) => ended?,
            _ = tokio::task::spawn_blocking(reader_gone) => Ok(()),
            _ = signals.next() => Ok(()),
        }
    });
    // The threads may be blocked forever, and end with the process. A line that is being written
    // may still go out if somebody reads it.
    runtime.shutdown_background();
    let start = Instant::now();
    while writing.try_lock().is_err() && start.elapsed() < LAST_LINE_TIMEOUT {
        thread::sleep(Duration::from_millis(5));
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Waits until nobody reads standard output any more.
fn reader_gone() {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
}

struct Observer {
    place: SessionPlace,
    cursors: Cursors,
    output: Output,
    /// The last problem printed on standard error.
    last_problem: Option<String>,
    turn: RootTurn,
}

/// Whether a turn of the root runs, once its events up to `head` are printed.
struct RootTurn {
    head: Seq,
    is_open: bool,
    /// Whether to end with it.
    ends: bool,
    is_told: bool,
}

impl RootTurn {
    fn follow(&mut self, event: &Envelope) {
        match event.event {
            Event::Turn(Turn::Prompted { .. }) => self.set(event.seq, true),
            Event::Turn(Turn::Ended(_)) => self.set(event.seq, false),
            _ => {}
        }
    }

    fn follow_line(&mut self, seq: Seq, line: &str) {
        match &*kind_of(line) {
            "turn.prompted" => self.set(seq, true),
            "turn.ended" => self.set(seq, false),
            _ => {}
        }
    }

    fn set(&mut self, seq: Seq, is_open: bool) {
        // the state at the start was that at `head`
        if seq > self.head {
            self.is_open = is_open;
        }
    }
}

impl Observer {
    fn new(args: &Observe, writing: Arc<Mutex<()>>) -> anyhow::Result<Self> {
        let place = super::place(&args.session)?;
        let form = match args.kinds.is_empty() {
            true => TextForm::transcript(place.session),
            false => TextForm::Lines,
        };
        let output = Output::new(args.format, form, &args.kinds, writing);
        let reader = Reader::open(&place.store).ok();
        let events = reader.as_ref().map(|reader| reader.read_good(place.session).0);
        let events = events.unwrap_or_default();
        let turn = RootTurn {
            head: events.last().map_or(0, |event| event.seq),
            is_open: fold(&events).turn.is_some(),
            ends: args.until_idle,
            is_told: false,
        };
        let reader = reader.filter(|_| !args.from.is_empty());
        let cursors = Cursors::new(place.session, &args.from, reader.as_ref());
        Ok(Self { place, cursors, output, last_problem: None, turn })
    }

    /// Whether to end, as no turn runs and everything so far is printed. If not, it tells a person once that it waits.
    fn is_over(&mut self) -> bool {
        let session = self.place.session;
        let is_running = self.turn.is_open && leftfold_store::in_use(&self.place.store);
        if is_running || self.cursors.for_session(session) <= self.turn.head {
            return false;
        }
        let is_told = std::mem::replace(&mut self.turn.is_told, true);
        if !self.turn.ends && !is_told && std::io::stderr().is_terminal() {
            leftfold_runtime::note(&format!(
                "leftfold: no turn of session {session} is running: waiting for the next one (Ctrl-C ends, `--until-idle` \
                 does not wait)"
            ));
        }
        self.turn.ends
    }

    /// Runs until standard output is closed.
    fn run(&mut self) -> anyhow::Result<()> {
        let mut tried: Option<(Identity, Instant)> = None;
        let mut seen = None;
        // whether a node had the store open during the last reading, which may have missed its last write
        let mut unsettled = false;
        loop {
            let socket = client::identity(&self.place.store);
            let new = |socket| {
                tried.is_none_or(|(id, at)| id != socket || at.elapsed() > NODE_RETRY_DELAY)
            };
            if let Some(socket) = socket.filter(|socket| new(*socket)) {
                tried = Some((socket, Instant::now()));
                if let Some(connection) = self.connect() {
                    if !self.follow(connection)? {
                        return Ok(());
                    }
                    // The node may have made events durable without sending them.
                    seen = None;
                }
            }
            let stamp = StoreStamp::for_sessions(&self.place.store, self.cursors.sessions());
            if seen.as_ref() != Some(&stamp)
                || unsettled && !leftfold_store::in_use(&self.place.store)
            {
                unsettled = leftfold_store::in_use(&self.place.store);
                if !self.read()? {
                    return Ok(());
                }
                seen = Some(stamp);
            }
            if self.is_over() {
                return Ok(());
            }
            thread::sleep(LOG_POLL_INTERVAL);
        }
    }

    /// Connects and watches from the cursors on, if a node has this session.
    fn connect(&self) -> Option<Connection> {
        let mut connection = client::connect(&self.place.store).ok()?;
        let session = self.place.session;
        let (from, children) = (self.cursors.for_session(session), self.cursors.children());
        let params = json!({ "session": session, "from": from, "children": children });
        let watching = connection.call("_leftfold/watch", &params);
        watching.inspect_err(|error| tracing::debug!("no node to watch: {error:#}")).ok()?;
        Some(connection)
    }

    /// Prints the lines of a node until it ends. False: nobody reads standard output any more, or there is no need to wait.
    fn follow(&mut self, mut connection: Connection) -> anyhow::Result<bool> {
        let mut lines = String::new();
        // A killed node may end the connection in any way.
        while !self.is_over() {
            let Ok(true) = connection.events(&mut lines) else { return Ok(true) };
            for line in lines.lines().filter_map(client::carried) {
                if !self.take_line(line)? {
                    return Ok(false);
                }
            }
            if !self.output.write()? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Takes a line from a node, unless its event was printed before.
    fn take_line(&mut self, line: &str) -> anyhow::Result<bool> {
        let LineKey { session, seq, payload } = LineKey::from_line(line);
        if let Some(hash) = payload {
            self.output.take_payload(&hash, line);
            return Ok(true);
        }
        if !session.zip(seq).is_some_and(|(session, seq)| self.cursors.take(session, seq)) {
            return Ok(true);
        }
        if session == Some(self.place.session)
            && let Some(seq) = seq
        {
            self.turn.follow_line(seq, line);
        }
        if let Some(event) = spawns(line) {
            self.cursors.learn(&event);
        }
        self.output.take_line(line)
    }

    /// Prints the events of the log from the cursors on.
    fn read(&mut self) -> anyhow::Result<bool> {
        let (events, problem) = match Reader::open(&self.place.store) {
            Err(error) => (Vec::new(), Some(error.to_string())),
            Ok(reader) => self.cursors.read(&reader),
        };
        if !self.print(&events)? {
            return Ok(false);
        }
        if let Some(problem) = problem.filter(|problem| self.last_problem.as_ref() != Some(problem))
        {
            leftfold_runtime::note(&format!("leftfold: {problem}"));
            self.last_problem = Some(problem);
        }
        Ok(true)
    }

    fn print(&mut self, events: &[Envelope]) -> anyhow::Result<bool> {
        for event in events {
            if self.cursors.take(event.session, event.seq) {
                self.cursors.learn(event);
                if event.session == self.place.session {
                    self.turn.follow(event);
                }
                if !self.output.take(event)? {
                    return Ok(false);
                }
            }
        }
        self.output.write()
    }
}

/// The event of a line, if it spawns a child.
fn spawns(line: &str) -> Option<Envelope> {
    if line.len() >= SHORT || !line.contains(SPAWNED) {
        return None;
    }
    match line::read(line) {
        Ok(Line::Event(event)) => event.spawned().map(|_| *event),
        Ok(Line::Payload { .. }) | Err(_) => None,
    }
}
