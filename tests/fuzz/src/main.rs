//! Random inputs for the parsers that read what strangers write. It needs no nightly compiler, unlike the targets in
//! `fuzz/`. Each input is checked by the properties in the library.
//!
//! ```text
//! cargo run --profile fuzz -p leftfold-fuzz-driver -- TARGET COUNT SEED
//! ```
//!
//! An input is a function of the target and its seed; of a run, the inputs have the seeds from SEED on. A failure prints
//! the command for its input alone.

#![allow(clippy::print_stdout, reason = "it prints its counts")]

#[cfg(test)]
mod cases;
mod generate;
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use random::Random;

/// Inputs, unless the command line says otherwise.
const COUNT: u64 = 10_000;
/// Failures that are printed.
const PRINTED: usize = 20;
/// The longest time for one input.
const SLOW: Duration = Duration::from_secs(5);
/// Inputs between two lines on standard output.
const REPORTED: u64 = 250_000;

const TARGETS: [Target; 5] = [
    Target { name: "bash", generate: generate::bash, check: bash },
    Target { name: "cleaner", generate: generate::terminal, check: cleaner },
    Target { name: "settings", generate: generate::settings, check: settings },
    Target { name: "json-rpc", generate: generate::json_rpc, check: json_rpc },
    Target { name: "framing", generate: generate::json_rpc, check: framing },
];

struct Target {
    name: &'static str,
    generate: fn(&mut Random) -> Vec<u8>,
    check: fn(&Path, &[u8]) -> Result<(), String>,
}

fn bash(_: &Path, data: &[u8]) -> Result<(), String> {
    leftfold_fuzz::tools::bash(data)
}

fn cleaner(_: &Path, data: &[u8]) -> Result<(), String> {
    leftfold_fuzz::view::cleaner(data)
}

fn settings(folder: &Path, data: &[u8]) -> Result<(), String> {
    leftfold_fuzz::settings::settings(folder, data, leftfold_providers::known())
}

fn json_rpc(_: &Path, data: &[u8]) -> Result<(), String> {
    leftfold_fuzz::protocol::json_rpc(data)
}

fn framing(_: &Path, data: &[u8]) -> Result<(), String> {
    leftfold_fuzz::framing::lines(data)?;
    leftfold_fuzz::framing::json(data)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let mut number = |default| arguments.next().map_or(Some(default), |text| text.parse().ok());
    let target = TARGETS.iter().find(|target| target.name == name);
    let (Some(target), Some(count), Some(seed)) = (target, number(COUNT), number(1)) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        println!(
            "usage: leftfold-fuzz-driver TARGET [COUNT [SEED]]; targets: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    match target.run(count, seed) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}

impl Target {
    /// The number of failures.
    fn run(&self, count: u64, seed: u64) -> std::io::Result<usize> {
        let folder = project()?;
        let (began, mut failed, mut slowest) = (Instant::now(), 0, (Duration::ZERO, seed));
        let mut bytes = 0;
        for at in 0..count {
            let input = (self.generate)(&mut Random::new(seed + at));
            bytes += input.len();
            let start = Instant::now();
            let checked = catch_unwind(AssertUnwindSafe(|| (self.check)(folder.path(), &input)));
            let took = start.elapsed();
            slowest = slowest.max((took, seed + at));
            let wrong = match checked {
                Ok(Ok(())) if took < SLOW => None,
                Ok(Ok(())) => Some(format!("it took {took:?}")),
                Ok(Err(wrong)) => Some(wrong),
                Err(_) => Some("it panics".to_owned()),
            };
            if let Some(wrong) = wrong {
                failed += 1;
                if failed <= PRINTED {
                    println!("{} 1 {}: {wrong}", self.name, seed + at);
                }
            }
            if (at + 1) % REPORTED == 0 {
                println!("{}: {} inputs in {} s", self.name, at + 1, began.elapsed().as_secs());
            }
        }
        println!(
            "{}: {count} inputs ({} MiB) from seed {seed} in {} s, {failed} failed; the slowest took {} ms (seed {})",
            self.name,
            bytes >> 20,
            began.elapsed().as_secs(),
            slowest.0.as_millis(),
            slowest.1,
        );
        Ok(failed)
    }
}

/// A worktree with a file for `{file:…}`.
fn project() -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join(".git"))?;
    std::fs::write(folder.path().join("inside.md"), "inside")?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of each target: about a second each in a build without optimisation.
    fn short(name: &str, count: u64) {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        assert_eq!(target.run(count, 1).unwrap(), 0, "{name}");
    }

    #[test]
    fn shell_lines() {
        short("bash", 2_000);
    }

    #[test]
    fn text_for_terminals() {
        short("cleaner", 5_000);
    }

    #[test]
    fn settings_files() {
        short("settings", 1_000);
    }

    #[test]
    fn protocol_messages() {
        short("json-rpc", 5_000);
    }

    #[test]
    fn lines_and_surrogates() {
        short("framing", 5_000);
    }

    #[test]
    fn an_input_is_a_function_of_its_seed() {
        for target in &TARGETS {
            let input = |seed| (target.generate)(&mut Random::new(seed));
            assert_eq!(input(7), input(7), "{}", target.name);
            assert!((0..9).any(|seed| input(seed) != input(seed + 1)), "{}", target.name);
        }
    }
}
