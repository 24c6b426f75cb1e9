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
    for summary in &summaries {
        let mut rows = rows(&settings, summary, default.as_deref());
        let all = rows.len();
        if args.provider.is_none() && matches!(summary.key, KeyState::Missing(_)) {
            rows.retain(|row| !matches!(row.origin, Origin::ModelsDev));
        }
        let more = all - rows.len();
        match args.format {
            Format::Json => rows.iter().for_each(|row| {
                text.push_str(&format!("{}\n", as_json(summary, row)));
            }),
            Format::Text => text.push_str(&section(summary, &rows, more)),
        }
    }
    if args.format == Format::Text && default.is_none() {
        text.push_str(
            "No model is set, and no built-in provider has a key: store one with `leftfold auth login \
             anthropic`, or set `\"model\": \"PROVIDER/MODEL\"` in leftfold.json.\n",
        );
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

/// A line for the provider, and one for each of its models. `more` of them are not shown.
fn section(summary: &ProviderSummary, rows: &[Row], more: usize) -> String {
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
    if more > 0 {
        text.push_str(&format!(
            "    {more} models: `leftfold models {}` shows them\n",
            summary.name
        ));
    } else if let Some(why) = &summary.unavailable {
        text.push_str(&super::cell(&format!("    not available: {why}"), super::SENTENCE));
        text.push('\n');
    } else if summary.wire.is_none() {
        text.push_str("    settings name no wire format: set `provider.NAME.wire`\n");
    } else if rows.is_empty() {
        text.push_str("    no models are listed; every model name is accepted\n");
    }
    let cells: Vec<[String; 6]> = rows.iter().map(cells).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for (row, cells) in rows.iter().zip(&cells) {
        let mark = if row.default { "  * " } else { "    " };
        let padded: String = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| {
                format!("{cell}{}  ", " ".repeat(width.saturating_sub(cell.width())))
            })
            .collect();
        text.push_str(&format!("{mark}{}\n", padded.trim_end()));
    }
    text.push('\n');
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
