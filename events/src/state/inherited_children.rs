//! The children in the shared events of a fork. A call of the fork can continue one of them, in a
//! fork of that child which belongs to this session.
//!
//! The id of the inherited child's fork follows from the call. Later calls that name the child
//! continue the same fork.

use serde::Serialize;

use super::{Call, State};
use crate::id::{Seq, SessionId};

/// A child that was spawned in the shared events of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InheritedChild {
    pub session: SessionId,
    /// The fork of it that works for this session; `None` until a call continues it.
    pub heir: Option<SessionId>,
}

impl State {
    /// Marks the children so far as another session's.
    pub(super) fn inherit(&mut self) {
        for child in std::mem::take(&mut self.children) {
            let session = child.session;
            if !self.inherited.iter().any(|known| known.session == session) {
                self.inherited.push(InheritedChild { session, heir: None });
            }
        }
    }

    /// Whether it is not a child of another session.
    pub(crate) fn is_root(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.parent.is_none())
    }

    /// The session for a call that names `session` as the task to continue.
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

    /// The task that a call wants to continue.
    pub(crate) fn task_of(&self, call: &Call) -> Option<SessionId> {
        let resolved = call.resolved.as_ref()?;
        let input = resolved.input.value();
        // logs of earlier versions have the second name
        let named = input.get("task_id").or_else(|| input.get("taskId"));
        Some(self.successor(named?.as_str()?.parse().ok()?))
    }

    /// A call has spawned a session. Returns the session that it is a fork of, if the call names an
    /// inherited child that has no heir yet.
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
