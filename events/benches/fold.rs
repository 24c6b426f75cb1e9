//! Measures how fast a log is folded in memory and verified, in events per second. `cargo bench -p
//! leftfold-events`.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a bench prints its figures or fails")]

use std::time::Instant;

use leftfold_events::event::{
    Access, CallKind, CallSpec, Class, Finish, Finished, Model, ModelRef, PartKind, PromptPart,
    Resolution, Session, StreamedPart, Tool, Turn, Usage,
};
use leftfold_events::turn_config::Options;
use leftfold_events::{
    Envelope, Fact, Json, POLICY, SessionId, Sha256, State, Time, TurnConfig, fold, settle, verify,
};

const TURNS: usize = 20;
const STEPS: usize = 50;
const ROUNDS: usize = 9;

fn main() {
    let log = session();
    let rate = |seconds: f64| log.len() as f64 / seconds / 1e6;
    let folding = median(|| drop(fold(&log)));
    println!("{} events: fold {:.2} million events/s", log.len(), rate(folding));
    let verifying = median(|| assert!(verify(&log).is_empty()));
    println!("{} events: verify {:.3} million events/s", log.len(), rate(verifying));
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// Turns of many steps, each with streamed text and one call.
fn session() -> Vec<Envelope> {
    let mut log = Log::default();
    let config = TurnConfig {
        rules: leftfold_events::rules::defaults(),
        options: Options { max_steps: u32::MAX, ..Options::default() },
        ..TurnConfig::default()
    };
    log.tell(Fact::new(Session::Created {
        directory: "/p".into(),
        worktree: "/p".into(),
        parent: None,
        agent: "build".into(),
        version: "0".into(),
        policy: POLICY,
    }));
    for _ in 0..TURNS {
        log.tell(Fact::new(Turn::Configured(config.payloads())));
        log.tell(Fact::new(Turn::Prompted {
            parts: vec![PromptPart::text("do it")],
            agent: "build".into(),
            model: ModelRef::default(),
            by: "bench".into(),
        }));
        for step in 0..STEPS {
            log.step(step + 1 == STEPS);
        }
    }
    log.events
}

#[derive(Default)]
struct Log {
    state: State,
    events: Vec<Envelope>,
    now: u64,
}

impl Log {
    fn tell(&mut self, fact: Fact) {
        self.now += 5;
        let now = Time::from_millis(self.now);
        self.events.extend(settle(&mut self.state, SessionId::default(), fact, now));
    }

    fn outcome(&mut self, event: impl Into<leftfold_events::Event>) {
        let (_, wait) = *self.state.open().last().expect("something waits");
        self.tell(Fact::of(wait.intent, event));
    }

    fn step(&mut self, last: bool) {
        for piece in ["I will look at ", "the next file now."] {
            let (id, kind, text) = ("0".to_owned(), PartKind::Text, piece.repeat(4));
            let part = StreamedPart { id, kind, text, signature: None, redacted: false };
            self.outcome(Model::Streamed { parts: vec![part] });
        }
        let replied = |finish| Model::Finished {
            finish,
            usage: Usage { input: 100, output: 10, ..Usage::default() },
            cost: 0.0,
            body_sha256: Sha256::default(),
        };
        if last {
            return self.outcome(replied(Finish::Stop));
        }
        let input = Json::parse(r#"{"filePath":"src/main.rs"}"#).expect("json");
        let request = self.state.open()[0].1.intent;
        let call = CallSpec { id: "call".into(), name: "read".into(), input: input.clone() };
        self.outcome(Tool::Called { call });
        self.outcome(Tool::Resolved(Box::new(Resolution {
            name: "read".into(),
            input,
            class: Class::Read,
            access: vec![Access {
                permission: "read".into(),
                patterns: vec!["src/main.rs".into()],
                always: vec!["*".into()],
            }],
            paths: vec!["/p/src/main.rs".into()],
            timeout: 60_000,
            error: None,
            kind: CallKind::Plain,
        })));
        self.tell(Fact::of(request, replied(Finish::ToolCalls)));
        self.outcome(Tool::Finished(Box::new(Finished {
            call: "call".into(),
            title: "src/main.rs".into(),
            output: "1: fn main() {}\n".repeat(20),
            is_error: false,
            metadata: Json::object(),
            spill: None,
            attachments: Vec::new(),
        })));
    }
}
