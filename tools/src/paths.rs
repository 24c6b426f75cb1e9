//! Resolves paths, and adds the permissions that they need to a plan.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use leftfold_events::event::Access;
use rustix::io::Errno;

use crate::{Error, Plan, Workspace, fold, text};

/// Most links followed in one path before it counts as a loop; Linux has the same limit.
const MAX_LINKS: u32 = 40;

/// Longest path in bytes that the kernel accepts.
const MAX_PATH: usize = 4_096;

/// A path as the model gave it, resolved.
#[derive(Debug)]
pub(crate) struct Target {
    /// Absolute, without links, `.` or `..`. It need not exist.
    pub(crate) path: PathBuf,
    /// The path that rules see: relative inside the worktree, else absolute.
    pub(crate) shown: String,
    pub(crate) inside: bool,
}

/// Resolves `given`, which is absolute, below `~`, or relative to the workspace's directory. A name that does not exist
/// means the only entry of its folder that looks the same ([`fold::folded`]): models do not write Unicode as the file
/// system has it, and a second file with that name would surprise.
///
/// # Errors
/// The path is empty, contains NUL, or is not UTF-8 after resolution; links form a loop; a folder
/// may not be searched.
pub(crate) fn resolve(given: &str, cx: &Workspace) -> Result<Target, Error> {
    resolve_by(given, cx, link, true)
}

/// Resolves `given` as [`resolve`] does, but as a command of its own process sees `/proc/self`, and with names as they are.
///
/// # Errors
/// Those of [`resolve`].
pub(crate) fn resolve_for_command(given: &str, cx: &Workspace) -> Result<Target, Error> {
    resolve_by(given, cx, link_for_command, false)
}

fn resolve_by(
    given: &str,
    cx: &Workspace,
    link: Links,
    finds_alike: bool,
) -> Result<Target, Error> {
    if given.is_empty() || given.contains('\0') || given.len() > MAX_PATH {
        let given = text::clip(given.to_owned(), 200);
        return Err(Error::NotFound(format!("{given:?} cannot be a path.")));
    }
    let mut path = follow(&cx.directory.join(expand(given)), link)?;
    // each round finds one name; a link to a missing name that looks like its own would go on for ever
    for _ in 0..MAX_LINKS {
        match finds_alike.then(|| alike(&path)).flatten() {
            Some(found) => path = follow(&found, link)?,
            None => break,
        }
    }
    if path.to_str().is_none() {
        let text = format!("{} leads to a path that is not UTF-8.", path.display());
        return Err(Error::NotFound(text));
    }
    let worktree = real(&cx.worktree)?;
    let (shown, inside) = match path.strip_prefix(&worktree) {
        Ok(rest) if rest.as_os_str().is_empty() => (".".to_owned(), true),
        Ok(rest) => (rest.to_string_lossy().into_owned(), true),
        Err(_) => (path.to_string_lossy().into_owned(), false),
    };
    Ok(Target { path, shown, inside })
}

/// The path with its first missing name replaced by the only entry of the folder that looks the same. `None`: nothing is
/// missing, or no entry, or several look so.
pub fn alike(path: &Path) -> Option<PathBuf> {
    let is_missing = |path: &&Path| {
        path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let missing = path.ancestors().take_while(is_missing).last()?;
    let name = missing.file_name()?.to_str()?;
    if name.is_ascii() && !name.contains([' ', '-', '\'', '"']) {
        return None;
    }
    let wanted = fold::folded(name);
    let is_alike = |name: &OsString| name.to_str().is_some_and(|name| fold::folded(name) == wanted);
    let names = std::fs::read_dir(missing.parent()?).ok()?;
    let mut names = names.filter_map(|entry| Some(entry.ok()?.file_name())).filter(is_alike);
    let only = names.next().filter(|_| names.next().is_none())?;
    Some(missing.with_file_name(only).join(path.strip_prefix(missing).ok()?))
}

/// Expands `~` and `~/…`: models never mean a folder called `~`.
fn expand(given: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match (given.strip_prefix('~'), home()) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(given),
    }
}

/// Follows every link, one component at a time, as the kernel does. Names below a missing folder
/// are kept as they are. So a dangling link resolves to the place where a write would create the
/// file, and `link/..` is the parent of the link's target.
pub(crate) fn real(path: &Path) -> Result<PathBuf, Error> {
    follow(path, link)
}

/// Returns the target of the link at a path. `None` if it is not a link or does not exist.
type Links = fn(&Path) -> Result<Option<PathBuf>, Error>;

fn follow(path: &Path, link: Links) -> Result<PathBuf, Error> {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        let Some(target) = link(&real)? else { continue };
        links += 1;
        if links > MAX_LINKS {
            let text = format!("{} leads through a loop of symbolic links.", path.display());
            return Err(Error::SymlinkLoop(text));
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    Ok(real)
}

fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::ParentDir => Some("..".into()),
            Component::Normal(name) => Some(name.to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// The process of whoever opens them.
const OWN_PROCESS: [&str; 2] = ["/proc/self", "/proc/thread-self"];

/// The links of [`OWN_PROCESS`] lead a command to itself, not to this process. Only two of them lead into the file system.
fn link_for_command(path: &Path) -> Result<Option<PathBuf>, Error> {
    match path.file_name().and_then(|name| name.to_str()) {
        _ if !OWN_PROCESS.iter().any(|own| path.starts_with(own)) => link(path),
        Some("root") => Ok(Some("/".into())),
        Some("cwd") => link(Path::new("/proc/self/cwd")),
        _ => Ok(None),
    }
}

fn link(path: &Path) -> Result<Option<PathBuf>, Error> {
    match std::fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) => match Errno::from_io_error(&error) {
            // EINVAL: the file exists and is not a link
            Some(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => Ok(None),
            _ => Err(Error::io("look up", path, &error)),
        },
    }
}

/// The patterns that "always" may allow for these paths: the paths themselves. Rules have no quoting, so a `*` or
/// `?` in a name would match other files too: "always" is then not offered.
pub(crate) fn for_good(paths: &[String]) -> Vec<String> {
    let is_wide = |path: &String| path.contains(['*', '?']);
    if paths.iter().any(is_wide) { Vec::new() } else { paths.to_vec() }
}

/// The permission to leave the worktree for these folders, each a pattern of [`Target::outside`] or a text
/// for a folder that is not known. "Always" is not offered for an unknown folder, nor for the root of the file
/// system and the home folder: almost everything lies in these two.
pub(crate) fn leaving(folders: Vec<String>) -> Access {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_narrow = |folder: &String| {
        let folder = folder.strip_suffix("/*").unwrap_or_default();
        let is_home = home.as_ref().is_some_and(|home| home.as_os_str() == folder);
        !folder.is_empty() && !folder.contains(['*', '?']) && !is_home
    };
    let always = if folders.iter().all(is_narrow) { folders.clone() } else { Vec::new() };
    Access { permission: "external_directory".to_owned(), patterns: folders, always }
}

/// The path of a tool that has exactly one.
pub(crate) fn only(paths: Vec<PathBuf>) -> Result<PathBuf, Error> {
    let missing = || Error::NotFound("The call was resolved to no path.".to_owned());
    paths.into_iter().next().ok_or_else(missing)
}

impl Target {
    /// Adds the access to this path under `permission` to `plan`.
    pub(crate) fn judged(self, plan: Plan, permission: &str) -> Plan {
        let own = Access {
            permission: permission.to_owned(),
            patterns: vec![self.shown.clone()],
            always: for_good(std::slice::from_ref(&self.shown)),
        };
        let mut plan = self.confined(plan);
        plan.access.push(own);
        plan
    }

    /// Adds the path to `plan`, and the permission to leave the worktree if it lies outside.
    pub(crate) fn confined(self, mut plan: Plan) -> Plan {
        if !self.inside {
            let pattern = self.outside();
            plan.access.push(leaving(vec![pattern]));
        }
        plan.paths.push(self.path);
        plan
    }

    /// What the judge of shell lines may know of it.
    pub(crate) fn of_line(self) -> leftfold_shell::Target {
        let outside = (!self.inside).then(|| self.outside());
        let is_own_process = self.is_own_process();
        let Self { path, shown, .. } = self;
        leftfold_shell::Target { path, shown, outside, is_own_process }
    }

    /// Whether it is part of the process that opens it. What lies below an open folder of that process may be anything.
    fn is_own_process(&self) -> bool {
        let mut names = self.path.iter().skip_while(|name| *name != "fd");
        OWN_PROCESS.iter().any(|own| self.path.starts_with(own)) && names.nth(2).is_none()
    }

    /// Whether it is the worktree itself.
    pub(crate) fn is_worktree(&self) -> bool {
        self.inside && self.shown == "."
    }

    /// The pattern that rules see for a path outside: its folder and everything in it.
    pub(crate) fn outside(&self) -> String {
        let parent = || self.path.parent().unwrap_or(&self.path);
        let folder = if self.path.is_dir() { &self.path } else { parent() };
        folder.join("*").to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn paths_are_resolved_as_the_kernel_would() {
        let site = Site::new();
        site.file("a/b/c.txt", "");
        site.file("out/x.txt", "");
        symlink("a/b", site.path("link")).unwrap();
        symlink(site.outside("secret"), site.path("away")).unwrap();
        symlink("nowhere/yet", site.path("dangling")).unwrap();
        for (given, shown, inside) in [
            ("a/b/c.txt", "a/b/c.txt", true),
            ("./a//b/../b/c.txt", "a/b/c.txt", true),
            ("link/c.txt", "a/b/c.txt", true),
            ("link/../new.txt", "a/new.txt", true),
            ("dangling", "nowhere/yet", true),
            ("new/deep/file", "new/deep/file", true),
            ("new/../other", "other", true),
            (".", ".", true),
            ("away", &site.outside("secret").to_string_lossy(), false),
            ("away/under", &site.outside("secret/under").to_string_lossy(), false),
            ("../beside", &site.root().join("beside").to_string_lossy(), false),
            ("/", "/", false),
            ("../../../../../../../../../..", "/", false),
        ] {
            let target = resolve(given, &site.workspace()).unwrap();
            assert_eq!((target.shown.as_str(), target.inside), (shown, inside), "{given}");
        }
    }

    #[test]
    fn a_missing_name_is_the_only_one_that_looks_the_same() {
        let site = Site::new();
        for name in [
            "Shot 1.37\u{202f}PM.txt", "Cafe\u{301}/men\u{fc}.txt", "plain.txt", "two\u{a0}words",
            "two\u{2003}words", "both e\u{301}", "both \u{e9}",
        ] {
            site.file(name, "");
        }
        symlink("lo\u{f6}p", site.path("loo\u{308}p")).unwrap();
        for (given, shown) in [
            ("Shot 1.37 PM.txt", "Shot 1.37\u{202f}PM.txt"),
            ("Caf\u{e9}/menu\u{308}.txt", "Cafe\u{301}/men\u{fc}.txt"),
            ("Caf\u{e9}/new-name.txt", "Cafe\u{301}/new-name.txt"),
            ("Cafe/x.txt", "Cafe/x.txt"),
            // two fit, or it exists
            ("two words", "two words"),
            ("both e\u{301}", "both e\u{301}"),
            ("both \u{e9}", "both \u{e9}"),
            ("Plain.txt", "Plain.txt"),
            ("lo\u{f6}p", "lo\u{f6}p"),
        ] {
            assert_eq!(resolve(given, &site.workspace()).unwrap().shown, shown);
            // a shell takes names as they are
            assert_eq!(resolve_for_command(given, &site.workspace()).unwrap().shown, given);
        }
    }

    #[test]
    fn what_cannot_be_a_path_is_an_error() {
        let site = Site::new();
        symlink("two", site.path("one")).unwrap();
        symlink("one", site.path("two")).unwrap();
        symlink("self/self", site.path("self")).unwrap();
        for (given, kind) in [
            ("one", "symlink_loop"),
            ("self", "symlink_loop"),
            ("one/below", "symlink_loop"),
            ("", "not_found"),
            ("a\0b", "not_found"),
        ] {
            assert_eq!(resolve(given, &site.workspace()).unwrap_err().kind(), kind, "{given:?}");
        }
    }

    #[test]
    fn a_neighbour_with_the_same_prefix_is_outside() {
        let site = Site::new();
        let neighbour = format!("{}-old/x", site.path("").to_string_lossy().trim_end_matches('/'));
        assert!(!resolve(&neighbour, &site.workspace()).unwrap().inside);
    }
}
