//! `leftfold mcp`: lists the MCP servers in settings, with their status and tools.

mod login;
mod probe;

use std::path::Path;
use std::process::ExitCode;

use leftfold_mcp::{Endpoint, OAuth, ServerReport, ServerSpec, ServerStatus};
use serde_json::{Value, json};

use super::live_line::LiveLine;
use super::{NAME, SENTENCE, cell};
use crate::cli::{self, Format};
use leftfold_config::{self as settings, At, Hint, Mcp, Settings};
use leftfold_runtime::Usage;
use leftfold_runtime::project;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::specs;

/// Characters of a tool's description on a line.
const WIDTH: usize = 72;

pub(crate) fn mcp(args: &cli::Mcp) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(args),
        Some(cli::McpCommand::Probe(probe)) => probe::probe(probe, args.format),
        Some(cli::McpCommand::Login(login)) => login::login(login, args.format),
        Some(cli::McpCommand::Logout(logout)) => login::logout(logout),
    }
}

fn list(args: &cli::Mcp) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::shown(&directory)?;
    let servers = project::servers(&directory, &settings, &[]);
    let live = LiveLine::about("connecting to the MCP servers");
    let reports = leftfold_runtime::run_async(async {
        servers.ready().await;
        servers.reports()
    })?;
    drop(live);
    let all = settings.mcp.values().zip(&reports);
    let text: String = match args.format {
        Format::Json => all.map(|(mcp, report)| format!("{}\n", as_json(mcp, report))).collect(),
        Format::Text => all.map(|(mcp, report)| as_text(mcp, report)).collect(),
    };
    if text.is_empty() {
        leftfold_runtime::note(
            "leftfold: no MCP servers are configured: add them under `mcp` in settings",
        );
    }
    super::print_as(args.format, &text)
}

fn status(report: &ServerReport) -> (&'static str, Option<&str>) {
    match &report.status {
        ServerStatus::Connected => ("connected", None),
        ServerStatus::Idle => ("idle", None),
        ServerStatus::Disabled => ("disabled", None),
        ServerStatus::NeedsSignIn(why) | ServerStatus::Failed(why) => ("failed", Some(why)),
    }
}

fn as_json(mcp: &At<Mcp>, report: &ServerReport) -> Value {
    let (status, why) = status(report);
    let tools = report.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "tool": tool.tool,
            "description": tool.description,
            "read_only": tool.read_only,
        })
    });
    let place = mcp.key_place();
    json!({
        "name": report.name,
        "type": mcp.kind_name(),
        "status": status,
        "error": why,
        "server": report.server.as_ref().map(|(name, version)| json!({
            "name": name, "version": version,
        })),
        "tools": tools.collect::<Vec<Value>>(),
        "source": json!({
            "file": place.source.name, "line": place.line, "column": place.column,
        }),
    })
}

fn as_text(mcp: &At<Mcp>, report: &ServerReport) -> String {
    let (status, why) = status(report);
    let why = why.map(|why| format!(": {}", cell(why, SENTENCE))).unwrap_or_default();
    let of = report.server.as_ref();
    let of = of.map(|(name, version)| cell(&format!(" ({name} {version})"), NAME));
    let of = of.unwrap_or_default();
    let name = cell(&report.name, NAME);
    let mut text = format!("{name}  {}  {status}{of}{why}\n", mcp.kind_name());
    for tool in &report.tools {
        let line = format!("{}  {}", cell(&tool.name, NAME), about(&tool.description));
        text.push_str(&format!("  {}\n", line.trim_end()));
    }
    text
}

/// The beginning of a tool's description.
fn about(description: &str) -> String {
    let first = description.lines().next().unwrap_or_default();
    cell(&first.chars().take(WIDTH).collect::<String>(), SENTENCE)
}

fn failed(spec: &ServerSpec, why: &str) -> anyhow::Error {
    anyhow::anyhow!("MCP server `{}`: {why}", spec.name)
}

/// Finds a server by its name in settings, or makes one from a URL, which may be in settings too.
fn wanted(directory: &Path, named: &str) -> anyhow::Result<ServerSpec> {
    let is_url = named.starts_with("http://") || named.starts_with("https://");
    let settings = match is_url {
        true => resolved_settings::without_plugins(directory)?,
        false => resolved_settings::shown(directory)?,
    };
    if let Some(mcp) = settings.mcp.get(named) {
        return Ok(specs::server(named, mcp, &settings));
    }
    if !is_url {
        return Err(unknown(&settings, named).into());
    }
    let mut specs = specs::servers(&settings);
    let same =
        |spec: &ServerSpec| matches!(&spec.endpoint, Endpoint::Remote { url, .. } if url == named);
    let oauth = OAuth { token_store: settings::token_store(), ..OAuth::default() };
    let endpoint = Endpoint::Remote { url: named.to_owned(), headers: Vec::new(), oauth };
    let spec = ServerSpec { name: named.to_owned(), endpoint, timeout: None };
    Ok(specs.find(same).unwrap_or(spec))
}

fn unknown(settings: &Settings, named: &str) -> Usage {
    let hint = Hint::toward(named, settings.mcp.keys());
    Usage(format!(
        "there is no MCP server `{named}`{hint}; give a name from settings or a URL that begins with http:// or https://"
    ))
}
