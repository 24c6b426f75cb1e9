//! What servers have to be read, as two tools of each that has something: a list, and the contents behind
//! an address. They are called, judged and cut off as the server's own tools are.

use leftfold_events::Json;
use rmcp::model::{
    CallToolResult, ClientRequest, ContentBlock, ListResourceTemplatesRequest,
    ListResourceTemplatesResult, ListResourcesRequest, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult, Tool, ToolAnnotations,
};
use serde_json::json;

use super::Servers;
use super::link::Link;
use crate::{Context, Error};

const LIST: &str = "list_resources";
const READ: &str = "read_resource";

/// Pages of a list at most.
const PAGES: usize = 20;

impl Servers {
    /// The server and the address in `SERVER:URI`, if there is such a server.
    pub fn addressed<'a>(&self, mention: &'a str) -> Option<(String, &'a str)> {
        let specs = self.pool()?.specs();
        let fits = specs.filter_map(|spec| {
            let uri = mention.strip_prefix(spec.name.as_str())?.strip_prefix(':')?;
            (!uri.is_empty()).then(|| (spec.name.clone(), uri))
        });
        fits.max_by_key(|(name, _)| name.len())
    }

    /// What models call the tool that reads what this server has to be read. Waits for the server.
    ///
    /// # Errors
    /// In words for people: it can not be used, or has nothing to be read in this way.
    pub async fn reader(&self, server: &str) -> Result<String, String> {
        let unknown = || format!("there is no MCP server `{server}`");
        let pool = self.pool().ok_or_else(unknown)?;
        let found = pool.server_named(server).ok_or_else(unknown)?;
        found.ready().await;
        if let Some(why) = found.failure() {
            return Err(format!("the MCP server `{server}` can not be used now: {why}"));
        }
        let link = found.link().ok_or_else(unknown)?;
        let has_own = link.own_tools().iter().any(|own| own.name == READ);
        let name = pool.name_of(server, READ).filter(|_| !has_own);
        name.ok_or_else(|| format!("the MCP server `{server}` has no resources"))
    }
}

/// Both, unless the server has tools with these names itself.
pub(super) fn tools(own: &[Tool]) -> Vec<Tool> {
    let uri = json!({
        "type": "object",
        "properties": { "uri": { "type": "string", "description": "An address from the list." } },
        "required": ["uri"],
    });
    let both = [
        (LIST, include_str!("../../../prompts/tools/mcp_list_resources.md"), json!({})),
        (READ, include_str!("../../../prompts/tools/mcp_read_resource.md"), uri),
    ];
    let free = both.into_iter().filter(|(name, ..)| own.iter().all(|tool| tool.name != *name));
    free.map(|(name, about, schema)| {
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, about.trim(), schema)
            .with_annotations(ToolAnnotations::new().read_only(true))
    })
    .collect()
}

/// Runs one of the two; `None`: it is neither.
pub(super) async fn run(
    link: &Link,
    tool: &str,
    input: &Json,
    cx: &Context,
) -> Option<Result<CallToolResult, Error>> {
    match tool {
        LIST => Some(list(link, cx).await),
        READ => Some(read(link, input, cx).await),
        _ => None,
    }
}

async fn list(link: &Link, cx: &Context) -> Result<CallToolResult, Error> {
    let mut lines = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListResourcesRequest::with_param(page);
        let answer = link.send(ClientRequest::ListResourcesRequest(request), cx).await?;
        let ServerResult::ListResourcesResult(listed) = answer else { return Err(strange()) };
        let ListResourcesResult { resources, next_cursor, .. } = listed;
        lines.extend(resources.into_iter().map(|known| {
            line(&known.uri, &known.name, known.mime_type.as_deref(), known.description.as_deref())
        }));
        cursor = next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let request = ListResourceTemplatesRequest::with_param(PaginatedRequestParams::default());
    // servers without any need not answer
    let templates = link.send(ClientRequest::ListResourceTemplatesRequest(request), cx).await;
    if let Ok(ServerResult::ListResourceTemplatesResult(ListResourceTemplatesResult {
        resource_templates: known,
        ..
    })) = templates
    {
        lines.extend(known.into_iter().map(|known| {
            let (mime, about) = (known.mime_type.as_deref(), known.description.as_deref());
            line(&known.uri_template, &known.name, mime, about)
        }));
    }
    Ok(CallToolResult::success(vec![ContentBlock::text(lines.join("\n"))]))
}

fn line(uri: &str, name: &str, mime: Option<&str>, about: Option<&str>) -> String {
    let mime = mime.map(|mime| format!(" ({mime})")).unwrap_or_default();
    let about = about.and_then(|about| about.trim().lines().next());
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    format!("{uri}  {name}{mime}{about}")
}

async fn read(link: &Link, input: &Json, cx: &Context) -> Result<CallToolResult, Error> {
    let input = input.value();
    let Some(uri) = input["uri"].as_str() else {
        return Err(Error::Mcp(format!("`uri` is missing: {LIST} tells the addresses.")));
    };
    let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
    let answer = link.send(ClientRequest::ReadResourceRequest(request), cx).await?;
    let ServerResult::ReadResourceResult(read) = answer else { return Err(strange()) };
    let contents = read.contents.into_iter().map(ContentBlock::resource);
    Ok(CallToolResult::success(contents.collect()))
}

fn strange() -> Error {
    Error::Mcp("The server's answer is none to what it was asked.".to_owned())
}
