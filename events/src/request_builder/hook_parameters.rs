//! Builds the parameters of plugins' hooks. They are a function of the state.

use serde_json::{Map, Value, json};

use super::{head, plugin_changes};
use crate::event::{HookPoint, ModelRef, PromptKind, PromptPart, Purpose};
use crate::id::Seq;
use crate::state::{Call, Message, PendingHook, Phase, State};

/// The parameters of the hook call `asked`; an object.
pub fn hook_parameters(s: &State, asked: &PendingHook) -> Value {
    let model = |model: ModelRef| json!({ "provider": model.provider, "id": model.id });
    let mut told = json!({
        "session": s.session.to_string(),
        "agent": s.agent,
        "model": model(s.config.model.name()),
        "message": s.last_reply().map(|reply| reply.asked),
        "directory": s.origin.as_ref().map(|origin| &origin.directory),
        "worktree": s.origin.as_ref().map(|origin| &origin.worktree),
    });
    let more = match asked.hook {
        HookPoint::ChatMessage => prompt(s, asked.about),
        HookPoint::ChatParams => {
            let head = head(s, Purpose::Turn, s.config.model.name());
            json!({ "options": head.options.value(), "maxOutputTokens": head.max_output })
        }
        HookPoint::System => {
            json!({ "system": head(s, Purpose::Turn, s.config.model.name()).system })
        }
        HookPoint::ToolDefinition => json!({ "tools": tools(s) }),
        HookPoint::Compacting => compacting(s),
        HookPoint::ChatHeaders | HookPoint::Auth => json!({}),
        HookPoint::ToolBefore
        | HookPoint::ToolAfter
        | HookPoint::ShellEnv
        | HookPoint::PermissionAsk => {
            let call = s.calls().find(|call| call.seq == asked.about);
            call.map_or_else(|| json!({}), |call| about(s, call, asked.hook))
        }
    };
    if let (Value::Object(told), Value::Object(more)) = (&mut told, more) {
        told.extend(more);
    }
    told
}

fn prompt(s: &State, seq: Seq) -> Value {
    let prompt = s.messages.iter().filter_map(Message::prompt).find(|prompt| prompt.seq == seq);
    let parts = prompt.into_iter().flat_map(|prompt| &prompt.parts);
    json!({ "message": seq, "parts": parts.map(part).collect::<Vec<_>>() })
}

/// Without the bytes of files.
fn part(part: &PromptPart) -> Value {
    let mut told = Map::new();
    told.insert("type".into(), serde_json::to_value(part.kind).unwrap_or_default());
    if part.kind != PromptKind::Media {
        told.insert("text".into(), part.text.clone().into());
    }
    for (key, value) in [("mime", &part.mime), ("name", &part.name)] {
        if let Some(value) = value {
            told.insert(key.into(), value.clone().into());
        }
    }
    told.into()
}

fn tools(s: &State) -> Vec<Value> {
    let tools = head(s, Purpose::Turn, s.config.model.name()).tools.into_iter();
    let tool = |tool: crate::turn_config::ToolSpec| {
        let (name, description) = (tool.name, tool.description);
        json!({ "name": name, "description": description, "parameters": tool.schema.value() })
    };
    tools.map(tool).collect()
}

fn compacting(s: &State) -> Value {
    let compacting = s.turn.as_ref().and_then(|turn| turn.compacting());
    let prompt = compacting.map(|compacting| plugin_changes::summary_prompt(s, compacting));
    json!({ "prompt": prompt })
}

fn about(s: &State, c: &Call, hook: HookPoint) -> Value {
    let resolved = c.resolved.as_ref();
    let name = resolved.map_or(&c.name, |resolved| &resolved.name);
    let args = resolved.map_or(c.arguments(), |resolved| &resolved.input).value();
    let mut told = json!({ "call": c.id, "tool": name, "args": args });
    match (hook, &c.phase) {
        (HookPoint::ToolAfter, Phase::Done(outcome)) => {
            told["output"] = (*outcome.output).into();
            told["isError"] = outcome.is_error.into();
            if let Some(shown) = &outcome.shown {
                told["title"] = shown.title.clone().into();
                told["metadata"] = shown.metadata.value();
            }
        }
        (HookPoint::ShellEnv, _) => {
            told["cwd"] = s.origin.as_ref().map(|origin| origin.directory.clone()).into();
        }
        (HookPoint::PermissionAsk, _) => {
            if let Some((_, access)) = s.questioned(c) {
                told["permission"] = access.permission.clone().into();
                told["patterns"] = access.patterns.clone().into();
                told["always"] = access.always.clone().into();
            }
        }
        _ => {}
    }
    told
}
