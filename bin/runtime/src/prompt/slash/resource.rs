//! Resources of MCP servers that a prompt mentions as `@SERVER:URI`. Their contents are attached,
//! as those of a file are.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, PromptKind, PromptPart};
use leftfold_tools::{Context, Output};
use serde_json::json;

use super::{PartReader, not_attached};

impl PartReader<'_> {
    /// The parts for a mentioned resource; empty if it is not a server's resource or cannot be
    /// read.
    pub(super) async fn resource(&self, mention: &str) -> anyhow::Result<Vec<PromptPart>> {
        let servers = &self.setup.extensions.mcp;
        let Some((server, uri)) = servers.addressed(mention) else { return Ok(Vec::new()) };
        let read = match servers.reader(&server).await {
            Ok(tool) => self.read(&tool, uri).await?,
            Err(why) => Err(why),
        };
        Ok(match read {
            Ok(output) => parts(&server, uri, output),
            Err(why) => {
                not_attached(mention, &why);
                Vec::new()
            }
        })
    }

    /// Reads a resource with the server's tool; the inner error says why it has no contents.
    async fn read(&self, tool: &str, uri: &str) -> anyhow::Result<Result<Output, String>> {
        let workspace = Arc::new(self.setup.workspace.clone());
        let (name, input) = (tool.to_owned(), Json::from_value(&json!({ "uri": uri })));
        let spec = CallSpec { id: String::new(), name, input };
        let resolved = leftfold_tools::resolve(&spec, &workspace);
        self.judged(&resolved)?;
        // The file name for output beyond the limit.
        let cx = Context::new(workspace, tool, "");
        let cancel = cx.cancel.clone();
        let mut running = pin!(leftfold_tools::run(&resolved, cx));
        let output = tokio::select! {
            output = &mut running => output,
            () = tokio::time::sleep(Duration::from_millis(resolved.timeout)) => {
                cancel.cancel();
                running.await
            }
        };
        Ok(if output.is_error { Err(output.output) } else { Ok(output) })
    }
}

/// The text, headed by its URI, and media.
fn parts(server: &str, uri: &str, output: Output) -> Vec<PromptPart> {
    let text = output.output.trim_end();
    let text = format!("<resource server=\"{server}\" uri=\"{uri}\">\n{text}\n</resource>");
    let named = |name: String, part| PromptPart { name: Some(name), ..part };
    let text = named(format!("{server}:{uri}"), PromptPart::text(text));
    let media = output.attachments.into_iter().map(|media| {
        let part = PromptPart { mime: Some(media.mime), ..PromptPart::text(media.base64) };
        PromptPart { kind: PromptKind::Media, ..named(media.name, part) }
    });
    [text].into_iter().chain(media).collect()
}
