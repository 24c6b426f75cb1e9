//! A session of many turns, as long as a test or a bench wants it.

use leftfold_events::event::{
    Access, CallKind, CallSpec, Class, Compaction, Event, Finish, Finished, Model, ModelRef,
    PartKind, PromptPart, Resolution, Session, StreamedPart, Tool, Turn, Usage,
};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::{Limit, ModelSpec, Options, ToolSpec};
use leftfold_events::{
    Envelope, Fact, Json, POLICY, Seq, SessionId, Sha256, State, Time, TurnConfig, settle,
};

/// Tokens in a model's context.
const CONTEXT: u64 = 200_000;

/// Prompts of thirty steps each: texts, thinking, one or two calls a step, results of a few bytes
/// and of some thousand, and a summary whenever the model's context is full.
pub fn session(events: usize) -> Vec<Envelope> {
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
        self.append(Fact::for_intent(
            of,
            Model::Finished { finish, usage, cost: 0.01, body_sha256 },
        ));
    }

    fn step(&mut self) {
        self.steps += 1;
        let n = self.steps;
        let request = self.open(PendingKind::Request).unwrap();
        if let Some(of) = self.open(PendingKind::Compaction) {
            self.tokens = 1_000;
            self.replied(request, Finish::Stop);
            let summary = "What was done so far. ".repeat(100);
            return self.append(Fact::for_intent(of, Compaction::Finished { summary }));
        }
        // a turn does not end with reasoning alone
        let thinks = n.is_multiple_of(3) && !n.is_multiple_of(30);
        let kinds = if thinks { vec![PartKind::Reasoning; 3] } else { vec![PartKind::Text; 2] };
        for kind in kinds {
            let text = "I look at the next file, for the test reads it. ".repeat(1 + n % 5);
            let signature = (kind == PartKind::Reasoning).then(|| "c2lnbmF0dXJl".repeat(20));
            let part = StreamedPart { id: "0".into(), kind, text, signature, redacted: false };
            self.append(Fact::for_intent(request, Model::Streamed { parts: vec![part] }));
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
            self.append(Fact::for_intent(request, Tool::Called { call }));
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
        self.append(Fact::for_intent(of, Tool::Resolved(Box::new(resolution))));
    }

    fn finish(&mut self, n: usize) {
        let of = self.open(PendingKind::Tool).unwrap();
        let lines = [1, 5, 20, 60, 200][n % 5];
        let output = "12: let value = compute(&input)?;\n".repeat(lines);
        self.tokens += output.len() as u64 / 4;
        let event = Event::from(Tool::Finished(Box::new(Finished {
            call: String::new(),
            title: format!("src/file{}.rs", n % 400),
            output: output.into(),
            is_error: n.is_multiple_of(11),
            metadata: Json::parse(&format!(
                r#"{{"seen":{{"/p/src/file{}.rs":"{n}:100"}}}}"#,
                n % 400
            ))
            .unwrap(),
            spill: None,
            attachments: Vec::new(),
        })));
        self.append(Fact::for_intent(of, event));
    }
}
