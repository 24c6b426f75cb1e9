//! Completions, the manual page and the version.

use std::io::Write;
use std::process::{Command, Stdio};

use common::Site;

const COMMANDS: [&str; 6] = ["run", "resume", "import", "doctor", "completions", "permission"];

#[test]
fn every_shell_gets_completions_that_name_the_commands() {
    let site = Site::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = site.run(&["completions", shell]).ok().stdout;
        for command in COMMANDS {
            assert!(text.contains(command), "{shell}: {command}");
        }
        assert!(text.contains("max-cost"), "{shell}");
    }
    let wrong = site.run(&["completions", "tcsh"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("bash") && wrong.stderr.contains("fish"), "{}", wrong.stderr);
}

#[test]
fn bash_completes_a_command_and_its_options() {
    let site = Site::bare();
    let script = site.run(&["completions", "bash"]).ok().stdout;
    for (words, expected) in [("leftfold doc", "doctor"), ("leftfold run --max-c", "--max-cost")] {
        let parts: Vec<&str> = words.split(' ').collect();
        let list = parts.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (current, before) = (parts[parts.len() - 1], parts[parts.len() - 2]);
        let ask = format!(
            "{script}\nCOMP_WORDS=({list}); COMP_CWORD={}; _leftfold leftfold '{current}' '{before}'\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            parts.len() - 1
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-s"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bash = bash.spawn().unwrap();
        let mut stdin = bash.stdin.take().unwrap();
        stdin.write_all(ask.as_bytes()).unwrap();
        drop(stdin);
        let output = bash.wait_with_output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(found.trim(), expected, "{words}");
    }
}

#[test]
fn the_manual_has_a_page_of_all_and_of_each_command() {
    let site = Site::bare();
    let page = site.run(&["man"]).ok().stdout;
    assert!(page.contains(".TH leftfold 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(&format!("leftfold\\-{command}(1)")), "{command}");
    }
    let page = site.run(&["man", "permission", "answer"]).ok().stdout;
    assert!(page.contains(".TH leftfold-permission-answer 1"), "{page}");
    assert!(page.contains("\\-\\-feedback"), "{page}");
    let none = site.run(&["man", "nothing"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("no command `nothing`"), "{}", none.stderr);
}

#[test]
fn the_version_also_names_the_build_and_how_it_is_removed() {
    let site = Site::bare();
    for args in [["--version"], ["-V"]] {
        assert_eq!(site.run(&args).ok().stdout, "leftfold 0.1.0\n");
    }
    let told = site.run(&["--version", "--verbose"]).ok().stdout;
    let rows: Vec<&str> = told.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        rows,
        ["leftfold", "commit", "target", "features", "program", "channel", "upgrade", "remove"]
    );
    assert!(told.contains("-linux-") && told.contains("postgres"), "{told}");
    let alone = site.run(&["--verbose"]).with(2);
    assert!(alone.stderr.contains("--version"), "{}", alone.stderr);
}
