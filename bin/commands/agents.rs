//! `leftfold agents`: lists the agents and where each is defined.

use std::process::ExitCode;

use leftfold_runtime::gather::Agent;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::cli::{self, Format};
use leftfold_runtime::agents::{AgentEntry, Agents};
use leftfold_runtime::resolved_settings;

pub(crate) fn agents(args: &cli::Agents) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::shown(&directory)?;
    let agents = Agents::from_settings(&settings);
    let lines: Vec<String> = match args.format {
        Format::Json => agents.iter().map(|known| format!("{}\n", as_json(known))).collect(),
        Format::Text => table(&agents.iter().map(row).collect::<Vec<_>>()),
    };
    super::print_as(args.format, &lines.concat())
}

fn as_json(known: &AgentEntry) -> serde_json::Value {
    let Agent { name, description, mode, native, hidden, model, variant, steps, .. } = &known.agent;
    json!({
        "name": name,
        "mode": mode.name(),
        "model": model,
        "variant": variant,
        "description": description,
        "native": native,
        "hidden": hidden,
        "steps": steps,
        "temperature": known.agent.temperature,
        "top_p": known.agent.top_p,
        "color": known.agent.color,
        "options": known.agent.options,
        "source": known.place.as_ref().map(|place| json!({
            "file": place.source.name, "line": place.line, "column": place.column,
        })),
    })
}

fn row(known: &AgentEntry) -> [String; 5] {
    let agent = &known.agent;
    let hidden = if agent.hidden { ", hidden" } else { "" };
    let place = known.place.as_ref().map_or_else(|| "built-in".to_owned(), ToString::to_string);
    let about = agent.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let model = agent.model.clone().unwrap_or_else(|| "-".to_owned());
    let mode = format!("{}{hidden}", agent.mode.name());
    [
        super::cell(&agent.name, super::NAME),
        mode,
        super::cell(&model, super::NAME),
        super::cell(&place, super::SENTENCE),
        super::cell(&about, super::SENTENCE),
    ]
}

fn table(rows: &[[String; 5]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5]| {
        let padded = row.iter().zip(widths).map(|(text, width)| {
            format!("{text}{}  ", " ".repeat(width.saturating_sub(text.width())))
        });
        let line: String = padded.chain([row[4].clone()]).collect();
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}
