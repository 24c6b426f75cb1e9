//! A node with a session in which a scripted model answers, so that there is something to watch.

use std::sync::Arc;

use leftfold_actors::equip::{self, Agent, Setup};
use leftfold_actors::{Models, Node, NodeMessage, Open, SessionMessage, World};
use leftfold_events::event::{PromptPart, Session, Turn};
use leftfold_events::kit::{ModelSpec, Options};
use leftfold_events::{Fact, POLICY, SessionId, Time};
use leftfold_providers::{Config, ScriptSource, Wire};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

const SCRIPT: &str = r#"{ "replies": [
    { "parts": [{ "text": "I look around." }, { "call": { "name": "bash", "input": { "command": "ls" } } }] },
    { "parts": [{ "text": "Nothing here." }] }
] }"#;

pub(crate) async fn live_node() -> Result<(ActorRef<NodeMessage>, SessionId), ActorProcessingErr> {
    let (node, session, prompt) = open(SCRIPT.to_owned()).await?;
    node.cast(prompt)?;
    Ok((node, session))
}

/// A node with a session, and the prompt that sets it going.
pub(crate) async fn open(
    script: String,
) -> Result<(ActorRef<NodeMessage>, SessionId, NodeMessage), ActorProcessingErr> {
    let now = Time::from(std::time::SystemTime::now());
    let session = SessionId::default().child(1, now);
    let folder = std::env::temp_dir().join(format!("leftfold-observer-{session}"));
    std::fs::create_dir(&folder)?;
    let mut config = Config::new("script", Wire::SCRIPTED);
    config.script = Some(ScriptSource::Inline(script));
    let models = Models::new([("script".to_owned(), leftfold_providers::build(config)?)]);
    let workspace = Arc::new(Workspace::new(&folder, &folder, folder.join("spill")));
    let model = ModelSpec { provider: "script".into(), id: "m".into(), ..ModelSpec::default() };
    let name = model.name();
    let directory = folder.display().to_string();
    let birth = Session::Created {
        worktree: directory.clone(),
        directory,
        parent: None,
        agent: "build".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        policy: POLICY,
    };
    let world = World::new(models, workspace, None);
    let (node, _) = Actor::spawn(None, Node, ()).await?;
    let open = Box::new(Open { store: folder.join("store"), session, world, birth });
    ractor::call!(node, |reply| NodeMessage::Open { open, reply })??;
    let (rules, options, sources) = (Vec::new(), Options::default(), equip::Sources::default());
    let agent = Agent::build();
    let setup = Setup {
        directory: &folder,
        worktree: &folder,
        agent,
        model,
        rules,
        options,
        subagents: Vec::new(),
        sources,
        plan: None,
    };
    let kit = Box::new(equip::gather(setup, now).0);
    let (parts, by) = (vec![PromptPart::text("What is here?")], "example".to_owned());
    let prompted = Turn::Prompted { parts, agent: "build".into(), model: name, by };
    let prompted = Box::new(Fact::new(prompted));
    let message = SessionMessage::Prompt { kit, prompted, joins: false, told: None };
    Ok((node, session, NodeMessage::Tell { session, message }))
}

/// It ends when its actor has been told of the end of the turn.
#[test]
fn the_observer_sees_the_turn_through() {
    super::main().unwrap();
}
