//! Measures the evaluation of rules. It fails if 10 000 evaluations take 10 ms or more, or if a
//! pattern that is made to be slow takes too long. `cargo bench -p leftfold-events --bench rules`.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use leftfold_events::rules::{Action, Rule, defaults, evaluate, matches};

const EVALUATIONS: u32 = 10_000;

fn main() {
    let mut rules = defaults();
    let programs = ["git", "cargo", "npm", "docker", "kubectl", "make", "ls", "cat", "rm", "sudo"];
    rules.extend(programs.map(|name| Rule::new("bash", format!("{name} *"), Action::Ask)));
    rules.extend(programs.map(|name| Rule::new("edit", format!("src/{name}/*.rs"), Action::Deny)));
    let asked = [
        ("bash", "git commit -m 'a message of usual length'"),
        ("bash", "unheard-of --option"),
        ("read", "src/deep/in/the/tree/file.rs"),
        ("edit", "src/rm/file.rs"),
        ("external_directory", "/usr/share/doc/*"),
    ];
    let best = (0..9).map(|_| round(&rules, &asked)).min().unwrap_or_default();
    println!("{EVALUATIONS} evaluations of {} rules: {best:?}", rules.len());
    let start = Instant::now();
    let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(5_000));
    black_box(matches(&pattern, &text));
    let slowest = start.elapsed();
    println!("a pattern of 200 stars on 5000 characters: {slowest:?}");
    assert!(best < Duration::from_millis(10), "too slow: {best:?}");
    assert!(slowest < Duration::from_millis(100), "too slow: {slowest:?}");
}

fn round(rules: &[Rule], asked: &[(&str, &str)]) -> Duration {
    let start = Instant::now();
    for (permission, pattern) in asked.iter().cycle().take(EVALUATIONS as usize) {
        black_box(evaluate(rules, permission, pattern));
    }
    start.elapsed()
}
