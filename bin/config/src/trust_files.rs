//! Finds the project's files that a setting executes, and describes their contents for its digest. Reads regular files
//! up to a bound, and nothing in `/proc`, `/sys` and `/dev`; starts nothing.

#![allow(clippy::disallowed_methods, reason = "settings that depend on this are read each time")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;

use crate::source::{Source, without_dots};

/// Contents of a larger file are not read: its size and times count.
const LARGEST: u64 = 8 << 20;
/// Bytes that one review reads at most. Of further files, sizes and times count.
const MAX_BYTES: u64 = 64 << 20;
/// Entries of folders that one review looks at.
const MAX_ENTRIES: usize = 20_000;
/// Paths that one review looks up.
const MAX_LOOKUPS: usize = 500_000;
/// Names of files in one setting.
const MAX_NAMES: usize = 2_000;
/// Folders in which one setting may start a program.
const MAX_STARTS: usize = 64;
/// Links that the kernel follows at most.
const MAX_LINKS: usize = 40;

/// Folders whose files are no stored data: reading one may wait for ever.
const SPECIAL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Files that these programs execute although no argument names them.
const MANIFESTS: [(&str, &[&str]); 12] = [
    ("npm", &["package.json", ".npmrc"]),
    ("npx", &["package.json", ".npmrc"]),
    ("pnpm", &["package.json", ".npmrc", ".pnpmfile.cjs"]),
    ("yarn", &["package.json", ".yarnrc", ".yarnrc.yml"]),
    ("bun", &["package.json", "bunfig.toml"]),
    ("bunx", &["package.json", "bunfig.toml"]),
    ("deno", &["deno.json", "deno.jsonc", "package.json"]),
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("uv", &["pyproject.toml", "uv.toml"]),
    ("cargo", &["Cargo.toml", ".cargo/config.toml", ".cargo/config", "build.rs"]),
];

/// Ends that a runner adds to the name of a script or module.
const ENDS: [&str; 8] = ["", ".js", ".cjs", ".mjs", ".json", ".ts", ".py", ".node"];

/// The texts of a setting that may name files.
pub(crate) struct Said<'a> {
    pub(crate) source: &'a Source,
    pub(crate) texts: Vec<String>,
    /// Whether words inside a text may name files, as in a shell line.
    pub(crate) is_executed: bool,
}

/// The files of a project. What was read for one setting is not read again for the next.
pub(crate) struct Files {
    worktree: PathBuf,
    /// The folders from the worktree to the current one, in which programs start.
    starts: Vec<PathBuf>,
    states: HashMap<(PathBuf, bool), String>,
    /// For each folder, it and the folders in it.
    below: HashMap<PathBuf, Vec<PathBuf>>,
    walked: usize,
    folders: HashMap<PathBuf, Vec<PathBuf>>,
    bytes: u64,
    entries: usize,
    lookups: usize,
    /// Whether everything that the setting in hand names is within the bounds.
    is_covered: bool,
}

impl Files {
    pub(crate) fn new(worktree: &Path, directory: &Path) -> Self {
        let above = directory.ancestors().take_while(|folder| folder.starts_with(worktree));
        let starts: BTreeSet<PathBuf> = above.chain([worktree]).map(Path::to_owned).collect();
        Self {
            worktree: worktree.to_owned(),
            starts: starts.into_iter().collect(),
            states: HashMap::new(),
            below: HashMap::new(),
            walked: 0,
            folders: HashMap::new(),
            bytes: 0,
            entries: 0,
            lookups: 0,
            is_covered: true,
        }
    }

    /// The files that a setting executes, one a line, with their contents. `None` if they are too many.
    pub(crate) fn executed(&mut self, said: &Said<'_>) -> Option<String> {
        crate::files::looked_elsewhere();
        self.is_covered = true;
        let names = names(said);
        self.is_covered &= names.len() <= MAX_NAMES;
        let mut starts = self.starts.clone();
        add(&mut starts, said.source.base.clone());
        if said.is_executed {
            // `cwd`, `cd tools`, `make -C tools`, and one of them below another
            let mut at = 0;
            while let Some(start) = starts.get(at).filter(|_| at < MAX_STARTS).cloned() {
                at += 1;
                for name in names.iter().take(MAX_NAMES) {
                    let folder = self.look_up(&start.join(name)).filter(|real| real.is_dir());
                    if let Some(folder) = folder.filter(|real| self.is_inside(real)) {
                        add(&mut starts, folder);
                    }
                }
            }
        }
        self.is_covered &= starts.len() <= MAX_STARTS;
        let mut found = BTreeMap::new();
        let ends = if said.is_executed { &ENDS[..] } else { &ENDS[..1] };
        for name in names.iter().take(MAX_NAMES) {
            self.named(&said.source.path(name), &mut found);
            for start in starts.iter().take(MAX_STARTS) {
                for end in ends {
                    self.named(&start.join(format!("{name}{end}")), &mut found);
                }
            }
        }
        let mut lines = String::new();
        for (path, is_named) in found {
            lines += &format!("{path:?} {}\n", self.state(&path, is_named));
        }
        self.is_covered.then_some(lines)
    }

    /// The folder and the folders in it, also behind links, as far as they are in the worktree, and without installed packages.
    /// `None` if there are too many.
    pub(crate) fn folders_below(&mut self, folder: &Path) -> Option<Vec<PathBuf>> {
        crate::files::looked_elsewhere();
        if let Some(known) = self.below.get(folder) {
            return Some(known.clone());
        }
        let (mut open, mut found) = (vec![folder.to_owned()], BTreeSet::new());
        while let Some(folder) = open.pop() {
            let Ok(real) = folder.canonicalize() else { continue };
            if !self.is_inside(&real) || is_special(&real) || !found.insert(real.clone()) {
                continue;
            }
            for entry in fs::read_dir(&real).into_iter().flatten().flatten() {
                self.walked += 1;
                if self.walked > MAX_ENTRIES {
                    return None;
                }
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if !is_file && entry.file_name() != "node_modules" && entry.path().is_dir() {
                    open.push(entry.path());
                }
            }
        }
        let found: Vec<PathBuf> = found.into_iter().collect();
        self.below.insert(folder.to_owned(), found.clone());
        Some(found)
    }

    fn is_inside(&self, real: &Path) -> bool {
        real.starts_with(&self.worktree)
    }

    /// The path without links, if it exists.
    fn look_up(&mut self, path: &Path) -> Option<PathBuf> {
        self.lookups += 1;
        if self.lookups > MAX_LOOKUPS {
            self.is_covered = false;
            return None;
        }
        path.canonicalize().ok()
    }

    /// Adds a file, each link on the way to it, and the files beside all of them; or the files in a folder.
    fn named(&mut self, path: &Path, found: &mut BTreeMap<PathBuf, bool>) {
        let Some(real) = self.look_up(path) else { return };
        if !self.is_inside(&real) && !self.is_inside(&without_dots(path)) {
            return;
        }
        if real.is_dir() {
            self.add_folder(&real, found);
            return;
        }
        let mut path = path.to_owned();
        for _ in 0..=MAX_LINKS {
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return };
            let Ok(above) = above.canonicalize() else { return };
            let at = above.join(name);
            if self.is_inside(&above) {
                self.add_folder(&above, found);
            }
            found.insert(at.clone(), true);
            let Ok(target) = fs::read_link(&at) else { return };
            path = above.join(target);
        }
    }

    fn add_folder(&mut self, folder: &Path, found: &mut BTreeMap<PathBuf, bool>) {
        for path in self.files_in(folder) {
            found.entry(path).or_default();
        }
    }

    /// The entries of a folder that are files, or links to files.
    fn files_in(&mut self, folder: &Path) -> Vec<PathBuf> {
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        if is_special(folder) {
            self.is_covered = false;
            return Vec::new();
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                // not kept, so that every further setting that names the folder is not covered either
                self.is_covered = false;
                return files;
            }
            if entry.path().is_file() {
                files.push(entry.path());
            }
        }
        self.folders.insert(folder.to_owned(), files.clone());
        files
    }

    /// The contents of a file, or its size and times.
    fn state(&mut self, path: &Path, is_named: bool) -> String {
        let Ok(real) = path.canonicalize() else { return "absent".to_owned() };
        if is_special(&real) {
            self.is_covered &= !is_named;
            return "is no stored file".to_owned();
        }
        if let Some(known) = self.states.get(&(real.clone(), is_named)) {
            return known.clone();
        }
        let state = match fs::metadata(&real) {
            Ok(data) if data.is_file() => {
                let is_read = (is_named || self.is_inside(&real))
                    && data.len() <= LARGEST
                    && self.bytes + data.len() <= MAX_BYTES;
                let read = || leftfold_files::read_real(&real, LARGEST).ok();
                let content = is_read.then(read).flatten();
                if is_read {
                    self.bytes += data.len();
                }
                content.map_or_else(|| outline(&data), |it| Sha256::digest(&it).to_string())
            }
            // reading a pipe could take for ever
            Ok(_) => "is no file".to_owned(),
            Err(error) => error.to_string(),
        };
        let state = format!("{real:?} {state}");
        self.states.insert((real, is_named), state.clone());
        state
    }
}

fn add(starts: &mut Vec<PathBuf>, folder: PathBuf) {
    if !starts.contains(&folder) && starts.len() <= MAX_STARTS {
        starts.push(folder);
    }
}

fn is_special(real: &Path) -> bool {
    SPECIAL.iter().any(|folder| real.starts_with(folder))
}

/// The time of the last change can not be set to an earlier one, as the time of the last write can.
fn outline(data: &Metadata) -> String {
    let written = (data.mtime(), data.mtime_nsec());
    format!("{} bytes {written:?} {:?}", data.len(), (data.ctime(), data.ctime_nsec()))
}

/// The names of files that a setting may mean. Stops after more than [`MAX_NAMES`].
fn names(said: &Said<'_>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = said.texts.iter().cloned().collect();
    if said.is_executed {
        for text in &said.texts {
            // a quoted name, or the value of an option, may have blanks
            names.extend(text.split(['"', '\'', '`']).map(|part| part.trim().to_owned()));
            names.extend(text.split_once('=').map(|(_, value)| value.to_owned()));
        }
        let mut before = "";
        for piece in said.texts.iter().flat_map(|text| pieces(text)) {
            if names.len() > MAX_NAMES {
                break;
            }
            add_names(piece, before, &mut names);
            before = piece;
        }
    }
    names.remove("");
    names
}

/// The words of a shell line, a list of paths or an option with its value.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c.is_whitespace() || "\"'`=:;,&|()<>{}$\\".contains(c);
    text.split(is_end).filter(|piece| !piece.is_empty())
}

fn add_names(piece: &str, before: &str, names: &mut BTreeSet<String>) {
    names.insert(piece.to_owned());
    // `$(pwd)/g.sh`, `$PWD/g.sh`
    names.insert(piece.strip_prefix("PWD").unwrap_or(piece).trim_start_matches('/').to_owned());
    let is_short = |piece: &str| piece.starts_with('-') && !piece.starts_with("--");
    if is_short(piece) {
        // `-r./h.js`
        let value: String = piece.chars().skip(2).collect();
        names.insert(value.replace('.', "/"));
        names.insert(value);
    }
    if is_short(before) && before.ends_with('m') {
        // a module of Python; its folder is where modules are looked for
        names.insert(piece.replace('.', "/"));
        names.insert(".".to_owned());
    }
    if let Some(at) = piece.find(['*', '?', '[']) {
        let folder = piece.get(..at).and_then(|before| before.rsplit_once('/'));
        names.insert(folder.map_or(".", |(folder, _)| folder).to_owned());
    }
    let program = piece.rsplit('/').next().unwrap_or(piece);
    for (_, files) in MANIFESTS.iter().filter(|(runner, _)| *runner == program) {
        names.extend(files.iter().map(|&file| file.to_owned()));
    }
}
