//! A server's resources as two tools: `list_resources` and `read_resource`. A server without
//! resources gets neither. They are called, judged and cancelled like the server's own tools.

use leftfold_events::Json;
use leftfold_tools::{Context, Error};
use rmcp::model::{
    CallToolResult, ClientRequest, ContentBlock, ListResourceTemplatesRequest,
    ListResourceTemplatesResult, ListResourcesRequest, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult, Tool, ToolAnnotations,
};
use serde_json::json;

use super::content;
use super::link::Link;

const LIST: &str = "list_resources";
pub(super) const READ: &str = "read_resource";

/// Largest number of pages read of a list.
const PAGES: usize = 20;

/// The server's own tools and the two resource tools, except where an own tool has that name.
pub(super) fn all_tools(link: &Link) -> Vec<Tool> {
    let mut tools = link.tools();
    if link.has_resources() {
        tools.extend(readers(&tools));
    }
    tools
}

fn readers(own: &[Tool]) -> Vec<Tool> {
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

/// Whether a tool is none of the server's own.
pub(super) fn is_made(link: &Link, tool: &str) -> bool {
    matches!(tool, LIST | READ) && !is_own(link, tool)
}

/// Whether the server has a tool of its own named `read_resource`.
pub(super) fn has_own_reader(link: &Link) -> bool {
    is_own(link, READ)
}

fn is_own(link: &Link, tool: &str) -> bool {
    link.tools().iter().any(|own| own.name == tool)
}

/// Calls one of [`all_tools`].
///
/// # Errors
/// As for [`Link::call`].
pub(super) async fn call(
    link: &Link,
    tool: &str,
    input: &Json,
    cx: &Context,
) -> Result<CallToolResult, Error> {
    match tool {
        LIST if is_made(link, tool) => list(link, cx).await,
        READ if is_made(link, tool) => read(link, input, cx).await,
        _ => link.call(tool, input, cx).await,
    }
}

async fn list(link: &Link, cx: &Context) -> Result<CallToolResult, Error> {
    let mut lines = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ListResourcesRequest::with_param(page);
        let answer = link.send(ClientRequest::ListResourcesRequest(request), cx).await?;
        let ServerResult::ListResourcesResult(listed) = answer else {
            return Err(unexpected_answer());
        };
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
    // a server without templates may refuse
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
        return Err(content::error(format!("`uri` is missing: {LIST} lists the addresses.")));
    };
    let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
    let answer = link.send(ClientRequest::ReadResourceRequest(request), cx).await?;
    let ServerResult::ReadResourceResult(read) = answer else { return Err(unexpected_answer()) };
    let contents = read.contents.into_iter().map(ContentBlock::resource);
    Ok(CallToolResult::success(contents.collect()))
}

fn unexpected_answer() -> Error {
    content::error("The server's answer does not fit the request.".to_owned())
}
