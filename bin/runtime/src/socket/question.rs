//! Identifies the question that a client names, and its outcome.

use leftfold_events::event::{Event, Permission};
use leftfold_events::state::Phase;
use leftfold_events::{Envelope, Seq, State};

/// A client's name for a question.
#[derive(Clone, Debug)]
pub enum Which {
    Of(Seq),
    /// The model's id of the call, or the seq of its `tool.called` or of its question.
    Call(String),
}

impl Which {
    fn is(&self, asked: Seq, called: Option<Seq>, call: &str) -> bool {
        match self {
            Self::Of(of) => *of == asked,
            Self::Call(name) => {
                let is_seq = |seq: Seq| seq == asked || Some(seq) == called;
                name == call || name.parse().is_ok_and(is_seq)
            }
        }
    }

    /// The open question that matches.
    pub fn open(&self, state: &State) -> Option<Seq> {
        state.calls().find_map(|call| {
            // a running call may ask too
            let asked = if let Phase::Asking { wait, .. } = &call.phase {
                wait.intent
            } else {
                call.eliciting()?.intent
            };
            self.is(asked, Some(call.seq), &call.id).then_some(asked)
        })
    }
}

/// Searches a log from its beginning for the last question that matches.
#[derive(Debug)]
pub struct Search {
    which: Which,
    /// The question, and who has answered it.
    pub found: Option<(Seq, Option<String>)>,
}

impl Search {
    pub fn new(which: Which) -> Self {
        Self { which, found: None }
    }

    pub fn take(&mut self, event: &Envelope) {
        let Event::Permission(permission) = &event.event else { return };
        match (permission, &mut self.found) {
            (Permission::Asked { call, .. }, found) => {
                if self.which.is(event.seq, event.of, call) {
                    *found = Some((event.seq, None));
                }
            }
            (
                Permission::Answered { by, .. }
                | Permission::AnsweredFor { by, .. }
                | Permission::RejectedWith { by, .. },
                Some((of, answerer)),
            ) if event.of == Some(*of) => {
                *answerer = Some(by.clone());
            }
            _ => {}
        }
    }
}
