use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use leftfold_events::event::{Answer, EndReason, Permission, Tool};
use leftfold_events::state::PendingKind;
use leftfold_events::{fold, verify};

use super::supervise::{Worker, assert_runs_again, completed, has, kill};
use super::*;
use crate::{ChildConfig, QuestionReply, TurnConfigs};

/// How the configuration for a switch is built.
#[derive(Debug)]
enum Configs {
    /// From the one in force, with the agent's name in it.
    Plain,
    /// There is no such agent.
    Missing,
    Panics,
    /// Not before this channel is closed.
    Waits(Mutex<Receiver<()>>),
}

impl TurnConfigs for Configs {
    fn for_child(&self, agent: &str, _: &TurnConfig) -> Result<ChildConfig, String> {
        Err(format!("there is no child {agent}"))
    }

    fn for_switch(&self, agent: &str, before: &TurnConfig) -> Result<TurnConfig, String> {
        match self {
            Self::Plain => {}
            Self::Missing => return Err(format!("there is no agent {agent}")),
            Self::Panics => panic!("as the test wants it"),
            Self::Waits(closed) => {
                let _ = closed.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
        }
        let mut config = before.clone();
        config.system = vec![format!("You are {agent}.")];
        (config.options.plans, config.options.reminder) = (true, "Only look.".to_owned());
        Ok(config)
    }
}

fn site(configs: Configs) -> Site {
    let script = json!({ "replies": [call("plan_enter", &json!({})), text("I plan.")] });
    Site { turn_configs: Some(Arc::new(configs)), ..Site::new(script) }
}

/// A site whose switches wait until the returned sender is dropped.
fn waiting_site() -> (Site, Sender<()>) {
    let (open, closed) = channel();
    (site(Configs::Waits(Mutex::new(closed))), open)
}

/// Answers yes to every question until the turn is over.
async fn agree(live: &mut Live, mut asked: Option<Seq>) -> EndReason {
    loop {
        if let Some(of) = asked.take() {
            allow(live, of);
        }
        let asks = |e: &Event| matches!(e, Event::Permission(Permission::Asked { .. }));
        let ends = |e: &Event| matches!(e, Event::Turn(Turn::Ended(_)));
        let event = live.until(|event| asks(event) || ends(event)).await;
        if let Event::Turn(Turn::Ended(ended)) = event.event {
            return ended.reason;
        }
        asked = Some(event.seq);
    }
}

fn allow(live: &Live, of: Seq) {
    let reply =
        QuestionReply { answer: Answer::Once, feedback: None, always: None, by: "test".into() };
    let (told, _) = tokio::sync::oneshot::channel();
    live.tell(SessionMessage::Answer { of, reply, settles: None, reply_to: told.into() });
}

/// Prompts and allows the switch; returns when it has begun.
async fn switching(site: &Site) -> Live {
    let mut live = site.start().await;
    live.prompt(site, "do it");
    let asked = live.until(|e| matches!(e, Event::Permission(Permission::Asked { .. }))).await;
    allow(&live, asked.seq);
    live.until(|e| matches!(e, Event::Tool(Tool::Started { .. }))).await;
    live
}

fn switches(log: &[Envelope]) -> usize {
    let switched = |e: &&Envelope| matches!(e.event, Event::Turn(Turn::Switched { .. }));
    log.iter().filter(switched).count()
}

/// The log is cut after every event, and a new node continues: the other agent takes over once.
#[tokio::test(flavor = "multi_thread")]
async fn every_cut_comes_to_the_same_agent() {
    let site = site(Configs::Plain);
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    assert_eq!(agree(&mut live, None).await, EndReason::Completed);
    live.stop().await;
    let log = site.log();
    for at in 3..log.len() {
        let cut = site.cut(&log[..at]);
        let mut live = cut.start().await;
        let open = fold(&log[..at]);
        let asked = open.open().into_iter().find(|(kind, _)| *kind == PendingKind::Question);
        live.tell(SessionMessage::Resume {
            config: Box::new(open.config),
            world: None,
            close: false,
        });
        live.until(|e| matches!(e, Event::Session(Session::Resumed { .. }))).await;
        let asked = asked.map(|(_, wait)| wait.intent);
        assert_eq!(agree(&mut live, asked).await, EndReason::Completed, "cut at {at}");
        live.stop().await;
        let whole = cut.log();
        let state = fold(&whole);
        assert_eq!((state.agent.as_str(), switches(&whole)), ("plan", 1), "cut at {at}");
        assert_eq!(state.config.system, ["You are plan."]);
        assert_eq!(verify(&whole), vec![], "cut at {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_leaves_everything_as_it_was() {
    let site = site(Configs::Missing);
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    assert_eq!(agree(&mut live, None).await, EndReason::Completed);
    live.stop().await;
    let log = site.log();
    let state = fold(&log);
    assert_eq!((state.agent.as_str(), switches(&log)), ("build", 0));
    assert!(format!("{:?}", state.messages).contains("there is no agent plan"));
}

/// Whether the model got this text for a call that did not switch the agent.
fn told(log: &[Envelope], what: &str) -> bool {
    assert_eq!((fold(log).agent.as_str(), switches(log)), ("build", 0));
    has(log, |e| {
        matches!(e, Event::Tool(Tool::Finished(finished))
            if finished.is_error && finished.output.contains(what))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_over_a_switch_leaves_the_agent() {
    let (site, waits) = waiting_site();
    let live = switching(&site).await;
    kill(&live, Worker::ToolExecutor).await;
    let log = completed(&site, live).await;
    // a configuration that is built too late changes nothing
    drop(waits);
    assert!(told(&log, "died"));
    assert_runs_again(&site, log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_dies_over_a_switch_switches_once() {
    let (site, waits) = waiting_site();
    let live = switching(&site).await;
    super::supervise::session(&live).kill();
    drop(waits);
    let log = completed(&site, live).await;
    assert_eq!((fold(&log).agent.as_str(), switches(&log)), ("plan", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_does_not_wait_for_a_switch() {
    let (site, waits) = waiting_site();
    let mut live = switching(&site).await;
    live.interrupt();
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Aborted);
    drop(waits);
    live.stop().await;
    let log = site.log();
    assert_eq!((fold(&log).agent.as_str(), switches(&log)), ("build", 0));
    assert_eq!(verify(&log), vec![]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_panics_is_an_error_that_the_model_is_told() {
    let site = site(Configs::Panics);
    let live = switching(&site).await;
    let log = completed(&site, live).await;
    assert!(told(&log, "failed unexpectedly"));
    assert_runs_again(&site, log).await;
}
