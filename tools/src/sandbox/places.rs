//! The places of this machine that a command may change, must not change, and must not see.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, mkdirat, statat};

use super::project_files::ProjectFiles;
use crate::hidden_entries::HiddenEntries;
use crate::{UserFolders, Workspace, confined, user_places};

/// Folders of the machine where services keep their sockets and data. A read-only mount does not keep a command from a
/// socket, and many of these give root.
const SERVICES: &[&str] = &[
    "/nix/var/nix/daemon-socket", "/run", "/var/lib/containerd", "/var/lib/containers",
    "/var/lib/docker", "/var/lib/gssproxy", "/var/lib/incus", "/var/lib/kubelet",
    "/var/lib/libvirt", "/var/lib/lxd", "/var/lib/mysql", "/var/lib/rancher", "/var/lib/sss/pipes",
    "/var/run", "/var/snap", "/var/spool/postfix",
];

/// Files that programs need, in folders that are hidden: the settings of name resolution, and what NixOS keeps there.
const SHOWN_IN_MACHINE: &[&str] = &[
    "/run/NetworkManager/resolv.conf", "/run/current-system", "/run/opengl-driver",
    "/run/resolvconf/resolv.conf", "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    // names of users, and nothing else
    "/var/lib/sss/pipes/nss",
];

/// Repositories of submodules that are looked at, at most, and how deeply they are nested.
const MAX_MODULES: usize = 500;
const MODULES_DEPTH: usize = 6;

/// The places of a command, as absolute paths that may not exist.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SandboxPlaces {
    pub(super) write: BTreeSet<PathBuf>,
    pub(super) read_only: BTreeSet<PathBuf>,
    pub(super) hidden: BTreeSet<PathBuf>,
    /// The paths in `write` and `read_only` that were found in the project, and the folder of each. A command could have
    /// made them, so they open nothing that is hidden.
    found: BTreeMap<PathBuf, PathBuf>,
    /// Paths that commands see in a hidden folder.
    needed: Vec<PathBuf>,
}

impl SandboxPlaces {
    /// The places without permissions of the call. `named` are paths that the user's settings show.
    pub(super) fn new(
        cx: &Workspace,
        files: &ProjectFiles,
        named: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let mut places = Self::of_project(&cx.worktree, files);
        places.hide(&cx.user_folders, cx.data.as_deref());
        places.hidden.extend(cx.socket.clone());
        let variables = leftfold_process::environment(&cx.environment);
        let entries = HiddenEntries::new(&cx.user_folders, named, &variables);
        // a worktree or a repository in such a place is the user's choice
        let hidden = entries.existing().into_iter().filter(|path| !places.write.contains(path));
        places.hidden.extend(hidden.collect::<Vec<_>>());
        places.needed = entries.needed;
        places.read_only.extend(in_temp(&variables));
        places.read_only.extend(cx.data.iter().map(|data| data.join("plans")));
        places.read_only.insert(cx.spill_dir.clone());
        places.resolve();
        places
    }

    /// The places in a project.
    pub(super) fn of_project(worktree: &Path, files: &ProjectFiles) -> Self {
        let mut places = Self::default();
        let worktree = resolved(worktree);
        places.add_worktree(&worktree);
        for folder in &files.repositories {
            places.add_repository(folder, &worktree);
        }
        for path in &files.settings {
            places.read_only.extend(within(path, &worktree));
        }
        let paths = places.write.iter().chain(&places.read_only);
        // a linked worktree's repository lies elsewhere
        let folder_of = |path: &PathBuf| match path.starts_with(&worktree) {
            true => worktree.clone(),
            false => path.clone(),
        };
        places.found = paths.map(|path| (path.clone(), folder_of(path))).collect();
        places
    }

    fn add_worktree(&mut self, worktree: &Path) {
        self.write.insert(worktree.to_owned());
        let git = worktree.join(".git");
        // a link could lead anywhere
        if git.symlink_metadata().is_ok_and(|found| found.is_file()) {
            self.read_only.insert(git);
            if let Some(folder) = linked_repository(worktree) {
                self.add_repository(&folder, &folder);
            }
        }
    }

    /// A repository without its hooks and settings, which run programs. The folder is named on its own, so that nobody
    /// can replace it. It and all that it names must lie in `root`: the project's own files can be links.
    fn add_repository(&mut self, folder: &Path, root: &Path) {
        let Some(folder) = within(folder, root) else { return };
        let linked = children(&folder.join("worktrees"));
        for (parents, names) in [
            (vec![folder.clone()], &["config", "config.worktree", "hooks", "info/attributes"][..]),
            (modules(&folder), &["config", "hooks", "info/attributes"]),
            (linked, &["config.worktree"]),
        ] {
            let paths = parents.iter().flat_map(|parent| names.iter().map(|it| parent.join(it)));
            self.read_only.extend(paths.filter_map(|path| within(&path, root)));
        }
        self.write.insert(folder);
    }

    /// Makes the hooks' folder of each repository: one that a command makes itself would not be read-only. Follows no
    /// link.
    pub(super) fn make_hooks(&self) {
        for hooks in self.read_only.iter().filter(|path| path.ends_with("hooks")) {
            let repository = hooks.parent().map(confined::folder);
            if let Some(Ok(repository)) = repository
                && statat(&repository, "HEAD", AtFlags::SYMLINK_NOFOLLOW).is_ok()
            {
                // it exists, or the command cannot make it either
                let _ = mkdirat(&repository, "hooks", Mode::from_raw_mode(0o777));
            }
        }
    }

    /// Resolves links in what is hidden, and closes what the project itself names in a hidden folder.
    pub(super) fn close(&mut self) {
        self.hidden = self.hidden.iter().map(|path| resolved(path)).collect();
        for (path, folder) in &self.found {
            let above = path.ancestors().skip(1).take_while(|above| above != folder);
            if above
                .take_while(|above| above.starts_with(folder))
                .any(|it| self.hidden.contains(it))
            {
                self.write.remove(path);
                self.read_only.remove(path);
            }
        }
    }

    /// Resolves links in what is read-only.
    pub(super) fn resolve(&mut self) {
        self.read_only = self.read_only.iter().map(|path| resolved(path)).collect();
    }

    /// Hides keys, Leftfold's data and the machine's services.
    pub(super) fn hide(&mut self, folders: &UserFolders, data: Option<&Path>) {
        self.hidden.extend(SERVICES.iter().map(PathBuf::from));
        self.read_only.extend(SHOWN_IN_MACHINE.iter().map(PathBuf::from));
        self.hidden.extend(user_places::keys(folders));
        self.read_only.extend(user_places::shown(folders));
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        self.hidden.extend(runtime.filter(|path| path.is_absolute()));
        self.hidden.extend(data.map(Path::to_owned));
    }

    /// Opens what the settings of the user and the permissions of the call open. A path that is opened is not protected
    /// or hidden itself any more, but paths below it are.
    pub(super) fn open(&mut self, write: &[PathBuf], shown: &[PathBuf]) {
        for path in write {
            // a file that does not exist cannot be opened by itself
            let closed = |it: &PathBuf| it == path || (!path.exists() && path.starts_with(it));
            self.read_only.retain(|it| !closed(it));
            self.hidden.retain(|it| it != path);
            // a file with a mount of its own could not be replaced
            if !self.is_writable(path) {
                self.write.insert(path.clone());
            }
        }
        for path in shown {
            self.hidden.retain(|it| it != path);
            if !self.is_writable(path) {
                self.read_only.insert(path.clone());
            }
        }
        for path in std::mem::take(&mut self.needed) {
            if self.hides(&path) == Some(true) && !self.hidden.contains(&path) {
                self.read_only.insert(path);
            }
        }
    }

    /// Whether the nearest named path above hides `path`. `None`: no path above is named.
    pub(super) fn hides(&self, path: &Path) -> Option<bool> {
        path.ancestors().find_map(|above| {
            let is_shown = self.write.contains(above) || self.read_only.contains(above);
            if self.hidden.contains(above) { Some(true) } else { is_shown.then_some(false) }
        })
    }

    /// Closes start-up places in folders that the command may change, unless the call opens them by name. Returns those
    /// that no mount keeps: a command can make one that is missing, and replace one that is a link. Without mounts these are
    /// all. Call it last.
    pub(super) fn close_startup(
        &mut self,
        cx: &Workspace,
        opened: &[PathBuf],
        has_mounts: bool,
    ) -> Vec<PathBuf> {
        let worktree = resolved(&cx.worktree);
        let named = user_places::startup(&cx.user_folders);
        let real = user_places::real(named.iter().cloned());
        let mut left = Vec::new();
        for (named, real) in named.into_iter().zip(real) {
            // a file that does not exist cannot be opened by itself
            let is_opened =
                |path: &PathBuf| *path == real || path.starts_with(&real) && !path.exists();
            // a worktree in such a folder is the user's choice
            if worktree.starts_with(&real) || opened.iter().any(is_opened) {
                continue;
            }
            let could_be_changed = self.is_writable(&real);
            if could_be_changed && real.exists() {
                // a folder that is no mount itself could be exchanged for another one
                let above = real.ancestors().skip(1).take_while(|it| !self.write.contains(*it));
                let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
                self.write.extend(above);
                self.read_only.insert(real);
            }
            if self.is_writable(&named) || could_be_changed && !has_mounts {
                left.push(named);
            }
        }
        left
    }

    /// Whether the nearest named path above is writable.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        path.ancestors().find_map(|above| {
            let closed = self.read_only.contains(above) || self.hidden.contains(above);
            if closed { Some(false) } else { self.write.contains(above).then_some(true) }
        }) == Some(true)
    }
}

/// The repositories that commands in `worktree` may change: the folders `.git` among its files and the one that its file
/// `.git` names, with those of submodules and linked worktrees in them.
pub(super) fn repositories(worktree: &Path, files: &ProjectFiles) -> Vec<PathBuf> {
    let mut found = files.repositories.clone();
    found.extend(linked_repository(worktree));
    let inner = |folder: &PathBuf| [modules(folder), children(&folder.join("worktrees"))].concat();
    let inner: Vec<PathBuf> = found.iter().flat_map(inner).collect();
    found.extend(inner);
    found
}

/// The repository that the file `.git` names, if it is this worktree's: anybody can write a file that names another. A
/// linked worktree shares its repository with other worktrees, and a submodule keeps it in that of its project.
fn linked_repository(worktree: &Path) -> Option<PathBuf> {
    let folder = leftfold_files::git_folder(worktree)?;
    let common = leftfold_files::common_folder(folder.clone());
    if common != folder {
        let named = leftfold_files::line(&folder.join("gitdir"), &folder);
        let named = named.and_then(|named| folder.join(named).canonicalize().ok());
        let points_back = named == worktree.join(".git").canonicalize().ok();
        let is_linked = folder.parent() == Some(&common.join("worktrees"));
        // the project's own files can claim the rest, wherever a folder is named `worktrees`
        let is_repository = common.join("HEAD").is_file() && common.join("objects").is_dir();
        return (points_back && is_linked && is_repository).then_some(common);
    }
    let above = worktree.ancestors().skip(1);
    let mut projects = above.map(|project| project.join(".git/modules"));
    projects.any(|modules| folder.starts_with(modules)).then_some(folder)
}

/// The path with all links resolved; unchanged if it does not exist.
pub(super) fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A path that was found in the project, with all links resolved. `None` if it leads out of `root`, or nowhere. The last
/// part may be missing.
fn within(path: &Path, root: &Path) -> Option<PathBuf> {
    let found = match path.canonicalize() {
        Ok(found) => found,
        Err(_) if path.symlink_metadata().is_ok() => return None,
        Err(_) => path.parent()?.canonicalize().ok()?.join(path.file_name()?),
    };
    found.starts_with(root).then_some(found)
}

/// The repositories of submodules. A submodule's name can contain `/`, and it can have submodules itself.
fn modules(repository: &Path) -> Vec<PathBuf> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut level = vec![repository.join("modules")];
    for _ in 0..MODULES_DEPTH {
        let mut next = Vec::new();
        for folder in level.iter().flat_map(|folder| children(folder)) {
            looked_at += 1;
            let is_folder = folder.symlink_metadata().is_ok_and(|found| found.is_dir());
            if !is_folder || looked_at > MAX_MODULES {
                continue;
            }
            let is_repository = ["HEAD", "config"].iter().any(|name| folder.join(name).exists());
            next.push(if is_repository { folder.join("modules") } else { folder.clone() });
            found.extend(is_repository.then_some(folder));
        }
        level = next;
    }
    found
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The folders below `/tmp` that variables of commands name, such as a home folder or a folder of programs. The private
/// `/tmp` would hide them. Folders that commands fill are made anew in the private one.
fn in_temp(variables: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let is_filled = |name: &OsString| {
        let name = name.to_string_lossy().to_uppercase();
        ["CACHE", "TARGET", "TMP", "TEMP"].iter().any(|part| name.contains(part))
    };
    let named = variables.iter().filter(|(name, _)| !is_filled(name));
    let folders = named.flat_map(|(_, value)| std::env::split_paths(value));
    folders.filter(|folder| is_below_temp(folder)).collect()
}

/// Whether a private `/tmp` would hide the path.
pub(super) fn is_below_temp(path: &Path) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|it| path.starts_with(it) && path != Path::new(it))
}

/// The folders of Leftfold's settings, and of those that it also reads.
pub(super) fn settings_folders(folders: &UserFolders) -> impl Iterator<Item = PathBuf> {
    let settings = folders.config.iter();
    settings.flat_map(|settings| ["leftfold", "opencode"].map(|name| settings.join(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::Site;

    fn places(site: &Site) -> SandboxPlaces {
        let cx = site.workspace();
        SandboxPlaces::new(&cx, &super::super::project_files::for_worktree(&cx.worktree), [])
    }

    #[test]
    fn the_repository_is_writable_but_for_hooks_and_settings() {
        let site = Site::new();
        for name in [".git/HEAD", ".git/modules/m/config", "leftfold.json", "src/a.rs"] {
            site.file(name, "");
        }
        let worktree = site.workspace().worktree;
        let places = places(&site);
        for (name, writable) in [
            ("src/a.rs", true),
            (".git/index", true),
            (".git/hooks/pre-commit", false),
            (".git/config", false),
            (".git/modules/m/config", false),
            (".git/modules/m/index", true),
            ("leftfold.json", false),
        ] {
            assert_eq!(places.is_writable(&worktree.join(name)), writable, "{name}");
        }
        assert!(!site.path(".git/hooks").exists());
        places.make_hooks();
        assert!(site.path(".git/hooks").is_dir());
    }

    #[test]
    fn a_linked_worktree_shares_its_repository_and_a_file_that_names_another_does_not() {
        let site = Site::new();
        let repository = site.outside("main/.git");
        let linked = repository.join("worktrees/w");
        fs::create_dir_all(&linked).unwrap();
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        fs::write(repository.join("HEAD"), "").unwrap();
        let git = site.file(".git", format!("gitdir: {}\n", linked.display()));
        let repository = repository.canonicalize().unwrap();
        fs::write(linked.join("gitdir"), "/somewhere/else/.git\n").unwrap();
        assert!(!places(&site).write.contains(&repository));
        fs::write(linked.join("gitdir"), format!("{}\n", git.display())).unwrap();
        // any folder could look like this, but for its objects
        assert!(!places(&site).write.contains(&repository));
        fs::create_dir(repository.join("objects")).unwrap();
        let places = places(&site);
        assert!(places.write.contains(&repository));
        assert!(places.read_only.contains(&repository.join("hooks")));
        assert!(places.read_only.contains(&site.workspace().worktree.join(".git")));
    }

    #[test]
    fn folders_below_tmp_that_variables_name_are_shown() {
        let variables = [
            ("HOME", "/tmp/me"),
            ("PATH", "/usr/bin:/tmp/tools:/var/tmp/more"),
            ("TMPDIR", "/tmp/run"),
            ("GOPATH", "/tmp"),
            ("npm_config_cache", "/tmp/npm"),
            ("CARGO_TARGET_DIR", "/tmp/target"),
            ("LANG", "C.UTF-8"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(
            in_temp(&variables),
            ["/tmp/me", "/tmp/tools", "/var/tmp/more"].map(PathBuf::from)
        );
    }

    #[test]
    fn permissions_open_what_is_closed() {
        let site = Site::new();
        for name in [".git/HEAD", ".git/config", "leftfold.json", ".env"] {
            site.file(name, "");
        }
        let mut places = places(&site);
        let worktree = site.workspace().worktree;
        places.hidden.extend([worktree.join(".env"), "/home/u/.ssh".into()]);
        let in_worktree =
            |names: &[&str]| names.iter().map(|it| worktree.join(it)).collect::<Vec<_>>();
        let write =
            [in_worktree(&[".git/config", ".git/hooks/new"]), vec!["/srv/x".into()]].concat();
        places.open(&write, &[worktree.join(".env"), "/home/u/.ssh".into()]);
        for (path, writable) in [
            (worktree.join(".git/config"), true),
            // the file does not exist, so its folder is opened
            (worktree.join(".git/hooks/new"), true),
            (worktree.join(".env"), true),
            (worktree.join("leftfold.json"), false),
            ("/srv/x/y".into(), true),
            ("/home/u/.ssh/id".into(), false),
        ] {
            assert_eq!(places.is_writable(&path), writable, "{}", path.display());
        }
        assert!(places.read_only.contains(Path::new("/home/u/.ssh")));
        assert!(!places.hidden.contains(Path::new("/home/u/.ssh")));
        // a mount of its own would keep git from replacing it
        assert!(!places.write.contains(&worktree.join(".git/config")));
    }
}
