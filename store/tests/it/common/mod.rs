//! Sessions to store.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of this")]

mod elicitation;
mod files;
mod imported;
mod plugins;
pub mod rich;

use elicitation::asked;
use files::{files_events, later_files_events};
use imported::imported;
use leftfold_events::event::{
    Access, Answer, Attachment, BatchCall, CallKind, CallSpec, Class, Compaction, Denial,
    EndReason, Ended, Exchange, FailureClass, Files, Finish, Finished, Hook, Model, ModelRef,
    NoteMembers, Owner, PartKind, Permission, PromptKind, PromptPart, Purpose, Record, Resolution,
    Session, SessionChoices, Spill, StartedSandboxed, StreamedInput, StreamedPart, Subagent, Todo,
    TodoItem, TodoPriority, TodoStatus, Tool, Turn, TurnConfigPayloads, Usage,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::sandbox::{Backend, Profile, WorktreeAccess};
use leftfold_events::{Envelope, Event, Json, Notes, Payload, Seq, SessionId, Sha256, Time};

pub fn id(n: u64) -> SessionId {
    SessionId::default().child(n, Time::from_millis(1_700_000_000_000 + n))
}

pub fn envelope(session: SessionId, seq: Seq, event: impl Into<Event>) -> Envelope {
    let at = Time::from_millis(1_700_000_000_000 + seq);
    Envelope {
        session,
        seq,
        at,
        of: None,
        until: None,
        event: event.into(),
        notes: Notes::default(),
    }
}

/// `count` events from `seq` on with texts of `size` bytes.
pub fn texts(session: SessionId, seq: Seq, count: u64, size: usize) -> Vec<Envelope> {
    (seq..seq + count).map(|seq| envelope(session, seq, text(seq, size))).collect()
}

pub fn text(seed: u64, size: usize) -> Event {
    let title: String = (0..size as u64).map(|n| letter(seed * 31 + n)).collect();
    Session::Titled { title }.into()
}

fn letter(n: u64) -> char {
    char::from(b'a' + u8::try_from(n % 26).unwrap())
}

pub fn created(parent: Option<SessionId>) -> Event {
    Session::Created {
        directory: "/home/someone/project/sub".into(),
        worktree: "/home/someone/project".into(),
        parent,
        agent: "build".into(),
        version: "0.1.0".into(),
        policy: 1,
    }
    .into()
}

pub fn prompted() -> Event {
    Turn::Prompted {
        parts: vec![
            PromptPart::text("Say hé"),
            PromptPart {
                kind: PromptKind::Media,
                text: "aGk=".into(),
                mime: Some("image/png".into()),
                name: Some("a.png".into()),
            },
        ],
        agent: "build".into(),
        model: model(),
        by: "stdin".into(),
    }
    .into()
}

fn tasked() -> Event {
    let task =
        PromptPart { kind: PromptKind::Task, name: Some("a".into()), ..PromptPart::text("do") };
    let (agent, by) = ("build".into(), "cli".into());
    Turn::Prompted { parts: vec![task], agent, model: model(), by }.into()
}

pub fn configured() -> TurnConfigPayloads {
    TurnConfigPayloads {
        system: Payload::new("[\"You are …\"]"),
        tools: Payload::new("[]"),
        rules: Payload::new("[]"),
        model: Payload::new("{\"provider\":\"p\",\"id\":\"m\"}"),
        options: Payload::new("{}"),
        prompt: "default".into(),
    }
}

fn model() -> ModelRef {
    ModelRef { provider: "p".into(), id: "m".into() }
}

fn usage() -> Usage {
    Usage { input: 1, output: 250, reasoning: 251, cache_read: 70_000, cache_write: 5_000_000_000 }
}

/// One session with at least one event of every variant, and with `of` and `until` set and unset.
pub fn every_variant(session: SessionId) -> Vec<Envelope> {
    let events = [
        session_events(),
        // their notes are added below
        vec![Session::DeadlinePassed {}.into(); notes().len()],
        turn_events(),
        model_events(),
        tool_events(),
        other_events(),
        later_events(),
    ];
    (1..)
        .zip(events.concat())
        .map(|(seq, event)| {
            let mut envelope = envelope(session, seq, event);
            envelope.of = (seq % 2 == 0).then_some(seq - 1);
            envelope.until = (seq % 3 == 0).then(|| envelope.at.plus(60_000));
            let noted = usize::try_from(seq).unwrap().checked_sub(session_events().len() + 1);
            envelope.notes = noted.and_then(|n| notes().get(n).cloned()).unwrap_or_default();
            envelope
        })
        .collect()
}

/// Notes with each member alone, and with all of them.
pub fn notes() -> [Notes; 6] {
    let client = Some("msg_0a".to_owned());
    let parts = Some(json(r#"[{"id":"prt_1","synthetic":true,"metadata":{"ratio":0.5}}]"#));
    let owner = Some(Owner { version: "1.2.3".into(), node: Some("n1".into()), epoch: Some(300) });
    let record = Record { sha256: Sha256::digest(b"record"), bytes: 70_000 };
    let (body_sha256, request_id) = (Some(Sha256::digest(b"body")), Some("req_1".to_owned()));
    let exchange = Some(Exchange { body_sha256, record: Some(record), request_id });
    let other = [("later".to_owned(), json(r#"{"b":[1.0,null],"a":"ü"}"#))].into();
    let none = NoteMembers::default;
    [
        NoteMembers { client: client.clone(), ..none() },
        NoteMembers { parts: parts.clone(), ..none() },
        NoteMembers { owner: owner.clone(), ..none() },
        NoteMembers { exchange: exchange.clone(), ..none() },
        NoteMembers { other, ..none() },
        NoteMembers { client, parts, owner, exchange, ..none() },
    ]
    .map(Notes::from)
}

/// Events that were added to schema 1 later, in the order of their addition.
fn later_events() -> Vec<Event> {
    let call = CallSpec { id: "c1_1".into(), name: "read".into(), input: json(r#"{"a":1}"#) };
    let ended = Subagent::Ended {
        session: id(3),
        answer: "42".into(),
        reason: EndReason::Blocked,
        usage: usage(),
        cost: 0.25,
    };
    let mut events = vec![
        Tool::Batched { call }.into(),
        Compaction::Asked { by: "cli".into() }.into(),
        ended.into(),
        Turn::Switched { agent: "build".into(), model: model() }.into(),
        tasked(),
    ];
    events.extend(files_events());
    events.extend(later_files_events());
    events.extend([Session::Adopted { parent: id(1) }.into(), imported()]);
    events.extend(plugins::plugin_events());
    events.extend(elicitation::inquiry_events());
    let (agent, variant) = (Some("plan".to_owned()), Some("high".to_owned()));
    let choices = SessionChoices { agent, model: Some(model()), variant };
    events.push(Session::Configured { choices, by: "acp".into() }.into());
    events.push(Session::ResumedImported { policy: 300, close: false, imported: 70_000 }.into());
    let (reply, feedback, by) = (Answer::Reject, Some("not so".to_owned()), "tty".to_owned());
    events.push(Permission::RejectedWith { reply, feedback, by, with: 300 }.into());
    events.extend(sandboxed());
    events.extend(incomplete());
    events.extend(files::failures());
    events.push(sandboxed_by(Backend::Seatbelt, WorktreeAccess::Write));
    let rules = vec![Rule::new("bash", "rm *", Action::Deny)];
    events.push(Session::RulesSet { rules, by: "socket".into() }.into());
    let parts = vec![PromptPart::text("by the way")];
    events.push(Turn::Noted { parts, by: "socket".into() }.into());
    let written = StreamedInput { id: "c1".into(), name: "write".into(), bytes: 70_000 };
    events.push(Tool::InputStreamed { calls: vec![written] }.into());
    events.push(elicitation::wanted_permission());
    events.push(Session::Summarised { summary: "The test was fixed.".into() }.into());
    events.push(requested(Purpose::SessionSummary));
    events.push(Files::SnapshotsAccepted { steps: vec![7, 70_000] }.into());
    let (reply, always) = (Answer::Always, vec!["cargo test *".into(), "ls".into()]);
    events.push(Permission::AnsweredFor { reply, feedback: None, by: "tty".into(), always }.into());
    let instructions = "Keep the numbers.".into();
    events.push(Compaction::AskedWith { by: "tty".into(), instructions }.into());
    let archived = Some(Time::from_millis(1_780_000_000_000));
    events.push(Session::Archived { archived, by: "http".into() }.into());
    events
}

/// Events of a reply that was cut off.
fn incomplete() -> [Event; 3] {
    let ended = Ended {
        reason: EndReason::Incomplete,
        text: "do".into(),
        usage: usage(),
        cost: 0.125,
        steps: 2,
        permission_denials: Vec::new(),
        error: Some("cut off".into()),
    };
    let (message, retryable) = ("no room to answer".to_owned(), false);
    let (class, status, retry_after) = (FailureClass::OutputLength, Some(400), None);
    [
        Turn::Continued { finish: Finish::Length, note: "go on".into() }.into(),
        Turn::Ended(Box::new(ended)).into(),
        Model::Failed { class, message, status, retryable, retry_after }.into(),
    ]
}

fn sandboxed() -> impl Iterator<Item = Event> {
    let backends = [
        Backend::Namespaces,
        Backend::Bwrap,
        Backend::Landlock,
        Backend::External,
        Backend::Off,
        Backend::None,
    ];
    let worktrees = [WorktreeAccess::Write, WorktreeAccess::Read].into_iter().cycle();
    backends.into_iter().zip(worktrees).map(|(backend, worktree)| sandboxed_by(backend, worktree))
}

fn sandboxed_by(backend: Backend, worktree: WorktreeAccess) -> Event {
    let (call, name) = ("c1".into(), "bash".into());
    let network = !backend.confines();
    let (write, shown) = (vec!["/srv/shared".into()], vec!["/p/.env".into(), "/q".into()]);
    let sandbox = Profile { backend, network, worktree, write, shown };
    let (class, attempt) = (Class::Command, 1);
    let started = StartedSandboxed { call, name, class, attempt, sandbox };
    Tool::StartedSandboxed(Box::new(started)).into()
}

fn session_events() -> Vec<Event> {
    vec![
        created(None),
        created(Some(id(1))),
        Session::Titled { title: "A title".into() }.into(),
        Session::Resumed { policy: 300, close: true }.into(),
        Session::Forked { from: id(2), at: 77 }.into(),
        Session::DeadlinePassed {}.into(),
    ]
}

fn turn_events() -> Vec<Event> {
    let denial = Denial {
        call: "c1".into(),
        tool: "bash".into(),
        permission: "bash".into(),
        patterns: vec!["rm *".into()],
        reason: "denied".into(),
    };
    let ended = |reason, error: Option<&str>| {
        Event::from(Turn::Ended(Box::new(Ended {
            reason,
            text: "done".into(),
            usage: usage(),
            cost: 0.125,
            steps: 3,
            permission_denials: vec![denial.clone()],
            error: error.map(str::to_owned),
        })))
    };
    vec![
        prompted(),
        Turn::Configured(configured()).into(),
        Turn::Interrupted { by: "tty".into() }.into(),
        ended(EndReason::Completed, None),
        ended(EndReason::Blocked, None),
        ended(EndReason::Error, Some("it broke")),
        ended(EndReason::Aborted, None),
        ended(EndReason::MaxSteps, None),
        ended(EndReason::Limit, None),
    ]
}

fn requested(purpose: Purpose) -> Event {
    let request_sha256 = Sha256::digest(b"request");
    Model::Requested { model: model(), step: 2, attempt: 1, purpose, request_sha256 }.into()
}

fn model_events() -> Vec<Event> {
    let replied = |finish| {
        let body_sha256 = Sha256::digest(b"body");
        Event::from(Model::Finished { finish, usage: usage(), cost: 1.5, body_sha256 })
    };
    let failed = |class| {
        let (message, retryable) = ("no".to_owned(), true);
        let (status, retry_after) = (Some(529), Some(1_000));
        Event::from(Model::Failed { class, message, status, retryable, retry_after })
    };
    let mut events = vec![
        streamed(),
        Tool::Called {
            call: CallSpec {
                id: "c1".into(),
                name: "read".into(),
                input: json(r#"{"b":1,"a":[]}"#),
            },
        }
        .into(),
        Model::RetryScheduled { attempt: 1, error: "overloaded".into() }.into(),
    ];
    events.extend([Purpose::Turn, Purpose::Title, Purpose::Compaction].map(requested));
    use Finish as F;
    let ways = [F::Stop, F::Length, F::ToolCalls, F::ContentFilter, F::Pause, F::Error, F::Other];
    events.extend(ways.map(replied));
    use FailureClass as C;
    events.extend([C::Overflow, C::RateLimit, C::Overloaded, C::Auth, C::Quota].map(failed));
    events.extend([C::Network, C::Stalled, C::Invalid, C::Aborted, C::Other].map(failed));
    events
}

fn streamed() -> Event {
    let part = |kind, signature: Option<&str>, redacted| StreamedPart {
        id: "p1".into(),
        kind,
        text: "some text, ünïcödé".into(),
        signature: signature.map(str::to_owned),
        redacted,
    };
    let parts = vec![
        part(PartKind::Text, None, false),
        part(PartKind::Reasoning, Some("c2ln"), false),
        part(PartKind::Reasoning, Some("sealed"), true),
    ];
    Model::Streamed { parts }.into()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn tool_events() -> Vec<Event> {
    let resolution = |class, error: Option<&str>, kind| {
        Event::from(Tool::Resolved(Box::new(Resolution {
            name: "edit".into(),
            input: json(r#"{"path":"a"}"#),
            class,
            access: vec![Access {
                permission: "edit".into(),
                patterns: vec!["a".into(), "b".into()],
                always: vec!["*".into()],
            }],
            paths: vec!["/home/someone/project/a".into()],
            timeout: 120_000,
            error: error.map(str::to_owned),
            kind,
        })))
    };
    let mut events = vec![Tool::ResolveStarted { call: "c1".into() }.into()];
    events.extend([Class::Read, Class::Write, Class::Command, Class::Child].map(|class| {
        let (call, name, attempt) = ("c1".into(), "edit".into(), 1);
        Tool::Started { call, name, class, attempt }.into()
    }));
    events.push(resolution(Class::Write, None, CallKind::Plain));
    events.push(resolution(Class::Ask, Some("no such tool"), CallKind::Plain));
    let (name, input) = ("read".into(), json(r#"{"filePath":"a"}"#));
    let calls = vec![BatchCall { name, input }];
    let kinds = [
        CallKind::Shell,
        CallKind::ShowsFiles,
        CallKind::Lasting,
        CallKind::Batch { calls },
        CallKind::SwitchAgent { agent: "build".into() },
    ];
    events.extend(kinds.map(|kind| resolution(Class::Read, None, kind)));
    events.push(Tool::Progressed { tail: "50%\n".into() }.into());
    events.push(Tool::Finished(Box::new(finished())).into());
    events.push(Tool::Lost { call: "c1".into(), attempt: 2 }.into());
    events.push(Tool::Cancelled { call: "c1".into(), attempt: 1 }.into());
    events
}

pub fn finished() -> Finished {
    Finished {
        call: "c1".into(),
        title: "a title".into(),
        output: "line 1\nline 2\n".into(),
        is_error: true,
        metadata: json(r#"{"exit":1,"ratio":0.1}"#),
        spill: Some(Spill { path: "/gone".into(), sha256: Sha256::digest(b"full"), bytes: 4 }),
        attachments: vec![Attachment {
            mime: "image/png".into(),
            name: "a.png".into(),
            base64: "aGk=".into(),
        }],
    }
}

fn other_events() -> Vec<Event> {
    let call = || "c1".to_owned();
    let rule = |action| Rule::new("bash", "git *", action);
    let answered = |reply, feedback: Option<&str>| {
        let (feedback, by) = (feedback.map(str::to_owned), "tty".into());
        Event::from(Permission::Answered { reply, feedback, by })
    };
    let item = |status, priority| TodoItem { content: "do it".into(), status, priority };
    let todos = vec![
        item(TodoStatus::Pending, TodoPriority::High),
        item(TodoStatus::InProgress, TodoPriority::Medium),
        item(TodoStatus::Completed, TodoPriority::Low),
        item(TodoStatus::Cancelled, TodoPriority::Low),
    ];
    vec![
        Permission::Ruled { call: call(), action: Action::Allow, rule: None }.into(),
        Permission::Ruled { call: call(), action: Action::Ask, rule: Some(rule(Action::Ask)) }
            .into(),
        Permission::Ruled { call: call(), action: Action::Deny, rule: Some(rule(Action::Deny)) }
            .into(),
        asked(),
        answered(Answer::Once, None),
        answered(Answer::Always, None),
        answered(Answer::Reject, Some("use git")),
        Compaction::Started { through: 40, auto: true }.into(),
        Compaction::Finished { summary: "it was long".into() }.into(),
        Compaction::Failed { message: "no".into() }.into(),
        Compaction::Pruned { calls: vec![3, 300, 70_000] }.into(),
        Subagent::Spawned {
            call: call(),
            session: id(3),
            agent: "explore".into(),
            max_cost: Some(0.5),
        }
        .into(),
        Subagent::EndedUncounted {
            session: id(3),
            answer: "42".into(),
            reason: EndReason::Completed,
        }
        .into(),
        Todo::Updated { todos }.into(),
    ]
}

/// The number of an event's variant. It has no wildcard: a new variant does not compile until it
/// gets a number here, and then the tests require it in [`every_variant`] and in the golden file.
pub fn variant(event: &Event) -> usize {
    match event {
        Event::Session(Session::Created { .. }) => 0,
        Event::Session(Session::Titled { .. }) => 1,
        Event::Session(Session::Resumed { .. }) => 2,
        Event::Session(Session::Forked { .. }) => 3,
        Event::Session(Session::DeadlinePassed {}) => 4,
        Event::Turn(Turn::Prompted { .. }) => 5,
        Event::Turn(Turn::Configured(_)) => 6,
        Event::Turn(Turn::Interrupted { .. }) => 7,
        Event::Turn(Turn::Ended(_)) => 8,
        Event::Model(Model::Requested { .. }) => 9,
        Event::Model(Model::Streamed { .. }) => 10,
        Event::Tool(Tool::Called { .. }) => 11,
        Event::Model(Model::Finished { .. }) => 12,
        Event::Model(Model::Failed { .. }) => 13,
        Event::Model(Model::RetryScheduled { .. }) => 14,
        Event::Tool(Tool::ResolveStarted { .. }) => 15,
        Event::Tool(Tool::Resolved(_)) => 16,
        Event::Tool(Tool::Started { .. }) => 17,
        Event::Tool(Tool::Progressed { .. }) => 18,
        Event::Tool(Tool::Finished(_)) => 19,
        Event::Tool(Tool::Lost { .. }) => 20,
        Event::Tool(Tool::Cancelled { .. }) => 21,
        Event::Permission(Permission::Ruled { .. }) => 22,
        Event::Permission(Permission::Asked { .. }) => 23,
        Event::Permission(Permission::Answered { .. }) => 24,
        Event::Compaction(Compaction::Started { .. }) => 25,
        Event::Compaction(Compaction::Finished { .. }) => 26,
        Event::Compaction(Compaction::Failed { .. }) => 27,
        Event::Compaction(Compaction::Pruned { .. }) => 28,
        Event::Subagent(Subagent::Spawned { .. }) => 29,
        Event::Subagent(Subagent::EndedUncounted { .. }) => 30,
        Event::Todo(Todo::Updated { .. }) => 31,
        Event::Tool(Tool::Batched { .. }) => 32,
        Event::Compaction(Compaction::Asked { .. }) => 33,
        Event::Subagent(Subagent::Ended { .. }) => 34,
        Event::Turn(Turn::Switched { .. }) => 35,
        Event::Files(Files::SnapshotStarted {}) => 36,
        Event::Files(Files::Snapshotted { .. }) => 37,
        Event::Files(Files::SnapshotFailed { .. }) => 38,
        Event::Files(Files::RevertAsked { .. }) => 39,
        Event::Files(Files::UnrevertAsked { .. }) => 40,
        Event::Files(Files::RestoreStarted { .. }) => 41,
        Event::Files(Files::Restored { .. }) => 42,
        Event::Files(Files::RestoreFailed { .. }) => 43,
        Event::Files(Files::CheckoutAsked { .. }) => 44,
        Event::Session(Session::Adopted { .. }) => 45,
        Event::Session(Session::Imported { .. }) => 46,
        Event::Hook(Hook::Called { .. }) => 47,
        Event::Hook(Hook::Returned { .. }) => 48,
        Event::Tool(Tool::ElicitationRequested { .. }) => 49,
        Event::Tool(Tool::ElicitationAnswered { .. }) => 50,
        Event::Session(Session::Configured { .. }) => 51,
        Event::Session(Session::ResumedImported { .. }) => 52,
        Event::Permission(Permission::RejectedWith { .. }) => 53,
        Event::Tool(Tool::StartedSandboxed(_)) => 54,
        Event::Turn(Turn::Continued { .. }) => 55,
        Event::Files(Files::SnapshotFailedAs { .. }) => 56,
        Event::Files(Files::RestoreFailedAs { .. }) => 57,
        Event::Session(Session::RulesSet { .. }) => 58,
        Event::Turn(Turn::Noted { .. }) => 59,
        Event::Tool(Tool::InputStreamed { .. }) => 60,
        Event::Session(Session::Summarised { .. }) => 61,
        Event::Files(Files::SnapshotsAccepted { .. }) => 62,
        Event::Permission(Permission::AnsweredFor { .. }) => 63,
        Event::Compaction(Compaction::AskedWith { .. }) => 64,
        Event::Session(Session::Archived { .. }) => 65,
    }
}

pub const VARIANTS: usize = 66;
