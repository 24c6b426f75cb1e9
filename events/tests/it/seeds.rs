//! Promise 10: the published seeds. `seeds.txt` names worlds by what happens in them, so that anybody
//! finds a log with a rare event. `seeds.golden` has one hash over the logs of the first hundred worlds: they
//! are the same on every machine.
//!
//! Both change when the policy, an event or the worlds change on purpose. Then write them anew with
//! `LEFTFOLD_GOLDEN=write cargo test -p leftfold-events --test it seeds`.

use std::collections::{BTreeMap, BTreeSet};

use leftfold_events::{POLICY, Sha256};

use crate::sim;
use crate::tally::Tally;

/// The worlds of the hash.
const HASHED: std::ops::RangeInclusive<u64> = 1..=100;
/// The worlds among which rare events are looked for.
const SEARCHED: std::ops::RangeInclusive<u64> = 1..=3_000;
/// The rarest events that are published, and the seeds for each.
const RAREST: usize = 12;
const EACH: usize = 10;

const WRITE: &str = "write them anew with LEFTFOLD_GOLDEN=write if that is on purpose";

fn path(name: &str) -> String {
    format!("{}/tests/it/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The types of events in the logs of a world.
fn kinds(lines: &str) -> BTreeSet<String> {
    let kind = |line: &str| {
        let (_, rest) = line.split_once(r#""type":""#)?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    lines.lines().filter_map(kind).collect()
}

/// A line of `seeds.txt` for each of the rarest events: its type, then seeds.
fn published() -> String {
    let mut seeds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in SEARCHED {
        for kind in kinds(&sim::lines(seed).expect("a world that holds")) {
            seeds.entry(kind).or_default().push(seed);
        }
    }
    let mut rarest: Vec<(String, Vec<u64>)> = seeds.into_iter().collect();
    rarest.sort_by_key(|(_, seeds)| seeds.len());
    rarest.truncate(RAREST);
    let line = |(kind, seeds): (String, Vec<u64>)| {
        let seeds: Vec<String> = seeds.iter().take(EACH).map(u64::to_string).collect();
        format!("{kind} {}\n", seeds.join(" "))
    };
    rarest.into_iter().map(line).collect()
}

fn hash() -> String {
    let lines = HASHED.map(|seed| sim::lines(seed).expect("a world that holds"));
    let lines: String = lines.collect();
    format!(
        "policy {POLICY}\nseeds {}-{}\n{}\n",
        HASHED.start(),
        HASHED.end(),
        Sha256::digest(lines.as_bytes())
    )
}

#[test]
fn published_worlds_are_the_same_everywhere() {
    if std::env::var("LEFTFOLD_GOLDEN").is_ok_and(|golden| golden == "write") {
        std::fs::write(path("seeds.golden"), hash()).expect("a file");
        std::fs::write(path("seeds.txt"), published()).expect("a file");
    }
    let read = |name| std::fs::read_to_string(path(name)).expect("a golden file");
    let tally = Tally::promise(10, "published seeds")
        .counts(&["seeds", "rare events", "seeds in the hash"])
        .never(&["seeds without their event", "hashes that differ"]);
    for line in read("seeds.txt").lines() {
        let (kind, seeds) = line.split_once(' ').expect("a type and seeds");
        for seed in seeds.split(' ').map(|seed| seed.parse().expect("a seed")) {
            let found = sim::lines(seed).map(|lines| kinds(&lines).contains(kind));
            let why = || format!("seed {seed} has no {kind} ({found:?}): {WRITE}");
            tally.check("seeds without their event", found == Ok(true), why);
            tally.add("seeds", 1);
        }
        tally.add("rare events", 1);
    }
    let (found, golden) = (hash(), read("seeds.golden"));
    let why = || format!("{found} is not {golden}: {WRITE}");
    tally.check("hashes that differ", found == golden, why);
    tally.add("seeds in the hash", HASHED.count());
    tally.finish();
}
