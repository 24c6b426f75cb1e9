//! Shows where the parts of a turn configuration come from: the text of the system prompt, piece by
//! piece, and the rules. The log names the sources; logs of earlier versions do not.

use std::collections::BTreeMap;
use std::fmt::Write;

use leftfold_events::TurnConfig;
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::{PromptPiece, Sources};
use serde_json::{Value, json};

use crate::clean::{printable_line, visible_line};
use crate::words;

const UNKNOWN: &str = "source not recorded";

/// A piece with its text.
struct Piece<'a> {
    text: &'a str,
    source: String,
    is_frame: bool,
}

/// The pieces of a block of the system prompt, as far as the log names them.
fn pieces<'a>(config: &'a TurnConfig, block: usize) -> Vec<Piece<'a>> {
    let text = config.system.get(block).map(String::as_str).unwrap_or_default();
    let of_block = config.options.sources.system.iter().filter(|piece| piece.block == block);
    let piece = |piece: &PromptPiece| {
        Some(Piece {
            text: text.get(piece.from..piece.to)?,
            source: source(piece),
            is_frame: piece.kind == "frame",
        })
    };
    let found: Vec<Piece<'a>> = of_block.filter_map(piece).collect();
    let covered: usize = found.iter().map(|piece| piece.text.len()).sum();
    if covered == text.len() {
        return found;
    }
    vec![Piece { text, source: UNKNOWN.to_owned(), is_frame: false }]
}

/// Whether the piece is a file or page of instructions.
fn is_instructions(piece: &PromptPiece) -> bool {
    piece.path.is_some() && ["instructions", "page"].contains(&piece.kind.as_str())
}

/// The files and pages of instructions, in the order in which the model gets them.
pub fn instructions(sources: &Sources) -> Vec<&str> {
    let named = sources.system.iter().filter(|piece| is_instructions(piece));
    named.filter_map(|piece| piece.path.as_deref()).collect()
}

/// `/p/AGENTS.md lines 3-9`, or `base prompt anthropic`.
fn source(piece: &PromptPiece) -> String {
    let PromptPiece { kind, name, path, lines, .. } = piece;
    let what = match kind.as_str() {
        "prompt" => "base prompt",
        "agent" => "agent",
        _ if is_instructions(piece) => "",
        "frame" => "Leftfold's words around the rest",
        other => other,
    };
    let setting = name.as_ref().filter(|_| is_instructions(piece));
    let setting = setting.map(|entry| format!("(`{entry}` of the setting `instructions`)"));
    let name = name.as_deref().filter(|_| setting.is_none());
    let lines = lines.map(|(first, last)| match first == last {
        true => format!("line {first}"),
        false => format!("lines {first}-{last}"),
    });
    let parts = [Some(what), name, path.as_deref(), lines.as_deref(), setting.as_deref()];
    let parts: Vec<String> = parts
        .iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .map(|part| visible_line(part))
        .collect();
    parts.join(" ")
}

/// A line for each piece of a block of the system prompt; frames are left out.
pub fn block(config: &TurnConfig, block: usize) -> String {
    let named = pieces(config, block);
    let all = config.options.sources.system.iter();
    let instructions = all.filter(|piece| piece.block == block && is_instructions(piece)).count();
    let order = (instructions > 1)
        .then(|| "  (of instructions that contradict each other, the later one wins)\n".to_owned());
    let lines =
        named.iter().filter(|piece| !piece.is_frame).map(|Piece { text, source, .. }| {
            let first = words::quoted(text.trim());
            format!("  {source}: {} bytes, {first}\n", text.len())
        });
    lines.chain(order).collect()
}

/// The pieces of a block as JSON, in order: each with its source and length.
pub fn block_json(config: &TurnConfig, block: usize) -> Value {
    let piece =
        |Piece { text, source, .. }: &Piece<'_>| json!({ "source": source, "bytes": text.len() });
    pieces(config, block).iter().map(piece).collect()
}

/// Where the rule comes from that decided: the last one that is equal to it, or else a restriction.
pub fn of_rule(config: &TurnConfig, rule: &Rule) -> Option<String> {
    let sources = &config.options.sources;
    let at = config.rules.iter().rposition(|other| other == rule);
    let source = at.and_then(|at| sources.of_rule(at)).filter(|source| !source.is_empty());
    let restriction = || {
        let mut all = config.options.restrictions.iter().flatten();
        sources.of_restriction(all.position(|other| other == rule)?)
    };
    source.or_else(restriction).map(str::to_owned)
}

/// Everything in a turn configuration, with its sources.
pub fn text(config: &TurnConfig) -> String {
    let sources = &config.options.sources;
    let mut text = format!(
        "model: {}{}\n",
        printable_line(&config.model.name().to_string()),
        in_brackets(sources.model.as_deref())
    );
    if let Some(variant) = &config.options.variant {
        let _ = writeln!(text, "variant: {}", printable_line(variant));
    }
    for (at, content) in config.system.iter().enumerate() {
        let _ = writeln!(text, "system {}: {} bytes", at + 1, content.len());
        text += &block(config, at);
    }
    let names: Vec<&str> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
    let _ = writeln!(text, "tools: {}", printable_line(&names.join(", ")));
    text += &of_tools(config);
    if !sources.options.is_empty() {
        text += "options that are not built in:\n";
    }
    for (name, source) in &sources.options {
        let value = option(config, name);
        let value = words::shorten(&visible_line(&value), 80);
        let _ = writeln!(text, "  {}: {value} ({})", visible_line(name), printable_line(source));
    }
    text += "rules, of which the last match wins:\n";
    for (at, rule) in config.rules.iter().enumerate() {
        let source = config.options.sources.of_rule(at).unwrap_or(UNKNOWN);
        let _ = writeln!(text, "  {} ({})", shown(rule), printable_line(source));
    }
    let restrictions = &config.options.restrictions;
    if !restrictions.is_empty() {
        text += "restrictions, which only make verdicts stricter:\n";
        for (at, rule) in restrictions.iter().flatten().enumerate() {
            let source = sources.of_restriction(at);
            let _ = writeln!(text, "  {}{}", shown(rule), in_brackets(source));
        }
    }
    text
}

/// The value of an option: `request.NAME` is a member of `request`.
fn option(config: &TurnConfig, name: &str) -> String {
    let (options, request) = (json!(config.options), config.options.request.value());
    let value = match name.strip_prefix("request.") {
        Some(name) => request.get(name).cloned(),
        None => options.get(name).cloned(),
    };
    // an option that is left out has its usual value
    value.map_or_else(|| "as usual".to_owned(), |value| value.to_string())
}

fn in_brackets(source: Option<&str>) -> String {
    source.map(|source| format!(" ({})", printable_line(source))).unwrap_or_default()
}

/// A line for each server and plugin, with its tools.
pub fn of_tools(config: &TurnConfig) -> String {
    let mut of_source: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in &config.tools {
        if let Some(source) = config.options.sources.tools.get(&tool.name) {
            of_source.entry(source).or_default().push(&tool.name);
        }
    }
    let line = |(source, tools): (&str, Vec<&str>)| {
        format!("  {}: {}\n", printable_line(source), printable_line(&tools.join(", ")))
    };
    of_source.into_iter().map(line).collect()
}

/// Like [`text`], as JSON.
pub fn as_json(config: &TurnConfig) -> Value {
    let rules =
        config.rules.iter().enumerate().map(
            |(at, rule)| json!({ "rule": rule, "source": config.options.sources.of_rule(at) }),
        );
    json!({
        "model": config.model,
        "system": (0..config.system.len()).map(|at| block_json(config, at)).collect::<Vec<_>>(),
        "tools": config.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "rules": rules.collect::<Vec<_>>(),
        "options": config.options,
    })
}

/// `deny edit `*``.
pub fn shown(Rule { permission, pattern, action }: &Rule) -> String {
    let action = json!(action);
    let action = action.as_str().unwrap_or_default();
    format!("{action} {} `{}`", visible_line(permission), visible_line(pattern))
}
