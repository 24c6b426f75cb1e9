//! Replay down to the wire. Sessions of every wire format are played by the program against a server that keeps the
//! bytes it gets. Then their folders are copied to a machine without settings and, where the system allows it, without
//! network. There the program encodes every request again, decodes every recorded answer again, and compares both.

mod replies;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};

use common::{Answer, Recorded, Server, Site, Split, Tally, all, kind, only, program};
use leftfold_events::Sha256;
use rustix::process::Signal;
use serde_json::{Value, json};

use self::replies::{LONG_SERVER, Render, ReplyPart, anthropic, bedrock, chat, gemini, responses};

/// Wire format, the vendor that settings name, model, and the form of its replies.
type Wire = (&'static str, &'static str, &'static str, Render);

const WIRES: [Wire; 5] = [
    ("anthropic", "anthropic", "claude-x", anthropic),
    ("openai-chat", "generic", "m", chat),
    ("openai-responses", "openai", "gpt-5.1", responses),
    ("gemini", "google", "gemini-3-a", gemini),
    ("bedrock", "amazon-bedrock", "anthropic.claude-x", bedrock),
];

/// Each wire is tried with one in so many shapes, each shape with some wires; `LEFTFOLD_SEED` chooses. With
/// `LEFTFOLD_WIRE=all`, each wire and each vendor is tried with all shapes.
const SAMPLED: usize = 2;

/// Vendors of the same wire formats, for `LEFTFOLD_WIRE=all`.
const MORE: [Wire; 10] = [
    ("openai-chat", "deepseek", "m", chat),
    ("openai-chat", "mistral", "m", chat),
    ("openai-chat", "groq", "m", chat),
    ("openai-chat", "moonshot", "m", chat),
    ("openai-chat", "xai", "m", chat),
    ("openai-chat", "openrouter", "anthropic/claude-x", chat),
    ("openai-chat", "ollama", "m", chat),
    ("openai-responses", "azure", "gpt-5.1", responses),
    ("gemini", "google-vertex", "gemini-3-a", gemini),
    ("anthropic", "google-vertex-anthropic", "claude-x@20260101", anthropic),
];

const KEY: &str = "sk-test-0123456789";

/// The message behind a reply that was interrupted, which its event stands for.
const CUT: &str =
    "Your reply was interrupted here, before its end. The user has seen the text above.";

/// One thing that the server answers.
#[derive(Clone, Copy)]
enum Step {
    Reply(&'static [ReplyPart]),
    /// The first half of a reply, and then the connection is closed.
    Half(&'static [ReplyPart]),
    /// Status, and the `message` of the error.
    Error(u16, &'static str),
}

/// Name, the answers in order, and the exit code of the run.
type Shape = (&'static str, &'static [Step], i32);

const DONE: Step = Step::Reply(&[ReplyPart::Text("Done: «ä€𝄞».")]);

const SHAPES: [Shape; 13] = [
    ("text", &[Step::Reply(&[ReplyPart::Text("Hello, this is a reply of some length.")])], 0),
    (
        "reasoning and a call",
        &[
            Step::Reply(&[
                ReplyPart::Thought("First I read it – 👀", "c2lnbmF0dXJl"),
                ReplyPart::Text("I read it."),
                ReplyPart::Read("call_1", "a.txt"),
            ]),
            DONE,
        ],
        0,
    ),
    (
        "parallel calls, and an id that comes again",
        &[
            Step::Reply(&[ReplyPart::Read("call_1", "a.txt"), ReplyPart::Read("call_2", "none")]),
            Step::Reply(&[ReplyPart::Read("call_1", "a.txt")]),
            DONE,
        ],
        0,
    ),
    (
        "many steps",
        &[
            Step::Reply(&[ReplyPart::Read("call_1", "a.txt")]),
            Step::Reply(&[ReplyPart::Text("Once more."), ReplyPart::Read("call_2", "./a.txt")]),
            Step::Reply(&[ReplyPart::Read("call_3", "b \"quoted\"\n.txt")]),
            Step::Reply(&[ReplyPart::Text("And again."), ReplyPart::Read("call_4", ".")]),
            DONE,
        ],
        0,
    ),
    ("busy, then a reply", &[Step::Error(529, "overloaded"), DONE], 0),
    ("cut off, then a reply", &[Step::Half(&[ReplyPart::Text("Half of this is lost.")]), DONE], 0),
    ("refused", &[Step::Error(400, "messages.0 is not what I want")], 1),
    (
        "a key that the server repeats",
        &[Step::Error(401, "the key sk-test-0123456789 is wrong")],
        1,
    ),
    (
        "an error inside the stream, then a reply",
        &[
            Step::Reply(&[
                ReplyPart::Text("This is the beginning."),
                ReplyPart::Error("overloaded"),
            ]),
            DONE,
        ],
        0,
    ),
    (
        "refused three times, then a reply",
        &[
            Step::Error(529, "overloaded"),
            Step::Error(503, "unavailable"),
            Step::Error(500, "an internal error"),
            DONE,
        ],
        0,
    ),
    (
        "busy between two steps",
        &[
            Step::Reply(&[ReplyPart::Read("call_1", "a.txt")]),
            Step::Error(529, "overloaded"),
            Step::Reply(&[ReplyPart::Read("call_2", "a.txt"), ReplyPart::Read("call_3", "b.txt")]),
            Step::Half(&[ReplyPart::Text("Half of this is lost.")]),
            DONE,
        ],
        0,
    ),
    (
        "reasoning before each step",
        &[
            Step::Reply(&[
                ReplyPart::Thought("First a.txt.", "Zmlyc3Q="),
                ReplyPart::Read("call_1", "a.txt"),
            ]),
            Step::Reply(&[
                ReplyPart::Thought("Then b.txt, and both at once.", "c2Vjb25k"),
                ReplyPart::Text("I read on."),
                ReplyPart::Read("call_2", "b.txt"),
                ReplyPart::Read("call_3", "a.txt"),
            ]),
            Step::Reply(&[
                ReplyPart::Thought("That is all.", "dGhpcmQ="),
                ReplyPart::Text("Done."),
            ]),
        ],
        0,
    ),
    (
        "a subagent",
        &[
            Step::Reply(&[ReplyPart::Task("call_1", "look around")]),
            Step::Reply(&[ReplyPart::Text("Nothing is there.")]),
            DONE,
        ],
        0,
    ),
];

/// A site whose requests go to `server`, and are recorded.
fn site(server: &Server, (wire, vendor, model, _): Wire) -> Site {
    let limits = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    let site = Site::bare()
        .setting("title", json!(false))
        .setting("snapshot", json!(false))
        .setting("record", json!("wire"))
        .setting("model", json!(format!("local/{model}")))
        .setting(
            "provider/local",
            json!({
                "wire": wire,
                "vendor": vendor,
                "options": { "baseURL": server.url(), "apiKey": KEY },
                "models": { model: limits },
            }),
        );
    site.file("a.txt", "alpha\n");
    site
}

/// The first half of a reply's events.
fn half(events: &[Vec<u8>]) -> Vec<u8> {
    events[..=events.len() / 2].concat()
}

fn serve(steps: &[Step], render: Render) -> Server {
    let answer = |step: &Step| match step {
        Step::Reply(parts) => Answer::Bytes(render(parts).concat(), Split::Awkward),
        Step::Half(parts) => Answer::CutBytes(half(&render(parts))),
        Step::Error(status, message) => {
            let headers = vec!["retry-after-ms: 5".to_owned(), "x-request-id: req_7".to_owned()];
            let body = json!({ "error": { "type": "x", "message": message } });
            Answer::Status(*status, headers, body.to_string())
        }
    };
    Server::start(steps.iter().map(answer).collect())
}

/// A copy of a site's sessions on a machine without settings, project or network.
struct Bare {
    dir: tempfile::TempDir,
}

/// The program that takes the network away, if it can.
static UNSHARE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    common::in_path(&["unshare"]).filter(|unshare| {
        let alone = Command::new(unshare).args(["-rn", "true"]).stderr(Stdio::null()).status();
        alone.is_ok_and(|status| status.success())
    })
});

impl Bare {
    fn of(site: &Site) -> Self {
        let dir = tempfile::Builder::new().prefix("leftfold-bare-").tempdir().unwrap();
        copy(&site.path("home"), &dir.path().join("home"));
        fs::create_dir(dir.path().join("user")).unwrap();
        Self { dir }
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = match UNSHARE.as_ref() {
            Some(unshare) => {
                let mut alone = Command::new(unshare);
                alone.arg("-rn").arg(program());
                alone
            }
            None => Command::new(program()),
        };
        let ran = command
            .args(args)
            .current_dir(self.dir.path().join("user"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path().join("user"))
            .env("LEFTFOLD_HOME", self.dir.path().join("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap_or(-1), text(ran.stdout), text(ran.stderr))
    }

    /// The records of all sessions.
    fn records(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut rest = vec![self.dir.path().join("home")];
        while let Some(folder) = rest.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    rest.push(path);
                } else if path.parent().is_some_and(|folder| folder.ends_with("wire")) {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else if path.is_file() {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// The numbers in `rerun`'s line.
fn number(text: &str, before: &str) -> usize {
    let at = text.find(before).unwrap_or_else(|| panic!("{before} in {text}"));
    let digits = text[..at].trim_end().rsplit([' ', ';']).next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("{before} in {text}"))
}

/// Checks where each byte of a body comes from, and that the log has the texts of its messages.
fn provenance(tally: &Tally, place: &str, body: &str, report: &str, texts: &str) {
    let report: Value =
        serde_json::from_str(report).unwrap_or_else(|e| panic!("{place}: {e} {report}"));
    let mut end = 0;
    for piece in report["pieces"].as_array().unwrap() {
        let at = |index: usize| usize::try_from(piece["at"][index].as_u64().unwrap()).unwrap();
        let (from, to, what) = (at(0), at(1), piece["what"].as_str().unwrap());
        tally.equal("gaps in provenance", &from, &end, place);
        end = to;
        let bytes = &body[from..to];
        let has_events = !piece["from"].as_array().unwrap().is_empty();
        let kind = match what.split('.').next().unwrap() {
            "messages" if has_events && bytes == CUT => "bytes of fixed texts",
            "messages" if has_events => "bytes from events",
            "messages" => "bytes of fixed texts",
            "format" => "bytes of the wire format",
            _ => "bytes from the configuration",
        };
        tally.add(kind, bytes.len());
        if kind == "bytes from the configuration" && what.starts_with("system") {
            // the prompt for a title or a summary is an option
            let sources = piece["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
            let named = sources.iter().all(|source| {
                source["source"].as_str().is_some_and(|source| source != "source not recorded")
            });
            tally.check("pieces without a source", named, || format!("{place}: {piece}"));
        }
        tally.check("bytes of unknown origin", what != "unknown", || format!("{place}: {bytes}"));
        if kind == "bytes from events" {
            let once: String = serde_json::from_str(&format!("\"{bytes}\"")).unwrap_or_default();
            let twice: String = serde_json::from_str(&format!("\"{once}\"")).unwrap_or_default();
            // the prompt for a title begins with fixed words
            let last = once.rsplit("\n\n").next().unwrap_or_default();
            // an id that comes again gets the event's number
            let numbered = once.rsplit_once('_').filter(|(_, seq)| seq.parse::<u64>().is_ok());
            let is_logged = texts.contains(&once)
                || !twice.is_empty() && texts.contains(&twice)
                || texts.contains(last)
                || numbered.is_some_and(|(id, _)| texts.contains(id));
            tally.check("pieces that the log does not have", is_logged, || {
                format!("{place}, {what}: {bytes}")
            });
        }
    }
    tally.equal("gaps in provenance", &end, &body.len(), place);
}

/// All texts of a log. Those of a streamed part follow each other without a gap.
fn texts(events: &[Value]) -> String {
    fn leaves(value: &Value, into: &mut String) {
        match value {
            Value::String(text) => {
                into.push_str(text);
                into.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
            Value::Object(members) => members.values().for_each(|member| leaves(member, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                into.push_str(&value.to_string());
                into.push('\n');
            }
        }
    }
    let mut text = String::new();
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    for event in events {
        leaves(event, &mut text);
        for part in event["data"]["parts"].as_array().into_iter().flatten() {
            let name =
                format!("{} {} {} {}", event["session"], event["of"], part["kind"], part["id"]);
            parts.entry(name).or_default().push_str(part["text"].as_str().unwrap_or_default());
        }
    }
    text + &parts.into_values().collect::<Vec<_>>().join("\n")
}

fn ids(events: &[Value]) -> Vec<&str> {
    let mut ids: Vec<&str> = events.iter().filter_map(|event| event["session"].as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Compares every request of a session with the bytes that the server got, and every answer with the log.
fn replayed(tally: &Tally, place: &str, site: &Site, servers: &[&Server]) {
    let events = site.exported();
    let texts = texts(&events);
    let bare = Bare::of(site);
    tally.add("without network", usize::from(UNSHARE.is_some()));
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for server in servers {
        sent.extend(server.requests().into_iter().map(|request: Recorded| request.bytes));
    }
    for request in all(&events, "model.requested") {
        let seq = request["seq"].to_string();
        let session = request["session"].as_str().unwrap();
        let (code, body, error) = bare.run(&["explain", session, &seq, "--request", "--wire"]);
        tally.equal("bodies that differ", &code, &0, format!("{place}, {seq}: {error}"));
        let at = sent.iter().position(|bytes| bytes == body.as_bytes());
        tally.check("bodies that the server did not get", at.is_some(), || {
            format!("{place}, {seq}: {body}")
        });
        at.map(|at| sent.swap_remove(at));
        tally.add("bodies", 1);
        let (_, report, _) =
            bare.run(&["explain", session, &seq, "--request", "--wire", "--format", "json"]);
        provenance(tally, &format!("{place}, {seq}"), &body, &report, &texts);
        let outcome = events.iter().find(|event| {
            event["of"] == request["seq"]
                && event["session"] == request["session"]
                && matches!(kind(event), "model.finished" | "model.failed")
        });
        let Some(outcome) = outcome else {
            let of_turn = events.iter().any(|event| {
                kind(event) == "turn.interrupted" && event["session"] == request["session"]
            });
            tally.check("requests without an outcome", of_turn, || format!("{place}, {seq}"));
            tally.add("interrupted", 1);
            continue;
        };
        let hash = match kind(outcome) {
            "model.failed" => &outcome["notes"]["exchange"]["body_sha256"],
            _ => &outcome["data"]["body_sha256"],
        };
        let expected = json!(Sha256::digest(body.as_bytes()).to_string());
        tally.equal("bodies without their hash in the log", &hash, &&expected, place);
    }
    tally.equal("requests without an event", &sent.len(), &0, place);
    for session in ids(&events) {
        let (code, text, error) = bare.run(&["rerun", "--wire", session]);
        tally.equal("answers that differ", &code, &0, format!("{place}: {text}{error}"));
        if code == 0 {
            tally.add("answers", number(&text, "answer"));
        }
        tally.add("sessions", 1);
    }
    for path in bare.records() {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let text = fs::read_to_string(&path).unwrap();
        let addressed = servers.iter().any(|server| text.contains(&server.address().to_string()));
        let holds = mode == 0o600 && !text.contains(KEY) && !addressed;
        tally.check("records with a key or an address", holds, || {
            format!("{place}: {mode:o} {text}")
        });
        tally.add("records", 1);
    }
}

#[test]
fn every_body_is_made_again_and_every_answer_is_decoded_again() {
    let tally = Tally::promise(4, "wire")
        .counts(&[
            "sessions", "bodies", "interrupted", "answers", "records", "without network",
            "bytes from events", "bytes from the configuration", "bytes of fixed texts",
            "bytes of the wire format",
        ])
        .never(&[
            "sessions that fail", "bodies that differ", "bodies that the server did not get",
            "bodies without their hash in the log", "requests without an event",
            "requests without an outcome", "answers that differ", "gaps in provenance",
            "bytes of unknown origin", "pieces that the log does not have",
            "pieces without a source", "records with a key or an address",
        ]);
    let more = std::env::var("LEFTFOLD_WIRE").is_ok_and(|which| which == "all");
    let seed = common::number("LEFTFOLD_SEED", 1);
    let wires = WIRES.into_iter().chain(MORE.into_iter().filter(|_| more));
    let step = if more { 1 } else { SAMPLED };
    let cases = wires.enumerate().flat_map(|(at, wire)| {
        let shapes = SHAPES.into_iter().skip((seed + at) % step).step_by(step);
        shapes.map(move |shape| (wire, shape))
    });
    let cases: Mutex<VecDeque<(Wire, Shape)>> = Mutex::new(cases.collect());
    let next = || cases.lock().unwrap().pop_front();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((wire, (name, steps, code))) = next() {
                    let place = format!("{}, {}, {name}", wire.0, wire.1);
                    tally.attempt("sessions that fail", &place, || {
                        let server = serve(steps, wire.3);
                        let site = site(&server, wire);
                        site.prompt("go").with(code);
                        replayed(&tally, &place, &site, &[&server]);
                    });
                }
            });
        }
        for wire in WIRES {
            let tally = &tally;
            scope.spawn(move || {
                let place = format!("{}, title, image and fork", wire.0);
                tally.attempt("sessions that fail", place, || {
                    titled_forked_and_with_an_image(tally, wire);
                    killed_and_resumed(tally, wire);
                    interrupted_and_prompted(tally, wire);
                    with_a_document_and_a_long_name(tally, wire);
                });
            });
        }
    });
    tally.finish();
}

/// A title from a provider with another wire, an image in the prompt, and a fork with a prompt of its own.
fn titled_forked_and_with_an_image(tally: &Tally, wire: Wire) {
    let other = WIRES.into_iter().find(|other| other.0 != wire.0).unwrap();
    let titles = serve(&[Step::Reply(&[ReplyPart::Text("A title")])], other.3);
    let server = serve(&[DONE, DONE], wire.3);
    let limits = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    let site = site(&server, wire)
        .setting("title", json!(true))
        .setting("small_model", json!(format!("titles/{}", other.2)))
        .setting(
            "provider/titles",
            json!({
                "wire": other.0,
                "vendor": other.1,
                "options": { "baseURL": titles.url(), "apiKey": KEY },
                "models": { other.2: limits },
            }),
        );
    site.file("dot.png", png());
    site.run(&["run", "--format", "json", "--file", "dot.png", "What is it?"]).ok();
    let events = site.exported();
    let end = only(&events, "turn.ended")["seq"].to_string();
    replayed(tally, &format!("{}, title and image", wire.0), &site, &[&server, &titles]);
    site.run(&["fork", "last", "--at", &end, "--format", "json", "And now?"]).ok();
    let fork = Bare::of(&site);
    let session = site.exported().last().unwrap()["session"].as_str().unwrap().to_owned();
    let (code, text, error) = fork.run(&["rerun", "--wire", &session]);
    let place = format!("{}, fork: {text}{error}", wire.0);
    tally.equal("answers that differ", &code, &0, place);
    tally.add("sessions", 1);
}

/// A node that is killed in the middle of a reply: its request has no record, and the next one is rebuilt.
fn killed_and_resumed(tally: &Tally, wire: Wire) {
    let half = half(&wire.3(&[ReplyPart::Text("The beginning of a reply that never ends.")]));
    let whole = wire.3(&[ReplyPart::Text("Done.")]).concat();
    let answers = vec![Answer::StallBytes(half), Answer::Bytes(whole, Split::Whole)];
    let server = Server::start(answers);
    let site = site(&server, wire);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("model.streamed");
    live.signal(Signal::KILL);
    live.wait();
    site.run(&["resume", "last", "--format", "json"]).ok();
    let events = site.exported();
    let bare = Bare::of(&site);
    let place = format!("{}, killed", wire.0);
    tally.equal("requests without an event", &server.requests().len(), &2, &place);
    let (code, text, error) = bare.run(&["rerun", "--wire", ids(&events)[0]]);
    let holds = code == 0 && text.contains("1 of 2 bodies rebuilt, 1 answer decoded again");
    tally.check("answers that differ", holds, || format!("{place}: {text}{error}"));
    tally.add("sessions", 1);
}

/// A reply that its user interrupts. The next request says where it ended.
fn interrupted_and_prompted(tally: &Tally, wire: Wire) {
    let half = half(&wire.3(&[ReplyPart::Text("The beginning of a reply that never ends.")]));
    let whole = wire.3(&[ReplyPart::Text("Done.")]).concat();
    let answers = vec![Answer::StallBytes(half), Answer::Bytes(whole, Split::Awkward)];
    let server = Server::start(answers);
    let site = site(&server, wire);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("model.streamed");
    live.signal(Signal::INT);
    live.wait().with(130);
    site.run(&["run", "--format", "json", "--continue", "and now?"]).ok();
    let body = String::from_utf8(server.requests().pop().unwrap().bytes).unwrap();
    let place = format!("{}, interrupted", wire.0);
    for text in [CUT, "and now?"] {
        tally.check("bodies that differ", body.contains(text), || format!("{place}: {body}"));
    }
    replayed(tally, &place, &site, &[&server]);
}

/// A document in the prompt, and a call of an MCP server's tool with a shortened name.
fn with_a_document_and_a_long_name(tally: &Tally, wire: Wire) {
    let server = serve(&[Step::Reply(&[ReplyPart::Echo("call_1")]), DONE], wire.3);
    let double = common::mcp::local("doubles::the_server_answers", "");
    let site = site(&server, wire).setting("mcp", json!({ LONG_SERVER: double }));
    site.file("page.pdf", "%PDF-1.4\n%%EOF\n");
    let args = ["run", "--format", "json", "--yes", "--file", "page.pdf", "What is it?"];
    let events = site.run(&args).ok().events();
    let output = &only(&events, "tool.finished")["data"]["output"];
    let place = format!("{}, document and long name", wire.0);
    tally.equal("bodies that differ", output, &json!("You said hello."), &place);
    replayed(tally, &place, &site, &[&server]);
}

/// The smallest image.
fn png() -> Vec<u8> {
    let hex = "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001\
        0005fe02fea7354e0000000049454e44ae426082";
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A session of one wire with reasoning and a call, copied to a bare machine.
fn sample(wire: Wire) -> (Site, Bare) {
    let server = serve(SHAPES[1].1, wire.3);
    let site = site(&server, wire);
    site.prompt("go").ok();
    let bare = Bare::of(&site);
    let (code, text, error) = bare.run(&["rerun", "--wire", "last"]);
    // the bare machine does not have the session's project
    assert!(code == 0 && error.contains("the newest one of all projects"), "{text}{error}");
    (site, bare)
}

fn session(bare: &Bare) -> String {
    let mut names = fs::read_dir(bare.dir.path().join("home/sessions")).unwrap();
    names.next().unwrap().unwrap().path().to_str().unwrap().to_owned()
}

#[test]
fn a_changed_byte_of_a_record_is_found_and_named() {
    let (_site, bare) = sample((WIRES[0].0, WIRES[0].1, WIRES[0].2, whole));
    let folder = session(&bare);
    let records = bare.records();
    assert_eq!(records.len(), 2);
    // a text, a signature, an argument of a call, the usage: all in the first answer
    for (from, to, field) in [
        ("I read it.", "I road it.", "parts"),
        ("c2lnbmF0dXJl", "d2lnbmF0dXJl", "parts"),
        ("a.txt", "b.txt", "data.call.input.filePath"),
        ("output_tokens\\\":7", "output_tokens\\\":8", "data.usage.output"),
    ] {
        let of_call = |path: &&PathBuf| answer(path).contains("I read it.");
        let record = records.iter().find(of_call).unwrap();
        let before = fs::read_to_string(record).unwrap();
        let found = answer(record);
        assert!(found.contains(from), "{from}: {found}");
        let changed = before.replace(&found, &found.replacen(from, to, 1));
        fs::write(record, changed).unwrap();
        let (code, text, error) = bare.run(&["rerun", "--wire", &folder]);
        assert!(code == 1 && text.contains(field), "{from}: {text}{error}");
        fs::write(record, before).unwrap();
    }
    // a byte of the body, and one that decoding does not read
    for (from, to, field) in [
        ("\\\"text\\\":\\\"go\\\"", "\\\"text\\\":\\\"no\\\"", "body.messages.0"),
        ("\"headers\":{}", "\"headers\":{\"a\":\"b\"}", "notes.exchange.record.sha256"),
    ] {
        let before = fs::read_to_string(&records[0]).unwrap();
        assert!(before.contains(from), "{from}: {before}");
        fs::write(&records[0], before.replacen(from, to, 1)).unwrap();
        let (code, text, error) = bare.run(&["rerun", "--wire", &folder]);
        assert!(code == 1 && text.contains(field), "{from}: {text}{error}");
        let (_, text, _) = bare.run(&["check", &folder]);
        assert!(text.contains("is changed"), "{text}");
        fs::write(&records[0], before).unwrap();
    }
    fs::remove_file(&records[0]).unwrap();
    let (code, text, error) = bare.run(&["rerun", "--wire", &folder]);
    let expected = "2 of 2 bodies rebuilt, 1 answer decoded again, 1 answer without a record";
    assert!(code == 0 && text.contains(expected), "{text}{error}");
    let (code, text, _) = bare.run(&["check", &folder]);
    assert!(code == 0 && text.contains("note: the record of the request at seq"), "{text}");
    assert!(text.contains("is pruned"), "{text}");
}

/// The answer in a record, from its head on.
fn answer(record: &Path) -> String {
    let text = fs::read_to_string(record).unwrap();
    text[text.find("{\"status\"").unwrap()..].to_owned()
}

/// Replies of Anthropic with each text in one piece.
fn whole(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    use common::{Block, message_whole};
    let block = |part: &ReplyPart| match *part {
        ReplyPart::Text(text) => Block::Text(text),
        ReplyPart::Thought(text, signature) => Block::Thinking(text, signature),
        ReplyPart::Read(id, path) => {
            Block::Call(id, "read", json!({ "filePath": path }).to_string())
        }
        ReplyPart::Task(..) | ReplyPart::Echo(_) | ReplyPart::Error(_) => panic!("not needed here"),
    };
    vec![message_whole(&parts.iter().map(block).collect::<Vec<_>>()).into_bytes()]
}

#[test]
fn a_changed_log_is_found_and_named() {
    let (site, _) = sample(WIRES[1]);
    let lines = site.run(&["export", "last", "--unmasked"]).ok().stdout;
    let hash = |text: &str| Sha256::digest(text.as_bytes()).to_string();
    let payload = |line: &&str| line.contains("\\\"wire\\\":\\\"openai-chat\\\"");
    let payload: Value = serde_json::from_str(lines.lines().find(payload).unwrap()).unwrap();
    let text = payload["text"].as_str().unwrap();
    let model = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text);
        let quoted = |text: &str| json!(text).to_string();
        lines.replace(&hash(text), &hash(&changed)).replace(&quoted(text), &quoted(&changed))
    };
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let finished =
        all(&events, "model.finished")[0]["data"]["body_sha256"].as_str().unwrap().to_owned();
    for (what, changed, field) in [
        ("vendor", model("\"vendor\":\"generic\"", "\"vendor\":\"mistral\""), "body_sha256"),
        ("wire", model("\"wire\":\"openai-chat\"", "\"wire\":\"openai-responses\""), "body_sha256"),
        ("an unknown vendor", model("\"vendor\":\"generic\"", "\"vendor\":\"nobody\""), "wire"),
        ("body_sha256", lines.replace(&finished, &hash("other")), "body_sha256"),
    ] {
        let other = Site::bare();
        let file = other.path("log.jsonl");
        fs::write(&file, changed).unwrap();
        other.run(&["import", file.to_str().unwrap()]).ok();
        let folder = other.session();
        let ran = other.run(&["rerun", "--wire", folder.to_str().unwrap()]);
        assert!(ran.code == 1 && ran.stdout.contains(field), "{what}: {ran:?}");
    }
}

#[test]
fn a_known_secret_in_an_answer_is_in_no_record() {
    for (wire, render) in [(WIRES[0], anthropic as Render), (WIRES[0], whole)] {
        let steps = [Step::Reply(&[ReplyPart::Text("It is correct-horse-battery, I think.")])];
        let server = serve(&steps, render);
        let site = site(&server, wire).setting("secrets/DEPLOY", json!("correct-horse-battery"));
        let events = site.prompt("It is correct-horse-battery, is it?").ok().events();
        let bare = Bare::of(&site);
        let records = bare.records();
        assert_eq!(records.len(), 1);
        let text = fs::read_to_string(&records[0]).unwrap();
        assert!(!text.contains("horse") && !text.contains("batte"), "{text}");
        assert!(
            text.contains("\"end\":{\"dropped\":\"a known secret is in the answer\"}"),
            "{text}"
        );
        assert!(text.contains("{{secret:DEPLOY}}"), "{text}");
        let (code, text, error) =
            bare.run(&["rerun", "--wire", events[0]["session"].as_str().unwrap()]);
        assert!(code == 0 && text.contains("1 of 1 bodies rebuilt, 0 answers"), "{text}{error}");
    }
}

#[test]
fn without_the_setting_nothing_is_recorded_and_bodies_are_rebuilt() {
    let server = serve(SHAPES[1].1, chat);
    let site = site(&server, WIRES[1]).setting("record", json!("none"));
    let events = site.prompt("go").ok().events();
    let bare = Bare::of(&site);
    assert_eq!(bare.records(), Vec::<PathBuf>::new());
    let (code, text, error) =
        bare.run(&["rerun", "--wire", events[0]["session"].as_str().unwrap()]);
    assert!(code == 0 && text.contains("2 of 2 bodies rebuilt, 0 answers"), "{text}{error}");
    let site = Site::scripted(&common::script(json!([common::says("Hello.")])));
    site.prompt("go").ok();
    let ran = site.run(&["rerun", "--wire", "last"]).ok();
    assert!(ran.stdout.contains("1 request without a wire format"), "{ran:?}");
    let ran = site.run(&["explain", "last", "4", "--request", "--wire"]).with(2);
    assert!(ran.stderr.contains("model.requested") || ran.stderr.contains("script"), "{ran:?}");
}

/// The rules of a server like Mistral's: ids of nine letters or digits.
fn refusal(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    for (at, message) in messages.iter().enumerate() {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let ids = calls.map(|call| &call["id"]).chain(message.get("tool_call_id"));
        for id in ids.filter_map(Value::as_str) {
            if id.len() != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
                return Some(format!(
                    "messages.{at}: tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9"
                ));
            }
        }
    }
    None
}

#[test]
fn an_encoding_fault_is_reproduced_from_the_folder_alone() {
    // the user names the wrong vendor: the server has rules that the encoder does not know then
    let server = Server::answering(|request| match refusal(&request.body) {
        Some(message) => {
            Answer::Status(400, vec![], json!({ "error": { "message": message } }).to_string())
        }
        None => Answer::Bytes(chat(&[ReplyPart::Read("call_1", "a.txt")]).concat(), Split::Whole),
    });
    let site = site(&server, WIRES[1]);
    let events = site.prompt("go").with(1).events();
    let failed = only(&events, "model.failed");
    let seq = failed["of"].to_string();
    assert!(failed["data"]["message"].as_str().unwrap().contains("length of 9"), "{failed}");
    let sent = server.requests().pop().unwrap();

    let bare = Bare::of(&site);
    let folder = session(&bare);
    let (code, text, error) = bare.run(&["rerun", "--wire", &folder]);
    let expected = "2 of 2 bodies rebuilt, 2 answers decoded again";
    assert!(code == 0 && text.contains(expected), "{text}{error}");
    let explain = |more: &[&str]| {
        let args = [&["explain", &folder, &seq, "--request", "--wire"], more].concat();
        let (code, text, error) = bare.run(&args);
        assert_eq!(code, 0, "{error}");
        text
    };
    assert_eq!(explain(&[]).as_bytes(), sent.bytes);
    let report: Value = serde_json::from_str(&explain(&["--format", "json"])).unwrap();
    assert_eq!(report["body_sha256"]["recorded"], report["body_sha256"]["rebuilt"]);
    assert_eq!(
        (&report["path"], &report["vendor"]),
        (&json!("/chat/completions"), &json!("generic"))
    );
    assert!(refusal(&report["body"]).is_some());
    let difference = explain(&["--as", "mistral"]);
    assert!(difference.contains("-          \"id\": \"call_1\""), "{difference}");
    let other: Value =
        serde_json::from_str(&explain(&["--as", "mistral", "--format", "json"])).unwrap();
    assert_eq!(refusal(&other["body"]), None, "{other}");
}
