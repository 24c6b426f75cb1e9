//! `invalid`: stands for calls of tools that do not exist. Models never see it in their list of
//! tools.

use std::path::PathBuf;

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace};

#[derive(Debug)]
pub(crate) struct Invalid;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The name that the model called.
    tool: String,
    /// The error of the call.
    error: String,
}

impl Typed for Invalid {
    type Args = Args;
    const NAME: &'static str = "invalid";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/invalid.md");
    const LISTED: bool = false;

    fn plan(_: &Args, _: &Workspace) -> Result<Plan, Error> {
        Ok(Plan::new(Class::Read))
    }

    async fn run(args: Args, _: Vec<PathBuf>, _: Context) -> Result<Output, Error> {
        Err(Error::UnknownTool(args.error))
    }
}
