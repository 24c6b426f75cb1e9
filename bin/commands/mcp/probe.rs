//! `leftfold mcp probe`: lists a server's tools, resources and prompts, and calls tools.
//!
//! The protocol's conformance suite tests this client. When the suite names a scenario
//! (`MCP_CONFORMANCE_SCENARIO`), all tools are called, consent pages are followed, and nothing is
//! stored.

use std::process::ExitCode;

use leftfold_mcp::{Calls, Endpoint, ProbeReport, ProbedCall};
use serde_json::{Map, Value, json};

use super::{NAME, about, cell, failed, wanted};
use crate::cli::{Consent, Format, Probe};
use leftfold_runtime::Usage;
use leftfold_runtime::model;
use leftfold_view::clean::{clean, printable_line};

const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";
/// The suite's variable with a JSON object, which may name a client that the server knows.
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";
/// The URL of the client metadata document that the suite expects.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

pub(super) fn probe(args: &Probe, format: Format) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let mut spec = wanted(&directory, &args.server)?;
    let suite = std::env::var_os(SCENARIO).is_some();
    // Tokens live as long as this process.
    let folder = tempfile::tempdir()?;
    if let (true, Endpoint::Remote { oauth, .. }) = (suite, &mut spec.endpoint) {
        oauth.token_store = Some(folder.path().join("mcp-auth.json"));
        oauth.client_metadata = Some(DOCUMENT.to_owned());
        oauth.client = client(model::environment(CONTEXT).as_deref())?;
    }
    let calls = if args.call_all || suite { Calls::All } else { named(&args.call)? };
    let usual = || if suite { Consent::Follow } else { Consent::usual() };
    let consent = args.consent.unwrap_or_else(usual);
    let probed =
        leftfold_runtime::run_async(leftfold_mcp::probe(&spec, &directory, &calls, &consent))?;
    let probed = probed.map_err(|why| failed(&spec, &why))?;
    show(&probed, format)?;
    let failed = probed.calls.iter().any(|call| call.result.is_err());
    Ok(if failed && !args.call.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn client(context: Option<&str>) -> Result<Option<(String, Option<String>)>, Usage> {
    let Some(context) = context else { return Ok(None) };
    let wrong = |_| Usage(format!("{CONTEXT}: expected a JSON object"));
    let context: Map<String, Value> = serde_json::from_str(context).map_err(wrong)?;
    let text = |key: &str| context.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(text("client_id").map(|id| (id, text("client_secret"))))
}

fn named(calls: &[String]) -> Result<Calls, Usage> {
    let call = |call: &String| match call.split_once('=') {
        None => Ok((call.clone(), None)),
        Some((tool, arguments)) => match serde_json::from_str(arguments) {
            Ok(arguments) => Ok((tool.to_owned(), Some(arguments))),
            Err(error) => Err(Usage(format!(
                "--call {tool}: expected `TOOL` or `TOOL={{\"argument\": \"value\"}}`: {error}"
            ))),
        },
    };
    calls.iter().map(call).collect::<Result<_, _>>().map(Calls::These)
}

pub(super) fn show(probed: &ProbeReport, format: Format) -> anyhow::Result<ExitCode> {
    let text = match format {
        Format::Json => format!("{}\n", as_json(probed)),
        Format::Text => as_text(probed),
    };
    super::super::print_as(format, &text)
}

fn as_json(probed: &ProbeReport) -> Value {
    let tool = |tool: &leftfold_mcp::ToolReport| {
        json!({
            "name": tool.tool, "description": tool.description, "read_only": tool.read_only,
        })
    };
    let call = |call: &ProbedCall| {
        json!({
            "tool": call.tool, "arguments": call.arguments,
            "result": call.result.as_ref().ok(), "error": call.result.as_ref().err(),
        })
    };
    json!({
        "server": probed.server.as_ref().map(|(name, version)| json!({
            "name": name, "version": version,
        })),
        "protocol": probed.protocol,
        "tools": probed.tools.iter().map(tool).collect::<Vec<Value>>(),
        "prompts": probed.prompts,
        "resources": probed.resources,
        "calls": probed.calls.iter().map(call).collect::<Vec<Value>>(),
    })
}

fn as_text(probed: &ProbeReport) -> String {
    let of = probed.server.as_ref().map(|(name, version)| format!("{name} {version}, "));
    let mut lines = vec![format!("{}protocol {}", of.unwrap_or_default(), probed.protocol)];
    for tool in &probed.tools {
        lines.push(format!("  {}  {}", cell(&tool.tool, NAME), about(&tool.description)));
    }
    for (what, names) in [("prompts", &probed.prompts), ("resources", &probed.resources)] {
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    }
    for call in &probed.calls {
        let arguments = Value::Object(call.arguments.clone());
        lines.push(format!("{} {arguments}:", call.tool));
        let (mark, result) = match &call.result {
            Ok(result) => ("", result),
            Err(why) => ("failed: ", why),
        };
        lines.extend(clean(&format!("{mark}{result}")).lines().map(|line| format!("  {line}")));
    }
    lines.iter().map(|line| printable_line(line).trim_end().to_owned() + "\n").collect()
}
