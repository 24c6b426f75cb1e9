//! Tests of the files found, their order, and the problems reported for others.

use std::fs;
use std::os::unix::fs::symlink;

use leftfold_events::turn_config::{ModelSpec, Options};
use tempfile::TempDir;

use super::*;

struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn files(&self, names: &[&str]) {
        for name in names {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("text of {name}")).unwrap();
        }
    }

    /// Searches in `work/a/b`, where `work` is the project.
    fn find(&self, named: &[(&str, &str)]) -> FoundInstructions {
        self.find_for(named, false)
    }

    fn find_for(&self, named: &[(&str, &str)], confined: bool) -> FoundInstructions {
        let (directory, worktree) = (self.path("work/a/b"), self.path("work"));
        fs::create_dir_all(&directory).unwrap();
        let named = named.iter();
        let named = named.map(|(base, text)| Named {
            base: self.path(base),
            text: (*text).to_owned(),
            confined,
        });
        let sources = Sources {
            user_folders: UserFolders {
                home: Some(self.path("home")),
                config: Some(self.path("config")),
                ..UserFolders::default()
            },
            instructions: named.collect(),
            private_addresses: false,
        };
        find(&TurnSettings {
            agent: crate::gather::Agent::build(),
            subagents: Vec::new(),
            directory,
            worktree,
            model: ModelSpec::default(),
            rules: Vec::new(),
            rule_sources: Vec::new(),
            agent_place: None,
            options: Options::default(),
            sources,
            plan: None,
            reminds: true,
            workplace: None,
            missing_tools: Vec::new(),
            shell: None,
        })
    }

    /// The files found, relative to the site.
    fn found(&self, named: &[(&str, &str)]) -> Vec<String> {
        let FoundInstructions { paths, sections, .. } = self.find(named);
        let root = format!("{}/", self.path("").display().to_string().trim_end_matches('/'));
        for (path, Section { text, .. }) in paths.iter().zip(&sections) {
            let name = path.replace(&root, "");
            assert_eq!(*text, format!("Instructions from: {path}\ntext of {name}"));
        }
        paths.iter().map(|path| path.replace(&root, "")).collect()
    }
}

#[test]
fn the_users_own_first_then_from_the_root_down_then_the_settings() {
    let site = Site::new();
    assert_eq!(site.found(&[]), [""; 0]);
    site.files(&["home/.claude/CLAUDE.md", "AGENTS.md", "work/CLAUDE.md", "work/a/b/AGENTS.md"]);
    site.files(&["work/a/b/CLAUDE.md", "work/a/b/c/AGENTS.md", "work/docs/x.md", "notes.md"]);
    let project = ["work/CLAUDE.md", "work/a/b/AGENTS.md"];
    assert_eq!(site.found(&[]), ["home/.claude/CLAUDE.md", project[0], project[1]]);
    site.files(&["config/opencode/AGENTS.md"]);
    assert_eq!(site.found(&[])[0], "config/opencode/AGENTS.md");
    site.files(&["config/leftfold/AGENTS.md"]);
    let own = "config/leftfold/AGENTS.md";
    assert_eq!(site.found(&[]), [own, project[0], project[1]]);
    let notes = site.path("notes.md").display().to_string();
    for (base, text, more) in [
        ("work", "docs/*.md", &["work/docs/x.md"][..]),
        // The user's own settings also apply to the current project.
        ("config/leftfold", "docs/x.md", &["work/docs/x.md"]),
        ("work", notes.as_str(), &["notes.md"]),
        ("work", "~/.claude/*.md", &["home/.claude/CLAUDE.md"]),
        ("work", "CLAUDE.md", &["work/a/b/CLAUDE.md"]),
    ] {
        let mut expected = vec![own, project[0], project[1]];
        expected.extend(more);
        assert_eq!(site.found(&[(base, text), (base, text)]), expected, "{base} {text}");
    }
}

#[test]
fn what_is_left_out_is_told() {
    let site = Site::new();
    site.files(&["work/AGENTS.md", "outside.md"]);
    fs::write(site.path("work/AGENTS.md"), b"\xff\xfe").unwrap();
    fs::create_dir_all(site.path("work/a")).unwrap();
    std::os::unix::fs::symlink("../../outside.md", site.path("work/a/AGENTS.md")).unwrap();
    fs::create_dir_all(site.path("work/long")).unwrap();
    for n in 0..5 {
        let path = site.path(&format!("work/long/{n}.md"));
        fs::write(path, "x".repeat(instructions::MAX_BYTES + 1)).unwrap();
    }
    let named = [("work", "gone.md"), ("work", "a/[b"), ("config", "gone.md"), ("work", "long/*")];
    let found = site.find(&named);
    assert_eq!((found.sections.len(), found.paths.len()), (4, 4), "{found:?}");
    let file = |name: &str| site.path(name).display().to_string();
    let expected = [
        (file("work/AGENTS.md"), "not UTF-8"),
        (file("work/a/AGENTS.md"), "outside of"),
        ("`instructions`".to_owned(), "\"gone.md\""),
        ("`instructions`".to_owned(), "a/[b"),
        (file("work/long/0.md"), "only its first 65536 bytes"),
        (file("work/long/1.md"), "only its first"),
        (file("work/long/2.md"), "only its first"),
        (file("work/long/3.md"), "only its first"),
        (file("work/long/4.md"), "left out"),
    ];
    assert_eq!(found.problems.len(), expected.len(), "{:?}", found.problems);
    for (problem, (start, said)) in found.problems.iter().zip(expected) {
        assert!(problem.starts_with(&start) && problem.contains(said), "{problem}");
    }
}

#[test]
fn a_project_names_no_file_outside_of_itself() {
    let site = Site::new();
    site.files(&["key.md", "keys/key.md", "work/a/in.md"]);
    fs::create_dir_all(site.path("work/.leftfold")).unwrap();
    symlink(site.path("keys"), site.path("work/away")).unwrap();
    symlink(site.path("key.md"), site.path("work/a/linked.md")).unwrap();
    for (base, text) in [
        ("work/.leftfold", "../key.md"),
        ("work/.leftfold", "../*.md"),
        ("work", "away/*"),
        ("work", "a/l*.md"),
        ("work", "linked.md"),
    ] {
        let work = site.path("work").canonicalize().unwrap();
        let outside = |confined| {
            let paths = site.find_for(&[(base, text)], confined).paths;
            paths.into_iter().filter(|path| !Path::new(path).starts_with(&work)).count()
        };
        assert_eq!((outside(false), outside(true)), (1, 0), "{text}");
    }
    assert_eq!(site.find_for(&[("work", "a/in.md")], true).paths.len(), 1);
}
