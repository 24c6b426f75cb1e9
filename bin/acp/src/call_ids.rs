//! The ids of calls for the client. Models repeat their own ids, so an id names the call's seq, or its request if the
//! client has seen the call while it was written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_events::{Seq, SessionId};

/// The ids of the turn's calls that the client has seen while they were written. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct CallIds(Arc<Mutex<HashMap<Seq, String>>>);

impl CallIds {
    /// The call's id for the client.
    pub(super) fn for_call(&self, call: Seq) -> String {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.get(&call).cloned().unwrap_or_else(|| id(call))
    }

    /// The client knows the call by this id.
    pub(super) fn set(&self, call: Seq, id: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call, id);
    }

    /// The turn is over: no update of its calls follows.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The id of a call that the model is writing in the reply to `request`.
pub(super) fn while_written(request: Seq, model_id: &str) -> String {
    format!("call-{request}-{model_id}")
}

pub(super) fn in_subagent(session: SessionId, call: Seq) -> String {
    format!("{session}-{}", id(call))
}

fn id(call: Seq) -> String {
    format!("call-{call}")
}
