//! Measures the cost of observers: a turn of a hundred calls alone, and with fifty observers, in
//! pairs. Run it with `cargo bench -p leftfold-actors`. The ratio is the result.
#![allow(clippy::disallowed_methods, reason = "it is the root of its tree")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is a bench")]

#[allow(dead_code, reason = "the example's own turn")]
mod stage;

use std::time::{Duration, Instant};

use leftfold_actors::{NodeMessage, Observation, Watch, WatchScope};
use leftfold_events::Seq;
use leftfold_events::event::{Event, Turn};
use ractor::{Actor, ActorProcessingErr, ActorRef};

const PAIRS: usize = 9;
const WATCHING: usize = 50;
const CALLS: usize = 100;

/// Reads every line, and checks that none is missing.
struct Reader;

impl Actor for Reader {
    type Msg = Observation;
    type State = Seq;
    type Arguments = Seq;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        last: Seq,
    ) -> Result<Seq, ActorProcessingErr> {
        Ok(last)
    }

    async fn handle(
        &self,
        myself: ActorRef<Observation>,
        told: Observation,
        last: &mut Seq,
    ) -> Result<(), ActorProcessingErr> {
        for event in told.events.iter() {
            assert_eq!(event.seq, *last + 1);
            *last = event.seq;
            assert!(event.line().ends_with('}'));
            if matches!(event.event, Event::Turn(Turn::Ended(_))) {
                myself.stop(None);
            }
        }
        let _ = told.done.send(());
        Ok(())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        alone.push(turn(1).await);
        watched.push(turn(1 + WATCHING).await);
    }
    let mut ratios: Vec<f64> =
        alone.iter().zip(&watched).map(|(a, w)| w.as_secs_f64() / a.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    alone.sort_unstable();
    println!(
        "a turn of {CALLS} calls takes {:.0} ms alone and {:.2} times as long with {WATCHING} observers",
        alone[PAIRS / 2].as_secs_f64() * 1000.0,
        ratios[PAIRS / 2]
    );
}

/// The time from the prompt until the first sink has seen the end.
async fn turn(sinks: usize) -> Duration {
    let call = r#"{ "parts": [{ "text": "I look." }, { "call": { "name": "glob", "input": { "pattern": "*.rs" } } }] }"#;
    let replies = vec![call; CALLS].join(",");
    let script = format!(r#"{{ "replies": [{replies}, {{ "parts": [{{ "text": "Well." }}] }}] }}"#);
    let (node, session, prompt) = stage::open(script).await.unwrap();
    let mut over = Vec::new();
    for _ in 0..sinks {
        let (sink, ends) = Actor::spawn(None, Reader, 0).await.unwrap();
        node.cast(NodeMessage::Watch(Watch { session, from: 1, sink, family: WatchScope::Alone }))
            .unwrap();
        over.push(ends);
    }
    let began = Instant::now();
    node.cast(prompt).unwrap();
    let mut over = over.into_iter();
    over.next().unwrap().await.unwrap();
    let took = began.elapsed();
    for ends in over {
        ends.await.unwrap();
    }
    node.stop_and_wait(None, None).await.unwrap();
    took
}
