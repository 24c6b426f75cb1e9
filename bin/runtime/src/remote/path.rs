//! Finds, makes and removes the socket in a store's folder.

use crate::session_paths::SOCKET;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The prefix of the folder in which a socket is made.
const NURSERY: &str = ".socket-";

/// The longest path in bytes that every system accepts for a socket.
const MAX_PATH: usize = 100;

/// Distinguishes sockets at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// The socket in the store's folder, whether or not a process serves it.
pub fn identity(store: &Path) -> Option<Identity> {
    let metadata = fs::symlink_metadata(store.join(SOCKET)).ok()?;
    Some(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// A path to a file in `folder` that is short enough for a socket. It is valid while the second
/// value lives.
fn way(folder: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = folder.join(name);
    if path.as_os_str().as_bytes().len() <= MAX_PATH {
        return Ok((path, None));
    }
    let open = File::open(folder)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd())), Some(open)))
}

/// Listens in the store's folder, and replaces a socket that a dead node has left there. Only the
/// store's node may call this.
///
/// The socket is made in a folder that only the user can enter, and moved into place once its own
/// mode is set, so other users can never connect.
pub(crate) fn bind(store: &Path) -> io::Result<UnixListener> {
    clear(store);
    let nursery = store.join(format!("{NURSERY}{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&nursery)?;
    let bound = bind_in(&nursery, store);
    let _ = fs::remove_dir_all(&nursery);
    bound
}

fn bind_in(nursery: &Path, store: &Path) -> io::Result<UnixListener> {
    let (path, _open) = way(nursery, SOCKET)?;
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    fs::rename(nursery.join(SOCKET), store.join(SOCKET))?;
    Ok(listener)
}

/// Removes the remains of a node that died while it made its socket.
fn clear(store: &Path) {
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(NURSERY.as_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Connects to the node of the store. Fails if there is none.
pub(crate) fn connect(store: &Path) -> io::Result<UnixStream> {
    let (path, _open) = way(store, SOCKET)?;
    UnixStream::connect(path)
}

/// Removes the socket, if it is still this one.
pub(crate) fn remove(store: &Path, bound: Option<Identity>) {
    if bound.is_some() && identity(store) == bound {
        let _ = fs::remove_file(store.join(SOCKET));
    }
}
