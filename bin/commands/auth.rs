//! `leftfold auth`: the keys of providers.

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

/// The longest key, in bytes.
const LONGEST: u64 = 16 * 1024;

/// As of a shell's command that was interrupted.
const INTERRUPTED: u8 = 130;

pub(crate) fn auth(args: &Auth) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::without_plugins(&directory)?;
    match &args.command {
        AuthCommand::Login { key: Some(_), .. } => Err(Usage(
            "a key on the command line is seen by others and kept by the shell: leave it out and \
             type it when asked, or pipe it into standard input"
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
        KeyState::From(KeySource::Settings) => Some("settings give one".to_owned()),
        KeyState::From(KeySource::Variable(name)) => Some(format!("{name} is set")),
        KeyState::From(KeySource::Stored) | KeyState::Unneeded | KeyState::Missing(_) => None,
    };
    if let Some(first) = first {
        note(&format!("leftfold: {first} for {provider}, which comes before the stored key"));
    }
    if let Some(by) = summary.disabled {
        note(&format!("leftfold: {provider} is turned off by `{by}`"));
    }
    super::print(&format!("The key of {provider} is in {} now.\n", path.display()))
}

/// What is known of a provider that is in settings or built in.
fn known(settings: &Settings, provider: &str) -> Result<ProviderSummary, Usage> {
    let summaries = settings.provider_summaries(&model::environment);
    if let Some(summary) = summaries.iter().find(|summary| summary.name == provider) {
        return Ok(summary.clone());
    }
    // a key in the wrong place is not to be shown
    if settings::has_credential(provider) || provider.len() > 64 {
        return Err(Usage(
            "that is no provider but looks like a key: give the provider's name alone, and type or \
             pipe the key when asked; the shell may have kept this one, so replace it"
                .to_owned(),
        ));
    }
    let hint = Hint::toward(provider, settings.provider_names());
    Err(Usage(format!(
        "there is no provider `{provider}`{hint}; `provider.{provider}` in leftfold.json would add it"
    )))
}

/// The key as it was typed or piped; `None` if the user gave up.
fn read(provider: &str) -> anyhow::Result<Option<String>> {
    if std::io::stdin().is_terminal() {
        return Ok(password_prompt::ask(&format!("Key of {provider} (it is not shown): "))?);
    }
    let mut key = String::new();
    let read = std::io::stdin().take(LONGEST + 1).read_to_string(&mut key);
    read.map_err(|_| Usage("standard input is no text: expected a key".to_owned()))?;
    Ok(Some(key))
}

fn checked(key: &str) -> Result<Secret, Usage> {
    let key = key.trim();
    let wrong = if key.is_empty() {
        "there is no key: type one, or pipe one into standard input"
    } else if key.len() as u64 > LONGEST {
        "that is too long for a key"
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        "that is no key: expected one word of letters, digits and signs"
    } else {
        return Ok(Secret::new(key));
    };
    Err(Usage(wrong.to_owned()))
}

fn logout(settings: &Settings, provider: &str) -> anyhow::Result<ExitCode> {
    if auth::forget(&model::environment, provider)? {
        let done = super::print(&format!("The key of {provider} is forgotten.\n"));
        let summaries = settings.provider_summaries(&model::environment);
        let summary = summaries.iter().find(|summary| summary.name == provider);
        if let Some(KeyState::From(KeySource::Variable(name))) = summary.map(|summary| &summary.key)
        {
            note(&format!("leftfold: {name} is set, so there still is one"));
        }
        return done;
    }
    let stored: Vec<&str> = settings.stored.providers().collect();
    let hint = if stored.is_empty() {
        "; none are".to_owned()
    } else {
        Hint::toward(provider, stored).to_string()
    };
    let shown = if settings::has_credential(provider) { "that" } else { provider };
    Err(Usage(format!("no key of `{shown}` is stored{hint}")).into())
}

fn list(settings: &Settings, format: Format) -> anyhow::Result<ExitCode> {
    let stored = |summary: &ProviderSummary| settings.stored.of(&summary.name);
    let summaries = settings.provider_summaries(&model::environment);
    let lines = summaries.iter().map(|summary| match format {
        Format::Json => format!("{}\n", as_json(summary, stored(summary).as_ref())),
        Format::Text => line(summary, stored(summary).as_ref()),
    });
    let mut text: String = lines.collect();
    // a key that was stored for a provider which is not there any more
    let known = |name: &str| summaries.iter().any(|summary| summary.name == name);
    for name in settings.stored.providers().filter(|name| !known(name)) {
        text.push_str(&match format {
            Format::Json => {
                format!("{}\n", json!({ "provider": name, "key": "auth", "known": false }))
            }
            Format::Text => format!("{name:<12}  stored, but there is no such provider\n"),
        });
    }
    super::print(&text)
}

fn line(summary: &ProviderSummary, stored: Option<&Secret>) -> String {
    let mut state = describe(&summary.key);
    if let Some(key) = stored {
        let also =
            if summary.key == KeyState::From(KeySource::Stored) { "" } else { "; stored too:" };
        state.push_str(&format!("{also} {}", masked(key)));
    }
    if let Some(by) = summary.disabled {
        state.push_str(&format!(" (turned off by `{by}`)"));
    }
    format!("{:<12}  {state}\n", summary.name)
}

/// Where the key comes from, or where it could come from.
pub(super) fn describe(key: &KeyState) -> String {
    match key {
        KeyState::From(KeySource::Settings) => "settings".to_owned(),
        KeyState::From(KeySource::Variable(name)) => name.clone(),
        KeyState::From(KeySource::Stored) => "leftfold auth login".to_owned(),
        KeyState::Unneeded => "none needed".to_owned(),
        KeyState::Missing(names) => format!("no key ({} is not set)", names.join(" or ")),
    }
}

/// The same for programs.
pub(super) fn source(key: &KeyState) -> Value {
    match key {
        KeyState::From(KeySource::Settings) => "settings".into(),
        KeyState::From(KeySource::Variable(name)) => json!({ "env": name }),
        KeyState::From(KeySource::Stored) => "auth".into(),
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

/// Enough of a key to tell it from others; nothing of a short one.
fn masked(key: &Secret) -> String {
    const ENOUGH: usize = 16;
    let key = key.reveal();
    let end = key.len().checked_sub(4).filter(|_| key.len() >= ENOUGH).and_then(|at| key.get(at..));
    format!("****{}", end.unwrap_or_default())
}
