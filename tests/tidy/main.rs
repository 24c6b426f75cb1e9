//! Rules about the code itself: which code may use what, and what must not be left behind.
#![cfg(test)]

mod imports;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use imports::{Modules, cycles, one_way_round};
use serde_json::{Value, json};

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The code without the tests at its end and without comments.
    fn code(&self) -> String {
        let code = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("tests/") || name == "tests.rs" || name == "testing.rs"
    }
}

/// All files with this extension that git tracks or would track; without git, all files.
fn files(extension: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = git.output().ok().filter(|output| output.status.success());
    let mut paths = match listed {
        Some(output) => {
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
        }
        None => walk(root, root),
    };
    paths.retain(|path| path.ends_with(extension) && root.join(path).is_file());
    assert!(paths.len() > 50 || extension != ".rs", "the sources were not found");
    paths
}

fn walk(root: &Path, folder: &Path) -> Vec<String> {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let hidden = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with('.') || name == "target"
    };
    let mut files = Vec::new();
    for path in entries.into_iter().filter(|path| !hidden(path)) {
        if path.is_dir() {
            files.extend(walk(root, &path));
        } else {
            files.push(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
    files
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        Source { path, text }
    };
    files(".rs").into_iter().map(read).collect()
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// Lines with one of the `words`, in the files that `concerns` selects.
fn users(words: &[&str], concerns: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| concerns(source)) {
        for (line, at) in source.code().lines().zip(1..) {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

/// A zero in the line of a promise is computed, because only the tally prints one.
#[test]
fn only_the_tally_prints_the_count_of_a_promise() {
    let tests = |source: &Source| {
        source.is_test()
            && !["tests/common/tally.rs", "tests/tidy/main.rs"].contains(&&*source.path)
    };
    assert_none("use `Tally`", &users(&["\"promise ", "\"promises "], tests));
}

/// The owner and the licence are chosen in `Cargo.toml`. `LEFTFOLD_GOLDEN=write` writes the address that it names into the other files.
#[test]
fn the_repository_and_the_licence_are_those_of_the_manifest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let manifest = read("Cargo.toml");
    let value = |key: &str| {
        let start = format!("{key} = \"");
        manifest.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'))
    };
    let none = "No licence has been chosen for Leftfold yet.";
    let readme = read("README.md").replace('\n', " ");
    assert_eq!(readme.contains(none), value("license").is_none(), "README.md: {none}");
    let repository = value("repository").unwrap();
    let mut wrong = Vec::new();
    for file in [".md", ".yml", ".yaml", ".sh", ".js", ".py", "Dockerfile"].map(files).concat() {
        let text = read(&file);
        // HOST/OWNER/leftfold, perhaps with more after it
        let addresses = text.split("https://").skip(1).filter_map(|rest| {
            let word =
                rest.split(|it: char| !it.is_alphanumeric() && !"/.-_".contains(it)).next()?;
            let parts: Vec<&str> = word.split('/').take(3).collect();
            (parts.get(2) == Some(&"leftfold")).then(|| format!("https://{}", parts.join("/")))
        });
        let right = addresses.fold(text.clone(), |text, old| text.replace(&old, repository));
        if right != text && std::env::var("LEFTFOLD_GOLDEN").is_ok_and(|it| it == "write") {
            std::fs::write(root.join(&file), right).unwrap();
        } else if right != text {
            wrong.push(file);
        }
    }
    assert_none(&format!("no {repository}; LEFTFOLD_GOLDEN=write corrects it"), &wrong);
}

/// One page has every promise: its row names what is not covered and tests that exist. The rules of ARCHITECTURE.md are rows too.
#[test]
fn every_promise_names_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let page = read("docs/guarantees.md");
    let table = page.split("## The last run").next().unwrap();
    let header = |line: &&str| line.starts_with("| --- ") || line.contains("| promise | test |");
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !header(line)).collect();
    assert!(rows.len() > 130, "{} rows", rows.len());
    for number in 1..=17 {
        let row = format!("| {number} | ");
        assert!(rows.iter().any(|line| line.starts_with(&row)), "no row for promise {number}");
    }
    let paths: Vec<String> = sources().into_iter().map(|source| source.path).collect();
    for row in &rows {
        let cells: Vec<&str> = row.trim_start_matches("| ").split(" | ").collect();
        let ([_, _, tests, _] | [_, tests, _]) = cells[..] else {
            panic!("promise, test, not covered: {row}")
        };
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{row}");
        for test in named {
            let Some(command) = test.strip_prefix("cargo test ") else {
                assert!(root.join(test).exists(), "there is no {test}: {row}");
                continue;
            };
            // the name of a test program may be all
            let name = command.split(' ').next_back().unwrap().trim_end_matches("::");
            let is_test = |path: &String| {
                let (file, folder) = (format!("/{name}.rs"), format!("/{name}/"));
                path.contains("tests/") && (path.ends_with(&file) || path.contains(&folder))
            };
            assert!(name == "leftfold-fuzz-driver" || paths.iter().any(is_test), "`{test}`");
        }
    }
    let architecture = read("ARCHITECTURE.md");
    let rules =
        architecture.split("\n## Invariants\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rules: Vec<&str> =
        rules.lines().filter_map(|line| line.strip_prefix("- **")?.split(".**").next()).collect();
    assert!(rules.len() > 15, "{rules:?}");
    for rule in rules {
        assert!(rows.iter().any(|row| row.starts_with(&format!("| **{rule}** | "))), "{rule}");
    }
    for name in files(".md").iter().filter(|name| *name != "docs/guarantees.md") {
        assert!(!read(name).contains("| promise | test"), "{name}: there is one table of promises");
    }
}

/// Where `temp_dir` is used, and how a name that somebody else has taken there does no harm.
const TEMPORARY: [(&str, &str); 2] = [
    ("bin/commands/demo.rs", "a folder that must not exist yet"),
    ("store/src/sled_engine/database.rs", "folders of `tempfile`"),
];

/// Another user, or a command, can put a link there under a name that is known before.
#[test]
fn nothing_has_a_fixed_name_in_a_shared_temporary_folder() {
    let product = |source: &Source| {
        !source.is_test() && (source.path.contains("/src/") || source.path.starts_with("bin/"))
    };
    let mut found = users(&["temp_dir()"], product);
    for (path, what) in TEMPORARY {
        let before = found.len();
        found.retain(|line| !line.starts_with(path));
        assert!(found.len() < before, "{path} uses it no more: {what}");
    }
    assert_none("use `tempfile`, or say in `TEMPORARY` why it is safe", &found);
}

#[test]
fn the_core_touches_nothing_of_the_world() {
    let words = [
        "std::fs", "std::net", "std::env", "std::process", "std::thread", "std::io", "Instant",
        "SystemTime::now", "tokio", "rand::", "Ulid::new", "getrandom",
    ];
    let core = |source: &Source| {
        ["events/src/", "bin/view/src/", "bin/page/src/"]
            .iter()
            .any(|core| source.path.starts_with(core))
    };
    assert_none("the core does I/O, reads a clock or rolls dice", &users(&words, core));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("events/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    for name in ["tokio", "rand", "reqwest", "sled", "ractor"] {
        assert!(!manifest.contains(&format!("\n{name}")), "events depends on {name}");
    }
}

#[test]
fn each_dependency_stays_where_it_belongs() {
    let is_me = |source: &Source| source.path.starts_with("tests/tidy/");
    for (words, at_home) in [
        (&["bincode"][..], &["store/src/codec.rs", "tools/snapshots/src/index.rs"][..]),
        (&["sled::"], &["store/"]),
        (&["tokio_postgres"], &["store/postgres/"]),
        (
            &["reqwest"],
            &[
                "providers/", "tools/src/webfetch", "tools/src/websearch", "tools/src/address.rs",
                "tools/src/search_service.rs", "tools/mcp/", "bin/http/src/web.rs",
                "bin/commands/otlp.rs",
            ],
        ),
        (&["rmcp"], &["tools/mcp/"]),
        (&["clap"], &["bin/"]),
        (&["anyhow"], &["bin/"]),
        (&["landlock::", "seccompiler::", "nix::sched"], &["tools/sandbox/"]),
    ] {
        let stray = |source: &Source| {
            !is_me(source) && at_home.iter().all(|home| !source.path.starts_with(home))
        };
        assert_none(&format!("{words:?} belongs to {at_home:?}"), &users(words, stray));
    }
}

/// Text reaches the terminal through a few functions, which escape what would drive it:
/// `leftfold_view::clean`. No other code writes to standard output or standard error.
#[test]
fn every_text_passes_the_cleaner() {
    const WRITERS: [&str; 18] = [
        // functions for everybody: text, JSON, events, notes, the log
        "bin/commands/mod.rs", "bin/commands/printer.rs", "bin/commands/live_line.rs",
        "bin/runtime/src/lib.rs", "bin/logging.rs", "bin/terminal/src/surface.rs",
        "bin/terminal/src/plain_screen.rs",
        // constant texts, and the path of the user's own keys
        "bin/terminal/src/terminal_mode.rs", "bin/terminal/src/restorer.rs", "bin/cli/mod.rs",
        "bin/config/src/auth.rs", "bin/http/src/server.rs",
        // JSON for an editor
        "bin/acp/src/lib.rs", "bin/acp/src/proxy.rs",
        // lines that `tests/cli/hostile_text.rs` and the tests beside them cover
        "bin/commands/replay/step.rs", "bin/commands/password_prompt.rs", "bin/commands/consent.rs",
        "bin/terminal/src/trust.rs",
    ];
    let words = ["stdout()", "stderr()", "println!", "print!(", "dbg!", "error.print()"];
    let mut found = users(&words, |source| {
        let path = source.path.as_str();
        path.contains("src/") || path.starts_with("bin/")
    });
    found.retain(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let is_program = !path.contains("tests") && !path.contains("/benches/");
        is_program && !path.contains("/examples/") && !WRITERS.contains(&path)
    });
    // asking whether it is a terminal writes nothing
    found.retain(|line| {
        !line.contains(".is_terminal()") && !line.starts_with("bin/commands/observe/mod.rs")
    });
    // the helper of the sandbox hands its output on to `bwrap`
    found.retain(|line| !line.starts_with("tools/sandbox/src/helper.rs"));
    assert_none("text goes out past the cleaner", &found);
}

/// The node starts programs that no project and no command can choose: `leftfold_programs` finds them. The others start
/// what it has found, this program itself, or what runs in a sandbox.
#[test]
fn programs_are_found_in_one_place() {
    const STARTERS: [&str; 11] = [
        "tools/programs/src/lib.rs",
        // they get the path of a program that was found
        "tools/src/command.rs", "tools/process/src/child.rs", "providers/src/aws/temporary.rs",
        "bin/http/src/api/terminals.rs",
        // the running program itself, whose path the kernel tells, so that no search decides
        "bin/memory.rs", "bin/terminal/src/jobs.rs", "bin/terminal/src/restorer.rs",
        "tools/sandbox/src/channel.rs",
        // `bwrap` at a fixed path, and commands in the sandbox
        "tools/sandbox/src/helper.rs", "tools/sandbox/src/supervise.rs",
    ];
    let mut found = users(&["Command::new("], |source| {
        let path = source.path.as_str();
        let is_product = !source.is_test() && !path.starts_with("tests/");
        is_product && !path.contains("/examples/") && !path.contains("/benches/")
    });
    found.retain(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let is_bare = line.contains("Command::new(\"");
        // commands of an editor's protocol
        (is_bare || !STARTERS.contains(&path)) && !line.contains("AvailableCommand::new(")
    });
    assert_none("use `leftfold_programs` to start a program", &found);
}

/// Code that works in projects, and opens other files than those of the project. Whoever wrote a project chose what is at the
/// paths in it.
const OTHER_FILES: [(&str, &str); 21] = [
    ("tools/files/src/", "the reader itself"),
    ("tools/process/src/", "the kernel's files about processes"),
    ("tools/sandbox/src/", "the kernel's files; what is mounted is not read"),
    ("tools/executor/src/journal.rs", "Leftfold's own"),
    ("tools/mcp/src/oauth/token_store.rs", "Leftfold's own"),
    ("tools/plugins/src/keyed_hash.rs", "random numbers"),
    ("tools/snapshots/src/index.rs", "Leftfold's own"),
    ("tools/snapshots/src/scan.rs", "folders, to list them"),
    ("tools/snapshots/src/transfer.rs", "Leftfold's own"),
    ("tools/src/command.rs", "the clock of the machine"),
    ("tools/src/confined.rs", "new files, to write them"),
    ("tools/src/sandbox/mod.rs", "tables of the machine, and Leftfold's own"),
    ("tools/src/sandbox/sockets.rs", "a table of the machine"),
    ("bin/config/src/files.rs", "files that the user names, and Leftfold's own"),
    ("bin/config/src/private_file.rs", "Leftfold's own"),
    ("bin/http/src/api/terminals.rs", "random numbers"),
    ("bin/http/src/journal.rs", "Leftfold's own"),
    ("bin/http/src/peer.rs", "tables of the machine"),
    ("bin/runtime/src/remote/path.rs", "Leftfold's own"),
    ("bin/terminal/src/conversation.rs", "a text that the user's editor has written"),
    ("bin/terminal/src/prompt_history.rs", "Leftfold's own"),
];

/// A file that a project names may be a device without end, a pipe, or a link to a key. `leftfold_files` reads none of them.
#[test]
fn files_of_projects_are_read_by_one_reader() {
    let words = [
        "fs::read(", "fs::read_to_string(", "fs::open(", "fs::openat(", "openat2(", "File::open(",
        ".read(true)",
        // they open ignore files and other files by themselves, with none of the functions above
        "search_path(", "WalkBuilder::new(",
    ];
    let in_projects = |source: &Source| {
        let path = source.path.as_str();
        let crates =
            ["tools/", "bin/acp/", "bin/config/", "bin/http/", "bin/runtime/", "bin/terminal/"];
        path.contains("/src/")
            && crates.iter().any(|folder| path.starts_with(folder))
            && !source.is_test()
    };
    let mut found = users(&words, in_projects);
    for (path, what) in OTHER_FILES {
        let before = found.len();
        found.retain(|line| !line.starts_with(path));
        assert!(found.len() < before, "{path} opens no file itself any more: {what}");
    }
    assert_none("use `leftfold_files`, or name the file in `OTHER_FILES`", &found);
}

/// Appending needs a `Log`, and only `Store::log` returns one. Clippy finds calls of it by type, in
/// every crate; this test checks that the lint is on, and the exceptions.
#[test]
fn only_the_session_appends() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clippy = std::fs::read_to_string(root.join("clippy.toml")).unwrap();
    assert!(clippy.contains("path = \"leftfold_store::Store::log\""), "{clippy}");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    // `disallowed_methods` belongs to the group `style`, which is in `all`
    assert!(manifest.contains("all = { level = \"warn\", priority = -1 }"), "{manifest}");
    // in `actors/`, clippy refuses more than that: see `actors_share_nothing_and_own_their_tasks`; settings know no
    // store, and clippy refuses other methods there
    let excepted = users(&["disallowed_methods"], |source| {
        let path = source.path.as_str();
        let others = EXCEPTED.iter().filter(|(_, file)| !file.ends_with("open_log.rs"));
        !path.starts_with("tests/tidy/")
            && !path.starts_with("bin/config/src/")
            && !path.starts_with("actors/src/tests/")
            && !path.starts_with("actors/benches/")
            && !others.clone().any(|(_, file)| *file == path)
    });
    let (tests, code): (Vec<String>, Vec<String>) = excepted.into_iter().partition(|found| {
        let path = found.split(':').next().unwrap_or_default();
        path.contains("tests/") || path.contains("benches/")
    });
    assert_eq!(code.len(), 1, "{code:#?}");
    assert!(code[0].starts_with("actors/src/session/open_log.rs:"), "{code:#?}");
    assert!(tests.iter().all(|found| found.starts_with("store/")), "{tests:#?}");
    let appends = users(&[".append(&"], |source| {
        !source.is_test()
            && !source.path.starts_with("store/")
            && !source.path.contains("/benches/")
    });
    let appends: Vec<&String> =
        appends.iter().filter(|found| found.contains("log.append(")).collect();
    assert!(
        appends.len() == 1 && appends[0].starts_with("actors/src/session/mod.rs:"),
        "{appends:#?}"
    );
    // the store's crate exports no other way to a log
    let store = |source: &Source| source.path.starts_with("store/src/") && !source.is_test();
    let ways: Vec<String> = users(&["-> Result<Log", "-> Log", "&mut Log"], store);
    assert_eq!(ways.len(), 1, "{ways:#?}");
    assert!(ways[0].ends_with(
        "pub fn log(&self, session: SessionId, from: Option<SessionId>) -> Result<Log, Error> {"
    ));
}

/// Which actor starts which, and so knows more of it than its messages: in `actors/src`, the module that
/// starts one, and the modules of those that it starts.
const STARTERS: [(&str, &[&str]); 3] = [
    ("node", &["observers", "session"]),
    // for the session, whose supervision tree the workers are in
    ("dispatch", &["compaction", "hooks", "permission", "processor", "snapshots", "tool_executor"]),
    // in place of the node
    ("rerun", &["session"]),
];

/// Files of `actors/src` that may do what clippy refuses the others: the reasons stand there.
const EXCEPTED: [(&str, &str); 7] = [
    ("disallowed_methods", "actors/src/listener.rs"),
    ("disallowed_methods", "actors/src/rerun/life.rs"),
    ("disallowed_methods", "actors/src/session/open_log.rs"),
    ("disallowed_methods", "actors/src/tasks.rs"),
    ("disallowed_types", "actors/src/observers/feed.rs"),
    ("disallowed_types", "actors/src/recorded.rs"),
    ("disallowed_types", "actors/src/rerun/recording.rs"),
];

#[test]
fn actors_know_each_other_by_messages_alone() {
    let sources = sources();
    let inside = |source: &&Source| source.path.starts_with("actors/src/") && !source.is_test();
    let actors: BTreeSet<&str> = sources
        .iter()
        .filter(inside)
        .filter(|source| source.code().contains("Actor for "))
        .filter_map(|source| source.path.strip_prefix("actors/src/")?.split(['/', '.']).next())
        .collect();
    let started = STARTERS.iter().flat_map(|(_, started)| started.iter().copied());
    let unknown: Vec<&str> = started.filter(|name| !actors.contains(name)).collect();
    assert!(unknown.is_empty() && actors.len() >= 9, "{actors:?} without {unknown:?}");
    let modules = modules(&sources, "actors/src/lib.rs", &crates());
    let mut wrong = Vec::new();
    for (from, to) in modules.arrows_below(&[]) {
        let starts = STARTERS.iter().find(|(name, _)| *name == from).map_or(&[][..], |row| row.1);
        let others = to.into_iter().filter(|(to, _)| actors.contains(to.as_str()));
        let strange = others.filter(|(to, _)| !starts.contains(&to.as_str()));
        // clients have their own actor made, and send it nothing
        let strange = strange.filter(|(to, _)| to != "listener");
        wrong.extend(
            strange.map(|(to, file)| format!("{from} imports {to} (actors/src/{file}.rs)")),
        );
    }
    assert_none("actors that know another by more than `messages.rs`", &wrong);
}

/// Clippy knows these by type; this test holds that it is asked, and who is excepted.
#[test]
fn actors_share_nothing_and_own_their_tasks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_all = std::fs::read_to_string(root.join("clippy.toml")).unwrap();
    let clippy = std::fs::read_to_string(root.join("actors/clippy.toml")).unwrap();
    for line in of_all.lines().filter(|line| line.starts_with("allow-")) {
        assert!(clippy.contains(line), "actors/clippy.toml has all of clippy.toml: {line}");
    }
    for path in [
        "leftfold_store::Store::log", "tokio::spawn", "tokio::task::spawn",
        "tokio::task::spawn_blocking", "tokio::task::JoinSet::spawn",
        "tokio::task::JoinSet::spawn_blocking", "tokio::runtime::Handle::spawn",
        "std::thread::spawn", "ractor::Actor::spawn", "std::sync::Mutex", "std::sync::RwLock",
        "std::sync::OnceLock", "std::sync::atomic::AtomicBool", "std::sync::atomic::AtomicU32",
        "std::sync::atomic::AtomicU64", "std::sync::atomic::AtomicUsize", "std::cell::RefCell",
        "tokio::sync::Mutex", "tokio::sync::RwLock",
    ] {
        assert!(clippy.contains(&format!("path = \"{path}\", reason")), "{path}");
    }
    let inside = |source: &Source| source.path.starts_with("actors/src/") && !source.is_test();
    let mut found = Vec::new();
    for (lint, _) in EXCEPTED {
        for user in users(&[lint], inside) {
            let file = user.split(':').next().unwrap_or_default().to_owned();
            if !EXCEPTED.contains(&(lint, file.as_str())) {
                found.push(user);
            }
        }
    }
    assert_none("exceptions that `EXCEPTED` does not have", &found);
    let whole = ["allow(clippy::all", "expect(clippy::all", "allow(clippy::style"];
    assert_none("lints of actors that are off", &users(&whole, inside));
    let closures = |source: &Source| inside(source) && source.path != "actors/src/listener.rs";
    let words = ["dyn Fn", "fn(&mut", "watch::Sender<", "static mut"];
    let closures = users(&words, closures).into_iter().filter(|user| {
        // whoever opened a session learns of its end; sinks learn that there is more to be read
        let ends = user.contains("watch::Sender<Option<String>>");
        !ends && !user.starts_with("actors/src/observers/feed.rs:")
    });
    assert_none(
        "closures and channels that carry data past messages",
        &closures.collect::<Vec<_>>(),
    );
}

/// The crates that each crate may depend on, by folder; their dependencies are allowed too.
const CRATES: [(&str, &[&str]); 35] = [
    ("events", &[]),
    ("store", &["events"]),
    // an engine for logs of many nodes; its tests use helpers of others
    ("store/postgres", &["store", "tests/common"]),
    ("providers", &["events", "providers/oauth", "providers/request_checks", "tools/programs"]),
    // what APIs accept, for tests and debug builds
    ("providers/request_checks", &[]),
    // signing in, at vendors and at MCP servers; the HTTP client
    ("providers/oauth", &["tools/framing"]),
    // used by tools: lines of a stream, and child processes with an environment without credentials
    ("tools/framing", &[]),
    ("tools/process", &["tools/framing", "tools/programs", "tools/sandbox"]),
    // where the programs that the node starts are looked for
    ("tools/programs", &["events"]),
    // confines one command; used by the program, which becomes its helper
    ("tools/sandbox", &[]),
    // YAML front matter of Markdown files
    ("tools/front_matter", &[]),
    // files that a project names, and its ignore rules
    ("tools/files", &["events"]),
    // judges shell lines
    ("tools/shell", &["events"]),
    (
        "tools",
        &[
            "events", "providers/oauth", "tools/files", "tools/front_matter", "tools/process",
            "tools/sandbox", "tools/shell",
        ],
    ),
    ("tools/mcp", &["providers/oauth", "tools"]),
    ("tools/executor", &["tools", "tools/framing", "tools/snapshots"]),
    ("tools/json_rpc", &["tools/framing", "tools/process"]),
    ("tools/plugins", &["tools", "tools/json_rpc"]),
    ("tools/lsp", &["tools", "tools/json_rpc"]),
    ("tools/snapshots", &["tools"]),
    ("actors", &["store", "providers", "tools", "tools/mcp", "tools/plugins", "tools/snapshots"]),
    ("bin/view", &["events"]),
    ("bin/config", &["tools"]),
    (
        "bin/runtime",
        &["actors", "bin/config", "bin/view", "tools/executor", "tools/lsp", "tools/sandbox"],
    ),
    ("bin/import", &["events", "tools/framing"]),
    // its tests hold mended sessions against the rules of the APIs
    ("bin/import/health", &["bin/import", "providers"]),
    ("bin/page", &["bin/view"]),
    ("bin/export", &["bin/view"]),
    ("bin/terminal", &["bin/runtime", "bin/view", "bin/export"]),
    ("bin/acp", &["bin/runtime", "bin/view"]),
    ("bin/http", &["bin/runtime", "bin/view", "bin/page"]),
    // the program
    (
        "",
        &[
            "bin/import/health", "bin/export", "bin/page", "bin/terminal", "bin/acp", "bin/http",
            "store/postgres", "tools/sandbox", "tests/common",
        ],
    ),
    ("tests/common", &["store"]),
    // random inputs for parsers
    ("tests/fuzz", &["bin/acp"]),
    // counts of instructions
    ("tests/instructions", &["store"]),
];

/// All crates that this crate may depend on.
fn allowed(folder: &str) -> BTreeSet<&'static str> {
    let mut allowed = BTreeSet::new();
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        let row = CRATES.iter().find(|(name, _)| *name == folder);
        let (_, direct) = row.unwrap_or_else(|| panic!("`{folder}` is not in the table of crates"));
        for name in *direct {
            if allowed.insert(*name) {
                next.push((*name).to_owned());
            }
        }
    }
    allowed
}

/// The folder of each crate of the workspace, its root file, and the folders of its dependencies in
/// the workspace, including those of tests.
fn crates() -> Vec<(String, String, Vec<String>)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let told = cargo.output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let relative = |path: &Value| {
        let path = Path::new(path.as_str().unwrap());
        let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let found = told["packages"].as_array().unwrap().iter().map(|package| {
        let folder = relative(&package["manifest_path"]);
        let folder = folder.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
        let targets = package["targets"].as_array().unwrap();
        let is_root =
            |target: &&Value| target["kind"] == json!(["lib"]) || target["kind"] == json!(["bin"]);
        let root = relative(&targets.iter().find(is_root).unwrap()["src_path"]);
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let inside = dependencies.filter(|dependency| dependency["path"].is_string());
        (folder, root, inside.map(|dependency| relative(&dependency["path"])).collect())
    });
    found.collect()
}

#[test]
fn the_arrows_between_crates_point_one_way() {
    let mut found = Vec::new();
    for (folder, _, dependencies) in crates() {
        let allowed = allowed(&folder);
        let wrong = dependencies.iter().filter(|name| !allowed.contains(name.as_str()));
        found.extend(wrong.map(|name| format!("`{folder}` depends on `{name}`")));
    }
    assert_none("dependencies that the table of crates does not allow", &found);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).unwrap();
    let unknown = CRATES.iter().filter(|(name, _)| !page.contains(&format!("`{name}/`")));
    let unknown: Vec<String> = unknown.map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(unknown, [""], "crates without a row in ARCHITECTURE.md; the program has none");
}

/// The modules of a crate; for the program, without the crates in its folder.
fn modules(sources: &[Source], root: &str, crates: &[(String, String, Vec<String>)]) -> Modules {
    let (folder, root) = root.rsplit_once('/').unwrap();
    let others: Vec<&String> = crates.iter().map(|(folder, _, _)| folder).collect();
    let nested = |path: &str| {
        let is_in = |other: &&&String| {
            other.starts_with(&format!("{folder}/")) && path.starts_with(&format!("{other}/"))
        };
        others.iter().any(|other| is_in(&other))
    };
    let inside = sources.iter().filter_map(|source| {
        let name = source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
        (!nested(&source.path)).then(|| (name.to_owned(), source.text.as_str()))
    });
    Modules::read(root.trim_end_matches(".rs"), &inside.collect::<Vec<_>>())
}

#[test]
fn the_modules_of_a_folder_import_each_other_in_one_direction() {
    let (crates, sources) = (crates(), sources());
    let mut wrong = Vec::new();
    for (folder, root, _) in &crates {
        for (parent, arrows) in modules(&sources, root, &crates).child_arrows() {
            let place = [std::slice::from_ref(folder), parent].concat().join("/");
            for cycle in cycles(&arrows) {
                wrong.push(format!("`{place}`: {}", cycle.join(", ")));
                let way = one_way_round(&cycle[0], &arrows).into_iter();
                wrong.extend(way.map(|arrow| format!("    {arrow}")));
            }
        }
    }
    assert_none("cycles of imports", &wrong);
}

/// A module with files of its own is `NAME/mod.rs`, so that a folder has its map in it.
#[test]
fn a_folder_of_modules_has_its_own_mod_rs() {
    let paths: Vec<String> = sources().into_iter().map(|source| source.path).collect();
    let folders: BTreeSet<&str> =
        paths.iter().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder).collect();
    let beside = paths.iter().filter(|path| folders.contains(path.trim_end_matches(".rs")));
    assert_none("modules beside their folders", &beside.cloned().collect::<Vec<_>>());
}

/// The runtime's folders are its map; few modules belong to none of them.
#[test]
fn the_runtime_has_few_loose_modules() {
    let loose = |source: &Source| {
        let name = source.path.strip_prefix("bin/runtime/src/")?;
        (!name.contains('/')).then(|| name.to_owned())
    };
    let loose: Vec<String> = sources().iter().filter_map(loose).collect();
    assert!(loose.len() < 10, "{loose:?}");
}

#[test]
fn nothing_below_the_commands_imports_the_command_line() {
    let crates = crates();
    let arrows = modules(&sources(), "bin/main.rs", &crates).arrows_below(&[]);
    let users =
        arrows.iter().filter(|(_, to)| to.contains_key("cli")).map(|(from, _)| from.as_str());
    let users: Vec<&str> = users.filter(|from| *from != "commands").collect();
    assert!(users.is_empty(), "modules that import `cli` besides the commands: {users:?}");
}

#[test]
fn documents_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tops = ["actors", "bin", "events", "prompts", "providers", "store", "tests", "tools"];
    let mut missing = Vec::new();
    // a change log names files of its time, and prompts name those of users
    let is_about_today = |name: &String| name != "CHANGELOG.md" && !name.starts_with("prompts/");
    for name in files(".md").into_iter().filter(is_about_today) {
        let text = std::fs::read_to_string(root.join(&name)).unwrap();
        // the text between two backticks
        for quoted in text.split('`').skip(1).step_by(2) {
            let top = quoted.split_once('/').is_some_and(|(top, _)| tops.contains(&top));
            let plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if top && plain && !quoted.contains("NAME") && !root.join(quoted).exists() {
                missing.push(format!("{name}: {quoted}"));
            }
        }
    }
    assert_none("documents name files that do not exist", &missing);
}

/// Lines with one of the `words`, also in comments.
fn noted(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.path.starts_with("tests/tidy/")) {
        let lines = source.text.lines().filter(|line| words.iter().any(|word| line.contains(word)));
        found.extend(lines.map(|line| format!("{}: {}", source.path, line.trim())));
    }
    found
}

#[test]
fn comments_say_requirements_themselves() {
    assert_none("references to documents that are not here", &noted(&["SPEC ", "DESIGN "]));
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore", "#[allow(dead_code)]"];
    let all = |source: &Source| !source.path.starts_with("tests/tidy/");
    assert_none("left for later", &users(&words, all));
    assert_none("notes of what is yet to do", &noted(&["TODO", "FIXME", "XXX"]));
}

#[test]
fn only_tests_may_give_up() {
    let words = [".unwrap()", ".expect(", "panic!(", "unreachable!("];
    let shipped = |source: &Source| {
        let beside = source.path.contains("/examples/") || source.path.contains("/benches/");
        !source.is_test() && !beside && !source.path.starts_with("fuzz/")
    };
    assert_none("panics outside tests", &users(&words, shipped));
}

/// Cargo compiles a library once more for the tests in it, and with all targets for its benches. Where a library has
/// neither, a test in it would never run, unless a test program includes its module.
#[test]
fn no_test_is_in_a_library_that_is_compiled_once() {
    let sources = sources();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for manifest in files("Cargo.toml") {
        let text = std::fs::read_to_string(root.join(&manifest)).unwrap();
        let count = |line: &str| text.lines().filter(|it| *it == line).count();
        if count("test = false") != count("bench = false") {
            wrong.push(format!("{manifest}: `test = false` needs `bench = false`"));
        }
        if count("[lib]") == 0 || count("test = false") == 0 {
            continue;
        }
        let folder = manifest.trim_end_matches("Cargo.toml");
        for source in sources.iter().filter(|source| source.text.contains("#[cfg(test)]")) {
            let Some(file) = source.path.strip_prefix(&format!("{folder}src/")) else { continue };
            let included = format!("#[path = \"../../src/{file}\"]");
            let includes = |it: &Source| it.path.starts_with(folder) && it.text.contains(&included);
            if file != "main.rs" && !sources.iter().any(includes) {
                wrong.push(source.path.clone());
            }
        }
    }
    assert_none("tests that never run, or libraries that are compiled twice", &wrong);
}
