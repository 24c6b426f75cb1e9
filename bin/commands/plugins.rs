//! `leftfold plugins`: lists the plugins in settings, with their status, hooks and tools.

use std::process::ExitCode;

use leftfold_plugins::{PluginReport, PluginStatus};
use serde_json::{Value, json};

use super::{NAME, SENTENCE, cell};
use crate::cli::{self, Format};
use leftfold_config as settings;
use leftfold_runtime::resolved_settings;

pub(crate) fn plugins(args: &cli::Plugins) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::without_plugins(&directory)?;
    let worktree = settings::worktree_of(&directory);
    // Without a session there is no node for plugins to reach.
    let (plugins, wrong) =
        resolved_settings::plugins(&directory, &worktree, std::path::Path::new(""), &settings);
    leftfold_runtime::warnings::print_once(&settings.trust.warnings());
    leftfold_runtime::warnings::print_once(&wrong);
    let reports = leftfold_runtime::run_async(async {
        plugins.ready().await;
        plugins.reports()
    })?;
    let text: String = match args.format {
        Format::Json => reports.iter().map(|report| format!("{}\n", as_json(report))).collect(),
        Format::Text => reports.iter().map(as_text).collect(),
    };
    if text.is_empty() {
        leftfold_runtime::note(
            "leftfold: no plugins are configured: add them under `plugin` in settings",
        );
    }
    super::print_as(args.format, &text)
}

fn status(report: &PluginReport) -> (&'static str, Option<&str>) {
    match &report.status {
        PluginStatus::Running => ("running", None),
        PluginStatus::Idle => ("idle", None),
        PluginStatus::Failed(why) => ("failed", Some(why)),
    }
}

fn as_json(report: &PluginReport) -> Value {
    let (status, why) = status(report);
    let tools =
        report.tools.iter().map(|(name, about)| json!({ "name": name, "description": about }));
    json!({
        "name": report.name,
        "status": status,
        "error": why,
        "hooks": report.hooks,
        "tools": tools.collect::<Vec<Value>>(),
        "warnings": report.warnings,
        "source": report.place,
    })
}

fn as_text(report: &PluginReport) -> String {
    let (status, why) = status(report);
    let why = why.map(|why| format!(": {}", cell(why, SENTENCE))).unwrap_or_default();
    let place = cell(&report.place.to_string(), SENTENCE);
    let mut text = format!("{}  {status}{why}  ({place})\n", cell(&report.name, NAME));
    for hook in &report.hooks {
        text.push_str(&format!("  hook {}\n", cell(&hook.to_string(), NAME)));
    }
    for (name, about) in &report.tools {
        let about = cell(about.lines().next().unwrap_or_default(), SENTENCE);
        text.push_str(&format!("  tool {}  {about}\n", cell(name, NAME)));
    }
    for warning in &report.warnings {
        text.push_str(&format!("  warning: {}\n", cell(warning, SENTENCE)));
    }
    text
}
