//! Models, tools and snapshots: their outcomes and delays, and whether there is an outcome at all.

use leftfold_events::event::{
    Access, BatchCall, CallKind, CallSpec, Change, Class, Compaction, FailureClass, FileChange,
    Files, Finish, Model, PartKind, Purpose, Resolution, Session, StreamedInput, StreamedPart,
    Todo, Tool, Usage, Wanted,
};
use leftfold_events::{Fact, Json, Seq, Sha256};

use super::session::Item;
use super::session_tree::finished;
use super::world::World;

/// A reply that fills the model's context.
const FULL: u64 = 9_900;

impl World {
    fn told(
        &mut self,
        sim_session: usize,
        delay: u64,
        of: Seq,
        event: impl Into<leftfold_events::Event>,
    ) {
        self.say(sim_session, delay, Item::Fact(Fact::for_intent(of, event)));
    }

    /// The outcome of a request.
    pub(crate) fn reply(&mut self, at: usize, of: Seq, purpose: Purpose, step: u32) {
        let mut when = self.random.below(800);
        if self.random.one_in(12) {
            // no event at all
            return;
        }
        if self.random.one_in(10) {
            let failed = self.failure();
            return self.told(at, when, of, failed);
        }
        match purpose {
            Purpose::Turn => when = self.speak(at, when, of, step),
            Purpose::Title => {
                let title = Session::Titled { title: "A title".into() };
                self.told(at, when, of, title);
            }
            Purpose::SessionSummary => {
                let summary = Session::Summarised { summary: "It was done.".into() };
                self.told(at, when, of, summary);
            }
            Purpose::Compaction => {
                let summing =
                    self.sessions[at].state.turn.as_ref().and_then(|turn| turn.compacting());
                let started = summing.map_or(0, |summing| summing.started.intent);
                self.told(at, when, of, streamed(Vec::new()));
                let summary = if self.random.one_in(8) {
                    Compaction::Failed { message: "an empty summary".into() }
                } else {
                    Compaction::Finished { summary: "so far".into() }
                };
                self.told(at, when + 2, started, summary);
            }
        }
        let input = if self.random.one_in(8) { FULL } else { 10 };
        let finish =
            self.random.choose(&[Finish::Stop, Finish::Stop, Finish::Length, Finish::ToolCalls]);
        let rare = [Finish::ContentFilter, Finish::Other];
        let finish = if self.random.one_in(20) { self.random.choose(&rare) } else { finish };
        let usage = Usage { input, ..Usage::default() };
        let replied = Model::Finished { finish, usage, cost: 0.25, body_sha256: Sha256::default() };
        self.told(at, when + 1, of, replied);
    }

    fn failure(&mut self) -> Model {
        use FailureClass::{Auth, Network, Overflow, Overloaded, RateLimit};
        let class = self.random.choose(&[Auth, Network, Overflow, Overloaded, RateLimit]);
        Model::Failed {
            class,
            message: "it failed".into(),
            status: None,
            retryable: !matches!(class, Auth | Overflow),
            retry_after: self.random.choose(&[None, Some(700)]),
        }
    }

    /// Text, reasoning and calls; returns the end of the reply. A reply may break off in between.
    fn speak(&mut self, at: usize, mut when: u64, of: Seq, step: u32) -> u64 {
        for _ in 0..self.random.below(3) {
            let kind = self.random.choose(&[PartKind::Text, PartKind::Text, PartKind::Reasoning]);
            let text = self.random.choose(&["some text", " ", "more"]).to_owned();
            let signature = self.random.choose(&[None, Some("sig")]).map(str::to_owned);
            let id = format!("{kind:?}");
            let part = StreamedPart { id, kind, text, signature, redacted: false };
            self.told(at, when, of, streamed(vec![part]));
            when += self.random.below(400);
        }
        let calls =
            if self.random.one_in(2 + u64::from(step)) { 1 + self.random.below(3) } else { 0 };
        let calls = if step == 1 && calls == 0 { self.random.below(3) } else { calls };
        for _ in 0..calls {
            let name = self.random.choose(&[
                "read", "read", "edit", "edit", "bash", "bash", "batch", "question", "task",
                "plan_exit", "plan_enter", "we.ird",
            ]);
            let id = self.random.choose(&["a", "b", "c", "", "a_1"]);
            let input = self.random.choose(&["{}", r#"{"x":1}"#, r#""not json"#]);
            let input = Json::parse(input).unwrap_or_default();
            let call = CallSpec { id: id.into(), name: name.into(), input };
            if self.random.one_in(6) {
                let input = StreamedInput { id: id.into(), name: name.into(), bytes: 7 };
                self.told(at, when, of, Tool::InputStreamed { calls: vec![input] });
                when += self.random.below(400);
            }
            self.told(at, when, of, Tool::Called { call });
            when += self.random.below(400);
        }
        if self.random.one_in(25) {
            let failed = self.failure();
            self.told(at, when, of, failed);
        }
        when
    }

    /// The resolution of a call.
    pub(crate) fn check(&mut self, at: usize, of: Seq, call: Seq) {
        let found = self.sessions[at].state.calls().find(|c| c.seq == call);
        let Some(name) = found.map(|call| call.name.clone()) else { return };
        let delay = self.random.below(60);
        if !self.random.one_in(40) {
            let resolution = self.resolution(at, &name);
            self.told(at, delay, of, Tool::Resolved(Box::new(resolution)));
        }
    }

    fn resolution(&mut self, at: usize, name: &str) -> Resolution {
        let judged = self.random.choose(&["read", "read", "ask", "ask", "never"]);
        let path = self.random.choose(&["/p/x", "/p/y"]).to_owned();
        let plain = |class, permissions: &[&str]| Resolution {
            name: name.to_owned(),
            input: Json::object(),
            class,
            access: permissions.iter().map(|permission| access(permission)).collect(),
            paths: vec![path.clone()],
            timeout: 5_000,
            error: None,
            kind: CallKind::Plain,
        };
        let input = |text: &str| Json::parse(text).unwrap_or_default();
        let mut resolution = match name {
            "read" => plain(Class::Read, &[judged]),
            "edit" => plain(Class::Write, &[judged]),
            "bash" => {
                Resolution { kind: CallKind::Shell, ..plain(Class::Command, &["read", judged]) }
            }
            "question" => plain(Class::Ask, &["question", "question"]),
            "plan_exit" | "plan_enter" if at == 0 => Resolution {
                kind: CallKind::SwitchAgent {
                    agent: if name == "plan_exit" { "build" } else { "plan" }.into(),
                },
                ..plain(Class::Read, &[name, "question"])
            },
            "batch" => Resolution {
                kind: CallKind::Batch {
                    calls: ["read", "bash"]
                        .map(|name| BatchCall { name: name.into(), input: Json::object() })
                        .into(),
                },
                ..plain(Class::Read, &[])
            },
            "task" if at == 0 => Resolution {
                input: input(&self.task()),
                timeout: 40_000,
                ..plain(Class::Child, &["read"])
            },
            _ => Resolution { error: Some("no such tool".into()), ..plain(Class::Read, &[]) },
        };
        resolution.timeout = if self.random.one_in(6) { 1_000 } else { resolution.timeout };
        resolution
    }

    /// For a new child, or for an existing one.
    fn task(&mut self) -> String {
        let children = &self.sessions[0].state.children;
        let last = children.last().map(|child| child.session.to_string()).unwrap_or_default();
        let id = if self.random.one_in(3) { last } else { String::new() };
        format!(r#"{{"prompt":"look","subagentType":"general","taskId":"{id}"}}"#)
    }

    /// Runs a call: it succeeds or fails, in time or late, or has no outcome.
    pub(crate) fn run_call(&mut self, at: usize, of: Seq, call: Seq) {
        let found = self.sessions[at].state.calls().find(|c| c.seq == call);
        let Some(call) = found.filter(|call| call.is_running() && call.class() != Class::Child)
        else {
            return;
        };
        let (switches, timeout) =
            (call.switches_to(), call.resolved.as_ref().map_or(0, |r| r.timeout));
        if self.random.one_in(15) {
            return;
        }
        let late = self.random.one_in(12);
        let delay =
            if late { timeout + self.random.below(3_000) } else { self.random.below(1_500) };
        if let Some(agent) = switches {
            let config = Box::new(self.config_for(agent));
            return self.say(
                at,
                delay,
                Item::TurnConfigPayloads(config, finished(of, "taken over", false)),
            );
        }
        if self.random.one_in(4) {
            self.told(at, delay / 2, of, Tool::Progressed { tail: "half".into() });
        }
        let delay = if self.random.one_in(6) { self.elicit(at, delay, of) } else { delay };
        if self.random.one_in(10) {
            self.told(at, delay, of, Todo::Updated { todos: Vec::new() });
        }
        let (output, is_error) = (self.random.choose(&["ok", "fine", ""]), self.random.one_in(6));
        self.say(at, delay, Item::Fact(finished(of, output, is_error)));
    }

    /// A tool asks a question, and waits for the answer or not. Returns when it continues at the
    /// latest.
    fn elicit(&mut self, at: usize, delay: u64, of: Seq) -> u64 {
        for elicitation in 1..=self.random.below(3) {
            let number = r#"{"properties":{"n":{"type":"integer"}},"required":["n"]}"#;
            let choice = r#"{"properties":{"a":{"type":"boolean"},"b":{"enum":["yes","no"]}}}"#;
            let schema =
                self.random.choose(&[number, choice, "{}", "7", r#"{"properties":{"o":{}}}"#]);
            let wanted = match self.random.below(8) {
                0 => Wanted::Visit { url: "http://localhost/".into() },
                1 | 2 => {
                    let permission = self.random.choose(&["bash", "deploy", "question"]).to_owned();
                    let patterns = self.random.choose(&[None, Some("shop")]).map(str::to_owned);
                    let patterns = Vec::from_iter(patterns);
                    Wanted::Permission { permission, patterns, always: vec!["*".into()] }
                }
                _ => Wanted::Form { schema: Json::parse(schema).unwrap_or_default() },
            };
            let elicitation = u32::try_from(elicitation).unwrap_or_default();
            let (from, message) = ("server".to_owned(), "What now?".to_owned());
            self.told(
                at,
                delay / 2,
                of,
                Tool::ElicitationRequested { elicitation, from, message, wanted },
            );
        }
        delay + self.random.choose(&[0, 30_000, 1_000_000])
    }

    /// Snapshots and restores.
    pub(crate) fn keep_files(&mut self, at: usize, of: Seq, intent: &Files) {
        let delay = self.random.below(500);
        let (fails, tree) = (self.random.one_in(10), format!("tree {}", self.random.below(1_000)));
        let (message, before) = ("it failed".to_owned(), "before".to_owned());
        if self.random.one_in(15) {
            return;
        }
        let outcome = match intent {
            Files::SnapshotStarted {} if fails => Files::SnapshotFailed { message },
            Files::SnapshotStarted {} => {
                Files::Snapshotted { tree, files: vec![self.change()], left_out: Vec::new() }
            }
            Files::RestoreStarted { .. } if fails => Files::RestoreFailed { message },
            _ => Files::Restored { before, tree, files: Vec::new() },
        };
        self.told(at, delay, of, outcome);
    }

    fn change(&mut self) -> FileChange {
        let path = self.random.choose(&["x", "y", "z"]).to_owned();
        FileChange { path, change: Change::Modified, additions: 2, deletions: 1 }
    }
}

fn streamed(parts: Vec<StreamedPart>) -> Model {
    Model::Streamed { parts }
}

fn access(permission: &str) -> Access {
    let (permission, pattern) = (permission.to_owned(), "x".to_owned());
    Access { permission, patterns: vec![pattern], always: vec!["*".into()] }
}
