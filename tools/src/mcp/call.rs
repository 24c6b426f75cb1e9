//! The way of a call to a server's tool: resolved like every other, and run.

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Class, Resolution};
use serde_json::json;

use super::content;
use super::pool::{Offer, Pool};
use crate::tool::{self, Plan};
use crate::{Context, Error, Output, Workspace, args, text};

/// Bytes of what is wrong with a server, and of a name.
const MAX_WHY: usize = 1_000;

/// What the call would do; `None` if its name is not one of a server's tool. Waits for servers that
/// are just being started.
pub(crate) fn resolve(call: &CallSpec, cx: &Workspace) -> Option<Resolution> {
    let pool = cx.mcp.pool()?;
    let name = call.name.trim();
    pool.server_of(name)?;
    cx.mcp.wait();
    Some(match pool.find(name) {
        Some(offer) => match arguments(name, &call.input, cx) {
            Ok(input) => plan(&offer, input).resolution(name),
            Err(error) => tool::refused(name, &call.input, &error),
        },
        None => tool::refused(name, &call.input, &missing(pool, name)),
    })
}

/// Runs what [`resolve`] answered; `None` if that is no call of a server's tool.
pub(crate) async fn run(resolved: &Resolution, cx: &Context) -> Option<Output> {
    let pool = cx.workspace.mcp.pool()?;
    let server = pool.server_of(&resolved.name)?;
    let output = match &resolved.error {
        Some(error) => Err(Error::Refused(error.clone())),
        None => {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return Some(Output::failed(&Error::Cancelled)),
                () = server.ready() => {}
            }
            execute(pool, resolved, cx).await
        }
    };
    Some(output.unwrap_or_else(|error| Output::failed(&error)))
}

async fn execute(pool: &Pool, resolved: &Resolution, cx: &Context) -> Result<Output, Error> {
    let name = &resolved.name;
    let offer = pool.find(name).ok_or_else(|| missing(pool, name))?;
    if resolved.class == Class::Read && !offer.is_read_only() {
        return Err(Error::Refused(format!(
            "The tool {name} may change things by now, which was not so when the call was judged; \
             nothing was done. Try again."
        )));
    }
    let input = arguments(name, &resolved.input, &cx.workspace)?;
    let result = offer.link.call(&offer.tool.name, &input, cx).await?;
    let mut output = content::output(offer.title(), result);
    let (server, tool) = (offer.server.spec.name.clone(), offer.tool.name.to_string());
    output.mark("server", server);
    output.mark("tool", tool);
    Ok(output)
}

/// With their secrets put back.
fn arguments(name: &str, input: &Json, cx: &Workspace) -> Result<Json, Error> {
    args::any(name, &cx.secrets.put_back(input)?)
}

fn plan(offer: &Offer, input: Json) -> Plan {
    let class = if offer.is_read_only() { Class::Read } else { Class::Command };
    let mut plan = Plan { input, ..Plan::new(class) }.allowed_by(&offer.name);
    if let Some(timeout) = offer.server.spec.timeout {
        plan.timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    }
    plan
}

/// Why there is no such tool.
fn missing(pool: &Pool, name: &str) -> Error {
    let name = text::clip(name.to_owned(), MAX_WHY);
    let Some(server) = pool.server_of(&name) else {
        return Error::UnknownTool(format!("There is no tool named {name:?}."));
    };
    let own = &server.spec.name;
    if let Some(why) = server.failure() {
        let why = text::clip(why, MAX_WHY);
        return Error::Mcp(format!("The MCP server {own:?} can not be used now: {why}."));
    }
    let known: Vec<String> = pool
        .reports()
        .into_iter()
        .filter(|report| report.name == *own)
        .flat_map(|report| report.tools)
        .map(|tool| tool.name)
        .collect();
    let known = known.join(", ");
    let known = if known.is_empty() { "none".to_owned() } else { text::clip(known, MAX_WHY) };
    Error::UnknownTool(format!(
        "There is no tool named {name:?}. The tools of the MCP server {own:?} are: {known}."
    ))
}

impl Output {
    /// Of a server's tool.
    pub(super) fn of_server(title: String, text: String, is_error: bool) -> Self {
        let meta = if is_error { json!({ "error_kind": "mcp" }) } else { json!({}) };
        Self { is_error, ..Self::new(title, text, &meta) }
    }
}
