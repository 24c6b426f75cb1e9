//! Parsed patches, and refused ones with the line of the error.

use super::{parse_patch, patch, sections};
use crate::apply_patch::parse::{Change, Line};

/// A patch in one line, for comparison.
fn rendered(text: &str) -> String {
    match parse_patch(text) {
        Err(error) => format!("error: {error}"),
        Ok(sections) => sections
            .iter()
            .map(|s| rendered_section(&s.path, &s.change))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

fn rendered_section(path: &str, change: &Change) -> String {
    match change {
        Change::Add(text) => format!("A {path} {text:?}"),
        Change::Delete => format!("D {path}"),
        Change::Update { move_to, hunks } => {
            let to = move_to.as_ref().map_or_else(String::new, |to| format!(" > {to}"));
            let hunks: Vec<String> = hunks
                .iter()
                .map(|hunk| {
                    let lines = hunk.lines.iter().map(|line| match line {
                        Line::Keep(text) => format!(" {text}"),
                        Line::Remove(text) => format!("-{text}"),
                        Line::Add(text) => format!("+{text}"),
                    });
                    let lines = lines.collect::<Vec<_>>().join("|");
                    let end = if hunk.at_end { "$" } else { "" };
                    format!("{:?}{{{lines}}}{end}", hunk.headers)
                })
                .collect();
            format!("M {path}{to} {}", hunks.join(" "))
        }
    }
}

#[test]
fn sections_of_a_patch() {
    for (text, found) in [
        ("*** Add File: a\n+one\n+two\n", r#"A a "one\ntwo\n""#),
        ("*** Add File: a\n", r#"A a """#),
        ("*** Add File: a\n+\n", r#"A a "\n""#),
        ("*** Add File: a\n++x\n+ y\n", r#"A a "+x\n y\n""#),
        // an empty line within a new file belongs to it; after it, it is only space
        ("*** Add File: a\n+x\n\n+y\n\n*** Delete File: b\n", r#"A a "x\n\ny\n"; D b"#),
        ("*** Add File: a\n+x\n*** End of File\n*** Delete File: b\n", r#"A a "x\n"; D b"#),
        ("*** Delete File: a b.txt\n", "D a b.txt"),
        ("*** Delete File: a  \n*** Delete File:b\n", "D a; D b"),
        ("\n\n*** Delete File: a\n\n  *** Delete File: b\n", "D a; D b"),
        ("*** Update File: a\n*** Move to: b\n", "M a > b "),
        ("*** Update File: a\n*** Move to: b \n@@\n-x\n", "M a > b []{-x}"),
        ("*** Update File: a\n@@\n x\n-y\n+z\n", "M a []{ x|-y|+z}"),
        // the first hunk needs no @@
        ("*** Update File: a\n-y\n+z\n@@\n-q\n", "M a []{-y|+z} []{-q}"),
        ("*** Update File: a\n@@ class Foo\n-y\n", r#"M a ["class Foo"]{-y}"#),
        (
            "*** Update File: a\n@@ class Foo\n@@ \t def bar():\n-y\n",
            r#"M a ["class Foo", "def bar():"]{-y}"#,
        ),
        ("*** Update File: a\n@@\n@@ fn x()\n-y\n", r#"M a ["fn x()"]{-y}"#),
        ("*** Update File: a\n@@   \n-y\n", "M a []{-y}"),
        ("*** Update File: a\n@@ fn x() @@\n-y\n", r#"M a ["fn x()"]{-y}"#),
        // line numbers of other diff formats are ignored
        ("*** Update File: a\n@@ -1,2 +3,4 @@\n-y\n", "M a []{-y}"),
        ("*** Update File: a\n@@ -1 +3 @@ fn x()\n-y\n", r#"M a ["fn x()"]{-y}"#),
        ("*** Update File: a\n@@ -x +y\n-y\n", r#"M a ["-x +y"]{-y}"#),
        ("*** Update File: a\n@@\n-y\n*** End of File\n", "M a []{-y}$"),
        ("*** Update File: a\n@@\n-y\n*** End of File  \n@@\n-z\n", "M a []{-y}$ []{-z}"),
        ("*** Update File: a\n@@\n x\n\n-y\n", "M a []{ x| |-y}"),
        ("*** Update File: a\n@@\n-y\n\n\n*** Delete File: b\n", "M a []{-y| | }; D b"),
        ("*** Update File: a\n\n@@\n-y\n", "M a []{-y}"),
        // with a sign before them, markers are lines of the file
        (
            "*** Update File: a\n@@\n *** End Patch\n-*** Delete File: x\n+@@\n",
            "M a []{ *** End Patch|-*** Delete File: x|+@@}",
        ),
        ("*** Update File: a\n@@\n-y\n\\ No newline at end of file\n+z\n", "M a []{-y|+z}"),
        ("*** Update File: a\n@@\n-\n+\n", "M a []{-|+}"),
    ] {
        assert_eq!(rendered(&patch(text)), found, "{text}");
    }
}

#[test]
fn wrappings() {
    let inside = "*** Begin Patch\n*** Delete File: a\n*** End Patch";
    for (before, after) in [
        ("", ""),
        ("\n\n  ", "  \n\n"),
        ("```\n", "\n```"),
        ("```diff\n", "\n```\n"),
        ("<<EOF\n", "\nEOF"),
        ("<<'EOF'\n", "\nEOF\n"),
        ("<<\"EOF\"\n", "\nEOF\n"),
        ("apply_patch <<'EOF'\n", "\nEOF"),
        ("apply_patch << 'PATCH'\n", "\nPATCH\n"),
        ("apply_patch\n", ""),
        ("```bash\napply_patch <<EOF\n", "\nEOF\n```"),
        ("<<'EOF'\n", ""),
        ("\u{feff}", ""),
    ] {
        let text = format!("{before}{inside}{after}");
        assert_eq!(rendered(&text), "D a", "{text}");
        assert_eq!(rendered(&text.replace('\n', "\r\n")), "D a", "{text} with CRLF");
    }
    assert_eq!(rendered("*** Begin Patch  \n*** Delete File: a\n *** End Patch \n"), "D a");
}

#[test]
fn carriage_returns_belong_to_line_ends_once() {
    let text = "*** Begin Patch\r\n*** Add File: a\r\n+x\r\r\n*** End Patch\r\n";
    assert_eq!(rendered(text), r#"A a "x\r\n""#);
}

#[test]
fn errors_have_the_line() {
    for (text, line, said) in [
        ("", 1, "expected `*** Begin Patch`"),
        ("  \n\n", 1, "got nothing"),
        ("hello\n", 1, "got \"hello\""),
        ("\nPlease apply:\n*** Begin Patch\n*** End Patch", 2, "got \"Please apply:\""),
        ("--- a/f\n+++ b/f\n", 1, "expected `*** Begin Patch`"),
        ("*** Update File: f\n@@\n-x\n", 1, "expected `*** Begin Patch`"),
        ("cd x && apply_patch <<EOF\n*** Begin Patch\n*** End Patch\nEOF", 1, "expected"),
        ("*** Begin Patch\n*** Delete File: a\n", 3, "ends without `*** End Patch`"),
        ("*** Begin Patch", 1, "ends without `*** End Patch`"),
        ("*** Begin Patch\n*** End Patch\nand so on\n", 3, "nothing may follow"),
        ("<<A\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nB\n", 5, "nothing may follow"),
        ("*** Begin Patch\n*** End Patch", 2, "the patch is empty"),
        ("*** Begin Patch\n\n*** End Patch", 2, "the patch is empty"),
        ("*** Begin Patch\nhello\n*** End Patch", 2, "got \"hello\""),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", 3, "got \"-x\""),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", 2, "got \"*** Rename File: a\""),
        ("*** Begin Patch\n*** Add File: \n+x\n*** End Patch", 2, "path is missing"),
        ("*** Begin Patch\n*** Update File: a\n*** Move to:\n*** End Patch", 3, "path is missing"),
        ("*** Begin Patch\n*** Move to: b\n*** End Patch", 2, "belongs right after"),
        ("*** Begin Patch\n*** Add File: a\n*** Move to: b\n*** End Patch", 3, "begins with `+`"),
        ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", 4, "begins with `+`, got \"y\""),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "an update needs a hunk"),
        ("*** Begin Patch\n*** Update File: a\n@@\n*** End Patch", 3, "has no lines"),
        ("*** Begin Patch\n*** Update File: a\n@@ x\n\n\n*** End Patch", 3, "has no lines"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n@@ y\n*** End Patch", 5, "has no lines"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\nfoo\n*** End Patch", 5, "got \"foo\""),
        ("*** Begin Patch\n*** Update File: a\n@@\n*** What\n*** End Patch", 4, "got \"*** What\""),
        (
            "*** Begin Patch\n*** Begin Patch\n*** Delete File: a\n*** End Patch",
            2,
            "only one beginning",
        ),
        ("\r\n*** Begin Patch\r\nx\r\n*** End Patch", 3, "got \"x\""),
    ] {
        let error = parse_patch(text).unwrap_err();
        assert_eq!(error.kind(), "invalid_patch", "{text}");
        let error = error.to_string();
        assert!(error.starts_with(&format!("Line {line} of the patch: ")), "{text}\n{error}");
        assert!(error.contains(said) && error.ends_with("Nothing was changed."), "{error}");
    }
}

#[test]
fn hunks_and_sections_know_their_lines() {
    let found = sections("*** Delete File: a\n\n*** Update File: b\n@@\n-x\n@@ y\n-z\n").unwrap();
    assert_eq!((found[0].line, found[1].line), (2, 4));
    let Change::Update { hunks, .. } = &found[1].change else { panic!("{found:?}") };
    assert_eq!((hunks[0].line, hunks[1].line), (5, 7));
}
