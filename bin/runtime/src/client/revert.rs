//! Going back in a session, and taking that back.

use anyhow::Context;
use leftfold_actors::{Answered, NodeMessage, SessionMessage};
use leftfold_events::event::Files;
use leftfold_events::{Fact, Seq, TurnConfig};

use super::{Client, DIED, Link};

/// To the step or prompt that an event belongs to, or (`None`) forward again.
pub(super) type Back = Option<Seq>;

impl Client {
    /// Asks for it. What became of that: why not, or nothing once it is in the log.
    pub async fn revert(
        &self,
        config: TurnConfig,
        back: Back,
        by: &str,
    ) -> anyhow::Result<Result<(), String>> {
        let node = match &self.link {
            Link::Here { node, .. } => node,
            Link::There(remote) => return remote.revert(back, by).await,
        };
        let by = by.to_owned();
        let asked = match back {
            Some(to) => Fact::new(Files::RevertAsked { to, by }),
            None => Fact::new(Files::UnrevertAsked { by }),
        };
        let (config, prompted) = (Box::new(config), Box::new(asked));
        let told = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Prompt {
                config,
                prompted,
                joins: false,
                reply_to: Some(reply_to)
            },
        });
        if told.context(DIED)? == Answered::Accepted {
            return Ok(Ok(()));
        }
        let state = self.view().await?;
        let refused = match back {
            Some(to) => state.revert_to(to).map(|_| ()),
            None => state.may_unrevert(),
        };
        Ok(refused.map_err(|why| why.to_string()).and(Err("it is not possible now".to_owned())))
    }
}
