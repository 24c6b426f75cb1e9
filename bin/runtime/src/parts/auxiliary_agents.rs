//! Settings for the agents that write titles and summaries for Leftfold itself. Their prompt replaces the built-in one.

use crate::gather::Agent;
use leftfold_events::Json;
use leftfold_events::turn_config::{Abilities, Options};
use serde_json::{Value, json};

use crate::agents::Agents;
use crate::model::{self, Model};
use leftfold_config::Settings;

/// Puts the settings of these agents into `options`, which already has the other settings. `model`
/// is the session's.
///
/// # Errors
/// One of them names a model that cannot be used.
pub(crate) fn lay_over(
    options: &mut Options,
    settings: &Settings,
    model: &Model,
) -> anyhow::Result<()> {
    let agents = Agents::from_settings(settings);
    titles(options, &agents, settings)?;
    session_summaries(options, &agents, settings)?;
    summaries(options, &agents, settings, model)
}

fn titles(options: &mut Options, agents: &Agents, settings: &Settings) -> anyhow::Result<()> {
    let Ok(agent) = agents.find("title") else {
        // The agent is turned off.
        options.title_prompt.clear();
        return Ok(());
    };
    if options.title_prompt.is_empty() {
        return Ok(());
    }
    if let Some(prompt) = &agent.prompt {
        prompt.trim().clone_into(&mut options.title_prompt);
    }
    // A small call: the options configured for its model do not apply.
    let own = model::of_agent(settings, agent).transpose()?;
    let samples = own.as_ref().is_none_or(|own| own.spec.abilities.sampling);
    let request = if samples { json!({ "temperature": 0.5 }) } else { json!({}) };
    let tuned = tuned(agent, own.as_ref(), &request);
    options.title_request = (tuned.value() != request).then_some(tuned);
    if let Some(own) = own {
        options.small_model = Some(own.spec);
    }
    Ok(())
}

fn session_summaries(
    options: &mut Options,
    agents: &Agents,
    settings: &Settings,
) -> anyhow::Result<()> {
    if options.session_summary_prompt.is_empty() {
        return Ok(());
    }
    let Ok(agent) = agents.find("summary") else {
        // The agent is turned off.
        options.session_summary_prompt.clear();
        return Ok(());
    };
    if let Some(prompt) = &agent.prompt {
        prompt.trim().clone_into(&mut options.session_summary_prompt);
    }
    let own = model::of_agent(settings, agent).transpose()?;
    let samples = own.as_ref().is_none_or(|own| own.spec.abilities.sampling);
    let request = if samples { json!({ "temperature": 0.5 }) } else { json!({}) };
    let tuned = tuned(agent, own.as_ref(), &request);
    options.session_summary_request = (tuned.value() != request).then_some(tuned);
    options.session_summary_model = own.map(|own| own.spec);
    Ok(())
}

fn summaries(
    options: &mut Options,
    agents: &Agents,
    settings: &Settings,
    model: &Model,
) -> anyhow::Result<()> {
    let Ok(agent) = agents.find("compaction") else {
        options.compact = false;
        return Ok(());
    };
    if let Some(prompt) = &agent.prompt {
        prompt.trim().clone_into(&mut options.summary_prompt);
    }
    let own = model::of_agent(settings, agent).transpose()?;
    let request = own.as_ref().map_or(&model.request, |own| &own.request).value();
    let tuned = tuned(agent, Some(own.as_ref().unwrap_or(model)), &request);
    // Without settings of its own, a summary is requested as any step is, so that provider caches
    // apply.
    let is_other = own.is_some() || tuned.value() != request;
    options.summary_request = is_other.then_some(tuned);
    options.summary_model = own.map(|own| own.spec);
    Ok(())
}

/// The options of the request body, with the agent's own and its variant of the model laid over
/// them.
fn tuned(agent: &Agent, model: Option<&Model>, request: &Value) -> Json {
    let mut tuned = Options { request: Json::from_value(request), ..Options::default() };
    match model {
        Some(model) => model::tune(agent, model, &mut tuned),
        None => agent.tune(&mut tuned, Abilities::default()),
    }
    tuned.request
}

#[cfg(test)]
mod tests {
    use crate::gather::agent::merge;
    use leftfold_events::turn_config::ModelSpec;

    use super::*;
    use leftfold_config as settings;

    /// Reads the options of a session from one settings text.
    fn options(agents: &Value, more: &Value) -> anyhow::Result<Options> {
        let folder = tempfile::tempdir().unwrap();
        let mut text = json!({
            "model": "double/m",
            "provider": { "double": { "wire": "scripted", "options": { "script": { "replies": [{}] } },
                "models": {
                    "m": { "options": { "a": 1 } },
                    "s": { "options": { "b": 2 }, "variants": { "low": { "c": 3 } },
                           "limit": { "output": 77 } },
                } } },
            "agent": agents,
        });
        merge(&mut text, more.clone());
        let text = text.to_string();
        let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| text.clone());
        let settings = settings::load(folder.path(), &env, leftfold_providers::known()).unwrap();
        let model = model::choose(&settings, None)?;
        let mut options = model::options(&settings, &model);
        lay_over(&mut options, &settings, &model)?;
        Ok(options)
    }

    fn id(model: Option<&ModelSpec>) -> Option<&str> {
        model.map(|model| model.id.as_str())
    }

    fn body(request: Option<&Json>) -> Value {
        request.map_or(Value::Null, Json::value)
    }

    #[test]
    fn titles_and_summaries_are_as_their_agents_are() {
        for (agents, title, summary) in [
            (json!({}), (None, Value::Null), (None, Value::Null)),
            (
                json!({ "title": { "model": "double/s" }, "compaction": { "model": "double/s" } }),
                (Some("s"), Value::Null),
                (Some("s"), json!({ "b": 2 })),
            ),
            (
                json!({ "title": { "model": "double/s", "variant": "low", "temperature": 0.1 },
                        // The options of a variant win over those of its agent.
                        "compaction": { "model": "double/s", "variant": "low", "top_p": 0.5, "c": 9 } }),
                (Some("s"), json!({ "temperature": 0.1, "c": 3 })),
                (Some("s"), json!({ "b": 2, "c": 3, "top_p": 0.5 })),
            ),
            (
                json!({ "title": { "x": 1 }, "compaction": { "options": { "y": 2 } } }),
                (None, json!({ "temperature": 0.5, "x": 1 })),
                (None, json!({ "a": 1, "y": 2 })),
            ),
            // The options of the session's own agent do not apply to them.
            (json!({ "build": { "z": 1 } }), (None, Value::Null), (None, Value::Null)),
        ] {
            let found = options(&agents, &json!({})).unwrap();
            let titles = (id(found.small_model.as_ref()), body(found.title_request.as_ref()));
            assert_eq!(titles, title, "{agents}");
            let summaries =
                (id(found.summary_model.as_ref()), body(found.summary_request.as_ref()));
            assert_eq!(summaries, summary, "{agents}");
        }
    }

    #[test]
    fn their_prompts_take_the_place_of_the_built_in_ones() {
        let agents =
            json!({ "title": { "prompt": " Name it. " }, "compaction": { "prompt": "Sum up." } });
        let found = options(&agents, &json!({})).unwrap();
        assert_eq!((&*found.title_prompt, &*found.summary_prompt), ("Name it.", "Sum up."));
        let found = options(&agents, &json!({ "title": false })).unwrap();
        assert_eq!(found.title_prompt, "");
        let plain = options(&json!({}), &json!({})).unwrap();
        assert!(plain.title_prompt.len() > 20 && plain.summary_prompt.is_empty() && plain.compact);
        let off = json!({ "title": { "disable": true }, "compaction": { "disable": true } });
        let found = options(&off, &json!({})).unwrap();
        assert_eq!((&*found.title_prompt, found.compact), ("", false));
    }

    #[test]
    fn a_session_is_summed_up_by_a_small_model_or_if_settings_want_it() {
        let small = json!({ "small_model": "double/s" });
        let asks = |agents: &Value, more: &Value| {
            !options(agents, more).unwrap().session_summary_prompt.is_empty()
        };
        assert!(!asks(&json!({}), &json!({})));
        assert!(asks(&json!({}), &json!({ "summary": true })) && asks(&json!({}), &small));
        assert!(!asks(&json!({}), &json!({ "small_model": "double/s", "summary": false })));
        assert!(!asks(&json!({ "summary": { "disable": true } }), &small));
        let agents = json!({ "summary": { "prompt": " In brief. ", "model": "double/m" } });
        let found = options(&agents, &small).unwrap();
        assert_eq!(found.session_summary_prompt, "In brief.");
        assert_eq!(id(found.session_summary_model.as_ref()), Some("m"));
    }

    #[test]
    fn a_model_of_the_title_agent_wins_over_the_small_one() {
        let small = json!({ "small_model": "double/m" });
        let found = options(&json!({ "title": { "model": "double/s" } }), &small).unwrap();
        assert_eq!(id(found.small_model.as_ref()), Some("s"));
        let found = options(&json!({}), &small).unwrap();
        assert_eq!(id(found.small_model.as_ref()), Some("m"));
    }

    #[test]
    fn a_model_that_is_not_there_is_told_with_its_place() {
        for name in ["title", "compaction"] {
            let agents = json!({ name: { "model": "double/none" } });
            let error = options(&agents, &json!({})).unwrap_err().to_string();
            let said = format!(": agent `{name}`: model `double/none`");
            assert!(error.starts_with("LEFTFOLD_CONFIG_CONTENT:1:"), "{error}");
            assert!(error.contains(&said), "{error}");
        }
    }
}
