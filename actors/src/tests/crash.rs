use leftfold_events::event::{EndReason, Model, Session, Tool, Turn};
use leftfold_events::{Event, Fact, Time, fold, verify};

use super::*;

/// The log of a whole turn, and the site where it was made.
async fn recorded() -> (Site, Vec<Envelope>) {
    let site = Site::new(repair());
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    live.until_ended().await;
    live.stop().await;
    let log = site.log();
    (site, log)
}

/// Moves a log in time so that it ends now: on a busy machine its deadlines would already have
/// passed.
fn happens_now(log: &mut [Envelope]) {
    let now = Time::from(std::time::SystemTime::now());
    let late = log.last().map_or(0, |last| now.since(last.at));
    for event in log {
        event.at = event.at.plus(late);
        event.until = event.until.map(|until| until.plus(late));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_state_is_the_fold_of_the_log() {
    let site = Site::new(repair());
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!((ended.reason, ended.text.as_str()), (EndReason::Completed, "All is done."));
    assert_eq!(site.read("a.txt"), "one\n");
    assert_eq!(site.read("marks.txt"), "ran\n");
    let state = live.view().await;
    assert_eq!(state.todos.len(), 1);
    live.stop().await;
    let log = site.log();
    assert_eq!(fold(&log), state);
    assert_eq!(verify(&log), vec![]);
}

/// The log is cut after every event, and a new node continues with the script: the turn ends, the
/// decisions verify, and the command has run at most once more than its logged starts.
#[tokio::test(flavor = "multi_thread")]
async fn every_cut_is_resumed_to_the_end_of_the_turn() {
    let (site, log) = recorded().await;
    for at in 3..log.len() {
        let mut log = log[..at].to_vec();
        happens_now(&mut log);
        let cut = site.cut(&log);
        let mut live = cut.start().await;
        assert!(live.opened.unfinished, "cut at {at}");
        live.tell(SessionMessage::Resume {
            config: Box::new(cut.config()),
            world: None,
            close: false,
        });
        let ended = live.until_ended().await;
        let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
        assert_eq!(ended.reason, EndReason::Completed, "cut at {at}: {:?}", ended.error);
        live.stop().await;
        let whole = cut.log();
        assert_eq!(whole[..at], log);
        assert_eq!(verify(&whole), vec![], "cut at {at}");
        let starts = |log: &[Envelope]| {
            let bash = |e: &&Envelope| matches!(&e.event, Event::Tool(tool) if tool.started().is_some_and(|it| it.name == "bash"));
            log.iter().filter(bash).count()
        };
        assert_eq!(starts(&whole), 1, "cut at {at}: the command was started twice");
        // starts that only the old log has did not run in this project
        let here = starts(&whole) - starts(&log);
        assert_eq!(cut.read("marks.txt"), "ran\n".repeat(here), "cut at {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_prompt_closes_the_turn_that_was_cut_off() {
    let (site, log) = recorded().await;
    let started = log.iter().position(|e| matches!(e.event, Event::Tool(Tool::Started { .. })));
    let cut = site.cut(&log[..=started.expect("a start")]);
    let mut live = cut.start().await;
    let config = Box::new(cut.config());
    live.tell(SessionMessage::Resume { config, world: None, close: true });
    live.prompt(&cut, "go on");
    let first = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = first.event else { panic!("{first:?}") };
    assert_eq!(ended.reason, EndReason::Aborted);
    assert!(live.seen.iter().any(|e| matches!(e.event, Event::Tool(Tool::Lost { .. }))));
    live.until_ended().await;
    live.stop().await;
    assert_eq!(verify(&cut.log()), vec![]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_retry_survives_and_keeps_its_time() {
    let fault = json!({ "class": "overloaded", "message": "busy", "retry_after": 60_000 });
    let site = Site::new(json!({ "replies": [
        { "faults": [fault], "parts": [{ "text": "there" }] }
    ] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    let retry = live.until(|e| matches!(e, Event::Model(Model::RetryScheduled { .. }))).await;
    live.stop().await;
    let mut live = site.start().await;
    live.tell(SessionMessage::Resume {
        config: Box::new(site.config()),
        world: None,
        close: false,
    });
    let resumed = live.until(|e| matches!(e, Event::Session(Session::Resumed { .. }))).await;
    let owner = resumed.notes.owner.as_ref().map(|owner| owner.version.as_str());
    assert_eq!(owner, Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(live.view().await.due(), retry.until);
    // the actors stamp the time: here they report that the deadline has passed
    live.tell(SessionMessage::Facts(vec![Fact::for_intent(retry.seq, Session::DeadlinePassed {})]));
    live.until(|e| matches!(e, Event::Model(Model::Failed { .. } | Model::Finished { .. }))).await;
    live.stop().await;
}
