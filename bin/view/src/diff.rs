//! Parses a unified diff of one or more files into lines. The files themselves are never read.

use leftfold_events::event::Finished;

/// The part of a diff for one file: its names, then its hunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff(pub Vec<DiffLine>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: LineKind,
    /// The line as it is in the diff, with its mark.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A line before the first hunk, such as `--- a/name`.
    Names,
    /// `@@ -1,3 +1,4 @@`: the head of a hunk.
    Hunk,
    Context,
    Removed,
    Added,
    /// `\ No newline at end of file`, a note about the line before it.
    Note,
}

impl FileDiff {
    /// The changes in a call's result; `None` if the result has no diff.
    pub fn of_call(finished: &Finished) -> Option<Vec<Self>> {
        Some(Self::parse(finished.metadata.value().get("diff")?.as_str()?))
    }

    /// Parses a diff, which may be cut off anywhere. Lines that cannot be parsed become `Names`.
    pub fn parse(diff: &str) -> Vec<Self> {
        let mut files: Vec<Self> = Vec::new();
        let mut in_names = true;
        // Lines of the old text left in the hunk. While there are some, `--- ` begins a removed
        // line.
        let mut old = 0_u64;
        for text in diff.split_terminator('\n') {
            let kind = match text.as_bytes().first() {
                Some(b'@') => LineKind::Hunk,
                _ if in_names => LineKind::Names,
                Some(b'-') if old > 0 || !text.starts_with("--- ") => LineKind::Removed,
                Some(b'+') => LineKind::Added,
                Some(b' ') => LineKind::Context,
                Some(b'\\') | None => LineKind::Note,
                _ => LineKind::Names,
            };
            let is_next = |file: &Self| {
                kind == LineKind::Names
                    && (!in_names || text.starts_with("--- ") && file.after("--- ").is_some())
            };
            if files.last().is_none_or(is_next) {
                files.push(Self::default());
            }
            old = match kind {
                LineKind::Hunk => old_length(text).unwrap_or_default(),
                LineKind::Context | LineKind::Removed => old.saturating_sub(1),
                LineKind::Names | LineKind::Added | LineKind::Note => old,
            };
            in_names = kind == LineKind::Names;
            if let Some(file) = files.last_mut() {
                file.0.push(DiffLine { kind, text: text.to_owned() });
            }
        }
        files
    }

    /// The text after `key` in one of the lines of names.
    pub fn after(&self, key: &str) -> Option<&str> {
        let mut names = self.0.iter().take_while(|line| line.kind == LineKind::Names);
        names.find_map(|line| line.text.strip_prefix(key))
    }

    /// The lines of each hunk.
    pub fn hunks(&self) -> impl Iterator<Item = &[DiffLine]> {
        self.0.split(|line| line.kind == LineKind::Hunk).skip(1)
    }
}

/// The 3 of `@@ -1,3 +1,4 @@`; a missing length means one line.
fn old_length(head: &str) -> Option<u64> {
    let range = head.strip_prefix("@@ -")?.split(' ').next()?;
    range.split_once(',').map_or("1", |(_, length)| length).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/one\n+++ b/one\n@@ -1,2 +1 @@\n--- a/x\n a\n--- /dev/null\n+++ b/d/two\n\
        @@ -0,0 +1,2 @@\n+++ b\n+b\nrename from three\nrename to four\n--- a/three\n+++ b/four\n\
        --- a/five\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n\\ No newline at end of file\n";

    #[test]
    fn what_looks_like_a_head_in_a_hunk_is_none() {
        let files = FileDiff::parse(DIFF);
        let names: Vec<_> = files.iter().filter_map(|file| file.after("+++ ")).collect();
        assert_eq!(names, ["b/one", "b/d/two", "b/four", "/dev/null"]);
        let hunks = files.iter().flat_map(FileDiff::hunks);
        let hunks = hunks.map(|lines| lines.iter().map(|line| line.kind).collect::<Vec<_>>());
        use LineKind::{Added, Context, Note, Removed};
        let expected = [vec![Removed, Context], vec![Added, Added], vec![Removed, Note]];
        assert_eq!(hunks.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_line_is_lost() {
        let cut = &DIFF[..DIFF.len() - 30];
        let odd = "@@ -1 +1 @@\n ctx\n-old\n+new\n\ndiff --git\n--- a/x\n+++ b/x\n@@ what\n-- y\n";
        for diff in ["", "no\ndiff\n", cut, odd, DIFF] {
            let files = FileDiff::parse(diff);
            let lines = files.iter().flat_map(|file| &file.0).map(|line| line.text.as_str());
            assert_eq!(lines.collect::<Vec<_>>(), diff.lines().collect::<Vec<_>>());
        }
    }
}
