//! Applies plugins' answers to a request. Answers of an unexpected form are ignored.

use serde_json::{Value, json};

use crate::event::HookPoint;
use crate::json::{Json, merge};
use crate::request::Request;
use crate::state::{Compacting, State, words};
use crate::turn_config::ToolSpec;

/// Plugins' names of model parameters, and the names in request bodies.
const PARAMS: [(&str, &str); 3] =
    [("temperature", "temperature"), ("topP", "top_p"), ("topK", "top_k")];

pub(super) fn apply(head: &mut Request, s: &State) {
    if s.plugins.asked.is_empty() {
        return;
    }
    for said in s.said(HookPoint::ToolDefinition, None) {
        head.tools.iter_mut().for_each(|tool| define(tool, &said["tools"][&tool.name]));
    }
    for said in s.said(HookPoint::ChatParams, None) {
        params(head, &said);
    }
    for said in s.said(HookPoint::System, None) {
        system(&mut head.system, &said);
    }
}

fn define(tool: &mut ToolSpec, said: &Value) {
    if let Some(description) = said["description"].as_str() {
        description.clone_into(&mut tool.description);
    }
    if said["parameters"].is_object() {
        tool.schema = Json::from_value(&said["parameters"]);
    }
}

fn params(head: &mut Request, said: &Value) {
    let mut options = Some(head.options.value()).filter(Value::is_object).unwrap_or(json!({}));
    for (theirs, ours) in PARAMS {
        if said[theirs].is_number() {
            options[ours] = said[theirs].clone();
        }
    }
    merge(&mut options, &said["options"]);
    head.options = Json::from_value(&options);
    if let Some(most) = said["maxOutputTokens"].as_u64().filter(|most| *most > 0) {
        head.max_output = most;
    }
}

/// Merges the system prompt into at most two blocks if the first is unchanged, so that providers
/// can cache the first block.
fn system(blocks: &mut Vec<String>, said: &Value) {
    let Some(said) = said["system"].as_array() else { return };
    let texts = said.iter().filter_map(Value::as_str).map(str::to_owned);
    let mut new: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
    if new.len() > 2 && new.first() == blocks.first() {
        let rest = new.split_off(1);
        new.push(rest.join("\n\n"));
    }
    *blocks = new;
}

/// The instructions for the model that writes the summary.
pub(super) fn summary_prompt(s: &State, compacting: &Compacting) -> String {
    let mut prompt = s.config.options.summary_prompt.clone();
    for said in s.said(HookPoint::Compacting, Some(compacting.started.intent)) {
        if let Some(other) = said["prompt"].as_str().filter(|text| !text.trim().is_empty()) {
            other.clone_into(&mut prompt);
        }
        let context = said["context"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for text in context.filter(|text| !text.trim().is_empty()) {
            prompt.push_str("\n\n");
            prompt.push_str(text);
        }
    }
    if let Some(instructions) = &compacting.instructions {
        prompt.push_str("\n\n");
        prompt.push_str(&words::summary_instructions(instructions));
    }
    prompt
}
