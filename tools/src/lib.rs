//! The tools: one file each, with its arguments, description, resolution, effect and tests.
//!
//! A call comes in two steps. [`resolve`] works out what it would do (which tool, valid arguments,
//! paths with links resolved) and has no effect; permission rules judge that. [`run`] does it, after
//! resolving again: should the paths have changed since they were judged, nothing is done.
//!
//! Invariant: a tool's failure is an [`Output`] for the model, never a panic and never an `Err`.

mod apply_patch;
mod args;
mod bash;
mod batch;
mod capture;
mod command;
mod confined;
mod diff;
mod edit;
mod environment;
mod error;
pub mod front_matter;
#[doc(hidden)]
pub mod fuzzing;
mod glob;
mod grep;
pub mod host;
mod inquire;
pub mod instructions;
mod invalid;
mod lines;
mod locks;
pub mod mcp;
mod media;
mod multiedit;
mod nearby;
mod newest;
mod paths;
mod pattern;
mod plan_switch;
pub mod plugins;
mod preview;
pub mod processes;
mod question;
mod read;
mod registry;
mod seen;
mod skill;
pub mod skills;
pub mod snapshots;
mod spill;
pub mod surrogates;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod todoread;
mod todowrite;
mod tool;
mod truncate;
mod walk;
mod webfetch;
mod write;

pub use command::become_shell;
pub use edit::{Replaced, Strategy, replace};
pub use environment::{environment, is_credential};
pub use error::Error;
pub use inquire::{Inquire, Inquiry, Reply};
pub use media::{Media, base64, decode, recognise};
pub use preview::{FilePreview, preview, previews};
pub use registry::{TOOLS, find, offered, offered_to, resolve, run, run_alone};
pub use spill::prune;
pub use task::TASK_TIMEOUT;
pub use tool::{
    BoxFuture, Context, Homes, Instructed, Output, OutputLimits, Plan, Progress, Seen, Tool,
    Workspace,
};
pub use truncate::limited;
