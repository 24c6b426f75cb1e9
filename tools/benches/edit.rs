//! Times replacements in texts of 1 MiB; most texts are worst cases. `cargo bench -p leftfold-tools
//! --bench edit`.
//!
//! Each time is the best of several runs, because other programs use the machine too. The limits
//! are 5 ms for an exact match and 100 ms for all strategies together.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its figures, or stops"
)]

use std::time::{Duration, Instant};

use leftfold_tools::{Workspace, replace, run_alone};
use serde_json::json;

const SIZE: usize = 1 << 20;
const ROUNDS: usize = 9;

struct Case {
    what: &'static str,
    text: String,
    old: String,
    limit: Duration,
}

fn main() {
    for case in exact().into_iter().chain(fuzzy()).chain(hopeless()) {
        for all in [false, true] {
            report(&case, all);
        }
    }
    tool();
}

fn report(case: &Case, all: bool) {
    let Case { what, text, old, limit } = case;
    let mut outcome = String::new();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let done = replace(text, old, "new", all, "file");
            let time = start.elapsed();
            outcome = match &done {
                Ok(done) => format!("{} x{}", done.strategy.name(), done.count),
                Err(error) => error.kind().to_owned(),
            };
            time
        })
        .collect();
    times.sort();
    let (time, all) = (times[0], if all { " (all)" } else { "" });
    let verdict = if time > *limit { "  OVER ITS LIMIT" } else { "" };
    println!("{what}{all}: {time:.2?}, {outcome}{verdict}");
}

fn case(what: &'static str, limit: u64, text: String, old: impl Into<String>) -> Case {
    Case { what, text, old: old.into(), limit: Duration::from_millis(limit) }
}

/// As many lines as fill [`SIZE`].
fn lines(line: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    let mut n = 0;
    while text.len() < SIZE {
        text += &line(n);
        text.push('\n');
        n += 1;
    }
    text
}

fn code() -> String {
    lines(|n| format!("    let value_{n} = compute({n}, \"name\") + offset;"))
}

fn exact() -> Vec<Case> {
    let text = code();
    let half = text.len() / 2;
    let near = text[half..].lines().nth(1).expect("a line").to_owned();
    let long = text[half..half + 20_000].to_owned();
    vec![
        case("exact, a line", 5, text.clone(), near),
        case("exact, 20 kB", 5, text.clone(), long),
        case("exact, everything", 5, text.clone(), text),
        case("exact, one of a kind", 5, "a".repeat(SIZE) + "b", "aaaaaaaab"),
    ]
}

fn fuzzy() -> Vec<Case> {
    let text = code();
    let line = text[text.len() / 2..].lines().nth(1).expect("a line").trim().to_owned();
    let block: Vec<&str> = text.lines().skip(9_000).take(20).map(str::trim).collect();
    let mut near = block.clone();
    near[10] = "let value = compute(9010, \"nome\") + offset;";
    vec![
        case("indentation, 20 lines", 100, text.clone(), block.join("\n")),
        case("white space within a line", 100, text.clone(), line.replace(' ', "  ")),
        case("one line of 20 differs", 100, text.clone(), near.join("\n")),
        case("escapes", 100, text, line.replace('"', "\\\"")),
    ]
}

/// Cases without a match, in texts where much is similar.
fn hopeless() -> Vec<Case> {
    let blank = "\n".repeat(SIZE);
    let block = |lines: usize| format!("{{\n{}}}", "x1 = y;\n".repeat(lines));
    let nearly = |line: &str, count: usize| format!("{}end", format!("{line}\n").repeat(count));
    let long = |c: char| format!("{{\n{}\n}}", c.to_string().repeat(SIZE / 3));
    let spread: String = (0..2_000).map(|n| format!("word{n} \n")).collect();
    vec![
        case("absent line", 100, code(), "    nothing like this;"),
        case("absent block", 100, code(), code()[..20_000].replace("value", "other")),
        case("blank lines", 100, blank, "a\n\n\n\nb"),
        case("all lines alike", 100, lines(|_| "a".to_owned()), nearly("a", 5_000)),
        case("one line alike", 100, "a".repeat(SIZE), "a".repeat(5_000) + "b"),
        case("one line, many words", 100, "a ".repeat(SIZE / 2), "a\n".repeat(5_000) + "b"),
        case(
            "one line, words that nearly fit",
            100,
            "a ".repeat(SIZE / 2),
            "a  ".repeat(999) + "b",
        ),
        case("words on other lines", 100, "a ".repeat(SIZE / 2), "a\n".repeat(999) + "a"),
        case("anchors everywhere", 100, lines(|_| "{".to_owned()), "{\nx\ny\nz\n{"),
        case(
            "anchors everywhere, large",
            100,
            lines(|_| "{".to_owned()),
            format!("{{\n{}{{", "x\n".repeat(2_000)),
        ),
        case("many blocks", 100, lines(|n| format!("{{\nx{n} = z;\n}}")), block(1)),
        case(
            "many large blocks",
            100,
            lines(|n| format!("{{\n{}}}", format!("x{n} = z;\n").repeat(100))),
            block(100),
        ),
        case("brackets", 100, lines(|n| if n % 2 == 0 { "{" } else { "}" }.to_owned()), block(500)),
        case(
            "huge lines between anchors",
            100,
            long('a') + "\n" + &long('b') + "\n" + &long('c'),
            long('d'),
        ),
        case(
            "huge line of many letters",
            100,
            format!("{{\n{}\n}}", code().replace('\n', " ")),
            format!("{{\n{}\n}}", code().replace('\n', "-").replace("let", "var")),
        ),
        case(
            "indentation that nearly fits",
            100,
            lines(|_| " a".to_owned()),
            "a\n".repeat(2_000) + " a",
        ),
        case("backslashes", 100, "\\".repeat(SIZE), "\\\\n".repeat(2_000)),
        case(
            "escaped lines",
            100,
            lines(|_| "\\\"a\\\"".to_owned()),
            "\"a\"\n".repeat(2_000) + "b",
        ),
        case("indented blank lines", 100, lines(|_| " ".repeat(1_000)), "  \n \n\ta"),
        case("large and absent", 100, code(), spread),
    ]
}

/// The whole call, with reading, writing, flushing and the diff.
fn tool() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file.rs");
    let text = code();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|n| {
            std::fs::write(&path, &text).expect("a file");
            let old = format!("value_{} ", 7_000 + n);
            let args = json!({ "filePath": "file.rs", "oldString": old, "newString": "new " });
            let cx = Workspace::new(folder.path(), folder.path(), folder.path().join("spill"));
            let start = Instant::now();
            let output = runtime.block_on(run_alone("edit", &args.to_string(), cx));
            assert!(output.is_ok_and(|output| !output.is_error));
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("the whole call: {:.2?}", times[0]);
}
