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
//! | `sql` | `tests/sessions/exports.rs` runs it on exported databases |
//! | `LANGUAGE output` | each line was printed by a command above; numbers, ids and hashes may differ, `…` stands for any text |
//!
//! A line that ends with `# exit 4` exits with that code. A line that ends with `&` runs beside the next ones, which begin once
//! it asks a question. `leftfold` alone runs on a terminal and is left with Ctrl-D; `observe` is interrupted after its first
//! line.
//!
//! A page can hold notes that readers do not see. `<!-- test: let 59 = COMMAND -->` puts what the command prints in place of the
//! word `59` in all lines after it, for numbers that differ from run to run. `<!-- test: copy FOLDER -->` puts a folder of the
//! repository where the reader is.

mod options;
mod page;
mod reader;
mod visit;

use std::sync::Mutex;

use common::Site;
use common::plugin::has_python;
use options::Known;
use page::{Block, Page};
use visit::Visit;

/// Blocks that may be marked `no-test`, in all pages together. Raise it only for a block that no test can run.
const UNTESTED: usize = 18;

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
                    if page.needs_python() && !has_python() {
                        continue;
                    }
                    let found = Visit::failures(&page);
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures\n\n{}", failures.len(), failures.join("\n"));
}

fn known() -> Known {
    let site = Site::bare();
    Known::ask(&|args| site.run(args).ok().stdout)
}

/// The problems of the names, options and marks of a page, found without running anything.
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

/// Variants that have the type of another one, in another stored form.
const SECOND_FORMS: [&str; 8] = [
    "EndedUncounted", "ResumedImported", "RejectedWith", "AnsweredFor", "AskedWith",
    "StartedSandboxed", "SnapshotFailedAs", "RestoreFailedAs",
];

/// The page of the events is complete, and says of each whether it is a fact or an intent.
#[test]
fn the_page_of_the_events_has_every_type() {
    let page = std::fs::read_to_string(common::root().join("docs/events.md")).unwrap();
    let (mut concern, mut types, mut missing) = (String::new(), 0, Vec::new());
    for file in std::fs::read_dir(common::root().join("events/src/event")).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let line = line.trim();
            let name =
                |text: &str| text.split(|c: char| !c.is_alphanumeric()).next().map(snake_case);
            if let Some(concern_name) = line.strip_prefix("pub enum ") {
                concern = name(concern_name).unwrap();
            } else if let Some((kind @ ("fact" | "intent"), event)) = line.split_once(' ')
                && !SECOND_FORMS.iter().any(|second| event.starts_with(second))
            {
                types += 1;
                let row = format!("| `{concern}.{}` | {kind} |", name(event).unwrap());
                missing.extend(Some(row).filter(|row| !page.contains(row)));
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/events.md: {missing:?}");
    let rows = page.lines().filter(|line| line.contains("| fact |") || line.contains("| intent |"));
    assert_eq!(rows.count(), types, "docs/events.md has types that do not exist");
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
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
    let others = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "providers/README.md"];
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
        fenced("text output", "never printed"),
    ];
    for text in pages {
        let found = Visit::failures(&Page::from_text("docs/wrong.md", &text));
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
        let found = misnamed(&Page::from_text("docs/wrong.md", &text), &known);
        assert_eq!(found.len(), 1, "{text}{found:?}");
    }
    for link in ["nowhere.md", "tools.md#nothing", "#nothing", "../nowhere/"] {
        let page = Page::from_text("docs/wrong.md", &format!("# Tools\n\n[here]({link})\n"));
        assert_eq!(dead_links(&page).len(), 1, "{link}");
    }
}
