//! Resolves and runs a call of a server's tool, in the same steps as a call of a built-in tool.

use leftfold_events::event::{CallSpec, Resolution};
use leftfold_framing::clip;
use leftfold_tools::external;
use leftfold_tools::{BoxFuture, Context, Error, Output, ToolSource, Workspace};

use super::servers::Servers;
use super::{content, resources, server};

/// Bytes of a failure reason, and of a tool name, in an error.
const MAX_WHY: usize = 1_000;

impl ToolSource for Servers {
    fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution> {
        let name = call.name.trim();
        self.server_of(name)?;
        self.wait();
        let offered = self.find(name)?;
        let timeout = offered.server.service().spec.timeout;
        let mut resolution =
            external::resolve(name, &call.input, workspace, offered.is_read_only(), timeout);
        // an "always" is for the tool as its server describes it now
        for access in &mut resolution.access {
            access.patterns = vec![offered.definition()];
            access.always.clone_from(&access.patterns);
        }
        Some(resolution)
    }

    fn names(&self) -> Vec<String> {
        self.wait();
        self.tools().into_iter().map(|tool| tool.name).collect()
    }

    fn refuse(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution> {
        let name = call.name.trim();
        self.server_of(name)?;
        let missing = missing(self, name, workspace.offered.as_deref());
        Some(external::refuse(name, &call.input, &missing))
    }

    fn run<'a>(
        &'a self,
        resolved: &'a Resolution,
        cx: &'a Context,
    ) -> BoxFuture<'a, Option<Output>> {
        Box::pin(run(self, resolved, cx))
    }
}

async fn run(servers: &Servers, resolved: &Resolution, cx: &Context) -> Option<Output> {
    let server = servers.server_of(&resolved.name)?;
    let output = match &resolved.error {
        Some(error) => Err(Error::Refused(error.clone())),
        None => {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return Some(Output::failed(&Error::Cancelled)),
                () = server.ready() => {}
            }
            execute(servers, resolved, cx).await
        }
    };
    Some(output.unwrap_or_else(|error| Output::failed(&error)))
}

async fn execute(servers: &Servers, resolved: &Resolution, cx: &Context) -> Result<Output, Error> {
    let name = &resolved.name;
    let offered = servers.find(name).ok_or_else(|| missing(servers, name, None))?;
    external::check_judged(resolved, offered.is_read_only())?;
    let told = &offered.tool.input_schema;
    let input = external::arguments(name, &resolved.input, &cx.workspace, told)?;
    let result = resources::call(&offered.link, &offered.tool.name, &input, cx).await?;
    let mut output = content::output(offered.title(), result);
    let (server, tool) =
        (offered.server.service().spec.name.clone(), offered.tool.name.to_string());
    output.mark("server", server);
    output.mark("tool", tool);
    Ok(output)
}

/// Says why no such tool exists. The error lists the server's tools, without those that the agent is
/// not `offered`.
fn missing(servers: &Servers, name: &str, offered: Option<&[String]>) -> Error {
    let name = clip(name.to_owned(), MAX_WHY);
    let Some(server) = servers.server_of(&name) else {
        return Error::UnknownTool(format!("There is no tool named {name:?}."));
    };
    let own = &server.service().spec.name;
    if let Some(why) = server::failure(server) {
        let why = clip(why, MAX_WHY);
        return content::error(format!("The MCP server {own:?} cannot be used now: {why}."));
    }
    let known: Vec<String> = servers
        .reports()
        .into_iter()
        .filter(|report| report.name == *own)
        .flat_map(|report| report.tools)
        .map(|tool| tool.name)
        .filter(|name| offered.is_none_or(|offered| offered.contains(name)))
        .collect();
    let known = known.join(", ");
    let known = if known.is_empty() { "none".to_owned() } else { clip(known, MAX_WHY) };
    Error::UnknownTool(format!(
        "There is no tool named {name:?}. The tools of the MCP server {own:?} are: {known}."
    ))
}
