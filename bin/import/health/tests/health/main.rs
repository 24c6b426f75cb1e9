//! Promise 16: damage that breaks sessions of other agents is found and mended. Healthy sessions are
//! grown from seeds, and damage of every kind is planted into them. All of it must be found, at its
//! place; a healthy session has no finding; a second reader makes the agent's next request from the
//! mended copy, and the rules of the API have nothing against it.
//!
//! `LEFTFOLD_DAMAGES` says how many sessions (600 if it is not set), `LEFTFOLD_SEED` which is the
//! first: a session that fails comes again with `LEFTFOLD_SEED=N LEFTFOLD_DAMAGES=1`.
#![allow(clippy::print_stdout, reason = "a promise tells its count")]
// Release builds have no rules of the APIs.
#![cfg(debug_assertions)]
#![cfg(test)]

mod damage;
// modules of the library, included for the tests in them
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/media.rs"]
mod media;
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "../../src/pairs.rs"]
mod pairs;
mod random;
mod reader;
mod sessions;
#[path = "../../../../../tests/common/tally.rs"]
mod tally;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use damage::{Planted, plant};
use leftfold_import::{ItemKind, MessagePart, Origin, read};
use leftfold_import_health::{DamageKind, Examination, Finding, Severity, examine};
use random::{Random, number};
use serde_json::Value;
use sessions::Session;
use tally::Tally;

const AGENTS: [Origin; 3] = [Origin::Claude, Origin::Codex, Origin::Opencode];

#[derive(Default)]
struct FoundDamage {
    sessions: u64,
    planted: BTreeMap<(&'static str, DamageKind), u64>,
    found: u64,
    mended: u64,
    /// The kinds for which the second reader refused the session before mending.
    refused: BTreeMap<(&'static str, DamageKind), u64>,
    missed: Vec<String>,
    false_alarms: Vec<String>,
    still_refused: Vec<String>,
    lost: Vec<String>,
}

impl FoundDamage {
    /// Grows a session, examines it, damages it, and examines it again.
    fn try_seed(&mut self, seed: u64) {
        let mut random = Random(seed);
        let origin = AGENTS[usize::try_from(seed % 3).unwrap()];
        let mut session = Session::grow(origin, &mut random);
        self.sessions += 1;
        let healthy = session.text();
        let told = |what: &str| format!("seed {seed}, {}: {what}", origin.name());
        let examined = examine(origin, healthy.as_bytes()).unwrap();
        for finding in &examined.findings {
            self.false_alarms.push(told(&format!("{finding:?}")));
        }
        let faults = reader::faults(origin, &healthy);
        assert!(
            faults.is_empty(),
            "the generator is wrong: {}",
            told(&format!("{faults:?}\n{healthy}"))
        );
        let kinds = DamageKind::ALL.len() as u64;
        let first = DamageKind::ALL[usize::try_from(seed / 3 % kinds).unwrap()];
        let planted = damages(&mut session, first, &mut random);
        let text = session.text();
        let examined = examine(origin, text.as_bytes()).unwrap();
        for planted in &planted {
            *self.planted.entry((origin.name(), planted.kind)).or_default() += 1;
            if is_found(&session, planted, &examined.findings) {
                self.found += 1;
            } else {
                self.missed.push(told(&format!("{planted:?} {:#?}\n{text}", examined.findings)));
            }
        }
        if let [only] = planted.as_slice()
            && !reader::faults(origin, &text).is_empty()
        {
            *self.refused.entry((origin.name(), only.kind)).or_default() += 1;
        }
        let mended = String::from_utf8(examined.mended.clone()).unwrap();
        let faults = reader::faults(origin, &mended);
        let again = examine(origin, &examined.mended).unwrap();
        if faults.is_empty() && again.findings.is_empty() && again.mended == examined.mended {
            self.mended += 1;
        } else {
            self.still_refused.push(told(&format!(
                "{planted:?} {faults:?} {:#?}\n{text}\n->\n{mended}",
                again.findings
            )));
        }
        for lost in lost(&session, &planted, &examined, [&healthy, &text]) {
            self.lost.push(told(&format!("{lost}\n{text}\n->\n{mended}")));
        }
    }

    fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.found += other.found;
        self.mended += other.mended;
        for (key, count) in other.planted {
            *self.planted.entry(key).or_default() += count;
        }
        for (key, count) in other.refused {
            *self.refused.entry(key).or_default() += count;
        }
        self.missed.extend(other.missed);
        self.false_alarms.extend(other.false_alarms);
        self.still_refused.extend(other.still_refused);
        self.lost.extend(other.lost);
    }

    fn of(&self, agent: &str) -> u64 {
        self.planted.iter().filter(|((name, _), _)| *name == agent).map(|(_, count)| count).sum()
    }
}

/// Plants one to four damages, each into a turn of its own. `first` is the kind of the first one.
fn damages(session: &mut Session, first: DamageKind, random: &mut Random) -> Vec<Planted> {
    let mut planted: Vec<Planted> = Vec::new();
    let wanted = if random.one_in(2) { 1 } else { 2 + random.below(3) };
    for round in 0..30 {
        if planted.len() == wanted {
            break;
        }
        let kind = if round < 12 && planted.is_empty() {
            first
        } else {
            DamageKind::ALL[random.below(DamageKind::ALL.len())]
        };
        let turn = random.below(session.turns);
        let mut tried = session.clone();
        if let Some(more) = plant(&mut tried, kind, turn, random) {
            *session = tried;
            planted.push(more);
        }
    }
    planted
}

fn is_found(session: &Session, planted: &Planted, findings: &[Finding]) -> bool {
    let lines = planted.tag.map(|tag| session.lines(tag));
    findings.iter().any(|finding| {
        let is_there = lines.is_none_or(|(first, last)| (first..=last).contains(&finding.line));
        finding.kind == planted.kind && is_there
    })
}

/// Content that the mended copy lacks although it was not damaged: entries of other turns, and texts
/// that `leftfold import` reads in the healthy session and in the damaged one.
fn lost(
    session: &Session,
    planted: &[Planted],
    examined: &Examination,
    [healthy, damaged]: [&str; 2],
) -> Vec<String> {
    let mended = String::from_utf8(examined.mended.clone()).unwrap();
    let mut lost = Vec::new();
    if session.origin == Origin::Opencode {
        let export: Value = serde_json::from_str(&mended).unwrap();
        let messages = export["messages"].as_array().unwrap();
        for entry in &session.entries {
            let is_damaged =
                planted.iter().any(|planted| planted.turn == entry.turn || planted.tag.is_none());
            if !is_damaged && !messages.contains(&entry.value) {
                lost.push(entry.value.to_string());
            }
        }
    } else {
        let lines: HashSet<&str> = mended.lines().collect();
        let strip = |value: &Value| {
            let mut value = value.clone();
            for link in ["parentUuid", "logicalParentUuid"] {
                value[link] = Value::Null;
            }
            value.to_string()
        };
        let relinked: HashSet<String> = lines
            .iter()
            .filter_map(|line| Some(strip(&serde_json::from_str(line).ok()?)))
            .collect();
        for entry in &session.entries {
            let is_damaged = planted.iter().any(|planted| planted.turn == entry.turn);
            let is_kept = lines.contains(entry.value.to_string().as_str())
                || session.origin == Origin::Claude && relinked.contains(&strip(&entry.value));
            if !is_damaged && !is_kept {
                lost.push(entry.value.to_string());
            }
        }
    }
    let kept = imported(session.origin, &mended);
    let before = imported(session.origin, healthy);
    let read = imported(session.origin, damaged).into_iter().filter(|words| before.contains(words));
    lost.extend(read.filter(|words| !kept.contains(words)));
    lost
}

/// The texts of prompts and answers that an import reads.
fn imported(origin: Origin, text: &str) -> HashSet<String> {
    let mut texts = HashSet::new();
    let Ok(transcript) = read(origin, text, "theirs", None) else { return texts };
    for item in transcript.items {
        match item.what {
            ItemKind::Prompt(parts) => {
                texts.extend(
                    parts.into_iter().filter(|part| part.mime.is_none()).map(|part| part.text),
                );
            }
            ItemKind::Reply(reply) => {
                texts.extend(reply.parts.into_iter().filter_map(|part| match part {
                    MessagePart::Text(text) => Some(text),
                    MessagePart::Reasoning { .. } | MessagePart::Call(_) => None,
                }));
            }
            ItemKind::Summary(summary) => drop(texts.insert(summary)),
            ItemKind::Outcome(_) | ItemKind::Interrupted | ItemKind::Failed(_) => {}
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// All seeds, on as many threads as there are processors.
fn try_all(seeds: Range<u64>) -> FoundDamage {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        let mut tally = FoundDamage::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return tally;
            }
            tally.try_seed(seed);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut whole = FoundDamage::default();
        threads.into_iter().for_each(|thread| whole.add(thread.join().unwrap()));
        whole
    })
}

#[test]
fn damage_is_found_and_mended() {
    let (first, count) = (number("LEFTFOLD_SEED", 1), number("LEFTFOLD_DAMAGES", 600));
    let mut found = try_all(first..first + count);
    for ((agent, kind), count) in &found.planted {
        let refused = found.refused.get(&(*agent, *kind)).copied().unwrap_or_default();
        println!("  {agent}, {}: {count} planted, {refused} refused before mending", kind.name());
    }
    let kinds: BTreeSet<_> = found.planted.keys().map(|(_, kind)| kind).collect();
    let tally = Tally::promise(16, "doctor")
        .counts(&["sessions", "agents", "damages", "kinds of damage", "found", "mended"])
        .never(&["missed", "false alarms", "refused after mending", "with other content lost"]);
    let number = |count: u64| usize::try_from(count).unwrap();
    tally.add("sessions", number(found.sessions));
    tally.add("agents", AGENTS.len());
    tally.add("damages", number(found.planted.values().sum()));
    tally.add("kinds of damage", kinds.len());
    tally.add("found", number(found.found));
    tally.add("mended", number(found.mended));
    tally.none("missed", std::mem::take(&mut found.missed));
    tally.none("false alarms", std::mem::take(&mut found.false_alarms));
    tally.none("refused after mending", std::mem::take(&mut found.still_refused));
    tally.none("with other content lost", std::mem::take(&mut found.lost));
    tally.finish();
    if first != 1 || count < 600 {
        return;
    }
    for agent in AGENTS {
        assert!(found.of(agent.name()) > count / 3, "{}", agent.name());
    }
    for ((agent, kind), planted) in &found.planted {
        // Every kind that is called an error is one: the API refused it before.
        let is_sent = kind.severity() == Severity::Error;
        let refused = found.refused.contains_key(&(*agent, *kind));
        assert!(*planted > 2 && (!is_sent || refused), "{agent}, {kind:?}");
    }
}

#[test]
fn a_broken_line_keeps_its_whole_records() {
    const ALL: &str = "each of its objects gets a line";
    const PART: &str = "its whole objects are kept, the rest is dropped";
    for (line, found, mend) in [
        ("{\"type\":\"a\"}{\"type\":\"b\"}", vec!["a", "b"], ALL),
        ("{\"type\":\"a\"}{\"type\":\"b\",\"message\":{\"co", vec!["a"], PART),
        ("{\"type\":\"us{\"type\":\"b\",\"sessionId\":\"s\"}", vec!["b"], PART),
        ("\0\0{\"type\":\"a\"}", vec!["a"], "its text is repaired"),
        ("\u{feff}{\"type\":\"\ta\"}", vec!["\ta"], "its text is repaired"),
        ("{\"type\":\"a\\ud83d\"}", vec!["a\u{fffd}"], "its text is repaired"),
        (
            "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"x\"}",
            vec![],
            "dropped",
        ),
        ("[1]", vec![], "dropped"),
        ("\0\0", vec![], "dropped"),
    ] {
        let text = format!("{line}\n{{\"type\":\"last\"}}\n");
        let examined = examine(Origin::Claude, text.as_bytes()).unwrap();
        let records = serde_json::Deserializer::from_slice(&examined.mended).into_iter::<Value>();
        let kinds: Vec<Value> = records.map(|record| record.unwrap()["type"].clone()).collect();
        assert_eq!(kinds, [found, vec!["last"]].concat(), "{line:?}");
        let [finding] = &examined.findings[..] else { panic!("{line:?}: {examined:?}") };
        assert_eq!(
            (finding.kind, finding.mend.as_str()),
            (DamageKind::BrokenLine, mend),
            "{line:?}"
        );
    }
}

#[test]
fn unchanged_lines_keep_their_bytes() {
    let text = "{ \"type\" : \"a\" }\r\n\n{\"n\":1.50}";
    for (before, findings) in [("", 0), ("broken\n", 1)] {
        let examined = examine(Origin::Claude, format!("{before}{text}").as_bytes()).unwrap();
        assert_eq!((&*examined.mended, examined.findings.len()), (text.as_bytes(), findings));
    }
}

/// Large files that are made to take long: the time grows with their size, not with its square.
#[test]
fn hostile_files_take_seconds() {
    const MANY: usize = 10_000;
    let claude = |kind: &str, id: usize, parent: String, content: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{id}\",\"parentUuid\":{parent},\"isSidechain\":false,\"sessionId\":\"s\",\
             \"message\":{{\"role\":\"{kind}\",\"content\":{content}}}}}\n"
        )
    };
    let lines = |line: &dyn Fn(usize) -> String| (0..MANY).map(line).collect::<String>();
    let call = "[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}]";
    let result = "[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"\"}]";
    let files = [
        // one cycle of parents
        lines(&|at| claude("user", at, format!("\"{}\"", (at + 1) % MANY), "\"x\"")),
        // calls with one id, and results
        lines(&|at| claude("assistant", at, format!("\"{}\"", at.wrapping_sub(1)), call))
            + &lines(&|at| claude("user", MANY + at, format!("\"{}\"", MANY + at - 1), result)),
        // records with one id
        lines(&|at| claude("user", 1, "null".to_owned(), &format!("\"{at}\""))),
        // compactions without a summary
        lines(&|at| {
            format!(
                "{{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"{at}\",\"sessionId\":\"s\"}}\n"
            )
        }),
        // blocks of a message that are none
        claude("user", 1, "null".to_owned(), &format!("[{}1]", "1,".repeat(MANY))),
        // beginnings of records in a torn line
        "{\"type\":\"".repeat(MANY),
        "{\"info\":{\"id\":\"ses_1\"},\"messages\":[".to_owned() + &"{\"parts\":[{},".repeat(MANY),
        "[".repeat(MANY),
    ];
    for file in files {
        for origin in AGENTS {
            let start = std::time::Instant::now();
            if let Ok(examined) = examine(origin, file.as_bytes()) {
                assert!(examined.findings.len() <= 10_000);
            }
            assert!(start.elapsed().as_secs() < 60, "{}: {:.100}", origin.name(), file);
        }
    }
}

/// Whatever the bytes: no panic, and nothing left to mend.
#[test]
fn any_bytes_are_examined() {
    let (first, count) = (number("LEFTFOLD_SEED", 1), number("LEFTFOLD_DAMAGES", 600));
    let tally = Tally::promise(16, "random bytes").counts(&["files"]).never(&["not mended whole"]);
    for seed in first..first + count {
        let mut random = Random(seed);
        let origin = AGENTS[usize::try_from(seed % 3).unwrap()];
        let mut bytes = Session::grow(origin, &mut random).text().into_bytes();
        for _ in 0..1 + random.below(6) {
            if bytes.is_empty() {
                break;
            }
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = random.next().to_le_bytes()[0],
                2 => bytes[at] = *random.pick(b"\"\\{}[]:,\n\0").unwrap(),
                3 => drop(bytes.drain(at..(at + random.below(300)).min(bytes.len()))),
                _ => {
                    let piece = bytes[at..(at + random.below(300)).min(bytes.len())].to_vec();
                    let to = random.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
        }
        let Ok(found) = examine(origin, &bytes) else { continue };
        tally.add("files", 1);
        let again = examine(origin, &found.mended).map(|again| again.findings);
        let whole = again.as_ref().is_ok_and(Vec::is_empty);
        tally.check("not mended whole", whole, || format!("seed {seed}: {again:?}"));
    }
    tally.finish();
}
