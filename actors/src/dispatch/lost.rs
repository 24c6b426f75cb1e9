//! The outcomes that the session gets when a worker has died with an intent in hand.

use leftfold_events::event::{CallKind, Class, FailureClass, Finished, Model, Resolution, Tool};
use leftfold_events::state::{Call, Phase};
use leftfold_events::{Fact, Json, Seq};

use crate::tool_executor;

pub(super) fn request_lost(of: Seq) -> Fact {
    Fact::for_intent(
        of,
        Model::Failed {
            class: FailureClass::Other,
            message: "the worker that read the reply died".to_owned(),
            status: None,
            retryable: true,
            retry_after: None,
        },
    )
}

pub(super) fn check_lost(call: &Call) -> Option<Fact> {
    let Phase::Checking(wait) = &call.phase else { return None };
    let resolution = Resolution {
        name: call.name.clone(),
        input: call.input.clone(),
        class: Class::Command,
        access: Vec::new(),
        paths: Vec::new(),
        timeout: 0,
        error: Some("The call could not be checked: the tool worker died.".to_owned()),
        kind: CallKind::Plain,
    };
    Some(Fact::for_intent(wait.intent, Tool::Resolved(Box::new(resolution))))
}

/// The outcome of a run. A call with a child session continues, because the executor does not run
/// it.
pub(super) fn run_lost(call: &Call) -> Option<Fact> {
    call.resolved.as_ref().filter(|resolved| resolved.class != Class::Child)?;
    let Phase::Running { wait, .. } = &call.phase else { return None };
    let finished = Finished {
        call: call.id.clone(),
        title: String::new(),
        output: tool_executor::DIED.into(),
        is_error: true,
        metadata: Json::object(),
        spill: None,
        attachments: Vec::new(),
    };
    Some(Fact::for_intent(wait.intent, Tool::Finished(Box::new(finished))))
}
