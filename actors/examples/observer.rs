//! An observer of one's own: an actor that a live node tells of every event of a session. It is
//! told the next ones when it has answered `done`, and misses nothing meanwhile.
//! `cargo run -p leftfold-actors --example observer` attaches it to a scripted turn.

mod stage;

use leftfold_actors::{NodeMessage, Observation, Watch};
use leftfold_events::event::{Event, Turn};
use leftfold_events::line;
use ractor::{Actor, ActorProcessingErr, ActorRef};

struct Teller;

impl Actor for Teller {
    type Msg = Observation;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Observation>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Observation>,
        Observation { events, done }: Observation,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        for event in events.iter() {
            eprintln!("{} {}", event.seq, line::type_of(&event.event));
            if matches!(event.event, Event::Turn(Turn::Ended(_))) {
                myself.stop(None);
            }
        }
        Ok(done.send(())?)
    }
}

#[tokio::main]
async fn main() -> Result<(), ActorProcessingErr> {
    let (sink, over) = Actor::spawn(None, Teller, ()).await?;
    let (node, session) = stage::live_node().await?;
    node.cast(NodeMessage::Watch(Watch { session, from: 1, sink }))?;
    Ok(over.await?)
}
