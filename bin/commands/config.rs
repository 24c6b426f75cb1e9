//! `leftfold config`: prints the settings in effect and where each value comes from; `--schema`
//! prints the JSON Schema of a settings file.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use super::{SENTENCE, cell};
use crate::cli::{Config, Format};
use leftfold_config::{
    self as settings, ListedValue, Origin, RedactedView, Reference, Source, SourceKind,
    VisibleValue,
};
use leftfold_runtime::Usage;
use leftfold_runtime::approvals;
use leftfold_runtime::model;
use leftfold_runtime::resolved_settings;

/// Values and keys are padded to at most this many columns; longer ones push the rest to the right.
const WIDEST: usize = 44;
/// With fewer columns than this left, a value goes on a line of its own.
const NARROWEST: usize = 16;
/// The columns of a value if the terminal's width does not limit it.
const VALUE: usize = 4_000;

pub(crate) fn config(args: &Config) -> anyhow::Result<ExitCode> {
    if args.schema {
        return super::print_json(&format!("{:#}\n", settings::schema()));
    }
    let directory = std::env::current_dir()?;
    let layers = resolved_settings::layers(&directory)?;
    leftfold_runtime::warnings::print_once(layers.warnings());
    let redacted_view = settings::redacted_view(
        &directory,
        leftfold_runtime::gather::Agent::DEFAULT,
        &model::environment,
        &layers,
    );
    let mut redacted_view = redacted_view.map_err(model::usage)?;
    leftfold_runtime::warnings::print_once(&redacted_view.left_out);
    redacted_view
        .add_approvals(approvals::for_worktree(&settings::worktree_of(&directory)).approved);
    let items = match &args.key {
        Some(key) => redacted_view.find(key).map_err(Usage)?,
        None => redacted_view.items.iter().collect(),
    };
    if args.format == Format::Json {
        return super::print_json(&format!("{}\n", as_json(&redacted_view, &items)));
    }
    let width = std::io::stdout().is_terminal().then(leftfold_terminal::columns);
    let table = table(&items, &directory, width);
    let problem = redacted_view.problem.as_ref();
    let problem = problem.map(|why| format!("A run cannot start: {}\n", cell(why, SENTENCE)));
    match args.key.as_deref() {
        Some("model") => super::print(&format!("{table}{}", problem.unwrap_or_default())),
        Some(key) if items.is_empty() => {
            super::print(&format!("{} is not set\n", cell(key, SENTENCE)))
        }
        Some(_) => super::print(&table),
        None => {
            let problem = problem.map_or_else(String::new, |problem| format!("\n{problem}"));
            super::print(&format!("{}\n{table}{problem}", sources(&redacted_view, &directory)))
        }
    }
}

/// Lists the sources, weakest first.
fn sources(redacted_view: &RedactedView, directory: &Path) -> String {
    let mut text =
        "Settings come from these, and later ones win:\n  built-in defaults\n".to_owned();
    for source in &redacted_view.sources {
        text.push_str(&format!("  {}\n", cell(&name(source, directory), SENTENCE)));
    }
    if redacted_view.sources.iter().all(|source| source.kind != SourceKind::File) {
        text.push_str(
            "No settings file was found. Leftfold reads leftfold.json in this folder, in the folders above \
             up to the project's root, and in $XDG_CONFIG_HOME/leftfold (~/.config/leftfold).\n",
        );
    }
    text
}

/// The path of a source, relative to `directory` where that is shorter.
fn name(source: &Source, directory: &Path) -> String {
    let here = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    match Path::new(&source.name).strip_prefix(here) {
        Ok(path) if source.kind == SourceKind::File => path.display().to_string(),
        Ok(_) | Err(_) => source.name.clone(),
    }
}

/// One line for each value, in columns; two lines on a narrow terminal.
fn table(items: &[&ListedValue], directory: &Path, width: Option<usize>) -> String {
    let rows: Vec<[String; 3]> = items
        .iter()
        .map(|item| {
            [
                cell(&item.key, SENTENCE),
                cell(&noted(item), VALUE),
                cell(&origin(&item.origin, directory), SENTENCE),
            ]
        })
        .collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let (key, place) = (widest(0).min(WIDEST), widest(2));
    let room = width.map(|width| width.saturating_sub(widest(0) + place + 4));
    let lines = rows.iter().map(|[name, value, place]| match (room, width) {
        (Some(room), Some(width)) if room < NARROWEST => {
            let line = leftfold_view::clean::clip(&format!("{name}  {value}"), width);
            format!("{line}\n    {place}\n")
        }
        (Some(room), _) => {
            let columns = room.min(widest(1));
            let value = leftfold_view::clean::clip(value, columns);
            format!("{}  {}  {place}\n", padded(name, widest(0)), padded(&value, columns))
        }
        (None, _) => {
            let columns = widest(1).min(WIDEST);
            format!("{}  {}  {place}\n", padded(name, key), padded(value, columns))
        }
    });
    lines.collect()
}

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// A value with its note, or the note alone for a value that is not set.
fn noted(item: &ListedValue) -> String {
    match (&item.note, &item.shown) {
        (Some(note), VisibleValue::Value(Value::Null)) => format!("({note})"),
        (Some(note), shown) => format!("{} ({note})", value(shown)),
        (None, shown) => value(shown),
    }
}

fn value(shown: &VisibleValue) -> String {
    match shown {
        VisibleValue::Value(value) => value.to_string(),
        VisibleValue::Written(text, references) => {
            let unset = references.iter().filter(|reference| !is_set(reference));
            let unset: Vec<String> =
                unset.map(|unset| format!(" ({} is not set)", named(unset))).collect();
            format!("{}{}", Value::from(text.as_str()), unset.concat())
        }
        VisibleValue::Hidden { set, references } => {
            let names: Vec<&str> = references.iter().map(named).collect();
            let from = if names.is_empty() {
                String::new()
            } else {
                format!(", from {}", names.join(" and "))
            };
            format!("({}{from})", if *set { "set" } else { "not set" })
        }
    }
}

fn named(reference: &Reference) -> &str {
    match reference {
        Reference::Variable { name, .. } | Reference::File(name) => name,
    }
}

fn is_set(reference: &Reference) -> bool {
    !matches!(reference, Reference::Variable { set: false, .. })
}

fn origin(origin: &Origin, directory: &Path) -> String {
    match origin {
        Origin::Place(place) if place.line == 0 => place.to_string(),
        Origin::Place(place) => {
            format!("{}:{}:{}", name(&place.source, directory), place.line, place.column)
        }
        Origin::Variable(name) => name.clone(),
        Origin::Stored => "leftfold auth login".to_owned(),
        Origin::Approved => "leftfold permission list".to_owned(),
        Origin::Default => "default".to_owned(),
    }
}

fn as_json(redacted_view: &RedactedView, items: &[&ListedValue]) -> Value {
    let sources: Vec<Value> =
        redacted_view.sources.iter().map(|source| source_json(source)).collect();
    let values: Vec<Value> = items.iter().map(|item| item_json(item)).collect();
    json!({ "sources": sources, "values": values, "problem": redacted_view.problem })
}

fn source_json(source: &Source) -> Value {
    match source.kind {
        SourceKind::File | SourceKind::Script => json!({ "file": source.name }),
        SourceKind::Variable => json!({ "env": source.name }),
        SourceKind::Plugin => json!({ "plugin": source.name.trim_start_matches("plugin ") }),
    }
}

fn item_json(item: &ListedValue) -> Value {
    let mut object = Map::new();
    object.insert("key".to_owned(), item.key.clone().into());
    let (value, references) = match &item.shown {
        VisibleValue::Value(value) => (value.clone(), &[][..]),
        VisibleValue::Written(text, references) => (text.clone().into(), references.as_slice()),
        VisibleValue::Hidden { references, .. } => (Value::Null, references.as_slice()),
    };
    object.insert("value".to_owned(), value);
    if let VisibleValue::Hidden { set, .. } = item.shown {
        object.insert("secret".to_owned(), json!({ "set": set }));
    }
    if !references.is_empty() {
        let references: Vec<Value> = references.iter().map(reference_json).collect();
        object.insert("references".to_owned(), references.into());
    }
    object.insert("source".to_owned(), origin_json(&item.origin));
    if let Some(rule) = &item.rule {
        object.insert("rule".to_owned(), json!(rule));
    }
    if let Some(note) = &item.note {
        object.insert("note".to_owned(), note.clone().into());
    }
    object.into()
}

fn reference_json(reference: &Reference) -> Value {
    match reference {
        Reference::Variable { name, set } => json!({ "env": name, "set": set }),
        Reference::File(path) => json!({ "file": path }),
    }
}

fn origin_json(origin: &Origin) -> Value {
    match origin {
        Origin::Place(place) => {
            let mut source = source_json(&place.source);
            if place.line > 0 {
                source["line"] = place.line.into();
                source["column"] = place.column.into();
            }
            source
        }
        Origin::Variable(name) => json!({ "env": name }),
        Origin::Stored => "auth".into(),
        Origin::Approved => "approved".into(),
        Origin::Default => "default".into(),
    }
}
