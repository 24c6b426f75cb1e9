#![no_main]
//! The matcher of permission rules against its definition, as a table.

use leftfold_events::rules::matches;

/// Whether the whole of `text` is what `pattern` says, cell by cell.
fn defined(pattern: &[char], text: &[char]) -> bool {
    let mut row: Vec<bool> = (0..=text.len()).map(|end| end == 0).collect();
    for p in pattern {
        let mut above = row[0];
        row[0] = row[0] && *p == '*';
        for (at, t) in text.iter().enumerate() {
            let here = match p {
                '*' => row[at + 1] || row[at],
                '?' => above,
                p => above && p == t,
            };
            above = std::mem::replace(&mut row[at + 1], here);
        }
    }
    row[text.len()]
}

libfuzzer_sys::fuzz_target!(|texts: (&str, &str)| {
    let (pattern, text) = texts;
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let expected = [Some(pattern), pattern.strip_suffix(" *")]
        .into_iter()
        .flatten()
        .any(|pattern| defined(&chars(pattern), &chars(text)));
    assert_eq!(matches(pattern, text), expected, "{pattern:?} on {text:?}");
});
