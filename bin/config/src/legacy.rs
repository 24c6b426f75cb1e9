//! Settings in words that OpenCode has left behind.

use crate::tree::{Entry, Node, Text, Tree};

/// Keys of an agent that mean the same: of both, the later one counts.
const ALIASES: [[&str; 2]; 2] = [["topP", "top_p"], ["maxSteps", "steps"]];

/// Puts older words in a tree into those of today.
pub(crate) fn translate(root: &mut Node) {
    modes(root);
    let Tree::Map(entries) = &mut root.tree else { return };
    let Some(agents) = entries.iter_mut().find(|entry| entry.key == "agent") else { return };
    let Tree::Map(agents) = &mut agents.node.tree else { return };
    for agent in agents {
        let Tree::Map(said) = &mut agent.node.tree else { continue };
        for aliases in ALIASES {
            let is_one = |entry: &Entry| aliases.contains(&entry.key.as_str());
            if said.iter().filter(|entry| is_one(entry)).count() == 2
                && let Some(first) = said.iter().position(is_one)
            {
                said.remove(first);
            }
        }
    }
}

/// A mode is an agent that takes prompts of people. What is no object stays where it is, for its reader
/// to say so.
fn modes(root: &mut Node) {
    let Tree::Map(entries) = &mut root.tree else { return };
    let is_map = |entry: &Entry| entry.node.is_map();
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
    let node = Node { at: mode.at.clone(), tree: Tree::Text(Text::plain("primary")) };
    said.push(Entry { key: "mode".to_owned(), at: mode.at.clone(), node });
}
