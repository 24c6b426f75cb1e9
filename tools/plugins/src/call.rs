//! Resolves and runs a call of a plugin's tool, in the same steps as a call of a built-in tool.

use std::sync::Arc;

use leftfold_events::event::{CallSpec, Resolution};
use leftfold_json_rpc::RequestError;
use leftfold_tools::external;
use leftfold_tools::{
    BoxFuture, Caller, Context, Elicitation, Error, Output, ToolSource, Workspace,
};
use serde_json::{Value, json};

use super::link::PermissionAsker;
use super::plugins::{NamedTool, Plugins};

/// The kind of a plugin's error in the metadata of tool results.
const KIND: &str = "plugin";

impl ToolSource for Plugins {
    fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution> {
        let name = call.name.trim();
        let offered = self.find(name)?;
        Some(external::resolve(name, &call.input, workspace, offered.tool.read_only, None))
    }

    fn names(&self) -> Vec<String> {
        self.tools().into_iter().map(|tool| tool.name).collect()
    }

    fn run<'a>(
        &'a self,
        resolved: &'a Resolution,
        cx: &'a Context,
    ) -> BoxFuture<'a, Option<Output>> {
        Box::pin(async {
            let offered = self.find(&resolved.name)?;
            let output = execute(offered, resolved, cx).await;
            Some(output.unwrap_or_else(|error| Output::failed(&error)))
        })
    }
}

async fn execute(offered: NamedTool, resolved: &Resolution, cx: &Context) -> Result<Output, Error> {
    let name = &resolved.name;
    external::check_judged(resolved, offered.tool.read_only)?;
    let told = offered.tool.parameters.as_object().cloned().unwrap_or_default();
    let input = external::arguments(name, &resolved.input, &cx.workspace, &told)?;
    let Caller { session, message, agent } = &cx.caller;
    let params = json!({
        "tool": offered.tool.name,
        "call": cx.call,
        "args": input.value(),
        "session": session,
        "message": message,
        "agent": agent,
        "directory": cx.workspace.directory,
        "worktree": cx.workspace.worktree,
    });
    let asks = asks(offered.plugin.clone(), cx);
    let answer = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        answer = offered.running.link.call("tool", params, asks) => answer,
    };
    let mut output = match answer {
        Ok(answer) => output(&offered, &answer)?,
        Err(RequestError::Refused { why, .. }) => return Err(error(why)),
        Err(RequestError::Gone(_) | RequestError::TimedOut) => return Err(error(GONE)),
    };
    output.mark("plugin", offered.plugin);
    output.mark("tool", offered.tool.name);
    Ok(output)
}

/// Asks rules and people for permission on behalf of a plugin.
fn asks(plugin: String, cx: &Context) -> PermissionAsker {
    let elicit = Arc::clone(&cx.elicit);
    Arc::new(move |message, wanted| {
        let asked = elicit(Elicitation { from: plugin.clone(), message, wanted });
        Box::pin(async move { asked.await.0 })
    })
}

const GONE: &str = "The plugin ended before the call did. The call may have taken effect fully, partly or not at all. Check the current state before you repeat it.";

fn error(message: impl Into<String>) -> Error {
    Error::External { kind: KIND, message: message.into() }
}

/// Reads a tool's answer: a string, or an object with `output` and optional fields.
fn output(offered: &NamedTool, answer: &Value) -> Result<Output, Error> {
    let said = answer.as_str().or_else(|| answer["output"].as_str());
    let Some(said) = said else {
        return Err(error(
            "The plugin's answer is neither a string nor an object with a string `output`.",
        ));
    };
    let title = answer["title"].as_str().unwrap_or(&offered.tool.name);
    let is_error = answer["isError"].as_bool().unwrap_or(false);
    let metadata = Some(&answer["metadata"])
        .filter(|said| said.is_object() && said.to_string().len() <= super::answer::MAX_METADATA);
    let mut meta = metadata.cloned().unwrap_or_else(|| json!({}));
    if is_error {
        meta["error_kind"] = KIND.into();
    }
    Ok(Output { is_error, ..Output::new(title, said, &meta) })
}
