//! MCP servers that an editor supplies for a session.

use agent_client_protocol::v1::schema::{self, HttpHeader, McpServer};
use leftfold_mcp::{Endpoint, OAuth, ServerSpec};
use leftfold_tools::Launch;
use serde_json::json;

use leftfold_config as settings;

/// The supplied servers that can be used. Settings decide on their sandbox.
pub(super) fn handed(servers: &[McpServer]) -> Vec<ServerSpec> {
    servers.iter().filter_map(spec).collect()
}

fn spec(server: &McpServer) -> Option<ServerSpec> {
    let (name, endpoint) = match server {
        McpServer::Stdio(server) => {
            let program = server.command.display().to_string();
            let command = [program].into_iter().chain(server.args.iter().cloned()).collect();
            let environment = server.env.iter();
            let environment = environment.map(|v| (v.name.clone(), v.value.clone())).collect();
            let launch = Launch::in_project();
            (&server.name, Endpoint::Local { command, environment, launch, sandbox: None })
        }
        McpServer::Http(server) => (&server.name, remote(&server.url, &server.headers)),
        // Connecting to it shows whether it speaks SSE.
        McpServer::Sse(server) => (&server.name, remote(&server.url, &server.headers)),
        _ => return None,
    };
    Some(ServerSpec { name: name.clone(), endpoint, timeout: None })
}

fn remote(url: &str, headers: &[HttpHeader]) -> Endpoint {
    let headers = headers.iter().map(|h| (h.name.clone(), h.value.clone())).collect();
    let oauth = OAuth { token_store: settings::token_store(), ..OAuth::default() };
    Endpoint::Remote { url: url.to_owned(), headers, oauth }
}

/// Reports the other servers as unused: on standard error for people, in the answer for programs.
/// The session is not refused, because the editor may always send them.
pub(super) fn ignored(servers: &[McpServer]) -> Option<schema::Meta> {
    let name = |server: &McpServer| match server {
        McpServer::Http(server) => server.name.clone(),
        McpServer::Sse(server) => server.name.clone(),
        McpServer::Stdio(server) => server.name.clone(),
        _ => "?".to_owned(),
    };
    let names: Vec<String> = servers.iter().filter(|s| spec(s).is_none()).map(name).collect();
    if names.is_empty() {
        return None;
    }
    leftfold_runtime::note(&format!(
        "leftfold: these MCP servers are ignored, because they use neither stdio nor HTTP: {}",
        names.join(", ")
    ));
    let mut meta = schema::Meta::new();
    meta.insert("leftfold/ignoredMcpServers".to_owned(), json!(names));
    Some(meta)
}
