//! Where hunks are placed in a text, and what they leave unchanged.

use super::changed;
use crate::apply_patch::body::MismatchReason;

#[test]
fn hunks_change_what_they_name() {
    for (before, hunks, after) in [
        ("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "-b\n", "a\nc\n"),
        ("a\nb\nc\n", "@@\n a\n+x\n b\n", "a\nx\nb\nc\n"),
        ("a\n", "@@\n-a\n", ""),
        ("", "@@\n+a\n", "a\n"),
        ("a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n-c\n+C\n", "A\nb\nC\nd\n"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+B\n", "a\n\nB\n"),
        ("a\nb\n", "@@\n a\n b\n", "a\nb\n"),
        ("a\nb\nc\n", "@@\n-a\n-b\n+x\n+y\n+z\n c\n", "x\ny\nz\nc\n"),
        // several changes in one hunk
        ("a\nb\nc\nd\ne\n", "@@\n-a\n+A\n b\n-c\n d\n+D\n e\n", "A\nb\nd\nD\ne\n"),
        // of several matching places, the first after the previous hunk counts
        ("x\nx\nx\n", "@@\n-x\n+1\n@@\n-x\n+2\n", "1\n2\nx\n"),
        // lines that a hunk adds are not matched by the next hunk
        ("a\nb\n", "@@\n-a\n+b\n@@\n-b\n+c\n", "b\nc\n"),
        // the newline taken for a line
        ("a\nb\n", "@@\n a\n-b\n+B\n \n", "a\nB\n"),
        // empty lines before the next marker may be context or mere space
        ("a\nb\n", "@@\n-a\n+A\n\n\n@@\n-b\n+B\n", "A\nB\n"),
        ("a\n1\na\n\n2\n", "@@\n-a\n+A\n\n", "a\n1\nA\n\n2\n"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{before:?}\n{hunks}");
    }
}

#[test]
fn any_number_of_empty_lines_may_follow_a_hunk() {
    for count in 0..20 {
        let hunk = format!("@@\n-a\n+A\n{}", "\n".repeat(count));
        assert_eq!(changed("b\na\nb\n", &hunk).as_deref(), Ok("b\nA\nb\n"), "{count}");
        assert_eq!(changed("a\n\n\nb\n", &hunk).as_deref(), Ok("A\n\n\nb\n"), "{count}");
    }
}

#[test]
fn a_header_that_is_a_whole_line_is_not_looked_for_in_others() {
    let file = "fn f() {\n  a\n  b\n}\n// calls fn f() {\n  b\n";
    let hunks = "@@ fn f() {\n-  a\n+  A\n@@ fn f() {\n-  b\n+  B\n";
    let after = "fn f() {\n  A\n  B\n}\n// calls fn f() {\n  b\n";
    assert_eq!(changed(file, hunks).as_deref(), Ok(after));
}

#[test]
fn headers_narrow_the_place() {
    let file = "class A:\n    def f():\n        x\n    def g():\n        x\nclass B:\n    def f():\n        x\n    def g():\n        x\n";
    for (hunks, line) in [
        ("@@\n-        x\n+        y\n", 3),
        ("@@ class A:\n-        x\n+        y\n", 3),
        ("@@     def g():\n-        x\n+        y\n", 5),
        ("@@ def g():\n-        x\n+        y\n", 5),
        ("@@ class B:\n-        x\n+        y\n", 8),
        ("@@ class B\n-        x\n+        y\n", 8),
        ("@@ class B:\n@@ def g():\n-        x\n+        y\n", 10),
        ("@@ class B:\n@@ \t def g()\n-        x\n+        y\n", 10),
        ("@@ B:\n-        x\n+        y\n", 8),
        // the header repeated as context
        ("@@ class B:\n class B:\n     def f():\n-        x\n+        y\n", 8),
        ("@@ def g():\n     def g():\n-        x\n+        y\n class B:\n", 5),
    ] {
        let mut lines: Vec<&str> = file.lines().collect();
        lines[line - 1] = "        y";
        let expected = format!("{}\n", lines.join("\n"));
        assert_eq!(changed(file, hunks).as_deref(), Ok(expected.as_str()), "{hunks}");
    }
    let twice =
        "@@ class A:\n-        x\n+        y\n@@ class A:\n     def g():\n-        x\n+        y\n";
    assert_eq!(changed(file, twice).unwrap().matches('y').count(), 2);
}

#[test]
fn hunks_before_the_one_before_need_to_be_unambiguous() {
    for (before, hunks, after) in [
        ("a\nb\nc\n", "@@\n-c\n+C\n@@\n-a\n+A\n", "A\nb\nC\n"),
        // context shared by two hunks
        ("a\nb\nc\nd\n", "@@\n-a\n+A\n b\n c\n@@\n b\n c\n-d\n+D\n", "A\nb\nc\nD\n"),
        ("k\na\nb\n", "@@\n-b\n+B\n@@ k\n-a\n+A\n", "k\nA\nB\n"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{hunks}");
    }
    for (before, hunks, why) in [
        ("x\nx\ny\n", "@@\n-y\n@@\n-x\n", MismatchReason::Several(0, 1)),
        // already changed lines do not match again
        ("a\nb\n", "@@\n-a\n+A\n@@\n-a\n+B\n", MismatchReason::Lines(Some(0))),
        ("a\nb\n", "@@\n a\n+x\n b\n@@\n a\n+x\n b\n", MismatchReason::Lines(Some(0))),
    ] {
        let miss = changed(before, hunks).unwrap_err();
        assert_eq!((miss.hunk, miss.why), (1, why), "{hunks}");
    }
}

#[test]
fn comparisons_from_exact_to_loose() {
    for (before, hunks, after) in [
        // an exact match wins over an earlier, less strict one
        ("  a\na\n", "@@\n-a\n+b\n", "  a\nb\n"),
        ("a  \na\n", "@@\n-a\n+b\n", "a  \nb\n"),
        ("    a\na \n", "@@\n-a\n+b\n", "    a\nb\n"),
        ("\u{201c}a\u{201d}\n \"a\"\n", "@@\n-\"a\"\n+b\n", "\u{201c}a\u{201d}\nb\n"),
        // white space at the end
        ("a \nb\t\n", "@@\n a\n-b\n+c\n", "a \nc\n"),
        ("a\nb\n", "@@\n a  \n-b \n+c\n", "a\nc\n"),
        // both ends; kept lines stay as the file has them
        ("    a\n\tb\n", "@@\n a\n-b\n+\tc\n", "    a\n\tc\n"),
        ("a\nb\n", "@@\n     a\n-    b\n+c\n", "a\nc\n"),
        // punctuation
        ("x \u{2014} y\nb\n", "@@\n x - y\n-b\n+c\n", "x \u{2014} y\nc\n"),
        ("it\u{2019}s\n", "@@\n-it's\n+its\n", "its\n"),
        ("\u{201c}q\u{201d}\n", "@@\n-\"q\"\n+q\n", "q\n"),
        ("a\u{a0}b\n", "@@\n-a b\n+ab\n", "ab\n"),
        ("a - b\n", "@@\n-a \u{2013} b\n+ab\n", "ab\n"),
        ("a\u{2011}b\nc\n", "@@ a-b\n-c\n+d\n", "a\u{2011}b\nd\n"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{before:?}\n{hunks}");
    }
}

#[test]
fn insertions_go_where_header_or_end_say() {
    for (before, hunks, after) in [
        ("a\nb\n", "@@\n+x\n", "a\nb\nx\n"),
        ("a\nb\n", "@@\n+x\n+y\n*** End of File\n", "a\nb\nx\ny\n"),
        ("a\nb\n", "@@ a\n+x\n", "a\nx\nb\n"),
        ("a\nb\n", "@@ a\n+x\n\n", "a\nx\nb\n"),
        ("a\nb\na\nc\n", "@@ b\n@@ a\n+x\n", "a\nb\na\nx\nc\n"),
        ("a\nb\n", "@@ a\n+x\n*** End of File\n", "a\nb\nx\n"),
        ("a\nb\n", "@@\n+x\n@@\n+y\n", "a\nb\nx\ny\n"),
        ("a\nb\n", "@@\n+x\n@@\n-a\n+A\n", "A\nb\nx\n"),
        ("a\nb\nc\n", "@@ b\n+x\n@@ a\n+y\n", "a\ny\nb\nx\nc\n"),
        ("a", "@@\n+x\n", "a\nx"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{before:?}\n{hunks}");
    }
}

#[test]
fn end_of_file() {
    for (before, hunks, after) in [
        ("x\na\nx\n", "@@\n-x\n+y\n*** End of File\n", "x\na\ny\n"),
        ("x\na\nx", "@@\n-x\n+y\n*** End of File\n", "x\na\ny"),
        ("x\na\nx\n", "@@\n-x\n+y\n\n*** End of File\n", "x\na\ny\n"),
        ("h\nx\nh\nx\n", "@@ h\n-x\n+y\n*** End of File\n", "h\nx\nh\ny\n"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{hunks}");
    }
    let miss = changed("a\nb\nc\n", "@@\n-b\n*** End of File\n").unwrap_err();
    assert_eq!(miss.why, MismatchReason::NotAtEnd(1));
    let miss = changed("a\n", "@@\n-a\n-b\n-c\n*** End of File\n").unwrap_err();
    assert!(matches!(miss.why, MismatchReason::Lines(_)), "{miss:?}");
}

#[test]
fn endings_are_those_of_the_file() {
    for (before, hunks, after) in [
        ("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"),
        ("a\r\nb\r\n", "@@\n+c\n", "a\r\nb\r\nc\r\n"),
        ("a\r\nb", "@@\n-b\n+c\n+d\n", "a\r\nc\r\nd"),
        ("a\nb", "@@\n a\n-b\n+c\n", "a\nc"),
        ("a\nb", "@@\n-b\n", "a"),
        ("a\nb", "@@\n b\n+c\n", "a\nb\nc"),
        // mixed: a line that comes in ends as the one before it
        ("a\r\nb\nc\n", "@@\n-a\n+A\n@@\n-c\n+C\n", "A\r\nb\nC\n"),
        ("a\r\nb\nc\r\n", "@@\n a\n+x\n", "a\r\nx\r\nb\nc\r\n"),
        ("\u{feff}a\nb\n", "@@\n-a\n+c\n", "\u{feff}c\nb\n"),
        ("\u{feff}a\r\n", "@@\n+c\n", "\u{feff}a\r\nc\r\n"),
        ("a\rb\n", "@@\n-a\rb\n+c\n", "c\n"),
    ] {
        assert_eq!(changed(before, hunks).as_deref(), Ok(after), "{before:?}");
    }
}

#[test]
fn what_does_not_fit() {
    for (before, hunks, hunk, why) in [
        ("a\nb\n", "@@\n-z\n", 0, MismatchReason::Lines(None)),
        ("", "@@\n-z\n", 0, MismatchReason::Lines(None)),
        ("a\nb\n", "@@\n a\n-c\n", 0, MismatchReason::Lines(Some(0))),
        ("let x = 1;\nlet y = 2;\n", "@@\n-let y = 3;\n", 0, MismatchReason::Lines(Some(1))),
        ("a\nb\n", "@@\n-b\n@@ zz\n-a\n", 1, MismatchReason::Header("zz".to_owned())),
        ("a\nb\n", "@@ b\n@@ a\n-b\n", 0, MismatchReason::Header("a".to_owned())),
        ("a\nb\n", "@@ zz\n+x\n", 0, MismatchReason::Header("zz".to_owned())),
        // before the header
        ("a\nb\nc\n", "@@ b\n-a\n", 0, MismatchReason::Lines(Some(0))),
    ] {
        let miss = changed(before, hunks).unwrap_err();
        assert_eq!((miss.hunk, miss.why), (hunk, why), "{before:?}\n{hunks}");
    }
}
