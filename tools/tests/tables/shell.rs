//! The shell judge as a table: `shell_lines.txt` has rules, verdict and line. A line that the table
//! allows is also given to bash, which must not run what the rules don't allow.

use std::collections::HashSet;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use leftfold_events::event::{CallSpec, Resolution};
use leftfold_events::rules::{Action, Rule, defaults};
use leftfold_events::{Json, TurnConfig, judge};
use leftfold_tools::{Workspace, guarded};
use serde_json::json;

use crate::site::Site;

const ROWS: &str = include_str!("shell_lines.txt");

const EVERYDAY: &str = include_str!("everyday_lines.txt");

/// Builtins of the shell, apart from those that start programs.
const BUILTINS: &[&str] = &[
    ".", ":", "alias", "bind", "builtin", "command", "compgen", "complete", "compopt", "declare",
    "echo", "enable", "eval", "exec", "export", "fc", "getopts", "hash", "history", "jobs", "let",
    "local", "mapfile", "printf", "read", "readarray", "readonly", "set", "shopt", "sleep",
    "source", "test", "trap", "typeset", "unset", "wait",
];

const WRAPPERS: &[&str] = &[
    "bash", "busybox", "chroot", "echo", "env", "eval", "fd", "find", "fish", "flock", "nice",
    "nsenter", "parallel", "script", "setpriv", "setsid", "sh", "strace", "su", "sudo",
    "systemd-run", "timeout", "trap", "unshare", "watch", "xargs", "zsh",
];

fn rules(name: &str) -> Vec<Rule> {
    use Action::{Allow, Ask, Deny};
    let only = |programs: &[&str]| {
        let mut rules = vec![Rule::new("*", "*", Allow), Rule::new("bash", "*", Ask)];
        let program = |program: &&str| Rule::new("bash", format!("{program} *"), Allow);
        rules.extend(programs.iter().map(program));
        rules
    };
    let and = |mut rules: Vec<Rule>, more: &[(&str, &str, Action)]| {
        rules.extend(
            more.iter()
                .map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)),
        );
        rules
    };
    match name {
        "echo" => only(&["echo"]),
        "cat" => only(&["cat"]),
        "test" => only(&["test", "["]),
        "builtins" => only(BUILTINS),
        "wrappers" => only(WRAPPERS),
        "git" => {
            and(only(&["git", "cat"]), &[("edit", "*", Ask), ("external_directory", "*", Ask)])
        }
        "git-log" => only(&["git log"]),
        "edit-src" => and(defaults(), &[("edit", "*", Ask), ("edit", "src/*", Allow)]),
        "all" | "everyday" | "protected" => defaults(),
        "no-key" => and(defaults(), &[("read", "*", Allow), ("read", "*.pem", Deny)]),
        "read-src" => and(defaults(), &[("read", "*", Deny), ("read", "src/*", Allow)]),
        "filters" => only(&["awk", "rg", "sed", "sort", "split", "tar"]),
        "no-edit" => and(defaults(), &[("edit", "*", Deny)]),
        "no-secret" => and(defaults(), &[("edit", "*secret.txt", Deny)]),
        "deny-subcommands" => {
            let denied = [
                "git push *", "docker compose down *", "kubectl delete *", "npm publish *",
                "cargo publish *", "aws s3 rm *", "gcloud compute instances delete *",
                "terraform destroy *", "make deploy *", "systemctl stop *", "go run *",
                "pip install *", "rm -rf *",
            ];
            and(defaults(), &denied.map(|pattern| ("bash", pattern, Deny)))
        }
        "deny-rm" => and(defaults(), &[("bash", "rm *", Deny)]),
        "no-leftfold" => and(defaults(), &[("leftfold", "*", Deny)]),
        _ => panic!("no rules of the name {name:?}"),
    }
}

/// `\n`, `\r`, `\t` and `\\`.
fn unescaped(text: &str) -> String {
    let mut line = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => line.push('\n'),
                Some('r') => line.push('\r'),
                Some('t') => line.push('\t'),
                Some('\\') => line.push('\\'),
                other => panic!("{text:?} has \\ and {other:?}"),
            },
            (c, false) => line.push(c),
        }
    }
    line
}

fn site() -> Site {
    let names = [
        "a", ".env", ".env.local", ".env.example", "sub/.env", "sub/x", "sub/secret.txt",
        "secret.txt", "src/a", "in", "key.pem", "list",
    ];
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"x\n"[..])).collect();
    let site = Site::with(&files);
    symlink(site.outside(""), site.path("link")).unwrap();
    symlink("/opt/leftfold", site.path("link-to-leftfold")).unwrap();
    site
}

/// A repository without files that rules protect from being read.
fn repository() -> Site {
    let names = [
        ".git/HEAD", ".git/config", ".git/hooks/pre-commit.sample", ".gitignore", "AGENTS.md",
        "Cargo.toml", "Makefile", "README.md", "a.txt", "package.json", "src/a.rs", "src/b.rs",
        "target/debug/x.o", "tests/t.py", "x.patch", "x.tar",
    ];
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"x\n"[..])).collect();
    Site::with(&files)
}

/// A repository with settings, and with files that would replace them.
fn with_settings() -> Site {
    let site = repository();
    for name in [
        ".leftfold/agents/a.md", ".leftfold/plans/p.md", "leftfold.json", "evil/AGENTS.md",
        "evil/b", "evil/deep/.leftfold/x", "sub/AGENTS.md", "sub/a",
    ] {
        site.file(name, "x\n");
    }
    symlink(".git/hooks", site.path("link-to-hooks")).unwrap();
    site
}

fn resolved(site: &Site, rules: &[Rule], line: &str) -> Resolution {
    let input = Json::from_value(&json!({ "command": line }));
    let call = CallSpec { id: "c".to_owned(), name: "bash".to_owned(), input };
    let workspace = Workspace { guarded: guarded(rules), ..site.workspace() };
    leftfold_tools::resolve(&call, &workspace)
}

/// The worst verdict over all that the call needs.
fn verdict(site: &Site, rules: &[Rule], line: &str) -> Action {
    let resolved = resolved(site, rules, line);
    assert_eq!(resolved.error, None, "{line:?}");
    let config = TurnConfig { rules: rules.to_vec(), ..TurnConfig::default() };
    let verdicts = resolved.access.iter().map(|access| judge(&config, access, &resolved.access).0);
    verdicts.max().unwrap()
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    ROWS.lines().filter(|row| !row.starts_with('#')).map(|row| {
        let mut cells = row.splitn(3, '\t');
        let mut cell = || cells.next().unwrap_or_else(|| panic!("too few cells in {row:?}"));
        let (rules, verdict) = (cell(), cell());
        (rules, verdict, unescaped(cell()))
    })
}

#[test]
fn verdicts() {
    let (usual, repository, with_settings) = (site(), repository(), with_settings());
    let mut wrong = Vec::new();
    for (name, expected, line) in rows() {
        let site = match name {
            "everyday" => &repository,
            "protected" => &with_settings,
            _ => &usual,
        };
        let found = match verdict(site, &rules(name), &line) {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        };
        if found != expected {
            let access = resolved(site, &rules(name), &line).access;
            let seen: Vec<_> = access.iter().map(|a| (&a.permission, &a.patterns)).collect();
            wrong.push(format!("{name}: {line:?} is {found}, not {expected}: {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    let lines: HashSet<_> = rows().collect();
    assert!(lines.len() >= 500, "{} rows", lines.len());
}

/// `touch` is in no list of allowed programs here.
#[test]
fn bash_runs_nothing_that_was_not_allowed() {
    let mut ran = Vec::new();
    let isolated = ["echo", "cat", "test", "builtins", "git", "git-log"];
    for (name, _, line) in
        rows().filter(|(name, verdict, _)| isolated.contains(name) && *verdict == "allow")
    {
        let site = site();
        // however it ends
        let _ = Command::new("timeout")
            .args(["5", "bash", "-c", &line])
            .current_dir(site.path(""))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", site.outside(""))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if ["P", "Q"].iter().any(|made| site.path(made).exists()) {
            ran.push(format!("{name}: {line:?}"));
        }
    }
    assert!(ran.is_empty(), "{}", ran.join("\n"));
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let site = Site::new();
    let line = "echo a; ".repeat(128 * 1024);
    let start = std::time::Instant::now();
    let resolved = site.resolve("bash", &json!({ "command": line }));
    let error = resolved.error.expect("refused");
    assert!(error.contains("at most 65536 bytes"), "{error}");
    assert!(start.elapsed().as_millis() < 1_000, "{:?}", start.elapsed());
}

/// Questions about [`EVERYDAY`] before lines with unknown commands asked.
const QUESTIONS_BEFORE: usize = 59;

#[test]
fn everyday_lines_get_no_new_questions() {
    let lines: Vec<String> =
        EVERYDAY.lines().filter(|line| !line.starts_with('#')).map(unescaped).collect();
    let all = lines.iter().collect::<HashSet<_>>().len();
    assert_eq!((all, lines.len()), (2_000, 2_000));
    let site = repository();
    let mut asked = lines.clone();
    asked.retain(|line| verdict(&site, &defaults(), line) != Action::Allow);
    let most = QUESTIONS_BEFORE + all / 100;
    assert!(asked.len() <= most, "{} lines need a question:\n{}", asked.len(), asked.join("\n"));
}
