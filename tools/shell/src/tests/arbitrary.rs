//! Lines that nobody has thought of.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use tempfile::tempdir;

use super::Bare;
use crate::commands::DYNAMIC;
use crate::{judge, seen as judged};

/// The programs that rules see, by their names.
fn seen(line: &str) -> BTreeSet<String> {
    let (patterns, _) = judged(line);
    assert!(!patterns.is_empty(), "{line:?}");
    let first = |text: &String| text.split([' ', '\n', '\t']).next().unwrap_or_default().to_owned();
    patterns.iter().map(first).collect()
}

/// Forms of shell lines. `_` stands for a command.
const FORMS: &[&str] = &[
    "_", "_ a 'b c' \"d\"", "_; _", "_ && _", "_ || _", "_ | _", "_ & _", "_\n_", "( _ )",
    "{ _; }", "! _", "time _", "if _; then _; else _; fi", "while _; do _; done",
    "for i in a b; do _; done", "_ $( _ )", "_ \"$( _ )\"", "_ <( _ )", "_ > >( _ )",
    "_ ${x:-$( _ )}", "x=$( _ )", "x=1 _", "_ 2>&1 >f", "f() { _; }",
    "case a in a) _;; *) _;; esac", "[[ -n $( _ ) ]] && _", "echo $(( 1 + $( _ ) )); _",
    "_ <<E\n$( _ )\nE\n_", "_ <<'E'\nx\nE\n_", "_ # c\n_", "_ \\\n a",
];

/// Forms in which only a name may stand.
const INNERMOST: &[&str] = &[
    "_ a", "_ `_`", "env x=1 _", "sudo -n _", "timeout 5 _", "nohup _", "xargs -n 1 _",
    "find . -exec _ {} \\;", "bash -c '_'", "eval '_'",
];

/// A line, and the names of the commands in it.
fn lines() -> impl Strategy<Value = (String, BTreeSet<String>)> {
    let form = || select(FORMS);
    (form(), form(), select(INNERMOST), prop::collection::vec(any::<bool>(), 16)).prop_map(
        |(a, b, c, nest)| {
            let mut line = a.to_owned();
            for (form, at) in [b, c].into_iter().zip([nest[0], nest[1]]) {
                // a form for one of the commands, in a group so that it fits everywhere but in quotes
                let places: Vec<usize> = line.match_indices('_').map(|(place, _)| place).collect();
                let place = if at { places.first() } else { places.last() };
                if let Some(place) = place {
                    line.replace_range(*place..=*place, form);
                }
            }
            let mut names = BTreeSet::new();
            while line.contains('_') {
                let name = format!("c{}", names.len());
                line = line.replacen('_', &name, 1);
                names.insert(name);
            }
            (line, names)
        },
    )
}

/// Pieces of shell, put together without sense.
fn soup() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "c1", "c2", "c3", "c4", "'", "\"", "`", "$(", ")", "(", "{", "}", ";", "&", "&&", "||",
        "|", "\n", " ", " ", " ", "\\", "#", "$", "${x:-", "${x", "$((", "))", "<<E", "<<'E'",
        "<<-E", "\nE\n", "E", "<(", ">(", ">", "<", "=", "x=", "!", "if", "then", "fi", "case",
        "in", "esac", ";;", "[[", "]]", "[", "]", "*", "?", "~", "$'", "$\"", "2>&1", "&>", "|&",
        "-c", "a", "eval", "time", "\\\n", "\t", "for i in", "do", "done", "f()", "function",
        "coproc", "<<<", "x", "@(", "{a,b}", "1", "\\'", ",", "\n\tE\n", "((", "$[", "/", "%",
        "<<\"E\"", ";&", "select", "+=(", "#c2\n", "c3 ", " c4", "${!x}", "${x@P}", "a[", "@Q}",
        "-v ", "declare ", "read ", "printf ", "unset ", "let ", "test ", "-eq", "$1", "\"$x\"",
        "{x}>", "trap ", "EXIT", "((;", "time -- ", "! ", "x=(", ")=", "[x]=", "RANDOM=",
        "y='a[$(c1)]'", "$y", "${y:1}",
    ];
    prop::collection::vec(select(PIECES), 1..14).prop_map(|pieces| pieces.concat())
}

/// Lines in which a variable holds a command that only an evaluation would run.
fn evaluations() -> impl Strategy<Value = String> {
    const VALUES: &[&str] =
        &["'a[$(c2)]'", "'$(c2)'", "'b[`c2`]'", "'-v a[$(c2)]'", "'($(c2))'", "x", "1"];
    const USES: &[&str] = &[
        "$_", "${_}", "\"$_\"", "${_:-1}", "${#_}", "${_@P}", "${_@Q}", "${!_}", "${_[0]}",
        "${_[_]}", "${y[_]}", "${y:_}", "${_:0:_}", "${_^}", "${_/1/2}", "$((_))", "$(( 1 + _ ))",
        "$[_]", "$((1))", "_", "'_'", "a[_]", "a[0]", "1", "-v", "-n", "-eq", "=", "y", "$'_'",
        "\"${y[$_]}\"", "-p", "--", "$(( $_ ))", "${y:-$((_))}", "{_,1}", "-i", "-a", "-n", "y=$_",
        "y=1", "y=\"$_\"", "'a[$(c2)]'", "'a[$(c2)]=1'", "-A",
    ];
    const COMMANDS: &[&str] = &[
        "c1", "c1", "test", "[[ ]]", "[ ]", "((", "printf", "read", "declare", "typeset", "export",
        "readonly", "unset", "let", "mapfile", "getopts a", "wait", "for ((", "y=(", "y[",
        "RANDOM=", "cat <<E", "cat <<<", "case", "builtin declare", "command printf", "set",
        "shift", "exec {_}>f", "printf -v", "read -a", "declare -i", "declare -n", "local", "trap",
        "eval c3", "hash", "y=",
    ];
    (select(VALUES), select(COMMANDS), prop::collection::vec(select(USES), 0..4), any::<bool>())
        .prop_map(|(value, command, uses, array)| {
            let used = uses.join(" ");
            let line = match command {
                "[[ ]]" => format!("[[ {used} ]]"),
                "[ ]" => format!("[ {used} ]"),
                "((" => format!("(( {used} ))"),
                "for ((" => format!("for (({used};0;)); do c1; done"),
                "y=(" => format!("y=({used})"),
                "y[" => format!("y[{used}]=1"),
                "RANDOM=" | "y=" => format!("{command}{}", uses.first().unwrap_or(&"1")),
                "cat <<E" => format!("cat <<E\n{used}\nE"),
                "case" => format!(
                    "case {} in {}) c1;; esac",
                    uses.first().unwrap_or(&"1"),
                    uses.last().unwrap_or(&"1")
                ),
                command => format!("{command} {used}"),
            };
            let before = if array { "y=(1); " } else { "y=12; " };
            format!("x={value}; {before}{}", line.replace('_', "x"))
        })
}

/// The commands that bash runs: it finds no programs, and has each looked-for name written down.
fn run(folder: &Path, line: &str) -> BTreeSet<String> {
    let log = folder.join("log");
    std::fs::write(&log, "").unwrap();
    let handler = "() { echo \"$1\" >> \"$LOG\"; [[ $1 == c[13] ]]; }";
    // however it ends
    let _ = Command::new("/bin/bash")
        .args(["-c", line])
        .env_clear()
        .env("PATH", "/nowhere")
        .env("LOG", &log)
        .env("BASH_FUNC_command_not_found_handle%%", handler)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let names = std::fs::read_to_string(&log).unwrap_or_default();
    names.lines().map(str::to_owned).collect()
}

/// Fixed random cases, so that a failure comes from the change at hand. `LEFTFOLD_RANDOM=1` picks new cases,
/// `PROPTEST_CASES` sets their number.
fn config() -> ProptestConfig {
    let given = |name| std::env::var(name).ok();
    let cases = given("PROPTEST_CASES").and_then(|n| n.parse().ok()).unwrap_or(400);
    let rng_seed =
        if given("LEFTFOLD_RANDOM").is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_command_of_a_line_is_seen((line, names) in lines()) {
        let seen = seen(&line);
        prop_assert!(names.is_subset(&seen), "{line:?}: {names:?}, seen {seen:?}");
    }

    /// A command that rules do not see must at least ask.
    #[test]
    fn what_bash_runs_is_seen(line in soup()) {
        let seen = seen(&line);
        if !seen.contains(DYNAMIC) {
            let folder = tempdir().unwrap();
            let ran = run(folder.path(), &line);
            let unseen: Vec<_> = ran.difference(&seen).collect();
            prop_assert!(unseen.is_empty(), "{line:?}: ran {ran:?}, seen {seen:?}");
        }
    }

    /// A line that is said to be literal evaluates no variable.
    #[test]
    fn what_bash_evaluates_is_unknown(line in evaluations()) {
        let seen = seen(&line);
        if !seen.contains(DYNAMIC) {
            let folder = tempdir().unwrap();
            let ran = run(folder.path(), &line);
            let unseen: Vec<_> = ran.iter().filter(|name| !seen.contains(*name)).collect();
            prop_assert!(unseen.is_empty(), "{line:?}: ran {ran:?}, seen {seen:?}");
        }
    }

    #[test]
    fn nothing_makes_it_give_up(line in soup(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempdir().unwrap();
        let view = Bare(folder.path().to_owned());
        let start = Instant::now();
        for line in [line, String::from_utf8_lossy(&bytes).into_owned()] {
            let judged = judge(&line, folder.path(), &view);
            prop_assert!(!judged.commands.patterns.is_empty());
        }
        prop_assert!(start.elapsed() < Duration::from_secs(2));
    }
}
