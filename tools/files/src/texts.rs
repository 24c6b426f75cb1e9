//! Texts of a project that models obey: instructions, skills, agents, commands and settings. A call that changes one does
//! not change the text in force: until a person has seen the difference, the text from before is.
//!
//! A file in the user's data folder remembers the texts in force, for all sessions of the project. It is brought up to date
//! before a turn's first call that may change files. While that turn goes on, and after a crash in it, only remembered texts
//! are in force. At the end of the turn, each text that differs is held until a person accepts or refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use leftfold_events::rules::{self, Action};
use leftfold_events::{Secrets, Sha256};
use serde::{Deserialize, Serialize};

/// The texts in force, and those that are held.
const FILE: &str = "texts.json";
/// A file for each turn whose calls may be changing texts, which its process keeps locked.
const CALLS: &str = "calls";

/// The most bytes of one text. No reader takes more.
const MAX_TEXT: u64 = 1024 * 1024;
/// The largest record.
const MAX_RECORD: u64 = 64 * 1024 * 1024;
/// The most bytes of all texts together.
const MAX_TEXTS: usize = 8 * 1024 * 1024;
/// Entries of folders that are looked at, at most, levels of folders, and texts. The uppermost folders come first.
const MAX_ENTRIES: usize = 200_000;
const MAX_DEPTH: usize = 64;
const MAX_FOUND: usize = 5_000;

/// Folders of other people's files, and of results. Texts in them are not looked for.
pub const SKIPPED: [&str; 6] = [".git", ".venv", "node_modules", "target", "vendor", "venv"];

/// The names of instruction files.
pub const INSTRUCTIONS: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
const SETTINGS: [&str; 5] =
    ["leftfold.json", "leftfold.jsonc", "opencode.json", "opencode.jsonc", ".mcp.json"];
/// In `.claude`.
const CLAUDE_SETTINGS: [&str; 2] = ["settings.json", "settings.local.json"];
const SKILL: &str = "SKILL.md";

/// The turns of this process, by the paths of their files.
static RUNNING: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// The folder with what the user has decided for a project, below the data folder.
pub fn project_folder(data: &Path, worktree: &Path) -> PathBuf {
    data.join("projects").join(Sha256::digest(worktree.as_os_str().as_bytes()).to_string())
}

fn folder_of(data: &Path, worktree: &Path) -> PathBuf {
    data.join("texts").join(Sha256::digest(worktree.as_os_str().as_bytes()).to_string())
}

/// The texts of a project.
#[derive(Debug, Default)]
pub struct Texts {
    /// Without links.
    worktree: PathBuf,
    /// `None`: nothing is remembered, and every text is in force as it is on disk.
    folder: Option<PathBuf>,
    record: Record,
    /// Whether only remembered texts are in force.
    is_frozen: bool,
    /// They are not remembered.
    secrets: Secrets,
}

/// The stored form. Keys are paths below the worktree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    in_force: BTreeMap<String, Text>,
    /// Texts that nobody has seen. The value is the hash of the state that a person has refused.
    held: BTreeMap<String, Option<String>>,
    /// Files of other names that settings name as texts.
    named: BTreeSet<String>,
    /// Whether the project is too large to be searched as a whole. Then texts that were not found are not in force.
    is_cut: bool,
}

/// A text as it is on disk. When it is stored, known secrets in it are hidden.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Text {
    /// Of link and text as they are on disk.
    hash: String,
    /// `None`: it cannot be read, or is not to be.
    text: Option<String>,
    /// The file below the worktree that a link leads to.
    link: Option<String>,
}

impl Text {
    fn new(text: Option<String>, link: Option<String>) -> Self {
        let whole =
            text.as_ref().map(|text| format!("{}\0{text}", link.as_deref().unwrap_or_default()));
        let hash = Sha256::digest(whole.unwrap_or_default().as_bytes()).to_string();
        Self { hash, text, link }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// The text of a file that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForce<'a> {
    /// The one on disk.
    AsOnDisk,
    /// An older one. A link that led to the file `link` below the worktree had it.
    Older {
        text: &'a str,
        link: Option<&'a str>,
    },
    Nothing,
}

/// A text that is not in force, because calls have changed it and nobody has seen the difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldText {
    /// Below the worktree. Backslashes and bytes that are not UTF-8 are escaped.
    pub path: String,
    /// The text in force.
    pub before: Option<String>,
    /// The text on disk, at most its first MiB. `None`: it cannot be read.
    pub now: Option<String>,
    /// Whether a person has refused it.
    pub is_refused: bool,
    hash: String,
}

impl Texts {
    /// The texts of a project. Those that cannot be known are not in force.
    pub fn load(data: Option<&Path>, worktree: &Path) -> Self {
        let Some(data) = data else { return Self::default() };
        let worktree = worktree.canonicalize().unwrap_or_else(|_| worktree.to_owned());
        let folder = folder_of(data, &worktree);
        let read = read(&folder);
        let is_frozen = read.is_err() || has_entries(&folder.join(CALLS));
        let (record, secrets) = (read.unwrap_or_default(), Secrets::default());
        Self { worktree, folder: Some(folder), record, is_frozen, secrets }
    }

    /// Remembers none of these secrets.
    #[must_use]
    pub fn without(self, secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), ..self }
    }

    /// The files that tell whether this would be loaded as it is.
    pub fn looked_at(data: &Path, worktree: &Path) -> [PathBuf; 2] {
        let folder = folder_of(data, worktree);
        [folder.join(FILE), folder.join(CALLS)]
    }

    /// The text in force of a file that models obey. Only files of the project are held.
    pub fn in_force(&self, path: &Path) -> InForce<'_> {
        let Record { in_force, held, is_cut, .. } = &self.record;
        if held.is_empty() && !self.is_frozen && !is_cut {
            return InForce::AsOnDisk;
        }
        let Some(key) = self.key(path) else { return InForce::AsOnDisk };
        let is_known = in_force.contains_key(&key) || !is_cut;
        if is_known && !self.is_frozen && !held.contains_key(&key) {
            return InForce::AsOnDisk;
        }
        match in_force.get(&key) {
            Some(Text { text: Some(text), link, .. }) => {
                InForce::Older { text, link: link.as_deref() }
            }
            Some(Text { text: None, .. }) | None => InForce::Nothing,
        }
    }

    /// Whether a text of this file is in force.
    pub fn has(&self, path: &Path) -> bool {
        self.in_force(path) != InForce::Nothing
    }

    /// The texts that calls have changed and nobody has accepted.
    pub fn held_paths(&self) -> Vec<String> {
        self.record.held.keys().cloned().collect()
    }

    /// Remembers that these files are texts, whatever their names are, because settings name them.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn name(&mut self, paths: &[PathBuf]) -> io::Result<()> {
        let named: BTreeSet<String> = paths.iter().filter_map(|path| self.key(path)).collect();
        if self.folder.is_none() || named.is_subset(&self.record.named) {
            return Ok(());
        }
        self.change(|texts| {
            texts.add_named(named, texts.is_frozen);
            Ok(())
        })
    }

    /// Those that a call may have made `is_new` are held.
    fn add_named(&mut self, named: BTreeSet<String>, is_new: bool) {
        for key in named {
            if is_new
                && !self.record.named.contains(&key)
                && !self.record.in_force.contains_key(&key)
            {
                self.record.held.entry(key.clone()).or_default();
            }
            self.record.named.insert(key);
        }
    }

    /// Notes that a call of a session's turn is about to change files.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn begin(mut self, session: &str) -> io::Result<()> {
        let Some(mark) = self.mark(session) else { return Ok(()) };
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&mark) {
            return Ok(());
        }
        let file = self.change(|texts| {
            let now = texts.on_disk();
            if texts.is_frozen {
                texts.hold(&now, |_, _| false);
                texts.forget_dead()?;
            } else {
                texts.take_over(now);
            }
            if let Some(folder) = mark.parent() {
                create_folder(folder)?;
            }
            let file = create(&mark)?;
            file.lock()?;
            Ok(file)
        })?;
        running.insert(mark, file);
        Ok(())
    }

    /// Notes that the turns of these sessions have ended, whose calls may have changed files. Texts that differ from those
    /// in force are held, unless a person has asked for exactly them (`is_seen`). `named` are the files that settings name
    /// now. After calls that were cut off (`!is_clean`), nothing is held yet: they may still be writing, so the next look
    /// at the texts does it. Returns the texts that are not in force and that nobody has refused.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn end(
        mut self,
        sessions: &BTreeSet<String>,
        is_clean: bool,
        named: &[PathBuf],
        is_seen: impl Fn(&Path, &str) -> bool,
    ) -> io::Result<Vec<String>> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let marks = sessions.iter().filter_map(|session| self.mark(session));
        let marks: Vec<(PathBuf, File)> =
            marks.filter_map(|mark| running.remove_entry(&mark)).collect();
        drop(running);
        if is_clean && !sessions.is_empty() {
            self.change(|texts| {
                texts.add_named(named.iter().filter_map(|path| texts.key(path)).collect(), false);
                let now = texts.on_disk();
                texts.hold(&now, is_seen);
                marks.iter().try_for_each(|(mark, _)| std::fs::remove_file(mark))
            })?;
        }
        if self.record.held.is_empty() && !self.is_frozen {
            return Ok(Vec::new());
        }
        let mut now = self.on_disk();
        let Record { in_force, held, .. } = &self.record;
        now.retain(|path, (_, text)| {
            let is_refused =
                held.get(path).is_some_and(|refused| refused.as_ref() == Some(&text.hash));
            let is_held = self.is_frozen || held.contains_key(path);
            is_held && !is_refused && in_force.get(path) != Some(text)
        });
        Ok(now.into_keys().collect())
    }

    /// The texts that are not in force, because nobody has seen them. Those of turns that have crashed are among them.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn held(&mut self) -> io::Result<Vec<HeldText>> {
        if self.folder.is_none() {
            return Ok(Vec::new());
        }
        if self.is_frozen {
            self.change(|texts| {
                let now = texts.on_disk();
                if texts.has_dead()? {
                    texts.hold(&now, |_, _| false);
                    texts.forget_dead()?;
                }
                Ok(())
            })?;
        }
        if self.record.held.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.on_disk();
        let held = self.record.held.iter().filter_map(|(path, refused)| {
            let (_, text) = now.get(path)?;
            let before = self.record.in_force.get(path);
            let hash = text.hash.clone();
            (before != Some(text)).then(|| HeldText {
                path: path.clone(),
                before: before.and_then(|before| before.text.clone()),
                now: text.text.clone(),
                is_refused: refused.as_ref() == Some(&hash),
                hash,
            })
        });
        Ok(held.collect())
    }

    /// Notes that a person has seen these texts, and whether they are in force from now on. One that has changed since
    /// stays held.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn answer(&mut self, seen: &[HeldText], is_accepted: bool) -> io::Result<()> {
        self.change(|texts| {
            let mut now = texts.on_disk();
            for HeldText { path, hash, .. } in seen {
                let Some((_, text)) = now.remove(path).filter(|(_, text)| text.hash == *hash)
                else {
                    continue;
                };
                if is_accepted {
                    texts.record.held.remove(path);
                    texts.record.in_force.insert(path.clone(), text);
                } else {
                    texts.record.held.insert(path.clone(), Some(hash.clone()));
                }
            }
            Ok(())
        })
    }

    /// Everything on disk is in force but what is held.
    fn take_over(&mut self, now: BTreeMap<String, (PathBuf, Text)>) {
        let Record { in_force, held, is_cut, .. } = &mut self.record;
        if !*is_cut {
            held.retain(|path, _| now.contains_key(path));
            in_force.retain(|path, _| now.contains_key(path));
        }
        held.retain(|path, _| in_force.get(path) != now.get(path).map(|(_, text)| text));
        let free = now.into_iter().filter(|(path, _)| !held.contains_key(path));
        in_force.extend(free.map(|(path, (_, text))| (path, text)));
    }

    /// Holds what differs from the texts in force.
    fn hold(
        &mut self,
        now: &BTreeMap<String, (PathBuf, Text)>,
        is_seen: impl Fn(&Path, &str) -> bool,
    ) {
        let Record { in_force, held, .. } = &mut self.record;
        for (key, (path, text)) in now {
            if in_force.get(key) == Some(text) {
                held.remove(key);
            } else if text.text.as_ref().is_some_and(|text| is_seen(path, text)) {
                held.remove(key);
                in_force.insert(key.clone(), text.clone());
            } else {
                held.entry(key.clone()).or_default();
            }
        }
    }

    /// Changes the record under a lock.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let Some(folder) = self.folder.clone() else {
            return Err(io::Error::other("there is no data folder"));
        };
        create_folder(&folder)?;
        let lock = create(&folder.join("lock"))?;
        lock.lock()?;
        self.record = read(&folder)?;
        self.is_frozen = has_entries(&folder.join(CALLS));
        let before = self.record.clone();
        let done = change(self)?;
        for text in self.record.in_force.values_mut().filter_map(|text| text.text.as_mut()) {
            if let Some(hidden) = self.secrets.hide(text) {
                *text = hidden;
            }
        }
        if self.record != before {
            let new = folder.join("texts.new");
            let mut file = create(&new)?;
            file.write_all(&serde_json::to_vec(&self.record)?)?;
            file.sync_all()?;
            std::fs::rename(&new, folder.join(FILE))?;
        }
        self.is_frozen = has_entries(&folder.join(CALLS));
        Ok(done)
    }

    fn mark(&self, session: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(CALLS).join(session))
    }

    /// The marks of turns whose processes have ended, or whose calls were cut off.
    fn dead(&self) -> impl Iterator<Item = io::Result<PathBuf>> {
        let calls = self.folder.as_ref().map(|folder| folder.join(CALLS));
        let entries = calls.and_then(|calls| std::fs::read_dir(calls).ok());
        entries.into_iter().flatten().filter_map(|entry| {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) => return Some(Err(error)),
            };
            match File::options().write(true).open(&path).map(|file| file.try_lock()) {
                Ok(Ok(())) => Some(Ok(path)),
                Ok(Err(TryLockError::WouldBlock)) => None,
                Ok(Err(TryLockError::Error(error))) | Err(error) => Some(Err(error)),
            }
        })
    }

    fn has_dead(&self) -> io::Result<bool> {
        Ok(self.dead().next().transpose()?.is_some())
    }

    fn forget_dead(&self) -> io::Result<()> {
        self.dead().try_for_each(|mark| std::fs::remove_file(mark?))
    }

    /// The path below the worktree, whatever links lead to its folder. Different files have different keys.
    fn key(&self, path: &Path) -> Option<String> {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let real = match is_link {
            true => path.parent()?.canonicalize().ok()?.join(path.file_name()?),
            // its name may be spelled in another case
            false => path.canonicalize().ok()?,
        };
        let inside = real.strip_prefix(&self.worktree).ok()?;
        let mut key = String::new();
        for chunk in inside.as_os_str().as_bytes().utf8_chunks() {
            key += &chunk.valid().replace('\\', "\\\\");
            for byte in chunk.invalid() {
                let _ = write!(key, "\\x{byte:02x}");
            }
        }
        Some(key)
    }

    /// Every text on disk, with its path.
    fn on_disk(&mut self) -> BTreeMap<String, (PathBuf, Text)> {
        let named = self.record.named.iter().map(|key| self.worktree.join(key));
        let (found, mut is_cut) = find(&self.worktree);
        let mut texts = BTreeMap::new();
        let mut left = MAX_TEXTS;
        for path in named.chain(found) {
            let Some(key) = self.key(&path).filter(|key| !texts.contains_key(key)) else {
                continue;
            };
            let text = self.read(&path);
            match left.checked_sub(text.text.as_ref().map_or(0, String::len)) {
                Some(rest) => left = rest,
                None => {
                    is_cut = true;
                    break;
                }
            }
            texts.insert(key, (path, text));
        }
        self.record.is_cut = is_cut;
        texts
    }

    /// A link may lead to a file that models may not read.
    fn read(&self, path: &Path) -> Text {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let link = is_link.then(|| {
            let real = path.canonicalize().ok()?;
            let inside = real.strip_prefix(&self.worktree).ok()?.to_str()?.to_owned();
            let rule = rules::evaluate(&rules::defaults(), "read", &inside)?.action;
            let is_git = Path::new(&inside).components().any(|part| part.as_os_str() == ".git");
            (rule == Action::Allow && !is_git).then_some(inside)
        });
        let link = match link {
            Some(None) => return Text::default(),
            link => link.flatten(),
        };
        let text = crate::open(path, Some(&self.worktree)).ok().and_then(|(file, _)| {
            let mut bytes = Vec::new();
            file.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        });
        Text::new(text, link)
    }
}

/// Which Markdown files of a folder are texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// Instructions.
    Project,
    /// Skills, and the settings of Claude Code beside them.
    Skills,
    /// Agents, commands and skills: all of them.
    Settings,
}

/// The texts below `worktree`, the uppermost first, and whether there may be more.
fn find(worktree: &Path) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let (mut left, mut linked) = (MAX_ENTRIES, BTreeSet::new());
    let mut level = vec![(worktree.to_owned(), Inside::Project)];
    for depth in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for (folder, inside) in level {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
                left -= 1;
                if left == 0 || found.len() > MAX_FOUND {
                    return (found, true);
                }
                let Ok(kind) = entry.file_type() else { continue };
                let (name, path) = (entry.file_name(), entry.path());
                let below_it = inside.below(&name, depth);
                if kind.is_dir() {
                    below.extend(below_it.map(|inside| (path, inside)));
                } else if inside.has(&name) {
                    found.push(path.clone());
                } else if kind.is_symlink()
                    && below_it.is_some_and(|inside| inside != Inside::Project)
                    && let Ok(real) = path.canonicalize()
                    && real.starts_with(worktree)
                    && real.is_dir()
                    && linked.insert(real.clone())
                {
                    below.extend(below_it.map(|inside| (real, inside)));
                }
            }
        }
        if below.is_empty() {
            return (found, false);
        }
        level = below;
    }
    (found, true)
}

impl Inside {
    /// Of the folder of this name. `None`: it is not searched.
    fn below(self, name: &OsStr, depth: usize) -> Option<Self> {
        let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        match self {
            _ if is(&SKIPPED) => None,
            Self::Settings if is(&["plans"]) => None,
            Self::Project if is(&[".leftfold", ".opencode"]) => Some(Self::Settings),
            Self::Project if depth == 0 && is(&["agent", "agents"]) => Some(Self::Settings),
            Self::Project if is(&[".claude", ".agents"]) => Some(Self::Skills),
            Self::Project | Self::Skills | Self::Settings => Some(self),
        }
    }

    fn has(self, name: &OsStr) -> bool {
        let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        let is_text = is(&INSTRUCTIONS) || is(&SETTINGS);
        let is_more = match self {
            Self::Project => false,
            Self::Skills => is(&[SKILL]) || is(&CLAUDE_SETTINGS),
            Self::Settings => name.as_bytes().to_ascii_lowercase().ends_with(b".md"),
        };
        is_text || is_more
    }
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn read(folder: &Path) -> io::Result<Record> {
    let path = folder.join(FILE);
    match crate::read(&path, None, MAX_RECORD) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            io::Error::other(format!(
                "{} is damaged ({error}): remove it, after a look at what agents have changed in the project",
                path.display()
            ))
        }),
        Err(why) if why.is_missing() => Ok(Record::default()),
        Err(why) => Err(io::Error::other(format!("{} {why}", path.display()))),
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Site(tempfile::TempDir);

    impl Site {
        fn new() -> Self {
            let site = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(site.path("")).unwrap();
            site
        }

        fn data(&self) -> PathBuf {
            self.0.path().join("data")
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join("work").join(name)
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn texts(&self) -> Texts {
            Texts::load(Some(&self.data()), &self.path(""))
        }

        fn begin(&self, session: &str) {
            self.texts().begin(session).unwrap();
        }

        /// The names of the held texts.
        fn end(&self, session: &str, is_clean: bool, asked_for: &str) -> Vec<String> {
            let is_seen = |path: &Path, _: &str| path.ends_with(asked_for);
            let sessions = BTreeSet::from([session.to_owned()]);
            self.texts().end(&sessions, is_clean, &[], is_seen).unwrap()
        }

        /// A turn with a call that does this.
        fn turn(&self, work: impl FnOnce()) -> Vec<String> {
            self.begin("S");
            work();
            self.end("S", true, "nothing")
        }

        /// The text that a reader takes.
        fn obeyed(&self, name: &str) -> Option<String> {
            let path = self.path(name);
            match self.texts().in_force(&path) {
                InForce::AsOnDisk => std::fs::read_to_string(path).ok(),
                InForce::Older { text, .. } => Some(text.to_owned()),
                InForce::Nothing => None,
            }
        }
    }

    const TEXTS: [&str; 16] = [
        "AGENTS.md", "sub/CLAUDE.md", "a/b/c/d/e/AGENTS.md", ".github/AGENTS.md", "leftfold.json",
        "sub/opencode.jsonc", ".leftfold/leftfold.json", ".leftfold/agents/a.md",
        ".opencode/command/deep/c.md", ".leftfold/skills/s/SKILL.md", ".claude/skills/s/SKILL.md",
        ".claude/settings.local.json", "sub/.mcp.json", "sub/.agents/skills/s/SKILL.md",
        "agents/review.md", "od\\d/AGENTS.md",
    ];

    #[test]
    fn a_changed_text_is_obeyed_once_a_person_has_accepted_it() {
        for is_new in [false, true] {
            for name in TEXTS {
                let site = Site::new();
                let before = (!is_new).then(|| "old".to_owned());
                if !is_new {
                    site.file(name, "old");
                }
                site.begin("S");
                site.file(name, "new");
                assert_eq!(site.obeyed(name), before, "{name}, in the turn");
                let key = name.replace('\\', "\\\\");
                assert_eq!(site.end("S", true, "x"), std::slice::from_ref(&key), "{name}");
                assert_eq!(site.obeyed(name), before, "{name}, after it");
                // another turn changes nothing about that
                assert_eq!(site.turn(|| ()), [key], "{name}");
                let held = site.texts().held().unwrap();
                let HeldText { before: shown, now, is_refused, .. } = &held[0];
                let now = now.as_deref();
                assert_eq!((shown, now, is_refused), (&before, Some("new"), &false), "{name}");
                site.texts().answer(&held, false).unwrap();
                assert!(site.texts().held().unwrap()[0].is_refused, "{name}");
                assert_eq!(site.turn(|| ()), [""; 0], "{name}: it is not told again");
                assert_eq!(site.obeyed(name), before, "{name}, refused");
                // another change is another question
                site.file(name, "newer");
                let newer = site.texts().held().unwrap();
                assert!(!newer[0].is_refused, "{name}");
                site.texts().answer(&held, true).unwrap();
                assert_eq!(site.obeyed(name), before, "{name}: that was about other words");
                site.texts().answer(&newer, true).unwrap();
                assert_eq!(site.obeyed(name).as_deref(), Some("newer"), "{name}");
                assert_eq!(site.texts().held().unwrap(), [], "{name}");
            }
        }
    }

    #[test]
    fn changes_of_a_person_count_at_once() {
        let site = Site::new();
        site.file("AGENTS.md", "one");
        assert_eq!(site.turn(|| site.file("src/a.rs", "")), [""; 0]);
        // between turns
        site.file("AGENTS.md", "two");
        site.file("sub/AGENTS.md", "two");
        assert_eq!(site.obeyed("AGENTS.md").as_deref(), Some("two"));
        assert_eq!(site.turn(|| ()), [""; 0]);
        // asked for
        site.begin("S");
        site.file("AGENTS.md", "three");
        site.file("sub/AGENTS.md", "three");
        assert_eq!(site.end("S", true, "work/AGENTS.md"), ["sub/AGENTS.md"]);
        assert_eq!(site.obeyed("AGENTS.md").as_deref(), Some("three"));
        assert_eq!(site.obeyed("sub/AGENTS.md").as_deref(), Some("two"));
        // a text that is again as it was is in force
        site.file("sub/AGENTS.md", "two");
        assert_eq!(site.turn(|| ()), [""; 0]);
        site.file("sub/AGENTS.md", "four");
        assert_eq!(site.obeyed("sub/AGENTS.md").as_deref(), Some("four"));
    }

    #[test]
    fn calls_that_were_cut_off_and_turns_at_once_hide_no_change() {
        let site = Site::new();
        site.file("AGENTS.md", "old");
        site.begin("S");
        site.file("AGENTS.md", "new");
        assert_eq!(site.end("S", false, "work/AGENTS.md"), ["AGENTS.md"]);
        // a killed command may have done its last work after that
        site.file("sub/AGENTS.md", "new");
        assert_eq!(site.obeyed("AGENTS.md").as_deref(), Some("old"));
        site.begin("T");
        assert_eq!(site.end("T", true, "x"), ["AGENTS.md", "sub/AGENTS.md"]);
        site.texts().answer(&site.texts().held().unwrap(), true).unwrap();
        // the second turn of two at once begins after the first has changed something
        site.begin("S");
        site.file("AGENTS.md", "newer");
        site.begin("T");
        assert_eq!(site.end("T", true, "x"), ["AGENTS.md"]);
        assert_eq!(site.obeyed("AGENTS.md").as_deref(), Some("new"));
        assert_eq!(site.end("S", true, "x"), ["AGENTS.md"]);
        assert!(site.texts().held().unwrap()[0].before.as_deref() == Some("new"));
    }

    #[test]
    fn links_and_floods_bring_nothing_into_force() {
        let site = Site::new();
        for (name, text) in [(".env", "KEY"), ("a/AGENTS.md", "a"), ("docs/d.md", "d")] {
            site.file(name, text);
        }
        symlink(".env", site.path("AGENTS.md")).unwrap();
        symlink("docs/d.md", site.path("CLAUDE.md")).unwrap();
        symlink("/etc/hostname", site.path("a/CLAUDE.md")).unwrap();
        std::fs::create_dir_all(site.path(".claude/skills")).unwrap();
        let (skill, kept) = (site.path(".claude/skills/s"), "kept/SKILL.md");
        site.file(kept, "kept");
        symlink("../../kept", &skill).unwrap();
        site.begin("S");
        assert_eq!(site.obeyed("AGENTS.md"), None, "a file that models may not read");
        assert_eq!(site.obeyed("a/CLAUDE.md"), None, "a file outside");
        assert_eq!(site.obeyed("CLAUDE.md").as_deref(), Some("d"));
        assert_eq!(site.obeyed(".claude/skills/s/SKILL.md").as_deref(), Some("kept"));
        // the same text at another place, which is a text now
        site.file("evil/SKILL.md", "evil");
        std::fs::remove_file(&skill).unwrap();
        symlink("../../evil", &skill).unwrap();
        std::fs::remove_file(site.path("CLAUDE.md")).unwrap();
        symlink("docs/e.md", site.path("CLAUDE.md")).unwrap();
        site.file("docs/e.md", "d");
        assert_eq!(site.obeyed(".claude/skills/s/SKILL.md"), None);
        assert_eq!(site.end("S", true, "x"), ["CLAUDE.md", "evil/SKILL.md"]);
        // so many that the last ones are not found
        let site = Site::new();
        site.turn(|| {
            for n in 0..=MAX_FOUND {
                site.file(&format!("many/{n}/AGENTS.md"), "evil");
            }
            site.file("many/1/2/3/AGENTS.md", "evil");
        });
        assert_eq!(site.obeyed("many/1/2/3/AGENTS.md"), None);
    }
}
