//! `leftfold models`: lists models with their limits, prices and capabilities, and where keys come
//! from.

use std::process::ExitCode;

use leftfold_events::providers::KnownWire;
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use super::{auth, pages};
use crate::cli::{Format, Models};
use leftfold_config::{Hint, KeySource, KeyState, ProviderSummary};
use leftfold_runtime::model;
use leftfold_runtime::model_list::{Origin, Row, rows};
use leftfold_runtime::resolved_settings;
use leftfold_runtime::{Usage, note, sign_in};
use leftfold_view::words::counted;

pub(crate) fn models(args: &Models) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::shown(&directory)?;
    let mut summaries = settings.provider_summaries(&model::environment);
    if let Some(provider) = &args.provider {
        let Some(summary) = settings.provider_summary(provider, &model::environment) else {
            let hint = Hint::toward(provider, settings.provider_names());
            return Err(Usage(format!("there is no provider `{provider}`{hint}")).into());
        };
        summaries = vec![summary];
    } else {
        summaries.retain(|summary| summary.disabled.is_none());
    }
    for summary in &summaries {
        if let KeyState::From(KeySource::SignIn(_)) = summary.key {
            let list = sign_in::bring_models_up_to_date(&summary.name);
            if let Err(why) = leftfold_runtime::run_async(list)? {
                note(&format!("leftfold: the models of {} are as they were: {why}", summary.name));
            }
        }
    }
    let default = settings.default_name(&model::environment);
    let mut text = String::new();
    if args.format == Format::Text && default.is_none() {
        text.push_str(
            "No model is set, and no built-in provider has a key: store one with `leftfold auth login \
             anthropic`, or set `\"model\": \"PROVIDER/MODEL\"` in leftfold.json.\n\n",
        );
    }
    // those without a key are only counted, as most offer the models of others
    let mut without_key = Vec::new();
    let is_counted = |rows: &[Row]| args.provider.is_none() && !rows.iter().any(|row| row.default);
    for summary in &summaries {
        let mut rows = rows(&settings, summary, default.as_deref());
        let all = rows.len();
        if args.provider.is_none() && matches!(summary.key, KeyState::Missing(_)) {
            rows.retain(|row| !matches!(row.origin, Origin::ModelsDev));
        }
        match args.format {
            Format::Json => rows.iter().for_each(|row| {
                text.push_str(&format!("{}\n", as_json(summary, row)));
            }),
            Format::Text => match &summary.key {
                KeyState::Missing(names) if is_counted(&rows) => {
                    let key =
                        if names.is_empty() { "sign in".to_owned() } else { names.join(" or ") };
                    let count = if all > 0 { counted(all, "model") } else { String::new() };
                    without_key.push([super::cell(&summary.name, super::NAME), count, key]);
                }
                _ => text.push_str(&section(summary, &rows)),
            },
        }
    }
    if !without_key.is_empty() {
        text.push_str("Without a key (`leftfold models PROVIDER` shows the models of one):\n");
        text.push_str(&table(without_key.into_iter().map(|row| ("    ", row))));
        text.push('\n');
    }
    if args.format == Format::Text {
        let (about, count) = settings.about_models_list();
        text.push_str(&super::cell(
            &format!("The list of models.dev is of {about}"),
            super::SENTENCE,
        ));
        let names = "`leftfold models PROVIDER` shows one";
        text.push_str(&format!(": {count} providers; {names}.\n"));
    }
    leftfold_runtime::warnings::print_once(settings.faults_of_models_list());
    pages::page(&args.page, args.format, &text, pages::grouped_line)
}

fn as_json(summary: &ProviderSummary, row: &Row) -> Value {
    let (provider, id) = row.name.split_once('/').unwrap_or((&summary.name, ""));
    let source = match &row.origin {
        Origin::Settings(place) => {
            json!({ "file": place.source.name, "line": place.line, "column": place.column })
        }
        Origin::BuiltIn | Origin::Account | Origin::ModelsDev => row.origin.to_string().into(),
    };
    let mut object = Map::new();
    let fields = [
        ("model", json!(row.name)),
        ("provider", json!(provider)),
        ("id", json!(id)),
        ("family", json!(row.family)),
        ("wire", json!(summary.wire.map(KnownWire::name))),
        ("limit", json!(row.limit)),
        ("cost", json!(row.cost)),
        ("tools", json!(row.tools)),
        ("images", json!(row.images)),
        ("reasoning", json!(row.reasoning)),
        ("temperature", json!(row.temperature)),
        ("variants", json!(row.variants)),
        ("key", auth::source(&summary.key)),
        ("source", source),
        ("default", json!(row.default)),
    ];
    object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    object.into()
}

/// A line for the provider, and one for each of its models.
fn section(summary: &ProviderSummary, rows: &[Row]) -> String {
    let wire = summary.wire.map_or("no wire format", KnownWire::name);
    let key = match &summary.key {
        KeyState::From(_) | KeyState::Credentials => {
            format!("key: {}", auth::describe(&summary.key))
        }
        KeyState::Unneeded | KeyState::Missing(_) => auth::describe(&summary.key),
    };
    let off = summary.disabled.map(|by| format!("; turned off by `{by}`")).unwrap_or_default();
    let name = super::cell(&summary.name, super::NAME);
    let mut text = super::cell(&format!("{name} ({wire}; {key}{off})"), super::SENTENCE);
    text.push('\n');
    if let Some(why) = &summary.unavailable {
        text.push_str(&super::cell(&format!("    not available: {why}"), super::SENTENCE));
        text.push('\n');
    } else if summary.wire.is_none() {
        text.push_str("    settings name no wire format: set `provider.NAME.wire`\n");
    } else if rows.is_empty() {
        text.push_str("    no models are listed; every model name is accepted\n");
    }
    let mark = |row: &Row| if row.default { "  * " } else { "    " };
    text.push_str(&table(rows.iter().map(|row| (mark(row), cells(row)))));
    text.push('\n');
    text
}

/// Rows with a mark, and their cells in columns.
fn table<const N: usize>(rows: impl Iterator<Item = (&'static str, [String; N])>) -> String {
    let rows: Vec<(&str, [String; N])> = rows.collect();
    let width =
        |column: usize| rows.iter().map(|(_, cells)| cells[column].width()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for (mark, cells) in rows {
        let cells = cells.iter().zip(widths);
        let padded: String = cells
            .map(|(cell, width)| {
                format!("{cell}{}  ", " ".repeat(width.saturating_sub(cell.width())))
            })
            .collect();
        text.push_str(&format!("{mark}{}\n", padded.trim_end()));
    }
    text
}

fn cells(row: &Row) -> [String; 6] {
    let abilities = [
        (row.tools, "tools"),
        (row.images, "images"),
        (row.reasoning, "reasoning"),
        (row.temperature, "temperature"),
    ];
    let abilities: Vec<&str> =
        abilities.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    let variants = if row.variants.is_empty() { "-".to_owned() } else { row.variants.join(" ") };
    [
        super::cell(&row.name, super::NAME),
        row.limits(),
        row.price(),
        abilities.join(" "),
        super::cell(&variants, super::NAME),
        super::cell(&row.origin.to_string(), super::SENTENCE),
    ]
}
