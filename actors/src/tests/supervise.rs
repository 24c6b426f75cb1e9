use leftfold_events::event::{EndReason, Model, Session, Tool, Turn};
use leftfold_events::{Event, verify};
use ractor::ActorCell;

use super::*;

/// The actors below `cell`, in the order in which they were started.
fn children(cell: &ActorCell) -> Vec<ActorCell> {
    let mut children = cell.get_children();
    children.sort_by_key(|child| child.get_id());
    children
}

/// The session is the node's second child, after the hub.
fn session(live: &Live) -> ActorCell {
    children(&live.node.get_cell()).last().expect("a session").clone()
}

/// Workers in the order of their start.
#[derive(Clone, Copy)]
pub(super) enum Worker {
    Processor,
    ToolExecutor,
    Snapshots = 4,
}

pub(super) fn kill(live: &Live, worker: Worker) {
    children(&session(live))[worker as usize].kill();
}

pub(super) async fn completed(site: &Site, mut live: Live) -> Vec<Envelope> {
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Completed, "{:?}", ended.error);
    live.stop().await;
    let log = site.log();
    assert_eq!(verify(&log), vec![]);
    log
}

pub(super) fn has(log: &[Envelope], fits: impl Fn(&Event) -> bool) -> bool {
    log.iter().any(|event| fits(&event.event))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_dies_goes_on_where_its_log_ends() {
    let site =
        Site::new(json!({ "replies": [bash("echo ran >> marks.txt; sleep 1000"), text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Tool(Tool::Started { .. }))).await;
    session(&live).kill();
    let log = completed(&site, live).await;
    assert!(has(&log, |e| matches!(e, Event::Session(Session::Resumed { close: false, .. }))));
    assert!(has(&log, |e| matches!(e, Event::Tool(Tool::Lost { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_keeps_dying_is_closed_with_a_reason() {
    let site = Site::new(json!({ "replies": [{ "parts": [{ "stall": true }] }] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    for _ in 0..4 {
        live.until(|e| matches!(e, Event::Model(Model::Requested { .. }))).await;
        session(&live).kill();
    }
    let mut closed = live.opened.closed.clone();
    let reason = tokio::time::timeout(PATIENCE, closed.wait_for(Option::is_some)).await;
    assert!(reason.expect("in time").is_ok());
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_that_dies_costs_one_attempt() {
    let mut reply = text("there");
    reply["parts"] = json!([{ "text": "there" }, { "delay_ms": 400 }]);
    let site = Site::new(json!({ "replies": [reply] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Model(Model::Streamed { .. }))).await;
    kill(&live, Worker::Processor);
    let retry = live.until(|e| matches!(e, Event::Model(Model::RetryScheduled { .. }))).await;
    live.tell(SessionMessage::Told(vec![Fact::of(retry.seq, Session::Elapsed {})]));
    completed(&site, live).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_executor_that_dies_is_an_error_that_the_model_is_told() {
    let site = Site::new(json!({ "replies": [bash("sleep 1000"), text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Tool(Tool::Started { .. }))).await;
    kill(&live, Worker::ToolExecutor);
    let log = completed(&site, live).await;
    assert!(has(&log, |e| {
        matches!(e, Event::Tool(Tool::Finished(finished)) if finished.output.contains("died"))
    }));
}
