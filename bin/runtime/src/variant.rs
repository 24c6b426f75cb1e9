//! Variants of a model: sets of options by name, laid over the others last (SPEC M8).

use leftfold_events::Json;
use leftfold_events::kit::Options;
use leftfold_providers::{Wire, variants};
use serde_json::{Map, Value};

use crate::Usage;
use crate::model::Model;
use crate::note;
use crate::turn_config::Overrides;

/// What the model has: its own in settings, and those that its wire is known to understand, where
/// settings have none of that name and do not say that it `reasons` not at all.
pub fn known(
    wire: Wire,
    vendor: &str,
    id: &str,
    reasons: Option<bool>,
    own: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let builtin = variants::of(wire, vendor, id).into_iter();
    let mut all: Vec<(String, Value)> = builtin
        .filter(|(name, _)| reasons != Some(false) && !own.contains_key(*name))
        .map(|(name, options)| (name.to_owned(), options))
        .collect();
    all.extend(own.iter().map(|(name, options)| (name.clone(), options.clone())));
    all
}

/// Lays the variant that the caller names over the model's options; where it names none and no
/// other model either, the one it was `given` before it was cut off. Its name.
///
/// # Errors
/// The model has no such variant: which it has.
pub fn choose(
    model: &mut Model,
    overrides: &Overrides,
    given: Option<&Options>,
) -> anyhow::Result<Option<String>> {
    if let Some(name) = &overrides.variant {
        vary(model, name)?;
        return Ok(Some(name.clone()));
    }
    let before =
        given.filter(|_| overrides.model.is_none()).and_then(|given| given.variant.as_ref());
    let Some(name) = before else { return Ok(None) };
    match vary(model, name) {
        Ok(()) => Ok(Some(name.clone())),
        Err(error) => {
            // the settings have changed meanwhile, and the turn is to go on
            note(&format!("leftfold: going on without it: {error}"));
            Ok(None)
        }
    }
}

fn vary(model: &mut Model, name: &str) -> Result<(), Usage> {
    let Some((_, options)) = model.variants.iter().find(|(known, _)| known == name) else {
        return Err(unknown(model, name));
    };
    if !options.is_object() {
        let at =
            format!("provider.{}.models.{}.variants.{name}", model.spec.provider, model.spec.id);
        return Err(Usage(format!("`{at}` is no set of options: expected an object")));
    }
    let mut request = model.request.value();
    merge(&mut request, options);
    model.request = Json::from_value(&request);
    Ok(())
}

fn unknown(model: &Model, name: &str) -> Usage {
    let known: Vec<&str> = model.variants.iter().map(|(name, _)| name.as_str()).collect();
    let (provider, id) = (&model.spec.provider, &model.spec.id);
    let hint = if known.is_empty() {
        format!("it has none; `provider.{provider}.models.{id}.variants` in the settings adds some")
    } else {
        format!("known are {}", known.join(", "))
    };
    Usage(format!("model `{provider}/{id}` has no variant `{name}`: {hint}"))
}

/// Objects member by member, anything else as a whole; the later wins.
fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_merged_deeply_and_the_later_wins() {
        let mut options = json!({ "a": { "b": 1, "c": 2 }, "d": 3, "e": [1] });
        merge(
            &mut options,
            &json!({ "a": { "b": 4, "x": 5 }, "d": { "y": 6 }, "e": [2], "z": null }),
        );
        let merged =
            json!({ "a": { "b": 4, "c": 2, "x": 5 }, "d": { "y": 6 }, "e": [2], "z": null });
        assert_eq!(options, merged);
    }

    #[test]
    fn settings_replace_what_is_built_in() {
        let own = json!({ "high": { "effort": "low" }, "odd": {} });
        let own = own.as_object().unwrap();
        let all = known(Wire::ANTHROPIC, "anthropic", "claude-opus-5", None, own);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["low", "medium", "xhigh", "max", "high", "odd"]);
        assert_eq!(all[4].1, json!({ "effort": "low" }));
        let all = known(Wire::ANTHROPIC, "anthropic", "claude-opus-5", Some(false), own);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["high", "odd"]);
    }
}
