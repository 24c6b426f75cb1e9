//! `leftfold auth`: stores, lists and removes the keys of providers.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::password_prompt;
use crate::cli::{Auth, AuthCommand, Format};
use leftfold_config::auth;
use leftfold_config::{
    self as settings, Hint, KeySource, KeyState, ProviderSummary, Secret, Settings,
};
use leftfold_runtime::Usage;
use leftfold_runtime::note;
use leftfold_runtime::{model, resolved_settings};

/// The exit code of an interrupted shell command.
const INTERRUPTED: u8 = 130;

pub(crate) fn auth(args: &Auth) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::without_plugins(&directory)?;
    match &args.command {
        AuthCommand::Login { key: Some(_), .. } => Err(Usage(
            "keys are not accepted on the command line, where other users and the shell's history \
             see them: leave the key out and type it when asked, or pipe it into standard input"
                .to_owned(),
        )
        .into()),
        AuthCommand::Login { provider, key: None } => login(&settings, provider),
        AuthCommand::List { format } => list(&settings, *format),
        AuthCommand::Logout { provider } => logout(&settings, provider),
    }
}

fn login(settings: &Settings, provider: &str) -> anyhow::Result<ExitCode> {
    let summary = known(settings, provider)?;
    let Some(key) = read(provider)? else { return Ok(ExitCode::from(INTERRUPTED)) };
    let path = auth::store(&model::environment, provider, &checked(&key)?)?;
    let first = match &summary.key {
        KeyState::From(KeySource::Settings) => Some("the key in settings".to_owned()),
        KeyState::From(KeySource::Variable(name)) => Some(format!("the variable {name}")),
        KeyState::From(KeySource::Stored)
        | KeyState::Credentials
        | KeyState::Unneeded
        | KeyState::Missing(_) => None,
    };
    if let Some(first) = first {
        note(&format!("leftfold: {first} takes precedence over the stored key of {provider}"));
    }
    if let Some(by) = summary.disabled {
        note(&format!("leftfold: the setting `{by}` turns {provider} off"));
    }
    super::print(&format!("The key of {provider} is stored in {}.\n", path.display()))
}

/// Looks up a provider among the built-in ones and those in settings.
fn known(settings: &Settings, provider: &str) -> Result<ProviderSummary, Usage> {
    let summaries = settings.provider_summaries(&model::environment);
    if let Some(summary) = summaries.iter().find(|summary| summary.name == provider) {
        return Ok(summary.clone());
    }
    // A key given in the place of the name must not be printed.
    if settings::has_credential(provider) || provider.len() > 64 {
        return Err(Usage(
            "expected a provider's name, but this looks like a key: give only the name, and type or \
             pipe the key when asked; replace this key, since the shell may have stored it"
                .to_owned(),
        ));
    }
    let hint = Hint::toward(provider, settings.provider_names());
    Err(Usage(format!(
        "there is no provider `{provider}`{hint}; to add it, set `provider.{provider}` in leftfold.json"
    )))
}

/// Reads the key from the terminal or from standard input; `None` if the user cancels.
fn read(provider: &str) -> anyhow::Result<Option<String>> {
    if std::io::stdin().is_terminal() {
        return Ok(password_prompt::ask(&format!("Key of {provider} (it is not shown): "))?);
    }
    let mut key = String::new();
    let read = std::io::stdin().take(auth::MAX_KEY as u64 + 1).read_to_string(&mut key);
    read.map_err(|_| Usage("standard input is not UTF-8 text: expected a key".to_owned()))?;
    Ok(Some(key))
}

fn checked(key: &str) -> Result<Secret, Usage> {
    if key.trim().is_empty() {
        return Err(Usage(
            "the key is empty: type one, or pipe one into standard input".to_owned(),
        ));
    }
    auth::parse_key(key).map_err(|why| Usage(why.to_owned()))
}

fn logout(settings: &Settings, provider: &str) -> anyhow::Result<ExitCode> {
    if auth::forget(&model::environment, provider)? {
        let done = super::print(&format!("The key of {provider} is removed.\n"));
        let summaries = settings.provider_summaries(&model::environment);
        let summary = summaries.iter().find(|summary| summary.name == provider);
        if let Some(KeyState::From(KeySource::Variable(name))) = summary.map(|summary| &summary.key)
        {
            note(&format!("leftfold: {provider} still has a key, from the variable {name}"));
        }
        return done;
    }
    let stored: Vec<&str> = settings.stored.providers().collect();
    let hint = if stored.is_empty() {
        "; there are no stored keys".to_owned()
    } else {
        Hint::toward(provider, stored).to_string()
    };
    let shown = if settings::has_credential(provider) { "that" } else { provider };
    Err(Usage(format!("no key is stored for `{shown}`{hint}")).into())
}

fn list(settings: &Settings, format: Format) -> anyhow::Result<ExitCode> {
    let stored = |summary: &ProviderSummary| settings.stored.of(&summary.name);
    let summaries = settings.provider_summaries(&model::environment);
    let lines = summaries.iter().map(|summary| match format {
        Format::Json => format!("{}\n", as_json(summary, stored(summary).as_ref())),
        Format::Text => line(summary, stored(summary).as_ref()),
    });
    let mut text: String = lines.collect();
    // Keys of providers that no longer exist.
    let known = |name: &str| summaries.iter().any(|summary| summary.name == name);
    for name in settings.stored.providers().filter(|name| !known(name)) {
        text.push_str(&match format {
            Format::Json => {
                format!("{}\n", json!({ "provider": name, "key": "auth", "known": false }))
            }
            Format::Text => format!("{name:<23}  stored, but no provider has this name\n"),
        });
    }
    super::print_as(format, &text)
}

fn line(summary: &ProviderSummary, stored: Option<&Secret>) -> String {
    let mut state = describe(&summary.key);
    if let Some(key) = stored {
        let also =
            if summary.key == KeyState::From(KeySource::Stored) { "" } else { "; also stored:" };
        state.push_str(&format!("{also} {}", masked(key)));
    }
    if let Some(by) = summary.disabled {
        state.push_str(&format!(" (turned off by `{by}`)"));
    }
    format!("{:<23}  {state}\n", summary.name)
}

/// Says where the key comes from, or where it could come from.
pub(super) fn describe(key: &KeyState) -> String {
    match key {
        KeyState::From(KeySource::Settings) => "settings".to_owned(),
        KeyState::From(KeySource::Variable(name)) => name.clone(),
        KeyState::From(KeySource::Stored) => "leftfold auth login".to_owned(),
        KeyState::Credentials => "the vendor's own credentials".to_owned(),
        KeyState::Unneeded => "none needed".to_owned(),
        KeyState::Missing(names) => format!("no key ({} is not set)", names.join(" or ")),
    }
}

/// The key's source for JSON output.
pub(super) fn source(key: &KeyState) -> Value {
    match key {
        KeyState::From(KeySource::Settings) => "settings".into(),
        KeyState::From(KeySource::Variable(name)) => json!({ "env": name }),
        KeyState::From(KeySource::Stored) => "auth".into(),
        KeyState::Credentials => "credentials".into(),
        KeyState::Unneeded => "unneeded".into(),
        KeyState::Missing(_) => Value::Null,
    }
}

fn as_json(summary: &ProviderSummary, stored: Option<&Secret>) -> Value {
    json!({
        "provider": summary.name,
        "key": source(&summary.key),
        "stored": stored.map(masked),
        "disabled": summary.disabled,
        "known": true,
    })
}

/// The end of a key, enough to tell it from others; nothing of a short key.
fn masked(key: &Secret) -> String {
    const ENOUGH: usize = 16;
    let key = key.reveal();
    let end = key.len().checked_sub(4).filter(|_| key.len() >= ENOUGH).and_then(|at| key.get(at..));
    format!("****{}", end.unwrap_or_default())
}
