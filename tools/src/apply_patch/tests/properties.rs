//! Properties that hold for any text.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

use super::{changed, parse_patch, patch};
use crate::apply_patch::body;
use crate::apply_patch::parse::Change;
use crate::testing::{Site, cases};

/// Lines of a few words, so that many are equal; some look like parts of a patch.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = prop_oneof![
        6 => "[abc]{1,2}",
        1 => Just(String::new()),
        1 => " {1,3}[ab]?",
        1 => prop_oneof![
            Just("*** End Patch".to_owned()),
            Just("*** Update File: x".to_owned()),
            Just("*** End of File".to_owned()),
            Just("@@ a".to_owned()),
            Just("+a".to_owned()),
            Just("-a".to_owned()),
            Just("\u{201c}a\u{201d} \u{2014}".to_owned()),
        ],
    ];
    vec(line, 0..30)
}

fn text(lines: &[String], ending: &str, open: bool) -> String {
    let mut text: String = lines.iter().flat_map(|line| [line, ending]).collect();
    if open && lines.last().is_some_and(|line| !line.is_empty()) {
        text.truncate(text.len() - ending.len());
    }
    text
}

/// One hunk for the whole file, so that its place is unambiguous.
fn whole_file_hunk(old: &[String], new: &[String]) -> String {
    let [before, after] = [old, new].map(|lines| text(lines, "\n", false));
    let mut hunk = "@@\n".to_owned();
    for change in TextDiff::from_lines(&before, &after).iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        write!(hunk, "{sign}{}", change.value()).unwrap();
    }
    hunk
}

/// Hunks with `context` lines around each change, as a diff of distinct lines has them.
fn hunks(old: &[String], new: &[String], context: usize) -> String {
    let [before, after] = [old, new].map(|lines| text(lines, "\n", false));
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(context).to_string()
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_text_is_an_answer(text in any::<String>(), before in any::<String>()) {
        let _ = parse_patch(&text);
        for text in [patch(&text), patch(&format!("*** Update File: f\n{text}\n"))] {
            for section in parse_patch(&text).into_iter().flatten() {
                if let Change::Update { hunks, .. } = section.change {
                    let _ = body::apply(&before, &hunks);
                }
            }
        }
    }

    #[test]
    fn any_lines_are_an_answer(parts in vec(prop_oneof![
        Just("*** Begin Patch"), Just("*** End Patch"), Just("*** Add File: a"), Just("*** Update File: a"),
        Just("*** Move to: b"), Just("*** Delete File: a"), Just("*** End of File"), Just("@@"), Just("@@ a"),
        Just(" a"), Just("-a"), Just("+a"), Just(""), Just("a"), Just(" "), Just("EOF"), Just("```"), Just("<<EOF"),
    ], 0..14), before in lines()) {
        let inner = parts.join("\n");
        let before = text(&before, "\n", false);
        for text in [inner.clone(), patch(&format!("*** Update File: f\n{inner}\n"))] {
            for section in parse_patch(&text).into_iter().flatten() {
                if let Change::Update { hunks, .. } = section.change {
                    let _ = body::apply(&before, &hunks);
                }
            }
        }
    }

    #[test]
    fn a_diff_of_the_whole_file_makes_the_new_one(
        old in lines(), new in lines(), crlf in any::<bool>(), bom in any::<bool>(),
    ) {
        prop_assume!(!old.is_empty() || !new.is_empty());
        let ending = if crlf { "\r\n" } else { "\n" };
        // an empty file has no endings
        let new_ending = if old.is_empty() { "\n" } else { ending };
        let bom = if bom { "\u{feff}" } else { "" };
        let before = format!("{bom}{}", text(&old, ending, false));
        let after = format!("{bom}{}", text(&new, new_ending, false));
        prop_assert_eq!(changed(&before, &whole_file_hunk(&old, &new)), Ok(after));
    }

    #[test]
    fn a_file_without_a_newline_at_its_end_stays_so(mut old in lines(), mut new in lines()) {
        old.push("last".to_owned());
        new.push("end".to_owned());
        let (before, after) = (text(&old, "\n", true), text(&new, "\n", true));
        prop_assert_eq!(changed(&before, &whole_file_hunk(&old, &new)), Ok(after));
    }

    #[test]
    fn hunks_with_context_make_the_new_one(
        keep in vec(prop_oneof![4 => Just(0_u8), 1 => Just(1), 1 => Just(2), 1 => Just(3)], 1..40),
        context in 1_usize..4, crlf in any::<bool>(),
    ) {
        // all lines are distinct, because a hunk whose context occurs twice need not find its place
        let old: Vec<String> = (0..keep.len()).map(|n| format!("line {n}")).collect();
        let new: Vec<String> = keep.iter().zip(&old).flat_map(|(what, line)| match what {
            0 => vec![line.clone()],
            1 => vec![],
            2 => vec![format!("{line} changed")],
            _ => vec![line.clone(), format!("after {line}")],
        }).collect();
        prop_assume!(old != new);
        let ending = if crlf { "\r\n" } else { "\n" };
        let hunks = hunks(&old, &new, context);
        prop_assert_eq!(changed(&text(&old, ending, false), &hunks), Ok(text(&new, ending, false)));
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_patch_that_fails_leaves_the_folder_as_it_was(old in lines(), new in lines(), at in 0_usize..3) {
        prop_assume!(old != new && !old.is_empty());
        let good = [
            format!("*** Update File: f\n{}", whole_file_hunk(&old, &new)),
            "*** Add File: d/n\n+x\n".to_owned(),
            "*** Update File: g\n*** Move to: h\n".to_owned(),
        ];
        let mut sections = good.to_vec();
        sections.insert(at, "*** Update File: g\n@@\n-not in it\n".to_owned());
        let site = Site::new();
        let before = text(&old, "\n", false);
        site.file("f", &before);
        site.file("g", "g");
        let run = |sections: &[String]| {
            let input = serde_json::json!({ "patchText": patch(&sections.concat()) });
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(site.run("apply_patch", &input))
        };
        let output = run(&sections);
        prop_assert!(output.is_error, "{:?}", output);
        prop_assert_eq!((site.text("f"), site.text("g")), (before, "g".to_owned()));
        prop_assert_eq!(std::fs::read_dir(site.path("")).unwrap().count(), 2);
        let output = run(&good);
        prop_assert!(!output.is_error, "{:?}", output);
        prop_assert_eq!(site.text("f"), text(&new, "\n", false));
    }
}
