//! Facts in their plainest form.

use leftfold_events::event::{
    Access, CallKind, Class, EndReason, FailureClass, Finish, Finished, Model, ModelRef, PartKind,
    PromptPart, Resolution, StreamedPart, Subagent, Turn, Usage,
};
use leftfold_events::{Fact, Json, SessionId, Sha256};

/// The end of a child with this cost.
pub(crate) fn child_ended(
    session: SessionId,
    answer: String,
    reason: EndReason,
    cost: f64,
) -> Subagent {
    Subagent::Ended { session, answer, reason, usage: Usage::default(), cost }
}

pub(crate) fn prompted(parts: Vec<PromptPart>) -> Fact {
    let model = ModelRef { provider: "p".into(), id: "m".into() };
    Fact::new(Turn::Prompted { parts, agent: "build".into(), model, by: "test".into() })
}

pub(super) fn streamed(kind: PartKind, text: &str, signature: Option<&str>) -> Model {
    let signature = signature.map(Into::into);
    let id = format!("{kind:?}");
    Model::Streamed {
        parts: vec![StreamedPart { id, kind, text: text.into(), signature, redacted: false }],
    }
}

pub(super) fn replied(finish: Finish, input: u64) -> Model {
    let usage = Usage { input, ..Usage::default() };
    Model::Finished { finish, usage, cost: 0.5, body_sha256: Sha256::default() }
}

pub(super) fn failed_for_good() -> Model {
    Model::Failed {
        class: FailureClass::Other,
        message: "it failed".into(),
        status: None,
        retryable: false,
        retry_after: None,
    }
}

pub(crate) fn resolution(id: &str, class: Class, access: (&str, &str), path: &str) -> Resolution {
    Resolution {
        name: format!("tool_{id}"),
        input: Json::object(),
        class,
        access: vec![Access {
            permission: access.0.into(),
            patterns: vec![access.1.into()],
            always: vec!["*".into()],
        }],
        paths: if path.is_empty() { Vec::new() } else { vec![path.into()] },
        timeout: 5_000,
        error: None,
        kind: CallKind::Plain,
    }
}

pub(crate) fn finished(id: &str, output: &str) -> Finished {
    Finished {
        call: id.into(),
        title: String::new(),
        output: output.into(),
        is_error: false,
        metadata: Json::object(),
        spill: None,
        attachments: Vec::new(),
    }
}
