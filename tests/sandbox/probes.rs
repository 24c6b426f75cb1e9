//! A hostile program tries what a sandbox must refuse: `probe.py`. The table `probes.txt` has the
//! expected result of each try, for each backend and user.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use leftfold_sandbox::Backend;

use crate::confined::{Background, Confined, User, backends, python};

/// The things outside that the probes attack: a process of the user, and sockets.
struct Victims {
    _process: Background,
    _sockets: [UnixListener; 5],
    _tcp: TcpListener,
    /// A socket in the `/tmp` of the machine.
    in_temp: PathBuf,
    /// The number of a segment of System V shared memory.
    memory: String,
    line: String,
}

impl Drop for Victims {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.in_temp);
        let _ = Command::new("ipcrm").args(["-m", &self.memory]).status();
    }
}

impl Victims {
    fn of(site: &Confined) -> Self {
        let mut process = site.unconfined("exec sleep 1000");
        let process = Background::start({
            process.env("LEFTFOLD_KEY", "secret");
            process
        });
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("leftfold-{}", process.0.id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let in_temp = Path::new("/tmp").join(&name);
        let sockets = [
            UnixListener::bind(site.path("socket")).unwrap(),
            UnixListener::bind(site.path("run/socket")).unwrap(),
            UnixListener::bind(site.path("other")).unwrap(),
            UnixListener::bind(&in_temp).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        let paths = ["socket", "run/socket", "other"].map(|name| site.path(name));
        for socket in paths.iter().chain([&in_temp]) {
            fs::set_permissions(socket, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let made = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output().unwrap();
        let made = String::from_utf8(made.stdout).unwrap();
        let memory = made.split_whitespace().last().unwrap().to_owned();
        let program = site.path("probe.py");
        fs::write(&program, include_str!("probe.py")).unwrap();
        if rustix::process::geteuid().is_root() {
            let set_uid = site.path("id");
            fs::copy("/usr/bin/id", &set_uid).unwrap();
            fs::set_permissions(&set_uid, fs::Permissions::from_mode(0o4755)).unwrap();
        }
        let line = format!(
            "exec {} {} {} {} {} {name} {memory}",
            python(),
            program.display(),
            process.0.id(),
            site.path("").display(),
            tcp.local_addr().unwrap().port(),
        );
        Self { _process: process, _sockets: sockets, _tcp: tcp, in_temp, memory, line }
    }
}

/// Results by the names of the probes.
fn results(output: &str) -> BTreeMap<&str, &str> {
    output.lines().filter_map(|line| line.split_once(' ')).collect()
}

/// The columns of the table: for each probe the results by backend and user.
fn expected(column: &str) -> BTreeMap<&'static str, &'static str> {
    let table = include_str!("probes.txt");
    let mut rows = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: Vec<&str> = rows.next().unwrap().split_whitespace().collect();
    let at = names.iter().position(|name| *name == column).unwrap();
    let cell = |row: &'static str| {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), names.len(), "{row}");
        (cells[0], cells[at])
    };
    rows.map(cell).collect()
}

#[test]
fn each_probe_has_the_result_of_the_table() {
    let mut wrong = Vec::new();
    for user in User::all() {
        for backend in backends(*user) {
            let site = Confined::new(*user);
            let victims = Victims::of(&site);
            site.give_to_user();
            let ran = site.run(&site.profile(backend), &victims.line);
            let short = match backend {
                Backend::Namespaces | Backend::NamespacesSharedProc => "N",
                Backend::Bwrap => "B",
                Backend::Landlock | Backend::Seatbelt => "L",
            };
            let column = format!("{short}-{}", user.kind());
            let found = results(&ran.output);
            let expected = expected(&column);
            assert!(found.len() > 80, "{}", ran.output);
            let missing = expected.keys().filter(|probe| !found.contains_key(*probe));
            wrong.extend(missing.map(|probe| format!("{probe} {column}: no result")));
            for (probe, result) in &found {
                let allowed = expected.get(probe).copied().unwrap_or("a row of its own");
                // a container without its own /proc shows foreign processes
                let is_shared = backend == Backend::NamespacesSharedProc;
                if !allowed.split('|').any(|one| one == *result) && !is_shared {
                    wrong.push(format!("{probe} {column}: {result} instead of {allowed}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Otherwise a probe that is wrong itself would look like a sandbox. Never run as root, who may do
/// all this.
#[test]
fn most_probes_succeed_without_a_sandbox() {
    for user in User::all().iter().filter(|user| user.kind() == "user") {
        let site = Confined::new(*user);
        let victims = Victims::of(&site);
        site.give_to_user();
        let output = site.unconfined(&victims.line).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let found = results(&output);
        let open = found.values().filter(|result| **result == "OPEN").count();
        assert!(found.len() > 80 && open > 40, "{open} of {}:\n{output}", found.len());
        for probe in ["ssh-key", "dotenv", "git-hook", "environ-node", "unix-path", "unix-abstract"]
        {
            assert_eq!(found.get(probe), Some(&"OPEN"), "{probe}");
        }
        assert!(Path::new(&site.path("home/written")).exists());
    }
}
