//! Where the parts of a turn configuration come from: files and lines for people. No decision and no
//! request depends on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::TurnConfigPayloads;
use crate::payload::Payload;
use crate::rewrite::{Rewrite, Texts, values};

/// The origins of the system prompt's text and of the rules. Older logs have none.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sources {
    /// The pieces of the system prompt, in order. Each byte of a block is in exactly one piece.
    pub system: Vec<PromptPiece>,
    /// In the order of the rules.
    pub rules: Vec<RuleSource>,
    /// The choice of the model: a place in settings, an option, or a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The places of options that are not built in, by name. `request.NAME` is a member of the option `request`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The server or plugin of each tool that is not built in, by the tool's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// In the order of the rules of all lists of restrictions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restrictions: Vec<RuleSource>,
    /// Files whose text on disk is not in force, because calls have changed it and nobody has accepted that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

/// A piece of a block of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptPiece {
    /// The index of the block, from 0.
    pub block: usize,
    /// The piece's bytes in the block.
    pub from: usize,
    pub to: usize,
    /// `prompt`, `agent`, `environment`, `instructions`, `page`, `skill`, `option`, or `frame`: text
    /// that Leftfold writes around the others.
    pub kind: String,
    /// The name of the base prompt, agent, skill or option; of an instruction file, the entry of the setting
    /// `instructions` that named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file, or the address of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first and the last line in the file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(usize, usize)>,
}

/// The origin of consecutive rules.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSource {
    /// The index of the first rule, and the index after the last one.
    pub from: usize,
    pub to: usize,
    /// A place in settings, such as `PATH:LINE:COLUMN`, or the part of Leftfold that has them built in.
    pub source: String,
}

impl Sources {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The origin of the rule at this index.
    pub fn of_rule(&self, index: usize) -> Option<&str> {
        RuleSource::of(&self.rules, index)
    }

    /// The origin of the rule at this index among the rules of all restrictions.
    pub fn of_restriction(&self, index: usize) -> Option<&str> {
        RuleSource::of(&self.restrictions, index)
    }
}

impl RuleSource {
    /// The origin of the rule at this index.
    fn of(sources: &[Self], index: usize) -> Option<&str> {
        let found = sources.iter().find(|source| (source.from..source.to).contains(&index));
        found.map(|source| source.source.as_str())
    }

    /// Joins neighbours with one origin: how many rules come from each.
    pub fn all(counted: impl IntoIterator<Item = (usize, String)>) -> Vec<Self> {
        let mut sources: Vec<Self> = Vec::new();
        let mut from = 0;
        for (count, source) in counted {
            let to = from + count;
            match sources.last_mut().filter(|last| last.source == source) {
                Some(last) => last.to = to,
                None if count > 0 => sources.push(Self { from, to, source }),
                None => {}
            }
            from = to;
        }
        sources
    }
}

impl PromptPiece {
    /// A piece of this kind, without its place.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), ..Self::default() }
    }
}

/// Changes the contents, and so their hashes.
impl Texts for TurnConfigPayloads {
    fn rewrite(&mut self, how: &impl Rewrite) {
        // the model stays: its name is not secret
        let Self { system, tools, rules, options, .. } = self;
        let before = how.touches(system.text()).then(|| system.clone());
        for payload in [&mut *system, tools, rules, &mut *options] {
            if how.touches(payload.text())
                && let Ok(mut value) = serde_json::from_str(payload.text())
                && values(&mut value, how)
            {
                *payload = Payload::new(value.to_string());
            }
        }
        if let Some(before) = before.filter(|before| before.sha256() != system.sha256())
            && let Ok(old) = serde_json::from_str::<Vec<String>>(before.text())
            && let Ok(new) = serde_json::from_str::<Vec<String>>(system.text())
            && let Ok(mut value) = serde_json::from_str(options.text())
            && moved(&mut value, &old, &new, &|text| how.text(text))
        {
            *options = Payload::new(value.to_string());
        }
    }
}

/// Moves the pieces in `options` to where they are after `rewrite` has replaced texts in the system
/// prompt: `old` and `new` are its blocks before and after. A piece that ends within a replaced text
/// ends at its start or at its end.
fn moved(
    options: &mut Value,
    old: &[String],
    new: &[String],
    rewrite: &dyn Fn(&str) -> Option<String>,
) -> bool {
    let Some(pieces) = options.pointer_mut("/sources/system").and_then(Value::as_array_mut) else {
        return false;
    };
    let rewritten = |text: &str| rewrite(text).unwrap_or_else(|| text.to_owned());
    let place = |old: &str, new: &str, at: usize| {
        let at = floor(old, at);
        let (before, after) = (rewritten(&old[..at]), rewritten(&old[at..]));
        if before.len() + after.len() == new.len()
            && new.starts_with(&before)
            && new.ends_with(&after)
        {
            return before.len();
        }
        let same = before.bytes().zip(new.bytes()).take_while(|(one, other)| one == other).count();
        floor(new, same)
    };
    for piece in pieces {
        let block = piece["block"].as_u64().and_then(|block| usize::try_from(block).ok());
        let texts = block.and_then(|block| Some((old.get(block)?, new.get(block)?)));
        let Some((old, new)) = texts.filter(|(old, new)| old != new) else { continue };
        for end in ["from", "to"] {
            let at = piece[end].as_u64().and_then(|at| usize::try_from(at).ok());
            piece[end] = place(old, new, at.unwrap_or_default()).into();
        }
    }
    true
}

/// The last boundary of characters at `at` or before it.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_follow_the_text_whose_length_changes() {
        let rewrite = |text: &str| text.contains("SECRET").then(|| text.replace("SECRET", "ä…"));
        let old = ["a SECRET b".to_owned(), "xSECRETySECRET".to_owned()];
        let new = old.clone().map(|text| rewrite(&text).unwrap());
        let piece = |block: usize, from: usize, to: usize| json!({ "block": block, "from": from, "to": to, "kind": "k" });
        let mut options = json!({ "sources": { "system": [
            piece(0, 0, 2), piece(0, 2, 8), piece(0, 8, 10),
            // the second one ends within a secret
            piece(1, 0, 1), piece(1, 1, 10), piece(1, 10, 14),
        ] } });
        assert!(moved(&mut options, &old, &new, &rewrite));
        let found: Sources = serde_json::from_value(options["sources"].clone()).unwrap();
        let texts = found.system.iter().map(|piece| &new[piece.block][piece.from..piece.to]);
        assert_eq!(texts.collect::<Vec<_>>(), ["a ", "ä…", " b", "x", "ä…y", "ä…"]);
        assert!(!moved(&mut json!({}), &old, &new, &rewrite), "an older log has no sources");
    }
}
