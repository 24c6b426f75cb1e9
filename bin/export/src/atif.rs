//! A run as a trajectory in ATIF, the Agent Trajectory Interchange Format of the Harbor framework, version 1.7.
//!
//! Subagents are trajectories of their own inside the session's, and the results of their calls refer to them. An
//! attempt that was made again is no step.

use std::collections::{HashMap, HashSet};

use leftfold_events::event::{Event, Session, Usage, as_typed};
use leftfold_events::{Envelope, SessionId, State, fold};
use leftfold_view::{Call, Message, Outcome, Reply, ReplyPart, SessionView};
use serde_json::{Map, Value, json};

use crate::{Run, messages, transcript};

const VERSION: &str = "ATIF-v1.7";

/// One JSON object.
pub(crate) fn atif(run: &Run) -> String {
    let costs = costs(run);
    let cost = |session: SessionId| costs.get(&session).copied().unwrap_or_default();
    let mut logs = run.logs();
    let Some((root, events)) = logs.next() else { return String::new() };
    let mut whole = trajectory(root, root, events, cost(root));
    let subagents: Vec<Map<String, Value>> =
        logs.map(|(session, events)| trajectory(root, session, events, cost(session))).collect();
    if !subagents.is_empty() {
        whole.insert("subagent_trajectories".to_owned(), subagents.into());
    }
    format!("{:#}\n", Value::Object(whole))
}

/// The cost of each session with all its subagents.
fn costs(run: &Run) -> HashMap<SessionId, f64> {
    let mut costs: HashMap<SessionId, f64> = HashMap::new();
    let logs: Vec<_> = run.logs().collect();
    // parents come before their subagents
    for (session, events) in logs.into_iter().rev() {
        let children: HashSet<SessionId> = events.iter().filter_map(Envelope::spawned).collect();
        let spent: f64 = children.iter().filter_map(|child| costs.get(child)).sum();
        costs.insert(session, SessionView::from_events(events).cost + spent);
    }
    costs
}

fn trajectory(
    root: SessionId,
    session: SessionId,
    events: &[Envelope],
    cost: f64,
) -> Map<String, Value> {
    let state = fold(events);
    let mut transcript = transcript(session);
    for event in events {
        transcript.apply(event);
    }
    let mut steps = Steps::default();
    if let Some(view) = transcript.root() {
        steps.system(&state, events);
        view.messages().for_each(|message| steps.message(view, message));
    }
    if steps.done.is_empty() {
        // a trajectory has at least one step
        steps.add(json!({ "source": "system", "message": "" }));
    }
    let (usage, count) = (steps.usage, steps.done.len());
    let mut whole = Map::new();
    let mut member = |name: &str, value: Value| whole.insert(name.to_owned(), value);
    member("schema_version", VERSION.into());
    member("session_id", root.to_string().into());
    member("trajectory_id", session.to_string().into());
    member("agent", agent(&state, events));
    member("steps", steps.done.into());
    let total = json!({
        "total_prompt_tokens": prompt_tokens(&usage),
        "total_completion_tokens": usage.output.saturating_add(usage.reasoning),
        "total_cached_tokens": usage.cache_read,
        "total_cost_usd": cost,
        "total_steps": count,
    });
    member("final_metrics", total);
    whole
}

fn agent(state: &State, events: &[Envelope]) -> Value {
    let version = events.iter().find_map(|event| {
        let Event::Session(Session::Created { version, .. }) = &event.event else { return None };
        Some(version.as_str())
    });
    let tools = messages::tools(state);
    let mut agent = json!({ "name": "leftfold", "version": version.unwrap_or_default() });
    let model = state.config.model.name();
    if !model.id.is_empty() {
        agent["model_name"] = model.to_string().into();
    }
    if !tools.is_empty() {
        agent["tool_definitions"] = tools.into();
    }
    agent
}

#[derive(Default)]
struct Steps {
    done: Vec<Value>,
    usage: Usage,
}

impl Steps {
    fn add(&mut self, mut step: Value) {
        step["step_id"] = (self.done.len() + 1).into();
        self.done.push(step);
    }

    /// The system prompt of the last turn.
    fn system(&mut self, state: &State, events: &[Envelope]) {
        let blocks: Vec<&str> = state.config.system.iter().map(String::as_str).collect();
        if let Some(first) = events.first().filter(|_| !blocks.is_empty()) {
            let at = first.at.to_string();
            self.add(
                json!({ "timestamp": at, "source": "system", "message": blocks.join("\n\n") }),
            );
        }
    }

    fn message(&mut self, view: &SessionView, message: &Message) {
        match message {
            Message::User(prompt) => {
                let texts: Vec<String> =
                    as_typed(&prompt.parts).iter().map(messages::text_of).collect();
                self.add(json!({
                    "timestamp": prompt.at.to_string(),
                    "source": "user",
                    "message": texts.join("\n\n"),
                    "extra": { "seq": prompt.seq, "by": prompt.by },
                }));
            }
            Message::Summary { seq, at, text } => self.add(json!({
                "timestamp": at.to_string(),
                "source": "system",
                "message": text,
                "extra": { "seq": seq, "kind": "summary" },
            })),
            Message::Assistant(reply) if reply.void => {}
            Message::Assistant(reply) => self.reply(view, reply),
        }
    }

    fn reply(&mut self, view: &SessionView, reply: &Reply) {
        let (mut texts, mut reasoning) = (Vec::new(), Vec::new());
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for part in &reply.parts {
            match part {
                ReplyPart::Text(part) => texts.push(part.text.as_str()),
                ReplyPart::Reasoning(part) => reasoning.push(part.text.as_str()),
                ReplyPart::Call(seq) => {
                    let Some(call) = view.call(*seq) else { continue };
                    let id = match call.id.as_str() {
                        id if !id.is_empty() && known.insert(id.to_owned()) => id.to_owned(),
                        id => format!("{id}#{seq}"),
                    };
                    calls.push(tool_call(call, &id));
                    results.push(result(call, &id));
                }
            }
        }
        // a prompt made the calls, and no model was asked
        let is_dispatch = reply.attempt == 0;
        let mut step = json!({
            "timestamp": reply.at.to_string(),
            "source": "agent",
            "message": texts.join("\n\n"),
            "llm_call_count": u8::from(!is_dispatch),
            "extra": { "seq": reply.seq, "finish": reply.finish, "error": reply.failure.as_ref().map(|failure| &failure.message) },
        });
        if !reply.model.id.is_empty() {
            step["model_name"] = reply.model.to_string().into();
        }
        if !calls.is_empty() {
            step["tool_calls"] = calls.into();
            step["observation"] = json!({ "results": results });
        }
        if !is_dispatch {
            if !reasoning.is_empty() {
                step["reasoning_content"] = reasoning.join("\n\n").into();
            }
            step["metrics"] = json!({
                "prompt_tokens": prompt_tokens(&reply.usage),
                "completion_tokens": reply.usage.output.saturating_add(reply.usage.reasoning),
                "cached_tokens": reply.usage.cache_read,
                "cost_usd": reply.cost,
            });
            self.usage += reply.usage;
        }
        self.add(step);
    }
}

fn tool_call(call: &Call, id: &str) -> Value {
    let arguments = messages::object(call.input.clone());
    let extra = json!({ "seq": call.seq, "parent": call.parent });
    json!({ "tool_call_id": id, "function_name": call.name, "arguments": arguments, "extra": extra })
}

fn result(call: &Call, id: &str) -> Value {
    let (outcome, content) = match &call.outcome {
        None => ("open", String::new()),
        Some(Outcome::Finished(finished)) => {
            (if finished.is_error { "error" } else { "ok" }, finished.output.to_string())
        }
        Some(Outcome::Unresolved(error)) => ("not_run", error.clone()),
        Some(Outcome::Denied) => ("denied", String::new()),
        Some(Outcome::Rejected { feedback, .. }) => {
            ("rejected", feedback.clone().unwrap_or_default())
        }
        Some(Outcome::TimedOut { .. }) => ("timed_out", String::new()),
        Some(Outcome::Lost) => ("lost", String::new()),
        Some(Outcome::Cancelled) => ("cancelled", String::new()),
    };
    let mut result = json!({
        "source_call_id": id,
        "content": content,
        "extra": { "outcome": outcome },
    });
    if let Some(subagent) = call.subagent {
        result["subagent_trajectory_ref"] = json!([{ "trajectory_id": subagent.to_string() }]);
    }
    result
}

fn prompt_tokens(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write)
}
