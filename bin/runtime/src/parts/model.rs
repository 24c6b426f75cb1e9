//! Turns the model and options in settings into the model and options of a session.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::gather::{self, Agent};
use leftfold_events::Json;
use leftfold_events::providers::KnownWire;
use leftfold_events::turn_config::{ModelSpec, Options, Tail};
use leftfold_providers::{
    Config, Provider, ScriptSource, Wire, catalog, variants as builtin_variants,
};
use serde_json::{Map, Value};

use crate::Usage;
use crate::account_models;
use crate::note;
use crate::plugin_credentials;
use crate::sign_in;
use crate::warnings;
pub use leftfold_config::environment;
use leftfold_config::{BaseUrl, Chosen, ListedModel, ProviderSummary, Script, Settings};

/// A model that is ready for requests.
pub struct Model {
    pub spec: ModelSpec,
    pub provider: (String, Arc<dyn Provider>),
    /// Milliseconds of silence after which a request fails.
    pub timeout: u64,
    /// The model's options for the request body.
    pub request: Json,
    /// Sets of options by name, which are laid over `request`.
    pub variants: Vec<(String, Value)>,
}

leftfold_events::debug_fields!(Model { spec });

/// The model that `wanted` names, or the one in settings.
pub fn choose(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<Model> {
    let chosen = settings.resolve_model(wanted, &environment).map_err(usage)?;
    let wire: Wire = chosen.wire.name().parse().map_err(usage)?;
    let name = chosen.provider.clone();
    let vendor = vendor(wire, &name, chosen.vendor.as_deref(), chosen.base_url.as_ref());
    let mut known = catalog::describe(wire, vendor, &chosen.model_id);
    let listed = listed(settings, &name, &chosen.model_id, wire, vendor);
    if let Some(listed) = listed {
        known = listed.over(known);
    }
    warnings::print_once(settings.faults_of_models_file());
    if chosen.sign_in.is_some() {
        known = account_models::described(&chosen.provider, known);
        sign_in::bring_models_up_to_date_soon(&chosen.provider);
    }
    let spec = ModelSpec {
        provider: chosen.provider.clone(),
        id: chosen.model_id.clone(),
        limit: chosen.limit.over(known.limit),
        cost: chosen.cost.over(known.cost),
        abilities: chosen.abilities.over(known.abilities),
        wire: wire.name().to_owned(),
        vendor: vendor.to_owned(),
    };
    let timeout = chosen.timeout;
    let reasons = chosen.abilities.reasoning;
    let variants = variants(wire, vendor, &chosen.model_id, (reasons, listed), &chosen.variants);
    let request = Json::from_value(&chosen.options.clone().into());
    let config = config(chosen, wire)?;
    let encrypted = config.base_url.as_ref().is_none_or(|url| url.starts_with("https:"));
    if wire.is_remote() {
        // Runs while the store is being opened; without a thread the first request does it.
        let thread = std::thread::Builder::new().name("leftfold-warm".into());
        let _ = thread.spawn(move || leftfold_providers::warm(encrypted));
    }
    let provider = provider(config)?;
    Ok(Model { spec, provider: (name, provider), timeout, request, variants })
}

/// The provider with these settings. As long as one is in use it serves every prompt, so that a script counts its
/// faults over all prompts of a session.
fn provider(config: Config) -> anyhow::Result<Arc<dyn Provider>> {
    static IN_USE: Mutex<Vec<(Config, Weak<dyn Provider>)>> = Mutex::new(Vec::new());
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    in_use.retain(|(_, provider)| provider.strong_count() > 0);
    let same = in_use.iter().find(|(known, _)| *known == config);
    if let Some(provider) = same.and_then(|(_, provider)| provider.upgrade()) {
        return Ok(provider);
    }
    let provider = leftfold_providers::build(config.clone()).map_err(usage)?;
    in_use.push((config, Arc::downgrade(&provider)));
    Ok(provider)
}

/// The model that an agent names for itself.
///
/// # Errors
/// The model cannot be used. The error names the agent and the place in settings.
pub fn of_agent(settings: &Settings, agent: &Agent) -> Option<anyhow::Result<Model>> {
    let name = agent.model.as_deref()?;
    let chosen = choose(settings, Some(name));
    Some(chosen.map_err(|error| {
        let model = settings.agents.get(&agent.name).and_then(|said| said.model.as_ref());
        let place = model.map_or_else(String::new, |model| format!("{}: ", model.place()));
        usage(format!("{place}agent `{}`: {error:#}", agent.name))
    }))
}

/// Lays the agent's options over the model's, and then those of the agent's variant, if the model
/// has one of this name.
pub fn tune(agent: &Agent, model: &Model, options: &mut Options) {
    agent.tune(options, model.spec.abilities);
    let named = |name: &String| model.variants.iter().find(|(known, _)| known == name);
    if let Some((_, variant)) = agent.variant.as_ref().and_then(named) {
        let mut request = options.request.value();
        gather::agent::merge(&mut request, variant.clone());
        options.request = Json::from_value(&request);
    }
}

/// The model for titles, if settings name one that can be used.
fn small(settings: &Settings) -> Option<ModelSpec> {
    let name = settings.small_model.as_ref()?;
    let chosen = choose(settings, Some(name));
    let chosen = chosen.inspect_err(|error| note(&format!("leftfold: small_model: {error:#}")));
    Some(chosen.ok()?.spec)
}

/// The providers of the models that agents and commands name, since the next prompt of a
/// conversation may use them. Errors are reported when a model is used.
pub fn others(settings: &Settings) -> Vec<(String, Arc<dyn Provider>)> {
    let agents = settings.agents.values().filter_map(|agent| agent.model.as_ref());
    let commands = settings.commands.values().filter_map(|command| command.model.as_ref());
    let named = agents.chain(commands).chain(&settings.small_model);
    named.filter_map(|name| Some(choose(settings, Some(name)).ok()?.provider)).collect()
}

/// The vendor whose models are expected.
pub fn vendor(
    wire: Wire,
    provider: &str,
    vendor: Option<&str>,
    base_url: Option<&BaseUrl>,
) -> &'static str {
    let mut config = Config::new(provider, wire);
    config.vendor = vendor.map(str::to_owned);
    config.base_url = base_url.map(|url| address(wire, url));
    leftfold_providers::vendor(&config)
}

/// Where a provider without a key finds credentials, or why it finds none; `None`: it does not look for any.
pub fn credentials(wire: KnownWire, provider: &ProviderSummary) -> Option<Result<String, String>> {
    let wire: Wire = wire.name().parse().ok()?;
    let (vendor, url) = (provider.vendor.as_deref(), provider.base_url.as_ref());
    let vendor = self::vendor(wire, &provider.name, vendor, url);
    leftfold_providers::credentials(vendor, &owned(provider.parameters.clone()))
}

fn address(wire: Wire, url: &BaseUrl) -> String {
    match url {
        BaseUrl::Settings(url) | BaseUrl::Listed(url) => url.clone(),
        BaseUrl::Variable { value, .. } => leftfold_providers::base_from_env(wire, value),
    }
}

fn owned(parameters: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn config(chosen: Chosen, wire: Wire) -> anyhow::Result<Config> {
    let signed_in = chosen.sign_in.as_ref().zip(sign_in::for_provider(&chosen.provider));
    let authorised = signed_in.map(|(signed_in, row)| sign_in::authorization(row, signed_in));
    let by_plugin = chosen.sign_in_plugin.as_deref();
    let by_plugin = by_plugin.map(|it| plugin_credentials::authorization(&chosen.provider, it));
    let mut config = Config::new(chosen.provider, wire);
    config.authorization = by_plugin;
    config.vendor = chosen.vendor;
    config.base_url = chosen.base_url.as_ref().map(|url| address(wire, url));
    config.parameters = owned(chosen.parameters);
    if let Some((authorization, api)) = authorised.transpose()? {
        config.authorization = Some(authorization);
        config.base_url = Some(api);
    }
    config.api_key = chosen.api_key.map(|key| key.reveal().to_owned());
    let headers = chosen.headers.into_iter();
    config.headers = headers.map(|(name, value)| (name, value.reveal().to_owned())).collect();
    if let Some(stall) = chosen.stall {
        config.stall = Duration::from_millis(stall);
    }
    config.script = chosen.script.map(|script| match script {
        Script::Path(path) => ScriptSource::Path(path),
        Script::Inline(text) => ScriptSource::Inline(text),
    });
    Ok(config)
}

/// The options of a turn that come from settings and model.
pub fn options(settings: &Settings, model: &Model) -> Options {
    Options {
        timeout: model.timeout,
        retries: settings.retry.attempts,
        max_wait: Some(settings.retry.max_wait),
        goes_on_after_rejection: settings.experimental.continue_loop_on_deny,
        reserved: settings.compaction.reserved,
        compact: settings.compaction.auto,
        tail: tail(settings.compaction),
        prune: settings.compaction.prune,
        title_prompt: if settings.title() { gather::TITLE } else { "" }.to_owned(),
        session_summary_prompt: if settings.summary() { gather::SESSION_SUMMARY } else { "" }
            .to_owned(),
        request: model.request.clone(),
        small_model: small(settings),
        record: settings.is_recorded(),
        snapshot: settings.snapshot() && leftfold_snapshots::is_possible(),
        ..Options::default()
    }
}

/// The options of a turn that its requests leave out, for people: they are those of other APIs than the model's.
pub(crate) fn left_out(spec: &ModelSpec, options: &Options) -> Vec<String> {
    let Ok(wire) = spec.wire.parse::<Wire>() else { return Vec::new() };
    let names = leftfold_providers::left_out(wire, &spec.id, &options.request.value());
    let warning = |name: String| {
        let source = options.sources.options.get(&format!("request.{name}"));
        let source = source.map(|source| format!("{source}: ")).unwrap_or_default();
        format!(
            "{source}the option `{name}` is none of the API of {} ({wire}), and is not sent",
            spec.name()
        )
    };
    names.into_iter().map(warning).collect()
}

/// The end of the conversation that summaries leave as it is. A number of 0 asks for none.
fn tail(said: leftfold_config::Compaction) -> Option<Tail> {
    let (turns, tokens) = (said.tail_turns, said.preserve_recent_tokens);
    let wanted = turns.or(tokens).is_some() && turns != Some(0) && tokens != Some(0);
    wanted.then_some(Tail { turns, tokens })
}

pub fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Usage(error.to_string()).into()
}

/// The model in the list of models.dev; `None` if it is one of a built-in provider that the catalog has.
pub(crate) fn listed<'a>(
    settings: &'a Settings,
    provider: &str,
    id: &str,
    wire: Wire,
    vendor: &str,
) -> Option<&'a ListedModel> {
    let is_known = settings.is_builtin(provider) && catalog::model(wire, vendor, id).is_some();
    if is_known || !wire.is_remote() { None } else { settings.listed_model(provider, id) }
}

/// The variants of a model: those in settings, and those that its wire is known to understand, or else the list of
/// models.dev names, unless settings have the same name or say that the model does not reason (`reasons`).
pub fn variants(
    wire: Wire,
    vendor: &str,
    id: &str,
    (reasons, listed): (Option<bool>, Option<&ListedModel>),
    own: &Map<String, Value>,
) -> Vec<(String, Value)> {
    let efforts = listed.map_or(&[] as &[String], |listed| &listed.efforts);
    let reasons = reasons.or(listed.and_then(|listed| listed.abilities.reasoning));
    let builtin = builtin_variants::for_listed_model(wire, vendor, id, efforts).into_iter();
    let mut all: Vec<(String, Value)> =
        builtin.filter(|(name, _)| reasons != Some(false) && !own.contains_key(name)).collect();
    all.extend(own.iter().map(|(name, options)| (name.clone(), options.clone())));
    all
}

/// Lays the variant that the caller names over the model's options, and answers its name. If the
/// caller names neither a variant nor another model, the variant `given` to the interrupted turn is
/// used.
///
/// # Errors
/// The model has no such variant; the error lists its variants.
pub(crate) fn choose_variant(
    model: &mut Model,
    wanted: Option<&str>,
    given: Option<&Options>,
) -> anyhow::Result<Option<String>> {
    if let Some(name) = wanted {
        vary(model, name)?;
        return Ok(Some(name.to_owned()));
    }
    let before = given.and_then(|given| given.variant.as_ref());
    Ok(before.and_then(|name| chosen_variant(model, name)))
}

/// The variant that was chosen before. If settings no longer have it, the session continues without
/// it.
pub(crate) fn chosen_variant(model: &mut Model, name: &str) -> Option<String> {
    match vary(model, name) {
        Ok(()) => Some(name.to_owned()),
        Err(error) => {
            note(&format!("leftfold: continuing without the variant: {error}"));
            None
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
        return Err(Usage(format!("`{at}`: expected an object of options")));
    }
    let mut request = model.request.value();
    merge_options(&mut request, options);
    model.request = Json::from_value(&request);
    Ok(())
}

fn unknown(model: &Model, name: &str) -> Usage {
    let known: Vec<&str> = model.variants.iter().map(|(name, _)| name.as_str()).collect();
    let (provider, id) = (&model.spec.provider, &model.spec.id);
    let hint = if known.is_empty() {
        format!("it has none; add some at `provider.{provider}.models.{id}.variants` in settings")
    } else {
        format!("it has {}", known.join(", "))
    };
    Usage(format!("model `{provider}/{id}` has no variant `{name}`: {hint}"))
}

/// Merges objects member by member, any other value as a whole; `over` wins.
fn merge_options(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge_options(under.entry(key.clone()).or_insert(Value::Null), value);
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
        merge_options(
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
        let all = variants(Wire::ANTHROPIC, "anthropic", "claude-opus-5", (None, None), own);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["low", "medium", "xhigh", "max", "high", "odd"]);
        assert_eq!(all[4].1, json!({ "effort": "low" }));
        let all = variants(Wire::ANTHROPIC, "anthropic", "claude-opus-5", (Some(false), None), own);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["high", "odd"]);
    }
}
