//! Sockets of other programs that have a path. A command that sees a path can connect to its socket, whatever mount it lies
//! on, so the sandbox hides the folders of services, and the sockets that this process knows by name.
//!
//! The table of the kernel, `/proc/net/unix`, decides nothing: every user of the machine writes into it, and it has names
//! that only look like paths. It is read for people alone.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::places::{SandboxPlaces, is_below_temp, resolved};
use super::{at_home, project_files};
use crate::Workspace;

/// Folders of sockets in `/tmp`, for programs that have no `/tmp` of their own.
const FOLDERS_IN_TEMP: &[&str] = &["/tmp/.ICE-unix", "/tmp/.X11-unix"];

/// Bytes of the kernel's table that are read, at most.
const MAX_TABLE: u64 = 4 << 20;

/// The folders of sockets in `/tmp`, and the sockets that this process knows by its variables, such as `SSH_AUTH_SOCK` and
/// `DOCKER_HOST`. Only those of this user and of root: other users can make anything in `/tmp`, also a link to a folder that
/// must not vanish.
pub(super) fn known() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path, is_kind: fn(&Metadata) -> bool| {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| is_kind(&found) && [0, user].contains(&found.uid()))
    };
    let folders = FOLDERS_IN_TEMP.iter().map(PathBuf::from);
    let folders = folders.filter(|path| is_ours(path, Metadata::is_dir));
    let named = std::env::vars_os().flat_map(|(_, value)| paths_in(&value));
    let sockets = named.filter(|path| is_ours(path, |found| found.file_type().is_socket()));
    folders.chain(sockets).collect()
}

/// The absolute paths in a value such as `unix:path=/run/user/1000/bus,guid=1`, `unix:///x.sock` or `/tmp/tmux-0/default,1,0`.
fn paths_in(value: &OsStr) -> Vec<PathBuf> {
    let words = value.as_bytes().split(|byte| b",:;=".contains(byte));
    // without doubled slashes
    let paths = words.map(|word| Path::new(OsStr::from_bytes(word)).components().collect());
    let is_plain = |path: &PathBuf| path.is_absolute() && !path.iter().any(|name| name == "..");
    paths.filter(is_plain).collect()
}

/// The sockets of this machine that a command in `cx` can connect to, for people. Those that were bound by a relative name
/// are missing. Reads the worktree, so it may block.
pub fn reachable_sockets(cx: &Workspace) -> Vec<PathBuf> {
    let Some(options) = &cx.sandbox else { return Vec::new() };
    let Some(backend) = super::backend(options.backend) else { return Vec::new() };
    let mut table = Vec::new();
    if let Ok(file) = std::fs::File::open("/proc/net/unix") {
        // a part is better than nothing
        let _ = file.take(MAX_TABLE).read_to_end(&mut table);
    }
    let own = |paths: &[String]| -> Vec<PathBuf> {
        paths.iter().map(|path| resolved(&at_home(path, cx))).collect()
    };
    let (write, show) = (own(&options.write), own(&options.show));
    let named = write.iter().chain(&show).cloned();
    let mut places = SandboxPlaces::new(cx, &project_files::walk(&cx.worktree), named);
    places.hidden.extend(options.hide.iter().map(|path| at_home(path, cx)));
    places.hidden.extend(known());
    places.close();
    places.open(&write, &show);
    let is_reachable = |path: &PathBuf| {
        let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
        let is_covered = is_below_temp(path) || path.starts_with("/dev");
        let is_hidden =
            backend.has_namespaces() && places.hides(&resolved(path)).unwrap_or(is_covered);
        is_socket && !is_hidden && access(path, Access::WRITE_OK).is_ok()
    };
    let mut sockets: Vec<PathBuf> = paths_of(&table).filter(is_reachable).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

/// The last column of `/proc/net/unix`, where it is an absolute path. The name of an abstract socket begins with `@`.
fn paths_of(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table.split(|byte| *byte == b'\n').filter_map(|mut line| {
        for _ in 0..7 {
            let start = line.iter().position(|byte| *byte != b' ')?;
            let column = line.get(start..)?;
            line = column.get(column.iter().position(|byte| *byte == b' ')?..)?;
        }
        let path = line.strip_prefix(b" ")?;
        path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
    })
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use leftfold_events::sandbox::{Backend, SandboxOptions};

    use super::*;
    use crate::testing::Site;

    #[test]
    fn variables_name_sockets() {
        for (value, paths) in [
            ("/run/user/1000/ssh-agent", &["/run/user/1000/ssh-agent"][..]),
            ("unix:path=/run/user/1000/bus,guid=a/b", &["/run/user/1000/bus"]),
            ("unix:///var/run/docker.sock", &["/var/run/docker.sock"]),
            ("/tmp/tmux-0/default,42,0", &["/tmp/tmux-0/default"]),
            ("/usr/bin:/bin", &["/usr/bin", "/bin"]),
            ("tcp://10.0.0.1:2375", &["/10.0.0.1"]),
            ("a/b", &[]),
            ("/a/../b", &[]),
        ] {
            let expected: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            assert_eq!(paths_in(OsStr::new(value)), expected, "{value}");
        }
    }

    /// Another user chooses the name of an abstract socket, and can put anything into it.
    #[test]
    fn only_the_column_of_paths_names_paths() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01    17 /srv/app/db.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 1234567 /srv/a b/\xff.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03     2\n\
            0000000000000000: 00000002 00000000 00010000 0001 01     3 @abstract\n\
            0000000000000000: 00000002 00000000 00010000 0001 01     3 @x /usr\n\
            0000000000000000: 00000002 00000000 00010000 0001 01     3 relative /usr\n\
            short /usr\n\
            \n";
        let expected = [
            PathBuf::from("/srv/app/db.sock"),
            PathBuf::from(OsStr::from_bytes(b"/srv/a b/\xff.sock")),
        ];
        assert_eq!(paths_of(table).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn sockets_that_a_command_reaches_are_found() {
        let site = Site::new();
        let mut cx = site.workspace();
        let name = |name: &str| site.outside(name);
        let _listeners = [site.path("s"), name("hidden"), name("open")]
            .map(|path| UnixListener::bind(path).unwrap());
        std::fs::write(name("file"), "").unwrap();
        let abstract_name = format!("x {}", name("file").display());
        let address = SocketAddr::from_abstract_name(abstract_name).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();
        let text = |name| site.outside(name).display().to_string();
        for (backend, found) in [(Backend::Bwrap, 2), (Backend::Landlock, 3), (Backend::Off, 0)] {
            let (hide, show) = (vec![text("hidden")], vec![text("open")]);
            cx.sandbox = Some(SandboxOptions { backend, hide, show, ..Default::default() });
            let own = |path: &PathBuf| path.starts_with(site.root());
            let sockets: Vec<_> = reachable_sockets(&cx).into_iter().filter(own).collect();
            assert_eq!(sockets.len(), found, "{backend:?}: {sockets:?}");
            assert_eq!(sockets.contains(&name("hidden")), backend == Backend::Landlock);
        }
    }
}
