use super::*;

const TABLE: [(&str, &str); 24] = [
    ("plain\ntext", "plain\ntext"),
    ("\u{1b}[31mred\u{1b}[0m", "red"),
    ("\u{1b}[2J\u{1b}[Hhome", "home"),
    ("\u{1b}]0;a title\u{7}shown", "shown"),
    ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
    ("\u{1b}]52;c;never ended\nnext line", "\nnext line"),
    ("\u{1b}P1$r\u{1b}\\device", "device"),
    ("\u{1b}(B\u{1b}=\u{1b}cx", "x"),
    ("\u{1b}$(Bx", "x"),
    ("\u{9b}31meight bit", "eight bit"),
    ("bell\u{7} back\u{8}space del\u{7f}", "bell backspace del"),
    ("a\tb", "a    b"),
    ("10%\r50%\r100%\r\ndone", "100%\ndone"),
    ("right\u{202e}left\u{2066}", "rightleft"),
    ("wide 漢字 🦀", "wide 漢字 🦀"),
    ("so\u{ad}ft ze\u{200b}ro \u{feff}mark", "soft zero mark"),
    ("tag\u{e0041}\u{e007f} select\u{fe01}\u{fe0f}\u{e0100}ed", "tag selected"),
    ("fill\u{3164}\u{115f}\u{ffa0}er\u{2028}\u{2029}", "filler"),
    ("jo\u{200d}in\u{200c}ed", "joined"),
    // emoji and spelling keep what they need, once
    ("❤\u{fe0f}\u{fe0f} ❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f} ❤\u{fe0f}\u{200d}🔥"),
    ("👩🏽\u{200d}\u{200d}🚀 🧑\u{200d}x", "👩🏽\u{200d}🚀 🧑x"),
    ("می\u{200c}شود", "می\u{200c}شود"),
    ("می\u{200c} شود\u{200c}", "می شود"),
    ("क\u{94d}\u{200d}ष", "क\u{94d}\u{200d}ष"),
];

/// Cleans a text in one piece.
fn streamed(text: &str) -> String {
    Cleaner::default().clean(text)
}

/// Every character that no output may have, whatever stands around it.
fn forbidden() -> impl Iterator<Item = char> {
    let controls = (0..0x20).chain(0x7f..0xa0).filter(|c| !matches!(c, 0x09 | 0x0a));
    let invisible = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| is_invisible(*c));
    controls.filter_map(char::from_u32).chain(invisible)
}

/// The names of the 7- and 8-bit introducers of strings, and how strings end.
const STRINGS: [&str; 10] = [
    "\u{1b}]", "\u{1b}P", "\u{1b}X", "\u{1b}^", "\u{1b}_", "\u{9d}", "\u{90}", "\u{98}", "\u{9e}",
    "\u{9f}",
];
const ENDS: [&str; 4] = ["\u{7}", "\u{1b}\\", "\u{9c}", "\n"];

#[test]
fn nothing_that_drives_a_terminal_is_left() {
    for (text, expected) in TABLE {
        assert_eq!(clean(text), expected, "{text:?}");
    }
}

#[test]
fn sequences_are_found_however_they_are_cut() {
    let mut texts: Vec<String> = TABLE.iter().map(|(text, _)| (*text).to_owned()).collect();
    for string in STRINGS {
        texts.extend(ENDS.map(|end| format!("a{string}0;title{end}b")));
        texts.push(format!("a{string}never ended"));
    }
    for introducer in ["\u{1b}[", "\u{9b}"] {
        for last in '@'..='~' {
            let text = format!("a{introducer}?1;2 {last}b");
            assert_eq!(streamed(&text), "ab", "{text:?}");
            texts.push(text);
        }
    }
    for one in ('0'..='Z').chain('`'..='~').filter(|c| !matches!(c, 'P' | 'X')) {
        let text = format!("a\u{1b}{one}b");
        assert_eq!(streamed(&text), "ab", "{text:?}");
        texts.push(text);
    }
    for c in forbidden().filter(|c| *c < '\u{e0080}') {
        // a joiner may be kept later on
        texts.extend([format!("a{c}b"), format!("❤{c}❤"), format!("\u{1b}]{c}\u{1b}[{c}m{c}b")]);
    }
    for text in texts {
        let whole = streamed(&text);
        assert_eq!(printable(&whole), whole, "{text:?}");
        assert!(!whole.contains("title") && !whole.contains("never"), "{text:?}: {whole:?}");
        let chars: Vec<char> = text.chars().collect();
        for at in 0..=chars.len() {
            let mut cleaner = Cleaner::default();
            let (head, tail): (String, String) =
                (chars[..at].iter().collect(), chars[at..].iter().collect());
            let head = cleaner.clean(&head);
            assert_eq!(head + &cleaner.clean(&tail), whole, "{text:?} at {at}");
        }
        let mut cleaner = Cleaner::default();
        let pieces: String = chars.iter().map(|c| cleaner.clean(&c.to_string())).collect();
        assert_eq!(pieces, whole, "{text:?}");
    }
}

#[test]
fn every_control_and_invisible_character_is_removed_or_escaped() {
    let mut count = 0;
    for c in forbidden() {
        count += 1;
        let text = format!("a{c}b");
        for cleaned in [clean(&text), clean_line(&text), streamed(&text)] {
            assert!(!cleaned.contains(c), "{text:?}: {cleaned:?}");
        }
        let code = if c.is_ascii() {
            format!("a\\x{:02x}b", u32::from(c))
        } else {
            format!("a\\u{{{:x}}}b", u32::from(c))
        };
        assert_eq!(visible(&text), code);
        assert_eq!(visible_line(&text), code);
        assert_eq!(printable(&text), code);
        assert_eq!(printable_line(&text), code);
        if !is_joiner(c) && !is_emoji_style(c) {
            assert_eq!(guarded(&text), code);
        }
        let json = serde_json::to_string(&text).unwrap();
        let escaped = escape_json(&json);
        assert!(!escaped.contains(c), "{json}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
    assert!(count > 4_000, "{count}");
    for c in [
        '\u{61c}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}',
        '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2060}', '\u{2064}', '\u{2066}',
        '\u{2067}', '\u{2068}', '\u{2069}', '\u{206a}', '\u{206f}', '\u{feff}', '\u{180e}',
        '\u{ad}', '\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{34f}', '\u{fe00}',
        '\u{e0100}', '\u{e0000}', '\u{e0001}', '\u{e007f}', '\u{2028}', '\u{2029}', '\u{fff9}',
        '\u{fffa}', '\u{fffb}',
    ] {
        assert!(is_invisible(c), "{c:?}");
    }
}

/// The characters are those of Unicode's tables, except marks that are drawn around digits.
#[test]
fn invisible_characters_are_those_of_unicode() {
    let class = |name: &str| {
        let parsed = regex_syntax::parse(&format!(r"\p{{{name}}}")).unwrap();
        let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) =
            parsed.into_kind()
        else {
            panic!("{name} is no class");
        };
        class
    };
    let mut wanted = class("Cf");
    wanted.union(&class("Default_Ignorable_Code_Point"));
    wanted.difference(&class("Prepended_Concatenation_Mark"));
    let is_wanted = |c: char| wanted.ranges().iter().any(|r| (r.start()..=r.end()).contains(&c));
    for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
        assert!(is_invisible(c) || !is_wanted(c), "{}", c.escape_unicode());
    }
}

#[test]
fn what_a_person_decides_on_is_shown_as_it_is() {
    for (text, shown) in [
        ("rm -rf x\rls", r"rm -rf x\x0dls"),
        ("\u{1b}[8mhidden\u{9b}0m", r"\x1b[8mhidden\u{9b}0m"),
        ("cat a\u{202e}txt.exe", r"cat a\u{202e}txt.exe"),
        ("rm\u{a0}x\u{3000}y", r"rm\u{a0}x\u{3000}y"),
        ("echo ❤\u{fe0f}", r"echo ❤\u{fe0f}"),
        // backslashes of commands stay, unless they would read as an escape
        (r"grep '\.rs$' | tr -d '\r\n\t\\'", r"grep '\.rs$' | tr -d '\r\n\t\\'"),
        (r"printf '\x1b'", r"printf '\\x1b'"),
        (r"'\u{202e}' '\u{}' '\xg'", r"'\\u{202e}' '\u{}' '\xg'"),
        ("\\\u{1b}", r"\\\x1b"),
        (r"\\x1b", r"\\\\x1b"),
        (
            "two\nlines\tof é 漢字", r"two
lines\x09of é 漢字",
        ),
        ("'My  Docs'  ", r"'My  Docs' \x20"),
        ("a \nb", "a\\x20\nb"),
        (r"a\x20", r"a\\x20"),
        ("a\u{2800}b\u{16fe4}\u{e000}\u{13441}", r"a\u{2800}b\u{16fe4}\u{e000}\u{13441}"),
    ] {
        assert_eq!(visible(text), shown, "{text:?}");
    }
    assert_eq!(visible_line("a\tb\nc"), r"a\x09b\x0ac");
    assert_eq!(visible_code("\tif a {\u{202e} "), r"    if a {\u{202e} ");
    assert_eq!(visible_code(r"a\x20"), r"a\\x20");
    assert_eq!(printable_line("a\tb\nc\u{1b}"), r"a\x09b\x0ac\x1b");
    assert_eq!(printable("a\tb\nc"), "a\tb\nc");
}

/// Reads what [`visible_line`] shows back.
fn decoded(shown: &str) -> String {
    let mut out = String::new();
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let run = rest.len() - rest.trim_start_matches('\\').len();
        let tail = &rest[run..];
        rest = tail;
        if !reads_as_escape(tail) {
            out.push_str(&"\\".repeat(run));
            continue;
        }
        out.push_str(&"\\".repeat(run / 2));
        if run % 2 == 1 {
            let (code, length) = match tail.strip_prefix("u{") {
                Some(code) => (code.split('}').next().unwrap(), code.find('}').unwrap() + 3),
                None => (&tail[1..3], 3),
            };
            out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
            rest = &tail[length..];
        }
    }
    out + rest
}

/// Random texts of the characters that matter most, always the same ones.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 40] = [
            "\u{1b}", "[", "]", "P", "\\", "\\", "\\\\", "x", "x1b", "u{", "202e", "}", "u{202e}",
            "\u{9b}", "\u{9c}", "\u{9d}", "\u{90}", "\u{7}", "\u{8}", "\r", "\n", "\t", " ", "m",
            "31", ";", "\u{200d}", "\u{200c}", "\u{fe0f}", "\u{fe0e}", "❤", "🔥", "ی", "ش",
            "\u{202e}", "\u{2066}", "\u{e0041}", "\u{7f}", "é", "\u{a0}",
        ];
        let length = self.below(12);
        (0..length)
            .map(|_| match self.below(20) {
                0 => char::from_u32(u32::try_from(self.below(0x0011_0000)).unwrap())
                    .unwrap_or('x')
                    .to_string(),
                _ => PIECES[self.below(PIECES.len())].to_owned(),
            })
            .collect()
    }
}

#[test]
fn random_texts_come_out_clean_and_come_back() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200_000 {
        let text = random.text();
        for cleaned in [clean(&text), clean_line(&text), streamed(&text)] {
            assert!(!cleaned.contains('\t'), "{text:?}");
            assert_eq!(printable(&cleaned), cleaned, "{text:?}");
            assert_eq!(streamed(&cleaned), cleaned, "{text:?}");
        }
        let kept = Cleaner::keeping_tabs().clean(&text);
        assert_eq!(printable(&kept), kept, "{text:?}");
        assert_eq!(guarded(&kept), kept, "{text:?}");
        let shown = visible_line(&text);
        assert!(!shown.chars().any(|c| c.is_control() || is_invisible(c)), "{text:?}");
        assert_eq!(decoded(&shown), text, "{shown}");
        assert_eq!(decoded(&visible(&text)), text, "{text:?}");
        for shown in [printable(&text), visible(&text).into(), printable_line(&text)] {
            assert_eq!(printable(&shown), shown, "{text:?}");
        }
        let mut cleaner = Cleaner::default();
        let pieces: String = text.chars().map(|c| cleaner.clean(&c.to_string())).collect();
        assert_eq!(pieces, streamed(&text), "{text:?}");
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<String>(&escape_json(&json)).unwrap(), text);
    }
}

#[test]
fn a_text_is_cut_by_columns_and_by_characters() {
    assert_eq!(clip("漢字漢字", 6), "漢字…");
    assert_eq!(clip("short", 5), "short");
    assert_eq!(clip("longer", 5), "long…");
    assert_eq!(clip("a0\u{fe0f}bcd", 4), "a0\u{fe0f}…");
    assert_eq!(clip("a0\u{fe0f}bcd", 3), "a0…");
    let stacked = format!("a{}", "\u{301}".repeat(100_000));
    assert!(clip(&stacked, 10).chars().count() < 100);
}
