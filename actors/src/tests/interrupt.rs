use std::time::Instant;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::event::{EndReason, Finish, Model, Tool, Turn, Usage};
use leftfold_events::{Event, Request, verify};
use leftfold_providers::{Provider, StreamEvent};

use super::*;

/// Ten times the allowed duration of an interrupt.
const LIMIT: Duration = Duration::from_secs(1);

/// Interrupts after an event that `fits`; the turn ends at once, in a state that verifies.
async fn interrupted_at(script: Value, fits: impl Fn(&Event) -> bool) -> (Site, Vec<Envelope>) {
    let site = Site::new(script);
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(fits).await;
    let start = Instant::now();
    live.interrupt();
    let ended = live.until_ended().await;
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Aborted);
    live.stop().await;
    let log = site.log();
    assert_eq!(verify(&log), vec![]);
    (site, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_stream() {
    let script = json!({ "replies": [{ "parts": [{ "text": "half" }, { "stall": true }] }] });
    interrupted_at(script, |e| matches!(e, Event::Model(Model::Streamed { .. }))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_byte() {
    let script = json!({ "replies": [{ "parts": [{ "stall": true }] }] });
    interrupted_at(script, |e| matches!(e, Event::Model(Model::Requested { .. }))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_command() {
    let script = json!({ "replies": [bash("echo begun; sleep 1000")] });
    let (_site, log) =
        interrupted_at(script, |e| matches!(e, Event::Tool(Tool::Progressed { .. }))).await;
    assert!(log.iter().any(|e| matches!(e.event, Event::Tool(Tool::Cancelled { .. }))));
    leftfold_process::settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_retry_wait() {
    let fault = json!({ "class": "overloaded", "message": "busy", "retry_after": 3_600_000 });
    let script = json!({ "replies": [{ "faults": [fault], "parts": [{ "text": "there" }] }] });
    interrupted_at(script, |e| matches!(e, Event::Model(Model::RetryScheduled { .. }))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_model_is_given_up_when_its_time_is_over() {
    let site = Site::new(json!({ "replies": [{ "parts": [{ "stall": true }] }] }));
    let mut live = site.start().await;
    let mut config = site.config();
    config.options.timeout = 50;
    config.options.retries = 0;
    live.prompt_with(config, "hi");
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Error);
    assert!(ended.error.expect("an error").contains("silent"));
    live.stop().await;
}

/// Writes the input of a call in many pieces. None of them is reported before the call is complete.
#[derive(Debug)]
struct Trickle;

impl Provider for Trickle {
    fn name(&self) -> &'static str {
        "s"
    }

    fn body(&self, _: &Request) -> Vec<u8> {
        Vec::new()
    }

    fn stream(&self, _: Request) -> BoxStream<'static, StreamEvent> {
        let pieces = stream::iter(0..40).then(|_| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            StreamEvent::ToolInputDelta { id: "0".into(), text: " ".into() }
        });
        let finish = StreamEvent::Finish { finish: Finish::Stop, usage: Usage::default() };
        pieces.chain(stream::iter([finish])).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_a_long_call_is_not_silent() {
    let mut site = Site::new(json!({ "replies": [text("unused")] }));
    site.provider = Some(Arc::new(Trickle));
    let mut live = site.start().await;
    let mut config = site.config();
    // shorter than the 800 ms of the call, and longer than the delays of a busy machine
    config.options.timeout = 400;
    config.options.retries = 0;
    live.prompt_with(config, "hi");
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Completed, "{:?}", ended.error);
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_stopped_when_its_time_is_over() {
    let command = json!({ "command": "echo begun; sleep 1000", "timeout": 100 });
    let site = Site::new(json!({ "replies": [call("bash", &command), text("so be it")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Tool(Tool::Cancelled { .. }))).await;
    live.until_ended().await;
    let state = live.view().await;
    let request =
        serde_json::to_string(&leftfold_events::request_builder::request(&state)).expect("json");
    assert!(request.contains("0.1 s") && request.contains("begun"), "{request}");
    live.stop().await;
}
