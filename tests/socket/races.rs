//! Promise 11: eight race to answer a question, exactly one wins, the others learn who it was, and
//! the log has one answer. Tested with clients that hold a connection, with separate processes, and with ways mixed:
//! socket, command line, HTTP server, editor, and the input of `run` and `resume`.
//!
//! `LEFTFOLD_ROUNDS` sets the number of questions for clients (default 200).

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use common::{
    ASK, Editor, Live, Peer, STEP_TIMEOUT, Site, Tally, all, bash, end, says, script,
    wait_for_node, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Number of racers for each question.
const RACERS: usize = 8;
/// Questions in one run.
const RUN: usize = 50;
/// One round of processes for this many rounds of clients, because processes are slow to start.
const PROCESSES: usize = 200;

fn rounds() -> usize {
    std::env::var("LEFTFOLD_ROUNDS").map_or(200, |text| text.parse().unwrap())
}

/// A turn that asks `questions` questions, ten in each reply, and then waits until every racer
/// knows.
fn asking(questions: usize) -> Site {
    let todo = |n: usize| json!({ "id": "1", "content": format!("{n}"), "status": "pending", "priority": "low" });
    let call =
        |n: usize| json!({ "call": { "name": "todowrite", "input": { "todos": [todo(n)] } } });
    let all: Vec<Value> = (0..questions).map(call).collect();
    let mut replies: Vec<Value> = all.chunks(10).map(|parts| json!({ "parts": parts })).collect();
    replies.push(bash("while [ ! -e go ]; do sleep 0.02; done"));
    replies.push(says("All asked."));
    Site::scripted(&script(json!(replies))).setting("permission", json!({ "todowrite": "ask" }))
}

/// The result for one racer.
enum AnswerOutcome {
    Accepted,
    /// The name of the racer who was first.
    Late(String),
    Nonsense(String),
}

const NOT_ONE: &str = "questions without exactly one winner";
const TWICE: &str = "questions answered twice in the log";
const UNTOLD: &str = "losers that were not told the winner";

/// Checks one question: the log names the accepted racer, and all others were told so.
fn look_at(tally: &Tally, told: &[AnswerOutcome], answered: &Value) {
    let by = answered["data"]["by"].as_str().unwrap();
    let winners = told.iter().filter(|told| matches!(told, AnswerOutcome::Accepted)).count();
    tally.check(NOT_ONE, winners == 1, || format!("{winners} of {}: {answered}", told.len()));
    for told in told {
        let told = match told {
            AnswerOutcome::Accepted => continue,
            AnswerOutcome::Late(first) | AnswerOutcome::Nonsense(first) => first,
        };
        tally.check(UNTOLD, told.contains(by), || format!("told `{told}`, and it was `{by}`"));
    }
}

/// The answer to each question in the log, by the question's seq.
fn answers(tally: &Tally, events: &[Value]) -> HashMap<u64, Value> {
    let mut answers = HashMap::new();
    for answered in all(events, "permission.answered") {
        let of = answered["of"].as_u64().unwrap();
        let first = answers.insert(of, answered.clone()).is_none();
        tally.check(TWICE, first, || answered.to_string());
    }
    let asked: Vec<u64> = all(events, "permission.asked")
        .iter()
        .map(|asked| asked["seq"].as_u64().unwrap())
        .collect();
    assert!(asked.iter().all(|of| answers.contains_key(of)), "a question without an answer");
    assert_eq!(asked.len(), answers.len());
    answers
}

/// One client. It answers each question as soon as all others are ready to.
fn race(
    mut peer: Peer,
    session: &str,
    start: &Barrier,
    asked: &Receiver<u64>,
    told: &Sender<(u64, AnswerOutcome)>,
) {
    while let Ok(of) = asked.recv() {
        start.wait();
        let params = json!({ "session": session, "of": of, "reply": "once" });
        let answer = peer.try_call("_leftfold/answer", &params).unwrap_or_default();
        let result = &answer["result"];
        let heard = match (result["accepted"].as_bool(), result["by"].as_str()) {
            (Some(true), _) => AnswerOutcome::Accepted,
            (Some(false), Some(by)) => AnswerOutcome::Late(by.to_owned()),
            _ => AnswerOutcome::Nonsense(answer.to_string()),
        };
        told.send((of, heard)).unwrap();
    }
}

/// A run with `questions` questions.
fn run_of_clients(tally: &Tally, questions: usize) {
    let site = asking(questions);
    let mut live = site.start(&ASK);
    let first = live.until("permission.asked");
    let session = first["session"].as_str().unwrap().to_owned();
    let store = site.session();
    let start = Barrier::new(RACERS);
    let mut told: HashMap<u64, Vec<AnswerOutcome>> = HashMap::new();
    std::thread::scope(|scope| {
        let (sender, heard) = channel();
        let racers: Vec<Sender<u64>> = (0..RACERS)
            .map(|_| {
                let (asked, questions) = channel();
                let (peer, session, start) = (Peer::connect(&store), session.clone(), &start);
                let told = sender.clone();
                scope.spawn(move || race(peer, &session, start, &questions, &told));
                asked
            })
            .collect();
        let mut asked = first["seq"].as_u64().unwrap();
        for nth in 1..=questions {
            racers.iter().for_each(|racer| racer.send(asked).unwrap());
            for (of, heard) in heard.iter().take(RACERS) {
                told.entry(of).or_default().push(heard);
            }
            if nth < questions {
                asked = live.until("permission.asked")["seq"].as_u64().unwrap();
            }
        }
    });
    site.file("go", "");
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "All asked.");
    let answers = answers(tally, &events);
    assert_eq!((answers.len(), told.len()), (questions, questions));
    told.iter().for_each(|(of, told)| look_at(tally, told, &answers[of]));
    tally.add("questions for clients", questions);
}

/// Eight processes for each question.
fn run_of_processes(tally: &Tally, questions: usize) {
    let site = asking(questions);
    let mut live = site.start(&ASK);
    let mut told = HashMap::new();
    for _ in 0..questions {
        let asked = live.until("permission.asked")["seq"].clone();
        let of = asked.to_string();
        let answer = ["permission", "answer", "last", &of, "once"];
        let racers: Vec<Live> = (0..RACERS).map(|_| site.start(&answer)).collect();
        let ends = racers.into_iter().map(|racer| {
            let ran = racer.wait();
            match ran.code {
                0 => AnswerOutcome::Accepted,
                _ => AnswerOutcome::Late(ran.with(1).saying(&["already answered by"]).stderr),
            }
        });
        told.insert(asked.as_u64().unwrap(), ends.collect::<Vec<AnswerOutcome>>());
    }
    site.file("go", "");
    let events = live.wait().ok().events();
    let answers = answers(tally, &events);
    assert_eq!(answers.len(), questions);
    told.iter().for_each(|(of, told)| look_at(tally, told, &answers[of]));
    site.assert_sound();
    tally.add("questions for processes", questions);
}

/// One way to answer a question. `None`: the way has no answer of its own, and the log names it if it was first.
type Way<'a> = Box<dyn FnOnce() -> Option<AnswerOutcome> + Send + 'a>;

/// Answers the question over the socket.
fn by_socket<'a>(store: &Path, session: &str, of: u64) -> Way<'a> {
    let mut peer = Peer::connect(store);
    let params = json!({ "session": session, "of": of, "reply": "once", "by": "ann" });
    Box::new(move || {
        let answer = peer.call("_leftfold/answer", &params);
        let result = &answer["result"];
        Some(match (result["accepted"].as_bool(), result["by"].as_str()) {
            (Some(true), _) => AnswerOutcome::Accepted,
            (Some(false), Some(by)) => AnswerOutcome::Late(by.to_owned()),
            _ => AnswerOutcome::Nonsense(answer.to_string()),
        })
    })
}

/// Answers the question with `leftfold permission answer`.
fn by_command_line(site: &Site, of: u64) -> Way<'_> {
    Box::new(move || {
        let ran = site.run(&["permission", "answer", "last", &of.to_string(), "once"]);
        Some(match ran.code {
            0 => AnswerOutcome::Accepted,
            1 => AnswerOutcome::Late(ran.stderr),
            _ => AnswerOutcome::Nonsense(format!("{ran:?}")),
        })
    })
}

/// The status and body of a request to `leftfold serve`.
fn http(port: u16, method: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let body = body.to_string();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close");
    let kind = "content-type: application/json";
    let length = body.len();
    write!(stream, "{head}\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Answers the question over HTTP.
fn by_http<'a>(port: u16, request: &str) -> Way<'a> {
    let path = format!("/permission/{request}/reply");
    Box::new(move || {
        let (status, body) = http(port, "POST", &path, &json!({ "reply": "once" }));
        Some(match status {
            200 => AnswerOutcome::Accepted,
            404 => AnswerOutcome::Late(body),
            _ => AnswerOutcome::Nonsense(format!("{status} {body}")),
        })
    })
}

/// All ways at once answer the question, and the log has one of them. `other` is the name of a way that gets no answer.
fn race_in_ways(tally: &Tally, site: &Site, of: u64, other: &str, ways: Vec<Way<'_>>) {
    let start = Barrier::new(ways.len());
    tally.add("answers by mixed ways", ways.len());
    let told: Vec<AnswerOutcome> = std::thread::scope(|scope| {
        let racers = ways.into_iter().map(|way| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                way()
            })
        });
        let racers: Vec<_> = racers.collect();
        racers.into_iter().filter_map(|racer| racer.join().unwrap()).collect()
    });
    let mut found = Vec::new();
    wait_until("the answer is in the log", || {
        let events = site.exported();
        found = all(&events, "permission.answered").into_iter().cloned().collect();
        found.retain(|answered| answered["of"] == of);
        !found.is_empty()
    });
    tally.check(TWICE, found.len() == 1, || format!("{found:?}"));
    let by = found[0]["data"]["by"].as_str().unwrap();
    let accepted = told.iter().filter(|told| matches!(told, AnswerOutcome::Accepted)).count();
    let winners = accepted + usize::from(by.starts_with(other));
    tally.check(NOT_ONE, winners == 1, || format!("{accepted} accepted: {}", found[0]));
    for told in &told {
        if let AnswerOutcome::Late(first) | AnswerOutcome::Nonsense(first) = told {
            tally.check(UNTOLD, first.contains(by), || format!("told `{first}`, it was `{by}`"));
        }
    }
    tally.add("questions for mixed ways", 1);
}

/// The input of `run`, or of `resume` after a kill, races with the socket and the command line.
fn input_and_others(tally: &Tally, resumed: bool) {
    let site = asking(1);
    let mut command = site.command(&ASK);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    let asked = live.until("permission.asked");
    let (session, of) = (asked["session"].as_str().unwrap(), asked["seq"].as_u64().unwrap());
    let store = site.session();
    if resumed {
        live.signal(Signal::KILL);
        live.wait();
        let args = ["resume", "last", "--format", "json", "--permission-mode", "ask"];
        let mut command = site.command(&args);
        command.stdin(Stdio::piped());
        live = Live::start(command);
        live.until("session.resumed");
    }
    wait_for_node(&store);
    let mut input = live.input();
    let typed: Way<'_> = Box::new(move || {
        // an input that loses may be closed
        let _ = input.write_all(b"once\n");
        None
    });
    let mut ways = vec![typed, by_command_line(&site, of), by_command_line(&site, of)];
    ways.extend((0..3).map(|_| by_socket(&store, session, of)));
    race_in_ways(tally, &site, of, "terminal", ways);
    site.file("go", "");
    assert_eq!(end(&live.wait().ok().events())["text"], "All asked.");
    site.assert_sound();
}

/// An editor races with the socket and the command line.
fn editor_and_others(tally: &Tally, questions: usize) {
    let site = asking(questions);
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    for _ in 0..questions {
        let question = editor.question(&session);
        let of = open_question(&site);
        let store = site.session();
        let chosen = &mut editor;
        let mut ways: Vec<Way<'_>> = vec![Box::new(move || {
            chosen.choose(&question, "allow_once");
            None
        })];
        ways.extend((0..2).map(|_| by_command_line(&site, of)));
        ways.extend((0..3).map(|_| by_socket(&store, &session, of)));
        race_in_ways(tally, &site, of, "acp", ways);
    }
    site.file("go", "");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site.assert_sound();
}

/// The seq of the question that nobody has answered.
fn open_question(site: &Site) -> u64 {
    let mut open = None;
    wait_until("a question is open", || {
        let events = site.exported();
        let answered = all(&events, "permission.answered");
        open = all(&events, "permission.asked")
            .iter()
            .find(|asked| answered.iter().all(|answered| answered["of"] != asked["seq"]))
            .and_then(|asked| asked["seq"].as_u64());
        open.is_some()
    });
    open.unwrap()
}

/// Clients of `leftfold serve` race with the socket and the command line.
fn server_and_others(tally: &Tally, questions: usize) {
    let site = asking(questions);
    let mut live = site.start(&["serve", "--port", "0"]);
    let line = live.line().unwrap();
    let port: u16 = line.trim().rsplit_once(':').unwrap().1.parse().unwrap();
    let (_, created) = http(port, "POST", "/session", &json!({}));
    let created: Value = serde_json::from_str(&created).unwrap();
    let id = created["id"].as_str().unwrap();
    let parts = json!({ "parts": [{ "type": "text", "text": "go" }] });
    assert_eq!(http(port, "POST", &format!("/session/{id}/prompt_async"), &parts).0, 204);
    for _ in 0..questions {
        let mut request = None;
        wait_until("the server shows a question", || {
            let (_, open) = http(port, "GET", "/permission", &json!({}));
            let open: Value = serde_json::from_str(&open).unwrap();
            request = open[0]["id"].as_str().map(str::to_owned);
            request.is_some()
        });
        let of = open_question(&site);
        let events = site.exported();
        let session = events.last().unwrap()["session"].as_str().unwrap().to_owned();
        let store = site.path("home/store");
        let mut ways = vec![by_command_line(&site, of), by_command_line(&site, of)];
        ways.extend((0..3).map(|_| by_http(port, request.as_ref().unwrap())));
        ways.extend((0..3).map(|_| by_socket(&store, &session, of)));
        race_in_ways(tally, &site, of, "nobody else", ways);
    }
    site.file("go", "");
    wait_until("the turn has ended", || !all(&site.exported(), "turn.ended").is_empty());
    live.signal(Signal::TERM);
    live.wait().ok();
    site.assert_sound();
}

#[test]
fn eight_race_to_answer_and_one_wins() {
    let rounds = rounds();
    let left = AtomicUsize::new(rounds.div_ceil(RUN));
    let tally = Tally::promise(11, "races")
        .counts(&[
            "racers each", "questions for clients", "questions for processes",
            "questions for mixed ways", "answers by mixed ways",
        ])
        .never(&[NOT_ONE, TWICE, UNTOLD]);
    tally.add("racers each", RACERS);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let begin = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                while let Ok(runs) = begin() {
                    // the first run may be shorter
                    let short = runs * RUN > rounds;
                    let questions = if short { rounds % RUN } else { RUN };
                    run_of_clients(&tally, questions);
                }
            });
        }
    });
    let few = (rounds / PROCESSES).max(1);
    run_of_processes(&tally, few);
    std::thread::scope(|scope| {
        scope.spawn(|| server_and_others(&tally, few));
        scope.spawn(|| editor_and_others(&tally, few));
        for at in 0..few {
            input_and_others(&tally, at % 2 == 1);
        }
    });
    tally.finish();
}
