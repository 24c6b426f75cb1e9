//! `leftfold mcp login` and `leftfold mcp logout`.

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
    let done = if forgotten { "The stored tokens are removed" } else { "No tokens were stored" };
    super::super::print(&format!("{done}: {}\n", spec.name))
}
