//! Builds a log from a transcript, and a log for each session that its calls have started.

mod children;

use std::collections::{HashMap, HashSet};

use leftfold_events::event::{
    CallKind, Class, Compaction, FailureClass, Finish, Finished, Model, ModelRef, PartKind,
    PromptPart, Resolution, Session, StreamedPart, Tool, Turn, Usage,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::{Call, PendingKind, Phase, State};
use leftfold_events::turn_config::{ModelSpec, Options, TurnConfig};
use leftfold_events::{
    Envelope, Event, Fact, Json, POLICY, Secrets, Seq, SessionId, Sha256, Time, admits, settle,
};

use super::{Item, ItemKind, LeftOut, MessagePart, Origin, Outcome, Reply, Transcript};

/// Tools of these names make Leftfold's core act, which the other agent's tools did not.
const OURS: [&str; 3] = ["batch", "plan_enter", "plan_exit"];

/// A hundred years in milliseconds: the time in which an interrupted turn may be resumed.
const FAR: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// The id, place and parent of the new session.
#[derive(Clone, Debug)]
pub struct LogStart<'a> {
    pub session: SessionId,
    /// The parent, if a call of another session has started it.
    pub parent: Option<Parent>,
    pub directory: String,
    pub worktree: String,
    pub origin: Origin,
    pub secrets: &'a Secrets,
}

/// The session whose call has started another one, and the facts of that call.
#[derive(Clone, Debug)]
pub struct Parent {
    session: SessionId,
    agent: String,
    title: String,
}

/// Logs of sessions; parents come before children.
type Logs = Vec<(SessionId, Vec<Envelope>)>;

/// Builds the session's log, which ends at rest or waiting for a model, and the logs of the
/// sessions that its calls have started, which end at rest. Also answers the content that could not
/// be imported.
pub fn build_logs(start: &LogStart<'_>, transcript: &Transcript) -> (Logs, LeftOut) {
    let Built { sessions, left_out, .. } = build(start, transcript);
    (sessions, left_out)
}

struct Built {
    sessions: Logs,
    left_out: LeftOut,
    /// The state after the first log.
    state: State,
}

fn build(start: &LogStart<'_>, transcript: &Transcript) -> Built {
    let at = transcript.items.first().map_or_else(Time::default, |item| item.at);
    let mut builder = LogBuilder {
        state: State::default(),
        session: start.session,
        start,
        transcript,
        spawning: children::spawning(transcript),
        children: Vec::new(),
        concluded: 0,
        by: format!("imported from {}", start.origin.name()),
        secrets: start.secrets,
        events: Vec::new(),
        at,
        model: None,
        outcomes: Vec::new(),
        left_out: LeftOut::default(),
    };
    builder.begin();
    for (index, item) in transcript.items.iter().enumerate() {
        builder.at = builder.at.max(item.at);
        builder.configure(transcript.items.iter().skip(index).find_map(model));
        let following = transcript.items.get(index + 1);
        // It was sent while tools ran, and joins their turn.
        let joins = following.is_some_and(|item| matches!(item.what, ItemKind::Outcome(_)));
        builder.item(item, joins);
    }
    builder.end();
    let through = builder.state.seq;
    for event in &mut builder.events {
        if let Event::Session(Session::Imported { through: last, .. }) = &mut event.event {
            *last = through;
        }
    }
    for _ in builder.concluded..transcript.children.len() {
        builder.left_out.one("session of a subagent whose call has no result");
    }
    let mut sessions = vec![(start.session, builder.events)];
    sessions.append(&mut builder.children);
    Built { sessions, left_out: builder.left_out, state: builder.state }
}

fn model(item: &Item) -> Option<&ModelRef> {
    if let ItemKind::Reply(reply) = &item.what { Some(&reply.model) } else { None }
}

struct LogBuilder<'a> {
    state: State,
    session: SessionId,
    start: &'a LogStart<'a>,
    transcript: &'a Transcript,
    /// Calls that start sessions and are not resolved yet.
    spawning: HashSet<String>,
    /// The logs of these sessions.
    children: Logs,
    /// The number of the transcript's own children with a log.
    concluded: usize,
    by: String,
    secrets: &'a Secrets,
    events: Vec<Envelope>,
    at: Time,
    /// The current model.
    model: Option<ModelRef>,
    /// Outcomes of calls that have not started yet, since at most eight run at once.
    outcomes: Vec<Outcome>,
    left_out: LeftOut,
}

impl LogBuilder<'_> {
    fn begin(&mut self) {
        let (start, transcript) = (self.start, self.transcript);
        let (parent, agent) = match &start.parent {
            Some(parent) => (Some(parent.session), parent.agent.clone()),
            None => (None, "build".to_owned()),
        };
        self.fact(Fact::new(Session::Created {
            directory: start.directory.clone(),
            worktree: start.worktree.clone(),
            parent,
            agent,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: POLICY,
        }));
        self.fact(Fact::new(Session::Imported {
            from: start.origin.name().to_owned(),
            id: transcript.id.clone(),
            version: transcript.version.clone(),
            through: 0,
        }));
        let titles = [start.parent.as_ref().map(|parent| &parent.title), transcript.title.as_ref()];
        let title = titles.into_iter().flatten().find(|title| !title.trim().is_empty());
        if let Some(title) = title.cloned() {
            self.fact(Fact::new(Session::Titled { title }));
        }
    }

    fn item(&mut self, item: &Item, joins: bool) {
        match &item.what {
            ItemKind::Prompt(parts) => self.prompt(parts, joins),
            ItemKind::Reply(reply) => self.reply(reply),
            ItemKind::Outcome(outcome) => {
                self.outcomes.push(outcome.clone());
                self.hand_out();
            }
            ItemKind::Summary(summary) => self.summary(summary),
            ItemKind::Interrupted => {
                self.give_up_children();
                self.fact(Fact::new(Turn::Interrupted { by: self.by.clone() }));
            }
            ItemKind::Failed(message) => {
                self.lose();
                self.fail(FailureClass::Other, message);
            }
        }
    }

    /// Ends everything that still runs: a call without a result becomes a lost one, and a started
    /// session ends.
    fn end(&mut self) {
        self.lose();
        self.forget_outcomes();
        if self.start.parent.is_some() && self.state.turn.is_some() {
            self.fact(Fact::new(Session::Resumed { policy: POLICY, close: true }));
        }
    }

    /// Settles a fact, and resolves every call that it leads to.
    fn fact(&mut self, fact: Fact) {
        self.settle(fact);
        while let Some((of, resolution)) = self.unresolved() {
            if resolution.class == Class::Child {
                let call = self.state.calls().find(|call| is_checked(call, of));
                let id = call.map(|call| call.id.clone()).unwrap_or_default();
                self.spawning.remove(&id);
            }
            self.settle(Fact::for_intent(of, Tool::Resolved(Box::new(resolution))));
        }
    }

    fn settle(&mut self, mut fact: Fact) {
        self.secrets.redact_fact(&mut fact);
        let begins = matches!(fact.event, Event::Session(Session::Imported { .. }));
        if begins || admits(&self.state, &fact) {
            self.events.extend(settle(&mut self.state, self.session, fact, self.at));
        }
    }

    fn unresolved(&self) -> Option<(Seq, Resolution)> {
        self.state.calls().find_map(|call| {
            let Phase::Checking(wait) = &call.phase else { return None };
            if self.spawning.contains(&call.id) {
                return Some((wait.intent, children::task(call)));
            }
            let is_leftfold_method = OURS.contains(&call.name.as_str());
            let name =
                if is_leftfold_method { format!("their_{}", call.name) } else { call.name.clone() };
            let resolution = Resolution {
                name,
                input: call.input.clone(),
                class: Class::Command,
                access: Vec::new(),
                paths: Vec::new(),
                timeout: 0,
                error: None,
                kind: CallKind::Plain,
            };
            Some((wait.intent, resolution))
        })
    }

    /// The turn configuration names the model; its other parts are for whoever resumes the session.
    fn configure(&mut self, model: Option<&ModelRef>) {
        let Some(model) = model.filter(|model| self.model.as_ref() != Some(model)) else { return };
        self.model = Some(model.clone());
        let (provider, id) = (model.provider.clone(), model.id.clone());
        let config = TurnConfig {
            model: ModelSpec { provider, id, ..ModelSpec::default() },
            rules: vec![Rule::new("*", "*", Action::Allow)],
            // Pruning and deadlines would add decisions that the other agent did not make.
            options: Options { prune: false, timeout: FAR, any_finish: true, ..Options::default() },
            prompt: "imported".to_owned(),
            ..TurnConfig::default()
        };
        self.fact(Fact::new(Turn::Configured(config.payloads())));
    }

    fn waiting(&self, wanted: PendingKind) -> Option<Seq> {
        let open = self.state.open();
        open.into_iter().find(|(open, _)| *open == wanted).map(|(_, wait)| wait.intent)
    }

    fn prompt(&mut self, parts: &[PromptPart], joins: bool) {
        let joins = joins && self.waiting(PendingKind::Tool).is_some();
        if self.state.turn.is_some() && !joins {
            self.give_up_children();
            self.fact(Fact::new(Session::Resumed { policy: POLICY, close: true }));
        }
        self.ask(parts.to_vec());
    }

    fn ask(&mut self, parts: Vec<PromptPart>) {
        self.fact(Fact::new(Turn::Prompted {
            parts,
            agent: "build".to_owned(),
            model: self.model.clone().unwrap_or_default(),
            by: self.by.clone(),
        }));
    }

    fn reply(&mut self, reply: &Reply) {
        self.lose();
        if self.waiting(PendingKind::Request).is_none() {
            self.ask(Vec::new());
        }
        let Some(of) = self.waiting(PendingKind::Request) else {
            return self.left_out.one("reply that nobody asked for");
        };
        for (index, part) in reply.parts.iter().enumerate() {
            let event: Event = match part {
                MessagePart::Call(call) => Tool::Called { call: call.clone() }.into(),
                MessagePart::Text(text) => {
                    streamed(index, PartKind::Text, text, None, false).into()
                }
                MessagePart::Reasoning { text, signature, redacted } => {
                    streamed(index, PartKind::Reasoning, text, signature.clone(), *redacted).into()
                }
            };
            self.fact(Fact::for_intent(of, event));
        }
        let finish = if reply.has_calls() { Finish::ToolCalls } else { reply.finish };
        self.replied(of, finish, reply.usage, reply.cost);
    }

    fn replied(&mut self, of: Seq, finish: Finish, usage: Usage, cost: f64) {
        let body_sha256 = Sha256::default();
        self.fact(Fact::for_intent(of, Model::Finished { finish, usage, cost, body_sha256 }));
    }

    /// Gives outcomes to the running calls.
    fn hand_out(&mut self) {
        while let Some((at, call, of)) = self.due() {
            let id = self.outcomes[at].call.clone();
            self.conclude(&id, call);
            let Outcome { call, title, output, is_error, attachments } = self.outcomes.remove(at);
            let metadata = Json::object();
            let finished = Finished {
                call,
                title,
                output: output.into(),
                is_error,
                metadata,
                spill: None,
                attachments,
            };
            self.fact(Fact::for_intent(of, Tool::Finished(Box::new(finished))));
        }
    }

    /// An outcome whose call is running, the call's seq, and the seq of its start.
    fn due(&self) -> Option<(usize, Seq, Seq)> {
        let running: HashMap<&str, (Seq, Seq)> =
            self.state.calls().fold(HashMap::new(), |mut all, call| {
                if let Phase::Running { wait, .. } = &call.phase {
                    all.entry(call.id.as_str()).or_insert((call.seq, wait.intent));
                }
                all
            });
        let mut outcomes = self.outcomes.iter().enumerate();
        outcomes.find_map(|(at, outcome)| {
            let (call, since) = running.get(outcome.call.as_str())?;
            Some((at, *call, *since))
        })
    }

    /// Calls without an outcome become lost.
    fn lose(&mut self) {
        self.hand_out();
        self.give_up_children();
        while self.waiting(PendingKind::Tool).is_some() {
            self.fact(Fact::new(Session::Resumed { policy: POLICY, close: false }));
            self.hand_out();
            self.give_up_children();
        }
        self.forget_outcomes();
    }

    fn forget_outcomes(&mut self) {
        for _ in self.outcomes.drain(..) {
            self.left_out.one("result of a call that was not made");
        }
    }

    fn summary(&mut self, summary: &str) {
        self.lose();
        if self.state.turn.is_none() {
            self.fact(Fact::new(Compaction::Asked { by: self.by.clone() }));
        } else {
            self.fail(FailureClass::Overflow, "the conversation was summarised here");
        }
        let (Some(of), Some(request)) =
            (self.waiting(PendingKind::Compaction), self.waiting(PendingKind::Request))
        else {
            return self.left_out.one("summary");
        };
        self.replied(request, Finish::Stop, Usage::default(), 0.0);
        self.fact(Fact::for_intent(of, Compaction::Finished { summary: summary.to_owned() }));
    }

    fn fail(&mut self, class: FailureClass, message: &str) {
        let Some(of) = self.waiting(PendingKind::Request) else { return };
        let (message, status, retry_after) = (message.to_owned(), None, None);
        let failed = Model::Failed { class, message, status, retryable: false, retry_after };
        self.fact(Fact::for_intent(of, failed));
    }
}

fn is_checked(call: &Call, of: Seq) -> bool {
    matches!(&call.phase, Phase::Checking(wait) if wait.intent == of)
}

fn streamed(
    index: usize,
    kind: PartKind,
    text: &str,
    signature: Option<String>,
    redacted: bool,
) -> Model {
    let id = format!("part_{index}");
    Model::Streamed {
        parts: vec![StreamedPart { id, kind, text: text.to_owned(), signature, redacted }],
    }
}
