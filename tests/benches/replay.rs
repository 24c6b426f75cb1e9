//! Measures reading a session of 100,000 events: time to print the state at the first, middle and
//! last event, with its files cached and not cached; time of a step after that, forward, back and
//! across the whole session; events a second that `verify` compares. `cargo bench --bench replay`.
//! A second argument sets another number of events.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leftfold_events::event::{
    Access, CallKind, CallSpec, Class, Compaction, Event, Finish, Finished, Model, ModelRef,
    PartKind, PromptPart, Resolution, Session, StreamedPart, Tool, Turn, Usage,
};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::{Limit, ModelSpec, Options, ToolSpec};
use leftfold_events::{
    Envelope, Fact, Json, POLICY, Seq, SessionId, Sha256, State, Time, TurnConfig, fold, settle,
    verify,
};
use leftfold_store::{Reader, Store};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 9;
const STEPS: usize = 40;
/// Tokens in a model's context.
const CONTEXT: u64 = 200_000;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let log = session(wanted.unwrap_or(EVENTS));
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let session = log[0].session;
    let store = folder.path().join(session.to_string());
    {
        let open = Store::open(&store).unwrap();
        open.import(session, &log).unwrap();
    }
    let bytes = std::fs::metadata(store.join("db")).unwrap().len();
    println!("{} events, {:.0} MiB", log.len(), bytes as f64 / f64::from(1 << 20));
    parts(&store, session, &log);
    for at in [1, log.len() / 2, log.len()] {
        println!("state at {at}: {:.0} ms warm", ms(median(|| state_at(&store, at))));
        let cold = median(|| {
            forget(folder.path());
            state_at(&store, at)
        });
        println!("state at {at}: {:.0} ms cold", ms(cold));
    }
    steps(&store, log.len());
}

/// Breaks the time down, in this process.
fn parts(store: &Path, session: SessionId, log: &[Envelope]) {
    let opening = median(|| time(|| drop(Reader::open(store).unwrap())));
    let reading = median(|| {
        let reader = Reader::open(store).unwrap();
        time(|| assert_eq!(reader.read(session, 1).unwrap().len(), log.len()))
    });
    let folding = median(|| time(|| drop(fold(log))));
    println!(
        "opening {:.0} ms, reading {:.0}, folding {:.0}",
        ms(opening),
        ms(reading),
        ms(folding)
    );
    let verifying = time(|| assert!(verify(log).is_empty())).as_secs_f64();
    println!("verify: {:.0} events/s", log.len() as f64 / verifying);
    let short = &log[..log.len().min(10_000)];
    let verifying = median(|| time(|| drop(verify(short)))).as_secs_f64();
    println!("verify of the first {}: {:.0} events/s", short.len(), short.len() as f64 / verifying);
}

fn state_at(store: &Path, at: usize) -> Duration {
    time(|| {
        let mut replay =
            program(&["replay", store.to_str().unwrap(), "--state", "--at", &at.to_string()]);
        let state = replay.stdout(Stdio::piped()).output().unwrap();
        assert!(state.status.success() && state.stdout.starts_with(b"{"));
    })
}

/// Times steps forward, back and far, each until its last line is printed.
fn steps(store: &Path, events: usize) {
    let began = Instant::now();
    let start = (events / 2).to_string();
    let mut replay = program(&["replay", store.to_str().unwrap(), "--step", "--at", &start]);
    let mut replay = replay.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = replay.stdin.take().unwrap();
    let mut lines = BufReader::new(replay.stdout.take().unwrap()).lines();
    // an event is printed as several lines; the last shows the state of the session
    let mut told = || while !lines.next().unwrap().unwrap().contains(" messages, $") {};
    told();
    println!("the first event of a walk: {:.0} ms", ms(began.elapsed()));
    for way in ["forward", "back", "anywhere"] {
        let line = |n: usize| match way {
            "forward" => String::new(),
            "back" => "p".to_owned(),
            _ => (n * 7_919 % events + 1).to_string(),
        };
        let mut times: Vec<Duration> = (0..STEPS)
            .map(|n| {
                time(|| {
                    writeln!(input, "{}", line(n)).unwrap();
                    told();
                })
            })
            .collect();
        times.sort_unstable();
        println!(
            "a step {way}: {:.2} ms, at most {:.2}",
            ms(times[STEPS / 2]),
            ms(times[STEPS - 1])
        );
    }
    drop(input);
    replay.wait().unwrap();
}

/// Makes the system drop all files below a folder from its cache.
fn forget(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget(&path);
            continue;
        }
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
    command.args(args).env_remove("LEFTFOLD_HOME");
    command
}

fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut work: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| work()).collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

// --- a session of many turns ---

/// Prompts of thirty steps each: texts, thinking, one or two calls a step, results of a few bytes
/// and of some thousand, and a summary whenever the model's context is full.
fn session(events: usize) -> Vec<Envelope> {
    let mut log = Log::default();
    let words = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ";
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: words.repeat(8),
        schema: Json::parse(r#"{"type":"object","properties":{"filePath":{"type":"string"}}}"#)
            .unwrap(),
    };
    let config = TurnConfig {
        system: vec![words.repeat(60), words.repeat(20)],
        tools: ["bash", "read", "edit", "write", "grep", "glob", "task"].map(tool).to_vec(),
        rules: leftfold_events::rules::defaults(),
        model: ModelSpec {
            provider: "p".into(),
            id: "m".into(),
            limit: Limit { context: CONTEXT, ..Limit::default() },
            ..ModelSpec::default()
        },
        options: Options { summary_prompt: words.repeat(4), ..Options::default() },
        ..TurnConfig::default()
    };
    log.append(Fact::new(Session::Created {
        directory: "/p".into(),
        worktree: "/p".into(),
        parent: None,
        agent: "build".into(),
        version: "0".into(),
        policy: POLICY,
    }));
    while log.events.len() < events {
        log.append(Fact::new(Turn::Configured(config.payloads())));
        log.append(Fact::new(Turn::Prompted {
            parts: vec![PromptPart::text("Find out why the test fails, and mend it.")],
            agent: "build".into(),
            model: ModelRef { provider: "p".into(), id: "m".into() },
            by: "bench".into(),
        }));
        while log.state.turn.is_some() && log.events.len() < events {
            log.step();
        }
    }
    log.events
}

#[derive(Default)]
struct Log {
    state: State,
    events: Vec<Envelope>,
    steps: usize,
    /// Tokens of the conversation, estimated from the text.
    tokens: u64,
}

impl Log {
    fn append(&mut self, fact: Fact) {
        let now = Time::from_millis(1_700_000_000_000 + self.events.len() as u64 * 50);
        let session = SessionId::default().child(1, Time::from_millis(1_700_000_000_000));
        self.events.extend(settle(&mut self.state, session, fact, now));
    }

    fn open(&self, kind: PendingKind) -> Option<Seq> {
        let open = self.state.open();
        open.iter().find(|(open, _)| *open == kind).map(|(_, wait)| wait.intent)
    }

    fn replied(&mut self, of: Seq, finish: Finish) {
        let usage = Usage { input: self.tokens, output: 200, ..Usage::default() };
        let body_sha256 = Sha256::default();
        self.append(Fact::of(of, Model::Finished { finish, usage, cost: 0.01, body_sha256 }));
    }

    fn step(&mut self) {
        self.steps += 1;
        let n = self.steps;
        let request = self.open(PendingKind::Request).unwrap();
        if let Some(of) = self.open(PendingKind::Compaction) {
            self.tokens = 1_000;
            self.replied(request, Finish::Stop);
            let summary = "What was done so far. ".repeat(100);
            return self.append(Fact::of(of, Compaction::Finished { summary }));
        }
        let thinks = n.is_multiple_of(3);
        let kinds = if thinks { vec![PartKind::Reasoning; 3] } else { vec![PartKind::Text; 2] };
        for kind in kinds {
            let text = "I look at the next file, for the test reads it. ".repeat(1 + n % 5);
            let signature = (kind == PartKind::Reasoning).then(|| "c2lnbmF0dXJl".repeat(20));
            let part = StreamedPart { id: "0".into(), kind, text, signature, redacted: false };
            self.append(Fact::of(request, Model::Streamed { parts: vec![part] }));
        }
        self.tokens += 200;
        if n.is_multiple_of(30) {
            return self.replied(request, Finish::Stop);
        }
        for index in 0..1 + n % 2 {
            let input =
                Json::parse(&format!(r#"{{"filePath":"src/file{n}.rs","offset":{index}}}"#));
            let (id, input) = (format!("call_{n}_{index}"), input.unwrap());
            let call = CallSpec { id, name: "read".into(), input: input.clone() };
            self.append(Fact::of(request, Tool::Called { call }));
            self.resolve(n, input);
        }
        self.replied(request, Finish::ToolCalls);
        for _ in 0..1 + n % 2 {
            self.finish(n);
        }
    }

    fn resolve(&mut self, n: usize, input: Json) {
        let path = format!("src/file{}.rs", n % 400);
        let access = Access {
            permission: "read".into(),
            patterns: vec![path.clone()],
            always: vec!["*".into()],
        };
        let resolution = Resolution {
            name: "read".into(),
            input,
            class: Class::Read,
            access: vec![access],
            paths: vec![format!("/p/{path}")],
            timeout: 60_000,
            error: None,
            kind: CallKind::Plain,
        };
        let of = self.open(PendingKind::Check).unwrap();
        self.append(Fact::of(of, Tool::Resolved(Box::new(resolution))));
    }

    fn finish(&mut self, n: usize) {
        let of = self.open(PendingKind::Tool).unwrap();
        let lines = [1, 5, 20, 60, 200][n % 5];
        let output = "12: let value = compute(&input)?;\n".repeat(lines);
        self.tokens += output.len() as u64 / 4;
        let event = Event::from(Tool::Finished(Box::new(Finished {
            call: String::new(),
            title: format!("src/file{}.rs", n % 400),
            output,
            is_error: n.is_multiple_of(11),
            metadata: Json::parse(&format!(
                r#"{{"seen":{{"/p/src/file{}.rs":"{n}:100"}}}}"#,
                n % 400
            ))
            .unwrap(),
            spill: None,
            attachments: Vec::new(),
        })));
        self.append(Fact::of(of, event));
    }
}
