//! Checks the MCP servers by starting each for a short while. Servers of a project that the user does not
//! trust are not among the settings, so they are not started.

use std::path::Path;
use std::time::Duration;

use leftfold_events::sandbox::Backend;
use leftfold_mcp::{Endpoint, ServerReport, ServerSpec, ServerStatus, Servers};

use leftfold_tools::ProjectFolders;

use super::Findings;
use crate::cli::Doctor;
use leftfold_config::Settings;
use leftfold_runtime::{language_servers, specs};

/// How long a server may take to start.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn mcp(
    found: &mut Findings,
    settings: &Settings,
    directory: &Path,
    args: &Doctor,
) -> anyhow::Result<()> {
    found.area("mcp");
    let specs: Vec<ServerSpec> = specs::servers(settings).collect();
    if specs.is_empty() {
        found.note("no MCP servers are configured");
        return Ok(());
    }
    let (asked, left): (Vec<ServerSpec>, Vec<ServerSpec>) =
        specs.into_iter().partition(|spec| args.online || is_local(&spec.endpoint));
    for spec in left {
        found.note(format!("{}: remote, not checked (`--online` checks it)", spec.name));
    }
    let limited = |spec: ServerSpec| ServerSpec {
        timeout: Some(
            spec.timeout.map_or(SERVER_START_TIMEOUT, |timeout| timeout.min(SERVER_START_TIMEOUT)),
        ),
        ..spec
    };
    let asked: Vec<ServerSpec> = asked.into_iter().map(limited).collect();
    let confined = asked.iter().filter(|spec| is_confined(&spec.endpoint));
    let confined: Vec<String> = confined.map(|spec| spec.name.clone()).collect();
    let servers = Servers::from_specs(directory, &settings.environment(), &asked);
    let reports = leftfold_runtime::run_async(async {
        servers.ready().await;
        servers.reports()
    })?;
    for report in &reports {
        add_report(found, settings, report, confined.contains(&report.name));
    }
    Ok(())
}

fn add_report(found: &mut Findings, settings: &Settings, report: &ServerReport, is_confined: bool) {
    let named = settings.mcp.get(&report.name);
    let place = named.map(|mcp| mcp.key_place().to_string()).unwrap_or_default();
    match &report.status {
        ServerStatus::Connected => {
            let sandbox = if is_confined { ", in the sandbox" } else { "" };
            let tools = tools(report.tools.len());
            found.fine(format!("{}: {tools}{sandbox} ({place})", report.name));
        }
        ServerStatus::Disabled => found.note(format!("{}: turned off ({place})", report.name)),
        ServerStatus::Idle => found.note(format!("{}: not started ({place})", report.name)),
        ServerStatus::NeedsSignIn(why) | ServerStatus::Failed(why) => found.warning(
            format!("{}: {why}", report.name),
            format!("sessions run without its tools until you fix it at {place}"),
        ),
    }
}

fn tools(count: usize) -> String {
    format!("connected, {count} tool{}", if count == 1 { "" } else { "s" })
}

/// Reports plugins that cannot be used. Plugins are not started here; only sessions start them.
pub(super) fn plugins(found: &mut Findings, settings: &Settings) {
    found.area("plugins");
    for plugin in &settings.plugins {
        match specs::plugin(plugin, settings) {
            Some(Ok(spec)) => {
                let sandbox = if spec.sandbox.is_some() { " in the sandbox" } else { "" };
                found.fine(format!("configured at {}; sessions start it{sandbox}", spec.place));
            }
            Some(Err(why)) => {
                found.warning(why, "fix the entry; until then sessions run without this plugin");
            }
            None => found.note(format!("turned off ({})", plugin.place())),
        }
    }
}

/// Reports the services of the tools that search, without asking them.
pub(super) fn search(found: &mut Findings, settings: &Settings) {
    found.area("search");
    for tool in leftfold_tools::SEARCH_TOOLS {
        match leftfold_runtime::search::service(settings, tool) {
            Some(Ok(service)) => {
                let (name, address) = (service.vendor().name(), service.endpoint());
                found.fine(format!("{tool}: {name} at {address}"));
            }
            Some(Err(why)) => found.warning(why, format!("sessions have no `{tool}` until then")),
            None => found.note(format!("{tool}: off, because settings name no service for it")),
        }
    }
}

/// Reports the formatters that would run on files of the project, without running one.
pub(super) fn formatters(found: &mut Findings, settings: &Settings, directory: &Path) {
    found.area("formatters");
    let Some((formatting, problems)) = leftfold_runtime::formatting::formatting(settings) else {
        found.note("off, because settings do not turn them on (`formatter`)");
        return;
    };
    for problem in problems {
        found.warning(problem, "files stay as they are written until then");
    }
    if formatting.sandbox.backend == Backend::None {
        found.warning("none runs, because there is no sandbox on this machine", "see `sandbox`");
        return;
    }
    let worktree = &settings.trust.worktree;
    let status = formatting.status(ProjectFolders { directory, worktree });
    let ready = status.iter().filter(|(.., is_ready)| *is_ready);
    let ready: Vec<String> =
        ready.map(|(name, ends, _)| format!("{name} ({})", ends.join(" "))).collect();
    match ready.is_empty() {
        true => found.note("none of those that settings turn on is installed and for this project"),
        false => found.fine(ready.join(", ")),
    }
    if !formatting.trusted {
        found.note("those that run programs or code of the project are off: they need a `formatter` in the project's settings that you trust");
    }
}

/// Reports the language servers that would check files of the project, without starting one.
pub(super) fn language_servers(found: &mut Findings, settings: &Settings, directory: &Path) {
    found.area("language servers");
    if let Some(why) = language_servers::why_off(settings) {
        found.note(format!("off: {why}"));
        return;
    }
    let mut missing = Vec::new();
    for server in language_servers::all(settings, directory) {
        let is_named = settings.lsp.as_ref().is_some_and(|named| named.names(&server.id));
        match &server.spec {
            Ok(spec) => {
                let program = spec.command.first().map_or("", String::as_str);
                let sandbox = if spec.sandbox.is_some() { ", in the sandbox" } else { "" };
                let extensions = server.extensions.join(" ");
                found.fine(format!("{}: {program}{sandbox} ({extensions})", server.id));
            }
            Err(why) if is_named && server.is_wanted => found.warning(
                format!("{}: off, because {why}", server.id),
                "fix its settings or install it; until then it checks no files",
            ),
            Err(why) if is_named => found.note(format!("{}: off, because {why}", server.id)),
            Err(_) => missing.push(server.id),
        }
    }
    if !missing.is_empty() {
        found.note(format!("off, because they are not installed: {}", missing.join(", ")));
    }
}

fn is_confined(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Local { sandbox, .. } => sandbox.is_some(),
        Endpoint::Remote { .. } | Endpoint::Unusable(_) | Endpoint::Disabled => false,
    }
}

/// Whether connecting to it sends nothing to another machine.
fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Local { .. } | Endpoint::Unusable(_) | Endpoint::Disabled => true,
        Endpoint::Remote { url, .. } => is_loopback(url),
    }
}

fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_this_machine_is_local() {
        for (url, local) in [
            ("http://127.0.0.1:80/mcp", true),
            ("http://localhost/mcp", true),
            ("http://[::1]:9000/", true),
            ("https://example.com/127.0.0.1", false),
            ("https://127.0.0.1.example.com/", false),
            ("http://localhost@example.com/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(url), local, "{url}");
        }
    }
}
