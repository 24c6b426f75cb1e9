//! Folders of skills besides the usual ones.

use std::path::{Path, PathBuf};

use leftfold_tools::skills;

use super::survey::Project;
use super::view::View;
use super::{Error, Place, Settings};

pub(super) const KEYS: [&str; 2] = ["paths", "urls"];

/// What settings say of skills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Skills {
    folders: Vec<Folder>,
    /// Where it stands that there are some on the web.
    urls: Option<Place>,
}

/// A folder as settings name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    text: String,
    /// Relative ones start at the file they stand in, or, if there is none, in the working directory.
    path: PathBuf,
    place: Place,
    /// The user's own settings name it, and not those that came with a project.
    own: bool,
}

/// An object with `paths`, or these alone.
pub(super) fn read(view: &View<'_>) -> Result<Skills, Error> {
    let mut skills = Skills::default();
    if view.list().is_ok() {
        skills.folders = folders(view)?;
        return Ok(skills);
    }
    for (key, view) in view.known(&KEYS)? {
        match key {
            "paths" => skills.folders = folders(&view)?,
            _ => skills.urls = (!view.strings()?.is_empty()).then(|| view.at().clone()),
        }
    }
    Ok(skills)
}

fn folders(view: &View<'_>) -> Result<Vec<Folder>, Error> {
    let mut folders = Vec::new();
    for item in view.list()? {
        if let Some(text) = item.filled()? {
            let path = item.resolve(&text).components().collect();
            folders.push(Folder { text, path, place: item.at().clone(), own: false });
        }
    }
    Ok(folders)
}

impl Settings {
    /// Finds the folders, and tells of those that are not there.
    pub(super) fn find_skills(&mut self, directory: &Path, project: &Project) {
        for folder in &mut self.skills.folders {
            folder.own = !project.has(&folder.place.source);
            let here = directory.join(&folder.text);
            if !folder.path.is_dir() && here.is_dir() {
                folder.path = here;
            }
            if !folder.path.is_dir() {
                let (place, path) = (&folder.place, folder.path.display());
                self.warnings.push(format!("{place}: there is no folder {path} with skills"));
            }
        }
        if let Some(place) = &self.skills.urls {
            let what = "`skills.urls` has no effect: skills are read from folders (`skills.paths`)";
            self.warnings.push(format!("{place}: {what}"));
        }
    }

    pub fn skill_folders(&self) -> Vec<skills::Named> {
        let named = |folder: &Folder| skills::Named { path: folder.path.clone(), own: folder.own };
        self.skills.folders.iter().map(named).collect()
    }
}
