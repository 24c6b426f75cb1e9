//! `leftfold lsp`: says how each language server does for the project, and checks a file with them.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use leftfold_config::{Settings, worktree_of};
use leftfold_runtime::language_servers::{self, ServerStatus};
use leftfold_runtime::{Usage, note, resolved_settings};
use leftfold_tools::{Diagnostic, FileDiagnostics, FoundDiagnostics, Severity, WrittenFile};
use serde_json::{Value, json};

use super::{NAME, SENTENCE, cell};
use crate::cli::{self, Format, LspCommand};

/// How long a file is checked. A server may have to read and build the project first.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest file that is checked, in bytes.
const MAX_FILE: u64 = 4 << 20;

pub(crate) fn lsp(args: &cli::Lsp) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::shown(&directory)?;
    match &args.command {
        None => list(&settings, &directory, args.format),
        Some(LspCommand::Check { file }) => check(&settings, &directory, file, args.format),
    }
}

fn list(settings: &Settings, directory: &Path, format: Format) -> anyhow::Result<ExitCode> {
    let servers = language_servers::all(settings, directory);
    if format == Format::Json {
        let lines = servers.iter().map(|server| format!("{}\n", as_json(server)));
        return super::print_json(&lines.collect::<String>());
    }
    if let Some(why) = language_servers::why_off(settings) {
        return super::print(&format!("all language servers are off: {why}\n"));
    }
    super::print(&servers.iter().map(as_text).collect::<String>())
}

fn as_json(server: &ServerStatus) -> Value {
    let (status, why) = match &server.spec {
        Ok(_) => ("in force", None),
        Err(why) => ("off", Some(why)),
    };
    json!({
        "id": server.id,
        "status": status,
        "why": why,
        "extensions": server.extensions,
        "program": server.spec.as_ref().ok().and_then(|spec| spec.command.first()),
        "sandbox": server.spec.as_ref().ok().map(|spec| spec.sandbox.is_some()),
    })
}

fn as_text(server: &ServerStatus) -> String {
    let id = cell(&server.id, NAME);
    let extensions = cell(&server.extensions.join(" "), NAME);
    match &server.spec {
        Ok(spec) => {
            let program = cell(spec.command.first().map_or("", String::as_str), SENTENCE);
            let sandbox = if spec.sandbox.is_some() { ", in the sandbox" } else { "" };
            format!("{id}  in force{sandbox}  {program}  ({extensions})\n")
        }
        Err(why) => format!("{id}  off: {}  ({extensions})\n", cell(why, SENTENCE)),
    }
}

fn check(
    settings: &Settings,
    directory: &Path,
    file: &Path,
    format: Format,
) -> anyhow::Result<ExitCode> {
    if let Some(why) = language_servers::why_off(settings) {
        return Err(Usage(format!("no language server checks files here: {why}")).into());
    }
    let path = directory.join(file).canonicalize();
    let path = path.map_err(|error| Usage(format!("{}: {error}", file.display())))?;
    let worktree = worktree_of(directory);
    if !path.starts_with(&worktree) {
        let (path, worktree) = (path.display(), worktree.display());
        return Err(Usage(format!("{path} is not in the project {worktree}")).into());
    }
    let fault = |what: String| Usage(format!("{}: {what}", path.display()));
    let text = leftfold_files::read(&path, Some(&worktree), MAX_FILE);
    let text = String::from_utf8(text.map_err(|why| fault(format!("it {why}")))?);
    let text = text.map_err(|_| fault("it is not UTF-8 text".to_owned()))?;
    let found = leftfold_runtime::run_async(async {
        let servers = language_servers::servers(settings, directory)?;
        let file = WrittenFile { path: path.clone(), text: Some(text) };
        Some(servers.check_patiently(file, Instant::now() + CHECK_TIMEOUT).await)
    })?;
    let found = found.unwrap_or_default();
    let file = found.files.iter().find(|file| file.path == path);
    for sentence in &found.notes {
        note(&format!("leftfold: {sentence}"));
    }
    let Some(file) = file else { return Err(unchecked(&path, &found)) };
    let text = match format {
        Format::Json => format!("{}\n", file_as_json(file)),
        Format::Text => file_as_text(file),
    };
    super::print_as(format, &text)?;
    let has_errors = file.errors > 0;
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn unchecked(path: &Path, found: &FoundDiagnostics) -> anyhow::Error {
    let path = path.display();
    match found.notes.is_empty() {
        true => {
            Usage(format!("no language server is in force for {path}: see `leftfold lsp`")).into()
        }
        false => anyhow::anyhow!("{path} was not checked"),
    }
}

fn file_as_json(file: &FileDiagnostics) -> Value {
    let item = |item: &Diagnostic| {
        let [(line, _), (end_line, _)] = item.range;
        json!({
            "line": line + 1,
            "column": item.column + 1,
            "end_line": end_line + 1,
            "severity": item.severity.name(),
            "message": item.message,
            "source": item.source,
            "code": item.code,
        })
    };
    json!({
        "file": file.path,
        "errors": file.errors,
        "others": file.rest,
        "diagnostics": file.items.iter().map(item).collect::<Vec<Value>>(),
    })
}

fn file_as_text(file: &FileDiagnostics) -> String {
    let mut text = String::new();
    for item in &file.items {
        let Diagnostic { range: [(line, _), _], column, severity, message, source, code } = item;
        let of: Vec<&str> = [source, code].into_iter().flatten().map(String::as_str).collect();
        let of = if of.is_empty() { String::new() } else { format!(" [{}]", of.join(" ")) };
        // a message of several lines is one here
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        text += &format!(
            "{}:{}:{} {}: {}\n",
            cell(&file.path.display().to_string(), SENTENCE),
            line + 1,
            column + 1,
            severity.name(),
            cell(&format!("{message}{of}"), SENTENCE)
        );
    }
    let more = (file.errors + file.rest).saturating_sub(file.items.len());
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    if file.items.iter().all(|item| item.severity != Severity::Error) {
        text += &format!("{} has no errors\n", cell(&file.path.display().to_string(), SENTENCE));
    }
    text
}
