//! `edit`: replaces one piece of text in a file.
//!
//! `chain.rs` runs the matching strategies in order; the other files implement them. `replace.rs`
//! makes one replacement in a text and explains failures.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::diff::FilePreview;
use crate::text_files::{LoadedText, TextFiles};
use crate::tool::{Seen, ToolKind, Typed};
use crate::{
    Context, Error, Output, Plan, Workspace, args, confined, diff, nearby, paths, seen, write,
};

mod alike;
mod anchors;
mod chain;
mod ending;
mod escapes;
mod exact;
mod ids;
mod levenshtein;
mod lines;
mod nearest;
mod replace;
mod search;
mod shift;
mod source;
#[cfg(test)]
mod tests;
mod whitespace;

pub use chain::Strategy;
pub use replace::{Replaced, replace};

#[derive(Debug)]
pub(crate) struct Edit;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The text to replace, exactly as it stands in the file.
    #[serde(alias = "old_string")]
    old_string: String,
    /// The replacement text.
    #[serde(alias = "new_string")]
    new_string: String,
    /// Replace every occurrence instead of the only one. Default: false.
    #[serde(
        default,
        alias = "replace_all",
        deserialize_with = "args::boolean",
        skip_serializing_if = "Option::is_none"
    )]
    replace_all: Option<bool>,
}

impl Args {
    fn change(&self) -> Change {
        Change {
            old_string: self.old_string.clone(),
            new_string: self.new_string.clone(),
            replace_all: self.replace_all,
        }
    }
}

/// One replacement.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// The text to replace, exactly as it stands in the file.
    #[serde(alias = "old_string")]
    old_string: String,
    /// The replacement text.
    #[serde(alias = "new_string")]
    new_string: String,
    /// Replace every occurrence instead of the only one. Default: false.
    #[serde(
        default,
        alias = "replace_all",
        deserialize_with = "args::boolean",
        skip_serializing_if = "Option::is_none"
    )]
    replace_all: Option<bool>,
}

impl Change {
    /// # Errors
    /// It would change nothing.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.old_string == self.new_string { Err(Error::Identical) } else { Ok(()) }
    }

    /// Applies the change to `before`, the text of the file `shown`. `None` if the file does not
    /// exist; the change may then create it.
    pub(crate) fn apply(&self, before: Option<&str>, shown: &Path) -> Result<AppliedChange, Error> {
        let Some(before) = before else {
            if self.old_string.is_empty() {
                return Ok(AppliedChange::Created(self.new_string.clone()));
            }
            return Err(Error::NotFound(nearby::missing(shown)));
        };
        let (old, new) = (&self.old_string, &self.new_string);
        let all = self.replace_all == Some(true);
        replace(before, old, new, all, &shown.display().to_string()).map(AppliedChange::Replaced)
    }
}

/// The result of a change to a text.
#[derive(Debug)]
pub(crate) enum AppliedChange {
    Created(String),
    Replaced(Replaced),
}

impl AppliedChange {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Created(text) => text,
            Self::Replaced(replaced) => &replaced.text,
        }
    }

    /// The name of the strategy that found the text. `None` for a new file.
    pub(crate) fn strategy(&self) -> Option<&'static str> {
        match self {
            Self::Created(_) => None,
            Self::Replaced(replaced) => Some(replaced.strategy.name()),
        }
    }

    /// Number of places replaced.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Created(_) => 0,
            Self::Replaced(replaced) => replaced.count,
        }
    }

    /// Tells the model what was replaced, if the match was not exact.
    pub(crate) fn note(&self) -> Option<String> {
        let Self::Replaced(Replaced { strategy, lines, differing, indented, .. }) = self else {
            return None;
        };
        let how = strategy.leniency()?;
        let place = |(first, last): &(usize, usize)| match first == last {
            true => format!("line {first}"),
            false => format!("lines {first} to {last}"),
        };
        let places: Vec<String> = lines.iter().map(place).collect();
        let indented = if *indented { " with the indentation of the file" } else { " as given" };
        let mut note = format!(
            "oldString does not occur exactly; it matched {} {how}. newString was inserted{indented}.",
            places.join(", ")
        );
        if !differing.is_empty() {
            note += " These lines were replaced, and differ from oldString:";
            for (line, text) in differing {
                note += &format!("\n{line}: {text}");
            }
        }
        Some(note)
    }
}

impl Typed for Edit {
    type Args = Args;
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/edit.md");
    const KIND: ToolKind = ToolKind::Edit;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        args.change().check()?;
        Ok(paths::resolve(&args.file_path, cx)?.judged(Plan::new(Class::Write), "edit"))
    }

    fn preview(
        args: &Args,
        paths: Vec<PathBuf>,
        cx: &Workspace,
    ) -> Result<Vec<FilePreview>, Error> {
        write::previewing(&args.file_path, paths, cx, |path, texts| {
            let (_, before) = load(path, &Seen::new(), texts)?;
            let after = args.change().apply(before.as_deref(), path)?.text().to_owned();
            Ok((before, after))
        })
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let (seen, texts) = (cx.seen.clone(), TextFiles::from_context(&cx));
        write::changing(paths, cx, move |path| edit(&args, path, &seen, &texts)).await
    }
}

fn edit(args: &Args, path: &Path, seen: &Seen, texts: &TextFiles) -> Result<Output, Error> {
    change_file(&args.file_path, path, seen, texts, |before| {
        let done = args.change().apply(before, path)?;
        let did = match (&done, done.count()) {
            (AppliedChange::Created(_), _) => "Created".to_owned(),
            (AppliedChange::Replaced(_), 1) => "Edited".to_owned(),
            (AppliedChange::Replaced(_), count) => format!("Replaced {count} occurrences in"),
        };
        let mut fields = Map::new();
        fields.insert("replacements".to_owned(), json!(done.count()));
        fields.extend(done.strategy().map(|name| ("strategy".to_owned(), json!(name))));
        let notes = done.note().into_iter().collect();
        Ok(ProposedWrite { text: done.text().to_owned(), did, fields, notes })
    })
}

/// A change to write to a file.
pub(crate) struct ProposedWrite {
    pub(crate) text: String,
    /// The verb that begins the output.
    pub(crate) did: String,
    /// Fields for the metadata.
    pub(crate) fields: Map<String, Value>,
    /// Sentences for the model.
    pub(crate) notes: Vec<String>,
}

/// The file at `path` and its text, if it exists.
pub(crate) fn load(
    path: &Path,
    seen: &Seen,
    texts: &TextFiles,
) -> Result<(Option<Metadata>, Option<String>), Error> {
    let Some(found) = confined::lookup(path)? else { return Ok((None, None)) };
    let LoadedText { text, .. } = texts.load(path, &found, seen)?;
    Ok((Some(found), Some(text)))
}

/// Loads the file at `path`, changes it and writes it back. After an error the file is unchanged.
pub(crate) fn change_file(
    title: &str,
    path: &Path,
    seen: &Seen,
    texts: &TextFiles,
    change: impl FnOnce(Option<&str>) -> Result<ProposedWrite, Error>,
) -> Result<Output, Error> {
    let (found, before) = load(path, seen, texts)?;
    let ProposedWrite { text, did, fields, notes } = change(before.as_deref())?;
    let put = texts.write(path, found.as_ref(), &text)?;
    let written = texts.format(path, &text, put);
    let mut meta = diff::describe(title, before.as_deref(), &written.text);
    meta.extend(fields);
    let (additions, deletions) = (&meta["additions"], &meta["deletions"]);
    let lines = if *additions == 1 { "line" } else { "lines" };
    let mut output =
        format!("{did} {}: {additions} {lines} added, {deletions} removed.", path.display());
    for note in notes {
        output += "\n";
        output += &note;
    }
    let mut output = Output::new(title, output, &Value::Object(meta));
    texts.report(&mut output, std::slice::from_ref(&written), &[]);
    Ok(seen::add_written_stamp(output, path, &written.text, &written.to))
}
