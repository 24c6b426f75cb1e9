//! Golden texts of whole documents, and properties that hold for any text and width.
//!
//! `golden/NAME.md` is a document; `golden/NAME-WIDTH.txt` has its lines, with styles as
//! `{name:text}`, and `{name}` before a line with a ground. `LEFTFOLD_GOLDEN=write` writes these files.

use std::path::PathBuf;

use leftfold_view::{FileDiff, LineKind};
use proptest::prelude::*;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::wrap::width_of;
use super::*;
use crate::hyperlink::Hyperlinks;
use crate::theme::{CodeTheme, ColorDepth, Theme, ThemeName};

/// The names of the styles of [`theme`], by their colours.
const NAMES: [&str; 26] = [
    "dim", "heading", "code", "link", "quote", "marker", "added", "removed", "added-word",
    "removed-word", "number", "error", "warning", "success", "accent", "selection", "matched",
    "comment", "keyword", "string", "literal", "function", "name", "added-row", "removed-row",
    "prompt",
];

/// A theme in which every style is different.
pub(crate) fn theme() -> Theme {
    let style = |name| {
        let at = NAMES.iter().position(|other| *other == name).unwrap();
        Style::new().fg(Color::Indexed(u8::try_from(at).unwrap()))
    };
    let row = |name| Style { bg: style(name).fg, ..Style::new() };
    let syntax = CodeTheme {
        comment: style("comment"),
        keyword: style("keyword"),
        string: style("string"),
        number: style("literal"),
        function: style("function"),
        name: style("name"),
    };
    Theme {
        depth: ColorDepth::TrueColor,
        text: Style::new(),
        dim: style("dim"),
        heading: style("heading"),
        code: style("code"),
        link: style("link"),
        quote: style("quote"),
        marker: style("marker"),
        added: style("added"),
        removed: style("removed"),
        added_word: style("added-word"),
        removed_word: style("removed-word"),
        added_row: row("added-row"),
        removed_row: row("removed-row"),
        changed_syntax: syntax,
        prompt: row("prompt"),
        line_number: style("number"),
        error: style("error"),
        warning: style("warning"),
        success: style("success"),
        accent: style("accent"),
        selection: style("selection"),
        matched: style("matched"),
        syntax,
        hyperlinks: None,
    }
}

/// The lines with their styles as `{name:text}`.
pub(crate) fn marked(lines: &[Line<'_>]) -> Vec<String> {
    lines.iter().map(marked_line).collect()
}

fn marked_line(line: &Line<'_>) -> String {
    let mut out = String::new();
    if let Some(Color::Indexed(at)) = line.style.bg {
        out.push_str(&format!("{{{}}}", NAMES[usize::from(at)]));
    }
    for span in &line.spans {
        let mut names = Vec::new();
        if let Some(Color::Indexed(at)) = span.style.fg {
            names.push(NAMES[usize::from(at)]);
        }
        let modifiers = [
            (Modifier::BOLD, "bold"),
            (Modifier::ITALIC, "italic"),
            (Modifier::UNDERLINED, "underlined"),
            (Modifier::CROSSED_OUT, "crossed"),
            (Modifier::REVERSED, "reversed"),
        ];
        let set = modifiers.iter().filter(|(set, _)| span.style.add_modifier.contains(*set));
        names.extend(set.map(|(_, name)| *name));
        match names.is_empty() {
            true => out.push_str(&span.content),
            false => out.push_str(&format!("{{{}:{}}}", names.join("+"), span.content)),
        }
    }
    out.trim_end().to_owned()
}

/// Compares lines with a golden file.
pub(crate) fn golden(name: &str, lines: &[Line<'_>]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/render/golden").join(name);
    let text = marked(lines).join("\n") + "\n";
    if std::env::var("LEFTFOLD_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}", path.display());
}

fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/render/golden").join(name);
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn assert_fits(lines: &[Line<'_>], width: u16) {
    for line in lines {
        let text = line.to_string();
        assert!(width_of(&line.spans) <= usize::from(width.max(1)), "{width}: {text:?}");
        assert!(line.width() <= usize::from(width.max(1)), "{width}: {text:?}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

/// All lines of a text that comes in these pieces.
fn streamed(pieces: &[&str], width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut stream = MarkdownStream::new(width, theme);
    let mut lines = Vec::new();
    for piece in pieces {
        stream.push(piece);
        lines.extend(stream.take_finished());
        assert_fits(&stream.live(), width);
    }
    lines.extend(stream.finish());
    lines
}

#[test]
fn documents_look_as_recorded() {
    for name in ["answer", "blocks", "tables", "code"] {
        let text = document(&format!("{name}.md"));
        for width in [40, 80, 120] {
            let lines = markdown(&text, width, &theme());
            assert_fits(&lines, width);
            golden(&format!("{name}-{width}.txt"), &lines);
        }
    }
}

#[test]
fn without_attributes_the_markup_stays() {
    let plain = Theme::new(ThemeName::Auto, ColorDepth::Plain, None);
    let lines = markdown(&document("blocks.md"), 60, &plain);
    golden("blocks-plain.txt", &lines);
}

#[test]
fn a_link_that_opens_hides_its_address_unless_it_looks_like_another_or_carries_data() {
    let hyperlinks = Hyperlinks::default();
    let theme = Theme { hyperlinks: Some(hyperlinks.clone()), ..theme() };
    for (text, expected, addresses) in [
        ("[the manual](https://a.b/c)", "{link:the manual}", &["https://a.b/c"][..]),
        (
            "[a.b](https://evil.x)",
            "{link:a.b}{dim: (}{link:https://evil.x}{dim:)}",
            &["https://evil.x", "https://evil.x"],
        ),
        ("[a `b`](https://a.b)", "{link:a }{code:b}", &["https://a.b", "https://a.b"]),
        (
            "[the manual](https://evil.x/?key=1)",
            "{link:the manual}{dim: (}{link:https://evil.x/?key=1}{dim:)}",
            &["https://evil.x/?key=1", "https://evil.x/?key=1"],
        ),
        (
            "![a](https://evil.x/c.png?key=1)",
            "{marker:[image: }{dim:a}{marker:]}{dim: (}{link:https://evil.x/c.png?key=1}{dim:)}",
            &["https://evil.x/c.png?key=1", "https://evil.x/c.png?key=1"],
        ),
        ("[run](javascript:x)", "{link:run}{dim: (javascript:x)}", &[]),
        ("[src/a.rs](src/a.rs)", "{link:src/a.rs}", &[]),
        ("<x@y.z>", "{link:x@y.z}", &["mailto:x@y.z"]),
        ("<https://a.b/_c_>", "{link:https://a.b/_c_}", &["https://a.b/_c_"]),
        ("at https://a.b/c_d_e.", "at {link:https://a.b/c_d_e}.", &["https://a.b/c_d_e"]),
        ("![a](https://a.b/c.png)", "{marker:[image: }{dim:a}{marker:]}", &["https://a.b/c.png"]),
        ("[a](https://a.b/&#27;]8;;x)", "{link:a}{dim: (https://a.b/\\x1b]8;;x)}", &[]),
    ] {
        let lines = markdown(text, 80, &theme);
        assert_eq!(marked(&lines), [expected], "{text:?}");
        let spans = lines.iter().flat_map(|line| &line.spans);
        let opened = spans.filter_map(|span| Some(hyperlinks.address(span.style)?.1.to_string()));
        assert_eq!(opened.collect::<Vec<_>>(), addresses, "{text:?}");
    }
    // each line of a wrapped address opens the whole
    let long = format!("https://a.b/{}", "c".repeat(50));
    let lines = markdown(&long, 20, &theme);
    assert_eq!(lines.len(), 4);
    let addresses = lines.iter().map(|line| hyperlinks.address(line.spans[0].style).unwrap().1);
    assert!(addresses.into_iter().all(|address| *address == *long));
}

#[test]
fn hostile_text_stays_text() {
    for (text, expected) in [
        ("&#27;[2J &#x202e;x &#7;", &["\\x1b[2J \\u{202e}x \\x07"][..]),
        ("[a](http://b \"&#27;]0;t\")", &["{link:a}{dim: (http://b)}"]),
        ("[http://good](http://bad)", &["{link:http://good}{dim: (http://bad)}"]),
        ("![a&#27;](data:x)", &["{marker:[image: }{dim:a\\x1b}{marker:]}{dim: (data:x)}"]),
        ("<b onclick=x>hi</b>", &["{dim:<b onclick=x>}hi{dim:</b>}"]),
        ("`a\u{1b}[31m`", &["{code:a\\x1b[31m}"]),
        ("```&#27;\na\u{7}b\n```", &["  {marker:\\x1b}", "  a\\x07b"]),
        ("a<br>b<br/>c", &["a", "b", "c"]),
    ] {
        assert_eq!(marked(&markdown(text, 80, &theme())), expected, "{text:?}");
    }
    let deep = format!("{}x", "> ".repeat(5000));
    assert_fits(&markdown(&deep, 20, &theme()), 20);
    let deep = format!("{}x", "- ".repeat(5000));
    assert_fits(&markdown(&deep, 20, &theme()), 20);
    let unclosed = "[".repeat(20_000) + &"*".repeat(20_000) + &"`".repeat(9_999);
    assert_fits(&markdown(&unclosed, 20, &theme()), 20);
    let columns = format!("{}\n{}\n{}\n", "|a".repeat(2000), "|-".repeat(2000), "|b".repeat(2000));
    assert_fits(&markdown(&columns, 20, &theme()), 20);
}

#[test]
fn a_long_text_in_small_pieces_is_handed_out_as_it_comes() {
    let line = "let a = \"some text\"; // and a comment\n";
    let text = format!("Before.\n\n```rust\n{}```\n\nAfter.\n", line.repeat(400));
    let mut stream = MarkdownStream::new(80, &theme());
    let mut lines = Vec::new();
    for piece in text.as_bytes().chunks(7) {
        stream.push(std::str::from_utf8(piece).unwrap());
        lines.extend(stream.take_finished());
        assert!(stream.live().len() <= 2);
    }
    lines.extend(stream.finish());
    assert_eq!(marked(&lines), marked(&markdown(&text, 80, &theme())));
}

#[test]
fn a_block_without_end_is_cut() {
    for text in ["word ".repeat(40_000), "x".repeat(200_000), "| a | b |\n".repeat(20_000)] {
        let mut stream = MarkdownStream::new(80, &theme());
        stream.push(&text);
        let finished = stream.take_finished();
        assert!(finished.len() > 1_000);
        assert!(stream.live().len() < 2_000);
        assert_fits(&finished, 80);
    }
}

#[test]
fn blocks_that_end_otherwise_than_they_began_are_whole() {
    for pieces in [&["`| ö | λ |\n", "- ", "<br>"][..], &["ö\n\n", "    ", "```\n", "```\n", "\n"]]
    {
        for width in [1, 20] {
            let whole = marked(&markdown(&pieces.concat(), width, &theme()));
            assert_eq!(marked(&streamed(pieces, width, &theme())), whole, "{pieces:?} {width}");
        }
    }
}

#[test]
fn a_task_that_begins_with_code_is_not_lost() {
    let pieces = ["- [ ] ", "``", "[ö](u:λ)", "``"];
    let whole = marked(&markdown(&pieces.concat(), 20, &theme()));
    assert_eq!(whole, ["{marker:• [ ] }{code:[ö](u:λ)}"]);
    assert_eq!(marked(&streamed(&pieces, 20, &theme())), whole);
}

#[test]
fn a_new_width_counts_for_what_is_not_finished() {
    let mut stream = MarkdownStream::new(40, &theme());
    stream.push("one two three\n\n- four five six\n- seven eight nine");
    let mut lines = marked(&stream.take_finished());
    assert_eq!(lines, ["one two three", "", "{marker:• }four five six"]);
    stream.resize(12);
    assert_eq!(marked(&stream.live()), ["{marker:• }seven", "  eight nine"]);
    stream.push(" ten");
    lines.extend(marked(&stream.finish()));
    assert_eq!(lines[3..], ["{marker:• }seven", "  eight nine", "  ten"]);
}

/// Pieces of Markdown, hostile ones too. The letters `öλ漢` are counted. There are no carriage returns and other control
/// characters, because the cleaner removes them.
fn fragments() -> impl Strategy<Value = Vec<String>> {
    let fragment = prop_oneof![
        4 => proptest::sample::select(vec![
            "ö", "λλ ", "漢", "ö ö", "\n", "\n\n", "\n", " ", "  ", "- ", "* ", "1. ", "10) ", "> ",
            "# ", "## ", "```\n", "```rust\n", "~~~\n", "`", "``", "**", "*", "_", "~~", "| ö | λ |\n",
            "|---|:-:|\n", "| 漢 |", "[ö](u:λ)", "![ö](λ)", "<br>", "<!--", "---\n", "===\n", "[^1]",
            "[^1]: ö", "- [ ] ", "- [x] ", "    ", "\t", "\\", "&amp;", "&#27;", "👩‍👩‍👧", "e\u{301}",
            "\u{200b}", "(", ")", "[", "]", "<", "|", "fn λ() {}\n", "> [!NOTE]\n", "  \n", "\\\n",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
        1 => r"[^\p{Cc}]{0,3}",
    ];
    proptest::collection::vec(fragment, 0..40)
}

fn count(text: &str) -> usize {
    text.chars().filter(|c| matches!(c, 'ö' | 'λ' | '漢')).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_fits_any_width(pieces in fragments(), width in 0_u16..130) {
        let text = pieces.concat();
        let linked = Theme { hyperlinks: Some(Hyperlinks::default()), ..theme() };
        for theme in [theme(), linked, Theme::new(ThemeName::Auto, ColorDepth::Plain, None)] {
            assert_fits(&markdown(&text, width, &theme), width);
        }
    }

    /// Except for the name of a fence's language, definitions that nothing refers to, and cells
    /// without a column.
    #[test]
    fn no_letter_is_lost(pieces in fragments(), width in 4_u16..130) {
        let text = pieces.concat();
        let is_named = |line: &str| {
            let line = line.trim_start_matches([' ', '>', '\t', '-', '*', '+', '.', ')', '1', '0']);
            line.starts_with("```") || line.starts_with("~~~") || line.contains("]:")
                || line.contains('|')
        };
        prop_assume!(!text.lines().any(|line| is_named(line) && count(line) > 0));
        let shown: String =
            markdown(&text, width, &theme()).iter().map(ToString::to_string).collect();
        prop_assert!(count(&shown) >= count(&text), "{text:?} {shown:?}");
    }

    /// Except for addresses that are defined elsewhere, because they may come late.
    #[test]
    fn pieces_make_the_same_lines_as_the_whole(pieces in fragments(), width in 1_u16..130) {
        let text = pieces.concat();
        prop_assume!(!text.contains("]:"));
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let lines = marked(&streamed(&pieces, width, &theme()));
        prop_assert_eq!(lines, marked(&markdown(&text, width, &theme())), "{:?}", text);
    }
}

#[test]
fn changes_look_as_recorded() {
    let files = FileDiff::parse(&document("changes.diff"));
    let options = DiffOptions { most: 200, rows: 3, names: true, context: usize::MAX, hint: "" };
    for width in [30, 40, 80, 120] {
        let lines = diff(&files, options, width, &theme());
        assert_fits(&lines, width);
        golden(&format!("changes-{width}.txt"), &lines);
    }
    let plain = Theme::new(ThemeName::Auto, ColorDepth::Plain, None);
    golden("changes-plain.txt", &diff(&files, options, 60, &plain));
}

#[test]
fn context_is_left_out_and_no_edge_is_blank() {
    let change = "--- a/x.py\n+++ b/x.py\n@@ -5,7 +5,8 @@ def f\n far\n \n near\n-old\n+new\n+more\n \n far\n\
        @@ -40,3 +41,3 @@ def g\n a\n-b\n+c\n d\n";
    for (context, expected) in [
        (
            1,
            &[
                " 7   near", " 8 - old", " 8 + new", " 9 + more",
                "   ⋮ 31 unchanged lines · def g", "41   a", "41 - b", "42 + c", "43   d",
            ][..],
        ),
        (
            0,
            &[
                " 8 - old", " 8 + new", " 9 + more", "   ⋮ 32 unchanged lines · def g", "41 - b",
                "42 + c",
            ],
        ),
    ] {
        let options = DiffOptions { context, names: false, ..DiffOptions::WHOLE };
        let files = FileDiff::parse(change);
        let lines = diff(&files, options, 80, &theme());
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, expected);
        let all = expected.iter().filter(|line| !line.contains('⋮')).count();
        assert_eq!(diff_lines(&files[0], context), all);
    }
}

#[test]
fn folded_changes_say_how_much_is_hidden() {
    let files = FileDiff::parse(&document("changes.diff"));
    let all = files.iter().flat_map(|file| &file.0);
    let all = all.filter(|line| !matches!(line.kind, LineKind::Names | LineKind::Hunk)).count();
    for most in 0..all {
        let options =
            DiffOptions { most, rows: usize::MAX, names: false, context: usize::MAX, hint: "" };
        let lines = marked(&diff(&files, options, 200, &theme()));
        let s = if all - most == 1 { "" } else { "s" };
        let more = format!("{{dim:… {} more line{s}}}", all - most);
        assert_eq!(lines.last().unwrap(), &more);
        let is_shown = |line: &&String| !line.contains("unchanged") && !line.contains("more line");
        assert_eq!(lines.iter().filter(is_shown).count(), most);
    }
    let long =
        FileDiff::parse(&format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+{}\n", "x".repeat(10_000)));
    let lines = diff(
        &long,
        DiffOptions { most: 10, rows: 2, names: false, context: usize::MAX, hint: "" },
        30,
        &theme(),
    );
    assert_eq!(marked(&lines).last().unwrap(), "{added-row}    {dim:… 9948 more characters}");
}

/// The text of the lines of a diff without the columns before it.
fn texts(lines: &[Line<'_>]) -> String {
    lines.iter().map(|line| line.to_string().trim_start().to_owned()).collect()
}

#[test]
fn whole_changes_lose_nothing_at_any_width() {
    let files = FileDiff::parse(&document("changes.diff"));
    for width in 1..100 {
        let lines = diff(&files, DiffOptions::WHOLE, width, &theme());
        assert_fits(&lines, width);
        assert!(width < 12 || texts(&lines).contains("control"), "{width}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_diff_fits_any_width(
        lines in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![
                    "--- a/x", "+++ b/x", "--- /dev/null", "@@ -1,3 +1,4 @@ fn", "@@ -0,0 +1 @@", "@@ what",
                    "@@ -18446744073709551615 +18446744073709551615 @@", "+", "-", " ", "\\ No newline",
                    "rename from a", "+ö漢", "-ö", "Binary files a and b differ", "",
                ]).prop_map(str::to_owned),
                "[-+ ].{0,30}",
            ],
            0..20,
        ),
        width in 0_u16..100,
        most in 0_usize..20,
    ) {
        let files = FileDiff::parse(&lines.join("\n"));
        assert_fits(&diff(&files, DiffOptions { most, rows: 2, names: true, context: usize::MAX, hint: "" }, width, &theme()), width);
        assert_fits(&diff(&files, DiffOptions::WHOLE, width, &theme()), width);
    }
}
