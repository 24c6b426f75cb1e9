//! Moves snapshots to the data folder of somebody else, as contents and lists of changed files.
//!
//! No object or pack of git is taken from a stranger: git builds its own objects from contents and
//! paths, in a folder apart. They join the store only if every tree gets the name that it is said
//! to have. So nothing is decompressed, and no setting, hook, link or submodule can come along.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::git::{self, EMPTY, Git, failed};
use super::versions::is_name;
use super::{Error, LARGEST, MAX_BYTES, Snapshots, Version};

const NAME: &str = "fast-import";

/// A piece of the snapshots of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The content of a file, before the first tree that has it.
    Content { object: String, bytes: Vec<u8> },
    /// A snapshot, as the changes since the one before it; the first one follows an empty folder.
    Tree { name: String, changes: Vec<(String, Option<Version>)> },
}

impl Snapshots {
    /// Calls `write` with the pieces of these trees, in their order. Returns the trees that are not
    /// kept any more, which are left out.
    ///
    /// # Errors
    /// Git is missing, or an object of a tree is.
    pub fn pieces(
        &self,
        trees: &[&str],
        write: &mut dyn FnMut(Piece),
    ) -> Result<Vec<String>, Error> {
        let same: Vec<_> = trees.iter().map(|tree| (*tree, *tree)).collect();
        let found = self.compare(&same)?;
        let is_kept = |at: usize| found.get(at).is_some_and(Option::is_some);
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        for (at, tree) in trees.iter().enumerate() {
            if is_kept(at) { kept.push(*tree) } else { gone.push((*tree).to_owned()) }
        }
        let before = std::iter::once(EMPTY).chain(kept.iter().copied());
        let pairs: Vec<_> = before.zip(kept.iter().copied()).collect();
        let mut objects = self.objects()?;
        let mut known = HashSet::new();
        for (tree, files) in kept.iter().zip(self.compare(&pairs)?) {
            let incomplete = || failed("diff-tree", &format!("{tree} is not complete"));
            let files = files.ok_or_else(incomplete)?;
            for version in files.iter().filter_map(|file| file.after.as_ref()) {
                if known.insert(version.object.clone()) {
                    let bytes = objects.read(version)?;
                    write(Piece::Content { object: version.object.clone(), bytes });
                }
            }
            let changes = files.into_iter().map(|file| (file.path, file.after)).collect();
            write(Piece::Tree { name: (*tree).to_owned(), changes });
        }
        Ok(gone)
    }
}

/// Snapshots of a stranger on their way into a store. Dropped, they leave nothing behind.
#[derive(Debug)]
pub struct Unpacking {
    child: Child,
    stdin: Option<BufWriter<ChildStdin>>,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
    trees: HashSet<String>,
}

impl Unpacking {
    /// Begins in the data folder `data`.
    ///
    /// # Errors
    /// Git is missing, or the folder cannot be written.
    pub fn new(data: &Path) -> Result<Self, Error> {
        let parent = data.join("snapshots");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&parent);
        made.map_err(Error::io("make", &parent))?;
        let folder = tempfile::Builder::new().prefix(".import-").tempdir_in(&parent);
        let folder = folder.map_err(Error::io("write", &parent))?;
        git::init(folder.path()).map_err(Error::io("write", folder.path()))?;
        let args = [NAME, "--quiet", "--force", "--depth=0", "--done"];
        let mut command = Git::new(folder.path()).command(&args)?;
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(git::not_started)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                let (stdin, stdout) = (Some(BufWriter::new(stdin)), BufReader::new(stdout));
                Ok(Self { child, stdin, stdout, folder, trees: HashSet::new() })
            }
            _ => Err(failed(NAME, &"it has no streams")),
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// No snapshot of this program can have it, or a tree has another name.
    pub fn add(&mut self, piece: &Piece) -> Result<(), Error> {
        match piece {
            Piece::Content { bytes, .. } => {
                if bytes.len() as u64 > LARGEST {
                    return Err(failed(NAME, &"a file has more than 2 MB"));
                }
                self.feed(|to| {
                    writeln!(to, "blob\ndata {}", bytes.len())?;
                    to.write_all(bytes)?;
                    writeln!(to)
                })
            }
            Piece::Tree { name, changes } => {
                for (path, version) in changes {
                    check(path, version.as_ref())?;
                }
                self.tree(name, changes)
            }
        }
    }

    fn tree(&mut self, name: &str, changes: &[(String, Option<Version>)]) -> Result<(), Error> {
        self.feed(|to| {
            writeln!(to, "commit refs/leftfold/import\ncommitter Leftfold <> 0 +0000\ndata 0")?;
            // a deleted file may stand where a folder of the new tree does
            for (path, _) in changes.iter().filter(|(_, version)| version.is_none()) {
                writeln!(to, "D {}", git::quoted(path))?;
            }
            for (path, version) in changes {
                if let Some(Version { mode, object }) = version {
                    writeln!(to, "M {} {object} {}", mode.git(), git::quoted(path))?;
                }
            }
            writeln!(to, "ls \"\"")?;
            to.flush()
        })?;
        let mut line = String::new();
        let told = self.stdout.read_line(&mut line);
        if told.is_err() || line.is_empty() {
            return Err(self.complaint());
        }
        let got = line.split_whitespace().nth(2).filter(|_| !line.starts_with("missing"));
        if got.unwrap_or(EMPTY) != name {
            return Err(failed(NAME, &"a snapshot has other files than its name says"));
        }
        if size(&self.packs()).map_err(Error::io("read", self.folder.path()))? > MAX_BYTES {
            return Err(failed(NAME, &"the snapshots take up more than 1 GiB"));
        }
        self.trees.insert(name.to_owned());
        Ok(())
    }

    /// Moves the snapshots into the store of their worktree, and returns the names of their trees.
    ///
    /// # Errors
    /// Git failed, or a file cannot be written.
    pub fn keep(mut self, snapshots: &Snapshots) -> Result<HashSet<String>, Error> {
        self.feed(|to| {
            writeln!(to, "done")?;
            to.flush()
        })?;
        self.stdin = None;
        if !self.child.wait().is_ok_and(|status| status.success()) {
            return Err(self.complaint());
        }
        let _lock = snapshots.lock(&CancellationToken::new())?;
        let place = snapshots.folder.join("objects/pack");
        let moved = fs::create_dir_all(&place).and_then(|()| move_packs(&self.packs(), &place));
        moved.map_err(Error::io("write", &place))?;
        Ok(std::mem::take(&mut self.trees))
    }

    fn packs(&self) -> PathBuf {
        self.folder.path().join("objects/pack")
    }

    fn feed(
        &mut self,
        write: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let written = self.stdin.as_mut().map(write);
        if matches!(written, Some(Ok(()))) { Ok(()) } else { Err(self.complaint()) }
    }

    /// The error of a process that has ended early.
    fn complaint(&mut self) -> Error {
        let mut told = String::new();
        // closed input ends the process, and so its errors
        drop(self.stdin.take().map(BufWriter::into_parts));
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4 << 10).read_to_string(&mut told);
        }
        failed(NAME, &told.lines().next().unwrap_or("without a word"))
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Refuses paths and names that no snapshot has. A line end in one would be a command.
fn check(path: &str, version: Option<&Version>) -> Result<(), Error> {
    let refused = |why| Err(Error::Path { path: path.escape_debug().to_string(), why });
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if path.contains(['\n', '\0']) || path.len() > 4096 || !path.split('/').all(is_part) {
        return refused("it is no path inside a worktree");
    }
    if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return refused("it belongs to a git repository");
    }
    if version.is_some_and(|version| !is_name(&version.object)) {
        return refused("its content has no name of an object");
    }
    Ok(())
}

fn size(folder: &Path) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        size += entry?.metadata()?.len();
    }
    Ok(size)
}

/// Git knows a pack by its index, which comes last.
fn move_packs(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from)? {
        names.push(entry?.file_name());
    }
    names.sort_by_key(|name| Path::new(name).extension().is_some_and(|kind| kind == "idx"));
    names.iter().try_for_each(|name| fs::rename(from.join(name), to.join(name)))?;
    fs::File::open(to)?.sync_all()
}
