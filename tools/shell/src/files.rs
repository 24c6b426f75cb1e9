//! Which words of a command name files, and what the program does with these files.
//!
//! The lists say how a program treats its operands. Whether a word names a file at all is not decided
//! here: `touched` tries every word of every program that is not in [`TEXTS`].

use leftfold_events::rules;

use crate::git;
use crate::scripts::{self, Script};
use crate::step::Run;
use crate::word::{Word, expanded, quoted};
use crate::wrappers::base;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Names and sizes, but not contents.
    Lists,
    Reads,
    Writes,
}

/// How a program uses the files that its words name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// Its words are text, or paths that it neither opens nor lists.
    Texts,
    Lists,
    Reads,
    /// It changes files without showing them.
    Changes,
    /// It changes files and may show them.
    Writes,
    /// It is in no list, and may read each file that a word names.
    Other,
}

/// The folders and files below a path that a program changes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Nothing,
    /// Files with one of these names, which may be patterns; all files without any.
    Names(Vec<String>),
    /// Whatever an archive or a patch names. In the worktree's own root nothing is claimed.
    Extracted,
    /// Files that git does not track.
    Untracked,
}

/// A word that is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) word: Word,
    pub(crate) how: Use,
    /// The files that a command puts there.
    pub(crate) from: Vec<Word>,
    pub(crate) below: Below,
}

impl Argument {
    pub(crate) fn new(word: Word, how: Use) -> Self {
        Self { word, how, from: Vec::new(), below: Below::Nothing }
    }

    fn with_tree(self, is_tree: bool) -> Self {
        let below = if is_tree { Below::Names(Vec::new()) } else { Below::Nothing };
        Self { below, ..self }
    }
}

/// The files of one command.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) kind: FileUse,
    /// Whether the program is certain to write nothing, with the options that it has.
    pub(crate) only_reads: bool,
    /// Whether it reads files whose names do not stand in the line.
    pub(crate) reads_unknown: bool,
    /// Whether it writes files whose names are not looked for.
    pub(crate) writes_unknown: bool,
    /// Whether it searches the folder that it runs in if it is given no other.
    pub(crate) searches: bool,
    /// Whether it may write each file that a word names.
    pub(crate) may_write_words: bool,
    /// Whether words hold programs, in which names of files stand between other characters.
    pub(crate) has_scripts: bool,
    pub(crate) arguments: Vec<Argument>,
}

/// They make, change, move or remove files without showing their contents.
const CHANGERS: &str = "chattr chgrp chmod chown fallocate mkdir mkfifo mknod rm rmdir script setfacl shred sponge \
    tee touch trash truncate unlink";

/// They change files, and may show the contents of others.
const WRITERS: &str = "7z ar brotli bsdtar bunzip2 bzip2 compress cp cpio csplit dd dos2unix ed emacs ex gunzip \
    gzip install link ln lz4 lzma mv nano nvim objcopy patch prename ranlib rename rsync scp \
    split strip tar uncompress unix2dos unlz4 unlzma unxz unzip unzstd vi vim xz zip zstd";

/// They print about the paths that they are given, and nothing of the contents.
const LISTERS: &str = "dir du find ls readlink realpath stat tree wc";

/// Their arguments are text, or paths that they neither open nor list.
const TEXTS: &str = ": [ alias basename break cd command continue declare dirname echo exit export expr false \
    getopts kill let local popd printf pushd read readonly return seq set shift shopt sleep test \
    trap true type typeset unset wait which";

/// Each operand is a file that they read.
const READERS: &str = ". ack ag awk b2sum base32 base64 basenc bat batcat bzcat cat cksum cmp colordiff column comm \
    cut diff diff3 egrep expand fgrep file fmt fold gawk grep head hexdump hexyl iconv join jq \
    less look mawk md5sum more nawk nl od open paste pr ptx rev rg sdiff sed sha1sum sha224sum \
    sha256sum sha384sum sha512sum shuf sort source strings sum tac tail tsort ul unexpand uniq \
    vimdiff xdg-open xxd xzcat yq zcat zgrep zless zstdcat";

/// Their first operand is an expression, a mode or an owner, unless an option has brought it.
const AFTER_FIRST: &str = "ack ag awk chgrp chmod chown egrep fgrep gawk grep jq mawk nawk prename rename rg sed yq \
    zgrep";

/// Readers and listers that can write, with the options that certainly don't: letters without a
/// value, letters with one, long options without a value or with one after `=`, and most operands.
const HARMLESS: &[(&str, &str, &str, &[&str], usize)] = &[
    ("bat", "Ap", "Hlr", &["--plain", "--number"], usize::MAX),
    ("file", "Lbiksz", "", &["--brief", "--mime", "--mime-type"], usize::MAX),
    ("iconv", "cs", "ft", &["--from-code", "--to-code"], usize::MAX),
    ("less", "EFMNRSXeimns", "", &[], usize::MAX),
    ("more", "dlcsu", "n", &[], usize::MAX),
    ("sdiff", "bBEilstW", "w", &["--suppress-common-lines", "--width"], usize::MAX),
    ("shuf", "erz", "n", &["--echo", "--head-count", "--repeat"], usize::MAX),
    (
        "sort",
        "bCcdfghiMmnRrsuVz",
        "kt",
        &["--key", "--numeric-sort", "--reverse", "--unique", "--version-sort"],
        usize::MAX,
    ),
    (
        "tree",
        "aACdDfFhilnpstuv",
        "ILP",
        &["--dirsfirst", "--gitignore", "--noreport", "--prune"],
        usize::MAX,
    ),
    ("uniq", "cdDiuz", "fsw", &["--count", "--repeated", "--unique"], 1),
    ("xxd", "abCeiEpu", "cglos", &[], 1),
    ("yq", "er", "", &[], usize::MAX),
];

/// Readers and listers that can write, or run a file, and have no harmless options.
const IMPURE: &str = ". open ptx source vimdiff xdg-open zless";

/// Programs of the lists above that are given programs as text.
const INTERPRETERS: &str = "awk ed emacs ex gawk jq mawk nano nawk nvim sed tar vi vim yq";

/// Programs outside the lists that are given texts for people, or for another machine.
const MESSENGERS: &str = "gh git glab hg jj mail notify-send ssh svn";

/// Options of programs outside the lists that take a folder to work in, or a file of settings.
const FOLDERS: &[&str] = &[
    "-C", "--chdir", "--cwd", "--dir", "--directory", "--git-dir", "--manifest-path",
    "--target-dir", "--work-tree",
];

/// Options that take a file to write: letters, and long options, which may be shortened.
const OUTPUTS: &[(&str, &str, &[&str])] = &[
    ("as", "o", &[]),
    ("c++", "o", &[]),
    ("cc", "o", &[]),
    ("clang", "o", &[]),
    ("clang++", "o", &[]),
    ("cpp", "o", &[]),
    (
        "curl",
        "cDo",
        &[
            "--alt-svc", "--cookie-jar", "--dump-header", "--etag-save", "--hsts", "--libcurl",
            "--output", "--output-dir", "--stderr", "--trace", "--trace-ascii",
        ],
    ),
    ("g++", "o", &[]),
    ("gawk", "dop", &["--dump-variables", "--profile", "--pretty-print"]),
    ("gcc", "o", &[]),
    ("gpg", "o", &["--output"]),
    ("iconv", "o", &["--output"]),
    ("ld", "o", &["--output"]),
    ("less", "oO", &["--log-file", "--LOG-FILE"]),
    ("ltrace", "o", &["--output"]),
    ("openssl", "", &["-keyout", "-out", "-writerand"]),
    ("pandoc", "o", &["--output"]),
    ("rustc", "o", &["--out-dir"]),
    ("sdiff", "o", &["--output"]),
    ("shuf", "o", &["--output"]),
    ("sort", "o", &["--output"]),
    ("strace", "o", &["--output"]),
    ("time", "o", &["--output"]),
    ("tree", "o", &[]),
    (
        "wget",
        "aoOP",
        &["--append-output", "--directory-prefix", "--output-document", "--output-file"],
    ),
];

/// Subcommands of git that change no file in the worktree and none of git's settings.
const GIT_READERS: &str = "add annotate blame cat-file check-attr check-ignore commit describe diff diff-files \
    diff-index diff-tree fsck grep hash-object log ls-files ls-remote ls-tree merge-base \
    name-rev push range-diff reflog rev-list rev-parse shortlog show show-branch show-ref stage \
    status tag update-index var verify-commit version whatchanged";

/// Subcommands of git that print names of files, and nothing of their contents.
const GIT_LISTERS: &str = "check-attr check-ignore ls-files status";

/// Endings that compressors remove from names.
const COMPRESSED: &[&str] = &["Z", "br", "bz2", "gz", "lz4", "lzma", "xz", "zst"];

/// Subcommands of git whose operands are files that they write.
const GIT_WRITERS: &str = "bundle mailinfo mailsplit merge-file mv restore rm";

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|known| known == name)
}

pub(crate) fn kind(name: &str) -> FileUse {
    let is_in = |list| is_in(list, name);
    match () {
        () if is_in(TEXTS) => FileUse::Texts,
        () if is_in(LISTERS) => FileUse::Lists,
        () if is_in(READERS) => FileUse::Reads,
        () if is_in(CHANGERS) => FileUse::Changes,
        () if is_in(WRITERS) => FileUse::Writes,
        () => FileUse::Other,
    }
}

/// The files of a command whose variables are filled in as far as they are known.
pub(crate) fn for_command(run: &Run) -> Files {
    let name = run.name().unwrap_or_default();
    let name = base(&name);
    let words = expanded(&run.words[1..]);
    let words = words.as_slice();
    let mut files = Files {
        kind: kind(name),
        only_reads: only_reads(name, words),
        writes_unknown: false,
        searches: false,
        may_write_words: false,
        has_scripts: is_in(INTERPRETERS, name)
            || (kind(name) == FileUse::Other && !is_in(MESSENGERS, name)),
        reads_unknown: name.is_empty() && run.words[1..].iter().any(Word::varies),
        arguments: Vec::new(),
    };
    // `du --files0-from`, `tree --fromfile`
    if files.kind == FileUse::Lists && words.iter().any(|word| word.shown().contains("from")) {
        files.kind = FileUse::Reads;
    }
    let in_place = match name {
        "awk" | "gawk" => words.iter().any(|word| word.shown().contains("inplace")),
        "perl" | "ruby" => has_letter(words, 'i', "eEMmIFlCxrV0"),
        "sed" => has_letter(words, 'i', "efl") || has_long(words, "--in-place"),
        "yq" => has_letter(words, 'i', "") || has_long(words, "--inplace"),
        _ => false,
    };
    if in_place {
        files.kind = FileUse::Writes;
    }
    let copies = ["cp", "dd", "install", "link", "ln", "mv", "rsync", "scp"];
    files.may_write_words =
        matches!(files.kind, FileUse::Changes | FileUse::Writes) && !copies.contains(&name);
    let how = match files.kind {
        FileUse::Texts => return files,
        FileUse::Lists => Use::Lists,
        FileUse::Reads => Use::Reads,
        FileUse::Changes | FileUse::Writes => Use::Writes,
        FileUse::Other => {
            files.arguments = match name {
                "git" => {
                    files.may_write_words = subcommand(words)
                        .is_some_and(|(command, _)| command.starts_with("checkout"));
                    changed_by_git(words)
                }
                "cpp" => second(words, "DIUx"),
                _ => Vec::new(),
            };
            files.arguments.extend(folders(name, words));
            files.arguments.extend(outputs(name, words));
            if name == "git" {
                let first = words.first().map(Word::shown);
                let (command, words) = subcommand(words).unwrap_or_default();
                let is_first = first.as_ref() == Some(&command);
                files.writes_unknown = changes_worktree(&command, words);
                // an option before it may name a file of settings
                if is_in(GIT_LISTERS, &command) && is_first {
                    files.kind = FileUse::Lists;
                }
                if has_long(words, "--no-index") {
                    files.kind = FileUse::Reads;
                }
                if command == "grep"
                    && (has_long(words, "--no-index") || has_long(words, "--untracked"))
                {
                    files.kind = FileUse::Reads;
                    files.searches = true;
                }
            }
            return files;
        }
    };
    files.arguments = match name {
        "cp" | "install" | "ln" | "mv" | "rsync" | "scp" => moved(name, words),
        "dd" => copied(words),
        "find" => searched(words),
        "link" => operands(name, words)
            .into_iter()
            .flat_map(|word| [Use::Reads, Use::Writes].map(|how| Argument::new(word.clone(), how)))
            .collect(),
        "7z" | "bsdtar" | "cpio" | "patch" | "tar" | "unzip" => {
            let found = extracted(name, words);
            files.writes_unknown = found.iter().any(|one| one.below == Below::Extracted);
            found
        }
        _ => {
            let is_tree = match name {
                "chgrp" | "chmod" | "chown" | "setfacl" => {
                    has_letter(words, 'R', "") || has_long(words, "--recursive")
                }
                "rm" => {
                    has_letter(words, 'r', "")
                        || has_letter(words, 'R', "")
                        || has_long(words, "--recursive")
                }
                "chattr" | "rename" | "prename" | "trash" => true,
                _ => false,
            };
            let argument = |word| Argument::new(word, how).with_tree(is_tree);
            let mut found: Vec<Argument> =
                operands(name, words).into_iter().map(argument).collect();
            if files.kind == FileUse::Writes {
                let stems: Vec<Argument> = found.iter().filter_map(decompressed).collect();
                found.extend(stems);
            }
            found
        }
    };
    match name {
        "uniq" => files.arguments.extend(second(words, "fsw")),
        "xxd" => files.arguments.extend(second(words, "cglos")),
        _ => {}
    }
    files.searches = match name {
        "ack" | "ag" | "rg" => true,
        "egrep" | "fgrep" | "grep" | "zgrep" => {
            ['r', 'R', 'd'].iter().any(|letter| has_letter(words, *letter, "efmABCD"))
                || ["--recursive", "--dereference-recursive", "--directories"]
                    .iter()
                    .any(|option| has_long(words, option))
        }
        _ => false,
    };
    files.arguments.extend(outputs(name, words));
    files.writes_unknown |= scripts::for_program(name, words) == Script::Writes;
    files.reads_unknown |= reads_list(name, words);
    files
}

/// The file that a decompressor makes of one with this name.
fn decompressed(argument: &Argument) -> Option<Argument> {
    let text = argument.word.literal()?;
    let (stem, ending) = text.rsplit_once('.')?;
    COMPRESSED.contains(&ending).then(|| Argument::new(Word::new(&quoted(stem)), Use::Writes))
}

/// Whether a subcommand of git changes files of the worktree whose names do not stand in the line.
fn changes_worktree(command: &str, words: &[Word]) -> bool {
    let has = |options: &[&str]| options.iter().any(|option| has_long(words, option));
    match command {
        "am" => true,
        "apply" => !has(&["--check", "--numstat", "--stat", "--summary"]) || has(&["--apply"]),
        "clean" => has_letter(words, 'f', "e") && !has_letter(words, 'n', "e"),
        "reset" => has(&["--hard", "--keep", "--merge"]),
        _ => false,
    }
}

/// Whether it reads the files that a list names.
fn reads_list(name: &str, words: &[Word]) -> bool {
    let listed = |word: &Word| word.shown().contains("s-from") || word.shown().contains("s0-from");
    words.iter().any(listed)
        || match name {
            "cpio" => has_letter(words, 'o', "") || has_letter(words, 'p', ""),
            "tar" | "bsdtar" => has_letter(words, 'T', "fC"),
            "zip" => words.iter().any(|word| word.0 == "-@" || word.0 == "@"),
            _ => false,
        }
}

/// The files in a folder that a reader reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searched {
    pub(crate) skips_hidden: bool,
    /// Patterns for their names in lower case; without any, all files.
    pub(crate) names: Vec<String>,
}

/// `rg` skips hidden files, but none that an option names.
pub(crate) fn searched_in(run: &Run) -> Searched {
    let mut found = Searched::default();
    if run.name().is_some_and(|name| matches!(base(&name), "egrep" | "fgrep" | "grep")) {
        found.names = included(&run.words[1..]);
        return found;
    }
    if run.name().is_none_or(|name| base(&name) != "rg") {
        return found;
    }
    let texts: Vec<String> = run.words[1..].iter().map(Word::shown).collect();
    let shows = |(word, text): (&Word, &String)| {
        ["--hid", "--unr", "--no-ig"].iter().any(|start| text.starts_with(start))
            || (is_cluster(text) && text.contains(['u', '.']))
            || (is_cluster(text) && text != "-g" && text.contains('g'))
            || (!word.starts_plain() && word.literal().is_none())
    };
    if run.words[1..].iter().zip(&texts).any(shows) {
        return found;
    }
    for (at, text) in texts.iter().enumerate() {
        let glob = match text.split_once('=') {
            Some(("--glob" | "--iglob", glob)) => Some(glob),
            Some(_) => None,
            None if matches!(text.as_str(), "-g" | "--glob" | "--iglob") => {
                texts.get(at + 1).map(String::as_str)
            }
            None => None,
        };
        match glob {
            Some(glob) if glob.contains(['/', '[', '{', '\\']) && !glob.starts_with('!') => {
                return Searched::default();
            }
            Some(glob) if !glob.starts_with('!') => found.names.push(glob.to_lowercase()),
            Some(_) | None => {}
        }
    }
    found.skips_hidden = found.names.is_empty();
    found
}

/// The names that `grep --include` selects; none if it may read others.
fn included(words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    for word in words {
        let text = word.shown();
        if let Some(glob) = text.strip_prefix("--include=") {
            if glob.contains(['[', '{', '\\', '/']) {
                return Vec::new();
            }
            found.push(glob.to_lowercase());
        } else if text.starts_with("--inc")
            || (text.starts_with("--exc") && !text.starts_with("--exclude-dir"))
            || (!word.starts_plain() && word.literal().is_none())
        {
            return Vec::new();
        }
    }
    found
}

fn only_reads(name: &str, words: &[Word]) -> bool {
    match name {
        "awk" | "gawk" | "mawk" | "nawk" => {
            return scripts::for_program(name, words) == Script::Reads
                && outputs(name, words).is_empty();
        }
        "find" => {
            let acts = |word: &Word| {
                let text = word.shown();
                ["-delete", "-fls", "-fprint"].iter().any(|action| text.starts_with(action))
            };
            return !words.iter().any(acts);
        }
        // they write what their arguments say
        "cp" => {
            return !(has_letter(words, 'l', "St")
                || has_letter(words, 's', "St")
                || has_long(words, "--link")
                || has_long(words, "--symbolic-link"));
        }
        "dd" | "install" | "mv" => return true,
        "git" => return git_only_reads(words),
        "sed" => {
            return scripts::for_program(name, words) == Script::Reads
                && !has_letter(words, 'i', "efl")
                && !has_long(words, "--in-place");
        }
        _ => {}
    }
    match HARMLESS.iter().find(|(known, ..)| *known == name) {
        Some((_, flags, valued, long, operands)) => {
            are_harmless(words, flags, valued, long, *operands)
        }
        None => matches!(kind(name), FileUse::Lists | FileUse::Reads) && !is_in(IMPURE, name),
    }
}

fn are_harmless(words: &[Word], flags: &str, valued: &str, long: &[&str], most: usize) -> bool {
    let mut operands = 0;
    let mut rest = words.iter();
    let mut options = true;
    while let Some(word) = rest.next() {
        let Some(text) = word.literal() else {
            if options && !word.starts_plain() {
                return false;
            }
            operands += 1;
            continue;
        };
        if options && text.starts_with('+') {
            return false;
        }
        if !options || text == "-" || !text.starts_with('-') {
            operands += 1;
        } else if text == "--" {
            options = false;
        } else if text.starts_with("--") {
            let option = text.split_once('=').map_or(text.as_str(), |(option, _)| option);
            if !long.contains(&option) {
                return false;
            }
        } else {
            let end = text[1..].find(|c| !flags.contains(c));
            match end.map(|at| &text[at + 1..]) {
                None => {}
                Some(value) if value.starts_with(|c| valued.contains(c)) => {
                    let is_alone = value.len() == 1;
                    rest.by_ref().take(usize::from(is_alone)).for_each(drop);
                }
                Some(_) => return false,
            }
        }
    }
    operands <= most
}

/// Whether a cluster of short options holds `letter`. Behind a letter of `valued`, the rest is its value.
fn has_letter(words: &[Word], letter: char, valued: &str) -> bool {
    words.iter().take_while(|word| word.0 != "--").any(|word| {
        let text = word.shown();
        text.strip_prefix('-').is_some_and(|rest| {
            let letters = rest.split(|c| valued.contains(c)).next().unwrap_or_default();
            !rest.starts_with('-') && letters.contains(letter)
        })
    })
}

/// Whether a long option stands among the words, in full or shortened.
fn has_long(words: &[Word], option: &str) -> bool {
    words.iter().any(|word| {
        let text = word.shown();
        let name = text.split('=').next().unwrap_or_default();
        name.len() > 2 && option.starts_with(name)
    })
}

fn is_cluster(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

/// Sources, and where they go.
fn moved(name: &str, words: &[Word]) -> Vec<Argument> {
    let mut paths = operands(name, words);
    let mut target = None;
    if name != "rsync" {
        for (at, word) in words.iter().enumerate().take_while(|(_, word)| word.0 != "--") {
            let text = word.shown();
            let long = text.split('=').next().unwrap_or_default();
            // after a suffix, a group, a mode or an owner, letters are its value
            let letters = text.split(['S', 'g', 'm', 'o']).next().unwrap_or_default();
            if long.len() > 2 && "--target-directory".starts_with(long) {
                let value = text.split_once('=').map(|(_, value)| part_of(word, value));
                target = value.or_else(|| words.get(at + 1).cloned());
            } else if is_cluster(letters)
                && let Some(end) = letters.find('t')
            {
                let value = &text[end + 1..];
                let glued = (!value.is_empty()).then(|| part_of(word, value));
                target = glued.or_else(|| words.get(at + 1).cloned());
            }
        }
    }
    match &target {
        Some(target) => paths.retain(|path| path != target),
        None if paths.len() > 1 || is_fetched(name, words, &paths) => target = paths.pop(),
        // a link here
        None if name == "ln" => target = Some(Word::new(".")),
        None => {}
    }
    let makes_folders = name == "install" && has_letter(words, 'd', "gmotS");
    let moves = name == "mv" || makes_folders;
    let mut found = Vec::new();
    for word in &paths {
        if moves {
            found.push(Argument::new(word.clone(), Use::Writes).with_tree(name == "mv"));
        }
        // under a new name, a file could be read
        if !makes_folders {
            found.push(Argument::new(word.clone(), Use::Reads));
        }
    }
    let replaces = name == "rsync" && words.iter().any(|word| word.shown().starts_with("--del"));
    found.extend(target.map(|word| Argument {
        from: paths,
        ..Argument::new(word, Use::Writes).with_tree(replaces)
    }));
    found
}

/// Whether `scp` or `rsync` copies from another machine: the only path here is the last.
fn is_fetched(name: &str, words: &[Word], paths: &[Word]) -> bool {
    let remote = |word: &Word| !word.0.starts_with('-') && is_remote(&word.shown());
    let last = words.iter().rfind(|word| !word.0.starts_with('-'));
    matches!(name, "rsync" | "scp") && words.iter().any(remote) && last == paths.last()
}

/// `dd if=a of=b`.
fn copied(words: &[Word]) -> Vec<Argument> {
    let path = |word: &Word| {
        let text = word.literal().unwrap_or_else(|| word.0.clone());
        let (name, value) = text.split_once('=')?;
        let how = match name {
            "if" => Use::Reads,
            "of" => Use::Writes,
            _ => return None,
        };
        Some(Argument::new(part_of(word, value), how))
    };
    words.iter().filter_map(path).collect()
}

/// The operands after the first, which these programs write. An option of a letter in `valued` takes the next word.
fn second(words: &[Word], valued: &str) -> Vec<Argument> {
    let takes_next = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| words[at].literal()).unwrap_or_default();
        before.strip_prefix('-').is_some_and(|rest| rest.len() == 1 && valued.contains(rest))
    };
    let is_operand = |(at, word): &(usize, &Word)| {
        (!word.shown().starts_with('-') || word.0 == "-") && !takes_next(*at)
    };
    let written = words.iter().enumerate().filter(is_operand).skip(1);
    written.map(|(_, word)| Argument::new(word.clone(), Use::Writes)).collect()
}

/// Operands, and the folder into which an archive or a patch is extracted.
fn extracted(name: &str, words: &[Word]) -> Vec<Argument> {
    let extracts = match name {
        "tar" | "bsdtar" => {
            let first = words.first().map(Word::shown).unwrap_or_default();
            has_letter(words, 'x', "fC")
                || (!first.starts_with('-') && first.contains('x'))
                || has_long(words, "--extract")
                || has_long(words, "--get")
        }
        "7z" => words.first().is_some_and(|word| matches!(word.0.as_str(), "x" | "e")),
        "cpio" => has_letter(words, 'i', "") || has_long(words, "--extract"),
        _ => true,
    };
    let below = if extracts { Below::Extracted } else { Below::Nothing };
    let argument =
        |word: Word| Argument { below: below.clone(), ..Argument::new(word, Use::Writes) };
    let mut found: Vec<Argument> = operands(name, words).into_iter().map(argument).collect();
    // `-Csub`, `-osub`
    let glued = |word: &Word| {
        let value = word.0.strip_prefix(['-'])?.strip_prefix(['C', 'd', 'o', 'D'])?;
        (!value.is_empty()).then(|| argument(Word::new(value)))
    };
    found.extend(words.iter().filter_map(glued));
    if extracts {
        found.push(Argument { below, ..Argument::new(Word::new("."), Use::Lists) });
    }
    found
}

/// The subcommand of git, and the words after it.
fn subcommand(words: &[Word]) -> Option<(String, &[Word])> {
    let mut rest = words.iter();
    loop {
        match rest.next()?.shown().as_str() {
            "-C" | "-c" | "--attr-source" | "--config-env" | "--git-dir" | "--namespace"
            | "--work-tree" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            command => return Some((command.to_owned(), rest.as_slice())),
        }
    }
}

fn git_only_reads(words: &[Word]) -> bool {
    // an option that is not known may have a value
    let Some(at) = git::globals(words) else { return false };
    let Some((command, words)) = words.get(at..).and_then(subcommand) else { return true };
    let writes = |word: &Word| word.shown().starts_with("--o") || word.varies();
    match command.as_str() {
        "config" => settings_of_git(words).is_none(),
        command => is_in(GIT_READERS, command) && !words.iter().any(writes),
    }
}

/// The files that git changes by name, and its settings.
fn changed_by_git(words: &[Word]) -> Vec<Argument> {
    let Some((command, words)) = subcommand(words) else { return Vec::new() };
    let first = words.iter().map(Word::shown).find(|word| !word.starts_with('-'));
    let mut written: Vec<Word> = match command.as_str() {
        "checkout" => {
            let is_path = |word: &&Word| {
                let text = word.shown();
                text == "." || text.starts_with("./") || text.ends_with('/')
            };
            let behind = words.iter().skip_while(|word| word.shown() != "--").skip(1);
            words.iter().filter(is_path).chain(behind).cloned().collect()
        }
        // hooks are copied from there
        "clone" | "init" if has_long(words, "--template") => vec![Word::new(".git/hooks")],
        "config" => settings_of_git(words).into_iter().collect(),
        "remote" => match first.as_deref() {
            None | Some("show" | "get-url" | "update" | "prune") => Vec::new(),
            Some(_) => vec![Word::new(".git/config")],
        },
        command if is_in(GIT_WRITERS, command) => operands(command, words),
        _ => Vec::new(),
    };
    let output = |letters: &str| paths_of(words, letters, &["--output", "--output-directory"]);
    written.extend(match command.as_str() {
        "archive" | "format-patch" => output("o"),
        "checkout-index" => paths_of(words, "", &["--prefix"]),
        _ => output(""),
    });
    let is_tree = matches!(command.as_str(), "mv" | "rm");
    let mut found: Vec<Argument> = written
        .into_iter()
        .map(|word| Argument::new(word, Use::Writes).with_tree(is_tree))
        .collect();
    if command == "clean" && has_letter(words, 'f', "e") && !has_letter(words, 'n', "e") {
        let folder = Argument::new(Word::new("."), Use::Lists);
        found.push(Argument { below: Below::Untracked, ..folder });
    }
    found
}

/// The file that `git config` changes. A name and an address start nothing.
fn settings_of_git(words: &[Word]) -> Option<Word> {
    let shown: Vec<String> = words.iter().map(Word::shown).collect();
    let has = |names: &[&str]| shown.iter().any(|word| names.contains(&word.as_str()));
    let operands = shown.iter().filter(|word| !word.starts_with('-')).count();
    let long = |option: &str, text: &str| text.len() > 3 && option.starts_with(text);
    let changes = shown.iter().any(|word| {
        let of = ["--add", "--edit", "--remove-section", "--rename-section", "--replace-all"];
        let of = of.iter().chain(&["--unset", "--unset-all"]);
        of.into_iter().any(|option| long(option, word)) || word == "-e"
    });
    let reads =
        ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "get", "list"];
    let files = paths_of(words, "f", &["--file"]);
    let identity =
        has(&["user.name", "user.email"]) && operands == 2 && files.is_empty() && !changes;
    if !changes && (identity || has(&reads) || operands < 2) {
        return None;
    }
    let usual = || match shown.iter().any(|word| long("--global", word)) {
        true => Word::new("~/.gitconfig"),
        false => Word::new(".git/config"),
    };
    Some(files.into_iter().next().unwrap_or_else(usual))
}

fn searched(words: &[Word]) -> Vec<Argument> {
    let deletes = words.iter().any(|word| word.shown() == "-delete");
    let folders = operands("find", words);
    let named = names(words);
    let argument = |word: Word| match deletes {
        true => Argument { below: Below::Names(named.clone()), ..Argument::new(word, Use::Writes) },
        false => Argument::new(word, Use::Lists),
    };
    let mut found: Vec<Argument> = match folders.is_empty() {
        true => vec![argument(Word::new("."))],
        false => folders.into_iter().map(argument).collect(),
    };
    for (at, word) in words.iter().enumerate() {
        if matches!(word.shown().as_str(), "-fls" | "-fprint" | "-fprint0" | "-fprintf") {
            found.extend(words.get(at + 1).map(|word| Argument::new(word.clone(), Use::Writes)));
        }
    }
    found
}

/// The names that `find` looks for; none if it may find others.
pub(crate) fn names(words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let texts: Vec<String> = words.iter().map(Word::shown).collect();
    for part in texts.split(|text| matches!(text.as_str(), "-o" | "-or")) {
        let narrows = |at: usize| {
            const TESTS: [&str; 6] = ["-empty", "-ipath", "-newer", "-path", "-regex", "-type"];
            part.get(at + 1).is_some_and(|text| TESTS.contains(&text.as_str()))
        };
        let odd = |(at, text): (usize, &String)| match text.as_str() {
            "," => true,
            "!" | "-not" => !narrows(at),
            _ => false,
        };
        let at = part.iter().position(|text| matches!(text.as_str(), "-name" | "-iname"));
        let name = at.and_then(|at| part.get(at + 1)).filter(|name| !name.contains(['[', '\\']));
        match name {
            // `.` is the folder itself
            Some(name) if !part.iter().enumerate().any(odd) && !rules::matches(name, ".") => {
                found.push(name.to_lowercase());
            }
            _ => return Vec::new(),
        }
    }
    found
}

fn operands(name: &str, words: &[Word]) -> Vec<Word> {
    // `-e`, `-f`, `--regexp` and their like
    let brings = |word: &Word| {
        let text = word.shown();
        (is_cluster(&text) && text.contains(['e', 'f']))
            || ["--exp", "--fi", "--fr", "--ref", "--reg"].iter().any(|it| text.starts_with(it))
    };
    let skips = is_in(AFTER_FIRST, name) && !words.iter().any(brings);
    let mut skipped = usize::from(skips);
    let mut found = Vec::new();
    let mut only_operands = false;
    let mut is_script = false;
    for word in words {
        let shown = word.shown();
        if std::mem::take(&mut is_script) {
            continue;
        }
        // `sed -e SCRIPT`
        is_script = name == "sed" && is_cluster(&shown) && shown.ends_with('e');
        if name == "find" && (shown.starts_with('-') || matches!(shown.as_str(), "(" | "!")) {
            break;
        }
        if !only_operands && shown.starts_with('-') {
            only_operands = shown == "--";
            found.extend(value(word));
        } else if matches!(name, "rsync" | "scp") && is_remote(&shown) {
        } else if skipped > 0 {
            skipped -= 1;
            // it may be several words
            if kind(name) == FileUse::Reads && word.literal().is_none() && !word.is_single() {
                found.push(word.clone());
            }
        } else {
            found.push(word.clone());
        }
    }
    found
}

/// The path in an option: `--file=/x`, `-I/x`.
fn value(option: &Word) -> Option<Word> {
    let source = option.literal().unwrap_or_else(|| option.0.clone());
    let value = source.split_once('=').map(|(_, value)| value).or_else(|| source.get(2..))?;
    let path = value.contains('/') || value.starts_with('~') || value.starts_with("..");
    path.then(|| part_of(option, value))
}

/// A part of the text of `word`, or of its source if the text is not known.
fn part_of(word: &Word, part: &str) -> Word {
    match word.literal() {
        Some(_) => Word::new(&quoted(part)),
        None => Word::new(part),
    }
}

fn is_remote(path: &str) -> bool {
    path.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

fn folders(name: &str, words: &[Word]) -> Vec<Argument> {
    let long = if name == "npm" { &["--prefix"][..] } else { FOLDERS };
    let mut found = paths_of(words, "", long);
    for (at, word) in words.iter().enumerate() {
        match word.0.strip_prefix("-C") {
            Some("") => found.extend(words.get(at + 1).cloned()),
            Some(folder) => found.push(Word::new(folder)),
            None => {}
        }
    }
    found.into_iter().map(|word| Argument::new(word, Use::Reads)).collect()
}

fn outputs(name: &str, words: &[Word]) -> Vec<Argument> {
    let known = OUTPUTS.iter().find(|(known, ..)| *known == name);
    let mut found =
        known.map_or_else(Vec::new, |(_, letters, long)| paths_of(words, letters, long));
    // a file with the name in the address
    let names = match name {
        "curl" => has_letter(words, 'O', "o") || has_long(words, "--remote-name"),
        "wget" => found.is_empty(),
        _ => false,
    };
    if names {
        let address = |word: &&Word| !word.shown().starts_with('-');
        let name =
            |word: &Word| word.shown().rsplit('/').next().map(|name| Word::new(&quoted(name)));
        found.extend(words.iter().filter(address).filter_map(name));
    }
    found.into_iter().map(|word| Argument::new(word, Use::Writes)).collect()
}

/// The values of options: in the next word, after the letter or after `=`. Long options may be
/// shortened.
fn paths_of(words: &[Word], letters: &str, long: &[&str]) -> Vec<Word> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let text = word.shown();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        let is_long = name.len() > 2 && long.iter().any(|option| option.starts_with(name));
        let of_letter = (!is_long && is_cluster(&text))
            .then(|| text.find(|c| letters.contains(c)))
            .flatten()
            .map(|at| &text[at + 1..]);
        let value = match (is_long, of_letter) {
            (true, _) => value,
            (false, Some(rest)) => Some(rest).filter(|rest| !rest.is_empty()),
            (false, None) => continue,
        };
        match value {
            Some(value) => found.push(part_of(word, value)),
            None => found.extend(words.get(at + 1).cloned()),
        }
    }
    found
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        for list in [WRITERS, READERS, LISTERS, TEXTS, CHANGERS] {
            assert!(list.split(' ').is_sorted(), "{list}");
        }
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
            let files = for_command(&Run::new(words));
            let found: Vec<String> =
                files.arguments.into_iter().map(|found| found.word.shown()).collect();
            assert_eq!(found, expected, "{line}");
        }
    }
}
