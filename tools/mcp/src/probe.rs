//! Probes a server for `mcp probe`: lists its tools, calls them, and signs in if the server asks
//! for it.

use std::path::Path;
use std::time::Duration;

use leftfold_oauth::Consent;
use leftfold_process::Connection as _;
use rmcp::model::{CallToolRequestParams, CallToolResult, JsonObject, Tool};
use serde_json::{Map, Value};

use super::client_handler::ClientHandler;
use super::connect::{self, LaunchContext};
use super::failure::Failure;
use super::link::Link;
use super::oauth::{self, OAuth};
use super::spec::{Endpoint, STARTUP, ServerSpec, ToolReport};
use super::{content, servers};

/// Largest number of consents to ask for in one probe.
const CONSENTS: usize = 3;

/// Depth limit of made-up arguments.
const DEEPEST: usize = 8;

/// The tools to call.
#[derive(Clone, Debug, PartialEq)]
pub enum Calls {
    /// These tools. Arguments that are `None` are made up from the tool's schema.
    These(Vec<(String, Option<JsonObject>)>),
    /// Every tool once, with arguments made up from its schema. These calls may change things.
    All,
}

/// The result of a probe.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    /// The name and version that the server reports.
    pub server: Option<(String, String)>,
    /// The negotiated protocol version.
    pub protocol: String,
    pub tools: Vec<ToolReport>,
    /// Names of the prompts.
    pub prompts: Vec<String>,
    /// Addresses of the resources.
    pub resources: Vec<String>,
    pub calls: Vec<ProbedCall>,
}

#[derive(Clone, Debug)]
pub struct ProbedCall {
    pub tool: String,
    pub arguments: JsonObject,
    /// The output that a model would see, or the reason why there is none.
    pub result: Result<String, String>,
}

/// Connects, lists and calls tools. If the server wants its user to sign in, `consent` asks a
/// person. The server's elicitations get the defaults of their schemas.
///
/// # Errors
/// The reason for the failure, in words for people.
pub async fn probe(
    spec: &ServerSpec,
    directory: &Path,
    calls: &Calls,
    consent: &impl Consent,
) -> Result<ProbeReport, String> {
    let root = LaunchContext { directory: directory.to_owned(), environment: Vec::new() };
    let mut consents = 0;
    loop {
        let failure = match attempt(spec, &root, calls).await {
            Ok(probed) => return Ok(probed),
            Err(failure) => failure,
        };
        let (Some(challenge), Some((url, oauth))) = (&failure.challenge, remote(spec)) else {
            return Err(failure.why);
        };
        if consents == CONSENTS {
            return Err(format!("it still refuses after {CONSENTS} consents: {challenge}"));
        }
        consents += 1;
        oauth::sign_in(url, oauth, Some(challenge), consent).await?;
    }
}

/// Signs in again and connects. Returns the tools. If signing in fails, the earlier grant is kept.
///
/// # Errors
/// The reason for the failure, in words for people.
pub async fn login(
    spec: &ServerSpec,
    directory: &Path,
    consent: &impl Consent,
) -> Result<ProbeReport, String> {
    let Some((url, oauth)) = remote(spec) else {
        return Err("it is a local server, so there is no sign-in".to_owned());
    };
    let root = LaunchContext { directory: directory.to_owned(), environment: Vec::new() };
    let mut stranger = spec.clone();
    if let Endpoint::Remote { oauth, .. } = &mut stranger.endpoint {
        oauth.token_store = None;
    }
    let challenge = match connect::connect(&stranger, &root, ClientHandler::default()).await {
        Ok(link) => {
            link.close().await;
            None
        }
        Err(Failure { challenge: Some(challenge), .. }) => Some(challenge),
        Err(Failure { why, challenge: None, .. }) => return Err(why),
    };
    oauth::sign_in(url, oauth, challenge.as_deref(), consent).await?;
    probe(spec, directory, &Calls::These(Vec::new()), consent).await
}

fn remote(spec: &ServerSpec) -> Option<(&str, &OAuth)> {
    match &spec.endpoint {
        Endpoint::Remote { url, oauth, .. } => Some((url, oauth)),
        Endpoint::Local { .. } | Endpoint::Unusable(_) | Endpoint::Disabled => None,
    }
}

async fn attempt(
    spec: &ServerSpec,
    root: &LaunchContext,
    calls: &Calls,
) -> Result<ProbeReport, Failure> {
    let link = connect::connect(spec, root, ClientHandler::of_defaults()).await?;
    let probed = inspect(&link, calls, spec.timeout.unwrap_or(STARTUP)).await;
    link.close().await;
    probed
}

async fn inspect(link: &Link, calls: &Calls, limit: Duration) -> Result<ProbeReport, Failure> {
    let tools = link.tools();
    // a list without an end or an answer counts as empty
    let resources = tokio::time::timeout(limit, link.list_resources()).await;
    let (prompts, resources) = (link.prompts(), resources.unwrap_or_default());
    let mut probed = ProbeReport {
        server: link.server(),
        protocol: link.protocol(),
        tools: tools.iter().map(tool_report).collect(),
        prompts: prompts.into_iter().map(|prompt| prompt.name).collect(),
        resources: resources.into_iter().map(|resource| resource.uri).collect(),
        calls: Vec::new(),
    };
    for (tool, arguments) in calls_to_make(calls, &tools)? {
        let mut params = CallToolRequestParams::new(tool.clone());
        params.arguments = Some(arguments.clone());
        let result = match tokio::time::timeout(limit, link.ask(params)).await {
            Ok(answer) => answer?.map(|result| shown(&tool, result)),
            Err(_) => Err(format!("it did not answer within {} ms", limit.as_millis())),
        };
        probed.calls.push(ProbedCall { tool, arguments, result: result.and_then(|shown| shown) });
    }
    Ok(probed)
}

fn tool_report(tool: &Tool) -> ToolReport {
    let name = tool.name.to_string();
    let (description, read_only) = (servers::description(tool), servers::is_read_only(tool));
    ToolReport { name: name.clone(), tool: name, description, read_only }
}

fn calls_to_make(calls: &Calls, tools: &[Tool]) -> Result<Vec<(String, JsonObject)>, Failure> {
    let made_up = |tool: &Tool| (tool.name.to_string(), arguments(&tool.input_schema));
    match calls {
        Calls::All => Ok(tools.iter().map(made_up).collect()),
        Calls::These(calls) => calls
            .iter()
            .map(|(name, arguments)| match (arguments, tools.iter().find(|t| t.name == *name)) {
                (_, None) => Err(format!("it has no tool {name:?}").into()),
                (Some(arguments), Some(_)) => Ok((name.clone(), arguments.clone())),
                (None, Some(tool)) => Ok(made_up(tool)),
            })
            .collect(),
    }
}

fn shown(tool: &str, result: CallToolResult) -> Result<String, String> {
    let output = content::output(tool.to_owned(), result);
    if output.is_error { Err(output.output) } else { Ok(output.output) }
}

/// The smallest arguments that the schema accepts.
fn arguments(schema: &JsonObject) -> JsonObject {
    match made_up(&Value::Object(schema.clone()), 0) {
        Value::Object(arguments) => arguments,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

fn made_up(schema: &Value, depth: usize) -> Value {
    for key in ["default", "const"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    for key in ["examples", "enum"] {
        if let Some(value) = schema[key].get(0) {
            return value.clone();
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].get(0)?.as_str());
    match kind {
        Some("string") => "example".into(),
        Some("number" | "integer") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => false.into(),
        Some("array") => Value::Array(Vec::new()),
        Some("null") => Value::Null,
        Some(_) | None => {
            let required = schema["required"].as_array().into_iter().flatten();
            let names = required.filter_map(Value::as_str).filter(|_| depth < DEEPEST);
            let field =
                |name: &str| (name.to_owned(), made_up(&schema["properties"][name], depth + 1));
            Value::Object(names.map(field).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_the_least_that_a_schema_takes() {
        for (schema, expected) in [
            (json!({}), json!({})),
            (
                json!({
                    "required": ["a", "b", "c", "d"],
                    "properties": {
                        "a": { "type": "number" }, "b": { "enum": ["x", "y"] },
                        "c": { "type": ["string", "null"] }, "d": { "type": "integer", "default": 7 },
                        "e": { "type": "string" },
                    },
                }),
                json!({ "a": 1, "b": "x", "c": "example", "d": 7 }),
            ),
            (
                json!({ "required": ["o"], "properties": { "o": {
                    "type": "object", "required": ["l"], "properties": { "l": { "type": "array" } },
                } } }),
                json!({ "o": { "l": [] } }),
            ),
        ] {
            let Value::Object(schema) = schema else { panic!("{schema}") };
            assert_eq!(Value::Object(arguments(&schema)), expected);
        }
    }
}
