//! The built-in tools, such as `bash`, `edit`, `read` and `grep`: one file each, with its arguments, description,
//! resolution, effect and tests. `registry` finds a tool by its name, and `truncate` limits the output of each.
//!
//! A call has two steps. [`resolve`] determines what the call would do (tool, valid arguments,
//! paths with links resolved) and has no effect. Permission rules judge that. [`run`] then does it,
//! after resolving again: if the paths have changed since they were judged, it does nothing.
//!
//! Invariant: a tool's failure is an [`Output`] for the model, never a panic and never an `Err`.
//!
//! This crate never appends to a log and never decides whether a call is allowed.

mod address;
mod apply_patch;
mod args;
mod bash;
mod batch;
mod capture;
mod command;
mod confined;
mod diagnostics;
mod diff;
mod edit;
mod elicit;
mod error;
pub mod external;
mod fold;
mod foreign_schema;
mod formatter;
mod formatting;
mod glob;
mod grep;
mod hidden_entries;
pub mod host;
mod host_terminal;
pub mod instructions;
mod invalid;
mod language_servers;
mod launch;
mod lines;
mod locks;
mod lsp;
mod media;
mod multiedit;
mod nearby;
mod newest;
mod paths;
mod pattern;
mod plan_switch;
mod preview;
mod protected;
mod question;
mod quoted;
mod read;
mod registry;
mod remote;
mod run_key;
mod sandbox;
mod screen;
mod search_service;
mod seen;
mod skill;
pub mod skills;
mod spill;
mod structured_output;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod text_files;
mod todoread;
mod todowrite;
mod tool;
mod truncate;
mod user_folders;
mod user_places;
mod walk;
mod webfetch;
mod websearch;
mod write;

/// Every tool. To add one, write its file and its description in `prompts/tools/`, and add its `mod` line above and its
/// row here.
pub static TOOLS: &[&dyn Tool] = &[
    &read::Read,
    &write::Write,
    &edit::Edit,
    &glob::Glob,
    &grep::Grep,
    &bash::Bash,
    &batch::Batch,
    &question::Question,
    &apply_patch::ApplyPatch,
    &multiedit::MultiEdit,
    &todowrite::TodoWrite,
    &todoread::TodoRead,
    &webfetch::WebFetch,
    &websearch::WebSearch,
    &websearch::CodeSearch,
    &lsp::Lsp,
    &skill::Skill,
    &task::Task,
    &plan_switch::PlanEnter,
    &plan_switch::PlanExit,
    &invalid::Invalid,
    &structured_output::StructuredOutput,
];

#[doc(hidden)]
pub use apply_patch::dry_run as dry_run_patch;
pub use args::simplify_members;
pub use bash::{
    IN_SANDBOX as BASH_IN_SANDBOX, about_shell as bash_about_shell,
    schema_in_sandbox as bash_schema_in_sandbox,
};
pub use command::become_shell;
pub use diff::FilePreview;
pub use edit::{Replaced, Strategy, replace};
pub use elicit::{Elicit, Elicitation, ElicitationReply};
pub use error::Error;
pub use formatter::{Formatter, Formatting, ProjectFolders, installed_program};
pub use futures::future::BoxFuture;
pub use language_servers::{
    CodeOperation, CodeQuestion, Diagnostic, FileDiagnostics, FoundDiagnostics, LanguageServers,
    Severity, WrittenFile,
};
pub use launch::{Launch, ProgramOwner, StartFolder, TrustCheck};
pub use lsp::LSP_TOOL;
pub use media::{Media, base64, decode, recognise};
pub use paths::alike;
pub use plan_switch::{PLAN_ENTER, PLAN_EXIT};
pub use preview::preview;
pub use protected::{is_protected, prepare_places};
pub use registry::{
    find, hides, kind_of, model_tools, permission_of, received, resolve, run, run_alone,
    tools_for_model,
};
pub use run_key::{RunKey, SessionOwner};
pub use sandbox::{
    ProgramConfinement, ProgramKind, ProgramSandbox, probe, reachable_sockets,
    remove_unused_folders,
};
pub use search_service::{SearchService, SearchVendor};
pub use spill::{MAX_SPILL, is_spill_name, prune};
pub use structured_output::{check_output_schema, structured_output_tool};
pub use task::subagents;
pub use text::decoded;
pub use tool::{
    Caller, Context, Instructed, LateOutcome, Output, OutputLimits, Plan, Progress, RemoteFailure,
    RemoteSnapshot, RemoteWorkspace, Sandbox, Seen, Tool, ToolKind, ToolSource, Workspace, guarded,
    shell,
};
pub use truncate::{cut_lines, limited};
pub use user_folders::UserFolders;
pub use websearch::SEARCH_TOOLS;
