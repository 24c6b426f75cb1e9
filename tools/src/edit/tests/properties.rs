//! Properties that hold for every text.

use proptest::prelude::*;

use crate::edit::levenshtein::distance;
use crate::edit::lines::runs;
use crate::edit::replace;
use crate::testing::cases;

/// Texts made of few different lines, so that many parts are nearly equal.
fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("{"),
        Just("}"),
        Just("  a b"),
        Just("\ta  b"),
        Just("a b"),
        Just(""),
        Just("   "),
        Just("ä\u{a0}👍"),
        Just("say \\\"x\\\" \\n"),
        Just("say \"x\" $1"),
        Just("    let value = 1;"),
        Just("let valve = 1; "),
    ];
    let ending = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("")];
    prop::collection::vec((line, ending), 0..12)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end]).collect())
}

/// The longest common start and end. Together they are no longer than the shorter text.
fn kept(before: &str, after: &str) -> (usize, usize) {
    let same = |(a, b): &(u8, u8)| a == b;
    let start = before.bytes().zip(after.bytes()).take_while(same).count();
    let end = before.bytes().rev().zip(after.bytes().rev()).take_while(same).count();
    let shorter = before.len().min(after.len());
    (start, end.min(shorter - start))
}

fn plain_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: ProptestConfig::default().failure_persistence,
        ..cases(300)
    })]

    #[test]
    fn nothing_panics_and_the_rest_stays(
        body in text(), old in text(), new in "[a-z\\\\$\n]{0,6}", all: bool
    ) {
        let marked = format!("\u{feff}{body}");
        let Ok(done) = replace(&body, &old, &new, all, "f") else {
            prop_assert!(replace(&marked, &old, &new, all, "f").is_err());
            return Ok(());
        };
        prop_assert_eq!(
            replace(&marked, &old, &new, all, "f").unwrap().text,
            format!("\u{feff}{}", done.text)
        );
        prop_assert!(!old.trim().is_empty() || done.strategy.leniency().is_none());
        if done.count == 1 {
            // everything between the unchanged start and end comes from `new` alone
            let (start, end) = kept(&body, &done.text);
            let put = &done.text.as_bytes()[start..done.text.len() - end];
            // line endings and indentation become those of the file
            let words = |text: &[u8]| -> Vec<u8> {
                text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
            };
            let (put, new) = (words(put), words(new.as_bytes()));
            let is_within = put.is_empty() || new.windows(put.len()).any(|part| part == put);
            prop_assert!(is_within, "{:?} is not in {:?}", put, new);
        }
    }

    #[test]
    fn a_unique_exact_match_wins(before in text(), after in text(), new in "[ -~ä👍\n]{0,5}") {
        let body = format!("{before}<<here>>{after}");
        let body = body.replace("\r\n", "\n");
        let (start, end) = body.split_once("<<here>>").unwrap();
        let done = replace(&body, "<<here>>", &new, false, "f").unwrap();
        prop_assert_eq!(done.strategy.name(), "simple");
        prop_assert_eq!(done.text, format!("{start}{new}{end}"));
    }

    #[test]
    fn a_text_is_found_in_itself_however_it_is_indented(body in text(), indent in "[ \t]{0,4}") {
        let lines: Vec<String> = body.lines().map(|line| format!("{indent}{line}\n")).collect();
        let old = lines.concat();
        prop_assume!(!body.trim().is_empty());
        let done = replace(&body, &old, "new\n", false, "f");
        prop_assert!(matches!(&done, Ok(done) if done.count == 1)
            || done.as_ref().is_err_and(|error| error.kind() == "multiple_matches")
            || indent.is_empty(), "{:?}", done);
    }

    #[test]
    fn all_hits_go(body in "[ab\n]{0,40}", old in "[ab]{1,3}", new in "[cd]{0,2}") {
        if let Ok(done) = replace(&body, &old, &new, true, "f") {
            prop_assert_eq!(done.text, body.replace(&old, &new));
        } else {
            prop_assert!(!body.contains(&old));
        }
    }

    #[test]
    fn runs_are_those_of_a_plain_search(
        hay in prop::collection::vec(0..3_u8, 0..60), needle in prop::collection::vec(0..3_u8, 1..6)
    ) {
        let plain: Vec<usize> = (0..hay.len())
            .filter(|at| hay[*at..].starts_with(&needle))
            .collect();
        let found: Vec<usize> = runs(hay.len(), |at| hay[at], needle).collect();
        prop_assert_eq!(found, plain);
    }

    #[test]
    fn distances_are_those_of_the_plain_matrix(a in "[abä]{0,200}", b in "[abä]{0,200}") {
        let [a, b] = [a, b].map(|text| text.chars().collect::<Vec<char>>());
        let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
        prop_assert_eq!(distance(short, long), plain_distance(short, long));
    }
}
