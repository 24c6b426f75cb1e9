//! Git's ignore rules, as they apply in a folder: those of `.gitignore` files, of a repository's
//! `info/exclude`, and the user's own, in a repository or not. `.ignore` files concern searches only.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use leftfold_events::Sha256;
use rustix::fs::{CWD, OFlags};

/// The rules of a folder and of its parents. The outermost are the user's.
#[derive(Debug)]
pub(super) struct Rules {
    parent: Option<Arc<Rules>>,
    /// Differs if any of the rules does.
    pub(super) hash: Sha256,
    ignore: RuleFile,
    exclude: RuleFile,
}

/// A file with rules. They are compiled with the first path that is matched.
#[derive(Debug)]
struct RuleFile {
    folder: PathBuf,
    text: Vec<u8>,
    matcher: OnceLock<Gitignore>,
}

impl Rules {
    /// The user's rules.
    pub(super) fn of_user(worktree: &Path) -> Arc<Self> {
        let exclude = gitconfig_excludes_path().map(|path| read(&path)).unwrap_or_default();
        Arc::new(Self::new(None, worktree, Vec::new(), exclude))
    }

    /// The rules in a folder below.
    pub(super) fn within(self: &Arc<Self>, folder: &Path) -> Arc<Self> {
        let ignore = read(&folder.join(".gitignore"));
        let exclude = repository(folder).map(|git| read(&git.join("info/exclude")));
        let exclude = exclude.unwrap_or_default();
        if ignore.is_empty() && exclude.is_empty() {
            return self.clone();
        }
        Arc::new(Self::new(Some(self.clone()), folder, ignore, exclude))
    }

    fn new(parent: Option<Arc<Self>>, folder: &Path, ignore: Vec<u8>, exclude: Vec<u8>) -> Self {
        let mut hashed = Vec::new();
        hashed.extend(parent.iter().flat_map(|parent| parent.hash.as_bytes()));
        for part in [folder.as_os_str().as_encoded_bytes(), &ignore, &exclude] {
            hashed.extend(Sha256::of(part).as_bytes());
        }
        let file = |text| RuleFile { folder: folder.to_owned(), text, matcher: OnceLock::new() };
        Self { parent, hash: Sha256::of(&hashed), ignore: file(ignore), exclude: file(exclude) }
    }

    /// Whether a file or folder directly in the rules' folder is left out.
    pub(super) fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let chain = || std::iter::successors(Some(self), |rules| rules.parent.as_deref());
        let ignored = chain().find_map(|rules| rules.ignore.decides(path, is_folder));
        let excluded = || chain().find_map(|rules| rules.exclude.decides(path, is_folder));
        ignored.or_else(excluded).unwrap_or(false)
    }
}

impl RuleFile {
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

/// Whether git's rules leave out this path of a worktree.
pub(super) fn is_ignored(worktree: &Path, path: &str) -> bool {
    let mut rules = Rules::of_user(worktree);
    let mut place = worktree.to_owned();
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

/// The git directory that holds `info/exclude`. A worktree beside its repository has a file `.git`
/// that leads there.
fn repository(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    let line = |path: &Path| {
        let text = String::from_utf8(read(path)).ok()?;
        text.lines().next().map(str::to_owned)
    };
    if git.metadata().ok()?.is_dir() {
        return Some(git);
    }
    let git = folder.join(line(&git)?.strip_prefix("gitdir: ")?);
    let common = line(&git.join("commondir")).map(|common| git.join(common));
    Some(common.unwrap_or(git))
}

/// The text of a file. Files that are missing, are no files or are too large have none.
fn read(path: &Path) -> Vec<u8> {
    super::read_at(CWD, path, OFlags::empty()).unwrap_or_default()
}
