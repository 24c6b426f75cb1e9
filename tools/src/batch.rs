//! `batch`: several calls in one. Each entry is a call of its own in the log, with its own check,
//! permission and run. When all entries are done, this tool joins their results.

use std::fmt::Write as _;
use std::path::PathBuf;

use leftfold_events::Json;
use leftfold_events::event::{BatchCall, CallKind, Class};
use leftfold_events::state::Outcome;
use leftfold_events::state::batch::BatchPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::plan_switch::{PlanEnter, PlanExit};
use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace};

/// Entries that are run; more are reported as failed.
const MAX_CALLS: usize = 25;
/// Tools that a batch does not call.
const BARRED: [&str; 5] = [Batch::NAME, "patch", "invalid", PlanEnter::NAME, PlanExit::NAME];

#[derive(Debug)]
pub(crate) struct Batch;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The calls to make.
    #[serde(rename = "tool_calls", alias = "toolCalls", alias = "calls")]
    calls: Vec<Item>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Item {
    /// The name of the tool.
    #[serde(alias = "name")]
    tool: String,
    /// Its arguments.
    #[serde(default, alias = "input", alias = "arguments", alias = "args")]
    parameters: Map<String, Value>,
}

impl Typed for Batch {
    type Args = Args;
    const NAME: &'static str = "batch";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/batch.md");

    fn plan(args: &Args, _: &Workspace) -> Result<Plan, Error> {
        if args.calls.is_empty() {
            let problem = "`tool_calls` is empty; name at least one call".to_owned();
            return Err(Error::InvalidArguments { tool: Self::NAME, problem });
        }
        // joining the results is safe to repeat
        let run = entries(args).into_iter().filter(|entry| entry.refused.is_none());
        let calls = run.map(|entry| BatchCall { name: entry.tool, input: entry.input }).collect();
        Ok(Plan { kind: CallKind::Batch { calls }, ..Plan::new(Class::Read) })
    }

    async fn run(args: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        Ok(gather(&entries(&args), cx.parts))
    }
}

/// One entry of a batch's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    tool: String,
    input: Json,
    /// Why it is not run.
    refused: Option<String>,
}

fn entries(args: &Args) -> Vec<Entry> {
    args.calls.iter().enumerate().map(|(at, item)| entry(at, item)).collect()
}

fn entry(at: usize, Item { tool, parameters }: &Item) -> Entry {
    let refused = if BARRED.contains(&tool.trim().to_lowercase().as_str()) {
        Some(format!("`{tool}` cannot be called from within a batch."))
    } else if at >= MAX_CALLS {
        Some(format!("A batch runs {MAX_CALLS} calls at most. Make this one in another batch."))
    } else {
        None
    };
    let input = Json::from_value(&Value::Object(parameters.clone()));
    Entry { tool: tool.clone(), input, refused }
}

/// Joins the results of the entries. `parts` are the calls that ran, in order.
pub(crate) fn gather(entries: &[Entry], parts: Vec<BatchPart>) -> Output {
    let mut parts = parts.into_iter();
    let results: Vec<BatchPart> = entries.iter().map(|entry| result(entry, &mut parts)).collect();
    let done = results.iter().filter(|part| !part.outcome.is_error).count();
    let mut text = String::new();
    for (at, part) in results.iter().enumerate() {
        let how = if part.outcome.is_error { " failed" } else { "" };
        // writing to a string cannot fail
        let _ = write!(
            text,
            "## {} {}{how}\n\n{}\n\n",
            at + 1,
            part.tool,
            part.outcome.output.trim_end()
        );
    }
    let all = results.len();
    let details: Vec<Value> = results
        .iter()
        .map(|part| json!({ "tool": part.tool, "success": !part.outcome.is_error }))
        .collect();
    let mut meta =
        json!({ "total": all, "successful": done, "failed": all - done, "details": details });
    if done == 0 {
        meta["error_kind"] = "all_failed".into();
    }
    let title = format!("Batch execution ({done}/{all} successful)");
    Output {
        is_error: done == 0,
        attachments: results.into_iter().flat_map(|part| part.outcome.attachments).collect(),
        ..Output::new(title, text.trim_end(), &meta)
    }
}

fn result(entry: &Entry, ran: &mut impl Iterator<Item = BatchPart>) -> BatchPart {
    let failed = |why: &str| BatchPart {
        tool: entry.tool.clone(),
        outcome: Outcome {
            output: why.into(),
            is_error: true,
            attachments: Vec::new(),
            shown: None,
        },
    };
    match &entry.refused {
        Some(why) => failed(why),
        None => ran.next().unwrap_or_else(|| failed("The call was not made.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    fn part(tool: &str, output: &str, is_error: bool) -> BatchPart {
        let (output, attachments) = (output.into(), Vec::new());
        let outcome = Outcome { output, is_error, attachments, shown: None };
        BatchPart { tool: tool.into(), outcome }
    }

    #[tokio::test]
    async fn results_stand_in_the_order_of_the_calls() {
        let site = Site::new();
        let input = json!({ "tool_calls": [
            { "tool": "read", "parameters": { "filePath": "a" } },
            { "tool": "batch", "parameters": {} },
            { "name": "glob", "arguments": { "pattern": "*" } },
        ] });
        let resolved = site.resolve("batch", &input);
        assert_eq!((resolved.class, resolved.error.clone()), (Class::Read, None));
        let mut cx = site.context();
        cx.parts = vec![part("read", "text\n", false), part("glob", "no", true)];
        let output = crate::run(&resolved, cx).await;
        assert_eq!(output.title, "Batch execution (1/3 successful)");
        assert_eq!(
            output.output,
            "## 1 read\n\ntext\n\n## 2 batch failed\n\n`batch` cannot be called from within a \
             batch.\n\n## 3 glob failed\n\nno"
        );
        assert_eq!(output.meta()["failed"], 2);
        assert!(!output.is_error);
    }

    #[test]
    fn surplus_and_barred_entries_are_not_run() {
        let entry = |tool: &str| json!({ "tool": tool, "parameters": {} });
        let mut calls = vec![entry("batch"), entry("Invalid"), entry("read")];
        calls.extend(std::iter::repeat_n(entry("read"), 24));
        let args: Args = serde_json::from_value(json!({ "toolCalls": calls })).unwrap();
        let entries = entries(&args);
        let refused: Vec<usize> =
            (0..entries.len()).filter(|at| entries[*at].refused.is_some()).collect();
        assert_eq!((entries.len(), refused), (27, vec![0, 1, 25, 26]));
        let CallKind::Batch { calls } =
            <Batch as Typed>::plan(&args, &Site::new().workspace()).unwrap().kind
        else {
            panic!("a batch")
        };
        assert_eq!(calls.len(), 23);
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        let site = Site::new();
        assert!(site.resolve("batch", &json!({ "toolCalls": [] })).error.is_some());
        assert!(site.resolve("batch", &json!({ "toolCalls": [{}] })).error.is_some());
    }

    #[test]
    fn a_batch_of_which_nothing_came_has_failed() {
        let entry = Entry { tool: "read".into(), input: Json::object(), refused: None };
        let output = gather(&[entry], vec![part("read", "no such file", true)]);
        assert!(output.is_error);
        assert_eq!(output.title, "Batch execution (0/1 successful)");
    }
}
