//! Truncates the output of every tool: the model gets a part, and a file gets the full text. The truncation limit is
//! [`OutputLimits`]: 2,000 lines and 51,200 bytes, unless settings say otherwise.

use std::io;

use leftfold_events::Json;
use leftfold_events::event::Spill;

use crate::spill::{MAX_SPILL, SpillFile};
use crate::{Output, OutputLimits, Workspace, text};

/// Cuts an output that is too long, keeping its beginning. Skips outputs with `metadata.truncated`:
/// the tool has cut them itself.
pub(crate) fn limit(mut output: Output, cx: &Workspace, call: &str) -> Output {
    let kept = head(&output.output, cx.limits);
    if kept.len() == output.output.len() || output.meta().contains_key("truncated") {
        return output;
    }
    let saved = save(&output.output, cx, call);
    let whole =
        Size { lines: output.output.lines().count() as u64, bytes: output.output.len() as u64 };
    let hint = hint("first", kept, whole, saved.as_ref(), cx);
    output.output = format!("{}\n\n{hint}", kept.trim_end_matches('\n'));
    output.spill = saved.ok().map(|(spill, _)| spill);
    output.mark("truncated", true);
    output
}

/// Cuts a text that replaces the output of `call`, by the limits of an output.
pub fn limited(text: String, cx: &Workspace, call: &str) -> String {
    let output = Output { output: text, metadata: Json::object(), ..Output::default() };
    limit(output, cx, call).output
}

fn save(text: &str, cx: &Workspace, call: &str) -> io::Result<(Spill, bool)> {
    let mut file = SpillFile::create(&cx.spill_dir, call)?;
    file.write(text.as_bytes())?;
    let full = file.full;
    Ok((file.finish(), full))
}

/// The size of an output before it was cut.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

/// The start of the note about what was cut.
const CUT: &str = "(Output cut: the ";

/// The lines that an output had before it was cut, and those that are left. `None`: it was not cut.
pub fn cut_lines(output: &str) -> Option<(u64, u64)> {
    let ends = [output.lines().next(), output.trim_end().lines().next_back()];
    let note = ends.into_iter().flatten().find_map(|line| line.strip_prefix(CUT))?;
    let (shown, rest) = note.split_once(" of ")?;
    let (whole, _) = rest.split_once(" lines, ")?;
    Some((whole.parse().ok()?, shown.split_once(' ')?.1.parse().ok()?))
}

/// Tells the model what was cut and how to read it. `side` is "first" or "last".
pub(crate) fn hint(
    side: &str,
    kept: &str,
    whole: Size,
    saved: Result<&(Spill, bool), &io::Error>,
    cx: &Workspace,
) -> String {
    let (Size { lines, bytes }, shown) = (whole, kept.lines().count());
    let cut = format!("{CUT}{side} {shown} of {lines} lines, {bytes} bytes in all.");
    match saved {
        Ok((spill, full)) => {
            let what = if *full {
                format!("Its first {} MiB are", MAX_SPILL / (1024 * 1024))
            } else {
                "The full text is".to_owned()
            };
            let path = &spill.path;
            // suggests `task` to agents that may use it
            let task =
                if cx.subagents.is_empty() { "" } else { ", or give it to an agent with task" };
            format!(
                "{cut} {what} in {path}: search it with grep, or read parts of it with read and an offset{task}.)"
            )
        }
        Err(error) => format!("{cut} The full text could not be saved: {error}.)"),
    }
}

/// The longest beginning of `text` within `limits`.
pub(crate) fn head(text: &str, limits: OutputLimits) -> &str {
    let bytes = text::floor(text, limits.max_bytes);
    let lines = text[..bytes].match_indices('\n').nth(limits.max_lines.saturating_sub(1));
    match lines {
        // a line break at the very end does not begin another line
        Some((at, _)) if at + 1 < text.len() => &text[..=at],
        _ => &text[..bytes],
    }
}

/// The longest beginning of `text` within `limits` that consists of whole lines.
pub(crate) fn whole_lines(text: &str, limits: OutputLimits) -> &str {
    let kept = head(text, limits);
    if kept.len() == text.len() {
        return text;
    }
    kept.rfind('\n').map_or("", |end| &kept[..=end])
}

/// The longest end of `text` within `limits`.
pub(crate) fn tail(text: &str, limits: OutputLimits) -> &str {
    let surplus = text.len().saturating_sub(limits.max_bytes);
    let start = (surplus..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let text = &text[start..];
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(limits.max_lines.saturating_sub(1)) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Site;

    fn limits(max_lines: usize, max_bytes: usize) -> OutputLimits {
        OutputLimits { max_lines, max_bytes }
    }

    #[test]
    fn heads_and_tails() {
        for (text, lines, bytes, first, last) in [
            ("a\nb\nc\n", 9, 99, "a\nb\nc\n", "a\nb\nc\n"),
            ("a\nb\nc\n", 3, 99, "a\nb\nc\n", "a\nb\nc\n"),
            ("a\nb\nc\n", 2, 99, "a\nb\n", "b\nc\n"),
            ("a\nb\nc", 2, 99, "a\nb\n", "b\nc"),
            ("a\nb\nc", 3, 99, "a\nb\nc", "a\nb\nc"),
            ("äöü", 9, 3, "ä", "ü"),
            ("", 1, 1, "", ""),
        ] {
            assert_eq!(head(text, limits(lines, bytes)), first, "{text:?} {lines} {bytes}");
            assert_eq!(tail(text, limits(lines, bytes)), last, "{text:?} {lines} {bytes}");
        }
    }

    #[test]
    fn whole_lines_are_never_cut_in_two() {
        for (text, lines, bytes, kept) in [
            ("aa\nbb\n", 9, 99, "aa\nbb\n"),
            ("aa\nbb", 9, 99, "aa\nbb"),
            ("aa\nbb\n", 9, 5, "aa\n"),
            ("aa\nbb\n", 9, 3, "aa\n"),
            ("aa\nbb\n", 1, 99, "aa\n"),
            ("aa\nbb\n", 9, 2, ""),
        ] {
            assert_eq!(whole_lines(text, limits(lines, bytes)), kept, "{text:?} {lines} {bytes}");
        }
    }

    #[test]
    fn long_outputs_are_cut_and_kept_in_a_file() {
        let site = Site::new();
        let full: String = (1..=3_000).map(|n| format!("line {n}\n")).collect();
        let output = limit(Output::new("t", &full, &json!({})), &site.workspace(), "c");
        assert!(output.output.contains("\nline 2000\n\n(Output cut: the first 2000 of 3000 lines"));
        assert_eq!(cut_lines(&output.output), Some((3000, 2000)));
        assert_eq!(cut_lines("line 1\nline 2"), None);
        assert!(!output.output.contains("line 2001"));
        assert_eq!(output.meta()["truncated"], true);
        let spill = output.spill.unwrap();
        assert!(output.output.contains(&spill.path) && output.output.contains("offset"));
        assert_eq!(std::fs::read_to_string(spill.path).unwrap(), full);
    }

    #[test]
    fn who_cuts_its_own_output_is_left_alone() {
        let site = Site::new();
        let output = Output::new("t", "x".repeat(60_000), &json!({ "truncated": false }));
        assert_eq!(limit(output.clone(), &site.workspace(), "c"), output);
    }

    #[test]
    fn without_a_place_for_the_rest_it_says_so() {
        let site = Site::new();
        let mut cx = site.workspace();
        cx.spill_dir = site.file("file", "").join("below");
        let output = limit(Output::new("t", "x".repeat(60_000), &json!({})), &cx, "c");
        assert!(output.output.contains("could not be saved"), "{}", &output.output[51_000..]);
        assert_eq!(output.spill, None);
    }
}
