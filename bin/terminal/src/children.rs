//! The children of the session on the screen: of what they do there is a word in the status line, and
//! what they ask is asked like the session's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use leftfold_events::event::{Event, Resolution, Session, Turn};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_tools::FilePreview;

use super::render::{Question, Renderer};
use super::style::Face;
use leftfold_view::clean::clean_line;
use leftfold_view::{QuestionId, question};
use leftfold_view::{SessionTree, SubagentStatus};

/// Follows the session and its children.
pub(super) struct Children {
    kin: SessionTree,
    at_work: BTreeMap<SessionId, Child>,
    /// When this node went on with the session: what was open before is to be opened again first.
    resumed: Time,
}

struct Child {
    /// What it shows is for its parent; its calls and questions are for people.
    renderer: Renderer,
    seen: Seq,
    at: Time,
}

/// A question that waits for its answer, of whichever session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) asked: QuestionId,
    /// The child's agent.
    agent: Option<String>,
    question: Question,
}

impl Children {
    pub(super) fn new(root: SessionId) -> Self {
        Self { kin: SessionTree::new(root), at_work: BTreeMap::new(), resumed: Time::default() }
    }

    pub(super) fn is_root(&self, event: &Envelope) -> bool {
        self.kin.is_root(event)
    }

    /// Takes an event in, with the `parent` that shows the session's own.
    pub(super) fn follow(&mut self, event: &Envelope, parent: &Renderer) {
        if self.is_root(event) {
            match &event.event {
                Event::Session(Session::Resumed { .. }) => self.resumed = event.at,
                Event::Turn(Turn::Ended(_)) => self.at_work.clear(),
                Event::Session(_)
                | Event::Turn(_)
                | Event::Model(_)
                | Event::Tool(_)
                | Event::Permission(_)
                | Event::Compaction(_)
                | Event::Subagent(_)
                | Event::Todo(_)
                | Event::Files(_)
                | Event::Plugin(_) => {}
            }
            self.kin.follow(event);
            return;
        }
        let child = self.at_work.entry(event.session).or_insert_with(|| {
            let mut renderer = Renderer::new(parent.look, 0);
            renderer.me.clone_from(&parent.me);
            Child { renderer, seen: 0, at: event.at }
        });
        // a session that was opened again is watched once more
        if event.seq > child.seen {
            (child.seen, child.at) = (event.seq, event.at);
            child.renderer.look = parent.look;
            child.renderer.show(event);
            self.kin.follow(event);
        }
    }

    /// What those at work do.
    pub(super) fn status(&self) -> Option<String> {
        let said = |member: &SubagentStatus| {
            let calls = match member.calls {
                0 => "begins".to_owned(),
                1 => format!("{} (1 call)", member.last),
                calls => format!("{} ({calls} calls)", member.last),
            };
            clean_line(&format!("{}: {calls}", member.agent))
        };
        let said: Vec<String> = self.kin.at_work().map(said).collect();
        (!said.is_empty()).then(|| said.join(" · "))
    }

    /// Every open question, the session's own first.
    pub(super) fn pending(&self, root: SessionId, own: &Renderer) -> Vec<Pending> {
        let of = |session: SessionId, agent: Option<&String>, renderer: &Renderer| {
            let agent = agent.cloned();
            let pending = |question: &Question| Pending {
                asked: (session, question.of),
                agent: agent.clone(),
                question: question.clone(),
            };
            renderer.questions.iter().map(pending).collect::<Vec<_>>()
        };
        let mut pending = of(root, None, own);
        for (session, child) in self.at_work.iter().filter(|(_, c)| c.at >= self.resumed) {
            let agent = self.kin.member(*session).map(|member| &member.agent);
            pending.extend(of(*session, agent, &child.renderer));
        }
        pending
    }

    /// What a question shows before its keys are named.
    pub(super) fn question(
        &mut self,
        pending: &Pending,
        change: &[FilePreview],
        own: &mut Renderer,
    ) -> String {
        let Some(child) = self.at_work.get_mut(&pending.asked.0) else {
            return own.question(&pending.question, change);
        };
        let agent = pending.agent.as_deref().unwrap_or("subagent");
        let from = own.note(Face::DIM, &format!("  {} asks:", clean_line(agent)));
        child.renderer.text_ends();
        from + &child.renderer.question(&pending.question, change)
    }

    /// The call that a question is about, if it would change files.
    pub(super) fn change_of(&self, asked: QuestionId, own: &Renderer) -> Option<Arc<Resolution>> {
        let child = self.at_work.get(&asked.0).map(|child| &child.renderer);
        child.unwrap_or(own).inquiries.change(asked.1)
    }

    /// What an open question asks, if it is one of the `question` tool.
    pub(super) fn inquiry_of(
        &self,
        asked: QuestionId,
        own: &Renderer,
    ) -> Option<question::Question> {
        let child = self.at_work.get(&asked.0).map(|child| &child.renderer);
        child.unwrap_or(own).inquiry_of(asked.1)
    }
}

impl Pending {
    /// If it is one of the `question` tool: what is asked.
    pub(super) fn inquiry(&self) -> Option<&question::Question> {
        self.question.inquiry.as_ref()
    }
}
