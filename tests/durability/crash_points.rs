//! Promise 1: every session of the corpus is killed at the boundaries of its log's writer, and again
//! during recovery. Shown events are kept, no effect happens twice, and `resume` completes the turn.
//!
//! Each kill is SIGKILL in a place of the commit of one group of appends. A boundary counts once: it is
//! the session, the run of the program, the events that each log has when the program dies, and the
//! place. A kill for which the program ends too early does not count.
//!
//! `LEFTFOLD_KILLS` says how many distinct boundaries are tried (50 if it is not set); `all` tries every
//! group of every session in all three places, and a second kill after each. `LEFTFOLD_SEED` chooses which
//! come first. Needs a debug build: others do not have this fault (`store/src/fault.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::aftermath::{assert_files, assert_marks, assert_started_once, assert_told};
use common::corpus::{Act, CORPUS, Logs, Scenario, is_child, logs, scenario, store};
use common::{Ran, Random, Tally, marked, number_or_all, skipped};
use leftfold_events::event::{EndReason, Event, Turn};
use leftfold_events::{Envelope, SessionId, fold, line, verify};

const PLACES: [&str; 3] = ["before", "synced", "headed"];
/// Kills that are tried one after another in one folder, which is put back for each.
const UNIT: usize = 8;
/// Kills of each session that come before all others, so that a short series has every session, too.
const FIRST: usize = 2;

const LOST: &str = "shown events lost";
const UNSOUND: &str = "logs damaged or invalid";
const TWICE: &str = "events shown twice";
const DOUBLED: &str = "effects doubled";
const UNTOLD: &str = "lost calls untold";
const LEFT: &str = "processes left behind";
const OPEN: &str = "turns without their end";
const STUCK: &str = "runs that fail";

/// A boundary: the group of appends in one run of the program, from 1, and the place in its commit.
#[derive(Clone, Debug)]
struct Kill {
    name: &'static str,
    act: usize,
    at: At,
    /// The second kill, in the run that resumes.
    again: Option<At>,
}

#[derive(Clone, Copy, Debug)]
struct At {
    group: usize,
    place: usize,
}

impl At {
    fn fault(self) -> String {
        format!("{}:{}", self.group, PLACES[self.place % PLACES.len()])
    }
}

/// The number of groups of appends in each run of a session.
fn groups(name: &str) -> Vec<usize> {
    let scenario = scenario(name);
    let file = scenario.site.path("groups");
    let site = scenario.site.env("LEFTFOLD_COUNT_GROUPS", file.display().to_string());
    let mut before = 0;
    let mut counts = Vec::new();
    for act in &scenario.acts {
        act.play(&site, None).with(act.code);
        let after = std::fs::read(&file).map_or(0, |bytes| bytes.len());
        counts.push(after - std::mem::replace(&mut before, after));
    }
    counts
}

/// All kills, in the order in which they are tried: first each group once, all places equally often,
/// and after every eighth of these a second kill.
fn plan(runs: &[(&'static str, Vec<usize>)]) -> Vec<Kill> {
    let mut random = Random::seeded();
    let (mut rounds, mut pairs) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for (name, counts) in runs {
        for (act, groups) in counts.iter().enumerate() {
            for group in 1..=*groups {
                for (round, kills) in rounds.iter_mut().enumerate() {
                    let at = At { group, place: (group + round) % PLACES.len() };
                    kills.push(Kill { name, act, at, again: None });
                    // a run that resumes has the rest, and what it finds lost
                    for later in 1..=groups - group + PLACES.len() {
                        let again =
                            Some(At { group: later, place: (later + round) % PLACES.len() });
                        pairs.push(Kill { name, act, at, again });
                    }
                }
            }
        }
    }
    rounds.iter_mut().for_each(|kills| random.shuffle(kills));
    let [first, ..] = &mut rounds;
    let mut times = HashMap::new();
    let (begin, rest): (Vec<Kill>, Vec<Kill>) = first.drain(..).partition(|kill| {
        let times = times.entry(kill.name).or_insert(0);
        *times += 1;
        *times <= FIRST
    });
    first.extend(begin.into_iter().chain(rest));
    random.shuffle(&mut pairs);
    let mut plan = Vec::new();
    let mut second = pairs.into_iter();
    for kill in rounds.into_iter().flatten() {
        plan.push(kill);
        if plan.len() % 8 == 0 {
            plan.extend(second.next());
        }
    }
    plan.extend(second);
    plan
}

#[test]
fn killed_at_every_boundary_it_goes_on_with_nothing_lost_or_doubled() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds have faults to inject");
    }
    let wanted = number_or_all("LEFTFOLD_KILLS", 50);
    let tally = Tally::promise(1, "crash points")
        .counts(&[
            "distinct boundaries", "kills", "second kills", "sessions", "lines shown",
            "lost calls told",
        ])
        .never(&[LOST, UNSOUND, TWICE, DOUBLED, UNTOLD, LEFT, OPEN, STUCK]);
    let runs = std::sync::Mutex::new(Vec::new());
    each(CORPUS.len(), |n| {
        let counts = groups(CORPUS[n].0);
        runs.lock().unwrap().push((CORPUS[n].0, counts));
    });
    let mut runs = runs.into_inner().unwrap();
    runs.sort();
    let plan = plan(&runs);
    let mut left = plan.as_slice();
    while !left.is_empty() && tally.get("distinct boundaries") < wanted && tally.broken() < 20 {
        let missing = wanted - tally.get("distinct boundaries");
        // the last ones are tried in parallel too
        let (now, later) = left.split_at(missing.max(UNIT * 2).min(left.len()));
        left = later;
        let mut now = now.to_vec();
        now.sort_by_key(|kill| (kill.name, kill.act));
        let units: Vec<&[Kill]> = now
            .chunk_by(|a, b| (a.name, a.act) == (b.name, b.act))
            .flat_map(|kills| kills.chunks(UNIT))
            .collect();
        each(units.len(), |n| try_unit(&tally, units[n]));
    }
    let (sessions, distinct) = (tally.get("sessions"), tally.get("distinct boundaries"));
    tally.finish();
    assert_eq!(sessions, CORPUS.len());
    assert!(distinct >= wanted || left.is_empty() && distinct > plan.len() / 4, "{distinct}");
}

/// Runs `count` units, a few at a time.
fn each(count: usize, unit: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    unit(n);
                }
            });
        }
    });
}

/// Tries kills in one run of one session. The runs before it are played once.
fn try_unit(tally: &Tally, kills: &[Kill]) {
    let Kill { name, act, .. } = kills[0];
    let scenario = scenario(name);
    let mut shown = PrintedLines::default();
    for act in &scenario.acts[..act] {
        shown.add(&act.play(&scenario.site, None).with(act.code));
    }
    let saved = scenario.site.save();
    for kill in kills {
        scenario.site.restore(&saved);
        let trial = Trial { tally, scenario: &scenario, kill, place: format!("{kill:?}") };
        tally.attempt(STUCK, &trial.place, || trial.run(shown.clone()));
    }
}

/// One kill of a session, in the folder of the session as it was before.
struct Trial<'a> {
    tally: &'a Tally,
    scenario: &'a Scenario,
    kill: &'a Kill,
    place: String,
}

impl Trial<'_> {
    fn check(&self, kind: &str, holds: bool, why: impl FnOnce() -> String) {
        self.tally.check(kind, holds, || format!("{}: {}", self.place, why()));
    }

    /// Kills the session, resumes it and checks the result, if the program is still alive at the place
    /// of the kill.
    fn run(&self, mut shown: PrintedLines) {
        let kill = self.kill;
        let fault = kill.at.fault();
        let ran = self.scenario.acts[kill.act].play(&self.scenario.site, Some(&fault));
        if ran.code != -1 {
            return;
        }
        shown.add(&ran);
        let mut before = self.look(&shown);
        let mut boundary =
            format!("{} {} {} {}", kill.name, kill.act, lengths(&before), kill.at.place);
        if let Some(again) = kill.again {
            let Some(session) = unfinished(&before).into_iter().next() else { return };
            let ran = self.resumed(session, Some(&again.fault()));
            if ran.code != -1 {
                return;
            }
            shown.add(&ran);
            let between = self.look(&shown);
            self.look_at_prefix(&before, &between);
            boundary += &format!(", again {} {}", lengths(&between), again.place);
            before = between;
            self.tally.add("second kills", 1);
        }
        self.tally.add("kills", 1);
        self.tally.distinct("distinct boundaries", boundary);
        self.tally.distinct("sessions", kill.name);
        self.goes_on(&before, shown);
    }

    /// Checks that the store is sound, that each log is valid for this program, and that all shown
    /// events are in it.
    fn look(&self, shown: &PrintedLines) -> Logs {
        let Some(store) = store(&self.scenario.site) else {
            self.check(LOST, shown.0.is_empty(), || format!("there is no store: {:?}", shown.0));
            return Vec::new();
        };
        let damage = leftfold_store::check(&store).unwrap().damage;
        self.check(UNSOUND, damage.is_empty(), || format!("{damage:?}"));
        let logs = logs(&self.scenario.site);
        let mut lines = HashSet::new();
        for (session, log) in &logs {
            let other = verify(log);
            self.check(UNSOUND, other.is_empty(), || format!("{session}: {other:?}"));
            let whole = log.iter().zip(1..).all(|(event, seq)| event.seq == seq);
            self.check(UNSOUND, whole, || format!("{session} has a gap"));
            for event in log {
                lines.insert(line::write(event));
                lines.extend(event.event.payloads().into_iter().map(line::write_payload));
            }
        }
        let mut seen = HashSet::new();
        for line in &shown.0 {
            self.check(LOST, lines.contains(line), || line.clone());
            // contents come again with each event that names them
            let once = line.contains(r#""payload":"#) || seen.insert(line);
            self.check(TWICE, once, || line.clone());
        }
        self.tally.add("lines shown", shown.0.len());
        logs
    }

    /// Checks that the logs still contain their earlier events.
    fn look_at_prefix(&self, before: &Logs, after: &Logs) {
        for (session, log) in before {
            let now = after.iter().find(|(known, _)| known == session);
            let kept = now.is_some_and(|(_, now)| now.starts_with(log));
            self.check(LOST, kept, || format!("earlier events of {session}"));
        }
    }

    /// Resumes the session; every other time with a person who answers.
    fn resumed(&self, session: SessionId, fault: Option<&str>) -> Ran {
        let asks = self.kill.at.group.is_multiple_of(2);
        Act::resume(asks).play_with(&self.scenario.site, fault, &[&session.to_string()])
    }

    /// Checks that `resume` completes everything.
    fn goes_on(&self, before: &Logs, mut shown: PrintedLines) {
        let site = &self.scenario.site;
        for session in unfinished(before) {
            shown.add(&self.resumed(session, None).ok());
        }
        let after = self.look(&shown);
        self.look_at_prefix(before, &after);
        for (session, log) in &after {
            let open = fold(log).turn.is_some();
            self.check(OPEN, !open, || session.to_string());
            let first =
                before.iter().find(|(known, _)| known == session).map_or(0, |(_, l)| l.len());
            for event in &log[first..] {
                if let Event::Turn(Turn::Ended(ended)) = &event.event {
                    let completed = ended.reason == EndReason::Completed;
                    self.check(OPEN, completed, || format!("{session}: {:?}", ended.error));
                }
            }
            let told = self.tally.attempt(UNTOLD, &self.place, || assert_told(log));
            self.tally.add("lost calls told", told.unwrap_or_default());
            let left = still_marked(*session);
            self.check(LEFT, left.is_empty(), || format!("{left:?}"));
        }
        let open = unfinished(&after);
        self.check(OPEN, open.is_empty(), || format!("{open:?}"));
        self.tally.attempt(DOUBLED, &self.place, || {
            assert_started_once(&after);
            assert_marks(site, &after);
            after.iter().for_each(|(_, log)| assert_files(site, log));
        });
        let roots = after.iter().filter(|(_, log)| !is_child(log)).map(|(id, _)| id.to_string());
        for id in roots.filter(|_| self.kill.at.group == 1) {
            site.run(&["check", &id]).ok();
            site.run(&["verify", &id]).ok();
        }
    }
}

/// How many events each log has.
fn lengths(logs: &Logs) -> String {
    let lengths: Vec<usize> = logs.iter().map(|(_, log)| log.len()).collect();
    format!("{lengths:?}")
}

/// Processes of this session's calls. A server of a killed node ends with its input, which may take a
/// moment.
fn still_marked(session: SessionId) -> Vec<(u32, String)> {
    let start = Instant::now();
    loop {
        let left = marked(&session.to_string());
        if left.is_empty() || start.elapsed() > Duration::from_secs(5) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The printed output, as whole lines.
#[derive(Clone, Default)]
struct PrintedLines(Vec<String>);

impl PrintedLines {
    fn add(&mut self, ran: &Ran) {
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        let whole = ran.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        self.0.extend(whole.map(|line| line.trim_end().to_owned()));
    }
}

/// Unfinished sessions that are not children.
fn unfinished(logs: &Logs) -> Vec<SessionId> {
    let open = |log: &[Envelope]| {
        let state = fold(log);
        state.turn.is_some() || state.files.restore.is_some()
    };
    let roots = logs.iter().filter(|(_, log)| !is_child(log) && open(log));
    roots.map(|(session, _)| *session).collect()
}
