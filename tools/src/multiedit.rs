//! `multiedit`: several replacements in one file, all or none.

use std::path::{Path, PathBuf};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::diff::FilePreview;
use crate::edit::{self, AppliedChange, Change, ProposedWrite};
use crate::text_files::TextFiles;
use crate::tool::{Seen, ToolKind, Typed};
use crate::{Context, Error, Output, Plan, Workspace, paths, write};

#[derive(Debug)]
pub(crate) struct MultiEdit;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The replacements, in order. Each is applied to the result of the one before it.
    edits: Vec<Change>,
}

impl Typed for MultiEdit {
    type Args = Args;
    const NAME: &'static str = "multiedit";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/multiedit.md");
    const KIND: ToolKind = ToolKind::Edit;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        if args.edits.is_empty() {
            let problem = "`edits` is empty; it takes at least one edit".to_owned();
            return Err(Error::InvalidArguments { tool: Self::NAME, problem });
        }
        for (nth, change) in args.edits.iter().enumerate() {
            change.check().map_err(|error| args.failed(nth, error))?;
        }
        Ok(paths::resolve(&args.file_path, cx)?.judged(Plan::new(Class::Write), "edit"))
    }

    fn preview(
        args: &Args,
        paths: Vec<PathBuf>,
        cx: &Workspace,
    ) -> Result<Vec<FilePreview>, Error> {
        write::previewing(&args.file_path, paths, cx, |path, texts| {
            let (_, before) = edit::load(path, &Seen::new(), texts)?;
            let done = args.apply(before.as_deref(), path)?;
            Ok((before, done.last().map(|done| done.text().to_owned()).unwrap_or_default()))
        })
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let (seen, texts) = (cx.seen.clone(), TextFiles::from_context(&cx));
        write::changing(paths, cx, move |path| multiedit(&args, path, &seen, &texts)).await
    }
}

impl Args {
    fn failed(&self, nth: usize, reason: Error) -> Error {
        Error::Edit { number: nth + 1, of: self.edits.len(), reason: Box::new(reason) }
    }

    /// Applies all edits, each to the result of the one before.
    fn apply(&self, before: Option<&str>, path: &Path) -> Result<Vec<AppliedChange>, Error> {
        let mut done: Vec<AppliedChange> = Vec::new();
        for (nth, change) in self.edits.iter().enumerate() {
            let text = done.last().map_or(before, |done| Some(done.text()));
            done.push(change.apply(text, path).map_err(|error| self.failed(nth, error))?);
        }
        Ok(done)
    }
}

fn multiedit(args: &Args, path: &Path, seen: &Seen, texts: &TextFiles) -> Result<Output, Error> {
    edit::change_file(&args.file_path, path, seen, texts, |before| {
        let done = args.apply(before, path)?;
        let count: usize = done.iter().map(AppliedChange::count).sum();
        let strategies: Vec<_> = done.iter().map(AppliedChange::strategy).collect();
        let mut fields = Map::new();
        fields.insert("edits".to_owned(), json!(done.len()));
        fields.insert("replacements".to_owned(), json!(count));
        fields.insert("strategies".to_owned(), json!(strategies));
        let notes = done
            .iter()
            .zip(1..)
            .filter_map(|(done, number)| done.note().map(|note| format!("Edit {number}: {note}")));
        let did = match (before, done.len()) {
            (None, _) => "Created".to_owned(),
            (Some(_), 1) => "Made 1 edit in".to_owned(),
            (Some(_), edits) => format!("Made {edits} edits in"),
        };
        let text = done.last().map(|done| done.text().to_owned()).unwrap_or_default();
        Ok(ProposedWrite { text, did, fields, notes: notes.collect() })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{Site, kind};

    fn edits(path: &str, edits: &[(&str, &str)]) -> Value {
        let edits: Vec<Value> =
            edits.iter().map(|(old, new)| json!({ "oldString": old, "newString": new })).collect();
        json!({ "filePath": path, "edits": edits })
    }

    #[tokio::test]
    async fn each_edit_sees_what_the_one_before_has_left() {
        let site = Site::new();
        for (before, list, after) in [
            ("a b c", &[("a", "x"), ("c", "z")][..], "x b z"),
            ("a", &[("a", "bb"), ("bb", "ccc"), ("ccc", "d")], "d"),
            ("a a", &[("a a", "a b"), ("a", "c")], "c b"),
            ("a\r\nb\r\n", &[("a\nb", "c\nd"), ("c\nd\n", "e\n")], "e\r\n"),
            ("\u{feff}a\n", &[("a", "b"), ("b", "\u{feff}c")], "\u{feff}c\n"),
            ("  a\n  b", &[("a\nb", "c"), ("c", "d")], "d"),
        ] {
            site.file("f", before);
            let output = site.run("multiedit", &edits("f", list)).await;
            assert!(!output.is_error, "{output:?}");
            assert_eq!(site.text("f"), after);
            assert_eq!(output.meta()["edits"], list.len());
        }
    }

    #[tokio::test]
    async fn one_that_fails_leaves_the_file_as_it_was() {
        let site = Site::new();
        site.file("f", "a b b\n");
        for (list, number, expected) in [
            (&[("a", "x"), ("nope", "y"), ("b", "z")][..], "Edit 2 of 3", "no_match"),
            (&[("a", "x"), ("a", "y")], "Edit 2 of 2", "no_match"),
            (&[("a", "x"), ("b", "y")], "Edit 2 of 2", "multiple_matches"),
            (&[("", "x"), ("b", "y")], "Edit 1 of 2", "empty_old_string"),
            (&[("a", "x"), ("", "y")], "Edit 2 of 2", "empty_old_string"),
        ] {
            let output = site.run("multiedit", &edits("f", list)).await;
            assert_eq!(kind(&output), expected, "{list:?}");
            assert!(output.output.starts_with(number), "{}", output.output);
            assert_eq!(site.text("f"), "a b b\n");
        }
        let output = site.run("multiedit", &edits("new", &[("", "a\n"), ("b", "c")])).await;
        assert_eq!((kind(&output).as_str(), site.path("new").exists()), ("no_match", false));
        let output = site.run("multiedit", &edits("none", &[("a", "b")])).await;
        assert_eq!(kind(&output), "not_found");
    }

    #[test]
    fn lists_that_cannot_be_meant_are_refused_before_anything_is_asked() {
        let site = Site::new();
        let same = [("a", "b"), ("c", "c")];
        for (args, said) in [
            (edits("f", &[]), "`edits` is empty"),
            (edits("f", &same), "Edit 2 of 2 failed, and none of them was made: oldString and"),
            (json!({ "filePath": "f", "edits": [{ "oldString": "a" }] }), "`edits[0]`: missing"),
            (json!({ "filePath": "f" }), "missing field `edits`"),
        ] {
            let error = site.resolve("multiedit", &args).error.unwrap();
            assert!(error.contains(said), "{error}");
        }
        let resolved = site.resolve("multiedit", &edits("f", &[("a", "b")]));
        assert_eq!((resolved.class, resolved.access.len()), (Class::Write, 1));
        assert_eq!(resolved.access[0].permission, "edit");
    }

    #[tokio::test]
    async fn the_result_has_one_diff_of_the_whole() {
        let site = Site::new();
        site.file("f", "one\n  two\nthree\n");
        let args = json!({ "file_path": "f", "edits": [
            { "old_string": "e\n", "new_string": "E\n", "replace_all": "true" },
            { "oldString": "two ", "newString": "2" },
        ] });
        let output = site.run("multiedit", &args).await;
        let meta = output.meta();
        assert_eq!(site.text("f"), "onE\n2\nthreE\n");
        assert_eq!(meta["strategies"], json!(["multi_occurrence", "line_trimmed"]));
        assert_eq!((&meta["additions"], &meta["deletions"]), (&json!(3), &json!(3)));
        assert_eq!(meta["replacements"], 3);
        assert!(
            meta["diff"].as_str().unwrap().contains("-one\n-  two\n-three\n+onE\n+2\n+threE\n")
        );
        assert!(output.output.contains("\nEdit 2: oldString does not occur exactly"));
        let args = edits("new/file", &[("", "a\nb\n"), ("b", "c")]);
        let output = site.run("multiedit", &args).await;
        assert_eq!((site.text("new/file").as_str(), output.is_error), ("a\nc\n", false));
        assert!(output.output.starts_with("Created "), "{}", output.output);
    }
}
