//! Promise 11: eight race to answer a question, exactly one wins, the others learn who it was, and
//! the log has one answer. Tested with clients that hold a connection, and with separate processes.
//!
//! `LEFTFOLD_ROUNDS` sets the number of questions for clients (default 1,000).

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use common::{ASK, Live, Peer, Site, Tally, all, bash, end, says, script};
use serde_json::{Value, json};

/// Number of racers for each question.
const RACERS: usize = 8;
/// Questions in one run.
const RUN: usize = 50;
/// One round of processes for this many rounds of clients, because processes are slow to start.
const PROCESSES: usize = 200;

fn rounds() -> usize {
    std::env::var("LEFTFOLD_ROUNDS").map_or(1_000, |text| text.parse().unwrap())
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

#[test]
fn eight_race_to_answer_and_one_wins() {
    let rounds = rounds();
    let left = AtomicUsize::new(rounds.div_ceil(RUN));
    let tally = Tally::promise(11, "races")
        .counts(&["racers each", "questions for clients", "questions for processes"])
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
    run_of_processes(&tally, (rounds / PROCESSES).max(1));
    tally.finish();
}
