//! A server of PostgreSQL for tests: of the engine, and of the program on it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The password of both users. No text of the engine may contain it.
pub const PASSWORD: &str = "c0rrect-h0rse";

pub struct Cluster {
    /// Unmounted before its folder is removed.
    disk: Option<Disk>,
    dir: TempDir,
    port: u16,
    /// The environment of the server.
    env: Vec<(String, String)>,
    /// A shell that ends the server when its input ends, so also with this process.
    keeper: Mutex<Option<Child>>,
}

/// The server that most tests share. `None`, visibly, without PostgreSQL.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let cluster = SHARED.get_or_init(|| Some(Cluster::start(programs()?, &[], None))).as_ref();
    if cluster.is_none() {
        skip();
    }
    cluster
}

/// A server for one test.
pub fn own() -> Option<Cluster> {
    own_in(&[])
}

/// A server for one test, with this environment.
pub fn own_in(env: &[(String, String)]) -> Option<Cluster> {
    let programs = programs();
    if programs.is_none() {
        skip();
    }
    programs.map(|programs| Cluster::start(programs, env, None))
}

/// A server for one test whose data are on a disk of this many MiB. `None` if this user may not mount one.
pub fn own_on_disk(env: &[(String, String)], mib: u32) -> Option<Cluster> {
    let folder = folder();
    Disk::mount(folder.path(), mib)?;
    Some(Cluster::start(programs()?, env, Some(mib)))
}

/// A file system in memory, which can be full. It is unmounted when this is dropped.
pub struct Disk {
    mib: u32,
    path: PathBuf,
}

impl Disk {
    fn mount(path: &Path, mib: u32) -> Option<Self> {
        let mut mount = Command::new("mount");
        let (user, group) = user().unwrap_or_default();
        let options = format!("size={mib}m,mode=0700,uid={user},gid={group}");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then(|| Self { mib, path: path.to_owned() })
    }

    /// Leaves no room.
    pub fn fill(&self) {
        let mut file = fs::File::create(self.path.join("full")).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[b'x'; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    /// Gives the room back.
    pub fn free(&self) {
        fs::remove_file(self.path.join("full")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run(Command::new("umount").arg("--lazy").arg(&self.path));
    }
}

fn skip() {
    crate::skipped(
        "the programs of PostgreSQL 15 or later are not installed: `apt-get install postgresql`",
    );
}

/// The folder of the newest version's programs.
fn programs() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let numbers =
            versions.filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok());
        let newest = numbers.filter(|number| *number >= 15).max()?;
        let folder = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
        folder.join("initdb").exists().then_some(folder)
    };
    FOUND.get_or_init(find).as_deref()
}

/// The user that servers run as: they refuse to be root.
fn user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = |name: &str| passwd.lines().find(|line| line.starts_with(&format!("{name}:")));
    let fields: Vec<&str> = line("postgres").or(line("nobody")).unwrap().split(':').collect();
    Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").current_dir("/");
    if let Some((user, group)) = user() {
        command.uid(user).gid(group);
    }
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A data folder as `initdb` makes it, made once.
fn template(programs: &Path) -> &'static Path {
    static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
    let make = || {
        let dir = folder();
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        own_file(&password);
        let mut initdb = command(&programs.join("initdb"));
        initdb.args(["--no-sync", "--no-instructions", "--username=postgres", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--auth-local=trust", "--auth-host=scram-sha-256"]);
        initdb.arg("--pwfile").arg(password).arg("--pgdata").arg(dir.path().join("data"));
        run(&mut initdb);
        dir
    };
    TEMPLATE.get_or_init(make).path()
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    own_file(dir.path());
    dir
}

pub fn free_port() -> u16 {
    // below the ports that the system gives to connections and to listeners without a wish: such a port may be taken
    // before its server listens, or while the server is started again
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU32::new(std::process::id().wrapping_mul(97)));
    let ports = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed) % 12_000 + 20_000);
    let mut ports = ports.map(|port| u16::try_from(port).unwrap());
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn own_file(path: &Path) {
    if let Some((user, group)) = user() {
        chown(path, Some(user), Some(group)).unwrap();
    }
}

impl Cluster {
    fn start(programs: &Path, env: &[(String, String)], mib: Option<u32>) -> Self {
        let cluster = Self::empty(free_port(), env, mib);
        let template = template(programs).join("data/.");
        run(command(Path::new("cp")).arg("-a").arg(template).arg(cluster.data()));
        cluster.set("max_connections = 300");
        cluster.set("wal_keep_size = 128");
        cluster.set("max_wal_size = 128");
        cluster.begin();
        cluster.sql(&format!("create role app login password '{PASSWORD}'"));
        cluster.sql("create database logs owner app");
        cluster
    }

    /// A server without data.
    fn empty(port: u16, env: &[(String, String)], mib: Option<u32>) -> Self {
        let dir = folder();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        own_file(&data);
        let disk = mib.map(|mib| Disk::mount(&data, mib).unwrap());
        Self { disk, dir, port, env: env.to_vec(), keeper: Mutex::default() }
    }

    /// A standby of this server at a port. Commits wait for it once [`Cluster::wait_for_standby`] says so.
    pub fn standby(&self, port: u16) -> Self {
        let standby = Self::empty(port, &self.env, self.disk.as_ref().map(|disk| disk.mib));
        let mut backup = command(&programs().unwrap().join("pg_basebackup"));
        backup.arg("-h").arg(self.dir.path()).args(["-p", &self.port.to_string()]);
        backup.args(["-U", "postgres", "--write-recovery-conf", "--wal-method=stream"]);
        backup.args(["--checkpoint=fast", "--no-sync", "-D"]).arg(standby.data());
        run(&mut backup);
        standby.begin();
        standby
    }

    /// Whether commits wait for a standby from now on.
    pub fn wait_for_standby(&self, waits: bool) {
        let names = if waits { "*" } else { "" };
        self.sql(&format!("alter system set synchronous_standby_names = '{names}'"));
        self.sql("select pg_reload_conf()");
    }

    /// Starts the server, and waits until it answers.
    pub fn begin(&self) {
        let postgres = programs().unwrap().join("postgres");
        let mut keeper = command(Path::new("/bin/sh"));
        keeper.arg("-c").arg(
            "exec 3<&0; \"$0\" -D \"$1\" -p \"$2\" -k \"$3\" -c listen_addresses=127.0.0.1 \
             </dev/null >>\"$3/log\" 2>&1 3<&- & cat <&3 >/dev/null; kill -QUIT $! 2>/dev/null; wait",
        );
        keeper.arg(postgres).arg(self.data()).arg(self.port.to_string()).arg(self.dir.path());
        keeper.envs(self.env.iter().cloned()).stdin(Stdio::piped());
        *self.keeper.lock().unwrap() = Some(keeper.spawn().unwrap());
        let start = Instant::now();
        while !self.answers() {
            assert!(start.elapsed() < Duration::from_secs(30), "no server: {}", self.log());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn answers(&self) -> bool {
        self.psql("postgres", "select 1").output().unwrap().status.success()
    }

    /// Keeps the tables that are made from now on, but not the write-ahead log, on a disk of this many MiB. `None` if this
    /// user may not mount one.
    pub fn tables_on_disk(&self, mib: u32) -> Option<Disk> {
        let path = self.dir.path().join("tables");
        fs::create_dir(&path).unwrap();
        let disk = Disk::mount(&path, mib)?;
        self.sql(&format!("create tablespace small location '{}'", path.display()));
        self.sql("grant create on tablespace small to app");
        self.sql("alter database logs set default_tablespace = small");
        Some(disk)
    }

    /// Speaks TLS from now on, with a certificate that signs itself, for this host. Answers its file, which is in `dir`;
    /// `None`, visibly, without openssl.
    pub fn speak_tls(&self, dir: &Path, host: &str) -> Option<PathBuf> {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(dir).args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", &format!("/CN={host}")]);
        openssl.args(["-addext", &format!("subjectAltName=DNS:{host}")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-keyout", "key.pem", "-out", "cert.pem"]);
        match openssl.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                crate::skipped("openssl is not installed: `apt-get install openssl`");
                return None;
            }
            output => assert!(output.unwrap().status.success(), "{openssl:?}"),
        }
        let certificate = dir.join("cert.pem");
        self.file("server.crt", &fs::read(&certificate).unwrap());
        self.file("server.key", &fs::read(dir.join("key.pem")).unwrap());
        self.set("ssl = on");
        self.sql("select pg_reload_conf()");
        while self.sql("show ssl") != "on" {}
        Some(certificate)
    }

    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Leaves no room on the server's disk.
    pub fn fill_disk(&self) {
        self.disk.as_ref().unwrap().fill();
    }

    /// Gives the room back, and starts the server again if it has ended.
    pub fn free_disk(&self) {
        self.disk.as_ref().unwrap().free();
        let start = Instant::now();
        while !self.answers() {
            if start.elapsed() > Duration::from_secs(5) {
                drop(self.keeper.lock().unwrap().take().map(|mut keeper| {
                    drop(keeper.stdin.take());
                    keeper.wait()
                }));
                return self.begin();
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Ends the server in good order, and waits for that.
    pub fn end(&self) {
        let pid = self.pid();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
        self.wait_until_gone(pid);
    }

    /// Kills all processes of the server.
    pub fn kill(&self) {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children = children.split_whitespace().map(|child| child.parse().unwrap());
        for pid in std::iter::once(pid).chain(children) {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        self.wait_until_gone(pid);
    }

    fn pid(&self) -> i32 {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    fn wait_until_gone(&self, pid: i32) {
        let mut keeper = self.keeper.lock().unwrap().take().unwrap();
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}/stat")).exists());
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Adds a line to the server's settings.
    pub fn set(&self, line: &str) {
        let file = self.data().join("postgresql.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{text}\n{line}\n")).unwrap();
    }

    /// The file with this name and text, for the server to read.
    pub fn file(&self, name: &str, text: &[u8]) {
        let path = self.data().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        own_file(&path);
    }

    pub fn psql(&self, database: &str, sql: &str) -> Command {
        let mut psql = Command::new(programs().unwrap().join("psql"));
        psql.arg("-h").arg(self.dir.path()).args(["-p", &self.port.to_string()]);
        psql.args(["-U", "postgres", "-d", database, "-X", "-q", "-A", "-t", "-c", sql]);
        psql
    }

    /// The answer to a statement of the superuser in the database `postgres`.
    pub fn sql(&self, sql: &str) -> String {
        run(&mut self.psql("postgres", sql))
    }

    /// The answer to a statement of the superuser in the database of the logs.
    pub fn logs(&self, sql: &str) -> String {
        run(&mut self.psql("logs", sql))
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The database of the logs, through this port of this machine, as an ordinary user.
    pub fn url(&self, port: u16, schema: &str) -> String {
        format!("postgresql://app:{PASSWORD}@127.0.0.1:{port}/logs?schema={schema}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // the shell sees the end of its input
        if let Some(mut keeper) = self.keeper.lock().unwrap().take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}
