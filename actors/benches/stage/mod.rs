//! A node with a session in which a scripted model answers, for observers to watch.

use std::sync::Arc;

use leftfold_actors::{Models, Node, NodeMessage, OpenSession, SessionMessage, World};
use leftfold_events::event::{PromptPart, Session, Turn};
use leftfold_events::turn_config::{ModelSpec, ToolSpec};
use leftfold_events::{Fact, POLICY, SessionId, Time, TurnConfig};
use leftfold_providers::{Config, ScriptSource, Wire};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// A node with a session, and a prompt that starts it.
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
    let created_event = Session::Created {
        worktree: directory.clone(),
        directory,
        parent: None,
        agent: "build".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        policy: POLICY,
    };
    let world = World::new(models, workspace, None);
    let (node, _) = Actor::spawn(None, Node, ()).await?;
    let open = Box::new(OpenSession {
        store: folder.join("store"),
        session,
        world,
        created_event,
        fork_of: None,
    });
    ractor::call!(node, |reply| NodeMessage::Open { open, reply })??;
    let tools = leftfold_tools::tools_for_model(&model.id).into_iter().map(|tool| ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        schema: tool.schema(),
    });
    let rules = leftfold_events::rules::defaults();
    let config =
        Box::new(TurnConfig { tools: tools.collect(), rules, model, ..TurnConfig::default() });
    let (parts, by) = (vec![PromptPart::text("What is here?")], "example".to_owned());
    let prompted = Turn::Prompted { parts, agent: "build".into(), model: name, by };
    let prompted = Box::new(Fact::new(prompted));
    let message =
        SessionMessage::Prompt { config, world: None, prompted, joins: false, reply_to: None };
    Ok((node, session, NodeMessage::Tell { session, message }))
}
