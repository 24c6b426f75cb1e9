//! Collects the instructions for the system prompt: the user's own, the project's from its root
//! down to the directory, and those that settings name.

use std::ops::Range;
use std::path::{Path, PathBuf};

use leftfold_events::rules::{self, Action};
use leftfold_events::turn_config::PromptPiece;
use leftfold_files::texts::Texts;
use leftfold_tools::UserFolders;
use leftfold_tools::instructions::{self, Bounds, Instructions, Problem};

use super::{TurnSettings, sources};

/// The limit for all instructions together, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The sources of a prompt, besides the project's directory.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The folders of the user's own instructions and skills.
    pub user_folders: UserFolders,
    /// Entries of settings, in order.
    pub instructions: Vec<Named>,
    /// Whether pages at addresses that are not public may be read.
    pub private_addresses: bool,
}

/// An entry of `instructions` in settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The folder of the settings file.
    pub base: PathBuf,
    /// A path, a pattern of paths, or a URL. Relative ones are searched in `base` and in each
    /// folder from the project's root down to the directory.
    pub text: String,
    /// Whether only files of the project count.
    pub confined: bool,
}

/// In the order in which they go into the prompt.
#[derive(Debug, Default)]
pub(super) struct FoundInstructions {
    pub(super) sections: Vec<Section>,
    /// The files, with links resolved.
    pub(super) paths: Vec<String>,
    pub(super) problems: Vec<String>,
    /// The project's texts that calls have changed and nobody has accepted.
    pub(super) held: Vec<String>,
    texts: Texts,
    bytes: usize,
}

/// A text with its heading, as it goes into the prompt.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) text: String,
    /// The bytes without the heading and other words of Leftfold.
    pub(super) place: Range<usize>,
    pub(super) origin: PromptPiece,
}

impl Section {
    fn of(loaded: &Instructions) -> Self {
        let (text, Instructions { source, line, .. }) = (loaded.section(), loaded);
        let start = text.find(source).map_or(0, |at| at + source.len() + 1);
        let place = start..start + loaded.text.len();
        let kind = if loaded.path.is_some() { "instructions" } else { "page" };
        let path = Some(source.clone());
        let lines = loaded.path.as_ref().map(|_| sources::lines(*line, &loaded.text));
        Self { text, place, origin: PromptPiece { path, lines, ..PromptPiece::new(kind) } }
    }
}

pub(super) fn find(turn_settings: &TurnSettings) -> FoundInstructions {
    let texts = turn_settings.sources.user_folders.texts(&turn_settings.worktree);
    let mut found =
        FoundInstructions { held: texts.held_paths(), texts, ..FoundInstructions::default() };
    if let Some(own) = global(&turn_settings.sources.user_folders) {
        found.file(&own, None);
    }
    let folders = match turn_settings.workplace {
        // they are not on this machine
        Some(_) => Vec::new(),
        None => folders(turn_settings),
    };
    let worktree =
        turn_settings.worktree.canonicalize().unwrap_or_else(|_| turn_settings.worktree.to_owned());
    let mut all = rules::defaults();
    all.extend(turn_settings.agent.rules.iter().cloned());
    all.extend(turn_settings.rules.iter().cloned());
    let is_readable = |path: &str| {
        let restrictions = turn_settings.options.restricting();
        rules::evaluate_restricted(&all, restrictions, "read", path).0 == Action::Allow
    };
    let bounds = Bounds { worktree: &worktree, is_readable: &is_readable };
    let files = folders.iter().filter_map(|folder| instructions::in_folder(folder, &found.texts));
    for file in files.collect::<Vec<_>>() {
        found.file(&file, Some(bounds));
    }
    if let Some(workplace) = &turn_settings.workplace {
        for file in workplace.instructions(&is_readable) {
            found.add(Ok(Some(file)));
        }
        found.problems.extend(workplace.problems());
    }
    let (pages, files): (Vec<&Named>, Vec<&Named>) =
        turn_settings.sources.instructions.iter().partition(|named| named.is_page());
    for named in files {
        found.named(named, &folders, bounds, &turn_settings.sources.user_folders);
    }
    let pages: Vec<String> = pages.into_iter().map(|named| named.text.clone()).collect();
    for page in instructions::fetch(&pages, turn_settings.sources.private_addresses) {
        found.add(page);
    }
    found
}

/// The user's own instruction file: the first that exists.
fn global(user_folders: &UserFolders) -> Option<PathBuf> {
    let in_config = ["leftfold/AGENTS.md", "opencode/AGENTS.md"];
    let config =
        user_folders.config.iter().flat_map(|config| in_config.map(|name| config.join(name)));
    let home = user_folders.home.iter().map(|home| home.join(".claude/CLAUDE.md"));
    config.chain(home).find(|path| path.symlink_metadata().is_ok())
}

/// The folders from the project's root down to the directory; only the directory if it is outside
/// the project.
fn folders(turn_settings: &TurnSettings) -> Vec<PathBuf> {
    let inside = turn_settings.directory.starts_with(&turn_settings.worktree);
    let up = turn_settings.directory.ancestors().take(if inside { usize::MAX } else { 1 });
    let up = up.take_while(|folder| !inside || folder.starts_with(&turn_settings.worktree));
    let mut folders: Vec<PathBuf> = up.map(Path::to_owned).collect();
    folders.reverse();
    folders
}

impl Named {
    /// Whether it is a URL.
    pub fn is_page(&self) -> bool {
        ["http://", "https://"].iter().any(|scheme| self.text.starts_with(scheme))
    }

    fn at_home(&self, user_folders: &UserFolders) -> String {
        match (self.text.strip_prefix("~/"), &user_folders.home) {
            (Some(rest), Some(home)) => home.join(rest).display().to_string(),
            (Some(_) | None, _) => self.text.clone(),
        }
    }

    /// The files that match `text`.
    fn files(
        &self,
        text: &str,
        folders: &[PathBuf],
        worktree: &Path,
    ) -> Result<Vec<PathBuf>, String> {
        let places: Vec<&PathBuf> = if Path::new(text).is_absolute() {
            vec![&self.base]
        } else {
            folders.iter().filter(|folder| **folder != self.base).chain([&self.base]).collect()
        };
        let mut files = Vec::new();
        for place in places {
            if self.confined && leftfold_config::is_outside(&place.join(text), worktree) {
                continue;
            }
            let matching = instructions::matching(place, text);
            files.extend(
                matching
                    .map_err(|problem| format!("`instructions`, {:?}: {problem}", self.text))?,
            );
        }
        Ok(files)
    }
}

/// The files on disk that are texts because of where the turn works or because settings name them.
pub(crate) fn named(turn_settings: &TurnSettings) -> Vec<PathBuf> {
    if turn_settings.workplace.is_some() {
        return Vec::new();
    }
    let Sources { user_folders, instructions: entries, .. } = &turn_settings.sources;
    let (directory, worktree) = (&turn_settings.directory, &turn_settings.worktree);
    let real = worktree.canonicalize().unwrap_or_else(|_| worktree.clone());
    let folders = folders(turn_settings);
    let mut named: Vec<PathBuf> =
        folders.iter().flat_map(|folder| instructions::in_folder_on_disk(folder)).collect();
    for entry in entries.iter().filter(|entry| !entry.is_page()) {
        let files = entry.files(&entry.at_home(user_folders), &folders, &real);
        named.extend(files.unwrap_or_default());
    }
    if !user_folders.skills.is_empty() {
        let on_disk = UserFolders { data: None, ..user_folders.clone() };
        let skills = leftfold_tools::skills::find(directory, worktree, &on_disk).skills;
        named.extend(skills.into_iter().map(|skill| skill.path));
    }
    named
}

impl FoundInstructions {
    fn named(
        &mut self,
        named: &Named,
        folders: &[PathBuf],
        bounds: Bounds<'_>,
        user_folders: &UserFolders,
    ) {
        let worktree = bounds.worktree;
        let text = named.at_home(user_folders);
        let is_fixed = Path::new(&text).is_absolute();
        let files = match named.files(&text, folders, worktree) {
            Ok(files) => files,
            Err(problem) => return self.problems.push(problem),
        };
        // The user's own settings may name files that only some projects have.
        if files.is_empty() && (is_fixed || named.base.starts_with(worktree)) {
            self.problems.push(format!("`instructions`: there is no file {:?}", named.text));
        }
        let bounds = named.confined.then_some(bounds);
        let before = self.sections.len();
        files.iter().for_each(|file| self.file(file, bounds));
        for section in &mut self.sections[before..] {
            section.origin.name = Some(named.text.clone());
        }
    }

    fn file(&mut self, file: &Path, bounds: Option<Bounds<'_>>) {
        self.add(instructions::load(file, bounds, &self.texts));
    }

    fn add(&mut self, loaded: Result<Option<Instructions>, Problem>) {
        let loaded = match loaded {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return,
            Err(problem) => return self.problems.push(problem.to_string()),
        };
        let path = loaded.path.as_ref().map(|path| path.to_string_lossy().into_owned());
        if path.as_ref().is_some_and(|path| self.paths.contains(path)) {
            return;
        }
        let Instructions { source, cut, .. } = &loaded;
        if self.bytes + loaded.text.len() > MAX_BYTES {
            let text = "it is left out, because all instructions together would exceed";
            return self.problems.push(format!("{source}: {text} {MAX_BYTES} bytes"));
        }
        if *cut {
            let max = instructions::MAX_BYTES;
            self.problems.push(format!("{source}: only its first {max} bytes are in the prompt"));
        }
        self.bytes += loaded.text.len();
        self.paths.extend(path);
        self.sections.push(Section::of(&loaded));
    }
}

#[cfg(test)]
mod tests;
