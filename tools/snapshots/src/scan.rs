//! Finds the files of a worktree that are not ignored, and those that have changed.
//!
//! Each known file costs one call of the system. A folder is listed again only if its times or the
//! rules that apply in it have changed: entries cannot come or go without a change of the folder's
//! times. A stamp is trusted if it was already old when it was taken, as git does it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leftfold_files::{IgnoreFiles, Rules};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::index::{Folder, Index, Kept, join};
use super::pack::{Object, ObjectKind, Pack};
use super::stamp::{FolderStamp, Mode, Stamp, dated_file_system};
use super::{Error, LARGEST, MAX_BYTES, MAX_FILES, Snapshots};

/// Most threads of one scan.
const MAX_THREADS: usize = 8;

/// The folders of a worktree as they are now, without their git trees.
#[derive(Debug, Default)]
pub(super) struct FoundFiles {
    pub(super) folders: HashMap<String, Arc<Folder>>,
    /// Files that are missing from the snapshot or are there with an older content, sorted.
    pub(super) left_out: Vec<String>,
}

struct Scan<'a> {
    worktree: &'a Path,
    /// The data folder, which is left out.
    data: &'a Path,
    before: &'a Index,
    pack: &'a Pack,
    stop: &'a CancellationToken,
    /// A change after this time may have left a stamp unchanged.
    then: i64,
    /// The file system whose folders change their times with their entries.
    dated: Option<u64>,
    files: AtomicUsize,
    bytes: AtomicU64,
    queue: Mutex<Queue>,
    /// Signals a new task, or the end of all.
    news: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    /// Tasks that are taken and not done.
    running: usize,
    found: FoundFiles,
    error: Option<Error>,
}

/// A folder to scan.
struct Task {
    /// Relative to the worktree, which is `""`.
    path: String,
    /// The rules of the parents. `None`: the folder is ignored, so only files that were kept before
    /// are kept.
    rules: Option<Arc<Rules>>,
}

/// The results of one folder.
#[derive(Default)]
struct Outcome {
    folder: Option<Arc<Folder>>,
    tasks: Vec<Task>,
    left_out: Vec<String>,
}

/// The entries of a folder, each with whether it is a folder.
#[derive(Default)]
struct Entries {
    entries: Vec<(String, bool)>,
    /// Entries with names that the log cannot hold.
    odd: Vec<(OsString, bool)>,
    has_rules: bool,
    is_complete: bool,
}

/// A file, compared with the last snapshot.
enum FileState {
    Gone,
    Kept(Kept),
    /// Too large or unreadable: the snapshot keeps the old content.
    LeftOut,
}

/// Scans the worktree. Contents that the index does not know are written to `pack`.
pub(super) fn scan(
    of: &Snapshots,
    before: &Index,
    pack: &Pack,
    stop: &CancellationToken,
) -> Result<FoundFiles, Error> {
    let worktree = &of.worktree;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let root =
        Task { path: String::new(), rules: Some(IgnoreFiles::of_worktree(worktree).outermost()) };
    let scan = Scan {
        worktree,
        data: &of.data,
        before,
        pack,
        stop,
        then: i64::try_from(now.saturating_sub(of.tick).as_nanos()).unwrap_or_default(),
        dated: dated_file_system(worktree),
        files: AtomicUsize::new(0),
        bytes: AtomicU64::new(0),
        queue: Mutex::new(Queue { tasks: vec![root], ..Queue::default() }),
        news: Condvar::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // a thread that does not start leaves its work to the others
            let thread = std::thread::Builder::new().name("leftfold-scan".into());
            let _ = thread.spawn_scoped(scope, || scan.work());
        }
        scan.work();
    });
    let queue = scan.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = queue.error {
        return Err(error);
    }
    let mut found = queue.found;
    found.left_out.sort_unstable();
    Ok(found)
}

impl Scan<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans folders until there are no more.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            let Some(task) = queue.tasks.pop() else {
                if queue.running == 0 {
                    self.news.notify_all();
                    return;
                }
                queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.running += 1;
            drop(queue);
            let outcome = self.folder(&task);
            queue = self.queue();
            queue.running -= 1;
            match outcome {
                Ok(outcome) if queue.error.is_none() => {
                    let folder = outcome.folder.map(|folder| (task.path, folder));
                    queue.found.folders.extend(folder);
                    queue.found.left_out.extend(outcome.left_out);
                    for task in outcome.tasks {
                        queue.tasks.push(task);
                        self.news.notify_one();
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    queue.tasks.clear();
                    queue.error.get_or_insert(error);
                }
            }
        }
    }

    fn folder(&self, task: &Task) -> Result<Outcome, Error> {
        let place = self.worktree.join(&task.path);
        let known = self.before.folders.get(&task.path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&place, flags, rustix::fs::Mode::empty());
        let opened = opened.and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        let (stat, fd) = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Outcome::default()),
            Err(_) => return Ok(unreadable(&task.path, known)),
        };
        // taken before the entries are read: the next scan sees a change while they are read
        let stamp = FolderStamp::from_stat(&stat);
        let mut outcome = Outcome::default();
        let (mut folder, rules) = match &task.rules {
            None => (known.map_or_else(Arc::default, ignored), None),
            Some(above) => {
                let (folder, rules) =
                    self.list(task, &place, fd.as_fd(), stamp, above, &mut outcome.left_out);
                let count = folder.files.len();
                if self.files.fetch_add(count, Ordering::Relaxed) + count > MAX_FILES {
                    return Err(Error::TooMany(self.worktree.to_owned()));
                }
                (folder, Some(rules))
            }
        };
        let mut changes = Vec::new();
        for (name, kept) in &folder.files {
            if self.stop.is_cancelled() {
                return Err(Error::Cancelled);
            }
            match self.look(fd.as_fd(), name, *kept)? {
                FileState::Gone => changes.push((name.clone(), None)),
                FileState::Kept(now) if *kept == Some(now) => {}
                FileState::Kept(now) => changes.push((name.clone(), Some(now))),
                FileState::LeftOut => outcome.left_out.push(join(&task.path, name)),
            }
        }
        if !changes.is_empty() {
            let files = &mut Arc::make_mut(&mut folder).files;
            for (name, now) in changes {
                match now {
                    Some(_) => files.insert(name, now),
                    None => files.remove(&name),
                };
            }
        }
        outcome.tasks = tasks(&task.path, &folder, rules.as_ref());
        // an ignored folder is of interest for as long as it holds something
        let is_over = rules.is_none() && folder.files.is_empty() && outcome.tasks.is_empty();
        outcome.folder = (!is_over).then_some(folder);
        Ok(outcome)
    }

    /// The entries to look at of a folder that is not ignored, and the rules in it.
    fn list(
        &self,
        task: &Task,
        place: &Path,
        fd: BorrowedFd<'_>,
        stamp: FolderStamp,
        above: &Arc<Rules>,
        left_out: &mut Vec<String>,
    ) -> (Arc<Folder>, Arc<Rules>) {
        let within = |has_rules| if has_rules { above.within(place) } else { above.clone() };
        let known = self.before.folders.get(&task.path);
        if let Some(known) = known.filter(|known| known.stamp == Some(stamp)) {
            let rules = within(known.has_rules);
            if known.rules == Some(rules.hash) {
                return (known.clone(), rules);
            }
        }
        let listed = entries(fd);
        let rules = within(listed.has_rules);
        let is_datable = self.dated == Some(stamp.device) && !stamp.is_young(self.then);
        // odd names are reported with each snapshot
        let is_known = listed.is_complete && listed.odd.is_empty();
        let mut folder = Folder {
            stamp: (is_datable && is_known).then_some(stamp),
            rules: Some(rules.hash),
            has_rules: listed.has_rules,
            tree: known.and_then(|known| known.tree),
            ..Folder::default()
        };
        for (name, is_folder) in &listed.odd {
            let odd = place.join(name);
            if odd != self.data && !rules.ignore(&odd, *is_folder) {
                let odd = odd.strip_prefix(self.worktree).unwrap_or(&odd);
                left_out.push(odd.to_string_lossy().into_owned());
            }
        }
        for (name, is_folder) in listed.entries {
            let entry = place.join(&name);
            if entry == self.data || rules.ignore(&entry, is_folder) {
                continue;
            }
            if is_folder {
                folder.folders.insert(name);
            } else {
                folder.files.insert(name, None);
            }
        }
        // a file once kept stays in the snapshots, ignored or not
        if let Some(known) = known {
            let kept = known.files.iter().filter(|(_, kept)| kept.is_some());
            folder.files.extend(kept.map(|(name, kept)| (name.clone(), *kept)));
            let holds = |name: &&String| {
                !folder.folders.contains(*name)
                    && self.before.folders.contains_key(&join(&task.path, name))
            };
            let ignored = known.folders.iter().chain(&known.ignored).filter(holds);
            folder.ignored = ignored.cloned().collect();
        }
        (Arc::new(folder), rules)
    }

    /// Looks at one file, and reads it if it may have changed.
    fn look(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        kept: Option<Kept>,
    ) -> Result<FileState, Error> {
        let stamp = match Stamp::of_entry(folder, name) {
            Ok(Some(stamp)) => stamp,
            Ok(None) => return Ok(FileState::Gone),
            Err(_) => return Ok(FileState::LeftOut),
        };
        if let Some(kept) = kept.filter(|kept| !kept.is_young && kept.stamp == stamp) {
            return Ok(FileState::Kept(kept));
        }
        let content = if stamp.size > LARGEST { None } else { content(folder, name, stamp.mode) };
        let named = content
            .and_then(|content| Some((Object::from_content(ObjectKind::Blob, &content)?, content)));
        let Some((object, content)) = named else {
            return Ok(FileState::LeftOut);
        };
        if kept.is_none_or(|kept| kept.object != object) {
            let size = content.len() as u64;
            if self.bytes.fetch_add(size, Ordering::Relaxed) + size > MAX_BYTES {
                return Err(Error::TooLarge(self.worktree.to_owned()));
            }
            self.pack.add(ObjectKind::Blob, object, &content)?;
        }
        let is_young = stamp.is_young(self.then);
        Ok(FileState::Kept(Kept { stamp, is_young, object }))
    }
}

/// A folder that cannot be read. The snapshot keeps what it had of it.
fn unreadable(path: &str, known: Option<&Arc<Folder>>) -> Outcome {
    let Some(known) = known else { return Outcome::default() };
    let folder = Arc::new(Folder { stamp: None, ..Folder::clone(known) });
    let left_out = folder.files.keys().map(|name| join(path, name)).collect();
    Outcome { tasks: tasks(path, &folder, None), folder: Some(folder), left_out }
}

/// A known folder that is ignored now.
fn ignored(known: &Arc<Folder>) -> Arc<Folder> {
    if known.rules.is_none() {
        return known.clone();
    }
    Arc::new(Folder { stamp: None, rules: None, ..Folder::clone(known) })
}

/// The folders in a folder.
fn tasks(path: &str, folder: &Folder, rules: Option<&Arc<Rules>>) -> Vec<Task> {
    let task =
        |name, rules: Option<&Arc<Rules>>| Task { path: join(path, name), rules: rules.cloned() };
    let ignored = folder.ignored.iter().map(|name| task(name, None));
    folder.folders.iter().map(|name| task(name, rules)).chain(ignored).collect()
}

/// Every file, link and folder in a folder, except for git directories.
fn entries(folder: BorrowedFd<'_>) -> Entries {
    let mut found = Entries { is_complete: true, ..Entries::default() };
    let Ok(entries) = Dir::read_from(folder) else {
        return Entries::default();
    };
    for entry in entries {
        let Ok(entry) = entry else {
            found.is_complete = false;
            break;
        };
        let name = entry.file_name();
        found.has_rules |= matches!(name.to_bytes(), b".gitignore" | b".git");
        if matches!(name.to_bytes(), b"." | b".." | b".git") {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown
            && let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        {
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        if !(kind.is_file() || kind.is_symlink() || kind.is_dir()) {
            continue;
        }
        match name.to_str() {
            // as the log spells names
            Ok(name) if !name.contains('\n') => {
                found.entries.push((name.to_owned(), kind.is_dir()));
            }
            _ => found.odd.push((OsStr::from_bytes(name.to_bytes()).to_owned(), kind.is_dir())),
        }
    }
    found
}

/// The content of a file, or the target of a link.
fn content(folder: BorrowedFd<'_>, name: &str, mode: Mode) -> Option<Vec<u8>> {
    if mode == Mode::Link {
        return Some(rustix::fs::readlinkat(folder, name, Vec::new()).ok()?.into_bytes());
    }
    leftfold_files::read_in(folder, name, LARGEST).ok()
}
