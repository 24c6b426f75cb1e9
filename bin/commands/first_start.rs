//! The start of a conversation without a model: offers the models of servers on this machine, and to store a key.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use leftfold_config::{Error, environment};
use leftfold_runtime::local_servers::{self, ServedModel};
use leftfold_runtime::{Usage, only_people, resolved_settings, write_note};
use leftfold_terminal::Start;
use leftfold_view::clean::{clip, printable_line};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};

use crate::cli::{Auth, AuthCommand, LoginMethod, somebody_there};

/// Lets a person at the terminal choose a model if there is none. Answers the exit code if there is to be no
/// conversation.
///
/// # Errors
/// The terminal cannot be read, or the choice cannot be stored.
pub(crate) fn choose_model(start: &Start) -> anyhow::Result<Option<ExitCode>> {
    let names_one = start.overrides.model.is_some() || start.session.is_some();
    if names_one || !somebody_there() {
        return Ok(None);
    }
    let directory = std::env::current_dir()?;
    // the conversation reports wrong settings
    let Ok(settings) = resolved_settings::without_plugins(&directory) else { return Ok(None) };
    // Settings that the user may trust may name a model, and the conversation asks about them.
    if !settings.trust.is_whole() {
        return Ok(None);
    }
    let missing = match settings.resolve_model(None, &environment) {
        Err(Error::NoModel { .. }) => None,
        Err(Error::MissingKey { provider, .. }) => Some(provider),
        Ok(_) | Err(_) => return Ok(None),
    };
    only_people::require("leftfold auth login")?;
    let offers = match missing {
        None => leftfold_runtime::run_async(local_servers::models())?,
        Some(_) => Vec::new(),
    };
    ask(&offers, missing.as_deref())
}

fn ask(offers: &[ServedModel], missing: Option<&str>) -> anyhow::Result<Option<ExitCode>> {
    const LEFT: u8 = 2;
    let mut text = match missing {
        Some(provider) => format!("The provider {} has no key.\n\n", printable_line(provider)),
        None => "Leftfold needs a model, and no provider has a key yet.\n\n".to_owned(),
    };
    for (number, ServedModel { server, model, .. }) in (1..).zip(offers) {
        let model = clip(&printable_line(model), 60);
        text += &format!("  {number}  {model} ({} on this machine)\n", server.title);
    }
    let provider = missing.unwrap_or("anthropic");
    text += &format!("  k  store a key, such as one of {}\n", printable_line(provider));
    text += "  q  leave; `leftfold demo` shows Leftfold at work without a model\n\n";
    write_note(&text);
    // Keys that were typed before this were meant for the shell.
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    loop {
        write_note("Your choice: ");
        let Some(line) = read_line()? else { return Ok(Some(ExitCode::from(LEFT))) };
        match line.trim() {
            "q" => return Ok(Some(ExitCode::from(LEFT))),
            "k" => {
                write_note(&format!("Provider [{}]: ", printable_line(provider)));
                let Some(named) = read_line()? else { return Ok(Some(ExitCode::from(LEFT))) };
                let named = Some(named.trim()).filter(|named| !named.is_empty());
                let provider = named.unwrap_or(provider).to_owned();
                let login = AuthCommand::Login {
                    provider,
                    key: None,
                    method: Some(LoginMethod::Key),
                    host: None,
                    consent: None,
                };
                match super::auth::auth(&Auth { command: login }) {
                    Ok(code) if code == ExitCode::SUCCESS => return Ok(None),
                    Ok(code) => return Ok(Some(code)),
                    Err(error) if error.is::<Usage>() => write_note(&format!("{error}\n")),
                    Err(error) => return Err(error),
                }
            }
            other => {
                let number: Option<usize> = other.parse().ok();
                let offer = number.and_then(|number| offers.get(number.checked_sub(1)?));
                if let Some(offer) = offer {
                    return keep(offer);
                }
            }
        }
    }
}

fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then_some(line))
}

/// Makes the offered model the user's own. Settings that exist are the user's to change.
fn keep(offer: &ServedModel) -> anyhow::Result<Option<ExitCode>> {
    let path = user_settings()?;
    let text = format!("{}\n", serde_json::to_string_pretty(&settings_for(offer))?);
    let shown = printable_line(&path.display().to_string()).into_owned();
    if path.exists() {
        write_note(&format!("Put this into {shown}, and start again:\n{text}"));
        return Ok(Some(ExitCode::from(2)));
    }
    write_new(&path, &text).with_context(|| format!("{shown} cannot be written"))?;
    write_note(&format!("Stored in {shown}.\n"));
    Ok(None)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The user's own settings file.
fn user_settings() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| {
        let value = environment(name).map(PathBuf::from);
        value.filter(|folder| folder.is_absolute())
    };
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let config = config.ok_or_else(|| Usage("HOME is not set".to_owned()))?;
    Ok(config.join("leftfold").join("leftfold.json"))
}

/// The settings that make it the default model.
fn settings_for(ServedModel { server, base, model }: &ServedModel) -> Value {
    let name = format!("{}/{model}", server.provider);
    if server.is_builtin {
        return json!({ "model": name });
    }
    json!({
        "model": name,
        "provider": { server.provider: {
            "wire": "openai-chat",
            "options": { "baseURL": base },
            "models": { model: {} },
        } },
    })
}
