//! Promise 6: random trees of sessions, subagents and forks at any event, also forks of forks and
//! of subagents. A fork shares the earlier events by reference, so each event is stored once, and
//! each request counts once in every sum.
//!
//! `LEFTFOLD_TREES` sets the number of trees (default 12), `LEFTFOLD_SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::{Random, Site, Tally, number};
use leftfold_events::event::{Class, EndReason, Event, Finish, Model, Session, Usage};
use leftfold_events::state::{PendingKind, Phase};
use leftfold_events::{Envelope, Fact, POLICY, Seq, SessionId, Time, admits, fold, settle};
use leftfold_runtime::session_list::cost;
use leftfold_store::{Reader, Store};
use serde_json::Value;

use crate::harness::{self, READ, Run, START, Step, child_ended};

/// Trees of which the program counts the sums.
const BY_PROGRAM: usize = 20;
/// Ids of calls.
const CALLS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

const COSTS: &str = "costs that differ";
const USAGES: &str = "usages that differ";
const TWICE: &str = "events stored twice";
const STATS: &str = "sums of the program that differ";

/// A session with its whole log, for a fork including the shared events.
struct Grown {
    id: SessionId,
    run: Run,
    /// For a fork, how many forks lie between it and a session that is none.
    depth: usize,
    is_child: bool,
}

impl Grown {
    fn tell(&mut self, fact: Fact) {
        if admits(&self.run.state, &fact) {
            self.run.now += 10;
            let now = Time::from_millis(self.run.now);
            self.run.log.extend(settle(&mut self.run.state, self.id, fact, now));
        }
    }

    fn own(&self) -> Vec<Envelope> {
        self.run.log.iter().filter(|event| event.session == self.id).cloned().collect()
    }

    /// The cost of its own requests.
    fn spent(&self) -> f64 {
        self.run.state.cost
    }
}

/// A root with its subagents and forks; a parent and an origin come before the others.
struct Tree {
    random: Random,
    sessions: Vec<Grown>,
}

impl Tree {
    fn new(seed: u64) -> Self {
        let mut tree = Self { random: Random::new(seed), sessions: Vec::new() };
        let root = tree.id();
        tree.create(root, None);
        tree.play(0, 40);
        let forks = 1 + tree.random.below(10);
        for _ in 0..forks {
            tree.fork();
        }
        tree
    }

    fn id(&mut self) -> SessionId {
        let number = self.random.below(1 << 40) as u64;
        SessionId::default().child(number, Time::from_millis(START))
    }

    fn create(&mut self, id: SessionId, parent: Option<SessionId>) -> usize {
        let config = harness::config();
        let run = Run { state: leftfold_events::State::default(), log: Vec::new(), now: START };
        let mut grown = Grown { id, run, depth: 0, is_child: parent.is_some() };
        grown.tell(Fact::new(Session::Created {
            directory: "/p".into(),
            worktree: "/p".into(),
            parent,
            agent: "build".into(),
            version: "0".into(),
            policy: POLICY,
        }));
        grown.tell(Fact::new(leftfold_events::event::Turn::Configured(config.payloads())));
        self.sessions.push(grown);
        self.sessions.len() - 1
    }

    /// Forks a session at any of its events, and plays on in the fork.
    fn fork(&mut self) {
        let of = self.random.below(self.sessions.len());
        let at = 1 + self.random.below(self.sessions[of].run.log.len());
        let shared = &self.sessions[of].run.log[..at];
        // an event that the session shares itself is forked from where it stands
        let from = shared[at - 1].session;
        let origin = self.sessions.iter().find(|grown| grown.id == from);
        let depth = origin.map_or(0, |grown| grown.depth) + 1;
        let run = Run::folded(shared);
        let id = self.id();
        let mut grown = Grown { id, run, depth, is_child: false };
        grown.tell(Fact::new(Session::Forked { from, at: at as Seq }));
        self.sessions.push(grown);
        let steps = self.random.below(40);
        self.play(self.sessions.len() - 1, steps);
    }

    fn play(&mut self, at: usize, steps: usize) {
        for _ in 0..steps {
            let fact = self.step(at);
            self.sessions[at].tell(fact);
        }
    }

    /// A fact that the session may wait for.
    fn step(&mut self, at: usize) -> Fact {
        let (random, grown) = (&mut self.random, &mut self.sessions[at]);
        let open = grown.run.state.open();
        if grown.run.state.turn.is_none() {
            return grown.run.fact(&Step::Prompt("go"));
        }
        if random.below(30) == 0 {
            return grown.run.fact(&Step::Interrupt);
        }
        let Some((kind, wait)) = open.get(random.below(open.len().max(1))).copied() else {
            return grown.run.fact(&Step::Elapse);
        };
        let calls = grown.run.state.calls();
        let of_call = calls.filter(|call| {
            if let Phase::Checking(known) | Phase::Running { wait: known, .. } = &call.phase {
                *known == wait
            } else {
                false
            }
        });
        let id = of_call.map(|call| call.id.clone()).next().unwrap_or_default();
        let id = CALLS.into_iter().find(|known| *known == id).unwrap_or("a");
        let summarises = open.iter().any(|(kind, _)| *kind == PendingKind::Compaction);
        match kind {
            PendingKind::Request | PendingKind::Compaction if summarises => {
                grown.run.fact(&Step::Summary("So far."))
            }
            PendingKind::Request => self.answer(at),
            PendingKind::Check if random.below(4) == 0 && !grown.is_child => {
                grown.run.fact(&Step::Task(id))
            }
            PendingKind::Check => grown.run.fact(&Step::Resolve(id, Class::Read, READ, "")),
            PendingKind::Tool => grown.run.fact(&Step::Done(id, "output")),
            PendingKind::Child => self.child(at, wait.intent),
            PendingKind::Compaction
            | PendingKind::Retry
            | PendingKind::Question
            | PendingKind::Title
            | PendingKind::Snapshot
            | PendingKind::Restore
            | PendingKind::Hook => grown.run.fact(&Step::Elapse),
        }
    }

    /// A part of the model's reply.
    fn answer(&mut self, at: usize) -> Fact {
        let (random, grown) = (&mut self.random, &mut self.sessions[at]);
        let called =
            grown.run.log.last().is_some_and(|event| matches!(event.event, Event::Tool(_)));
        match random.below(5) {
            0 => return grown.run.fact(&Step::Text("word by word")),
            1 | 2 => {
                let id = CALLS[random.below(CALLS.len())];
                return grown.run.fact(&Step::Call(id, "read"));
            }
            _ => {}
        }
        let finish = if called { Finish::ToolCalls } else { Finish::Stop };
        let mut fact = grown.run.fact(&Step::Reply(finish));
        if let Event::Model(Model::Finished { usage, cost, .. }) = &mut fact.event {
            // sums of such costs are exact, whatever their order
            *cost = (1 + random.below(1_000)) as f64 / 1_024.0;
            // one in eight replies fills the context
            let input = if random.below(8) == 0 { 9_900 } else { random.below(4_000) };
            let (input, output) = (input as u64, random.below(300) as u64);
            *usage = Usage { input, output, ..Usage::default() };
        }
        fact
    }

    /// The end of a child, which is played to its end first.
    fn child(&mut self, at: usize, spawned: Seq) -> Fact {
        let state = &self.sessions[at].run.state;
        let child = state.open_children().find(|child| child.wait.intent == spawned);
        let id = child.map(|child| child.session).unwrap_or_default();
        let parent = self.sessions[at].id;
        let known = self.sessions.iter().position(|grown| grown.id == id);
        let child = known.unwrap_or_else(|| self.create(id, Some(parent)));
        let before = self.sessions[child].spent();
        let steps = 3 + self.random.below(25);
        self.play(child, steps);
        let cost = self.sessions[child].spent() - before;
        let answer = "found it".to_owned();
        Fact::for_intent(spawned, child_ended(id, answer, EndReason::Completed, cost))
    }

    fn write(&self, dir: &Path) {
        let store = Store::open(dir).unwrap();
        for grown in &self.sessions {
            store.import(grown.id, &grown.own()).unwrap();
        }
    }
}

/// The sums over requests, each of which counts once.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    cost: f64,
    usage: Usage,
    requests: u64,
    turns: u64,
    calls: u64,
    sessions: u64,
}

impl Sums {
    fn take(&mut self, event: &Event) {
        if let Event::Model(Model::Finished { usage, cost, .. }) = event {
            self.cost += cost;
            self.usage += *usage;
            self.requests += 1;
        } else if let Event::Turn(leftfold_events::event::Turn::Ended(_)) = event {
            self.turns += 1;
        } else if let Event::Tool(leftfold_events::event::Tool::Finished(_)) = event {
            self.calls += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        self.cost += other.cost;
        self.usage += other.usage;
        self.requests += other.requests;
        self.turns += other.turns;
        self.calls += other.calls;
        self.sessions += other.sessions;
    }
}

/// Reads a tree back, and compares every sum with that of its distinct events.
fn compare(tally: &Tally, seed: usize, dir: &Path) -> Sums {
    let reader = Reader::open(dir).unwrap();
    let logs: Vec<(SessionId, Vec<Envelope>)> = reader
        .sessions()
        .unwrap()
        .into_iter()
        .map(|session| (session, reader.read(session, 1).unwrap()))
        .collect();
    let mut distinct: BTreeMap<(SessionId, Seq), &Envelope> = BTreeMap::new();
    for event in logs.iter().flat_map(|(_, log)| log) {
        distinct.insert((event.session, event.seq), event);
    }
    let mut sums = Sums { sessions: logs.len() as u64, ..Sums::default() };
    distinct.values().for_each(|event| sums.take(&event.event));

    let heads = leftfold_store::heads(dir).unwrap();
    let summaries = heads.iter().filter_map(|head| head.summary.as_ref());
    let in_heads: f64 = summaries.map(|summary| summary.cost).sum();
    tally.equal(COSTS, &in_heads, &sums.cost, format!("seed {seed}, heads"));
    let is_child: BTreeSet<SessionId> = heads
        .iter()
        .filter(|head| head.summary.as_ref().is_some_and(|summary| summary.parent.is_some()))
        .map(|head| head.session)
        .collect();
    let listed = heads.iter().filter(|head| !is_child.contains(&head.session));
    let listed: f64 = listed.map(|head| cost(&heads, head)).sum();
    tally.equal(COSTS, &listed, &sums.cost, format!("seed {seed}, the list of sessions"));
    let states: Vec<_> = logs.iter().map(|(_, log)| fold(log)).collect();
    let folded: f64 = states.iter().map(|state| state.cost).sum();
    tally.equal(COSTS, &folded, &sums.cost, format!("seed {seed}, folds"));
    let mut used = Usage::default();
    states.iter().for_each(|state| used += state.usage);
    tally.equal(USAGES, &used, &sums.usage, format!("seed {seed}, folds"));
    let own = logs.iter().map(|(id, log)| log.iter().filter(|event| event.session == *id).count());
    let own: usize = own.sum();
    tally.equal(TWICE, &own, &distinct.len(), format!("seed {seed}"));
    tally.add("events", distinct.len());
    tally.add("shared events", logs.iter().map(|(_, log)| log.len()).sum::<usize>() - own);
    tally.add("requests", usize::try_from(sums.requests).unwrap());
    sums
}

fn stats(site: &Site) -> Sums {
    let stats = site.run(&["stats", "--format", "json"]).ok().stdout;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let calls = stats["tools"].as_object().unwrap().values();
    Sums {
        cost: stats["total"]["cost"].as_f64().unwrap(),
        usage: serde_json::from_value(stats["total"]["usage"].clone()).unwrap(),
        requests: stats["total"]["requests"].as_u64().unwrap(),
        turns: stats["turns"].as_u64().unwrap(),
        calls: calls.map(|tool| tool["calls"].as_u64().unwrap()).sum(),
        sessions: stats["sessions"].as_u64().unwrap(),
    }
}

#[test]
fn forks_of_forks_count_every_request_once() {
    let (trees, seed) = (number("LEFTFOLD_TREES", 12), number("LEFTFOLD_SEED", 1));
    let tally = Tally::promise(6, "forks")
        .counts(&[
            "trees", "sessions", "subagents", "forks", "deepest", "events", "shared events",
            "requests",
        ])
        .never(&[COSTS, USAGES, TWICE, STATS]);
    let site = Site::bare();
    // in memory if possible, because no tree here has to outlive a power cut
    let memory = Path::new("/dev/shm");
    let scratch = match memory.is_dir() {
        true => memory.join(format!("leftfold-forks-{}", std::process::id())),
        false => site.path("scratch"),
    };
    let sessions = site.path("home/sessions");
    let mut by_program = Sums::default();
    for nth in 0..trees {
        let tree = Tree::new((seed + nth) as u64);
        let counted = nth < BY_PROGRAM;
        let root = tree.sessions[0].id.to_string();
        let dir = if counted { sessions.join(&root) } else { scratch.join(&root) };
        std::fs::create_dir_all(&dir).unwrap();
        tree.write(&dir);
        let sums = compare(&tally, seed + nth, &dir);
        if counted {
            by_program.add(&sums);
        } else {
            std::fs::remove_dir_all(&dir).unwrap();
        }
        tally.add("trees", 1);
        tally.add("sessions", tree.sessions.len());
        tally.add("subagents", tree.sessions.iter().filter(|grown| grown.is_child).count());
        tally.add("forks", tree.sessions.iter().filter(|grown| grown.depth > 0).count());
        let deepest = tree.sessions.iter().map(|grown| grown.depth).max();
        tally.raise("deepest", deepest.unwrap_or_default());
    }
    let _ = std::fs::remove_dir_all(&scratch);
    tally.equal(STATS, &stats(&site), &by_program, "`leftfold stats`");
    assert!(tally.get("shared events") > tally.get("trees"), "nothing was shared");
    tally.finish();
}
