//! Results of replacements: one row a case, by strategy.

use crate::edit::replace;

/// Text, old, new, strategy, text afterwards.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const EXACT: &[Row] = &[
    ("one two three", "two", "2", "simple", "one 2 three"),
    ("a\nb\nc\n", "b\n", "", "simple", "a\nc\n"),
    ("a\nb\nc", "c", "d\n", "simple", "a\nb\nd\n"),
    ("a", "a", "", "simple", ""),
    ("a\n", "\n", "", "simple", "a"),
    ("  a\na\n", "  a", "b", "simple", "b\na\n"),
    // literal, even if it looks like a regular expression
    ("a", "a", "$1 $& \\0 \\n ${x} $$", "simple", "$1 $& \\0 \\n ${x} $$"),
    ("f(x).*[a-z]+", "(x).*[a-z]+", "y", "simple", "fy"),
    ("a\\nb", "\\n", "\\t", "simple", "a\\tb"),
    // white space alone matches only exactly
    ("a\t\tb", "\t\t", " ", "simple", "a b"),
    // Unicode
    ("x = \"ä\";", "ä", "€", "simple", "x = \"€\";"),
    ("👩‍👩‍👧 and 👍🏽", "👍🏽", "👎", "simple", "👩‍👩‍👧 and 👎"),
    ("日本語\n中文\n", "中文", "한국어", "simple", "日本語\n한국어\n"),
    ("e\u{301} é", "é", "e", "simple", "e\u{301} e"),
    // a unique exact match wins over the matches of other strategies
    ("  a\n  b\na\nb", "a\nb", "x", "simple", "  a\n  b\nx"),
];

const ENDINGS: &[Row] = &[
    // arguments get the file's line ending
    ("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", "simple", "a\r\nx\r\nb\r\nc\r\n"),
    ("a\r\nb\r\n", "b", "b\r\nc", "simple", "a\r\nb\r\nc\r\n"),
    ("a\nb\n", "a\r\nb", "c\r\nd", "simple", "c\nd\n"),
    ("a\r\nb", "b", "c\nd", "simple", "a\r\nc\r\nd"),
    ("a\r\nb\r\n", "b\n", "", "simple", "a\r\n"),
    // mixed line endings stay where nothing is replaced
    ("a\r\nb\nc\nd\r\n", "b\nc", "x\ny", "simple", "a\r\nx\ny\nd\r\n"),
    ("a\r\nb\nc\n", "a\nb", "x", "simple", "x\nc\n"),
    ("a\r\nb\n", "b", "c\nd", "simple", "a\r\nc\r\nd\n"),
    // a byte order mark stays, and none is added
    ("\u{feff}a\n", "a", "b", "simple", "\u{feff}b\n"),
    ("\u{feff}a\n", "\u{feff}a", "\u{feff}b", "simple", "\u{feff}b\n"),
    ("a\n", "a", "\u{feff}b", "simple", "b\n"),
    ("\u{feff}  a\r\n  b\r\n", "a\nb\n", "c\n", "line_trimmed", "\u{feff}c\r\n"),
    // inexact matches in files with CRLF
    ("  a\r\n  b\r\nc\r\n", "a\nb", "x\ny", "line_trimmed", "x\r\ny\r\nc\r\n"),
    ("f(a,  b)\r\ng\r\n", "f(a, b)", "f()\nh()", "whitespace_normalized", "f()\r\nh()\r\ng\r\n"),
    ("x\r\na\r\nb\r\n", "a\\nb", "c", "escape_normalized", "x\r\nc\r\n"),
    // the end of the file stays as it is
    ("a\n  b", "b\n", "c\n", "line_trimmed", "a\nc"),
    ("a\n  b\n", "b \n", "c\n", "line_trimmed", "a\nc\n"),
    ("a\n  b", "b\n", "", "line_trimmed", "a\n"),
];

const LINES: &[Row] = &[
    // whole lines are replaced, and the new text is literal
    ("if x {\n  go();\n}\n", "    go();\n}", "stop();\n}", "line_trimmed", "if x {\nstop();\n}\n"),
    ("a  \nb\t\nc\n", "a\nb", "x", "line_trimmed", "x\nc\n"),
    ("\ta\n\tb\n", "  a\n  b", "\tc", "line_trimmed", "\tc\n"),
    ("\ta", "a \n", "\tb\n", "line_trimmed", "\tb"),
    // with its line ending the last line is still one line
    ("\ta \nb\n", "a\n b\n", "x\ny\n", "line_trimmed", "x\ny\n"),
    ("\ta \nb\nc\n", "a \n b\n", "", "line_trimmed", "c\n"),
    ("\ta \nb\nc\n", "a \n b\n", "x", "line_trimmed", "x\nc\n"),
    // blank lines count
    ("a\n\n  b\n", "a\n\nb", "c", "line_trimmed", "c\n"),
    ("a\n   \n  b\n", "a\n\nb", "c", "line_trimmed", "c\n"),
    ("\n\n  a\n", "\n\na\n", "b\n", "line_trimmed", "b\n"),
    ("\u{a0}a\u{3000}\nb", "a\nb ", "c", "line_trimmed", "c"),
    // a blank last line is a line too: its white space is replaced with the rest
    ("  a\n  b\n \t\nc\n", "a\nb\n\n", "x\n", "line_trimmed", "x\nc\n"),
    ("  a\n  b\n \t\nc\n", "a\nb\n\n", "", "line_trimmed", "c\n"),
    ("  a\n \t", "a\n\n", "x\n", "line_trimmed", "x"),
    ("  a\r\n \t\r\nc\r\n", "a\n\n", "x\n", "line_trimmed", "x\r\nc\r\n"),
    // an exact match that is not unique does not stop the search
    ("    foo()\nfoo();\n", "foo()", "bar()", "line_trimmed", "bar()\nfoo();\n"),
    // the common indentation distinguishes lines that are equal without white space at their ends
    (
        "  a:\n    b\n\na:\n    b\n", "    a:\n      b", "x", "indentation_flexible",
        "x\n\na:\n    b\n",
    ),
    ("\tif:\n\t\tgo\nif:\ngo\n", "if:\n\tgo", "x", "indentation_flexible", "x\nif:\ngo\n"),
    (" a\n\n   b\n a\n\n b\n", "a\n \n  b", "x", "indentation_flexible", "x\n a\n\n b\n"),
];

const SPACES: &[Row] = &[
    // a whole line with its indentation
    ("  let  x =  1;\ny\n", "let x = 1;", "z", "whitespace_normalized", "z\ny\n"),
    // a part of a line
    ("r = f(a,   b); g()", "f(a, b)", "f(c)", "whitespace_normalized", "r = f(c); g()"),
    ("a\tb c", "a b", "x", "whitespace_normalized", "x c"),
    ("a b", "a \t b", "x", "whitespace_normalized", "x"),
    ("ä  ö ü", "ä ö", "x", "whitespace_normalized", "x ü"),
    ("👍\u{a0}👎!", "👍 👎", "x", "whitespace_normalized", "x!"),
    // as many lines
    ("  a  b\n  c\nd\n", "a b\nc", "x", "whitespace_normalized", "x\nd\n"),
    ("a  b\nc\n", "a\nb c", "x", "whitespace_normalized", "x\n"),
    ("q\n\na  b\nc\n", "\na b\nc\n", "x\n", "whitespace_normalized", "q\nx\n"),
    ("a  b\nc\n\nq\n", "a b\nc\n\n", "x\n", "whitespace_normalized", "x\nq\n"),
    ("a  b\nc\n \t\nq\n", "a b\nc\n\n", "x\n", "whitespace_normalized", "x\nq\n"),
    ("a  b\nc\n \t", "a b\nc\n\n", "x\n", "whitespace_normalized", "x"),
    // a match of only a part of a line is left to other strategies
    ("z f(a,  b) y\n", " f(a, b) ", "g()", "whitespace_normalized", "z g() y\n"),
    // the text trimmed as a whole
    ("x = foo(1);\n", "\n  foo(1)\n", "bar(2)", "trimmed_boundary", "x = bar(2);\n"),
    ("z(a\n  b)y", " a\n  b ", "c", "trimmed_boundary", "z(c)y"),
    ("let a;", " a;\n\n", "b;", "trimmed_boundary", "let b;"),
];

const ESCAPES: &[Row] = &[
    ("a\nb\n", "a\\nb", "c", "escape_normalized", "c\n"),
    (
        "fn f() {\n    a();\n    b();\n    c();\n    d();\n}\n",
        "fn f() {\\n    a();\\n    b();\\n    c();\\n    d();\\n}",
        "fn f() {}",
        "escape_normalized",
        "fn f() {}\n",
    ),
    ("a\tb", "a\\tb", "c", "escape_normalized", "c"),
    ("say \"hi\"", "say \\\"hi\\\"", "no", "escape_normalized", "no"),
    ("it's", "it\\'s", "no", "escape_normalized", "no"),
    ("`x`", "\\`x\\`", "no", "escape_normalized", "no"),
    ("cost: $5", "cost: \\$5", "no", "escape_normalized", "no"),
    ("C:\\dir", "C:\\\\dir", "no", "escape_normalized", "no"),
    ("one\ntwo", "one\\\ntwo", "no", "escape_normalized", "no"),
    // in the file
    ("x\nsay \\\"hi\\\"\ny\n", "say \"hi\"", "no", "escape_normalized", "x\nno\ny\n"),
    ("a\\tb\nc\n", "a\tb\nc", "no", "escape_normalized", "no\n"),
    // the inserted text is literal nevertheless
    ("a\nb\n", "a\\nb", "c\\nd", "escape_normalized", "c\\nd\n"),
];

const BLOCKS: &[Row] = &[
    // one line of two is nearly right
    (
        "fn f() {\n    let total = add(1, 2);\n    print(total);\n}\n",
        "fn f() {\n    let total = add(1, 3);\n    print(total);\n}",
        "fn f() {}",
        "block_anchor",
        "fn f() {}\n",
    ),
    // of several blocks the most similar
    (
        "begin\nan alpha one\nend\nbegin\nan alpha two\nend\n",
        "begin\nan alpha twx\nend",
        "x",
        "block_anchor",
        "begin\nan alpha one\nend\nx\n",
    ),
    // an anchor may stand within
    ("{\none\n}\na b two\n}\n", "{\none\n}\na b twx\n}", "x", "block_anchor", "x\n"),
    ("{\na b abcdefgh\n}\n", "{\na b abcdefxx\n}\n", "x\n", "block_anchor", "x\n"),
    ("{\n値 は 日本語テスト\n}\n", "{\n値 は 日本語テキト\n}", "x", "block_anchor", "x\n"),
    // quotes, escapes, white space and Unicode normalization are not content
    ("{\nsay('hi')\n}\n", "{\nsay( \"hi\" )\n}", "x", "block_anchor", "x\n"),
    ("{\nCafe\u{301}\nb\n}\n", "{\nCafé\nb\n}", "x", "block_anchor", "x\n"),
    // 13 of 20 characters are 0.65
    ("{\na b nopqrstuvwxyzefg\n}", "{\na b nopqrstuv0000000\n}", "x", "block_anchor", "x"),
    // half of the lines between the anchors are equal
    ("{\nsame\na b qqqqqqqqqqqqqq\n}\n", "{\nsame\na b zz\n}", "x", "context_aware", "x\n"),
    ("{\nsame\n\na b qqqqqqqqqqqqqq\n}\n", "{\nsame\n\na b zz\n}\n", "x\n", "context_aware", "x\n"),
];

/// What looks alike is found, and the rest of the file keeps its form.
const FOLDED: &[Row] = &[
    (
        "// Cafe\u{301}\nlet x = 1;\n", "// Café\nlet x = 1;", "// Café\nlet x = 2;", "folded",
        "// Café\nlet x = 2;\n",
    ),
    ("// Café\nx\n", "Cafe\u{301}\nx", "y", "folded", "// y\n"),
    ("say “hi” – e\u{301}\n", "\"hi\" -", "x", "folded", "say x e\u{301}\n"),
    ("a\u{202f}b c\n", "a b", "x", "whitespace_normalized", "x c\n"),
    ("\u{1112}\u{1161}\u{11ab}!\n", "한!", "x", "folded", "x\n"),
];

/// The indentation that a model got wrong becomes that of the file.
const INDENTED: &[Row] = &[
    ("def f():\n\tx = 1\n", "\t\t\tx = 1", "\t\t\tx = 2", "line_trimmed", "def f():\n\tx = 2\n"),
    (
        "if a:\n  b\n  c\n", "    b\n    c", "    if d:\n      e", "line_trimmed",
        "if a:\n  if d:\n    e\n",
    ),
    (
        "if a:\n\tb:\n\t\tc\n", "    b:\n        c", "    b:\n        d\n\n    e", "line_trimmed",
        "if a:\n\tb:\n\t\td\n\n\te\n",
    ),
    (
        "if a:\n    b:\n        c\n", "\tb:\n\t\tc", "\tb:\n\t\t\td", "line_trimmed",
        "if a:\n    b:\n            d\n",
    ),
    (
        "if a {\n\tb\n}\n", "if a {\n    b\n}", "if a {\n    b\n        c\n}", "line_trimmed",
        "if a {\n\tb\n\t\tc\n}\n",
    ),
    // what lies further left than all that was searched for has no counterpart
    ("if a:\n  b\n  c\n", "    b\n    c", "d\n    e", "line_trimmed", "if a:\nd\n  e\n"),
    // no rule holds for both lines
    (" a\n   b\n", "  a\n  b", "  c", "line_trimmed", "  c\n"),
];

/// Text, old, kind of error.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "a", "no_match"),
    ("", " ", "no_match"),
    ("abc", "x", "no_match"),
    ("abc", "abcd", "no_match"),
    ("a\n", "a\nb", "no_match"),
    ("Abc", "abc", "no_match"),
    ("a\n", "", "empty_old_string"),
    ("", "", "empty_old_string"),
    ("a\n", "\u{feff}", "empty_old_string"),
    ("a a", "a", "multiple_matches"),
    ("aaa", "aa", "multiple_matches"),
    ("a\nb\na\n", "a\n", "multiple_matches"),
    ("a\r\na\r\n", "a\n", "multiple_matches"),
    ("foo\nfoobar\n", "foo", "multiple_matches"),
    // of two equally good places none is taken
    ("  a\n  b\n\n    a\n    b\n", "a\nb", "multiple_matches"),
    ("  a;\n\ta;\n", " \ta;", "multiple_matches"),
    ("f(a,  b) f(a,   b)", "f(a, b)", "multiple_matches"),
    ("x  y\nz x   y\n", "x y", "multiple_matches"),
    ("a\nb\na\nb", "a\\nb", "multiple_matches"),
    ("(foo) [foo]", " foo ", "multiple_matches"),
    ("{\na b cd\n}\n{\na b cd\n}\n", "{\na b ce\n}", "multiple_matches"),
    ("{\na b\na b qq\n}\n{\na b\na b rr\n}\n", "{\na b\na b zz\n}", "multiple_matches"),
    // white space alone is only found exactly
    ("a\n\nb\n", "   \n", "no_match"),
    ("a\n\t\nb\n", "  ", "no_match"),
    ("a b", "\\n", "no_match"),
    // blocks that are dissimilar, or of another size
    ("{\nabcdef\n}\n", "{\nuvwxyz\n}", "no_match"),
    ("{\na b nopqrstuvwxyzefg\n}", "{\na b nopqrstu00000000\n}", "no_match"),
    // a line that nobody named
    ("{\na\nb\nextra\nc\n}\n", "{\na\nb\nc\n}", "no_match"),
    ("{\na\nb\nc\n}\n", "{\na\nb\nmissing\nc\n}", "no_match"),
    ("{\n\nabcdef\n}\n", "{\nabcdef\n}", "no_match"),
    ("{\nsame\nqqqqqqq\n}\n", "{\nsame\nzzz\n}", "no_match"),
    ("try {\n    a();\n    c();\n}\n", "try {\n    a();\n    b();\n}", "no_match"),
    ("{\n  a\n  x = y + z\n}\n", "{\n  a\n  x = y - z\n}", "no_match"),
    // a part of a character
    ("“Cafe\u{301}”\n", "\"Cafe", "no_match"),
    ("\u{1112}\u{1161}\u{11ab}\n", "하!", "no_match"),
    ("{\na\nkeep me\n}\n", "{\na\n}", "no_match"),
    ("{\na\nb\nc\nkeep\nme\n}\n", "{\na\nb\nc\n}", "no_match"),
    ("{\n}\n", "{\na\n}", "no_match"),
    ("{\n\n\nabcdef\n}\n", "{\nabcdef\n}", "no_match"),
    ("{\n\n\nabcdef\nqrstuv\n\n}\n", "{\n\n\nabcdef\nxyz\n\n\n}", "no_match"),
    ("{\n\n\n}\n", "{\n\n}", "no_match"),
    ("{\na\nb\n}\n", "{\nx\ny\n}", "no_match"),
    ("{\na\nq\nr\n}\n", "{\na\ny\nz\n}", "no_match"),
    ("if a\n  b\nelse\n  c\n", "if a\n  b\nend", "no_match"),
    // two lines have no middle
    ("{\n}\n\n{ }", "{\nx}", "no_match"),
    ("\nlong line here\n\n", "\nlong line hers\n\n", "no_match"),
    // other words
    ("fn one() {}\n", "fn two() {}", "no_match"),
];

/// Text, old, new, strategy, text afterwards, with `replaceAll`.
const ALL: &[Row] = &[
    ("a a a", "a", "b", "multi_occurrence", "b b b"),
    ("aaa", "a", "aa", "multi_occurrence", "aaaaaa"),
    ("aaaa", "aa", "b", "multi_occurrence", "bb"),
    ("aaa", "aa", "b", "multi_occurrence", "ba"),
    ("a b", "a", "$0", "multi_occurrence", "$0 b"),
    ("a\r\nb\r\na\r\nb\r\n", "a\nb\n", "c\n", "multi_occurrence", "c\r\nc\r\n"),
    ("a.b.c", ".", "", "multi_occurrence", "abc"),
    ("ä-ä", "ä", "ö", "multi_occurrence", "ö-ö"),
    // all matches of the first strategy that has any
    ("  a\n  b\n\n    a\n    b\n", "a\nb", "x", "line_trimmed", "x\n\nx\n"),
    ("  a\n  b\n\ta\n\tb\n", "a\nb\n", "x\n", "line_trimmed", "x\nx\n"),
    ("  a\n  b\n\ta\n\tb\n", "a\nb\n", "", "line_trimmed", ""),
    (" a\n a\n a\n", "a\na", "x", "line_trimmed", "x\n a\n"),
    ("f(a,  b) f(a,   b)", "f(a, b)", "g", "whitespace_normalized", "g g"),
    ("“a” “a” a", "\"a\"", "x", "folded", "x x a"),
    ("say \"a\" \"a\"", "\\\"a\\\"", "b", "escape_normalized", "say b b"),
    ("(foo) [foo]", "\nfoo\n", "x", "trimmed_boundary", "(x) [x]"),
];

/// The rows with another result than expected.
fn wrong<'a>(rows: impl Iterator<Item = &'a Row>, all: bool) -> Vec<String> {
    let outcome = |(text, old, new, ..): &Row| {
        replace(text, old, new, all, "f").map_err(|error| error.to_string())
    };
    let is_right = |row: &Row| {
        outcome(row).is_ok_and(|done| (done.text.as_str(), done.strategy.name()) == (row.4, row.3))
    };
    rows.filter(|row| !is_right(row)).map(|row| format!("{row:?}: {:?}", outcome(row))).collect()
}

#[test]
fn what_is_found_is_replaced() {
    let tables = [EXACT, ENDINGS, LINES, SPACES, ESCAPES, BLOCKS, FOLDED, INDENTED];
    assert_eq!(wrong(tables.into_iter().flatten(), false), Vec::<String>::new());
    assert_eq!(wrong(ALL.iter(), true), Vec::<String>::new());
}

#[test]
fn what_is_missing_ambiguous_or_unlike_is_refused() {
    for (text, old, kind) in REFUSED {
        let error = replace(text, old, "\u{1f4a5}", false, "f").unwrap_err();
        assert_eq!(error.kind(), *kind, "{text:?} {old:?}: {error}");
        assert!(error.to_string().contains('f'), "{error}");
    }
    assert_eq!(replace("a", "b", "b", true, "f").unwrap_err().kind(), "identical");
}

#[test]
fn a_letter_of_another_script_is_named() {
    let error =
        replace("x = 0\npay = 1\n", "p\u{430}y = 1", "", false, "f").unwrap_err().to_string();
    assert!(error.contains("Line 2 has U+0061 (a) where the given text has U+0430"), "{error}");
}

/// Blocks whose words differ are replaced one at a time, so that each can be shown.
#[test]
fn all_blocks_at_once_have_the_words_searched_for() {
    for (text, old) in [
        ("{\na b cd\n}\n{\na b cd\n}\n", "{\na b ce\n}"),
        ("try {\n  a();\n  c();\n}\nx\ntry {\n  d();\n  b();\n}\n", "try {\n  a();\n  b();\n}"),
        ("{\na b cd\n}\n", "{\na b ce\n}"),
    ] {
        assert_eq!(replace(text, old, "x", true, "f").unwrap_err().kind(), "no_match", "{text:?}");
    }
}

#[test]
fn a_match_far_larger_than_the_text_is_refused() {
    let gap = |size: usize| format!("call({}x)", " ".repeat(size));
    let spaces = replace(&gap(400), "call( x)", "call()", false, "f").unwrap();
    assert_eq!(spaces.text, "call()");
    for all in [false, true] {
        let error = replace(&gap(600), "call( x)", "call()", all, "f").unwrap_err();
        assert_eq!(error.kind(), "match_too_large", "{error}");
    }
    // an exact match may have any size
    let long = "x".repeat(100_000);
    assert_eq!(replace(&long, &long, "", false, "f").unwrap().text, "");
}

#[test]
fn there_are_a_hundred_rows() {
    let tables = [EXACT, ENDINGS, LINES, SPACES, ESCAPES, BLOCKS, FOLDED, INDENTED, ALL];
    let rows = tables.iter().map(|table| table.len()).sum::<usize>() + REFUSED.len();
    assert!(rows >= 100, "{rows}");
}
