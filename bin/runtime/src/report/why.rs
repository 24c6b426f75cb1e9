//! Reports each open wait of a session: who has to act, since when and until when.

use std::fmt::Write;

use leftfold_events::event::{Event, Permission, Turn};
use leftfold_events::state::{EndedBy, OpenWait, PendingKind};
use leftfold_events::{Envelope, Seq, SessionId, State, Time, fold};
use leftfold_store::engine::Owner;
use serde::Serialize;
use serde_json::{Value, json};

use crate::executors;
use crate::history::History;
use crate::session_paths::SessionPlace;
use leftfold_view::clean::printable_line;
use leftfold_view::{Finding, Findings, event_line, words};

/// One wait of a session.
#[derive(Serialize)]
struct Waiting {
    session: SessionId,
    /// The intent that waits.
    seq: Seq,
    /// The kind of wait; `None`: the turn's own deadline, which ends the turn even if nothing waits
    /// for it.
    #[serde(serialize_with = "kind")]
    kind: Option<PendingKind>,
    /// The party that ends the wait.
    owner: String,
    what: String,
    /// The permissions and patterns that an answer `always` would allow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    always: Vec<String>,
    since: Time,
    until: Time,
}

const TURN: &str = "turn";

fn kind<S: serde::Serializer>(kind: &Option<PendingKind>, to: S) -> Result<S::Ok, S::Error> {
    match kind {
        Some(kind) => kind.serialize(to),
        None => to.serialize_str(TURN),
    }
}

/// The session's state and each of its waits, as text for people; `holder` answers the pid of the
/// store's node.
///
/// # Errors
/// The log is damaged, or cannot be read.
pub fn text(place: &SessionPlace, holder: impl FnOnce() -> Option<i32>) -> anyhow::Result<String> {
    let Look { status, owner, executor, waits, findings } = look(place, holder)?;
    let mut text = status.text(place.session);
    text += &owner.map(|owner| owner_line(&owner, &status)).unwrap_or_default();
    if let Some(trouble) = executor {
        let _ = writeln!(text, "  waits for its executor: {}", printable_line(&trouble));
    }
    for wait in &waits {
        text += &line(wait, place.session);
    }
    for (session, findings) in &findings {
        let whose = match *session == place.session {
            true => "the last turn".to_owned(),
            false => format!("its subagent {session}"),
        };
        let _ = writeln!(text, "  out of the ordinary in {whose}:");
        for finding in findings.lines() {
            let _ = writeln!(text, "    {}", printable_line(&finding));
        }
    }
    Ok(text)
}

/// The session's state and each of its waits, as one JSON object.
///
/// # Errors
/// The log is damaged, or cannot be read.
pub fn report(place: &SessionPlace, holder: impl FnOnce() -> Option<i32>) -> anyhow::Result<Value> {
    let Look { status, owner, executor, waits, findings } = look(place, holder)?;
    let mut report = serde_json::to_value(&status)?;
    report["session"] = json!(place.session);
    if let Some(Owner { node, place, messages, trouble }) = owner {
        (report["owner"], report["place"]) = (json!(node), json!(place));
        report["messages"] = json!(messages);
        if let Some((why, since)) = trouble {
            report["trouble"] = json!({ "why": why, "age_s": since.as_secs() });
        }
    }
    if let Some(trouble) = executor {
        report["executor"] = json!(trouble);
    }
    report["waits"] = json!(waits);
    let finding = |(session, Finding { seq, what }): (SessionId, &Finding)| json!({ "session": session, "seq": seq, "what": what });
    let findings = findings
        .iter()
        .flat_map(|(session, found)| found.all().iter().map(move |one| (*session, one)));
    report["findings"] = findings.map(finding).collect();
    Ok(report)
}

struct Look {
    status: SessionStatus,
    /// In a store that a database keeps.
    owner: Option<Owner>,
    /// Why the executor of an interrupted session is unavailable.
    executor: Option<String>,
    waits: Vec<Waiting>,
    /// Of the sessions whose last turn has findings.
    findings: Vec<(SessionId, Findings)>,
}

fn look(place: &SessionPlace, holder: impl FnOnce() -> Option<i32>) -> anyhow::Result<Look> {
    let history = History::read(place)?;
    let waits = history.sessions().flat_map(|(_, events)| waits(events)).collect();
    let began = history.root().iter().rev().find(|event| is_prompt(event)).map(|event| event.at);
    let of_turn = history.sessions().filter(|(_, events)| {
        events.iter().rev().find(|event| is_prompt(event)).map(|event| event.at) >= began
    });
    let mut findings = Findings::of_all(of_turn);
    findings.retain(|(_, found)| !found.all().is_empty());
    let owner = leftfold_store::owner(&place.store, place.session)?;
    let is_running = match &owner {
        Some(owner) => owner.node.is_some(),
        None => leftfold_store::in_use(&place.store),
    };
    // of a database, the node with the socket here may be another one
    let node = || if owner.is_some() { None } else { holder() };
    let state = fold(history.root());
    let status = SessionStatus::of(&state, is_running, node);
    let executor = state.config.options.executor.as_deref().filter(|_| !is_running);
    let executor = executor.filter(|_| matches!(status, SessionStatus::Interrupted));
    let executor = executor.and_then(executors::trouble);
    Ok(Look { status, owner, executor, waits, findings })
}

/// Says which node owns the session, or what it waits for.
fn owner_line(owner: &Owner, status: &SessionStatus) -> String {
    let place = owner.place.as_deref().unwrap_or_default();
    let nodes = executors::nodes_at(place);
    let nodes = printable_line(&nodes);
    let mut text = match (&owner.node, status) {
        (Some(node), _) => format!("  owner: {}\n", printable_line(node)),
        (None, SessionStatus::Interrupted) => {
            format!("  owner: none; it waits for {nodes} (`leftfold serve` or `leftfold node`)\n")
        }
        (None, SessionStatus::Running { .. } | SessionStatus::Idle { .. }) => String::new(),
    };
    if let Some((why, since)) = owner.trouble.as_ref().filter(|_| owner.node.is_none()) {
        let (why, age) = (printable_line(why), since.as_secs());
        let _ = writeln!(text, "  a node could not go on with it {age} s ago: {why}");
    }
    if owner.messages > 0 {
        let (messages, number) = (words::counted(count(owner.messages), "message"), owner.messages);
        let verb = if number == 1 { "waits" } else { "wait" };
        let whom = match owner.node {
            Some(_) => "its owner".to_owned(),
            None => nodes.to_string(),
        };
        let _ = writeln!(text, "  inbox: {messages} {verb} for {whom}");
    }
    text
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn is_prompt(event: &Envelope) -> bool {
    matches!(&event.event, Event::Turn(Turn::Prompted { .. }))
}

/// The state of the root session.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum SessionStatus {
    /// A node runs it.
    Running { node: Option<i32> },
    /// Its node ended in the middle of a turn.
    Interrupted,
    /// No turn is running.
    Idle { ended: Option<leftfold_events::event::EndReason>, at: Time, queued: usize },
}

impl SessionStatus {
    fn of(state: &State, is_running: bool, holder: impl FnOnce() -> Option<i32>) -> Self {
        if state.turn.is_none() {
            let answered = state.last_reply().map_or(0, |reply| reply.asked);
            let prompts = state.messages.iter().filter_map(|message| message.prompt());
            let queued = prompts.filter(|prompt| !prompt.quiet && prompt.seq > answered).count();
            let ended = state.ended.as_ref().map(|ended| ended.reason);
            return Self::Idle { ended, at: state.at, queued };
        }
        match is_running {
            true => Self::Running { node: holder() },
            false => Self::Interrupted,
        }
    }

    fn text(&self, session: SessionId) -> String {
        match self {
            Self::Running { node: Some(pid) } => format!("{session}: running, node pid {pid}\n"),
            Self::Running { node: None } => format!("{session}: running\n"),
            Self::Interrupted => format!(
                "{session}: interrupted, no node runs it: continue with `leftfold resume {session}`\n"
            ),
            Self::Idle { ended, at, queued } => {
                let ended =
                    ended.map(|reason| json!(reason).as_str().unwrap_or_default().to_owned());
                let ended = ended.map_or_else(|| "none".to_owned(), |e| format!("{e} at {at}"));
                let mut text = format!("{session}: idle; last turn: {ended}\n");
                if *queued > 0 {
                    let queued = words::counted(*queued, "prompt");
                    let _ = writeln!(text, "  queued for the next turn: {queued}");
                }
                text
            }
        }
    }
}

/// Every open wait of one session. The turn's own deadline may come before those of its waits.
fn waits(events: &[Envelope]) -> Vec<Waiting> {
    let state = fold(events);
    let of = |OpenWait { kind, wait, ended_by }: OpenWait| {
        let event = events.iter().find(|event| event.seq == wait.intent);
        Waiting {
            session: state.session,
            seq: wait.intent,
            kind,
            owner: ended_by.as_ref().map(owner).unwrap_or_default(),
            what: match kind {
                Some(_) => event.map(|event| what(event, &state)).unwrap_or_default(),
                None => "the turn's time limit".to_owned(),
            },
            always: event.map(offered).unwrap_or_default(),
            since: wait.since,
            until: wait.until,
        }
    };
    state.waits().into_iter().map(of).collect()
}

fn owner(ended_by: &EndedBy) -> String {
    match ended_by {
        EndedBy::Model(model) => format!("model {model}"),
        EndedBy::Tool => "the tool".to_owned(),
        EndedBy::Person => "a person".to_owned(),
        EndedBy::Plugin(plugin) => format!("the plugin {plugin}"),
        EndedBy::Session(session) => format!("session {session}"),
        EndedBy::Summary => "the summary".to_owned(),
        EndedBy::Snapshots => "the snapshots of the project's files".to_owned(),
        EndedBy::Clock => "the clock".to_owned(),
    }
}

/// The subject of an intent: its call, if it belongs to one.
fn what(event: &Envelope, state: &State) -> String {
    let detail = event_line::detail(&event.event);
    let about = matches!(event.event, Event::Tool(_) | Event::Subagent(_));
    let call = event.of.filter(|_| about);
    let call = call.and_then(|of| state.calls().find(|call| call.seq == of));
    match call {
        Some(call) => format!("{} {}", call.name, words::brief(&call.input.value())),
        None => detail,
    }
}

/// The rules that an answer `always` to a question would add.
fn offered(asked: &Envelope) -> Vec<String> {
    let Event::Permission(Permission::Asked { permission, always, .. }) = &asked.event else {
        return Vec::new();
    };
    always.iter().map(|pattern| format!("{permission}: {pattern}")).collect()
}

fn line(wait: &Waiting, root: SessionId) -> String {
    let Waiting { session, seq, kind, owner, what, always, since, until } = wait;
    let whose = if *session == root { String::new() } else { format!(" of child {session}") };
    let kind = kind.map_or_else(|| json!(TURN), |kind| json!(kind));
    let kind = kind.as_str().unwrap_or_default();
    let mut line = format!(
        "  {kind} (seq {seq}{whose}): {}\n    waits for {} since {since} until {until}\n",
        printable_line(what.trim()),
        printable_line(owner)
    );
    if wait.kind == Some(PendingKind::Question) {
        if !always.is_empty() {
            let allows = format!("`always` allows {}", always.join(", "));
            let _ = writeln!(line, "    {}", printable_line(&allows));
        }
        let _ = writeln!(
            line,
            "    answer: leftfold permission answer {session} {seq} once|always|reject"
        );
    }
    line
}
