//! Translates settings under names that OpenCode has given up.

use crate::tree::{Entry, Node, Text, Tree};

/// Keys of an agent with the same meaning; of both, the later one counts.
const ALIASES: [[&str; 2]; 2] = [["topP", "top_p"], ["maxSteps", "steps"]];

/// Renames older keys in a tree.
pub(crate) fn translate(root: &mut Node) {
    modes(root);
    let Tree::Map(entries) = &mut root.tree else { return };
    let Some(agents) = entries.iter_mut().find(|entry| entry.key == "agent") else { return };
    let Tree::Map(agents) = &mut agents.node.tree else { return };
    for agent in agents {
        let Tree::Map(fields) = &mut agent.node.tree else { continue };
        for aliases in ALIASES {
            let is_one = |entry: &Entry| aliases.contains(&entry.key.as_str());
            if fields.iter().filter(|entry| is_one(entry)).count() == 2
                && let Some(first) = fields.iter().position(is_one)
            {
                fields.remove(first);
            }
        }
    }
}

/// Turns a mode into an agent that takes prompts from people. A value that is not an object stays
/// in place, and its reader reports it.
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
    let Tree::Map(fields) = &mut mode.node.tree else { return };
    fields.retain(|entry| entry.key != "mode");
    let node = Node { at: mode.at.clone(), tree: Tree::Text(Text::plain("primary")) };
    fields.push(Entry { key: "mode".to_owned(), at: mode.at.clone(), node });
}
