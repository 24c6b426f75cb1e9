//! Skills: folders with instructions for one kind of work, in the project and in the user's
//! folders. Each has a `SKILL.md` with a name and a description in its front matter.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leftfold_files::texts::{InForce, Texts};
use leftfold_front_matter as front_matter;
use serde::Deserialize;

pub use crate::user_folders::SkillFolder;
use crate::user_folders::UserFolders;
use crate::{paths, text};

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";

/// Places of skills in a project's folder.
const IN_PROJECT: [&str; 5] =
    [".leftfold/skills", ".opencode/skill", ".opencode/skills", ".claude/skills", ".agents/skills"];

/// Places of the user's skills in the home folder.
const IN_HOME: [&str; 2] = [".claude/skills", ".agents/skills"];

/// Places of the user's skills in the configuration folder.
const IN_CONFIG: [&str; 3] = ["leftfold/skills", "opencode/skill", "opencode/skills"];

/// Most levels of folders that are searched.
const MAX_DEPTH: usize = 6;

/// Most entries of one place that are examined.
const MAX_ENTRIES: usize = 5_000;

/// Largest `SKILL.md` in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Longest name in characters, and most bytes of a description in a list.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;

/// One skill, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Lower case letters, digits and hyphens.
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
    /// Its `SKILL.md`, absolute with links resolved.
    pub path: PathBuf,
    /// The place where it was found, with links resolved. A link may lead the skill out of it.
    pub place: PathBuf,
}

/// A `SKILL.md` that cannot be used as a skill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {problem}", path.display())]
pub struct Problem {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    pub problem: String,
}

/// The skills found, and the problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSkills {
    /// Sorted by name; names are unique.
    pub skills: Vec<Skill>,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Deserialize)]
struct Front {
    name: Option<String>,
    description: Option<String>,
}

/// Searches the folders from `directory` up to `worktree`, then the folders that settings name,
/// then the user's own places. If several skills have one name, the nearest counts. Only reads; an
/// unreadable file becomes a problem or is skipped.
pub fn find(directory: &Path, worktree: &Path, user_folders: &UserFolders) -> FoundSkills {
    let mut found = FoundSkills::default();
    let texts = user_folders.texts(worktree);
    let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
    let mut seen = HashSet::new();
    for SearchedFolder { path: place, confined_to } in places(directory, worktree, user_folders) {
        for file in files(&place, &mut seen).into_iter().filter(|file| texts.has(file)) {
            if confined_to.as_ref().is_some_and(|folder| leads_out(&file, folder)) {
                let problem = "left out, because a link leads out of the project".to_owned();
                found.problems.push(Problem { path: file, line: 1, problem });
                continue;
            }
            match read(&file, &place, &texts) {
                Ok((skill, _)) => {
                    skills.entry(skill.name.clone()).or_insert(skill);
                }
                Err(problem) => found.problems.push(problem),
            }
        }
    }
    found.skills = skills.into_values().collect();
    found
}

/// A folder that is searched, with links resolved.
struct SearchedFolder {
    path: PathBuf,
    /// The folder that its skills must really be in; `None` for the user's own places. Whoever wrote the
    /// project does not choose which other files models read.
    confined_to: Option<PathBuf>,
}

/// Whether a file is really elsewhere.
fn leads_out(file: &Path, folder: &Path) -> bool {
    !paths::real(file).is_ok_and(|file| file.starts_with(folder))
}

/// The places that exist, nearest first.
fn places(directory: &Path, worktree: &Path, user_folders: &UserFolders) -> Vec<SearchedFolder> {
    let inside = directory.starts_with(worktree);
    let up = directory.ancestors().take_while(|folder| !inside || folder.starts_with(worktree));
    let up = up.take(if inside { usize::MAX } else { 1 });
    let real = paths::real(worktree).unwrap_or_else(|_| worktree.to_owned());
    let project = up.flat_map(|folder| IN_PROJECT.map(|place| folder.join(place)));
    let project = project.map(|path| (path, Some(real.clone())));
    let named = user_folders.skills.iter().map(|named| {
        // a folder outside the project is one that the user has trusted
        let inside = !leads_out(&named.path, &real);
        let folder = if inside { Some(real.clone()) } else { paths::real(&named.path).ok() };
        (named.path.clone(), folder.filter(|_| !named.own))
    });
    let own = own_places(user_folders).into_iter().map(|path| (path, None));
    project
        .chain(named)
        .chain(own)
        .filter(|(path, _)| path.is_dir())
        .filter_map(|(path, confined_to)| {
            Some(SearchedFolder { path: paths::real(&path).ok()?, confined_to })
        })
        .collect()
}

/// The user's own places, existing or not.
fn own_places(user_folders: &UserFolders) -> Vec<PathBuf> {
    let config =
        user_folders.config.iter().flat_map(|config| IN_CONFIG.map(|place| config.join(place)));
    let home = user_folders.home.iter().flat_map(|home| IN_HOME.map(|place| home.join(place)));
    let named =
        user_folders.skills.iter().filter(|named| named.own).map(|named| named.path.clone());
    config.chain(home).chain(named).collect()
}

/// Whether a path (with links resolved) is in one of the user's own places. Models may read there,
/// though it is outside every project.
pub(crate) fn is_own(path: &Path, user_folders: &UserFolders) -> bool {
    own_places(user_folders)
        .iter()
        .any(|place| paths::real(place).is_ok_and(|place| path.starts_with(place)))
}

/// Every `SKILL.md` below `place`, by depth and then by name. Follows links, and enters no folder
/// twice.
fn files(place: &Path, seen: &mut HashSet<(u64, u64)>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut level = vec![place.to_owned()];
    let mut left = MAX_ENTRIES;
    for _ in 0..=MAX_DEPTH {
        let mut below = Vec::new();
        for folder in level {
            let known = |found: std::fs::Metadata| !seen.insert((found.dev(), found.ino()));
            if std::fs::metadata(&folder).map_or(true, known) {
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let entries = entries.filter_map(|entry| Some(entry.ok()?.path())).take(left);
            let mut entries: Vec<PathBuf> = entries.collect();
            left -= entries.len();
            entries.sort_unstable();
            files.extend(entries.iter().filter(|path| path.ends_with(FILE)).cloned());
            below.extend(entries.into_iter().filter(|path| is_searched(path)));
        }
        level = below;
    }
    files
}

fn is_searched(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name != "node_modules" && name != ".git" && path.is_dir()
}

/// Reads a `SKILL.md`: the skill and its instructions.
pub(crate) fn read(file: &Path, place: &Path, texts: &Texts) -> Result<(Skill, String), Problem> {
    let problem = |line, problem: String| Problem { path: file.to_owned(), line, problem };
    let (path, text) = load(file, texts).map_err(|text| problem(1, text))?;
    let document: front_matter::Document<'_, Front> =
        front_matter::read(&text).map_err(|broken| problem(broken.line, broken.problem))?;
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let line_of = |key: &str| {
        let at = text.lines().position(|line| line.starts_with(key));
        at.map_or(1, |at| at + 1)
    };
    let name = document.front.name.as_deref().or(folder).unwrap_or_default().trim().to_owned();
    if !is_name(&name) {
        let text = format!(
            "`name` is {name:?}: expected 1 to {MAX_NAME} lower case letters, digits and single hyphens"
        );
        return Err(problem(line_of("name:"), text));
    }
    let description = document.front.description.unwrap_or_default();
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    if description.is_empty() {
        let text = "`description` is missing: say in a sentence or two when the skill is of use";
        return Err(problem(line_of("description:"), text.to_owned()));
    }
    let body = document.body.trim().to_owned();
    Ok((Skill { name, description, path, place: place.to_owned() }, body))
}

/// The real path of a file, and its text in force.
fn load(file: &Path, texts: &Texts) -> Result<(PathBuf, String), String> {
    let path = paths::real(file).map_err(|error| error.to_string())?;
    match texts.in_force(file) {
        InForce::AsOnDisk => {}
        InForce::Older { text, .. } => return Ok((path, text.to_owned())),
        InForce::Nothing => return Err("it has no text in force".to_owned()),
    }
    let read = leftfold_files::read_real(&path, MAX_FILE);
    let bytes = read.map_err(|why| format!("it {why}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok((path, text))
}

/// Whether the name is valid by the Agent Skills format.
fn is_name(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let hyphens = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(letters) && !hyphens
}

/// The section of a system prompt that lists the skills. `None` if there are none.
pub fn section(skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let line = |skill: &Skill| {
        let description = text::clip(skill.description.clone(), MAX_DESCRIPTION);
        format!("- {}: {description}", skill.name)
    };
    let list: Vec<String> = skills.iter().map(line).collect();
    let intro = include_str!("../../../prompts/skills.md").trim();
    Some(format!("<skills>\n{intro}\n\n{}\n</skills>", list.join("\n")))
}

#[cfg(test)]
mod tests;
