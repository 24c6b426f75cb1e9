//! Files that decide what later runs do, and the user's own data: touching them needs the permission
//! `protected_file`, which only a rule of that name allows.

use std::path::Path;

use leftfold_events::event::{Access, Resolution};
use leftfold_events::rules::PROTECTED_FILE;

use crate::Workspace;

/// Settings, agents, commands, plugins and skills of a project, in its folder or a folder below it.
pub(crate) const SETTINGS: [&str; 8] = [
    ".agents/skills",
    ".claude/skills",
    ".leftfold",
    ".opencode",
    "leftfold.json",
    "leftfold.jsonc",
    "opencode.json",
    "opencode.jsonc",
];

/// The folders at a project's root whose Markdown files may be agents.
pub(crate) const ROOT_AGENTS: [&str; 2] = ["agent", "agents"];

/// Adds the permission if the call changes a protected file, or reads or changes Leftfold's data folder.
pub(crate) fn add_access(resolution: &mut Resolution, cx: &Workspace) {
    let edits = resolution.access.iter().filter(|access| access.permission == "edit");
    let edited = edits.flat_map(|access| &access.patterns).filter(|path| is_protected(path));
    let data = resolution.paths.iter().filter(|path| is_data(Path::new(path), cx));
    let mut patterns: Vec<String> = edited.chain(data).cloned().collect();
    // a command line may have found more
    resolution.access.retain(|access| match access.permission == PROTECTED_FILE {
        true => {
            patterns.extend(access.patterns.iter().cloned());
            false
        }
        false => true,
    });
    patterns.sort();
    patterns.dedup();
    if !patterns.is_empty() {
        let permission = PROTECTED_FILE.to_owned();
        resolution.access.push(Access { permission, patterns, always: Vec::new() });
    }
}

/// Whether a path as rules see it names settings, agents, commands, skills or plugins of a project, an instruction
/// file, or the hooks and settings of git, also where they are (`commondir`), and the commands of a rebase in progress.
/// The folder of plans is for plans.
pub fn is_protected(path: &str) -> bool {
    // some file systems do not tell them apart
    let path = path.to_ascii_lowercase();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let Some(name) = parts.last() else { return false };
    let below = |folder: &str| {
        let at = parts.iter().position(|part| *part == folder)?;
        Some(&parts[at + 1..])
    };
    let settings = ["leftfold.json", "leftfold.jsonc", "opencode.json", "opencode.jsonc"];
    let instructions = ["agents.md", "claude.md"];
    let of_git = below(".git").is_some_and(|rest| {
        let runs = ["commondir", "gitdir", "hooks", "rebase-merge"];
        rest.is_empty() || rest.iter().any(|part| runs.contains(part)) || name.starts_with("config")
    });
    let of_agents = [".leftfold", ".opencode"]
        .iter()
        .filter_map(|folder| below(folder))
        .any(|rest| rest.first() != Some(&"plans"));
    let of_skills = [".claude", ".agents"]
        .iter()
        .filter_map(|folder| below(folder))
        .any(|rest| rest.is_empty() || rest.first() == Some(&"skills"));
    let of_root = matches!(parts[..], [folder, file] if ROOT_AGENTS.contains(&folder) && file.ends_with(".md"));
    let of_root = of_root && !path.starts_with('/');
    of_root
        || settings.contains(name)
        || instructions.contains(name)
        || of_git
        || of_agents
        || of_skills
}

/// Whether an absolute path lies in the data folder, with its logs, keys, approvals and trust. Plans, and the full
/// texts of outputs that were cut, are there for the model.
pub(crate) fn is_data(path: &Path, cx: &Workspace) -> bool {
    let real = |folder: &Path| crate::paths::real(folder).unwrap_or_else(|_| folder.to_owned());
    let Some(data) = cx.data.as_deref().map(real) else { return false };
    // a worktree around the data folder, such as the home folder, makes nothing in it the project's
    let worktree = Some(real(&cx.worktree)).filter(|it| it.starts_with(&data) && *it != data);
    let for_models = [real(&data.join("plans")), real(&cx.spill_dir)].into_iter().chain(worktree);
    path.starts_with(&data) && !for_models.into_iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::CallSpec;
    use serde_json::json;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn settings_instructions_and_git_are_protected() {
        for (path, protected) in [
            ("leftfold.json", true),
            ("sub/opencode.jsonc", true),
            (".leftfold/agents/a.md", true),
            ("sub/.opencode/command/c.md", true),
            (".leftfold", true),
            (".leftfold/plans/a.md", false),
            (".claude/skills/s/SKILL.md", true),
            (".agents/skills", true),
            (".claude/notes.md", false),
            ("AGENTS.md", true),
            ("docs/CLAUDE.md", true),
            (".git", true),
            (".git/config", true),
            (".git/config.worktree", true),
            (".git/hooks/pre-commit", true),
            (".git/modules/m/hooks/post-checkout", true),
            ("linked/.git/config", true),
            ("/etc/x/.git/hooks/a", true),
            (".git/commondir", true),
            (".git/worktrees/w/gitdir", true),
            (".git/rebase-merge/git-rebase-todo", true),
            (".git/COMMIT_EDITMSG", false),
            ("src/config", false),
            ("src/hooks/a.rs", false),
            ("agents.md", true),
            ("agents/review.md", true),
            ("agent/review.md", true),
            ("agents/review.py", false),
            ("agents/team/review.md", false),
            ("src/agents/review.md", false),
            ("/agents/review.md", false),
            (".GIT/Hooks/pre-commit", true),
            ("leftfold.json.bak", false),
            ("", false),
        ] {
            assert_eq!(is_protected(path), protected, "{path}");
        }
    }

    #[test]
    fn the_data_folder_is_protected_inside_a_worktree_and_a_worktree_inside_it_is_not() {
        let site = Site::new();
        for name in ["share/leftfold/auth.json", "share/leftfold/plans/p.md"] {
            site.file(name, "");
        }
        let root = crate::paths::real(&site.path("")).unwrap();
        let data = root.join("share/leftfold");
        let workspace = |worktree: &Path, data: &Path| Workspace {
            data: Some(data.to_owned()),
            worktree: worktree.to_owned(),
            ..site.workspace()
        };
        for (worktree, data, path, expected) in [
            (&root, &data, data.join("auth.json"), true),
            (&root, &data, data.join("plans/p.md"), false),
            (&root, &data, root.join("a.rs"), false),
            (&data, &data, data.join("auth.json"), true),
            (&data, &root, data.join("auth.json"), false),
            (&data, &root, root.join("a.rs"), true),
        ] {
            let found = is_data(&path, &workspace(worktree, data));
            assert_eq!(found, expected, "{} in {}", path.display(), worktree.display());
        }
    }

    #[test]
    fn every_tool_that_changes_files_needs_the_permission() {
        let site = Site::new();
        let mut workspace = site.workspace();
        workspace.data = Some(site.outside("data"));
        let inside = site.outside("data/auth.json").to_string_lossy().into_owned();
        let patch = "*** Begin Patch\n*** Add File: AGENTS.md\n+x\n*** End Patch";
        for (tool, input, needed) in [
            ("write", json!({ "filePath": "leftfold.json", "content": "{}" }), true),
            ("write", json!({ "filePath": "a.json", "content": "{}" }), false),
            ("write", json!({ "filePath": "agents/a.md", "content": "A." }), true),
            ("bash", json!({ "command": "echo A. > agents/a.md" }), true),
            ("edit", json!({ "filePath": "AGENTS.md", "oldString": "a", "newString": "b" }), true),
            ("apply_patch", json!({ "patchText": patch }), true),
            ("bash", json!({ "command": "echo x > .git/hooks/pre-commit" }), true),
            ("bash", json!({ "command": "cat AGENTS.md" }), false),
            ("read", json!({ "filePath": "AGENTS.md" }), false),
            ("read", json!({ "filePath": inside }), true),
            ("bash", json!({ "command": format!("cat {inside}") }), true),
        ] {
            let call = CallSpec {
                id: "c".to_owned(),
                name: tool.to_owned(),
                input: leftfold_events::Json::from_value(&input),
            };
            let resolved = crate::resolve(&call, &workspace);
            let found = resolved.access.iter().find(|access| access.permission == PROTECTED_FILE);
            assert_eq!(found.is_some(), needed, "{tool} {input}: {resolved:?}");
        }
    }
}
