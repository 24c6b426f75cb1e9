//! `leftfold doctor --session FILE`: examines a session of another agent, and mends a copy of it.
//!
//! It reads FILE alone, and never a path that FILE names. It changes FILE only with `--in-place`, and
//! then keeps the original.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use serde_json::json;
use tempfile::NamedTempFile;

use super::{Findings, Level, as_text};
use crate::cli::{Doctor, Format};
use crate::commands::import::contents;
use leftfold_import::{Origin, UnreadableFile};
use leftfold_import_health::{self as health, Examination, Finding, Severity};
use leftfold_runtime::Usage;
use leftfold_view::words::counted;

/// How long a file must have been unchanged before `--in-place` replaces it.
const UNCHANGED_DELAY: Duration = Duration::from_secs(2);

pub(super) fn doctor(file: &Path, args: &Doctor) -> anyhow::Result<ExitCode> {
    let target = target(file, args)?;
    let before = state(file);
    let (bytes, name) = contents(file)?;
    let refused = |UnreadableFile(why): UnreadableFile| Usage(format!("{name}: {why}"));
    let found = health::origin(&bytes).map_err(refused)?;
    let Some(origin) = args.from.or(found) else {
        bail!(Usage(format!(
            "{name} is no session of Claude Code, Codex or OpenCode that can be recognized: `--from` names the agent"
        )));
    };
    let examined = health::examine(origin, &bytes).map_err(refused)?;
    let is_well = examined.findings.is_empty();
    if args.mend
        && health::examine(origin, &examined.mended).is_ok_and(|again| !again.findings.is_empty())
    {
        bail!("{name}: the damage is too deep to be mended; nothing was written");
    }
    let mended = match target.filter(|_| !is_well) {
        None => None,
        Some(Target::Copy(path)) => {
            write_new(&path, &examined.mended, file)?;
            Some(path)
        }
        Some(Target::InPlace { backup }) => {
            replace(file, &backup, &examined.mended, before)?;
            Some(file.to_owned())
        }
    };
    let text = match args.format {
        Format::Json => {
            let lines =
                examined.findings.iter().map(|finding| as_json(finding, &name, mended.is_some()));
            let more = (examined.unlisted > 0).then(|| {
                let what = format!("{} more problems are not listed", examined.unlisted);
                format!(
                    "{}\n",
                    json!({ "area": "session", "status": "note", "what": what, "advice": null })
                )
            });
            lines.chain(more).collect()
        }
        Format::Text => report(&name, origin, &examined, mended.as_deref()),
    };
    crate::commands::print_as(args.format, &text)?;
    Ok(if is_well || mended.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the mended session goes.
enum Target {
    Copy(PathBuf),
    InPlace { backup: PathBuf },
}

/// The target of `--mend`. Checked before the file is read, so that nothing is done in vain.
fn target(file: &Path, args: &Doctor) -> anyhow::Result<Option<Target>> {
    if !args.mend {
        return Ok(None);
    }
    let is_input = file == Path::new("-");
    let beside = |ending: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let target = match &args.output {
        Some(path) => Target::Copy(path.clone()),
        None if is_input => {
            bail!(Usage("name the mended copy of standard input: `--output PATH`".to_owned()))
        }
        None if args.in_place => {
            if file.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                bail!(Usage(format!("{} is no plain file, so it is not replaced", file.display())));
            }
            Target::InPlace { backup: beside(".bak") }
        }
        None => Target::Copy(beside(".mended")),
    };
    let (Target::Copy(path) | Target::InPlace { backup: path }) = &target;
    if path.symlink_metadata().is_ok() {
        bail!(Usage(format!("{} exists already, and is not overwritten", path.display())));
    }
    Ok(Some(target))
}

/// The number, size and time of a file. They change if somebody writes to it or replaces it.
fn state(file: &Path) -> Option<(u64, u64, Option<SystemTime>)> {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.modified().ok()))
}

/// A new file in the folder of `path`, with its contents on disk and the permissions of `like`.
fn prepared(path: &Path, bytes: &[u8], like: &Path) -> anyhow::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let mut new = NamedTempFile::new_in(folder).with_context(|| folder.display().to_string())?;
    new.write_all(bytes).with_context(|| path.display().to_string())?;
    if let Ok(found) = fs::metadata(like) {
        new.as_file().set_permissions(found.permissions())?;
    }
    new.as_file().sync_all()?;
    Ok(new)
}

/// Writes a whole new file or none.
fn write_new(path: &Path, bytes: &[u8], like: &Path) -> anyhow::Result<()> {
    let new = prepared(path, bytes, like)?;
    new.persist_noclobber(path).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Replaces a file at once, and keeps the original as `backup`.
///
/// # Errors
/// The file has changed since `before`, or an agent may still write to it.
fn replace(
    file: &Path,
    backup: &Path,
    bytes: &[u8],
    before: Option<(u64, u64, Option<SystemTime>)>,
) -> anyhow::Result<()> {
    let name = file.display();
    let new = prepared(file, bytes, file)?;
    let now = state(file);
    let modified = now.and_then(|(_, _, modified)| modified);
    let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if now != before || age.is_none_or(|age| age < UNCHANGED_DELAY) {
        bail!(Usage(format!("{name} was changed just now: end the agent that writes to it first")));
    }
    if let Some(process) = writer(file) {
        bail!(Usage(format!("process {process} has {name} open for writing: end it first")));
    }
    // The original stays what it is, under another name: a late write goes there and is not lost.
    fs::hard_link(file, backup).with_context(|| backup.display().to_string())?;
    new.persist(file).with_context(|| name.to_string())?;
    Ok(())
}

/// A process of this user that has the file open for writing, where `/proc` tells.
fn writer(file: &Path) -> Option<String> {
    let file = file.canonicalize().ok()?;
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries(Path::new("/proc")).find_map(|process| {
        let open = entries(&process.path().join("fd")).any(|fd| {
            let is_file = fs::read_link(fd.path()).is_ok_and(|target| target == file);
            is_file && is_writable(&process.path().join("fdinfo").join(fd.file_name()))
        });
        open.then(|| process.file_name().to_string_lossy().into_owned())
    })
}

/// Whether a descriptor is open for writing, by its file in `fdinfo`.
fn is_writable(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    // `O_WRONLY` or `O_RDWR`
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & 3 != 0)
}

fn level(finding: &Finding) -> Level {
    match finding.kind.severity() {
        Severity::Warning => Level::Warning,
        Severity::Error => Level::Error,
    }
}

fn as_json(finding: &Finding, file: &str, is_mended: bool) -> String {
    let Finding { kind, line, id, field, what, mend } = finding;
    let line = json!({ "area": "session", "status": level(finding).name(), "what": what, "advice": mend,
        "kind": kind.name(), "file": file, "line": line, "id": id, "field": field, "mended": is_mended });
    format!("{line}\n")
}

fn report(name: &str, origin: Origin, examined: &Examination, mended: Option<&Path>) -> String {
    let mut found = Findings::default();
    found.area("session");
    if examined.findings.is_empty() {
        found.fine(format!("{name}: a session of {}", origin.name()));
        return as_text(&found);
    }
    for finding in &examined.findings {
        let field =
            if finding.field.is_empty() { String::new() } else { format!(", {}", finding.field) };
        let what =
            format!("{name}:{}{field}: {} [{}]", finding.line, finding.what, finding.kind.name());
        found.add(level(finding), what, Some(finding.mend.clone()));
    }
    if examined.unlisted > 0 {
        found.add(Level::Note, format!("{} more problems are not listed", examined.unlisted), None);
    }
    let text = as_text(&found);
    let count = counted(examined.findings.len() + examined.unlisted, "problem");
    let end = match mended {
        Some(path) => format!("{count} mended: {}", path.display()),
        None => "`--mend` writes a copy with the changes after each `->`.".to_owned(),
    };
    format!("{text}{}\n", leftfold_view::clean::printable_line(&end))
}
