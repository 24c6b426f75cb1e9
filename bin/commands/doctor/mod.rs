//! `leftfold doctor`: checks one area after the other and prints findings with advice.
//!
//! It takes every source of settings by itself (`leftfold_config::diagnose`), so that one error
//! hides no other. It uses the network only with `--online`, but for the database that keeps the sessions. It starts
//! nothing of a project that is not trusted, and of a key it prints only where it was found.

#[cfg(feature = "postgres")]
mod database;
mod guidance;
mod machine;
mod models;
mod servers;
mod session;
mod sources;

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::live_line::LiveLine;
use crate::cli::{Doctor, Format};
use leftfold_config::{self as settings, Diagnosis};
use leftfold_runtime::model;
use leftfold_runtime::resolved_settings;
use leftfold_view::clean::printable_line;
use leftfold_view::words::counted;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Fine,
    /// Worth knowing; nothing to do.
    Note,
    /// A setting does not have the intended effect, or something is missing.
    Warning,
    /// Sessions cannot work.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug)]
struct Finding {
    area: &'static str,
    level: Level,
    what: String,
    /// The advice: what to do.
    advice: Option<String>,
}

/// The findings of all areas so far.
#[derive(Debug, Default)]
struct Findings {
    area: &'static str,
    all: Vec<Finding>,
}

impl Findings {
    /// Starts an area: the findings added from here on belong to it.
    fn area(&mut self, area: &'static str) {
        self.area = area;
    }

    fn add(&mut self, level: Level, what: impl Into<String>, advice: Option<String>) {
        self.all.push(Finding { area: self.area, level, what: what.into(), advice });
    }

    fn fine(&mut self, what: impl Into<String>) {
        self.add(Level::Fine, what, None);
    }

    fn note(&mut self, what: impl Into<String>) {
        self.add(Level::Note, what, None);
    }

    fn warning(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Warning, what, Some(advice.into()));
    }

    fn error(&mut self, what: impl Into<String>, advice: impl Into<String>) {
        self.add(Level::Error, what, Some(advice.into()));
    }

    fn count(&self, level: Level) -> usize {
        self.all.iter().filter(|finding| finding.level == level).count()
    }
}

/// `store` is the argument of `--store`.
pub(crate) fn doctor(args: &Doctor, store: Option<&str>) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.session {
        return session::doctor(file, args);
    }
    let directory = std::env::current_dir()?;
    let live = LiveLine::about("examining settings, servers and this machine");
    let found = examine(&directory, args, store)?;
    drop(live);
    let text = match args.format {
        Format::Json => found.all.iter().map(as_json).collect(),
        Format::Text => as_text(&found),
    };
    super::print_as(args.format, &text)?;
    let broken = found.count(Level::Error) > 0;
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine(directory: &Path, args: &Doctor, store: Option<&str>) -> anyhow::Result<Findings> {
    let mut found = Findings::default();
    // Errors in the files themselves become findings below.
    let layers =
        resolved_settings::layers(directory).unwrap_or_else(|_| resolved_settings::no_layers());
    let diagnosis = settings::diagnose(directory, &model::environment, &layers);
    found.area("program");
    found.fine(format!(
        "leftfold {} for {} on {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    ));
    sources::settings(&mut found, &diagnosis, directory);
    let Diagnosis { settings, .. } = diagnosis;
    if let Some(settings) = &settings {
        models::model(&mut found, settings);
        models::keys(&mut found, settings);
        servers::mcp(&mut found, settings, directory, args)?;
        servers::plugins(&mut found, settings);
        servers::search(&mut found, settings);
        servers::formatters(&mut found, settings, directory);
        servers::language_servers(&mut found, settings, directory);
        guidance::agents(&mut found, settings);
        guidance::texts(&mut found, settings, directory, args.online);
    }
    guidance::approvals(&mut found, directory);
    machine::programs(&mut found);
    machine::confinement(&mut found, settings.as_ref());
    machine::data(&mut found);
    #[cfg(feature = "postgres")]
    database::chosen(&mut found, store);
    #[cfg(not(feature = "postgres"))]
    let _ = store;
    Ok(found)
}

fn as_json(finding: &Finding) -> String {
    let Finding { area, level, what, advice } = finding;
    let line = json!({ "area": area, "status": level.name(), "what": what, "advice": advice });
    format!("{line}\n")
}

fn as_text(found: &Findings) -> String {
    let mut text = String::new();
    let mut area = "";
    for finding in &found.all {
        if finding.area != area {
            area = finding.area;
            text.push_str(&format!("{area}\n"));
        }
        text.push_str(&format!("  {:<8}{}\n", finding.level.name(), printable_line(&finding.what)));
        if let Some(advice) = &finding.advice {
            text.push_str(&format!("          -> {}\n", printable_line(advice)));
        }
    }
    let (broken, warnings) = (found.count(Level::Error), found.count(Level::Warning));
    let verdict = match (broken, warnings) {
        (0, 0) => "No problems found.".to_owned(),
        (0, _) => format!("No errors, {}.", counted(warnings, "warning")),
        _ => format!("{}, {}.", counted(broken, "error"), counted(warnings, "warning")),
    };
    format!("{text}\n{verdict}\n")
}
