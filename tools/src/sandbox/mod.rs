//! The sandbox of a command on this machine: from the profile that `tool.started` records to paths, variables and a
//! process, and back to what was denied.
//!
//! | module | task |
//! | --- | --- |
//! | `places` | what a command may change, must not change, and must not see |
//! | `project_files` | files in the project that are hidden or read-only |
//! | `sockets` | sockets of other programs |
//! | `caches` | caches of tools |
//! | `temp` | the private `/tmp` |
//! | `evidence`, `messages` | what was denied; texts of errors in the user's language |
//! | `watch` | files that decide what later runs do, and that a command has made |
//! | `programs` | the sandbox of MCP servers and plugins |

mod caches;
mod evidence;
mod places;
mod programs;
mod project_files;
mod sockets;
mod temp;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leftfold_events::event::Resolution;
use leftfold_events::sandbox::{self, Backend, WorktreeAccess};
use leftfold_events::turn_config::Options;
use leftfold_sandbox as machine;
use serde::{Deserialize, Serialize};

pub(crate) use self::evidence::Denied;
use self::evidence::{Access, Counters};
use self::places::{SandboxPlaces, resolved};
pub use self::programs::{ProgramConfinement, ProgramKind, ProgramSandbox, remove_unused_folders};
pub use self::sockets::reachable_sockets;
pub(crate) use self::temp::prune as prune_temp;
pub(crate) use self::watch::Traces;
use self::watch::Watched;
use crate::tool::{Sandbox, Workspace};

/// Bytes of one file that a command may write.
const FILE_SIZE: u64 = 16 << 30;

/// Processes and threads that a command may have at a time, unless settings say otherwise.
const PROCESSES: u64 = 4_096;

/// The sandbox of one command, with the facts of this machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Confinement {
    profile: machine::Profile,
    variables: Vec<(String, OsString)>,
    /// The files that decide what later runs do, before the command.
    #[serde(skip)]
    before: Watched,
    /// Paths that the permissions of the call open for changes.
    #[serde(skip)]
    opened: Vec<PathBuf>,
    /// Paths that mounts keep read-only: nothing can be mounted where nothing is.
    #[serde(skip)]
    kept: Vec<PathBuf>,
}

impl Sandbox {
    /// The sandbox of a call that has no session, and all of whose accesses are granted.
    pub(crate) fn alone(cx: &Workspace, call: &Resolution) -> Option<Self> {
        let options = cx.sandbox.clone()?;
        let all = Options { sandbox: Some(options.clone()), ..Options::default() };
        let profile = sandbox::profile(&all, &cx.worktree.to_string_lossy(), call)?;
        Some(Self { profile, options, env_files: false })
    }

    /// The facts of this machine for a command. `None`: it runs without a sandbox. Reads the worktree, so it may block.
    ///
    /// # Errors
    /// The folder for temporary files or caches cannot be made.
    pub(crate) fn confinement(&self, cx: &Workspace) -> io::Result<Option<Confinement>> {
        let Some(backend) = backend(self.profile.backend) else { return Ok(None) };
        let files = project_files::for_worktree(&cx.worktree);
        let own = &self.options;
        let named = own.write.iter().chain(&own.show).map(|path| resolved(&at_home(path, cx)));
        let mut places = SandboxPlaces::new(cx, &files, named);
        if backend.has_namespaces() {
            places.hidden.extend(sockets::known());
        }
        let home = cx.user_folders.home.as_deref();
        if !self.options.hide.is_empty() && home.is_some_and(|home| home.to_str().is_none()) {
            // settings are text
            return Err(io::Error::other("`sandbox.hide` needs a home folder whose path is UTF-8"));
        }
        places.hidden.extend(self.options.hide.iter().map(|path| at_home(path, cx)));
        if !self.env_files {
            places.hidden.extend(files.secret.iter().cloned());
        }
        places.close();
        match self.profile.worktree {
            WorktreeAccess::Write => places.make_hooks(),
            WorktreeAccess::Read => places.read_only.append(&mut places.write),
        }
        let folder_of = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        if self.profile.worktree == WorktreeAccess::Write {
            // the user builds there too, and no build works without
            places.write.extend(folder_of("CARGO_TARGET_DIR").map(|folder| resolved(&folder)));
        }
        let mut variables = Vec::new();
        if let Some(data) = &cx.data {
            let caches = caches::folder(data, &cx.worktree);
            private_folder(&caches)?;
            let is_set = |name: &str| std::env::var_os(name).is_some();
            let own = caches::variables(&caches, home, is_set);
            variables.extend(own.into_iter().map(|(name, path)| (name, path.into_os_string())));
            places.write.insert(resolved(&caches));
        }
        if self.profile.network {
            let downloads = home.into_iter().flat_map(caches::downloads);
            places.write.extend(downloads.map(|folder| resolved(&folder)));
        }
        // rules have resolved the paths of the call; if one is a link now, somebody has made it since
        let absolute = |paths: &[String]| -> Vec<PathBuf> {
            let is_own = |path| own.write.contains(path) || own.show.contains(path);
            let path =
                |path| if is_own(path) { resolved(&at_home(path, cx)) } else { at_home(path, cx) };
            // a command has a `/proc` of its own
            paths.iter().map(path).filter(|path| !path.starts_with("/proc")).collect()
        };
        let shown = [absolute(&self.profile.shown), absolute(&own.show)].concat();
        let opened = absolute(&self.profile.write);
        places.open(&opened, &shown);
        let startup = places.close_startup(cx, &opened, backend.has_namespaces());
        let temp = temp::beside(&cx.spill_dir);
        private_folder(&temp)?;
        let mut profile = machine::Profile::new(backend);
        places.write.iter().for_each(|folder| leftfold_programs::distrust(folder));
        profile.write = places.write.into_iter().collect();
        profile.read_only = places.read_only.into_iter().collect();
        profile.hidden = places.hidden.into_iter().collect();
        let discarded = caches::discarded(home, folder_of);
        profile.discarded = discarded.iter().map(|folder| resolved(folder)).collect();
        profile.network = self.profile.network;
        profile.temp = Some(temp);
        profile.limits.file_size = Some(FILE_SIZE);
        // without namespaces, or as root, the limit would count other processes or not count at all
        let processes = self.options.processes.or(backend.has_namespaces().then_some(PROCESSES));
        profile.limits.processes = processes;
        // without namespaces, nothing in a writable folder is read-only
        let kept =
            profile.read_only.iter().filter(|path| backend.has_namespaces() && path.exists());
        let kept = kept.cloned().collect();
        let before = Watched::new(&cx.worktree, &files, startup);
        Ok(Some(Confinement { profile, variables, before, opened, kept }))
    }
}

/// A path of settings or rules: `~/x` lies in the home folder.
fn at_home(path: &str, cx: &Workspace) -> PathBuf {
    // rules know the worktree as text, which a path need not be
    if cx.worktree.to_str().is_none()
        && let Some(rest) = path.strip_prefix(&*cx.worktree.to_string_lossy())
    {
        return cx.worktree.join(rest.trim_start_matches('/'));
    }
    match (path.strip_prefix('~'), &cx.user_folders.home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => cx.worktree.join(path),
    }
}

/// Whether commands have a `/tmp` of their own.
pub(crate) fn has_own_temp(cx: &Workspace) -> bool {
    cx.sandbox.as_ref().is_some_and(|it| matches!(it.backend, Backend::Namespaces | Backend::Bwrap))
}

pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The form of namespaces that works here. `None` for what is no sandbox.
fn backend(backend: Backend) -> Option<machine::Backend> {
    match backend {
        Backend::Namespaces if has_own_proc() => Some(machine::Backend::Namespaces),
        Backend::Namespaces => Some(machine::Backend::NamespacesSharedProc),
        Backend::Landlock => Some(machine::Backend::Landlock),
        Backend::Seatbelt => Some(machine::Backend::Seatbelt),
        Backend::Bwrap => Some(machine::Backend::Bwrap),
        Backend::External | Backend::Off | Backend::None => None,
    }
}

/// Whether namespaces can have a `/proc` of their own here. In containers that cover parts of `/proc` they cannot.
fn has_own_proc() -> bool {
    probe().ready.is_some_and(|ready| ready.backend == machine::Backend::Namespaces)
}

/// The backend that works on this machine. The first call tries it, which blocks for about 10 ms.
pub fn probe() -> &'static machine::Probe {
    static PROBE: OnceLock<machine::Probe> = OnceLock::new();
    PROBE.get_or_init(|| {
        machine::probe(machine::own_program(), &machine::Profile::new(machine::Backend::Namespaces))
    })
}

impl Confinement {
    /// The command for `program`, and the channel that reports its end.
    ///
    /// # Errors
    /// There is no sandbox here, or the profile is too long.
    pub(crate) fn command(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> io::Result<(Command, machine::Channel)> {
        let helper = machine::own_program();
        machine::command(helper, &self.profile, program, arguments)
    }

    /// Variables of the sandbox's own caches.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.variables.iter().map(|(name, path)| (name.as_str(), path.as_os_str()))
    }

    /// The files that decide what later runs do, and that the command in `worktree` has made or changed. Reads the
    /// worktree, so it may block.
    pub(crate) fn traces(&self, worktree: &Path) -> Traces {
        self.before.traces(worktree, |path| {
            let is =
                |list: &[PathBuf]| path.ancestors().any(|above| list.iter().any(|it| it == above));
            is(&self.opened) || is(&self.kept)
        })
    }

    /// The accesses that were denied to a command that ran in `folder`.
    pub(crate) fn denied(
        &self,
        report: machine::Report,
        output: &str,
        folder: &Path,
    ) -> Vec<Denied> {
        let counters = Counters {
            no_route: report.no_route,
            no_ports: report.no_ports,
            resolver_is_local: resolver_is_local(),
        };
        evidence::denied(counters, output, folder, |path, access| self.closes(path, access))
    }

    /// Whether the sandbox closes a path that the user could open.
    fn closes(&self, path: &Path, access: Access) -> bool {
        let real = |path: &Path| crate::paths::real(path).unwrap_or_else(|_| path.to_owned());
        let path = real(path);
        let profile = &self.profile;
        // the nearest path that is named decides; if a path is named twice, the stricter list
        let named = path.ancestors().find_map(|above| {
            let is = |list: &[PathBuf]| list.iter().any(|it| real(it) == above);
            [&profile.hidden, &profile.read_only, &profile.write].iter().position(|list| is(list))
        });
        let may = |access| rustix::fs::access(&path, access).is_ok();
        let parent_may =
            |access| path.parent().is_some_and(|parent| rustix::fs::access(parent, access).is_ok());
        let within = |folders: &[&str]| folders.iter().any(|it| path.starts_with(it));
        let has_own_temp = profile.backend.has_namespaces() && named.is_none();
        let is_own =
            within(&["/dev", "/proc", "/sys"]) || has_own_temp && within(&["/tmp", "/var/tmp"]);
        match access {
            _ if is_own => false,
            Access::Read => named == Some(0) && may(rustix::fs::Access::READ_OK),
            Access::Write => {
                use rustix::fs::Access;
                let can = may(Access::WRITE_OK) || !path.exists() && parent_may(Access::WRITE_OK);
                named != Some(2) && can
            }
            Access::Network => false,
        }
    }
}

/// A file that takes the sandbox of a command to a process which another program starts, such as an editor in its
/// terminal, and the report of its end back.
#[derive(Debug)]
pub(crate) struct ConfinementFile {
    path: PathBuf,
    /// Whether dropping the value removes the file.
    is_own: bool,
}

impl Drop for ConfinementFile {
    fn drop(&mut self) {
        if self.is_own {
            // it is removed with the old texts at the latest
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ConfinementFile {
    /// Writes the sandbox of the call `call_env` to a file among the full texts of outputs, which only this user can read.
    pub(crate) fn create(
        confinement: &Confinement,
        call_env: &str,
        cx: &Workspace,
    ) -> io::Result<Self> {
        private_folder(&cx.spill_dir)?;
        let name = call_env.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        // an old file of this form is removed with the texts, should this process end before
        let path = cx.spill_dir.join(format!("sandbox-{name}.txt"));
        let mut options = std::fs::OpenOptions::new();
        let mut opened = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let file = Self { path, is_own: true };
        serde_json::to_writer(&mut opened, confinement)?;
        Ok(file)
    }

    pub(crate) fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), is_own: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn confinement(&self) -> io::Result<Confinement> {
        Ok(serde_json::from_slice(&std::fs::read(&self.path)?)?)
    }

    pub(crate) fn write(&self, message: &machine::Message) -> io::Result<()> {
        std::fs::write(&self.path, serde_json::to_vec(message)?)
    }

    /// The report, if the process has written one.
    pub(crate) fn report(&self) -> Option<machine::Message> {
        machine::Message::parse(&std::fs::read_to_string(&self.path).ok()?).ok()
    }
}

/// Whether names are resolved by a service of this machine.
fn resolver_is_local() -> bool {
    let settings = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = settings.lines().filter_map(|line| line.strip_prefix("nameserver"));
    servers.map(str::trim).any(|address| address.starts_with("127.") || address == "::1")
}
