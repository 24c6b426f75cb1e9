//! Files that decide what later runs do, and the user's own data and keys: touching them needs the permission
//! `protected_file`, which only a rule of that name allows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::event::{Access, Resolution};
use leftfold_events::rules::PROTECTED_FILE;

use crate::hidden_entries::HiddenEntries;
use crate::user_places::{self, real};
use crate::{Error, UserFolders, Workspace, paths};

/// Settings, agents, commands, plugins and skills of a project, in its folder or a folder below it.
pub(crate) const SETTINGS: [&str; 11] = [
    ".agents/skills", ".claude/settings.json", ".claude/settings.local.json", ".claude/skills",
    ".leftfold", ".mcp.json", ".opencode", "leftfold.json", "leftfold.jsonc", "opencode.json",
    "opencode.jsonc",
];

/// The folders at a project's root whose Markdown files may be agents.
pub(crate) const ROOT_AGENTS: [&str; 2] = ["agent", "agents"];

/// Files and folders of a project, at any depth, that other programs run or obey by themselves: editors, other agents, and
/// programs that shells and git start. In lower case.
const OF_OTHERS: &[&str] = &[
    // editors
    ".devcontainer", ".devcontainer.json", ".dir-locals.el", ".exrc", ".fleet", ".gdbinit", ".idea",
    ".lldbinit", ".lvimrc", ".nvim.lua", ".nvimrc", ".theia", ".vscode", ".zed",
    // other agents
    ".aider.conf.yml", ".amazonq", ".amp", ".augment", ".claude", ".cline", ".clinerules", ".codex",
    ".continue", ".continuerules", ".copilot", ".crush.json", ".cursor", ".cursorrules",
    ".factory", ".gemini", ".goosehints", ".junie", ".kilocode", ".kiro", ".mcp.json",
    ".openhands", ".qwen", ".roo", ".roomodes", ".roorules", ".trae", ".windsurf",
    ".windsurfrules", "copilot-instructions.md", "crush.json", "gemini.md", "qwen.md",
    // programs that shells and git start
    ".autoenv.zsh", ".envrc", ".githooks", ".husky", ".lefthook.yaml", ".lefthook.yml", ".mise",
    ".mise.local.toml", ".mise.toml", ".overcommit.yml", ".pre-commit-config.yaml",
    "lefthook.yaml", "lefthook.yml", "mise.local.toml", "mise.toml",
];

/// Whether a file or folder of this name, in lower case, is one that other programs run or obey by themselves.
pub(crate) fn is_of_others(name: &str) -> bool {
    OF_OTHERS.contains(&name) || name.ends_with(".code-workspace")
}

/// Looks up the places that need the permission, so that the first call does not wait for that.
pub fn prepare_places(cx: &Workspace) {
    ProtectedPlaces::for_workspace(cx);
}

/// Adds the permission if the call changes a protected file, or reads or changes a secret place.
pub(crate) fn add_access(resolution: &mut Resolution, cx: &Workspace) {
    let edits = resolution.access.iter().filter(|access| access.permission == "edit");
    let edited: Vec<&String> = edits.flat_map(|access| &access.patterns).collect();
    if edited.is_empty() && resolution.paths.is_empty() {
        return;
    }
    let places = ProtectedPlaces::for_workspace(cx);
    let edited = edited.into_iter().filter(|path| is_protected(path) || places.has(path));
    let secret = resolution.paths.iter().filter(|path| places.is_secret(path));
    let mut patterns: Vec<String> = edited.chain(secret).cloned().collect();
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
/// file, a file that other programs run by themselves, or the hooks, settings and attributes of git, also where they are
/// (`commondir`), and the commands of a rebase in progress. The folder of plans is for plans.
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
        let names = ["commondir", "gitdir", "hooks", "rebase-apply", "rebase-merge"];
        let is_attributes = rest.ends_with(&["info", "attributes"]);
        let runs = rest.iter().any(|part| names.contains(part)) || name.starts_with("config");
        rest.is_empty() || runs || is_attributes
    });
    let of_agents = [".leftfold", ".opencode"]
        .iter()
        .filter_map(|folder| below(folder))
        .any(|rest| rest.first() != Some(&"plans"));
    let of_skills =
        below(".agents").is_some_and(|rest| rest.is_empty() || rest.first() == Some(&"skills"));
    let of_root = matches!(parts[..], [folder, file] if ROOT_AGENTS.contains(&folder) && file.ends_with(".md"));
    let of_root = of_root && !path.starts_with('/');
    of_root
        || settings.contains(name)
        || instructions.contains(name)
        || of_git
        || of_agents
        || of_skills
        || parts.iter().any(|part| is_of_others(part))
}

/// Refuses a call that nobody can be asked about, if it touches places of the user.
pub(crate) fn refuse_places(mut resolution: Resolution, cx: &Workspace) -> Result<(), Error> {
    add_access(&mut resolution, cx);
    let needed = resolution.access.iter().filter(|access| access.permission == PROTECTED_FILE);
    let mut paths = needed.flat_map(|access| &access.patterns).peekable();
    if paths.peek().is_none() {
        return Ok(());
    }
    let places = ProtectedPlaces::for_workspace(cx);
    match paths.find(|path| places.has(path)) {
        None => Ok(()),
        Some(path) => Err(Error::Refused(format!(
            "{path} holds keys, or later shells, logins, services and tools run it: it needs the permission \
             `{PROTECTED_FILE}`, which a single tool call cannot ask for."
        ))),
    }
}

/// The places that need the permission wherever the worktree is, as absolute paths without links.
#[derive(Debug)]
pub(crate) struct ProtectedPlaces {
    decided_by: Decisive,
    worktree: PathBuf,
    /// They hold keys, or are Leftfold's data folder with its logs, keys, approvals and trust.
    secret: BTreeSet<PathBuf>,
    /// They lie in secret places, and are there for the model.
    open: BTreeSet<PathBuf>,
    hidden: HiddenEntries,
    startup: OnceLock<BTreeSet<PathBuf>>,
}

/// The parts of a workspace that decide its protected places, besides the links on this machine.
#[derive(Debug, PartialEq)]
struct Decisive {
    worktree: PathBuf,
    user_folders: UserFolders,
    data: Option<PathBuf>,
    spill_dir: PathBuf,
    environment: Vec<String>,
    hide: Vec<String>,
    show: Vec<String>,
}

impl Decisive {
    fn of(cx: &Workspace) -> Self {
        let sandbox = cx.sandbox.as_ref();
        Self {
            worktree: cx.worktree.clone(),
            user_folders: cx.user_folders.clone(),
            data: cx.data.clone(),
            spill_dir: cx.spill_dir.clone(),
            environment: cx.environment.clone(),
            hide: sandbox.map(|sandbox| sandbox.hide.clone()).unwrap_or_default(),
            show: sandbox.map(|sandbox| sandbox.show.clone()).unwrap_or_default(),
        }
    }
}

/// How long places are kept. A link to a key that changes is noticed after this time.
const CACHE_LIFETIME: Duration = Duration::from_secs(60);

impl ProtectedPlaces {
    /// The places of a workspace. They are looked up at most once a minute: a call that reads must end while its batch
    /// waits for the disk.
    pub(crate) fn for_workspace(cx: &Workspace) -> Arc<Self> {
        static LAST: Mutex<Option<(Instant, Arc<ProtectedPlaces>)>> = Mutex::new(None);
        let decided_by = Decisive::of(cx);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, places))
                if places.decided_by == decided_by && at.elapsed() < CACHE_LIFETIME =>
            {
                Arc::clone(places)
            }
            _ => {
                let places = Arc::new(Self::new(decided_by));
                *last = Some((Instant::now(), Arc::clone(&places)));
                places
            }
        }
    }

    fn new(decided_by: Decisive) -> Self {
        let Decisive { worktree, user_folders, data, spill_dir, environment, hide, show } =
            &decided_by;
        let worktree = paths::real(worktree).unwrap_or_else(|_| worktree.clone());
        let secret =
            user_places::keys(user_folders).into_iter().chain(hide.iter().map(PathBuf::from));
        let secret: BTreeSet<PathBuf> = real(secret.chain(data.clone())).into_iter().collect();
        let for_models = data.iter().map(|data| data.join("plans")).chain([spill_dir.clone()]);
        let open =
            user_places::shown(user_folders).into_iter().chain(show.iter().map(PathBuf::from));
        let mut open: BTreeSet<PathBuf> = real(open.chain(for_models)).into_iter().collect();
        // a worktree in a secret folder is the user's choice, and is none around it, such as the home folder
        if !secret.contains(&worktree) {
            open.insert(worktree.clone());
        }
        let variables = leftfold_process::environment(environment);
        let shown = show.iter().map(PathBuf::from);
        let hidden = HiddenEntries::new(user_folders, shown, &variables);
        open.extend(hidden.needed.iter().filter(|path| !secret.contains(*path)).cloned());
        Self { decided_by, worktree, secret, open, hidden, startup: OnceLock::new() }
    }

    /// Later shells, logins, services and tools run what is in them. They are many, and calls that only read do not need
    /// them.
    fn startup(&self) -> &BTreeSet<PathBuf> {
        self.startup.get_or_init(|| {
            let mut startup = real(user_places::startup(&self.decided_by.user_folders));
            startup.retain(|place| !self.worktree.starts_with(place));
            startup.into_iter().collect()
        })
    }

    /// Whether a path as rules see it is secret. The nearest place decides.
    pub(crate) fn is_secret(&self, path: impl AsRef<Path>) -> bool {
        let path = self.worktree.join(path);
        let nearest = path.ancestors().find_map(|above| match self.open.contains(above) {
            true => Some(false),
            false => (self.secret.contains(above) || self.hidden.contains(above)).then_some(true),
        });
        nearest == Some(true)
    }

    /// Whether a path as rules see it is protected from changes: it lies in the project's settings or at such a place, or
    /// is one that later programs of the user run.
    pub(crate) fn is_protected(&self, path: &str) -> bool {
        is_protected(path) || self.is_startup(path)
    }

    fn is_startup(&self, path: &str) -> bool {
        let startup = self.startup();
        self.worktree.join(path).ancestors().any(|above| startup.contains(above))
    }

    /// Whether a path as rules see it is such a place, or a folder around one that later programs of the user run: who
    /// moves the folder replaces what is in it.
    fn has(&self, path: &str) -> bool {
        let folder = self.worktree.join(path);
        let next = self.startup().range(folder.clone()..).next();
        self.is_secret(path)
            || self.is_startup(path)
            || next.is_some_and(|place| place.starts_with(folder))
    }

    /// Whether a search of a folder around this path leaves it out.
    pub(crate) fn is_skipped(&self, path: &Path) -> bool {
        (self.secret.contains(path) || self.hidden.contains(path)) && !self.open.contains(path)
    }
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
            (".claude/settings.json", true),
            (".claude/hooks/x.sh", true),
            ("sub/.vscode/tasks.json", true),
            (".Cursor/mcp.json", true),
            (".husky/pre-commit", true),
            ("docs/GEMINI.md", true),
            ("x.code-workspace", true),
            (".envrc", true),
            ("vscode/tasks.json", false),
            (".envrc.example", false),
            (".git/info/attributes", true),
            (".git/modules/m/info/attributes", true),
            (".git/info/exclude", false),
            ("src/info/attributes", false),
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
            let found = ProtectedPlaces::for_workspace(&workspace(worktree, data)).is_secret(&path);
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

    /// Whether the call needs the permission.
    fn is_asked(tool: &str, input: &serde_json::Value, cx: &Workspace) -> bool {
        let input = leftfold_events::Json::from_value(input);
        let call = CallSpec { id: "c".to_owned(), name: tool.to_owned(), input };
        let resolved = crate::resolve(&call, cx);
        assert_eq!(resolved.error, None, "{tool}");
        resolved.access.iter().any(|access| access.permission == PROTECTED_FILE)
    }

    #[test]
    fn places_of_the_user_are_protected_wherever_the_worktree_is() {
        let site = Site::new();
        let home = site.path("u");
        for name in ["code/x", ".claude/skills/s", "dotfiles", ".config/nvim"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in [".npmrc", "code/x/.npmrc", "code/x/.vimrc", ".claude/skills/s/SKILL.md"] {
            std::fs::write(home.join(name), "_authToken=x").unwrap();
        }
        // a link from a start-up file to the user's dotfiles
        std::fs::write(home.join("dotfiles/bashrc"), "").unwrap();
        std::os::unix::fs::symlink("dotfiles/bashrc", home.join(".bashrc")).unwrap();
        let folders = crate::UserFolders {
            home: Some(home.clone()),
            config: Some(site.path("config")),
            ..crate::UserFolders::default()
        };
        let workspace = |worktree: &Path| Workspace {
            user_folders: folders.clone(),
            directory: worktree.to_owned(),
            worktree: worktree.to_owned(),
            ..site.workspace()
        };
        let of_user = |places: Vec<PathBuf>| {
            places.into_iter().filter(|place| place.starts_with(site.path("")))
        };
        let keys: Vec<PathBuf> = of_user(user_places::keys(&folders)).collect();
        let startup: Vec<PathBuf> = of_user(user_places::startup(&folders)).collect();
        assert!(keys.contains(&home.join(".npmrc")) && startup.contains(&site.path("config/fish")));
        for (turn, worktree) in
            [home.clone(), site.path(""), home.join("code/x")].iter().enumerate()
        {
            let cx = workspace(worktree);
            for (at, path) in keys.iter().chain(&startup).enumerate() {
                let at = at + turn;
                let text = path.display().to_string();
                let edits = json!([{ "oldString": "a", "newString": "b" }]);
                let patch = format!("*** Begin Patch\n*** Add File: {text}\n+x\n*** End Patch");
                let line = |line: &str| json!({ "command": line.replace("PLACE", &text) });
                let changes = [
                    ("write", json!({ "filePath": text, "content": "" })),
                    ("write", json!({ "filePath": format!("{text}/below"), "content": "" })),
                    ("edit", json!({ "filePath": text, "oldString": "a", "newString": "b" })),
                    ("multiedit", json!({ "filePath": text, "edits": edits })),
                    ("apply_patch", json!({ "patchText": patch })),
                    ("bash", line("echo x >> 'PLACE'")),
                    ("bash", line("rm -r 'PLACE'")),
                    ("bash", line("mv a.txt 'PLACE'")),
                ];
                let reads = [
                    ("read", json!({ "filePath": text })),
                    ("grep", json!({ "pattern": "x", "path": text })),
                    ("glob", json!({ "pattern": "*", "path": text })),
                    ("bash", line("cat 'PLACE'")),
                    ("bash", line("cd 'PLACE' && cat x")),
                ];
                // one change and one reader of each place: all of them take turns
                let (change, input) = &changes[at % changes.len()];
                let what = format!("{change} {input} in {}", worktree.display());
                assert!(is_asked(change, input, &cx), "{what}");
                let (read, input) = &reads[at % reads.len()];
                let what = format!("{read} {input} in {}", worktree.display());
                // most start-up files are hidden entries as well
                assert!(is_asked(read, input, &cx) || !keys.contains(path), "{what}");
            }
        }
        let (outer, project) = (workspace(&home), workspace(&home.join("code/x")));
        let (dotfiles, nvim) =
            (workspace(&home.join("dotfiles")), workspace(&home.join(".config/nvim")));
        for (tool, input, cx, expected) in [
            // the places are absolute: a project has files of the same names
            ("write", json!({ "filePath": ".npmrc", "content": "" }), &project, false),
            ("write", json!({ "filePath": ".vimrc", "content": "" }), &project, false),
            ("write", json!({ "filePath": ".npmrc", "content": "" }), &outer, true),
            ("write", json!({ "filePath": "notes.txt", "content": "" }), &outer, false),
            ("bash", json!({ "command": "echo x > bin.txt; cat .npmrc" }), &project, false),
            ("bash", json!({ "command": "PATH=~/bin:$PATH make; ls ." }), &project, false),
            ("grep", json!({ "pattern": "x" }), &outer, false),
            (
                "edit",
                json!({ "filePath": "bashrc", "oldString": "a", "newString": "b" }),
                &dotfiles,
                true,
            ),
            (
                "edit",
                json!({ "filePath": "init.lua", "oldString": "a", "newString": "b" }),
                &nvim,
                false,
            ),
            ("bash", json!({ "command": "rm -r .config" }), &outer, true),
            ("bash", json!({ "command": "rm -r code" }), &outer, false),
            ("read", json!({ "filePath": ".claude/skills/s/SKILL.md" }), &outer, false),
            ("read", json!({ "filePath": ".bashrc" }), &outer, false),
            ("read", json!({ "filePath": ".cargo/registry/x" }), &outer, false),
            ("read", json!({ "filePath": ".unknown/token" }), &outer, true),
            ("grep", json!({ "pattern": "x", "path": ".unknown" }), &outer, true),
            ("write", json!({ "filePath": ".unknown/token", "content": "" }), &outer, true),
            ("read", json!({ "filePath": home.join(".unknown/token") }), &project, true),
            ("read", json!({ "filePath": home.join(".config/unknown") }), &nvim, true),
            ("read", json!({ "filePath": ".unknown/token" }), &project, false),
            ("read", json!({ "filePath": "init.lua" }), &nvim, false),
        ] {
            assert_eq!(is_asked(tool, &input, cx), expected, "{tool} {input}");
        }
    }
}
