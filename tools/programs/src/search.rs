//! The folders of `PATH` in which programs are looked for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rustix::fs::Access;

/// Folders of the system and of package managers. A repository above them, such as that of Homebrew, is no project.
const SYSTEM: &[&str] = &["/bin", "/nix", "/opt", "/sbin", "/snap", "/usr"];

/// Names of virtual environments that lie in their project.
const ENVIRONMENTS: &[&str] = &[".venv", "env", "venv"];

/// The folders whose contents a project or a command of this process can choose.
static DISTRUSTED: RwLock<BTreeSet<PathBuf>> = RwLock::new(BTreeSet::new());

/// A folder of `PATH` that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub folder: PathBuf,
    pub reason: Reason,
}

/// Why a folder of `PATH` is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is empty or relative, so the current folder decides what it means.
    Relative,
    /// It lies in this folder, which belongs to a project or which commands of a session can write.
    Project(PathBuf),
    /// Every user of this machine can write it.
    Everybody,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Relative => f.write_str("it is relative"),
            Self::Project(folder) => {
                write!(f, "projects or commands can write {}", folder.display())
            }
            Self::Everybody => f.write_str("every user of this machine can write it"),
        }
    }
}

/// From now on, nothing below `folder` is found: it is a project, or commands of a session can write it.
///
/// A home folder, or a folder above it, cannot be left out as a whole, since the user's own programs lie there. The
/// sandbox keeps such a worktree read-only, and protects the folders of programs in it.
pub fn distrust(folder: &Path) {
    let folder = real(folder);
    let holds_home = home().is_some_and(|home| home.starts_with(&folder));
    if folder.is_absolute() && !holds_home {
        let known = || DISTRUSTED.read().unwrap_or_else(PoisonError::into_inner).contains(&folder);
        if !known() {
            DISTRUSTED.write().unwrap_or_else(PoisonError::into_inner).insert(folder);
        }
    }
}

/// Finds a program by its name. A name with `/` is taken as it is: whoever wrote it chose the file.
///
/// # Errors
/// No folder that counts has it. The kind is [`io::ErrorKind::NotFound`].
pub fn find(name: &str) -> io::Result<PathBuf> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    find_in(folders(), name).ok_or_else(|| {
        let left_out: Vec<String> =
            left_out().into_iter().map(|it| format!("{:?}", it.folder)).collect();
        let and = match left_out.is_empty() {
            true => String::new(),
            false => format!(
                "; these folders of PATH are left out, because a project can write them or they are relative: {}",
                left_out.join(", ")
            ),
        };
        io::Error::new(io::ErrorKind::NotFound, format!("there is no program `{name}` in PATH{and}"))
    })
}

/// The first of these folders' programs of this name whose file is in no project, also behind links.
pub fn find_in(folders: impl IntoIterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    let places = folders.into_iter().map(|folder| folder.join(name));
    let mut programs = places.filter(|path| is_program(path));
    programs.find(|path| reason(path).is_none())
}

/// Whether no project and no command can write the absolute path, as far as this process knows.
pub fn counts(path: &Path) -> bool {
    reason(path).is_none()
}

/// Whether this is a file that this user can execute.
pub fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// The folders of `PATH` that count, in their order.
pub fn folders() -> impl Iterator<Item = PathBuf> {
    named().filter(|folder| reason(folder).is_none())
}

/// The folders of `PATH` that do not count, for people.
pub fn left_out() -> Vec<LeftOut> {
    let judged = named().filter_map(|folder| Some((reason(&folder)?, folder)));
    judged.map(|(reason, folder)| LeftOut { folder, reason }).collect()
}

/// `PATH` with the folders that count.
pub(crate) fn path() -> OsString {
    // a folder with `:` cannot have come from `PATH`
    std::env::join_paths(folders()).unwrap_or_default()
}

fn named() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

/// Why the file or folder does not count; `None`: it does.
pub(crate) fn reason(path: &Path) -> Option<Reason> {
    if !path.is_absolute() {
        return Some(Reason::Relative);
    }
    let real = real(path);
    let distrusted = DISTRUSTED.read().unwrap_or_else(PoisonError::into_inner);
    let named = distrusted.iter().find(|folder| real.starts_with(folder)).cloned();
    if let Some(project) = named.or_else(|| unknown_project(&real, home().as_deref())) {
        return Some(Reason::Project(project));
    }
    let is_open = real.metadata().is_ok_and(|found| found.permissions().mode() & 0o002 != 0);
    is_open.then_some(Reason::Everybody)
}

/// The project of a path, if it looks like one that no session of this process works in: a session of another process may
/// have written its programs. Toolchains are often repositories too, but not projects: those of the system, and those
/// whose folder has a name with a dot, such as `~/.nvm`.
fn unknown_project(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if SYSTEM.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    // a repository around the home folder, of settings for example, makes no project of all that is in it
    let holds_home = |folder: &Path| home.is_some_and(|home| home.starts_with(folder));
    let mut above = path.ancestors().take_while(|folder| !holds_home(folder));
    let project = above.find(|folder| {
        let name = folder.file_name().unwrap_or_default();
        let is_environment = || folder.join("pyvenv.cfg").exists();
        let is_tool = name.as_encoded_bytes().starts_with(b".");
        folder.ends_with("node_modules/.bin")
            || ENVIRONMENTS.iter().any(|it| name == *it) && is_environment()
            || !is_tool && folder.join(".git").exists()
    });
    project.map(Path::to_owned)
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
        .map(|it| real(&it))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Every kind of folder in `PATH`: whether its program is found.
    #[test]
    fn programs_of_projects_are_not_found() {
        let site = tempfile::tempdir().unwrap();
        let root = site.path().canonicalize().unwrap();
        let program = |folder: &str| {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let file = folder.join("tool");
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
            folder
        };
        for folder in ["here/.git", "other/.git", "tools/.git"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        program("venv/bin");
        std::fs::write(root.join("venv/pyvenv.cfg"), "").unwrap();
        std::fs::create_dir_all(root.join("links")).unwrap();
        symlink(program("here/bin").join("tool"), root.join("links/tool")).unwrap();
        symlink(root.join("here/bin"), root.join("linked")).unwrap();
        let open = program("open");
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        distrust(&root.join("here"));
        for (folder, is_found) in [
            ("here/.venv/bin", false),
            ("here/node_modules/.bin", false),
            ("here", false),
            ("linked", false),
            ("links", false),
            ("other/bin", false),
            ("venv/bin", false),
            ("plain/node_modules/.bin", false),
            ("open", false),
            ("plain/bin", true),
        ] {
            let path = root.join(folder);
            if !path.join("tool").exists() {
                program(folder);
            }
            assert_eq!(
                reason(&path).is_none() && find_in([path], "tool").is_some(),
                is_found,
                "{folder}"
            );
        }
        for relative in ["", ".", "bin", "./node_modules/.bin"] {
            assert_eq!(reason(Path::new(relative)), Some(Reason::Relative), "{relative:?}");
        }
        // a toolchain is often a repository, and so is the home folder of somebody with settings in git
        for folder in [".nvm/.git", "home/.git"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, is_project) in [
            (".nvm/versions/node/bin", false),
            ("home/.local/bin", false),
            ("home/code/bin", false),
            ("other/.tools/bin", true),
        ] {
            let found = unknown_project(&root.join(path), Some(&root.join("home")));
            assert_eq!(found.is_some(), is_project, "{path}");
        }
        assert_eq!(unknown_project(Path::new("/usr/bin"), None), None);
    }

    #[test]
    fn a_home_folder_is_never_left_out_as_a_whole() {
        let Some(home) = home() else { panic!("tests have a home folder") };
        distrust(&home);
        distrust(Path::new("/"));
        assert!(!DISTRUSTED.read().unwrap().contains(&home));
        assert!(find("sh").unwrap().is_absolute());
    }
}
