//! The steps of every call: resolve, run, limit the output.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::{BatchCall, CallKind, CallSpec, Class, Resolution};
use leftfold_events::rules::{self, Rule};
use leftfold_events::state::Outcome;
use leftfold_events::state::batch::BatchPart;
use leftfold_events::turn_config::STRUCTURED_OUTPUT;
use leftfold_files::texts::Texts;
use serde_json::json;

use crate::apply_patch::ApplyPatch;
use crate::tool::{self, Context, Output, Plan, Sandbox, Tool, ToolKind, Typed, Workspace};
use crate::{Error, TOOLS, elicit, paths, protected, read, remote, text, truncate};

/// Most bytes of a tool's name that an error quotes.
const MAX_NAME: usize = 200;

/// Most bytes of the list of tools in an error.
const MAX_NAMES: usize = 4_000;

/// Most bytes of a title, which often is text of the model.
const MAX_TITLE: usize = 2_000;

pub fn find(name: &str) -> Option<&'static dyn Tool> {
    TOOLS.iter().copied().find(|tool| tool.name() == name)
}

/// What the tool with this name does; `Other` for a tool that is not built in.
pub fn kind_of(name: &str) -> ToolKind {
    find(name).map_or(ToolKind::Other, Tool::kind)
}

/// The permission of a tool in rules. Tools that change files share the permission `edit`; so does `patch`, a name that
/// settings of OpenCode have.
pub fn permission_of(tool: &str) -> &str {
    if tool == "patch" || kind_of(tool) == ToolKind::Edit { "edit" } else { tool }
}

/// Whether `tool` is not offered to models: the last rule that names it denies everything, in `rules` or in a list
/// of `restrictions`.
pub fn hides<'a>(
    rules: &[Rule],
    restrictions: impl Iterator<Item = &'a [Rule]>,
    tool: &str,
) -> bool {
    rules::denies_all(rules, restrictions, permission_of(tool))
}

/// The tools that models can see.
pub fn model_tools() -> impl Iterator<Item = &'static dyn Tool> {
    TOOLS.iter().copied().filter(|tool| tool.is_listed())
}

/// The tools that the model with this id sees. Some models are trained on patches and get
/// `apply_patch`; all others get the tools that replace text.
pub fn tools_for_model(model_id: &str) -> Vec<&'static dyn Tool> {
    let patches = writes_patches(model_id);
    let fits = |tool: &&dyn Tool| {
        tool.kind() != ToolKind::Edit || (tool.name() == ApplyPatch::NAME) == patches
    };
    model_tools().filter(fits).collect()
}

/// Decides by name: OpenAI's models except the GPT-4 family and the open models.
fn writes_patches(model_id: &str) -> bool {
    model_id.contains("gpt-") && !model_id.contains("gpt-4") && !model_id.contains("oss")
}

/// Determines what a call would do: finds the tool (repairing its name), checks the arguments with
/// secrets inserted, resolves the paths. The result contains the names of secrets, not their
/// values. Never has an effect. A call that cannot run has `error` set; a call of an unknown tool
/// becomes `invalid`.
pub fn resolve(call: &CallSpec, cx: &Workspace) -> Resolution {
    let mut resolution = resolve_leniently(call, cx);
    let tool = find(&resolution.name);
    // an executor has looked at its own files
    if tool.and_then(|tool| remote::runner(tool, &resolution, cx)).is_none() {
        protected::add_access(&mut resolution, cx);
    }
    cx.secrets.redact_resolution(&mut resolution);
    resolution
}

/// Finds the tool that the model meant. Models vary case, pad names with white space, and put the name of a group before
/// them (`functions.read`); nothing else is guessed, except `list`. A name in another case must fit one tool only.
fn resolve_leniently(call: &CallSpec, cx: &Workspace) -> Resolution {
    if let Some(resolution) = resolve_known(call, cx) {
        return resolution;
    }
    if let Some(refused) = cx.sources.iter().find_map(|source| source.refuse(call, cx)) {
        return refused;
    }
    if let Some(resolution) = last_part(&call.name)
        .and_then(|name| resolve_known(&CallSpec { name: name.to_owned(), ..call.clone() }, cx))
    {
        return resolution;
    }
    let error = unknown(&call.name, cx.offered.as_deref());
    let name = text::clip(call.name.clone(), MAX_NAME);
    let input = json!({ "tool": name, "error": error.to_string() });
    tool::refused("invalid", &Json::from_value(&input), &error)
}

/// The name without the group before it, and without the number that some servers put after it (`functions.read:0`).
fn last_part(name: &str) -> Option<&str> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.trim();
    let numbered = name.rsplit_once(':').filter(|(_, number)| is_number(number));
    let name = numbered.map_or(name, |(name, _)| name);
    match name.rsplit_once(['.', ':', '/']) {
        Some((group, last)) => group.starts_with(char::is_alphabetic).then_some(last),
        None => numbered.map(|(name, _)| name),
    }
}

/// Resolves a call whose name fits a tool but for case and white space.
fn resolve_known(call: &CallSpec, cx: &Workspace) -> Option<Resolution> {
    let name = call.name.trim();
    let listed = |name: &str| find(name).filter(|tool| tool.is_listed());
    let of_source = |call: &CallSpec| cx.sources.iter().find_map(|source| source.resolve(call, cx));
    let of_turn = find(name).filter(|_| name == STRUCTURED_OUTPUT && cx.output.is_some());
    if let Some(tool) = listed(name).or(of_turn) {
        return Some(resolve_built_in(tool, call, cx));
    }
    if let Some(resolution) = of_source(call) {
        return Some(resolution);
    }
    if let Some(tool) = listed(&name.to_lowercase()) {
        return Some(resolve_built_in(tool, call, cx));
    }
    if let Some(name) = name_in_other_case(name, cx)
        && let Some(resolution) = of_source(&CallSpec { name, ..call.clone() })
    {
        return Some(resolution);
    }
    as_read(call).map(|call| resolve_built_in(&read::Read, &call, cx))
}

fn resolve_built_in(tool: &dyn Tool, call: &CallSpec, cx: &Workspace) -> Resolution {
    match cx.secrets.put_back(&call.input) {
        Ok(input) => {
            let remote = remote::resolve(tool, call, &input, cx);
            remote.unwrap_or_else(|| tool.resolve(&input, cx))
        }
        Err(unknown) => tool::refused(tool.name(), &call.input, &unknown.into()),
    }
}

/// The tool of the sources whose name differs from `name` only in case, if there is exactly one.
fn name_in_other_case(name: &str, cx: &Workspace) -> Option<String> {
    let names = cx.sources.iter().flat_map(|source| source.names());
    let mut equal = names.filter(|known| known.eq_ignore_ascii_case(name));
    equal.next().filter(|_| equal.next().is_none())
}

/// A call of `list` or `ls`, which other agents have: `read` shows a folder's entries.
fn as_read(call: &CallSpec) -> Option<CallSpec> {
    if !["list", "ls"].contains(&call.name.trim().to_lowercase().as_str()) {
        return None;
    }
    let input = call.input.value();
    let path = ["filePath", "file_path", "path"].iter().find_map(|key| input[key].as_str());
    let input = Json::from_value(&json!({ "filePath": path.unwrap_or(".") }));
    Some(CallSpec { name: "read".to_owned(), input, ..call.clone() })
}

/// The error about a name that no tool has. It lists the tools that the agent is `offered`.
fn unknown(name: &str, offered: Option<&[String]>) -> Error {
    let names = match offered {
        Some(offered) => offered.join(", "),
        None => model_tools().map(Tool::name).collect::<Vec<_>>().join(", "),
    };
    let names = if names.is_empty() { "none".to_owned() } else { text::clip(names, MAX_NAMES) };
    let name = text::clip(name.to_owned(), MAX_NAME);
    Error::UnknownTool(format!("There is no tool named {name:?}. The tools are: {names}."))
}

/// Runs the result of [`resolve`] until it ends or `cx.cancel` fires (it then ends within 100 ms).
/// The time limit `resolved.timeout` is the caller's task.
///
/// Arguments may differ from the resolved ones, because secrets are inserted now. Paths may not:
/// the call is resolved again and refused if they have changed since they were judged.
pub async fn run(resolved: &Resolution, cx: Context) -> Output {
    if let Err(error) = note_texts(resolved, &cx).await {
        return Output::failed(&error);
    }
    let tool = find(&resolved.name);
    if tool.is_none() {
        for source in &cx.workspace.sources {
            if let Some(output) = source.run(resolved, &cx).await {
                return finished(output, &cx.workspace, &cx.call);
            }
        }
    }
    if let Some(remote) = tool.and_then(|tool| remote::runner(tool, resolved, &cx.workspace)) {
        let output = remote.run(resolved, &cx).await;
        return finished(output, &cx.workspace, &cx.call);
    }
    match replan(resolved, &cx.workspace) {
        Ok((tool, plan)) => execute(tool, plan, cx).await,
        Err(error) => Output::failed(&error),
    }
}

/// Before a call may change files: notes the texts that models obey, so that a changed one is not obeyed unseen.
async fn note_texts(resolved: &Resolution, cx: &Context) -> Result<(), Error> {
    let Workspace { user_folders, worktree, remote, .. } = &*cx.workspace;
    let changes = matches!(resolved.class, Class::Write | Class::Command);
    let Some(data) = user_folders.data.clone().filter(|_| changes && remote.is_none()) else {
        return Ok(());
    };
    if cx.caller.session.is_empty() {
        return Ok(());
    }
    let (worktree, session) = (worktree.clone(), cx.caller.session.clone());
    let secrets = cx.workspace.secrets.clone();
    let noting = move || Texts::load(Some(&data), &worktree).without(&secrets).begin(&session);
    let noted = tokio::task::spawn_blocking(noting).await.map_err(std::io::Error::other);
    noted.flatten().map_err(|error| {
        Error::Io(format!(
            "The project's instructions cannot be noted, so nothing was run: {error}."
        ))
    })
}

/// Plans the call again. An error if its paths have changed since it was resolved.
pub(crate) fn replan(
    resolved: &Resolution,
    cx: &Workspace,
) -> Result<(&'static dyn Tool, Plan), Error> {
    let tool = find(&resolved.name).ok_or_else(|| unknown(&resolved.name, None))?;
    let plan = tool.plan(&cx.secrets.put_back(&resolved.input)?, cx);
    if let Some(error) = &resolved.error {
        return Err(refusal(tool, plan, error));
    }
    let plan = plan?;
    let mut found = plan.clone().resolution(tool.name());
    cx.secrets.redact_resolution(&mut found);
    if found.paths != resolved.paths {
        let [judged, found] = [&resolved.paths, &found.paths].map(|paths| paths.join(", "));
        return Err(Error::PathsChanged { judged, found });
    }
    Ok((tool, plan))
}

/// The reason why a call that was resolved to the error `told` cannot be run, as an error of that
/// kind.
fn refusal(tool: &dyn Tool, plan: Result<Plan, Error>, told: &str) -> Error {
    match plan {
        Err(error) => error,
        Ok(_) if tool.name() == "invalid" => Error::UnknownTool(told.to_owned()),
        // the files have changed so that the call would be valid now, but it was not judged
        Ok(_) => Error::Refused(told.to_owned()),
    }
}

async fn execute(tool: &'static dyn Tool, plan: Plan, cx: Context) -> Output {
    let (workspace, call) = (Arc::clone(&cx.workspace), cx.call.clone());
    finished(tool.run(plan, cx).await, &workspace, &call)
}

/// The outcome that an executor had kept of a `call` (the model's id), as [`run`] would have returned it.
pub fn received(output: Output, workspace: &Workspace, call: &str) -> Output {
    finished(Output { todos: None, ..output }, workspace, call)
}

fn finished(mut output: Output, workspace: &Workspace, call: &str) -> Output {
    // before anything is cut: a part of a secret would not be recognised
    for text in [&mut output.title, &mut output.output] {
        if let Some(hidden) = workspace.secrets.hide(text) {
            *text = hidden;
        }
    }
    workspace.secrets.redact_json(&mut output.metadata);
    output.title = text::clip(output.title, MAX_TITLE);
    truncate::limit(output, workspace, call)
}

/// Runs one tool for a person at a shell: without rules, only inside the worktree, with the tool's
/// own time limit. A timeout keeps the output so far.
///
/// # Errors
/// The call cannot be run: unknown tool, invalid arguments, a path outside the worktree.
pub async fn run_alone(name: &str, args: &str, workspace: Workspace) -> Result<Output, Error> {
    let tool = find(name).filter(|tool| tool.is_listed()).ok_or_else(|| unknown(name, None))?;
    let input = Json::from_value(&args.into());
    let plan = tool.plan(&input, &workspace)?;
    inside(&plan, &workspace)?;
    let resolution = tool.resolve(&input, &workspace);
    protected::refuse_places(resolution.clone(), &workspace)?;
    let limit = plan.timeout;
    let call_env = unlogged_call_id();
    let parts = match &plan.kind {
        CallKind::Batch { calls } => parts(calls, &workspace).await,
        CallKind::Plain
        | CallKind::Shell
        | CallKind::ShowsFiles
        | CallKind::Lasting
        | CallKind::StructuredOutput
        | CallKind::SwitchAgent { .. } => Vec::new(),
    };
    let sandbox = Sandbox::alone(&workspace, &resolution);
    let cx = Context::new(Arc::new(workspace), name, &call_env);
    let cx = Context { parts, sandbox, elicit: elicit::allowed(), ..cx };
    let cancel = cx.cancel.clone();
    let mut running = std::pin::pin!(execute(tool, plan, cx));
    let output = tokio::select! {
        output = &mut running => output,
        () = tokio::time::sleep(Duration::from_millis(limit)) => {
            cancel.cancel();
            timed_out(running.await, limit)
        }
    };
    leftfold_process::settled().await;
    Ok(output)
}

/// The results of a batch's calls, each run alone.
async fn parts(calls: &[BatchCall], workspace: &Workspace) -> Vec<BatchPart> {
    let runs = calls.iter().map(|BatchCall { name: tool, input }| async move {
        let run = Box::pin(run_alone(tool, input.as_str(), workspace.clone()));
        let output = run.await.unwrap_or_else(|error| Output::failed(&error));
        let Output { output, is_error, attachments, .. } = output;
        let outcome = Outcome { output: output.into(), is_error, attachments, shown: None };
        BatchPart { tool: tool.clone(), outcome }
    });
    futures::future::join_all(runs).await
}

/// A unique id for a call that is not in a log.
fn unlogged_call_id() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    format!("alone:{}:{}:1", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed))
}

fn inside(plan: &Plan, workspace: &Workspace) -> Result<(), Error> {
    let worktree = paths::real(&workspace.worktree)?;
    let Some(outside) = plan.access.iter().find(|a| a.permission == "external_directory") else {
        return Ok(());
    };
    Err(Error::OutsideWorkspace(format!(
        "{} is outside the worktree {}.",
        outside.patterns.join(", ").trim_end_matches("/*"),
        worktree.display()
    )))
}

/// Marks the output of a cancelled call as a timeout.
fn timed_out(mut output: Output, limit: u64) -> Output {
    let error = Error::Timeout(limit);
    if output.is_error {
        output.output = format!("{error}\n{}", output.output);
        output.mark("error_kind", error.kind());
    }
    output
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::Class;
    use leftfold_events::rules::{Action, defaults};

    use super::*;
    use crate::external;
    use crate::testing::Site;

    fn call(name: &str, input: &str) -> CallSpec {
        CallSpec { id: "c1".to_owned(), name: name.to_owned(), input: Json::parse(input).unwrap() }
    }

    #[test]
    fn names_are_repaired_by_case_alone() {
        let site = Site::new();
        for (name, found) in [
            ("read", "read"),
            ("Read", "read"),
            ("TodoWrite", "todowrite"),
            (" BASH ", "bash"),
            ("invalid", "invalid"),
            ("raed", "invalid"),
            ("", "invalid"),
        ] {
            let resolution = resolve(&call(name, "{}"), &site.workspace());
            assert_eq!(resolution.name, found, "{name:?}");
            assert_eq!(resolution.class, Class::Read);
        }
        let resolution = resolve(&call("raed", "{}"), &site.workspace());
        let error = resolution.error.unwrap();
        assert!(error.contains("\"raed\"") && error.contains("todowrite"), "{error}");
        assert!(!error.contains("invalid"), "{error}");
        assert_eq!(resolution.input.value()["tool"], "raed");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_tools_that_are_offered() {
        let site = Site::new();
        let error = |offered: &[&str]| {
            let offered = Some(offered.iter().map(|name| (*name).to_owned()).collect());
            let workspace = Workspace { offered, ..site.workspace() };
            resolve(&call("raed", "{}"), &workspace).error.unwrap()
        };
        assert!(error(&["read", "far_away"]).ends_with(" The tools are: read, far_away."));
        assert!(error(&[]).ends_with(" The tools are: none."));
    }

    #[test]
    fn a_list_of_a_folder_is_read() {
        let site = Site::new();
        for (name, input, path) in [
            ("list", r#"{"path":"src"}"#, "src"),
            ("ls", "{}", "."),
            ("LS", r#"{"filePath":"a","ignore":["x"]}"#, "a"),
        ] {
            let resolution = resolve(&call(name, input), &site.workspace());
            assert_eq!((resolution.name.as_str(), resolution.error), ("read", None), "{name}");
            assert_eq!(resolution.input.value(), json!({ "filePath": path }), "{name}");
        }
    }

    #[test]
    fn who_writes_patches_gets_no_other_way_to_change_files() {
        for (model, patches) in [
            ("gpt-5", true),
            ("gpt-5.1-codex-mini", true),
            ("openai/gpt-5", true),
            ("gpt-3.5-turbo", true),
            ("gpt-4.1", false),
            ("gpt-4o", false),
            ("gpt-oss-120b", false),
            ("o3", false),
            ("claude-sonnet-4-5", false),
            ("gpt5", false),
            ("", false),
        ] {
            let names: Vec<_> = tools_for_model(model).iter().map(|tool| tool.name()).collect();
            assert_eq!(names.contains(&"apply_patch"), patches, "{model}");
            for name in ["edit", "write"] {
                assert_eq!(names.contains(&name), !patches, "{model}: {name}");
            }
            assert!(names.contains(&"read") && names.contains(&"bash"), "{model}");
            assert!(!names.contains(&"invalid"), "{model}");
        }
    }

    #[test]
    fn a_tool_is_hidden_only_by_a_last_rule_that_denies_everything() {
        let deny = |permission: &str, pattern: &str| Rule::new(permission, pattern, Action::Deny);
        let allow = |permission: &str, pattern: &str| Rule::new(permission, pattern, Action::Allow);
        for (rules, tool, hidden) in [
            (vec![deny("edit", "*")], "edit", true),
            (vec![deny("edit", "*")], "write", true),
            (vec![deny("edit", "*")], "apply_patch", true),
            (vec![deny("edit", "*")], "multiedit", true),
            (vec![deny("edit", "*")], "patch", true),
            (vec![deny("edit", "*")], "read", false),
            (vec![deny("write", "*")], "write", false),
            (vec![deny("edit", "src/*")], "write", false),
            (vec![deny("edit", "**")], "write", false),
            (vec![deny("edit", "*"), allow("edit", "docs/*")], "write", false),
            (vec![allow("edit", "docs/*"), deny("edit", "*")], "write", true),
            (vec![deny("edit", "*"), allow("bash", "*")], "write", true),
            (vec![deny("*", "*")], "bash", true),
            (vec![deny("*", "*"), allow("bash", "*")], "bash", false),
            (vec![deny("*", "*"), allow("bash", "git *")], "bash", false),
            (vec![deny("*", "*"), allow("bash", "*")], "read", true),
            (vec![deny("bash", "*"), allow("*", "*")], "bash", false),
            (vec![Rule::new("bash", "*", Action::Ask)], "bash", false),
            (vec![deny("mcp_*", "*")], "mcp_files_read", true),
            (Vec::new(), "bash", false),
            (defaults(), "bash", false),
            (defaults(), "question", true),
        ] {
            assert_eq!(hides(&rules, std::iter::empty(), tool), hidden, "{tool}: {rules:?}");
        }
        let denied = [vec![deny("edit", "*")]];
        assert!(hides(&defaults(), denied.iter().map(Vec::as_slice), "write"));
        assert!(!hides(&defaults(), std::iter::empty(), "write"));
    }

    #[test]
    fn invalid_arguments_name_the_field() {
        let site = Site::new();
        for (name, input, said) in [
            ("read", "{}", "missing field `filePath`"),
            ("read", r#"{"filePath": 7}"#, "`filePath`: invalid type: integer `7`"),
            ("read", r#"{"filePath": "a", "offset": "x"}"#, "`offset`: expected a whole number"),
            ("read", r#"{"filePath": "a", "offset": -1}"#, "got -1"),
            ("read", r#"{"filePath": "a", "limit": 1.5}"#, "got 1.5"),
            ("read", "[]", "expected a JSON object"),
            (
                "read",
                r#""{\"filePath\": \"a""#,
                "not valid JSON (EOF while parsing a string at line 1 column 15)",
            ),
            ("edit", r#"{"filePath":"a","oldString":"b"}"#, "missing field `newString`"),
            (
                "todowrite",
                r#"{"todos":[{"content":"a","status":"done"}]}"#,
                "`todos[0].status`: unknown variant `done`",
            ),
            ("bash", r#"{"command": ""}"#, "`command`"),
        ] {
            let resolution = resolve(&call(name, input), &site.workspace());
            let error = resolution.error.unwrap();
            let start = format!("The {name} tool was called with invalid arguments: ");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains(said), "{error}");
            assert!(
                error.ends_with(". Rewrite the input so it satisfies the expected schema."),
                "{error}"
            );
        }
    }

    #[test]
    fn imprecise_arguments_are_understood() {
        let site = Site::new();
        for (input, normal) in [
            (r#"{"file_path":"a","limit":"10","junk":1}"#, r#"{"filePath":"a","limit":10}"#),
            (r#"{"filePath":"a","offset":null,"limit":3.0}"#, r#"{"filePath":"a","limit":3}"#),
            (r#""{\"filePath\":\"a\"}""#, r#"{"filePath":"a"}"#),
        ] {
            let resolution = resolve(&call("read", input), &site.workspace());
            assert_eq!(resolution.error, None);
            assert_eq!(resolution.input.as_str(), normal);
        }
    }

    #[test]
    fn schemas_are_plain_and_every_tool_is_described() {
        for tool in TOOLS {
            let schema = tool.schema().value();
            assert_eq!(schema["type"], "object", "{}", tool.name());
            assert!(schema["properties"].is_object(), "{}", tool.name());
            let text = schema.to_string();
            for unwanted in ["$schema", "$ref", "\"null\"", "uint", "anyOf", "oneOf"] {
                assert!(!text.contains(unwanted), "{} has {unwanted}: {text}", tool.name());
            }
            assert!(tool.description().len() > 40, "{}", tool.name());
            // clients know the other one by this name
            let lowercase = tool.name().to_lowercase();
            assert!(tool.name() == lowercase || tool.name() == STRUCTURED_OUTPUT);
        }
        let schema = find("read").unwrap().schema().value();
        assert_eq!(schema["required"], json!(["filePath"]));
        assert_eq!(schema["properties"]["offset"]["type"], "integer");
    }

    #[tokio::test]
    async fn a_path_that_moved_since_it_was_judged_is_refused() {
        let site = Site::new();
        site.file("a.txt", "harmless");
        site.file("b.txt", "secret");
        std::os::unix::fs::symlink("a.txt", site.path("link")).unwrap();
        let resolved = resolve(&call("read", r#"{"filePath":"link"}"#), &site.workspace());
        assert_eq!(resolved.paths, [site.path("a.txt").to_string_lossy()]);
        std::fs::remove_file(site.path("link")).unwrap();
        std::os::unix::fs::symlink("b.txt", site.path("link")).unwrap();
        let output = run(&resolved, site.context()).await;
        assert_eq!(output.meta()["error_kind"], "paths_changed");
        assert!(!output.output.contains("secret"));
    }

    /// Has every tool whose name begins with `far_`, and one named like a built-in tool.
    #[derive(Debug)]
    struct Source;

    impl tool::ToolSource for Source {
        fn resolve(&self, call: &CallSpec, workspace: &Workspace) -> Option<Resolution> {
            let is_known = call.name.starts_with("far_") || call.name == "read";
            is_known.then(|| external::resolve(&call.name, &call.input, workspace, true, None))
        }

        fn names(&self) -> Vec<String> {
            ["far_away", "far_Read", "far_read", "read"].map(str::to_owned).to_vec()
        }

        fn run<'a>(
            &'a self,
            resolved: &'a Resolution,
            _: &'a Context,
        ) -> crate::BoxFuture<'a, Option<Output>> {
            let said = resolved.input.as_str().to_owned();
            let is_known = resolved.name.starts_with("far_");
            Box::pin(async move { is_known.then(|| Output::new("far", said, &json!({}))) })
        }
    }

    #[tokio::test]
    async fn calls_of_no_built_in_tool_go_to_the_sources() {
        let site = Site::new();
        let secrets = leftfold_events::Secrets::default()
            .and([("KEY".to_owned(), "hunter2-hunter2".to_owned())]);
        let workspace = Workspace {
            sources: vec![Arc::new(Source)],
            secrets: secrets.unwrap(),
            ..site.workspace()
        };
        let resolved = resolve(&call("far_away", r#"{"a":"hunter2-hunter2"}"#), &workspace);
        assert_eq!(
            (resolved.name.as_str(), resolved.access[0].permission.as_str()),
            ("far_away", "far_away")
        );
        assert!(!resolved.input.as_str().contains("hunter2"), "{:?}", resolved.input);
        let built_in = resolve(&call("read", "{}"), &workspace);
        assert!(built_in.error.unwrap().contains("filePath"));
        for (name, found) in [
            (" Far_Away ", "far_away"),
            ("Read", "read"),
            ("far_Read", "far_Read"),
            // two names differ from it only in case
            ("FAR_READ", "invalid"),
            ("near", "invalid"),
            (" functions.far_away ", "far_away"),
            ("default_api:read", "read"),
            ("tools/Read", "read"),
            ("functions.read:0", "read"),
            ("read:12", "read"),
            ("functions.near", "invalid"),
            ("functions.", "invalid"),
            ("::", "invalid"),
        ] {
            assert_eq!(resolve(&call(name, "{}"), &workspace).name, found, "{name}");
        }
        let built_in = resolve(&call("Read", "{}"), &workspace);
        assert!(built_in.error.unwrap().contains("filePath"));
        let cx = Context::new(Arc::new(workspace), "c1", "");
        let output = run(&resolved, cx).await;
        assert!(output.title == "far" && !output.output.contains("hunter2"), "{output:?}");
    }

    #[tokio::test]
    async fn alone_a_tool_stays_inside_the_worktree() {
        let site = Site::new();
        std::os::unix::fs::symlink("/etc", site.path("etc")).unwrap();
        for path in ["/etc/hostname", "../x", "etc/hostname"] {
            let args = json!({ "filePath": path }).to_string();
            let error = run_alone("read", &args, site.workspace()).await.unwrap_err();
            assert_eq!(error.kind(), "outside_workspace", "{path}");
        }
        let error = run_alone("nope", "{}", site.workspace()).await.unwrap_err();
        assert_eq!(error.kind(), "unknown_tool");
        let error = run_alone("read", "{", site.workspace()).await.unwrap_err();
        assert_eq!(error.kind(), "invalid_arguments");
    }
}
