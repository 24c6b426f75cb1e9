//! An actor of one's own that a live node tells of every event of a session. It is told the next
//! ones when it has answered `done`, and misses nothing meanwhile.
//! `cargo run -p leftfold-actors --example observer` attaches it to a scripted turn.
mod stage;

use leftfold_actors::{Family, NodeMessage, Observation, Watch};
use leftfold_events::event::{Event, Turn};
use ractor::{Actor, ActorProcessingErr, ActorRef};

type Outcome = Result<(), ActorProcessingErr>;

struct Teller;

impl Actor for Teller {
    type Msg = Observation;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Observation>, (): ()) -> Outcome {
        Ok(())
    }

    async fn handle(&self, me: ActorRef<Observation>, told: Observation, (): &mut ()) -> Outcome {
        told.events.iter().for_each(|event| eprintln!("{}", event.line()));
        if told.events.iter().any(|event| matches!(event.event, Event::Turn(Turn::Ended(_)))) {
            me.stop(None);
        }
        Ok(told.done.send(())?)
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let (sink, over) = Actor::spawn(None, Teller, ()).await?;
    let (node, session) = stage::live_node().await?;
    node.cast(NodeMessage::Watch(Watch { session, from: 1, sink, family: Family::Alone }))?;
    Ok(over.await?)
}
