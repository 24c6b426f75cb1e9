//! The parts of a turn configuration: agents, models, the system prompt, tools, the sandbox.

pub mod agents;
pub(crate) mod auxiliary_agents;
pub mod executors;
pub mod formatting;
pub mod gather;
pub(crate) mod gathering;
pub mod language_servers;
pub mod model;
pub mod model_list;
pub mod sandbox;
pub mod search;
pub mod workplace;
