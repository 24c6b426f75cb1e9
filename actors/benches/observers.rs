//! Measures the cost of observers: a turn of a hundred calls alone, and with fifty observers, in
//! pairs. Run it with `cargo bench -p leftfold-actors`. The ratio is the result.
#![allow(clippy::disallowed_methods, reason = "it is the root of its tree")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "this is a bench")]

#[allow(dead_code, reason = "the example's own turn")]
mod stage;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use leftfold_actors::{NodeMessage, Observation, Watch, WatchScope};
use leftfold_events::Seq;
use leftfold_events::event::{Event, Tool, Turn};
use ractor::{Actor, ActorProcessingErr, ActorRef};

const PAIRS: usize = 9;
const WATCHING: usize = 50;
const CALLS: usize = 100;

/// Reads every line, checks that none is missing, and tells the time of the turn by its log.
struct LineReader;

#[derive(Default)]
struct Read {
    last: Seq,
    calls: usize,
    began: u64,
    took: Option<Sender<Duration>>,
}

impl Actor for LineReader {
    type Msg = Observation;
    type State = Read;
    type Arguments = Sender<Duration>;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        took: Sender<Duration>,
    ) -> Result<Read, ActorProcessingErr> {
        Ok(Read { took: Some(took), ..Read::default() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Observation>,
        told: Observation,
        read: &mut Read,
    ) -> Result<(), ActorProcessingErr> {
        for event in told.events.iter() {
            assert_eq!(event.seq, read.last + 1);
            read.last = event.seq;
            assert!(event.line().ends_with('}'));
            if let Event::Turn(Turn::Prompted { .. }) = event.event {
                read.began = event.at.millis();
            }
            if let Event::Tool(Tool::Finished(_)) = event.event {
                read.calls += 1;
            }
            if let Event::Turn(Turn::Ended(_)) = event.event {
                assert_eq!(read.calls, CALLS);
                let took = Duration::from_millis(event.at.millis() - read.began);
                read.took.take().unwrap().send(took).unwrap();
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

async fn turn(sinks: usize) -> Duration {
    // each call is another one: a model that repeats itself is stopped
    let call = |n| {
        format!(
            r#"{{ "parts": [{{ "text": "I look." }}, {{ "call": {{ "name": "glob", "input": {{ "pattern": "*{n}.rs" }} }} }}] }}"#
        )
    };
    let replies: Vec<String> = (0..CALLS).map(call).collect();
    let replies = replies.join(",");
    let script = format!(r#"{{ "replies": [{replies}, {{ "parts": [{{ "text": "Well." }}] }}] }}"#);
    let (node, session, prompt) = stage::open(script).await.unwrap();
    let (took, times) = channel();
    let mut over = Vec::new();
    for _ in 0..sinks {
        let (sink, ends) = Actor::spawn(None, LineReader, took.clone()).await.unwrap();
        node.cast(NodeMessage::Watch(Watch { session, from: 1, sink, family: WatchScope::Alone }))
            .unwrap();
        over.push(ends);
    }
    node.cast(prompt).unwrap();
    for ends in over {
        ends.await.unwrap();
    }
    node.stop_and_wait(None, None).await.unwrap();
    times.recv().unwrap()
}
