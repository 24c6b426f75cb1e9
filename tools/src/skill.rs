//! `skill`: loads the instructions of a skill by its name.

use std::path::{Path, PathBuf};

use leftfold_events::event::{Access, CallKind, Class};
use leftfold_files::texts::Texts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::skills::{self, FoundSkills};
use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace, nearby, paths, text};

/// Most files of a skill's folder that are listed.
const MAX_FILES: usize = 10;

/// Most entries of the folder that are examined for the list.
const LOOK_AT: usize = 1_000;

/// Most problems reported when a skill is missing: one of them may be the reason.
const MAX_PROBLEMS: usize = 5;

#[derive(Debug)]
pub(crate) struct Skill;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The name of the skill.
    name: String,
}

impl Typed for Skill {
    type Args = Args;
    const NAME: &'static str = "skill";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/skill.md");
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let skill = find(args.name.trim(), cx)?;
        let mut target = paths::resolve(&skill.path.to_string_lossy(), cx)?;
        // a skill that a link leads out of its place counts as outside
        target.inside |= skill.path.starts_with(&skill.place) && is_in_known_place(&skill, cx);
        // the instructions hold for the whole session
        let plan = Plan { kind: CallKind::Lasting, ..Plan::new(Class::Read) };
        let mut plan = target.confined(plan);
        plan.access.push(Access {
            permission: Self::NAME.to_owned(),
            patterns: vec![skill.name.clone()],
            always: vec![skill.name],
        });
        Ok(plan)
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let cancel = cx.cancel.clone();
        let path = paths::only(paths)?;
        let texts = cx.workspace.user_folders.texts(&cx.workspace.worktree);
        let loading = tokio::task::spawn_blocking(move || load(args.name.trim(), &path, &texts));
        tokio::select! {
            () = cancel.cancelled() => Err(Error::Cancelled),
            loaded = loading => {
                loaded.map_err(|error| Error::Io(format!("Loading failed: {error}.")))?
            }
        }
    }
}

/// Whether the skill's place belongs to the project or the user.
fn is_in_known_place(skill: &skills::Skill, cx: &Workspace) -> bool {
    skills::is_own(&skill.place, &cx.user_folders)
        || paths::real(&cx.worktree).is_ok_and(|worktree| skill.place.starts_with(worktree))
}

fn find(name: &str, cx: &Workspace) -> Result<skills::Skill, Error> {
    let found = skills::find(&cx.directory, &cx.worktree, &cx.user_folders);
    let at = found.skills.iter().position(|skill| skill.name == name);
    match at.and_then(|at| found.skills.get(at)) {
        Some(skill) => Ok(skill.clone()),
        None => Err(Error::NotFound(missing(name, &found))),
    }
}

/// The error for a missing skill, with the skills that exist.
fn missing(name: &str, found: &FoundSkills) -> String {
    let mut text = format!("There is no skill {:?}.", text::clip(name.to_owned(), 200));
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    if let Some(nearest) = nearby::nearest(name, &names) {
        text = format!("{text} Did you mean {nearest:?}?");
    }
    text = match names.as_slice() {
        [] => format!("{text} None is installed."),
        names => format!("{text} The skills are: {}.", names.join(", ")),
    };
    for problem in found.problems.iter().take(MAX_PROBLEMS) {
        text = format!("{text}\nNot usable as a skill: {problem}.");
    }
    text
}

fn load(name: &str, path: &Path, texts: &Texts) -> Result<Output, Error> {
    let folder = path.parent().unwrap_or(path);
    let (skill, body) =
        skills::read(path, folder, texts).map_err(|problem| Error::Io(format!("{problem}.")))?;
    let (files, more) = listed(folder);
    let mut text =
        format!("Skill: {name}\nIts folder, where relative paths start: {}\n", folder.display());
    for file in &files {
        text = format!("{text}- {file}\n");
    }
    if more {
        text.push_str("(There are more files.)\n");
    }
    let meta = json!({ "name": name, "directory": folder, "files": files });
    Ok(Output::new(skill.name, format!("{text}\n{body}"), &meta))
}

/// Files in the folder beside `SKILL.md`, by depth and then by name, and whether there are more.
/// Links to folders are not followed.
fn listed(folder: &Path) -> (Vec<String>, bool) {
    let mut files = Vec::new();
    let mut level = vec![folder.to_owned()];
    let mut left = LOOK_AT;
    while !level.is_empty() && left > 0 && files.len() <= MAX_FILES {
        let mut below = Vec::new();
        for folder in level {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let entries = entries.filter_map(Result::ok).take(left);
            let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            left -= entries.len();
            entries.sort_unstable();
            let is_folder =
                |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let (folders, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_folder);
            files.extend(others);
            below.extend(folders.into_iter().filter(|folder| !folder.ends_with(".git")));
        }
        level = below;
    }
    let names = files.iter().filter_map(|file| file.strip_prefix(folder).ok()?.to_str());
    let mut names: Vec<String> =
        names.filter(|name| *name != "SKILL.md").map(str::to_owned).collect();
    let more = names.len() > MAX_FILES;
    names.truncate(MAX_FILES);
    (names, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Site, kind};

    fn skill(site: &Site, folder: &str) {
        site.file(&format!("{folder}/SKILL.md"), "---\ndescription: d\n---\n\nDo it.\n");
    }

    #[tokio::test]
    async fn instructions_folder_and_files() {
        let site = Site::new();
        skill(&site, ".leftfold/skills/tidy");
        site.file(".leftfold/skills/tidy/scripts/run.sh", "");
        site.file(".leftfold/skills/tidy/notes.md", "");
        let output = site.run("skill", &json!({ "name": "tidy" })).await;
        let folder = site.path(".leftfold/skills/tidy");
        let text = format!(
            "Skill: tidy\nIts folder, where relative paths start: {}\n- notes.md\n- scripts/run.sh\n\nDo it.",
            folder.display()
        );
        assert_eq!((&output.title, &output.output), (&"tidy".to_owned(), &text));
        assert_eq!(output.meta()["files"], json!(["notes.md", "scripts/run.sh"]));
        for n in 0..10 {
            site.file(&format!(".leftfold/skills/tidy/{n}"), "");
        }
        let output = site.run("skill", &json!({ "name": "tidy" })).await;
        assert_eq!(output.output.matches("\n- ").count(), MAX_FILES);
        assert!(output.output.contains("- 9\n(There are more files.)\n\nDo it."));
    }

    #[tokio::test]
    async fn a_missing_skill_names_what_there_is() {
        let site = Site::new();
        let run = async |name: &str| site.run("skill", &json!({ "name": name })).await;
        assert!(run("tidy").await.output.ends_with("\"tidy\". None is installed."));
        skill(&site, ".claude/skills/tidy-up");
        skill(&site, ".claude/skills/release");
        let output = run("tidyup").await.output;
        assert!(output.ends_with("Did you mean \"tidy-up\"? The skills are: release, tidy-up."));
        site.file(".claude/skills/broken/SKILL.md", "---\n");
        let output = run("broken").await.output;
        assert!(output.contains("broken/SKILL.md:1: the line `---`"), "{output}");
        for name in ["", "../release", "release/SKILL.md", "RELEASE"] {
            assert!(site.resolve("skill", &json!({ "name": name })).error.is_some(), "{name}");
        }
    }

    #[tokio::test]
    async fn permissions() {
        let site = Site::new();
        skill(&site, ".leftfold/skills/near");
        skill(&site, "../outside/home/.claude/skills/own");
        skill(&site, "../outside/elsewhere");
        let link = site.path(".leftfold/skills/away");
        std::os::unix::fs::symlink(site.outside("elsewhere"), link).unwrap();
        for (name, access) in [
            ("near", vec![("skill", "near".to_owned())]),
            ("own", vec![("skill", "own".to_owned())]),
        ] {
            let resolved = site.resolve("skill", &json!({ "name": name }));
            assert_eq!((&resolved.error, resolved.class), (&None, Class::Read));
            let asked: Vec<(&str, String)> = resolved
                .access
                .iter()
                .map(|access| (access.permission.as_str(), access.patterns.join(" ")))
                .collect();
            assert_eq!(asked, access);
        }
        let error = site.resolve("skill", &json!({ "name": "away" })).error.unwrap();
        assert!(error.contains("leads out of the project"), "{error}");
        // the files beside the user's own skill may be read too, and nothing around it
        site.file("../outside/home/.claude/skills/own/more.md", "more");
        site.file("../outside/home/.claude/settings.json", "{}");
        for (file, permissions) in [("skills/own/more.md", 1), ("settings.json", 3)] {
            let path = site.outside("home/.claude").join(file);
            let resolved = site.resolve("read", &json!({ "filePath": path }));
            assert_eq!(resolved.access.len(), permissions, "{file}");
        }
    }

    #[tokio::test]
    async fn a_skill_that_moved_since_it_was_judged_is_refused() {
        let site = Site::new();
        skill(&site, ".claude/skills/a");
        let resolved = site.resolve("skill", &json!({ "name": "a" }));
        skill(&site, ".leftfold/skills/a");
        let output = crate::run(&resolved, site.context()).await;
        assert_eq!(kind(&output), "paths_changed");
    }
}
