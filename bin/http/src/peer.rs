//! The process at the other end of a connection on this machine.
//!
//! Without a password anybody who reaches the port could drive the agent: other users of the
//! machine, and commands of a call that may use the network. The kernel's table of connections names
//! the user and the socket; the process that has this socket open is the client.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use leftfold_process::{Origin, PeerProcess};

/// Why a client may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// It is another user's, or in another container.
    OtherUser,
    /// A call has started it.
    Call,
}

/// Checks the client of a connection from `peer` to `local`. Reads `/proc`, for some milliseconds.
///
/// # Errors
/// The client is not this user's, cannot be found, or acts for a call.
#[cfg(target_os = "linux")]
pub(crate) fn check(peer: SocketAddr, local: SocketAddr) -> Result<(), Stranger> {
    let (user, inode) = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| entry(&table, canonical(peer), canonical(local)))
        .ok_or(Stranger::OtherUser)?;
    if user != rustix::process::getuid().as_raw() {
        return Err(Stranger::OtherUser);
    }
    let pid = holder(inode).ok_or(Stranger::OtherUser)?;
    match PeerProcess::now(Some(pid)).origin() {
        Origin::Person => Ok(()),
        Origin::Call => Err(Stranger::Call),
    }
}

/// Elsewhere the system does not tell, and every process of the machine may connect.
#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_: SocketAddr, _: SocketAddr) -> Result<(), Stranger> {
    Ok(())
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The user and the inode of the socket at `own` that is connected to `other`.
fn entry(table: &str, own: SocketAddr, other: SocketAddr) -> Option<(u32, u64)> {
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, _, _, _, _, user, _, inode, ..] = columns.as_slice() else {
            return None;
        };
        let is_it = parse(local) == Some(own) && parse(remote) == Some(other);
        if is_it { Some((user.parse().ok()?, inode.parse().ok()?)) } else { None }
    })
}

/// `0100007F:1F90`: the address in words of the machine's byte order.
fn parse(column: &str) -> Option<SocketAddr> {
    let (address, port) = column.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<[u8; 4]>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// The process that has the socket with this inode open.
fn holder(inode: u64) -> Option<i32> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        // descriptors of other users cannot be read anyway
        let own = entry.metadata().ok()?.uid() == rustix::process::getuid().as_raw();
        own.then_some(pid)
    });
    pids.find(|pid| {
        let open = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
        let mut open = open.into_iter().flatten().filter_map(Result::ok);
        open.any(|file| {
            fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_of_a_connection_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = i32::try_from(std::process::id()).unwrap();
            let table: String = ["/proc/net/tcp", "/proc/net/tcp6"]
                .iter()
                .filter_map(|table| fs::read_to_string(table).ok())
                .collect();
            let (user, inode) = entry(&table, peer, server.local_addr().unwrap()).unwrap();
            assert_eq!(user, rustix::process::getuid().as_raw());
            assert_eq!(holder(inode), Some(own));
            drop(client);
        }
        assert_eq!(parse("zz:1"), None);
        assert_eq!(parse("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
    }
}
