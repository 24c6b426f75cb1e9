//! Shared by all test programs: a project, a home and settings for each test, and the built
//! program.
//!
//! A crate of its own, so that it is compiled once and not in each test program. Only tests use it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
#![allow(missing_debug_implementations, reason = "nobody prints a test's own things")]
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

pub mod aftermath;
mod again;
pub mod authorization;
pub mod browser;
mod canary;
mod chance;
mod clock;
pub mod corpus;
mod editor;
mod editor_host;
pub mod foreign;
pub mod guarded;
pub mod hostile;
pub mod language_server;
mod live;
pub mod long_log;
pub mod mcp;
pub mod openapi;
pub mod peers;
pub mod plugin;
pub mod postgres;
pub mod postgres_proxy;
mod processes;
mod pty;
pub mod python;
mod server;
mod skipped;
mod socket;
mod sse;
mod tally;
pub mod validator;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

pub use again::rerun_all;
pub use canary::{Canary, Search, base64, url};
pub use chance::{Random, number, number_or_all};
pub use clock::Clock;
pub use editor::Editor;
pub use editor_host::EditorHost;
pub use live::{Live, Ran};
pub use processes::{marked, peak, sleeping, wait_until};
pub use pty::Terminal;
pub use server::{Answer, Recorded, Server, Split};
pub use skipped::{may_install, skipped};
pub use socket::{Peer, from_on, wait_for_node};
pub use sse::{Block, message, message_whole, with_crlf};
pub use tally::Tally;

/// No step of a test takes this long unless it hangs.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The built program. Cargo puts it into the folder above the test programs.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().and_then(Path::parent).unwrap();
    folder.join("leftfold")
}

/// The first of these programs in the folders of `PATH`. A command that names its program by a path is started without a copy
/// of this process, also with an environment of its own.
pub fn in_path(names: &[&str]) -> Option<PathBuf> {
    let all = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&all)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|program| program.is_absolute() && program.is_file())
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program as root without root's right to read and write every file.
const WITHOUT_RIGHTS: [&str; 3] =
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"];

/// Whether the tests run all commands in the sandbox: `LEFTFOLD_TEST_SANDBOX=on`.
pub fn in_sandbox() -> bool {
    std::env::var("LEFTFOLD_TEST_SANDBOX").is_ok_and(|mode| mode == "on")
}

/// A copy of everything below a site.
pub struct Saved(TempDir);

pub struct Site {
    dir: TempDir,
    settings: Value,
    env: Vec<(String, String)>,
    obeys_permissions: bool,
}

impl Site {
    /// A site with a provider `double` that plays `script`.
    pub fn scripted(script: &Value) -> Self {
        let mut site = Self::bare();
        site.settings = json!({
            "model": "double/m",
            "title": false,
            "summary": false,
            "snapshot": false,
            "provider": { "double": {
                "wire": "scripted",
                "options": { "script": script },
                "models": { "m": { "limit": { "context": 100_000, "output": 8_000 } } },
            } },
        });
        site
    }

    /// A site with a provider `local` that speaks Anthropic Messages to `server`.
    pub fn served(server: &Server) -> Self {
        let mut site = Self::bare();
        site.settings = json!({
            "model": "local/m",
            "title": false,
            "summary": false,
            "snapshot": false,
            "provider": { "local": {
                "wire": "anthropic",
                "options": { "baseURL": server.url(), "apiKey": "sk-test-0123456789" },
                "models": { "m": { "limit": { "context": 100_000, "output": 8_000 } } },
            } },
        });
        site
    }

    /// A site without settings.
    pub fn bare() -> Self {
        let dir = tempfile::Builder::new().prefix("leftfold-e2e-").tempdir().unwrap();
        for name in ["project", "home", "config", "user"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, settings: json!({}), env: Vec::new(), obeys_permissions: false }
    }

    /// Changes the settings, which are passed in `LEFTFOLD_CONFIG_CONTENT`.
    pub fn setting(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.settings;
        for key in pointer.split('/').filter(|key| !key.is_empty()) {
            at = &mut at[key];
        }
        *at = value;
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Commands run in the sandbox, as they do by default.
    pub fn sandboxed(self) -> Self {
        self.env("LEFTFOLD_SANDBOX", "on")
    }

    /// Commands run without a sandbox, also if [`in_sandbox`].
    pub fn unsandboxed(self) -> Self {
        self.env("LEFTFOLD_SANDBOX", "off")
    }

    /// File permissions apply to the program even if root runs the tests. `None` if root cannot
    /// give up its rights; the running test then counts as skipped.
    pub fn obeying_permissions(mut self) -> Option<Self> {
        if rustix::process::geteuid().is_root() {
            let can =
                Command::new(WITHOUT_RIGHTS[0]).args(&WITHOUT_RIGHTS[1..]).arg("true").status();
            if !can.is_ok_and(|status| status.success()) {
                skipped("root cannot give up its rights with setpriv");
                return None;
            }
            self.obeys_permissions = true;
        }
        Some(self)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Writes a file of the project. The user trusts settings that a test writes like this.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file_of_stranger(name, text);
        let holder = path.ancestors().skip(1).find(|folder| {
            let name = folder.file_name().unwrap_or_default();
            name != ".leftfold" && name != ".opencode"
        });
        if name.contains("leftfold") || name.contains("opencode") {
            self.trust(holder.unwrap());
        }
        path
    }

    /// Writes a file of the project that the user has not seen.
    pub fn file_of_stranger(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Trusts the settings that apply in `folder`, as far as they can be read.
    pub fn trust(&self, folder: &Path) {
        for folder in [folder, &self.project()] {
            let mut command = self.command(&["trust", "--yes"]);
            command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().unwrap();
        }
    }

    /// The text of a file in the project; empty if it does not exist.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap_or_default()
    }

    /// The program, in the project, with a clean environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        if self.obeys_permissions {
            command = Command::new(WITHOUT_RIGHTS[0]);
            command.args(&WITHOUT_RIGHTS[1..]).arg(program());
        }
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("TMPDIR", self.path(""))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("LEFTFOLD_HOME", self.path("home"))
            .env(
                "LEFTFOLD_SANDBOX",
                std::env::var("LEFTFOLD_TEST_SANDBOX").as_deref().unwrap_or("off"),
            )
            .stdin(Stdio::null());
        if self.settings != json!({}) {
            command.env("LEFTFOLD_CONFIG_CONTENT", self.settings.to_string());
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The program with a limit of the shell: `-f` and a file size in KiB, or `-v` and an address space in KiB.
    pub fn limited(&self, args: &[&str], limit: &str) -> Command {
        let inner = self.command(args);
        let mut limited = Command::new("bash");
        // without the trap, the limit would send a signal instead of an error
        let script = format!("trap '' XFSZ; ulimit {limit}; exec \"$@\"");
        limited.args(["-c", &script, "run"]).arg(inner.get_program()).args(inner.get_args());
        limited.env_clear();
        limited.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(self.project()).stdin(Stdio::null());
        limited
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.start(args).wait()
    }

    pub fn start(&self, args: &[&str]) -> Live {
        Live::start(self.command(args))
    }

    /// Runs the program on a terminal.
    pub fn terminal(&self, args: &[&str], columns: u16) -> Terminal {
        Terminal::start(self.command(args), columns)
    }

    /// Runs one prompt with JSON lines as output.
    pub fn prompt(&self, prompt: &str) -> Ran {
        self.run(&["run", "--format", "json", prompt])
    }

    pub fn sessions(&self) -> Vec<PathBuf> {
        let below = |folder: &str| {
            let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        let mut stores = below("home/sessions");
        if !below("home/store/heads").is_empty() {
            stores.push(self.path("home/store"));
        }
        stores
    }

    /// The folder of the only session.
    pub fn session(&self) -> PathBuf {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0].clone()
    }

    /// The events of the project's last session, as exported.
    pub fn exported(&self) -> Vec<Value> {
        self.run(&["export", "last"]).ok().events()
    }

    /// Copies everything below the site. No program may run in it.
    pub fn save(&self) -> Saved {
        let saved = tempfile::Builder::new().prefix("leftfold-saved-").tempdir().unwrap();
        copy_below(self.dir.path(), saved.path());
        Saved(saved)
    }

    /// Puts everything back at its place as it was saved.
    pub fn restore(&self, saved: &Saved) {
        for entry in std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
        copy_below(saved.0.path(), self.dir.path());
    }

    /// Checks that `check` and `verify` find no problem in the last session.
    pub fn assert_sound(&self) {
        for command in ["check", "verify"] {
            let ran = self.run(&[command, "last"]);
            assert_eq!(ran.code, 0, "{command}: {ran:?}");
        }
    }
}

/// Copies with rights and times, which Leftfold compares.
fn copy_below(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.unwrap().success(), "{} to {}", from.display(), to.display());
}

/// A script of replies that are played in order.
pub fn script(replies: impl std::borrow::Borrow<Value>) -> Value {
    json!({ "replies": replies.borrow() })
}

/// A reply that calls `bash`.
pub fn bash(command: &str) -> Value {
    json!({ "parts": [{ "call": { "name": "bash", "input": { "command": command } } }] })
}

/// A reply that calls one tool.
pub fn call(name: &str, input: impl std::borrow::Borrow<Value>) -> Value {
    json!({ "parts": [{ "call": { "name": name, "input": input.borrow() } }] })
}

/// A site whose turn asks whether `.env` may be read, and then reports it.
pub fn asking() -> Site {
    let read = call("read", json!({ "filePath": ".env" }));
    let site = Site::scripted(&script(json!([read, says("So be it.")])));
    site.file(".env", "COLOUR=blue\n");
    site
}

/// A site whose turn fills the model's context, so that a summary is written, at the second
/// attempt.
pub fn filled() -> Site {
    let full = json!({ "parts": [{ "call": { "name": "todoread" } }],
        "match": { "prompt": "go", "answers": 0 }, "usage": { "input": 99_000, "output": 500 } });
    let faults = json!([{ "class": "overloaded", "message": "busy", "retry_after": 1 }]);
    let summary = json!({ "match": { "purpose": "compaction" }, "faults": faults,
        "parts": [{ "text": "Half is done." }] });
    let done =
        json!({ "match": { "prompt": "next steps" }, "parts": [{ "text": "All is done." }] });
    Site::scripted(&json!({ "replies": [summary, done, full] }))
}

/// The command whose questions are answered over the socket.
pub const ASK: [&str; 6] = ["run", "--format", "json", "--permission-mode", "ask", "go"];

/// A reply of text.
pub fn says(text: &str) -> Value {
    json!({ "parts": [{ "text": text }] })
}

pub fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap_or("")
}

pub fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(kind).collect()
}

/// All events of one type.
pub fn all<'a>(events: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| kind(event) == wanted).collect()
}

/// The only event of one type.
pub fn only<'a>(events: &'a [Value], wanted: &str) -> &'a Value {
    let found = all(events, wanted);
    assert_eq!(found.len(), 1, "{wanted}: {:?}", kinds(events));
    found[0]
}

/// The data of the last event, which is the end of the turn.
pub fn end(events: &[Value]) -> &Value {
    let last = events.last().expect("no events at all");
    assert_eq!(kind(last), "turn.ended", "{:?}", kinds(events));
    &last["data"]
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
