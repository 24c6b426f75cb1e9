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
    format!("{lines}{{\"v\":1,\"end\":\"{}\"}}\n", Sha256::digest(lines.as_bytes()))
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

    // the snapshots are gone
    std::fs::remove_dir_all(site.path("home")).unwrap();
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    assert_eq!(import(&site, &bundle).ok().stdout.trim(), id);
    assert_eq!(show(&site), before);
    assert!(diff.contains("-one\n+two\n") && diff.contains("+new\n"), "{diff}");
    assert_eq!(site.run(&["diff", &id]).ok().stdout, diff);
    site.run(&["check", &id]).ok();
    // all contents are there, byte for byte, and can move on
    assert_eq!(self::bundle(&site), bundle);
    // nothing is left beside the snapshots of the one worktree
    assert_eq!(entries(&home.join("snapshots")), 1);
    assert_eq!(entries(&home.join("sessions")), 1);
    // it continues, with new snapshots in the same store
    site.run(&["run", "--session", &id, "more"]).ok();
    site.run(&["verify", &id]).ok();
    assert_eq!(site.run(&["diff", &id]).ok().stdout, diff);
}

/// A session with two long outputs, one of them with a token, and where the first one's full text is.
fn long_outputs() -> (Site, String) {
    let token = format!("seq 1 4000; echo ghp_{}", "a1B2".repeat(9));
    let bash = |command: &str| call("bash", json!({ "command": command }));
    let site = Site::scripted(&script(json!([bash("seq 1 5000"), bash(&token), says("Done.")])));
    let events = site.run(&["run", "--yes", "--format", "json", "go"]).ok().events();
    let mut paths = events.iter().filter_map(|event| event["data"]["spill"]["path"].as_str());
    let path = paths.next().unwrap().to_owned();
    (site, path)
}

fn spills(site: &Site, id: &str) -> Vec<(String, Vec<u8>)> {
    let folder = site.path("another-home/sessions").join(id).join("spill");
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    let mut spills: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "{entry:?}");
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    spills.sort();
    spills
}

/// The full texts of outputs move, too: `check` has nothing to say, and the model reads them at the path
/// that it was told.
#[test]
fn a_session_moves_with_its_full_outputs() {
    let (site, path) = long_outputs();
    let bundle = bundle(&site);
    let masked = site.run(&["export", "last", "--bundle"]).ok();
    let note = "1 of 2 full texts of outputs have tokens, which only --unmasked exports";
    assert!(masked.stderr.contains(note), "{masked:?}");
    assert!(!masked.stdout.contains(&"a1B2".repeat(9)), "a token is in the bundle");
    std::fs::remove_dir_all(site.path("home")).unwrap();

    let read = json!({ "filePath": path, "offset": 4_990 });
    let grep = json!({ "path": path, "pattern": "^4321$" });
    let before = [says(""), says(""), says("")];
    let now = [call("read", read), call("grep", grep), says("Done.")];
    let later = script(json!([&before[..], &now[..]].concat()));
    let home = site_home(&site);
    let site = site.env("LEFTFOLD_HOME", home).setting("/provider/double/options/script", later);
    let id = import(&site, &bundle).ok().stdout.trim().to_owned();
    let kept = spills(&site, &id);
    assert_eq!(kept.len(), 2);
    let lines: String = (1..=5_000).map(|line| format!("{line}\n")).collect();
    assert!(kept.iter().any(|(_, bytes)| *bytes == lines.as_bytes()));
    let check = site.run(&["check", &id]).ok();
    assert!(!check.stdout.contains("note:"), "{check:?}");
    assert_eq!(self::bundle(&site), bundle);
    assert_eq!(entries(&site.path("another-home/sessions")), 1);
    // no question: it is the session's own folder
    let events = site.run(&["run", "--session", &id, "--format", "json", "more"]).ok().events();
    let outputs: Vec<&str> =
        events.iter().filter_map(|event| event["data"]["output"].as_str()).collect();
    assert!(outputs.iter().any(|output| output.contains("4999")), "{outputs:?}");
    assert!(outputs.iter().any(|output| output.contains("4321")), "{outputs:?}");
    // a bundle without the text with a token has the other one
    std::fs::remove_dir_all(site.path("another-home")).unwrap();
    import(&site, &masked.stdout).ok();
    assert_eq!(spills(&site, &id).len(), 1);
}

fn site_home(site: &Site) -> String {
    site.path("another-home").display().to_string()
}

#[test]
fn hostile_full_outputs_are_refused_and_nothing_is_left() {
    let (site, path) = long_outputs();
    let bundle = bundle(&site);
    let home = site_home(&site);
    let site = site.env("LEFTFOLD_HOME", home);
    let line = |change: &dyn Fn(&mut Value)| {
        let mut is_changed = false;
        let lines = opened(&bundle).lines().map(|line| {
            let mut value: Value = serde_json::from_str(line).unwrap();
            if value["output"]["base64"].is_string() && !std::mem::replace(&mut is_changed, true) {
                change(&mut value);
            }
            format!("{value}\n")
        });
        let lines: String = lines.collect();
        assert!(is_changed);
        sealed(&lines)
    };
    let named = |to: &str| {
        let events =
            opened(&bundle).replace(&format!("\"path\":\"{path}\""), &format!("\"path\":\"{to}\""));
        assert_ne!(events, opened(&bundle));
        sealed(&events)
    };
    let output = |text: &[u8]| {
        let output =
            json!({ "sha256": Sha256::digest(text), "base64": leftfold_tools::base64(text) });
        json!({ "v": 1, "output": output })
    };
    let (large, other) = (output(&vec![b'x'; (32 << 20) + 1]), output(b"other"));
    let twice = {
        let lines = opened(&bundle).lines();
        let again = lines.filter(|line| line.contains("\"output\":{\"sha256\""));
        sealed(
            &(opened(&bundle).to_owned()
                + &again.map(|line| format!("{line}\n")).collect::<String>()),
        )
    };
    let no_name = "no name or length of one";
    for (bundle, says) in [
        (line(&|value| value["output"]["base64"] = json!("b3RoZXI=")), "the hash of the output"),
        (line(&|value| value["output"]["base64"] = json!("*")), "`base64` is not base64"),
        (line(&|value| value["output"]["sha256"] = json!("../x")), "session.bundle"),
        (line(&|value| *value = large.clone()), "more than 32 MiB"),
        (line(&|value| *value = other.clone()), "no event has the output"),
        (named("/x/spill/.."), no_name),
        (named("/x/spill/socket"), no_name),
        (named("/x/spill/a b.txt"), no_name),
        (named(""), no_name),
        (twice, "the output is there twice"),
    ] {
        import(&site, &bundle).with(2).saying(&[says]);
    }
    let second = spill_paths(&bundle)[1].clone();
    import(&site, named(&second)).with(2).saying(&["two outputs have the name"]);
    let length =
        format!("\"bytes\":{}", (1..=5_000).map(|n: u32| n.to_string().len() + 1).sum::<usize>());
    let other_length = opened(&bundle).replace(&length, "\"bytes\":7");
    assert_ne!(other_length, opened(&bundle));
    import(&site, sealed(&other_length)).with(2).saying(&[no_name]);
    assert_eq!(entries(&site.path("another-home/sessions")), 0);
    let id = import(&site, &bundle).ok().stdout.trim().to_owned();
    // an export without them may name anything: `check` reads no device
    std::fs::remove_dir_all(site.path("another-home")).unwrap();
    let device = named("/dev/zero");
    let lines = opened(&device).lines().skip(1);
    let lines = lines.filter(|line| !line.contains("\"output\":{\"sha256\""));
    import(&site, lines.map(|line| format!("{line}\n")).collect::<String>()).ok();
    let check = site.run(&["check", &id]).ok();
    assert!(check.stdout.contains("is changed: /dev/zero"), "{check:?}");
}

fn spill_paths(bundle: &str) -> Vec<String> {
    let events = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let paths =
        events.filter_map(|event| event["data"]["spill"]["path"].as_str().map(str::to_owned));
    paths.collect()
}

/// The expected state after a restore: the text of the edited file, and whether the new file exists.
fn files(site: &Site) -> (String, bool) {
    (site.text("src/a.txt"), site.project().join("new.txt").exists())
}

/// The first event of a type in the lines of a bundle.
fn seq(bundle: &str, kind: &str) -> String {
    let events = bundle.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut found = events.filter(|event| event["type"] == kind);
    found.next().unwrap()["seq"].to_string()
}

#[test]
fn an_imported_session_is_reverted_and_forked_with_its_files() {
    let site = full();
    let bundle = bundle(&site);
    let prompted = seq(&bundle, "turn.prompted");
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    let id = import(&site, &bundle).ok().stdout.trim().to_owned();
    let (before, after) = (("one\n".to_owned(), false), ("two\n".to_owned(), true));

    let forked = site.run(&["fork", &id, "--at", &prompted, "--files"]).ok();
    assert_eq!(files(&site), before);
    site.run(&["unrevert", forked.stdout.trim()]).ok();
    assert_eq!(files(&site), after);

    site.run(&["revert", &id, "--to", &prompted]).ok().saying(&["M src/a.txt", "D new.txt"]);
    assert_eq!(files(&site), before);
    site.run(&["unrevert", &id]).ok();
    assert_eq!(files(&site), after);
    let state: Value =
        serde_json::from_str(&site.run(&["replay", &id, "--state"]).ok().stdout).unwrap();
    assert_eq!(state["files"]["changes"].as_array().map(Vec::len), Some(2), "{state}");
    for command in ["check", "verify"] {
        site.run(&[command, &id]).ok();
    }
    // an import of it knows nothing of what was accepted here, and compares again
    let again = self::bundle(&site);
    std::fs::remove_dir_all(&home).unwrap();
    let home = site.path("third-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    import(&site, &again).ok();
    site.run(&["revert", &id, "--to", &prompted]).ok();
    assert_eq!(files(&site), before);
}

/// The bundle with changed events of snapshots.
fn claiming(bundle: &str, change: impl Fn(&mut Value)) -> String {
    let lines = opened(bundle).lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if value["type"] == "files.snapshotted" {
            change(&mut value["data"]);
        }
        format!("{value}\n")
    });
    sealed(&lines.collect::<String>())
}

/// A session of a call that has changed files with this command line.
fn changed_by(command: &str) -> (Site, String) {
    let site = Site::scripted(&script(json!([
        call("bash", json!({ "command": command })),
        says("Done."),
        says("More."),
    ])))
    .setting("/snapshot", json!(true));
    site.file("kept.txt", "kept\n");
    site.file("a.txt", "one\n");
    site.run(&["run", "--yes", "go"]).ok();
    let bundle = bundle(&site);
    let home = site.path("another-home");
    (site.env("LEFTFOLD_HOME", home.to_str().unwrap()), bundle)
}

#[test]
fn a_revert_of_an_import_restores_only_what_its_snapshots_show() {
    let empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let extra =
        |path: &str| json!({ "path": path, "change": "modified", "additions": 1, "deletions": 1 });
    let edit = "echo two > a.txt";
    let same = |bundle: &str| bundle.to_owned();
    let and_kept = |bundle: &str| {
        claiming(bundle, |data| {
            if data["files"][0].is_object() {
                data["files"].as_array_mut().unwrap().push(extra("kept.txt"));
            }
        })
    };
    let outside = |bundle: &str| {
        claiming(bundle, |data| {
            if data["files"][0].is_object() {
                data["files"] = json!([extra("../outside.txt"), extra("a.txt")]);
            }
        })
    };
    let of_others = |bundle: &str| claiming(bundle, |data| data["tree"] = json!(empty));
    let others: &dyn Fn(&str) -> String = &of_others;
    for (what, command, change) in [
        ("a file that the snapshots do not show", edit, &and_kept as &dyn Fn(&str) -> String),
        ("a file outside the project", edit, &outside),
        ("a tree that is not in the bundle", edit, others),
        ("an instruction file", "echo two > a.txt; echo obey > AGENTS.md", &same),
        ("a setting", "echo two > a.txt; echo '{}' > leftfold.json", &same),
        ("a link", "echo two > a.txt; ln -s /etc link", &same),
    ] {
        let (site, bundle) = changed_by(command);
        let bundle = change(&bundle);
        site.file("kept.txt", "mine\n");
        let id = import(&site, &bundle).ok().stdout.trim().to_owned();
        site.run(&["diff", &id]).with(1).saying(&["are not read"]);
        let prompted = seq(&bundle, "turn.prompted");
        site.run(&["fork", &id, "--at", &prompted, "--files"]).with(2).saying(&["that count"]);
        site.run(&["revert", &id, "--to", &prompted]).ok();
        assert_eq!(
            (site.text("a.txt"), site.text("kept.txt")),
            ("two\n".into(), "mine\n".into()),
            "{what}"
        );
        assert!(!site.path("outside.txt").exists(), "{what}");
    }
    // the log does not say itself what is accepted
    let (site, bundle) = changed_by(edit);
    let lines: Vec<Value> =
        opened(&bundle).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines
        .iter()
        .filter_map(|line| line["seq"].as_u64().map(|seq| (seq, line)))
        .max_by_key(|(seq, _)| *seq);
    let (last, ended) = last.unwrap();
    let step = lines.iter().find(|line| line["type"] == "model.requested").unwrap()["seq"].clone();
    let more = [
        ("session.resumed", json!({ "policy": 1, "close": true, "imported": last })),
        ("files.snapshots_accepted", json!({ "steps": [step] })),
    ];
    let forged = more.iter().zip(last + 1..).map(|((kind, data), seq)| {
        let mut event = ended.clone();
        (event["type"], event["seq"], event["data"]) = ((*kind).into(), seq.into(), data.clone());
        event["of"] = Value::Null;
        format!("{event}\n")
    });
    let events =
        lines.iter().filter(|line| line["type"].is_string()).map(|line| format!("{line}\n"));
    let contents = lines.iter().filter(|line| {
        line["payload"].is_object()
            || line["type"].is_null() && line["snapshot"].is_null() && line["bundle"].is_null()
    });
    let contents: String = contents.map(|line| format!("{line}\n")).collect();
    let text: String = contents + &events.chain(forged).collect::<String>();
    let id = import(&site, text).ok().stdout.trim().to_owned();
    site.run(&["revert", &id, "--to", &seq(&bundle, "turn.prompted")]).ok();
    assert_eq!(site.text("a.txt"), "two\n");
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
