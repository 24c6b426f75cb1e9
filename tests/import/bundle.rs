//! Sessions that move with their snapshots: `leftfold export --bundle`.

use std::path::Path;

use common::{Ran, Site, call, says, script};
use leftfold_events::Sha256;
use serde_json::{Value, json};

/// A session with edits, a binary file, a subagent and a long content.
fn full() -> Site {
    let task =
        json!({ "description": "Look", "prompt": "look at a.txt", "subagentType": "general" });
    let edit = json!({ "filePath": "src/a.txt", "oldString": "one", "newString": "two" });
    let site = Site::scripted(&script(json!([
        call("read", json!({ "filePath": "src/a.txt" })),
        call("edit", edit),
        call("write", json!({ "filePath": "new.txt", "content": "new\n" })),
        call("task", task),
        says("Done."),
        says("More."),
        { "match": { "prompt": "look at a.txt", "answers": 0 },
          "parts": [{ "call": { "name": "read", "input": { "filePath": "src/a.txt" } } }] },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "Two." }] },
    ])))
    .setting("/snapshot", json!(true));
    site.file("src/a.txt", "one\n");
    site.file("picture.bin", [0, 159, 146, 150, 10, 13, 0]);
    site.file("long.txt", "a long prompt ".repeat(10_000));
    site.run(&["run", "--yes", "--file", "long.txt", "go"]).ok();
    assert_eq!(site.text("src/a.txt"), "two\n");
    site
}

fn bundle(site: &Site) -> String {
    site.run(&["export", "last", "--unmasked", "--bundle"]).ok().stdout
}

/// The bundle with another last line, which fits.
fn sealed(lines: &str) -> String {
    format!("{lines}{{\"v\":1,\"end\":\"{}\"}}\n", Sha256::of(lines.as_bytes()))
}

/// The lines without the last one.
fn opened(bundle: &str) -> &str {
    let end = bundle.trim_end().rfind('\n').unwrap() + 1;
    &bundle[..end]
}

fn import(site: &Site, bytes: impl AsRef<[u8]>) -> Ran {
    let file = site.path("session.bundle");
    std::fs::write(&file, bytes).unwrap();
    site.run(&["import", file.to_str().unwrap()])
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn a_session_moves_with_its_files() {
    let site = full();
    let bundle = bundle(&site);
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let show = |site: &Site| {
        let look = [&["replay", &id, "--state"][..], &["verify", &id], &["why", &id]];
        look.map(|args| site.run(args).ok().stdout)
    };
    let before = show(&site);
    let diff = site.run(&["diff", &id]).ok().stdout;
    import(&site, &bundle).with(2).saying(&["already exists"]);

    // the project and the snapshots are gone
    std::fs::remove_dir_all(site.path("home")).unwrap();
    std::fs::remove_dir_all(site.project()).unwrap();
    std::fs::create_dir(site.project()).unwrap();
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    assert_eq!(import(&site, &bundle).ok().stdout.trim(), id);
    assert_eq!(show(&site), before);
    // imported snapshots are not read yet: the diff is that of the edit calls, and says so
    let edits = site.run(&["diff", &id]).with(1).saying(&["are not read"]).stdout;
    assert!(diff.contains("-one\n+two\n") && edits.contains("-one\n+two\n"), "{diff}{edits}");
    site.run(&["check", &id]).ok();
    // all contents are there, byte for byte, and can move on
    assert_eq!(self::bundle(&site), bundle);
    // nothing is left beside the snapshots of the one worktree
    assert_eq!(entries(&home.join("snapshots")), 1);
    assert_eq!(entries(&home.join("sessions")), 1);
    // it continues, with new snapshots in the same store
    site.run(&["run", "--session", &id, "more"]).ok();
    site.run(&["verify", &id]).ok();
    assert!(site.run(&["diff", &id]).stdout.contains("-one\n+two\n"));
}

/// The bundle with a changed snapshot line.
fn changed(bundle: &str, kind: &str, change: impl Fn(&mut Value)) -> String {
    let mut is_changed = false;
    let lines = opened(bundle).lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if value["snapshot"][kind].is_object() && !is_changed {
            change(&mut value["snapshot"][kind]);
            is_changed = true;
        }
        format!("{value}\n")
    });
    let lines: String = lines.collect();
    assert!(is_changed);
    sealed(&lines)
}

#[test]
fn a_hostile_or_damaged_bundle_is_refused_and_nothing_is_left() {
    let site = full();
    let bundle = bundle(&site);
    assert_eq!(sealed(opened(&bundle)), bundle);
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    let path = |path: &'static str| {
        changed(&bundle, "tree", move |tree| tree["changes"][0]["path"] = json!(path))
    };
    let tree = |name: &'static str, to: &'static str| {
        changed(&bundle, "tree", move |tree| tree["changes"][0]["content"][name] = json!(to))
    };
    let large = "AAAA".repeat(1 << 20);
    let inside = "it is no path inside a worktree";
    let repository = "it belongs to a git repository";
    let mode = "the mode of a file is not 100644, 100755 or 120000";
    let none = "0123456789012345678901234567890123456789";
    for (bundle, says) in [
        (path("../out"), inside),
        (path("/etc/passwd"), inside),
        (path("a/./b"), inside),
        (path("a//b"), inside),
        (path(""), inside),
        (path("a\nM 100644 inline b\ndata 0"), inside),
        (path(".git/hooks/post-checkout"), repository),
        (path("a/.GIT/config"), repository),
        (path("\" x"), "a snapshot has other files than its name says"),
        (tree("mode", "160000"), mode),
        (tree("mode", "40000"), mode),
        (tree("object", "inline"), "its content has no name of an object"),
        (tree("object", none), "git fast-import failed"),
        (
            changed(&bundle, "tree", |tree| tree["name"] = json!(none)),
            "a snapshot has other files than its name says",
        ),
        (
            changed(&bundle, "content", |content| content["base64"] = json!("b3RoZXI=")),
            "git fast-import failed",
        ),
        (
            changed(&bundle, "content", |content| content["base64"] = json!(large)),
            "a file has more than 2 MB",
        ),
        (
            changed(&bundle, "content", |content| content["base64"] = json!("*")),
            "`base64` is not base64",
        ),
        (sealed(&format!("{}nonsense\n", opened(&bundle))), "not JSON"),
        (opened(&bundle).to_owned(), "cut off or damaged"),
    ] {
        let ran = import(&site, &bundle).with(2);
        ran.saying(&["session.bundle", says]);
    }
    let bytes = bundle.as_bytes();
    for part in 0..12 {
        let at = bytes.len() * part / 12 + part;
        import(&site, &bytes[..at]).with(2);
        let mut flipped = bytes.to_owned();
        flipped[at] ^= 1 << (part % 8);
        import(&site, flipped).with(2);
    }
    assert_eq!(entries(&home.join("sessions")), 0);
    assert_eq!(entries(&home.join("snapshots")), 0);
    import(&site, &bundle).ok();
}
