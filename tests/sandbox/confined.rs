//! A home, a project and a profile, and commands that run in it.

use std::fs;
use std::io::{Read, Write, stderr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use leftfold_sandbox::{
    Backend, Channel, Message, Probe, Profile, Ready, Rejected, Report, command, probe,
};
use tempfile::TempDir;

/// The user that runs the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user of the tests.
    Tester,
    /// A user without rights, if root runs the tests.
    Nobody,
}

/// `nobody`, whom every system has.
const NOBODY: u32 = 65_534;

impl User {
    /// All users that this machine offers.
    pub(crate) fn all() -> &'static [Self] {
        if is_root() { &[Self::Tester, Self::Nobody] } else { &[Self::Tester] }
    }

    /// `root` or `user`, as in the tables.
    pub(crate) fn kind(self) -> &'static str {
        if self == Self::Tester && is_root() { "root" } else { "user" }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says which part of a table could not be checked on this machine.
pub(crate) fn not_run(what: &str, why: &str) {
    stderr().write_all(format!("not run here: {what}: {why}\n").as_bytes()).unwrap();
}

/// Whether the program `bwrap` is installed. Its absence skips the tests that need it.
pub(crate) fn has_bwrap() -> bool {
    let is_there = Path::new("/usr/bin/bwrap").exists();
    if !is_there {
        common::skipped("with bwrap: install bubblewrap");
    }
    is_there
}

/// The backends that this machine has for each user, the strongest first. Fails if there is none.
pub(crate) fn backends(user: User) -> Vec<Backend> {
    static PROBES: LazyLock<Vec<(User, Probe)>> = LazyLock::new(|| {
        let probe = |user: &User| {
            let site = Confined::new(*user);
            let found = probe(&site.helper, &site.profile(Backend::Namespaces));
            for Rejected { backend, why } in &found.rejected {
                not_run(&format!("{backend:?} as {}", user.kind()), &why.to_string());
            }
            (*user, found)
        };
        User::all().iter().map(probe).collect()
    });
    let (_, probe) = PROBES.iter().find(|(other, _)| *other == user).unwrap();
    let ready = probe.ready.unwrap_or_else(|| panic!("no backend works here: {probe:?}"));
    let mut backends = vec![ready.backend];
    if ready.backend.has_namespaces() && ready.backend != Backend::Bwrap && has_bwrap() {
        backends.push(Backend::Bwrap);
    }
    if ready.backend.has_namespaces() && ready.landlock >= 3 {
        backends.push(Backend::Landlock);
    } else if ready.backend.has_namespaces() {
        not_run("Landlock", "the kernel has none, or an old one");
    }
    backends
}

/// A folder with everything that a command may want to use or to attack.
pub(crate) struct Confined {
    dir: TempDir,
    pub(crate) user: User,
    /// The program that becomes the helper, as the user.
    pub(crate) helper: PathBuf,
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ready: Ready,
    pub(crate) report: Report,
    /// Standard output and standard error.
    pub(crate) output: String,
}

impl Confined {
    pub(crate) fn new(user: User) -> Self {
        let home = std::env::var("HOME").unwrap();
        // a place that the private /tmp does not cover
        Self::in_one_of(&["/srv", "/opt", "/var/lib", home.as_str()], user)
    }

    /// A folder that the private /tmp covers.
    pub(crate) fn in_temp(user: User) -> Self {
        Self::in_one_of(&["/tmp"], user)
    }

    fn in_one_of(places: &[&str], user: User) -> Self {
        let make = |place: &&str| {
            tempfile::Builder::new().prefix("leftfold-sandbox-").tempdir_in(place).ok()
        };
        let dir = places.iter().find_map(make).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut site = Self { dir, user, helper: PathBuf::new() };
        for folder in [
            "home/.ssh", "home/.aws", "home/.gnupg", "store", "run", "project/.leftfold/agents",
            "temp",
        ] {
            fs::create_dir_all(site.path(folder)).unwrap();
        }
        for file in [
            "home/.ssh/id", "home/.aws/credentials", "home/.gnupg/key", "home/.bashrc",
            "store/log", "project/.env",
        ] {
            fs::write(site.path(file), "secret\n").unwrap();
        }
        let git = Command::new("git").args(["init", "-q"]).arg(site.path("project")).status();
        assert!(git.unwrap().success());
        // a user's own templates may have none
        fs::create_dir_all(site.path("project/.git/hooks")).unwrap();
        site.helper = site.make_helper();
        site.give_to_user();
        site
    }

    /// The built program, through `setpriv` for another user.
    fn make_helper(&self) -> PathBuf {
        if self.user == User::Tester {
            return common::program();
        }
        let (program, script) = (self.path("leftfold"), self.path("helper"));
        if fs::hard_link(common::program(), &program).is_err() {
            fs::copy(common::program(), &program).unwrap();
        }
        let line = format!(
            "#!/bin/sh\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {} \"$@\"\n",
            program.display()
        );
        fs::write(&script, line).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    /// Makes the user the owner of everything. Call it again after making files.
    pub(crate) fn give_to_user(&self) {
        if self.user == User::Nobody {
            let folders = ["home", "store", "run", "project", "temp"].map(|name| self.path(name));
            let owner = format!("{NOBODY}:{NOBODY}");
            let given = Command::new("chown").args(["-R", &owner]).args(folders).status();
            assert!(given.unwrap().success());
        }
    }

    /// The number of the user that runs the commands.
    pub(crate) fn user_id(&self) -> String {
        match self.user {
            User::Tester => rustix::process::getuid().as_raw().to_string(),
            User::Nobody => NOBODY.to_string(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The profile of an ordinary command in the project.
    pub(crate) fn profile(&self, backend: Backend) -> Profile {
        let paths = |names: &[&str]| names.iter().map(|name| self.path(name)).collect();
        let mut profile = Profile::new(backend);
        profile.write = paths(&["project", "project/.git"]);
        profile.read_only =
            paths(&["project/.git/hooks", "project/.git/config", "project/.leftfold"]);
        profile.hidden = paths(&[
            "home/.ssh", "home/.aws", "home/.gnupg", "store", "run", "socket", "project/.env",
        ]);
        let system = ["/run", "/etc/shadow", "/etc/gshadow"].map(PathBuf::from);
        profile.hidden.extend(system);
        profile.temp = Some(self.path("temp"));
        profile
    }

    /// The shell line as a process of the user without a sandbox.
    pub(crate) fn unconfined(&self, line: &str) -> Command {
        let mut command = match self.user {
            User::Tester => Command::new("bash"),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "bash"]);
                command
            }
        };
        command.args(["-c", line]);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        let kept = ["PATH", "LANG", "CARGO_HOME", "RUSTUP_HOME", "LEFTFOLD_SANDBOX_CRASH"];
        let kept: Vec<(&str, std::ffi::OsString)> =
            kept.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))).collect();
        command.env_clear().envs(kept).env("HOME", self.path("home"));
        command.current_dir(self.path("project"));
    }

    /// Starts a shell line.
    pub(crate) fn start(&self, profile: &Profile, line: &str, env: &[(&str, &str)]) -> Running {
        let (mut command, channel) = command(&self.helper, profile, "bash", ["-c", line]).unwrap();
        self.surround(&mut command);
        let (output, writer) = std::io::pipe().unwrap();
        command.envs(env.iter().copied());
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        let child = command.spawn().unwrap();
        let output = ChildStdout::from(std::os::fd::OwnedFd::from(output));
        Running { child, channel, output }
    }

    /// Runs a shell line to its end.
    pub(crate) fn run(&self, profile: &Profile, line: &str) -> Ran {
        self.start(profile, line, &[]).finish()
    }
}

/// A command that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) channel: Channel,
    pub(crate) output: ChildStdout,
}

impl Running {
    /// Waits for the end of the command.
    pub(crate) fn finish(mut self) -> Ran {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let ready = match self.channel.receive().unwrap() {
            Some(Message::Ready(ready)) => ready,
            other => panic!("{other:?}\n{output}"),
        };
        let report = match self.channel.receive().unwrap() {
            Some(Message::Report(report)) => report,
            other => panic!("{other:?}\n{output}"),
        };
        self.child.wait().unwrap();
        Ran { ready, report, output }
    }
}

/// A Python that other users can run, too.
pub(crate) fn python() -> &'static str {
    let system = ["/usr/bin/python3", "/usr/local/bin/python3"];
    system.into_iter().find(|path| Path::new(path).exists()).unwrap_or("python3")
}

/// A process without input and output, ended when dropped.
pub(crate) struct Background(pub(crate) Child);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
