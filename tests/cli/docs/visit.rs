//! One page, gone through from its first block to its last.

use std::collections::BTreeMap;

use common::Ran;

use super::page::{Block, Item, Page};
use super::reader::PageReader;

/// Languages of blocks that only show something.
const SHOWN: [&str; 5] = ["", "text", "json", "markdown", "sql"];

pub(super) struct Visit<'a> {
    page: &'a Page,
    reader: PageReader,
    /// Words of the page, and what stands for them today.
    values: BTreeMap<String, String>,
    /// The lines that the commands so far have printed, made comparable.
    printed: Vec<String>,
}

impl<'a> Visit<'a> {
    /// The failures on the page.
    pub(super) fn failures(page: &'a Page) -> Vec<String> {
        let (values, printed) = (BTreeMap::new(), Vec::new());
        let mut visit = Self { page, reader: PageReader::new(), values, printed };
        let mut failures = Vec::new();
        let mut fail = |line: usize, what: &str, why: String| {
            failures.push(format!("{}:{line}: {what}\n{why}", page.name));
        };
        for item in page.items() {
            match item {
                Item::Note { line, words } => {
                    if let Err(why) = visit.note(&words) {
                        fail(line, &words, why);
                    }
                }
                Item::Block(block) if block.mark.starts_with("no-test: ") => {}
                Item::Block(block) if block.language == "sh" => {
                    for (line, command) in block.commands() {
                        let command = visit.put_in(&command);
                        if let Err(why) = visit.type_in(line, &command) {
                            fail(line, &command, why);
                        }
                    }
                }
                Item::Block(block) => {
                    if let Err(why) = visit.take(&block) {
                        fail(block.line, &format!("{} {}", block.language, block.mark), why);
                    }
                }
            }
        }
        for (line, command, live) in visit.reader.leave() {
            let ended = attended(|| live.wait()).and_then(|ran| verdict(&command, &ran));
            if let Err(why) = ended {
                fail(line, &command, why);
            }
        }
        failures
    }

    /// Does what a note says.
    fn note(&mut self, words: &str) -> Result<(), String> {
        if let Some(folder) = words.strip_prefix("copy ") {
            self.reader.copy(folder);
            return Ok(());
        }
        let parts = words.strip_prefix("let ").and_then(|words| words.split_once(" = "));
        let (name, command) = parts.ok_or("a note is `let NAME = COMMAND` or `copy FOLDER`")?;
        let ran = self.reader.run(&self.put_in(command));
        let value = ran.stdout.trim().to_owned();
        if ran.code != 0 || value.is_empty() || value.contains(char::is_whitespace) {
            return Err(format!("{ran:?}"));
        }
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    fn put_in(&self, command: &str) -> String {
        let within = |c: char| c.is_alphanumeric() || c == '_';
        let mut words: Vec<String> = Vec::new();
        for c in command.chars() {
            match words.last_mut() {
                Some(word) if within(c) && word.chars().all(within) => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        let today = |word: String| self.values.get(&word).cloned().unwrap_or(word);
        words.into_iter().map(today).collect()
    }

    fn type_in(&mut self, line: usize, command: &str) -> Result<(), String> {
        eprintln!("{}:{line}: {command}", self.page.name); // shown only with a failure
        let code = command.split(" #").next().unwrap_or_default().trim();
        let mut words = code.split_whitespace();
        let first = words.next();
        let second = words.next().unwrap_or("--continue");
        let printing = ["--help", "-h", "--version", "-V"];
        let reader = &mut self.reader;
        let ran = match (first, second) {
            _ if code.ends_with('&') => {
                return attended(|| reader.start(line, code.trim_end_matches('&')));
            }
            (Some("leftfold"), "observe") if !code.contains('|') => {
                attended(|| reader.watch(code))?
            }
            (Some("leftfold"), option)
                if option.starts_with('-') && !printing.contains(&option) =>
            {
                attended(|| reader.converse(code))?
            }
            _ => attended(|| reader.run(command))?,
        };
        let lines = ran.stdout.lines().chain(ran.stderr.lines());
        self.printed.extend(lines.map(|line| comparable(&self.reader.disguised(line))));
        verdict(command, &ran)
    }

    /// A block that is no shell.
    fn take(&mut self, block: &Block) -> Result<(), String> {
        if block.mark == "output" {
            let missing = |line: &&str| !self.was_printed(line);
            let missing: Vec<&str> = block.text.lines().filter(missing).collect();
            let printed = || format!("no command has printed:\n{}", missing.join("\n"));
            return if missing.is_empty() { Ok(()) } else { Err(printed()) };
        }
        if block.mark == "settings" {
            let first = block.text.lines().find(|line| !line.trim_start().starts_with("//"));
            let whole = first.is_some_and(|line| line.trim_start().starts_with('{'));
            let text = if whole { block.text.clone() } else { format!("{{\n{}}}\n", block.text) };
            return accepted(&self.reader.settings(&text));
        }
        if let Some(path) = block.mark.strip_prefix("file=") {
            self.reader.file(path, &block.text);
            let settings = block.language == "jsonc";
            return if settings { accepted(&self.reader.run("leftfold config")) } else { Ok(()) };
        }
        if let Some(path) = block.mark.strip_prefix("copy-of=") {
            let file =
                std::fs::read_to_string(common::root().join(path)).map_err(|e| e.to_string())?;
            let holds = file.contains(block.text.trim_end());
            return if holds { Ok(()) } else { Err(format!("{path} has another text")) };
        }
        if block.mark.is_empty() && SHOWN.contains(&block.language.as_str()) {
            Ok(())
        } else {
            Err("the head of tests/cli/docs/mod.rs says which marks there are".to_owned())
        }
    }

    /// Whether a line of the output has the pieces of `shown` between its `…`, in their order.
    fn was_printed(&self, shown: &str) -> bool {
        let shown = comparable(shown);
        let pieces: Vec<&str> = shown.split('…').map(str::trim).collect();
        pieces.concat().is_empty()
            || self.printed.iter().any(|line| {
                let mut rest = line.as_str();
                pieces.iter().all(|piece| match rest.find(piece) {
                    Some(at) => {
                        rest = &rest[at + piece.len()..];
                        true
                    }
                    None => false,
                })
            })
    }
}

/// A line without what differs from run to run: numbers, ids, hashes, the width of columns.
fn comparable(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for c in line.chars() {
        match words.last_mut() {
            Some(word) if c.is_ascii_alphanumeric() && word.ends_with(alphanumeric) => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let plain: String = words.iter().map(|word| without_numbers(word)).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn without_numbers(word: &str) -> String {
    let numbers = word.chars().filter(char::is_ascii_digit).count();
    let is_hash = word.len() >= 8 && numbers > 0 && word.chars().all(|c| c.is_ascii_hexdigit());
    let is_id = word.len() == 26 && !word.contains(|c: char| c.is_ascii_lowercase());
    if is_hash || is_id {
        return "#".to_owned();
    }
    let mut text = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' if text.ends_with('0') => {}
            '0'..='9' => text.push('0'),
            c => text.push(c),
        }
    }
    text
}

/// A command that hangs, or that never gets where it is waited for, is a failure of its line.
fn attended<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| "it did not behave as the test expects of such a command".into())
    })
}

/// Whether a command has exited as its line says.
fn verdict(command: &str, ran: &Ran) -> Result<(), String> {
    let declared = command.split_once("# exit ").map(|(_, code)| {
        let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(-1)
    });
    let panicked = ran.stderr.contains("panicked");
    let good = ran.code == declared.unwrap_or(0) && !panicked;
    if good { Ok(()) } else { Err(format!("{ran:?}")) }
}

/// Whether `leftfold config` has read all settings without a word, but for those that need trust.
fn accepted(ran: &Ran) -> Result<(), String> {
    let needs_trust = |line: &str| {
        line.contains(" is left out: it ") || line.contains(" is not trusted: `leftfold trust` ")
    };
    if ran.code == 0 && ran.stderr.lines().all(needs_trust) {
        Ok(())
    } else {
        Err(format!("{ran:?}"))
    }
}
