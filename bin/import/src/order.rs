//! Puts what was read into an order in which a log can tell it.

use leftfold_events::event::PromptPart;

use super::{Item, What};

/// Prompts in a row are one, and one that came while a tool ran was told with its result. A reply that
/// made no call and was followed by another is the beginning of that. A failure that was got over is none.
pub(super) fn put(items: Vec<Item>) -> Vec<Item> {
    let mut ordered: Vec<Item> = Vec::with_capacity(items.len());
    let mut replied = false;
    for mut item in items {
        if let What::Summary(summary) = &item.what
            && !replied
        {
            // there is nothing that it could stand for
            item.what = What::Prompt(vec![PromptPart::text(summary)]);
        }
        replied |= matches!(item.what, What::Reply(_));
        add(&mut ordered, item);
    }
    join_turns(&mut ordered);
    ordered
}

fn add(ordered: &mut Vec<Item>, item: Item) {
    if matches!(item.what, What::Reply(_)) {
        while ordered.last().is_some_and(|last| matches!(last.what, What::Failed(_))) {
            ordered.pop();
        }
    }
    match (ordered.last_mut().map(|last| &mut last.what), &item.what) {
        (Some(What::Prompt(before)), What::Prompt(parts)) => before.extend(parts.iter().cloned()),
        (Some(What::Reply(before)), What::Reply(reply)) if !before.has_calls() => {
            before.parts.extend(reply.parts.iter().cloned());
            before.usage += reply.usage;
            before.cost += reply.cost;
            before.finish = reply.finish;
        }
        (_, _) => ordered.push(item),
    }
}

/// A prompt right behind a result belongs to the turn under way: it comes before that result, so that the
/// next request has both.
fn join_turns(ordered: &mut [Item]) {
    for at in 1..ordered.len() {
        let is_joining = matches!(ordered[at].what, What::Prompt(_))
            && matches!(ordered[at - 1].what, What::Outcome(_));
        if is_joining {
            ordered.swap(at - 1, at);
        }
    }
}
