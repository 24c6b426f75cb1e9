use super::*;
use crate::testing::Site;

fn skill(site: &Site, folder: &str, head: &str) {
    site.file(&format!("{folder}/SKILL.md"), format!("---\n{head}\n---\nDo it.\n"));
}

fn described(site: &Site, folder: &str, description: &str) {
    skill(site, folder, &format!("description: {description}"));
}

/// The project is `p`, and the user's folders are beside it.
fn found(site: &Site, directory: &str) -> FoundSkills {
    std::fs::create_dir_all(site.path("p").join(directory)).unwrap();
    found_with(site, directory, Vec::new())
}

fn found_with(site: &Site, directory: &str, skills: Vec<SkillFolder>) -> FoundSkills {
    let (home, config) = (Some(site.path("home")), Some(site.path("config")));
    find(
        &site.path("p").join(directory),
        &site.path("p"),
        &UserFolders { home, config, skills, data: None },
    )
}

fn pairs(found: &FoundSkills) -> Vec<(&str, &str)> {
    found.skills.iter().map(|s| (s.name.as_str(), s.description.as_str())).collect()
}

#[test]
fn every_place_is_looked_at_and_the_nearest_counts() {
    let site = Site::new();
    let places = [
        "p/sub/.leftfold/skills", "p/.leftfold/skills", "p/.opencode/skill", "p/.opencode/skills",
        "p/.claude/skills", "p/.agents/skills", "config/leftfold/skills", "config/opencode/skill",
        "config/opencode/skills", "home/.claude/skills", "home/.agents/skills",
    ];
    for (n, place) in places.iter().enumerate() {
        described(&site, &format!("{place}/only-{n}"), place);
        for nearer in places.iter().skip(n) {
            let name = format!("{nearer}/from-{n}-on");
            described(&site, &name, nearer);
        }
    }
    described(&site, ".claude/skills/above", "above the worktree");
    let found = found(&site, "sub");
    assert_eq!(found.problems, []);
    for (n, place) in places.iter().enumerate() {
        for name in [format!("only-{n}"), format!("from-{n}-on")] {
            assert!(pairs(&found).contains(&(&name, place)), "{name}: {found:?}");
        }
    }
    assert_eq!(found.skills.len(), 2 * places.len());
    let from_root = super::find(&site.path("p"), &site.path("p"), &UserFolders::default());
    assert!(!pairs(&from_root).iter().any(|(name, _)| *name == "only-0"));
}

#[test]
fn folders_within_folders() {
    let site = Site::new();
    for folder in ["one", "group/two", "group/deep/er/three", "one/within/four"] {
        described(&site, &format!("p/.leftfold/skills/{folder}"), "d");
    }
    described(&site, "p/.leftfold/skills/node_modules/five", "d");
    described(&site, "p/.leftfold/skills/a/b/c/d/e/f/seven", "too deep");
    std::os::unix::fs::symlink("..", site.path("p/.leftfold/skills/group/loop")).unwrap();
    described(&site, "p/other/six", "d");
    std::os::unix::fs::symlink(site.path("p/other/six"), site.path("p/.leftfold/skills/linked"))
        .unwrap();
    let found = found(&site, "");
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["four", "linked", "one", "three", "two"]);
    let linked = &found.skills[1];
    assert_eq!(linked.path, site.path("p/other/six/SKILL.md"));
    assert!(!linked.path.starts_with(&linked.place));
}

#[test]
fn links_out_of_the_project_are_left_out() {
    let site = Site::new();
    described(&site, "elsewhere/six", "d");
    described(&site, "p/.leftfold/skills/one", "d");
    for (target, link) in [
        ("elsewhere/six", "p/.leftfold/skills/linked"),
        ("elsewhere", "p/.opencode/skills"),
        ("elsewhere/six/SKILL.md", "p/.claude/skills/seven/SKILL.md"),
    ] {
        std::fs::create_dir_all(site.path(link).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(site.path(target), site.path(link)).unwrap();
    }
    let found = found(&site, "");
    let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["one"]);
    assert!(!found.problems.is_empty());
    assert!(found.problems.iter().all(|problem| problem.problem.contains("leads out")));
}

#[test]
fn names() {
    let long = "a".repeat(65);
    for (name, good) in [
        ("a", true),
        ("pdf-2-text", true),
        ("7zip", true),
        (&long[1..], true),
        (&long, false),
        ("", false),
        ("PDF", false),
        ("pdf_text", false),
        ("-pdf", false),
        ("pdf-", false),
        ("pdf--text", false),
        ("a b", false),
        ("../x", false),
        ("grün", false),
    ] {
        assert_eq!(is_name(name), good, "{name}");
    }
}

#[test]
fn problems_name_file_and_line() {
    let site = Site::new();
    let long = "x".repeat(usize::try_from(MAX_FILE).unwrap());
    for (folder, text, line, said) in [
        ("upper", "---\nname: Upper\ndescription: d\n---\n", 2, "lower case"),
        ("none", "Just text.", 1, "`description` is missing"),
        ("blank", "---\nname: blank\ndescription: ' '\n---\n", 3, "`description` is missing"),
        ("Folder", "---\ndescription: d\n---\n", 1, "\"Folder\""),
        ("open", "---\ndescription: d\n", 1, "`---`"),
        ("yaml", "---\nname: yaml\ndescription: [\n---\n", 3, ""),
        ("type", "---\nname: type\ndescription: [a]\n---\n", 3, ""),
        ("long", &long, 1, "larger than 1048576 bytes"),
    ] {
        let file = site.file(&format!("p/.claude/skills/{folder}/SKILL.md"), format!("{text}."));
        let found = found(&site, "");
        let [problem] = found.problems.as_slice() else { panic!("{folder}: {found:?}") };
        assert_eq!((&problem.path, problem.line), (&file, line), "{problem}");
        assert!(problem.problem.contains(said), "{problem}");
        assert!(problem.to_string().starts_with(&format!("{}:{line}: ", file.display())));
        assert_eq!(found.skills, []);
        std::fs::remove_file(file).unwrap();
    }
    site.file("p/.claude/skills/binary/SKILL.md", b"---\nname: \xff\n---\n");
    assert!(found(&site, "").problems[0].problem.contains("UTF-8"));
    std::fs::remove_file(site.path("p/.claude/skills/binary/SKILL.md")).unwrap();
    site.fifo("p/.claude/skills/binary/SKILL.md");
    assert!(found(&site, "").problems[0].problem.contains("regular file"));
    std::fs::remove_file(site.path("p/.claude/skills/binary/SKILL.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", site.path("p/.claude/skills/binary/SKILL.md")).unwrap();
    assert!(found(&site, "").problems[0].problem.contains("does not exist"));
}

#[test]
fn the_section_for_prompts_lists_names_and_descriptions() {
    let site = Site::new();
    assert_eq!(section(&[]), None);
    skill(&site, "p/.leftfold/skills/b", "description: |\n  Several\n  lines.");
    skill(&site, "p/.leftfold/skills/a", "name: first\ndescription: One.\nlicense: MIT");
    described(&site, "p/.leftfold/skills/c", &"y".repeat(3_000));
    let section = section(&found(&site, "").skills).unwrap();
    let list = section.split_once("\n\n").unwrap().1;
    let clipped = format!("{}…", "y".repeat(MAX_DESCRIPTION));
    assert_eq!(list, format!("- b: Several lines.\n- c: {clipped}\n- first: One.\n</skills>"));
    assert!(section.contains("`skill`"));
}

#[test]
fn folders_that_settings_name_come_before_the_users_own_and_only_the_users_may_be_read() {
    let site = Site::new();
    for (folder, name) in [("team", "a"), ("team", "b"), ("theirs", "b"), ("theirs", "c")] {
        described(&site, &format!("{folder}/{name}"), folder);
    }
    described(&site, "home/.claude/skills/a", "home");
    described(&site, "p/.leftfold/skills/c", "project");
    let named = |path: &str, own| SkillFolder { path: site.path(path), own };
    let skills = vec![named("team", true), named("theirs", false), named("nowhere", true)];
    let found = found_with(&site, "", skills.clone());
    assert_eq!(pairs(&found), [("a", "team"), ("b", "team"), ("c", "project")]);
    let user_folders = UserFolders { skills, ..UserFolders::default() };
    let real = |path: &str| paths::real(&site.path(path)).unwrap();
    assert!(is_own(&real("team/a/SKILL.md"), &user_folders));
    assert!(!is_own(&real("theirs/c/SKILL.md"), &user_folders));
}
