//! The changes of a session, a turn or a step to the project's files, as unified diffs.
//!
//! The log names the snapshots before and after each step that changed files. Their difference is the
//! change, so the user's own changes between steps are left out. Consecutive changes of a file are
//! joined; a file that the user has changed in between appears more than once. Steps without
//! snapshots are shown by the diffs in the results of their edit calls, and the diff says that it may
//! not be complete.
//!
//! It never writes. Of the snapshots that an imported log names, it reads only those that came with the
//! import and show what the log claims ([`steps_to_accept`]).

mod changed_file;
mod kept;
mod steps;
mod tree;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use leftfold_events::event::FileChange;
use leftfold_events::state::{Changed, Figures, Origin};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_snapshots::{FileMode, FileVersions, Snapshots, Version};
use leftfold_store::Reader;
use leftfold_tools::is_protected;
use leftfold_view::clean::visible_line;
use leftfold_view::file_changes;
use serde_json::{Value, json};

use crate::executors::NO_PROJECT;
use crate::session_paths::{self, SessionPlace};
use crate::{Usage, executors, model, project, secrets};
use changed_file::{Content, Pair, Side};
use kept::{Contents, Kept};
use steps::{ImportedPart, Step, StepId, Steps};

pub use changed_file::{ChangedFile, FileChangeKind, Source};

/// The most steps that a message names.
const NAMED: usize = 5;
/// The changes that are shown of a step without snapshots.
const ONLY_EDITS: &str = "only changes by edit calls are shown, not those by commands";

/// The part of a session to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffRange {
    /// All changes that no revert has undone.
    #[default]
    Session,
    /// A turn, counted from 1.
    Turn(usize),
    LastTurn,
    /// The turn that holds this event.
    TurnOf(Seq),
    /// The step that holds this event.
    Step(Seq),
}

/// The changes of a session to files.
#[derive(Clone, Debug)]
pub struct SessionDiff {
    pub session: SessionId,
    /// By path. A file appears more than once if others have changed it between two steps.
    pub files: Vec<ChangedFile>,
    /// Facts about the whole, for people.
    pub notes: Vec<String>,
    /// The reasons why changes may be missing, for people.
    pub gaps: Vec<String>,
}

/// The snapshots of a session, of which the events up to `imported` were imported.
///
/// # Errors
/// There is no data folder.
pub fn snapshots(origin: &Origin, imported: Seq) -> anyhow::Result<Snapshots> {
    let worktree = Path::new(&origin.worktree).to_owned();
    let worktree = project::worktree(Path::new(&origin.directory), worktree, imported);
    Ok(Snapshots::new(&session_paths::data_dir()?, &worktree))
}

/// The steps of a log that is to be imported whose changes may count. The snapshots before and after
/// them must be among `trees`, which came with the log, and must differ in every file that the log says
/// the step has changed: so a revert puts back only what `leftfold diff` shows. Steps that change a link,
/// settings, instructions or anything else that `protected_file` covers are left out.
///
/// # Errors
/// The snapshots cannot be read.
pub fn steps_to_accept(
    events: &[Envelope],
    snapshots: &Snapshots,
    trees: &HashSet<String>,
) -> anyhow::Result<Vec<Seq>> {
    let steps = Steps::from_events(events, &ImportedPart::default());
    let changes = || steps.all.values().flat_map(|step| &step.snapshots);
    let names: Vec<(&str, &str)> =
        changes().map(|(changed, after)| (changed.before.as_str(), after.as_str())).collect();
    let mut refused = HashSet::new();
    for ((changed, after), found) in changes().zip(snapshots.compare(&names)?) {
        let is_there = trees.contains(&changed.before) && trees.contains(after);
        if !is_there || !found.is_some_and(|found| is_plain_change(changed, &found)) {
            refused.insert(changed.step);
        }
    }
    let with_snapshots = steps.all.iter().filter(|(_, step)| step.has_snapshots);
    Ok(with_snapshots.map(|(id, _)| id.step).filter(|step| !refused.contains(step)).collect())
}

/// Whether two snapshots differ in the files that a step has changed, and these are only files that
/// everybody may change.
fn is_plain_change(changed: &Changed, found: &[FileVersions]) -> bool {
    changed.files.iter().all(|file| {
        let differs = found.iter().find(|versions| versions.path == file.path);
        differs.is_some_and(|FileVersions { before, after, .. }| {
            let mut versions = before.iter().chain(after);
            versions.all(|version| version.mode != FileMode::Link)
        }) && !is_protected(&file.path)
    })
}

impl SessionDiff {
    /// The changes of a session to files. Blocks while it reads the log and the snapshots.
    ///
    /// # Errors
    /// [`Usage`]: there is no such turn or step, or the settings, which name secrets, have errors. The
    /// log cannot be read.
    pub fn read(place: &SessionPlace, range: DiffRange) -> anyhow::Result<Self> {
        let reader = Reader::open(&place.store)?;
        Self::read_with(place, range, &|session| Ok(reader.read(session, 1)?))
    }

    /// The changes of a session of a store that this process holds. `read` reads all events of a
    /// session.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_with(
        place: &SessionPlace,
        range: DiffRange,
        read: &dyn Fn(SessionId) -> anyhow::Result<Vec<Envelope>>,
    ) -> anyhow::Result<Self> {
        let events = read(place.session)?;
        let imported = leftfold_store::imported(&place.store, &events)?;
        let accepted = leftfold_store::accepted_steps(&place.store, &events)?;
        let steps = Steps::from_events(&events, &ImportedPart { through: imported, accepted });
        let chosen = choose(&steps, range)?;
        let origin = steps.state.origin.as_ref().context("the session has no beginning")?;
        let directory = PathBuf::from(&origin.directory);
        // an imported log does not choose a machine
        let executor = steps.state.config.options.executor.as_deref().filter(|_| imported == 0);
        learn_secrets(executor.map_or(&directory, |_| Path::new(NO_PROJECT)))?;
        let snapshots = match executor {
            Some(name) => Kept::There(executors::named(name)?),
            None => Kept::Here(snapshots(origin, imported)?),
        };
        let mut reading = Reading {
            diff: Self {
                session: place.session,
                files: Vec::new(),
                notes: Vec::new(),
                gaps: Vec::new(),
            },
            read,
            seen: HashSet::from([place.session]),
        };
        reading.of_steps(&steps, &chosen, range, &snapshots);
        if let Some(parent) = origin.parent.filter(|_| !reading.diff.gaps.is_empty()) {
            reading.diff.gaps = vec![format!(
                "a subagent takes no snapshots: {ONLY_EDITS}. `leftfold diff {parent}` shows both"
            )];
        }
        Ok(reading.diff)
    }

    /// The lines and files that were changed; each file counts once.
    pub fn figures(&self) -> Figures {
        let change = |file: &ChangedFile| FileChange {
            path: file.path.clone(),
            change: leftfold_events::event::Change::Modified,
            additions: file.additions,
            deletions: file.deletions,
        };
        Figures::from_files(self.files.iter().map(change).collect::<Vec<_>>().iter())
    }

    /// One unified diff of all files, in git's form; empty without changes.
    pub fn unified(&self) -> String {
        self.files.iter().map(|file| file.diff.as_str()).collect()
    }

    /// One line for each file, and the sum; empty without changes.
    pub fn stat(&self) -> String {
        if self.files.is_empty() {
            return String::new();
        }
        let lines: String = self.files.iter().map(|file| stat_line(file) + "\n").collect();
        format!("{lines}{}\n", file_changes::sum(&self.figures()))
    }

    /// The fields of the JSON form, in which the files have their diffs unless `stat` is set.
    pub fn to_json(&self, stat: bool) -> Value {
        let Figures { additions, deletions, files } = self.figures();
        let mut changed = json!(self.files);
        for file in changed.as_array_mut().into_iter().flatten().filter(|_| stat) {
            file.as_object_mut().map(|file| file.remove("diff"));
        }
        json!({
            "session": self.session,
            "complete": self.gaps.is_empty(),
            "notes": self.notes.iter().chain(&self.gaps).collect::<Vec<_>>(),
            "changes": { "additions": additions, "deletions": deletions, "files": files },
            "files": changed,
        })
    }
}

fn stat_line(file: &ChangedFile) -> String {
    let ChangedFile { path, from, change, additions, deletions, binary, .. } = file;
    let letter = match change {
        FileChangeKind::Added => 'A',
        FileChangeKind::Modified => 'M',
        FileChangeKind::Deleted => 'D',
        FileChangeKind::Renamed => 'R',
    };
    let from = from.as_ref().map(|from| visible_line(from) + " -> ").unwrap_or_default();
    let path = visible_line(path);
    match binary {
        true => format!("{letter} {from}{path} binary"),
        false => format!("{letter} {from}{path} +{additions} -{deletions}"),
    }
}

/// Learns the secrets of the project, which the contents of files may hold.
fn learn_secrets(directory: &std::path::Path) -> anyhow::Result<()> {
    let settings =
        leftfold_config::load(directory, &model::environment, leftfold_providers::known());
    // `known` makes every text that leaves the process hide them
    secrets::known(&settings.map_err(model::usage)?, &model::environment)?;
    Ok(())
}

/// The steps of the range.
fn choose(steps: &Steps, range: DiffRange) -> Result<Vec<StepId>, Usage> {
    let of_turn = |turn: Seq| {
        Ok(steps.all.keys().copied().filter(|id| id.turn == turn).collect::<Vec<StepId>>())
    };
    match range {
        DiffRange::Session => Ok(steps.all.keys().copied().collect()),
        DiffRange::LastTurn => steps.turns.last().map_or(Ok(Vec::new()), |turn| of_turn(*turn)),
        DiffRange::Turn(number) => {
            let turn = number.checked_sub(1).and_then(|at| steps.turns.get(at));
            let missing = || {
                let turns = leftfold_view::words::counted(steps.turns.len(), "turn");
                Usage(format!("there is no turn {number}: the session has {turns}"))
            };
            of_turn(*turn.ok_or_else(missing)?)
        }
        DiffRange::TurnOf(seq) => match steps.at(seq) {
            Some(id) => of_turn(id.turn),
            None => Ok(Vec::new()),
        },
        DiffRange::Step(seq) => match steps.at(seq) {
            Some(id) => Ok(steps.all.contains_key(&id).then_some(id).into_iter().collect()),
            None => Err(Usage(format!("event {seq} is in no step of the session"))),
        },
    }
}

/// Why a step is shown without snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Missing {
    Imported,
    NotTaken,
    Gone,
}

/// A diff that is being read.
struct Reading<'a> {
    diff: SessionDiff,
    /// Reads the events of a session.
    read: &'a dyn Fn(SessionId) -> anyhow::Result<Vec<Envelope>>,
    /// The sessions whose edit calls are shown.
    seen: HashSet<SessionId>,
}

impl Reading<'_> {
    fn of_steps(&mut self, steps: &Steps, chosen: &[StepId], range: DiffRange, snapshots: &Kept) {
        let chosen: Vec<(StepId, &Step)> =
            chosen.iter().filter_map(|id| Some((*id, steps.all.get(id)?))).collect();
        let changes: Vec<(StepId, &Changed, &str)> = chosen
            .iter()
            .flat_map(|(id, step)| step.snapshots.iter().map(|(old, new)| (*id, old, new.as_str())))
            .filter(|(_, changed, _)| range != DiffRange::Session || steps.counts(changed))
            .collect();
        if changes.iter().any(|(_, changed, _)| !steps.counts(changed)) {
            self.diff.notes.push("a revert has undone changes that are shown here".to_owned());
        }
        let pairs: Vec<(&str, &str)> =
            changes.iter().map(|(_, changed, after)| (changed.before.as_str(), *after)).collect();
        let compared = snapshots.compare(&pairs).unwrap_or_else(|error| {
            self.diff.gaps.push(format!("the snapshots cannot be read: {error:#}"));
            vec![None; pairs.len()]
        });
        let mut missing: BTreeMap<Missing, Vec<Seq>> = BTreeMap::new();
        let mut chains = Chains::default();
        let mut gone: HashMap<StepId, Vec<&FileChange>> = HashMap::new();
        for ((id, changed, _), found) in changes.iter().zip(compared) {
            match found {
                Some(files) => chains.add(changed, files),
                None => gone.entry(*id).or_default().extend(&changed.files),
            }
        }
        self.snapshotted(chains, snapshots);
        for (id, step) in chosen {
            let why = match gone.get(&id) {
                Some(_) => Missing::Gone,
                None if step.has_snapshots || !step.changes => continue,
                None if step.imported => Missing::Imported,
                None => Missing::NotTaken,
            };
            let asked = if id.step > 0 { id.step } else { id.turn };
            missing.entry(why).or_default().push(asked);
            self.logged(step, gone.get(&id).map_or(&[], Vec::as_slice));
        }
        for (why, steps) in missing {
            self.diff.gaps.push(gap(why, &steps));
        }
    }

    /// Adds the changes between snapshots.
    fn snapshotted(&mut self, chains: Chains, snapshots: &Kept) {
        if chains.0.is_empty() {
            return;
        }
        let ends = || chains.0.values().flatten();
        let versions = ends().flat_map(|(before, after)| before.iter().chain(after));
        let mut contents = match snapshots.contents(versions) {
            Ok(contents) => contents,
            Err(error) => {
                return self.diff.gaps.push(format!("the snapshots cannot be read: {error:#}"));
            }
        };
        let (mut single, mut several) = (Vec::new(), Vec::new());
        for (path, chain) in chains.0 {
            let chain = chain.into_iter().filter(|(before, after)| before != after);
            let mut pairs: Vec<Pair> = chain
                .map(|(before, after)| Pair {
                    path: path.clone(),
                    from: None,
                    before: before.map(|version| side(version, &mut contents)),
                    after: after.map(|version| side(version, &mut contents)),
                })
                .collect();
            if pairs.len() == 1 { &mut single } else { &mut several }.append(&mut pairs);
        }
        let mut pairs = changed_file::with_renames(single);
        pairs.append(&mut several);
        // stable: the changes of one file stay in their order
        pairs.sort_by(|a, b| a.path.cmp(&b.path));
        let gone = pairs.iter().filter(|pair| pair.is_gone()).count();
        if gone > 0 {
            self.diff.gaps.push(format!(
                "the contents of {} are not kept any more",
                leftfold_view::words::counted(gone, "file")
            ));
        }
        self.diff.files.extend(pairs.into_iter().map(Pair::into_change));
    }

    /// Adds the diffs that the calls of a step have logged, and those of its children. `files`: the
    /// changes between its snapshots, which are gone.
    fn logged(&mut self, step: &Step, files: &[&FileChange]) {
        let known = self.diff.files.len();
        let mut steps_of_children = Vec::new();
        let mut next = step.children.clone();
        while let Some(child) = next.pop() {
            if !self.seen.insert(child) {
                continue;
            }
            match (self.read)(child) {
                Ok(events) => {
                    // children take no snapshots
                    let none = ImportedPart { through: Seq::MAX, ..ImportedPart::default() };
                    let steps = Steps::from_events(&events, &none);
                    next.extend(steps.all.values().flat_map(|step| &step.children));
                    steps_of_children.extend(steps.all.into_values());
                }
                Err(error) => {
                    self.diff.gaps.push(format!("the subagent {child} cannot be read: {error}"));
                }
            }
        }
        for diff in [step].into_iter().chain(&steps_of_children).flat_map(|step| &step.logged) {
            self.diff.files.extend(changed_file::logged(diff));
            if diff.cut {
                self.diff
                    .gaps
                    .push("an edit call has logged only the start of its diff".to_owned());
            }
        }
        let shown = self.diff.files.get(known..).unwrap_or_default();
        let is_shown = |file: &&&FileChange| {
            let ends = |long: &str, short: &str| {
                long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            shown.iter().any(|s| ends(&s.path, &file.path) || ends(&file.path, &s.path))
        };
        let counted: Vec<ChangedFile> = files
            .iter()
            .filter(|file| !is_shown(file))
            .map(|file| changed_file::counted(file, changed_file::GONE))
            .collect();
        self.diff.files.extend(counted);
    }
}

/// The consecutive changes of each file: where one begins with the content that the change before it
/// has left, both are one.
#[derive(Default)]
struct Chains(BTreeMap<String, Vec<Ends>>);

/// A file before and after a change.
type Ends = (Option<Version>, Option<Version>);

impl Chains {
    /// Adds the changes of a step.
    fn add(&mut self, changed: &Changed, files: Vec<FileVersions>) {
        let counted: HashSet<&str> = changed.files.iter().map(|file| file.path.as_str()).collect();
        for FileVersions { path, before, after } in files {
            if !counted.contains(path.as_str()) {
                continue;
            }
            let chain = self.0.entry(path).or_default();
            match chain.last_mut() {
                Some((_, end)) if *end == before => *end = after,
                Some(_) | None => chain.push((before, after)),
            }
        }
    }
}

fn side(version: Version, contents: &mut Contents) -> Side {
    let content = contents.for_version(&version).map_or(Content::Gone, Content::from_bytes);
    Side { version, content }
}

fn gap(why: Missing, steps: &[Seq]) -> String {
    let named: Vec<String> = steps.iter().take(NAMED).map(Seq::to_string).collect();
    let more = steps.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let s = if steps.len() == 1 { "" } else { "s" };
    let steps = format!("step{s} {}{more}", named.join(", "));
    match why {
        Missing::Imported => format!("snapshots of imported {steps} are not read: {ONLY_EDITS}"),
        Missing::NotTaken => format!("there is no snapshot after {steps}: {ONLY_EDITS}"),
        Missing::Gone => format!("the snapshots of {steps} are not kept any more: {ONLY_EDITS}"),
    }
}
