//! The way of a call to a plugin's tool: resolved like every other, and run.

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Class, Resolution};
use serde_json::{Value, json};

use super::link::Fail;
use super::pool::Offer;
use crate::tool::{self, Plan};
use crate::{Context, Error, Output, Workspace, args, mcp};

/// What the call would do; `None` if its name is not one of a plugin's tool.
pub(crate) fn resolve(call: &CallSpec, cx: &Workspace) -> Option<Resolution> {
    let name = call.name.trim();
    let offer = cx.plugins.pool()?.find(name)?;
    Some(match arguments(name, &call.input, cx) {
        Ok(input) => plan(&offer, input).resolution(name),
        Err(error) => tool::refused(name, &call.input, &error),
    })
}

/// Runs a call of a plugin's or a server's tool; `None` if it is neither.
pub(crate) async fn run_or_server(resolved: &Resolution, cx: &Context) -> Option<Output> {
    match run(resolved, cx).await {
        None => mcp::run(resolved, cx).await,
        output => output,
    }
}

/// Runs what [`resolve`] answered; `None` if that is no call of a plugin's tool.
async fn run(resolved: &Resolution, cx: &Context) -> Option<Output> {
    let offer = cx.workspace.plugins.pool()?.find(&resolved.name)?;
    let output = match &resolved.error {
        Some(error) => Err(Error::Refused(error.clone())),
        None => execute(offer, resolved, cx).await,
    };
    Some(output.unwrap_or_else(|error| Output::failed(&error)))
}

async fn execute(offer: Offer, resolved: &Resolution, cx: &Context) -> Result<Output, Error> {
    let name = &resolved.name;
    if resolved.class == Class::Read && !offer.tool.read_only {
        return Err(Error::Refused(format!(
            "The tool {name} may change things by now, which was not so when the call was judged; \
             nothing was done. Try again."
        )));
    }
    let input = arguments(name, &resolved.input, &cx.workspace)?;
    let params = json!({ "tool": offer.tool.name, "call": cx.call, "args": input.value() });
    let answer = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        answer = offer.up.link.ask("tool", params, None) => answer,
    };
    let mut output = match answer {
        Ok(answer) => output(&offer, &answer)?,
        Err(Fail::Refused(why)) => return Err(Error::Plugin(why)),
        Err(Fail::Gone(_) | Fail::TimedOut) => return Err(Error::Plugin(GONE.to_owned())),
    };
    output.mark("plugin", offer.plugin);
    output.mark("tool", offer.tool.name);
    Ok(output)
}

const GONE: &str = "The plugin ended before the call did. It may have taken effect fully, partly or not \
    at all. Look at the current state before you make it again.";

/// With their secrets put back.
fn arguments(name: &str, input: &Json, cx: &Workspace) -> Result<Json, Error> {
    args::any(name, &cx.secrets.put_back(input)?)
}

fn plan(offer: &Offer, input: Json) -> Plan {
    let class = if offer.tool.read_only { Class::Read } else { Class::Command };
    Plan { input, ..Plan::new(class) }.allowed_by(&offer.name)
}

/// A text, or an object with `output` and more.
fn output(offer: &Offer, answer: &Value) -> Result<Output, Error> {
    let said = answer.as_str().or_else(|| answer["output"].as_str());
    let Some(said) = said else {
        return Err(Error::Plugin(
            "The plugin's answer is neither a string nor an object with `output`, a string."
                .to_owned(),
        ));
    };
    let title = answer["title"].as_str().unwrap_or(&offer.tool.name);
    let is_error = answer["isError"].as_bool().unwrap_or(false);
    let meta = if is_error { json!({ "error_kind": "plugin" }) } else { json!({}) };
    Ok(Output { is_error, ..Output::new(title, said, &meta) })
}
