//! `leftfold observe`: prints the events of a session and its children from a cursor on, then
//! follows them live, whichever process is its node.
//!
//! While a node runs, events come through its socket once they are durable. Without a node they are
//! read from a copy of the log whenever it changes. The cursor, and the memory of printed contents
//! behind hashes, outlive both, so the output is that of an export.

mod cursors;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leftfold_events::line::{self, Line};
use leftfold_events::mask;
use leftfold_events::{Envelope, Seq, SessionId, Sha256};
use leftfold_store::Reader;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Deserialize;
use serde_json::json;

use super::printer;
use crate::cli::{Format, Observe};
use cursors::Cursors;
use leftfold_runtime::lines::Lines;
use leftfold_runtime::remote::client::{self, Connection, Identity};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::signals::Signals;
use leftfold_view::Transcript;
use leftfold_view::text::TextRenderer;

/// How often the log is checked for changes while there is no node.
const POLL: Duration = Duration::from_millis(100);
/// How long to wait before asking a node again that does not know the session.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the end waits for a line that is being written.
const LAST_LINE: Duration = Duration::from_millis(500);

/// Marks the line of an event that spawns a child; such a line is at most `SHORT` bytes long.
const SPAWNED: &str = r#""type":"subagent.spawned""#;
const SHORT: usize = 64 << 10;

/// Lines are written once they have this many bytes.
const PIECE: usize = 64 << 10;

pub(crate) fn observe(args: &Observe) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let writing = Arc::new(Mutex::new(()));
    let output = Output {
        format: args.format,
        transcript: Transcript::live(place.session),
        renderer: TextRenderer::default(),
        writing: writing.clone(),
    };
    let reader = if args.from.is_empty() { None } else { Reader::open(&place.store).ok() };
    let cursors = Cursors::new(place.session, &args.from, reader.as_ref());
    drop(reader);
    let mut observer =
        Observer { place, cursors, lines: Lines::default(), output, last_problem: None };
    // Everything async here is listening for signals, so one thread is enough.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            ended = tokio::task::spawn_blocking(move || observer.run()) => ended?,
            _ = tokio::task::spawn_blocking(reader_gone) => Ok(()),
            _ = signals.next() => Ok(()),
        }
    });
    // The threads may be blocked forever, and end with the process. A line that is being written
    // may still go out if somebody reads it.
    runtime.shutdown_background();
    let start = Instant::now();
    while writing.try_lock().is_err() && start.elapsed() < LAST_LINE {
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
    lines: Lines,
    output: Output,
    /// The last problem printed on standard error.
    last_problem: Option<String>,
}

/// Changes whenever the log may have new events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    heads: Vec<Option<(SystemTime, u64)>>,
    db: Option<(SystemTime, u64)>,
}

impl Stamp {
    fn of(store: &Path, sessions: &[SessionId]) -> Self {
        let look = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        let head = |session: &SessionId| look(&store.join("heads").join(session.to_string()));
        Self { heads: sessions.iter().map(head).collect(), db: look(&store.join("db")) }
    }
}

/// The session, seq or payload hash that a line from a node names.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct LineKey {
    session: Option<SessionId>,
    seq: Option<Seq>,
    payload: Option<String>,
}

impl LineKey {
    fn of(line: &str) -> Self {
        // Lines of today's nodes begin with session and seq, so the rest need not be parsed.
        match place(line) {
            Some((session, seq)) => Self { session: Some(session), seq: Some(seq), payload: None },
            None => serde_json::from_str(line).unwrap_or_default(),
        }
    }
}

fn place(line: &str) -> Option<(SessionId, Seq)> {
    let (session, rest) = line.strip_prefix(r#"{"v":1,"session":""#)?.split_once(r#"","seq":"#)?;
    let (seq, _) = rest.split_once(',')?;
    Some((session.parse().ok()?, seq.parse().ok()?))
}

impl Observer {
    /// Runs until standard output is closed.
    fn run(&mut self) -> anyhow::Result<()> {
        let mut tried: Option<(Identity, Instant)> = None;
        let mut seen = None;
        loop {
            let socket = client::identity(&self.place.store);
            let new = |socket| tried.is_none_or(|(id, at)| id != socket || at.elapsed() > AGAIN);
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
            let stamp = Stamp::of(&self.place.store, self.cursors.sessions());
            if seen.as_ref() != Some(&stamp) {
                if !self.read()? {
                    return Ok(());
                }
                seen = Some(stamp);
            }
            thread::sleep(POLL);
        }
    }

    /// Connects and watches from the cursors on, if a node has this session.
    fn connect(&self) -> Option<Connection> {
        let mut connection = client::connect(&self.place.store).ok()?;
        let session = self.place.session;
        let (from, children) = (self.cursors.of(session), self.cursors.children());
        let params = json!({ "session": session, "from": from, "children": children });
        let watching = connection.call("_leftfold/watch", &params);
        watching.inspect_err(|error| tracing::debug!("no node to watch: {error:#}")).ok()?;
        Some(connection)
    }

    /// Prints the lines of a node until it ends. False: nobody reads standard output any more.
    fn follow(&mut self, mut connection: Connection) -> anyhow::Result<bool> {
        // A killed node may end the connection in any way.
        let (mut lines, mut text) = (String::new(), String::new());
        while let Ok(true) = connection.events(&mut lines) {
            for line in lines.lines().filter_map(client::carried) {
                if self.is_new(line) && !self.take_line(line, &mut text)? {
                    return Ok(false);
                }
            }
            if !self.output.write(&mut text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a line from a node was not printed before. Marks it as printed.
    fn is_new(&mut self, line: &str) -> bool {
        let LineKey { session, seq, payload } = LineKey::of(line);
        if let Some(hash) = payload {
            return Sha256::from_hex(&hash).is_none_or(|hash| self.lines.is_new(hash));
        }
        let new = session.zip(seq).is_some_and(|(session, seq)| self.cursors.take(session, seq));
        if new
            && line.len() < SHORT
            && line.contains(SPAWNED)
            && let Ok(Line::Event(event)) = line::read(line)
        {
            self.cursors.learn(&event);
        }
        new
    }

    /// Prints a line from a node, or adds it to `text`, which is printed next.
    fn take_line(&mut self, line: &str, text: &mut String) -> anyhow::Result<bool> {
        if self.output.format == Format::Json {
            text.extend([line, "\n"]);
            return Ok(true);
        }
        match line::read(line) {
            Ok(Line::Event(event)) => self.output.show(&event),
            // Sent by a newer node.
            Ok(Line::Payload { .. }) | Err(_) => Ok(true),
        }
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
        let mut text = String::new();
        for event in events {
            if !self.cursors.take(event.session, event.seq) {
                continue;
            }
            self.cursors.learn(event);
            let goes_on = match self.output.format {
                Format::Text => self.output.show(event)?,
                Format::Json => {
                    text.extend(self.lines.of(event).into_iter().map(|line| line + "\n"));
                    text.len() < PIECE || self.output.write(&mut text)?
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        self.output.write(&mut text)
    }
}

struct Output {
    format: Format,
    transcript: Transcript,
    renderer: TextRenderer,
    /// Held during a write.
    writing: Arc<Mutex<()>>,
}

impl Output {
    /// Writes lines of JSON and empties `text`.
    fn write(&self, text: &mut String) -> anyhow::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        goes_on(printer::flush(text))
    }

    fn show(&mut self, event: &Envelope) -> anyhow::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let masked = mask::shown(event).masked;
        let event = masked.as_deref().unwrap_or(event);
        let changes = self.transcript.apply(event);
        goes_on(printer::show(&self.renderer.render(&self.transcript, event.session, &changes)))
    }
}

/// False when nobody reads any more, which is not an error.
fn goes_on(written: std::io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_placed_by_their_beginning_or_by_what_they_hold() {
        let root = SessionId::default();
        let at = |seq| LineKey { session: Some(root), seq: Some(seq), payload: None };
        for (line, key) in [
            (r#"{"v":1,"session":"00000000000000000000000000","seq":12,"at":"#, at(12)),
            (r#"{"seq":7,"v":1,"session":"00000000000000000000000000"}"#, at(7)),
            (r#"{"v":1,"session":"","x":"","seq":9,"seq":1}"#, LineKey::default()),
            (
                r#"{"v":1,"x":"\",\"seq\":9,","seq":3,"session":"00000000000000000000000000"}"#,
                at(3),
            ),
            (
                r#"{"v":1,"payload":"ab"}"#,
                LineKey { payload: Some("ab".into()), ..LineKey::default() },
            ),
            ("nonsense", LineKey::default()),
        ] {
            assert_eq!(LineKey::of(line), key, "{line}");
        }
    }
}
