//! Loading, patterns, and the instructions that `read` attaches.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;
use crate::Context;
use crate::testing::Site;

fn load(file: &Path, bounds: Option<Bounds<'_>>) -> Result<Option<Instructions>, Problem> {
    super::load(file, bounds, &Texts::default())
}

async fn read(site: &Site, path: &str, instructed: Instructed) -> Output {
    let resolved = site.resolve("read", &json!({ "filePath": path }));
    crate::run(&resolved, Context { instructed, ..site.context() }).await
}

/// The files that an output names, relative to the project.
fn told(site: &Site, output: &Output) -> Vec<String> {
    let meta = output.meta();
    let paths = meta.get("instructions").and_then(|paths| paths.as_array());
    let below = |path: &serde_json::Value| {
        let path = Path::new(path.as_str().unwrap());
        path.strip_prefix(site.path("")).unwrap().display().to_string()
    };
    paths.into_iter().flatten().map(below).collect()
}

#[test]
fn the_first_name_that_exists_counts() {
    let site = Site::new();
    for (folder, names, found) in [
        ("a", &["AGENTS.md", "CLAUDE.md"][..], Some("AGENTS.md")),
        ("b", &["CLAUDE.md", "CONTEXT.md"], Some("CLAUDE.md")),
        ("c", &["CONTEXT.md", "agents.txt"], None),
        ("d", &["AGENTS.md/x", "CLAUDE.md"], Some("CLAUDE.md")),
    ] {
        names.iter().for_each(|name| _ = site.file(&format!("{folder}/{name}"), "x"));
        let expected = found.map(|name| site.path(folder).join(name));
        assert_eq!(in_folder(&site.path(folder), &Texts::default()), expected, "{folder}");
    }
}

fn bounds(worktree: &Path) -> Bounds<'_> {
    Bounds { worktree, is_readable: &is_readable_by_default }
}

#[test]
fn a_link_to_a_file_that_is_not_read_without_a_question_is_left_out() {
    let site = Site::new();
    for name in [".env", "prod.env", ".git/config", "docs/agents.md", "plain"] {
        site.file(name, "x");
    }
    for (name, target, is_read) in [
        ("a", ".env", false),
        ("b", "prod.env", false),
        ("c", ".git/config", false),
        ("d", "docs/agents.md", true),
        ("e", "a", false),
    ] {
        symlink(target, site.path(name)).unwrap();
        let loaded = load(&site.path(name), Some(bounds(&site.path(""))));
        assert_eq!(loaded.is_ok(), is_read, "{name}: {loaded:?}");
        assert!(load(&site.path(name), None).is_ok(), "{name}");
    }
    let none = |_: &str| false;
    let root = site.path("");
    let strict = Bounds { is_readable: &none, ..bounds(&root) };
    assert!(load(&site.path("d"), Some(strict)).is_err());
    assert!(load(&site.path("plain"), Some(strict)).is_ok());
}

#[test]
fn what_is_no_text_is_a_problem_that_names_the_file() {
    let site = Site::new();
    site.file("latin", b"caf\xe9");
    site.file("zero", b"a\0b");
    site.fifo("pipe");
    symlink("nowhere", site.path("dangling")).unwrap();
    symlink("/etc/hostname", site.path("away")).unwrap();
    for (name, said) in [
        ("latin", "not UTF-8"),
        ("zero", "not UTF-8 text"),
        ("pipe", "pipe"),
        ("dangling", "nowhere"),
        ("away", "outside of"),
    ] {
        let problem = load(&site.path(name), Some(bounds(&site.path("")))).unwrap_err().to_string();
        assert!(problem.starts_with(&site.path(name).display().to_string()), "{problem}");
        assert!(problem.contains(said), "{problem}");
    }
    // a file that the user names may be anywhere
    assert!(load(&site.path("away"), None).unwrap().is_some());
    site.file("blank", " \n\n");
    assert_eq!(load(&site.path("blank"), None), Ok(None));
}

#[test]
fn a_long_file_is_cut_between_characters_and_says_so() {
    let site = Site::new();
    let path = site.file("long", format!("\u{feff}x{}", "ä".repeat(MAX_BYTES)));
    let found = load(&path, None).unwrap().unwrap();
    assert!(found.cut && found.text.len() <= MAX_BYTES && found.text.ends_with('ä'));
    assert!(found.section().ends_with(&format!("The rest is in {}.)", path.display())));
    let path = site.file("fits", "y".repeat(MAX_BYTES));
    let found = load(&path, None).unwrap().unwrap();
    assert_eq!((found.cut, found.text.len()), (false, MAX_BYTES));
}

#[test]
fn patterns() {
    let site = Site::new();
    for name in ["a.md", "docs/b.md", "docs/c.txt", "docs/deep/d.md", "[x].md", ".git/e.md"] {
        site.file(name, "x");
    }
    for (pattern, found) in [
        ("a.md", &["a.md"][..]),
        ("none.md", &[]),
        ("*.md", &["[x].md", "a.md"]),
        ("docs/*.md", &["docs/b.md"]),
        ("docs/**/*.md", &["docs/b.md", "docs/deep/d.md"]),
        ("**/*.md", &["[x].md", "a.md", "docs/b.md", "docs/deep/d.md"]),
        ("[x].md", &["[x].md"]),
        ("none/*.md", &[]),
    ] {
        let expected: Vec<_> = found.iter().map(|name| site.path(name)).collect();
        assert_eq!(matching(&site.path(""), pattern).unwrap(), expected, "{pattern}");
        let fixed = format!("{}/{pattern}", site.path("").display());
        assert_eq!(matching(Path::new("/nowhere"), &fixed).unwrap().len(), found.len(), "{fixed}");
    }
    assert!(matching(&site.path(""), "a/[b").unwrap_err().contains("a glob"));
}

#[tokio::test]
async fn reads_attach_what_lies_on_the_way_and_is_not_known() {
    let site = Site::new();
    site.file("AGENTS.md", "In the prompt.");
    site.file("sub/AGENTS.md", "Of sub.");
    site.file("sub/deep/CLAUDE.md", "Of deep.");
    site.file("sub/deep/x.txt", "x\n");
    site.file("top.txt", "t\n");
    let output = read(&site, "sub/deep/x.txt", Instructed::default()).await;
    let [sub, deep] = ["sub/AGENTS.md", "sub/deep/CLAUDE.md"].map(|name| site.path(name));
    let expected = format!(
        "1: x\n\n(End of file: 1 lines.)\n\n<instructions>\nInstructions from: {}\nOf sub.\n\n\
         Instructions from: {}\nOf deep.\n</instructions>",
        sub.display(),
        deep.display()
    );
    assert_eq!(output.output, expected);
    assert_eq!(told(&site, &output), ["sub/AGENTS.md", "sub/deep/CLAUDE.md"]);
    let known = |path: &Path| [path.display().to_string()].into();
    let reading =
        |name: &str| Instructed { reading: vec![site.path(name)], ..Instructed::default() };
    site.file("sub/y.txt", "y\n");
    for (path, instructed, expected) in [
        ("top.txt", Instructed::default(), &[][..]),
        ("sub/deep", Instructed::default(), &[]),
        ("sub/AGENTS.md", Instructed::default(), &[]),
        (
            "sub/deep/x.txt",
            Instructed { files: known(&sub), ..Instructed::default() },
            &["sub/deep/CLAUDE.md"],
        ),
        // an earlier call brings the instructions of `sub`; listing a folder brings none
        ("sub/deep/x.txt", reading("sub/y.txt"), &["sub/deep/CLAUDE.md"]),
        ("sub/deep/x.txt", reading("sub/deep"), &["sub/AGENTS.md", "sub/deep/CLAUDE.md"]),
    ] {
        assert_eq!(told(&site, &read(&site, path, instructed).await), expected, "{path}");
    }
}

#[tokio::test]
async fn a_link_out_of_the_project_attaches_nothing() {
    let site = Site::new();
    let secret = site.file("../outside/secret", "password");
    site.file("sub/x.txt", "x\n");
    symlink(secret, site.path("sub/AGENTS.md")).unwrap();
    let output = read(&site, "sub/x.txt", Instructed::default()).await;
    assert!(!output.output.contains("password") && told(&site, &output).is_empty());
}

#[test]
fn a_page_that_may_not_be_reached_is_a_problem() {
    let addresses =
        ["http://user:pw@127.0.0.1:9/x", "http://127.0.0.1:9/y", "http://"].map(str::to_owned);
    for fetched in [fetch(&addresses, false), fetch(&addresses, false)] {
        let problems: Vec<String> =
            fetched.into_iter().map(|page| page.unwrap_err().to_string()).collect();
        assert_eq!(problems.len(), 3);
        assert!(problems[0].starts_with("http://127.0.0.1:9/x: an address with"), "{problems:?}");
        assert!(!problems[0].contains("pw"), "{problems:?}");
        assert!(
            problems[1].starts_with("http://127.0.0.1:9/y: it is not a public"),
            "{problems:?}"
        );
        assert!(problems[2].starts_with("`instructions`: `url`: \"http://\" is not an absolute"));
    }
}
