//! A unified diff over several files, taken apart. Only the numbers in the heads of its hunks say where
//! a file's part ends: a line that was removed may look like the head of the next.

use std::path::Path;

use agent_client_protocol::v1::schema::{Diff, ToolCallContent};

/// The changes of each file, by those of the absolute `paths` that its name in the diff is the end of;
/// none if that is not clear for one of them.
pub(super) fn of_many(diff: &str, paths: &[String]) -> Option<Vec<ToolCallContent>> {
    let mut all = Vec::new();
    for part in parts(diff) {
        let mut meant = paths.iter().filter(|path| Path::new(path).ends_with(part.name));
        let (Some(path), None) = (meant.next(), meant.next()) else { return None };
        all.extend(changes(part.text, path));
    }
    (!all.is_empty()).then_some(all)
}

/// The hunks of a unified diff, each with the few lines around it.
pub(super) fn changes(diff: &str, path: &str) -> Vec<ToolCallContent> {
    let created = diff.starts_with("--- /dev/null\n");
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in diff.split_inclusive('\n').skip(2) {
        if line.starts_with("@@ ") {
            hunks.push((String::new(), String::new()));
            continue;
        }
        let Some((old, new)) = hunks.last_mut() else { continue };
        let (mark, rest) = line.split_at_checked(1).unwrap_or((line, ""));
        match mark {
            "-" => old.push_str(rest),
            "+" => new.push_str(rest),
            " " => {
                old.push_str(rest);
                new.push_str(rest);
            }
            // `\ No newline at end of file`, about the line before it
            _ => {}
        }
    }
    let change = |(old, new): (String, String)| {
        ToolCallContent::Diff(Diff::new(path, new).old_text((!created).then_some(old)))
    };
    hunks.into_iter().map(change).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Part<'a> {
    name: &'a str,
    /// With its two lines of names.
    text: &'a str,
}

fn parts(diff: &str) -> Vec<Part<'_>> {
    let (mut starts, mut at) = (Vec::new(), 0);
    // lines that the hunk still has of the old text, and of the new
    let (mut old, mut new) = (0_u64, 0_u64);
    for line in diff.split_inclusive('\n') {
        match line.as_bytes().first() {
            Some(b'-') if old > 0 => old -= 1,
            Some(b'+') if new > 0 => new -= 1,
            Some(b' ') if old > 0 || new > 0 => {
                old = old.saturating_sub(1);
                new = new.saturating_sub(1);
            }
            Some(b'@') => (old, new) = lengths(line).unwrap_or_default(),
            _ if line.starts_with("--- ") => starts.push(at),
            _ => {}
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let texts = starts.iter().zip(ends).filter_map(|(start, end)| diff.get(*start..end));
    texts.filter_map(|text| Some(Part { name: name(text)?, text })).collect()
}

/// Of `@@ -1,3 +1,4 @@`; one line where no length stands.
fn lengths(line: &str) -> Option<(u64, u64)> {
    let mut ranges = line.strip_prefix("@@ -")?.split(" @@").next()?.split(" +");
    let mut length = || -> Option<u64> {
        let (_, length) = ranges.next()?.split_once(',').unwrap_or(("", "1"));
        length.parse().ok()
    };
    Some((length()?, length()?))
}

/// The new name, or the old one of a file that is gone.
fn name(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    let (old, new) = (lines.next()?.strip_prefix("--- ")?, lines.next()?.strip_prefix("+++ ")?);
    new.strip_prefix("b/").or_else(|| old.strip_prefix("a/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/one\n+++ b/one\n@@ -1,2 +1 @@\n--- a/x\n a\n--- /dev/null\n+++ b/d/two\n\
        @@ -0,0 +1,2 @@\n+++ b\n+b\nrename from three\nrename to four\n--- a/three\n+++ b/four\n\
        --- a/five\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";

    #[test]
    fn what_looks_like_a_head_in_a_hunk_is_none() {
        let names: Vec<&str> = parts(DIFF).iter().map(|part| part.name).collect();
        assert_eq!(names, ["one", "d/two", "four", "five"]);
    }

    #[test]
    fn every_file_has_its_own_changes() {
        let paths = ["/p/d/two", "/p/five", "/p/four", "/p/one"].map(str::to_owned);
        let changes = of_many(DIFF, &paths).unwrap();
        let paths: Vec<String> = changes
            .iter()
            .map(|content| {
                let ToolCallContent::Diff(diff) = content else { panic!("{content:?}") };
                diff.path.display().to_string()
            })
            .collect();
        assert_eq!(paths, ["/p/one", "/p/d/two", "/p/five"]);
        let two = ["/p/one", "/q/one", "/p/d/two", "/p/four", "/p/five"].map(str::to_owned);
        assert_eq!(of_many(DIFF, &two), None);
    }

    fn diffs(content: &[ToolCallContent]) -> Vec<(Option<&str>, &str)> {
        let mut diffs = Vec::new();
        for content in content {
            let ToolCallContent::Diff(diff) = content else { panic!("{content:?}") };
            diffs.push((diff.old_text.as_deref(), diff.new_text.as_str()));
        }
        diffs
    }

    #[test]
    fn every_hunk_is_a_change_with_what_stands_around_it() {
        let diff = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -9,1 +9,2 @@\n x\n+--y\n";
        let content = changes(diff, "/p/f");
        assert_eq!(diffs(&content), [(Some("a\nb\nc\n"), "a\nB\nc\n"), (Some("x\n"), "x\n--y\n")]);
    }

    #[test]
    fn a_new_file_has_no_text_before() {
        let content = changes("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "/p/f");
        assert_eq!(diffs(&content), [(None, "a\n")]);
    }
}
