//! Commands that take paths, and which of their words are paths.

use super::step::Run;
use super::word::Word;
use super::wrappers::base;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Reads,
    Writes,
}

/// They make, change, move or remove what they are given.
const WRITERS: &[&str] = &[
    "bunzip2", "bzip2", "chattr", "chgrp", "chmod", "chown", "cp", "dd", "ed", "emacs", "ex",
    "gunzip", "gzip", "install", "ln", "mkdir", "mkfifo", "mknod", "mv", "nano", "patch", "rm",
    "rmdir", "rsync", "scp", "setfacl", "shred", "split", "tar", "tee", "touch", "trash",
    "truncate", "unlink", "unxz", "unzip", "vi", "vim", "xz", "zip", "zstd",
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
    "dir",
    "du",
    "egrep",
    "fgrep",
    "file",
    "find",
    "gawk",
    "grep",
    "head",
    "hexdump",
    "jq",
    "less",
    "ls",
    "md5sum",
    "more",
    "nl",
    "od",
    "open",
    "paste",
    "readlink",
    "realpath",
    "rg",
    "sed",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sort",
    "source",
    "stat",
    "strings",
    "tac",
    "tail",
    "tree",
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
    ("curl", &["-o", "--output"]),
    ("env", &["-C", "--chdir"]),
    ("git", &["-C", "--git-dir", "--work-tree"]),
    ("go", &["-C"]),
    ("make", &["-C", "-f", "--directory", "--file"]),
    ("ninja", &["-C"]),
    ("npm", &["--prefix"]),
    ("pnpm", &["-C", "--dir"]),
    ("wget", &["-O", "-P"]),
    ("yarn", &["--cwd"]),
];

/// The words of `run` that are paths or hold one, and what is done there.
pub(super) fn of(run: &Run) -> Vec<(Word, Use)> {
    let Some(name) = run.name() else { return Vec::new() };
    let name = base(&name);
    let words = &run.words[1..];
    match how(name) {
        Some(how) => arguments(name, words).into_iter().map(|word| (word, how)).collect(),
        None => options(name, words),
    }
}

/// What a command does to its arguments; `None` if they are no paths.
pub(super) fn how(name: &str) -> Option<Use> {
    if WRITERS.binary_search(&name).is_ok() {
        return Some(Use::Writes);
    }
    READERS.binary_search(&name).is_ok().then_some(Use::Reads)
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
        } else if name == "dd" {
            found.extend(shown.split_once('=').map(|(_, value)| Word::new(value)));
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

fn options(name: &str, words: &[Word]) -> Vec<(Word, Use)> {
    let Some((_, options)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let shown = word.shown();
        if options.contains(&shown.as_str()) {
            found.extend(words.get(at + 1).cloned());
        } else if starts(word, options) {
            found.extend(value(word));
        }
    }
    found.into_iter().map(|word| (word, Use::Reads)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        assert!(WRITERS.is_sorted() && READERS.is_sorted());
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
            ("make --directory=/x", &["/x"]),
            ("sort --output=/x a", &["/x", "a"]),
            ("curl /x", &[]),
            ("/bin/cat x", &["x"]),
        ] {
            let words = line.split(' ').map(Word::new).collect();
            let found: Vec<String> =
                of(&Run::new(words)).into_iter().map(|(word, _)| word.0).collect();
            assert_eq!(found, expected, "{line}");
        }
    }
}
