//! Ignore rules as they apply in a folder: those of `.gitignore` files, of a repository's `info/exclude`, the user's own, and
//! in searches those of `.ignore` files.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use leftfold_events::Sha256;

use crate::git::{common_folder, git_folder};
use crate::read;

/// Largest file of rules, in bytes. Compiled rules take up to 500 times the memory of their text.
const LARGEST: u64 = 256 << 10;
/// Most bytes of all rules of a project together.
const MAX_BYTES: usize = 1 << 20;
/// Most files without effect that are remembered.
const MAX_UNREAD: usize = 100;

/// The files of rules that count for one project.
#[derive(Debug)]
pub struct IgnoreFiles {
    /// No link below leads out of it.
    project: PathBuf,
    /// The user's rules.
    user: RuleFile,
    /// Whether `.ignore` counts.
    is_search: bool,
    /// Whether the rules of git end at the top of a repository.
    has_tops: bool,
    /// The bytes of all rules so far.
    bytes: AtomicUsize,
    /// Files that exist and have no effect, with the reasons.
    unread: Mutex<BTreeMap<PathBuf, String>>,
    /// Whether a walk has left out something.
    has_ignored: AtomicBool,
}

/// The rules of a folder and of its parents.
#[derive(Debug)]
pub struct Rules {
    files: Arc<IgnoreFiles>,
    parent: Option<Arc<Rules>>,
    /// Differs if any of the rules does.
    pub hash: Sha256,
    search: RuleFile,
    git: RuleFile,
    exclude: RuleFile,
    /// Whether the rules of git in parents do not count.
    is_top: bool,
}

/// A file with rules. They are compiled with the first path that is matched.
#[derive(Debug)]
struct RuleFile {
    folder: PathBuf,
    text: Vec<u8>,
    matcher: OnceLock<Gitignore>,
}

impl IgnoreFiles {
    /// The rules of git for a worktree in which nested repositories are ordinary folders.
    pub fn of_worktree(worktree: &Path) -> Arc<Self> {
        Self::new(worktree, false, false)
    }

    /// The rules for searches in a project. `is_repository`: a repository within another has rules of its own.
    pub fn of_search(project: &Path, is_repository: bool) -> Arc<Self> {
        Self::new(project, true, is_repository)
    }

    fn new(project: &Path, is_search: bool, has_tops: bool) -> Arc<Self> {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let text = gitconfig_excludes_path().and_then(|path| read(&path, None, LARGEST).ok());
        let user = RuleFile::new(&project, text.unwrap_or_default());
        let (bytes, unread) = (AtomicUsize::default(), Mutex::default());
        let has_ignored = AtomicBool::default();
        Arc::new(Self { project, user, is_search, has_tops, bytes, unread, has_ignored })
    }

    /// The rules that apply before those of any folder: the user's.
    pub fn outermost(self: &Arc<Self>) -> Arc<Rules> {
        let none = || RuleFile::new(&self.project, Vec::new());
        Arc::new(Rules {
            files: self.clone(),
            parent: None,
            hash: Sha256::digest(&self.user.text),
            search: none(),
            git: none(),
            exclude: none(),
            is_top: false,
        })
    }

    /// Whether the rules leave out this path of the project, or a folder on the way to it.
    pub fn is_ignored(self: &Arc<Self>, path: &str) -> bool {
        let mut rules = self.outermost();
        let mut place = self.project.clone();
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            rules = rules.within(&place);
            place.push(part);
            if rules.ignore(&place, parts.peek().is_some()) {
                return true;
            }
        }
        false
    }

    /// Whether the walk has left out something because of these rules.
    pub fn has_ignored(&self) -> bool {
        self.has_ignored.load(Relaxed)
    }

    /// Notes whether a walk leaves out an entry, and returns it.
    pub(crate) fn note(&self, is_ignored: bool) -> bool {
        if is_ignored {
            self.has_ignored.store(true, Relaxed);
        }
        is_ignored
    }

    /// The files that exist and whose rules do not apply, each with the reason. The text continues the path.
    pub fn unread(&self) -> Vec<(PathBuf, String)> {
        let unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.iter().map(|(path, why)| (path.clone(), why.clone())).collect()
    }

    /// The text of a file. A file of the project has a `root`, which no link may leave.
    fn read(&self, path: &Path, root: Option<&Path>) -> Vec<u8> {
        let why = match read(path, root, LARGEST) {
            Ok(text) if self.bytes.fetch_add(text.len(), Relaxed) + text.len() <= MAX_BYTES => {
                return text;
            }
            Ok(_) => {
                format!("is left out, because all ignore files have more than {MAX_BYTES} bytes")
            }
            Err(why) if why.is_missing() => return Vec::new(),
            Err(why) => why.to_string(),
        };
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if unread.len() < MAX_UNREAD {
            unread.insert(path.to_owned(), why);
        }
        Vec::new()
    }
}

impl Rules {
    /// The rules in a folder below.
    pub fn within(self: &Arc<Self>, folder: &Path) -> Arc<Self> {
        let files = &self.files;
        // parents of the project are the user's
        let root = folder.starts_with(&files.project).then_some(files.project.as_path());
        let text = |is_read, name| match is_read {
            true => files.read(&folder.join(name), root),
            false => Vec::new(),
        };
        let search = text(files.is_search, ".ignore");
        let git = text(true, ".gitignore");
        let is_repository = folder.join(".git").exists();
        let repository = is_repository.then(|| git_folder(folder)).flatten().map(common_folder);
        let exclude = repository.map(|it| files.read(&it.join("info/exclude"), Some(&it)));
        let exclude = exclude.unwrap_or_default();
        let is_top = files.has_tops && is_repository;
        if search.is_empty() && git.is_empty() && exclude.is_empty() && !is_top {
            return self.clone();
        }
        let mut hashed = self.hash.as_bytes().to_vec();
        for part in [folder.as_os_str().as_encoded_bytes(), &search, &git, &exclude] {
            hashed.extend(Sha256::digest(part).as_bytes());
        }
        let file = |text| RuleFile::new(folder, text);
        Arc::new(Self {
            files: files.clone(),
            parent: Some(self.clone()),
            hash: Sha256::digest(&hashed),
            search: file(search),
            git: file(git),
            exclude: file(exclude),
            is_top,
        })
    }

    /// Whether a file or folder directly in the rules' folder is left out.
    pub fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let chain = || successors(Some(self), |rules| rules.parent.as_deref());
        let of_git = || {
            successors(Some(self), |rules| match rules.is_top {
                true => None,
                false => rules.parent.as_deref(),
            })
        };
        let searched = chain().find_map(|rules| rules.search.decides(path, is_folder));
        let ignored = || of_git().find_map(|rules| rules.git.decides(path, is_folder));
        let excluded = || of_git().find_map(|rules| rules.exclude.decides(path, is_folder));
        let by_user = || self.files.user.decides(path, is_folder);
        searched.or_else(ignored).or_else(excluded).or_else(by_user).unwrap_or(false)
    }
}

impl RuleFile {
    fn new(folder: &Path, text: Vec<u8>) -> Self {
        Self { folder: folder.to_owned(), text, matcher: OnceLock::new() }
    }

    /// Whether the path is left out, if a rule says so or says the opposite.
    fn decides(&self, path: &Path, is_folder: bool) -> Option<bool> {
        if self.text.is_empty() {
            return None;
        }
        let found = self.matcher.get_or_init(|| self.compile()).matched(path, is_folder);
        (!found.is_none()).then(|| found.is_ignore())
    }

    fn compile(&self) -> Gitignore {
        let mut builder = GitignoreBuilder::new(&self.folder);
        for (n, line) in self.text.lines().map_while(Result::ok).enumerate() {
            let line = if n == 0 { line.trim_start_matches('\u{feff}') } else { &line };
            // git skips rules that it cannot read, too
            let _ = builder.add_line(None, line);
        }
        builder.build().unwrap_or_else(|_| Gitignore::empty())
    }
}
