//! The process at the other end of a connection on this machine.
//!
//! Without a password anybody who reaches the port could drive the agent: other users of the
//! machine, and commands of a call that may use the network. The kernel's table of connections names
//! the user and the socket; the processes that have this socket open are the client.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use leftfold_process::{Origin, PeerProcess};
use tokio::sync::{mpsc, oneshot};

/// Why a client may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// It is another user's, or in another container.
    OtherUser,
    /// A call has started it.
    Call,
}

/// A client that seems to act for a call is looked at so many times more. A program that is being started has
/// what its starter has open, for a moment: another node, or a process that ends before it can be judged.
const MORE_LOOKS: usize = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Connection {
    client: SocketAddr,
    server: SocketAddr,
}

impl Connection {
    /// IPv4 addresses that are written as IPv6 become IPv4.
    fn new(client: SocketAddr, server: SocketAddr) -> Self {
        let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        Self { client: canonical(client), server: canonical(server) }
    }
}

struct Waiting {
    connection: Connection,
    answer: oneshot::Sender<Result<(), Stranger>>,
}

/// Checks clients. Those that wait at the same time are checked together: a look through all processes
/// takes some milliseconds, for one connection as for hundreds.
#[derive(Clone, Debug)]
pub(crate) struct PeerCheck(mpsc::UnboundedSender<Waiting>);

impl PeerCheck {
    pub(crate) fn new() -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Waiting>();
        tokio::spawn(async move {
            while let Some(first) = receiver.recv().await {
                let others = std::iter::from_fn(|| receiver.try_recv().ok());
                let waiting: Vec<Waiting> = std::iter::once(first).chain(others).collect();
                let connections: Vec<Connection> =
                    waiting.iter().map(|waiting| waiting.connection).collect();
                let checked = tokio::task::spawn_blocking(move || check(&connections)).await;
                // without an answer the client is refused
                for (waiting, answer) in waiting.into_iter().zip(checked.unwrap_or_default()) {
                    let _ = waiting.answer.send(answer);
                }
            }
        });
        Self(sender)
    }

    /// # Errors
    /// The client is not this user's, cannot be found, or acts for a call.
    pub(crate) async fn check(
        &self,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Result<(), Stranger> {
        let mut checked = self.look(client, server).await;
        for _ in 0..MORE_LOOKS {
            if checked != Err(Stranger::Call) {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            checked = self.look(client, server).await;
        }
        checked
    }

    async fn look(&self, client: SocketAddr, server: SocketAddr) -> Result<(), Stranger> {
        let (answer, answered) = oneshot::channel();
        let _ = self.0.send(Waiting { connection: Connection::new(client, server), answer });
        answered.await.unwrap_or(Err(Stranger::OtherUser))
    }
}

#[cfg(target_os = "linux")]
fn check(connections: &[Connection]) -> Vec<Result<(), Stranger>> {
    let sockets = sockets(connections);
    let own = rustix::process::getuid().as_raw();
    let found: Vec<Option<u64>> = connections
        .iter()
        .map(|connection| sockets.get(connection).filter(|socket| socket.user == own))
        .map(|socket| Some(socket?.inode))
        .collect();
    let holders = holders(&found.iter().flatten().copied().collect());
    let mut origins = HashMap::new();
    let mut is_of_call = |pid: i32| {
        let origin = origins.entry(pid).or_insert_with(|| PeerProcess::now(Some(pid)).origin());
        matches!(origin, Origin::Call)
    };
    let judge = |inode: Option<u64>| {
        let pids = inode.and_then(|inode| holders.get(&inode)).ok_or(Stranger::OtherUser)?;
        // a socket can be shared
        if pids.iter().any(|pid| is_of_call(*pid)) { Err(Stranger::Call) } else { Ok(()) }
    };
    found.into_iter().map(judge).collect()
}

/// Elsewhere the system does not tell, and every process of the machine may connect.
#[cfg(not(target_os = "linux"))]
fn check(connections: &[Connection]) -> Vec<Result<(), Stranger>> {
    connections.iter().map(|_| Ok(())).collect()
}

/// The client's end of a connection.
#[derive(Clone, Copy, Debug)]
struct Socket {
    user: u32,
    inode: u64,
}

/// The clients' ends of these connections. The kernel walks through its whole table, which is large on a machine with
/// much memory, so the tables are read no further than to the last of them.
fn sockets(wanted: &[Connection]) -> HashMap<Connection, Socket> {
    let wanted: HashSet<&Connection> = wanted.iter().collect();
    let mut found = HashMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(table) = File::open(table) else { continue };
        let lines = BufReader::new(table).lines().map_while(Result::ok).skip(1);
        for (connection, socket) in lines.filter_map(|line| entry(&line)) {
            if wanted.contains(&connection) {
                found.insert(connection, socket);
            }
            if found.len() == wanted.len() {
                return found;
            }
        }
    }
    found
}

fn entry(line: &str) -> Option<(Connection, Socket)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_, local, remote, _, _, _, _, user, _, inode, ..] = columns.as_slice() else {
        return None;
    };
    let socket = Socket { user: user.parse().ok()?, inode: inode.parse().ok()? };
    Some((Connection::new(parse(local)?, parse(remote)?), socket))
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
    Some(SocketAddr::new(ip, port))
}

/// The processes that have sockets with these inodes open.
fn holders(wanted: &HashSet<u64>) -> HashMap<u64, Vec<i32>> {
    let mut holders: HashMap<u64, Vec<i32>> = HashMap::new();
    if wanted.is_empty() {
        return holders;
    }
    let own = rustix::process::getuid().as_raw();
    for process in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // descriptors of other users cannot be read anyway
        if !process.metadata().is_ok_and(|process| process.uid() == own) {
            continue;
        }
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten();
        for file in open.filter_map(Result::ok) {
            let inode = fs::read_link(file.path()).ok().and_then(|link| {
                link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            });
            if let Some(inode) = inode.filter(|inode| wanted.contains(inode)) {
                holders.entry(inode).or_default().push(pid);
            }
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_processes_of_connections_are_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (mut clients, mut connections) = (Vec::new(), Vec::new());
        for address in ["127.0.0.1:0", "127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            connections.push(Connection::new(peer, server.local_addr().unwrap()));
            clients.push((client, server));
        }
        let sockets = sockets(&connections);
        for connection in &connections {
            let socket = sockets[connection];
            assert_eq!(socket.user, rustix::process::getuid().as_raw());
            assert_eq!(holders(&[socket.inode].into())[&socket.inode], [own]);
        }
        let nobody = Connection::new(([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        connections.insert(1, nobody);
        let checked = check(&connections);
        for (at, checked) in checked.iter().enumerate() {
            assert_eq!(*checked == Err(Stranger::OtherUser), at == 1, "{at}: {checked:?}");
        }
        assert_eq!(checked.len(), connections.len());
        assert_eq!(parse("zz:1"), None);
        assert_eq!(parse("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
    }

    /// Programs that this process starts count as calls.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_program_that_has_the_connection_for_a_moment_is_not_taken_for_the_client() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, theirs) = (listener.local_addr().unwrap(), client.local_addr().unwrap());
        let start = || {
            let inherited = OwnedFd::from(client.try_clone().unwrap());
            Command::new("sleep").arg("100").stdin(Stdio::from(inherited)).spawn().unwrap()
        };
        let check = PeerCheck::new();
        let mut stays = start();
        assert_eq!(check.check(theirs, ours).await, Err(Stranger::Call));
        stays.kill().unwrap();
        stays.wait().unwrap();
        let mut goes = start();
        let checked = check.check(theirs, ours);
        let end = async {
            tokio::time::sleep(POLL_INTERVAL / 4).await;
            goes.kill().unwrap();
            goes.wait().unwrap();
        };
        let (checked, ()) = tokio::join!(checked, end);
        let is_person = Origin::of_this_process().is_person();
        assert_eq!(checked.is_ok(), is_person, "{checked:?}");
    }
}
