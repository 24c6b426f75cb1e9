//! Conversations as Anthropic and Bedrock have them: roles alternate, the user begins, and adjacent messages of one role
//! are one turn. The wire formats differ in their blocks.

use serde_json::Value;

use crate::openai_chat::REASONING;
use crate::shape::{NO_TEXT, members};

/// How a wire format writes its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) text: fn(&str) -> Value,
    pub(crate) is_result: fn(&Value) -> bool,
    pub(crate) is_thought: fn(&Value) -> bool,
    /// The name of the tool that a block calls.
    pub(crate) called: fn(&Value) -> Option<&str>,
}

impl Blocks {
    /// A block with this text, unless it is blank.
    pub(crate) fn filled(self, text: &str) -> Option<Value> {
        (!text.trim().is_empty()).then(|| (self.text)(text))
    }

    /// These blocks, or a text if there are none: the APIs refuse empty content.
    pub(crate) fn or_no_text(self, blocks: Vec<Value>) -> Vec<Value> {
        if blocks.is_empty() { vec![(self.text)(NO_TEXT)] } else { blocks }
    }
}

#[derive(Debug)]
pub(crate) struct Turn {
    role: &'static str,
    pub(crate) blocks: Vec<Value>,
}

#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) list: Vec<Turn>,
    blocks: Blocks,
}

impl Turns {
    pub(crate) fn new(blocks: Blocks) -> Self {
        Self { list: Vec::new(), blocks }
    }

    pub(crate) fn push(&mut self, role: &'static str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if self.list.is_empty() && role != "user" {
            self.list.push(Turn { role: "user", blocks: self.blocks.or_no_text(Vec::new()) });
        }
        match self.list.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            Some(_) | None => self.list.push(Turn { role, blocks }),
        }
    }

    /// Adds a reply of the model. The APIs refuse thinking that is not followed by text or a call.
    pub(crate) fn push_reply(&mut self, mut blocks: Vec<Value>) {
        let useful = blocks.iter().rposition(|block| !(self.blocks.is_thought)(block));
        blocks.truncate(useful.map_or(0, |last| last + 1));
        self.push("assistant", blocks);
    }

    /// Whether the last turn has results of tools.
    pub(crate) fn ends_in_results(&self) -> bool {
        self.list.last().is_some_and(|last| last.blocks.iter().any(self.blocks.is_result))
    }

    /// The turns with the results of tools first in each.
    pub(crate) fn with_results_first(mut self) -> Self {
        for turn in &mut self.list {
            // the sort is stable, so results keep the order of their calls
            turn.blocks.sort_by_key(|block| !(self.blocks.is_result)(block));
        }
        self
    }

    /// The names of the tools that are called, each once.
    pub(crate) fn called(&self) -> Vec<&str> {
        let blocks = self.list.iter().flat_map(|turn| &turn.blocks);
        let mut names: Vec<&str> = blocks.filter_map(self.blocks.called).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether the model is in a tool loop that it entered without thinking, for example because its reply was cut off or
    /// written by another model. The APIs then refuse to enable thinking.
    pub(crate) fn lacks_thinking(&self) -> bool {
        let [.., assistant, user] = self.list.as_slice() else { return false };
        let in_loop = user.blocks.first().is_some_and(self.blocks.is_result);
        in_loop && !assistant.blocks.first().is_some_and(self.blocks.is_thought)
    }

    pub(crate) fn into_value(self) -> Value {
        let turn =
            |turn: Turn| members([("role", turn.role.into()), ("content", turn.blocks.into())]);
        self.list.into_iter().map(turn).collect()
    }
}

/// Whether a signature may have come over one of these wires. Signatures of other wires are JSON or the name of a member; a
/// model can have the same name on two wires.
pub(crate) fn is_ours(signature: &str) -> bool {
    !signature.is_empty() && !signature.starts_with('{') && signature != REASONING
}
