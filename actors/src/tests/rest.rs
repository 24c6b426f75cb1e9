use std::path::{Path, PathBuf};
use std::sync::Mutex;

use leftfold_events::event::{Answer, Permission, PromptPart};
use leftfold_events::{fold, verify};

use leftfold_providers::Extra;

use super::supervise::assert_runs_again;
use super::*;
use crate::{Answered, QuestionReply, StoreGuard, StoreListener};

fn sweep(live: &Live) {
    live.node.cast(NodeMessage::Sweep { idle: Duration::ZERO }).expect("a node");
}

/// Waits until the store is free, and releases it again.
async fn is_free(site: &Site) {
    let folder = site.store();
    let opened = tokio::task::spawn_blocking(move || leftfold_store::Store::open(&folder));
    opened.await.expect("no panic").expect("the store is free");
}

fn in_order(events: &[Envelope]) {
    let seqs: Vec<Seq> = events.iter().map(|event| event.seq).collect();
    let all: Vec<Seq> = (1..).take(seqs.len()).collect();
    assert_eq!(seqs, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_left_alone_lets_go_of_its_store_until_it_is_wanted() {
    let site = Site::new(json!({ "replies": [text("one"), text("two"), text("three")] }));
    let mut live = site.start().await;
    for (prompts, rests) in [("one", true), ("two", true), ("three", false)] {
        live.prompt(&site, prompts);
        live.until_ended().await;
        if rests {
            sweep(&live);
            is_free(&site).await;
        }
    }
    // the observer from before the rest got every event once
    in_order(&live.seen);
    assert_eq!(site.log(), live.seen);
    assert!(live.opened.closed.borrow().is_none(), "it was never closed for good");
    sweep(&live);
    is_free(&site).await;
    assert_eq!(live.view().await.messages.len(), 6);
    live.stop().await;
}

/// An earlier version has ended the first turn; nothing was left to resume.
#[tokio::test(flavor = "multi_thread")]
async fn this_version_decides_about_the_next_prompt_of_an_old_session() {
    let site = Site::new(json!({ "replies": [text("one"), text("two"), text("three")] }));
    let mut live = site.start().await;
    live.prompt(&site, "one");
    live.until_ended().await;
    live.stop().await;
    let mut log = site.log();
    for event in &mut log {
        if let Event::Session(Session::Created { policy, .. }) = &mut event.event {
            *policy = POLICY - 1;
        }
    }
    let old = site.cut(&log);
    let mut live = old.start().await;
    for _ in ["two", "three"] {
        live.prompt(&old, "more");
        live.until_ended().await;
    }
    live.stop().await;
    let all = old.log();
    let resumed = Event::from(Session::Resumed { policy: POLICY, close: true });
    let at = all.iter().filter(|event| event.event == resumed).map(|event| event.seq);
    assert_eq!(at.collect::<Vec<_>>(), [log.len() as Seq + 1]);
    assert_eq!(fold(&all).policy, POLICY);
    assert_eq!(verify(&all), []);
    assert_runs_again(&old, all).await;
}

/// A prompt's world is also that of the prompts after it and after a rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_the_world_of_its_last_prompt() {
    let site = Site::new(json!({ "replies": [text("one"), text("of s")] }));
    let other = Site::new(json!({ "replies": [text("of t"), text("two"), text("three")] }));
    let mut live = site.start().await;
    live.prompt(&site, "one");
    live.until_ended().await;
    let mut config = site.config();
    config.model.provider = "t".into();
    let mut world = site.world();
    world.models = Models::new([(
        "t".to_owned(),
        other.world().models.get("s", &Extra::default()).expect("a provider"),
    )]);
    let mut world = Some(Box::new(world));
    for said in ["two", "three"] {
        let prompted = Turn::Prompted {
            parts: vec![PromptPart::text("go")],
            agent: "build".into(),
            model: config.model.name(),
            by: "test".into(),
        };
        live.tell(SessionMessage::Prompt {
            config: Box::new(config.clone()),
            world: world.take(),
            prompted: Box::new(Fact::new(prompted)),
            joins: false,
            reply_to: None,
        });
        let ended = live.until_ended().await;
        let Event::Turn(Turn::Ended(ended)) = ended.event else { unreachable!() };
        assert_eq!(ended.text, said);
        sweep(&live);
        is_free(&site).await;
    }
    live.stop().await;
}

/// Records its calls, and whether another process could open the store at that moment.
#[derive(Clone, Debug, Default)]
struct Notes(Arc<Mutex<Vec<(&'static str, bool)>>>);

impl Notes {
    fn note(&self, what: &'static str, store: &Path) {
        let file = std::fs::File::open(store.join("db")).expect("a database");
        self.0.lock().expect("notes").push((what, file.try_lock().is_ok()));
    }

    fn taken(&self) -> Vec<(&'static str, bool)> {
        std::mem::take(&mut *self.0.lock().expect("notes"))
    }
}

impl StoreListener for Notes {
    fn hold(&self, store: &Path) -> Box<dyn StoreGuard> {
        self.note("held", store);
        Box::new(Held { notes: self.clone(), store: store.to_owned(), rests: false })
    }
}

#[derive(Debug)]
struct Held {
    notes: Notes,
    store: PathBuf,
    rests: bool,
}

impl StoreGuard for Held {
    fn rest(mut self: Box<Self>) {
        self.rests = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.notes.note(if self.rests { "rests" } else { "gone" }, &self.store);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_is_told_of_a_store_only_while_it_is_locked() {
    let site = Site::new(json!({ "replies": [text("one"), text("two")] }));
    let mut live = site.start().await;
    let notes = Notes::default();
    live.node.cast(NodeMessage::Keep(Arc::new(notes.clone()))).expect("a node");
    live.prompt(&site, "one");
    live.until_ended().await;
    assert_eq!(notes.taken(), [("held", false)]);
    sweep(&live);
    is_free(&site).await;
    assert_eq!(notes.taken(), [("rests", false)]);
    live.prompt(&site, "two");
    live.until_ended().await;
    assert_eq!(notes.taken(), [("held", false)]);
    live.stop().await;
    assert_eq!(notes.taken(), [("gone", false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_only_joins_begins_no_turn() {
    let site = Site::new(json!({ "replies": [text("one")] }));
    let mut live = site.start().await;
    let node = live.node.clone();
    let late = |joins| {
        let (node, session) = (node.clone(), site.session);
        let config = Box::new(site.config());
        async move {
            let prompted = Turn::Prompted {
                parts: vec![PromptPart::text("late")],
                agent: "build".into(),
                model: config.model.name(),
                by: "test".into(),
            };
            let prompted = Box::new(Fact::new(prompted));
            ractor::call!(node, |reply_to| NodeMessage::Tell {
                session,
                message: SessionMessage::Prompt {
                    config,
                    world: None,
                    prompted,
                    joins,
                    reply_to: Some(reply_to)
                }
            })
            .expect("an answer")
        }
    };
    assert_eq!(late(true).await, Answered::NotOpen);
    assert_eq!(live.view().await.seq, 0, "nothing was appended");
    assert_eq!(late(false).await, Answered::Accepted);
    live.until_ended().await;
    let head = live.view().await.seq;
    assert_eq!(late(true).await, Answered::NotOpen);
    assert_eq!(live.view().await.seq, head);
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_rests_can_be_watched_and_opened_again() {
    let site = Site::new(json!({ "replies": [text("one")] }));
    let mut live = site.start().await;
    live.prompt(&site, "one");
    live.until_ended().await;
    sweep(&live);
    is_free(&site).await;
    let mut late = live.watch(1).await;
    for event in &live.seen {
        let got = tokio::time::timeout(STEP_TIMEOUT, late.recv()).await.expect("in time");
        assert_eq!(got.as_ref(), Some(event));
    }
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_keeps_its_session_open() {
    let outside = call("read", &json!({ "filePath": "/etc/hostname" }));
    let site = Site::new(json!({ "replies": [outside, text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    let asked = live.until(|e| matches!(e, Event::Permission(Permission::Asked { .. }))).await;
    sweep(&live);
    // the session is asked whether it is at rest before this answer reaches it
    let reply = QuestionReply {
        answer: Answer::Reject,
        feedback: Some("not outside".into()),
        always: None,
        by: "test".into(),
    };
    let (session, of) = (site.session, asked.seq);
    let told = ractor::call!(live.node, |reply_to| NodeMessage::Tell {
        session,
        message: SessionMessage::Answer { of, reply, settles: None, reply_to }
    });
    assert_eq!(told.expect("an answer"), Answered::Accepted);
    live.until_ended().await;
    in_order(&live.seen);
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_store_rest_and_wake_by_themselves() {
    let site = Site::new(json!({ "replies": [text("one"), text("two")] }));
    let mut live = site.start().await;
    let open = Box::new(OpenSession {
        store: site.store(),
        session: SessionId::default().child(2, Time::from_millis(1)),
        world: site.world(),
        created_event: site.created_event(),
        fork_of: None,
    });
    let other = open.session;
    let opened = ractor::call!(live.node, |reply| NodeMessage::Open { open, reply });
    let opened = opened.expect("an answer").expect("a second session in a store that is held");
    assert_eq!(opened.head, 0);
    live.prompt(&site, "one");
    live.until_ended().await;
    sweep(&live);
    is_free(&site).await;
    // two sessions at once, and one of them twice: they share one opening
    let view = |session| {
        let node = live.node.clone();
        async move {
            ractor::call!(node, |reply| NodeMessage::Tell {
                session,
                message: SessionMessage::View(reply)
            })
            .expect("a view")
        }
    };
    let (one, two, again) = tokio::join!(view(site.session), view(other), view(site.session));
    assert_eq!((one.messages.len(), two.seq, again.seq), (2, 0, one.seq));
    live.prompt(&site, "two");
    live.until_ended().await;
    in_order(&live.seen);
    live.stop().await;
}

/// On a clock that stands still, and goes on by itself only while nothing else can happen.
#[tokio::test]
async fn of_many_unused_sessions_few_rest_when_another_is_opened() {
    const OPEN: u64 = 20;
    let site = Site::new(json!({ "replies": [text("one")] }));
    let live = site.start().await;
    let id = |number| SessionId::default().child(number, Time::from_millis(1));
    let open = async |number| {
        let open = Box::new(OpenSession {
            store: site.store(),
            session: id(number),
            world: site.world(),
            created_event: site.created_event(),
            fork_of: None,
        });
        let opened = ractor::call!(live.node, |reply| NodeMessage::Open { open, reply });
        opened.expect("an answer").expect("a session in a store that is held");
    };
    for number in 1..=OPEN {
        open(number).await;
    }
    // until they count as unused
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(2_100)).await;
    open(OPEN + 1).await;
    let still_open = async || {
        let mut open = 0;
        for number in 1..=OPEN {
            let session = id(number);
            let reading = ractor::call!(live.node, |reply| NodeMessage::Reading { session, reply });
            open += u64::from(reading.expect("an answer").is_some());
        }
        open
    };
    while still_open().await == OPEN {
        tokio::task::yield_now().await;
    }
    // until nothing more happens by itself; the clock is paused, so this takes no time
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(still_open().await, OPEN - 2);
    live.stop().await;
}
