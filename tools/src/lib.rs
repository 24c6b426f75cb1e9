//! The tools: one file each, with its arguments, description, resolution, effect and tests.
//!
//! A call comes in two steps. [`resolve`] works out what it would do (which tool, valid arguments,
//! paths with links resolved) and has no effect; permission rules judge that. [`run`] does it, after
//! resolving again: should the paths have changed since they were judged, nothing is done.
//!
//! Invariant: a tool's failure is an [`Output`] for the model, never a panic and never an `Err`.

mod args;
mod bash;
mod capture;
mod command;
mod confined;
mod diff;
mod edit;
mod environment;
mod error;
mod glob;
mod grep;
mod invalid;
mod lines;
mod locks;
mod media;
mod nearby;
mod newest;
mod paths;
mod pattern;
pub mod processes;
mod read;
mod registry;
mod spill;
#[cfg(test)]
mod testing;
mod text;
mod todoread;
mod todowrite;
mod tool;
mod truncate;
mod walk;
mod write;

pub use environment::{environment, is_credential};
pub use error::Error;
pub use registry::{TOOLS, find, offered, resolve, run, run_alone};
pub use tool::{BoxFuture, Context, Output, OutputLimits, Plan, Progress, Tool, Workspace};
