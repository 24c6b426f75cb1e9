//! Compares the turn configurations of two sessions: model, system prompt, tools, rules and options.
//! Texts are compared word by word. It reads no events.

use std::collections::BTreeSet;
use std::fmt::Write;

use leftfold_events::TurnConfig;
use leftfold_events::rules::Rule;
use leftfold_view::clean::visible_line;
use serde::Serialize;
use serde_json::{Value, json};
use similar::{ChangeTag, DiffTag, TextDiff};

/// One difference.
#[derive(Debug, Serialize)]
pub(super) struct ConfigChange {
    /// `model`, `system`, `tool`, `rule`, `option` or `source`.
    pub(super) part: &'static str,
    /// The block of the system prompt, the tool, or the option.
    pub(super) name: String,
    /// Its value in the first session; null if that has none.
    pub(super) a: Value,
    pub(super) b: Value,
}

/// The differences of two configurations. `plain` replaces what differs between any two sessions.
pub(super) fn changes(
    a: &TurnConfig,
    b: &TurnConfig,
    plain: [&dyn Fn(&str) -> String; 2],
) -> Vec<ConfigChange> {
    let change =
        |part, name: &str, a: Value, b: Value| ConfigChange { part, name: name.to_owned(), a, b };
    let mut changes = Vec::new();
    if a.model != b.model {
        changes.extend(fields(&json!(a.model), &json!(b.model), "model"));
    }
    if a.prompt != b.prompt {
        changes.push(change("system", "prompt", json!(a.prompt), json!(b.prompt)));
    }
    for at in 0..a.system.len().max(b.system.len()) {
        let block = |config: &TurnConfig, plain: &dyn Fn(&str) -> String| {
            config.system.get(at).map(|text| plain(text)).unwrap_or_default()
        };
        let (old, new) = (block(a, plain[0]), block(b, plain[1]));
        if old != new {
            changes.push(change("system", &(at + 1).to_string(), json!(old), json!(new)));
        }
    }
    let names: BTreeSet<&str> =
        a.tools.iter().chain(&b.tools).map(|tool| tool.name.as_str()).collect();
    for name in names {
        let of = |config: &TurnConfig| config.tools.iter().find(|tool| tool.name == name).cloned();
        let (old, new) = (of(a), of(b));
        if old != new {
            changes.push(change("tool", name, json!(old), json!(new)));
        }
    }
    let rules = |config: &TurnConfig| config.rules.iter().map(rule).collect::<Vec<String>>();
    let (old, new) = (rules(a), rules(b));
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
    for each in TextDiff::from_slices(&old, &new).iter_all_changes() {
        match each.tag() {
            ChangeTag::Delete => changes.push(change("rule", "", json!(each.value()), Value::Null)),
            ChangeTag::Insert => changes.push(change("rule", "", Value::Null, json!(each.value()))),
            ChangeTag::Equal => {}
        }
    }
    let options = |config: &TurnConfig| {
        let mut options = json!(config.options);
        // the sources are compared by what they are sources of
        options.as_object_mut().map(|options| options.remove("sources"));
        options
    };
    changes.extend(fields(&options(a), &options(b), "option"));
    changes.extend(fields(&sources(a, plain[0]), &sources(b, plain[1]), "source"));
    changes
}

/// The origins of the parts of a configuration, by name. Lines are left out: they move with every edit.
fn sources(config: &TurnConfig, plain: &dyn Fn(&str) -> String) -> Value {
    let sources = &config.options.sources;
    let mut all = serde_json::Map::new();
    let mut add = |name: String, source: &str| {
        all.insert(plain(&name), json!(plain(without_lines(source))));
    };
    if let Some(source) = &sources.model {
        add("model".to_owned(), source);
    }
    sources.options.iter().for_each(|(name, source)| add(format!("option {name}"), source));
    sources.tools.iter().for_each(|(name, source)| add(format!("tool {name}"), source));
    for (at, ruled) in config.rules.iter().enumerate() {
        if let Some(source) = sources.of_rule(at) {
            add(format!("rule {}", rule(ruled)), source);
        }
    }
    for (at, ruled) in config.options.restrictions.iter().flatten().enumerate() {
        if let Some(source) = sources.of_restriction(at) {
            add(format!("restriction {}", rule(ruled)), source);
        }
    }
    for piece in sources.system.iter().filter(|piece| piece.kind != "frame") {
        let name = piece.name.as_deref().or(piece.path.as_deref()).unwrap_or_default();
        add(format!("{} {name}", piece.kind), piece.path.as_deref().unwrap_or_default());
    }
    Value::Object(all)
}

/// `PATH:LINE:COLUMN` without line and column.
fn without_lines(source: &str) -> &str {
    source.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':')
}

/// The members of two objects that differ.
fn fields(a: &Value, b: &Value, part: &'static str) -> Vec<ConfigChange> {
    let names = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let all: BTreeSet<String> = names(a).into_iter().chain(names(b)).collect();
    let changed = all.into_iter().filter(|name| a.get(name) != b.get(name));
    let value = |of: &Value, name: &str| of.get(name).cloned().unwrap_or_default();
    changed
        .map(|name| ConfigChange { part, a: value(a, &name), b: value(b, &name), name })
        .collect()
}

fn rule(Rule { permission, pattern, action }: &Rule) -> String {
    let action = json!(action);
    let action = action.as_str().unwrap_or_default();
    format!("{action} {} `{}`", visible_line(permission), visible_line(pattern))
}

/// The differences for people: one line for each, and changed texts word by word.
pub(super) fn text(changes: &[ConfigChange]) -> String {
    let mut text = String::new();
    for ConfigChange { part, name, a, b } in changes {
        let _ = match (*part, a, b) {
            ("tool", Value::Null, _) => writeln!(text, "+ tool {}", visible_line(name)),
            ("tool", _, Value::Null) => writeln!(text, "- tool {}", visible_line(name)),
            ("tool", a, b) => {
                let words = |field: &str| words(&shown(&a[field]), &shown(&b[field]));
                let (name, changed) = (visible_line(name), words("description") + &words("schema"));
                writeln!(text, "tool {name}:\n{}", changed.trim_end())
            }
            ("rule", Value::Null, rule) => {
                writeln!(text, "+ rule {}", rule.as_str().unwrap_or_default())
            }
            ("rule", rule, _) => writeln!(text, "- rule {}", rule.as_str().unwrap_or_default()),
            ("system", Value::String(a), Value::String(b)) if name != "prompt" => {
                writeln!(text, "system {name}:\n{}", words(a, b).trim_end())
            }
            (part, a, b) => {
                let (part, name) = (part, visible_line(name));
                let words = words(&shown(a), &shown(b));
                writeln!(text, "{part} {name}:\n{}", words.trim_end())
            }
        };
    }
    text
}

/// A text as it is, anything else as JSON, and nothing for null.
fn shown(value: &Value) -> String {
    match (value.as_str(), value.is_null()) {
        (Some(text), _) => text.to_owned(),
        (None, true) => String::new(),
        (None, false) => value.to_string(),
    }
}

/// The lines that differ, indented, with `[-removed-]` and `{+added+}` words.
fn words(old: &str, new: &str) -> String {
    let lines = TextDiff::from_lines(old, new);
    let mut text = String::new();
    for op in lines.ops() {
        if op.tag() == DiffTag::Equal {
            continue;
        }
        let side = |tag: ChangeTag| -> String {
            let changes = lines.iter_changes(op).filter(|change| change.tag() == tag);
            changes.map(|change| change.value().to_owned()).collect()
        };
        let (removed, added) = (side(ChangeTag::Delete), side(ChangeTag::Insert));
        let (removed, added) = (removed.trim_end_matches('\n'), added.trim_end_matches('\n'));
        let words = TextDiff::from_words(removed, added);
        let mut marked = String::new();
        let mut open = ChangeTag::Equal;
        for change in words.iter_all_changes() {
            if change.tag() != open {
                marked += closing(open);
                open = change.tag();
                marked += opening(open);
            }
            marked += change.value();
        }
        marked += closing(open);
        for line in marked.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn opening(tag: ChangeTag) -> &'static str {
    match tag {
        ChangeTag::Delete => "[-",
        ChangeTag::Insert => "{+",
        ChangeTag::Equal => "",
    }
}

fn closing(tag: ChangeTag) -> &'static str {
    match tag {
        ChangeTag::Delete => "-]",
        ChangeTag::Insert => "+}",
        ChangeTag::Equal => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_shown_and_only_changed_words_marked() {
        for (old, new, expected) in [
            ("", "", ""),
            ("a b\n", "a b\n", ""),
            ("a b c\nd\n", "a x c\nd\n", "  a [-b-]{+x+} c\n"),
            ("a\nb\n", "a\n", "  [-b-]\n"),
            ("a\n", "a\nb c\nd\n", "  {+b c\n  d+}\n"),
            ("1", "", "  [-1-]\n"),
        ] {
            assert_eq!(words(old, new), expected, "{old:?} {new:?}");
        }
    }
}
