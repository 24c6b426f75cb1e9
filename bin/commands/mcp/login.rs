//! `leftfold mcp login` and `logout`.

use std::process::ExitCode;

use leftfold_mcp::Endpoint;

use super::{failed, probe, wanted};
use crate::cli::{Consent, Format, Login, Logout};

pub(super) fn login(args: &Login, format: Format) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let mut spec = wanted(&directory, &args.server)?;
    if let (Endpoint::Remote { oauth, .. }, Some(more)) = (&mut spec.endpoint, &args.scope) {
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
    let forgotten = match &spec.endpoint {
        Endpoint::Remote { url, oauth, .. } => {
            leftfold_mcp::sign_out(url, oauth).map_err(|why| failed(&spec, &why))?
        }
        Endpoint::Local { .. } | Endpoint::Unusable(_) | Endpoint::Disabled => false,
    };
    let said =
        if forgotten { "What it had granted is forgotten" } else { "It had granted nothing" };
    super::super::print(&format!("{said}: {}\n", spec.name))
}
