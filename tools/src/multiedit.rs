//! `multiedit`: several replacements in one file, all or none.

use std::path::{Path, PathBuf};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::edit::{self, Change, Changed, Done};
use crate::tool::{Seen, Typed};
use crate::{Context, Error, Output, Plan, Workspace, paths, write};

#[derive(Debug)]
pub(crate) struct MultiEdit;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The replacements, in order. Each is made in what the one before it has left.
    edits: Vec<Change>,
}

impl Typed for MultiEdit {
    type Args = Args;
    const NAME: &'static str = "multiedit";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/multiedit.md");

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

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let seen = cx.seen.clone();
        write::changing(paths, cx, move |path| multiedit(&args, path, &seen)).await
    }
}

impl Args {
    fn failed(&self, nth: usize, reason: Error) -> Error {
        Error::Edit { number: nth + 1, of: self.edits.len(), reason: Box::new(reason) }
    }

    /// All of them, each on the text that the one before has left.
    fn apply(&self, before: Option<&str>, path: &Path) -> Result<Vec<Done>, Error> {
        let mut done: Vec<Done> = Vec::new();
        for (nth, change) in self.edits.iter().enumerate() {
            let text = done.last().map_or(before, |done| Some(done.text()));
            done.push(change.apply(text, path).map_err(|error| self.failed(nth, error))?);
        }
        Ok(done)
    }
}

fn multiedit(args: &Args, path: &Path, seen: &Seen) -> Result<Output, Error> {
    edit::change_file(&args.file_path, path, seen, |before| {
        let done = args.apply(before, path)?;
        let count: usize = done.iter().map(Done::count).sum();
        let strategies: Vec<_> = done.iter().map(Done::strategy).collect();
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
        Ok(Changed { text, did, fields, notes: notes.collect() })
    })
}
