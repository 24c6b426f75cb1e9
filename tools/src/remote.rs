//! Which calls run beside a workspace on another machine, through an executor, and what it may answer.
//!
//! Only tools that work in the workspace go there. The full texts of cut outputs that this node has saved stay
//! here, so calls that read those alone run here.

use std::path::Path;

use leftfold_events::Json;
use leftfold_events::event::{CallKind, CallSpec, Class, Resolution};

use crate::tool::{self, RemoteWorkspace, Tool, Workspace};
use crate::{Error, paths};

/// The executor that has to resolve this call. `None`: this machine does.
pub(crate) fn of<'a>(
    tool: &dyn Tool,
    input: &Json,
    cx: &'a Workspace,
) -> Option<&'a dyn RemoteWorkspace> {
    let remote = cx.remote.as_deref().filter(|_| tool.uses_workspace())?;
    let is_here = names_own_text(input, cx) && {
        let resolved = tool.resolve(input, cx);
        resolved.error.is_none() && reads_own_texts(&resolved, cx)
    };
    (!is_here).then_some(remote)
}

/// Whether an executor runs what was resolved.
pub(crate) fn is_elsewhere(tool: Option<&dyn Tool>, resolved: &Resolution, cx: &Workspace) -> bool {
    let uses_workspace = tool.is_some_and(Tool::uses_workspace);
    cx.remote.is_some() && uses_workspace && !reads_own_texts(resolved, cx)
}

/// The description of a call before it runs, as the executor made it. It chooses neither another tool nor what the session
/// does with the call.
pub(crate) fn resolve(
    remote: &dyn RemoteWorkspace,
    tool: &dyn Tool,
    call: &CallSpec,
    cx: &Workspace,
) -> Resolution {
    let call = CallSpec { name: tool.name().to_owned(), ..call.clone() };
    let found = remote.resolve(&call, cx);
    let is_of_workspace = match found.kind {
        CallKind::Plain | CallKind::Shell | CallKind::ShowsFiles | CallKind::Lasting => {
            !matches!(found.class, Class::Child | Class::Ask)
        }
        CallKind::Batch { .. } | CallKind::SwitchAgent { .. } | CallKind::StructuredOutput => false,
    };
    if found.name == call.name && is_of_workspace {
        return found;
    }
    let error = Error::External {
        kind: "executor_refused",
        message: "The executor answered with a call of another kind, so nothing was done."
            .to_owned(),
    };
    tool::refused(tool.name(), &call.input, &error)
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
