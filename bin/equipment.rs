//! What a client gives with a prompt.

use leftfold_events::Kit;
use leftfold_events::event::ModelRef;

/// What goes with a prompt: the kit, and who is to answer with which model.
#[derive(Clone, Debug)]
pub(crate) struct Equipment {
    pub(crate) kit: Kit,
    pub(crate) agent: String,
    pub(crate) model: ModelRef,
}
