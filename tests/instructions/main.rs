//! Counts the instructions of pure functions with valgrind, and fails if a count has grown by more
//! than 5 % against `recorded.txt`. Unlike times, counts hardly depend on the machine or its load.
//! It is built as the tests are, so that it costs no build of its own: `just instructions`. With
//! `LEFTFOLD_GOLDEN=write` it records the counts, for a change that needs more instructions or
//! fewer, and for another compiler: counts of another compiler are printed and not compared.
//!
//! The program runs itself below valgrind, once for each case.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a bench prints or fails"
)]

#[allow(unreachable_pub, reason = "other crates share it as a library")]
#[path = "../common/long_log.rs"]
mod long_log;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use leftfold_events::{Envelope, State, fold, line, request_builder, verify};
use leftfold_store::{SCHEMA, decode, encode};

/// Enough to show a cost that grows with the log, in a build that is hardly optimised.
const EVENTS: usize = 100;
/// How much a count may grow.
const GROWTH: f64 = 0.05;

/// A function to count, with the data that it needs.
type Case = fn(&Data);

const CASES: [(&str, Case); 6] = [
    ("fold", |data| drop(black_box(fold(&data.log)))),
    ("verify", |data| assert_eq!(verify(&data.log), [])),
    ("request", |data| drop(black_box(request_builder::request(&data.state)))),
    ("encode", |data| data.log.iter().for_each(|event| drop(black_box(encode(event))))),
    ("decode", |data| {
        data.encoded.iter().for_each(|bytes| drop(black_box(decode(SCHEMA, bytes))));
    }),
    ("line", |data| data.log.iter().for_each(|event| drop(black_box(line::write(event))))),
];

struct Data {
    log: Vec<Envelope>,
    state: State,
    encoded: Vec<Vec<u8>>,
}

fn main() -> ExitCode {
    if let Some(name) = std::env::args().nth(1) {
        let log = long_log::session(EVENTS);
        let encoded = log.iter().map(|event| encode(event).unwrap()).collect();
        let data = Data { state: fold(&log), log, encoded };
        counted(CASES.iter().find(|(known, _)| *known == name).unwrap().1, &data);
        return ExitCode::SUCCESS;
    }
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded.txt");
    let recorded = std::fs::read_to_string(&place).unwrap_or_default();
    let compiler = compiler();
    let counts = CASES.map(|(name, _)| (name, count(name)));
    if std::env::var_os("LEFTFOLD_GOLDEN").is_some_and(|wanted| wanted == "write") {
        let lines = counts.map(|(name, count)| format!("{name} {count}\n"));
        std::fs::write(&place, format!("{compiler}\n{}", lines.concat())).unwrap();
        return ExitCode::SUCCESS;
    }
    let is_comparable = recorded.lines().next() == Some(&compiler);
    if !is_comparable {
        println!("NOT COMPARED: {} was recorded with another compiler", place.display());
    }
    let mut code = ExitCode::SUCCESS;
    for (name, count) in counts {
        let known = recorded.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let known: u64 = known.unwrap_or_else(|| panic!("{}: no count of {name}", place.display()));
        let growth = count as f64 / known as f64 - 1.0;
        let verdict = if is_comparable && growth > GROWTH {
            code = ExitCode::FAILURE;
            "  TOO MANY: make it cheaper, or record the counts with LEFTFOLD_GOLDEN=write"
        } else {
            ""
        };
        println!("{name}: {count} instructions, {:+.1} %{verdict}", growth * 100.0);
    }
    code
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    String::from_utf8(version).unwrap().trim().to_owned()
}

/// The function whose instructions valgrind counts.
#[inline(never)]
fn counted(case: Case, data: &Data) {
    case(data);
}

/// Runs a case below valgrind.
fn count(name: &str) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg("--toggle-collect=*counted*").arg(std::env::current_exe().unwrap()).arg(name);
    let output = valgrind.output().expect("valgrind is installed and can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    collected.unwrap_or_else(|| panic!("{name}: {text}")).1.trim().parse().unwrap()
}
