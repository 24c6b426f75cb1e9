//! Chooses the calls that run beside a workspace on another machine, through an executor, and checks how it resolves them.
//!
//! Only tools that work in the workspace go there. The full texts of cut outputs that this node has saved stay
//! here, so calls that read those alone run here.

use std::path::Path;

use leftfold_events::Json;
use leftfold_events::event::{CallKind, CallSpec, Class, Resolution};

use crate::tool::{self, RemoteWorkspace, Tool, Workspace};
use crate::{Error, paths};

/// The executor that runs a call of `tool` that was resolved like this. `None`: this machine does.
pub(crate) fn runner<'a>(
    tool: &dyn Tool,
    resolved: &Resolution,
    cx: &'a Workspace,
) -> Option<&'a dyn RemoteWorkspace> {
    let remote = cx.remote.as_deref().filter(|_| tool.uses_workspace())?;
    (!reads_own_texts(resolved, cx)).then_some(remote)
}

/// The description of a call before it runs, as the executor made it. It chooses neither another tool nor what the session
/// does with the call. `None`: this machine resolves the call.
pub(crate) fn resolve(
    tool: &dyn Tool,
    call: &CallSpec,
    input: &Json,
    cx: &Workspace,
) -> Option<Resolution> {
    let remote = cx.remote.as_deref().filter(|_| tool.uses_workspace())?;
    if names_own_text(input, cx) {
        let resolved = tool.resolve(input, cx);
        if resolved.error.is_none() {
            runner(tool, &resolved, cx)?;
        }
    }
    let call = CallSpec { name: tool.name().to_owned(), ..call.clone() };
    let found = remote.resolve(&call, cx);
    let is_of_workspace = match found.kind {
        CallKind::Plain | CallKind::Shell | CallKind::ShowsFiles | CallKind::Lasting => {
            !matches!(found.class, Class::Child | Class::Ask)
        }
        CallKind::Batch { .. } | CallKind::SwitchAgent { .. } | CallKind::StructuredOutput => false,
    };
    if found.name == call.name && is_of_workspace {
        return Some(found);
    }
    let error = Error::External {
        kind: "executor_refused",
        message: "The executor answered with a call of another kind, so nothing was done."
            .to_owned(),
    };
    Some(tool::refused(tool.name(), &call.input, &error))
}

/// Whether an argument is the path of a text that this node has saved.
fn names_own_text(input: &Json, cx: &Workspace) -> bool {
    let input = input.value();
    let given = ["filePath", "path"].iter().find_map(|key| input[key].as_str());
    given.is_some_and(|path| Path::new(path).starts_with(&cx.spill_dir))
}

/// Whether the call only reads texts that this node has saved.
fn reads_own_texts(resolved: &Resolution, cx: &Workspace) -> bool {
    let Ok(folder) = paths::real(&cx.spill_dir) else { return false };
    let is_own = |path: &String| Path::new(path).starts_with(&folder);
    resolved.class == Class::Read
        && ["read", "grep"].contains(&resolved.name.as_str())
        && !resolved.paths.is_empty()
        && resolved.paths.iter().all(is_own)
}
