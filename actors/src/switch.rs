//! The change to another agent within a turn: its kit is gathered beside the session, as the effect of
//! the `tool.started` of the call that asks for it. What comes of it is an outcome like any other, and
//! so is done again by whoever goes on after a crash.

use leftfold_events::event::{Finished, Tool};
use leftfold_events::{Fact, Json, Kit, Seq, SessionId};
use ractor::ActorRef;

use crate::World;
use crate::node::NodeMessage;
use crate::session::SessionMessage;

/// A call after which another agent takes over.
pub(crate) struct Switch {
    pub(crate) session: SessionId,
    /// The `tool.started`.
    pub(crate) started: Seq,
    /// The model's id of the call.
    pub(crate) call: String,
    pub(crate) agent: &'static str,
    /// What is in force.
    pub(crate) before: Kit,
}

impl Switch {
    /// Tells the session what the agent has to work with; or why it can not take over.
    pub(crate) fn begin(self, world: World, node: ActorRef<NodeMessage>) {
        tokio::task::spawn_blocking(move || {
            let (session, message) = (self.session, self.message(&world));
            // a node that is gone tells nobody
            let _ = node.cast(NodeMessage::Tell { session, message });
        });
    }

    fn message(self, world: &World) -> SessionMessage {
        let configs = world.turn_configs.as_ref();
        let configs = configs.ok_or("There are no other agents here.".to_owned());
        match configs.and_then(|configs| configs.for_switch(self.agent, &self.before)) {
            Ok(kit) => {
                let told = format!("The user has agreed: the agent `{}` takes over.", self.agent);
                let finished = Box::new(self.finished(told, false));
                SessionMessage::Outcome { kit: Box::new(kit), finished }
            }
            Err(why) => SessionMessage::Told(vec![self.finished(why, true)]),
        }
    }

    fn finished(self, output: String, is_error: bool) -> Fact {
        let finished = Finished {
            call: self.call,
            title: format!("To the agent {}", self.agent),
            output,
            is_error,
            metadata: Json::from_value(&serde_json::json!({ "agent": self.agent })),
            spill: None,
            attachments: Vec::new(),
        };
        Fact::of(self.started, Tool::Finished(Box::new(finished)))
    }
}
