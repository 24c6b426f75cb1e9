//! Prompts the project in the current folder; an observer actor of its own prints every event:
//! `cargo run -p leftfold-runtime --example observer -- "What is in this folder?"`
#![allow(clippy::print_stdout, reason = "the answer is the program's output")]
use leftfold_runtime::events::event::{Event, Turn};
use leftfold_runtime::ractor::{Actor, ActorProcessingErr, ActorRef};
use leftfold_runtime::{Leftfold, Observation};

type Outcome = Result<(), ActorProcessingErr>;

struct Observer;

impl Actor for Observer {
    type Msg = Observation;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Observation>, (): ()) -> Outcome {
        Ok(())
    }

    async fn handle(&self, me: ActorRef<Observation>, seen: Observation, (): &mut ()) -> Outcome {
        seen.events.iter().for_each(|event| eprintln!("{}", event.line()));
        if seen.events.iter().any(|event| matches!(event.event, Event::Turn(Turn::Ended(_)))) {
            me.stop(None);
        }
        Ok(seen.done.send(())?)
    }
}

fn main() -> Result<std::process::ExitCode, ActorProcessingErr> {
    // the sandbox of commands starts this program again
    leftfold_runtime::become_helper().map_or_else(|| run().map(|()| 0.into()), Ok)
}

#[tokio::main]
async fn run() -> Outcome {
    let leftfold = Leftfold::open(".").await?;
    let mut session = leftfold.new_session().await?;
    let (observer, has_seen_all) = Actor::spawn(None, Observer, ()).await?;
    session.observe(1, observer).await?;
    println!("{}", session.prompt(&std::env::args().nth(1).unwrap_or_default()).await?.text);
    has_seen_all.await?;
    Ok(leftfold.close().await?)
}
