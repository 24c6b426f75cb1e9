//! The places that a turn's model and options come from, for people. Nothing decides on them.

use std::collections::BTreeMap;

use leftfold_config::Settings;
use leftfold_events::turn_config::{ModelSpec, Options};
use serde_json::Value;

use super::{Base, Overrides};
use crate::gather::Agent;
use crate::model::Model;

/// The parties that decide on a turn's model and options.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) overrides: &'a Overrides,
    pub(crate) base: &'a Base<'a>,
    pub(crate) agent: &'a Agent,
}

impl Deciding<'_> {
    fn place(&self, path: &[&str]) -> Option<String> {
        self.settings.place_of(path).map(ToString::to_string)
    }

    /// A value of the agent, which may stand under one of these keys.
    fn of_agent(&self, keys: &[&str]) -> Option<String> {
        let name = self.agent.name.as_str();
        keys.iter().find_map(|key| self.place(&["agent", name, key]))
    }

    /// The source of the model: a client that chose it for the session, an earlier turn or the parent's turn (`has_last`),
    /// or settings.
    pub(crate) fn model(&self, spec: &ModelSpec, has_last: bool) -> Option<String> {
        let kept = self.base.sources.and_then(|kept| kept.model.as_deref());
        let from_last = match self.base.parent {
            Some(_) => "the parent's turn",
            None => kept.unwrap_or("an earlier turn"),
        };
        let own = self.agent.model.is_some().then(|| {
            self.of_agent(&["model"]).unwrap_or_else(|| format!("agent {}", self.agent.name))
        });
        let name = spec.name().to_string();
        let is_chosen = self.base.choices.model.is_some();
        let chosen = || is_chosen.then(|| "chosen for the session".to_owned());
        let resumed = || {
            let resumes = self.base.resumes && has_last;
            resumes.then(|| from_last.to_owned())
        };
        let option = self.overrides.model.as_ref().map(|_| "option model".to_owned());
        let of_settings = || {
            let is_set = self.settings.model_name().is_some_and(|set| set == name);
            self.place(&["model"]).filter(|_| is_set)
        };
        option
            .or_else(resumed)
            .or_else(chosen)
            .or(own)
            .or_else(|| has_last.then(|| from_last.to_owned()))
            .or_else(of_settings)
            .or_else(|| Some("default".to_owned()))
    }

    /// The places of all options that are not built in.
    pub(crate) fn options(&self, model: &Model, options: &Options) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (name, path) in leftfold_config::options_of_turns() {
            if let Some(place) = self.place(&path) {
                found.insert(name.to_owned(), place);
            }
        }
        let provider = model.spec.provider.as_str();
        if let Some(place) = self.place(&["provider", provider, "options", "timeout"]) {
            found.insert("timeout".to_owned(), place);
        }
        if let Some(place) = self.of_agent(&["steps", "maxSteps"]) {
            found.insert("max_steps".to_owned(), place);
        }
        let given = [
            ("max_steps", self.overrides.max_steps.is_some()),
            ("max_cost", self.overrides.max_cost.is_some()),
            ("max_time", self.overrides.timeout.is_some()),
            ("system", self.overrides.system.is_some()),
            ("variant", self.overrides.variant.is_some()),
        ];
        for (name, _) in given.iter().filter(|(_, given)| *given) {
            found.insert((*name).to_owned(), format!("option {name}"));
        }
        let takes = self.base.resumes || self.base.before.is_some();
        for (name, is_given) in given {
            let kept = self.base.sources.and_then(|kept| kept.options.get(name));
            if let Some(source) = kept.filter(|_| takes && !is_given) {
                found.insert(name.to_owned(), source.clone());
            }
        }
        for (name, value) in options.request.value().as_object().into_iter().flatten() {
            let source = self.of_request(model, options.variant.as_deref(), name, value);
            found.insert(format!("request.{name}"), source);
        }
        found
    }

    /// The origin of one member of the request's options: the strongest that sets it.
    fn of_request(
        &self,
        model: &Model,
        variant: Option<&str>,
        name: &str,
        value: &Value,
    ) -> String {
        let (provider, id) = (model.spec.provider.as_str(), model.spec.id.as_str());
        let of_variant = |wanted: Option<&str>| {
            let wanted = wanted?;
            let (_, options) = model.variants.iter().find(|(known, _)| known == wanted)?;
            options.get(name)?;
            let path = ["provider", provider, "models", id, "variants", wanted, name];
            Some(self.place(&path).unwrap_or_else(|| format!("variant {wanted}")))
        };
        let of_agent = || {
            let keys: &[&str] = if name == "top_p" { &["top_p", "topP"] } else { &[name] };
            let agent = self.agent.name.as_str();
            let below = || self.place(&["agent", agent, "options", name]);
            let own = match name {
                "temperature" => self.agent.temperature.map(Value::from),
                "top_p" => self.agent.top_p.map(Value::from),
                _ => self.agent.options.value().get(name).cloned(),
            };
            let is_own = own.is_some_and(|own| own == *value || own.is_object());
            let place = || self.of_agent(keys).or_else(below);
            is_own.then(|| place().unwrap_or_else(|| format!("built-in agent {agent}")))
        };
        of_variant(variant)
            .or_else(|| of_variant(self.agent.variant.as_deref()))
            .or_else(of_agent)
            .or_else(|| self.place(&["provider", provider, "models", id, "options", name]))
            .or_else(|| self.place(&["provider", provider, "options", name]))
            .unwrap_or_else(|| format!("model {provider}/{id}"))
    }
}
