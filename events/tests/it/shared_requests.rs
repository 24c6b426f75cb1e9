//! A request shares the messages before the first changed one with the request before it.

use leftfold_events::event::Compaction;
use leftfold_events::request_builder::{request, turn_request};
use leftfold_events::{Event, State};

use crate::long_log;

#[test]
fn a_request_shares_messages_before_cleared_output() {
    let mut state = State::default();
    let mut most = 0;
    for event in long_log::session(4_000) {
        if !matches!(event.event, Event::Compaction(Compaction::Pruned { .. })) {
            state.apply(&event);
            continue;
        }
        let before = turn_request(&state).messages;
        state.apply(&event);
        let after = turn_request(&state);
        assert_eq!(after, request(&state), "at {}", event.seq);
        let pairs = before.iter().zip(&after.messages);
        let changed = pairs.clone().take_while(|(before, after)| before == after).count();
        let shared = pairs.take_while(|(before, after)| before.is_clone_of(after)).count();
        // the answer whose call's output was cleared is built again, although it is equal
        assert!(shared + 1 >= changed, "{shared} of {changed} messages at {}", event.seq);
        most = most.max(shared);
    }
    assert!(most > 20, "{most}");
}
