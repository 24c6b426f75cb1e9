//! README.md and `docs/` are true: every command that they show runs, every setting is accepted, every option exists,
//! every link leads somewhere.
//!
//! | fence | meaning |
//! | --- | --- |
//! | `sh` | the lines run in order, in a shell that keeps folder and variables from line to line; each page has its own home |
//! | `sh no-test: REASON` | the lines are not run; their options must exist |
//! | `jsonc settings` | `leftfold config` accepts it without a warning; braces around it may be left out |
//! | `LANGUAGE file=PATH` | is written to that path before the next lines run |
//! | `LANGUAGE copy-of=PATH` | stands in that file of the repository |
//!
//! A line that ends with `# exit 4` exits with that code. `<!-- test: let 59 = COMMAND -->` puts what the command prints in
//! place of the word `59` in all lines after it: for numbers that differ from run to run. `<!-- test: copy FOLDER -->` puts a folder of the repository where the reader
//! is. A line that ends with `&` runs
//! beside the next ones, which begin once it asks a question. `leftfold` alone runs on a terminal and is left with Ctrl-D;
//! `observe` is interrupted after its first line.

mod options;
mod page;
mod reader;

use std::collections::BTreeMap;
use std::sync::Mutex;

use common::{Ran, Site};
use options::Known;
use page::{Block, Item, Page};
use reader::Reader;

/// Blocks that may be marked `no-test`, in all pages together. Raise it only for a block that no test can run.
const UNTESTED: usize = 8;

/// Pages that are read at once.
const AT_ONCE: usize = 3;

#[test]
fn every_command_and_setting_that_is_shown_works() {
    let pages = Mutex::new(Page::all().into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(page) = pages.lock().unwrap().next() else { return };
                    let found = read_through(&page);
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures\n\n{}", failures.len(), failures.join("\n"));
}

/// What went wrong on the page.
fn read_through(page: &Page) -> Vec<String> {
    let mut reader = Reader::new();
    let mut failures = Vec::new();
    let mut values = BTreeMap::new();
    for item in page.items() {
        match item {
            Item::Note { words, .. } if words.starts_with("copy ") => reader.copy(&words[5..]),
            Item::Note { line, words } => match value(&reader, &values, &words) {
                Ok((name, value)) => {
                    values.insert(name, value);
                }
                Err(e) => failures.push(format!("{}:{line}: {words}\n{e}", page.name)),
            },
            Item::Block(block) if block.mark.starts_with("no-test: ") => {}
            Item::Block(block) if block.language == "sh" => {
                for (line, command) in block.commands() {
                    let command = put_in(&values, &command);
                    if let Err(e) = type_in(&mut reader, &page.name, line, &command) {
                        failures.push(format!("{}:{line}: {command}\n{e}", page.name));
                    }
                }
            }
            Item::Block(block) => {
                if let Err(e) = take(&reader, &block) {
                    failures.push(format!("{}:{}: {}\n{e}", page.name, block.line, block.mark));
                }
            }
        }
    }
    for (line, ran) in reader.leave() {
        failures.extend(verdict(&line, &ran).err().map(|e| format!("{}: {line}\n{e}", page.name)));
    }
    failures
}

/// Reads `let NAME = COMMAND`.
fn value(
    reader: &Reader,
    values: &BTreeMap<String, String>,
    words: &str,
) -> Result<(String, String), String> {
    let parts = words.strip_prefix("let ").and_then(|words| words.split_once(" = "));
    let (name, command) = parts.ok_or("the test knows `let NAME = COMMAND` and `copy FOLDER`")?;
    let ran = reader.run(&put_in(values, command));
    let value = ran.stdout.trim().to_owned();
    let good = ran.code == 0 && !value.is_empty() && !value.contains(char::is_whitespace);
    if good { Ok((name.to_owned(), value)) } else { Err(format!("{ran:?}")) }
}

fn put_in(values: &BTreeMap<String, String>, command: &str) -> String {
    let within = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: Vec<String> = Vec::new();
    for c in command.chars() {
        match words.last_mut() {
            Some(word) if within(c) && word.chars().all(within) => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    words.into_iter().map(|word| values.get(&word).cloned().unwrap_or(word)).collect()
}

fn type_in(reader: &mut Reader, page: &str, line: usize, command: &str) -> Result<(), String> {
    eprintln!("{page}:{line}: {command}"); // shown only with a failure
    let code = command.split(" #").next().unwrap_or_default().trim();
    let mut words = code.split_whitespace();
    let first = words.next();
    let second = words.next().unwrap_or("--continue");
    let printing = ["--help", "-h", "--version", "-V"];
    let ran = match (first, second) {
        _ if code.ends_with('&') => {
            return attended(|| reader.start(code));
        }
        (Some("leftfold"), "observe") if !code.contains('|') => attended(|| reader.watch(code))?,
        (Some("leftfold"), option) if option.starts_with('-') && !printing.contains(&option) => {
            attended(|| reader.converse(code))?
        }
        _ => attended(|| reader.run(command))?,
    };
    verdict(command, &ran)
}

/// A command that hangs, or that never gets where it is waited for, is a failure of its line.
fn attended<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| "it did not behave as the test expects of such a command".into())
    })
}

/// Whether it has exited as the line says.
fn verdict(command: &str, ran: &Ran) -> Result<(), String> {
    let declared = command.split_once("# exit ").map(|(_, code)| {
        let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(-1)
    });
    let panicked = ran.stderr.contains("panicked");
    let good = ran.code == declared.unwrap_or(0) && !panicked;
    if good { Ok(()) } else { Err(format!("{ran:?}")) }
}

/// A block that is no shell.
fn take(reader: &Reader, block: &Block) -> Result<(), String> {
    if block.mark == "settings" {
        let first = block.text.lines().find(|line| !line.trim_start().starts_with("//"));
        let whole = first.is_some_and(|line| line.trim_start().starts_with('{'));
        let text = if whole { block.text.clone() } else { format!("{{\n{}}}\n", block.text) };
        return accepted(&reader.settings(&text));
    }
    if let Some(path) = block.mark.strip_prefix("file=") {
        reader.file(path, &block.text);
        let settings = block.language == "jsonc";
        return if settings { accepted(&reader.run("leftfold config")) } else { Ok(()) };
    }
    if let Some(path) = block.mark.strip_prefix("copy-of=") {
        let file = std::fs::read_to_string(common::root().join(path)).map_err(|e| e.to_string())?;
        let same = file.contains(block.text.trim_end());
        return if same { Ok(()) } else { Err(format!("{path} says it in other words")) };
    }
    let plain = ["", "text", "json", "markdown"].contains(&block.language.as_str());
    if plain && block.mark.is_empty() {
        Ok(())
    } else {
        Err(format!("how is a block `{} {}` to be tested?", block.language, block.mark))
    }
}

/// Whether `leftfold config` has read all settings without a word.
fn accepted(ran: &Ran) -> Result<(), String> {
    if ran.code == 0 && ran.stderr.is_empty() { Ok(()) } else { Err(format!("{ran:?}")) }
}

fn known() -> Known {
    let site = Site::bare();
    Known::ask(&|args| site.run(args).ok().stdout)
}

/// What is wrong with the names, options and marks of a page, without running anything.
fn misnamed(page: &Page, known: &Known) -> Vec<String> {
    let name = &page.name;
    let mut failures = Vec::new();
    for block in page.blocks() {
        if block.mark.starts_with("no-test") && untested(&block).is_none() {
            failures.push(format!("{name}:{}: write `no-test: REASON`", block.line));
        }
        if ["bash", "shell", "console", "zsh"].contains(&block.language.as_str()) {
            failures.push(format!("{name}:{}: mark shell lines as `sh`", block.line));
        }
        if block.language == "sh" {
            let mistakes = block.commands().into_iter().filter_map(|(line, command)| {
                Some(format!("{name}:{line}: {}", known.mistake(&command)?))
            });
            failures.extend(mistakes);
        }
    }
    for (line, span) in page.spans() {
        let option = span.split([' ', '=']).next().unwrap_or_default();
        if option.starts_with("--") && option.len() > 2 && !known.has(option) {
            failures.push(format!("{name}:{line}: no command has an option `{option}`"));
        }
        let mistake = known.mistake(&span);
        failures.extend(mistake.map(|mistake| format!("{name}:{line}: {mistake}")));
    }
    failures
}

/// Why a block is not tested.
fn untested(block: &Block) -> Option<&str> {
    let reason = block.mark.strip_prefix("no-test:").map(str::trim);
    reason.filter(|reason| !reason.is_empty())
}

#[test]
fn commands_and_options_that_are_only_named_exist() {
    let known = known();
    let mut failures = Vec::new();
    let mut skipped = Vec::new();
    for page in Page::all() {
        failures.extend(misnamed(&page, &known));
        let reason =
            |block: &Block| Some(format!("{}:{}: {}", page.name, block.line, untested(block)?));
        skipped.extend(page.blocks().iter().filter_map(reason));
    }
    if skipped.len() > UNTESTED {
        let list = skipped.join("\n");
        failures.push(format!("more than {UNTESTED} blocks are not tested:\n{list}"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_page_of_the_command_line_has_every_command() {
    let page = Page::read("docs/command-line.md");
    let spans: Vec<String> = page.spans().into_iter().map(|(_, span)| span).collect();
    let named = |command: &str| {
        let call = format!("leftfold {command}");
        spans.iter().any(|span| *span == call || span.starts_with(&format!("{call} ")))
    };
    let known = known();
    let missing: Vec<&str> = known.commands().filter(|command| !named(command)).collect();
    assert!(missing.is_empty(), "not in {}: {missing:?}", page.name);
}

/// Links of a page that lead nowhere.
fn dead_links(page: &Page) -> Vec<String> {
    let dead = page.links().into_iter().filter(|(_, target)| !page.leads_to(target));
    dead.map(|(line, target)| format!("{}:{line}: {target}", page.name)).collect()
}

#[test]
fn every_link_leads_somewhere_and_every_page_is_in_the_index() {
    let mut pages = Page::all();
    let index = Page::read("docs/README.md");
    let listed: Vec<String> = index.links().into_iter().map(|(_, target)| target).collect();
    let mut failures = Vec::new();
    for page in &pages {
        let short = page.name.strip_prefix("docs/").filter(|short| *short != "README.md");
        // a folder of pages may have an index of its own
        let absent =
            short.filter(|short| !short.contains('/') && !listed.iter().any(|to| to == short));
        failures.extend(absent.map(|short| format!("docs/README.md: no link to {short}")));
    }
    let others =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "providers/README.md"];
    pages.extend(others.map(Page::read));
    failures.extend(pages.iter().flat_map(dead_links));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// This test would notice.
#[test]
fn what_is_wrong_on_a_page_is_found() {
    let fenced = |info: &str, text: &str| format!("```{info}\n{text}\n```\n");
    let pages = [
        fenced("sh", "leftfold export"),
        fenced("sh", "leftfold export last # exit 1"),
        fenced("sh", "leftfold sessions # exit 1"),
        fenced("sh", "leftfold sessions | grep nothing"),
        fenced("sh", "leftfold --continue"),
        fenced("sh", "leftfold observe"),
        fenced("jsonc settings", "{ \"modell\": \"a/b\" }"),
        fenced("jsonc file=leftfold.json", "{ \"model\": 1 }"),
        fenced("jsonc", "{}"),
        fenced("rust", "fn main() {}"),
        fenced("rust copy-of=bin/main.rs", "fn nothing_of_the_kind() {}"),
        "<!-- test: let 4 = false -->\n".to_owned(),
    ];
    for text in pages {
        let found = read_through(&Page::of("docs/wrong.md", &text));
        assert_eq!(found.len(), 1, "{text}{found:?}");
        assert!(found[0].starts_with("docs/wrong.md:"), "{found:?}");
    }
    let known = known();
    let pages = [
        fenced("sh no-test", "leftfold mcp login x"),
        fenced("sh no-test: ", "leftfold mcp login x"),
        fenced("sh no-test: needs a key", "X=1 leftfold run --no-such-option x"),
        fenced("sh", "ls | leftfold mcp probe --no-such-option x"),
        fenced("sh", "leftfold nothing"),
        fenced("sh", "leftfold sessions nothing"),
        fenced("bash", "leftfold sessions"),
        "Use `leftfold run --no-such-option`.\n".to_owned(),
        "Use `--no-such-option`.\n".to_owned(),
    ];
    for text in pages {
        let found = misnamed(&Page::of("docs/wrong.md", &text), &known);
        assert_eq!(found.len(), 1, "{text}{found:?}");
    }
    for link in ["nowhere.md", "tools.md#nothing", "#nothing", "../nowhere/"] {
        let page = Page::of("docs/wrong.md", &format!("# Tools\n\n[here]({link})\n"));
        assert_eq!(dead_links(&page).len(), 1, "{link}");
    }
}
