//! An actor that lets code outside the actor tree receive messages.

use std::fmt;
use std::marker::PhantomData;

use ractor::{Actor, ActorProcessingErr, ActorRef, Message, SpawnErr};

type Hear<M> = Box<dyn FnMut(M) + Send>;

/// Passes each message to a function, which must be quick, until it is stopped.
pub struct Listener<M>(PhantomData<fn(M)>);

impl<M> fmt::Debug for Listener<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl<M: Message> Listener<M> {
    /// # Errors
    /// The actor cannot be started.
    #[expect(clippy::disallowed_methods, reason = "it belongs to a client, which is no actor")]
    pub async fn start(hear: impl FnMut(M) + Send + 'static) -> Result<ActorRef<M>, SpawnErr> {
        let hear: Hear<M> = Box::new(hear);
        Ok(Actor::spawn(None, Self(PhantomData), hear).await?.0)
    }
}

impl<M: Message> Actor for Listener<M> {
    type Msg = M;
    type State = Hear<M>;
    type Arguments = Hear<M>;

    async fn pre_start(
        &self,
        _: ActorRef<M>,
        hear: Hear<M>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(hear)
    }

    async fn handle(
        &self,
        _: ActorRef<M>,
        message: M,
        hear: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        hear(message);
        Ok(())
    }
}
