//! A fault (something missing, full, silent or wrong) ends by its deadline with its
//! cause in words. Each fault is one short run of the program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{
    ASK, Answer, Block, Live, Peer, Ran, Server, Site, Split, Tally, all, asking, bash, call, end,
    message, only, says, script, skipped,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Deadlines here are a few seconds at most; this allows ten times that on busy machines.
const BY_THEN: Duration = Duration::from_secs(60);

/// A folder in which nobody can create a file, not even root.
const READ_ONLY: &str = "/sys/kernel";

/// Checks that a run ends in time.
fn in_time(fault: impl FnOnce() -> Ran) -> Ran {
    let start = Instant::now();
    let ran = fault();
    assert!(start.elapsed() < BY_THEN, "{:?}: {ran:?}", start.elapsed());
    ran
}

fn error(ran: &Ran) -> String {
    end(&ran.events())["error"].as_str().unwrap_or_default().to_owned()
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
}

/// A limit on file sizes: a write fails as on a full disk.
fn the_disk_is_full() {
    let large = "head -c 30000 /dev/urandom | od -c | head -c 45000";
    let mut replies: Vec<Value> = (0..9).map(|n| bash(&format!("echo {n}; {large}"))).collect();
    replies.push(says("done"));
    let site = Site::scripted(&script(json!(replies)))
        .setting("provider/double/models/m/limit/context", json!(10_000_000));
    let limited = site.limited(&["run", "--format", "json", "go"], "-f 600");
    let ran = in_time(|| Live::start(limited).wait()).with(1).saying(&["/db"]);
    assert!(all(&ran.events(), "turn.ended").is_empty());
    site.assert_sound();
    // with enough room it continues
    in_time(|| site.run(&["resume", "--format", "json", "last"])).ok();
    site.assert_sound();
}

/// Standard output has no reader, so the turn is interrupted; the log says so.
fn standard_output_is_full() {
    let mut slow = says("never");
    slow["delay_ms"] = json!(600_000);
    let site = Site::scripted(&script(json!([slow])));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = site.command(&["run", "--format", "json", "go"]);
    let start = Instant::now();
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert!(start.elapsed() < BY_THEN);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let events = site.exported();
    assert_eq!(only(&events, "turn.interrupted")["data"]["by"], "standard output closed");
    site.assert_sound();
}

fn the_data_folder_is_read_only() {
    let site = Site::scripted(&script(json!([says("never")])));
    let home = format!("{READ_ONLY}/leftfold");
    let site = site.env("LEFTFOLD_HOME", &home);
    in_time(|| site.run(&["run", "go"])).with(1).saying(&[&home]);
}

fn the_projects_folder_is_read_only() {
    let site = Site::scripted(&script(json!([
        call("write", json!({ "filePath": format!("{READ_ONLY}/x"), "content": "x" })),
        says("So it cannot be."),
    ])));
    let ran = in_time(|| site.run(&["run", "--yes", "--format", "json", "go"])).ok();
    let events = ran.events();
    let finished = only(&events, "tool.finished");
    assert_eq!(finished["data"]["is_error"], true, "{finished}");
    assert_says(finished["data"]["output"].as_str().unwrap(), &["Cannot write", READ_ONLY]);
    site.assert_sound();
}

/// The node's socket is removed: clients report that no node is there, and the question that nobody
/// can answer ends with the turn's time.
fn the_nodes_socket_is_gone() {
    let site = asking();
    let mut live = site.start(&[&ASK[..5], &["--timeout", "6", "go"]].concat());
    let asked = live.until("permission.asked")["seq"].to_string();
    std::fs::remove_file(site.session().join("socket")).unwrap();
    let answer = ["permission", "answer", "last", &asked, "once"];
    in_time(|| site.run(&answer)).with(1).saying(&["no node runs"]);
    let ran = in_time(|| live.wait()).with(4);
    assert_says(&error(&ran), &["the limit of time is 6s"]);
    site.assert_sound();
}

/// A node is killed while another process uses it.
fn the_node_at_the_socket_is_gone() {
    let site = asking();
    let mut node = site.start(&ASK);
    let session = node.until("permission.asked")["session"].as_str().unwrap().to_owned();
    let joined = ["run", "--session", &session, "--format", "json", "and this"];
    let mut joined = site.start(&joined);
    joined.until("turn.prompted");
    node.signal(Signal::KILL);
    node.wait();
    in_time(|| joined.wait()).with(1).saying(&["leftfold resume"]);
}

fn the_providers_connection_is_gone() {
    let half = message(&[Block::Text("Once upon")]);
    let half = &half[..half.find("event: content_block_stop").unwrap()];
    let server = Server::start(vec![Answer::Cut(half.to_owned())]);
    let site = Site::served(&server).setting("retry/attempts", json!(0));
    let ran = in_time(|| site.prompt("go")).with(1);
    assert_eq!(only(&ran.events(), "model.failed")["data"]["class"], "network");
    assert_says(&error(&ran), &["the connection to", "broke"]);
    site.assert_sound();
}

fn the_model_is_silent() {
    let site = Site::served(&Server::start(vec![Answer::Silence]))
        .setting("provider/local/options/timeout", json!(700))
        .setting("retry/attempts", json!(0));
    let ran = in_time(|| site.prompt("go")).with(1);
    assert_says(&error(&ran), &["silent", "0.7 s"]);
    site.assert_sound();
}

fn the_model_falls_silent_within_an_answer() {
    let half = message(&[Block::Text("Once upon")]);
    let half = &half[..half.find("event: content_block_stop").unwrap()];
    let site = Site::served(&Server::start(vec![Answer::Stall(half.to_owned())]))
        .setting("provider/local/options/chunkTimeout", json!(700))
        .setting("retry/attempts", json!(0));
    let ran = in_time(|| site.prompt("go")).with(1);
    assert_eq!(only(&ran.events(), "model.failed")["data"]["class"], "stalled");
    assert_says(&error(&ran), &["sent nothing for 0.7 s"]);
    site.assert_sound();
}

/// The beginning of a reply, in which a text is open, and a piece of that text.
fn begun() -> (String, String) {
    let whole = message(&[Block::Text("Once")]);
    let (begun, rest) = whole.split_at(whole.find("event: content_block_delta").unwrap());
    let piece = &rest[..rest.find("event: content_block_stop").unwrap()];
    (begun.to_owned(), piece.to_owned())
}

/// The provider's answers are cut off where Leftfold's limits are, and the request is not made again.
fn assert_cut_off(answer: Answer, words: &str) {
    let server = Server::start(vec![answer]);
    let ran = in_time(|| Site::served(&server).prompt("go")).with(1);
    assert_eq!(only(&ran.events(), "model.failed")["data"]["class"], "invalid");
    assert_says(&error(&ran), &["the provider sent", words]);
    assert_eq!(server.requests().len(), 1);
}

fn a_line_of_the_provider_has_no_end() {
    let (begun, _) = begun();
    assert_cut_off(Answer::Endless(begun + "data: ", "x".repeat(1_000)), "of more than 16 MiB");
}

fn a_reply_has_no_end() {
    let (begun, piece) = begun();
    let piece = piece.replace("Once", &"Once upon a time ".repeat(1_000));
    assert_cut_off(Answer::Endless(begun, piece), "a reply of more than 8 MiB");
}

fn a_reply_has_thousands_of_calls() {
    let read = |n| Block::Call("c", "read", json!({ "filePath": format!("{n}") }).to_string());
    let calls = message(&(0..3_000).map(read).collect::<Vec<_>>());
    assert_cut_off(Answer::Stream(calls, Split::Whole), "more than 256 calls in one reply");
}

/// Pieces come as fast as they are taken: the limit of time holds all the same.
fn time_is_up_while_a_reply_goes_on() {
    let (begun, piece) = begun();
    let server = Server::start(vec![Answer::Endless(begun, piece)]);
    let site = Site::served(&server);
    let start = Instant::now();
    let ran = site.run(&["run", "--format", "json", "--timeout", "2", "go"]).with(4);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_says(&error(&ran), &["the limit of time is 2s"]);
    site.assert_sound();
}

/// In mid-turn something happens to the store; the next commit finds it.
fn assert_gone(happens: impl FnOnce(&Path), words: &str) {
    let wait = bash("while [ ! -e go ]; do sleep 0.02; done");
    let site = Site::scripted(&script(json!([wait, says("never")])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    happens(&site.session());
    site.file("go", "");
    let ran = in_time(|| live.wait()).with(1).saying(&[words]);
    assert!(all(&ran.events(), "turn.ended").is_empty());
}

fn the_sessions_folder_is_removed() {
    // the node can make a folder in it meanwhile
    let remove = |session: &Path| {
        common::wait_until("no folder", || {
            std::fs::remove_dir_all(session).is_ok() || !session.exists()
        });
    };
    assert_gone(remove, "was removed while it was in use");
}

fn the_database_is_removed() {
    let remove = |session: &Path| std::fs::remove_file(session.join("db")).unwrap();
    assert_gone(remove, "was removed while it was in use");
}

fn the_database_is_cut() {
    let cut = |session: &Path| {
        let db = std::fs::File::options().write(true).open(session.join("db")).unwrap();
        db.set_len(1_000).unwrap();
    };
    assert_gone(cut, "to 1000 bytes while it was in use");
}

/// The program as a user without other processes, who may read root's files, with at most `most` threads and processes.
/// That limit does not hold for root, and counts all threads of a user. `None`: the tests do not run as root.
fn with_threads(site: &Site, user: u32, most: u32) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can become a user without other processes");
        return None;
    }
    let program = site.command(&["run", "--format", "json", "--timeout", "20", "go"]);
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}"));
    command.args(["--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]);
    command.args(["prlimit", "--core=0"]).arg(format!("--nproc={most}"));
    command.arg(program.get_program()).args(program.get_args());
    let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(set).current_dir(program.get_current_dir().unwrap());
    Some(command)
}

/// With any number of threads the program ends in time, and says what it lacks.
fn threads_run_out() {
    for most in [1, 2, 3, 5, 8, 11, 14, 17, 20] {
        let site = Site::scripted(&script(json!([says("done")])));
        let Some(command) = with_threads(&site, 54321, most) else { return };
        let ran = in_time(|| Live::start(command).wait());
        match ran.code {
            0 => assert!(most > 8, "{most}: {ran:?}"),
            1 => assert_says(&ran.stderr, &["thread", "`ulimit -u`"]),
            _ => panic!("{most}: {ran:?}"),
        }
    }
}

/// While a command runs, the limit falls below the number of threads there are. The next command cannot be started:
/// the model learns why, and the turn ends.
fn threads_run_out_in_mid_turn() {
    let wait = bash("while [ ! -e go ]; do sleep 0.02; done");
    let site = Site::scripted(&script(json!([wait, bash("echo never"), says("So be it.")])));
    let Some(command) = with_threads(&site, 54322, 100) else { return };
    let mut live = Live::start(command);
    live.until("tool.started");
    let pid = live.id().to_string();
    let mut fall = Command::new("setpriv");
    fall.args(["--reuid=54322", "--regid=54322", "--clear-groups"]);
    let fall = fall.args(["prlimit", "--pid", &pid, "--nproc=1:1"]).status();
    assert!(fall.unwrap().success());
    site.file("go", "");
    let ran = in_time(|| live.wait());
    if ran.code == 1 {
        return assert_says(&ran.stderr, &["thread", "`ulimit -u`"]);
    }
    let events = ran.ok().events();
    let last = all(&events, "tool.finished").pop().unwrap();
    assert_eq!(last["data"]["is_error"], true, "{last}");
    assert_says(last["data"]["output"].as_str().unwrap(), &["could not be started"]);
    assert_eq!(end(&events)["text"], "So be it.");
    site.assert_sound();
}

fn a_tool_is_silent() {
    let mut waits = bash("echo begun; sleep 1000");
    waits["parts"][0]["call"]["input"]["timeout"] = json!(500);
    let site = Site::scripted(&script(json!([waits, says("Too slow.")])));
    let ran = in_time(|| site.prompt("go")).ok();
    assert_stopped(&site, &ran, &["0.5 s", "begun"]);
    site.assert_sound();
}

/// Checks that the command was stopped when its time was over, and that the model was told.
fn assert_stopped(site: &Site, ran: &Ran, words: &[&str]) {
    let events = ran.events();
    let started = only(&events, "tool.started");
    assert_eq!(only(&events, "session.deadline_passed")["of"], started["seq"]);
    assert_eq!(only(&events, "tool.cancelled")["of"], started["of"]);
    assert_says(&site.run(&["replay", "last", "--state"]).ok().stdout, words);
    assert_eq!(end(&events)["text"], "Too slow.");
}

/// A question stays unanswered: the turn's time limit ends it.
fn a_person_is_silent() {
    let site = asking();
    let ran = in_time(|| site.run(&[&ASK[..5], &["--timeout", "1", "go"]].concat())).with(4);
    assert_eq!(end(&ran.events())["reason"], "limit");
    site.assert_sound();
}

/// One observer has stopped and one never reads: the turn is not affected.
fn observers_are_silent() {
    let large = "od -c /dev/zero -v | head -c 45000";
    let replies: Vec<Value> = (0..16).map(|n| bash(&format!("echo {n}; {large}"))).collect();
    let wait = bash("while [ ! -e go ]; do sleep 0.02; done");
    let replies = [vec![wait], replies, vec![says("done")]].concat();
    let site = Site::scripted(&script(json!(replies)))
        .setting("provider/double/models/m/limit/context", json!(100_000_000));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let session = live.until("tool.started")["session"].as_str().unwrap().to_owned();
    let mut deaf = Peer::connect(&site.session());
    deaf.ask("_leftfold/watch", &json!({ "session": session, "from": 1 }));
    let mut stopped = site.start(&["observe", &session, "--from", "1", "--format", "json"]);
    stopped.until("tool.started");
    stopped.signal(Signal::STOP);
    site.file("go", "");
    let ran = in_time(|| live.wait()).ok();
    assert_eq!(end(&ran.events())["text"], "done");
    stopped.signal(Signal::CONT);
    site.assert_sound();
}

/// For the next node the clock is years back: the log continues where it is, and a deadline comes
/// when it is due.
fn the_clock_is_set_back() {
    let mut waits = bash("sleep 1000");
    waits["parts"][0]["call"]["input"]["timeout"] = json!(500);
    let site = Site::scripted(&script(json!([says("Now."), waits, says("Too slow.")])));
    site.prompt("go").ok();
    let exported = site.run(&["export", "last"]).ok().stdout;
    let year = only(&site.exported(), "session.created")["at"].as_str().unwrap()[..4].to_owned();
    // leap years stay leap years
    let later = (year.parse::<u32>().unwrap() + 4).to_string();
    let mut shifted = exported;
    for key in ["at", "until"] {
        let at = |year: &str| format!("\"{key}\":\"{year}-");
        shifted = shifted.replace(&at(&year), &at(&later));
    }
    let file = site.file("session.jsonl", &shifted);
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    site.run(&["import", file.to_str().unwrap()]).ok();
    let ran = in_time(|| site.run(&["run", "--continue", "--format", "json", "more"])).ok();
    assert_stopped(&site, &ran, &["0.5 s"]);
    let events = site.exported();
    let times: Vec<&str> = events.iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted() && times.iter().all(|at| at.starts_with(&later)), "{times:?}");
    site.assert_sound();
}

const FAULTS: [(&str, fn()); 22] = [
    ("the disk is full", the_disk_is_full),
    ("standard output is full", standard_output_is_full),
    ("the data folder is read-only", the_data_folder_is_read_only),
    ("the project's folder is read-only", the_projects_folder_is_read_only),
    ("the node's socket is gone", the_nodes_socket_is_gone),
    ("the node at the socket is gone", the_node_at_the_socket_is_gone),
    ("the provider's connection is gone", the_providers_connection_is_gone),
    ("the model is silent", the_model_is_silent),
    ("the model falls silent within an answer", the_model_falls_silent_within_an_answer),
    ("a line of the provider has no end", a_line_of_the_provider_has_no_end),
    ("a reply has no end", a_reply_has_no_end),
    ("a reply has thousands of calls", a_reply_has_thousands_of_calls),
    ("time is up while a reply goes on", time_is_up_while_a_reply_goes_on),
    ("the session's folder is removed", the_sessions_folder_is_removed),
    ("the database is removed", the_database_is_removed),
    ("the database is cut", the_database_is_cut),
    ("threads run out", threads_run_out),
    ("threads run out in mid-turn", threads_run_out_in_mid_turn),
    ("a tool is silent", a_tool_is_silent),
    ("a person is silent", a_person_is_silent),
    ("observers are silent", observers_are_silent),
    ("the clock is set back", the_clock_is_set_back),
];

#[test]
fn each_fault_ends_by_its_deadline_with_its_cause() {
    let next = AtomicUsize::new(0);
    let tally = Tally::also("faults").counts(&["faults"]).never(&["without an end or a cause"]);
    // most of them wait
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((what, fault)) = FAULTS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    tally.add("faults", 1);
                    tally.attempt("without an end or a cause", what, fault);
                }
            });
        }
    });
    tally.finish();
}
