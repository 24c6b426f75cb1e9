//! `lsp`: asks a language server about code.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::WholeNumber;
use crate::language_servers::{CodeOperation, CodeQuestion};
use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace, confined, nearby, paths, quoted};

/// The name of the tool that exists only with language servers.
pub const LSP_TOOL: &str = "lsp";

/// Time limit in milliseconds. A server may have to read the project first.
const TIMEOUT: u64 = 30_000;

/// Time for the end of the call.
const RESERVED: Duration = Duration::from_secs(1);

/// The most lines of an answer, and bytes of one.
const MAX_LINES: usize = 200;
const MAX_LINE: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Lsp;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// What to ask.
    operation: CodeOperation,
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// Line of the name, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<WholeNumber>,
    /// Character of the name in the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    character: Option<WholeNumber>,
    /// For `workspaceSymbol`: a part of the symbol's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
}

impl Typed for Lsp {
    type Args = Args;
    const NAME: &'static str = LSP_TOOL;
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/lsp.md");

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        if args.operation.needs_place() {
            args.place("line", args.line)?;
            args.place("character", args.character)?;
        }
        let plan = Plan { timeout: TIMEOUT, ..Plan::new(Class::Read) };
        // the answer is about the file's text
        let plan = paths::resolve(&args.file_path, cx)?.judged(plan, "read");
        Ok(plan.allowed_by(LSP_TOOL))
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let path = paths::only(paths)?;
        let Some(servers) = &cx.workspace.language_servers else {
            return Err(Error::NotConfigured(
                "No language server is in force here. `leftfold lsp` says why.".to_owned(),
            ));
        };
        if confined::lookup(&path)?.is_none() {
            return Err(Error::NotFound(nearby::missing(&path)));
        }
        let (line, character) = match args.operation.needs_place() {
            true => (args.place("line", args.line)?, args.place("character", args.character)?),
            false => (0, 0),
        };
        let query = args.query.clone().unwrap_or_default();
        let operation = args.operation;
        let question = CodeQuestion { operation, path, line, character, query };
        let end = Instant::now() + Duration::from_millis(TIMEOUT);
        let end = cx.deadline.map_or(end, |deadline| end.min(deadline));
        let end = end.checked_sub(RESERVED).unwrap_or(end);
        let answer = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
            answer = servers.ask(&question, end) => answer,
        };
        let lines = answer.map_err(|why| Error::External {
            kind: LSP_TOOL,
            message: quoted::line(&why, MAX_LINE),
        })?;
        let count = lines.len();
        let shown = lines.iter().take(MAX_LINES).map(|line| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            format!("{}{}", " ".repeat(indent.min(40)), quoted::line(line.trim_start(), MAX_LINE))
        });
        let mut text = shown.collect::<Vec<String>>().join("\n");
        if count > MAX_LINES {
            text += &format!("\n({} more lines are left out.)", count - MAX_LINES);
        }
        if text.is_empty() {
            text = format!("The language server finds nothing for {}.", operation.name());
        }
        let title = match operation.needs_place() {
            true => {
                format!("{} {}:{}:{}", operation.name(), args.file_path, line + 1, character + 1)
            }
            false => format!("{} {}", operation.name(), args.file_path),
        };
        Ok(Output::new(title, text, &json!({ "operation": operation.name(), "lines": count })))
    }
}

impl Args {
    /// A line or character, from 0.
    fn place(&self, name: &str, said: Option<WholeNumber>) -> Result<u32, Error> {
        let place = said.and_then(|said| u32::try_from(said.0.checked_sub(1)?).ok());
        place.ok_or_else(|| Error::InvalidArguments {
            tool: LSP_TOOL,
            problem: format!("`{name}`: {} needs a number from 1", self.operation.name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Site, kind};

    #[tokio::test]
    async fn a_question_needs_its_place_the_file_and_a_server() {
        let site = Site::new();
        site.file("a.rs", "fn a() {}\n");
        let args = json!({ "operation": "hover", "filePath": "a.rs", "line": 1, "character": 4 });
        let resolved = site.resolve("lsp", &args);
        assert_eq!((resolved.class, resolved.error), (Class::Read, None));
        let permissions: Vec<&str> =
            resolved.access.iter().map(|access| access.permission.as_str()).collect();
        assert_eq!(permissions, ["read", "lsp"]);
        let output = site.run("lsp", &args).await;
        assert!(output.output.contains("`leftfold lsp` says why"), "{output:?}");
        assert_eq!(kind(&output), "not_configured");
        for (args, said) in [
            (
                json!({ "operation": "hover", "filePath": "a.rs", "line": 0, "character": 1 }),
                "`line`",
            ),
            (json!({ "operation": "hover", "filePath": "a.rs", "line": 1 }), "`character`"),
            (json!({ "operation": "rename", "filePath": "a.rs" }), "operation"),
        ] {
            let error = site.resolve("lsp", &args).error.unwrap();
            assert!(error.contains(said), "{error}");
        }
        let symbols = json!({ "operation": "documentSymbol", "filePath": "a.rs" });
        assert_eq!(site.resolve("lsp", &symbols).error, None);
    }
}
