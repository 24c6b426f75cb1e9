//! The tests that every engine of a store must pass. A crate with an engine of its own includes this folder with
//! `#[path]`, implements [`EnginePlace`] and calls [`conformance!`].
#![allow(dead_code, unreachable_pub, reason = "a crate with another engine uses a part of this")]

mod memory;
pub mod raw;
mod sled;
pub mod stores;

use std::path::Path;

use leftfold_store::Error;
use leftfold_store::engine::{Engine, ReadEngine};

/// A place that one engine keeps its logs in. Each test gets a new one.
pub trait EnginePlace: Sync {
    /// Opens it as a node does.
    ///
    /// # Errors
    /// [`Error::Locked`] if the engine has one node at a time, and another one has it open.
    fn open(&self) -> Result<Box<dyn Engine>, Error>;

    /// Opens it as a reader does, also while a node has it open.
    fn read(&self) -> Box<dyn ReadEngine>;

    /// A folder for what is not the engine's.
    fn dir(&self) -> &Path;
}

/// Makes a test of each function of the suite.
macro_rules! conformance {
    ($place:expr) => {
        $crate::conformance::conformance! { $place, raw:
            batches_are_acknowledged_and_read_in_order
            a_batch_is_there_entirely_or_not_at_all
            a_batch_that_does_not_follow_the_last_event_is_refused
            a_session_has_one_owner
            rivals_for_a_session_have_one_winner
            an_epoch_that_is_over_is_refused
            a_second_node_gets_no_session_of_the_first
            readers_see_what_was_acknowledged
            an_event_is_looked_up
            events_of_every_size_come_back
            contents_are_kept_under_their_hash
            heads_come_back_as_they_were_given
            everything_is_there_after_opening_again
            closing_waits_for_what_is_under_way
            removed_sessions_are_gone_and_may_begin_again
            hints_come_after_the_events
            a_panicking_receiver_stops_nobody
        }
        $crate::conformance::conformance! { $place, stores:
            a_log_is_written_verified_and_goes_on
            forks_share_events_and_continue_the_chain
            payloads_are_filled_in
            summaries_are_in_the_heads
            heads_are_read_while_events_are_acknowledged
            changes_below_the_seam_are_found
        }
    };
    ($place:expr, $module:ident: $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::conformance::$module::$name(&$place);
        })*
    };
}
pub(crate) use conformance;
