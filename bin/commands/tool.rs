//! `leftfold tool`: runs one tool without a model.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use leftfold_tools::{Output, Workspace};
use serde_json::json;

use crate::cli::Tool;
use leftfold_config as settings;
use leftfold_runtime::Usage;

pub(crate) fn tool(args: &Tool) -> anyhow::Result<ExitCode> {
    let Some(tool) = leftfold_tools::find(&args.name).filter(|tool| tool.is_listed()) else {
        let names: Vec<_> = leftfold_tools::model_tools().map(|tool| tool.name()).collect();
        let known = names.join(", ");
        return Err(
            Usage(format!("there is no tool `{}`: the tools are {known}", args.name)).into()
        );
    };
    let Some(input) = args.args.as_ref().filter(|_| !args.schema) else {
        let schema = serde_json::to_string_pretty(&tool.schema().value())?;
        return super::print_json(&format!("{schema}\n"));
    };
    let output =
        leftfold_runtime::run_async(leftfold_tools::run_alone(&args.name, input, workspace()?))?;
    let output = output.unwrap_or_else(|error| refused(&error));
    super::print_json(&format!("{}\n", line(&output)))?;
    Ok(ExitCode::from(u8::from(output.is_error)))
}

fn workspace() -> anyhow::Result<Workspace> {
    let directory = std::env::current_dir()?;
    let settings = leftfold_runtime::resolved_settings::without_plugins(&directory)?;
    let spill = leftfold_runtime::session_paths::data_dir()?.join("spill");
    let mut workspace = Workspace::new(&directory, settings::worktree_of(&directory), spill);
    workspace.limits = leftfold_runtime::project::output_limits(&settings);
    workspace.user_folders = leftfold_runtime::session_paths::user_folders(&settings);
    workspace.private_addresses = settings.webfetch.private;
    leftfold_runtime::search::set_up(&mut workspace, &settings);
    let formatting = leftfold_runtime::formatting::formatting(&settings);
    workspace.formatting = formatting.map(|(formatting, _)| Arc::new(formatting));
    leftfold_runtime::language_servers::set_up(&mut workspace, &settings);
    workspace.secrets =
        leftfold_runtime::secrets::known(&settings, &leftfold_runtime::model::environment)?;
    leftfold_tools::prune(&workspace.spill_dir, SystemTime::now());
    workspace.environment = settings.environment();
    workspace.shell.clone_from(&settings.shell_program);
    workspace.sandbox = Some(leftfold_runtime::sandbox::options(&settings));
    workspace.data = leftfold_runtime::session_paths::data_dir().ok();
    Ok(workspace)
}

fn refused(error: &leftfold_tools::Error) -> Output {
    Output {
        output: error.to_string(),
        is_error: true,
        metadata: leftfold_events::Json::from_value(&json!({ "error_kind": error.kind() })),
        ..Output::default()
    }
}

fn line(output: &Output) -> serde_json::Value {
    json!({
        "title": output.title,
        "output": output.output,
        "metadata": output.metadata,
        "is_error": output.is_error,
        "spill": output.spill.as_ref().map(|spill| &spill.path),
        "attachments": output.attachments,
    })
}
