//! Computes, from the state right before an event, why the session decided it and how long it
//! waited for it.

use leftfold_events::event::{
    Compaction, EndReason, Ended, Event, Model, Permission, Purpose, Session, Tool, Turn,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::{Call, ModelStatus, PendingKind, Phase, Wait};
use leftfold_events::turn_config::{AskMode, SandboxOptions};
use leftfold_events::{Envelope, Seq, State};
use serde_json::json;

use crate::words::{counted, shorten};

/// The reason of `event`; `before` is the state right before it. `None` if the event needs no
/// reason.
pub fn reason(before: &State, event: &Envelope) -> Option<String> {
    match &event.event {
        Event::Model(model) => model_reason(before, event, model),
        Event::Tool(tool) => tool_reason(before, event, tool),
        Event::Permission(Permission::Ruled { action, rule, .. }) => {
            ruled(before, event.of, *action, rule.as_ref())
        }
        Event::Permission(Permission::Answered { .. } | Permission::AnsweredFor { .. }) => {
            took(before, event)
        }
        Event::Permission(Permission::RejectedWith { .. }) => {
            Some("another call of the reply was rejected with words".to_owned())
        }
        Event::Compaction(Compaction::Started { auto, .. }) => Some(full(before, *auto)),
        Event::Compaction(Compaction::Pruned { .. }) => {
            Some("old tool output is dropped to save tokens".to_owned())
        }
        Event::Compaction(_) => took(before, event),
        Event::Turn(Turn::Ended(ended)) => end_reason(before, ended),
        Event::Session(Session::DeadlinePassed {}) => Some(elapsed(before, event)),
        Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. }) => {
            let open = before.open().into_iter().map(|(kind, _)| named(kind));
            let open: Vec<String> = open.collect();
            (!open.is_empty())
                .then(|| format!("interrupted while waiting for: {}", open.join(", ")))
        }
        Event::Hook(leftfold_events::event::Hook::Returned { .. }) => took(before, event),
        _ => None,
    }
}

fn model_reason(before: &State, event: &Envelope, model: &Model) -> Option<String> {
    let turn = before.turn.as_ref()?;
    match model {
        Model::Requested { purpose: Purpose::Turn, attempt, .. } => {
            let any = before.calls().next().is_some();
            let why = match &turn.model_status {
                ModelStatus::Again if *attempt > 1 => "the step is retried",
                ModelStatus::Answered { .. } if any => "the calls of the last reply have finished",
                ModelStatus::Answered { .. } => "a prompt arrived during the step",
                ModelStatus::Due if turn.step == 0 => "a prompt arrived",
                ModelStatus::Due if any => "the calls of the last reply have finished",
                _ => "the turn continues",
            };
            Some(why.to_owned())
        }
        Model::RetryScheduled { .. } => {
            let wait = event.until.map(|until| seconds(until.since(event.at)))?;
            let hint =
                matches!(&turn.model_status, ModelStatus::Failed(f) if f.retry_after.is_some());
            let asked = if hint { ", as the server requested" } else { "" };
            Some(format!("again in {wait}{asked}"))
        }
        Model::Finished { .. } | Model::Failed { .. } => took(before, event),
        _ => None,
    }
}

fn tool_reason(before: &State, event: &Envelope, tool: &Tool) -> Option<String> {
    let call = || before.calls().find(|call| Some(call.seq) == event.of);
    match tool {
        Tool::Started { attempt, .. } if *attempt > 1 => {
            Some("its node died; it only reads, so it runs again".to_owned())
        }
        Tool::Lost { attempt: 0, .. } => Some("its node died before it started".to_owned()),
        Tool::Lost { .. } => {
            Some("its node died while it ran: it is not known how far it got".to_owned())
        }
        Tool::Cancelled { .. } => Some(cancelled(before, call()?)),
        Tool::Finished(_) => took(before, event),
        _ => None,
    }
}

fn cancelled(before: &State, call: &Call) -> String {
    let stop = before.turn.as_ref().and_then(|turn| turn.stop);
    match (&call.phase, stop) {
        (Phase::TimedOut { .. }, _) => {
            let limit = call.resolved.as_ref().map_or(0, |resolved| resolved.timeout);
            format!("it exceeded its time limit of {}", seconds(limit))
        }
        (_, Some(stop)) => format!("the turn is stopped: {}", word(stop)),
        (_, None) => "no step is left in which the model could use its result".to_owned(),
    }
}

/// The judged permission and patterns, and more if the rule alone does not explain the result.
fn ruled(before: &State, of: Option<Seq>, action: Action, rule: Option<&Rule>) -> Option<String> {
    let call = before.calls().find(|call| Some(call.seq) == of)?;
    if let Some(veto) = &call.vetoed {
        return Some(format!("the plugin {} decided: {}", veto.plugin, shorten(&veto.reason, 200)));
    }
    let judged = |access: &leftfold_events::event::Access| {
        format!("{} `{}`", access.permission, access.patterns.join("`, `"))
    };
    let judged: Vec<String> = call.access().iter().map(judged).collect();
    let judged = shorten(&judged.join("; "), 200);
    let options = &before.config.options;
    let needs = |permission: &str| call.access().iter().any(|it| it.permission == permission);
    let allows_inside = options.sandbox.as_ref().is_some_and(SandboxOptions::allows);
    let why = match (action, rule) {
        (Action::Deny, rule)
            if options.ask == AskMode::Deny && rule.is_none_or(|r| r.action == Action::Ask) =>
        {
            "; the rules say ask, but nobody can be asked"
        }
        (Action::Allow, Some(rule)) if rule.action == Action::Ask => {
            "; the rules say ask, and everything is allowed in advance"
        }
        (Action::Allow, Some(rule)) if before.approved.contains(rule) => {
            "; an earlier answer was “always”"
        }
        (Action::Allow, Some(rule)) if options.approved.contains(rule) => {
            "; an answer in another session was “always”"
        }
        (Action::Ask, None) => "; no rule matches",
        (Action::Allow, None) if options.accept_edits && needs("edit") => {
            "; edits inside the project need no question in this turn"
        }
        (Action::Allow, None) if allows_inside && needs("bash") => {
            "; commands that stay in the sandbox need no question"
        }
        (Action::Allow | Action::Ask | Action::Deny, _) => "",
    };
    let text = format!("{judged}{why}");
    (!text.is_empty()).then_some(text)
}

fn full(before: &State, auto: bool) -> String {
    if !auto {
        return "requested by a client".to_owned();
    }
    if let Some(ModelStatus::Failed(failure)) = before.turn.as_ref().map(|turn| &turn.model_status)
    {
        return format!("the provider refused the request: {}", failure.message);
    }
    let taken = before.context_used();
    let room = before.usable().unwrap_or_default();
    format!("the last exchange used {taken} tokens of the {room} that fit")
}

fn end_reason(before: &State, ended: &Ended) -> Option<String> {
    let denials = ended.permission_denials.iter().map(|denial| {
        format!("{} {} `{}`", denial.reason, denial.permission, denial.patterns.join("`, `"))
    });
    let denials: Vec<String> = denials.collect();
    let denials = shorten(&denials.join("; "), 200);
    let why = match ended.reason {
        EndReason::Completed if before.structured_output().is_some() => {
            "the model gave an answer that fits the schema".to_owned()
        }
        EndReason::Completed if ended.steps == 0 => "it needed no answer of the model".to_owned(),
        EndReason::Completed if ended.steps >= before.config.options.max_steps => {
            let steps = counted(ended.steps, "step");
            format!("the turn may take {steps}, and this was the last")
        }
        EndReason::Completed => "the model answered without a call".to_owned(),
        EndReason::Aborted => "the turn was interrupted".to_owned(),
        EndReason::MaxSteps => {
            format!("the limit of {} steps was reached", before.config.options.max_steps)
        }
        _ => String::new(),
    };
    let parts = [why, denials].into_iter().filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn elapsed(before: &State, event: &Envelope) -> String {
    match waited(before, event.of) {
        Some((kind, wait)) => {
            let over = wait.until.since(wait.since);
            format!("waited for {} for {}", named(kind), seconds(over))
        }
        None => "the turn's time limit was reached".to_owned(),
    }
}

/// How long the outcome of `of` took.
fn took(before: &State, event: &Envelope) -> Option<String> {
    let (_, wait) = waited(before, event.of)?;
    Some(format!("after {}", seconds(event.at.since(wait.since))))
}

fn waited(before: &State, of: Option<Seq>) -> Option<(PendingKind, Wait)> {
    before.open().into_iter().find(|(_, wait)| Some(wait.intent) == of)
}

fn named(kind: PendingKind) -> String {
    format!("a {}", json!(kind).as_str().unwrap_or_default())
}

fn word(reason: EndReason) -> String {
    json!(reason).as_str().unwrap_or_default().replace('_', " ")
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}
