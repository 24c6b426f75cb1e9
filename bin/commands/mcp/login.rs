//! `leftfold mcp login` and `logout`.

use std::path::Path;
use std::process::ExitCode;

use leftfold_mcp::{OAuth, Reach, Spec};

use super::probe;
use crate::cli::{Consent, Format, Login, Logout};
use leftfold_config::{self as settings, Hint, Settings};
use leftfold_runtime::Usage;
use leftfold_runtime::configured;

pub(super) fn login(args: &Login, format: Format) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let mut spec = wanted(&directory, &args.server)?;
    if let (Reach::Remote { oauth, .. }, Some(more)) = (&mut spec.reach, &args.scope) {
        oauth.scopes.extend(more.split_whitespace().map(str::to_owned));
    }
    let consent = args.consent.unwrap_or_else(Consent::usual);
    let probed = leftfold_runtime::run_async(leftfold_mcp::login(&spec, &directory, &consent))?;
    let probed = probed.map_err(|why| failed(&spec, &why))?;
    probe::show(&probed, format)
}

pub(super) fn logout(args: &Logout) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let spec = wanted(&directory, &args.server)?;
    let forgotten = match &spec.reach {
        Reach::Remote { url, oauth, .. } => {
            leftfold_mcp::sign_out(url, oauth).map_err(|why| failed(&spec, &why))?
        }
        Reach::Local { .. } | Reach::Unusable(_) | Reach::Disabled => false,
    };
    let said =
        if forgotten { "What it had granted is forgotten" } else { "It had granted nothing" };
    super::super::print(&format!("{said}: {}\n", spec.name))
}

pub(super) fn failed(spec: &Spec, why: &str) -> anyhow::Error {
    anyhow::anyhow!("MCP server `{}`: {why}", spec.name)
}

/// A server of the settings, or one at a URL, which may be in settings too.
pub(super) fn wanted(directory: &Path, named: &str) -> anyhow::Result<Spec> {
    let is_url = named.starts_with("http://") || named.starts_with("https://");
    let settings = match is_url {
        true => configured::without_plugins(directory)?,
        false => configured::shown(directory)?,
    };
    if let Some((name, mcp)) = settings.mcp.iter().find(|(name, _)| name == named) {
        return Ok(mcp.spec(name));
    }
    if !is_url {
        return Err(unknown(&settings, named).into());
    }
    let specs = settings.mcp.iter().map(|(name, mcp)| mcp.spec(name));
    let same = |spec: &Spec| matches!(&spec.reach, Reach::Remote { url, .. } if url == named);
    let oauth = OAuth { token_store: settings::token_store(), ..OAuth::default() };
    let reach = Reach::Remote { url: named.to_owned(), headers: Vec::new(), oauth };
    let spec = Spec { name: named.to_owned(), reach, timeout: None };
    Ok(specs.into_iter().find(same).unwrap_or(spec))
}

fn unknown(settings: &Settings, named: &str) -> Usage {
    let hint = Hint::toward(named, settings.mcp.iter().map(|(name, _)| name));
    Usage(format!("there is no MCP server `{named}`{hint}; a URL begins with http:// or https://"))
}
