//! Checks of events, requests and logs.

use leftfold_events::event::{
    Class, Event, Files, Hook, Model, Permission, Purpose, Saved, Started, Subagent, Tool, Turn,
};
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::{Envelope, Request, State, TurnConfig, line, request_builder};

use super::{Run, Step, config};

/// One event in a few words, for tables.
pub(crate) fn describe(envelope: &Envelope) -> String {
    let kind = line::type_of(&envelope.event);
    let detail = match &envelope.event {
        Event::Model(Model::Requested { purpose: Purpose::Title, .. }) => " title".to_owned(),
        Event::Model(Model::Requested { purpose: Purpose::SessionSummary, .. }) => {
            " summary".to_owned()
        }
        Event::Model(Model::Requested { step, attempt, .. }) => format!(" {step}.{attempt}"),
        Event::Model(Model::RetryScheduled { attempt, .. }) => format!(" {attempt}"),
        Event::Tool(Tool::ResolveStarted { call }) => format!(" {call}"),
        Event::Subagent(Subagent::Spawned { call, .. }) => format!(" {call}"),
        Event::Tool(Tool::Batched { call }) => format!(" {}", call.id),
        Event::Tool(
            Tool::Started { call, attempt, .. }
            | Tool::Lost { call, attempt }
            | Tool::Cancelled { call, attempt },
        ) => format!(" {call} {attempt}"),
        Event::Tool(Tool::StartedSandboxed(started)) => {
            format!(" {} {}", started.call, started.attempt)
        }
        Event::Permission(Permission::Ruled { call, action, .. }) => {
            format!(" {call} {action:?}").to_lowercase()
        }
        Event::Permission(Permission::Asked { call, .. }) => format!(" {call}"),
        Event::Files(Files::RestoreStarted { paths, .. }) => {
            let path = |saved: &Saved| format!(" {}={}", saved.path, saved.tree);
            paths.iter().map(path).collect()
        }
        Event::Hook(Hook::Called { plugin, hook }) => format!(" {plugin} {}", hook.name()),
        Event::Turn(Turn::Continued { finish, .. }) => format!(" {finish:?}").to_lowercase(),
        Event::Turn(Turn::Ended(ended)) => format!(" {:?}", ended.reason).to_lowercase(),
        _ => String::new(),
    };
    format!("{kind}{detail}")
}

/// Checks that any API would accept the request; the error is a message.
pub(crate) fn fault(request: &Request) -> Option<String> {
    let mut ids = std::collections::HashSet::new();
    let messages = &request.messages;
    let answers = |at: usize| match messages.get(at) {
        Some(RequestMessage::Tool { results }) => {
            results.iter().map(|result| result.call.clone()).collect()
        }
        _ => Vec::new(),
    };
    if !matches!(messages.first(), Some(RequestMessage::User { .. })) {
        return Some("it does not begin with a user message".into());
    }
    for (at, message) in messages.iter().enumerate() {
        match message {
            RequestMessage::User { parts } if parts.iter().any(|p| p.text.trim().is_empty()) => {
                return Some("empty user text".into());
            }
            RequestMessage::User { .. } => {}
            RequestMessage::Tool { results } => {
                if !matches!(messages.get(at - 1), Some(RequestMessage::Assistant { .. })) {
                    return Some("results without calls".into());
                }
                if results.iter().any(|result| result.output.trim().is_empty()) {
                    return Some("empty result".into());
                }
            }
            RequestMessage::Assistant { parts } => {
                let mut calls = Vec::new();
                for part in parts.iter() {
                    match part {
                        AssistantPart::Text { text } if text.trim().is_empty() => {
                            return Some("empty assistant text".into());
                        }
                        AssistantPart::Call { id, .. } => {
                            calls.push(id.clone());
                            if !ids.insert(id.clone()) {
                                return Some(format!("call id {id} twice"));
                            }
                        }
                        _ => {}
                    }
                }
                if parts.is_empty() {
                    return Some("empty assistant message".into());
                }
                if calls != answers(at + 1) {
                    return Some(format!("calls {calls:?} answered by {:?}", answers(at + 1)));
                }
            }
        }
    }
    match messages.last() {
        Some(RequestMessage::User { .. } | RequestMessage::Tool { .. }) => None,
        _ => Some("it ends in an assistant message".into()),
    }
}

/// Asserts that every prefix that holds a prompt yields a valid request.
pub(crate) fn assert_prefixes_valid(log: &[Envelope]) {
    let mut state = State::default();
    for event in log {
        state.apply(event);
        if state.last_prompt() > 0 || !state.messages.is_empty() {
            let request = request_builder::request(&state);
            if let Some(fault) = fault(&request) {
                panic!("after {} ({}): {fault}\n{request:#?}", event.seq, describe(event));
            }
        }
    }
}

/// Asserts that no call with side effects was started twice, and no call ended twice.
pub(crate) fn assert_started_once(log: &[Envelope]) {
    let mut started = std::collections::HashMap::new();
    let mut finished = std::collections::HashSet::new();
    for event in log {
        if let Event::Tool(tool) = &event.event
            && let Some(Started { class, attempt, .. }) = tool.started()
        {
            let before = started.insert(event.of, attempt);
            let again = before == Some(1) && attempt == 2 && class == Class::Read;
            assert!(before.is_none() && attempt == 1 || again, "{}", describe(event));
        }
        let ends = matches!(
            event.event,
            Event::Tool(Tool::Finished(_)) if !finished.insert(event.of)
        );
        assert!(!ends, "{} ended twice", describe(event));
    }
}

pub(crate) const READ: (&str, &str) = ("read", "x");
pub(crate) const ASK: (&str, &str) = ("ask", "x");

/// Asserts that exactly these intents follow the last of these steps.
pub(crate) fn check(given: &[Step], then: &[&str]) {
    check_with(&config(), given, then);
}

pub(crate) fn check_with(config: &TurnConfig, given: &[Step], then: &[&str]) {
    let mut run = Run::new(config);
    let mut last = Vec::new();
    for step in given {
        last = run.step(step);
    }
    let intents: Vec<_> = last.iter().filter(|e| e.event.is_intent()).map(describe).collect();
    assert_eq!(intents, then, "given {given:?}");
    assert_prefixes_valid(&run.log);
    assert_eq!(leftfold_events::verify(&run.log), vec![], "given {given:?}");
    assert_eq!(leftfold_events::fold(&run.log), run.state, "given {given:?}");
}
