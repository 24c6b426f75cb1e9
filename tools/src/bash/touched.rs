//! The paths that a line touches, as far as they can be known before it runs.
//!
//! Known are literal arguments, patterns of file names up to the first wild character, variables of the
//! environment, and those to which the line itself gives values that stand in it. For the rest: what
//! would be changed, or gone to, in a place that is not known takes the permission to leave the
//! worktree; what would only be read does not. Rules about `read` and `edit` see each path that is
//! certain, and `<dynamic>` for a redirection to one that is not.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use leftfold_process::environment;

use crate::Workspace;
use crate::paths::{self, Target};

use super::commands::DYNAMIC;
use super::files::{self, Argument, Use};
use super::step::{Run, Step};
use super::word::{self, Part, Word};

/// Most values of one word.
const MAX_VALUES: usize = 64;

/// Most paths of a line.
const MAX_PATHS: usize = 1_000;

/// Files that are none.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
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
pub(super) struct Touched {
    /// Resolved, wherever they are, in their order.
    pub(super) paths: Vec<PathBuf>,
    /// The patterns of `external_directory`.
    pub(super) outside: Vec<String>,
    /// The patterns of `read`.
    pub(super) reads: Vec<String>,
    /// The patterns of `edit`.
    pub(super) edits: Vec<String>,
    /// The steps that only change to a folder in the worktree.
    pub(super) moves: HashSet<usize>,
}

/// Where the line may be at some point.
#[derive(Clone, Debug)]
struct Place {
    folders: Vec<PathBuf>,
    unknown: bool,
}

impl Place {
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
    cx: &'a Workspace,
    place: Place,
    /// Everywhere it has been.
    been: Place,
    saved: Vec<Place>,
    /// `None` is a value that is not known.
    variables: HashMap<String, Vec<Option<Value>>>,
    unsettled: HashSet<String>,
    /// Whether `cd` is certain to be the builtin, and to go where it says.
    certain_cd: bool,
    found: Touched,
}

/// The paths that the steps touch when they start in `folder`.
pub(super) fn of(steps: &[Step], folder: &Path, cx: &Workspace) -> Touched {
    let place = Place { folders: vec![folder.to_owned()], unknown: false };
    let mut walk = Walk {
        cx,
        been: place.clone(),
        place,
        saved: Vec::new(),
        variables: inherited(cx),
        unsettled: unsettled(steps),
        // a function may stand behind the name
        certain_cd: !steps.contains(&Step::Function)
            && !environment(&cx.environment).iter().any(|(name, _)| name == "CDPATH"),
        found: Touched::default(),
    };
    for (at, step) in steps.iter().enumerate() {
        walk.step(at, step);
    }
    walk.found
}

fn inherited(cx: &Workspace) -> HashMap<String, Vec<Option<Value>>> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let text = value.into_string().ok()?;
        Some((name.into_string().ok()?, vec![Some(Value { text, ..Value::default() })]))
    };
    environment(&cx.environment).into_iter().filter_map(text).collect()
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

/// Whether a command sets the variables it is given.
fn sets(run: &Run) -> bool {
    let by = ["read", "mapfile", "readarray", "getopts", "printf", "let", "unset"];
    let Some(name) = run.name() else { return false };
    let refers = || run.words.iter().any(|w| w.0.starts_with('-') && w.0.contains('n'));
    by.contains(&name.as_str())
        || (matches!(name.as_str(), "declare" | "local" | "typeset") && refers())
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
                self.word(to, how, &[]);
            }
            Step::Assign(name, value) => self.assign(name, value.as_ref()),
            Step::Enter | Step::Perhaps => self.saved.push(self.place.clone()),
            Step::Leave => self.place = self.saved.pop().unwrap_or_else(|| self.been.clone()),
            Step::Joined => {
                let before = self.saved.pop().unwrap_or_else(|| self.been.clone());
                self.place.join(before);
            }
            Step::Unknown | Step::Assignment(_) | Step::Function => {}
        }
    }

    fn assign(&mut self, name: &str, value: Option<&Word>) {
        let values = value.and_then(|value| self.values(value));
        let settled = !self.unsettled.contains(name);
        let known = self.variables.entry(name.to_owned()).or_default();
        match values.filter(|_| settled) {
            Some(values) => known.extend(values.into_iter().map(Some)),
            None => known.push(None),
        }
    }

    fn run(&mut self, run: &Run) {
        let name = run.name().unwrap_or_default();
        match name.as_str() {
            "cd" | "pushd" => self.change(run),
            "popd" => self.place.join(self.been.clone()),
            _ => {
                for Argument { word, how, into } in files::of(run) {
                    self.word(&word, how, &into);
                }
                for word in files::perhaps_read(run) {
                    self.existing(&word);
                }
                if run.fed && files::how(super::wrappers::base(&name)) == Some(Use::Writes) {
                    self.somewhere();
                }
            }
        }
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
            path.to_str()
                .is_some_and(|path| paths::resolve(path, self.cx).is_ok_and(|target| target.inside))
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
        if patterns.len() < MAX_PATHS && !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }

    /// A literal argument counts as read if it is a file in the worktree.
    fn existing(&mut self, word: &Word) {
        let Some(text) = word.literal().filter(|text| !text.is_empty()) else { return };
        for folder in self.place.folders.clone() {
            let path = folder.join(&text);
            let Some(text) = path.to_str().filter(|_| path.is_file()) else { continue };
            if let Ok(target) = paths::resolve(text, self.cx)
                && target.inside
            {
                self.claim(Use::Reads, target.shown);
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
        let mut after = Place { folders: Vec::new(), unknown: false };
        for value in values {
            if value.open || value.wild.is_some() {
                self.value(&value, Use::Writes, None);
                after.unknown = true;
                continue;
            }
            for folder in &before.folders {
                let folder = folder.join(&value.text);
                // where it cannot go, it stays
                after.join(Place { folders: vec![folder.clone()], unknown: false });
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

    fn word(&mut self, word: &Word, how: Use, into: &[String]) {
        match self.values(word) {
            Some(values) => values.iter().for_each(|value| self.value(value, how, Some(into))),
            None if how == Use::Writes => self.somewhere(),
            None => {}
        }
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

    fn extended(&self, mut value: Value, part: &Part) -> Vec<Value> {
        if value.open {
            return vec![value];
        }
        match part {
            Part::Text(text) => value.text += text,
            Part::Brace(c) => value.text.push(*c),
            Part::Glob(c) => {
                value.wild.get_or_insert(value.text.len());
                value.text.push(*c);
            }
            Part::Home => return self.filled(&value, "HOME"),
            Part::Variable(name) => return self.filled(&value, name),
            Part::Unknown => value.open = true,
        }
        vec![value]
    }

    fn filled(&self, value: &Value, name: &str) -> Vec<Value> {
        if name == "PWD" && !self.place.unknown {
            let folders = self.place.folders.iter().filter_map(|folder| folder.to_str());
            return folders.map(|folder| value.with(folder, None, false)).collect();
        }
        let open = || value.with("", None, true);
        match self.variables.get(name) {
            Some(known) => known
                .iter()
                .take(MAX_VALUES + 1)
                .map(|one| {
                    one.as_ref().map_or_else(open, |one| value.with(&one.text, one.wild, one.open))
                })
                .collect(),
            None => vec![open()],
        }
    }

    /// `into` are names below it if it is a folder; without it, nothing there is read or changed.
    fn value(&mut self, value: &Value, how: Use, into: Option<&[String]>) {
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
            match into.filter(|_| value.is_certain()) {
                Some(into) if !into.is_empty() && path.is_dir() => {
                    self.path(&path, None);
                    for name in into {
                        self.path(&path.join(name), Some(how));
                    }
                }
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
        let spilled = |target: &Target| {
            paths::real(&self.cx.spill_dir).is_ok_and(|dir| target.path.starts_with(dir))
        };
        match paths::resolve(&text, self.cx) {
            _ if self.found.paths.len() >= MAX_PATHS => self.somewhere(),
            Ok(target) => {
                let spilled = spilled(&target);
                if !target.inside && !spilled {
                    self.leave(target.outside());
                }
                if let Some(how) = how.filter(|_| !spilled) {
                    self.claim(how, target.shown);
                }
                if !self.found.paths.contains(&target.path) {
                    self.found.paths.push(target.path);
                }
            }
            Err(_) => self.somewhere(),
        }
    }
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

    /// Whether it may lead upwards behind what is certain.
    fn climbs(&self, from: usize) -> bool {
        self.text[from..].split('/').any(|name| name == "..")
            && from < self.text.len()
            && self.wild.is_some()
    }
}
