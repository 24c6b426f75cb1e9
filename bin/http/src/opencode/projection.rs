//! A root session and its subagents as clients know them.

use std::collections::BTreeMap;

use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_view::Transcript;
use serde_json::Value;

use super::frame::Frame;
use super::session::SessionProjection;

/// The fold of a root session and its subagents.
#[derive(Debug)]
pub(crate) struct Projection {
    root: SessionId,
    /// The number of the root among the forks of a session; 0: it is no fork.
    fork_number: u32,
    transcript: Transcript,
    sessions: BTreeMap<SessionId, SessionProjection>,
}

impl Projection {
    pub(crate) fn new(root: SessionId, fork_number: u32) -> Self {
        let (transcript, sessions) = (Transcript::full(root).from_start(), BTreeMap::new());
        Self { root, fork_number, transcript, sessions }
    }

    /// Applies an event, and returns the frames that follow from it. An event that arrives again has
    /// none.
    pub(crate) fn apply(&mut self, event: &Envelope) -> Vec<Frame> {
        let id = self.transcript.session_of(event);
        let known = self.seq(id);
        let changes = self.transcript.apply(event);
        let Some(view) = self.transcript.session(id).filter(|view| view.seq > known) else {
            return Vec::new();
        };
        let fork_number = if id == self.root { self.fork_number } else { 0 };
        let new = || SessionProjection::new(id, fork_number);
        let projection = self.sessions.entry(id).or_insert_with(new);
        projection.follow(event, view, &changes, self.transcript.subagent(id))
    }

    /// The session whose log an event counts in: a fork has the events that it shares.
    pub(crate) fn session_of(&self, event: &Envelope) -> SessionId {
        self.transcript.session_of(event)
    }

    /// The last event of a session that was applied.
    pub(crate) fn seq(&self, id: SessionId) -> Seq {
        self.transcript.session(id).map_or(0, |view| view.seq)
    }

    /// The time of that event.
    pub(crate) fn at(&self, id: SessionId) -> Time {
        self.transcript.session(id).map_or(Time::default(), |view| view.at)
    }

    /// Whether the session has an open turn.
    pub(crate) fn is_working(&self, id: SessionId) -> bool {
        self.transcript.session(id).is_some_and(|view| view.turn.is_some())
    }

    /// Shows that nobody runs the open turns.
    pub(crate) fn cut_off(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (id, projection) in &mut self.sessions {
            if let Some(view) = self.transcript.session(*id) {
                frames.extend(projection.cut_off(view));
            }
        }
        frames
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<&SessionProjection> {
        self.sessions.get(&id)
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionId, &SessionProjection)> {
        self.sessions.iter().map(|(id, projection)| (*id, projection))
    }

    pub(crate) fn todos(&self, id: SessionId) -> Value {
        let view = self.transcript.session(id);
        view.map_or_else(|| Value::Array(Vec::new()), |view| serde_json::json!(view.todos))
    }

    /// The open questions of a session: permissions and questions of tools.
    pub(crate) fn open_questions(&self, id: SessionId) -> Vec<Frame> {
        match (self.sessions.get(&id), self.transcript.session(id)) {
            (Some(projection), Some(view)) => projection.open(view),
            (None, _) | (_, None) => Vec::new(),
        }
    }

    /// The sessions that work, and their open questions.
    pub(crate) fn open(&self) -> Vec<Frame> {
        let sessions = self.sessions.iter().filter(|(_, known)| known.status()["type"] != "idle");
        let known = sessions.filter_map(|(id, known)| Some((known, self.transcript.session(*id)?)));
        known.flat_map(|(known, view)| known.snapshot(view, 0)).collect()
    }

    /// Everything that a client needs to know, as frames that add or replace.
    pub(crate) fn snapshot(&self, limit: usize) -> Vec<Frame> {
        let sessions = self.sessions.iter();
        let known = sessions.filter_map(|(id, known)| Some((known, self.transcript.session(*id)?)));
        known.flat_map(|(known, view)| known.snapshot(view, limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::Turn;
    use leftfold_events::{Event, Notes, TurnConfig};
    use serde_json::json;

    use super::*;

    /// A turn of two requests, the first of which calls a tool.
    fn log(session: SessionId) -> Vec<Envelope> {
        let model = json!({ "provider": "p", "id": "m" });
        let hash = "0".repeat(64);
        let requested = json!({ "model": model, "step": 1, "attempt": 1, "purpose": "turn", "request_sha256": hash });
        let usage =
            json!({ "input": 10, "output": 2, "reasoning": 0, "cache_read": 0, "cache_write": 0 });
        let finished =
            |finish| json!({ "finish": finish, "usage": usage, "cost": 0.5, "body_sha256": hash });
        let events = [
            (
                0,
                "session.created",
                json!({
                    "directory": "/p", "worktree": "/p", "parent": null, "agent": "build", "version": "1", "policy": 1,
                }),
            ),
            (
                0,
                "turn.prompted",
                json!({
                    "parts": [{ "type": "text", "text": "go" }], "agent": "build", "model": model, "by": "cli",
                }),
            ),
            (0, "model.requested", requested.clone()),
            (3, "model.finished", finished("tool_calls")),
            (3, "tool.called", json!({ "call": { "id": "c", "name": "bash", "input": {} } })),
            (5, "tool.resolve_started", json!({ "call": "c" })),
            (
                6,
                "tool.resolved",
                json!({
                    "name": "bash", "input": {}, "class": "command", "access": [], "paths": [], "timeout": 1000, "error": null,
                }),
            ),
            (
                5,
                "tool.started",
                json!({ "call": "c", "name": "bash", "class": "command", "attempt": 1 }),
            ),
            (
                8,
                "tool.finished",
                json!({
                    "call": "c", "title": "", "output": "", "is_error": false, "metadata": {}, "spill": null,
                    "attachments": [],
                }),
            ),
            (0, "model.requested", requested),
            (
                10,
                "model.streamed",
                json!({ "parts": [{ "id": "0", "kind": "text", "text": "Done." }] }),
            ),
            (10, "model.finished", finished("stop")),
            (
                0,
                "turn.ended",
                json!({
                    "reason": "completed", "text": "Done.", "usage": usage, "cost": 1.0, "steps": 2,
                    "permission_denials": [], "error": null,
                }),
            ),
        ];
        let envelope = |(seq, (of, kind, data)): (Seq, (Seq, &str, Value))| {
            let (concern, name) = kind.split_once('.').unwrap();
            let event: Event = serde_json::from_value(json!({ concern: { name: data } })).unwrap();
            let (of, notes) = ((of > 0).then_some(of), Notes::default());
            Envelope {
                session,
                seq,
                at: Time::from_millis(seq * 1_000),
                of,
                until: None,
                event,
                notes,
            }
        };
        (1..).zip(events).map(envelope).collect()
    }

    /// A client would take an idle session for the end of its own prompt.
    #[test]
    fn a_turn_that_is_closed_for_the_next_prompt_is_not_busy_once_more() {
        let session = SessionId::default();
        let log = log(session);
        let mut projection = Projection::new(session, 0);
        log[..3].iter().for_each(|event| drop(projection.apply(event)));
        projection.cut_off();
        let ended = log[12].event.clone();
        let events = [
            Event::Turn(Turn::Configured(TurnConfig::default().payloads())),
            serde_json::from_value(
                json!({ "session": { "resumed": { "policy": 1, "close": true } } }),
            )
            .unwrap(),
            ended,
        ];
        for (seq, event) in (4..).zip(events) {
            let frames = projection.apply(&Envelope { seq, event, of: None, ..log[2].clone() });
            let told = frames.iter().find(|frame| frame.kind.starts_with("session.status"));
            assert!(told.is_none(), "{seq}: {told:?}");
        }
    }

    /// A node may be taken for dead although it is not.
    #[test]
    fn a_turn_that_goes_on_although_it_was_shown_as_cut_off_is_shown_as_its_log_is() {
        let session = SessionId::default();
        let log = log(session);
        let shown = |cut_off_after: usize| {
            let mut projection = Projection::new(session, 0);
            for (count, event) in (1..).zip(&log) {
                projection.apply(event);
                if count == cut_off_after {
                    projection.cut_off();
                }
            }
            let known = projection.session(session).unwrap();
            let messages: Vec<Value> =
                known.messages().iter().map(|message| message.whole()).collect();
            (messages, known.status().clone())
        };
        let expected = shown(0);
        assert_eq!(expected.0.len(), 3, "{expected:?}");
        for count in 2..log.len() {
            assert_eq!(shown(count), expected, "cut off after event {count}");
        }
    }
}
