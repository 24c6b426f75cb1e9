//! Puts items into an order that a log allows.

use leftfold_events::event::PromptPart;

use super::{Item, ItemKind};

/// Joins prompts in a row, and moves a prompt that arrived while a tool ran before its result. A
/// reply without calls that another reply follows becomes its beginning. A failure that was retried
/// is dropped.
pub(super) fn put(items: Vec<Item>) -> Vec<Item> {
    let mut ordered: Vec<Item> = Vec::with_capacity(items.len());
    let mut replied = false;
    for mut item in items {
        if let ItemKind::Summary(summary) = &item.what
            && !replied
        {
            // Nothing comes before it that it could replace.
            item.what = ItemKind::Prompt(vec![PromptPart::text(summary)]);
        }
        replied |= matches!(item.what, ItemKind::Reply(_));
        add(&mut ordered, item);
    }
    join_turns(&mut ordered);
    ordered
}

fn add(ordered: &mut Vec<Item>, item: Item) {
    if matches!(item.what, ItemKind::Reply(_)) {
        while ordered.last().is_some_and(|last| matches!(last.what, ItemKind::Failed(_))) {
            ordered.pop();
        }
    }
    match (ordered.last_mut().map(|last| &mut last.what), &item.what) {
        (Some(ItemKind::Prompt(before)), ItemKind::Prompt(parts)) => {
            before.extend(parts.iter().cloned());
        }
        (Some(ItemKind::Reply(before)), ItemKind::Reply(reply)) if !before.has_calls() => {
            before.parts.extend(reply.parts.iter().cloned());
            before.usage += reply.usage;
            before.cost += reply.cost;
            before.finish = reply.finish;
        }
        (_, _) => ordered.push(item),
    }
}

/// A prompt right after a result belongs to the running turn. It moves before that result, so that
/// the next request has both.
fn join_turns(ordered: &mut [Item]) {
    for at in 1..ordered.len() {
        let is_joining = matches!(ordered[at].what, ItemKind::Prompt(_))
            && matches!(ordered[at - 1].what, ItemKind::Outcome(_));
        if is_joining {
            ordered.swap(at - 1, at);
        }
    }
}
