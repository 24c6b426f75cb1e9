use leftfold_events::Event;
use leftfold_events::event::Permission;
use ractor::{ActorProcessingErr, RpcReplyPort};

use super::*;
use crate::{Answered, QuestionReply};

/// Keeps every observation without acknowledging it, until told to.
struct Slow;

struct Held {
    sender: mpsc::UnboundedSender<(Vec<Envelope>, RpcReplyPort<()>)>,
}

impl Actor for Slow {
    type Msg = Observation;
    type State = Held;
    type Arguments = mpsc::UnboundedSender<(Vec<Envelope>, RpcReplyPort<()>)>;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        sender: Self::Arguments,
    ) -> Result<Held, ActorProcessingErr> {
        Ok(Held { sender })
    }

    async fn handle(
        &self,
        _: ActorRef<Observation>,
        observation: Observation,
        held: &mut Held,
    ) -> Result<(), ActorProcessingErr> {
        let _ = held.sender.send((
            observation.events.iter().map(|e| Envelope::clone(e)).collect(),
            observation.done,
        ));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_observer_blocks_nobody_and_misses_nothing() {
    let site = Site::new(repair());
    let mut live = site.start().await;
    let (sender, mut held) = mpsc::unbounded_channel();
    let (sink, _) = Actor::spawn(None, Slow, sender).await.expect("a sink");
    let watch = Watch { session: site.session, from: 1, sink, family: WatchScope::Alone };
    live.node.cast(NodeMessage::Watch(watch)).expect("a node");
    live.prompt(&site, "do it");
    // the turn ends while the slow observer still holds its first batch
    live.until_ended().await;
    let mut got: Vec<Envelope> = Vec::new();
    let mut observations = 0;
    while got.len() < live.seen.len() {
        observations += 1;
        let (events, done) = tokio::time::timeout(STEP_TIMEOUT, held.recv())
            .await
            .expect("in time")
            .expect("a batch");
        assert!(held.try_recv().is_err(), "more than one batch in flight");
        got.extend(events);
        done.send(()).expect("the hub");
    }
    assert_eq!(got, live.seen);
    assert_eq!(observations, 2, "what happened meanwhile comes at once");
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_observer_gets_everything_from_its_cursor_on() {
    let site = Site::new(repair());
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    live.until_ended().await;
    let mut late = live.watch(5).await;
    for event in &live.seen[4..] {
        let got = tokio::time::timeout(STEP_TIMEOUT, late.recv()).await.expect("in time");
        assert_eq!(got.as_ref(), Some(event));
    }
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_counts_and_the_others_are_told_who_gave_it() {
    let outside = call("read", &json!({ "filePath": "/etc/hostname" }));
    let site = Site::new(json!({ "replies": [outside, text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    let asked = live.until(|e| matches!(e, Event::Permission(Permission::Asked { .. }))).await;
    let mut accepted = 0;
    for by in ["ann", "bob", "eve"] {
        let reply = QuestionReply {
            answer: leftfold_events::event::Answer::Reject,
            feedback: Some("not outside".into()),
            always: None,
            by: by.into(),
        };
        let (session, of) = (site.session, asked.seq);
        let told = ractor::call!(live.node, |reply_to| NodeMessage::Tell {
            session,
            message: SessionMessage::Answer { of, reply, settles: None, reply_to }
        });
        match told.expect("an answer") {
            Answered::Accepted => accepted += 1,
            Answered::Already { by } => assert_eq!(by, "ann"),
            Answered::NotOpen | Answered::Refused { .. } | Answered::Repeated { .. } => {}
        }
    }
    assert_eq!(accepted, 1);
    live.until_ended().await;
    let answers = live
        .seen
        .iter()
        .filter(|e| matches!(e.event, Event::Permission(Permission::Answered { .. })));
    assert_eq!(answers.count(), 1);
    live.stop().await;
    assert!(names(&site.project()).is_empty());
}
