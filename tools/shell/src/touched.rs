//! The paths that a line touches, as far as they can be known before it runs.
//!
//! Known are literal arguments, patterns of file names as they match now, variables of the environment,
//! and those to which the line itself gives values that stand in it.
//!
//! Programs have too many options to know which of their words are paths. So each word is tried, whole
//! and in parts: it counts as read if it is a file, and as written if it is a protected file and the
//! program is not certain to only read. For the rest: a line that would change files, or go, in a place that is
//! not known takes the permission to leave the worktree. A line that would read a file that is not known reads
//! `<dynamic>`, and each file in the worktree that a rule protects from being read.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use globset::{GlobBuilder, GlobMatcher};
use leftfold_events::rules;

use crate::View;
use crate::commands::DYNAMIC;
use crate::files::{self, Argument, Below, FileUse, Files, Searched, Use};
use crate::step::{Run, Step};
use crate::word::{self, Word, WordPart};
use crate::wrappers;

/// Most values of one word.
const MAX_VALUES: usize = 64;

/// Most paths of a line.
const MAX_PATHS: usize = 1_000;

/// Most parts of words of a line that are tried as names of files.
const MAX_NAMES: usize = 10_000;

/// Most entries of folders that are looked at for one line.
const MAX_ENTRIES: usize = 20_000;

/// Files that are none.
const DEVICES: &[&str] = &[
    "/dev/full", "/dev/null", "/dev/random", "/dev/stderr", "/dev/stdin", "/dev/stdout",
    "/dev/tty", "/dev/urandom", "/dev/zero",
];

/// A word with its variables filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Value {
    text: String,
    /// Where the first character stands that is wild.
    wild: Option<usize>,
    /// Whether more follows that is not known.
    open: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Resolved, wherever they are, in their order.
    pub(crate) paths: Vec<PathBuf>,
    /// The patterns of `external_directory`.
    pub(crate) outside: Vec<String>,
    /// The patterns of `read`.
    pub(crate) reads: Vec<String>,
    /// The patterns of `edit`.
    pub(crate) edits: Vec<String>,
    /// The patterns of `protected_file`, apart from those among `edits`.
    pub(crate) protected: Vec<String>,
    /// The steps that only change to a folder in the worktree.
    pub(crate) moves: HashSet<usize>,
}

/// Where the line may be at some point.
#[derive(Clone, Debug)]
struct WorkingFolders {
    folders: Vec<PathBuf>,
    unknown: bool,
}

impl WorkingFolders {
    fn join(&mut self, other: Self) {
        self.unknown |= other.unknown;
        for folder in other.folders {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
        self.unknown |= self.folders.len() > MAX_VALUES;
        self.folders.truncate(MAX_VALUES);
    }
}

struct Walk<'a> {
    view: &'a dyn View,
    place: WorkingFolders,
    /// Everywhere it has been.
    been: WorkingFolders,
    saved: Vec<WorkingFolders>,
    /// `None` is a value that is not known.
    variables: HashMap<String, Vec<Option<Value>>>,
    unsettled: HashSet<String>,
    /// Whether options of the shell let patterns match more files.
    loose: bool,
    /// The names that the last `find` looked for, for the commands that it runs.
    searched: Vec<String>,
    /// Whether a program of the line may read a program text that another command prints.
    pipes_scripts: bool,
    names_tried: usize,
    entries_seen: usize,
    trees: HashMap<PathBuf, Rc<Vec<PathBuf>>>,
    /// Whether `cd` is certain to be the builtin, and to go where it says.
    certain_cd: bool,
    found: Touched,
}

/// The paths that the steps touch when they start in `folder`.
pub(crate) fn from_steps(steps: &[Step], folder: &Path, view: &dyn View) -> Touched {
    let place = WorkingFolders { folders: vec![folder.to_owned()], unknown: false };
    let sets_globs = |step: &Step| {
        let names = |run: &Run| run.words.iter().any(|word| word.0.contains("glob"));
        matches!(step, Step::Run(run) if names(run))
            || matches!(step, Step::Assign(name, _) if name == "GLOBIGNORE")
    };
    let mut walk = Walk {
        view,
        been: place.clone(),
        place,
        saved: Vec::new(),
        variables: inherited(view),
        unsettled: unsettled(steps),
        loose: steps.iter().any(sets_globs),
        searched: Vec::new(),
        pipes_scripts: steps.iter().any(is_script_reader),
        names_tried: 0,
        entries_seen: 0,
        trees: HashMap::new(),
        // a function may stand after the name
        certain_cd: !steps.contains(&Step::Function)
            && !view.environment().iter().any(|(name, _)| name == "CDPATH"),
        found: Touched::default(),
    };
    walk.declare(steps);
    for (at, step) in steps.iter().enumerate() {
        walk.step(at, step);
    }
    walk.found
}

fn inherited(view: &dyn View) -> HashMap<String, Vec<Option<Value>>> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let text = value.into_string().ok()?;
        Some((name.into_string().ok()?, vec![Some(Value { text, ..Value::default() })]))
    };
    view.environment().into_iter().filter_map(text).collect()
}

/// Variables whose values cannot be told from the line: set more than once and not always to
/// something that stands there, or by a command.
fn unsettled(steps: &[Step]) -> HashSet<String> {
    let (mut set, mut open, mut many) = (HashSet::new(), HashSet::new(), HashSet::new());
    for step in steps {
        match step {
            Step::Assign(name, value) => {
                if !set.insert(name.clone()) {
                    many.insert(name.clone());
                }
                if value.as_ref().is_none_or(|value| value.literal().is_none()) {
                    open.insert(name.clone());
                }
            }
            Step::Run(run) if sets(run) => {
                let names = run.words.iter().map(Word::shown);
                let names: Vec<String> = names.filter(|name| word::is_name(name)).collect();
                open.extend(names.iter().cloned());
                many.extend(names);
            }
            Step::Run(_)
            | Step::Unreadable
            | Step::Unknown
            | Step::Assignment(_)
            | Step::Function
            | Step::Redirect { .. }
            | Step::Enter
            | Step::Leave
            | Step::Perhaps
            | Step::Joined => {}
        }
    }
    many.retain(|name| open.contains(name));
    many
}

/// Whether a command is an interpreter that has neither a file nor a text to run: it reads its input.
fn is_script_reader(step: &Step) -> bool {
    const INTERPRETERS: [&str; 14] = [
        "bash", "dash", "deno", "fish", "ksh", "lua", "node", "perl", "php", "python", "ruby",
        "sh", "tclsh", "zsh",
    ];
    let Step::Run(run) = step else { return false };
    let Some(name) = run.name() else { return false };
    let family = wrappers::base(&name).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_operand = |word: &Word| {
        let text = word.shown();
        !text.starts_with('-') || ["-c", "-e", "-m", "-p"].iter().any(|it| text.starts_with(it))
    };
    let reads_input = |word: &Word| matches!(word.shown().as_str(), "-" | "-s" | "/dev/stdin");
    let words = &run.words[1..];
    INTERPRETERS.contains(&family)
        && (words.iter().any(reads_input) || !words.iter().any(is_operand))
}

/// Whether a word is `<(COMMAND)`, whose output is no file of the project.
fn is_substitution(word: &Word) -> bool {
    word.0.starts_with("<(") && word.0.ends_with(')')
}

/// Whether a command sets the variables it is given.
fn sets(run: &Run) -> bool {
    let by = ["read", "mapfile", "readarray", "getopts", "printf", "let", "unset"];
    let Some(name) = run.name() else { return false };
    by.contains(&name.as_str()) || refers(run)
}

/// Whether it makes a variable a second name of another.
fn refers(run: &Run) -> bool {
    let declares = |name: String| matches!(name.as_str(), "declare" | "local" | "typeset");
    run.name().is_some_and(declares)
        && run.words.iter().any(|word| word.0.starts_with('-') && word.0.contains('n'))
}

impl Walk<'_> {
    fn step(&mut self, at: usize, step: &Step) {
        match step {
            Step::Run(run) => {
                if self.certain_cd && self.moves_inside(run) {
                    self.found.moves.insert(at);
                }
                self.run(run);
            }
            Step::Redirect { to, writes } => {
                let how = if *writes { Use::Writes } else { Use::Reads };
                if self.values(to).is_none_or(|values| !values.iter().all(Value::is_certain)) {
                    self.claim(how, DYNAMIC.to_owned());
                }
                self.argument(&Argument::new(to.clone(), how));
            }
            Step::Assign(name, value) => self.assign(name, value.as_ref()),
            Step::Enter | Step::Perhaps => self.saved.push(self.place.clone()),
            Step::Leave => self.place = self.saved.pop().unwrap_or_else(|| self.been.clone()),
            Step::Joined => {
                let before = self.saved.pop().unwrap_or_else(|| self.been.clone());
                self.place.join(before);
            }
            // `BASH_ENV=file bash`
            Step::Assignment(word) => {
                if word.0.starts_with("GIT_TEMPLATE_DIR=") {
                    self.protect(".git/hooks".to_owned());
                }
                let run = Run::new(vec![Word::new("env"), word.clone()]);
                self.names(&run, word, &files::for_command(&run));
            }
            Step::Unreadable | Step::Unknown | Step::Function => {}
        }
    }

    /// Takes note of the values that stand in the line: in a loop, a command may see one that stands after it.
    fn declare(&mut self, steps: &[Step]) {
        let text = |text: &str| Some(Value { text: text.to_owned(), ..Value::default() });
        let mut refer = false;
        for step in steps {
            if let Step::Assign(name, Some(word)) = step
                && let Some(value) = word.literal()
            {
                self.variables.entry(name.clone()).or_default().push(text(&value));
            }
            let Step::Run(run) = step else { continue };
            refer |= refers(run);
            let declares = ["declare", "export", "local", "readonly", "typeset"];
            let declares = run.name().is_some_and(|name| declares.contains(&name.as_str()));
            for word in &run.words[1..] {
                if sets(run) {
                    self.variables.entry(word.shown()).or_default().push(None);
                } else if declares
                    && let Some(word) = word.literal()
                    && let Some((name, value)) = word.split_once('=')
                {
                    self.variables.entry(name.to_owned()).or_default().push(text(value));
                }
            }
        }
        if refer {
            self.variables.clear();
            let names = steps.iter().filter_map(|step| match step {
                Step::Assign(name, _) => Some(name.clone()),
                Step::Run(_)
                | Step::Unreadable
                | Step::Unknown
                | Step::Assignment(_)
                | Step::Function
                | Step::Redirect { .. }
                | Step::Enter
                | Step::Leave
                | Step::Perhaps
                | Step::Joined => None,
            });
            self.unsettled.extend(names);
        }
    }

    fn assign(&mut self, name: &str, value: Option<&Word>) {
        let values = value.and_then(|value| self.values(value));
        let settled = !self.unsettled.contains(name);
        let known = self.variables.entry(name.to_owned()).or_default();
        let found = match values.filter(|_| settled) {
            Some(values) => values.into_iter().map(Some).collect(),
            None => vec![None],
        };
        for value in found {
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }

    fn run(&mut self, run: &Run) {
        let name = run.name().unwrap_or_default();
        match name.as_str() {
            "cd" | "pushd" => return self.change(run),
            "popd" => return self.place.join(self.been.clone()),
            _ => {}
        }
        let run = &self.filled(run);
        let base = wrappers::base(&name);
        let is_found =
            run.replaced.is_some() || run.words[1..].iter().any(|it| it.shown().contains("{}"));
        if base == "find" {
            self.searched = files::names(&run.words[1..]);
        } else if !is_found || wrappers::wraps(&name) {
            self.searched.clear();
        }
        let files = files::for_command(run);
        let prints = matches!(base, "echo" | "printf");
        if self.pipes_scripts && (prints || !run.given.is_empty()) {
            self.script(run);
        }
        if files.kind == FileUse::Texts {
            return;
        }
        if files.has_scripts {
            self.names_in_script(&run.given, &files);
        }
        if files.reads_unknown {
            self.any_file(&[]);
        }
        if files.writes_unknown {
            self.claim(Use::Writes, DYNAMIC.to_owned());
        }
        for argument in &files.arguments {
            self.argument(argument);
        }
        let searched = files::searched_in(run);
        if matches!(files.kind, FileUse::Reads | FileUse::Writes) {
            let is_read = |argument: &&Argument| {
                let packs = files.may_write_words && argument.below != Below::Extracted;
                argument.how == Use::Reads || packs
            };
            let is_file = |argument: &&Argument| !is_substitution(&argument.word);
            for argument in files.arguments.iter().filter(is_read).filter(is_file) {
                self.folder(&argument.word, &searched);
            }
            if files.searches && !files.arguments.iter().any(|argument| self.exists(&argument.word))
            {
                self.folder(&Word::new("."), &searched);
            }
            if run.fed || is_found {
                let names = self.searched.clone();
                self.any_file(&names);
            }
        }
        if matches!(files.kind, FileUse::Changes | FileUse::Writes) {
            if run.fed {
                self.claim(Use::Writes, DYNAMIC.to_owned());
                self.somewhere();
            }
            if is_found {
                let below = Below::Names(self.searched.clone());
                let root = self.view.worktree().to_owned();
                self.changed_below(&root, &below);
            }
        }
        // `cp .env.example .env` shows nothing of a file that it replaces
        let is_target =
            |word: &Word| files.arguments.iter().any(|it| !it.from.is_empty() && it.word == *word);
        let only_replaces = matches!(base, "cp" | "install" | "mv") && files.only_reads;
        for word in run.words[1..].iter().filter(|word| !(only_replaces && is_target(word))) {
            self.names(run, word, &files);
        }
    }

    /// The command with the values of its variables, as far as they are known.
    fn filled(&self, run: &Run) -> Run {
        let mut words: Vec<Word> = run.words[..1].to_vec();
        for word in word::expanded(&run.words[1..]) {
            let values = match word.literal() {
                None if words.len() < MAX_NAMES => self.values(&word),
                _ => None,
            };
            match values.filter(|values| values.iter().all(Value::is_certain)) {
                Some(values) => {
                    words.extend(values.iter().map(|it| Word::new(&word::quoted(&it.text))));
                }
                None => words.push(word),
            }
        }
        Run { words, ..run.clone() }
    }

    /// Tries a word and its parts as names of files.
    fn names(&mut self, run: &Run, word: &Word, files: &Files) {
        for value in self.values(word).unwrap_or_default() {
            if value.wild.is_some() {
                for folder in self.starts(&value.text) {
                    for path in self.matching(&folder, &value.text) {
                        self.name(&path.to_string_lossy(), files);
                    }
                }
            } else if !value.open {
                // `file:///a/%2eenv`
                if value.text.contains("file:") && value.text.contains(['%', '{', '[']) {
                    self.any_file(&[]);
                }
                for name in parts(&value.text, files.has_scripts) {
                    self.name(name, files);
                }
                if run.name().is_some_and(|name| wrappers::base(&name) == "sed") {
                    self.names_in_sed(&value.text, files);
                }
            }
        }
    }

    /// Names in the text that a command prints or is given, which an interpreter may run.
    fn script(&mut self, run: &Run) {
        let files = files::for_command(&Run::new(vec![Word::new("sh")]));
        for word in &run.words[1..] {
            for value in self.values(word).unwrap_or_default() {
                self.names_in_script(&value.text, &files);
            }
        }
        self.names_in_script(&run.given, &files);
    }

    fn names_in_script(&mut self, script: &str, files: &Files) {
        for name in parts(script, true) {
            self.name(name, files);
        }
    }

    /// Names after a command of sed, as in `s/a/b/wAGENTS.md` or `/x/r/etc/x`.
    fn names_in_sed(&mut self, script: &str, files: &Files) {
        let starts = script.char_indices().filter(|(_, c)| "/|,;#rRwW".contains(*c)).take(256);
        for (at, c) in starts {
            let name = script[at + 1..].trim();
            let is_path = name.starts_with('/') && "rRwW".contains(c);
            if is_path || self.view.is_guarded(name) || self.view.is_protected_name(name) {
                self.name(name, files);
            }
        }
    }

    /// The folders where a path begins.
    fn starts(&self, path: &str) -> Vec<PathBuf> {
        match path.starts_with('/') {
            true => vec![PathBuf::from("/")],
            false => self.place.folders.clone(),
        }
    }

    fn name(&mut self, name: &str, files: &Files) {
        self.names_tried += 1;
        if self.names_tried > MAX_NAMES {
            if self.names_tried == MAX_NAMES + 1 {
                self.any_file(&[]);
            }
            if !files.only_reads {
                self.protect(DYNAMIC.to_owned());
            }
            return;
        }
        if name.is_empty() || name.len() > 4_096 {
            return;
        }
        let reads = !matches!(files.kind, FileUse::Lists | FileUse::Changes | FileUse::Texts);
        for folder in self.starts(name) {
            let home = name.strip_prefix("~/").zip(std::env::var_os("HOME"));
            let path = match home {
                Some((rest, home)) => Path::new(&home).join(rest),
                None => folder.join(name),
            };
            let found = std::fs::metadata(&path).ok();
            let last = name.rsplit('/').next().unwrap_or(name);
            let hidden = last.starts_with('.') && self.view.is_guarded(name);
            let looks = hidden || self.view.is_protected_name(name);
            let has_parent = || path.parent().is_some_and(Path::is_dir);
            let is_address = name.contains("://") || name.starts_with("//");
            let is_new = looks && !name.contains(char::is_whitespace) && !is_address;
            if found.is_none() && !is_new && !((looks || name.contains('/')) && has_parent()) {
                // `git show HEAD:.env` names a file that is not there
                if hidden && reads {
                    self.claim(Use::Reads, name.to_owned());
                }
                continue;
            }
            let Some(target) = path.to_str().and_then(|path| self.view.resolve_for_command(path))
            else {
                continue;
            };
            if self.view.is_spilled(&target.path) || target.is_own_process {
                continue;
            }
            let is_file = found.as_ref().is_some_and(std::fs::Metadata::is_file);
            if reads && (is_file || hidden) {
                // a program such as `CC=/usr/bin/gcc` is no secret
                let is_program = files.kind == FileUse::Other && is_executable(found.as_ref());
                if target.outside.is_none() || !is_program {
                    self.claim(Use::Reads, target.shown.clone());
                }
                if let Some(outside) = target.outside.filter(|_| !is_program) {
                    self.leave(outside);
                }
            }
            if files.may_write_words && is_file {
                self.claim(Use::Writes, target.shown.clone());
            }
            let is_secret = reads && found.is_some() && self.view.is_secret(&target.path);
            // many lines name folders of programs and programs in them, and change neither
            let is_kept = is_file && !is_executable(found.as_ref());
            let may_change = match files.only_reads {
                true => false,
                false if is_kept => self.view.is_protected(&target.shown),
                false => self.view.is_protected_name(&target.shown),
            };
            if is_secret || may_change {
                self.protect(target.shown);
            }
        }
    }

    fn protect(&mut self, path: String) {
        if !self.found.protected.contains(&path) {
            let is_full = self.found.protected.len() >= MAX_PATHS;
            self.found.protected.push(if is_full { DYNAMIC.to_owned() } else { path });
        }
    }

    /// A file is read, and it is not known which.
    fn any_file(&mut self, names: &[String]) {
        self.claim(Use::Reads, DYNAMIC.to_owned());
        let root = self.view.worktree().to_owned();
        self.read_below(&root, &Searched { skips_hidden: false, names: names.to_vec() });
    }

    /// Whether a word is not known, or names something that is there.
    fn exists(&self, word: &Word) -> bool {
        let Some(values) = self.values(word) else { return true };
        let exists = |value: &Value| {
            let mut folders = self.starts(&value.text).into_iter();
            value.open || value.wild.is_some() || folders.any(|it| it.join(&value.text).exists())
        };
        values.iter().any(exists)
    }

    /// The files in a folder that a reader is given.
    fn folder(&mut self, word: &Word, searched: &Searched) {
        let values = self.values(word);
        if values.as_ref().is_none_or(|values| values.iter().any(|value| value.open)) {
            return self.any_file(&[]);
        }
        for value in values.unwrap_or_default() {
            for folder in self.starts(&value.text) {
                for path in self.matching(&folder, &value.text) {
                    if path.is_dir() {
                        self.read_below(&path, searched);
                    }
                }
            }
        }
    }

    fn read_below(&mut self, folder: &Path, searched: &Searched) {
        let base = self.shown(folder);
        for path in self.tree(folder).iter() {
            let rest = path.strip_prefix(folder).unwrap_or(path);
            let hidden = rest.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
            let shown = joined(&base, rest);
            if !(searched.skips_hidden && hidden)
                && self.view.is_guarded(&shown)
                && is_named(path, &searched.names)
                && !path.is_dir()
            {
                self.claim(Use::Reads, shown);
            }
        }
    }

    /// The protected files in a folder that is changed.
    fn changed_below(&mut self, folder: &Path, below: &Below) {
        let names: &[String] = match below {
            Below::Nothing => return,
            Below::Extracted | Below::Untracked => &[],
            Below::Names(names) => names,
        };
        if !folder.is_dir() || (*below == Below::Extracted && self.view.is_worktree(folder)) {
            return;
        }
        let base = self.shown(folder);
        if self.view.is_protected(&base) {
            self.protect(base.clone());
        }
        for path in self.tree(folder).iter() {
            let shown = joined(&base, path.strip_prefix(folder).unwrap_or(path));
            let tracked = *below == Below::Untracked && shown.split('/').any(|name| name == ".git");
            if self.view.is_protected(&shown) && is_named(path, names) && !tracked {
                self.protect(shown);
            }
        }
    }

    /// A path as rules see it.
    fn shown(&self, path: &Path) -> String {
        let text = path.to_string_lossy();
        let target = self.view.resolve_for_command(&text);
        target.map_or_else(|| text.to_string(), |target| target.shown)
    }

    /// Everything below a folder, without following links, `node_modules`, and the contents of `.git`.
    fn tree(&mut self, folder: &Path) -> Rc<Vec<PathBuf>> {
        if let Some(known) = self.trees.get(folder) {
            return Rc::clone(known);
        }
        let mut found = Vec::new();
        let mut left = std::collections::VecDeque::from([folder.to_owned()]);
        while let Some(next) = left.pop_front() {
            let is_skipped = next.file_name().is_some_and(|name| name == "node_modules");
            if is_skipped || next.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
                self.entries_seen += 1;
                if self.entries_seen > MAX_ENTRIES {
                    left.clear();
                    break;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    left.push_back(entry.path());
                }
                found.push(entry.path());
            }
        }
        let found = Rc::new(found);
        self.trees.insert(folder.to_owned(), Rc::clone(&found));
        found
    }

    /// The paths that a pattern matches now; a path without wild characters, whether it exists or not.
    fn matching(&mut self, folder: &Path, pattern: &str) -> Vec<PathBuf> {
        let mut found = vec![folder.to_owned()];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            if !part.contains(['*', '?', '[']) {
                found.iter_mut().for_each(|path| path.push(part));
                continue;
            }
            if part == "**" && self.loose {
                let trees: Vec<_> = found.iter().map(|path| self.tree(path)).collect();
                found.extend(trees.iter().flat_map(|tree| tree.iter().cloned()));
                continue;
            }
            let matcher = self.matcher(part);
            let mut next = Vec::new();
            for path in &found {
                for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                    self.entries_seen += 1;
                    let name = entry.file_name();
                    let hidden = name.as_encoded_bytes().starts_with(b".");
                    let may_be_hidden = self.loose || part.starts_with('.');
                    if self.entries_seen <= MAX_ENTRIES
                        && (!hidden || may_be_hidden)
                        && matcher.as_ref().is_none_or(|matcher| matcher.is_match(&name))
                    {
                        next.push(entry.path());
                    }
                }
            }
            found = next;
        }
        found
    }

    /// `None` matches every name: a pattern that bash may read in another way.
    fn matcher(&self, pattern: &str) -> Option<GlobMatcher> {
        if pattern.contains(['{', '}', '\\']) || pattern.contains("[[:") {
            return None;
        }
        let mut builder = GlobBuilder::new(pattern);
        builder.case_insensitive(self.loose).backslash_escape(false);
        builder.build().ok().map(|glob| glob.compile_matcher())
    }

    /// Whether this is `cd FOLDER` for a literal folder in the worktree, and nothing else.
    fn moves_inside(&self, run: &Run) -> bool {
        let operand = match run.words.as_slice() {
            [name, operand] if name.0 == "cd" => operand,
            [name, option, operand]
                if name.0 == "cd" && matches!(option.0.as_str(), "--" | "-P" | "-L") =>
            {
                operand
            }
            _ => return false,
        };
        let Some(text) = operand.literal().filter(|text| !text.starts_with(['-', '+', '~'])) else {
            return false;
        };
        let inside = |folder: &PathBuf| {
            let path = folder.join(&text);
            path.to_str().is_some_and(|path| {
                self.view.resolve_for_command(path).is_some_and(|target| target.outside.is_none())
            })
        };
        let plain = run.redirects.is_empty() && !run.assigns && !run.fed && !text.is_empty();
        plain && !self.place.unknown && self.place.folders.iter().all(inside)
    }

    /// The rules about `read` or `edit` see `pattern`.
    fn claim(&mut self, how: Use, pattern: String) {
        let patterns = match how {
            Use::Lists => return,
            Use::Reads => &mut self.found.reads,
            Use::Writes => &mut self.found.edits,
        };
        if !patterns.contains(&pattern) {
            let is_full = patterns.len() >= MAX_PATHS;
            let pattern = if is_full { DYNAMIC.to_owned() } else { pattern };
            if patterns.len() <= MAX_PATHS {
                patterns.push(pattern);
            }
        }
    }

    fn change(&mut self, run: &Run) {
        let mut operands = run.words[1..].iter().filter(|word| {
            word.0 == "-" || word.0.starts_with("-/") || !word.0.starts_with(['-', '+'])
        });
        let before = self.place.clone();
        let home = Word::new("~");
        let target = operands.next_back().unwrap_or(&home);
        if target.0 == "-" {
            return self.place.join(self.been.clone());
        }
        let Some(values) = self.values(target) else { return self.lost() };
        let mut after = WorkingFolders { folders: Vec::new(), unknown: false };
        for value in values {
            if value.open || value.wild.is_some() {
                self.value(&value, Use::Writes, None);
                after.unknown = true;
                continue;
            }
            for folder in &before.folders {
                let folder = folder.join(&value.text);
                // where it cannot go, it stays
                after.join(WorkingFolders { folders: vec![folder.clone()], unknown: false });
                if !folder.is_dir() {
                    after.join(before.clone());
                }
            }
            after.unknown |= before.unknown && !value.text.starts_with('/');
            self.value(&value, Use::Writes, None);
        }
        self.been.join(after.clone());
        self.place = after;
    }

    /// It has gone where nobody knows.
    fn lost(&mut self) {
        self.place.unknown = true;
        self.somewhere();
    }

    fn somewhere(&mut self) {
        self.leave(format!("{DYNAMIC}/*"));
    }

    fn leave(&mut self, pattern: String) {
        if !self.found.outside.contains(&pattern) {
            self.found.outside.push(pattern);
        }
    }

    fn argument(&mut self, argument: &Argument) {
        let how = argument.how;
        if how == Use::Reads && is_substitution(&argument.word) {
            return;
        }
        let Some(values) = self.values(&argument.word) else {
            match how {
                Use::Lists => {}
                Use::Reads => self.any_file(&[]),
                Use::Writes => {
                    self.claim(how, DYNAMIC.to_owned());
                    self.somewhere();
                }
            }
            return;
        };
        for value in &values {
            let has_sources = !argument.from.is_empty();
            self.value(value, how, Some(has_sources));
            if value.open {
                match how {
                    Use::Lists => {}
                    Use::Reads => self.any_file(&[]),
                    Use::Writes => self.claim(how, DYNAMIC.to_owned()),
                }
                continue;
            }
            for folder in self.starts(&value.text) {
                for path in self.matching(&folder, &value.text) {
                    if value.wild.is_some() && how != Use::Lists {
                        self.matched(&path, how);
                    }
                    self.changed_below(&path, &argument.below);
                    for source in &argument.from {
                        self.put(source, &path);
                    }
                }
            }
        }
    }

    /// A file that a pattern matches.
    fn matched(&mut self, path: &Path, how: Use) {
        let Some(target) = self.view.resolve_for_command(&path.to_string_lossy()) else {
            return;
        };
        if target.is_own_process {
            return;
        }
        if let Some(outside) = target.outside.filter(|_| !self.view.is_spilled(&target.path)) {
            self.leave(outside);
        }
        if how == Use::Writes || self.view.is_guarded(&target.shown) {
            self.claim(how, target.shown);
        }
    }

    /// `source` is put to `target`, or into it if that is a folder.
    fn put(&mut self, source: &Word, target: &Path) {
        let values = self.values(source).unwrap_or_default();
        if values.is_empty() || values.iter().any(|value| value.open) {
            // its name is not known
            if target.is_dir() {
                self.claim(Use::Writes, DYNAMIC.to_owned());
                self.protect(DYNAMIC.to_owned());
            }
            return;
        }
        for value in values {
            // `cp -r a/. b`, `rsync a/ b`
            let contents = value.text.ends_with("/.") || value.text == ".";
            let perhaps = contents || value.text.ends_with('/');
            for folder in self.starts(&value.text) {
                for path in self.matching(&folder, &value.text) {
                    let into = match path.file_name() {
                        Some(name) if target.is_dir() && !contents => target.join(name),
                        _ => target.to_owned(),
                    };
                    if !contents {
                        self.landed(&into);
                    }
                    let bases = match perhaps {
                        true => vec![self.shown(&into), self.shown(target)],
                        false => vec![self.shown(&into)],
                    };
                    for entry in self.tree(&path).iter() {
                        let rest = entry.strip_prefix(&path).unwrap_or(entry);
                        let landed = bases.iter().map(|base| joined(base, rest));
                        for shown in landed {
                            if self.view.is_protected(&shown) {
                                self.protect(shown);
                            }
                        }
                        if perhaps && rest.components().count() == 1 {
                            self.landed(&target.join(rest));
                        }
                    }
                }
            }
        }
    }

    /// A file that a command creates or replaces.
    fn landed(&mut self, path: &Path) {
        let Some(target) = self.view.resolve_for_command(&path.to_string_lossy()) else {
            return;
        };
        self.claim(Use::Writes, target.shown);
    }

    /// The possible values of `word`; `None` if there are too many.
    fn values(&self, word: &Word) -> Option<Vec<Value>> {
        let mut found = Vec::new();
        for source in word::alternatives(&word.0)? {
            let mut values = vec![Value::default()];
            for part in word::parts(&source) {
                values = values.into_iter().flat_map(|value| self.extended(value, &part)).collect();
                if values.len() > MAX_VALUES {
                    return None;
                }
            }
            found.extend(values);
        }
        (found.len() <= MAX_VALUES).then_some(found)
    }

    fn extended(&self, mut value: Value, part: &WordPart) -> Vec<Value> {
        if value.open {
            return vec![value];
        }
        match part {
            WordPart::Text(text) => value.text += text,
            WordPart::Brace(c) => value.text.push(*c),
            WordPart::Glob(c) => {
                value.wild.get_or_insert(value.text.len());
                value.text.push(*c);
            }
            WordPart::Home => return self.with_variable(&value, "HOME", true, None),
            WordPart::Variable { name, quoted, default } => {
                return self.with_variable(&value, name, *quoted, default.as_deref());
            }
            WordPart::Unknown => value.open = true,
        }
        vec![value]
    }

    /// `value` with each value of a variable after it. Unquoted, blanks make several words of one.
    fn with_variable(
        &self,
        value: &Value,
        name: &str,
        quoted: bool,
        default: Option<&str>,
    ) -> Vec<Value> {
        let mut found: Vec<Value> =
            default.map(|text| value.with(text, None, false)).into_iter().collect();
        if name == "PWD" && !self.place.unknown {
            let folders = self.place.folders.iter().filter_map(|folder| folder.to_str());
            found.extend(folders.map(|folder| value.with(folder, None, false)));
            return found;
        }
        let open = value.with("", None, true);
        let Some(known) = self.variables.get(name) else {
            // not set, as far as the line tells: it may be a variable of the shell itself
            found.push(open);
            return found;
        };
        for one in known.iter().take(MAX_VALUES + 1) {
            let Some(one) = one else {
                found.push(open.clone());
                continue;
            };
            if quoted {
                // a pattern in quotes matches nothing
                found.push(value.with(&one.text, one.wild, one.open));
                continue;
            }
            let words: Vec<&str> = one.text.split_whitespace().collect();
            if words.is_empty() {
                found.push(value.with(&one.text, one.wild, one.open));
            }
            for word in words {
                let wild = one.wild.map(|_| 0).or_else(|| word.find(['*', '?', '[']));
                found.push(value.with(word, wild, one.open));
            }
        }
        found
    }

    /// `may_read` says whether the path itself is read or changed; if so, it says whether others are put into it.
    fn value(&mut self, value: &Value, how: Use, is_target: Option<bool>) {
        let certain = value.certain();
        let unknown = value.open && (how == Use::Writes) || value.climbs(certain.len());
        let relative = !certain.starts_with('/');
        if relative && self.place.unknown && how == Use::Writes {
            self.somewhere();
        }
        let nothing = certain.is_empty() && value.open;
        let folders = if relative { self.place.folders.clone() } else { vec![PathBuf::from("/")] };
        let before = self.found.outside.len();
        for folder in folders.into_iter().filter(|_| !nothing) {
            let path = folder.join(certain);
            match is_target {
                Some(true) if value.is_certain() && path.is_dir() => self.path(&path, None),
                Some(_) => self.path(&path, Some(how)),
                None => self.path(&path, None),
            }
        }
        // one question is enough
        if unknown && self.found.outside.len() == before {
            self.somewhere();
        }
    }

    fn path(&mut self, path: &Path, how: Option<Use>) {
        let text = path.to_string_lossy();
        let is_number = |name: &str| !name.is_empty() && name.bytes().all(|c| c.is_ascii_digit());
        if DEVICES.contains(&text.as_ref()) || text.strip_prefix("/dev/fd/").is_some_and(is_number)
        {
            return;
        }
        match self.view.resolve_for_command(&text) {
            Some(target) if target.is_own_process => {}
            _ if self.found.paths.len() >= MAX_PATHS => self.somewhere(),
            Some(target) => {
                let spilled = self.view.is_spilled(&target.path);
                if let Some(outside) = target.outside.filter(|_| !spilled) {
                    self.leave(outside);
                }
                if let Some(how) = how.filter(|_| !spilled) {
                    self.claim(how, target.shown);
                }
                if !self.found.paths.contains(&target.path) {
                    self.found.paths.push(target.path);
                }
            }
            None => self.somewhere(),
        }
    }
}

/// The parts of a word that can be the name of a file: the whole, each end after an option letter, and
/// the texts after `=`, `:`, `@`, `,`, `<` and `)`. In a script, each text that could be a path.
fn parts(text: &str, is_script: bool) -> Vec<&str> {
    let mut found = vec![text];
    if text.starts_with('-') && !text.starts_with("--") {
        found.extend(text.char_indices().skip(1).take(64).map(|(at, _)| &text[at..]));
    }
    let separators = ['=', ':', '@', ',', '<', ')'];
    if text.contains(separators) {
        found.extend(text.match_indices(separators).map(|(at, _)| &text[at + 1..]));
        found.extend(text.split(separators));
    }
    if is_script {
        let odd = |c: char| !(c.is_alphanumeric() || "_./~+-%".contains(c));
        for part in text.split(odd).filter(|part| part.contains(['.', '/'])) {
            found.push(part);
            found.extend(part.strip_prefix(['r', 'R', 'w', 'W', 'p']));
        }
    }
    found
}

/// A path as rules see it, below a folder as rules see it.
fn joined(base: &str, rest: &Path) -> String {
    match base {
        "." => rest.to_string_lossy().into_owned(),
        base => format!("{base}/{}", rest.to_string_lossy()),
    }
}

/// Whether a file or a folder above it has one of these names, which are patterns in lower case; any name if there
/// are none.
fn is_named(path: &Path, names: &[String]) -> bool {
    names.is_empty()
        || path.iter().any(|name| {
            let name = name.to_string_lossy().to_lowercase();
            names.iter().any(|pattern| rules::matches(pattern, &name))
        })
}

fn is_executable(found: Option<&std::fs::Metadata>) -> bool {
    use std::os::unix::fs::PermissionsExt;
    found.is_some_and(|found| found.permissions().mode() & 0o111 != 0)
}

impl Value {
    fn with(&self, text: &str, wild: Option<usize>, open: bool) -> Self {
        let at = self.text.len();
        let wild = self.wild.or(wild.map(|wild| at + wild));
        Self { text: format!("{}{text}", self.text), wild, open }
    }

    fn is_certain(&self) -> bool {
        self.wild.is_none() && !self.open
    }

    /// The part that is certain: all of it, or the folders before what is not.
    fn certain(&self) -> &str {
        let end = match (self.wild, self.open) {
            (Some(wild), _) => wild,
            (None, true) => self.text.len(),
            (None, false) => return &self.text,
        };
        self.text[..end].rfind('/').map_or("", |slash| &self.text[..=slash])
    }

    /// Whether it may lead upwards after what is certain.
    fn climbs(&self, from: usize) -> bool {
        self.text[from..].split('/').any(|name| name == "..")
            && from < self.text.len()
            && self.wild.is_some()
    }
}
