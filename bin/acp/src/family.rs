//! The children of a session, as its client is told of them, which knows only the session: what they
//! do stands under the call that started them, and what they ask is asked as the session's own.

use std::collections::{HashMap, HashSet};

use agent_client_protocol::v1::schema::{
    SessionUpdate, ToolCallId, ToolCallUpdate, ToolCallUpdateFields,
};
use leftfold_events::event::{Event, Turn};
use leftfold_events::{Envelope, Seq, SessionId};

use super::calls;
use super::view::{self, Told, View};
use leftfold_view::SessionTree;

/// Lines that are shown of what the children of one call do: the last.
const LINES: usize = 40;

pub(super) struct Children {
    kin: SessionTree,
    views: HashMap<SessionId, Child>,
    /// For each call of the session's, what is said of its children.
    lines: HashMap<Seq, Vec<String>>,
}

struct Child {
    view: View,
    /// The calls that the client was asked about: it is told what becomes of them.
    asked: HashSet<ToolCallId>,
    seen: Seq,
}

impl Children {
    pub(super) fn new(root: SessionId) -> Self {
        Self { kin: SessionTree::new(root), views: HashMap::new(), lines: HashMap::new() }
    }

    pub(super) fn is_root(&self, event: &Envelope) -> bool {
        self.kin.is_root(event)
    }

    /// Whether a child is at work, as far as its parent knows.
    pub(super) fn works(&self, child: SessionId) -> bool {
        self.kin.member(child).is_some_and(|member| member.works)
    }

    /// What the client is told of an event because of a child.
    pub(super) fn see(&mut self, event: &Envelope) -> Vec<Told> {
        if self.is_root(event) {
            self.kin.follow(event);
            if let Event::Turn(Turn::Ended(_)) = &event.event {
                self.views.clear();
                self.lines.clear();
            }
            return Vec::new();
        }
        let session = event.session;
        let works = self.works(session);
        let child = self.views.entry(session).or_insert_with(|| Child {
            view: View::of_child(session, self.kin.member(session).map(|m| m.agent.as_str())),
            asked: HashSet::new(),
            seen: 0,
        });
        if event.seq <= child.seen {
            return Vec::new();
        }
        child.seen = event.seq;
        let mut told = child.see(event);
        if let Some(line) = self.kin.follow(event).filter(|_| works) {
            told.extend(self.progress(session, line));
        }
        told
    }

    /// The call's content, with one more line.
    fn progress(&mut self, session: SessionId, line: String) -> Option<Told> {
        let under = self.kin.member(session)?.under;
        if under == 0 {
            return None;
        }
        let lines = self.lines.entry(under).or_default();
        lines.push(line);
        let over = lines.len().saturating_sub(LINES);
        lines.drain(..over);
        let fields = ToolCallUpdateFields::new().content(calls::text(&lines.join("\n")));
        let update = ToolCallUpdate::new(view::id(under), fields);
        Some(Told::Update(Box::new(SessionUpdate::ToolCallUpdate(update))))
    }
}

impl Child {
    /// Its questions, and what becomes of the calls that they are about.
    fn see(&mut self, event: &Envelope) -> Vec<Told> {
        let mut told = self.view.see(event);
        told.retain(|told| match told {
            Told::Ask(question) => {
                self.asked.insert(question.call.tool_call_id.clone());
                true
            }
            Told::Settled(_) => true,
            Told::Update(update) => {
                if let SessionUpdate::ToolCallUpdate(update) = &**update {
                    self.asked.contains(&update.tool_call_id)
                } else {
                    false
                }
            }
            Told::Prompted { .. } | Told::Switched(_) | Told::Ended { .. } | Told::Silent(_) => {
                false
            }
        });
        if let Event::Turn(Turn::Ended(_)) = &event.event {
            told.push(Told::Silent(event.session));
        }
        told
    }
}
