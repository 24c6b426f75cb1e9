//! The corpus: named sessions, one of each kind, run by the built program with a script. Their
//! commands leave marks in the project, so that a repeated command shows.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

mod scenarios;

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use leftfold_events::event::{Event, Session, Tool, Turn};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Reader;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Live, Peer, Ran, Server, Site};

/// A session's logs, the root's first.
pub type Logs = Vec<(SessionId, Vec<Envelope>)>;

/// A session and everything that happens in it.
pub struct Scenario {
    pub site: Site,
    /// The model's server, if there is no script.
    pub server: Option<Server>,
    pub acts: Vec<Act>,
}

/// One run of the program.
#[derive(Clone)]
pub struct Act {
    /// `seq:TYPE:N` stands for the seq of the Nth event of a type in the root's log.
    args: Vec<&'static str>,
    /// The text typed into the program.
    input: &'static str,
    meanwhile: Meanwhile,
    /// The fault at which the program is killed in this act.
    dies: Option<&'static str>,
    pub code: i32,
}

/// An action at the start of a tool.
#[derive(Clone, Copy)]
enum Meanwhile {
    Nothing,
    /// Sends a prompt that joins the turn, and then creates the file `go`.
    Joins(&'static str),
    Interrupted,
}

/// A name, and the function that builds the scenario.
type Named = (&'static str, fn() -> Scenario);

pub const CORPUS: [Named; 20] = [
    ("tools", scenarios::tools),
    ("parallel", scenarios::parallel),
    ("children", scenarios::children),
    ("compaction", scenarios::compaction),
    ("prune", scenarios::prune),
    ("permissions", scenarios::permissions),
    ("retry", scenarios::retry),
    ("fork", scenarios::fork),
    ("plan", scenarios::plan),
    ("queued", scenarios::queued),
    ("revert", scenarios::revert),
    ("cut", scenarios::cut),
    ("incomplete", scenarios::incomplete),
    ("mixed", scenarios::mixed),
    ("sandbox", scenarios::sandbox),
    ("plugins", scenarios::plugins),
    ("mcp", scenarios::mcp),
    ("elicitation", scenarios::elicitation),
    ("snapshots", scenarios::snapshots),
    ("served", scenarios::served),
];

/// The tests that become the plugin and the MCP server of the corpus. Each test program that plays
/// it has both in a module `doubles`.
pub const PLUGIN: &str = "doubles::the_plugin_answers";
pub const SERVER: &str = "doubles::the_server_answers";

/// The scenario of this name.
pub fn scenario(name: &str) -> Scenario {
    CORPUS.iter().find(|(known, _)| *known == name).expect("it is in the corpus").1()
}

/// The logs of an undisturbed scenario.
pub fn played(scenario: &Scenario) -> Logs {
    for act in &scenario.acts {
        act.play(&scenario.site, None).with(act.code);
    }
    logs(&scenario.site)
}

/// All logs in the single store of a site; none if there is no store yet.
pub fn logs(site: &Site) -> Logs {
    let Some(store) = store(site) else { return Vec::new() };
    let reader = Reader::open(&store).unwrap();
    let sessions = reader.sessions().unwrap().into_iter();
    sessions.map(|session| (session, reader.read(session, 1).unwrap())).collect()
}

/// The folder of the site's store, once it contains a database.
pub fn store(site: &Site) -> Option<PathBuf> {
    let mut stores = site.sessions().into_iter().filter(|folder| folder.join("db").exists());
    stores.next()
}

/// Whether another session's call has started this one.
pub fn is_child(log: &[Envelope]) -> bool {
    log.iter().any(|event| {
        matches!(event.event, Event::Session(Session::Created { parent: Some(_), .. }))
    })
}

impl Act {
    fn new(args: &[&'static str]) -> Self {
        let args = args.to_vec();
        Self { args, input: "", meanwhile: Meanwhile::Nothing, dies: None, code: 0 }
    }

    fn run(args: &[&'static str]) -> Self {
        Self::new(&[&["run", "--format", "json"], args].concat())
    }

    /// Resumes a session. If `asks`, every question is answered with yes; a form, which takes no yes,
    /// is declined by an empty line in the end.
    pub fn resume(asks: bool) -> Self {
        let mut act = Self::new(&["resume", "--format", "json"]);
        if asks {
            act.args.extend(["--permission-mode", "ask"]);
            act.input = "once\nonce\nonce\nonce\nonce\nonce\nonce\nonce\n\n\n\n\n";
        }
        act
    }

    pub fn for_session(mut self, session: &'static str) -> Self {
        self.args.push(session);
        self
    }

    /// Runs the program to its end, or until it dies at `fault`.
    pub fn play(&self, site: &Site, fault: Option<&str>) -> Ran {
        self.play_with(site, fault, &[])
    }

    pub fn play_with(&self, site: &Site, fault: Option<&str>, more: &[&str]) -> Ran {
        self.play_seen(site, fault, more, |_| {})
    }

    /// Calls `seen` with each line as soon as it is printed.
    pub fn play_seen(
        &self,
        site: &Site,
        fault: Option<&str>,
        more: &[&str],
        mut seen: impl FnMut(&str),
    ) -> Ran {
        let args: Vec<String> = self.args.iter().map(|arg| resolved(site, arg)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut command = site.command(&args);
        if let Some(fault) = fault.or(self.dies) {
            command.env("LEFTFOLD_CRASH_AT", fault);
        }
        if !self.input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut live = Live::start(command);
        if !self.input.is_empty() {
            // the program may be dead already
            let _ = live.input().write_all(self.input.as_bytes());
        }
        while let Some(line) = live.line() {
            seen(&line);
            if line.contains(r#""type":"tool.started""#) {
                self.meanwhile.happens(site, &live, &line);
            }
        }
        self.meanwhile.is_over(site);
        live.wait()
    }
}

impl Meanwhile {
    fn happens(self, site: &Site, live: &Live, started: &str) {
        match self {
            Self::Nothing => {}
            Self::Joins(prompt) => {
                let started: Value = serde_json::from_str(started).unwrap();
                let prompt = json!({ "session": started["session"], "text": prompt, "by": "ann" });
                // the node may be dead by now
                if let Some(mut peer) = Peer::try_connect(&site.session()) {
                    peer.try_call("_leftfold/prompt", &prompt);
                }
                self.is_over(site);
            }
            Self::Interrupted => live.signal(Signal::INT),
        }
    }

    fn is_over(self, site: &Site) {
        match self {
            Self::Nothing => {}
            Self::Joins(_) | Self::Interrupted => {
                site.file("go", "");
            }
        }
    }
}

fn resolved(site: &Site, arg: &str) -> String {
    let Some((kind, nth)) = arg.strip_prefix("seq:").and_then(|rest| rest.split_once(':')) else {
        return arg.to_owned();
    };
    let logs = logs(site);
    let (_, root) = logs.iter().find(|(_, log)| !is_child(log)).expect("a root");
    let wanted = |event: &&Envelope| match kind {
        "prompt" => matches!(event.event, Event::Turn(Turn::Prompted { .. })),
        _ => matches!(event.event, Event::Tool(Tool::Finished(_))),
    };
    let seq: Option<Seq> =
        root.iter().filter(wanted).nth(nth.parse::<usize>().unwrap() - 1).map(|e| e.seq);
    seq.unwrap_or(1).to_string()
}
