//! The options of `git` that run other programs or write files.
//!
//! A rule such as `git log *` allows git. `git -c alias.log='!rm x' log` and `git log --output=x` go
//! further, so they count as an unknown command beside git. An option that git could abbreviate counts
//! as the option. Hooks and programs that the user's own git configuration names are not looked into.

use crate::inner::{Inner, joined, line};
use crate::word::{Word, quoted};

/// Subcommands that do what their name says, apart from the options in [`OPTIONS`].
const PLAIN: &[&str] = &[
    "add", "am", "annotate", "apply", "archive", "bisect", "blame", "branch", "bundle", "cat-file",
    "check-attr", "check-ignore", "check-mailmap", "check-ref-format", "checkout",
    "checkout-index", "cherry", "cherry-pick", "clean", "clone", "column", "commit",
    "commit-graph", "commit-tree", "config", "count-objects", "describe", "diff", "diff-files",
    "diff-index", "diff-tree", "fetch", "fetch-pack", "fmt-merge-msg", "for-each-ref",
    "format-patch", "fsck", "gc", "get-tar-commit-id", "grep", "hash-object", "index-pack", "init",
    "log", "ls-files", "ls-remote", "ls-tree", "mailinfo", "mailsplit", "merge", "merge-base",
    "merge-file", "merge-tree", "mktag", "mktree", "multi-pack-index", "mv", "name-rev", "notes",
    "pack-objects", "pack-redundant", "pack-refs", "patch-id", "prune", "prune-packed", "pull",
    "push", "range-diff", "read-tree", "rebase", "reflog", "refs", "remote", "repack", "replace",
    "request-pull", "rerere", "reset", "restore", "rev-list", "rev-parse", "revert", "rm",
    "send-pack", "shortlog", "show", "show-branch", "show-index", "show-ref", "sparse-checkout",
    "stash", "status", "stripspace", "submodule", "switch", "symbolic-ref", "tag", "unpack-file",
    "unpack-objects", "update-index", "update-ref", "update-server-info", "var", "verify-commit",
    "verify-pack", "verify-tag", "version", "whatchanged", "worktree", "write-tree",
];

/// Options of subcommands that run a program or write a file. A subcommand `*` stands for all that show
/// differences.
const OPTIONS: &[(&str, &[&str])] = &[
    ("archive", &["--exec", "--output", "--remote", "-o"]),
    ("checkout-index", &["--prefix"]),
    ("clone", &["--config", "--separate-git-dir", "--template", "--upload-pack", "-c", "-u"]),
    ("fetch", &["--upload-pack"]),
    ("fetch-pack", &["--exec", "--upload-pack"]),
    ("grep", &["--open-files-in-pager", "-O"]),
    ("init", &["--separate-git-dir", "--template"]),
    ("ls-remote", &["--exec", "--upload-pack", "-u"]),
    ("pull", &["--upload-pack"]),
    ("push", &["--exec", "--receive-pack"]),
    ("send-pack", &["--exec", "--receive-pack"]),
    ("*", &["--ext-diff", "--output", "--output-directory"]),
];

/// Subcommands that take the options of `git diff`.
const DIFFS: &[&str] = &[
    "annotate", "blame", "cherry", "diff", "diff-files", "diff-index", "diff-tree", "format-patch",
    "log", "range-diff", "reflog", "rev-list", "shortlog", "show", "stash", "whatchanged",
];

/// Subcommands that combine histories with a strategy, which is a program `git-merge-NAME`.
const MERGES: &[&str] = &["cherry-pick", "merge", "pull", "rebase", "revert"];

const STRATEGIES: &[&str] = &["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// Subcommands that take the address of a repository.
const REMOTES: &[&str] = &[
    "archive", "clone", "fetch", "fetch-pack", "ls-remote", "pull", "push", "remote",
    "request-pull", "send-pack", "submodule",
];

/// Settings that `-c` and `git config` may change without running anything.
const SETTINGS: &[&str] = &[
    "color.branch", "color.diff", "color.status", "color.ui", "commit.gpgsign", "core.abbrev",
    "core.quotepath", "diff.renames", "init.defaultbranch", "log.date", "log.showsignature",
    "pull.rebase", "push.default", "tag.gpgsign", "user.email", "user.name",
];

/// The commands that `git` with these words runs besides itself.
pub(crate) fn inner(words: &[Word]) -> Vec<Inner> {
    match globals(words) {
        Some(at) => words.get(at..).map_or_else(Vec::new, subcommand),
        None => vec![Inner::Unknown],
    }
}

/// Options before the subcommand that decide nothing.
const FLAGS: &[&str] = &[
    "-P", "--no-pager", "--no-replace-objects", "--no-lazy-fetch", "--no-advice",
    "--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs",
    "--icase-pathspecs", "--version", "-v", "--exec-path", "--html-path", "--man-path",
    "--info-path", "-h", "--help",
];

/// Where the subcommand stands; `None` if an option before it decides what runs.
pub(crate) fn globals(words: &[Word]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let text = word.literal();
        match text.as_deref() {
            Some("-C" | "--work-tree" | "--namespace" | "--attr-source") => {
                words.get(at + 1).filter(|value| value.is_single())?;
                at += 2;
            }
            Some("-c") => {
                let setting = words.get(at + 1)?.literal()?;
                is_plain_setting(setting.split_once('=').map_or((&*setting, ""), |pair| pair))
                    .then_some(())?;
                at += 2;
            }
            Some(text) if FLAGS.contains(&text) => at += 1,
            Some(text) if text.starts_with("--work-tree=") || text.starts_with("--namespace=") => {
                at += 1;
            }
            Some(text) if text.starts_with('-') => return None,
            Some(_) => return Some(at),
            None => {
                let value = word.is_single() && word.0.starts_with("--work-tree=");
                value.then_some(())?;
                at += 1;
            }
        }
    }
    Some(at)
}

fn is_plain_setting((key, value): (&str, &str)) -> bool {
    let key = key.to_ascii_lowercase();
    let no_pager = key == "core.pager" && matches!(value, "" | "cat");
    SETTINGS.contains(&key.as_str()) || no_pager
}

fn subcommand(words: &[Word]) -> Vec<Inner> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let Some(name) = name.literal().filter(|name| PLAIN.contains(&name.as_str())) else {
        // an alias, a program `git-NAME`, or a subcommand that runs others
        return vec![Inner::Unknown];
    };
    let mut found = special(&name, rest);
    if !has_plain_options(&name, rest) {
        found.push(Inner::Unknown);
    }
    found
}

/// Subcommands with a command in their arguments.
fn special(name: &str, words: &[Word]) -> Vec<Inner> {
    let operand = |at: usize| {
        words.iter().filter(|word| !word.shown().starts_with('-')).nth(at).and_then(Word::literal)
    };
    match name {
        "bisect" => match words.first().map(Word::literal) {
            Some(Some(verb)) if verb == "run" => vec![Inner::Command(words[1..].to_vec())],
            Some(Some(verb)) if matches!(verb.as_str(), "visualize" | "view") => {
                vec![Inner::Unknown]
            }
            Some(None) => vec![Inner::Unknown],
            _ => Vec::new(),
        },
        "rebase" => executed(words),
        "submodule" => match operand(0).as_deref() {
            Some("foreach") => {
                let at = words.iter().position(|word| word.shown() == "foreach");
                let rest = &words[at.map_or(0, |at| at + 1)..];
                let options = rest.iter().take_while(|word| word.shown().starts_with('-')).count();
                let mut found = joined(&rest[options..]);
                found.push(Inner::Unknown);
                found
            }
            Some(_) => Vec::new(),
            None if words.is_empty() => Vec::new(),
            None => vec![Inner::Unknown],
        },
        "config" if !is_plain_config(words) => vec![Inner::Unknown],
        _ => Vec::new(),
    }
}

/// The lines that `git rebase --exec` runs.
fn executed(words: &[Word]) -> Vec<Inner> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.shown();
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(Word::new(&quoted(value)))),
            None => (text.as_str(), words.get(at + 1).cloned()),
        };
        if abbreviates(option, "--exec") {
            found.extend(value.map_or_else(|| vec![Inner::Unknown], |word| line(&word)));
        } else if is_short(&text, 'x') {
            let glued = text.strip_prefix("-x").filter(|rest| !rest.is_empty());
            let value = glued.map(|rest| Word::new(&quoted(rest))).or(value);
            found.extend(value.map_or_else(|| vec![Inner::Unknown], |word| line(&word)));
        } else if abbreviates(option, "--interactive") || is_short(&text, 'i') {
            found.push(Inner::Unknown);
        }
    }
    found
}

/// Reading settings, or changing one that runs nothing.
fn is_plain_config(words: &[Word]) -> bool {
    let texts: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    let Some(texts) = texts else { return false };
    let writes_elsewhere = |text: &str| {
        abbreviates(text.split('=').next().unwrap_or(text), "--file")
            || abbreviates(text, "--edit")
            || is_short(text, 'f')
            || is_short(text, 'e')
    };
    if texts.iter().any(|text| writes_elsewhere(text)) {
        return false;
    }
    let reads = |text: &str| {
        matches!(text, "-l" | "--list" | "list" | "get" | "--get" | "--get-all" | "--get-regexp")
    };
    let operands: Vec<&str> =
        texts.iter().map(String::as_str).filter(|text| !text.starts_with('-')).collect();
    match operands.as_slice() {
        _ if texts.iter().any(|text| reads(text)) => true,
        [] => true,
        ["edit", ..] => false,
        [key] => texts.len() == 1 && key.contains('.'),
        ["set" | "unset", key, ..] => is_plain_setting((key, "-")),
        [key, ..] => is_plain_setting((key, "-")),
    }
}

/// Whether the words hold no option of [`OPTIONS`] and cannot come to hold one.
fn has_plain_options(name: &str, words: &[Word]) -> bool {
    let diff = DIFFS.contains(&name).then_some("*");
    let of = |key: Option<&str>| {
        OPTIONS
            .iter()
            .find(|(known, _)| Some(*known) == key)
            .map_or(&[][..], |(_, options)| options)
    };
    let (own, shared) = (of(Some(name)), of(diff));
    // `-o` of format-patch is a folder, of others something else
    let folder: &[&str] = if name == "format-patch" { &["-o"] } else { &[] };
    let merges = MERGES.contains(&name);
    let remotes = REMOTES.contains(&name);
    let listed = |text: &str| {
        let option = text.split('=').next().unwrap_or(text);
        own.iter().chain(shared).chain(folder).any(|known| match known.strip_prefix("--") {
            Some(_) => abbreviates(option, known),
            None => known.chars().nth(1).is_some_and(|letter| is_short(text, letter)),
        })
    };
    let has_any = !own.is_empty() || !shared.is_empty() || merges || remotes;
    let mut previous = String::new();
    let mut operands = false;
    for word in words {
        let Some(text) = word.literal() else {
            let value = word.is_single() && takes_text(name, &previous);
            // a pattern such as `*` may match a file whose name is an option
            let may_be_option = !(word.is_single() && (word.starts_plain() || operands));
            if has_any && !value && (may_be_option || remotes && !operands) {
                return false;
            }
            previous.clear();
            continue;
        };
        if operands && !remotes {
            continue;
        }
        let strategy = merges && (previous == "-s" || abbreviates(&previous, "--strategy"));
        if strategy && !STRATEGIES.contains(&text.as_str()) {
            return false;
        }
        if takes_text(name, &previous) {
            previous.clear();
            continue;
        }
        let bad_strategy = merges
            && text.split_once('=').is_some_and(|(option, value)| {
                abbreviates(option, "--strategy") && !STRATEGIES.contains(&value)
            });
        let glued = merges
            && text
                .strip_prefix("-s")
                .is_some_and(|value| !value.is_empty() && !STRATEGIES.contains(&value));
        // `ext::command` and its like name a program
        let helper = remotes && text.contains("::");
        if (!operands && listed(&text)) || bad_strategy || glued || helper {
            return false;
        }
        operands |= text == "--";
        previous = text;
    }
    true
}

/// Whether the word after `option` is a text and never an option.
fn takes_text(name: &str, option: &str) -> bool {
    match name {
        "commit" | "tag" | "merge" | "stash" | "notes" => {
            matches!(option, "-m" | "--message") || (name == "commit" && option == "-am")
        }
        "log" | "shortlog" | "rev-list" => matches!(option, "--grep" | "--author" | "-S" | "-G"),
        _ => false,
    }
}

/// Whether git could read `option` as `full`.
fn abbreviates(option: &str, full: &str) -> bool {
    option.len() > 2 && full.starts_with(option)
}

/// Whether `text` is a cluster of short options that may hold `letter`.
fn is_short(text: &str, letter: char) -> bool {
    text.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(letter))
}
