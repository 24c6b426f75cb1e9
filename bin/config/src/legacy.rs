//! Settings in words that OpenCode has left behind.

use super::sources::Document;
use super::tree::{Entry, Node, Text, Tree};
use super::{Env, Error, tree};

/// The tree of a document, with what older words in it mean in those of today.
pub(super) fn node(document: &Document, env: Env<'_>) -> Result<Node, Error> {
    let mut node = tree::of(document, env)?;
    modes(&mut node);
    Ok(node)
}

/// A mode is an agent that takes prompts of people. What is no object stays where it is, for its reader
/// to say so.
fn modes(root: &mut Node) {
    let Tree::Map(entries) = &mut root.tree else { return };
    let is_map = |entry: &Entry| matches!(entry.node.tree, Tree::Map(_));
    let agents_are = entries.iter().find(|entry| entry.key == "agent").is_none_or(is_map);
    let at = entries.iter().position(|entry| entry.key == "mode" && is_map(entry));
    let Some(at) = at.filter(|_| agents_are) else { return };
    let mut modes = entries.remove(at);
    if let Tree::Map(modes) = &mut modes.node.tree {
        modes.iter_mut().for_each(primary);
    }
    match entries.iter_mut().find(|entry| entry.key == "agent") {
        Some(agents) => agents.node.merge(modes.node, &[]),
        None => entries.push(Entry { key: "agent".to_owned(), ..modes }),
    }
}

fn primary(mode: &mut Entry) {
    let Tree::Map(said) = &mut mode.node.tree else { return };
    said.retain(|entry| entry.key != "mode");
    let text = Text { value: "primary".to_owned(), ..Text::default() };
    let node = Node { at: mode.at.clone(), tree: Tree::Text(text) };
    said.push(Entry { key: "mode".to_owned(), at: mode.at.clone(), node });
}
