//! What a fork has of the other session's children: a call may go on with one of them, in a fork of its own
//! that is the child of this session.

use serde::Serialize;

use super::{Call, State};
use crate::id::{Seq, SessionId};

/// A child that was spawned in what a fork shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InheritedChild {
    pub session: SessionId,
    /// The fork of it that works for this session; `None` until a call goes on with it.
    pub heir: Option<SessionId>,
}

impl State {
    /// From here on the children so far are another session's.
    pub(super) fn inherit(&mut self) {
        for child in std::mem::take(&mut self.children) {
            let session = child.session;
            if !self.inherited.iter().any(|known| known.session == session) {
                self.inherited.push(InheritedChild { session, heir: None });
            }
        }
    }

    /// Whether it is no child of another session.
    pub(crate) fn is_root(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.parent.is_none())
    }

    /// The session that is meant by a call which names `session` as the task to go on with.
    fn successor(&self, session: SessionId) -> SessionId {
        let mut meant = session;
        // a forked child comes later in the list than the child it was forked from
        for known in &self.inherited {
            if known.session == meant {
                meant = known.heir.unwrap_or(meant);
            }
        }
        meant
    }

    /// The task that a call wants to go on with.
    pub(crate) fn task_of(&self, call: &Call) -> Option<SessionId> {
        let resolved = call.resolved.as_ref()?;
        let named = resolved.input.value()["taskId"].as_str()?.parse().ok()?;
        Some(self.successor(named))
    }

    /// A call has spawned a session: what that is a fork of, if the call means an inherited child which
    /// has no heir yet.
    pub(super) fn succeed(&mut self, call: Option<Seq>, spawned: SessionId) -> Option<SessionId> {
        let of = self.task_of(self.calls().find(|c| Some(c.seq) == call)?)?;
        if self.inherited.iter().any(|known| known.session == spawned) {
            return None;
        }
        let known = self.inherited.iter_mut().find(|known| known.session == of)?;
        known.heir = Some(spawned);
        Some(of)
    }
}
