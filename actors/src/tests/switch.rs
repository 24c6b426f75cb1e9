use leftfold_events::event::{Answer, EndReason, Permission};
use leftfold_events::state::Open;
use leftfold_events::{fold, verify};

use super::*;
use crate::{ChildConfig, Reply, TurnConfigs};

/// Has the agent that takes over work with what is there, and says so; or has none.
#[derive(Debug)]
struct Configs {
    none: bool,
}

impl TurnConfigs for Configs {
    fn for_child(&self, agent: &str, _: &Kit) -> Result<ChildConfig, String> {
        Err(format!("there is no child {agent}"))
    }

    fn for_switch(&self, agent: &str, before: &Kit) -> Result<Kit, String> {
        if self.none {
            return Err(format!("there is no agent {agent}"));
        }
        let mut kit = before.clone();
        kit.system = vec![format!("You are {agent}.")];
        (kit.options.plans, kit.options.reminder) = (true, "Only look.".to_owned());
        Ok(kit)
    }
}

fn site(none: bool) -> Site {
    let script = json!({ "replies": [call("plan_enter", &json!({})), text("I plan.")] });
    Site { turn_configs: Some(Arc::new(Configs { none })), ..Site::new(script) }
}

/// Says yes to whatever is asked until the turn is over.
async fn agree(live: &mut Live, mut asked: Option<Seq>) -> EndReason {
    loop {
        if let Some(of) = asked.take() {
            let reply = Reply { answer: Answer::Once, feedback: None, by: "test".into() };
            let (told, _) = tokio::sync::oneshot::channel();
            live.tell(SessionMessage::Answer { of, reply, told: told.into() });
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

fn switches(log: &[Envelope]) -> usize {
    let switched = |e: &&Envelope| matches!(e.event, Event::Turn(Turn::Switched { .. }));
    log.iter().filter(switched).count()
}

/// The log is cut after every event, and a new node goes on: the other agent takes over once.
#[tokio::test(flavor = "multi_thread")]
async fn every_cut_comes_to_the_same_agent() {
    let site = site(false);
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    assert_eq!(agree(&mut live, None).await, EndReason::Completed);
    live.stop().await;
    let log = site.log();
    for at in 3..log.len() {
        let cut = site.cut(&log[..at]);
        let mut live = cut.start().await;
        let open = fold(&log[..at]);
        let asked = open.open().into_iter().find(|(kind, _)| *kind == Open::Question);
        live.tell(SessionMessage::Resume { kit: Box::new(open.kit), close: false });
        live.until(|e| matches!(e, Event::Session(Session::Resumed { .. }))).await;
        let asked = asked.map(|(_, wait)| wait.intent);
        assert_eq!(agree(&mut live, asked).await, EndReason::Completed, "cut at {at}");
        live.stop().await;
        let whole = cut.log();
        let state = fold(&whole);
        assert_eq!((state.agent.as_str(), switches(&whole)), ("plan", 1), "cut at {at}");
        assert_eq!(state.kit.system, ["You are plan."]);
        assert_eq!(verify(&whole), vec![], "cut at {at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_there_leaves_everything_as_it_was() {
    let site = site(true);
    let mut live = site.start().await;
    live.prompt(&site, "do it");
    assert_eq!(agree(&mut live, None).await, EndReason::Completed);
    live.stop().await;
    let log = site.log();
    let state = fold(&log);
    assert_eq!((state.agent.as_str(), switches(&log)), ("build", 0));
    assert!(format!("{:?}", state.messages).contains("there is no agent plan"));
}
