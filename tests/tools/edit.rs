//! `leftfold tool edit` and `leftfold tool multiedit`: how they change files.

use common::Site;
use serde_json::{Value, json};

/// The output, checked for its exit code.
fn tool(site: &Site, name: &str, args: &Value) -> Value {
    let ran = site.run(&["tool", name, "--args", &args.to_string()]);
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    output
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "filePath": "f", "oldString": old, "newString": new })
}

#[test]
fn edits() {
    let site = Site::bare();
    for (before, args, strategy, after) in [
        ("one two", edit("two", "$1"), "simple", "one $1"),
        ("\u{feff}a\r\nb\r\nc", edit("a\nb", "x\ny"), "simple", "\u{feff}x\r\ny\r\nc"),
        ("if x:\n        go()\n", edit("if x:\n  go()", "go()"), "line_trimmed", "go()\n"),
        (
            "{\n  let total = 1;\n  done\n}\n",
            edit("{\n  let totel = 1;\n  done\n}", "{}"),
            "block_anchor",
            "{}\n",
        ),
        ("f(a,   b)!", edit("f(a, b)", "f()"), "whitespace_normalized", "f()!"),
        (
            "\tif:\n\t\tgo\nif:\ngo\n",
            edit("if:\n\tgo", "x"),
            "indentation_flexible",
            "x\nif:\ngo\n",
        ),
        ("a\tb\n", edit("a\\tb", "c"), "escape_normalized", "c\n"),
        ("x = f(1);\n", edit("\n f(1) ", "g"), "trimmed_boundary", "x = g;\n"),
        (
            "{\nsame\na b qqqqqqqqqqqqqq\n}\n",
            edit("{\nsame\na b zz\n}", "x"),
            "context_aware",
            "x\n",
        ),
        ("Cafe\u{301}\n", edit("Café", "x"), "folded", "x\n"),
    ] {
        site.file("f", before);
        let output = tool(&site, "edit", &args);
        assert_eq!(site.text("f"), after, "{output}");
        assert_eq!(output["metadata"]["strategy"], strategy);
        assert!(output["metadata"]["diff"].as_str().unwrap().contains("\n@@ "), "{output}");
        let path = site.project().canonicalize().unwrap().join("f");
        assert!(output["metadata"]["seen"][path.to_str().unwrap()].is_string(), "{output}");
    }
    site.file("f", "a b a");
    let mut all = edit("a", "c");
    all["replaceAll"] = json!(true);
    assert_eq!(tool(&site, "edit", &all)["metadata"]["replacements"], 2);
    assert_eq!(site.text("f"), "c b c");
}

#[test]
fn what_cannot_be_done_is_told_and_leaves_the_file() {
    let site = Site::bare();
    let text = "fn one() {}\n\nend\nend\n{\nkeep\n}\n";
    for (old, new, kind, said) in [
        ("fn two() {}", "x", "no_match", "\n1: fn one() {}\n"),
        ("end", "x", "multiple_matches", "lines 3, 4"),
        ("end", "end", "identical", "identical"),
        ("", "x", "empty_old_string", "exists"),
        ("{\nzzzzzz\n}", "x", "no_match", "not found"),
    ] {
        site.file("f", text);
        let output = tool(&site, "edit", &edit(old, new));
        assert_eq!(output["metadata"]["error_kind"], kind);
        assert!(output["output"].as_str().unwrap().contains(said), "{output}");
        assert_eq!(site.text("f"), text);
    }
    let missing = json!({ "filePath": "none/f", "oldString": "a", "newString": "b" });
    assert_eq!(tool(&site, "edit", &missing)["metadata"]["error_kind"], "not_found");
}

#[test]
fn several_edits_are_made_together_or_not_at_all() {
    let site = Site::bare();
    let change = |old: &str, new: &str| json!({ "oldString": old, "newString": new });
    for (before, edits, expected, after) in [
        ("a b", vec![change("a", "c"), change("c", "d")], Ok(2), "d b"),
        ("a\n  b\n", vec![change("a\nb", "c")], Ok(1), "c\n"),
        ("a b", vec![change("a", "c"), change("a", "d")], Err("no_match"), "a b"),
        ("a b b", vec![change("a", "c"), change("b", "d")], Err("multiple_matches"), "a b b"),
        ("a b", vec![change("b", "c"), change("a", "a")], Err("identical"), "a b"),
        ("a b", vec![], Err("invalid_arguments"), "a b"),
    ] {
        site.file("f", before);
        let output = tool(&site, "multiedit", &json!({ "filePath": "f", "edits": edits }));
        assert_eq!(site.text("f"), after, "{output}");
        match expected {
            Ok(count) => assert_eq!(output["metadata"]["edits"], count),
            Err(kind) => assert_eq!(output["metadata"]["error_kind"], kind),
        }
        if edits.len() == 2 && expected.is_err() {
            let said = output["output"].as_str().unwrap();
            assert!(said.starts_with("Edit 2 of 2 failed"), "{said}");
        }
    }
    let edits = [change("", "a\nb\n"), change("b", "c")];
    tool(&site, "multiedit", &json!({ "filePath": "new/f", "edits": edits }));
    assert_eq!(site.text("new/f"), "a\nc\n");
}
