//! Checks which models are used, and where keys come from.

use super::super::auth;
use super::Findings;
use leftfold_config::{KeySource, KeyState, ProviderSummary, Settings};
use leftfold_runtime::agents::Agents;
use leftfold_runtime::{model, sign_in};

/// The providers without a key that are named.
const MAX_NAMED: usize = 4;

pub(super) fn model(found: &mut Findings, settings: &Settings) {
    found.area("model");
    match settings.resolve_model(None, &model::environment) {
        Ok(chosen) => {
            let by = if settings.model.is_some() { "settings" } else { "default" };
            found.fine(format!("{}/{} ({by})", chosen.provider, chosen.model_id));
        }
        Err(error) => found.error(
            error.brief(),
            "store a key with `leftfold auth login anthropic`, or choose a model that `leftfold models` lists, in \
             settings or with `--model PROVIDER/MODEL`",
        ),
    }
    let small =
        settings.small_model.iter().map(|name| ("small_model".to_owned(), name.to_string()));
    let agents = Agents::from_settings(settings);
    let of_agents = agents.iter().filter_map(|known| {
        Some((format!("agent `{}`", known.agent.name), known.agent.model.clone()?))
    });
    let others: Vec<(String, String)> = small.chain(of_agents).collect();
    for (whose, name) in others {
        match settings.resolve_model(Some(&name), &model::environment) {
            Ok(_) => found.fine(format!("{name} for {whose}")),
            Err(error) => found.warning(
                format!("{whose}: {error}"),
                "name a usable model, or remove the setting to use the session's model",
            ),
        }
    }
}

/// Built-in providers without a key share one line.
pub(super) fn keys(found: &mut Findings, settings: &Settings) {
    found.area("keys");
    let summaries = settings.provider_summaries(&model::environment);
    let named = |summary: &ProviderSummary| settings.provider(&summary.name).is_some();
    let is_used = |summary: &ProviderSummary| {
        let model = settings.model_name().and_then(|model| model.split_once('/'));
        named(summary) || model.is_some_and(|(provider, _)| provider == summary.name)
    };
    let (mut without, mut can_sign_in) = (Vec::new(), Vec::new());
    for summary in &summaries {
        let mut what = format!("{}: {}", summary.name, auth::describe(&summary.key));
        let signed_in = settings.stored.tokens(&summary.name);
        if let Some(signed_in) = &signed_in {
            let is_used = auth::is_by_sign_in(&summary.key);
            what.push_str(if is_used { "; " } else { "; a sign-in is stored but not used: " });
            what.push_str(&auth::standing(signed_in));
        }
        match (&summary.key, summary.disabled) {
            (_, Some(by)) if named(summary) => {
                found.note(format!("{what}; turned off by the setting `{by}`"));
            }
            (KeyState::From(KeySource::SignIn(_) | KeySource::Plugin(_)), None)
                if signed_in.as_ref().is_some_and(auth::is_over) =>
            {
                found.warning(what, format!("run `leftfold auth login {}`", summary.name));
            }
            (KeyState::Missing(names), _) if named(summary) && names.is_empty() => {
                found.warning(what, format!("run `leftfold auth login {}`", summary.name));
            }
            (KeyState::Missing(_), _) if named(summary) => found.warning(
                what,
                format!(
                    "store a key with `leftfold auth login {}`, or set the variable",
                    summary.name
                ),
            ),
            (KeyState::Credentials, _) => {
                match summary.wire.and_then(|wire| model::credentials(wire, summary)) {
                    Some(Ok(from)) => found.fine(format!("{}: {from}", summary.name)),
                    Some(Err(why)) if is_used(summary) => found.warning(
                        format!("{}: {why}", summary.name),
                        "correct the credentials, or use another provider",
                    ),
                    Some(Err(_)) | None => without.push(summary.name.as_str()),
                }
            }
            (KeyState::Unneeded, _) if !named(summary) => {}
            (KeyState::Missing(_), _) => {
                without.push(summary.name.as_str());
                if let Some(row) = sign_in::for_provider(&summary.name) {
                    can_sign_in.push(format!("{} ({})", row.provider, row.label));
                }
            }
            (_, _) => found.fine(what),
        }
    }
    if !without.is_empty() {
        let others = match without.split_at_checked(MAX_NAMED) {
            Some((first, [_, ..])) => {
                let more = without.len() - first.len();
                format!("{} and {more} others, which `leftfold models` lists", first.join(", "))
            }
            _ => without.join(", "),
        };
        found.note(format!("no key found for {others}"));
    }
    if !can_sign_in.is_empty() {
        let all = can_sign_in.join(", ");
        found.note(format!("nobody has signed in at {all}: `leftfold auth login PROVIDER`"));
    }
    let (about, count) = settings.about_models_list();
    found.note(format!("the list of models.dev is of {about}, with {count} providers"));
    for fault in settings.faults_of_models_list() {
        found.warning(fault.clone(), "correct the file, or name another");
    }
    let known = |name: &str| summaries.iter().any(|summary| summary.name == name);
    for name in settings.stored.providers().filter(|name| !known(name)) {
        found.warning(
            format!("a key is stored for `{name}`, but no provider has this name"),
            format!(
                "remove the key with `leftfold auth logout {name}`, or add the provider to settings"
            ),
        );
    }
}
