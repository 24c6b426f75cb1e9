//! Pure: turns a profile and facts of the file system into the ordered steps that set up the
//! mounts, and into the rules for Landlock. Performs nothing.
//!
//! The steps are data. Init performs them itself, or `bwrap` gets them as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

pub use crate::facts::{Facts, FoundPath, Mount};
use crate::facts::{PROC_SETTINGS, TEMP};
use crate::profile::Profile;

/// One step of the set-up of mounts. Its display is one line, as in `tests/tables/layout.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a path that a later step covers.
    Keep(PathBuf),
    /// Makes a small `/dev` with the devices that every program may use.
    Dev,
    /// Mounts the `/proc` of the own PID namespace.
    Proc,
    /// Binds a path onto itself, with the mounts below it. As a mount, it can be read-only or
    /// writable by itself, and nobody can rename it.
    Bind(PathBuf),
    /// Binds the kept private folder onto this one.
    Temp(PathBuf),
    /// Covers a folder with an empty one. If `holds`, a later step makes mount points in it.
    HideFolder { path: PathBuf, holds: bool },
    /// Covers a file with a socket that nobody listens to: every open fails with `ENXIO`.
    HideFile(PathBuf),
    /// Makes a mount point in a cover and binds the kept path to it.
    Show { path: PathBuf, is_folder: bool },
    /// Lays a file system over a folder that takes its changes, and is gone at the end.
    Overlay(PathBuf),
    /// Makes a mount read-only. `options` are those that it has: the kernel refuses to drop some.
    ReadOnly { path: PathBuf, options: String },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(path) => write!(f, "keep {}", path.display()),
            Self::Dev => f.write_str("dev"),
            Self::Proc => f.write_str("proc"),
            Self::Bind(path) => write!(f, "bind {}", path.display()),
            Self::Temp(path) => write!(f, "temp {}", path.display()),
            Self::HideFolder { path, holds: false } => write!(f, "hide-folder {}", path.display()),
            Self::HideFolder { path, holds: true } => write!(f, "cover {}", path.display()),
            Self::HideFile(path) => write!(f, "hide-file {}", path.display()),
            Self::Show { path, is_folder: true } => write!(f, "show-folder {}", path.display()),
            Self::Show { path, is_folder: false } => write!(f, "show-file {}", path.display()),
            Self::Overlay(path) => write!(f, "overlay {}", path.display()),
            Self::ReadOnly { path, options } => {
                write!(f, "read-only {} {options}", path.display())
            }
        }
    }
}

/// Options of the mounts that this crate makes itself.
const OPTIONS_OF_PROC: &str = "nosuid,nodev,noexec";
const OPTIONS_OF_COVER: &str = "nosuid,nodev,noexec";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Discard,
    Write,
    ReadOnly,
    Hidden,
    Temp,
    Dev,
    Proc,
}

/// All paths with a mode of their own, links resolved, parents before children.
struct Tree<'a> {
    facts: &'a Facts,
    entries: BTreeMap<&'a Path, (Mode, &'a FoundPath)>,
}

impl<'a> Tree<'a> {
    fn new(profile: &'a Profile, facts: &'a Facts) -> Self {
        let mut tree = Self { facts, entries: BTreeMap::new() };
        if profile.backend.has_overlays() {
            tree.insert(&profile.discarded, Mode::Discard);
        }
        if profile.everything {
            tree.insert(["/"], Mode::Write);
        }
        tree.insert(&profile.write, Mode::Write);
        if tree.entries.contains_key(Path::new("/")) {
            tree.insert(["/sys"], Mode::ReadOnly);
        }
        tree.insert(&profile.read_only, Mode::ReadOnly);
        let hidden = profile.hidden.iter().filter(|path| path.as_path() != "/");
        tree.insert(hidden, Mode::Hidden);
        let has_own_dev = profile.backend.has_namespaces() && !profile.shares_processes;
        if has_own_dev {
            tree.insert(["/dev"], Mode::Dev);
        }
        if has_own_dev && profile.backend.has_own_proc() {
            tree.insert(["/proc"], Mode::Proc);
        }
        if profile.backend.has_namespaces() && profile.temp.is_some() {
            for folder in TEMP.iter().filter_map(|path| facts.found.get(Path::new(path))) {
                tree.entries.entry(&folder.path).or_insert((Mode::Temp, folder));
            }
        }
        tree
    }

    /// Gives the paths that exist this mode, whatever mode they have.
    fn insert(&mut self, paths: impl IntoIterator<Item: AsRef<Path>>, mode: Mode) {
        for path in paths {
            if let Some(found) = self.facts.found.get(path.as_ref()) {
                self.entries.insert(&found.path, (mode, found));
            }
        }
    }

    /// The mode in force at `path`.
    fn mode_at(&self, path: &Path) -> Option<Mode> {
        path.ancestors().find_map(|above| self.entries.get(above)).map(|(mode, _)| *mode)
    }

    /// The mode in force around `path`.
    fn mode_around(&self, path: &Path) -> Option<Mode> {
        path.parent().and_then(|parent| self.mode_at(parent))
    }

    /// Whether the mode in force around `path` is that of the root.
    fn is_in_root(&self, path: &Path) -> bool {
        let named = path.ancestors().skip(1).find(|above| self.entries.contains_key(above));
        named == Some(Path::new("/"))
    }

    /// The entries of a mode.
    fn of(&self, wanted: Mode) -> impl Iterator<Item = &'a FoundPath> {
        let of_mode = self.entries.values().filter(move |(mode, _)| *mode == wanted);
        of_mode.map(|(_, found)| *found)
    }

    /// The files and folders that must be shown again, because a cover is over them.
    fn shown(&self) -> impl Iterator<Item = &'a FoundPath> {
        let entries = self.entries.iter().filter(|(path, (mode, _))| {
            matches!(mode, Mode::Write | Mode::ReadOnly)
                && self.mode_around(path).is_some_and(|around| {
                    matches!(around, Mode::Discard | Mode::Hidden | Mode::Temp | Mode::Dev)
                })
        });
        entries.map(|(_, (_, found))| *found)
    }
}

/// The steps that set up the mounts of `profile`. None for [`Backend::Landlock`].
pub fn steps(profile: &Profile, facts: &Facts) -> Vec<Step> {
    if !profile.backend.has_namespaces() {
        return Vec::new();
    }
    let tree = Tree::new(profile, facts);
    let shown: BTreeSet<&Path> = tree.shown().map(|found| found.path.as_path()).collect();
    let mut steps: Vec<Step> = shown.iter().map(|path| Step::Keep(path.to_path_buf())).collect();
    let temp = profile.temp.as_ref().and_then(|temp| facts.found.get(temp));
    if let Some(temp) = temp {
        steps.push(Step::Keep(temp.path.clone()));
    }
    if !profile.shares_processes {
        steps.push(Step::Dev);
    }
    if profile.backend.has_own_proc() && !profile.shares_processes {
        steps.push(Step::Proc);
        for path in PROC_SETTINGS.iter().filter_map(|path| facts.found.get(Path::new(path))) {
            steps.push(Step::Bind(path.path.clone()));
            steps.push(read_only(&path.path, OPTIONS_OF_PROC));
        }
    }
    let mut seals = Vec::new();
    for (path, (mode, found)) in &tree.entries {
        let around = tree.mode_around(path);
        let path = path.to_path_buf();
        let is_root = path == Path::new("/");
        match mode {
            // nothing of `/proc` is shown or hidden by itself
            _ if around == Some(Mode::Proc) => {}
            // a process cannot enter a mount over its own root
            Mode::Write | Mode::ReadOnly if is_root => {}
            Mode::Write | Mode::ReadOnly => {
                let options = facts.options_of(&path);
                steps.push(if shown.contains(path.as_path()) {
                    Step::Show { path: path.clone(), is_folder: found.is_folder }
                } else {
                    Step::Bind(path.clone())
                });
                // after the binds below it, which would become read-only too
                if *mode == Mode::ReadOnly {
                    seals.push(read_only(&path, options));
                }
            }
            Mode::Temp if temp.is_some() => steps.push(Step::Temp(path)),
            // a cover hides it already
            Mode::Hidden if matches!(around, Some(Mode::Hidden | Mode::Temp | Mode::Dev)) => {}
            Mode::Hidden if found.is_folder => {
                let holds = shown.iter().any(|shown| shown.starts_with(&path));
                if holds {
                    seals.push(read_only(&path, OPTIONS_OF_COVER));
                }
                steps.push(Step::HideFolder { path, holds });
            }
            Mode::Hidden => steps.push(Step::HideFile(path)),
            // nothing is there to be changed
            Mode::Discard if matches!(around, Some(Mode::Hidden | Mode::Temp | Mode::Dev)) => {}
            Mode::Discard => steps.push(Step::Overlay(path)),
            Mode::Temp | Mode::Dev | Mode::Proc => {}
        }
    }
    let mut seen = BTreeSet::new();
    for mount in &facts.mounts {
        let point = mount.point.as_path();
        let is_read_only = matches!(tree.mode_at(point), None | Some(Mode::ReadOnly));
        let is_bound = tree.entries.contains_key(point) && point != Path::new("/");
        if is_read_only && !is_bound && seen.insert(point) {
            steps.push(read_only(point, facts.options_of(point)));
        }
    }
    steps.extend(seals);
    steps
}

fn read_only(path: &Path, options: &str) -> Step {
    Step::ReadOnly { path: path.to_owned(), options: options.to_owned() }
}

/// The paths that Landlock grants. What no rule names is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Folders that may be listed, with everything below.
    pub list: BTreeSet<PathBuf>,
    /// Files and folders that may be read, listed and executed.
    pub read: BTreeSet<PathBuf>,
    /// Devices, and folders of devices: may be read, written and controlled.
    pub devices: BTreeSet<PathBuf>,
    /// Files and folders that may be changed.
    pub write: BTreeSet<PathBuf>,
}

/// Devices that every program may use.
pub(crate) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The rules for Landlock. `children` lists the files and folders in a folder, without links.
///
/// With namespaces, the mounts hide paths and keep them read-only. Without, a folder that holds a
/// hidden path is not granted as a whole, but each of its other children is: the hidden contents
/// cannot be opened, while names can still be listed.
pub fn rules(profile: &Profile, facts: &Facts, children: impl Fn(&Path) -> Vec<PathBuf>) -> Rules {
    let tree = Tree::new(profile, facts);
    let root = Path::new("/");
    let mut rules = Rules::default();
    let is_fenced = profile.everything && !profile.backend.has_namespaces();
    // nothing below them is granted for writing with `/`
    let kept = ["/dev", "/proc", "/sys"].map(PathBuf::from);
    for found in tree.of(Mode::Write) {
        if found.path == root && is_fenced {
            // its children are granted one by one
        } else if found.path == root {
            // Landlock knows no exception below a granted folder
            rules.write.extend(children(root).into_iter().filter(|path| !kept.contains(path)));
        } else {
            rules.write.insert(found.path.clone());
        }
    }
    rules.write.insert("/dev/shm".into());
    if profile.backend.has_namespaces() {
        let own = tree.of(Mode::Temp).chain(tree.of(Mode::Discard));
        rules.write.extend(own.map(|found| found.path.clone()));
        rules.read.insert(root.to_owned());
        rules.devices.insert("/dev".into());
        return rules;
    }
    let temp = profile.temp.as_ref().and_then(|temp| facts.found.get(temp));
    rules.write.extend(temp.map(|temp| temp.path.clone()));
    rules.devices.extend(DEVICES.iter().map(|name| Path::new("/dev").join(name)));
    rules.devices.extend(["/dev/ptmx".into(), "/dev/pts".into()]);
    // root could read disks
    let mut hidden: BTreeSet<&Path> = [Path::new("/dev")].into();
    let can_be_excepted = |path: &&Path| {
        tree.mode_around(path) != Some(Mode::Write) || is_fenced && tree.is_in_root(path)
    };
    let paths_of = |mode| tree.of(mode).map(|found| found.path.as_path());
    hidden.extend(paths_of(Mode::Hidden).filter(can_be_excepted));
    let read_only: Vec<&Path> =
        paths_of(Mode::ReadOnly).filter(|path| is_fenced && can_be_excepted(path)).collect();
    let parents: BTreeSet<&Path> =
        hidden.iter().chain(&read_only).flat_map(|path| path.ancestors().skip(1)).collect();
    for parent in &parents {
        if parent.ancestors().any(|above| hidden.contains(above)) {
            continue;
        }
        rules.list.insert(parent.to_path_buf());
        let granted = children(parent).into_iter().filter(|child| {
            !parents.contains(child.as_path()) && !hidden.contains(child.as_path())
        });
        for child in granted {
            let is_open =
                is_fenced && tree.mode_at(&child) == Some(Mode::Write) && !kept.contains(&child);
            let list = if is_open { &mut rules.write } else { &mut rules.read };
            list.insert(child);
        }
    }
    rules.read.extend(tree.shown().map(|found| found.path.clone()));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Backend;

    /// A block of the table: the profile and the facts, then the steps or the rules.
    fn profile_and_facts(lines: &[&str]) -> (Profile, Facts, Vec<PathBuf>) {
        let mut profile = Profile::new(Backend::Namespaces);
        let (mut facts, mut listed) = (Facts::default(), Vec::new());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let path = PathBuf::from(words.get(1).unwrap());
            let mut find = |path: &Path, to: &Path, is_folder| {
                facts.found.insert(path.to_owned(), FoundPath { path: to.to_owned(), is_folder });
            };
            match words[..] {
                ["backend", "landlock"] => profile.backend = Backend::Landlock,
                ["backend", "bwrap"] => profile.backend = Backend::Bwrap,
                ["backend", "shared-proc"] => profile.backend = Backend::NamespacesSharedProc,
                ["mount", _, options] => {
                    facts.mounts.push(Mount { point: path, options: options.to_owned() });
                }
                ["folder", _] => find(&path, &path, true),
                ["file", _] => find(&path, &path, false),
                ["link", _, to, kind] => find(&path, Path::new(to), kind == "folder"),
                ["listed", _] => {}
                ["write", _] => profile.write.push(path),
                ["read_only", _] => profile.read_only.push(path),
                ["hidden", _] => profile.hidden.push(path),
                ["discarded", _] => profile.discarded.push(path),
                ["temp", _] => profile.temp = Some(path),
                ["everything", "yes"] => profile.everything = true,
                ["shares_processes", "yes"] => profile.shares_processes = true,
                _ => panic!("unknown line `{line}`"),
            }
            let is_listed = ["folder", "file", "listed"].contains(&words[0]);
            listed.extend(is_listed.then(|| PathBuf::from(words[1])));
        }
        (profile, facts, listed)
    }

    fn result(lines: &[&str]) -> Vec<String> {
        let (profile, facts, listed) = profile_and_facts(lines);
        if profile.backend.has_namespaces() {
            return steps(&profile, &facts).iter().map(ToString::to_string).collect();
        }
        let children = |folder: &Path| {
            listed.iter().filter(|path| path.parent() == Some(folder)).cloned().collect()
        };
        let rules = rules(&profile, &facts, children);
        let of = |name: &str, paths: &BTreeSet<PathBuf>| {
            let line = |path: &PathBuf| format!("{name} {}", path.display());
            paths.iter().map(line).collect::<Vec<_>>()
        };
        let mut lines = of("list", &rules.list);
        lines.extend(of("read", &rules.read));
        lines.extend(of("write", &rules.write));
        lines
    }

    #[test]
    fn each_block_of_the_table_has_its_steps_or_rules() {
        let table = include_str!("../tests/tables/layout.txt");
        let blocks = table.split("\n## ").skip(1);
        let mut wrong = Vec::new();
        let mut count = 0;
        for block in blocks {
            count += 1;
            let (name, body) = block.split_once('\n').unwrap();
            let (given, expected) = body.split_once("=>\n").unwrap();
            let lines = |text: &'static str| {
                text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>()
            };
            let result = result(&lines(given));
            if result != lines(expected) {
                wrong.push(format!("## {name}\n{}\n", result.join("\n")));
            }
        }
        assert!(count > 8, "{count} blocks");
        assert!(wrong.is_empty(), "other results than in the table:\n{}", wrong.join("\n"));
    }

    #[test]
    fn with_namespaces_landlock_grants_reading_everything() {
        let (mut profile, facts, _) =
            profile_and_facts(&["folder /w", "write /w", "folder /tmp", "temp /t", "folder /t"]);
        let rules = rules(&profile, &facts, |_| Vec::new());
        assert_eq!(rules.read, [PathBuf::from("/")].into());
        assert_eq!(rules.write, ["/dev/shm", "/tmp", "/w"].map(PathBuf::from).into());
        profile.write = vec!["/".into()];
        let (_, facts, _) = profile_and_facts(&["folder /"]);
        let children = |_: &Path| ["/dev", "/etc", "/proc", "/sys"].map(PathBuf::from).to_vec();
        let rules = super::rules(&profile, &facts, children);
        assert_eq!(rules.write, ["/dev/shm", "/etc"].map(PathBuf::from).into());
    }
}
