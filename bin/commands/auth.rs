//! `leftfold auth`: stores, lists and removes the keys of providers, and signs in at those that offer it.

use std::collections::BTreeMap;
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
use leftfold_plugins::{SignInKind, SignInOffer};
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
            let login = Login { provider, method: *method, host: host.as_deref(), consent };
            let without_plugins =
                matches!(method, Some(LoginMethod::Key | LoginMethod::Browser | LoginMethod::Code));
            leftfold_runtime::run_async(async {
                if settings.plugins.is_empty() || without_plugins {
                    return login.run(&settings, Vec::new()).await;
                }
                let (plugins, mut offers) = resolved_settings::sign_ins(&directory).await?;
                offers.retain(|offer| offer.provider == *provider);
                // a plugin may add the provider
                let settings = resolved_settings::settings(&directory, &plugins)?;
                login.run(&settings, offers).await
            })?
        }
        AuthCommand::List { format } => list(&settings, *format),
        AuthCommand::Logout { provider } => logout(&settings, provider),
    }
}

/// A request to sign in.
struct Login<'a> {
    provider: &'a str,
    method: Option<LoginMethod>,
    host: Option<&'a str>,
    consent: Consent,
}

/// The way that a person has chosen.
enum Choice {
    Key,
    Vendor(&'static SignIn, Method),
    Plugin(Box<SignInOffer>),
}

impl Login<'_> {
    /// `offers`: the sign-ins of plugins.
    async fn run(&self, settings: &Settings, offers: Vec<SignInOffer>) -> anyhow::Result<ExitCode> {
        let Self { provider, host, consent, .. } = self;
        let summary = known(settings, provider)?;
        let Some(choice) = self.choose(&summary, offers)? else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        if host.is_some() && !matches!(choice, Choice::Vendor(..)) {
            return Err(Usage("`--host` is for signing in, not for a key".to_owned()).into());
        }
        let what = match &choice {
            Choice::Key => Some("key"),
            Choice::Vendor(..) => Some("sign-in"),
            // its key replaces any other
            Choice::Plugin(_) => None,
        };
        let stored = match choice {
            Choice::Key => store_key(provider)?,
            Choice::Vendor(row, method) => Some(enter(row, method, *host, consent).await?),
            Choice::Plugin(offer) => enter_with_plugin(*offer, consent).await?,
        };
        let Some(stored) = stored else { return Ok(ExitCode::from(INTERRUPTED)) };
        let first = match &summary.key {
            KeyState::From(KeySource::Settings) => Some("the key in settings".to_owned()),
            KeyState::From(KeySource::Variable(name)) => Some(format!("the variable {name}")),
            KeyState::From(KeySource::Stored | KeySource::SignIn(_) | KeySource::Plugin(_))
            | KeyState::Credentials
            | KeyState::Unneeded
            | KeyState::Missing(_) => None,
        };
        if let (Some(first), Some(what)) = (first, what) {
            note(&format!(
                "leftfold: {first} takes precedence over the stored {what} of {provider}"
            ));
        }
        if let Some(by) = summary.disabled {
            note(&format!("leftfold: the setting `{by}` turns {provider} off"));
        }
        super::print(&stored)
    }

    /// The way to sign in, or a key; `None` if the user cancels. Only a terminal is asked, unless a plugin is wanted.
    fn choose(
        &self,
        summary: &ProviderSummary,
        offers: Vec<SignInOffer>,
    ) -> anyhow::Result<Option<Choice>> {
        let provider = self.provider;
        let row = sign_in::for_provider(provider);
        let no_sign_in = || Usage(format!("{provider} has no sign-in: store a key instead"));
        let by_plugins = offers.into_iter().map(|offer| {
            let SignInOffer { plugin, method, .. } = &offer;
            let label = format!("{}, with the plugin {plugin}", method.label);
            (Choice::Plugin(Box::new(offer)), label)
        });
        let wants_plugin = match self.method {
            Some(LoginMethod::Key) => return Ok(Some(Choice::Key)),
            Some(LoginMethod::Browser) => {
                return Ok(Some(Choice::Vendor(row.ok_or_else(no_sign_in)?, Method::Browser)));
            }
            Some(LoginMethod::Code) => {
                return Ok(Some(Choice::Vendor(row.ok_or_else(no_sign_in)?, Method::Device)));
            }
            Some(LoginMethod::Plugin) => true,
            None => false,
        };
        // a provider without a variable for it has no keys, if it has a sign-in
        let has_keys = !wants_plugin && (row.is_none() || !summary.key_variables.is_empty());
        let mut methods = Vec::new();
        if let Some(row) = row.filter(|_| !wants_plugin) {
            methods.extend(sign_in::methods(row).into_iter().map(|method| {
                let label = match method {
                    Method::Browser => format!("{} account, in a browser here", row.label),
                    Method::Device => format!("{} account, with a code", row.label),
                };
                (Choice::Vendor(row, method), label)
            }));
        }
        methods.extend(by_plugins);
        if has_keys {
            methods.push((Choice::Key, "API key".to_owned()));
        }
        let at = match methods.len() {
            0 => {
                return Err(Usage(format!(
                    "no plugin of your settings offers a sign-in at {provider}: see `leftfold plugins`"
                ))
                .into());
            }
            1 => 0,
            // a key is piped
            last if has_keys && !std::io::stdin().is_terminal() => last - 1,
            _ if !wants_plugin && !std::io::stdin().is_terminal() => 0,
            _ => {
                let labels: Vec<&str> = methods.iter().map(|(_, label)| label.as_str()).collect();
                match pick(&format!("Sign in at {provider} with"), &labels)? {
                    Some(at) => at,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(methods.swap_remove(at).0))
    }
}

/// Lets a person choose one of several, the first if nothing else is said; `None` if the user cancels.
fn pick(question: &str, labels: &[&str]) -> anyhow::Result<Option<usize>> {
    for (number, label) in labels.iter().enumerate() {
        note(&format!("  {}  {label}", number + 1));
    }
    loop {
        let Some(line) = ask(&format!("{question} [1]: "))? else { return Ok(None) };
        let chosen = if line.is_empty() { Ok(1) } else { line.parse::<usize>() };
        let at = chosen.ok().and_then(|number| number.checked_sub(1));
        if let Some(at) = at.filter(|at| *at < labels.len()) {
            return Ok(Some(at));
        }
    }
}

/// Reads a line of standard input; `None` at its end.
fn ask(question: &str) -> anyhow::Result<Option<String>> {
    write_note(question);
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim().to_owned()))
}

/// Asks for a key and stores it; `None` if the user cancels.
fn store_key(provider: &str) -> anyhow::Result<Option<String>> {
    let Some(key) = read(provider)? else { return Ok(None) };
    let path = auth::store(&model::environment, provider, &checked(&key)?)?;
    Ok(Some(format!("The key of {provider} is stored in {}.\n", path.display())))
}

/// Signs in with a plugin, and says so; `None` if the user cancels.
async fn enter_with_plugin(
    offer: SignInOffer,
    consent: &Consent,
) -> anyhow::Result<Option<String>> {
    let SignInOffer { plugin, provider, method, .. } = &offer;
    let done = format!("You are signed in at {provider} with the plugin {plugin}.\n");
    let mut inputs = BTreeMap::new();
    for prompt in &method.prompts {
        let text = |name: &str| prompt[name].as_str().unwrap_or_default();
        let when = &prompt["when"];
        let other = when["key"].as_str().map(|key| inputs.get(key).map(String::as_str));
        let is_equal = other.is_some_and(|other| other == when["value"].as_str());
        if other.is_some() && is_equal == (when["op"] == "neq") {
            continue;
        }
        let answer = match prompt["options"].as_array().filter(|_| prompt["type"] == "select") {
            Some(options) => {
                let labels = options.iter().filter_map(|option| option["label"].as_str());
                let at = pick(text("message"), &labels.collect::<Vec<_>>())?;
                at.and_then(|at| options[at]["value"].as_str().map(str::to_owned))
            }
            None => ask(&format!("{}: ", text("message")))?,
        };
        let Some(answer) = answer else { return Ok(None) };
        inputs.insert(text("key").to_owned(), answer);
    }
    if method.kind == SignInKind::Key {
        let Some(key) = read(provider)? else { return Ok(None) };
        let key = checked(&key)?;
        offer.accept_key(key.reveal(), &inputs).await.map_err(anyhow::Error::msg)?;
        return Ok(Some(done));
    }
    let started = offer.authorize(&inputs).await.map_err(anyhow::Error::msg)?;
    let page = &started.url;
    note(&format!("leftfold: open this page\n\n{page}\n\n{}", started.instructions));
    if !page.is_empty() {
        consent.open(page);
    }
    let code = if started.needs_code {
        let Some(code) = ask("Code: ")? else { return Ok(None) };
        Some(code)
    } else {
        None
    };
    started.finish(code.as_deref()).await.map_err(anyhow::Error::msg)?;
    Ok(Some(done))
}

/// Signs in, and says so.
async fn enter(
    row: &'static SignIn,
    method: Method,
    host: Option<&str>,
    consent: &Consent,
) -> anyhow::Result<String> {
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
    Ok(format!("You are signed in at {} with {}.\n", row.provider, row.label))
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
    if let Some(row) = sign_in::for_provider(provider).filter(|_| signed_in) {
        return leave(row);
    }
    if auth::forget(&model::environment, provider)? {
        let by_plugin = settings.stored.tokens(provider).and(settings.stored.of_plugin(provider));
        let done = super::print(&match by_plugin {
            Some(known) => format!(
                "You are signed out of {provider}: the tokens of the plugin {} are removed.\n",
                known.plugin.name
            ),
            None => format!("The key of {provider} is removed.\n"),
        });
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
    let stored = |summary: &ProviderSummary| settings.stored.for_provider(&summary.name);
    let summaries = settings.provider_summaries(&model::environment);
    let lines = summaries.iter().map(|summary| {
        let signed_in = settings.stored.tokens(&summary.name);
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
        let is_used = is_by_sign_in(&summary.key);
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

/// Whether requests have the tokens of a sign-in.
pub(super) fn is_by_sign_in(key: &KeyState) -> bool {
    matches!(key, KeyState::From(KeySource::SignIn(_) | KeySource::Plugin(_)))
}

/// Says where the key comes from, or where it could come from.
pub(super) fn describe(key: &KeyState) -> String {
    match key {
        KeyState::From(KeySource::Settings) => "settings".to_owned(),
        KeyState::From(KeySource::Variable(name)) => name.clone(),
        KeyState::From(KeySource::Stored) => "leftfold auth login".to_owned(),
        KeyState::Credentials => "the vendor's own credentials".to_owned(),
        KeyState::From(KeySource::SignIn(label)) => format!("signed in with {label}"),
        KeyState::From(KeySource::Plugin(name)) => format!("signed in with the plugin {name}"),
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
        KeyState::From(KeySource::Plugin(name)) => json!({ "plugin": name }),
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
