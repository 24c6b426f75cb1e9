//! `leftfold auth`: stores, lists and removes the keys of providers, and signs in at those that offer it.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::password_prompt;
use crate::cli::{Auth, AuthCommand, Consent, Format, LoginMethod};
use leftfold_config::auth::{self, SignedIn};
use leftfold_config::{
    self as settings, Hint, KeySource, KeyState, ProviderSummary, Secret, Settings,
};
use leftfold_events::Time;
use leftfold_runtime::Usage;
use leftfold_runtime::note;
use leftfold_runtime::sign_in::{self, Method, SignIn};
use leftfold_runtime::{model, resolved_settings, write_note};

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
        AuthCommand::Login { provider, key: None, method, host, consent } => {
            let consent = consent.unwrap_or_else(Consent::usual);
            login(&settings, provider, *method, host.as_deref(), &consent)
        }
        AuthCommand::List { format } => list(&settings, *format),
        AuthCommand::Logout { provider } => logout(&settings, provider),
    }
}

fn login(
    settings: &Settings,
    provider: &str,
    method: Option<LoginMethod>,
    host: Option<&str>,
    consent: &Consent,
) -> anyhow::Result<ExitCode> {
    let summary = known(settings, provider)?;
    let method = match (sign_in::of(provider), method) {
        (None, None | Some(LoginMethod::Key)) => LoginMethod::Key,
        (None, Some(_)) => {
            return Err(Usage(format!("{provider} has no sign-in: store a key instead")).into());
        }
        (Some(_), Some(method)) => method,
        (Some(row), None) => match choose(row, &summary)? {
            Some(method) => method,
            None => return Ok(ExitCode::from(INTERRUPTED)),
        },
    };
    let (stored, what) = match (sign_in::of(provider), method) {
        (_, LoginMethod::Key) | (None, _) => {
            if host.is_some() {
                return Err(Usage("`--host` is for signing in, not for a key".to_owned()).into());
            }
            let Some(stored) = store_key(provider)? else {
                return Ok(ExitCode::from(INTERRUPTED));
            };
            (stored, "key")
        }
        (Some(row), LoginMethod::Browser) => {
            (enter(row, Method::Browser, host, consent)?, "sign-in")
        }
        (Some(row), LoginMethod::Code) => (enter(row, Method::Device, host, consent)?, "sign-in"),
    };
    let first = match &summary.key {
        KeyState::From(KeySource::Settings) => Some("the key in settings".to_owned()),
        KeyState::From(KeySource::Variable(name)) => Some(format!("the variable {name}")),
        KeyState::From(KeySource::Stored | KeySource::SignIn(_))
        | KeyState::Credentials
        | KeyState::Unneeded
        | KeyState::Missing(_) => None,
    };
    if let Some(first) = first {
        note(&format!("leftfold: {first} takes precedence over the stored {what} of {provider}"));
    }
    if let Some(by) = summary.disabled {
        note(&format!("leftfold: the setting `{by}` turns {provider} off"));
    }
    super::print(&stored)
}

/// Asks for a key and stores it; `None` if the user cancels.
fn store_key(provider: &str) -> anyhow::Result<Option<String>> {
    let Some(key) = read(provider)? else { return Ok(None) };
    let path = auth::store(&model::environment, provider, &checked(&key)?)?;
    Ok(Some(format!("The key of {provider} is stored in {}.\n", path.display())))
}

/// The way to sign in, or a key. Only a terminal is asked; `None` if its user cancels.
fn choose(row: &SignIn, summary: &ProviderSummary) -> anyhow::Result<Option<LoginMethod>> {
    let signs_in = |method: &Method| match method {
        Method::Browser => {
            (LoginMethod::Browser, format!("{} account, in a browser here", row.label))
        }
        Method::Device => (LoginMethod::Code, format!("{} account, with a code", row.label)),
    };
    let mut methods: Vec<_> = sign_in::methods(row).iter().map(signs_in).collect();
    // a provider without a variable for it has no keys
    let has_keys = !summary.key_variables.is_empty();
    if has_keys {
        methods.push((LoginMethod::Key, "API key".to_owned()));
    }
    if let [(only, _)] = methods[..] {
        return Ok(Some(only));
    }
    if !std::io::stdin().is_terminal() {
        return Ok(Some(if has_keys { LoginMethod::Key } else { methods[0].0 }));
    }
    for (number, (_, name)) in methods.iter().enumerate() {
        note(&format!("  {}  {name}", number + 1));
    }
    loop {
        write_note(&format!("Sign in at {} with [1]: ", row.provider));
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let chosen = if line.trim().is_empty() { Ok(1) } else { line.trim().parse::<usize>() };
        if let Some((method, _)) = chosen.ok().and_then(|n| methods.get(n.checked_sub(1)?)) {
            return Ok(Some(*method));
        }
    }
}

/// Signs in, and says so.
fn enter(
    row: &'static SignIn,
    method: Method,
    host: Option<&str>,
    consent: &Consent,
) -> anyhow::Result<String> {
    leftfold_runtime::run_async(async {
        let pending = sign_in::begin(row, method, host).await?;
        if let Some(code) = pending.code() {
            let page = pending.page();
            note(&format!(
                "leftfold: open this page and enter the code {code}\n\n{page}\n\nGive the code to nobody else: \
                 it lets them act as you."
            ));
            consent.open(&page);
        }
        pending.finish(consent).await?;
        anyhow::Ok(format!("You are signed in at {} with {}.\n", row.provider, row.label))
    })?
}

/// Looks up a provider.
fn known(settings: &Settings, provider: &str) -> Result<ProviderSummary, Usage> {
    if let Some(summary) = settings.provider_summary(provider, &model::environment) {
        return Ok(summary);
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
    let signed_in = settings.stored.sign_in(provider).is_some();
    if let Some(row) = sign_in::of(provider).filter(|_| signed_in) {
        return leave(row);
    }
    if auth::forget(&model::environment, provider)? {
        let done = super::print(&format!("The key of {provider} is removed.\n"));
        let summary = settings.provider_summary(provider, &model::environment);
        if let Some(KeyState::From(KeySource::Variable(name))) = summary.map(|summary| summary.key)
        {
            note(&format!("leftfold: {provider} still has a key, from the variable {name}"));
        }
        return done;
    }
    let stored = settings.stored.providers();
    let stored: Vec<&str> =
        stored.chain(settings.stored.sign_ins().map(|(name, _)| name)).collect();
    let hint = if stored.is_empty() {
        "; there are no stored keys".to_owned()
    } else {
        Hint::toward(provider, stored).to_string()
    };
    let shown = if settings::has_credential(provider) { "that" } else { provider };
    Err(Usage(format!("no key is stored for `{shown}`{hint}")).into())
}

/// Signs out, and says so.
fn leave(row: &'static SignIn) -> anyhow::Result<ExitCode> {
    let (_, why) = leftfold_runtime::run_async(sign_in::sign_out(row))??;
    let (provider, label) = (row.provider, row.label);
    let done = super::print(&format!(
        "You are signed out of {provider}: the tokens of {label} are removed.\n"
    ));
    if let Some(why) = why {
        note(&format!(
            "leftfold: {label} may still accept the tokens ({why}): to be sure, end the access in your account there"
        ));
    }
    done
}

fn list(settings: &Settings, format: Format) -> anyhow::Result<ExitCode> {
    let stored = |summary: &ProviderSummary| settings.stored.of(&summary.name);
    let summaries = settings.provider_summaries(&model::environment);
    let lines = summaries.iter().map(|summary| {
        let signed_in = settings.stored.sign_in(&summary.name);
        match format {
            Format::Json => {
                format!("{}\n", as_json(summary, stored(summary).as_ref(), signed_in.as_ref()))
            }
            Format::Text => line(summary, stored(summary).as_ref(), signed_in.as_ref()),
        }
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

fn line(
    summary: &ProviderSummary,
    stored: Option<&Secret>,
    signed_in: Option<&SignedIn>,
) -> String {
    let mut state = describe(&summary.key);
    if let Some(key) = stored {
        let also =
            if summary.key == KeyState::From(KeySource::Stored) { "" } else { "; also stored:" };
        state.push_str(&format!("{also} {}", masked(key)));
    }
    if let Some(signed_in) = signed_in {
        let is_used = matches!(summary.key, KeyState::From(KeySource::SignIn(_)));
        state.push_str(if is_used { "; " } else { "; also signed in: " });
        state.push_str(&standing(signed_in));
    }
    if let Some(by) = summary.disabled {
        state.push_str(&format!(" (turned off by `{by}`)"));
    }
    format!("{:<23}  {state}\n", summary.name)
}

/// Until when a sign-in lasts.
pub(super) fn standing(signed_in: &SignedIn) -> String {
    let refreshed = if signed_in.is_refreshable() { ", then refreshed" } else { "" };
    match until(signed_in) {
        None => "token without an end".to_owned(),
        Some(end) if end > SystemTime::now() => {
            format!("token until {}{refreshed}", Time::from(end))
        }
        Some(_) if signed_in.is_refreshable() => "token refreshed with the next request".to_owned(),
        Some(_) => "token expired: sign in again".to_owned(),
    }
}

/// Whether a person must sign in again.
pub(super) fn is_over(signed_in: &SignedIn) -> bool {
    let has_ended = until(signed_in).is_some_and(|end| end <= SystemTime::now());
    has_ended && !signed_in.is_refreshable()
}

fn until(signed_in: &SignedIn) -> Option<SystemTime> {
    let end = Duration::from_millis(signed_in.expires);
    UNIX_EPOCH.checked_add(end).filter(|_| signed_in.expires != 0)
}

/// Says where the key comes from, or where it could come from.
pub(super) fn describe(key: &KeyState) -> String {
    match key {
        KeyState::From(KeySource::Settings) => "settings".to_owned(),
        KeyState::From(KeySource::Variable(name)) => name.clone(),
        KeyState::From(KeySource::Stored) => "leftfold auth login".to_owned(),
        KeyState::Credentials => "the vendor's own credentials".to_owned(),
        KeyState::From(KeySource::SignIn(label)) => format!("signed in with {label}"),
        KeyState::Unneeded => "none needed".to_owned(),
        KeyState::Missing(names) if names.is_empty() => "not signed in".to_owned(),
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
        KeyState::From(KeySource::SignIn(_)) => "sign-in".into(),
        KeyState::Unneeded => "unneeded".into(),
        KeyState::Missing(_) => Value::Null,
    }
}

fn as_json(
    summary: &ProviderSummary,
    stored: Option<&Secret>,
    signed_in: Option<&SignedIn>,
) -> Value {
    let until = signed_in.and_then(until).map(|end| Time::from(end).to_string());
    json!({
        "provider": summary.name,
        "key": source(&summary.key),
        "stored": stored.map(masked),
        "signedIn": signed_in.is_some(),
        "until": until,
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
