//! Commands that take paths, and which of their words are paths.

use super::step::Run;
use super::word::{Word, expanded};
use super::wrappers::base;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Names and sizes, but not contents.
    Lists,
    Reads,
    Writes,
}

/// A word that is a path or holds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) word: Word,
    pub(super) how: Use,
    /// The names that a command creates if the path is a folder.
    pub(super) into: Vec<String>,
}

impl Argument {
    fn new(word: Word, how: Use) -> Self {
        Self { word, how, into: Vec::new() }
    }
}

/// They make, change, move or remove what they are given.
const WRITERS: &[&str] = &[
    "bunzip2", "bzip2", "chattr", "chgrp", "chmod", "chown", "cp", "dd", "ed", "emacs", "ex",
    "gunzip", "gzip", "install", "ln", "mkdir", "mkfifo", "mknod", "mv", "nano", "patch", "rm",
    "rmdir", "rsync", "scp", "setfacl", "shred", "split", "tar", "tee", "touch", "trash",
    "truncate", "unlink", "unxz", "unzip", "vi", "vim", "xz", "zip", "zstd",
];

/// They print about the paths that they are given, and nothing of the contents.
const LISTERS: &[&str] = &["dir", "du", "find", "ls", "readlink", "realpath", "stat", "tree"];

/// Commands whose arguments are text, or paths that they neither open nor list.
const TEXTS: &[&str] = &[
    ":", "[", "alias", "basename", "break", "cd", "command", "continue", "declare", "dirname",
    "echo", "exit", "export", "expr", "false", "getopts", "kill", "let", "local", "popd", "printf",
    "pushd", "read", "readonly", "return", "seq", "set", "shift", "shopt", "sleep", "test", "trap",
    "true", "type", "typeset", "unset", "wait", "which",
];

const READERS: &[&str] = &[
    ".",
    "ag",
    "awk",
    "base64",
    "bat",
    "cat",
    "cmp",
    "comm",
    "cut",
    "diff",
    "egrep",
    "fgrep",
    "file",
    "gawk",
    "grep",
    "head",
    "hexdump",
    "jq",
    "less",
    "md5sum",
    "more",
    "nl",
    "od",
    "open",
    "paste",
    "rg",
    "sed",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sort",
    "source",
    "strings",
    "tac",
    "tail",
    "uniq",
    "wc",
    "xdg-open",
    "xxd",
    "zcat",
    "zgrep",
];

/// Their first argument is an expression, a mode or an owner, unless an option has brought it.
const AFTER_FIRST: &[(&str, &[&str])] = &[
    ("ag", &[]),
    ("awk", &["-f", "-e", "--file"]),
    ("chgrp", &["--reference"]),
    ("chmod", &["--reference"]),
    ("chown", &["--reference"]),
    ("egrep", &["-e", "-f", "--regexp", "--file"]),
    ("fgrep", &["-e", "-f", "--regexp", "--file"]),
    ("gawk", &["-f", "-e", "--file"]),
    ("grep", &["-e", "-f", "--regexp", "--file"]),
    ("jq", &["-f", "--from-file"]),
    ("rg", &["-e", "-f", "--regexp", "--file", "--files"]),
    ("sed", &["-e", "-f", "--expression", "--file"]),
    ("zgrep", &["-e", "-f"]),
];

/// Options of other programs that take a path.
const OPTIONS: &[(&str, &[&str])] = &[
    ("cargo", &["-C", "--manifest-path", "--target-dir"]),
    ("cmake", &["-B", "-S"]),
    ("curl", &["-K", "-T", "--config", "--upload-file"]),
    ("env", &["-C", "--chdir"]),
    ("git", &["-C", "--git-dir", "--work-tree"]),
    ("go", &["-C"]),
    ("make", &["-C", "-f", "--directory", "--file"]),
    ("ninja", &["-C"]),
    ("npm", &["--prefix"]),
    ("pnpm", &["-C", "--dir"]),
    ("yarn", &["--cwd"]),
];

/// Options that take a path to write to.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("curl", &["-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"]),
    ("git", &["--output", "--output-directory"]),
    ("sort", &["-o", "--output"]),
    ("tree", &["-o"]),
    ("wget", &["-O", "-P", "-o", "--output-document", "--directory-prefix"]),
];

/// The words of `run` that are paths or hold one, and what is done there.
pub(super) fn of(run: &Run) -> Vec<Argument> {
    let Some(name) = run.name() else { return Vec::new() };
    let name = base(&name);
    let words = expanded(&run.words[1..]);
    let words = words.as_slice();
    match name {
        "cp" | "install" | "ln" | "mv" | "rsync" | "scp" => return moved(name, words),
        "dd" => return copied(words),
        "find" => return searched(words),
        "git" => {
            let mut found = changed_by_git(words);
            found.extend(options(name, words));
            return found;
        }
        _ => {}
    }
    let edits = match name {
        "perl" | "ruby" => words.iter().any(|word| edits_in_place(word, "eEMmIFlCxrV0")),
        "sed" => words.iter().any(|word| edits_in_place(word, "efl")),
        _ => false,
    };
    let mut found: Vec<Argument> =
        match how(name).filter(|_| !edits).or(edits.then_some(Use::Writes)) {
            Some(how) => {
                arguments(name, words).into_iter().map(|word| Argument::new(word, how)).collect()
            }
            None => Vec::new(),
        };
    found.extend(options(name, words));
    found
}

/// The arguments of a program of which nothing is known. Each may be a file that it reads.
pub(super) fn perhaps_read(run: &Run) -> Vec<Word> {
    let Some(name) = run.name() else { return Vec::new() };
    let name = base(&name);
    if how(name).is_some() || TEXTS.binary_search(&name).is_ok() {
        return Vec::new();
    }
    let value = |word: &Word| {
        let text = word.literal()?;
        let value = match text.split_once('=') {
            Some((_, value)) if text.starts_with('-') => value.to_owned(),
            _ => text,
        };
        // `curl -d @file`
        Some(value.strip_prefix('@').map_or(value.clone(), str::to_owned))
    };
    let words = expanded(&run.words[1..]);
    words.iter().filter_map(value).map(|text| Word::new(&quoted(&text))).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The use that a command makes of its arguments; `None` if they are no paths.
pub(super) fn how(name: &str) -> Option<Use> {
    if WRITERS.binary_search(&name).is_ok() {
        return Some(Use::Writes);
    }
    if LISTERS.binary_search(&name).is_ok() {
        return Some(Use::Lists);
    }
    READERS.binary_search(&name).is_ok().then_some(Use::Reads)
}

/// Whether an option is `-i`, alone or among others. After a letter of `valued`, the rest is its value.
fn edits_in_place(option: &Word, valued: &str) -> bool {
    let text = option.shown();
    text.starts_with("--in-place")
        || text.strip_prefix('-').is_some_and(|rest| {
            // `-ne` and `-ni`, but not the script of `-es/i/j/`
            let letters = rest.split(|c| valued.contains(c)).next().unwrap_or_default();
            !rest.starts_with('-') && letters.contains('i')
        })
}

/// Sources, and where they go.
fn moved(name: &str, words: &[Word]) -> Vec<Argument> {
    let mut paths = arguments(name, words);
    let mut target = None;
    for (at, word) in words.iter().enumerate() {
        let text = word.shown();
        if matches!(text.as_str(), "-t" | "--target-directory") {
            target = words.get(at + 1).cloned();
        } else if let Some(value) = text.strip_prefix("--target-directory=") {
            target = Some(Word::new(value));
        }
    }
    match &target {
        Some(target) => paths.retain(|path| path != target),
        None if paths.len() > 1 => target = paths.pop(),
        None => {}
    }
    let makes_folders = name == "install" && words.iter().any(|word| word.shown() == "-d");
    let how = if name == "mv" || makes_folders { Use::Writes } else { Use::Reads };
    let names = |word: &Word| {
        let text = word.literal()?;
        text.trim_end_matches('/').rsplit('/').next().map(str::to_owned)
    };
    let into: Vec<String> = paths.iter().filter_map(names).collect();
    let argument = |word: &Word, how| Argument::new(word.clone(), how);
    let mut found: Vec<Argument> = paths.iter().map(|word| argument(word, how)).collect();
    if name == "mv" {
        // under its new name, a file could be read
        found.extend(paths.iter().map(|word| argument(word, Use::Reads)));
    }
    found.extend(target.map(|word| Argument { word, how: Use::Writes, into }));
    found
}

/// `dd if=a of=b`.
fn copied(words: &[Word]) -> Vec<Argument> {
    let path = |word: &Word| {
        let (name, value) = word.0.split_once('=')?;
        let how = match name {
            "if" => Use::Reads,
            "of" => Use::Writes,
            _ => return None,
        };
        Some(Argument::new(Word::new(value), how))
    };
    words.iter().filter_map(path).collect()
}

/// The files in the worktree that `git` changes by name, and its settings.
fn changed_by_git(words: &[Word]) -> Vec<Argument> {
    let mut rest = words.iter();
    let command = loop {
        let Some(word) = rest.next() else { return Vec::new() };
        match word.shown().as_str() {
            "-C" | "-c" | "--config-env" | "--git-dir" | "--namespace" | "--work-tree" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            command => break command.to_owned(),
        }
    };
    let words = rest.as_slice();
    let paths: Vec<Word> = match command.as_str() {
        "mv" | "restore" | "rm" => arguments(&command, words),
        "checkout" => {
            words.iter().skip_while(|word| word.shown() != "--").skip(1).cloned().collect()
        }
        "config" => settings_of_git(words).into_iter().collect(),
        _ => Vec::new(),
    };
    paths.into_iter().map(|word| Argument::new(word, Use::Writes)).collect()
}

/// The file that `git config` changes. A name and an address start nothing.
fn settings_of_git(words: &[Word]) -> Option<Word> {
    let shown: Vec<String> = words.iter().map(Word::shown).collect();
    let has = |names: &[&str]| shown.iter().any(|word| names.contains(&word.as_str()));
    let operands = shown.iter().filter(|word| !word.starts_with('-')).count();
    let changes = ["--add", "--edit", "--replace-all", "--unset", "--unset-all", "-e"];
    let reads =
        ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list"];
    let identity = has(&["user.name", "user.email"]) && operands == 2;
    if identity || has(&reads) || operands < 2 && !has(&changes) {
        return None;
    }
    let file = ["-f", "--file"].iter().find_map(|option| {
        let at = shown.iter().position(|word| word == option)?;
        words.get(at + 1).cloned()
    });
    let glued = || words.iter().find_map(|word| word.0.strip_prefix("--file=").map(Word::new));
    let usual = || match has(&["--global"]) {
        true => Word::new("~/.gitconfig"),
        false => Word::new(".git/config"),
    };
    Some(file.or_else(glued).unwrap_or_else(usual))
}

fn searched(words: &[Word]) -> Vec<Argument> {
    let deletes = words.iter().any(|word| word.shown() == "-delete");
    let how = if deletes { Use::Writes } else { Use::Lists };
    let folders = arguments("find", words).into_iter();
    let mut found: Vec<Argument> = folders.map(|word| Argument::new(word, how)).collect();
    for (at, word) in words.iter().enumerate() {
        if matches!(word.shown().as_str(), "-fls" | "-fprint" | "-fprint0" | "-fprintf") {
            found.extend(words.get(at + 1).map(|word| Argument::new(word.clone(), Use::Writes)));
        }
    }
    found
}

fn arguments(name: &str, words: &[Word]) -> Vec<Word> {
    let first = AFTER_FIRST.iter().find(|(known, _)| *known == name);
    let brought = |options: &[&str]| words.iter().any(|w| starts(w, options));
    let mut skipped = usize::from(first.is_some_and(|(_, options)| !brought(options)));
    let mut found = Vec::new();
    let mut only_operands = false;
    for word in words {
        let shown = word.shown();
        if name == "find" && (shown.starts_with('-') || matches!(shown.as_str(), "(" | "!")) {
            break;
        }
        if !only_operands && shown.starts_with('-') {
            only_operands = shown == "--";
            found.extend(value(word));
        } else if matches!(name, "rsync" | "scp") && is_remote(&shown) {
        } else if skipped > 0 {
            skipped -= 1;
        } else {
            found.push(word.clone());
        }
    }
    found
}

fn starts(word: &Word, options: &[&str]) -> bool {
    let shown = word.shown();
    options.iter().any(|option| shown.starts_with(option))
}

/// The path in an option: `--file=/x`, `-I/x`.
fn value(option: &Word) -> Option<Word> {
    let source = &option.0;
    let value = source.split_once('=').map(|(_, value)| value).or_else(|| source.get(2..))?;
    let path = value.contains('/') || value.starts_with('~') || value.starts_with("..");
    path.then(|| Word::new(value))
}

fn is_remote(path: &str) -> bool {
    path.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

fn options(name: &str, words: &[Word]) -> Vec<Argument> {
    let of = |table: &[(&str, &'static [&'static str])]| {
        table.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, options)| *options)
    };
    let (reads, writes) = (of(OPTIONS), of(OUTPUTS));
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let shown = word.shown();
        for (options, how) in [(reads, Use::Reads), (writes, Use::Writes)] {
            if options.contains(&shown.as_str()) {
                found.extend(words.get(at + 1).map(|word| Argument::new(word.clone(), how)));
            } else if let Some(value) = glued(word, &shown, options) {
                found.push(Argument::new(value, how));
            }
        }
    }
    found
}

/// The value of an option in the same word: `--output=x`, `-ox`.
fn glued(word: &Word, shown: &str, options: &[&str]) -> Option<Word> {
    options.iter().find_map(|option| {
        let rest = shown.strip_prefix(option)?;
        if option.starts_with("--") {
            return word
                .0
                .split_once('=')
                .filter(|_| rest.starts_with('='))
                .map(|(_, value)| Word::new(value));
        }
        word.0.get(2..).filter(|value| !value.is_empty()).map(Word::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(WRITERS.is_sorted() && READERS.is_sorted());
        assert!(LISTERS.is_sorted() && TEXTS.is_sorted());
    }

    #[test]
    fn words_that_are_paths() {
        for (line, expected) in [
            ("rm -rf a /b", &["a", "/b"][..]),
            ("rm -- -a", &["-a"]),
            ("grep -r /x/ src", &["src"]),
            ("grep -e /x/ src", &["/x/", "src"]),
            ("chmod 755 a", &["a"]),
            ("dd if=/a of=b", &["/a", "b"]),
            ("scp host:/x y", &["y"]),
            ("find /a b -name /c", &["/a", "b"]),
            ("git -C /x status", &["/x"]),
            ("perl -pi -e x a", &["x", "a"]),
            ("perl -MList::Util -e x a", &[]),
            ("git mv a b", &["a", "b"]),
            ("git -c x=y restore --staged a", &["a"]),
            ("git checkout main", &[]),
            ("git checkout main -- a", &["a"]),
            ("git config user.name", &[]),
            ("git config --get user.name x", &[]),
            ("git config user.name x", &[]),
            ("git config core.pager x", &[".git/config"]),
            ("git config --unset user.name", &[".git/config"]),
            ("git config --global core.pager x", &["~/.gitconfig"]),
            ("git config -f /x core.pager x", &["/x"]),
            ("make --directory=/x", &["/x"]),
            ("sort --output=x a", &["a", "x"]),
            ("curl /x", &[]),
            ("/bin/cat x", &["x"]),
        ] {
            let words = line.split(' ').map(Word::new).collect();
            let found: Vec<String> =
                of(&Run::new(words)).into_iter().map(|found| found.word.0).collect();
            assert_eq!(found, expected, "{line}");
        }
    }
}
