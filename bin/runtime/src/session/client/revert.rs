//! Reverts a session, and undoes a revert. `tools/snapshots/src/restore.rs` restores the files.

use anyhow::Context;
use leftfold_actors::{Answered, NodeMessage};
use leftfold_events::event::Files;
use leftfold_events::{Fact, Seq};

use super::{Client, DIED, Link, message};
use crate::session_setup::PromptConfig;

/// The event whose step or prompt to revert to; `None` undoes the last revert.
pub(super) type RevertTarget = Option<Seq>;

impl Client {
    /// Requests it. Answers the reason of a refusal, or nothing once the revert is in the log.
    pub async fn revert(
        &self,
        prompt_config: PromptConfig,
        back: RevertTarget,
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
        let asked = asked.settling(self.settles);
        let answered = ractor::call!(node, |reply_to| NodeMessage::Tell {
            session: self.session,
            message: message(prompt_config, asked, false, Some(reply_to)),
        });
        if answered.context(DIED)? == Answered::Accepted {
            return Ok(Ok(()));
        }
        let state = self.view().await?;
        let refused = match back {
            Some(to) => state.revert_to(to).map(|_| ()),
            None => state.may_unrevert(),
        };
        Ok(refused
            .map_err(|why| why.to_string())
            .and(Err("the session cannot do that now".to_owned())))
    }
}
