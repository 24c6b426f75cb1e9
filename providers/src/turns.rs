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

#[derive(Clone, Debug)]
pub(crate) struct Turn {
    role: &'static str,
    pub(crate) blocks: Vec<Value>,
}

/// The most turns at the end that get marks.
pub(crate) const MARKED: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Turns {
    list: Vec<Turn>,
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

    /// Takes out the turns that no later one extends or has a mark instead of.
    pub(crate) fn settle(&mut self) -> Vec<Value> {
        let settled = self.list.len().saturating_sub(MARKED);
        let blocks = self.blocks;
        self.list
            .drain(..settled)
            .map(|turn| turn.with_results_first(blocks).into_value())
            .collect()
    }

    /// The turns that were not taken out, with a mark on the last ones.
    pub(crate) fn open(&self, mark: impl Fn(&mut Turn)) -> Vec<Value> {
        let unmarked = self.list.len().saturating_sub(MARKED);
        let open = |(at, turn): (usize, &Turn)| {
            let mut turn = turn.clone().with_results_first(self.blocks);
            if at >= unmarked {
                mark(&mut turn);
            }
            turn.into_value()
        };
        self.list.iter().enumerate().map(open).collect()
    }

    /// Whether the model is in a tool loop that it entered without thinking, for example because its reply was cut off or
    /// written by another model. The APIs then refuse to enable thinking.
    pub(crate) fn lacks_thinking(&self) -> bool {
        let [.., assistant, user] = self.list.as_slice() else { return false };
        let in_loop = user.blocks.iter().any(self.blocks.is_result);
        in_loop && !assistant.blocks.first().is_some_and(self.blocks.is_thought)
    }
}

impl Turn {
    /// With the results of tools first.
    fn with_results_first(mut self, blocks: Blocks) -> Self {
        // the sort is stable, so results keep the order of their calls
        self.blocks.sort_by_key(|block| !(blocks.is_result)(block));
        self
    }

    fn into_value(self) -> Value {
        members([("role", self.role.into()), ("content", self.blocks.into())])
    }
}

/// Whether a signature may have come over one of these wires. Signatures of other wires are JSON or the name of a member; a
/// model can have the same name on two wires.
pub(crate) fn is_ours(signature: &str) -> bool {
    !signature.is_empty() && !signature.starts_with('{') && !REASONING.contains(&signature)
}
