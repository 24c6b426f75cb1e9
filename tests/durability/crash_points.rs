//! Kills every session of the corpus at every boundary of its log's writer, and again during
//! recovery. PrintedLines events are kept, no effect happens twice, and `resume` completes the turn.
//!
//! `LEFTFOLD_BOUNDARIES` sets the kills of each session (spread evenly; default 8), `LEFTFOLD_SEED`
//! the start of the series. `LEFTFOLD_ALL=1` tries every boundary of every session, in all three
//! places of it. Needs a debug build: others do not have this fault (`store/src/fault.rs`).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::aftermath::{assert_files, assert_marks, assert_started_once, assert_told};
use common::corpus::{Act, CORPUS, Logs, is_child, logs, scenario, store};
use common::{Ran, Site, Tally, marked};
use leftfold_events::event::{EndReason, Event, Turn};
use leftfold_events::{Envelope, Seq, SessionId, fold, line, verify};

const PLACES: [&str; 3] = ["before", "synced", "headed"];
/// Sessions that are killed again while they are resumed.
const AGAIN: [&str; 2] = ["tools", "children"];

/// A boundary: the group of appends in one run of the program, from 1, and the place in its commit.
#[derive(Clone, Debug)]
struct Kill {
    name: &'static str,
    act: usize,
    group: usize,
    place: usize,
    /// Group and place of the second kill, in the run that resumes.
    again: Option<(usize, usize)>,
}

impl Kill {
    fn fault(group: usize, place: usize) -> String {
        format!("{group}:{}", PLACES[place % PLACES.len()])
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn all() -> bool {
    std::env::var_os("LEFTFOLD_ALL").is_some()
}

/// Upper limit of groups of appends in each run of a session: each group begins with a fact.
fn groups(name: &str) -> Vec<usize> {
    let scenario = scenario(name);
    let facts = |logs: &Logs| {
        let own = |(session, log): &(SessionId, Vec<Envelope>)| {
            let own = log.iter().filter(|event| event.session == *session);
            own.filter(|event| !event.event.is_intent()).count()
        };
        logs.iter().map(own).sum::<usize>()
    };
    let mut before = 0;
    let mut counts = Vec::new();
    for act in &scenario.acts {
        act.play(&scenario.site, None).with(act.code);
        let after = facts(&logs(&scenario.site));
        counts.push(after - std::mem::replace(&mut before, after));
    }
    counts
}

/// The boundaries of a session to try.
fn kills(name: &'static str) -> Vec<Kill> {
    let (most, seed) = (number("LEFTFOLD_BOUNDARIES", 8), number("LEFTFOLD_SEED", 1));
    let runs = groups(name);
    let one = |act, group, place| Kill { name, act, group, place, again: None };
    let groups = || runs.iter().enumerate().flat_map(|(act, n)| (1..=*n).map(move |g| (act, g)));
    let mut kills: Vec<Kill> = groups()
        .flat_map(|(act, group)| (0..PLACES.len()).map(move |place| one(act, group, place)))
        .collect();
    let total = kills.len();
    let mut second = Vec::new();
    if AGAIN.contains(&name) {
        // in the middle, or everywhere
        let middle = kills[total / 2 + seed % PLACES.len()].clone();
        let firsts: Vec<Kill> = if all() { rotating(&kills) } else { vec![middle] };
        for first in firsts {
            let again =
                |kill: Kill| Kill { again: Some((kill.group, kill.place)), ..first.clone() };
            second.extend(rotating(&kills).into_iter().map(again));
        }
    }
    if !all() {
        spread(&mut kills, most, seed);
        spread(&mut second, most, seed);
    }
    kills.extend(second);
    kills
}

/// One place of each group, all places equally often.
fn rotating(kills: &[Kill]) -> Vec<Kill> {
    kills.iter().filter(|kill| kill.place == kill.group % PLACES.len()).cloned().collect()
}

/// Keeps at most `most`, evenly spread.
fn spread(kills: &mut Vec<Kill>, most: usize, seed: usize) {
    // not a multiple of the number of places, so that each place is used
    let mut step = kills.len().div_ceil(most).max(1);
    step += usize::from(step > 1 && step.is_multiple_of(PLACES.len()));
    let mut n = 0;
    kills.retain(|_| {
        n += 1;
        (n + seed).is_multiple_of(step)
    });
}

#[test]
fn killed_at_every_boundary_it_goes_on_with_nothing_lost_or_doubled() {
    if cfg!(not(debug_assertions)) {
        return common::skipped("only debug builds have faults to inject");
    }
    let setups = Mutex::new(Vec::new());
    each(CORPUS.len(), |n| {
        let kills = kills(CORPUS[n].0);
        setups.lock().unwrap().extend(kills);
    });
    let setups = setups.into_inner().unwrap();
    let tally = Tally::promise(1, "crash points")
        .counts(&["sessions", "kills", "lost calls told"])
        .never(&["kills that lose or double something"]);
    each(setups.len(), |n| {
        let kill = &setups[n];
        let killed = || tried_or_earlier(kill.clone());
        let violation = "kills that lose or double something";
        if let Some(Some(lost)) = tally.attempt(violation, format!("{kill:?}"), killed) {
            tally.add("kills", 1);
            tally.add("lost calls told", lost);
            tally.distinct("sessions", kill.name);
        }
    });
    let (killed, sessions) = (tally.get("kills"), tally.get("sessions"));
    tally.finish();
    assert_eq!(sessions, CORPUS.len());
    assert!(killed >= 4 * CORPUS.len().min(number("LEFTFOLD_BOUNDARIES", 8)), "{killed} kills");
}

/// Runs `count` setups, a few at a time.
fn each(count: usize, setup: impl Fn(usize) + Sync) {
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
                    setup(n);
                }
            });
        }
    });
}

/// If the program ended before the place of a sampled kill, tries an earlier one.
fn tried_or_earlier(mut kill: Kill) -> Option<usize> {
    loop {
        let lost = tried(&kill);
        let group = kill.again.as_mut().map_or(&mut kill.group, |(group, _)| group);
        if lost.is_some() || all() || *group == 1 {
            return lost;
        }
        *group = *group * 2 / 3;
    }
}

/// Kills a session, resumes it and checks the result. Returns how many calls were lost. `None` if
/// the program ended before the place of the kill.
fn tried(kill: &Kill) -> Option<usize> {
    let scenario = scenario(kill.name);
    let site = &scenario.site;
    let mut shown = PrintedLines::default();
    for act in &scenario.acts[..kill.act] {
        shown.add(&act.play(site, None).with(act.code));
    }
    let fault = Kill::fault(kill.group, kill.place);
    let act = &scenario.acts[kill.act];
    let ran = act.play(site, Some(&fault));
    let survived = ran.code != -1;
    if survived && kill.again.is_none() {
        return None;
    }
    shown.add(&ran);
    let before = assert_kept(site, &shown);
    let Some(again) = kill.again else {
        return Some(assert_goes_on(site, &before, shown, kill.group));
    };
    let session = unfinished(&before).into_iter().next()?;
    let ran = resumed(site, session, kill.group, Some(&Kill::fault(again.0, again.1)));
    if ran.code != -1 {
        return None;
    }
    shown.add(&ran);
    let between = assert_kept(site, &shown);
    assert_prefix(&before, &between);
    Some(assert_goes_on(site, &between, shown, kill.group))
}

/// The printed output, as whole lines.
#[derive(Default)]
struct PrintedLines(Vec<String>);

impl PrintedLines {
    fn add(&mut self, ran: &Ran) {
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        let whole = ran.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        self.0.extend(whole.map(|line| line.trim_end().to_owned()));
    }
}

/// Checks that the store is sound, that each log is valid for this program, and that all shown
/// events are in it.
fn assert_kept(site: &Site, shown: &PrintedLines) -> Logs {
    let Some(store) = store(site) else {
        assert!(shown.0.is_empty(), "shown before there was a store: {:?}", shown.0);
        return Vec::new();
    };
    let report = leftfold_store::check(&store).unwrap();
    assert_eq!(report.damage, []);
    let logs = logs(site);
    let mut lines = HashSet::new();
    for (session, log) in &logs {
        assert_eq!(verify(log), [], "{session}");
        let seqs: Vec<Seq> = log.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=log.len() as Seq).collect::<Vec<_>>(), "{session}");
        for event in log {
            lines.insert(line::write(event));
            lines.extend(event.event.payloads().into_iter().map(line::write_payload));
        }
    }
    let mut seen = HashSet::new();
    for line in &shown.0 {
        assert!(lines.contains(line), "shown and not in the log: {line}");
        assert!(line.contains(r#""payload":"#) || seen.insert(line), "shown twice: {line}");
    }
    logs
}

/// Checks that the logs still contain their earlier events.
fn assert_prefix(before: &Logs, after: &Logs) {
    for (session, log) in before {
        let now = after.iter().find(|(known, _)| known == session);
        let (_, now) = now.unwrap_or_else(|| panic!("{session} is gone"));
        assert!(now.starts_with(log), "{session}");
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

/// Resumes the session; every other time with a person who answers.
fn resumed(site: &Site, session: SessionId, number: usize, fault: Option<&str>) -> Ran {
    Act::resume(number.is_multiple_of(2)).play_with(site, fault, &[&session.to_string()])
}

/// Checks that `resume` completes everything. Returns how many calls were lost.
fn assert_goes_on(site: &Site, before: &Logs, mut shown: PrintedLines, number: usize) -> usize {
    for session in unfinished(before) {
        shown.add(&resumed(site, session, number, None).ok());
    }
    let after = assert_kept(site, &shown);
    assert_prefix(before, &after);
    assert_eq!(unfinished(&after), []);
    let mut lost = 0;
    for (session, log) in &after {
        let state = fold(log);
        assert!(state.turn.is_none(), "{session} is not at its end");
        let first = before.iter().find(|(known, _)| known == session).map_or(0, |(_, l)| l.len());
        for event in &log[first..] {
            if let Event::Turn(Turn::Ended(ended)) = &event.event {
                assert_eq!(ended.reason, EndReason::Completed, "{session}: {:?}", ended.error);
            }
        }
        lost += assert_told(log);
        assert_eq!(marked(&session.to_string()), [], "left behind");
    }
    assert_started_once(&after);
    assert_marks(site, &after);
    after.iter().for_each(|(_, log)| assert_files(site, log));
    let roots = after.iter().filter(|(_, log)| !is_child(log)).map(|(id, _)| id.to_string());
    for id in roots.filter(|_| number == 1) {
        site.run(&["check", &id]).ok();
        site.run(&["verify", &id]).ok();
    }
    lost
}
