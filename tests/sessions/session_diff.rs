//! `leftfold diff SESSION`: the changes of a session, a turn or a step to files.

use std::path::Path;
use std::process::Command;

use common::{Ran, Site, all, bash, call, says, script};
use serde_json::{Value, json};

const PARTIAL: &str = "only changes by edit calls are shown, not those by commands";

fn with(replies: Value) -> Site {
    Site::scripted(&script(replies)).setting("/snapshot", json!(true))
}

fn edit(file: &str, old: &str, new: &str) -> Value {
    call("edit", json!({ "filePath": file, "oldString": old, "newString": new }))
}

/// A reply to `prompt` in a conversation that has so many answers.
fn to(prompt: &str, answers: usize, mut reply: Value) -> Value {
    reply["match"] = json!({ "prompt": prompt, "answers": answers });
    reply
}

fn diff(site: &Site, args: &[&str]) -> Ran {
    site.run(&[&["diff", "last"], args].concat())
}

/// The JSON form, and the files in it as `LETTER path +1 -0`.
fn json_of(site: &Site, args: &[&str], code: i32) -> (Value, Vec<String>) {
    let shown = diff(site, &[args, &["--format", "json"]].concat()).with(code);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let line = |file: &Value| {
        let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
        format!("{} {} +{} -{}", text("change"), text("path"), file["additions"], file["deletions"])
    };
    let files = shown["files"].as_array().unwrap().iter().map(line).collect();
    (shown, files)
}

/// Applies a diff with git to the files in `folder`.
fn apply(folder: &Path, diff: &str) {
    let file = folder.join("../changes.diff");
    std::fs::write(&file, diff).unwrap();
    let mut git = Command::new("git");
    git.args(["apply", "--whitespace=nowarn"]).arg(&file).current_dir(folder);
    let applied = git.env("GIT_DIR", "/nowhere").output();
    let applied = applied.unwrap();
    assert!(applied.status.success(), "{diff}\n{}", String::from_utf8_lossy(&applied.stderr));
}

/// The file of each case before, the command that changes it, and the diff without its first line.
const CASES: [(&str, Option<&[u8]>, &str, &str); 10] = [
    (
        "made",
        None,
        "printf 'a\\nb\\n' > made",
        "new file mode 100644\n--- /dev/null\n+++ b/made\n@@ -0,0 +1,2 @@\n+a\n+b\n",
    ),
    (
        "edited",
        Some(b"a\nb\nc\n"),
        "sed -i s/b/B/ edited",
        "--- a/edited\n+++ b/edited\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
    ),
    (
        "gone",
        Some(b"a\n"),
        "rm gone",
        "deleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    ),
    ("hollow", None, "touch hollow", "new file mode 100644\n"),
    ("emptied", Some(b""), "rm emptied", "deleted file mode 100644\n"),
    (
        "open",
        Some(b"a\nb"),
        "printf 'a\\nc' > open",
        "--- a/open\n+++ b/open\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n\
         +c\n\\ No newline at end of file\n",
    ),
    (
        "picture",
        Some(b"\x89PNG\0one"),
        "printf 'P\\0two!' > picture",
        "Binary files a/picture and b/picture differ: 8 and 6 bytes\n",
    ),
    ("tool", Some(b"a\n"), "chmod +x tool", "old mode 100644\nnew mode 100755\n"),
    (
        "link",
        None,
        "ln -s edited link",
        "new file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+edited\n\
         \\ No newline at end of file\n",
    ),
    (
        "odd",
        Some(b"a\rb\r\n\x1b[2J\xe2\x80\xae\n"),
        "printf 'a\\rb\\r\\nc\\n' > odd",
        "--- a/odd\n+++ b/odd\n@@ -1,2 +1,2 @@\n a\\x0db\\x0d\n-\\x1b[2J\\u{202e}\n+c\n",
    ),
];

#[test]
fn every_kind_of_change_has_its_diff() {
    for (name, before, command, expected) in CASES {
        let site = with(json!([bash(command), says("Done.")]));
        if let Some(before) = before {
            site.file(name, before);
        }
        site.prompt("go").ok();
        let shown = diff(&site, &[]).ok();
        assert_eq!(shown.stdout, format!("diff --git a/{name} b/{name}\n{expected}"));
        assert!(shown.stderr.is_empty(), "{shown:?}");
    }
}

#[test]
fn renamed_files_are_found_also_if_they_were_changed() {
    let text = "one\ntwo\nthree\nfour\n";
    let site = with(json!([
        bash("mkdir new; mv a new/a; mv b new/b; echo five >> new/b; rm c; echo else > new/c"),
        says("Done."),
    ]));
    for name in ["a", "b", "c"] {
        site.file(name, format!("{name}\n{text}"));
    }
    site.prompt("go").ok();
    let shown = diff(&site, &[]).ok().stdout;
    assert!(
        shown.contains("diff --git a/a b/new/a\nrename from a\nrename to new/a\ndiff --git"),
        "{shown}"
    );
    assert!(shown.contains("rename from b\nrename to new/b\n--- a/b\n+++ b/new/b\n"), "{shown}");
    let stat = "D c +0 -5\nR a -> new/a +0 -0\nR b -> new/b +1 -0\nA new/c +1 -0\n\
        4 files changed, +2 -5\n";
    assert_eq!(diff(&site, &["--stat"]).ok().stdout, stat);
    let (shown, files) = json_of(&site, &["--stat"], 0);
    assert_eq!(files[1], "renamed new/a +0 -0");
    assert_eq!(
        (&shown["files"][1]["from"], &shown["files"][1]["diff"]),
        (&json!("a"), &Value::Null)
    );
    assert_eq!(shown["changes"], json!({ "additions": 2, "deletions": 5, "files": 4 }));
}

#[test]
fn git_makes_the_same_files_of_the_diff() {
    let commands = [
        "printf 'x\\n' > new; rm old; mv moved sub/moved; chmod +x tool",
        "printf 'no end' > new; sed -i 's/^7$/seven/; s/^70$/&\\n70.5/' numbers; ln -s new link",
    ];
    let site = with(json!([bash(commands[0]), bash(commands[1]), says("Done.")]));
    let numbers: String = (0..100).map(|n| format!("{n}\n")).collect();
    for (name, text) in [
        ("old", "old\n"),
        ("moved", &numbers),
        ("numbers", &numbers),
        ("tool", "t\n"),
        ("sub/x", ""),
    ] {
        site.file(name, text);
    }
    let copy = site.path("copy");
    let copied = Command::new("cp").arg("-r").arg(site.project()).arg(&copy).status().unwrap();
    assert!(copied.success());
    site.prompt("go").ok();
    apply(&copy, &diff(&site, &[]).ok().stdout);
    let equal = Command::new("diff").arg("-r").args([&copy, &site.project()]).output().unwrap();
    assert!(equal.status.success(), "{}", String::from_utf8_lossy(&equal.stdout));
}

#[test]
fn a_large_file_is_shown_whole_and_one_that_no_snapshot_holds_is_not() {
    let site = with(json!([
        bash("seq 150000 > large; truncate -s 3000000 huge; sed -i 5s/4/four/ long"),
        says("Done."),
    ]));
    site.file("long", (0..100_000).map(|n| format!("{n}\n")).collect::<String>());
    site.prompt("go").ok();
    assert_eq!(
        diff(&site, &["--stat"]).ok().stdout,
        "A large +150000 -0\nM long +1 -1\n2 files changed, +150001 -1\n"
    );
}

/// A session of two turns; the first one has two steps that change files.
fn two_turns() -> Site {
    let site = with(json!([
        to("one", 0, edit("a", "1", "2")),
        to("one", 1, bash("echo b > b; sed -i s/2/3/ a")),
        to("one", 2, says("Done.")),
        to("two", 3, bash("rm b; echo c > c")),
        to("two", 4, says("Done.")),
    ]));
    site.file("a", "1\n");
    site.prompt("one").ok();
    site.run(&["run", "--continue", "two"]).ok();
    site
}

#[test]
fn a_turn_and_a_step_have_their_own_changes() {
    let site = two_turns();
    let events = site.exported();
    let calls = all(&events, "tool.called");
    let step = |at: usize| calls[at]["seq"].to_string();
    for (args, expected) in [
        (vec![], vec!["modified a +1 -1", "added c +1 -0"]),
        (vec!["--turn", "1"], vec!["modified a +1 -1", "added b +1 -0"]),
        (vec!["--turn", "2"], vec!["deleted b +0 -1", "added c +1 -0"]),
        (vec!["--step", &step(0)], vec!["modified a +1 -1"]),
        (vec!["--step", &step(1)], vec!["modified a +1 -1", "added b +1 -0"]),
    ] {
        let (shown, files) = json_of(&site, &args, 0);
        assert_eq!(files, expected, "{args:?}");
        assert_eq!((&shown["complete"], &shown["notes"]), (&json!(true), &json!([])));
    }
    assert!(diff(&site, &[]).ok().stdout.contains("-1\n+3\n"), "steps are joined");
    assert!(diff(&site, &["--step", &step(0)]).ok().stdout.contains("-1\n+2\n"));
    let last = events.last().unwrap()["seq"].as_u64().unwrap();
    for (args, code, why) in [
        (vec!["--turn", "3"], 2, "there is no turn 3: the session has 2"),
        (vec!["--turn", "0"], 2, "there is no turn 0"),
        (vec!["--step", &(last + 1).to_string()], 2, "is in no step"),
        (vec!["last", "--turn", "1"], 2, "cannot be used with"),
        (vec!["--step", "1", "--turn", "1"], 2, "cannot be used with"),
    ] {
        diff(&site, &args).with(code).saying(&[why]);
    }
    site.assert_sound();
}

#[test]
fn what_the_user_changes_between_two_steps_is_not_shown() {
    let site = with(json!([
        to("one", 0, edit("a", "1", "2")),
        to("one", 1, says("Done.")),
        to("two", 2, bash("sed -i s/9/10/ a")),
        to("two", 3, says("Done.")),
    ]));
    site.file("a", "1\n");
    site.prompt("one").ok();
    site.file("a", "9\n");
    site.file("mine", "mine\n");
    site.run(&["run", "--continue", "two"]).ok();
    let shown = diff(&site, &[]).ok().stdout;
    let hunks = ["-1\n+2\n", "-9\n+10\n"].map(|hunk| shown.find(hunk).unwrap());
    assert!(hunks[0] < hunks[1] && !shown.contains("mine"), "{shown}");
    let (shown, files) = json_of(&site, &[], 0);
    assert_eq!(files, ["modified a +1 -1", "modified a +1 -1"]);
    assert_eq!(shown["changes"]["files"], 1);
}

#[test]
fn an_undone_turn_counts_no_more_and_can_still_be_shown() {
    let site = two_turns();
    let second = all(&site.exported(), "turn.prompted")[1]["seq"].to_string();
    site.run(&["revert", "last", "--to", &second]).ok();
    let first = ["modified a +1 -1", "added b +1 -0"];
    assert_eq!(json_of(&site, &[], 0).1, first);
    let (shown, files) = json_of(&site, &["--turn", "2"], 0);
    assert_eq!(files, ["deleted b +0 -1", "added c +1 -0"]);
    assert_eq!(shown["notes"], json!(["a revert has undone changes that are shown here"]));
    site.run(&["unrevert", "last"]).ok();
    assert_eq!(json_of(&site, &[], 0).1, ["modified a +1 -1", "added c +1 -0"]);
}

#[test]
fn a_fork_has_the_changes_that_it_shares() {
    let site = two_turns();
    let second = all(&site.exported(), "turn.prompted")[1]["seq"].as_u64().unwrap();
    let made = site.run(&["fork", "last", "--at", &(second - 1).to_string(), "--files"]).ok();
    let fork = made.stdout.trim();
    let shown = |args: &[&str]| site.run(&[&["diff", fork], args].concat()).ok();
    assert_eq!(shown(&["--stat"]).stdout, "M a +1 -1\nA b +1 -0\n2 files changed, +2 -1\n");
    site.run(&["run", "--session", fork, "two"]).ok();
    assert_eq!(shown(&["--stat"]).stdout, "M a +1 -1\nA c +1 -0\n2 files changed, +2 -1\n");
    let own = shown(&["--turn", "2", "--stat"]).stdout;
    assert_eq!(own, "D b +0 -1\nA c +1 -0\n2 files changed, +1 -1\n");
}

/// A session whose subagent edits a file and runs a command.
fn with_child(snapshots: bool) -> (Site, String) {
    let input = json!({ "description": "Work", "prompt": "child", "subagentType": "general" });
    let child = |answers, reply| to("child", answers, reply);
    let site = with(json!([
        child(0, edit("a", "1", "2")),
        child(1, bash("echo b > b")),
        child(2, says("Done.")),
        call("task", input),
        says("Heard."),
    ]))
    .setting("/snapshot", json!(snapshots));
    site.file("a", "1\n");
    let events = site.prompt("go").ok().events();
    let spawned = all(&events, "subagent.spawned");
    let child = spawned[0]["data"]["session"].as_str().unwrap().to_owned();
    (site, child)
}

#[test]
fn the_changes_of_a_subagent_are_those_of_its_parent() {
    let (site, child) = with_child(true);
    assert_eq!(json_of(&site, &[], 0).1, ["modified a +1 -1", "added b +1 -0"]);
    let shown = site.run(&["diff", &child]).with(1);
    assert!(shown.stdout.starts_with("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"), "{shown:?}");
    shown.saying(&["a subagent takes no snapshots", PARTIAL, "leftfold diff 0"]);
    let (site, _) = with_child(false);
    assert_eq!(json_of(&site, &[], 1).1, ["modified a +1 -1"]);
}

#[test]
fn without_snapshots_the_diffs_of_edit_calls_are_shown() {
    let patch = "*** Begin Patch\n*** Add File: d/new\n+n\n*** Update File: a\n*** Move to: z\n@@\n\
        -2\n+3\n*** Delete File: gone\n*** End Patch";
    let site = with(json!([
        edit("a", "1", "2"),
        call("apply_patch", json!({ "patchText": patch })),
        call("todowrite", json!({ "todos": [] })),
        says("Done."),
    ]))
    .setting("/snapshot", json!(false));
    site.file("a", "1\n");
    site.file("gone", "g\n");
    let events = site.prompt("go").ok().events();
    let shown = diff(&site, &[]).with(1);
    let steps = all(&events, "model.requested");
    let named =
        format!("there is no snapshot after steps {}, {}:", steps[0]["seq"], steps[1]["seq"]);
    assert!(shown.stderr.contains(&named) && shown.stderr.contains(PARTIAL), "{shown:?}");
    let (shown, files) = json_of(&site, &[], 1);
    let expected =
        ["modified a +1 -1", "added d/new +1 -0", "renamed z +1 -1", "deleted gone +0 -1"];
    assert_eq!(files, expected);
    assert_eq!(shown["complete"], false);
    assert!(shown["files"].as_array().unwrap().iter().all(|file| file["source"] == "call"));
}

#[test]
fn snapshots_that_are_not_kept_any_more_are_said_to_be() {
    let site = two_turns();
    std::fs::remove_dir_all(site.path("home/snapshots")).unwrap();
    let shown = diff(&site, &[]).with(1).saying(&["are not kept any more", PARTIAL]);
    assert!(shown.stdout.contains("-1\n+2\n"), "{shown:?}");
    let (_, files) = json_of(&site, &[], 1);
    let expected = [
        "modified a +1 -1", "modified a +1 -1", "added b +1 -0", "deleted b +0 -1", "added c +1 -0",
    ];
    assert_eq!(files, expected, "the log has the numbers");
}

#[test]
fn a_session_that_changes_nothing_says_so() {
    let site = with(json!([bash("true"), says("Done.")]));
    site.prompt("go").ok();
    let shown = diff(&site, &[]).ok().saying(&["no file was changed"]);
    assert_eq!(shown.stdout, "");
    assert_eq!(json_of(&site, &["--turn", "1"], 0).1.len(), 0);
}

#[test]
fn snapshots_that_an_import_names_are_not_read() {
    let site = two_turns();
    let export = site.run(&["export", "last", "--unmasked"]).ok().stdout;
    let elsewhere = two_turns();
    let file = elsewhere.path("import.jsonl");
    std::fs::write(&file, &export).unwrap();
    let told = elsewhere.run(&["import", file.to_str().unwrap()]).ok();
    let id = told.stdout.split_whitespace().find(|word| word.len() == 26).unwrap().to_owned();
    let shown = elsewhere.run(&["diff", &id]).with(1).saying(&["snapshots of imported steps"]);
    assert!(shown.stdout.contains("-1\n+2\n") && !shown.stdout.contains("b/c"), "{shown:?}");
}

#[test]
fn secrets_in_files_are_hidden() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let write = format!("printf '%s\\n' '{{{{secret:KEY}}}}' {token} > keys");
    let site = with(json!([bash(&write), says("Done.")]))
        .setting("/secrets", json!({ "KEY": "the-secret-value" }));
    site.prompt("go").ok();
    assert!(site.text("keys").contains("the-secret-value"));
    for args in [&[][..], &["--format", "json"]] {
        let shown = diff(&site, args).ok().stdout;
        assert!(shown.contains("{{secret:KEY}}") && shown.contains("ghp_…[masked]"), "{shown}");
        assert!(!shown.contains("the-secret-value") && !shown.contains(&token), "{shown}");
    }
    let site = site.setting("/permission", json!(3));
    diff(&site, &[]).with(2).saying(&["permission"]);
}

/// Whoever has changed the files: tracked, new, deleted, and no text.
#[test]
fn the_whole_tree_is_compared_with_the_last_commit_or_the_first_snapshot() {
    for is_repository in [true, false] {
        let site = with(json!([bash("echo by the model > model.txt"), says("Done.")]));
        let project = site.project();
        site.file("kept.txt", "kept\n");
        site.file("old.txt", "one\ntwo\n");
        site.file("gone.txt", "gone\n");
        site.file("data.bin", b"\0\x01");
        site.file(".gitignore", "ignored\n");
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            let who = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
            git.args(who).args(arguments).current_dir(&project);
            assert!(git.output().unwrap().status.success(), "{arguments:?}");
        };
        if is_repository {
            git(&["init", "--quiet"]);
            // no program of the repository runs
            git(&["config", "diff.external", "touch ran"]);
            git(&["add", "."]);
            git(&["commit", "--quiet", "--message", "first"]);
        }
        site.prompt("go").ok();
        site.file("old.txt", "one\nTWO\n");
        site.file("mine.txt", "by me\n");
        site.file("ignored", "never\n");
        site.file("data.bin", b"\0\x02");
        std::fs::remove_file(project.join("gone.txt")).unwrap();
        let (shown, files) = json_of(&site, &["--tree"], 0);
        let expected = [
            "modified data.bin +0 -0", "deleted gone.txt +0 -1", "added mine.txt +1 -0",
            "added model.txt +1 -0", "modified old.txt +1 -1",
        ];
        assert_eq!(files, expected, "{is_repository}");
        let note = shown["notes"][0].as_str().unwrap();
        let base = if is_repository { "the last commit" } else { "the session's first snapshot" };
        assert!(note.starts_with(&format!("compared with {base}")), "{note}");
        let text = diff(&site, &["--tree"]).ok().stdout;
        for line in ["+by the model\n", "-two\n+TWO\n", "+by me\n", "-gone\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!common::exists(&project.join("ran")));
    }
    let site = with(json!([says("Nothing.")]));
    site.prompt("go").ok();
    diff(&site, &["--tree"]).with(2).saying(&["no git repository", "no snapshot yet"]);
}
