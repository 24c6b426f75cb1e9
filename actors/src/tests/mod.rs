//! The tree of actors with a scripted model, in one process.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test is the root of its tree, and looks at it from outside"
)]

mod crash;
mod credentials;
mod files;
mod interrupt;
mod observe;
mod rest;
mod supervise;
mod switch;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{ModelRef, PromptPart, Session, Turn};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::turn_config::{AskMode, ModelSpec, Options, ToolSpec};
use leftfold_events::{Envelope, Event, Fact, POLICY, Seq, SessionId, State, Time, TurnConfig};
use leftfold_plugins::Plugins;
use leftfold_providers::{Config, ScriptSource, Wire};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorRef};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::{
    Listener, Models, Node, NodeMessage, Observation, OpenSession, Opened, SessionMessage, Watch,
    WatchScope, World,
};

/// Far longer than any step here needs; only a failure waits this long.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// A project, a store and a script.
struct Site {
    folder: TempDir,
    session: SessionId,
    script: Value,
    /// Replaces the script.
    provider: Option<Arc<dyn leftfold_providers::Provider>>,
    turn_configs: Option<Arc<dyn crate::TurnConfigs>>,
    plugins: Plugins,
}

impl Site {
    fn new(script: Value) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::create_dir(folder.path().join("project")).expect("a project");
        let session = SessionId::default().child(1, Time::from_millis(1));
        let plugins = Plugins::default();
        Self { folder, session, script, provider: None, turn_configs: None, plugins }
    }

    fn project(&self) -> std::path::PathBuf {
        self.folder.path().join("project").canonicalize().expect("the project")
    }

    fn store(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn world(&self) -> World {
        let mut config = Config::new("s", Wire::SCRIPTED);
        config.script = Some(ScriptSource::Inline(self.script.to_string()));
        config.stall = Duration::from_secs(3_600);
        let scripted = || leftfold_providers::build(config).expect("a script");
        let provider = self.provider.clone().unwrap_or_else(scripted);
        let mut workspace =
            Workspace::new(self.project(), self.project(), self.folder.path().join("spill"));
        workspace.data = Some(self.data());
        workspace.subagents = vec!["general".to_owned()];
        let models = Models::new([("s".to_owned(), provider)]);
        World::new(models, Arc::new(workspace), self.turn_configs.clone())
            .with_plugins(self.plugins.clone())
    }

    fn config(&self) -> TurnConfig {
        let options = Options { ask: AskMode::Ask, timeout: 60_000, ..Options::default() };
        let model = ModelSpec { provider: "s".into(), id: "m".into(), ..ModelSpec::default() };
        let tools = leftfold_tools::tools_for_model(&model.id).into_iter().map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema(),
        });
        let mut rules = rules::defaults();
        let asking = ["question", "plan_enter", "plan_exit"];
        rules.extend(asking.map(|tool| Rule::new(tool, "*", Action::Allow)));
        TurnConfig { tools: tools.collect(), rules, model, options, ..TurnConfig::default() }
    }

    fn created_event(&self) -> Session {
        let directory = self.project().display().to_string();
        Session::Created {
            worktree: directory.clone(),
            directory,
            parent: None,
            agent: "build".into(),
            version: "0".into(),
            policy: POLICY,
        }
    }

    async fn start(&self) -> Live {
        let (node, _) = Actor::spawn(None, Node, ()).await.expect("a node");
        let (session, world) = (self.session, self.world());
        let created_event = self.created_event();
        let open = Box::new(OpenSession {
            store: self.store(),
            session,
            world,
            created_event,
            fork_of: None,
        });
        let opened = ractor::call!(node, |reply| NodeMessage::Open { open, reply });
        let opened = opened.expect("an answer").expect("an open session");
        let mut live =
            Live { node, session, opened, events: mpsc::unbounded_channel().1, seen: Vec::new() };
        live.events = live.watch(live.opened.head + 1).await;
        live
    }

    /// The log on the disk.
    fn log(&self) -> Vec<Envelope> {
        let reader = leftfold_store::Reader::open(&self.store()).expect("a reader");
        reader.read(self.session, 1).expect("the log")
    }

    /// A new site whose log is the first events of this one's.
    fn cut(&self, log: &[Envelope]) -> Self {
        let cut =
            Self { turn_configs: self.turn_configs.clone(), ..Self::new(self.script.clone()) };
        let store = leftfold_store::Store::open(&cut.store()).expect("a store");
        store.import(cut.session, log).expect("imported");
        cut
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap_or_default()
    }
}

/// A node with one watched session.
struct Live {
    node: ActorRef<NodeMessage>,
    session: SessionId,
    opened: Opened,
    events: mpsc::UnboundedReceiver<Envelope>,
    seen: Vec<Envelope>,
}

impl Live {
    fn tell(&self, message: SessionMessage) {
        let tell = NodeMessage::Tell { session: self.session, message };
        self.node.cast(tell).expect("a node");
    }

    fn prompt(&self, site: &Site, text: &str) {
        self.prompt_with(site.config(), text);
    }

    fn prompt_with(&self, config: TurnConfig, text: &str) {
        let prompted = Turn::Prompted {
            parts: vec![PromptPart::text(text)],
            agent: "build".into(),
            model: ModelRef { provider: "s".into(), id: "m".into() },
            by: "test".into(),
        };
        let prompted = Box::new(Fact::new(prompted));
        self.tell(SessionMessage::Prompt {
            config: Box::new(config),
            world: None,
            prompted,
            joins: false,
            reply_to: None,
        });
    }

    fn interrupt(&self) {
        let fact = Fact::new(Turn::Interrupted { by: "test".into() });
        self.tell(SessionMessage::Facts(vec![fact]));
    }

    async fn watch(&self, from: Seq) -> mpsc::UnboundedReceiver<Envelope> {
        let (sender, events) = mpsc::unbounded_channel();
        let sink = Listener::start(move |Observation { events, done }| {
            for event in events.iter() {
                let _ = sender.send(Envelope::clone(event));
            }
            let _ = done.send(());
        });
        let sink = sink.await.expect("a sink");
        let watch = Watch { session: self.session, from, sink, family: WatchScope::Alone };
        self.node.cast(NodeMessage::Watch(watch)).expect("a node");
        events
    }

    /// Waits for the first event that fits.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Envelope {
        loop {
            let event = tokio::time::timeout(STEP_TIMEOUT, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("it never came: {:#?}", self.seen));
            let event = event.expect("the sink lives");
            self.seen.push(event.clone());
            if fits(&event.event) {
                return event;
            }
        }
    }

    async fn until_ended(&mut self) -> Envelope {
        self.until(|event| matches!(event, Event::Turn(Turn::Ended(_)))).await
    }

    async fn view(&self) -> State {
        let session = self.session;
        let view = ractor::call!(self.node, |reply| NodeMessage::Tell {
            session,
            message: SessionMessage::View(reply)
        });
        *view.expect("a view")
    }

    /// Stops like a crash: no more events, no clean-up of turns.
    async fn stop(self) {
        self.node.stop_and_wait(None, None).await.expect("stopped");
    }
}

fn text(text: &str) -> Value {
    json!({ "parts": [{ "text": text }] })
}

fn call(name: &str, input: &Value) -> Value {
    json!({ "parts": [{ "call": { "name": name, "input": input } }] })
}

fn bash(command: &str) -> Value {
    call("bash", &json!({ "command": command }))
}

/// A write, two reads at a time, a command that leaves a mark each time it runs, an answer.
fn repair() -> Value {
    json!({ "replies": [
        { "chunk": 4, "parts": [
            { "reasoning": "hm", "signature": "sig" },
            { "text": "I write it down." },
            { "call": { "name": "write", "input": { "filePath": "a.txt", "content": "one\n" } } }
        ] },
        { "parts": [
            { "call": { "name": "read", "input": { "filePath": "a.txt" } } },
            { "call": { "name": "todowrite", "input": { "todos": [
                { "content": "mark", "status": "pending", "priority": "high" }
            ] } } },
            { "call": { "name": "Read", "input": { "filePath": "missing.txt" } } }
        ] },
        bash("awk 'BEGIN { print \"ran\" >> \"marks.txt\" }'"),
        { "chunk": 5, "parts": [{ "text": "All is done." }] }
    ] })
}

fn names(project: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(project).expect("the project");
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}
