//! The sandbox of commands in turn configurations: what settings want, and what this machine can do.

use std::path::{Path, PathBuf};

use leftfold_config::{ProgramSandbox, SandboxMode, Settings, SourceKind};
use leftfold_events::TurnConfig;
use leftfold_events::sandbox::{Backend, SandboxOptions};
use leftfold_sandbox::{self as machine, Probe};
use leftfold_tools::{ProgramKind, Workspace};

use crate::workplace::Workplace;
use crate::{session_paths, warnings};

/// Why a program that embeds Leftfold has no sandbox.
const NO_HELPER: &str = "this program does not call `become_helper` first in `main`";

/// The sandbox of a session that starts a turn. The first call in a process tries what works here, for about 10 ms.
///
/// `parent` is the configuration of the session that starts this one, `before` the sandbox that this session had as a
/// subagent. `allow` says whether the turn runs commands in the sandbox without a question, whatever the settings say.
/// At a `workplace`, the executor's sandbox counts instead of this machine's.
pub(crate) fn of_turn(
    settings: &Settings,
    worktree: &Path,
    workplace: Option<&Workplace>,
    parent: Option<&TurnConfig>,
    before: Option<&SandboxOptions>,
    allow: bool,
) -> Option<SandboxOptions> {
    let mut own = match workplace {
        Some(workplace) => workplace.sandbox(with_backend(settings, Backend::None, String::new())),
        // a session keeps its worktree, whatever the settings of its folder belong to by now
        None => options_in(settings, worktree),
    };
    own.allow |= allow;
    // what helps an executor is known there
    let has_remedy =
        workplace.is_none() && matches!(own.backend, Backend::Landlock | Backend::None);
    let remedy = if has_remedy { remedy() } else { String::new() };
    if let Some(problem) = problem(&own, &remedy) {
        warnings::print_once(&[problem]);
    }
    if allow && !own.allows() {
        let problem = "`--permission-mode sandbox` allows nothing here: it needs a sandbox with namespaces; see `leftfold \
                       doctor`";
        warnings::print_once(&[problem.to_owned()]);
    }
    if let Some(parent) = parent {
        // the turn of the parent may allow more than the settings
        own.allow |= parent.options.sandbox.as_ref().is_some_and(|theirs| theirs.allow);
        return SandboxOptions::of_child(Some(own), parent);
    }
    // a subagent keeps the limits of its parent
    Some(match before {
        Some(before) => own.within(before),
        None => own,
    })
}

/// Begins to try what works here, on another thread. For a program that will start a turn with these settings, and has
/// other work to do before.
pub fn try_early(settings: &Settings) {
    if machine::can_help() && settings.sandbox().mode.unwrap_or_default() == SandboxMode::On {
        let probe = std::thread::Builder::new().name("sandbox-probe".into());
        // without the thread, the first turn does it
        drop(probe.spawn(leftfold_tools::probe));
    }
}

/// The sandbox as settings and this machine have it.
pub fn options(settings: &Settings) -> SandboxOptions {
    options_in(settings, &settings.trust.worktree)
}

fn options_in(settings: &Settings, worktree: &Path) -> SandboxOptions {
    let (backend, why) = of_executor(settings.sandbox().mode.unwrap_or_default());
    let home = leftfold_config::is_home(worktree);
    SandboxOptions { home, ..with_backend(settings, backend, why) }
}

/// Whether snapshots are taken of a worktree: of a home folder only if it is a repository.
pub(crate) fn has_snapshots(worktree: &Path) -> bool {
    worktree.join(".git").exists() || !leftfold_config::is_home(worktree)
}

/// Tells people which limits a worktree has that is a home folder or lies above one. `None`: it is neither.
pub fn about_home(worktree: &Path) -> Option<String> {
    leftfold_config::is_home(worktree).then(|| {
        let snapshots = if has_snapshots(worktree) { "" } else { ", and no snapshots are taken" };
        format!(
            "{} is a home folder or holds one, and no project: edits ask, commands only read it{snapshots}; start \
             Leftfold in a project's folder, or name folders in `sandbox.write`",
            worktree.display()
        )
    })
}

/// The sandbox of commands of an executor on this machine, in the mode that its operator wants.
pub fn of_executor(mode: SandboxMode) -> (Backend, String) {
    match mode {
        SandboxMode::On if !machine::can_help() => (Backend::Off, NO_HELPER.to_owned()),
        SandboxMode::On => found(leftfold_tools::probe()),
        SandboxMode::Off => (Backend::Off, String::new()),
        SandboxMode::External => (Backend::External, String::new()),
    }
}

/// The advice that makes the strongest sandbox work on this machine, to be put at the end of a message that names its fault.
pub fn remedy() -> String {
    let advice = leftfold_tools::probe().rejected.first().and_then(|it| it.why.help());
    advice.map(|advice| format!(". {advice}")).unwrap_or_default()
}

fn with_backend(settings: &Settings, backend: Backend, why: String) -> SandboxOptions {
    let said = settings.sandbox();
    SandboxOptions {
        backend,
        why,
        allow: said.allow,
        write: texts(&said.write),
        hide: hidden(&said.hide, &[&said.show]),
        show: texts(&said.show),
        processes: said.processes,
        ..SandboxOptions::default()
    }
}

/// The sockets of this machine that commands can connect to with these settings, as far as the kernel tells where they are.
pub fn reachable_sockets(settings: &Settings) -> Vec<PathBuf> {
    // without a data folder there is no session
    let Ok(data) = session_paths::data_dir() else { return Vec::new() };
    let worktree = &settings.trust.worktree;
    let mut workspace = Workspace::new(worktree, worktree, data.join("spill"));
    workspace.user_folders = session_paths::user_folders(settings);
    workspace.environment = settings.environment();
    workspace.sandbox = Some(options(settings));
    workspace.data = Some(data);
    leftfold_tools::reachable_sockets(&workspace)
}

/// The sandbox of an MCP server or a plugin for which settings say `said`. `None`: it runs without one.
pub(crate) fn of_program(
    settings: &Settings,
    kind: ProgramKind,
    said: &ProgramSandbox,
) -> Option<leftfold_tools::ProgramSandbox> {
    if said.is_off {
        return None;
    }
    let mut options = options(settings);
    if !options.backend.confines() {
        return None;
    }
    let of_all = settings.sandbox();
    options.hide = hidden(&of_all.hide, &[&of_all.show, &said.show]);
    options.show.extend(texts(&said.show));
    options.write.extend(texts(&said.write));
    let files = settings.sources.iter().filter(|it| it.kind == SourceKind::File && !it.of_project);
    let is_settings = |file: &PathBuf| {
        file.extension().is_some_and(|it| it == "json" || it == "jsonc") && file.is_absolute()
    };
    Some(leftfold_tools::ProgramSandbox {
        kind,
        options,
        worktree: settings.trust.worktree.clone(),
        user_folders: session_paths::user_folders(settings),
        // without a data folder there is nothing to hide, and no session
        data: session_paths::data_dir().ok()?,
        settings: files.map(|it| PathBuf::from(&it.name)).filter(is_settings).collect(),
        environment: settings.environment(),
    })
}

/// The paths that settings hide, and the vendors' credential files unless settings show them.
fn hidden(hide: &[PathBuf], show: &[&Vec<PathBuf>]) -> Vec<String> {
    let is_shown =
        |file: &PathBuf| show.iter().any(|paths| paths.iter().any(|path| file.starts_with(path)));
    let mut credentials = leftfold_providers::credential_files();
    credentials.retain(|file| !is_shown(file));
    [texts(hide), texts(&credentials)].concat()
}

fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// The backend that a probe has found, and the reasons against the stronger ones.
fn found(probe: &Probe) -> (Backend, String) {
    let backend = match probe.ready.map(|ready| ready.backend) {
        Some(machine::Backend::Namespaces | machine::Backend::NamespacesSharedProc) => {
            return (Backend::Namespaces, String::new());
        }
        Some(machine::Backend::Bwrap) => Backend::Bwrap,
        Some(machine::Backend::Landlock) => Backend::Landlock,
        Some(machine::Backend::Seatbelt) => Backend::Seatbelt,
        None => Backend::None,
    };
    let why: Vec<String> = probe.rejected.iter().map(|it| it.why.to_string()).collect();
    (backend, why.join("; "))
}

/// A warning about a sandbox that is weaker than the usual one, with its remedy.
fn problem(sandbox: &SandboxOptions, remedy: &str) -> Option<String> {
    let why = &sandbox.why;
    match sandbox.backend {
        Backend::Landlock => Some(format!(
            "no namespaces here ({why}): commands run under Landlock and seccomp alone, and reach sockets of other \
             programs and the metadata of your files; see `leftfold doctor`{remedy}"
        )),
        Backend::None => Some(format!(
            "no sandbox here ({why}): every command asks; `\"sandbox\": \"off\"` in your settings runs them without, \
             \"external\" says that a container around Leftfold is one{remedy}"
        )),
        Backend::Off if !why.is_empty() => Some(format!("commands run without a sandbox: {why}")),
        Backend::Namespaces
        | Backend::Bwrap
        | Backend::Seatbelt
        | Backend::External
        | Backend::Off => None,
    }
}
